#include "maintenance/change_buffer.h"

#include "maintenance/change_order.h"
#include "maintenance/linked_updates.h"

namespace index_table {
namespace {

// A bigger batch meets more of the same index pages, and costs memory: of one buffer, of all.
constexpr uint32 kFlushRows = 280000;
constexpr Size kFlushBytes = 48 * 1024 * 1024;
constexpr int kKeptBuffers = 64;
constexpr uint32 kKeptCapacity = 1024;
constexpr uint32 kFirstCapacity = 16;
constexpr uint64 kSignBit = UINT64CONST(1) << 63;

ChangeBuffer *buffers;
constinit uint64 generation = 1;
constinit Size captured_bytes = 0; // in all buffers
constinit uint64 captured_changes = 0;

// Eight bytes of a value whose unsigned order is near the type's own: exact for integers, by bytes
// for the rest. It decides locality, never correctness.
uint64 Prefix(Form_pg_attribute att, Datum value, bool isnull) {
    if (isnull)
        return ~UINT64CONST(0);
    if (att->attbyval)
        return static_cast<uint64>(value) ^ kSignBit;
    const char *bytes = static_cast<const char *>(DatumGetPointer(value));
    Size length = att->attlen;
    if (att->attlen == -1) {
        length = VARSIZE_ANY_EXHDR(bytes);
        bytes = VARDATA_ANY(bytes);
    } else if (att->attlen == -2) {
        length = strnlen(bytes, sizeof(uint64));
    }
    unsigned char padded[8] = {};
    memcpy(padded, bytes, Min(length, sizeof(padded)));
    uint64 prefix = 0;
    for (unsigned char byte : padded)
        prefix = prefix << 8 | byte;
    return prefix;
}

bool IsBefore(const Change &a, const Change &b) {
    int order = CompareKeys(a, b);
    if (order == 0)
        order = CompareIdentities(a, b);
    return order != 0 ? order < 0 : a.sequence < b.sequence;
}

// Divides what is left of one row, or of one unique key, into replacements, deletions, insertions.
void Divide(Change *changes, uint32 count, NetChanges *net) {
    uint32 insert = 0;
    for (uint32 i = 0; i < count; i++) {
        if (changes[i].kind != ChangeKind::Delete)
            continue;
        while (insert < count && changes[insert].kind != ChangeKind::Insert)
            insert++;
        if (insert == count) {
            net->deletes[net->delete_count++] = changes[i];
            continue;
        }
        net->replaced[net->replace_count] = changes[i];
        net->replacements[net->replace_count++] = changes[insert++];
    }
    for (; insert < count; insert++)
        if (changes[insert].kind == ChangeKind::Insert)
            net->inserts[net->insert_count++] = changes[insert];
}

// Eight bytes of an entry's key from `offset` on.
uint64 KeyWord(const Change &change, uint32 offset) {
    unsigned char bytes[8] = {};
    if (offset < change.key_length)
        memcpy(bytes, DataOf(change) + offset, Min(8, change.key_length - offset));
    uint64 word = 0;
    for (unsigned char byte : bytes)
        word = word << 8 | byte;
    return word;
}

// Puts the changes in order. What is moved about first is small, and settles nearly every
// comparison: 24 bytes of the key and, when that is the whole of it, eight of the identity.
void Sort(const ChangeBuffer *buffer, Change *changes, uint32 count) {
    struct SortKey {
        uint64 words[4];
        uint32 index;
    };
    SortKey *keys = static_cast<SortKey *>(
        MemoryContextAllocHuge(CurrentMemoryContext, sizeof(SortKey) * count));
    bool is_varlena = TupleDescAttr(buffer->key_descriptor, 0)->attlen == -1;
    for (uint32 i = 0; i < count; i++) {
        const Change &change = changes[i];
        uint32 skip = 0;
        if (is_varlena && change.key_length > 0)
            skip = VARATT_IS_1B(DataOf(change)) ? VARHDRSZ_SHORT : VARHDRSZ;
        bool whole = change.key_length <= skip + 24 && !buffer->table->options.is_unique;
        keys[i] = {.words = {change.key_prefix, KeyWord(change, skip + 8),
                             KeyWord(change, skip + 16), whole ? change.identity_prefix : 0},
                   .index = i};
    }
    std::sort(keys, keys + count, [changes](const SortKey &a, const SortKey &b) {
        for (int i = 0; i < 4; i++)
            if (a.words[i] != b.words[i])
                return a.words[i] < b.words[i];
        return IsBefore(changes[a.index], changes[b.index]);
    });
    // In place, cycle by cycle: a second array would be a third of the memory of a batch.
    for (uint32 start = 0; start < count; start++) {
        if (keys[start].index == start)
            continue;
        Change first = changes[start];
        uint32 place = start;
        while (keys[place].index != start) {
            uint32 source = keys[place].index;
            changes[place] = changes[source];
            keys[place].index = place;
            place = source;
        }
        changes[place] = first;
        keys[place].index = place;
    }
    pfree(keys);
}

TupleDesc FirstColumns(TupleDesc descriptor, int count) {
    // Since 18 its number of attributes says where a descriptor has them: it cannot be changed.
    TupleDesc first = CreateTemplateTupleDesc(count);
    for (int i = 1; i <= count; i++)
        TupleDescCopyEntry(first, i, descriptor, i);
    return compat::FinishDescriptor(first);
}

void Append(ChangeBuffer *buffer, const Change &change) {
    Assert(buffer->count <= buffer->capacity);
    Assert(buffer->count == 0 ||
           buffer->changes[buffer->count - 1].nest_level <= change.nest_level);
    Assert(buffer->count == 0 || buffer->changes[buffer->count - 1].sequence < change.sequence);
    if (buffer->count == buffer->capacity) {
        // Never much more than what is flushed at once: the array is the larger part of the memory.
        uint32 doubled = buffer->capacity * 2;
        buffer->capacity =
            buffer->capacity < kFlushRows ? Min(doubled, kFlushRows + kFirstCapacity) : doubled;
        buffer->changes = static_cast<Change *>(
            repalloc_huge(buffer->changes, sizeof(Change) * buffer->capacity));
    }
    buffer->changes[buffer->count++] = change;
}

// Memory for the entries and for the array of changes, apart from each other: the one grows evenly,
// the other by doubling.
void StartAfresh(ChangeBuffer *buffer) {
    buffer->entries = GenerationContextCreate(buffer->context, "index_table captured entries",
                                              ALLOCSET_DEFAULT_SIZES);
    buffer->array = AllocSetContextCreate(buffer->context, "index_table array of changes",
                                          ALLOCSET_SMALL_SIZES);
    buffer->capacity = kFirstCapacity;
    buffer->changes =
        static_cast<Change *>(MemoryContextAlloc(buffer->array, sizeof(Change) * kFirstCapacity));
}

#ifdef USE_ASSERT_CHECKING
// Whether the changes of the current nest level are last, and all in the order of their numbers.
// Append() has looked at the others.
bool IsInOrder(const ChangeBuffer *buffer) {
    int level = GetCurrentTransactionNestLevel();
    uint32 i = buffer->count;
    if (i > buffer->capacity || (i > 0 && buffer->changes[i - 1].nest_level > level))
        return false;
    for (; i > 1 && buffer->changes[i - 1].nest_level == level; i--)
        if (buffer->changes[i - 2].nest_level > level ||
            buffer->changes[i - 2].sequence >= buffer->changes[i - 1].sequence)
            return false;
    return buffer->count == 0 || buffer->changes[buffer->count - 1].sequence < buffer->sequence;
}
#endif

void DeleteBuffer(ChangeBuffer *buffer) {
    ChangeBuffer **link = &buffers;
    while (*link != buffer)
        link = &(*link)->next;
    *link = buffer->next;
    generation++;
    MemoryContextDelete(buffer->context);
}

} // namespace

uint64 ChangeBufferGeneration() {
    return generation;
}

ChangeBuffer *FirstChangeBuffer() {
    return buffers;
}

ChangeBuffer *FindChangeBuffer(Oid index_table) {
    Assert(OidIsValid(index_table));
    for (ChangeBuffer *buffer = buffers; buffer; buffer = buffer->next)
        if (buffer->relid == index_table)
            return buffer;
    return nullptr;
}

ChangeBuffer *GetChangeBuffer(const IndexTable *table) {
    Assert(IsKnown(table));
    if (ChangeBuffer *known = FindChangeBuffer(table->relid)) {
        // With changes waiting the layout cannot have changed: what alters it flushes first.
        if (known->table_serial == table->serial || known->count > 0) {
            known->table = table;
            known->table_serial = table->serial;
            return known;
        }
        DeleteBuffer(known);
    }

    // Writers do not touch one that is being built, and must not wait for its indexes.
    LOCKMODE mode = OidIsValid(table->log) ? AccessShareLock : RowExclusiveLock;
    Relation rel = try_relation_open(table->relid, mode);
    if (!rel)
        return nullptr;
    MemoryContext context = AllocSetContextCreate(
        CacheMemoryContext, "index_table captured changes", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    ChangeBuffer *buffer = static_cast<ChangeBuffer *>(palloc0(sizeof(ChangeBuffer)));
    buffer->table = table;
    buffer->table_serial = table->serial;
    buffer->relid = table->relid;
    buffer->context = context;
    buffer->descriptor = CreateTupleDescCopyConstr(RelationGetDescr(rel));
    buffer->key_descriptor = FirstColumns(RelationGetDescr(rel), table->key.count);
    buffer->identity_descriptor = FirstColumns(RelationGetDescr(rel), table->key.count + 1);
    buffer->group_descriptor = FirstColumns(RelationGetDescr(rel), table->group_count());
    buffer->attnos = GetLiveColumns(rel, table->column_count);
    bool as_created = buffer->attnos[table->group_count() - 1] == table->group_count();
    for (int i = 0; i < table->column_count; i++)
        as_created =
            as_created &&
            TupleDescAttr(buffer->descriptor, buffer->attnos[i] - 1)->atttypid == table->types[i];
    if (!as_created)
        RaiseNotAsCreated(rel);
    StartAfresh(buffer);
    MemoryContextSwitchTo(caller);
    table_close(rel, OidIsValid(table->log) ? mode : NoLock);
    // All sessions write to index tables in one order, or two that have keys in common could
    // deadlock.
    ChangeBuffer **link = &buffers;
    while (*link && (*link)->relid < buffer->relid)
        link = &(*link)->next;
    buffer->next = *link;
    *link = buffer;
    return buffer;
}

void AddChange(ChangeBuffer *buffer, const EntryValues &entry, ChangeKind kind, CommandId command) {
    Assert(buffer->table && IsKnown(buffer->table) &&
           buffer->table->serial == buffer->table_serial);
    Assert(!IsInParallelMode());
    const IndexTable *table = buffer->table;
    MemoryContext caller = MemoryContextSwitchTo(buffer->entries);
    for (int i = 0; i < table->column_count; i++) {
        int index = buffer->attnos[i] - 1;
        Form_pg_attribute att = TupleDescAttr(buffer->descriptor, index);
        if (att->attlen == -1 && !entry.nulls[index] &&
            (VARATT_IS_EXTERNAL(DatumGetPointer(entry.values[index])) ||
             VARATT_IS_COMPRESSED(DatumGetPointer(entry.values[index]))))
            entry.values[index] = PointerGetDatum(
                pg_detoast_datum(reinterpret_cast<struct varlena *>(entry.values[index])));
    }
    Change change;
    change.entry = heap_form_tuple(buffer->descriptor, entry.values, entry.nulls);
    change.key_length = heap_compute_data_size(buffer->key_descriptor, entry.values, entry.nulls);
    change.identity_offset =
        heap_compute_data_size(buffer->identity_descriptor, entry.values, entry.nulls);
    change.group_length =
        heap_compute_data_size(buffer->group_descriptor, entry.values, entry.nulls);
    change.null_mask = 0;
    for (int i = 0; i < table->group_count(); i++)
        change.null_mask |= static_cast<uint32>(entry.nulls[i]) << i;
    change.key_prefix =
        Prefix(TupleDescAttr(buffer->descriptor, 0), entry.values[0], entry.nulls[0]);
    int identity = table->partition_position() + 1;
    change.identity_prefix = identity < table->group_count()
                                 ? Prefix(TupleDescAttr(buffer->descriptor, identity),
                                          entry.values[identity], entry.nulls[identity])
                                 : 0;
    captured_changes++;
    change.sequence = buffer->sequence++;
    change.command = command;
    change.nest_level = GetCurrentTransactionNestLevel();
    change.kind = kind;
    change.is_linked = false;
    change.is_kept = false;
    Size bytes = sizeof(Change) + HEAPTUPLESIZE + change.entry->t_len;
    buffer->entry_bytes += bytes;
    captured_bytes += bytes;
    if (buffer->count == 0)
        buffer->user = GetUserId();
    else if (buffer->user != GetUserId())
        buffer->user = InvalidOid;
    Append(buffer, change);
    MemoryContextSwitchTo(caller);
}

uint64 CapturedChanges() {
    return captured_changes;
}

bool IsFull(const ChangeBuffer *buffer) {
    return buffer->count >= kFlushRows || captured_bytes >= kFlushBytes;
}

namespace {

// Where what is to be taken begins. In the middle of a statement what was kept is looked at again
// when as much has come since: nested statements may flush after every row.
uint32 FindFirst(const ChangeBuffer *buffer, Linking linking) {
    int level = GetCurrentTransactionNestLevel();
    uint32 first = buffer->count;
    while (first > 0 && buffer->changes[first - 1].nest_level == level) {
        if (linking == Linking::HoldHalves && buffer->changes[first - 1].is_kept &&
            buffer->count - first < first)
            break;
        first--;
    }
    return first;
}

NetChanges Take(ChangeBuffer *buffer, MemoryContext batch, Linking linking) {
    uint32 first = FindFirst(buffer, linking);
    uint32 count = buffer->count - first;
    NetChanges net = {};
    if (count == 0)
        return net;

    MemoryContext caller = MemoryContextSwitchTo(batch);
    auto allocate = [](uint32 room) {
        return static_cast<Change *>(
            MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Change) * Max(1, room)));
    };
    Change *taken = buffer->changes;
    buffer->count = first;
    bool is_small = buffer->capacity == kFirstCapacity;
    if (first > 0 || is_small) {
        taken = allocate(count);
        for (uint32 i = 0; i < count; i++) {
            taken[i] = buffer->changes[first + i];
            taken[i].entry = heap_copytuple(taken[i].entry);
        }
    }
    if (first == 0) {
        captured_bytes -= Min(captured_bytes, buffer->entry_bytes);
        buffer->entry_bytes = 0;
        buffer->sequence = 0;
        if (is_small) {
            MemoryContextReset(buffer->entries);
        } else {
            // Everything goes with the batch.
            MemoryContextSetParent(buffer->entries, batch);
            MemoryContextSetParent(buffer->array, batch);
            StartAfresh(buffer);
        }
    }

    if (count == 1) {
        (taken->kind == ChangeKind::Delete ? net.deletes : net.inserts) = taken;
        (taken->kind == ChangeKind::Delete ? net.delete_count : net.insert_count) = 1;
        MemoryContextSwitchTo(caller);
        return net;
    }

    Sort(buffer, taken, count);
    Assert(std::is_sorted(taken, taken + count, [](const Change &a, const Change &b) {
        return a.key_prefix != b.key_prefix
                   ? a.key_prefix < b.key_prefix
                   : CompareKeys(a, b) == 0 && CompareIdentities(a, b) == 0 &&
                         a.sequence < b.sequence;
    }));
    // What only inserts or only deletes has nothing to net.
    uint32 deletes = std::count_if(taken, taken + count, [](const Change &change) {
        return change.kind == ChangeKind::Delete;
    });
    if (deletes == 0 || deletes == count) {
        (deletes ? net.deletes : net.inserts) = taken;
        (deletes ? net.delete_count : net.insert_count) = count;
        MemoryContextSwitchTo(caller);
        return net;
    }
    net.deletes = allocate(deletes);
    net.inserts = allocate(count - deletes);
    net.replaced = allocate(Min(deletes, count - deletes));
    net.replacements = allocate(Min(deletes, count - deletes));
    if (linking != Linking::None)
        count = TakeLinkedUpdates(buffer->table, buffer->descriptor, taken, count, &net);
    for (uint32 start = 0; start < count;) {
        // Most changes are alone with their key.
        if (start + 1 == count || taken[start].key_prefix != taken[start + 1].key_prefix) {
            if (taken[start].kind == ChangeKind::Delete)
                net.deletes[net.delete_count++] = taken[start];
            else
                net.inserts[net.insert_count++] = taken[start];
            start++;
            continue;
        }
        // A group is one row's entry under one key; for a unique index table, one key.
        bool whole_key = buffer->table->forbids_others(taken[start].null_mask);
        uint32 kept = start;
        uint32 end = start;
        while (end < count && CompareKeys(taken[start], taken[end]) == 0 &&
               (whole_key || CompareIdentities(taken[start], taken[end]) == 0)) {
            uint32 row = end;
            while (end < count && CompareKeys(taken[row], taken[end]) == 0 &&
                   CompareIdentities(taken[row], taken[end]) == 0)
                end++;
            kept += CancelChanges(taken + row, end - row, taken + kept,
                                  [](const Change &, const Change &) {});
        }
        Divide(taken + start, kept - start, &net);
        start = end;
    }
    MemoryContextSwitchTo(caller);
    return net;
}

} // namespace

NetChanges TakeChanges(ChangeBuffer *buffer, MemoryContext batch, Linking linking) {
    Assert(IsInOrder(buffer));
    bool hold = linking == Linking::HoldHalves && buffer->open_count > 0;
    HeldHalves held = {};
    if (hold)
        held = HoldHalves(buffer, batch);
    else
        EndLevelOfHalves(buffer, GetCurrentTransactionNestLevel(), false);
    NetChanges net = Take(buffer, batch, linking);
    for (uint32 i = 0; i < held.count; i++) {
        KeepUnmatched(buffer, held.changes[i]);
        held.halves[i]->sequence = buffer->sequence - 1;
    }
    return net;
}

void KeepUnmatched(ChangeBuffer *buffer, const Change &change) {
    MemoryContext caller = MemoryContextSwitchTo(buffer->entries);
    Change kept = change;
    kept.entry = heap_copytuple(change.entry);
    kept.sequence = buffer->sequence++;
    kept.is_linked = false;
    kept.is_kept = true;
    kept.nest_level = GetCurrentTransactionNestLevel();
    Append(buffer, kept);
    MemoryContextSwitchTo(caller);
}

void KeepUnmatched(ChangeBuffer *buffer, const Change &old_change, const Change &new_change) {
    Assert(old_change.kind == ChangeKind::Delete && new_change.kind == ChangeKind::Insert);
    KeepUnmatched(buffer, old_change);
    KeepUnmatched(buffer, new_change);
    LinkLastTwo(buffer);
}

#ifdef USE_ASSERT_CHECKING
bool AreBuffersEmpty() {
    const ChangeBuffer *buffer = buffers;
    while (buffer && buffer->count == 0)
        buffer = buffer->next;
    return !buffer;
}
#endif

void AtEOXactChangeBuffers() {
    captured_bytes = 0;
    int kept = 0;
    for (ChangeBuffer *buffer = buffers, *next; buffer; buffer = next) {
        next = buffer->next;
        // Index tables come and go, and a big statement leaves a big array.
        if (++kept > kKeptBuffers || buffer->capacity > kKeptCapacity) {
            DeleteBuffer(buffer);
            continue;
        }
        buffer->table = nullptr;
        buffer->count = 0;
        buffer->open_count = 0;
        buffer->sequence = 0;
        buffer->held_level = 0;
        if (buffer->entry_bytes > 0)
            MemoryContextReset(buffer->entries);
        buffer->entry_bytes = 0;
    }
}

void AtEOSubXactChangeBuffers(bool commits, int level) {
    for (ChangeBuffer *buffer = buffers; buffer; buffer = buffer->next) {
        EndLevelOfHalves(buffer, level, commits);
        if (buffer->held_level >= level)
            buffer->held_level = commits ? level - 1 : 0;
        if (!commits)
            while (buffer->count > 0 && buffer->changes[buffer->count - 1].nest_level >= level)
                buffer->count--;
        else
            for (uint32 i = buffer->count; i-- > 0 && buffer->changes[i].nest_level >= level;)
                buffer->changes[i].nest_level = level - 1;
        Assert(buffer->count == 0 || buffer->changes[buffer->count - 1].nest_level < level);
    }
}

} // namespace index_table
