# create_concurrently and rebuild over captured foreign partitions, while others write on the coordinator and on the
# shards themselves, and rows go from one shard to another; builds that are killed, fail, meet duplicates, lose a shard,
# are two at once; partitions that come and are truncated meanwhile. ONLINE_SHARDS_SEED and ONLINE_SHARDS_ROUNDS repeat
# and lengthen a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes qw(sleep);
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{ONLINE_SHARDS_SEED} // int(rand(2**31));
my $rounds = how_many('ONLINE_SHARDS_ROUNDS', 4);
srand($seed);
note "ONLINE_SHARDS_SEED=$seed ONLINE_SHARDS_ROUNDS=$rounds";

# --- Servers ----------------------------------------------------------------------------

# Whoever changes rows on two servers may wait for himself.
my $conf = "restart_after_crash = on\nlock_timeout = 2s\ndeadlock_timeout = 200ms\nindex_table.drain_naptime = 0\n";
my @shards = map { new_node("shard$_", conf => $conf) } 1 .. 2;
my $coordinator = new_node('coordinator', conf => "${conf}shared_preload_libraries = 'index_table'\nindex_table.shard_connect_timeout = '5s'\n");
my $columns = 'id int, shard int, email text, town text, tags text[]';
my $rows = 3000;
foreach my $shard (@shards)
{
	$shard->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE TABLE people ($columns, PRIMARY KEY (id)); CREATE TABLE late (LIKE people INCLUDING ALL);");
}
$coordinator->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw; CREATE TABLE people ($columns) PARTITION BY LIST (shard);");
foreach my $i (1 .. 2)
{
	$coordinator->safe_psql('postgres', server_sql("shard$i", $shards[ $i - 1 ]) . qq{
CREATE FOREIGN TABLE people_$i PARTITION OF people FOR VALUES IN ($i) SERVER shard$i OPTIONS (schema_name 'public', table_name 'people');});
}
$coordinator->safe_psql('postgres', qq{
CREATE TABLE people_0 PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN (0);
INSERT INTO people SELECT i, i % 3, gen_random_uuid(), 'Town ' || i % 40, ARRAY['t' || i % 7, 't' || i % 3] FROM generate_series(1, $rows) AS i;});

my %arguments;
my @tables;

sub index_table
{
	my ($name, $arguments, %description) = @_;
	$arguments{$name} = "'people', $arguments, name => '$name', identity => 'id, shard'";
	push @tables, describe(name => $name, base => 'people', identity => 2, %description);
	return;
}

index_table('by_email', "'email', is_unique => true", key => ['b.email'], copies => [ 'id', 'shard' ], is_unique => 1);
index_table('by_town', "'town', strategy => 'partial', include => 'email', partitions => 3", key => ['b.town'], copies => [ 'id', 'shard', 'email' ]);
index_table('by_tag', "'unnest(tags)', predicate => 'id % 5 > 0'", key => ['m.v'],
	elements => 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)', predicate => 'b.id % 5 > 0', copies => [ 'id', 'shard' ]);
my @names = map { $_->{name} } @tables;
$coordinator->safe_psql('postgres', oracle_sql(@tables));

# --- Without capture ----------------------------------------------------------------------

my (undef, undef, $refusal) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\nCALL index_table.create_concurrently($arguments{by_town})");
like($refusal, qr/ERROR:\s+0A000: cannot create an index table over "people" concurrently/, 'not captured: refused');
like($refusal, qr/HINT: .*index_table\.capture\('public\.people'\)/, 'not captured: hint');
$_->safe_psql('postgres', "SELECT index_table.capture('people'); SELECT index_table.capture('late');") foreach @shards;

# --- Writers ------------------------------------------------------------------------------

# Those on shards leave odd ids alone: what index tables have of those, they have by the coordinator.
$coordinator->safe_psql('postgres', qq{
CREATE TABLE trouble (what text);
CREATE FUNCTION act(OUT done text) LANGUAGE plpgsql AS \$\$
DECLARE
	kind int := floor(random() * 6);
	i int := 1 + random() * $rows;
	s int := floor(random() * 3);
BEGIN
	CASE kind
		WHEN 0 THEN INSERT INTO people SELECT i, s, gen_random_uuid(), 'New', '{t1,n}' WHERE NOT EXISTS (SELECT FROM people WHERE id = i);
		WHEN 1 THEN UPDATE people SET email = gen_random_uuid(), town = town || 'x' WHERE id = i;
		WHEN 2 THEN DELETE FROM people WHERE id = i;
		WHEN 3 THEN UPDATE people SET tags = tags || 'u'::text, town = 'Town ' || i % 9 WHERE id BETWEEN i AND i + 3;
		ELSE -- a unique key goes to another partition
			WITH gone AS (DELETE FROM people WHERE id = i AND shard <> s RETURNING *) INSERT INTO people SELECT id, s, email, town, tags FROM gone;
	END CASE;
EXCEPTION WHEN OTHERS THEN
	IF sqlstate NOT IN ('23505', '40P01', '40001', '55P03', '57014') OR sqlerrm ~ 'by_email' THEN
		INSERT INTO trouble VALUES (format('%s: %s %s', kind, sqlstate, sqlerrm));
	END IF;
END \$\$;});
foreach my $i (1 .. 2)
{
	$shards[ $i - 1 ]->safe_psql('postgres', qq{
CREATE FUNCTION act(OUT done text) LANGUAGE plpgsql AS \$\$
DECLARE
	kind int := floor(random() * 4);
	j int := 2 * (1 + (random() * $rows / 2)::int);
BEGIN
	CASE kind
		WHEN 0 THEN INSERT INTO people VALUES (j + 100000, $i, gen_random_uuid(), 'Direct', '{d}') ON CONFLICT DO NOTHING;
		WHEN 1 THEN UPDATE people SET email = gen_random_uuid(), town = town || 'd' WHERE id = j;
		WHEN 2 THEN DELETE FROM people WHERE id IN (j, j + 100000);
		ELSE UPDATE people SET tags = tags || 'd'::text WHERE id BETWEEN j AND j + 10 AND id % 2 = 0;
	END CASE;
EXCEPTION WHEN unique_violation OR deadlock_detected OR lock_not_available THEN NULL;
END \$\$;});
}

my $directory = PostgreSQL::Test::Utils::tempdir();
append_to_file("$directory/act", "SELECT act();\n\\sleep 2 ms\n");
my @load;

sub start_load
{
	foreach my $side ([ $coordinator, 3 ], map { [ $_, 1 ] } @shards)
	{
		my ($node, $clients) = @$side;
		push @load, IPC::Run::start([ 'pgbench', '-n', '-c', $clients, '-T', 900, '--random-seed=' . int(rand(1e9)), '-f', "$directory/act", $node->connstr('postgres') . ' application_name=load' ],
			'<', \'', '>&', "$directory/pgbench.log");
	}
	$_->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'load'}) or die 'no load' foreach $coordinator, @shards;
	return;
}

sub stop_load
{
	$_->kill_kill(grace => 2) foreach @load;
	@load = ();
	# What a killed client has begun goes on.
	foreach my $node ($coordinator, @shards)
	{
		$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'load'});
	}
	$_->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'postgres_fdw'}) or die 'a shard is busy' foreach @shards;
	remove_halves();
	return;
}

# Who dies between the commits of two servers has brought a row to one and left it on the other (postgres_fdw commits
# one by one): then its email is there twice, and no unique index table can be made.
sub remove_halves
{
	my $removed = $coordinator->safe_psql('postgres', q{
SET index_table.enable_scan = off;
SET lock_timeout = 0;
DELETE FROM people AS p USING people AS q WHERE p.email = q.email AND p.id = q.id AND p.shard > q.shard RETURNING p.id, q.shard, p.shard});
	note "both here and there (id, from, to): $removed" if $removed ne '';
	return;
}

# --- Checks -------------------------------------------------------------------------------

sub status
{
	my ($name) = @_;
	my $complete = $coordinator->safe_psql('postgres', "SELECT is_complete FROM index_table.index_tables WHERE index_table = to_regclass('$name')");
	return $complete eq '' ? 'none' : $complete eq 't' ? 'complete' : 'incomplete';
}

sub call
{
	my ($sql, $delay) = @_;
	return sqlstate($coordinator, 'postgres', 'SET index_table.build_delay = ' . ($delay // 5) . ";\nCALL $sql;");
}

sub build
{
	my ($name, $delay) = @_;
	return call("index_table.create_concurrently($arguments{$name})", $delay);
}

# Rows that this server alone has written, before anything is drained; a commit that was interrupted counts as the shard's.
sub own_rows_ok
{
	my ($name, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($key, $of) = $name eq 'by_email' ? ('email', 'email') : $name eq 'by_town' ? ('town, email', 'town, email') : ('unnest', 'unnest(tags)');
	my $from = $name eq 'by_tag' ? "(SELECT DISTINCT id, shard, unnest(tags) AS unnest FROM people WHERE id % 5 > 0)" : 'people';
	my $base = "SELECT id, shard, $key FROM $from AS b WHERE id % 2 = 1";
	my $stored = "SELECT id, shard, $key FROM $name WHERE id % 2 = 1";
	return is($coordinator->safe_psql('postgres', "SET index_table.enable_scan = off; ($base EXCEPT ALL $stored) UNION ALL ($stored EXCEPT ALL $base) LIMIT 5"), '', "$label: rows of this server");
}

sub exact_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	# A worker that drains is waited for.
	my (undef, undef, $stderr) = $coordinator->psql('postgres', 'SET lock_timeout = 0; CALL index_table.drain()');
	is($stderr, '', "$label: drained");
	is($coordinator->safe_psql('postgres', 'SELECT leaf, identity, error FROM index_table.undrained'), '', "$label: nothing refused");
	is($coordinator->safe_psql('postgres', 'SELECT sum(pending) FROM index_table.queue'), '0', "$label: nothing queued");
	return oracle_ok($coordinator, 'postgres', "$label: exact", 0);
}

sub drop_all
{
	$coordinator->safe_psql('postgres', 'SELECT index_table.drop(index_table) FROM index_table.definition');
	is($coordinator->safe_psql('postgres', q{SELECT relname FROM pg_class WHERE relname ~ '^by_' UNION ALL SELECT partition_id::text FROM index_table.loaded_partition}), '', 'nothing left');
	return;
}

# --- Builds under load ------------------------------------------------------------------------

# Without drain workers and with them: then others drain what the build has not read yet.
foreach my $naptime (0, 1)
{
	my $with = $naptime ? 'with workers' : 'without workers';
	$coordinator->safe_psql('postgres', "ALTER SYSTEM SET index_table.drain_naptime = $naptime");
	$coordinator->restart;
	foreach my $name (@names)
	{
		start_load();
		is(build($name), '', "$name $with: built");
		is(status($name), 'complete', "$name $with: complete");
		stop_load();
		own_rows_ok($name, "$name $with") unless $naptime; # others that drain change what is looked at
		exact_ok("$name $with");
	}
	start_load();
	is(call("index_table.rebuild('by_town')"), '', "rebuilt $with");
	is(call("index_table.rebuild('by_tag')"), '', "rebuilt once more $with");
	stop_load();
	exact_ok("rebuilt $with");
	drop_all();
}
$coordinator->safe_psql('postgres', 'ALTER SYSTEM RESET index_table.drain_naptime');
$coordinator->restart;
is($coordinator->safe_psql('postgres', 'SELECT DISTINCT what FROM trouble'), '', 'nothing unexpected');

# --- Killed -------------------------------------------------------------------------------------

my %outcomes;
foreach my $round (1 .. $rounds)
{
	my $name = $names[ int(rand(@names)) ];
	my $what = ('backend', 'coordinator', 'shard')[ int(rand(3)) ];
	my $label = "round $round: $what dies under $name";
	note $label;
	start_load();
	my $delay = int(rand(30));
	my $session = start_session($coordinator, 'postgres', "SET application_name = builder; SET index_table.build_delay = $delay;\nCALL index_table.create_concurrently($arguments{$name});\n\\q");
	sleep(rand(0.8));
	if ($what eq 'backend')
	{
		my $log = -s $coordinator->logfile;
		my $pid = $coordinator->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'builder'});
		await_reinitialization($coordinator, $log) if $pid =~ /^\d+$/ && kill 'KILL', $pid;
	}
	else
	{
		my $node = $what eq 'shard' ? $shards[ int(rand(2)) ] : $coordinator;
		$node->stop('immediate');
		$node->start;
	}
	eval { end_session($session) };
	unlike($session->{output}, qr/XX000|23505/, "$label: no unexpected error") or diag $session->{output};
	wait_until_up($coordinator, @shards);
	stop_load();
	my $status = status($name);
	$outcomes{"$what: $status"}++;
	start_load();
	is($status eq 'none' ? build($name) : $status eq 'incomplete' ? call("index_table.rebuild('$name')") : '', '', "$label: $status, brought to the end");
	is(status($name), 'complete', "$label: complete");
	stop_load();
	exact_ok($label);
	drop_all();
}
note join(', ', map { "$_ $outcomes{$_}" } sort keys %outcomes);
is($coordinator->safe_psql('postgres', q{SELECT DISTINCT what FROM trouble WHERE what !~ '(08006|57P01|57P02|57P03|08001)'}), '', 'nothing unexpected in the end');

# --- While a build waits ------------------------------------------------------------------------

# Starts a build, has it wait for a partition before it can end, does something, and lets it go on. Returns what it printed.
sub while_building
{
	my ($name, $action) = @_;
	my $session = start_session($coordinator, 'postgres', "SET lock_timeout = 0; SET index_table.build_delay = 300;\nCALL index_table.create_concurrently($arguments{$name});\n\\q");
	$coordinator->poll_query_until('postgres', 'SELECT count(*) > 0 FROM index_table.loaded_partition') or die 'nothing is loaded';
	my $lock = hold_lock($coordinator, 'BEGIN; LOCK TABLE people_0 IN ROW EXCLUSIVE MODE;',
		q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'people_0'::regclass AND mode = 'RowExclusiveLock' AND granted});
	$action->();
	release_lock($lock);
	return end_session($session);
}

# Changes there, TRUNCATE here and there, a partition that comes.
my $printed = while_building('by_email', sub {
	$shards[0]->safe_psql('postgres', q{DELETE FROM people WHERE id % 10 = 0; UPDATE people SET email = email || '!', town = 'While' WHERE id % 10 = 1});
	$shards[1]->safe_psql('postgres', q{TRUNCATE people; INSERT INTO people VALUES (1, 2, 'after truncate', 'T', '{t}')});
});
is($printed, '', 'truncated on a shard: built');
exact_ok('truncated on a shard');
$printed = while_building('by_town', sub {
	$coordinator->safe_psql('postgres', q{TRUNCATE people_2; INSERT INTO people SELECT i, 2, 'again ' || i, 'T', '{t}' FROM generate_series(1, 100) AS i});
	$shards[0]->safe_psql('postgres', q{INSERT INTO late SELECT i, 3, 'late ' || i, 'Late', '{l}' FROM generate_series(1, 50) AS i});
	$shards[1]->safe_psql('postgres', q{CREATE TABLE loose (LIKE people INCLUDING ALL)});
	$coordinator->safe_psql('postgres', qq{
CREATE FOREIGN TABLE late ($columns) SERVER shard1 OPTIONS (schema_name 'public', table_name 'late');
CREATE FOREIGN TABLE loose ($columns) SERVER shard2 OPTIONS (schema_name 'public', table_name 'loose');});
	like(sqlstate($coordinator, 'postgres', 'ALTER TABLE people ATTACH PARTITION loose FOR VALUES IN (4)'),
		qr/^55000: foreign table "loose" cannot become a partition of "people"/, 'one that is not captured does not come');
	is(sqlstate($coordinator, 'postgres', 'ALTER TABLE people ATTACH PARTITION late FOR VALUES IN (3)'), '', 'one that is captured comes');
	$shards[0]->safe_psql('postgres', q{UPDATE late SET town = 'Later' WHERE id % 2 = 0});
});
is($printed, '', 'truncated here, attached: built');
is($coordinator->safe_psql('postgres', q{SELECT count(*) FROM by_town WHERE town LIKE 'Late%'}), '50', 'what was attached is there');
exact_ok('truncated here, attached');
drop_all();

# Two at once.
my @building = map { start_session($coordinator, 'postgres', "SET index_table.build_delay = 20;\nCALL index_table.create_concurrently($arguments{$_});\n\\q") } 'by_email', 'by_town';
start_load();
is(end_session($_), '', 'two at once: built') foreach @building;
stop_load();
exact_ok('two at once');
drop_all();

# A key that is there twice: at the load, and by a change meanwhile.
my $add = sub { $shards[ $_[0] ]->safe_psql('postgres', "INSERT INTO people VALUES ($_[1], $_[0] + 1, 'twice', 'Twice', '{}')") };
$add->(0, 900001);
$add->(1, 900002);
like(build('by_email'), qr/^23505: /, 'a key is there twice');
is(status('by_email'), 'incomplete', 'a key is there twice: incomplete');
like(call("index_table.rebuild('by_email')"), qr/^23505: /, 'and still is');
$shards[0]->safe_psql('postgres', 'DELETE FROM people WHERE id = 900001');
is(call("index_table.rebuild('by_email')"), '', 'it is there once');
exact_ok('it is there once');
drop_all();
like(while_building('by_email', sub { $add->(0, 900001) }), qr/ERROR:  23505: /, 'a key comes to be there twice');
is(status('by_email'), 'incomplete', 'a key comes to be there twice: incomplete');
$shards[0]->safe_psql('postgres', q{UPDATE people SET email = 'once' WHERE id = 900001});
is(call("index_table.rebuild('by_email')"), '', 'they differ again');
exact_ok('they differ again');
drop_all();

# A shard is gone when it is to be drained.
like(while_building('by_town', sub { $shards[1]->stop('fast') }), qr/ERROR:  (08001|08006|55000): /, 'a shard is gone');
is(status('by_town'), 'incomplete', 'a shard is gone: incomplete');
$coordinator->safe_psql('postgres', q{UPDATE people SET town = 'Meanwhile' WHERE shard < 2});
like(call("index_table.rebuild('by_town')"), qr/^08(001|006): /, 'it still is');
$shards[1]->start;
is(call("index_table.rebuild('by_town')"), '', 'it is back');
exact_ok('it is back');

check_storage($coordinator, 'postgres');
$_->stop foreach $coordinator, @shards;
done_testing();
