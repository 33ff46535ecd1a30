#include "global/tree_info.h"

#include "core/public.h"

namespace index_table {
namespace {

// What ii_AmCache of a child points to.
struct Kept {
    MemoryContext context; // holds it, and what the tree's access method keeps
    Relation tree;
    uint64 changes; // of relations that were known when it was made
    IndexInfo *info;
};

bool IsUsable(const Kept *kept, Relation tree) {
    return kept && kept->tree == tree && kept->changes == CountRelationChanges();
}

} // namespace

IndexInfo *GetTreeInfo(Relation tree, IndexInfo *of_child) {
    Kept *kept = static_cast<Kept *>(of_child->ii_AmCache);
    if (IsUsable(kept, tree))
        return kept->info;
    of_child->ii_AmCache = nullptr;
    if (kept)
        MemoryContextDelete(kept->context);
    MemoryContext context =
        AllocSetContextCreate(of_child->ii_Context, "index_table tree", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    kept = palloc_object(Kept);
    *kept = {.context = context,
             .tree = tree,
             .changes = CountRelationChanges(),
             .info = BuildIndexInfo(tree)};
    MemoryContextSwitchTo(caller);
    of_child->ii_AmCache = kept;
    return kept->info;
}

IndexInfo *FindTreeInfo(Relation tree, IndexInfo *of_child) {
    Kept *kept = static_cast<Kept *>(of_child->ii_AmCache);
    return IsUsable(kept, tree) ? kept->info : nullptr;
}

} // namespace index_table
