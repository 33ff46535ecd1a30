# How the extension is removed, and what is left without its library: the steps of docs/operations.md, on a server of its
# own, whose library is hidden.
use strict;
use warnings;

use File::Basename;
use File::Copy;
use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# --- An installation whose library can be hidden from nobody else ------------------------------------

my %place;
($place{$_}) = run_command([ 'pg_config', "--$_" ]) foreach 'bindir', 'pkglibdir', 'sharedir';
my $common = $place{bindir};
$common = dirname($common) until index($place{pkglibdir}, "$common/") == 0 && index($place{sharedir}, "$common/") == 0;
my $root = PostgreSQL::Test::Utils::tempdir();
my %copy = map { $_ => $root . substr($place{$_}, length $common) } keys %place;
make_path($copy{bindir}, $copy{pkglibdir}, dirname($copy{sharedir}));
foreach my $program (grep { -f "$place{bindir}/$_" } 'postgres', 'pg_ctl', 'pg_config', 'initdb', 'initdb.real', 'psql')
{
	copy("$place{bindir}/$program", "$copy{bindir}/$program") or die "$program: $!";
	chmod 0755, "$copy{bindir}/$program";
}
symlink $_, "$copy{pkglibdir}/" . basename($_) foreach glob "$place{pkglibdir}/*";
symlink $place{sharedir}, $copy{sharedir} or die "$copy{sharedir}: $!";
my $library = (glob "$copy{pkglibdir}/index_table.{so,dylib}")[0];
plan skip_all => 'the library is not in ' . $place{pkglibdir} unless -l $library;

sub hide { rename $library, "$library.hidden" or die "$library: $!"; return }
sub show { rename "$library.hidden", $library or die "$library: $!"; return }

# --- What the document says ---------------------------------------------------------------------------

my $document = slurp_file("$FindBin::RealBin/../../docs/operations.md");

sub steps_of
{
	my ($heading) = @_;
	my ($section) = $document =~ /^## $heading\n(.*?)(?=^## )/ms or die "no section $heading";
	return $section =~ /^```sql\n(.*?)^```$/msg;
}
my ($statements, $removal) = steps_of('Removing the extension');
my ($no_event_triggers, $no_global_indexes, $no_index_tables) = steps_of('Without the library');

# --- Databases with all that there is ---------------------------------------------------------------

my $node = new_node('removal', install_path => dirname($copy{bindir}), conf => q{
shared_preload_libraries = 'index_table'
index_table.drain_naptime = 0 # sessions, in the way of CREATE DATABASE
index_table.vacuum_naptime = 0
});
my $extensions = $node->safe_psql('postgres', q{SELECT string_agg(name, ' ') FROM pg_available_extensions WHERE name IN ('citext', 'pg_trgm')});
my $has_types = $extensions =~ /citext/ && $extensions =~ /pg_trgm/;
my $fixture = q{
CREATE EXTENSION index_table;
CREATE TABLE customers (customer_id int PRIMARY KEY, email text, town text, tags text[]) PARTITION BY HASH (customer_id);
CREATE TABLE customers_0 PARTITION OF customers FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE customers_1 PARTITION OF customers FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO customers SELECT i, 'mail' || i, 'town ' || i % 10, ARRAY['t' || i % 3, 'all'] FROM generate_series(1, 500) AS i;
SELECT index_table.create('customers', 'email', is_unique => true);
SELECT index_table.create('customers', 'town, lower(email)', strategy => 'denormalized', predicate => 'customer_id > 10', maintenance => 'deferred', name => 'of_town');
SELECT index_table.create('customers', 'unnest(tags)', partitions => 2, name => '"Odd ""name"');
CREATE TABLE visits (visit int PRIMARY KEY, email text REFERENCES customers_by_email (email)) PARTITION BY RANGE (visit);
CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM (0) TO (1000);
INSERT INTO visits VALUES (1, 'mail1'), (2, 'mail2');
CREATE TABLE events (id int, day int, note text, place point) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10);
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);
CREATE TABLE events_2_0 PARTITION OF events_2 DEFAULT;
CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM (20) TO (30);
INSERT INTO events SELECT i, i % 30, 'note ' || i, point(i, i) FROM generate_series(1, 600) AS i;
CREATE INDEX events_id ON events USING global (id) WITH (unique);
CREATE INDEX events_several ON events USING global (lower(note) DESC, day) INCLUDE (id) WITH (vacuum = eager) WHERE id > 5;
CREATE INDEX events_note ON events USING global (note) WITH (method = hash);
CREATE INDEX events_place ON events USING global (place) WITH (method = gist);
CREATE INDEX events_id_native ON events (id);
ALTER TABLE events DETACH PARTITION events_3;
CREATE TABLE outgoing (id int PRIMARY KEY, v text);
SELECT index_table.capture('outgoing');
INSERT INTO outgoing VALUES (1, 'x');
CREATE TABLE bystander (id int PRIMARY KEY, v text);
INSERT INTO bystander VALUES (1, 'x');
DELETE FROM events WHERE id % 7 = 0;
VACUUM;
UPDATE customers SET town = 'moved' WHERE customer_id = 20;
};
$fixture .= q{
CREATE EXTENSION citext;
CREATE EXTENSION pg_trgm;
CREATE TABLE names (id int, name citext) PARTITION BY LIST (id);
CREATE TABLE names_1 PARTITION OF names DEFAULT;
INSERT INTO names VALUES (1, 'Ann');
CREATE INDEX names_name ON names USING global (name) WITH (unique);
CREATE INDEX names_similar ON names USING global ((name::text) gin_trgm_ops) WITH (method = gin);
} if $has_types;
my @tables = ('customers', 'visits', 'events', 'events_3', 'outgoing', 'bystander', $has_types ? 'names' : ());
my $rows = join ' UNION ALL ', map { "SELECT '$_ ' || count(*) || ' ' || md5(string_agg(t::text, '' ORDER BY t::text)) FROM $_ AS t" } @tables;

# What is left in the catalogs; the schema of the extension is no member.
my $left = q{SELECT string_agg(what, ', ' ORDER BY what) FROM (
	SELECT 'relation ' || relname FROM pg_class WHERE relname ~ 'index_table|customers_by|of_town|Odd|unfinished|queue'
	UNION ALL SELECT 'access method ' || amname FROM pg_am WHERE amname ~ 'global|index_table'
	UNION ALL SELECT 'operator class ' || opcname FROM pg_opclass WHERE opcmethod NOT IN (SELECT oid FROM pg_am)
	UNION ALL SELECT 'operator family ' || opfname FROM pg_opfamily WHERE opfmethod NOT IN (SELECT oid FROM pg_am)
	UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger
	UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE probin ~ 'index_table'
	UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
	UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite WHERE rulename ~ 'index_table'
	UNION ALL SELECT 'constraint ' || conname FROM pg_constraint WHERE conname ~ 'customers_by|visits_email' OR contype = 'f'
	UNION ALL SELECT 'mark of ' || relname FROM pg_class WHERE relrewrite <> 0
	UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname = 'index_table') AS v (what)};
my $changes = q{INSERT INTO customers VALUES (1000, 'mail1', 'x'); UPDATE customers SET email = 'y' WHERE customer_id = 3; DELETE FROM customers WHERE customer_id = 4;
	INSERT INTO events VALUES (1, 5, 'twice'); UPDATE events SET note = 'z' WHERE id = 8; INSERT INTO events_3 VALUES (1, 25, 'twice'); INSERT INTO visits VALUES (3, 'nobody');
	TRUNCATE outgoing; ALTER TABLE customers ADD COLUMN more int; CREATE TABLE another (a int); DROP TABLE another; VACUUM};

foreach my $db ('removed', 'lost', 'kept')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, $fixture);
	like(sqlstate($node, $db, q{CALL index_table.create_concurrently('customers', 'town', is_unique => true, name => 'unfinished')}), qr/^23505/, "$db: an index table that is not complete");
}
my $before = $node->safe_psql('lost', $rows);

sub works_ok
{
	my ($db, $sql, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sqlstate($node, $db, $sql), '', $label);
}

# --- Removing the extension ---------------------------------------------------------------------------

my $again = $node->safe_psql('removed', $statements);
is(scalar(split /\n/, $again), $has_types ? 10 : 8, 'statements that make everything again');
my ($status, $out, $err) = $node->psql('removed', "\\set ON_ERROR_STOP on\nSET client_min_messages = notice;\n$removal");
is($status, 0, 'the steps can be taken') or diag($err);
unlike($err, qr/drop cascades to (?!operator|constraint|table)/, 'and take along what is said');
is($node->safe_psql('removed', $left), '', 'nothing is left');
is($node->safe_psql('removed', $rows), $before, 'but for all rows');
works_ok('removed', $changes, 'which are tables again');
$node->safe_psql('removed', q{DELETE FROM customers WHERE customer_id = 1000; DELETE FROM events WHERE note = 'twice'; CREATE EXTENSION index_table});
foreach my $statement (split /\n/, $again)
{
	$statement =~ s/, maintenance => 'deferred'//; # nobody drains here
	works_ok('removed', $statement, "again: $statement") unless $statement =~ /unfinished/;
}
like(sqlstate($node, 'removed', q{INSERT INTO customers VALUES (1000, 'mail1', 'x')}), qr/^23505/, 'keys are unique again');
is($node->safe_psql('removed', q{SELECT count(*) FROM index_table.index_tables, index_table.verify(index_table)}), 0, 'in step');
is($node->safe_psql('removed', q{SELECT count(*) FROM index_table.global_indexes, index_table.verify(index)}), 0, 'global indexes, too');

# DROP EXTENSION … CASCADE by itself, with index tables: foreign keys do not refer to what nothing follows.
$node->safe_psql('postgres', 'CREATE DATABASE cascaded TEMPLATE kept');
$node->safe_psql('cascaded', q{SELECT index_table.release('outgoing'); DROP TABLE IF EXISTS names});
(undef, undef, $err) = $node->psql('cascaded', 'SET client_min_messages = notice; DROP EXTENSION index_table');
like($err, qr/cannot drop extension index_table because other objects depend on it/, 'DROP EXTENSION is refused');
is($node->safe_psql('cascaded', q{SELECT count(*) FROM pg_constraint WHERE conname = 'visits_email_fkey'}), 2, 'and drops nothing');
(undef, undef, $err) = $node->psql('cascaded', 'SET client_min_messages = notice; DROP EXTENSION index_table CASCADE');
like($err, qr/NOTICE:  drop cascades to constraint visits_email_fkey on table visits\n/, 'CASCADE tells of foreign keys');
unlike($err, qr/ERROR/, 'and is done');
is($node->safe_psql('cascaded', q{SELECT count(*) FROM pg_constraint WHERE contype = 'f'}), 0, 'and drops them');
works_ok('cascaded', $changes, 'tables are as they would be without it');
$node->safe_psql('postgres', 'DROP DATABASE cascaded');

# --- Without the library ------------------------------------------------------------------------------

$node->safe_psql('postgres', 'ALTER DATABASE lost SET session_preload_libraries = index_table');
$node->stop;
hide();
is($node->start(fail_ok => 1), 0, 'a server that is to preload it does not start');
like(slurp_file($node->logfile), qr/FATAL:  could not access file "index_table"/, 'and says why');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
isnt($node->psql('lost', 'SELECT 1'), 0, 'nor does a session begin');
{
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=';
	works_ok('lost', 'ALTER DATABASE lost RESET session_preload_libraries', 'but one that is told not to');
}
my $missing = qr/^58P01/;
like(sqlstate($node, 'lost', $_), $missing, "without the library: $_")
  foreach 'SELECT count(*) FROM events', 'INSERT INTO events VALUES (5000, 5)', q{INSERT INTO customers VALUES (5000, 'a', 'b')}, 'DELETE FROM customers_by_email', 'CREATE TABLE another (a int)',
  'ALTER TABLE bystander ADD COLUMN more int', 'DROP TABLE events', 'DROP INDEX events_id', 'VACUUM', 'DROP EXTENSION index_table CASCADE';
works_ok('lost', $_, "without the library: $_")
  foreach 'SELECT count(*) FROM customers', 'SELECT count(*) FROM customers_by_email', q{INSERT INTO bystander VALUES (2, 'y')}, 'DELETE FROM bystander WHERE id = 2', 'VACUUM bystander';
isnt(scalar(split /\n/, $node->safe_psql('lost', 'COPY events_1 TO STDOUT')), 0, 'a partition can be copied, with its rows');

works_ok('lost', $no_event_triggers, 'event triggers are disabled');
works_ok('lost', 'CREATE TABLE another (a int); ALTER TABLE another ADD COLUMN b int; DROP TABLE another; CREATE INDEX ON bystander (v); ALTER TABLE customers ADD COLUMN more int; ALTER TABLE customers DROP COLUMN more', 'and there is DDL');
like(sqlstate($node, 'lost', 'DROP INDEX events_id'), $missing, 'but of global indexes');

($status, $out, $err) = $node->psql('lost', "\\set ON_ERROR_STOP on\n$no_global_indexes");
is($status . $err, 0, 'global indexes are dropped') or diag($err);
my @made = split /\n/, $out;
is(scalar @made, $has_types ? 6 : 4, 'and what makes them again is printed');
works_ok('lost', 'SELECT count(*) FROM events; INSERT INTO events VALUES (5000, 5); DELETE FROM events WHERE id = 5000; SET enable_seqscan = off; SELECT * FROM events WHERE id = 50', 'their tables are read and written');
is($node->safe_psql('lost', 'SELECT count(*) FROM pg_class WHERE relname ~ $$^index_table_global$$'), 0, 'nothing is left of them');
works_ok('lost', 'VACUUM', 'VACUUM goes through');
like(sqlstate($node, 'lost', q{INSERT INTO customers VALUES (5000, 'a', 'b')}), $missing, 'tables with index tables wait');

($status, $out, $err) = $node->psql('lost', "\\set ON_ERROR_STOP on\n$no_index_tables");
is($status, 0, 'the extension is dropped') or diag($err);
like($out, qr/^customers_by_email\|customers\|\{email,partition_id,customer_id\}$/m, 'and says what index tables there were');
is($node->safe_psql('lost', $left), '', 'nothing is left');
is($node->safe_psql('lost', $rows), $before, 'but for all rows');
$node->command_ok([ 'pg_dump', '-d', $node->connstr('lost'), '-f', "$root/lost.sql" ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', "$root/lost.sql" ], 'and its restore need no library either');
is($node->safe_psql('restored', $rows), $before, 'with all rows');
works_ok('lost', $changes, 'and all tables are as they would be without it');
is($node->safe_psql('lost', q{SELECT count(*) FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid WHERE NOT (indisvalid AND indisready AND indislive)}), 0, 'no index is left half-way');

# --- And with it again ----------------------------------------------------------------------------------

works_ok('kept', $no_event_triggers, 'where no more was done');
$node->stop;
show();
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'index_table'\nindex_table.drain_naptime = 1");
$node->start;
works_ok('kept', $no_event_triggers =~ s/DISABLE/ENABLE ALWAYS/gr, 'event triggers are enabled again');
is($node->safe_psql('kept', q{SELECT string_agg(evtenabled::text, '') FROM pg_event_trigger}), 'AAA', 'as they were');
$node->safe_psql('kept', 'CALL index_table.drain()');
is($node->safe_psql('kept', q{SELECT count(*) FROM index_table.index_tables, index_table.verify(index_table) WHERE is_complete}), 0, 'nothing was lost');
is($node->safe_psql('kept', q{SELECT count(*) FROM index_table.global_indexes, index_table.verify(index)}), 0, 'of global indexes neither');
is($node->safe_psql('kept', $rows), $before, 'with all rows');
like(sqlstate($node, 'kept', q{INSERT INTO events VALUES (1, 5)}), qr/^23505/, 'keys are unique');
works_ok('lost', q{DELETE FROM events WHERE note = 'twice'; CREATE EXTENSION index_table}, 'the extension can be made again');
works_ok('lost', $_, "again: $_") foreach @made;
is($node->safe_psql('lost', q{SELECT count(*) FROM index_table.global_indexes WHERE is_built AND is_unique}), $has_types ? 2 : 1, 'with what was unique');
$node->safe_psql('kept', q{UPDATE customers SET town = 'again' WHERE customer_id = 21});
ok($node->poll_query_until('kept', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'index_table drain'}), 'workers are there');
$node->stop;
unlike(slurp_file($node->logfile), qr/FATAL:  terminating background worker/, 'workers of the extension end without FATAL');
done_testing();
