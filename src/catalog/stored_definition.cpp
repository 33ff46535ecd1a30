#include "catalog/stored_definition.h"

#include "catalog/definition.h"
#include "core/public.h"

namespace index_table {
namespace {

constexpr char kAlias[] = "b"; // the base table's, in the rule

// --- Options -------------------------------------------------------------------

bool IsRepeated(const Key &key, int i) {
    return std::any_of(key.columns, key.columns + i, [&](const KeyColumn &column) {
        return equal(column.whole, key.columns[i].whole);
    });
}

char *WriteOptions(const Definition &definition) {
    StringInfoData text;
    initStringInfo(&text);
    appendStringInfo(&text, "%s keys=%d identity=%d", StrategyName(definition.options.strategy),
                     definition.key.count, list_length(definition.identity));
    AppendOptions(&text, definition.options);
    // ORDER BY names an expression once.
    for (int i = 0; i < definition.key.count; i++) {
        const KeyColumn &column = definition.key.columns[i];
        if (IsRepeated(definition.key, i))
            appendStringInfo(&text, " order%d=%s,%s", i + 1, column.descending ? "desc" : "asc",
                             column.nulls_first ? "first" : "last");
    }
    return text.data;
}

// The text among the columns: strategy, numbers of columns, and what neither columns nor their
// order say, as words between spaces.
struct Options {
    IndexOptions options;
    int keys;
    int identity;
    const char *orders[INDEX_MAX_KEYS]; // by key column; null: as ORDER BY says
};

// order1=…
bool ReadOrder(const char *word, Options *options) {
    int column;
    int length = 0;
    if (sscanf(word, "order%d=%n", &column, &length) != 1 || length == 0 || column < 1 ||
        column > INDEX_MAX_KEYS)
        return false;
    options->orders[column - 1] = word + length;
    return true;
}

bool ReadOptions(const char *text, Options *options) {
    char *save = nullptr;
    char *copy = pstrdup(text);
    bool is_first = true;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(nullptr, " ", &save)) {
        if (is_first)
            options->options.strategy = ParseStrategy(word);
        else if (sscanf(word, "keys=%d", &options->keys) == 1 ||
                 sscanf(word, "identity=%d", &options->identity) == 1 || ReadOrder(word, options) ||
                 ReadOption(word, &options->options))
            ;
        else
            return false;
        is_first = false;
    }
    return options->keys > 0 && options->keys <= INDEX_MAX_KEYS && options->identity > 0 &&
           options->identity <= MaxTupleAttributeNumber;
}

// --- Reading -------------------------------------------------------------------

[[noreturn]] void RaiseNotOurs(Oid relid) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("rule \"%s\" of \"%s\" is not a definition of an index table", kDefinitionRule,
                    get_rel_name(relid)),
             errhint("Drop the table, and create an index table with index_table.create().")));
}

HeapTuple FindRule(Oid relid) {
    return SearchSysCache2(RULERELNAME, ObjectIdGetDatum(relid), PointerGetDatum(kDefinitionRule));
}

// The statements of the rule in `tuple`, the SELECT first.
List *ReadActions(HeapTuple tuple) {
    bool isnull;
    Datum action = SysCacheGetAttr(RULERELNAME, tuple, Anum_pg_rewrite_ev_action, &isnull);
    return static_cast<List *>(stringToNode(TextDatumGetCString(action)));
}

// The place of the base table in the range table, if the query has the form of ours; else 0.
Index BaseIndex(const Query *query) {
    bool has_form = query && query->commandType == CMD_SELECT && query->jointree &&
                    list_length(query->jointree->fromlist) == 1 &&
                    IsA(linitial(query->jointree->fromlist), RangeTblRef) && !query->hasAggs &&
                    !query->hasWindowFuncs && !query->hasSubLinks && query->cteList == NIL &&
                    query->setOperations == nullptr && query->groupClause == NIL &&
                    query->groupingSets == NIL && query->havingQual == nullptr &&
                    query->distinctClause == NIL && query->limitCount == nullptr &&
                    query->limitOffset == nullptr && query->rowMarks == NIL;
    if (!has_form)
        return 0;
    Index index = linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex;
    return rt_fetch(index, query->rtable)->rtekind == RTE_RELATION ? index : 0;
}

const TargetEntry *Target(const Query *query, int i) {
    return list_nth_node(TargetEntry, query->targetList, i);
}

bool IsConst(const TargetEntry *target, Oid type) {
    return IsA(target->expr, Const) && reinterpret_cast<Const *>(target->expr)->consttype == type &&
           !reinterpret_cast<Const *>(target->expr)->constisnull;
}

// The type index_table.relation.
Oid RelationType() {
    return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("relation"),
                           ObjectIdGetDatum(ExtensionSchema()));
}

// Which of the columns says the options; a log and a queue may stand after it. -1: none.
int OptionsColumn(const Query *query) {
    int last = list_length(query->targetList) - 1;
    for (Oid type : {RelationType(), Oid{REGCLASSOID}})
        if (last > 0 && IsConst(Target(query, last), type))
            last--;
    return last > 0 && IsConst(Target(query, last), TEXTOID) ? last : -1;
}

// The constant of a type after the options; InvalidOid: none.
Oid RelationAfter(const Query *query, int options_column, Oid type) {
    for (int i = options_column + 1; i < list_length(query->targetList); i++)
        if (IsConst(Target(query, i), type))
            return DatumGetObjectId(reinterpret_cast<Const *>(Target(query, i)->expr)->constvalue);
    return InvalidOid;
}

// Sets the constants after the options.
void SetRelations(Query *query, Oid log, Oid queue) {
    query->targetList = list_truncate(query->targetList, OptionsColumn(query) + 1);
    auto append = [query](Oid type, Oid relid, const char *name) {
        Const *value =
            makeConst(type, -1, InvalidOid, sizeof(Oid), ObjectIdGetDatum(relid), false, true);
        query->targetList =
            lappend(query->targetList,
                    makeTargetEntry(reinterpret_cast<Expr *>(value), 0, pstrdup(name), false));
    };
    if (OidIsValid(log))
        append(REGCLASSOID, log, "log");
    if (OidIsValid(queue))
        append(RelationType(), queue, "queue");
}

const char *OptionsOf(const Query *query, int column) {
    return TextDatumGetCString(reinterpret_cast<Const *>(Target(query, column)->expr)->constvalue);
}

const SortGroupClause *OrderOf(const Query *query, const TargetEntry *target) {
    return target->ressortgroupref == 0
               ? nullptr
               : get_sortgroupref_clause_noerr(target->ressortgroupref, query->sortClause);
}

bool Orders(Oid family, Oid input, Oid type, Oid sort_operator) {
    return get_op_opfamily_strategy(sort_operator, family) != 0 && IsBinaryCoercible(type, input);
}

// The operator class that the key column of a number is declared with in the ON CONFLICT of the
// second statement; InvalidOid: none.
Oid DeclaredOpclass(const Query *names, int i) {
    const InferenceElem *element =
        names ? list_nth_node(InferenceElem, names->onConflict->arbiterElems, i) : nullptr;
    return element ? element->inferopclass : InvalidOid;
}

// Whether the second statement is one that declares operator classes.
bool DeclaresOpclasses(const Query *names, int keys) {
    return names->commandType == CMD_INSERT && names->onConflict &&
           list_length(names->onConflict->arbiterElems) == keys;
}

Oid SortOperator(const KeyColumn &column) {
    Oid input = get_opclass_input_type(column.opclass);
    return get_opfamily_member(get_opclass_family(column.opclass), input, input,
                               column.descending ? BTGreaterStrategyNumber : BTLessStrategyNumber);
}

bool SetOrder(KeyColumn *column, const SortGroupClause *order, Oid declared) {
    if (!order)
        return false;
    column->opclass =
        OidIsValid(declared) ? declared : GetDefaultOpClass(column->type, BTREE_AM_OID);
    if (!OidIsValid(column->opclass) ||
        !Orders(get_opclass_family(column->opclass), get_opclass_input_type(column->opclass),
                column->type, order->sortop))
        return false;
    column->descending =
        get_op_opfamily_strategy(order->sortop, get_opclass_family(column->opclass)) ==
        BTGreaterStrategyNumber;
    column->nulls_first = order->nulls_first;
    return true;
}

bool SetOrder(KeyColumn *column, const char *order, Oid declared) {
    column->opclass =
        OidIsValid(declared) ? declared : GetDefaultOpClass(column->type, BTREE_AM_OID);
    column->descending = strncmp(order, "desc,", 5) == 0;
    column->nulls_first = strcmp(order + strcspn(order, ","), ",first") == 0;
    return OidIsValid(column->opclass) &&
           IsBinaryCoercible(column->type, get_opclass_input_type(column->opclass));
}

// COLLATE as the topmost node says the collation of the key column, as it does in CREATE INDEX.
Expr *StripCollation(Expr *expr, Oid *collation) {
    *collation = InvalidOid;
    while (IsA(expr, CollateExpr)) {
        if (!OidIsValid(*collation))
            *collation = reinterpret_cast<CollateExpr *>(expr)->collOid;
        expr = reinterpret_cast<CollateExpr *>(expr)->arg;
    }
    return expr;
}

bool ReadKeyColumn(const Query *query, const Query *names, int i, Index base,
                   const Options &options, KeyColumn *column) {
    const TargetEntry *target = Target(query, i);
    Oid collation;
    Expr *expr = StripCollation(target->expr, &collation);
    expr = static_cast<Expr *>(copyObjectImpl(expr));
    ChangeVarNodes(reinterpret_cast<Node *>(expr), base, 1, 0);
    SetKeyExpression(column, expr);
    if (OidIsValid(collation))
        column->collation = collation;
    if (!target->resname)
        return false;
    namestrcpy(&column->name, target->resname);
    Oid declared = DeclaredOpclass(names, i);
    return options.orders[i] ? SetOrder(column, options.orders[i], declared)
                             : SetOrder(column, OrderOf(query, target), declared);
}

bool ReadColumns(const Query *query, Index base, int from, int to, List **attnos) {
    for (int i = from; i < to; i++) {
        const Var *var = reinterpret_cast<const Var *>(Target(query, i)->expr);
        if (!IsA(var, Var) || var->varno != static_cast<int>(base) || var->varattno <= 0)
            return false;
        *attnos = lappend_int(*attnos, var->varattno);
    }
    return true;
}

bool ReadKey(const Query *query, const Query *names, Index base, const Options &options, Key *key) {
    int count = options.keys;
    *key = {.count = count, .columns = palloc0_array(KeyColumn, count), .multi_valued = -1};
    for (int i = 0; i < count; i++) {
        if (!ReadKeyColumn(query, names, i, base, options, &key->columns[i]))
            return false;
        if (key->columns[i].shape == KeyShape::Single)
            continue;
        if (key->multi_valued >= 0)
            return false;
        key->multi_valued = i;
    }
    return true;
}

// NEW is in the range table of a rule ON INSERT, but not in its FROM.
bool HasOtherVars(Node *node, Index *base) {
    if (node == nullptr)
        return false;
    if (IsA(node, Var))
        return reinterpret_cast<Var *>(node)->varno != static_cast<int>(*base) ||
               reinterpret_cast<Var *>(node)->varlevelsup != 0;
    return compat::WalkExpression(node, HasOtherVars, base);
}

bool Read(const List *actions, Definition *definition) {
    const Query *query = actions != NIL ? linitial_node(Query, actions) : nullptr;
    const Query *names = list_length(actions) == 2 ? lsecond_node(Query, actions) : nullptr;
    if (list_length(actions) > 2)
        return false;
    Index base = BaseIndex(query);
    int options_column = base != 0 ? OptionsColumn(query) : -1;
    Options options = {};
    if (options_column < 0 || !ReadOptions(OptionsOf(query, options_column), &options) ||
        HasOtherVars(reinterpret_cast<Node *>(query->targetList), &base) ||
        HasOtherVars(query->jointree->quals, &base))
        return false;
    if (names && !DeclaresOpclasses(names, options.keys))
        return false;
    int rest = options.keys + options.identity;
    *definition = {.options = options.options};
    definition->base = rt_fetch(base, query->rtable)->relid;
    definition->log = RelationAfter(query, options_column, REGCLASSOID);
    definition->queue = RelationAfter(query, options_column, RelationType());
    if (Node *quals = query->jointree->quals) {
        quals = static_cast<Node *>(copyObjectImpl(quals));
        ChangeVarNodes(quals, base, 1, 0);
        definition->predicate = reinterpret_cast<Expr *>(quals);
    }
    return rest <= options_column && ReadKey(query, names, base, options, &definition->key) &&
           ReadColumns(query, base, options.keys, rest, &definition->identity) &&
           ReadColumns(query, base, rest, options_column, &definition->include);
}

// --- Writing -------------------------------------------------------------------

// One or more key columns in the order of the B-tree. Operators are named only where they are not
// the type's own: by its name another may be found, such as one on a domain.
void AppendOrderBy(StringInfo sql, const Definition &definition) {
    for (int i = 0; i < definition.key.count; i++) {
        const KeyColumn &column = definition.key.columns[i];
        appendStringInfo(sql, "%s%d ", i ? ", " : " ORDER BY ", i + 1);
        if (IsDefaultOpclass(column))
            appendStringInfoString(sql, column.descending ? "DESC" : "ASC");
        else
            appendStringInfo(sql, "USING %s", OperatorName(SortOperator(column)));
        appendStringInfo(sql, " NULLS %s", column.nulls_first ? "FIRST" : "LAST");
    }
}

// ORDER BY tells operators alone, which several operator classes may share. One that is not the
// type's own is declared by a second statement, in the one place in which a statement can.
void AppendOpclasses(StringInfo sql, const Definition &definition) {
    const Key &key = definition.key;
    StringInfoData columns;
    initStringInfo(&columns);
    bool any = false;
    for (int i = 0; i < key.count; i++) {
        bool is_declared = !IsDefaultOpclass(key.columns[i]);
        any = any || is_declared;
        appendStringInfo(&columns, "%s%s%s%s", i ? ", " : "",
                         quote_identifier(NameStr(key.columns[i].name)), is_declared ? " " : "",
                         is_declared ? OperatorClassName(key.columns[i].opclass) : "");
    }
    if (any)
        appendStringInfo(sql, "; INSERT INTO %s DEFAULT VALUES ON CONFLICT (%s) DO NOTHING",
                         QualifiedName(definition.relid), columns.data);
}

void AppendColumns(StringInfo sql, Oid base, const List *attnos) {
    ListCell *cell;
    foreach (cell, attnos)
        appendStringInfo(sql, "%s.%s, ", kAlias,
                         quote_identifier(get_attname(base, lfirst_int(cell), false)));
}

// Replaces the query of a rule. Sessions hear of it through the index table.
template <typename Edit>
bool EditQuery(Oid relid, Edit edit) {
    HeapTuple tuple = FindRule(relid);
    if (!HeapTupleIsValid(tuple))
        return false;
    List *actions = ReadActions(tuple);
    bool changed = actions != NIL && edit(linitial_node(Query, actions));
    if (changed) {
        int number = 0;
        ListCell *cell;
        foreach (cell, linitial_node(Query, actions)->targetList)
            lfirst_node(TargetEntry, cell)->resno = ++number;
        Relation rules = table_open(RewriteRelationId, RowExclusiveLock);
        Datum values[Natts_pg_rewrite] = {};
        bool nulls[Natts_pg_rewrite] = {};
        bool replace[Natts_pg_rewrite] = {};
        values[Anum_pg_rewrite_ev_action - 1] = CStringGetTextDatum(nodeToString(actions));
        replace[Anum_pg_rewrite_ev_action - 1] = true;
        HeapTuple copy = heap_modify_tuple(tuple, RelationGetDescr(rules), values, nulls, replace);
        CatalogTupleUpdate(rules, &copy->t_self, copy);
        table_close(rules, RowExclusiveLock);
        CacheInvalidateRelcacheByRelid(relid);
    }
    ReleaseSysCache(tuple);
    if (changed) {
        CommandCounterIncrement();
        ReleaseDefinition(relid); // pg_upgrade may have brought it
    }
    return changed;
}

Const *TextConst(const char *text) {
    return makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1, CStringGetTextDatum(text), false,
                     false);
}

void SetOptions(Query *query, const Definition &definition) {
    list_nth_node(TargetEntry, query->targetList, OptionsColumn(query))->expr =
        reinterpret_cast<Expr *>(TextConst(WriteOptions(definition)));
}

// What is stored must be what was meant.
void CheckStored(const Definition &meant) {
    const Definition *stored = ReadDefinition(meant.relid);
    for (int i = 0; i < meant.key.count; i++) {
        const KeyColumn &a = meant.key.columns[i];
        const KeyColumn &b = stored->key.columns[i];
        if (a.type != b.type || a.typmod != b.typmod || a.collation != b.collation ||
            a.opclass != b.opclass || a.descending != b.descending ||
            a.nulls_first != b.nulls_first)
            elog(ERROR, "key column %d of index table \"%s\" was not stored as it is", i + 1,
                 get_rel_name(meant.relid));
    }
}

} // namespace

Definition *ReadDefinition(Oid relid) {
    Assert(IsMemoryFreed());
    HeapTuple tuple = FindRule(relid);
    if (!HeapTupleIsValid(tuple))
        return nullptr;
    Definition *definition = palloc0_object(Definition);
    bool is_ours = Read(ReadActions(tuple), definition);
    ReleaseSysCache(tuple);
    if (!is_ours)
        RaiseNotOurs(relid);
    definition->relid = relid;
    return definition;
}

char *DefinitionStatement(const Definition &definition) {
    int nest_level = SecureSearchPath();
    UseLosslessText();
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "CREATE OR REPLACE RULE %s AS ON DELETE TO %s DO ALSO (SELECT ",
                     kDefinitionRule, QualifiedName(definition.relid));
    for (const KeyColumn &column : std::span(definition.key.columns, definition.key.count))
        appendStringInfo(&sql, "%s AS %s, ", DeparseKeyValue(definition.base, column, kAlias),
                         quote_identifier(NameStr(column.name)));
    AppendColumns(&sql, definition.base, definition.identity);
    AppendColumns(&sql, definition.base, definition.include);
    appendStringInfo(&sql, "%s::pg_catalog.text AS options",
                     quote_literal_cstr(WriteOptions(definition)));
    if (OidIsValid(definition.log))
        appendStringInfo(&sql, ", %s::pg_catalog.regclass AS log",
                         quote_literal_cstr(QualifiedName(definition.log)));
    if (OidIsValid(definition.queue))
        appendStringInfo(&sql, ", %s::index_table.relation AS queue",
                         quote_literal_cstr(QualifiedName(definition.queue)));
    appendStringInfo(&sql, " FROM %s AS %s", QualifiedName(definition.base), kAlias);
    if (definition.predicate)
        appendStringInfo(&sql, " WHERE %s",
                         DeparseForQuery(definition.base, definition.predicate, kAlias));
    AppendOrderBy(&sql, definition);
    AppendOpclasses(&sql, definition);
    appendStringInfoChar(&sql, ')');
    AtEOXact_GUC(false, nest_level);
    return sql.data;
}

void StoreDefinition(Oid relid, const char *statement) {
    FAULT_POINT("stored_definition.store_definition");
    Assert(compat::OwnsRelation(relid));
    int nest_level = SecureSearchPath();
    UseLosslessText();
    RawStmt *parsed = linitial_node(RawStmt, raw_parser(statement, RAW_PARSE_DEFAULT));
    DefineRule(castNode(RuleStmt, parsed->stmt), statement);
    CommandCounterIncrement();
    Relation rel = table_open(relid, NoLock);
    EnableDisableRule(rel, kDefinitionRule, RULE_DISABLED);
    table_close(rel, NoLock);
    CommandCounterIncrement();
    AtEOXact_GUC(false, nest_level);
    ReleaseDefinition(relid);
    Assert(IsLocked(relid, AccessExclusiveLock));
}

void StoreDefinition(const Definition &definition) {
    StoreDefinition(definition.relid, DefinitionStatement(definition));
    CheckStored(definition);
}

void StoreIncludedColumn(Oid relid, AttrNumber base_attno) {
    Assert(base_attno > 0);
    EditQuery(relid, [=](Query *query) {
        Index base = BaseIndex(query);
        Oid base_oid = rt_fetch(base, query->rtable)->relid;
        Oid type, collation;
        int32 typmod;
        get_atttypetypmodcoll(base_oid, base_attno, &type, &typmod, &collation);
        Var *var = makeVar(base, base_attno, type, typmod, collation, 0);
        TargetEntry *target = makeTargetEntry(reinterpret_cast<Expr *>(var), 0,
                                              get_attname(base_oid, base_attno, false), false);
        query->targetList = list_insert_nth(query->targetList, OptionsColumn(query), target);
        return true;
    });
}

bool ForgetDroppedColumns(Oid relid) {
    return EditQuery(relid, [](Query *query) {
        Index base = BaseIndex(query);
        int options_column = OptionsColumn(query);
        Options options = {};
        if (base == 0 || options_column < 0 ||
            !ReadOptions(OptionsOf(query, options_column), &options))
            return false;
        bool changed = false;
        for (int i = options_column - 1; i >= options.keys + options.identity; i--) {
            const Var *var = reinterpret_cast<const Var *>(Target(query, i)->expr);
            HeapTuple column =
                SearchSysCacheAttNum(rt_fetch(base, query->rtable)->relid, var->varattno);
            if (HeapTupleIsValid(column)) { // it is not dropped
                ReleaseSysCache(column);
                continue;
            }
            query->targetList = list_delete_nth_cell(query->targetList, i);
            changed = true;
        }
        return changed;
    });
}

void StoreColumnTypes(Oid relid) {
    EditQuery(relid, [](Query *query) {
        Oid base = rt_fetch(BaseIndex(query), query->rtable)->relid;
        int options_column = OptionsColumn(query);
        Options options = {};
        if (!ReadOptions(OptionsOf(query, options_column), &options))
            return false;
        for (int i = options.keys; i < options_column; i++) {
            Var *var = castNode(Var, Target(query, i)->expr);
            get_atttypetypmodcoll(base, var->varattno, &var->vartype, &var->vartypmod,
                                  &var->varcollid);
        }
        return true;
    });
}

void StoreLog(Oid relid, Oid log) {
    EditQuery(relid, [=](Query *query) {
        SetRelations(query, log, RelationAfter(query, OptionsColumn(query), RelationType()));
        return true;
    });
}

void StoreMaintenance(Oid relid, bool deferred, Oid queue) {
    FAULT_POINT("stored_definition.store_maintenance");
    Definition *definition = ReadDefinition(relid);
    definition->options.is_deferred = deferred;
    EditQuery(relid, [=](Query *query) {
        SetOptions(query, *definition);
        SetRelations(query, definition->log, queue);
        return true;
    });
}

void StoreVisibility(Oid relid, bool visible) {
    FAULT_POINT("stored_definition.store_visibility");
    Definition *definition = ReadDefinition(relid);
    definition->options.is_visible = visible;
    EditQuery(relid, [=](Query *query) {
        SetOptions(query, *definition);
        return true;
    });
}

void ReleaseDefinition(Oid relid) {
    Oid rule = get_rewrite_oid(relid, kDefinitionRule, true);
    if (!OidIsValid(rule))
        return;
    deleteDependencyRecordsFor(RewriteRelationId, rule, false);
    ObjectAddress self, referenced;
    ObjectAddressSet(self, RewriteRelationId, rule);
    ObjectAddressSet(referenced, RelationRelationId, relid);
    recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    ObjectAddressSet(referenced, ExtensionRelationId, get_extension_oid("index_table", false));
    recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    CommandCounterIncrement();
}

} // namespace index_table
