# Global indexes are dumped without their storage and built where they arrive; pg_upgrade leaves them
# to REINDEX; a copy of a database has its own; what is dropped leaves nothing behind. Whose rights
# builds run with.
use strict;
use warnings;

use Cwd qw(getcwd);
use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump', $ENV{OLD_INSTALL} ? (install_path => $ENV{OLD_INSTALL}) : ());
plan skip_all => 'no amcheck' unless has_amcheck($node);
my $directory = PostgreSQL::Test::Utils::tempdir();

# --- What is dumped -----------------------------------------------------------------------

my $tables = q{
CREATE EXTENSION index_table;
CREATE SCHEMA "Odd.Names";
CREATE TABLE t (id int, k int, c text, day date) PARTITION BY RANGE (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES FROM (0) TO (1000);
CREATE TABLE t_1 (day date, gone int, c text, k int, id int);
ALTER TABLE t_1 DROP COLUMN gone;
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (2000) TO (3000) PARTITION BY HASH (id);
CREATE TABLE t_2_0 PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t_2_1 PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE gone PARTITION OF t FOR VALUES FROM (3000) TO (4000);
INSERT INTO t SELECT i, i, 'c' || i % 50, date '2020-01-01' + i FROM generate_series(0, 3999) i;
CREATE INDEX by_k ON t USING global (k) WITH (unique);
CREATE INDEX "Odd.Index" ON t USING global (lower(c) DESC NULLS LAST, day) INCLUDE (id) WITH (fillfactor = 70, vacuum = eager) WHERE k > 10;
CREATE INDEX of_2 ON t_2 USING global (day, c);
ALTER TABLE t DETACH PARTITION gone;
TRUNCATE t_0;
INSERT INTO t SELECT i, i, 'c' || i % 50, date '2020-01-01' + i FROM generate_series(0, 499) i;
CREATE TABLE "Odd.Names".empty (a int, b int) PARTITION BY LIST (a);
CREATE INDEX by_b ON "Odd.Names".empty USING global (b) WITH (unique);
CREATE TABLE "Odd.Names".one PARTITION OF "Odd.Names".empty FOR VALUES IN (1);
CREATE UNLOGGED TABLE "Odd.Names".two PARTITION OF "Odd.Names".empty FOR VALUES IN (2);
INSERT INTO "Odd.Names".empty VALUES (1, 1), (2, 2);
};
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', $tables);
check_global($node, 'source', 'source');
$node->safe_psql('source', 'DROP SCHEMA global_check CASCADE; DROP EXTENSION amcheck');

my $listed = q{SELECT i.indexrelid::regclass, i.indrelid::regclass, i.indisvalid, pg_get_indexdef(i.indexrelid), inhparent::regclass
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_inherits h ON h.inhrelid = c.oid
 WHERE a.amname = 'global' ORDER BY i.indexrelid::regclass::text COLLATE "C"};
my $stored = q{SELECT count(*) FROM pg_class WHERE relname ~ '^index_table_global'};
my $duplicate = 'INSERT INTO t SELECT id, k, c, day FROM t WHERE k = 1500';
my %rows = (t => $node->safe_psql('source', 'SELECT count(*) FROM t'));

sub arrived
{
	my ($on, $db, $label, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($on->safe_psql($db, $listed), $node->safe_psql('source', $listed), "$label: the indexes are there") unless $options{differs};
	is($on->safe_psql($db, 'SELECT count(*) FROM t'), $rows{t}, "$label: so are the rows") unless $options{empty};
	check_global($on, $db, $label);
	like(sqlstate($on, $db, $duplicate), qr/^23505/, "$label: keys are unique") unless $options{empty};
	$on->safe_psql($db, 'BEGIN; INSERT INTO t VALUES (10, 100001, NULL, NULL); UPDATE t SET id = 1500 WHERE k = 100001; ROLLBACK');
	return;
}
sub fresh { my ($db) = @_; $node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0"); return $db; }
sub dump_to { my ($name, @options) = @_; $node->command_ok([ 'pg_dump', '-d', $node->connstr('source'), '-f', "$directory/$name", @options ], "dump: $name"); return "$directory/$name"; }
sub restore { my ($db, $file, @options) = @_; return $node->command_ok([ 'pg_restore', '-d', $node->connstr($db), '--exit-on-error', @options, $file ], "restore: $db"); }
sub load { my ($db, $file) = @_; return $node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $file ], "load: $db"); }

my $plain = dump_to('plain.sql');
unlike(slurp_file($plain), qr/index_table_global|index_table_storage/, 'storage is not dumped');
load(fresh('plain'), $plain);
arrived($node, 'plain', 'plain');

my $custom = dump_to('custom', '-Fc');
restore(fresh('custom'), $custom);
arrived($node, 'custom', 'custom');
restore('custom', $custom, '--clean', '--if-exists');
arrived($node, 'custom', 'custom, --clean');
restore(fresh('single'), $custom, '--single-transaction');
arrived($node, 'single', 'in a transaction');
foreach my $section (qw(pre-data data post-data)) { $node->command_ok([ 'pg_restore', '-d', $node->connstr($section eq 'pre-data' ? fresh('sections') : 'sections'), "--section=$section", $custom ], $section); }
arrived($node, 'sections', 'by sections');

my $parallel = dump_to('parallel', '-Fd', '-j2');
restore(fresh('parallel'), $parallel, '-j2');
arrived($node, 'parallel', 'parallel');

load(fresh('schema_only'), dump_to('schema.sql', '--schema-only'));
arrived($node, 'schema_only', 'schema only', empty => 1);
load('schema_only', dump_to('data.sql', '--data-only'));
arrived($node, 'schema_only', 'schema, then data');

$node->safe_psql(fresh('few'), 'CREATE EXTENSION index_table');
load('few', dump_to('few.sql', map { ('-t', $_) } 't', 't_0', 't_1', 't_2', 't_2_0', 't_2_1'));
arrived($node, 'few', 'single tables', differs => 1);

$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE source');
arrived($node, 'copy', 'a copy of the database');

# --- What is dropped ------------------------------------------------------------------------

$node->safe_psql('copy', 'DROP INDEX by_k');
is($node->safe_psql('copy', $stored), 6, 'DROP INDEX');
like(sqlstate($node, 'copy', 'DROP EXTENSION index_table'), qr/^2BP01/, 'DROP EXTENSION is refused');
$node->safe_psql('copy', 'DROP SCHEMA "Odd.Names" CASCADE');
is($node->safe_psql('copy', $stored), 4, 'DROP SCHEMA');
$node->safe_psql('copy', 'ALTER TABLE t DROP COLUMN c CASCADE');
is($node->safe_psql('copy', $stored), 0, 'DROP COLUMN');
$node->safe_psql('copy', 'CREATE INDEX again ON t USING global (k); DROP TABLE t');
is($node->safe_psql('copy', $stored), 0, 'DROP TABLE');
$node->safe_psql('plain', 'DROP EXTENSION index_table CASCADE');
is($node->safe_psql('plain', "$stored; SELECT count(*) FROM pg_index WHERE indexrelid::regclass::text ~ 'by_k|Odd.Index'"), "0\n0", 'DROP EXTENSION CASCADE');
$node->safe_psql('plain', 'INSERT INTO t VALUES (1, 1, NULL, NULL)');

# --- Whose rights --------------------------------------------------------------------------

$node->safe_psql('custom', q{
CREATE ROLE owner; CREATE ROLE other; CREATE ROLE writer;
GRANT CREATE, USAGE ON SCHEMA public TO owner, other;
CREATE TABLE log (who text);
GRANT ALL ON log TO public;
CREATE FUNCTION spy(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user::text NOT IN ('owner', 'other', 'writer') THEN RAISE 'run by %', current_user; END IF;
	RETURN k;
END $$;
SET ROLE owner;
CREATE TABLE mine (id int, k int) PARTITION BY LIST (id);
CREATE TABLE mine_0 PARTITION OF mine FOR VALUES IN (0);
CREATE TABLE mine_1 PARTITION OF mine FOR VALUES IN (1);
INSERT INTO mine SELECT i % 2, i FROM generate_series(1, 100) i;
CREATE INDEX by_spy ON mine USING global (spy(k)) WITH (unique);
GRANT INSERT, SELECT ON mine_0 TO writer;
});
is(sqlstate($node, 'custom', $_), '', "$_ runs expressions as the owner")
  foreach 'REINDEX INDEX by_spy', 'REINDEX TABLE mine_0', 'TRUNCATE mine_1', 'ALTER TABLE mine OWNER TO other', 'REINDEX INDEX by_spy',
  'ALTER TABLE mine_1 OWNER TO owner', 'REINDEX INDEX by_spy', 'VACUUM FULL mine_0',
  'ALTER TABLE mine DETACH PARTITION mine_1', 'ALTER TABLE mine ATTACH PARTITION mine_1 FOR VALUES IN (1)',
  'DROP INDEX by_spy; SET ROLE other; CREATE INDEX by_spy ON mine USING global (spy(k)) WITH (unique)';
like(sqlstate($node, 'custom', 'SET ROLE writer; INSERT INTO mine_0 VALUES (0, 2)'), qr/^23505/, 'rights on one partition are enough to meet a duplicate key');
is(sqlstate($node, 'custom', 'SET ROLE writer; INSERT INTO mine_0 VALUES (0, 1000)'), '', 'and to insert');
like(sqlstate($node, 'custom', 'SET ROLE writer; REINDEX INDEX by_spy'), qr/^42501/, 'REINDEX is the owner\'s');

$node->safe_psql('custom', 'DROP OWNED BY owner, other CASCADE');
is($node->safe_psql('custom', "SELECT count(*) FROM pg_class WHERE relname ~ '^index_table_global'"), 8, 'DROP OWNED');

# --- Cancelled builds ------------------------------------------------------------------------

$node->safe_psql('custom', "INSERT INTO t SELECT i % 1000, 10000 + i, 'x', NULL FROM generate_series(1, 30000) i;
CREATE FUNCTION slow(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(CASE WHEN \$1 % 1000 = 0 THEN 0.05 ELSE 0 END); RETURN \$1; END'");
like(sqlstate($node, 'custom', "SET statement_timeout = '300ms'; $_"), qr/^57014/, "cancelled: $_")
  foreach 'CREATE INDEX slowly ON t USING global (slow(k))';
foreach my $command ('REINDEX INDEX by_k', 'REINDEX TABLE t_0', 'VACUUM FULL t_0', 'CREATE INDEX again ON t USING global (c)', 'DELETE FROM t WHERE k % 3 = 0', 'VACUUM t', 'UPDATE t SET k = -k')
{
	$node->psql('custom', "SET statement_timeout = '${_}ms'; $command") foreach 5, 20, 60;
	$node->safe_psql('custom', 'DROP INDEX IF EXISTS again');
}
check_global($node, 'custom', 'after builds that were cancelled');

# --- pg_upgrade -----------------------------------------------------------------------------

$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(plain custom single sections parallel schema_only few copy);
my $new = new_node('new', $node->pg_version < 18 ? (no_data_checksums => 1) : ());
my $expected = $node->safe_psql('source', $listed);
$node->stop;
$new->stop;
my $back = getcwd();
chdir $directory;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $new->data_dir, '-b', $node->config_data('--bindir'),
		'-B', $new->config_data('--bindir'), '-s', $new->host, '-p', $node->port, '-P', $new->port ], 'pg_upgrade');
chdir $back;
$new->start;
is($new->safe_psql('source', $listed), $expected, 'upgraded: the indexes are there');
like(sqlstate($new, 'source', 'INSERT INTO t VALUES (1, -1, NULL, NULL)'), qr/^55000.*is not built/, 'upgraded: writers are told that they are not built');
is($new->safe_psql('source', 'SELECT count(*) FROM t'), $rows{t}, 'upgraded: rows are read');
is(sqlstate($new, 'source', 'VACUUM'), '', 'upgraded: VACUUM works');
is(sqlstate($new, 'source', 'REINDEX INDEX by_k'), '', 'upgraded: REINDEX, in a session that has not loaded the library');
is($new->safe_psql('source', "SELECT index_table.is_built('by_k')"), 't', 'upgraded: it builds the whole index');
$new->safe_psql('source', "LOAD 'index_table'; REINDEX INDEX $_") foreach '"Odd.Index"', 'of_2', '"Odd.Names".by_b';
arrived_upgraded();
sub arrived_upgraded
{
	check_global($new, 'source', 'upgraded, after REINDEX');
	like(sqlstate($new, 'source', $duplicate), qr/^23505/, 'upgraded: keys are unique');
	return;
}

$new->stop;
done_testing();
