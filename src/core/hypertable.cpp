#include "core/hypertable.h"

#include "core/compat.h"
#include "core/system_scan.h"

namespace index_table {
namespace {

constexpr char kCatalog[] = "_timescaledb_catalog"; // a schema of the extension's

Oid FindTimescale() {
    return get_extension_oid("timescaledb", true);
}

// The column of this name; InvalidAttrNumber where it has another type, or is none.
AttrNumber ColumnOf(Relation rel, const char *name, Oid type) {
    AttrNumber attno = get_attnum(RelationGetRelid(rel), name);
    return attno > 0 && get_atttype(RelationGetRelid(rel), attno) == type ? attno
                                                                          : InvalidAttrNumber;
}

// Whether its list of hypertables, by names, has this one.
bool IsListed(Relation hypertables, const char *schema, const char *name) {
    ScanKeyData keys[2];
    const char *values[] = {schema, name};
    const char *columns[] = {"schema_name", "table_name"};
    for (int i = 0; i < 2; i++) {
        AttrNumber attno = ColumnOf(hypertables, columns[i], NAMEOID);
        if (attno == InvalidAttrNumber)
            return false;
        ScanKeyInit(&keys[i], attno, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(values[i]));
    }
    SysScanDesc scan = systable_beginscan(hypertables, InvalidOid, false, nullptr, 2, keys);
    bool is_listed = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    return is_listed;
}

bool IsHypertable(Oid relid) {
    Oid schema = get_namespace_oid(kCatalog, true);
    Oid list = OidIsValid(schema) ? get_relname_relid("hypertable", schema) : InvalidOid;
    const char *name = get_rel_name(relid);
    if (!OidIsValid(list) || !name)
        return false;
    Relation hypertables = table_open(list, AccessShareLock);
    bool is_listed = IsListed(hypertables, get_namespace_name(get_rel_namespace(relid)), name);
    table_close(hypertables, AccessShareLock);
    return is_listed;
}

// What it inherits from; InvalidOid: nothing.
Oid ParentOf(Oid relid) {
    SystemScan scan(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid,
                    relid);
    auto form = scan.Next<Form_pg_inherits>();
    Oid parent = form ? form->inhparent : InvalidOid;
    scan.End();
    return parent;
}

} // namespace

// Chunks inherit from their hypertable, but for those that hold what it has compressed, which are
// in a schema of the extension.
bool IsOfTimescale(Oid relid) {
    Oid extension = FindTimescale();
    if (!OidIsValid(extension))
        return false;
    if (getExtensionOfObject(NamespaceRelationId, get_rel_namespace(relid)) == extension ||
        IsHypertable(relid))
        return true;
    Oid parent = get_rel_relispartition(relid) ? InvalidOid : ParentOf(relid);
    return OidIsValid(parent) && IsHypertable(parent);
}

// The syscache knows schemas, not extensions, and this is asked before every statement.
void RefuseHypertable(Oid relid) {
    if (!OidIsValid(get_namespace_oid(kCatalog, true)) ||
        get_rel_relkind(relid) != RELKIND_RELATION || !IsOfTimescale(relid))
        return;
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("\"%s\" has become a hypertable of TimescaleDB", get_rel_name(relid)),
                    errdetail("Index tables and queues of changes do not follow hypertables."),
                    errhint("Use index_table.drop() for its index tables, and "
                            "index_table.release() where it is captured.")));
}

} // namespace index_table
