# Global indexes are dumped, restored, copied and upgraded: what arrives has the same definitions, every row in its tree,
# in the order of the same operator classes, and no key twice. From the server of OLD_PG_CONFIG; without it, from a cluster
# of the same version.
use strict;
use warnings;

use Cwd qw(getcwd);
use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();
my $old = new_node('old', $ENV{OLD_INSTALL} ? (install_path => $ENV{OLD_INSTALL}) : ());
$old->safe_psql('postgres', 'CREATE ROLE keeper LOGIN; CREATE DATABASE source');

# --- What is dumped -----------------------------------------------------------------

$old->safe_psql('source', q{
CREATE EXTENSION index_table;
CREATE SCHEMA types;
CREATE EXTENSION citext SCHEMA types;
CREATE EXTENSION pg_trgm SCHEMA types;
CREATE SCHEMA tools;
CREATE EXTENSION amcheck SCHEMA tools;
GRANT USAGE ON SCHEMA types, tools TO keeper;
GRANT ALL ON SCHEMA public TO keeper;

-- An order of one's own; a type that is text but for its comparison.
CREATE FUNCTION types.length_cmp(text, text) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp(length($1), length($2))';
CREATE FUNCTION types.longer(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT length($1) > length($2)';
CREATE OPERATOR types.>>> (LEFTARG = text, RIGHTARG = text, FUNCTION = types.longer);
CREATE OPERATOR CLASS types."Length ops" FOR TYPE text USING btree AS OPERATOR 5 types.>>>, FUNCTION 1 types.length_cmp(text, text);

CREATE TABLE people (id int, region text, town text COLLATE "C", mail types.citext, name text, born date) PARTITION BY LIST (region);
CREATE TABLE people_north PARTITION OF people FOR VALUES IN ('north') PARTITION BY HASH (id);
CREATE TABLE people_north_0 PARTITION OF people_north FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_north_1 (gone int, born date, id int, name text, town text COLLATE "C", region text, mail types.citext);
ALTER TABLE people_north_1 DROP COLUMN gone;
ALTER TABLE people_north ATTACH PARTITION people_north_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE people_south PARTITION OF people FOR VALUES IN ('south');
CREATE TABLE people_empty PARTITION OF people FOR VALUES IN ('empty');
CREATE TABLE people_left PARTITION OF people FOR VALUES IN ('left');
INSERT INTO people SELECT i, (ARRAY['north', 'south', 'left'])[i % 3 + 1], 'Town ' || i % 17, 'Mail' || i, repeat('x', i % 40), date '2000-01-01' + i % 90
  FROM generate_series(1, 3000) AS i;
CREATE INDEX people_mail ON people USING global (mail) WITH (unique, vacuum = eager);
CREATE INDEX "People's Town" ON people USING global (town DESC NULLS LAST, lower(name)) INCLUDE (born) WITH (fillfactor = 70);
CREATE INDEX people_name ON people USING global (name types."Length ops", mail text_pattern_ops) WHERE id > 10;
-- Other methods: classes are named in the definition, with their parameters.
CREATE INDEX people_trigrams ON people USING global (town types.gin_trgm_ops, name types.gin_trgm_ops) WITH (method = gin, fastupdate = off);
CREATE INDEX people_similar ON people USING global (town types.gist_trgm_ops (siglen = 24)) INCLUDE (id) WITH (method = gist);
CREATE INDEX people_prefix ON people USING global (town) WITH (method = spgist, vacuum = eager);
CREATE INDEX people_born ON people USING global (born) WITH (method = hash, fillfactor = 50) WHERE id > 10;
CREATE INDEX people_both ON people USING global ((ARRAY[id % 50, id % 7])) WITH (method = gin);
ALTER TABLE people OWNER TO keeper;
ALTER TABLE people_south OWNER TO keeper;
-- What has left keeps its index; VACUUM and TRUNCATE have been there.
ALTER TABLE people DETACH PARTITION people_left;
DELETE FROM people WHERE id % 10 = 0;
INSERT INTO people SELECT i, 'empty', 'Town', 'Later' || i, 'name' FROM generate_series(1, 100) AS i;
TRUNCATE people_empty;
INSERT INTO people SELECT i, 'empty', 'Town', 'Later' || i, 'name' FROM generate_series(1, 50) AS i;
});
$old->safe_psql('source', 'VACUUM');
$old->safe_psql('source', "INSERT INTO people SELECT i, 'south', 'Town', 'Again' || i, 'name' FROM generate_series(1, 300) AS i");

# --- The copies -----------------------------------------------------------------------

my $definitions = q{SELECT c.oid::regclass, pg_get_indexdef(c.oid), pg_get_userbyid(c.relowner), i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
	WHERE c.relam = (SELECT oid FROM pg_am WHERE amname = 'global') ORDER BY c.oid::regclass::text COLLATE "C"};
my $roots = q{FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relkind = 'I' AND NOT c.relispartition AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'global')};
my $tree = q{format('pg_toast.index_table_global_%s_tree', c.oid)::regclass};
my $trees = qq{SELECT c.relname, t.indisunique, t.indoption, x.reloptions, pg_get_userbyid(x.relowner),
	(SELECT string_agg(n.nspname || '.' || o.opcname || '/' || m.amname, ', ' ORDER BY k)
	   FROM unnest(t.indclass) WITH ORDINALITY AS u(class, k) JOIN pg_opclass o ON o.oid = class JOIN pg_namespace n ON n.oid = o.opcnamespace JOIN pg_am m ON m.oid = o.opcmethod)
	FROM (SELECT c.relname, $tree AS tree $roots) AS c JOIN pg_index t ON t.indexrelid = c.tree JOIN pg_class x ON x.oid = c.tree ORDER BY 1};
my $mirrors = q{SELECT o.opcnamespace::regnamespace, o.opcname, o.opcdefault, o.opcintype::regtype FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
	WHERE m.amname = 'global' AND o.opcnamespace <> 'pg_catalog'::regnamespace ORDER BY 2};

# Exact: by amcheck, which looks for every row in every tree; and by queries.
sub exact_ok
{
	my ($node, $db, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($db, "SELECT count(*) FROM (SELECT tools.bt_index_check($tree, true) $roots AND (SELECT relam FROM pg_class WHERE oid = $tree) = (SELECT oid FROM pg_am WHERE amname = 'btree')) AS c"), 3, "$label: trees are exact");
	foreach my $query ("town LIKE '%wn 1%' AND name LIKE '%xxxxx'", "town ^@ 'Town 15'", "born = '2000-01-17' AND id > 10", 'ARRAY[id % 50, id % 7] @> ARRAY[33, 3]', "town LIKE '%n 7%'",
		"mail = 'mAIL76'", "town = 'Town 5'", "lower(name) = 'xxx' AND town > 'Town 3'", "born = '2000-01-09' AND town IN ('Town 1', 'Town')")
	{
		my ($on, $off) = map { $node->safe_psql($db, "LOAD 'index_table'; SET search_path = public, types; SET index_table.enable_scan = $_;
			SELECT count(*), sum(id) FROM people WHERE $query") } 'force', 'off';
		is($on, $off, "$label: $query");
	}
	return;
}


# What a copy is compared with.
my %expected = map { $_ => $old->safe_psql('source', $_) } $definitions, $trees, $mirrors;
like($expected{$trees}, qr/types\.gin_trgm_ops\/gin, types\.gin_trgm_ops\/gin/, 'source: trees have classes of GIN');
like($expected{$definitions}, qr/gist_trgm_ops \(siglen='24'\)/, 'source: parameters are dumped');
like($expected{$trees}, qr/types\.citext_ops\/btree.*types\.Length ops\/btree, pg_catalog\.text_pattern_ops\/btree/s, 'source: trees have classes of B-trees');
exact_ok($old, 'source', 'source');

# Goes on working: keys are unique, by the class; what leaves and comes is followed.
sub works_ok
{
	my ($node, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(sqlstate($node, $db, "INSERT INTO people VALUES (1, 'north', 'x', 'mAIL76')"), qr/^23505/, "$db: a key that is there");
	is(sqlstate($node, $db, "INSERT INTO people VALUES (1, 'north', 'x', 'new mail'), (2, 'south', 'x', NULL), (2, 'north', 'x', NULL)"), '', "$db: keys that are not");
	like(sqlstate($node, $db, "UPDATE people SET mail = 'NEW MAIL' WHERE id = 76"), qr/^23505/, "$db: a key that has come");
	is(sqlstate($node, $db, "ALTER TABLE people ATTACH PARTITION people_left FOR VALUES IN ('left')"), '', "$db: a partition comes back");
	like(sqlstate($node, $db, "INSERT INTO people VALUES (1, 'south', 'x', 'MAIL5')"), qr/^23505/, "$db: with its keys");
	is(sqlstate($node, $db, 'CREATE INDEX again ON people USING global (mail, name types."Length ops")'), '', "$db: another index");
	is($node->safe_psql($db, $mirrors), $expected{$mirrors}, "$db: mirrors serve it");
	is(sqlstate($node, $db, 'DROP INDEX again; VACUUM people'), '', "$db: which goes");
	exact_ok($node, $db, "$db afterwards");
	return;
}

sub restored_ok
{
	my ($node, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($db, $_), $expected{$_}, "$db: same " . substr($_, 0, 40)) foreach $definitions, $trees, $mirrors;
	exact_ok($node, $db, $db);
	works_ok($node, $db);
	return;
}

my @dump = ('pg_dump', '-d', $old->connstr('source'));

$old->safe_psql('postgres', 'CREATE DATABASE plain TEMPLATE template0');
$old->command_ok([ @dump, '-f', "$directory/plain.sql" ], 'plain: pg_dump');
$old->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $old->connstr('plain'), '-f', "$directory/plain.sql" ], 'plain: psql');
restored_ok($old, 'plain');

$old->safe_psql('postgres', 'CREATE DATABASE parallel TEMPLATE template0');
$old->command_ok([ @dump, '-Fd', '-j2', '-f', "$directory/parallel" ], 'parallel: pg_dump -j2');
$old->command_ok([ 'pg_restore', '--exit-on-error', '-j2', '-d', $old->connstr('parallel'), "$directory/parallel" ], 'parallel: pg_restore -j2');
restored_ok($old, 'parallel');
# Over what is there.
$old->safe_psql('postgres', 'CREATE DATABASE clean TEMPLATE source');
$old->command_ok([ 'pg_restore', '--exit-on-error', '-1', '--clean', '-d', $old->connstr('clean'), "$directory/parallel" ], 'clean: pg_restore --clean');
restored_ok($old, 'clean');

# The schema, then the rows.
$old->safe_psql('postgres', 'CREATE DATABASE halves TEMPLATE template0');
$old->command_ok([ 'pg_restore', '--exit-on-error', '-s', '-d', $old->connstr('halves'), "$directory/parallel" ], 'halves: the schema');
$old->command_ok([ 'pg_restore', '--exit-on-error', '-a', '-d', $old->connstr('halves'), "$directory/parallel" ], 'halves: the rows');
restored_ok($old, 'halves');

# Whoever owns the tables need not be a superuser: mirrors are made when they are needed.
$old->safe_psql('postgres', 'CREATE DATABASE keepers TEMPLATE template0');
$old->safe_psql('keepers', 'CREATE EXTENSION index_table; CREATE SCHEMA types; CREATE SCHEMA tools; CREATE EXTENSION citext SCHEMA types; CREATE EXTENSION pg_trgm SCHEMA types; CREATE EXTENSION amcheck SCHEMA tools;
	GRANT USAGE ON SCHEMA types, tools TO keeper; GRANT ALL ON SCHEMA public TO keeper;
	CREATE FUNCTION types.length_cmp(text, text) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS \'SELECT btint4cmp(length($1), length($2))\';
	CREATE OPERATOR CLASS types."Length ops" FOR TYPE text USING btree AS FUNCTION 1 types.length_cmp(text, text);');
my (undef, $complaints) = run_command([ 'pg_restore', '-O', '-d', $old->connstr('keepers') . ' user=keeper', "$directory/parallel" ]);
like($complaints, qr/^Command was: CREATE OPERATOR CLASS types\.citext_ops/m, 'keepers: mirrors cannot be restored');
unlike($complaints, qr/INDEX|TABLE "|no default operator class/, 'keepers: but indexes can');
is($old->safe_psql('keepers', $_), $expected{$_} =~ s/\|postgres\|/|keeper|/gr, 'keepers: same ' . substr($_, 0, 40)) foreach $trees, $mirrors;
exact_ok($old, 'keepers', 'keepers');
works_ok($old, 'keepers');

# A copy of the files, with the same OIDs.
$old->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE source');
restored_ok($old, 'copied');

# A partition by itself: its index has a class, and holds nothing.
$old->safe_psql('postgres', 'CREATE DATABASE alone TEMPLATE keepers');
$old->safe_psql('alone', 'DROP TABLE people, people_left');
(undef, $complaints) = run_command([ 'pg_restore', '-t', 'people_left', '-d', $old->connstr('alone'), "$directory/parallel" ]);
is($complaints, '', 'alone: a detached partition');
is($old->safe_psql('alone', 'SELECT count(*) FROM people_left'), 1000, 'alone: its rows');

# --- pg_upgrade -----------------------------------------------------------------------

$old->safe_psql('postgres', "DROP DATABASE $_") foreach 'plain', 'parallel', 'clean', 'halves', 'keepers', 'copied', 'alone';
my $new = new_node('new', $old->pg_version < 18 ? (no_data_checksums => 1) : ());
$old->stop;
$new->stop;
my $cwd = getcwd();
chdir $directory;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old->config_data('--bindir'),
	'-B', $new->config_data('--bindir'), '-s', $new->host, '-p', $old->port, '-P', $new->port ], 'pg_upgrade');
chdir $cwd;
$new->start;

is($new->safe_psql('source', $_), $expected{$_}, 'upgraded: same ' . substr($_, 0, 40)) foreach $definitions, $mirrors;
# The tree is not carried over, and nobody is let down by that.
is($new->safe_psql('source', "LOAD 'index_table'; SET search_path = public, types; SELECT count(*) FROM people WHERE mail = 'mail76'"), 1, 'upgraded: queries do without');
like(sqlstate($new, 'source', "INSERT INTO people VALUES (1, 'north', 'x', 'mAIL76')"), qr/^55000/, 'upgraded: writers are refused');
my $unbuilt = 'SELECT count(*) FROM index_table.global_indexes WHERE NOT is_built';
is($new->safe_psql('source', $unbuilt), 8, 'upgraded: the view tells of each');
is($new->safe_psql('source', "SELECT count(*) FROM index_table.stat AS s JOIN index_table.global_indexes AS g ON g.index = s.index_table WHERE NOT g.is_built"), 8, 'upgraded: and so do the statistics');
is($new->safe_psql('source', "SELECT index_table.repair('people_mail') = count(*) FROM people"), 't', 'upgraded: repair builds one');
# PostgreSQL's own command, in a session that has not loaded the library: of one index, of a partition, and of all.
is(sqlstate($new, 'source', qq{REINDEX INDEX "People's Town"}), '', 'upgraded: REINDEX INDEX');
is($new->safe_psql('source', $unbuilt), 6, 'upgraded: builds it');
$new->command_ok([ 'reindexdb', '-d', $new->connstr('source'), '-S', 'public' ], 'upgraded: reindexdb');
is($new->safe_psql('source', $unbuilt), 0, 'upgraded: builds all that were not built');
restored_ok($new, 'source');

$new->stop;
done_testing();
