# Index tables under logical replication, two-phase commit, crashes, on a standby, and in sessions
# that load the library late.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# --- Tables --------------------------------------------------------------------

my $base_sql = q{
CREATE TABLE people (junk int, id int, region text NOT NULL, email text, tags text[], points int,
	note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
ALTER TABLE people DROP COLUMN junk;
CREATE TABLE people_n PARTITION OF people FOR VALUES IN ('n');
CREATE TABLE people_s (note text, gone int, points int, tags text[], email text, region text NOT NULL, id int NOT NULL);
ALTER TABLE people_s DROP COLUMN gone;
ALTER TABLE people ATTACH PARTITION people_s FOR VALUES IN ('s');
CREATE TABLE people_rest PARTITION OF people DEFAULT;
};
my $notes_sql = q{
CREATE TABLE notes (id numeric PRIMARY KEY, word text COLLATE "C") PARTITION BY HASH (id);
CREATE TABLE notes_0 PARTITION OF notes FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE notes_1 PARTITION OF notes FOR VALUES WITH (MODULUS 2, REMAINDER 1);
};

my $index_sql = q{
SELECT index_table.create('people', 'lower(email)', is_unique => true, name => 'people_email');
SELECT index_table.create('people', 'unnest(tags), points DESC', strategy => 'partial', include => 'note', name => 'people_tags');
SELECT index_table.create('people', 'points', strategy => 'denormalized', predicate => 'points > 2', partitions => 2, name => 'people_points');
SELECT index_table.create('notes', 'word', strategy => 'partial', include => 'id', name => 'notes_word');
};

my @tables = (
	describe(
		name => 'people_email',
		base => 'people',
		key => ['lower(b.email)'],
		copies => [ 'id', 'region' ],
		identity => 2,
		is_unique => 1),
	describe(
		name => 'people_tags',
		base => 'people',
		key => [ 'm.v', 'b.points' ],
		elements => 'SELECT v, o FROM unnest(b.tags) WITH ORDINALITY AS s(v, o)',
		copies => [ 'id', 'region', 'note' ],
		identity => 2),
	describe(
		name => 'people_points',
		base => 'people',
		key => ['b.points'],
		predicate => 'b.points > 2',
		copies => [ 'id', 'region', 'email', 'tags', 'note' ],
		identity => 2),
	describe(name => 'notes_word', base => 'notes', key => ['b.word'], copies => ['id'], identity => 1));

my $rows_sql = q{
INSERT INTO people SELECT i, (ARRAY['n', 's', 'e', 'w'])[1 + i % 4], 'Mail' || i || '@x', ARRAY['t' || i % 7, 't' || i % 3, NULL],
	nullif(i % 11, 0), repeat(md5(i::text), i % 100) FROM generate_series(1, 300) i;
INSERT INTO notes SELECT i + 0.0, 'w' || i % 5 FROM generate_series(1, 40) i;
};

# Changes of every kind; $n makes them differ from one call to the next.
sub changes
{
	my ($n) = @_;
	my $first = 1000 * $n;
	return (
		"INSERT INTO people SELECT $first + i, (ARRAY['n', 's', 'e'])[1 + i % 3], 'new$n.' || i, ARRAY['t' || i % 4], i % 9, 'n' FROM generate_series(1, 60) i",
		"UPDATE people SET email = 'changed' || id || '.$n', tags = tags || 'x$n'::text WHERE id % 5 = $n % 5",
		"UPDATE people SET note = note || '!' WHERE id % 7 = 1",
		"UPDATE people SET region = CASE region WHEN 'n' THEN 's' WHEN 's' THEN 'e' ELSE 'n' END WHERE id % 9 = $n % 9",
		"UPDATE people p SET email = s.email FROM (SELECT id, region, coalesce(lead(email) OVER w, first_value(email) OVER w) AS email FROM people WHERE id % 6 = 2 WINDOW w AS (ORDER BY id, region)) s WHERE p.id = s.id AND p.region = s.region",
		"UPDATE people SET points = -points WHERE id % 10 = 3",
		"UPDATE notes SET id = id * 1.0, word = upper(word) WHERE id > 20",
		"DELETE FROM people WHERE id % 13 = $n % 13",
		"INSERT INTO notes VALUES ($first, 'w$n') ON CONFLICT DO NOTHING");
}

my $new_session = 'CREATE EXTENSION index_table; SET client_min_messages = warning;';

# --- Logical replication -------------------------------------------------------

my $publisher = new_node('publisher', allows_streaming => 'logical');
my $subscriber = new_node('subscriber', allows_streaming => 'logical');

# Changes of people arrive for each partition, those of notes are routed by the subscriber.
$publisher->safe_psql('postgres',
	"$new_session $base_sql CREATE TABLE notes (id numeric PRIMARY KEY, word text); $rows_sql");
$subscriber->safe_psql('postgres', "$new_session $base_sql $notes_sql $index_sql" . oracle_sql(@tables));
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE people, notes');
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '$connection' PUBLICATION pub");
# Not wait_for_subscription_sync(): a table whose copy fails for ever would make it wait for long.
$subscriber->poll_query_until('postgres',
	q{SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')});
$publisher->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM people_tags') > 300, 1, 'subscriber: entries for the first copy');
oracle_ok($subscriber, 'postgres', 'subscriber: in step after the first copy');

$publisher->safe_psql('postgres', "$_;") foreach changes(1);
$publisher->wait_for_catchup('sub');
oracle_ok($subscriber, 'postgres', 'subscriber: in step after statements, a transaction each');

$publisher->safe_psql('postgres', join(";\n", 'BEGIN', (changes(2))[ 0 .. 3 ], 'SAVEPOINT a', changes(3), 'ROLLBACK TO a', (changes(2))[ 4 .. 8 ], 'COMMIT'));
$publisher->wait_for_catchup('sub');
oracle_ok($subscriber, 'postgres', 'subscriber: in step after one transaction with a savepoint');

$publisher->safe_psql('postgres', 'TRUNCATE people_s; TRUNCATE notes; ' . join('; ', changes(4)));
$publisher->wait_for_catchup('sub');
oracle_ok($subscriber, 'postgres', 'subscriber: in step after TRUNCATE');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM people'),
	$publisher->safe_psql('postgres', 'SELECT count(*) FROM people'), 'subscriber: has all rows');

# Streamed in parts while the transaction runs.
$publisher->safe_psql('postgres', 'ALTER SYSTEM SET logical_decoding_work_mem = \'64kB\'; SELECT pg_reload_conf()');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET (streaming = on)');
$publisher->safe_psql('postgres', join(";\n", 'BEGIN', changes(5), 'SAVEPOINT a', changes(6), 'ROLLBACK TO a', changes(7), 'COMMIT'));
$publisher->wait_for_catchup('sub');
oracle_ok($subscriber, 'postgres', 'subscriber: in step after a streamed transaction');

# A row that the subscriber must refuse: a unique index table is a constraint there too.
$publisher->safe_psql('postgres', "INSERT INTO people VALUES (900001, 'n', 'twice'), (900002, 's', 'TWICE')");
$subscriber->wait_for_log(qr/duplicate key value violates unique constraint "people_email_key"/);
oracle_ok($subscriber, 'postgres', 'subscriber: a transaction that is refused leaves nothing');
$subscriber->safe_psql('postgres', 'SELECT index_table.drop(\'people_email\')');
$publisher->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM people WHERE id > 900000'), 2, 'subscriber: goes on without the constraint');
oracle_ok($subscriber, 'postgres', 'subscriber: in step at the end');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
$subscriber->stop;
$publisher->stop;

# --- Two-phase commit ----------------------------------------------------------

my $node = new_node('main', allows_streaming => 'physical');
$node->safe_psql('postgres', "$new_session $base_sql $notes_sql $rows_sql $index_sql" . oracle_sql(@tables));

$node->safe_psql('postgres', join(";\n", 'BEGIN', changes(1), q{PREPARE TRANSACTION 'one'}));
$node->safe_psql('postgres', "BEGIN; INSERT INTO notes VALUES (5000, 'two'); SAVEPOINT a; INSERT INTO notes VALUES (5001, 'two'); RELEASE a; PREPARE TRANSACTION 'two'");
$node->restart;
oracle_ok($node, 'postgres', 'two-phase: prepared transactions change nothing yet');
like(sqlstate($node, 'postgres', q{SET lock_timeout = 100; INSERT INTO people VALUES (800001, 'n', 'new1.1')}),
	qr/^55P03/, 'two-phase: a key of a prepared transaction is waited for');
$node->safe_psql('postgres', q{COMMIT PREPARED 'one'});
oracle_ok($node, 'postgres', 'two-phase: in step after COMMIT PREPARED');
like(
	sqlstate($node, 'postgres', q{INSERT INTO people SELECT 800001, 'n', upper(min(email)) FROM people WHERE email LIKE 'new1.%'}),
	qr/^23505/, 'two-phase: its keys are taken');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'two'});
is($node->safe_psql('postgres', q{SELECT count(*) FROM notes_word WHERE word = 'two'}), 0, 'two-phase: nothing is left after ROLLBACK PREPARED');
oracle_ok($node, 'postgres', 'two-phase: in step after ROLLBACK PREPARED');

# --- A standby, and crashes ------------------------------------------------------

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;

my $reading = q{
SELECT partition, identity, included FROM index_table.lookup('people_tags', 't1');
SELECT * FROM index_table.fetch(NULL::people, 'people_email');
SELECT * FROM index_table.fetch(NULL::people, 'people_points', 3);
SELECT (entity).id, next FROM index_table.page(NULL::people, 'people_tags', 10, NULL, 't1');
};
foreach my $round (2 .. 3)
{
	$node->safe_psql('postgres', "$_;") foreach changes($round);
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is($standby->safe_psql('postgres', $reading), $node->safe_psql('postgres', $reading), "standby: reads what the primary reads ($round)");
	oracle_ok($standby, 'postgres', "standby: in step ($round)");
}
like(sqlstate($standby, 'postgres', q{INSERT INTO notes VALUES (1, 'x')}), qr/^25006/, 'standby: refuses changes');
like(sqlstate($standby, 'postgres', q{SELECT index_table.create('notes', 'id')}), qr/^25006/, 'standby: refuses create');

# Clients that go on until the server is gone.
foreach my $round (4 .. 6)
{
	my @clients = map {
		my $client = $_;
		start_session($node, 'postgres', join(";\n", map { ('BEGIN', changes(100 * $round + 10 * $client + $_), 'COMMIT;') } 1 .. 30));
	} 1 .. 2;
	my $start = $node->safe_psql('postgres', 'SELECT count(*) FROM people');
	$node->poll_query_until('postgres', "SELECT count(*) <> $start FROM people");
	$node->stop('immediate');
	end_session($_) foreach @clients;
	$node->start;
	isnt($node->safe_psql('postgres', 'SELECT count(*) FROM people'), $start, "crash: some transactions were committed ($round)");
	oracle_ok($node, 'postgres', "crash: in step after recovery ($round)");
}
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$standby->promote;
oracle_ok($standby, 'postgres', 'standby: in step after promotion');
$standby->safe_psql('postgres', "$_;") foreach changes(7);
oracle_ok($standby, 'postgres', 'standby: goes on as primary');
$standby->stop;

# --- Sessions that load the library late -------------------------------------------
# Nothing preloads it: the first trigger call does, in the middle of a statement.

my $row = 700000;

sub people_row
{
	$row++;
	return "($row, 'n', 'first$row', ARRAY['t1', 'late'], 5, 'note')";
}

my %first_statements = (
	'INSERT' => sub { 'INSERT INTO people VALUES ' . join(', ', map { people_row() } 1 .. 5) . ';' },
	'COPY' => sub { $row += 2; "COPY people (id, region, email, tags) FROM stdin;\n" . ($row - 1) . "\tn\tc$row.1\t{t1}\n$row\ts\tc$row.2\t{t1,t2}\n\\.\n" },
	'UPDATE of keys that are swapped' => sub { 'UPDATE people p SET email = s.email FROM (SELECT id, region, coalesce(lead(email) OVER w, first_value(email) OVER w) AS email FROM people WHERE id % 6 = 1 WINDOW w AS (ORDER BY id, region)) s WHERE p.id = s.id AND p.region = s.region;' },
	'UPDATE that moves rows' => sub { "UPDATE people SET region = CASE region WHEN 'n' THEN 's' ELSE 'n' END WHERE id % 3 = 0;" },
	'DELETE' => sub { 'DELETE FROM people WHERE id % 17 = 2;' },
	'TRUNCATE' => sub { 'TRUNCATE people_rest;' },
	'a DO block with an exception' => sub {
		'DO $$ BEGIN INSERT INTO people VALUES ' . people_row() . '; BEGIN INSERT INTO people VALUES ' . people_row()
		  . '; PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN INSERT INTO people VALUES ' . people_row() . '; END; END $$;';
	},
	'a function in a SELECT' => sub { 'SELECT late($$INSERT INTO people VALUES ' . people_row() . '$$), late($$UPDATE people SET points = points + 1 WHERE id % 8 = 1$$);' },
	'a function in an UPDATE' => sub { 'UPDATE notes SET word = word || late($$INSERT INTO people VALUES ($$ || ' . ++$row . ' * 10 + id::int || $$, \'s\', \'by note\' || $$ || ' . $row . ' * 10 + id::int || $$)$$) WHERE id < 10;' },
	'a savepoint that is rolled back' => sub { 'BEGIN; SAVEPOINT a; INSERT INTO people VALUES ' . people_row() . '; ROLLBACK TO a; INSERT INTO people VALUES ' . people_row() . '; COMMIT;' },
	'a savepoint that is released' => sub { 'BEGIN; INSERT INTO notes VALUES (' . ++$row . ", 'w'); SAVEPOINT a; UPDATE people SET points = 4 WHERE id % 4 = 1; RELEASE a; DELETE FROM people WHERE id % 19 = 1; COMMIT;" },
	'INSERT … ON CONFLICT' => sub { 'INSERT INTO people VALUES ' . people_row() . ', (1, \'s\', \'merged\', NULL, 1, NULL) ON CONFLICT (id, region) DO UPDATE SET email = EXCLUDED.email || people.id, points = 9;' },
	'a data-modifying WITH' => sub { 'WITH gone AS (DELETE FROM people WHERE id % 23 = 3 RETURNING *) INSERT INTO people SELECT id, region, email, tags, points + 1, note FROM gone;' },
	'PREPARE TRANSACTION' => sub { 'BEGIN; INSERT INTO people VALUES ' . people_row() . "; PREPARE TRANSACTION 'late'; COMMIT PREPARED 'late';" },
	'a cursor' => sub { 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM people WHERE id % 12 = 6 FOR UPDATE; FETCH 3 FROM c; UPDATE people SET points = 8 WHERE CURRENT OF c; FETCH c; DELETE FROM people WHERE CURRENT OF c; COMMIT;' },
	'replica role' => sub { 'SET session_replication_role = replica; UPDATE people SET points = 6 WHERE id % 15 = 1;' },
	'a trigger that changes the table' => sub { 'INSERT INTO notes VALUES (' . ++$row . ", 'touch');" },
	'a statement that fails' => sub { "UPDATE people SET email = 'same'; INSERT INTO people VALUES " . people_row() . ';' },
	'ATTACH' => sub { $row++; "CREATE TABLE people_$row (LIKE people); INSERT INTO people_$row VALUES (1, 'r$row', 'r$row'); ALTER TABLE people ATTACH PARTITION people_$row FOR VALUES IN ('r$row'); INSERT INTO people VALUES (2, 'r$row', 'second r$row');" },
	'create' => sub { q{SELECT index_table.drop('notes_word'); SELECT index_table.create('notes', 'word', strategy => 'partial', include => 'id', name => 'notes_word'); UPDATE notes SET word = word || 1;} });

$node->safe_psql(
	'postgres', q{
CREATE FUNCTION late(statement text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE statement; RETURN 'l'; END $$;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	UPDATE people SET points = points + 1 WHERE id % 9 = 2;
	BEGIN DELETE FROM people WHERE id % 29 = 3; RAISE 'undo'; EXCEPTION WHEN OTHERS THEN NULL; END;
	UPDATE notes SET word = 'touched' WHERE id = NEW.id;
	RETURN NULL;
END $$;
CREATE TRIGGER z_touch AFTER INSERT ON notes FOR EACH ROW WHEN (NEW.word = 'touch') EXECUTE FUNCTION touch();
});

foreach my $preload ('', 'index_table')
{
	my $label = $preload ? 'preloaded' : 'loaded late';
	foreach my $name (sort keys %first_statements)
	{
		my $sql = $first_statements{$name}->();
		local $ENV{PGOPTIONS} = "-c session_preload_libraries=$preload";
		# The oracle asks in the same session, and in a new one.
		my ($result, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql\nSELECT oracle.check_all('same session')");
		$stderr =~ s/ERROR:  23505: .*"people_email_key"// if $name eq 'a statement that fails';
		unlike($stderr, qr/ERROR|FATAL|WARNING/, "$label: first statement $name");
		oracle_ok($node, 'postgres', "$label: in step after $name");
	}
}

$node->stop;
done_testing();
