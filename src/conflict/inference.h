// Conflict targets: ON CONFLICT (email), ON CONFLICT ON CONSTRAINT customers_by_email_key.
//
// PostgreSQL infers from a target the unique indexes of the table that arbitrate. Where it finds
// none, the key of a unique index table does, by the same rules: the target has the key's columns
// and expressions, in any order, no operator class or collation that the key has not, and a
// condition that implies the key's predicate.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The index table that arbitrates in an INSERT ... ON CONFLICT with a target; null where PostgreSQL
// finds an index of its own, or will say that there is none. REQUIRES a query whose expressions the
// planner has simplified. Raises 55000 where the key is deferrable; 42P10, as PostgreSQL does, but
// with a hint, where an index table has the key and cannot arbitrate.
const IndexTable *InferArbiter(PlannerInfo *root, const Base *base);

} // namespace index_table
