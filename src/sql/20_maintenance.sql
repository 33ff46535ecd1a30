
-- Maintenance ---------------------------------------------------------------

CREATE FUNCTION index_table.maintain() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_maintain'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.maintain() IS
    'row trigger of base tables: carries a change into the base table''s index tables at the end of the statement';

CREATE FUNCTION index_table.renumber() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_renumber'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.renumber() IS
    'TRUNCATE trigger of partitions: a new partition number makes every entry of the old one dead';
