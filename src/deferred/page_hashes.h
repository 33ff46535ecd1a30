// Which packs a look-up by key has to read, known without reading them all: a session remembers the
// hashes of each page of a queue as long as the page stays as it was, which its LSN tells.
#pragma once

#include "deferred/key_hashes.h"

namespace index_table {

// Hashes that a look-up is about, in order, each once; `count` -1: it is about all keys.
struct WantedKeys {
    int count;
    uint32 *hashes;
};

// Finds the packs of a part that may have a wanted key, whoever sees them. False where the session
// cannot know, and has to read all: where changes of pages are not logged, or there are too many.
bool FindWantedPacks(Relation part, KeyHasher *hasher, const WantedKeys &wanted,
                     std::span<ItemPointerData> *packs);

void InitializePageHashes();

} // namespace index_table
