// Rows of PostgreSQL's own catalogs.
#pragma once

#include "pg.h"

namespace index_table {

// The rows of a catalog in which a column is `oid`, by an index that begins with it; or all of
// them. Whoever does not come to the end by End() leaves the rest to an error.
struct SystemScan {
    Relation catalog;
    LOCKMODE lock;
    SysScanDesc scan;

    explicit SystemScan(Oid catalog_id)
        : catalog(table_open(catalog_id, AccessShareLock)), lock(AccessShareLock),
          scan(systable_beginscan(catalog, InvalidOid, false, nullptr, 0, nullptr)) {}

    SystemScan(Oid catalog_id, Oid index, AttrNumber column, Oid oid,
               LOCKMODE lock_mode = AccessShareLock)
        : catalog(table_open(catalog_id, lock_mode)), lock(lock_mode) {
        ScanKeyData key;
        ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
        scan = systable_beginscan(catalog, index, true, nullptr, 1, &key);
    }

    HeapTuple Next() { return systable_getnext(scan); } // null at the end

    // The fixed part of the next row, such as Form_pg_class; null at the end.
    template <typename Form>
    Form Next() {
        HeapTuple tuple = Next();
        return tuple ? reinterpret_cast<Form>(GETSTRUCT(tuple)) : nullptr;
    }

    void End() {
        systable_endscan(scan);
        table_close(catalog, lock);
    }
};

// Calls look() with a row of a catalog that has just been made or changed, which no snapshot sees
// yet; false where there is none, or look() says so.
template <typename Form, typename Look>
bool LookAtNew(Oid catalog, Oid index, AttrNumber column, Oid object, Look look) {
    Relation rel = table_open(catalog, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
    SysScanDesc scan = systable_beginscan(rel, index, true, SnapshotSelf, 1, &key);
    HeapTuple tuple = systable_getnext(scan);
    bool found = HeapTupleIsValid(tuple) && look(reinterpret_cast<Form>(GETSTRUCT(tuple)));
    systable_endscan(scan);
    table_close(rel, AccessShareLock);
    return found;
}

} // namespace index_table
