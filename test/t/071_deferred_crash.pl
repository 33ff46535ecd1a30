# Index tables that are maintained deferred, while sessions that drain or write are killed, servers
# crash, transactions stay prepared over a restart, and a standby answers: what is found through them
# is what is found without, and in the end they are in step.
#
#   DEFERRED_CRASH_SEED      repeats a run (what runs side by side repeats only roughly)
#   DEFERRED_CRASH_ROUNDS    (3)
#   DEFERRED_CRASH_QUERIES   compared in each round (30)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use DeferredReads;
use DeferredTables;
use IndexTableTest;
use Time::HiRes 'sleep';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{DEFERRED_CRASH_SEED} // int(rand(2**31));
my $rounds = how_many('DEFERRED_CRASH_ROUNDS', 3);
my $queries = how_many('DEFERRED_CRASH_QUERIES', 30);
srand($seed);
note("DEFERRED_CRASH_SEED=$seed DEFERRED_CRASH_ROUNDS=$rounds");
diag("DEFERRED_CRASH_SEED=$seed") if $rounds > 6;

my $node = new_node('crash', allows_streaming => 1, conf => q{
session_preload_libraries = index_table
restart_after_crash = on
max_connections = 50
fsync = off
shared_buffers = 64MB
deadlock_timeout = 50ms
max_locks_per_transaction = 256
autovacuum = on
autovacuum_naptime = 1
index_table.drain_batch = 200
});
set_up($node);
my $counts = new_counts();

sub exact_ok
{
	my ($label, $on, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $differing = compare_pairs($on // $node, $counts, number => $queries, explained => 0.5, %options);
	diag("DEFERRED_CRASH_SEED=$seed") if $differing;
	return is($differing, 0, "$label: the same rows through index tables and without");
}

# --- Crashes --------------------------------------------------------------------------

# What dies: a session that drains, one that writes, a worker, the server.
my %deaths = (
	drain  => sub { return kill_one("application_name = 'drains'"); },
	writer => sub { return kill_one("application_name = 'writers'"); },
	worker => sub { return kill_one("backend_type LIKE 'index_table%'"); },
	server => sub { $node->stop('immediate'); $node->start; return 1; });

sub kill_one
{
	my ($condition) = @_;
	# One that is at work, if any is.
	my $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $condition ORDER BY state IS DISTINCT FROM 'active', random() LIMIT 1");
	my $offset = -s $node->logfile;
	return 0 unless $pid && kill 'KILL', $pid;
	await_reinitialization($node, $offset);
	return 1;
}

my %died = map { $_ => 0 } sort keys %deaths;
foreach my $round (1 .. $rounds)
{
	my $has_worker = $round > $rounds / 2;
	if ($has_worker && $round - 1 <= $rounds / 2)
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = 'index_table'\nindex_table.drain_naptime = 1\n");
		$node->restart;
	}
	my $writers = start_writers($node, rate => 400, seed => $seed % 1000000 + $round);
	my $drains = $has_worker ? undef : start_drains($node, clients => 2, busy => 1);
	sleep(0.5 + rand(1.5));
	my $what = ($has_worker ? qw(worker server worker) : qw(drain server writer))[ $round % 3 ];
	my $done = $deaths{$what}->();
	$died{$what}++ if $done;
	wait_until_up($node);
	stop_clients($node, $_) foreach grep { $_ } $writers, $drains;
	exact_ok("round $round: $what died");
	# The queues need not be empty for the next round.
	drained_ok($node, "round $round") if rand() < 0.4;
}
diag('died: ' . join(', ', map { "$died{$_} times $_" } sort keys %died));
drained_ok($node, 'after crashes');
check_storage($node, 'postgres', 'after crashes');

# --- Cancelled drains -----------------------------------------------------------------

my $writers = start_writers($node, rate => 400, seed => $seed % 1000000);
my $drains = start_drains($node, busy => 1);
foreach (1 .. 30)
{
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'drains' OR backend_type LIKE 'index_table_drain%'});
	sleep(0.05);
	$drains = start_drains($node, busy => 1) unless $drains->{run}->pumpable;
}
stop_clients($node, $_) foreach $writers, $drains;
exact_ok('drains cancelled');
drained_ok($node, 'drains cancelled');

# --- Prepared transactions --------------------------------------------------------------

my $changes = q{
	INSERT INTO accounts SELECT nextval('ids'), email(i), town(i), score(i), tags(i), note(i) FROM generate_series(1, 700) AS i;
	UPDATE accounts SET email = email(id + 3), score = score(id + 5), tags = tags(id + 1) WHERE id %% 10 = %d;
	UPDATE events SET day = (day + 100) %% 300, code = code(id + 7) WHERE id %% 10 = %d;
	DELETE FROM events WHERE id %% 10 = %d + 5;
};
$node->safe_psql('postgres', 'BEGIN;' . sprintf($changes, 1, 1, 1) . q{PREPARE TRANSACTION 'committed'});
$node->safe_psql('postgres', 'BEGIN;' . sprintf($changes, 2, 2, 2) . q{PREPARE TRANSACTION 'undone'});
$node->safe_psql('postgres', 'UPDATE accounts SET town = town(id + 9) WHERE id % 10 = 3; UPDATE events SET amount = amount(id + 1) WHERE id % 10 = 4');
exact_ok('prepared', undef, read_only => 1);
$node->stop('immediate');
$node->start;
exact_ok('prepared, after a crash', undef, read_only => 1);
is($node->safe_psql('postgres', 'CALL index_table.drain()'), '', 'drained beside what is prepared');
exact_ok('prepared, drained', undef, read_only => 1);
$node->safe_psql('postgres', "COMMIT PREPARED 'committed'");
exact_ok('one is committed', undef, read_only => 1);
$node->safe_psql('postgres', "ROLLBACK PREPARED 'undone'");
exact_ok('the other is undone');
drained_ok($node, 'after prepared transactions');

# --- A standby ----------------------------------------------------------------------------

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$node->backup('copy');
my $standby = QuickNode->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = off\n");
$standby->start;

my $on_primary = $counts;
$counts = new_counts();
sub caught_up { $node->wait_for_catchup($standby, 'replay'); return; }

# Rows of one key and of another, as a snapshot has them; nothing is compared with another server.
my $many = "SELECT count(*), sum(id::bigint), sum(hashtext(town)::bigint) FROM accounts WHERE lower(email) IN (SELECT 'user' || i || '\@x.com' FROM generate_series(0, 599) AS i)";
my $both = join('', map { "SET LOCAL index_table.enable_scan = $_; $many; SELECT count(*), sum(id::bigint) FROM events WHERE code = ANY (ARRAY(SELECT code(i) FROM generate_series(1, 500) AS i));" } qw(force off));

sub both_ok
{
	my ($output, $label) = @_;
	my @lines = split /\n/, $output;
	is(scalar(@lines), 4, "$label: four results") or note $output;
	return is(join(' ', @lines[ 0, 1 ]), join(' ', @lines[ 2, 3 ]), "$label: the same through index tables and without");
}

caught_up();
exact_ok('standby, at rest', $standby, read_only => 1);
$writers = start_writers($node, rate => 300, seed => $seed % 1000000 + 1000);
$drains = start_drains($node);
exact_ok("standby, behind writers and drains, $_", $standby, read_only => 1, readers => 2) foreach 1 .. 3;
stop_clients($node, $_) foreach $writers, $drains;

# Snapshots of the standby of which the primary knows nothing: one that has read the queue, and one that
# has not. The primary drains what they see, empties the parts, fills and drains them again.
my $fill = q{
	UPDATE accounts SET email = email(id + %d), town = town(id + %d);
	UPDATE events SET code = code(id + %d), day = (day + 50) %% 300;};
foreach my $kind ('has read the queue', 'has read nothing', 'has read another table')
{
	# More than a part keeps.
	foreach my $i (1 .. 12) { $node->safe_psql('postgres', sprintf($fill, $i, $i, $i)); }
	caught_up();
	my $first = $kind eq 'has read the queue' ? $both : $kind eq 'has read nothing' ? 'SELECT 1;' : 'SELECT count(*) FROM pg_class;';
	my $session = start_session($standby, 'postgres', "LOAD 'index_table';\nBEGIN ISOLATION LEVEL REPEATABLE READ;\n$first\n\\echo taken\n");
	$session->{run}->pump until $session->{output} =~ /taken/;
	$session->{output} = '';
	my $before = queue_bytes($node, 'accounts_by_email');
	foreach my $i (20 .. 23)
	{
		$node->safe_psql('postgres', 'CALL index_table.drain()');
		$node->safe_psql('postgres', sprintf($fill, $i, $i, $i));
	}
	$node->safe_psql('postgres', 'CALL index_table.drain()') foreach 1 .. 3;
	my $after = queue_bytes($node, 'accounts_by_email');
	note("the queue had $before bytes, and has $after");
	$node->safe_psql('postgres', "DELETE FROM accounts WHERE id % 7 = 3; INSERT INTO accounts SELECT nextval('ids'), email(i), town(i) FROM generate_series(1, 300) AS i");
	# What it can replay while the snapshot is there, it has replayed.
	sleep(1);
	$session->{input} .= "$both\nCOMMIT;\n\\q\n";
	both_ok(end_session($session), "standby, a snapshot that $kind");
	caught_up();
	exact_ok("standby, after a snapshot that $kind", $standby, read_only => 1);
}
my $on_standby = $counts;
$counts = new_counts();
drained_ok($node, 'primary');
caught_up();
oracle_ok($standby, 'postgres', 'standby: in step', 0);
$standby->promote;
exact_ok('promoted', $standby);
$standby->safe_psql('postgres', sprintf($fill, 31, 32, 33));
exact_ok('promoted, after changes', $standby);
drained_ok($standby, 'promoted');
check_storage($standby, 'postgres', 'promoted');

foreach my $where ([ primary => $on_primary ], [ standby => $on_standby ])
{
	my ($name, $counts) = @$where;
	note("$name: " . counts_text($counts));
	cmp_ok($counts->{scans}, '>', 0.7 * $counts->{explained}, "$name: rows were found through index tables");
	# How many are left in the queue is a race with the workers.
	cmp_ok($counts->{queued}, '>', 0.02 * $counts->{explained}, "$name: queued rows were found");
	cmp_ok($counts->{skipped}, '<', 0.05 * $counts->{pairs}, "$name: few pairs had to be left out");
}
unlike(slurp_file($_->logfile), qr/PANIC|TRAP/, $_->name . ': nothing broke') foreach $node, $standby;
$_->stop foreach $standby, $node;
done_testing();
