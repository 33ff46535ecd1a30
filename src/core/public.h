// PostgreSQL's versions, roles and relations, and memory of them: what knows nothing of index
// tables.
//
// The one header of this folder that others include.
#pragma once

#include "core/compat.h"
#include "core/contract.h"
#include "core/counters.h"
#include "core/dependency.h"
#include "core/drain_workers.h"
#include "core/fault.h"
#include "core/generated_columns.h"
#include "core/hash_table.h"
#include "core/heap_page.h"
#include "core/hypertable.h"
#include "core/image.h"
#include "core/lock_tags.h"
#include "core/names.h"
#include "core/number_map.h"
#include "core/owner.h"
#include "core/relation.h"
#include "core/relation_cache.h"
#include "core/router.h"
#include "core/row_type.h"
#include "core/search_keys.h"
#include "core/sql.h"
#include "core/subtransaction.h"
#include "core/system_scan.h"
#include "core/transition_rows.h"
#include "core/trigger.h"
#include "core/worker.h"
