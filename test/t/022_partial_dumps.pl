# Every kind of part of a dump, restored without an error: keys stay unique, no query misses a row or
# finds one twice, before and after the first write, and repair() mends what was left out.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('partial', allows_streaming => 'logical', conf => "wal_retrieve_retry_interval = 200ms\n");
my $directory = PostgreSQL::Test::Utils::tempdir();

# --- The source ---------------------------------------------------------------------

# Full partitions beside an empty one, sub-partitions of which one is empty, a base table without
# rows, a predicate that nothing meets, a build that did not end, a captured table, another schema.
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
CREATE EXTENSION index_table;
CREATE TABLE t (id int PRIMARY KEY, k text, d int, n int, tags text[], h int, z text) PARTITION BY RANGE (id);
CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (200);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);
CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300);
CREATE TABLE t4 PARTITION OF t FOR VALUES FROM (300) TO (1000) PARTITION BY RANGE (id);
CREATE TABLE t4a PARTITION OF t4 FOR VALUES FROM (300) TO (400);
CREATE TABLE t4b PARTITION OF t4 FOR VALUES FROM (400) TO (1000);
INSERT INTO t SELECT i, 'k' || i, i, i % 10, ARRAY['t' || i % 4, 't' || i % 7], i, 'same'
  FROM generate_series(1, 350) i WHERE i NOT BETWEEN 200 AND 299;
SELECT index_table.create('t', 'k', is_unique => true);
SELECT index_table.create('t', 'd', is_unique => true, initially_deferred => true);
SELECT index_table.create('t', 'n', predicate => 'n > 5', name => 't_by_n');
SELECT index_table.create('t', 'unnest(tags)', name => 't_by_tag', strategy => 'partial', include => 'n');
SELECT index_table.create('t', 'h', is_unique => true, partitions => 4);
SELECT index_table.create('t', 'z', is_unique => true, predicate => 'id < 0', name => 't_by_none');
CREATE TABLE e (id int PRIMARY KEY, k text) PARTITION BY RANGE (id);
CREATE TABLE e1 PARTITION OF e FOR VALUES FROM (0) TO (100);
CREATE TABLE e2 PARTITION OF e FOR VALUES FROM (100) TO (1000);
SELECT index_table.create('e', 'k', is_unique => true);
CREATE TABLE c (id int PRIMARY KEY, k text) PARTITION BY RANGE (id);
CREATE TABLE c1 PARTITION OF c FOR VALUES FROM (0) TO (100);
CREATE TABLE c2 PARTITION OF c FOR VALUES FROM (100) TO (1000);
INSERT INTO c SELECT i, 'k' || i FROM generate_series(50, 150) i;
SELECT index_table.create('c', 'k', is_unique => true);
SELECT index_table.capture('c');
CREATE SCHEMA audit;
CREATE TABLE audit.log (id int PRIMARY KEY, who text) PARTITION BY RANGE (id);
CREATE TABLE audit.log1 PARTITION OF audit.log FOR VALUES FROM (0) TO (1000);
INSERT INTO audit.log VALUES (1, 'a');
SELECT index_table.create('audit.log', 'who', name => 'audit.log_by_who');
});
like(sqlstate($node, 'source', "CALL index_table.create_concurrently('t', 'z', name => 't_unfinished', is_unique => true)"),
	qr/^23505/, 'source: there is an index table that is not complete');

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
my %one = (copies => ['id'], identity => 1);
my @tables = (
	describe(name => 't_by_k', base => 't', key => ['b.k'], is_unique => 1, %one),
	describe(name => 't_by_d', base => 't', key => ['b.d'], is_unique => 1, %one),
	describe(name => 't_by_n', base => 't', key => ['b.n'], predicate => 'b.n > 5', %one),
	describe(name => 't_by_tag', base => 't', key => ['m.v'], elements => $tags, copies => [ 'id', 'n' ], identity => 1),
	describe(name => 't_by_h', base => 't', key => ['b.h'], is_unique => 1, %one),
	describe(name => 't_by_none', base => 't', key => ['b.z'], predicate => 'b.id < 0', is_unique => 1, %one));
my @e = describe(name => 'e_by_k', base => 'e', key => ['b.k'], is_unique => 1, %one);
my @c = describe(name => 'c_by_k', base => 'c', key => ['b.k'], is_unique => 1, %one);
my %unfinished = (t => 't_unfinished');

# --- What is looked at in a copy ------------------------------------------------------

# Queries of each base table, of which some are answered by an index table alone.
my %queries = (
	t => [
		(map { "SELECT * FROM t WHERE k = 'k$_'" } 7, 107, 307, 507), "SELECT k FROM t WHERE k >= 'k3' ORDER BY k LIMIT 20",
		'SELECT count(*) FROM t WHERE k IS NULL', 'SELECT id, d FROM t WHERE d BETWEEN 90 AND 310', 'SELECT * FROM t ORDER BY d DESC LIMIT 3',
		'SELECT id FROM t WHERE n > 5', 'SELECT * FROM t WHERE n = 7', 'SELECT count(*) FROM t WHERE n = 3',
		"SELECT id, k FROM t WHERE tags @> '{t3}'", 'SELECT h FROM t WHERE h = ANY (ARRAY[7, 107, 207, 307])', 'SELECT * FROM t WHERE h = 120',
		"SELECT count(*) FROM t WHERE z = 'same' AND id < 0", "SELECT count(*) FROM t WHERE z = 'same'" ],
	e => [ "SELECT * FROM e WHERE k = 'k1'", 'SELECT count(*) FROM e WHERE k IS NOT NULL', 'SELECT k FROM e ORDER BY k' ],
	c => [ "SELECT * FROM c WHERE k = 'k77'", 'SELECT k, id FROM c WHERE k > 0::text ORDER BY k' ]);

# wrong(base): the queries that index tables answer otherwise than PostgreSQL.
# attempt(sql): the SQLSTATE it ends with, constraints checked; what it did stays where that is 00000.
# twice(base): what happens to keys that are there, or come twice in one statement; nothing stays.
sub checks_sql
{
	my @values = map { my $base = $_; map { '(' . quote_literal($base) . ', ' . quote_literal($_) . ')' } @{ $queries{$base} } } sort keys %queries;
	return 'CREATE SCHEMA checks; CREATE TABLE checks.query AS SELECT * FROM (VALUES ' . join(', ', @values) . q{) v (base, query);
CREATE FUNCTION checks.wrong(base text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE q text; scan text; results text[]; result text; wrong text := '';
BEGIN
	FOR q IN SELECT c.query FROM checks.query c WHERE c.base = $1 LOOP
		results := '{}';
		FOREACH scan IN ARRAY ARRAY['off', 'force', 'on'] LOOP
			PERFORM set_config('index_table.enable_scan', scan, false);
			EXECUTE format('SELECT count(*) || coalesce(md5(string_agg(q::text, chr(10) ORDER BY q::text)), '''') FROM (%s) q', q) INTO result;
			results := results || result;
		END LOOP;
		IF results[1] <> results[2] OR results[1] <> results[3] THEN wrong := wrong || format('%s: %s; ', q, results); END IF;
	END LOOP;
	RETURN wrong;
END $$;
CREATE FUNCTION checks.attempt(sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	SET CONSTRAINTS ALL IMMEDIATE;
	RETURN '00000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION checks.accepted(sql text, base text, k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found boolean;
BEGIN
	EXECUTE sql;
	SET CONSTRAINTS ALL IMMEDIATE;
	PERFORM set_config('index_table.enable_scan', 'off', false);
	EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s IS NOT NULL GROUP BY %2$s HAVING count(*) > 1)', base, k) INTO found;
	RAISE EXCEPTION USING ERRCODE = CASE WHEN found THEN 'TWICE' ELSE 'NORPT' END;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION checks.twice(base text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(DISTINCT checks.accepted(format(s, base, c), base, c), ' ')
	  FROM (SELECT attname FROM pg_attribute WHERE attrelid = base::regclass AND attname IN ('k', 'd', 'h')) a(c),
	       unnest(ARRAY[
				'INSERT INTO %1$s (id, %2$s) VALUES (10, $_$-5$_$), (110, $_$-5$_$) ON CONFLICT (id) DO UPDATE SET %2$s = EXCLUDED.%2$s',
				'INSERT INTO %1$s (id, %2$s) SELECT 450, %2$s FROM ONLY %1$s1 AS x WHERE %2$s IS NOT NULL LIMIT 1',
				'INSERT INTO %1$s (id, %2$s) SELECT 50, %2$s FROM %1$s2 AS x WHERE %2$s IS NOT NULL LIMIT 1
				 ON CONFLICT (id) DO UPDATE SET %2$s = EXCLUDED.%2$s']) s);
END $$;};
}

my %write = (
	t => q{INSERT INTO t SELECT i, 'new' || i, -i, i % 10, ARRAY['t3', 'new'], -i, 'new' || i FROM generate_series(60, 960, 37) i
			ON CONFLICT (id) DO UPDATE SET k = EXCLUDED.k, n = EXCLUDED.n, d = EXCLUDED.d, tags = EXCLUDED.tags;
		UPDATE t SET n = n + 1, k = k || '!' WHERE id % 5 = 0; UPDATE t SET id = 950 WHERE id = 101; DELETE FROM t WHERE id % 11 = 0},
	e => "INSERT INTO e SELECT i, 'k' || i FROM generate_series(1, 300, 30) i ON CONFLICT (id) DO NOTHING; UPDATE e SET k = k || '!' WHERE id > 100; DELETE FROM e WHERE id = 31",
	c => "INSERT INTO c SELECT i, 'new' || i FROM generate_series(1, 300, 30) i ON CONFLICT (id) DO UPDATE SET k = EXCLUDED.k; DELETE FROM c WHERE id % 7 = 0");

# Looks at a copy. `damaged`: what is expected to be, by base table.
sub copy_ok
{
	my ($db, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %damaged = %{ $options{damaged} // {} };
	$node->safe_psql($db, checks_sql() . oracle_sql(@tables, @e, @c));
	# Without a write: empty partitions make no difference to readers.
	if (!$options{rebuild})
	{
		my %incomplete = map { $_ => 1 } 't_unfinished', map { @{ $_ // [] } } values %damaged;
		# That no row meets the predicate, only a writer finds out.
		$incomplete{t_by_none} = 1
		  if $node->safe_psql($db, "SELECT EXISTS (SELECT FROM t) AND state = 'r' FROM index_table.definition WHERE index_table = 't_by_none'::regclass") eq 't';
		is($node->safe_psql($db, "SELECT string_agg(index_table::text, ' ' ORDER BY index_table::text COLLATE \"C\") FROM index_table.index_tables
				WHERE NOT is_complete AND base::regclass::text IN ('t', 'e', 'c')"), join(' ', sort keys %incomplete),
			"$db: what readers do without");
	}
	my @bases = grep { $node->safe_psql($db, "SELECT to_regclass('$_') IS NOT NULL") eq 't' } @{ $options{bases} // [qw(t e c)] };
	foreach my $base (@bases)
	{
		my $refused = grep { !/_by_(n|tag)$/ } @{ $damaged{$base} // [] };
		my $state = $refused ? '55000' : '00000';
		is($node->safe_psql($db, "BEGIN READ ONLY; SELECT checks.wrong('$base')"), '', "$db: $base: queries before a write");
		my $twice = $node->safe_psql($db, "SELECT checks.twice('$base')");
		like($twice, $refused ? qr/^55000$/ : qr/^(?:23505|23505 NORPT)$/, "$db: $base: keys that come twice");
		is($node->safe_psql($db, "SELECT checks.wrong('$base'); SELECT checks.attempt(" . quote_literal($write{$base}) . "); SELECT checks.wrong('$base')"),
			"\n$state\n", "$db: $base: the first write, and queries around it");
		is($node->safe_psql($db, "ALTER TABLE index_table.partition ENABLE TRIGGER ALL; SELECT checks.wrong('$base')"), '', "$db: $base: queries after it");
		$node->safe_psql($db, "INSERT INTO $base SELECT 970, 'one more'") unless $refused;
		is($node->safe_psql($db, "SELECT coalesce(string_agg(index_table::text, ' ' ORDER BY index_table::text COLLATE \"C\"), '') FROM index_table.definition
				WHERE base = '$base'::regclass AND index_table::text <> 't_unfinished' AND state <> " . ($refused ? "'x' AND false" : "'b'")),
			$refused ? '' : join(' ', @{ $damaged{$base} // [] }), "$db: $base: what is damaged");
	}
	# What was left out is filled, by one of the two.
	my $mend = $options{rebuild} ? 'CALL index_table.rebuild(%L)' : 'SELECT index_table.repair(%L)';
	my @mend = split /\n/, $node->safe_psql($db, "SELECT format('$mend', index_table) FROM index_table.index_tables
			WHERE index_table::text <> 't_unfinished'" . ($options{rebuild} ? ' AND NOT is_complete' : ''));
	is(sqlstate($node, $db, join('; ', @mend)), '', "$db: mended");
	if (grep { $_ eq 't' } @bases)
	{
		is(sqlstate($node, $db, "UPDATE t SET z = id; CALL index_table.rebuild('t_unfinished')"), '', "$db: the build that had not ended");
	}
	is($node->safe_psql($db, 'SELECT bool_and(is_complete) FROM index_table.index_tables'), 't', "$db: all are complete");
	oracle_ok($node, $db, "$db: mended: in step");
	is($node->safe_psql($db, "SELECT checks.wrong('$_'); SELECT checks.twice('$_')"), "\n23505", "$db: $_: mended: queries and keys") foreach @bases;
	is(sqlstate($node, $db, $write{$_}), '', "$db: $_: mended: writes") foreach @bases;
	oracle_ok($node, $db, "$db: in step");
	return;
}

my @dump = ('pg_dump', '-d', $node->connstr('source'));

sub dump_of
{
	my ($name, @options) = @_;
	$node->command_ok([ @dump, '-f', "$directory/$name", @options ], "pg_dump @options");
	return "$directory/$name";
}

# A copy from files, one after the other; whether anything was said.
sub restore
{
	my ($db, @files) = @_;
	my $said = '';
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0")
	  unless $node->safe_psql('postgres', "SELECT count(*) FROM pg_database WHERE datname = '$db'");
	foreach my $file (@files)
	{
		my ($stdout, $stderr) = run_command([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $file ]);
		$said .= $stderr;
	}
	return is($said, '', "$db: restored");
}

# --- Plain scripts --------------------------------------------------------------------

my $schema = dump_of('schema', '-s');
my $data = dump_of('data', '--data-only', '--disable-triggers');
my %kinds = (
	whole => [ dump_of('whole') ],
	schema => [$schema],
	two => [ $schema, $data ],
	inserts => [ dump_of('inserts', '--inserts') ],
	root => [ dump_of('root', '--load-via-partition-root') ],
	sections => [ map { dump_of("section.$_", "--section=$_") } 'pre-data', 'data', 'post-data' ],
	no_data => [ map { "$directory/section.$_" } 'pre-data', 'post-data' ],
	no_audit => [ dump_of('no_audit', '-N', 'audit') ],
	no_log => [ dump_of('no_log', '-T', 'audit.log*') ],
	no_c => [ dump_of('no_c', '-T', 'c', '-T', 'c[12]', '-T', 'c_*') ],
	no_k => [ dump_of('no_k', '--exclude-table-data=t_by_k', '--exclude-table-data=t_by_n') ],
	no_part => [ dump_of('no_part', '--exclude-table-data=t_by_h_p1') ],
	no_leaf => [ dump_of('no_leaf', '--exclude-table-data=t1') ],
	no_leaves => [ dump_of('no_leaves', '--exclude-table-data=t[1234]*') ],
	no_numbers => [ dump_of('no_numbers', '--exclude-table-data=index_table.partition') ],
	no_catalog => [ dump_of('no_catalog', '--exclude-table-data=index_table.*') ]);
my @all_of_t = qw(t_by_d t_by_h t_by_k t_by_n t_by_none t_by_tag);
my %damaged = (
	no_catalog => { t => \@all_of_t, c => ['c_by_k'] },
	no_numbers => { t => \@all_of_t, c => ['c_by_k'] },
	no_k => { t => [qw(t_by_k t_by_n)] },
	no_part => { t => ['t_by_h'] });
$kinds{no_n} = [ dump_of('no_n', '--exclude-table-data=t_by_n') ];
$damaged{no_n} = { t => ['t_by_n'] };
foreach my $db (sort keys %kinds)
{
	restore($db, @{ $kinds{$db} });
	copy_ok($db, damaged => $damaged{$db});
}


# --- Archives ---------------------------------------------------------------------------

$node->command_ok([ 'pg_dump', '-d', $node->connstr('source'), '-Fd', '-j4', '-f', "$directory/archive" ], 'pg_dump -Fd -j4');
# Workers of pg_restore that change a table and its partitions must not wait for each other: the latter do not wait
# for who changes the former.
foreach my $case ([ 't', 'CREATE INDEX passing ON t1 (n)' ], [ 't_by_h', 'CREATE INDEX passing ON t_by_h_p1 (h)', 'ALTER TABLE t_by_h_p1 ENABLE ALWAYS TRIGGER index_table_guard' ])
{
	my ($table, @commands) = @$case;
	my $holder = hold_lock($node, "BEGIN; LOCK TABLE ONLY $table IN ACCESS EXCLUSIVE MODE;", "SELECT count(*) = 1 FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'AccessExclusiveLock' AND granted", 'source');
	is(sqlstate($node, 'source', "SET lock_timeout = '5s'; $_"), '', "while $table is locked: $_") foreach @commands;
	release_lock($holder);
	$node->safe_psql('source', 'DROP INDEX passing');
}

my @archives = (
	[ 'parallel', [ '-j4' ] ],
	[ 'parallel_parts', [ '-j4', '--section=pre-data' ], [ '-j4', '--section=data', '--disable-triggers' ], [ '-j4', '--section=post-data' ] ],
	[ 'parallel_two', [ '-j4', '-s' ], [ '-j4', '-a', '--disable-triggers' ] ],
	[ 'parallel_schema', [ '-j4', '-s' ] ]);
foreach my $archive (@archives)
{
	my ($db, @runs) = @$archive;
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($db), @$_, "$directory/archive" ], "$db: pg_restore @$_") foreach @runs;
	# It may be the first to be dropped, with nothing written before.
	$node->safe_psql($db, 'CREATE INDEX passing ON t1 (n)');
	is(sqlstate($node, $db, 'DROP INDEX CONCURRENTLY passing'), '', "$db: an index is dropped concurrently");
	copy_ok($db);
}

# --- Into what is there -------------------------------------------------------------------

# Other index tables have taken the numbers.
my $others = q{
CREATE EXTENSION index_table;
CREATE TABLE mine (id int PRIMARY KEY, k text) PARTITION BY RANGE (id);
CREATE TABLE mine1 PARTITION OF mine FOR VALUES FROM (0) TO (100);
CREATE TABLE mine2 PARTITION OF mine FOR VALUES FROM (100) TO (1000);
INSERT INTO mine SELECT i, 'k' || i FROM generate_series(50, 150) i;
SELECT index_table.create('mine', 'k', is_unique => true);};
my $tables = dump_of('tables', '-t', 't', '-t', 't[1234_]*', '-t', 'c', '-t', 'c[12_]*');
foreach my $db ('tables_empty', 'tables_taken', 'named_empty', 'named_taken')
{
	my $is_taken = $db =~ /taken/;
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	$node->safe_psql($db, $is_taken ? $others : 'CREATE EXTENSION index_table');
	$db =~ /tables/ ? restore($db, $tables)
	  : $node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($db), '-n', 'public', "$directory/archive" ], "$db: pg_restore -n");
	copy_ok($db, rebuild => $is_taken, damaged => { t => \@all_of_t, c => ['c_by_k'] });
	next unless $is_taken;
	like(sqlstate($node, $db, "INSERT INTO mine VALUES (1, 'k77')"), qr/^23505/, "$db: what was there is unique");
	is($node->safe_psql($db, "SELECT count(*) FROM index_table.verify('mine_by_k')"), 0, "$db: what was there is right");
}

# Rows are loaded after some have been written, and perhaps deleted, with numbers of their own, in
# another order than those of the dump: PostgreSQL complains, and goes on.
foreach my $db ('emptied', 'written', 'written_elsewhere')
{
	restore($db, $schema);
	$node->safe_psql($db, $write{e}) if $db eq 'written_elsewhere';
	$node->safe_psql($db, "INSERT INTO t (id, k, d, n, h) SELECT i, 'mine' || i, -i, 7, -i FROM generate_series(280, 980, 100) i");
	$node->safe_psql($db, 'DELETE FROM t') if $db eq 'emptied';
	my ($stdout, $stderr) = run_command([ 'psql', '-Xq', '-d', $node->connstr($db), '-f', $data ]);
	like($stderr, qr/"partition_(?:pkey|relation_key)"/, "$db: it was said that numbers are taken");
	copy_ok($db, damaged => { t => \@all_of_t, c => ['c_by_k'] });
}

# The same without the extension's own tables, and not a word of complaint. What is damaged stays so
# when others are loaded.
foreach my $db ('emptied_public', 'written_public')
{
	restore($db, $schema);
	$node->safe_psql($db, "INSERT INTO t (id, k, d, n, h) SELECT i, 'mine' || i, -i, 7, -i FROM generate_series(280, 980, 100) i; INSERT INTO c VALUES (1, 'k1')");
	$node->safe_psql($db, 'DELETE FROM t') if $db eq 'emptied_public';
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($db), '--data-only', '--disable-triggers', '-n', 'public', "$directory/archive" ],
		"$db: restored");
	$node->safe_psql($db, "ALTER TABLE index_table.partition DISABLE TRIGGER ALL; ALTER TABLE index_table.partition ENABLE TRIGGER ALL");
	copy_ok($db, damaged => { t => \@all_of_t, c => ['c_by_k'] });
}

# All that is loaded as a replica, past triggers.
restore('replica', $schema);
$node->safe_psql('postgres', "ALTER DATABASE replica SET session_replication_role = replica");
restore('replica', $data);
$node->safe_psql('postgres', "ALTER DATABASE replica RESET session_replication_role");
copy_ok('replica');

# --- A subscriber whose rows come by replication -------------------------------------------

# The first of `apply` come through an apply worker, where no statement trigger fires.
$node->safe_psql('source', 'CREATE PUBLICATION parts FOR TABLE t, c, e WITH (publish_via_partition_root = true)');
foreach my $db ('synchronized', 'applied')
{
	restore($db, $schema);
	my $copies = $db eq 'applied' ? 'false' : 'true';
	$node->safe_psql('source', "SELECT pg_create_logical_replication_slot('$db', 'pgoutput')");
	$node->safe_psql($db, sprintf("CREATE SUBSCRIPTION $db CONNECTION %s PUBLICATION parts WITH (create_slot = false, slot_name = $db, copy_data = $copies)",
			quote_literal($node->connstr('source'))));
	$node->poll_query_until($db, "SELECT bool_and(srsubstate IN ('r', 's')) FROM pg_subscription_rel") or die "$db: not synchronized";
	$node->safe_psql('source', "INSERT INTO t SELECT i, 'replicated' || i, 1000 + i, 7, '{t3}', 1000 + i, 'r' || i FROM generate_series(260, 960, 100) i;
		UPDATE t SET n = 8 WHERE id = 260; INSERT INTO c VALUES (7, 'seven'); DELETE FROM t WHERE id = 360") if $db eq 'applied';
	$node->wait_for_catchup($db);
	is($node->safe_psql($db, "SELECT count(*) > 5, count(*) > 100 FROM t"), $db eq 'applied' ? 't|f' : 't|t', "$db: rows are there");
	$node->safe_psql($db, 'ALTER SUBSCRIPTION ' . $db . ' DISABLE; ALTER SUBSCRIPTION ' . $db . ' SET (slot_name = NONE)');
	$node->safe_psql($db, "DROP SUBSCRIPTION $db");
	$node->poll_query_until('source', "SELECT NOT active FROM pg_replication_slots WHERE slot_name = '$db'");
	$node->safe_psql('source', "SELECT pg_drop_replication_slot('$db')");
	copy_ok($db);
}

$node->stop;
done_testing();
