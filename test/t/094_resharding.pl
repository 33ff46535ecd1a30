# Rows that move from shard to shard, tables that move to other servers, and partitions that are exchanged: what README
# says under "Moving rows and shards". Index tables are exact afterwards, and queries find the same through them as without.
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
my @shards = map { new_node("shard$_") } 0 .. 2;
my $coordinator = new_node('coordinator', conf => "session_preload_libraries = index_table\n");
foreach my $i (0 .. 1)
{
	$shards[$i]->safe_psql('postgres', "CREATE DATABASE people; CREATE DATABASE orders");
	$shards[$i]->safe_psql('people', "CREATE TABLE people ($people, PRIMARY KEY (id))");
	$shards[$i]->safe_psql('orders', "CREATE TABLE orders ($orders, PRIMARY KEY (id)); CREATE EXTENSION index_table; SELECT index_table.capture('orders')");
}
$coordinator->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;
	CREATE TABLE people ($people) PARTITION BY LIST (shard); CREATE TABLE orders ($orders) PARTITION BY LIST (shard)");

foreach my $i (0 .. 1)
{
	$coordinator->safe_psql('postgres', server_sql("${_}_$i", $shards[$i], database => $_)
		  . "CREATE FOREIGN TABLE ${_}_p$i PARTITION OF $_ FOR VALUES IN ($i) SERVER ${_}_$i OPTIONS (schema_name 'public', table_name '$_')")
	  foreach 'people', 'orders';
}
$coordinator->safe_psql('postgres', q{
	CREATE TABLE people_p2 PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN (2);
	INSERT INTO people SELECT i, i % 3, 'mail ' || i, 'Town ' || i % 7 FROM generate_series(1, 90) AS i;
	INSERT INTO orders SELECT i, i % 2, 'code ' || i, 'state ' || i % 4 FROM generate_series(1, 90) AS i;
	SELECT index_table.create('people', 'email', is_unique => true, identity => 'id');
	SELECT index_table.create('people', 'town', 'denormalized', identity => 'id');
	SELECT index_table.create('orders', 'code', is_unique => true, identity => 'id');
	SELECT index_table.create('orders', 'state', identity => 'id', maintenance => 'deferred');
	CALL index_table.drain();});
$coordinator->safe_psql('postgres', oracle_sql(
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'shard', 'email' ], identity => 1),
	describe(name => 'orders_by_code', base => 'orders', key => ['b.code'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'orders_by_state', base => 'orders', key => ['b.state'], copies => ['id'], identity => 1)));

# --- Helpers --------------------------------------------------------------------------

my $queries = join ';',
  q{SELECT tableoid::regclass, * FROM people WHERE email > '' ORDER BY email},
  q{SELECT tableoid::regclass, * FROM people WHERE town > '' ORDER BY town, id},
  q{SELECT tableoid::regclass, * FROM orders WHERE code > '' ORDER BY code},
  q{SELECT tableoid::regclass, * FROM orders WHERE state > '' ORDER BY state, id};
my $settings = 'SET index_table.read_consistency = eventual; SET index_table.shard_access';

sub exact
{
	my ($label) = @_;
	oracle_ok($coordinator, 'postgres', "$label: in step", 0);
	my ($found) = sections($coordinator->safe_psql('postgres',
			"SET index_table.enable_scan = off; SELECT '\@ native'; $queries; SET index_table.enable_scan = force;"
		  . "SELECT '\@ auto'; $settings = auto; $queries; SELECT '\@ fdw'; $settings = fdw; $queries"));
	is_deeply($found->{$_}, $found->{native}, "$label: the same rows, $_") foreach 'auto', 'fdw';
	return;
}

sub drain
{
	my (undef, undef, $stderr) = $coordinator->psql('postgres', 'CALL index_table.drain()');
	is($stderr, '', 'drained');
	return;
}

sub copy_table
{
	my ($from, $to, $db, @options) = @_;
	my $dump = "$PostgreSQL::Test::Utils::tmp_check/$db.dump";
	$from->command_ok([ 'pg_dump', '-Fc', @options, '-f', $dump, $from->connstr($db) ], "$db: dumped");
	$to->safe_psql('postgres', "CREATE DATABASE $db");
	$to->command_ok([ 'pg_restore', '-e', '-d', $to->connstr($db), $dump ], "$db: restored");
	return;
}

sub move_server
{
	my ($server, $node) = @_;
	my ($host, $port) = ($node->host, $node->port);
	$coordinator->safe_psql('postgres', "ALTER SERVER $server OPTIONS (SET host '$host', SET port '$port')");
	return;
}

# A session of the coordinator that has read and written through all its connections before, and does so again.
sub open_session
{
	my ($gate) = @_;
	my $session = start_session($coordinator, 'postgres', "SET index_table.enable_scan = force; $settings = auto; $queries; $settings = fdw; $queries;
		INSERT INTO people VALUES ($gate, 0, 'before $gate', 'Session'), ($gate + 1, 1, 'before ' || $gate + 1, 'Session');
		SELECT pg_advisory_lock_shared($gate);\n\\echo \@ after\n
		$settings = auto; $queries; $settings = fdw; $queries;
		INSERT INTO people VALUES ($gate + 2, 0, 'after $gate', 'Session'), ($gate + 3, 1, 'after ' || $gate + 1, 'Session');
		\\q");
	$coordinator->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $gate AND NOT granted") or die 'nobody waits';
	return $session;
}

# --- A row's partition key changes --------------------------------------------------------

exact('at first');
like(sqlstate($coordinator, 'postgres', 'UPDATE people SET shard = 1 WHERE id = 3'), qr/^23514/, 'an UPDATE of the partition key is refused');
foreach my $way ([ 0, 1 ], [ 1, 0 ], [ 0, 2 ], [ 1, 2 ])
{
	my ($from, $to) = @$way;
	my $label = "rows moved from $from to $to";
	$coordinator->safe_psql('postgres', qq{
		WITH gone AS (DELETE FROM people WHERE shard = $from AND id % 5 = 0 RETURNING *) INSERT INTO people SELECT id, $to, email, town FROM gone;
		BEGIN; CREATE TEMP TABLE moved AS SELECT * FROM people WHERE shard = $from AND id % 7 = 0; DELETE FROM people WHERE id IN (SELECT id FROM moved);
		INSERT INTO people SELECT id, $to, email, town FROM moved; COMMIT;});
	exact($label);
}
# Local rows move by UPDATE.
$coordinator->safe_psql('postgres', 'UPDATE people SET shard = 1 WHERE shard = 2 AND id % 2 = 0');
exact('rows moved from here to a shard');
$coordinator->safe_psql('postgres', q{WITH gone AS (DELETE FROM orders WHERE id % 5 = 0 RETURNING *) INSERT INTO orders SELECT id, 1 - shard, code, state FROM gone});
drain();
exact('captured rows moved');
is($coordinator->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM people'), '90|90', 'no row was lost');

# --- A shard moves to another server ------------------------------------------------------

my $gate = shut_gate($coordinator, 1000);
my $session = open_session(1000);
# A row that a failure has left on the shard, and that nobody has mended yet, when the old server has counted further than the new one.
$shards[0]->safe_psql('people', "INSERT INTO people VALUES (800, 0, 'left', 'Behind')");
$coordinator->safe_psql('postgres', "INSERT INTO index_table.intent VALUES ('people_p0', '{id}', '{800}', '900000')");
# Changes that are queued when the table moves.
$shards[0]->safe_psql('orders', "INSERT INTO orders VALUES (801, 0, 'queued', 'queued'); UPDATE orders SET state = 'queued' WHERE id % 3 = 0");
copy_table($shards[0], $shards[2], 'people', '-t', 'people');
copy_table($shards[0], $shards[2], 'orders');
move_server('people_0', $shards[2]);
move_server('orders_0', $shards[2]);
# Whoever asks the old one would see it.
$shards[0]->safe_psql('people', "DELETE FROM people WHERE id % 2 = 0; UPDATE people SET email = 'stale ' || id, town = 'Stale'");
$shards[0]->safe_psql('orders', "UPDATE orders SET code = 'stale ' || id, state = 'stale'");
release_lock($gate);
my $output = end_session($session);
unlike($output, qr/ERROR|stale/i, 'a session that was open follows');
like($output, qr/\@ after\n.*people_p0\|1000\|/s, 'and reads what it has written');
is($shards[2]->safe_psql('people', 'SELECT count(*) FROM people WHERE id = 1002'), '1', 'and writes there');
drain();
exact('after the move');
is($coordinator->safe_psql('postgres', 'SELECT count(*) FROM index_table.intent'), '0', 'intents do not wait for another server');
cmp_ok($coordinator->safe_psql('postgres', "SELECT count(*) FROM orders_by_state WHERE state = 'queued'"), '>', 10, 'what was queued has come along');
is($coordinator->safe_psql('postgres', q{SELECT count(*) FROM index_table.shard_of('people', 0) WHERE port = } . quote_literal($shards[2]->port)), '1', 'shard_of knows');
$shards[2]->safe_psql('orders', "INSERT INTO orders VALUES (802, 0, 'there', 'there'); DELETE FROM orders WHERE id % 4 = 0");
$coordinator->safe_psql('postgres', "UPDATE people SET town = 'New ' || town WHERE id % 3 = 0; DELETE FROM people WHERE id % 4 = 0; UPDATE orders SET code = code || '!' WHERE id % 3 = 0");
drain();
exact('changed afterwards');
$shards[0]->stop;
exact('without the old server');
$shards[0]->start;

# Drained before, the table alone: captured anew.
drain();
$shards[2]->safe_psql('orders', 'SELECT index_table.release(\'orders\')');
$shards[0]->safe_psql('postgres', 'DROP DATABASE orders');
copy_table($shards[2], $shards[0], 'orders', '-t', 'orders');
$shards[0]->safe_psql('orders', "CREATE EXTENSION index_table; SELECT index_table.capture('orders')");
move_server('orders_0', $shards[0]);
$shards[0]->safe_psql('orders', "UPDATE orders SET state = 'back' WHERE id % 3 = 0");
drain();
exact('and back');

# --- A partition is exchanged for its copy on another server --------------------------------

# The copy is complete before anything is detached: nobody misses its rows at any time.
$shards[0]->safe_psql('postgres', 'DROP DATABASE people');
copy_table($shards[1], $shards[0], 'people', '-t', 'people');
$coordinator->safe_psql('postgres', server_sql('people_new', $shards[0], database => 'people') . qq{CREATE FOREIGN TABLE people_new ($people) SERVER people_new OPTIONS (schema_name 'public', table_name 'people');
	BEGIN; ALTER TABLE people DETACH PARTITION people_p1; ALTER TABLE people ATTACH PARTITION people_new FOR VALUES IN (1); COMMIT;
	DROP FOREIGN TABLE people_p1;});
$shards[1]->safe_psql('people', "UPDATE people SET email = 'stale ' || id, town = 'Stale'");
exact('exchanged in one transaction');
$coordinator->safe_psql('postgres', "UPDATE people SET town = 'Again ' || town WHERE id % 3 = 0; DELETE FROM people WHERE id % 11 = 0; INSERT INTO people VALUES (900, 1, 'exchanged', 'x')");
is($shards[0]->safe_psql('people', 'SELECT count(*) FROM people WHERE id = 900'), '1', 'written on the new server');
exact('changed afterwards');
like(sqlstate($coordinator, 'postgres', "INSERT INTO people VALUES (901, 0, 'exchanged', 'x')"), qr/^23505/, 'unique over old and new');

# Copied while it is detached, through this server; what is to be drained is captured first.
drain();
$coordinator->safe_psql('postgres', 'ALTER TABLE orders DETACH PARTITION orders_p1');
exact('detached');
$shards[2]->safe_psql('postgres', 'DROP DATABASE orders');
$shards[2]->safe_psql('postgres', 'CREATE DATABASE orders');
$shards[2]->safe_psql('orders', "CREATE TABLE orders ($orders, PRIMARY KEY (id))");
$coordinator->safe_psql('postgres', server_sql('orders_new', $shards[2], database => 'orders') . qq{
	CREATE FOREIGN TABLE orders_new ($orders) SERVER orders_new OPTIONS (schema_name 'public', table_name 'orders');
	INSERT INTO orders_new SELECT * FROM orders_p1;});
like(sqlstate($coordinator, 'postgres', 'ALTER TABLE orders ATTACH PARTITION orders_new FOR VALUES IN (1)'), qr/^55000/, 'deferred index tables want it captured');
$shards[2]->safe_psql('orders', "CREATE EXTENSION index_table; SELECT index_table.capture('orders')");
$coordinator->safe_psql('postgres', 'ALTER TABLE orders ATTACH PARTITION orders_new FOR VALUES IN (1); DROP FOREIGN TABLE orders_p1');
exact('attached');
$shards[2]->safe_psql('orders', "UPDATE orders SET code = 'new ' || code, state = 'new' WHERE id % 3 = 0; DELETE FROM orders WHERE id % 7 = 0");
$shards[1]->safe_psql('orders', "UPDATE orders SET code = 'stale ' || id, state = 'stale'");
drain();
exact('drained from the new server');
check_storage($coordinator, 'postgres');

done_testing();
