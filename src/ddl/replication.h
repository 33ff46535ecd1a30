// Logical replication carries base tables, whose row triggers keep the index tables of a
// subscriber, and not what is the extension's own: index tables, logs of builds, queues, catalog
// tables. Each server has those of its own, whatever publications name or imply.
//
// Not published: what is written to a table of the extension is not decoded. PostgreSQL leaves out
// what it writes while it rewrites a table, which pg_class.relrewrite says; no slot gets it unless
// its plugin asks for rewrites. The mark here is a table's own OID in that column. It costs writers
// nothing. What has a mark and a primary key of the extension's making has REPLICA IDENTITY
// NOTHING: tools that rewrite tables with what is decoded meanwhile (pg_squeeze) would lose changes
// of it, and leave it alone. Dumps do not have the mark: it is set when the guard's trigger is
// created, a queue's table is captured or a publication changes. An owner who wants entries
// elsewhere gives the index table, or the queue, a replica identity: then it is published like any
// table.
//
// Not subscribed: a subscription is taken off the tables of the extension as soon as it has them.
#pragma once

#include "pg.h"

namespace index_table {

// Marks, or not, a relation and those that inherit from it, after a command that may have changed
// its replica identity or made it the extension's. Whatever is not the extension's is left alone,
// or loses its mark. Takes ShareUpdateExclusiveLock on those that change.
void FollowReplicaIdentity(Oid relid);

// The same for an index table that has been given its guard, and the queue of a table that has been
// given its triggers: by the extension or by a dump.
void FollowNewTrigger(const CreateTrigStmt *statement);

// The same for every table of the extension that is_concerned() is true of. Takes AccessShareLock
// on those that may change, ShareUpdateExclusiveLock on those that do.
void KeepLocal(bool (*is_concerned)(Oid relid));

// The same for all. Locks as above.
void KeepAllLocal();

// Takes the mark off whatever has it: before the extension goes. Locks as above.
void PublishAll();

// Warns of tables that a publication names and that it does not publish.
void FollowPublication(List *objects);

// Takes a subscription off the tables of the extension that it has been given. One that is being
// copied keeps its subscription, with a warning: a slot on the publisher would stay behind.
void FollowSubscription(const char *name);

} // namespace index_table
