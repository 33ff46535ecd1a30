// index_table.shard_of(): from values of the partition key to the partition, the way PostgreSQL
// routes a row, and to the server where a foreign one is.
#include "read/key_values.h"
#include "shard/public.h"

namespace index_table {
namespace {

// A descent from a base table to its leaves.
struct Routing {
    Oid relid; // of the base table
    const char *base_name;
    TupleDesc columns;      // of the base table
    int count;              // values that were passed
    int used;               // of those
    const Datum *arguments; // as passed
    const bool *argument_nulls;
    const Oid *types;
    Datum *values; // by column of the base table, in its type
    bool *nulls;
    bool *known;
    ReturnSetInfo *result;
};

void PutLeaf(Routing *routing, Oid leaf) {
    Datum values[7] = {ObjectIdGetDatum(leaf)};
    bool nulls[7] = {false, true, true, true, true, true, true};
    NameData server_name;
    if (get_rel_relkind(leaf) == RELKIND_FOREIGN_TABLE) {
        ForeignServer *server = ServerOf(leaf);
        auto set = [&](int column, const char *text) {
            nulls[column] = text == nullptr;
            values[column] = text ? CStringGetTextDatum(text) : 0;
        };
        namestrcpy(&server_name, server->servername);
        values[1] = NameGetDatum(&server_name);
        nulls[1] = false;
        set(2, FindOptionText(server->options, "host"));
        set(3, FindOptionText(server->options, "port"));
        set(4, FindOptionText(server->options, "dbname"));
        RemoteNames names = FindRemoteNames(leaf);
        set(5, names.schema);
        set(6, names.table);
    }
    tuplestore_putvalues(routing->result->setResult, routing->result->setDesc, values, nulls);
}

// The base table's column that a column of a partition is.
AttrNumber BaseColumnOf(const Routing *routing, Relation rel, AttrNumber attno) {
    const char *name = NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname);
    for (int i = 0; i < routing->columns->natts; i++)
        if (!TupleDescAttr(routing->columns, i)->attisdropped &&
            strcmp(NameStr(TupleDescAttr(routing->columns, i)->attname), name) == 0)
            return i + 1;
    elog(ERROR, "column \"%s\" is not in \"%s\"", name, routing->base_name);
}

// The columns of a table that its partition key is made of, in the key's order.
List *KeyColumns(PartitionKey key) {
    List *attnos = NIL;
    ListCell *expr = list_head(key->partexprs);
    for (int i = 0; i < key->partnatts; i++) {
        if (key->partattrs[i] != 0) {
            attnos = list_append_unique_int(attnos, key->partattrs[i]);
            continue;
        }
        Bitmapset *used = nullptr;
        pull_varattnos(static_cast<Node *>(lfirst(expr)), 1, &used);
        expr = lnext(key->partexprs, expr);
        for (int member = -1; (member = bms_next_member(used, member)) >= 0;)
            attnos = list_append_unique_int(attnos, member + FirstLowInvalidHeapAttributeNumber);
    }
    return attnos;
}

// Takes the next values for columns that are not known yet. False where there are too few.
bool TakeValues(Routing *routing, Relation rel, List *attnos) {
    ListCell *cell;
    foreach (cell, attnos) {
        int column = BaseColumnOf(routing, rel, lfirst_int(cell)) - 1;
        if (routing->known[column])
            continue;
        if (routing->used == routing->count)
            return false;
        int argument = routing->used++;
        Form_pg_attribute att = TupleDescAttr(routing->columns, column);
        routing->nulls[column] = routing->argument_nulls[argument];
        routing->values[column] =
            CastKeyValue(routing->relid, routing->arguments[argument], routing->types[argument],
                         att->atttypid, NameStr(att->attname), &routing->nulls[column]);
        routing->known[column] = true;
    }
    return true;
}

// The values of a table's partition key for a row with the known columns, computed as the table's
// owner.
void ComputeKey(const Routing *routing, Relation rel, List *attnos, Datum *values, bool *nulls) {
    PartitionKey key = RelationGetPartitionKey(rel);
    EState *estate = CreateExecutorState();
    TupleTableSlot *row = ExecInitExtraTupleSlot(estate, RelationGetDescr(rel), &TTSOpsVirtual);
    ExecStoreAllNullTuple(row);
    ListCell *cell;
    foreach (cell, attnos) {
        int column = BaseColumnOf(routing, rel, lfirst_int(cell)) - 1;
        row->tts_values[lfirst_int(cell) - 1] = routing->values[column];
        row->tts_isnull[lfirst_int(cell) - 1] = routing->nulls[column];
    }
    GetPerTupleExprContext(estate)->ecxt_scantuple = row;
    OwnerContext owner = EnterOwner(rel->rd_rel->relowner);
    ListCell *expr = list_head(key->partexprs);
    MemoryContext caller = CurrentMemoryContext;
    for (int i = 0; i < key->partnatts; i++) {
        if (key->partattrs[i] != 0) {
            values[i] = slot_getattr(row, key->partattrs[i], &nulls[i]);
            continue;
        }
        MemoryContextSwitchTo(estate->es_query_cxt);
        ExprState *state = ExecPrepareExpr(static_cast<Expr *>(lfirst(expr)), estate);
        MemoryContextSwitchTo(caller);
        values[i] = ExecEvalExprSwitchContext(state, GetPerTupleExprContext(estate), &nulls[i]);
        if (!nulls[i])
            values[i] = datumCopy(values[i], key->parttypbyval[i], key->parttyplen[i]);
        expr = lnext(key->partexprs, expr);
    }
    LeaveOwner(owner);
    ExecResetTupleTable(estate->es_tupleTable, true);
    FreeExecutorState(estate);
}

// The partition of a table that takes a row with these values of the key, as an index into its
// partitions; -1: none.
int Route(PartitionKey key, PartitionBoundInfo bounds, Datum *values, bool *nulls) {
    int found = -1;
    bool is_equal = false;
    switch (key->strategy) {
    case PARTITION_STRATEGY_HASH: {
        uint64 hash = compute_partition_hash_value(key->partnatts, key->partsupfunc,
                                                   key->partcollation, values, nulls);
        found = bounds->indexes[hash % bounds->nindexes];
        break;
    }
    case PARTITION_STRATEGY_LIST:
        if (nulls[0]) {
            if (partition_bound_accepts_nulls(bounds))
                found = bounds->null_index;
        } else {
            int offset = partition_list_bsearch(key->partsupfunc, key->partcollation, bounds,
                                                values[0], &is_equal);
            if (offset >= 0 && is_equal)
                found = bounds->indexes[offset];
        }
        break;
    case PARTITION_STRATEGY_RANGE:
        if (std::none_of(nulls, nulls + key->partnatts, [](bool isnull) { return isnull; })) {
            int offset = partition_range_datum_bsearch(key->partsupfunc, key->partcollation, bounds,
                                                       key->partnatts, values, &is_equal);
            found = bounds->indexes[offset + 1];
        }
        break;
    default:
        elog(ERROR, "unexpected partition strategy: %d", static_cast<int>(key->strategy));
    }
    return found >= 0 ? found : bounds->default_index;
}

[[noreturn]] void RaiseTooManyValues(const Routing *routing) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("too many shard key values: %d", routing->count),
                    errdetail_plural("The partition key of \"%s\" takes %d value.",
                                     "The partition key of \"%s\" takes %d values.", routing->used,
                                     routing->base_name, routing->used)));
}

// Puts the leaves below a table that the values leave possible into the result.
void Descend(Routing *routing, Oid relid) {
    check_stack_depth();
    if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE) {
        if (routing->used < routing->count)
            RaiseTooManyValues(routing);
        PutLeaf(routing, relid);
        return;
    }
    Relation rel = table_open(relid, AccessShareLock);
    PartitionKey key = RelationGetPartitionKey(rel);
    PartitionDesc partitions = RelationGetPartitionDesc(rel, true);
    List *attnos = KeyColumns(key);
    // A level may be asked for different columns than the one beside it.
    int used = routing->used;
    bool *known = static_cast<bool *>(palloc(routing->columns->natts));
    memcpy(known, routing->known, routing->columns->natts);
    if (!TakeValues(routing, rel, attnos)) {
        for (int i = 0; i < partitions->nparts; i++)
            Descend(routing, partitions->oids[i]);
    } else if (partitions->nparts > 0) {
        Datum values[PARTITION_MAX_KEYS];
        bool nulls[PARTITION_MAX_KEYS];
        ComputeKey(routing, rel, attnos, values, nulls);
        int found = Route(key, partitions->boundinfo, values, nulls);
        if (found >= 0)
            Descend(routing, partitions->oids[found]);
    }
    routing->used = used;
    memcpy(routing->known, known, routing->columns->natts);
    table_close(rel, NoLock);
}

void CheckRelation(Oid relid) {
    char kind = get_rel_relkind(relid);
    if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE &&
        kind != RELKIND_FOREIGN_TABLE)
        ereport(ERROR, (errcode(kind ? ERRCODE_WRONG_OBJECT_TYPE : ERRCODE_UNDEFINED_TABLE),
                        kind ? errmsg("\"%s\" is not a table", get_rel_name(relid))
                             : errmsg("relation with OID %u does not exist", relid),
                        kind ? errdetail_relkind_not_supported(kind) : 0,
                        kind ? errhint("Pass the partitioned table.") : 0));
    if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
        pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT, ACLMASK_ANY) != ACLCHECK_OK)
        aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(kind), get_rel_name(relid));
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_shard_of) {
    if (PG_ARGISNULL(0))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("argument base must not be null")));
    Oid relid = PG_GETARG_OID(0);
    CheckRelation(relid);
    Routing routing = {};
    Datum *arguments = nullptr;
    Oid *types = nullptr;
    bool *argument_nulls = nullptr;
    if (PG_NARGS() > 1)
        routing.count = extract_variadic_args(fcinfo, 1, true, &arguments, &types, &argument_nulls);
    if (routing.count < 0)
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("the array of shard key values must not be null")));
    Relation rel = OpenRelation(relid, AccessShareLock);
    InitMaterializedSRF(fcinfo, 0);
    int natts = RelationGetNumberOfAttributes(rel);
    routing.relid = relid;
    routing.base_name = RelationGetRelationName(rel);
    routing.columns = RelationGetDescr(rel);
    routing.arguments = arguments;
    routing.argument_nulls = argument_nulls;
    routing.types = types;
    routing.values = static_cast<Datum *>(palloc0(sizeof(Datum) * natts));
    routing.nulls = static_cast<bool *>(palloc0(natts));
    routing.known = static_cast<bool *>(palloc0(natts));
    routing.result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    Descend(&routing, relid);
    relation_close(rel, AccessShareLock);
    PG_RETURN_NULL();
}
