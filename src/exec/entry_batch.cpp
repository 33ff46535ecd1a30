#include "exec/entry_batch.h"

#include "exec/remote_entries.h"

namespace index_table {
namespace {

constexpr int kMostEntries = 10000;
constexpr int kGrowth = 4;

struct Ahead {
    Datum *values; // of the source's needed positions
    bool *nulls;
    OpenLeaf *foreign;
    const NullableDatum *identity;
    ToldDistances told;
};

// The entries of one scan, among those of the batch.
struct Group {
    int begin;
    int end;
    bool is_complete; // the scan has no more
};

constexpr int kMostGroups = 1000;

} // namespace

struct EntryBatch {
    EntrySource *source;
    LeafReader *leaves;
    ShardRows *shards;
    int first;
    int limit; // of the next batch
    int room;  // of this one
    int count;
    int next;
    Ahead *entries;
    bool at_end;
    Group *groups; // null: the batch is of one scan
    int group_count;
    int current;       // group
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
    if (source->by_distance)
        ahead->told = CopyTold(source->by_distance, source->told);
    OpenLeaf *leaf =
        GetLeaf(batch->leaves, DatumGetInt32(source->values[source->table->partition_position()]));
    if (leaf && leaf->is_foreign) {
        ahead->foreign = leaf;
        ahead->identity = CopyIdentity(batch);
        WantRow(batch->shards, leaf, ahead->identity);
    }
    batch->count++;
}

// Forgets what was read, and makes room for as many entries as may come now.
void MakeRoom(EntryBatch *batch) {
    batch->room = BatchLimit(batch->shards, batch->limit);
    BeginBatch(batch->shards);
    batch->count = batch->next = 0;
    batch->entries = static_cast<Ahead *>(
        MemoryContextAlloc(BatchMemory(batch->shards), sizeof(Ahead) * batch->room));
}

// Reads entries until the batch has `limit`.
void Read(EntryBatch *batch, int limit) {
    while (batch->count < limit && !batch->at_end) {
        CHECK_FOR_INTERRUPTS();
        batch->at_end = !ReadEntry(batch->source);
        if (batch->at_end)
            break;
        MemoryContext caller = MemoryContextSwitchTo(BatchMemory(batch->shards));
        Keep(batch);
        MemoryContextSwitchTo(caller);
    }
}

void Fetch(EntryBatch *batch) {
    FetchBatch(batch->shards);
    batch->limit = Min(kMostEntries, batch->room * kGrowth);
}

void Fill(EntryBatch *batch) {
    MakeRoom(batch);
    Read(batch, batch->room);
    Fetch(batch);
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

void BeginGroups(EntryBatch *batch) {
    MakeRoom(batch);
    batch->groups = static_cast<Group *>(
        MemoryContextAlloc(BatchMemory(batch->shards), sizeof(Group) * kMostGroups));
    batch->group_count = 0;
    if (batch->source->remote)
        BeginRemoteGroups(batch->source->remote);
}

namespace {

// Entries on servers are read when all groups are known. A group has all of its entries, or none:
// in another order they may come the next time.
void ReadGroups(EntryBatch *batch) {
    RemoteEntries *remote = batch->source->remote;
    FetchRemoteGroups(remote);
    for (int i = 0; i < batch->group_count; i++) {
        Group *group = &batch->groups[i];
        group->begin = group->end = batch->count;
        group->is_complete = StartRemoteGroup(remote, i) <= batch->room - batch->count;
        if (!group->is_complete)
            continue;
        while (NextRemote(remote)) {
            CHECK_FOR_INTERRUPTS();
            MemoryContext caller = MemoryContextSwitchTo(BatchMemory(batch->shards));
            batch->source->entries_read++;
            Keep(batch);
            MemoryContextSwitchTo(caller);
        }
        group->end = batch->count;
    }
}

} // namespace

bool AddGroup(EntryBatch *batch, int most) {
    Assert(batch->groups && batch->group_count < kMostGroups && batch->count < batch->room);
    Group *group = &batch->groups[batch->group_count++];
    if (batch->source->remote)
        return NoteRemoteGroup(batch->source->remote) < batch->room &&
               batch->group_count < kMostGroups;
    group->begin = batch->count;
    batch->at_end = false;
    Read(batch, Min(batch->room, batch->count + most));
    group->end = batch->count;
    group->is_complete = batch->at_end;
    return batch->group_count < kMostGroups && batch->count < batch->room;
}

void FetchGroups(EntryBatch *batch) {
    if (batch->source->remote)
        ReadGroups(batch);
    Fetch(batch);
}

void StartGroup(EntryBatch *batch, int number) {
    Assert(batch->groups && number < batch->group_count);
    batch->current = number;
    batch->next = batch->groups[number].begin;
    batch->count = batch->groups[number].end;
    batch->at_end = true;
}

int GroupSize(const EntryBatch *batch) {
    const Group &group = batch->groups[batch->current];
    return group.end - group.begin;
}

bool IsGroupComplete(const EntryBatch *batch) {
    return batch->groups[batch->current].is_complete;
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
    source->told = ahead.told;
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
