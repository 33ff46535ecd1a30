# A coordinator and two shards that die at any step of a commit over all of them, and of the sweep
# that mends what was left.
#
#   start_servers(%options)      a coordinator with "people", partitioned here and over the shards,
#                                and index tables; servers => 1: most of these are on the shards, too
#   crash_at_every_step($rounds) after each of which everything is swept and in step
#   crash_beside_worker()        which sweeps by itself
#   leave_behind()               a transaction that has been committed on both shards, and not here
#   unlocked()                   how many intents are not those of transactions in progress
#   drained_ok, in_step($label)  the oracles, after a sweep or as it is
#   $coordinator                 the node
package CommitCrashes;

use strict;
use warnings;

use Exporter 'import';
use IndexTableTest;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(start_servers crash_at_every_step crash_beside_worker leave_behind unlocked drained_ok in_step $coordinator);

our $coordinator;
my (@shards, @queries, @on_servers, $accepted);

sub start_servers
{
	my (%options) = @_;
	# Rows whose entries were left behind on servers cannot be changed before a sweep.
	$accepted = $options{servers} ? qr/^$|^40001/ : qr/^$/;
	@on_servers = $options{servers} ? qw(people_by_email people_by_num people_by_tag) : ();
	# Nothing but the table is on a shard, and the gate, which would be there in no other test.
	my $columns = 'id int, seen date, shard int, email text, town text, tags text[], num numeric';
	my $conf = "restart_after_crash = on\n";
	@shards = map { new_node("shard$_", conf => $conf) } 0 .. 1;
	$coordinator = new_node('coordinator', conf => $conf . q{
	shared_preload_libraries = 'index_table'
	index_table.drain_naptime = 0
	index_table.vacuum_naptime = 1
	index_table.shard_connect_timeout = '5s'
	max_wal_senders = 5
	wal_level = replica
	synchronous_commit = local
	synchronous_standby_names = nobody
	});
	$_->safe_psql('postgres', "CREATE TABLE people ($columns, PRIMARY KEY (id, seen));" . gate_sql('people')) foreach @shards;
	$coordinator->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw; CREATE TABLE people ($columns) PARTITION BY LIST (shard)");
	my $parallel = rand() < 0.5 ? 'true' : 'false';
	foreach my $i (0 .. 1)
	{
		$coordinator->safe_psql('postgres', server_sql("shard$i", $shards[$i], options => "parallel_commit '$parallel'") . qq{
			CREATE FOREIGN TABLE people_$i PARTITION OF people FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'people');});
	}
	my ($email, $num, $tag) = map { $options{servers} ? ", partitions => $_->[0], servers => '$_->[1]'" : '' }
	  [ 3, 'shard0, shard1' ], [ 2, 'shard1, shard0' ], [ 2, 'shard0, shard1' ];
	$coordinator->safe_psql('postgres', qq{
		CREATE TABLE people_2 PARTITION OF people (PRIMARY KEY (id, seen)) FOR VALUES IN (2);
		INSERT INTO people SELECT i, date '2026-01-01' + i % 30, i % 3, 'mail ' || i, 'Town ' || i % 9, ARRAY['t' || i % 4, 't' || i % 6, NULL], i / 4.0
		  FROM generate_series(1, 240) AS i;
		SELECT index_table.create('people', 'email', is_unique => true, identity => 'id, seen'$email);
		SELECT index_table.create('people', 'num', 'denormalized', identity => 'seen, id, shard'$num);
		SELECT index_table.create('people', 'lower(town)', 'partial', include => 'email', predicate => 'town <> ''Town 8''', identity => 'id, seen', name => 'people_by_town');
		SELECT index_table.create('people', 'unnest(tags)', identity => 'id, seen', name => 'people_by_tag'$tag);});
	$coordinator->safe_psql('postgres', oracle_sql(
		describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [ 'id', 'seen' ], identity => 2, is_unique => 1),
		describe(name => 'people_by_num', base => 'people', key => ['b.num'], copies => [ 'seen', 'id', 'shard', 'email', 'town', 'tags' ], identity => 3),
		describe(name => 'people_by_town', base => 'people', key => ['lower(b.town)'], predicate => q{b.town <> 'Town 8'}, copies => [ 'id', 'seen', 'email' ], identity => 2),
		describe(name => 'people_by_tag', base => 'people', key => ['m.v'], elements => 'SELECT t.v, t.o FROM unnest(b.tags) WITH ORDINALITY t(v, o)',
			copies => [ 'id', 'seen' ], identity => 2)));
	# Servers are asked for keys alone. Together these find every row that index tables have, some of them several times.
	@queries = (
		'SELECT p.* FROM people p WHERE email ' . ($options{servers} ? '= ANY (ARRAY(SELECT email FROM people))' : "> ''") . ' ORDER BY email',
		'SELECT p.* FROM people p WHERE num ' . ($options{servers} ? '= ANY (ARRAY(SELECT num FROM people))' : '>= 0') . ' ORDER BY num, id, seen, shard',
		q{SELECT p.* FROM people p WHERE lower(town) > '' AND town <> 'Town 8' ORDER BY lower(town), id, seen, shard},
		map { "SELECT p.* FROM people p WHERE tags \@> ARRAY['t$_'] ORDER BY id, seen, shard" } 0 .. 5);
	return;
}

# --- Oracles --------------------------------------------------------------------------

sub unlocked { return $coordinator->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM index_table.intent FOR UPDATE SKIP LOCKED) i') }

sub in_step
{
	my ($label) = @_;
	my $all = join ';', @queries;
	oracle_ok($coordinator, 'postgres', "$label: in step", 0);
	is($coordinator->safe_psql('postgres', q{SELECT t, v.* FROM unnest('{people_by_email,people_by_num,people_by_town,people_by_tag}'::regclass[]) AS t, index_table.verify(t) AS v}), '', "$label: verified");
	my ($found) = sections($coordinator->safe_psql('postgres', "SET index_table.enable_scan = off; SELECT '\@ native'; $all; SET index_table.enable_scan = force; SELECT '\@ index'; $all"));
	is_deeply($found->{index}, $found->{native}, "$label: nothing is found twice, or not at all");
	return;
}

sub drained_ok
{
	my ($label) = @_;
	my ($stdout, $stderr);
	foreach (1 .. 20)
	{
		(undef, $stdout, $stderr) = $coordinator->psql('postgres', q{
			CALL index_table.drain();
			SELECT 'left: ' || count(*) FROM (SELECT FROM index_table.intent FOR UPDATE SKIP LOCKED) i;
			SELECT leaf, identity, error FROM index_table.undrained;});
		last if $stderr eq '' && $stdout =~ /^left: 0$/m;
	}
	is($stderr, '', "$label: drained");
	is($stdout, 'left: 0', "$label: no intent is left, nothing is refused");
	return in_step($label);
}

# Of what was truncated, or was to be, servers keep nothing.
sub swept_ok
{
	my ($label) = @_;
	foreach my $index_table (@on_servers)
	{
		$coordinator->safe_psql('postgres', "SELECT index_table.vacuum('$index_table')");
		is($coordinator->safe_psql('postgres', "SELECT count(*) FROM $index_table WHERE partition_id NOT IN (SELECT partition_id FROM index_table.partition)"), '0', "$label: $index_table has no dead entries");
		is($coordinator->safe_psql('postgres', "SELECT count(*) FROM index_table.retired_partition WHERE index_table = '$index_table'::regclass"), '0', "$label: nor numbers of such");
	}
	return;
}

# --- Changes --------------------------------------------------------------------------

sub pick { return $_[ int(rand(@_)) ] }

my $last = 1000;

# Of both shards, in any case: their commits can be stopped.
sub fresh_rows
{
	$last++;
	return "INSERT INTO people SELECT $last * 10 + i, date '2026-03-01' + i, i % 3, 'mail ' || $last * 10 + i, 'New ' || i, ARRAY['t1', 't' || i], i FROM generate_series(0, 9) AS i";
}

sub some { my ($n) = @_; return "id % $n = " . int(rand($n)) }

# Of rows that move between shards one half may be all that is left: they get another identity.
sub change
{
	$last++;
	my $where = some(7);
	my $copied = join '\\n', map { "${last}$_\\t2026-04-0$_\\t" . $_ % 3 . "\\tcopied ${last}$_\\tBonn\\t{t2,t3}\\t1.50" } 1 .. 4;
	return pick(
		fresh_rows(),
		"COPY people FROM PROGRAM 'printf \"$copied\\n\"'",
		"UPDATE people SET email = email || '.', num = num + 1 WHERE $where",
		"UPDATE people SET town = upper(town), tags = ARRAY['t' || id % 5] || tags[1:1] WHERE $where",
		"UPDATE people SET town = 'Town ' || id % 10 WHERE $where",
		"UPDATE people SET seen = seen + 100, email = email || '+' WHERE " . some(19),
		"UPDATE people SET id = id + 1000000 WHERE id < 1000000 AND " . some(23),
		"DELETE FROM people WHERE " . some(13),
		"WITH gone AS (DELETE FROM people WHERE " . some(29) . " RETURNING *) INSERT INTO people SELECT $last * 100000 + row_number() OVER (), seen + 1000, (shard + 1) % 3, email || ' moved $last', town, tags, num FROM gone",
		"DO 'BEGIN UPDATE people SET town = ''Lost'', email = email || '' lost'' WHERE num < 9; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END'");
}

# What changes rows on both shards, up to its commit.
sub transaction
{
	my @sql = (pick('BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ'), pick("SET LOCAL datestyle = 'SQL, DMY'", "SET LOCAL datestyle = 'German'", "SET LOCAL intervalstyle = iso_8601"));
	push @sql, 'TRUNCATE ' . pick('people_0', 'people_1', 'people_2', 'people_0, people_1', 'people_2, people_1') if rand() < 0.2; # the gate allows of it at the beginning alone
	push @sql, change() foreach 1 .. 1 + int(rand(3));
	push @sql, 'SAVEPOINT a', change(), change(), pick('ROLLBACK TO a', 'RELEASE a') if rand() < 0.5;
	push @sql, fresh_rows();
	return join('; ', @sql) . '; ';
}

# --- Steps ----------------------------------------------------------------------------

my $victim = q{query LIKE '%/* victim */%'};
my %ends = (
	backend => sub { kill_backend($coordinator, $victim) },
	coordinator => sub { $coordinator->stop('immediate'); $coordinator->start },
	cancel => sub { $coordinator->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE $victim AND pid <> pg_backend_pid()") },
	shard => sub { my ($shard) = @_; $shards[$shard]->stop('immediate'); $shards[$shard]->start },
	shard_backend => sub {
		my ($shard, $name) = @_;
		kill_backend($shards[$shard], "application_name = '$name'");
	},
	shard_terminate => sub { my ($shard, $name) = @_; $shards[$shard]->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$name'") });

sub waits
{
	my ($node, $condition, $command) = @_;
	return if $node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND $condition");
	$command->{run}->pump_nb if $command;
	die "nobody waits: $condition: " . ($command ? $command->{errors} : '');
}

# Holds the lock under which commits with a NOTIFY go on after those on the shards: the holder waits in its own commit,
# for a standby that is not there.
sub shut_commits
{
	my ($node) = @_;
	return hold_lock($coordinator, q{SET synchronous_commit = on; BEGIN; SELECT pg_logical_emit_message(true, 'holder', ''); NOTIFY holder; COMMIT;},
		q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
}

sub open_commits
{
	my ($session) = @_;
	$coordinator->psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
	release_lock($session);
	return;
}

my $at_commit = q{locktype = 'object' AND classid = 'pg_database'::regclass AND objid = 0};

# A transaction that has been committed on both shards, and not here.
sub leave_behind
{
	my $lock = shut_commits();
	my $command = start_command($coordinator, '/* victim */ ' . transaction() . 'NOTIFY victim; COMMIT');
	waits($coordinator, $at_commit, $command);
	is(unlocked(), '0', 'intents of a transaction in progress are locked');
	$ends{cancel}->();
	like(end_command($command), qr/57014/, 'cancelled between the commits');
	open_commits($lock);
	isnt(unlocked(), '0', 'intents are left');
	return;
}

my %steps = (
	# Nothing is committed.
	before => sub {
		my ($how, $shard) = @_;
		my $lock = shut_gate($coordinator, 2);
		my $command = start_command($coordinator, '/* victim */ ' . transaction() . 'SELECT pg_advisory_xact_lock(2); COMMIT');
		waits($coordinator, q{locktype = 'advisory'}, $command);
		$ends{$how}->($shard, 'postgres_fdw');
		release_lock($lock);
		end_command($command);
	},
	# Being committed on one shard; the other, asked before or after, may have done so. The shard goes on where it can.
	remote => sub {
		my ($how, $shard) = @_;
		my $gate = shut_gate($shards[$shard]);
		my $command = start_command($coordinator, '/* victim */ ' . transaction() . 'COMMIT');
		waits($shards[$shard], q{locktype = 'advisory'}, $command);
		is(unlocked(), '0', 'intents of a transaction in progress are locked');
		$ends{$how}->($shard, 'postgres_fdw');
		release_lock($gate);
		end_command($command);
	},
	# Committed there, not here.
	local => sub {
		my ($how, $shard) = @_;
		my $lock = shut_commits();
		my $command = start_command($coordinator, '/* victim */ ' . transaction() . 'NOTIFY victim; COMMIT');
		waits($coordinator, $at_commit, $command);
		$ends{$how}->($shard, 'postgres_fdw');
		wait_until_up($coordinator);
		open_commits($lock);
		end_command($command);
	},
	# Nobody is there any more who asked for the commit that is going on: the sweep must wait for its end.
	settle => sub {
		my ($how, $shard) = @_;
		my $gate = shut_gate($shards[$shard]);
		my $command = start_command($coordinator, '/* victim */ ' . transaction() . 'COMMIT');
		waits($shards[$shard], q{locktype = 'advisory'}, $command);
		$ends{$how}->($shard);
		end_command($command);
		wait_until_up($coordinator);
		$coordinator->safe_psql('postgres', 'CALL index_table.drain()');
		isnt($coordinator->safe_psql('postgres', "SELECT count(*) FROM index_table.intent WHERE leaf = 'people_$shard'::regclass"), '0', 'intents wait for the shard');
		waits($shards[$shard], q{locktype = 'advisory'}, $command);
		release_lock($gate);
	},
	# Rows have been read again, nothing is mended.
	sweep => sub {
		my ($how, $shard) = @_;
		leave_behind();
		my $lock = lock_table($coordinator, 'people_by_town');
		my $command = start_command($coordinator, 'CALL index_table.drain() /* victim */');
		waits($coordinator, q{relation = 'people_by_town'::regclass}, $command);
		$ends{$how}->(0, 'index_table'); # the first one that is swept
		release_lock($lock);
		end_command($command);
	},
	# One of the two shards is mended, and that is committed.
	swept => sub {
		my ($how, $shard) = @_;
		leave_behind();
		my $lock = hold_lock($coordinator, 'BEGIN; ALTER FOREIGN TABLE people_1 OWNER TO CURRENT_USER;',
			q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'people_1'::regclass AND mode = 'AccessExclusiveLock' AND granted});
		my $command = start_command($coordinator, 'CALL index_table.drain() /* victim */');
		waits($coordinator, q{relation = 'people_1'::regclass}, $command);
		is($coordinator->safe_psql('postgres', q{SELECT count(*) FROM index_table.intent WHERE leaf = 'people_0'::regclass}), '0', 'one shard is mended');
		$ends{$how}->($shard, 'index_table');
		release_lock($lock);
		end_command($command);
	});
my %ways = (
	before => [qw(backend coordinator cancel shard shard_backend shard_terminate)],
	remote => [qw(backend coordinator cancel shard shard_backend shard_terminate backend shard_terminate)],
	local => [qw(backend coordinator cancel shard shard_backend)],
	settle => [qw(backend coordinator)],
	sweep => [qw(backend coordinator cancel shard shard_backend)],
	swept => [qw(backend coordinator cancel)]);

# --- Rounds ---------------------------------------------------------------------------

sub crash_at_every_step
{
	my ($rounds) = @_;
	in_step('at first');
	foreach my $query (@queries)
	{
		like($coordinator->safe_psql('postgres', "SET index_table.enable_scan = force; EXPLAIN $query"), qr/Index Table (Only )?Scan/, 'queries go through index tables');
	}
	my @all_ways = map { my $step = $_; map { my $how = $_; map { [ $step, $how, $_ ] } 0 .. 1 } @{ $ways{$step} } } sort keys %ways;
	my @plan;
	push @plan, shuffle(@all_ways) while @plan < $rounds;
	my $left = 0;
	foreach my $round (1 .. $rounds)
	{
		my ($step, $how, $shard) = @{ $plan[ $round - 1 ] };
		my $label = "round $round: $how at $step, shard $shard";
		note $label;
		$steps{$step}->($how, $shard);
		wait_until_up($coordinator);
		# Shards end what they are committing.
		foreach my $node (@shards)
		{
			$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'}) or die 'somebody waits';
		}
		$left++ if unlocked() ne '0';
		# Others change rows before anybody sweeps.
		if (rand() < 0.4)
		{
			my $sql = transaction() . 'COMMIT';
			like(sqlstate($coordinator, 'postgres', $sql), $accepted, "$label: changed before the sweep") or diag $sql;
		}
		drained_ok($label);
		swept_ok($label);
	}
	diag("$rounds crashes, at " . scalar(@all_ways) . " steps and ways; $left left intents");
	cmp_ok($left, '>', $rounds / 4, 'intents were left in many rounds');
	return;
}

sub crash_beside_worker
{
	$coordinator->append_conf('postgresql.conf', "index_table.drain_naptime = 1\nindex_table.vacuum_naptime = 0\n");
	$coordinator->restart;
	# After a crash of the server, and after that of a backend; the worker alone waits for the shard.
	foreach my $how ('coordinator', 'backend')
	{
		my $gate = shut_gate($shards[1]);
		my $command = start_command($coordinator, '/* victim */ ' . transaction() . 'COMMIT');
		waits($shards[1], q{locktype = 'advisory'}, $command);
		$ends{$how}->();
		end_command($command);
		wait_until_up($coordinator);
		my $begin = time;
		ok($coordinator->poll_query_until('postgres', q{SELECT count(settled_after) > 0 FROM index_table.intent}), "$how: the worker looks after intents");
		cmp_ok(time - $begin, '<', 60, "$how: soon");
		release_lock($gate);
		$begin = time;
		ok($coordinator->poll_query_until('postgres', 'SELECT count(*) = 0 FROM index_table.intent'), "$how: the worker sweeps");
		cmp_ok(time - $begin, '<', 60, "$how: soon");
		in_step("$how: after the worker");
	}
	return;
}

1;
