// What the user chooses about an index table beside its key, columns and predicate.
#pragma once

#include "pg.h"

namespace index_table {

enum class Strategy : uint8 { Normalized, Partial, Denormalized };

// Parses the name of a strategy; raises 22023.
Strategy ParseStrategy(const char *name);
const char *StrategyName(Strategy strategy);

// The one list of options: create() reads them from its arguments, the definition stores them, the
// cached index table has them.
struct IndexOptions {
    Strategy strategy = Strategy::Normalized;
    bool is_unique = false;
    bool nulls_distinct = true;      // where it is unique: NULL is unlike NULL
    bool is_deferrable = false;      // likewise: by a DEFERRABLE constraint
    bool initially_deferred = false; // likewise
    bool is_deferred = false; // maintenance of foreign partitions: through their queues alone
    bool is_visible = true;   // to queries; it is maintained, and unique, all the same
};

// Raises 22023 where options contradict each other; of what a dump brings, false.
void CheckOptions(const IndexOptions &options);
bool AreConsistent(const IndexOptions &options);

// As words between spaces, of which the strategy is the first. False for a word that is none.
void AppendOptions(StringInfo text, const IndexOptions &options);
bool ReadOption(const char *word, IndexOptions *options);

} // namespace index_table
