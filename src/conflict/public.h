// INSERT ... ON CONFLICT on base tables whose index tables have constraints.
//
// The one header of this folder that others include.
#pragma once

#include "conflict/conflict_node.h"
#include "conflict/conflict_plan.h"
#include "conflict/returning.h"
