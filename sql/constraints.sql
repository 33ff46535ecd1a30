-- Constraints over all partitions: what a unique, deferrable or exclusion constraint on the base table would be.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA constraints;
SET search_path = constraints, public;
CREATE EXTENSION btree_gist SCHEMA constraints;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Every field of the error that a command raises.
CREATE FUNCTION error_of(command text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    state text; message text; detail text; hint text; "table" text; "column" text; "constraint" text; type text;
BEGIN
    EXECUTE command;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
        "table" = TABLE_NAME, "column" = COLUMN_NAME, "constraint" = CONSTRAINT_NAME, type = PG_DATATYPE_NAME;
    RETURN jsonb_strip_nulls(jsonb_build_object('state', state, 'message', message, 'detail', detail, 'hint', hint, 'table', "table",
        'column', "column", 'constraint', "constraint", 'type', type));
END $$;

-- The same columns in a partitioned table with index tables, and in plain tables that are named like those, with native constraints.
CREATE TABLE people (id int PRIMARY KEY, email varchar(40), "First" text, last text, born date, gone bool DEFAULT false, emails text[]) PARTITION BY HASH (id);
SELECT format('CREATE TABLE people_%s PARTITION OF people FOR VALUES WITH (MODULUS 3, REMAINDER %1$s)', i) FROM generate_series(0, 2) AS i \gexec
SELECT index_table.create('people', 'email', is_unique => true, name => 'by_email');
SELECT index_table.create('people', 'last, "First"', 'denormalized', is_unique => true, nulls_distinct => false, name => 'by_name');
SELECT index_table.create('people', 'lower(email), (born + 1)', is_unique => true, name => 'by_lower');
SELECT index_table.create('people', 'born, lower("First")', 'partial', include => 'last', is_unique => true, predicate => 'NOT gone', name => 'by_birth', partitions => 2);
SELECT index_table.create('people', 'unnest(emails)', is_unique => true, name => 'by_emails');
CREATE SCHEMA native;
CREATE TABLE native.by_email (LIKE people);
CREATE UNIQUE INDEX by_email_key ON native.by_email (email);
CREATE TABLE native.by_name (LIKE people);
CREATE UNIQUE INDEX by_name_key ON native.by_name (last, "First") NULLS NOT DISTINCT;
CREATE TABLE native.by_lower (LIKE people);
CREATE UNIQUE INDEX by_lower_key ON native.by_lower (lower(email), (born + 1));
CREATE TABLE native.by_birth (LIKE people);
CREATE UNIQUE INDEX by_birth_key ON native.by_birth (born, lower("First")) WHERE NOT gone;
INSERT INTO recomputation VALUES
    ('by_email', 'email, partition_id, id', 'people b', 'true'),
    ('by_name', 'last, "First", partition_id, id, email, born, gone, emails', 'people b', 'true'),
    ('by_lower', 'lower(email), born + 1, partition_id, id', 'people b', 'true'),
    ('by_birth', 'born, lower("First"), partition_id, id, last', 'people b', 'NOT gone'),
    ('by_emails', 'e, partition_id, id', 'people b CROSS JOIN LATERAL (SELECT DISTINCT unnest(emails)) AS m (e)', 'true');
CREATE TABLE rows (kind text, first text, second text);
INSERT INTO rows VALUES
    ('by_email', '(1,a@x,,a,,,)', '(2,a@x,,b,,,)'),
    ('by_name', '(1,,Ann,Lee,,,)', '(2,,Ann,Lee,,,)'),
    ('by_name', '(1,,,Lee,,,)', '(2,,,Lee,,,)'),
    ('by_name', '(1,,,,,,)', '(2,,,,,,)'),
    ('by_lower', '(1,A@x,,a,2000-01-01,,)', '(2,a@x,,b,2000-01-01,,)'),
    ('by_birth', '(1,a@x,Ann,,2000-01-01,f,)', '(2,b@x,ANN,b,2000-01-01,f,)');
CREATE FUNCTION repeat_in(target regclass, first text, second text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %s SELECT (%L::people).*', target, first);
    RETURN error_of(format('INSERT INTO %s SELECT (%L::people).*', target, second));
END $$;
BEGIN;
SELECT kind, first, ours, CASE WHEN native IS DISTINCT FROM ours THEN native END AS native_says
  FROM rows, LATERAL (SELECT repeat_in(('native.' || kind)::regclass, first, second)) AS n (native),
       LATERAL (SELECT repeat_in('people', first, second), error_of('DELETE FROM people'), error_of('DELETE FROM native.' || kind)) AS o (ours);
ROLLBACK;

-- Elements are unique over all rows; a row may repeat its own.
INSERT INTO people (id, last, emails) VALUES (1, 'a', '{a@x,b@x,a@x}'), (2, 'b', '{c@x,NULL}'), (3, 'c', '{NULL}'), (4, 'd', '{}');
INSERT INTO people (id, last, emails) VALUES (5, 'e', '{d@x,b@x}');
UPDATE people SET emails = emails || '{c@x}' WHERE id = 1;
UPDATE people SET emails = CASE id WHEN 1 THEN '{c@x,d@x}' ELSE '{a@x,b@x}' END::text[] WHERE id <= 2;
SELECT * FROM differences();

-- NULLS NOT DISTINCT: one row with NULL, in all partitions; keys with NULLs move and change hands like others.
INSERT INTO people (id) VALUES (10);
INSERT INTO people (id) VALUES (11);
UPDATE people SET last = NULL, "First" = NULL WHERE id = 1;
UPDATE people SET id = id + 100 WHERE id = 10;
WITH gone AS (DELETE FROM people WHERE id = 110 RETURNING *) INSERT INTO people SELECT id + 5 FROM gone;
UPDATE people SET last = CASE id WHEN 1 THEN NULL ELSE 'a' END WHERE id IN (1, 115);
SELECT id, last, "First" FROM people ORDER BY id;
SELECT * FROM differences();
TRUNCATE people_0;
SELECT count(*) AS left_behind FROM by_name WHERE partition_id NOT IN (SELECT partition_id FROM index_table.partition);
DELETE FROM people;
INSERT INTO people (id, last) VALUES (20, 'a'), (21, 'b'), (22, 'c'), (23, 'd'), (24, NULL);
SELECT * FROM differences();
DELETE FROM people;

-- Who may not read the key in the base table is not shown it, who may is.
CREATE ROLE regress_writer;
GRANT USAGE ON SCHEMA constraints TO regress_writer;
GRANT INSERT ON people TO regress_writer;
INSERT INTO people (id, email) VALUES (1, 'secret@x');
SET ROLE regress_writer;
INSERT INTO people (id, email, last) VALUES (2, 'secret@x', 'x');
RESET ROLE;
GRANT SELECT (email) ON people TO regress_writer;
SET ROLE regress_writer;
INSERT INTO people (id, email, last) VALUES (2, 'secret@x', 'x');
RESET ROLE;
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_in ON people FOR INSERT WITH CHECK (true);
SET ROLE regress_writer;
INSERT INTO people (id, email, last) VALUES (2, 'secret@x', 'x');
RESET ROLE;
ALTER TABLE people DISABLE ROW LEVEL SECURITY;
SELECT * FROM differences();
DROP TABLE people;

-- What makes no sense together.
CREATE TABLE seats (id int PRIMARY KEY, seat int, name text) PARTITION BY RANGE (id);
CREATE TABLE seats_1 PARTITION OF seats FOR VALUES FROM (0) TO (100);
CREATE TABLE seats_2 PARTITION OF seats FOR VALUES FROM (100) TO (200);
SELECT index_table.create('seats', 'seat', nulls_distinct => false);
\echo :SQLSTATE
SELECT index_table.create('seats', 'seat', is_deferrable => true);
\echo :SQLSTATE
SELECT index_table.create('seats', 'seat DESC', is_unique => true, is_deferrable => true);
\echo :SQLSTATE
SELECT index_table.create('seats', 'name text_pattern_ops', is_unique => true, initially_deferred => true);

-- DEFERRABLE: at the end of the statement or, when deferred, of the transaction.
SELECT index_table.create('seats', 'seat', is_unique => true, is_deferrable => true);
SELECT index_table.create('seats', 'name', 'partial', include => 'seat', is_unique => true, initially_deferred => true, nulls_distinct => false, partitions => 2);
SELECT index_table, is_unique, nulls_distinct, is_deferrable, initially_deferred FROM index_table.index_tables ORDER BY 1;
SELECT conrelid::regclass, conname, contype, condeferrable, condeferred, pg_get_constraintdef(oid) FROM pg_constraint
 WHERE conrelid IN ('seats_by_seat'::regclass, 'seats_by_name'::regclass) ORDER BY 1;
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('seats_by_seat', 'seat, partition_id, id', 'seats b'), ('seats_by_name', 'name, partition_id, id, seat', 'seats b');
INSERT INTO seats VALUES (1, 1, 'Ann'), (101, 2, 'Bob'), (2, 3, 'Cid');
INSERT INTO seats VALUES (3, 1, 'Dan');
UPDATE seats SET seat = 4 - seat;
UPDATE seats SET seat = seat % 2;
BEGIN;
SET CONSTRAINTS seats_by_seat_key DEFERRED;
INSERT INTO seats VALUES (102, 2, 'Dan');
SELECT * FROM seats WHERE seat = 2 ORDER BY id;
SELECT * FROM differences();
UPDATE seats SET seat = 4 WHERE id = 101;
SET CONSTRAINTS seats_by_seat_key IMMEDIATE;
INSERT INTO seats VALUES (103, 2, 'Eve');
ROLLBACK;
BEGIN;
INSERT INTO seats VALUES (102, 5, 'Bob');
SAVEPOINT s;
INSERT INTO seats VALUES (103, 6, 'Ann');
ROLLBACK TO s;
UPDATE seats SET name = 'Dan' WHERE id = 101;
COMMIT;
SELECT * FROM seats ORDER BY id;
BEGIN;
INSERT INTO seats VALUES (104, 7, 'Bob');
UPDATE seats SET id = 4 WHERE id = 104;
COMMIT;
\echo :SQLSTATE
BEGIN;
INSERT INTO seats VALUES (104, 7, NULL), (5, 8, NULL);
UPDATE seats SET seat = 9 WHERE seat = 7;
COMMIT;
\echo :SQLSTATE
-- Also where nothing but the end of the transaction is left to check: this session has not loaded the library before.
\c -
COPY constraints.seats FROM stdin;
104	7	Bob
\.
\echo :SQLSTATE
\c -
SET search_path = constraints, public;
SET client_min_messages = warning;
SELECT * FROM seats ORDER BY id;
SELECT * FROM differences();
-- A partition that goes takes its keys along.
BEGIN;
INSERT INTO seats VALUES (6, 10, 'Dan');
TRUNCATE seats_2;
COMMIT;
ALTER TABLE seats DETACH PARTITION seats_1;
INSERT INTO seats VALUES (110, 10, 'Dan'), (111, 1, 'Ann');
SELECT * FROM seats ORDER BY id;
SELECT * FROM differences();
-- Concurrently built, too; and index tables with constraints are found by.
DROP TABLE seats_by_seat, seats_by_name;
CALL index_table.create_concurrently('seats', 'seat', is_unique => true, is_deferrable => true);
CALL index_table.create_concurrently('seats', 'name', is_unique => true, nulls_distinct => false, name => 'seats_by_name');
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('seats_by_seat', 'seat, partition_id, id', 'seats b'), ('seats_by_name', 'name, partition_id, id', 'seats b');
INSERT INTO seats VALUES (112, 11, NULL);
INSERT INTO seats VALUES (113, 12, NULL);
INSERT INTO seats VALUES (113, 11, 'Fay');
UPDATE seats SET seat = 22 - seat WHERE seat IN (10, 12, 11);
ALTER TABLE seats_by_seat DROP CONSTRAINT seats_by_seat_key;
\echo :SQLSTATE
SELECT * FROM seats ORDER BY id;
SELECT * FROM differences();
DROP TABLE seats;

-- EXCLUDE: no two bookings of a room overlap, in whatever partitions they are.
CREATE TABLE bookings (id int, day date, room int, during int4range, name text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE bookings_1 PARTITION OF bookings FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE bookings_2 PARTITION OF bookings FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
SELECT index_table.create('bookings', 'room, during', predicate => 'name IS NOT NULL');
ALTER TABLE bookings_by_room_during ADD CONSTRAINT no_overlap EXCLUDE USING gist (room WITH =, during WITH &&);
CREATE TABLE native.bookings_by_room_during (LIKE bookings, CONSTRAINT no_overlap EXCLUDE USING gist (room WITH =, during WITH &&) WHERE (name IS NOT NULL));
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('bookings_by_room_during', 'room, during, partition_id, id, day', 'bookings b', 'name IS NOT NULL');
INSERT INTO bookings VALUES (1, '2026-01-10', 7, '[10,20)', 'Ann'), (2, '2026-02-10', 7, '[20,30)', 'Bob'), (3, '2026-01-10', 8, '[10,20)', 'Cid'), (4, '2026-01-10', 7, '[15,16)', NULL);
INSERT INTO native.bookings_by_room_during SELECT * FROM bookings;
SELECT ours, CASE WHEN native IS DISTINCT FROM ours THEN native END AS native_says
  FROM error_of($$INSERT INTO bookings VALUES (5, '2026-02-01', 7, '[19,21)', 'Dan')$$) AS o (ours),
       error_of($$INSERT INTO native.bookings_by_room_during VALUES (5, '2026-02-01', 7, '[19,21)', 'Dan')$$) AS n (native);
SELECT error_of($$UPDATE bookings SET name = 'Dan' WHERE id = 4$$) ->> 'state' AS state,
       error_of($$COPY bookings FROM PROGRAM 'printf "6\\t2026-02-02\\t8\\t[0,11)\\tEve\\n"'$$) ->> 'state' AS copy,
       error_of($$UPDATE bookings SET room = 7$$) ->> 'state' AS update;
-- One statement may move them about.
UPDATE bookings SET during = int4range(lower(during) + 5, upper(during) + 5) WHERE room = 7 AND name IS NOT NULL;
UPDATE bookings SET day = CASE WHEN day < '2026-02-01' THEN day + 31 ELSE day - 31 END;
SELECT * FROM bookings ORDER BY id;
SELECT * FROM differences();
-- Entries of partitions that are gone exclude nothing.
TRUNCATE bookings_2;
INSERT INTO bookings VALUES (7, '2026-01-05', 8, '[0,15)', 'Fay');
ALTER TABLE bookings DETACH PARTITION bookings_1;
INSERT INTO bookings VALUES (8, '2026-02-05', 7, '[0,50)', 'Guy'), (9, '2026-02-05', 8, '[14,15)', 'Hal');
ALTER TABLE bookings ATTACH PARTITION bookings_1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
\echo :SQLSTATE
DELETE FROM bookings;
ALTER TABLE bookings ATTACH PARTITION bookings_1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
SELECT * FROM bookings ORDER BY id;
SELECT * FROM differences();
-- Deferred, it is checked at the end. What is dead when it is added is not in its way.
INSERT INTO bookings VALUES (12, '2026-02-05', 11, '[0,50)', 'Kay');
TRUNCATE bookings_2;
ALTER TABLE bookings_by_room_during DROP CONSTRAINT no_overlap, ADD CONSTRAINT no_overlap EXCLUDE USING gist (room WITH =, during WITH &&) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO bookings VALUES (10, '2026-02-05', 7, '[0,50)', 'Ida'), (11, '2026-01-05', 7, '[10,15)', 'Jan');
UPDATE bookings SET room = 9 WHERE id = 10;
COMMIT;
BEGIN;
INSERT INTO bookings VALUES (13, '2026-02-05', 11, '[10,60)', 'Lee');
UPDATE bookings SET room = 9 WHERE id = 11;
COMMIT;
\echo :SQLSTATE
SELECT * FROM bookings ORDER BY id;
SELECT * FROM differences();

-- In the middle of a statement, with a constraint of the owner's: what a row trigger gives back is not held against it.
ALTER TABLE bookings_by_room_during DROP CONSTRAINT no_overlap, ADD CONSTRAINT no_overlap EXCLUDE USING gist (room WITH =, during WITH &&);
CREATE UNIQUE INDEX one_name ON bookings_by_room_during (lower(during), room);
CREATE FUNCTION give_way() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE bookings SET room = room + 1 WHERE room = NEW.room AND during && NEW.during AND id <> NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER z_gives_way AFTER INSERT ON bookings FOR EACH ROW EXECUTE FUNCTION give_way();
DELETE FROM bookings;
INSERT INTO bookings VALUES (1, '2026-01-10', 7, '[10,20)', 'Ann'), (2, '2026-02-10', 9, '[10,20)', 'Bob');
INSERT INTO bookings VALUES (3, '2026-02-10', 7, '[10,12)', 'Cid');
SELECT * FROM bookings ORDER BY id;
SELECT * FROM differences();
DROP TRIGGER z_gives_way ON bookings;
INSERT INTO bookings VALUES (4, '2026-02-10', 7, '[11,12)', 'Dan');
\echo :SQLSTATE
DROP TABLE bookings;

-- A unique index that CREATE INDEX CONCURRENTLY could not build constrains nothing, nor is it looked into for dead entries.
CREATE TABLE chairs (id int PRIMARY KEY, seat int, hall int) PARTITION BY RANGE (id);
CREATE TABLE chairs_1 PARTITION OF chairs FOR VALUES FROM (0) TO (10);
CREATE TABLE chairs_2 PARTITION OF chairs FOR VALUES FROM (10) TO (20);
SELECT index_table.create('chairs', 'seat', 'partial', include => 'hall', is_unique => true);
INSERT INTO chairs VALUES (1, 1, 7), (2, 2, 7), (11, 11, 7);
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX CONCURRENTLY one_hall ON chairs_by_seat (hall);
\set VERBOSITY default
TRUNCATE chairs_1;
INSERT INTO chairs VALUES (12, 1, 7);
INSERT INTO chairs VALUES (13, 2, 7), (14, 2, 7), (15, 11, 7) ON CONFLICT DO NOTHING;
UPDATE chairs SET seat = 3 WHERE seat = 1;
SELECT * FROM chairs ORDER BY id;
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('chairs_by_seat', 'seat, partition_id, id, hall', 'chairs b');
SELECT * FROM differences();
DROP TABLE chairs;

-- A statement so big that it is carried out in parts: every key moves on to the next row, and only the end of it counts.
CREATE TABLE big (id int PRIMARY KEY, k int, pad text) PARTITION BY HASH (id);
CREATE TABLE big_0 PARTITION OF big FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE big_1 PARTITION OF big FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT index_table.create('big', 'k', 'partial', include => 'pad', is_unique => true);
ALTER TABLE big_by_k ADD EXCLUDE USING btree (k WITH =);
INSERT INTO big SELECT i, i, repeat('x', 1900) FROM generate_series(1, 15000) AS i;
UPDATE big SET k = k + 1;
\set VERBOSITY sqlstate
UPDATE big SET k = 5000 WHERE id = 5;
UPDATE big SET k = k / 2;
\set VERBOSITY default
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('big_by_k', 'k, partition_id, id, pad', 'big b');
SELECT count(*), min(k), max(k) FROM big;
SELECT * FROM differences();

-- Statements that load the library: one whose foreign key changes the base table, and one that fails.
CREATE TABLE parents (p int PRIMARY KEY);
CREATE TABLE kids (id int PRIMARY KEY, k int, p int REFERENCES parents ON UPDATE CASCADE ON DELETE SET NULL) PARTITION BY RANGE (id);
CREATE TABLE kids_1 PARTITION OF kids FOR VALUES FROM (0) TO (100);
SELECT index_table.create('kids', 'k', is_unique => true);
INSERT INTO parents VALUES (1), (2);
INSERT INTO kids VALUES (1, 1, 1), (2, 2, 2);
\c -
SET search_path = constraints, public;
BEGIN;
DELETE FROM parents WHERE p = 2;
INSERT INTO kids VALUES (3, 1, NULL);
ROLLBACK;
\c -
SET search_path = constraints, public;
DO $$ BEGIN
    UPDATE parents SET p = p + 10;
    INSERT INTO kids VALUES (3, 1, NULL);
EXCEPTION WHEN unique_violation THEN RAISE WARNING 'caught';
END $$;
\c -
SET search_path = constraints, public;
DO $$ BEGIN
    BEGIN
        INSERT INTO kids VALUES (1000, 9, NULL);
    EXCEPTION WHEN check_violation THEN NULL;
    END;
    INSERT INTO kids VALUES (3, 1, NULL);
EXCEPTION WHEN unique_violation THEN RAISE WARNING 'caught';
END $$;
\c -
SET search_path = constraints, public;
BEGIN;
UPDATE parents SET p = p + 10;
SELECT * FROM kids ORDER BY id;
UPDATE kids SET k = 3 - k;
COMMIT;
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('kids_by_k', 'k, partition_id, id', 'kids b');
SELECT * FROM differences();

DROP SCHEMA constraints, native CASCADE;
DROP ROLE regress_writer;
