# TimescaleDB beside index tables: tables of each go on as they are, in the same queries too. Hypertables and their
# chunks have neither index tables nor global indexes nor queues of changes; where a table that has index tables, or is
# captured, is made a hypertable, nothing goes untold: writers are refused until it is rid of them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('timescaledb', conf => "max_worker_processes = 20\nshared_preload_libraries = ''\n");
plan skip_all => 'TimescaleDB is not installed' unless has_extension($node, 'timescaledb');
plan skip_all => 'no amcheck' unless has_amcheck($node);
$node->append_conf('postgresql.conf', "timescaledb.telemetry_level = off\n");

my $db;

sub refused
{
	my ($label, $sql, $message) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my (undef, undef, $errors) = $node->psql($db, "\\set VERBOSITY verbose\n$sql");
	like($errors, qr/ERROR:  0A000: $message.*\nHINT:  \w/s, "$label: refused, with a hint");
	return;
}

my $rows = q{SELECT i, timestamptz '2026-01-01' + i * interval '1 day', 'k' || i % 5, i % 7 FROM generate_series(1, 70) AS i};

foreach my $preloaded ('timescaledb,index_table', 'index_table,timescaledb')
{
	$db = $preloaded =~ /^t/ ? 'first' : 'last';
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$preloaded'");
	$node->restart;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION timescaledb');
	$node->safe_psql($db, varied_tables_sql() . oracle_sql(
			describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
			describe(name => 'customers_by_town', base => 'customers', key => ['lower(b.town)'], copies => [ 'id', 'phone' ], identity => 1),
			describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1, is_unique => 1)) . qq{
		CREATE INDEX by_any_town ON customers USING global (town);
		CREATE TABLE measures (id int, at timestamptz NOT NULL, k text, n int, PRIMARY KEY (id, at));
		SELECT create_hypertable('measures', 'at');
		CREATE TABLE hollow (LIKE measures INCLUDING ALL);
		SELECT create_hypertable('hollow', 'at');
		INSERT INTO measures $rows;
	});
	my $chunk = $node->safe_psql($db, q{SELECT min(c::text) FROM show_chunks('measures') AS c});

	# --- What a hypertable does not have ---------------------------------------------------

	foreach my $table ('hollow', 'measures', $chunk)
	{
		refused("$preloaded: $table", "SELECT index_table.create('$table', 'k')", 'cannot create an index table over');
		refused("$preloaded: $table, deferred", "SELECT index_table.create('$table', 'k', maintenance => 'deferred')", 'cannot create an index table over');
		refused("$preloaded: $table, online", "CALL index_table.create_concurrently('$table', 'k')", 'cannot create an index table over');
		refused("$preloaded: $table, global index", "CREATE INDEX ON $table USING global (k)", 'access method "global" does not support hypertables');
		like(sqlstate($node, $db, "SELECT index_table.capture('$table')"), qr/^42809: cannot capture/, "$preloaded: $table: no queue");
	}
	is($node->safe_psql($db, q{SELECT count(*) FROM index_table.definition WHERE base::text ~ 'measures|hollow|chunk'}), 0, "$preloaded: there is none");
	is($node->safe_psql($db, qq{INSERT INTO hollow $rows; SELECT count(*) FROM hollow}), 70, "$preloaded: they go on as they are");

	# --- Tables of each in one query -------------------------------------------------------

	$node->safe_psql($db, q{
		UPDATE customers SET email = 'm' || id WHERE email IN (SELECT 'mail' || id FROM measures WHERE n = 3);
		INSERT INTO measures SELECT id, now(), email, 1 FROM customers WHERE email BETWEEN 'mail30' AND 'mail39';
		DELETE FROM customers USING measures m WHERE email = 'mail' || m.id AND m.k = 'k4';
		INSERT INTO customers SELECT id + 5000, 'mail' || id, 'Town 1' FROM measures WHERE k LIKE 'k_' ON CONFLICT (email) DO UPDATE SET phone = 'again'});
	foreach my $query (q{SELECT c.id, m.at FROM measures m JOIN customers c ON c.email = 'mail' || m.id}, q{SELECT id FROM customers WHERE lower(town) = 'town 3' AND id IN (SELECT id FROM measures)},
		q{SELECT c.id FROM customers c WHERE town = 'Town 7' AND EXISTS (SELECT FROM measures m WHERE m.id = c.id AND m.at > '2026-01-15')},
		q{SELECT time_bucket('1 week', m.at) AS week, count(*) FROM measures m JOIN customers c ON c.email = 'mail' || m.id GROUP BY 1})
	{
		my @answers = map { $node->safe_psql($db, "SET index_table.enable_scan = $_; SELECT * FROM ($query) q ORDER BY q") } qw(force off);
		is($answers[0], $answers[1], "$preloaded: the same with index tables and without: $query");
		isnt($answers[0], '', "$preloaded: there are rows");
	}
	like($node->safe_psql($db, q{SET index_table.enable_scan = force; EXPLAIN (COSTS OFF) SELECT c.id FROM measures m JOIN customers c ON c.email = 'mail' || m.id}),
		qr/Index Table (Only )?Scan\) on customers/, "$preloaded: index tables are used");

	# --- Tables that are made hypertables afterwards ---------------------------------------

	foreach my $maintenance ('immediate', 'deferred')
	{
		foreach my $filled (0, 1)
		{
			my $table = "t_${maintenance}_$filled";
			my $label = "$preloaded: $maintenance, " . ($filled ? 'with rows' : 'empty');
			$node->safe_psql($db, qq{
				CREATE TABLE $table (LIKE measures INCLUDING ALL);
				SELECT index_table.create('$table', 'k', maintenance => '$maintenance');
				SELECT index_table.create('$table', 'id, at', name => '${table}_unique', is_unique => true, strategy => 'denormalized');
			});
			$node->safe_psql($db, "INSERT INTO $table $rows") if $filled;
			my $result = sqlstate($node, $db, "SET client_min_messages = error; SELECT create_hypertable('$table', 'at', migrate_data => true)");
			my $become = qr/"$table" has become a hypertable of TimescaleDB/;
			# Rows are written to its chunks; and some versions know of triggers that they do not follow.
			if ($filled || $result =~ /trigger/)
			{
				like($result, $result =~ /trigger/ ? qr/^0A000/ : qr/^0A000: $become/, "$label: it is refused");
				is($node->safe_psql($db, "SELECT count(*) FROM index_table.verify('${table}_by_k'); SELECT count(*) FROM index_table.verify('${table}_unique')"), "0\n0", "$label: nothing has happened");
				is($node->safe_psql($db, "INSERT INTO $table VALUES (1000, now(), 'new'); SET index_table.enable_scan = force; SELECT id FROM $table WHERE k = 'new'; DROP TABLE $table"), 1000, "$label: index tables go on");
				next;
			}
			refused("$label: INSERT", "INSERT INTO $table VALUES (1000, now())", $become);
			refused("$label: UPDATE", "UPDATE $table SET k = 'x' WHERE id = 3", $become);
			refused("$label: DELETE", "DELETE FROM $table WHERE id = 3", $become);
			refused("$label: MERGE", "MERGE INTO $table USING (VALUES (1)) v ON id = 2000 WHEN NOT MATCHED THEN INSERT VALUES (2000, now(), 'm')", $become);
			refused("$label: COPY", "COPY $table FROM STDIN;\n3000\t2026-01-01\n\\.\n", $become);
			refused("$label: lookup", "SELECT * FROM index_table.lookup('${table}_by_k', 'k1')", $become);
			refused("$label: fetch", "SELECT * FROM index_table.fetch(NULL::$table, '${table}_by_k', 'k1')", $become);
			refused("$label: verify", "SELECT * FROM index_table.verify('${table}_by_k')", $become);
			refused("$label: repair", "SELECT index_table.repair('${table}_by_k')", $become);
			refused("$label: rebuild", "CALL index_table.rebuild('${table}_by_k')", $become);
			my @answers = map { $node->safe_psql($db, "SET index_table.enable_scan = $_; SELECT count(*), sum(id) FROM $table WHERE k = 'k1'") } qw(force off);
			is("@answers", '0| 0|', "$label: queries do without index tables");
			$node->safe_psql($db, "SELECT index_table.drop('${table}_by_k'); SELECT index_table.drop('${table}_unique')");
			is($node->safe_psql($db, "INSERT INTO $table VALUES (1000, now(), 'k1'); UPDATE $table SET n = 9 WHERE k = 'k1'; SELECT count(*) FROM $table WHERE n = 9"), 1, "$label: a hypertable like any other without them");
		}
	}
	is($node->safe_psql($db, q{SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE tgname ~ '^index_table' AND relname ~ '^t_|chunk'}), 0, "$preloaded: no trigger is left");

	$node->safe_psql($db, q{CREATE TABLE captured (LIKE measures INCLUDING ALL); SELECT index_table.capture('captured')});
	if (sqlstate($node, $db, q{SET client_min_messages = error; SELECT create_hypertable('captured', 'at')}) eq '')
	{
		refused("$preloaded: captured", q{INSERT INTO captured VALUES (1, now())}, '"captured" has become a hypertable');
	}
	is($node->safe_psql($db, q{SELECT index_table.release('captured'); INSERT INTO captured VALUES (1, now()); SELECT count(*) FROM captured}), "\n1", "$preloaded: released");

	$node->safe_psql($db, qq{CREATE TABLE captured_1 (LIKE measures INCLUDING ALL); SELECT index_table.capture('captured_1'); INSERT INTO captured_1 $rows});
	like(sqlstate($node, $db, q{SET client_min_messages = error; SELECT create_hypertable('captured_1', 'at', migrate_data => true)}), qr/^0A000/, "$preloaded: captured, with rows");

	# --- What TimescaleDB itself refuses, as it does of any such table ----------------------

	foreach my $table ('customers', 'customers_0', 'plain_by_v', 'customers_by_email', 'customers_by_phone')
	{
		isnt(sqlstate($node, $db, "SELECT create_hypertable('$table', by_range('id', 1000), migrate_data => true)"), '', "$preloaded: $table stays what it is");
	}
	$node->safe_psql($db, q{CREATE TABLE vacant (id int NOT NULL, at timestamptz NOT NULL); SELECT create_hypertable('vacant', 'at');
		CREATE TABLE whole (id int, at timestamptz NOT NULL) PARTITION BY RANGE (at); SELECT index_table.create('whole', 'id', identity => 'id, at')});
	isnt(sqlstate($node, $db, q{ALTER TABLE whole ATTACH PARTITION vacant FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')}), '', "$preloaded: no hypertable becomes a partition");

	oracle_ok($node, $db, "$preloaded: in step", 100);
	check_global($node, $db, "$preloaded: global indexes");
	$node->safe_psql($db, 'DROP TABLE measures; DROP TABLE hollow; DROP TABLE captured; DROP TABLE captured_1; DROP TABLE vacant');
	is(sqlstate($node, $db, 'DROP EXTENSION timescaledb CASCADE'), '', "$preloaded: without TimescaleDB");
	oracle_ok($node, $db, "$preloaded: in step without it", 100);
	unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, "$preloaded: nothing crashed");
}
$node->stop;
done_testing();
