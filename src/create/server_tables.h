// Index tables on servers: their partitions are foreign tables, of tables that are made there with
// the indexes that the index table has where it is here.
//
// The tables are made over the extension's own connections, as the owner of the index table, in
// transactions of their own, and filled by COPY FREEZE: what they begin with is seen under every
// snapshot, also those that postgres_fdw has of the servers. What becomes of the tables if the
// transaction here fails: shard/server_table.h. Later changes come through postgres_fdw.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Servers by their names, separated by commas; their OIDs. Raises 42602, 42710 and 42704.
List *ParseServers(const char *names);
// Raises 0A000 where a server is not one of postgres_fdw, 42501 where the owner may not use it.
void CheckServer(const ForeignServer *server, Oid owner);

// A foreign table that is to be a hash partition of an index table.
struct ForeignPartition {
    const char *schema;
    const char *name;
    const char *parent; // qualified
    List *columns;      // their names, char *
    int modulus;
    int remainder;
    Oid server;
};
// On the server it has the same names. It is not made there.
void CreateForeignPartition(const ForeignPartition &partition);

// Makes the index of an index table on servers as a whole, which has no entries: it says what those
// of its tables are like. The caller is in EnterOwner().
void CreateRootIndex(const IndexTable *table);

// A destination for a query that returns the entries of an index table, column by column, which
// keeps them until they are sent. In the current memory context.
DestReceiver *CreateServerLoadReceiver(const IndexTable *table);

// Makes the tables that the partitions stand for, with what was received and their indexes. With
// `anew` under other names, in the place of those that were made before. The caller is in
// EnterOwner(). Raises 3F000, 42501 and 42P07 of what is in the way on a server, 23505 where a
// unique key repeats.
void MakeServerTables(const IndexTable *table, DestReceiver *received, bool anew);

// Deletes entries by their place, and inserts others: what repair() has found.
struct ServerRepair {
    const IndexTable *table;
    MemoryContext memory; // of what is collected
    List *storages;       // OIDs of partitions, and
    List *places;         // of each a StringInfo with ctids
    Tuplestorestate *rows;
    TupleDesc descriptor;
};
void RemoveLater(ServerRepair *repair, Oid storage, ItemPointer tid);
// `row` has the entry's columns called c1, c2, ….
void EnterLater(ServerRepair *repair, HeapTuple row, TupleDesc descriptor);
void RepairServerTables(ServerRepair *repair);

// Adds a column on the servers, which then has what `missing`, a DEFAULT clause, says.
void AddServerColumn(const IndexTable *table, const char *column, const char *missing);

// Moves what a partition stands for to another server. The caller has locked the index table and
// the partition against writers, and is in EnterOwner(). Raises as MakeServerTables(), and 25001
// where this transaction has used the partition's server before.
void MoveServerTable(const IndexTable *table, Oid partition, const ForeignServer *server);

// Takes the tables of an index table that was restored to be this database's own.
void AdoptServerTables(const IndexTable *table);

} // namespace index_table
