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
// workers look at everything, and one is started where there is none. Where none can be had, for
// max_worker_processes, the worker that vacuums tries again. REQUIRES: a transaction.
void RequestDrainWorker();

// Does what the two above have promised, or forgets it. Changes can be seen by others already.
void AtEOXactDrainWorkers(bool committed);

// What a commit after RememberQueued() does. Takes no lock; one look at each worker, and a signal
// to those that wait.
void WakeDrainWorkers();

// Starts a worker in the database, which ends by itself where it is not needed; false where none
// can be had. It connects after `delay` milliseconds. Raises nothing.
bool StartDrainWorker(Oid database, int delay = 0);

// Whether this database has a worker, one that has only been started excepted.
bool HasDrainWorker();

// --- For workers ----------------------------------------------------------------

// Makes this process known as a worker of its database until it ends; it is the caller's duty to
// end where that returns false: index_table.drain_workers are there already, or other databases
// need theirs. One that fails, or is terminated, starts its successor.
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

// Others leave a relation of this database alone until then. Hints: one may be lost.
void AnnounceNextDrain(Oid relid, TimestampTz next);
TimestampTz FindNextDrain(Oid relid); // 0: none

// --- For the server ---------------------------------------------------------------

void InitializeDrainWorkers();
// In shmem_request_hook and shmem_startup_hook.
void RequestDrainMemory();
void AttachDrainMemory();

} // namespace index_table
