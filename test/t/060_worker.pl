# The background worker removes dead entries in every database that has the extension, and survives
# databases and index tables that come and go.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('worker', conf => "shared_preload_libraries = 'index_table'\nindex_table.vacuum_naptime = 1\n");
my $tables = q{
CREATE EXTENSION index_table;
CREATE TABLE events (id int, day int, kind text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (1) TO (2);
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (2) TO (3);
INSERT INTO events SELECT i, 1 + i % 2, 'kind ' || i % 100 FROM generate_series(1, 20000) i;
SELECT index_table.create('events', 'kind', 'denormalized');
SELECT index_table.create('events', 'id', is_unique => true, name => 'events_by_id', partitions => 2);
};
my @oracle = oracle_sql(
	describe(name => 'events_by_kind', base => 'events', key => ['b.kind'], copies => [ 'id', 'day' ], identity => 2),
	describe(name => 'events_by_id', base => 'events', key => ['b.id'], copies => ['day'], identity => 1, is_unique => 1));
foreach my $db ('postgres', 'other')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db") if $db ne 'postgres';
	$node->safe_psql($db, $_) foreach $tables, @oracle;
}
$node->safe_psql('postgres', 'CREATE DATABASE without');

sub stored { return $node->safe_psql($_[0], 'SELECT (SELECT count(*) FROM events_by_kind), (SELECT count(*) FROM events_by_id)') }

# A row is found through the index tables, plainly, while dead entries are there and after.
sub rows_ok
{
	my ($db, $label) = @_;
	my ($through, $native) = map {
		$node->safe_psql($db, "SET index_table.enable_scan = $_; SELECT * FROM events WHERE kind = 'kind 7' ORDER BY id; SELECT * FROM events WHERE id = 7")
	} 'force', 'off';
	is($through, $native, "$label: the same rows through index tables");
	return;
}

foreach my $db ('postgres', 'other')
{
	is(stored($db), '20000|20000', "$db: filled");
	$node->safe_psql($db, $db eq 'postgres' ? 'TRUNCATE events_1' : 'DROP TABLE events_1');
	rows_ok($db, "$db: at once");
	ok($node->poll_query_until($db, 'SELECT count(*) = 0 FROM index_table.retired_partition'), "$db: the worker came");
	is(stored($db), '10000|10000', "$db: dead entries are gone, others are not");
	is($node->safe_psql($db, 'SELECT sum(dead_entries) FROM index_table.stat'), 0, "$db: none are counted");
	rows_ok($db, "$db: afterwards");
	oracle_ok($node, $db, "$db: in step");
}

# Undone: nothing to remove.
$node->safe_psql('postgres', 'BEGIN; TRUNCATE events_2; SELECT pg_sleep(2.5); ROLLBACK');
is(stored('postgres'), '10000|10000', 'a TRUNCATE that is rolled back costs no entry');
# Databases and extensions may go.
$node->safe_psql('other', 'TRUNCATE events_2; DROP EXTENSION index_table CASCADE');
$node->safe_psql('postgres', 'DROP DATABASE other');
# One whose DROP DATABASE was interrupted takes no connections.
$node->safe_psql('postgres', 'CREATE DATABASE invalid ALLOW_CONNECTIONS false');
$node->safe_psql('postgres', "UPDATE pg_database SET datconnlimit = -2, datallowconn = true WHERE datname = 'invalid'");
sub vacuumed { return $node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM index_table.retired_partition') }
$node->safe_psql('postgres', 'INSERT INTO events SELECT -i, 1, $$kind$$ FROM generate_series(1, 10) i; TRUNCATE events_1');
ok(vacuumed(), 'a database that is invalid keeps the worker from none');
# What is counted in a database that is made while the worker is elsewhere is kept.
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE events_by_kind IN SHARE UPDATE EXCLUSIVE MODE');
$node->safe_psql('postgres', 'INSERT INTO events SELECT -i, 1, $$kind$$ FROM generate_series(1, 10) i; TRUNCATE events_1');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'events_by_kind'::regclass AND NOT granted}) or die;
$node->safe_psql('postgres', 'CREATE DATABASE late');
$node->safe_psql('late', $tables);
$locker->query_safe('COMMIT');
$locker->quit;
ok(vacuumed(), 'the worker goes on');
$node->safe_psql('postgres', 'INSERT INTO events SELECT -i, 1, $$kind$$ FROM generate_series(1, 10) i; TRUNCATE events_1');
ok(vacuumed(), 'and comes again');
is($node->safe_psql('late', 'SELECT count(last_build) FROM index_table.stat'), 2, 'what was counted meanwhile is kept');
# Turned off and on.
$node->safe_psql('postgres', 'ALTER SYSTEM SET index_table.vacuum_naptime = 0');
$node->reload;
sleep 2;
$node->safe_psql('postgres', 'TRUNCATE events_2; INSERT INTO events SELECT i, 1, $$kind$$ FROM generate_series(1, 10) i');
sleep 2;
is($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.retired_partition'), 2, 'turned off');
# The rows put back have made room for themselves in the unique one.
is($node->safe_psql('postgres', 'SELECT index_table.vacuum()'), 20000 - 5, 'by hand');
is(stored('postgres'), '10|10', 'by hand: live entries are left');
oracle_ok($node, 'postgres', 'in step');
check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by|FATAL:(?!\s+(?:terminating|the database system|database \d+ does not exist))/, 'nothing broke');
done_testing();
