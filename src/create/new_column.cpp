// ADD COLUMN on the base table of a denormalized index table.
#include "catalog/public.h"
#include "core/public.h"
#include "create/dependencies.h"
#include "create/server_tables.h"
#include "create/verify.h"
#include "maintenance/public.h"
#include "partitions/public.h"

namespace index_table {
namespace {

// A name for the copy that the index table does not use yet.
char *NameOfCopy(Oid index_table, const char *name) {
    char *unique = pstrdup(name);
    for (int i = 1; get_attnum(index_table, unique) != InvalidAttrNumber; i++) {
        int room = pg_mbcliplen(name, strlen(name), NAMEDATALEN - 6);
        unique = psprintf("%.*s%d", room, name, i);
    }
    return unique;
}

char *DefaultOf(Form_pg_attribute att, Datum value) {
    Oid output;
    bool is_varlena;
    getTypeOutputInfo(att->atttypid, &output, &is_varlena);
    return psprintf(" DEFAULT %s", quote_literal_cstr(OidOutputFunctionCall(output, value)));
}

// DEFAULT for the value that existing rows have without having been rewritten; empty where they
// have none.
char *MissingValue(Relation base, AttrNumber attno) {
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), attno - 1);
    if (!att->atthasmissing)
        return pstrdup("");
    bool isnull;
    Datum value = getmissingattr(RelationGetDescr(base), attno, &isnull);
    return isnull ? pstrdup("") : DefaultOf(att, value);
}

// DEFAULT for a value that some row has, and which therefore its domain allows; empty where that is
// NULL, and where there are no rows here.
char *SomeValue(Relation base, Form_pg_attribute att) {
    char *found = nullptr;
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    ListCell *cell;
    foreach (cell, FindLeaves(RelationGetRelid(base), NoLock)) {
        if (found || IsForeign(lfirst_oid(cell)))
            continue;
        Relation leaf = table_open(lfirst_oid(cell), AccessShareLock);
        TupleTableSlot *slot = table_slot_create(leaf, nullptr);
        TableScanDesc scan = table_beginscan_strat(leaf, snapshot, 0, nullptr, false, false);
        if (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
            bool isnull;
            Datum value = slot_getattr(
                slot, get_attnum(RelationGetRelid(leaf), NameStr(att->attname)), &isnull);
            found = isnull ? pstrdup("") : DefaultOf(att, value);
        }
        table_endscan(scan);
        ExecDropSingleTupleTableSlot(slot);
        table_close(leaf, NoLock);
    }
    UnregisterSnapshot(snapshot);
    return found ? found : pstrdup("");
}

} // namespace

void RefuseVirtualColumns(Relation base) {
    TupleDesc descriptor = RelationGetDescr(base);
    for (int i = 0; i < descriptor->natts; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        if (!att->attisdropped && compat::IsVirtual(att))
            ereport(ERROR,
                    (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                     errmsg("index tables over tables with virtual generated columns are not "
                            "supported"),
                     errdetail("Column \"%s\" of \"%s\" is one.", NameStr(att->attname),
                               RelationGetRelationName(base)),
                     errhint("Declare it GENERATED ALWAYS AS (...) STORED.")));
    }
}

void WarnOfMissingCopies(const IndexTable *table) {
    Assert(IsLocked(table->base, AccessShareLock));
    if (table->options.strategy != Strategy::Denormalized)
        return;
    Relation base = relation_open(table->base, NoLock);
    for (int i = 0; i < RelationGetNumberOfAttributes(base); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), i);
        auto is_copied = [=](const CopiedColumn &copy) { return copy.base_attno == att->attnum; };
        auto is_key = [=](const KeyColumn &column) { return column.attno == att->attnum; };
        if (!att->attisdropped &&
            std::none_of(table->copied, table->copied + table->copied_count, is_copied) &&
            std::none_of(table->key.columns, table->key.columns + table->key.count, is_key))
            ereport(WARNING, (errmsg("index table \"%s\" has no copy of column \"%s\"",
                                     get_rel_name(table->relid), NameStr(att->attname)),
                              errdetail("It was added while event triggers were off."),
                              errhint("Drop the index table with index_table.drop(), and create it "
                                      "again, or do without.")));
    }
    relation_close(base, NoLock);
}

void CopyNewColumn(Oid base_oid, const char *name) {
    Assert(IsLocked(base_oid, AccessExclusiveLock));
    Relation base = relation_open(base_oid, NoLock);
    RefuseVirtualColumns(base);
    AttrNumber attno = FindColumn(base, name);
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), attno - 1);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    ListCell *cell;
    foreach (cell, ListIndexTables(base_oid)) {
        Oid relid = lfirst_oid(cell);
        const IndexTable *table = FindIndexTable(relid);
        if (!table || table->options.strategy != Strategy::Denormalized)
            continue;
        CheckIsComplete(table);
        if (table->on_servers && table->is_unusable())
            CheckIsTrusted(table);
        bool is_checked = !table->on_servers && compat::HasConstraints(att->atttypid);
        if (is_checked)
            RemoveDeadEntries(table, nullptr);
        if (!AppendIncludedColumn(relid, attno))
            continue;
        int level = NewGUCNestLevel();
        UseLosslessText(); // for a value that is written and read
        char *missing = MissingValue(base, attno);
        char *copy = NameOfCopy(relid, name);
        // Values that were computed row by row: the base table was rewritten, so is this.
        bool is_computed = att->atthasdef && !*missing;
        // Entries may not be as their domain wants them before they have those: until then they
        // have another row's. What is left of partitions that are gone has none, and went before.
        if (!*missing && is_checked) {
            is_computed = true;
            missing = SomeValue(base, att);
        }
        StringInfoData sql;
        initStringInfo(&sql);
        appendStringInfo(
            &sql, "ALTER TABLE %s ADD COLUMN %s %s", QualifiedName(relid), quote_identifier(copy),
            format_type_extended(att->atttypid, att->atttypmod,
                                 FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
        if (OidIsValid(att->attcollation))
            appendStringInfo(&sql, " COLLATE %s", generate_collation_name(att->attcollation));
        ExecuteUnguarded(psprintf("%s%s", sql.data, missing));
        KeepOwner(relid, GetUserId());
        if (*missing)
            ExecuteUnguarded(psprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT",
                                      QualifiedName(relid), quote_identifier(copy)));
        KeepOwner(relid, GetUserId());
        table = FindIndexTable(relid);
        if (table->on_servers)
            AddServerColumn(table, copy, missing);
        KeepOwner(relid, GetUserId());
        AtEOXact_GUC(true, level);
        RecordCopyDependency(table, table->include[table->include_count - 1]);
        // And those that rows of foreign tables have had all the time.
        if (is_computed || HasForeign(FindLeaves(base_oid, NoLock)))
            RepairEntries(base, table);
    }
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

} // namespace index_table
