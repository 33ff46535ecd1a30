
-- Following DDL -------------------------------------------------------------

CREATE FUNCTION index_table.on_ddl_start() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'index_table_on_ddl_start'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.on_ddl_start() FROM PUBLIC;
COMMENT ON FUNCTION index_table.on_ddl_start() IS
    'event trigger: refuses what index tables cannot follow, and notes what names mean before they change, and what goes with what is dropped';

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

CREATE FUNCTION index_table.check_loading() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_check_loading'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION index_table.check_loading() FROM PUBLIC;
COMMENT ON FUNCTION index_table.check_loading() IS
    'row trigger of index_table.definition: refuses a dump of data alone where triggers would enter its rows once more';

CREATE TRIGGER check_loading BEFORE INSERT ON index_table.definition
    FOR EACH ROW EXECUTE FUNCTION index_table.check_loading();
ALTER TABLE index_table.definition ENABLE ALWAYS TRIGGER check_loading;

CREATE EVENT TRIGGER index_table_ddl_start ON ddl_command_start
    WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER FUNCTION', 'ALTER ROUTINE', 'ALTER SCHEMA',
                 'ALTER TYPE', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER OPERATOR', 'ALTER OPERATOR CLASS',
                 'ALTER OPERATOR FAMILY', 'ALTER EXTENSION', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER SEQUENCE',
                 'ALTER TEXT SEARCH CONFIGURATION', 'ALTER TEXT SEARCH DICTIONARY',
                 'DROP TABLE', 'DROP FOREIGN TABLE', 'DROP SERVER', 'DROP FOREIGN DATA WRAPPER', 'DROP INDEX', 'DROP TRIGGER', 'DROP FUNCTION', 'DROP ROUTINE', 'DROP AGGREGATE', 'DROP SCHEMA', 'DROP TYPE',
                 'DROP DOMAIN', 'DROP COLLATION', 'DROP OPERATOR', 'DROP OPERATOR CLASS', 'DROP OPERATOR FAMILY',
                 'DROP EXTENSION', 'DROP LANGUAGE', 'DROP OWNED')
    EXECUTE FUNCTION index_table.on_ddl_start();
ALTER EVENT TRIGGER index_table_ddl_start ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER',
                 'ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER FUNCTION', 'ALTER ROUTINE', 'ALTER SCHEMA',
                 'ALTER TYPE', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER OPERATOR', 'ALTER OPERATOR CLASS',
                 'ALTER OPERATOR FAMILY', 'ALTER EXTENSION', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER SEQUENCE',
                 'ALTER TEXT SEARCH CONFIGURATION', 'ALTER TEXT SEARCH DICTIONARY',
                 'CREATE PUBLICATION', 'ALTER PUBLICATION', 'CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION')
    EXECUTE FUNCTION index_table.on_ddl_end();
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_drop ON sql_drop
    EXECUTE FUNCTION index_table.on_drop();
ALTER EVENT TRIGGER index_table_drop ENABLE ALWAYS;
