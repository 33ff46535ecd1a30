// Acting as the owner of a table.
#pragma once

#include "pg.h"

namespace index_table {

// The user and settings that SQL of the extension, or what somebody else owns, runs under. After an
// error the transaction restores them. Errors of code that does not find a name there are hinted at
// search_path.
struct OwnerContext {
    Oid saved_user;
    int saved_security;
    int guc_level;
    bool hints; // it is the outermost
};
OwnerContext EnterOwner(Oid owner);
void LeaveOwner(const OwnerContext &context);

} // namespace index_table
