// Planning of INSERT … ON CONFLICT on base tables.
#pragma once

#include "pg.h"

namespace index_table {

constexpr char kConflictCheckName[] = "Index Table Conflict Check";

// Makes the state of the node; its plan's custom_private has the base table.
Node *CreateConflictCheck(CustomScan *scan);

void InitializeConflictPlan();

} // namespace index_table
