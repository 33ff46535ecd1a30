// On the coordinator: the queues of shards are read and carried out; what could not be is
// remembered; what crashes left in doubt is looked at again.
//
// The one header of this folder that others include.
#pragma once

#include "drain/drain.h"
#include "drain/drain_errors.h"
