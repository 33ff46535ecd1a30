# A coordinator and two shards: what is written through the coordinator, from several sessions, and
# what happens where a shard cannot be reached, was restarted, or does not answer.
#
#   SHARDS_SEED         repeats the changes of a run
#   SHARDS_STATEMENTS   how many there are (120)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IO::Socket::UNIX;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{SHARDS_SEED} // int(rand(2**31));
my $count = how_many('SHARDS_STATEMENTS', 120);
srand($seed);
note "SHARDS_SEED=$seed";

my $coordinator = new_node('coordinator', conf => "session_preload_libraries = index_table\nmax_wal_senders = 5\nwal_level = replica\n");
my @shards = map { new_node("shard$_") } 1 .. 2;
plan skip_all => 'postgres_fdw is not installed' unless has_extension($coordinator, 'postgres_fdw');

my $columns = 'id int, email text, town text, tags text[], num numeric';
$_->safe_psql('postgres', "CREATE EXTENSION IF NOT EXISTS plpgsql") foreach @shards;
$shards[0]->safe_psql('postgres', "CREATE TABLE c_0 ($columns, PRIMARY KEY (id)); CREATE TABLE c_1 (num numeric, tags text[], k int PRIMARY KEY, town text, email text)");
$shards[1]->safe_psql('postgres', "CREATE TABLE c_2 ($columns, PRIMARY KEY (id))");

my @parts = (
	"CREATE FOREIGN TABLE c_0 PARTITION OF c FOR VALUES WITH (MODULUS 4, REMAINDER 0) SERVER s1 OPTIONS (schema_name 'public')",
	"CREATE FOREIGN TABLE c_1 PARTITION OF c FOR VALUES WITH (MODULUS 4, REMAINDER 1) SERVER s1 OPTIONS (schema_name 'public');"
	  . "ALTER FOREIGN TABLE c_1 ALTER COLUMN id OPTIONS (column_name 'k')",
	"CREATE FOREIGN TABLE c_2 PARTITION OF c FOR VALUES WITH (MODULUS 4, REMAINDER 2) SERVER s2 OPTIONS (schema_name 'public')",
	"CREATE TABLE c_3 PARTITION OF c (PRIMARY KEY (id)) FOR VALUES WITH (MODULUS 4, REMAINDER 3)");
my @index_tables = (
	describe(name => 'c_by_email', base => 'c', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'c_by_town', base => 'c', key => [ 'b.town', 'b.num' ], copies => [ 'id', 'email' ], identity => 1),
	describe(name => 'c_by_tag', base => 'c', key => ['m.v'], elements => 'SELECT t.v, t.o FROM unnest(b.tags) WITH ORDINALITY t(v, o)',
		copies => ['id'], identity => 1),
	describe(name => 'c_odd', base => 'c', key => ['lower(b.town)'], predicate => 'b.num > 5', copies => [ 'id', 'email', 'town', 'tags', 'num' ], identity => 1));
my $create = q{
SELECT index_table.create('c', 'email', is_unique => true, identity => 'id');
SELECT index_table.create('c', 'town, num', 'partial', include => 'email', identity => 'id', name => 'c_by_town');
SELECT index_table.create('c', 'unnest(tags)', identity => 'id', name => 'c_by_tag');
SELECT index_table.create('c', 'lower(town)', 'denormalized', predicate => 'num > 5', identity => 'id', name => 'c_odd');
};

$coordinator->safe_psql('postgres', 'CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;'
	  . join('', map { server_sql("s$_", $shards[ $_ - 1 ], public => 1, options => "async_capable 'true'") } 1, 2)
	  . "CREATE TABLE c ($columns) PARTITION BY HASH (id);" . join(';', @parts) . ';'
	  . oracle_sql(@index_tables));
$coordinator->safe_psql('postgres', q{INSERT INTO c SELECT i, 'mail' || i, 'Town ' || i % 7, ARRAY['t' || i % 3, 't' || i % 5], i % 11 FROM generate_series(1, 300) i});

# --- Created, or not ----------------------------------------------------------------------

$shards[1]->stop;
like(sqlstate($coordinator, 'postgres', "SELECT index_table.create('c', 'town', identity => 'id')"),
	qr/^08001: could not connect to server "s2" of foreign table "c_2"/, 'create: a shard that is down is named');
is($coordinator->safe_psql('postgres', "SELECT count(*) FROM index_table.index_tables"), '0', 'nothing was made');
is($coordinator->safe_psql('postgres', "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index_table%'"), '0', 'no triggers either');
$shards[1]->start;
$coordinator->safe_psql('postgres', $create);
oracle_ok($coordinator, 'postgres', 'after create');
is($coordinator->safe_psql('postgres', "SELECT server, count(*) FROM index_table.shards('c_by_town') GROUP BY 1 ORDER BY 1"), "s1|2\ns2|1\n|1", 'entries lead to shards');

# --- Changes ------------------------------------------------------------------------------

sub pick { return $_[ int(rand(@_)) ] }

sub some_rows { return pick("id = " . (1 + int(rand(400))), "id % 9 = " . int(rand(9)), "town = 'Town " . int(rand(7)) . "'", "num > 8 AND id < 200") }

sub change
{
	my $next = \our $next_id;
	$$next //= 1000;
	my $first = $$next;
	$$next += 10;
	return pick(
		"INSERT INTO c SELECT i, 'new' || i, 'Town ' || i % 7, ARRAY['t' || i % 3, NULL], i % 11 FROM generate_series($first, $first + 7) i",
		"INSERT INTO c VALUES ($first, NULL, NULL, NULL, NULL), ($first + 1, 'mail$first', 'Oslo', '{}', 7)",
		"COPY c (id, email, town, num) FROM PROGRAM 'printf \"$first\\tcopied$first\\tBonn\\t6\\n" . ($first + 1) . "\\t\\\\\\\\N\\tBonn\\t1.50\\n\"'",
		"UPDATE c SET town = 'Town ' || (num::int + 1) % 7 WHERE " . some_rows(),
		"UPDATE c SET num = num + 1, tags = tags || ARRAY['t9'] WHERE " . some_rows(),
		"UPDATE c SET email = email || '!' WHERE " . some_rows(),
		"UPDATE c SET email = 'mail' || (id + 1) WHERE " . some_rows(),
		"UPDATE c_0 SET town = upper(town) WHERE num > 4",
		"UPDATE c SET num = v.n FROM (VALUES (3, 6), (40, 7), (41, 0)) v(id, n) WHERE v.id = c.id",
		"DELETE FROM c WHERE " . some_rows(),
		"WITH gone AS (DELETE FROM c WHERE id % 17 = " . int(rand(17)) . " RETURNING *) INSERT INTO c SELECT id + 5000 + $first * 100, email, town, tags, num FROM gone",
		"DO \$\$ BEGIN UPDATE c SET town = 'Lost' WHERE num < 4; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$");
}

my $sql = "\\set ON_ERROR_STOP 0\n";
foreach my $i (1 .. $count)
{
	if (rand() < 0.3)
	{
		my @statements = map { change() } 1 .. 2 + int(rand(3));
		$sql .= "\\set ON_ERROR_ROLLBACK on\nBEGIN;\n$statements[0];\nSAVEPOINT a;\n" . join(";\n", @statements[ 1 .. $#statements ]) . ";\n"
		  . pick('ROLLBACK TO a', 'RELEASE a', 'SAVEPOINT b') . ";\n" . change() . ";\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n";
	}
	else { $sql .= change() . ";\n"; }
	$sql .= "SELECT oracle.check_all('statement $i');\n" if $i % 10 == 0;
}
my ($result, $stdout, $stderr) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\n$sql");
my @complaints = grep { !/^psql:<stdin>:\d+: ERROR:\s+23505/ } grep { /ERROR|FATAL|PANIC/ } split /\n/, $stderr;
is(join("\n", @complaints), '', "$count changes raised nothing but 23505");
oracle_ok($coordinator, 'postgres', 'after random changes');

$coordinator->safe_psql('postgres', 'TRUNCATE c_1');
is($shards[0]->safe_psql('postgres', 'SELECT count(*) FROM c_1'), '0', 'truncated on the shard');
oracle_ok($coordinator, 'postgres', 'after TRUNCATE of a shard');
$coordinator->safe_psql('postgres', q{TRUNCATE c; INSERT INTO c SELECT i, 'mail' || i, 'Town ' || i % 7, ARRAY['t' || i % 3, 't' || i % 5], i % 11 FROM generate_series(1, 300) i});
oracle_ok($coordinator, 'postgres', 'after TRUNCATE of everything');

# Two shards fail at once, or not at all.
$coordinator->safe_psql('postgres', "BEGIN; INSERT INTO c SELECT i, 'x' || i FROM generate_series(9000, 9010) i; ROLLBACK");
like(sqlstate($coordinator, 'postgres', "INSERT INTO c SELECT i, 'same' FROM generate_series(9000, 9010) i"), qr/^23505/, 'a key that repeats on several shards');
oracle_ok($coordinator, 'postgres', 'after what was rolled back');

# The guard.
like(sqlstate($coordinator, 'postgres', "UPDATE c_0 SET id = id + 1000000"), qr/^23514: new row for foreign table "c_0"/, 'rows stay where they belong');

# --- Partitions ---------------------------------------------------------------------------

$coordinator->safe_psql('postgres', 'ALTER TABLE c DETACH PARTITION c_2; UPDATE c_2 SET town = town || \'!\'');
oracle_ok($coordinator, 'postgres', 'after DETACH');
$coordinator->safe_psql('postgres', 'ALTER TABLE c ATTACH PARTITION c_2 FOR VALUES WITH (MODULUS 4, REMAINDER 2)');
oracle_ok($coordinator, 'postgres', 'after ATTACH');
$coordinator->safe_psql('postgres', "ALTER TABLE c DETACH PARTITION c_2; UPDATE c_2 SET email = 'mail1' WHERE id = (SELECT min(id) FROM c_2); UPDATE c SET email = 'mail1' WHERE id = (SELECT min(id) FROM c)");
like(sqlstate($coordinator, 'postgres', 'ALTER TABLE c ATTACH PARTITION c_2 FOR VALUES WITH (MODULUS 4, REMAINDER 2)'), qr/^23505/, 'ATTACH of a key that is elsewhere');
$coordinator->safe_psql('postgres', "UPDATE c_2 SET email = 'again' WHERE email = 'mail1'");
$shards[1]->stop;
like(sqlstate($coordinator, 'postgres', 'ALTER TABLE c ATTACH PARTITION c_2 FOR VALUES WITH (MODULUS 4, REMAINDER 2)'),
	qr/^08001: could not connect to server "s2" of foreign table "c_2"/, 'ATTACH of a shard that is down');
is($coordinator->safe_psql('postgres', "SELECT count(*) FROM index_table.fetch(NULL::c, 'c_by_email', 'mail1')"), '1', 'other shards are not asked');
oracle_ok($coordinator, 'postgres', 'without it');
$shards[1]->start;
$coordinator->safe_psql('postgres', 'ALTER TABLE c ATTACH PARTITION c_2 FOR VALUES WITH (MODULUS 4, REMAINDER 2)');
oracle_ok($coordinator, 'postgres', 'with it');

# --- Rows written on the shard ------------------------------------------------------------

$shards[0]->safe_psql('postgres', "DELETE FROM c_0 WHERE id IN (SELECT id FROM c_0 ORDER BY id LIMIT 3); UPDATE c_0 SET town = 'Elsewhere' WHERE id IN (SELECT id FROM c_0 ORDER BY id LIMIT 2)");
isnt($coordinator->safe_psql('postgres', "SELECT count(*) FROM index_table.verify('c_by_town')"), '0', 'verify finds them');
$coordinator->safe_psql('postgres', "SELECT index_table.repair(index_table) FROM index_table.index_tables");
oracle_ok($coordinator, 'postgres', 'after repair');

# --- Sessions at the same time ------------------------------------------------------------

# A lock that holds up a session until it is released.
sub hold { my ($key) = @_; return start_session($coordinator, 'postgres', "SELECT pg_advisory_lock($key); SELECT pg_sleep(600);") }

sub release
{
	my ($key, $holder) = @_;
	$coordinator->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = $key AND granted");
	end_session($holder);
	return;
}

sub wait_for { my ($condition) = @_; return $coordinator->poll_query_until('postgres', "SELECT $condition") }

my $holder = hold(1);
wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1)");
my $first = start_session($coordinator, 'postgres', "BEGIN; INSERT INTO c VALUES (2001, 'twice'); SELECT pg_advisory_lock(1); COMMIT;");
wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted)");
my $second = start_session($coordinator, 'postgres', "INSERT INTO c SELECT i, 'twice' FROM generate_series(2002, 2020) i LIMIT 1;");
wait_for("EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'transactionid')");
release(1, $holder);
unlike(end_session($first), qr/ERROR/, 'the first of two that insert the same key on different shards');
like(end_session($second), qr/ERROR:  23505/, 'the second waits, and is refused');
oracle_ok($coordinator, 'postgres', 'afterwards');

# A shard commits first: others find rows whose entries are not committed here. The coordinator's commit
# is held up by a standby that does not exist.
my @on_shards = split /\n/, $coordinator->safe_psql('postgres',
	q{SELECT i FROM generate_series(3001, 3100) i, LATERAL index_table.shard_of('c', i) s WHERE s.server IS NOT NULL ORDER BY s.server DESC, i LIMIT 3});
my @gap = (
	[ "INSERT INTO c VALUES (3001, 'gap', 'Gap', '{gap}', 9)", "DELETE FROM c WHERE id = 3001" ],
	[ "INSERT INTO c VALUES (3002, 'gap2', 'Gap', '{gap}', 9)", "UPDATE c SET email = 'gap3', town = 'Gone', tags = '{x}' WHERE id = 3002" ],
	[ "UPDATE c SET email = 'gap4', town = 'Went', num = 10 WHERE id = 3002", "UPDATE c SET email = 'gap5', town = 'Left', tags = NULL WHERE id = 3002" ],
	[ "UPDATE c SET tags = '{a,b}', num = 11 WHERE id = 3002", "DELETE FROM c WHERE id = 3002" ],
	[ "INSERT INTO c VALUES (3003, 'gap', 'Gap', '{gap}', 9)", "DELETE FROM c WHERE id = 3003; INSERT INTO c VALUES (3003, 'gap', 'Gap', '{gap}', 9)" ]);
foreach my $gap (@gap)
{
	my ($change, $other) = map { s/(300)(\d)/$on_shards[$2 - 1]/gr } @$gap;
	$coordinator->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	$coordinator->reload;
	wait_for("current_setting('synchronous_standby_names') = 'nobody'");
	my $slow = start_session($coordinator, 'postgres', "SET synchronous_commit = local; SELECT count(*) FROM c; SET synchronous_commit = on; $change;");
	wait_for("EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')");
	my $fast = start_session($coordinator, 'postgres', "SET synchronous_commit = local; $other;");
	wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted) OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%synchronous_commit = local; " . substr($other, 0, 10) . "%' AND pid <> pg_backend_pid() AND state = 'active')");
	$coordinator->safe_psql('postgres', "SET synchronous_commit = local; ALTER SYSTEM SET synchronous_standby_names = ''");
	$coordinator->reload;
	unlike(end_session($slow), qr/ERROR/, "$change is committed late");
	unlike(end_session($fast), qr/ERROR/, "$other in between");
	oracle_ok($coordinator, 'postgres', 'afterwards', 0);
}

# --- Shards that do not answer --------------------------------------------------------------

# Connections are kept, and made anew.
$holder = hold(2);
wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 2)");
my $session = start_session($coordinator, 'postgres', q{
SELECT index_table.create('c', 'num', identity => 'id', name => 'one');
SELECT pg_advisory_lock(2);
SELECT index_table.create('c', 'num', identity => 'id', name => 'two');
SELECT index_table.drop('one'), index_table.drop('two');});
wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 2 AND NOT granted)");
$_->safe_psql('postgres', "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name IN ('index_table', 'postgres_fdw')") foreach @shards;
release(2, $holder);
unlike(end_session($session), qr/ERROR/, 'a session goes on after its connections were lost');

# A statement that waits on the shard.
$holder = hold(3);
wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 3)");
$session = start_session($coordinator, 'postgres', q{
SET index_table.shard_timeout = '1s';
SELECT index_table.create('c', 'num', identity => 'id', name => 'one');
SELECT pg_advisory_lock(3);
SELECT index_table.create('c', 'num', identity => 'id', name => 'two');
SET index_table.shard_timeout = 0;
SET statement_timeout = '1s';
SELECT index_table.create('c', 'num', identity => 'id', name => 'two');
SELECT index_table.drop('one');});
wait_for("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 3 AND NOT granted)");
my $lock = start_session($shards[0], 'postgres', "BEGIN; LOCK TABLE pg_catalog.pg_inherits;");
$shards[0]->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 2611 AND mode = 'AccessExclusiveLock' AND granted)") or die;
release(3, $holder);
my $output = end_session($session);
like($output, qr/ERROR:  08006: lost the connection to server "s1" of foreign table "c_0"\n.*index_table.shard_timeout/, 'a shard that does not answer in time');
like($output, qr/ERROR:  57014/, 'a statement that waits for a shard is cancelled');
release_lock($lock);

# One that takes connections, and says nothing.
my $silent_dir = PostgreSQL::Test::Utils::tempdir_short();
my $listener = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "$silent_dir/.s.PGSQL.5999", Listen => 5) or die "cannot listen: $!";
chmod 0777, $silent_dir, "$silent_dir/.s.PGSQL.5999";
$coordinator->safe_psql('postgres', qq{CREATE SERVER silent FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$silent_dir', port '5999');
CREATE USER MAPPING FOR PUBLIC SERVER silent;
CREATE FOREIGN TABLE mute (id int, town text) SERVER silent;});
my $begin = time;
like(sqlstate($coordinator, 'postgres', "SET index_table.shard_connect_timeout = '1s'; SELECT index_table.create('mute', 'town', identity => 'id')"),
	qr/^08001: could not connect to server "silent" of foreign table "mute"/, 'time to connect runs out');
like(sqlstate($coordinator, 'postgres', "SET statement_timeout = '1s'; SELECT index_table.create('mute', 'town', identity => 'id')"),
	qr/^57014/, 'connecting can be cancelled');
$coordinator->safe_psql('postgres', "ALTER SERVER silent OPTIONS (ADD connect_timeout '1')");
like(sqlstate($coordinator, 'postgres', "SELECT index_table.create('mute', 'town', identity => 'id')"), qr/^08001/, "the server's own connect_timeout");
cmp_ok(time - $begin, '<', 60, 'nobody waits for long');
is($coordinator->safe_psql('postgres', "SELECT count(*) FROM index_table.index_tables WHERE base = 'mute'::regclass"), '0', 'nothing was made');
$coordinator->safe_psql('postgres', 'DROP SERVER silent CASCADE');
close $listener;
oracle_ok($coordinator, 'postgres', 'after all that');

# --- Dump and restore -------------------------------------------------------------------------

my $dump = "$PostgreSQL::Test::Utils::tmp_check/coordinator.sql";
$coordinator->command_ok([ 'pg_dump', '-f', $dump, $coordinator->connstr('postgres') ], 'pg_dump');
$coordinator->safe_psql('postgres', 'CREATE DATABASE restored');
$coordinator->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $coordinator->connstr('restored') ], 'restored');
oracle_ok($coordinator, 'restored', 'the copy is in step');
$coordinator->safe_psql('restored', "INSERT INTO c VALUES (4001, 'restored', 'Town 1', '{t1}', 6), (4002, 'restored2', 'Town 2', NULL, 6); UPDATE c SET town = 'New' WHERE id % 5 = 0; TRUNCATE c_1");
oracle_ok($coordinator, 'restored', 'and keeps in step');
$coordinator->safe_psql('postgres', "SELECT index_table.repair(index_table) FROM index_table.index_tables");
oracle_ok($coordinator, 'postgres', 'the original catches up by repair');
check_storage($coordinator, $_, $_) foreach qw(postgres restored);

done_testing();
