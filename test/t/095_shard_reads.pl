# Queries through index tables over real shards, two servers: random ones, each without index tables,
# with them through postgres_fdw, and pipelined; what a session sees of its own changes; shards that are
# restarted, stopped, stuck; cancels; fetch() and page().
#
#   SHARD_SEED    repeats a run
#   SHARD_COUNT   how many random queries (150)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IO::Socket::UNIX;
use Time::HiRes qw(time sleep);
use IndexTableTest qw(how_many new_node server_sql describe oracle_sql oracle_ok check_storage sqlstate start_session end_session has_extension);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SHARD_SEED} // int(rand(2**31));
my $total = how_many('SHARD_COUNT', 150);
srand($seed);

my $preload = "session_preload_libraries = 'index_table'\njit = off\n";
my $coordinator = new_node('coordinator', conf => $preload);
my $counts = has_extension($coordinator, 'pg_stat_statements');
my @shards = map { new_node("shard$_", conf => $counts ? "shared_preload_libraries = 'pg_stat_statements'\n" : '') } 1 .. 2;

# --- Tables -------------------------------------------------------------------------

my $columns = "tenant int NOT NULL, id bigint NOT NULL, email text COLLATE \"C\", town varchar(20), code char(4), amount numeric(12, 3), ratio float8,\n"
  . "born date, seen timestamptz, span interval, flags boolean, doc jsonb, tags text[], raw bytea, num int";
my $reordered = "raw bytea, num int, doc jsonb, tags text[], flags boolean, span interval, seen timestamptz, born date, ratio float8, amount numeric(12, 3),\n"
  . "code char(4), gone text, town varchar(20), email text COLLATE \"C\", id bigint NOT NULL, tenant int NOT NULL";
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
	my $layout = $leaf % 3 == 2 ? $reordered =~ s/gone text, //r : $columns;
	$shards[$number]->safe_psql('postgres', "CREATE TABLE remote_$leaf ($layout, PRIMARY KEY (id, tenant))");
	my $options = "SERVER shard$number OPTIONS (schema_name 'public', table_name 'remote_$leaf')";
	$setup .= $leaf % 3 == 1
	  ? "CREATE FOREIGN TABLE people_$leaf ($reordered) $options;\nALTER FOREIGN TABLE people_$leaf DROP COLUMN gone;\nALTER TABLE people ATTACH PARTITION people_$leaf $bound;\n"
	  : "CREATE FOREIGN TABLE people_$leaf PARTITION OF people $bound $options;\n";
}
$setup .= q{
SET extra_float_digits = 3;
INSERT INTO people
SELECT i % 7, i / 3, CASE WHEN i % 19 > 0 THEN 'mail' || i END, CASE WHEN i % 23 > 0 THEN 'Town ' || i % 50 END, chr(65 + i % 26) || i % 9, i / 7.0, i / 3.0,
       date '1990-01-01' + i * 3, timestamptz '2020-01-01 00:00:00+00' + i * interval '1 hour 1.001 second', i * interval '1 day 3 minutes',
       CASE WHEN i % 5 > 0 THEN i % 2 = 0 END, jsonb_build_object('a', i, 'b', 'it''s "' || i), ARRAY['x' || i % 4, NULL, 'a"b\\c'], decode(md5(i::text), 'hex'), i % 40
  FROM generate_series(1, 2000) AS i;
SELECT index_table.create('people', 'email', identity => 'tenant, id', is_unique => true);
SELECT index_table.create('people', 'town, amount DESC', identity => 'tenant, id');
SELECT index_table.create('people', 'seen', 'partial', include => 'town', identity => 'id, tenant');
SELECT index_table.create('people', 'num, born', identity => 'tenant, id');
SELECT index_table.create('people', 'unnest(tags)', identity => 'tenant, id', name => 'people_by_tag');
CREATE TABLE orders (order_id int PRIMARY KEY, email text COLLATE "C", num int);
INSERT INTO orders SELECT i, 'mail' || i * 13 % 2100, i % 45 FROM generate_series(1, 40) AS i;
CREATE VIEW adults AS SELECT * FROM people WHERE born < '2002-01-01';
CREATE FUNCTION here(v int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN v % 3 = 0; END';
ANALYZE orders;
VACUUM ANALYZE people_by_email, people_by_town_amount, people_by_seen, people_by_num_born, people_by_tag;
};
$coordinator->safe_psql('postgres', $setup);
my @tables = (
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [qw(tenant id)], identity => 2, is_unique => 1),
	describe(name => 'people_by_town_amount', base => 'people', key => [ 'b.town', 'b.amount' ], copies => [qw(tenant id)], identity => 2),
	describe(name => 'people_by_num_born', base => 'people', key => [ 'b.num', 'b.born' ], copies => [qw(tenant id)], identity => 2));
$coordinator->safe_psql('postgres', oracle_sql(@tables));

# --- Random queries -----------------------------------------------------------------

sub pick { return $_[ int rand @_ ]; }
sub email { return "'mail" . (1 + int rand 2050) . "'"; }
sub town { return "'Town " . int(rand 55) . "'"; }

sub key
{
	my $kind = int rand 10;
	return 'p.email = ' . email() if $kind == 0;
	return 'p.email IN (' . join(', ', map { email() } 1 .. 1 + int rand 30) . ')' if $kind == 1;
	return 'p.town = ' . town() if $kind == 2;
	return 'p.town IN (' . join(', ', map { town() } 1 .. 3) . ')' if $kind == 3;
	return 'p.town = ' . town() . ' AND p.amount ' . pick('>', '<=') . ' ' . int(rand 290) if $kind == 4;
	return 'p.' . pick('town', 'email') . ' IS NULL' if $kind == 5;
	return "p.seen BETWEEN timestamptz '2020-01-01 00:00:00+00' + interval '" . int(rand 2000) . " hours' AND timestamptz '2020-02-15 00:00:00+00'" if $kind == 6;
	return 'p.num = ' . int(rand 45) . pick('', " AND p.born > '1995-01-01'") if $kind == 7;
	return "'x" . int(rand 5) . "' = ANY (p.tags)" if $kind == 8;
	return '(p.email = ' . email() . ' OR p.town = ' . town() . ' OR p.num = ' . int(rand 45) . ')';
}

sub filter
{
	return ' AND ' . pick("p.doc ->> 'a' > '5'", 'p.flags', 'p.flags IS NOT TRUE', 'here(p.num)', "p.code LIKE 'A%'", 'p.ratio BETWEEN 50 AND 400.5', "p.raw > '\\x80'",
		"p.span > interval '30 days'", "p.seen < now()", 'p.tenant = ANY (ARRAY[1, 3, 5])', "p.doc @> '{\"a\": 7}'", 'p.amount % 2 > 1', "p.code = 'B2'", 'p.id <> 17',
		"p.tags[1] = 'x1'", 'random() >= 0', 'p.num > (SELECT min(num) FROM orders)', 'p.email <> ' . email(), 'lower(p.town) > ' . "'town 2'", 'p.id > p.tenant * 10');
}

sub random_query
{
	my $where = key() . join '', map { filter() } 1 .. int rand 3;
	my $list = pick('p.*', 'p', 'p.id, p.email, p.doc', 'p.ratio, p.span, p.seen, p.raw', 'upper(p.town), p.amount * 2, p.tags', 'p.tableoid::regclass, p.code, p.flags', 'count(*), max(p.doc::text)');
	my $shape = int rand 8;
	my $total_order = 'p.tenant, p.id';
	return "SELECT $list FROM people AS p WHERE $where" if $shape <= 2 || $list =~ /count/;
	return "SELECT $list FROM people AS p WHERE $where ORDER BY " . pick('p.email', 'p.town, p.amount DESC', 'p.seen DESC', 'p.num, p.born', 'p.doc') . ", $total_order" . pick('', ' LIMIT 7', ' LIMIT 3 OFFSET 5') if $shape <= 4;
	return "SELECT o.order_id, p.doc FROM orders AS o " . pick('JOIN', 'LEFT JOIN') . " people AS p ON p.email = o.email AND p.flags WHERE o.order_id < " . (1 + int rand 40) if $shape == 5;
	return "SELECT o.order_id FROM orders AS o WHERE " . pick('', 'NOT ') . "EXISTS (SELECT FROM people AS p WHERE p.email = o.email AND p.ratio > 100)" if $shape == 6;
	return "SELECT p.id, p.doc FROM adults AS p WHERE $where";
}

my @settings = (
	'RESET ALL', "SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kolkata'", "SET intervalstyle = 'sql_standard'; SET extra_float_digits = 0", "SET bytea_output = 'escape'; SET work_mem = '64kB'",
	"SET plan_cache_mode = force_generic_plan", "SET datestyle = 'German'; SET intervalstyle = 'iso_8601'");
my (@queries, $script);
foreach my $number (0 .. $total - 1)
{
	my $query = random_query();
	push @queries, $query;
	$script .= pick(@settings) . ";\n" if $number % 10 == 0;
	my $run = $number % 7 == 0 && $query !~ /random/ ? "PREPARE q AS $query;\nEXECUTE q;\nDEALLOCATE q;\n" : "$query;\n";
	foreach my $way ([ 'off', 'fdw' ], [ 'force', 'fdw' ], [ 'force', 'auto' ])
	{
		$script .= "\\echo @ $number $way->[0] $way->[1]\n\\warn @ $number $way->[0] $way->[1]\nSET index_table.enable_scan = $way->[0];\nSET index_table.shard_access = $way->[1];\n$run";
	}
	$script .= "\\echo @ $number plan\nEXPLAIN (COSTS OFF) $query;\n";
}
my ($result, $stdout, $stderr) = $coordinator->psql('postgres', $script, on_error_stop => 0, extra_params => [ '-q', '-A', '-t' ]);
my ($printed) = IndexTableTest::sections($stdout);
my ($complaints) = IndexTableTest::sections($stderr);
my ($different, $through) = (0, 0);
foreach my $number (0 .. $#queries)
{
	my $plan = join("\n", @{ $printed->{"$number plan"} });
	$through++ if $plan =~ /Shards: pipelined/;
	my $ordered = $queries[$number] =~ /ORDER BY/;
	my @results = map { my @rows = @{ $printed->{"$number $_"} }; join("\n", ($ordered ? @rows : sort @rows), map { s/^psql:[^ ]* //r } @{ $complaints->{"$number $_"} }) } 'off fdw', 'force fdw', 'force auto';
	foreach my $way (1, 2)
	{
		next if $results[$way] eq $results[0];
		$different++;
		diag("SHARD_SEED=$seed: way $way differs\n$queries[$number]\n$plan\nnative:\n" . substr($results[0], 0, 1500) . "\nfound:\n" . substr($results[$way], 0, 1500)) if $different <= 5;
	}
}
is($different, 0, "random queries (seed $seed)");
cmp_ok($through, '>', $total / 4, 'random queries went through index tables to shards');
is(scalar(grep { /ERROR/ } map { @$_ } values %$complaints), 0, 'no query failed') or diag(substr($stderr, 0, 2000));

# --- One statement a server ----------------------------------------------------------

SKIP:
{
	skip 'no pg_stat_statements', 5 unless $counts;
	$_->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') foreach @shards;
	my $query = "SELECT * FROM people WHERE town IN ('Town 1', 'Town 2', 'Town 3')";
	$_->safe_psql('postgres', 'SELECT pg_stat_statements_reset()') foreach @shards;
	$coordinator->safe_psql('postgres', "SET index_table.enable_scan = force; $query; $query; $query;");
	my @calls = map { $_->safe_psql('postgres', "SELECT sum(calls) FROM pg_stat_statements WHERE query !~ 'set_config|pg_stat_statements'") } @shards;
	is("@calls", '3 3', 'statements on each shard for three queries over all partitions');
	# By hand as well, and no row beyond what a page may take.
	my $sent = "SELECT sum(calls), sum(rows) FROM pg_stat_statements WHERE query ~ 'remote_'";
	foreach my $call ([ 'fetch', "index_table.fetch(NULL::people, 'people_by_town_amount', 'Town 7')", 40 ], [ 'page', "index_table.page(NULL::people, 'people_by_town_amount', 5, NULL, 'Town 7')", 6 ])
	{
		$_->safe_psql('postgres', 'SELECT pg_stat_statements_reset()') foreach @shards;
		$coordinator->safe_psql('postgres', "SELECT * FROM $call->[1]");
		my @sent = map { [ split /\|/, $_->safe_psql('postgres', $sent) ] } @shards;
		is(scalar(grep { ($_->[0] || 0) > 1 } @sent), 0, "$call->[0] asks each shard once");
		my $rows = ($sent[0][1] || 0) + ($sent[1][1] || 0);
		ok($rows > 0 && $rows <= $call->[2], "$call->[0] asks for what it needs") or diag($rows);
	}
}

# --- By hand ----------------------------------------------------------------------------

foreach my $access ('auto', 'fdw')
{
	my $set = "SET index_table.shard_access = $access; SET datestyle = 'SQL, DMY'; SET extra_float_digits = 0;";
	is($coordinator->safe_psql('postgres', "$set SET index_table.enable_scan = off;
(TABLE people EXCEPT ALL SELECT * FROM index_table.fetch(NULL::people, 'people_by_town_amount')) UNION ALL (SELECT * FROM index_table.fetch(NULL::people, 'people_by_town_amount') EXCEPT ALL TABLE people)"),
		'', "$access: fetch yields every row as it is");
	my ($in_order, $unordered) = map { $coordinator->safe_psql('postgres', "$set SET index_table.enable_scan = off; $_") }
	  "SELECT town, amount, tenant, id FROM index_table.fetch(NULL::people, 'people_by_town_amount', 'Town 9')",
	  "SELECT town, amount, tenant, id FROM people WHERE town = 'Town 9' ORDER BY amount DESC, tenant, id";
	is($in_order, $unordered, "$access: in the order of the entries");
	is($coordinator->safe_psql('postgres', "$set SET index_table.enable_scan = off;
WITH RECURSIVE pages AS (
	(SELECT array_agg((entity).id || ' ' || (entity).tenant) AS ids, min(next) AS next FROM index_table.page(NULL::people, 'people_by_town_amount', 7, NULL, 'Town 9'))
	UNION ALL
	SELECT p.ids, p.next FROM pages AS b, LATERAL (SELECT array_agg((entity).id || ' ' || (entity).tenant) AS ids, min(next) AS next FROM index_table.page(NULL::people, 'people_by_town_amount', 7, b.next, 'Town 9')) AS p WHERE b.next IS NOT NULL)
SELECT string_agg(array_to_string(ids, ','), ',') = (SELECT string_agg(id || ' ' || tenant, ',' ORDER BY amount DESC, tenant, id) FROM people WHERE town = 'Town 9') FROM pages"),
		't', "$access: page after page");
}

# --- What a session sees of itself ---------------------------------------------------

my $own = $coordinator->safe_psql('postgres', q{
SET index_table.enable_scan = force;
BEGIN;
UPDATE people SET doc = '"mine"', town = 'Here' WHERE email IN ('mail100', 'mail101', 'mail102', 'mail103');
SAVEPOINT s;
UPDATE people SET email = email || '!' WHERE town = 'Here';
INSERT INTO people (tenant, id, email, town) SELECT 1, 100000 + i, 'new' || i, 'Here' FROM generate_series(1, 20) AS i;
SELECT count(*), count(doc) FROM people WHERE town = 'Here';
SELECT count(*), count(doc) FROM index_table.fetch(NULL::people, 'people_by_town_amount', 'Here');
SELECT count(doc) FROM people WHERE email IN ('mail100', 'mail100!', 'mail101!', 'new3');
ROLLBACK TO s;
SELECT count(*), count(doc) FROM people WHERE town = 'Here';
SELECT count(doc) FROM people WHERE email IN ('mail100', 'mail100!', 'mail101!', 'new3');
ROLLBACK;
SELECT count(*), count(doc) FROM people WHERE town = 'Here';});
is($own, "24|4\n24|4\n2\n4|4\n1\n0|0", 'a transaction sees what it has written, up to a rollback');
# The library comes in the middle of the transaction: nobody has seen what it wrote before.
my $late = $coordinator->safe_psql('postgres', q{
BEGIN;
UPDATE people_0 SET doc = '"late"' WHERE tenant = 0 AND id = (SELECT min(id) FROM people_0 WHERE tenant = 0);
LOAD 'index_table';
SET index_table.enable_scan = force;
SELECT count(*) FROM people WHERE email = (SELECT email FROM people_0 WHERE doc = '"late"') AND doc = '"late"';
ROLLBACK}, extra_params => [ '-q' ], connstr => $coordinator->connstr('postgres') . " options='-c session_preload_libraries='");
is($late, '1', 'as it does where the library was loaded in its midst');

# --- While others write ---------------------------------------------------------------

# Rows that keep their key are found, each once, whatever becomes of their other columns and of other rows.
$coordinator->safe_psql('postgres', "INSERT INTO people (tenant, id, email, town, doc, num) SELECT i % 5, 200000 + i, 'stable' || i, 'Stable', '1', 0 FROM generate_series(1, 120) AS i");
my @writers = map { start_session($coordinator, 'postgres', <<"SQL") } 0, 1;
SET index_table.enable_scan = force;
DO \$\$
DECLARE turn int := 0;
BEGIN
	WHILE turn < 60 LOOP
		turn := turn + 1;
		UPDATE people SET doc = to_jsonb(turn), amount = turn WHERE town = 'Stable' AND id % 7 = turn % 7 AND id % 2 = $_;
		UPDATE people SET town = CASE WHEN turn % 2 = 0 THEN 'Stable ' ELSE 'Other' END || turn WHERE id BETWEEN turn * 5 AND turn * 5 + 3 AND id % 2 = $_;
		DELETE FROM people WHERE id = 300000 + $_;
		INSERT INTO people (tenant, id, town) VALUES (turn, 300000 + $_, 'Passing');
		COMMIT;
	END LOOP;
END \$\$;
SQL
my $reads = '';
foreach my $turn (1 .. 60)
{
	my $access = pick('auto', 'fdw');
	$reads .= "SET index_table.enable_scan = force; SET index_table.shard_access = $access;\n"
	  . pick("SELECT count(doc), count(DISTINCT id) FROM people WHERE town = 'Stable'", "SELECT count(doc), count(DISTINCT id) FROM (SELECT * FROM people WHERE email LIKE 'stable%' ORDER BY email) AS s",
		"SELECT count(p.doc), count(DISTINCT p.id) FROM generate_series(1, 120) AS i JOIN people AS p ON p.email = 'stable' || i") . ";\n";
}
my $found = $coordinator->safe_psql('postgres', $reads);
is(join(' ', grep { $_ ne '120|120' } split /\n/, $found), '', 'rows that keep their key, while others write');
is(end_session($_), '', 'a writer') foreach @writers;

# --- Cursors, roles, row security ----------------------------------------------------

my $cursor = $coordinator->safe_psql('postgres', q{
SET index_table.enable_scan = force;
CREATE FUNCTION pg_temp.loop_over(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; found text := '';
BEGIN
	FOR r IN EXECUTE query LOOP
		found := found || ' ' || r.id;
		BEGIN
			PERFORM 1 / (r.id % 2);
		EXCEPTION WHEN division_by_zero THEN
			found := found || 'e';
		END;
	END LOOP;
	RETURN found;
END $$;
SELECT pg_temp.loop_over('SELECT * FROM people WHERE town >= ''Town 4'' ORDER BY town, amount DESC') =
       (SELECT ' ' || string_agg(id || CASE WHEN id % 2 = 0 THEN 'e' ELSE '' END, ' ' ORDER BY town, amount DESC) FROM people WHERE town || '' >= 'Town 4');});
is($cursor, 't', 'a cursor, with subtransactions between its rows');

$coordinator->safe_psql('postgres', q{
CREATE ROLE reader LOGIN;
GRANT SELECT (id, email, town) ON people TO reader;
CREATE VIEW towns AS SELECT id, town, doc FROM people WHERE town = 'Town 3';
GRANT SELECT ON towns TO reader;
CREATE ROLE limited LOGIN;
GRANT SELECT ON people TO limited;
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON people TO limited USING (num < 20 AND here(num));
CREATE POLICY most ON people TO reader USING (true);
});
sub as_role
{
	my ($role, $sql) = @_;
	my ($code, $out, $err) = $coordinator->psql('postgres', "SET ROLE $role; SET index_table.enable_scan = force;\n$sql", extra_params => ['-q']);
	return $err =~ /(ERROR:[^\n]*)/ ? $1 : $out;
}
is(as_role('reader', 'SELECT count(doc) FROM towns'), $coordinator->safe_psql('postgres', "SELECT count(doc) FROM people WHERE town = 'Town 3'"), 'a view, with the rights of its owner');
like(as_role('reader', "SELECT doc FROM people WHERE town = 'Town 3'"), qr/permission denied/, 'columns without SELECT');
like(as_role('reader', "SELECT id FROM people WHERE town = 'Town 3' AND flags"), qr/permission denied/, 'nor may conditions look at them');
foreach my $condition ('', ' AND 1 / (num - 30) < 100', " AND doc ->> 'a' > '1'")
{
	is(as_role('limited', "SELECT id, doc FROM people WHERE num IN (3, 5, 6, 30)$condition ORDER BY tenant, id"),
		as_role('limited', "SET index_table.enable_scan = off; SELECT id, doc FROM people WHERE num IN (3, 5, 6, 30)$condition ORDER BY tenant, id"), "row security$condition");
}
$coordinator->safe_psql('postgres', 'ALTER TABLE people DISABLE ROW LEVEL SECURITY');

# --- A shard restarts ----------------------------------------------------------------

$coordinator->safe_psql('postgres', 'ALTER DATABASE postgres SET index_table.enable_scan = force');
my $everywhere = "SELECT count(doc) FROM people WHERE town IN ('Town 1', 'Town 2', 'Town 3')";
my $expected = $coordinator->safe_psql('postgres', "SET index_table.enable_scan = off; $everywhere");
my $session = start_session($coordinator, 'postgres', "$everywhere;\n\\echo ready");
$session->{run}->pump until $session->{output} =~ /ready/;
$shards[1]->restart;
$session->{input} .= "$everywhere;\n\\q\n";
is(end_session($session), "$expected\nready\n$expected\n", 'the session goes on after a shard was restarted');

# Plans that a shard has kept do not outlive what they were made of.
$session = start_session($coordinator, 'postgres', "$everywhere;\n" x 5 . "\\echo ready");
$session->{run}->pump until $session->{output} =~ /ready/;
$shards[0]->safe_psql('postgres', 'ALTER TABLE remote_0 ALTER COLUMN doc TYPE text; ALTER TABLE remote_2 ALTER COLUMN doc TYPE text');
$session->{input} .= "$everywhere;\n" x 5 . "\\q\n";
is(end_session($session), "$expected\n" x 5 . "ready\n" . "$expected\n" x 5, 'columns that change on the shard');
$shards[0]->safe_psql('postgres', 'ALTER TABLE remote_0 ALTER COLUMN doc TYPE jsonb USING doc::jsonb; ALTER TABLE remote_2 ALTER COLUMN doc TYPE jsonb USING doc::jsonb');

# Connections last as long as the session, unless the server says otherwise.
my $connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'index_table'";
# Those of sessions that have ended are closed a moment later.
$_->poll_query_until('postgres', "SELECT ($connected) = 0") or die 'connections stay' foreach @shards;
$coordinator->safe_psql('postgres', "ALTER SERVER shard0 OPTIONS (ADD keep_connections 'off')");
$session = start_session($coordinator, 'postgres', "BEGIN;\n$everywhere;\n\\echo within");
$session->{run}->pump until $session->{output} =~ /within/;
is(join(' ', map { $_->safe_psql('postgres', $connected) } @shards), '1 1', 'connections within a transaction');
$session->{input} .= "COMMIT;\n\\echo after\n";
$session->{run}->pump until $session->{output} =~ /after/;
ok($shards[0]->poll_query_until('postgres', "SELECT ($connected) = 0"), 'keep_connections off');
is($shards[1]->safe_psql('postgres', $connected), '1', 'and on');
$session->{input} .= "\\q\n";
end_session($session);
$coordinator->safe_psql('postgres', 'ALTER SERVER shard0 OPTIONS (DROP keep_connections)');

# --- A shard is down -----------------------------------------------------------------

my ($local, $on_first, $on_second) = map { $coordinator->safe_psql('postgres', "SELECT min(email) FROM $_ WHERE email IS NOT NULL") } 'people_3', 'people_0', 'people_1';
my $second_name = $coordinator->safe_psql('postgres', "SELECT tableoid::regclass FROM people WHERE email = '$on_second'");
my $reachable = $coordinator->safe_psql('postgres', "SELECT count(doc) FROM people WHERE town IN ('Town 1', 'Town 2', 'Town 3') AND tableoid <> ALL ('{people_1,people_5}'::regclass[])");
$shards[1]->stop('fast');
foreach my $access ('auto', 'fdw')
{
	my $set = "SET index_table.shard_access = $access; SET index_table.enable_scan = force;";
	foreach my $email ($local, $on_first)
	{
		is($coordinator->safe_psql('postgres', "$set SELECT count(doc) FROM people WHERE email = '$email'"), '1', "$access: rows elsewhere are found while a shard is down");
	}
	is($coordinator->safe_psql('postgres', "$set SELECT email FROM people WHERE email = '$on_second'"), $on_second, "$access: entries alone need no shard");
	my ($code, $out, $err) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\n$set SELECT doc FROM people WHERE email = '$on_second'");
	like($err, qr/ERROR:  08001: .*shard1/, "$access: an error that names the server");
	like($err, qr/\b$second_name\b/, "$access: and the partition");
	($code, $out, $err) = $coordinator->psql('postgres', "$set SET index_table.unreachable_shards = skip;\n$everywhere");
	is($out, $reachable, "$access: the rows that can be reached");
	my $by_hand = "SELECT count(doc) FROM index_table.fetch(NULL::people, 'people_by_town_amount', 'Town 1')";
	my ($hand_code, $hand_out, $hand_err) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\n$set $by_hand");
	like($hand_err, qr/ERROR:  08001: .*shard1/, "$access: fetch, too, names the server");
	($hand_code, $hand_out, $hand_err) = $coordinator->psql('postgres', "$set SET index_table.unreachable_shards = skip;\n$by_hand");
	like($hand_err, qr/^[^\n]*WARNING:[^\n]*\n[^\n]*DETAIL:[^\n]*people_[15][^\n]*$/, "$access: fetch leaves rows out with one warning");
	cmp_ok($hand_out, '>', 0, "$access: and finds the others");
	my @warnings = $err =~ /(WARNING:.*)/g;
	is(scalar @warnings, 1, "$access: with one warning") or diag($err);
	like($err, qr/people_1, people_5|people_5, people_1/, "$access: that names the partitions");
	($code, $out, $err) = $coordinator->psql('postgres', "$set SET index_table.unreachable_shards = skip;\nBEGIN; SELECT count(doc) FROM people WHERE email = '$on_second'; SELECT count(doc) FROM people WHERE email = '$on_first'; COMMIT");
	is($out, "0\n1", "$access: and the transaction goes on");
}
$shards[1]->start;
is($coordinator->safe_psql('postgres', $everywhere), $expected, 'when it is back all is found');

# --- A shard is stuck ----------------------------------------------------------------

my $holder = start_session($shards[0], 'postgres', "BEGIN; LOCK TABLE remote_0, remote_2, remote_4, remote_6; SELECT 'locked';");
$holder->{run}->pump until $holder->{output} =~ /locked/;
my $begun = time;
my ($code, $out, $err) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\nSET index_table.shard_timeout = '1s';\n$everywhere");
like($err, qr/08006.*shard0/, 'a shard that does not answer in time');
cmp_ok(time - $begun, '<', 15, 'is not waited for longer');
($code, $out, $err) = $coordinator->psql('postgres', "SET index_table.unreachable_shards = skip; SET index_table.shard_timeout = '1s';\n$everywhere");
like($err, qr/WARNING/, 'or is left out');
cmp_ok($out, '<', $expected, 'with its rows');
my $waiting = start_session($coordinator, 'postgres', "SELECT pg_backend_pid();\n$everywhere;\n\\echo on\nSELECT 1;");
$waiting->{run}->pump until $waiting->{output} =~ /^(\d+)\n/;
my $pid = $1;
sleep 1;
$begun = time;
$coordinator->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
like(end_session($waiting), qr/57014.*\non\n1$/s, 'a query that waits for a shard can be cancelled');
cmp_ok(time - $begun, '<', 60, 'at once');
ok($shards[0]->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), 'and ends on the shard');
$holder->{input} .= "ROLLBACK;\n";
end_session($holder);

# Somebody who listens and says nothing.
my $directory = PostgreSQL::Test::Utils::tempdir_short();
my $deaf = IO::Socket::UNIX->new(Local => "$directory/.s.PGSQL.5432", Listen => 5) or die $!;
$coordinator->safe_psql('postgres', "ALTER SERVER shard1 OPTIONS (SET host '$directory', SET port '5432')");
$begun = time;
($code, $out, $err) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\nSET index_table.shard_connect_timeout = '1s';\n$everywhere");
like($err, qr/08001.*shard1/, 'a server that does not let anybody in');
cmp_ok(time - $begun, '<', 15, 'is not waited for longer than the time-out');
$coordinator->safe_psql('postgres', "ALTER SERVER shard1 OPTIONS (SET host '" . $shards[1]->host . "', SET port '" . $shards[1]->port . "')");
is($coordinator->safe_psql('postgres', $everywhere), $expected, 'options that change are heeded');

oracle_ok($coordinator, 'postgres', 'index tables equal their recomputation', 0);
check_storage($coordinator, 'postgres');
done_testing();
