#include "ddl/single_user.h"

#include "catalog/public.h"

namespace index_table {
namespace {

// Those that fire event triggers, less those that change no definition of a table.
bool IsFollowed(Node *command) {
    switch (nodeTag(command)) {
    case T_GrantStmt:
    case T_CommentStmt:
    case T_SecLabelStmt:
    case T_ReindexStmt:
    case T_RefreshMatViewStmt:
        return false;
    default:
        return command_tag_event_trigger_ok(CreateCommandTag(command));
    }
}

} // namespace

void RefuseInSingleUserMode(Node *command) {
    if (IsUnderPostmaster || !IsFollowed(command) || !IsInstalled())
        return;
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("cannot execute %s in single-user mode in a database with the extension "
                "index_table",
                CreateCommandName(command)),
         errdetail("Event triggers, by which index tables and global indexes follow it, are not "
                   "fired in single-user mode."),
         errhint("Start the server. If that is impossible, take index_table out of "
                 "shared_preload_libraries, and REINDEX or repair() afterwards.")));
}

} // namespace index_table
