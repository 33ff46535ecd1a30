#include "shard/connection_options.h"

#include "core/public.h"

namespace index_table {
namespace {

// Whether libpq is told of an option.
bool IsForLibpq(const char *name) {
    static constinit PQconninfoOption *known = nullptr;
    if (!known)
        known = PQconndefaults(); // kept for the session
    if (!known)
        ereport(ERROR, (errcode(ERRCODE_FDW_OUT_OF_MEMORY), errmsg("out of memory")));
    if (strcmp(name, "fallback_application_name") == 0 || strcmp(name, "client_encoding") == 0 ||
        strncmp(name, "oauth_", 6) == 0)
        return false;
    for (const PQconninfoOption *option = known; option->keyword; option++)
        if (strcmp(option->keyword, name) == 0)
            return !strchr(option->dispchar, 'D');
    return false;
}

// Replaces %a, %c, %C, %d, %p and %u in an application name.
char *ExpandApplicationName(const char *pattern) {
    StringInfoData name;
    initStringInfo(&name);
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            appendStringInfoChar(&name, *p);
            continue;
        }
        switch (*++p) {
        case '\0':
            return name.data;
        case '%':
            appendStringInfoChar(&name, '%');
            break;
        case 'a':
            appendStringInfoString(&name, application_name);
            break;
        case 'c':
            appendStringInfo(&name, "%lx.%x", static_cast<long>(MyStartTime), MyProcPid);
            break;
        case 'C':
            appendStringInfoString(&name, cluster_name);
            break;
        case 'd':
            appendStringInfoString(&name, MyProcPort ? MyProcPort->database_name : "");
            break;
        case 'p':
            appendStringInfo(&name, "%d", MyProcPid);
            break;
        case 'u':
            appendStringInfoString(&name, MyProcPort ? MyProcPort->user_name : "");
            break;
        default:
            break;
        }
    }
    return name.data;
}

bool IsPasswordRequired(const UserMapping *mapping) {
    const DefElem *option = FindOption(mapping->options, "password_required");
    return !option || defGetBoolean(const_cast<DefElem *>(option));
}

// The last value of a keyword, which is the one that counts.
const char *LastValue(const ConnectionOptions &options, const char *keyword) {
    const char *value = nullptr;
    for (int i = 0; options.keywords[i]; i++)
        if (strcmp(options.keywords[i], keyword) == 0)
            value = options.values[i];
    return value;
}

bool HasPassword(const ConnectionOptions &options) {
    for (int i = 0; options.keywords[i]; i++)
        if (strcmp(options.keywords[i], "password") == 0 && options.values[i][0] != '\0')
            return true;
    return false;
}

// Whether the client's own proof is passed through, and nothing else accepted.
bool PassesScramThrough(const ConnectionOptions &options) {
    const char *method = LastValue(options, "require_auth");
    return compat::HasScramKeys() && LastValue(options, "scram_client_key") &&
           LastValue(options, "scram_server_key") && method && strcmp(method, "scram-sha-256") == 0;
}

bool UsesScramPassthrough(ForeignServer *server, UserMapping *mapping) {
    const DefElem *option = FindOption(server->options, "use_scram_passthrough");
    if (!option)
        option = FindOption(mapping->options, "use_scram_passthrough");
    return option && defGetBoolean(const_cast<DefElem *>(option));
}

} // namespace

const DefElem *FindOption(List *options, const char *name) {
    ListCell *cell;
    foreach (cell, options)
        if (strcmp(lfirst_node(DefElem, cell)->defname, name) == 0)
            return lfirst_node(DefElem, cell);
    return nullptr;
}

const char *FindOptionText(List *options, const char *name) {
    const DefElem *option = FindOption(options, name);
    return option ? defGetString(const_cast<DefElem *>(option)) : nullptr;
}

ConnectionOptions GetConnectionOptions(ForeignServer *server, UserMapping *mapping) {
    Assert(IsMemoryFreed());
    ConnectionOptions options = {.mapping = mapping};
    constexpr int kMore = 7; // application names, encoding, SCRAM, the end
    int room = list_length(server->options) + list_length(mapping->options) + kMore;
    options.keywords = palloc0_array(const char *, room);
    options.values = palloc0_array(const char *, room);
    int count = 0;
    auto add = [&](const char *keyword, const char *value) {
        options.keywords[count] = keyword;
        options.values[count++] = value;
    };
    for (List *given : {server->options, mapping->options}) {
        ListCell *cell;
        foreach (cell, given) {
            DefElem *option = lfirst_node(DefElem, cell);
            if (IsForLibpq(option->defname))
                add(option->defname, defGetString(option));
        }
    }
    const char *name = GetConfigOption("postgres_fdw.application_name", true, false);
    if (name && *name)
        add("application_name", name);
    for (int i = 0; i < count; i++)
        if (strcmp(options.keywords[i], "application_name") == 0)
            options.values[i] = ExpandApplicationName(options.values[i]);
    add("fallback_application_name", "index_table");
    add("client_encoding", GetDatabaseEncodingName());
    if (compat::HasScramKeys() && UsesScramPassthrough(server, mapping)) {
        add("scram_client_key", compat::ScramClientKey());
        add("scram_server_key", compat::ScramServerKey());
        add("require_auth", "scram-sha-256");
    }
    const DefElem *keep = FindOption(server->options, "keep_connections");
    options.keeps = !keep || defGetBoolean(const_cast<DefElem *>(keep));
    // libpq heeds it only where it blocks.
    if (const char *seconds = LastValue(options, "connect_timeout"))
        options.connect_timeout = Min(atoi(seconds), INT_MAX / 1000) * 1000;
    return options;
}

void CheckBeforeConnecting(const ConnectionOptions &options) {
    if (superuser_arg(options.mapping->userid) || compat::HasDelegatedCredentials() ||
        HasPassword(options) || !IsPasswordRequired(options.mapping) || PassesScramThrough(options))
        return;
    ereport(ERROR, (errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
                    errmsg("password is required to connect to server \"%s\"",
                           GetForeignServer(options.mapping->serverid)->servername),
                    errdetail("Users who are no superusers must provide a password in the user "
                              "mapping."),
                    errhint("A superuser may set password_required=false in it.")));
}

const char *CheckAfterConnecting(const ConnectionOptions &options, PGconn *conn) {
    if (superuser_arg(options.mapping->userid) || !IsPasswordRequired(options.mapping) ||
        compat::UsedDelegatedCredentials(conn) ||
        (PQconnectionUsedPassword(conn) && HasPassword(options)) || PassesScramThrough(options))
        return nullptr;
    return "Users who are no superusers cannot connect if the server does not request a password.";
}

} // namespace index_table
