\echo Use "CREATE EXTENSION index_table" to load this file. \quit

-- Catalog -------------------------------------------------------------------
-- What an index table is made of stands in a rule of it, index_table_definition, which PostgreSQL
-- binds, renames, dumps and upgrades with everything else of the schema. The tables here are found
-- by number; those that are dumped name relations, and a dump may have left some of them out.

CREATE TYPE index_table.relation;
CREATE FUNCTION index_table.relation_in(cstring) RETURNS index_table.relation
    AS 'MODULE_PATHNAME', 'index_table_relation_in'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION index_table.relation_out(index_table.relation) RETURNS cstring
    AS 'MODULE_PATHNAME', 'index_table_relation_out'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE TYPE index_table.relation (
    INPUT = index_table.relation_in, OUTPUT = index_table.relation_out, LIKE = pg_catalog.oid);
COMMENT ON TYPE index_table.relation IS
    'regclass for tables that are dumped: the name of a relation that does not exist is 0, not an error';
COMMENT ON FUNCTION index_table.relation_in(cstring) IS 'internal: input function';
COMMENT ON FUNCTION index_table.relation_out(index_table.relation) IS 'internal: output function';
CREATE CAST (index_table.relation AS pg_catalog.oid) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (index_table.relation AS pg_catalog.regclass) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (pg_catalog.oid AS index_table.relation) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (pg_catalog.regclass AS index_table.relation) WITHOUT FUNCTION AS ASSIGNMENT;

CREATE TABLE index_table.definition (
    index_table regclass PRIMARY KEY,
    base        regclass NOT NULL,
    state       "char"   NOT NULL CHECK (state IN ('b', 'r', 'd'))
);
CREATE INDEX definition_base_idx ON index_table.definition (base);
COMMENT ON TABLE index_table.definition IS
    'one row for each index table; index_table.describe() tells what its rule says. Not dumped: made anew from the rules';
COMMENT ON COLUMN index_table.definition.state IS
    'b: built; r: restored, and not looked at since; d: damaged, restored without what it should hold';

CREATE SEQUENCE index_table.partition_id_seq AS integer;

CREATE TABLE index_table.partition (
    partition_id integer  PRIMARY KEY DEFAULT pg_catalog.nextval('index_table.partition_id_seq'),
    base         index_table.relation NOT NULL,
    relation     index_table.relation NOT NULL UNIQUE
);
CREATE INDEX partition_base_idx ON index_table.partition (base);
COMMENT ON TABLE index_table.partition IS
    'live partition numbers; an entry with any other number does not exist. A number is never used twice';

CREATE TABLE index_table.retired_partition (
    index_table  index_table.relation,
    partition_id integer,
    base         index_table.relation NOT NULL,
    entries      bigint   NOT NULL,
    PRIMARY KEY (index_table, partition_id)
);
CREATE INDEX retired_partition_base_idx ON index_table.retired_partition (base);
COMMENT ON TABLE index_table.retired_partition IS
    'numbers of truncated, detached and dropped partitions of which an index table may still store entries';
COMMENT ON COLUMN index_table.retired_partition.entries IS 'rows that the partition had, by PostgreSQL''s statistics';

CREATE TABLE index_table.loaded_partition (
    index_table  index_table.relation,
    partition_id integer,
    PRIMARY KEY (index_table, partition_id)
);
COMMENT ON TABLE index_table.loaded_partition IS
    'partitions whose rows an index table has that is being built concurrently';

CREATE TABLE index_table.emptied (
    part       regclass PRIMARY KEY,
    drained_by xid8     NOT NULL
);
COMMENT ON TABLE index_table.emptied IS
    'parts of queues that were emptied: snapshots that do not see the transaction do without the index table. Not dumped';

SELECT pg_catalog.pg_extension_config_dump('index_table.partition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.partition_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.retired_partition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.loaded_partition', '');

GRANT USAGE ON SCHEMA index_table TO PUBLIC;
GRANT SELECT ON index_table.definition, index_table.partition, index_table.retired_partition,
    index_table.loaded_partition, index_table.emptied TO PUBLIC;

-- Global indexes ------------------------------------------------------------
-- CREATE INDEX … USING global; the tree of each stands on a relation of the second access method.

CREATE FUNCTION index_table.global_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME', 'index_table_global_handler'
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.global_handler(internal) IS 'internal: handler of access method global';

CREATE ACCESS METHOD global TYPE INDEX HANDLER index_table.global_handler;
COMMENT ON ACCESS METHOD global IS 'one B-tree over all partitions of a table';

CREATE FUNCTION index_table.global_storage_handler(internal) RETURNS table_am_handler
    AS 'MODULE_PATHNAME', 'index_table_storage_handler'
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.global_storage_handler(internal) IS
    'internal: handler of access method index_table_storage';

CREATE ACCESS METHOD index_table_storage TYPE TABLE HANDLER index_table.global_storage_handler;
COMMENT ON ACCESS METHOD index_table_storage IS
    'internal: what the B-tree of a global index takes for its table';

-- A mirror of every operator class of PostgreSQL's own, beside it. Those for B-trees have the same
-- names: names are found as they are for B-trees, and dumps write them alike. Those of other methods
-- say which. A function of the class tells a mirror from others. Classes of other schemas get theirs
-- when a global index needs it.
DO $$
DECLARE
    class record;
BEGIN
    FOR class IN
        SELECT CASE WHEN m.amname = 'btree' OR starts_with(c.opcname, m.amname || '_') THEN c.opcname
                    ELSE m.amname || '_' || c.opcname END AS name,
               c.opcdefault AND m.amname = 'btree' AS is_default, c.opcintype,
               of.in_mirror, p.amproc, parameters.amproc AS parameters
          FROM pg_catalog.pg_opclass AS c
          JOIN pg_catalog.pg_am AS m ON m.oid = c.opcmethod
          JOIN (VALUES ('btree', 1, 1, 5), ('gin', 2, 8, 7), ('gist', 1, 9, 10),
                       ('spgist', 1, 10, 7), ('hash', 1, 11, 3))
               AS of (method, number, in_mirror, parameters) ON of.method = m.amname
          JOIN pg_catalog.pg_amproc AS p
            ON p.amprocfamily = c.opcfamily AND p.amproclefttype = c.opcintype
           AND p.amprocrighttype = c.opcintype AND p.amprocnum = of.number
          LEFT JOIN pg_catalog.pg_amproc AS parameters
            ON parameters.amprocfamily = c.opcfamily AND parameters.amproclefttype = c.opcintype
           AND parameters.amprocrighttype = c.opcintype AND parameters.amprocnum = of.parameters
         WHERE c.opcnamespace = 'pg_catalog'::pg_catalog.regnamespace
         ORDER BY c.oid
    LOOP
        EXECUTE pg_catalog.format(
            'CREATE OPERATOR CLASS pg_catalog.%I %s FOR TYPE %s USING global AS FUNCTION %s %s %s',
            class.name, CASE WHEN class.is_default THEN 'DEFAULT' END,
            pg_catalog.format_type(class.opcintype, NULL), class.in_mirror,
            class.amproc::pg_catalog.regprocedure,
            ', FUNCTION 7 ' || class.parameters::pg_catalog.regprocedure::text);
    END LOOP;
END $$;

-- Maintenance ---------------------------------------------------------------

CREATE FUNCTION index_table.maintain() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_maintain'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.maintain() IS
    'row trigger of base tables: carries a change into the base table''s index tables at the end of the statement';

CREATE FUNCTION index_table.announce() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_announce'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.announce() IS
    'statement trigger of base tables and partitions: announces a change before it begins; gives a partition to be truncated a new number, which makes every entry of the old one dead';

CREATE FUNCTION index_table.guard() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_guard'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.guard() IS
    'statement trigger of index tables: refuses direct changes, which only repair() would undo. Off where session_replication_role is replica';

CREATE FUNCTION index_table.queue_changes() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_queue_changes'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.queue_changes() IS
    'trigger of base tables with index tables that are maintained deferred: queues the identities of changed rows; FOR EACH ROW where logical replication applies changes';

-- Creating, dropping and checking -------------------------------------------

CREATE FUNCTION index_table."create"(
    base        regclass,
    key         text,
    strategy    text    DEFAULT 'normalized',
    include     text    DEFAULT NULL,
    name        text    DEFAULT NULL,
    is_unique   boolean DEFAULT false,
    predicate   text    DEFAULT NULL,
    identity    text    DEFAULT NULL,
    maintenance text    DEFAULT 'immediate',
    partitions  integer DEFAULT 0,
    tablespace  text    DEFAULT NULL,
    nulls_distinct     boolean DEFAULT true,
    is_deferrable      boolean DEFAULT false,
    initially_deferred boolean DEFAULT false,
    servers     text    DEFAULT NULL
) RETURNS regclass
    AS 'MODULE_PATHNAME', 'index_table_create'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table."create"(regclass, text, text, text, text, boolean, text, text, text, integer, text, boolean, boolean, boolean, text) IS
    'creates and fills an index table over base and returns it; key as between the parentheses of CREATE INDEX. Takes SHARE ROW EXCLUSIVE on base and its partitions: readers go on, writers wait. Owner of base only';

CREATE PROCEDURE index_table.create_concurrently(
    base        regclass,
    key         text,
    strategy    text    DEFAULT 'normalized',
    include     text    DEFAULT NULL,
    name        text    DEFAULT NULL,
    is_unique   boolean DEFAULT false,
    predicate   text    DEFAULT NULL,
    identity    text    DEFAULT NULL,
    maintenance text    DEFAULT 'immediate',
    partitions  integer DEFAULT 0,
    tablespace  text    DEFAULT NULL,
    nulls_distinct     boolean DEFAULT true,
    is_deferrable      boolean DEFAULT false,
    initially_deferred boolean DEFAULT false,
    servers     text    DEFAULT NULL
)
    AS 'MODULE_PATHNAME', 'index_table_create_concurrently'
    LANGUAGE C;
COMMENT ON PROCEDURE index_table.create_concurrently(regclass, text, text, text, text, boolean, text, text, text, integer, text, boolean, boolean, boolean, text) IS
    'creates an index table like create(), in several transactions, while others read and write base; foreign partitions must be captured on their servers. Takes SHARE ROW EXCLUSIVE on base and its partitions for a moment at the beginning and at the end. What is interrupted is left incomplete, for rebuild() or drop()';

CREATE PROCEDURE index_table.create_index_concurrently(statement text)
    AS 'MODULE_PATHNAME', 'index_table_create_index_concurrently'
    LANGUAGE C;
COMMENT ON PROCEDURE index_table.create_index_concurrently(text) IS
    'carries out one CREATE INDEX … USING global statement in several transactions, while others read and write the table, as CREATE INDEX CONCURRENTLY does in sessions that have loaded the library. Waits for writers of one partition after the other. What is interrupted is left invalid, for REINDEX INDEX or DROP INDEX. Owner of the table only';

CREATE PROCEDURE index_table.rebuild(index_table regclass)
    AS 'MODULE_PATHNAME', 'index_table_rebuild'
    LANGUAGE C;
COMMENT ON PROCEDURE index_table.rebuild(regclass) IS
    'goes on with an index table that create_concurrently() has left incomplete, and says with how much of it; starts over with one that is complete and not unique, which queries do without until it is done. Locks like create_concurrently(). Owner only';

CREATE FUNCTION index_table."drop"(index_table regclass) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_drop'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table."drop"(regclass) IS
    'drops an index table, as DROP TABLE does; with the last one of a base table go the triggers. Takes SHARE ROW EXCLUSIVE on the base table, ACCESS EXCLUSIVE on the index table. Owner only';

CREATE FUNCTION index_table.verify(
    index_table regclass,
    OUT problem text, OUT partition regclass, OUT key jsonb, OUT identity jsonb
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_verify'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.verify(regclass) IS
    'compares an index table, or a global index, with its base table under one snapshot; a row for each problem: missing, stale, duplicate or differs; of a unique global index also not unique. Blocks nobody. Owner only';

CREATE FUNCTION index_table.repair(index_table regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_repair'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.repair(regclass) IS
    'mends what verify reports, in place, and returns the number of problems mended; a global index is made anew, as by REINDEX INDEX. Takes SHARE ROW EXCLUSIVE (for a global index SHARE) on the base table only when there is something to mend. Owner only';

CREATE FUNCTION index_table.vacuum(index_table regclass DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_vacuum'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.vacuum(regclass) IS
    'removes entries of truncated, detached and dropped partitions from an index table, or from all that the user owns, and returns their number; from a global index also those of rows that VACUUM has removed. Blocks nobody but another vacuum of the same table. Owner only';

CREATE FUNCTION index_table.count_row(partition oid, ticket bigint) RETURNS integer
    AS 'MODULE_PATHNAME', 'index_table_count_row'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.count_row(oid, bigint) IS
    'internal: the partition number of a leaf, counting the row for index_table.progress; ticket names a running build';

-- Reading by hand -----------------------------------------------------------
-- Each exists with and without key values: without, every entry qualifies.

CREATE FUNCTION index_table.lookup(
    index_table regclass, VARIADIC key "any",
    OUT partition regclass, OUT server name, OUT identity jsonb, OUT included jsonb
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_lookup'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.lookup(regclass, "any") IS
    'entries whose key starts with the given values (NULL finds NULL), in key order. Needs SELECT on the columns shown; row security of the base table applies';

CREATE FUNCTION index_table.lookup(
    index_table regclass,
    OUT partition regclass, OUT server name, OUT identity jsonb, OUT included jsonb
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_lookup'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.lookup(regclass) IS 'all entries of an index table, in key order';

CREATE FUNCTION index_table.fetch(rowtype anyelement, index_table regclass, VARIADIC key "any")
    RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'index_table_fetch'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.fetch(anyelement, regclass, "any") IS
    'rows of the base table whose key starts with the given values, in key order; rowtype is NULL::<base table>. Needs SELECT on the base table; its row security applies';

CREATE FUNCTION index_table.fetch(rowtype anyelement, index_table regclass)
    RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'index_table_fetch'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.fetch(anyelement, regclass) IS
    'rows of the base table that have entries, in key order';

CREATE FUNCTION index_table.page(
    rowtype anyelement, index_table regclass, page_size integer, continuation text, VARIADIC key "any",
    OUT entity anyelement, OUT next text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_page'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.page(anyelement, regclass, integer, text, "any") IS
    'one page of fetch: at most page_size rows after continuation (NULL: from the start). next, the same in every row, continues after this page; NULL when it was the last';

CREATE FUNCTION index_table.page(
    rowtype anyelement, index_table regclass, page_size integer, continuation text,
    OUT entity anyelement, OUT next text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_page'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.page(anyelement, regclass, integer, text) IS
    'one page of fetch over the whole index table';

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

-- Outbox ----------------------------------------------------------------------
-- On the server that has the rows: changes of a captured table are queued in the transaction that
-- makes them, for index tables elsewhere.

CREATE TABLE index_table.captured (
    captured index_table.relation PRIMARY KEY,
    queue    index_table.relation NOT NULL UNIQUE,
    identity name[]   NOT NULL
);
COMMENT ON TABLE index_table.captured IS 'one row for each captured table: where its changes are queued';
COMMENT ON COLUMN index_table.captured.identity IS
    'columns that find one row; the queue has arrays of their values as identity_1, identity_2, …';
SELECT pg_catalog.pg_extension_config_dump('index_table.captured', '');
GRANT SELECT ON index_table.captured TO PUBLIC;

CREATE FUNCTION index_table.enqueue() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_enqueue'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.enqueue() IS
    'trigger of captured tables: queues the identities of changed rows; FOR EACH ROW where logical replication applies changes, and on partitions that are captured by themselves';

CREATE FUNCTION index_table.capture(captured regclass, identity text DEFAULT NULL) RETURNS regclass
    AS 'MODULE_PATHNAME', 'index_table_capture'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.capture(regclass, text) IS
    'begins to queue changes of a table for index tables elsewhere, and returns the queue, <table>_outbox; identity: columns that find one row, default the primary key. Takes SHARE ROW EXCLUSIVE on the table and its partitions. Owner only';

CREATE FUNCTION index_table.release(captured regclass) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_release'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.release(regclass) IS
    'ends what capture() began; the queue is dropped with what is in it. Takes ACCESS EXCLUSIVE on the table and its partitions. Owner only';

CREATE FUNCTION index_table.pending(
    captured regclass, batch integer,
    OUT number bigint, OUT reload boolean, OUT identity text[]
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_pending'
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.pending(regclass, integer) IS
    'the oldest queued changes of a captured table, about as many as batch: numbers for discard(), and the identities that changed, each once. reload: rows came or went that are not named, as TRUNCATE has them go; neither reload nor identity: a later number says the same. Needs SELECT on the table';

CREATE FUNCTION index_table.pending(
    rowtype anyelement, captured regclass, batch integer,
    OUT number bigint, OUT reload boolean, OUT identity text[], OUT entity anyelement
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_pending_rows'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.pending(anyelement, regclass, integer) IS
    'the same with the rows as they are now, NULL where there is none; rowtype is NULL::<captured table>';

CREATE FUNCTION index_table.discard(captured regclass, numbers bigint[]) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_discard'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.discard(regclass, bigint[]) IS
    'removes exactly these numbers from the queue of a captured table, and returns how many were there. Needs DELETE on the queue';

CREATE FUNCTION index_table.backlog(captured regclass, OUT changes bigint, OUT oldest timestamptz)
    AS 'MODULE_PATHNAME', 'index_table_backlog'
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.backlog(regclass) IS
    'how many changes of a captured table are queued, and since when. Needs SELECT on the table';

-- Draining ----------------------------------------------------------------------
-- On the server that has the index tables.

CREATE TABLE index_table.undrained (
    leaf     index_table.relation NOT NULL,
    identity text[],
    error    text        NOT NULL,
    tries    integer     NOT NULL,
    since    timestamptz NOT NULL
);
CREATE INDEX undrained_leaf_idx ON index_table.undrained (leaf);
COMMENT ON TABLE index_table.undrained IS
    'changes of foreign partitions that could not be carried into index tables; identity NULL: the partition as a whole. Tried again by every drain()';
SELECT pg_catalog.pg_extension_config_dump('index_table.undrained', '');

CREATE TABLE index_table.intent (
    leaf          index_table.relation NOT NULL,
    columns       text[],
    identities    text[],
    settled_after xid8
);
COMMENT ON TABLE index_table.intent IS
    'rows whose changes, or whose entries'' changes, a transaction was about to commit on other servers: columns of the identity and values, one row after the other; NULL: any row. Gone when it commits here; drain() reads the rows again if it does not';
SELECT pg_catalog.pg_extension_config_dump('index_table.intent', '');
-- SQL changes it, which tables without an identity in a publication FOR ALL TABLES refuse.
ALTER TABLE index_table.intent REPLICA IDENTITY FULL;

CREATE PROCEDURE index_table.drain(index_table regclass DEFAULT NULL)
    AS 'MODULE_PATHNAME', 'index_table_drain'
    LANGUAGE C;
COMMENT ON PROCEDURE index_table.drain(regclass) IS
    'carries what is queued, here and by captured foreign partitions on their servers, into the index tables of their base table, of the one given or of all that the user owns, in several transactions. What cannot be drained is a WARNING. Owner only';

CREATE FUNCTION index_table.set_maintenance(index_table regclass, maintenance text) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_set_maintenance'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.set_maintenance(regclass, text) IS
    'immediate: changes through this server are entered with them; deferred: by drain() alone, local partitions through a queue of the index table (where there are no foreign ones), foreign ones through their captured tables. Back to immediate it carries out what is queued, and raises its errors. Takes ACCESS EXCLUSIVE on the base table and its partitions. Owner only';

CREATE FUNCTION index_table.retry(index_table regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_retry'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.retry(regclass) IS
    'has what was set aside in the queue of an index table tried again by the next drain, and returns how many rows. Waits for a drain in progress. Owner only';

CREATE FUNCTION index_table.wait_caught_up(index_table regclass, timeout interval DEFAULT '30 s') RETURNS boolean
    AS 'MODULE_PATHNAME', 'index_table_wait_caught_up'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.wait_caught_up(regclass, interval) IS
    'waits until others (the worker, or drain() in another session) have drained what was queued, here or on shards, and committed when it was called; false when the time is over first, as it is while changes are set aside. Owner only';

CREATE FUNCTION index_table.queue_status(
    OUT index_table regclass, OUT partition regclass, OUT server name, OUT pending bigint, OUT oldest timestamptz,
    OUT refused integer, OUT error text, OUT tries integer
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_queue_status'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.queue_status() IS 'internal: what index_table.queue shows';

CREATE VIEW index_table.queue AS SELECT * FROM index_table.queue_status();
COMMENT ON VIEW index_table.queue IS
    'what is queued for the index tables that the user owns, by shards (partition and server) or here (both NULL): pending changes (NULL: the table is not captured, or its server does not answer), those set aside included, and since when, rows that were refused, the latest error and how often it was tried';
GRANT SELECT ON index_table.queue TO PUBLIC;

-- Following DDL -------------------------------------------------------------

CREATE FUNCTION index_table.on_ddl_start() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'index_table_on_ddl_start'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.on_ddl_start() FROM PUBLIC;
COMMENT ON FUNCTION index_table.on_ddl_start() IS
    'event trigger: refuses what index tables cannot follow, and notes what goes with what is dropped';

CREATE FUNCTION index_table.on_ddl_end() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'index_table_on_ddl_end'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.on_ddl_end() FROM PUBLIC;
COMMENT ON FUNCTION index_table.on_ddl_end() IS
    'event trigger: follows new, attached and detached partitions, changed columns, and definitions that a dump brings';

CREATE FUNCTION index_table.on_drop() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'index_table_on_drop'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.on_drop() FROM PUBLIC;
COMMENT ON FUNCTION index_table.on_drop() IS
    'event trigger: forgets dropped index tables, base tables, partitions and columns';

CREATE FUNCTION index_table.load() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_load'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.load() FROM PUBLIC;
COMMENT ON FUNCTION index_table.load() IS
    'row trigger of the tables that are dumped: leaves out rows of relations that a dump has left out, and numbers of partitions that have one';

CREATE TRIGGER load BEFORE INSERT ON index_table.partition FOR EACH ROW EXECUTE FUNCTION index_table.load();
CREATE TRIGGER load BEFORE INSERT ON index_table.retired_partition FOR EACH ROW EXECUTE FUNCTION index_table.load();
CREATE TRIGGER load BEFORE INSERT ON index_table.loaded_partition FOR EACH ROW EXECUTE FUNCTION index_table.load();
CREATE TRIGGER load BEFORE INSERT ON index_table.captured FOR EACH ROW EXECUTE FUNCTION index_table.load();
CREATE TRIGGER load BEFORE INSERT ON index_table.undrained FOR EACH ROW EXECUTE FUNCTION index_table.load();
CREATE TRIGGER load BEFORE INSERT ON index_table.intent FOR EACH ROW EXECUTE FUNCTION index_table.load();
ALTER TABLE index_table.partition ENABLE ALWAYS TRIGGER load;
ALTER TABLE index_table.retired_partition ENABLE ALWAYS TRIGGER load;
ALTER TABLE index_table.loaded_partition ENABLE ALWAYS TRIGGER load;
ALTER TABLE index_table.captured ENABLE ALWAYS TRIGGER load;
ALTER TABLE index_table.undrained ENABLE ALWAYS TRIGGER load;
ALTER TABLE index_table.intent ENABLE ALWAYS TRIGGER load;

CREATE EVENT TRIGGER index_table_ddl_start ON ddl_command_start
    WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER SCHEMA', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
                 'CREATE INDEX', 'ALTER INDEX', 'ALTER SEQUENCE', 'CREATE RULE', 'ALTER RULE',
                 'DROP TABLE', 'DROP FOREIGN TABLE', 'DROP SERVER', 'DROP FOREIGN DATA WRAPPER', 'DROP INDEX', 'DROP TRIGGER', 'DROP FUNCTION', 'DROP ROUTINE', 'DROP AGGREGATE', 'DROP SCHEMA', 'DROP TYPE',
                 'DROP DOMAIN', 'DROP COLLATION', 'DROP OPERATOR', 'DROP OPERATOR CLASS', 'DROP OPERATOR FAMILY',
                 'DROP EXTENSION', 'DROP LANGUAGE', 'DROP OWNED')
    EXECUTE FUNCTION index_table.on_ddl_start();
ALTER EVENT TRIGGER index_table_ddl_start ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE RULE', 'CREATE TRIGGER', 'CREATE INDEX',
                 'ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER SCHEMA', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
                 'ALTER INDEX', 'ALTER SEQUENCE', 'ALTER EXTENSION',
                 'CREATE PUBLICATION', 'ALTER PUBLICATION', 'CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION')
    EXECUTE FUNCTION index_table.on_ddl_end();
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_drop ON sql_drop
    EXECUTE FUNCTION index_table.on_drop();
ALTER EVENT TRIGGER index_table_drop ENABLE ALWAYS;

-- Views ---------------------------------------------------------------------

CREATE FUNCTION index_table.describe(
    index_table regclass,
    OUT strategy text, OUT key text, OUT predicate text, OUT identity name[], OUT include name[],
    OUT is_unique boolean, OUT nulls_distinct boolean, OUT is_deferrable boolean, OUT initially_deferred boolean,
    OUT maintenance text, OUT is_complete boolean, OUT log regclass
)
    AS 'MODULE_PATHNAME', 'index_table_describe'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.describe(regclass) IS
    'what the rule index_table_definition of an index table says, with every name qualified; log: where changes go while it is being built concurrently; is_complete: it can be read. Locks the base table for a moment (ACCESS SHARE) where there are expressions';

CREATE VIEW index_table.index_tables AS
    SELECT d.index_table, d.base, s.strategy, s.key, s.predicate, s.identity, s.include,
           s.is_unique, s.nulls_distinct, s.is_deferrable, s.initially_deferred, s.maintenance, s.is_complete,
           CASE WHEN c.relkind = 'r' THEN pg_catalog.pg_total_relation_size(c.oid)
                WHEN o.servers IS NULL THEN (SELECT sum(pg_catalog.pg_total_relation_size(t.relid))
                        FROM pg_catalog.pg_partition_tree(c.oid) t)::bigint END AS bytes,
           o.servers
      FROM index_table.definition d
      JOIN pg_catalog.pg_class c ON c.oid = d.index_table,
           LATERAL index_table.describe(d.index_table) s,
           LATERAL (SELECT pg_catalog.array_agg(DISTINCT v.srvname ORDER BY v.srvname) AS servers
                      FROM pg_catalog.pg_inherits i
                      JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = i.inhrelid
                      JOIN pg_catalog.pg_foreign_server v ON v.oid = f.ftserver
                     WHERE i.inhparent = c.oid) o;
COMMENT ON VIEW index_table.index_tables IS 'index tables of this database, with their size in bytes (indexes included), or the servers that they are on';
GRANT SELECT ON index_table.index_tables TO PUBLIC;

CREATE VIEW index_table.partitions AS
    SELECT p.base::pg_catalog.regclass AS base, p.relation::pg_catalog.regclass AS partition, p.partition_id, s.srvname AS server
      FROM index_table.partition p
      LEFT JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = p.relation
      LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver;
COMMENT ON VIEW index_table.partitions IS 'partitions of base tables with their live partition numbers; server where a partition is foreign';
GRANT SELECT ON index_table.partitions TO PUBLIC;

CREATE FUNCTION index_table.queue_lag(index_table regclass, OUT pending bigint, OUT lag interval)
    AS 'MODULE_PATHNAME', 'index_table_queue_lag'
    LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION index_table.queue_lag(regclass) IS 'internal: what index_table.stat shows of queues';

CREATE VIEW index_table.global_indexes AS
    SELECT r.oid::pg_catalog.regclass AS index, i.indrelid::pg_catalog.regclass AS base,
           pg_catalog.pg_get_indexdef(r.oid) AS definition, COALESCE(x.indisunique, false) AS is_unique,
           COALESCE(i.indisvalid AND x.indisvalid, false) AS is_built, x.indexrelid::pg_catalog.regclass AS tree,
           s.oid::pg_catalog.regclass AS storage,
           COALESCE(pg_catalog.pg_total_relation_size(s.oid), 0)
           + COALESCE((SELECT sum(pg_catalog.pg_relation_size(c.relid))
                         FROM pg_catalog.pg_partition_tree(r.oid) c WHERE c.isleaf), 0)::bigint AS bytes,
           GREATEST(xc.reltuples, (SELECT sum(l.reltuples) FROM pg_catalog.pg_partition_tree(r.oid) c
                                     JOIN pg_catalog.pg_class l ON l.oid = c.relid WHERE c.isleaf AND l.reltuples > 0), 0)::bigint AS entries,
           pg_catalog.pg_stat_get_dead_tuples(s.oid) AS stale_entries,
           GREATEST(pg_catalog.pg_stat_get_last_vacuum_time(s.oid),
                    pg_catalog.pg_stat_get_last_autovacuum_time(s.oid)) AS last_sweep
      FROM pg_catalog.pg_class r
      JOIN pg_catalog.pg_am m ON m.oid = r.relam AND m.amname = 'global'
      JOIN pg_catalog.pg_index i ON i.indexrelid = r.oid
      LEFT JOIN pg_catalog.pg_class s
             ON s.relnamespace = 'pg_toast'::pg_catalog.regnamespace
            AND s.relname = 'index_table_global_' || r.oid
      LEFT JOIN pg_catalog.pg_index x ON x.indrelid = s.oid
      LEFT JOIN pg_catalog.pg_class xc ON xc.oid = x.indexrelid
     WHERE r.relkind = 'I' AND NOT r.relispartition;
COMMENT ON VIEW index_table.global_indexes IS
    'indexes made by CREATE INDEX … USING global: the B-tree that has the entries, for amcheck and pageinspect; the relation whose VACUUM removes stale ones; is_built: it is complete, and queries use it; bytes: of all its parts; entries, and stale_entries since the last sweep (estimates, of PostgreSQL''s statistics); last_sweep, by whomever: NULL where none is known';
GRANT SELECT ON index_table.global_indexes TO PUBLIC;

CREATE VIEW index_table.stat AS
    SELECT d.index_table, d.base,
           (SELECT sum(GREATEST(c.reltuples, 0)) FROM pg_catalog.pg_class c
             WHERE c.oid = ANY (p.relations))::bigint AS entries,
           COALESCE((SELECT sum(r.entries) FROM index_table.retired_partition r
                      WHERE r.index_table = d.index_table), 0)::bigint AS dead_entries,
           (SELECT sum(s.idx_scan) FROM pg_catalog.pg_stat_all_indexes s
             WHERE s.relid = ANY (p.relations))::bigint AS scans,
           (SELECT sum(s.idx_tup_read) FROM pg_catalog.pg_stat_all_indexes s
             WHERE s.relid = ANY (p.relations))::bigint AS entries_read,
           (SELECT sum(pg_catalog.pg_total_relation_size(r.oid))
              FROM pg_catalog.pg_class r
             WHERE r.oid = ANY (p.relations) AND r.relkind <> 'f')::bigint AS bytes,
           q.pending, q.lag
      FROM index_table.definition d
      JOIN pg_catalog.pg_class t ON t.oid = d.index_table,
           LATERAL (SELECT CASE t.relkind WHEN 'r' THEN ARRAY[t.oid]
                           ELSE ARRAY(SELECT relid FROM pg_catalog.pg_partition_tree(t.oid) WHERE isleaf) END AS relations) p,
           LATERAL index_table.queue_lag(d.index_table) q
    UNION ALL
    SELECT g.index, g.base, g.entries, g.stale_entries, pg_catalog.pg_stat_get_numscans(g.tree),
           pg_catalog.pg_stat_get_tuples_returned(g.tree), g.bytes, NULL, NULL
      FROM index_table.global_indexes g
     WHERE g.is_built;
COMMENT ON VIEW index_table.stat IS
    'size and use of index tables and global indexes: entries, and dead ones of partitions that are gone, of global indexes those of rows that VACUUM has removed, too (estimates); scans of their indexes and entries read by them; changes that are queued here, and for how long the oldest is that is not set aside (NULL: there is no queue)';
GRANT SELECT ON index_table.stat TO PUBLIC;

CREATE VIEW index_table.progress AS
    SELECT l.pid, l.objid::pg_catalog.regclass AS base,
           CASE WHEN p.param18 = 7421 THEN p.param19::pg_catalog.oid ELSE p.relid END::pg_catalog.regclass AS index_table,
           CASE WHEN p.param18 = 7421 THEN
               CASE p.param20 WHEN 1 THEN 'scanning' WHEN 2 THEN 'loading entries'
                              WHEN 3 THEN 'building indexes' WHEN 4 THEN 'analyzing'
                              WHEN 5 THEN 'verifying' WHEN 6 THEN 'repairing' END
                WHEN p.pid IS NOT NULL THEN 'building indexes'
                WHEN a.pid IS NOT NULL THEN 'analyzing'
                ELSE 'initializing' END AS phase,
           CASE WHEN p.param18 = 7421 THEN p.param15 END AS partitions_done,
           CASE WHEN p.param18 = 7421 THEN p.param14 END AS partitions_total,
           p.param13 AS rows_done,
           GREATEST(p.param12, p.param13) AS rows_total,
           CASE WHEN p.param18 = 7421 AND p.param20 IN (1, 2, 5) AND p.param13 > p.param8 THEN
               (pg_catalog.clock_timestamp() - pg_catalog.to_timestamp(p.param2 / 1e6 + 946684800))
               * (GREATEST(p.param12 - p.param13, 0)::double precision / (p.param13 - p.param8)) END AS remaining
      FROM pg_catalog.pg_locks l
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('CREATE INDEX') p
             ON p.pid = l.pid AND p.datid = l.database
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('ANALYZE') a
             ON a.pid = l.pid AND a.datid = l.database
     WHERE l.locktype = 'object' AND l.granted
       AND l.classid = 'index_table.definition'::pg_catalog.regclass
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                          WHERE d.datname = pg_catalog.current_database())
       AND l.pid IS NOT NULL
    UNION ALL
    SELECT l.pid, i.indrelid::pg_catalog.regclass, i.indexrelid::pg_catalog.regclass,
           CASE WHEN p.param10 = 1 THEN 'waiting for writers'
                WHEN p.param10 = 2 AND p.param11 = 5 THEN 'loading entries'
                WHEN p.param10 = 2 THEN 'scanning'
                WHEN p.param10 = 7 THEN 'waiting for old snapshots'
                ELSE 'initializing' END,
           p.param15, p.param14, p.param13, GREATEST(p.param12, p.param13), NULL
      FROM pg_catalog.pg_locks l
      JOIN pg_catalog.pg_index i ON i.indexrelid = l.objid
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('CREATE INDEX') p
             ON p.pid = l.pid AND p.datid = l.database AND p.relid = i.indrelid
     WHERE l.locktype = 'object' AND l.granted AND l.objsubid = 4
       AND l.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                          WHERE d.datname = pg_catalog.current_database());
COMMENT ON VIEW index_table.progress IS
    'running builds, global indexes by CREATE INDEX CONCURRENTLY among them, verifications and repairs: phase, partitions and rows scanned, and their totals (rows_total is an estimate; while PostgreSQL builds an index, rows are those of that index, and partitions are NULL); remaining is what the scan will still take at its speed so far, without the indexes. An index table that is not committed yet shows as its OID';
GRANT SELECT ON index_table.progress TO PUBLIC;

-- Logical replication ---------------------------------------------------------

CREATE FUNCTION index_table.keep_local() RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_keep_local'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.keep_local() FROM PUBLIC;
COMMENT ON FUNCTION index_table.keep_local() IS
    'internal: keeps tables of the extension out of logical replication; the last statement of its scripts';

SELECT index_table.keep_local();
