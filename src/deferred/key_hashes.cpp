#include "deferred/key_hashes.h"

#include "core/public.h"

namespace index_table {
namespace {

constinit RelationCache hashers = {};

constexpr uint32 kNullHash = 0x6e756c6c;

// The head of what is stored.
struct Head {
    uint64 stamp;
    uint32 count;
    uint32 unused;
};

// Of all that hashes rest on.
uint64 MakeStamp(const IndexTable *table, const KeyHasher *hasher) {
    uint64 parts[] = {GetSystemIdentifier(),      MyDatabaseId,      table->relid,
                      table->key.columns[0].type, hasher->collation, hasher->procedure};
    return DatumGetUInt64(
        hash_any_extended(reinterpret_cast<unsigned char *>(parts), sizeof(parts), 0));
}

Oid Equality(Oid family, Oid left, Oid right) {
    return get_opfamily_member(family, left, right, BTEqualStrategyNumber);
}

// The function that hashes what an operator finds equal. That of arrays and ranges belongs to all
// of them, whether what they contain has one or not; the type cache knows.
bool FindHashFunction(Oid equality, Oid type, RegProcedure *procedure) {
    RegProcedure right;
    if (!OidIsValid(equality) || !get_op_hash_functions(equality, procedure, &right) ||
        ContainsComposite(type))
        return false;
    switch (*procedure) {
    case F_HASH_ARRAY:
    case F_HASH_RANGE:
    case F_HASH_MULTIRANGE:
        return lookup_type_cache(getBaseType(type), TYPECACHE_HASH_PROC)->hash_proc == *procedure;
    default:
        return true;
    }
}

KeyHasher *Load(const IndexTable *table) {
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table key hash", ALLOCSET_SMALL_SIZES);
    KeyHasher *hasher =
        static_cast<KeyHasher *>(MemoryContextAllocZero(context, sizeof(KeyHasher)));
    const KeyColumn &column = table->key.columns[0];
    hasher->cached = {.relid = table->relid, .valid = true, .context = context};
    hasher->table_serial = table->serial;
    hasher->family = get_opclass_family(column.opclass);
    hasher->input = get_opclass_input_type(column.opclass);
    hasher->collation = column.collation;
    Oid equality = Equality(hasher->family, hasher->input, hasher->input);
    RegProcedure procedure;
    hasher->is_usable = FindHashFunction(equality, column.type, &procedure);
    if (hasher->is_usable) {
        hasher->procedure = procedure;
        fmgr_info_cxt(procedure, &hasher->hash, context);
    }
    hasher->stamp = MakeStamp(table, hasher);
    PutCached(&hashers, &hasher->cached);
    return hasher;
}

} // namespace

KeyHasher *GetKeyHasher(const IndexTable *table) {
    Assert(IsKnown(table));
    if (CachedRelation *found = FindCached(&hashers, table->relid)) {
        KeyHasher *hasher = reinterpret_cast<KeyHasher *>(found);
        if (hasher->table_serial == table->serial)
            return hasher;
        ForgetCached(&hashers, found);
    }
    return Load(table);
}

uint32 HashKey(KeyHasher *hasher, Datum value, bool isnull) {
    Assert(hasher->is_usable);
    return isnull ? kNullHash
                  : DatumGetUInt32(FunctionCall1Coll(&hasher->hash, hasher->collation, value));
}

bool FindHashOf(const KeyHasher *hasher, Oid type, FmgrInfo *hash) {
    RegProcedure left, right;
    Oid equality = Equality(hasher->family, hasher->input, type);
    if (!hasher->is_usable || !OidIsValid(equality) ||
        !get_op_hash_functions(equality, &left, &right) || left != hasher->procedure)
        return false;
    fmgr_info(right, hash);
    return true;
}

bytea *PackHashes(const KeyHasher *hasher, uint32 *hashes, uint16 *places, int count) {
    struct Item {
        uint32 hash;
        uint16 place;
    };
    Item *items = palloc_array(Item, Max(1, count));
    for (int i = 0; i < count; i++)
        items[i] = {hashes[i], places[i]};
    std::sort(items, items + count, [](const Item &a, const Item &b) {
        return a.hash != b.hash ? a.hash < b.hash : a.place < b.place;
    });
    Size size = VARHDRSZ + sizeof(Head) + (sizeof(uint32) + sizeof(uint16)) * count;
    bytea *stored = static_cast<bytea *>(palloc(size));
    SET_VARSIZE(stored, size);
    Head head = {.stamp = hasher->stamp, .count = static_cast<uint32>(count), .unused = 0};
    char *data = VARDATA(stored);
    memcpy(data, &head, sizeof(head));
    uint32 *to_hashes = reinterpret_cast<uint32 *>(data + sizeof(head));
    uint16 *to_places = reinterpret_cast<uint16 *>(to_hashes + count);
    for (int i = 0; i < count; i++) {
        to_hashes[i] = items[i].hash;
        to_places[i] = items[i].place;
    }
    pfree(items);
    return stored;
}

bool ReadHashes(const KeyHasher *hasher, bytea *stored, KeyHashes *hashes) {
    Size size = VARSIZE_ANY_EXHDR(stored);
    const char *data = VARDATA_ANY(stored);
    Head head;
    if (!hasher->is_usable || size < sizeof(head))
        return false;
    memcpy(&head, data, sizeof(head));
    if (head.stamp != hasher->stamp ||
        size != sizeof(head) + (sizeof(uint32) + sizeof(uint16)) * head.count)
        return false;
    data += sizeof(head);
    if (reinterpret_cast<uintptr_t>(data) % sizeof(uint32) != 0) { // a short header
        char *copy = static_cast<char *>(palloc(size));
        memcpy(copy, data, size - sizeof(head));
        data = copy;
    }
    *hashes = {.count = head.count, .hashes = reinterpret_cast<const uint32 *>(data)};
    hashes->places = reinterpret_cast<const uint16 *>(hashes->hashes + head.count);
    return true;
}

void InitializeKeyHashes() {
    InitializeRelationCache(&hashers, "index_table key hashes");
}

} // namespace index_table
