// The session cache. Entries are never freed while a transaction runs: an outdated one moves to a
// list that is emptied when the transaction has ended, so callers need no reference counts.
#include "catalog/definition.h"
#include "catalog/rows.h"

namespace index_table {
namespace {

struct BaseEntry {
    Oid relid; // hash key
    Base *base;
    bool is_none; // known to be no base table
};

// Relations whose change outdates a base table's entry: itself, its index tables, global indexes
// and their storages, partitioned tables among its partitions where these have been counted.
struct WatchedRelation {
    Oid relid; // hash key
    Oid base;
};

struct LeafEntry {
    int32 partition_id; // hash key
    Oid base;
    Oid leaf;
};

HTAB *bases;
HTAB *watched;
HTAB *leaves;
MemoryContext outdated; // parent of the contexts of outdated entries
uint64 generation = 1;
bool leaves_outdated;
uint64 last_serial;

constexpr int kReadAgain = 2; // what changes while it is read, which is rare

HTAB *CreateTable(const char *name, Size key_size, Size entry_size) {
    HASHCTL control = {};
    control.keysize = key_size;
    control.entrysize = entry_size;
    control.hcxt = CacheMemoryContext;
    return hash_create(name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void CreateTables() {
    if (bases)
        return;
    if (!CacheMemoryContext)
        CreateCacheMemoryContext();
    outdated = AllocSetContextCreate(CacheMemoryContext, "index_table outdated definitions",
                                     ALLOCSET_SMALL_SIZES);
    watched = CreateTable("index_table watched relations", sizeof(Oid), sizeof(WatchedRelation));
    leaves = CreateTable("index_table partition numbers", sizeof(int32), sizeof(LeafEntry));
    bases = CreateTable("index_table base tables", sizeof(Oid), sizeof(BaseEntry));
}

// Runs inside cache invalidation: marks only.
void OnRelcacheInvalidation(Datum, Oid relid) {
    generation++;
    if (!bases)
        return;
    if (!OidIsValid(relid)) {
        HASH_SEQ_STATUS status;
        hash_seq_init(&status, bases);
        while (BaseEntry *entry = static_cast<BaseEntry *>(hash_seq_search(&status))) {
            entry->is_none = false;
            if (entry->base)
                entry->base->valid = false;
        }
        leaves_outdated = true;
        return;
    }
    if (BaseEntry *entry =
            static_cast<BaseEntry *>(hash_search(bases, &relid, HASH_FIND, nullptr))) {
        entry->is_none = false;
        if (entry->base)
            entry->base->valid = false;
    }
    WatchedRelation *relation =
        static_cast<WatchedRelation *>(hash_search(watched, &relid, HASH_FIND, nullptr));
    if (!relation)
        return;
    leaves_outdated = true;
    BaseEntry *entry =
        static_cast<BaseEntry *>(hash_search(bases, &relation->base, HASH_FIND, nullptr));
    if (entry && entry->base)
        entry->base->valid = false;
}

void Watch(Oid relid, Oid base) {
    WatchedRelation *relation =
        static_cast<WatchedRelation *>(hash_search(watched, &relid, HASH_ENTER, nullptr));
    relation->base = base;
}

void LoadGlobalIndexes(Base *base, Relation rel, List *roots) {
    if (roots == NIL)
        return;
    ListCell *cell;
    foreach (cell, roots)
        Watch(lfirst_oid(cell), base->relid);
    List *complete = ListGlobalIndexes(rel);
    base->globals = palloc0_array(IndexTable *, Max(1, list_length(complete)));
    foreach (cell, complete) {
        std::optional<GlobalIndex> index = FindGlobalIndex(lfirst_oid(cell));
        if (!index)
            continue;
        Watch(index->storage, base->relid);
        base->globals[base->global_count++] = MakeGlobalTable(rel, *index);
    }
}

Base *LoadBase(Oid relid) {
    Relation rel = try_relation_open(relid, AccessShareLock);
    if (!rel)
        return nullptr;
    MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "index_table definitions",
                                                  ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    // Watched before the catalog is read, so that no change in between is missed. It may be so
    // already, as a part of another base table.
    if (!hash_search(watched, &relid, HASH_FIND, nullptr))
        Watch(relid, relid);
    Base *base = static_cast<Base *>(palloc0(sizeof(Base)));
    base->relid = relid;
    base->serial = ++last_serial;
    base->context = context;
    base->valid = true;
    BaseEntry *entry = static_cast<BaseEntry *>(hash_search(bases, &relid, HASH_ENTER, nullptr));
    entry->base = nullptr;
    entry->is_none = false;
    uint64 before = generation;
    List *tables = ReadDefinitions(rel);
    base->table_count = list_length(tables);
    base->tables =
        static_cast<IndexTable **>(palloc0(sizeof(IndexTable *) * Max(1, base->table_count)));
    for (int i = 0; i < base->table_count; i++) {
        base->tables[i] = static_cast<IndexTable *>(list_nth(tables, i));
        Watch(base->tables[i]->relid, relid);
        TableState state = base->tables[i]->state;
        base->has_restored = base->has_restored || state == TableState::Restored;
        base->has_unusable = base->has_unusable || base->tables[i]->is_unusable();
    }
    // All sessions write to them, and lock what is in them, in the same order.
    std::sort(base->tables, base->tables + base->table_count,
              [](const IndexTable *a, const IndexTable *b) { return a->relid < b->relid; });
    base->has_retired = HasRetiredPartitions(relid);
    LoadGlobalIndexes(base, rel, ListGlobalRoots(relid));
    // Something changed while reading: good for this look-up, to be read again at the next.
    base->valid = generation == before;
    MemoryContextSwitchTo(caller);
    MemoryContextSetParent(context, CacheMemoryContext);
    entry->base = base;
    relation_close(rel, AccessShareLock);
    return base;
}

} // namespace

void AtEOXactDefinitions() {
    if (outdated)
        MemoryContextDeleteChildren(outdated);
}

uint64 CacheGeneration() {
    return generation;
}

void Invalidate(Oid base) {
    Assert(OidIsValid(base));
    if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        CacheInvalidateRelcacheByRelid(base);
    else
        OnRelcacheInvalidation(0, base); // dropped: other sessions learn from the drop itself
}

namespace {

// The base table as cached; it may have neither index tables nor global indexes any more.
const Base *FindKnown(Oid relid) {
    Assert(IsTransactionState());
    CreateTables();
    BaseEntry *entry = static_cast<BaseEntry *>(hash_search(bases, &relid, HASH_FIND, nullptr));
    if (entry && entry->base) {
        if (entry->base->valid)
            return entry->base;
        MemoryContextSetParent(entry->base->context, outdated);
        entry->base = nullptr;
    }
    if ((entry && entry->is_none) || !IsInstalled())
        return nullptr;
    uint64 before = generation;
    if (ListIndexTables(relid) == NIL && ListGlobalRoots(relid) == NIL) {
        // To become one it gets a trigger or an index, which outdates this.
        if (generation == before) {
            entry = static_cast<BaseEntry *>(hash_search(bases, &relid, HASH_ENTER, nullptr));
            entry->base = nullptr;
            entry->is_none = true;
        }
        return nullptr;
    }
    Base *base = LoadBase(relid);
    // A definition's row and its rule, read before and after a commit, say together what neither
    // did: that a concurrent build is over, for snapshots that do not see its end.
    for (int i = 0; base && !base->valid && i < kReadAgain; i++) {
        MemoryContextSetParent(base->context, outdated);
        base = LoadBase(relid);
    }
    return base;
}

} // namespace

const Base *FindBase(Oid relid) {
    const Base *base = FindKnown(relid);
    return base && base->table_count > 0 ? base : nullptr;
}

const Base *FindIndexedBase(Oid relid) {
    const Base *base = FindKnown(relid);
    return base && base->table_count + base->global_count > 0 ? base : nullptr;
}

int RowWidth(const Base *base) {
    Assert(OidIsValid(base->relid));
    Base *cached = const_cast<Base *>(base);
    if (cached->row_width == 0)
        cached->row_width = Max(1, get_relation_data_width(base->relid, nullptr));
    return cached->row_width;
}

int CountPartitions(const Base *base, int limit) {
    Assert(limit > 0);
    Base *cached = const_cast<Base *>(base);
    if (cached->counted_to < limit) {
        // Partitioned tables between the base table and its leaves are watched: to those that are
        // added below them it is not told.
        cached->partition_count = base->table_count > 0
                                      ? CountPartitionRows(base->relid, limit)
                                      : CountLeaves(base->relid, limit, Watch, base->relid);
        cached->counted_to = limit;
    }
    return Min(cached->partition_count, limit);
}

bool IsForeign(Oid relid) {
    return get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE;
}

bool HasForeign(List *relids) {
    ListCell *cell;
    foreach (cell, relids)
        if (IsForeign(lfirst_oid(cell)))
            return true;
    return false;
}

namespace {

// Most databases have few foreign tables, and partitioned tables may have many partitions.
bool HasForeignPartition(Oid base) {
    SystemScan scan(ForeignTableRelationId);
    bool found = false;
    while (auto form = found ? nullptr : scan.Next<Form_pg_foreign_table>()) {
        std::optional<PartitionNumber> number = FindPartitionNumber(form->ftrelid);
        found = number && number->base == base;
    }
    scan.End();
    return found;
}

} // namespace

bool HasForeignLeaves(const Base *base) {
    Base *cached = const_cast<Base *>(base);
    if (!cached->has_foreign_known) {
        cached->has_foreign = HasForeignPartition(base->relid);
        cached->has_foreign_known = true;
    }
    return cached->has_foreign;
}

const IndexTable *FindIndexTable(Oid relid) {
    Assert(IsTransactionState());
    CreateTables();
    WatchedRelation *known =
        static_cast<WatchedRelation *>(hash_search(watched, &relid, HASH_FIND, nullptr));
    Oid base_oid = known ? known->base : RecordedBase(relid);
    const Base *base = OidIsValid(base_oid) ? FindBase(base_oid) : nullptr;
    if (base)
        for (IndexTable *table : std::span(base->tables, base->table_count))
            if (table->relid == relid)
                return table;
    return nullptr;
}

const IndexTable *FindGlobalTable(Oid storage) {
    Assert(IsTransactionState());
    CreateTables();
    WatchedRelation *known =
        static_cast<WatchedRelation *>(hash_search(watched, &storage, HASH_FIND, nullptr));
    const Base *base = known ? FindIndexedBase(known->base) : nullptr;
    for (int i = 0; base && i < base->global_count; i++)
        if (base->globals[i]->relid == storage)
            return base->globals[i];
    return nullptr;
}

const IndexTable *GetIndexTable(Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    const char *name = get_rel_name(relid); // asked last: it may have been dropped meanwhile
    if (!name)
        RaiseDropped(relid);
    if (!table)
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not an index table", name),
                 FindGlobalIndex(relid)
                     ? errhint("It is a global index: verify(), repair(), vacuum(), "
                               "set_visible() and ddl() are for those, too, and the rest for "
                               "index tables.")
                     : errhint("The view index_table.index_tables shows the index tables.")));
    return table;
}

const IndexTable *LockIndexTable(const IndexTable *table, LOCKMODE mode) {
    Assert(IsKnown(table));
    Oid relid = table->relid;
    LockRelationOid(table->base, mode); // first, as writers do
    LockRelationOid(relid, AccessShareLock);
    return GetIndexTable(relid);
}

void CheckIsComplete(const IndexTable *table) {
    Assert(IsKnown(table));
    if (OidIsValid(table->log))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("index table \"%s\" is not complete", get_rel_name(table->relid)),
                        errdetail("It is being built concurrently, or that was interrupted."),
                        errhint("CALL index_table.rebuild() continues, index_table.drop() gives "
                                "it up.")));
}

Oid FindPartition(Oid base, int32 partition_id) {
    Assert(IsTransactionState() && OidIsValid(base));
    CreateTables();
    if (leaves_outdated) {
        hash_destroy(leaves);
        leaves = CreateTable("index_table partition numbers", sizeof(int32), sizeof(LeafEntry));
        leaves_outdated = false;
    }
    LeafEntry *entry =
        static_cast<LeafEntry *>(hash_search(leaves, &partition_id, HASH_FIND, nullptr));
    if (entry)
        return entry->base == base ? entry->leaf : InvalidOid;
    Oid owner = InvalidOid;
    Oid leaf = ReadPartition(partition_id, &owner);
    if (OidIsValid(leaf) && !leaves_outdated) {
        entry = static_cast<LeafEntry *>(hash_search(leaves, &partition_id, HASH_ENTER, nullptr));
        entry->base = owner;
        entry->leaf = leaf;
    }
    return owner == base ? leaf : InvalidOid;
}

void InitializeCatalogCache() {
    CacheRegisterRelcacheCallback(OnRelcacheInvalidation, 0);
}

} // namespace index_table
