#include "outbox/outbox_table.h"

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

enum OutboxColumn { kTable = 1, kQueue, kIdentity, kColumns = kIdentity };

constinit RelationCache cache = {};

// An OID in the row of index_table.captured that an index finds.
Oid ReadOid(const char *index, Oid value, int column) {
    CatalogScan scan("captured", index, F_OIDEQ, ObjectIdGetDatum(value), AccessShareLock);
    Oid oid = InvalidOid;
    if (HeapTuple tuple = scan.Next()) {
        bool isnull;
        oid = DatumGetObjectId(scan.Get(tuple, column, &isnull));
    }
    scan.End();
    return oid;
}

Datum *NamesIn(CatalogScan &scan, HeapTuple tuple, int *count) {
    bool isnull;
    Datum *names;
    deconstruct_array(DatumGetArrayTypeP(scan.Get(tuple, kIdentity, &isnull)), NAMEOID, NAMEDATALEN,
                      false, TYPALIGN_CHAR, &names, nullptr, count);
    return names;
}

Datum ToArray(Datum *names, int count) {
    return PointerGetDatum(
        construct_array(names, count, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
}

[[noreturn]] void RaiseUnfit(Oid source, Oid queue) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("queue \"%s\" does not fit table \"%s\"",
                           OidIsValid(queue) ? get_rel_name(queue) : "?", get_rel_name(source)),
                    errhint("Call index_table.release() and index_table.capture() again, and "
                            "repair the index tables.")));
}

const Outbox *Load(Relation rel, Oid root, Oid queue_oid) {
    List *names = OutboxIdentity(root);
    Relation queue = try_relation_open(queue_oid, AccessShareLock);
    if (!queue)
        RaiseUnfit(root, queue_oid);
    TupleDesc stored = RelationGetDescr(queue);
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table captured", ALLOCSET_SMALL_SIZES);
    Outbox *source = static_cast<Outbox *>(MemoryContextAllocZero(context, sizeof(Outbox)));
    source->cached = {.relid = RelationGetRelid(rel), .valid = true, .context = context};
    source->root = root;
    source->queue = queue_oid;
    source->sequence = compat::IdentitySequence(queue, kQueueNumber);
    source->identity_count = list_length(names);
    source->identity = static_cast<IdentityColumn *>(
        MemoryContextAllocZero(context, sizeof(IdentityColumn) * list_length(names)));
    Bitmapset *columns = nullptr;
    if (!OidIsValid(source->sequence) || stored->natts < kQueueIdentity - 1 + list_length(names))
        RaiseUnfit(root, queue_oid);
    for (int i = 0; i < list_length(names); i++) {
        IdentityColumn *column = &source->identity[i];
        column->attno =
            get_attnum(RelationGetRelid(rel), static_cast<const char *>(list_nth(names, i)));
        column->type = get_element_type(TupleDescAttr(stored, kQueueIdentity - 1 + i)->atttypid);
        if (column->attno <= 0)
            RaiseUnfit(root, queue_oid);
        Oid type = TupleDescAttr(RelationGetDescr(rel), column->attno - 1)->atttypid;
        // Queues that 0.1.0 made have arrays of domains.
        if (column->type != type && column->type != QueuedType(type))
            RaiseUnfit(root, queue_oid);
        get_typlenbyvalalign(column->type, &column->length, &column->by_value, &column->align);
        source->max_attno = Max(source->max_attno, column->attno);
        columns = bms_add_member(columns, column->attno);
    }
    MemoryContext caller = MemoryContextSwitchTo(context);
    source->generated = FindGenerated(rel, columns);
    MemoryContextSwitchTo(caller);
    relation_close(queue, AccessShareLock);
    PutCached(&cache, &source->cached);
    return source;
}

} // namespace

const Outbox *FindOutbox(Relation rel) {
    Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
    Oid relid = RelationGetRelid(rel);
    if (CachedRelation *found = FindCached(&cache, relid))
        return reinterpret_cast<Outbox *>(found);
    if (!OidIsValid(ExtensionSchema()))
        return nullptr;
    Oid root = OutboxRoot(relid);
    return OidIsValid(root) ? Load(rel, root, QueueOf(root)) : nullptr;
}

bool FitsOutbox(Oid source, Oid queue_oid, Datum identity) {
    ArrayType *array = DatumGetPointer(identity) ? DatumGetArrayTypeP(identity) : nullptr;
    if (!array || array_contains_nulls(array) || get_rel_relkind(queue_oid) != RELKIND_RELATION)
        return false;
    Datum *names;
    int count;
    deconstruct_array(array, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, nullptr, &count);
    constexpr Oid kTypes[] = {INT8OID, TIMESTAMPTZOID, INT4OID}; // before the first array
    Relation queue = relation_open(queue_oid, AccessShareLock);
    TupleDesc stored = RelationGetDescr(queue);
    bool fits = count > 0 && count <= INDEX_MAX_KEYS && stored->natts >= kQueueIdentity - 1 + count;
    for (int i = 0; fits && i < kQueueIdentity - 1 + count; i++) {
        Form_pg_attribute att = TupleDescAttr(stored, i);
        int column = i - (kQueueIdentity - 1);
        if (column < 0)
            fits = !att->attisdropped && att->atttypid == kTypes[i];
        else
            fits = !att->attisdropped && OidIsValid(get_element_type(att->atttypid)) &&
                   strcmp(NameStr(att->attname), psprintf("identity_%d", column + 1)) == 0 &&
                   get_attnum(source, NameStr(*DatumGetName(names[column]))) > 0;
    }
    relation_close(queue, AccessShareLock);
    return fits;
}

Oid OutboxRoot(Oid relid) {
    if (OidIsValid(QueueOf(relid)))
        return relid;
    Oid root = RootOf(relid);
    return root != relid && OidIsValid(QueueOf(root)) ? root : InvalidOid;
}

Oid QueueOf(Oid source) {
    return ReadOid("captured_pkey", source, kQueue);
}

Oid OutboxSource(Oid queue) {
    return ReadOid("captured_queue_key", queue, kTable);
}

List *OutboxIdentity(Oid source) {
    CatalogScan scan("captured", "captured_pkey", F_OIDEQ, ObjectIdGetDatum(source),
                     AccessShareLock);
    List *identity = NIL;
    if (HeapTuple tuple = scan.Next()) {
        int count;
        Datum *names = NamesIn(scan, tuple, &count);
        for (int i = 0; i < count; i++)
            identity = lappend(identity, pstrdup(NameStr(*DatumGetName(names[i]))));
    }
    scan.End();
    return identity;
}

List *ListOutboxTables() {
    return ReadOids("captured", nullptr, 0, kTable);
}

void InsertOutbox(Oid source, Oid queue, List *identity) {
    Assert(IsLocked(source, ShareRowExclusiveLock) && identity != NIL);
    int count = list_length(identity);
    Datum *names = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) {
        Name name = static_cast<Name>(palloc0(NAMEDATALEN));
        namestrcpy(name, static_cast<const char *>(list_nth(identity, i)));
        names[i] = NameGetDatum(name);
    }
    Datum values[kColumns] = {ObjectIdGetDatum(source), ObjectIdGetDatum(queue),
                              ToArray(names, count)};
    bool nulls[kColumns] = {};
    Relation rel = table_open(ExtensionRelation("captured"), RowExclusiveLock);
    CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
    table_close(rel, RowExclusiveLock);
    CommandCounterIncrement();
    CacheInvalidateRelcacheByRelid(source);
}

void DeleteOutbox(Oid source) {
    Assert(IsLocked(source, ShareRowExclusiveLock));
    CatalogScan scan("captured", "captured_pkey", F_OIDEQ, ObjectIdGetDatum(source),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next())
        CatalogTupleDelete(scan.relation, &tuple->t_self);
    scan.End();
    CommandCounterIncrement();
}

void RenameOutboxColumn(Oid source, const char *from, const char *to) {
    Assert(IsLocked(source, ShareRowExclusiveLock));
    CatalogScan scan("captured", "captured_pkey", F_OIDEQ, ObjectIdGetDatum(source),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next()) {
        int count;
        bool found = false;
        Datum *names = NamesIn(scan, tuple, &count);
        for (int i = 0; i < count; i++)
            if (namestrcmp(DatumGetName(names[i]), from) == 0) {
                Name name = static_cast<Name>(palloc0(NAMEDATALEN));
                namestrcpy(name, to);
                names[i] = NameGetDatum(name);
                found = true;
            }
        if (found) {
            Datum values[kColumns] = {};
            bool nulls[kColumns] = {};
            bool replace[kColumns] = {};
            values[kIdentity - 1] = ToArray(names, count);
            replace[kIdentity - 1] = true;
            CatalogTupleUpdate(
                scan.relation, &tuple->t_self,
                heap_modify_tuple(tuple, RelationGetDescr(scan.relation), values, nulls, replace));
        }
    }
    scan.End();
    CommandCounterIncrement();
}

void InitializeOutboxCache() {
    InitializeRelationCache(&cache, "index_table captured");
}

} // namespace index_table
