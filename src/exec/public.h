// What executes plans over index tables: entries, the rows that they lead to, on this server and on
// shards, and the switch that lets PostgreSQL change them.
//
// The one header of this folder that others include.
#pragma once

#include "exec/entry_scan.h"
#include "exec/identity_map.h"
#include "exec/leaf_reader.h"
#include "exec/outer_rows.h"
#include "exec/owner_indexes.h"
#include "exec/pass_through.h"
#include "exec/query_start.h"
#include "exec/queued_rows.h"
#include "exec/read_consistency.h"
#include "exec/remote_entries.h"
#include "exec/row_switch.h"
#include "exec/row_use.h"
#include "exec/scan_plan.h"
#include "exec/shard_access.h"
#include "exec/shard_rows.h"
