# Global indexes under a load that uses line pointers again and again with the same keys, while
# VACUUM, sweeps and autovacuum are at work and backends or the server die; on a standby, which is
# promoted at the end; and with more passes of VACUUM than there are generations.
#
#   GLOBAL_CRASH_SEED     repeats a run (what runs side by side repeats only roughly)
#   GLOBAL_CRASH_ROUNDS   (12)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $seed = $ENV{GLOBAL_CRASH_SEED} // int(rand(2**31));
my $rounds = how_many('GLOBAL_CRASH_ROUNDS', 12);
note("GLOBAL_CRASH_SEED=$seed");
diag("GLOBAL_CRASH_SEED=$seed") if $rounds > 12;

my $node = new_loaded_node('crash', q{
deadlock_timeout = 50ms
checkpoint_timeout = 30s
hot_standby_feedback = off
max_standby_streaming_delay = 0
});
plan skip_all => 'no amcheck' unless has_amcheck($node);

# Keys are few, so that they come back; the last partition is unlogged.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE t (id int, k int, v int, filler text) PARTITION BY LIST (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
CREATE TABLE t_1 (filler text, gone int, v int, k int, id int);
ALTER TABLE t_1 DROP COLUMN gone;
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2);
CREATE UNLOGGED TABLE t_3 PARTITION OF t FOR VALUES IN (3);
CREATE INDEX by_k ON t USING global (k) WITH (unique);
CREATE INDEX by_v ON t USING global (v) INCLUDE (k);
CREATE INDEX by_both ON t USING global (k DESC, v) WITH (vacuum = eager);
CREATE INDEX by_gin ON t USING global ((ARRAY[k % 50, v])) WITH (method = gin, gin_pending_list_limit = 64);
CREATE INDEX by_gist ON t USING global ((point(k, v))) WITH (method = gist);
CREATE INDEX by_quad ON t USING global ((point(k, v))) WITH (method = spgist, vacuum = eager);
CREATE INDEX by_hash ON t USING global (v) WITH (method = hash);
CREATE FUNCTION churn(how_many int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	key int;
BEGIN
	FOR i IN 1 .. how_many LOOP
		key := random() * 2000;
		BEGIN
			CASE (random() * 5)::int
			WHEN 0, 1 THEN DELETE FROM t WHERE k = key AND id = (random() * 3)::int;
			WHEN 2 THEN UPDATE t SET id = (random() * 3)::int, v = key % 7 WHERE k = key AND id = (random() * 3)::int;
			WHEN 3 THEN UPDATE t SET k = key, v = key % 7 WHERE id = (random() * 3)::int AND k = key + 1;
			ELSE INSERT INTO t VALUES ((random() * 3)::int, key, key % 7, repeat('x', (random() * 100)::int));
			END CASE;
		EXCEPTION WHEN unique_violation OR deadlock_detected OR serialization_failure THEN NULL;
		END;
	END LOOP;
END $$;
} . attempt_sql() . q{
CREATE INDEX ON t (k);
SELECT churn(3000);
});
prepare_global_checks($node, 'postgres');
my @storages = split /\n/, $node->safe_psql('postgres', 'SELECT storage FROM global_check.roots ORDER BY 1');

my $standby = start_standby($node);

# --- Crashes ----------------------------------------------------------------------------

srand($seed);
my @load = (
	[ 60, 'SELECT churn(5)' ],
	[ 5, "BEGIN;\nSELECT churn(5);\nROLLBACK" ],
	(map { [ 2, 'VACUUM (INDEX_CLEANUP on, TRUNCATE ' . $_ % 2 . ") t_$_" ] } 0 .. 3),
	(map { [ 1, "VACUUM $_" ] } @storages),
	[ 1, "SELECT attempt('TRUNCATE t_2', random() < 0.8)" ],
	[ 1, "SELECT attempt('REINDEX TABLE t_1', random() < 0.5)" ]);

# What amcheck does not know: they find what the partitions have.
sub check_methods
{
	my ($on, $table, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @probes = map { ("ARRAY[k % 50, v] @> ARRAY[$_]", "point(k, v) <@ box(point($_ * 20, 0), point($_ * 20 + 70, $_))", "v = $_") } 0, 1, 3, 7;
	my ($found, $there) = map { $on->safe_psql('postgres', "LOAD 'index_table'; SET index_table.enable_scan = $_;\n"
		. join("\n", map { "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM $table AS t WHERE $_;" } @probes)) } 'force', 'off';
	is($found, $there, "$label: every row is found");
	return;
}

my %died = (server => 0, backend => 0);
foreach my $round (1 .. $rounds)
{
	my $load = start_load($node, 6, @load);
	sleep(0.3 + rand(1.5));
	if (rand() < 0.5)
	{
		$node->stop('immediate');
		$node->start;
		$died{server}++;
	}
	else
	{
		my $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'autovacuum worker') AND query ~ 'churn|VACUUM|attempt' ORDER BY query ~ 'VACUUM' AND random() < 0.5 DESC, random() LIMIT 1");
		if ($pid)
		{
			my $offset = -s $node->logfile;
			kill 'KILL', $pid;
			await_reinitialization($node, $offset);
			$died{backend}++;
		}
	}
	stop_load($load);
	wait_until_up($node);
	check_global($node, 'postgres', "round $round", exact => $round % 3 == 0) or last;
	check_methods($node, 't', "round $round");
	is(join("\n", grep { !/canceling statement|terminating connection/ } $load->{out} =~ /((?:ERROR|PANIC): .*)/g), '', "round $round: no errors");
}
ok($died{server} && $died{backend}, 'server and backends have died') if $rounds >= 12;
diag(join(', ', map { "$_ died $died{$_} times" } sort keys %died));

# --- Load without crashes, and autovacuum ------------------------------------------------

$node->safe_psql('postgres', 'SELECT pg_stat_reset()');
my $load = start_load($node, 6, @load);
sleep(3);
stop_load($load);
foreach my $storage (@storages[ 0, 1 ])
{
	$node->safe_psql('postgres', 'SELECT churn(3000)');
	ok($node->poll_query_until('postgres', "SELECT last_autovacuum IS NOT NULL FROM pg_stat_all_tables WHERE relid = '$storage'::regclass"),
		"autovacuum sweeps $storage");
}
check_global($node, 'postgres', 'after load');
check_methods($node, 't', 'after load');

# --- More passes than generations ---------------------------------------------------------

$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->reload;
$node->safe_psql('postgres', q{
CREATE TABLE g (id int, k int, v int) PARTITION BY LIST (id);
CREATE TABLE g_0 PARTITION OF g FOR VALUES IN (0);
CREATE TABLE g_1 PARTITION OF g FOR VALUES IN (1);
CREATE INDEX g_by_k ON g USING global (k) WITH (unique);
CREATE INDEX g_by_v ON g USING global (v);
CREATE INDEX g_by_gin ON g USING global ((ARRAY[k % 50, v])) WITH (method = gin);
CREATE INDEX g_by_gist ON g USING global ((point(k, v))) WITH (method = gist);
CREATE INDEX g_by_hash ON g USING global (v) WITH (method = hash);
INSERT INTO g SELECT i % 2, i, i % 5 FROM generate_series(1, 2000) i;
VACUUM g;
});
my $tree = $node->safe_psql('postgres', "SELECT tree FROM global_check.roots WHERE root = 'g_by_k'::regclass");
my @sizes;
my $unchecked = '';
foreach my $pass (1 .. 50)
{
	# Line pointers get the rows of the same keys again.
	$node->safe_psql('postgres', "DELETE FROM g WHERE k % 4 <> $pass % 4");
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) g');
	$node->safe_psql('postgres', "INSERT INTO g SELECT i % 2, i, i % 5 FROM generate_series(1, 2000) i WHERE i % 4 <> $pass % 4");
	push @sizes, $node->safe_psql('postgres', "SELECT pg_relation_size('$tree') / 8192");
	$unchecked .= global_problems($node, 'postgres', exact => 0) if $pass % 5 == 0;
}
is($unchecked, '', 'entries of all generations');
check_methods($node, 'g', 'entries of all generations');
note("pages of the tree, by passes: @sizes");
cmp_ok($sizes[-1], '<=', 1.5 * $sizes[15], 'the tree has stopped growing, though nobody has swept it but VACUUM of partitions');
check_global($node, 'postgres', 'after 50 passes');

# --- The standby ---------------------------------------------------------------------------

$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
check_global($standby, 'postgres', 'standby', exact => 0);
check_methods($standby, 'g', 'standby');
$standby->promote;
check_global($standby, 'postgres', 'promoted');
$standby->safe_psql('postgres', 'SELECT churn(2000)');
check_global($standby, 'postgres', 'promoted, and changed');
check_methods($standby, $_, "promoted, $_") foreach 't', 'g';

$standby->stop;
$node->stop;
done_testing();
