# Thousands of random UPDATEs, DELETEs, MERGEs and locking SELECTs, each in two databases that hold the
# same: in one they find their rows through index tables and global indexes, of B-trees and of other
# methods, in the other they do not. Equal must be: the
# rows they return, their number, errors, what triggers saw, and what every table holds afterwards.
#
#   CHANGES_SEED      repeats a run
#   CHANGES_COUNT     how many statements in all (2500)
#   CHANGES_SCHEMAS   over how many schemas (4)
#   CHANGES_SAVE      a directory for the scripts of schemas where something differs
#   CHANGES_WHOLE     1: reports show what tables hold, not only that it differs
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes 'time';
use IndexTableTest qw(how_many run_sides new_node oracle_sql check_storage sections);
use RandomChanges;
use RandomGlobals;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{CHANGES_SEED} // int(rand(2**31));
my $total = how_many('CHANGES_COUNT', 1500);
my $schemas = $ENV{CHANGES_SCHEMAS} // 4;
my $whole = $ENV{CHANGES_WHOLE} ? 'true' : 'false';
my $chunk = 300;

# Errors of which a statement may meet one or another first.
my $any_first = qr/^(?:23\w\w\w|P0001|44000|42501|21000|27000|55P03|428C9|0A000)$/;

my $node = new_node('changes',
	conf => "max_locks_per_transaction = 256\nshared_buffers = 64MB\nrestart_after_crash = on\njit = off\nfsync = off\n");
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $directory = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', 'CREATE ROLE changes_reader; CREATE ROLE changes_columns');

my @sides = qw(through native);
my (%count, %explained, %switched, $failures);
$count{$_} = 0 foreach qw(statements failing first_of_errors rows logged global);
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

# Runs a script on both sides at once; returns what each printed.
sub run_both
{
	my ($name, $text, @options) = @_;
	my %sides;
	foreach my $side (@sides)
	{
		my $through = $side eq 'through';
		$sides{$side} = {
			database => $side, settings => '-c session_preload_libraries=index_table',
			options => [ @options, map { ('-v', $_) } "held=held_by_$side", 'through=' . ($through ? 'true' : 'false'), 'force=' . ($through ? 'force' : 'off'), 'on=' . ($through ? 'on' : 'off') ] };
	}
	return run_sides($node, write_file("$directory/$name.sql", $text), %sides);
}

# The script of steps.
sub script
{
	my ($schema, $steps) = @_;
	my $text = "\\set VERBOSITY verbose\n\\set ON_ERROR_ROLLBACK on\nSET client_min_messages = warning;\n$schema->{prepare}";
	foreach my $number (0 .. $#$steps)
	{
		my $step = $steps->[$number];
		$text .= "\\if :through\n\\echo \@ $number plan\n\\warn \@ $number plan\nEXPLAIN (COSTS OFF) $step->{explain};\n\\endif\n" if $step->{explain};
		$text .= "\\echo \@ $number\n\\warn \@ $number\n$step->{sql};\n\\echo ^ :SQLSTATE :ROW_COUNT\n";
		$text .= "\\echo \@ $number changes\n\\warn \@ $number changes\nSELECT changes($whole);\n" unless $step->{frame};
		if ($step->{ends})
		{
			$text .= "\\echo \@ $number oracle\n\\warn \@ $number oracle\nSELECT oracle.check_all('after');\nTRUNCATE log;\n";
		}
	}
	return "$text\\echo \@ end\n\\warn \@ end\n";
}

# The messages of a section, without where they come from.
sub messages
{
	my ($lines) = @_;
	my (@messages, $in_context);
	foreach my $line (@{ $lines // [] })
	{
		if ($line =~ /(?:^|: )(ERROR|WARNING|NOTICE|FATAL|PANIC|DETAIL|HINT|CONTEXT|LOCATION|LINE \d+|QUERY|SCHEMA NAME|TABLE NAME|COLUMN NAME|CONSTRAINT NAME|DATATYPE NAME):\s+(.*)/)
		{
			my ($what, $said) = ($1, $2);
			$in_context = $what !~ /^(?:ERROR|WARNING|NOTICE|FATAL|PANIC|DETAIL|HINT)$/;
			push @messages, "$what: $said" unless $in_context;
		}
		elsif (!$in_context) { push @messages, $line; }
	}
	return @messages;
}

sub shown
{
	my (@lines) = @_;
	return join('', map { '  ' . substr($_, 0, 400) . "\n" } @lines[ 0 .. ($#lines > 11 ? 11 : $#lines) ]);
}

sub difference
{
	my ($expected, $found) = @_;
	my %count;
	$count{$_}++ foreach @$expected;
	$count{$_}-- foreach @$found;
	return "native alone:\n" . shown(map { ($_) x $count{$_} } grep { $count{$_} > 0 } sort keys %count)
	  . "through index tables alone:\n" . shown(map { ($_) x -$count{$_} } grep { $count{$_} < 0 } sort keys %count);
}

# Compares what both sides printed. Returns whether they agree.
sub compare
{
	my ($name, $steps, $run) = @_;
	my (%printed, %said, %last);
	foreach my $side (@sides)
	{
		($printed{$side}, $last{$side}) = sections($run->{$side}{stdout});
		($said{$side}) = sections($run->{$side}{stderr});
	}
	my $report = sub {
		my ($number, $what) = @_;
		$failures++;
		my $step = $steps->[$number];
		diag("--- CHANGES_SEED=$seed, $name, step $number ($step->{kind})\n$step->{sql};\n$what" . join("\n", @{ $printed{through}{"$number plan"} // [] }));
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
			my @rows = sort @$lines;
			my @messages = messages($said{$side}{$number});
			my ($error) = map { /^ERROR: (\w{5})/ ? $1 : () } @messages;
			# What an error comes after may differ; what frames print, too.
			@rows = () if $error || $step->{frame};
			$result{$side} = { rows => [ @rows, @messages ], error => $error // '' };
			return $report->($number, "$side: " . join("\n", @messages) . "\n") if ($error // '') =~ /^57|^40/;
		}
		my ($through, $native) = @result{@sides};
		unless ($step->{frame})
		{
			$count{statements}++;
			$count{rows} += @{ $native->{rows} };
			$count{failing}++ if $native->{error};
			my $plan = join("\n", @{ $printed{through}{"$number plan"} // [] });
			if ($plan ne '')
			{
				$explained{ $step->{kind} }++;
				$count{global}++ if $plan =~ /Global Index: /;
				$switched{ $step->{kind} }++ if $plan =~ /Index Table Row Switch/;
			}
			my ($internal) = grep { /ERROR:\s+XX/ } @{ $said{through}{"$number plan"} // [] };
			return $report->($number, "EXPLAIN: $internal\n") if $internal;
		}
		if ($ENV{CHANGES_ERRORS} && $native->{error}) { diag($step->{sql}, "\n", shown(@{ $native->{rows} })); }
		if ("@{ $native->{rows} }" ne "@{ $through->{rows} }")
		{
			return $report->($number, difference($native->{rows}, $through->{rows})) unless $native->{error} =~ $any_first && $through->{error} =~ $any_first;
			$count{first_of_errors}++;
		}
		foreach my $what ('changes', 'oracle')
		{
			my @all = map {
				my $side = $_;
				[ sort(@{ $printed{$side}{"$number $what"} // [] }), messages($said{$side}{"$number $what"}) ]
			} @sides;
			return $report->($number, "$what:\n" . difference($all[1], $all[0])) if join("\n", @{ $all[0] }) ne join("\n", @{ $all[1] });
			$count{logged} += grep { /^log / } @{ $all[0] };
			my @wrong = grep { /ERROR/ } @{ $all[0] };
			return $report->($number, "$what: @wrong\n") if @wrong;
		}
	}
	return 1;
}

# --- The test ---------------------------------------------------------------------------

note("CHANGES_SEED=$seed");
diag("CHANGES_SEED=$seed") if $total > 5000;

foreach my $number (1 .. $schemas)
{
	srand($seed * 1013 + $number);
	my $name = "schema $number";
	my $start = time();
	$node->safe_psql('postgres', "CREATE DATABASE $_") foreach @sides;
	my $schema = RandomChanges::generate($version);
	my $setup = $schema->{setup} . oracle_sql(@{ $schema->{tables} }) . "GRANT USAGE ON SCHEMA public TO PUBLIC;\n" . global_sql("$seed $number");
	my $run = run_both('setup', $setup, '-v', 'ON_ERROR_STOP=1');
	my $good = is($run->{through}{stderr} . $run->{native}{stderr}, '', "$name: set up");
	my $done = 0;
	my @saved = ([ 'setup', $setup ]);
	while ($good && $done < $total / $schemas)
	{
		my @steps;
		while (@steps < $chunk)
		{
			push @steps, RandomChanges::batch($schema, 15);
			$steps[-1]{ends} = 1;
		}
		$done += grep { !$_->{frame} } @steps;
		push @saved, [ 'steps' . @saved, script($schema, \@steps) ];
		$good = compare("$name (" . $saved[-1][0] . ')', \@steps, run_both(@{ $saved[-1] }));
	}
	ok($good, "$name: the same through index tables and without");
	unless ($good)
	{
		my $to = $ENV{CHANGES_SAVE} // $ENV{TESTDIR} // '.';
		write_file("$to/changes_${number}_$_->[0].sql", $_->[1]) foreach @saved;
		diag("The scripts are in $to");
	}
	note(sprintf('%s (%s): %d statements, %.1f s', $name, $schema->{kind}, $done, time() - $start));
	foreach my $side (@sides)
	{
		$node->psql($side, "ROLLBACK PREPARED 'held_by_$side'") unless $good;
		check_storage($node, $side, "$name, $side");
		$node->safe_psql('postgres', "DROP DATABASE $side WITH (FORCE)");
	}
}

note(join(', ', map { "$count{$_} $_" } sort keys %count));
note('switched: ' . join(', ', map { ($switched{$_} // 0) . " of $explained{$_} $_" } sort keys %explained));
diag(join(', ', map { "$count{$_} $_" } sort keys %count)) if $total != 5000 || $failures;
cmp_ok($count{failing}, '<', $count{statements} / 4, 'few statements fail');
cmp_ok($count{first_of_errors}, '<', $count{statements} / 20, 'few fail differently');
cmp_ok($count{logged}, '>', $count{statements} / 2, 'triggers were fired');
cmp_ok($count{global}, '>', 0, 'some through global indexes');
cmp_ok($switched{$_} // 0, '>', $explained{$_} / 3, "$_: rows were found through index tables") foreach qw(update delete merge lock cte prepared);

$node->stop;
done_testing();
