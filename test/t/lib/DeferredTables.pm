# Two base tables with deferred index tables of all kinds, and clients that write to them and drain
# them. accounts has 16 hash partitions; events has ranges, of which one is hash partitioned, and one,
# attached with its columns in another order, is divided into ranges again.
#
#   set_up($node)                 makes them in the database postgres, and the oracle
#   start_writers($node, rate => transactions a second, seed => , clients => 8)    keeps => 1: no TRUNCATE
#   start_drains($node, clients => 2)    each drains, sleeps up to half a second (busy => 1: 20 ms), and so on
#   stop_clients($node, $clients) returns what they complained of, and how much they have done
#   drained_ok($node, $label)     drains what is queued; nothing may be left; the oracle
package DeferredTables;

use strict;
use warnings;

use Exporter 'import';
use IndexTableTest qw(describe oracle_sql oracle_ok quote_literal);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(set_up start_writers start_drains stop_clients drained_ok queued_ok queue_bytes index_table_names);

# --- Tables -------------------------------------------------------------------------

# Values of keys by number. They are few, so that changes and queries meet; some are NULL; amounts are
# equal that are not the same.
my $values = q{
CREATE FUNCTION email(k int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$SELECT CASE WHEN k % 41 > 0 THEN CASE k % 2 WHEN 0 THEN 'user' ELSE 'USER' END || k % 600 || '@x.com' END$$;
CREATE FUNCTION town(k int) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'Town ' || nullif(k % 40, 0)$$;
CREATE FUNCTION score(k int) RETURNS int IMMUTABLE LANGUAGE sql AS $$SELECT nullif(k % 130 - 10, 7)$$;
CREATE FUNCTION tags(k int) RETURNS text[] IMMUTABLE LANGUAGE sql AS
	$$SELECT CASE k % 13 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN ARRAY['t' || k % 70, NULL]
	         ELSE ARRAY['t' || k % 70, 't' || k % 11, 't' || k % 70] END$$;
CREATE FUNCTION code(k int) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'code' || lpad(nullif(k % 500, 3)::text, 3, '0')$$;
CREATE FUNCTION kind(k int) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT nullif(substr('abcdefghijkx-', 1 + k % 13, 1), '-')$$;
CREATE FUNCTION amount(k int) RETURNS numeric IMMUTABLE LANGUAGE sql AS
	$$SELECT CASE k % 3 WHEN 0 THEN k % 300 / 4::numeric(9, 2) WHEN 1 THEN (k % 300)::numeric WHEN 2 THEN (k % 300)::numeric(9, 2) END$$;
CREATE FUNCTION note(k int) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'note ' || nullif(k % 50, 9)$$;
-- What fails is undone, and its function goes on.
CREATE FUNCTION attempt(k int, l int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE accounts SET email = email(k), tags = tags(l) WHERE id = l;
	BEGIN
		DELETE FROM accounts WHERE id = k;
		UPDATE accounts SET score = score(k) WHERE id = l;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		UPDATE accounts SET town = town(k) WHERE id = l;
	END;
END $$;
};

sub bases
{
	my $sql = q{
CREATE SEQUENCE ids START 100001;
CREATE TABLE accounts (id int PRIMARY KEY, email text, town text, score int, tags text[], note text) PARTITION BY HASH (id);
CREATE TABLE events (id int, day int, kind text, code text, amount numeric, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE events_low PARTITION OF events FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE events_mid PARTITION OF events FOR VALUES FROM (100) TO (200) PARTITION BY HASH (id);
CREATE TABLE events_mid_0 PARTITION OF events_mid FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE events_mid_1 PARTITION OF events_mid FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE events_high (note text, gone int, amount numeric, code text, day int NOT NULL, kind text, id int NOT NULL) PARTITION BY RANGE (day);
ALTER TABLE events_high DROP COLUMN gone;
CREATE TABLE events_high_0 PARTITION OF events_high FOR VALUES FROM (200) TO (250);
CREATE TABLE events_high_1 PARTITION OF events_high FOR VALUES FROM (250) TO (300);
ALTER TABLE events ATTACH PARTITION events_high FOR VALUES FROM (200) TO (300);
};
	$sql .= "CREATE TABLE accounts_$_ PARTITION OF accounts FOR VALUES WITH (MODULUS 16, REMAINDER $_);\n" foreach 0 .. 15;
	return $sql . q{
INSERT INTO accounts SELECT i, email(i), town(i * 7), score(i * 3), tags(i), note(i) FROM generate_series(1, 2000) AS i;
INSERT INTO events SELECT i, i * 37 % 300, kind(i), code(i * 7), amount(i), note(i) FROM generate_series(1, 2000) AS i;
};
}

# One is maintained immediately, beside the others.
my @index_tables = (
	[ accounts_by_email => 'accounts', 'lower(email)', "" ],
	[ accounts_by_town  => 'accounts', 'town, score DESC', "strategy => 'partial', include => 'note', predicate => 'score >= 0'" ],
	[ accounts_by_score => 'accounts', 'score', "strategy => 'denormalized'" ],
	[ accounts_by_tag   => 'accounts', 'tags', "" ],
	[ events_by_code    => 'events', 'code', "partitions => 2" ],
	[ events_by_kind    => 'events', 'kind DESC, amount', q{strategy => 'partial', include => 'note', predicate => $$kind <> 'x'$$} ],
	[ events_by_amount  => 'events', 'amount', "strategy => 'denormalized'" ],
	[ events_by_note    => 'events', 'note', "maintenance => 'immediate'" ]);

sub index_table_names { return map { $_->[3] =~ /immediate/ ? () : $_->[0] } @index_tables; }

sub creations
{
	my $sql = '';
	foreach my $table (@index_tables)
	{
		my ($name, $base, $key, $options) = @$table;
		$options .= ($options && ', ') . "maintenance => 'deferred'" unless $options =~ /maintenance/;
		$sql .= "SELECT index_table.create('$base', '$key', name => '$name', $options);\n";
	}
	return $sql;
}

sub described
{
	my @accounts = (base => 'accounts', identity => 1);
	my @events = (base => 'events', identity => 2);
	return (
		describe(@accounts, name => 'accounts_by_email', key => ['lower(b.email)'], copies => ['id']),
		describe(@accounts, name => 'accounts_by_town', key => [ 'b.town', 'b.score' ], copies => [ 'id', 'note' ], predicate => 'b.score >= 0'),
		describe(@accounts, name => 'accounts_by_score', key => ['b.score'], copies => [ 'id', 'email', 'town', 'tags', 'note' ]),
		describe(@accounts, name => 'accounts_by_tag', key => ['m.v'], copies => ['id'], elements => 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)'),
		describe(@events, name => 'events_by_code', key => ['b.code'], copies => [ 'id', 'day' ]),
		describe(@events, name => 'events_by_kind', key => [ 'b.kind', 'b.amount' ], copies => [ 'id', 'day', 'note' ], predicate => "b.kind <> 'x'"),
		describe(@events, name => 'events_by_amount', key => ['b.amount'], copies => [ 'id', 'day', 'kind', 'code', 'note' ]),
		describe(@events, name => 'events_by_note', key => ['b.note'], copies => [ 'id', 'day' ]));
}

sub set_up
{
	my ($node) = @_;
	$node->safe_psql('postgres', "CREATE EXTENSION index_table;\n" . $values . bases() . creations() . oracle_sql(described()));
	$node->safe_psql('postgres', 'VACUUM ANALYZE');
	return;
}

# --- Writers ------------------------------------------------------------------------

# Scripts of pgbench, with their weights. Nothing in them fails but for deadlocks and rows that have moved,
# which pgbench tries again: ids are of a sequence, or it is ON CONFLICT. Events with negative ids do
# not move.
my $variables = q{
\set id random(1, 3000)
\set k random(1, 5000)
\set l random(1, 3000)
\set n random(1, 60)
\set day random(0, 299)
};
my @scripts = (
	[ 10, q{INSERT INTO accounts VALUES (:id, email(:k), town(:l), score(:k), tags(:l), note(:k)) ON CONFLICT DO NOTHING;} ],
	[ 4, q{INSERT INTO accounts SELECT (:id + i * 37) % 3000 + 1, email(:k + i), town(:l + i), score(:k + i), tags(:l + i), note(i) FROM generate_series(1, :n) AS i ON CONFLICT DO NOTHING;} ],
	[ 4, q{INSERT INTO accounts VALUES (:id, email(:k), town(:k), score(:l)), (:id + 1, email(:l), NULL, 99) ON CONFLICT (id) DO UPDATE SET score = excluded.score, email = excluded.email;} ],
	[ 10, q{UPDATE accounts SET email = email(:k), score = score(:l) WHERE id = :id;} ],
	[ 3, q{UPDATE accounts SET town = town(:k + id), tags = tags(:l + id) WHERE id BETWEEN :id AND :id::int + :n;} ],
	[ 3, q{UPDATE accounts SET score = score(:l) WHERE score = score(:k);} ],
	[ 4, q{UPDATE accounts SET note = note(:k) WHERE id BETWEEN :id AND :id + 20;} ],
	[ 3, q{UPDATE accounts SET id = nextval('ids'), town = town(:k) WHERE id BETWEEN :id AND :id + 2;} ],
	[ 3, q{UPDATE accounts SET tags = tags || ('t' || :n % 70)::text WHERE id = :id AND cardinality(tags) < 6;} ],
	[ 6, q{DELETE FROM accounts WHERE id = :id;} ],
	[ 2, q{DELETE FROM accounts WHERE id > 100000 AND id % 9 = :k % 9;} ],
	[ 2, q{UPDATE accounts_5 SET score = score(:k), email = email(:l) WHERE id BETWEEN :id AND :id + 200;} ],
	[ 2, q{SELECT attempt(:k % 3000, :l);} ],
	[ 2, q{
BEGIN;
DELETE FROM accounts WHERE id = :id;
INSERT INTO accounts VALUES (:id, email(:k), town(:k), score(:k), tags(:k), note(:k)) ON CONFLICT DO NOTHING;
UPDATE accounts SET score = score(:l) WHERE id = :id;
END;} ],
	[ 4, q{
BEGIN;
UPDATE accounts SET score = score(:l), email = email(:k) WHERE id = :id;
SAVEPOINT a;
DELETE FROM accounts WHERE id BETWEEN :id AND :id + 10;
SAVEPOINT b;
INSERT INTO accounts VALUES (nextval('ids'), email(:l), town(:l), score(:l), tags(:l), 'undone');
ROLLBACK TO SAVEPOINT a;
UPDATE accounts SET town = town(:l), note = note(:l) WHERE id BETWEEN :id AND :id + 5;
SAVEPOINT c;
INSERT INTO accounts VALUES (nextval('ids'), email(:k), town(:k), score(:k), tags(:k), note(:k));
RELEASE SAVEPOINT c;
END;} ],
	[ 2, q{
BEGIN;
UPDATE accounts SET score = score(:l), email = email(:k) WHERE id BETWEEN :id AND :id + 5;
INSERT INTO events VALUES (nextval('ids'), :day, kind(:k), code(:k), amount(:k), 'undone');
ROLLBACK;} ],
	[ 2, q{
BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE accounts SET score = score(:l), email = email(:k) WHERE id = :id;
INSERT INTO events VALUES (nextval('ids'), :day, kind(:k), code(:k), amount(:k), note(:k));
DELETE FROM events WHERE id = :l;
END;} ],
	[ 10, q{INSERT INTO events VALUES (nextval('ids'), :day, kind(:k), code(:k), amount(:k), note(:k));} ],
	[ 3, q{INSERT INTO events SELECT - (:id + i) % 500, (:id + i) % 500 % 300, kind(:k + i), code(:k + i), amount(:l + i), note(i) FROM generate_series(1, :n) AS i ON CONFLICT DO NOTHING;} ],
	[ 1, q{INSERT INTO events_low SELECT nextval('ids'), :day % 100, kind(:k + i), code(:k + i), amount(:l + i), note(i) FROM generate_series(1, 9) AS i;} ],
	[ 8, q{UPDATE events SET code = code(:k), amount = amount(:l) WHERE id = :id;} ],
	[ 3, q{UPDATE events SET kind = kind(:k + id % 1000), amount = amount + 1 WHERE code = code(:l);} ],
	[ 6, q{UPDATE events SET day = :day, amount = amount(:k) WHERE id = :id;} ],
	[ 2, q{UPDATE events SET day = (day + :n) % 300 WHERE id > 0 AND id % 97 = :k % 97;} ],
	[ 2, q{UPDATE events_mid SET note = note(:k), code = code(:l) WHERE id % 53 = :n % 53;} ],
	[ 5, q{DELETE FROM events WHERE id IN (:id, - (:l::int % 500));} ],
	[ 3, q{DELETE FROM events WHERE id > 100000 AND id % 11 = :k % 11;} ],
	[ 3, q{WITH gone AS (DELETE FROM events WHERE id = :id RETURNING *) INSERT INTO events SELECT id, :day, kind(:k), code, amount, note FROM gone;} ],
	[ 3, q{
MERGE INTO events USING (VALUES (:id, code(:k)), (:id + 1, code(:l))) AS s (id, code) ON events.id = s.id
WHEN MATCHED AND events.amount < 20 THEN DELETE
WHEN MATCHED THEN UPDATE SET code = s.code, note = note(:k)
WHEN NOT MATCHED THEN INSERT VALUES (nextval('ids'), :day, kind(:k), s.code, amount(:k), note(:l));} ],
	[ 0.2, q{TRUNCATE accounts_7;} ],
	[ 0.2, q{TRUNCATE events_high_1, events_mid_0;} ]);

sub script_options
{
	my ($directory, $keeps) = @_;
	my @options;
	foreach my $number (0 .. $#scripts)
	{
		my ($weight, $sql) = @{ $scripts[$number] };
		next if $keeps && $sql =~ /TRUNCATE/;
		my $path = "$directory/writer$number.sql";
		unless (-e $path) { append_to_file($path, "$variables$sql\n"); }
		push @options, '-f', "$path\@" . 5 * $weight;
	}
	return @options;
}

my $number_of_starts = 0;

# pgbench, until it is stopped. Its output goes to files, because nobody reads it meanwhile.
sub start_pgbench
{
	my ($node, $name, @options) = @_;
	my $log = PostgreSQL::Test::Utils::tempdir() . "/$name" . $number_of_starts++;
	local $ENV{PGAPPNAME} = $name;
	local $ENV{PGOPTIONS} = '-c client_min_messages=error';
	my $run = IPC::Run::start([ 'pgbench', '-n', '--max-tries=1000', '-P', '1', '-T', '100000', @options, $node->connstr('postgres') ],
		'<', \'', '>', "$log.out", '2>', "$log.err");
	return { run => $run, name => $name, log => "$log.err" };
}

sub start_writers
{
	my ($node, %options) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	return start_pgbench($node, 'writers', '-M', 'prepared', '-c', $options{clients} // 8, '-j', 2, '-R', $options{rate} // 300,
		'--random-seed=' . ($options{seed} // 1), script_options($directory, $options{keeps}));
}

sub start_drains
{
	my ($node, %options) = @_;
	my $longest = $options{busy} ? 20 : 500;
	my $path = PostgreSQL::Test::Utils::tempdir() . '/drain.sql';
	append_to_file($path, "\\set ms random(1, $longest)\nCALL index_table.drain();\n\\sleep :ms ms\n");
	return start_pgbench($node, 'drains', '-c', $options{clients} // 2, '-f', $path);
}

# The number of their transactions, to a second.
sub transactions_of
{
	my ($clients) = @_;
	my ($said, $done) = (slurp_file($clients->{log}), 0);
	$done += $1 while $said =~ /^progress: [^\n]*? ([\d.]+) tps/mg;
	return $done;
}

# Ends them, and their sessions, when they have made that many transactions: on a busy machine they may have had
# no time for it yet. Returns the first complaint that is none of a lost connection, and the number of transactions.
sub stop_clients
{
	my ($node, $clients, $least) = @_;
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	sleep(1) while transactions_of($clients) < ($least // 0) && time() < $end;
	$clients->{run}->kill_kill(grace => 5);
	$node->poll_query_until('postgres', qq{
		SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE application_name = '$clients->{name}' AND backend_type = 'client backend'})
	  or die "sessions of $clients->{name} do not end";
	my ($complaint) = grep { /error|abort|fatal/i && !/server closed|connection|terminating|recovery mode|shutting down|starting up|Run was aborted/i } split /\n/, slurp_file($clients->{log});
	return ($complaint // '', int(transactions_of($clients)));
}

# --- Quiescence ---------------------------------------------------------------------

# Nothing is queued any more: neither as the view has it, nor in the tables.
sub queued_ok
{
	my ($node, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', 'SELECT coalesce(sum(pending), 0), coalesce(sum(refused), 0) FROM index_table.queue; SELECT '
			  . join(' + ', map { "(SELECT count(*) FROM ${_}_queue)" } index_table_names())),
		"0|0\n0", "$label: the queues are empty");
}

# What both parts of a queue take, with what is stored out of line.
sub queue_bytes
{
	my ($node, $index_table) = @_;
	return $node->safe_psql('postgres', "SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0) FROM pg_inherits WHERE inhparent = to_regclass('${index_table}_queue')");
}

sub drained_ok
{
	my ($node, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($result, $stdout, $stderr) = $node->psql('postgres', 'CALL index_table.drain()');
	is($stderr, '', "$label: drained");
	queued_ok($node, $label);
	return oracle_ok($node, 'postgres', "$label: in step", 200);
}

1;
