# What goes wrong between servers and is nobody's crash: a shard refuses a commit after another has committed, deadlocks
# that no server sees, a shard that comes back from an older backup. What happens then, what verify says, what mends it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# --- Servers --------------------------------------------------------------------------

# "people" are on shards that know nothing of index tables, "orders" are captured.
my $people = 'id int, shard int, email text, town text';
my $orders = 'id int, shard int, code text, state text';
my @shards = map { new_node("shard$_", allows_streaming => 1) } 0 .. 1;
my $coordinator = new_node('coordinator', conf => "session_preload_libraries = index_table\n");
$_->safe_psql('postgres', qq{
CREATE TABLE people ($people, PRIMARY KEY (id));
CREATE TABLE orders ($orders, PRIMARY KEY (id));
CREATE EXTENSION index_table;
SELECT index_table.capture('orders');
-- Refuses commits.
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE restrict_violation; END';
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON people DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (new.town = 'Refused') EXECUTE FUNCTION refuse();}) foreach @shards;
$coordinator->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;
	CREATE TABLE people ($people) PARTITION BY LIST (shard); CREATE TABLE orders ($orders) PARTITION BY LIST (shard)");
foreach my $i (0 .. 1)
{
	$coordinator->safe_psql('postgres', server_sql("shard$i", $shards[$i]) . qq{
CREATE FOREIGN TABLE people_$i PARTITION OF people FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'people');
CREATE FOREIGN TABLE orders_$i PARTITION OF orders FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'orders');});
}
$coordinator->safe_psql('postgres', q{
CREATE TABLE people_2 PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN (2);
INSERT INTO people SELECT i, i % 3, 'mail ' || i, 'Town ' || i % 7 FROM generate_series(1, 90) AS i;
INSERT INTO orders SELECT i, i % 2, 'code ' || i, 'state ' || i % 4 FROM generate_series(1, 90) AS i;
SELECT index_table.create('people', 'email', is_unique => true, identity => 'id');
SELECT index_table.create('people', 'town', 'partial', include => 'email', identity => 'id');
SELECT index_table.create('orders', 'code', is_unique => true, identity => 'id');
SELECT index_table.create('orders', 'state', identity => 'id', maintenance => 'deferred');
CALL index_table.drain();});
$coordinator->safe_psql('postgres', oracle_sql(
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'email' ], identity => 1),
	describe(name => 'orders_by_code', base => 'orders', key => ['b.code'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'orders_by_state', base => 'orders', key => ['b.state'], copies => ['id'], identity => 1)));

# --- Helpers --------------------------------------------------------------------------

my @index_tables = qw(people_by_email people_by_town orders_by_code orders_by_state);
# Entries alone answer none of these.
my %queries = (
	people => q{SELECT p.* FROM people p WHERE email > '' ORDER BY id, shard},
	orders => q{SELECT o.* FROM orders o WHERE code > '' ORDER BY id, shard});

sub rows
{
	my ($table, $enable) = @_;
	return [ split /\n/, $coordinator->safe_psql('postgres', "SET index_table.enable_scan = $enable; SET index_table.read_consistency = eventual; $queries{$table}") ];
}

sub exact
{
	my ($label) = @_;
	oracle_ok($coordinator, 'postgres', "$label: in step", 0);
	is_deeply(rows($_, 'force'), rows($_, 'off'), "$label: $_: the same rows with and without") foreach sort keys %queries;
	return;
}

sub drain
{
	my ($label) = @_;
	my (undef, undef, $stderr) = $coordinator->psql('postgres', 'CALL index_table.drain()');
	return is($stderr, '', "$label: drained");
}

# How many problems verify finds in each index table, in order.
sub found
{
	return $coordinator->safe_psql('postgres', join ' UNION ALL ', map { "SELECT count(*) FROM index_table.verify('$_')" } @index_tables);
}

# An error by its SQLSTATE, or 'none'.
sub state_of
{
	my ($output) = @_;
	return $output =~ /(?:ERROR|FATAL):\s+(\w{5}):/ ? $1 : 'none';
}

sub waits_for
{
	my ($node, $condition) = @_;
	return $node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE $condition") // die "nobody: $condition";
}

exact('at first');

# --- A shard commits, and another refuses to --------------------------------------------

# Which is asked first is postgres_fdw's affair: where the one that refuses is, nothing has happened.
foreach my $refusing (0 .. 1)
{
	my $other = 1 - $refusing;
	my $label = "shard $refusing refuses";
	my $id = 1000 + 100 * $refusing;
	my $error = sqlstate($coordinator, 'postgres', qq{
BEGIN;
INSERT INTO people VALUES ($id, 0, 'left $id', 'Left'), ($id + 1, 1, 'left too $id', 'Left'), ($id + 2, 2, 'here $id', 'Left');
UPDATE people SET town = 'Left' WHERE id IN (3, 4, 5);
UPDATE people SET town = 'Refused' WHERE id IN ($id, $id + 1) AND shard = $refusing;
COMMIT;});
	like($error, qr/^23001/, "$label: the client is told");
	my $left = $shards[$other]->safe_psql('postgres', "SELECT count(*) FROM people WHERE id BETWEEN $id AND $id + 9");
	note "$label: $left rows are left on shard $other";
	is(scalar(@{ rows('people', 'force') }) + $left, scalar(@{ rows('people', 'off') }), "$label: what is left there is not found");
	my $problems = found();
	$left ? unlike($problems, qr/^0\n0\n/, "$label: verify sees it") : is($problems, "0\n0\n0\n0", "$label: nothing has happened");
	drain($label);
	exact($label);
	is($coordinator->safe_psql('postgres', 'SELECT count(*) FROM index_table.intent'), '0', "$label: nothing is left to be done");
	# What is left belongs to whoever repeats the transaction.
	is(sqlstate($coordinator, 'postgres', "DELETE FROM people WHERE id BETWEEN $id AND $id + 9"), '', "$label: removed");
	exact("$label, removed");
}

# --- Deadlocks that no server sees -------------------------------------------------------

# A row on a shard, and a key here.
my $gate = shut_gate($coordinator, 8);
my $first = start_session($coordinator, 'postgres', q{
BEGIN;
UPDATE people SET town = 'First' WHERE id = 3;
SET LOCAL application_name = 'first';
SELECT pg_advisory_xact_lock_shared(8);
SET LOCAL lock_timeout = '2s';
INSERT INTO people VALUES (2100, 2, 'fought for', 'First');
COMMIT;
\q});
waits_for($coordinator, "application_name = 'first' AND wait_event = 'advisory'");
my $second = start_session($coordinator, 'postgres', q{
BEGIN;
INSERT INTO people VALUES (2101, 2, 'fought for', 'Second');
UPDATE people SET town = 'Second' WHERE id = 3;
COMMIT;
\q});
waits_for($shards[0], "wait_event_type = 'Lock' AND application_name = 'postgres_fdw'");
release_lock($gate);
is(state_of(end_session($first)), '55P03', 'a row there, a key here: lock_timeout ends it');
is(state_of(end_session($second)), 'none', 'and the other commits');
is(join(',', @{ rows('people', 'force') }) =~ /fought for\|Second/ ? 'second' : 'first', 'second', 'it has the key');
exact('a row there, a key here');

# Two rows on two shards: their servers' own lock_timeout, by the option "options".
$coordinator->safe_psql('postgres', "ALTER SERVER shard0 OPTIONS (ADD options '-c lock_timeout=1500ms')");
$gate = shut_gate($coordinator, 9);
my @both = map {
	my ($mine, $other) = $_ ? (4, 3) : (3, 4); # id % 3 is the shard
	my $session = start_session($coordinator, 'postgres', qq{
BEGIN;
UPDATE people SET email = email || ' of $_' WHERE id = $mine;
SET LOCAL application_name = 'side $_';
SELECT pg_advisory_xact_lock_shared(9);
UPDATE people SET email = email || ' of $_' WHERE id = $other;
COMMIT;
\\q});
	waits_for($coordinator, "application_name = 'side $_' AND wait_event = 'advisory'");
	$session;
} 0 .. 1;
release_lock($gate);
# The one that waits on shard 0 gives up: the second.
is(state_of(end_session($both[1])), '55P03', 'two rows on two shards: one shard gives up');
is(state_of(end_session($both[0])), 'none', 'and the other side commits');
$coordinator->safe_psql('postgres', 'ALTER SERVER shard0 OPTIONS (DROP options)');
is($coordinator->safe_psql('postgres', "SELECT id, email FROM people WHERE email IN ('mail 3 of 0', 'mail 4 of 0') ORDER BY id"), "3|mail 3 of 0\n4|mail 4 of 0", 'its changes are there');
drain('two rows on two shards');
exact('two rows on two shards');

# --- A shard comes back from an older backup ----------------------------------------------

# What its queue has is not drained when it is saved.
$shards[0]->safe_psql('postgres', "UPDATE orders SET state = 'saved' WHERE id IN (2, 4)");
$shards[0]->backup('old');
$shards[0]->safe_psql('postgres', "UPDATE orders SET state = 'direct' WHERE id IN (4, 6); INSERT INTO orders VALUES (500, 0, 'direct', 'direct'); DELETE FROM orders WHERE id = 8");
$coordinator->safe_psql('postgres', q{
UPDATE people SET email = 'newer ' || id WHERE id IN (6, 9);
DELETE FROM people WHERE id = 12;
INSERT INTO people VALUES (3000, 0, 'newer', 'Newer');
-- This key is used again, elsewhere.
INSERT INTO people VALUES (3001, 1, 'mail 12', 'Elsewhere');
UPDATE orders SET code = 'newer ' || id WHERE id IN (10, 12);
INSERT INTO orders VALUES (501, 0, 'newer', 'newer');});
drain('before the disaster');
exact('before the disaster');
$shards[0]->stop('immediate');
my $old = QuickNode->new('restored');
$old->init_from_backup($shards[0], 'old');
$old->start;
$shards[0] = $old;
$coordinator->safe_psql('postgres', sprintf("ALTER SERVER shard0 OPTIONS (SET host '%s', SET port '%s')", $old->host, $old->port));

# A row is found under the key that it has, or not at all.
foreach my $table (sort keys %queries)
{
	my %native = map { $_ => 1 } @{ rows($table, 'off') };
	my $rows = rows($table, 'force');
	is_deeply([ grep { !$native{$_} } @$rows ], [], "restored: $table: no row that is not there");
	cmp_ok(scalar(@$rows), '<', scalar(keys %native), "restored: $table: some are not found");
}
is($coordinator->safe_psql('postgres', "SELECT * FROM people WHERE email = 'newer 6'; SELECT * FROM people WHERE email = 'newer'"), '', 'restored: what is lost is not found');
like(found(), qr/^[1-9]\d*\n[1-9]\d*\n[1-9]\d*\n[1-9]\d*$/, 'restored: verify sees it');
# The queue that came back is drained once more, which does no harm, and does not do all.
drain('restored');
like(found(), qr/^[1-9]\d*\n[1-9]\d*\n[1-9]\d*\n/, 'restored: a drain does not mend what the queue does not name');
# One key is there twice now: what is to go is the owner's decision.
like(sqlstate($coordinator, 'postgres', "SELECT index_table.repair('people_by_email')"), qr/^23505/, 'restored: a key that is there twice is named');
is(sqlstate($coordinator, 'postgres', "SET index_table.enable_scan = off; DELETE FROM people WHERE email = 'mail 12' AND shard = 0"), '', 'restored: one of them goes');
is(sqlstate($coordinator, 'postgres', "SELECT index_table.repair('$_')"), '', "restored: repair of $_") foreach @index_tables;
exact('restored and repaired');

# It is a shard as any other.
$shards[0]->safe_psql('postgres', "UPDATE orders SET state = 'again', code = code || ' again' WHERE id IN (2, 4, 6); INSERT INTO orders VALUES (502, 0, 'again', 'again')");
is(sqlstate($coordinator, 'postgres', "UPDATE people SET email = 'again ' || id WHERE id IN (6, 9, 15); INSERT INTO people VALUES (3002, 0, 'again', 'Again'); UPDATE orders SET state = 'changed' WHERE id IN (14, 16)"), '', 'restored: written');
drain('restored, written');
exact('restored, written');

check_storage($coordinator, 'postgres');
$_->stop foreach $coordinator, @shards;
done_testing();
