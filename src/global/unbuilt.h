// Global indexes that are not built: writes to their tables raise 55000. pg_upgrade leaves roots
// without storage and tree; pg_repack puts a file of its own in the place of a child's. REINDEX of
// the whole, of a partition or of a part builds them, as does repair().
#pragma once

#include "pg.h"

namespace index_table {

// Whether queries use a root and writes to every partition are taken: it is complete, and its
// children are part of it. Waits for no lock: what is locked exclusively is not looked at.
bool IsBuilt(Oid root);

// Whether a root is valid and has no storage, and is not being made by this transaction.
bool LacksTree(Oid root);

// Says so, as a warning.
void WarnOfNotBuilt(Oid root);

// REINDEX has met a partition of such a root: the whole is built before the transaction commits,
// when PostgreSQL is through with the partition. Where the user does not own the root, a warning
// says that it is not.
void BuildBeforeCommit(Oid root);
// Builds them. Raises 23505 as CREATE INDEX does.
void BuildRemembered();

void AtEOXactUnbuilt();
void AtEOSubXactUnbuilt(bool commits, int level);

} // namespace index_table
