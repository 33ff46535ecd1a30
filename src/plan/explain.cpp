// index_table.explain(): which indexes a query uses, and why it does without the others.
#include "core/public.h"
#include "exec/public.h"
#include "plan/examination.h"
#include "plan/scan.h"

namespace index_table {
namespace {

// --- The query ---------------------------------------------------------------

bool IsQuery(const Node *statement) {
    switch (nodeTag(statement)) {
    case T_SelectStmt:
        return !reinterpret_cast<const SelectStmt *>(statement)->intoClause;
    case T_InsertStmt:
    case T_UpdateStmt:
    case T_DeleteStmt:
    case T_MergeStmt:
        return true;
    default:
        return false;
    }
}

// What rules make of the text.
List *ReadQuery(const char *text) {
    ErrorContextCallback callback = {.previous = error_context_stack,
                                     .callback = PointIntoText,
                                     .arg = const_cast<char *>(text)};
    error_context_stack = &callback;
    List *statements = raw_parser(text, RAW_PARSE_DEFAULT);
    if (list_length(statements) != 1)
        ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
                        errmsg("cannot explain %s",
                               statements == NIL ? "an empty query" : "multiple statements"),
                        errhint("Give one SELECT, INSERT, UPDATE, DELETE or MERGE.")));
    RawStmt *raw = linitial_node(RawStmt, statements);
    if (!IsQuery(raw->stmt))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("cannot explain %s",
                        IsA(raw->stmt, SelectStmt) ? "SELECT INTO" : CreateCommandName(raw->stmt)),
                 errhint("Give the SELECT, INSERT, UPDATE, DELETE or MERGE itself.")));
    Oid *types = nullptr;
    int count = 0;
    List *queries = pg_analyze_and_rewrite_varparams(raw, text, &types, &count, nullptr);
    error_context_stack = callback.previous;
    return queries;
}

// --- Indexes -----------------------------------------------------------------

// A query, and the plan that is taken.
struct Subject {
    ReturnSetInfo *result;
    const Query *query;
    const PlannedStmt *taken;
    Cost cost;
    const Examination *examination;
    MemoryContext scratch; // of one trial
};

struct Verdict {
    bool is_used;
    bool has_cost; // of the best plan with the index
    Cost cost;
    const char *reason;
};

const char *Describe(Obstacle obstacle) {
    switch (obstacle) {
    case Obstacle::None:
        break;
    case Obstacle::PartitionKey:
        return "the conditions determine the partition key";
    case Obstacle::SystemColumn:
        return "the query reads a system column that entries do not lead to";
    case Obstacle::ForeignRows:
        return "the query changes or locks rows of foreign partitions in a way that indexes over "
               "all partitions do not serve";
    case Obstacle::Standby:
        return "a partition is unlogged, and this server is a standby";
    case Obstacle::UnmatchedTargets:
        return "MERGE has WHEN NOT MATCHED BY SOURCE, which reads all rows";
    case Obstacle::Server:
        return "the library was compiled for another release of this server, and changes no rows";
    case Obstacle::Inserted:
        return "the query inserts into the table, and does not read it";
    case Obstacle::Sample:
        return "the query reads a sample of the table";
    case Obstacle::Only:
        return "the query says ONLY";
    case Obstacle::Partition:
        return "the query names a partition, whose own indexes serve it";
    case Obstacle::Plain:
        return "the table has no partitions";
    case Obstacle::Unread:
        return "the plan does not need the table";
    }
    return nullptr;
}

// Plans the query with an index for one of its references. True where the plan reads it so.
bool Try(const Subject &subject, Trial *trial, Cost *cost) {
    CHECK_FOR_INTERRUPTS();
    MemoryContext caller = MemoryContextSwitchTo(subject.scratch);
    Examination examination = {.context = subject.scratch, .trial = *trial};
    const PlannedStmt *plan =
        PlanExamined(static_cast<Query *>(copyObjectImpl(subject.query)), &examination);
    bool reads = ReadsTried(plan, *trial);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(subject.scratch);
    *cost = examination.cost;
    *trial = examination.trial;
    return reads;
}

const char *WhyNotMatched(const Trial &trial) {
    return trial.finds_nothing     ? Describe(Obstacle::Unread)
           : trial.is_young        ? "it is too young for the snapshots of this transaction"
           : trial.lacks_predicate ? "the query does not imply its predicate"
                                   : "no condition, join or order of the query matches its columns";
}

// An index that the plan taken does not read.
Verdict Judge(const Subject &subject, Oid base, const Trial &tried) {
    Verdict verdict = {};
    Obstacle least = Obstacle::Unread;
    Obstacle cheapest = Obstacle::Unread;
    const char *why_not_matched = nullptr;
    ListCell *cell;
    foreach (cell, subject.examination->references) {
        const ExaminedReference *reference = static_cast<ExaminedReference *>(lfirst(cell));
        if (reference->base != base)
            continue;
        least = Min(least, reference->obstacle);
        if (reference->obstacle > Obstacle::PartitionKey)
            continue;
        Trial trial = tried;
        trial.name = reference->name;
        Cost cost;
        if (!Try(subject, &trial, &cost)) {
            why_not_matched = WhyNotMatched(trial);
        } else if (!verdict.has_cost || cost < verdict.cost) {
            verdict.has_cost = true;
            verdict.cost = cost;
            cheapest = reference->obstacle;
        }
    }
    if (!verdict.has_cost)
        verdict.reason = why_not_matched ? why_not_matched : Describe(least);
    else if (GetScanPolicy() == ScanPolicy::Off)
        verdict.reason = "index_table.enable_scan is off";
    else if (cheapest == Obstacle::PartitionKey)
        verdict.reason = Describe(cheapest);
    else if (verdict.cost >= subject.cost)
        verdict.reason = "the plan taken costs no more";
    else
        verdict.reason = "the planner did not consider a cheaper plan with it";
    return verdict;
}

void Put(const Subject &subject, Oid base, Oid index, const Verdict &verdict) {
    Datum values[] = {
        ObjectIdGetDatum(base),        ObjectIdGetDatum(index),
        BoolGetDatum(verdict.is_used), Float8GetDatum(subject.cost),
        Float8GetDatum(verdict.cost),  CStringGetTextDatum(verdict.reason),
    };
    bool nulls[lengthof(values)] = {};
    nulls[4] = !verdict.has_cost;
    tuplestore_putvalues(subject.result->setResult, subject.result->setDesc, values, nulls);
}

void Examine(const Subject &subject, const IndexTable *table, Oid owner_index) {
    Trial trial = {
        .table = table->relid, .owner_index = owner_index, .native = subject.examination->native};
    Verdict verdict;
    if (ReadsTried(subject.taken, trial))
        verdict = {true, true, subject.cost, "the plan taken reads it"};
    else if (const char *reason = WhyUnserved(table))
        verdict = {.reason = reason};
    else
        verdict = Judge(subject, table->base, trial);
    Oid index = table->is_global() ? table->root : table->relid;
    Put(subject, table->base, OidIsValid(owner_index) ? owner_index : index, verdict);
}

// Global indexes that are not complete are none to the planner.
void PutIncomplete(const Subject &subject, Oid relid, const Base *base) {
    Relation rel = table_open(relid, AccessShareLock);
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Oid index = lfirst_oid(cell);
        auto is_same = [&](const IndexTable *table) { return table->root == index; };
        if (IsGlobalIndex(index) &&
            (!base || std::none_of(base->globals, base->globals + base->global_count, is_same)))
            Put(subject, relid, index, {.reason = "it is not complete"});
    }
    table_close(rel, NoLock);
}

void ExamineBase(const Subject &subject, Oid relid) {
    const Base *base = FindIndexedBase(relid);
    for (const IndexTable *table :
         std::span(base ? base->tables : nullptr, base ? base->table_count : 0)) {
        Examine(subject, table, InvalidOid);
        const OwnerIndexes *owner_indexes = GetOwnerIndexes(table);
        for (int i = 0; i < owner_indexes->count; i++)
            Examine(subject, table, owner_indexes->indexes[i].relid);
    }
    for (const IndexTable *table :
         std::span(base ? base->globals : nullptr, base ? base->global_count : 0))
        Examine(subject, table, InvalidOid);
    if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
        PutIncomplete(subject, relid, base);
}

void ExamineQuery(ReturnSetInfo *result, const Query *query, MemoryContext scratch) {
    Examination examination = {.context = CurrentMemoryContext};
    PlannedStmt *taken = PlanExamined(static_cast<Query *>(copyObjectImpl(query)), &examination);
    compat::CheckPrivileges(taken);
    Subject subject = {result, query, taken, examination.cost, &examination, scratch};
    if (GetScanPolicy() == ScanPolicy::Off) {
        examination.is_survey = true;
        PlanExamined(static_cast<Query *>(copyObjectImpl(query)), &examination);
        examination.native = NIL;
    }
    List *bases = NIL;
    ListCell *cell;
    foreach (cell, examination.references)
        bases = list_append_unique_oid(bases, static_cast<ExaminedReference *>(lfirst(cell))->base);
    foreach (cell, bases)
        ExamineBase(subject, lfirst_oid(cell));
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_explain) {
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    MemoryContext scratch =
        AllocSetContextCreate(CurrentMemoryContext, "index_table trial", ALLOCSET_DEFAULT_SIZES);
    ListCell *cell;
    foreach (cell, ReadQuery(text_to_cstring(PG_GETARG_TEXT_PP(0))))
        if (const Query *query = lfirst_node(Query, cell); query->commandType != CMD_UTILITY)
            ExamineQuery(result, query, scratch);
    return static_cast<Datum>(0);
}
