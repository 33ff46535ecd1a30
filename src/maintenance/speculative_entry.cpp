#include "maintenance/speculative_entry.h"

#include "core/public.h"
#include "maintenance/writer.h"

namespace index_table {
namespace {

// A relation that holds entries, opened to be claimed in.
struct ClaimTarget {
    Relation rel;
    EState *estate;
    ResultRelInfo *relinfo;
    TupleTableSlot *slot;
    TupleTableSlot *found;
};

struct Claim {
    int table;
    ClaimTarget *target;
    ItemPointerData tid;
};

struct ClaimTable {
    const IndexTable *table;
    Relation root; // null: not opened yet
    PartitionKey partition_key;
    PartitionDesc partitions;
    ClaimTarget **targets;
    const AttrNumber *attnos; // by position
    Datum *values;            // by attribute number
    bool *nulls;
    bool is_transient; // claims are taken back before rows are captured
    List *transient;   // those of rows that were inserted
    int removed_at;    // the nest level at which that was done; 0: not yet
};

// The rows of a page that were inserted with their entries claimed.
struct ClaimedPage {
    struct Place {
        int table;
        Oid leaf;
        BlockNumber block;
    } place; // hash key
    uint64 rows[(MaxOffsetNumber + 64) / 64];
};

} // namespace

struct Claims {
    Claims *outer;
    MemoryContext memory; // as long as the transaction, if need be
    int nest_level;
    CommandId command;
    int table_count;
    ClaimTable *tables;
    HTAB *pages; // ClaimedPage
    // Of the current row:
    int claim_count;
    int claim_capacity;
    Claim *claims;
    Relation leaf;
    TupleTableSlot *row; // null: none has been handed over
    TupleTableSlot *scratch;
};

namespace {

constinit Claims *innermost = nullptr;

bool HasConstraints(Relation rel) {
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        found = found || index->rd_index->indisunique || index->rd_index->indisexclusion;
        index_close(index, AccessShareLock);
    }
    return found;
}

bool FiresOnInsertion(Relation rel) {
    return rel->trigdesc && rel->trigdesc->trig_insert_after_row;
}

void OpenTable(Claims *claims, ClaimTable *self) {
    MemoryContext caller = MemoryContextSwitchTo(claims->memory);
    self->root = table_open(self->table->relid, RowExclusiveLock);
    self->attnos = GetLiveColumns(self->root, self->table->column_count);
    int natts = RelationGetDescr(self->root)->natts;
    self->values = static_cast<Datum *>(palloc0(sizeof(Datum) * natts));
    self->nulls = static_cast<bool *>(palloc(natts));
    memset(self->nulls, true, natts);
    self->is_transient = FiresOnInsertion(self->root);
    int count = 1;
    if (self->root->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) {
        self->partition_key = RelationGetPartitionKey(self->root);
        self->partitions = RelationGetPartitionDesc(self->root, true);
        count = Max(1, self->partitions->nparts);
    }
    self->targets = static_cast<ClaimTarget **>(palloc0(sizeof(ClaimTarget *) * count));
    MemoryContextSwitchTo(caller);
}

ClaimTarget *OpenTarget(Claims *claims, ClaimTable *self, Relation rel) {
    MemoryContext caller = MemoryContextSwitchTo(claims->memory);
    ClaimTarget *target = palloc0_object(ClaimTarget);
    target->rel = rel;
    target->estate = CreateExecutorState();
    compat::InitRangeTable(target->estate, rel);
    target->relinfo = makeNode(ResultRelInfo);
    InitResultRelInfo(target->relinfo, rel, 1, nullptr, 0);
    ExecOpenIndices(target->relinfo, true);
    target->slot = table_slot_create(rel, &target->estate->es_tupleTable);
    target->found = table_slot_create(rel, &target->estate->es_tupleTable);
    self->is_transient = self->is_transient || FiresOnInsertion(rel);
    MemoryContextSwitchTo(caller);
    return target;
}

void CloseTarget(ClaimTarget *target, bool close_rel) {
    ExecResetTupleTable(target->estate->es_tupleTable, false);
    ExecCloseIndices(target->relinfo);
    FreeExecutorState(target->estate);
    if (close_rel)
        table_close(target->rel, NoLock);
}

ClaimTarget *TargetOf(Claims *claims, ClaimTable *self, HeapTuple entry) {
    int index = 0;
    if (self->partition_key) {
        bool isnull;
        Datum value = heap_getattr(entry, self->partition_key->partattrs[0],
                                   RelationGetDescr(self->root), &isnull);
        index = RouteEntry(self->partition_key, self->partitions, value, isnull);
    }
    if (!self->targets[index])
        self->targets[index] = OpenTarget(
            claims, self,
            self->partition_key ? table_open(self->partitions->oids[index], RowExclusiveLock)
                                : self->root);
    return self->targets[index];
}

ClaimTarget *TargetOf(ClaimTable *self, const TupleTableSlot *entry) {
    int count = self->partition_key ? self->partitions->nparts : 1;
    for (ClaimTarget *target : std::span(self->targets, count))
        if (target && target->found == entry)
            return target;
    elog(ERROR, "an entry is of no index table that was looked into");
}

// Deletes a stored entry, without triggers. One that is gone stays so.
void Remove(const Claims *claims, ClaimTarget *target, ItemPointer tid) {
    // A command cannot delete what it has inserted.
    if (GetCurrentCommandId(true) <= claims->command)
        CommandCounterIncrement();
    TM_FailureData failure;
    table_tuple_delete(target->rel, tid, GetCurrentCommandId(true), SnapshotSelf, InvalidSnapshot,
                       true, &failure, false);
}

// Whether a stored entry exists: its partition's number is live.
bool IsLive(const IndexTable *table, const AttrNumber *attnos, TupleTableSlot *entry) {
    bool isnull;
    Datum partition = slot_getattr(entry, attnos[table->partition_position()], &isnull);
    return !isnull && OidIsValid(FindPartition(table->base, DatumGetInt32(partition)));
}

bool IsNoted(const Claims *claims, int table, Oid leaf, ItemPointer row) {
    ClaimedPage::Place place = {table, leaf, ItemPointerGetBlockNumber(row)};
    ClaimedPage *page =
        static_cast<ClaimedPage *>(hash_search(claims->pages, &place, HASH_FIND, nullptr));
    int offset = ItemPointerGetOffsetNumber(row);
    return page && offset <= MaxOffsetNumber &&
           (page->rows[offset / 64] & UINT64CONST(1) << offset % 64) != 0;
}

void NoteRow(Claims *claims, int table, Oid leaf, ItemPointer row) {
    ClaimedPage::Place place = {table, leaf, ItemPointerGetBlockNumber(row)};
    bool found;
    ClaimedPage *page =
        static_cast<ClaimedPage *>(hash_search(claims->pages, &place, HASH_ENTER, &found));
    if (!found)
        memset(page->rows, 0, sizeof(page->rows));
    int offset = ItemPointerGetOffsetNumber(row);
    if (offset > MaxOffsetNumber)
        elog(ERROR, "unexpected row number %d in a page", offset);
    page->rows[offset / 64] |= UINT64CONST(1) << offset % 64;
}

void RemoveTransient(const Claims *claims, ClaimTable *self) {
    if (self->removed_at > 0)
        return;
    self->removed_at = GetCurrentTransactionNestLevel();
    ListCell *cell;
    foreach (cell, self->transient) {
        Claim *claim = static_cast<Claim *>(lfirst(cell));
        Remove(claims, claim->target, &claim->tid);
    }
}

} // namespace

List *ListConstrainedTables(const Base *base) {
    List *tables = NIL;
    for (IndexTable *table : std::span(base->tables, base->table_count)) {
        if (OidIsValid(table->log))
            continue; // it is being built: nothing is enforced yet
        Relation rel = try_relation_open(table->relid, AccessShareLock);
        if (!rel)
            continue;
        if (HasConstraints(rel))
            tables = lappend(tables, table);
        relation_close(rel, AccessShareLock);
    }
    return tables;
}

Claims *BeginClaims(List *tables, CommandId command) {
    MemoryContext memory =
        AllocSetContextCreate(TopTransactionContext, "index_table claims", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Claims *claims = palloc0_object(Claims);
    claims->memory = memory;
    claims->nest_level = GetCurrentTransactionNestLevel();
    claims->command = command;
    claims->table_count = list_length(tables);
    claims->tables = palloc0_array(ClaimTable, claims->table_count);
    for (int i = 0; i < claims->table_count; i++)
        claims->tables[i].table = static_cast<const IndexTable *>(list_nth(tables, i));
    claims->claim_capacity = claims->table_count;
    claims->claims = palloc_array(Claim, claims->claim_capacity);
    HASHCTL control = {};
    control.keysize = sizeof(ClaimedPage::Place);
    control.entrysize = sizeof(ClaimedPage);
    control.hcxt = memory;
    claims->pages = hash_create("index_table rows with claimed entries", 16, &control,
                                HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    MemoryContextSwitchTo(caller);
    claims->outer = innermost;
    innermost = claims;
    return claims;
}

void EndClaims(Claims *claims) {
    for (Claims **link = &innermost; *link; link = &(*link)->outer)
        if (*link == claims) {
            *link = claims->outer;
            break;
        }
    for (ClaimTable &self : std::span(claims->tables, claims->table_count)) {
        if (!self.root)
            continue;
        int count = self.partition_key ? self.partitions->nparts : 1;
        for (ClaimTarget *target : std::span(self.targets, count))
            if (target)
                CloseTarget(target, self.partition_key != nullptr);
        table_close(self.root, NoLock);
    }
    MemoryContextDelete(claims->memory);
}

HeapTuple FormEntry(Claims *claims, int table, const Datum *values, const bool *nulls) {
    ClaimTable *self = &claims->tables[table];
    if (!self->root)
        OpenTable(claims, self);
    TupleDesc descriptor = RelationGetDescr(self->root);
    for (int i = 0; i < self->table->column_count; i++) {
        int index = self->attnos[i] - 1;
        self->values[index] = values[i];
        self->nulls[index] = nulls[i];
        // As captured entries are stored.
        if (TupleDescAttr(descriptor, index)->attlen == -1 && !nulls[i])
            self->values[index] = PointerGetDatum(
                pg_detoast_datum(reinterpret_cast<struct varlena *>(DatumGetPointer(values[i]))));
    }
    return heap_form_tuple(descriptor, self->values, self->nulls);
}

TupleTableSlot *FindConflict(Claims *claims, int table, HeapTuple entry) {
    ClaimTable *self = &claims->tables[table];
    ClaimTarget *target = TargetOf(claims, self, entry);
    TupleTableSlot *found = nullptr;
    while (!found) {
        CHECK_FOR_INTERRUPTS();
        ItemPointerData tid;
        ExecForceStoreHeapTuple(entry, target->slot, false);
        bool is_free =
            compat::CheckIndexConstraints(target->relinfo, target->slot, target->estate, &tid);
        ResetPerTupleExprContext(target->estate);
        if (is_free)
            break;
        if (!table_tuple_fetch_row_version(target->rel, &tid, SnapshotAny, target->found))
            continue;
        AcceptInvalidationMessages(); // which partitions there are
        if (IsLive(self->table, self->attnos, target->found))
            found = target->found;
        else
            Remove(claims, target, &tid);
    }
    ExecClearTuple(target->slot);
    return found;
}

bool IsStillStored(Claims *claims, int table, TupleTableSlot *entry) {
    ClaimTarget *target = TargetOf(&claims->tables[table], entry);
    ItemPointerData tid = entry->tts_tid;
    bool is_there = table_tuple_fetch_row_version(target->rel, &tid, SnapshotSelf, target->slot);
    ExecClearTuple(target->slot);
    return is_there;
}

bool ClaimEntry(Claims *claims, int table, HeapTuple entry) {
    ClaimTarget *target = TargetOf(claims, &claims->tables[table], entry);
    TupleTableSlot *slot = target->slot;
    ExecForceStoreHeapTuple(entry, slot, false);
    slot->tts_tableOid = RelationGetRelid(target->rel);
    if (target->rel->rd_att->constr)
        ExecConstraints(target->relinfo, slot, target->estate);
    uint32 token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
    table_tuple_insert_speculative(target->rel, slot, claims->command, 0, nullptr, token);
    bool is_ours = compat::InsertIndexTuplesSpeculatively(target->relinfo, slot, target->estate);
    table_tuple_complete_speculative(target->rel, slot, token, is_ours);
    SpeculativeInsertionLockRelease(GetCurrentTransactionId());
    ResetPerTupleExprContext(target->estate);
    if (is_ours) {
        if (claims->claim_count == claims->claim_capacity) {
            claims->claim_capacity *= 2;
            claims->claims = repalloc_array(claims->claims, Claim, claims->claim_capacity);
        }
        claims->claims[claims->claim_count++] = {table, target, slot->tts_tid};
    }
    ExecClearTuple(slot);
    return is_ours;
}

bool IsOwnClaim(const Claims *claims, TupleTableSlot *entry) {
    for (Claim &claim : std::span(claims->claims, claims->claim_count))
        if (claim.target->found == entry && ItemPointerEquals(&claim.tid, &entry->tts_tid))
            return true;
    return false;
}

void TakeBackClaims(Claims *claims) {
    for (Claim &claim : std::span(claims->claims, claims->claim_count))
        Remove(claims, claim.target, &claim.tid);
    claims->claim_count = 0;
}

void TakeBackClaims(Claims *claims, int table) {
    int kept = 0;
    for (Claim &claim : std::span(claims->claims, claims->claim_count)) {
        if (claim.table == table)
            Remove(claims, claim.target, &claim.tid);
        else
            claims->claims[kept++] = claim;
    }
    claims->claim_count = kept;
}

void AwaitRow(Claims *claims, Relation leaf, TupleTableSlot *row, TupleTableSlot *scratch) {
    claims->leaf = leaf;
    claims->row = row;
    claims->scratch = scratch;
}

void SettleRow(Claims *claims) {
    TupleTableSlot *row = claims->row;
    if (!row)
        return;
    claims->row = nullptr;
    ItemPointerData tid = row->tts_tid;
    // A row that lost a race for another constraint was inserted, and killed: then nobody inserted
    // it. Whether it has been changed since does not matter.
    bool is_inserted =
        ItemPointerIsValid(&tid) &&
        table_tuple_fetch_row_version(claims->leaf, &tid, SnapshotAny, claims->scratch);
    if (is_inserted) {
        bool isnull;
        Datum inserter = slot_getsysattr(claims->scratch, MinTransactionIdAttributeNumber, &isnull);
        is_inserted = TransactionIdIsCurrentTransactionId(DatumGetTransactionId(inserter));
    }
    ExecClearTuple(claims->scratch);
    if (!is_inserted) {
        TakeBackClaims(claims);
        return;
    }
    MemoryContext caller = MemoryContextSwitchTo(claims->memory);
    for (const Claim &claim : std::span(claims->claims, claims->claim_count)) {
        ClaimTable *self = &claims->tables[claim.table];
        NoteRow(claims, claim.table, RelationGetRelid(claims->leaf), &tid);
        if (!self->is_transient)
            continue;
        Claim *kept = palloc_object(Claim);
        *kept = claim;
        self->transient = lappend(self->transient, kept);
    }
    claims->claim_count = 0;
    MemoryContextSwitchTo(caller);
}

bool IsClaimed(Oid index_table, Oid leaf, ItemPointer row) {
    for (Claims *claims = innermost; claims; claims = claims->outer) {
        SettleRow(claims);
        for (int i = 0; i < claims->table_count; i++) {
            ClaimTable *self = &claims->tables[i];
            if (self->table->relid != index_table || !IsNoted(claims, i, leaf, row))
                continue;
            if (self->is_transient)
                RemoveTransient(claims, self);
            return !self->is_transient;
        }
    }
    return false;
}

void AtEOXactClaims() {
    innermost = nullptr;
}

void AtEOSubXactClaims(bool commits, int level) {
    // Their relations are closed by the resource owner, their memory goes with the transaction.
    while (!commits && innermost && innermost->nest_level >= level)
        innermost = innermost->outer;
    for (Claims *claims = innermost; claims; claims = claims->outer)
        for (ClaimTable &self : std::span(claims->tables, claims->table_count))
            if (self.removed_at >= level)
                self.removed_at = commits ? level - 1 : 0;
}

} // namespace index_table
