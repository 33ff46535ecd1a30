# What becomes of the tables on servers when index tables there are created, rebuilt, moved, dropped, given columns, and
# the backend that does it is killed at any moment, or gives up: after the next vacuum() the servers have those that
# foreign tables here stand for, and no others. Clients write and read meanwhile. Then a dump.
#
#   INDEX_DDL_SEED     repeats a run (where a backend is killed repeats only roughly)
#   INDEX_DDL_ROUNDS   (24)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $seed = $ENV{INDEX_DDL_SEED} // int(rand(2**31));
my $rounds = how_many('INDEX_DDL_ROUNDS', 12);
srand($seed);
note "INDEX_DDL_SEED=$seed INDEX_DDL_ROUNDS=$rounds";

my $servers = new_node('servers');
$servers->safe_psql('postgres', "CREATE DATABASE server_$_") foreach 1 .. 3;
my $node = new_node('coordinator', conf => q{
restart_after_crash = on
session_preload_libraries = index_table
});
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE EXTENSION postgres_fdw;
CREATE TABLE people (id int PRIMARY KEY, email text, town text, note text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'mail ' || i, 'Town ' || i % 50, repeat('x', i % 20) FROM generate_series(1, 2000) AS i;});
$node->safe_psql('postgres', server_sql("server_$_", $servers, database => "server_$_")) foreach 1 .. 3;
my $create_email = q{SELECT index_table.create('people', 'email', is_unique => true, partitions => 4, servers => 'server_1, server_2')};
my $create_town = q{SELECT index_table.create('people', 'town', 'denormalized', partitions => 3, servers => 'server_3, server_1')};
$node->safe_psql('postgres', "$create_email; $create_town");

# --- What there is ------------------------------------------------------------------

sub tables_there
{
	return join ' ', sort map {
		my $i = $_;
		map { "server_$i.$_" } split /\n/, $servers->safe_psql("server_$i", "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
	} 1 .. 3;
}

sub tables_known
{
	return join ' ', sort split /\n/, $node->safe_psql('postgres', q{
		SELECT srvname || '.' || (SELECT split_part(o, '=', 2) FROM unnest(ftoptions) AS o WHERE o LIKE 'table_name=%')
		  FROM pg_foreign_table JOIN pg_foreign_server AS s ON s.oid = ftserver});
}

# In plain SQL: entries are the rows', and look-ups are what a scan finds.
my $differences = q{
SELECT string_agg(d, '; ') FROM (
	(SELECT 'email ' || ROW(email, id)::text FROM people EXCEPT ALL SELECT 'email ' || ROW(email, id)::text FROM people_by_email)
	UNION ALL
	(SELECT 'email ' || ROW(email, id)::text FROM people_by_email EXCEPT ALL SELECT 'email ' || ROW(email, id)::text FROM people)
	UNION ALL
	(SELECT 'town ' || ROW(b.town, p.partition_id, b.*)::text FROM people AS b JOIN index_table.partition AS p ON p.relation = b.tableoid
	 EXCEPT ALL SELECT 'town ' || ROW(e.town, e.partition_id, COLUMNS)::text FROM people_by_town AS e)
) AS t(d)};

sub check
{
	my ($label) = @_;
	my $columns = $node->safe_psql('postgres', q{
		SELECT string_agg('e.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute AS a
		 WHERE a.attrelid = 'people'::regclass AND a.attnum > 0 AND NOT a.attisdropped});
	foreach my $index_table (qw(people_by_email people_by_town))
	{
		is($node->safe_psql('postgres', "SELECT * FROM index_table.verify('$index_table')"), '', "$label: verify");
	}
	(my $sql = $differences) =~ s/COLUMNS/$columns/;
	is($node->safe_psql('postgres', $sql), '', "$label: the oracle");
	# Servers may be busy yet with what a client that was killed has asked for: what is not there is looked for again
	# a minute later.
	$servers->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'index_table' AND state = 'active'");
	$node->safe_psql('postgres', "SELECT index_table.vacuum(); UPDATE index_table.server_table SET missing_since = missing_since - interval '2 minutes'; SELECT index_table.vacuum()");
	is(tables_there(), tables_known(), "$label: no table too many, none too few");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.server_table AS s LEFT JOIN pg_foreign_table AS f ON f.ftrelid = s.partition WHERE f.ftrelid IS NULL OR s.is_abandoned'),
		'0', "$label: nothing is remembered");
	return;
}

# --- Crashes --------------------------------------------------------------------------

my $columns = 0;
my %actions = (
	create => sub { return "BEGIN; SELECT index_table.drop('people_by_email'); $create_email; COMMIT" },
	drop => sub { return "SELECT index_table.drop('people_by_town')" },
	rebuild => sub { return 'CALL index_table.rebuild(\'people_by_' . (rand() < 0.5 ? 'email' : 'town') . '\')' },
	move => sub {
		my $name = rand() < 0.5 ? 'people_by_email_p' . int(rand(4)) : 'people_by_town_p' . int(rand(3));
		(my $index_table = $name) =~ s/_p\d$//;
		return "SELECT index_table.move_partition('$index_table', '$name', 'server_" . (1 + int(rand(3))) . "')";
	},
	column => sub { $columns++; return "ALTER TABLE people ADD COLUMN c$columns int DEFAULT $columns" });

my $next = 10000;
my $killed = 0;
foreach my $round (1 .. $rounds)
{
	my $kind = (sort keys %actions)[ $round % keys %actions ];
	my $sql = $actions{$kind}->();
	local $ENV{PGAPPNAME} = 'victim';
	my $victim = start_command($node, rand() < 0.2 && $kind ne 'rebuild' ? "BEGIN; $sql; ROLLBACK" : $sql);
	$ENV{PGAPPNAME} = 'other';
	sleep(rand(0.2));
	my $log = -s $node->logfile;
	my $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' AND backend_type = 'client backend'");
	if ($pid =~ /^\d+$/ && kill('KILL', $pid))
	{
		await_reinitialization($node, $log);
		wait_until_up($node);
		$killed++;
	}
	end_command($victim);
	note "$round: $sql";
	my $there = $node->safe_psql('postgres', "SELECT string_agg(index_table::text, ' ' ORDER BY 1) FROM index_table.definition");
	$node->safe_psql('postgres', $create_email) unless $there =~ /email/;
	$node->safe_psql('postgres', $create_town) unless $there =~ /town/;
	$node->safe_psql('postgres', "INSERT INTO people (id, email, town) SELECT i, 'mail ' || i, 'New' FROM generate_series($next, $next + 20) AS i; UPDATE people SET town = town || '.' WHERE id % 50 = $round; DELETE FROM people WHERE id % 100 = $round");
	$next += 100;
	check("round $round, $kind");
}
diag("$killed were killed");

# --- A move beside readers and writers ------------------------------------------------

my $load = "$PostgreSQL::Test::Utils::tmp_check/load.sql";
append_to_file($load, q{
\set id random(1, 2000)
UPDATE people SET email = 'mail ' || :id || '.' || (random() * 1000000)::bigint, town = 'Town ' || :id % 60 WHERE id = :id;
SELECT 1 / (count(*) = 1)::int FROM people WHERE email = (SELECT email FROM people WHERE id = 2001);
INSERT INTO people (id, email, town) VALUES (3000 + :id, 'mail ' || :id + 3000, 'x') ON CONFLICT (id) DO NOTHING;
});
$node->safe_psql('postgres', "DELETE FROM people WHERE id = 2001; INSERT INTO people (id, email) VALUES (2001, 'the one'); DELETE FROM people WHERE id % 100 = 77");
my $clients = { output => '' };
$clients->{run} = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', 8, '--max-tries=10', '-f', $load, $node->connstr('postgres') ],
	'<', \'', '>&', \$clients->{output}, IPC::Run::timeout(120));
foreach my $i (1 .. 8)
{
	my $name = $i % 2 ? 'people_by_email_p' . $i % 4 : 'people_by_town_p' . $i % 3;
	(my $index_table = $name) =~ s/_p\d$//;
	$node->safe_psql('postgres', "SELECT index_table.move_partition('$index_table', '$name', 'server_" . (1 + $i % 3) . "')");
	$node->safe_psql('postgres', 'SELECT index_table.vacuum()');
	sleep(0.5);
}
$clients->{run}->finish;
is($clients->{run}->full_result(0) >> 8, 0, 'readers and writers have noticed nothing') or diag($clients->{output});
check('after moves');

# --- Older snapshots ------------------------------------------------------------------

# A transaction that has used the servers before sees what was made there since, as it sees what was made here.
foreach my $change ("SELECT index_table.drop('people_by_email'); $create_email", "SELECT index_table.move_partition('people_by_email', 'people_by_email_p0', 'server_2')",
	q{CALL index_table.rebuild('people_by_email')})
{
	my $gate = shut_gate($node);
	my $reader = start_session($node, 'postgres', 'BEGIN; SELECT count(*) >= 0 FROM people_by_town; SELECT pg_advisory_xact_lock_shared(1); SELECT (SELECT count(*) FROM people) - (SELECT count(*) FROM people_by_email); COMMIT;');
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'nobody waits';
	$node->safe_psql('postgres', $_) foreach split /; /, $change;
	release_lock($gate);
	release_lock($reader);
	like($reader->{output}, qr/^t\s+0\s*$/, "seen by older snapshots: $change");
}
check('after that');

# --- Numbers that are not committed here yet -------------------------------------------

# Entries of a partition that is truncated, or attached, are committed on their server before its number is here, and are
# no dead ones then: who inserts one of their keys is told to try again. Servers commit in an order of their own; where
# the entries come last he waits for them.
$servers->safe_psql("server_$_", q{
CREATE TABLE gated (i int);
CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON gated DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pass_gate();}) foreach 1, 2;
$node->safe_psql('postgres', "CREATE FOREIGN TABLE gated_$_ (i int) SERVER server_$_ OPTIONS (table_name 'gated')") foreach 1, 2;
$node->safe_psql('postgres', q{
CREATE TABLE named (id int PRIMARY KEY, name text) PARTITION BY RANGE (id);
CREATE TABLE named_0 PARTITION OF named FOR VALUES FROM (0) TO (100);
CREATE TABLE named_1 PARTITION OF named FOR VALUES FROM (100) TO (200);
CREATE TABLE named_2 (id int PRIMARY KEY, name text);
INSERT INTO named_2 VALUES (200, 'joining');});
my %told;
foreach my $server (1, 2)
{
	my $gated = 3 - $server;
	foreach my $case ([ "TRUNCATE named_0; INSERT INTO named VALUES (1, 'truncated')", 'truncated' ],
		[ 'ALTER TABLE named ATTACH PARTITION named_2 FOR VALUES FROM (200) TO (300)', 'joining' ])
	{
		my ($sql, $key) = @$case;
		$node->safe_psql('postgres', "SELECT index_table.create('named', 'name', is_unique => true, partitions => 1, servers => 'server_$server')");
		my $gate = start_session($servers, "server_$gated", 'SELECT pg_advisory_lock(1);');
		$servers->poll_query_until("server_$gated", "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted") or die 'no gate';
		my $first = start_session($node, 'postgres', "BEGIN; INSERT INTO gated_$gated VALUES (1); $sql; COMMIT;\n\\q");
		$servers->poll_query_until("server_$gated", "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'nobody is at the gate';
		my $state = sqlstate($node, 'postgres', "SET statement_timeout = '5s'; INSERT INTO named VALUES (101, '$key')");
		$told{$key} .= $state =~ s/:.*//sr . ' ';
		$node->safe_psql('postgres', "SELECT index_table.vacuum('named_by_name')"); # nor are they removed
		release_lock($gate);
		is(end_session($first), '', "$key: the other transaction");
		is($node->safe_psql('postgres', "SET index_table.enable_scan = off; SELECT count(*) FROM named WHERE name = '$key'"), '1', "$key: there is one");
		is($node->safe_psql('postgres', "SELECT * FROM index_table.verify('named_by_name')"), '', "$key: and its entry");
		$node->safe_psql('postgres', "SELECT index_table.drop('named_by_name'); DELETE FROM named_0");
		$node->safe_psql('postgres', 'ALTER TABLE named DETACH PARTITION named_2') if $key eq 'joining';
	}
}
like($told{$_}, qr/40001/, "$_: is told to try again ($told{$_})") foreach sort keys %told;

# --- Numbers that never will be ---------------------------------------------------------

# A transaction that fails after servers have committed leaves entries there under numbers that were never committed
# here. They are in nobody's way, and vacuum() removes them.
sub entries { my ($server, $key) = @_; return $servers->safe_psql("server_$server", "SELECT count(*) FROM named_by_name_p0 WHERE name LIKE '$key%'") }

sub retired { return $node->safe_psql('postgres', 'SELECT count(*) FROM index_table.retired_partition') }

sub right
{
	my ($server, $label) = @_;
	is($node->safe_psql('postgres', "SELECT * FROM index_table.verify('named_by_name')"), '', "$label: verify");
	is(retired(), '0', "$label: no number is left");
	is(entries($server, ''), $node->safe_psql('postgres', 'SELECT count(*) FROM named'), "$label: nor an entry");
	return;
}

my @cases = (
	[ "TRUNCATE named_0; INSERT INTO named VALUES (1, 'truncated'), (2, 'truncated, too')", 'truncated' ],
	[ "TRUNCATE named_0; INSERT INTO named VALUES (1, 'twice'), (2, 'twice, too'); TRUNCATE named_0; INSERT INTO named VALUES (3, 'again')", 'twice' ],
	[ 'ALTER TABLE named ATTACH PARTITION named_2 FOR VALUES FROM (200) TO (300)', 'joining' ],
	[ "CREATE TABLE named_3 PARTITION OF named FOR VALUES FROM (300) TO (400); INSERT INTO named VALUES (300, 'made'), (301, 'made, too')", 'made' ]);
$node->safe_psql('postgres', "INSERT INTO named_2 VALUES (201, 'joining, too'); SELECT index_table.vacuum()");
$servers->safe_psql("server_$_", 'CREATE TABLE refusing (i int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)') foreach 1, 2;
$node->safe_psql('postgres', "CREATE FOREIGN TABLE refusing_$_ (i int) SERVER server_$_ OPTIONS (table_name 'refusing')") foreach 1, 2;
my %left;
foreach my $server (1, 2)
{
	$node->safe_psql('postgres', "SELECT index_table.create('named', 'name', is_unique => true, partitions => 1, servers => 'server_$server')");
	foreach my $case (@cases)
	{
		my ($sql, $key) = @$case;
		my $other = 3 - $server;
		my $label = "$key, server $server";
		like(sqlstate($node, 'postgres', "BEGIN; INSERT INTO refusing_$other VALUES (1), (1); $sql; COMMIT"), qr/^23505/, "$label: the other server refuses");
		$left{$key} += entries($server, $key);
		is(sqlstate($node, 'postgres', "INSERT INTO named VALUES (101, '$key')"), '', "$label: the key is free");
		is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT id FROM named WHERE name = '$key'"), '101', "$label: and finds its row");
		$node->safe_psql('postgres', 'SELECT index_table.vacuum()');
		right($server, $label);
		$node->safe_psql('postgres', 'DELETE FROM named');

		# Who commits on the server of the entries is not there any more.
		my $gate = start_session($servers, "server_$server", 'SELECT pg_advisory_lock(1);');
		$servers->poll_query_until("server_$server", "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted") or die 'no gate';
		my $victim = start_command($node, "BEGIN; INSERT INTO gated_$server VALUES (1); $sql; COMMIT /* victim */");
		$servers->poll_query_until("server_$server", "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'nobody is at the gate';
		kill_backend($node, q{query LIKE '%/* victim */%'});
		wait_until_up($node);
		end_command($victim);
		$node->safe_psql('postgres', 'SELECT index_table.vacuum()');
		isnt(retired(), '0', "$label: vacuum waits for the server");
		release_lock($gate);
		$servers->poll_query_until("server_$server", "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'") or die 'somebody is at the gate';
		isnt(entries($server, $key), '0', "$label: which has entries now");
		$node->safe_psql('postgres', 'SELECT index_table.vacuum()');
		right($server, "$label, killed");
	}
	# Nothing is left where it commits, or fails before.
	foreach my $end ('COMMIT', 'SELECT 1 / 0; COMMIT')
	{
		sqlstate($node, 'postgres', "BEGIN; $cases[1][0]; SAVEPOINT a; $cases[2][0]; ROLLBACK TO a; $cases[3][0]; DROP TABLE named_3; SAVEPOINT b; $cases[1][0]; RELEASE b; $end");
		$node->safe_psql('postgres', 'SELECT index_table.vacuum()') if $end eq 'COMMIT';
		right($server, "server $server: $end");
	}
	$node->safe_psql('postgres', "SELECT index_table.drop('named_by_name'); DELETE FROM named");
}
cmp_ok($left{$_}, '>', 0, "$_: entries were left") foreach sort keys %left;
$node->safe_psql('postgres', 'DROP FOREIGN TABLE refusing_1, refusing_2');
$servers->safe_psql("server_$_", 'DROP TABLE refusing') foreach 1, 2;
$node->safe_psql('postgres', 'DROP TABLE named, named_2; DROP FOREIGN TABLE gated_1, gated_2; SELECT index_table.vacuum()');
$servers->safe_psql("server_$_", 'DROP TABLE gated') foreach 1, 2;

# --- A dump ---------------------------------------------------------------------------

# It has the foreign tables, which stand for what is the first database's: nothing of it is believed, nor dropped.
my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump.sql";
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
is($node->safe_psql('restored', 'SELECT string_agg(state, NULL) FROM index_table.definition'), 'dd', 'what is restored is damaged');
like(sqlstate($node, 'restored', "UPDATE people SET email = 'm' || email WHERE id = 60"), qr/^55000/, 'changes that a unique one cannot follow are refused');
is($node->safe_psql('restored', q{SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT * FROM people WHERE email = 'mail 60'}) =~ /Index Table/ ? 'read' : 'not read', 'not read', 'and it is not read');
like(sqlstate($node, 'restored', 'ALTER TABLE people ADD COLUMN more int'), qr/^55000/, 'nor what its servers would have to be told');
like(sqlstate($node, 'restored', "SELECT index_table.move_partition('people_by_email', 'people_by_email_p0', 'server_3')"), qr/^55000/, 'nor moved');
$node->safe_psql('restored', 'BEGIN; TRUNCATE people_0; COMMIT; SELECT index_table.vacuum()');
check('beside a restored one');
$node->safe_psql('restored', "DROP TABLE people_by_town; SELECT index_table.vacuum()");
check('beside one that was dropped');
# The other one is given up.
$node->safe_psql('postgres', "DROP EXTENSION index_table CASCADE; DROP TABLE people CASCADE");
$node->safe_psql('restored', "SELECT index_table.repair('people_by_email'); UPDATE people SET email = 'm' || email WHERE id % 60 = 3");
is($node->safe_psql('restored', "SELECT count(*) FROM index_table.verify('people_by_email')"), '0', 'repair takes tables over');
is($node->safe_psql('restored', "SELECT count(*) FROM ((SELECT email, id FROM people EXCEPT ALL SELECT email, id FROM people_by_email) UNION ALL (SELECT email, id FROM people_by_email EXCEPT ALL SELECT email, id FROM people)) AS d"),
	'0', 'and makes them what they should be');
$node->safe_psql('restored', "SELECT index_table.drop('people_by_email')");
$node->safe_psql('restored', 'SELECT index_table.vacuum()');
unlike(tables_there(), qr/email/, 'and it is the one that drops them');

done_testing();
