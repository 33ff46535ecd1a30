// What pg_depend says an object depends on, and what depends on it.
#pragma once

#include "pg.h"

namespace index_table {

// Calls visit(depend, tuple, form) for each row of an object; `depend` is open in mode `lock`.
template <typename Visit>
void ForEachDependency(Oid class_id, Oid object, LOCKMODE lock, Visit visit) {
    Relation depend = table_open(DependRelationId, lock);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(class_id));
    ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(object));
    SysScanDesc scan = systable_beginscan(depend, DependDependerIndexId, true, nullptr, 2, keys);
    while (HeapTuple tuple = systable_getnext(scan))
        visit(depend, tuple, reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple)));
    systable_endscan(scan);
    table_close(depend, lock);
}

// Calls visit(class, object) for each object that depends on this one in that way.
template <typename Visit>
void ForEachDependent(Oid class_id, Oid object, char type, Visit visit) {
    Relation depend = table_open(DependRelationId, AccessShareLock);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(class_id));
    ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(object));
    SysScanDesc scan = systable_beginscan(depend, DependReferenceIndexId, true, nullptr, 2, keys);
    while (HeapTuple tuple = systable_getnext(scan)) {
        Form_pg_depend form = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
        if (form->deptype == type)
            visit(form->classid, form->objid);
    }
    systable_endscan(scan);
    table_close(depend, AccessShareLock);
}

} // namespace index_table
