#include "create/restored.h"

#include "catalog/public.h"
#include "create/base_table.h"
#include "create/dependencies.h"
#include "create/reload.h"
#include "deferred/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

[[noreturn]] void RaiseNotAsCreated(Oid relid, const char *detail) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("\"%s\" cannot be made an index table by its rule \"%s\"",
                           get_rel_name(relid), kDefinitionRule),
                    errdetail("%s", detail), errhint("Use index_table.create().")));
}

// The definition is the word of whoever owns the table: all that the code takes for granted of what
// create() makes is checked.
void CheckColumns(Relation base, const IndexTable *table, Oid relid, int more) {
    Relation rel = relation_open(relid, AccessShareLock);
    const AttrNumber *attnos = LiveColumns(RelationGetDescr(rel), table->column_count + more);
    bool alike = attnos && rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP;
    for (int i = 0; alike && i < table->column_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnos[i] - 1);
        ColumnType wanted = WantedType(base, table, i);
        alike = att->atttypid == wanted.type && att->atttypmod == wanted.typmod &&
                att->attcollation == wanted.collation;
    }
    if (alike && more)
        alike = TupleDescAttr(RelationGetDescr(rel), attnos[table->column_count] - 1)->atttypid ==
                INT2OID;
    relation_close(rel, NoLock);
    if (!alike)
        RaiseNotAsCreated(relid, "Its columns are not those that the rule selects.");
}

void CheckRelation(Oid relid, Oid base) {
    char kind = get_rel_relkind(relid);
    if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) ||
        get_rel_relispartition(relid))
        RaiseNotAsCreated(relid, "It is not a table, or is a partition of another.");
    if (relid == base || ListIndexTables(relid) != NIL || OidIsValid(RecordedBase(relid)))
        RaiseNotAsCreated(relid,
                          "It is a base table or an index table already, or its own base table.");
    if (RelationOwner(relid) != RelationOwner(base))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("must be owner of table %s", get_rel_name(base)),
                        errdetail("An index table belongs to the owner of its base table.")));
}

// What a queue held tells nobody whether all of it came along: pg_upgrade leaves nothing behind,
// dumps may.
TableState StateOf(const IndexTable *table) {
    // Others may be writing to what they stand for: the database that was dumped.
    if (table->on_servers && !IsBinaryUpgrade)
        return TableState::Damaged;
    bool has_queue = OidIsValid(table->queue) || LacksQueue(table);
    return has_queue && !IsBinaryUpgrade ? TableState::Damaged : TableState::Restored;
}

} // namespace

void RegisterRestored(Oid relid) {
    Assert(IsLocked(relid, AccessExclusiveLock));
    if (!OidIsValid(relid) || OidIsValid(RecordedBase(relid)))
        return;
    const Definition *definition = ReadDefinition(relid);
    if (!definition)
        return;
    CheckRelation(relid, definition->base);
    Relation base = relation_open(definition->base, AccessShareLock);
    CheckBase(base);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner); // planning may evaluate functions
    if (!AreConsistent(definition->options))
        RaiseNotAsCreated(relid, "Its options contradict each other.");
    CheckExpressions(*definition);
    const IndexTable *table = MakeIndexTable(base, *definition, TableState::Restored);
    if (table->group_count() > INDEX_MAX_KEYS)
        RaiseNotAsCreated(relid, "It has too many columns.");
    CheckColumns(base, table, relid, 0);
    if (OidIsValid(table->log)) {
        CheckRelation(table->log, definition->base);
        CheckColumns(base, table, table->log, 1);
    }
    InsertDefinition(*definition, StateOf(table));
    RecordDependencies(table);
    EnsureConstraintName(relid);
    AdoptQueue(table);
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

} // namespace index_table
