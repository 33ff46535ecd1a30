// What could not be drained: the rows of index_table.undrained.
#pragma once

#include "pg.h"

namespace index_table {

// Notes an error, once more where it is noted already. `identity`: of a row, as text of an array of
// text; null: of the partition as a whole.
void RecordDrainError(Oid leaf, const char *identity, const char *error);
// Forgets the one note that is meant, if there is one; false where there is none.
bool ForgetDrainError(Oid leaf, const char *identity);
// Forgets everything of a partition.
void ForgetDrainErrors(Oid leaf);
// The rows of a partition that are noted, a list of lists of char *, the columns of identities.
List *ListDrainErrors(Oid leaf);

struct DrainErrorSummary {
    int rows;          // those of rows
    int tries;         // of what was tried most often
    const char *error; // of the partition as a whole, or one of a row's; null: none
};
DrainErrorSummary SummarizeDrainErrors(Oid leaf);

} // namespace index_table
