// Values that are compared byte for byte, of which one may have come from another server as text: a
// float that is no number has one text ('NaN') and many images (inf - inf has another sign than
// 'NaN' on some processors).
#pragma once

#include "pg.h"

namespace index_table {

// Whether it is a float, or of a domain over one, and no number.
inline bool IsNaN(Oid type, Datum value, bool by_value, int length) {
    if (!by_value || (length != sizeof(float4) && length != sizeof(float8)))
        return false;
    if (type >= FirstNormalObjectId)
        type = getBaseType(type);
    return (type == FLOAT8OID && std::isnan(DatumGetFloat8(value))) ||
           (type == FLOAT4OID && std::isnan(DatumGetFloat4(value)));
}

inline bool IsSameImage(Form_pg_attribute att, Datum a, Datum b) {
    return datum_image_eq(a, b, att->attbyval, att->attlen) ||
           (IsNaN(att->atttypid, a, att->attbyval, att->attlen) &&
            IsNaN(att->atttypid, b, att->attbyval, att->attlen));
}

inline uint32 HashImage(Form_pg_attribute att, Datum value) {
    return IsNaN(att->atttypid, value, att->attbyval, att->attlen)
               ? 0
               : datum_image_hash(value, att->attbyval, att->attlen);
}

} // namespace index_table
