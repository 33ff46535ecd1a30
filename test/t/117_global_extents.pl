# Places that rows of global indexes are found by, where they are given while somebody looks: a partition
# of more than one extent that leaves in the transaction that made it; verify() beside an online build;
# claims whose transaction ids have come round.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('extents', conf => "session_preload_libraries = index_table\nautovacuum = off\nfsync = off\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
$node->safe_psql('postgres', 'CREATE EXTENSION index_table');
my $force = 'SET index_table.enable_scan = force; SET enable_seqscan = off;';

# --- A partition that leaves in the transaction that made it -----------------------------

# 80 MB: rows of 2 kB, four a page.
$node->safe_psql('postgres', q{
CREATE TABLE e (id int, k int, v text) PARTITION BY LIST (id);
CREATE TABLE e_1 PARTITION OF e FOR VALUES IN (1);
CREATE INDEX e_k ON e USING global (k);
INSERT INTO e VALUES (1, 3, 'e');
BEGIN;
CREATE TABLE s PARTITION OF e FOR VALUES IN (2, 3) PARTITION BY LIST (id);
CREATE TABLE s_2 PARTITION OF s FOR VALUES IN (2);
CREATE TABLE s_3 PARTITION OF s FOR VALUES IN (3);
ALTER TABLE s_3 ALTER v SET STORAGE plain;
INSERT INTO e SELECT 2, i, 's' FROM generate_series(1, 10) AS i;
INSERT INTO e SELECT 3, i, repeat('x', 1900) FROM generate_series(1, 40000) AS i;
ALTER TABLE e DETACH PARTITION s;
COMMIT;});
is($node->safe_psql('postgres', "$force SELECT id, k FROM e WHERE k = 3"), '1|3', 'what stays is found');
is($node->safe_psql('postgres', "$force SELECT id, k FROM s WHERE k IN (3, 39000) ORDER BY 1, 2"), "2|3\n3|3\n3|39000", 'what has left is found');
$node->safe_psql('postgres', "INSERT INTO s VALUES (2, 77777, 'n'), (3, 77777, 'n')");
is($node->safe_psql('postgres', "$force SELECT id FROM s WHERE k = 77777 ORDER BY id"), "2\n3", 'and what comes to it');
check_global($node, 'postgres', 'detached');
$node->safe_psql('postgres', 'ALTER TABLE e ATTACH PARTITION s FOR VALUES IN (2, 3)');
is($node->safe_psql('postgres', "$force SELECT id, k FROM e WHERE k IN (39000, 77777) ORDER BY 1, 2"), "2|77777\n3|39000\n3|77777", 'attached, it is found again');
check_global($node, 'postgres', 'attached');
$node->safe_psql('postgres', 'DROP TABLE e');

# --- verify() beside an online build ------------------------------------------------------

# Both stop at the first row, and the build goes on first, to rows of a second extent.
$node->safe_psql('postgres', q{
CREATE TABLE w (id int, k int, v text) PARTITION BY LIST (id);
CREATE TABLE w_1 PARTITION OF w FOR VALUES IN (1);
ALTER TABLE w_1 ALTER v SET STORAGE plain;
INSERT INTO w SELECT 1, i, repeat('x', 1900) FROM generate_series(1, 40000) AS i;
CREATE FUNCTION waits(k int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF k = 1 THEN PERFORM pg_advisory_xact_lock_shared(CASE current_setting('application_name') WHEN 'build' THEN 1 ELSE 2 END); END IF;
	RETURN true;
END $$;});
my $waiting = sub { my ($n) = @_; return $node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'"); };
my $build_lock = hold_lock($node, 'SELECT pg_advisory_lock(1);', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted});
my $verify_lock = hold_lock($node, 'SELECT pg_advisory_lock(2);', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 2 AND granted});
my $build = start_session($node, 'postgres', "SET application_name = 'build'; CREATE INDEX CONCURRENTLY w_k ON w USING global (k) WHERE waits(k);\n\\q");
ok($waiting->(1), 'a build waits');
my $verify = start_command($node, "SELECT count(*) > 0, count(*) FILTER (WHERE problem <> 'missing') FROM index_table.verify('w_k')");
ok($waiting->(2), 'verify() waits');
release_lock($build_lock);
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'build' AND wait_event = 'virtualxid'"), 'the build goes on, and waits for who was there before');
release_lock($verify_lock);
is(end_command($verify), '', 'verify() ends');
is(end_session($build), '', 'and so does the build');
is($verify->{output}, "t|0\n", 'which misses entries that came later');
is($node->safe_psql('postgres', "SELECT count(*) FROM index_table.verify('w_k')"), '0', 'none are missing');
$node->safe_psql('postgres', 'DROP TABLE w');

# --- Claims that are left behind ------------------------------------------------------------

$node->safe_psql('postgres', q{
CREATE TABLE c (id int, k int, v int) PARTITION BY LIST (id);
CREATE TABLE c_1 PARTITION OF c FOR VALUES IN (1);
CREATE UNIQUE INDEX ON c_1 (v);
CREATE INDEX c_k ON c USING global (k) WITH (unique);
INSERT INTO c VALUES (1, 1, 1);});
like(sqlstate($node, 'postgres', 'INSERT INTO c VALUES (1, 2, 1) ON CONFLICT (k) DO NOTHING'), qr/^23505/, 'an upsert fails after it has claimed its key');
foreach my $round (1 .. 2)
{
	$node->safe_psql($_, 'VACUUM FREEZE') foreach 'template1', 'postgres';
	$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
	$node->safe_psql('template0', 'VACUUM FREEZE');
	$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS false; CHECKPOINT');
	# Half of all ids, which has pages of the commit log of its own.
	my $next = ($node->safe_psql('postgres', 'SELECT txid_snapshot_xmax(txid_current_snapshot()) % 4294967296') + 2_000_000_000) % 4294967296;
	$next -= $next % (1024 * 1024);
	$node->stop;
	system_or_bail('pg_resetwal', '-x', $next, $node->data_dir);
	my $page = $node->data_dir . sprintf('/pg_xact/%04X', $next / (1024 * 1024));
	append_to_file($page, "\0" x 262144) unless -e $page;
	$node->start;
}
is(sqlstate($node, 'postgres', 'INSERT INTO c VALUES (1, 2, 2)'), '', 'two thousand million transactions later twice, the key is free');
is(sqlstate($node, 'postgres', 'INSERT INTO c VALUES (1, 3, 3) ON CONFLICT (k) DO NOTHING'), '', 'others are claimed');
check_global($node, 'postgres', 'with ids that have come round');

$node->stop;
done_testing();
