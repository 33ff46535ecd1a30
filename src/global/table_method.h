// The access method of storage relations: what PostgreSQL's index code asks the table of a tree.
#pragma once

#include "pg.h"

namespace index_table {

const TableAmRoutine *GetStorageMethod();

} // namespace index_table
