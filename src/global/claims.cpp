#include "global/claims.h"

#include "core/public.h"
#include "global/address.h"
#include "global/addressed_rows.h"
#include "global/child_index.h"
#include "global/storage.h"

namespace index_table {
namespace {

// A partition in which a key was found.
struct HolderLeaf {
    Relation rel;
    AddressedPartition *rows;
    TupleTableSlot *slot;
    HolderLeaf *next;
};

} // namespace

struct UniqueTree {
    Relation storage;
    Relation tree;
    LOCKMODE lock;
    int key_count;
    ScanKeyData *keys;
    IndexInfo *info;
    SnapshotData dirty;
    MemoryContext memory;
    HolderLeaf *leaves;
    NumberMap by_oid;
    bool has_claim; // the key that was looked for is claimed by this transaction
    bool must_drop; // there is a claim for
    Datum *values;  // this key
    bool *nulls;
};

namespace {

HolderLeaf *GetLeaf(UniqueTree *tree, Oid relid) {
    if (auto *known = static_cast<HolderLeaf *>(tree->by_oid.Find(relid)))
        return known;
    Relation rel = OidIsValid(relid) ? try_relation_open(relid, tree->lock) : nullptr;
    if (!rel)
        return nullptr;
    MemoryContext caller = MemoryContextSwitchTo(tree->memory);
    HolderLeaf *leaf = nullptr;
    if (AddressedPartition *rows = OpenAddressed(tree->storage, rel)) {
        leaf = palloc_object(HolderLeaf);
        *leaf = {.rel = rel,
                 .rows = rows,
                 .slot = table_slot_create(rel, nullptr),
                 .next = tree->leaves};
        tree->leaves = leaf;
        tree->by_oid.Add(relid, leaf, tree->memory);
    } else {
        relation_close(rel, NoLock);
    }
    MemoryContextSwitchTo(caller);
    return leaf;
}

IndexScanDesc BeginKeyScan(UniqueTree *tree, const Datum *values, const bool *nulls) {
    for (int i = 0; i < tree->key_count; i++)
        SetSearchValue(&tree->keys[i], values[i], nulls[i]);
    IndexScanDesc scan =
        compat::BeginIndexScan(tree->storage, tree->tree, &tree->dirty, tree->key_count);
    index_rescan(scan, tree->keys, tree->key_count, nullptr, 0);
    return scan;
}

// What has become of a key: nothing that is known yet, a row, or somebody who has to be waited for.
struct Finding {
    HolderLeaf *holder;
    TransactionId awaited;
    uint32 token;
};

Finding LookAtRow(UniqueTree *tree, const ItemPointerData *address) {
    HolderLeaf *leaf = GetLeaf(tree, PartitionOf(tree->storage, address));
    if (!leaf)
        return {};
    bool dead;
    InitDirtySnapshot(tree->dirty);
    if (!FetchAddressed(leaf->rows, address, &tree->dirty, leaf->slot, &dead))
        return {};
    TransactionId changing =
        TransactionIdIsValid(tree->dirty.xmin) ? tree->dirty.xmin : tree->dirty.xmax;
    if (!TransactionIdIsValid(changing))
        return {.holder = leaf};
    ExecClearTuple(leaf->slot);
    return {.awaited = changing, .token = tree->dirty.speculativeToken};
}

Finding LookAtClaim(UniqueTree *tree, const ItemPointerData *claim) {
    switch (StateOf(claim)) {
    case ClaimState::Own:
        tree->has_claim = true;
        return {};
    case ClaimState::Others:
        return {.awaited = ClaimerOf(claim)};
    case ClaimState::Over:
        break;
    }
    return {};
}

Finding Look(UniqueTree *tree, const Datum *values, const bool *nulls) {
    Finding finding = {};
    tree->has_claim = false;
    IndexScanDesc scan = BeginKeyScan(tree, values, nulls);
    while (!finding.holder && !TransactionIdIsValid(finding.awaited)) {
        ItemPointer found = index_getnext_tid(scan, ForwardScanDirection);
        if (!found)
            break;
        ItemPointerData address = *found;
        finding = IsClaim(&address) ? LookAtClaim(tree, &address) : LookAtRow(tree, &address);
    }
    index_endscan(scan);
    return finding;
}

// A claim that was dropped is there until its page is tidied up: the same again would repeat it.
bool IsSpent(UniqueTree *tree, const Datum *values, const bool *nulls, TransactionId xid) {
    ItemPointerData claim = ClaimOf(xid);
    bool found = false;
    IndexScanDesc scan = BeginKeyScan(tree, values, nulls);
    scan->ignore_killed_tuples = false;
    while (!found) {
        ItemPointer address = index_getnext_tid(scan, ForwardScanDirection);
        if (!address)
            break;
        found = ItemPointerEquals(address, &claim);
    }
    index_endscan(scan);
    return found;
}

// Whether a key is nobody's, for a NULL in it.
bool IsNobodys(const UniqueTree *tree, const bool *nulls) {
    return !tree->tree->rd_index->indnullsnotdistinct &&
           std::any_of(nulls, nulls + tree->key_count, [](bool isnull) { return isnull; });
}

void RememberClaim(UniqueTree *tree, const Datum *values, const bool *nulls) {
    MemoryContext caller = MemoryContextSwitchTo(tree->memory);
    for (int i = 0; i < tree->key_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(tree->storage), i);
        tree->nulls[i] = nulls[i];
        if (!nulls[i])
            tree->values[i] = datumCopy(values[i], att->attbyval, att->attlen);
    }
    MemoryContextSwitchTo(caller);
    tree->must_drop = true;
}

void ForgetClaim(UniqueTree *tree) {
    for (int i = 0; i < tree->key_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(tree->storage), i);
        if (!tree->nulls[i] && !att->attbyval)
            pfree(DatumGetPointer(tree->values[i]));
    }
    tree->must_drop = false;
}

} // namespace

bool IsChildOf(Relation index, Oid storage) {
    return index->rd_rel->relam == GlobalMethod() && BelongsTo(index, storage);
}

// As PostgreSQL says it of a unique index of the partitioned table.
void RaiseDuplicate(Relation child, Datum *values, bool *nulls) {
    Relation root = index_open(RootIndexOf(child), AccessShareLock);
    Relation base = table_open(root->rd_index->indrelid, AccessShareLock);
    char *key = BuildIndexValueDescription(child, values, nulls);
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
                    errmsg("duplicate key value violates unique constraint \"%s\"",
                           RelationGetRelationName(root)),
                    key ? errdetail("Key %s already exists.", key) : 0,
                    errtableconstraint(base, RelationGetRelationName(root))));
}

ClaimState StateOf(const ItemPointerData *claim) {
    TransactionId claimer = ClaimerOf(claim);
    if (TransactionIdIsCurrentTransactionId(claimer))
        return ClaimState::Own;
    // Nobody freezes claims: of one that is left for long the id comes to stand for a later one.
    return TransactionIdPrecedes(claimer, ReadNextTransactionId()) &&
                   TransactionIdIsInProgress(claimer)
               ? ClaimState::Others
               : ClaimState::Over;
}

UniqueTree *OpenUniqueTree(Oid storage, LOCKMODE lock) {
    UniqueTree *tree = palloc0_object(UniqueTree);
    tree->storage = relation_open(storage, RowExclusiveLock);
    tree->tree = OpenTree(tree->storage, RowExclusiveLock);
    tree->lock = lock;
    tree->key_count = tree->tree->rd_index->indnkeyatts;
    tree->keys = MakeSearchKeys(tree->tree, tree->key_count);
    tree->info = BuildIndexInfo(tree->tree);
    tree->memory = CurrentMemoryContext;
    tree->values = palloc0_array(Datum, tree->key_count);
    tree->nulls = palloc0_array(bool, tree->key_count);
    InitDirtySnapshot(tree->dirty);
    return tree;
}

void CloseUniqueTree(UniqueTree *tree) {
    for (HolderLeaf *leaf = tree->leaves; leaf; leaf = leaf->next) {
        ExecDropSingleTupleTableSlot(leaf->slot);
        CloseAddressed(leaf->rows);
        relation_close(leaf->rel, NoLock);
    }
    tree->by_oid.Destroy();
    index_close(tree->tree, NoLock);
    relation_close(tree->storage, NoLock);
}

KeyHolder FindKeyHolder(UniqueTree *tree, const Datum *values, const bool *nulls) {
    FAULT_POINT("claims.find_key_holder");
    if (IsNobodys(tree, nulls))
        return {};
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        Finding finding = Look(tree, values, nulls);
        if (finding.holder)
            return {.partition = finding.holder->rel, .slot = finding.holder->slot};
        if (!TransactionIdIsValid(finding.awaited))
            return {};
        if (finding.token)
            SpeculativeInsertionWait(finding.awaited, finding.token);
        else
            XactLockTableWait(finding.awaited, nullptr, nullptr, XLTW_None);
    }
}

bool ClaimKey(UniqueTree *tree, Datum *values, bool *nulls) {
    FAULT_POINT("claims.claim_key");
    if (tree->has_claim || IsNobodys(tree, nulls))
        return true;
    TransactionId own = GetCurrentTransactionId();
    bool is_spent = IsSpent(tree, values, nulls, own);
    const char *error = TryInSubtransaction(
        [&] {
            ItemPointerData claim = ClaimOf(is_spent ? GetCurrentTransactionId() : own);
            index_insert(tree->tree, values, nulls, &claim, tree->storage, UNIQUE_CHECK_YES, false,
                         tree->info);
        },
        [](const ErrorData *raised) { return raised->sqlerrcode == ERRCODE_UNIQUE_VIOLATION; });
    if (error)
        return false;
    RememberClaim(tree, values, nulls);
    return true;
}

void DropClaim(UniqueTree *tree) {
    if (!tree->must_drop)
        return;
    IndexScanDesc scan = BeginKeyScan(tree, tree->values, tree->nulls);
    while (ItemPointer address = index_getnext_tid(scan, ForwardScanDirection))
        scan->kill_prior_tuple = IsClaim(address) && StateOf(address) != ClaimState::Others;
    index_endscan(scan);
    ForgetClaim(tree);
}

} // namespace index_table
