# ALTER EXTENSION … UPDATE, from each version that was released (test/released): the library serves the old version's SQL
# until then; index tables, global indexes and queues go on as they are, under writes; and the catalog is that of a
# database in which this version was created. Then to a version that does all that an update script may do.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use ExtensionCatalog;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('update');
my $scripts = $node->config_data('--sharedir') . '/extension';
plan skip_all => "cannot write to $scripts" unless -w $scripts;
my @placed; # scripts of the test's own
END { unlink @placed if @placed; }

my $directory = PostgreSQL::Test::Utils::tempdir();
my $version = $node->safe_psql('postgres', "SELECT default_version FROM pg_available_extensions WHERE name = 'index_table'");
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION index_table');
my $fresh = extension_catalog($node, 'fresh');
ok(keys %$fresh > 500, 'the catalog says something of ' . keys(%$fresh) . ' things');

sub place
{
	my ($name, $text) = @_;
	die "$name is there" if -e "$scripts/$name";
	push @placed, "$scripts/$name";
	append_to_file("$scripts/$name", $text);
	return;
}

sub same_catalog_ok
{
	my ($db, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(catalog_differences(extension_catalog($node, $db), $fresh), '', $label);
}

# --- What the comparison sees ---------------------------------------------------------------

# Each a thing that an update script may have left out or done otherwise, and the object that is told of.
my @mutations = (
	[ 'DROP FUNCTION index_table.retry(regclass)', 'missing: function index_table.retry(regclass)' ],
	[ 'ALTER EXTENSION index_table DROP FUNCTION index_table.retry(regclass)', 'left over: no member: function index_table.retry(regclass)' ],
	[ 'ALTER FUNCTION index_table.retry(regclass) IMMUTABLE', 'differs: function index_table.retry(regclass): definition' ],
	[ 'ALTER FUNCTION index_table.retry(regclass) PARALLEL SAFE', 'differs: function index_table.retry(regclass): definition' ],
	[ 'ALTER FUNCTION index_table.retry(regclass) CALLED ON NULL INPUT', 'differs: function index_table.retry(regclass): definition' ],
	[ 'ALTER FUNCTION index_table.retry(regclass) SET search_path = public', 'differs: function index_table.retry(regclass): definition' ],
	[ q{CREATE OR REPLACE FUNCTION index_table.retry(index_table regclass) RETURNS bigint LANGUAGE sql VOLATILE STRICT AS 'SELECT 1'},
		'differs: function index_table.retry(regclass): definition' ],
	[ 'CREATE OR REPLACE FUNCTION index_table.retry(index_table regclass DEFAULT NULL) RETURNS bigint AS \'$libdir/index_table\', \'index_table_retry\' LANGUAGE C VOLATILE STRICT',
		'differs: function index_table.retry(regclass): definition' ],
	[ 'REVOKE ALL ON FUNCTION index_table.retry(regclass) FROM PUBLIC', 'differs: function index_table.retry(regclass): rights' ],
	[ 'GRANT EXECUTE ON FUNCTION index_table.load() TO PUBLIC', 'differs: function index_table.load(): rights' ],
	[ q{COMMENT ON FUNCTION index_table.retry(regclass) IS 'other'}, 'differs: function index_table.retry(regclass)' ],
	[ 'CREATE FUNCTION index_table.more() RETURNS int LANGUAGE sql RETURN 1', 'left over: no member: function index_table.more()' ],
	[ 'CREATE FUNCTION index_table.more() RETURNS int LANGUAGE sql RETURN 1; ALTER EXTENSION index_table ADD FUNCTION index_table.more()',
		'left over: function index_table.more()' ],
	[ q{COMMENT ON VIEW index_table.stat IS NULL}, 'differs: view index_table.stat' ],
	[ q{COMMENT ON COLUMN index_table.definition.state IS 'other'}, 'differs: table index_table.definition: column state' ],
	[ 'DROP VIEW index_table.progress', 'missing: view index_table.progress: query' ],
	[ 'CREATE OR REPLACE VIEW index_table.queue AS SELECT *, NULL::int[] AS blocking_pids FROM index_table.queue_status()', 'differs: view index_table.queue: query' ],
	[ 'CREATE OR REPLACE VIEW index_table.queue AS SELECT *, NULL::int[] AS blocking_pids, 1 AS more FROM index_table.queue_status()', 'left over: view index_table.queue: column more' ],
	[ 'REVOKE SELECT ON index_table.stat FROM PUBLIC', 'differs: view index_table.stat: rights' ],
	[ 'GRANT SELECT (leaf) ON index_table.intent TO PUBLIC', 'differs: table index_table.intent: column leaf' ],
	[ 'ALTER TABLE index_table.intent ADD COLUMN more int', 'left over: table index_table.intent: column more' ],
	[ 'ALTER TABLE index_table.intent DROP COLUMN settled_after; ALTER TABLE index_table.intent ADD COLUMN settled_after xid8',
		'differs: table index_table.intent: column settled_after' ],
	[ 'ALTER TABLE index_table.undrained ALTER tries DROP NOT NULL', 'differs: table index_table.undrained: column tries' ],
	[ 'ALTER TABLE index_table.undrained ALTER tries SET DEFAULT 0', 'differs: table index_table.undrained: column tries' ],
	[ 'ALTER TABLE index_table.definition DROP CONSTRAINT definition_state_check', 'missing: table index_table.definition: constraint definition_state_check' ],
	[ 'DROP INDEX index_table.definition_base_idx', 'missing: table index_table.definition: index index_table.definition_base_idx' ],
	[ 'ALTER TABLE index_table.intent REPLICA IDENTITY DEFAULT', 'differs: table index_table.intent: properties' ],
	[ 'ALTER TABLE index_table.intent DISABLE TRIGGER load', 'differs: table index_table.intent: trigger load' ],
	[ 'ALTER SEQUENCE index_table.partition_id_seq CYCLE', 'differs: sequence index_table.partition_id_seq: sequence' ],
	[ q{UPDATE pg_class SET relrewrite = 0 WHERE oid = 'index_table.intent'::regclass}, 'differs: table index_table.intent: properties' ],
	[ q{UPDATE pg_extension SET extcondition[1] = 'WHERE false' WHERE extname = 'index_table'}, 'differs: data dumped of index_table.partition' ],
	[ q{UPDATE pg_extension SET extconfig = extconfig[2:], extcondition = extcondition[2:] WHERE extname = 'index_table'}, 'missing: data dumped of index_table.partition' ],
	[ q{UPDATE pg_init_privs SET initprivs = '{}' WHERE objoid = 'index_table.load'::regproc}, 'differs: function index_table.load(): rights' ],
	[ 'CREATE RULE more AS ON DELETE TO index_table.intent DO ALSO NOTHING', 'left over: table index_table.intent: rule more' ],
	[ 'ALTER EVENT TRIGGER index_table_drop DISABLE', 'differs: event trigger index_table_drop: definition' ],
	[ q{UPDATE pg_event_trigger SET evttags = evttags[2:] WHERE evtname = 'index_table_ddl_end'}, 'differs: event trigger index_table_ddl_end: definition' ],
	[ 'DROP CAST (oid AS index_table.relation)', 'missing: cast from oid to index_table.relation' ],
	[ 'DROP OPERATOR CLASS gin_array_ops USING global', 'missing: operator class gin_array_ops for access method global' ],
	[ q{COMMENT ON ACCESS METHOD global IS 'other'}, 'differs: access method global' ],
	[ q{COMMENT ON TYPE index_table.relation IS NULL}, 'differs: type index_table.relation' ],
	[ q{ALTER TYPE index_table.relation OWNER TO pg_database_owner}, 'differs: type index_table.relation: definition' ],
	[ 'GRANT CREATE ON SCHEMA index_table TO PUBLIC', 'differs: schema index_table' ]);
foreach my $mutation (@mutations)
{
	my ($sql, $told) = @$mutation;
	# The extension's own objects: what is a member cannot be dropped, and follows nobody's DDL.
	my $free = "SET allow_system_table_mods = on; SET client_min_messages = error; SET LOCAL event_triggers = off;";
	$free =~ s/SET LOCAL event_triggers = off;// if $node->pg_version < 17;
	$free .= "ALTER EXTENSION index_table DROP $1;" if $sql =~ /^DROP (FUNCTION \S+|VIEW \S+|CAST \([^)]*\)|OPERATOR CLASS .*)$/;
	my $differences = eval { catalog_differences(extension_catalog($node, 'fresh', $free . $sql), $fresh) } // $@;
	like($differences, qr/^\Q$told\E$/m, 'seen: ' . substr($sql, 0, 100));
}
same_catalog_ok('fresh', 'nothing of it is left');

# --- Index tables of the old version ----------------------------------------------------------

# All that writes to the database, one transaction after the other until it is told to stop.
my $writer = q{
CREATE TABLE written (rounds int);
INSERT INTO written VALUES (0);
CREATE TABLE stop ();
CREATE PROCEDURE write_on() LANGUAGE plpgsql AS $$
DECLARE
	r int := 0;
BEGIN
	WHILE to_regclass('stop') IS NOT NULL LOOP
		r := r + 1;
		INSERT INTO customers (id, email, town, tags, phone, active) VALUES (100000 + r, 'written' || r, 'Town ' || r % 20, ARRAY['t' || r % 5], '556-' || r % 9, true);
		UPDATE customers SET town = 'Moved ' || r WHERE id = r % 1000;
		DELETE FROM customers WHERE id = 100000 + r - 7;
		UPDATE queued SET town = 'Moved ' || r % 50 WHERE id = r % 500;
		INSERT INTO people VALUES (100000 + r, 'mail' || r, 'Town ' || r % 17);
		UPDATE boxes SET weight = weight + 1 WHERE id = r % 50;
		UPDATE written SET rounds = r;
		COMMIT;
	END LOOP;
END $$;};

# A table each that is deferred, has global indexes, is captured, and has a foreign partition.
my $more_tables = q{
CREATE TABLE queued (id int PRIMARY KEY, town text, note text) PARTITION BY HASH (id);
CREATE TABLE queued_0 PARTITION OF queued FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE queued_1 PARTITION OF queued FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO queued SELECT i, 'Town ' || i % 30, 'note ' || i FROM generate_series(1, 500) AS i;
SELECT index_table.create('queued', 'town', 'partial', include => 'note', maintenance => 'deferred');
UPDATE queued SET town = 'Later ' || id WHERE id <= 100;
DELETE FROM queued WHERE id BETWEEN 90 AND 120;

CREATE TABLE people (id int, mail text, town text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'person' || i, 'Town ' || i % 17 FROM generate_series(1, 1000) AS i;
CREATE INDEX people_mail ON people USING global (mail) WITH (unique);
CREATE INDEX people_town ON people USING global ((ARRAY[town])) WITH (method = gin);
DELETE FROM people WHERE id % 3 = 0;

CREATE TABLE boxes (id int PRIMARY KEY, weight int);
INSERT INTO boxes SELECT i, i FROM generate_series(1, 50) AS i;
SELECT index_table.capture('boxes');
UPDATE boxes SET weight = 0 WHERE id < 10;

CALL index_table.create_concurrently('customers', 'phone, town', name => 'customers_by_phone_town');
CALL index_table.rebuild('customers_by_phone_town');
TRUNCATE customers_1;
INSERT INTO customers (id, email, town) SELECT i, 'late' || i, 'Late' FROM generate_series(3001, 3100) AS i;
};
my $foreign_tables = q{
CREATE SCHEMA shard;
CREATE TABLE shard.far (id int PRIMARY KEY, region text NOT NULL, town text);
CREATE TABLE places (id int NOT NULL, region text NOT NULL, town text) PARTITION BY LIST (region);
CREATE FOREIGN TABLE places_far PARTITION OF places FOR VALUES IN ('far') SERVER shard OPTIONS (schema_name 'shard', table_name 'far');
CREATE TABLE places_here PARTITION OF places (PRIMARY KEY (id)) FOR VALUES IN ('here');
INSERT INTO places SELECT i, (ARRAY['far', 'here'])[1 + i % 2], 'Town ' || i % 7 FROM generate_series(1, 100) AS i;
SELECT index_table.capture('shard.far');
SELECT index_table.create('places', 'town', identity => 'id, region');
INSERT INTO shard.far VALUES (201, 'far', 'Town 3');
};

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
my $events = '"Odd.Names"."Events"';
my @event_identity = ('id', 'day', 'kind');
my @tables = (
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_town', base => 'customers', key => ['lower(b.town)'], copies => [ 'id', 'phone' ], identity => 1),
	describe(name => 'customers_by_phone', base => 'customers', key => ['b.phone'], copies => [ 'id', 'email', 'town', 'tags', 'active' ], identity => 1),
	describe(name => 'customers_by_tag', base => 'customers', key => ['m.v'], elements => $tags, copies => ['id'], identity => 1),
	describe(name => 'customers_by_phone_town', base => 'customers', key => [ 'b.phone', 'b.town' ], copies => ['id'], identity => 1),
	describe(name => '"Odd.Names"."Events_by_Code"', base => $events, key => ['b."Code"'], predicate => "b.kind <> 'b'",
		copies => \@event_identity, identity => 3, is_unique => 1),
	describe(name => '"Odd.Names"."By ""Note"""', base => $events, key => ['upper(b.note)'], copies => [ @event_identity, '"Code"', 'note' ], identity => 3),
	describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'queued_by_town', base => 'queued', key => ['b.town'], copies => [ 'id', 'note' ], identity => 1));
my $has_shards = has_extension($node, 'postgres_fdw');
push @tables, describe(name => 'places_by_town', base => 'places', key => ['b.town'], copies => [ 'id', 'region' ], identity => 2) if $has_shards;

# After what is queued is carried out; global indexes besides. A copy of the database has servers that lead to the original.
sub in_step_ok
{
	my ($db, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sqlstate($node, $db, "CALL index_table.drain()"), '', "$label: drained");
	oracle_ok($node, $db, "$label: in step");
	is($node->safe_psql($db, "SELECT v.* FROM unnest('{people_mail,people_town}'::regclass[]) AS g, index_table.verify(g) AS v"), '', "$label: global indexes too");
	return;
}

# Each view can be read, each function called that is not called elsewhere here.
sub everything_ok
{
	my ($db, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $views = $node->safe_psql($db, "SELECT string_agg(format('SELECT count(*) FROM %s;', oid::regclass), ' ' ORDER BY oid) FROM pg_class WHERE relnamespace = 'index_table'::regnamespace AND relkind IN ('r', 'v')");
	is(sqlstate($node, $db, $views), '', "$label: tables and views can be read");
	is(sqlstate($node, $db, q{
		SELECT * FROM index_table.stat; SELECT * FROM index_table.queue;
		SELECT * FROM index_table.describe('customers_by_tag');
		SELECT * FROM index_table.lookup('customers_by_town', 'moved 1'); SELECT * FROM index_table.shards('customers_by_email', 'mail1');
		SELECT * FROM index_table.shard_of('customers', 1); SELECT * FROM index_table.fetch(NULL::customers, 'customers_by_email', 'mail1');
		SELECT * FROM index_table.pending('boxes', 10); SELECT * FROM index_table.pending(NULL::boxes, 'boxes', 10); SELECT * FROM index_table.backlog('boxes');
		SELECT index_table.discard('boxes', ARRAY(SELECT min(number) FROM index_table.pending('boxes', 10)));
		SELECT index_table.retry('queued_by_town'); SELECT index_table.wait_caught_up('queued_by_town', '0');
		SELECT index_table.vacuum(); SELECT index_table.repair('customers_by_phone_town');
		SELECT index_table.create('boxes', 'weight'); SELECT index_table.set_maintenance('boxes_by_weight', 'deferred');
		UPDATE boxes SET weight = -id WHERE id = 50; SELECT index_table.set_maintenance('boxes_by_weight', 'immediate');
		SELECT index_table.drop('boxes_by_weight')}), '', "$label: functions can be called");
	return;
}

# DDL that index tables follow, and changes.
sub goes_on_ok
{
	my ($db, $label, $n) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sqlstate($node, $db, qq{
		INSERT INTO customers (id, email, town, tags) SELECT i, 'mail' || i, 'Town ' || i, ARRAY['n', 't' || i % 4] FROM generate_series(1000 * $n, 1000 * $n + 99) i;
		UPDATE customers SET phone = 'p' || id WHERE id % 7 = 0;
		TRUNCATE customers_0;
		CREATE TABLE "Odd.Names".top$n PARTITION OF $events FOR VALUES FROM (1000 * $n) TO (1000 * $n + 100);
		INSERT INTO $events VALUES (1000 * $n, 1000 * $n, 'a', 'CodeNew$n', 'new');
		ALTER TABLE $events DETACH PARTITION "Odd.Names".top$n;
		UPDATE plain SET v = v + 1000;
		UPDATE queued SET note = 'changed' WHERE id % 10 = 0;
		UPDATE people SET mail = 'changed' || id WHERE id % 11 = 0;
		VACUUM people}), '', "$label: changes and DDL");
	like(sqlstate($node, $db, 'INSERT INTO plain SELECT 9999, v FROM plain LIMIT 1'), qr/^23505: .*"plain_by_v_key"/, "$label: a key that is taken");
	like(sqlstate($node, $db, "INSERT INTO people SELECT 9999, mail FROM people LIMIT 1"), qr/^23505/, "$label: of a global index");
	is($node->safe_psql($db, q{LOAD 'index_table'; SET index_table.enable_scan = force; SELECT count(*) FROM customers WHERE email = 'late3001'}), '1', "$label: a query finds it");
	like($node->safe_psql($db, q{LOAD 'index_table'; SET index_table.enable_scan = force; EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE email = 'late3001'}),
		qr/Index Table: customers_by_email/, "$label: by the index table");
	return;
}

# A copy of the database, which is of this version.
sub copied_ok
{
	my ($db, $copy, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', "CREATE DATABASE $copy");
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/$copy", $node->connstr($db) ], "$label: dumped");
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($copy), "$directory/$copy" ], "$label: restored");
	$node->safe_psql($copy, "ALTER SERVER shard OPTIONS (SET dbname '$copy')") if $has_shards;
	same_catalog_ok($copy, "$label: its catalog");
	in_step_ok($copy, $label);
	goes_on_ok($copy, $label, 60);
	in_step_ok($copy, "$label, afterwards");
	return;
}

# --- The update --------------------------------------------------------------------------------

# What must be as it was.
my @same = (
	'SELECT index_table::oid, base::oid, state FROM index_table.definition',
	"SELECT d.index_table, pg_get_ruledef(r.oid) FROM index_table.definition d JOIN pg_rewrite r ON r.ev_class = d.index_table",
	'SELECT relation::oid, base::oid, p FROM index_table.partition p',
	'SELECT index_table::oid, base::oid, r FROM index_table.retired_partition r',
	'SELECT c FROM index_table.captured c', 'SELECT u FROM index_table.undrained u', 'SELECT i FROM index_table.intent i',
	'SELECT last_value, is_called FROM index_table.partition_id_seq',
	"SELECT tgrelid::regclass, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text NOT LIKE 'index_table.%'",
	"SELECT indexrelid::regclass, pg_get_indexdef(indexrelid), indisvalid, pg_relation_filenode(indexrelid) FROM pg_index WHERE indrelid >= 16384 AND indrelid::regclass::text NOT LIKE 'index_table.%'",
	map { "SELECT (t.*)::text FROM $_->{name} t" } @tables);

sub state_of
{
	my ($db) = @_;
	return { map { $_ => join("\n", sort split(/\n/, $node->safe_psql($db, $_))) } @same };
}

my @released = place_released($node);
ok(@released > 0, 'versions were released: ' . join(' ', @released));
foreach my $old (@released)
{
	my $db = "from_$old";
	$node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
	my $sql = varied_tables_sql() =~ s/CREATE EXTENSION index_table;/CREATE EXTENSION index_table VERSION '$old';/r;
	$node->safe_psql($db, $sql . $more_tables);
	$node->safe_psql($db, 'CREATE EXTENSION postgres_fdw;' . server_sql('shard', $node, database => $db) . $foreign_tables) if $has_shards;
	is($node->safe_psql($db, "SELECT extversion FROM pg_extension WHERE extname = 'index_table'"), $old, "$old: created");
	$node->safe_psql($db, oracle_sql(@tables));

	# The old SQL, served by the new library.
	ok($node->safe_psql($db, "SELECT pending > 0 FROM index_table.stat WHERE index_table = 'queued_by_town'::regclass") eq 't', "$old: something is queued");
	everything_ok($db, $old);
	goes_on_ok($db, $old, 50);
	in_step_ok($db, $old);
	copied_ok($db, 'restored_' . $old =~ tr/./_/r, "$old: restored");

	# Back to something that is queued; a session that has used all this before, and goes on during the update.
	$node->safe_psql($db, "UPDATE queued SET town = 'Queued ' || id WHERE id % 4 = 0");
	$node->safe_psql($db, $writer);
	my $session = start_session($node, $db, "LOAD 'index_table'; CALL write_on();");
	$node->poll_query_until($db, 'SELECT rounds > 20 FROM written') or die 'nothing is written';
	is(sqlstate($node, $db, "ALTER EXTENSION index_table UPDATE"), '', "$old: updated while others write");
	my $rounds = $node->safe_psql($db, 'SELECT rounds FROM written');
	$node->poll_query_until($db, "SELECT rounds > $rounds + 20 FROM written") or die 'nothing is written any more';
	$node->safe_psql($db, 'DROP TABLE stop');
	is(end_session($session), '', "$old: who writes does not notice");
	is($node->safe_psql($db, "SELECT extversion FROM pg_extension WHERE extname = 'index_table'"), $version, "$old: it is $version");
	same_catalog_ok($db, "$old: the catalog is that of $version");
	ok($node->safe_psql($db, "SELECT pending > 0 FROM index_table.stat WHERE index_table = 'queued_by_town'::regclass") eq 't', "$old: something is queued still");
	everything_ok($db, "$old, updated");
	in_step_ok($db, "$old, updated");
	goes_on_ok($db, "$old, updated", 70);
	in_step_ok($db, "$old, updated, afterwards");
	copied_ok($db, 'copy_' . $old =~ tr/./_/r, "$old, updated: copy");

	# Another one, in which nothing happens besides: everything is as it was.
	my $quiet = 'quiet_' . $old =~ tr/./_/r;
	$node->safe_psql('postgres', "CREATE DATABASE $quiet");
	$node->safe_psql($quiet, $sql . $more_tables);
	$node->safe_psql($quiet, 'CREATE EXTENSION postgres_fdw;' . server_sql('shard', $node, database => $quiet) . $foreign_tables) if $has_shards;
	my $before = state_of($quiet);
	# All or nothing.
	is(sqlstate($node, $quiet, 'BEGIN; ALTER EXTENSION index_table UPDATE; ROLLBACK'), '', "$old: an update that is rolled back");
	is($node->safe_psql($quiet, "SELECT extversion FROM pg_extension WHERE extname = 'index_table'"), $old, "$old: has not been");
	is(sqlstate($node, $quiet, 'ALTER EXTENSION index_table UPDATE'), '', "$old: updated");
	my $after = state_of($quiet);
	is($after->{$_}, $before->{$_}, "$old: same " . substr($_, 0, 60)) foreach @same;
	check_storage($node, $quiet, $old);

	# --- A later version ------------------------------------------------------------------------
	# What scripts may do, past the event triggers of the extension that is being updated.
	place("index_table--$version--999.0.sql", q{\echo Use "ALTER EXTENSION index_table UPDATE TO '999.0'" to load this file. \quit
DROP VIEW index_table.queue;
DROP FUNCTION index_table.queue_status();
CREATE FUNCTION index_table.queue_status(OUT index_table regclass, OUT partition regclass, OUT server name, OUT pending bigint, OUT oldest timestamptz,
    OUT refused integer, OUT error text, OUT tries integer) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_queue_status' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE VIEW index_table.queue AS SELECT * FROM index_table.queue_status();
CREATE OR REPLACE VIEW index_table.partitions AS
    SELECT p.base::pg_catalog.regclass AS base, p.relation::pg_catalog.regclass AS partition, p.partition_id, NULL::name AS server, 1 AS more
      FROM index_table.partition p;
CREATE OR REPLACE FUNCTION index_table.maintain() RETURNS trigger AS 'MODULE_PATHNAME', 'index_table_maintain' LANGUAGE C VOLATILE PARALLEL UNSAFE;
ALTER FUNCTION index_table.vacuum(regclass) RENAME TO vacuum_more;
ALTER FUNCTION index_table.vacuum_more(regclass) RENAME TO vacuum;
CREATE TABLE index_table.more (id int PRIMARY KEY, relation index_table.relation);
CREATE INDEX more_relation_idx ON index_table.more (relation);
CREATE SEQUENCE index_table.more_seq OWNED BY index_table.more.id;
SELECT pg_catalog.pg_extension_config_dump('index_table.more', '');
CREATE TRIGGER load BEFORE INSERT ON index_table.more FOR EACH ROW EXECUTE FUNCTION index_table.load();
ALTER TABLE index_table.more ENABLE ALWAYS TRIGGER load;
ALTER TABLE index_table.more ADD COLUMN later text, ALTER COLUMN relation SET NOT NULL, ADD CHECK (id > 0);
ALTER TABLE index_table.more RENAME COLUMN later TO late;
ALTER TABLE index_table.more DROP COLUMN late;
INSERT INTO index_table.more SELECT partition_id, relation FROM index_table.partition;
ALTER TABLE index_table.undrained ADD COLUMN more int;
ALTER TABLE index_table.partition ALTER COLUMN base SET STATISTICS 100, SET (fillfactor = 90);
DROP INDEX index_table.partition_base_idx;
CREATE INDEX partition_base_idx ON index_table.partition (base);
ALTER TABLE index_table.retired_partition DROP CONSTRAINT retired_partition_pkey, ADD PRIMARY KEY (index_table, partition_id);
DROP TRIGGER load ON index_table.intent;
CREATE TRIGGER load BEFORE INSERT ON index_table.intent FOR EACH ROW EXECUTE FUNCTION index_table.load();
ALTER TABLE index_table.intent ENABLE ALWAYS TRIGGER load;
CREATE TABLE index_table.unaltered (id int);
CREATE TABLE index_table.gone ();
DROP TABLE index_table.gone;
CREATE TYPE index_table.mood AS ENUM ('good');
ALTER TYPE index_table.mood RENAME VALUE 'good' TO 'better';
CREATE DOMAIN index_table.number AS int CHECK (VALUE > 0);
DROP DOMAIN index_table.number;
CREATE FUNCTION index_table.longer(text, text) RETURNS int LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT length($1) - length($2)';
CREATE OPERATOR CLASS index_table.more_ops FOR TYPE text USING global AS FUNCTION 1 index_table.longer(text, text);
DROP OPERATOR FAMILY index_table.more_ops USING global CASCADE;
CREATE RULE more AS ON DELETE TO index_table.more DO ALSO NOTHING;
ALTER RULE more ON index_table.more RENAME TO other;
DROP EVENT TRIGGER index_table_ddl_end;
CREATE EVENT TRIGGER index_table_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE RULE', 'CREATE TRIGGER', 'CREATE INDEX', 'COMMENT',
                 'ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER SCHEMA', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER SEQUENCE',
                 'ALTER EXTENSION', 'CREATE PUBLICATION', 'ALTER PUBLICATION', 'CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION')
    EXECUTE FUNCTION index_table.on_ddl_end();
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
GRANT SELECT ON index_table.more, index_table.queue TO PUBLIC;
REVOKE ALL ON FUNCTION index_table.longer(text, text) FROM PUBLIC;
COMMENT ON TABLE index_table.more IS 'more';
SELECT index_table.keep_local();
});
	place("index_table--$version--999.1.sql", "ALTER TABLE index_table.intent ADD COLUMN never int;\nDROP FUNCTION index_table.retry(regclass);\nSELECT 1 / 0;\n");
	my $catalog = extension_catalog($node, $db);
	like(sqlstate($node, $db, "ALTER EXTENSION index_table UPDATE TO '999.1'"), qr/^22012/, 'a script that fails');
	is(catalog_differences(extension_catalog($node, $db), $catalog), '', 'has changed nothing');
	oracle_ok($node, $db, 'nor anything else');
	is(sqlstate($node, $db, "ALTER EXTENSION index_table UPDATE TO '999.0'"), '', 'a script that does everything');
	is($node->safe_psql($db, 'SELECT count(*) = (SELECT count(*) FROM index_table.partition) AND bool_and(p.id IS NOT NULL) FROM index_table.more m LEFT JOIN index_table.more p USING (id)'), 't',
		'has done it');
	is($node->safe_psql($db, "SELECT count(*) FROM pg_class WHERE relrewrite = oid AND oid IN ('index_table.more'::regclass, 'index_table.unaltered'::regclass)"),
		'2', 'its tables are kept out of replication');
	everything_ok($db, '999.0');
	goes_on_ok($db, '999.0', 80);
	in_step_ok($db, '999.0');
	check_storage($node, $db, '999.0');
	is(sqlstate($node, $db, "DROP EXTENSION index_table CASCADE"), '', 'and all of it can be dropped');
	unlink splice @placed;
}

$node->stop;
done_testing();
