// By what entries are inserted into a tree: an IndexInfo of its own, in which its access method
// keeps what it knows of the tree from one entry to the next. It lives in the child's IndexInfo,
// which the executor has for as long as a statement inserts.
#pragma once

#include "pg.h"

namespace index_table {

// REQUIRES: the tree is open, for as long as the result is used. Made anew where the tree may be
// another since: access methods keep addresses of what belongs to a relation that is open.
IndexInfo *GetTreeInfo(Relation tree, IndexInfo *of_child);

// What was got last in a child's; null: nothing, or it must not be used any more.
IndexInfo *FindTreeInfo(Relation tree, IndexInfo *of_child);

} // namespace index_table
