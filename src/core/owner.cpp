#include "core/owner.h"

#include "core/contract.h"
#include "core/sql.h"

namespace index_table {

OwnerContext EnterOwner(Oid owner) {
    Assert(IsTransactionState());
    Assert(OidIsValid(owner));
    OwnerContext context;
    GetUserIdAndSecContext(&context.saved_user, &context.saved_security);
    SetUserIdAndSecContext(owner, context.saved_security | SECURITY_RESTRICTED_OPERATION |
                                      SECURITY_NOFORCE_RLS);
    context.guc_level = SecureSearchPath();
    return context;
}

void LeaveOwner(const OwnerContext &context) {
    Assert(IsInOwner());
    AtEOXact_GUC(false, context.guc_level);
    SetUserIdAndSecContext(context.saved_user, context.saved_security);
}

} // namespace index_table
