#include "maintenance/linked_updates.h"

#include "maintenance/change_order.h"

namespace index_table {
namespace {

constexpr uint32 kNone = PG_UINT32_MAX;

// Where a change is in its buffer, which is in the order of sequence; kNone: not there any more.
uint32 FindBySequence(const ChangeBuffer *buffer, uint32 sequence) {
    const Change *begin = buffer->changes;
    const Change *end = begin + buffer->count;
    const Change *found =
        std::lower_bound(begin, end, sequence, [](const Change &change, uint32 wanted) {
            return change.sequence < wanted;
        });
    return found != end && found->sequence == sequence ? found - begin : kNone;
}

void RemoveAt(ChangeBuffer *buffer, uint32 place) {
    buffer->count--;
    memmove(buffer->changes + place, buffer->changes + place + 1,
            sizeof(Change) * (buffer->count - place));
}

// Which changes of a batch belong together, by sequence less the first.
struct Links {
    uint32 first;
    uint32 range;
    uint32 *partner;
};

template <typename T>
T *Allocate(Size count) {
    return static_cast<T *>(
        MemoryContextAllocHuge(CurrentMemoryContext, sizeof(T) * Max(count, 1)));
}

Links FindLinks(const Change *changes, uint32 count) {
    auto [least, greatest] =
        std::minmax_element(changes, changes + count, [](const Change &a, const Change &b) {
            return a.sequence < b.sequence;
        });
    Links links = {.first = least->sequence, .range = greatest->sequence - least->sequence + 1};
    links.partner = Allocate<uint32>(links.range);
    std::fill_n(links.partner, links.range, kNone);
    for (uint32 i = 0; i < count; i++) {
        if (!changes[i].is_linked)
            continue;
        uint32 offset = changes[i].sequence - links.first;
        uint32 partner = changes[i].kind == ChangeKind::Delete ? offset + 1 : offset - 1;
        links.partner[offset] = partner < links.range ? partner : kNone;
    }
    return links;
}

// An insertion and a deletion of the same entry cancel: what came before the one and what comes
// after the other are the halves of one update now.
void Join(Links *links, const Change &a, const Change &b) {
    const Change &insertion = a.kind == ChangeKind::Insert ? a : b;
    const Change &deletion = a.kind == ChangeKind::Insert ? b : a;
    uint32 before = links->partner[insertion.sequence - links->first];
    uint32 after = links->partner[deletion.sequence - links->first];
    if (before == deletion.sequence - links->first)
        return;
    if (before != kNone)
        links->partner[before] = after;
    if (after != kNone)
        links->partner[after] = before;
}

uint32 Cancel(Links *links, Change *changes, uint32 count) {
    uint32 kept = 0;
    for (uint32 start = 0, end; start < count; start = end) {
        // The first of the group may be written over.
        Change first = changes[start];
        for (end = start + 1; end < count && CompareKeys(first, changes[end]) == 0 &&
                              CompareIdentities(first, changes[end]) == 0;)
            end++;
        kept += CancelChanges(changes + start, end - start, changes + kept,
                              [=](const Change &a, const Change &b) { Join(links, a, b); });
    }
    return kept;
}

// The update of an entry.
struct Update {
    uint32 old_place; // in the batch
    uint32 new_place;
    Datum *old_key;
    Datum *new_key;
    bool *old_nulls;
    bool *new_nulls;
    enum { Waiting, Begun, Done, Circular } state;
};

// Compares keys as the index table's B-tree does.
struct KeyOrder {
    int count;
    FmgrInfo *procs;
    Oid *collations;

    int Compare(const Datum *a, const bool *a_nulls, const Datum *b, const bool *b_nulls) const {
        for (int i = 0; i < count; i++) {
            if (a_nulls[i] || b_nulls[i]) {
                if (a_nulls[i] != b_nulls[i])
                    return a_nulls[i] ? 1 : -1;
                continue;
            }
            int order = DatumGetInt32(FunctionCall2Coll(&procs[i], collations[i], a[i], b[i]));
            if (order != 0)
                return order;
        }
        return 0;
    }
};

KeyOrder MakeKeyOrder(const IndexTable *table) {
    KeyOrder order = {.count = table->key.count,
                      .procs = Allocate<FmgrInfo>(table->key.count),
                      .collations = Allocate<Oid>(table->key.count)};
    for (int i = 0; i < table->key.count; i++) {
        const KeyColumn &column = table->key.columns[i];
        Oid type = get_opclass_input_type(column.opclass);
        fmgr_info(get_opfamily_proc(get_opclass_family(column.opclass), type, type, BTORDER_PROC),
                  &order.procs[i]);
        order.collations[i] = column.collation;
    }
    return order;
}

void ReadKey(const IndexTable *table, TupleDesc descriptor, HeapTuple entry, Datum *values,
             bool *nulls) {
    for (int i = 0; i < table->key.count; i++)
        values[i] = heap_getattr(entry, i + 1, descriptor, &nulls[i]);
}

struct Updates {
    Update *items;
    uint32 count;
};

Updates FindUpdates(const IndexTable *table, const Links &links, const Change *changes,
                    uint32 count, TupleDesc descriptor) {
    uint32 *places = Allocate<uint32>(links.range);
    std::fill_n(places, links.range, kNone);
    for (uint32 i = 0; i < count; i++)
        places[changes[i].sequence - links.first] = i;
    Updates updates = {.items = Allocate<Update>(count / 2), .count = 0};
    Datum *values = Allocate<Datum>(static_cast<Size>(count) * table->key.count);
    bool *nulls = Allocate<bool>(static_cast<Size>(count) * table->key.count);
    for (uint32 i = 0; i < count; i++) {
        uint32 partner = links.partner[changes[i].sequence - links.first];
        if (changes[i].kind != ChangeKind::Delete || partner == kNone || places[partner] == kNone)
            continue;
        Update &update = updates.items[updates.count++];
        Size first = static_cast<Size>(updates.count - 1) * 2 * table->key.count;
        update = {.old_place = i,
                  .new_place = places[partner],
                  .old_key = values + first,
                  .new_key = values + first + table->key.count,
                  .old_nulls = nulls + first,
                  .new_nulls = nulls + first + table->key.count,
                  .state = Update::Waiting};
        ReadKey(table, descriptor, changes[i].entry, update.old_key, update.old_nulls);
        ReadKey(table, descriptor, changes[update.new_place].entry, update.new_key,
                update.new_nulls);
    }
    return updates;
}

// The update that gives up the key that this one takes; null where there is none.
Update *FindGiver(const KeyOrder &order, const Updates &updates, const Update &taker) {
    Update *end = updates.items + updates.count;
    Update *found = std::lower_bound(updates.items, end, taker,
                                     [&order](const Update &update, const Update &wanted) {
                                         return order.Compare(update.old_key, update.old_nulls,
                                                              wanted.new_key, wanted.new_nulls) < 0;
                                     });
    bool gives =
        found != end && found != &taker &&
        !std::any_of(taker.new_nulls, taker.new_nulls + order.count,
                     [](bool isnull) { return isnull; }) &&
        order.Compare(found->old_key, found->old_nulls, taker.new_key, taker.new_nulls) == 0;
    return gives ? found : nullptr;
}

// Calls carry_out(update) for each update after the one that gives up its key, if any; not for
// those that go in a circle. `updates` are in the order of their old keys.
template <typename CarryOut>
void InOrder(const KeyOrder &order, Updates *updates, CarryOut carry_out) {
    Update **chain = Allocate<Update *>(updates->count);
    for (Update &start : std::span(updates->items, updates->count)) {
        uint32 length = 0;
        Update *next = &start;
        while (next && next->state == Update::Waiting) {
            next->state = Update::Begun;
            chain[length++] = next;
            next = FindGiver(order, *updates, *next);
        }
        if (next && next->state == Update::Begun)
            for (uint32 i = length; i-- > 0;) {
                chain[i]->state = Update::Circular;
                if (chain[i] == next)
                    break;
            }
        while (length-- > 0) {
            if (chain[length]->state == Update::Circular)
                continue;
            chain[length]->state = Update::Done;
            carry_out(*chain[length]);
        }
    }
}

} // namespace

void LinkLastTwo(ChangeBuffer *buffer) {
    Assert(buffer->count >= 2);
    [[maybe_unused]] const Change *last = &buffer->changes[buffer->count - 1];
    Assert(last[-1].kind == ChangeKind::Delete && last[0].kind == ChangeKind::Insert);
    Assert(last[-1].sequence + 1 == last[0].sequence && last[-1].nest_level == last[0].nest_level);
    buffer->changes[buffer->count - 1].is_linked = true;
    buffer->changes[buffer->count - 2].is_linked = true;
}

void CloseHalves(ChangeBuffer *buffer, CommandId command) {
    int level = GetCurrentTransactionNestLevel();
    uint32 kept = 0;
    for (uint32 i = 0; i < buffer->open_count; i++)
        if (buffer->open_halves[i].command != command || buffer->open_halves[i].nest_level != level)
            buffer->open_halves[kept++] = buffer->open_halves[i];
    buffer->open_count = kept;
}

void OpenLastHalf(ChangeBuffer *buffer) {
    Assert(buffer->count > 0 && buffer->changes[buffer->count - 1].kind == ChangeKind::Delete);
    const Change &last = buffer->changes[buffer->count - 1];
    if (!buffer->open_halves) {
        buffer->open_capacity = 4;
        buffer->open_halves = static_cast<OpenHalf *>(
            MemoryContextAlloc(buffer->context, sizeof(OpenHalf) * buffer->open_capacity));
    } else if (buffer->open_count == buffer->open_capacity) {
        buffer->open_capacity *= 2;
        buffer->open_halves = static_cast<OpenHalf *>(
            repalloc(buffer->open_halves, sizeof(OpenHalf) * buffer->open_capacity));
    }
    buffer->open_halves[buffer->open_count++] = {
        .sequence = last.sequence, .command = last.command, .nest_level = last.nest_level};
}

void JoinHalf(ChangeBuffer *buffer, CommandId command) {
    int level = GetCurrentTransactionNestLevel();
    for (uint32 i = buffer->open_count; i-- > 0;) {
        OpenHalf half = buffer->open_halves[i];
        if (half.command != command || half.nest_level != level)
            continue;
        // What is above it was opened inside, and is over.
        buffer->open_count = i;
        uint32 place = FindBySequence(buffer, half.sequence);
        if (place == kNone)
            return;
        Change change = buffer->changes[place];
        RemoveAt(buffer, place);
        change.sequence = buffer->sequence++;
        change.is_kept = false;
        buffer->changes[buffer->count++] = change;
        return;
    }
}

void EndLevelOfHalves(ChangeBuffer *buffer, int level, bool keep) {
    Assert(level >= 1);
    uint32 kept = 0;
    for (uint32 i = 0; i < buffer->open_count; i++) {
        OpenHalf half = buffer->open_halves[i];
        if (half.nest_level >= level && !keep)
            continue;
        half.nest_level = Min(half.nest_level, keep ? level - 1 : level);
        buffer->open_halves[kept++] = half;
    }
    buffer->open_count = kept;
}

HeldHalves HoldHalves(ChangeBuffer *buffer, MemoryContext batch) {
    Assert(std::is_sorted(
        buffer->open_halves, buffer->open_halves + buffer->open_count,
        [](const OpenHalf &a, const OpenHalf &b) { return a.nest_level < b.nest_level; }));
    MemoryContext caller = MemoryContextSwitchTo(batch);
    int level = GetCurrentTransactionNestLevel();
    HeldHalves held = {.changes = Allocate<Change>(buffer->open_count),
                       .halves = Allocate<OpenHalf *>(buffer->open_count),
                       .count = 0};
    for (uint32 i = 0; i < buffer->open_count; i++) {
        uint32 place = buffer->open_halves[i].nest_level == level
                           ? FindBySequence(buffer, buffer->open_halves[i].sequence)
                           : kNone;
        if (place == kNone)
            continue;
        held.halves[held.count] = &buffer->open_halves[i];
        held.changes[held.count] = buffer->changes[place];
        held.changes[held.count++].entry = heap_copytuple(buffer->changes[place].entry);
        RemoveAt(buffer, place);
    }
    MemoryContextSwitchTo(caller);
    return held;
}

uint32 TakeLinkedUpdates(const IndexTable *table, TupleDesc descriptor, Change *changes,
                         uint32 count, NetChanges *net) {
    Assert(count > 0 && table->options.is_unique && table->key.multi_valued < 0);
    Links links = FindLinks(changes, count);
    count = Cancel(&links, changes, count);
    Updates updates = FindUpdates(table, links, changes, count, descriptor);
    KeyOrder order = MakeKeyOrder(table);
    std::sort(updates.items, updates.items + updates.count,
              [&order](const Update &a, const Update &b) {
                  return order.Compare(a.old_key, a.old_nulls, b.old_key, b.old_nulls) < 0;
              });
    bool *is_taken = Allocate<bool>(count);
    std::fill_n(is_taken, count, false);
    InOrder(order, &updates, [&](const Update &update) {
        net->replaced[net->replace_count] = changes[update.old_place];
        net->replacements[net->replace_count++] = changes[update.new_place];
        is_taken[update.old_place] = is_taken[update.new_place] = true;
    });
    net->linked_count = net->replace_count;
    uint32 kept = 0;
    for (uint32 i = 0; i < count; i++)
        if (!is_taken[i])
            changes[kept++] = changes[i];
    return kept;
}

} // namespace index_table
