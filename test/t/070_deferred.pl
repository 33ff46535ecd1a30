# Index tables that are maintained deferred, under read_consistency = exact: eight clients write at
# random, others drain, and thousands of random queries must return through index tables what they
# return without, in the same snapshot. First drains are called, then the worker drains.
#
#   DEFERRED_SEED      repeats a run (what runs side by side repeats only roughly)
#   DEFERRED_QUERIES   how many queries are compared in all (3000)
#   DEFERRED_PARTS     who drains: nobody, calls, worker (all)
#   DEFERRED_RATE      transactions a second that the clients begin (200)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes 'time';
use DeferredReads;
use DeferredTables;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{DEFERRED_SEED} // int(rand(2**31));
my $total = how_many('DEFERRED_QUERIES', 3000);
my $rate = $ENV{DEFERRED_RATE} // 200;
my %parts = map { $_ => 1 } split /[ ,]+/, $ENV{DEFERRED_PARTS} // 'nobody calls worker';
srand($seed);
note("DEFERRED_SEED=$seed");
diag("DEFERRED_SEED=$seed") if $total > 6000;

my $node = new_node('deferred', conf => qq{
session_preload_libraries = index_table
fsync = off
shared_buffers = 64MB
deadlock_timeout = 50ms
max_locks_per_transaction = 256
index_table.drain_naptime = 60
});
set_up($node);

sub exact_ok
{
	my ($label, $counts, $number) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $began = time();
	my $differing = compare_pairs($node, $counts, number => $number, readers => 2);
	note(sprintf('%s: %s, %.1f s', $label, counts_text($counts), time() - $began));
	diag("DEFERRED_SEED=$seed") if $differing;
	return is($differing, 0, "$label: the same rows through index tables and without");
}

# A test that reads nothing through index tables, or whose queues are empty, has tested nothing.
sub meaningful_ok
{
	my ($label, $counts, $queued_share) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($counts->{scans}, '>', 0.7 * $counts->{explained}, "$label: rows were found through index tables");
	cmp_ok($counts->{only}, '>', 0.05 * $counts->{explained}, "$label: entries alone were read");
	cmp_ok($counts->{queued}, '>', $queued_share * $counts->{explained}, "$label: queued rows were found");
	cmp_ok($counts->{skipped}, '<', 0.15 * $counts->{pairs}, "$label: few pairs had to be left out");
	cmp_ok($counts->{failing}, '<', 0.01 * $counts->{pairs}, "$label: few queries fail");
	return;
}

sub stopped_ok
{
	my ($label, $clients, $least) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($complaint, $done) = stop_clients($node, $clients, $least);
	is($complaint, '', "$label: no client failed");
	note("$label: $done transactions of $clients->{name}");
	return cmp_ok($done, '>=', $least, "$label: $clients->{name} went on");
}

sub nobody_drains
{
	my $counts = new_counts();
	my $writers = start_writers($node, rate => $rate, seed => $seed % 1000000);
	exact_ok('nobody', $counts, $total * 0.1);
	meaningful_ok('nobody', $counts, 0.2);
	stopped_ok('nobody', $writers, 0);
	drained_ok($node, 'nobody');
	return;
}

sub calls_drain
{
	my $counts = new_counts();
	my $writers = start_writers($node, rate => $rate, seed => $seed % 1000000 + 1);
	my $drains = start_drains($node);
	exact_ok('calls', $counts, $total * 0.44);
	meaningful_ok('calls', $counts, 0.05);
	stopped_ok('calls', $drains, 3);
	stopped_ok('calls', $writers, 100);
	drained_ok($node, 'calls');
	return;
}

# The worker is woken by commits: its nap is longer than this takes.
sub worker_drains
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'index_table'\n");
	$node->restart;
	$node->safe_psql('postgres', "INSERT INTO accounts VALUES (nextval('ids'), 'woken\@x.com', 'Town', 1, '{t1}', 'woken')");
	my $began = time();
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM accounts_by_email WHERE lower = 'woken@x.com'}), 'a commit wakes the worker');
	my $waited = time() - $began;
	note(sprintf('drained %.2f s later', $waited));
	cmp_ok($waited, '<', 30, 'before its nap is over');
	my $counts = new_counts();
	my $writers = start_writers($node, rate => $rate, seed => $seed % 1000000 + 2);
	exact_ok('worker', $counts, $total * 0.4);
	meaningful_ok('worker', $counts, 0.02);
	stopped_ok('worker', $writers, 100);
	is($node->safe_psql('postgres', "SELECT bool_and(index_table.wait_caught_up(index_table, '100 s')) FROM index_table.index_tables"), 't', 'worker: caught up');
	queued_ok($node, 'worker');
	oracle_ok($node, 'postgres', 'worker: in step', 200);
	return;
}

exact_ok('at first', new_counts(), $total * 0.02);
nobody_drains() if $parts{nobody};
calls_drain() if $parts{calls};
worker_drains() if $parts{worker};
exact_ok('in the end', new_counts(), $total * 0.04);
check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
