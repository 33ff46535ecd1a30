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

// Casts a value to the type of a column; `isnull` says and is told whether it is NULL. Raises 42846
// and class 22 errors that name the column.
Datum CastKeyValue(Datum value, Oid from, Oid type, const char *column, bool *isnull);

// Reads the VARIADIC arguments from `first` on and casts them to the key columns' types. Raises
// 22023 for too many values, 42846 and class 22 errors that name the column for what does not cast.
KeyValues ReadKeyValues(FunctionCallInfo fcinfo, int first, const IndexTable *table);

} // namespace index_table
