
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
    servers     text    DEFAULT NULL,
    is_visible  boolean DEFAULT true
) RETURNS regclass
    AS 'MODULE_PATHNAME', 'index_table_create'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table."create"(regclass, text, text, text, text, boolean, text, text, text, integer, text, boolean, boolean, boolean, text, boolean) IS
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
    servers     text    DEFAULT NULL,
    is_visible  boolean DEFAULT true
)
    AS 'MODULE_PATHNAME', 'index_table_create_concurrently'
    LANGUAGE C;
COMMENT ON PROCEDURE index_table.create_concurrently(regclass, text, text, text, text, boolean, text, text, text, integer, text, boolean, boolean, boolean, text, boolean) IS
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

CREATE FUNCTION index_table.set_visible(index_table regclass, visible boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_set_visible'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.set_visible(regclass, boolean) IS
    'whether queries use an index table, or a global index; what is invisible is maintained, and unique, all the same. Sessions with the setting index_table.use_invisible use it nevertheless. Takes SHARE UPDATE EXCLUSIVE on the base table: blocks neither readers nor writers. Owner only';

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
