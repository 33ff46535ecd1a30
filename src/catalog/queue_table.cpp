#include "catalog/queue_table.h"

#include "catalog/rows.h"

namespace index_table {
namespace {

constinit RelationCache queues = {};

enum EmptiedColumn { kPart = 1, kDrainedBy, kEmptiedColumns = kDrainedBy };

FullTransactionId ReadEmptied(Oid part) {
    CatalogScan scan("emptied", "emptied_pkey", F_OIDEQ, ObjectIdGetDatum(part), AccessShareLock);
    FullTransactionId drained = InvalidFullTransactionId;
    if (HeapTuple tuple = scan.Next()) {
        bool isnull;
        drained = DatumGetFullTransactionId(scan.Get(tuple, kDrainedBy, &isnull));
    }
    scan.End();
    return drained;
}

bool HasType(TupleDesc descriptor, AttrNumber attno, Oid type) {
    Form_pg_attribute att = TupleDescAttr(descriptor, attno - 1);
    return !att->attisdropped && att->atttypid == type;
}

// Whether a column has arrays of an identity column's values. Queues that 0.1.0 made have arrays of
// domains.
bool HoldsValues(TupleDesc descriptor, AttrNumber attno, Oid type) {
    Form_pg_attribute att = TupleDescAttr(descriptor, attno - 1);
    if (att->attisdropped)
        return false;
    Oid element = get_element_type(att->atttypid);
    return element == type || element == QueuedType(type);
}

// Whether a relation has the columns of a queue, or of a part of one.
bool HasColumns(TupleDesc descriptor, const IndexTable *table) {
    constexpr Oid kTypes[] = {INT2OID, TIMESTAMPTZOID, INT4OID,       BYTEAOID,
                              TEXTOID, INT4OID,        TIMESTAMPTZOID};
    if (descriptor->natts != kPackIdentity - 1 + table->identity_count)
        return false;
    for (AttrNumber attno = kPackPart; attno < kPackIdentity; attno++)
        if (!HasType(descriptor, attno, kTypes[attno - 1]))
            return false;
    for (int i = 0; i < table->identity_count; i++)
        if (!HoldsValues(descriptor, kPackIdentity + i, table->types[table->identity[i].position]))
            return false;
    return true;
}

// A queue belongs to who owns the index table: nobody else can have it forged.
bool IsFit(Oid relid, char kind, const IndexTable *table) {
    Relation rel = try_relation_open(relid, AccessShareLock);
    if (!rel)
        return false;
    bool fits = rel->rd_rel->relkind == kind && HasColumns(RelationGetDescr(rel), table) &&
                rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
                rel->rd_rel->relowner == RelationOwner(table->relid) &&
                (kind != RELKIND_RELATION || rel->rd_rel->relam == HEAP_TABLE_AM_OID);
    relation_close(rel, AccessShareLock);
    return fits;
}

Oid ElementType(Oid queue, AttrNumber attno) {
    return get_element_type(get_atttype(queue, attno));
}

const Queue *Load(const IndexTable *table) {
    if (!IsFit(table->queue, RELKIND_PARTITIONED_TABLE, table))
        return nullptr;
    List *parts = find_inheritance_children(table->queue, NoLock);
    if (list_length(parts) != kQueueParts)
        return nullptr;
    ListCell *cell;
    foreach (cell, parts)
        if (!IsFit(lfirst_oid(cell), RELKIND_RELATION, table))
            return nullptr;
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table queue", ALLOCSET_SMALL_SIZES);
    Queue *queue = static_cast<Queue *>(MemoryContextAllocZero(context, sizeof(Queue)));
    queue->cached = {.relid = table->queue, .valid = true, .context = context};
    queue->identity_count = table->identity_count;
    queue->identity = static_cast<QueueColumn *>(
        MemoryContextAllocZero(context, sizeof(QueueColumn) * table->identity_count));
    for (int i = 0; i < table->identity_count; i++) {
        QueueColumn *column = &queue->identity[i];
        column->type = ElementType(table->queue, kPackIdentity + i);
        get_typlenbyvalalign(column->type, &column->length, &column->by_value, &column->align);
    }
    // Known before it is read: what changes while it is read outdates it.
    PutCached(&queues, &queue->cached);
    for (int i = 0; i < kQueueParts; i++) {
        queue->parts[i] = list_nth_oid(parts, i);
        queue->emptied[i] = ReadEmptied(queue->parts[i]);
    }
    return queue;
}

// A transaction from so long ago that its number is not compared has ended for every snapshot.
bool IsSeen(FullTransactionId full, Snapshot snapshot) {
    if (!FullTransactionIdIsValid(full))
        return true;
    uint64 age =
        U64FromFullTransactionId(ReadNextFullTransactionId()) - U64FromFullTransactionId(full);
    return age > PG_INT32_MAX / 2 || !XidInMVCCSnapshot(XidFromFullTransactionId(full), snapshot);
}

void DeleteEmptied(Oid part) {
    CatalogScan scan("emptied", "emptied_pkey", F_OIDEQ, ObjectIdGetDatum(part), RowExclusiveLock);
    if (HeapTuple tuple = scan.Next())
        CatalogTupleDelete(scan.relation, &tuple->t_self);
    scan.End();
    CommandCounterIncrement();
}

} // namespace

Oid QueuedType(Oid type) {
    Oid base = getBaseType(type);
    return OidIsValid(get_array_type(base)) ? base : type;
}

const Queue *FindQueue(const IndexTable *table) {
    if (!OidIsValid(table->queue))
        return nullptr;
    for (int i = 0; i < 3; i++) { // outdated while it is read: once more
        if (CachedRelation *found = FindCached(&queues, table->queue))
            return reinterpret_cast<Queue *>(found);
        const Queue *queue = Load(table);
        if (!queue || queue->cached.valid)
            return queue;
    }
    return Load(table);
}

bool ShowsQueue(const Queue *queue, Snapshot snapshot) {
    return std::all_of(std::begin(queue->emptied), std::end(queue->emptied),
                       [=](FullTransactionId drained) { return IsSeen(drained, snapshot); });
}

bool LacksQueue(const IndexTable *table) {
    Assert(IsKnown(table));
    if (!table->options.is_deferred || FindQueue(table))
        return false;
    const Base *base = FindBase(table->base);
    return !base || !HasForeignLeaves(base);
}

void RecordEmptied(Oid queue, Oid part, TransactionId drained) {
    FullTransactionId next = ReadNextFullTransactionId();
    uint32 epoch = EpochFromFullTransactionId(next);
    if (drained > XidFromFullTransactionId(next))
        epoch--;
    DeleteEmptied(part);
    Datum values[kEmptiedColumns] = {
        ObjectIdGetDatum(part),
        FullTransactionIdGetDatum(FullTransactionIdFromEpochAndXid(epoch, drained))};
    bool nulls[kEmptiedColumns] = {};
    Relation rel = table_open(ExtensionRelation("emptied"), RowExclusiveLock);
    CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
    table_close(rel, RowExclusiveLock);
    CommandCounterIncrement();
    CacheInvalidateRelcacheByRelid(queue);
}

void ForgetEmptied(Oid queue) {
    ListCell *cell;
    foreach (cell, find_inheritance_children(queue, NoLock))
        DeleteEmptied(lfirst_oid(cell));
}

void InitializeQueueCache() {
    InitializeRelationCache(&queues, "index_table queues");
}

} // namespace index_table
