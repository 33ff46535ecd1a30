#include "partitions/triggers.h"

#include "catalog/public.h"
#include "core/public.h"
#include "partitions/membership.h"

namespace index_table {

bool HasStatementTrigger(Oid relid) {
    return OidIsValid(get_trigger_oid(relid, kStatementTrigger, true));
}

// The statement trigger is not cloned: every table of the tree has its own.
void CreateStatementTrigger(Oid relid) {
    if (HasStatementTrigger(relid))
        return;
    // A partition may belong to another role than its base table.
    OwnerContext owner = EnterOwner(RelationOwner(relid));
    const char *name = QualifiedName(relid);
    bool on_truncate = compat::kForeignTablesHaveTruncateTriggers || !IsForeign(relid);
    RunStatement(psprintf("CREATE TRIGGER %s BEFORE INSERT OR UPDATE OR DELETE%s ON %s "
                          "FOR EACH STATEMENT EXECUTE FUNCTION index_table.announce()",
                          kStatementTrigger, on_truncate ? " OR TRUNCATE" : "", name));
    RunStatement(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kStatementTrigger));
    LeaveOwner(owner);
}

void DropTrigger(Oid relid, const char *trigger) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
        return;
    Oid oid = get_trigger_oid(relid, trigger, true);
    if (!OidIsValid(oid))
        return;
    ObjectAddress address;
    ObjectAddressSet(address, TriggerRelationId, oid);
    performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

void CreateRowTrigger(Oid relid) {
    int guc_level = SecureSearchPath();
    const char *name = QualifiedName(relid);
    RunStatement(psprintf("CREATE TRIGGER %s AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW "
                          "EXECUTE FUNCTION index_table.maintain()",
                          kRowTrigger, name));
    // Logical replication's workers run as replicas, and must maintain what they change.
    RunStatement(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kRowTrigger));
    AtEOXact_GUC(false, guc_level);
}

bool HasRowTrigger(Oid relid) {
    return OidIsValid(get_trigger_oid(relid, kRowTrigger, true));
}

namespace {

// Whether row triggers are where EnsureTriggers() has them.
bool HasRowTriggers(Oid base, bool on_foreign) {
    if (on_foreign || HasRowTrigger(base))
        return HasRowTrigger(base) && on_foreign;
    ListCell *cell;
    foreach (cell, FindLeaves(base, NoLock))
        if (!IsForeign(lfirst_oid(cell)) && !HasRowTrigger(lfirst_oid(cell)))
            return false;
    return true;
}

} // namespace

void EnsureTriggers(Oid base, bool on_foreign) {
    Assert(IsLocked(base, ShareRowExclusiveLock));
    if (HasRowTriggers(base, on_foreign))
        return;
    ListCell *cell;
    if (!on_foreign)
        DropTrigger(base, kRowTrigger);
    foreach (cell, FindLeaves(base, NoLock)) {
        Oid leaf = lfirst_oid(cell);
        if (on_foreign)
            DropTrigger(leaf, kRowTrigger);
        else if (!IsForeign(leaf) && !HasRowTrigger(leaf)) {
            OwnerContext owner = EnterOwner(RelationOwner(leaf));
            CreateRowTrigger(leaf);
            LeaveOwner(owner);
        }
    }
    if (on_foreign)
        CreateRowTrigger(base);
}

void RestoreTriggers(Oid base) {
    bool are_there = HasRowTriggers(base, HasImmediate(base));
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        are_there = are_there && HasStatementTrigger(lfirst_oid(cell));
    if (are_there)
        return;
    LockRelationOid(base, ShareRowExclusiveLock); // first, as writers do
    foreach (cell, find_all_inheritors(base, ShareRowExclusiveLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
    EnsureTriggers(base, HasImmediate(base));
}

} // namespace index_table
