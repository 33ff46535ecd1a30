// What WITH (…) says of a global index. Some is for children and tree together; the rest is the
// tree's, as its access method knows it.
#pragma once

#include "pg.h"

namespace index_table {

// When the entries of rows go that VACUUM removes from a partition.
enum class GlobalVacuum {
    Lazy, // later, all at once: VACUUM gives line pointers their next generation
    Eager // at once, which reads the whole tree for each partition
};

struct GlobalOptions {
    bool unique;
    Oid method; // of the tree
    GlobalVacuum vacuum;
    bool visible; // to queries; what a root says
};

// Makes the options known to PostgreSQL. Once, when the library is loaded.
void InitializeGlobalOptions();

// For IndexAmRoutine::amoptions. With `validate` raises 22023 for values that are none, and for
// options that neither this nor the tree's method has; for methods as FindTreeMethod().
bytea *GlobalOptionsOf(Datum reloptions, bool validate);

// Those of an open index, a root or a child; the defaults where it was given none.
GlobalOptions GetGlobalOptions(Relation index);
// Those that the tree's method has, of what pg_class says of a root.
Datum TreeOptionsOf(Oid root);

// Changes what a root says of `visible`. With ShareUpdateExclusiveLock on the root.
void StoreGlobalVisibility(Oid root, bool visible);

// The access method of trees of a name. Raises 42704 where there is none, 0A000 where its indexes
// cannot be trees.
Oid FindTreeMethod(const char *name);
// Its name in the options of a statement; that of the default where they do not say.
const char *TreeMethodName(List *options);

// Whether options, as a statement or pg_class has them, say that the key is unique.
bool SaysUnique(List *options);

// What a tree has to have. Raises 0A000 for what its method has not.
struct TreeForm {
    bool is_unique;
    bool has_included;
    bool is_ordered;   // DESC or ASC is said
    bool places_nulls; // NULLS FIRST or LAST is
    int key_count;
};
void CheckTreeForm(const TreeForm &form, Oid method);

} // namespace index_table
