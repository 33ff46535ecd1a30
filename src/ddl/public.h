// Event triggers: what commands do to base tables and index tables, and what they must not.
//
// The one header of this folder that others include.
#pragma once

#include "ddl/ddl.h"
#include "ddl/foreign_keys.h"
#include "ddl/single_user.h"
