
-- Shards ---------------------------------------------------------------------

CREATE FUNCTION index_table.shard_of(
    base regclass, VARIADIC shard_key "any",
    OUT partition regclass, OUT server name, OUT host text, OUT port text, OUT dbname text,
    OUT remote_schema text, OUT remote_table text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_shard_of'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.shard_of(regclass, "any") IS
    'the partition that rows with the given partition key are in, and where that is; the key as columns, those of partitions that are partitioned in turn after those of the table. With fewer values every partition that may have such rows, none where no partition takes them. Needs SELECT on a column of base, locks it ACCESS SHARE';

CREATE FUNCTION index_table.shard_of(
    base regclass,
    OUT partition regclass, OUT server name, OUT host text, OUT port text, OUT dbname text,
    OUT remote_schema text, OUT remote_table text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_shard_of'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.shard_of(regclass) IS 'all partitions of a table, and where they are';

CREATE FUNCTION index_table.shards(
    index_table regclass, VARIADIC key "any",
    OUT partition regclass, OUT server name, OUT entries bigint
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_shards'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.shards(regclass, "any") IS
    'the partitions that have entries whose key starts with the given values (NULL finds NULL), and how many. Privileges and row security as for lookup()';

CREATE FUNCTION index_table.shards(
    index_table regclass,
    OUT partition regclass, OUT server name, OUT entries bigint
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_shards'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.shards(regclass) IS 'the partitions that have entries of an index table, and how many';

-- Index tables on servers ---------------------------------------------------------

CREATE TABLE index_table.server_table (
    partition     oid         NOT NULL,
    server        oid         NOT NULL,
    server_name   name        NOT NULL,
    owner         oid         NOT NULL,
    schema_name   text        NOT NULL,
    table_name    text        NOT NULL,
    comment       text        NOT NULL,
    is_abandoned  boolean     NOT NULL,
    missing_since timestamptz
);
COMMENT ON TABLE index_table.server_table IS
    'tables that the extension has made on servers, and the partitions of index tables that stand for them; those that partitions have abandoned, and those of partitions that are gone, are dropped by vacuum() and its worker. Not dumped';
-- SQL changes it, which tables without an identity in a publication FOR ALL TABLES refuse.
ALTER TABLE index_table.server_table REPLICA IDENTITY FULL;

CREATE FUNCTION index_table.move_partition(index_table regclass, partition regclass, server name) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_move_partition'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.move_partition(regclass, regclass, name) IS
    'moves the entries of a partition of an index table on servers to another server. Takes EXCLUSIVE on the index table: readers go on, writers of the base table wait. Owner only';
