#include "exec/scan_explain.h"

#include "core/public.h"
#include "exec/overlay.h"
#include "exec/remote_entries.h"
#include "exec/scan_state.h"
#include "shard/public.h"

namespace index_table {
namespace {

void ExplainExpressions(const char *label, List *expressions, List *context, ExplainState *es) {
    if (expressions != NIL)
        ExplainPropertyText(
            label,
            deparse_expression(reinterpret_cast<Node *>(expressions), context, es->verbose, false),
            es);
}

// Where the entries of an index table on servers come from, and what one of those is asked.
void ExplainServers(const IndexTable *table, ExplainState *es) {
    if (!table->on_servers)
        return;
    List *names = NIL;
    ListCell *cell;
    foreach (cell, find_inheritance_children(table->relid, AccessShareLock)) {
        char *name = ServerOf(lfirst_oid(cell))->servername;
        ListCell *known;
        bool is_known = false;
        foreach (known, names)
            is_known = is_known || strcmp(static_cast<char *>(lfirst(known)), name) == 0;
        if (!is_known)
            names = lappend(names, name);
    }
    ExplainPropertyList("Index Servers", names, es);
    const char *sql = es->verbose ? SampleEntryStatement(table) : nullptr;
    if (sql)
        ExplainPropertyText("Index Remote SQL", sql, es);
}

void ExplainSource(const SourcePlan &source, List *context, ExplainState *es) {
    bool is_global = OidIsValid(source.root);
    Oid relid = is_global ? source.root : source.index_table;
    const char *name = get_rel_name(relid);
    if (es->verbose)
        name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
    ExplainPropertyText(is_global ? "Global Index" : "Index Table", name, es);
    if (source.is_owner_index)
        ExplainPropertyText("Index", get_rel_name(source.index), es);
    if (!is_global)
        ExplainServers(GetIndexTable(source.index_table), es);
    if (source.quals == NIL)
        return;
    Node *condition = reinterpret_cast<Node *>(make_ands_explicit(source.quals));
    ExplainPropertyText("Index Cond", deparse_expression(condition, context, es->verbose, false),
                        es);
}

ShardCounts CountShards(const IndexTableScan *scan) {
    ShardCounts all = {};
    for (const ScanSource &source : std::span(scan->sources, scan->plan.source_count)) {
        for (const ShardRows *rows : {source.shards, source.shards_ahead}) {
            ShardCounts own = rows ? GetCounts(rows) : ShardCounts{};
            all.pipelined += own.pipelined;
            all.wrapped += own.wrapped;
            all.rows += own.rows;
        }
    }
    return all;
}

// The way that was taken; the one that would be, where none was.
const char *DescribeWay(const IndexTableScan *scan) {
    constexpr const char *kPipelined = "pipelined";
    constexpr const char *kWrapped = "through foreign data wrapper";
    ShardCounts counts = {};
    if (scan->is_open && scan->sources[0].shards)
        counts = CountShards(scan);
    if (counts.pipelined > 0 && counts.wrapped > 0)
        return "pipelined, some through foreign data wrapper";
    if (counts.pipelined > 0 || counts.wrapped > 0)
        return counts.pipelined > 0 ? kPipelined : kWrapped;
    return scan->plan.lock == AccessShareLock && MayPipeline() ? kPipelined : kWrapped;
}

// How rows of foreign partitions are asked for, and what the first of them would be asked.
void ExplainShards(IndexTableScan *scan, ExplainState *es) {
    const Base *base = FindBase(RelationGetRelid(scan->css.ss.ss_currentRelation));
    if (scan->plan.mode != ScanMode::Rows || !base || !HasForeignLeaves(base))
        return;
    ExplainPropertyText("Shards", DescribeWay(scan), es);
    if (!es->verbose)
        return;
    FindNeeds(scan);
    ShardNeeds needs = scan->needs;
    if (scan->changing)
        needs.quals = QualsWithout(needs.quals, scan->changing);
    const IndexTable *table = GetIndexTable(scan->plan.sources[0].index_table);
    if (const char *sql = SampleStatement(table, scan->css.ss.ss_currentRelation, needs))
        ExplainPropertyText("Remote SQL", sql, es);
}

void ExplainBlocks(uint64 exact, uint64 lossy, ExplainState *es) {
    if (exact > 0)
        ExplainPropertyUInteger("Exact Heap Blocks", nullptr, exact, es);
    if (lossy > 0)
        ExplainPropertyUInteger("Lossy Heap Blocks", nullptr, lossy, es);
}

// As PostgreSQL does of its own scans.
void ExplainRechecks(PlanState *node, ExplainState *es) {
    const auto *seen = node->instrument;
    if (seen && (seen->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT))
        ExplainPropertyFloat("Rows Removed by Index Recheck", nullptr,
                             seen->nloops > 0 ? seen->nfiltered2 / seen->nloops : 0, 0, es);
}

} // namespace

void ExplainScan(CustomScanState *node, List *ancestors, ExplainState *es) {
    IndexTableScan *scan = ToScan(node);
    List *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
    if (scan->plan.source_count == 1) {
        ExplainSource(scan->plan.sources[0], context, es);
        ExplainExpressions("Order By", scan->plan.distances, context, es);
    } else if (scan->plan.source_count > 1) {
        ExplainOpenGroup("Index Tables", "Index Tables", false, es);
        for (const SourcePlan &source : std::span(scan->plan.sources, scan->plan.source_count)) {
            ExplainOpenGroup("Source", nullptr, true, es);
            ExplainSource(source, context, es);
            ExplainCloseGroup("Source", nullptr, true, es);
        }
        ExplainCloseGroup("Index Tables", "Index Tables", false, es);
    }
    if (scan->plan.direction == BackwardScanDirection)
        ExplainPropertyText("Scan Direction", "Backward", es);
    ExplainShards(scan, es);
    if (!es->analyze || !scan->is_open)
        return;
    uint64 entries = 0, queued = 0, removed = 0, filtered = 0, heap_fetches = 0, exact_blocks = 0,
           lossy_blocks = 0, index_statements = 0, rows_fetched = 0, stale_entries = 0,
           partitions = scan->partitions_visited;
    bool recomputed = false;
    for (const ScanSource &source : std::span(scan->sources, scan->plan.source_count)) {
        rows_fetched += source.rows_fetched;
        stale_entries += source.stale_entries;
        if (source.addresses) {
            entries += source.addresses->entries_read;
            heap_fetches += source.addresses->heap_fetches;
            if (const AddressBitmap *bitmap = source.addresses->bitmap) {
                exact_blocks += bitmap->exact_blocks;
                lossy_blocks += bitmap->lossy_blocks;
            }
            partitions += source.addresses->leaves_opened;
            continue;
        }
        entries += source.entries.entries_read;
        queued += source.entries.overlay ? source.entries.overlay->identities : 0;
        removed += source.entries.entries_removed;
        filtered += source.entries.entries_filtered;
        heap_fetches += source.entries.heap_fetches;
        partitions += source.leaves.opened;
        recomputed = recomputed || source.entries.recompute;
        index_statements += source.entries.remote ? CountStatements(source.entries.remote) : 0;
    }
    if (recomputed)
        ExplainPropertyText("Entries From", "base table", es);
    if (scan->plan.source_count > 0) {
        ExplainPropertyUInteger("Entries Read", nullptr, entries, es);
        if (ReadsServers(scan))
            ExplainPropertyUInteger("Index Statements", nullptr, index_statements, es);
        if (queued > 0)
            ExplainPropertyUInteger("Queued Rows", nullptr, queued, es);
        if (removed > 0)
            ExplainPropertyUInteger("Entries Removed by Index Recheck", nullptr, removed, es);
        if (filtered > 0)
            ExplainPropertyUInteger("Entries Removed by Filter", nullptr, filtered, es);
        if (scan->plan.mode == ScanMode::Rows)
            ExplainPropertyUInteger("Rows Fetched", nullptr, rows_fetched, es);
        ExplainRechecks(&scan->css.ss.ps, es);
        if (stale_entries > 0 || es->format != EXPLAIN_FORMAT_TEXT)
            ExplainPropertyUInteger("Entries Skipped", nullptr, stale_entries, es);
        ExplainPropertyUInteger("Heap Fetches", nullptr, heap_fetches, es);
        ExplainBlocks(exact_blocks, lossy_blocks, es);
    }
    if (scan->sources[0].shards && scan->plan.source_count > 0 &&
        HasForeignLeaves(FindBase(RelationGetRelid(scan->css.ss.ss_currentRelation)))) {
        ShardCounts shards = CountShards(scan);
        ExplainPropertyUInteger("Shard Statements", nullptr, shards.pipelined + shards.wrapped, es);
        ExplainPropertyUInteger("Shard Rows", nullptr, shards.rows, es);
    }
    if (scan->plan.mode != ScanMode::Entries)
        ExplainPropertyUInteger("Partitions Visited", nullptr, partitions, es);
}

} // namespace index_table
