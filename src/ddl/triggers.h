// ALTER TABLE … ENABLE and DISABLE TRIGGER, which dumps of data alone use, on the extension's own
// triggers.
#pragma once

#include "pg.h"

namespace index_table {

// Follows a command of such a statement that has been carried out on `relid`, and on its partitions
// where `recursed`. The caller of ALTER TABLE holds its locks.
void FollowTriggers(const AlterTableCmd *command, Oid relid, bool recursed);

} // namespace index_table
