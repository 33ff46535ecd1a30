# Thousands of random statements; after each, every index table must equal its recomputation from
# the base table.
#
#   RANDOM_SEED         repeats a run
#   RANDOM_STATEMENTS   how many in all (1000)
#   RANDOM_SCHEMAS      over how many schemas (4)
#   RANDOM_SHRINK       seconds to spend on shrinking what fails (60)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes 'time';
use IndexTableTest;
use RandomStatements;
use RandomTables qw(chance pick);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{RANDOM_SEED} // int(rand(2**31));
my $total = how_many('RANDOM_STATEMENTS', 500);
my $schemas = $ENV{RANDOM_SCHEMAS} // 4;
my $shrink_time = $ENV{RANDOM_SHRINK} // 60;

# What statements may fail with; anything else, XX000 above all, is a failure of the test.
my $expected_errors = qr/^(?:
	23505 | 23503 | 23502 | 23514 |      # constraints
	22012 | P0001 |                      # meant to fail
	25P02 | 3B001 | 24000 | 34000 |      # what follows from an error in a transaction
	27000 | 21000 |                      # rows changed twice by one statement
	22000 | 0A000:\ removing\ elements | # arrays of two dimensions
	42P01:\ relation\ "\w+_i\d" |       # VACUUM of an index table that was dropped
	0A000:.*(?:different\ partition|another\ partition|TRUNCATE) |
	2D000 |                              # COMMIT in a block inside a transaction
	25001 |                              # VACUUM in a transaction
	55006 | 42P17                        # pending trigger events; a partition that is no more
)/x;

my $node = new_node('random', conf => "max_locks_per_transaction = 256\nshared_buffers = 64MB\nrestart_after_crash = on\n");
my %features = (
	citext => has_extension($node, 'citext'),
	icu => $node->safe_psql('postgres', "SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") > 0);
my $directory = PostgreSQL::Test::Utils::tempdir();
my %outcomes;

# --- Running ------------------------------------------------------------------------

# Runs units in one session. Returns the first failure: { unit, code, message }, or undef.
sub run_units
{
	my ($db, $schema, $options, $units) = @_;
	my $path = "$directory/script.sql";
	open my $script, '>:encoding(UTF-8)', $path or die $!;
	print $script "\\set VERBOSITY verbose\n\\set QUIET on\n\\o /dev/null\nSET client_min_messages = error;\n";
	print $script "$_;\n" foreach @{ $options->{settings} };
	print $script $schema->{prepare};
	foreach my $i (0 .. $#$units)
	{
		my $unit = $units->[$i];
		print $script "\\warn \@$i\n$unit->{sql}";
		# A unique key that was refused must have been taken.
		print $script "\\set refused false\n\\if :ERROR\nSELECT :'LAST_ERROR_SQLSTATE' = '23505' AS refused \\gset\n\\endif\n"
		  . "\\if :refused\nSELECT explain_violation(" . quote_literal($unit->{again}) . ");\n\\endif\n"
		  if $unit->{again};
		print $script "SELECT oracle.check_all('after');\n" if $unit->{check};
	}
	print $script "\\warn \@end\n";
	close $script;

	my ($stdout, $stderr) = ('', '');
	local $ENV{PGOPTIONS} = $options->{pgoptions};
	my $finished = IPC::Run::run(
		[ 'psql', '-X', '-d', $node->connstr($db), '-f', $path ],
		'<', \'', '>', \$stdout, '2>', \$stderr, IPC::Run::timeout(60 + @$units));
	my $failure;
	my $current = -1;
	foreach my $line (split /\n/, $stderr)
	{
		if ($line =~ /^@(\w+)$/) { $current = $1; next; }
		next unless $line =~ /(?:ERROR|FATAL|PANIC|psql: error):\s+(.*)/ || $line =~ /(connection to server was lost)/;
		my $message = $1;
		my ($code) = $message =~ /^(\w{5}):/;
		$outcomes{ $code // 'other' }++;
		next if $message =~ $expected_errors;
		$failure //= { unit => $current, code => $code // 'crash', message => $message };
	}
	$failure //= { unit => $current, code => 'crash', message => "psql stopped early: $stderr" } if $current ne 'end';
	if ($stderr =~ /server closed the connection/)
	{
		sleep(1);
		wait_until_up($node);
	}
	return $failure;
}

sub run_script
{
	my ($db, $sql) = @_;
	my $path = "$directory/setup.sql";
	open my $script, '>:encoding(UTF-8)', $path or die $!;
	print $script $sql;
	close $script;
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $path ],
		'<', \'', '>', \$stdout, '2>', \$stderr)
	  or return $stderr;
	return '';
}

# Repeats a statement that was refused, with no index table in the way, and undoes it. Then the
# statement itself fails or the base table has a key twice; otherwise raises OR003.
sub explain_violation_sql
{
	my ($schema) = @_;
	my $disable = join('; ', map { "ALTER TABLE $_->{name} DISABLE TRIGGER index_table_maintain" } @{ $schema->{bases} });
	return qq{
CREATE FUNCTION explain_violation(statement text) RETURNS void LANGUAGE plpgsql SET index_table.enable_scan = off SET client_min_messages = error AS \$\$
DECLARE reason text;
BEGIN
	BEGIN
		$disable;
		EXECUTE statement;
		reason := coalesce(oracle.broken_unique(), 'none');
		RAISE 'undo';
	EXCEPTION WHEN OTHERS THEN
		reason := coalesce(reason, SQLERRM);
	END;
	IF reason = 'none' THEN
		RAISE EXCEPTION USING ERRCODE = 'OR003', MESSAGE = 'refused although no key would be there twice';
	END IF;
END \$\$;
};
}

sub set_up
{
	my ($db, $schema) = @_;
	$node->safe_psql('postgres', "DROP DATABASE IF EXISTS $db");
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	return run_script($db, $schema->{setup} . oracle_sql(@{ $schema->{tables} }) . explain_violation_sql($schema))
	  || run_script($db, "SELECT oracle.check_all('set-up');\n")
	  || run_script($db, $schema->{finish} . "SELECT oracle.check_all('finish');\n");
}

# --- Failing ------------------------------------------------------------------------

# Leaves out what the failure does not need, as long as time permits.
sub shrink
{
	my ($schema, $options, $failure, $units) = @_;
	my @needed = @$units[ 0 .. ($failure->{unit} =~ /^\d+$/ ? $failure->{unit} : $#$units) ];
	my $template = 'shrink_template';
	set_up($template, $schema) and return @needed;
	my $deadline = time() + $shrink_time;
	my $still_fails = sub {
		my (@tried) = @_;
		$node->safe_psql('postgres', "DROP DATABASE IF EXISTS shrink");
		$node->safe_psql('postgres', "CREATE DATABASE shrink TEMPLATE $template");
		my $result = run_units('shrink', $schema, $options, \@tried);
		return undef unless $result && $result->{code} eq $failure->{code};
		return $result->{unit} =~ /^\d+$/ ? $result->{unit} : $#tried;
	};
	# Questions in between are slow, and often not needed.
	my @unasked = map { { %$_, check => 0 } } @needed;
	$unasked[-1]{check} = $needed[-1]{check};
	@needed = @unasked if defined $still_fails->(@unasked);
	for (my $chunk = @needed; $chunk >= 1; $chunk = int($chunk / 2))
	{
		for (my $end = @needed - 1; $end >= 0 && time() < $deadline; $end -= $chunk)
		{
			my $start = $end - $chunk + 1;
			$start = 0 if $start < 0;
			my @tried = (@needed[ 0 .. $start - 1 ], @needed[ $end + 1 .. $#needed ]);
			next unless @tried;
			my $last = $still_fails->(@tried);
			@needed = @tried[ 0 .. $last ] if defined $last;
			$end = $start + $chunk if $end > @needed;
		}
	}
	return @needed;
}

sub report
{
	my ($schema, $options, $failure, $units) = @_;
	my $last = $failure->{unit} =~ /^\d+$/ ? $failure->{unit} : $#$units;
	my $first = $last > 30 ? $last - 30 : 0;
	diag("seed $seed, statement $failure->{unit}: $failure->{message}");
	diag('the last statements:');
	diag(substr("$_: $units->[$_]{sql}", 0, 300)) foreach $first .. $last;
	my $saved = ($ENV{TESTDIR} // '.') . "/random_$schema->{name}";
	my $setup = "${saved}_setup.sql";
	if (open my $out, '>:encoding(UTF-8)', $setup)
	{
		print $out $schema->{setup}, oracle_sql(@{ $schema->{tables} }), explain_violation_sql($schema), $schema->{finish};
		close $out;
		diag("the schema is in $setup");
	}
	return unless $shrink_time > 0;
	my @needed = shrink($schema, $options, $failure, $units);
	diag('shrunk to ' . scalar(@needed) . " statements, settings: @{ $options->{settings} } $options->{pgoptions}");
	my $text = join('', map { $_->{sql} . ($_->{check} ? "SELECT oracle.check_all('after');\n" : '') } @needed);
	diag($text);
	if (open my $out, '>:encoding(UTF-8)', "$saved.sql")
	{
		print $out map({ "$_;\n" } @{ $options->{settings} }), $schema->{prepare}, $text;
		close $out;
	}
	my ($table) = $failure->{message} =~ /after: '?(\w+)/;
	diag(map { $_->{create} } grep { $table && $_->{name} eq $table } @{ $schema->{tables} });
	return;
}

# --- Damage -------------------------------------------------------------------------

# The one value of a query, or its error.
sub ask
{
	my ($db, $query) = @_;
	my ($result, $stdout, $stderr) = $node->psql($db, "SELECT $query");
	return $result == 0 ? $stdout : $stderr;
}

# Damages entries behind the extension's back. verify must report as many problems as the oracle
# finds, repair must mend them.
sub damage_and_repair
{
	my ($db, $schema) = @_;
	my ($problems, $failed) = (0, 0);
	foreach my $table (@{ $schema->{tables} })
	{
		my $name = $table->{name};
		next unless $node->safe_psql($db, "SELECT to_regclass('$name') IS NOT NULL") eq 't';
		my @columns = split /\n/, $node->safe_psql($db,
			"SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = '$name'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum");
		my @copies = @columns[ @{ $table->{key} } + 1 + $table->{identity} .. $#columns ];
		my $list = join(', ', @columns);
		my $picked = sub { "tableoid::text || ctid::text IN (SELECT tableoid::text || ctid::text FROM $name ORDER BY md5(ctid::text || '" . rand() . "') LIMIT " . (1 + int(rand(4))) . ')' };
		my $key_column = $columns[0];
		my @damage = (
			"DELETE FROM $name WHERE " . $picked->(),
			"INSERT INTO $name SELECT * FROM $name WHERE " . $picked->(),
			"UPDATE $name SET $key_column = (SELECT $key_column FROM $name LIMIT 1) WHERE " . $picked->(),
			"UPDATE $name SET $key_column = NULL WHERE " . $picked->(),
			"UPDATE $name SET partition_id = (SELECT max(partition_id) FROM index_table.partition) WHERE " . $picked->(),
			"UPDATE $name SET partition_id = 0 WHERE " . $picked->());
		push @damage, "UPDATE $name SET $_ = (SELECT $_ FROM $name ORDER BY md5($_\::text) LIMIT 1) WHERE " . $picked->(),
		  "UPDATE $name SET $_ = NULL WHERE " . $picked->()
		  foreach pick(@copies) // ();
		# Some are refused: an index table may be unique.
		@damage = RandomTables::some(1 + int(rand(4)), @damage);
		foreach my $statement (@damage)
		{
			my $error = sqlstate($node, $db, "SET session_replication_role = replica; $statement");
			fail("$error: $statement") if $error !~ /^(23505.*)?$/;
		}

		my $expected = $node->safe_psql($db, "SELECT oracle.problems('$name')");
		my ($found, $mended, $again) = map { ask($db, $_) } "count(*) FROM index_table.verify('$name')",
		  ("index_table.repair('$name')") x 2;
		$problems += $expected;
		next if "$found $mended $again" eq "$expected $expected 0";
		$failed++;
		diag("$name: oracle $expected problems, verify $found, repair $mended and then $again");
		diag("seed $seed\n", $table->{create}, map { "$_;\n" } @damage);
	}
	ok($problems > 0 && !$failed, "$db: $problems problems, all found and mended");
	oracle_ok($node, $db, "$db: in step after repair");
	return;
}

# --- The test -----------------------------------------------------------------------

note("RANDOM_SEED=$seed");
diag("RANDOM_SEED=$seed") if $total > 4000;
# Before that, a row that MERGE moves to another partition crashes the server.
my $has_merge = $node->safe_psql('postgres', 'SHOW server_version_num') >= 150005;

foreach my $number (1 .. $schemas)
{
	srand($seed * 1009 + $number);
	my $schema = RandomTables::generate(%features);
	$schema->{has_merge} = $has_merge;
	my $db = $schema->{name} = "schema$number";
	my @units = RandomStatements::generate($schema, $total / $schemas, $directory);
	my $options = {
		pgoptions => chance(0.3) ? '-c session_preload_libraries=index_table' : '',
		settings => [
			'SET plan_cache_mode = ' . pick(qw(auto force_generic_plan force_custom_plan)),
			chance(0.3)
			? ('SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0')
			: ()
		]
	};
	my $error = set_up($db, $schema);
	unless (is($error, '', "$db: index tables over empty and full tables"))
	{
		diag("seed $seed");
		next;
	}
	my $start = time();
	my $failure = run_units($db, $schema, $options, \@units);
	note(sprintf('%d statements in %.1f s', scalar(@units), time() - $start));
	ok(!$failure, "$db: in step after each of " . @units . ' statements') or report($schema, $options, $failure, \@units);
	next if $failure;
	oracle_ok($node, $db, "$db: nothing for verify at the end");
	check_storage($node, $db, $db);
	damage_and_repair($db, $schema);
	check_storage($node, $db, "$db after repair");
	$node->safe_psql('postgres', "DROP DATABASE $db");
}
note(join(', ', map { "$_ $outcomes{$_}" } sort keys %outcomes));

$node->stop;
done_testing();
