# Whatever the extension does is cancelled at random moments, by statement_timeout, lock_timeout,
# pg_cancel_backend and pg_terminate_backend: nothing is left half-made, nothing leaks, and index tables
# and global indexes are in step.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use Work;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{CANCELS_SEED} // int(rand(1 << 30));
my $count = how_many('CANCELS_COUNT', 150);
note "CANCELS_SEED=$seed CANCELS_COUNT=$count";
diag "CANCELS_SEED=$seed";
srand($seed);

my $node = new_node('cancels', conf => "shared_preload_libraries = index_table\nlog_min_messages = warning\nindex_table.drain_naptime = 1\nmax_worker_processes = 20\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
prepare_work($node);
my %work = work();
# How long each takes, when nobody disturbs it.
my %duration;
foreach my $name (sort keys %work)
{
	my ($sql, $undo) = map { defined $_ ? s/NUMBER/0/gr : '' } @{ $work{$name} };
	my $start = time;
	my ($status, $out, $error) = $node->psql('postgres', $sql, on_error_stop => 1);
	$duration{$name} = time - $start;
	is($error, '', "$name is possible");
	$node->safe_psql('postgres', $undo) if $undo;
}
my $before = work_traces($node);

my (%completed, %cancelled, @wrong);
my $worker_kills = 0;
foreach my $round (1 .. $count)
{
	my $name = (sort keys %work)[ rand(keys %work) ];
	my ($sql, $undo) = map { defined $_ ? s/NUMBER/$round/gr : '' } @{ $work{$name} };
	my $way = (qw(statement_timeout statement_timeout statement_timeout cancel lock_timeout terminate))[ rand(6) ];
	my $moment = rand($duration{$name} * 1.1);
	my $ms = 1 + int($moment * 1000);
	my $in_subtransaction = $sql !~ /BEGIN|CALL|CONCURRENTLY|VACUUM|CLUSTER|REINDEX|wait_caught_up/ && rand() < 0.4;
	$sql = "BEGIN; INSERT INTO plain VALUES (1000 + $round, -$round); SAVEPOINT s; $sql; ROLLBACK TO s; COMMIT" if $in_subtransaction;
	my $lock;
	if ($way eq 'lock_timeout')
	{
		my ($what, $mode) = @{ ([ 'customers_1', 'SHARE ROW EXCLUSIVE' ], [ 'customers_1', 'ACCESS EXCLUSIVE' ], [ 'customers_by_phone', 'ACCESS EXCLUSIVE' ], [ 'customers', 'SHARE' ])[ rand(4) ] };
		$lock = hold_lock($node, "BEGIN; LOCK TABLE $what IN $mode MODE;", "SELECT count(*) > 0 FROM pg_locks WHERE relation = '$what'::regclass AND mode ~ '^(AccessExclusive|ShareRowExclusive|Share)Lock\$' AND granted");
	}
	my $settings = $way eq 'statement_timeout' ? "SET statement_timeout = $ms;" : $way eq 'lock_timeout' ? 'SET lock_timeout = 5;' : '';
	my ($status, $out, $error);
	if ($way eq 'cancel' || $way eq 'terminate')
	{
		my $session = { output => '', errors => '' };
		local $ENV{PGAPPNAME} = 'cancelled';
		$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres') ], '<', \$sql, '>', \$session->{output}, '2>', \$session->{errors}, IPC::Run::timeout(300));
		sleep($moment);
		$node->safe_psql('postgres', "SELECT pg_${way}_backend(pid) FROM pg_stat_activity WHERE application_name = 'cancelled' AND pid <> pg_backend_pid()");
		eval { $session->{run}->finish };
		# Where it ends before psql has asked for anything, verbosity is not set yet.
		$error = $session->{errors} =~ s/^FATAL:  (?=terminating connection due to administrator command$)/FATAL:  57P01: /mr;
	}
	else
	{
		($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$settings $sql");
	}
	release_lock($lock) if $lock;
	if ($error =~ /ERROR:\s+(\w{5})|FATAL:\s+(\w{5})|closed the connection|connection to server was lost/)
	{
		$cancelled{$name}++;
		my @codes = $error =~ /(?:ERROR|FATAL):\s+(\w{5})/g;
		push @wrong, "round $round, $name, $way: $error" if grep { !/^(57014|55P03|57P01|25P01|25P02|3B001)$/ } @codes;
	}
	else
	{
		$completed{$name}++;
	}
	if ($undo)
	{
		my ($undone, $out_of_it, $problem) = $node->psql('postgres', $undo, on_error_stop => 1);
		push @wrong, "round $round, $name, $way: undoing: $problem" if $problem;
	}
	my $after = work_traces($node);
	if ($after ne $before)
	{
		push @wrong, "round $round, $name, $way, after $ms ms: $before became $after\n$error";
		$before = $after;
	}
	# A worker that is killed is started again.
	if ($round % 40 == 0)
	{
		$worker_kills += $node->safe_psql('postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type LIKE '%index_table%'});
	}
	last if @wrong > 5;
}
is(join("\n", @wrong), '', "nothing is half-made, CANCELS_SEED=$seed");
diag(sprintf('%d cancelled, %d completed, %d workers ended', eval { my $n = 0; $n += $_ foreach values %cancelled; $n }, eval { my $n = 0; $n += $_ foreach values %completed; $n }, $worker_kills));
note(join("\n", map { sprintf('%-30s %4d cancelled %4d completed', $_, $cancelled{$_} // 0, $completed{$_} // 0) } sort keys %work));
cmp_ok(scalar(keys %cancelled), '>', $count >= 400 ? 20 : 0, 'of many kinds some were cancelled');
is(log_problems($node), '', 'nothing leaks');
check_work($node);
$node->stop;
done_testing();
