# index_table.create that is cancelled or fails leaves nothing behind; while it runs, its progress is
# seen, readers go on and writers wait.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('create_cancel');
my $rows = 200_000;

# v is unique but for two rows, and 0 in one row. slow() stops now and then, and once at a gate.
$node->safe_psql('postgres', qq{
CREATE EXTENSION index_table;
CREATE TABLE big (id int PRIMARY KEY, v int, name text, tags int[]) PARTITION BY RANGE (id);
CREATE TABLE big_1 PARTITION OF big FOR VALUES FROM (0) TO (100000);
CREATE TABLE big_2 PARTITION OF big FOR VALUES FROM (100000) TO (150000) PARTITION BY HASH (id);
CREATE TABLE big_2_0 PARTITION OF big_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE big_2_1 PARTITION OF big_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE big_3 PARTITION OF big FOR VALUES FROM (150000) TO (1000000);
INSERT INTO big SELECT i, CASE i WHEN $rows THEN 17 WHEN 190000 THEN 0 ELSE i END, 'name ' || i % 1000, ARRAY[i % 10, i % 7]
  FROM generate_series(1, $rows) i;
ANALYZE big;
CREATE FUNCTION slow(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$\$
BEGIN
	IF v % 10000 = 0 THEN PERFORM pg_sleep(0.1); END IF;
	IF v = 180000 THEN PERFORM pg_advisory_xact_lock_shared(7); END IF;
	RETURN v;
END \$\$;
CREATE TABLE samples (LIKE index_table.progress, number bigint GENERATED ALWAYS AS IDENTITY);
});
my @tables = (
	describe(name => 'big_by_name', base => 'big', key => ['b.name'], copies => [ 'id', 'v', 'tags' ], identity => 1),
	describe(name => 'big_by_slow', base => 'big', key => ['b.v'], copies => ['id'], identity => 1),
	describe(name => 'big_by_tags', base => 'big', key => ['m.v'], elements => 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)',
		copies => ['id'], identity => 1),
	describe(name => 'big_by_v', base => 'big', key => ['b.v'], predicate => 'b.id < 200000', copies => ['id'], identity => 1, is_unique => 1));
$node->safe_psql('postgres', oracle_sql(@tables));

sub wait_until
{
	my ($query) = @_;
	$node->poll_query_until('postgres', $query) or die "waited in vain: $query";
	return;
}

# --- Nothing is left ------------------------------------------------------------------

# Everything that a build makes: catalog rows, and files without a relation.
my $traces = q{
SELECT 'relations', count(*) FROM pg_class UNION ALL
SELECT 'types', count(*) FROM pg_type UNION ALL
SELECT 'attributes', count(*) FROM pg_attribute UNION ALL
SELECT 'constraints', count(*) FROM pg_constraint UNION ALL
SELECT 'statistics', count(*) FROM pg_statistic UNION ALL
SELECT 'dependencies', count(*) FROM pg_depend UNION ALL
SELECT 'triggers', count(*) FROM pg_trigger UNION ALL
SELECT 'definitions', count(*) FROM index_table.definition UNION ALL
SELECT 'partitions', count(*) FROM index_table.partition UNION ALL
SELECT 'retired partitions', count(*) FROM index_table.retired_partition UNION ALL
SELECT 'progress', count(*) FROM index_table.progress UNION ALL
SELECT 'locks', count(*) FROM pg_locks WHERE relation IN (SELECT relid FROM pg_partition_tree('big')) UNION ALL
SELECT 'temporary files', count(*) FROM pg_ls_tmpdir() UNION ALL
SELECT 'files', count(*) FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = current_database())) f
 WHERE f ~ '^\d+' AND pg_filenode_relation(0, substring(f, '^\d+')::oid) IS NULL};

sub traces
{
	return $node->safe_psql('postgres', "CHECKPOINT; $traces");
}
my $nothing = traces();

sub nothing_left_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $left = traces();
	is($left, $nothing, "$label: nothing left");
	return;
}

# A build goes through.
sub create_ok
{
	my ($label, $arguments) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sqlstate($node, 'postgres', "SELECT index_table.create($arguments)"), '', "$label: a second create");
	return;
}

sub drop_all
{
	$node->safe_psql('postgres', 'SELECT index_table.drop(index_table) FROM index_table.definition');
	return;
}

my %build = (
	plain => "'big', 'name', strategy => 'denormalized', name => 'big_by_name'",
	partitioned => "'big', 'name', strategy => 'denormalized', name => 'big_by_name', partitions => 3",
	many => "'big', 'unnest(tags)', name => 'big_by_tags'",
	unique => "'big', 'v', name => 'big_by_v', is_unique => true, predicate => 'id < $rows'",
	slow => "'big', 'slow(v)', name => 'big_by_slow'");

# --- Errors ---------------------------------------------------------------------------

foreach my $error (
	[ 'an expression that fails', qr/^22012/, "'big', '(1 / v)', name => 'failing'" ],
	[ 'the same in parts', qr/^22012/, "'big', '(1 / v)', name => 'failing', partitions => 2" ],
	[ 'a predicate that fails', qr/^22012/, "'big', 'name', name => 'failing', predicate => '1 / v > 0'" ],
	[ 'duplicate keys', qr/^23505/, "'big', 'v', name => 'failing', is_unique => true" ],
	[ 'duplicate keys in parts', qr/^23505/, "'big', 'v', name => 'failing', is_unique => true, partitions => 2" ],
	[ 'duplicate elements', qr/^23505/, "'big', 'unnest(tags)', name => 'failing', is_unique => true" ])
{
	my ($label, $code, $arguments) = @$error;
	like(sqlstate($node, 'postgres', "SELECT index_table.create($arguments)"), $code, "$label: refused");
	nothing_left_ok($label);
}

# In a subtransaction that goes on, and in a transaction that is rolled back.
is( $node->safe_psql('postgres', qq{
BEGIN;
DO \$\$ BEGIN PERFORM index_table.create('big', '(1 / v)'); EXCEPTION WHEN division_by_zero THEN NULL; END \$\$;
INSERT INTO big VALUES (300001, 300001, 'after', '{1}');
SELECT index_table.create($build{plain});
INSERT INTO big VALUES (300002, 300002, 'after', '{1}');
SELECT count(*) FROM index_table.lookup('big_by_name', 'after');
SELECT oracle.check_all('in the transaction');
ROLLBACK}), "big_by_name\n2\n", 'create after an error in a subtransaction');
nothing_left_ok('rolled back');

# --- Cancelled by time ------------------------------------------------------------------

foreach my $name (sort keys %build)
{
	my ($cancelled, $finished) = (0, 0);
	foreach my $timeout ($name eq 'slow' ? 1200 : (30, 250))
	{
		my $error = sqlstate($node, 'postgres', "SET statement_timeout = $timeout; SELECT index_table.create($build{$name})");
		if ($error eq '')
		{
			$finished++;
			oracle_ok($node, 'postgres', "$name, $timeout ms: finished, in step");
			drop_all();
			next;
		}
		$cancelled++;
		like($error, qr/^57014/, "$name, $timeout ms: cancelled");
		nothing_left_ok("$name, $timeout ms");
	}
	ok($cancelled > 0, "$name: cancelled $cancelled times, finished $finished times");
}

# --- Cancelled in each phase --------------------------------------------------------------

# Watches index_table.progress closely, and calls a function on the pid that is in the phase.
sub stop_in_phase
{
	my ($phase, $function) = @_;
	return qq{
DO \$\$
DECLARE builder int;
BEGIN
	FOR i IN 1 .. 20000 LOOP
		PERFORM pg_stat_clear_snapshot();
		SELECT pid INTO builder FROM index_table.progress WHERE phase = '$phase';
		IF FOUND THEN PERFORM $function(builder); RETURN; END IF;
		PERFORM pg_sleep(0.0005);
	END LOOP;
END \$\$};
}

foreach my $function ('pg_cancel_backend', 'pg_terminate_backend')
{
	foreach my $phase ('initializing', 'scanning', 'loading entries', 'building indexes', 'analyzing')
	{
		my $label = "$function while $phase";
		my $watcher = start_command($node, stop_in_phase($phase, $function));
		wait_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%FOR i IN%' AND pid <> pg_backend_pid()");
		my $builder = start_command($node, "SELECT index_table.create($build{$phase eq 'initializing' ? 'plain' : 'unique'})");
		my $error = end_command($builder);
		# A phase may be too short to be seen.
		if ($error eq '')
		{
			note("$label: finished");
			$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%FOR i IN%' AND pid <> pg_backend_pid()");
			# The oracle takes half a minute, and sees the same builds below.
			is($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.definition AS d, index_table.verify(d.index_table)'), '0', "$label: finished, in step");
			drop_all();
		}
		else
		{
			like($error, $function eq 'pg_cancel_backend' ? qr/ 57014: / : qr/ 57P01: /, $label);
			wait_until('SELECT count(*) = 0 FROM index_table.progress');
			nothing_left_ok($label);
		}
		end_command($watcher);
	}
}

# --- Progress, readers and writers -----------------------------------------------------------

# A writer that was there before is waited for, and its rows are in.
my ($end_of_before, $end_of_scan) = map { shut_gate($node, $_) } 8, 7;
my $before = start_command($node, "BEGIN; INSERT INTO big VALUES (400001, 400001, 'before', '{1}'); SELECT pg_advisory_xact_lock_shared(8); COMMIT");
wait_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'");

my $builder = start_command($node, "SELECT index_table.create($build{slow})");
wait_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'relation' AND query LIKE 'SELECT index_table.create%'");
my $sampler = start_command($node, q{
DO $$
DECLARE seen boolean := false; here boolean;
BEGIN
	FOR i IN 1 .. 20000 LOOP
		INSERT INTO samples SELECT * FROM index_table.progress;
		here := FOUND;
		seen := seen OR here;
		COMMIT;
		EXIT WHEN seen AND NOT here;
		PERFORM pg_sleep(0.002);
	END LOOP;
END $$});
release_lock($end_of_before);
wait_until("SELECT count(*) > 0 FROM index_table.progress WHERE rows_done > 0");

# Writers wait, from the table and from a partition, by any statement.
my @writers = map { start_command($node, $_) } (
	"INSERT INTO big VALUES (500001, 500001, 'waited', '{5}'), (150, 1, 'waited', '{5}') ON CONFLICT (id) DO UPDATE SET v = -1",
	"INSERT INTO big_3 VALUES (500002, 500002, 'waited', '{5}')",
	'UPDATE big SET v = -v WHERE id BETWEEN 1001 AND 1010',
	'UPDATE big SET id = id + 600000 WHERE id BETWEEN 2001 AND 2010',
	'DELETE FROM big_1 WHERE id BETWEEN 3001 AND 3010',
	'PREPARE p AS DELETE FROM big WHERE v = $1; EXECUTE p(4001)');
wait_until("SELECT count(*) = 6 FROM pg_stat_activity WHERE wait_event = 'relation' AND backend_type = 'client backend'");
is($node->safe_psql('postgres', 'SET lock_timeout = 100; SELECT count(*) FROM big'), $rows + 1, 'readers go on');
is($node->safe_psql('postgres', 'SET lock_timeout = 100; SELECT name FROM big WHERE id = 120000'), 'name 0', 'readers go on, in one partition');
is( $node->safe_psql('postgres', q{
	SELECT p.base, p.phase IN ('scanning', 'loading entries'), p.partitions_total, p.partitions_done BETWEEN 0 AND 4, p.rows_done BETWEEN 1 AND p.rows_total,
	       p.rows_total BETWEEN 150000 AND 300000, a.query LIKE 'SELECT index_table.create%'
	  FROM index_table.progress p JOIN pg_stat_activity a USING (pid)}),
	'big|t|4|t|t|t|t', 'progress, seen by others while it runs');
release_lock($end_of_scan);
is(end_command($_), '', 'a writer that waited') foreach @writers;
is(end_command($builder), '', 'create while others read and write');
is(end_command($sampler), '', 'progress was watched');
end_command($before);
oracle_ok($node, 'postgres', 'writers before and after are in');
is( $node->safe_psql('postgres', q{
	SELECT string_agg(v::text, ' ' ORDER BY v) FROM unnest(ARRAY[-1010, -1001, -1, 1001, 2001, 3001, 4001, 400001, 500001, 500002]) v
	 WHERE EXISTS (SELECT FROM index_table.lookup('big_by_slow', v))}),
	'-1010 -1001 -1 2001 400001 500001 500002', 'what writers did is found');

my @order = split /\n/, $node->safe_psql('postgres', 'SELECT phase FROM samples GROUP BY phase ORDER BY min(number)');
note("phases seen: @order");
ok(@order >= 2, 'phases were seen');
my $rank = "array_position(ARRAY['initializing', 'scanning', 'loading entries', 'building indexes', 'analyzing'], phase)";
note($node->safe_psql('postgres', 'SELECT phase, min(partitions_done), max(partitions_done), min(rows_done), max(rows_done), min(number), max(number) FROM samples GROUP BY phase ORDER BY min(number)'));
is($node->safe_psql('postgres', "SELECT count(*) FROM samples WHERE $rank IS NULL"), 0, 'phases have names');
is( $node->safe_psql('postgres', qq{
	SELECT format('%s %s %s after %s %s %s', phase, done, rows, phase0, done0, rows0)
	  FROM (SELECT $rank, lag($rank) OVER w, rows_done, lag(rows_done) OVER w, partitions_done, lag(partitions_done) OVER w,
	               phase, lag(phase) OVER w
	          FROM samples WINDOW w AS (ORDER BY number)) s(rank, rank0, rows, rows0, done, done0, phase, phase0)
	 WHERE rank < rank0 OR (phase = phase0 AND (rows < rows0 OR done < done0))}), '', 'progress never goes back');
is($node->safe_psql('postgres', "SELECT count(*) FROM samples WHERE phase <> 'initializing' AND (rows_done > rows_total OR partitions_done > partitions_total OR base <> 'big'::regclass)"),
	0, 'nothing is beyond its total');
is($node->safe_psql('postgres', "SELECT count(DISTINCT rows_done) > 5, max(rows_done) >= 185000, max(partitions_done) >= 3 FROM samples"),
	't|t|t', 'rows and partitions are counted');
is($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.progress'), 0, 'afterwards there is no progress');

# --- A second create after all that ------------------------------------------------------------

create_ok('next to another', $build{unique});
create_ok('next to two', $build{many});
create_ok('next to three', $build{partitioned});
is(sqlstate($node, 'postgres', "INSERT INTO big VALUES (199, 500, 'twice', '{}') ON CONFLICT (id) DO UPDATE SET v = 500")
	  =~ /^23505/, 1, 'unique');

# A build that fails next to index tables that are there leaves those as they are.
my $four = traces();
like(sqlstate($node, 'postgres', "SELECT index_table.create('big', '(1 / v)', name => 'failing')"), qr/^22012/, 'an error next to four');
is(traces(), $four, 'an error next to four: nothing left');
oracle_ok($node, 'postgres', 'an error next to four: in step');
check_storage($node, 'postgres');
drop_all();
nothing_left_ok('all dropped');

# --- Between a build's commands ----------------------------------------------------------------

# Where the building of an index or ANALYZE has just ended, nothing is reported for a moment, and the
# view reads locks and reports one after the other. Small builds are mostly such moments.
$node->safe_psql('postgres', 'CREATE TABLE small (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE small_1 PARTITION OF small DEFAULT; INSERT INTO small SELECT i, i FROM generate_series(1, 10000) i; CREATE SEQUENCE builds');
my $watcher = start_command($node, q{
DO $$
DECLARE
	phases text[] := ARRAY['initializing', 'scanning', 'loading entries', 'building indexes', 'analyzing'];
	build bigint := 0; build_before bigint; before int := 0; now int; seen int := 0; back int := 0;
BEGIN
	LOOP
		build_before := build;
		SELECT last_value INTO build FROM builds;
		SELECT array_position(phases, phase) INTO now FROM index_table.progress;
		IF now IS NULL OR build <> (SELECT last_value FROM builds) THEN
			now := 0; -- between two, or it may be of either
		END IF;
		seen := seen + (now > 0)::int;
		back := back + (build = build_before AND now BETWEEN 1 AND before - 1)::int;
		before := now;
		COMMIT;
		EXIT WHEN to_regclass('builds_ended') IS NOT NULL;
	END LOOP;
	RAISE EXCEPTION 'seen: %, back: %', seen > 100, back;
END $$});
$node->safe_psql('postgres', q{
DO $$
BEGIN
	FOR i IN 1 .. 50 LOOP
		PERFORM nextval('builds'), index_table.create('small', 'v', name => 'small_by_v');
		COMMIT;
		DROP TABLE small_by_v;
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE builds_ended ()});
like(end_command($watcher), qr/seen: t, back: 0/, 'fifty small builds never go back');
$node->stop;
done_testing();
