#include "maintenance/intent.h"

#include "core/public.h"
#include "maintenance/flush.h"
#include "shard/public.h"

namespace index_table {
namespace {

constexpr int kMaxRows = 100000;   // of a partition; with more, all of it is read again
constexpr Size kTupleBytes = 1600; // of identities in a tuple: it is toasted if one alone is long
constexpr int kMaxTexts = kTupleBytes / VARHDRSZ + INDEX_MAX_KEYS;
enum { kLeaf, kColumns, kIdentities, kSettledAfter, kWrittenBy, kAttributes };

constinit bool writes_intents = true;

struct IdentityType {
    FmgrInfo output;
    bool by_value;
    int16 length;
};

struct LeafIntent {
    Oid leaf;
    bool all;
    int column_count;
    AttrNumber *attnos; // of the identity, in the leaf
    IdentityType *types;
    Datum columns; // their names, an array of text
    Datum *values; // one identity after the other
    int count;     // of values
    int capacity;
};

enum class Stage {
    Running,
    Flushing,   // before the commit; callbacks are being called, and must stay as they are
    Committing, // intents were written, shards may have committed
};

// Of the transaction.
constinit MemoryContext memory = nullptr;
constinit List *intents = NIL;
constinit List *numbered = NIL; // OIDs of index tables
constinit int written = 0;      // of these
constinit Stage stage = Stage::Running;

// Of the session: whether postgres_fdw is told of commits, and after this library.
constinit bool precedes_shards = false;

void OnTransactionEvent(XactEvent event, void *);

// postgres_fdw commits on shards when it is told that the transaction is about to commit. Those who
// registered last are told first; it does when the session first connects to a shard.
void ComeFirst() {
    if (stage != Stage::Running)
        return;
    UnregisterXactCallback(OnTransactionEvent, nullptr);
    RegisterXactCallback(OnTransactionEvent, nullptr);
}

void OnStatementEnd(void *) {
    PrecedeShards();
}

// Returns the caller's.
MemoryContext EnterMemory() {
    if (!memory)
        memory = AllocSetContextCreate(TopTransactionContext, "index_table intents",
                                       ALLOCSET_DEFAULT_SIZES);
    return MemoryContextSwitchTo(memory);
}

LeafIntent *FindIntent(Oid leaf) {
    ListCell *cell;
    foreach (cell, intents)
        if (static_cast<LeafIntent *>(lfirst(cell))->leaf == leaf)
            return static_cast<LeafIntent *>(lfirst(cell));
    MemoryContext caller = EnterMemory();
    LeafIntent *intent = palloc0_object(LeafIntent);
    intent->leaf = leaf;
    intents = lappend(intents, intent);
    MemoryContextSwitchTo(caller);
    return intent;
}

Datum TextArray(Datum *values, int count) {
    return PointerGetDatum(construct_array(values, count, TEXTOID, -1, false, TYPALIGN_INT));
}

// The columns by which rows of a partition are found: of the shortest identity, for if one serves
// all index tables it is that.
void FindColumns(LeafIntent *intent, Relation rel, const Leaf *leaf) {
    const IndexTable *table =
        std::min_element(leaf->tables, leaf->tables + leaf->table_count,
                         [](const LeafTable &a, const LeafTable &b) {
                             return a.table->identity_count < b.table->identity_count;
                         })
            ->table;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    int count = table->identity_count;
    intent->attnos = palloc_array(AttrNumber, count);
    intent->types = palloc_array(IdentityType, count);
    Datum *names = palloc_array(Datum, count);
    for (int i = 0; i < count; i++) {
        const char *name = get_attname(leaf->base_relid, table->identity[i].base_attno, false);
        Oid output;
        bool is_varlena;
        names[i] = CStringGetTextDatum(name);
        intent->attnos[i] = get_attnum(RelationGetRelid(rel), name);
        Oid type = get_atttype(RelationGetRelid(rel), intent->attnos[i]);
        getTypeOutputInfo(type, &output, &is_varlena);
        fmgr_info_cxt(output, &intent->types[i].output, memory);
        get_typlenbyval(type, &intent->types[i].length, &intent->types[i].by_value);
    }
    intent->columns = TextArray(names, count);
    intent->column_count = count;
    intent->capacity = 16 * count;
    intent->values = palloc_array(Datum, intent->capacity);
    MemoryContextSwitchTo(caller);
}

bool IsLast(const LeafIntent *intent, const Datum *values) {
    if (intent->count == 0)
        return false;
    const Datum *last = intent->values + intent->count - intent->column_count;
    for (int i = 0; i < intent->column_count; i++)
        if (!datum_image_eq(last[i], values[i], intent->types[i].by_value, intent->types[i].length))
            return false;
    return true;
}

// A sweep may lock it before it is deleted: what is left then is swept like any other.
void InsertIntent(Relation rel, Datum *values, bool *nulls) {
    while (!InsertDeleted(rel, values, nulls))
        CHECK_FOR_INTERRUPTS();
}

void WriteIntent(Relation rel, const LeafIntent *intent) {
    FAULT_POINT("intent.write_intent");
    Datum values[kAttributes] = {ObjectIdGetDatum(intent->leaf)};
    bool nulls[kAttributes] = {false, true, true, true, false};
    values[kWrittenBy] = FullTransactionIdGetDatum(GetTopFullTransactionId()); // since 0.2.0
    if (intent->all) {
        InsertIntent(rel, values, nulls);
        return;
    }
    values[kColumns] = intent->columns;
    nulls[kColumns] = nulls[kIdentities] = false;
    Datum *texts = palloc_array(Datum, kMaxTexts);
    for (int i = 0; i < intent->count;) {
        Size bytes = 0;
        int count = 0;
        do {
            for (int column = 0; column < intent->column_count; column++, i++, count++) {
                texts[count] = CStringGetTextDatum(
                    OutputFunctionCall(&intent->types[column].output, intent->values[i]));
                bytes += VARSIZE(DatumGetPointer(texts[count]));
            }
        } while (i < intent->count && bytes < kTupleBytes);
        values[kIdentities] = TextArray(texts, count);
        InsertIntent(rel, values, nulls);
    }
}

// What this transaction has made or dropped itself is left out: if it fails, it is not there, or
// as it was.
void WriteNumbers(Oid index_table) {
    Relation rel = try_relation_open(index_table, RowExclusiveLock);
    if (!rel)
        return;
    if (rel->rd_createSubid == InvalidSubTransactionId)
        RecordGivenNumbers(index_table, RecordedBase(index_table));
    relation_close(rel, NoLock);
}

void WriteIntents() {
    if (intents == NIL && written == list_length(numbered))
        return;
    MemoryContext caller = EnterMemory();
    PushActiveSnapshot(GetTransactionSnapshot()); // for toasting, and for output functions
    Relation rel = table_open(ExtensionRelation("intent"), RowExclusiveLock);
    int level = BeginTransmission();
    ListCell *cell;
    foreach (cell, intents)
        WriteIntent(rel, static_cast<LeafIntent *>(lfirst(cell)));
    for (; written < list_length(numbered); written++)
        WriteNumbers(list_nth_oid(numbered, written));
    EndTransmission(level);
    table_close(rel, NoLock);
    PopActiveSnapshot();
    // Whatever synchronous_commit says: shards are about to commit.
    XLogFlush(XactLastRecEnd);
    intents = NIL;
    MemoryContextSwitchTo(caller);
    MemoryContextReset(memory);
}

void OnTransactionEvent(XactEvent event, void *) {
    switch (event) {
    case XACT_EVENT_PRE_COMMIT:
        // What raises an error must do so before shards commit.
        stage = Stage::Flushing;
        FlushBeforeCommit();
        stage = Stage::Committing;
        WriteIntents();
        break;
    case XACT_EVENT_PRE_PREPARE:
        stage = Stage::Flushing;
        FlushBeforeCommit();
        break;
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_ABORT:
    case XACT_EVENT_PREPARE:
        memory = nullptr;
        intents = numbered = NIL;
        written = 0;
        stage = Stage::Running;
        break;
    default:
        break;
    }
}

} // namespace

void RememberIntent(Relation rel, const Leaf *leaf, TupleTableSlot *row) {
    Assert(leaf->cached.relid == RelationGetRelid(rel) && leaf->table_count > 0);
    Assert(!TTS_EMPTY(row));
    if (leaf->is_foreign)
        PrecedeShardsFromNowOn();
    if (!writes_intents)
        return;
    LeafIntent *intent = FindIntent(RelationGetRelid(rel));
    if (intent->all)
        return;
    if (!intent->attnos)
        FindColumns(intent, rel, leaf);
    int count = intent->column_count;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Datum values[INDEX_MAX_KEYS];
    for (int i = 0; i < count; i++) {
        bool isnull;
        Datum value = slot_getattr(row, intent->attnos[i], &isnull);
        // Such a row cannot be asked for.
        intent->all = intent->all || isnull;
        if (!isnull)
            values[i] = value;
    }
    if (!intent->all && !IsLast(intent, values)) {
        if (intent->count + count > intent->capacity) {
            intent->capacity *= 2;
            intent->values = static_cast<Datum *>(
                repalloc_huge(intent->values, sizeof(Datum) * intent->capacity));
        }
        for (int i = 0; i < count; i++)
            intent->values[intent->count + i] =
                datumCopy(values[i], intent->types[i].by_value, intent->types[i].length);
        intent->count += count;
        intent->all = intent->count / count > kMaxRows;
    }
    MemoryContextSwitchTo(caller);
    if (stage == Stage::Committing)
        WriteIntents();
}

void RememberIntentOfAll(Oid leaf) {
    Assert(IsTransactionState() && OidIsValid(leaf));
    if (!writes_intents)
        return;
    FindIntent(leaf)->all = true;
    if (stage == Stage::Committing)
        WriteIntents();
}

void RememberNumbered(const IndexTable *table) {
    Assert(table->on_servers && HasGivenNumbers(table->base));
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    numbered = list_append_unique_oid(numbered, table->relid);
    MemoryContextSwitchTo(caller);
    if (stage == Stage::Committing)
        WriteIntents();
}

void PrecedeShards() {
    if (memory)
        ComeFirst();
}

void PrecedeShardsAfter(MemoryContext statement) {
    MemoryContextCallback *callback = static_cast<MemoryContextCallback *>(
        MemoryContextAllocZero(statement, sizeof(MemoryContextCallback)));
    callback->func = OnStatementEnd;
    MemoryContextRegisterResetCallback(statement, callback);
}

bool PrecedesShards() {
    return precedes_shards;
}

void PrecedeShardsFromNowOn() {
    if (precedes_shards || stage != Stage::Running)
        return;
    ComeFirst();
    precedes_shards = true;
}

bool IsTooLateForShards() {
    return stage == Stage::Flushing && !precedes_shards;
}

void InitializeIntents() {
    DefineCustomBoolVariable(
        "index_table.shard_intents",
        "Writes down which rows of shards a transaction changes before the shards commit.",
        "What a crash between the commits of shards and of this server leaves undone is found and "
        "mended by drain().",
        &writes_intents, true, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    RegisterXactCallback(OnTransactionEvent, nullptr);
}

} // namespace index_table
