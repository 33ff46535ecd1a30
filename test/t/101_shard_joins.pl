# Joins through index tables over real shards, two servers: random ones, each without index tables, with them
# through postgres_fdw, and pipelined; how many statements reach the shards; lists of thousands of keys; shards
# that are down; rows that others have changed meanwhile.
#
#   JOIN_SEED    repeats a run
#   JOIN_COUNT   how many random queries (120)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest qw(how_many new_node server_sql describe oracle_sql oracle_ok check_storage start_session end_session has_extension);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{JOIN_SEED} // int(rand(2**31));
my $total = how_many('JOIN_COUNT', 120);
srand($seed);

my $preload = "session_preload_libraries = 'index_table'\njit = off\n";
my $coordinator = new_node('coordinator', conf => $preload);
my $counts = has_extension($coordinator, 'pg_stat_statements');
my @shards = map { new_node("shard$_", conf => $counts ? "shared_preload_libraries = 'pg_stat_statements'\n" : '') } 1 .. 2;

# --- Tables -------------------------------------------------------------------------

my $columns = 'tenant int NOT NULL, id bigint NOT NULL, email text COLLATE "C", town varchar(20), amount numeric(12, 3), num int, doc text';
my $setup = "CREATE EXTENSION index_table;\nCREATE EXTENSION postgres_fdw;\n";
$setup .= server_sql("shard$_", $shards[$_], public => 1) foreach 0, 1;
$setup .= "CREATE TABLE people ($columns) PARTITION BY HASH (tenant, id);\n";
foreach my $leaf (0 .. 7)
{
	my $bound = "FOR VALUES WITH (MODULUS 8, REMAINDER $leaf)";
	if ($leaf % 4 == 3)
	{
		$setup .= "CREATE TABLE people_$leaf PARTITION OF people (PRIMARY KEY (tenant, id)) $bound;\n";
		next;
	}
	my $number = $leaf % 2;
	$shards[$number]->safe_psql('postgres', "CREATE TABLE remote_$leaf ($columns, PRIMARY KEY (id, tenant))");
	$setup .= "CREATE FOREIGN TABLE people_$leaf PARTITION OF people $bound SERVER shard$number OPTIONS (schema_name 'public', table_name 'remote_$leaf');\n";
}
$setup .= q{
INSERT INTO people
SELECT i % 7, i / 3, CASE WHEN i % 19 > 0 THEN 'mail' || i END, CASE WHEN i % 23 > 0 THEN 'Town ' || i % 50 END, i / 7.0, i % 40, repeat('d' || i, 1 + i % 50)
  FROM generate_series(1, 3000) AS i;
SELECT index_table.create('people', 'email', identity => 'tenant, id', is_unique => true);
SELECT index_table.create('people', 'town, amount DESC', identity => 'tenant, id');
SELECT index_table.create('people', 'num, id', 'partial', include => 'town', identity => 'id, tenant');
CREATE INDEX people_by_town_hash ON people_by_town_amount USING hash (town);
CREATE TABLE orders (order_id int PRIMARY KEY, email text COLLATE "C", town text, low numeric, num int, id bigint, note text);
INSERT INTO orders
SELECT i, CASE WHEN i % 11 > 0 THEN 'mail' || i * 13 % 3300 END, 'Town ' || i % 61, i % 400, i % 45, i % 900, repeat('n', i % 300)
  FROM generate_series(1, 2500) AS i;
CREATE TABLE pairs (a text, b text);
INSERT INTO pairs SELECT 'mail' || i, 'mail' || i * 7 % 2000 FROM generate_series(1, 12) AS i;
CREATE FUNCTION here(v int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN v % 3 = 0; END';
ANALYZE orders;
ANALYZE pairs;
VACUUM ANALYZE people_by_email, people_by_town_amount, people_by_num_id;
};
$coordinator->safe_psql('postgres', $setup);
my @tables = (
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [qw(tenant id)], identity => 2, is_unique => 1),
	describe(name => 'people_by_town_amount', base => 'people', key => [ 'b.town', 'b.amount' ], copies => [qw(tenant id)], identity => 2));
$coordinator->safe_psql('postgres', oracle_sql(@tables));

# --- Random joins -------------------------------------------------------------------

sub pick { return $_[ int rand @_ ]; }

sub condition
{
	return pick('p.email = o.email', 'p.email = o.email', 'p.email = o.email', "p.email = 'mail' || o.num", 'p.town = o.town AND p.amount = o.low', 'p.town = o.town AND p.amount > o.low',
		'p.num = o.num AND p.id = o.id', 'p.town = o.town AND o.order_id < 20', 'p.num = o.num AND o.order_id < 30', 'p.email > o.email AND p.email < o.email || 3 AND o.order_id < 60');
}

sub filter
{
	return ' AND ' . pick('p.num > 10', 'p.num <> o.num', 'here(p.num)', 'p.amount < o.low', "p.doc LIKE 'd1%'", 'random() >= 0', 'length(p.doc) > length(o.note)', 'p.id > (SELECT min(id) FROM orders)',
		'o.note IS NOT NULL', 'p.tableoid <> 0', "p.town IN ('Town 1', 'Town 2', 'Town 3')");
}

sub random_join
{
	my $on = condition() . join '', map { filter() } 1 .. int rand 3;
	my $some = 'o.order_id ' . pick('<', '>') . ' ' . int(rand 2500);
	my $list = pick('o.order_id, p.id, p.tenant', 'o.order_id, p.*', 'o.order_id, p', 'count(*), sum(p.num), sum(o.order_id)', 'o.note, upper(p.doc)');
	my $kind = int rand 12;
	return "SELECT $list FROM orders AS o JOIN people AS p ON $on WHERE $some" if $kind <= 1;
	return "SELECT $list FROM orders AS o LEFT JOIN people AS p ON $on WHERE $some" if $kind <= 3;
	return "SELECT o.order_id FROM orders AS o WHERE " . pick('', 'NOT ') . "EXISTS (SELECT FROM people AS p WHERE $on) AND $some" if $kind == 4;
	return "SELECT p.id, p.doc FROM people AS p WHERE p.email IN (SELECT o.email FROM orders AS o WHERE $some)" if $kind == 5;
	return "SELECT o.order_id, l.* FROM orders AS o " . pick('JOIN LATERAL', 'LEFT JOIN LATERAL') . " (SELECT p.id, p.tenant, p.doc FROM people AS p WHERE $on ORDER BY p.amount, p.tenant, p.id LIMIT " . (1 + int rand 4) . ') AS l'
	  . ' ON true WHERE o.order_id < ' . int(rand 80) if $kind == 6;
	return "SELECT o.order_id, l.* FROM orders AS o, LATERAL (SELECT count(*), max(p.doc) FROM people AS p WHERE $on) AS l WHERE o.order_id < " . int(rand 80) if $kind == 7;
	return "SELECT o.order_id, p.id, p.tenant FROM orders AS o JOIN people AS p ON $on WHERE $some ORDER BY o.order_id, p.tenant, p.id" . pick('', ' LIMIT 7', ' LIMIT 40 OFFSET 5') if $kind == 8;
	return "SELECT o.order_id, p.id, q.id FROM orders AS o JOIN people AS p ON $on LEFT JOIN people AS q ON q.email = 'mail' || p.num WHERE o.order_id < 150" if $kind == 9;
	return "SELECT r.a, (SELECT count(*) FROM orders AS o JOIN people AS p ON $on WHERE o.order_id < 50 AND p.email > r.b) FROM pairs AS r" if $kind == 10;
	return "SELECT r.a, p.id, q.doc FROM pairs AS r JOIN people AS p ON p.email = r.a " . pick('JOIN', 'LEFT JOIN') . ' people AS q ON q.email = r.b AND q.num <> p.num';
}

my @settings = (
	'RESET ALL', "SET work_mem = '64kB'", 'SET plan_cache_mode = force_generic_plan', 'SET enable_hashjoin = off; SET enable_mergejoin = off', 'SET enable_memoize = off', 'SET cursor_tuple_fraction = 0.01');
my (@queries, $script);
foreach my $number (0 .. $total - 1)
{
	my $query = random_join();
	push @queries, $query;
	$script .= pick(@settings) . ";\n" if $number % 10 == 0;
	my $run = "$query;\n";
	$run = "PREPARE q AS $query;\nEXECUTE q;\nDEALLOCATE q;\n" if $number % 7 == 0;
	$run = "BEGIN;\nDECLARE c CURSOR FOR $query;\nFETCH 3 FROM c;\nFETCH ALL FROM c;\nCOMMIT;\n" if $number % 7 == 1;
	foreach my $way ([ 'off', 'fdw' ], [ 'force', 'fdw' ], [ 'force', 'auto' ])
	{
		$script .= "\\echo @ $number $way->[0] $way->[1]\n\\warn @ $number $way->[0] $way->[1]\nSET index_table.enable_scan = $way->[0];\nSET index_table.shard_access = $way->[1];\n$run";
	}
	$script .= "\\echo @ $number plan\nEXPLAIN (COSTS OFF) $query;\n";
}
my ($result, $stdout, $stderr) = $coordinator->psql('postgres', $script, on_error_stop => 0, extra_params => [ '-q', '-A', '-t' ]);
my ($printed) = IndexTableTest::sections($stdout);
my ($complaints) = IndexTableTest::sections($stderr);
my ($different, $ahead) = (0, 0);
foreach my $number (0 .. $#queries)
{
	my $plan = join("\n", @{ $printed->{"$number plan"} });
	$ahead++ if $plan =~ /Index Table Read Ahead/;
	my $ordered = $queries[$number] =~ /\) AS l/ ? 0 : $queries[$number] =~ /ORDER BY/;
	my @results = map { my @rows = @{ $printed->{"$number $_"} }; join("\n", ($ordered ? @rows : sort @rows), map { s/^psql:[^ ]* //r } @{ $complaints->{"$number $_"} }) } 'off fdw', 'force fdw', 'force auto';
	foreach my $way (1, 2)
	{
		next if $results[$way] eq $results[0];
		$different++;
		diag("JOIN_SEED=$seed: way $way differs\n$queries[$number]\n$plan\nnative:\n" . substr($results[0], 0, 1500) . "\nfound:\n" . substr($results[$way], 0, 1500)) if $different <= 5;
	}
}
is($different, 0, "random joins (seed $seed)");
cmp_ok($ahead, '>', $total / 4, 'random joins read outer rows ahead') or diag($ahead);
is(scalar(grep { /ERROR/ } map { @$_ } values %$complaints), 0, 'no query failed') or diag(substr($stderr, 0, 2000));

# --- One statement a server ----------------------------------------------------------

SKIP:
{
	skip 'no pg_stat_statements', 9 unless $counts;
	$_->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') foreach @shards;
	my $sent = sub {
		my ($query) = @_;
		$_->safe_psql('postgres', 'SELECT pg_stat_statements_reset()') foreach @shards;
		my $rows = $coordinator->safe_psql('postgres', "SET index_table.enable_scan = force; $query");
		return ($rows, join ' ', map { $_->safe_psql('postgres', "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ~ 'remote_'") } @shards);
	};
	my $thousand = 'FROM orders AS o %s people AS p ON p.email = o.email WHERE o.order_id <= 1000';
	foreach my $join ('JOIN', 'LEFT JOIN')
	{
		my ($rows, $statements) = $sent->('SELECT count(p.doc) ' . sprintf($thousand, $join));
		cmp_ok($rows, '>', 700, "$join of 1,000 rows");
		is($statements, '1 1', "$join of 1,000 rows: statements on each shard");
	}
	foreach my $not ('', 'NOT ')
	{
		my ($rows, $statements) = $sent->("SELECT count(*) FROM orders AS o WHERE o.order_id <= 1000 AND ${not}EXISTS (SELECT FROM people AS p WHERE p.email = o.email AND p.num >= 0)");
		is($statements, '1 1', "1,000 rows, ${not}EXISTS: statements on each shard");
	}
	my (undef, $statements) = $sent->('SELECT count(p.doc) ' . sprintf($thousand, 'JOIN') . ' LIMIT 1');
	is($statements, '1 1', 'LIMIT above an aggregate limits nothing');
	my ($rows) = $sent->('SELECT o.order_id ' . sprintf($thousand, 'JOIN') . ' AND p.num >= 0 ORDER BY o.order_id LIMIT 3');
	is($rows, "1\n2\n3", 'the order is that of the outer side');
	my $fetched = 0;
	$fetched += $_->safe_psql('postgres', "SELECT coalesce(sum(rows), 0) FROM pg_stat_statements WHERE query ~ 'remote_'") foreach @shards;
	cmp_ok($fetched, '<=', 30, 'no more rows are fetched than a limit asks for, and some') or diag($fetched);
}

# Thousands of keys: as a list, as an array, as a parameter.
my $keys = "SELECT 'mail' || i * 7 % 4000 FROM generate_series(1, 5000) AS i";
my $literals = $coordinator->safe_psql('postgres', "SELECT string_agg(quote_literal(k), ', ') FROM ($keys) AS l (k)");
my $expected = $coordinator->safe_psql('postgres', "SET index_table.enable_scan = off; SELECT count(*), sum(length(doc)) FROM people WHERE email = ANY (ARRAY($keys))");
foreach my $query ("SELECT count(*), sum(length(doc)) FROM people WHERE email IN ($literals)", "SELECT count(*), sum(length(doc)) FROM people WHERE email = ANY (ARRAY($keys))",
	"SELECT count(*), sum(length(doc)) FROM people WHERE email IN ($keys)", "PREPARE q AS SELECT count(*), sum(length(doc)) FROM people WHERE email = ANY (\$1); SET plan_cache_mode = force_generic_plan; EXECUTE q (ARRAY[$literals])")
{
	is($coordinator->safe_psql('postgres', "SET index_table.enable_scan = force; $query"), $expected, 'thousands of keys: ' . substr($query, 0, 90));
}

# An entry that leads to a row which has another key by now, written on the shard itself, leads nowhere.
my ($tenant, $id, $email) = split /\|/, $shards[0]->safe_psql('postgres', "SELECT tenant, id, email FROM remote_0 WHERE email IS NOT NULL ORDER BY id LIMIT 1");
$shards[0]->safe_psql('postgres', "UPDATE remote_0 SET email = 'other' WHERE (tenant, id) = ($tenant, $id)");
foreach my $query ("SELECT count(doc) FROM people WHERE email = ANY (ARRAY(SELECT '$email'))", "SELECT count(p.doc) FROM (VALUES ('$email' COLLATE \"C\"), ('none')) AS o (email) LEFT JOIN people AS p USING (email)")
{
	is($coordinator->safe_psql('postgres', "SET index_table.enable_scan = force; $query"), '0', 'a row is looked at: ' . substr($query, 0, 60));
}
$shards[0]->safe_psql('postgres', "UPDATE remote_0 SET email = '$email' WHERE (tenant, id) = ($tenant, $id)");

# --- Rows that others change meanwhile -------------------------------------------------

# The outer row has another key when its lock is had: the row that was joined with it is not its own any more.
foreach my $scan ('off', 'force')
{
	my $holder = start_session($coordinator, 'postgres', "BEGIN; UPDATE orders SET email = 'mail999', note = 'held' WHERE order_id = 3; UPDATE orders SET note = 'held' WHERE order_id = 4; SELECT 'held';");
	$holder->{run}->pump until $holder->{output} =~ /held/;
	my $waiting = start_session($coordinator, 'postgres', "SET index_table.enable_scan = $scan; SELECT 'begun'; UPDATE orders AS o SET low = -p.num FROM people AS p WHERE p.email = o.email AND o.order_id <= 6 RETURNING o.order_id, o.note = 'held';");
	$waiting->{run}->pump until $waiting->{output} =~ /begun/;
	ok($coordinator->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ '^SET.*UPDATE orders AS o|^UPDATE orders AS o'"), "$scan: an update waits");
	$holder->{input} .= "COMMIT;\n";
	end_session($holder);
	my $updated = join ' ', sort grep { /\|/ } split /\n/, end_session($waiting);
	is($updated, '1|f 2|f 4|t 5|f 6|f', "$scan: rows are joined as they are when they are changed");
	$coordinator->safe_psql('postgres', "UPDATE orders SET email = 'mail39', note = 'n' WHERE order_id IN (3, 4); UPDATE orders SET email = 'mail52' WHERE order_id = 4");
}

# --- A shard is down -----------------------------------------------------------------

my $join = 'SELECT count(p.doc) FROM orders AS o JOIN people AS p ON p.email = o.email WHERE o.order_id <= 1500';
my $reachable = $coordinator->safe_psql('postgres', "SET index_table.enable_scan = off; $join AND p.tableoid <> ALL ('{people_1,people_5}'::regclass[])");
$shards[1]->stop('fast');
foreach my $access ('auto', 'fdw')
{
	my $set = "SET index_table.shard_access = $access; SET index_table.enable_scan = force;";
	my ($code, $out, $err) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\n$set $join");
	like($err, qr/ERROR:  08001: .*shard1/, "$access: an error that names the server");
	($code, $out, $err) = $coordinator->psql('postgres', "$set SET index_table.unreachable_shards = skip;\n$join");
	is($out, $reachable, "$access: the rows that can be reached");
	my @warnings = $err =~ /(WARNING:.*)/g;
	is(scalar @warnings, 1, "$access: with one warning") or diag($err);
}
$shards[1]->start;

oracle_ok($coordinator, 'postgres', 'index tables equal their recomputation', 0);
check_storage($coordinator, 'postgres');
done_testing();
