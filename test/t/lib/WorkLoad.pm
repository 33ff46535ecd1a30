# A load over the tables of Work.pm: clients that change rows at random, operators that do one of everything
# again and again (DDL, builds, upkeep), and clients that prepare transactions. What they say is kept. And
# what is looked at when they are gone.
#
#   prepare_load($node)              what prepare_work() of Work.pm prepares, and what is there once all has been done
#   writer_script(), operator_script(number), preparer_script(prefix)    SQL of rand()'s choice
#   start_client($node, name, SQL)   runs it with psql
#   stop_client($client)             returns what it heard that nobody expects, a line each
#   await_sessions($node)            until theirs are gone
#   exact_ok($node, label)           what is complete, and not deferred, is exact
#   compare_ok($node, label)         queries find the same with index tables and without
#   settle_ok($node, label)          completes or drops what was interrupted, makes what operators have
#                                    removed again, drains; returns how many builds it has completed
#                                    and dropped
#   traces($node)                    all that is there, which is the same whenever all is settled
#   difference(traces, traces)       what is different in them
package WorkLoad;

use strict;
use warnings;

use Exporter 'import';
use GlobalIndexes;
use IndexTableTest;
use Work;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(number pick prepare_load random_change writer_script operator_script preparer_script start_client stop_client await_sessions exact_ok compare_ok done_ok settle_ok traces difference);

sub number { my ($below) = @_; return int(rand($below)); }
sub pick { return $_[ rand(@_) ]; }

my $events = '"Odd.Names"."Events"';
my @changes = (
	sub { my $n = number(1000); return "UPDATE customers SET town = 'Town ' || $n % 30, phone = '$n', tags = ARRAY['t' || $n % 9, 't' || $n % 5, NULL] WHERE id = " . number(6000) },
	sub { return 'UPDATE customers SET active = NOT active WHERE id % 500 = ' . number(500) },
	sub { return "UPDATE customers SET email = 'moved' || id || '-' || " . number(50) . " WHERE email = 'mail" . number(6000) . "'" },
	sub { my $id = number(6000); return "BEGIN; DELETE FROM customers WHERE id = $id; INSERT INTO customers VALUES ($id, 'mail$id', 'Town 3', ARRAY['t1'], '$id', true) ON CONFLICT DO NOTHING; COMMIT" },
	sub { my $id = number(6000); return "INSERT INTO customers VALUES ($id, 'mail$id', 'Town 4') ON CONFLICT (email) DO UPDATE SET phone = 'again' || " . number(99) },
	sub { my $n = number(300); return "UPDATE customers SET id = CASE WHEN id > 100000 THEN id - 100000 ELSE id + 100000 END WHERE id IN ($n, 100000 + $n)" },
	sub { my $n = number(6000); return "BEGIN; SAVEPOINT a; UPDATE customers SET email = 'undone$n', town = 'Undone' WHERE id BETWEEN $n AND $n + 20; ROLLBACK TO a; SAVEPOINT b; UPDATE customers SET town = 'Town ' || id % 20 WHERE id BETWEEN $n AND $n + 5; RELEASE b; COMMIT" },
	sub { my $n = 600000 + number(3000); return "COPY customers (id, email, town) FROM stdin;\n" . join('', map { my $i = $n + $_; "$i\tcopied$i\tTown " . $i % 20 . "\n" } 0 .. 9) . '\\.' },
	sub { return 'DELETE FROM customers WHERE id BETWEEN 600000 AND 610000 AND id % 7 = ' . number(7) },
	sub { return "UPDATE customers SET phone = phone || '+' WHERE lower(town) = 'town " . number(20) . "' AND id % 10 = " . number(10) },
	sub { my $n = number(5000); return "MERGE INTO customers AS c USING generate_series($n, $n + 10) AS i ON c.email = 'mail' || i WHEN MATCHED AND c.id % 5 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET town = 'Merged' WHEN NOT MATCHED THEN INSERT VALUES (i, 'mail' || i, 'Town 9', NULL, i::text, i % 2 = 0)" },
	sub { my ($id, $day) = (number(900), number(200)); my $kind = pick('a', 'b', 'c'); return qq{INSERT INTO $events VALUES ($id, $day, '$kind', 'Code' || $id + 1000 * $day, 'note ' || $id % 7) ON CONFLICT DO NOTHING} },
	sub { return "UPDATE $events SET day = (day + 77) % 200, note = 'note ' || id % 4 WHERE id % 60 = " . number(60) },
	sub { return qq{UPDATE $events SET "Code" = "Code" || '.', kind = CASE kind WHEN 'b' THEN 'a' ELSE 'b' END WHERE id % 90 = } . number(90) },
	sub { return "DELETE FROM $events WHERE id % 40 = " . number(40) },
	sub { my $n = number(90); return "BEGIN; UPDATE plain SET v = v + 0.25 WHERE id BETWEEN $n AND $n + 8; UPDATE plain SET v = v - 0.25 WHERE id BETWEEN $n AND $n + 8; COMMIT" },
	sub { my $n = number(90); return "BEGIN; UPDATE plain SET v = 1000 + v WHERE id = $n; INSERT INTO plain VALUES (9000 + $n, $n) ON CONFLICT DO NOTHING; DELETE FROM plain WHERE id = 9000 + $n; UPDATE plain SET v = v - 1000 WHERE id = $n; COMMIT" },
	sub { return "SELECT count(*) FROM (SELECT id FROM customers WHERE lower(town) = 'town " . number(20) . "' FOR UPDATE SKIP LOCKED) AS s" },
	sub { return 'CALL index_table.drain()' });

# Operators do one of everything again and again, each under a name of its own, and more that stays.
my %work = work();
delete $work{prepared};
my $fill = q{INSERT INTO customers SELECT i, 'mail' || i, 'Town ' || i % 20, ARRAY['t' || i % 4], '555-' || i, i % 3 = 0 FROM generate_series(1, 6000) AS i ON CONFLICT DO NOTHING};
$work{'TRUNCATE, filled again'} = ["BEGIN; TRUNCATE customers_1; $fill; COMMIT"];
$work{'TRUNCATE of an inner partition'} = ['TRUNCATE "Odd.Names".low_a'];
$work{'TRUNCATE of all'} = [qq{BEGIN; TRUNCATE $events; INSERT INTO $events SELECT i, i % 200, chr(97 + i % 3), 'Code' || i, 'note ' || i % 5 FROM generate_series(1, 600) AS i; COMMIT}];
$work{'a partition is dropped'} = [ 'DROP TABLE customers_0', "CREATE TABLE IF NOT EXISTS customers_0 PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER 0); $fill" ];
$work{'a partition comes with rows'} = [ q{BEGIN; CREATE TABLE "Odd.Names".late (LIKE "Odd.Names"."Events"); INSERT INTO "Odd.Names".late SELECT i, 200 + i % 9, 'a', 'Late' || i, 'late' FROM generate_series(1, 100) AS i; COMMIT; ALTER TABLE "Odd.Names"."Events" ATTACH PARTITION "Odd.Names".late FOR VALUES FROM (200) TO (300)},
	'DROP TABLE IF EXISTS "Odd.Names".late' ];
$work{'DETACH CONCURRENTLY'} = [ 'ALTER TABLE customers DETACH PARTITION customers_2 CONCURRENTLY', $work{'ATTACH, DETACH'}[1] ];
$work{'an index table of its own'} = [ q{SELECT index_table.create('customers', 'town, email, id', name => 'new', maintenance => 'deferred'); UPDATE customers SET active = active WHERE id < 50; DROP TABLE new}, 'DROP TABLE IF EXISTS new' ];
$work{'indexes of index tables'} = [ 'CREATE INDEX new ON customers_by_email (id); DROP INDEX new; REINDEX TABLE customers_by_tag', 'DROP INDEX IF EXISTS new' ];
$work{'VACUUM of index tables'} = ['VACUUM customers_by_email, customers_by_tag, customers_by_town'];
$work{'CHECKPOINT'} = ['CHECKPOINT'];
my @kinds = sort keys %work;

my $settings = "SET client_min_messages = error; SET lock_timeout = '2s';\n";

sub random_change { return pick(@changes)->() }

sub writer_script { return $settings . join('', map { pick(@changes)->() . ($_ % 7 ? '' : ";\nROLLBACK") . ";\n" } 1 .. 1500) =~ s/\\\.;/\\./gr }

# Only kinds of work whose names match, unless all will do.
sub operator_script
{
	my ($operator, $only) = @_;
	my @some = $only ? grep { /$only/ } @kinds : @kinds;
	push @some, (grep { /concurrently|rebuild|CONCURRENTLY/ } @some) x 3; # what takes many transactions
	my $own = $settings . 'SET index_table.build_delay = ' . number(20) . ";\n"; # ms between the transactions of a build
	my $sql = $own;
	foreach (1 .. 150)
	{
		my $kind = pick(@some);
		my ($do, $undo) = map { ($_ // '') =~ s/NUMBER/number(100000)/ger =~ s/\bnew\b/new_$operator/gr } @{ $work{$kind} }[ 0, 1 ];
		$sql .= "\\warn \@ $kind\n$do;\nROLLBACK;\nRESET ALL;\n$own$undo;\n";
	}
	return $sql;
}

# Some stay prepared.
sub preparer_script
{
	my ($prefix) = @_;
	my $sql = $settings;
	foreach my $i (1 .. 100)
	{
		my $name = "'${prefix}_$i'";
		my @done = map { my $change = pick(@changes)->(); $change =~ /BEGIN|CALL|COPY/ ? () : $change } 1 .. 4;
		$sql .= 'BEGIN; ' . join('; ', @done, "PREPARE TRANSACTION $name", 'ROLLBACK', 'SELECT pg_sleep(0.03)') . ";\n";
		my $fate = rand();
		$sql .= $fate < 0.5 ? "COMMIT PREPARED $name;\n" : $fate < 0.8 ? "ROLLBACK PREPARED $name;\n" : '';
	}
	return $sql;
}

my $scripts = 0;

sub start_client
{
	my ($node, $name, $sql) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . '/client' . $scripts++;
	append_to_file("$path.sql", $sql);
	local $ENV{PGAPPNAME} = $name;
	my $run = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', "$path.sql" ],
		'<', \'', '>', '/dev/null', '2>', "$path.err", IPC::Run::timeout(600));
	return { name => $name, run => $run, errors => "$path.err" };
}

# What those who write beside DDL may hear, and those whose server is gone; an operator finds undone what he wanted
# to undo. XX000 is PostgreSQL's own where two change a catalog's row.
my $expected = qr/^(?:55P03|40P01|40001|57P0[0-9]|57014|08\w{3}|25P0[0-9]|3B001|23505|23514|42P01|42704|42710|42P07|42P17|42809|42703|55000|55006|0A000|42P16|42804)$/;

sub stop_client
{
	my ($client) = @_;
	$client->{run}->signal('TERM');
	eval { $client->{run}->finish };
	my ($errors, $kind, @wrong) = (slurp_file($client->{errors}), '');
	foreach my $line (split /\n/, $errors)
	{
		if ($line =~ /^@ (.*)/) { $kind = ", $1"; next; }
		next unless $line =~ /(?:ERROR|FATAL|PANIC):\s+(\w{5}): (.*)/;
		my ($code, $message) = ($1, $2);
		push @wrong, "$client->{name}$kind: $code: $message" unless $code =~ $expected || $message =~ /^tuple concurrently (?:updated|deleted)/;
	}
	return @wrong;
}

# --- When they are gone ---------------------------------------------------------------------

sub compare_ok
{
	my ($node, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($n, $m) = (number(20), number(6000));
	my @queries = (
		"SELECT * FROM customers WHERE email = 'mail$m'", "SELECT * FROM customers WHERE email LIKE 'moved1%'", "SELECT * FROM customers WHERE lower(town) = 'town $n'",
		"SELECT id, phone FROM customers WHERE lower(town) BETWEEN 'town 1' AND 'town 15'", "SELECT * FROM customers WHERE phone IN ('$m', '$n', 'again$n')",
		"SELECT * FROM (SELECT phone FROM customers ORDER BY phone LIMIT 300) AS s", "SELECT * FROM customers WHERE tags @> '{t1}'", "SELECT id FROM customers WHERE 't3' = ANY (tags) AND active",
		'SELECT id, town FROM customers WHERE active', 'SELECT id FROM customers WHERE NOT active', "SELECT * FROM customers WHERE town = 'Town $n'",
		qq{SELECT * FROM $events WHERE "Code" LIKE 'Code1%' AND kind <> 'b'}, qq{SELECT * FROM $events WHERE "Odd.Names"."Shout It"(note) = 'NOTE 3'},
		'SELECT * FROM plain WHERE v < 9', 'SELECT c.id, d.id FROM customers AS c JOIN customers AS d ON d.email = c.email WHERE c.id % 50 = 3');
	my @answers = map {
		my $how = $_;
		[ split /\n/, $node->safe_psql('postgres', "SET index_table.enable_scan = $how;\n" . join('', map { "SELECT count(*), md5(string_agg(q::text, ' ' ORDER BY q::text)) FROM ($_) AS q;\n" } @queries)) ]
	} 'force', 'off';
	my @different = grep { $answers[0][$_] ne $answers[1][$_] } 0 .. $#queries;
	is(join("\n", map { "$queries[$_]: $answers[0][$_], natively $answers[1][$_]" } @different), '', "$label: the same with index tables and without");
	return;
}

# Sessions outlive clients that were sent away.
sub await_sessions
{
	my ($node) = @_;
	$node->poll_query_until('postgres', q{SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE application_name ~ '^(?:writer|operator|preparer|reader)'})
	  or die 'sessions do not end';
	return;
}

# Whatever is complete and not deferred is exact, without anybody's help.
sub exact_ok
{
	my ($node, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	await_sessions($node);
	is($node->safe_psql('postgres', q{
SELECT string_agg(format('%s: %s', i.index_table, p), ', ') FROM index_table.index_tables AS i, LATERAL oracle.problems(i.index_table::text) AS p
 WHERE i.is_complete AND i.maintenance = 'immediate' AND i.index_table::text !~ '^new_' AND p <> 0
   -- Rows of a partition whose detachment is pending are not seen any more; its entries are there until that is carried on.
   AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhdetachpending)}), '', "$label: what is complete is exact");
	return;
}

# A command that deadlocks with autovacuum or a worker is tried again.
sub done_ok
{
	my ($node, $sql, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $error;
	foreach (1 .. 20)
	{
		(undef, undef, $error) = $node->psql('postgres', "SET client_min_messages = error;\n$sql", on_error_stop => 1);
		last unless $error =~ /deadlock/;
	}
	is($error, '', $label) if $error;
	return;
}

sub settle_ok
{
	my ($node, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	await_sessions($node);
	# What was interrupted is completed, or dropped.
	my %fates;
	foreach my $name (split /\n/, $node->safe_psql('postgres', 'SELECT index_table FROM index_table.index_tables WHERE NOT is_complete'))
	{
		my $is_dropped = $name =~ /^new_/ && rand() < 0.5;
		done_ok($node, $is_dropped ? "DROP TABLE $name" : "CALL index_table.rebuild('$name')", "$label: $name");
		$fates{ $is_dropped ? 'dropped' : 'completed' }++;
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.index_tables WHERE NOT is_complete'), '0', "$label: all are complete");
	foreach my $name (split /\n/, $node->safe_psql('postgres', q{SELECT index_table FROM index_table.index_tables WHERE index_table::text ~ '^new_'}))
	{
		is($node->safe_psql('postgres', "CALL index_table.drain(); SELECT v::text FROM index_table.verify('$name') AS v LIMIT 5"), '', "$label: $name is what it should be");
	}
	done_ok($node, $_, "$label: $_") foreach 'DROP TABLE IF EXISTS "Odd.Names".late', split(/\n/, $node->safe_psql('postgres', q{
SELECT format('DROP %s IF EXISTS %s', CASE WHEN relkind IN ('i', 'I') THEN 'INDEX' ELSE 'TABLE' END, oid::regclass)
  FROM pg_class WHERE relname ~ '^new_' AND relkind IN ('r', 'p', 'i', 'I') AND NOT relispartition ORDER BY relkind DESC}));
	# A detachment that was interrupted between its transactions is carried on.
	if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_inherits WHERE inhdetachpending}))
	{
		done_ok($node, 'ALTER TABLE customers DETACH PARTITION customers_2 FINALIZE', "$label: detached");
	}
	done_ok($node, $_, "$label: $_") foreach 'ALTER TABLE customers ALTER town TYPE text', q{SELECT index_table.set_maintenance('customers_by_town', 'immediate')};
	# Keys of rows that were out may have been taken meanwhile.
	if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'customers_2' AND NOT relispartition}))
	{
		done_ok($node, 'ALTER TABLE customers_2 ALTER town TYPE text; DELETE FROM customers_2 WHERE email IN (SELECT email FROM customers); ALTER TABLE customers ATTACH PARTITION customers_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2)', "$label: attached");
	}
	done_ok($node, "CREATE TABLE IF NOT EXISTS customers_$_ PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER $_)", "$label: there again") foreach 0 .. 2;
	# Indexes that a partition had when it was detached are its own.
	done_ok($node, $_, "$label: $_") foreach split /\n/, $node->safe_psql('postgres', q{
SELECT format('DROP INDEX IF EXISTS %s', i.oid::regclass) FROM pg_class AS i JOIN pg_index AS x ON x.indexrelid = i.oid JOIN pg_class AS t ON t.oid = x.indrelid JOIN pg_am AS a ON a.oid = i.relam
 WHERE a.amname = 'global' AND NOT i.relispartition AND t.relispartition});
	done_ok($node, $fill, "$label: filled");
	done_ok($node, 'CALL index_table.drain()', "$label: drained");
	return \%fates;
}

sub prepare_load
{
	my ($node) = @_;
	prepare_work($node);
	prepare_global_checks($node, 'postgres');
	# An index for drains stays.
	done_ok($node, $_, $_) foreach map({ "SELECT index_table.set_maintenance('customers_by_town', '$_')" } 'deferred', 'immediate'), 'CALL index_table.drain()';
	return;
}

# Relations, and what the extension and catalogs have for them. Attributes are not counted: a partition that is made
# anew has none that were dropped. Nor are CHECK constraints: DETACH CONCURRENTLY leaves one on the partition.
sub traces
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{
SELECT c.oid::regclass, c.relkind FROM pg_class AS c WHERE c.relkind <> 't' AND c.oid >= 16384 AND c.relnamespace <> 'pg_toast'::regnamespace ORDER BY c.oid::regclass::text COLLATE "C";
SELECT 'constraint', conrelid::regclass, contype FROM pg_constraint WHERE oid >= 16384 AND contype <> 'c' ORDER BY conrelid::regclass::text COLLATE "C", contype;
SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^index_table_global'), (SELECT count(*) FROM pg_trigger),
       (SELECT count(*) FROM pg_index WHERE NOT indisvalid), (SELECT count(*) FROM index_table.definition), (SELECT count(*) FROM index_table.partition),
       (SELECT count(*) FROM index_table.loaded_partition), (SELECT count(*) FROM pg_prepared_xacts)});
}

sub difference
{
	my ($before, $after) = @_;
	my %count;
	$count{$_}-- foreach split /\n/, $before;
	$count{$_}++ foreach split /\n/, $after;
	return join("\n", map { $count{$_} > 0 ? "+ $_" : "- $_" } grep { $count{$_} } sort keys %count);
}

1;
