// Writing entries of index tables on servers: through postgres_fdw, in its transaction there, a
// statement for all deletions from a partition of the index table, and one for its insertions.
//
// The server shows the state of the first statement that this transaction ran there: entries that
// were written since, by others, are not found. That raises 40001, as a row does that others have
// changed since.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

// Has postgres_fdw connect to a server of the index table, if this session may not have used it
// yet: from then on this library is told of commits before it (intent.h). For what is captured to
// be written by the last flush of a transaction.
void ReachServers(const IndexTable *table);

// Carries out what was netted. Raises 23505 where a unique key repeats, 40001 where entries to be
// deleted are not there.
//
// With `more_to_come` in the statement around, what cannot be done yet is put back into the buffer:
// deletions of entries that may be inserted later, insertions of keys that may be freed later.
void WriteToServers(ChangeBuffer *buffer, const NetChanges &net, bool more_to_come);

} // namespace index_table
