#include "plan/row_identity.h"

namespace index_table {
namespace {

TargetEntry *FindJunk(PlannerInfo *root, const char *name) {
    ListCell *cell;
    foreach (cell, root->processed_tlist) {
        TargetEntry *entry = lfirst_node(TargetEntry, cell);
        if (entry->resjunk && entry->resname && strcmp(entry->resname, name) == 0)
            return entry;
    }
    return nullptr;
}

void AddJunk(PlannerInfo *root, const char *name, Var *column) {
    if (FindJunk(root, name))
        return;
    root->processed_tlist =
        lappend(root->processed_tlist,
                makeTargetEntry(reinterpret_cast<Expr *>(column),
                                list_length(root->processed_tlist) + 1, pstrdup(name), true));
}

void DropJunk(PlannerInfo *root, const char *name) {
    TargetEntry *entry = FindJunk(root, name);
    if (!entry)
        return;
    root->processed_tlist = list_delete_ptr(root->processed_tlist, entry);
    ListCell *cell;
    foreach (cell, root->processed_tlist)
        lfirst_node(TargetEntry, cell)->resno = foreach_current_index(cell) + 1;
}

Var *SystemColumn(Index relid, AttrNumber attno, Oid type) {
    return makeVar(relid, attno, type, -1, InvalidOid, 0);
}

Var *PartitionColumn(Index relid) {
    return SystemColumn(relid, TableOidAttributeNumber, OIDOID);
}

const char *WholeRowName(const PlanRowMark *mark) {
    return psprintf("wholerow%u", mark->rowmarkId);
}

} // namespace

RowUse GetRowUse(PlannerInfo *root, Index relid) {
    if (static_cast<Index>(root->parse->resultRelation) == relid)
        return RowUse::Change;
    const PlanRowMark *mark = get_plan_rowmark(root->rowMarks, relid);
    return mark && RowMarkRequiresRowShareLock(mark->markType) ? RowUse::Lock : RowUse::Read;
}

void AddRowIdentity(PlannerInfo *root, Index relid, RangeTblEntry *rte) {
    PlanRowMark *mark = get_plan_rowmark(root->rowMarks, relid);
    switch (GetRowUse(root, relid)) {
    case RowUse::Change:
        AddJunk(root, "ctid", SystemColumn(relid, SelfItemPointerAttributeNumber, TIDOID));
        AddJunk(root, PartitionColumnName(0), PartitionColumn(relid));
        if (HasForeignLeaves(FindIndexedBase(rte->relid)))
            AddJunk(root, kWholeRowColumn, makeWholeRowVar(rte, relid, 0, false));
        root->leaf_result_relids = bms_make_singleton(relid);
        break;
    case RowUse::Lock:
        AddJunk(root, PartitionColumnName(mark->rowmarkId), PartitionColumn(relid));
        break;
    case RowUse::Read:
        // A row cannot be fetched again by ctid from a table that has none.
        if (mark) {
            mark->markType = ROW_MARK_COPY;
            mark->allMarkTypes = 1 << ROW_MARK_COPY;
            AddJunk(root, WholeRowName(mark), makeWholeRowVar(rte, relid, 0, false));
        }
        break;
    }
}

void DropRowIdentity(PlannerInfo *root, Index relid) {
    PlanRowMark *mark = get_plan_rowmark(root->rowMarks, relid);
    switch (GetRowUse(root, relid)) {
    case RowUse::Change:
        DropJunk(root, "ctid");
        DropJunk(root, PartitionColumnName(0));
        root->leaf_result_relids = nullptr;
        break;
    case RowUse::Lock:
        DropJunk(root, PartitionColumnName(mark->rowmarkId));
        break;
    case RowUse::Read:
        if (mark && mark->markType == ROW_MARK_COPY) {
            mark->markType = ROW_MARK_REFERENCE;
            mark->allMarkTypes = 1 << ROW_MARK_REFERENCE;
            DropJunk(root, WholeRowName(mark));
        }
        break;
    }
}

} // namespace index_table
