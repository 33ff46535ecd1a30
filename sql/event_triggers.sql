-- Event triggers of a database's administrator, which do something to every table that is created: index tables, their queues, logs
-- and partitions belong to the owner of the base table all the same, and to nobody else.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA event_triggers;
CREATE SCHEMA elsewhere;
SET search_path = event_triggers;
\set VERBOSITY terse
CREATE ROLE regress_event_owner;
CREATE ROLE regress_event_app;
GRANT CREATE, USAGE ON SCHEMA event_triggers, elsewhere TO regress_event_owner, regress_event_app;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
CREATE TABLE payroll (id int PRIMARY KEY, iban text, town text) PARTITION BY HASH (id);
CREATE TABLE payroll_0 PARTITION OF payroll FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE payroll_1 PARTITION OF payroll FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO payroll SELECT i, 'secret ' || i, 'town ' || i % 3 FROM generate_series(1, 20) AS i;
CREATE TABLE staff (id int PRIMARY KEY, name text, town text) PARTITION BY HASH (id);
CREATE TABLE staff_0 PARTITION OF staff FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO staff SELECT i, 'name ' || i, 'town' FROM generate_series(1, 20) AS i;
ALTER TABLE staff OWNER TO regress_event_owner;
ALTER TABLE staff_0 OWNER TO regress_event_owner;
CREATE VIEW owners AS
    SELECT relname::text COLLATE "C" AS relation, relowner::regrole AS owner, relnamespace::regnamespace AS schema,
           (SELECT string_agg(DISTINCT a.grantee::regrole::text, ' ') FROM aclexplode(relacl) AS a WHERE a.grantee <> relowner) AS others
      FROM pg_class WHERE relkind IN ('r', 'p', 'i', 'I', 'f', 'S') AND relname ~ '^(payroll|staff)_(by|later|wide|more|outbox)' ORDER BY 1;

CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'as %', current_user; RETURN NULL; END $$;
-- A common recipe: one role owns every table, and may see it.
CREATE FUNCTION own_it() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE o record;
BEGIN
    IF current_setting('event_triggers.is_inside', true) = 'yes' THEN
        RETURN;
    END IF;
    PERFORM set_config('event_triggers.is_inside', 'yes', true);
    FOR o IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type IN ('table', 'foreign table') AND object_identity !~ '\.((payroll|staff)(_\d)?|payroll_later)$' LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO regress_event_app', o.object_identity);
        IF o.command_tag LIKE 'CREATE%' THEN
            EXECUTE format('GRANT SELECT ON %s TO PUBLIC, regress_event_app', o.object_identity);
        END IF;
    END LOOP;
    PERFORM set_config('event_triggers.is_inside', 'no', true);
END $$;
CREATE EVENT TRIGGER own_it ON ddl_command_end WHEN tag IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE FOREIGN TABLE') EXECUTE FUNCTION own_it();
SELECT index_table.create('payroll', 'iban', is_unique => true);
SELECT index_table.create('payroll', 'town', partitions => 2);
SELECT index_table.create('payroll', 'lower(town)', maintenance => 'deferred', name => 'payroll_later');
CALL index_table.create_concurrently('payroll', 'town, iban', 'denormalized', name => 'payroll_wide');
SELECT index_table.set_maintenance('payroll_by_town', 'deferred');
CALL index_table.rebuild('payroll_wide');
SET ROLE regress_event_owner;
SELECT index_table.create('staff', 'name, id', name => 'staff_by_name', partitions => 1, strategy => 'partial', include => 'town');
SELECT index_table.create('staff', 'upper(town)', maintenance => 'deferred', name => 'staff_later');
CALL index_table.create_concurrently('staff', 'lower(name)', is_unique => true, name => 'staff_more');
RESET ROLE;
SELECT relation, owner, others FROM owners;
SELECT relname, relowner::regrole FROM pg_class WHERE relname IN ('payroll', 'payroll_0', 'staff', 'staff_0') ORDER BY relname::text COLLATE "C";
SET ROLE regress_event_app;
SELECT count(*) FROM payroll_by_iban;
CREATE TRIGGER spy AFTER INSERT ON staff_more FOR EACH ROW EXECUTE FUNCTION event_triggers.spy();
RESET ROLE;
INSERT INTO recomputation VALUES
    ('payroll_by_iban', 'iban, partition_id, id', 'payroll b'), ('payroll_wide', 'town, iban, partition_id, id', 'payroll b'),
    ('staff_by_name', 'name, id, partition_id, town', 'staff b'), ('staff_more', 'lower(name), partition_id, id', 'staff b');
INSERT INTO payroll VALUES (100, 'new', 'new');
INSERT INTO staff VALUES (100, 'new', 'new');
CALL index_table.drain();
SELECT * FROM differences();
-- A queue that is made anew, and the one of a captured table.
ALTER TABLE staff ALTER town TYPE varchar(40);
ALTER TABLE payroll ADD COLUMN more int DEFAULT 7;
ALTER TABLE payroll_later SET SCHEMA elsewhere;
SELECT index_table.capture('staff');
SELECT relation, owner, others FROM owners WHERE relation ~ 'queue|outbox|wide|by';
SELECT index_table.release('staff');
SELECT index_table.drop(index_table) FROM index_table.index_tables WHERE base IN ('payroll'::regclass, 'staff'::regclass);
DROP EVENT TRIGGER own_it;

-- Who renames indexes does not matter. Who renames, moves or drops what has just been created is told.
CREATE FUNCTION rename_it() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE o record;
BEGIN
    FOR o IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'index' LOOP
        EXECUTE format('ALTER INDEX %s RENAME TO %I', o.object_identity, 'renamed_' || o.objid);
    END LOOP;
END $$;
CREATE EVENT TRIGGER rename_it ON ddl_command_end WHEN tag IN ('CREATE INDEX') EXECUTE FUNCTION rename_it();
SELECT index_table.create('payroll', 'iban', is_unique => true);
CALL index_table.create_concurrently('payroll', 'town, iban', is_unique => true, name => 'payroll_wide');
CREATE INDEX payroll_global ON payroll USING global (iban);
SELECT count(*) FROM index_table.verify('payroll_by_iban');
SELECT count(*) FROM index_table.verify('payroll_wide');
INSERT INTO payroll VALUES (101, 'new', 'new') ON CONFLICT (iban) DO NOTHING;
SELECT relname ~ '^renamed', count(*) FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid WHERE indrelid IN ('payroll_by_iban'::regclass, 'payroll_wide'::regclass) GROUP BY 1;
SELECT index_table.drop('payroll_by_iban'), index_table.drop('payroll_wide');
DROP EVENT TRIGGER rename_it;
CREATE FUNCTION change_it() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE o record;
BEGIN
    FOR o IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' LOOP
        EXECUTE format(current_setting('event_triggers.change'), o.object_identity);
    END LOOP;
END $$;
CREATE EVENT TRIGGER change_it ON ddl_command_end WHEN tag IN ('CREATE TABLE') EXECUTE FUNCTION change_it();
\set VERBOSITY default
SET event_triggers.change = 'ALTER TABLE %s SET SCHEMA elsewhere';
SELECT index_table.create('payroll', 'iban');
\set VERBOSITY terse
SET event_triggers.change = 'ALTER TABLE %s RENAME TO other';
SELECT index_table.create('payroll', 'iban', partitions => 2);
SELECT index_table.create('payroll', 'iban', maintenance => 'deferred');
CALL index_table.create_concurrently('payroll', 'iban');
SELECT index_table.capture('payroll');
SET event_triggers.change = 'DROP TABLE %s';
SELECT index_table.create('payroll', 'iban');
\echo :SQLSTATE
DROP EVENT TRIGGER change_it;
SELECT relation FROM owners;

DROP SCHEMA event_triggers, elsewhere CASCADE;
DROP ROLE regress_event_owner;
DROP ROLE regress_event_app;
