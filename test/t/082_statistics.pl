# What index_table.stat counts: look-ups of all kinds, flushes, what was last done; by whom it can be
# reset; what becomes of it in subtransactions, crashes, parallel workers, when there is no room, and
# where the library is not preloaded.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('statistics', conf => "shared_preload_libraries = 'index_table'\nindex_table.vacuum_naptime = 0\nindex_table.drain_naptime = 0\nindex_table.verify_interval = 0\njit = off\n");
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE ROLE other;
CREATE TABLE people (id int PRIMARY KEY, town text, name text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'town ' || i % 10, 'name ' || i FROM generate_series(1, 1000) AS i;
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'name', is_unique => true);
CREATE INDEX people_global ON people USING global (name);
CREATE TABLE asked (name text);
INSERT INTO asked SELECT 'name ' || i FROM generate_series(1, 5) AS i;
ANALYZE people, people_by_town, people_by_name, asked;
});
$node->safe_psql('postgres', $_) foreach oracle_sql(
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => ['id'], identity => 1),
	describe(name => 'people_by_name', base => 'people', key => ['b.name'], copies => ['id'], identity => 1, is_unique => 1));

# shown($columns, $table): in a session of its own, when those before have ended, who hand over what they have counted then
sub shown
{
	my ($columns, $table) = @_;
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}) or die 'sessions do not end';
	return $node->safe_psql('postgres', "SELECT $columns FROM index_table.stat WHERE index_table = '" . ($table // 'people_by_name') . "'::regclass");
}

sub reset_all { return $node->safe_psql('postgres', 'SELECT index_table.stat_reset()') }

is(shown('lookups, flushes, last_build IS NOT NULL, build_time >= $$0$$::interval, last_verify IS NULL'), '0|0|t|t|t', 'a build, and nothing else');
is(reset_all(), 3, 'three are reset');
is(shown('last_build IS NULL, stats_reset > now() - interval $$1 h$$'), 't|t', 'and what was last done, too');

# Look-ups. What a session counts is seen by itself at once, by others when it has ended.
my $through = 'SET index_table.enable_scan = force; SET enable_hashjoin = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0;';
my $counts = 'lookups, lookup_entries, rows_fetched, entries_skipped, last_lookup IS NOT NULL';
is($node->safe_psql('postgres', "$through SELECT town FROM people WHERE name = 'name 7'; SELECT $counts FROM index_table.stat WHERE index_table = 'people_by_name'::regclass"), "town 7\n1|1|1|0|t", 'a query counts');
is(shown($counts), '1|1|1|0|t', 'as others see');
is(shown($counts, 'people_by_town'), '0|0|0|0|f', 'not for another index table');
$node->safe_psql('postgres', "$through PREPARE q AS SELECT * FROM people WHERE name = \$1; EXECUTE q('name 1'); EXECUTE q('name 2'); EXECUTE q('nobody')");
is(shown($counts), '4|3|3|0|t', 'prepared ones count, those that find nothing too');
my $join = 'SELECT count(people.town) FROM asked JOIN people USING (name)';
like($node->safe_psql('postgres', "$through EXPLAIN (COSTS OFF) $join"), qr/Nested Loop.*Index Table: people_by_name/s, 'a join');
is(shown($counts), '4|3|3|0|t', 'EXPLAIN counts nothing');
$node->safe_psql('postgres', "$through $join");
is(shown($counts), '9|8|8|0|t', 'each of its inner scans counts');
$node->safe_psql('postgres', "SELECT * FROM index_table.lookup('people_by_name', 'name 3'); SELECT * FROM index_table.fetch(NULL::people, 'people_by_name', 'name 3')");
is(shown('lookups, lookup_entries'), '11|10', 'and look-ups by hand');
$node->safe_psql('postgres', "$through SET track_counts = off; SELECT * FROM people WHERE name = 'name 7'");
is(shown('lookups'), 11, 'where track_counts is off nothing is counted');
# Entries that lead nowhere: of a partition that is gone.
$node->safe_psql('postgres', "BEGIN; TRUNCATE people_0; $through SELECT count(name) FROM people WHERE town = 'town 3'; COMMIT");
my ($entries, $rows, $skipped) = split /\|/, shown('lookup_entries, rows_fetched, entries_skipped', 'people_by_town');
is($entries, 100, 'all entries of a town are read');
is($rows + $skipped, $entries, 'each finds a row or is skipped');
cmp_ok($skipped, '>', 0, 'of a partition that is gone they are skipped');
# A cancelled or failed statement breaks nothing.
$node->psql('postgres', "$through SELECT 1 / (id - id) FROM people WHERE name = 'name 7'");

# Global indexes.
my $global = 'people_global';
is(shown('flushes IS NULL, entries_written IS NULL', $global), 't|t', 'of a global index writes are not counted');
$node->safe_psql('postgres', "SELECT index_table.drop('people_by_name')");
is($node->safe_psql('postgres', "SELECT count(*) FROM index_table.stat WHERE index_table::text = 'people_by_name'"), 0, 'what is dropped is gone');
$node->safe_psql('postgres', "$through SELECT * FROM people WHERE name = 'name 7'; SELECT * FROM people WHERE name = 'name 8'");
is(shown('lookups', $global), 2, 'look-ups through a global index');
$node->safe_psql('postgres', "SELECT count(*) FROM index_table.verify('people_global'); SELECT index_table.vacuum('people_global')");
is(shown('problems_found, last_vacuum IS NOT NULL', $global), '0|t', 'it is verified and vacuumed');
$node->safe_psql('postgres', "SELECT index_table.create('people', 'name', is_unique => true)");

# Parallel workers.
reset_all();
$node->safe_psql('postgres', q{SET index_table.enable_scan = force; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET debug_parallel_query = on; SELECT count(*) FROM people WHERE town = 'town 3'} =~ s/debug_parallel_query/$node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query'/er);
cmp_ok(shown('lookups', 'people_by_town'), '>=', 1, 'parallel workers count');

# Writes.
reset_all();
$node->safe_psql('postgres', "INSERT INTO people SELECT i, 'new', 'new ' || i FROM generate_series(2001, 2010) AS i");
is(shown('flushes, entries_written'), '1|10', 'a flush');
$node->safe_psql('postgres', "UPDATE people SET name = 'newer ' || id WHERE id IN (2001, 2002); DELETE FROM people WHERE id = 2003");
is(shown('flushes, entries_written'), '3|15', 'a key that changes is an entry deleted and one inserted');
is(shown('flushes, entries_written', 'people_by_town'), '2|11', 'what does not change is not');

# What was last done.
$node->safe_psql('postgres', q{SET session_replication_role = replica; DELETE FROM people_by_name WHERE id IN (2005, 2006); SET session_replication_role = origin; SELECT count(*) FROM index_table.verify('people_by_name')});
is(shown('problems_found, last_verify IS NOT NULL, last_repair IS NULL'), '2|t|t', 'what verify has found');
$node->safe_psql('postgres', q{BEGIN; SELECT index_table.repair('people_by_name'); ROLLBACK; BEGIN; SAVEPOINT a; SELECT index_table.repair('people_by_name'); ROLLBACK TO a; COMMIT});
is(shown('last_repair IS NULL'), 't', 'a repair that is rolled back is none');
$node->safe_psql('postgres', q{BEGIN; SAVEPOINT a; SELECT index_table.repair('people_by_name'); RELEASE a; COMMIT});
is(shown('problems_repaired'), 2, 'a repair');
$node->safe_psql('postgres', q{BEGIN; SELECT count(*) FROM index_table.verify('people_by_name'); ROLLBACK});
is(shown('problems_found'), 0, 'what is verified is so even in a transaction that is rolled back');
my $dead = $node->safe_psql('postgres', q{TRUNCATE people_1; SELECT index_table.vacuum('people_by_name')});
cmp_ok($dead, '>', 0, 'there was something to vacuum');
is(shown('entries_removed'), $dead, 'what vacuum has removed');
$node->safe_psql('postgres', q{CALL index_table.rebuild('people_by_town')});
is(shown('last_build IS NOT NULL', 'people_by_town'), 't', 'a rebuild');
$node->safe_psql('postgres', q{CALL index_table.create_concurrently('people', 'town, name', name => 'online')});
is(shown('last_build IS NOT NULL', 'online'), 't', 'a concurrent build');
$node->safe_psql('postgres', q{SELECT index_table.drop('online')});

# Who may reset what.
my $reset = sub { my ($argument) = @_; my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET ROLE other; SELECT index_table.stat_reset($argument)"); return $out . ($err =~ /ERROR:\s+(\w+)/ ? $1 : '') };
is($reset->(q{'people_by_name'}), '42501', 'not what belongs to others');
is($reset->(q{'people_global'}), '42501', 'no global index either');
is($reset->('NULL'), '0', 'without an argument: what is his, nothing');
is(shown('problems_repaired'), 2, 'which changes nothing');
is($reset->(q{'people'}), '42809', 'a table that is none');
$node->safe_psql('postgres', q{SET ROLE other; SELECT * FROM index_table.stat});
$node->safe_psql('postgres', q{SELECT index_table.stat_reset('people_by_name')});
is(shown('problems_repaired IS NULL, entries_written'), 't|0', 'one is reset');

oracle_ok($node, 'postgres', 'in step');

# Long work is logged.
my $log = -s $node->logfile;
$node->safe_psql('postgres', q{SELECT count(*) FROM index_table.verify('people_by_name')});
unlike(slurp_file($node->logfile, $log), qr/verification of/, 'not what is done soon');
$node->append_conf('postgresql.conf', "index_table.log_min_duration = 0\nlog_min_messages = log");
$node->reload;
$node->poll_query_until('postgres', q{SHOW index_table.log_min_duration}, '0');
$log = -s $node->logfile;
$node->safe_psql('postgres', q{SELECT count(*) FROM index_table.verify('people_by_name'); SELECT index_table.repair('people_by_name'); TRUNCATE people_1; SELECT index_table.vacuum('people_by_name')});
like(slurp_file($node->logfile, $log), qr/LOG:.*verification of "public\.people_by_name" took .*, 0 problems.*repair of "public\.people_by_name".*vacuum of "public\.people_by_name" took .* entries removed/s, 'long work is in the log');

# Crashes.
$node->safe_psql('postgres', "INSERT INTO people VALUES (3000, 'new', 'crash')");
cmp_ok(shown('entries_written'), '>', 0, 'something is counted');
$node->stop('immediate');
$node->start;
is(shown('lookups, entries_written, last_verify IS NULL, stats_reset IS NULL'), '0|0|t|t', 'nothing is after a crash');

# Where there is no room.
$node->append_conf('postgresql.conf', 'index_table.max_stat_entries = 10');
$node->restart;
$node->safe_psql('postgres', join(';', map { "CREATE TABLE many_$_ (id int PRIMARY KEY, v int); SELECT index_table.create('many_$_', 'v')" } 1 .. 12));
cmp_ok($node->safe_psql('postgres', 'SELECT index_table.lost_counts()'), '>=', 2, 'what does not fit is told');
$node->safe_psql('postgres', join(';', map { "DROP TABLE many_$_" } 1 .. 10));
my $lost = $node->safe_psql('postgres', 'SELECT index_table.lost_counts()');
$node->safe_psql('postgres', 'INSERT INTO many_11 VALUES (1, 1); INSERT INTO many_12 VALUES (1, 1)');
is(shown('flushes', 'many_11_by_v') . shown('flushes', 'many_12_by_v'), '11', 'what is dropped makes room');
is($node->safe_psql('postgres', 'SELECT index_table.lost_counts()'), $lost, 'and nothing more is lost');
# Some lie where others were to lie: they are found whatever is removed before them.
$node->append_conf('postgresql.conf', 'index_table.max_stat_entries = 60');
$node->restart;
my $tables = 50;
$node->safe_psql('postgres', join(';', map { "CREATE TABLE m_$_ (id int PRIMARY KEY, v int); SELECT index_table.create('m_$_', 'v'); INSERT INTO m_$_ VALUES (1, 1)" } 1 .. $tables));
my $mine = q{FROM index_table.stat WHERE base::text LIKE 'm\_%'};
is($node->safe_psql('postgres', "SELECT count(*), sum(flushes) $mine"), "$tables|$tables", 'many are counted');
my @wrong;
foreach my $i (1 .. $tables - 1)
{
	my $found = $node->safe_psql('postgres', "DROP TABLE m_$i; SELECT sum(flushes) $mine");
	push @wrong, "$found without $i" if $found != $tables - $i;
}
is("@wrong", '', 'and those that stay are found');

# Where it is not preloaded.
my $plain = new_node('plain', conf => "session_preload_libraries = 'index_table'\n");
my ($first, $second) = map { $plain->safe_psql('postgres', $_) } q{CREATE EXTENSION index_table; CREATE TABLE t (id int PRIMARY KEY, v int); SELECT index_table.create('t', 'v'); INSERT INTO t VALUES (1, 1)},
	q{SELECT flushes, last_build IS NOT NULL, (SELECT index_table.lost_counts()) FROM index_table.stat};
is($second, $plain->pg_version < 17 ? '|f|' : '1|t|0', 'without it, since PostgreSQL 17 memory is found all the same');
my ($status, $out, $err) = $plain->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT index_table.stat_reset()");
like($plain->pg_version < 17 ? $err : $out, $plain->pg_version < 17 ? qr/55000/ : qr/^1$/, 'and can be reset');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by/, 'nothing broke');
done_testing();
