# Whoever has no rights learns nothing and changes nothing: every function of the extension is called
# by a role that owns nothing, with relations of others; and what a role sees that has some rights,
# or that policies bind, is what it sees of an unpartitioned table with PostgreSQL's own indexes:
# rows, errors, messages, and what functions of its own are shown.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('strangers', conf => "shared_preload_libraries = 'index_table'\n");

# Two tables with the same rows, rights and policies: of rows with odd numbers nobody is told.
my @tables = ('people', 'native');
sub both { my ($sql) = @_; return join('', map { my $one = $sql; $one =~ s/TABLE_/$_/g; $one } @tables) }

my $by_email = describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1);
my $by_town = describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'secret' ], identity => 1);
my $later = describe(name => 'people_later', base => 'people', key => ['b.town'], copies => ['id'], identity => 1);

$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE ROLE stranger; CREATE ROLE reader; CREATE ROLE column_reader; CREATE ROLE writer; CREATE ROLE bound; CREATE ROLE restricted; CREATE ROLE viewer; CREATE ROLE owner;
GRANT ALL ON SCHEMA public TO owner, stranger;
SET ROLE owner;
CREATE TABLE people (id int PRIMARY KEY, email text, town text, secret text, number int) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE native (id int PRIMARY KEY, email text, town text, secret text, number int);
CREATE FUNCTION shown(int) RETURNS boolean LANGUAGE plpgsql STABLE COST 1 AS 'BEGIN RETURN $1 % 2 = 0; END';
} . both(q{
INSERT INTO TABLE_ SELECT i, 'mail' || i, 'Town ' || i / 10, 'secret' || i || CASE WHEN i % 2 = 1 THEN 'hidden' ELSE '' END, i % 10 FROM generate_series(1, 200) AS i;
CREATE FUNCTION see(TABLE_) RETURNS text LANGUAGE sql AS 'SELECT $1.secret';
GRANT SELECT ON TABLE_ TO reader;
GRANT SELECT (id, town, email) ON TABLE_ TO column_reader;
GRANT INSERT, UPDATE, DELETE ON TABLE_ TO writer;
GRANT SELECT (id) ON TABLE_ TO writer;
GRANT ALL ON TABLE_ TO bound, restricted;
CREATE VIEW TABLE__barrier WITH (security_barrier) AS SELECT * FROM TABLE_ WHERE id % 2 = 0;
GRANT SELECT ON TABLE__barrier TO viewer;
}) . q{
CREATE UNIQUE INDEX native_by_email_key ON native (email);
CREATE INDEX native_by_town ON native (town);
CREATE INDEX native_by_secret ON native (secret);
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', strategy => 'partial', include => 'secret');
SELECT index_table.create('people', 'town', name => 'people_later', maintenance => 'deferred');
CREATE INDEX people_by_secret ON people USING global (secret);
CREATE TABLE captured (id int PRIMARY KEY, secret text);
SELECT index_table.capture('captured');
INSERT INTO captured VALUES (1, 'secret1hidden');
RESET ROLE;
ANALYZE;
} . oracle_sql($by_email, $by_town, $later));

# --- Every function ---------------------------------------------------------------

# All that there is, but numbers of partitions: whoever owns a table takes some.
my $state = q{
SELECT string_agg(format('%s %s %s %s %s %s', c.oid, c.relname, c.relfilenode, c.relowner, c.relacl, c.reloptions), E'\n' ORDER BY c.oid) FROM pg_class AS c WHERE c.oid >= 16384 AND NOT pg_is_other_temp_schema(c.relnamespace);
SELECT string_agg(format('%s %s %s', oid, tgname, tgenabled), ',' ORDER BY oid) FROM pg_trigger;
SELECT string_agg(format('%s %s', c.oid::regclass, watch.image(c.oid, c.relkind)), E'\n' ORDER BY c.oid)
  FROM pg_class AS c WHERE c.relkind IN ('r', 'S') AND c.relname <> 'partition_id_seq' AND c.relnamespace IN ('public'::regnamespace, 'index_table'::regnamespace);
};
my %values = (
	regclass => [ (map { "'$_'::regclass" } qw(people people_0 native people_by_email people_by_town people_later people_by_secret people_0_secret_idx captured captured_outbox people_barrier index_table.partition index_table.definition pg_catalog.pg_authid mine mine_pkey)),
		"(SELECT oid FROM pg_class WHERE relname ~ 'queue' AND relkind = 'r' ORDER BY oid LIMIT 1)::regclass", "(SELECT tree FROM index_table.global_indexes LIMIT 1)", "(SELECT storage FROM index_table.global_indexes LIMIT 1)", '0::regclass', '99999999::regclass', 'NULL::regclass' ],
	text => [ "'secret'", "'normalized'", "'email'", "'immediate'", "'deferred'", "'CREATE INDEX mine_too ON people USING global (town)'", "''", 'NULL::text' ],
	boolean => [ 'true', 'NULL::boolean' ],
	integer => [ '1', '-1', '2147483647', 'NULL::integer' ],
	bigint => [ '1', '-1', 'NULL::bigint' ],
	'bigint[]' => [ "'{1,2,3}'::bigint[]", "'{NULL}'::bigint[]" ],
	'smallint[]' => [ "'{1,2}'::smallint[]", "'{0,-1,99}'::smallint[]" ],
	'oid[]' => [ "'{25,23}'::oid[]", "'{0}'::oid[]" ],
	'double precision' => [ '1', '0', '-1', "'NaN'::float8" ],
	oid => [ "'people_0'::regclass::oid", '0::oid' ],
	name => [ "'nowhere'::name" ],
	interval => [ "'1 ms'::interval", "'-1 s'::interval" ],
	anyelement => [ 'NULL::people', 'NULL::native', 'NULL::mine', '1' ],
	'"any"' => [ "'mail1'::text", "'Town 1'::text", '1', 'NULL::text' ],
	'index_table.relation' => [ "'people'::regclass::index_table.relation" ],
	cstring => [ "'people'::cstring", "''::cstring" ],
	internal => ['NULL::internal']);

# calls($name, \@types, $defaults, $is_procedure): of the first three arguments all values together, of
# others each once at least; once more without those that have defaults
sub calls
{
	my ($name, $types, $defaults, $is_procedure) = @_;
	my @shorter = $defaults ? calls($name, [ @$types[ 0 .. $#$types - $defaults ] ], 0, $is_procedure) : ();
	my @lists = ([]);
	my $place = 0;
	foreach my $type (@$types)
	{
		my $all = $values{$type} or die "no values of type $type, for $name";
		my $round = 0;
		@lists = $place++ < 3
		  ? map { my $list = $_; map { [ @$list, $_ ] } @$all } @lists
		  : map { [ @$_, $all->[ $round++ % @$all ] ] } @lists;
	}
	return @shorter, map { my $call = "$name(" . join(', ', @$_) . ')'; $is_procedure ? "CALL $call;" : "SELECT * FROM $call;" } @lists;
}

my @functions = split /\n/, $node->safe_psql('postgres', q{
SELECT p.oid::regproc, p.prokind, p.pronargdefaults, array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (t, n) ORDER BY n), ';')
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'index_table' ORDER BY p.oid});
cmp_ok(scalar @functions, '>', 40, 'functions');
my @calls = map { my ($name, $kind, $defaults, $types) = split /\|/, $_, -1; calls($name, [ split /;/, $types ], $defaults, $kind eq 'p') } @functions;

$node->safe_psql('postgres', q{CREATE SCHEMA watch; CREATE FUNCTION watch.image(relation regclass, kind "char") RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	all_rows text;
BEGIN
	EXECUTE format(CASE kind WHEN 'S' THEN 'SELECT concat_ws('' '', last_value, is_called) FROM %s' ELSE 'SELECT string_agg(t::text, E''\n'' ORDER BY t::text) FROM %s AS t' END, relation) INTO all_rows;
	RETURN all_rows;
END $$});
$node->safe_psql('postgres', 'SET ROLE stranger; CREATE TABLE mine (id int PRIMARY KEY, secret text)');
my $before = $node->safe_psql('postgres', $state);
my $script = "SET ROLE stranger;\nSET statement_timeout = '20s';\n" . join("\n", @calls) . "\nSELECT 'the end';\n";
my ($status, $out, $err) = $node->psql('postgres', $script, on_error_stop => 0, timeout => 600);
diag(scalar @calls, ' calls of ', scalar @functions, ' functions');
like($out, qr/the end$/, 'a stranger called every function, and the session lived');
# Her own index tables may be called mine_by_secret1.
unlike($out . $err, qr/(?<!_by_)secret\d|hidden/, 'was told nothing');
my %states;
$states{$1}++ while $err =~ /ERROR:  ([^\n"]*)/g;
note(join("\n", map { "$states{$_} times: $_" } sort keys %states));
is($err =~ /XX000|unexpected|cache lookup/ ? $err : '', '', 'and no internal error');

# What he has called of his own is his.
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relowner = 'stranger'::regrole AND relkind IN ('r', 'i', 'S') AND relname NOT LIKE 'mine%' AND relnamespace <> 'pg_toast'::regnamespace}), 0, 'nothing is his but his own');
$node->safe_psql('postgres', 'DROP TABLE mine CASCADE; DROP OWNED BY stranger; GRANT ALL ON SCHEMA public TO stranger');
my $after = $node->safe_psql('postgres', $state);
my %was = map { $_ => 1 } split /\n/, $before;
is(join("\n", grep { !$was{$_} } split /\n/, $after), '', 'nothing is changed');

# --- As of an unpartitioned table -----------------------------------------------------

$node->safe_psql('postgres', 'CALL index_table.drain()');
$node->safe_psql('postgres', both(q{
ALTER TABLE TABLE_ ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON TABLE_ TO reader, column_reader, writer USING (true);
CREATE POLICY even ON TABLE_ TO bound USING (id % 2 = 0) WITH CHECK (true);
CREATE POLICY permissive ON TABLE_ TO restricted USING (true);
CREATE POLICY by_function ON TABLE_ AS RESTRICTIVE TO restricted USING (shown(id));
}));
$node->safe_psql('postgres', q{
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS 'BEGIN RAISE NOTICE ''saw %'', $1; RETURN true; END';
CREATE FUNCTION leak_equal(text, text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS 'BEGIN RAISE NOTICE ''saw % %'', $1, $2; RETURN $1 = $2; END';
CREATE OPERATOR === (FUNCTION = leak_equal, LEFTARG = text, RIGHTARG = text);
});
my @where = (q{email = 'mail7'}, q{email = 'mail8'}, q{town = 'Town 3'}, q{secret = 'secret7hidden'}, q{secret > 'secret7'}, q{email IN ('mail7', 'mail8', 'mail9')}, q{email > 'mail95'},
	q{town = 'Town 3' AND email = 'mail35'}, q{town = 'Town 3' AND number = 5}, q{id = 7 AND email = 'mail7'}, q{town IS NOT NULL AND email = ANY (ARRAY['mail1', 'mail2'])});
my @reads = map {
	my $where = $_;
	("SELECT id, email, town FROM TABLE_ WHERE $where ORDER BY id", "SELECT secret FROM TABLE_ WHERE $where ORDER BY id",
		"SELECT id FROM TABLE_ WHERE $where AND leak(secret) ORDER BY id", "SELECT id FROM TABLE_ WHERE $where AND leak(email) ORDER BY id",
		"SELECT id FROM TABLE_ WHERE $where AND secret === 'secret6'", "SELECT id FROM TABLE_ WHERE $where AND 10 / (id - 7) > 0 ORDER BY id",
		"SELECT count(*), max(id) FROM TABLE_ WHERE $where", "SELECT see(t) FROM TABLE_ AS t WHERE $where ORDER BY id",
		"SELECT t.id FROM TABLE_ AS t JOIN (VALUES ('mail7'), ('mail8')) AS v (m) ON t.email = v.m WHERE leak(t.secret) AND t.$where ORDER BY 1",
		"SELECT EXISTS (SELECT 1 FROM TABLE_ WHERE $where)", "SELECT id FROM TABLE_ WHERE $where ORDER BY email LIMIT 2",
		"SELECT id FROM TABLE_ WHERE $where ORDER BY id FOR UPDATE")
} @where;
my @writes = (
	q{INSERT INTO TABLE_ VALUES (1001, 'mail7', 'x', 'y')}, q{INSERT INTO TABLE_ VALUES (1001, 'mail8', 'x', 'y')}, q{INSERT INTO TABLE_ (id, email) VALUES (1001, 'mail7') RETURNING secret},
	q{INSERT INTO TABLE_ VALUES (1001, 'mail7') ON CONFLICT (email) DO NOTHING}, q{INSERT INTO TABLE_ VALUES (1001, 'mail7') ON CONFLICT DO NOTHING RETURNING id},
	q{INSERT INTO TABLE_ VALUES (1001, 'mail7') ON CONFLICT (email) DO UPDATE SET town = 'mine' RETURNING id},
	q{INSERT INTO TABLE_ VALUES (1001, 'mail8') ON CONFLICT (email) DO UPDATE SET town = 'mine' RETURNING id},
	q{INSERT INTO TABLE_ VALUES (1001, 'mail7') ON CONFLICT (email) DO UPDATE SET town = TABLE_.secret RETURNING town},
	q{INSERT INTO TABLE_ VALUES (1001, 'mail8') ON CONFLICT (email) DO UPDATE SET town = TABLE_.secret RETURNING town},
	q{INSERT INTO TABLE_ VALUES (1001, 'mail7') ON CONFLICT (email) DO UPDATE SET town = 'mine' WHERE leak(TABLE_.secret)},
	q{UPDATE TABLE_ SET town = 'x' WHERE email = 'mail7'}, q{UPDATE TABLE_ SET town = 'x' WHERE email = 'mail7' RETURNING secret}, q{UPDATE TABLE_ SET town = secret WHERE email = 'mail8' AND leak(secret) RETURNING town},
	q{UPDATE TABLE_ SET email = 'mail9' WHERE id = 8}, q{UPDATE TABLE_ SET email = 'mail9' WHERE email = 'mail7'}, q{UPDATE TABLE_ SET email = 'new' WHERE email = 'mail8'},
	q{DELETE FROM TABLE_ WHERE email = 'mail7'}, q{DELETE FROM TABLE_ WHERE email = 'mail8' RETURNING id}, q{DELETE FROM TABLE_ WHERE town = 'Town 3' AND leak(secret)}, q{DELETE FROM TABLE_ WHERE secret = 'secret7hidden'},
	q{MERGE INTO TABLE_ AS t USING (VALUES ('mail7'), ('mail8')) AS v (m) ON t.email = v.m WHEN MATCHED THEN UPDATE SET town = 'merged'},
	q{SELECT id FROM TABLE_ WHERE email = 'mail7' FOR SHARE}, q{TRUNCATE TABLE_});

# observe($role, $table, \@statements): what each says, names made the same
sub observe
{
	my ($role, $table, $statements) = @_;
	my $base = $table eq 'people' ? 'people' : 'native';
	my $script = "SET ROLE $role;\nSET client_min_messages = notice;\nSET index_table.enable_scan = force;\n";
	my $number = 0;
	foreach my $statement (@$statements)
	{
		my $sql = $statement;
		$sql =~ s/TABLE_/$table/g;
		$script .= "\\warn @" . $number . "\n\\echo @" . $number++ . "\nBEGIN;\n$sql;\n\\warn :SQLSTATE\nROLLBACK;\n";
	}
	my ($status, $out, $err) = $node->psql('postgres', $script, on_error_stop => 0, timeout => 600);
	my @seen;
	foreach my $text ($out, $err)
	{
		$text =~ s/psql:<stdin>:\d+: //g;
		$text =~ s/^(LINE \d+:.*|\s+\^|CONTEXT: .*|PL\/pgSQL function .*)\n?//mg;
		$text =~ s/\b(?:people_0|people_1|$table|$base)\b/TABLE/g;
		$text =~ s/"(?:people|native)_(\w+)"/"TABLE_$1"/g;
		my @parts = split /^@\d+\n/m, $text;
		shift @parts;
		# Rows may be met in another order.
		push @{ $seen[$_] }, join("\n", sort grep { /\S/ } split /\n/, $parts[$_]) foreach 0 .. $#parts;
	}
	return map { join("\n--\n", @$_) } @seen;
}

my $compared = 0;
foreach my $role (qw(stranger reader column_reader writer bound restricted viewer))
{
	my @names = $role eq 'viewer' ? ('people_barrier', 'native_barrier') : @tables;
	my @statements = $role eq 'viewer' ? grep { !/see\(|FOR UPDATE/ } @reads : (@reads, @writes);
	my @here = observe($role, $names[0], \@statements);
	my @there = observe($role, $names[1], \@statements);
	my @differing;
	foreach my $i (0 .. $#statements)
	{
		# A function of his own sees the rows that a plan happens to look at.
		my ($a, $b) = map { s/^NOTICE:.*\n?//mgr =~ s/\s+$//r } $here[$i], $there[$i];
		push @differing, "$statements[$i]\n--- index tables:\n$a\n--- PostgreSQL:\n$b" if $a ne $b;
		$compared++;
	}
	is(join("\n", @differing), '', "$role sees what PostgreSQL's own indexes let him");
	my $shown = join("\n", @here);
	is(join(' ', $shown =~ /(secret\d+hidden|mail\d*[13579]\b.*)/g), '', "and $role nothing that is hidden") if $role =~ /bound|restricted|viewer|stranger/;
	like($shown, qr/saw secret/, "whose function was called for $role") if $role =~ /bound|restricted|viewer|^reader/;
}
diag("$compared statements compared");

# Plans show no values of rows.
foreach my $role (qw(bound restricted))
{
	my $plans = $node->safe_psql('postgres', "SET ROLE $role; SET index_table.enable_scan = force;" . join(';', map { "EXPLAIN (ANALYZE, VERBOSE, BUFFERS) SELECT id FROM people WHERE $_" } q{email = 'mail7'}, q{town = 'Town 3'}, q{secret > 'secret6'}));
	unlike($plans, qr/secret\d+hidden/, "plans of $role");
	like($plans, qr/Index Table(?: Only)? Scan/, 'made with index tables');
}

oracle_ok($node, 'postgres', 'at the end');
check_global($node, 'postgres', 'at the end', exact => 0);
done_testing();
