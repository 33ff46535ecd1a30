#include "maintenance/guard.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/statements.h"

namespace index_table {
namespace {

constinit bool is_off = false;

// Whether a partition has its guard disabled: rows are being loaded into it, for which pg_dump may
// name the partitioned table.
bool IsLoading(Relation rel) {
    bool is_loading = false;
    ListCell *cell;
    foreach (cell, find_inheritance_children(RelationGetRelid(rel), AccessShareLock)) {
        Relation partition = table_open(lfirst_oid(cell), NoLock);
        const TriggerDesc *triggers = partition->trigdesc;
        for (int i = 0; triggers && i < triggers->numtriggers; i++)
            is_loading = is_loading || (strcmp(triggers->triggers[i].tgname, kGuard) == 0 &&
                                        triggers->triggers[i].tgenabled == TRIGGER_DISABLED);
        table_close(partition, NoLock);
    }
    return is_loading;
}

// Calls something while guards let everything pass.
template <typename Action>
void Unguarded(Action action) {
    bool outer = is_off;
    PG_TRY();
    {
        is_off = true;
        action();
    }
    PG_FINALLY();
    { is_off = outer; }
    PG_END_TRY();
}

// Sessions of this role may change anything, as foreign keys allow them too. But one that loads
// entries from a dump beside a guard that is enabled has made them already: the base table's
// triggers fire for replicas, too.
bool MayChangeAnything() {
    return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA && check_function_bodies;
}

// Whether the TRUNCATE that runs empties the base table, too: who empties every table there is
// names index tables with the rest.
bool IsTruncatedWithBase(Oid index_table) {
    List *named = TruncatedRelations();
    ListCell *cell;
    foreach (cell, find_all_inheritors(RecordedBase(index_table), NoLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE &&
            !list_member_oid(named, lfirst_oid(cell)))
            return false;
    return named != NIL;
}

} // namespace

// Past all event triggers, and whatever rights the owner has in the schema.
void KeepOwner(Oid relid, Oid owner) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, AccessExclusiveLock, nullptr)) {
        if (RelationOwner(lfirst_oid(cell)) == owner)
            continue;
        ATExecChangeOwner(lfirst_oid(cell), owner, true, AccessExclusiveLock);
        CommandCounterIncrement();
    }
}

namespace {

void RevokePrivileges(Oid relid) {
    Assert(IsInOwnerOf(relid));
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr)) {
        if (SPI_connect() != SPI_OK_CONNECT)
            elog(ERROR, "SPI_connect failed");
        char *query =
            psprintf("SELECT DISTINCT a.grantee FROM pg_class AS c, aclexplode(c.relacl) AS a "
                     "WHERE c.oid = %u AND a.grantee <> c.relowner",
                     lfirst_oid(cell));
        // Not read-only: it must see the table just created.
        if (SPI_execute(query, false, 0) != SPI_OK_SELECT)
            elog(ERROR, "cannot read privileges");
        for (uint64 i = 0; i < SPI_processed; i++) {
            bool isnull;
            Oid grantee = DatumGetObjectId(
                SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));
            RunStatement(psprintf("REVOKE ALL ON %s FROM %s", QualifiedName(lfirst_oid(cell)),
                                  OidIsValid(grantee)
                                      ? quote_identifier(GetUserNameFromId(grantee, false))
                                      : "PUBLIC"));
        }
        SPI_finish();
    }
}

} // namespace

Oid FindCreated(const char *name, Oid schema) {
    Oid relid = get_relname_relid(name, schema);
    if (!OidIsValid(relid))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("relation \"%s\" is not where it was created", name),
                        errdetail("An event trigger has dropped, renamed or moved it."),
                        errhint("Have event triggers leave alone what is created by functions of "
                                "index_table, or disable them meanwhile.")));
    KeepOwner(relid, GetUserId());
    return relid;
}

void SecureCreated(Oid relid) {
    KeepOwner(relid, GetUserId());
    RevokePrivileges(relid);
    KeepOwner(relid, GetUserId()); // an event trigger for REVOKE may have been asked
}

void CreateGuard(Oid relid) {
    Assert(IsInOwnerOf(relid));
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr)) {
        const char *name = QualifiedName(lfirst_oid(cell));
        bool on_truncate =
            compat::kForeignTablesHaveTruncateTriggers || !IsForeign(lfirst_oid(cell));
        RunStatement(psprintf("CREATE TRIGGER %s BEFORE INSERT OR UPDATE OR DELETE%s ON %s "
                              "FOR EACH STATEMENT EXECUTE FUNCTION index_table.guard()",
                              kGuard, on_truncate ? " OR TRUNCATE" : "", name));
        RunStatement(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kGuard));
        KeepOwner(lfirst_oid(cell), GetUserId()); // of an event trigger for ALTER TABLE
    }
}

bool HasGuard(Oid index_table) {
    return OidIsValid(get_trigger_oid(index_table, kGuard, true));
}

Oid GuardedIndexTable(Oid relid) {
    Oid root = get_rel_relispartition(relid) ? llast_oid(get_partition_ancestors(relid)) : relid;
    if (OidIsValid(RecordedBase(root)))
        return root;
    ListCell *base, *cell;
    foreach (base, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base)))
            if (RecordedLog(lfirst_oid(cell)) == relid || RecordedQueue(lfirst_oid(cell)) == root)
                return lfirst_oid(cell);
    return InvalidOid;
}

void ExecuteUnguarded(const char *sql, uint64 *count) {
    Unguarded([=] { RunStatement(sql, count); });
}

void ExecuteUnguarded(SPIPlanPtr plan, Snapshot snapshot) {
    int result = 0;
    Unguarded([&] {
        result =
            SPI_execute_snapshot(plan, nullptr, nullptr, snapshot, InvalidSnapshot, false, true, 0);
    });
    if (result < 0)
        elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
}

void TruncateUnguarded(Oid relid) {
    List *relations = NIL;
    List *told = NIL; // to logical decoding
    LockRelationOid(relid, AccessExclusiveLock);
    List *oids = find_all_inheritors(relid, AccessExclusiveLock, nullptr);
    ListCell *cell;
    foreach (cell, oids) {
        Relation rel = table_open(lfirst_oid(cell), NoLock);
        CheckTableNotInUse(rel, "TRUNCATE");
        relations = lappend(relations, rel);
        if (!OidIsValid(rel->rd_rel->relrewrite) && RelationIsLogicallyLogged(rel))
            told = lappend_oid(told, lfirst_oid(cell));
    }
    PushActiveSnapshot(GetTransactionSnapshot());
    Unguarded([=] { compat::Truncate(relations, oids, told); });
    PopActiveSnapshot();
    foreach (cell, relations)
        table_close(static_cast<Relation>(lfirst(cell)), NoLock);
}

bool IsUnguarded() {
    return is_off;
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_guard) {
    const TriggerData *trigger = GetTrigger(fcinfo, "index_table.guard()");
    Relation rel = trigger->tg_relation;
    Oid index_table =
        is_off || MayChangeAnything() ? InvalidOid : GuardedIndexTable(RelationGetRelid(rel));
    if (OidIsValid(index_table) && TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event) &&
        IsTruncatedWithBase(index_table))
        return kNoRow;
    if (OidIsValid(index_table) && !IsLoading(rel))
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                 errmsg("cannot change index table \"%s\" directly", get_rel_name(index_table)),
                 errdetail("It follows \"%s\".", get_rel_name(RecordedBase(index_table))),
                 errhint("index_table.verify() tells whether it is right, index_table.repair() "
                         "mends it, index_table.drop() drops it."),
                 errtable(rel)));
    return kNoRow;
}
