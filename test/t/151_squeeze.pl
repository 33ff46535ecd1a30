# pg_squeeze, which puts other files in the place of a table's, with what logical decoding tells of changes meanwhile:
# partitions are squeezed beside writers, index tables too where decoding tells of them; what decoding does not tell
# of (index tables without a replica identity, queues, the extension's own tables) is refused. A global index says
# that it must be built anew, and is by REINDEX.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('probe');
my @missing = ((has_extension($node, 'pg_squeeze') ? () : 'pg_squeeze is not installed'), (has_amcheck($node) ? () : 'no amcheck'));
# A later minor version wants to be told of output plugins.
my $trusted = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}) ? "output_plugin_libraries = 'pg_squeeze'\n" : '';
$node->stop;
plan skip_all => $missing[0] if @missing;
my $db = 'postgres';

# Squeezes a table; what it says, or nothing.
sub squeeze
{
	my ($table, $by) = @_;
	my ($schema, $name) = $table =~ /^(?:(\w+)\.)?(\w+)$/;
	$schema //= 'public';
	my $clustered = $by ? ", clustering_index => '$by'" : '';
	my (undef, undef, $errors) = $node->psql($db, "SELECT squeeze.squeeze_table(tabschema => '$schema', tabname => '$name'$clustered)");
	return $errors;
}

sub files
{
	my (@tables) = @_;
	return join(' ', map { $node->safe_psql($db, "SELECT relfilenode FROM pg_class WHERE oid = '$_'::regclass") } @tables);
}

foreach my $preloaded ('pg_squeeze,index_table', 'index_table,pg_squeeze')
{
	$node = new_node($preloaded =~ s/,.*//r, allows_streaming => 'logical', conf => "max_worker_processes = 20\nshared_preload_libraries = '$preloaded'\nindex_table.vacuum_naptime = 0\nindex_table.drain_naptime = 0\n$trusted");
	$node->safe_psql($db, q{
CREATE EXTENSION index_table;
CREATE EXTENSION pg_squeeze;
CREATE TABLE people (id int PRIMARY KEY, email text, town text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX ON people_1 (email);
INSERT INTO people SELECT i, 'mail' || i, 'Town ' || i % 50 FROM generate_series(1, 5000) AS i;
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', strategy => 'denormalized');
SELECT index_table.create('people', 'town', name => 'people_later', maintenance => 'deferred');
DELETE FROM people WHERE id % 3 = 0;
CALL index_table.drain();
CREATE TABLE seen (id int PRIMARY KEY, town text);
SELECT index_table.capture('seen');
} . oracle_sql(
		describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
		describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'email' ], identity => 1),
		describe(name => 'people_later', base => 'people', key => ['b.town'], copies => ['id'], identity => 1)));

	# --- What is refused ------------------------------------------------------------------

	# Decoding does not tell of what happens to them: changes that others make meanwhile would be lost.
	my @own = split(/\n/, $node->safe_psql($db, q{
		SELECT c.oid::regclass FROM pg_class c
		 WHERE c.relkind = 'r' AND c.relrewrite = c.oid AND c.relnamespace <> 'pg_toast'::regnamespace ORDER BY 1::text}));
	cmp_ok(scalar(@own), '>', 8, "$preloaded: tables that decoding does not tell of");
	my @squeezed = grep { squeeze($_) !~ /has no identity index|Replica identity "full" not supported/ } @own;
	is("@squeezed", '', "$preloaded: cannot be squeezed");
	oracle_ok($node, $db, "$preloaded: in step");

	# --- Beside writers -------------------------------------------------------------------

	my @tables = ('people_0', 'people_1');
	my $before = files(@tables);
	my $writes = [ 4, "\\set id random(1, 5000)\n\\set n random(0, 49)\nUPDATE people SET town = 'Town ' || :n WHERE id = :id" ];
	my $moves = [ 1, "\\set id random(1, 5000)\nBEGIN;\nDELETE FROM people WHERE id = :id;\nINSERT INTO people VALUES (:id, 'mail' || :id, 'again') ON CONFLICT DO NOTHING;\nCOMMIT" ];
	my $drains = [ 1, 'CALL index_table.drain()' ];
	my $reads = [ 2, "\\set id random(1, 5000)\nSELECT * FROM people WHERE email = 'mail' || :id" ];
	my $load = start_load($node, 3, $writes, $moves, $reads, $drains);
	is(squeeze('people_0'), '', "$preloaded: a partition is squeezed");
	is(squeeze('people_1', 'people_1_email_idx'), '', "$preloaded: another is, by an index");
	stop_load($load);
	unlike($load->{out}, qr/ERROR|abort/, "$preloaded: writers do not notice");
	my $after = files(@tables);
	isnt($after, $before, "$preloaded: they have other files");
	$node->safe_psql($db, q{INSERT INTO people VALUES (6000, 'late', 'x'); UPDATE people SET email = 'new' WHERE id = 7; DELETE FROM people WHERE id = 8});
	$node->safe_psql($db, 'CALL index_table.drain()');
	oracle_ok($node, $db, "$preloaded: after pg_squeeze beside writers");
	is($node->safe_psql($db, q{SET index_table.enable_scan = force; SELECT id FROM people WHERE email = 'new'}), 7, "$preloaded: rows are found");
	like(sqlstate($node, $db, q{INSERT INTO people VALUES (6001, 'late')}), qr/^23505/, "$preloaded: keys are unique");

	# A drain that waits for the lock of pg_squeeze has its snapshot already, which sees no row of the new file.
	$node->safe_psql($db, q{UPDATE people SET town = 'Late' WHERE id % 10 = 1});
	my $blocker = hold_lock($node, 'BEGIN; LOCK TABLE people_1 IN ACCESS SHARE MODE;', q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_1'::regclass AND mode = 'AccessShareLock' AND granted});
	my $squeezing = start_command($node, q{SELECT squeeze.squeeze_table('public', 'people_1')});
	ok($node->poll_query_until($db, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_1'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted}), "$preloaded: pg_squeeze waits for a reader");
	my $draining = start_command($node, 'CALL index_table.drain()');
	ok($node->poll_query_until($db, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_1'::regclass AND mode = 'RowExclusiveLock' AND NOT granted}), "$preloaded: a drain waits for pg_squeeze");
	release_lock($blocker);
	is(end_command($squeezing) . end_command($draining), '', "$preloaded: both go on");
	oracle_ok($node, $db, "$preloaded: after a drain beside pg_squeeze");

	# An index table that its owner has given a replica identity is decoded like any table.
	$node->safe_psql($db, q{ALTER TABLE people_by_email ALTER email SET NOT NULL; CREATE UNIQUE INDEX identity ON people_by_email (email);
		ALTER TABLE people_by_email REPLICA IDENTITY USING INDEX identity});
	$before = files('people_by_email');
	$load = start_load($node, 2, $moves, [ 2, "\\set id random(1, 5000)\n\\set n random(1, 1000000)\nUPDATE people SET email = 'mail' || :id || '-' || :n WHERE id = :id" ]);
	is(squeeze('people_by_email'), '', "$preloaded: an index table is squeezed");
	stop_load($load);
	unlike($load->{out}, qr/ERROR|abort/, "$preloaded: writers do not notice");
	isnt(files('people_by_email'), $before, "$preloaded: it has another file");
	$node->safe_psql($db, 'CALL index_table.drain()');
	oracle_ok($node, $db, "$preloaded: index tables after it");

	# --- Global indexes -------------------------------------------------------------------

	$node->safe_psql($db, 'DROP TABLE people_by_town, people_later; CREATE INDEX people_global ON people USING global (town)');
	is(squeeze('people_0'), '', "$preloaded: a partition with a global index is squeezed");
	my $query = q{SELECT count(*) FROM people WHERE town = 'Town 7' AND id > 0};
	like(sqlstate($node, $db, "SET index_table.enable_scan = force; $query"), qr/^55000: global index "people_global" is not built/, "$preloaded: a global index says that it must be built anew");
	$node->safe_psql($db, 'REINDEX INDEX people_global');
	is($node->safe_psql($db, "SET index_table.enable_scan = force; $query"), $node->safe_psql($db, "SET index_table.enable_scan = off; $query"), "$preloaded: REINDEX builds it");
	check_global($node, $db, "$preloaded: after REINDEX", exact => 0);
	is($node->safe_psql($db, q{SELECT count(*) FROM squeeze.log}), 5, "$preloaded: pg_squeeze did its work");
	note('rows that were rewritten, and changes meanwhile: ' . $node->safe_psql($db, q{SELECT string_agg(format('%s %s: %s, %s', tabname, id, ins_initial, ins + upd + del), '; ') FROM (SELECT *, row_number() OVER (ORDER BY started) AS id FROM squeeze.log) l}));
	unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, "$preloaded: nothing crashed");
	$node->stop;
}
done_testing();
