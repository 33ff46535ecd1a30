# Publications that name or imply index tables, their logs, queues and the extension's own tables:
# every server keeps its own, whatever they say. And dumps that are loaded as a replica loads rows.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $loaded = "session_preload_libraries = index_table\n";
my $publisher = new_node('publisher', allows_streaming => 'logical', conf => "logical_decoding_work_mem = 64kB\n$loaded");
my $subscriber = new_node('subscriber', conf => "wal_retrieve_retry_interval = 200ms\n$loaded");

# --- Tables -------------------------------------------------------------------------

my $tables = q{
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE TABLE people (id int PRIMARY KEY, email text, town text, tags text[], code int) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE people_2 PARTITION OF people FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE TABLE orders (id int PRIMARY KEY, what text, place int);
};

# Unique, partitioned, of many values, deferrable; with an owner's index, check and trigger; a queue.
my $index_tables = q{
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', strategy => 'denormalized', partitions => 4);
SELECT index_table.create('people', 'unnest(tags)', name => 'people_by_tag');
SELECT index_table.create('people', 'code', is_unique => true);
SELECT index_table.create('orders', 'place', is_unique => true, initially_deferred => true);
CREATE INDEX ON people_by_email USING hash (email);
ALTER TABLE people_by_email ADD CHECK (id > 0);
CREATE TABLE seen (n int);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (1); RETURN NULL; END';
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON people_by_code FOR EACH ROW EXECUTE FUNCTION see();
SELECT index_table.capture('orders');
};

my $oracle = oracle_sql(
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'email', 'tags', 'code' ], identity => 1),
	describe(name => 'people_by_code', base => 'people', key => ['b.code'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'people_by_tag', base => 'people', key => ['m.v'], copies => ['id'], identity => 1,
		elements => 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)'),
	describe(name => 'orders_by_place', base => 'orders', key => ['b.place'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'by_upper', base => 'people', key => ['upper(b.town)'], copies => ['id'], identity => 1));

sub rows
{
	my ($from, $to) = @_;
	return "INSERT INTO people SELECT i, 'mail' || i, 'town' || i % 7, ARRAY['t' || i % 3, 't' || i % 5], -i FROM generate_series($from, $to) i;";
}

# Rows that are queued, by a server itself: numbers are its own.
my $queued = q{SELECT count(*), string_agg(i, ' ' ORDER BY i) FROM (SELECT DISTINCT identity[1] AS i FROM index_table.pending('orders', 100000) WHERE identity IS NOT NULL) p};

sub contents
{
	my ($node, $db, $table) = @_;
	return $node->safe_psql($db, "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM $table t");
}

# What the extension knows on a server: nothing of another may come to it.
sub catalog
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, q{
		SELECT format('%s %s', index_table, key) FROM index_table.index_tables ORDER BY 1;
		SELECT format('%s %s', partition_id, relation) FROM index_table.partition ORDER BY 1;
		SELECT captured, queue FROM index_table.captured ORDER BY 1;
		SELECT count(*) FROM index_table.intent;});
}

# --- Replication of a database ------------------------------------------------------

my $log;

sub create_databases
{
	my ($db, $there, $here) = @_;
	$_->safe_psql('postgres', "CREATE DATABASE $db") foreach $publisher, $subscriber;
	$publisher->safe_psql($db, $there);
	$subscriber->safe_psql($db, $here);
	return;
}

sub subscribe
{
	my ($db, $options) = @_;
	$log = -s $subscriber->logfile;
	$subscriber->safe_psql($db,
		"CREATE SUBSCRIPTION $db CONNECTION " . quote_literal($publisher->connstr($db)) . " PUBLICATION p WITH ($options)");
	return;
}

# Waits until everything is there, and says whether tables are alike.
sub arrived
{
	my ($db, $label, @names) = @_;
	@names = ('people', 'orders') unless @names;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	eval {
		$subscriber->poll_query_until($db, "SELECT coalesce(bool_and(srsubstate IN ('r', 's')), true) FROM pg_subscription_rel")
		  or die 'tables are not synchronised';
		$publisher->wait_for_catchup($db);
		1;
	} or do { fail("$label: $@"); return; };
	is(contents($subscriber, $db, $_), contents($publisher, $db, $_), "$label: $_ arrived") foreach @names;
	is(sqlstate($subscriber, $db, "SELECT oracle.check_all('subscriber')"), '', "$label: in step");
	return;
}

# Ends it; nothing may have failed meanwhile.
sub unsubscribe
{
	my ($db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	# A worker that PostgreSQL starts anew may come before the last has ended, and a server that is asked for what a publication of
	# all tables has, while one is dropped, may look for that, too. The next try succeeds.
	my @errors = grep { /ERROR/ && !/replication origin with ID \d+ is already active|replication slot "\w+" is active for PID/ } split /\n/, slurp_file($subscriber->logfile, $log);
	my $is_dropped = qr/could not fetch .* info for table .* from publisher: ERROR:  could not open relation with OID/;
	my $dropped = grep { /$is_dropped/ } @errors;
	@errors = grep { !/$is_dropped/ } @errors;
	is($subscriber->safe_psql($db, "SELECT apply_error_count, coalesce(s->>'sync_error_count', s->>'sync_table_error_count')::int - $dropped FROM pg_stat_subscription_stats AS t, to_jsonb(t) AS s WHERE subname = '$db'"),
		'0|0', "$db: no worker has failed");
	is("@errors", '', "$db: no errors in the log");
	oracle_ok($_, $db, "$db: in step, and read") foreach $publisher, $subscriber;
	$subscriber->safe_psql($db, "DROP SUBSCRIPTION $db");
	$_->safe_psql('postgres', "DROP DATABASE $db") foreach $subscriber, $publisher;
	return;
}

my $insert_orders = "INSERT INTO orders SELECT i, 'x', i FROM generate_series(%s) i;";

# One step a line: what is done on the publisher.
my @steps = (
	[ 'INSERT' => rows(501, 700) . sprintf($insert_orders, '501, 510') ],
	[ 'UPDATE of keys' => "UPDATE people SET email = 'new' || id, town = 'moved', tags = tags || ARRAY['u', NULL], code = id WHERE id % 9 = 0;" ],
	[ 'UPDATE of copies' => "UPDATE people SET tags = '{}', email = repeat(md5(id::text), 80) || id WHERE id IN (11, 12);" ],
	[ 'UPDATE of no key' => "UPDATE people SET email = email WHERE id % 9 = 1; UPDATE orders SET what = 'y' WHERE id < 505;" ],
	[ 'UPDATE of partition keys' => "UPDATE people SET id = id + 10000 WHERE id % 4 = 0;" ],
	[ 'DELETE' => "DELETE FROM people WHERE id % 5 = 0; DELETE FROM orders WHERE id = 505; UPDATE orders SET place = place + 1;" ],
	[ 'exchanged keys' => "BEGIN; UPDATE people SET code = 2 - code WHERE code IN (-1, 3); UPDATE people SET email = 'x' WHERE id = 1;"
		  . " UPDATE people SET email = 'mail1' WHERE id = 2; UPDATE people SET email = 'mail2' WHERE id = 1; COMMIT;" ],
	[ 'ON CONFLICT' => "INSERT INTO people VALUES (20000, 'mail1', 'Linz', '{z}', 77), (20001, 'free', 'Linz', '{z}', 78) ON CONFLICT DO NOTHING;" ],
	[ 'a large transaction' => 'BEGIN; ' . rows(30001, 34000) . ' SAVEPOINT a; ' . rows(34001, 35000)
		  . " ROLLBACK TO a; UPDATE people SET town = 'large' WHERE id > 33000; COMMIT;" ],
	[ 'a prepared transaction' => 'BEGIN; ' . rows(40001, 40010) . " DELETE FROM people WHERE id < 10; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p';" ],
	[ 'vacuum, discard, repair' => "SELECT index_table.vacuum();"
		  . " SELECT index_table.discard('orders', array_agg(number)) FROM index_table.pending('orders', 100000);"
		  . " BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO people_by_tag SELECT * FROM people_by_tag LIMIT 9; COMMIT;"
		  . " SELECT index_table.repair('people_by_tag');" ],
	[ 'intents' => "INSERT INTO index_table.intent VALUES ('orders', '{id}', '{1}'); UPDATE index_table.intent SET settled_after = '1';"
		  . " DELETE FROM index_table.intent; INSERT INTO index_table.intent VALUES ('orders', '{id}', '{2}');" ],
	[ 'rebuild' => "CALL index_table.rebuild('people_by_tag');" ],
	[ 'TRUNCATE of a partition' => 'TRUNCATE people_1;' ],
	[ 'TRUNCATE' => 'TRUNCATE people; TRUNCATE orders;' ],
	[ 'INSERT after TRUNCATE' => rows(1, 50) . sprintf($insert_orders, '1, 5') ]);

# A build that fails at its end stays unfinished, and writers keep its log.
sub build_online
{
	my ($db) = @_;
	is(sqlstate($publisher, $db, "CALL index_table.create_concurrently('people', 'upper(town)', is_unique => true, name => 'by_upper')") =~ /^(\w+)/ ? $1 : '',
		'23505', "$db: a build that is not finished");
	$publisher->safe_psql($db, "INSERT INTO people (id, town) VALUES (60001, 'one'), (60002, 'two'); UPDATE people SET town = 'three' WHERE id = 60002;"
		  . 'DELETE FROM people WHERE id < 60000; UPDATE people SET id = id + 100;');
	cmp_ok($publisher->safe_psql($db, q{SELECT format('SELECT count(*) FROM %s', s.log) FROM index_table.definition, index_table.describe(index_table) s WHERE s.log IS NOT NULL \gexec}),
		'>', 10, "$db: its log is written to");
	$publisher->safe_psql($db, "CALL index_table.rebuild('by_upper')");
	return;
}

foreach my $case (
	[ 'all_copied', 'FOR ALL TABLES', 'streaming = on' ],
	[ 'all_root', 'FOR ALL TABLES WITH (publish_via_partition_root)', 'two_phase = on, streaming = off' ],
	[ 'all_later', 'FOR ALL TABLES', 'copy_data = false, two_phase = on, binary = on, streaming = off' ],
	[ 'schemas', 'FOR TABLES IN SCHEMA public, index_table', 'streaming = on, binary = on' ],
	[ 'list', 'FOR TABLE people, orders, people_by_email, people_by_town, people_by_tag, people_by_code, orders_by_place, orders_outbox,'
		  . ' index_table.definition, index_table.partition, index_table.captured, index_table.intent', 'streaming = off' ])
{
	my ($db, $publication, $options) = @$case;
	my ($copies, $roots) = ($options !~ /copy_data/, $publication =~ /root/);
	create_databases($db, $tables . $index_tables . $oracle, $tables . $index_tables . $oracle);
	my $rows = rows(1, 500) . sprintf($insert_orders, '1, 500');
	$publisher->safe_psql($db, $rows) if $copies;
	# Other numbers than there.
	$subscriber->safe_psql($db, rows(1, 3) . 'TRUNCATE people');
	my $known = catalog($subscriber, $db);
	$publisher->safe_psql($db, "CREATE PUBLICATION p $publication");
	subscribe($db, $options);
	$publisher->safe_psql($db, $rows) unless $copies;
	arrived($db, "$db: first rows");
	# Each has queued what has changed, under numbers of its own.
	$_->safe_psql($db, "SELECT index_table.discard('orders', array_agg(number)) FROM index_table.pending('orders', 100000)")
	  foreach $publisher, $subscriber;
	foreach my $step (@steps)
	{
		my ($label, $sql) = @$step;
		$publisher->safe_psql($db, $sql);
		next if $label eq 'TRUNCATE of a partition' && $roots; # not published
		arrived($db, "$db: $label");
		next unless $label =~ /^INSERT$|of no key|DELETE|discard/;
		my ($there, $here) = map { $_->safe_psql($db, $queued) } $publisher, $subscriber;
		if ($label !~ /discard/) { is($here, $there, "$db: $label: queued"); next; }
		is($there, '0|', "$db: discarded there");
		like($here, qr/^\d{3}\|/, "$db: not discarded here");
	}
	is(catalog($subscriber, $db) =~ s/^\d+ (people_\d|orders)$//gmr, $known =~ s/^\d+ (people_\d|orders)$//gmr, "$db: the subscriber knows its own");
	build_online($db);
	arrived($db, "$db: after a build");
	unsubscribe($db);
}

# --- A subscriber with no index tables, and with others -----------------------------

create_databases('others', $tables . $oracle, $tables . oracle_sql(
		describe(name => 'people_by_email', base => 'people', key => ['b.code'], copies => ['id'], identity => 1),
		describe(name => 'people_by_town', base => 'orders', key => ['b.what'], copies => ['id'], identity => 1),
		describe(name => 'of_tags', base => 'people', key => ['cardinality(b.tags)'], copies => ['id'], identity => 1)));
$publisher->safe_psql('others', 'CREATE PUBLICATION p FOR ALL TABLES;' . rows(1, 100));
subscribe('others', 'streaming = on');
$publisher->safe_psql('others', "SELECT index_table.create('people', 'email', is_unique => true);"
	  . "SELECT index_table.create('people', 'town', strategy => 'denormalized', partitions => 2); SELECT index_table.capture('orders')");
$publisher->safe_psql('others', "CALL index_table.create_concurrently('people', 'unnest(tags)', name => 'people_by_tag')");
$publisher->safe_psql('others', rows(101, 200) . sprintf($insert_orders, '1, 10') . "UPDATE people SET email = 'e' || id, town = 'x'; DELETE FROM people WHERE id < 10;");
arrived('others', 'no index tables');
is($subscriber->safe_psql('others', 'SELECT count(*) FROM index_table.definition'), '0', 'no index tables: nothing is known of any');
build_online('others');
$publisher->safe_psql('others', "SELECT index_table.drop('by_upper')");
$subscriber->safe_psql('others', q{
	SELECT index_table.create('people', 'code', name => 'people_by_email');
	SELECT index_table.create('orders', 'what', name => 'people_by_town');
	SELECT index_table.create('people', 'cardinality(tags)', name => 'of_tags');});
$publisher->safe_psql('others', rows(1, 50) . "UPDATE people SET email = 'f' || id, town = 'y', code = id + 1; UPDATE orders SET what = 'z' WHERE id > 5; DELETE FROM people WHERE id > 45;"
	  . " CALL index_table.rebuild('people_by_tag');");
arrived('others', 'other index tables');
unsubscribe('others');

# --- Index tables carried to plain tables -------------------------------------------

# An owner who gives an index table a replica identity has it published; to plain tables, of a server
# that knows nothing of the extension. Without one it stays as it was copied.
create_databases('copies', $tables . $oracle . rows(1, 200) . q{
	SELECT index_table.create('people', 'email', is_unique => true);
	SELECT index_table.create('people', 'town', strategy => 'denormalized', partitions => 2);
	SELECT index_table.create('people', 'code');
	CREATE TABLE oracle.none ();
	ALTER TABLE people_by_email REPLICA IDENTITY FULL;}, q{
	CREATE TABLE people_by_email (email text, partition_id int, id int);
	CREATE TABLE people_by_code (code int, partition_id int, id int, PRIMARY KEY (code, id));
	CREATE SCHEMA oracle;
	CREATE TABLE oracle.none ();
	CREATE FUNCTION oracle.check_all(text) RETURNS void LANGUAGE sql AS '';
	CREATE FUNCTION oracle.verify_all(text) RETURNS void LANGUAGE sql AS '';
	CREATE FUNCTION oracle.read_all(text, int) RETURNS void LANGUAGE sql AS '';});
my ($result, $stdout, $stderr) = $publisher->psql('copies', 'CREATE PUBLICATION p FOR TABLE people_by_email, people_by_code');
is($stderr =~ s/psql:<stdin>:1: //gr, "WARNING:  changes of \"people_by_code\" are not published: index_table keeps it local\n"
	  . 'HINT:  They are where it has a replica identity: ALTER TABLE ... REPLICA IDENTITY FULL.', 'publication: warned of');
subscribe('copies', 'streaming = on');
arrived('copies', 'copies: first rows', 'people_by_email', 'people_by_code');
$publisher->safe_psql('copies', rows(201, 3000) . "UPDATE people SET email = 'e' || id, code = id WHERE id % 3 = 0; DELETE FROM people WHERE id % 3 = 1; UPDATE people SET id = id + 10000 WHERE id % 5 = 0");
arrived('copies', 'copies: changes', 'people_by_email');
is($subscriber->safe_psql('copies', 'SELECT count(*) FROM people_by_code'), '200', 'copies: what has no identity stays');
$publisher->safe_psql('copies', 'ALTER TABLE people_by_email REPLICA IDENTITY DEFAULT; ALTER TABLE people_by_code REPLICA IDENTITY FULL;');
my $before = contents($subscriber, 'copies', 'people_by_email');
$publisher->safe_psql('copies', 'DELETE FROM people WHERE id % 2 = 0;' . rows(5001, 5010) . 'UPDATE people SET code = code - 10 WHERE id > 5005;');
arrived('copies', 'copies: another has an identity', 'oracle.none');
is(contents($subscriber, 'copies', 'people_by_email'), $before, 'copies: nothing arrives any more');
# Rows that had not arrived are in the way of nothing: a build begins with an empty table.
$publisher->safe_psql('copies', "CALL index_table.rebuild('people_by_code')");
arrived('copies', 'copies: rebuilt', 'people_by_code');
is($subscriber->safe_psql('copies', 'SELECT min(code), max(code), count(*) FROM people_by_code WHERE code < -5000'), '-5020|-5001|10', 'copies: changes arrive from then on');
unsubscribe('copies');

# --- Tables of the extension under the names of others -------------------------------

# What is a plain table there and an index table here: here it follows its base table.
create_databases('names', $tables . q{
	CREATE TABLE people_by_code (code int, partition_id int, id int PRIMARY KEY);
	CREATE TABLE orders_outbox (id int PRIMARY KEY, what text);
	INSERT INTO people_by_code VALUES (5, 6, 7);
	INSERT INTO orders_outbox VALUES (1, 'mine');} . rows(1, 50) . oracle_sql(), $tables . q{
	SELECT index_table.create('people', 'code');
	CREATE TABLE orders_outbox (id int PRIMARY KEY, what text);} . $oracle);
$publisher->safe_psql('names', 'CREATE PUBLICATION p FOR TABLE people, orders, people_by_code, orders_outbox');
subscribe('names', 'streaming = on');
$publisher->safe_psql('names', rows(51, 60) . "UPDATE people_by_code SET code = 6; DELETE FROM people_by_code; INSERT INTO people_by_code VALUES (1, 2, 3);"
	  . "TRUNCATE people_by_code; UPDATE orders_outbox SET what = 'yours'");
arrived('names', 'names', 'people', 'orders_outbox');
$subscriber->safe_psql('names', 'ALTER SUBSCRIPTION names REFRESH PUBLICATION');
$publisher->safe_psql('names', 'INSERT INTO people_by_code VALUES (1, 2, 3);' . rows(61, 70));
arrived('names', 'names: refreshed', 'people', 'orders_outbox');
is($subscriber->safe_psql('names', 'SELECT count(*) FROM people_by_code'), '70', 'names: what follows here');
unsubscribe('names');

# --- Dumps --------------------------------------------------------------------------

# Tables of the extension that would be published.
my $published = q{SELECT coalesce(string_agg(c.oid::regclass::text, ' ' ORDER BY 1), '') FROM pg_class c
	WHERE c.relrewrite = 0 AND c.relkind = 'r' AND (EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'index_table_guard')
		OR c.relnamespace = 'index_table'::regnamespace OR c.oid IN (SELECT queue FROM index_table.captured));};

# Loading as a replica does is not replication: everything goes in.
$publisher->safe_psql('postgres', $tables . $index_tables . $oracle . rows(1, 300) . sprintf($insert_orders, '1, 20')
	  . 'CREATE PUBLICATION p FOR ALL TABLES');
is($publisher->safe_psql('postgres', $published), '', 'dump: nothing is published before');
my $file = $publisher->basedir . '/dump';
command_ok([ 'pg_dump', '-Fc', '-f', $file, $publisher->connstr('postgres') ], 'pg_dump');
foreach my $way (
	[ 'replica', 'pg_restore', '--no-publications' ],
	[ 'replica_data', 'pg_restore', '--no-publications', '--disable-triggers' ],
	[ 'jobs', 'pg_restore', '-j', '3' ])
{
	my ($db, @command) = @$way;
	$publisher->safe_psql('postgres', "CREATE DATABASE $db");
	local $ENV{PGOPTIONS} = $db =~ /replica/ ? '-c session_replication_role=replica' : '';
	command_ok([ @command, '-d', $publisher->connstr($db), $file ], "$db: restored");
	delete $ENV{PGOPTIONS};
	is(contents($publisher, $db, $_), contents($publisher, 'postgres', $_), "$db: $_ is there")
	  foreach 'people', 'people_by_email', 'people_by_town', 'orders_outbox', 'index_table.captured';
	is($publisher->safe_psql($db, $published), '', "$db: nothing is published");
	oracle_ok($publisher, $db, "$db: in step");
	$publisher->safe_psql($db, "UPDATE people SET email = 'd' || id; TRUNCATE people_1; DELETE FROM people WHERE id < 20");
	oracle_ok($publisher, $db, "$db: goes on");
}

done_testing();
