# A streaming standby of the coordinator: it reads through index tables and shards, never finds a wrong row, and is
# promoted while intents are open and drains unfinished. STANDBY_SEED and STANDBY_ROUNDS repeat and lengthen a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{STANDBY_SEED} // int(rand(2**31));
my $rounds = how_many('STANDBY_ROUNDS', 3);
srand($seed);
note "STANDBY_SEED=$seed STANDBY_ROUNDS=$rounds";

# --- Servers ----------------------------------------------------------------------------

my $conf = "restart_after_crash = on\nindex_table.drain_naptime = 0\n";
my @shards = map { new_node("shard$_", conf => $conf) } 1 .. 2;
# Commits of changes of the table that is not captured can be made to wait.
$_->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE people (id int PRIMARY KEY, shard int, email text, town text);
SELECT index_table.capture('people');
CREATE TABLE loose (id int PRIMARY KEY, shard int, email text);} . gate_sql('loose')) foreach @shards;
my $primary = new_node('coordinator', allows_streaming => 1,
	conf => "${conf}shared_preload_libraries = 'index_table'\nindex_table.shard_connect_timeout = '5s'\nmax_standby_streaming_delay = 1s\n");
$primary->safe_psql('postgres', q{
CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;
CREATE TABLE people (id int NOT NULL, shard int, email text, town text) PARTITION BY LIST (shard);
CREATE TABLE loose (id int NOT NULL, shard int, email text) PARTITION BY LIST (shard);});
foreach my $i (1 .. 2)
{
	$primary->safe_psql('postgres', server_sql("shard$i", $shards[ $i - 1 ]) . qq{
CREATE FOREIGN TABLE people_$i PARTITION OF people FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'people');
CREATE FOREIGN TABLE loose_$i PARTITION OF loose FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'loose');});
}
$primary->safe_psql('postgres', q{
CREATE TABLE people_0 PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN (0);
INSERT INTO people SELECT i, i % 3, 'mail ' || i, 'Town ' || i % 9 FROM generate_series(1, 900) AS i;
INSERT INTO loose SELECT i, 1 + i % 2, 'loose ' || i FROM generate_series(1, 100) AS i;
SELECT index_table.create('people', 'email', is_unique => true, identity => 'id, shard', name => 'by_email');
SELECT index_table.create('people', 'town', strategy => 'partial', include => 'email', identity => 'id, shard', maintenance => 'deferred', name => 'by_town');
SELECT index_table.create('loose', 'email', identity => 'id, shard', name => 'loose_by_email');
CREATE TABLE notes (id int PRIMARY KEY, word text) PARTITION BY HASH (id);
CREATE TABLE notes_0 PARTITION OF notes FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE notes_1 PARTITION OF notes FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO notes SELECT i, 'word ' || i % 50 FROM generate_series(1, 500) AS i;
SELECT index_table.create('notes', 'word', name => 'notes_by_word', maintenance => 'deferred');
CALL index_table.drain();
ANALYZE by_email; ANALYZE by_town; ANALYZE loose_by_email; ANALYZE notes_by_word;
-- Looks up keys that come and go, and minds what it gets.
CREATE FUNCTION look(times int) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
	found record;
	wanted text;
	number int := 0;
BEGIN
	FOR i IN 1 .. times LOOP
		wanted := (ARRAY['mail ', 'again '])[1 + i % 2] || 1 + i * 7 % 900;
		FOR found IN SELECT * FROM people WHERE email = wanted LOOP
			IF found.email IS DISTINCT FROM wanted OR found.id % 3 <> found.shard THEN
				RAISE EXCEPTION 'wrong row: % for %', found, wanted;
			END IF;
			number := number + 1;
		END LOOP;
	END LOOP;
	RETURN number;
END $$;});
$primary->safe_psql('postgres', oracle_sql(
	describe(name => 'by_email', base => 'people', key => ['b.email'], copies => [ 'id', 'shard' ], identity => 2, is_unique => 1),
	describe(name => 'by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'shard', 'email' ], identity => 2),
	describe(name => 'loose_by_email', base => 'loose', key => ['b.email'], copies => [ 'id', 'shard' ], identity => 2),
	describe(name => 'notes_by_word', base => 'notes', key => ['b.word'], copies => ['id'], identity => 1)));

my $standbys = 0;

sub make_standby
{
	my $name = 'standby' . ++$standbys;
	$primary->backup($name);
	my $standby = QuickNode->new($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	# What the one before has set by ALTER SYSTEM is not for this one.
	$standby->append_conf('postgresql.conf', "primary_slot_name = ''\n");
	$standby->start;
	return $standby;
}

sub caught_up
{
	my ($standby) = @_;
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

# --- Reading ------------------------------------------------------------------------------

my $standby = make_standby();
caught_up($standby);
# Entries have no towns: rows are asked for.
my $read = 'SELECT id, shard, email FROM people WHERE town IS NOT NULL AND email';

my $plan = $standby->safe_psql('postgres', "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $read = 'mail 7'");
like($plan, qr/Index Table: by_email/, 'planned through the index table');
like($plan, qr/Shards: pipelined/, 'pipelined');
$shards[1]->stop('fast');
is($standby->safe_psql('postgres', "$read = 'mail 7'"), '7|1|mail 7', 'the shard that has the row is asked, and no other');
is($standby->safe_psql('postgres', "SET index_table.shard_access = fdw; $read = 'mail 7'"), '7|1|mail 7', 'through the wrapper');
like(sqlstate($standby, 'postgres', "SET index_table.enable_scan = off; $read = 'mail 7'"), qr/^08/, 'natively all are');
like(sqlstate($standby, 'postgres', "$read = 'mail 8'"), qr/^08/, 'its shard is away');
is($standby->safe_psql('postgres', "SET index_table.unreachable_shards = skip; SET client_min_messages = error; $read IN ('mail 7', 'mail 8', 'mail 9') ORDER BY id"), "7|1|mail 7\n9|0|mail 9", 'it is left out');
$shards[1]->start;
my $executes = join('', map { "EXECUTE p('mail $_');" } 1 .. 12);
my $expected = join("\n", map { "$_|" . $_ % 3 . "|mail $_" } 1 .. 12);
is($standby->safe_psql('postgres', "PREPARE p AS $read = \$1; $executes"), $expected, 'prepared');
is($standby->safe_psql('postgres', "SET plan_cache_mode = force_generic_plan; PREPARE p AS $read = \$1; $executes"), $expected, 'prepared, a generic plan');
is($standby->safe_psql('postgres', "BEGIN ISOLATION LEVEL REPEATABLE READ; PREPARE p AS $read = \$1; $executes COMMIT"), $expected, 'repeatable read');
is($standby->safe_psql('postgres', "SELECT id FROM people WHERE email BETWEEN 'mail 10' AND 'mail 12' ORDER BY email LIMIT 5"), "10\n100\n101\n102\n103", 'in order');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM index_table.fetch(NULL::people, 'by_email', 'mail 5'); SELECT partition, server FROM index_table.lookup('by_email', 'mail 5');
SELECT count(*) FROM index_table.verify('by_email')}), "1\npeople_2|shard2\n0", 'fetch, lookup, verify');
my ($rows_with, $rows_without) = map { $standby->safe_psql('postgres', "SET index_table.enable_scan = $_; SELECT * FROM people WHERE email > 'mail 5' ORDER BY id") } 'force', 'off';
is($rows_with, $rows_without, 'with and without');

# What changes arrives.
$primary->safe_psql('postgres', q{UPDATE people SET email = 'again ' || id WHERE id IN (7, 8, 9); DELETE FROM people WHERE id = 10; INSERT INTO people VALUES (2000, 2, 'new', 'New')});
caught_up($standby);
is($standby->safe_psql('postgres', "$read IN ('mail 7', 'again 7', 'again 8', 'mail 9', 'again 9', 'mail 10', 'new') ORDER BY id"), "7|1|again 7\n8|2|again 8\n9|0|again 9\n2000|2|new", 'what changed');
$primary->safe_psql('postgres', 'DELETE FROM people WHERE id = 2000');

# One that lags: rows of shards are new, entries old.
caught_up($standby);
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$primary->safe_psql('postgres', q{UPDATE people SET email = 'swapped ' || id WHERE id IN (11, 12); DELETE FROM people WHERE id = 13; UPDATE people SET town = 'Elsewhere' WHERE id = 14});
is($standby->safe_psql('postgres', "$read IN ('mail 11', 'mail 13'); $read = 'swapped 11'"), '', 'lagging: no row under a key that it has not');
is($standby->safe_psql('postgres', "SELECT email, town FROM people WHERE email = 'mail 14'"), 'mail 14|Elsewhere', 'lagging: rows of shards are as they are');
is($standby->safe_psql('postgres', "$read = 'mail 12'"), '12|0|mail 12', 'lagging: rows that are here are old');
is($standby->safe_psql('postgres', "SELECT id FROM people WHERE email IN ('mail 11', 'mail 12', 'mail 13') ORDER BY id"), "11\n12\n13", 'lagging: entries alone are old, too');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
caught_up($standby);
is($standby->safe_psql('postgres', "$read IN ('swapped 11', 'swapped 12') ORDER BY id"), "11|2|swapped 11\n12|0|swapped 12", 'not lagging any more');

# Deferred: through shards, and with a queue here.
$shards[0]->safe_psql('postgres', q{UPDATE people SET town = 'Direct' WHERE id IN (16, 19)});
$primary->safe_psql('postgres', q{UPDATE notes SET word = 'pending' WHERE id <= 3; INSERT INTO notes VALUES (1000, 'pending'); DELETE FROM notes WHERE id = 2});
caught_up($standby);
my $town = "SELECT id FROM people WHERE town = 'Direct' ORDER BY id";
my $word = "SELECT id FROM notes WHERE word = 'pending' ORDER BY id";
unlike($standby->safe_psql('postgres', "EXPLAIN (COSTS OFF) $town"), qr/by_town/, 'exact: not through what is deferred');
is($standby->safe_psql('postgres', $town), "16\n19", 'exact');
like($standby->safe_psql('postgres', "SET index_table.read_consistency = eventual; EXPLAIN (COSTS OFF) $town"), qr/by_town/, 'eventual: through it');
is($standby->safe_psql('postgres', "SET index_table.read_consistency = eventual; $town"), '', 'eventual: not drained');
like($standby->safe_psql('postgres', "SET index_table.enable_scan = force; EXPLAIN (COSTS OFF) $word"), qr/notes_by_word/, 'a queue here: through the index table');
is($standby->safe_psql('postgres', "SET index_table.enable_scan = force; $word"), "1\n3\n1000", 'pending rows');
is($standby->safe_psql('postgres', q{SELECT server, pending FROM index_table.queue WHERE index_table = 'by_town'::regclass ORDER BY server}), "shard1|5\nshard2|5", 'how much is queued');
is($standby->safe_psql('postgres', q{SELECT index_table.wait_caught_up('by_town', '0.1 s')}), 'f', 'not caught up');
$primary->safe_psql('postgres', 'CALL index_table.drain()');
caught_up($standby);
is($standby->safe_psql('postgres', q{SELECT index_table.wait_caught_up('by_town', '10 s')}), 't', 'caught up');
is($standby->safe_psql('postgres', "SET index_table.read_consistency = eventual; $town"), "16\n19", 'eventual: drained');
is($standby->safe_psql('postgres', "SET index_table.enable_scan = force; $word"), "1\n3\n1000", 'drained rows');

# What writes is refused.
foreach my $sql ('CALL index_table.drain()', q{CALL index_table.create_concurrently('people', 'town', identity => 'id, shard')}, q{CALL index_table.rebuild('by_town')},
	q{SELECT index_table.repair('by_email')}, q{SELECT index_table.create('people', 'id', identity => 'id, shard')}, q{SELECT index_table.drop('by_email')},
	q{SELECT index_table.set_maintenance('by_town', 'immediate')}, q{SELECT index_table.vacuum()},
	q{UPDATE people SET town = 'x' WHERE email = 'mail 20'}, q{INSERT INTO people VALUES (1, 1, 'x', 'x') ON CONFLICT (email) DO NOTHING}, "$read = 'mail 20' FOR UPDATE")
{
	like(sqlstate($standby, 'postgres', $sql), qr/^25006: /, "refused: $sql");
}

# Beside writers and drains: recovery may be in the way, wrong rows are never seen.
my @writers = map { start_session($primary, 'postgres', "SET client_min_messages = error;\n" . join('', map {
	my $i = 1 + int(rand(900));
	my $s = $i % 3;
	("UPDATE people SET email = CASE WHEN email LIKE 'mail%' THEN 'again ' ELSE 'mail ' END || id WHERE id = $i;", "DELETE FROM people WHERE id = $i;", "INSERT INTO people SELECT $i, $s, 'mail $i', 'Town' WHERE NOT EXISTS (SELECT FROM people WHERE id = $i AND shard = $s);",
		'CALL index_table.drain();', 'VACUUM by_email, by_town;')[ (0, 0, 0, 0, 0, 1, 2, 2, 3, 4)[ int(rand(10)) ] ] . "\n" } 1 .. 200) . '\\q') } 1 .. 2;
my @readers = map { start_session($standby, 'postgres', "SET index_table.shard_access = " . ($_ % 2 ? 'auto' : 'fdw') . ";\n" . "SELECT look(100);\n" x 20 . '\\q') } 1 .. 2;
# A row that two change, and a key that is there again, are theirs to lose.
unlike(end_session($_), qr/ERROR:  (?!40001|40P01|23505)/, 'written meanwhile') foreach @writers;
foreach my $reader (@readers)
{
	my $output = end_session($reader);
	unlike($output, qr/ERROR:  (?!40001)/, 'read meanwhile') or diag $output;
	cmp_ok(() = $output =~ /^[1-9]\d*$/mg, '>', 0, 'rows were read');
}

# --- Promotion ------------------------------------------------------------------------------

sub fine_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $stderr;
	foreach (1 .. 20)
	{
		(undef, undef, $stderr) = $primary->psql('postgres', 'CALL index_table.drain()');
		last if $stderr eq '' && $primary->safe_psql('postgres', 'SELECT sum(pending) + (SELECT count(*) FROM index_table.intent) FROM index_table.queue') eq '0';
	}
	is($stderr, '', "$label: drained");
	is($primary->safe_psql('postgres', 'SELECT count(*) FROM index_table.undrained'), '0', "$label: nothing refused");
	is($primary->safe_psql('postgres', q{SELECT string_agg(v::text, ' ') FROM unnest('{by_email,by_town,loose_by_email,notes_by_word}'::regclass[]) AS t, index_table.verify(t) AS v}), '', "$label: verify");
	return oracle_ok($primary, 'postgres', "$label: exact", 0);
}

sub fail_over
{
	$primary->stop('immediate');
	$standby->start unless $standby->safe_psql('postgres', 'SELECT true') eq 't';
	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
	$primary = $standby;
	return;
}

fine_ok('before the first promotion');
my $id = 10000;
foreach my $round (1 .. $rounds)
{
	$id += 100;
	my $waits = int(rand(2)); # which shard does not commit
	my $label = "round $round: shard " . ($waits + 1) . ' waits';
	note $label;
	# A drain has committed, and not discarded.
	my $other = 1 - $waits;
	$shards[$other]->safe_psql('postgres', "INSERT INTO people VALUES ($id + 1, $other + 1, 'direct $id', 'Direct'); UPDATE people SET email = email || '.' WHERE id % 50 = $round");
	my $lock = lock_table($shards[$other], 'people_outbox');
	my $drain = start_command($primary, 'CALL index_table.drain()');
	$shards[$other]->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_outbox'::regclass AND NOT granted}) or die 'nobody waits';
	# And two transactions are between commits: one shard has committed, or not yet; one of tables that are not captured.
	my $gate = shut_gate($shards[$waits]);
	my ($first, $second) = $waits ? (1, 2) : (2, 1);
	my @commands = map { start_command($primary, $_) } (
		"BEGIN; INSERT INTO loose VALUES ($id, $first, 'open $id'), ($id + 1, $second, 'open too $id'); DELETE FROM loose WHERE id = $round; COMMIT;",
		"BEGIN; UPDATE loose SET email = email || '!' WHERE id IN (20 + $round, 31 + $round); COMMIT;");
	$shards[$waits]->poll_query_until('postgres', q{SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) or die 'nobody waits';
	$primary->safe_psql('postgres', "UPDATE notes SET word = 'round $round' WHERE id % 20 = $round");
	caught_up($standby);
	is($standby->safe_psql('postgres', 'SELECT count(*) > 0 FROM index_table.intent'), 't', "$label: intents are open");
	fail_over();
	eval { end_command($_) } foreach $drain, @commands;
	release_lock($_) foreach $lock, $gate;
	$shards[$waits]->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'}) or die 'somebody waits';
	# Writers go on.
	is(sqlstate($primary, 'postgres', "INSERT INTO people VALUES ($id + 2, 2, 'promoted $id', 'Promoted'); UPDATE people SET email = email || '?' WHERE id IN (30, 31, 32); DELETE FROM people WHERE email = 'direct $id'; INSERT INTO loose VALUES ($id + 3, 1, 'promoted')"), '', "$label: written");
	is($primary->safe_psql('postgres', "$read = 'promoted $id'"), $id + 2 . "|2|promoted $id", "$label: read");
	fine_ok($label);
	$standby = make_standby();
}

diag("$rounds promotions");

# A standby that primaries wait for: shards do not forget what a drain has carried over before it has that. It is away
# when that happens, so that the drain does not go on.
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
$primary->reload;
caught_up($standby);
$standby->stop('fast');
$shards[0]->safe_psql('postgres', q{UPDATE people SET email = 'drained ' || id WHERE id % 40 = 1});
my $drain = start_session($primary, 'postgres', "SET synchronous_commit = off;\nCALL index_table.drain();\n\\q");
$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'CALL %drain()%'}) or die 'the drain does not wait for the standby';
cmp_ok($shards[0]->safe_psql('postgres', q{SELECT changes FROM index_table.backlog('people')}), '>', 0, 'nothing is discarded before the standby knows');
$primary->stop('immediate');
eval { end_session($drain) };
$standby->start;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$standby->reload;
$primary = $standby;
fine_ok('a standby that was waited for');

check_storage($primary, 'postgres');
$_->stop foreach $primary, @shards;
done_testing();
