// How captured changes compare: byte by byte, no collation is asked.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

inline const char *DataOf(const Change &change) {
    return reinterpret_cast<const char *>(change.entry->t_data) + change.entry->t_data->t_hoff;
}

inline int CompareBytes(const char *a, uint32 a_length, const char *b, uint32 b_length) {
    int order = memcmp(a, b, Min(a_length, b_length));
    if (order != 0)
        return order;
    return a_length < b_length ? -1 : a_length > b_length;
}

inline int CompareKeys(const Change &a, const Change &b) {
    if (a.key_prefix != b.key_prefix)
        return a.key_prefix < b.key_prefix ? -1 : 1;
    if (a.null_mask != b.null_mask)
        return a.null_mask < b.null_mask ? -1 : 1;
    return CompareBytes(DataOf(a), a.key_length, DataOf(b), b.key_length);
}

inline int CompareIdentities(const Change &a, const Change &b) {
    if (a.identity_prefix != b.identity_prefix)
        return a.identity_prefix < b.identity_prefix ? -1 : 1;
    return CompareBytes(DataOf(a) + a.identity_offset, a.group_length - a.identity_offset,
                        DataOf(b) + b.identity_offset, b.group_length - b.identity_offset);
}

inline bool IsSameEntry(const Change &a, const Change &b) {
    constexpr Size skip = offsetof(HeapTupleHeaderData, t_bits);
    return a.entry->t_len == b.entry->t_len &&
           memcmp(reinterpret_cast<char *>(a.entry->t_data) + skip,
                  reinterpret_cast<char *>(b.entry->t_data) + skip, a.entry->t_len - skip) == 0;
}

// Takes an entry's insertions and deletions that cancel each other out of the changes of one row,
// calling cancelled(earlier, later) for each pair. What remains is put at `kept`, in order, and
// counted; that may be where the changes are, or before.
template <typename Cancelled>
uint32 CancelChanges(const Change *changes, uint32 count, Change *kept, Cancelled cancelled) {
    uint32 left = 0;
    for (uint32 i = 0; i < count; i++) {
        const Change &change = changes[i]; // not written over yet
        uint32 match = 0;
        while (match < left &&
               (kept[match].kind == change.kind || !IsSameEntry(kept[match], change)))
            match++;
        if (match == left) {
            kept[left++] = change;
            continue;
        }
        cancelled(kept[match], change);
        left--;
        memmove(&kept[match], &kept[match + 1], sizeof(Change) * (left - match));
    }
    return left;
}

} // namespace index_table
