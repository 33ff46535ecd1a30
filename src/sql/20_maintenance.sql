
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
