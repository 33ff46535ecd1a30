// Other servers: connections to them, statements for tables that are partitions here, and what
// their catalogs say.
//
// The one header of this folder that others include.
#pragma once

#include "shard/connection.h"
#include "shard/connection_options.h"
#include "shard/identity_check.h"
#include "shard/pipelined.h"
#include "shard/remote_change.h"
#include "shard/remote_row.h"
#include "shard/remote_run.h"
#include "shard/remote_select.h"
#include "shard/remote_table.h"
#include "shard/server_table.h"
#include "shard/server_writers.h"
#include "shard/snapshot_check.h"
#include "shard/transmission.h"
