# Random SELECTs over base tables of RandomTables, whose results do not depend on the plan.
#
#   my $schema = RandomQueries::generate(%features);      # as RandomTables::generate(), and
#   $schema->{others}         SQL names of tables and views to join with
#   RandomQueries::learn($schema, $output_of_learn_sql)   # after set-up: types and values
#   my $query = RandomQueries::query($schema);
#
# A query is a hash of
#   statements   what is executed, in order, without semicolons; each may return rows
#   explain      what EXPLAIN is to be asked about; undef: cannot be asked
#   order        'rows': the rows are compared as they come; 'first': sorted, and the first column
#                as it comes; '': sorted
#
# Values that are equal and not the same (1.0 and 1.00) are shown in one form (canonical()) where a
# plan may choose among them.
package RandomQueries;

use strict;
use warnings;

use IndexTableTest qw(quote_literal);
use RandomTables qw(chance pick some value id_value row_values);

# --- The schema ---------------------------------------------------------------------

my $functions = q{
CREATE FUNCTION same(v anyelement) RETURNS anyelement IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN v; END';
CREATE FUNCTION stable_same(v anyelement) RETURNS anyelement STABLE LANGUAGE plpgsql AS 'BEGIN RETURN v; END';
CREATE FUNCTION volatile_same(v anyelement) RETURNS anyelement VOLATILE LANGUAGE plpgsql AS 'BEGIN RETURN v; END';
CREATE FUNCTION inlined_same(v anyelement) RETURNS anyelement STABLE LANGUAGE sql AS 'SELECT v';

-- A query in a loop of plpgsql, and in a cursor that goes to and fro.
CREATE FUNCTION run_loop(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN EXECUTE query LOOP RETURN NEXT r::text; END LOOP;
END $$;
CREATE FUNCTION run_cursor(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE c refcursor; r record;
BEGIN
	OPEN c SCROLL FOR EXECUTE query;
	FOR i IN 1 .. 3 LOOP
		FETCH c INTO r; RETURN NEXT i || coalesce(r::text, 'end');
	END LOOP;
	FETCH RELATIVE -2 FROM c INTO r; RETURN NEXT 'back' || coalesce(r::text, 'end');
	FETCH LAST FROM c INTO r; RETURN NEXT 'last' || coalesce(r::text, 'end');
	FETCH PRIOR FROM c INTO r; RETURN NEXT 'prior' || coalesce(r::text, 'end');
	FETCH FIRST FROM c INTO r; RETURN NEXT 'first' || coalesce(r::text, 'end');
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		RETURN NEXT r::text;
	END LOOP;
	CLOSE c;
END $$;

-- The rows of a query, in an order of their own.
CREATE FUNCTION rows_of(setting text, query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE result text[];
BEGIN
	PERFORM set_config('index_table.enable_scan', setting, true);
	EXECUTE 'SELECT array_agg(q::text ORDER BY q::text COLLATE "C") FROM (' || query || ') q' INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	PERFORM nextval('failed_probes');
	RETURN ARRAY[SQLSTATE, CASE WHEN SQLSTATE LIKE 'XX%' THEN setting || SQLERRM END];
END $$;
CREATE FUNCTION stable_rows_of(setting text, query text) RETURNS text[] STABLE LANGUAGE plpgsql AS $$
DECLARE result text[];
BEGIN
	PERFORM set_config('index_table.enable_scan', setting, true);
	EXECUTE 'SELECT array_agg(q::text ORDER BY q::text COLLATE "C") FROM (' || query || ') q' INTO result;
	RETURN result;
END $$;

-- Indexes of all access methods on an index table, where its columns allow them.
CREATE FUNCTION further_indexes(name text, seed float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE c record; method text; definition text;
BEGIN
	PERFORM setseed(seed);
	FOR c IN SELECT quote_ident(attname) AS name, typcategory AS category FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
	          WHERE attrelid = to_regclass(name) AND attnum > 0 AND NOT attisdropped ORDER BY attnum LOOP
		CONTINUE WHEN random() < 0.5;
		method := (ARRAY['btree', 'hash', 'brin', 'gist', 'spgist', 'gin'])[1 + floor(random() * 6)];
		IF c.category = 'A' THEN method := 'gin'; END IF;
		CONTINUE WHEN c.name = 'big' AND method NOT IN ('gin', 'hash'); -- its values are too long
		definition := CASE WHEN c.category <> 'S' OR random() < 0.7 THEN c.name WHEN random() < 0.5 THEN format('lower(%s)', c.name) ELSE format('left(%s, 2)', c.name) END;
		definition := definition || CASE
			WHEN method IN ('gin', 'gist') AND c.category = 'S' AND random() < 0.8 THEN format(' %s_trgm_ops', method)
			WHEN method = 'btree' THEN (ARRAY['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])[1 + floor(random() * 4)] ELSE '' END;
		IF method IN ('btree', 'brin', 'gist') AND random() < 0.4 THEN
			definition := definition || (SELECT ', ' || quote_ident(attname) FROM pg_attribute
			                              WHERE attrelid = to_regclass(name) AND attnum > 0 AND NOT attisdropped AND attname <> 'big' ORDER BY random() LIMIT 1);
		END IF;
		definition := format('CREATE INDEX ON %s USING %s (%s)%s', name, method, definition,
			CASE WHEN random() < 0.15 THEN format(' WHERE %s IS NOT NULL', c.name) ELSE '' END);
		BEGIN
			EXECUTE definition;
		EXCEPTION WHEN OTHERS THEN
			NULL; -- a type without such an operator class
		END;
	END LOOP;
END $$;

-- A query in which nothing may come between: off and force must agree.
CREATE TABLE probe (number serial, query text);
CREATE SEQUENCE probes;
CREATE SEQUENCE failed_probes;
CREATE FUNCTION report_difference(place text, query text, expected text[], actual text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'DIFFERENCE % : % : missing % extra %', place, query,
		left((SELECT array_agg(v) FROM (SELECT unnest(expected) EXCEPT ALL SELECT unnest(actual)) s(v))::text, 600),
		left((SELECT array_agg(v) FROM (SELECT unnest(actual) EXCEPT ALL SELECT unnest(expected)) s(v))::text, 600);
END $$;
CREATE FUNCTION probe_one(place text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE turn int := nextval('probes'); chosen text; expected text[]; actual text[];
BEGIN
	SELECT query INTO STRICT chosen FROM probe WHERE number = 1 + turn % (SELECT count(*) FROM probe);
	expected := rows_of('off', chosen);
	actual := rows_of('force', chosen);
	IF expected IS DISTINCT FROM actual THEN PERFORM report_difference(place, chosen, expected, actual); END IF;
	RETURN true;
END $$;
-- With the snapshot of the calling statement.
CREATE FUNCTION stable_probe(place text) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
DECLARE turn int := nextval('probes'); chosen text; expected text[]; actual text[];
BEGIN
	SELECT query INTO STRICT chosen FROM probe WHERE number = 1 + turn % (SELECT count(*) FROM probe);
	expected := stable_rows_of('off', chosen);
	actual := stable_rows_of('force', chosen);
	IF expected IS DISTINCT FROM actual THEN PERFORM report_difference(place, chosen, expected, actual); END IF;
	RETURN true;
END $$;
CREATE FUNCTION probing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() < 2 AND random() < 0.1 THEN
		PERFORM probe_one(format('%s %s %s trigger', TG_WHEN, TG_OP, TG_LEVEL));
	END IF;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
-- A loop over a query whose rows are changed meanwhile, then undone: off and force must agree.
CREATE FUNCTION loop_and_change(query text, VARIADIC changes text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE r record; expected text[]; actual text[]; setting text; rows text[]; number int;
BEGIN
	FOREACH setting IN ARRAY ARRAY['off', 'force'] LOOP
		BEGIN
			rows := '{}'; number := 0;
			PERFORM set_config('index_table.enable_scan', setting, true);
			FOR r IN EXECUTE query LOOP
				rows := rows || r::text;
				number := number + 1;
				IF number <= cardinality(changes) THEN
					PERFORM set_config('index_table.enable_scan', 'off', true);
					BEGIN
						EXECUTE changes[number];
					EXCEPTION WHEN OTHERS THEN NULL;
					END;
				END IF;
			END LOOP;
			RAISE EXCEPTION USING ERRCODE = 'UN001';
		EXCEPTION WHEN SQLSTATE 'UN001' THEN
			rows := ARRAY(SELECT v FROM unnest(rows) v ORDER BY v COLLATE "C");
		WHEN OTHERS THEN
			rows := ARRAY[SQLSTATE, CASE WHEN SQLSTATE LIKE 'XX%' THEN setting || SQLERRM END];
		END;
		IF setting = 'off' THEN expected := rows; ELSE actual := rows; END IF;
	END LOOP;
	IF expected IS DISTINCT FROM actual THEN PERFORM report_difference('loop', query, expected, actual); END IF;
END $$;
};

# Base tables that are partitioned, each with index tables of all kinds, and tables and views to
# join them with.
sub generate
{
	my (%features) = @_;
	my $setup = "SET client_min_messages = error;\nCREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');\nCREATE DOMAIN tag_list AS text[];\n";
	$setup .= "CREATE EXTENSION $_;\n" foreach grep { $features{$_} } qw(citext pg_trgm btree_gist);
	$setup .= "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);\n"
	  if $features{icu};
	$setup .= "CREATE EXTENSION index_table;\n$RandomTables::helpers$functions";
	my $finish = "SET client_min_messages = error;\n";
	my (@bases, @tables);
	my $prepare = '';
	foreach my $kind (qw(hash list range), pick('plain', 'bag'))
	{
		my ($parent) = chance(0.4) ? grep { $_->{kind} eq 'hash' } @bases : ();
		my $name = $kind eq 'list' ? '"List Base"' : "${kind}_base";
		my $base = RandomTables::make_base($name, $kind, $parent, %features);
		push @bases, $base;
		$setup .= $base->{create};
		$setup .= "CREATE INDEX ON $name (" . pick('b', 'lower(a)', 'c, b', 'e') . ");\n" if chance(0.5);
		my @own = map { RandomTables::make_index_table($base, $_, $_ <= 2) } 1 .. ($kind =~ /plain|bag/ ? 3 : 8);
		push @tables, @own;
		$base->{own_tables} = \@own;
		foreach my $table (@own)
		{
			$table->{create} .= "SELECT further_indexes(" . quote_literal($table->{name}) . ', ' . sprintf('%.4f', rand()) . ");\n" if chance(0.6);
			if (chance(0.5)) { $setup .= $table->{create}; }
			else { $finish .= $table->{create}; }
		}
		my @columns = @{ $base->{input_columns} };
		my @given = grep { !/^(u\w+|pid)$/ } @columns;
		my $rows = $kind =~ /plain|bag/ ? 12 : pick(15, 40, 70, 110);
		$base->{numbers} = 200 unless $kind eq 'bag';
		$setup .= "INSERT INTO $name (" . join(', ', @given) . ') VALUES '
		  . join(",\n", map { my $row = $_; '(' . join(', ', map { $_ eq 'id' ? id_value($base, $row) : $_ eq 'x' && chance(0.6) ? "'y'" : value($base, $_) } @given) . ')' } 1 .. $rows)
		  . ";\n";
		$setup .= "UPDATE $name SET uniq = s.n, ucode = 'u' || s.n, ucost = s.n + 0.25, utags = ARRAY[s.n, 10000 + s.n]"
		  . " FROM (SELECT tableoid AS leaf, ctid AS place, row_number() OVER () AS n FROM $name) s WHERE $name.tableoid = leaf AND $name.ctid = place AND s.n % 3 < 2;\n";
		$setup .= "ALTER TABLE $name DROP COLUMN junk2;\n";
		$finish .= RandomTables::make_triggers($base);
		$finish .= pick('', "ANALYZE $name;\n", "VACUUM ANALYZE $name;\n");
		$finish .= pick('', map({ "VACUUM ANALYZE $_->{name};\n" } @own), "VACUUM;\n", "ANALYZE;\n");
		$prepare .= RandomTables::prepared_statements($base);
	}
	my @partitioned = grep { $_->{kind} !~ /plain|bag/ } @bases;
	$finish .= "CREATE TABLE other (k int, w text, n numeric, day date, r int);\n"
	  . "INSERT INTO other SELECT i % 13 - 3, (ARRAY['a', 'b', 'ZOE', 'x', NULL])[1 + i % 5], (i % 4) + 0.50, date '2020-02-25' + i % 9, i % 40 FROM generate_series(1, 23) i;\n"
	  . pick('', "CREATE INDEX ON other (k);\n") . pick('', "ANALYZE other;\n")
	  . "CREATE TABLE empty (LIKE other);\n";
	# Columns that views give to their rows.
	my @common = qw(region r a b c e g x);
	my $list = join(', ', @common);
	$finish .= "CREATE VIEW all_bases AS " . join(' UNION ALL ', map { "SELECT $list, '$_->{kind}' AS kind FROM $_->{name}" } @partitioned) . ";\n";
	$finish .= "CREATE VIEW some_rows" . pick('', ' WITH (security_barrier)') . " AS SELECT $list, t FROM $partitioned[0]{name} WHERE b > -2;\n";
	$finish .= "CREATE VIEW grouped AS SELECT b, count(*) AS n, min(r) AS least FROM $partitioned[1]{name} GROUP BY b;\n";
	# Who sees some rows of one table only, and may not read index tables or partitions.
	$finish .= "DO \$\$ BEGIN CREATE ROLE query_reader; EXCEPTION WHEN duplicate_object THEN NULL; END \$\$;\n"
	  . 'GRANT SELECT ON ' . join(', ', map({ $_->{name} } @bases), 'other, empty, all_bases, some_rows, grouped') . " TO query_reader;\n"
	  . "ALTER TABLE $partitioned[0]{name} ENABLE ROW LEVEL SECURITY;\n"
	  . "CREATE POLICY some_rows ON $partitioned[0]{name} FOR SELECT TO query_reader USING ("
	  . pick('b > 0', "x = 'y' OR b = 2", "region IN ('n', 's', 'e')", 'b IN (SELECT k FROM other)', "lower(a) <> 'a'") . ");\n";
	return {
		setup => $setup,
		finish => $finish,
		prepare => $prepare,
		bases => \@bases,
		partitioned => \@partitioned,
		common => \@common,
		tables => \@tables,
		has_distances => $features{pg_trgm} && $features{btree_gist}
	};
}

# --- What may be asked about ----------------------------------------------------------

# An operand is a hash of
#   sql     an expression over the alias "b"
#   type    its type, learnt
#   values  literals of some of its values, learnt
#   elements  for arrays: literals of elements
sub operands
{
	my ($base) = @_;
	my @found = map { { sql => "b.$_" } } grep { $_ ne 'big' } @{ $base->{columns} };
	my %known = map { $_->{sql} => 1 } @found;
	my @keys;
	foreach my $table (@{ $base->{own_tables} })
	{
		foreach my $part (@{ $table->{key} })
		{
			if ($part =~ /m\.v/)
			{
				my ($array) = $table->{elements} =~ /FROM unnest\((.*)\) WITH ORDINALITY/;
				push @keys, $array if $array;
				next;
			}
			push @keys, $part;
		}
	}
	foreach my $key (@keys)
	{
		next if $known{$key}++;
		push @found, { sql => $key };
	}
	my %is_key = map { $_ => 1 } @keys;
	my %is_first;
	foreach my $table (@{ $base->{own_tables} })
	{
		my ($array) = ($table->{elements} // '') =~ /FROM unnest\((.*)\) WITH ORDINALITY/;
		$table->{first} = $table->{key}[0] =~ /m\.v/ ? $array // '' : $table->{key}[0];
		$is_first{ $table->{first} } = 1;
	}
	$_->{is_first} = $is_first{ $_->{sql} } foreach @found;
	$_->{is_key} = $is_key{ $_->{sql} } foreach @found;
	push @found, map { { sql => $_ } } ('(b.b + 1)', 'length(b.a)', 'upper(b.a)', '(b.c * 2)');
	return \@found;
}

sub learn_sql
{
	my ($schema) = @_;
	my $sql = '';
	foreach my $number (0 .. $#{ $schema->{bases} })
	{
		my $base = $schema->{bases}[$number];
		$base->{operands} = operands($base);
		foreach my $i (0 .. $#{ $base->{operands} })
		{
			my $expr = $base->{operands}[$i]{sql};
			$sql .= "SELECT '$number $i ' || min(type) || ' ' || coalesce(string_agg(DISTINCT v, '\x02' ORDER BY v), '')"
			  . " FROM (SELECT DISTINCT replace(pg_typeof($expr)::text, ' ', '_') AS type, quote_literal(($expr)::text) COLLATE \"C\" AS v, md5(($expr)::text) AS h FROM $base->{name} b ORDER BY h LIMIT 15) s;\n";
		}
	}
	return $sql;
}

sub learn
{
	my ($schema, $output) = @_;
	foreach my $line (split /\n/, $output)
	{
		my ($number, $i, $type, $values) = split / /, $line, 4;
		my $operand = $schema->{bases}[$number]{operands}[$i];
		$type =~ s/_/ /g unless $type eq 'tag_list';
		$operand->{type} = $type;
		$operand->{values} = [ split /\x02/, $values // '' ];
		$operand->{values} = ['NULL'] unless @{ $operand->{values} };
		$operand->{is_array} = $type =~ /\[\]|tag_list/;
		if ($operand->{is_array})
		{
			my %elements;
			foreach my $value (@{ $operand->{values} })
			{
				(my $inner = $value) =~ s/^E?'\{+|\}+'$//g;
				next if $inner =~ /["\\{]/;
				$elements{"'$_'"} = 1 foreach grep { length && $_ ne 'NULL' } split /,/, $inner;
			}
			$operand->{elements} = [ sort keys %elements ];
			$operand->{elements} = ["'1'"] unless @{ $operand->{elements} };
			$operand->{element_type} = $type eq 'tag_list' ? 'text' : $type =~ s/\[\]//r;
		}
		my $sql = $operand->{sql};
		my $id_type = $schema->{bases}[$number]{types}{id};
		my $pid_type = $schema->{bases}[$number]{types}{pid} // '';
		my $column = $sql =~ /^b\.(\w+)$/ ? $1 : '';
		my $declared = $schema->{bases}[$number]{types}{$column} // '';
		$operand->{caseless} = $declared =~ /caseless/ || $type eq 'citext' || $sql =~ /\bb\.t\b(?! COLLATE)/;
		$operand->{is_text} = $type =~ /^(text|character varying|citext|name|character)$/;
		$operand->{is_number} = $type =~ /^(integer|bigint|numeric|double precision)$/;
		$operand->{is_long} = $column =~ /^(id|pid|big)$/ && $type eq 'text';
	}
	foreach my $base (@{ $schema->{bases} })
	{
		$base->{operands} = [ grep { $_->{type} } @{ $base->{operands} } ];
		$base->{keys} = [ grep { $_->{is_key} } @{ $base->{operands} } ];
		$base->{firsts} = [ grep { $_->{is_first} } @{ $base->{operands} } ];
	}
	return;
}

# --- Expressions -----------------------------------------------------------------------

my $parameters; # of the query being made, where it is to be prepared
our $focus; # an index table whose key is to be asked about more often than others

sub on
{
	my ($alias, $sql) = @_;
	$sql =~ s/(?<![\w'"\$])b\.(?=[\w"])/$alias./g;
	return $sql;
}

sub operand
{
	my ($base) = @_;
	if ($focus && $focus->{base} eq $base->{name} && chance(0.7))
	{
		my @keys = grep { $_->{sql} eq $focus->{first} } @{ $base->{operands} };
		return $keys[0] if @keys;
	}
	return pick(@{ $base->{firsts} }) if @{ $base->{firsts} } && chance(0.55);
	return pick(@{ $base->{keys} }) if @{ $base->{keys} } && chance(0.5);
	return pick(@{ $base->{operands} });
}

# A value to compare an operand with.
sub constant
{
	my ($operand, $list, $type) = @_;
	my $literal = pick(@{ $list // $operand->{values} });
	$literal = 'NULL' if chance(0.01);
	$type //= $operand->{type};
	if ($parameters && chance(0.6))
	{
		push @$parameters, $literal;
		return '$' . @$parameters . "::$type";
	}
	my $what = rand();
	return $literal if $what < 0.6 && $operand->{type} !~ /json|\[\]|tag/;
	return "(SELECT $literal\::$type)" if $what < 0.66;
	return pick('same', 'stable_same', 'volatile_same', 'inlined_same') . "($literal\::$type)" if $what < 0.74 && $type ne 'tag_list';
	if ($operand->{is_number} && $what < 0.9 && $literal =~ /^'-?[\d.]+'$/)
	{
		return "$literal\::" . pick('numeric', 'float8');
	}
	return "$literal\::timestamp" if $type eq 'date' && $what < 0.85;
	return "$literal\::text" if $type =~ /character varying|name/ && $what < 0.9;
	return "$literal\::$type";
}

sub plain_literals
{
	my ($operand, $count) = @_;
	return join(', ', map { chance(0.04) ? 'NULL' : pick(@{ $operand->{values} }) } 1 .. $count);
}

sub array_atom
{
	my ($operand, $sql) = @_;
	my $type = $operand->{element_type};
	my $element = sub { constant({ type => $type, values => $operand->{elements}, is_number => 0 }) };
	my $what = rand();
	return $element->() . " = ANY ($sql)" if $what < 0.35;
	my $typed = sub {
		my $array = 'ARRAY[' . join(', ', map { pick(@{ $operand->{elements} }) } 1 .. $_[0]) . "]::$type" . '[]';
		return $array;
	};
	return "$sql @> " . $typed->(1) if $what < 0.5;
	return "$sql @> " . $typed->(2) if $what < 0.57;
	return $typed->(1) . " <@ $sql" if $what < 0.64;
	return "$sql && " . $typed->(2) if $what < 0.7;
	return "EXISTS (SELECT FROM unnest($sql) u(v) WHERE u.v = " . $element->() . ')' if $what < 0.77;
	return $element->() . " = ALL ($sql)" if $what < 0.8;
	return $element->() . " <> ANY ($sql)" if $what < 0.82;
	return "NOT (" . $element->() . " = ANY ($sql))" if $what < 0.86;
	return "$sql = " . pick(@{ $operand->{values} }) . "::$operand->{type}" if $what < 0.93 && $operand->{type} ne 'tag_list';
	return "$sql IS " . pick('', 'NOT ') . 'NULL';
}

sub atom
{
	my ($alias, $base, $operand) = @_;
	$operand //= operand($base);
	my $sql = on($alias, $operand->{sql});
	return array_atom($operand, $sql) if $operand->{is_array};
	my $value = sub { constant($operand) };
	if ($operand->{type} eq 'boolean')
	{
		return pick($sql, "NOT $sql", "$sql IS TRUE", "$sql IS NOT TRUE", "$sql = true", "$sql IS FALSE", "$sql IS UNKNOWN", "$sql <> false");
	}
	my $what = rand();
	return "$sql = " . $value->() if $what < 0.28;
	return $value->() . " = $sql" if $what < 0.32;
	return "$sql " . pick('<', '<=', '>', '>=') . ' ' . $value->() if $what < 0.42;
	return "$sql > " . $value->() . " AND $sql < " . $value->() if $what < 0.45;
	return "$sql BETWEEN " . $value->() . ' AND ' . $value->() if $what < 0.5;
	return "$sql IN (" . plain_literals($operand, 1 + int(rand(4))) . ')' if $what < 0.6;
	return "$sql = ANY (ARRAY[" . plain_literals($operand, 1 + int(rand(4))) . "]::$operand->{type}" . '[])' if $what < 0.66;
	return "$sql NOT IN (" . plain_literals($operand, 1 + int(rand(3))) . ')' if $what < 0.68;
	return "$sql <> " . $value->() if $what < 0.7;
	return "$sql IS " . pick('', 'NOT ') . 'NULL' if $what < 0.77;
	return "$sql IS " . pick('', 'NOT ') . 'DISTINCT FROM ' . $value->() if $what < 0.8;
	return "($sql = " . $value->() . " OR $sql " . pick('=', '=', '>', 'IS NULL AND true OR ' . $sql . ' =') . ' ' . $value->() . ')' if $what < 0.86;
	if ($operand->{is_text} && !$operand->{caseless} && chance(0.5))
	{
		my $part = sub {
			my ($chars) = pick(@{ $operand->{values} }) =~ /(\w{1,4})\w*'?$/;
			return $chars // 'a';
		};
		my $which = rand();
		return "$sql LIKE " . constant({ %$operand, values => [ map { "'%" . $part->() . "%'" } 1 .. 3 ] }) if $which < 0.5 && $operand->{type} eq 'text';
		return "$sql LIKE ANY (ARRAY['%" . $part->() . "%', '" . $part->() . "%', NULL])" if $which < 0.6;
		return "$sql " . pick('LIKE', 'ILIKE', 'NOT LIKE') . " '%" . $part->() . "%" . pick('', $part->()) . "'" if $which < 0.85;
		return "($sql LIKE '%" . $part->() . "%' OR $sql LIKE '%" . $part->() . "')" if $which < 0.93;
		return "$sql ~ '" . $part->() . "'";
	}
	if ($operand->{is_text} && !$operand->{caseless})
	{
		my $prefix = pick('a', 'A', 'b', 'Z', 'Zo', 'u1', 'x', 'k1', '');
		return "$sql LIKE '$prefix%'" if $what < 0.9;
		return "$sql ILIKE '$prefix%'" if $what < 0.92;
		return "$sql ~ '^$prefix'" if $what < 0.94;
		return "$sql COLLATE \"C\" >= " . pick(@{ $operand->{values} }) if $what < 0.96 && $operand->{type} eq 'text';
	}
	my $other = operand($base);
	return "$sql " . pick('=', '<') . ' ' . on($alias, $other->{sql}) if $other->{type} eq $operand->{type} && !$operand->{caseless} && !$other->{caseless};
	return "$sql " . pick('=', '>=') . ' (SELECT ' . pick('min', 'max') . '(' . on('z', $operand->{sql}) . ") FROM $base->{name} z WHERE " . simple('z', $base) . ')'
	  if $operand->{type} =~ /^(integer|bigint|numeric|text|date|timestamp with time zone)$/;
	return "$sql = " . $value->();
}

# Conditions on the columns of a composite key, as rows.
sub row_atom
{
	my ($alias, $base) = @_;
	my ($table) = some(1, grep { @{ $_->{key} } > 1 && !grep { /m\.v|IS/ } @{ $_->{key} } } @{ $base->{own_tables} });
	return atom($alias, $base) unless $table;
	my %operands = map { $_->{sql} => $_ } @{ $base->{operands} };
	my @parts = grep { $_ } map { $operands{$_} } @{ $table->{key} };
	return atom($alias, $base) unless @parts > 1;
	@parts = @parts[ 0 .. (chance(0.7) ? 1 : $#parts) ];
	my $left = '(' . join(', ', map { on($alias, $_->{sql}) } @parts) . ')';
	my $right = sub { '(' . join(', ', map { pick(@{ $_->{values} }) . "::$_->{type}" } @parts) . ')' };
	my $what = rand();
	return "$left " . pick('<', '<=', '>', '>=', '=') . ' ' . $right->() if $what < 0.6;
	return "$left IN (" . join(', ', $right->(), $right->()) . ')' if $what < 0.75;
	my @all = map { on($alias, $_->{sql}) . ' = ' . pick(@{ $_->{values} }) } @parts;
	$all[-1] =~ s/ = / >= /;
	return join(' AND ', @all);
}

# Something that the predicate of a partial index table may follow from.
sub predicate_atom
{
	my ($alias, $base) = @_;
	my ($table) = some(1, grep { $_->{predicate} } @{ $base->{own_tables} });
	return atom($alias, $base) unless $table;
	my $predicate = on($alias, $table->{predicate});
	$predicate =~ s/> 3/pick('> 3', '> 5', '= 7', '= 4')/e;
	$predicate =~ s/<> 'common'/pick("<> 'common'", "= 'y'", "IN ('y', 'bump')")/e;
	$predicate =~ s/IN \('n', 'z'\)/pick("IN ('n', 'z')", "= 'n'")/e;
	my ($part) = grep { !/m\.v/ } @{ $table->{key} };
	my ($operand) = grep { $part && $_->{sql} eq $part } @{ $base->{operands} };
	return $predicate unless $operand && chance(0.7);
	return "$predicate AND (" . atom($alias, $base, $operand) . ')';
}

sub simple
{
	my ($alias, $base) = @_;
	my $what = rand();
	return row_atom($alias, $base) if $what < 0.1;
	return predicate_atom($alias, $base) if $what < 0.2;
	return atom($alias, $base);
}

sub condition
{
	my ($alias, $base, $depth) = @_;
	my $what = rand();
	return '(' . simple($alias, $base) . ')' if $depth <= 0 || $what < 0.5;
	return '(' . condition($alias, $base, $depth - 1) . ' AND ' . condition($alias, $base, $depth - 1) . ')' if $what < 0.72;
	return '(' . condition($alias, $base, $depth - 1) . ' OR ' . condition($alias, $base, $depth - 1) . ')' if $what < 0.84;
	return '(NOT ' . condition($alias, $base, $depth - 1) . ')' if $what < 0.87;
	return '(' . condition($alias, $base, 0) . ' IS ' . pick('NOT TRUE', 'TRUE', 'UNKNOWN') . ')' if $what < 0.89;
	return '(' . subquery_atom($alias, $base, $depth - 1) . ')';
}

# An equality of two tables' columns or expressions, of one type.
sub equality
{
	my ($left, $left_base, $right, $right_base) = @_;
	foreach (1 .. 8)
	{
		my $first = operand($left_base);
		my @second = grep { $_->{type} eq $first->{type} && ($_->{caseless} // 0) eq ($first->{caseless} // 0) } @{ $right_base->{operands} };
		next if !@second || $first->{type} eq 'boolean';
		my ($same) = grep { $_->{sql} eq $first->{sql} } @second;
		my $second = $same && chance(0.6) ? $same : pick(@second);
		next if ($first->{sql} . $second->{sql}) =~ /COLLATE/ && $first->{sql} ne $second->{sql};
		next if ($first->{caseless} || $second->{caseless}) && $first->{sql} ne $second->{sql};
		return on($left, $first->{sql}) . ' = ' . on($right, $second->{sql});
	}
	return "$left.b = $right.b";
}

sub any_base { my ($schema) = @_; return pick(@{ $schema->{partitioned} }, @{ $schema->{partitioned} }, @{ $schema->{bases} }); }

my $current; # the schema

sub subquery_atom
{
	my ($alias, $base, $depth) = @_;
	my $other = any_base($current);
	my $inner = pick('i', 'j', 'k') . int(rand(100));
	my $what = rand();
	my $not = pick('', 'NOT ');
	return "${not}EXISTS (SELECT FROM $other->{name} $inner WHERE " . equality($inner, $other, $alias, $base)
	  . (chance(0.7) ? ' AND ' . condition($inner, $other, $depth) : '') . ')'
	  if $what < 0.45;
	my ($left, $right) = split / = /, equality($alias, $base, $inner, $other), 2;
	return "$left ${not}IN (SELECT $right FROM $other->{name} $inner" . (chance(0.8) ? ' WHERE ' . condition($inner, $other, $depth) : '') . ')'
	  if $what < 0.75;
	return "$left = ANY (ARRAY(SELECT $right FROM $other->{name} $inner WHERE " . condition($inner, $other, $depth) . '))' if $what < 0.8 && $left =~ /^\w+\.(?:a|b|c|g|r|x|gen|uniq|ucode)$/;
	return "(SELECT count(*) FROM $other->{name} $inner WHERE " . equality($inner, $other, $alias, $base) . ') ' . pick('>', '=', '<') . ' ' . int(rand(4)) if $what < 0.9;
	return "$alias.b IN (SELECT k FROM other WHERE other.r " . pick('<', '=') . " $alias.r)";
}

# --- What is shown ----------------------------------------------------------------------

sub canonical
{
	my ($operand, $sql) = @_;
	my $type = $operand->{type};
	return "trim_scale($sql)" if $type eq 'numeric';
	return "lower(($sql)::text) COLLATE \"C\"" if $operand->{caseless};
	return "md5($sql)" if $operand->{is_long};
	return "regexp_replace(($sql)::text, '\\.0+', '', 'g')" if $type eq 'numeric[]';
	return "replace(($sql)::text, '1.0', '1')" if $type eq 'jsonb';
	return "justify_interval($sql)::text" if $type eq 'interval';
	return $sql;
}

sub shown
{
	my ($alias, $base) = @_;
	my $what = rand();
	return "left(md5($alias\::text), 12)" if $what < 0.12;
	return "$alias.tableoid::regclass" if $what < 0.17;
	return "$alias.ctid" if $what < 0.19;
	return "upper($alias.region)" if $what < 0.22;
	return "($alias.b + coalesce($alias.r, 0))" if $what < 0.25;
	return "(SELECT count(*) FROM other o WHERE o.k = $alias.b)" if $what < 0.28;
	if ($what < 0.33)
	{
		my $other = any_base($current);
		my $inner = 's' . int(rand(100));
		my $operand = pick(grep { $_->{type} =~ /^(integer|numeric|date|text)$/ && !$_->{is_long} } @{ $other->{operands} });
		return '(SELECT ' . canonical($operand, pick('min', 'max') . '(' . on($inner, $operand->{sql}) . ')') . " FROM $other->{name} $inner WHERE "
		  . equality($inner, $other, $alias, $base) . ')';
	}
	if ($what < 0.6)
	{
		my ($table) = some(1, @{ $base->{own_tables} });
		my @columns = grep { !/^(?:big|id|pid)$/ } @{ $table->{copies} };
		return "$alias." . pick(@columns) if @columns;
	}
	my $operand = operand($base);
	return canonical($operand, on($alias, $operand->{sql})) if $operand->{is_long};
	return on($alias, $operand->{sql});
}

sub shown_list
{
	my ($alias, $base, $most) = @_;
	return join(', ', map { shown($alias, $base) } 1 .. 1 + int(rand($most // 4)));
}

# Operands that can be sorted by.
sub sortable
{
	my ($base) = @_;
	my $operand = operand($base);
	return $operand;
}

sub direction { return pick('', '', ' ASC', ' DESC', ' DESC NULLS LAST', ' NULLS FIRST', ' DESC NULLS FIRST', ' NULLS LAST'); }
sub limit { return chance(0.8) ? ' LIMIT ' . pick(1, 1, 2, 3, 5, 10, 20) . (chance(0.3) ? ' OFFSET ' . int(rand(5)) : '') : ' OFFSET ' . int(rand(4)); }
sub where { my ($alias, $base, $depth) = @_; return chance(0.93) ? ' WHERE ' . condition($alias, $base, $depth) : ''; }

# --- Queries -----------------------------------------------------------------------------
# Each returns SQL and how its rows are compared.

sub plain_query
{
	my ($schema, $base) = @_;
	return ("SELECT " . shown_list('me', $base) . " FROM $base->{name} me" . where('me', $base, 2), '');
}

sub star_query
{
	my ($schema, $base) = @_;
	my @columns = grep { !/^(big|id|pid)$/ } @{ $base->{columns} };
	return ("SELECT " . join(', ', map { "me.$_" } @columns) . " FROM $base->{name} me" . where('me', $base, 1), '');
}

sub entity_query
{
	my ($schema, $base) = @_;
	return ("SELECT left(md5(me::text), 10), me.tableoid::regclass, me.ctid FROM $base->{name} me" . where('me', $base, 1), '');
}

# In a total order.
sub ordered_query
{
	my ($schema, $base) = @_;
	my $operand = sortable($base);
	my $second = sortable($base);
	my $sql = "SELECT " . shown_list('me', $base, 2) . " FROM $base->{name} me" . where('me', $base, 1) . ' ORDER BY '
	  . on('me', $operand->{sql}) . direction()
	  . (chance(0.4) ? ', ' . on('me', $second->{sql}) . direction() : '')
	  . ', me::text COLLATE "C"' . (chance(0.8) ? limit() : '');
	return ($sql, 'rows');
}

# Only the keys are in order: all that is shown with a limit.
sub key_order_query
{
	my ($schema, $base) = @_;
	my ($table) = some(1, @{ $base->{own_tables} });
	my %operands = map { $_->{sql} => $_ } @{ $base->{operands} };
	my @parts = grep { $_ } map { $operands{$_} } @{ $table->{key} };
	@parts = (operand($base)) unless @parts;
	@parts = @parts[ 0 .. int(rand(@parts)) ];
	my $flip = pick('', ' DESC');
	my $by = join(', ', map { on('me', $_->{sql}) . (chance(0.75) ? $flip : direction()) } @parts);
	my $canonical = join(', ', map { canonical($_, on('me', $_->{sql})) } @parts);
	my $where = chance(0.6) ? where('me', $base, 1) : '';
	return ("SELECT $canonical FROM $base->{name} me$where ORDER BY $by" . limit(), 'rows') if chance(0.7);
	my $first = canonical($parts[0], on('me', $parts[0]{sql}));
	return ("SELECT $first, " . shown_list('me', $base, 2) . " FROM $base->{name} me$where ORDER BY $by", 'first');
}

# As keyset paging asks.
sub equal_prefix_query
{
	my ($schema, $base) = @_;
	my ($table) = some(1, grep { @{ $_->{key} } > 1 && !grep { /m\.v/ } @{ $_->{key} } } @{ $base->{own_tables} });
	return key_order_query($schema, $base) unless $table;
	my %operands = map { $_->{sql} => $_ } @{ $base->{operands} };
	my @parts = map { $operands{$_} } @{ $table->{key} };
	return key_order_query($schema, $base) if grep { !$_ || $_->{is_array} } @parts;
	my $sql = "SELECT " . canonical($parts[1], on('me', $parts[1]{sql})) . " FROM $base->{name} me WHERE "
	  . on('me', $parts[0]{sql}) . pick(' = ', ' = ', ' >= ') . constant($parts[0])
	  . (chance(0.4) ? ' AND ' . on('me', $parts[1]{sql}) . pick(' > ', ' < ', ' >= ') . constant($parts[1]) : '');
	return ($sql . ' ORDER BY ' . on('me', $parts[1]{sql}) . direction() . limit(), 'rows');
}

# The nearest rows, by what btree_gist and pg_trgm know to measure. Rows of the same distance come in
# any order, so only distances are shown.
sub nearest_query
{
	my ($schema, $base) = @_;
	my @possible = grep { $_->{type} =~ /^(integer|bigint|double precision|date|text)$/ && !$_->{caseless} && !$_->{is_long} } @{ $base->{operands} };
	return ordered_query($schema, $base) unless $schema->{has_distances} && @possible;
	my @columns = grep { $_->{sql} =~ /^b\.\w+$/ } @possible;
	my $operand = @columns && chance(0.8) ? pick(@columns) : pick(@possible);
	my $distance = on('me', $operand->{sql}) . ' <-> ' . pick(@{ $operand->{values} }) . "::$operand->{type}";
	return ("SELECT $distance FROM $base->{name} me" . (chance(0.5) ? where('me', $base, 1) : '') . " ORDER BY $distance LIMIT " . (1 + int(rand(40))), 'rows');
}

sub digest
{
	my ($sql) = @_;
	return "SELECT count(*), md5(string_agg(q::text, '|' ORDER BY q::text COLLATE \"C\")) FROM ($sql) q";
}

sub join_query
{
	my ($schema, $base) = @_;
	my $count = chance(0.75) ? 2 : 3;
	my @bases = ($base, map { any_base($schema) } 2 .. $count);
	@bases[ 0, 1 ] = @bases[ 1, 0 ] if chance(0.5);
	my $from = "$bases[0]{name} t0";
	my @conditions;
	foreach my $i (1 .. $#bases)
	{
		my $kind = pick('JOIN', 'JOIN', 'LEFT JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN', ',', 'CROSS JOIN');
		my $outer = int(rand($i));
		my $on = equality("t$i", $bases[$i], "t$outer", $bases[$outer]);
		if ($kind eq ',' || $kind eq 'CROSS JOIN')
		{
			$from .= " CROSS JOIN $bases[$i]{name} t$i";
			push @conditions, $on;
			next;
		}
		$on .= ' AND ' . condition("t$i", $bases[$i], 1) if $kind ne 'FULL JOIN' && chance(0.5);
		$on .= ' AND ' . condition("t$outer", $bases[$outer], 1) if $kind ne 'FULL JOIN' && chance(0.25);
		$from .= " $kind $bases[$i]{name} t$i ON $on";
	}
	push @conditions, condition("t$_", $bases[$_], 1) foreach grep { chance(0.7) } 0 .. $#bases;
	push @conditions, condition('t0', $bases[0], 0) unless @conditions;
	my $shown = join(', ', map { shown_list("t$_", $bases[$_], 2) } 0 .. $#bases);
	my $number = 0;
	my $sql = "SELECT $shown FROM $from WHERE " . join(' AND ', @conditions);
	if (chance(0.15))
	{
		my $operand = sortable($bases[0]);
		return ("$sql ORDER BY " . on('t0', $operand->{sql}) . direction() . ', ' . join(', ', map { "t$_\::text COLLATE \"C\"" } 0 .. $#bases) . limit(), 'rows');
	}
	return ("SELECT count(*), " . aggregate('t1', $bases[1]) . " FROM $from WHERE " . join(' AND ', @conditions), '') if chance(0.2);
	return (unnamed_digest($sql), '') if $count > 2;
	return ($sql, '');
}

# Columns of a query may have one name twice: a row of them cannot be named, hence numbers.
sub unnamed_digest
{
	my ($sql) = @_;
	return digest($sql);
}

sub other_join_query
{
	my ($schema, $base) = @_;
	my %by = (integer => [qw(k r)], text => ['w'], numeric => ['n'], date => ['day']);
	my @possible = grep { $by{ $_->{type} } && !$_->{caseless} && $_->{sql} !~ /COLLATE/ } @{ $base->{keys} };
	@possible = grep { $_->{sql} eq 'b.b' } @{ $base->{operands} } if !@possible || chance(0.1);
	my $operand = pick(@possible);
	my $column = pick(@{ $by{ $operand->{type} } });
	$column = 'k' if $operand->{type} eq 'numeric' && chance(0.3);
	my $on = "o.$column = " . on('me', $operand->{sql});
	my $kind = pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
	my $more = $kind ne 'FULL JOIN' && chance(0.4) ? ' AND ' . condition('me', $base, 1) : '';
	my $values = '(VALUES ' . join(', ', map { '(' . pick(@{ $operand->{values} }) . "::$operand->{type})" } 1 .. 3) . ") o($column)";
	my $source = pick('other', 'other', 'other', 'empty', '(SELECT DISTINCT k, w, n, day, r FROM other WHERE k > 3)');
	$source = $source eq 'other' && chance(0.3) ? $values : "$source o";
	my $filter = $source =~ /^\(VALUES/ ? '' : ' WHERE ' . pick('o.r < 20', 'o.k = 4', 'o.k IN (1, 2)', 'o.n > 1', 'true', 'o.k IS NOT NULL');
	return ("SELECT o.$column, " . shown_list('me', $base, 3) . " FROM $source $kind $base->{name} me ON $on$more$filter", '');
}

sub lateral_query
{
	my ($schema, $base) = @_;
	my $operand = sortable($base);
	my $outer = any_base($schema);
	my $inner = "SELECT " . shown_list('me', $base, 1) . " AS first, me.b FROM $base->{name} me WHERE ";
	$inner =~ s/SELECT .*? AS first/'SELECT ' . shown('me', $base) . ' AS first'/e;
	my $on;
	my $from;
	if (chance(0.5))
	{
		$on = equality('me', $base, 'o', $outer);
		$from = "(SELECT * FROM $outer->{name} o WHERE " . condition('o', $outer, 0) . ') o';
	}
	else
	{
		$on = pick('me.b = o.k', 'me.c = o.n', 'me.r = o.r', 'me.g = o.day', 'me.a = o.w', 'lower(me.a) = o.w', 'o.k = ANY (me.e)', 'me.b < o.k');
		$from = 'other o';
	}
	$inner .= $on . (chance(0.5) ? ' AND ' . condition('me', $base, 0) : '');
	$inner .= ' ORDER BY ' . on('me', $operand->{sql}) . direction() . ', me::text COLLATE "C" LIMIT ' . (1 + int(rand(3))) if chance(0.6);
	return ("SELECT o.r, l.* FROM $from " . pick("CROSS JOIN LATERAL ($inner) l", "LEFT JOIN LATERAL ($inner) l ON true"), '');
}

# Expressions that are computed below an outer join and are not strict.
sub computed_query
{
	my ($schema, $base) = @_;
	my $outer = any_base($schema);
	my $column = pick(grep { !/^(big|id|pid)$/ } @{ $base->{columns} });
	my $computed = pick("coalesce(me.$column\::text, 'none')", "(me.$column IS NULL)", "'fixed'", "coalesce(me.b, me.r)", "left(md5(me::text), 9)");
	my $inner = "(SELECT $computed AS computed, me.* FROM $base->{name} me" . (chance(0.6) ? where('me', $base, 0) : '') . ') l';
	return ("SELECT l.computed, " . shown_list('o', $outer, 2) . " FROM $outer->{name} o " . pick('LEFT', 'LEFT', 'FULL') . " JOIN $inner ON "
		  . equality('l', $base, 'o', $outer) . ' WHERE ' . condition('o', $outer, 0), '');
}

sub aggregate
{
	my ($alias, $base) = @_;
	my @ordered = grep { $_->{type} =~ /^(integer|bigint|numeric|date|text|timestamp with time zone)$/ && !$_->{is_long} } @{ $base->{operands} };
	my @keys = grep { $_->{is_key} } @ordered;
	my $operand = @keys && chance(0.7) ? pick(@keys) : pick(@ordered);
	my $sql = on($alias, $operand->{sql});
	my $what = rand();
	return canonical($operand, pick('min', 'max') . "($sql)") if $what < 0.5;
	return 'count(*)' if $what < 0.6;
	return "count($sql)" if $what < 0.65;
	return "count(DISTINCT $sql)" if $what < 0.75;
	return "sum($alias.b)" if $what < 0.85;
	return "string_agg($alias.a, ',' ORDER BY $alias.a COLLATE \"C\")" if $what < 0.9;
	return "count(*) FILTER (WHERE " . simple($alias, $base) . ')';
}

sub aggregate_query
{
	my ($schema, $base) = @_;
	return ("SELECT " . join(', ', map { aggregate('me', $base) } 1 .. 1 + int(rand(3))) . " FROM $base->{name} me" . (chance(0.8) ? where('me', $base, 1) : ''), '');
}

sub extreme_query
{
	my ($schema, $base) = @_;
	my @keys = grep { $_->{is_key} && $_->{type} =~ /^(integer|bigint|numeric|date|text)$/ && !$_->{is_long} } @{ $base->{operands} };
	my $operand = @keys ? pick(@keys) : (grep { $_->{sql} eq 'b.b' } @{ $base->{operands} })[0];
	my $sql = on('me', $operand->{sql});
	my @shown = map { canonical($operand, "$_($sql)") } pick([qw(min)], [qw(max)], [qw(min max)])->@*;
	return ("SELECT " . join(', ', @shown) . " FROM $base->{name} me" . (chance(0.6) ? where('me', $base, 0) : ''), '');
}

sub group_query
{
	my ($schema, $base) = @_;
	my @by = map { operand($base) } 1 .. 1 + int(rand(2));
	my @sql = map { on('me', $_->{sql}) } @by;
	my $shown = join(', ', map { canonical($by[$_], $sql[$_]) } 0 .. $#by);
	my $group = join(', ', @sql);
	$group = pick('ROLLUP', 'CUBE') . "($group)" if chance(0.12);
	my $query = "SELECT $shown, " . aggregate('me', $base) . " FROM $base->{name} me" . where('me', $base, 1) . " GROUP BY $group";
	$query .= ' HAVING ' . pick('count(*) > 1', 'min(me.b) > 1', 'count(*) = 1') if chance(0.3);
	return ("$query ORDER BY $sql[0]" . direction(), 'first') if chance(0.3) && $group !~ /ROLLUP|CUBE/;
	return ($query, '');
}

sub distinct_query
{
	my ($schema, $base) = @_;
	my $operand = operand($base);
	my $sql = on('me', $operand->{sql});
	my $where = where('me', $base, 1);
	my $canonical = canonical($operand, $sql);
	return ("SELECT DISTINCT $canonical FROM $base->{name} me$where", '') if chance(0.4);
	my $flip = direction();
	return ("SELECT DISTINCT ON ($sql) $canonical, " . shown_list('me', $base, 2) . " FROM $base->{name} me$where ORDER BY $sql$flip, me::text COLLATE \"C\"", 'first')
	  if chance(0.5);
	return ("SELECT count(*) FROM (SELECT DISTINCT $sql AS v FROM $base->{name} me$where ORDER BY 1" . limit() . ') s', '');
}

sub window_query
{
	my ($schema, $base) = @_;
	my ($by, $order) = (operand($base), operand($base));
	my ($by_sql, $order_sql) = (on('me', $by->{sql}), on('me', $order->{sql}));
	my $partition = chance(0.6) ? "PARTITION BY $by_sql " : '';
	my $call = pick(
		"rank() OVER (${partition}ORDER BY $order_sql" . direction() . ')',
		"row_number() OVER (${partition}ORDER BY $order_sql" . direction() . ', me::text COLLATE "C")',
		"lag(me.b) OVER (${partition}ORDER BY $order_sql" . direction() . ', me::text COLLATE "C")',
		"count(*) OVER ($partition)",
		"sum(me.b) OVER (${partition}ORDER BY $order_sql)");
	my $sql = "SELECT " . shown('me', $base) . ", $call AS w FROM $base->{name} me" . where('me', $base, 1);
	return ("SELECT * FROM ($sql) s WHERE w <= 2", '') if chance(0.3);
	return ($sql, '');
}

sub set_query
{
	my ($schema, $base) = @_;
	my @bases = ($base, any_base($schema));
	push @bases, any_base($schema) if chance(0.3);
	my @columns = some(1 + int(rand(2)), qw(a b c r region g));
	my $number = 0;
	my @parts = map {
		my $part = $_;
		my $alias = 'u' . $number++;
		my $list = join(', ', map { my $c = $_; $c eq 'c' ? "trim_scale($alias.c) AS c" : "$alias.$c" } @columns);
		"SELECT $list FROM $part->{name} $alias" . where($alias, $part, 1);
	} @bases;
	my $sql = shift @parts;
	$sql = "($sql)";
	$sql = "$sql " . pick('UNION', 'UNION ALL', 'UNION ALL', 'INTERSECT', 'INTERSECT ALL', 'EXCEPT', 'EXCEPT ALL') . " ($_)" foreach @parts;
	return ("$sql ORDER BY 1" . direction() . (@columns > 1 ? ', 2' . direction() : '') . limit(), 'rows') if chance(0.4);
	return ("SELECT * FROM ($sql) s WHERE s.$columns[0] " . pick('IS NOT NULL', 'IS NULL'), '') if chance(0.2);
	return ($sql, '');
}

sub view_query
{
	my ($schema, $base) = @_;
	my $what = rand();
	my %of = map { $_->{sql} => $_ } @{ $base->{operands} };
	my $column = pick(@{ $schema->{common} });
	my $operand = $of{"b.$column"};
	my $filter = atom('v', $base, $operand);
	$filter .= pick(' AND ', ' OR ') . '(' . atom('v', $base, $of{ 'b.' . pick(qw(b a c r)) }) . ')' if chance(0.5);
	return ("SELECT v.kind, v.b, v.a, v.c FROM all_bases v WHERE $filter", '') if $what < 0.3;
	return ("SELECT v.b, v.r FROM all_bases v WHERE $filter ORDER BY v.b" . direction() . ", v.r" . direction() . limit(), 'rows') if $what < 0.4;
	return ("SELECT v.b, count(*), min(v.r), max(v.a) FROM all_bases v WHERE $filter GROUP BY v.b", '') if $what < 0.5;
	return ("SELECT v.*, " . shown('me', $base) . " FROM $base->{name} me JOIN some_rows v ON v.b = me.b AND " . condition('me', $base, 0) . " WHERE $filter", '') if $what < 0.65;
	return ("SELECT v.region, v.a, v.t, v.e FROM some_rows v WHERE $filter", '') if $what < 0.85;
	return ("SELECT g.*, " . shown('me', $base) . " FROM grouped g LEFT JOIN $base->{name} me ON me.b = g.b AND " . condition('me', $base, 0) . ' WHERE g.b = ' . pick(1 .. 8), '');
}

sub cte_query
{
	my ($schema, $base) = @_;
	my $other = any_base($schema);
	my $how = pick('', 'MATERIALIZED ', 'NOT MATERIALIZED ');
	my $what = rand();
	return ("WITH w AS ${how}(SELECT * FROM $base->{name} me WHERE " . condition('me', $base, 1) . ") SELECT "
		  . shown_list('y', $other, 2) . ", w.b FROM w JOIN $other->{name} y ON " . equality('y', $other, 'w', $base) . ' AND ' . condition('y', $other, 0), '')
	  if $what < 0.4;
	return ("WITH w AS ${how}(SELECT * FROM $base->{name} me" . where('me', $base, 1) . ") SELECT w1.b, w2.a FROM w w1, w w2 WHERE w1.b = w2.b AND " . condition('w2', $base, 0), '')
	  if $what < 0.6;
	return ("WITH RECURSIVE w(b, depth) AS (SELECT me.b, 1 FROM $base->{name} me WHERE " . condition('me', $base, 0)
		  . " UNION SELECT y.b, w.depth + 1 FROM w JOIN $other->{name} y ON y.b = w.b + 1 WHERE w.depth < 4) SELECT * FROM w", '')
	  if $what < 0.8;
	return ("SELECT (WITH w AS ${how}(SELECT b FROM $base->{name} me WHERE " . condition('me', $base, 1) . ") SELECT count(*) FROM w WHERE w.b = o.k), o.k FROM other o", '');
}

sub semi_query
{
	my ($schema, $base) = @_;
	return ("SELECT " . shown_list('me', $base, 3) . " FROM $base->{name} me WHERE " . (chance(0.5) ? condition('me', $base, 0) . ' AND ' : '') . '(' . subquery_atom('me', $base, 1) . ')', '');
}

sub outer_other_query
{
	my ($schema, $base) = @_;
	return ("SELECT o.k, o.w FROM other o WHERE " . pick('EXISTS', 'NOT EXISTS') . " (SELECT FROM $base->{name} me WHERE "
		  . pick('me.b = o.k', 'me.c = o.n', 'me.a = o.w', 'me.g = o.day', 'lower(me.a) = lower(o.w)', 'o.k = ANY (me.e)', 'me.r = o.r', 'me.b = o.k AND me.g >= o.day')
		  . (chance(0.6) ? ' AND ' . condition('me', $base, 1) : '') . ')', '')
	  if chance(0.6);
	return ("SELECT o.k, o." . pick('k', 'r') . ' ' . pick('IN', 'NOT IN') . " (SELECT me.b FROM $base->{name} me" . where('me', $base, 1) . ') FROM other o', '');
}

# Locked rows are found without index tables; the rest of the query may use them.
sub locking_query
{
	my ($schema, $base) = @_;
	my $other = any_base($schema);
	return ("SELECT me.b, me.a FROM $base->{name} me WHERE " . condition('me', $base, 1) . ' AND me.b IN (SELECT y.b FROM '
		  . "$other->{name} y WHERE " . condition('y', $other, 0) . ') FOR ' . pick('UPDATE', 'SHARE', 'KEY SHARE') . ' OF me', '');
}

my @queries = (
	(\&plain_query) x 14,
	(\&star_query) x 4,
	(\&entity_query) x 3,
	(\&ordered_query) x 8,
	(\&key_order_query) x 8,
	(\&equal_prefix_query) x 4,
	(\&nearest_query) x 4,
	(\&join_query) x 14,
	(\&other_join_query) x 8,
	(\&lateral_query) x 5,
	(\&computed_query) x 4,
	(\&aggregate_query) x 4,
	(\&extreme_query) x 4,
	(\&group_query) x 5,
	(\&distinct_query) x 4,
	(\&window_query) x 3,
	(\&set_query) x 5,
	(\&view_query) x 5,
	(\&cte_query) x 4,
	(\&semi_query) x 6,
	(\&outer_other_query) x 4,
	(\&locking_query) x 1);

# SQL of one SELECT, and how its rows are compared.
sub select_sql
{
	my ($schema) = @_;
	$current = $schema;
	my ($base) = grep { $focus && $_->{name} eq $focus->{base} } @{ $schema->{partitioned} };
	return pick(@queries)->($schema, $base // pick(@{ $schema->{partitioned} }));
}

sub query
{
	my ($schema) = @_;
	my $what = rand();
	if ($what < 0.15)
	{
		$parameters = [];
		my ($sql, $order) = select_sql($schema);
		my @values = @$parameters;
		$parameters = undef;
		my $execute = 'EXECUTE q' . (@values ? '(' . join(', ', @values) . ')' : '');
		return {
			statements => [ "PREPARE q AS $sql", ($execute) x pick(1, 2, 6), 'DEALLOCATE q' ],
			executes => $execute,
			explain => undef,
			order => $order
		};
	}
	my ($sql, $order) = select_sql($schema);
	return { statements => [ 'SELECT * FROM run_loop(' . quote_literal($sql) . ')' ], explain => $sql, order => $order eq 'rows' ? 'rows' : '' } if $what < 0.2;
	return { statements => [ 'SELECT * FROM run_cursor(' . quote_literal($sql) . ')' ], explain => $sql, order => 'rows' } if $what < 0.24 && $order eq 'rows';
	return {
		statements => [
			'BEGIN', "DECLARE c SCROLL CURSOR FOR $sql", 'FETCH 2 FROM c', 'FETCH PRIOR FROM c', 'FETCH LAST FROM c',
			'FETCH BACKWARD 2 FROM c', 'FETCH FIRST FROM c', 'FETCH ALL FROM c', 'COMMIT'
		],
		explain => $sql,
		order => 'rows',
		transaction => 1
	} if $what < 0.26 && $order eq 'rows';
	return {
		statements => [ 'BEGIN', "DECLARE c CURSOR WITH HOLD FOR $sql", 'COMMIT', 'FETCH ALL FROM c', 'CLOSE c' ],
		explain => $sql,
		order => $order,
		transaction => 1
	} if $what < 0.27;
	return { statements => [ "CREATE TEMP TABLE made AS SELECT q::text AS v FROM ($sql) q", 'SELECT v FROM made', 'DROP TABLE made' ], explain => $sql, order => '' }
	  if $what < 0.285;
	return { statements => [$sql], explain => $sql, order => $order };
}

# Settings for some queries in a row.
sub settings
{
	my ($version) = @_;
	my @settings = ('SET plan_cache_mode = ' . pick(qw(auto force_generic_plan force_custom_plan)));
	# Tables of a few rows are not worth an index.
	push @settings, 'SET enable_seqscan = off' if chance(0.75);
	push @settings, "SET enable_$_ = off" foreach some(int(rand(3)), qw(hashjoin mergejoin nestloop sort hashagg indexscan indexonlyscan material memoize incremental_sort));
	push @settings, 'SET ' . ($version >= 160000 ? 'debug_parallel_query' : 'force_parallel_mode') . ' = on' if chance(0.1);
	push @settings, 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0', 'SET min_parallel_index_scan_size = 0' if chance(0.15);
	push @settings, 'SET enable_partitionwise_join = on', 'SET enable_partitionwise_aggregate = on' if chance(0.15);
	push @settings, 'SET work_mem = \'64kB\'' if chance(0.1);
	push @settings, 'SET jit = off';
	return @settings;
}

1;
