-- Films: partitioned by genre, found by actor.
CREATE TABLE demo.film_source (genre text, title text, year int, genres text[], actors text[]);
\copy demo.film_source FROM pstdin

CREATE TABLE films (
    genre   text   NOT NULL,
    film_id int    NOT NULL,
    title   text   NOT NULL,
    year    int,
    genres  text[] NOT NULL,
    actors  text[] NOT NULL,
    PRIMARY KEY (genre, film_id)
) PARTITION BY LIST (genre);

SELECT format('CREATE TABLE %I PARTITION OF films FOR VALUES IN (%s)', name, string_agg(quote_literal(genre), ', '))
  FROM (SELECT DISTINCT genre, 'films_' || lower(regexp_replace(genre, '\W+', '_', 'g')) AS name
          FROM demo.film_source) g
 GROUP BY name ORDER BY name \gexec

INSERT INTO films
SELECT genre, row_number() OVER (ORDER BY year, title, genre), title, year,
       coalesce(genres, '{}'), coalesce(actors, '{}')
  FROM demo.film_source;
VACUUM ANALYZE films;

-- Humphrey Bogart, or whoever is in most of the films
SELECT actor
  FROM films, unnest(actors) actor
 GROUP BY actor ORDER BY actor = 'Humphrey Bogart' DESC, count(*) DESC, actor LIMIT 1 \gset
SELECT count(*) AS films, count(DISTINCT genre) AS genres FROM films \gset

\echo :films 'films in' :genres 'partitions, one for each genre. Each has an array of actors and one of'
\echo 'genres. An index table with the key unnest(...) has an entry for each element:'
\echo
\set ECHO queries
SELECT index_table.create('films', 'unnest(actors)', name => 'films_by_actor',
                          strategy => 'partial', include => 'title, year, actors');

SELECT index_table.create('films', 'unnest(genres)', name => 'films_by_genre');
\set ECHO none

ANALYZE films_by_actor, films_by_genre;
SELECT (SELECT count(*) FROM films_by_actor) AS by_actor, (SELECT count(*) FROM films_by_genre) AS by_genre \gset
\echo :films 'films make' :by_actor 'entries by actor and' :by_genre 'by genre.'
\echo
\echo 'The films of' :actor '(ten at most), in whatever partition they are:'
\echo
\set ECHO queries
SELECT film_id, genre, title, year
  FROM index_table.fetch(NULL::films, 'films_by_actor', :'actor')
 ORDER BY year, title LIMIT 10;
\set ECHO none

\echo 'Is that all of them? A sequential scan of every partition must agree, row for row:'
\echo
\set ECHO queries
WITH fetched AS (SELECT f FROM index_table.fetch(NULL::films, 'films_by_actor', :'actor') f),
     scanned AS (SELECT f FROM films f WHERE :'actor' = ANY (actors))
SELECT (SELECT count(*) FROM fetched) AS fetched,
       (SELECT count(*) FROM scanned) AS scanned,
       (SELECT count(*) FROM (TABLE fetched EXCEPT ALL TABLE scanned) x) AS fetched_only,
       (SELECT count(*) FROM (TABLE scanned EXCEPT ALL TABLE fetched) x) AS scanned_only;
\set ECHO none
SELECT count(*) > 0 AS differ FROM (
    (SELECT f FROM index_table.fetch(NULL::films, 'films_by_actor', :'actor') f
     EXCEPT ALL SELECT f FROM films f WHERE :'actor' = ANY (actors))
    UNION ALL
    (SELECT f FROM films f WHERE :'actor' = ANY (actors)
     EXCEPT ALL SELECT f FROM index_table.fetch(NULL::films, 'films_by_actor', :'actor') f)) d \gset
\if :differ
DO $$ BEGIN RAISE 'fetch and the sequential scan differ'; END $$;
\endif

\echo 'films_by_actor includes title, year and actors. So who else was in these films is'
\echo 'answered by the index table alone; no partition of films is opened:'
\echo
\set ECHO queries
SELECT l.included->>'title' AS title, l.included->>'year' AS year,
       (SELECT string_agg(a, ', ') FROM jsonb_array_elements_text(l.included->'actors') a
         WHERE a <> :'actor') AS with
  FROM index_table.lookup('films_by_actor', :'actor') l
 ORDER BY year, title LIMIT 10;
\set ECHO none

SELECT other AS genre
  FROM films, unnest(genres) g (other)
 WHERE other <> genre GROUP BY other ORDER BY other = 'War' DESC, count(*) DESC LIMIT 1 \gset
\echo 'A film is stored under one genre and can belong to several:'
\echo
\set ECHO queries
SELECT genre AS stored_under, count(*)
  FROM index_table.fetch(NULL::films, 'films_by_genre', :'genre')
 GROUP BY genre ORDER BY count(*) DESC, genre LIMIT 6;
\set ECHO none
