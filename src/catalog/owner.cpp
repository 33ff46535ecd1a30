#include "catalog/owner.h"

#include "catalog/definition.h"
#include "catalog/key.h"

namespace index_table {

Oid RelationOwner(Oid relid) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        RaiseDropped(relid);
    Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
    ReleaseSysCache(tuple);
    return owner;
}

OwnerContext EnterOwner(Oid owner) {
    OwnerContext context;
    GetUserIdAndSecContext(&context.saved_user, &context.saved_security);
    SetUserIdAndSecContext(owner, context.saved_security | SECURITY_RESTRICTED_OPERATION |
                                      SECURITY_NOFORCE_RLS);
    context.guc_level = SecureSearchPath();
    return context;
}

void LeaveOwner(const OwnerContext &context) {
    AtEOXact_GUC(false, context.guc_level);
    SetUserIdAndSecContext(context.saved_user, context.saved_security);
}

} // namespace index_table
