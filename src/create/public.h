// Index tables that come, are filled, checked, mended, and go: create, concurrent builds, reload,
// repair, restored ones, drop.
//
// The one header of this folder that others include.
#pragma once

#include "create/base_table.h"
#include "create/dependencies.h"
#include "create/defer.h"
#include "create/drop.h"
#include "create/key_concerns.h"
#include "create/new_column.h"
#include "create/online.h"
#include "create/online_rows.h"
#include "create/reload.h"
#include "create/restored.h"
#include "create/trial.h"
#include "create/verify.h"
