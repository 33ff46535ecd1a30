
-- Logical replication ---------------------------------------------------------

CREATE FUNCTION index_table.keep_local() RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_keep_local'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.keep_local() FROM PUBLIC;
COMMENT ON FUNCTION index_table.keep_local() IS
    'internal: keeps tables of the extension out of logical replication; the last statement of its scripts';

SELECT index_table.keep_local();
