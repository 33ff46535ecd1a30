#include "exec/remote_entries.h"

#include "core/public.h"
#include "exec/identity_map.h"
#include "exec/shard_rows.h"
#include "maintenance/public.h"
#include "shard/public.h"

namespace index_table {

// What one scan looks for.
struct RemoteGroup {
    int count;
    int *keys; // places in RemoteEntries::keys
};

struct RemoteEntries {
    EntrySource *source;
    IndexTable *as_base; // the index table seen as a base table, whose identity is the first column
    Relation rel;
    const AttrNumber *attnos; // by position
    EntryStorage storage;
    OpenLeaf *parts; // by place
    ShardRows *rows;
    int *places;          // of the source's needed positions
    MemoryContext memory; // of what is looked for

    // Values that are looked for, each once.
    IdentityMap *numbers;
    int key_count;
    int key_room;
    NullableDatum **keys;
    OpenLeaf **key_parts;
    RemoteGroup *groups;
    int group_count;
    int group_room;

    // What is being yielded.
    const RemoteGroup *current; // null: nothing was read yet
    int next_key;               // of the group
    const ShardRow *next;       // with the key before that; null: the next key's are
};

namespace {

constexpr int kFewKeys = 16;

// Integers of one size are compared with those of another.
bool IsInteger(Oid type) {
    return type == INT2OID || type == INT4OID || type == INT8OID;
}

Oid InputType(const IndexTable *table) {
    return get_opclass_input_type(table->key.columns[0].opclass);
}

// Makes an integer one of another type; false where that has none such, and nothing equals it.
bool ConvertInteger(Oid from, Oid to, Datum *value) {
    int64 number = from == INT2OID   ? DatumGetInt16(*value)
                   : from == INT4OID ? DatumGetInt32(*value)
                                     : DatumGetInt64(*value);
    switch (to) {
    case INT2OID:
        *value = Int16GetDatum(static_cast<int16>(number));
        return number >= PG_INT16_MIN && number <= PG_INT16_MAX;
    case INT4OID:
        *value = Int32GetDatum(static_cast<int32>(number));
        return number >= PG_INT32_MIN && number <= PG_INT32_MAX;
    default:
        *value = Int64GetDatum(number);
        return true;
    }
}

OpenLeaf *PartOf(RemoteEntries *entries, Datum value) {
    int place = RouteValue(entries->storage, value, false);
    OpenLeaf *part = &entries->parts[place];
    if (!part->rel) {
        part->rel = table_open(entries->storage.partitions->oids[place], AccessShareLock);
        part->is_foreign = true;
    }
    return part;
}

void AddKey(RemoteEntries *entries, RemoteGroup *group, Datum value) {
    NullableDatum key = {.value = value, .isnull = false};
    bool is_known;
    void **number = PutIdentity(entries->numbers, InvalidOid, &key, &is_known);
    if (!is_known) {
        if (entries->key_count == entries->key_room) {
            entries->key_room *= 2;
            entries->keys = static_cast<NullableDatum **>(
                repalloc_huge(entries->keys, sizeof(NullableDatum *) * entries->key_room));
            entries->key_parts = static_cast<OpenLeaf **>(
                repalloc_huge(entries->key_parts, sizeof(OpenLeaf *) * entries->key_room));
        }
        int16 length;
        bool by_value;
        get_typlenbyval(entries->source->table->types[0], &length, &by_value);
        NullableDatum *kept = palloc_object(NullableDatum);
        *kept = {.value = datumCopy(value, by_value, length), .isnull = false};
        entries->keys[entries->key_count] = kept;
        entries->key_parts[entries->key_count] = PartOf(entries, value);
        WantRow(entries->rows, entries->key_parts[entries->key_count], kept);
        *number = reinterpret_cast<void *>(static_cast<intptr_t>(entries->key_count++));
    }
    int known = static_cast<int>(reinterpret_cast<intptr_t>(*number));
    for (int other : std::span(group->keys, group->count))
        if (is_known && other == known)
            return;
    group->keys[group->count++] = known;
}

// The condition that says which values are looked for: equality with the first column.
const ScanKeyData *FindKey(const EntrySource *source) {
    for (const ScanKeyData &key : std::span(source->keys, source->key_count))
        if (key.sk_attno == 1 && key.sk_strategy == BTEqualStrategyNumber &&
            !(key.sk_flags & (SK_ROW_HEADER | SK_SEARCHNULL | SK_SEARCHNOTNULL)))
            return &key;
    elog(ERROR, "index table \"%s\" is on servers and cannot be scanned so",
         get_rel_name(source->table->relid));
}

// Adds the values of the source's keys, as they are now, as a group.
void AddGroup(RemoteEntries *entries) {
    const ScanKeyData *key = FindKey(entries->source);
    MemoryContext caller = MemoryContextSwitchTo(entries->memory);
    if (entries->group_count == entries->group_room) {
        entries->group_room *= 2;
        entries->groups = static_cast<RemoteGroup *>(
            repalloc_huge(entries->groups, sizeof(RemoteGroup) * entries->group_room));
    }
    RemoteGroup *group = &entries->groups[entries->group_count++];
    *group = {};
    Oid input = InputType(entries->source->table);
    Oid type = OidIsValid(key->sk_subtype) ? key->sk_subtype : input;
    auto add = [&](Datum value) {
        if (type == input || !IsInteger(type) || ConvertInteger(type, input, &value))
            AddKey(entries, group, value);
    };
    if (key->sk_flags & SK_ISNULL) {
        // nothing equals it
    } else if (!(key->sk_flags & SK_SEARCHARRAY)) {
        group->keys = palloc_array(int, 1);
        add(key->sk_argument);
    } else {
        ArrayType *array = DatumGetArrayTypeP(key->sk_argument);
        int16 length;
        bool by_value;
        char align;
        get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
        Datum *values;
        bool *nulls;
        int count;
        deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls,
                          &count);
        group->keys =
            static_cast<int *>(palloc_extended(sizeof(int) * Max(1, count), MCXT_ALLOC_HUGE));
        for (int i = 0; i < count; i++)
            if (!nulls[i])
                add(values[i]);
    }
    MemoryContextSwitchTo(caller);
}

void Yield(RemoteEntries *entries, const RemoteGroup *group) {
    entries->current = group;
    entries->next_key = 0;
    entries->next = nullptr;
}

const ShardRow *RowsOf(const RemoteEntries *entries, int key) {
    return FindShardRow(entries->rows, entries->key_parts[key], entries->keys[key]);
}

// The index table as the rows of servers are asked for: they are found by the first column.
IndexTable *AsBase(const IndexTable *table, AttrNumber first) {
    IndexTable *as_base = palloc0_object(IndexTable);
    as_base->relid = as_base->base = table->relid;
    as_base->identity_count = 1;
    as_base->identity = palloc0_object(CopiedColumn);
    as_base->identity->base_attno = first;
    return as_base;
}

} // namespace

RemoteEntries *BeginRemoteEntries(EntrySource *source) {
    const IndexTable *table = source->table;
    Assert(table->on_servers && source->needed_count > 0);
    RemoteEntries *entries = palloc0_object(RemoteEntries);
    entries->source = source;
    entries->rel = source->rel;
    entries->attnos = GetLiveColumns(entries->rel, table->column_count);
    entries->storage = GetStorage(entries->rel);
    entries->parts = palloc0_array(OpenLeaf, Max(1, entries->storage.count));
    entries->as_base = AsBase(table, entries->attnos[0]);
    List *columns = NIL;
    for (int position : std::span(source->needed, source->needed_count))
        columns = lappend_int(columns, entries->attnos[position]);
    entries->rows = BeginShardRows(entries->as_base, entries->rel,
                                   {.columns = columns,
                                    .user = entries->rel->rd_rel->relowner,
                                    .snapshot = source->snapshot,
                                    .lock = LCS_NONE,
                                    .as_committed = true,
                                    .must_reach = !source->is_read});
    entries->places = palloc_array(int, source->needed_count);
    for (int i = 0; i < source->needed_count; i++)
        entries->places[i] = GetPlace(entries->rows, entries->attnos[source->needed[i]]);
    entries->memory = AllocSetContextCreate(CurrentMemoryContext, "index_table remote keys",
                                            ALLOCSET_DEFAULT_SIZES);
    return entries;
}

void EndRemoteEntries(RemoteEntries *entries) {
    EndShardRows(entries->rows);
    for (OpenLeaf &part : std::span(entries->parts, entries->storage.count))
        if (part.rel)
            table_close(part.rel, NoLock);
}

void BeginRemoteGroups(RemoteEntries *entries) {
    MemoryContextReset(entries->memory);
    BeginBatch(entries->rows);
    MemoryContext caller = MemoryContextSwitchTo(entries->memory);
    entries->numbers =
        MakeIdentityMap(entries->memory, RelationGetDescr(entries->rel), entries->attnos, 1);
    entries->key_count = entries->group_count = 0;
    entries->key_room = entries->group_room = kFewKeys;
    entries->keys = palloc_array(NullableDatum *, kFewKeys);
    entries->key_parts = palloc_array(OpenLeaf *, kFewKeys);
    entries->groups = palloc_array(RemoteGroup, kFewKeys);
    entries->current = nullptr;
    entries->next = nullptr;
    MemoryContextSwitchTo(caller);
}

int NoteRemoteGroup(RemoteEntries *entries) {
    AddGroup(entries);
    return entries->key_count;
}

void FetchRemoteGroups(RemoteEntries *entries) {
    FetchBatch(entries->rows);
}

int StartRemoteGroup(RemoteEntries *entries, int number) {
    Assert(number < entries->group_count);
    const RemoteGroup *group = &entries->groups[number];
    Yield(entries, group);
    int count = 0;
    for (int key : std::span(group->keys, group->count))
        for (const ShardRow *row = RowsOf(entries, key); row; row = row->next)
            count++;
    return count;
}

void RestartRemote(RemoteEntries *entries) {
    entries->current = nullptr;
    entries->next = nullptr;
}

bool NextRemote(RemoteEntries *entries) {
    if (!entries->current) {
        BeginRemoteGroups(entries);
        AddGroup(entries);
        FetchBatch(entries->rows);
        Yield(entries, &entries->groups[0]);
    }
    while (!entries->next) {
        if (entries->next_key == entries->current->count)
            return false;
        entries->next = RowsOf(entries, entries->current->keys[entries->next_key++]);
    }
    const ShardRow *row = entries->next;
    entries->next = row->next;
    EntrySource *source = entries->source;
    for (int i = 0; i < source->needed_count; i++) {
        source->values[source->needed[i]] = row->values[entries->places[i]];
        source->nulls[source->needed[i]] = row->nulls[entries->places[i]];
    }
    return true;
}

uint64 CountStatements(const RemoteEntries *entries) {
    ShardCounts counts = GetCounts(entries->rows);
    return counts.pipelined + counts.wrapped;
}

const char *SampleEntryStatement(const IndexTable *table) {
    Relation rel = table_open(table->relid, AccessShareLock);
    const AttrNumber *attnos = GetLiveColumns(rel, table->column_count);
    EntryStorage storage = GetStorage(rel);
    List *columns = NIL;
    for (int position = 0; position < table->group_count(); position++)
        columns = lappend_int(columns, attnos[position]);
    RemoteSelect *select = PinSelect({.base = table->relid,
                                      .user = rel->rd_rel->relowner,
                                      .columns = columns,
                                      .identity = list_make1_int(attnos[0])});
    const LeafSelect *leaf =
        storage.count > 0 ? GetLeafSelect(select, storage.partitions->oids[0]) : nullptr;
    const char *sql = leaf && leaf->sql ? CombineSelects(select, &leaf, 1).sql : nullptr;
    sql = sql ? pstrdup(sql) : nullptr;
    UnpinSelect(select);
    table_close(rel, NoLock);
    return sql;
}

bool NamesKeys(const IndexTable *table, Oid operator_oid) {
    const KeyColumn &column = table->key.columns[0];
    Oid family = get_opclass_family(column.opclass);
    Oid input = get_opclass_input_type(column.opclass);
    int strategy;
    Oid left, right;
    if (!IsDefaultOpclass(column) || !OidIsValid(IdentityArrayType(column.type)) ||
        !op_in_opfamily(operator_oid, family))
        return false;
    get_op_opfamily_properties(operator_oid, family, false, &strategy, &left, &right);
    return strategy == BTEqualStrategyNumber && left == input &&
           (right == input || (IsInteger(right) && IsInteger(input)));
}

} // namespace index_table
