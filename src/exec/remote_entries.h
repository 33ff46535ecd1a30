// Entries of an index table on servers, by values of its first key column: all servers are asked at
// once, for many values with one question each.
//
// A server is asked over a connection of this session's own, for what is committed there, and where
// this transaction may have written to servers through postgres_fdw, too, for what it has written.
// An entry may be older or younger than the snapshot shows its row: rows are always looked at.
#pragma once

#include "exec/entry_source.h"

namespace index_table {

struct RemoteEntries;

// Of a source that reads an index table on servers, whose keys are prepared; the first column is
// among what it needs, and among the keys, with equality.
RemoteEntries *BeginRemoteEntries(EntrySource *source);
void EndRemoteEntries(RemoteEntries *entries);

// Starts over: for the source's keys as they are when the first entry is read.
void RestartRemote(RemoteEntries *entries);
// Puts the next entry into the source's values; false at the end. Conditions on other columns are
// not checked.
bool NextRemote(RemoteEntries *entries);

// Instead of that, for many scans: notes what the source's keys ask for as another group, numbered
// from 0, then reads the entries of all groups.
void BeginRemoteGroups(RemoteEntries *entries);
// Returns how many values have been noted by now.
int NoteRemoteGroup(RemoteEntries *entries);
void FetchRemoteGroups(RemoteEntries *entries);
// NextRemote() yields the entries of a group from now on, as many as this returns.
int StartRemoteGroup(RemoteEntries *entries, int number);

// For EXPLAIN: how many statements were sent, and what a server is asked.
uint64 CountStatements(const RemoteEntries *entries);
const char *SampleEntryStatement(const IndexTable *table);

// Whether a condition of this operator on the first key column of an index table says which values
// are looked for.
bool NamesKeys(const IndexTable *table, Oid operator_oid);

} // namespace index_table
