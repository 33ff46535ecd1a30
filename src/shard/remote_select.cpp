#include "shard/remote_select.h"

#include "core/public.h"

namespace index_table {

// A plan for a number of partitions.
struct SetPlan {
    int count;
    Oid *leaves;
    PlannedStmt *plan;
    MemoryContext context;
    uint64 used;
};

struct RemoteSelect {
    static constexpr int kPlans = 16;
    RemoteQuestion question;
    Oid *array_types;
    HTAB *leaves; // LeafSelect
    SetPlan plans[kPlans];
    MemoryContext context;
    bool valid;
    int pins;
    uint64 used;
};

namespace {

// Conditions on several identity columns one by one let any value of one come with any of another.
// Where a statement is sent past the wrapper they are compared together, if their types are such
// that the shard finds the operators by name.
bool CanCompareTogether(const RemoteSelect *select) {
    int count = list_length(select->question.identity);
    return count > 1 && !select->question.or_null &&
           std::all_of(select->array_types, select->array_types + count, [](Oid type) {
               return OidIsValid(type) && type < FirstGenbkiObjectId &&
                      get_element_type(type) != BPCHAROID;
           });
}

// --- The query of one partition ----------------------------------------------

// Finding rows by `column = ANY (parameter)`, with the operator of the column's own order.
Node *MakeIdentityCondition(Var *column, Oid array_type, int parameter) {
    Oid opclass = GetDefaultOpClass(column->vartype, BTREE_AM_OID);
    Oid input = get_opclass_input_type(opclass);
    Oid equals =
        get_opfamily_member(get_opclass_family(opclass), input, input, BTEqualStrategyNumber);
    Oid element = get_element_type(array_type);
    Node *left = reinterpret_cast<Node *>(column);
    if (element != column->vartype)
        left =
            reinterpret_cast<Node *>(makeRelabelType(reinterpret_cast<Expr *>(column), element, -1,
                                                     column->varcollid, COERCE_IMPLICIT_CAST));
    Param *param = makeNode(Param);
    param->paramkind = PARAM_EXTERN;
    param->paramid = parameter;
    param->paramtype = array_type;
    param->paramtypmod = -1;
    // None but the column's own collation says how they compare.
    param->paramcollid = get_typcollation(array_type);
    param->location = -1;
    ScalarArrayOpExpr *any = makeNode(ScalarArrayOpExpr);
    any->opno = equals;
    set_sa_opfuncid(any);
    any->useOr = true;
    any->inputcollid = column->varcollid;
    any->args = list_make2(left, param);
    any->location = -1;
    return reinterpret_cast<Node *>(any);
}

Node *OrNull(Node *condition, Var *column) {
    NullTest *test = makeNode(NullTest);
    test->arg = static_cast<Expr *>(copyObjectImpl(column));
    test->nulltesttype = IS_NULL;
    test->location = -1;
    return reinterpret_cast<Node *>(make_orclause(list_make2(condition, test)));
}

// How a partition's query differs from the question.
struct LeafTerms {
    TupleDesc descriptor;
    const AttrMap *map; // null: columns as the base table's
    int identity_count;
    int parameter_shift; // of parameters that are not the identity's
};

Var *MakeLeafColumn(const LeafTerms &terms, AttrNumber base_attno) {
    if (base_attno == SelfItemPointerAttributeNumber)
        return makeVar(1, base_attno, TIDOID, -1, InvalidOid, 0);
    AttrNumber attno = terms.map ? terms.map->attnums[base_attno - 1] : base_attno;
    Form_pg_attribute att = TupleDescAttr(terms.descriptor, attno - 1);
    return makeVar(1, attno, att->atttypid, att->atttypmod, att->attcollation, 0);
}

Node *ToLeafTerms(Node *node, LeafTerms *terms) {
    if (node && IsA(node, Var))
        return reinterpret_cast<Node *>(
            MakeLeafColumn(*terms, reinterpret_cast<Var *>(node)->varattno));
    if (node && IsA(node, Param)) {
        Param *param = static_cast<Param *>(copyObjectImpl(node));
        param->paramid += terms->parameter_shift;
        return reinterpret_cast<Node *>(param);
    }
    return compat::MutateExpression(node, ToLeafTerms, terms);
}

void MarkRows(Query *query, LockClauseStrength strength) {
    RowMarkClause *clause = makeNode(RowMarkClause);
    clause->rti = 1;
    clause->strength = strength;
    clause->waitPolicy = LockWaitBlock;
    query->rowMarks = list_make1(clause);
    query->hasForUpdate = true;
}

// SELECT number, columns FROM ONLY leaf WHERE conditions; the leaf is one of `count`. Those of the
// identity only with `by_identity`.
Query *MakeLeafQuery(const RemoteSelect *select, Oid relid, int number, int count,
                     bool by_identity) {
    const RemoteQuestion &question = select->question;
    Relation base = table_open(question.base, AccessShareLock);
    Relation leaf = table_open(relid, AccessShareLock);
    AttrMap *map = compat::MapColumnsByName(RelationGetDescr(leaf), RelationGetDescr(base));
    int identities = list_length(question.identity);
    LeafTerms terms = {RelationGetDescr(leaf), map, identities, (count - 1) * identities};

    ParseState *state = make_parsestate(nullptr);
    RangeTblEntry *rte =
        addRangeTableEntryForRelation(state, leaf, AccessShareLock, nullptr, false, true)->p_rte;
    Query *query = makeNode(Query);
    query->commandType = CMD_SELECT;
    query->querySource = QSRC_ORIGINAL;
    query->canSetTag = true;
    query->rtable = state->p_rtable;
    // Whoever may read the parent may read its partitions.
    compat::SetUncheckedReader(query, state, rte, question.user);

    auto add_column = [&](Expr *expr, const char *name) {
        query->targetList =
            lappend(query->targetList, makeTargetEntry(expr, list_length(query->targetList) + 1,
                                                       pstrdup(name), false));
    };
    add_column(reinterpret_cast<Expr *>(makeConst(INT4OID, -1, InvalidOid, sizeof(int32),
                                                  Int32GetDatum(number), false, true)),
               "number");
    ListCell *cell;
    foreach (cell, question.columns) {
        Var *column = MakeLeafColumn(terms, lfirst_int(cell));
        add_column(reinterpret_cast<Expr *>(column),
                   column->varattno < 0
                       ? "ctid"
                       : NameStr(TupleDescAttr(terms.descriptor, column->varattno - 1)->attname));
    }
    List *quals = NIL;
    foreach (cell, by_identity ? question.identity : NIL) {
        int i = foreach_current_index(cell);
        if (!OidIsValid(select->array_types[i]))
            continue;
        Var *column = MakeLeafColumn(terms, lfirst_int(cell));
        Node *condition =
            MakeIdentityCondition(column, select->array_types[i], number * identities + i + 1);
        quals = lappend(quals, question.or_null ? OrNull(condition, column) : condition);
    }
    foreach (cell, question.conditions)
        quals = lappend(quals, ToLeafTerms(static_cast<Node *>(lfirst(cell)), &terms));
    RangeTblRef *reference = makeNode(RangeTblRef);
    reference->rtindex = 1;
    query->jointree =
        makeFromExpr(list_make1(reference), reinterpret_cast<Node *>(make_ands_explicit(quals)));
    if (quals == NIL)
        query->jointree->quals = nullptr;
    if (question.lock != LCS_NONE)
        MarkRows(query, question.lock);
    free_parsestate(state);
    table_close(leaf, NoLock);
    table_close(base, NoLock);
    return query;
}

// The queries of several partitions, joined by UNION ALL.
Query *MakeUnion(List *queries) {
    if (list_length(queries) == 1)
        return linitial_node(Query, queries);
    ParseState *state = make_parsestate(nullptr);
    Query *query = makeNode(Query);
    query->commandType = CMD_SELECT;
    query->querySource = QSRC_ORIGINAL;
    query->canSetTag = true;
    List *types = NIL, *typmods = NIL, *collations = NIL;
    ListCell *cell;
    foreach (cell, linitial_node(Query, queries)->targetList) {
        TargetEntry *entry = lfirst_node(TargetEntry, cell);
        Node *expr = reinterpret_cast<Node *>(entry->expr);
        types = lappend_oid(types, exprType(expr));
        typmods = lappend_int(typmods, exprTypmod(expr));
        collations = lappend_oid(collations, exprCollation(expr));
        Var *column =
            makeVar(1, entry->resno, exprType(expr), exprTypmod(expr), exprCollation(expr), 0);
        query->targetList = lappend(query->targetList,
                                    makeTargetEntry(reinterpret_cast<Expr *>(column), entry->resno,
                                                    pstrdup(entry->resname), false));
    }
    Node *tree = nullptr;
    foreach (cell, queries) {
        addRangeTableEntryForSubquery(state, lfirst_node(Query, cell), makeAlias("leaf", NIL),
                                      false, false);
        RangeTblRef *reference = makeNode(RangeTblRef);
        reference->rtindex = list_length(state->p_rtable);
        if (!tree) {
            tree = reinterpret_cast<Node *>(reference);
            continue;
        }
        SetOperationStmt *operation = makeNode(SetOperationStmt);
        operation->op = SETOP_UNION;
        operation->all = true;
        operation->larg = tree;
        operation->rarg = reinterpret_cast<Node *>(reference);
        operation->colTypes = types;
        operation->colTypmods = typmods;
        operation->colCollations = collations;
        tree = reinterpret_cast<Node *>(operation);
    }
    query->rtable = state->p_rtable;
    query->jointree = makeFromExpr(NIL, nullptr);
    query->setOperations = tree;
    free_parsestate(state);
    return query;
}

PlannedStmt *PlanLeaves(const RemoteSelect *select, const Oid *leaves, int count,
                        bool by_identity) {
    List *queries = NIL;
    for (int i = 0; i < count; i++)
        queries = lappend(queries, MakeLeafQuery(select, leaves[i], i, count, by_identity));
    return compat::PlanWithoutHooks(MakeUnion(queries), nullptr);
}

// --- What a wrapper made of it -----------------------------------------------

bool IsPostgres(Oid server) {
    ForeignDataWrapper *wrapper = GetForeignDataWrapper(GetForeignServer(server)->fdwid);
    const char *handler = get_func_name(wrapper->fdwhandler);
    return handler && strcmp(handler, "postgres_fdw_handler") == 0;
}

// Finds the parameters of a scan's statement; false where they are something else.
bool ReadParameters(const RemoteSelect *select, const ForeignScan *scan, LeafSelect *leaf) {
    leaf->parameter_count = list_length(scan->fdw_exprs);
    leaf->parameters = palloc_array(int, leaf->parameter_count + 1);
    ListCell *cell;
    foreach (cell, scan->fdw_exprs) {
        Param *param = static_cast<Param *>(lfirst(cell));
        if (!IsA(param, Param) || param->paramkind != PARAM_EXTERN)
            return false;
        leaf->parameters[foreach_current_index(cell)] = param->paramid - 1;
    }
    leaf->is_selective = true;
    for (int i = 0; !CanCompareTogether(select) && i < list_length(select->question.identity); i++)
        leaf->is_selective = leaf->is_selective &&
                             std::find(leaf->parameters, leaf->parameters + leaf->parameter_count,
                                       i) != leaf->parameters + leaf->parameter_count;
    return true;
}

// Finds the question's columns among those of a scan's statement; false where some are missing.
bool ReadColumns(const RemoteSelect *select, const AttrMap *map, List *retrieved,
                 LeafSelect *leaf) {
    leaf->result_count = list_length(retrieved);
    leaf->result = palloc_array(int, list_length(select->question.columns) + 1);
    ListCell *cell, *found;
    foreach (cell, select->question.columns) {
        AttrNumber attno = map ? map->attnums[lfirst_int(cell) - 1] : lfirst_int(cell);
        int place = -1;
        foreach (found, retrieved)
            if (lfirst_int(found) == attno)
                place = foreach_current_index(found);
        if (place < 0)
            return false;
        leaf->result[foreach_current_index(cell)] = place;
    }
    return true;
}

// postgres_fdw's private lists begin with the statement and the columns it brings.
const char *ReadStatement(const RemoteSelect *select, const AttrMap *map, const PlannedStmt *plan,
                          LeafSelect *leaf) {
    const ForeignScan *scan = reinterpret_cast<const ForeignScan *>(plan->planTree);
    if (!IsA(scan, ForeignScan) || !IsPostgres(leaf->server) || list_length(scan->fdw_private) < 2)
        return nullptr;
    Node *sql = static_cast<Node *>(linitial(scan->fdw_private));
    List *retrieved = static_cast<List *>(lsecond(scan->fdw_private));
    if (!IsA(sql, String) || !IsA(retrieved, IntList) || !ReadParameters(select, scan, leaf) ||
        !ReadColumns(select, map, retrieved, leaf))
        return nullptr;
    return pstrdup(strVal(sql));
}

void DescribeLeaf(const RemoteSelect *select, LeafSelect *leaf) {
    Relation base = table_open(select->question.base, AccessShareLock);
    Relation rel = table_open(leaf->leaf, AccessShareLock);
    AttrMap *map = compat::MapColumnsByName(RelationGetDescr(rel), RelationGetDescr(base));
    leaf->server = GetForeignTable(leaf->leaf)->serverid;
    MemoryContext planning =
        AllocSetContextCreate(CurrentMemoryContext, "index_table planning", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(planning);
    PlannedStmt *plan = PlanLeaves(select, &leaf->leaf, 1, !CanCompareTogether(select));
    MemoryContextSwitchTo(select->context);
    leaf->sql = ReadStatement(select, map, plan, leaf);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(planning);
    table_close(rel, NoLock);
    table_close(base, NoLock);
}

// --- The cache ---------------------------------------------------------------

constexpr int kSelects = 64;
constinit RemoteSelect *selects[kSelects] = {};
constinit MemoryContext outdated = nullptr;
constinit uint64 use_counter = 0;

bool IsEqual(const RemoteQuestion &a, const RemoteQuestion &b) {
    return a.base == b.base && a.user == b.user && equal(a.columns, b.columns) &&
           equal(a.identity, b.identity) && a.or_null == b.or_null &&
           equal(a.conditions, b.conditions) && a.lock == b.lock;
}

RemoteSelect *MakeSelect(const RemoteQuestion &question) {
    MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "index_table remote select",
                                                  ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    RemoteSelect *select = palloc0_object(RemoteSelect);
    select->context = context;
    select->valid = true;
    select->question = {.base = question.base,
                        .user = question.user,
                        .columns = list_copy(question.columns),
                        .identity = list_copy(question.identity),
                        .or_null = question.or_null,
                        .conditions = static_cast<List *>(copyObjectImpl(question.conditions)),
                        .lock = question.lock};
    select->array_types = palloc_array(Oid, list_length(question.identity) + 1);
    ListCell *cell;
    foreach (cell, question.identity)
        select->array_types[foreach_current_index(cell)] =
            IdentityArrayType(get_atttype(question.base, lfirst_int(cell)));
    select->leaves = MakeHashTable<Oid, LeafSelect>("index_table remote selects", 16, context);
    MemoryContextSwitchTo(caller);
    MemoryContextSetParent(context, CacheMemoryContext);
    return select;
}

// What is in use is kept until nobody can be using it.
void Discard(MemoryContext context, bool in_use) {
    if (in_use)
        MemoryContextSetParent(context, outdated);
    else
        MemoryContextDelete(context);
}

// Runs inside cache invalidation: marks only.
void OnRelationChange(Datum, Oid relid) {
    for (RemoteSelect *select : selects)
        if (select && (!OidIsValid(relid) || relid == select->question.base ||
                       hash_search(select->leaves, &relid, HASH_FIND, nullptr)))
            select->valid = false;
}

void OnCatalogChange(Datum, compat::CacheNumber, uint32) {
    OnRelationChange(0, InvalidOid);
}

} // namespace

RemoteSelect *PinSelect(const RemoteQuestion &question) {
    if (!outdated)
        outdated = AllocSetContextCreate(CacheMemoryContext, "index_table outdated selects",
                                         ALLOCSET_SMALL_SIZES);
    int place = 0;
    for (int i = 0; i < kSelects; i++) {
        RemoteSelect *select = selects[i];
        if (select && !select->valid) {
            selects[i] = nullptr;
            Discard(select->context, select->pins > 0);
            select = nullptr;
        }
        if (select && IsEqual(select->question, question)) {
            select->pins++;
            select->used = ++use_counter;
            return select;
        }
        if (selects[place] && (!select || select->used < selects[place]->used))
            place = i;
    }
    RemoteSelect *select = MakeSelect(question);
    if (selects[place])
        Discard(selects[place]->context, selects[place]->pins > 0);
    selects[place] = select;
    select->pins = 1;
    select->used = ++use_counter;
    return select;
}

void UnpinSelect(RemoteSelect *select) {
    select->pins--;
}

Oid IdentityParameterType(const RemoteSelect *select, int i) {
    return select->array_types[i];
}

const LeafSelect *GetLeafSelect(RemoteSelect *select, Oid leaf) {
    Assert(OidIsValid(leaf));
    LockRelationOid(leaf, AccessShareLock);
    LeafSelect *known =
        static_cast<LeafSelect *>(hash_search(select->leaves, &leaf, HASH_FIND, nullptr));
    if (known)
        return known;
    LeafSelect description = {.leaf = leaf};
    DescribeLeaf(select, &description);
    bool found;
    known = static_cast<LeafSelect *>(hash_search(select->leaves, &leaf, HASH_ENTER, &found));
    *known = description;
    return known;
}

PlannedStmt *PlanRemoteSelect(RemoteSelect *select, const Oid *leaves, int count) {
    Assert(count > 0);
    SetPlan *place = &select->plans[0];
    for (SetPlan &plan : select->plans) {
        if (plan.plan && plan.count == count &&
            memcmp(plan.leaves, leaves, sizeof(Oid) * count) == 0) {
            for (int i = 0; i < count; i++)
                LockRelationOid(leaves[i], AccessShareLock);
            plan.used = ++use_counter;
            return plan.plan;
        }
        if (plan.used < place->used)
            place = &plan;
    }
    MemoryContext planning =
        AllocSetContextCreate(CurrentMemoryContext, "index_table planning", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(planning);
    PlannedStmt *made = PlanLeaves(select, leaves, count, true);
    // Whoever changes one of them changes the plan.
    for (int i = 0; i < count; i++)
        GetLeafSelect(select, leaves[i]);
    MemoryContext context =
        AllocSetContextCreate(planning, "index_table remote plan", ALLOCSET_SMALL_SIZES);
    MemoryContextSwitchTo(context);
    SetPlan kept = {.count = count,
                    .leaves = palloc_array(Oid, count),
                    .plan = static_cast<PlannedStmt *>(copyObjectImpl(made)),
                    .context = context,
                    .used = ++use_counter};
    memcpy(kept.leaves, leaves, sizeof(Oid) * count);
    MemoryContextSwitchTo(caller);
    if (place->plan)
        Discard(place->context, select->pins > 1);
    *place = kept;
    MemoryContextSetParent(context, select->context);
    MemoryContextDelete(planning);
    return kept.plan;
}

const char *WrapperStatement(RemoteSelect *select, Oid leaf) {
    const Plan *plan = PlanRemoteSelect(select, &leaf, 1)->planTree;
    if (IsA(plan, LockRows)) // the wrapper's scan has locked them
        plan = outerPlan(plan);
    const ForeignScan *scan = reinterpret_cast<const ForeignScan *>(plan);
    if (!IsA(scan, ForeignScan) || !IsPostgres(scan->fs_server) || scan->fdw_private == NIL ||
        !IsA(linitial(scan->fdw_private), String))
        return nullptr;
    return strVal(linitial(scan->fdw_private));
}

namespace {

// The number that a parameter has in a combined statement.
int NumberOf(CombinedSelect *combined, int parameter) {
    int *end = combined->parameters + combined->parameter_count;
    int number = std::find(combined->parameters, end, parameter) - combined->parameters;
    if (number == combined->parameter_count)
        combined->parameters[combined->parameter_count++] = parameter;
    return number + 1;
}

void AppendTogether(StringInfo sql, const RemoteSelect *select, const LeafSelect *leaf, int number,
                    CombinedSelect *combined) {
    const RemoteQuestion &question = select->question;
    int count = list_length(question.identity);
    StringInfoData arrays;
    initStringInfo(&arrays);
    ListCell *cell, *column;
    appendStringInfoString(sql, " WHERE (");
    foreach (cell, question.identity) {
        int i = foreach_current_index(cell);
        const char *comma = i == 0 ? "" : ", ";
        foreach (column, question.columns)
            if (lfirst_int(column) == lfirst_int(cell))
                appendStringInfo(sql, "%ss.c%d", comma,
                                 leaf->result[foreach_current_index(column)] + 1);
        appendStringInfo(&arrays, "%s$%d::%s", comma, NumberOf(combined, number * count + i),
                         format_type_extended(select->array_types[i], -1,
                                              FORMAT_TYPE_TYPEMOD_GIVEN)); // not bit(1)
    }
    appendStringInfo(sql, ") IN (SELECT * FROM unnest(%s) AS i)", arrays.data);
}

// Appends the statement of one of several leaves with its parameters numbered anew. Statements of
// postgres_fdw have "names", 'strings' in which quotes are doubled, and nothing else that a dollar
// sign could be part of.
void AppendRenumbered(StringInfo sql, const LeafSelect *leaf, int number, int count, int identities,
                      CombinedSelect *combined) {
    char quote = '\0';
    for (const char *at = leaf->sql; *at; at++) {
        if (quote) {
            quote = *at == quote ? '\0' : quote;
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (*at == '$') {
            char *end;
            int parameter = leaf->parameters[strtol(at + 1, &end, 10) - 1];
            parameter += (parameter < identities ? number : count - 1) * identities;
            appendStringInfo(sql, "$%d", NumberOf(combined, parameter));
            at = end - 1;
            continue;
        }
        appendStringInfoChar(sql, *at);
    }
}

} // namespace

CombinedSelect CombineSelects(const RemoteSelect *select, const LeafSelect *const *leaves,
                              int count) {
    Assert(count > 0);
    CombinedSelect combined = {};
    int room = 0;
    for (int i = 0; i < count; i++)
        room += leaves[i]->parameter_count + list_length(select->question.identity);
    combined.parameters = palloc_array(int, room + 1);
    StringInfoData sql;
    initStringInfo(&sql);
    for (int i = 0; i < count; i++) {
        const LeafSelect *leaf = leaves[i];
        appendStringInfo(&sql, "%sSELECT %d", i == 0 ? "" : " UNION ALL ", i);
        for (int j = 0; j < list_length(select->question.columns); j++)
            appendStringInfo(&sql, ", s.c%d", leaf->result[j] + 1);
        appendStringInfoString(&sql, " FROM (");
        AppendRenumbered(&sql, leaf, i, count, list_length(select->question.identity), &combined);
        appendStringInfoString(&sql, ") AS s(");
        for (int j = 0; j < leaf->result_count; j++)
            appendStringInfo(&sql, "%sc%d", j == 0 ? "" : ", ", j + 1);
        appendStringInfoChar(&sql, ')');
        if (CanCompareTogether(select))
            AppendTogether(&sql, select, leaf, i, &combined);
    }
    combined.sql = sql.data;
    return combined;
}

void AtEOXactSelects() {
    if (!outdated)
        return;
    MemoryContextDeleteChildren(outdated);
    for (RemoteSelect *select : selects)
        if (select)
            select->pins = 0;
}

void InitializeRemoteSelect() {
    CacheRegisterRelcacheCallback(OnRelationChange, 0);
    for (compat::CacheNumber cache : {FOREIGNSERVEROID, FOREIGNDATAWRAPPEROID, PROCOID, TYPEOID,
                                      OPEROID, NAMESPACEOID, AMOPOPID})
        CacheRegisterSyscacheCallback(cache, OnCatalogChange, 0);
}

} // namespace index_table
