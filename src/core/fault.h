// Errors on purpose, for tests: see test/t/068_faults.pl. A library that was built without FAULTS=1
// knows nothing of them.
#pragma once

namespace index_table {

// A place where an error may be wanted. `name` is one of its own, "file.what".
#ifdef INDEX_TABLE_FAULTS
#define FAULT_POINT(name)                                                                          \
    do {                                                                                           \
        static int point = -1;                                                                     \
        index_table::PassFaultPoint(name, &point);                                                 \
    } while (false)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#endif

// Raises FAULT where index_table.fault is "name:n" and this is the n-th time since that was set.
// `point` is the caller's, -1 at first.
void PassFaultPoint(const char *name, int *point);

// Defines index_table.fault, and index_table.fault_points, which shows "name:passes" of those that
// were passed since.
void InitializeFaults();

} // namespace index_table
