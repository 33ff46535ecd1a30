#include "core/image.h"

#include "core/sql.h"

namespace index_table {
namespace {

bool HasOneImage(Oid type) {
    switch (type) {
    case TEXTOID:
    case VARCHAROID:
    case BPCHAROID:
    case BYTEAOID:
    case NAMEOID:
    case NUMERICOID:
    case UUIDOID:
    case JSONBOID:
    case INTERVALOID:
        return true;
    default:
        return false;
    }
}

// Two values must not pass for one.
char *TextOf(Oid type, Datum value) {
    Oid output;
    bool is_varlena;
    getTypeOutputInfo(type, &output, &is_varlena);
    if (IsTextLossless())
        return OidOutputFunctionCall(output, value);
    int guc_level = NewGUCNestLevel();
    UseLosslessText();
    char *text = OidOutputFunctionCall(output, value);
    AtEOXact_GUC(false, guc_level);
    return text;
}

// A float, or of a domain over one, that is no number.
bool IsNaN(Oid type, Datum value) {
    return (type == FLOAT8OID && std::isnan(DatumGetFloat8(value))) ||
           (type == FLOAT4OID && std::isnan(DatumGetFloat4(value)));
}

Oid BaseTypeOf(Form_pg_attribute att) {
    return att->atttypid >= FirstNormalObjectId ? getBaseType(att->atttypid) : att->atttypid;
}

} // namespace

bool IsSameImage(Form_pg_attribute att, Datum a, Datum b) {
    if (datum_image_eq(a, b, att->attbyval, att->attlen))
        return true;
    Oid type = BaseTypeOf(att);
    if (att->attbyval)
        return IsNaN(type, a) && IsNaN(type, b);
    if (HasOneImage(type))
        return false;
    char *a_text = TextOf(type, a);
    char *b_text = TextOf(type, b);
    bool same = strcmp(a_text, b_text) == 0;
    pfree(a_text);
    pfree(b_text);
    return same;
}

uint32 HashImage(Form_pg_attribute att, Datum value) {
    Oid type = BaseTypeOf(att);
    if (att->attbyval ? IsNaN(type, value) : !HasOneImage(type)) {
        const char *text = TextOf(type, value);
        return hash_bytes(reinterpret_cast<const unsigned char *>(text),
                          static_cast<int>(strlen(text)));
    }
    return datum_image_hash(value, att->attbyval, att->attlen);
}

} // namespace index_table
