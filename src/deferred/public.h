// Deferred maintenance of local partitions: the queue of an index table, what writers append to it,
// what others find there.
//
// The one header of this folder that others include.
#pragma once

#include "deferred/key_hashes.h"
#include "deferred/merge_capture.h"
#include "deferred/lag.h"
#include "deferred/pack_reader.h"
#include "deferred/pack_writer.h"
#include "deferred/queue.h"
#include "deferred/queued_relation.h"
