// The triggers that queue what was changed: of statements, and of rows where logical replication
// applies changes, which fires no others.
#include "core/public.h"
#include "deferred/pack_writer.h"
#include "deferred/queued_relation.h"

namespace index_table {
namespace {

// One index table's part of a statement.
struct Enqueuing {
    const QueuedTable *queued;
    EntryMaker *maker;
    PackWriter *writer; // null: nothing was queued yet
    bool is_dropped;    // nothing is to be queued any more
};

struct Statement {
    const QueuedRelation *relation;
    ExprContext *context; // null: no expressions
    Enqueuing *tables;
};

Statement Begin(const QueuedRelation *relation) {
    Statement statement = {.relation = relation};
    if (relation->has_expressions)
        statement.context = CreateStandaloneExprContext();
    statement.tables = palloc0_array(Enqueuing, Max(1, relation->count));
    for (int i = 0; i < relation->count; i++) {
        const QueuedTable *queued = &relation->tables[i];
        statement.tables[i] = {.queued = queued,
                               .maker = MakeEntryMaker(&queued->table, 0, statement.context)};
    }
    return statement;
}

struct Identity {
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
};

void ReadIdentity(const QueuedTable *queued, TupleTableSlot *row, Identity *identity) {
    for (int i = 0; i < queued->table.table->identity_count; i++) {
        identity->values[i] = row->tts_values[queued->identity[i] - 1];
        identity->nulls[i] = row->tts_isnull[queued->identity[i] - 1];
    }
}

bool HaveSameIdentity(const QueuedTable *queued, TupleTableSlot *a, TupleTableSlot *b) {
    return !Differs(a, b, queued->identity, queued->table.table->identity_count);
}

// Queues a row that has entries, or had them; `before` and `after` have the same identity, one of
// them may be null. A row that has none, nor had, concerns nobody.
void Enqueue(Enqueuing *table, TupleTableSlot *before, TupleTableSlot *after) {
    FAULT_POINT("enqueue.enqueue");
    bool is_added = false;
    for (TupleTableSlot *row : {before, after}) {
        if (!row)
            continue;
        ForEachEntry(table->maker, row, [&](const Datum *values, const bool *nulls) {
            if (!table->writer && !table->is_dropped) {
                table->writer = OpenPackWriter(table->queued->table.table);
                table->is_dropped = !table->writer;
            }
            if (table->is_dropped)
                return;
            if (!is_added) {
                Identity identity;
                ReadIdentity(table->queued, row, &identity);
                AddIdentity(table->writer, identity.values, identity.nulls);
                is_added = true;
            }
            AddKey(table->writer, values[0], nulls[0]);
        });
    }
    if (is_added)
        FinishIdentity(table->writer);
}

void EnqueueRow(Statement *statement, TupleTableSlot *before, TupleTableSlot *after) {
    for (Enqueuing &table : std::span(statement->tables, statement->relation->count)) {
        const LeafTable &used = table.queued->table;
        if (before && after && !HaveSameIdentity(table.queued, before, after)) {
            Enqueue(&table, before, nullptr);
            Enqueue(&table, nullptr, after);
        } else if (!before || !after || Differs(before, after, used.used, used.used_count))
            Enqueue(&table, before, after);
    }
    if (statement->context)
        ResetExprContext(statement->context);
}

void End(Statement *statement) {
    bool any = false;
    for (Enqueuing &table : std::span(statement->tables, statement->relation->count))
        if (table.writer) {
            ClosePackWriter(table.writer);
            any = true;
        }
    if (statement->context)
        FreeExprContext(statement->context, true);
    if (any)
        RememberQueued();
}

// Old and new rows come in the same order. Where one of a pair is missing (a trigger kept a row
// from moving to another partition) those that follow have different identities, and both are
// queued.
void EnqueueStatement(TriggerData *trigger, Statement *statement) {
    AttrNumber last = statement->relation->max_attno;
    TransitionRows before = BeginTransition(trigger->tg_oldtable, trigger->tg_relation);
    TransitionRows after =
        BeginTransition(trigger->tg_newtable, trigger->tg_relation, statement->relation->generated);
    for (;;) {
        bool has_before = NextRow(&before, last);
        bool has_after = NextRow(&after, last);
        if (!has_before && !has_after)
            break;
        if (!has_before)
            CompleteRow(&after);
        EnqueueRow(statement, has_before ? before.slot : nullptr, has_after ? after.slot : nullptr);
        if (has_before && has_after && CompleteRow(&after))
            EnqueueRow(statement, nullptr, after.slot);
        CHECK_FOR_INTERRUPTS();
    }
    EndTransition(&before);
    EndTransition(&after);
}

void EnqueueTriggerRow(TriggerData *trigger, Statement *statement) {
    // No statement is known that changes the table: other triggers of the row may come before.
    RememberChange(statement->relation->base);
    AttrNumber last = statement->relation->max_attno;
    TupleTableSlot *before = OldRow(trigger), *after = NewRow(trigger);
    for (TupleTableSlot *row : {before, after})
        if (row)
            slot_getsomeattrs(row, last);
    EnqueueRow(statement, before, after);
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_queue_changes) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.queue_changes()");
    if (!TRIGGER_FIRED_AFTER(trigger->tg_event))
        RaiseFiredWrongly("index_table.queue_changes()", "AFTER");
    const QueuedRelation *relation = FindQueuedRelation(trigger->tg_relation);
    if (!relation || relation->count == 0)
        return kNoRow;
    Statement statement = Begin(relation);
    if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        EnqueueTriggerRow(trigger, &statement);
    else
        EnqueueStatement(trigger, &statement);
    End(&statement);
    return kNoRow;
}
