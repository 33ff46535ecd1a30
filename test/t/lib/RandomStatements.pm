# Random statements over a schema of RandomTables.
#
#   my @units = RandomStatements::generate($schema, $count, $directory);
#
# A unit is what psql is given between two questions to the oracle:
#   sql      the text, terminated
#   again    the statement in a form that EXECUTE takes, where it has one
#   check    whether the oracle is asked afterwards
package RandomStatements;

use strict;
use warnings;

use IndexTableTest qw(quote_literal);
use RandomTables qw(chance pick some value id_value row_values);

my $file; # for COPY, a path on the server and the client

# --- Parts ------------------------------------------------------------------------

sub condition
{
	my ($base) = @_;
	my $what = rand();
	return 'id = ' . id_value($base) if $what < 0.25;
	return 'id IN (' . join(', ', map { id_value($base) } 1 .. 4) . ')' if $what < 0.4;
	return 'b = ' . (int(rand(16)) - 3) if $what < 0.5;
	return 'b BETWEEN 2 AND ' . (2 + int(rand(3))) if $what < 0.55;
	return pick('a', 'f', 't', 'en', 'c', 'g') . ' IS NOT NULL AND r = ' . int(rand(40)) if $what < 0.65;
	return 'region = ' . value($base, 'region') . ' AND b > 6' if $what < 0.7;
	return int(rand(6)) . ' = ANY (e)' if $what < 0.75;
	return "md5(coalesce(a, '') || coalesce(b::text, '') || '" . int(rand(99)) . "') < '2'" if $what < 0.9;
	return "x = '" . pick(qw(common y tomb chain stmt)) . "' AND md5(coalesce(b, 0)::text || '" . int(rand(99)) . "') < '8'"
	  if $what < 0.97;
	return 'true';
}

# New values made of old ones; they do not collide more than the old ones did.
my %changes = (
	a => [ "left(a || 'x', 8)", 'upper(a)', "replace(a, 'a', 'b')" ],
	b => [ 'b + 1', '-b', 'b' ],
	c => [ 'round(c, 3)', 'trim_scale(c)', 'c + 1' ],
	d => [ "d[1:3] || 'a'::text", "array_remove(d, 'a')" ],
	e => [ 'e[1:4] || 4', 'array_remove(e, 2)', 'e' ],
	f => [ 'upper(f::text)', 'lower(f::text)' ],
	g => [ 'g + 1' ],
	nums => [ 'nums[1:3] || 1.00', '1.0 || nums[1:3]' ],
	t => [ 'upper(t)', 'lower(t)' ],
	uniq => [ 'uniq + 3000', 'uniq' ],
	ucost => [ 'ucost + 0.0', 'trim_scale(ucost)' ],
	ucode => [ 'upper(ucode)', 'lower(ucode)' ],
	big => [ 'big' ]);

sub assignments
{
	my ($base, @columns) = @_;
	return join(
		', ',
		map {
			"$_ = " . ($changes{$_} && chance($_ =~ /^u/ ? 0.7 : 0.4) ? pick(@{ $changes{$_} }) : value($base, $_))
		} @columns);
}

sub changed_columns
{
	my ($base) = @_;
	my @columns = grep { $_ ne 'id' } @{ $base->{input_columns} };
	my $what = rand();
	return some(1 + int(rand(3)), grep { /^[abcdefghntr"]/ } @columns) if $what < 0.4;
	return pick('b', 'a', 'x') if $what < 0.5;
	return some(1 + int(rand(2)), qw(region r)) if $what < 0.65;
	return some(1 + int(rand(2)), qw(big x)) if $what < 0.75;
	return some(1 + int(rand(2)), qw(uniq ucode utags ucost)) if $what < 0.9;
	return @columns;
}

# Columns of an insertion: those that must be, and others.
sub inserted_columns
{
	my ($base) = @_;
	my @columns = @{ $base->{input_columns} };
	return @columns if chance(0.6);
	my @needed = sort keys %{ $base->{not_null} };
	push @needed, 'id' unless $base->{not_null}{id};
	my %needed = map { $_ => 1 } @needed;
	return some(99, @needed, some(8, grep { !$needed{$_} } @columns));
}

# A new identity for each selected row, and its other columns.
sub selected_columns
{
	my ($base, @columns) = @_;
	my $first = int(rand(140));
	return join(
		', ',
		map {
			    $_ eq 'id' ? id_value($base, "(($first + row_number() OVER ())::int % 140 + 1)")
			  : /^u/ ? ($_ eq 'uniq' && chance(0.5) ? '3000 + ' . int(rand(5000)) . ' + row_number() OVER ()::int' : "NULL::$base->{types}{$_}")
			  : $_ eq 'b' ? 'b + 1'
			  : $_
		} @columns);
}

# --- Single statements ---------------------------------------------------------------
# Each returns SQL without a semicolon.

sub insert
{
	my ($base, $target) = @_;
	my $name = $target // $base->{name};
	my @columns = inserted_columns($base);
	my $rows = chance(0.6) ? 1 : 2 + int(rand(6));
	my $sql = "INSERT INTO $name (" . join(', ', @columns) . ') VALUES ' . join(', ', map { row_values($base, @columns) } 1 .. $rows);
	my $what = rand();
	return $sql if $what < 0.4 || $target;
	return "$sql ON CONFLICT DO NOTHING" if $what < 0.7 || !@{ $base->{key} };
	my %key = map { $_ => 1 } @{ $base->{key} };
	my @changed = some(1 + int(rand(4)), grep { !$key{$_} && $_ ne 'pid' } @columns);
	return "$sql ON CONFLICT DO NOTHING" unless @changed;
	return
	    "$sql ON CONFLICT (" . join(', ', @{ $base->{key} }) . ') DO UPDATE SET '
	  . join(', ', map { "$_ = " . pick("EXCLUDED.$_", $_ eq 'b' ? "$name.b + 1" : "EXCLUDED.$_") } @changed)
	  . (chance(0.3) ? " WHERE $name.b > 1" : '');
}

sub insert_select
{
	my ($base, $target) = @_;
	my $name = $target // $base->{name};
	my @columns = inserted_columns($base);
	my $select = selected_columns($base, @columns);
	return
	    "INSERT INTO $name (" . join(', ', @columns) . ") SELECT $select FROM $name WHERE "
	  . condition($base)
	  . ' LIMIT ' . (1 + int(rand(25)))
	  . (chance(0.8) ? ' ON CONFLICT DO NOTHING' : '');
}

sub update
{
	my ($base, $target) = @_;
	my $name = $target // $base->{name};
	my $what = rand();
	my $returning = chance(0.1) ? ' RETURNING *' : '';
	return "UPDATE $name SET id = " . id_value($base) . ' WHERE id = ' . id_value($base) . $returning if $what < 0.1;
	return "UPDATE $name SET b = b, a = a, x = x WHERE " . condition($base) if $what < 0.14;
	my $sql = "UPDATE $name SET " . assignments($base, changed_columns($base));
	return "$sql FROM (VALUES (1), (3), (5)) s(n) WHERE $name.b = s.n" if $what < 0.2;
	return "$sql WHERE " . condition($base) . $returning;
}

sub delete_rows
{
	my ($base, $target) = @_;
	my $name = $target // $base->{name};
	return "DELETE FROM $name USING (VALUES (2), (4)) s(n) WHERE $name.b = s.n AND $name.r < 20" if chance(0.1);
	return "DELETE FROM $name WHERE " . condition($base) . (chance(0.1) ? ' RETURNING a, b' : '');
}

# One statement that hands unique keys round.
sub rotate
{
	my ($base) = @_;
	my $name = $base->{name};
	my $column = pick(qw(uniq ucode ucost utags));
	my $some = chance(0.5) ? 'true' : condition($base);
	return
	    "UPDATE $name SET $column = s.given FROM (SELECT tableoid AS leaf, ctid AS place, "
	  . "coalesce(lead($column) OVER w, first_value($column) OVER w) AS given FROM $name "
	  . "WHERE $column IS NOT NULL AND ($some) WINDOW w AS (ORDER BY md5($column\::text))) s "
	  . "WHERE $name.tableoid = s.leaf AND $name.ctid = s.place";
}

sub shift_keys
{
	my ($base) = @_;
	return "UPDATE $base->{name} SET uniq = uniq + 1 WHERE uniq > " . int(rand(3000)) if chance(0.5);
	return "UPDATE $base->{name} SET ucost = -ucost, utags = utags || ARRAY[uniq + 20000] WHERE " . condition($base);
}

# Rows leave and come back in the same statement.
sub replace_rows
{
	my ($base) = @_;
	my @columns = @{ $base->{input_columns} };
	my $list = join(', ', @columns);
	my $select = join(', ', map { $_ eq 'b' ? 'b + 1' : $_ eq 'region' ? value($base, 'region') : $_ } @columns);
	return
	    "WITH gone AS (DELETE FROM $base->{name} WHERE " . condition($base)
	  . " RETURNING *) INSERT INTO $base->{name} ($list) SELECT $select FROM gone" . (chance(0.3) ? ' WHERE b > 4' : '');
}

sub two_at_once
{
	my ($base) = @_;
	my @parts = map { pick(\&update, \&insert, \&delete_rows)->($base) } 1 .. 2;
	@parts = map { without_result($_) } @parts;
	return "WITH w1 AS ($parts[0] RETURNING b), w2 AS ($parts[1] RETURNING b) SELECT count(*) FROM w1, w2";
}

sub merge
{
	my ($base) = @_;
	my $name = $base->{name};
	my @numbers = map { 1 + int(rand($base->{numbers})) } 1 .. 5;
	my @columns = inserted_columns($base);
	my $id = id_value($base, 's.n');
	return
	    "MERGE INTO $name t USING (VALUES " . join(', ', map { "($_)" } @numbers) . ") s(n) ON t.id = $id"
	  . (chance(0.5) ? ' WHEN MATCHED AND t.b % 3 = 0 THEN DELETE' : '')
	  . ' WHEN MATCHED THEN UPDATE SET ' . assignments($base, changed_columns($base))
	  . (chance(0.7)
		? ' WHEN NOT MATCHED THEN INSERT (' . join(', ', @columns) . ') VALUES ('
		  . join(', ', map { $_ eq 'id' ? $id : value($base, $_) } @columns) . ')'
		: '');
}

# Must fail, and leave nothing.
sub failing
{
	my ($base) = @_;
	my $name = $base->{name};
	my @columns = @{ $base->{input_columns} };
	my @rows = map { row_values($base, @columns) } 1 .. 3;
	return pick(
		"UPDATE $name SET b = 1 / (b - b), a = a || 'z' WHERE b > 0",
		"UPDATE $name SET uniq = 77, ucode = 'same', utags = '{1}', ucost = 1.0",
		"INSERT INTO $name (" . join(', ', @columns) . ") VALUES $rows[0], $rows[1], $rows[0]",
		"UPDATE $name SET a = a || 'z', region = 'nowhere', r = NULL WHERE b < 5",
		"UPDATE $name SET uniq = NULL, b = (SELECT 1 / count(*) FROM $name WHERE false)");
}

sub on_leaf
{
	my ($base) = @_;
	return pick(\&update, \&delete_rows, \&insert_select, \&insert)->($base, pick(@{ $base->{leaves} }));
}

sub prune
{
	my ($base) = @_;
	return "DELETE FROM $base->{name} WHERE ctid IN (SELECT ctid FROM $base->{name} ORDER BY md5(b::text || ctid::text || '"
	  . int(rand(99)) . "') OFFSET " . (40 + int(rand(20))) . ')';
}

my @statements = (
	(\&update) x 12,
	(\&insert) x 10,
	(\&delete_rows) x 4,
	(\&insert_select) x 4,
	(\&rotate) x 2,
	(\&shift_keys) x 1,
	(\&replace_rows) x 2,
	(\&two_at_once) x 2,
	(\&failing) x 2,
	(\&on_leaf) x 4,
	(\&prune) x 3);

sub statement
{
	my ($schema) = @_;
	my $base = pick(@{ $schema->{bases} });
	return merge($base) if $schema->{has_merge} && chance(0.05);
	return pick(@statements)->($base);
}

# As plpgsql takes it.
sub without_result
{
	my ($statement) = @_;
	return 'PERFORM run(' . quote_literal($statement) . ')' if $statement =~ /^WITH w1/;
	$statement =~ s/ RETURNING .*// if $statement !~ /^WITH/;
	return $statement;
}

# --- Around statements -----------------------------------------------------------------

# As one statement that PostgreSQL runs: alone, or in a block or function with others.
sub command
{
	my ($schema) = @_;
	my $what = rand();
	return statement($schema) if $what < 0.72;
	my @inner = map { statement($schema) } 1 .. 4;
	return 'SELECT run(' . join(', ', map { quote_literal($_) } @inner[ 0 .. int(rand(3)) ]) . ')' if $what < 0.77;
	return 'SELECT run(' . quote_literal($inner[0]) . '), try(' . quote_literal($inner[1]) . ', ' . quote_literal($inner[2]) . ')'
	  if $what < 0.84;
	my $base = pick(@{ $schema->{bases} });
	return "UPDATE $base->{name} SET b = b + try(" . quote_literal($inner[0]) . ') WHERE ' . condition($base) if $what < 0.86;
	@inner = map { without_result($_) } @inner;
	my $end = pick('', '', "RAISE 'undone';", 'PERFORM 1 / 0;');
	return "DO \$do\$ BEGIN $inner[0]; BEGIN $inner[1]; $inner[2]; $end EXCEPTION WHEN OTHERS THEN "
	  . (chance(0.5) ? 'NULL' : $inner[3])
	  . '; END; END $do$'
	  if $what < 0.95;
	return "DO \$do\$ BEGIN SET LOCAL session_replication_role = replica; $inner[0]; $inner[1]; SET LOCAL session_replication_role = origin; END \$do\$";
}

sub unit
{
	my ($sql, %more) = @_;
	return { sql => "$sql;\n", check => 1, %more };
}

sub command_unit
{
	my ($schema) = @_;
	my $sql = command($schema);
	# A block or function may have a key twice in between.
	return $sql =~ /^(DO|SELECT)/ ? unit($sql) : unit($sql, again => $sql);
}

sub copy_unit
{
	my ($schema) = @_;
	my $base = pick(@{ $schema->{bases} });
	my $name = $base->{name};
	my @columns = inserted_columns($base);
	my $list = join(', ', @columns);
	my $select = selected_columns($base, @columns);
	my $source = chance(0.2) ? pick(@{ $base->{leaves} }) : $name;
	my $target = chance(0.1) ? $source : $name;
	my $where = chance(0.2) ? ' WHERE b > 2' : '';
	my $limit = 1 + int(rand(30));
	my $from = chance(0.5) ? "\\copy $target ($list) FROM '$file'$where\n" : "COPY $target ($list) FROM '$file'$where;\n";
	return {
		sql => "COPY (SELECT $select FROM $source WHERE " . condition($base) . " LIMIT $limit) TO '$file';\n$from",
		check => 1
	};
}

sub prepared_unit
{
	my ($schema) = @_;
	my $base = pick(@{ $schema->{bases} });
	(my $plan = $base->{name}) =~ s/\W/_/g;
	my $word = value($base, 'a');
	return unit("EXECUTE ${plan}_delete(" . int(rand(10)) . ')') if chance(0.2);
	return unit("EXECUTE ${plan}_" . pick('insert', 'update') . '(' . (1 + int(rand($base->{numbers}))) . ", $word)");
}

# Partitions that leave and return, with rows or without, and the index tables likewise.
sub ddl_unit
{
	my ($schema) = @_;
	my $what = rand();
	if ($what < 0.3)
	{
		my $table = pick(@{ $schema->{tables} });
		my $name = quote_literal($table->{name});
		(my $create = $table->{create}) =~ s/^SELECT/PERFORM/;
		return unit("DO \$do\$ BEGIN IF to_regclass($name) IS NULL THEN $create ELSE PERFORM index_table.drop($name); END IF; END \$do\$");
	}
	my ($base) = some(1, grep { @{ $_->{spares} } } @{ $schema->{bases} });
	if ($base && $what < 0.8)
	{
		my $spare = pick(@{ $base->{spares} });
		my ($name, $bound, $parent) = @{$spare}{qw(name bound parent)};
		my $attached = "EXISTS (SELECT FROM pg_inherits WHERE inhrelid = '$name'::regclass)";
		return unit("DO \$do\$ BEGIN IF $attached THEN ALTER TABLE $parent DETACH PARTITION $name; ELSE "
			  . "ALTER TABLE $parent ATTACH PARTITION $name $bound; END IF; END \$do\$")
		  if $what < 0.6;
		return unit("DO \$do\$ BEGIN IF NOT $attached THEN UPDATE $name SET b = b + 1, uniq = uniq + 1; "
			  . "DELETE FROM $name WHERE b < 4; END IF; END \$do\$")
		  if $what < 0.7 || $name =~ /mid/;
		my $index = $base->{named_identity} && $base->{kind} eq 'list' ? "CREATE UNIQUE INDEX ON $name (id);" : '';
		return unit("DO \$do\$ BEGIN DROP TABLE $name; CREATE TABLE $name PARTITION OF $parent $bound; $index END \$do\$");
	}
	$base = pick(@{ $schema->{bases} });
	my $leaf = pick(@{ $base->{leaves} });
	return unit('TRUNCATE ' . (chance(0.7) ? $leaf : $base->{name}) . ' CASCADE') if $what < 0.9;
	return unit("ALTER TABLE $base->{name} ALTER x SET STATISTICS " . int(rand(100)));
}

sub upkeep_unit
{
	my ($schema) = @_;
	my $base = pick(@{ $schema->{bases} });
	my $table = pick(@{ $schema->{tables} });
	my $what = rand();
	return unit("SELECT oracle.verify_all('verify')") if $what < 0.2;
	return unit("SELECT oracle.read_all('reading', " . (1 + int(rand(30))) . ')') if $what < 0.4;
	return unit("VACUUM $base->{name}") if $what < 0.6;
	return unit("VACUUM $table->{name}") if $what < 0.8;
	return unit("VACUUM FULL $table->{name}") if $what < 0.9;
	return unit("REINDEX TABLE $table->{name}");
}

# Units with a state of their own between them.
sub cursor_units
{
	my ($schema) = @_;
	my $base = pick(@{ $schema->{bases} });
	my $name = $base->{name};
	my @units = (unit("DECLARE cur CURSOR FOR SELECT * FROM $name WHERE " . condition($base) . ' FOR UPDATE'));
	foreach (1 .. 1 + int(rand(3)))
	{
		push @units, unit('FETCH ' . (1 + int(rand(2))) . ' FROM cur');
		push @units,
		  chance(0.3)
		  ? unit("DELETE FROM $name WHERE CURRENT OF cur")
		  : unit("UPDATE $name SET " . assignments($base, changed_columns($base)) . ' WHERE CURRENT OF cur');
	}
	return (@units, unit('CLOSE cur'));
}

sub transaction_units
{
	my ($schema) = @_;
	my $goes_on = chance(0.5);
	my $begin = 'BEGIN' . (chance(0.2) ? ' ISOLATION LEVEL ' . pick('REPEATABLE READ', 'SERIALIZABLE') : '');
	my @units = ({ sql => '\set ON_ERROR_ROLLBACK ' . ($goes_on ? 'on' : 'off') . "\n$begin;\n", check => 0 });
	my @savepoints;
	foreach (1 .. 2 + int(rand(7)))
	{
		my $what = rand();
		if ($what < 0.15)
		{
			push @savepoints, 's' . @savepoints;
			push @units, unit("SAVEPOINT $savepoints[-1]");
		}
		elsif ($what < 0.28 && @savepoints)
		{
			my $which = int(rand(@savepoints));
			push @units, unit("ROLLBACK TO $savepoints[$which]");
			@savepoints = @savepoints[ 0 .. $which ];
		}
		elsif ($what < 0.36 && @savepoints)
		{
			my $which = int(rand(@savepoints));
			push @units, unit("RELEASE $savepoints[$which]");
			@savepoints = $which ? @savepoints[ 0 .. $which - 1 ] : ();
		}
		elsif ($what < 0.4) { push @units, ddl_unit($schema); }
		elsif ($what < 0.47) { push @units, cursor_units($schema); }
		elsif ($what < 0.52) { push @units, copy_unit($schema); }
		elsif ($what < 0.56) { push @units, prepared_unit($schema); }
		else { push @units, command_unit($schema); }
		# Without the oracle's questions nothing stands between two statements.
		$units[-1]{check} = 0 if chance(0.3);
	}
	return (@units, unit(chance(0.7) ? 'COMMIT' : 'ROLLBACK'), { sql => "\\set ON_ERROR_ROLLBACK off\n", check => 0 });
}

sub generate
{
	my ($schema, $count, $directory) = @_;
	$file = "$directory/copied";
	my @units;
	while (@units < $count)
	{
		my $what = rand();
		if ($what < 0.66) { push @units, command_unit($schema); }
		elsif ($what < 0.7) { push @units, copy_unit($schema); }
		elsif ($what < 0.74) { push @units, prepared_unit($schema); }
		elsif ($what < 0.77) { push @units, ddl_unit($schema); }
		elsif ($what < 0.79) { push @units, upkeep_unit($schema); }
		elsif ($what < 0.82)
		{
			# Several statements in one message, which makes one transaction.
			push @units, unit(join("\\;\n", map { statement($schema) } 1 .. 3));
		}
		elsif ($what < 0.84)
		{
			my @inner = map { without_result(statement($schema)) } 1 .. 5;
			push @units, unit('DO $do$ BEGIN ' . join(' ', map { "$_; " . pick('COMMIT;', 'ROLLBACK;', '') } @inner) . ' END $do$');
		}
		else { push @units, transaction_units($schema); }
	}
	return @units;
}

1;
