// PostgreSQL's hooks, and the ends of transactions: who is called, in which order, and why.
#pragma once

namespace index_table {

// Called once, from _PG_init.
void InstallHooks();

} // namespace index_table
