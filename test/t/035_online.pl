# create_concurrently and rebuild while others write, read and change partitions; interrupted at any
# moment, by cancels, terminations, timeouts and crashes.
#
#   ONLINE_SEED         repeats the choices of a run (not its timing)
#   ONLINE_ROUNDS       how many interruptions (10)
#   ONLINE_KINDS        of which kinds, in turns (cancel terminate timeout crash kill)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes qw(sleep time);
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{ONLINE_SEED} // int(rand(2**31));
my $rounds = how_many('ONLINE_ROUNDS', 5);
srand($seed);
note "ONLINE_SEED=$seed";

my $node = new_node('online',
	conf => "session_preload_libraries = index_table\nmax_locks_per_transaction = 256\ndeadlock_timeout = 200ms\nwal_level = logical\n");
my $rows = 3000;
my @bases = ('h', 'r', 'p');

# --- Tables -----------------------------------------------------------------------------

my $columns = 'id int PRIMARY KEY, email text, town text, tags text[], num int';
my $row = q{gen_random_uuid()::text, 'Town' || (random() * 40)::int, ARRAY['t' || (random() * 5)::int, nullif('t' || (random() * 5)::int, 't0')],}
  . q{ nullif((random() * 30)::int, 0)};
$node->safe_psql('postgres', qq{
CREATE EXTENSION index_table;
CREATE TABLE h ($columns) PARTITION BY HASH (id);
} . join('', map { "CREATE TABLE h_$_ PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER $_);" } 0 .. 3) . qq{
CREATE TABLE r ($columns) PARTITION BY RANGE (id);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (0) TO (1000);
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (1000) TO (2000) PARTITION BY HASH (id);
CREATE TABLE r_2_0 PARTITION OF r_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE r_2_1 PARTITION OF r_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE r_default PARTITION OF r DEFAULT;
CREATE TABLE p ($columns);
} . join('', map { "INSERT INTO $_ SELECT i, $row FROM generate_series(1, $rows) i;" } @bases));

# The index tables of a base table: what makes each, and what the oracle knows of it.
my %arguments;
my @tables;

sub index_table
{
	my ($base, $suffix, $arguments, %description) = @_;
	my $name = "${base}_$suffix";
	$arguments{$name} = "'$base', $arguments, name => '$name'";
	push @tables, describe(name => $name, base => $base, identity => 1, %description);
	return;
}

foreach my $base (@bases)
{
	index_table($base, 'email', "'email', is_unique => true", key => ['b.email'], copies => ['id'], is_unique => 1);
	index_table($base, 'town', "'town', strategy => 'denormalized'", key => ['b.town'], copies => [ 'id', 'email', 'tags', 'num' ]);
	index_table($base, 'tag', "'unnest(tags)', strategy => 'partial', include => 'email'", key => ['m.v'],
		elements => 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)', copies => [ 'id', 'email' ]);
	index_table($base, 'low', "'lower(town)', predicate => 'num % 3 = 0'", key => ['lower(b.town)'], predicate => 'b.num % 3 = 0', copies => ['id']);
	index_table($base, 'n', "'num', strategy => 'partial', include => 'town', partitions => 3", key => ['b.num'], copies => [ 'id', 'town' ]);
}
my @names = map { $_->{name} } @tables;
$node->safe_psql('postgres', oracle_sql(@tables));

# --- Writers, readers and DDL -------------------------------------------------------------

# Each writes down what it did not expect.
my $quoted = $row =~ s/'/''/gr;
$node->safe_psql('postgres', qq{
CREATE TABLE trouble (who text, what text);
CREATE SEQUENCE fresh START 100000;

CREATE FUNCTION act(base text) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	kind int := random() * 9;
	i int := 1 + random() * $rows;
	j int := 1 + random() * $rows;
	x text;
	y text;
BEGIN
	BEGIN
		CASE kind
			WHEN 0 THEN EXECUTE format('INSERT INTO %I SELECT i, <row> FROM generate_series(\$1, \$1 + 5) i ON CONFLICT DO NOTHING', base) USING i;
			WHEN 1 THEN EXECUTE format('INSERT INTO %I SELECT \$1, <row> ON CONFLICT (id) DO UPDATE SET town = EXCLUDED.town, num = EXCLUDED.num', base) USING i;
			WHEN 2 THEN EXECUTE format('UPDATE %I SET email = gen_random_uuid()::text, town = town || ''x'' WHERE id BETWEEN \$1 AND \$1 + 3', base) USING i;
			WHEN 3 THEN EXECUTE format('UPDATE %I SET id = \$2 WHERE id = \$1', base) USING i, j;
			WHEN 4 THEN EXECUTE format('DELETE FROM %I WHERE id = \$1', base) USING i;
			WHEN 5 THEN
				BEGIN
					EXECUTE format('UPDATE %I SET num = num + 1, tags = tags || ''u''::text WHERE id BETWEEN \$1 AND \$1 + 20', base) USING i;
					EXECUTE format('DELETE FROM %I WHERE id = \$1', base) USING j;
					RAISE division_by_zero;
				EXCEPTION WHEN division_by_zero THEN
					EXECUTE format('UPDATE %I SET tags = ARRAY[''v''] WHERE id = \$1', base) USING i;
				END;
			WHEN 6 THEN EXECUTE format('COPY %I (id, email, town) FROM PROGRAM ''echo %s,%s,Copied''  CSV', base, i, gen_random_uuid());
			WHEN 7 THEN -- exchanges unique keys
				EXECUTE format('SELECT email FROM %I WHERE id = \$1 FOR UPDATE', base) INTO x USING i;
				EXECUTE format('SELECT email FROM %I WHERE id = \$1 FOR UPDATE', base) INTO y USING j;
				IF i <> j AND x IS NOT NULL AND y IS NOT NULL THEN
					EXECUTE format('UPDATE %I SET email = CASE id WHEN \$1 THEN \$3 ELSE \$4 END WHERE id IN (\$1, \$2)', base) USING i, j, y, x;
				END IF;
			WHEN 8 THEN EXECUTE format('UPDATE %I SET town = NULL, num = NULL WHERE id = \$1', base) USING i;
			ELSE -- two statements, by which a unique key goes from one partition to another
				EXECUTE format('WITH d AS (DELETE FROM %1\$I WHERE id = \$1 RETURNING *)
					INSERT INTO %1\$I SELECT \$2, email, town, tags, num FROM d ON CONFLICT DO NOTHING', base) USING i, j;
		END CASE;
	EXCEPTION WHEN OTHERS THEN
		-- repeated ids; partitions that come and go
		IF sqlstate NOT IN ('23505', '40P01', '40001', '23514', '57014', '55P03') OR sqlerrm ~ '_email' THEN
			INSERT INTO trouble VALUES ('writer', format('%s %s: %s', base, kind, sqlerrm));
		END IF;
	END;
END \$\$;

CREATE FUNCTION ddl() RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' AS \$\$
DECLARE
	kind int := random() * 4;
	i int;
	name text;
BEGIN
	-- Partitions come and go for every snapshot at once: not while the oracle looks.
	PERFORM pg_advisory_xact_lock_shared(1);
	CASE kind
		WHEN 0 THEN EXECUTE format('TRUNCATE %I', (ARRAY['h_1', 'r_2_0', 'r_1', 'p'])[1 + (random() * 3)::int]);
		WHEN 1 THEN -- attached with rows
			i := nextval('fresh') * 10;
			EXECUTE format('CREATE TABLE r_late_%s (LIKE r INCLUDING ALL)', i);
			EXECUTE format('INSERT INTO r_late_%s SELECT i, <row> FROM generate_series(%s, %s) i', i, i, i + 5);
			EXECUTE format('ALTER TABLE r ATTACH PARTITION r_late_%s FOR VALUES FROM (%s) TO (%s)', i, i, i + 10);
		WHEN 2 THEN
			i := nextval('fresh') * 10;
			EXECUTE format('CREATE TABLE r_late_%s PARTITION OF r FOR VALUES FROM (%s) TO (%s)', i, i, i + 10);
			EXECUTE format('INSERT INTO r SELECT i, <row> FROM generate_series(%s, %s) i', i, i + 5);
		ELSE
			SELECT relid::text INTO name FROM pg_partition_tree('r') WHERE relid::text ~ 'late' LIMIT 1;
			IF name IS NULL THEN
				RETURN;
			END IF;
			IF random() < 0.5 THEN
				EXECUTE format('ALTER TABLE r DETACH PARTITION %I', name);
			END IF;
			EXECUTE format('DROP TABLE %I', name);
	END CASE;
EXCEPTION WHEN OTHERS THEN
	IF sqlstate NOT IN ('40P01', '55P03', '57014') THEN
		INSERT INTO trouble VALUES ('ddl', format('%s: %s', kind, sqlerrm));
	END IF;
END \$\$;

CREATE FUNCTION read_any(query text, key text) RETURNS text STABLE LANGUAGE plpgsql AS \$\$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || coalesce(md5(string_agg(t::text, '' '' ORDER BY t::text)), '''') FROM (%s) t', query) INTO result USING key;
	RETURN result;
END \$\$;
CREATE FUNCTION read_force(query text, key text) RETURNS text STABLE LANGUAGE plpgsql SET index_table.enable_scan = force
AS \$\$ BEGIN RETURN read_any(query, key); END \$\$;
CREATE FUNCTION read_off(query text, key text) RETURNS text STABLE LANGUAGE plpgsql SET index_table.enable_scan = off
AS \$\$ BEGIN RETURN read_any(query, key); END \$\$;
CREATE TABLE queries (query text, key text);
} =~ s/<row>/$quoted/gr);
foreach my $base ('h', 'r')
{
	$node->safe_psql('postgres', "INSERT INTO queries VALUES " . join(', ', map { '(' . quote_literal($_->[0]) . ", '$_->[1]')" } (
		[ "SELECT * FROM $base WHERE town = \$1", 'Town7' ],
		[ "SELECT id, email FROM $base WHERE \$1 = ANY (tags)", 't3' ],
		[ "SELECT * FROM $base WHERE lower(town) = \$1 AND num % 3 = 0", 'town9' ],
		[ "SELECT num, town FROM $base WHERE num = \$1::int", '12' ],
		[ "SELECT * FROM $base WHERE email < \$1", '04' ])));
}

my $directory = PostgreSQL::Test::Utils::tempdir();

sub script
{
	my ($name, $text) = @_;
	append_to_file("$directory/$name", $text);
	return "$directory/$name";
}

my $compare = "INSERT INTO trouble SELECT 'reader', q.query FROM queries q WHERE read_force(query, key) IS DISTINCT FROM read_off(query, key);\n";
my @scripts = (
	(map { script("act_$_", "SELECT act('$_');\n\\sleep 2 ms\n") . '@30' } @bases),
	script('insert', "\\set i random(1, $rows)\nINSERT INTO h SELECT :i, $row ON CONFLICT DO NOTHING;\n\\sleep 2 ms\n") . '@10',
	script('delete', "\\set i random(1, $rows)\nBEGIN;\nDELETE FROM p WHERE id = :i;\nSAVEPOINT a;\nDELETE FROM p WHERE id < :i;\nROLLBACK TO a;\nSELECT pg_sleep(0.002);\nCOMMIT;\n") . '@5',
	script('ddl', "SELECT ddl();\n\\sleep 20 ms\n") . '@3',
	script('committed', "$compare\\sleep 20 ms\n") . '@3',
	script('repeatable', "BEGIN ISOLATION LEVEL REPEATABLE READ;\n${compare}SELECT pg_sleep(0.1);\n${compare}SELECT pg_sleep(0.2);\n${compare}COMMIT;\n") . '@2');
my $load;

sub start_load
{
	$load->{run} = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 5, '-j', 1, '-T', 600, '--max-tries=0', '--random-seed=' . int(rand(1e9)), map({ ('-f', $_) } @scripts), $node->connstr('postgres') . ' application_name=load' ],
		'<', \'', '>&', "$directory/pgbench.log");
	return;
}

sub stop_load
{
	my ($crashed) = @_;
	unless ($crashed)
	{
		my $alive = $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'load'");
		ok($alive > 0, 'the load went on') or diag slurp_file("$directory/pgbench.log");
	}
	$load->{run}->kill_kill(grace => 2);
	$node->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'load'") unless $crashed;
	return;
}

# --- Checks -------------------------------------------------------------------------------

# What is asked beside DDL may be what a deadlock of that is ended with.
sub asked
{
	my ($sql) = @_;
	for (1 .. 10)
	{
		my ($code, $stdout, $stderr) = $node->psql('postgres', $sql);
		return $stdout if $code == 0;
		die "$sql: $stderr" unless $stderr =~ /deadlock/;
	}
	die "$sql: deadlocks";
}

sub refused
{
	my ($sql) = @_;
	my $error;
	for (1 .. 10)
	{
		$error = sqlstate($node, 'postgres', $sql);
		last unless $error =~ /^40P01/;
	}
	return $error;
}

sub status
{
	my ($name) = @_;
	my $complete = asked("SELECT is_complete FROM index_table.index_tables WHERE index_table = to_regclass('$name')");
	return $complete eq '' ? 'none' : $complete eq 't' ? 'complete' : 'incomplete';
}

sub exact_ok
{
	my ($name, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(status($name), 'complete', "$label: complete");
	return is($node->safe_psql('postgres', "DO 'BEGIN PERFORM pg_advisory_lock(1); END'; SELECT oracle.problems('$name')"), '0', "$label: exact");
}

sub no_trouble_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', 'SELECT DISTINCT * FROM trouble LIMIT 10'), '', "$label: nothing unexpected");
}

# Drops index tables; deadlocks with DDL are tried again.
sub drop_tables
{
	my ($which) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $name (split /\n/, $node->safe_psql('postgres', "SELECT index_table FROM index_table.definition WHERE $which"))
	{
		my $error;
		for (1 .. 10)
		{
			$error = sqlstate($node, 'postgres', "SELECT index_table.drop('$name')");
			last unless $error =~ /^40P01/;
		}
		is($error, '', "$name: dropped") if $error;
	}
	return;
}

sub drop_all
{
	drop_tables('true');
	return;
}

sub nothing_left_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $left = $node->safe_psql('postgres', q{
SELECT 'relation', relname::text FROM pg_class WHERE relname ~ '_log\d*$|^[hrp]_(email|town|tag|low|num)' UNION ALL
SELECT 'trigger', tgrelid::regclass::text FROM pg_trigger WHERE tgname ~ '^index_table' UNION ALL
SELECT 'definition', index_table::text FROM index_table.definition UNION ALL
SELECT 'loaded', partition_id::text FROM index_table.loaded_partition UNION ALL
SELECT 'retired', partition_id::text FROM index_table.retired_partition UNION ALL
SELECT 'partition', partition_id::text FROM index_table.partition});
	return is($left, '', "$label: nothing left");
}

# What CALL fails with, or an empty string.
sub call
{
	my ($sql, $delay) = @_;
	return sqlstate($node, 'postgres', 'SET index_table.build_delay = ' . ($delay // 5) . ";\nCALL $sql;");
}

sub build
{
	my ($name, $delay) = @_;
	return call("index_table.create_concurrently($arguments{$name})", $delay);
}

# Deadlocks with DDL, and loaders that the DDL script beats to it, are for the caller to try again.
sub complete_ok
{
	my ($name, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $error = '';
	for (1 .. 10)
	{
		$error = call("index_table.rebuild('$name')");
		last unless $error =~ /^40P01/;
	}
	is($error, '', "$label: rebuild");
	return exact_ok($name, $label);
}

sub vacuum_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sqlstate($node, 'postgres', 'SELECT index_table.vacuum()'), '', "$label: vacuum");
}

# --- Builds under load ----------------------------------------------------------------------

start_load();
foreach my $name (@names)
{
	my $error = build($name);
	$error = build($name) while $error =~ /^40P01/ && status($name) eq 'none'; # before anything was there
	if ($error =~ /^40P01/) # deadlock with DDL
	{
		complete_ok($name, "$name after a deadlock");
	}
	else
	{
		is($error, '', "$name: built");
		exact_ok($name, $name);
		next if $name =~ /_email$/; # stays as it is, unique
		like(call("index_table.rebuild('$name')"), qr/^(40P01|$)/, "$name: built once more");
		complete_ok($name, "$name: built once more") if status($name) eq 'incomplete';
		exact_ok($name, "$name: built once more");
	}
}
sleep(1);
vacuum_ok('under load');
stop_load(0);
no_trouble_ok('under load');
oracle_ok($node, 'postgres', 'after the load', 0);
check_storage($node, 'postgres', 'after the load');
drop_all();
nothing_left_ok('under load');

# --- Interruptions --------------------------------------------------------------------------

# An incomplete index table is not read, followed by a log, and can be completed or dropped.
sub incomplete_ok
{
	my ($name, $label) = @_;
	my ($base) = $name =~ /^(.)/;
	my $plan = asked("SET index_table.enable_scan = force; EXPLAIN SELECT * FROM $base WHERE town = 'a' OR num = 2 OR email = 'c'; EXPLAIN SELECT num FROM $base WHERE num = 1; EXPLAIN SELECT id FROM $base WHERE email = 'd'");
	unlike($plan, qr/Index Table: $name/, "$label: not read");
	foreach my $sql ("index_table.verify('$name')", "index_table.lookup('$name')", "index_table.repair('$name')")
	{
		like(refused("SELECT $sql"), qr/^55000/, "$label: $sql");
	}
	my $log = asked("SELECT log FROM index_table.describe('$name')");
	my $logged;
	for (1 .. 10) # deadlocks with DDL
	{
		my $stderr;
		$node->psql('postgres', qq{
BEGIN;
INSERT INTO $base VALUES (-7, 'logged', 'Logged', ARRAY['l'], 3);
SELECT count(*) FROM $log WHERE xmin = pg_current_xact_id()::xid;
ROLLBACK;}, stdout => \$logged, stderr => \$stderr);
		last unless $stderr =~ /deadlock/;
	}
	is($logged, '1', "$label: writers log");
	return;
}

my %outcomes;
start_load();
my @kinds = split / /, $ENV{ONLINE_KINDS} // 'cancel terminate timeout crash kill';
foreach my $round (1 .. $rounds)
{
	my $name = $names[ int(rand(@names)) ];
	my $kind = $kinds[ $round % @kinds ];
	my $label = "round $round: $kind of $name";
	my $delay = int(rand(40));
	my $wait = rand() < 0.3 ? rand(0.1) : rand(0.6);
	my $timeout = $kind eq 'timeout' ? 'SET statement_timeout = ' . (1 + int($wait * 1000)) . ';' : '';
	my $session = start_session($node, 'postgres',
		"SET application_name = builder; SET index_table.build_delay = $delay; $timeout\nCALL index_table.create_concurrently($arguments{$name});");
	sleep($wait);
	my $crashed = $kind eq 'crash' || $kind eq 'kill';
	if ($crashed)
	{
		$kind eq 'kill' ? $node->kill9 : $node->stop('immediate');
		stop_load(1);
	}
	elsif ($kind ne 'timeout')
	{
		my $function = $kind eq 'cancel' ? 'pg_cancel_backend(pid)' : 'pg_terminate_backend(pid)';
		$node->safe_psql('postgres', "SELECT $function FROM pg_stat_activity WHERE application_name = 'builder'");
	}
	$session->{input} .= "\\q\n" unless $crashed;
	eval { end_session($session) };
	my $output = $session->{output};
	unlike($output, qr/XX000|23505/, "$label: no unexpected error") or diag $output;
	if ($crashed)
	{
		# Backends outlive a killed postmaster until they notice.
		my $started = 0;
		for (1 .. 100)
		{
			last if $started = $node->start(fail_ok => 1);
			$node->{_pid} = undef; # of the killed one
			sleep(0.1);
		}
		ok($started, "$label: the server starts again");
		start_load();
	}
	my $status = status($name);
	$outcomes{"$kind: $status"}++;
	if ($status eq 'incomplete')
	{
		incomplete_ok($name, $label);
		if (rand() < 0.25)
		{
			drop_tables("index_table = '$name'::regclass");
			is(status($name), 'none', "$label: dropped");
			next;
		}
		complete_ok($name, $label);
	}
	elsif ($status eq 'complete')
	{
		exact_ok($name, $label);
	}
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname ~ '_log\\d*\$'"), '0', "$label: no log");
	drop_tables("true");
}
stop_load(0);
diag("$rounds interruptions: " . join(', ', map { "$_ $outcomes{$_}" } sort keys %outcomes));
no_trouble_ok('interruptions');
drop_all();
nothing_left_ok('interruptions');

# --- Unique keys ------------------------------------------------------------------------------

$node->safe_psql('postgres', "INSERT INTO h VALUES (-1, 'twice'), (-2, 'twice'), (-3, 'twice') ON CONFLICT DO NOTHING");
like(build('h_email'), qr/^23505/, 'a repeated key: 23505');
is(status('h_email'), 'incomplete', 'a repeated key: incomplete');
$node->safe_psql('postgres', 'DELETE FROM h WHERE id = -1');
like(call("index_table.rebuild('h_email')"), qr/^23505/, 'a key still repeated: 23505');
$node->safe_psql('postgres', "UPDATE h SET email = 'once' WHERE id = -2");
complete_ok('h_email', 'repeated keys mended');
like(sqlstate($node, 'postgres', "INSERT INTO h VALUES (-4, 'twice')"), qr/^23505/, 'unique now');
like(call("index_table.rebuild('h_email')"), qr/^0A000/, 'rebuild of a complete one: refused');
drop_all();

# Runs statements while a build waits between its transactions: [ seconds, SQL ], ….
sub build_meanwhile
{
	my ($name, @steps) = @_;
	my $session = start_session($node, 'postgres', "SET index_table.build_delay = 400;\nCALL index_table.create_concurrently($arguments{$name});\n\\q");
	foreach my $step (@steps)
	{
		my ($loaded, $sql) = @$step;
		$node->poll_query_until('postgres', "SELECT $loaded") or die "in vain: $loaded";
		$node->safe_psql('postgres', $sql);
	}
	return end_session($session);
}
my $loaded_some = '(SELECT count(*) BETWEEN 1 AND 3 FROM index_table.loaded_partition)';
my $loaded_all = "(SELECT count(*) = 4 FROM index_table.loaded_partition)";
my $indexed = "(SELECT count(*) > 0 FROM pg_index i, index_table.definition d WHERE i.indrelid = d.index_table)";
$node->safe_psql('postgres', "TRUNCATE h; INSERT INTO h SELECT i, $row FROM generate_series(1, 100) i");
unlike(build_meanwhile('h_email', [ $loaded_some, 'UPDATE h SET id = id + 1000; UPDATE h SET id = id - 1000' ], [ $loaded_all, 'UPDATE h SET id = id + 1000' ]),
	qr/ERROR/, 'rows that move between partitions: built');
exact_ok('h_email', 'rows that move between partitions');
drop_all();
unlike(build_meanwhile('h_email', [ $loaded_some, "CREATE TABLE kept AS TABLE h; TRUNCATE h_0, h_1, h_2, h_3; INSERT INTO h TABLE kept; DROP TABLE kept" ]),
	qr/ERROR/, 'rows that come again after TRUNCATE: built');
exact_ok('h_email', 'rows that come again after TRUNCATE');
drop_all();
# r has 4 partitions, and late ones until here.
$node->safe_psql('postgres', join('', map { "DROP TABLE $_;" } split(/\n/, $node->safe_psql('postgres', "SELECT relid FROM pg_partition_tree('r') WHERE relid::text ~ 'late'")))
	  . "TRUNCATE r; INSERT INTO r SELECT i, $row FROM generate_series(1, 100) i");
my $late = 'CREATE TABLE r_late_1 PARTITION OF r FOR VALUES FROM (5000) TO (6000); UPDATE r SET id = 5000 + id WHERE id < 50';
foreach my $name ('r_email', 'r_town', 'r_tag', 'r_n')
{
	unlike(build_meanwhile($name, [ $indexed, $late ]), qr/ERROR/, "$name: a late partition: built");
	exact_ok($name, "$name: a late partition");
	drop_all();
	$node->safe_psql('postgres', 'UPDATE r SET id = id - 5000 WHERE id > 5000; DROP TABLE r_late_1');
}

# --- Where it cannot be called, and what cannot be done meanwhile --------------------------------

my $create = "CALL index_table.create_concurrently($arguments{h_town})";
like(sqlstate($node, 'postgres', "BEGIN; $create"), qr/^25001/, 'in a transaction block');
like(sqlstate($node, 'postgres', "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN $create; END \$\$; SELECT f()"), qr/^25001/, 'in a function');
like(sqlstate($node, 'postgres', "DO \$\$ BEGIN BEGIN $create; EXCEPTION WHEN division_by_zero THEN NULL; END; END \$\$"), qr/^25001|^2D000/, 'in a block with EXCEPTION');
is(sqlstate($node, 'postgres', "DO \$\$ BEGIN $create; END \$\$"), '', 'in DO');
exact_ok('h_town', 'in DO');
drop_all();
nothing_left_ok('refused');

# Leaves an incomplete index table.
sub interrupted
{
	my ($name, $loaded) = @_;
	my $session = start_session($node, 'postgres', "SET index_table.build_delay = 800;\nCALL index_table.create_concurrently($arguments{$name});\n\\q");
	$node->poll_query_until('postgres', 'SELECT ' . ($loaded // $loaded_some)) or die 'in vain';
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ '^CALL' AND pid <> pg_backend_pid()");
	end_session($session);
	is(status($name), 'incomplete', "$name: interrupted");
	return;
}

# Two at a time: the second waits, and finds it done.
interrupted('h_town');
my @builders = map { start_session($node, 'postgres', "SET index_table.build_delay = 300;\nCALL index_table.rebuild('h_town');\n\\q") } 1 .. 2;
my $errors = join('', map { end_session($_) } @builders) =~ s/^NOTICE.*\n|^LOCATION.*\n//gmr;
like($errors, qr/^ERROR:  55000: [^\n]*completed meanwhile\s*$/, 'two builders: one goes through');
exact_ok('h_town', 'two builders');
drop_all();

# The owner may have put an index on it meanwhile.
foreach my $name ('h_town', 'h_email')
{
	interrupted($name);
	$node->safe_psql('postgres', "CREATE INDEX own_index ON $name (id); UPDATE h SET town = 'Own' WHERE id % 3 = 0");
	complete_ok($name, "$name: own index");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) = (SELECT count(*) FROM h) FROM (SELECT id FROM $name WHERE id > -100 ORDER BY id) AS i"), 't',
		"$name: own index: all entries in it");
	is(call("index_table.rebuild('$name')"), '', "$name: own index: once more") unless $name =~ /email/;
	exact_ok($name, "$name: own index: once more");
	like($node->safe_psql('postgres', "SELECT string_agg(indexdef, ' ') FROM pg_indexes WHERE tablename = '$name'"), qr/own_index/, "$name: own index stays");
	drop_all();
}

# drop() waits for the build and holds up nobody.
my $building = start_session($node, 'postgres', "SET index_table.build_delay = 300;\n$create;\n\\q");
$node->poll_query_until('postgres', "SELECT $loaded_some") or die 'in vain';
my $dropping = start_session($node, 'postgres', "SELECT index_table.drop('h_town');\n\\q");
sleep(0.2);
is(sqlstate($node, 'postgres', "SET lock_timeout = 200; UPDATE h SET town = town || '!' WHERE id < 5 + 1000; SELECT count(*) FROM h"), '', 'drop of one being built: writers go on');
unlike(end_session($building), qr/ERROR/, 'drop of one being built: built first');
unlike(end_session($dropping), qr/ERROR/, 'drop of one being built: dropped');
nothing_left_ok('drop of one being built');

# DDL on an incomplete one.
interrupted('h_town');
like(sqlstate($node, 'postgres', 'ALTER TABLE h ADD COLUMN more int'), qr/^55000/, 'ADD COLUMN is refused');
$node->safe_psql('postgres', q{
ALTER TABLE h RENAME COLUMN town TO city;
ALTER TABLE h RENAME COLUMN email TO mail;
UPDATE h SET city = 'Renamed', mail = 'renamed' || id WHERE id % 3 = 0;
ALTER TABLE h RENAME COLUMN city TO town;
ALTER TABLE h RENAME COLUMN mail TO email;
ALTER TABLE h_town RENAME TO h_elsewhere;
ALTER TABLE h_elsewhere RENAME TO h_town;
UPDATE h SET town = 'Again' WHERE id % 3 = 1;});
complete_ok('h_town', 'renames');
drop_all();

interrupted('h_n');
$node->safe_psql('postgres', 'CREATE ROLE keeper; GRANT ALL ON SCHEMA public TO keeper;'
	  . join('', map { "ALTER TABLE $_ OWNER TO keeper;" } 'h', 'h_0', 'h_2', 'h_3') . 'UPDATE h SET num = num + 1');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname ~ '^h_n' AND relkind IN ('r', 'p') AND relowner <> 'keeper'::regrole"), '0', 'OWNER TO: all of it');
complete_ok('h_n', 'owners of base table and partition differ');
$node->safe_psql('postgres', join('', map { "ALTER TABLE $_ OWNER TO CURRENT_USER;" } 'h', 'h_0', 'h_2', 'h_3') . 'DROP OWNED BY keeper; DROP ROLE keeper');
drop_all();

# An included column goes.
$node->safe_psql('postgres', 'ALTER TABLE p ADD COLUMN extra int; ALTER TABLE p ADD COLUMN last int DEFAULT 5; UPDATE p SET extra = id');
$arguments{p_extra} = "'p', 'town', strategy => 'partial', include => 'extra, last', name => 'p_extra'";
interrupted('p_extra');
$node->safe_psql('postgres', "UPDATE p SET extra = 1, last = 7 WHERE id % 2 = 0; ALTER TABLE p DROP COLUMN extra; UPDATE p SET last = 6 WHERE id % 3 = 0; INSERT INTO p VALUES (-1, 'x', 'y')");
is(call("index_table.rebuild('p_extra')"), '', 'DROP COLUMN: rebuild');
is($node->safe_psql('postgres', "SELECT count(*) FROM ((SELECT town, id, last FROM p EXCEPT ALL SELECT town, id, last FROM p_extra) UNION ALL (SELECT town, id, last FROM p_extra EXCEPT ALL SELECT town, id, last FROM p)) d"),
	'0', 'DROP COLUMN: exact');
drop_all();
$node->safe_psql('postgres', 'ALTER TABLE p DROP COLUMN last');

# Toasted values in the log.
$node->safe_psql('postgres', "INSERT INTO p SELECT -i, string_agg(md5(i::text || j), ''), 'Long' FROM generate_series(10, 20) i, generate_series(1, 300) j GROUP BY i");
interrupted('p_town');
$node->safe_psql('postgres', "UPDATE p SET email = email || 'longer' WHERE id BETWEEN -20 AND -15; UPDATE p SET town = 'Longer' WHERE id = -14; DELETE FROM p WHERE id = -13");
complete_ok('p_town', 'toasted values');
drop_all();

# A publication of all tables refuses deletions from tables without a replica identity.
$node->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES; ALTER TABLE p REPLICA IDENTITY DEFAULT');
is(build_meanwhile('p_town', [ 'true', 'UPDATE p SET town = town || 1' ]) =~ s/LOCATION.*//gmr, '', 'FOR ALL TABLES: built');
exact_ok('p_town', 'FOR ALL TABLES');
$node->safe_psql('postgres', 'DROP PUBLICATION everything');
drop_all();

# Nobody waits for who reads the log.
interrupted('h_town');
my $until = shut_gate($node, 9);
my $reader = start_session($node, 'postgres', "SET application_name = reader; BEGIN; SELECT count(*) * 0 FROM h_town_log; SELECT pg_advisory_xact_lock_shared(9); COMMIT;\n\\q");
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'reader' AND wait_event = 'advisory'") or die 'no reader';
$building = start_session($node, 'postgres', "CALL index_table.rebuild('h_town');\n\\q");
sleep(0.5);
my $state = $node->safe_psql('postgres', "SET lock_timeout = 300; UPDATE h SET town = 'While read' WHERE id = 7; SELECT 'written'");
is($state, 'written', 'the log is being read: writers go on');
is(status('h_town'), 'incomplete', 'the log is being read: not complete');
release_lock($until);
end_session($reader);
end_session($building);
exact_ok('h_town', 'the log was read');
drop_all();

# DROP TABLE of the index table, and of the base table, while it is built.
foreach my $case ([ 'h_town', 'h_town' ], [ 'd', 'd_town' ])
{
	my ($dropped, $name) = @$case;
	$node->safe_psql('postgres', "CREATE TABLE d ($columns) PARTITION BY HASH (id);"
		  . join('', map { "CREATE TABLE d_$_ PARTITION OF d FOR VALUES WITH (MODULUS 4, REMAINDER $_);" } 0 .. 3)) if $dropped eq 'd';
	$arguments{d_town} = "'d', 'town', name => 'd_town'";
	$building = start_session($node, 'postgres', "SET index_table.build_delay = 400;\nCALL index_table.create_concurrently($arguments{$name});\n\\q");
	$node->poll_query_until('postgres', "SELECT $loaded_some") or die 'in vain';
	my $error = sqlstate($node, 'postgres', "DROP TABLE $dropped");
	my $output = end_session($building);
	if ($error)
	{
		like($error, qr/^40P01/, "DROP TABLE $dropped meanwhile: lost to the build");
		$node->safe_psql('postgres', "DROP TABLE $dropped");
	}
	else
	{
		unlike($output, qr/XX000/, "DROP TABLE $dropped meanwhile");
	}
	nothing_left_ok("DROP TABLE $dropped");
}

# --- Unlogged tables ----------------------------------------------------------------------------

$node->safe_psql('postgres', "CREATE UNLOGGED TABLE u ($columns); INSERT INTO u SELECT i, $row FROM generate_series(1, 100) i");
$arguments{u_n} = "'u', 'num', partitions => 2, name => 'u_n'";
interrupted('u_n', '(SELECT count(*) BETWEEN 1 AND 3 FROM index_table.loaded_partition)');
$node->safe_psql('postgres', 'UPDATE u SET num = num + 100');
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', "INSERT INTO u SELECT i, $row FROM generate_series(1, 10) i");
is(call("index_table.rebuild('u_n')"), '', 'unlogged, after a crash: rebuild');
is($node->safe_psql('postgres', 'SELECT count(*) FROM ((SELECT num, id FROM u EXCEPT ALL SELECT num, id FROM u_n) UNION ALL (SELECT num, id FROM u_n EXCEPT ALL SELECT num, id FROM u)) d'),
	'0', 'unlogged, after a crash: exact');
drop_all();

# --- Dump and restore ----------------------------------------------------------------------------

interrupted('r_tag', $loaded_some);
$node->safe_psql('postgres', "UPDATE r SET tags = ARRAY['dumped'] WHERE id % 2 = 0");
$node->command_ok([ 'pg_dump', '-f', "$directory/dump", $node->connstr('postgres') ], 'dump of an incomplete one');
foreach my $what ('rebuild', 'drop', 'no log')
{
	$node->safe_psql('postgres', 'CREATE DATABASE copy');
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/dump", $node->connstr('copy') ], "$what: restore");
	$node->safe_psql('copy', "UPDATE r SET tags = ARRAY['restored', 'x'] WHERE id % 3 = 0; DELETE FROM r WHERE id % 5 = 0");
	if ($what eq 'rebuild')
	{
		is(sqlstate($node, 'copy', "CALL index_table.rebuild('r_tag')"), '', 'rebuild in the copy');
		is($node->safe_psql('copy', "SELECT oracle.problems('r_tag'), (SELECT bool_and(is_complete) FROM index_table.index_tables)"), '0|t', 'rebuild in the copy: exact');
	}
	elsif ($what eq 'no log')
	{
		$node->safe_psql('copy', 'DROP TABLE r_tag_log; UPDATE r SET id = id + 10000 WHERE id = 1');
		like(sqlstate($node, 'copy', "CALL index_table.rebuild('r_tag')"), qr/^55000: the log/, 'rebuild without a log');
	}
	$node->safe_psql('copy', "SELECT index_table.drop('r_tag')");
	is($node->safe_psql('copy', "SELECT count(*) FROM pg_class WHERE relname ~ '^r_tag'"), '0', "$what: dropped in the copy");
	$node->safe_psql('postgres', 'DROP DATABASE copy');
}
complete_ok('r_tag', 'after the dump');
check_storage($node, 'postgres', 'in the end');
drop_all();
nothing_left_ok('in the end');
no_trouble_ok('in the end');

$node->stop;
done_testing();
