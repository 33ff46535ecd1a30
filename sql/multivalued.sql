-- Keys of many values: a row has one entry for each distinct element.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA multivalued;
SET search_path = multivalued;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE films (
    year int, id int, title text, actors text[], genres varchar(20)[] DEFAULT '{}', plot text, doc jsonb, ratings numeric[],
    PRIMARY KEY (year, id)
) PARTITION BY RANGE (year);
CREATE TABLE films_old PARTITION OF films FOR VALUES FROM (MINVALUE) TO (2000);
CREATE TABLE films_new (doc jsonb, id int NOT NULL, gone text, ratings numeric[], genres varchar(20)[] DEFAULT '{}', plot text, actors text[], title text, year int NOT NULL);
ALTER TABLE films_new DROP COLUMN gone;
ALTER TABLE films ATTACH PARTITION films_new FOR VALUES FROM (2000) TO (MAXVALUE);
INSERT INTO films (year, id, title, actors, genres, plot, doc, ratings) VALUES
    (1999, 1, 'One', '{Ann,Bob,Ann}', '{drama,crime}', 'a dog and a cat', '{"tags": ["x", "y", "x"]}', '{1.0,1.00,2}'),
    (1998, 2, 'Two', '{Bob}', '{drama}', 'a cat', '{"tags": []}', '{}'),
    (2001, 3, 'Three', '{}', NULL, '', '{"tags": ["y", null, 7]}', '{NULL,1}'),
    (2002, 4, 'Four', NULL, '{}', NULL, NULL, NULL),
    (2003, 5, 'Five', '{NULL,Cid,NULL}', '{NULL}', 'and and and', '{}', '{2,1,0}'),
    (2004, 6, 'Six', '{{Ann,Bob},{Cid,Ann}}', '{{crime,comedy},{crime,drama}}', 'one', '{"tags": [["deep"], {"k": 1}]}', '[5:6]={3,3.0}');

-- The spellings. A plain array column means its elements.
SELECT index_table.create('films', 'unnest(actors)');
\d films_by_unnest
SELECT index_table.create('films', 'actors', 'partial', include => 'title');
\d films_by_actors
SELECT index_table.create('films', 'genres DESC NULLS LAST, year', 'denormalized');
\d films_by_genres_year
SELECT index_table.create('films', 'upper(unnest(actors))');
SELECT index_table.create('films', 'title, unnest(ratings), id', partitions => 2);
SELECT index_table.create('films', 'regexp_split_to_table(plot, ''\W+'') COLLATE "C"');
SELECT index_table.create('films', 'string_to_array(plot, '' '')', predicate => 'plot <> ''''');
SELECT index_table.create('films', 'jsonb_array_elements_text(doc -> ''tags'')');
SELECT index_table.create('films', 'jsonb_array_elements(doc -> ''tags'')');
SELECT index_table.create('films', 'generate_series(id, id + 2)', 'partial', include => 'title');
SELECT index_table.create('films', '(year || '' '' || left(unnest(actors), 1))', name => 'films_by_initial');
SELECT index_table.create('films', '(ARRAY[title, actors[1], title])', name => 'films_by_listed');
SELECT index_table.create('films', 'unnest(ratings) DESC', predicate => 'year < 2000', name => 'films_by_old_rating');
SELECT index_table, key, predicate FROM index_table.index_tables ORDER BY index_table::text COLLATE "C";
-- What the entries are.
SELECT unnest AS actor, partition, year, id FROM films_by_unnest JOIN index_table.partitions USING (partition_id) ORDER BY 1, 2, 3, 4;
SELECT jsonb_array_elements, year, id FROM films_by_jsonb_array_elements ORDER BY 1, 2, 3;

-- Recomputed: the distinct elements of each row.
INSERT INTO recomputation
SELECT name::regclass, entry, format('films b CROSS JOIN LATERAL (SELECT DISTINCT %s) AS m (element)', elements), condition
  FROM (VALUES
    ('films_by_unnest', 'element, partition_id, year, id', 'unnest(actors)', 'true'),
    ('films_by_actors', 'element, partition_id, year, id, title', 'unnest(actors)', 'true'),
    ('films_by_genres_year', 'element, year, partition_id, id, title, actors, genres, plot, doc, ratings', 'unnest(genres)', 'true'),
    ('films_by_upper', 'element, partition_id, year, id', 'upper(a) FROM unnest(actors) AS a', 'true'),
    ('films_by_title_unnest_id', 'title, element, id, partition_id, year', 'ON (r) r FROM unnest(ratings) WITH ORDINALITY AS u (r, n) ORDER BY r, n LIMIT ALL', 'true'),
    ('films_by_regexp_split_to_table', 'element, partition_id, year, id', 'w FROM regexp_split_to_table(plot, ''\W+'') AS w', 'true'),
    ('films_by_string_to_array', 'element, partition_id, year, id', 'w FROM unnest(string_to_array(plot, '' '')) AS w', 'plot <> '''''),
    ('films_by_jsonb_array_elements_text', 'element, partition_id, year, id', 't FROM jsonb_array_elements_text(doc -> ''tags'') AS t', 'true'),
    ('films_by_jsonb_array_elements', 'element, partition_id, year, id', 't FROM jsonb_array_elements(doc -> ''tags'') AS t', 'true'),
    ('films_by_generate_series', 'element, partition_id, year, id, title', 'g FROM generate_series(id, id + 2) AS g', 'true'),
    ('films_by_initial', 'element, partition_id, year, id', 'year || '' '' || left(a, 1) FROM unnest(actors) AS a', 'true'),
    ('films_by_listed', 'element, partition_id, year, id', 'a FROM unnest(ARRAY[title, actors[1], title]) AS a', 'true'),
    ('films_by_old_rating', 'element, partition_id, year, id', 'ON (r) r FROM unnest(ratings) WITH ORDINALITY AS u (r, n) ORDER BY r, n LIMIT ALL', 'year < 2000')
  ) AS r (name, entry, elements, condition);
SELECT * FROM differences();
SELECT index_table AS not_checked FROM index_table.index_tables WHERE index_table NOT IN (SELECT index_table FROM recomputation);

-- Changes: elements come, go and stay.
INSERT INTO films (year, id, title, actors) VALUES (1997, 7, 'Seven', '{Ann,Dan}'), (2005, 8, 'Eight', '{}'), (2006, 9, NULL, NULL);
UPDATE films SET actors = (SELECT array_agg(nullif(a, 'Bob')) || ARRAY['Eve'] FROM unnest(actors) AS a);
SELECT * FROM differences();
UPDATE films SET genres = genres || '{drama,noir}'::varchar[], plot = plot || ' and more', ratings = ratings || id::numeric || 1.000 WHERE id % 2 = 1;
UPDATE films SET doc = jsonb_build_object('tags', COALESCE(to_jsonb(actors), '[]'));
UPDATE films SET title = title || '!';
UPDATE films SET year = CASE WHEN year < 2000 THEN year + 10 ELSE year - 10 END, actors = actors || actors;
SELECT * FROM differences();
UPDATE films SET actors = NULL, plot = NULL WHERE id = 1;
UPDATE films SET actors = '{}', plot = '', doc = NULL, genres = '{}' WHERE id = 2;
UPDATE films SET actors = '{{x,y},{x,z}}' WHERE id IN (4, 5);
DELETE FROM films WHERE id = 6;
SELECT * FROM differences();
-- What nobody can tell apart leaves the entries as they are.
BEGIN;
CREATE TABLE before AS SELECT ctid AS place, * FROM films_by_unnest;
UPDATE films SET actors = (SELECT array_agg(a ORDER BY a DESC) FROM unnest(actors || actors) AS a) WHERE actors <> '{}';
SELECT count(*) FROM (SELECT ctid, * FROM films_by_unnest EXCEPT ALL SELECT * FROM before) AS moved;
SELECT count(*) AS differences FROM differences();
ROLLBACK;
-- Many elements.
INSERT INTO films (year, id, title, actors) SELECT 1900, 100, 'Crowd', array_agg('actor ' || i % 700) FROM generate_series(1, 3000) AS i;
SELECT count(*) FROM films_by_unnest WHERE id = 100;
UPDATE films SET actors = actors[1:500] || ARRAY['star'] WHERE id = 100;
SELECT count(*) FROM films_by_unnest WHERE id = 100;
SELECT * FROM differences();
DELETE FROM films WHERE id = 100;

-- Equal elements count as one, the first of them, however the entries are computed.
CREATE TABLE scales (id int PRIMARY KEY, weights numeric[]);
INSERT INTO scales SELECT i, array_agg((j % 5)::numeric(4, 2) * (ARRAY[1, 1.0, 1.00])[1 + (i + j) % 3]) FROM generate_series(1, 20) AS i, generate_series(1, 30) AS j GROUP BY i;
SET enable_hashagg = off;
SELECT index_table.create('scales', 'weights');
RESET enable_hashagg;
INSERT INTO scales SELECT id + 100, weights FROM scales;
UPDATE scales SET weights = weights[10:20] WHERE id % 3 = 0;
INSERT INTO recomputation VALUES ('scales_by_weights', 'element, partition_id, id', 'scales b CROSS JOIN LATERAL
    (SELECT DISTINCT ON (w) w FROM unnest(weights) WITH ORDINALITY AS u (w, n) ORDER BY w, n) AS m (element)');
SELECT * FROM differences();
SET enable_hashagg = off;
SELECT * FROM index_table.verify('scales_by_weights');
RESET enable_hashagg;
SELECT * FROM index_table.verify('scales_by_weights');
SELECT count(*), (SELECT count(*) FROM scales_by_weights) AS entries FROM index_table.fetch(NULL::scales, 'scales_by_weights');
DROP TABLE scales;
DELETE FROM recomputation WHERE index_table::text NOT LIKE 'films%';

-- Read back: a row under each of its elements, and no row twice.
SELECT id, title FROM index_table.fetch(NULL::films, 'films_by_actors', 'Eve') ORDER BY id;
SELECT id FROM films WHERE 'Eve' = ANY (actors) ORDER BY id;
SELECT partition, identity, included FROM index_table.lookup('films_by_actors', 'x') ORDER BY identity;
SELECT identity FROM index_table.lookup('films_by_actors', NULL);
SELECT id FROM index_table.fetch(NULL::films, 'films_by_upper', 'EVE') ORDER BY id;
SELECT id FROM index_table.fetch(NULL::films, 'films_by_title_unnest_id', 'Three!', 1);
SELECT count(*), count(DISTINCT id) FROM index_table.fetch(NULL::films, 'films_by_actors');
SELECT count(*) FROM films, LATERAL (SELECT DISTINCT a FROM unnest(actors) AS a) AS m;

-- Unique: no two rows share an element; one row may hold an element twice.
CREATE TABLE users (id int PRIMARY KEY, mails text[]) PARTITION BY HASH (id);
CREATE TABLE users_0 PARTITION OF users FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE users_1 PARTITION OF users FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT index_table.create('users', 'lower(unnest(mails))', is_unique => true);
INSERT INTO recomputation VALUES ('users_by_lower', 'element, partition_id, id', 'users b CROSS JOIN LATERAL (SELECT DISTINCT lower(unnest(mails))) AS m (element)');
INSERT INTO users VALUES (1, '{a@x,A@X,b@x}'), (2, '{c@x,NULL,NULL}'), (3, '{NULL}');
INSERT INTO users VALUES (4, '{d@x,B@x}');
\echo :SQLSTATE
UPDATE users SET mails = mails || '{C@X}' WHERE id = 1;
\echo :SQLSTATE
UPDATE users SET mails = CASE id WHEN 1 THEN '{c@x,a@x}'::text[] WHEN 2 THEN '{b@x}' ELSE '{e@x,NULL}' END;
SELECT * FROM users ORDER BY id;
SELECT * FROM differences();

-- Refused.
SELECT index_table.create('films', 'actors, genres');
\echo :SQLSTATE
SELECT index_table.create('films', 'unnest(actors), unnest(genres)');
\echo :SQLSTATE
SELECT index_table.create('films', '(unnest(actors) || unnest(genres))');
\echo :SQLSTATE
SELECT index_table.create('films', '(ARRAY[doc::json])');
\echo :SQLSTATE
SELECT index_table.create('films', 'jsonb_each(doc)');
\echo :SQLSTATE
SELECT index_table.create('films', '(CASE WHEN year > 0 THEN unnest(actors) END)');
\echo :SQLSTATE
SELECT index_table.create('films', 'title', predicate => 'unnest(actors) = ''Ann''');
\echo :SQLSTATE
-- A set-returning function that fails refuses the row.
UPDATE films SET doc = '{"tags": "scalar"}' WHERE id = 1;
\echo :SQLSTATE
SELECT * FROM differences();

DROP SCHEMA multivalued CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
