# Servers, backends and workers are killed at random moments of a mixed load over index tables of every
# kind (normalized, partial, denormalized; unique, deferrable; of many values; with a predicate;
# partitioned; deferred) and global indexes, while partitions come and go, index tables are built,
# rebuilt, verified, repaired, drained, and transactions are prepared. After each crash: what is complete
# is exact, queries find the same with index tables and without, what was prepared can be committed or
# rolled back, what was interrupted can be completed or dropped; then the oracle, verify, amcheck.
#
#   CRASH_SEED     repeats a run (what runs side by side repeats only roughly)
#   CRASH_ROUNDS   (3)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use WorkLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $seed = $ENV{CRASH_SEED} // int(rand(1 << 30));
my $rounds = how_many('CRASH_ROUNDS', 3);
note("CRASH_SEED=$seed CRASH_ROUNDS=$rounds");
diag("CRASH_SEED=$seed") if $rounds > 5;
srand($seed);

my $node = new_node('crash', conf => q{
shared_preload_libraries = index_table
restart_after_crash = on
fsync = off
shared_buffers = 32MB
deadlock_timeout = 50ms
max_worker_processes = 20
max_prepared_transactions = 100
checkpoint_timeout = 30s
autovacuum = on
autovacuum_naptime = 1
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0.05
index_table.drain_naptime = 1
index_table.vacuum_naptime = 2s
log_min_messages = warning
log_line_prefix = '%m [%p] %e '
});
plan skip_all => 'no amcheck' unless has_amcheck($node);
prepare_load($node);

# --- Deaths -------------------------------------------------------------------------------

sub start_again
{
	# Backends outlive a killed postmaster until they notice.
	foreach (1 .. 300)
	{
		return if $node->start(fail_ok => 1);
		$node->{_pid} = undef; # of the killed one
		sleep(0.1);
	}
	die 'the server does not start again';
}

# kill -9 of a process, one that is at work if any is.
sub kill_one
{
	my ($condition) = @_;
	my ($pid, $what) = split /\|/, $node->safe_psql('postgres', qq{
SELECT pid, backend_type || CASE WHEN application_name ~ '^operator' THEN ': ' || left(query, 40) ELSE '' END FROM pg_stat_activity
 WHERE $condition AND pid <> pg_backend_pid() ORDER BY state IS DISTINCT FROM 'active', random() LIMIT 1});
	my $offset = -s $node->logfile;
	return 0 unless $pid && kill 'KILL', $pid;
	note("killed: $what");
	await_reinitialization($node, $offset);
	return 1;
}

my %deaths = (
	'the server' => sub { $node->stop('immediate'); start_again(); return 1 },
	'the postmaster' => sub { $node->kill9; start_again(); return 1 },
	'a writer' => sub { return kill_one("application_name = 'writer'") },
	'an operator' => sub { return kill_one("application_name ~ '^operator'") },
	'who prepares' => sub { return kill_one("application_name = 'preparer'") },
	'a worker' => sub { return kill_one("backend_type ~ '^index_table|^autovacuum worker'") },
	'a process' => sub { return kill_one("backend_type IN ('checkpointer', 'background writer', 'walwriter')") });
my @turns = ('an operator', 'the postmaster', 'a worker', 'the server', 'who prepares', 'an operator', 'a process', 'a writer');

# --- Rounds -------------------------------------------------------------------------------

my $traces = traces($node);
my (%died, %count);
foreach my $round (1 .. $rounds)
{
	my $what = $turns[ $round % @turns ];
	my $label = "round $round, $what";
	my $offset = -s $node->logfile;
	my @clients = ((map { start_client($node, 'writer', writer_script()) } 1 .. 3), (map { start_client($node, "operator_$_", operator_script($_)) } 1, 2), start_client($node, 'preparer', preparer_script($round)));
	sleep(0.3 + rand(2.5));
	my $has_died = $deaths{$what}->();
	$died{$what}++ if $has_died;
	# It may die while it recovers.
	if (rand() < 0.2)
	{
		$node->{_pid} || wait_until_up($node);
		$node->stop('immediate', fail_ok => 1);
		start_again();
		$died{'the server, again'}++;
	}
	my @wrong = map { stop_client($_) } @clients;
	wait_until_up($node);
	is(join("\n", @wrong), '', "$label: nothing unexpected");
	await_sessions($node); # which may prepare more
	my @prepared = split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts ORDER BY 1');
	exact_ok($node, $label);
	compare_ok($node, $label);
	if (@prepared)
	{
		foreach my $name (@prepared)
		{
			my $fate = rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';
			done_ok($node, "$fate PREPARED '$name'", "$label: $fate PREPARED '$name'");
			$count{"$fate PREPARED after a crash"}++;
		}
		exact_ok($node, "$label, nothing is prepared");
	}
	my $fates = settle_ok($node, $label);
	$count{"builds $_"} += $fates->{$_} foreach keys %$fates;
	oracle_ok($node, 'postgres', "$label: in step", 500);
	compare_ok($node, "$label, settled");
	check_storage($node, 'postgres', $label);
	check_global($node, 'postgres', $label, exact => $round % 4 == 0);
	# Nothing is left over of what was being done.
	is(difference($traces, traces($node)), '', "$label: nothing is left over");
	is(log_problems($node, from => $offset, killed => 1), '', "$label: nothing in the log");
	last unless Test::More->builder->is_passing;
}
diag('died: ' . join(', ', map { "$_ $died{$_} times" } sort keys %died) . '; ' . join(', ', map { "$count{$_} $_" } sort keys %count));
my $deaths = 0;
$deaths += $_ foreach values %died;
cmp_ok($deaths, '>=', 0.8 * $rounds, 'most of them died') if Test::More->builder->is_passing;
$node->stop;
done_testing();
