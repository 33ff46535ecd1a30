// Values in the form in which servers read them, whatever this session's settings.
#pragma once

#include "pg.h"

namespace index_table {

// Until EndTransmission() is called with what this returns, or an error ends the subtransaction,
// output functions write what a shard's connection reads as the same value.
int BeginTransmission();
void EndTransmission(int level);

} // namespace index_table
