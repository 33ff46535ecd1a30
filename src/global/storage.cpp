#include "global/storage.h"

#include "core/public.h"
#include "global/address.h"
#include "global/child_index.h"
#include "global/operator_classes.h"
#include "global/options.h"
#include "global/ownership.h"
#include "global/table_method.h"

namespace index_table {
namespace {

constexpr char kPrefix[] = "index_table_global_";

// What the tree has of a root's column.
struct TreeColumn {
    Oid type;
    int32 modifier;
    Oid collation;
};

// `expressions`: those of the root that are still to come.
TreeColumn ColumnOf(Relation root, Relation base, int position, List **expressions) {
    AttrNumber attno = root->rd_index->indkey.values[position];
    if (attno != 0) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), attno - 1);
        return {.type = att->atttypid, .modifier = att->atttypmod, .collation = att->attcollation};
    }
    Node *node = static_cast<Node *>(linitial(*expressions));
    *expressions = list_delete_first(*expressions);
    return {.type = exprType(node), .modifier = exprTypmod(node), .collation = exprCollation(node)};
}

TupleDesc DescribeStorage(Relation root, Relation base) {
    int count = root->rd_index->indnatts;
    TupleDesc descriptor = CreateTemplateTupleDesc(count);
    List *expressions = RelationGetIndexExpressions(root);
    for (int i = 0; i < count; i++) {
        TreeColumn column = ColumnOf(root, base, i, &expressions);
        NameData name;
        snprintf(NameStr(name), NAMEDATALEN, "c%d", i + 1);
        TupleDescInitEntry(descriptor, i + 1, NameStr(name), column.type, column.modifier, 0);
        TupleDescInitEntryCollation(descriptor, i + 1, column.collation);
    }
    return compat::FinishDescriptor(descriptor);
}

// Trees that hold packed addresses have room for fewer extents.
uint32 ExtentLimit(Oid method) {
    return GetIndexAmRoutineByAmId(method, false)->amgettuple ? kMaxExtents : kMaxPackedExtents;
}

Oid MakeStorage(Relation root, Relation base) {
    FAULT_POINT("storage.make_storage");
    Oid relid = heap_create_with_catalog(
        StorageName(RelationGetRelid(root)).data, PG_TOAST_NAMESPACE, InvalidOid, InvalidOid,
        InvalidOid, InvalidOid, base->rd_rel->relowner, get_table_am_oid(kStorageMethod, false),
        DescribeStorage(root, base), NIL, RELKIND_TOASTVALUE, RELPERSISTENCE_PERMANENT, false,
        false, ONCOMMIT_NOOP, 0, false, true, true, InvalidOid, nullptr);
    CommandCounterIncrement();
    ObjectAddress storage;
    ObjectAddress index;
    ObjectAddressSet(storage, RelationRelationId, relid);
    ObjectAddressSet(index, RelationRelationId, RelationGetRelid(root));
    recordDependencyOn(&storage, &index, DEPENDENCY_INTERNAL);
    Relation rel = relation_open(relid, AccessExclusiveLock);
    InitializeExtentMap(rel, ExtentLimit(GetGlobalOptions(root).method));
    relation_close(rel, NoLock);
    return relid;
}

// What is said of the tree's columns, of the root's: the first that stands in parentheses.
const char *NameColumns(Oid root, const char *detail) {
    const char *first = strchr(detail, '(');
    const char *rest = first ? strstr(first, ")=(") : nullptr;
    return rest ? psprintf("%.*s%s%s", static_cast<int>(first + 1 - detail), detail,
                           pg_get_indexdef_columns(root, true), rest)
                : detail;
}

// Has make() build the tree. A key that is there twice is said to be the root's.
template <typename Make>
void BuildAs(Oid root, Make make) {
    MemoryContext caller = CurrentMemoryContext;
    PG_TRY();
    { make(); }
    PG_CATCH();
    {
        if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
            PG_RE_THROW();
        MemoryContextSwitchTo(caller);
        ErrorData *error = CopyErrorData();
        FlushErrorState();
        ereport(ERROR,
                (errcode(ERRCODE_UNIQUE_VIOLATION),
                 errmsg("could not create unique index \"%s\"", get_rel_name(root)),
                 error->detail ? errdetail_internal("%s", NameColumns(root, error->detail)) : 0));
    }
    PG_END_TRY();
}

// Where it has been asked for without the event trigger.
void CheckForm(Relation root, const GlobalOptions &options) {
    int count = root->rd_index->indnkeyatts;
    CheckTreeForm({.is_unique = options.unique,
                   .has_included = root->rd_index->indnatts > count,
                   .is_ordered = std::any_of(root->rd_indoption, root->rd_indoption + count,
                                             [](int16 flags) { return flags != 0; }),
                   .key_count = count},
                  options.method);
}

// Parallel workers write nothing: all that a build will ask for is given before.
void GiveExtentsAhead(Relation storage) {
    ListCell *cell;
    foreach (cell, ListChildren(RootOfStorage(storage), AccessShareLock)) {
        Relation child = index_open(lfirst_oid(cell), NoLock);
        Relation heap = table_open(child->rd_index->indrelid, AccessShareLock);
        if (BlockNumber blocks = RelationGetNumberOfBlocks(heap);
            blocks > 0 && BelongsTo(child, storage))
            ExtentOfBlock(child, storage, RelationGetRelid(heap), blocks - 1);
        relation_close(heap, NoLock);
        index_close(child, NoLock);
    }
}

// `flags`: INDEX_CREATE_INVALID, or none.
void MakeTree(Relation root, Oid storage_oid, uint16 flags = 0) {
    FAULT_POINT("storage.make_tree");
    Relation storage = relation_open(storage_oid, AccessExclusiveLock);
    if (!(flags & INDEX_CREATE_INVALID))
        GiveExtentsAhead(storage);
    GlobalOptions options = GetGlobalOptions(root);
    CheckForm(root, options);
    int key_count = root->rd_index->indnkeyatts;
    IndexInfo *info = makeNode(IndexInfo);
    info->ii_NumIndexAttrs = root->rd_index->indnatts;
    info->ii_NumIndexKeyAttrs = key_count;
    info->ii_Unique = options.unique;
    info->ii_NullsNotDistinct = root->rd_index->indnullsnotdistinct;
    info->ii_ReadyForInserts = true;
    info->ii_Am = options.method;
    info->ii_Context = CurrentMemoryContext;
    List *names = NIL;
    for (int i = 0; i < info->ii_NumIndexAttrs; i++) {
        info->ii_IndexAttrNumbers[i] = i + 1;
        names =
            lappend(names, pstrdup(NameStr(TupleDescAttr(RelationGetDescr(storage), i)->attname)));
    }
    bool isnull;
    auto *mirrors = reinterpret_cast<oidvector *>(DatumGetPointer(
        SysCacheGetAttr(INDEXRELID, root->rd_indextuple, Anum_pg_index_indclass, &isnull)));
    Oid classes[INDEX_MAX_KEYS] = {};
    Datum *parameters = palloc0_array(Datum, info->ii_NumIndexAttrs);
    for (int i = 0; i < key_count; i++) {
        parameters[i] = get_attoptions(RelationGetRelid(root), static_cast<int16>(i + 1));
        classes[i] = MirroredOperatorClass(mirrors->values[i], options.method);
    }
    BuildAs(RelationGetRelid(root), [&] {
        compat::CreateIndex(storage, TreeName(RelationGetRelid(root)).data, info, names,
                            options.method, root->rd_rel->reltablespace, root->rd_indcollation,
                            classes, parameters, root->rd_indoption,
                            TreeOptionsOf(RelationGetRelid(root)), flags);
    });
    relation_close(storage, NoLock);
    CommandCounterIncrement();
}

void Build(Oid root_oid, Children children) {
    Relation root = index_open(root_oid, AccessShareLock);
    Relation base = table_open(root->rd_index->indrelid, AccessShareLock);
    pgstat_progress_start_command(PROGRESS_COMMAND_CREATE_INDEX, RelationGetRelid(base));
    Oid storage_oid = MakeStorage(root, base);
    ListCell *cell;
    foreach (cell, ListChildren(root_oid, AccessExclusiveLock)) {
        Relation child = index_open(lfirst_oid(cell), NoLock);
        char persistence = child->rd_rel->relpersistence;
        bool is_old = children == Children::Former || !compat::HasFileOfThisLevel(child);
        index_close(child, NoLock);
        if (is_old) // a dump, or DETACH, has been here: a new file, which ROLLBACK takes back
            compat::ReindexIndex(lfirst_oid(cell), persistence);
        child = index_open(lfirst_oid(cell), NoLock);
        Relation storage = relation_open(storage_oid, NoLock);
        JoinGlobalIndex(child, storage);
        relation_close(storage, NoLock);
        index_close(child, NoLock);
    }
    MakeTree(root, storage_oid);
    pgstat_progress_end_command();
    DropFormerStorages(root_oid);
    CacheInvalidateRelcache(base);
    table_close(base, NoLock);
    index_close(root, NoLock);
}

// PostgreSQL's REINDEX puts a file in the place of another, in the same tablespace, and leaves
// alone what is not valid in pg_toast.
void ReplaceTree(const GlobalIndex &index) {
    ObjectAddress tree;
    ObjectAddressSet(tree, RelationRelationId, index.tree);
    performDeletion(&tree, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
    Relation root = index_open(index.root, AccessShareLock);
    MakeTree(root, index.storage);
    CacheInvalidateRelcacheByRelid(root->rd_index->indrelid);
    index_close(root, NoLock);
}

void Rebuild(const GlobalIndex &index) {
    FAULT_POINT("storage.rebuild");
    ListCell *cell;
    foreach (cell, ListChildren(index.root, AccessShareLock)) {
        Relation child = index_open(lfirst_oid(cell), NoLock);
        bool belongs = BelongsTo(child, index.storage);
        char persistence = child->rd_rel->relpersistence;
        index_close(child, NoLock);
        if (!belongs)
            compat::ReindexIndex(lfirst_oid(cell), persistence);
    }
    if (get_index_isvalid(index.tree))
        BuildAs(index.root, [&] { compat::ReindexIndex(index.tree, RELPERSISTENCE_PERMANENT); });
    else
        ReplaceTree(index);
}

} // namespace

bool IsStorage(Relation rel) {
    return rel->rd_tableam == GetStorageMethod();
}

NameData StorageName(Oid root) {
    NameData name;
    snprintf(NameStr(name), NAMEDATALEN, "%s%u", kPrefix, root);
    return name;
}

NameData TreeName(Oid root) {
    NameData name;
    snprintf(NameStr(name), NAMEDATALEN, "%s%u_tree", kPrefix, root);
    return name;
}

Oid RootOfStorage(Relation storage) {
    return static_cast<Oid>(
        strtoul(RelationGetRelationName(storage) + strlen(kPrefix), nullptr, 10));
}

Relation OpenTree(Relation storage, LOCKMODE mode) {
    List *indexes = RelationGetIndexList(storage);
    if (indexes == NIL)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("global index \"%s\" has no tree", get_rel_name(RootOfStorage(storage))),
                 errhint("REINDEX it.")));
    Oid tree = linitial_oid(indexes);
    list_free(indexes);
    return index_open(tree, mode);
}

List *ListChildren(Oid root, LOCKMODE mode) {
    List *children = NIL;
    ListCell *cell;
    foreach (cell, find_all_inheritors(root, mode, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_INDEX)
            children = lappend_oid(children, lfirst_oid(cell));
    return children;
}

void DropFormerStorages(Oid root) {
    FAULT_POINT("storage.drop_former_storages");
    ListCell *cell;
    foreach (cell, find_all_inheritors(root, NoLock, nullptr)) {
        Oid index = lfirst_oid(cell);
        if (index == root || get_rel_relkind(index) != RELKIND_PARTITIONED_INDEX)
            continue;
        Oid storage = get_relname_relid(StorageName(index).data, PG_TOAST_NAMESPACE);
        if (!OidIsValid(storage))
            continue;
        deleteDependencyRecordsFor(RelationRelationId, storage, false);
        CommandCounterIncrement();
        ObjectAddress object;
        ObjectAddressSet(object, RelationRelationId, storage);
        performDeletion(&object, DROP_CASCADE, PERFORM_DELETION_INTERNAL);
    }
}

void BeginGlobalIndex(Oid root_oid) {
    OwnerContext owner = EnterOwner(RelationOwner(root_oid));
    Relation root = index_open(root_oid, AccessShareLock);
    Relation base = table_open(root->rd_index->indrelid, AccessShareLock);
    MakeTree(root, MakeStorage(root, base), INDEX_CREATE_INVALID);
    table_close(base, NoLock);
    index_close(root, NoLock);
    LeaveOwner(owner);
}

void BuildGlobalIndex(Oid root, Children children) {
    OwnerContext owner = EnterOwner(RelationOwner(root));
    Build(root, children);
    LeaveOwner(owner);
}

bool IsInPlace(Oid root) {
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    return !index || get_rel_tablespace(index->tree) == get_rel_tablespace(root);
}

void MoveTree(Oid root) {
    OwnerContext owner = EnterOwner(RelationOwner(root));
    ReplaceTree(*FindGlobalIndex(root));
    LeaveOwner(owner);
}

void RebuildGlobalIndex(Oid root) {
    FollowOwner(root);
    OwnerContext owner = EnterOwner(RelationOwner(root));
    if (std::optional<GlobalIndex> index = FindGlobalIndex(root))
        Rebuild(*index);
    else
        Build(root, Children::Former);
    LeaveOwner(owner);
}

} // namespace index_table
