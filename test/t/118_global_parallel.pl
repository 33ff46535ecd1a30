# Trees that parallel workers build together: all rows are in them once, whatever the partitions are
# of, and workers are asked for where they may compute the keys.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('parallel', conf => "log_min_messages = debug1\nmin_parallel_table_scan_size = 1MB\nmax_parallel_maintenance_workers = 3\nmax_parallel_workers = 8\nmax_worker_processes = 16\nmaintenance_work_mem = 256MB\nautovacuum = off\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);

# Many rows, none, one a page over more than an extent, dead ones, chains of versions, a table with
# columns of its own, one with partitions, one that is unlogged, one of another owner.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE ROLE other;
CREATE TABLE t (id int, k int, v text) PARTITION BY LIST (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 (gone int, v text, k int, id int);
ALTER TABLE t_2 DROP gone;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES IN (2);
CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3) PARTITION BY HASH (k);
CREATE TABLE t_3_0 PARTITION OF t_3 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t_3_1 PARTITION OF t_3 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE UNLOGGED TABLE t_4 PARTITION OF t FOR VALUES IN (4);
CREATE TABLE t_5 PARTITION OF t FOR VALUES IN (5);
CREATE TABLE wide PARTITION OF t FOR VALUES IN (6) WITH (fillfactor = 10);
ALTER TABLE t_5 OWNER TO other;
ALTER TABLE wide ALTER v SET STORAGE PLAIN;
INSERT INTO t SELECT i % 5, i, 'row ' || i FROM generate_series(1, 20000) i WHERE i % 5 <> 1;
INSERT INTO t SELECT 6, -i, repeat('x', 4200) FROM generate_series(1, 8500) i;
INSERT INTO t SELECT 5, 30000 + i FROM generate_series(1, 100) i;
DELETE FROM t WHERE k % 7 = 0;
UPDATE t SET v = 'anew' WHERE k % 11 = 0 AND k > 0;
CREATE FUNCTION safe_key(int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS 'BEGIN RETURN $1 / 10; END';
CREATE FUNCTION unsafe_key(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 / 10; END';
});
cmp_ok($node->safe_psql('postgres', q{SELECT pg_relation_size('wide') / 8192}), '>', 8192, 'a partition has several extents');

# builds(what, workers, statement): how many PostgreSQL asks for to build the tree
sub builds
{
	my ($what, $workers, $sql) = @_;
	my $start = -s $node->logfile;
	$node->safe_psql('postgres', $sql);
	my @trees = slurp_file($node->logfile, $start) =~ /building index "index_table_global_\d+_tree" on table "[^"]*" (.*)/g;
	is_deeply(\@trees, [ $workers ? "with request for $workers parallel workers" : 'serially' ], "$what is built " . ($workers ? 'with workers' : 'without'));
}

builds('a unique key', 3, 'CREATE INDEX by_k ON t USING global (k) WITH (unique)');
builds('a key of few values', 3, 'CREATE INDEX by_id ON t USING global (id, v COLLATE "C" DESC) WHERE k > 0');
builds('a key that workers may compute', 3, 'CREATE INDEX by_safe ON t USING global (safe_key(k))');
builds('a key that they may not', 0, 'CREATE INDEX by_unsafe ON t USING global (unsafe_key(k))');
builds('nor decide about', 0, 'CREATE INDEX by_part ON t USING global (k, id) WHERE unsafe_key(k) > 0');
builds('a key that they may not compute, but are asked for', 1, 'SET min_parallel_table_scan_size = 0; CREATE INDEX by_unsafe_again ON t USING global (unsafe_key(k), id)');
builds('a small table', 0, 'CREATE TABLE small (id int, k int) PARTITION BY LIST (id); CREATE TABLE small_1 PARTITION OF small DEFAULT; INSERT INTO small SELECT i, i FROM generate_series(1, 100) i; CREATE INDEX small_by_k ON small USING global (k) WITH (unique)');
builds('a small table that workers are asked for', 3, 'SET min_parallel_table_scan_size = 0; CREATE INDEX small_by_id ON small USING global (id) WITH (unique)');
$node->safe_psql('postgres', 'DROP INDEX by_part; ANALYZE t');

my $rows = $node->safe_psql('postgres', 'SET index_table.enable_scan = off; SELECT k FROM t ORDER BY k');
my $forced = 'SET index_table.enable_scan = force; SET enable_seqscan = off;';
is($node->safe_psql('postgres', "$forced SELECT k FROM t WHERE k > -100000 ORDER BY k"), $rows, 'all rows are found in their order');
foreach my $where ('k = 4400', 'k = -8500', 'k = 30001', "id = 3 AND v = 'anew' AND k > 0", 'safe_key(k) = 100', 'unsafe_key(k) = 200')
{
	my @answers = map { $node->safe_psql('postgres', "$_ SELECT id, k FROM t WHERE $where ORDER BY k, id") } $forced, 'SET index_table.enable_scan = off;';
	isnt($answers[0], '', "there are rows of $where");
	is($answers[0], $answers[1], 'the same as without global indexes');
}

# A key that is there twice, in partitions of different processes.
$node->safe_psql('postgres', q{DROP INDEX by_k; INSERT INTO t VALUES (0, 30001, 'twice')});
my ($status, $out, $error) = $node->psql('postgres', 'CREATE INDEX by_k ON t USING global (k) WITH (unique)');
like($error, qr/could not create unique index.*\n.*Key \(k\)=\(30001\) is duplicated/, 'a duplicate is found');
$node->safe_psql('postgres', q{DELETE FROM t WHERE v = 'twice'; CREATE INDEX by_k ON t USING global (k) WITH (unique); INSERT INTO t SELECT 1, i FROM generate_series(40000, 40100) i; DELETE FROM t WHERE k % 3 = 0});
check_global($node, 'postgres', 'in the end');
$node->stop;
done_testing();
