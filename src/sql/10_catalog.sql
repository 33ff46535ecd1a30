
-- Catalog -------------------------------------------------------------------
-- Columns of a base table are recorded by name, key and predicate as SQL text
-- with every name qualified: both survive dump, restore and upgrade, where
-- attribute numbers and OIDs do not. Renames are followed by on_ddl_end().

CREATE TABLE index_table.definition (
    index_table regclass PRIMARY KEY,
    base        regclass NOT NULL,
    strategy    text     NOT NULL CHECK (strategy IN ('normalized', 'partial', 'denormalized')),
    key         text     NOT NULL,
    predicate   text,
    identity    name[]   NOT NULL,
    include     name[]   NOT NULL,
    is_unique   boolean  NOT NULL,
    maintenance text     NOT NULL CHECK (maintenance IN ('immediate', 'deferred')),
    log         regclass,
    nulls_distinct     boolean NOT NULL,
    is_deferrable      boolean NOT NULL,
    initially_deferred boolean NOT NULL
);
CREATE INDEX definition_base_idx ON index_table.definition (base);
COMMENT ON TABLE index_table.definition IS 'one row for each index table: what it is built over and how';
COMMENT ON COLUMN index_table.definition.key IS 'key as between the parentheses of CREATE INDEX';
COMMENT ON COLUMN index_table.definition.identity IS 'columns of the base table that find one row of it';
COMMENT ON COLUMN index_table.definition.include IS 'columns of the base table copied into each entry';
COMMENT ON COLUMN index_table.definition.log IS
    'where changes go while the index table is being built concurrently; NULL: it is complete';

COMMENT ON COLUMN index_table.definition.nulls_distinct IS 'of a unique index table: NULL is unlike NULL';
COMMENT ON COLUMN index_table.definition.is_deferrable IS 'of a unique index table: it has a DEFERRABLE constraint';
COMMENT ON COLUMN index_table.definition.initially_deferred IS 'of a unique index table: its constraint is INITIALLY DEFERRED';

CREATE SEQUENCE index_table.partition_id_seq AS integer;

CREATE TABLE index_table.partition (
    partition_id integer  PRIMARY KEY DEFAULT pg_catalog.nextval('index_table.partition_id_seq'),
    base         regclass NOT NULL,
    relation     regclass NOT NULL UNIQUE
);
CREATE INDEX partition_base_idx ON index_table.partition (base);
COMMENT ON TABLE index_table.partition IS
    'live partition numbers; an entry with any other number does not exist. A number is never used twice';

CREATE TABLE index_table.retired_partition (
    index_table  regclass,
    partition_id integer,
    base         regclass NOT NULL,
    entries      bigint   NOT NULL,
    PRIMARY KEY (index_table, partition_id)
);
CREATE INDEX retired_partition_base_idx ON index_table.retired_partition (base);
COMMENT ON TABLE index_table.retired_partition IS
    'numbers of truncated, detached and dropped partitions of which an index table may still store entries';
COMMENT ON COLUMN index_table.retired_partition.entries IS 'rows that the partition had, by PostgreSQL''s statistics';

CREATE TABLE index_table.loaded_partition (
    index_table  regclass,
    partition_id integer,
    PRIMARY KEY (index_table, partition_id)
);
COMMENT ON TABLE index_table.loaded_partition IS
    'partitions whose rows an index table has that is being built concurrently';

SELECT pg_catalog.pg_extension_config_dump('index_table.definition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.partition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.partition_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.retired_partition', '');
SELECT pg_catalog.pg_extension_config_dump('index_table.loaded_partition', '');

GRANT USAGE ON SCHEMA index_table TO PUBLIC;
GRANT SELECT ON index_table.definition, index_table.partition, index_table.retired_partition,
    index_table.loaded_partition TO PUBLIC;
