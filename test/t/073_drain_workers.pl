# Drain workers: started and woken by commits, some in a database, each database its own; what one of them waits for
# holds nothing else up; they come back when they are terminated or killed, whatever the database sets for others.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# Shards are other databases of the same server. Nothing comes of waiting here: passes are an hour apart, and a lock
# would be waited for longer than the test waits.
my $node = new_node('workers', conf => q{
shared_preload_libraries = 'index_table'
restart_after_crash = on
max_worker_processes = 16
deadlock_timeout = 60s
index_table.vacuum_naptime = 3600
index_table.drain_naptime = 3600
});
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(shard one two);
$node->safe_psql('shard', 'CREATE EXTENSION index_table');

my $oracle;
foreach my $db ('one', 'two')
{
	$node->safe_psql($db, qq{
		CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;} . server_sql('shard', $node, database => 'shard'));
	my @described;
	foreach my $table ('people', 'orders')
	{
		$node->safe_psql('shard', "CREATE TABLE ${db}_$table (id int PRIMARY KEY, shard int, town text); SELECT index_table.capture('${db}_$table')");
		$node->safe_psql($db, qq{
			CREATE TABLE $table (id int NOT NULL, shard int, town text) PARTITION BY LIST (shard);
			CREATE FOREIGN TABLE ${table}_1 PARTITION OF $table FOR VALUES IN (1) SERVER shard OPTIONS (schema_name 'public', table_name '${db}_$table');});
		push @described, describe(name => "${table}_by_town", base => $table, key => ['b.town'], copies => [ 'id', 'shard' ], identity => 2);
	}
	$node->safe_psql($db, oracle_sql(@described));
}

# Whether a query is true before so many seconds are over.
sub is_soon
{
	my ($db, $query, $seconds) = @_;
	for (my $end = time + $seconds; time < $end; sleep 0.05)
	{
		return 1 if $node->safe_psql($db, $query) eq 't';
	}
	diag("not in $seconds s: $query: " . $node->safe_psql($db, $query));
	return 0;
}

sub soon { my ($db, $query, $label) = @_; return ok(is_soon($db, $query, 15), $label) }

sub create
{
	my ($db, $table) = @_;
	return $node->safe_psql($db, "SELECT index_table.create('$table', 'town', identity => 'id, shard', maintenance => 'deferred')");
}

my $workers = q{pg_stat_activity WHERE backend_type = 'index_table drain' AND datname};
sub pids { return $node->safe_psql('postgres', "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM $workers = '$_[0]'") }
sub workers_soon { my ($db, $count, $label) = @_; return soon('postgres', "SELECT count(*) = $count FROM $workers = '$db'", $label) }
# They have looked at everything, and wait: for a shard they would do so in a transaction.
sub at_rest { my ($db) = @_; sleep 0.7; is_soon('postgres', "SELECT bool_and(wait_event = 'Extension' AND xact_start IS NULL) FROM $workers = '$db'", 60) or die "$db: no rest"; return }

my $last = 0;
# Changes rows on the shard, where nobody tells the workers.
sub change
{
	my ($db, $table) = @_;
	$last++;
	$node->safe_psql('shard', "INSERT INTO ${db}_$table VALUES ($last, 1, 'Town $last')");
	return "SELECT count(*) = 1 FROM ${table}_by_town WHERE town = 'Town $last'";
}
# A commit that wakes them.
sub wake { my ($db, $table) = @_; return $node->safe_psql($db, "SELECT index_table.set_maintenance('${table}_by_town', 'deferred')") }

# --- Started and woken -------------------------------------------------------------------

is(pids('one'), '', 'nobody where nothing is to be drained');
create('one', 'people');
workers_soon('one', 1, 'the first index table has a worker started');
my $first = pids('one');
at_rest('one'); # its first look would find what is changed now
my $drained = change('one', 'people');
at_rest('one');
$node->safe_psql('one', q{BEGIN; SELECT index_table.set_maintenance('people_by_town', 'deferred'); ROLLBACK});
sleep 1;
is($node->safe_psql('one', $drained), 'f', 'who rolls back wakes nobody');
my $start = time;
wake('one', 'people');
ok(is_soon('one', $drained, 15), 'who commits does');
note sprintf 'drained after %.2f s', time - $start;
is(pids('one'), $first, 'one worker for one partition');
create('one', 'orders');
workers_soon('one', 2, 'a second one for two');
create('two', 'people');
workers_soon('two', 1, 'and one in another database');
at_rest('two');
$drained = change('two', 'people');
at_rest($_) foreach 'one', 'two';
wake('one', 'people');
at_rest('one');
is($node->safe_psql('two', $drained), 'f', 'each database has its own woken');
wake('two', 'people');
soon('two', $drained, 'the other one');

# --- Held up -------------------------------------------------------------------------------

# With one worker alone: whatever is locked on this side is left for later.
$node->safe_psql('postgres', $_) foreach 'ALTER SYSTEM SET index_table.drain_workers = 1', 'ALTER SYSTEM SET index_table.drain_naptime = 1', 'SELECT pg_reload_conf()';
workers_soon('one', 1, 'one too many ends');
foreach my $table ('people', 'people_1', 'people_by_town')
{
	# Foreign tables know no LOCK before 16.
	my $lock = start_session($node, 'one', 'BEGIN; ' . ($table eq 'people_1' ? "ALTER FOREIGN TABLE people_1 OPTIONS (ADD fetch_size '200');" : "LOCK TABLE ONLY $table IN ACCESS EXCLUSIVE MODE;"));
	$node->poll_query_until('one', "SELECT count(*) = 1 FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'AccessExclusiveLock' AND granted") or die;
	my $later = change('one', 'people');
	soon('one', change('one', 'orders'), "$table is locked: others are drained") foreach 1 .. 2;
	release_lock($lock);
	soon('one', $later, "$table: and this one when it is free");
}
# What is here alone: the table itself, a partition, where entries are, where changes are queued. The first lock has
# changes wait in the queue of what is locked then.
$node->safe_psql('one', q{
	CREATE TABLE parts (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
	CREATE TABLE parts_1_1 PARTITION OF parts_1 FOR VALUES FROM (0) TO (100);
	CREATE TABLE whole (id int PRIMARY KEY, town text);
	SELECT index_table.create('parts', 'town', maintenance => 'deferred', partitions => 2), index_table.create('whole', 'town', maintenance => 'deferred')});
sub locked
{
	my ($table) = @_;
	my $lock = start_session($node, 'one', "BEGIN; LOCK TABLE ONLY $table IN ACCESS EXCLUSIVE MODE;");
	$node->poll_query_until('one', "SELECT count(*) = 1 FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'AccessExclusiveLock' AND granted") or die;
	return $lock;
}
sub change_here
{
	my ($table) = @_;
	$last++;
	$node->safe_psql('one', "INSERT INTO $table VALUES ($last, 'Town $last')");
	return "SELECT count(*) = 1 FROM ${table}_by_town WHERE town = 'Town $last'";
}
soon('one', change_here($_), "$_: drained") foreach 'parts', 'whole';
foreach my $table ('parts', 'parts_1', 'parts_1_1', 'parts_by_town', $node->safe_psql('one', q{SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'parts_by_town'::regclass}),
	'parts_by_town_queue_1')
{
	my $first = locked('parts_by_town');
	my $later = change_here('parts');
	my $lock = $table eq 'parts_by_town' ? undef : locked($table);
	release_lock($first) if $lock;
	soon('one', change_here('whole'), "$table is locked: others are drained") foreach 1 .. 2;
	release_lock($lock // $first);
	soon('one', $later, "$table: and this one when it is free");
}
# One partition that is locked holds up what it has queued, and nothing behind it.
$node->safe_psql('one', q{CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (2000)});
{
	my $before_all = locked('parts_by_town');
	my @held = map { change_here('parts') } 1 .. 3;
	$node->safe_psql('one', q{INSERT INTO parts VALUES (50, 'Both'), (1050, 'Both')});
	my $lock = locked('parts_1_1');
	release_lock($before_all);
	foreach my $id (1001 .. 1003)
	{
		$node->safe_psql('one', "INSERT INTO parts VALUES ($id, 'Town $id')");
		soon('one', "SELECT count(*) = 1 FROM parts_by_town WHERE town = 'Town $id'", 'behind a locked partition, others are drained');
	}
	is($node->safe_psql('one', $_), 'f', 'what it has queued waits') foreach @held;
	is($node->safe_psql('one', q{SELECT count(*) FROM parts_by_town WHERE town = 'Both'}), '0', 'and so does a statement that changed both');
	is($node->safe_psql('one', q{SELECT cardinality(blocking_pids) FROM index_table.queue WHERE index_table = 'parts_by_town'::regclass}), '1', 'the queue says whom for');
	release_lock($lock);
	soon('one', $_, 'until it is free') foreach @held, q{SELECT count(*) = 2 FROM parts_by_town WHERE town = 'Both'};
	is($node->safe_psql('one', q{SELECT blocking_pids IS NULL FROM index_table.queue WHERE index_table = 'parts_by_town'::regclass}), 't', 'nothing is queued, and nobody in the way');
}
is($node->safe_psql('one', qq{
	SELECT count(*) FROM ((TABLE ${_}_entries EXCEPT ALL TABLE $_) UNION ALL (TABLE $_ EXCEPT ALL TABLE ${_}_entries)) AS differing}), '0', "$_: in step")
  foreach map { $node->safe_psql('one', "CREATE VIEW ${_}_entries AS SELECT id, town FROM ${_}_by_town"); $_ } 'parts', 'whole';
unlike(slurp_file($node->logfile), qr/lock timeout/, 'nobody waited');
$node->safe_psql('one', 'DROP TABLE parts, whole CASCADE');
# A worker of its own waits for a shard that does not answer, and for a row that others are changing.
$node->safe_psql('postgres', $_) foreach 'ALTER SYSTEM SET index_table.drain_workers = 2', 'SELECT pg_reload_conf()';
workers_soon('one', 2, 'two again');
foreach my $table ('people', 'orders')
{
	my $other = $table eq 'people' ? 'orders' : 'people';
	my $lock = start_session($node, 'shard', "BEGIN; LOCK TABLE one_${table}_outbox IN ACCESS EXCLUSIVE MODE;");
	$node->poll_query_until('shard', "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'one_${table}_outbox'::regclass AND mode = 'AccessExclusiveLock' AND granted") or die;
	$node->poll_query_until('shard', "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'one_${table}_outbox'::regclass AND NOT granted") or die;
	soon('one', change('one', $other), "$table waits for its shard: $other does not") foreach 1 .. 2;
	is($node->safe_psql('shard', "SELECT count(*) FROM pg_locks WHERE relation = 'one_${table}_outbox'::regclass AND NOT granted"), '1', "$table: once, not twice");
	release_lock($lock);
	soon('one', change('one', $table), "$table goes on");
}

# --- Ended by others -------------------------------------------------------------------------

# Whatever a database sets for its sessions.
my %settings = (default_transaction_read_only => 'on', default_transaction_isolation => 'serializable', statement_timeout => '1',
	lock_timeout => '1', idle_in_transaction_session_timeout => '1', session_replication_role => 'replica', search_path => 'nowhere', role => 'nobody');
$node->safe_psql('postgres', 'CREATE ROLE nobody');
$node->safe_psql('postgres', "ALTER DATABASE one SET $_ = '$settings{$_}'") foreach sort keys %settings;
my $before = pids('one');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM $workers IN ('one', 'two')");
workers_soon('one', 2, 'terminated: they come back');
workers_soon('two', 1, 'in each database');
isnt(pids('one'), $before, 'others');
my $lock = start_session($node, 'shard', 'BEGIN; LOCK TABLE one_people_outbox IN ACCESS EXCLUSIVE MODE;');
$node->poll_query_until('shard', "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'one_people_outbox'::regclass AND NOT granted") or die;
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND pid IN (SELECT pid FROM $workers = 'one')"), '0', 'READ COMMITTED');
release_lock($lock);
$drained = change('one', $_), ok(is_soon_in_one($drained), "$_: drained whatever the database sets") foreach 'people', 'orders';
$node->safe_psql('postgres', "ALTER DATABASE one RESET ALL");

sub is_soon_in_one
{
	my ($query) = @_;
	local $ENV{PGOPTIONS} = '-c role=none -c statement_timeout=0 -c search_path=public';
	return is_soon('one', $query, 15);
}

# The server begins anew, and its memory with it.
$before = pids('one');
my $log = -s $node->logfile;
kill 'KILL', (split /,/, $before)[0];
await_reinitialization($node, $log);
wait_until_up($node);
workers_soon('one', 2, 'killed: they come back');
soon($_->[0], change(@$_), "$_->[0], $_->[1]: drained after a crash") foreach [ 'one', 'people' ], [ 'one', 'orders' ], [ 'two', 'people' ];

# --- The end -----------------------------------------------------------------------------------

foreach my $db ('one', 'two')
{
	is($node->safe_psql($db, 'SELECT leaf, error FROM index_table.undrained'), '', "$db: no errors");
	oracle_ok($node, $db, "$db: in step", 0);
	check_storage($node, $db, $db);
}
my $gone = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'two'});
$log = -s $node->logfile;
$node->safe_psql('postgres', 'DROP DATABASE two WITH (FORCE)');
# Who comes while it is being dropped knows its name. The worker that vacuums may look for it, too.
my $is_missed = qr/\[(\d+)\] FATAL:  database (?:$gone|"two") does not exist(?=(?s:.*?)"index_table drain" \(PID \g1\) exited)/;
ok($node->wait_for_log($is_missed, $log), 'a database is gone, and its worker finds that');
sub missed { return scalar(() = slurp_file($node->logfile, $log) =~ /$is_missed/g) }
my $missed = missed();
sleep 3;
is(missed(), $missed, 'but does not try again');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datid = $gone"), '0', 'and nobody is there');
$node->safe_psql('one', q{SELECT index_table.drop('people_by_town'); SELECT index_table.drop('orders_by_town')});
workers_soon('one', 0, 'nobody where nothing is left');
# The launcher of logical replication has the other.
$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
$node->restart;
create('one', 'people');
pass('no worker is to be had: no error');
$node->stop;

# --- More databases than workers ---------------------------------------------------------------

# Of the four processes, one is left to the workers of all databases.
$node = new_node('few', conf => q{
shared_preload_libraries = 'index_table'
max_worker_processes = 4
log_min_messages = warning
index_table.vacuum_naptime = 3600
});
my @many = map { "many$_" } 1 .. 4;
foreach my $db (@many)
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, q{
		CREATE EXTENSION index_table;
		CREATE TABLE t (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
		CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (1000);
		SELECT index_table.create('t', 'town', maintenance => 'deferred');
		CREATE VIEW differing AS (SELECT town, id FROM t_by_town EXCEPT ALL SELECT town, id FROM t) UNION ALL (SELECT town, id FROM t EXCEPT ALL SELECT town, id FROM t_by_town)});
}
foreach my $round (1 .. 2)
{
	$node->safe_psql($_, "INSERT INTO t SELECT $round * 100 + i, 'Town ' || i FROM generate_series(1, 50) AS i") foreach @many;
	ok(is_soon($_, "SELECT (SELECT count(*) FROM t_by_town) = 50 * $round", 60), "$_: drained in its turn") foreach @many;
}
is($node->safe_psql($_, 'SELECT count(*) FROM differing'), '0', "$_: in step") foreach @many;
my ($seen, $most) = ({}, 0);
for (my $end = time + 20; time < $end && keys %$seen < @many; sleep 0.05)
{
	my @now = split /\n/, $node->safe_psql('postgres', q{SELECT datname FROM pg_stat_activity WHERE backend_type = 'index_table drain'});
	$seen->{$_} = 1 foreach @now;
	$most = @now if @now > $most;
}
is(keys %$seen, scalar @many, 'each has a worker again and again');
is($most, 1, 'one at a time');
like($node->safe_psql('many1', q{SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; CREATE TABLE big AS SELECT g FROM generate_series(1, 100000) AS g; ANALYZE big;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM big WHERE g % 3 = 0}), qr/Workers Launched: 1/, 'a parallel query has a worker');
my $warnings = () = slurp_file($node->logfile) =~ /WARNING:  index_table: [34] databases? waits? for/g;
is($warnings, 1, 'one warning');
# One that has ended, or is gone, holds up no other.
$node->safe_psql('postgres', 'DROP DATABASE many2 WITH (FORCE)');
$node->safe_psql('many1', q{DROP VIEW differing; SELECT index_table.drop('t_by_town')});
$node->safe_psql($_, q{INSERT INTO t VALUES (901, 'late')}) foreach 'many3', 'many4';
soon($_, q{SELECT count(*) = 1 FROM t_by_town WHERE town = 'late'}, "$_: goes on") foreach 'many3', 'many4';
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (?!9)/, 'nothing broke');
done_testing();
