#include "core/owner.h"

#include "core/contract.h"
#include "core/sql.h"

namespace index_table {
namespace {

void HintAtSearchPath(void *);
constinit ErrorContextCallback hint = {nullptr, HintAtSearchPath, nullptr};

bool IsHinting() {
    const ErrorContextCallback *callback = error_context_stack;
    while (callback && callback != &hint)
        callback = callback->previous;
    return callback;
}

// Where there is nothing above it, no code of others is running.
void HintAtSearchPath(void *) {
    if (error_context_stack == &hint)
        return;
    switch (geterrcode()) {
    case ERRCODE_UNDEFINED_FUNCTION:
    case ERRCODE_UNDEFINED_TABLE:
    case ERRCODE_UNDEFINED_OBJECT:
        errhint(
            "Functions run with search_path set to \"pg_catalog, pg_temp\" here. Have them name "
            "what they use with its schema, or give them a path of their own: ALTER FUNCTION "
            "... SET search_path = ....");
        break;
    default:
        break;
    }
}

} // namespace

OwnerContext EnterOwner(Oid owner) {
    Assert(IsTransactionState());
    Assert(OidIsValid(owner));
    OwnerContext context;
    GetUserIdAndSecContext(&context.saved_user, &context.saved_security);
    SetUserIdAndSecContext(owner, context.saved_security | SECURITY_RESTRICTED_OPERATION |
                                      SECURITY_NOFORCE_RLS);
    context.guc_level = SecureSearchPath();
    context.hints = !IsHinting();
    if (context.hints) {
        hint.previous = error_context_stack;
        error_context_stack = &hint;
    }
    return context;
}

void LeaveOwner(const OwnerContext &context) {
    Assert(IsInOwner());
    if (context.hints && error_context_stack == &hint)
        error_context_stack = hint.previous;
    AtEOXact_GUC(false, context.guc_level);
    SetUserIdAndSecContext(context.saved_user, context.saved_security);
}

} // namespace index_table
