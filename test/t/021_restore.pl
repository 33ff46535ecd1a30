# Dumps of a part: data without the schema, single tables, schemas, sections; and restoring over what is there.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('restore');
my $directory = PostgreSQL::Test::Utils::tempdir();

# Data is dumped in the order of names: the schema early comes before the extension's tables, public after them.
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
CREATE EXTENSION index_table;
CREATE TABLE customers (gone int, id int, email text, town text, tags text[], phone text) PARTITION BY HASH (id);
ALTER TABLE customers DROP COLUMN gone;
CREATE TABLE customers_0 PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE customers_1 PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE customers_2 (phone text, tags text[], town text, email text, id int NOT NULL);
ALTER TABLE customers ATTACH PARTITION customers_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
ALTER TABLE customers ADD PRIMARY KEY (id);
INSERT INTO customers
SELECT i, 'mail' || i, 'Town ' || i % 20, ARRAY['t' || i % 4, 't' || i % 6, NULL], '555-' || i FROM generate_series(1, 600) i;
CREATE SCHEMA early;
CREATE FUNCTION early.shout(text) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT upper($1)';
CREATE TABLE early.events (id int, day int, code text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE early.low PARTITION OF early.events FOR VALUES FROM (0) TO (100);
CREATE TABLE early.high PARTITION OF early.events FOR VALUES FROM (100) TO (200);
INSERT INTO early.events SELECT i, i % 200, 'code' || i FROM generate_series(1, 400) i;

SELECT index_table.create('customers', 'email', is_unique => true);
SELECT index_table.create('customers', 'phone', strategy => 'denormalized', partitions => 2);
SELECT index_table.create('customers', 'unnest(tags)', name => 'customers_by_tag', strategy => 'partial', include => 'town');
SELECT index_table.create('early.events', 'early.shout(code)', name => 'early.by_code', is_unique => true);
-- An operator class that no operator tells from text_pattern_ops, and that has got another name.
CREATE OPERATOR CLASS early.code_ops FOR TYPE text USING btree AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~, FUNCTION 1 bttext_pattern_cmp(text, text);
SELECT index_table.create('early.events', 'day, code early.code_ops DESC', name => 'early.by_day');
ALTER OPERATOR CLASS early.code_ops USING btree RENAME TO "Code ops";

TRUNCATE customers_1;
INSERT INTO customers SELECT i, 'mail' || i, 'Town', '{x}', NULL FROM generate_series(2001, 2100) i;
});
# One that is being built, for which towns would have to differ.
like(sqlstate($node, 'source', "CALL index_table.create_concurrently('customers', 'town', name => 'unfinished', is_unique => true)"),
	qr/^23505/, 'source: there is an index table that is not complete');
$node->safe_psql('source', "UPDATE customers SET town = 'Moved ' || id WHERE id % 2 = 0");

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
my @tables = (
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_phone', base => 'customers', key => ['b.phone'], copies => [ 'id', 'email', 'town', 'tags' ],
		identity => 1),
	describe(name => 'customers_by_tag', base => 'customers', key => ['m.v'], elements => $tags, copies => [ 'id', 'town' ], identity => 1),
	describe(name => 'early.by_code', base => 'early.events', key => ['upper(b.code)'], copies => [ 'id', 'day' ], identity => 2,
		is_unique => 1),
	describe(name => 'early.by_day', base => 'early.events', key => [ 'b.day', 'b.code' ], copies => ['id'], identity => 1));
my @names = map { $_->{name} } @tables;
my $unfinished = describe(name => 'unfinished', base => 'customers', key => ['b.town'], copies => ['id'], identity => 1, is_unique => 1);
my $oracle = oracle_sql(@tables);
$node->safe_psql('source', $oracle);
oracle_ok($node, 'source', 'source: in step');
my $rows = $node->safe_psql('source', 'SELECT count(*) FROM customers');

# What must be the same in source and copy.
my @same = (
	'SELECT d.index_table, d.base, s.* FROM index_table.definition d, index_table.describe(d.index_table) s',
	'SELECT * FROM index_table.partition',
	'SELECT * FROM index_table.retired_partition',
	'SELECT * FROM index_table.loaded_partition',
	'SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal',
	'SELECT * FROM customers', 'SELECT * FROM early.events',
	map { "SELECT * FROM $_" } @names);

sub sorted
{
	my ($db, $query) = @_;
	return join("\n", sort split(/\n/, $node->safe_psql($db, $query)));
}

# An empty database, or one after scripts and SQL.
sub make_db
{
	my ($db, @sql) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	foreach my $sql (@sql)
	{
		-e $sql ? $node->command_ok(psql($db, $sql), "$db: " . substr($sql, length $directory)) : $node->safe_psql($db, $sql);
	}
	return;
}

sub psql
{
	my ($db, $file) = @_;
	return [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $file ];
}

sub run_log_stdout
{
	my ($stdout, $stderr) = run_command([@_]);
	return $stdout;
}

sub restored_ok
{
	my ($db, @arguments) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return $node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($db), @arguments ], "$db: pg_restore");
}

# Everything is there, and followed by what happens from now on.
sub copy_ok
{
	my ($db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sorted($db, $_), sorted('source', $_), "$db: same " . substr($_, 0, 60)) foreach @same;
	oracle_ok($node, $db, "$db: in step");
	is(sqlstate($node, $db, q{
		SET session_replication_role = replica;
		INSERT INTO customers SELECT i, 'mail' || i, 'Town', '{t1, n}', 'p' FROM generate_series(3001, 3050) i;
		RESET session_replication_role;
		UPDATE customers SET email = upper(email), tags = tags || '{m}' WHERE id % 7 = 0;
		UPDATE customers SET id = id + 10000 WHERE id % 11 = 0;
		DELETE FROM customers WHERE id % 5 = 1;
		UPDATE early.events SET day = 199 - day, code = code || '!' WHERE id % 3 = 0;
		TRUNCATE customers_0;
		INSERT INTO customers SELECT i, 'again' || i, 'Town', '{t}', '1' FROM generate_series(4001, 4030) i;
		CREATE TABLE early.top PARTITION OF early.events FOR VALUES FROM (200) TO (300);
		INSERT INTO early.events VALUES (1000, 250, 'top')}), '', "$db: changes");
	like(sqlstate($node, $db, "INSERT INTO early.events VALUES (5000, 150, 'CODE2')"), qr/^23505/, "$db: a key that is taken");
	oracle_ok($node, $db, "$db: changes: in step");
	is(sqlstate($node, $db, "UPDATE customers SET town = 'Town ' || id; CALL index_table.rebuild('unfinished')"), '', "$db: rebuild");
	$node->safe_psql($db, 'DROP SCHEMA oracle CASCADE;' . oracle_sql(@tables, $unfinished));
	oracle_ok($node, $db, "$db: rebuild: in step");
	return;
}

my @dump = ('pg_dump', '-d', $node->connstr('source'));
my ($all, $schema, $data) = map { "$directory/$_" } 'all.dump', 'schema.sql', 'data.sql';
$node->command_ok([ @dump, '-Fc', '-f', $all ], 'pg_dump');
$node->command_ok([ @dump, '--schema-only', '-f', $schema ], 'pg_dump --schema-only');
$node->command_ok([ @dump, '--data-only', '--disable-triggers', '-f', $data ], 'pg_dump --data-only');

# --- Data without the schema ------------------------------------------------------------

make_db('plain', $schema, $data);
copy_ok('plain');

foreach my $kind ([ 'inserts', '--inserts', '--rows-per-insert=50' ], [ 'root', '--load-via-partition-root' ])
{
	my ($db, @options) = @$kind;
	$node->command_ok([ @dump, '--data-only', '--disable-triggers', @options, '-f', "$directory/$db.sql" ], "$db: pg_dump --data-only");
	make_db($db, $schema, "$directory/$db.sql");
	copy_ok($db);
}

foreach my $kind ([ 'custom' ], [ 'parallel', '-j4' ], [ 'single', '--single-transaction' ])
{
	my ($db, @options) = @$kind;
	make_db($db, $schema);
	restored_ok($db, '--data-only', '--disable-triggers', @options, $all);
	copy_ok($db);
}

# In parts, while a session has known a base table that has triggers but no index tables.
make_db('parts', $schema);
restored_ok('parts', '--data-only', '--disable-triggers', '-n', 'early', $all);
my $session = start_session($node, 'parts', "INSERT INTO early.events VALUES (5000, 1, 'x'); DELETE FROM early.events WHERE id = 5000; SELECT 'ready';");
$session->{run}->pump until $session->{output} =~ /ready|ERROR/;
restored_ok('parts', '--data-only', '--disable-triggers', '-N', 'early', $all);
$session->{input} .= "INSERT INTO early.events VALUES (5001, 1, 'y');\n";
like(end_session($session), qr/^ERROR:\s+55000: index table "by_code" does not hold .*ready\n$/s,
	'parts: a session that was there before writes when numbers are there, too');
oracle_ok($node, 'parts', 'parts: in step with what it does afterwards');
$node->safe_psql('parts', 'DELETE FROM early.events WHERE id = 5001');
copy_ok('parts');

# With triggers: rows are entered as they are loaded, and entries that come besides are refused.
my $refused = qr/cannot change index table "\w+" directly/;
foreach my $kind ([ 'triggers' ], [ 'triggers_j', '-j2' ], [ 'triggers_1', '--single-transaction' ], [ 'triggers_e', '--exit-on-error' ])
{
	my ($db, @options) = @$kind;
	make_db($db, $schema);
	my ($stdout, $stderr) = run_command([ 'pg_restore', '--data-only', @options, '-d', $node->connstr($db), $all ]);
	like($stderr, $refused, "$db: refused");
	is($node->safe_psql($db, 'SELECT count(*) FROM customers'), $db eq 'triggers_1' ? 0 : $rows, "$db: base tables are there or nothing is")
	  unless $db eq 'triggers_e';
	oracle_ok($node, $db, "$db: in step");
	like(sqlstate($node, $db, "INSERT INTO customers (id, email) VALUES (-1, 'twice'), (-2, 'twice')"), qr/^23505/, "$db: keys are unique");
	is(sqlstate($node, $db, "INSERT INTO customers (id, email) VALUES (-1, 'once'); TRUNCATE customers"), '', "$db: base tables can be written to");
	oracle_ok($node, $db, "$db: still in step");
}
# As a replica, row triggers fire all the same.
make_db('replica', $schema);
$node->command_ok([ @dump, '--data-only', '-f', "$directory/replica.sql" ], 'pg_dump --data-only without --disable-triggers');
my ($stdout, $stderr) = run_command([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('replica'),
	'-c', 'SET session_replication_role = replica', '-f', "$directory/replica.sql" ]);
like($stderr, qr/index table "\w+" does not hold what it should|$refused/, 'replica: refused');

# --- Parts of a dump ----------------------------------------------------------------------

make_db('sections');
restored_ok('sections', "--section=$_", $all) foreach 'pre-data', 'data', 'post-data';
copy_ok('sections');

# pg_restore may create triggers of a partitioned table before rows of its partitions and definitions are
# loaded, and others before definitions, when it works in parallel.
my @toc = grep { /TRIGGER|RULE|TABLE DATA|SEQUENCE SET/ } split /\n/, run_log_stdout('pg_restore', '-l', $all);
my @later = grep { /INDEX|CONSTRAINT|ATTACH/ } split /\n/, run_log_stdout('pg_restore', '-l', '--section=post-data', $all);
my %entries = (
	definition => [ grep { /RULE/ } @toc ],
	partition => [ grep { /TABLE DATA index_table partition/ } @toc ],
	triggers_of_trees => [ grep { /TRIGGER \w+ (?:customers|events) / } @toc ],
	triggers_of_leaves => [ grep { /TRIGGER \w+ (?:customers_\d|low|high) / } @toc ],
	leaves => [ grep { /TABLE DATA \w+ (?:customers_\d|low|high) / } @toc ]);
my @rest = grep { !/TRIGGER|RULE|TABLE DATA (?:index_table partition|\w+ (?:customers_\d|low|high)) / } @toc;
my @guards = grep { /TRIGGER .* index_table_guard / } @toc; # of index tables
my @orders = (
	[ 'triggers_of_trees', 'definition', 'partition', 'leaves', 'triggers_of_leaves' ],
	[ 'triggers_of_trees', 'definition', 'leaves', 'triggers_of_leaves', 'partition' ],
	[ 'leaves', 'triggers_of_leaves', 'triggers_of_trees', 'definition', 'partition' ]);
foreach my $i (0 .. $#orders)
{
	my $list = "$directory/list$i";
	append_to_file($list, join("\n", (map { @{ $entries{$_} } } @{ $orders[$i] }), @rest, @guards, @later, ''));
	make_db("order$i");
	restored_ok("order$i", '--section=pre-data', $all);
	restored_ok("order$i", '-L', $list, $all);
	copy_ok("order$i");
}
foreach my $i (1 .. 4)
{
	make_db("full$i");
	restored_ok("full$i", '-j4', $all);
	is(sorted("full$i", $_), sorted('source', $_), "full$i: same " . substr($_, 0, 60)) foreach @same;
	oracle_ok($node, "full$i", "full$i: in step");
}
# Fixed up by the script's own session.
$node->command_ok([ @dump, '-f', "$directory/all.sql" ], 'pg_dump');
append_to_file("$directory/all.sql", "UPDATE public.customers SET email = 'fixed ' || id; TRUNCATE early.low; DELETE FROM early.events WHERE id % 7 = 0;\n");
make_db('fixed', "$directory/all.sql");
oracle_ok($node, 'fixed', 'fixed: in step');
# The schema and then the data in one session, without --disable-triggers.
make_db('session');
my ($ignored, $session_error) = run_command([ @{ psql('session', $schema) }, '-f', "$directory/replica.sql" ]);
like($session_error, $refused, 'session: refused');

# A base table arrives with triggers that do nothing; without the extension, with none.
$node->command_ok([ @dump, '-Fc', '-t', 'customers', '-t', 'customers_[0-9]', '-f', "$directory/base.dump" ], 'pg_dump -t base');
make_db('base_alone');
$node->command_checks_all([ 'pg_restore', '-d', $node->connstr('base_alone'), "$directory/base.dump" ], 1, [qr/^$/],
	[qr/schema "index_table" does not exist/], 'base_alone: pg_restore');
is($node->safe_psql('base_alone', 'INSERT INTO customers (id) VALUES (-1); SELECT count(*) FROM customers'), $rows + 1, 'base_alone: rows are there');
make_db('base', 'CREATE EXTENSION index_table');
restored_ok('base', "$directory/base.dump");
is(sqlstate($node, 'base', q{
	INSERT INTO customers (id, email) VALUES (-1, 'twice'), (-2, 'twice');
	UPDATE customers SET id = -id WHERE id % 3 = 0;
	DELETE FROM customers WHERE id % 7 = 0;
	TRUNCATE customers_1}), '', 'base: its triggers do nothing');
is(sqlstate($node, 'base', q{
	DELETE FROM customers WHERE email = 'twice';
	SELECT index_table.create('customers', 'email', is_unique => true);
	INSERT INTO customers (id, email) VALUES (-1, 'once')}), '', 'base: an index table is created');
$node->safe_psql('base', oracle_sql($tables[0]));
oracle_ok($node, 'base', 'base: in step');

# An index table says of what it is one.
$node->command_ok([ @dump, '-Fc', '-t', 'customers_by_email', '-f', "$directory/index_table.dump" ], 'pg_dump -t index_table');
make_db('index_alone', 'CREATE EXTENSION index_table');
$node->command_checks_all([ 'pg_restore', '-d', $node->connstr('index_alone'), "$directory/index_table.dump" ], 1, [qr/^$/],
	[qr/relation "public.customers" does not exist/], 'index_alone: pg_restore');
is($node->safe_psql('index_alone', q{
	UPDATE customers_by_email SET id = -id;
	SELECT count(*) FROM customers_by_email;
	DROP TABLE customers_by_email}), 700, 'index_alone: without that, a plain table');

# A schema: both, but the numbers that entries have.
$node->command_ok([ @dump, '-Fc', '-n', 'early', '-f', "$directory/early.dump" ], 'pg_dump -n schema');
make_db('schema', 'CREATE EXTENSION index_table');
restored_ok('schema', "$directory/early.dump");
like(sqlstate($node, 'schema', "INSERT INTO early.events VALUES (5000, 150, 'code2')"), qr/^55000/, 'schema: nothing is written that cannot be unique');
is($node->safe_psql('schema', q{
	SET index_table.enable_scan = force;
	SELECT bool_or(is_complete), count(*), (SELECT count(*) FROM early.events WHERE early.shout(code) = 'CODE7')
	  FROM index_table.index_tables}), 'f|2|1',
	'schema: it is not read');
is($node->safe_psql('schema', q{
	SELECT bool_and(index_table.repair(index_table) > 0) FROM index_table.index_tables;
	INSERT INTO early.events SELECT i, 1, 'code1' || i FROM generate_series(1001, 1010) i;
	DELETE FROM early.events WHERE id % 2 = 0;
	TRUNCATE early.low;
	SELECT bool_and(is_complete) FROM index_table.index_tables}), "t\nt", 'schema: it is repaired');
like(sqlstate($node, 'schema', "INSERT INTO early.events VALUES (5000, 150, 'CODE101')"), qr/^23505/, 'schema: keys are unique');
$node->safe_psql('schema', oracle_sql(@tables[3, 4]));
oracle_ok($node, 'schema', 'schema: in step');

# --- Over what is there ---------------------------------------------------------------------

# PostgreSQL itself complains of primary keys of partitions, which go with those of their tables.
make_db('clean');
restored_ok('clean', $all);
foreach my $options ([ '--clean', '--if-exists' ], ['--clean'], [ '--clean', '--if-exists', '-j4' ])
{
	$node->safe_psql('clean', "UPDATE customers SET email = 'other ' || id; TRUNCATE early.low; CREATE TABLE t (); DROP TABLE t");
	my ($ignored, $complaints) = run_command([ 'pg_restore', @$options, '-d', $node->connstr('clean'), $all ]);
	my @errors = grep { !/cannot drop inherited constraint/ } $complaints =~ /(ERROR:.*)/g;
	is("@errors", '', "clean: pg_restore @$options");
	is(sorted('clean', $_), sorted('source', $_), "clean: same " . substr($_, 0, 60)) foreach @same;
}
copy_ok('clean');

# What index tables and captured tables have beside them, queues and the log of a build, goes with them: where
# they were made, too.
make_db('deferred', q{
CREATE EXTENSION index_table;
CREATE TABLE people (id int PRIMARY KEY, name text, town text);
SELECT index_table.create('people', 'name', maintenance => 'deferred');
INSERT INTO people SELECT i, 'name' || i, 'town' FROM generate_series(1, 100) i;
CREATE TABLE noted (id int PRIMARY KEY);
SELECT index_table.capture('noted');
INSERT INTO noted VALUES (1)});
my @people = describe(name => 'people_by_name', base => 'people', key => ['b.name'], copies => ['id'], identity => 1);
$node->safe_psql('deferred', oracle_sql(@people));
like(sqlstate($node, 'deferred', "CALL index_table.create_concurrently('people', 'town', is_unique => true)"),
	qr/^23505/, 'deferred: a build is interrupted');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/deferred", $node->connstr('deferred') ], 'deferred: pg_dump');
foreach my $options ([ '--clean', '--if-exists' ], [ '--clean', '--exit-on-error', '-1' ], ['--clean'])
{
	$node->safe_psql('deferred', q{UPDATE people SET name = 'other ' || id});
	my ($ignored, $complaints) = run_command([ 'pg_restore', @$options, '-d', $node->connstr('deferred'), "$directory/deferred" ]);
	is(join(' ', $complaints =~ /(ERROR:.*)/g), '', "deferred: pg_restore @$options");
	is($node->safe_psql('deferred', q{CALL index_table.drain(); SELECT count(*), count(*) FILTER (WHERE name = 'name' || id) FROM people}),
		'100|100', 'deferred: the rows are those of the dump');
	oracle_ok($node, 'deferred', "deferred: in step after @$options");
	is($node->safe_psql('deferred', 'INSERT INTO noted VALUES (2); SELECT sum(changes) FROM noted_outbox'), 2, 'deferred: it is captured');
	like(sqlstate($node, 'deferred', 'DROP TABLE noted_outbox'), qr/^2BP01/, 'deferred: what captures stays');
}

# --- The whole cluster -----------------------------------------------------------------------

$node->safe_psql('postgres', 'CREATE ROLE regress_owner');
$node->safe_psql('source', 'ALTER TABLE customers OWNER TO regress_owner');
$node->safe_psql('postgres', "DROP DATABASE $_") foreach split /\n/,
  $node->safe_psql('postgres', "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname NOT IN ('postgres', 'source')");
$node->command_ok([ 'pg_dumpall', '-d', $node->connstr('postgres'), '--no-role-passwords', '-f', "$directory/cluster.sql" ], 'pg_dumpall');
my @expected = map { sorted('source', $_) } @same, 'SELECT index_table, pg_get_userbyid(relowner) FROM index_table.definition JOIN pg_class c ON c.oid = index_table';
$node->stop;
my $source = $node;
$node = new_node('other');
# The role that made the cluster is there already.
my ($output, $complaints) = run_command([ 'psql', '-Xq', '-d', $node->connstr('postgres'), '-f', "$directory/cluster.sql" ]);
my @errors = grep { !/role "\w+" already exists/ } $complaints =~ /(ERROR:.*)/g;
is("@errors", '', 'pg_dumpall: psql');
is(sorted('source', $_), shift @expected, 'pg_dumpall: same ' . substr($_, 0, 60))
  foreach @same, 'SELECT index_table, pg_get_userbyid(relowner) FROM index_table.definition JOIN pg_class c ON c.oid = index_table';
oracle_ok($node, 'source', 'pg_dumpall: in step');
is(sqlstate($node, 'source', "UPDATE customers SET email = 'new ' || email WHERE id % 2 = 0; TRUNCATE customers_2"), '', 'pg_dumpall: changes');
oracle_ok($node, 'source', 'pg_dumpall: changes: in step');

$node->stop;
done_testing();
