# pg_upgrade carries index tables over, of released versions of the extension, too, which are updated afterwards. From
# the server of OLD_PG_CONFIG; without it, from a cluster of the same version.
use strict;
use warnings;

use Cwd qw(getcwd);
use FindBin;
use lib "$FindBin::RealBin/lib";
use ExtensionCatalog;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();
my $old = new_node('old', $ENV{OLD_INSTALL} ? (install_path => $ENV{OLD_INSTALL}) : ());
note 'from ' . $old->safe_psql('postgres', 'SHOW server_version');

# OIDs are the same afterwards, numbers of columns are not: some were dropped.
$old->safe_psql('postgres', varied_tables_sql() . q{
CREATE ROLE owner;
ALTER TABLE plain OWNER TO owner;
GRANT CREATE ON SCHEMA public TO owner;

-- Later columns, and one that is gone, in an index table too.
ALTER TABLE customers ADD COLUMN later int DEFAULT 5;
ALTER TABLE customers DROP COLUMN active;
TRUNCATE customers_1;
INSERT INTO customers SELECT i, 'mail' || i, 'Town', '{x}', NULL, i FROM generate_series(2001, 2100) i;
CREATE TABLE "Odd.Names".top PARTITION OF "Odd.Names"."Events" FOR VALUES FROM (200) TO (300);
INSERT INTO "Odd.Names"."Events" VALUES (1000, 250, 'a', 'Code1000', 'gone');
DROP TABLE "Odd.Names".top;
});
# One that is being built, for which towns would have to differ.
like(sqlstate($old, 'postgres', "CALL index_table.create_concurrently('customers', 'town', name => 'unfinished', is_unique => true)"),
	qr/^23505/, 'old: there is an index table that is not complete');
$old->safe_psql('postgres', "UPDATE customers SET town = 'Moved ' || id WHERE id % 2 = 0");

my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
my $events = '"Odd.Names"."Events"';
my @event_identity = ('id', 'day', 'kind');
my @tables = (
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_town', base => 'customers', key => ['lower(b.town)'], copies => [ 'id', 'phone' ], identity => 1),
	describe(name => 'customers_by_phone', base => 'customers', key => ['b.phone'],
		copies => [ 'id', 'email', 'town', 'tags', 'later' ], identity => 1),
	describe(name => 'customers_by_tag', base => 'customers', key => ['m.v'], elements => $tags, copies => ['id'], identity => 1),
	describe(name => '"Odd.Names"."Events_by_Code"', base => $events, key => ['b."Code"'], predicate => "b.kind <> 'b'",
		copies => \@event_identity, identity => 3, is_unique => 1),
	describe(name => '"Odd.Names"."By ""Note"""', base => $events, key => ['upper(b.note)'],
		copies => [ @event_identity, '"Code"', 'note' ], identity => 3),
	describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1, is_unique => 1));
my $unfinished = describe(name => 'unfinished', base => 'customers', key => ['b.town'], copies => ['id'], identity => 1, is_unique => 1);
$old->safe_psql('postgres', oracle_sql(@tables));
oracle_ok($old, 'postgres', 'old: in step');

# --- Released versions ------------------------------------------------------------------------

# A database each: tables as above before they were changed.
my @released_tables = map { $_->{name} eq 'customers_by_phone' ? describe(%$_, copies => [ 'id', 'email', 'town', 'tags', 'active' ]) : $_ } @tables;
my @released = -w $old->config_data('--sharedir') . '/extension' ? place_released($old) : ();
foreach my $version (@released)
{
	$old->safe_psql('postgres', qq{CREATE DATABASE "from_$version"});
	$old->safe_psql("from_$version", varied_tables_sql() =~ s/CREATE EXTENSION index_table;/CREATE EXTENSION index_table VERSION '$version';/r);
	$old->safe_psql("from_$version", oracle_sql(@released_tables));
	oracle_ok($old, "from_$version", "$version: in step");
}
note 'released versions: ' . (join(' ', @released) || 'none, scripts cannot be placed');

# --- What is to stay ---------------------------------------------------------------------------

# What must be the same, OIDs included.
my @same = (
	'SELECT d.index_table::oid, d.base::oid, d, s FROM index_table.definition d, index_table.describe(d.index_table) s',
	'SELECT relation::oid, base::oid, p FROM index_table.partition p',
	'SELECT index_table::oid, base::oid, r FROM index_table.retired_partition r',
	'SELECT l FROM index_table.loaded_partition l',
	'SELECT last_value, is_called FROM index_table.partition_id_seq',
	'SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal',
	"SELECT evtname, evtenabled, evttags::text FROM pg_event_trigger",
	'SELECT c.oid::regclass, pg_get_userbyid(relowner) FROM pg_class c JOIN index_table.definition d ON c.oid IN (d.index_table, (index_table.describe(d.index_table)).log)',
	'SELECT (c.*)::text FROM customers c', "SELECT (e.*)::text FROM $events e",
	map { "SELECT (t.*)::text FROM $_->{name} t" } @tables, $unfinished);
my %before = map { $_ => sorted($old, $_) } @same;
my $highest = $old->safe_psql('postgres', 'SELECT last_value FROM index_table.partition_id_seq');

sub sorted
{
	my ($node, $query) = @_;
	return join("\n", sort split(/\n/, $node->safe_psql('postgres', $query)));
}

# --- pg_upgrade -----------------------------------------------------------------------------

my $new = new_node('new', $old->pg_version < 18 ? (no_data_checksums => 1) : ());
$old->stop;
$new->stop;
my $cwd = getcwd();
chdir $directory;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old->config_data('--bindir'),
	'-B', $new->config_data('--bindir'), '-s', $new->host, '-p', $old->port, '-P', $new->port ], 'pg_upgrade');
chdir $cwd;
$new->start;
note 'to ' . $new->safe_psql('postgres', 'SHOW server_version');

is(sorted($new, $_), $before{$_}, 'same ' . substr($_, 0, 60)) foreach @same;
oracle_ok($new, 'postgres', 'in step');

# One statement or more, then everything must be in step.
sub followed_ok
{
	my ($label, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sqlstate($new, 'postgres', $sql), '', $label);
	oracle_ok($new, 'postgres', "$label: in step");
	return;
}

# Queries find the same with index tables and without, and use them.
sub queries_ok
{
	my ($label) = @_;
	foreach my $query (
		"SELECT * FROM customers WHERE email = 'mail77'",
		"SELECT * FROM customers WHERE email IN ('mail1', 'mail2003', 'mail5') ORDER BY email",
		"SELECT id, phone FROM customers WHERE lower(town) = 'town' ORDER BY id",
		"SELECT id FROM customers WHERE phone BETWEEN '555-10' AND '555-11' ORDER BY id",
		"SELECT id FROM customers WHERE 't2' = ANY (tags) ORDER BY id",
		qq{SELECT * FROM $events WHERE "Code" = 'Code7' AND kind <> 'b'},
		qq{SELECT id FROM $events WHERE "Odd.Names"."Shout It"(note) = 'NOTE 3' ORDER BY id})
	{
		my ($on, $off) = map { "LOAD 'index_table'; SET index_table.enable_scan = $_;" } 'force', 'off';
		is($new->safe_psql('postgres', "$on $query"), $new->safe_psql('postgres', "$off $query"), "$label: $query");
		like($new->safe_psql('postgres', "$on EXPLAIN (COSTS OFF) $query"), qr/Custom Scan \(Index Table/, "$label: by an index table");
	}
	return;
}
queries_ok('queries');

# PostgreSQL has forgotten what index tables depend on.
is($new->safe_psql('postgres', q{
	BEGIN;
	ALTER TABLE customers DROP COLUMN town;
	UPDATE customers SET phone = 'changed' WHERE id = 1;
	SELECT string_agg(index_table::text, ' ' ORDER BY index_table::text COLLATE "C") FROM index_table.definition WHERE base = 'customers'::regclass}),
	'customers_by_email customers_by_phone customers_by_tag', 'index tables go with a column in their key');
like(sqlstate($new, 'postgres', 'DROP FUNCTION "Odd.Names"."Shout It"'), qr/^2BP01/, 'and keep a function in their key');

like(sqlstate($new, 'postgres', "INSERT INTO customers VALUES (5000, 'mail2001')"), qr/^23505: .*"customers_by_email_key"/, 'a key that is taken');
like(sqlstate($new, 'postgres', 'INSERT INTO plain VALUES (5000, 0.250)'), qr/^23505/, 'a key that is taken in a plain table');
followed_ok('INSERT', q{
	SET session_replication_role = replica;
	INSERT INTO customers SELECT i, 'mail' || i, 'Town ' || i, ARRAY['n', 't' || i % 4], '555-' || i FROM generate_series(3001, 3100) i;
	RESET session_replication_role;
	INSERT INTO "Odd.Names"."Events" SELECT i, i % 200, chr(97 + i % 4), 'Code' || i, 'N' FROM generate_series(3001, 3100) i;
	INSERT INTO plain VALUES (101, 1000)});
followed_ok('UPDATE and DELETE', q{
	UPDATE customers SET email = upper(email), town = 'Moved', tags = tags || '{m}' WHERE id % 7 = 0;
	UPDATE customers SET id = id + 10000, phone = NULL WHERE id % 11 = 0;
	DELETE FROM customers WHERE id % 5 = 1;
	UPDATE "Odd.Names"."Events" SET day = 199 - day, note = 'moved' WHERE id % 5 = 0;
	UPDATE plain SET v = -v});
followed_ok('TRUNCATE and INSERT', q{
	TRUNCATE customers_0;
	INSERT INTO customers SELECT i, 'again' || i, 'Town', '{t}', '1' FROM generate_series(4001, 4030) i});
followed_ok('a new partition', q{
	CREATE TABLE "Odd.Names".low_c PARTITION OF "Odd.Names".low FOR VALUES IN ('z');
	INSERT INTO "Odd.Names"."Events" VALUES (6000, 1, 'z', 'Code6000', 'z');
	ALTER TABLE "Odd.Names"."Events" DETACH PARTITION "Odd.Names"."High"});
is($new->safe_psql('postgres', qq{SELECT partition_id > $highest FROM index_table.partition WHERE relation = '"Odd.Names".low_c'::regclass}),
	't', 'its number was never used');
is(sqlstate($new, 'postgres', "UPDATE customers SET town = 'Town ' || id; CALL index_table.rebuild('unfinished')"), '', 'rebuild');
$new->safe_psql('postgres', 'DROP SCHEMA oracle CASCADE;' . oracle_sql(@tables, $unfinished));
oracle_ok($new, 'postgres', 'rebuild: in step');
$new->safe_psql('postgres', 'SELECT index_table.vacuum()');
oracle_ok($new, 'postgres', 'vacuum: in step');
queries_ok('queries afterwards');
check_storage($new, 'postgres');

# --- Released versions, updated afterwards ---------------------------------------------------------

$new->safe_psql('postgres', 'CREATE DATABASE fresh');
$new->safe_psql('fresh', 'CREATE EXTENSION index_table');
my $change = q{
	INSERT INTO customers (id, email, town, tags) SELECT i, 'late' || i, 'Town ' || i, ARRAY['n', 't' || i % 4] FROM generate_series(7001, 7100) i;
	UPDATE customers SET phone = 'p' || id WHERE id % 7 = 0;
	DELETE FROM customers WHERE id % 5 = 1;
	UPDATE plain SET v = v + 1000};
foreach my $version (@released)
{
	my $db = "from_$version";
	oracle_ok($new, $db, "$version: in step after pg_upgrade");
	is(sqlstate($new, $db, $change), '', "$version: changes before the update");
	oracle_ok($new, $db, "$version: in step before the update");
	is(sqlstate($new, $db, 'ALTER EXTENSION index_table UPDATE'), '', "$version: updated");
	is(catalog_differences(extension_catalog($new, $db), extension_catalog($new, 'fresh')), '', "$version: its catalog");
	is(sqlstate($new, $db, $change =~ s/7001, 7100/7101, 7200/r), '', "$version: changes after the update");
	oracle_ok($new, $db, "$version: in step after the update");
	like(sqlstate($new, $db, "INSERT INTO customers (id, email) VALUES (7500, 'late7150')"), qr/^23505/, "$version: a key that is taken");
}

$new->stop;
done_testing();
