#include "core/fault.h"

#include "pg.h"

namespace index_table {

#ifdef INDEX_TABLE_FAULTS

namespace {

constexpr int kMost = 256;

struct Point {
    const char *name;
    int64 passes;
};

constinit Point points[kMost] = {};
constinit int count = 0;
constinit char *fault = nullptr;
constinit char *shown = nullptr; // by `index_table.fault_points`

void Assign(const char *, void *) {
    for (int i = 0; i < count; i++)
        points[i].passes = 0;
}

const char *Show() {
    static StringInfoData text = {};
    if (!text.data) {
        MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
        initStringInfo(&text);
        MemoryContextSwitchTo(caller);
    }
    resetStringInfo(&text);
    for (int i = 0; i < count; i++)
        if (points[i].passes > 0)
            appendStringInfo(&text, "%s%s:" INT64_FORMAT, text.len > 0 ? " " : "", points[i].name,
                             points[i].passes);
    return text.data;
}

// The places that share a name, in a template or a header, share a count.
int Find(const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(points[i].name, name) == 0)
            return i;
    if (count == kMost)
        elog(FATAL, "too many fault points");
    points[count] = {.name = name, .passes = 0};
    return count++;
}

// Whether it is what `index_table.fault` names, and the time has come.
bool IsWanted(const Point &point) {
    const char *colon = fault ? strchr(fault, ':') : nullptr;
    return colon && strlen(point.name) == static_cast<size_t>(colon - fault) &&
           strncmp(point.name, fault, colon - fault) == 0 && atoll(colon + 1) == point.passes;
}

} // namespace

void PassFaultPoint(const char *name, int *point) {
    if (*point < 0)
        *point = Find(name);
    points[*point].passes++;
    if (IsWanted(points[*point]))
        ereport(ERROR, (errcode(MAKE_SQLSTATE('F', 'A', 'U', 'L', 'T')),
                        errmsg("fault at %s, time " INT64_FORMAT, name, points[*point].passes)));
}

void InitializeFaults() {
    DefineCustomStringVariable("index_table.fault", "The fault point that raises an error, name:n.",
                               nullptr, &fault, "", PGC_SUSET, 0, nullptr, Assign, nullptr);
    DefineCustomStringVariable("index_table.fault_points", "Fault points that were passed.",
                               nullptr, &shown, "", PGC_INTERNAL, 0, nullptr, nullptr, Show);
}

#else

void InitializeFaults() {}

#endif

} // namespace index_table
