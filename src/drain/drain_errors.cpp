#include "drain/drain_errors.h"

#include "catalog/public.h"

namespace index_table {
namespace {

enum DrainErrorColumn { kLeaf = 1, kIdentity, kError, kTries, kSince, kColumns = kSince };

char *IdentityOf(CatalogScan &scan, HeapTuple tuple) {
    bool isnull;
    Datum identity = scan.Get(tuple, kIdentity, &isnull);
    return isnull ? nullptr : OidOutputFunctionCall(F_ARRAY_OUT, identity);
}

CatalogScan BeginScan(Oid leaf, LOCKMODE mode) {
    return CatalogScan("undrained", "undrained_leaf_idx", F_OIDEQ, ObjectIdGetDatum(leaf), mode);
}

bool IsSame(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

} // namespace

void RecordDrainError(Oid leaf, const char *identity, const char *error) {
    Datum values[kColumns] = {};
    bool nulls[kColumns] = {};
    bool replace[kColumns] = {};
    CatalogScan scan = BeginScan(leaf, RowExclusiveLock);
    while (HeapTuple tuple = scan.Next()) {
        if (!IsSame(IdentityOf(scan, tuple), identity))
            continue;
        bool isnull;
        values[kTries - 1] = Int32GetDatum(DatumGetInt32(scan.Get(tuple, kTries, &isnull)) + 1);
        values[kError - 1] = CStringGetTextDatum(error);
        replace[kTries - 1] = replace[kError - 1] = true;
        CatalogTupleUpdate(
            scan.relation, &tuple->t_self,
            heap_modify_tuple(tuple, RelationGetDescr(scan.relation), values, nulls, replace));
        scan.End();
        CommandCounterIncrement();
        return;
    }
    values[kLeaf - 1] = ObjectIdGetDatum(leaf);
    nulls[kIdentity - 1] = identity == nullptr;
    if (identity)
        values[kIdentity - 1] =
            OidInputFunctionCall(F_ARRAY_IN, const_cast<char *>(identity), TEXTOID, -1);
    values[kError - 1] = CStringGetTextDatum(error);
    values[kTries - 1] = Int32GetDatum(1);
    values[kSince - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
    CatalogTupleInsert(scan.relation,
                       heap_form_tuple(RelationGetDescr(scan.relation), values, nulls));
    scan.End();
    CommandCounterIncrement();
}

bool ForgetDrainError(Oid leaf, const char *identity) {
    bool found = false;
    CatalogScan scan = BeginScan(leaf, RowExclusiveLock);
    while (HeapTuple tuple = scan.Next())
        if (IsSame(IdentityOf(scan, tuple), identity)) {
            CatalogTupleDelete(scan.relation, &tuple->t_self);
            found = true;
        }
    scan.End();
    if (found)
        CommandCounterIncrement();
    return found;
}

void ForgetDrainErrors(Oid leaf) {
    CatalogScan scan = BeginScan(leaf, RowExclusiveLock);
    while (HeapTuple tuple = scan.Next())
        CatalogTupleDelete(scan.relation, &tuple->t_self);
    scan.End();
    CommandCounterIncrement();
}

DrainErrorSummary SummarizeDrainErrors(Oid leaf) {
    DrainErrorSummary summary = {};
    CatalogScan scan = BeginScan(leaf, AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull, is_whole;
        scan.Get(tuple, kIdentity, &is_whole);
        summary.rows += !is_whole;
        summary.tries = Max(summary.tries, DatumGetInt32(scan.Get(tuple, kTries, &isnull)));
        if (is_whole || !summary.error)
            summary.error = TextDatumGetCString(scan.Get(tuple, kError, &isnull));
    }
    scan.End();
    return summary;
}

List *ListDrainErrors(Oid leaf) {
    List *rows = NIL;
    CatalogScan scan = BeginScan(leaf, AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        Datum identity = scan.Get(tuple, kIdentity, &isnull);
        if (isnull)
            continue;
        Datum *texts;
        int count;
        deconstruct_array(DatumGetArrayTypePCopy(identity), TEXTOID, -1, false, TYPALIGN_INT,
                          &texts, nullptr, &count);
        List *columns = NIL;
        for (int i = 0; i < count; i++)
            columns = lappend(columns, TextDatumGetCString(texts[i]));
        rows = lappend(rows, columns);
    }
    scan.End();
    return rows;
}

} // namespace index_table
