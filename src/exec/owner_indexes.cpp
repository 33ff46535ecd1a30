#include "exec/owner_indexes.h"

#include "core/public.h"
#include "maintenance/public.h"

namespace index_table {

// SP-GiST compares bytes, trigrams are of the text as it is.
bool FollowsCollations(Oid method) {
    return method == BTREE_AM_OID || method == HASH_AM_OID || method == BRIN_AM_OID;
}

namespace {

struct ReplaceContext {
    const IndexTable *table;
    const AttrNumber *stored;
    Replacement replace;
    bool failed;
};

int FindStored(const ReplaceContext *context, AttrNumber attno) {
    const AttrNumber *end = context->stored + context->table->column_count;
    const AttrNumber *found = std::find(context->stored, end, attno);
    return found == end ? -1 : found - context->stored;
}

Node *ReplaceMutator(Node *node, ReplaceContext *context) {
    if (!node)
        return nullptr;
    if (!IsA(node, Var))
        return compat::MutateExpression(node, ReplaceMutator, context);
    const Var *column = reinterpret_cast<Var *>(node);
    int position = FindStored(context, column->varattno);
    Node *replaced = position < 0 ? nullptr : context->replace(context->table, position, column);
    context->failed = context->failed || !replaced;
    return replaced ? replaced : node;
}

// What an entry's column holds, over the base table.
Node *OverBase(const IndexTable *table, int position, const Var *) {
    if (position == table->partition_position())
        return nullptr;
    const void *expr = table->base_columns[position];
    return static_cast<Node *>(copyObjectImpl(expr ? expr : table->key_exprs[position]));
}

// Sees an index of an index table from the base table; false where that is not possible.
bool Describe(OwnerIndex *owner_index, Relation rel, Relation index, const IndexTable *table,
              const AttrNumber *stored) {
    Form_pg_index form = index->rd_index;
    bool is_btree = index->rd_rel->relam == BTREE_AM_OID;
    // A partitioned index has its access method's routines, too.
    const IndexAmRoutine *method = index->rd_indam;
    // Each partition of an index table would begin with its own nearest.
    bool by_distance = method->amcanorderbyop && method->amgettuple &&
                       index->rd_rel->relkind != RELKIND_PARTITIONED_INDEX;
    if (!is_btree && !method->amgetbitmap && !by_distance)
        return false;
    *owner_index = {.relid = RelationGetRelid(index),
                    .method = index->rd_rel->relam,
                    .by_bitmap = !is_btree && method->amgetbitmap,
                    .by_distance = by_distance,
                    .is_ordered = is_btree,
                    .key_count = form->indnkeyatts};
    owner_index->keys = palloc0_array(Expr *, form->indnkeyatts);
    owner_index->referenced = palloc0_array(Bitmapset *, form->indnkeyatts);
    List *exprs = RelationGetIndexExpressions(index);
    ListCell *next_expr = list_head(exprs);
    for (int i = 0; i < form->indnatts; i++) {
        AttrNumber attno = form->indkey.values[i];
        Node *column;
        if (attno > 0) {
            Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);
            column = reinterpret_cast<Node *>(
                makeVar(1, attno, att->atttypid, att->atttypmod, att->attcollation, 0));
            owner_index->is_ordered =
                owner_index->is_ordered &&
                (i >= form->indnkeyatts || index->rd_indcollation[i] == att->attcollation);
        } else {
            column = static_cast<Node *>(lfirst(next_expr));
            next_expr = lnext(exprs, next_expr);
            owner_index->is_ordered = false;
        }
        if (i >= form->indnkeyatts)
            break;
        if (Oid collation = index->rd_indcollation[i]; OidIsValid(collation) &&
                                                       !get_collation_isdeterministic(collation) &&
                                                       !FollowsCollations(owner_index->method))
            return false;
        column = ReplaceColumns(table, stored, column, OverBase);
        if (!column)
            return false;
        owner_index->keys[i] = reinterpret_cast<Expr *>(column);
        pull_varattnos(column, 1, &owner_index->referenced[i]);
    }
    List *predicate = RelationGetIndexPredicate(index);
    if (predicate == NIL)
        return true;
    owner_index->predicate = reinterpret_cast<List *>(
        ReplaceColumns(table, stored, reinterpret_cast<Node *>(predicate), OverBase));
    pull_varattnos(reinterpret_cast<Node *>(owner_index->predicate), 1,
                   &owner_index->predicate_columns);
    return owner_index->predicate != NIL;
}

// Opens a relation of which it is enough to know what can be known without waiting: a query that
// uses something else does not wait for a REINDEX.
Relation OpenAtOnce(Oid relid) {
    if (!ConditionalLockRelationOid(relid, AccessShareLock))
        return nullptr;
    Relation rel = try_relation_open(relid, NoLock);
    if (!rel)
        UnlockRelationOid(relid, AccessShareLock);
    return rel;
}

// Whether an index of the base table has one of the columns.
bool IsOver(Relation index, const OwnerIndex &owner_index) {
    Form_pg_index form = index->rd_index;
    ListCell *cell;
    for (const Expr *key : std::span(owner_index.keys, owner_index.key_count)) {
        for (int i = 0; i < form->indnkeyatts; i++)
            if (IsA(key, Var) &&
                reinterpret_cast<const Var *>(key)->varattno == form->indkey.values[i])
                return true;
        foreach (cell, RelationGetIndexExpressions(index))
            if (equal(key, lfirst(cell)))
                return true;
    }
    return false;
}

// Whether the base table has an index of the same kind with one of the columns.
bool HasLocalIndex(const IndexTable *table, const OwnerIndex &owner_index) {
    Relation base = table_open(table->base, NoLock);
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(base)) {
        Relation index = OpenAtOnce(lfirst_oid(cell));
        if (!index)
            continue;
        found = found || (index->rd_rel->relam == owner_index.method && IsOver(index, owner_index));
        relation_close(index, AccessShareLock);
    }
    table_close(base, NoLock);
    return found;
}

// False where not everything could be looked at.
bool Load(OwnerIndexes *found, const IndexTable *table) {
    Relation rel = OpenAtOnce(table->relid);
    if (!rel)
        return false;
    const AttrNumber *stored = StoredColumns(table, rel);
    List *oids = stored ? RelationGetIndexList(rel) : NIL;
    found->indexes = palloc0_array(OwnerIndex, Max(1, list_length(oids)));
    bool has_entry_index = false, complete = true;
    ListCell *cell;
    foreach (cell, oids) {
        Relation index = OpenAtOnce(lfirst_oid(cell));
        complete = complete && index;
        if (!index)
            continue;
        OwnerIndex *owner_index = &found->indexes[found->count];
        if (table->on_servers) {
            // none that could be scanned
        } else if (!has_entry_index && IsEntryIndex(index, table, stored)) {
            has_entry_index = true;
        } else if (!IsNullKeyIndex(index, table) &&
                   Describe(owner_index, rel, index, table, stored)) {
            owner_index->has_local = HasLocalIndex(table, *owner_index);
            found->count++;
        }
        relation_close(index, AccessShareLock);
    }
    relation_close(rel, AccessShareLock);
    return complete;
}

} // namespace

Node *ReplaceColumns(const IndexTable *table, const AttrNumber *stored, Node *expr,
                     Replacement replace) {
    ReplaceContext context = {.table = table, .stored = stored, .replace = replace};
    Node *replaced = ReplaceMutator(expr, &context);
    return context.failed ? nullptr : replaced;
}

const OwnerIndexes *GetOwnerIndexes(const IndexTable *table) {
    Assert(IsKnown(table));
    if (table->owner_indexes)
        return table->owner_indexes;
    MemoryContext caller =
        MemoryContextSwitchTo(GetMemoryChunkContext(const_cast<IndexTable *>(table)));
    uint64 before = CacheGeneration();
    OwnerIndexes *found = palloc0_object(OwnerIndexes);
    // An entry of many values for a row would show it more than once.
    bool complete = table->key.multi_valued >= 0 || Load(found, table);
    MemoryContextSwitchTo(caller);
    // Something changed while reading: good for now, to be read again at the next look-up.
    if (complete && CacheGeneration() == before)
        const_cast<IndexTable *>(table)->owner_indexes = found;
    return found;
}

bool IsEntryIndex(Relation index, const IndexTable *table, const AttrNumber *stored) {
    Assert(CheckRelationLockedByMe(index, AccessShareLock, true));
    Form_pg_index form = index->rd_index;
    // Over foreign partitions there is no valid one: it stands for those on the servers.
    bool usable = (form->indisvalid || table->on_servers) && index->rd_rel->relam == BTREE_AM_OID &&
                  form->indnkeyatts >= table->key.count && !form->indcheckxmin &&
                  heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr);
    for (int i = 0; usable && i < table->key.count; i++) {
        const KeyColumn &column = table->key.columns[i];
        int option = (column.descending ? INDOPTION_DESC : 0) |
                     (column.nulls_first ? INDOPTION_NULLS_FIRST : 0);
        usable = form->indkey.values[i] == stored[i] && index->rd_indoption[i] == option &&
                 index->rd_opfamily[i] == get_opclass_family(column.opclass) &&
                 index->rd_indcollation[i] == column.collation;
    }
    return usable;
}

bool ServesColumns(const OwnerIndex &owner_index, const Bitmapset *columns) {
    for (int i = 0; i < owner_index.key_count; i++)
        if (owner_index.referenced[i] && bms_is_subset(owner_index.referenced[i], columns))
            return true;
    return owner_index.predicate_columns && bms_is_subset(owner_index.predicate_columns, columns);
}

namespace {

// As the planner decides it. An index that was built while others wrote lacks what older snapshots
// see: the build waits for those, and cannot wait for those on a standby.
bool IsUsable(Relation index, bool *transient) {
    if (!index->rd_index->indisvalid)
        return false;
    if ((!index->rd_index->indcheckxmin && !RecoveryInProgress()) ||
        TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
                              TransactionXmin))
        return true;
    *transient = true;
    return false;
}

} // namespace

bool IsReady(Relation rel, Relation index, bool *transient) {
    Assert(index->rd_index->indrelid == RelationGetRelid(rel));
    if (!IsUsable(index, transient))
        return false;
    if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return true;
    bool ready = true;
    ListCell *cell;
    foreach (cell, find_inheritance_children(RelationGetRelid(rel), AccessShareLock)) {
        Relation child = table_open(lfirst_oid(cell), NoLock);
        Oid oid = index_get_partition(child, RelationGetRelid(index));
        Relation part = OidIsValid(oid) ? index_open(oid, AccessShareLock) : nullptr;
        ready = ready && part && IsUsable(part, transient);
        if (part)
            index_close(part, NoLock);
        table_close(child, NoLock);
    }
    return ready;
}

} // namespace index_table
