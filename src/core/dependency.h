// What pg_depend says an object depends on, and what depends on it.
#pragma once

#include "pg.h"

namespace index_table {

// The rows of pg_depend that name an object in these columns, which `index` has.
template <typename Visit>
void ScanDepend(AttrNumber class_column, AttrNumber object_column, Oid index, Oid class_id,
                Oid object, LOCKMODE lock, Visit visit) {
    Relation depend = table_open(DependRelationId, lock);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], class_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(class_id));
    ScanKeyInit(&keys[1], object_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
    SysScanDesc scan = systable_beginscan(depend, index, true, nullptr, 2, keys);
    while (HeapTuple tuple = systable_getnext(scan))
        visit(depend, tuple, reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple)));
    systable_endscan(scan);
    table_close(depend, lock);
}

// Calls visit(depend, tuple, form) for each row of an object; `depend` is open in mode `lock`.
template <typename Visit>
void ForEachDependency(Oid class_id, Oid object, LOCKMODE lock, Visit visit) {
    ScanDepend(Anum_pg_depend_classid, Anum_pg_depend_objid, DependDependerIndexId, class_id,
               object, lock, visit);
}

// Calls visit(class, object) for each object that depends on this one in that way.
template <typename Visit>
void ForEachDependent(Oid class_id, Oid object, char type, Visit visit) {
    ScanDepend(Anum_pg_depend_refclassid, Anum_pg_depend_refobjid, DependReferenceIndexId, class_id,
               object, AccessShareLock, [&](Relation, HeapTuple, Form_pg_depend form) {
                   if (form->deptype == type)
                       visit(form->classid, form->objid);
               });
}

} // namespace index_table
