
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
    'row trigger of the tables that are dumped: leaves out rows of relations that a dump has left out, or that the user does not own, and numbers of partitions that have one';

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
    WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER SCHEMA', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
                 'CREATE INDEX', 'ALTER INDEX', 'ALTER SEQUENCE', 'CREATE RULE', 'ALTER RULE',
                 'DROP TABLE', 'DROP FOREIGN TABLE', 'DROP SERVER', 'DROP FOREIGN DATA WRAPPER', 'DROP INDEX', 'DROP TRIGGER', 'DROP FUNCTION', 'DROP ROUTINE', 'DROP AGGREGATE', 'DROP SCHEMA', 'DROP TYPE',
                 'DROP DOMAIN', 'DROP COLLATION', 'DROP OPERATOR', 'DROP OPERATOR CLASS', 'DROP OPERATOR FAMILY',
                 'DROP EXTENSION', 'DROP LANGUAGE', 'DROP OWNED')
    EXECUTE FUNCTION index_table.on_ddl_start();
ALTER EVENT TRIGGER index_table_ddl_start ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE RULE', 'CREATE TRIGGER', 'CREATE INDEX',
                 'ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER SCHEMA', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
                 'ALTER INDEX', 'ALTER SEQUENCE', 'ALTER EXTENSION',
                 'CREATE PUBLICATION', 'ALTER PUBLICATION', 'CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION')
    EXECUTE FUNCTION index_table.on_ddl_end();
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;

CREATE EVENT TRIGGER index_table_drop ON sql_drop
    EXECUTE FUNCTION index_table.on_drop();
ALTER EVENT TRIGGER index_table_drop ENABLE ALWAYS;
