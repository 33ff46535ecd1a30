#include "shard/snapshot_check.h"

#include "catalog/public.h"
#include "core/public.h"
#include "shard/connection.h"

namespace index_table {
namespace {

// Base tables whose shards are seen as they are, for their writers were locked out before: in
// memory of the transaction.
struct CheckedBase {
    Oid base;
    int level; // of the subtransaction that has locked
};
constinit List *checked = nullptr;

bool IsChecked(Oid base) {
    ListCell *cell;
    foreach (cell, checked)
        if (static_cast<CheckedBase *>(lfirst(cell))->base == base)
            return true;
    return false;
}

bool IsNew(Oid leaf) {
    Relation rel = relation_open(leaf, NoLock);
    bool is_new = rel->rd_createSubid != InvalidSubTransactionId;
    relation_close(rel, NoLock);
    return is_new;
}

// Whether functions of that name in a schema are C functions, which superusers alone can make.
bool IsOfLibrary(Oid schema, const char *name) {
    CatCList *functions = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
    bool found = false;
    bool is_right = true;
    for (int i = 0; i < functions->n_members; i++) {
        Form_pg_proc form =
            reinterpret_cast<Form_pg_proc>(GETSTRUCT(&functions->members[i]->tuple));
        if (form->pronamespace != schema)
            continue;
        found = true;
        is_right = is_right && form->prolang == ClanguageId;
    }
    ReleaseSysCacheList(functions);
    return found && is_right;
}

// Whether postgres_fdw has a transaction open on a server. It does not say so before 18, but then
// it does not close the connection either when it is asked to.
bool IsInUse(ForeignServer *server) {
    Oid schema = get_func_namespace(GetForeignDataWrapper(server->fdwid)->fdwhandler);
    const char *prefix = quote_identifier(get_namespace_name(schema));
    if (!IsOfLibrary(schema, "postgres_fdw_disconnect") ||
        !IsOfLibrary(schema, "postgres_fdw_get_connections"))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("functions of postgres_fdw are missing in schema \"%s\"",
                               get_namespace_name(schema)),
                        errhint("Use foreign servers of CREATE EXTENSION postgres_fdw.")));
    // The owner of the base table need not have rights to the extension's schema.
    OwnerContext superuser = EnterOwner(BOOTSTRAP_SUPERUSERID);
    int guc_level = NewGUCNestLevel();
    for (const char *setting : {"client_min_messages", "log_min_messages"})
        set_config_option(setting, "error", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                          false);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    Oid type = TEXTOID;
    Datum name = CStringGetTextDatum(server->servername);
    for (const char *sql : {psprintf("SELECT %s.postgres_fdw_disconnect($1)", prefix),
                            psprintf("SELECT FROM %s.postgres_fdw_get_connections() AS c "
                                     "WHERE c.server_name OPERATOR(pg_catalog.=) $1",
                                     prefix)})
        if (SPI_execute_with_args(sql, 1, &type, &name, nullptr, false, 0) != SPI_OK_SELECT)
            elog(ERROR, "cannot ask postgres_fdw for its connections");
    bool is_in_use = SPI_processed > 0;
    SPI_finish();
    AtEOXact_GUC(false, guc_level);
    LeaveOwner(superuser);
    return is_in_use;
}

// Of postgres_fdw, of tables that are not this transaction's own.
List *ServersOf(List *leaves) {
    List *servers = NIL;
    ListCell *cell;
    foreach (cell, leaves) {
        Oid leaf = lfirst_oid(cell);
        if (!IsForeign(leaf) || !IsOfPostgres(leaf) || IsNew(leaf))
            continue;
        servers = list_append_unique_oid(servers, GetForeignTable(leaf)->serverid);
    }
    return servers;
}

} // namespace

bool HasUsedServers(List *leaves) {
    ListCell *cell;
    foreach (cell, ServersOf(leaves))
        if (IsInUse(GetForeignServer(lfirst_oid(cell))))
            return true;
    return false;
}

void RequireUnusedServers(List *leaves, const char *action) {
    ListCell *cell;
    foreach (cell, ServersOf(leaves)) {
        ForeignServer *server = GetForeignServer(lfirst_oid(cell));
        if (IsInUse(server))
            ereport(ERROR,
                    (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                     errmsg("cannot %s in a transaction that has used server \"%s\" before", action,
                            server->servername),
                     errdetail("postgres_fdw reads it under one snapshot until the transaction "
                               "ends, and would miss what others have written since."),
                     errhint("Begin another transaction, and do this first.")));
    }
}

void RequireNewSnapshots(Oid base, List *leaves, const char *action) {
    Assert(IsLocked(base, ShareLock));
    if (IsChecked(base))
        return;
    RequireUnusedServers(leaves, action);
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    CheckedBase *entry = palloc_object(CheckedBase);
    *entry = {.base = base, .level = GetCurrentTransactionNestLevel()};
    checked = lappend(checked, entry);
    MemoryContextSwitchTo(caller);
}

void AtEOXactSnapshotChecks() {
    checked = nullptr;
}

void AtEOSubXactSnapshotChecks(bool commits, int level) {
    ListCell *cell;
    foreach (cell, checked) {
        CheckedBase *base = static_cast<CheckedBase *>(lfirst(cell));
        if (base->level < level)
            continue;
        if (commits)
            base->level = level - 1;
        else
            checked = foreach_delete_current(checked, cell); // the locks are gone
    }
}

} // namespace index_table
