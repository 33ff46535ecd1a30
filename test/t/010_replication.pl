# Index tables under logical and physical replication, prepared transactions and crashes, and in
# sessions that have not loaded the library yet.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# --- Tables -------------------------------------------------------------------------

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';

# Creates a base table, hash partitioned as often as wanted.
sub base_table
{
	my ($name, $partitions) = @_;
	return "CREATE TABLE $name (id int PRIMARY KEY, email text, town text, tags text[]) PARTITION BY HASH (id);"
	  . join('', map { "CREATE TABLE ${name}_$_ PARTITION OF $name FOR VALUES WITH (MODULUS $partitions, REMAINDER $_);" }
		  0 .. $partitions - 1);
}

sub rows
{
	my ($name, $from, $to) = @_;
	return "INSERT INTO $name SELECT i, 'mail' || i, 'town' || i % 7, ARRAY['t' || i % 3, 't' || i % 5]"
	  . " FROM generate_series($from, $to) i;";
}

# Creates the index tables of base tables, and the oracle.
sub index_tables
{
	my (@bases) = @_;
	my ($sql, @tables) = ('CREATE EXTENSION IF NOT EXISTS index_table;');
	foreach my $base (@bases)
	{
		$sql .= qq{
SELECT index_table.create('$base', 'email', is_unique => true);
SELECT index_table.create('$base', 'town', strategy => 'denormalized');
SELECT index_table.create('$base', 'unnest(tags)', name => '${base}_by_tag');
};
		push @tables,
		  describe(name => "${base}_by_email", base => $base, key => ['b.email'], copies => ['id'], identity => 1),
		  describe(name => "${base}_by_town", base => $base, key => ['b.town'], copies => [ 'id', 'email', 'tags' ], identity => 1),
		  describe(name => "${base}_by_tag", base => $base, key => ['m.v'], elements => $tags, copies => ['id'], identity => 1);
	}
	return $sql . oracle_sql(@tables);
}

# An image of a table, to see that something arrived.
sub contents
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres', "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM $table t");
}

# Runs statements in one new session and returns the SQLSTATE of each.
sub sqlstates
{
	my ($node, @statements) = @_;
	my ($result, $stdout) = $node->psql('postgres',
		"\\set QUIET on\n\\o /dev/null\n" . join('', map { "$_\n\\warn :SQLSTATE\n" } @statements),
		stderr => \my $stderr, on_error_stop => 0);
	return join(' ', $stderr =~ /^(\w{5})$/mg);
}

# --- Logical replication ------------------------------------------------------------

# "leaves" replicates partition by partition; "roots" as the whole table, into a table that is
# partitioned in another way, so that a key may move between partitions there and not here.
my $publisher = new_node('publisher', allows_streaming => 'logical');
my $subscriber = new_node('subscriber', conf => "wal_retrieve_retry_interval = 200ms\n");
$publisher->safe_psql('postgres', base_table('leaves', 3) . base_table('roots', 2) . rows('leaves', 1, 500) . rows('roots', 1, 500));
$subscriber->safe_psql('postgres', base_table('leaves', 3) . base_table('roots', 5) . index_tables('leaves', 'roots'));
$publisher->safe_psql('postgres', q{
	CREATE PUBLICATION leaves FOR TABLE leaves;
	CREATE PUBLICATION roots FOR TABLE roots WITH (publish_via_partition_root);});
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION $_ CONNECTION " . quote_literal($publisher->connstr('postgres')) . " PUBLICATION $_")
  foreach 'leaves', 'roots';

sub replicated_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$publisher->wait_for_catchup($_) foreach 'leaves', 'roots';
	is(contents($subscriber, $_), contents($publisher, $_), "$label: $_ arrived") foreach 'leaves', 'roots';
	oracle_ok($subscriber, 'postgres', "$label: in step");
	return;
}

$subscriber->poll_query_until('postgres', "SELECT bool_and(srsubstate IN ('r', 's')) FROM pg_subscription_rel")
  or die 'tables were not synchronised';
replicated_ok('initial rows');

foreach my $step (
	[ 'INSERT' => rows('%s', 501, 700) ],
	[ 'UPDATE of keys' => "UPDATE %s SET email = 'new' || id, town = 'moved', tags = tags || ARRAY['u', NULL] WHERE id % 9 = 0;" ],
	[ 'UPDATE of no key' => "UPDATE %s SET email = email WHERE id % 9 = 1;" ],
	[ 'UPDATE of partition keys' => "UPDATE %s SET id = id + 10000 WHERE id % 4 = 0;" ],
	[ 'DELETE' => "DELETE FROM %s WHERE id % 5 = 0;" ],
	[ 'exchanged keys' => "BEGIN; UPDATE %s SET email = 'x' WHERE id = 1; UPDATE %s SET email = 'mail1' WHERE id = 2;"
		  . " UPDATE %s SET email = 'mail2' WHERE id = 1; COMMIT;" ],
	[ 'subtransactions' => 'BEGIN; SAVEPOINT a; ' . rows('%s', 20001, 20010) . " ROLLBACK TO a; SAVEPOINT b; "
		  . rows('%s', 20011, 20020) . ' RELEASE b; COMMIT;' ],
	[ 'TRUNCATE of a partition' => 'TRUNCATE leaves_1;' ],
	[ 'TRUNCATE' => 'TRUNCATE %s;' ],
	[ 'INSERT after TRUNCATE' => rows('%s', 1, 50) ])
{
	my ($label, $sql) = @$step;
	$publisher->safe_psql('postgres', join(' ', map { $sql =~ s/%s/$_/gr } 'leaves', 'roots'));
	replicated_ok($label);
}

# A unique key that only the subscriber knows of stops the subscription until it is free again.
$subscriber->safe_psql('postgres', "INSERT INTO leaves VALUES (1000, 'taken', 'here')");
my $log = -s $subscriber->logfile;
$publisher->safe_psql('postgres', "INSERT INTO leaves VALUES (1001, 'taken', 'there')");
ok($subscriber->wait_for_log(qr/duplicate key value violates unique constraint "leaves_by_email_key"/, $log),
	'unique key: refused on the subscriber');
oracle_ok($subscriber, 'postgres', 'unique key: refused, in step');
check_storage($subscriber, 'postgres', 'subscriber');
$subscriber->safe_psql('postgres', 'DELETE FROM leaves WHERE id = 1000');
replicated_ok('unique key free again');
$subscriber->safe_psql('postgres', "DROP SUBSCRIPTION $_") foreach 'leaves', 'roots';
$_->stop foreach $subscriber, $publisher;

# --- Prepared transactions ----------------------------------------------------------

my $primary = new_node('primary', allows_streaming => 1);
$primary->safe_psql('postgres', base_table('people', 3) . rows('people', 1, 300) . index_tables('people'));
$primary->backup('backup');

$primary->safe_psql('postgres', q{
BEGIN;
INSERT INTO people VALUES (1001, 'prepared', 'Graz', '{a,b}');
UPDATE people SET id = id + 2000, town = 'Linz' WHERE id BETWEEN 10 AND 20;
DELETE FROM people WHERE id BETWEEN 30 AND 40;
PREPARE TRANSACTION 'kept';
BEGIN;
INSERT INTO people VALUES (1002, 'undone', 'Graz', '{a,b}');
UPDATE people SET email = 'u' || id WHERE id BETWEEN 50 AND 60;
SAVEPOINT a;
DELETE FROM people WHERE id BETWEEN 70 AND 80;
PREPARE TRANSACTION 'undone';
});
oracle_ok($primary, 'postgres', 'prepared: nothing of it is seen');
foreach my $mode ('fast', 'immediate')
{
	$primary->stop($mode);
	$primary->start;
	oracle_ok($primary, 'postgres', "prepared: nothing of it is seen after stop('$mode')");
	like(sqlstate($primary, 'postgres', "SET lock_timeout = 200; INSERT INTO people VALUES (1003, 'prepared')"),
		qr/^55P03/, 'prepared: its unique keys are waited for');
}
$primary->safe_psql('postgres', "COMMIT PREPARED 'kept'");
oracle_ok($primary, 'postgres', 'COMMIT PREPARED');
$primary->safe_psql('postgres', "ROLLBACK PREPARED 'undone'");
oracle_ok($primary, 'postgres', 'ROLLBACK PREPARED');
is( $primary->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE town = 'Linz'), count(*) FILTER (WHERE id = 1002) FROM people"),
	'290|11|0', 'what was prepared is there');
like(sqlstate($primary, 'postgres', "INSERT INTO people VALUES (1003, 'prepared')"), qr/^23505/, 'committed key is taken');
is(sqlstate($primary, 'postgres', "INSERT INTO people VALUES (1003, 'undone')"), '', 'rolled back key is free');

# A truncated partition's new number is prepared with it.
$primary->safe_psql('postgres', "BEGIN; TRUNCATE people_1; INSERT INTO people VALUES (1, 'mail1', 'Wels') ON CONFLICT DO NOTHING; PREPARE TRANSACTION 'truncated'");
$primary->stop('immediate');
$primary->start;
$primary->safe_psql('postgres', "COMMIT PREPARED 'truncated'");
oracle_ok($primary, 'postgres', 'COMMIT PREPARED of TRUNCATE');
$primary->safe_psql('postgres', rows('people', 5001, 5100));
oracle_ok($primary, 'postgres', 'INSERT after that');

# --- Physical standby ---------------------------------------------------------------

my $standby = QuickNode->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my @readings = (
	"index_table.lookup('people_by_email', 'mail5051')",
	"index_table.lookup('people_by_email')",
	"index_table.lookup('people_by_town', 'town3')",
	"index_table.fetch(NULL::people, 'people_by_email', 'mail100')",
	"index_table.fetch(NULL::people, 'people_by_town', 'Linz')",
	"index_table.fetch(NULL::people, 'people_by_tag', 't2')",
	"index_table.fetch(NULL::people, 'people_by_tag')",
	"index_table.page(NULL::people, 'people_by_town', 20, NULL, 'town3')");

my @queries = (
	"SELECT * FROM people WHERE email = 'mail7' OR email = 'e6050' ORDER BY id",
	"SELECT count(*), max(id) FROM people WHERE town = 'town3'",
	"SELECT email FROM people WHERE email > 'm' ORDER BY email LIMIT 5");

sub standby_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));
	foreach my $reading (@readings)
	{
		my ($here, $there) = map { $_->safe_psql('postgres', "SELECT * FROM $reading") } $primary, $standby;
		is($there, $here, "$label: $reading");
	}
	is(sqlstate($standby, 'postgres', "SELECT oracle.check_all('standby')"), '', "$label: standby in step");
	# Plain queries use index tables there too.
	foreach my $query (@queries)
	{
		my ($through, $native) = map { $standby->safe_psql('postgres', "LOAD 'index_table'; SET index_table.enable_scan = $_; $query") } 'force', 'off';
		is($through, $native, "$label: standby: $query");
		like($standby->safe_psql('postgres', "LOAD 'index_table'; SET index_table.enable_scan = force; EXPLAIN $query"),
			qr/Index Table: /, "$label: standby: through an index table");
	}
	return;
}

isnt($primary->safe_psql('postgres', "SELECT * FROM $_"), '', "something to read: $_") foreach @readings;
standby_ok('standby');
$primary->safe_psql('postgres', "TRUNCATE people_0; UPDATE people SET town = 'town3', email = 'e' || id WHERE id % 2 = 0; " . rows('people', 6001, 6100));
standby_ok('after TRUNCATE of a partition and UPDATE');
$primary->safe_psql('postgres', "SELECT index_table.repair('people_by_tag')");
standby_ok('after repair');
like(sqlstate($standby, 'postgres', "INSERT INTO people VALUES (0)"), qr/^25006/, 'no writing on the standby');

# --- Crash --------------------------------------------------------------------------

my @open = map { start_command($primary, "BEGIN; $_; SELECT pg_sleep(600)") } (
	rows('people', 7001, 7200) =~ s/;$//r,
	"UPDATE people SET email = 'c' || id, id = id + 50000 WHERE id BETWEEN 6001 AND 6050",
	"DELETE FROM people WHERE id BETWEEN 6060 AND 6090",
	"SAVEPOINT a; INSERT INTO people VALUES (8001, 'crash', 'Graz', '{a}'); RELEASE a");
$primary->poll_query_until('postgres', "SELECT count(*) = 4 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
  or die 'sessions did not get there';
$primary->safe_psql('postgres', "CHECKPOINT; UPDATE people SET tags = '{committed}' WHERE id BETWEEN 5001 AND 5050; INSERT INTO people VALUES (8002, 'committed')");
my $before = contents($primary, 'people');
$primary->stop('immediate');
$_->{run}->finish foreach @open;
$primary->start;
is(contents($primary, 'people'), $before, 'crash: what was committed is there');
oracle_ok($primary, 'postgres', 'crash: in step');
is(sqlstate($primary, 'postgres', "INSERT INTO people VALUES (8001, 'crash', 'Graz', '{a}')"), '', 'crash: unique keys of open transactions are free');
like(sqlstate($primary, 'postgres', "INSERT INTO people VALUES (8003, 'committed')"), qr/^23505/, 'crash: committed ones are taken');

# The same while the crash hits an uncommitted TRUNCATE of a partition.
my $truncating = start_command($primary, 'BEGIN; TRUNCATE people_2; SELECT pg_sleep(600)');
$primary->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
  or die 'session did not get there';
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->stop('immediate');
$truncating->{run}->finish;
$primary->start;
oracle_ok($primary, 'postgres', 'crash in TRUNCATE of a partition: in step');
check_storage($primary, 'postgres', 'crash');
standby_ok('after crashes');

# A promoted standby goes on where the primary was.
$primary->stop;
$standby->promote;
oracle_ok($standby, 'postgres', 'promoted: in step');
$standby->safe_psql('postgres', 'TRUNCATE people_2;' . rows('people', 9001, 9100) . 'UPDATE people SET id = id + 1000 WHERE id > 9050');
oracle_ok($standby, 'postgres', 'promoted: writes are followed');
check_storage($standby, 'postgres', 'promoted');
like(sqlstate($standby, 'postgres', "INSERT INTO people VALUES (1, 'mail9001')"), qr/^23505/, 'promoted: unique');

# --- Cold sessions ------------------------------------------------------------------

# The first statement of a session finds the library not loaded: it must be followed all the same,
# and refused where PostgreSQL would refuse it. "taken" is an e-mail address in another partition.
my $node = $standby;
is($node->safe_psql('postgres', "SHOW shared_preload_libraries"), '', 'nothing is preloaded');
$node->safe_psql('postgres', q{
TRUNCATE people;
INSERT INTO people SELECT i, 'taken' || i, 'Graz', '{a,b}' FROM generate_series(1, 50) i;
CREATE FUNCTION try_insert(new_id int, new_email text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO people VALUES (new_id, new_email, 'tried', '{t}');
	RETURN 'inserted';
EXCEPTION WHEN unique_violation THEN
	RETURN 'caught';
END $$;
});
my $id = 100;
foreach my $cold (
	[ 'INSERT', [ "INSERT INTO people VALUES (:id, :email, 'Wels', '{a}');" ] ],
	[ 'INSERT of many', [ "INSERT INTO people SELECT :id + i, :email || nullif(i, 0), 'Wels', '{a}' FROM generate_series(0, 9) i;" ] ],
	[ 'COPY', [ "COPY people (id, email) FROM PROGRAM 'echo :id,:bare' CSV;" ] ],
	[ 'DO block', [ "DO \$\$ BEGIN INSERT INTO people VALUES (:id, :email); UPDATE people SET town = 'done' WHERE id = 1; END \$\$;" ] ],
	[ 'INSERT into a partition', [ "INSERT INTO :leaf VALUES (:id, :email, 'Wels', '{a,a}');" ] ],
	[ 'UPDATE', [ "UPDATE people SET email = :email WHERE id = 3;" ] ],
	[ 'UPDATE of the partition key', [ "UPDATE people SET id = :id, email = :email WHERE id = (SELECT max(id) FROM people);" ] ],
	[ 'UPDATE of a partition', [ "UPDATE :leaf SET email = :email WHERE id = (SELECT max(id) FROM :leaf);" ] ],
	[ 'ON CONFLICT DO UPDATE', [ "INSERT INTO people VALUES (4) ON CONFLICT (id) DO UPDATE SET email = :email;" ] ],
	[ 'MERGE', [ "MERGE INTO people p USING (VALUES (5)) v(id) ON p.id = v.id WHEN MATCHED THEN UPDATE SET email = :email;" ] ],
	[ 'data-modifying WITH', [ "WITH w AS (INSERT INTO people VALUES (:id, :email) RETURNING id) SELECT * FROM w;" ] ],
	[ 'BEGIN, INSERT', [ 'BEGIN;', "INSERT INTO people VALUES (:id, :email);", 'COMMIT;' ], 1 ],
	[ 'BEGIN, INSERT into a partition', [ 'BEGIN;', "INSERT INTO :leaf VALUES (:id, :email);", 'COMMIT;' ], 1 ],
	[ 'BEGIN, DO block', [ 'BEGIN;', "DO \$\$ BEGIN INSERT INTO people VALUES (:id, :email); END \$\$;", 'COMMIT;' ], 1 ],
	[ 'BEGIN, cursor', [ 'BEGIN;', "DECLARE c CURSOR FOR SELECT * FROM people;", 'FETCH 2 FROM c;',
			"INSERT INTO people VALUES (:id, :email);", 'COMMIT;' ], 3 ],
	[ 'SAVEPOINT', [ 'BEGIN;', 'SAVEPOINT a;', "INSERT INTO people VALUES (:id, :email);", 'RELEASE a;', 'COMMIT;' ], 2 ],
	[ 'PREPARE', [ 'PREPARE p AS INSERT INTO people VALUES (:id, :email);', 'EXECUTE p;' ], 1 ])
{
	my ($label, $statements, $number) = @$cold;
	$number //= 0;
	foreach my $email ('free', 'taken2')
	{
		$id += 10;
		my $leaf = "@$statements" =~ /:leaf/
		  && $node->safe_psql('postgres', "BEGIN; INSERT INTO people VALUES ($id) RETURNING tableoid::regclass; ROLLBACK");
		my $value = $email eq 'free' ? "free$id" : $email;
		my @sql = map { s/:id\b/$id/gr =~ s/:bare\b/$value/gr =~ s/:email\b/'$value'/gr =~ s/:leaf\b/$leaf/gr } @$statements;
		my @expected = map { '00000' } @sql;
		if ($email ne 'free')
		{
			$expected[$number] = '23505';
			# Up to COMMIT, which ends the transaction all the same, nothing is done any more.
			$expected[$_] = $sql[$_] =~ /^COMMIT/ ? '00000' : '25P02' foreach $number + 1 .. $#sql;
		}
		is(sqlstates($node, @sql), "@expected", "cold: $label, $email");
		oracle_ok($node, 'postgres', "cold: $label, $email: in step");
	}
}

# COPY in an explicit transaction may be refused one statement later, and is refused.
is(sqlstates($node, 'BEGIN;', "COPY people (id, email) FROM PROGRAM 'echo 9999,taken2' CSV;", 'SELECT 1;', 'COMMIT;') =~ /23505/,
	1, 'cold: COPY in a transaction, taken2');
oracle_ok($node, 'postgres', 'cold: COPY in a transaction, taken2: in step');
is(sqlstates($node, 'BEGIN;', "COPY people (id, email) FROM PROGRAM 'echo 9998,free9998' CSV;", "UPDATE people SET town = 'x' WHERE id = 9998;", 'COMMIT;'),
	'00000 00000 00000 00000', 'cold: COPY in a transaction');
oracle_ok($node, 'postgres', 'cold: COPY in a transaction: in step');

# A function that catches the violation itself.
foreach my $begin ('', 'BEGIN; ')
{
	my $end = $begin ? '; COMMIT' : '';
	is($node->safe_psql('postgres', "${begin}SELECT try_insert(20001, 'taken2')$end"), 'caught', "cold: ${begin}caught in a function");
	oracle_ok($node, 'postgres', "cold: ${begin}caught in a function: in step");
	is($node->safe_psql('postgres', "${begin}SELECT try_insert(20002, 'tried') || try_insert(20003, 'tried')$end"), 'insertedcaught',
		"cold: ${begin}inserted in a function");
	oracle_ok($node, 'postgres', "cold: ${begin}inserted in a function: in step");
	$node->safe_psql('postgres', 'DELETE FROM people WHERE id = 20002');
}
is( $node->safe_psql('postgres', q{
DO $$
DECLARE caught int := 0;
BEGIN
	FOR i IN 30001 .. 30010 LOOP
		BEGIN
			INSERT INTO people VALUES (i, 'loop' || i / 2, 'loop');
		EXCEPTION WHEN unique_violation THEN caught := caught + 1;
		END;
	END LOOP;
	ASSERT caught = 4, caught;
END $$}), '', 'cold: caught in a DO block');
oracle_ok($node, 'postgres', 'cold: caught in a DO block: in step');

# Rolled back to a savepoint, and taken up again.
is(sqlstates($node, 'BEGIN;', 'SAVEPOINT a;', "INSERT INTO people VALUES (40001, 'saved');", 'ROLLBACK TO a;',
		"INSERT INTO people VALUES (40002, 'saved');", 'SAVEPOINT b;', "INSERT INTO people VALUES (40003, 'saved');",
		'ROLLBACK TO b;', "DELETE FROM people WHERE id = 40002;", "INSERT INTO people VALUES (40003, 'saved');", 'COMMIT;'),
	'00000 00000 00000 00000 00000 00000 23505 00000 00000 00000 00000', 'cold: savepoints');
oracle_ok($node, 'postgres', 'cold: savepoints: in step');
foreach my $sql ('DELETE FROM people WHERE id < 10', 'DELETE FROM people_2 WHERE id < 20', 'TRUNCATE people_0', 'TRUNCATE people')
{
	is(sqlstates($node, "$sql;"), '00000', "cold: $sql");
	oracle_ok($node, 'postgres', "cold: $sql: in step");
}
check_storage($node, 'postgres', 'cold');
$node->stop;
done_testing();
