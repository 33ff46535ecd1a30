#include "conflict/global_conflict.h"

#include "core/public.h"

namespace index_table {

struct GlobalConflicts {
    EState *estate;
    Relation base;
    ExprContext *context;
    MemoryContext memory;
    int count;
    const IndexTable **tables;
    UniqueTree **trees;
    int conflicting; // the tree that FindGlobalConflict() has found a row by
    NumberMap leaves;
};

// Of one global index.
struct GlobalKey {
    Relation child; // null: the partition has none
    IndexInfo *info;
    ExprState *predicate;
    bool is_indexed; // the row is
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
};

struct GlobalKeys {
    GlobalKey *keys;
};

namespace {

// The partition as those who lock its rows want it. Each tree has a slot of its own.
OpenLeaf *LeafOf(GlobalConflicts *conflicts, const KeyHolder &holder) {
    Oid relid = RelationGetRelid(holder.partition);
    auto *leaf = static_cast<OpenLeaf *>(conflicts->leaves.Find(relid));
    if (!leaf) {
        MemoryContext caller = MemoryContextSwitchTo(conflicts->memory);
        leaf = palloc0_object(OpenLeaf);
        leaf->rel = holder.partition;
        leaf->depth = list_length(get_partition_ancestors(relid));
        leaf->map = compat::MapColumnsByName(RelationGetDescr(holder.partition),
                                             RelationGetDescr(conflicts->base));
        conflicts->leaves.Add(relid, leaf, conflicts->memory);
        MemoryContextSwitchTo(caller);
    }
    leaf->slot = holder.slot;
    return leaf;
}

// What of the row a global index has.
void ComputeKey(GlobalConflicts *conflicts, GlobalKey *key, TupleTableSlot *row) {
    ExprContext *context = GetPerTupleExprContext(conflicts->estate);
    TupleTableSlot *outer = context->ecxt_scantuple;
    context->ecxt_scantuple = row;
    key->is_indexed = key->child && (!key->predicate || ExecQual(key->predicate, context));
    if (key->is_indexed)
        FormIndexDatum(key->info, row, conflicts->estate, key->values, key->nulls);
    context->ecxt_scantuple = outer;
}

} // namespace

List *ListUniqueGlobals(const Base *base) {
    List *unique = NIL;
    for (IndexTable *table : std::span(base->globals, base->global_count))
        if (table->options.is_unique)
            unique = lappend(unique, table);
    return unique;
}

GlobalConflicts *MakeGlobalConflicts(List *globals, EState *estate, bool locks_rows) {
    Assert(globals != NIL);
    GlobalConflicts *conflicts = palloc0_object(GlobalConflicts);
    conflicts->estate = estate;
    conflicts->memory = CurrentMemoryContext;
    conflicts->count = list_length(globals);
    conflicts->tables = palloc0_array(const IndexTable *, conflicts->count);
    conflicts->trees = palloc0_array(UniqueTree *, conflicts->count);
    for (int i = 0; i < conflicts->count; i++) {
        conflicts->tables[i] = static_cast<const IndexTable *>(list_nth(globals, i));
        conflicts->trees[i] = OpenUniqueTree(conflicts->tables[i]->relid,
                                             locks_rows ? RowExclusiveLock : AccessShareLock);
    }
    conflicts->base = table_open(conflicts->tables[0]->base, AccessShareLock);
    return conflicts;
}

void EndGlobalConflicts(GlobalConflicts *conflicts) {
    for (UniqueTree *tree : std::span(conflicts->trees, conflicts->count))
        CloseUniqueTree(tree);
    conflicts->leaves.Destroy();
    table_close(conflicts->base, NoLock);
}

GlobalKeys *MakeGlobalKeys(GlobalConflicts *conflicts, ResultRelInfo *relinfo) {
    GlobalKeys *keys = palloc0_object(GlobalKeys);
    keys->keys = palloc0_array(GlobalKey, conflicts->count);
    // As PostgreSQL would have opened them, who takes what it finds open: to tell conflicts by,
    // too.
    if (relinfo->ri_RelationDesc->rd_rel->relhasindex && !relinfo->ri_IndexRelationDescs)
        ExecOpenIndices(relinfo, true);
    for (int i = 0; i < conflicts->count; i++)
        for (int j = 0; j < relinfo->ri_NumIndices; j++) {
            Relation index = relinfo->ri_IndexRelationDescs[j];
            if (!IsChildOf(index, conflicts->tables[i]->relid))
                continue;
            GlobalKey *key = &keys->keys[i];
            key->child = index;
            key->info = BuildIndexInfo(index);
            if (key->info->ii_Predicate != NIL)
                key->predicate = ExecPrepareQual(key->info->ii_Predicate, conflicts->estate);
        }
    return keys;
}

OpenLeaf *FindGlobalConflict(GlobalConflicts *conflicts, GlobalKeys *keys, TupleTableSlot *row) {
    for (int i = 0; i < conflicts->count; i++) {
        GlobalKey *key = &keys->keys[i];
        ComputeKey(conflicts, key, row);
        if (!key->is_indexed)
            continue;
        KeyHolder holder = FindKeyHolder(conflicts->trees[i], key->values, key->nulls);
        if (!holder.partition)
            continue;
        conflicts->conflicting = i;
        return LeafOf(conflicts, holder);
    }
    return nullptr;
}

bool ClaimGlobalKeys(GlobalConflicts *conflicts, GlobalKeys *keys) {
    for (int i = 0; i < conflicts->count; i++) {
        GlobalKey *key = &keys->keys[i];
        if (key->is_indexed && !ClaimKey(conflicts->trees[i], key->values, key->nulls))
            return false;
    }
    return true;
}

void DropGlobalClaims(GlobalConflicts *conflicts) {
    for (UniqueTree *tree : std::span(conflicts->trees, conflicts->count))
        DropClaim(tree);
}

void RaiseGlobalViolation(const GlobalConflicts *conflicts, GlobalKeys *keys) {
    GlobalKey *key = &keys->keys[conflicts->conflicting];
    RaiseDuplicate(key->child, key->values, key->nulls);
}

} // namespace index_table
