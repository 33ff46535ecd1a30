# The outbox of captured tables: where logical replication applies changes, after dump and restore, after a crash.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Identities queued for a table, and how often it has to be read as a whole; discards them.
sub queued
{
	my ($node, $db, $table) = @_;
	my $ids = $node->safe_psql($db, qq{
		SELECT string_agg(identity[1], ' ' ORDER BY identity[1]::int) || '|' || count(*) FILTER (WHERE reload)
		  FROM index_table.pending('$table', 1000000) WHERE identity IS NOT NULL OR reload});
	$node->safe_psql($db, "SELECT index_table.discard('$table', ARRAY(SELECT number FROM ${table}_outbox))");
	return $ids;
}

my $tables = q{
	CREATE TABLE plain (id int PRIMARY KEY, note text);
	CREATE TABLE parts (id int PRIMARY KEY, note text) PARTITION BY HASH (id);
	CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);};

# --- Logical replication ------------------------------------------------------------

my $publisher = new_node('publisher', allows_streaming => 'logical');
my $shard = new_node('shard', conf => "wal_retrieve_retry_interval = 200ms\n");
$publisher->safe_psql('postgres', "$tables INSERT INTO plain VALUES (1), (2); INSERT INTO parts VALUES (1), (2);");
$shard->safe_psql('postgres', "$tables CREATE EXTENSION index_table; SELECT index_table.capture('plain'), index_table.capture('parts');");
$publisher->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
my $quoted = quote_literal($publisher->connstr('postgres'));
$shard->safe_psql('postgres', "CREATE SUBSCRIPTION everything CONNECTION $quoted PUBLICATION everything");
$shard->wait_for_subscription_sync($publisher, 'everything');
foreach my $table ('plain', 'parts')
{
	is(queued($shard, 'postgres', $table), '1 2|0', "$table: initial rows");
	$publisher->safe_psql('postgres', qq{
		INSERT INTO $table SELECT i FROM generate_series(3, 8) AS i;
		UPDATE $table SET note = 'changed' WHERE id IN (3, 4);
		UPDATE $table SET id = 50 WHERE id = 5;
		DELETE FROM $table WHERE id = 6;});
	$publisher->wait_for_catchup('everything');
	is(queued($shard, 'postgres', $table), '3 4 5 6 7 8 50|0', "$table: applied changes");
	$publisher->safe_psql('postgres', "TRUNCATE $table; INSERT INTO $table VALUES (9)");
	$publisher->wait_for_catchup('everything');
	like(queued($shard, 'postgres', $table), qr/^9\|[1-3]$/, "$table: TRUNCATE");
	is(queued($shard, 'postgres', $table), '', "$table: nothing else");
}
$shard->safe_psql('postgres', 'DROP SUBSCRIPTION everything');
$publisher->stop;

# --- Dump and restore ----------------------------------------------------------------

$shard->safe_psql('postgres', q{
	INSERT INTO plain SELECT generate_series(100, 105);
	INSERT INTO parts SELECT generate_series(100, 105);
	ALTER TABLE plain RENAME TO renamed;
	ALTER TABLE plain_outbox RENAME TO renamed_outbox;});
my $dump = "$PostgreSQL::Test::Utils::tmp_check/outbox.dump";
$shard->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $shard->connstr('postgres') ], 'dumped');
$shard->safe_psql('postgres', 'CREATE DATABASE restored');
$shard->command_ok([ 'pg_restore', '-e', '-j', '2', '-d', $shard->connstr('restored'), $dump ], 'restored');
foreach my $table ('renamed', 'parts')
{
	is(queued($shard, 'restored', $table), '100 101 102 103 104 105|0', "$table: what was queued is restored, and nothing else queued");
	$shard->safe_psql('restored', qq{
		INSERT INTO $table VALUES (200); UPDATE $table SET id = 201 WHERE id = 200;
		SET session_replication_role = replica; INSERT INTO $table VALUES (202)});
	is(queued($shard, 'restored', $table), '200 201 202|0', "$table: captured after restoring");
	my $modes = "SELECT tgrelid::regclass::text, tgname, tgenabled FROM pg_trigger WHERE tgname LIKE 'index_table%' ORDER BY 1, 2";
	is($shard->safe_psql('restored', $modes), $shard->safe_psql('postgres', $modes), "$table: triggers");
}
$shard->safe_psql('restored', 'DROP TABLE renamed');
is($shard->safe_psql('restored', "SELECT to_regclass('renamed_outbox'), captured FROM index_table.captured"), '|parts', 'a restored table takes its queue along');
is($shard->safe_psql('restored', 'DROP EXTENSION index_table CASCADE; SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal'), '0', 'a restored database gives the extension up');

# --- A crash -------------------------------------------------------------------------

$shard->safe_psql('postgres', "SELECT index_table.discard('parts', ARRAY(SELECT number FROM parts_outbox))");
$shard->safe_psql('postgres', 'INSERT INTO parts SELECT generate_series(300, 310)');
my $numbers = $shard->safe_psql('postgres', 'SELECT max(number) FROM parts_outbox');
$shard->stop('immediate');
$shard->start;
$shard->safe_psql('postgres', 'INSERT INTO parts VALUES (400)');
is($shard->safe_psql('postgres', "SELECT count(*) FROM parts_outbox WHERE number > $numbers"), '1', 'numbers are not used again after a crash');
is(queued($shard, 'postgres', 'parts'), join(' ', 300 .. 310, 400) . '|0', 'queued changes survive a crash');

done_testing();
