# The worker verifies every index table and global index, a slice at a time: it finds damage that was
# made on purpose, repairs it where it is told to, and stands in nobody's way.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('verify', conf => "shared_preload_libraries = 'index_table'\nindex_table.vacuum_naptime = 1\nindex_table.verify_interval = 0\nindex_table.verify_share = 100\nlog_min_messages = warning\n");
my $partitions = 40;
$node->safe_psql('postgres', join(';', q{
CREATE EXTENSION index_table;
CREATE ROLE owner;
GRANT ALL ON SCHEMA public TO owner;
SET ROLE owner;
CREATE TABLE people (id int PRIMARY KEY, town text, tags text[], name text) PARTITION BY HASH (id)},
	(map { "CREATE TABLE people_$_ PARTITION OF people FOR VALUES WITH (MODULUS $partitions, REMAINDER $_)" } 0 .. $partitions - 1), q{
INSERT INTO people SELECT i, nullif('town ' || i % 10, 'town 3'), ARRAY['a' || i % 3, 'b'], 'name ' || i FROM generate_series(1, 4000) AS i;
CREATE TABLE plain (id int PRIMARY KEY, v numeric);
INSERT INTO plain SELECT i, i % 7 FROM generate_series(1, 100) AS i;
SELECT index_table.create('people', 'town', 'denormalized', partitions => 2);
SELECT index_table.create('people', 'unnest(tags)', name => 'people_by_tag');
SELECT index_table.create('people', 'lower(name)', maintenance => 'deferred', name => 'people_later');
SELECT index_table.create('people', 'name', is_unique => true, predicate => 'id > 10');
SELECT index_table.create('plain', 'v');
CREATE INDEX people_global ON people USING global (town);
VACUUM ANALYZE people;
}));
my @tables = qw(people_by_town people_by_tag people_later people_by_name plain_by_v people_global);
$node->safe_psql('postgres', $_) foreach oracle_sql(
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [qw(id tags name)], identity => 1),
	describe(name => 'people_by_name', base => 'people', key => ['b.name'], copies => ['id'], identity => 1, is_unique => 1, predicate => 'b.id > 10'),
	describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1));

sub value { return $node->safe_psql('postgres', $_[0]) }

sub set
{
	my ($setting, $value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET index_table.$setting = $value");
	$node->reload;
	return;
}

# All are due again.
sub verify_again { return value('SELECT index_table.stat_reset()') }

# A worker that was started before a setting was changed does not know of that. There is one at a time: when all has been
# verified it is gone, or will be before anything is verified once more.
sub pass_by
{
	my ($label) = @_;
	verify_again();
	await('last_verify IS NOT NULL', $label);
	return;
}

sub await
{
	my ($condition, $label) = @_;
	ok($node->poll_query_until('postgres', "SELECT bool_and($condition) FROM index_table.stat"), $label);
	return;
}

# Damage, of every kind.
my $damage = q{SET session_replication_role = replica;
DELETE FROM people_by_town WHERE id IN (5, 6, 7);
UPDATE people_by_town SET name = 'wrong' WHERE id = 8;
INSERT INTO people_by_name SELECT 'ghost', partition_id, id FROM people_by_name WHERE id = 100;
INSERT INTO people_by_tag SELECT * FROM people_by_tag WHERE id = 50;
DELETE FROM people_later WHERE id = 77;
DELETE FROM plain_by_v WHERE id = 3};
my $expected = join "\n", 'people_by_name|1', 'people_by_tag|2', 'people_by_town|4', 'people_global|0', 'people_later|1', 'plain_by_v|1';
my $found = 'SELECT index_table, problems_found FROM index_table.stat ORDER BY index_table::text';

# Without an interval nobody looks.
value($damage);
sleep 3;
is(value('SELECT count(last_verify) + count(verify_started) FROM index_table.stat'), 0, 'turned off');
value("SELECT index_table.repair('$_')") foreach grep { $_ ne 'people_global' } @tables;
verify_again();

# All is in order.
my $log = -s $node->logfile;
set('verify_interval', "'365 d'");
await('last_verify IS NOT NULL AND problems_found = 0 AND verify_started IS NULL', 'each is verified, and in order');
unlike(slurp_file($node->logfile, $log), qr/verification has found|ERROR/, 'which is nothing to tell of');
my $last = value('SELECT max(last_verify) FROM index_table.stat');
sleep 3;
is(value('SELECT max(last_verify) FROM index_table.stat'), $last, 'and once is enough');

# Damage is found, told, and left alone.
$log = -s $node->logfile;
value($damage);
verify_again();
await('last_verify IS NOT NULL', 'all are verified again');
is(value($found), $expected, 'what is wrong is found');
my $text = slurp_file($node->logfile, $log);
like($text, qr/WARNING:  verification has found \d+ problems? in public\.\Q$_\E\n/, "it is told of $_") foreach qw(people_by_town people_by_tag people_by_name people_later plain_by_v);
like($text, qr/DETAIL:  They are of rows of public\.people_\d+.*\n.*HINT:  index_table\.verify\(\) shows them, index_table\.repair\(\) mends them\./, 'with what to do');
unlike($text, qr/name 77|ghost|'wrong'/, 'no key of anybody is in the log');
is(value("SELECT count(*) FROM index_table.verify('people_by_town')"), 4, 'nothing is repaired');
is(value('SELECT count(last_repair) FROM index_table.stat'), 0, 'nor recorded as such');

# It is repaired where the setting says so.
$log = -s $node->logfile;
set('verify_repair', 'on');
pass_by('verified by who may not know that it is to be repaired');
verify_again();
await('last_verify IS NOT NULL AND (last_repair IS NOT NULL OR problems_found = 0)', 'it is repaired');
like(slurp_file($node->logfile, $log), qr/LOG:  repaired 4 problems in public\.people_by_town/, 'and said');
is(value("SELECT count(*) FROM index_table.verify('$_')"), 0, "$_ is in order") foreach @tables;
oracle_ok($node, 'postgres', 'in step');
set('verify_repair', 'off');

# Who holds a lock is not waited for, and others are looked at meanwhile; a partition that comes, one
# that goes and one that is truncated are no problems.
my $holder = hold_lock($node, 'BEGIN; LOCK TABLE plain IN ACCESS EXCLUSIVE MODE;', q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'plain'::regclass AND mode = 'AccessExclusiveLock' AND granted});
verify_again();
value('TRUNCATE people_1; ALTER TABLE people DETACH PARTITION people_2; DROP TABLE people_3');
await(q{index_table = 'plain_by_v'::regclass OR last_verify IS NOT NULL}, 'others are verified');
is(value(q{SELECT count(*) FROM pg_locks WHERE relation = 'plain'::regclass AND NOT granted}), 0, 'nobody waits for a lock');
is(value(q{SELECT count(*) FROM index_table.stat WHERE index_table = 'plain_by_v'::regclass AND last_verify IS NULL}), 1, 'what is locked is left for later');
release_lock($holder);
await('last_verify IS NOT NULL AND problems_found = 0', 'which comes');
value('ALTER TABLE people ATTACH PARTITION people_2 FOR VALUES WITH (MODULUS 40, REMAINDER 2)');

# Of a global index, too: rows of a partition are written while it is not maintained.
my $unindexed = "UPDATE pg_index SET indisready = %s WHERE indrelid = 'people_5'::regclass AND indexrelid IN (SELECT relid FROM pg_partition_tree('people_global'))";
$node->safe_psql('postgres', 'SET allow_system_table_mods = on; ' . sprintf($unindexed, 'false'));
value('UPDATE people SET town = town || 0 WHERE id = (SELECT min(id) FROM people_5 WHERE town IS NOT NULL)');
$node->safe_psql('postgres', 'SET allow_system_table_mods = on; ' . sprintf($unindexed, 'true'));
# And one that is not built, as pg_upgrade leaves it.
value($_) foreach 'ALTER EVENT TRIGGER index_table_ddl_end DISABLE', 'CREATE INDEX people_unbuilt ON people USING global (name)', 'ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS';
$log = -s $node->logfile;
verify_again();
await('last_verify IS NOT NULL', 'all are verified once more');
isnt(value(q{SELECT problems_found FROM index_table.stat WHERE index_table = 'people_global'::regclass}), '0', 'what a global index lacks is found');
like(slurp_file($node->logfile, $log), qr/WARNING:  verification has found \d+ problems? in public\.people_global\n/, 'and told of');
like(slurp_file($node->logfile, $log), qr/WARNING:  global index "people_unbuilt" is not built\n/, 'so is one that is not built');
is(value(q{SELECT problems_found FROM index_table.stat WHERE index_table = 'people_unbuilt'::regclass}), '1', 'which is a problem');
set('verify_repair', 'on');
pass_by('verified by who may not know that');
verify_again();
await('last_verify IS NOT NULL AND (last_repair IS NOT NULL OR problems_found = 0)', 'and repaired');
is(value("SELECT count(*) FROM index_table.verify('people_global')"), 0, 'with nothing left');
is(value("SELECT index_table.is_built('people_unbuilt') AND NOT EXISTS (SELECT FROM index_table.verify('people_unbuilt'))"), 't', 'and built');
value('DROP INDEX people_unbuilt');
set('verify_repair', 'off');

# Who wants a lock that a long slice holds gets it. A table says what is slow: of a setting a worker may hear late.
value(q{SET ROLE owner; CREATE TABLE pace (is_slow boolean); INSERT INTO pace VALUES (false);
	CREATE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1) FROM public.pace WHERE is_slow; RETURN $1; END $$; SELECT index_table.create('plain', 'public.slowly(id)', name => 'plain_slowly')});
await('last_verify IS NOT NULL', 'a new one is verified');
value('UPDATE pace SET is_slow = true');
verify_again();
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 'plain_slowly'::regclass AND a.backend_type LIKE 'index_table%'}), 'a slice takes its time');
value(q{SET lock_timeout = '6 s'; BEGIN; LOCK TABLE plain IN ACCESS EXCLUSIVE MODE; COMMIT});
is(value(q{SELECT count(*) FROM index_table.stat WHERE index_table = 'plain_slowly'::regclass AND last_verify IS NULL}), 1, 'whoever waits comes first');
value('UPDATE pace SET is_slow = false');
await('last_verify IS NOT NULL AND problems_found = 0', 'what gave way is verified later');
value(q{SELECT index_table.drop('plain_slowly')});

# A function that fails ends a pass.
value(q{SET test.client = 'yes'; SET ROLE owner; CREATE FUNCTION fails(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF current_setting('test.client', true) IS DISTINCT FROM 'yes' THEN RAISE 'not for workers'; END IF; RETURN $1; END $$; SELECT index_table.create('plain', 'public.fails(id)', name => 'plain_fails')});
await('last_verify IS NOT NULL', 'one that cannot be verified does not keep others from it');
is(value(q{SELECT problems_found IS NULL FROM index_table.stat WHERE index_table = 'plain_fails'::regclass}), 't', 'nor is its outcome known');
like(slurp_file($node->logfile, $log), qr/ERROR:  not for workers/, 'the error is in the log');
value(q{SELECT index_table.drop('plain_fails')});

# What is dropped meanwhile is nobody's concern.
verify_again();
value('DROP TABLE plain');
await('last_verify IS NOT NULL AND problems_found = 0', 'the rest is verified');
$node->safe_psql('postgres', 'CALL index_table.drain()');
is(value("SELECT count(*) FROM index_table.verify('$_')"), 0, "$_ is in order") foreach grep { $_ ne 'plain_by_v' } @tables;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by/, 'nothing broke');
done_testing();
