
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
    state       "char"   NOT NULL CHECK (state IN ('b', 'r', 'd', 'm'))
);
CREATE INDEX definition_base_idx ON index_table.definition (base);
COMMENT ON TABLE index_table.definition IS
    'one row for each index table; index_table.describe() tells what its rule says. Not dumped: made anew from the rules';
COMMENT ON COLUMN index_table.definition.state IS
    'b: built; r: restored, and not looked at since; d: damaged, restored without what it should hold; m: it may have missed changes, for its triggers were disabled or dropped';

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
    'numbers of truncated, detached and dropped partitions, and such as failed transactions have given, of which an index table may still store entries';
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

-- What is dumped: whoever owns what the rows name may dump and load them, so everybody reads them all, and the trigger
-- `load` leaves out what the user does not own. The sequence is not dumped: a number that is loaded has it go on from there.
-- Of index_table.partition all but what index_table.unsettled_partitions() returns.
SELECT pg_catalog.pg_extension_config_dump('index_table.partition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.retired_partition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.loaded_partition', '');

GRANT USAGE ON SCHEMA index_table TO PUBLIC;
GRANT SELECT ON index_table.definition, index_table.partition, index_table.retired_partition,
    index_table.loaded_partition, index_table.emptied TO PUBLIC;
GRANT INSERT ON index_table.partition, index_table.retired_partition, index_table.loaded_partition TO PUBLIC;
