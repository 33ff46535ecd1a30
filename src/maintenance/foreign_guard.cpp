#include "maintenance/foreign_guard.h"

#include "core/public.h"

namespace index_table {

struct ForeignGuard {
    Relation leaf;
    ExprState *constraint;
    ExprContext *context;
};

ForeignGuard *MakeForeignGuard(Relation leaf) {
    Assert(CheckRelationLockedByMe(leaf, RowExclusiveLock, true) && IsMemoryFreed());
    if (!leaf->rd_rel->relispartition)
        return nullptr;
    List *clauses = RelationGetPartitionQual(leaf);
    if (clauses == NIL)
        return nullptr; // a default partition without others
    ForeignGuard *guard = palloc_object(ForeignGuard);
    guard->leaf = leaf;
    guard->context = CreateStandaloneExprContext();
    guard->constraint = ExecInitExpr(
        expression_planner(make_ands_explicit(static_cast<List *>(copyObjectImpl(clauses)))),
        nullptr);
    return guard;
}

void CheckStaysInPartition(ForeignGuard *guard, TupleTableSlot *row) {
    guard->context->ecxt_scantuple = row;
    bool is_right = ExecCheck(guard->constraint, guard->context);
    ResetExprContext(guard->context);
    if (is_right)
        return;
    const char *name = RelationGetRelationName(guard->leaf);
    const char *root =
        get_rel_name(llast_oid(get_partition_ancestors(RelationGetRelid(guard->leaf))));
    ereport(ERROR,
            (errcode(ERRCODE_CHECK_VIOLATION),
             errmsg("new row for foreign table \"%s\" violates its partition constraint", name),
             errdetail("PostgreSQL does not move rows out of foreign partitions, and \"%s\" has "
                       "index tables, which would lead to the wrong one.",
                       root),
             errhint("Delete the row and insert it into \"%s\" anew.", root),
             errtable(guard->leaf)));
}

void FreeForeignGuard(ForeignGuard *guard) {
    FreeExprContext(guard->context, true);
}

} // namespace index_table
