// Conditions on different keys joined by OR: email = $1 OR phone = $2.
#pragma once

#include "plan/candidates.h"

namespace index_table {

// An index path for each arm of a restriction that is an OR, a list of IndexPath; NIL where it is
// none, or an arm has none. `rel` is in root->simple_rel_array; it is left as it was.
List *MatchOr(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *restriction);

} // namespace index_table
