# Thousands of random INSERT … ON CONFLICT statements, each on a partitioned table with unique index
# tables and on one in one piece with native unique indexes of the same keys, which has the same
# triggers, policies, privileges, constraints and views. Equal must be: the rows that they return, in
# order, their number, errors, what triggers saw, in order, and what every table holds afterwards.
#
#   UPSERTS_SEED        repeats a run
#   UPSERT_STATEMENTS   how many statements in all (2500)
#   UPSERT_SAVE         a directory for the scripts of schemas where something differs
#   UPSERT_WHOLE        1: reports show what tables hold, not only that it differs
#   UPSERT_REFERENCE    1: neither table is partitioned: what differs is the fault of the test
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes 'time';
use IndexTableTest qw(how_many run_sides new_node oracle_sql oracle_ok check_storage sections sqlstate);
use RandomUpserts;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{UPSERTS_SEED} // int(rand(2**31));
my $total = how_many('UPSERT_STATEMENTS', 2500);
my $whole = $ENV{UPSERT_WHOLE} ? 'true' : 'false';
my $reference = $ENV{UPSERT_REFERENCE};
my $schemas = 4;
my $chunk = 300;
my @tables = qw(t notes inbox child);

# Where a row repeats a key that is no arbiter, another error may come first: such keys are checked when the
# statement ends (docs/constraints.md).
my $any_first = qr/^(?:23\w\w\w|P0001|44000|42501|21000|27000)$/;

my $node = new_node('on_conflict', conf => "max_locks_per_transaction = 256\nshared_buffers = 64MB\nrestart_after_crash = on\njit = off\nfsync = off\n");
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $icu = $node->safe_psql('postgres', "SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") > 0;
my $directory = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', 'CREATE ROLE upserts_reader; CREATE ROLE upserts_columns');

my @sides = qw(parts whole);
my (%count, %met, %refused, $failures);
$count{$_} = 0 foreach qw(statements rows inserted updated skipped refused logged first_of_errors);
$failures = 0;

# --- Running ------------------------------------------------------------------------

sub write_file
{
	my ($path, $text) = @_;
	open my $file, '>:encoding(UTF-8)', $path or die $!;
	print $file $text;
	close $file;
	return $path;
}

# A side is a schema, which its sessions see first.
sub options_of
{
	my ($side) = @_;
	return "-c session_preload_libraries=index_table -c search_path=$side,public";
}

# Runs a script on both sides at once; returns what each printed.
sub run_both
{
	my ($name, $text, @options) = @_;
	my %sides = map {
		my $partitioned = $_ eq 'parts' && !$reference ? 'true' : 'false';
		($_ => { database => 'upserts', settings => options_of($_), options => [ @options, '-v', "partitioned=$partitioned" ] })
	} @sides;
	return run_sides($node, write_file("$directory/$name.sql", $text), %sides);
}

# The script of steps.
sub script
{
	my ($schema, $steps) = @_;
	my $text = "\\set VERBOSITY verbose\n\\set ON_ERROR_ROLLBACK on\nSET client_min_messages = warning;\nSET statement_timeout = 20000;\n$schema->{prepare}";
	foreach my $number (0 .. $#$steps)
	{
		my $step = $steps->[$number];
		my $sql = $step->{sql} =~ /\n\z/ ? $step->{sql} : "$step->{sql};\n";
		$text .= "\\echo \@ $number\n\\warn \@ $number\n$sql\\echo ^ :ROW_COUNT\n";
		$text .= "\\echo \@ $number state\n\\warn \@ $number state\nSELECT state($whole, $step->{next_id});\n" if !$step->{frame} || $step->{sql} =~ /^(?:INSERT|UPDATE|DELETE)/;
		$text .= "\\if :partitioned\n\\warn \@ $number oracle\nSELECT FROM oracle.check_all('after');\n\\endif\n" if $step->{ends};
	}
	return "$text\\echo \@ end\n\\warn \@ end\n";
}

# --- Comparing ------------------------------------------------------------------------

# What was said in a section, without where it comes from. Names of partitions are those of their table.
sub messages
{
	my ($lines) = @_;
	my (@messages, $in_context);
	foreach my $line (@{ $lines // [] })
	{
		$line =~ s/"t_part_\w+_pkey"/"t_pkey"/g;
		$line =~ s/"t_part_\w+"/"t"/g;
		$line =~ s/^psql:\S+:\d+: //;
		$in_context = 1 if $line =~ /^(?:CONTEXT|LOCATION|LINE \d+|QUERY|SCHEMA NAME|TABLE NAME|COLUMN NAME|CONSTRAINT NAME|DATATYPE NAME):  ?/;
		$in_context = 0 if $line =~ /^(?:ERROR|WARNING|NOTICE|FATAL|PANIC|DETAIL|HINT):  /;
		push @messages, $line unless $in_context;
	}
	return @messages;
}

# Two lists side by side, from where they part.
sub difference
{
	my ($expected, $found) = @_;
	my $same = 0;
	$same++ while $same < @$expected && $same < @$found && $expected->[$same] eq $found->[$same];
	my $show = sub { my ($list) = @_; my $last = $same + 7 > $#$list ? $#$list : $same + 7; return join('', map { '  ' . substr($_, 0, 600) . "\n" } @$list[ $same .. $last ]); };
	return "after $same lines that are the same, native:\n" . $show->($expected) . "partitioned:\n" . $show->($found);
}

sub result_of
{
	my ($step, $printed, $said) = @_;
	my @rows = @$printed;
	my ($changed) = pop(@rows) =~ /^\^ (\d*)$/;
	my @messages = messages($said);
	my ($error) = grep { /^(?:ERROR|FATAL|PANIC):  / } @messages;
	my $code = $error ? substr($error, index($error, ':') + 3, 5) : '';
	# What triggers said before an error depends on how far the statement came.
	my @after = @messages;
	if ($error) { shift @after while $after[0] ne $error; }
	@after = () if $step->{loose} && !$error;
	return { rows => \@rows, code => $code, changed => $changed // 0, messages => \@after };
}

# Whether both sides failed as they should.
sub are_alike
{
	my ($native, $parts) = @_;
	return 0 unless $native->{code} && $parts->{code};
	if ($native->{code} eq $parts->{code})
	{
		return 1 if "@{ $native->{messages} }" eq "@{ $parts->{messages} }";
	}
	return 0 unless $native->{code} eq '23505' && $parts->{code} =~ $any_first;
	$count{first_of_errors}++;
	return 1;
}

# Compares what both sides printed. Returns whether they agree.
sub compare
{
	my ($name, $steps, $run) = @_;
	my (%printed, %said);
	foreach my $side (@sides)
	{
		($printed{$side}) = sections($run->{$side}{stdout});
		($said{$side}) = sections($run->{$side}{stderr});
	}
	my $rows = 0;
	my $report = sub {
		my ($number, $what) = @_;
		$failures++;
		my $step = $steps->[$number];
		diag("--- UPSERTS_SEED=$seed, $name, step $number (@{ $step->{kinds} })\n$step->{sql};\n$what");
		return 0;
	};
	foreach my $number (0 .. $#$steps)
	{
		my $step = $steps->[$number];
		my %result;
		foreach my $side (@sides)
		{
			my $lines = $printed{$side}{$number};
			return $report->($number, "$side: psql or the server stopped: " . substr($run->{$side}{stderr}, -1500) . "\n") unless $lines && @$lines;
			my $result = $result{$side} = result_of($step, $lines, $said{$side}{$number});
			return $report->($number, "$side: " . join("\n", @{ $result->{messages} }) . "\n") if $result->{code} =~ /^(?:XX|57|40|25P02|42601|42P10|42883|42703|42804|42P18)/;
		}
		my ($parts, $native) = @result{@sides};
		if ($step->{ours})
		{
			return $report->($number, "@{ $parts->{messages} }\n") if $parts->{code};
		}
		elsif ($native->{code} || $parts->{code})
		{
			return $report->($number, difference([ $native->{code}, @{ $native->{messages} } ], [ $parts->{code}, @{ $parts->{messages} } ])) unless are_alike($native, $parts);
		}
		else
		{
			my ($x, $y) = map { [ "rows: $_->{changed}", @{ $_->{rows} }, @{ $_->{messages} } ] } $native, $parts;
			return $report->($number, difference($x, $y)) if join("\n", @$x) ne join("\n", @$y);
		}
		my ($x, $y) = map { [ @{ $printed{$_}{"$number state"} // [] }, messages($said{$_}{"$number state"}) ] } reverse @sides;
		return $report->($number, "state: " . difference($x, $y)) if join("\n", @$x) ne join("\n", @$y);
		my @wrong = map { grep { /ERROR/ } @{ $said{$_}{"$number oracle"} // [] }, @{ $said{$_}{"$number state"} // [] } } @sides;
		return $report->($number, "oracle: @wrong\n") if @wrong;

		my ($now) = map { /^rows (\d+)/ ? $1 : () } @$x;
		my $more = defined $now ? $now - $rows : 0;
		$rows = $now if defined $now;
		$met{$_}++ foreach @{ $step->{kinds} };
		next if $step->{frame};
		$count{statements}++;
		$count{rows} += @{ $native->{rows} };
		$count{logged} += grep { /^WARNING/ } @{ $native->{messages} };
		$count{refused}++ if $native->{code};
		$refused{ $native->{code} }++ if $native->{code};
		if (!$native->{code} && $step->{sql} =~ /^INSERT/)
		{
			$count{skipped}++ if $native->{changed} == 0;
			$count{inserted} += $more if $more > 0;
			$count{updated} += $native->{changed} - $more if $more >= 0 && $native->{changed} > $more;
		}
		if ($ENV{UPSERT_ERRORS} && $native->{code}) { diag($step->{sql}, "\n", join("\n", @{ $native->{messages} })); }
	}
	return 1;
}

# What one side holds and the other does not.
sub differences_of_tables
{
	my @parts;
	foreach my $table (@tables)
	{
		my ($x, $y) = map { "SELECT x::text FROM $_.$table x" } @sides;
		push @parts, "(SELECT 'partitioned $table', * FROM ($x EXCEPT ALL $y) d)", "(SELECT 'native $table', * FROM ($y EXCEPT ALL $x) d)";
	}
	return $node->safe_psql('upserts', join(' UNION ALL ', @parts) . ' LIMIT 10');
}

# The one difference that is wanted: a row does not move to another partition.
sub moves_are_refused
{
	my ($name) = @_;
	my %error;
	foreach my $side (@sides)
	{
		local $ENV{PGOPTIONS} = options_of($side);
		my $upsert = "SET upserts.quiet = on; INSERT INTO t (email, r) VALUES ('moving', 1) ON CONFLICT (email) DO UPDATE SET r = t.r + 8";
		is(sqlstate($node, 'upserts', $upsert), '', "$name, $side: a row to be moved");
		$error{$side} = sqlstate($node, 'upserts', $upsert);
	}
	is_deeply(\%error, { parts => '0A000: invalid ON UPDATE specification', whole => '' }, "$name: a partition key that is set");
	return;
}

# --- The test ---------------------------------------------------------------------------

note("UPSERTS_SEED=$seed");
diag("UPSERTS_SEED=$seed") if $total > 5000;

my $raises; # whether a table has a trigger that often does
foreach my $number (1 .. $schemas)
{
	srand($seed * 1013 + $number);
	my $name = "schema $number";
	my $start = time();
	$node->safe_psql('postgres', 'CREATE DATABASE upserts');
	$node->safe_psql('upserts', "SET client_min_messages = error; CREATE EXTENSION index_table; CREATE SCHEMA parts; CREATE SCHEMA whole");
	my $schema = RandomUpserts::generate($version, $number, $seed, icu => $icu);
	my $setup = $schema->{setup} . "\\if :partitioned\n" . oracle_sql(@{ $schema->{tables} }) . "\\endif\n";
	my $run = run_both('setup', $setup, '-v', 'ON_ERROR_STOP=1');
	$raises ||= grep { $_ eq 'change_insert' } @{ $schema->{triggers} };
	my $good = is($run->{parts}{stderr} . $run->{whole}{stderr}, '', "$name: set up");
	my $done = 0;
	my @saved = ([ 'setup', $setup ]);
	while ($good && $done < $total / $schemas)
	{
		my @steps;
		while (@steps < $chunk)
		{
			push @steps, RandomUpserts::batch($schema, 12);
			$steps[-1]{ends} = 1;
		}
		$done += grep { !$_->{frame} } @steps;
		push @saved, [ 'steps' . @saved, script($schema, \@steps) ];
		$good = compare("$name (" . $saved[-1][0] . ')', \@steps, run_both(@{ $saved[-1] }));
		if ((my $differences = differences_of_tables()) ne '')
		{
			$good = 0;
			$failures++;
			diag("$name ($saved[-1][0]): $differences");
		}
	}
	ok($good, "$name: the same by index tables and natively");
	unless ($good)
	{
		my $to = $ENV{UPSERT_SAVE} // $ENV{TESTDIR} // '.';
		write_file("$to/upserts_${number}_$_->[0].sql", $_->[1]) foreach @saved;
		diag("The scripts are in $to");
	}
	note(sprintf('%s (%s): %d statements, %.1f s', $name, $schema->{kind}, $done, time() - $start));
	unless ($reference)
	{
		moves_are_refused($name) if $good && $schema->{kind} eq 'range';
		local $ENV{PGOPTIONS} = options_of('parts');
		oracle_ok($node, 'upserts', "$name: in step", 0);
		check_storage($node, 'upserts', $name);
	}
	$node->safe_psql('postgres', 'DROP DATABASE upserts WITH (FORCE)');
}

note(join(', ', map { "$count{$_} $_" } sort keys %count));
note('refused: ' . join(', ', map { "$refused{$_} $_" } sort keys %refused));
note('met: ' . join(', ', map { "$met{$_} $_" } sort keys %met));
diag(join(', ', map { "$count{$_} $_" } sort keys %count)) if $total != 5000 || $failures;
unless ($failures)
{
	my @missing = grep { ($met{$_} // 0) < $total / 1000 } @RandomUpserts::kinds;
	is("@missing", '', 'statements of every kind');
	cmp_ok($count{$_}, '>', $total / 20, "rows or statements: $_") foreach qw(inserted updated skipped);
	cmp_ok($count{logged}, '>', $total, 'triggers were fired');
	cmp_ok($count{refused}, '>', $total / 50, 'some were refused');
	cmp_ok($count{refused}, '<', $total / 3, 'most were not');
	cmp_ok($refused{$_} // 0, '>', 0, "refused: $_") foreach qw(21000 23505 23514 42501), ('P0001') x !!$raises;
	cmp_ok($count{first_of_errors}, '<', $total / 50, 'few fail differently');
}

$node->stop;
done_testing();
