// From a definition to the layout of an index table's entries.
#include "catalog/definition.h"
#include "catalog/rows.h"

namespace index_table {
namespace {

constinit uint64 last_serial = 0;

// The key column that is this plain base column, -1 if there is none.
int FindKeyColumn(const Key &key, AttrNumber base_attno) {
    for (int i = 0; i < key.count; i++)
        if (key.columns[i].attno == base_attno)
            return i;
    return -1;
}

Expr *Plan(Expr *expr) {
    return expr ? expression_planner(static_cast<Expr *>(copyObjectImpl(expr))) : nullptr;
}

// Places the columns of `attnos` in the entry: at a key column that holds the same value, at a copy
// already made, or behind what there is.
CopiedColumn *Place(IndexTable *table, List *attnos) {
    CopiedColumn *columns =
        static_cast<CopiedColumn *>(palloc0(sizeof(CopiedColumn) * Max(1, list_length(attnos))));
    for (int i = 0; i < list_length(attnos); i++) {
        AttrNumber attno = list_nth_int(attnos, i);
        int position = FindKeyColumn(table->key, attno);
        for (int j = 0; position < 0 && j < table->copied_count; j++)
            if (table->copied[j].base_attno == attno)
                position = table->copied[j].position;
        if (position < 0) {
            position = table->column_count++;
            table->copied[table->copied_count++] = {attno, position};
        }
        columns[i] = {attno, position};
    }
    return columns;
}

bool IsUniqueInLeaf(Oid leaf, Relation base, const IndexTable *table) {
    Relation rel = try_relation_open(leaf, AccessShareLock);
    if (!rel)
        return true;
    List *attnos = NIL;
    for (const CopiedColumn &column : std::span(table->identity, table->identity_count))
        attnos = lappend_int(attnos, column.base_attno);
    bool unique = HasUniqueIndex(rel, MapColumns(attnos, base, rel), MayBeNull::No);
    relation_close(rel, AccessShareLock);
    return unique;
}

// Whether postgres_fdw sends conditions on the identity, which it does with types that are built
// in, or of an extension that the server has, too.
bool CanAskFor(const IndexTable *table, Relation base) {
    for (int i = 0; i < table->identity_count; i++) {
        Oid type =
            TupleDescAttr(RelationGetDescr(base), table->identity[i].base_attno - 1)->atttypid;
        if (!OidIsValid(get_array_type(type)) ||
            (type >= FirstGenbkiObjectId &&
             !OidIsValid(getExtensionOfObject(TypeRelationId, type))))
            return false;
    }
    return true;
}

// PostgreSQL keeps no constraint over partitions that are foreign tables: there each local
// partition has to have its own. Of foreign ones that is taken on trust; who fetches rows from them
// will see.
bool IsUniqueInLeaves(const IndexTable *table) {
    List *leaves = ListPartitions(table->base);
    if (!HasForeign(leaves))
        return false;
    Relation base = table_open(table->base, AccessShareLock);
    bool unique = CanAskFor(table, base);
    ListCell *cell;
    foreach (cell, leaves)
        if (unique && !IsForeign(lfirst_oid(cell)))
            unique = IsUniqueInLeaf(lfirst_oid(cell), base, table);
    table_close(base, AccessShareLock);
    return unique;
}

// How many partitions there are to be beside a hash partition.
int ModulusOf(Oid partition) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(partition));
    if (!HeapTupleIsValid(tuple))
        return 0;
    bool isnull;
    Datum bound = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
    int modulus =
        isnull
            ? 0
            : static_cast<PartitionBoundSpec *>(stringToNode(TextDatumGetCString(bound)))->modulus;
    ReleaseSysCache(tuple);
    return modulus;
}

// The partitions of an index table are alike, as they were made. On servers they may be gone: what
// drops a server, and all that depends on it, asks nobody.
void LookAtPartitions(IndexTable *table) {
    if (!OidIsValid(table->relid) || get_rel_relkind(table->relid) != RELKIND_PARTITIONED_TABLE)
        return;
    List *partitions = find_inheritance_children(table->relid, NoLock);
    table->on_servers = HasForeign(partitions);
    if (partitions == NIL ||
        (table->on_servers && list_length(partitions) != ModulusOf(linitial_oid(partitions))))
        table->state = TableState::Damaged;
}

} // namespace

bool IsIdentityUnique(const IndexTable *table) {
    Assert(IsKnown(table));
    if (table->identity_is_unique || table->is_unique_in_leaves_known)
        return table->identity_is_unique || table->is_unique_in_leaves;
    IndexTable *known = const_cast<IndexTable *>(table);
    known->is_unique_in_leaves = IsUniqueInLeaves(table);
    known->is_unique_in_leaves_known = true;
    return known->is_unique_in_leaves;
}

#ifdef USE_ASSERT_CHECKING
bool IsKnown(const IndexTable *table) {
    return table && table->serial > 0 && table->serial <= last_serial;
}
#endif

AttrNumber BaseColumn(const IndexTable *table, int position) {
    Assert(position >= 0 && position < table->column_count);
    if (position < table->key.count)
        return table->key.columns[position].attno;
    for (const CopiedColumn &copy : std::span(table->copied, table->copied_count))
        if (copy.position == position)
            return copy.base_attno;
    return 0;
}

const AttrNumber *LiveColumns(TupleDesc descriptor, int count) {
    AttrNumber *attnos = static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * count));
    int live = 0;
    for (int i = 0; i < descriptor->natts && live < count; i++)
        if (!TupleDescAttr(descriptor, i)->attisdropped)
            attnos[live++] = i + 1;
    return live == count ? attnos : nullptr;
}

void RaiseNotAsCreated(Relation rel) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("index table \"%s\" has not the columns it was created with",
                    RelationGetRelationName(rel)),
             errhint("Drop it and create it again with index_table.create()."), errtable(rel)));
}

const AttrNumber *GetLiveColumns(Relation rel, int count) {
    Assert(count > 0);
    const AttrNumber *attnos = LiveColumns(RelationGetDescr(rel), count);
    if (!attnos)
        RaiseNotAsCreated(rel);
    return attnos;
}

AttrNumber LiveColumn(Relation rel, const IndexTable *table, int position) {
    return GetLiveColumns(rel, table->column_count)[position];
}

const AttrNumber *StoredColumns(const IndexTable *table, Relation rel) {
    Assert(RelationGetRelid(rel) == table->relid);
    if (table->stored)
        return table->stored;
    MemoryContext caller =
        MemoryContextSwitchTo(GetMemoryChunkContext(const_cast<IndexTable *>(table)));
    const AttrNumber *attnos = LiveColumns(RelationGetDescr(rel), table->column_count);
    MemoryContextSwitchTo(caller);
    const_cast<IndexTable *>(table)->stored = attnos;
    return attnos;
}

IndexTable *NewIndexTable() {
    IndexTable *table = palloc0_object(IndexTable);
    table->serial = ++last_serial;
    return table;
}

Var **MakeBaseColumns(Relation base, const IndexTable *table) {
    Var **columns = palloc0_array(Var *, table->column_count);
    for (int i = 0; i < table->column_count; i++)
        if (AttrNumber attno = BaseColumn(table, i)) {
            Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), attno - 1);
            columns[i] = makeVar(1, attno, att->atttypid, att->atttypmod, att->attcollation, 0);
        }
    return columns;
}

IndexTable *MakeIndexTable(Relation base, const Definition &definition, TableState state) {
    Assert(RelationGetRelid(base) == definition.base);
    Assert(IsMemoryFreed());
    IndexTable *table = NewIndexTable();
    table->relid = definition.relid;
    table->base = definition.base;
    table->log = definition.log;
    table->queue = definition.queue;
    table->options = definition.options;
    table->state = state;
    LookAtPartitions(table);
    table->key = definition.key;
    table->predicate = definition.predicate;

    table->column_count = table->key.count + 1;
    table->copied = static_cast<CopiedColumn *>(
        palloc0(sizeof(CopiedColumn) *
                (list_length(definition.identity) + list_length(definition.include) + 1)));
    table->identity = Place(table, definition.identity);
    table->identity_count = list_length(definition.identity);
    table->identity_is_unique = HasUniqueIndex(base, definition.identity, MayBeNull::No);
    int group_count = table->column_count;
    Place(table, definition.include);
    table->include_count = table->column_count - group_count;
    table->include = table->copied + (table->copied_count - table->include_count);

    table->types = static_cast<Oid *>(palloc(sizeof(Oid) * table->column_count));
    for (int i = 0; i < table->key.count; i++)
        table->types[i] = table->key.columns[i].type;
    table->types[table->partition_position()] = INT4OID;
    for (const CopiedColumn &copy : std::span(table->copied, table->copied_count))
        table->types[copy.position] =
            TupleDescAttr(RelationGetDescr(base), copy.base_attno - 1)->atttypid;

    table->base_columns = MakeBaseColumns(base, table);

    int count = table->key.count;
    table->key_exprs = static_cast<Expr **>(palloc0(sizeof(Expr *) * count));
    table->per_element = static_cast<Expr **>(palloc0(sizeof(Expr *) * count));
    for (int i = 0; i < count; i++) {
        const KeyColumn &column = table->key.columns[i];
        if (column.attno == 0)
            table->key_exprs[i] = Plan(column.expr);
        table->per_element[i] = Plan(column.per_element);
    }
    table->planned_predicate = Plan(table->predicate);
    return table;
}

} // namespace index_table
