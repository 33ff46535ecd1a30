#include "global/options.h"

#include "core/public.h"
#include "global/global_index.h"

namespace index_table {
namespace {

// As PostgreSQL keeps it in the relation cache.
struct StoredOptions {
    int32 vl_len_;
    bool unique;
    int method; // offset of a string
    int vacuum;
    bool visible;
};

constexpr const char *kUnique = "unique";
constexpr const char *kMethod = "method";
constexpr const char *kDefaultMethod = "btree";
constexpr const char *kVisible = "visible";
constexpr GlobalOptions kDefaults = {
    .unique = false, .method = BTREE_AM_OID, .vacuum = GlobalVacuum::Lazy, .visible = true};

constinit relopt_kind kind = RELOPT_KIND_LOCAL;

// PostgreSQL keeps the address.
constinit relopt_enum_elt_def vacuum_values[] = {{"lazy", static_cast<int>(GlobalVacuum::Lazy)},
                                                 {"eager", static_cast<int>(GlobalVacuum::Eager)},
                                                 {nullptr, 0}};

constexpr relopt_parse_elt kElements[] = {
    {kUnique, RELOPT_TYPE_BOOL, offsetof(StoredOptions, unique)},
    {kMethod, RELOPT_TYPE_STRING, offsetof(StoredOptions, method)},
    {"vacuum", RELOPT_TYPE_ENUM, offsetof(StoredOptions, vacuum)},
    {kVisible, RELOPT_TYPE_BOOL, offsetof(StoredOptions, visible)}};

bool IsOwn(const DefElem *option) {
    return std::any_of(std::begin(kElements), std::end(kElements), [&](const auto &element) {
        return strcmp(element.optname, option->defname) == 0;
    });
}

// Those that are for both, or the others.
Datum Select(Datum reloptions, bool own) {
    List *selected = NIL;
    ListCell *cell;
    foreach (cell, untransformRelOptions(reloptions)) {
        DefElem *option = lfirst_node(DefElem, cell);
        if (IsOwn(option) == own)
            selected = lappend(selected, option);
    }
    return transformRelOptions(0, selected, nullptr, nullptr, false, false);
}

void CheckTreeOptions(Datum reloptions) {
    Oid method = FindTreeMethod(TreeMethodName(untransformRelOptions(reloptions)));
    index_reloptions(GetIndexAmRoutineByAmId(method, false)->amoptions, Select(reloptions, false),
                     true);
}

// The default is checked without a database.
void CheckMethod(const char *value) {
    if (strcmp(value, kDefaultMethod) != 0)
        FindTreeMethod(value);
}

// What is no truth value PostgreSQL refuses later.
bool IsTrue(DefElem *option) {
    bool value = true;
    return !option->arg || (parse_bool(defGetString(option), &value) && value);
}

[[noreturn]] void RaiseNoTree(const char *method, const char *detail) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("global indexes of method \"%s\" are not supported", method),
                    errdetail("%s", detail),
                    errhint("Use another method, or an index of method \"%s\" on each partition.",
                            method)));
}

[[noreturn]] void RaiseLacking(Oid method, const char *what) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("access method \"%s\" does not support %s", get_am_name(method), what)));
}

} // namespace

void InitializeGlobalOptions() {
    kind = add_reloption_kind();
    add_bool_reloption(kind, kUnique, "Keeps the key unique over all partitions", kDefaults.unique,
                       AccessExclusiveLock);
    add_string_reloption(kind, kMethod, "Access method of the index over all partitions",
                         kDefaultMethod, CheckMethod, AccessExclusiveLock);
    add_enum_reloption(kind, "vacuum", "When entries of removed rows go", vacuum_values,
                       static_cast<int>(kDefaults.vacuum),
                       "Valid values are \"lazy\" and \"eager\".", ShareUpdateExclusiveLock);
    add_bool_reloption(kind, kVisible, "Lets queries use the index", kDefaults.visible,
                       ShareUpdateExclusiveLock);
}

bytea *GlobalOptionsOf(Datum reloptions, bool validate) {
    Assert(kind != RELOPT_KIND_LOCAL);
    if (validate)
        CheckTreeOptions(reloptions);
    return static_cast<bytea *>(build_reloptions(validate ? Select(reloptions, true) : reloptions,
                                                 validate, kind, sizeof(StoredOptions), kElements,
                                                 lengthof(kElements)));
}

GlobalOptions GetGlobalOptions(Relation index) {
    const StoredOptions *stored = reinterpret_cast<StoredOptions *>(index->rd_options);
    if (!stored)
        return kDefaults;
    const char *method = reinterpret_cast<const char *>(stored) + stored->method;
    return {.unique = stored->unique,
            .method =
                strcmp(method, kDefaultMethod) == 0 ? kDefaults.method : get_am_oid(method, true),
            .vacuum = static_cast<GlobalVacuum>(stored->vacuum),
            .visible = stored->visible};
}

// PostgreSQL has no statement that changes options of a partitioned index.
void StoreGlobalVisibility(Oid root, bool visible) {
    FAULT_POINT("options.store_global_visibility");
    Assert(IsLocked(root, ShareUpdateExclusiveLock));
    Relation classes = table_open(RelationRelationId, RowExclusiveLock);
    HeapTuple tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(root));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for index %u", root);
    bool isnull;
    Datum old = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
    Node *off = visible ? nullptr : reinterpret_cast<Node *>(makeString(pstrdup("off")));
    List *changed = list_make1(makeDefElem(pstrdup(kVisible), off, -1));
    Datum options =
        transformRelOptions(isnull ? Datum{0} : old, changed, nullptr, nullptr, false, visible);
    Datum values[Natts_pg_class] = {};
    bool nulls[Natts_pg_class] = {};
    bool replace[Natts_pg_class] = {};
    values[Anum_pg_class_reloptions - 1] = options;
    nulls[Anum_pg_class_reloptions - 1] = options == Datum{0};
    replace[Anum_pg_class_reloptions - 1] = true;
    tuple = heap_modify_tuple(tuple, RelationGetDescr(classes), values, nulls, replace);
    CatalogTupleUpdate(classes, &tuple->t_self, tuple);
    InvokeObjectPostAlterHook(RelationRelationId, root, 0);
    table_close(classes, RowExclusiveLock);
    CommandCounterIncrement();
}

Datum TreeOptionsOf(Oid root) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(root));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for index %u", root);
    bool isnull;
    Datum reloptions = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
    Datum selected = isnull ? Datum{0} : Select(reloptions, false);
    ReleaseSysCache(tuple);
    return selected;
}

Oid FindTreeMethod(const char *name) {
    Oid oid = get_index_am_oid(name, false);
    if (oid == BRIN_AM_OID)
        RaiseNoTree(name, "A BRIN index holds ranges of the blocks of one table.");
    if (oid == GlobalMethod())
        RaiseNoTree(name, "Its indexes hold no entries.");
    const IndexAmRoutine *routine = GetIndexAmRoutineByAmId(oid, false);
    if (!routine->amgettuple && !routine->amgetbitmap)
        RaiseNoTree(name, "Its indexes cannot be scanned.");
    return oid;
}

// As PostgreSQL says it of an index by itself.
void CheckTreeForm(const TreeForm &form, Oid method) {
    const IndexAmRoutine *routine = GetIndexAmRoutineByAmId(method, false);
    if (form.is_unique && !routine->amcanunique)
        RaiseLacking(method, "unique indexes");
    if (form.has_included && !routine->amcaninclude)
        RaiseLacking(method, "included columns");
    if (form.key_count > 1 && !routine->amcanmulticol)
        RaiseLacking(method, "multicolumn indexes");
    if (form.is_ordered && !routine->amcanorder)
        RaiseLacking(method, "ASC/DESC options");
    if (form.places_nulls && !routine->amcanorder)
        RaiseLacking(method, "NULLS FIRST/LAST options");
}

bool SaysUnique(List *options) {
    ListCell *cell;
    foreach (cell, options) {
        DefElem *option = lfirst_node(DefElem, cell);
        if (strcmp(option->defname, kUnique) == 0)
            return IsTrue(option);
    }
    return false;
}

const char *TreeMethodName(List *options) {
    ListCell *cell;
    foreach (cell, options) {
        DefElem *option = lfirst_node(DefElem, cell);
        if (strcmp(option->defname, kMethod) == 0)
            return defGetString(option);
    }
    return kDefaultMethod;
}

} // namespace index_table
