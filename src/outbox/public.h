// On a shard: tables whose changes are queued in the transactions that make them.
//
// The one header of this folder that others include.
#pragma once

#include "outbox/outbox.h"
#include "outbox/outbox_table.h"
