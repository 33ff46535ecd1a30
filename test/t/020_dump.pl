# Index tables are dumped and restored with everything else, and go on working where they arrive.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump');
my $directory = PostgreSQL::Test::Utils::tempdir();

# --- What is dumped -----------------------------------------------------------------

my $script = varied_tables_sql() . q{
SELECT index_table.create('customers', 'town', name => 'active_customers', predicate => 'active AND id > 10');

-- Numbers that have been used, of partitions that are gone or were truncated.
TRUNCATE customers_1;
INSERT INTO customers SELECT i, 'mail' || i, 'Town', '{x}', NULL, true FROM generate_series(2001, 2100) i;
CREATE TABLE "Odd.Names".top PARTITION OF "Odd.Names"."Events" FOR VALUES FROM (200) TO (300);
INSERT INTO "Odd.Names"."Events" VALUES (1000, 250, 'a', 'Code1000', 'gone');
DROP TABLE "Odd.Names".top;

CREATE TABLE orders (id int PRIMARY KEY, email text REFERENCES customers_by_email (email) ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO orders SELECT id, email FROM customers ORDER BY id LIMIT 20;
};
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', $script);

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
my $events = '"Odd.Names"."Events"';
my @event_identity = ('id', 'day', 'kind');
my @tables = (
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_town', base => 'customers', key => ['lower(b.town)'], copies => [ 'id', 'phone' ], identity => 1),
	describe(name => 'customers_by_phone', base => 'customers', key => ['b.phone'],
		copies => [ 'id', 'email', 'town', 'tags', 'active' ], identity => 1),
	describe(name => 'customers_by_tag', base => 'customers', key => ['m.v'], elements => $tags, copies => ['id'], identity => 1),
	describe(name => 'active_customers', base => 'customers', key => ['b.town'], predicate => 'b.active AND b.id > 10',
		copies => ['id'], identity => 1),
	describe(name => '"Odd.Names"."Events_by_Code"', base => $events, key => ['b."Code"'], predicate => "b.kind <> 'b'",
		copies => \@event_identity, identity => 3, is_unique => 1),
	describe(name => '"Odd.Names"."By ""Note"""', base => $events, key => ['upper(b.note)'],
		copies => [ @event_identity, '"Code"', 'note' ], identity => 3),
	describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1, is_unique => 1));
my @names = map { $_->{name} } @tables;
$node->safe_psql('source', oracle_sql(@tables));
oracle_ok($node, 'source', 'source: in step');
is($node->safe_psql('source', 'SELECT count(*) FROM index_table.definition'), scalar(@names), 'source: every index table is compared');

# What must be the same in source and copy, whatever the OIDs are.
my @same = (
	'SELECT d.index_table, d.base, s.* FROM index_table.definition d, index_table.describe(d.index_table) s',
	'SELECT * FROM index_table.partition',
	'SELECT * FROM index_table.retired_partition',
	'SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal',
	q{SELECT c.oid::regclass, (SELECT string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attnum) FROM pg_attribute
	    WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) FROM pg_class c
	  WHERE relkind IN ('r', 'p', 'i', 'I') AND relnamespace::regnamespace::text NOT LIKE 'pg_%' AND relname NOT LIKE 'sql_%'},
	"SELECT t.c, obj_description(t.c), pg_get_partkeydef(t.c) FROM (SELECT index_table FROM index_table.definition) t(c)",
	q{SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0},
	map { "SELECT * FROM $_" } @names);
my $retired = $node->safe_psql('source', 'SELECT count(*) FROM index_table.retired_partition');
ok($retired > 0, 'source: there are numbers out of use');
my $highest = $node->safe_psql('source', 'SELECT last_value FROM index_table.partition_id_seq');

# --- The copies -----------------------------------------------------------------------

# One statement or more, then everything must be in step.
sub followed_ok
{
	my ($db, $label, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sqlstate($node, $db, $sql), '', "$db: $label");
	oracle_ok($node, $db, "$db: $label: in step");
	return;
}

# The result of a query, in an order that does not depend on how it was dumped.
sub sorted
{
	my ($db, $query) = @_;
	return join("\n", sort split(/\n/, $node->safe_psql($db, $query)));
}

sub refused_ok
{
	my ($db, $label, $sql, $error) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(sqlstate($node, $db, $sql), $error, "$db: $label");
	oracle_ok($node, $db, "$db: $label: in step");
	return;
}

sub copy_ok
{
	my ($db) = @_;
	is(sorted($db, $_), sorted('source', $_), "$db: same " . substr($_, 0, 60)) foreach @same;
	is($node->safe_psql($db, "SELECT count(*) FROM index_table.verify('$_')"), 0, "$db: verify $_") foreach @names;
	oracle_ok($node, $db, "$db: in step");

	# Readers find what they found.
	is($node->safe_psql($db, $_), $node->safe_psql('source', $_), "$db: $_")
	  foreach "SELECT * FROM index_table.fetch(NULL::customers, 'customers_by_email', 'mail77')",
	  "SELECT * FROM index_table.lookup('customers_by_tag', 't2')",
	  "SELECT * FROM index_table.fetch(NULL::$events, '\"Odd.Names\".\"By \"\"Note\"\"\"', 'NOTE 3')";

	# Foreign keys to index tables go on working, too.
	refused_ok($db, 'a reference to nothing', "INSERT INTO orders VALUES (5000, 'nobody')", qr/^23503/);
	my $referred = $node->safe_psql($db, 'SELECT min(id) FROM orders');
	followed_ok($db, 'a reference follows', "UPDATE customers SET email = 'followed' WHERE id = $referred");
	is($node->safe_psql($db, "SELECT email FROM orders WHERE id = $referred"), 'followed', "$db: a reference followed");
	followed_ok($db, 'a reference ends', "DELETE FROM customers WHERE id = $referred");
	is($node->safe_psql($db, "SELECT email IS NULL FROM orders WHERE id = $referred"), 't', "$db: a reference ended");
	$node->safe_psql($db, 'DROP TABLE orders');

	# What an index table depends on is not in a dump.
	is($node->safe_psql($db, q{
		BEGIN;
		ALTER TABLE customers DROP COLUMN town;
		UPDATE customers SET phone = 'changed' WHERE id = 1;
		SELECT string_agg(index_table::text, ' ' ORDER BY index_table::text COLLATE "C") FROM index_table.definition WHERE base = 'customers'::regclass}),
		'customers_by_email customers_by_phone customers_by_tag', "$db: index tables go with a column in their key");
	is($node->safe_psql($db, q{
		BEGIN;
		DROP TABLE customers;
		SELECT count(*), to_regclass('customers_by_email') FROM index_table.definition}), '3|', "$db: and with their base table");
	like(sqlstate($node, $db, 'DROP FUNCTION "Odd.Names"."Shout It"'), qr/^2BP01/, "$db: and keep a function in their key");

	refused_ok($db, 'a key that is taken', "INSERT INTO customers VALUES (5000, 'mail2001')", qr/^23505: .*"customers_by_email_key"/);
	refused_ok($db, 'a key that is taken by predicate', "INSERT INTO $events VALUES (5000, 150, 'a', 'Code2')", qr/^23505/);
	refused_ok($db, 'a key that is taken in a plain table', 'INSERT INTO plain VALUES (5000, 0.250)', qr/^23505/);
	followed_ok($db, 'INSERT of a NULL', 'INSERT INTO plain VALUES (5001, NULL)');
	refused_ok($db, 'another NULL', 'INSERT INTO plain VALUES (5002, NULL)', qr/^23505/);
	followed_ok($db, 'a deferred constraint', q{
		BEGIN;
		INSERT INTO plain VALUES (5002, NULL);
		DELETE FROM plain WHERE id >= 5001;
		COMMIT});
	followed_ok($db, 'a key that the predicate excludes', "INSERT INTO $events VALUES (5000, 150, 'b', 'Code2')");
	followed_ok($db, 'INSERT', q{
		INSERT INTO customers SELECT i, 'mail' || i, 'Town ' || i, ARRAY['n', 't' || i % 4], '555-' || i, true FROM generate_series(3001, 3100) i;
		INSERT INTO "Odd.Names"."Events" SELECT i, i % 200, chr(97 + i % 4), 'Code' || i, 'N' FROM generate_series(3001, 3100) i;
		INSERT INTO plain VALUES (101, 1000)});
	followed_ok($db, 'UPDATE', q{
		UPDATE customers SET email = upper(email), town = 'Moved', tags = tags || '{m}' WHERE id % 7 = 0;
		UPDATE customers SET id = id + 10000, phone = NULL WHERE id % 11 = 0;
		UPDATE "Odd.Names"."Events" SET day = 199 - day, note = 'moved' WHERE id % 5 = 0;
		UPDATE "Odd.Names"."Events" SET kind = 'b' WHERE id % 7 = 0;
		UPDATE plain SET v = -v});
	followed_ok($db, 'DELETE', qq{
		DELETE FROM customers WHERE id % 5 = 1;
		DELETE FROM $events WHERE id % 4 = 1;
		DELETE FROM plain WHERE id % 3 = 1});
	followed_ok($db, 'DML on partitions', q{
		DELETE FROM customers_2 WHERE id < 100;
		UPDATE "Odd.Names".low_a SET note = 'direct' WHERE id % 2 = 0});
	followed_ok($db, 'TRUNCATE of partitions', 'TRUNCATE customers_0; TRUNCATE "Odd.Names".low');
	followed_ok($db, 'INSERT into them', q{
		INSERT INTO customers SELECT i, 'again' || i, 'Town', '{t}', '1', false FROM generate_series(4001, 4030) i;
		INSERT INTO "Odd.Names"."Events" SELECT i, i % 100, 'a', 'again' || i, 'A' FROM generate_series(4001, 4030) i});

	followed_ok($db, 'a new partition', q{
		CREATE TABLE "Odd.Names".low_c PARTITION OF "Odd.Names".low FOR VALUES IN ('z');
		INSERT INTO "Odd.Names"."Events" VALUES (6000, 1, 'z', 'Code6000', 'z')});
	is($node->safe_psql($db, qq{SELECT partition_id > $highest FROM index_table.partition WHERE relation = '"Odd.Names".low_c'::regclass}),
		't', "$db: its number was never used");
	is($node->safe_psql($db, 'SELECT count(*) FROM index_table.partition JOIN index_table.retired_partition USING (partition_id)'),
		0, "$db: no number is live and retired");
	followed_ok($db, 'ATTACH and DETACH', q{
		CREATE TABLE attached (id int NOT NULL, day int NOT NULL, kind text NOT NULL, "Code" text, note text);
		INSERT INTO attached VALUES (7000, 300, 'a', 'Code7000', 'attached');
		ALTER TABLE "Odd.Names"."Events" ATTACH PARTITION attached FOR VALUES FROM (300) TO (400);
		ALTER TABLE "Odd.Names"."Events" DETACH PARTITION "Odd.Names"."High"});
	followed_ok($db, 'ADD and RENAME of columns', q{
		ALTER TABLE customers ADD COLUMN extra int DEFAULT 5;
		ALTER TABLE customers RENAME COLUMN extra TO email2;
		ALTER TABLE customers DROP COLUMN email2});
	followed_ok($db, 'TRUNCATE', "TRUNCATE customers, $events, plain");
	is($node->safe_psql($db, "SELECT sum(index_table.repair(index_table)) >= 0 FROM index_table.definition"), 't', "$db: repair");
	is($node->safe_psql($db, 'SELECT ' . join(' + ', map { "(SELECT count(*) FROM $_)" } @names)), 0, "$db: repair: no dead entry is left");
	oracle_ok($node, $db, "$db: repair: in step");

	# Dropped, an index table is forgotten; the last one takes the triggers with it.
	followed_ok($db, 'drop', "SELECT index_table.drop('customers_by_email');"
		  . "INSERT INTO customers (id, email) VALUES (1, 'twice'), (2, 'twice')");
	is($node->safe_psql($db, "SELECT count(*), to_regclass('customers_by_email') FROM index_table.definition"), (@names - 1) . '|', "$db: dropped");
	$node->safe_psql($db, "SELECT index_table.drop(index_table) FROM index_table.definition");
	is($node->safe_psql($db, q{
		SELECT count(*) FROM index_table.definition UNION ALL
		SELECT count(*) FROM index_table.partition UNION ALL
		SELECT count(*) FROM index_table.retired_partition UNION ALL
		SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index\_table%'}), "0\n0\n0\n0", "$db: all dropped, nothing left");
	followed_ok($db, 'INSERT without index tables', "INSERT INTO customers (id, email) VALUES (3, 'twice')");
	return;
}

my @dump = ('pg_dump', '-d', $node->connstr('source'));
my @restore = ('pg_restore', '--exit-on-error');

# As scripts.
foreach my $kind ([ 'plain' ], [ 'inserts', '--inserts', '--rows-per-insert=50' ])
{
	my ($db, @options) = @$kind;
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	$node->command_ok([ @dump, @options, '-f', "$directory/$db.sql" ], "$db: pg_dump");
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', "$directory/$db.sql" ], "$db: psql");
	copy_ok($db);
}

$node->safe_psql('postgres', 'CREATE DATABASE custom TEMPLATE template0');
$node->command_ok([ @dump, '-Fc', '-f', "$directory/custom.dump" ], 'custom: pg_dump');
$node->command_ok([ @restore, '-1', '-d', $node->connstr('custom'), "$directory/custom.dump" ], 'custom: pg_restore');
copy_ok('custom');

$node->safe_psql('postgres', 'CREATE DATABASE directory TEMPLATE template0');
$node->command_ok([ @dump, '-Fd', '-j2', '-f', "$directory/directory" ], 'directory: pg_dump -j2');
my ($restored, $complaints) = run_command([ @restore, '-j2', '-d', $node->connstr('directory'), "$directory/directory" ]);
is($complaints, '', 'directory: pg_restore -j2');
copy_ok('directory');

# A copy of the files, with the same OIDs.
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE source');
copy_ok('copied');

# --- Whoever owns everything, and is no superuser ----------------------------------------

# The extension is there already: making it takes a superuser. Another role has tables of its own, in either database.
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE ROLE other LOGIN');
my $others = q{
CREATE SCHEMA others AUTHORIZATION other;
SET ROLE other;
CREATE TABLE others.theirs (id int PRIMARY KEY, k text) PARTITION BY RANGE (id);
CREATE TABLE others.theirs_1 PARTITION OF others.theirs FOR VALUES FROM (0) TO (100);
CREATE TABLE others.theirs_2 PARTITION OF others.theirs FOR VALUES FROM (100) TO (200);
INSERT INTO others.theirs SELECT i, 'k' || i FROM generate_series(1, 150) i;};
my $their_index = q{SET ROLE other; SELECT index_table.create('others.theirs', 'k', is_unique => true); TRUNCATE others.theirs_2;};
foreach my $db ('owned_source', 'owned', 'owned_inserts')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0 OWNER owner");
	$node->safe_psql($db, 'CREATE EXTENSION index_table; GRANT ALL ON SCHEMA public TO owner');
}
(my $owned = $script) =~ s/CREATE EXTENSION index_table;// or die;
$node->safe_psql('owned_source', "SET ROLE owner; $owned" . oracle_sql(@tables));
$node->safe_psql('owned_source', "$others $their_index");
$node->safe_psql($_, $others) foreach 'owned', 'owned_inserts';
foreach my $kind ([ 'owned', '-j2' ], [ 'owned_inserts', '--inserts' ])
{
	my ($db, @options) = @$kind;
	my $as_owner = 'user=owner ' . $node->connstr($db);
	$node->command_ok([ 'pg_dump', '-d', 'user=owner ' . $node->connstr('owned_source'), '-N', 'others', '-Fd', @options, '-f', "$directory/$db" ],
		"$db: pg_dump by the owner");
	my ($list) = run_command([ 'pg_restore', '-l', "$directory/$db" ]);
	append_to_file("$directory/$db.list", join("\n", grep { !/EXTENSION|SCHEMA - index_table/ } split(/\n/, $list)) . "\n");
	my ($out, $err) = run_command([ 'pg_restore', '--exit-on-error', '-L', "$directory/$db.list", '-d', $as_owner, "$directory/$db" ]);
	is($err, '', "$db: pg_restore by the owner");
	is($node->safe_psql($db, "SELECT count(*) FROM index_table.partition WHERE base = 'others.theirs'::regclass OR relation = 'others.theirs_1'::regclass"),
		0, "$db: of tables of another role nothing is loaded");
	is($node->safe_psql($db, 'SELECT bool_and(is_complete) FROM index_table.index_tables'), 't', "$db: complete");
	$node->safe_psql($db, $their_index);
	is($node->safe_psql($db, "SELECT count(*) FROM index_table.verify('others.theirs_by_k')"), 0, "$db: an index table of the other role");
	$node->safe_psql($db, 'DROP SCHEMA others CASCADE');
	copy_ok($db);
}

oracle_ok($node, 'source', 'source: still in step');
$node->stop;
done_testing();
