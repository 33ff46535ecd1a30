// What is done without anybody asking: the workers that vacuum and verify, and what is known of
// both and of everything else that index_table.stat shows.
//
// The one header of this folder that others include.
#pragma once

#include "upkeep/worker.h"
