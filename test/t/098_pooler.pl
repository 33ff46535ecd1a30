# A shard behind a pooler that divides transactions: pgbouncer, in both of its ways with prepared statements where it
# has two; and poolers that pretend to be the server. Other tenants of its connections leave settings, roles and
# statements there, under the names that they find. Every answer is right, changes are drained, intents are swept, and
# nothing is left behind. POOLER_SEED and POOLER_STEPS repeat and lengthen a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';
plan skip_all => 'pgbouncer is not installed' unless $pgbouncer;
plan skip_all => 'pgbouncer does not run as root' unless $>;
my ($major, $minor) = `$pgbouncer --version` =~ /PgBouncer (\d+)\.(\d+)/ or die 'which pgbouncer is this?';
my @ways = $major > 1 || $minor >= 21 ? ('max_prepared_statements = 0', 'max_prepared_statements = 50') : ('');

my $seed = $ENV{POOLER_SEED} // int(rand(2**31));
my $steps = how_many('POOLER_STEPS', 150);
srand($seed);
note "POOLER_SEED=$seed POOLER_STEPS=$steps pgbouncer $major.$minor";

# --- Servers --------------------------------------------------------------------------

my $shard = new_node('shard', conf => "log_statement = all\nrestart_after_crash = on\n");
my $coordinator = new_node('coordinator', conf => "session_preload_libraries = index_table\nrestart_after_crash = on\nindex_table.drain_naptime = 0\n");
plan skip_all => 'postgres_fdw is not installed' unless has_extension($coordinator, 'postgres_fdw');
my $directory = PostgreSQL::Test::Utils::tempdir_short();
my $pool_port = $coordinator->port + 1;
my $running;

sub start_pooler
{
	my ($way) = @_;
	my ($host, $port) = ($shard->host, $shard->port);
	PostgreSQL::Test::Utils::append_to_file("$directory/users", qq{"app" ""\n}) unless -e "$directory/users";
	unlink "$directory/pgbouncer.ini";
	PostgreSQL::Test::Utils::append_to_file("$directory/pgbouncer.ini", qq{
[databases]
two = host=$host port=$port dbname=postgres pool_size=2
one = host=$host port=$port dbname=postgres pool_size=1
session = host=$host port=$port dbname=postgres pool_size=9 pool_mode=session
[pgbouncer]
listen_addr =
listen_port = $pool_port
unix_socket_dir = $directory
auth_type = trust
auth_file = $directory/users
pool_mode = transaction
query_wait_timeout = 60
$way
});
	$running = IPC::Run::start([ $pgbouncer, '-q', "$directory/pgbouncer.ini" ], '<', \'', '>&', "$directory/log");
	foreach (1 .. 100) { last if -e "$directory/.s.PGSQL.$pool_port"; sleep 0.1 }
	return;
}

sub stop_running
{
	return unless $running;
	$running->signal('TERM');
	eval { $running->finish };
	undef $running;
	return;
}

END { my $status = $?; stop_running(); $? = $status }

# --- Tables ---------------------------------------------------------------------------

# "pooled" has index tables over the shard behind the pooler; the same tables in "direct" are for comparison.
my %columns = (
	ta => 'id int, k text, v text',
	tb => 'id int, k text, v text',
	tc => 'id bigint, k text, at timestamptz, d date, took interval, f float8, b bytea, tags text[], cash money',
	tr => 'id int, k text, v text',
	tw => 'id int, k text, v text');

sub tables_sql
{
	my ($schema, $server, $part_of) = @_;
	my $sql = "CREATE SCHEMA $schema;";
	foreach my $table (sort keys %columns)
	{
		$sql .= "CREATE TABLE $schema.$table ($columns{$table}) PARTITION BY HASH (id);";
		$sql .= "CREATE FOREIGN TABLE $schema.${table}_$_ PARTITION OF $schema.$table FOR VALUES WITH (MODULUS 2, REMAINDER $_) SERVER $server OPTIONS (schema_name 'public', table_name '${table}_$_');"
		  foreach 0 .. 1;
	}
	return $sql;
}

my ($shard_host, $shard_port) = ($shard->host, $shard->port);
$shard->safe_psql('postgres', 'CREATE EXTENSION index_table; CREATE ROLE app LOGIN; CREATE ROLE nobody; GRANT nobody TO app; CREATE SCHEMA evil AUTHORIZATION app; GRANT ALL ON SCHEMA public TO app');
my $of_shard = "SET SESSION AUTHORIZATION app;";
foreach my $table (sort keys %columns)
{
	$of_shard .= "CREATE TABLE ${table}_$_ ($columns{$table}, PRIMARY KEY (id)); CREATE INDEX ON ${table}_$_ (k);" foreach 0 .. 1;
}
# Rows that one sees are up to a setting: those of others are not there.
$of_shard .= "ALTER TABLE tr_$_ ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON tr_$_ USING (coalesce(current_setting('app.tenant', true), '') IN ('', 'all'));" foreach 0 .. 1;
# Whoever reads these rows is noted.
$of_shard .= q{CREATE TABLE seen (id int);
CREATE FUNCTION see(id int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (id); RETURN true; END';};
$of_shard .= "ALTER TABLE tw_$_ ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON tw_$_ USING (see(id));" foreach 0 .. 1;
$of_shard .= "CREATE INDEX ON tc_$_ USING gin (tags);" foreach 0 .. 1;
$of_shard .= gate_sql('tb_0');
# What a search_path could lead to.
$of_shard .= q{
CREATE FUNCTION evil.never(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION evil.never(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION evil.never(bigint, bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.= (FUNCTION = evil.never, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR evil.= (FUNCTION = evil.never, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR evil.= (FUNCTION = evil.never, LEFTARG = bigint, RIGHTARG = bigint);
CREATE FUNCTION evil.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 1';
};
$shard->safe_psql('postgres', $of_shard);
$shard->safe_psql('postgres', "SET SESSION AUTHORIZATION app; SELECT index_table.capture('ta_0'); SELECT index_table.capture('ta_1')");

start_pooler($ways[0]);
$coordinator->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;
	CREATE SERVER direct FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$shard_host', port '$shard_port', dbname 'postgres');
	CREATE SERVER pooled FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$directory', port '$pool_port', dbname 'two');
	CREATE USER MAPPING FOR CURRENT_USER SERVER direct OPTIONS (user 'app');
	CREATE USER MAPPING FOR CURRENT_USER SERVER pooled OPTIONS (user 'app');" . tables_sql('direct', 'direct') . tables_sql('pooled', 'pooled'));
$coordinator->safe_psql('postgres', q{
	INSERT INTO direct.ta SELECT i, 'k' || i % 60, 'ta ' || i FROM generate_series(1, 120) AS i;
	INSERT INTO direct.tb SELECT i, 'k' || i % 60, 'tb ' || i FROM generate_series(1, 120) AS i;
	INSERT INTO direct.tr SELECT i, 'k' || i % 60, 'tr ' || i FROM generate_series(1, 120) AS i;
	INSERT INTO direct.tc SELECT i, 'k' || i % 60, timestamptz '2026-03-01 12:00:00.123456+00' + i * interval '1 day', date '2026-01-02' + i,
		CASE i % 3 WHEN 0 THEN interval '-1 day 02:00' WHEN 1 THEN interval '1 mon -3 days' ELSE interval '1.5 s' * i END,
		i / 3.0::float8, decode(lpad(to_hex(i * 1001), 6, '0'), 'hex'), ARRAY[NULL, 'x', 't' || i % 4], i * 1.25 FROM generate_series(1, 120) AS i;
	SELECT index_table.create('pooled.ta', 'k', identity => 'id');
	SELECT index_table.create('pooled.tb', 'k', identity => 'id');
	SELECT index_table.create('pooled.tc', 'k', identity => 'id');
	INSERT INTO direct.tw SELECT i, 'k' || i % 60, 'tw ' || i FROM generate_series(1, 120) AS i;
	SELECT index_table.create('pooled.tr', 'k', identity => 'id');
	SELECT index_table.create('pooled.tw', 'k', identity => 'id');});
$coordinator->safe_psql('postgres', oracle_sql(map { describe(name => "pooled.${_}_by_k", base => "pooled.$_", key => ['b.k'], copies => ['id'], identity => 1) } sort keys %columns));

# --- Asking ---------------------------------------------------------------------------

# A session that is asked and answers.
sub open_session
{
	my ($connection) = @_;
	my $session = { input => '', output => '', count => 0 };
	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $connection ], '<', \$session->{input}, '>&', \$session->{output}, IPC::Run::timeout(300));
	return $session;
}

sub ask
{
	my ($session, $sql) = @_;
	my $mark = '@ ' . ++$session->{count};
	$session->{input} .= "$sql;\n\\echo $mark\n";
	$session->{run}->pump until $session->{output} =~ s/^(.*?)^\Q$mark\E\n//ms;
	return $1;
}

sub close_session
{
	my ($session) = @_;
	$session->{input} .= "\\q\n";
	eval { $session->{run}->finish };
	return;
}

sub pooler_connection { my ($db) = @_; return "host=$directory port=$pool_port dbname=$db user=app" }

# What another tenant does, each statement a transaction of its own.
sub tenant
{
	my ($db, @sql) = @_;
	IPC::Run::run([ 'psql', '-XAtq', '-d', pooler_connection($db), map { ('-c', $_) } @sql ], '<', \'', '>', \my $output, '2>', \my $errors);
	note $errors if $errors;
	return $output;
}

sub open_reader
{
	my $session = open_session($coordinator->connstr('postgres'));
	ask($session, 'SET index_table.enable_scan = force; SET search_path = pooled');
	return $session;
}

sub pick { return $_[ int(rand(@_)) ] }

sub random_query
{
	my $n = int(rand(60));
	my $i = pick($n, $n + 60);
	my $row = "(SELECT c FROM direct.tc c WHERE id = $i)";
	return pick(
		"SELECT v FROM ta WHERE k = 'k$n'",
		"SELECT v FROM tb WHERE k = 'k$n'",
		"SELECT v FROM tr WHERE k = 'k$n'",
		"SELECT id, v FROM ta WHERE k IN ('k$n', 'k3') AND v <> 'ta $i'",
		"SELECT id, v FROM tb WHERE k IN ('k$n', 'k3') AND v <> 'tb $i'",
		"SELECT ta.v, tb.v FROM ta JOIN tb USING (k) WHERE ta.k = 'k$n'",
		"SELECT * FROM tc WHERE k = 'k$n'",
		"SELECT id, at, took, f FROM tc WHERE k > 'k$n' ORDER BY k, id LIMIT 7",
		"SELECT id FROM tc WHERE k = 'k$n' AND took IN ('-1 day 02:00', '1 mon -3 days')",
		"SELECT id FROM tc WHERE k = 'k$n' AND tags @> ARRAY['x'] AND tags <> '{NULL}'",
		"SELECT id FROM tc WHERE k = 'k$n' AND tags = ARRAY[NULL, 'x', 't' || $n % 4]",
		"SELECT id, b FROM tc WHERE k = 'k$n' AND f IN (1.0 / 3, 2.0 / 3, 59 / 3.0::float8) AND d >= '2026-01-03'",
		"SELECT id, cash FROM tc WHERE k = 'k$n' AND at > '2026-03-05 12:00+00' AND b IS NOT NULL");
}

# The same rows, whatever their order, as without pooler and index table.
sub compare
{
	my ($session, $query) = @_;
	my $sorted = sub { join "\n", sort split /\n/, $_[0] };
	my $found = $sorted->(ask($session, $query));
	my $right = $sorted->($coordinator->safe_psql('postgres', "SET search_path = direct; $query"));
	return $found eq $right ? '' : "$query: found\n$found\nnot\n$right";
}

sub all_right
{
	my ($label, $session, @queries) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @wrong = grep { $_ ne '' } map { compare($session, $_) } @queries;
	return is(join("\n", @wrong), '', $label);
}

# Names that were executed on the shard since `offset` of its log.
sub executed { my ($offset) = @_; return slurp_file($shard->logfile, $offset) =~ /execute (index_table\w*)/g }

my $log = -s $shard->logfile;

# --- Sessions that take turns -----------------------------------------------------------

# Whoever sees a statement on a server connection can put another in its place.
my $plant = q{DO $$DECLARE n text; BEGIN
	FOR n IN SELECT name FROM pg_prepared_statements WHERE name LIKE 'index_table%' UNION SELECT 'index_table_' || i FROM generate_series(1, 8) i LOOP
		BEGIN EXECUTE format('DEALLOCATE %I', n); EXCEPTION WHEN invalid_sql_statement_name THEN NULL; END;
		EXECUTE format($p$PREPARE %I AS SELECT 0, 'planted', 'planted'$p$, n);
	END LOOP; END$$};

foreach my $way (@ways)
{
	stop_running();
	start_pooler($way);
	my @readers = map { open_reader() } 1 .. 3;
	like(ask($readers[0], "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT v FROM ta WHERE k = 'k1'"), qr/Shards: pipelined/, "queries are pipelined: $way");
	# Each session has a server connection of its own, and then that of the other.
	my $holder = open_session(pooler_connection('two'));
	my @wrong;
	foreach my $hold (0 .. 3)
	{
		ask($holder, 'BEGIN; SELECT 1') if $hold % 2;
		push @wrong, compare($readers[$_ % 2], sprintf "SELECT v FROM %s WHERE k = 'k%d'", $_ % 2 ? 'ta' : 'tb', $_) foreach 1 .. 12;
		ask($holder, 'ROLLBACK') if $hold % 2;
	}
	my $held = 0;
	foreach my $step (1 .. $steps)
	{
		push @wrong, compare(pick(@readers), random_query());
		my $event = rand();
		if ($event < 0.2) { ask($holder, $held ? 'ROLLBACK' : 'BEGIN; SELECT 1'); $held = !$held }
		elsif ($event < 0.24) { tenant('two', $plant) }
		elsif ($event < 0.27) { tenant('two', pick('DEALLOCATE ALL', 'DISCARD ALL', 'DISCARD PLANS', 'RESET ALL')) }
		elsif ($event < 0.29) { my $i = int(rand(@readers)); close_session($readers[$i]); $readers[$i] = open_reader() }
	}
	is(join("\n", grep { $_ ne '' } @wrong), '', "every answer is right: $way");
	ask($holder, 'ROLLBACK') if $held;
	close_session($_) foreach @readers, $holder;
}
is(join(' ', executed($log)), '', 'no statement has a name behind a pooler');

# postgres_fdw's own DEALLOCATE finds nothing where a pooler gives statements names of its own.
stop_running();
start_pooler($ways[0]);

# --- What others leave behind -------------------------------------------------------------

# One server connection for all.
$coordinator->safe_psql('postgres', "ALTER SERVER pooled OPTIONS (SET dbname 'one')");
my $reader = open_reader();
my @every = (map { "SELECT * FROM $_ WHERE k IN ('k1', 'k7', 'k59')" } grep { $_ ne 'tw' } sort keys %columns);
push @every, "SELECT id, v FROM ta WHERE k = 'k7' AND v = 'ta 7'", map { random_query() } 1 .. 12;
all_right('before anything is left behind', $reader, @every, @every);
$shard->safe_psql('postgres', 'TRUNCATE seen');
is(ask($reader, "SELECT v FROM tw WHERE k = 'k7' ORDER BY id"), "tw 7\ntw 67\n", 'rows whose policy writes');
isnt($shard->safe_psql('postgres', 'SELECT count(*) FROM seen'), '0', 'and has written');
my $before = tenant('one', 'SELECT name, setting FROM pg_settings WHERE source = $$session$$ ORDER BY name');
all_right('again', $reader, @every);
is(tenant('one', 'SELECT name, setting FROM pg_settings WHERE source = $$session$$ ORDER BY name'), $before, 'nothing of ours is left behind');
my @left = (
	"SET datestyle = 'German'", "SET datestyle = 'SQL, DMY'", "SET intervalstyle = sql_standard", "SET extra_float_digits = -15", "SET timezone = 'Asia/Kolkata'",
	"SET bytea_output = escape", "SET search_path = evil, pg_catalog", "SET array_nulls = off", "SET gin_fuzzy_search_limit = 1", "SET role = nobody",
	"SET row_security = off", "SET app.tenant = 'other'", "SET lc_monetary = 'C'", "SET default_transaction_isolation = serializable",
	"SET default_transaction_read_only = on", "SET client_encoding = 'LATIN1'", "SET standard_conforming_strings = off", "SET transform_null_equals = on",
	"SET enable_indexscan = off", "CREATE DOMAIN pg_temp.text AS varchar(1)", "CREATE TEMP TABLE ta_0 (LIKE public.ta_0)", $plant,
	"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE");
foreach my $left (@left)
{
	my $name = $left eq $plant ? 'statements' : $left;
	tenant('one', $left);
	all_right("left behind: $name", $reader, @every);
	is(ask($reader, "SELECT count(*) FROM index_table.fetch(NULL::ta, 'ta_by_k', 'k7')"), "2\n", "fetch: $name") if $left =~ /role|search_path|text/;
	tenant('one', 'DISCARD ALL') if rand() < 0.7;
}
tenant('one', 'DISCARD ALL');
tenant('one', @left);
all_right('left behind: all of it', $reader, @every);

# --- Draining -----------------------------------------------------------------------------

sub left_in_queues { return $shard->safe_psql('postgres', 'SELECT (SELECT count(*) FROM ta_0_outbox) + (SELECT count(*) FROM ta_1_outbox)') }

# All of the above is still there, and others use the server connections in between.
$coordinator->safe_psql('postgres', "ALTER SERVER pooled OPTIONS (SET dbname 'two')");
tenant('two', @left) foreach 1 .. 2;
$shard->safe_psql('postgres', "UPDATE ta_0 SET k = k || ' new'; DELETE FROM ta_1 WHERE id % 3 = 0; INSERT INTO ta_0 SELECT id + 1000, 'k' || id, 'new' FROM ta_0;"
	  . join(';', map { "UPDATE ta_1 SET v = 'changed $_', k = k || '+' WHERE id % 7 = " . $_ % 7 } 1 .. 30));
my $numbers = left_in_queues();
cmp_ok($numbers, '>=', 33, 'changes are queued');
my @busy = map { open_session(pooler_connection('two')) } 1 .. 2;
foreach my $session (@busy)
{
	$session->{input} .= "SELECT pg_sleep(0.003) \\watch 0.001\n";
	$session->{run}->pump while length $session->{input};
}
$log = -s $shard->logfile;
my (undef, undef, $errors) = $coordinator->psql('postgres', "SET index_table.drain_batch = 1; CALL index_table.drain('pooled.ta_by_k')");
is($errors, '', 'drained through the pooler');
is(left_in_queues(), '0', 'every change was discarded, in whatever session');
my $reads = () = slurp_file($shard->logfile, $log) =~ /execute.* FROM index_table\.pending\(/g;
cmp_ok($reads, '<=', $numbers + 3, 'none was read again');
$_->{run}->kill_kill foreach @busy;
$coordinator->safe_psql('postgres', "ALTER SERVER pooled OPTIONS (SET dbname 'one')");
all_right('after draining', $reader, map { "SELECT * FROM ta WHERE k LIKE 'k%" . $_ . "%'" } 1 .. 9);
is($coordinator->safe_psql('postgres', "SELECT DISTINCT pending || ' ' || coalesce(error, '') FROM index_table.queue WHERE partition::text LIKE 'pooled.ta%'"), '0 ', 'the queue says so');

# Numbers that were read before a crash are not discarded after it: they may stand for other changes.
my $life = 'SELECT pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time()';
my $first = $shard->safe_psql('postgres', $life);
is($shard->safe_psql('postgres', $life), $first, 'a life of a server');
my $victim = start_session($shard, 'postgres', "SELECT pg_sleep(100) /* victim */;");
$shard->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%/* victim */%' AND pid <> pg_backend_pid()");
kill_backend($shard, "query LIKE '%/* victim */%'");
wait_until_up($shard);
isnt($shard->safe_psql('postgres', $life), $first, 'ends when it crashes');
tenant('one', 'SELECT 1') foreach 1 .. 2;
all_right('after the crash of a shard', $reader, @every);

# --- Giving up ----------------------------------------------------------------------------

my $lock = lock_table($shard, 'tb_1');
$lock->{input} .= "LOCK TABLE tb_1 IN ACCESS EXCLUSIVE MODE;\n";
$lock->{run}->pump while length $lock->{input};
$shard->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'tb_1'::regclass AND mode = 'AccessExclusiveLock' AND granted");
like(ask($reader, "SET index_table.shard_timeout = '1s'; SELECT count(v) FROM tb WHERE k > ''"), qr/lost the connection to server "pooled"/, 'a shard that does not answer');
ok($shard->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'app' AND wait_event_type = 'Lock'"), 'gives the statement up behind a pooler, too');
release_lock($lock);
ask($reader, 'RESET index_table.shard_timeout');
all_right('and answers again', $reader, @every);

# --- Intents ------------------------------------------------------------------------------

tenant('one', 'DISCARD ALL');
$coordinator->safe_psql('postgres', "ALTER SERVER pooled OPTIONS (SET dbname 'two')");
my $gate = shut_gate($shard);
my $writer = start_command($coordinator, "SET search_path = pooled; UPDATE tb SET k = 'crashed' WHERE v LIKE 'tb 1%'; /* writer */");
$shard->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'advisory' AND usename = 'app'");
kill_backend($coordinator, "query LIKE '%/* writer */%'");
release_lock($gate);
end_command($writer);
wait_until_up($coordinator);
$shard->poll_query_until('postgres', "SELECT count(*) > 0 FROM tb_0 WHERE k = 'crashed'");
isnt($coordinator->safe_psql('postgres', 'SELECT count(*) FROM index_table.intent'), '0', 'a transaction has left intents');
tenant('two', @left) foreach 1 .. 2;
(undef, undef, $errors) = $coordinator->psql('postgres', "CALL index_table.drain('pooled.tb_by_k')");
is($errors, '', 'swept through the pooler');
is($coordinator->safe_psql('postgres', 'SELECT count(*) FROM index_table.intent'), '0', 'no intent is left');
$reader = open_reader();
all_right('after sweeping', $reader, @every, "SELECT * FROM tb WHERE k = 'crashed'");
tenant('two', 'DISCARD ALL') foreach 1 .. 4;
oracle_ok($coordinator, 'postgres', 'in step, through the pooler', 0);
$coordinator->safe_psql('postgres', "ALTER SERVER pooled OPTIONS (SET dbname 'session')");
all_right('sessions that are pooled whole', $reader, @every);
close_session($reader);
stop_running();

# --- Poolers that pass themselves off as the server ------------------------------------------

foreach my $when ('old', 'fresh')
{
	my $socket = "$directory/.s.PGSQL." . ($pool_port + 1);
	unlink $socket;
	$running = IPC::Run::start([ $^X, "$FindBin::RealBin/lib/lending_pooler.pl", "$shard_host/.s.PGSQL.$shard_port", $socket, 'app', 'postgres', $when ], '<', \'', '>&', "$directory/log");
	foreach (1 .. 100) { last if -e $socket; sleep 0.1 }
	$coordinator->safe_psql('postgres', sprintf "ALTER SERVER pooled OPTIONS (SET port '%d', SET dbname 'postgres')", $pool_port + 1);
	$reader = open_reader();
	$log = -s $shard->logfile;
	all_right("a pooler that shows the process of a server ($when)", $reader, ("SELECT v FROM tb WHERE k = 'k7'") x 12);
	my $lost = () = slurp_file($shard->logfile, $log) =~ /ERROR:  prepared statement "index_table\w+" does not exist/g;
	is(join(' ', executed($log)), '', "$when: no kept plan is used");
	is($lost, $when eq 'old' ? 0 : 1, $when eq 'old' ? 'it is told by the age of that' : 'it is told by the statement that is lost');
	close_session($reader);
	stop_running();
}

# --- Without a pooler -------------------------------------------------------------------------

$coordinator->safe_psql('postgres', "ALTER SERVER pooled OPTIONS (SET host '$shard_host', SET port '$shard_port', SET dbname 'postgres')");
$reader = open_reader();
$log = -s $shard->logfile;
all_right('directly', $reader, ("SELECT v FROM tb WHERE k = 'k7'") x 8);
my @names = executed($log);
cmp_ok(scalar(@names), '>=', 4, 'plans are kept where there is no pooler');
is(scalar(grep { !/^index_table_[0-9a-f]{48}$/ } @names), 0, 'under names that nobody can foretell');
all_right('everything, directly', $reader, @every);
close_session($reader);
oracle_ok($coordinator, 'postgres', 'in step');

done_testing();
