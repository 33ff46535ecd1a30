
-- Following DDL -------------------------------------------------------------

CREATE FUNCTION index_table.on_ddl_end() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'index_table_on_ddl_end'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.on_ddl_end() FROM PUBLIC;
COMMENT ON FUNCTION index_table.on_ddl_end() IS
    'event trigger: carries renames and new, attached and detached partitions into the catalog';

CREATE FUNCTION index_table.on_drop() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'index_table_on_drop'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.on_drop() FROM PUBLIC;
COMMENT ON FUNCTION index_table.on_drop() IS
    'event trigger: forgets dropped index tables, base tables, partitions and columns';

CREATE EVENT TRIGGER index_table_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'CREATE SCHEMA')
    EXECUTE FUNCTION index_table.on_ddl_end();
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_drop ON sql_drop
    EXECUTE FUNCTION index_table.on_drop();
ALTER EVENT TRIGGER index_table_drop ENABLE ALWAYS;
