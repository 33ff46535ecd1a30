# MERGE PARTITIONS and SPLIT PARTITION, which move rows past all triggers. PostgreSQL 19 had them while
# it was developed; no release has.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('rearranged', conf => "shared_preload_libraries = 'index_table'\n");
plan skip_all => 'this server does not merge and split partitions'
	if sqlstate($node, 'postgres', 'ALTER TABLE nothing MERGE PARTITIONS (one, two) INTO three') =~ /^42601/;

my $email = describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1);
my $town = describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'email' ], identity => 1);
my $tag = describe(name => 'people_by_tag', base => 'people', key => ['m.v'], elements => 'SELECT v, o FROM unnest(b.tags) WITH ORDINALITY AS t (v, o)', copies => ['id'], identity => 1);
my $later = describe(name => 'people_later', base => 'people', key => ['b.town'], copies => ['id'], identity => 1);

# A table of the same name is found first on the search path; another has its row trigger on its leaves.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE people (id int PRIMARY KEY, email text, town text, tags text[], phone text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF people FOR VALUES FROM (0) TO (100);
CREATE TABLE middle PARTITION OF people FOR VALUES FROM (100) TO (200);
CREATE TABLE high PARTITION OF people FOR VALUES FROM (200) TO (300) PARTITION BY RANGE (id);
CREATE TABLE high_low PARTITION OF high FOR VALUES FROM (200) TO (250);
CREATE TABLE high_high PARTITION OF high FOR VALUES FROM (250) TO (300);
INSERT INTO people SELECT i, 'mail' || i, 'Town ' || i % 7, ARRAY['t' || i % 5, 't' || i % 3], 'p' || i FROM generate_series(0, 299) AS i WHERE i % 10 <> 9;
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', strategy => 'partial', include => 'email');
SELECT index_table.create('people', 'unnest(tags)', name => 'people_by_tag');
SELECT index_table.create('people', 'town', name => 'people_later', maintenance => 'deferred');
CREATE INDEX people_global ON people USING global (phone) WITH (unique);
CREATE INDEX people_towns ON people USING global (town);
} . oracle_sql($email, $town, $tag, $later));

sub holds
{
	my ($label) = @_;
	$node->safe_psql('postgres', 'CALL index_table.drain()');
	oracle_ok($node, 'postgres', $label);
	check_global($node, 'postgres', $label, exact => 0);
	is($node->safe_psql('postgres', q{SET index_table.enable_scan = force; SELECT count(*), sum(n) FROM (SELECT (SELECT count(*) FROM people WHERE email = 'mail' || i) AS n FROM generate_series(0, 299) AS i)}),
		$node->safe_psql('postgres', q{SET index_table.enable_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(n) FROM (SELECT (SELECT count(*) FROM people WHERE email = 'mail' || i) AS n FROM generate_series(0, 299) AS i)}),
		"$label: each row is found by its key");
	foreach my $id (150, 20, 260)
	{
		like(sqlstate($node, 'postgres', "INSERT INTO people VALUES ($id - $id % 10 + 9, 'mail$id')"), qr/^23505.*"people_by_email/, "$label: keys are unique");
		like(sqlstate($node, 'postgres', "INSERT INTO people VALUES ($id - $id % 10 + 9, 'other', 'x', NULL, 'p$id')"), qr/^23505.*"people_global/, "$label: and those of a global index");
	}
	$node->safe_psql('postgres', q{UPDATE people SET town = 'elsewhere' || id % 3 WHERE id % 10 = 3; DELETE FROM people WHERE id % 50 = 7; INSERT INTO people SELECT id, 'mail' || id, 'back', '{b}', 'p' || id FROM generate_series(7, 299, 50) AS id});
	$node->safe_psql('postgres', 'CALL index_table.drain()');
	oracle_ok($node, 'postgres', "$label, after changes");
	check_global($node, 'postgres', "$label, after changes", exact => 0);
}

sub rearrange
{
	my ($label, $sql) = @_;
	$node->safe_psql('postgres', $sql);
	holds($label);
}

holds('as made');
rearrange('merged', 'ALTER TABLE people MERGE PARTITIONS (low, middle) INTO lower');
rearrange('split', 'ALTER TABLE people SPLIT PARTITION lower INTO (PARTITION low FOR VALUES FROM (0) TO (50), PARTITION middle FOR VALUES FROM (50) TO (200))');
rearrange('split into itself', 'ALTER TABLE people SPLIT PARTITION middle INTO (PARTITION middle FOR VALUES FROM (50) TO (60), PARTITION middle2 FOR VALUES FROM (60) TO (200))');
rearrange('merged into one of them', 'ALTER TABLE people MERGE PARTITIONS (middle, middle2) INTO middle');
rearrange('of a partition', 'ALTER TABLE high MERGE PARTITIONS (high_low, high_high) INTO high_all');
rearrange('with changes before and after', q{BEGIN; DELETE FROM people WHERE id = 260; UPDATE people SET email = 'new' WHERE id = 261;
	ALTER TABLE high SPLIT PARTITION high_all INTO (PARTITION high_low FOR VALUES FROM (200) TO (250), PARTITION high_high FOR VALUES FROM (250) TO (300));
	UPDATE people SET email = 'mail261' WHERE id = 261; INSERT INTO people VALUES (260, 'mail260', 'Town', '{t}', 'p260'); COMMIT});
rearrange('rolled back', q{BEGIN; ALTER TABLE people MERGE PARTITIONS (low, middle) INTO lower; UPDATE people SET town = 'nowhere'; ROLLBACK});
rearrange('rolled back to a savepoint', q{BEGIN; SAVEPOINT s; ALTER TABLE people MERGE PARTITIONS (low, middle) INTO lower; UPDATE people SET town = 'nowhere'; ROLLBACK TO s; UPDATE people SET town = 'there' WHERE id < 5; COMMIT});
$node->safe_psql('postgres', 'CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.lower (i int)');
rearrange('behind a temporary table of the name', q{CREATE TEMPORARY TABLE lower (i int); SET search_path = pg_temp, public;
	ALTER TABLE people MERGE PARTITIONS (low, middle) INTO public.lower});
rearrange('found first by its name elsewhere', q{SET search_path = public, elsewhere; ALTER TABLE people SPLIT PARTITION lower INTO (PARTITION low FOR VALUES FROM (0) TO (100), PARTITION middle FOR VALUES FROM (100) TO (200))});
rearrange('made earlier on the search path than found', q{CREATE TEMPORARY TABLE lower (i int); SET search_path = public, elsewhere; ALTER TABLE people MERGE PARTITIONS (low, middle) INTO lower});
rearrange('split again', 'ALTER TABLE people SPLIT PARTITION lower INTO (PARTITION low FOR VALUES FROM (0) TO (100), PARTITION middle FOR VALUES FROM (100) TO (200))');

# What is the extension's.
$node->safe_psql('postgres', q{SELECT index_table.create('people', '(id + 1)', name => 'in_two', partitions => 2)});
foreach my $command (
	'ALTER TABLE in_two MERGE PARTITIONS (in_two_p0, in_two_p1) INTO in_one',
	'ALTER TABLE in_two SPLIT PARTITION in_two_p0 INTO (PARTITION a FOR VALUES WITH (MODULUS 4, REMAINDER 0), PARTITION b FOR VALUES WITH (MODULUS 4, REMAINDER 2))')
{
	like(sqlstate($node, 'postgres', $command), qr/^0A000/, "refused: $command");
}
$node->safe_psql('postgres', q{SELECT index_table.drop('in_two')});

# Captured tables.
$node->safe_psql('postgres', q{
CREATE TABLE captured (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE captured_0 PARTITION OF captured FOR VALUES FROM (0) TO (100);
CREATE TABLE captured_1 PARTITION OF captured FOR VALUES FROM (100) TO (200);
SELECT index_table.capture('captured');
ALTER TABLE captured MERGE PARTITIONS (captured_0, captured_1) INTO captured_2;
});
my $queued = q{SELECT count(*) FROM captured_outbox};
my $before = $node->safe_psql('postgres', $queued);
$node->safe_psql('postgres', q{INSERT INTO captured VALUES (1, 'x'), (150, 'y')});
cmp_ok($node->safe_psql('postgres', $queued), '>', $before, 'changes of a merged partition are captured');

# Foreign keys that refer to an index table.
$node->safe_psql('postgres', q{CREATE TABLE letters (address text REFERENCES people_by_email (email)); INSERT INTO letters VALUES ('mail5'), ('mail160')});
my $state = sqlstate($node, 'postgres', 'ALTER TABLE people MERGE PARTITIONS (low, middle) INTO lower');
like($state, qr/^23503/, 'rows that refer to keys of the partitions');
$node->safe_psql('postgres', 'DROP TABLE letters');
holds('after a foreign key');

holds('at the end');
done_testing();
