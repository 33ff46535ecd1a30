// The triggers, and all that they set going: changes of rows are captured, netted, and carried out
// in index tables; constraints are checked, intents written. And the guard that keeps others from
// writing.
//
// The one header of this folder that others include.
#pragma once

#include "maintenance/change_buffer.h"
#include "maintenance/change_log.h"
#include "maintenance/collect.h"
#include "maintenance/constraint_name.h"
#include "maintenance/entries.h"
#include "maintenance/flush.h"
#include "maintenance/guard.h"
#include "maintenance/identity_index.h"
#include "maintenance/intent.h"
#include "maintenance/leaf.h"
#include "maintenance/linked_updates.h"
#include "maintenance/maintain.h"
#include "maintenance/own_entries.h"
#include "maintenance/remote_entries.h"
#include "maintenance/settle.h"
#include "maintenance/shard_writes.h"
#include "maintenance/speculative_entry.h"
#include "maintenance/statements.h"
#include "maintenance/storage.h"
#include "maintenance/target_plan.h"
#include "maintenance/unique_recheck.h"
#include "maintenance/violation.h"
#include "maintenance/writer.h"
