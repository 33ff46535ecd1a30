// Acting as the owner of a table.
#pragma once

#include "pg.h"

namespace index_table {

// The user and settings that SQL of the extension, or what somebody else owns, runs under. After an
// error the transaction restores them.
struct OwnerContext {
    Oid saved_user;
    int saved_security;
    int guc_level;
};
OwnerContext EnterOwner(Oid owner);
void LeaveOwner(const OwnerContext &context);

} // namespace index_table
