#include "core/row_type.h"

namespace index_table {
namespace {

// What a domain is over, and an array, range or multirange made of.
Oid InnermostType(Oid type) {
    type = getBaseType(type);
    Oid part = get_element_type(type);
    if (!OidIsValid(part) && type_is_range(type))
        part = get_range_subtype(type);
    if (!OidIsValid(part) && type_is_multirange(type))
        part = get_multirange_range(type);
    return OidIsValid(part) ? InnermostType(part) : type;
}

bool HasColumnOf(Oid row_type, const List *row_types) {
    TupleDesc descriptor = lookup_rowtype_tupdesc_copy(row_type, -1);
    bool found = false;
    for (int i = 0; i < descriptor->natts && !found; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        found = !att->attisdropped && ContainsAny(att->atttypid, row_types);
    }
    return found;
}

} // namespace

bool ContainsComposite(Oid type) {
    return type_is_rowtype(InnermostType(type));
}

bool ContainsAny(Oid type, const List *row_types) {
    type = InnermostType(type);
    return list_member_oid(row_types, type) ||
           (type != RECORDOID && type_is_rowtype(type) && HasColumnOf(type, row_types));
}

} // namespace index_table
