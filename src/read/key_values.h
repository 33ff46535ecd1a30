// Key values that a user passes to lookup, fetch and page.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Values for the first `count` key columns, in the columns' own types.
struct KeyValues {
    int count;
    Datum *values;
    bool *nulls;
};

// Casts a value to the type of a column of `table`; `isnull` says and is told whether it is NULL.
// What others have written is not run for the caller but where a query would run it, too: text is
// read as a literal of the type is, domains within types check as the owner of the table, and of
// casts those that are written in SQL or the like must be implicit. Raises 42846 and class 22
// errors that name the column.
Datum CastKeyValue(Oid table, Datum value, Oid from, Oid type, const char *column, bool *isnull);

// Reads the VARIADIC arguments from `first` on and casts them to the key columns' types. Raises
// 22023 for too many values, 42846 and class 22 errors that name the column for what does not cast.
KeyValues ReadKeyValues(FunctionCallInfo fcinfo, int first, const IndexTable *table);

} // namespace index_table
