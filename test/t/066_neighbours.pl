# Extensions that people have beside this one, in both orders of preloading where they are preloaded:
# index tables and global indexes stay in step and answer as without, and the neighbour does its work.
# One that is not installed is skipped, by name.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('neighbours', allows_streaming => 'logical', conf => "max_worker_processes = 20\n");

# A later minor version wants to be told of output plugins.
my $trusted = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}) ? "output_plugin_libraries = 'wal2json,pg_squeeze'\n" : '';

# Of each: the library that is preloaded (with what it needs before it), the extension, settings, what
# is executed with it, and what must come of that.
my @neighbours = (
	{ name => 'pg_stat_statements', library => 'pg_stat_statements', extension => 'pg_stat_statements',
		sql => q{SELECT sum(calls) >= 5 FROM pg_stat_statements WHERE query ~ '^EXECUTE|^PREPARE|^SELECT id FROM customers WHERE email'}, result => 't' },
	{ name => 'auto_explain', library => 'auto_explain', conf => "auto_explain.log_min_duration = 0\nauto_explain.log_analyze = on\nauto_explain.log_verbose = on\nauto_explain.log_nested_statements = on\nlog_min_messages = log\n",
		log => qr/Custom Scan \(IndexTableScan\)|Index Table: / },
	{ name => 'pgaudit', library => 'pgaudit', extension => 'pgaudit', conf => "pgaudit.log = 'all'\npgaudit.log_relation = on\npgaudit.log_catalog = off\nlog_min_messages = log\n",
		log => [ qr/AUDIT: SESSION,\d+,\d+,READ,SELECT,TABLE,public\.customers,/, qr/AUDIT: SESSION,\d+,\d+,WRITE,UPDATE,TABLE,public\.customers,/, qr/AUDIT: OBJECT,\d+,\d+,READ,SELECT,TABLE,public\.customers,.*audited/ ],
		sql => q{CREATE ROLE auditor_DATABASE; GRANT SELECT (email) ON customers TO auditor_DATABASE; SET pgaudit.role = auditor_DATABASE; SET index_table.enable_scan = force;
			SELECT id /* audited */ FROM customers WHERE email = 'mail3'; SELECT id /* by another column */ FROM customers WHERE lower(town) = 'town 3' AND id = 3; REVOKE ALL ON customers FROM auditor_DATABASE; DROP ROLE auditor_DATABASE}, result => "3\n3",
		# What entries are read and written in the course of a statement is no statement of anybody's.
		silent => [ qr/AUDIT: OBJECT.*by another column/, qr/AUDIT: \w+,\d+,\d+,\w+,\w+,TABLE,public\.customers_by_\w+,"?[^,\n]*(audited|UPDATE customers|INTO customers|DELETE FROM customers|FROM customers WHERE)/ ] },
	{ name => 'hypopg', library => 'hypopg', extension => 'hypopg',
		sql => q{SELECT count(*) FROM hypopg_create_index('CREATE INDEX ON customers_0 (town)');
			SET index_table.enable_scan = force;
			EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE town = 'Town 3' AND email = 'mail3';
			SELECT count(*) FROM customers WHERE town = 'Town 3' AND email = 'mail3'}, result => qr/^1\n(.*\n)+1$/ },
	{ name => 'pg_cron', library => 'pg_cron', extension => 'pg_cron', conf => "cron.database_name = 'DATABASE'\ncron.use_background_workers = on\n",
		sql => q{DELETE FROM customers WHERE id % 7 = 0; TRUNCATE "Odd.Names".low_other; SELECT index_table.set_maintenance('customers_by_town', 'deferred'); UPDATE customers SET town = 'Town 3' WHERE id % 7 = 1;
			SELECT cron.schedule('vacuum', '* * * * *', 'SELECT index_table.vacuum()') > 0, cron.schedule('drain', '* * * * *', 'CALL index_table.drain()') > 0,
			cron.schedule('verify', '* * * * *', $$SELECT count(*) FROM index_table.verify('customers_by_email')$$) > 0}, result => "\nt|t|t",
		await => q{SELECT count(DISTINCT jobid) = 3 FROM cron.job_run_details WHERE status = 'succeeded'},
		after => q{SELECT count(*) FROM cron.job_run_details WHERE status = 'failed'; SELECT pending FROM index_table.stat WHERE index_table = 'customers_by_town'::regclass; SELECT count(*) FROM index_table.retired_partition}, left => "0\n0\n0" },
	{ name => 'pg_qualstats', library => 'pg_stat_statements,pg_qualstats', extension => 'pg_qualstats', conf => "pg_qualstats.sample_rate = 1\n",
		sql => q{SELECT count(*) > 0 FROM pg_qualstats WHERE lrelid = 'customers'::regclass OR rrelid = 'customers'::regclass OR lrelid IN (SELECT relid FROM pg_partition_tree('customers'))}, result => 't' },
	{ name => 'pg_stat_kcache', library => 'pg_stat_statements,pg_stat_kcache', needs => 'pg_stat_statements', extension => 'pg_stat_kcache',
		sql => 'SELECT count(*) > 0 FROM pg_stat_kcache()', result => 't' },
	{ name => 'pg_wait_sampling', library => 'pg_stat_statements,pg_wait_sampling', extension => 'pg_wait_sampling',
		sql => 'SELECT count(*) > 0 FROM pg_wait_sampling_current', result => 't' },
	{ name => 'powa', library => 'pg_stat_statements,powa', extension => 'powa', needs => 'btree_gist, pg_stat_statements', sql => 'SELECT powa_take_snapshot() >= 0', result => 't' },
	{ name => 'set_user', library => 'set_user', extension => 'set_user', sql => 'SELECT count(*) FROM customers', result => qr/^\d+$/ },
	{ name => 'plpgsql_check', library => 'plpgsql,plpgsql_check', extension => 'plpgsql_check',
		sql => q{CREATE FUNCTION of_email(text) RETURNS int LANGUAGE plpgsql AS 'DECLARE found int; BEGIN SELECT id INTO found FROM customers WHERE email = $1; UPDATE customers SET phone = phone WHERE email = $1; RETURN found; END';
			SELECT count(*) FROM plpgsql_check_function('of_email(text)', performance_warnings => false) AS line WHERE line ~ 'error'; SELECT of_email('mail3')}, result => "0\n3" },
	{ name => 'pglogical', library => 'pglogical', extension => 'pglogical', conf => "track_commit_timestamp = on\n",
		sql => q{SELECT count(*) FROM pglogical.create_node('here', 'dbname=nowhere');
			SELECT pglogical.replication_set_add_table('default', 'plain'); SELECT count(*) FROM pglogical.replication_set_table}, result => "1\nt\n1" },
	{ name => 'repmgr', library => 'repmgr', extension => 'repmgr', sql => 'SELECT count(*) FROM repmgr.nodes', result => '0' },
	{ name => 'timescaledb', library => 'timescaledb', extension => 'timescaledb', conf => "timescaledb.telemetry_level = off\n",
		sql => q{CREATE TABLE measures (id int, at timestamptz NOT NULL); SET client_min_messages = error; SELECT count(*) FROM create_hypertable('measures', 'at');
			INSERT INTO measures SELECT i, timestamptz '2026-01-01' + i * interval '1 day' FROM generate_series(1, 50) AS i; SELECT count(*) > 1 FROM show_chunks('measures');
			SET index_table.enable_scan = force; SELECT count(*) FROM measures m JOIN customers c ON c.email = 'mail' || m.id WHERE m.id < 9}, result => "1\nt\n8" },
	{ name => 'pg_squeeze', library => 'pg_squeeze', extension => 'pg_squeeze', conf => $trusted, # see 151_squeeze.pl
		sql => q{SELECT squeeze.squeeze_table('public', 'plain'); SELECT ins_initial FROM squeeze.log}, result => "\n100" },
	{ name => 'wal2json', plugin => 'wal2json', conf => $trusted },
	{ name => 'pgtap', extension => 'pgtap',
		sql => q{SELECT plan(2); SELECT has_table('customers_by_email'); SELECT results_eq($$SELECT id FROM customers WHERE email = 'mail3'$$, ARRAY[3]); SELECT count(*) FROM finish()},
		result => qr/^1\.\.2\nok 1 .*\nok 2.*\n0$/ },
	{ name => 'rum', extension => 'rum',
		sql => q{CREATE INDEX by_words ON "Odd.Names"."Events" USING global (to_tsvector('simple', note)) WITH (method = rum);
			SELECT differing($$SELECT id FROM "Odd.Names"."Events" WHERE to_tsvector('simple', note) @@ to_tsquery('simple', 'note & 3')$$);
			SELECT count(*) FROM index_table.verify('"Odd.Names".by_words');
			CREATE TABLE talks (id int PRIMARY KEY, words tsvector) PARTITION BY HASH (id);
			CREATE TABLE talks_0 PARTITION OF talks FOR VALUES WITH (MODULUS 2, REMAINDER 0);
			CREATE TABLE talks_1 PARTITION OF talks FOR VALUES WITH (MODULUS 2, REMAINDER 1);
			INSERT INTO talks SELECT i, to_tsvector('simple', 'a' || i % 7 || repeat(' x', i % 5) || ' b' || i % 11) FROM generate_series(1, 500) AS i;
			SELECT index_table.create('talks', 'id', strategy => 'denormalized', maintenance => 'deferred') IS NULL;
			CREATE INDEX talks_rum ON talks_by_id USING rum (words rum_tsvector_ops);
			BEGIN; -- else a worker drains the queue
			UPDATE talks SET words = to_tsvector('simple', 'b3 a2 a2') WHERE id % 50 = 0;
			DELETE FROM talks WHERE id % 9 = 0;
			SET index_table.enable_scan = force; SET enable_sort = off;
			SELECT count(*) > 0 FROM talks_by_id_queue;
			SELECT bool_or(line ~ 'Order By') AND bool_or(line ~ 'Index: talks_rum') FROM explained($$SELECT id FROM talks WHERE words @@ 'a2 & b3' ORDER BY words <=> 'a2 & b3'::tsquery LIMIT 7$$) AS line;
			SELECT differing($$SELECT words <=> 'a2 & b3'::tsquery FROM talks WHERE words @@ 'a2 & b3' ORDER BY words <=> 'a2 & b3'::tsquery LIMIT 7$$);
			COMMIT}, result => "0\n0\nf\nt\nt\n0" },
	{ name => 'pg_hint_plan', library => 'pg_hint_plan', extension => 'pg_hint_plan',
		sql => q{SET index_table.enable_scan = force;
			/*+ SeqScan(customers) */ SELECT id FROM customers WHERE email = 'mail3';
			/*+ SeqScan(customers) */ SELECT id + 1 FROM customers WHERE email = 'mail3';
			/*+ IndexScan(customers customers_by_email) */ SELECT id FROM customers WHERE email = 'mail3';
			/*+ Leading((c e)) NestLoop(c e) */ SELECT count(*) FROM customers c JOIN "Odd.Names"."Events" e ON c.email = 'mail' || e.id WHERE e."Code" = 'Code5'},
		result => "3\n4\n3\n1" },
	{ name => 'pgvector', extension => 'vector',
		sql => q{CREATE TABLE items (id int, v vector(3)) PARTITION BY HASH (id);
			CREATE TABLE items_0 PARTITION OF items FOR VALUES WITH (MODULUS 2, REMAINDER 0);
			CREATE TABLE items_1 PARTITION OF items FOR VALUES WITH (MODULUS 2, REMAINDER 1);
			INSERT INTO items SELECT i, ARRAY[i % 17, i % 23, i % 29]::real[]::vector FROM generate_series(1, 500) AS i;
			CREATE INDEX by_v ON items USING global (v vector_l2_ops) WITH (method = hnsw);
			UPDATE items SET v = '[1,2,3]' WHERE id = 7;
			DELETE FROM items WHERE id % 5 = 0;
			VACUUM items;
			SELECT count(*) FROM index_table.verify('by_v');
			SET index_table.enable_scan = force;
			SELECT id FROM items ORDER BY v <-> '[1,2,3]' LIMIT 1;
			CREATE TABLE goods (id int PRIMARY KEY, kind int, v vector(3)) PARTITION BY HASH (id);
			CREATE TABLE goods_0 PARTITION OF goods FOR VALUES WITH (MODULUS 2, REMAINDER 0);
			CREATE TABLE goods_1 PARTITION OF goods FOR VALUES WITH (MODULUS 2, REMAINDER 1);
			INSERT INTO goods SELECT i, i % 3, ARRAY[i % 17, i % 23, i % 29]::real[]::vector FROM generate_series(1, 500) AS i;
			SELECT index_table.create('goods', 'kind', strategy => 'partial', include => 'v', maintenance => 'deferred') IS NULL;
			CREATE INDEX goods_v ON goods_by_kind USING hnsw (v vector_l2_ops);
			SELECT bool_or(line ~ 'Order By') AND bool_or(line ~ 'Index: goods_v') FROM explained($$SELECT id FROM goods ORDER BY v <-> '[4,5,6]' LIMIT 3$$) AS line;
			SELECT differing($$SELECT v <-> '[4,5,6]' FROM goods ORDER BY v <-> '[4,5,6]' LIMIT 5$$);
			BEGIN; -- else a worker drains the queue
			UPDATE goods SET v = '[4,5,6]' WHERE id = 7;
			UPDATE goods SET v = '[9,9,900]' WHERE id IN (SELECT id FROM goods ORDER BY v <-> '[4,5,6]', id LIMIT 3 OFFSET 1);
			DELETE FROM goods WHERE id % 5 = 0;
			SELECT count(*) > 0 FROM goods_by_kind_queue;
			SELECT differing($$SELECT v <-> '[4,5,6]' FROM goods ORDER BY v <-> '[4,5,6]' LIMIT 5$$);
			SELECT id FROM goods ORDER BY v <-> '[4,5,6]' LIMIT 1;
			COMMIT;
			CALL index_table.drain('goods_by_kind');
			SELECT differing($$SELECT v <-> '[4,5,6]' FROM goods ORDER BY v <-> '[4,5,6]' LIMIT 5$$);
			SELECT id FROM goods ORDER BY v <-> '[4,5,6]' LIMIT 1},
		result => "0\n7\nf\nt\n0\nt\n0\n7\n0\n7" },
	{ name => 'postgis', extension => 'postgis',
		sql => q{CREATE TABLE places (id int, spot geometry(Point, 4326)) PARTITION BY HASH (id);
			CREATE TABLE places_0 PARTITION OF places FOR VALUES WITH (MODULUS 2, REMAINDER 0);
			CREATE TABLE places_1 PARTITION OF places FOR VALUES WITH (MODULUS 2, REMAINDER 1);
			INSERT INTO places SELECT i, ST_SetSRID(ST_Point(i * 7 % 180, i * 11 % 90), 4326) FROM generate_series(1, 2000) AS i;
			CREATE INDEX by_spot ON places USING global (spot) WITH (method = gist);
			CREATE INDEX by_spot_again ON places USING global (spot) WITH (method = spgist);
			SELECT differing($$SELECT id FROM places WHERE spot && ST_MakeEnvelope(10, 10, 20, 20, 4326)$$);
			SELECT differing($$SELECT id FROM places WHERE ST_DWithin(spot, ST_SetSRID(ST_Point(50, 50), 4326), 3)$$);
			SELECT differing($$SELECT spot <-> ST_SetSRID(ST_Point(50, 50), 4326) FROM places ORDER BY spot <-> ST_SetSRID(ST_Point(50, 50), 4326) LIMIT 7$$);
			SELECT count(*) FROM index_table.verify('by_spot'); SELECT count(*) FROM index_table.verify('by_spot_again')}, result => "0\n0\n0\n0\n0" });

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
my $events = '"Odd.Names"."Events"';
my @identity = ('id', 'day', 'kind');
my $oracle = oracle_sql(
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_town', base => 'customers', key => ['lower(b.town)'], copies => [ 'id', 'phone' ], identity => 1),
	describe(name => 'customers_by_phone', base => 'customers', key => ['b.phone'], copies => [ 'id', 'email', 'town', 'tags', 'active' ], identity => 1),
	describe(name => 'customers_by_tag', base => 'customers', key => ['m.v'], elements => $tags, copies => ['id'], identity => 1),
	describe(name => '"Odd.Names"."Events_by_Code"', base => $events, key => ['b."Code"'], predicate => "b.kind <> 'b'", copies => \@identity, identity => 3, is_unique => 1),
	describe(name => '"Odd.Names"."By ""Note"""', base => $events, key => ['upper(b.note)'], copies => [ @identity, '"Code"', 'note' ], identity => 3),
	describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1, is_unique => 1));

# How many rows differ between a query with index tables and without.
my $differing = q{
CREATE FUNCTION differing(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE differences bigint;
BEGIN
	SET LOCAL index_table.enable_scan = force;
	EXECUTE 'CREATE TEMP TABLE through ON COMMIT DROP AS ' || query;
	SET LOCAL index_table.enable_scan = off;
	EXECUTE 'CREATE TEMP TABLE native ON COMMIT DROP AS ' || query;
	RESET index_table.enable_scan;
	SELECT count(*) INTO differences FROM ((TABLE through EXCEPT ALL TABLE native) UNION ALL (TABLE native EXCEPT ALL TABLE through)) AS d;
	DROP TABLE through, native;
	RETURN differences;
END $$;
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END $$;
};

# Reads and changes of every kind, planned once and anew; returns what differs.
my $use = q{
SET index_table.enable_scan = force;
PREPARE of_email(text) AS SELECT id FROM customers WHERE email = $1;
EXECUTE of_email('mail3') \; EXECUTE of_email('mail4') \; EXECUTE of_email('mail5') \; EXECUTE of_email('mail6') \; EXECUTE of_email('mail7') \; EXECUTE of_email('mail8');
SELECT id FROM customers WHERE email = 'mail9';
INSERT INTO customers VALUES (5001, 'mail1', 'Town 1', '{t1}', '555-0', true) ON CONFLICT (email) DO UPDATE SET town = 'Town X';
INSERT INTO customers SELECT i, 'new' || i, 'Town ' || i % 9, '{n}', NULL, false FROM generate_series(6001, 6100) i;
UPDATE customers SET phone = phone || 'x', tags = tags || '{u}' WHERE email IN ('mail10', 'mail11', 'new6001');
UPDATE customers SET id = id + 10000 WHERE email = 'mail12';
MERGE INTO customers c USING (VALUES ('mail13'), ('mail99999')) s (email) ON c.email = s.email
 WHEN MATCHED THEN UPDATE SET town = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (7001, s.email, 'merged', NULL, NULL, true);
DELETE FROM customers WHERE email BETWEEN 'mail20' AND 'mail29';
BEGIN; SELECT id FROM customers WHERE email = 'mail14' FOR UPDATE; SAVEPOINT s; UPDATE customers SET email = 'elsewhere' WHERE email = 'mail14'; ROLLBACK TO s; COMMIT;
TRUNCATE "Odd.Names".low_a;
VACUUM customers;
};
my @queries = (q{SELECT id, email FROM customers WHERE email = 'mail13'}, q{SELECT id FROM customers WHERE lower(town) = 'town 3'}, q{SELECT * FROM customers WHERE phone > '555-9'},
	q{SELECT id FROM customers WHERE active AND email LIKE 'new%'}, q{SELECT e.id FROM "Odd.Names"."Events" e JOIN customers c ON c.email = 'mail' || e.id WHERE e."Code" IN ('Code5', 'Code155')},
	q{SELECT id FROM customers WHERE town = 'merged'});

# Whether the neighbour is there.
sub is_installed
{
	my ($neighbour) = @_;
	foreach my $extension (grep { defined } $neighbour->{extension}, split(/, */, $neighbour->{needs} // ''))
	{
		return 0 unless has_extension($node, $extension);
	}
	my $directory = $node->config_data('--pkglibdir');
	foreach my $library (grep { defined } $neighbour->{plugin}, split(/,/, $neighbour->{library} // ''))
	{
		return 0 unless -e "$directory/$library.so";
	}
	return 1;
}

# What else is in the configuration from now on.
sub set_conf
{
	my ($conf) = @_;
	open(my $file, '>', $node->data_dir . '/neighbour.conf') or die $!;
	print $file $conf;
	close($file);
	$node->restart;
	return;
}

# preloaded: what shared_preload_libraries is.
sub live_beside
{
	my ($neighbour, $database, $preloaded) = @_;
	my $label = $preloaded ? "$neighbour->{name} ($preloaded)" : $neighbour->{name};
	my $log_start = -s $node->logfile;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$preloaded'");
	set_conf(($neighbour->{conf} // '') =~ s/DATABASE/$database/r);
	foreach my $extension (split(/, */, $neighbour->{needs} // ''), $neighbour->{extension} // ())
	{
		$node->safe_psql($database, "CREATE EXTENSION IF NOT EXISTS $extension");
	}
	$node->safe_psql($database, "SELECT pg_create_logical_replication_slot('neighbour', '$neighbour->{plugin}')") if $neighbour->{plugin};
	$node->safe_psql($database, varied_tables_sql() . $differing . $oracle . q{
		CREATE INDEX by_any_town ON customers USING global (town);
		CREATE INDEX by_any_tag ON customers USING global (tags) WITH (method = gin)});
	my ($status, $stdout, $stderr) = $node->psql($database, $use, on_error_stop => 1);
	is("$status$stderr", '0', "$label: reads and changes");
	oracle_ok($node, $database, "$label: in step", 100);
	is($node->safe_psql($database, join('; ', map { 'SELECT differing(' . quote_literal($_) . ')' } @queries)), join("\n", (0) x @queries), "$label: queries");
	is($node->safe_psql($database, q{SELECT count(*) FROM index_table.verify('by_any_town'); SELECT count(*) FROM index_table.verify('by_any_tag')}), "0\n0", "$label: global indexes");
	if ($neighbour->{sql})
	{
		($status, $stdout, $stderr) = $node->psql($database, $neighbour->{sql} =~ s/DATABASE/$database/gr, on_error_stop => 1);
		is($stderr, '', "$label: its own work");
		ref $neighbour->{result} ? like($stdout, $neighbour->{result}, "$label: as it should be") : is($stdout, $neighbour->{result}, "$label: as it should be");
	}
	if ($neighbour->{await})
	{
		ok($node->poll_query_until($database, $neighbour->{await}), "$label: it gets there");
		is($node->safe_psql($database, $neighbour->{after}), $neighbour->{left}, "$label: all is done");
		oracle_ok($node, $database, "$label: in step afterwards", 100);
	}
	my $log = slurp_file($node->logfile, $log_start);
	like($log, $_, "$label: in the log") foreach ref $neighbour->{log} eq 'ARRAY' ? @{ $neighbour->{log} } : grep { defined } $neighbour->{log};
	unlike($log, $_, "$label: not in the log") foreach @{ $neighbour->{silent} // [] };
	if ($neighbour->{plugin})
	{
		my $changes = $node->safe_psql($database, "SELECT data FROM pg_logical_slot_get_changes('neighbour', NULL, NULL)");
		like($changes, qr/"table":"customers_\d"/, "$label: changes of tables are sent");
		unlike($changes, qr/"table":"customers_by_|"schema":"index_table"/, "$label: those of index tables are not");
		$node->safe_psql($database, "SELECT pg_drop_replication_slot('neighbour')");
	}
	unlike(slurp_file($node->logfile, $log_start), qr/terminated by signal|PANIC|TRAP/, "$label: nothing crashed");
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'index_table'");
	set_conf('');
	$node->safe_psql('postgres', "DROP DATABASE $database WITH (FORCE)"); # drain workers may be there
	return;
}

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'index_table'\ninclude = 'neighbour.conf'\n");
my (@missing, @met);
my $count = 0;
foreach my $neighbour (@neighbours)
{
	if (!is_installed($neighbour))
	{
		push @missing, $neighbour->{name};
		next;
	}
	push @met, $neighbour->{name};
	my $library = $neighbour->{library};
	live_beside($neighbour, 'n' . ++$count, $library ? "$library,index_table" : 'index_table');
	live_beside($neighbour, 'n' . ++$count, "index_table,$library") if $library;
}
diag('beside: ' . join(', ', @met));
diag('not installed: ' . join(', ', @missing)) if @missing;
cmp_ok($count, '>', 0, 'neighbours were met');

$node->stop;
done_testing();
