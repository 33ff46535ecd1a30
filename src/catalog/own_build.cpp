#include "catalog/own_build.h"

namespace index_table {
namespace {

// A copy of the snapshot of the last build, in the transaction's memory; null: none.
constinit Snapshot last_build = nullptr;

TransactionId *CopyXids(const TransactionId *xids, int count) {
    TransactionId *copy = palloc_array(TransactionId, Max(1, count));
    std::copy(xids, xids + count, copy);
    return copy;
}

// Whether `xid` had ended for the last build, and so may have had a part in it.
bool IsInLastBuild(TransactionId xid) {
    return TransactionIdPrecedes(xid, last_build->xmax) &&
           !TransactionIdIsCurrentTransactionId(xid) && !XidInMVCCSnapshot(xid, last_build);
}

} // namespace

void RememberOwnBuild() {
    Snapshot latest = GetLatestSnapshot();
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    Snapshot copy = static_cast<Snapshot>(palloc(sizeof(SnapshotData)));
    *copy = *latest;
    copy->xip = CopyXids(latest->xip, latest->xcnt);
    copy->subxip = CopyXids(latest->subxip, latest->subxcnt);
    MemoryContextSwitchTo(caller);
    if (last_build) {
        pfree(last_build->xip);
        pfree(last_build->subxip);
        pfree(last_build);
    }
    last_build = copy;
}

bool ShowsOwnBuilds(Snapshot snapshot) {
    Assert(snapshot);
    if (!last_build)
        return false;
    if (std::any_of(snapshot->xip, snapshot->xip + snapshot->xcnt, IsInLastBuild))
        return false;
    TransactionId xid = snapshot->xmax;
    while (TransactionIdPrecedes(xid, last_build->xmax)) {
        if (IsInLastBuild(xid))
            return false;
        TransactionIdAdvance(xid);
    }
    return true;
}

void AtEOXactOwnBuilds() {
    last_build = nullptr;
}

} // namespace index_table
