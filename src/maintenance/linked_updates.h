// Updates of rows as updates of their entries, for index tables that foreign keys point at.
//
// Elsewhere a new key is one entry's deletion and another's insertion, whatever row they come from.
// Foreign keys tell the two apart: ON UPDATE or ON DELETE. So capture links the two halves of each
// row's update, and netting keeps linked halves together: a chain of updates of one row comes to
// its first and last link, and an update to a key that another gives up goes after that one. Keys
// that change places in a circle cannot be updated one after the other: then references stay with
// the key.
//
// A row that moves to another partition is captured as a deletion and an insertion, with other
// triggers in between. Its first half is held back in the buffer until the second comes.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

// The last two changes of a buffer are the halves of an update.
void LinkLastTwo(ChangeBuffer *buffer);

// Another row is about to be moved by `command`: what is open of that was never inserted elsewhere.
void CloseHalves(ChangeBuffer *buffer, CommandId command);

// The last change of a buffer is the first half of a movement.
void OpenLastHalf(ChangeBuffer *buffer);

// An insertion by `command` is about to be captured: puts the open half of that command, if there
// is one, last.
void JoinHalf(ChangeBuffer *buffer, CommandId command);

// Open halves of a nest level become the next lower one's, or are not open any more.
void EndLevelOfHalves(ChangeBuffer *buffer, int level, bool keep);

// Takes the open halves of the current level out of the buffer, copies in `batch`.
struct HeldHalves {
    Change *changes;
    OpenHalf **halves;
    uint32 count;
};
HeldHalves HoldHalves(ChangeBuffer *buffer, MemoryContext batch);

// Cancels what cancels in a sorted batch and moves what remains of updates into the replacements of
// `net`, in the order in which they can be carried out. Returns how many changes are left.
uint32 TakeLinkedUpdates(const IndexTable *table, TupleDesc descriptor, Change *changes,
                         uint32 count, NetChanges *net);

} // namespace index_table
