# Random schemas: a few base tables of different shapes, each with index tables of all kinds, and
# triggers and foreign keys that make changes of their own.
#
#   my $schema = RandomTables::generate(%features);     # features: icu, citext
#   $schema->{setup}       SQL that makes tables, rows, triggers and about half the index tables
#   $schema->{finish}      SQL that makes the others, over rows that are there
#   $schema->{prepare}     SQL for each session: prepared statements
#   $schema->{bases}       base tables, see make_base()
#   $schema->{tables}      index tables, see IndexTableTest::describe(); create => SQL
package RandomTables;

use strict;
use warnings;

use Exporter 'import';
use IndexTableTest qw(describe quote_literal);

our @EXPORT_OK = qw(chance pick some value id_value row_values);

sub chance { my ($p) = @_; return rand() < $p; }
sub pick { return $_[ int(rand(@_)) ]; }

# A random selection of at most $most, in random order.
sub some
{
	my ($most, @list) = @_;
	my @chosen;
	while (@list && @chosen < $most)
	{
		push @chosen, splice(@list, int(rand(@list)), 1);
	}
	return @chosen;
}

# --- Identities -----------------------------------------------------------------
# Types of an identity column, and the SQL of its value for an SQL integer. Some have values that
# are equal but not the same.

my @identities = (
	[ 'int', sub { $_[0] } ],
	[ 'bigint', sub { "($_[0])::bigint * 10000000000" } ],
	[ 'numeric', sub { "round($_[0], " . int(rand(3)) . ')' } ],
	[ 'text', sub { "'k' || $_[0]" } ],
	[ 'text', sub { "repeat('long key ', 500) || $_[0]" } ],
	[ 'uuid', sub { "md5(($_[0])::text)::uuid" } ],
	[ 'bytea', sub { "decode(md5(($_[0])::text), 'hex')" } ],
	[ 'timestamptz', sub { "timestamptz '2001-01-01 00:00+00' + ($_[0]) * interval '1 hour'" } ],
	[ 'interval', sub { "($_[0]) * interval " . pick("'1 mon'", "'30 days'", "'720 hours'") } ],
	[ 'float8', sub { "($_[0])::float8 / 3" } ],
	[ 'char(6)', sub { "('k' || $_[0])::char(6)" } ],
	[ 'name', sub { "('k' || $_[0])::name" } ],
	[ 'date', sub { "date '2001-01-01' + ($_[0])" } ],
	[ 'inet', sub { "inet '10.0.0.0' + ($_[0])" } ],
	[ 'citext', sub { pick("'key'", "'KEY'", "'Key'") . " || $_[0]" }, 'citext' ],
	[ 'text COLLATE caseless', sub { pick("'key'", "'KEY'") . " || $_[0]" }, 'icu' ]);

# --- Columns ---------------------------------------------------------------------

my $odd = '"Odd ""Col"';
my @words = ('', 'a', 'A', 'b', 'b,a', 'a,a,b', "Zo\x{eb}", 'zoe', 'ZOE', 'x y  z', "it's", '%_\\', "\x{c4}pfel");

sub column_types
{
	my (%features) = @_;
	return (
		region => 'text',
		r => 'int',
		a => 'text',
		b => 'int',
		c => 'numeric',
		d => 'text[]',
		e => 'int[]',
		f => $features{citext} ? 'citext' : 'text',
		g => 'date',
		h => 'jsonb',
		nums => 'numeric[]',
		tags => 'tag_list',
		en => 'mood',
		$odd => 'varchar(20)',
		t => $features{icu} ? 'text COLLATE caseless' : 'text',
		gen => "text GENERATED ALWAYS AS (lower(a) || coalesce(b::text, '-')) STORED",
		uniq => 'int',
		ucode => 'text',
		utags => 'int[]',
		ucost => 'numeric',
		big => 'text',
		x => 'text');
}

sub text_array
{
	my (@elements) = @_;
	return "'{}'" unless @elements;
	return 'ARRAY[' . join(', ', map { defined $_ ? quote_literal($_) : 'NULL' } @elements) . ']';
}

my %values = (
	region => sub { quote_literal(pick(qw(n s e w z))) },
	r => sub { int(rand(40)) },
	a => sub { quote_literal(pick(@words)) },
	b => sub { int(rand(16)) - 3 },
	c => sub { pick('1', '1.0', '1.00', '2.5', '2.50', "'NaN'", '1000', '1e3', '-7', '0.000') },
	d => sub {
		chance(0.05)
		  ? "'{{a,b},{b,A}}'"
		  : text_array(map { chance(0.1) ? undef : pick(@words) } 1 .. int(rand(4)));
	},
	e => sub { "'{" . join(',', map { chance(0.1) ? 'NULL' : int(rand(6)) } 1 .. int(rand(5))) . "}'" },
	f => sub { quote_literal(pick('x', 'X', 'yy', 'Yy', 'YY', '')) },
	g => sub { "date '2020-02-25' + " . int(rand(9)) },
	h => sub {
		pick("'{}'", "'{\"k\": 1}'", "'{\"k\": 1.0, \"tags\": [\"p\", \"q\", \"p\"]}'",
			"'{\"tags\": []}'", "'{\"tags\": [\"q\", null, 3], \"z\": null}'");
	},
	nums => sub { "'{" . join(',', map { pick('1', '1.0', '1.00', '2', '2.0', 'NULL', 'NaN') } 1 .. int(rand(4))) . "}'" },
	tags => sub { "'{" . join(',', map { pick(qw(p q r NULL)) } 1 .. int(rand(4))) . "}'" },
	en => sub { quote_literal(pick(qw(sad ok happy))) },
	$odd => sub { quote_literal(pick('o1', 'O2', "o'3", 'o 4')) },
	t => sub { quote_literal(pick(qw(one ONE One two TWO))) },
	uniq => sub { 1 + int(rand(2500)) },
	ucode => sub { quote_literal(pick('c', 'C') . int(rand(900))) },
	utags => sub { "'{" . join(',', map { int(rand(2000)) } 1 .. int(rand(4))) . "}'" },
	ucost => sub { pick('', '', '-') . int(rand(700)) . pick('', '.0', '.50', '.5') },
	big => sub {
		pick("'small'", "repeat('compressible', 1000)",
			"(SELECT string_agg(md5((i * " . int(rand(3)) . ")::text), '') FROM generate_series(1, 120) i)");
	},
	x => sub {
		my $what = rand();
		return "'common'" if $what < 0.45;
		return "'y'" if $what < 0.8;
		return quote_literal(pick(qw(bump bump chain chain spawn try tomb tomb stmt defer skip raise)));
	});

# The SQL of a random value for a column.
sub value
{
	my ($base, $column) = @_;
	return id_value($base) if $column eq 'id';
	return parent_value($base) if $column eq 'pid';
	return 'NULL' if chance(0.12) && !$base->{not_null}{$column};
	return $values{$column}->();
}

# The SQL of an identity; $number is SQL of an integer.
sub id_value
{
	my ($base, $number) = @_;
	$number //= 1 + int(rand($base->{numbers}));
	return $base->{id}->($number);
}

sub parent_value
{
	my ($base) = @_;
	my $parent = $base->{parent};
	my $what = rand();
	return 'NULL' if $what < 0.3;
	return id_value($parent) if $what < 0.4;
	return "(SELECT id FROM $parent->{name} ORDER BY md5(id::text || '" . rand() . "') LIMIT 1)";
}

sub row_values
{
	my ($base, @columns) = @_;
	return '(' . join(', ', map { value($base, $_) } @columns) . ')';
}

# --- Base tables -------------------------------------------------------------------

# Columns in random order with columns that will be dropped among them.
sub column_list
{
	my ($types, @columns) = @_;
	my @list = map { "$_ $types->{$_}" } @columns;
	splice(@list, int(rand(@list + 1)), 0, 'junk1 int DEFAULT 7');
	return join(', ', @list);
}

# A leaf, made as a partition or attached with a shape of its own. Returns SQL.
sub make_leaf
{
	my ($base, $parent, $name, $bound) = @_;
	push @{ $base->{leaves} }, $name;
	return "CREATE TABLE $name PARTITION OF $parent $bound;\n" if chance(0.4);
	my @columns = some(99, @{ $base->{columns} });
	my $types = { %{ $base->{types} } };
	$types->{$_} .= ' NOT NULL' foreach sort keys %{ $base->{not_null} };
	return
	    "CREATE TABLE $name (" . column_list($types, @columns) . ", junk2 text);\n"
	  . "ALTER TABLE $name DROP COLUMN junk1;\n"
	  . (chance(0.5) ? "ALTER TABLE $name DROP COLUMN junk2, ADD junk2 text;\n" : '')
	  . "ALTER TABLE $parent ATTACH PARTITION $name $bound;\n";
}

# A base table:
#   name, kind (hash, list, range, plain), columns (in their order), types, identity (columns)
#   id            SQL of an identity for an SQL integer below `numbers`
#   key           columns of its unique key; empty: none
#   leaves        the tables that hold its rows
#   spares        hashes of name and bound: partitions that may be detached and attached
#   create        SQL
sub make_base
{
	my ($name, $kind, $parent, %features) = @_;
	my $base = { name => $name, kind => $kind, numbers => 140, leaves => [], spares => [], parent => $parent };
	my @possible = grep { !$_->[2] || $features{ $_->[2] } } @identities;
	my $identity = pick(@possible);
	my %types = column_types(%features);
	$base->{id} = $identity->[1];
	$types{id} = $identity->[0];
	$types{pid} = $parent->{types}{id} if $parent;
	$base->{types} = \%types;
	$base->{columns} = [ some(99, grep { $_ ne 'gen' } keys_in_order(\%types)) ];
	splice(@{ $base->{columns} }, int(rand(20)), 0, 'gen');
	$base->{not_null} = { id => 1 };
	$base->{not_null}{region} = 1 if $kind eq 'list' || $kind eq 'range';
	$base->{not_null}{r} = 1 if $kind eq 'range';
	$base->{not_null} = { region => 1 } if $kind eq 'bag';
	$base->{key} =
	    $kind eq 'list' ? [ 'id', 'region' ]
	  : $kind eq 'range' ? [ 'r', 'id', 'region' ]
	  : $kind eq 'bag' ? []
	  : ['id'];
	$base->{identity} = $base->{key};
	$base->{numbers} = 12 if $kind eq 'bag';

	my %by = (
		hash => 'HASH (id)',
		list => 'LIST (region)',
		bag => 'LIST (region)',
		range => 'RANGE (r)',
		plain => undef);
	my %with_not_null = %types;
	$with_not_null{$_} .= ' NOT NULL' foreach sort keys %{ $base->{not_null} };
	my $sql = "CREATE TABLE $name (" . column_list(\%with_not_null, @{ $base->{columns} }) . ', junk2 text)';
	$sql .= " PARTITION BY $by{$kind}" if $by{$kind};
	$sql .= ";\nALTER TABLE $name DROP COLUMN junk1;\n";
	# An identity that is named, and unique in each leaf only.
	my $named = $kind eq 'list' && chance(0.3);
	$sql .= "ALTER TABLE $name ADD PRIMARY KEY (" . join(', ', @{ $base->{key} }) . ");\n"
	  if @{ $base->{key} } && !$named;
	(my $leaf = $name) =~ s/\W/_/g;
	if ($kind eq 'hash')
	{
		$sql .= make_leaf($base, $name, "${leaf}_$_", "FOR VALUES WITH (MODULUS 3, REMAINDER $_)") foreach 0 .. 2;
	}
	elsif ($kind eq 'list' || $kind eq 'bag')
	{
		$sql .= make_leaf($base, $name, "${leaf}_n", "FOR VALUES IN ('n')");
		$sql .= make_leaf($base, $name, "${leaf}_s", "FOR VALUES IN ('s')");
		$sql .= make_leaf($base, $name, "${leaf}_ew", "FOR VALUES IN ('e', 'w')");
		$sql .= make_leaf($base, $name, "${leaf}_rest", 'DEFAULT') if chance(0.4);
		$sql .= make_leaf($base, $name, "${leaf}_z", "FOR VALUES IN ('z')");
		push @{ $base->{spares} }, { name => "${leaf}_z", bound => "FOR VALUES IN ('z')", parent => $name };
	}
	elsif ($kind eq 'range')
	{
		$sql .= make_leaf($base, $name, "${leaf}_low", 'FOR VALUES FROM (MINVALUE) TO (10)');
		my $mid = "${leaf}_mid";
		$sql .= "CREATE TABLE $mid PARTITION OF $name FOR VALUES FROM (10) TO (20) PARTITION BY ";
		if (chance(0.5))
		{
			$sql .= "LIST (region);\n";
			$sql .= make_leaf($base, $mid, "${mid}_ns", "FOR VALUES IN ('n', 's')");
			$sql .= make_leaf($base, $mid, "${mid}_rest", 'DEFAULT');
		}
		else
		{
			$sql .= "HASH (id);\n";
			$sql .= make_leaf($base, $mid, "${mid}_$_", "FOR VALUES WITH (MODULUS 2, REMAINDER $_)") foreach 0 .. 1;
		}
		$sql .= make_leaf($base, $name, "${leaf}_20", 'FOR VALUES FROM (20) TO (30)');
		$sql .= make_leaf($base, $name, "${leaf}_high", 'FOR VALUES FROM (30) TO (MAXVALUE)');
		push @{ $base->{spares} },
		  { name => "${leaf}_20", bound => 'FOR VALUES FROM (20) TO (30)', parent => $name },
		  { name => $mid, bound => 'FOR VALUES FROM (10) TO (20)', parent => $name };
	}
	else
	{
		$base->{leaves} = [$name];
	}
	if ($named)
	{
		$base->{identity} = ['id'];
		$base->{named_identity} = 'id';
		$base->{key} = [];
		$sql .= "CREATE UNIQUE INDEX ON $_ (id);\n" foreach @{ $base->{leaves} };
	}
	if ($kind eq 'bag')
	{
		$base->{identity} = ['id'];
		$base->{named_identity} = 'id';
	}
	if ($parent)
	{
		my $action = pick('ON DELETE CASCADE ON UPDATE CASCADE', 'ON DELETE SET NULL ON UPDATE CASCADE',
			'ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED');
		$sql .= "ALTER TABLE $name ADD FOREIGN KEY (pid) REFERENCES $parent->{name} (id) $action;\n";
	}
	$base->{create} = $sql;
	$base->{input_columns} = [ grep { $_ ne 'gen' } @{ $base->{columns} } ];
	return $base;
}

# Hashes have no order that a seed would repeat.
sub keys_in_order { my ($hash) = @_; return sort keys %$hash; }

# --- Triggers ------------------------------------------------------------------------
# What rows with certain values of x do; about half of it happens on each base table.

sub make_triggers
{
	my ($base) = @_;
	my $name = $base->{name};
	my ($leaf) = $name =~ s/\W/_/gr;
	my @copied = grep { !/^(id|x|uniq|ucode|utags|ucost)$/ } @{ $base->{input_columns} };
	my $copied = join(', ', @copied);
	my $new = join(', ', map { "NEW.$_" } @copied);
	my $old = join(', ', map { "OLD.$_" } @copied);
	my $other = id_value($base, 'length(coalesce(NEW.a, \'\')) * 7 + coalesce(NEW.b, 0) + 4');
	my $same = join(' AND ', map { "t.$_ = NEW.$_" } @{ $base->{identity} });
	my %bodies = (
		bump => [
			'BEFORE INSERT OR UPDATE ON %s FOR EACH ROW',
			"IF NEW.x = 'bump' THEN
				NEW.b := coalesce(NEW.b, 0) + 1; NEW.e := NEW.e || 7; NEW.a := NEW.a || '+'; NEW.x := 'y';
			ELSIF NEW.x = 'skip' THEN RETURN NULL;
			ELSIF NEW.x = 'raise' THEN RAISE 'refused';
			END IF;
			RETURN NEW;"
		],
		chain => [
			"AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.x = 'chain')",
			"IF pg_trigger_depth() < 4 THEN
				UPDATE $name SET b = coalesce(b, 0) + 1, x = 'y' WHERE a = NEW.a;
			END IF;
			RETURN NULL;"
		],
		spawn => [
			"AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.x = 'spawn')",
			"IF pg_trigger_depth() < 3 THEN
				INSERT INTO $name (id, x, $copied) VALUES ($other, 'y', $new) ON CONFLICT DO NOTHING;
				DELETE FROM $name WHERE b = NEW.b + 1;
			END IF;
			RETURN NULL;"
		],
		try => [
			"AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.x = 'try')",
			"IF pg_trigger_depth() < 3 THEN
				UPDATE $name SET c = c + 1 WHERE b = NEW.b;
				BEGIN
					UPDATE $name SET d = d || NEW.a, x = 'y' WHERE b = NEW.b;
					DELETE FROM $name WHERE b = NEW.b + 3;
					IF NEW.b % 2 = 0 THEN RAISE 'undo'; END IF;
					UPDATE $name SET e = e || 3 WHERE b = NEW.b;
				EXCEPTION WHEN OTHERS THEN
					UPDATE $name SET b = b - 1 WHERE b = NEW.b + 2;
				END;
				UPDATE $name SET g = g + 1 WHERE b = NEW.b;
			END IF;
			RETURN NULL;"
		],
		tomb => [
			"AFTER DELETE ON %s FOR EACH ROW WHEN (OLD.x = 'tomb')",
			"IF pg_trigger_depth() < 4 THEN
				DELETE FROM $name WHERE b = OLD.b;
				INSERT INTO $name (id, x, $copied) VALUES (OLD.id, 'y', $old) ON CONFLICT DO NOTHING;
			END IF;
			RETURN NULL;"
		],
		stmt => [
			'AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT',
			"IF pg_trigger_depth() = 1 THEN
				UPDATE $name SET g = g + 1, a = a || '!' WHERE x = 'stmt' AND length(a) < 8;
			END IF;
			RETURN NULL;"
		],
		defer => [
			"AFTER INSERT OR UPDATE ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.x = 'defer')",
			"UPDATE $name t SET b = coalesce(b, 0) + 2, x = 'y' WHERE $same;
			RETURN NULL;"
		]);
	my $sql = '';
	foreach my $kind (sort keys %bodies)
	{
		next if chance(0.4);
		my ($when, $body) = @{ $bodies{$kind} };
		# Before or after the trigger of index tables, by name.
		my $trigger = pick('a', 'z') . "_$kind";
		my $constraint = $kind eq 'defer' ? 'CONSTRAINT ' : '';
		$sql .= "CREATE FUNCTION ${leaf}_$kind() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $body END \$\$;\n";
		$sql .= "CREATE ${constraint}TRIGGER $trigger " . sprintf($when, $name) . " EXECUTE FUNCTION ${leaf}_$kind();\n";
	}
	return $sql;
}

# --- Index tables ----------------------------------------------------------------------
# Parts of keys: text for create(), the oracle's expression, the column where it is a plain one,
# and, for parts of many values, the oracle's elements.

my @single = (
	[ 'a', 'b.a', 'a' ],
	[ 'a DESC', 'b.a', 'a' ],
	[ 'a text_pattern_ops', 'b.a', 'a' ],
	[ 'a COLLATE "POSIX" NULLS FIRST', 'b.a', 'a' ],
	[ 'lower(a)', 'lower(b.a)' ],
	[ 'lower(a) COLLATE "C" DESC NULLS LAST', 'lower(b.a)' ],
	[ 'md5(a)', 'md5(b.a)' ],
	[ '(a || coalesce(c::text, \'-\'))', '(b.a || coalesce(b.c::text, \'-\'))' ],
	[ 'b', 'b.b', 'b' ],
	[ 'b DESC NULLS FIRST', 'b.b', 'b' ],
	[ 'b NULLS FIRST', 'b.b', 'b' ],
	[ '(b % 5)', '(b.b % 5)' ],
	[ '(b IS NULL)', '(b.b IS NULL)' ],
	[ 'c', 'b.c', 'c' ],
	[ 'c DESC', 'b.c', 'c' ],
	[ 'f', 'b.f', 'f' ],
	[ 'g', 'b.g', 'g' ],
	[ 'g DESC NULLS LAST', 'b.g', 'g' ],
	[ '(h ->> \'k\')', '(b.h ->> \'k\')' ],
	[ 'h', 'b.h', 'h' ],
	[ 'gen', 'b.gen', 'gen' ],
	[ 'en DESC', 'b.en', 'en' ],
	[ $odd, "b.$odd", $odd ],
	[ "upper($odd)", "upper(b.$odd)" ],
	[ 't', 'b.t', 't' ],
	[ 't COLLATE "C"', 'b.t', 't' ],
	[ 'id', 'b.id', 'id' ],
	[ 'region', 'b.region', 'region' ],
	[ 'r DESC', 'b.r', 'r' ],
	[ '(c IS NOT NULL AND b > 3)', '(b.c IS NOT NULL AND b.b > 3)' ]);

sub elements { my ($call) = @_; return "SELECT v, o FROM $call WITH ORDINALITY AS s(v, o)"; }

my @many = (
	[ 'd', 'm.v', undef, elements('unnest(b.d)') ],
	[ 'unnest(d)', 'm.v', undef, elements('unnest(b.d)') ],
	[ 'upper(unnest(d)) DESC', 'm.v', undef, 'SELECT upper(v) AS v, o FROM unnest(b.d) WITH ORDINALITY AS s(v, o)' ],
	[ 'unnest(d) COLLATE "C" text_pattern_ops', 'm.v', undef, elements('unnest(b.d)') ],
	[ 'e', 'm.v', undef, elements('unnest(b.e)') ],
	[ 'unnest(e) DESC NULLS LAST', 'm.v', undef, elements('unnest(b.e)') ],
	[ '(unnest(e) % 3)', 'm.v', undef, 'SELECT v % 3 AS v, o FROM unnest(b.e) WITH ORDINALITY AS s(v, o)' ],
	[ '(unnest(e) + b)', 'm.v', undef, 'SELECT v + b.b AS v, o FROM unnest(b.e) WITH ORDINALITY AS s(v, o)' ],
	[ 'nums', 'm.v', undef, elements('unnest(b.nums)') ],
	[ 'unnest(nums) DESC', 'm.v', undef, elements('unnest(b.nums)') ],
	[ 'tags', 'm.v', undef, elements('unnest(b.tags)') ],
	[ 'string_to_table(a, \',\')', 'm.v', undef, elements('string_to_table(b.a, \',\')') ],
	[ 'regexp_split_to_table(a, \'\s+\')', 'm.v', undef, elements('regexp_split_to_table(b.a, \'\s+\')') ],
	[ 'unnest(string_to_array(a, \',\'))', 'm.v', undef, elements('unnest(string_to_array(b.a, \',\'))') ],
	[ 'generate_series(b, b + 2)', 'm.v', undef, elements('generate_series(b.b, b.b + 2)') ],
	[ 'jsonb_object_keys(h)', 'm.v', undef, elements('jsonb_object_keys(b.h)') ],
	[ 'jsonb_array_elements_text(h -> \'tags\')', 'm.v', undef, elements('jsonb_array_elements_text(b.h -> \'tags\')') ],
	[ 'lower(string_to_table(a, \',\'))', 'm.v', undef, 'SELECT lower(v) AS v, o FROM string_to_table(b.a, \',\') WITH ORDINALITY AS s(v, o)' ]);

my @unique = (
	[ [ 'uniq', 'b.uniq', 'uniq' ] ],
	[ [ 'uniq DESC NULLS FIRST', 'b.uniq', 'uniq' ] ],
	[ [ 'uniq', 'b.uniq', 'uniq' ], [ 'region', 'b.region', 'region' ] ],
	[ [ 'b', 'b.b', 'b' ], [ 'uniq', 'b.uniq', 'uniq' ] ],
	[ [ 'lower(ucode)', 'lower(b.ucode)' ] ],
	[ [ 'ucode', 'b.ucode', 'ucode' ] ],
	[ [ 'unnest(utags)', 'm.v', undef, elements('unnest(b.utags)') ] ],
	[ [ 'utags', 'm.v', undef, elements('unnest(b.utags)') ] ],
	[ [ 'ucost', 'b.ucost', 'ucost' ] ],
	[ [ 'ucost DESC', 'b.ucost', 'ucost' ], [ 'lower(ucode)', 'lower(b.ucode)' ] ]);

my @predicates = (
	[ 'b > 3', 'b.b > 3' ],
	[ 'b IS NOT NULL', 'b.b IS NOT NULL' ],
	[ 'x <> \'common\'', 'b.x <> \'common\'' ],
	[ 'c = 1.0 OR a IS NULL', '(b.c = 1.0 OR b.a IS NULL)' ],
	[ 'lower(a) LIKE \'%a%\'', 'lower(b.a) LIKE \'%a%\'' ],
	[ '3 = ANY (e)', '3 = ANY (b.e)' ],
	[ 'region IN (\'n\', \'z\')', 'b.region IN (\'n\', \'z\')' ]);

# Returns describe()d index table, with create => SQL.
sub make_index_table
{
	my ($base, $number, $is_unique) = @_;
	my @parts;
	if ($is_unique)
	{
		@parts = @{ pick(@unique) };
	}
	else
	{
		@parts = some(1 + int(rand(3)), @single);
		splice(@parts, int(rand(@parts)), 1, pick(@many)) if chance(0.4);
	}
	my %plain = map { $_->[2] ? ($_->[2] => 1) : () } @parts;
	my @identity = grep { !$plain{$_} } @{ $base->{identity} };
	my %stored = map { $_ => 1 } sort(keys %plain), @{ $base->{identity} };

	my $strategy = pick(qw(normalized normalized partial partial denormalized));
	my (@include, @copied);
	if ($strategy eq 'partial')
	{
		@include = some(1 + int(rand(5)), grep { !$plain{$_} } @{ $base->{columns} });
		@copied = grep { !$stored{$_} } @include;
	}
	elsif ($strategy eq 'denormalized')
	{
		@copied = grep { !$stored{$_} } @{ $base->{columns} };
	}
	my $predicate = chance(0.25) ? pick(@predicates) : undef;
	(my $name = "$base->{name}_i$number") =~ s/\W/_/g;
	my ($many) = grep { $_->[3] } @parts;
	my $table = describe(
		name => $name,
		base => $base->{name},
		key => [ map { $_->[0] =~ /( COLLATE "\w+")/ ? "$_->[1]$1" : $_->[1] } @parts ],
		elements => $many ? $many->[3] : undef,
		predicate => $predicate ? $predicate->[1] : undef,
		copies => [ @identity, @copied ],
		identity => scalar(@identity),
		is_unique => $is_unique);
	my %arguments = (
		strategy => quote_literal($strategy),
		name => quote_literal($name),
		include => @include ? quote_literal(join(', ', @include)) : 'NULL',
		predicate => $predicate ? quote_literal($predicate->[0]) : 'NULL',
		identity => $base->{named_identity} ? quote_literal($base->{named_identity}) : 'NULL',
		is_unique => $is_unique ? 'true' : 'false',
		partitions => chance(0.2) ? 2 + int(rand(3)) : 0);
	$table->{create} =
	    'SELECT index_table.create('
	  . quote_literal($base->{name}) . ', '
	  . quote_literal(join(', ', map { $_->[0] } @parts))
	  . join('', map { ", $_ => $arguments{$_}" } sort keys %arguments) . ");\n";
	$table->{strategy} = $strategy;
	return $table;
}

# --- The whole -----------------------------------------------------------------------

our $helpers = q{
-- Statements from inside a function, where what they change belongs to the statement that calls it.
CREATE FUNCTION run(VARIADIC statements text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE statement text;
BEGIN
	FOREACH statement IN ARRAY statements LOOP EXECUTE statement; END LOOP;
	RETURN 1;
END $$;

CREATE FUNCTION try(VARIADIC statements text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE statement text;
BEGIN
	FOREACH statement IN ARRAY statements LOOP EXECUTE statement; END LOOP;
	RETURN 1;
EXCEPTION WHEN OTHERS THEN
	RETURN 0;
END $$;
};

sub generate
{
	my (%features) = @_;
	my @kinds = some(4, qw(hash list range plain bag));
	my (@bases, @tables);
	my $setup = "SET client_min_messages = error;\nCREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');\nCREATE DOMAIN tag_list AS text[];\n";
	$setup .= "CREATE EXTENSION citext;\n" if $features{citext};
	$setup .= "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);\n"
	  if $features{icu};
	$setup .= "CREATE EXTENSION index_table;\n$helpers";
	my $finish = "SET client_min_messages = error;\n";
	my $prepare = '';
	foreach my $kind (@kinds)
	{
		my ($parent) = chance(0.7) ? grep { $_->{kind} =~ /hash|plain/ } @bases : ();
		my $name = $kind eq 'list' ? '"List Base"' : "${kind}_base";
		my $base = make_base($name, $kind, $parent, %features);
		push @bases, $base;
		$setup .= $base->{create};
		my @own = map { make_index_table($base, $_, $_ <= 2) } 1 .. 6;
		push @tables, @own;
		foreach my $table (@own)
		{
			if (chance(0.5)) { $setup .= $table->{create}; }
			else { $finish .= $table->{create}; }
		}
		my @columns = @{ $base->{input_columns} };
		my @given = grep { !/^(u\w+|pid)$/ } @columns;
		$setup .= "INSERT INTO $name (" . join(', ', @given) . ') VALUES '
		  . join(",\n", map { my $row = $_; '(' . join(', ', map { $_ eq 'id' ? id_value($base, $row) : value($base, $_) } @given) . ')' } 1 .. 50)
		  . ";\n";
		$setup .= "UPDATE $name SET uniq = s.n, ucode = 'u' || s.n, ucost = s.n + 0.25, utags = ARRAY[s.n, 10000 + s.n]"
		  . " FROM (SELECT tableoid AS leaf, ctid AS place, row_number() OVER () AS n FROM $name) s WHERE $name.tableoid = leaf AND $name.ctid = place AND s.n % 3 < 2;\n";
		$setup .= "ALTER TABLE $name DROP COLUMN junk2;\n";
		$finish .= make_triggers($base);
		$finish .= "VACUUM ANALYZE $name;\n";
		$prepare .= prepared_statements($base);
	}
	return {
		setup => $setup,
		finish => $finish,
		prepare => $prepare,
		bases => \@bases,
		tables => \@tables
	};
}

# Statements with parameters: (int), (int, text).
sub prepared_statements
{
	my ($base) = @_;
	my $name = $base->{name};
	(my $plan = $name) =~ s/\W/_/g;
	my $id = id_value($base, '$1');
	my @others = grep { $_ ne 'id' } sort keys %{ $base->{not_null} };
	my $columns = join('', map { ", $_" } @others);
	my $values = join('', map { ", " . value($base, $_) } @others);
	return
	    "PREPARE ${plan}_insert(int, text) AS INSERT INTO $name (id, a, b, x$columns) VALUES ($id, \$2, \$1 % 7, 'y'$values);\n"
	  . "PREPARE ${plan}_update(int, text) AS UPDATE $name SET a = \$2, b = b + 1, d = d || \$2 WHERE id = $id;\n"
	  . "PREPARE ${plan}_delete(int) AS DELETE FROM $name WHERE b = \$1;\n";
}

1;
