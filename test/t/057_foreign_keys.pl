# Foreign keys that point at a unique index table of a partitioned table do what foreign keys do that
# point at a table without partitions: random statements, each in both; equal must be the SQLSTATE of each
# and what all tables hold after it.
#
#   FOREIGN_KEYS_SEED     repeats a run
#   FOREIGN_KEYS_COUNT    how many statements in all (2000)
#   FOREIGN_KEYS_SCHEMAS  over how many schemas (8)
#   FOREIGN_KEYS_SAVE     a directory for the scripts of schemas where something differs
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest qw(how_many new_node check_storage);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{FOREIGN_KEYS_SEED} // int(rand(2**31));
my $total = how_many('FOREIGN_KEYS_COUNT', 2000);
my $schemas = $ENV{FOREIGN_KEYS_SCHEMAS} // 8;

my $node = new_node('foreign_keys', conf => "restart_after_crash = on\njit = off\nfsync = off\n");
my @sides = qw(through native);
my %count = map { $_ => 0 } qw(statements failing first_of_errors referring);

sub pick { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }

# --- Schemas ------------------------------------------------------------------------

# A key of one or two columns, and values for it: few, so that they meet.
my @kinds = (
	{ columns => ['k'], types => ['text'], value => sub { "'" . pick('a' .. 'j') . "'" }, fresh => sub { "'f$_[0] ' || id" } },
	{ columns => ['k'], types => ['numeric'], value => sub { int(rand(10)) . pick('', '.0', '.00') }, fresh => sub { 100 * $_[0] . '.0 + id' } },
	{ columns => [ 'k', 'l' ], types => [ 'int', 'text' ], value => sub { int(rand(4)) . ", '" . pick('x' .. 'z') . "'" } });

# What follows REFERENCES table (key): a match type before the actions, a deferral after them.
sub actions
{
	my ($match) = @_;
	my @actions = ('NO ACTION', 'RESTRICT', 'CASCADE', 'CASCADE', 'CASCADE', 'SET NULL', 'SET DEFAULT');
	return "$match ON DELETE " . pick(@actions) . ' ON UPDATE ' . pick(@actions) . pick('', '', ' DEFERRABLE', ' DEFERRABLE INITIALLY DEFERRED');
}

sub make_schema
{
	my $kind = pick(@kinds);
	my @key = @{ $kind->{columns} };
	my $list = join(', ', @key);
	my $columns = join(', ', map { "$key[$_] $kind->{types}[$_]" } 0 .. $#key);
	my $match = @key > 1 ? pick('', ' MATCH FULL') : '';
	my $strategy = pick(qw(normalized partial denormalized));
	my $create = sub {
		my ($table) = @_;
		my $include = $strategy eq 'partial' ? ", include => 'note'" : '';
		return "SELECT index_table.create('$table', '$list', '$strategy', name => '${table}_keys', is_unique => true$include, partitions => " . pick(0, 0, 3) . ");\n";
	};
	my $references = sub {
		my ($table) = @_;
		return "FOREIGN KEY ($list) REFERENCES \@$table\@ ($list)" . actions($match);
	};
	my $defaults = join(', ', map { "$key[$_] $kind->{types}[$_] DEFAULT " . (split(/, /, $kind->{value}->()))[$_] } 0 .. $#key);
	my $self = chance(0.4);
	my $parent = join(', ', map { "p$key[$_] $kind->{types}[$_]" } 0 .. $#key);
	my $parents = join(', ', map { "p$_" } @key);
	my ($through, $native) = ('CREATE EXTENSION index_table;', '');
	my $body = "id int PRIMARY KEY, $columns, note text DEFAULT 'n'" . ($self ? ", $parent" : '');
	$through .= "CREATE TABLE customers ($body) PARTITION BY RANGE (id);\n"
	  . join('', map { "CREATE TABLE customers_$_ PARTITION OF customers FOR VALUES FROM (" . 10 * $_ . ') TO (' . 10 * ($_ + 1) . ");\n" } 0 .. 2)
	  . $create->('customers');
	$native .= "CREATE TABLE customers ($body, UNIQUE ($list));\n";
	my $shared = '';
	$shared .= "ALTER TABLE customers ADD FOREIGN KEY ($parents) REFERENCES \@customers\@ ($list)" . pick('', ' ON UPDATE CASCADE', ' ON DELETE SET NULL ON UPDATE CASCADE') . " DEFERRABLE INITIALLY DEFERRED;\n" if $self;
	# Orders are partitioned and have an index table of their own where lines refer to it.
	my $chain = chance(0.5);
	my $orders = "id int PRIMARY KEY, $defaults, note text DEFAULT 'n', " . $references->('customers');
	if ($chain)
	{
		$through .= "CREATE TABLE orders ($orders) PARTITION BY HASH (id);\n"
		  . join('', map { "CREATE TABLE orders_$_ PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER $_);\n" } 0 .. 1)
		  . $create->('orders');
		$native .= "CREATE TABLE orders ($orders, UNIQUE ($list));\n";
		$shared .= "CREATE TABLE lines (id int PRIMARY KEY, $columns, " . $references->('orders') . ");\n";
	}
	else
	{
		$_ .= "CREATE TABLE orders ($orders);\n" foreach $through, $native;
		$shared .= "CREATE TABLE lines (id int PRIMARY KEY, $columns, " . $references->('customers') . ");\n";
	}
	if (chance(0.6))
	{
		my $nested = chance(0.5) ? "IF TG_OP = 'UPDATE' AND new.note = 'again' THEN UPDATE customers SET note = 'done' WHERE id = new.id; END IF;" : '';
		my $name = pick('a_audit', 'z_audit');
		$shared .= "CREATE TABLE audit (entry text);\nCREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN INSERT INTO audit VALUES (TG_OP); $nested RETURN NULL; END \$\$;\n"
		  . "CREATE TRIGGER $name AFTER INSERT OR UPDATE OR DELETE ON customers FOR EACH ROW EXECUTE FUNCTION audit();\n";
	}
	my $matches = sub {
		my ($table, @columns) = @_;
		return "SELECT FROM $table r JOIN customers c ON " . join(' AND ', map { "r.$columns[$_] = c.$key[$_]" } 0 .. $#key) . ' WHERE c.id / 10 = part';
	};
	my @referring = ($matches->('orders', @key));
	push @referring, $matches->('lines', @key) unless $chain;
	push @referring, $matches->('customers', map { "p$_" } @key) . ' AND r.id / 10 <> part' if $self;
	$native .= "CREATE FUNCTION leave(part int) RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN\nIF "
	  . join(' OR ', map { "EXISTS ($_)" } @referring)
	  . " THEN RAISE foreign_key_violation; END IF;\nSET LOCAL session_replication_role = replica; DELETE FROM customers WHERE id / 10 = part; SET LOCAL session_replication_role = origin;\nEND \$\$;\n";
	$through .= "CREATE FUNCTION leave(part int) RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN EXECUTE 'TRUNCATE customers_' || part; END \$\$;\n";
	my $state = join(" || ' / ' || ", map { "coalesce((SELECT string_agg(t::text, ' ' ORDER BY id) FROM $_ AS t), '')" } qw(customers orders lines));
	$shared .= "CREATE FUNCTION state() RETURNS text LANGUAGE sql AS \$\$ SELECT $state \$\$;\n";
	my @copies = $strategy eq 'normalized' ? () : $strategy eq 'partial' ? ('note') : ('note', $self ? map { "p$_" } @key : ());
	my $problems = sub {
		my ($table, @copied) = @_;
		my $columns = join(', ', @key, 'partition_id', 'id', @copied);
		return "(SELECT count(*) FROM ((SELECT ROW($columns)::text FROM ${table}_keys EXCEPT ALL SELECT ROW($columns)::text FROM $table b JOIN index_table.partition p ON p.relation = b.tableoid)"
		  . " UNION ALL (SELECT ROW($columns)::text FROM $table b LEFT JOIN index_table.partition p ON p.relation = b.tableoid EXCEPT ALL SELECT ROW($columns)::text FROM ${table}_keys)) AS d)";
	};
	$through .= 'CREATE FUNCTION problems() RETURNS bigint LANGUAGE sql AS $$ SELECT ' . $problems->('customers', @copies) . ($chain ? ' + ' . $problems->('orders', grep { $_ eq 'note' } @copies) : '') . " \$\$;\n";
	$native .= "CREATE FUNCTION problems() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';\n";
	my %setup = (through => "$through$shared", native => "$native$shared");
	$setup{through} =~ s/@(\w+)@/$1_keys/g;
	$setup{native} =~ s/@(\w+)@/$1/g;
	return { kind => $kind, list => $list, key => \@key, self => $self, chain => $chain, one_by_one => $orders =~ /SET DEFAULT/ ? 1 : 0, setup => \%setup };
}

# --- Statements -----------------------------------------------------------------------

my $fresh = 0;

sub statement
{
	my ($schema, $in_transaction) = @_;
	my ($kind, $list, @key) = ($schema->{kind}, $schema->{list}, @{ $schema->{key} });
	my $value = sub { return chance(0.06) ? join(', ', ('NULL') x @key) : $kind->{value}->(); };
	my $set = @key > 1 ? sub { return "($list) = (" . $value->() . ')'; } : sub { return "k = " . $value->(); };
	my $equals = @key > 1 ? sub { return "($list) = (" . $kind->{value}->() . ')'; } : sub { return "k = " . $kind->{value}->(); };
	my $id = sub { return int(rand(30)); };
	my @kinds = (
		sub { 'INSERT INTO customers (id, ' . $list . ') VALUES (' . $id->() . ', ' . $value->() . ')' },
		sub { 'INSERT INTO customers (id, ' . $list . ') VALUES (' . $id->() . ', ' . $value->() . ')' },
		sub { 'INSERT INTO orders (id, ' . $list . ') VALUES (' . $id->() . ', ' . $value->() . ')' },
		sub { 'INSERT INTO orders (id, ' . $list . ') VALUES (' . $id->() . ', ' . $value->() . ')' },
		sub { my $from = $schema->{chain} ? 'orders' : 'customers'; "INSERT INTO lines (id, $list) SELECT " . $id->() . ", $list FROM $from WHERE id >= " . $id->() . ' ORDER BY id LIMIT 1' },
		sub { "INSERT INTO orders (id, $list) SELECT id, $list FROM customers WHERE id >= " . $id->() . ' ORDER BY id LIMIT 1' },
		sub { 'UPDATE customers SET ' . $set->() . ' WHERE id = ' . $id->() },
		sub { 'UPDATE customers SET ' . $set->() . ' WHERE ' . $equals->() },
		sub { 'UPDATE customers SET ' . $set->() . ", note = 'again' WHERE id = " . $id->() },
		sub { 'UPDATE customers SET id = ' . $id->() . ' WHERE id = ' . $id->() },
		sub { 'UPDATE customers SET id = ' . $id->() . ', ' . $set->() . ' WHERE id = ' . $id->() },
		sub { "UPDATE customers SET note = 'note " . $id->() . "' WHERE id < " . $id->() },
		sub { 'UPDATE orders SET ' . $set->() . ' WHERE id = ' . $id->() },
		sub { 'DELETE FROM customers WHERE id = ' . $id->() },
		sub { 'DELETE FROM customers WHERE ' . $equals->() },
		sub { my $from = $id->(); "DELETE FROM customers WHERE id BETWEEN $from AND $from + " . ($schema->{one_by_one} ? 0 : 3) },
		sub { 'DELETE FROM orders WHERE id = ' . $id->() },
		sub { 'DELETE FROM orders WHERE id < ' . $id->() },
		sub { 'DELETE FROM lines WHERE id < ' . $id->() },
		sub { 'WITH gone AS (DELETE FROM customers WHERE ' . $equals->() . ") DELETE FROM orders WHERE id = " . $id->() },
		sub { 'MERGE INTO customers c USING (SELECT ' . $id->() . ' AS id) s ON c.id = s.id WHEN MATCHED AND c.id < 15 THEN DELETE WHEN MATCHED THEN UPDATE SET ' . $set->() . " WHEN NOT MATCHED THEN INSERT (id, $list) VALUES (s.id, " . $value->() . ')' });
	# Keys that nobody has: PostgreSQL's answer would depend on the order of rows. So it does where a
	# statement takes the default of a row that refers away, too: before that row gets it, or after.
	push @kinds, sub { 'UPDATE customers SET k = ' . $kind->{fresh}->(++$fresh) . ' WHERE id ' . ($schema->{one_by_one} ? '= ' : '< ') . $id->() } if $kind->{fresh};
	push @kinds, sub { 'UPDATE customers SET id = (id + 10) % 30, k = ' . $kind->{fresh}->(++$fresh) . " WHERE id % 10 = " . int(rand(10)) . ' AND id < 20 AND NOT EXISTS (SELECT FROM customers c WHERE c.id = customers.id + 10)' } if $kind->{fresh} && !$schema->{one_by_one};
	push @kinds, sub { 'SET CONSTRAINTS ALL ' . pick('DEFERRED', 'IMMEDIATE') } if $in_transaction;
	push @kinds, sub { 'SELECT leave(' . int(rand(3)) . ')' } unless $in_transaction;
	push @kinds, sub { 'UPDATE customers SET (' . join(', ', map { "p$_" } @key) . ') = (SELECT ' . $list . ' FROM customers WHERE id >= ' . $id->() . ' ORDER BY id LIMIT 1) WHERE id = ' . $id->() } if $schema->{self};
	push @kinds, sub { 'UPDATE customers SET (' . join(', ', map { "p$_" } @key) . ') = (' . $value->() . ') WHERE id = ' . $id->() } if $schema->{self} && @key > 1;
	return pick(@kinds)->();
}

sub script
{
	my ($schema, $count) = @_;
	my @steps;
	my $depth = 0; # 0: no transaction; 1: one; more: savepoints
	while (@steps < $count)
	{
		my $step;
		if ($depth == 0 && chance(0.15)) { ($step, $depth) = ('BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ'), 1); }
		elsif ($depth > 0 && chance(0.1)) { ($step, $depth) = (pick('COMMIT', 'COMMIT', 'ROLLBACK'), 0); }
		elsif ($depth > 0 && chance(0.12)) { $step = "SAVEPOINT s$depth"; $depth++; }
		elsif ($depth > 1 && chance(0.2)) { $depth--; $step = pick("ROLLBACK TO s$depth", "RELEASE s$depth"); }
		else { $step = statement($schema, $depth > 0); }
		push @steps, $step;
	}
	push @steps, 'COMMIT' if $depth > 0;
	my $text = "\\set VERBOSITY sqlstate\n\\set ON_ERROR_ROLLBACK on\nSET client_min_messages = error;\n";
	foreach my $number (0 .. $#steps)
	{
		$text .= "$steps[$number];\n\\set state :SQLSTATE\n\\echo \@ $number :state\nSELECT state();\nSELECT problems();\n";
	}
	return (\@steps, $text);
}

# --- The test -------------------------------------------------------------------------

sub write_file
{
	my ($path, $text) = @_;
	open my $file, '>', $path or die $!;
	print $file $text;
	close $file;
	return $path;
}

# Statement number => what psql printed after it.
sub sections
{
	my ($output) = @_;
	my (@sections, $current);
	foreach my $line (split /\n/, $output)
	{
		if ($line =~ /^@ (\d+) (.*)$/) { $current = $1; $sections[$current] = [$2]; }
		elsif (defined $current && $line =~ /\S/) { push @{ $sections[$current] }, $line; }
	}
	return \@sections;
}

note("FOREIGN_KEYS_SEED=$seed");
my $directory = PostgreSQL::Test::Utils::tempdir();
foreach my $number (1 .. $schemas)
{
	srand($seed * 1013 + $number);
	my $schema = make_schema();
	my ($steps, $text) = script($schema, int($total / $schemas));
	my (%sections, $errors);
	foreach my $side (@sides)
	{
		$node->safe_psql('postgres', "CREATE DATABASE $side");
		local $ENV{PGOPTIONS} = '-c session_preload_libraries=index_table';
		my $error;
		$node->psql($side, $schema->{setup}{$side}, stderr => \$error, on_error_stop => 1);
		$errors .= $error;
		my $file = write_file("$directory/$side.sql", $text);
		my ($output, $messages) = ('', '');
		IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr($side), '-f', $file ], '>', \$output, '2>', \$messages, IPC::Run::timeout(600));
		$errors .= $messages if $messages =~ /connection|XX\d\d\d/;
		$sections{$side} = sections($output);
	}
	is($errors, '', "schema $number: set up, no crash, no internal error");
	my $difference;
	foreach my $step (0 .. $#$steps)
	{
		my ($through, $native) = map { $sections{$_}[$step] // ['nothing'] } @sides;
		$count{statements}++;
		$count{failing}++ if $native->[0] ne '00000';
		my $has_order = ($native->[1] // '') =~ m{/ .*\(};
		$count{referring}++ if $has_order;
		next if "@$through" eq "@$native";
		# Of two errors either may come first.
		if ($through->[0] =~ /^23/ && $native->[0] =~ /^23/ && "@$through[1 .. $#$through]" eq "@$native[1 .. $#$native]")
		{
			$count{first_of_errors}++;
			next;
		}
		my $before = $step > 0 ? $sections{native}[ $step - 1 ][1] : '';
		$difference = "FOREIGN_KEYS_SEED=$seed, schema $number, statement $step: $steps->[$step]\nbefore:  $before\nnative:  "
		  . join("\n         ", @$native) . "\nthrough: " . join("\n         ", @$through) . "\n$schema->{setup}{through}";
		last;
	}
	check_storage($node, 'through', "schema $number");
	ok(!$difference, "schema $number: the same as without partitions") or diag($difference);
	if ($difference && $ENV{FOREIGN_KEYS_SAVE})
	{
		write_file("$ENV{FOREIGN_KEYS_SAVE}/${number}_$_.sql", "$schema->{setup}{$_}\n$text") foreach @sides;
	}
	$node->safe_psql('postgres', "DROP DATABASE $_ WITH (FORCE)") foreach @sides;
}

note(join(', ', map { "$count{$_} $_" } sort keys %count));
cmp_ok($count{failing}, '<', $count{statements} * 0.6, 'enough statements succeed');
cmp_ok($count{referring}, '>', $count{statements} / 3, 'rows refer to others');
cmp_ok($count{first_of_errors}, '<', $count{statements} / 50, 'few fail differently');
$node->stop;
done_testing();
