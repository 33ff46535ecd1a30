#include "global/operator_classes.h"

#include "core/public.h"
#include "global/global_index.h"
#include "global/options.h"
#include "global/storage.h"

namespace index_table {
namespace {

struct OperatorClass {
    Oid oid;
    Oid method;
    NameData name;
    Oid schema;
    Oid family;
    Oid type;
    bool is_default;
};

OperatorClass ReadForm(HeapTuple tuple) {
    Form_pg_opclass form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    return {.oid = form->oid,
            .method = form->opcmethod,
            .name = form->opcname,
            .schema = form->opcnamespace,
            .family = form->opcfamily,
            .type = form->opcintype,
            .is_default = form->opcdefault};
}

[[noreturn]] void RaiseDroppedClass(Oid oid) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("operator class with OID %u does not exist", oid)));
}

OperatorClass ReadClass(Oid oid) {
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(oid));
    if (!HeapTupleIsValid(tuple))
        RaiseDroppedClass(oid);
    OperatorClass result = ReadForm(tuple);
    ReleaseSysCache(tuple);
    return result;
}

// --- Mirrors and what they mirror ----------------------------------------------

// A mirror has one support function that tells of what class it is, under a number that tells the
// method.
struct Identity {
    Oid method;
    int16 number;    // of a function that every class of the method has
    int16 in_mirror; // that function's number there
};
constexpr Identity kIdentities[] = {{BTREE_AM_OID, BTORDER_PROC, 1},
                                    {GIN_AM_OID, GIN_EXTRACTVALUE_PROC, 8},
                                    {GIST_AM_OID, GIST_CONSISTENT_PROC, 9},
                                    {SPGIST_AM_OID, SPGIST_CONFIG_PROC, 10},
                                    {HASH_AM_OID, HASHSTANDARD_PROC, 11}};
constexpr int16 kOthersInMirror = 12; // the first function that a class of another method has

const Identity *FindIdentity(Oid method) {
    auto found = std::find_if(std::begin(kIdentities), std::end(kIdentities),
                              [&](const Identity &identity) { return identity.method == method; });
    return found == std::end(kIdentities) ? nullptr : found;
}

Oid FunctionOf(const OperatorClass &opclass, int16 number) {
    return get_opfamily_proc(opclass.family, opclass.type, opclass.type, number);
}

Oid FirstFunctionOf(const OperatorClass &opclass) {
    int count = GetIndexAmRoutineByAmId(opclass.method, false)->amsupport;
    Oid function = InvalidOid;
    for (int number = 1; number <= count && !OidIsValid(function); number++)
        function = FunctionOf(opclass, static_cast<int16>(number));
    return function;
}

Oid IdentityOf(const OperatorClass &opclass) {
    const Identity *identity = FindIdentity(opclass.method);
    return identity ? FunctionOf(opclass, identity->number) : FirstFunctionOf(opclass);
}

int16 NumberInMirror(Oid method) {
    const Identity *identity = FindIdentity(method);
    return identity ? identity->in_mirror : kOthersInMirror;
}

// For B-trees the same; others have classes of the same names.
const char *MirrorName(const OperatorClass &opclass) {
    const char *name = NameStr(opclass.name);
    if (opclass.method == BTREE_AM_OID)
        return pstrdup(name);
    const char *method = get_am_name(opclass.method);
    size_t length = strlen(method);
    bool has_prefix = strncmp(name, method, length) == 0 && name[length] == '_';
    return has_prefix ? pstrdup(name) : makeObjectName(method, name, nullptr);
}

// Of classes that are alike, how surely a mirror is one's: names may have been changed since, and
// where a mirror could not be beside its class it has the name alone.
int Resemblance(const OperatorClass &mirror, const OperatorClass &opclass) {
    if (strcmp(NameStr(mirror.name), MirrorName(opclass)) != 0)
        return 0;
    return mirror.schema == opclass.schema ? 2 : 1;
}

// Of the classes of an access method, that which resembles(class) says to be most alike; less than
// 0 stands for not at all. InvalidOid: none is.
template <typename Resembles>
Oid FindBest(Oid method, Resembles resembles) {
    Oid found = InvalidOid;
    int best = -1;
    CatCList *classes = SearchSysCacheList1(CLAAMNAMENSP, ObjectIdGetDatum(method));
    for (int i = 0; i < classes->n_members; i++) {
        OperatorClass candidate = ReadForm(&classes->members[i]->tuple);
        int resemblance = resembles(candidate);
        if (resemblance < 0 || resemblance < best || (resemblance == best && candidate.oid > found))
            continue;
        found = candidate.oid;
        best = resemblance;
    }
    ReleaseSysCacheList(classes);
    return found;
}

// The class of an access method that a mirror stands for; InvalidOid: none.
Oid FindMirrored(const OperatorClass &mirror, Oid method) {
    Oid identity = FunctionOf(mirror, NumberInMirror(method));
    if (!OidIsValid(identity))
        return InvalidOid;
    return FindBest(method, [&](const OperatorClass &candidate) {
        return candidate.type == mirror.type && IdentityOf(candidate) == identity
                   ? Resemblance(mirror, candidate)
                   : -1;
    });
}

// The mirror of a class; InvalidOid: it has none yet.
Oid FindMirror(const OperatorClass &opclass) {
    int16 number = NumberInMirror(opclass.method);
    Oid identity = IdentityOf(opclass);
    Oid mirror = FindBest(GlobalMethod(), [&](const OperatorClass &candidate) {
        return candidate.type == opclass.type && FunctionOf(candidate, number) == identity
                   ? Resemblance(candidate, opclass)
                   : -1;
    });
    // Another class of the type may be alike in this, and have other operators.
    return OidIsValid(mirror) && FindMirrored(ReadClass(mirror), opclass.method) == opclass.oid
               ? mirror
               : InvalidOid;
}

// --- Making them ---------------------------------------------------------------

bool HasDefault(Oid method, Oid type) {
    Oid opclass = GetDefaultOpClass(type, method);
    return OidIsValid(opclass) && get_opclass_input_type(opclass) == type;
}

// What later comes into pg_catalog is not dumped, and would be lost to pg_upgrade.
const char *SchemaOfMirror(const OperatorClass &opclass) {
    return opclass.schema == PG_CATALOG_NAMESPACE ? "index_table"
                                                  : get_namespace_name(opclass.schema);
}

void DependOnClass(Oid catalog, Oid object, Oid opclass) {
    ObjectAddress dependent, referenced;
    ObjectAddressSet(dependent, catalog, object);
    ObjectAddressSet(referenced, OperatorClassRelationId, opclass);
    recordDependencyOn(&dependent, &referenced, DEPENDENCY_AUTO);
}

// A mirror keeps nobody from dropping its class. A dump does not bring the dependency along.
void EnsureDependency(Oid mirror, Oid opclass) {
    bool depends = IsPinnedObject(OperatorClassRelationId, opclass);
    ForEachDependency(OperatorClassRelationId, mirror, AccessShareLock,
                      [&](Relation, HeapTuple, Form_pg_depend form) {
                          depends = depends || (form->refclassid == OperatorClassRelationId &&
                                                form->refobjid == opclass);
                      });
    if (depends)
        return;
    DependOnClass(OperatorClassRelationId, mirror, opclass);
    DependOnClass(OperatorFamilyRelationId, get_opclass_family(mirror), opclass);
}

// The function that reads a class's parameters; InvalidOid: it has none.
Oid ParametersOf(const OperatorClass &opclass) {
    uint16 number = GetIndexAmRoutineByAmId(opclass.method, false)->amoptsprocnum;
    return number == 0 ? InvalidOid : FunctionOf(opclass, static_cast<int16>(number));
}

// Runs nothing of the type's or the class's owner.
void CreateMirror(const OperatorClass &opclass) {
    // Access method global has one default a type.
    bool is_default = opclass.is_default && opclass.method == BTREE_AM_OID &&
                      !HasDefault(GlobalMethod(), opclass.type);
    Oid parameters = ParametersOf(opclass);
    OwnerContext superuser = EnterOwner(BOOTSTRAP_SUPERUSERID);
    RunStatement(
        psprintf("CREATE OPERATOR CLASS %s %s FOR TYPE %s USING global AS FUNCTION %d %s%s",
                 quote_qualified_identifier(SchemaOfMirror(opclass), MirrorName(opclass)),
                 is_default ? "DEFAULT" : "", QualifiedTypeName(opclass.type),
                 NumberInMirror(opclass.method), format_procedure_qualified(IdentityOf(opclass)),
                 OidIsValid(parameters) ? psprintf(", FUNCTION %d %s", kParametersInMirror,
                                                   format_procedure_qualified(parameters))
                                        : ""));
    LeaveOwner(superuser);
}

// The mirror of a class, made if there is none.
Oid EnsureMirror(Oid oid) {
    Oid mirror = FindMirror(ReadClass(oid));
    if (!OidIsValid(mirror)) {
        LockDatabaseObject(OperatorClassRelationId, oid, 0, ShareUpdateExclusiveLock);
        OperatorClass opclass = ReadClass(oid); // not dropped meanwhile, nor mirrored by others
        mirror = FindMirror(opclass);
        if (!OidIsValid(mirror)) {
            CreateMirror(opclass);
            mirror = FindMirror(opclass);
        }
        if (!OidIsValid(mirror))
            elog(ERROR, "operator class %u was not mirrored", oid);
    }
    EnsureDependency(mirror, oid);
    return mirror;
}

// --- What a command asks for -----------------------------------------------------

// InvalidOid where there is no such column: PostgreSQL says so.
Oid ColumnType(Relation base, const char *name) {
    AttrNumber attno = get_attnum(RelationGetRelid(base), name);
    return attno > 0 ? get_atttype(RelationGetRelid(base), attno) : InvalidOid;
}

// As the command will find it, by the same rules and with the same rights.
Oid ExpressionType(Relation base, Node *expression) {
    ParseState *state = make_parsestate(nullptr);
    ParseNamespaceItem *item =
        addRangeTableEntryForRelation(state, base, AccessShareLock, nullptr, false, true);
    addNSItemToQuery(state, item, false, true, true);
    Node *bound = transformExpr(state, copyObject(expression), EXPR_KIND_INDEX_EXPRESSION);
    Oid type = exprType(bound);
    free_parsestate(state);
    return type;
}

Oid KeyType(Relation base, const IndexElem *element) {
    return element->name ? ColumnType(base, element->name) : ExpressionType(base, element->expr);
}

// Else the default of a type that it is binary-coercible to would be taken, of which B-trees know
// better: text_ops for citext.
Oid DefaultClass(Oid type, Oid method) {
    Oid opclass = GetDefaultOpClass(type, method);
    if (!OidIsValid(opclass) && method == BTREE_AM_OID)
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT),
                 errmsg("data type %s has no default operator class for access method \"global\"",
                        format_type_be(type)),
                 errhint("Name an operator class for B-trees, define one that is the default of "
                         "the data type, or choose another method: WITH (method = ...).")));
    if (!OidIsValid(opclass))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT),
                 errmsg("data type %s has no default operator class for access method \"%s\"",
                        format_type_be(type), get_am_name(method)),
                 errhint("You must specify an operator class for the index or define a default "
                         "operator class for the data type.")));
    return opclass;
}

// What PostgreSQL will find by itself; InvalidOid: nothing.
Oid FindAsWritten(const List *name, Oid type) {
    return name == NIL ? GetDefaultOpClass(type, GlobalMethod())
                       : get_opclass_oid(GlobalMethod(), const_cast<List *>(name), true);
}

// In the statement's memory: that of an event trigger is gone when the command runs.
void NameClass(IndexElem *element, Oid mirror) {
    OperatorClass opclass = ReadClass(mirror);
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(element));
    element->opclass = list_make2(makeString(get_namespace_name(opclass.schema)),
                                  makeString(pstrdup(NameStr(opclass.name))));
    MemoryContextSwitchTo(caller);
}

[[noreturn]] void RaiseNoClass(const List *name, Oid method) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("operator class \"%s\" does not exist for access method \"%s\"",
                           NameListToString(const_cast<List *>(name)), get_am_name(method))));
}

// A name that is no class of the method may be that of a mirror, as dumps have it: of the same
// method then.
void CheckWritten(const IndexElem *element, Oid type, Oid method) {
    Oid written = FindAsWritten(element->opclass, type);
    if (!OidIsValid(written) || !OidIsValid(FindMirrored(ReadClass(written), method)))
        RaiseNoClass(element->opclass, method);
}

// The default of the type is mirrored besides what is named: by it pg_dump decides whether it has
// to write the name.
void MirrorBtreeClassOf(IndexElem *element, Oid type) {
    Oid by_default = GetDefaultOpClass(type, BTREE_AM_OID);
    Oid mirror = OidIsValid(by_default) || element->opclass == NIL
                     ? EnsureMirror(DefaultClass(type, BTREE_AM_OID))
                     : InvalidOid;
    if (element->opclass != NIL) {
        Oid named = get_opclass_oid(BTREE_AM_OID, element->opclass, true);
        if (!OidIsValid(named)) {
            CheckWritten(element, type, BTREE_AM_OID);
            return;
        }
        mirror = EnsureMirror(named);
    }
    if (FindAsWritten(element->opclass, type) != mirror)
        NameClass(element, mirror);
}

// Mirrors of other methods are never found but by their names, which dumps write.
void MirrorClassOf(IndexElem *element, Oid type, Oid method) {
    if (method == BTREE_AM_OID) {
        MirrorBtreeClassOf(element, type);
        return;
    }
    Oid opclass = element->opclass == NIL ? DefaultClass(type, method)
                                          : get_opclass_oid(method, element->opclass, true);
    if (!OidIsValid(opclass)) {
        CheckWritten(element, type, method);
        return;
    }
    Oid mirror = EnsureMirror(opclass);
    if (FindAsWritten(element->opclass, type) != mirror)
        NameClass(element, mirror);
}

// --- Indexes that are there ------------------------------------------------------

// Calls visit(index) for the OID of each global index of a table, without locks.
template <typename Visit>
void ForEachGlobalIndex(Oid base, Visit visit) {
    SystemScan scan(IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, base);
    while (auto form = scan.Next<Form_pg_index>())
        if (IsGlobalIndex(form->indexrelid))
            visit(form->indexrelid);
    scan.End();
}

// B-trees have the mirror of the type's default where none is named.
bool IsDefaultMirrored(Oid type) {
    Oid native = GetDefaultOpClass(type, BTREE_AM_OID);
    Oid found = GetDefaultOpClass(type, GlobalMethod());
    return !OidIsValid(native) || (OidIsValid(found) && FindMirror(ReadClass(native)) == found);
}

void CheckClassesOf(Relation index) {
    Oid method = GetGlobalOptions(index).method;
    for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++) {
        Oid type = TupleDescAttr(RelationGetDescr(index), i)->atttypid;
        if (method == BTREE_AM_OID
                ? IsDefaultMirrored(type)
                : OidIsValid(FindMirrored(ReadClass(compat::OperatorClassOf(index, i)), method)))
            continue;
        ereport(
            ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("index \"%s\" cannot be made by this command", RelationGetRelationName(index)),
             errdetail("Access method \"global\" has no operator class for type %s yet.",
                       format_type_be(type)),
             errhint("Make the index by a CREATE INDEX of its own, after this command.")));
    }
}

// PostgreSQL makes an index of a column that gets another type by its definition, where classes of
// other methods than B-trees are named: another type needs another one.
void CheckNewType(Oid base, const char *column, Oid type) {
    ForEachGlobalIndex(base, [&](Oid oid) {
        Relation index = index_open(oid, AccessShareLock);
        bool fits = true;
        if (GetGlobalOptions(index).method != BTREE_AM_OID)
            for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
                fits = fits && (index->rd_index->indkey.values[i] != get_attnum(base, column) ||
                                IsBinaryCoercible(type, get_opclass_input_type(
                                                            compat::OperatorClassOf(index, i))));
        index_close(index, AccessShareLock);
        if (!fits)
            ereport(
                ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("cannot change the type of column \"%s\"", column),
                 errdetail("The operator class that index \"%s\" has for it does not accept type "
                           "%s.",
                           get_rel_name(oid), format_type_be(type)),
                 errhint("Drop the index, and create it again after this command.")));
    });
}

} // namespace

void MirrorOperatorClasses(IndexStmt *statement, Relation base, Oid method) {
    Assert(IsLocked(RelationGetRelid(base), ShareLock));
    ListCell *cell;
    foreach (cell, statement->indexParams) {
        IndexElem *element = lfirst_node(IndexElem, cell);
        Oid type = KeyType(base, element);
        if (OidIsValid(type))
            MirrorClassOf(element, type, method);
    }
}

bool IsGlobalIndex(Oid index) {
    Oid method = AccessMethodOf(index);
    return OidIsValid(method) && method == GlobalMethod();
}

bool HasGlobalIndex(Oid base) {
    bool found = false;
    ForEachGlobalIndex(base, [&](Oid) { found = true; });
    return found;
}

void MirrorNewTypes(const AlterTableStmt *statement, Oid base) {
    if (!OidIsValid(GlobalMethod()) || !HasGlobalIndex(base))
        return;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (command->subtype != AT_AlterColumnType)
            continue;
        Oid type = LookupTypeNameOid(nullptr, castNode(ColumnDef, command->def)->typeName, true);
        Oid opclass = OidIsValid(type) ? GetDefaultOpClass(type, BTREE_AM_OID) : InvalidOid;
        if (OidIsValid(opclass))
            EnsureMirror(opclass);
        if (OidIsValid(type))
            CheckNewType(base, command->name, type);
    }
}

void CheckOperatorClasses(Oid base) {
    if (!OidIsValid(base) || !OidIsValid(GlobalMethod()))
        return;
    ForEachGlobalIndex(base, [](Oid oid) {
        Relation index = index_open(oid, AccessShareLock);
        CheckClassesOf(index);
        index_close(index, AccessShareLock);
    });
}

Oid MirroredOperatorClass(Oid mirror, Oid method) {
    OperatorClass opclass = ReadClass(mirror);
    Oid mirrored = FindMirrored(opclass, method);
    if (!OidIsValid(mirrored)) {
        const char *name = get_am_name(method);
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT),
                 errmsg("operator class \"%s\" of access method \"global\" mirrors none of access "
                        "method \"%s\"",
                        NameStr(opclass.name), name),
                 errdetail("No operator class of access method \"%s\" for type %s has the same "
                           "support function.",
                           name, format_type_be(opclass.type))));
    }
    return mirrored;
}

} // namespace index_table
