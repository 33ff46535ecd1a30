// Global indexes: CREATE INDEX … USING global. One B-tree over all partitions, whose entries point
// at rows by address.
//
// The one header of this folder that others include.
#pragma once

#include "global/address.h"
#include "global/addressed_rows.h"
#include "global/claims.h"
#include "global/follow_ddl.h"
#include "global/global_index.h"
#include "global/index_statement.h"
#include "global/lone_index.h"
#include "global/online_build.h"
#include "global/operator_classes.h"
#include "global/options.h"
#include "global/ownership.h"
#include "global/unbuilt.h"
#include "global/verify.h"
