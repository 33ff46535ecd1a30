// Drain workers of all databases: where they are known, how others start and wake them.
//
// They are known in shared memory, which is there where the library is in shared_preload_libraries.
// Elsewhere there are no workers, and everything here does nothing.
#pragma once

#include "pg.h"

namespace index_table {

// --- For whoever changes rows or definitions ----------------------------------

// The transaction has queued changes in this database: if it commits, waiting workers of the
// database drain what is woken (drain_worker.cpp). May be called any number of times. Changes of a
// subtransaction that aborts wake in vain; those of PREPARE TRANSACTION wait for
// index_table.drain_naptime. REQUIRES: a transaction.
void RememberQueued();

// The transaction has made something that is to be drained, or made that possible: if it commits,
// workers look at everything, and one is started where there is none, or when the turn of the
// database comes. REQUIRES: a transaction.
void RequestDrainWorker();

// Does what the two above have promised, or forgets it. Changes can be seen by others already.
void AtEOXactDrainWorkers(bool committed);

// What a commit after RememberQueued() does. Takes no lock; one look at each worker, and a signal
// to those that wait.
void WakeDrainWorkers();

// Starts a worker in the database, which ends by itself where it is not needed. It connects after
// `delay` milliseconds. False where the workers of all databases, or all background workers, are as
// many as there may be: a database that has none then waits for its turn. Raises nothing.
bool StartDrainWorker(Oid database, int delay = 0);

// Whether this database has a worker, or one that is being started.
bool HasDrainWorker();

// --- For workers ----------------------------------------------------------------

// Makes this process known as a worker of its database until it ends; it is the caller's duty to
// end where that returns false: index_table.drain_workers are there already, or other databases
// have theirs. One that fails, or is terminated, starts its successor.
bool RegisterDrainWorker();

// What others want of a worker since it last began a round.
enum class DrainWish { Nothing, Woken, All };
// Called before it looks at anything.
DrainWish BeginDrainRound();
// True: the worker may sleep, and its latch is set when there is a wish. False: there is one.
// Ends with the next BeginDrainRound().
bool MayDrainWorkerSleep();

// Whether this worker is one too many for so many things to drain; it is not known any more then,
// and ends. The last one ends where there is nothing, and nobody has had a wish meanwhile.
bool IsSurplusDrainWorker(int things);
// Whether another one would be of use and may be started.
bool WantsDrainWorker(int things);

// Whether other databases wait for a worker. A worker that sleeps is woken when the first does.
bool AreDatabasesWaiting();
// If other databases wait, the worker is not known any more, and ends, so that one of them has its
// turn; `has_things`: this database then waits for its next. False, and nothing happens, if none
// do.
bool GiveWayToDatabase(bool has_things);

// Others leave a relation of this database alone until then. Hints: one may be lost.
void AnnounceNextDrain(Oid relid, TimestampTz next);
TimestampTz FindNextDrain(Oid relid); // 0: none

// --- For the launcher -------------------------------------------------------------

// Has the latch of this process set when a database waits, or a worker has ended.
void RegisterDrainLauncher();

struct WaitingDatabases {
    int count;
    int workers; // that may drain at a time
};
// Starts workers for the databases that wait, in their order. Returns what is left. Raises nothing.
WaitingDatabases ServeWaitingDatabases();

// --- For the server ---------------------------------------------------------------

void InitializeDrainWorkers();
// In shmem_request_hook and shmem_startup_hook.
void RequestDrainMemory();
void AttachDrainMemory();

} // namespace index_table
