# A little of everything, over a few rows: what is run where everything is slow, under valgrind and with
# caches that do not last (see CONTRIBUTING).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('tour', conf => "shared_preload_libraries = index_table\nindex_table.drain_naptime = 0\nindex_table.vacuum_naptime = 0\nlog_min_messages = warning\nlog_line_prefix = '%m [%p] %e '\n");
my @identity = (copies => ['id'], identity => 1);

# Each step in a session of its own, with what it is to print.
sub step_ok
{
	my ($label, $sql, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $out, $error) = $node->psql('postgres', $sql, on_error_stop => 1);
	is("$out$error", $expected // '', $label);
	return;
}

step_ok('tables', q{
CREATE EXTENSION index_table;
CREATE TABLE t (id int PRIMARY KEY, n int, w text, tags text[]) PARTITION BY RANGE (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (10) TO (20);
INSERT INTO t SELECT i, i * 10, 'w' || i % 4, ARRAY['a' || i % 3, 'b'] FROM generate_series(5, 14) AS i});
step_ok('normalized, unique', q{SELECT index_table.create('t', 'n', is_unique => true)}, 't_by_n');
step_ok('partial', q{SELECT index_table.create('t', 'w', strategy => 'partial', include => 'n', predicate => 'n < 500')}, 't_by_w');
step_ok('elements', q{SELECT index_table.create('t', 'unnest(tags)', name => 't_by_tag')}, 't_by_tag');
step_ok('concurrently, denormalized', q{CALL index_table.create_concurrently('t', 'w, id', strategy => 'denormalized', name => 't_whole')});
step_ok('deferred', q{SELECT index_table.create('t', 'lower(w)', maintenance => 'deferred', name => 't_later')}, 't_later');
step_ok('global', q{CREATE INDEX t_global ON t USING global (n); CREATE INDEX t_gin ON t USING global (tags) WITH (method = gin)});
step_ok('the oracle', oracle_sql(
	describe(name => 't_by_n', base => 't', key => ['b.n'], @identity, is_unique => 1),
	describe(name => 't_by_w', base => 't', key => ['b.w'], copies => [ 'id', 'n' ], identity => 1, predicate => 'b.n < 500'),
	describe(name => 't_by_tag', base => 't', key => ['m.v'], elements => 'SELECT v, o FROM unnest(b.tags) WITH ORDINALITY AS u (v, o)', @identity),
	describe(name => 't_whole', base => 't', key => [ 'b.w', 'b.id' ], copies => [ 'n', 'tags' ]),
	describe(name => 't_later', base => 't', key => ['lower(b.w)'], @identity)) =~ s/^/SET client_min_messages = error; /r);
step_ok('INSERT', q{INSERT INTO t VALUES (1, 1, 'w1', '{a1,c}'), (15, 15, NULL, NULL)});
step_ok('UPDATE, to another partition too', q{UPDATE t SET w = w || '!' WHERE n = 60; UPDATE t SET id = 16 WHERE id = 1});
step_ok('DELETE, in a subtransaction', q{BEGIN; DELETE FROM t WHERE n = 70; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT});
step_ok('a key that is there', q{DO $$ BEGIN INSERT INTO t VALUES (2, 80); EXCEPTION WHEN unique_violation THEN RAISE WARNING 'there'; END $$}, 'psql:<stdin>:1: WARNING:  there');
step_ok('ON CONFLICT', q{INSERT INTO t VALUES (3, 80, 'new'), (4, 4, 'w4') ON CONFLICT (n) DO UPDATE SET w = excluded.w});
step_ok('MERGE', q{MERGE INTO t USING (VALUES (90), (91)) AS s (n) ON t.n = s.n WHEN MATCHED THEN UPDATE SET w = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (17, s.n, 'merged')}) if $node->pg_version >= 15;
step_ok('queries', q{SET index_table.enable_scan = force;
SELECT id FROM t WHERE n = 80;
SELECT id FROM t WHERE w = 'w2' ORDER BY id;
SELECT count(*) FROM t WHERE tags @> '{b}';
SELECT id FROM t WHERE lower(w) = 'new';
SELECT a.id, b.id FROM t AS a JOIN t AS b ON b.n = a.n WHERE a.w = 'w0' ORDER BY 1;
SELECT id FROM t WHERE n BETWEEN 100 AND 120 ORDER BY n DESC LIMIT 2;
SELECT id FROM t WHERE n = 100 FOR UPDATE;
SELECT count(*) FROM index_table.fetch(NULL::t, 't_by_w', 'w2')}, "8\n10\n14\n9\n8\n12|12\n12\n11\n10\n2");
# Of two ways to the same rows the one that loses is freed, while the base table still has it among its paths.
step_ok('two keys', q{SET index_table.enable_scan = force;
CREATE TABLE pair (id int PRIMARY KEY, a char(8), b "char") PARTITION BY RANGE (id);
CREATE TABLE pair_0 PARTITION OF pair FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE pair_1 PARTITION OF pair FOR VALUES FROM (50) TO (MAXVALUE);
INSERT INTO pair SELECT i, 'c' || i % 5, chr(65 + i % 4)::"char" FROM generate_series(1, 100) AS i;
SELECT index_table.create('pair', 'b');
CREATE INDEX pair_g ON pair USING global (a);
ANALYZE pair;
SELECT count(*) FROM (SELECT id FROM pair WHERE a = 'c3' AND b = 'D' ORDER BY id) AS s;
SELECT id FROM pair WHERE a = 'c3' AND b = 'D' ORDER BY id LIMIT 1;
SELECT id FROM pair WHERE a = 'c3' AND b = 'D' AND id < 20;
SET index_table.enable_scan = on;
SELECT id FROM pair WHERE a = 'c3' AND b = 'D' ORDER BY id LIMIT 1;
SELECT id FROM pair WHERE a = 'c3' AND b = 'D' AND id < 20;
DROP TABLE pair}, "pair_by_b\n5\n3\n3\n3\n3");
step_ok('prepared', q{BEGIN; UPDATE t SET n = n + 1000 WHERE id = 12; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'});
step_ok('drain', 'CALL index_table.drain()');
step_ok('exact', q{SELECT oracle.check_all('tour')});
step_ok('ATTACH, DETACH, TRUNCATE', q{CREATE TABLE t_2 (LIKE t); INSERT INTO t_2 VALUES (21, 21, 'late', '{a1}');
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (20) TO (30); ALTER TABLE t DETACH PARTITION t_1; TRUNCATE t_0; DROP TABLE t_1; INSERT INTO t VALUES (5, 5, 'again')});
step_ok('ALTER', 'ALTER TABLE t ALTER w TYPE varchar(20)');
step_ok('upkeep', q{SELECT count(*) FROM index_table.verify('t_by_n'); SELECT index_table.repair('t_by_tag'); SELECT index_table.vacuum() IS NULL; CALL index_table.rebuild('t_whole'); CALL index_table.drain()}, "0\n0\nf");
step_ok('VACUUM, REINDEX', 'VACUUM t; VACUUM FULL t_0; REINDEX INDEX t_global');
step_ok('global indexes', q{SELECT v::text FROM index_table.verify('t_global') AS v});
oracle_ok($node, 'postgres', 'in step', 3);
check_storage($node, 'postgres');
step_ok('drop', q{SELECT index_table.drop('t_by_w'); DROP TABLE t; DROP EXTENSION index_table CASCADE});
is(log_problems($node), '', 'nothing in the log');
$node->stop;
done_testing();
