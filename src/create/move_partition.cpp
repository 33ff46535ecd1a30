// index_table.move_partition().
#include "catalog/public.h"
#include "create/server_tables.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

using namespace index_table;

SQL_FUNCTION(index_table_move_partition) {
    PreventCommandDuringRecovery("index_table.move_partition()");
    PreventCommandIfReadOnly("index_table.move_partition()");
    Oid partition = PG_GETARG_OID(1);
    FlushChanges();
    const IndexTable *table = LockIndexTable(GetOwnIndexTable(PG_GETARG_OID(0)), AccessShareLock);
    if (!table->on_servers)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("index table \"%s\" is not on servers", get_rel_name(table->relid)),
                        errhint("Create it with the argument servers.")));
    if (table->is_unusable())
        CheckIsTrusted(table);
    LockRelationOid(table->relid, ExclusiveLock);
    if (!list_member_oid(find_inheritance_children(table->relid, ExclusiveLock), partition))
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        get_rel_name(partition)
                            ? errmsg("\"%s\" is not a partition of index table \"%s\"",
                                     get_rel_name(partition), get_rel_name(table->relid))
                            : errmsg("relation with OID %u does not exist", partition)));
    Oid owner_role = RelationOwner(table->relid);
    ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(2)), false);
    CheckServer(server, owner_role);
    OwnerContext owner = EnterOwner(owner_role);
    if (server->serverid != GetForeignTable(partition)->serverid)
        MoveServerTable(table, partition, server);
    LeaveOwner(owner);
    PG_RETURN_VOID();
}
