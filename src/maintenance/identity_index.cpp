#include "maintenance/identity_index.h"

#include "core/public.h"

namespace index_table {
namespace {

bool Serves(Relation index, List *attnos) {
    Form_pg_index form = index->rd_index;
    bool serves = index->rd_rel->relam == BTREE_AM_OID && form->indisvalid &&
                  RelationGetIndexPredicate(index) == NIL &&
                  form->indnkeyatts == list_length(attnos);
    for (int i = 0; serves && i < form->indnkeyatts; i++)
        serves = form->indkey.values[i] == list_nth_int(attnos, i);
    return serves;
}

} // namespace

IdentityPositions PositionsOf(const IndexTable *table) {
    IdentityPositions identity = {.count = table->identity_count,
                                  .positions = palloc_array(int, table->identity_count)};
    for (int i = 0; i < table->identity_count; i++)
        identity.positions[i] = table->identity[i].position;
    return identity;
}

List *IdentityIndexColumns(const IndexTable *table, const IdentityPositions &identity,
                           const AttrNumber *stored) {
    List *attnos = NIL;
    for (int position : std::span(identity.positions, identity.count))
        attnos = lappend_int(attnos, stored[position]);
    return lappend_int(attnos, stored[table->partition_position()]);
}

Oid FindIdentityIndex(Relation rel, List *attnos) {
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        bool serves = Serves(index, attnos);
        index_close(index, NoLock);
        if (serves)
            return lfirst_oid(cell);
    }
    return InvalidOid;
}

namespace {

IndexStmt *StatementOn(Relation rel, List *attnos) {
    IndexStmt *statement = makeNode(IndexStmt);
    statement->relation = makeRangeVar(get_namespace_name(RelationGetNamespace(rel)),
                                       pstrdup(RelationGetRelationName(rel)), -1);
    statement->accessMethod = pstrdup("btree");
    ListCell *cell;
    foreach (cell, attnos) {
        IndexElem *element = makeNode(IndexElem);
        element->name =
            pstrdup(NameStr(TupleDescAttr(RelationGetDescr(rel), lfirst_int(cell) - 1)->attname));
        element->ordering = SORTBY_DEFAULT;
        element->nulls_ordering = SORTBY_NULLS_DEFAULT;
        statement->indexParams = lappend(statement->indexParams, element);
    }
    return statement;
}

} // namespace

// Drains must go on where the owner may not create anything in the schema any more.
bool EnsureIdentityIndex(const IndexTable *table, const IdentityPositions &identity) {
    Relation rel = table_open(table->relid, AccessShareLock);
    const AttrNumber *stored = GetLiveColumns(rel, table->column_count);
    List *attnos = IdentityIndexColumns(table, identity, stored);
    bool found = OidIsValid(FindIdentityIndex(rel, attnos));
    IndexStmt *statement = StatementOn(rel, attnos);
    table_close(rel, AccessShareLock);
    if (found)
        return false;
    // One of several drains creates it.
    LockRelationOid(table->relid, ShareUpdateExclusiveLock);
    rel = table_open(table->relid, NoLock);
    found = OidIsValid(FindIdentityIndex(rel, attnos));
    table_close(rel, NoLock);
    if (found)
        return true;
    PushActiveSnapshot(GetTransactionSnapshot());
    compat::DefineIndexForOwner(table->relid, statement, InvalidOid);
    PopActiveSnapshot();
    CommandCounterIncrement();
    return true;
}

} // namespace index_table
