// Who owns storage and tree: the table's owner, as whom PostgreSQL has indexes built, and so the
// code of operator classes run. PostgreSQL knows of no table that the storage belongs to, and does
// not change its owner with the table's.
#pragma once

#include "pg.h"

namespace index_table {

// Gives storage and tree of a root to the owner of the root, if they are another's.
void FollowOwner(Oid root);
// The same when a relation is altered, if it is a root, by ALTER TABLE … OWNER TO or by REASSIGN
// OWNED, of which event triggers are told nothing: PostgreSQL opens each index whose owner it
// changes, and that loads the library.
void FollowNewOwner(Oid relid);

// Raises 55000 where the storage is another's than the root, as earlier releases have left it.
void CheckOwner(Relation storage);

} // namespace index_table
