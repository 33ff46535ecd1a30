#include "conflict/inference.h"

#include "core/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

// What a unique index keeps unique, in terms of the table that is inserted into.
struct UniqueKey {
    int count;
    Node *columns[INDEX_MAX_KEYS];
    Oid opfamilies[INDEX_MAX_KEYS];
    Oid input_types[INDEX_MAX_KEYS]; // of the operator classes
    Oid collations[INDEX_MAX_KEYS];
    List *predicate; // conditions that all hold
};

// The table that is inserted into, and its columns for the base table's; null: the same layout.
struct Target {
    Index rti;
    Relation rel;
    AttrMap *map;
};

Target OpenTarget(const Query *query, Oid base) {
    const RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
    Target target = {.rti = static_cast<Index>(query->resultRelation),
                     .rel = table_open(entry->relid, NoLock)};
    if (entry->relid != base) {
        Relation rel = table_open(base, AccessShareLock);
        target.map = compat::MapColumnsByName(RelationGetDescr(target.rel), RelationGetDescr(rel));
        table_close(rel, AccessShareLock);
    }
    return target;
}

// --- Keys --------------------------------------------------------------------

List *Conditions(Node *predicate) {
    Node *simple = eval_const_expressions(nullptr, predicate);
    return make_ands_implicit(canonicalize_qual(reinterpret_cast<Expr *>(simple), false));
}

// An expression over range table index 1, the base table, over the target.
Node *Over(const Target &target, const Expr *expression) {
    Node *result = static_cast<Node *>(copyObjectImpl(expression));
    bool has_whole_row;
    if (target.map)
        result = map_variable_attnos(result, 1, 0, target.map, InvalidOid, &has_whole_row);
    ChangeVarNodes(result, 1, target.rti, 0);
    return result;
}

UniqueKey KeyOf(const IndexTable *table, const Target &target) {
    UniqueKey key = {.count = table->key.count};
    for (int i = 0; i < key.count; i++) {
        const KeyColumn &column = table->key.columns[i];
        const Expr *value = column.shape == KeyShape::ArrayElements ? column.expr : column.whole;
        key.columns[i] = eval_const_expressions(nullptr, Over(target, value));
        key.opfamilies[i] = get_opclass_family(column.opclass);
        key.input_types[i] = get_opclass_input_type(column.opclass);
        key.collations[i] = column.collation;
    }
    if (table->predicate)
        key.predicate = Conditions(Over(target, table->predicate));
    return key;
}

UniqueKey KeyOf(Relation index, const Target &target) {
    UniqueKey key = {.count = index->rd_index->indnkeyatts};
    List *expressions = static_cast<List *>(copyObjectImpl(RelationGetIndexExpressions(index)));
    ChangeVarNodes(reinterpret_cast<Node *>(expressions), 1, target.rti, 0);
    ListCell *next = list_head(expressions);
    for (int i = 0; i < key.count; i++) {
        AttrNumber attno = index->rd_index->indkey.values[i];
        if (attno == 0) {
            key.columns[i] = static_cast<Node *>(lfirst(next));
            next = lnext(expressions, next);
        } else {
            Form_pg_attribute column = TupleDescAttr(RelationGetDescr(target.rel), attno - 1);
            key.columns[i] = reinterpret_cast<Node *>(makeVar(
                target.rti, attno, column->atttypid, column->atttypmod, column->attcollation, 0));
        }
        key.opfamilies[i] = index->rd_opfamily[i];
        key.input_types[i] = index->rd_opcintype[i];
        key.collations[i] = index->rd_indcollation[i];
    }
    key.predicate = static_cast<List *>(copyObjectImpl(RelationGetIndexPredicate(index)));
    ChangeVarNodes(reinterpret_cast<Node *>(key.predicate), 1, target.rti, 0);
    return key;
}

// --- Targets -----------------------------------------------------------------

// Whether an element of a target may stand for a column of a key.
bool MayBe(const InferenceElem *element, const UniqueKey &key, int column) {
    if (!equal(element->expr, key.columns[column]))
        return false;
    if (OidIsValid(element->infercollid) && element->infercollid != key.collations[column])
        return false;
    Oid wanted = element->inferopclass;
    return !OidIsValid(wanted) || (get_opclass_family(wanted) == key.opfamilies[column] &&
                                   get_opclass_input_type(wanted) == key.input_types[column]);
}

bool HasColumns(const List *elements, const UniqueKey &key) {
    ListCell *cell;
    foreach (cell, elements) {
        bool found = false;
        for (int i = 0; i < key.count; i++)
            found = found || MayBe(lfirst_node(InferenceElem, cell), key, i);
        if (!found)
            return false;
    }
    for (int i = 0; i < key.count; i++) {
        bool found = false;
        foreach (cell, elements)
            found = found || equal(lfirst_node(InferenceElem, cell)->expr, key.columns[i]);
        if (!found)
            return false;
    }
    return elements != NIL;
}

bool IsTarget(const OnConflictExpr *conflict, const UniqueKey &key) {
    return HasColumns(conflict->arbiterElems, key) &&
           (key.predicate == NIL ||
            predicate_implied_by(key.predicate, reinterpret_cast<List *>(conflict->arbiterWhere),
                                 false));
}

// Whether the table has an index that PostgreSQL will find.
bool HasNativeArbiter(const OnConflictExpr *conflict, const Target &target) {
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(target.rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        found = found || (index->rd_index->indisvalid && index->rd_index->indisunique &&
                          IsTarget(conflict, KeyOf(index, target)));
        index_close(index, AccessShareLock);
    }
    return found;
}

[[noreturn]] void RaiseIsDeferrable(const IndexTable *table) {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("ON CONFLICT does not support deferrable unique constraints as arbiters"),
         errdetail("The key of index table \"%s\" is deferrable.", get_rel_name(table->relid))));
}

[[noreturn]] void RaiseNotInferred(const char *hint) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
                    errmsg("there is no unique or exclusion constraint matching the ON CONFLICT "
                           "specification"),
                    errhint("%s", hint)));
}

// Whether conflicts with a key can be told before the row is there.
bool MayArbitrate(const IndexTable *table) {
    return table->options.is_unique && table->key.multi_valued < 0 && !OidIsValid(table->log) &&
           !table->on_servers && !table->is_unusable();
}

const IndexTable *FindArbiter(const OnConflictExpr *conflict, const Base *base,
                              const Target &target) {
    const IndexTable *deferrable = nullptr;
    for (const IndexTable *table : std::span(base->globals, base->global_count))
        if (MayArbitrate(table) && IsTarget(conflict, KeyOf(table, target)))
            return table;
    for (const IndexTable *table : std::span(base->tables, base->table_count)) {
        if (!MayArbitrate(table) || !IsTarget(conflict, KeyOf(table, target)))
            continue;
        if (!table->options.is_deferrable)
            return table;
        deferrable = table;
    }
    return deferrable;
}

const char *ExplainUnable(const IndexTable *table) {
    const char *name = get_rel_name(table->relid);
    if (table->key.multi_valued >= 0)
        return psprintf(
            "The key of index table \"%s\" is made of elements, of which a row may have "
            "many. ON CONFLICT DO NOTHING without a target heeds it.",
            name);
    if (table->on_servers)
        return psprintf("Index table \"%s\" is on servers: insert, and handle 23505.", name);
    if (OidIsValid(table->log))
        return psprintf("Index table \"%s\" is being built.", name);
    if (table->state == TableState::Missed)
        return psprintf("Index table \"%s\" may have missed changes: enable the triggers of its "
                        "base table, or call index_table.repair().",
                        name);
    return psprintf("Index table \"%s\" is damaged: call index_table.repair().", name);
}

// What to do about an index table that has the key and does not arbitrate; null where none has it.
const char *ExplainRefusal(const OnConflictExpr *conflict, const Base *base, const Target &target) {
    for (const IndexTable *table : std::span(base->tables, base->table_count)) {
        if (!table->options.is_unique || !HasColumns(conflict->arbiterElems, KeyOf(table, target)))
            continue;
        if (!MayArbitrate(table))
            return ExplainUnable(table);
        return psprintf("Index table \"%s\" has a predicate, which the target must imply: ON "
                        "CONFLICT (...) WHERE %s.",
                        get_rel_name(table->relid),
                        DeparsePredicate(base->relid, table->predicate));
    }
    return nullptr;
}

// ON CONFLICT ON CONSTRAINT. Only the base table has constraints by these names.
const IndexTable *GetNamed(Oid constraint, const Base *base) {
    if (OidIsValid(get_constraint_index(constraint)))
        return nullptr;
    Oid relid = IndexTableOfConstraint(constraint);
    for (const IndexTable *table : std::span(base->tables, base->table_count)) {
        if (table->relid != relid)
            continue;
        if (!MayArbitrate(table))
            RaiseNotInferred(ExplainUnable(table));
        return table;
    }
    return nullptr;
}

// ON CONFLICT (columns).
const IndexTable *FindByColumns(const Query *query, const Base *base) {
    const OnConflictExpr *conflict = query->onConflict;
    Target target = OpenTarget(query, base->relid);
    const IndexTable *table = FindArbiter(conflict, base, target);
    const char *hint = table ? nullptr : ExplainRefusal(conflict, base, target);
    bool is_native = (table || hint) && HasNativeArbiter(conflict, target);
    table_close(target.rel, NoLock);
    if (is_native)
        return nullptr;
    if (hint)
        RaiseNotInferred(hint);
    if (table && table->options.is_deferrable)
        RaiseIsDeferrable(table);
    return table;
}

} // namespace

const IndexTable *InferArbiter(PlannerInfo *root, const Base *base) {
    const OnConflictExpr *conflict = root->parse->onConflict;
    Oid relid = rt_fetch(root->parse->resultRelation, root->parse->rtable)->relid;
    const IndexTable *table = OidIsValid(conflict->constraint)
                                  ? GetNamed(conflict->constraint, base)
                                  : FindByColumns(root->parse, base);
    // The wrapper of a foreign table that is named itself wants to know nothing of conflicts.
    if (table && IsForeign(relid))
        RaiseNotInferred(relid == base->relid
                             ? "ON CONFLICT DO NOTHING without a target heeds the keys of index "
                               "tables over a foreign table."
                             : psprintf("Insert into \"%s\".", get_rel_name(base->relid)));
    return table;
}

} // namespace index_table
