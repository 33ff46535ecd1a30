#include "exec/entry_batch.h"

namespace index_table {
namespace {

constexpr int kMostEntries = 10000;
constexpr int kGrowth = 4;

struct Ahead {
    Datum *values; // of the source's needed positions
    bool *nulls;
    OpenLeaf *foreign;
    const NullableDatum *identity;
};

} // namespace

struct EntryBatch {
    EntrySource *source;
    LeafReader *leaves;
    ShardRows *shards;
    int first;
    int limit; // of the next batch
    int count;
    int next;
    Ahead *entries;
    bool at_end;
    OpenLeaf *foreign; // of the current entry
    const ShardRow *row;
    bool *by_value; // of the needed positions
    int16 *lengths;
};

namespace {

const NullableDatum *CopyIdentity(const EntryBatch *batch) {
    const IndexTable *table = batch->source->table;
    NullableDatum *identity = palloc_array(NullableDatum, table->identity_count);
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        identity[i] = {.isnull = batch->source->nulls[position]};
        for (int j = 0; j < batch->source->needed_count; j++)
            if (batch->source->needed[j] == position)
                identity[i].value = batch->entries[batch->count].values[j];
    }
    return identity;
}

// Keeps the source's entry for later.
void Keep(EntryBatch *batch) {
    const EntrySource *source = batch->source;
    Ahead *ahead = &batch->entries[batch->count];
    *ahead = {.values = palloc_array(Datum, source->needed_count),
              .nulls = palloc_array(bool, source->needed_count)};
    for (int i = 0; i < source->needed_count; i++) {
        int position = source->needed[i];
        ahead->nulls[i] = source->nulls[position];
        if (!ahead->nulls[i])
            ahead->values[i] =
                datumCopy(source->values[position], batch->by_value[i], batch->lengths[i]);
    }
    OpenLeaf *leaf =
        GetLeaf(batch->leaves, DatumGetInt32(source->values[source->table->partition_position()]));
    if (leaf && leaf->is_foreign) {
        ahead->foreign = leaf;
        ahead->identity = CopyIdentity(batch);
        WantRow(batch->shards, leaf, ahead->identity);
    }
    batch->count++;
}

void Fill(EntryBatch *batch) {
    int limit = BatchLimit(batch->shards, batch->limit);
    BeginBatch(batch->shards);
    batch->count = batch->next = 0;
    batch->entries =
        static_cast<Ahead *>(MemoryContextAlloc(BatchMemory(batch->shards), sizeof(Ahead) * limit));
    while (batch->count < limit && !batch->at_end) {
        CHECK_FOR_INTERRUPTS();
        batch->at_end = !ReadEntry(batch->source);
        if (batch->at_end)
            break;
        MemoryContext caller = MemoryContextSwitchTo(BatchMemory(batch->shards));
        Keep(batch);
        MemoryContextSwitchTo(caller);
    }
    FetchBatch(batch->shards);
    batch->limit = Min(kMostEntries, limit * kGrowth);
}

} // namespace

EntryBatch *BeginEntryBatch(EntrySource *source, LeafReader *leaves, ShardRows *shards, int first) {
    EntryBatch *batch = palloc0_object(EntryBatch);
    batch->source = source;
    batch->leaves = leaves;
    batch->shards = shards;
    batch->first = first;
    batch->by_value = palloc_array(bool, source->needed_count);
    batch->lengths = palloc_array(int16, source->needed_count);
    for (int i = 0; i < source->needed_count; i++)
        get_typlenbyval(source->table->types[source->needed[i]], &batch->lengths[i],
                        &batch->by_value[i]);
    RestartBatch(batch);
    return batch;
}

void RestartBatch(EntryBatch *batch) {
    batch->limit = batch->first;
    batch->count = batch->next = 0;
    batch->at_end = false;
    batch->foreign = nullptr;
    batch->row = nullptr;
}

bool NextBatched(EntryBatch *batch) {
    while (batch->next == batch->count) {
        if (batch->at_end)
            return false;
        Fill(batch);
    }
    EntrySource *source = batch->source;
    const Ahead &ahead = batch->entries[batch->next++];
    for (int i = 0; i < source->needed_count; i++) {
        source->values[source->needed[i]] = ahead.values[i];
        source->nulls[source->needed[i]] = ahead.nulls[i];
    }
    batch->foreign = ahead.foreign;
    batch->row =
        ahead.foreign ? FindShardRow(batch->shards, ahead.foreign, ahead.identity) : nullptr;
    if (batch->row && batch->row->next)
        RaiseNotUnique(source->table, RelationGetRelid(ahead.foreign->rel));
    return true;
}

OpenLeaf *ForeignLeafOf(const EntryBatch *batch) {
    return batch->foreign;
}

const ShardRow *ShardRowOf(const EntryBatch *batch) {
    return batch->row;
}

} // namespace index_table
