# What a partition has of a global index: an empty file, until there is something to say that the
# extent map has no room for. Sessions that have seen the file empty, here and on a standby, beside
# VACUUM; files that are copied to another tablespace; crashes; extents that run short.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('files', allows_streaming => 1, conf => "session_preload_libraries = index_table\nindex_table.enable_scan = force\nautovacuum = off\nallow_in_place_tablespaces = on\nhot_standby_feedback = off\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION ''");

# Rows of `k` from 1 on, in turn in partitions 0 to 3.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE t (id int, k int, v text) PARTITION BY LIST (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2);
CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3);
CREATE TABLE t_4 PARTITION OF t FOR VALUES IN (4);
INSERT INTO t SELECT i % 4, i, 'row ' || i FROM generate_series(1, 2000) i;
CREATE INDEX by_k ON t USING global (k) WITH (unique);
CREATE INDEX by_v ON t USING global (v) WITH (method = hash);
CREATE TABLE u (id int, k int) PARTITION BY LIST (id);
CREATE TABLE u_0 PARTITION OF u FOR VALUES IN (0);
CREATE UNLOGGED TABLE u_1 PARTITION OF u FOR VALUES IN (1);
INSERT INTO u SELECT i % 2, i FROM generate_series(1, 100) i;
CREATE INDEX of_u ON u USING global (k) WITH (unique);
});
my $sizes = q{SELECT string_agg((pg_relation_size(relid) / 8192)::text, ' ' ORDER BY relid::regclass::text) FROM pg_partition_tree('by_k') WHERE isleaf};
my $sizes_of_u = $sizes =~ s/by_k/of_u/r;
my $rows = sub { my ($on, $k) = @_; return $on->safe_psql('postgres', "SELECT id || ' ' || v FROM t WHERE k = $k ORDER BY 1"); };

# Asks a session that goes on.
sub ask
{
	my ($session, $sql) = @_;
	$session->{output} = '';
	$session->{input} .= "$sql\n\\echo <done>\n";
	$session->{run}->pump until $session->{output} =~ s/<done>\n//;
	chomp(my $answer = $session->{output});
	return $answer;
}

is($node->safe_psql('postgres', $sizes), '0 0 0 0 0', 'files are empty');
is($node->safe_psql('postgres', $sizes_of_u), '0 1', 'but that of an unlogged partition');
prepare_global_checks($node, 'postgres');
$node->backup('backup');
my $standby = QuickNode->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;

# --- Sessions that have seen the file empty -----------------------------------------------

my $reader = start_session($node, 'postgres', "BEGIN; PREPARE by_k AS SELECT v FROM t WHERE k = \$1; PREPARE by_v AS SELECT k FROM t WHERE v = \$1;");
my $writer = start_session($node, 'postgres', 'BEGIN;');
my $cursor = start_session($node, 'postgres', 'BEGIN;');
my $there = start_session($standby, 'postgres', "BEGIN; PREPARE by_k AS SELECT v FROM t WHERE k = \$1;");
foreach my $k (4, 8, 12) { is(ask($_, "EXECUTE by_k($k);"), "row $k", "row $k is found") foreach $reader, $there; }
ask($writer, "INSERT INTO t VALUES (0, 100000, 'mine');");
is(ask($cursor, "DECLARE c CURSOR FOR SELECT k FROM t WHERE k BETWEEN 1 AND 2000 ORDER BY k; FETCH 5 FROM c;"), join("\n", 1 .. 5), 'a cursor is in the middle');

# The same keys at the same line pointers, after VACUUM has taken those.
my $again = q{DELETE FROM t WHERE id = 0 AND k <= 40;};
my $places = $node->safe_psql('postgres', "SELECT string_agg(ctid::text, ' ' ORDER BY k) FROM t_0 WHERE k <= 40");
ask($cursor, 'COMMIT;');
ask($writer, 'COMMIT; BEGIN;');
$node->safe_psql('postgres', $_) foreach $again, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t_0';
is($node->safe_psql('postgres', $sizes), '2 0 0 0 0', 'what VACUUM has taken rows from has pages');
$node->safe_psql('postgres', "INSERT INTO t SELECT 0, i, 'anew ' || i FROM generate_series(4, 40, 4) i");
is($node->safe_psql('postgres', "SELECT string_agg(ctid::text, ' ' ORDER BY k) FROM t_0 WHERE k <= 40"), $places, 'new rows are at the places of the former');
is(ask($reader, "EXECUTE by_k($_);"), "anew $_", "who has seen the file empty finds row $_") foreach 4, 40;
is(ask($reader, "EXECUTE by_v('anew 8');"), 8, 'and by the other index');
is(ask($reader, "EXECUTE by_v('row 8');"), '', 'and no row that is gone');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(ask($there, "EXECUTE by_k($_);"), "anew $_", "on the standby, too: $_") foreach 4, 40;
like(ask($writer, "INSERT INTO t VALUES (1, 8, 'twice');"), qr/23505/, 'who has written to it when it was empty meets the key that is there anew');
ask($writer, 'ROLLBACK;');
like(sqlstate($node, 'postgres', "INSERT INTO t VALUES (0, 12, 'twice')"), qr/^23505/, 'others, too');
check_global($node, 'postgres', 'with pages made beside readers');
ask($reader, 'COMMIT;');

# --- Copies ---------------------------------------------------------------------------------

my $move = sub { my ($to, @names) = @_; return join '', map { "ALTER INDEX $_ SET TABLESPACE $to;" } @names; };
my $before = $node->safe_psql('postgres', $sizes); # VACUUM has taken what was rolled back
is($before, '2 2 0 0 0', 'two partitions have rows gone');
my @children = split /\n/, $node->safe_psql('postgres', "SELECT relid::regclass FROM pg_partition_tree('by_k') WHERE isleaf ORDER BY 1");
$node->safe_psql('postgres', 'BEGIN;' . $move->('space', @children) . "INSERT INTO t VALUES (1, 200000, 'moved'), (4, 200001, 'moved'); SELECT * FROM t WHERE k = 5; ROLLBACK");
is($node->safe_psql('postgres', $sizes), $before, 'a move that was rolled back leaves files empty');
is($rows->($node, 5), '1 row 5', 'rows are found after it');
check_global($node, 'postgres', 'after a move that was rolled back', exact => 0);
is(ask($reader, "EXECUTE by_k(5);"), 'row 5', 'a session knows the file');
$node->safe_psql('postgres', "ALTER EVENT TRIGGER index_table_ddl_end DISABLE; " . $move->('space', @children) . 'ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS');
is($node->safe_psql('postgres', $sizes), '2 2 1 1 1', 'those that were moved have a page');
is(ask($reader, "EXECUTE by_k(5);"), 'row 5', 'who knew the former file reads the new one');
is($rows->($node, $_), $_ % 4 . " row $_", "row $_ is found after the move") foreach 41 .. 44;
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 200000, 'moved'), (4, 200001, 'moved')");
like(sqlstate($node, 'postgres', "INSERT INTO t VALUES (0, $_, 'twice')"), qr/^23505/, "$_ is unique after the move") foreach 5, 200001;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($rows->($standby, $_), $_ % 4 . " row $_", "row $_ is found on the standby after the move") foreach 41, 42;
check_global($node, 'postgres', 'after a move');
check_global($standby, 'postgres', 'after a move, on the standby', exact => 0);
$node->safe_psql('postgres', $_) foreach 'ALTER INDEX ALL IN TABLESPACE space SET TABLESPACE pg_default', 'DELETE FROM t WHERE id = 1 AND k < 1000',
  'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t_1', "INSERT INTO t SELECT 1, i, 'anew ' || i FROM generate_series(1, 999, 4) i";
is($rows->($node, $_), "1 anew $_", "row $_ after the move back") foreach 5, 997;
check_global($node, 'postgres', 'after moves of all and VACUUM');
$node->safe_psql('postgres', $_) foreach 'TRUNCATE t_1, t_4', 'REINDEX TABLE t_2', 'VACUUM FULL t_3',
  'ALTER TABLE u_1 SET LOGGED', 'ALTER TABLE u_0 SET UNLOGGED';
is($node->safe_psql('postgres', $sizes), '2 0 0 0 0', 'new files are empty again');
is($node->safe_psql('postgres', $sizes_of_u), '1 0', 'as they are for the partition');
check_global($node, 'postgres', 'with new files');

# --- Crashes --------------------------------------------------------------------------------

$node->safe_psql('postgres', "CHECKPOINT; INSERT INTO t SELECT 1 + i % 2, 300000 + i, 'late ' || i FROM generate_series(0, 999) i;
DELETE FROM t WHERE k BETWEEN 300000 AND 300500 AND id = 1");
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t_1');
$node->safe_psql('postgres', "INSERT INTO t SELECT 1, 300000 + i, 'later ' || i FROM generate_series(0, 500, 2) i");
$before = $node->safe_psql('postgres', $sizes);
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', $sizes), $before, 'files are as they were after a crash');
is($rows->($node, 300500), '1 later 500', 'rows are found after a crash');
is($node->safe_psql('postgres', 'SELECT * FROM u WHERE k IN (2, 3)'), '1|3', 'an unlogged partition is empty');
$node->safe_psql('postgres', 'INSERT INTO u SELECT 0, i FROM generate_series(2, 50, 2) i');
is($node->safe_psql('postgres', 'SELECT * FROM u WHERE k IN (2, 3) ORDER BY k'), "0|2\n1|3", 'and takes rows again');
check_global($node, 'postgres', 'after a crash');

# --- More extents than one ------------------------------------------------------------------

# 64 MB: rows of 2 kB, four a page.
$node->safe_psql('postgres', "ALTER TABLE t_4 ALTER v SET STORAGE plain; INSERT INTO t SELECT 4, 1000000 + i, repeat('x', 1900) FROM generate_series(1, 33000) i");
like($node->safe_psql('postgres', $sizes), qr/ 1$/, 'a partition of more than one extent has a page');
is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE k IN (1000001, 1016000, 1032999)"), 3, 'rows of both extents are found');
check_global($node, 'postgres', 'with two extents');
# A second extent of a copy that is rolled back: the first that a session meets of the empty file.
$node->safe_psql('postgres', "ALTER TABLE t_3 ALTER v SET STORAGE plain; BEGIN; ALTER INDEX t_3_k_idx SET TABLESPACE space;
INSERT INTO t SELECT 3, 2000000 + i, repeat('x', 1900) FROM generate_series(1, 33000) i; ROLLBACK");
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE k = 2032999; SELECT v FROM t WHERE k IN (3, 7) ORDER BY k'), "row 3\nrow 7", 'entries of rows that were rolled back in a copy');
is($node->safe_psql('postgres', "SELECT v FROM t WHERE k = 2032999; INSERT INTO t VALUES (3, 2032999, 'mine'); SELECT v FROM t WHERE k = 2032999"), 'mine', 'and of others with their keys');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
check_global($standby, 'postgres', 'on the standby at last', exact => 0);

# --- A file that is new when a sweep ends ---------------------------------------------------

# The sweep has read what the partition's file says, and waits for a scan to leave a page.
$node->safe_psql('postgres', $_) foreach "INSERT INTO t VALUES (0, 5000000, 'held'); DELETE FROM t WHERE id = 2", 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t_2';
$node->safe_psql('postgres', q{CREATE FUNCTION pauses() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END'});
my $waits = sub { my ($kind) = @_; return $node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type ~ '^(?:$kind)\$'"); };
my $holder = start_session($node, 'postgres', '');
ask($holder, 'SELECT pg_advisory_lock(1);');
my $scan = start_command($node, "SELECT id FROM t WHERE v = 'held' AND id = 0 AND pauses()");
ok($waits->('Lock'), 'a scan has a page');
my $sweep = start_command($node, "SELECT index_table.vacuum('by_v') > 0");
ok($waits->('BufferPin|Buffer'), 'that a sweep waits for'); # Buffer: since 19
$node->safe_psql('postgres', 'TRUNCATE t_2');
ask($holder, "SELECT pg_advisory_unlock(1);");
is(end_command($scan) . $scan->{output}, "0\n", 'the scan finds its row');
is(end_command($sweep), '', 'it ends, though a partition has got another file');
is($sweep->{output}, "t\n", 'and has removed entries');
$node->safe_psql('postgres', q{INSERT INTO t SELECT 2, 4000000 + i, 'row ' || i FROM generate_series(1, 100) i});
is($rows->($node, 4000007), '2 row 7', 'rows of the new file are found');
check_global($node, 'postgres', 'after a sweep beside TRUNCATE');
$standby->stop;
$node->stop;
done_testing();
