# Shards and coordinator die at any step of a commit and of a drain: after the next drain everything is in step, and
# nothing is there twice. And the worker drains by itself, when a shard is back, too. DRAIN_SEED and DRAIN_ROUNDS
# repeat and lengthen a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{DRAIN_SEED} // int(rand(2**31));
my $rounds = how_many('DRAIN_ROUNDS', 12);
srand($seed);
note "DRAIN_SEED=$seed DRAIN_ROUNDS=$rounds";

# --- Servers --------------------------------------------------------------------------

my $shard_sql = q{
	CREATE EXTENSION index_table;
	CREATE TABLE people (id int PRIMARY KEY, shard int, email text, town text);
	SELECT index_table.capture('people');} . gate_sql('people');
my $conf = "restart_after_crash = on\nindex_table.drain_naptime = 0\n";
my @shards = map { new_node("shard$_", conf => $conf) } 0 .. 1;
my $coordinator = new_node('coordinator',
	conf => "$conf\nindex_table.vacuum_naptime = 1\nindex_table.shard_connect_timeout = '5s'\nshared_preload_libraries = 'index_table'\n");
$_->safe_psql('postgres', $shard_sql) foreach @shards;
$coordinator->safe_psql('postgres', 'CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw; CREATE TABLE people (id int NOT NULL, shard int, email text, town text) PARTITION BY LIST (shard);');
foreach my $i (0 .. 1)
{
	$coordinator->safe_psql('postgres', server_sql("shard$i", $shards[$i]) . qq{
		CREATE FOREIGN TABLE people_$i PARTITION OF people FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'people');});
}
$coordinator->safe_psql('postgres', q{
	INSERT INTO people SELECT i, i % 2, 'mail ' || i, 'Town ' || i % 9 FROM generate_series(1, 200) AS i;
	SELECT index_table.create('people', 'email', is_unique => true, identity => 'id, shard');
	SELECT index_table.create('people', 'town', 'partial', include => 'email', identity => 'id, shard', maintenance => 'deferred');});
$coordinator->safe_psql('postgres', oracle_sql(
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [ 'id', 'shard' ], identity => 2, is_unique => 1),
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'shard', 'email' ], identity => 2)));

# --- Helpers --------------------------------------------------------------------------

# Kills what a command runs in: its backend, its server, or a shard; brings it back.
sub crash
{
	my ($what, $command, $shard) = @_;
	if ($what eq 'backend')
	{
		kill_backend($coordinator, "query LIKE '%/* victim */%'");
	}
	else
	{
		my $node = $what eq 'coordinator' ? $coordinator : $shards[$shard];
		$node->stop('immediate');
		$node->start;
	}
	eval { end_command($command) };
	wait_until_up($coordinator, @shards);
	return;
}

my $last = 1000;
sub direct_change
{
	my ($i) = @_;
	$last++;
	my @changes = (
		"INSERT INTO people SELECT $last * 10 + i, $i, 'direct ' || $last * 10 + i, 'Town ' || i FROM generate_series(0, 4) AS i",
		"UPDATE people SET email = email || '.', town = 'Town ' || id % 4 WHERE id % 7 = $last % 7",
		"UPDATE people SET id = id + 1000000 WHERE id % 50 = $last % 50 AND id < 1000000",
		"DELETE FROM people WHERE id % 11 = $last % 11",
		"WITH gone AS (DELETE FROM people WHERE id % 13 = $last % 13 RETURNING *) INSERT INTO people SELECT $last * 1000 + id % 1000, shard, email || '!', town FROM gone WHERE false",
		"TRUNCATE people; INSERT INTO people SELECT $last * 10 + i, $i, 'anew ' || $last * 10 + i, 'Town ' || i FROM generate_series(0, 4) AS i");
	$shards[$i]->safe_psql('postgres', $changes[ rand() < 0.1 ? 5 : int(rand(5)) ]);
	return;
}

sub coordinator_change
{
	$last++;
	return "INSERT INTO people SELECT $last * 10 + i, i % 2, 'mail ' || $last * 10 + i, 'New' FROM generate_series(0, 5) AS i;"
	  . "UPDATE people SET email = email || ',', town = 'Moved' WHERE id % 10 = $last % 10;"
	  . "DELETE FROM people WHERE id % 17 = $last % 17;";
}

sub drained_ok
{
	my ($label) = @_;
	my $stderr;
	foreach (1 .. 20)
	{
		(undef, undef, $stderr) = $coordinator->psql('postgres', 'CALL index_table.drain()');
		my $pending = $coordinator->safe_psql('postgres', q{SELECT coalesce(sum(pending), -1) FROM index_table.queue WHERE error IS NULL});
		last if $stderr eq '' && $pending eq '0';
	}
	is($stderr, '', "$label: drained");
	is($coordinator->safe_psql('postgres', 'SELECT leaf, identity, error FROM index_table.undrained'), '', "$label: nothing refused");
	oracle_ok($coordinator, 'postgres', "$label: in step", 0);
	return;
}

# --- Rounds ---------------------------------------------------------------------------

drained_ok('at first');
my %steps = (
	# The transaction is being committed on one shard: the other may have done so. Nothing is committed here.
	commit => sub {
		my ($what, $shard) = @_;
		my $gate = shut_gate($shards[$shard]);
		my $command = start_command($coordinator, '/* victim */ BEGIN;' . coordinator_change() . 'COMMIT;');
		$shards[$shard]->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) or die 'nobody waits';
		# The shard goes on to commit what nobody waits for any more.
		crash($what, $command, $shard);
		release_lock($gate);
		$shards[$shard]->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'}) or die 'somebody waits';
	},
	# Rows have been read, nothing is committed.
	apply => sub {
		my ($what, $shard) = @_;
		my $lock = lock_table($coordinator, 'people_by_town');
		my $command = start_command($coordinator, 'CALL index_table.drain() /* victim */');
		$coordinator->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_by_town'::regclass AND NOT granted}) or die 'nobody waits';
		if ($what eq 'shard') { $shards[$shard]->stop('immediate'); release_lock($lock); $shards[$shard]->start; end_command($command); return; }
		crash($what, $command, $shard);
		release_lock($lock);
	},
	# It is committed here, nothing is discarded there.
	discard => sub {
		my ($what, $shard) = @_;
		my $lock = lock_table($shards[$shard], 'people_outbox');
		my $command = start_command($coordinator, 'CALL index_table.drain() /* victim */');
		$shards[$shard]->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_outbox'::regclass AND NOT granted}) or die 'nobody waits';
		crash($what, $command, $shard);
		release_lock($lock);
	});
foreach my $round (1 .. $rounds)
{
	my $step = (sort keys %steps)[ int(rand(3)) ];
	my $what = ('backend', 'coordinator', 'shard')[ int(rand(3)) ];
	my $shard = int(rand(2));
	# A drain of nothing would not come to the step.
	$coordinator->psql('postgres', 'CALL index_table.drain()') if rand() < 0.5;
	$shards[$shard]->safe_psql('postgres', "INSERT INTO people VALUES ($round + 500000, $shard, 'round $round', 'Round')");
	direct_change(int(rand(2))) foreach 1 .. int(rand(3));
	my $label = "round $round: $what dies at $step on $shard";
	note $label;
	$steps{$step}->($what, $shard);
	direct_change(int(rand(2))) if rand() < 0.3;
	drained_ok($label);
}

# --- At the same time -------------------------------------------------------------------

# Rows that this server, and others, change again and again while they are drained by two. That rows were drained in the middle shows
# where entries of transactions in progress are not minded: some are there twice.
my $churn = q{
	CREATE PROCEDURE churn(shards int[], rounds int) LANGUAGE plpgsql AS $$
	DECLARE
		i int; s int; mark text;
	BEGIN
		FOR n IN 1 .. rounds LOOP
			BEGIN
				s := shards[1 + floor(random() * cardinality(shards))]; i := 2 * (1 + floor(random() * 20)) + s; mark := random();
				CASE floor(random() * 3)::int
					WHEN 0 THEN INSERT INTO people VALUES (i, s, 'churn ' || mark, 'Churn ' || left(mark, 3));
					WHEN 1 THEN UPDATE people SET email = 'again ' || mark, town = 'Churn ' || left(mark, 3) WHERE id = i AND shard = s;
					ELSE DELETE FROM people WHERE id = i AND shard = s;
				END CASE;
			EXCEPTION WHEN unique_violation OR serialization_failure OR deadlock_detected THEN NULL;
			END;
			COMMIT;
		END LOOP;
	END $$;};
$_->safe_psql('postgres', $churn) foreach $coordinator, @shards;
my @drains = map { start_session($coordinator, 'postgres', "CALL index_table.drain();\n" x 60 . '\\q') } 1 .. 2;
my @churns = ((map { start_command($coordinator, 'CALL churn(ARRAY[0, 1], 1000)') } 1 .. 3), map { start_command($shards[$_], "CALL churn(ARRAY[$_], 3000)") } 0 .. 1);
is(join('', map { end_command($_) } @churns), '', 'changed on all sides');
is(join('', map { end_session($_) } @drains), '', 'drained meanwhile');
drained_ok('after changes on all sides');

# --- A dump of the coordinator ----------------------------------------------------------

my $dump = "$PostgreSQL::Test::Utils::tmp_check/coordinator.dump";
$coordinator->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $coordinator->connstr('postgres') ], 'dumped');
$coordinator->safe_psql('postgres', 'CREATE DATABASE restored');
$coordinator->command_ok([ 'pg_restore', '-e', '-d', $coordinator->connstr('restored'), $dump ], 'restored');
$shards[0]->safe_psql('postgres', "INSERT INTO people VALUES (800002, 0, 'restored', 'Restored'); DELETE FROM people WHERE id % 3 = 0");
$coordinator->safe_psql('restored', 'CALL index_table.drain()');
is($coordinator->safe_psql('restored', q{SELECT index_table, maintenance FROM index_table.index_tables ORDER BY 1::text}), "people_by_email|immediate\npeople_by_town|deferred", 'definitions');
is($coordinator->safe_psql('restored', q{SELECT count(*) FROM people_by_town WHERE town = 'Restored'}), '1', 'the copy drains');
oracle_ok($coordinator, 'restored', 'the copy is in step', 0);
check_storage($coordinator, 'restored', 'the copy');
# What one has discarded the other has missed.
$coordinator->safe_psql('postgres', q{SELECT index_table.repair('people_by_email'), index_table.repair('people_by_town')});
$coordinator->safe_psql('postgres', 'DROP DATABASE restored');
drained_ok('the original');

# --- The worker -----------------------------------------------------------------------

$coordinator->append_conf('postgresql.conf', 'index_table.drain_naptime = 1');
$coordinator->restart;
$shards[0]->safe_psql('postgres', "INSERT INTO people VALUES (900001, 0, 'worker 1', 'Worker')");
ok($coordinator->poll_query_until('postgres', q{SELECT count(*) = 1 FROM people_by_town WHERE town = 'Worker'}), 'the worker drains');
$shards[0]->stop('immediate');
$shards[1]->safe_psql('postgres', "INSERT INTO people VALUES (900002, 1, 'worker 2', 'Worker')");
ok($coordinator->poll_query_until('postgres', q{SELECT count(*) = 2 FROM people_by_town WHERE town = 'Worker'}), 'a shard that is down keeps no other waiting');
ok($coordinator->poll_query_until('postgres', q{SELECT error IS NOT NULL AND tries > 0 FROM index_table.queue WHERE index_table = 'people_by_town'::regclass AND partition = 'people_0'::regclass}), 'it is shown');
$shards[0]->start;
$shards[0]->safe_psql('postgres', "INSERT INTO people VALUES (900003, 0, 'worker 3', 'Worker')");
is($coordinator->safe_psql('postgres', "SELECT index_table.wait_caught_up('people_by_town', '100 s')"), 't', 'and drained when it is back');
is($coordinator->safe_psql('postgres', q{SELECT count(*) FROM people_by_town WHERE town = 'Worker'}), '3', 'its rows are there');
drained_ok('after the worker');
check_storage($coordinator, 'postgres');

done_testing();
