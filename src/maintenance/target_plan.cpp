#include "maintenance/target_plan.h"

#include "maintenance/statements.h"

namespace index_table {
namespace {

RelationCache plans;

bool IsBtreeOfColumns(Relation index) {
    return index->rd_rel->relam == BTREE_AM_OID && !index->rd_index->indisexclusion &&
           RelationGetIndexExpressions(index) == NIL;
}

// What the short way of writing serves.
bool IsPlainBtree(Relation index) {
    return IsBtreeOfColumns(index) && index->rd_index->indimmediate;
}

// The number of leading columns of an index with which an entry can be looked up: all must belong
// to its group, and the key must be among them. 0 where the index does not serve.
int SearchableColumns(Relation index, const IndexTable *table) {
    int count = IndexRelationGetNumberOfKeyAttributes(index);
    // That of an index table on servers as a whole is never valid: it stands for those there.
    bool is_valid = index->rd_index->indisvalid || table->on_servers;
    if (!IsBtreeOfColumns(index) || !is_valid || count < table->key.count)
        return 0;
    for (int i = 0; i < count; i++) {
        AttrNumber attno = index->rd_index->indkey.values[i];
        if (attno < 1 || attno > table->group_count() || (i < table->key.count && attno != i + 1))
            return 0;
    }
    return count;
}

// Whether an index holds every entry with a NULL in its key: "a" IS NULL OR "b" IS NULL, of all
// columns of the key. Owners may have partial indexes of their own.
bool HoldsNullKeys(Relation index, const IndexTable *table) {
    List *predicate = RelationGetIndexPredicate(index);
    if (list_length(predicate) != 1)
        return false;
    Node *clause = static_cast<Node *>(linitial(predicate));
    List *tests =
        is_orclause(clause) ? reinterpret_cast<BoolExpr *>(clause)->args : list_make1(clause);
    Bitmapset *tested = nullptr;
    ListCell *cell;
    foreach (cell, tests) {
        if (!IsA(lfirst(cell), NullTest))
            return false;
        const NullTest *test = lfirst_node(NullTest, cell);
        if (test->nulltesttype != IS_NULL || !IsA(test->arg, Var) ||
            reinterpret_cast<const Var *>(test->arg)->varattno < 1)
            return false;
        tested = bms_add_member(tested, reinterpret_cast<const Var *>(test->arg)->varattno);
    }
    for (int i = 1; i <= table->key.count; i++)
        if (!bms_is_member(i, tested))
            return false;
    return true;
}

void ChooseSearchIndexes(TargetPlan *plan, Relation *indexes, const IndexTable *table) {
    plan->search_index = plan->null_index = -1;
    for (int i = 0; i < plan->index_count; i++) {
        int count = SearchableColumns(indexes[i], table);
        bool partial = RelationGetIndexPredicate(indexes[i]) != NIL;
        if (partial && !HoldsNullKeys(indexes[i], table))
            continue;
        int *chosen_count = partial ? &plan->null_key_count : &plan->search_key_count;
        if (count > *chosen_count) {
            *chosen_count = count;
            (partial ? plan->null_index : plan->search_index) = i;
        }
    }
    if (plan->search_index >= 0)
        plan->search_keys = MakeSearchKeys(indexes[plan->search_index], plan->search_key_count);
    if (plan->null_index >= 0)
        plan->null_keys = MakeSearchKeys(indexes[plan->null_index], plan->null_key_count);
}

TargetPlan *LoadPlan(Relation rel, const IndexTable *table) {
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table writer", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    TargetPlan *plan = static_cast<TargetPlan *>(palloc0(sizeof(TargetPlan)));
    plan->cached = {.relid = RelationGetRelid(rel), .valid = true, .context = context};
    plan->descriptor = CreateTupleDescCopy(RelationGetDescr(rel));
    TupleConstr *constraints = RelationGetDescr(rel)->constr;
    plan->general = HasRowTriggers(rel) ||
                    (constraints && (constraints->num_check > 0 || constraints->has_not_null ||
                                     constraints->has_generated_stored));

    List *oids = RelationGetIndexList(rel);
    plan->index_count = list_length(oids);
    plan->index_oids = static_cast<Oid *>(palloc(sizeof(Oid) * Max(1, plan->index_count)));
    plan->index_infos =
        static_cast<IndexInfo **>(palloc(sizeof(IndexInfo *) * Max(1, plan->index_count)));
    Relation *indexes =
        static_cast<Relation *>(palloc(sizeof(Relation) * Max(1, plan->index_count)));
    for (int i = 0; i < plan->index_count; i++) {
        plan->index_oids[i] = list_nth_oid(oids, i);
        indexes[i] = index_open(plan->index_oids[i], RowExclusiveLock);
        plan->index_infos[i] = BuildIndexInfo(indexes[i]);
        bool partial = plan->index_infos[i]->ii_Predicate != NIL;
        plan->has_constraints = plan->has_constraints || plan->index_infos[i]->ii_Unique ||
                                plan->index_infos[i]->ii_ExclusionOps;
        if (!IsPlainBtree(indexes[i]) || !plan->index_infos[i]->ii_ReadyForInserts ||
            (partial && !IsNullKeyIndex(indexes[i], table)))
            plan->general = true;
    }
    ChooseSearchIndexes(plan, indexes, table);
    for (int i = 0; i < plan->index_count; i++)
        index_close(indexes[i], NoLock);
    if (plan->search_index < 0)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("index table \"%s\" has no B-tree index over its key",
                        RelationGetRelationName(rel)),
                 errhint("Drop it and create it again with index_table.create()."), errtable(rel)));

    MemoryContextSwitchTo(caller);
    PutCached(&plans, &plan->cached);
    return plan;
}

} // namespace

bool IsNullKeyIndex(Relation index, const IndexTable *table) {
    List *predicate = RelationGetIndexPredicate(index);
    if (!table->options.is_unique || !table->options.nulls_distinct || list_length(predicate) != 1)
        return false;
    Node *node = static_cast<Node *>(linitial(predicate));
    List *tests = is_orclause(node) ? reinterpret_cast<BoolExpr *>(node)->args : list_make1(node);
    if (list_length(tests) != table->key.count)
        return false;
    for (int i = 0; i < table->key.count; i++) {
        NullTest *test = static_cast<NullTest *>(list_nth(tests, i));
        if (!IsA(test, NullTest) || test->nulltesttype != IS_NULL || !IsA(test->arg, Var) ||
            reinterpret_cast<Var *>(test->arg)->varattno != i + 1)
            return false;
    }
    return true;
}

bool HasRowTriggers(Relation rel) {
    const TriggerDesc *triggers = rel->trigdesc;
    return triggers && (triggers->trig_insert_after_row || triggers->trig_update_after_row ||
                        triggers->trig_delete_after_row);
}

bool IsReferencedByForeignKey(Relation rel) {
    const TriggerDesc *triggers = rel->trigdesc;
    return triggers && std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                                   [](const Trigger &trigger) {
                                       return RI_FKey_trigger_type(trigger.tgfoid) == RI_TRIGGER_PK;
                                   });
}

bool IsLookedAtDirectly(Relation rel) {
    const TriggerDesc *triggers = rel->trigdesc;
    if (!compat::kForeignKeysLookDirectly || !triggers ||
        rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
        return false;
    return std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                       [](const Trigger &trigger) {
                           return RI_FKey_trigger_type(trigger.tgfoid) == RI_TRIGGER_PK &&
                                  IsBeingChanged(RootOf(trigger.tgconstrrelid));
                       });
}

IndexRoles FindIndexRoles(Relation rel, const IndexTable *table, const List *without) {
    Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
    IndexRoles roles = {};
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        if (list_member_oid(without, lfirst_oid(cell)))
            continue;
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        if (SearchableColumns(index, table) == 0) {
            // another of the owner's
        } else if (RelationGetIndexPredicate(index) != NIL) {
            roles.finds_nulls = roles.finds_nulls || IsNullKeyIndex(index, table);
        } else {
            Form_pg_index form = index->rd_index;
            roles.finds_entries = true;
            roles.keeps_unique = roles.keeps_unique ||
                                 (form->indisunique && form->indnkeyatts == table->key.count &&
                                  form->indnullsnotdistinct == !table->options.nulls_distinct &&
                                  form->indimmediate == !table->options.is_deferrable);
        }
        index_close(index, AccessShareLock);
    }
    return roles;
}

bool IsOwnSearchIndex(Relation index, const IndexTable *table) {
    Assert(CheckRelationLockedByMe(index, AccessShareLock, true));
    return RelationGetIndexPredicate(index) == NIL && !index->rd_index->indisunique &&
           IndexRelationGetNumberOfAttributes(index) == table->group_count() &&
           SearchableColumns(index, table) == table->group_count();
}

void CheckIndexes(const IndexTable *table, const List *dropped) {
    Relation rel = try_relation_open(table->relid, AccessShareLock);
    if (!rel)
        return;
    IndexRoles roles = FindIndexRoles(rel, table, dropped);
    bool has_all = table->options.is_unique
                       ? roles.keeps_unique && (roles.finds_nulls ||
                                                !table->options.nulls_distinct || table->on_servers)
                       : roles.finds_entries;
    if (!has_all)
        ereport(ERROR,
                (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
                 errmsg("cannot drop an index that index table \"%s\" requires",
                        RelationGetRelationName(rel)),
                 errhint("index_table.drop() drops the index table. To replace the index, create "
                         "the new one first."),
                 errtable(rel)));
    relation_close(rel, AccessShareLock);
}

TargetPlan *GetTargetPlan(Relation rel, const IndexTable *table) {
    Assert(IsKnown(table) && rel->rd_rel->relkind == RELKIND_RELATION);
    Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
    if (CachedRelation *cached = FindCached(&plans, RelationGetRelid(rel)))
        return reinterpret_cast<TargetPlan *>(cached);
    return LoadPlan(rel, table);
}

void InitializeTargetPlans() {
    InitializeRelationCache(&plans, "index_table writers");
}

} // namespace index_table
