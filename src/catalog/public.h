// What an index table is: its definition and key, the numbers of its base table's partitions, the
// session's cache of both, and the query that says what it should hold.
//
// The one header of this folder that others include.
#pragma once

#include "catalog/definition.h"
#include "catalog/key.h"
#include "catalog/known_relations.h"
#include "catalog/own_build.h"
#include "catalog/own_triggers.h"
#include "catalog/progress.h"
#include "catalog/queue_table.h"
#include "catalog/recomputation.h"
#include "catalog/rows.h"
