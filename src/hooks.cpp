#include "hooks.h"

#include "catalog/public.h"
#include "conflict/public.h"
#include "core/public.h"
#include "ddl/public.h"
#include "deferred/public.h"
#include "exec/public.h"
#include "global/public.h"
#include "maintenance/public.h"
#include "outbox/public.h"
#include "partitions/public.h"
#include "pg.h"
#include "plan/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

planner_hook_type next_planner;
compat::RelationInfoHook next_relation_info;
get_relation_stats_hook_type next_relation_stats;
get_index_stats_hook_type next_index_stats;
set_rel_pathlist_hook_type next_pathlist;
set_join_pathlist_hook_type next_join_pathlist;
create_upper_paths_hook_type next_upper_paths;
ExecutorStart_hook_type next_start;
ExecutorRun_hook_type next_run;
ExecutorFinish_hook_type next_finish;
ExecutorEnd_hook_type next_end;
ProcessUtility_hook_type next_utility;
object_access_hook_type next_access;
emit_log_hook_type next_emit_log;
shmem_request_hook_type next_shmem_request;
shmem_startup_hook_type next_shmem_startup;

// --- Planning ----------------------------------------------------------------

template <typename... More> // since PostgreSQL 19
PlannedStmt *Plan(Query *query, const char *text, int options, ParamListInfo params, More... more) {
    return next_planner ? next_planner(query, text, options, params, more...)
                        : standard_planner(query, text, options, params, more...);
}

void OnPathlist(PlannerInfo *root, RelOptInfo *rel, Index relid, RangeTblEntry *rte);

// Whether others make paths after ours, who may lose those.
bool OthersFollow() {
    return set_rel_pathlist_hook != OnPathlist || join_search_hook;
}

// The plan that costs least of the one made and its alternatives. The state is that of its
// planning.
template <typename PlanAgain>
PlannedStmt *ChoosePlan(PlannedStmt *plan, const Query *query, PlanAgain plan_again) {
    PlanningState chosen = CurrentPlanning();
    ListCell *cell;
    foreach (cell, ListAlternatives(plan)) {
        BeginAlternative(static_cast<List *>(lfirst(cell)));
        PlannedStmt *other = plan_again(static_cast<Query *>(copyObjectImpl(query)));
        PlanningState state = CurrentPlanning();
        if (HasLostPaths(other) || CostOf(other, state) >= CostOf(plan, chosen))
            continue;
        plan = other;
        chosen = state;
    }
    EndPlanning(chosen);
    return plan;
}

// Marks are made before the planner sees the query, and taken from the plan, whatever others make
// of either.
template <typename... More>
PlannedStmt *OnPlanner(Query *query, const char *text, int options, ParamListInfo params,
                       More... more) {
    PlanningState outer = CurrentPlanning();
    PlannedStmt *plan = nullptr;
    PG_TRY();
    {
        BeginPlanning(query, options);
        Query *copy = CopyForAlternatives(query, OthersFollow());
        plan = Plan(query, text, options, params, more...);
        bool has_lost_paths = HasLostPaths(plan);
        if (has_lost_paths && copy) {
            BeginReplanning();
            plan = Plan(copy, text, options, params, more...);
        } else if (has_lost_paths) {
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("another extension has planned a scan of a table that is to be "
                                   "read through an index table"),
                            errhint("Set index_table.enable_scan to off for this query.")));
        } else if (copy) {
            plan = ChoosePlan(plan, copy, [&](Query *again) {
                return Plan(again, text, options, params, more...);
            });
        }
        FinishPlan(plan);
        AddReturning(plan);
        ShowSubqueries(plan);
    }
    PG_FINALLY();
    { EndPlanning(outer); }
    PG_END_TRY();
    return plan;
}

// As the hook is called before PostgreSQL 19, and since then.
[[maybe_unused]] void Offer(PlannerInfo *root, Oid, bool inhparent, RelOptInfo *rel) {
    OfferIndexTables(root, inhparent, rel);
}

[[maybe_unused]] void Offer(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) {
    if (rte->rtekind == RTE_RELATION)
        OfferIndexTables(root, rte->inh, rel);
}

// After others: they must not see indexes that are none of the relation's.
template <typename... Arguments>
void OnRelationInfo(PlannerInfo *root, Arguments... arguments) {
    if (next_relation_info)
        next_relation_info(root, arguments...);
    Offer(root, arguments...);
}

bool OnRelationStats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno,
                     VariableStatData *statistics) {
    return FindRelationStatistics(root, rte, attno, statistics) ||
           (next_relation_stats && next_relation_stats(root, rte, attno, statistics));
}

bool OnIndexStats(PlannerInfo *root, Oid index, AttrNumber attno, VariableStatData *statistics) {
    return FindIndexStatistics(root, index, attno, statistics) ||
           (next_index_stats && next_index_stats(root, index, attno, statistics));
}

// After others: the paths of what looks like one small table are none that can be executed.
void OnPathlist(PlannerInfo *root, RelOptInfo *rel, Index relid, RangeTblEntry *rte) {
    if (next_pathlist)
        next_pathlist(root, rel, relid, rte);
    AddPaths(root, rel, rte);
}

// Beside the planner's paths.
void OnJoinPathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
                    JoinType type, JoinPathExtraData *extra) {
    if (next_join_pathlist)
        next_join_pathlist(root, joinrel, outer, inner, type, extra);
    AddJoinPaths(root, joinrel, outer, inner, type, extra);
}

// After others, who may have put something of theirs around what changes rows. A statement gets one
// of the two: INSERT a conflict check, the rest a row switch.
void OnUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output,
                  void *extra) {
    if (next_upper_paths)
        next_upper_paths(root, stage, input, output, extra);
    AddRowSwitches(root, stage, output);
    AddConflictChecks(root, stage, output);
}

// --- Executing ---------------------------------------------------------------

// What a query will write to on shards is noted before anything can be sent there. Index tables are
// brought into step last before it starts: that may run queries itself.
void OnExecutorStart(QueryDesc *query, int flags) {
    ReenterTruncated();
    BeforeStartOfWrites(query, flags);
    QueryStart outer = BeginQueryStart();
    PG_TRY();
    {
        BeforeStart(query, flags);
        if (next_start)
            next_start(query, flags);
        else
            standard_ExecutorStart(query, flags);
        FinishQueryStart(query);
        RepairMergeCapture(query);
    }
    PG_FINALLY();
    { EndQueryStart(outer); }
    PG_END_TRY();
}

// PostgreSQL 18 has dropped the last argument, execute_once.
template <typename... Rest>
void OnExecutorRun(QueryDesc *query, ScanDirection direction, uint64 count, Rest... rest) {
    ActiveStatement statement;
    EnterStatement(&statement, query, InvalidOid);
    PG_TRY();
    {
        if (next_run)
            next_run(query, direction, count, rest...);
        else
            standard_ExecutorRun(query, direction, count, rest...);
    }
    PG_FINALLY();
    { LeaveStatement(&statement); }
    PG_END_TRY();
}

// AFTER triggers fire in there, ours among them: then what they have captured is carried out. What
// MERGE lacks of those is made up for before.
void OnExecutorFinish(QueryDesc *query) {
    ActiveStatement statement;
    EnterStatement(&statement, query, InvalidOid);
    PG_TRY();
    {
        CompleteMergeCapture(query);
        if (next_finish)
            next_finish(query);
        else
            standard_ExecutorFinish(query);
    }
    PG_FINALLY();
    { LeaveStatement(&statement); }
    PG_END_TRY();
    AfterFinish(query);
}

void OnExecutorEnd(QueryDesc *query) {
    BeforeEnd(query);
    if (next_end)
        next_end(query);
    else
        standard_ExecutorEnd(query);
}

// Truncated foreign partitions get other numbers while the TRUNCATE is known as the one that runs.
void OnProcessUtility(PlannedStmt *statement, const char *text, bool read_only,
                      ProcessUtilityContext context, ParamListInfo params,
                      QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
    Node *command = statement->utilityStmt;
    BeforeUtilityWrites(command);
    if (IsTransactionState()) {
        RefuseInSingleUserMode(command);
        CheckReferences(command);
    }
    UtilityStatement running;
    BeginUtility(&running, command);
    PG_TRY();
    {
        TruncatedLeaves truncated = ListTruncatedForeign(command);
        if (ReindexGlobal(command))
            ; // carried out
        else if (CreateIndexConcurrently(command, text, context == PROCESS_UTILITY_TOPLEVEL))
            ;
        else if (next_utility)
            next_utility(statement, text, read_only, context, params, environment, receiver,
                         completion);
        else
            standard_ProcessUtility(statement, text, read_only, context, params, environment,
                                    receiver, completion);
        FollowTruncate(truncated.foreign, truncated.numbers);
        ReenterTruncated();
    }
    PG_FINALLY();
    { EndUtility(&running); }
    PG_END_TRY();
    AfterUtility(&running);
}

void OnObjectAccess(ObjectAccessType access, Oid catalog, Oid object, int part, void *argument) {
    if (next_access)
        next_access(access, catalog, object, part, argument);
    if (access == OAT_POST_CREATE && catalog == RelationRelationId && part == 0)
        RefuseConcurrentCopy(object);
    if (access == OAT_POST_ALTER && catalog == RelationRelationId && part == 0) {
        FollowMove(object);
        FollowNewOwner(object);
    }
}

// --- Messages ------------------------------------------------------------------

// A worker of the extension that ends with the server, or because it is told to, is no failure: an
// administrator who looks for FATAL in the log should not find it.
void OnEmitLog(ErrorData *error) {
    if (error->elevel == FATAL && error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN && IsOwnWorker())
        error->elevel = LOG;
    if (next_emit_log)
        next_emit_log(error);
}

// --- Shared memory -------------------------------------------------------------

void OnShmemRequest() {
    if (next_shmem_request)
        next_shmem_request();
    RequestDrainMemory();
    RequestCounterMemory();
}

void OnShmemStartup() {
    if (next_shmem_startup)
        next_shmem_startup();
    AttachDrainMemory();
    AttachCounterMemory();
}

// --- Ends of transactions ----------------------------------------------------

// Everything that was known of a transaction is forgotten; none of it depends on the rest. What
// happens before a transaction commits, and must happen before shards commit, is in
// maintenance/intent.cpp, which registers itself anew to be called before postgres_fdw.
void OnTransactionEnd(XactEvent event, void *) {
    switch (event) {
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_ABORT:
    case XACT_EVENT_PREPARE:
    case XACT_EVENT_PARALLEL_COMMIT:
    case XACT_EVENT_PARALLEL_ABORT:
        break;
    default:
        return;
    }
    Assert((event != XACT_EVENT_COMMIT && event != XACT_EVENT_PREPARE) ||
           (AreBuffersEmpty() && !HasRechecks()));
    AtEOXactChangeBuffers();
    AtEOXactSpeculation();
    AtEOXactRechecks();
    AtEOXactOwnEntries();
    AtEOXactStatements();
    AtEOXactTruncated();
    AtEOXactWrites();
    AtEOXactCommands();
    AtEOXactUnbuilt();
    AtEOXactOutbox();
    AtEOXactSelects();
    AtEOXactSnapshotChecks();
    AtEOXactConnections();
    AtEOXactRelationCaches();
    AtEOXactDefinitions();
    AtEOXactOwnBuilds();
    AtEOXactNumbers();
    AtEOXactDrainWorkers(event == XACT_EVENT_COMMIT);
    AtEOXactCounters(event == XACT_EVENT_COMMIT);
}

void OnSubTransactionEnd(SubXactEvent event, SubTransactionId, SubTransactionId, void *) {
    if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
        return;
    bool commits = event == SUBXACT_EVENT_COMMIT_SUB;
    int level = GetCurrentTransactionNestLevel();
    AtEOSubXactChangeBuffers(commits, level);
    AtEOSubXactSpeculation(commits, level);
    AtEOSubXactRechecks(commits, level);
    AtEOSubXactCommands(commits, level);
    AtEOSubXactUnbuilt(commits, level);
    AtEOSubXactStatements(commits, level);
    AtEOSubXactTruncated(commits);
    AtEOSubXactWrites(commits, level);
    AtEOSubXactSnapshotChecks(commits, level);
    AtEOSubXactConnections(commits, level);
    AtEOSubXactCounters(commits, level);
}

// Puts ours before what is installed there.
template <typename Hook>
void Chain(Hook *hook, Hook *next, Hook ours) {
    *next = *hook;
    *hook = ours;
}

} // namespace

void InstallHooks() {
    // Which of the templates, the hook's type says, here and below.
    next_planner = planner_hook;
    planner_hook = OnPlanner;
    next_relation_info = *compat::kRelationInfoHook;
    *compat::kRelationInfoHook = OnRelationInfo;
    Chain(&get_relation_stats_hook, &next_relation_stats, &OnRelationStats);
    Chain(&get_index_stats_hook, &next_index_stats, &OnIndexStats);
    Chain(&set_rel_pathlist_hook, &next_pathlist, &OnPathlist);
    Chain(&set_join_pathlist_hook, &next_join_pathlist, &OnJoinPathlist);
    Chain(&create_upper_paths_hook, &next_upper_paths, &OnUpperPaths);
    Chain(&ExecutorStart_hook, &next_start, &OnExecutorStart);
    next_run = ExecutorRun_hook;
    ExecutorRun_hook = OnExecutorRun;
    Chain(&ExecutorFinish_hook, &next_finish, &OnExecutorFinish);
    Chain(&ExecutorEnd_hook, &next_end, &OnExecutorEnd);
    Chain(&ProcessUtility_hook, &next_utility, &OnProcessUtility);
    Chain(&object_access_hook, &next_access, &OnObjectAccess);
    Chain(&emit_log_hook, &next_emit_log, &OnEmitLog);
    if (process_shared_preload_libraries_in_progress) {
        Chain(&shmem_request_hook, &next_shmem_request, &OnShmemRequest);
        Chain(&shmem_startup_hook, &next_shmem_startup, &OnShmemStartup);
    }
    CallBeforeCommit(BuildRemembered);
    RegisterXactCallback(OnTransactionEnd, nullptr);
    RegisterSubXactCallback(OnSubTransactionEnd, nullptr);
}

} // namespace index_table
