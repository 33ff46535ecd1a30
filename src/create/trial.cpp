#include "create/trial.h"

#include "core/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

// --- Whether there is anything to try --------------------------------------------

bool IsWritten(Oid function, void *) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple))
        return false;
    Oid language = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->prolang;
    ReleaseSysCache(tuple);
    return language != INTERNALlanguageId && language != ClanguageId;
}

bool CallsWritten(Node *node, void *context) {
    if (!node)
        return false;
    if (check_functions_in_node(node, IsWritten, nullptr))
        return true;
    return compat::WalkExpression(node, CallsWritten, context);
}

// Whether the build of an index computes entries, and so runs the functions.
bool HasRows(Oid base) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr)) {
        if (!RELKIND_HAS_TABLE_AM(get_rel_relkind(lfirst_oid(cell))))
            continue;
        Relation rel = try_relation_open(lfirst_oid(cell), AccessShareLock);
        bool has_rows = rel && RelationGetNumberOfBlocks(rel) > 0;
        if (rel)
            relation_close(rel, AccessShareLock);
        if (has_rows)
            return true;
    }
    return false;
}

// --- Sample values -----------------------------------------------------------------

// Of nearly every type one is a value.
constexpr const char *kSamples[] = {
    "1",     "a",           "2026-01-01", "{1}",  "{a}", "{}",
    "[1,2)", "(1,1)",       "empty",      "true", "",    "00000000-0000-0000-0000-000000000001",
    "<a/>",  "192.0.2.1/32"};

const char *FirstLabel(Oid type) {
    CatCList *labels = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
    const char *label = nullptr;
    if (labels->n_members > 0)
        label = pstrdup(NameStr(
            reinterpret_cast<Form_pg_enum>(GETSTRUCT(&labels->members[0]->tuple))->enumlabel));
    ReleaseSysCacheList(labels);
    return label;
}

bool ReadSample(Form_pg_attribute att, const char *text, Datum *value) {
    Oid input, parameter;
    getTypeInputInfo(att->atttypid, &input, &parameter);
    return !TryInSubtransaction([&] {
        *value = OidInputFunctionCall(input, const_cast<char *>(text), parameter, att->atttypmod);
    });
}

// False: none of them is a value of the type.
bool FindSample(Form_pg_attribute att, Datum *value) {
    Oid type = getBaseType(att->atttypid);
    const char *label = get_typtype(type) == TYPTYPE_ENUM ? FirstLabel(type) : nullptr;
    if (label)
        return ReadSample(att, label, value);
    for (const char *text : kSamples)
        if (ReadSample(att, text, value))
            return true;
    return false;
}

// A row with such values in the columns that expressions use.
TupleTableSlot *MakeRow(Relation base, Node *expressions) {
    TupleDesc descriptor = RelationGetDescr(base);
    Bitmapset *columns = nullptr;
    pull_varattnos(expressions, 1, &columns);
    bool is_whole = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, columns);
    TupleTableSlot *row = MakeSingleTupleTableSlot(descriptor, &TTSOpsVirtual);
    ExecClearTuple(row);
    for (int i = 0; i < descriptor->natts; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        bool is_used =
            is_whole || bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, columns);
        row->tts_isnull[i] = att->attisdropped || !is_used || !FindSample(att, &row->tts_values[i]);
    }
    return ExecStoreVirtualTuple(row);
}

// --- Trials --------------------------------------------------------------------------

bool IsOfMissingName(int code) {
    return code == ERRCODE_UNDEFINED_FUNCTION || code == ERRCODE_UNDEFINED_TABLE ||
           code == ERRCODE_UNDEFINED_OBJECT || code == ERRCODE_INVALID_SCHEMA_NAME;
}

// Lets errors through that are of missing names, and cancels.
template <typename Attempt>
void Try(Attempt attempt) {
    TryInSubtransaction(attempt, [](const ErrorData *error) {
        return error->sqlerrcode != ERRCODE_QUERY_CANCELED && !IsOfMissingName(error->sqlerrcode);
    });
}

// Keys and predicate one by one: each may raise, or the predicate leave the row out.
void TryKey(const IndexTable &table, TupleTableSlot *row) {
    Try([&] {
        LeafTable leaf_table = MakeLeafTable(&table, nullptr);
        ExprContext *context = CreateStandaloneExprContext();
        ForEachEntry(MakeEntryMaker(&leaf_table, 0, context), row,
                     [](const Datum *, const bool *) {});
        FreeExprContext(context, true);
    });
}

void TryIndex(Relation base, Relation index) {
    List *expressions =
        list_concat(RelationGetIndexExpressions(index), RelationGetIndexPredicate(index));
    Node *all = reinterpret_cast<Node *>(expressions);
    if (!CallsWritten(all, nullptr))
        return;
    TupleTableSlot *row = MakeRow(base, all);
    ListCell *cell;
    foreach (cell, expressions)
        Try([&] {
            EState *estate = CreateExecutorState();
            ExprContext *context = GetPerTupleExprContext(estate);
            context->ecxt_scantuple = row;
            bool isnull;
            ExecEvalExprSwitchContext(ExecPrepareExpr(static_cast<Expr *>(lfirst(cell)), estate),
                                      context, &isnull);
            FreeExecutorState(estate);
        });
    ExecDropSingleTupleTableSlot(row);
}

} // namespace

void TryExpressions(Relation base, const IndexTable *table, bool only_without_rows) {
    Assert(IsInOwnerOf(table->base));
    List *expressions = NIL;
    for (const KeyColumn &column : std::span(table->key.columns, table->key.count))
        expressions = lappend(expressions, column.whole);
    if (table->predicate)
        expressions = lappend(expressions, table->predicate);
    Node *all = reinterpret_cast<Node *>(expressions);
    if (!CallsWritten(all, nullptr) || (only_without_rows && HasRows(table->base)))
        return;
    TupleTableSlot *row = MakeRow(base, all);
    TryKey(*table, row);
    if (table->planned_predicate) {
        IndexTable whole = *table;
        whole.predicate = whole.planned_predicate = nullptr;
        TryKey(whole, row);
    }
    ExecDropSingleTupleTableSlot(row);
}

void TryNewGlobalIndexes(Oid base_oid, bool only_without_rows) {
    List *roots = ListGlobalRoots(base_oid);
    if (roots == NIL || (only_without_rows && HasRows(base_oid)))
        return;
    Relation base = relation_open(base_oid, AccessShareLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    ListCell *cell;
    foreach (cell, roots) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        if (index->rd_createSubid != InvalidSubTransactionId)
            TryIndex(base, index);
        index_close(index, NoLock);
    }
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

} // namespace index_table
