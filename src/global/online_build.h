// CREATE INDEX CONCURRENTLY … USING global: building a global index while others write.
//
// The root is made ON ONLY, with an empty tree that takes entries and is not valid. Then each
// partition gets its child, with no writer in flight: from then on all writers enter their rows.
// What a snapshot sees that was taken before the first of them is entered by the build. In the end
// snapshots that are older than that of the last partition are waited for, and the index is valid.
#pragma once

#include "pg.h"

namespace index_table {

// CREATE INDEX CONCURRENTLY of a global index: true where it has been carried out here, in several
// transactions. `is_top_level`: it came from the client by itself. Raises 25001 in a transaction
// block, 0A000 for what cannot be built online. What is interrupted leaves an index that is not
// valid, which writers maintain: DROP INDEX drops it, REINDEX INDEX completes it.
bool CreateIndexConcurrently(Node *command, const char *text, bool is_top_level);

// Whether somebody is building a root online. Where nobody is, nobody will until the end of the
// transaction.
bool IsBeingBuilt(Oid root);

} // namespace index_table
