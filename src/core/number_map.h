// A map from OIDs or partition numbers to pointers: most scans come to know few.
#pragma once

#include "core/hash_table.h"

namespace index_table {

class NumberMap {
public:
    void *Find(uint32 number) const {
        if (many) {
            void *found = hash_search(many, &number, HASH_FIND, nullptr);
            return found ? static_cast<Entry *>(found)->value : nullptr;
        }
        for (int i = 0; i < count; i++)
            if (few[i].number == number)
                return few[i].value;
        return nullptr;
    }

    // `memory` lives as long as the map.
    void Add(uint32 number, void *value, MemoryContext memory) {
        Assert(!Find(number));
        if (count < kFew) {
            few[count++] = {number, value};
            return;
        }
        if (!many) {
            many = MakeHashTable<uint32, Entry>("index_table partitions in use", 64, memory);
            for (const Entry &entry : few)
                AddToMany(entry);
        }
        AddToMany({number, value});
    }

    void Destroy() {
        if (many)
            hash_destroy(many);
        many = nullptr;
        count = 0;
    }

private:
    static constexpr int kFew = 8;

    struct Entry {
        uint32 number; // hash key
        void *value;
    };

    void AddToMany(const Entry &entry) {
        static_cast<Entry *>(hash_search(many, &entry.number, HASH_ENTER, nullptr))->value =
            entry.value;
    }

    int count;
    Entry few[kFew];
    HTAB *many; // null: they are still few
};

} // namespace index_table
