# INSERT … ON CONFLICT (email) by the key of a unique index table: clients that count under few
# keys, while rows are deleted, move between 16 partitions of differing layouts, and have other keys
# for a while. Every commit has counted, once, no key is there twice, no client is left behind, and
# nothing fails that does not fail on a table that is not partitioned, where most rounds are run
# first, for a moment.
#
#   UPSERT_SECONDS         of each round (2)
#   UPSERT_CLIENTS         (8)
#   UPSERT_ROUNDS          only those whose title it matches, as '^native, read committed'
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use GlobalIndexes;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = how_many('UPSERT_SECONDS', 2);
my $clients = $ENV{UPSERT_CLIENTS} // 8;
my $wanted = $ENV{UPSERT_ROUNDS} // '.';
my $directory = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('upsert_races', conf => q{
session_preload_libraries = index_table
fsync = off
deadlock_timeout = 50ms
log_lock_waits = on
log_min_error_statement = error
log_error_verbosity = terse
log_line_prefix = '%e '
});

# --- Tables --------------------------------------------------------------------------------

# A counter is n rows' worth of calls under a key. It goes by the name "who", which is its key but
# for a while.
my $columns = 'id bigint NOT NULL, email text, who text NOT NULL, n bigint NOT NULL CONSTRAINT positive CHECK (n > 0), twice bigint GENERATED ALWAYS AS (n * 2) STORED';
my $other_way = 'gone int, twice bigint GENERATED ALWAYS AS (n * 2) STORED, n bigint NOT NULL CONSTRAINT positive CHECK (n > 0), who text NOT NULL, gone_too text, email text, id bigint NOT NULL';
my $tables = "CREATE TABLE counters ($columns, PRIMARY KEY (id)) PARTITION BY HASH (id);";
foreach my $i (0 .. 13)
{
	my $bounds = "FOR VALUES WITH (MODULUS 14, REMAINDER $i)";
	if ($i == 13)
	{
		$tables .= "CREATE TABLE counters_$i PARTITION OF counters $bounds PARTITION BY HASH (id);";
		$tables .= "CREATE TABLE counters_${i}_$_ PARTITION OF counters_$i FOR VALUES WITH (MODULUS 3, REMAINDER $_);" foreach 0 .. 2;
	}
	elsif ($i % 3 == 0) { $tables .= "CREATE TABLE counters_$i PARTITION OF counters $bounds;"; }
	else
	{
		$tables .= "CREATE TABLE counters_$i (" . ($i % 3 == 1 ? $other_way : "gone int, $columns, gone_too text") . ') WITH (fillfactor = 60);'
		  . "ALTER TABLE counters_$i DROP COLUMN gone, DROP COLUMN gone_too; ALTER TABLE counters ATTACH PARTITION counters_$i $bounds;";
	}
	# In most of them no update is HOT.
	$tables .= "CREATE INDEX ON counters_$i (n);" if $i % 5;
}

# The same in all schemas. Names are looked up in search_path, so that every session has its own.
my $rest = q{
CREATE SEQUENCE ids;
CREATE TABLE calls (who text, client int, n bigint);
CREATE TABLE deleted (who text, n bigint);
CREATE TABLE waiting AS SELECT k, 'user' || k AS email FROM generate_series(0, 999) AS k;
CREATE FUNCTION count_one(wanted text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE counted bigint;
BEGIN
    INSERT INTO counters AS c (id, email, who, n) VALUES (nextval('ids'), wanted, wanted, 1)
        ON CONFLICT (email) DO UPDATE SET n = c.n + EXCLUDED.n RETURNING c.n INTO STRICT counted;
    RETURN counted;
END $$;
-- counts twice, and takes the second back
CREATE FUNCTION count_and_repent(wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_one(wanted);
    BEGIN
        PERFORM count_one(wanted);
        RAISE SQLSTATE 'U0001';
    EXCEPTION WHEN SQLSTATE 'U0001' THEN
        NULL;
    END;
END $$;
-- counts, or does not wait: 1 or 0
CREATE FUNCTION count_or_leave(wanted text) RETURNS int LANGUAGE plpgsql SET lock_timeout = '1ms' AS $$
BEGIN
    PERFORM count_one(wanted);
    RETURN 1;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;
-- A partition loses its rows, which are written down, or comes back under another number; who waits for locks gives up.
CREATE FUNCTION empty_partition(number int) RETURNS void LANGUAGE plpgsql SET lock_timeout = '5ms' AS $$
BEGIN
    EXECUTE format('LOCK TABLE counters_%s IN ACCESS EXCLUSIVE MODE', number);
    EXECUTE format('INSERT INTO deleted SELECT who, n FROM counters_%s', number);
    EXECUTE format('TRUNCATE counters_%s', number);
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
CREATE FUNCTION reattach_partition(number int) RETURNS void LANGUAGE plpgsql SET lock_timeout = '5ms' AS $$
BEGIN
    EXECUTE format('ALTER TABLE counters_13 DETACH PARTITION counters_13_%s', number);
    EXECUTE format('ALTER TABLE counters_13 ATTACH PARTITION counters_13_%s FOR VALUES WITH (MODULUS 3, REMAINDER %s)', number, number);
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
CREATE FUNCTION sweep() RETURNS void LANGUAGE plpgsql SET lock_timeout = '5ms' AS $$
BEGIN
    PERFORM index_table.vacuum();
    PERFORM index_table.vacuum(index) FROM index_table.global_indexes;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
-- A row that was put aside gets its key back, unless another has it.
CREATE FUNCTION bring_back(wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE counters SET email = wanted
     WHERE email = (SELECT min(email) FROM counters WHERE email > wanted || ' aside ' AND email < wanted || ' aside:');
EXCEPTION WHEN unique_violation THEN
    NULL;
END $$;
};
$node->safe_psql('postgres', qq{
CREATE EXTENSION index_table;
CREATE SCHEMA indexed;
SET search_path = indexed, public;
$tables
SELECT index_table.create('counters', 'email', is_unique => true);
SELECT index_table.create('counters', 'who', strategy => 'partial', include => 'n');
$rest
CREATE SCHEMA global;
SET search_path = global, public;
$tables
CREATE INDEX counters_by_email_key ON counters USING global (email) WITH (unique);
CREATE INDEX counters_by_who ON counters USING global (who) INCLUDE (n);
$rest
CREATE SCHEMA native;
SET search_path = native, public;
CREATE TABLE counters ($columns, PRIMARY KEY (id), CONSTRAINT counters_by_email_key UNIQUE (email));
$rest});
$node->safe_psql('postgres', oracle_sql(
	describe(name => 'indexed.counters_by_email', base => 'indexed.counters', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'indexed.counters_by_who', base => 'indexed.counters', key => ['b.who'], copies => [ 'id', 'n' ], identity => 1)));

# --- What clients do -------------------------------------------------------------------------

# Every script writes down in its own transaction what it has counted, or taken away. Each changes
# one row, or rows in the order of their keys, so that none of them deadlocks on a table that is not
# partitioned. (:n is the number of keys.)
my %scripts = (
	one => q{
\set i random(0, :n - 1)
BEGIN;
INSERT INTO counters AS c (id, email, who, n) VALUES (nextval('ids'), 'user' || :i, 'user' || :i, 1)
    ON CONFLICT (email) DO UPDATE SET n = c.n + 1 RETURNING c.n AS counted \gset
INSERT INTO calls VALUES ('user' || :i, :client_id, 1);
COMMIT;
},
	named => q{
\set i random(0, :n - 1)
WITH u AS (INSERT INTO counters (id, email, who, n) VALUES (nextval('ids'), 'user' || :i, 'user' || :i, 2)
    ON CONFLICT ON CONSTRAINT counters_by_email_key DO UPDATE SET n = counters.n + EXCLUDED.n RETURNING who)
INSERT INTO calls SELECT who, :client_id, 2 FROM u;
},
	few => q{
\set i random(0, :n - 1)
WITH u AS (INSERT INTO counters AS c (id, email, who, n) VALUES (nextval('ids'), 'user' || :i, 'user' || :i, 1)
    ON CONFLICT (email) DO UPDATE SET n = c.n + 1 WHERE c.n % 4 <> 0 OR c.n > 100 RETURNING who)
INSERT INTO calls SELECT who, :client_id, 1 FROM u;
},
	rows => q{
\set i random(0, :n - 3)
\set j random(:i + 1, :n - 2)
\set k random(:j + 1, :n - 1)
WITH u AS (INSERT INTO counters AS c (id, email, who, n)
    VALUES (nextval('ids'), 'user' || :i, 'user' || :i, 1), (nextval('ids'), 'user' || :j, 'user' || :j, 1), (nextval('ids'), 'user' || :k, 'user' || :k, 1)
    ON CONFLICT (email) DO UPDATE SET n = c.n + EXCLUDED.n RETURNING who)
INSERT INTO calls SELECT who, :client_id, 1 FROM u;
},
	select => q{
\set i random(0, :n - 5)
BEGIN;
INSERT INTO counters AS c (id, email, who, n) SELECT nextval('ids'), w.email, w.email, 1 FROM (SELECT email FROM waiting WHERE k BETWEEN :i AND :i + 4 ORDER BY k) w
    ON CONFLICT (email) DO UPDATE SET n = c.n + 1;
INSERT INTO calls SELECT email, :client_id, 1 FROM waiting WHERE k BETWEEN :i AND :i + 4;
COMMIT;
},
	nothing => q{
\set i random(0, :n - 5)
WITH u AS (INSERT INTO counters (id, email, who, n) SELECT nextval('ids'), w.email, w.email, 1 FROM (SELECT email FROM waiting WHERE k BETWEEN :i AND :i + 4 ORDER BY k) w
    ON CONFLICT (email) DO NOTHING RETURNING who, n)
INSERT INTO calls SELECT who, :client_id, n FROM u;
},
	function => q{
\set i random(0, :n - 1)
BEGIN;
SELECT count_one('user' || :i);
INSERT INTO calls VALUES ('user' || :i, :client_id, 1);
COMMIT;
},
	repent => q{
\set i random(0, :n - 1)
BEGIN;
SELECT count_and_repent('user' || :i);
INSERT INTO calls VALUES ('user' || :i, :client_id, 1);
COMMIT;
},
	leave => q{
\set i random(0, :n - 1)
INSERT INTO calls SELECT 'user' || :i, :client_id, count_or_leave('user' || :i);
},
	roll_back => q{
\set i random(0, :n - 1)
BEGIN;
SELECT count_one('user' || :i);
ROLLBACK;
},
	lock => q{
\set i random(0, :n - 1)
BEGIN;
SELECT n FROM counters WHERE email = 'user' || :i FOR SHARE;
COMMIT;
\set i random(0, :n - 1)
SELECT n FROM counters WHERE email = 'user' || :i FOR KEY SHARE;
},
	move => q{
\set i random(0, :n - 1)
UPDATE counters SET id = nextval('ids') WHERE email = 'user' || :i;
},
	delete => q{
\set i random(0, :n - 1)
WITH d AS (DELETE FROM counters WHERE email = 'user' || :i RETURNING who, n)
INSERT INTO deleted SELECT who, n FROM d;
},
	aside => q{
\set i random(0, :n - 1)
UPDATE counters SET email = who || ' aside ' || nextval('ids') WHERE email = 'user' || :i;
\set i random(0, :n - 1)
SELECT bring_back('user' || :i);
},
	there_and_back => q{
\set i random(0, :n - 1)
BEGIN;
UPDATE counters SET email = email || ' away' WHERE email = 'user' || :i;
WITH b AS (UPDATE counters SET email = who, n = n + 1 WHERE email = 'user' || :i || ' away' RETURNING who)
INSERT INTO calls SELECT who, :client_id, 1 FROM b;
COMMIT;
},
	partitions => q{
\set i random(0, 13)
SELECT empty_partition(:i);
\set i random(0, 2)
SELECT reattach_partition(:i);
SELECT sweep();
},
	bare => q{
\set i random(1, 3)
INSERT INTO counters AS c (id, email, who, n) VALUES (nextval('ids'), 'user' || :i, 'user' || :i, 1) ON CONFLICT (email) DO UPDATE SET n = c.n + 1;
},
	# two rows in any order: whoever does that deadlocks
	two => q{
\set i random(0, :n - 1)
\set j random(0, :n - 1)
BEGIN;
SELECT count_one('user' || :i);
SELECT count_one('user' || :j);
INSERT INTO calls VALUES ('user' || :i, :client_id, 1), ('user' || :j, :client_id, 1);
COMMIT;
});
append_to_file("$directory/$_.sql", $scripts{$_}) for sort keys %scripts;

# Errors of statements in the log from a byte on, as "SQLSTATE message: who", where who is "upsert"
# or "other", and how many there were. Who waits long for a lock has its statement in the log, too,
# without an error (log_lock_waits).
sub errors_in_log
{
	my ($from) = @_;
	my (%errors, $error);
	open my $log, '<', $node->logfile or die "no log: $!";
	seek $log, $from, 0;
	while (my $line = <$log>)
	{
		if ($line =~ /^(\w{5}) (LOG|WARNING|ERROR|FATAL|PANIC):  (.*)$/)
		{
			$error = $2 =~ /LOG|WARNING/ ? undef : "$1 $3";
		}
		elsif ($line =~ /^\w{5} STATEMENT:/ && defined $error)
		{
			my $is_upsert = $line =~ /ON CONFLICT|count_/ || follows($log, qr/ON CONFLICT/);
			$errors{ "$error: " . ($is_upsert ? 'upsert' : 'other') }++;
		}
	}
	return \%errors;
}

# Whether the statement goes on with what the pattern says; its lines begin with tabs.
sub follows
{
	my ($log, $pattern) = @_;
	my $found = 0;
	while (1)
	{
		my $at = tell $log;
		my $line = <$log>;
		return $found unless defined $line;
		if ($line !~ /^\t/) { seek $log, $at, 0; return $found; }
		$found = 1 if $line =~ $pattern;
	}
}

# --- Rounds ------------------------------------------------------------------------------------

sub run_clients
{
	my ($schema, $title, $duration, $keys, $level, $allowed, $mode, @scripts) = @_;
	@scripts = grep { !/^named/ } @scripts if $schema eq 'global'; # the key of an index is no constraint
	my $clients = $title =~ /one key/ ? 2 * $clients : $clients;
	$node->safe_psql('postgres', "TRUNCATE $schema.counters, $schema.calls, $schema.deleted");
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . $level =~ s/ /\\ /r . " -c search_path=$schema";
	my $log_from = -s $node->logfile;
	my ($out, $err) = run_command([ 'pgbench', '-n', '-M', $mode, '--max-tries=10000', '-c', $clients, '-j', '2', ($duration > 1 ? ('-T', $duration) : ('-t', 150)), '-D', "n=$keys",
		(map { ('-f', "$directory/$_") } @scripts), $node->connstr('postgres') ]);
	my ($count) = $out =~ /transactions actually processed: (\d+)/;
	my ($tps) = $out =~ /tps = ([\d.]+)/;
	my ($retried) = $out =~ /number of transactions retried: (\d+)/;
	is($err =~ /((?:ERROR|error|abort)[^\n]*)/ ? $1 : '', '', "$title: no client failed");
	# Those that the end of the time meets are not tried again.
	cmp_ok($out =~ /number of failed transactions: (\d+)/ ? $1 : 0, '<=', $clients, "$title: no transaction failed");

	my $errors = errors_in_log($log_from);
	note "$title: " . ($count // 0) . ' transactions, ' . ($tps // 0) . ' per second, ' . ($retried // 0) . " retried\n"
	  . join("\n", map { "$errors->{$_} times $_" } sort keys %$errors);
	is(join("\n", grep { $_ !~ $allowed } sort keys %$errors), '', "$title: nothing else is wrong");

	cmp_ok($count // 0, '>', $duration, "$title: transactions");
	is(join("\n", $out =~ /^SQL script \d+: (\S+)\n(?: - [^\n]*\n)*? - 0 transactions/mg), '', "$title: every script has done something")
	  if ($count // 0) > 40 * @scripts;
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT client FROM $schema.calls GROUP BY 1) c"), $clients, "$title: every client has counted");
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT FROM $schema.counters GROUP BY email HAVING count(*) > 1) t"), 0, "$title: no key is there twice");
	is($node->safe_psql('postgres', qq{
		SELECT who || ': ' || sum(n) FROM (SELECT who, -n FROM $schema.calls UNION ALL SELECT who, n FROM $schema.counters UNION ALL SELECT who, n FROM $schema.deleted) c(who, n)
		 GROUP BY who HAVING sum(n) <> 0 ORDER BY 1 LIMIT 5}), '', "$title: every call has counted, once");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $schema.counters WHERE twice <> n * 2 OR email <> who AND email NOT LIKE who || ' aside %'"), 0, "$title: rows are whole");
	oracle_ok($node, 'postgres', "$title: in step") if $schema eq 'indexed';
	check_global($node, 'postgres', $title) if $schema eq 'global';
	cmp_ok($node->safe_psql('postgres', 'SELECT max(partition_id) FROM index_table.partition'), '>', $duration, "$title: partitions got new numbers")
	  if $schema eq 'indexed' && grep { /^partitions/ } @scripts;
	return;
}

# What may fail: under READ COMMITTED nothing but what PostgreSQL refuses to do to a row that has
# moved to another partition meanwhile, and that no upsert; else serialization failures. And
# deadlocks with who has two rows: PostgreSQL ends whoever has waited longest.
my @upserts = qw(one.sql@4 named.sql@2 few.sql@2 rows.sql@2 select.sql@1 nothing.sql@1 function.sql@2 repent.sql@1 leave.sql@1 roll_back.sql@1);
my @rest = qw(move.sql@3 delete.sql@2 aside.sql@1 there_and_back.sql@1 lock.sql@1);
my %may_fail = (
	'read committed' => qr/^40001 tuple to be \w+ was already moved to another partition due to concurrent update: other$/,
	'repeatable read' => qr/^40001 /,
	'serializable' => qr/^40001 /);
my $deadlocks = qr/$may_fail{'read committed'}|^40P01 deadlock detected: \w+$/;

my @rounds = (
	[ 'read committed, 1000 keys', 1000, 'read committed', $may_fail{'read committed'}, 'prepared', @upserts, @rest ],
	[ 'read committed, 10 keys', 10, 'read committed', $may_fail{'read committed'}, 'simple', @upserts, @rest ],
	[ 'read committed, partitions come and go', 100, 'read committed', $may_fail{'read committed'}, 'prepared', @upserts, @rest, 'partitions.sql@2' ],
	[ 'read committed, one key that most give back', 1, 'read committed', $may_fail{'read committed'}, 'prepared', 'one.sql@2', 'function.sql@1', 'roll_back.sql@6', 'delete.sql@3' ],
	[ 'read committed, two keys at a time', 10, 'read committed', $deadlocks, 'prepared', 'two.sql@3', @upserts, @rest ],
	[ 'repeatable read, 1000 keys', 1000, 'repeatable read', $may_fail{'repeatable read'}, 'simple', @upserts, @rest ],
	[ 'repeatable read, 10 keys', 10, 'repeatable read', $may_fail{'repeatable read'}, 'prepared', @upserts, @rest ],
	[ 'serializable, 1000 keys', 1000, 'serializable', $may_fail{'serializable'}, 'prepared', @upserts, @rest ],
	[ 'serializable, 10 keys', 10, 'serializable', $may_fail{'serializable'}, 'extended', @upserts, @rest ]);
foreach my $round (@rounds)
{
	my ($title, @what) = @$round;
	my $is_short = $seconds < 4 && $title =~ /1000/;
	my @schemas = $title =~ /1000|partitions/ ? ('indexed', 'global') : ('native', 'indexed', 'global');
	foreach my $schema (grep { "$_, $title" =~ /$wanted/ } @schemas)
	{
		run_clients($schema, "$schema, $title", $is_short ? 1 : $schema ne 'native' ? $seconds : int(($seconds + 3) / 4), @what);
	}
}

# Nothing but upserts, as fast as they go: who looks for a row meets it between two versions.
if ('bare' =~ /$wanted/)
{
	$node->safe_psql('postgres', 'TRUNCATE indexed.counters');
	local $ENV{PGOPTIONS} = '-c search_path=indexed';
	my ($out, $err) = run_command([ 'pgbench', '-n', '-M', 'prepared', '-c', $clients, '-j', '2', '-T', $seconds < 4 ? 1 : $seconds, '-f', "$directory/bare.sql", $node->connstr('postgres') ]);
	is($err =~ /((?:ERROR|error|abort)[^\n]*)/ ? $1 : '', '', 'bare: no client failed');
	is($node->safe_psql('postgres', 'SELECT sum(n) FROM indexed.counters'), $out =~ /transactions actually processed: (\d+)/ ? $1 : '', 'bare: every upsert has counted');
	note $out =~ /(tps = [\d.]+)/;
	oracle_ok($node, 'postgres', 'bare: in step');
}

$node->safe_psql('postgres', 'DROP EXTENSION IF EXISTS amcheck');
check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
