# Random INSERT … ON CONFLICT statements, with all that goes with them, for a table t that one side has
# partitioned, with unique index tables, and the other in one piece, with native unique indexes of the
# same keys. What they do is the same on both, row by row and in order.
#
#   my $schema = RandomUpserts::generate($version, $number, $turn, %features);    # features: icu
#                         four numbers in a row have all ways of partitioning, and all keys
#   $schema->{setup}      SQL for psql, of the side that :partitioned says
#   $schema->{tables}     index tables, see IndexTableTest::describe()
#   $schema->{prepare}    SQL for each session
#   my @steps = RandomUpserts::batch($schema, $size);
#
# A step is a hash of
#   sql        a statement, or several of psql, without the last semicolon; or with its own end of line
#   kinds      what it is an example of, see @kinds
#   frame      optional: it is there for others, and not counted
#   ours       optional: only the partitioned side has it
#   loose      optional: it catches errors, so triggers may have run or not
#   next_id    where identity values go on afterwards: errors use up as many as they like
#
# What is left out, because a unique index table is checked when a statement ends (docs/constraints.md):
# - a statement of several rows that hands on a key that is not the arbiter from row to row: such keys
#   are set where there is one row
# - nested statements that want keys of the statement around them, whose triggers have not been fired:
#   triggers write other keys (s1, s2, …) than statements do
# - a row that gives up a key and one that takes it, in one statement, where a foreign key points at it:
#   references stay with the key
# - exceptions that are caught in the middle of a statement that changes the table
# And because PostgreSQL treats partitioned tables otherwise: partition keys are not set (a row that would
# move is refused with 0A000), system columns are not returned ("cannot retrieve a system column in this
# context" where the row that was updated is in a partition of the same layout).
package RandomUpserts;

use strict;
use warnings;

use IndexTableTest qw(describe quote_literal);
use RandomTables qw(chance pick some);

our @kinds = qw(single values series many self table default overriding same_id
	nothing nothing_target update where
	key_email key_pair key_lname key_slot key_num key_word key_gkey key_tenant key_mixed key_pk
	collate opclass constraint predicate reordered alias
	set_constant set_excluded set_mixed set_subselect set_multi set_default set_array set_json set_null set_key set_new_key handed_on nested
	returning returning_all returning_subselect
	cte cte_insert cte_two cte_delete prepared plpgsql sql_function view renamed_view rule trigger copy analyzed multi
	repeated other_key reader columns replica repeatable_read serializable savepoint moved);

my $domain = 30; # a key has so many values that are met again and again
my $next;        # numbers that are not in use
my $next_id;

sub number { my ($below) = @_; return int(rand($below)); }
sub fresh { return ++$next; }

# --- Keys ---------------------------------------------------------------------------

# A text with a number, which may be an expression.
sub text_of
{
	my ($prefix, $i) = @_;
	return $i =~ /^\d+$/ ? "'$prefix$i'" : "'$prefix' || $i";
}

sub any_case { my ($text) = @_; return pick($text, $text, "upper($text)", "initcap($text)"); }

# key        of the index table and the native index
# constraint the native one is a constraint; key without order
# oracle     expressions over b
# columns    that are no part of an expression
# predicate  of a partial key, and over b
# targets    conflict targets, with the kinds they are
# of         the columns of a row that has the key of a number
# same, new  assignments that keep the key, or change it; %s is the target
my %keys = (
	email => {
		key => 'email', constraint => 1, oracle => ['b.email'], columns => ['email'], targets => [ ['(email)'] ],
		of => sub { my ($i) = @_; return { email => text_of('e', $i) } },
		same => [ 'email = EXCLUDED.email', 'email = %s.email' ], new => sub { "email = 'x" . fresh() . "'" } },
	pair => {
		key => 'region, code', constraint => 1, oracle => [ 'b.region', 'b.code' ], columns => [ 'region', 'code' ],
		targets => [ ['(region, code)'], [ '(code, region)', 'reordered' ] ],
		of => sub { my ($i) = @_; return { region => "$i % 3", code => "'c' || $i / 3" } },
		same => [ '(code, region) = (EXCLUDED.code, %s.region)', 'region = EXCLUDED.region' ], new => sub { "code = 'x" . fresh() . "'" } },
	lname => {
		key => 'lower(name)', oracle => ['lower(b.name)'], columns => [], targets => [ ['(lower(name))'] ],
		of => sub { my ($i) = @_; return { name => any_case(text_of('name ', $i)) } },
		same => [ 'name = EXCLUDED.name', 'name = upper(%s.name)' ], new => sub { "name = 'x" . fresh() . "'" } },
	slot => {
		key => 'slot', oracle => ['b.slot'], columns => ['slot'], predicate => [ 'active AND slot > 0', 'b.active AND b.slot > 0' ],
		targets => [ [ '(slot) WHERE active AND slot > 0', 'predicate' ], [ '(slot) WHERE active AND slot > 0 AND n IS NOT NULL', 'predicate' ] ],
		of => sub { my ($i) = @_; return { slot => $i, active => pick(('true') x 9, 'false') } },
		same => [ 'slot = EXCLUDED.slot', 'slot = %s.slot' ], new => sub { pick('active = false', 'slot = - %s.slot', 'slot = ' . fresh(), 'active = NOT %s.active') } },
	num => {
		key => 'num', constraint => 1, oracle => ['b.num'], columns => ['num'], targets => [ ['(num)'] ],
		of => sub { my ($i) = @_; return { num => 'round(' . $i . ', ' . number(3) . ')' } },
		same => [ 'num = EXCLUDED.num', 'num = round(%s.num, 3)' ], new => sub { 'num = ' . fresh() . '.5' } },
	word => {
		key => 'word COLLATE "POSIX"', oracle => ['b.word COLLATE "POSIX"'], columns => ['word'], targets => [ ['(word)'], [ '(word COLLATE "POSIX")', 'collate' ] ],
		of => sub { my ($i) = @_; return { word => text_of('w', $i) } },
		same => [ 'word = EXCLUDED.word', 'word = %s.word' ], new => sub { "word = 'x" . fresh() . "'" } },
	gkey => {
		key => 'gkey', constraint => 1, oracle => ['b.gkey'], columns => ['gkey'], targets => [ ['(gkey)'] ],
		of => sub { my ($i) = @_; return { base => any_case(text_of('base', $i)) } },
		same => [ 'base = EXCLUDED.base', 'base = upper(%s.base)' ], new => sub { "base = 'x" . fresh() . "'" } },
	tenant => {
		key => 'tenant, label', constraint => 1, not_distinct => 1, oracle => [ 'b.tenant', 'b.label' ], columns => [ 'tenant', 'label' ],
		targets => [ ['(tenant, label)'] ],
		of => sub { my ($i) = @_; return $i =~ /^[0-4]$/ ? { tenant => $i, label => 'NULL' } : { tenant => "nullif($i % 3, 0)", label => text_of('l', $i) } },
		same => [ 'label = EXCLUDED.label', 'tenant = %s.tenant' ], new => sub { "label = 'x" . fresh() . "'" } },
	mixed => {
		key => 'grp DESC, upper(tag)', oracle => [ 'b.grp', 'upper(b.tag)' ], columns => ['grp'], targets => [ ['(grp, upper(tag))'], [ '(upper(tag), grp)', 'reordered' ] ],
		of => sub { my ($i) = @_; return { grp => "$i % 4", tag => any_case(text_of('tag', "$i")) } },
		same => [ 'tag = EXCLUDED.tag', 'grp = %s.grp' ], new => sub { "tag = 'x" . fresh() . "'" } });

# Variants that a schema may have instead.
my %variants = (
	word => sub {
		my ($schema, $key) = @_;
		my $what = number($schema->{icu} ? 3 : 2);
		if ($what == 1)
		{
			$key->{key} = 'word text_pattern_ops';
			$key->{oracle} = ['b.word'];
			$key->{targets} = [ ['(word)'], [ '(word text_pattern_ops)', 'opclass' ] ];
		}
		elsif ($what == 2)
		{
			$key->{key} = 'word COLLATE caseless';
			$key->{oracle} = ['b.word COLLATE caseless'];
			$key->{targets} = [ ['(word)'], [ '(word COLLATE caseless)', 'collate' ] ];
			$key->{of} = sub { my ($i) = @_; return { word => any_case(text_of('w', $i)) } };
		}
		return;
	},
	email => sub {
		my ($schema, $key) = @_;
		# A longer list of targets, some of which say what need not be said.
		push @{ $key->{targets} }, [ '(email COLLATE "default")', 'collate' ], [ '(email text_ops)', 'opclass' ], [ '(email) WHERE n > 3', 'predicate' ];
		return;
	});

# --- The schema ---------------------------------------------------------------------

my %types = (
	r => 'int NOT NULL DEFAULT 5',
	p => "text NOT NULL DEFAULT 'n'",
	email => 'text', region => 'int', code => 'text', name => 'text', slot => 'int',
	active => 'boolean NOT NULL DEFAULT true',
	num => 'numeric', word => 'text', base => 'text',
	gkey => 'text GENERATED ALWAYS AS (lower(base)) STORED',
	tenant => 'int', label => 'text', grp => 'int', tag => 'text',
	n => 'int NOT NULL DEFAULT 1',
	v => "text DEFAULT 'def'",
	a => "int[] DEFAULT '{7}'",
	j => 'jsonb',
	d => "date DEFAULT '2020-02-20'",
	ref => 'int',
	gen => "text GENERATED ALWAYS AS (coalesce(v, '-') || '/' || n::text) STORED");

# A partition, as it comes or attached with a shape of its own.
sub leaf
{
	my ($schema, $parent, $name, $bound) = @_;
	return "CREATE TABLE $name PARTITION OF $parent $bound;\n" if chance(0.35);
	my @columns = map { "$_ $schema->{types}{$_}" } some(99, @{ $schema->{columns} });
	splice(@columns, number(scalar @columns), 0, 'junk int DEFAULT 7');
	s/GENERATED (ALWAYS|BY DEFAULT) AS IDENTITY// foreach @columns;
	return
	    "CREATE TABLE $name (" . join(', ', @columns) . ", CONSTRAINT t_n CHECK (n >= -2 AND n < 90));\n"
	  . "ALTER TABLE $name DROP COLUMN junk;\n"
	  . "ALTER TABLE $parent ATTACH PARTITION $name $bound;\n";
}

sub partitions
{
	my ($schema) = @_;
	my $kind = $schema->{kind};
	my $sql = '';
	if ($kind eq 'hash')
	{
		my $count = 3 + number(5);
		$sql .= leaf($schema, 't', "t_part_$_", "FOR VALUES WITH (MODULUS $count, REMAINDER $_)") foreach 0 .. $count - 1;
		return $sql;
	}
	if ($kind eq 'range')
	{
		$sql .= leaf($schema, 't', "t_part_$_", "FOR VALUES FROM ($_) TO ($_ + 8)") foreach map { $_ * 8 } 0 .. 4;
		return $sql;
	}
	foreach my $p (qw(n s e))
	{
		if ($kind eq 'sub' && $p ne 'e')
		{
			$sql .= "CREATE TABLE t_part_$p PARTITION OF t FOR VALUES IN ('$p') PARTITION BY " . ($p eq 'n' ? "RANGE (r);\n" : "HASH (id);\n");
			foreach my $i (0 .. 2)
			{
				my ($from, $to) = ($i * 15, ($i + 1) * 15);
				$sql .= leaf($schema, "t_part_$p", "t_part_${p}_$i", $p eq 'n' ? "FOR VALUES FROM ($from) TO ($to)" : "FOR VALUES WITH (MODULUS 3, REMAINDER $i)");
			}
			next;
		}
		$sql .= leaf($schema, 't', "t_part_$p", "FOR VALUES IN ('$p')");
	}
	return $sql . leaf($schema, 't', 't_part_rest', 'DEFAULT');
}

my %by = (hash => 'HASH (id)', range => 'RANGE (r)', list => 'LIST (p)', sub => 'LIST (p)');
my %pk = (hash => ['id'], range => [ 'id', 'r' ], list => [ 'id', 'p' ], sub => [ 'id', 'p', 'r' ]);

sub base_table
{
	my ($schema) = @_;
	my @columns = map { "$_ $schema->{types}{$_}" } @{ $schema->{columns} };
	splice(@columns, number(scalar @columns), 0, 'junk int') if chance(0.5);
	return
	    "CREATE TABLE t (\n\t" . join(",\n\t", @columns) . ",\n\tCONSTRAINT t_pkey PRIMARY KEY (" . join(', ', @{ $schema->{pk} })
	  . "), CONSTRAINT t_n CHECK (n >= -2 AND n < 90))\n\\if :partitioned\nPARTITION BY $by{$schema->{kind}}\n\\endif\n;\n"
	  . "ALTER TABLE t DROP COLUMN IF EXISTS junk;\n\\if :partitioned\n"
	  . partitions($schema) . "\\endif\n";
}

# The index table of a key, or a global index, and the native index.
sub unique_key
{
	my ($schema, $name) = @_;
	my $key = $schema->{key}{$name};
	my $where = $key->{predicate} ? " WHERE $key->{predicate}[0]" : '';
	my $nulls = $key->{not_distinct} ? ' NULLS NOT DISTINCT' : '';
	my $native =
	  $key->{constraint}
	  ? "ALTER TABLE t ADD CONSTRAINT t_by_${name}_key UNIQUE$nulls ($key->{key});\n"
	  : "CREATE UNIQUE INDEX t_by_${name}_key ON t ($key->{key})$nulls$where;\n";
	if (!$key->{not_distinct} && !$key->{constraint} && chance(0.5))
	{
		$schema->{globals}{$name} = 1;
		return "\\if :partitioned\nCREATE INDEX t_by_${name}_key ON t USING global ($key->{key}) WITH (unique)$where;\n\\else\n$native\\endif\n";
	}
	my %plain = map { $_ => 1 } @{ $key->{columns} };
	my @identity = grep { !$plain{$_} } @{ $schema->{pk} };
	my %stored = map { $_ => 1 } @{ $key->{columns} }, @{ $schema->{pk} };
	my @columns = @{ $schema->{columns} };
	my $strategy = pick(qw(normalized normalized normalized partial denormalized));
	my (@include, @copied);
	if ($strategy eq 'partial')
	{
		@include = some(3, grep { !$plain{$_} } @columns);
		@copied = grep { !$stored{$_} } @include;
	}
	@copied = grep { !$stored{$_} } @columns if $strategy eq 'denormalized';
	push @{ $schema->{tables} }, describe(
		name => "t_by_$name",
		base => 't',
		key => $key->{oracle},
		predicate => $key->{predicate} ? $key->{predicate}[1] : undef,
		copies => [ @identity, @copied ],
		identity => scalar(@identity),
		is_unique => 1);
	my $create =
	    'SELECT index_table.create(\'t\', ' . quote_literal($key->{key}) . ", name => 't_by_$name', is_unique => true, strategy => '$strategy'"
	  . (@include ? ', include => ' . quote_literal(join(', ', @include)) : '')
	  . ($key->{predicate} ? ', predicate => ' . quote_literal($key->{predicate}[0]) : '')
	  . ($key->{not_distinct} ? ', nulls_distinct => false' : '')
	  . (chance(0.2) && $key->{key} !~ /caseless/ ? ', partitions => 3' : '') . ");\n";
	return "\\if :partitioned\n$create\\else\n$native\\endif\n";
}

# --- Triggers, functions, views

# What triggers say is the same whatever the layout of a partition. While upserts.quiet is on, changes
# whose triggers differ because rows move between partitions say nothing.
my $functions = q{
CREATE FUNCTION is_quiet() RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT coalesce(current_setting('upserts.quiet', true), '') = 'on' $$;
CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT is_quiet() THEN
		RAISE WARNING '% % % % old % new %', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, to_jsonb(OLD), to_jsonb(NEW);
	END IF;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION change_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF is_quiet() THEN RETURN NEW; END IF;
	IF NEW.v = 'raise' THEN RAISE EXCEPTION 'a row that is %', NEW.v; END IF;
	IF NEW.v = 'plus' THEN NEW.n := NEW.n + 1; NEW.a := NEW.a || 1; END IF;
	IF NEW.v = TG_ARGV[0] THEN RETURN NULL; END IF;
	IF NEW.v = 'rekey' THEN
		IF TG_OP = 'UPDATE' THEN NEW.email := OLD.email || '+'; NEW.v := 'rekeyed';
		ELSIF NEW.n % 3 = 0 THEN NEW.email := 'e' || NEW.n;
		ELSIF NEW.n % 3 = 1 THEN NEW.base := 'base' || NEW.n; NEW.word := 'w' || NEW.n;
		ELSE NEW.name := 'name ' || NEW.n; NEW.slot := NEW.n;
		END IF;
	END IF;
	-- Changes of the table before the row itself is changed.
	IF NEW.v = 'before' THEN
		NEW.v := 'was before';
		INSERT INTO t (email, n) VALUES ('s' || NEW.n % 4, 1) ON CONFLICT (email) DO UPDATE SET n = (t.n + 1) % 50;
	END IF;
	IF NEW.v = 'first' THEN INSERT INTO t (email, n, v) VALUES (NEW.email, 2, 'was first') ON CONFLICT DO NOTHING; END IF;
	IF NEW.v = 'self' AND TG_OP = 'UPDATE' THEN UPDATE t SET d = '2022-02-22', v = 'other' WHERE id = OLD.id; END IF;
	IF NEW.v = 'gone' AND TG_OP = 'UPDATE' THEN DELETE FROM t WHERE id = OLD.id; END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION pick_one(n int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT CASE WHEN n < 4 THEN 's' ELSE 'e' END || n $$;
CREATE FUNCTION spawn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF is_quiet() THEN RETURN NULL; END IF;
	IF NEW.v = 'spawn' THEN
		INSERT INTO t (email, n, v) VALUES ('s' || NEW.n % 4, 1, 'spawned') ON CONFLICT (email) DO UPDATE SET n = (t.n + 1) % 50, v = EXCLUDED.v;
	ELSIF NEW.v = 'touch' THEN
		UPDATE t SET n = (n + 1) % 50, v = 'touched' WHERE email = pick_one(NEW.n);
	ELSIF NEW.v = 'remove' THEN
		DELETE FROM t WHERE email = pick_one(NEW.n);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION log_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT is_quiet() THEN RAISE WARNING '% % old %', TG_NAME, TG_OP, (SELECT string_agg(to_jsonb(o)::text, ' ' ORDER BY to_jsonb(o)::text) FROM old_rows o); END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION log_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT is_quiet() THEN RAISE WARNING '% % new %', TG_NAME, TG_OP, (SELECT string_agg(to_jsonb(o)::text, ' ' ORDER BY to_jsonb(o)::text) FROM new_rows o); END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION log_both() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT is_quiet() THEN RAISE WARNING '% % % => %', TG_NAME, TG_OP,
		(SELECT string_agg(to_jsonb(o)::text, ' ' ORDER BY to_jsonb(o)::text) FROM old_rows o), (SELECT string_agg(to_jsonb(x)::text, ' ' ORDER BY to_jsonb(x)::text) FROM new_rows x); END IF;
	RETURN NULL;
END $$;

CREATE FUNCTION nested(k text) RETURNS int LANGUAGE sql AS $$
	INSERT INTO t (email, n) VALUES ('s' || k, 1) ON CONFLICT (email) DO UPDATE SET n = (t.n + 1) % 50 RETURNING n $$;
CREATE FUNCTION upsert_found(k text, amount int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE row t; changed int; was_found boolean;
BEGIN
	INSERT INTO t (email, n) VALUES (k, amount) ON CONFLICT (email) DO UPDATE SET n = (t.n + EXCLUDED.n) % 50 WHERE t.n % 4 <> 0 RETURNING * INTO row;
	was_found := FOUND;
	GET DIAGNOSTICS changed = ROW_COUNT;
	RETURN concat_ws(' ', was_found, changed, row.id, row.email, row.n, row.gen);
END $$;
CREATE FUNCTION get_or_create(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found_id int; changed int;
BEGIN
	INSERT INTO t (email) VALUES (k) ON CONFLICT (email) DO NOTHING RETURNING id INTO found_id;
	GET DIAGNOSTICS changed = ROW_COUNT;
	IF NOT FOUND THEN SELECT id INTO found_id FROM t WHERE email = k; END IF;
	RETURN changed || ' ' || found_id;
END $$;
CREATE FUNCTION upsert_loop(first int, count int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE changed int; total int := 0;
BEGIN
	FOR i IN first .. first + count LOOP
		INSERT INTO t AS c (email, n, v) VALUES ('e' || i, i, 'loop') ON CONFLICT (email) DO UPDATE SET n = (c.n + i) % 50, v = c.v || EXCLUDED.n;
		GET DIAGNOSTICS changed = ROW_COUNT;
		total := total + changed;
	END LOOP;
	RETURN total;
END $$;
CREATE FUNCTION upsert_each(first int, count int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE row record;
BEGIN
	FOR row IN INSERT INTO t (email, n, v) SELECT 'e' || i, i, 'each' FROM generate_series(first, first + count) i ON CONFLICT (email) DO UPDATE SET v = EXCLUDED.v, n = (t.n + 1) % 50 RETURNING * LOOP
		RETURN NEXT row.id || row.email || row.n;
		DELETE FROM t WHERE email = row.email AND n % 7 = 0;
	END LOOP;
	RETURN QUERY INSERT INTO t (email, n) VALUES ('e' || first, 3), ('e' || first + 1, 4) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING email;
END $$;
CREATE FUNCTION several(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE seen text := ''; x int;
BEGIN
	INSERT INTO t (email, n, r, p) VALUES (k, 3, 3, 's') ON CONFLICT (email) DO UPDATE SET n = (t.n + 1) % 50 RETURNING n INTO x;
	seen := seen || coalesce(x, -1);
	INSERT INTO t (email, n, r, p) VALUES (k, 5, 33, 'n') ON CONFLICT (email) DO UPDATE SET n = (t.n + EXCLUDED.n) % 50 RETURNING n INTO x;
	seen := seen || ' ' || coalesce(x, -1);
	UPDATE t SET email = k || '~' WHERE email = k AND n % 3 = 0 AND NOT EXISTS (SELECT FROM t x WHERE x.email = k || '~');
	INSERT INTO t (email, n, r, p) VALUES (k, 7, 13, 'e') ON CONFLICT (email) DO NOTHING RETURNING n INTO x;
	seen := seen || ' ' || coalesce(x, -1);
	DELETE FROM t WHERE email IN (k, k || '~') AND n % 2 = 0;
	INSERT INTO t (email, n, r, p) VALUES (k, 9, 23, 'w') ON CONFLICT (email) DO UPDATE SET n = (t.n + EXCLUDED.n) % 50, email = EXCLUDED.email RETURNING n INTO x;
	seen := seen || ' ' || coalesce(x, -1);
	DELETE FROM t WHERE email = k || '~';
	RETURN seen;
END $$;
CREATE FUNCTION numbers() RETURNS int[] LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	SELECT ARRAY[pg_sequence_last_value(pg_get_serial_sequence('t', 'id')::regclass), pg_sequence_last_value('labels')]::int[] $$;
CREATE FUNCTION number_again(n int[]) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
	SELECT setval(pg_get_serial_sequence('t', 'id'), n[1]), setval('labels', n[2]) $$;
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	changed int;
	before int[] := numbers();
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS changed = ROW_COUNT;
	RETURN changed;
EXCEPTION WHEN OTHERS THEN
	-- How many numbers were drawn before it is open,
	PERFORM number_again(before);
	-- and which of several comes first.
	RETURN CASE WHEN SQLSTATE LIKE 'XX%' THEN SQLERRM ELSE 'failed' END;
END $$;
CREATE FUNCTION sql_upsert(k text, amount int) RETURNS SETOF t LANGUAGE sql AS $$
	INSERT INTO t (email, n) VALUES (k, amount) ON CONFLICT (email) DO UPDATE SET n = (t.n + EXCLUDED.n) % 50 RETURNING * $$;
CREATE FUNCTION sql_twice(k text) RETURNS bigint LANGUAGE sql AS $$
	INSERT INTO t (email, n) VALUES (k, 1) ON CONFLICT (email) DO NOTHING;
	INSERT INTO t (email, n) VALUES (k, 1) ON CONFLICT (email) DO UPDATE SET n = (t.n + 1) % 50;
	SELECT sum(n) FROM t WHERE email = k $$;
CREATE FUNCTION sql_atomic(k text, amount int) RETURNS text LANGUAGE sql BEGIN ATOMIC
	INSERT INTO t AS c (email, n, v) VALUES (k, amount, 'atomic') ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n, v = c.n || EXCLUDED.v WHERE c.n <> EXCLUDED.n RETURNING v;
END;
CREATE FUNCTION sql_named(k text, amount int) RETURNS int LANGUAGE sql BEGIN ATOMIC
	INSERT INTO t AS c (email, n) VALUES (k, amount) ON CONFLICT ON CONSTRAINT t_by_email_key DO UPDATE SET n = (c.n + EXCLUDED.n) % 50 RETURNING n;
END;
CREATE TABLE inbox (email text, amount int);
CREATE FUNCTION from_inbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t (email, n) VALUES (NEW.email, NEW.amount) ON CONFLICT (email) DO UPDATE SET n = (t.n + EXCLUDED.n) % 50;
	NEW.amount := CASE WHEN FOUND THEN 1 ELSE 0 END;
	RETURN CASE WHEN NEW.amount = 0 THEN NULL ELSE NEW END;
END $$;
CREATE TRIGGER from_inbox BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION from_inbox();
};

# What tables hold after a step, whole or as a hash.
sub state_function
{
	my ($schema) = @_;
	my @tables = (qw(t notes inbox child));
	return q{
CREATE FUNCTION state(whole boolean, next_id int) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	PERFORM setval(pg_get_serial_sequence('t', 'id'), next_id), setval('labels', next_id);
	RETURN NEXT 'rows ' || (SELECT count(*) FROM t);
	IF whole THEN
		RETURN QUERY }
	  . join(' UNION ALL ', map { "SELECT '$_ ' || x::text FROM $_ x" } @tables) . q{ ORDER BY 1;
	ELSE
		RETURN QUERY }
	  . join(' UNION ALL ', map { "SELECT '$_ ' || md5(string_agg(x::text, ' ' ORDER BY x::text)) FROM $_ x" } @tables) . q{;
	END IF;
END $$;
};
}

sub triggers
{
	my ($schema) = @_;
	my @triggers;
	my $row = 'FOR EACH ROW EXECUTE FUNCTION log_row()';
	my $statement = 'FOR EACH STATEMENT EXECUTE FUNCTION log_row()';
	my @of = ('n', 'v', 'email', 'n, a', 'j', 'gen', 'name', 'id, slot');
	# Without triggers much is simpler inside.
	$schema->{triggers} = [];
	return '' if $schema->{plain};
	push @triggers, "change_insert BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION change_row('skip')" if chance(0.7);
	push @triggers, "change_update BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change_row('still')" if chance(0.7);
	push @triggers, "before_row BEFORE INSERT OR UPDATE OR DELETE ON t $row" if chance(0.5);
	push @triggers, "after_row AFTER INSERT OR UPDATE OR DELETE ON t $row" if chance(0.7);
	push @triggers, "a_before BEFORE UPDATE ON t $row" if chance(0.3);
	push @triggers, "differ AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_row()" if chance(0.4);
	push @triggers, "more_n AFTER UPDATE OF n ON t FOR EACH ROW WHEN (OLD.n < NEW.n) EXECUTE FUNCTION log_row()" if chance(0.4);
	push @triggers, "new_n BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.n > 5) EXECUTE FUNCTION log_row()" if chance(0.3);
	push @triggers, "spawn AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION spawn()" if chance(0.7);
	foreach my $when (qw(BEFORE AFTER))
	{
		push @triggers, "of_${when}_$_ $when UPDATE OF $of[$_] ON t $row" foreach grep { chance(0.15) } 0 .. $#of;
		push @triggers, "statement_${when}_$_ $when $_ ON t $statement" foreach grep { chance(0.5) } qw(INSERT UPDATE DELETE);
		push @triggers, "statement_of_$when $when UPDATE OF " . pick(@of) . " ON t $statement" if chance(0.4);
	}
	push @triggers, "new_i AFTER INSERT ON t REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION log_new()" if chance(0.5);
	# Without a BEFORE trigger PostgreSQL shows there rows of partitions of another layout without their generated columns.
	push @triggers, "for_new_i BEFORE INSERT ON t $row" if grep { /^new_i / } @triggers;
	push @triggers, "old_u AFTER UPDATE ON t REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION log_old()" if chance(0.4);
	push @triggers, "both_u AFTER UPDATE ON t REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION log_both()" if chance(0.5);
	$schema->{triggers} = [ map { /^(\w+)/ } @triggers ];
	my $sql = join('', map { "CREATE TRIGGER $_;\n" } @triggers);
	$sql .= "CREATE CONSTRAINT TRIGGER checked AFTER INSERT OR UPDATE ON t DEFERRABLE $row;\n" if chance(0.4);
	return $sql;
}

sub policies
{
	return "CREATE POLICY p_all ON t FOR ALL USING (v IS DISTINCT FROM 'v8') WITH CHECK (n < 45);\n" if chance(0.35);
	return
	    "CREATE POLICY p_select ON t FOR SELECT USING (v IS DISTINCT FROM 'v8');\n"
	  . "CREATE POLICY p_insert ON t FOR INSERT WITH CHECK (v IS DISTINCT FROM 'v7');\n"
	  . "CREATE POLICY p_update ON t FOR UPDATE USING (n % 19 <> 6)" . pick('', ' WITH CHECK (n < 45)') . ";\n"
	  . (chance(0.5) ? "CREATE POLICY p_also ON t AS RESTRICTIVE FOR " . pick(qw(UPDATE INSERT ALL)) . " WITH CHECK (v IS DISTINCT FROM 'never');\n" : '')
	  . "CREATE POLICY p_delete ON t FOR DELETE USING (n <> 3);\n";
}

sub views
{
	my ($schema) = @_;
	my $columns = join(', ', grep { $_ ne 'gen' } @{ $schema->{columns} });
	my $invoker = pick('', ' WITH (security_invoker)');
	return
	    "CREATE VIEW v_plain$invoker AS SELECT $columns FROM t;\n"
	  . "CREATE VIEW v_check AS SELECT $columns FROM t WHERE n < 30 WITH " . pick('LOCAL ', 'CASCADED ', '') . "CHECK OPTION;\n"
	  . "CREATE VIEW v_barrier WITH (security_barrier) AS SELECT $columns FROM v_check WHERE n <> 8" . pick('', ' WITH CHECK OPTION') . ";\n"
	  . "CREATE VIEW v_renamed AS SELECT n AS amount, email AS mail, id AS number, v, lower(v) AS computed FROM t WHERE n < 60" . pick('', ' WITH CHECK OPTION') . ";\n"
	  . "CREATE VIEW v_rule AS SELECT email, n FROM t;\n"
	  . "CREATE RULE upsert AS ON INSERT TO v_rule DO INSTEAD INSERT INTO t (email, n) VALUES (NEW.email, NEW.n) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n + 1 RETURNING t.email, t.n;\n";
}

sub generate
{
	my ($version, $number, $turn, %features) = @_;
	$next = 1000;
	$next_id = 1000;
	my $kind = (qw(hash range sub list))[ $number % 4 ];
	my %used = %types;
	$used{id} = 'int NOT NULL GENERATED ' . (($number + ($turn >> 2)) % 2 ? 'ALWAYS' : 'BY DEFAULT') . ' AS IDENTITY';
	# A key is in every second schema, so that a run has all.
	my @others = qw(pair lname slot num word gkey tenant mixed);
	my @names = ('email', map { $others[ (($number + ($turn >> 3)) * 4 + $_) % @others ] } 0 .. 3);
	# NULLs of this key are equal: rows that say nothing get one of their own.
	$used{label} = "text DEFAULT 'd' || nextval('labels')" if grep { $_ eq 'tenant' } @names;
	my $schema = {
		version => $version, kind => $kind, pk => [ some(9, @{ $pk{$kind} }) ], types => \%used,
		columns => [ some(99, sort keys %used) ], tables => [], icu => $features{icu},
		always => ($number + ($turn >> 2)) % 2, plain => ($number + $turn) % 4 == 0 };
	$schema->{names} = \@names;
	foreach my $name (@names)
	{
		$schema->{key}{$name} = { %{ $keys{$name} }, targets => [ @{ $keys{$name}{targets} } ] };
		$variants{$name}->($schema, $schema->{key}{$name}) if $variants{$name};
	}

	my $sql = "SET client_min_messages = error;\nCREATE SEQUENCE labels START 1000;\nGRANT ALL ON SEQUENCE labels TO PUBLIC;\n" . ($features{icu} ? "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);\n" : '');
	$sql .= base_table($schema);
	my @create = map { unique_key($schema, $_) } @names;
	my @early = grep { chance(0.5) } 0 .. $#create;
	my %early = map { $_ => 1 } @early;
	$sql .= $create[$_] foreach @early;
	$sql .= "CREATE TABLE src (id int PRIMARY KEY, k int, a text);\nINSERT INTO src SELECT i, i % 12, 'a' || i % 9 FROM generate_series(1, 60) i;\n";
	$sql .= "CREATE TABLE notes (line text);\nCREATE TABLE par (id int PRIMARY KEY);\nINSERT INTO par SELECT generate_series(0, 30);\n";
	$sql .= refill(0) . ";\n";
	$sql .= $create[$_] foreach grep { !$early{$_} } 0 .. $#create;
	$sql .= "ALTER TABLE t ADD CONSTRAINT t_ref FOREIGN KEY (ref) REFERENCES par" . pick('', ' DEFERRABLE') . ";\n" if chance(0.6);
	$sql .= "CREATE TABLE child (number int, email text);\n";
	if ($schema->{has_child} = chance(0.5))
	{
		$sql .= "INSERT INTO child SELECT i, 'e' || i FROM generate_series(0, $domain - 1, 4) i;\n"
		  . "\\if :partitioned\n\\set parent t_by_email\n\\else\n\\set parent t\n\\endif\n"
		  . "ALTER TABLE child ADD CONSTRAINT child_email FOREIGN KEY (email) REFERENCES :parent (email) ON UPDATE CASCADE ON DELETE SET NULL;\n";
	}
	$sql .= $functions . state_function($schema) . triggers($schema) . views($schema);
	$sql .= "ALTER TABLE t ENABLE ROW LEVEL SECURITY;\n" . policies();
	$sql .= "GRANT ALL ON t, src, notes, par, child, inbox, v_plain, v_check, v_barrier, v_renamed, v_rule TO upserts_reader;\n"
	  . "GRANT SELECT (id, email, n, v, region, code, slot, active), INSERT (email, region, code, slot, active, n, v, r, p, label, name), UPDATE (n, v, email) ON t TO upserts_columns;\n"
	  . "GRANT ALL ON src, notes, inbox TO upserts_columns;\n"
	  . "DO \$\$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO PUBLIC', current_schema()); END \$\$;\n";
	$sql .= "SELECT setval(pg_get_serial_sequence('t', 'id'), $next_id);\nVACUUM ANALYZE t;\n";
	$schema->{setup} = $sql;
	$schema->{prepare} = prepared($schema);
	return $schema;
}

# Rows that have all keys, every second number of them.
sub refill
{
	my ($first) = @_;
	return "INSERT INTO t (email, region, code, name, slot, num, word, base, tenant, label, grp, tag, n, r, p, v)"
	  . " SELECT 'e' || i, i % 3, 'c' || i / 3, 'name ' || i, i, i, 'w' || i, 'base' || i, nullif(i % 3, 0), 'l' || i, i % 4, 'tag' || i, i % 12, (i * 7) % 40, (ARRAY['n', 's', 'e', 'w'])[i % 4 + 1], 'refill'"
	  . " FROM generate_series($first, $domain - 1, 2) i ON CONFLICT DO NOTHING";
}

# --- Rows ---------------------------------------------------------------------------

# The value of a column in the row of a number, which may be an expression.
sub value
{
	my ($schema, $column, $i) = @_;
	if ($i !~ /^\d+$/)
	{
		my %values = (n => "$i % 11", v => "'g' || $i % 5", a => "ARRAY[$i, 1]", j => "jsonb_build_object('i', $i)", d => "date '2021-01-01' + $i", ref => "$i % 30", r => "$i % 40", p => "(ARRAY['n', 's', 'e', 'w'])[$i % 4 + 1]");
		return $values{$column};
	}
	return number(12) if $column eq 'n' && !chance(0.03);
	return pick(-3, 90, 'NULL', 50) if $column eq 'n';
	return quote_literal(pick(qw(skip skip still still rekey rekey raise raise plus spawn spawn spawn touch remove before before first self gone))) if $column eq 'v' && chance(0.2);
	return quote_literal('v' . number(20)) if $column eq 'v';
	return "(SELECT array_agg((i * 7919) % 10007) FROM generate_series(1, 900) i)" if $column eq 'a' && chance(0.03);
	return pick("'{}'", 'ARRAY[' . number(9) . ', ' . number(9) . ']', 'NULL') if $column eq 'a';
	return pick("'{\"x\": " . number(9) . "}'", "'{\"y\": [1, {\"z\": null}]}'", 'NULL') if $column eq 'j';
	return "'2022-03-" . (10 + number(20)) . "'" if $column eq 'd';
	return chance(0.04) ? 99 : number(30) if $column eq 'ref';
	return number(40) if $column eq 'r';
	return quote_literal(pick(qw(n s e w z)));
}

# Numbers of a key, few of them twice. 
sub numbers
{
	my ($kinds, $count) = @_;
	my @numbers = some($count, 0 .. $domain - 1);
	if ($count > 1 && chance(0.05))
	{
		$numbers[-1] = $numbers[0];
		push @$kinds, 'repeated';
	}
	return @numbers;
}

# The columns that a row has besides those of the arbiter: keys that are new, mostly.
sub other_columns
{
	my ($schema, $kinds, $key, $is_single) = @_;
	my @keys;
	foreach my $name (grep { $_ ne $key } @{ $schema->{names} })
	{
		next unless chance(0.4);
		next if $schema->{narrow} && $name !~ /^(?:email|pair|slot)$/;
		my $again = $is_single && chance(0.08);
		push @$kinds, 'other_key' if $again;
		push @keys, [ $name, $again ];
	}
	my @rest = $schema->{narrow} ? some(number(4), qw(n v r p)) : some(number(6), qw(n n v v a j d ref r p));
	my %seen;
	@rest = grep { !$seen{$_}++ } 'n', @rest;
	return (\@keys, \@rest);
}

# A row of a number, as a hash by column.
sub row
{
	my ($schema, $key, $i, $other_keys, $rest, $base) = @_;
	my %row;
	foreach my $other (@$other_keys)
	{
		my ($name, $again) = @$other;
		my $number = $again ? number($domain) : $base ? "($base + $i)" : fresh();
		my $of = $schema->{key}{$name}{of}->($number);
		$row{$_} = $of->{$_} foreach keys %$of;
	}
	$row{$_} = value($schema, $_, $i) foreach @$rest;
	my $of = $key ? $schema->{key}{$key}{of}->($i) : {};
	$row{$_} = $of->{$_} foreach keys %$of;
	return \%row;
}

# What is inserted: columns, the text from OVERRIDING or VALUES on, and kinds.
sub source
{
	my ($schema, $key, $kinds, $width) = @_;
	my $what = rand();
	my $arbiter = $key && $key ne 'pk' ? $key : '';
	if ($what < 0.03 && !$schema->{narrow})
	{
		push @$kinds, 'default';
		return ('', 'DEFAULT VALUES');
	}
	my $base = ($next += 100);
	my $limit = $width // 6;
	if ($what < 0.42 || $limit == 1)
	{
		push @$kinds, 'single';
		my ($keys, $rest) = other_columns($schema, $kinds, $arbiter, 1);
		my $row = row($schema, $arbiter, number($domain), $keys, $rest);
		return columns_and_values($schema, $key, $kinds, $row);
	}
	my ($keys, $rest) = other_columns($schema, $kinds, $arbiter, 0);
	if ($what < 0.68)
	{
		push @$kinds, 'values';
		my @rows = map { row($schema, $arbiter, $_, $keys, $rest) } numbers($kinds, 2 + number($limit - 1));
		return columns_and_values($schema, $key, $kinds, @rows);
	}
	if ($what < 0.82)
	{
		push @$kinds, 'series';
		my $row = row($schema, $arbiter, 'i', $keys, $rest, $base);
		my ($from, $count) = (number($domain), number($limit));
		my @columns = sort keys %$row;
		my $series = "generate_series($from, " . ($from + $count) . pick('', '', ', 2') . ') i';
		$series = "(SELECT i FROM $series UNION ALL SELECT $from) i" if chance(0.06) && push(@$kinds, 'repeated');
		return ('(' . join(', ', @columns) . ')', 'SELECT ' . join(', ', map { $row->{$_} } @columns) . " FROM $series" . pick('', ' WHERE i % 3 <> 1', ' ORDER BY i DESC'));
	}
	if ($what < 0.90)
	{
		push @$kinds, 'table';
		my $row = row($schema, $arbiter, 's.id', $keys, $rest, $base);
		$row->{v} = 's.a' if $row->{v};
		my @columns = sort keys %$row;
		return ('(' . join(', ', @columns) . ')', 'SELECT ' . join(', ', map { $row->{$_} } @columns) . ' FROM src s WHERE s.k = ' . number(12) . ' AND s.id < ' . (20 + number(40)) . ' ORDER BY s.id');
	}
	if ($what < 0.91 && !$width)
	{
		push @$kinds, 'many';
		my $row = row($schema, $arbiter, 'i', $keys, $rest, $next += 1000);
		$row->{v} = "'many'";
		$next += 1000;
		my @columns = sort keys %$row;
		return ('(' . join(', ', @columns) . ')', 'SELECT ' . join(', ', map { $row->{$_} } @columns) . ' FROM generate_series(' . number(10) . ', ' . (100 + number(200)) . ') i');
	}
	push @$kinds, 'self';
	my $row = row($schema, $arbiter, 'x.n', $keys, $rest, $base);
	# Rows that are there, or others that are made of them.
	foreach my $other (@$keys)
	{
		my $of = $schema->{key}{ $other->[0] }{of}->("($base + (row_number() OVER (ORDER BY x.id))::int)");
		$row->{$_} = $of->{$_} foreach keys %$of;
	}
	if ($arbiter)
	{
		my $of = $schema->{key}{$arbiter}{of}->(chance(0.2) ? '(x.id + 100000)' : 'x.id');
		my $is_new = chance(0.3);
		$row->{$_} = $is_new ? $of->{$_} : "x.$_" foreach keys %$of;
	}
	$row->{v} = "left(x.v || 'y', 12)" if $row->{v};
	my @columns = sort keys %$row;
	return ('(' . join(', ', @columns) . ')', 'SELECT ' . join(', ', map { $row->{$_} } @columns) . ' FROM t x WHERE x.n ' . pick('< 4', '% 5 = 2', '= ' . number(12)) . ' ORDER BY x.id LIMIT ' . (1 + number($limit)));
}

# Gives a row the primary key of one that is there, or a new one.
sub primary_key_of_another
{
	my ($schema, $row) = @_;
	my $there = "FROM t x WHERE x.email = 'e" . number($domain) . "'";
	$row->{id} = "coalesce((SELECT x.id $there), " . (2000000 + fresh()) . ')';
	$row->{$_} = "coalesce((SELECT x.$_ $there), " . value($schema, $_, 1) . ')' foreach grep { $_ ne 'id' } @{ $schema->{pk} };
	return;
}

sub columns_and_values
{
	my ($schema, $key, $kinds, @rows) = @_;
	my $overriding = '';
	if ($key && $key eq 'pk')
	{
		# The row that is there.
		primary_key_of_another($schema, $_) foreach @rows;
		$overriding = 'OVERRIDING SYSTEM VALUE ' if $schema->{always};
	}
	elsif (@rows == 1 && chance(0.05) && !$schema->{narrow})
	{
		# That of a row which may be the one with the key, or not.
		primary_key_of_another($schema, $rows[0]);
		$overriding = 'OVERRIDING SYSTEM VALUE ' if $schema->{always};
		push @$kinds, 'same_id';
	}
	elsif (chance(0.12) && !$schema->{narrow})
	{
		$_->{id} = 2000000 + fresh() foreach @rows;
		$overriding = 'OVERRIDING ' . pick('SYSTEM', 'SYSTEM', 'USER') . ' VALUE ' if $schema->{always} ? chance(0.9) : chance(0.5);
		push @$kinds, 'overriding' if $overriding;
	}
	my @columns = some(99, sort keys %{ $rows[0] });
	foreach my $row (@rows)
	{
		foreach my $column (qw(n v a d)) { $row->{$column} = 'DEFAULT' if defined $row->{$column} && chance(0.04); }
	}
	my @values = map { my $row = $_; '(' . join(', ', map { $row->{$_} } @columns) . ')' } @rows;
	return ('(' . join(', ', @columns) . ')', $overriding . 'VALUES ' . join(', ', @values));
}

# --- SET, WHERE, RETURNING ----------------------------------------------------------

sub assignments
{
	my ($schema, $t, $key, $is_single, $of_view, $kinds, $columns) = @_;
	my %set = (
		n => [ [ "n = ($t.n + 1) % 50", 'set_mixed' ], [ 'n = EXCLUDED.n', 'set_excluded' ], [ "n = ($t.n + EXCLUDED.n) % 50", 'set_mixed' ], [ 'n = ' . number(30), 'set_constant' ],
			[ "n = (SELECT count(*) FROM src s WHERE s.k = $t.n)", 'set_subselect' ], [ 'n = (SELECT coalesce(max(x.n), 0) % 40 FROM t x WHERE x.n > EXCLUDED.n)', 'set_subselect' ], [ 'n = DEFAULT', 'set_default' ], chance(0.3) ? [ "n = nested((EXCLUDED.n % 4)::text)", 'nested' ] : (), chance(0.1) ? [ pick('n = NULL', 'n = 99', 'n = -5'), 'set_constant' ] : () ],
		v => [ [ 'v = EXCLUDED.v', 'set_excluded' ], [ "v = left($t.v || '/' || EXCLUDED.v, 12)", 'set_mixed' ], [ 'v = NULL', 'set_null' ], [ 'v = DEFAULT', 'set_default' ], [ "v = 'w" . number(9) . "'", 'set_constant' ],
			[ 'v = (SELECT max(s.a) FROM src s WHERE s.k = EXCLUDED.n)', 'set_subselect' ], [ 'v = left(md5(EXCLUDED::text), 5)', 'set_excluded' ], [ "v = left(md5(${t}::text || (EXCLUDED).n), 5)", 'set_mixed' ], [ "v = CASE WHEN $t.n < EXCLUDED.n THEN 'more' ELSE EXCLUDED.v END", 'set_mixed' ] ],
		a => [ [ "a = $t.a[1:3] || EXCLUDED.a", 'set_array' ], [ 'a[2] = ' . number(9), 'set_array' ], [ 'a = EXCLUDED.a', 'set_excluded' ], [ 'a = NULL', 'set_null' ], [ 'a = DEFAULT', 'set_default' ], [ "a = ARRAY(SELECT s.id FROM src s WHERE s.k = $t.n ORDER BY 1)", 'set_subselect' ] ],
		j => [ [ "j = coalesce($t.j, '{}') || coalesce(EXCLUDED.j, '{\"n\": 1}')", 'set_json' ], [ "j['k'] = to_jsonb(EXCLUDED.n)", 'set_json' ], [ 'j = EXCLUDED.j', 'set_excluded' ], [ 'j = to_jsonb(EXCLUDED.v)', 'set_json' ] ],
		d => [ [ "d = greatest($t.d, EXCLUDED.d)", 'set_mixed' ], [ 'd = DEFAULT', 'set_default' ] ],
		ref => [ [ 'ref = EXCLUDED.ref', 'set_excluded' ], [ 'ref = ' . number(30), 'set_constant' ], chance(0.1) ? [ 'ref = 99', 'set_constant' ] : () ],
		nv => [
			[ '(n, v) = (SELECT s.k, s.a FROM src s WHERE s.id = EXCLUDED.n + 1)', 'set_multi' ],
			[ '(n, v) = ROW (EXCLUDED.n, DEFAULT)', 'set_multi' ],
			[ "(v, n) = (EXCLUDED.v, ($t.n * 2) % 50)", 'set_multi' ],
			[ "(n, v) = (SELECT count(*), max(x.v) FROM t x WHERE x.n = $t.n)", 'set_multi' ] ],
		p => [ [ "p = $t.p", 'set_mixed' ] ],
		r => [ [ "r = $t.r", 'set_mixed' ] ],
		gen => [ [ 'gen = DEFAULT', 'set_default' ] ]);
	if (@$columns && !$schema->{narrow} && chance(0.1))
	{
		# All that was given, as clients send it.
		my @all = grep { !/^(?:id|r|p)$/ } @$columns;
		@all = grep { $_ !~ /^(?:region|code|name|slot|active|num|word|base|tenant|label|grp|tag|email)$/ } @all unless $is_single;
		push @$kinds, 'set_excluded';
		push @$kinds, 'set_key' if $is_single;
		return join(', ', map { "$_ = EXCLUDED.$_" } @all) if @all;
	}
	my @columns = $schema->{narrow} ? some(1, qw(n v)) : some(1 + number(3), chance(0.2) ? 'nv' : ('n', 'v'), qw(a j d ref), pick(qw(p r), $of_view ? () : qw(gen gen)));
	# PostgreSQL forgets to look into WHERE for EXCLUDED where nothing but a generated column is set.
	push @columns, 'n' if "@columns" eq 'gen';
	my @assignments;
	foreach my $column (sort @columns)
	{
		my ($sql, $kind) = @{ pick(@{ $set{$column} }) };
		push @assignments, $sql;
		push @$kinds, $kind;
	}
	my $arbiter = $key ne 'pk' ? $schema->{key}{$key} : undef;
	if ($arbiter && chance(0.15))
	{
		push @assignments, pick(@{ $arbiter->{same} }) =~ s/%s/$t/gr;
		push @$kinds, 'set_key';
	}
	elsif ($arbiter && chance($is_single ? 0.05 : 0.02))
	{
		push @assignments, $arbiter->{new}->() =~ s/%s/$t/gr;
		push @$kinds, 'set_new_key';
	}
	elsif ($is_single && chance(0.06))
	{
		my $other = pick(@{ $schema->{names} });
		if ($other ne $key)
		{
			push @assignments, $schema->{key}{$other}{new}->() =~ s/%s/$t/gr;
			push @$kinds, 'set_new_key';
		}
	}
	return join(', ', @assignments);
}

sub condition
{
	my ($schema, $t) = @_;
	return pick(
		"$t.n < EXCLUDED.n", "$t.v IS DISTINCT FROM EXCLUDED.v", "$t.n % 3 = " . number(3), 'EXCLUDED.n > ' . number(9), 'false', 'NULL', "$t.a IS NOT NULL AND EXCLUDED.n >= 0",
		"EXISTS (SELECT FROM src s WHERE s.k = $t.n AND s.id > 30)", 'EXCLUDED.n IN (SELECT s.k FROM src s WHERE s.id < 9)', "$t.n < (SELECT avg(x.n) + 5 FROM t x)", "($t.n, EXCLUDED.n) <> (1, 1)", "$t IS DISTINCT FROM EXCLUDED");
}

sub returning
{
	my ($schema, $t, $of_view, $kinds) = @_;
	return '' if chance(0.3);
	push @$kinds, 'returning';
	if ($schema->{narrow}) { return " RETURNING $t.id, $t.n" . (chance(0.1) ? ", $t.j" : ''); }
	if (chance(0.3))
	{
		push @$kinds, 'returning_all';
		return ' RETURNING ' . pick('*', '*', "$t.*, $t.n + 1");
	}
	my @list = some(1 + number(4),
		"$t.id", "$t.email, $t.n", "$t.n + 1 AS more", "$t AS whole", "($t).v", "upper($t.v) AS upper", "$t.a[1]", "$t.j", "$t.gkey",
		"(SELECT count(*) FROM src s WHERE s.k = $t.n) AS others", "(SELECT max(x.n) FROM t x) AS highest", "EXISTS (SELECT FROM t x WHERE x.id = $t.id) AS was_there",
		$of_view ? () : "$t.gen",
		$schema->{version} >= 180000 ? ('old.n AS old_n', 'new.n AS new_n', 'old.*', 'old.id IS NULL AS created', 'new.n - old.n AS difference', 'old AS before') : ());
	push @$kinds, 'returning_subselect' if grep { /SELECT/ } @list;
	push @$kinds, 'returning_old' if grep { /\bold\b/ } @list;
	return ' RETURNING ' . join(', ', @list);
}

# --- Upserts ------------------------------------------------------------------------

# An upsert, as a hash of sql, kinds; options are no_returning, no_view, width => most rows.
sub upsert
{
	my ($schema, %options) = @_;
	my $upsert = any_upsert($schema, %options);
	return $upsert unless $schema->{narrow} && !chance(0.1);
	# What a role may that lacks privileges on most columns.
	$upsert = any_upsert($schema, %options) while $upsert->{sql} =~ /::text\b|\b(?:a|d|j|ref|base|label|x)\b|[tc] IS DISTINCT|DEFAULT VALUES/;
	return $upsert;
}

sub any_upsert
{
	my ($schema, %options) = @_;
	my @kinds;
	my $with_target = chance(0.92);
	my $view = chance(0.1) && !$options{no_view} && !$schema->{narrow} ? pick(qw(v_plain v_check v_barrier)) : '';
	my @names = $schema->{narrow} ? grep { /^(?:email|pair|slot)$/ } @{ $schema->{names} } : @{ $schema->{names} };
	my $key = chance(0.04) && !$schema->{narrow} && !$view ? 'pk' : chance(0.3) ? 'email' : pick(@names);
	my $t = $view || 't';
	my $alias = chance(0.2) ? 'c' : '';
	push @kinds, 'alias' if $alias;
	push @kinds, 'view' if $view;
	my ($columns, $rows) = source($schema, $key, \@kinds, $options{width});
	my $is_single = grep { $_ eq 'single' } @kinds;
	my $target = "INSERT INTO $t" . ($alias ? " AS $alias" : '') . " $columns $rows ON CONFLICT";
	$t = $alias || $t;
	my $sql;
	if ($with_target)
	{
		my ($text, @more) = $key eq 'pk' ? ('(' . join(', ', some(9, @{ $schema->{pk} })) . ')') : @{ pick(@{ $schema->{key}{$key}{targets} }) };
		($text, @more) = ("ON CONSTRAINT t_by_${key}_key", 'constraint') if $key ne 'pk' && $schema->{key}{$key}{constraint} && !$view && chance(0.15);
		push @kinds, "key_$key", @more;
		$target .= " $text";
	}
	my ($names) = $columns =~ /^\((.*)\)$/;
	my $returning = $options{no_returning} ? '' : returning($schema, $t, $view, \@kinds);
	if (!$with_target || chance(0.22))
	{
		push @kinds, $with_target ? 'nothing_target' : 'nothing';
		$sql = "$target DO NOTHING$returning";
	}
	else
	{
		push @kinds, 'update';
		my $set = assignments($schema, $t, $key, $is_single, $view, \@kinds, [ split /, /, $names // '' ]);
		my $where = '';
		if (chance(0.3))
		{
			$where = ' WHERE ' . condition($schema, $t);
			push @kinds, 'where';
		}
		$sql = "$target DO UPDATE SET $set$where$returning";
	}
	return { sql => $sql, kinds => \@kinds };
}

# Rows of one statement that meet a key which another row of it has given up, or taken.
sub handed_on
{
	my ($schema) = @_;
	my ($k, $l) = some(2, 0 .. $domain - 1);
	# New each time: a key that another row has at first is checked when the statement ends.
	my $tail = '_' . fresh();
	my $again = "ON CONFLICT (email) DO UPDATE SET email = t.email || '$tail', n = EXCLUDED.n RETURNING email, n";
	my $sql = pick(
		"INSERT INTO t (email, n) VALUES ('e$k', 3), ('e$k', 4) $again",
		"INSERT INTO t (email, n) VALUES ('e$k', 3), ('e$k$tail', 4) $again",
		"INSERT INTO t (email, n) VALUES ('e$k', 3), ('e$l', 4), ('e$l', 5), ('e$k', 6) $again",
		"INSERT INTO t (email, n) SELECT 'e' || i / 2, i % 12 FROM generate_series(" . 2 * $k . ', ' . (2 * $k + 3) . ") i $again",
		(grep { $_ eq 'slot' } @{ $schema->{names} }) ? "INSERT INTO t (slot, n) VALUES ($k, 1), ($k, 2), ($l, 3) ON CONFLICT (slot) WHERE active AND slot > 0 DO UPDATE SET active = false RETURNING slot, active, n" : ());
	return { sql => $sql, kinds => ['handed_on'] };
}

sub renamed_view
{
	my ($schema) = @_;
	my $k = text_of('e', number($domain));
	my $n = number(12);
	my $sql = pick(
		"INSERT INTO v_renamed (mail, amount) VALUES ($k, $n) ON CONFLICT (mail) DO UPDATE SET amount = EXCLUDED.amount RETURNING mail, amount, computed",
		"INSERT INTO v_renamed AS x (v, mail, amount) VALUES ('V', $k, $n), ('W', 'new" . fresh() . "', $n) ON CONFLICT (mail) DO UPDATE SET (v, amount) = (EXCLUDED.v, x.amount + 1) WHERE x.amount < 20 RETURNING *",
		"INSERT INTO v_renamed (mail, amount) VALUES ($k, $n) ON CONFLICT (mail) DO NOTHING RETURNING number, mail");
	return { sql => $sql, kinds => ['renamed_view'] };
}

sub cte
{
	my ($schema) = @_;
	my $u = upsert($schema, no_returning => 1, no_view => 1);
	my $t = (grep { $_ eq 'alias' } @{ $u->{kinds} }) ? 'c' : 't';
	my @kinds = ('cte', @{ $u->{kinds} });
	my $sql = $u->{sql};
	my $what = rand();
	if ($what < 0.6)
	{
		my $all = $schema->{narrow} ? "$t.id, $t.n, $t.v" : "$t.*";
		my $of_u = "WITH u AS ($sql RETURNING $all)";
		$sql = pick(
			"$of_u SELECT u.id, u.n, u.v FROM u",
			"$of_u SELECT count(*), sum(n), min(v) FROM u",
			"$of_u SELECT s.id, s.a, u.n, u.id FROM u LEFT JOIN src s ON s.k = u.n ORDER BY u.id, s.id",
			"$of_u SELECT u.id, u.n, x.n AS before FROM u LEFT JOIN t x ON x.id = u.id ORDER BY u.id",
			"WITH u AS ($sql) SELECT count(*), sum(n) FROM t");
		if (chance(0.3))
		{
			$sql = "$of_u INSERT INTO notes SELECT u.id || ' ' || u.n || coalesce(u.v, '') FROM u RETURNING line";
			push @kinds, 'cte_insert';
		}
	}
	elsif ($what < 0.75)
	{
		my $k = number($domain);
		$sql = pick(
			"WITH s AS (SELECT 'e' || id AS email, k AS n FROM src WHERE k = " . number(12) . ') INSERT INTO t (email, n) SELECT email, n FROM s ORDER BY email ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING t.email, t.n',
			"WITH s AS MATERIALIZED (SELECT 3 AS step) INSERT INTO t (email, n) VALUES ('e$k', (SELECT step FROM s)) ON CONFLICT (email) DO UPDATE SET n = (t.n + (SELECT step FROM s)) % 50 WHERE t.n <> (SELECT step FROM s) RETURNING (SELECT step FROM s), t.n",
			"WITH old AS (SELECT id, n FROM t WHERE email = 'e$k') INSERT INTO t (email, n) SELECT 'e$k', coalesce((SELECT n + 1 FROM old), 0) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING t.n, (SELECT n FROM old)");
		return { sql => $sql, kinds => [ 'cte', 'key_email', 'update' ] };
	}
	elsif ($what < 0.9)
	{
		# Keys that others of the statement do not have.
		my ($k, $l) = some(2, 0 .. $domain - 1);
		$sql = pick(
			"WITH u AS (INSERT INTO t (email, n) VALUES ('e$k', 4) ON CONFLICT (email) DO UPDATE SET n = (t.n + EXCLUDED.n) % 50 RETURNING id, n), w AS (INSERT INTO t (email, n) SELECT 'e$l', u.n FROM u ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING id, n) SELECT u.n, w.n, w.id <> u.id FROM u, w",
			"WITH u AS (INSERT INTO t (email, n) VALUES ('e$k', 5) ON CONFLICT (email) DO NOTHING RETURNING id), w AS (INSERT INTO t (email, n) VALUES ('e$l', 6) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING n) SELECT (SELECT count(*) FROM u), (SELECT n FROM w)",
			"WITH u AS (UPDATE t SET n = (n + 1) % 50 WHERE email = 'e$l' RETURNING n) INSERT INTO t (email, n) SELECT 'e$k', n FROM u ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING email, n");
		return { sql => $sql, kinds => [ 'cte', 'cte_two', 'key_email' ] };
	}
	else
	{
		my ($k, $l) = some(2, 0 .. $domain - 1);
		$sql = pick(
			$schema->{has_child} ? () : "WITH d AS (DELETE FROM t WHERE email = 'e$k' RETURNING *) INSERT INTO t (email, n, v) SELECT email, n, 'again' FROM d ON CONFLICT (email) DO UPDATE SET v = 'conflict' RETURNING email, n, v",
			"WITH d AS (DELETE FROM t WHERE email = 'e$k' RETURNING *) INSERT INTO t (email, n, v) SELECT 'e$l', n, 'other' FROM d ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING email, n, v",
			"WITH d AS (DELETE FROM t WHERE email = 'e$k' RETURNING *) INSERT INTO t (email, n) SELECT 'e$l', count(*) FROM d ON CONFLICT (email) DO NOTHING RETURNING n");
		return { sql => $sql, kinds => [ 'cte', 'cte_delete', 'key_email' ] };
	}
	return { sql => $sql, kinds => \@kinds };
}

sub function
{
	my ($schema) = @_;
	my ($k, $n) = (number($domain), number(12));
	my $what = rand();
	return { sql => "SELECT * FROM sql_upsert('e$k', $n)", kinds => ['sql_function'] } if $what < 0.12;
	return { sql => "SELECT sql_twice('e$k')", kinds => ['sql_function'] } if $what < 0.2;
	return { sql => "SELECT sql_named('e$k', $n)", kinds => ['sql_function'] } if $what < 0.25;
	return { sql => "SELECT sql_atomic('e$k', $n)", kinds => ['sql_function'] } if $what < 0.3;
	return { sql => "SELECT attempt(" . quote_literal(upsert($schema)->{sql}) . '), attempt(' . quote_literal(upsert($schema)->{sql}) . ')', kinds => ['plpgsql'], loose => 1 } if $what < 0.45;
	return {
		sql => pick(
			"SELECT upsert_found('e$k', $n)", "SELECT upsert_found('e$k', $n)", "SELECT upsert_found('e' || i, $n) FROM generate_series($k, $k + 3) i", "SELECT get_or_create('e$k')", "SELECT x.id, upsert_found(x.email, $n), get_or_create(x.email || '_') FROM (SELECT id, email FROM t WHERE email LIKE 'e%' ORDER BY id LIMIT 3) x", "SELECT upsert_loop($k, " . number(6) . ')',
			"SELECT upsert_each($k, " . number(5) . ')', "SELECT several('e$k')", "SELECT several('e$k')",
			"DO \$\$ DECLARE x int; BEGIN INSERT INTO t (email, n) VALUES ('e$k', $n) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n WHERE t.n < 6 RETURNING n INTO x; RAISE WARNING 'found % %', FOUND, x; END \$\$"),
		kinds => ['plpgsql'] };
}

# Prepared statements: by name their arguments.
my %arguments = (
	p_up => sub { "'e" . number($domain) . "', " . number(12) },
	p_nothing => sub { "'e" . number($domain) . "', " . number(12) },
	p_where => sub { "'e" . number($domain) . "', " . number(12) },
	p_many => sub { "'{" . join(',', map { "e$_" } some(3, 0 .. $domain - 1)) . "}', " . number(12) },
	p_constraint => sub { "'e" . number($domain) . "', " . number(12) },
	p_cte => sub { "'e" . number($domain) . "', " . number(12) },
	p_any => sub { "'e" . number($domain) . "'" },
	p_view => sub { "'e" . number($domain) . "', " . number(40) });

sub prepared
{
	my ($schema) = @_;
	my @statements = (
		'p_up(text, int) AS INSERT INTO t (email, n) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET n = (t.n + $2) % 50 RETURNING id, email, n',
		'p_nothing(text, int) AS INSERT INTO t (email, n) VALUES ($1, $2) ON CONFLICT (email) DO NOTHING RETURNING n, v',
		'p_where(text, int) AS INSERT INTO t AS c (email, n) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET v = EXCLUDED.n::text WHERE c.n < $2 RETURNING c.id, c.gen',
		'p_many(text[], int) AS INSERT INTO t (email, n, r) SELECT e, $2, o FROM unnest($1) WITH ORDINALITY u(e, o) ORDER BY o ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n, d = DEFAULT RETURNING *',
		'p_cte(text, int) AS WITH u AS (INSERT INTO t (email, n) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING id, n) SELECT * FROM u',
		'p_any(text) AS INSERT INTO t (email) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id',
		'p_constraint(text, int) AS INSERT INTO t (email, n) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT t_by_email_key DO UPDATE SET n = EXCLUDED.n, v = $1 RETURNING id, n',
		'p_view(text, int) AS INSERT INTO v_check (email, n) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n RETURNING n');
	foreach my $name (grep { $_ ne 'email' } @{ $schema->{names} })
	{
		my $of = $schema->{key}{$name}{of}->('$1');
		my @columns = sort keys %$of;
		my ($target) = @{ $schema->{key}{$name}{targets}[0] };
		push @statements, "p_$name(int, int) AS INSERT INTO t (" . join(', ', @columns, 'n') . ') VALUES (' . join(', ', (map { $of->{$_} } @columns), '$2') . ") ON CONFLICT $target DO UPDATE SET n = EXCLUDED.n, v = t.v || 'p' RETURNING id, n, v";
	}
	return join('', map { "PREPARE $_;\n" } @statements);
}

sub execute
{
	my ($schema) = @_;
	my $name = pick((sort keys %arguments), map { "p_$_" } grep { $_ ne 'email' } @{ $schema->{names} });
	my $values = $arguments{$name} ? $arguments{$name}->() : number($domain) . ', ' . number(12);
	return { sql => "EXECUTE $name($values)", kinds => ['prepared'] };
}

# --- Steps ------------------------------------------------------------------------------

sub frame { return map { { sql => $_, kinds => [], frame => 1 } } @_; }

sub quietly { return frame('SET upserts.quiet = on', @_, 'RESET upserts.quiet'); }

# Changes of the table that are no upserts.
sub control
{
	my ($schema, $may_move) = @_;
	my ($k, $n) = (number($domain), number(12));
	my @statements = (
		"UPDATE t SET n = (n + 3) % 50 WHERE email = 'e$k' RETURNING id, n",
		"UPDATE t SET email = 'y' || id WHERE email = 'e$k' RETURNING id, email",
		"DELETE FROM t WHERE email = 'e$k' RETURNING id",
		"INSERT INTO t (email, n) VALUES ('e$k', $n) RETURNING id",
		"SELECT id, email, n, v FROM t WHERE email = 'e$k' FOR UPDATE");
	return frame(pick(@statements)) if !$may_move || chance(0.6);
	my @moves = ('r = (r + 10) % 40', "p = CASE p WHEN 'n' THEN 's' WHEN 's' THEN 'e' ELSE 'n' END", $schema->{always} ? () : 'id = id + 5000000');
	my @steps = quietly('UPDATE t SET ' . pick(@moves) . " WHERE id < 5000000 AND " . pick("email = 'e$k'", "n = $n", "id % 3 = 1"));
	push @{ $steps[1]{kinds} }, 'moved';
	return @steps;
}

sub statement
{
	my ($schema) = @_;
	my $what = rand();
	return upsert($schema) if $what < 0.62 || $schema->{narrow} && $what < 0.9;
	return handed_on($schema) if $what < 0.64 && !$schema->{narrow};
	return cte($schema) if $what < 0.74;
	return execute($schema) if $what < 0.84;
	return function($schema) if $what < 0.91;
	return renamed_view($schema) if $what < 0.93 && !$schema->{narrow};
	my ($k, $n) = (number($domain), number(12));
	return { sql => "INSERT INTO v_rule (email, n) VALUES ('e$k', $n)" . pick('', ' RETURNING *'), kinds => ['rule'] } if $what < 0.945 && !$schema->{narrow};
	return { sql => "INSERT INTO inbox VALUES ('e$k', $n), ('e" . number($domain) . "', $n) RETURNING *", kinds => ['trigger'] } if $what < 0.96;
	my $u = upsert($schema);
	if ($what < 0.97)
	{
		my $sql = $u->{sql} . ($u->{sql} =~ / RETURNING /s ? '' : ' RETURNING id');
		return { sql => "COPY ($sql) TO STDOUT", kinds => [ 'copy', @{ $u->{kinds} } ] };
	}
	if ($what < 0.98)
	{
		my $options = pick('', 'VERBOSE, ', 'FORMAT JSON, ');
		return { sql => "EXPLAIN (ANALYZE, ${options}COSTS OFF, TIMING OFF, SUMMARY OFF) $u->{sql} \\g /dev/null\n\\set ROW_COUNT 0\n", kinds => [ 'analyzed', @{ $u->{kinds} } ] };
	}
	# Sent as one message, in one transaction.
	return { sql => "$u->{sql} \\; " . upsert($schema, width => 1)->{sql}, kinds => [ 'multi', @{ $u->{kinds} } ] };
}

sub only_partitioned { my ($sql) = @_; return { sql => "\\if :partitioned\n$sql;\n\\endif\n", kinds => ['ours'], frame => 1, ours => 1 }; }

# Changes of the schema, with statements in between, that leave it as it was.
sub ddl
{
	my ($schema) = @_;
	my @between = map { statement($schema) } 1 .. 2 + number(3);
	my $trigger = @{ $schema->{triggers} } ? pick(@{ $schema->{triggers} }) : undef;
	my $k = number($domain);
	my $z = { sql => "INSERT INTO t (email, z) VALUES ('e$k', 6) ON CONFLICT (email) DO UPDATE SET z = t.z + EXCLUDED.z RETURNING *", kinds => [ 'single', 'update', 'key_email' ] };
	my $name = pick(grep { $_ ne 'email' } @{ $schema->{names} });
	my %more = (range => 'FOR VALUES FROM (40) TO (50)', list => "FOR VALUES IN ('more')", sub => "FOR VALUES IN ('more')");
	my $more = $more{ $schema->{kind} };
	return @{ pick(
		$schema->{globals}{$name}
		? [ only_partitioned("REINDEX INDEX t_by_${name}_key"), @between, only_partitioned("SELECT FROM index_table.vacuum('t_by_${name}_key')"), statement($schema) ]
		: [ only_partitioned("SELECT FROM index_table.repair('t_by_$name')"), @between, only_partitioned("SELECT FROM index_table.vacuum('t_by_$name')"), statement($schema) ],
		$more ? [ only_partitioned("CREATE TABLE t_part_more PARTITION OF t $more"), @between, only_partitioned('DROP TABLE t_part_more'), statement($schema) ] : (),
		[ frame('ALTER TABLE t ADD COLUMN z int DEFAULT 5'), @between, $z, frame('ALTER TABLE t DROP COLUMN z'), statement($schema) ],
		$trigger ? [ frame("ALTER TABLE t DISABLE TRIGGER $trigger"), @between, frame("ALTER TABLE t ENABLE TRIGGER $trigger"), statement($schema) ] : (),
		[ frame("CREATE TRIGGER more AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION log_row()"), @between, frame('DROP TRIGGER more ON t'), statement($schema) ],
		[ frame('CREATE INDEX more ON t (n, v)'), @between, frame('DROP INDEX more'), statement($schema) ],
		[ frame('ANALYZE t'), @between ])
	};
}

# Statements that belong together: in a transaction or each in its own, under some role.
sub batch
{
	my ($schema, $size) = @_;
	my $role = pick(('') x 14, ('upserts_reader') x 4, 'upserts_columns', 'upserts_columns');
	local $schema->{narrow} = $role eq 'upserts_columns' && !chance(0.1);
	my $level = chance(0.55) ? pick('', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE') : undef;
	my $is_deferred = defined $level && chance(0.1); # moved rows would be told of as what they are then
	my @all = (
		$role eq 'upserts_reader' ? 'reader' : (), $role eq 'upserts_columns' ? 'columns' : (),
		($level // '') =~ /REPEATABLE/ ? 'repeatable_read' : (), ($level // '') =~ /SERIALIZABLE/ ? 'serializable' : ());
	# About half of the keys are there.
	my @steps = quietly("DELETE FROM t WHERE v = 'many' OR slot > 100 AND slot < 400 OR email ~ '^(e[0-9]{3,}|s)' OR right(email, 1) = '_'", 'DELETE FROM t WHERE id % 7 IN (' . join(', ', some(2, 0 .. 6)) . ')', refill(number(2)), 'TRUNCATE notes, inbox');
	push @steps, frame('SET plan_cache_mode = ' . pick(qw(auto auto force_generic_plan force_custom_plan)));
	push @steps, frame("SET ROLE $role") if $role;
	my $is_replica = !$role && chance(0.05); # nobody's triggers, nor foreign keys
	push @steps, frame('SET session_replication_role = replica') if $is_replica;
	push @all, 'replica' if $is_replica;
	push @steps, frame("BEGIN$level", $is_deferred ? 'SET CONSTRAINTS ALL DEFERRED' : ()) if defined $level;
	my @savepoints;
	my $count = 0;
	while ($count < $size)
	{
		my @more = statement($schema);
		if (!$role && !defined $level && chance(0.03)) { @more = ddl($schema); }
		elsif (!$schema->{narrow} && chance(0.08)) { @more = control($schema, !$is_deferred && !$role); }
		elsif (defined $level && chance(0.08))
		{
			push @savepoints, 's' . @savepoints;
			@more = frame("SAVEPOINT $savepoints[-1]");
		}
		elsif (@savepoints && chance(0.15))
		{
			my $which = number(scalar @savepoints);
			@savepoints = @savepoints[ 0 .. $which ];
			@more = frame("ROLLBACK TO $savepoints[$which]");
			push @{ $more[0]{kinds} }, 'savepoint';
		}
		foreach (grep { !$_->{frame} } @more)
		{
			push @{ $_->{kinds} }, @all;
			$count++;
		}
		push @steps, @more;
	}
	push @steps, frame(pick('COMMIT', 'COMMIT', 'ROLLBACK')) if defined $level;
	push @steps, frame('RESET ROLE', 'RESET plan_cache_mode', 'RESET session_replication_role');
	push @steps, frame('ALTER TABLE t DROP COLUMN IF EXISTS z') if grep { $_->{sql} =~ /ADD COLUMN z/ } @steps;
	$_->{next_id} = $next_id += 50 foreach @steps;
	return @steps;
}

1;
