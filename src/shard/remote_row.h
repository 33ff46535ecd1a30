// One row of a foreign partition, to be looked at before it is changed: locked on its server, then
// written there, by the foreign data wrapper, in its transaction.
//
// It is what UPDATE of the partition does, cut in two: the wrapper's scan, FOR UPDATE, and its
// ExecForeignUpdate. Triggers, policies and constraints are the caller's to see to. The wrapper
// sends an UPDATE of its own for the row, so that it costs what an UPDATE of one row costs.
#pragma once

#include "pg.h"

namespace index_table {

// Which row of which partition.
struct RemoteIdentity {
    Relation leaf;             // a foreign table, locked with RowExclusiveLock
    int count;                 // of columns, which are not null
    const AttrNumber *columns; // of the leaf
    const Datum *values;
};

struct RemoteRow;

// Locks the row; null where there is none, as far as this transaction's snapshot on the server
// shows. `updated`: columns of the leaf that may be written, offset by
// FirstLowInvalidHeapAttributeNumber. Privileges are not checked; the wrapper connects as `user`
// (InvalidOid: the current one). Raises what the server raises: 40001 where another transaction has
// changed the row since this one's snapshot there. In the current memory context, to be ended.
RemoteRow *LockRemoteRow(const RemoteIdentity &identity, const Bitmapset *updated, Oid user,
                         Snapshot snapshot);

// The row as it is on the server, a copy in the current memory context.
HeapTuple CopyRemoteRow(const RemoteRow *row);

// Writes the row; false where the server has not. `slot` has the leaf's layout, and gets the row as
// the server has it, in the current memory context, which must live as long.
bool WriteRemoteRow(RemoteRow *row, TupleTableSlot *slot);

void EndRemoteRow(RemoteRow *row);

} // namespace index_table
