# Global indexes built by CREATE INDEX CONCURRENTLY while clients insert, delete, update (HOT, too),
# move rows, roll back, vacuum, truncate, reindex, create, attach and detach partitions; builds that
# are cancelled, or die with their backend or the server, and are completed or dropped; and their
# standby. Keys are unique, which an index that is always there sees to: a build must never take two
# versions of a row for two rows.
#
#   GLOBAL_ONLINE_SEED     repeats a run (what runs side by side repeats only roughly)
#   GLOBAL_ONLINE_ROUNDS   (6)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $seed = $ENV{GLOBAL_ONLINE_SEED} // int(rand(2**31));
my $rounds = how_many('GLOBAL_ONLINE_ROUNDS', 6);
note("GLOBAL_ONLINE_SEED=$seed");
diag("GLOBAL_ONLINE_SEED=$seed") if $rounds > 12;

my $node = new_loaded_node('online', q{
deadlock_timeout = 100ms
maintenance_work_mem = 1MB
});
plan skip_all => 'no amcheck' unless has_amcheck($node);

$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE t (id int, k int, v int, hot int DEFAULT 0, filler text) PARTITION BY LIST (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0) WITH (fillfactor = 70);
CREATE TABLE t_1 (filler text, gone int, hot int DEFAULT 0, v int, k int, id int);
ALTER TABLE t_1 DROP COLUMN gone;
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2, 3) PARTITION BY LIST (id);
CREATE TABLE t_2_2 PARTITION OF t_2 FOR VALUES IN (2);
CREATE UNLOGGED TABLE t_2_3 PARTITION OF t_2 FOR VALUES IN (3);
CREATE INDEX always ON t USING global (k) WITH (unique);
CREATE INDEX ON t (k);
CREATE FUNCTION churn(how_many int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	key int;
BEGIN
	FOR i IN 1 .. how_many LOOP
		key := random() * 5000;
		BEGIN
			CASE (random() * 7)::int
			WHEN 0, 1 THEN DELETE FROM t WHERE k = key AND id = (random() * 3)::int;
			WHEN 2 THEN UPDATE t SET id = (random() * 3)::int, v = key % 7 WHERE k = key AND id < 4;
			WHEN 3 THEN UPDATE t SET k = key, v = key % 7 WHERE id = (random() * 3)::int AND k = key + 1;
			WHEN 4, 5 THEN UPDATE t SET hot = hot + 1 WHERE k = key AND id < 4;
			ELSE INSERT INTO t VALUES ((random() * 3)::int, key, key % 7, 0, repeat('x', (random() * 100)::int));
			END CASE;
		EXCEPTION WHEN unique_violation OR deadlock_detected THEN NULL;
		END;
	END LOOP;
END $$;
} . attempt_sql(qw(unique_violation duplicate_table undefined_table wrong_object_type check_violation object_not_in_prerequisite_state)) . q{
SELECT churn(20000);
UPDATE t SET v = v + 1 WHERE k % 3 = 0;
VACUUM ANALYZE t;
});
prepare_global_checks($node, 'postgres');

my $standby = start_standby($node);

# --- The load -----------------------------------------------------------------------------

srand($seed);
my @load = (
	[ 60, 'SELECT churn(5)' ],
	[ 5, "BEGIN;\nSELECT churn(5);\nROLLBACK" ],
	[ 2, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM t WHERE v = 3;\n\\sleep 20 ms\nSELECT count(*) FROM t WHERE v = 3;\nCOMMIT" ],
	(map { [ 2, "VACUUM (INDEX_CLEANUP on, TRUNCATE off) $_" ] } qw(t_0 t_1 t_2_2 t_2_3)),
	[ 1, "SELECT attempt('TRUNCATE t_2_2', random() < 0.9)" ],
	[ 1, "SELECT attempt('REINDEX TABLE t_1', random() < 0.5)" ],
	[ 1, "SELECT attempt('CREATE TABLE IF NOT EXISTS t_4 PARTITION OF t FOR VALUES IN (4)', random() < 0.3)" ],
	[ 1, "SELECT attempt('INSERT INTO t SELECT 4, i, i % 7 FROM generate_series(6000, 6100) i WHERE to_regclass(''t_4'') IS NOT NULL', false)" ],
	[ 1, "SELECT attempt('ALTER TABLE t DETACH PARTITION t_4', random() < 0.3)" ],
	[ 1, "SELECT attempt('ALTER TABLE t ATTACH PARTITION t_4 FOR VALUES IN (4)', random() < 0.3)" ],
	[ 1, "SELECT attempt('DROP TABLE t_4', random() < 0.3)" ]);

# --- Builds -------------------------------------------------------------------------------

my %indexes = (
	online_k => 'ON t USING global (k) WITH (unique)',
	online_v => 'ON t USING global (v) INCLUDE (k)',
	online_part => 'ON t USING global (v DESC, k) WHERE k % 2 = 0',
	online_eager => 'ON t USING global ((k + v)) WITH (vacuum = eager)');

sub start_build
{
	my ($name) = @_;
	my %build = (name => $name, out => '');
	my $create = "INDEX CONCURRENTLY $name $indexes{$name}";
	my $sql = rand() < 0.5 ? "CREATE $create" : "CALL index_table.create_index_concurrently('CREATE $create')";
	$build{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SET application_name = builder", '-c', $sql ],
		'<', \'', '>&', \$build{out}, IPC::Run::timeout(300));
	return \%build;
}

sub finish_build
{
	my ($build) = @_;
	$build->{run}->finish;
	return $build->{out};
}

sub builders { return join ', ', map { chomp; $_ } split /\n/, $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'builder' AND state = 'active'"); }

sub incomplete { return split /\n/, $node->safe_psql('postgres', 'SELECT index FROM index_table.global_indexes WHERE NOT is_built ORDER BY 1'); }

# What is not complete is completed, beside the load or without, or dropped.
sub mend
{
	foreach my $index (incomplete())
	{
		my $command = rand() < 0.6 ? "REINDEX INDEX $index" : "DROP INDEX $index";
		my ($result, $out, $err) = (1, '', '');
		foreach (1 .. 20) # deadlocks with the load
		{
			($result, $out, $err) = $node->psql('postgres', $command);
			last if $result == 0 || $err !~ /deadlock/;
		}
		is($err, '', $command);
	}
	return;
}

my %ended = map { $_ => 0 } qw(complete cancelled backend server);
foreach my $round (1 .. $rounds)
{
	my $load = start_load($node, 5, @load);
	my @names = grep { $node->safe_psql('postgres', "SELECT to_regclass('$_') IS NULL") eq 't' } sort keys %indexes;
	my @chosen = (splice(@names, int(rand(@names)), 1), rand() < 0.4 && @names ? $names[ int(rand(@names)) ] : ());
	my @builds = map { start_build($_) } @chosen;
	my $end = $round <= 4 ? (qw(complete cancelled backend server))[ $round - 1 ] : (qw(complete complete complete cancelled backend server))[ int(rand(6)) ];
	sleep(rand(0.5)) if $end ne 'complete';
	my $allowed = qr/deadlock detected/;
	if ($end eq 'cancelled')
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'builder'");
		$allowed = qr/deadlock detected|canceling statement/;
	}
	elsif ($end eq 'backend')
	{
		my ($pid) = split /, /, builders();
		if ($pid)
		{
			my $offset = -s $node->logfile;
			kill 'KILL', $pid;
			await_reinitialization($node, $offset);
		}
		$allowed = qr/./;
	}
	elsif ($end eq 'server')
	{
		$node->stop('immediate');
		$node->start;
		$allowed = qr/./;
	}
	$ended{$end}++;
	my @out = map { finish_build($_) } @builds;
	note(grep { /deadlock/ } @out);
	my @trouble = grep { $_ !~ $allowed } map { /((?:ERROR|FATAL|PANIC): .*)/g } @out;
	is(join("\n", @trouble), '', "round $round: @chosen, $end");
	wait_until_up($node);
	my $beside = rand() < 0.5;
	mend() if $beside;
	stop_load($load);
	mend() if !$beside;
	is(join("\n", grep { !/canceling statement|terminating connection|deadlock detected/ } $load->{out} =~ /((?:ERROR|PANIC): .*)/g), '', "round $round: no errors of clients");
	check_global($node, 'postgres', "round $round") or last;
	foreach my $scan (['k < 3000', 'online_k'], ['v = 3', 'online_v'], ['k % 2 = 0 AND v > 4', 'online_part'], ['k + v = 77', 'online_eager'])
	{
		my ($condition, $name) = @$scan;
		my ($force, $off) = map { $node->safe_psql('postgres', "SET index_table.enable_scan = $_; SELECT count(*), sum(k), sum(id), sum(hot) FROM t WHERE $condition") } qw(force off);
		is($force, $off, "round $round: $condition");
	}
	# Room for others; half of them are built anew.
	$node->safe_psql('postgres', "DROP INDEX IF EXISTS $_") foreach grep { rand() < 0.5 } sort keys %indexes;
	$node->safe_psql('postgres', 'DROP INDEX ' . (sort keys %indexes)[ int(rand(4)) ])
	  if $node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname ~ '^online_' AND relkind = 'I'") == 4;
	if ($node->safe_psql('postgres', 'SELECT count(*) < 3000 FROM t') eq 't')
	{
		$node->safe_psql('postgres', 'SELECT churn(5000)');
	}
}
note(join(', ', map { "$_: $ended{$_}" } sort keys %ended));

# --- The standby ---------------------------------------------------------------------------

my $build = start_build((grep { $node->safe_psql('postgres', "SELECT to_regclass('$_') IS NULL") eq 't' } sort keys %indexes)[0]);
is(finish_build($build), '', "$build->{name}, for the standby");
$node->wait_for_catchup($standby);
check_global($standby, 'postgres', 'standby', exact => 0);
$standby->promote;
check_global($standby, 'postgres', 'promoted');

$standby->stop;
$node->stop;
done_testing();
