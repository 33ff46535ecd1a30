// index_table.page(): keyset paging.
//
// A page continues after an entry, which the token names by its values: key, identity and, where
// the identity is not unique across partitions, partition number. Where it is, the number stays
// out, so that a row that moves to another partition between pages is neither lost nor repeated.
#include "core/public.h"
#include "exec/public.h"
#include "maintenance/public.h"
#include "read/base_rows.h"
#include "read/key_values.h"
#include "read/reading.h"

namespace index_table {
namespace {

constexpr int kMaxPageSize = 1000000;

// Columns of the B-tree that a token holds.
struct Position {
    EntryOrder order;
    int count;  // of order's columns
    Oid *types; // what domains are of
    Datum *values;
    bool *nulls;
};

bool IsIdentityGlobal(const IndexTable *table) {
    Relation base = relation_open(table->base, AccessShareLock);
    bool global = base->rd_rel->relkind != RELKIND_PARTITIONED_TABLE;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(base)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        Form_pg_index form = index->rd_index;
        bool covered =
            form->indisunique && form->indisvalid && RelationGetIndexPredicate(index) == NIL;
        for (int i = 0; covered && i < form->indnkeyatts; i++)
            covered = std::any_of(table->identity, table->identity + table->identity_count,
                                  [=](const CopiedColumn &column) {
                                      return column.base_attno == form->indkey.values[i];
                                  });
        global = global || covered;
        index_close(index, AccessShareLock);
    }
    relation_close(base, AccessShareLock);
    return global;
}

Position MakePosition(const IndexTable *table) {
    Position position = {.order = GetEntryOrder(table)};
    position.count = position.order.count - (IsIdentityGlobal(table) ? 1 : 0);
    position.types = static_cast<Oid *>(palloc(sizeof(Oid) * position.order.count));
    position.values = static_cast<Datum *>(palloc0(sizeof(Datum) * position.order.count));
    position.nulls = static_cast<bool *>(palloc0(position.order.count));
    Relation rel = table_open(table->relid, AccessShareLock);
    for (int i = 0; i < position.order.count; i++)
        position.types[i] = getBaseType(
            TupleDescAttr(RelationGetDescr(rel), position.order.positions[i])->atttypid);
    table_close(rel, AccessShareLock);
    return position;
}

void AppendValue(StringInfo bytes, Oid type, Datum value, bool isnull) {
    if (isnull) {
        pq_sendint32(bytes, static_cast<uint32>(-1));
        return;
    }
    Oid output;
    bool is_varlena;
    getTypeOutputInfo(type, &output, &is_varlena);
    char *text = OidOutputFunctionCall(output, value);
    pq_sendint32(bytes, strlen(text));
    appendBinaryStringInfo(bytes, text, strlen(text));
}

// Ties a token to its index table and to the key that is paged through.
uint64 Seal(const IndexTable *table, const KeyValues &key, const char *bytes, int length) {
    StringInfoData sealed;
    initStringInfo(&sealed);
    pq_sendint32(&sealed, table->relid);
    pq_sendint32(&sealed, key.count);
    for (int i = 0; i < key.count; i++)
        AppendValue(&sealed, getBaseType(table->key.columns[i].type), key.values[i], key.nulls[i]);
    appendBinaryStringInfo(&sealed, bytes, length);
    return hash_bytes_extended(reinterpret_cast<unsigned char *>(sealed.data), sealed.len, 0);
}

char *MakeToken(const IndexTable *table, const KeyValues &key, const Position &position) {
    int level = SecureSearchPath();
    UseCanonicalText();
    StringInfoData bytes;
    initStringInfo(&bytes);
    for (int i = 0; i < position.count; i++)
        AppendValue(&bytes, position.types[i], position.values[i], position.nulls[i]);
    uint64 seal = Seal(table, key, bytes.data, bytes.len);
    AtEOXact_GUC(false, level);
    pq_sendint64(&bytes, seal);
    int room = pg_b64_enc_len(bytes.len);
    char *token = static_cast<char *>(palloc(room + 1));
    int length = compat::EncodeBase64(bytes.data, bytes.len, token, room);
    if (length < 0)
        elog(ERROR, "cannot encode a continuation token");
    token[length] = '\0';
    return token;
}

[[noreturn]] void RaiseBadToken(const IndexTable *table) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("invalid continuation token for index table \"%s\"",
                           get_rel_name(table->relid)),
                    errhint("Pass next of the page before, with the same index table and key.")));
}

// Values are read as the owner of the index table: to read one may run what domains check.
void ReadToken(const IndexTable *table, const KeyValues &key, const char *token,
               Position *position) {
    OwnerContext owner = EnterOwner(RelationOwner(table->relid));
    UseCanonicalText();
    int room = pg_b64_dec_len(strlen(token));
    StringInfoData bytes;
    initStringInfo(&bytes);
    enlargeStringInfo(&bytes, room);
    bytes.len = compat::DecodeBase64(token, strlen(token), bytes.data, room);
    constexpr int kSealLength = sizeof(uint64);
    if (bytes.len < kSealLength)
        RaiseBadToken(table);
    uint64 expected = Seal(table, key, bytes.data, bytes.len - kSealLength);
    bytes.cursor = bytes.len - kSealLength;
    if (static_cast<uint64>(pq_getmsgint64(&bytes)) != expected)
        RaiseBadToken(table);
    bytes.len -= kSealLength;
    bytes.cursor = 0;
    for (int i = 0; i < position->count; i++) {
        int length = static_cast<int>(pq_getmsgint(&bytes, 4));
        position->nulls[i] = length < 0;
        if (length < 0)
            continue;
        char *text = pnstrdup(pq_getmsgbytes(&bytes, length), length);
        Oid input, io_param;
        getTypeInputInfo(position->types[i], &input, &io_param);
        position->values[i] = OidInputFunctionCall(input, text, io_param, -1);
    }
    LeaveOwner(owner);
}

// One page in the making.
struct PageRows {
    const IndexTable *table;
    const KeyValues *key;
    Position *position;
    BaseRows *rows;
    MemoryContext memory;
    int size;
    int count;
    Datum *entities;
    bool has_position; // `position` is that of the last row on the page
    EntryRun run;
    bool has_more;
};

void RememberPosition(PageRows *page, HeapTuple entry, TupleDesc descriptor) {
    Position *position = page->position;
    MemoryContext caller = MemoryContextSwitchTo(page->memory);
    for (int i = 0; i < position->count; i++) {
        int column = position->order.positions[i];
        Form_pg_attribute att = TupleDescAttr(descriptor, column);
        Datum value = heap_getattr(entry, column + 1, descriptor, &position->nulls[i]);
        if (!position->nulls[i])
            position->values[i] = datumCopy(value, att->attbyval, att->attlen);
    }
    page->has_position = true;
    MemoryContextSwitchTo(caller);
}

// Whether an entry is, in the order of the B-tree, where the page's last one is.
bool IsAtPosition(PageRows *page, HeapTuple entry, TupleDesc descriptor) {
    const Position *position = page->position;
    const Key &key = page->table->key;
    if (!page->has_position)
        return false;
    for (int i = 0; i < position->count; i++) {
        int column = position->order.positions[i];
        bool isnull;
        Datum value = heap_getattr(entry, column + 1, descriptor, &isnull);
        if (isnull != position->nulls[i])
            return false;
        if (isnull)
            continue;
        Oid opclass = column < key.count ? key.columns[column].opclass
                                         : GetDefaultOpClass(position->types[i], BTREE_AM_OID);
        Oid input = get_opclass_input_type(opclass);
        Oid compare = get_opfamily_proc(get_opclass_family(opclass), input, input, BTORDER_PROC);
        Oid collation = TupleDescAttr(descriptor, column)->attcollation;
        if (DatumGetInt32(OidFunctionCall2Coll(compare, collation, value, position->values[i])) !=
            0)
            return false;
    }
    return true;
}

// Reads the entries of one condition. False when the page is full and more is known to follow.
bool ReadRange(PageRows *page, const EntryCondition &condition) {
    EntryScan scan = BeginEntryScan(page->table, condition);
    TupleDesc row_type = lookup_rowtype_tupdesc(get_rel_type_id(page->table->base), -1);
    while (HeapTuple entry = NextEntry(&scan)) {
        TupleDesc descriptor = scan.batch->tupdesc;
        if (IsRepeated(&page->run, entry, descriptor))
            continue;
        int ahead = std::clamp(page->size - page->count + 1, 1, kEntriesAtOnce);
        List *found = FindBaseRows(page->rows, &scan, entry, ahead);
        if (found == NIL)
            continue;
        if (page->count >= page->size && !IsAtPosition(page, entry, descriptor)) {
            page->has_more = true;
            break;
        }
        ListCell *cell;
        MemoryContext caller = MemoryContextSwitchTo(page->memory);
        foreach (cell, found) {
            // More than the page takes only where the identity is not unique: what the token
            // cannot tell apart stays on one page.
            if (page->count >= page->size)
                page->entities = static_cast<Datum *>(
                    repalloc(page->entities, sizeof(Datum) * (page->count + 1)));
            page->entities[page->count++] =
                heap_copy_tuple_as_datum(static_cast<HeapTuple>(lfirst(cell)), row_type);
        }
        MemoryContextSwitchTo(caller);
        RememberPosition(page, entry, descriptor);
    }
    ReleaseTupleDesc(row_type);
    EndEntryScan(&scan);
    return !page->has_more;
}

// Everything after the position, as conditions in B-tree order: first what agrees with it in all
// columns but the last, and so on outwards to the key values given.
void ReadAfter(PageRows *page, Position after) {
    const IndexTable *table = page->table;
    for (int column = after.count - 1; column >= page->key->count; column--) {
        bool nulls_first = false;
        if (after.order.positions[column] < table->key.count)
            nulls_first = table->key.columns[after.order.positions[column]].nulls_first;
        EntryCondition condition = {
            .count = column + 1, .values = after.values, .nulls = after.nulls};
        if (after.nulls[column]) {
            condition.last = Bound::IsNotNull;
            if (nulls_first && !ReadRange(page, condition))
                return;
            continue;
        }
        condition.last = Bound::After;
        if (!ReadRange(page, condition))
            return;
        condition.last = Bound::IsNull;
        if (!nulls_first && !ReadRange(page, condition))
            return;
    }
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_page) {
    const IndexTable *table = BeginReading(fcinfo, 1);
    CheckRowType(fcinfo, table);
    CheckSelectPrivilege(table, NIL);
    if (PG_ARGISNULL(2) || PG_GETARG_INT32(2) < 1 || PG_GETARG_INT32(2) > kMaxPageSize)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("page_size must be between 1 and %d", kMaxPageSize)));
    KeyValues key = ReadKeyValues(fcinfo, 4, table);
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

    Position position = MakePosition(table);
    PageRows page = {.table = table, .key = &key, .position = &position};
    page.memory = CurrentMemoryContext;
    page.run = BeginRun(table);
    page.size = PG_GETARG_INT32(2);
    page.entities = static_cast<Datum *>(palloc(sizeof(Datum) * page.size));
    Position after = MakePosition(table);
    if (!PG_ARGISNULL(3))
        ReadToken(table, key, text_to_cstring(PG_GETARG_TEXT_PP(3)), &after);

    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    page.rows = BeginBaseRows(table, NIL);
    if (PG_ARGISNULL(3))
        ReadRange(
            &page,
            {.count = key.count, .values = key.values, .nulls = key.nulls, .last = Bound::Equal});
    else
        ReadAfter(&page, after);
    EndBaseRows(page.rows);
    SPI_finish();

    Datum values[2] = {};
    bool nulls[2] = {false, !page.has_more};
    if (page.has_more)
        values[1] = CStringGetTextDatum(MakeToken(table, key, position));
    for (int i = 0; i < page.count; i++) {
        values[0] = page.entities[i];
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    PG_RETURN_NULL();
}
