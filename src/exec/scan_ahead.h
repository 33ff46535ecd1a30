// What the inner side of a join reads for many outer rows at once: the scan is asked for the
// entries of each of them, one after the other, then all of their rows are fetched from shards
// together.
#pragma once

#include "pg.h"

namespace index_table {

// Whether `node` is a scan of an index table that can be asked in this way: one of rows, some of
// them on shards, whose index conditions depend on parameters of which those in `changing` are
// other ones for each outer row, and the rest, in `steady`, are not. Makes it ready. `changing` and
// the current memory context live as long as the query.
bool PrepareAhead(CustomScanState *node, const Bitmapset *changing, const Bitmapset *steady);

// Forgets what was read for others.
void BeginAhead(CustomScanState *node);
// Reads the entries for an outer row, with the parameters as they are now. False where there is no
// room for one more row.
bool ReadAhead(CustomScanState *node);
void FetchAhead(CustomScanState *node);
// The next rescan is for an outer row, numbered from 0 as they were read; -1: for none of them.
void UseAhead(CustomScanState *node, int number);

} // namespace index_table
