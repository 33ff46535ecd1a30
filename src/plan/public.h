// What plans queries on base tables: which index tables may serve, what that costs, the paths.
//
// The one header of this folder that others include.
#pragma once

#include "plan/join_paths.h"
#include "plan/paths.h"
#include "plan/planner.h"
#include "plan/row_switch_paths.h"
#include "plan/scan.h"
#include "plan/statistics.h"
