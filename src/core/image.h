// Values that are compared byte for byte, of which one may have come from another server as text,
// and then has another image where a text has many: a float that is no number (inf - inf has
// another sign than 'NaN' on some processors), an array whose NULLs were overwritten (it still has
// room for them), a row that was taken from a table as it is (compressed), whatever contains them.
// What is not the same byte for byte may be so as text, which UseLosslessText() makes faster in
// sessions whose text says less.
#pragma once

#include "pg.h"

namespace index_table {

// Neither is NULL. May allocate memory.
bool IsSameImage(Form_pg_attribute att, Datum a, Datum b);

// Values of the same image, as above, have the same.
uint32 HashImage(Form_pg_attribute att, Datum value);

} // namespace index_table
