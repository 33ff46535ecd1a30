# Texts that are given to create(), generated from what attackers send and from what SQL may hold:
# each is refused with an error of its own or makes an index table that is right; none is carried out
# as a statement. And objects with names that want to be more than names.
#
#   HOSTILE_TEXTS=n   how many texts; HOSTILE_SEED=n
use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $count = how_many('HOSTILE_TEXTS', 1000);
my $seed = $ENV{HOSTILE_SEED} || 1 + int(rand(1_000_000));
note("HOSTILE_SEED=$seed");
srand($seed);

my $node = new_node('hostile', conf => "shared_preload_libraries = 'index_table'\nmax_stack_depth = '2MB'\n");
$ENV{PGCLIENTENCODING} = 'UTF8';
my $pick = sub { return $_[ int rand @_ ] };

sub execute
{
	my ($sql, %options) = @_;
	utf8::encode($sql);
	my ($status, $out, $err) = $node->psql('postgres', $sql, timeout => 900, %options);
	utf8::decode($_) foreach $out, $err;
	return ($status, $out, $err);
}

# --- Texts ------------------------------------------------------------------------

# What a second statement, or code that must not run, leaves behind even where it is rolled back.
execute(q{
CREATE EXTENSION index_table;
CREATE SEQUENCE canary;
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric, d date DEFAULT '2020-01-01', tags text[] DEFAULT '{x,y}', j jsonb DEFAULT '{"a": [1]}', "odd "" name" text, "select" int) PARTITION BY HASH (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO t (id, a, b, c) SELECT i, i, 'b' || i, i FROM generate_series(1, 10) AS i;
CREATE FUNCTION liar(int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1; END';
CREATE FUNCTION set_of(int) RETURNS SETOF int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE TABLE outcome (state text, message text, times bigint DEFAULT 1, PRIMARY KEY (state, message));
-- The state, or what is wrong with the index table that came of it.
CREATE FUNCTION attempt(arguments text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	made regclass;
	wrong bigint;
	said text;
	state text;
BEGIN
	BEGIN
		made := index_table.create('t', arguments[1], COALESCE(arguments[2], 'normalized'), arguments[3], arguments[4], arguments[5] = 'u', arguments[6], arguments[7], COALESCE(arguments[8], 'immediate'), 0, arguments[9]);
		SELECT count(*) INTO wrong FROM index_table.verify(made);
		INSERT INTO t (id, a, b, c) VALUES (1000, -1, 'new', 2.5);
		UPDATE t SET a = 77, b = 'changed', c = NULL WHERE id = 3;
		DELETE FROM t WHERE id = 4;
		wrong := wrong + (SELECT count(*) FROM index_table.verify(made));
		PERFORM FROM index_table.lookup(made);
		PERFORM index_table.drop(made);
		RAISE EXCEPTION USING ERRCODE = 'OK000', MESSAGE = CASE WHEN wrong = 0 THEN 'right' ELSE 'WRONG: ' || arguments::text END;
	EXCEPTION WHEN others THEN
		state := SQLSTATE;
		said := CASE WHEN SQLSTATE = 'OK000' THEN SQLERRM WHEN SQLSTATE ~ '^XX|^58|^25' THEN SQLERRM || ' ' || arguments::text ELSE regexp_replace(left(SQLERRM, 40), '".*|[^ a-z].*', '') END;
	END;
	INSERT INTO outcome VALUES (state, said) ON CONFLICT ON CONSTRAINT outcome_pkey DO UPDATE SET times = outcome.times + 1;
END $$;
CREATE ROLE owner;
GRANT ALL ON SCHEMA public TO owner;
ALTER TABLE t OWNER TO owner; ALTER TABLE t_0 OWNER TO owner; ALTER TABLE t_1 OWNER TO owner;
GRANT ALL ON outcome, canary TO owner;
});

my @columns = ('id', 'a', 'b', 'c', 'd', 'tags', 'j', '"odd "" name"', '"select"', 'A', '"A"', 'nothing', 't.b', 'public.t.b', 'ctid', 'tableoid', 'xmin', 't', '*', 't.*', 'select', 'user', '"b" ', "b\n", "b --x", 'b/*x*/', "b\x{a0}", "\x{fe0f}b", '𝔟', "e\x{301}", 'U&"\0062"', "U&\"d\\0061t\\+000061\" UESCAPE '!'", ('x' x 63), ('ü' x 40), '""', '"', "'", ';', '');
my @statements = ("SELECT nextval('canary')", 'DROP TABLE t', "INSERT INTO outcome VALUES ('secret', 'second')", 'CREATE TABLE second ()', "COPY t TO PROGRAM 'touch /tmp/second'", 'COMMIT', 'ROLLBACK', 'RESET ROLE', 'SET ROLE postgres', "DO 'BEGIN PERFORM nextval(''canary''); END'", 'ALTER ROLE owner SUPERUSER');
my @ends = ('', ')', '))', "'", '"', '$$', '*/', "')", '"))', ' ASC)', ' FROM t', "'::text)", ') USING btree', ') ON t');
my @noise = ("\\", "\\'", "''", '""', '$$', '$x$', '/*', '*/', '--', "\n", "\r", "\t", '%s', '%n%n', '${x}', '$(touch x)', '`id`', '\\x00', '\\u0000', '$1', ':x', ':\'x\'', '?', '&', '|', '!', '~', '::', ':=', '=>', '..', '@', '#', '^', '<>', "\x{202e}", "\x{feff}", "\x{1F4A9}", "\x01", "\x7f", 'NaN', '1e999999', '0x', "E'\\\\'", "X'1'", "B'2'", "N'x'", 'VARIADIC', 'DEFAULT', 'ARRAY[', 'ROW(', 'CASE', 'EXISTS (SELECT 1)', 'GROUPING(a)', 'OVER ()', 'FILTER (WHERE true)', 'WITHIN GROUP', 'AT TIME ZONE', 'COLLATE "C"', 'COLLATE nowhere', 'IS JSON', 'OPERATOR(pg_catalog.+)', '::regclass', '::t', "::interval", ':: money', '[1]', '[1:2]', '.x', '(b).x');

sub expression
{
	my ($depth) = @_;
	return $pick->(@columns) if $depth <= 0 || rand() < 0.3;
	my ($x, $y) = (expression($depth - 1), expression($depth - 1));
	return $pick->(
		"lower($x)", "($x)", "($x || $y)", "$x + $y", "($x)::text", "CAST($x AS int)", "COALESCE($x, $y)", "upper($x COLLATE \"C\")", "liar($x)", "unnest($x)", "generate_series(1, $x)", "set_of($x)", "nextval('canary')", "($x IS NULL)", "CASE WHEN $x THEN $y END", "ARRAY[$x, $y]", "ROW($x, $y)", "($x).$y", "($x)[1]", "$x -> 'a'", "jsonb_path_query($x, '\$.a')", "(SELECT $x)", "(SELECT $x FROM t LIMIT 1)", "EXISTS (SELECT $x)", "count($x)", "sum($x) OVER ()", "now()", "random()", "current_user", "current_setting('x')", "pg_sleep(10)", "format('%s', $x)", "$x ~ $y", "$x LIKE $y", "$x BETWEEN $y AND $x", "$x IN ($y, NULL)", "$x = ANY ($y)", "NOT $x", "- $x", "\$1", "NULL", "'x'::text", "1/0", "substring($x from $y)", "extract(epoch from $x)", "xmlelement(name $x)", "md5($x)", "length($x)", "date_trunc('day', $x)", "$x DESC", "$x NULLS FIRST", "$x text_pattern_ops", "$x USING <", "string_to_table($x, ',')", "regexp_split_to_table($x, $y)", "greatest($x, $y)", "$x, $y", "$x; $y", "index_table.lookup('t', $x)", "pg_advisory_lock(1)", "set_config('role', 'postgres', false)", "query_to_xml('SELECT nextval(''canary'')', true, true, '')", "lo_import('/etc/passwd')", "pg_read_file('x')", "dblink('', $x)");
}

sub text_of
{
	my ($depth) = @_;
	my $kind = rand();
	return expression($depth) if $kind < 0.45;
	return expression(1) . $pick->(@ends) . '; ' . $pick->(@statements) . $pick->('', '; --', ' --', '; /*', ';', "; SELECT ('") if $kind < 0.65;
	my $text = expression(1);
	foreach (1 .. 1 + int rand 4)
	{
		my $at = int rand(1 + length $text);
		$kind < 0.85 ? substr($text, $at, int rand 3, $pick->(@noise)) : substr($text, $at, 1, chr(1 + int rand 0x2fff));
	}
	return $text if $kind < 0.98;
	return $pick->('(' x 20000 . 'b' . ')' x 20000, '(' x 100000, 'lower(' x 3000 . 'b' . ')' x 3000, 'b' . ' || b' x 5000, 'x' x 1_000_000, join(', ', ('a') x 2000), "'" . ('x' x 9000) . "'", 'NOT ' x 20000 . 'true', '- ' x 20000 . 'a');
}

my @arguments;
foreach (1 .. $count)
{
	my @list = (undef) x 9;
	$list[0] = $pick->('a', 'b', 'a, b', 'lower(b)');
	my $which = $pick->(0, 0, 0, 0, 1, 2, 3, 3, 5, 5, 5, 6, 7, 8);
	$list[1] = $pick->('normalized', 'partial', 'denormalized') if rand() < 0.5 || $which == 2;
	$list[1] = 'partial' if $which == 2 && rand() < 0.8;
	$list[2] = 'b' if ($list[1] // '') eq 'partial';
	$list[4] = 'u' if rand() < 0.1;
	$list[$which] = text_of(3);
	if ($which == 3 && rand() < 0.3) { $list[3] = $pick->('"; DROP TABLE t; --"', '"a.b"."c.d"', 'pg_catalog.x', 'pg_toast.x', 'pg_temp.x', 'nowhere.x', 'a.b.c.d', '"' . ('y' x 70) . '"', '"' . ('ü' x 31) . '"', 'T_1', 't', 't_pkey', '"', '""', '.', '"x"y', "x\0y" =~ s/\0//r, 'index_table.x', 'information_schema.x', 'x' x 64) }
	push @list, '' while @list < 9;
	push @arguments, 'ARRAY[' . join(', ', map { defined $_ ? quote_literal($_) : 'NULL' } @list) . ']::text[]';
}
my ($status, $out, $err) = execute("SET client_min_messages = error;\nSET ROLE owner;\nSET statement_timeout = '60s';\nSET standard_conforming_strings = on;\n" . join('', map { "SELECT attempt($_);\n" } @arguments) . "\\echo the end\n", on_error_stop => 0);
like($out, qr/the end$/, "$count texts, and the session lives");
is($err, '', 'and nothing is raised past them');
($status, $out) = execute(q{SELECT sum(times) FROM outcome});
is($out, $count, 'each has an outcome');
($status, $out) = execute(q{SELECT times, state, message FROM outcome WHERE state ~ '^(XX|58|25|57014)' OR message ~ 'WRONG' ORDER BY 1 DESC});
is($out, '', 'no internal error, no index table that is wrong, nothing that does not end');
($status, $out) = execute(q{SELECT is_called FROM canary});
is($out, 'f', 'no second statement, no function that may not be called');
($status, $out) = execute(q{SELECT count(*) FROM pg_class WHERE relname = 'second' OR relname LIKE 't\_by%'; SELECT rolsuper FROM pg_roles WHERE rolname = 'owner'; SELECT count(*) FROM t; SELECT count(*) FROM index_table.definition});
is($out, "0\nf\n10\n0", 'and nothing of them is left');
($status, $out) = execute(q{SELECT sum(times) FROM outcome WHERE message = 'right'});
cmp_ok($out || 0, '>', $count / 20, "some are good: $out");
($status, $out) = execute(q{SELECT count(DISTINCT state), (SELECT string_agg(state || ' ' || n, ', ' ORDER BY n DESC) FROM (SELECT state, sum(times) AS n FROM outcome GROUP BY 1) AS s) FROM outcome});
note("states: $out");

# --- Names ------------------------------------------------------------------------

my @names = ('a b', 'A', 'select', 'user', 'table', 'tableoid_', 'oid_', '"', '""', "'", "''", '\\', "\\'", '$$', '$x$', '%', '%s', '%I', ';', '; DROP TABLE t; --', "'; DROP TABLE t; --", '"; DROP TABLE t; --', '--', '/*', '*/', '.', 'a.b', ',', '(', ')', '{', '}', 'b"."c', ' ', '  x', "x\n", "\t", "\n", '1', '1a', 'ü', 'Ü', '𝔟', "e\x{301}", "\x{202e}x", "\x{1F4A9}", "\x01", 'NULL', 'null', 'default', 'excluded', 'new', 'old', 'i', 'b', 'm', 'p', 'partition_id', 'key', 'identity', 'c1', 'index_table', 'x' x 63, 'y' x 62, 'ü' x 31, ('z' x 61) . 'ü', ('q"' x 31), 'pg_x', ':x', '@', '&', '<', 'fetch', 'lookup');
my $places = 0;
foreach my $name (@names)
{
	my $q = '"' . ($name =~ s/"/""/gr) . '"';
	my $schema = $name =~ /^pg_/ ? '"x"' : $q;
	$schema = '"x"' if $name =~ /^index_table$/;
	# Names of roles that newer versions refuse.
	my $role = $name =~ /^pg_|\n/ ? qq("role $places") : $q;
	my $base = "$schema.$q";
	my $literal = quote_literal($base);
	my $sql = qq{
SET client_min_messages = error;
SET standard_conforming_strings = on;
CREATE SCHEMA $schema;
CREATE ROLE $role;
GRANT ALL ON SCHEMA $schema TO $role;
SET ROLE $role;
SET search_path = $schema;
CREATE FUNCTION $schema.$q(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower(\$1)';
CREATE TYPE $schema."type $places" AS ENUM ('a', 'b');
CREATE TABLE $base (id_ int PRIMARY KEY, $q text, other_ text, tags_ text[]) PARTITION BY HASH (id_);
CREATE TABLE $schema."part 0" PARTITION OF $base FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE $schema."part 1" PARTITION OF $base FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO $base SELECT i, 'v' || i % 7, 'o' || i, ARRAY['t' || i % 3] FROM generate_series(1, 20) AS i;
SELECT index_table.create($literal, ${\quote_literal($q)}, name => ${\quote_literal("$schema.made")});
SELECT index_table.create($literal, 'other_', 'partial', include => ${\quote_literal($q)}, is_unique => true, name => ${\quote_literal("$schema." . '"' . substr("i$name", 0, 20) =~ s/"/""/gr . '"')}, predicate => ${\quote_literal("$q <> 'v6'")});
SELECT index_table.create($literal, ${\quote_literal("$schema.$q($q)")}, 'denormalized', maintenance => 'deferred', name => ${\quote_literal("$schema.third")});
CREATE INDEX "g $places" ON $base USING global ($q);
INSERT INTO $base VALUES (100, 'V1', 'new', '{}'), (101, 'v6', 'o5', NULL);
UPDATE $base SET $q = 'changed' WHERE id_ < 4;
DELETE FROM $base WHERE id_ = 7;
INSERT INTO $base AS target_ (id_, $q, other_) VALUES (200, 'a', 'o9') ON CONFLICT (other_) WHERE $q <> 'v6' DO UPDATE SET $q = excluded.$q || 'up';
RESET ROLE;
CALL index_table.drain();
SET ROLE $role;
SELECT 'verify', count(*) FROM index_table.index_tables AS i, LATERAL index_table.verify(i.index_table) WHERE i.base = $literal\::regclass;
SELECT 'global', count(*) FROM index_table.verify('"g $places"');
SELECT 'oracle', count(*) FROM ((SELECT b.$q COLLATE "C", p.partition_id, b.id_ FROM $base AS b JOIN index_table.partition AS p ON p.relation = b.tableoid EXCEPT ALL SELECT * FROM $schema.made)
	UNION ALL (SELECT * FROM $schema.made EXCEPT ALL SELECT b.$q, p.partition_id, b.id_ FROM $base AS b JOIN index_table.partition AS p ON p.relation = b.tableoid)) AS x;
SET index_table.enable_scan = force;
SELECT 'found', count(*) FROM $base WHERE $q = 'changed';
SELECT 'fetched', count(*) FROM index_table.fetch(NULL::$base, ${\quote_literal("$schema.made")}, 'changed');
ALTER TABLE $base RENAME COLUMN other_ TO "renamed "" too";
ALTER TABLE $base RENAME TO "renamed ' as well";
UPDATE $schema."renamed ' as well" SET "renamed "" too" = "renamed "" too" || 'x' WHERE id_ = 9;
SELECT 'repair', sum(index_table.repair(index_table)) FROM index_table.index_tables WHERE base = ${\quote_literal(qq($schema."renamed ' as well"))}::regclass;
DROP TABLE $schema."renamed ' as well";
SELECT 'left', count(*) FROM index_table.definition;
RESET ROLE;
DROP SCHEMA $schema CASCADE;
DROP OWNED BY $role;
DROP ROLE $role;
};
	my ($status, $out, $err) = execute($sql);
	my $shown = $name =~ s/[^\x20-\x7e]/sprintf('\\x{%x}', ord $&)/ger;
	is($err, '', "a name: $shown");
	my @lines = grep { /^\w+\|/ } split /\n/, $out;
	is(join(' ', @lines), 'verify|0 global|0 oracle|0 found|3 fetched|3 repair|0 left|0', "all is right with: $shown");
	execute(qq{DROP SCHEMA IF EXISTS $schema CASCADE}) if $err;
	$places++;
}
done_testing();
