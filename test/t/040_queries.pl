# Thousands of random SELECTs, each with index tables and without: the results must be equal. Over
# data at rest, while other sessions change it, in the midst of changes of the session itself, and
# with snapshots older than the index tables.
#
#   QUERY_SEED      repeats a run (what runs beside another session repeats only roughly)
#   QUERY_COUNT     how many queries in all (2500)
#   QUERY_SCHEMAS   over how many schemas (4)
#   QUERY_SAVE      a directory for the schemas over which queries fail
#   QUERY_PARTS     which parts: rest, writer, own, old (all)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Time::HiRes 'time';
use IndexTableTest qw(how_many new_node has_extension oracle_sql oracle_ok check_storage quote_literal sections wait_until_up);
use RandomGlobals;
use RandomQueries;
use RandomStatements;
use RandomTables qw(chance pick);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{QUERY_SEED} // int(rand(2**31));
my $total = how_many('QUERY_COUNT', 1500);
my $schemas = $ENV{QUERY_SCHEMAS} // 4;
my %parts = map { $_ => 1 } split /[ ,]+/, $ENV{QUERY_PARTS} // 'rest writer own old';
my $chunk = 200;

my $node = new_node('queries',
	conf => "max_locks_per_transaction = 256\nshared_buffers = 64MB\nrestart_after_crash = on\ndeadlock_timeout = 100ms\njit = off\n");
my %features = (
	(map { $_ => has_extension($node, $_) } qw(citext pg_trgm btree_gist)),
	icu => $node->safe_psql('postgres', "SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") > 0);
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $directory = PostgreSQL::Test::Utils::tempdir();
my $preload = 'session_preload_libraries=index_table';

my %count = map { $_ => 0 } qw(queries explained scans through global nearest nearest_entries only further all recomputed failing skipped rows probes failing_probes);
my $failures = 0;

# --- Running ------------------------------------------------------------------------

sub write_file
{
	my ($path, $text) = @_;
	open my $file, '>:encoding(UTF-8)', $path or die $!;
	print $file $text;
	close $file;
	return $path;
}

# Runs a script with psql; returns what it printed and its errors.
sub run_psql
{
	my ($db, $path, @options) = @_;
	local $ENV{PGOPTIONS} = "-c $preload";
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'psql', '-X', '-A', '-t', '-q', '-F', "\t", @options, '-d', $node->connstr($db), '-f', $path ],
		'<', \'', '>', \$stdout, '2>', \$stderr, IPC::Run::timeout(900));
	utf8::decode($stdout);
	utf8::decode($stderr);
	if ($stderr =~ /server closed the connection|connection to server was lost/)
	{
		sleep(1);
		wait_until_up($node);
	}
	return ($stdout, $stderr);
}

sub set_up
{
	my ($db, $schema) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	my $sql = $schema->{setup} . oracle_sql(@{ $schema->{tables} }) . $schema->{finish} . global_sql($db);
	my $path = write_file("$directory/setup.sql", $sql);
	my ($stdout, $stderr) = run_psql($db, $path, '-v', 'ON_ERROR_STOP=1');
	return $stderr if $stderr =~ /ERROR|FATAL/;
	($stdout, $stderr) = run_psql($db, write_file("$directory/learn.sql", RandomQueries::learn_sql($schema)));
	RandomQueries::learn($schema, $stdout);
	return $stderr;
}

# psql's text of a query under one value of enable_scan.
sub under
{
	my ($number, $setting, $query) = @_;
	my ($value) = split /_/, $setting;
	return "\\echo \@ $number $setting\n\\warn \@ $number $setting\nSET index_table.enable_scan = $value;\n"
	  . join('', map { "$_;\n\\echo ^ :SQLSTATE\n" } @{ $query->{statements} });
}

# The same where only what it does to the session counts: locks, caches.
sub unseen
{
	my ($query) = @_;
	return "\\o /dev/null\n\\echo \@ unseen\n\\warn \@ unseen\nSET index_table.enable_scan = force;\n" . join('', map { "$_;\n" } @{ $query->{statements} }) . "\\o\n";
}

# psql's text that asks for the plan. What is prepared is explained as it is executed.
sub explained
{
	my ($number, $query, $analyze) = @_;
	my $explain = 'EXPLAIN (COSTS OFF' . ($analyze ? ', ANALYZE, TIMING OFF, SUMMARY OFF' : '') . ')';
	my $head = "\\echo \@ $number plan\n\\warn \@ $number plan\nSET index_table.enable_scan = force;\n";
	return "${head}$explain $query->{explain};\n" if $query->{explain};
	return '' unless $query->{executes};
	my $prepare = $query->{statements}[0];
	return "$head$prepare;\n$explain $query->{executes};\nDEALLOCATE q;\n";
}

# The result of a query as text that can be compared.
sub result
{
	my ($query, $lines) = @_;
	my (@all, @rows, @first);
	foreach my $line (@$lines)
	{
		if ($line =~ /^\^ (\w{5})$/)
		{
			# What an error comes after may differ.
			@rows = @first = () if $1 ne '00000';
			@rows = sort @rows if $query->{order} ne 'rows';
			push @all, @first, @rows, "^ $1";
			@rows = @first = ();
			next;
		}
		push @rows, $line;
		push @first, '1: ' . ($line =~ /^([^\t]*)/)[0] if $query->{order} eq 'first';
	}
	return [ @all, @rows ];
}

sub difference
{
	my ($expected, $found) = @_;
	my %count;
	$count{$_}++ foreach @$expected;
	$count{$_}-- foreach @$found;
	my @missing = map { ($_) x $count{$_} } grep { $count{$_} > 0 } sort keys %count;
	my @extra = map { ($_) x -$count{$_} } grep { $count{$_} < 0 } sort keys %count;
	return "the order differs\nwithout:\n" . join("\n", @$expected[ 0 .. ($#$expected > 20 ? 20 : $#$expected) ]) . "\nwith:\n" . join("\n", @$found[ 0 .. ($#$found > 20 ? 20 : $#$found) ])
	  unless @missing || @extra;
	my $show = sub { my @list = @_; return join("\n", map { substr($_, 0, 300) } @list[ 0 .. ($#list > 7 ? 7 : $#list) ]) };
	return scalar(@missing) . " missing:\n" . $show->(@missing) . "\n" . scalar(@extra) . " extra:\n" . $show->(@extra);
}

sub report
{
	my ($schema, $part, $query, $settings, $setting, $what, $messages) = @_;
	$failures++;
	return if $failures > ($ENV{QUERY_REPORTS} // 10);
	my $saved = ($ENV{QUERY_SAVE} // $ENV{TESTDIR} // '.') . "/queries_$schema->{name}.sql";
	write_file($saved, $schema->{setup} . oracle_sql(@{ $schema->{tables} }) . $schema->{finish}) unless -e $saved;
	my $text = join('', map { "$_;\n" } @$settings);
	diag("--- $part: enable_scan = $setting differs from off (QUERY_SEED=$seed, the schema is in $saved)\n"
		  . "LOAD 'index_table';\n$text"
		  . join('', map { my $s = $_; "SET index_table.enable_scan = $s;\n" . join('', map { "$_;\n" } @{ $query->{statements} }) } 'off', $setting)
		  . "$what\n"
		  . substr($messages // '', 0, 1500));
	return;
}

# Compares what psql printed about queries; the first may be left out where a result is known not to
# count.
sub compare
{
	my ($schema, $part, $queries, $settings, $stdout, $stderr) = @_;
	my ($printed, $last) = sections($stdout);
	my ($messages) = sections($stderr);
	my $ended = ($last // '') eq 'end';
	if (join(' ', @{ $printed->{probes} // [] }) =~ /(\d+)\t(\d+)/)
	{
		$count{probes} += $1;
		$count{failing_probes} += $2 / 2;
	}
	unless ($ended)
	{
		my ($number) = ($last // '') =~ /^(\d+)/;
		$number //= 0;
		report($schema, $part, $queries->[$number], $settings->[$number], 'any', "psql or the server stopped at $last", substr($stderr, -1500));
	}
	foreach my $number (0 .. $#$queries)
	{
		my $query = $queries->[$number];
		my $off = $printed->{"$number off"};
		next unless $off && $printed->{"$number force"};
		$count{queries}++;
		report($schema, $part, $query, $settings->[$number], 'off', 'internal error', join("\n", @{ $messages->{"$number off"} // [] })) if grep { /^\^ XX/ } @$off;
		my $plan = join("\n", @{ $printed->{"$number plan"} // [] });
		$count{explained}++ if $plan ne '';
		$count{scans}++ if $plan =~ /Custom Scan \(/;
		$count{through}++ if $plan =~ /Custom Scan \(Index Table Scan/;
		$count{global}++ if $plan =~ /Global Index: /;
		$count{nearest}++ if $plan =~ /Order By: /;
		$count{only}++ if $plan =~ /Custom Scan \(Index Table Only/;
		$count{nearest_entries}++ if $plan =~ /^ *Index: .*(?:\n.*Index Cond: .*)?\n *Order By: /m;
		$count{further}++ if $plan =~ /^ *Index: /m;
		$count{recomputed}++ if $plan =~ /Entries From: base table/;
		$count{all}++ if $plan =~ /Custom Scan \(All Partitions/;
		my $expected = result($query, $off);
		$count{failing}++ if grep { /^\^ (?!00000)/ } @$expected;
		$count{rows} += @$expected;
		diag(join("\n", @{ $query->{statements} }, @{ $messages->{"$number off"} // [] })) if $ENV{QUERY_ERRORS} && grep { /^\^ (?!00000)/ } @$expected;
		foreach my $setting (qw(force on))
		{
			my $section = $printed->{"$number $setting"} // next;
			next if !$ended && $last eq "$number $setting";
			my $said = join("\n", @{ $messages->{"$number $setting"} // [] });
			my $found = result($query, $section);
			# A lock or the time was not to be had.
			if (grep { /^\^ (40P01|40001|57014|55P03)/ } @$expected, @$found)
			{
				$count{skipped}++;
				next;
			}
			my $internal = join("\n", grep { /^\^ XX/ } @$found);
			my $same = join("\n", @$expected) eq join("\n", @$found);
			next if $same && !$internal;
			# An ATTACH that has been committed meanwhile is seen at once, whatever the snapshot.
			my $again = $printed->{"$number off_again"};
			next if $again && !$internal && join("\n", @{ result($query, $again) }) eq join("\n", @$found);
			report($schema, $part, $query, $settings->[$number], $setting, $same ? "internal error: $internal" : difference($expected, $found), "$said\n$plan");
		}
	}
	foreach my $line (grep { /DIFFERENCE|ERROR:\s+XX|function report_difference/ } split /\n/, $stderr)
	{
		$failures++;
		diag("--- $part (QUERY_SEED=$seed, $schema->{name})\n" . substr($line, 0, 3000)) if $failures <= 10;
	}
	return;
}

my $head = "\\set VERBOSITY verbose\nSET client_min_messages = warning;\nSET statement_timeout = '20s';\n";

# --- Data at rest -------------------------------------------------------------------

sub at_rest
{
	my ($schema, $wanted) = @_;
	my $done = 0;
	while ($done < $wanted)
	{
		my $text = $head;
		my (@queries, @settings, @current);
		foreach my $number (0 .. ($wanted - $done > $chunk ? $chunk : $wanted - $done) - 1)
		{
			if ($number % 10 == 0)
			{
				@current = RandomQueries::settings($version);
				push @current, 'SET ROLE query_reader' if chance(0.15);
				$text .= "RESET ROLE;\nRESET ALL;\n$head" . join('', map { "$_;\n" } @current);
			}
			my $query = RandomQueries::query($schema);
			push @queries, $query;
			push @settings, [@current];
			$text .= under($number, 'off', $query) . under($number, 'force', $query) . explained($number, $query);
			$text .= under($number, 'on', $query) if chance(0.25);
		}
		$text .= "\\echo \@ end\n";
		$done += @queries;
		compare($schema, 'at rest', \@queries, \@settings, run_psql($schema->{name}, write_file("$directory/rest.sql", $text)));
	}
	return;
}

# --- While another session writes ----------------------------------------------------

sub simple_query
{
	my ($schema) = @_;
	my $query;
	do { $query = RandomQueries::query($schema); } while ($query->{transaction} || $query->{statements}[0] =~ /FOR (UPDATE|SHARE|KEY SHARE)|^CREATE/);
	return $query;
}

sub beside_a_writer
{
	my ($schema, $wanted) = @_;
	my $sql = "SET application_name = 'writer';\nSET client_min_messages = error;\n\\o /dev/null\n$schema->{prepare}";
	$sql .= $_->{sql} foreach RandomStatements::generate($schema, $wanted * 4 + 200, $directory);
	my $writer_path = write_file("$directory/writer.sql", $sql);
	my $output = '';
	local $ENV{PGOPTIONS} = '';
	my $writer = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr($schema->{name}), '-f', $writer_path ],
		'<', \'', '>&', \$output, IPC::Run::timeout(900));
	$node->poll_query_until($schema->{name}, "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'writer'");
	my $done = 0;
	while ($done < $wanted)
	{
		my $text = "$head\\set ON_ERROR_ROLLBACK on\n";
		my (@queries, @settings, @current);
		foreach my $number (0 .. $chunk / 2 - 1)
		{
			if ($number % 5 == 0)
			{
				$text .= "COMMIT;\n" if $number;
				@current = RandomQueries::settings($version);
				$text .= "RESET ALL;\n$head" . join('', map { "$_;\n" } @current) . "BEGIN ISOLATION LEVEL REPEATABLE READ;\n";
				# The snapshot may age before the first query.
				$text .= "SELECT pg_sleep(0.02) \\g /dev/null\n" if chance(0.5);
			}
			my $query = simple_query($schema);
			# An ATTACH may come between two executions.
			my %seen;
			$query->{statements} = [ grep { !$seen{$_}++ } @{ $query->{statements} } ];
			push @queries, $query;
			push @settings, [@current];
			$text .= unseen($query) if chance(0.3);
			$text .= under($number, $_, $query) foreach qw(off force off_again);
			$text .= explained($number, $query);
		}
		$text .= "COMMIT;\n\\echo \@ end\n";
		$done += @queries;
		compare($schema, 'beside a writer', \@queries, \@settings, run_psql($schema->{name}, write_file("$directory/reader.sql", $text)));
	}
	$node->psql($schema->{name}, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'writer'");
	$writer->finish;
	return;
}

# Changes most keys of most rows.
sub change_all
{
	my ($base) = @_;
	return "UPDATE $base->{name} SET b = (b + 4) % 16 - 3, c = c + 1, a = left(a || 'z', 9), g = g + 1, e = e || 3, en = 'ok', f = 'YY' WHERE x <> 'raise';\n";
}

# --- Amid own changes -----------------------------------------------------------------

sub amid_own_changes
{
	my ($schema, $wanted) = @_;
	my $text = "$head\\set ON_ERROR_ROLLBACK on\n\\o /dev/null\n$schema->{prepare}TRUNCATE probe RESTART IDENTITY;\n";
	my @probes;
	while (@probes < 60)
	{
		my ($sql, $order) = RandomQueries::select_sql($schema);
		push @probes, $sql unless $sql =~ / FOR (UPDATE|SHARE|KEY SHARE) OF| ctid|\.ctid/;
	}
	$text .= "INSERT INTO probe (query) VALUES (" . quote_literal($_) . ");\n" foreach @probes;
	foreach my $base (@{ $schema->{partitioned} })
	{
		# Before and after the trigger of index tables.
		foreach my $name (grep { chance(0.7) } qw(a_probe z_probe))
		{
			$text .= "CREATE TRIGGER ${name}_after AFTER INSERT OR UPDATE OR DELETE ON $base->{name} FOR EACH ROW EXECUTE FUNCTION probing();\n";
			$text .= "CREATE TRIGGER ${name}_stmt AFTER INSERT OR UPDATE OR DELETE ON $base->{name} FOR EACH STATEMENT EXECUTE FUNCTION probing();\n";
			$text .= "CREATE TRIGGER ${name}_before BEFORE INSERT OR UPDATE OR DELETE ON $base->{name} FOR EACH ROW EXECUTE FUNCTION probing();\n";
		}
	}
	my (@queries, @settings);
	my $number = 0;
	while (@queries < $wanted)
	{
		my @current = RandomQueries::settings($version);
		$text .= "RESET ALL;\n$head" . join('', map { "$_;\n" } @current);
		$text .= 'BEGIN' . pick('', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE') . ";\n";
		my @savepoints;
		foreach (1 .. 6)
		{
			my $what = rand();
			my $base = pick(@{ $schema->{partitioned} });
			$text .= "\\warn \@ own\n\\echo \@ own\n";
			if ($what < 0.4) { $text .= RandomStatements::command($schema) . ";\n"; }
			elsif ($what < 0.5) { $text .= change_all($base); }
			elsif ($what < 0.55) { $text .= RandomStatements::ddl_unit($schema)->{sql}; }
			elsif ($what < 0.65)
			{
				push @savepoints, 's' . @savepoints;
				$text .= "SAVEPOINT $savepoints[-1];\n";
			}
			elsif ($what < 0.75 && @savepoints)
			{
				my $which = int(rand(@savepoints));
				@savepoints = @savepoints[ 0 .. $which ];
				$text .= "ROLLBACK TO $savepoints[$which];\n";
			}
			elsif ($what < 0.85)
			{
				my $probe = pick('stable_probe', 'probe_one');
				$text .= pick(
					"UPDATE $base->{name} SET b = b + 1 WHERE b > 1 AND $probe('$probe in UPDATE')",
					"DELETE FROM $base->{name} WHERE b = 3 AND $probe('$probe in DELETE')",
					"UPDATE $base->{name} SET a = a || 'z' WHERE b = 2 RETURNING $probe('$probe in RETURNING')",
					"SELECT $probe('$probe in SELECT') FROM $base->{name} WHERE b = 2",
					"WITH w AS (UPDATE $base->{name} SET b = b + 1 WHERE b < 3 RETURNING b) SELECT $probe('$probe beside UPDATE') FROM w",
					"WITH w AS (DELETE FROM $base->{name} WHERE b = 5 RETURNING *) SELECT count(*) FROM w, $base->{name} x WHERE x.b = 5 AND $probe('$probe beside DELETE')"
				) . ";\n";
			}
			elsif ($what < 0.93)
			{
				my ($sql) = RandomQueries::select_sql($schema);
				$text .= 'SELECT loop_and_change(' . join(', ', map { quote_literal($_) } $sql, map { RandomStatements::without_result(RandomStatements::statement($schema)) } 1 .. 3) . ");\n"
				  unless $sql =~ / FOR (UPDATE|SHARE|KEY SHARE) OF/;
			}
			my $query = simple_query($schema);
			push @queries, $query;
			push @settings, [@current];
			$text .= "\\o\n" . under($number, 'off', $query) . under($number, 'force', $query) . explained($number, $query, 1) . "\\o /dev/null\n";
			$number++;
		}
		$text .= pick('COMMIT', 'ROLLBACK') . ";\n";
	}
	$text .= "\\o\n\\echo \@ end\n";
	$text =~ s/(.*)\\echo \@ end/$1\\echo \@ probes\nSELECT p.last_value, f.last_value FROM probes p, failed_probes f;\n\\echo \@ end/s;
	compare($schema, 'amid own changes', \@queries, \@settings, run_psql($schema->{name}, write_file("$directory/own.sql", $text)));
	my $drop = join('', map { my $base = $_; map { my $name = $_; map { "DROP TRIGGER IF EXISTS ${name}_$_ ON $base->{name};\n" } qw(after stmt before) } qw(a_probe z_probe) } @{ $schema->{partitioned} });
	run_psql($schema->{name}, write_file("$directory/drop.sql", "SET client_min_messages = error;\n$drop"));
	return;
}

# --- Old snapshots ---------------------------------------------------------------------

# A snapshot is taken; another session changes rows and makes index tables; then the queries come.
sub with_old_snapshots
{
	my ($schema, $wanted) = @_;
	my (@queries, @settings);
	my $text = "$head\\set ON_ERROR_ROLLBACK on\n";
	my $number = 0;
	while (@queries < $wanted)
	{
		my @current = RandomQueries::settings($version);
		$text .= "RESET ALL;\n$head" . join('', map { "$_;\n" } @current);
		$text .= "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 1 \\g /dev/null\n";
		my $other = "SET lock_timeout = '1s';\nSET client_min_messages = error;\n";
		my @rebuilt = RandomTables::some(5, grep { $_->{base} !~ /plain|bag/ } @{ $schema->{tables} });
		my @changes = map { RandomStatements::command($schema) . ";\n" } 1 .. 3;
		push @changes, RandomStatements::ddl_unit($schema)->{sql} if chance(0.5);
		push @changes, map {
			my $name = quote_literal($_->{name});
			"SELECT index_table.drop($name) WHERE to_regclass($name) IS NOT NULL;\n$_->{create}"
		} @rebuilt;
		@changes = RandomTables::some(99, @changes);
		# Rows that the index tables will not have entries for.
		unshift @changes, map {
			(
				change_all($_),
				"DELETE FROM $_->{name} WHERE b % 5 = " . int(rand(5)) . ";\n",
				map { "$_;\n" } RandomStatements::insert_select($_), RandomStatements::insert($_))
		} RandomTables::some(2, @{ $schema->{partitioned} });
		$other .= join('', @changes);
		my $path = write_file("$directory/other$number.sql", $other);
		$text .= "\\! PGOPTIONS= psql -X -q -d \"" . $node->connstr($schema->{name}) . "\" -f $path >>$directory/other.log 2>&1\n";
		foreach (1 .. 12)
		{
			local $RandomQueries::focus = chance(0.8) ? pick(@rebuilt) : undef;
			my $query = simple_query($schema);
			push @queries, $query;
			push @settings, [@current];
			$text .= under($number, 'off', $query) . under($number, 'force', $query) . explained($number, $query, 1);
			$number++;
		}
		$text .= "COMMIT;\n";
	}
	$text .= "\\echo \@ end\n";
	my ($stdout, $stderr) = run_psql($schema->{name}, write_file("$directory/old.sql", $text));
	diag(slurp_file("$directory/other.log")) if $ENV{QUERY_ERRORS};
	compare($schema, 'old snapshot', \@queries, \@settings, $stdout, $stderr);
	return;
}

# --- The test ---------------------------------------------------------------------------

note("QUERY_SEED=$seed");
diag("QUERY_SEED=$seed") if $total > 5000;

foreach my $number (1 .. $schemas)
{
	srand($seed * 1013 + $number);
	my $start = time();
	my $schema = RandomQueries::generate(%features);
	$schema->{has_merge} = $version >= 150005;
	my $db = $schema->{name} = "schema$number";
	unless (is(set_up($db, $schema), '', "$db: set up"))
	{
		diag("QUERY_SEED=$seed");
		next;
	}
	my @parts = (
		[ 'rest', \&at_rest, 0.7, 'the same rows with index tables and without' ],
		[ 'own', \&amid_own_changes, 0.1, 'the same amid own changes' ],
		[ 'writer', \&beside_a_writer, 0.1, 'the same beside a writer' ],
		[ 'old', \&with_old_snapshots, 0.1, 'the same with old snapshots' ]);
	foreach my $part (@parts)
	{
		my ($name, $run, $share, $title) = @$part;
		next unless $parts{$name};
		my $before = $failures;
		my $began = time();
		$run->($schema, $share * $total / $schemas);
		ok($failures == $before, "$db: $title");
		note(sprintf('%s %s: %.1f s', $db, $name, time() - $began));
	}
	oracle_ok($node, $db, "$db: index tables in step");
	check_storage($node, $db, $db);
	note(sprintf('%s: %.1f s', $db, time() - $start));
	$node->safe_psql('postgres', "DROP DATABASE $db WITH (FORCE)") unless $failures;
}
note(join(', ', map { "$count{$_} $_" } sort keys %count));
diag(join(', ', map { "$count{$_} $_" } sort keys %count) . ", $failures differences") if $total != 5000 || $failures;
if ($parts{rest})
{
	cmp_ok($count{scans}, '>', $count{explained} / 3, 'index tables were used');
	cmp_ok($count{through}, '>', $count{explained} / 10, 'rows were found through entries');
	cmp_ok($count{only}, '>', $count{explained} / 100, 'entries alone were read');
	cmp_ok($count{global}, '>', $count{explained} / 100, 'global indexes were read');
	cmp_ok($count{nearest}, '>', 0, 'distances were used') if $features{pg_trgm} && $features{btree_gist};
	# In a long run alone: there may be none in 5,000 queries.
	cmp_ok($count{nearest_entries}, '>', 0, q(distances were used through owners' indexes)) if $features{pg_trgm} && $features{btree_gist} && $total >= 20000;
	cmp_ok($count{further}, '>', $count{explained} / 100, q(owners' indexes were used));
}
cmp_ok($count{failing}, '<', $count{queries} / 20, 'few queries fail');
cmp_ok($count{failing_probes}, '<', $count{probes} / 5 + 1, 'few queries in the midst of changes fail');
cmp_ok($count{skipped}, '<', $count{queries} / 20, 'few queries had to be left out');

$node->stop;
done_testing();
