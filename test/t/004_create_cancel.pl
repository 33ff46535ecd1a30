# create() of a larger table, watched, waited for, and broken off: what fails leaves nothing.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('create');

# pause() stops a build in the middle: it waits for whoever holds the advisory lock 1.
$node->safe_psql(
	'postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE big (id int, region int NOT NULL, v int, u int, word text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
SELECT format('CREATE TABLE big_%s PARTITION OF big FOR VALUES IN (%s)', i, i) FROM generate_series(0, 7) i \gexec
INSERT INTO big SELECT i, i % 8, i % 1000, i, 'w' || i FROM generate_series(1, 100000) i;
ANALYZE big;
CREATE FUNCTION pause(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
	IF i = 50004 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
	RETURN i % 1000;
END $$;
CREATE TABLE other (id int PRIMARY KEY, word text);
});
$node->safe_psql(
	'postgres',
	oracle_sql(
		describe(name => 'big_by_pause', base => 'big', key => ['b.id % 1000'], copies => [ 'id', 'region' ], identity => 2),
		describe(name => 'big_by_v', base => 'big', key => ['b.v'], copies => [ 'id', 'region', 'word' ], identity => 2),
		describe(name => 'big_by_u', base => 'big', key => ['b.u'], copies => [ 'id', 'region' ], identity => 2, is_unique => 1),
		describe(name => 'big_parts', base => 'big', key => ['b.word'], copies => [ 'id', 'region', 'v', 'u' ], identity => 2)));

my $create = q{SELECT index_table.create('big', 'pause(id)', name => 'big_by_pause')};
my $holder = $node->background_psql('postgres');

sub hold { $holder->query_safe('SELECT pg_advisory_lock(1)'); return; }
sub release { $holder->query_safe('SELECT pg_advisory_unlock(1)'); return; }

sub wait_until
{
	my ($condition) = @_;
	$node->poll_query_until('postgres', "SELECT $condition") or die "timed out: $condition";
	return;
}

# Waits until a build has come to the pause.
sub wait_for_pause
{
	wait_until(q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)});
	return $node->safe_psql('postgres', q{SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
}

# Everything a create() could leave behind. Triggers that call the extension do not matter as long
# as the base table has an index table.
my $state = q{
SELECT relname, relkind FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'index_table'::regnamespace) ORDER BY 1;
SELECT tgrelid::regclass::text, tgname FROM pg_trigger ORDER BY 1, 2;
SELECT * FROM index_table.definition ORDER BY index_table::text;
SELECT * FROM index_table.partition ORDER BY 1;
SELECT * FROM index_table.retired_partition ORDER BY 1;
SELECT base, phase FROM index_table.progress;
SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = 'big'::regclass;
SELECT count(*) FROM pg_locks WHERE relation >= 16384;
};

# --- Broken off ---------------------------------------------------------------------

sub test_failures
{
	my ($label) = @_;
	my $before = $node->safe_psql('postgres', $state);
	my $unchanged = sub {
		my ($how) = @_;
		is($node->safe_psql('postgres', $state), $before, "$label: nothing is left after $how");
	};

	hold();
	my $session = start_session($node, 'postgres', "$create;");
	my $pid = wait_for_pause();
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	like(end_session($session), qr/57014: canceling statement due to user request/, "$label: cancelled");
	$unchanged->('pg_cancel_backend');

	$session = start_session($node, 'postgres', "$create;");
	$pid = wait_for_pause();
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 60000)");
	like(end_session($session), qr/57P01: terminating connection|server closed the connection/, "$label: terminated");
	$unchanged->('pg_terminate_backend');

	like(sqlstate($node, 'postgres', "SET statement_timeout = 700; $create;"), qr/^57014/, "$label: statement_timeout");
	$unchanged->('statement_timeout');

	# While the session goes on.
	$session = start_session($node, 'postgres', "BEGIN; SAVEPOINT a; SET LOCAL statement_timeout = 700; $create; ROLLBACK TO a;
INSERT INTO big VALUES (200001, 1, 1, 200001, 'after'); UPDATE big SET v = v + 1 WHERE id = 200001; COMMIT; DELETE FROM big WHERE id = 200001;");
	like(end_session($session), qr/^(?!.*ERROR.*ERROR).*ERROR:  57014/s, "$label: timeout under a savepoint");
	$unchanged->('ROLLBACK TO');
	release();

	$session = start_session($node, 'postgres', "BEGIN; $create; INSERT INTO big VALUES (200001, 1, 1, 200001, 'after'); UPDATE big SET v = v + 1 WHERE id < 100; ROLLBACK; INSERT INTO big VALUES (200001, 1, 1, 200001, 'after'); DELETE FROM big WHERE id = 200001;");
	is(end_session($session), "big_by_pause\n", "$label: created and rolled back");
	$unchanged->('ROLLBACK');

	my %errors = (
		'an expression that fails' => [ q{SELECT index_table.create('big', '(1 / (id - 77777))')}, '22012' ],
		'an expression that fails at the end' => [ q{SELECT index_table.create('big', '(1 / (id - 99999))', partitions => 3)}, '22012' ],
		'a predicate that fails' => [ q{SELECT index_table.create('big', 'v', predicate => '1 / (id - 88888) = 0')}, '22012' ],
		'a key that is there twice' => [ q{SELECT index_table.create('big', 'v', is_unique => true)}, '23505' ],
		'a key that is there twice, in a partitioned index table' => [ q{SELECT index_table.create('big', 'v', is_unique => true, partitions => 4)}, '23505' ],
		'a key that is too long' => [ q{SELECT index_table.create('big', '(CASE WHEN id = 60000 THEN (SELECT_LONG) ELSE word END)')} =~ s/\(SELECT_LONG\)/long_word()/r, '54000' ],
		'a name that is taken' => [ q{SELECT index_table.create('big', 'v', name => 'other')}, '42P07' ],
		'a wrong key' => [ q{SELECT index_table.create('big', 'nothing')}, '42703' ]);
	foreach my $how (sort keys %errors)
	{
		my ($sql, $code) = @{ $errors{$how} };
		like(sqlstate($node, 'postgres', $sql), qr/^$code/, "$label: $how is an error");
		$unchanged->($how);
	}
	return;
}

$node->safe_psql('postgres', q{
CREATE FUNCTION long_word() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
	RETURN (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i);
END $$});
test_failures('first index table');
$node->safe_psql('postgres', q{SELECT index_table.create('big', 'v', strategy => 'partial', include => 'word', name => 'big_by_v')});
oracle_ok($node, 'postgres', 'in step', 0);
test_failures('another index table');
oracle_ok($node, 'postgres', 'in step after failures', 0);
$node->safe_psql('postgres', 'UPDATE big SET v = v + 1 WHERE id % 100 = 3; DELETE FROM big WHERE id = 1');
oracle_ok($node, 'postgres', 'the other index table is maintained after failures', 0);

# A crash in the middle.
my $before = $node->safe_psql('postgres', $state);
hold();
my $session = start_session($node, 'postgres', "$create;");
wait_for_pause();
$node->stop('immediate');
end_session($session);
eval { $holder->quit };
$node->start;
$holder = $node->background_psql('postgres');
is($node->safe_psql('postgres', $state), $before, 'nothing is left after a crash');
oracle_ok($node, 'postgres', 'in step after a crash', 0);

# ATTACH enters the rows of a partition.
$node->safe_psql('postgres', q{
CREATE TABLE joining (LIKE big INCLUDING ALL);
INSERT INTO joining SELECT 300000 + i, 8, i % 1000, 300000 + i, 'j' || i FROM generate_series(1, 5000) i});
$node->safe_psql('postgres', "$create");
$before = $node->safe_psql('postgres', $state);
$node->safe_psql('postgres', q{INSERT INTO joining VALUES (50004, 8, 1, 50004, 'pause')});
hold();
my $attach = q{ALTER TABLE big ATTACH PARTITION joining FOR VALUES IN (8)};
$session = start_session($node, 'postgres', "$attach;");
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . wait_for_pause() . ')');
like(end_session($session), qr/57014/, 'ATTACH is cancelled');
is($node->safe_psql('postgres', $state), $before, 'nothing is left of ATTACH');
release();
oracle_ok($node, 'postgres', 'in step after a cancelled ATTACH', 0);
is(sqlstate($node, 'postgres', $attach), '', 'ATTACH');
oracle_ok($node, 'postgres', 'in step after ATTACH', 0);
$node->safe_psql('postgres', q{ALTER TABLE big DETACH PARTITION joining; SELECT index_table.drop('big_by_pause')});

# --- Others meanwhile -----------------------------------------------------------------

# Transactions that began before: one has written, one has only a snapshot.
my $writer = $node->background_psql('postgres');
$writer->query_safe(q{BEGIN; INSERT INTO big VALUES (400001, 1, 1, 400001, 'before')});
my $older = $node->background_psql('postgres');
$older->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other});

hold();
$session = start_session($node, 'postgres', "$create;");
wait_until(q{EXISTS (SELECT FROM pg_locks WHERE mode = 'ShareRowExclusiveLock' AND NOT granted)});
is($node->safe_psql('postgres', q{SET lock_timeout = 1000; SELECT count(*) FROM big WHERE id <= 10}), 9, 'a reader is not blocked while create waits for a writer');
$writer->query_safe(q{UPDATE big SET u = 400002 WHERE id = 400001; COMMIT});
wait_for_pause();

is($node->safe_psql('postgres', q{SET lock_timeout = 1000; SELECT count(*) FROM big WHERE v = 500}), 100, 'a reader is not blocked by create');
is($node->safe_psql('postgres', q{SET lock_timeout = 1000; SELECT count(*) FROM index_table.fetch(NULL::big, 'big_by_v', 500)}), 100, 'a reader of another index table is not blocked');
like(sqlstate($node, 'postgres', q{SET lock_timeout = 100; INSERT INTO big VALUES (400003, 1, 1, 400003, 'x')}), qr/^55P03/, 'a writer waits');
is(sqlstate($node, 'postgres', q{SET lock_timeout = 1000; INSERT INTO other VALUES (1, 'x')}), '', 'a writer of another table does not wait');

my @waiting = map { start_session($node, 'postgres', $_) } (
	q{INSERT INTO big VALUES (400004, 2, 4, 400004, 'waited');},
	q{UPDATE big_3 SET v = -v WHERE id % 1000 = 3;},
	q{BEGIN; DELETE FROM big WHERE id = 20; UPDATE big SET region = 5, id = 400005 WHERE id = 21; COMMIT;},
	qq{COPY big FROM stdin;\n400006\t6\t6\t400006\tcopied\n\\.\n},
	q{DO $$ BEGIN INSERT INTO big VALUES (400007, 7, 7, 400007, 'undone'); RAISE 'undo'; EXCEPTION WHEN OTHERS THEN INSERT INTO big VALUES (400008, 0, 8, 400008, 'done'); END $$;},
	q{TRUNCATE big_7;});
wait_until(q{count(DISTINCT pid) = 6 FROM pg_locks WHERE NOT granted AND locktype <> 'advisory'});
my $progress = $node->safe_psql('postgres', q{SELECT base, index_table::text ~ '^\d+$', phase IN ('scanning', 'loading entries'), partitions_total, partitions_done BETWEEN 1 AND 7, rows_done BETWEEN 1024 AND 99999, rows_total FROM index_table.progress});
is($progress, 'big|t|t|8|t|t|100000', 'progress of a build');
release();
is(end_session($session), "big_by_pause\n", 'create is done');
is(join('', map { end_session($_) } @waiting), '', 'the writers are done');
is($node->safe_psql('postgres', q{SELECT count(*) FROM index_table.progress}), 0, 'no progress is left');
oracle_ok($node, 'postgres', 'in step with writers who waited', 0);

$older->query_safe(q{INSERT INTO big VALUES (400009, 1, 1, 400009, 'old snapshot'); UPDATE big SET v = 77 WHERE id = 400009; DELETE FROM big WHERE id = 22; COMMIT});
oracle_ok($node, 'postgres', 'in step with a writer whose snapshot is older', 0);
$_->quit foreach $writer, $older;

# verify() and repair() while others write.
hold();
$session = start_session($node, 'postgres', q{SELECT count(*) FROM index_table.verify('big_by_pause');});
wait_for_pause();
is($node->safe_psql('postgres', 'SELECT base, index_table, phase FROM index_table.progress'), 'big|big_by_pause|verifying', 'progress of verify');
is(sqlstate($node, 'postgres', q{SET lock_timeout = 1000; INSERT INTO big VALUES (400010, 1, 1, 400010, 'x'); UPDATE big SET v = 3 WHERE id % 10 = 0 AND region = 2}), '', 'verify blocks no writer');
release();
is(end_session($session), "0\n", 'verify sees one state');
$node->safe_psql('postgres', 'DELETE FROM big_by_pause WHERE id % 100 = 4');
hold();
$session = start_session($node, 'postgres', q{SELECT index_table.repair('big_by_pause');});
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . wait_for_pause() . ')');
like(end_session($session), qr/57014/, 'repair is cancelled');
$session = start_session($node, 'postgres', q{SELECT index_table.repair('big_by_pause') > 900;});
wait_for_pause();
release();
is(end_session($session), "t\n", 'repair');
oracle_ok($node, 'postgres', 'in step after repair', 0);

# --- Watched ---------------------------------------------------------------------------

$node->safe_psql('postgres', q{
CREATE TABLE watched (n serial, phase text, partitions_done bigint, partitions_total bigint, rows_done bigint, rows_total bigint)});
my $watch = q{
DO $$ BEGIN
	FOR i IN 1 .. 2000 LOOP
		INSERT INTO watched (phase, partitions_done, partitions_total, rows_done, rows_total)
			SELECT phase, partitions_done, partitions_total, rows_done, rows_total FROM index_table.progress;
		COMMIT;
		EXIT WHEN EXISTS (SELECT FROM other WHERE id = 99);
		PERFORM pg_sleep(0.001);
	END LOOP;
END $$;};
my $watcher = start_session($node, 'postgres', $watch);
$node->safe_psql('postgres', $_) foreach
	q{SELECT index_table.create('big', 'u', is_unique => true, name => 'big_by_u')},
	q{SELECT index_table.create('big', 'word', strategy => 'denormalized', partitions => 3, name => 'big_parts')},
	q{INSERT INTO other VALUES (99)};
end_session($watcher);
my $phases = $node->safe_psql('postgres', 'SELECT string_agg(DISTINCT phase, \', \' ORDER BY phase) FROM watched');
like($phases, qr/building indexes.*loading entries/, "phases: $phases");
is($node->safe_psql('postgres', q{SELECT DISTINCT w.* FROM (SELECT phase, partitions_done, partitions_total, rows_done, rows_total FROM watched) w
	WHERE phase IS NULL OR partitions_done > partitions_total OR partitions_total NOT IN (0, CASE phase WHEN 'building indexes' THEN 3 ELSE 8 END, 8) OR rows_done NOT BETWEEN 0 AND 110000}), '', 'progress stays within its totals');
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM watched WHERE phase IN ('scanning', 'loading entries') AND rows_done > 1000 AND partitions_done > 0}), 't', 'rows and partitions are counted while they are scanned');
oracle_ok($node, 'postgres', 'in step at the end', 5000);

$holder->quit;
$node->stop;
done_testing();
