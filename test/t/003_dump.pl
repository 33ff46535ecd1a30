# pg_dump and restore, in every format: definitions, partition numbers and index tables come along,
# and maintenance goes on.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump');
my $directory = PostgreSQL::Test::Utils::tempdir();

# Attribute numbers and OIDs differ after a restore, of base tables (columns were dropped), of
# partitions (other orders) and of index tables (an included column was dropped).
my $schema_sql = q{
SET client_min_messages = warning;
CREATE EXTENSION index_table;
CREATE SCHEMA "Other Schema";
CREATE TYPE "Other Schema".mood AS ENUM ('sad', 'happy');
CREATE DOMAIN "Other Schema".words AS text[];
CREATE FUNCTION "Other Schema".fold(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower($1)';
CREATE SEQUENCE visits;

CREATE TABLE people (junk1 int, id int, region text NOT NULL, junk2 text, "E mail" text, words "Other Schema".words,
	mood "Other Schema".mood, points numeric(8,2), copied text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
ALTER TABLE people DROP COLUMN junk1, DROP COLUMN junk2;
CREATE TABLE people_n PARTITION OF people FOR VALUES IN ('n') PARTITION BY HASH (id);
CREATE TABLE people_n0 PARTITION OF people_n FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_n1 (note text, gone int, copied text, points numeric(8,2), mood "Other Schema".mood,
	words "Other Schema".words, "E mail" text, region text NOT NULL, id int NOT NULL);
ALTER TABLE people_n1 DROP COLUMN gone;
ALTER TABLE people_n ATTACH PARTITION people_n1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE people_s PARTITION OF people FOR VALUES IN ('s');
CREATE TABLE people_x PARTITION OF people FOR VALUES IN ('x');
CREATE TABLE "Other Schema"."plain table" (id uuid PRIMARY KEY, "key" int);
CREATE UNLOGGED TABLE volatile (id int PRIMARY KEY, v int);

SELECT index_table.create('people', '"Other Schema".fold("E mail") COLLATE "C"', is_unique => true, name => 'people_email');
SELECT index_table.create('people', 'words, points DESC NULLS LAST', strategy => 'partial', include => 'note, copied', name => '"Other Schema"."people by words"');
SELECT index_table.create('people', 'mood', strategy => 'denormalized', predicate => $$mood <> 'sad' AND "E mail" IS NOT NULL$$, name => 'people_mood');
SELECT index_table.create('people', '"E mail" text_pattern_ops', strategy => 'denormalized', partitions => 3, name => 'people_parts');
SELECT index_table.create('people', 'points', is_unique => true, predicate => 'points > 1000', partitions => 2, name => 'people_points');
SELECT index_table.create('"Other Schema"."plain table"', 'key', strategy => 'partial', include => 'id');
SELECT index_table.create('volatile', 'v');
};

my $rows_sql = q{
INSERT INTO people SELECT i, (ARRAY['n', 's', 'x'])[1 + i % 3], 'Mail' || i, ARRAY['w' || i % 5, 'w' || i % 3, NULL], (ARRAY['sad', 'happy'])[1 + i % 2]::"Other Schema".mood,
	i * 1.5, repeat(md5(i::text), i % 90), 'note' FROM generate_series(1, 900) i;
INSERT INTO "Other Schema"."plain table" SELECT md5(i::text)::uuid, i % 9 FROM generate_series(1, 50) i;
INSERT INTO volatile SELECT i, i % 4 FROM generate_series(1, 20) i;
ALTER TABLE people DROP COLUMN copied;
-- Numbers that are no longer live, and entries with them.
TRUNCATE people_s;
INSERT INTO people SELECT i, 's', 'again' || i, '{}', NULL, NULL, 'n' FROM generate_series(2000, 2050) i;
DROP TABLE people_x;
ALTER TABLE people RENAME "E mail" TO email;
ALTER TABLE people_s RENAME TO people_south;
};

my @tables = (
	describe(name => 'people_email', base => 'people', key => ['"Other Schema".fold(b.email) COLLATE "C"'], copies => [ 'id', 'region' ], identity => 2, is_unique => 1),
	describe(
		name => '"Other Schema"."people by words"',
		base => 'people',
		key => [ 'm.v', 'b.points' ],
		elements => 'SELECT v, o FROM unnest(b.words) WITH ORDINALITY AS s(v, o)',
		copies => [ 'id', 'region', 'note' ],
		identity => 2),
	describe(
		name => 'people_mood',
		base => 'people',
		key => ['b.mood'],
		predicate => q{b.mood <> 'sad' AND b.email IS NOT NULL},
		copies => [ 'id', 'region', 'email', 'words', 'points', 'note' ],
		identity => 2),
	describe(name => 'people_parts', base => 'people', key => ['b.email'], copies => [ 'id', 'region', 'words', 'mood', 'points', 'note' ], identity => 2),
	describe(name => 'people_points', base => 'people', key => ['b.points'], predicate => 'b.points > 1000', copies => [ 'id', 'region' ], identity => 2, is_unique => 1),
	describe(name => '"Other Schema"."plain table_by_key"', base => '"Other Schema"."plain table"', key => ['b."key"'], copies => ['id'], identity => 1),
	describe(name => 'volatile_by_v', base => 'volatile', key => ['b.v'], copies => ['id'], identity => 1));

$node->safe_psql('postgres', 'CREATE DATABASE original');
$node->safe_psql('original', $schema_sql . $rows_sql . oracle_sql(@tables));
oracle_ok($node, 'original', 'original: in step');

my $catalog = q{
SELECT index_table, base, strategy, key, predicate, identity, include, is_unique, maintenance FROM index_table.definition ORDER BY index_table::text;
SELECT * FROM index_table.partitions ORDER BY partition_id;
SELECT d.index_table::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
  FROM index_table.definition d, pg_partition_tree(d.index_table) t, pg_index i WHERE i.indrelid = t.relid ORDER BY d.index_table::text, i.indexrelid::regclass::text;
SELECT tgrelid::regclass::text, tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname LIKE 'index_table%' ORDER BY 1, 2;
};
my $expected = $node->safe_psql('original', $catalog);
my $highest = $node->safe_psql('original', 'SELECT max(partition_id) FROM index_table.partition');
my $rows = $node->safe_psql('original', 'SELECT count(*) FROM people');

# What goes on after a restore; every statement must do what it did before.
my $changes = q{
INSERT INTO people SELECT i, (ARRAY['n', 's'])[1 + i % 2], 'restored' || i, ARRAY['w1', 'r' || i], 'happy', 5000 + i, 'n' FROM generate_series(3000, 3060) i;
UPDATE people SET email = upper(email), words = words || 'more'::text WHERE id % 4 = 1;
UPDATE people SET note = 'changed', points = points + 100000 WHERE id % 5 = 2;
UPDATE people SET region = CASE region WHEN 'n' THEN 's' ELSE 'n' END WHERE id % 7 = 3;
DELETE FROM people WHERE id % 6 = 4;
INSERT INTO "Other Schema"."plain table" SELECT md5('new' || count(*))::uuid, 77 FROM "Other Schema"."plain table";
UPDATE "Other Schema"."plain table" SET "key" = "key" + 1;
UPDATE volatile SET v = v + 1;
};
my $ddl = q{
CREATE TABLE people_e PARTITION OF people FOR VALUES IN ('e');
CREATE TABLE people_w (LIKE people INCLUDING ALL);
INSERT INTO people_w SELECT 4000 + i, 'w', 'west' || i, ARRAY['west'], 'happy', i, 'w' FROM generate_series(1, 30) i;
ALTER TABLE people ATTACH PARTITION people_w FOR VALUES IN ('w');
TRUNCATE people_n0;
ALTER TABLE people RENAME note TO remark;
ALTER TABLE people RENAME remark TO note;
ALTER TABLE people DETACH PARTITION people_w;
};

my $pg_dump = [ 'pg_dump', '-d', $node->connstr('original') ];
my %restore = (
	plain => [
		[ @$pg_dump, '-Fp', '-f', "$directory/plain.sql" ],
		sub { [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($_[0]), '-f', "$directory/plain.sql" ] }
	],
	plain_inserts => [
		[ @$pg_dump, '-Fp', '--inserts', '--quote-all-identifiers', '-f', "$directory/inserts.sql" ],
		sub { [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($_[0]), '-f', "$directory/inserts.sql" ] }
	],
	via_root => [
		[ @$pg_dump, '-Fc', '--load-via-partition-root', '-f', "$directory/root" ],
		sub { [ 'pg_restore', '-e', '-d', $node->connstr($_[0]), "$directory/root" ] }
	],
	custom => [
		[ @$pg_dump, '-Fc', '-f', "$directory/custom" ],
		sub { [ 'pg_restore', '-e', '-d', $node->connstr($_[0]), "$directory/custom" ] }
	],
	one_transaction => [
		[ @$pg_dump, '-Fc', '-f', "$directory/once" ],
		sub { [ 'pg_restore', '--single-transaction', '-d', $node->connstr($_[0]), "$directory/once" ] }
	],
	directory => [
		[ @$pg_dump, '-Fd', '-j2', '-f', "$directory/directory" ],
		sub { [ 'pg_restore', '-e', '-j2', '-d', $node->connstr($_[0]), "$directory/directory" ] }
	],
	sections => [
		[ @$pg_dump, '-Fc', '-f', "$directory/sections" ],
		map {
			my $section = $_;
			sub { [ 'pg_restore', '-e', "--section=$section", '-d', $node->connstr($_[0]), "$directory/sections" ] }
		} qw(pre-data data post-data)
	]);

foreach my $format (sort keys %restore)
{
	my ($dump, @restores) = @{ $restore{$format} };
	my $db = "from_$format";
	command_ok($dump, "$format: dump");
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	command_ok($_->($db), "$format: restore") foreach @restores;

	is($node->safe_psql($db, $catalog), $expected, "$format: definitions, partition numbers, indexes and triggers");
	is($node->safe_psql($db, 'SELECT count(*) FROM people'), $rows, "$format: rows");
	oracle_ok($node, $db, "$format: in step");
	is(sqlstate($node, $db, $changes), '', "$format: changes");
	oracle_ok($node, $db, "$format: in step after changes");
	like(
		sqlstate($node, $db, q{INSERT INTO people SELECT 9000, 's', upper(min(email)) FROM people}),
		qr/^23505: .*"people_email_key"/,
		"$format: keys that are taken are refused");
	is(sqlstate($node, $db, $ddl), '', "$format: DDL");
	oracle_ok($node, $db, "$format: in step after DDL");
	is($node->safe_psql($db, "SELECT count(*) FROM index_table.partition WHERE partition_id > $highest"), 2, "$format: new numbers are new");
	is(sqlstate($node, $db, q{SELECT index_table.create('people', 'note', name => 'people_note'); SELECT index_table.drop('people_mood'); DROP TABLE people}),
		'', "$format: create and drop");
	is($node->safe_psql($db, q{SELECT count(*) FROM index_table.definition WHERE base::text LIKE '%people%'}), 0, "$format: nothing is left of dropped tables");
}

# A second generation, from a restored and changed database.
$node->safe_psql('postgres', 'CREATE DATABASE second TEMPLATE template0');
$node->safe_psql('original', "$changes $ddl");
command_ok([ @$pg_dump, '-Fc', '-f', "$directory/second" ], 'dump again');
command_ok([ 'pg_restore', '-e', '-d', $node->connstr('second'), "$directory/second" ], 'restore again');
is($node->safe_psql('second', $catalog), $node->safe_psql('original', $catalog), 'definitions and numbers again');
oracle_ok($node, 'second', 'in step again');

# Data alone, into a schema that was restored alone; and the schema alone has no rows and no entries.
$node->safe_psql('postgres', 'CREATE DATABASE schema_only TEMPLATE template0');
command_ok([ @$pg_dump, '-Fc', '--schema-only', '-f', "$directory/schema" ], 'dump of the schema');
command_ok([ 'pg_restore', '-e', '-d', $node->connstr('schema_only'), "$directory/schema" ], 'restore of the schema');
is($node->safe_psql('schema_only', 'SELECT count(*) FROM people_email'), 0, 'the schema alone has no entries');

# CREATE DATABASE … TEMPLATE copies OIDs and all.
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE original');
is(sqlstate($node, 'copied', $changes =~ s/3000, 3060/5000, 5060/r), '', 'copied database: changes');
oracle_ok($node, 'copied', 'copied database: in step');

$node->stop;
done_testing();
