#include "ddl/replication.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "outbox/public.h"

namespace index_table {
namespace {

bool IsCatalogTable(Oid relid) {
    return getExtensionOfObject(RelationRelationId, relid) ==
           get_extension_oid("index_table", false);
}

// Index tables, their partitions and logs have the guard, with or without a definition, which a
// dump may bring later; without it they are known as long as they have a definition.
bool IsOwn(Oid relid) {
    return HasGuard(relid) || OidIsValid(RecordedBase(RootOf(relid))) ||
           OidIsValid(OutboxSource(relid)) || IsCatalogTable(relid);
}

// The tables that IsOwn() is true of; some may be gone, some named twice.
List *ListOwn() {
    List *own = NIL;
    ForEachDependent(ExtensionRelationId, get_extension_oid("index_table", false),
                     DEPENDENCY_EXTENSION, [&](Oid class_id, Oid object) {
                         if (class_id == RelationRelationId)
                             own = lappend_oid(own, object);
                     });
    Oid guard =
        LookupFuncName(list_make2(makeString(pstrdup("index_table")), makeString(pstrdup("guard"))),
                       0, nullptr, true);
    ForEachDependent(ProcedureRelationId, guard, DEPENDENCY_NORMAL, [&](Oid class_id, Oid object) {
        if (class_id == TriggerRelationId)
            own = lappend_oid(own, PlaceOfTrigger(object).table);
    });
    ListCell *base, *cell;
    foreach (base, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base)))
            if (!HasGuard(lfirst_oid(cell)))
                own = list_concat(own, find_all_inheritors(lfirst_oid(cell), NoLock, nullptr));
    foreach (cell, ListOutboxTables())
        own = lappend_oid(own, QueueOf(lfirst_oid(cell)));
    return own;
}

// Whether the owner wants a table published. A queue always has a primary key; that of an index
// table is its owner's.
bool HasReplicaIdentity(Relation rel) {
    switch (rel->rd_rel->relreplident) {
    case REPLICA_IDENTITY_FULL:
        return true;
    case REPLICA_IDENTITY_INDEX:
        return OidIsValid(RelationGetReplicaIndex(rel));
    case REPLICA_IDENTITY_DEFAULT:
        return OidIsValid(RelationGetReplicaIndex(rel)) &&
               !OidIsValid(OutboxSource(RelationGetRelid(rel)));
    default:
        return false;
    }
}

bool IsToBeMarked(Relation rel) {
    Oid relid = RelationGetRelid(rel);
    return IsOwn(relid) && (IsCatalogTable(relid) || !HasReplicaIdentity(rel));
}

bool IsMarked(Relation rel) {
    return rel->rd_rel->relrewrite == RelationGetRelid(rel);
}

// Tools that rewrite a table with what decoding tells of its changes meanwhile must not begin with
// one that has a mark. They want an identity, and take a primary key for one by default.
bool HasIdentityByDefault(Relation rel) {
    Oid relid = RelationGetRelid(rel);
    return rel->rd_rel->relreplident == REPLICA_IDENTITY_DEFAULT &&
           (IsCatalogTable(relid) || OidIsValid(OutboxSource(relid)));
}

enum class Identity { Stays, Nothing };

void SetMark(Oid relid, bool is_marked, Identity identity = Identity::Stays) {
    LockRelationOid(relid, ShareUpdateExclusiveLock); // as whatever changes rows of pg_class
    HeapTuple tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        return;
    Relation classes = table_open(RelationRelationId, RowExclusiveLock);
    Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    form->relrewrite = is_marked ? relid : InvalidOid;
    if (identity == Identity::Nothing)
        form->relreplident = REPLICA_IDENTITY_NOTHING;
    CatalogTupleUpdate(classes, &tuple->t_self, tuple);
    table_close(classes, RowExclusiveLock);
    CommandCounterIncrement();
}

// A TOAST table is decoded by itself.
void Mark(Relation rel, bool is_marked) {
    if (is_marked && HasIdentityByDefault(rel))
        SetMark(RelationGetRelid(rel), true, Identity::Nothing);
    else if (IsMarked(rel) != is_marked)
        SetMark(RelationGetRelid(rel), is_marked);
    Oid toast = rel->rd_rel->reltoastrelid;
    Relation toast_rel = OidIsValid(toast) ? table_open(toast, AccessShareLock) : nullptr;
    if (!toast_rel)
        return;
    bool is_toast_marked = IsMarked(toast_rel);
    table_close(toast_rel, AccessShareLock);
    if (is_toast_marked != is_marked)
        SetMark(toast, is_marked);
}

// Whether a table and its TOAST table have marks, and nothing that could be an identity: told
// without its lock, which others may hold for long. They follow what they change.
bool IsMarkedForGood(Oid relid) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        return false;
    Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    char identity = form->relreplident;
    Oid toast = form->reltoastrelid;
    bool is_marked = form->relrewrite == relid;
    ReleaseSysCache(tuple);
    if (!is_marked || (OidIsValid(toast) && !IsMarkedForGood(toast)))
        return false;
    Oid key;
    return identity == REPLICA_IDENTITY_NOTHING ||
           (identity == REPLICA_IDENTITY_DEFAULT && !get_primary_key_attnos(relid, true, &key));
}

void MarkIfOwn(Oid relid) {
    if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_RELATION)
        return; // nothing is stored in a partitioned table
    if (IsOwn(relid) && IsMarkedForGood(relid))
        return;
    Relation rel = try_relation_open(relid, AccessShareLock);
    if (!rel)
        return;
    bool is_marked = IsToBeMarked(rel);
    if (is_marked || IsMarked(rel))
        Mark(rel, is_marked);
    relation_close(rel, AccessShareLock);
}

} // namespace

void FollowReplicaIdentity(Oid relid) {
    Relation rel = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : nullptr;
    if (!rel)
        return;
    bool is_concerned = IsOwn(relid) || IsMarked(rel);
    relation_close(rel, AccessShareLock);
    if (!is_concerned)
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
        MarkIfOwn(lfirst_oid(cell));
}

void KeepLocal(bool (*is_concerned)(Oid relid)) {
    ListCell *cell;
    foreach (cell, ListOwn())
        if (is_concerned(lfirst_oid(cell)))
            MarkIfOwn(lfirst_oid(cell));
}

void KeepAllLocal() {
    KeepLocal([](Oid) { return true; });
}

void FollowNewTrigger(const CreateTrigStmt *statement) {
    const char *name = strVal(llast(statement->funcname));
    bool is_guard = strcmp(name, "guard") == 0;
    if (!is_guard && strcmp(name, "enqueue") != 0)
        return;
    Oid function = LookupFuncName(statement->funcname, 0, nullptr, true);
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    if (!OidIsValid(function) || !OidIsValid(relid) ||
        get_func_namespace(function) != ExtensionSchema())
        return;
    FollowReplicaIdentity(is_guard ? relid : QueueOf(OutboxRoot(relid)));
}

void PublishAll() {
    SystemScan scan(RelationRelationId);
    List *marked = NIL;
    while (auto form = scan.Next<Form_pg_class>())
        if (form->relrewrite == form->oid)
            marked = lappend_oid(marked, form->oid);
    scan.End();
    ListCell *cell;
    foreach (cell, marked)
        SetMark(lfirst_oid(cell), false);
}

void FollowPublication(List *objects) {
    KeepAllLocal();
    ListCell *cell;
    foreach (cell, objects) {
        PublicationObjSpec *object = lfirst_node(PublicationObjSpec, cell);
        if (object->pubobjtype != PUBLICATIONOBJ_TABLE)
            continue;
        Relation rel = relation_openrv_extended(object->pubtable->relation, AccessShareLock, true);
        if (!rel)
            continue;
        if (IsToBeMarked(rel))
            ereport(WARNING,
                    (errmsg("changes of \"%s\" are not published: index_table keeps it local",
                            RelationGetRelationName(rel)),
                     IsCatalogTable(RelationGetRelid(rel))
                         ? 0
                         : errhint("They are where it has a replica identity: ALTER TABLE ... "
                                   "REPLICA IDENTITY FULL.")));
        relation_close(rel, AccessShareLock);
    }
}

void FollowSubscription(const char *name) {
    CommandCounterIncrement();
    Oid subscription = get_subscription_oid(name, true);
    if (!OidIsValid(subscription))
        return;
    ListCell *cell;
    foreach (cell, ListOwn()) {
        Oid relid = lfirst_oid(cell);
        XLogRecPtr lsn;
        switch (GetSubscriptionRelState(subscription, relid, &lsn)) {
        case SUBREL_STATE_INIT:
        case SUBREL_STATE_SYNCDONE:
        case SUBREL_STATE_READY:
            RemoveSubscriptionRel(subscription, relid);
            CommandCounterIncrement();
            break;
        case SUBREL_STATE_UNKNOWN: // not its own
            break;
        default:
            ereport(WARNING,
                    (errmsg("subscription \"%s\" is copying \"%s\", which index_table keeps local",
                            name, get_rel_name(relid)),
                     errhint("Drop the subscription, repair the index table, and create the "
                             "subscription again.")));
        }
    }
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_keep_local) {
    KeepAllLocal();
    PG_RETURN_VOID();
}
