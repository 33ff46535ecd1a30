# Random queries over the tables of DeferredTables, each executed through index tables (enable_scan =
# force) and without them (off) in one REPEATABLE READ transaction: a pair. What they return must be
# the same, whatever is queued, whoever drains.
#
#   my $counts = new_counts();
#   compare_pairs($node, $counts, number => 500, readers => 2, read_only => 0)
#
# runs pairs and returns the number of those that differ, of which it reports the first few. The
# counts: pairs, differing, skipped (deadlocks, serialization failures), failing (an error, the same
# both ways), rows; explained, and of these scans (a plan has an Index Table Scan, or an Index Table Only
# Scan), only, queued (rows came from a queue); eventual, missing (fewer rows under read_consistency =
# eventual).
#
#   random_pair()             as text, for who executes pairs in another way: { statements, order, writes }
package DeferredReads;

use strict;
use warnings;

use Exporter 'import';
use IndexTableTest qw(sections quote_literal);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RandomTables qw(chance pick);
use Test::More;

our @EXPORT = qw(new_counts compare_pairs counts_text);

# --- Queries ------------------------------------------------------------------------

sub number { return 1 + int(rand($_[0])); }
sub new_id { return 10_000_000 + number(1_000_000_000); }
sub email { return quote_literal('user' . number(600) . '@x.com'); }
sub town { return quote_literal('Town ' . number(39)); }
sub score { return number(120) - 5; }
sub tag { return quote_literal('t' . number(chance(0.5) ? 10 : 69)); }
sub code { return quote_literal(sprintf('code%03d', number(499))); }
sub kind { return quote_literal(pick(qw(a b c d e f g h i j k))); }
sub amount { return pick(number(300), number(300) / 4, number(300) . '.00'); }

sub list
{
	my ($value, $type) = @_;
	my @values = map { $value->() } 1 .. 1 + number(4);
	push @values, 'NULL' if chance(0.1);
	my $values = join(', ', @values);
	return chance(0.5) ? "IN ($values)" : "= ANY (ARRAY[$values]::$type\[])";
}

# Conditions that an index table serves, by its base. Row aliases are "a" and "e".
my %conditions = (
	a => [
		sub { 'lower(a.email) = ' . email() },
		sub { 'lower(a.email) ' . list(\&email, 'text') },
		sub { my $n = 10 + number(49); "lower(a.email) >= 'user$n' AND lower(a.email) < 'user${n}5'" },
		sub { q{lower(a.email) LIKE 'user} . number(60) . q{%'} },
		sub { 'lower(a.email) IS NULL' },
		sub { 'a.town = ' . town() . ' AND a.score >= 0' },
		sub { 'a.town ' . list(\&town, 'text') . ' AND a.score >= ' . number(100) },
		sub { 'a.town = ' . town() . ' AND a.score BETWEEN 0 AND ' . number(100) },
		sub { 'a.town IS NULL AND a.score >= 0' },
		sub { 'a.score = ' . score() },
		sub { 'a.score ' . list(\&score, 'int') },
		sub { my $n = score(); "a.score BETWEEN $n AND $n + " . number(4) },
		sub { 'a.score < ' . (number(10) - 8) },
		sub { 'a.score IS NULL' },
		sub { tag() . ' = ANY (a.tags)' },
		sub { 'a.tags @> ARRAY[' . tag() . ']' },
		sub { 'a.tags @> ARRAY[' . tag() . ', ' . tag() . ']' },
		sub { '(lower(a.email) = ' . email() . ' OR a.score = ' . score() . ')' },
		sub { '(a.score ' . list(\&score, 'int') . ' OR ' . tag() . ' = ANY (a.tags))' },
		sub { '(lower(a.email) = ' . email() . ' OR a.town = ' . town() . ' AND a.score > 5 OR a.score = ' . score() . ')' } ],
	e => [
		sub { 'e.code = ' . code() },
		sub { 'e.code ' . list(\&code, 'text') },
		sub { my $n = 10 + number(39); "e.code >= 'code$n' AND e.code < 'code${n}9'" },
		sub { q{e.code LIKE 'code0} . number(9) . q{%'} },
		sub { 'e.code IS NULL' },
		sub { 'e.kind = ' . kind() . ' AND e.amount < ' . number(60) },
		sub { 'e.kind = ' . kind() . ' AND e.amount ' . list(\&amount, 'numeric') },
		sub { 'e.kind ' . list(\&kind, 'text') . ' AND e.amount = ' . amount() },
		sub { 'e.amount = ' . amount() },
		sub { 'e.amount ' . list(\&amount, 'numeric') },
		sub { my $n = amount(); "e.amount > $n AND e.amount <= $n + 3" },
		sub { 'e.amount > 297' },
		sub { '(e.code = ' . code() . ' OR e.amount = ' . amount() . ')' },
		sub { '(e.code ' . list(\&code, 'text') . ' OR e.note = ' . quote_literal('note ' . number(49)) . ' AND e.id % 5 = 0)' } ]);
my %relations = (a => 'accounts a', e => 'events e');

sub condition
{
	my ($alias) = @_;
	my $sql = pick(@{ $conditions{$alias} })->();
	$sql .= ' AND ' . pick("$alias.id % 2 = 0", "$alias.note > 'note 3'", "$alias.note IS NOT NULL", "$alias.id > 300") if chance(0.25);
	return $sql;
}

sub either { return pick('a', 'e'); }

# Columns that can be had without the row, and others.
sub columns
{
	my ($alias) = @_;
	return pick("$alias.*", "$alias.tableoid::regclass, $alias.*", "$alias.id", "$alias.id, $alias.tableoid::regclass", "$alias.note, $alias.id", "$alias.*::text");
}

# Queries, each { sql, order }; of order, see RandomQueries.
my @queries = (
	# By keys.
	[ 10, sub { my $r = either(); return { sql => 'SELECT ' . columns($r) . " FROM $relations{$r} WHERE " . condition($r) }; } ],
	# Entries alone will do.
	[ 4, sub {
			return { sql => pick(
					'SELECT a.id, lower(a.email) FROM accounts a WHERE lower(a.email) ' . list(\&email, 'text'),
					'SELECT a.town, a.score, a.note, a.id FROM accounts a WHERE a.town = ' . town() . ' AND a.score >= ' . number(50),
					'SELECT a.* FROM accounts a WHERE a.score ' . list(\&score, 'int'),
					'SELECT e.id, e.day, e.code FROM events e WHERE e.code ' . list(\&code, 'text'),
					'SELECT e.kind, e.amount, e.note, e.day, e.id FROM events e WHERE e.kind = ' . kind() . ' AND e.amount > ' . number(250),
					'SELECT e.id, e.note, e.kind FROM events e WHERE e.amount = ' . amount()) };
	} ],
	# In order.
	[ 5, sub {
			my $direction = pick('', ' DESC', ' DESC NULLS LAST', ' NULLS FIRST');
			my $limit = pick('', ' LIMIT 1', ' LIMIT ' . number(30), ' OFFSET 3 LIMIT 4');
			return { order => 'rows', sql => pick(
					"SELECT a.score, a.id, a.note FROM accounts a WHERE a.score > " . number(100) . " ORDER BY a.score$direction, a.id$limit",
					"SELECT a.score FROM accounts a ORDER BY a.score$direction" . ($limit || ' LIMIT 50'),
					"SELECT a.score FROM accounts a WHERE a.id % 3 = 0 AND a.score <= " . number(100) . " ORDER BY a.score$direction" . ($limit || ' LIMIT 50'),
					"SELECT lower(a.email), a.id FROM accounts a WHERE lower(a.email) > " . email() . " ORDER BY lower(a.email)$direction, a.id LIMIT " . number(20),
					"SELECT a.score FROM accounts a WHERE a.town = " . town() . " AND a.score >= 0 ORDER BY a.score$direction$limit",
					"SELECT e.code FROM events e ORDER BY e.code$direction" . ($limit || ' LIMIT 40'),
					"SELECT e.code, e.id, e.day, e.amount FROM events e WHERE e.code < " . code() . " ORDER BY e.code$direction, e.id, e.day LIMIT " . number(20),
					"SELECT trim_scale(e.amount) FROM events e ORDER BY e.amount$direction" . ($limit || ' LIMIT 40'),
					"SELECT trim_scale(e.amount), e.id, e.day FROM events e WHERE e.amount < " . number(100) . " ORDER BY e.amount$direction, e.id, e.day$limit",
					"SELECT trim_scale(e.amount) FROM events e WHERE e.kind = " . kind() . " ORDER BY e.amount$direction$limit") };
	} ],
	[ 1, sub { return { order => 'first', sql => 'SELECT a.score, a.* FROM accounts a WHERE a.score BETWEEN 10 AND ' . (10 + number(30)) . ' ORDER BY a.score' . pick('', ' DESC') }; } ],
	# Aggregates.
	[ 4, sub {
			my $r = either();
			my $where = condition($r);
			return { sql => pick(
					"SELECT count(*) FROM $relations{$r} WHERE $where",
					"SELECT count($r.note), min($r.id), max($r.note) FROM $relations{$r} WHERE $where",
					"SELECT $r.note, count(*) FROM $relations{$r} WHERE $where GROUP BY 1",
					'SELECT min(a.score), max(a.score) FROM accounts a',
					'SELECT min(lower(a.email)), max(lower(a.email)) FROM accounts a WHERE a.id % 3 > 0',
					'SELECT trim_scale(max(e.amount)), min(e.code) FROM events e',
					'SELECT trim_scale(min(e.amount)), count(*) FROM events e WHERE e.kind = ' . kind() . ' AND e.amount >= 10',
					'SELECT DISTINCT a.score FROM accounts a WHERE a.score > ' . number(100)) };
	} ],
	# Joins.
	[ 5, sub {
			my $n = number(110);
			return { sql => pick(
					'SELECT v.k, a.id, a.note FROM (VALUES (' . join('), (', map { email() } 1 .. 4) . ')) v (k) JOIN accounts a ON lower(a.email) = v.k',
					'SELECT v.k, e.id, e.day FROM (VALUES (' . join('), (', map { code() } 1 .. 4) . ')) v (k) LEFT JOIN events e ON e.code = v.k',
					"SELECT a.id, e.id, e.day, e.amount FROM accounts a JOIN events e ON e.amount = a.score WHERE a.score BETWEEN $n AND $n + 1",
					'SELECT a.id, b.id FROM accounts a JOIN accounts b ON b.score = a.score AND b.id > a.id WHERE lower(a.email) = ' . email(),
					'SELECT a.id, a.score FROM accounts a WHERE lower(a.email) LIKE ' . "'user" . number(60) . "%'" . ' AND ' . pick('', 'NOT ') . 'EXISTS (SELECT FROM events e WHERE e.amount = a.score AND e.id % 3 > 0)',
					'SELECT a.id, x.* FROM accounts a, LATERAL (SELECT e.code, e.id FROM events e WHERE e.code >= ' . "'code' || lpad(a.score::text, 3, '0')" . ' ORDER BY e.code, e.id, e.day LIMIT 2) x WHERE a.score BETWEEN 1 AND 2',
					'SELECT a.* FROM accounts a WHERE a.score IN (SELECT e.amount::int FROM events e WHERE e.code = ' . code() . ')') };
	} ]);

sub weighted
{
	my (@choices) = @_;
	my $sum = 0;
	$sum += $_->[0] foreach @choices;
	my $at = rand($sum);
	foreach my $choice (@choices)
	{
		return $choice->[1] if $at < $choice->[0];
		$at -= $choice->[0];
	}
	return $choices[-1][1];
}

# --- Changes ------------------------------------------------------------------------

# By keys, for UPDATE, DELETE, MERGE and locks, each compared and undone.
my @changes = (
	sub { my $r = either(); return 'SELECT ' . columns($r) . " FROM $relations{$r} WHERE " . condition($r) . pick(' FOR UPDATE', ' FOR NO KEY UPDATE', ' FOR SHARE', ' FOR KEY SHARE'); },
	sub { return 'UPDATE accounts a SET score = a.score + 1, email = a.email || a.id WHERE ' . condition('a') . ' RETURNING a.*'; },
	sub { return "UPDATE events e SET note = 'mine', amount = e.amount + 0.5 WHERE " . condition('e') . ' RETURNING e.*'; },
	sub { return 'UPDATE accounts a SET id = a.id + 1000000 WHERE ' . condition('a') . ' RETURNING a.id, a.tableoid::regclass'; },
	sub { return 'UPDATE events e SET day = (e.day + 100) % 300 WHERE ' . condition('e') . ' RETURNING e.id, e.day, e.tableoid::regclass'; },
	sub { my $r = either(); return "DELETE FROM $relations{$r} WHERE " . condition($r) . " RETURNING $r.*"; },
	sub { return "UPDATE events e SET code = 'joined' FROM accounts a WHERE e.amount = a.score AND lower(a.email) = " . email() . ' RETURNING e.id, e.day, a.score'; },
	sub { return 'WITH gone AS (DELETE FROM accounts a WHERE ' . condition('a') . ' RETURNING a.id, a.score) SELECT g.id, e.id FROM gone g LEFT JOIN events e ON e.amount = g.score'; },
	# What is read after it may depend on the ids: they are drawn here, not taken from the sequence.
	sub { return 'MERGE INTO accounts a USING (VALUES (' . new_id() . ', ' . email() . '), (' . new_id() . ', ' . email() . q{|| '.')) AS s (id, k) ON lower(a.email) = s.k WHEN MATCHED AND a.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k)}; });

# What a transaction has changed before it asks.
my @own_writes = (
	sub { return 'INSERT INTO accounts SELECT nextval(\'ids\'), email(i), town(i), score(i), tags(i), note(i) FROM generate_series(1, 10 + ' . number(40) . ') AS i'; },
	sub { return "INSERT INTO events SELECT nextval('ids'), i * 7 % 300, kind(i), code(i), amount(i), note(i) FROM generate_series(1, 10 + " . number(40) . ') AS i'; },
	sub { my $n = number(2900); return "UPDATE accounts SET email = email(id + $n), score = score(id * 3), tags = tags(id + $n) WHERE id BETWEEN $n AND $n + 60"; },
	sub { my $n = number(2900); return "UPDATE events SET code = code(id + $n), amount = amount(id + 1) WHERE id BETWEEN $n AND $n + 60"; },
	sub { my $n = number(2900); return "UPDATE events SET day = (day + 77) % 300, kind = kind(id + $n) WHERE id BETWEEN $n AND $n + 20"; },
	sub { my $n = number(2900); return "DELETE FROM accounts WHERE id BETWEEN $n AND $n + 30"; },
	sub { my $n = number(2900); return "DELETE FROM events WHERE id BETWEEN $n AND $n + 30"; },
	sub { return 'UPDATE accounts a SET score = a.score + 1 WHERE ' . condition('a'); },
	sub { return 'DELETE FROM events e WHERE ' . condition('e'); },
	sub { return 'SELECT attempt(' . number(2900) . ', ' . number(2900) . ')'; });

sub own_writes
{
	my (@writes, $in_savepoint);
	foreach (1 .. number(4))
	{
		if (chance(0.25)) { push @writes, 'SAVEPOINT own'; $in_savepoint = 1; }
		push @writes, pick(@own_writes)->();
		push @writes, pick('ROLLBACK TO own', 'RELEASE own') and $in_savepoint = 0 if $in_savepoint && chance(0.5);
	}
	return \@writes;
}

# --- Pairs --------------------------------------------------------------------------

# A pair is a hash of
#   statements   what is executed both ways
#   order        as RandomQueries has it
#   explain      a query whose plan tells something
#   writes       statements before, of the same transaction
#   undo         the statements change something
#   eventual     a query whose rows must be among those of the pair under read_consistency = eventual
sub random_pair
{
	my ($read_only) = @_;
	my $what = rand();
	my $query = weighted(@queries)->();
	my $pair = { statements => [ $query->{sql} ], order => $query->{order} // '', explain => $query->{sql} };
	if (!$read_only && $what < 0.12)
	{
		my $sql = pick(@changes)->();
		$pair = { statements => [$sql], order => '', undo => 1, explain => $sql };
		push @{ $pair->{statements} }, "SELECT count(*), sum(hashtext(x::text)::bigint) FROM ($query->{sql}) x" if chance(0.3) && $query->{sql} !~ /tableoid|LIMIT|numeric/;
	}
	elsif (!$read_only && $what < 0.2) { cursor($pair, $query); }
	elsif ($what < 0.28) { prepared($pair); }
	elsif ($what < 0.42 && !$query->{order} && $query->{sql} !~ /count|min|max|DISTINCT|LEFT|NOT EXISTS|LIMIT/) { $pair->{eventual} = $query->{sql}; }
	$pair->{writes} = own_writes() if !$read_only && !$pair->{eventual} && chance(0.25);
	return $pair;
}

# A cursor is read on while what it reads is changed.
sub cursor
{
	my ($pair, $query) = @_;
	my $scroll = $query->{order} && $query->{order} eq 'rows' && chance(0.5);
	@{$pair}{qw(undo explain statements)} = (1, undef, [
			'DECLARE c ' . ($scroll ? 'SCROLL ' : 'NO SCROLL ') . "CURSOR FOR $query->{sql}",
			$query->{order} || chance(0.2) ? 'FETCH 3 FROM c' : (),
			pick(@own_writes)->(),
			$scroll ? ('FETCH BACKWARD 2 FROM c') : (),
			chance(0.3) ? (pick(@own_writes)->()) : (),
			'FETCH ALL FROM c', 'CLOSE c' ]);
	# Which rows come first, or are the first three, is not said.
	$pair->{together} = 1 unless $query->{order} && $query->{order} eq 'rows';
	return;
}

sub prepared
{
	my ($pair) = @_;
	my @parameters = pick(
		[ 'text', 'SELECT a.* FROM accounts a WHERE lower(a.email) = $1', \&email ],
		[ 'int', 'SELECT a.id, a.note FROM accounts a WHERE a.score = $1', \&score ],
		[ 'text', 'SELECT a.id FROM accounts a WHERE $1 = ANY (a.tags)', \&tag ],
		[ 'numeric', 'SELECT e.* FROM events e WHERE e.amount = $1', \&amount ],
		[ 'text', 'SELECT e.id, e.day FROM events e WHERE e.code = $1', \&code ])->@*;
	@{$pair}{qw(order explain statements)} = ('', undef, [
			'SET LOCAL plan_cache_mode = ' . pick('force_generic_plan', 'auto'),
			"PREPARE q ($parameters[0]) AS $parameters[1]", (map { 'EXECUTE q (' . $parameters[2]->() . ')' } 1 .. 3), 'DEALLOCATE q' ]);
	return;
}

sub settings
{
	my @settings;
	push @settings, "SET enable_$_ = off" foreach grep { chance(0.1) } qw(hashjoin mergejoin nestloop sort bitmapscan material memoize incremental_sort hashagg);
	push @settings, 'SET work_mem = 64', if chance(0.1);
	push @settings, 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0', 'SET min_parallel_index_scan_size = 0', 'SET max_parallel_workers_per_gather = 2' if chance(0.05);
	push @settings, 'SET jit = off';
	return @settings;
}

# psql's text of one side of a pair.
sub side
{
	my ($number, $scan, $pair) = @_;
	my ($before, $after) = $pair->{undo} ? ("SAVEPOINT pair;\n", "ROLLBACK TO pair;\n") : ('', '');
	return "\\echo \@ $number $scan\n\\warn \@ $number $scan\n${before}SET LOCAL index_table.enable_scan = $scan;\n"
	  . join('', map { "$_;\n\\echo ^ :SQLSTATE\n" } @{ $pair->{statements} }) . $after;
}

sub pair_text
{
	my ($number, $pair, $explained) = @_;
	# What is truncated between the two would be gone from the snapshot.
	my $text = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nLOCK TABLE accounts, events IN ACCESS SHARE MODE;\n\\echo \@ $number writes\n\\warn \@ $number writes\n";
	$text .= join('', map { "$_;\n" } @{ $pair->{writes} // [] });
	$text .= join('', map { side($number, $_, $pair) } chance(0.5) ? qw(force off) : qw(off force));
	if ($pair->{explain} && $explained)
	{
		$text .= "\\echo \@ $number plan\n\\warn \@ $number plan\nSET LOCAL index_table.enable_scan = force;\n";
		# What changes something is not executed again.
		$text .= 'EXPLAIN (COSTS OFF' . ($pair->{undo} ? '' : ', ANALYZE, TIMING OFF, SUMMARY OFF') . ") $pair->{explain};\n";
	}
	if ($pair->{eventual})
	{
		$text .= "\\echo \@ $number eventual\n\\warn \@ $number eventual\nSET LOCAL index_table.enable_scan = force;\nSET LOCAL index_table.read_consistency = eventual;\n$pair->{eventual};\n\\echo ^ :SQLSTATE\n";
	}
	return "${text}ROLLBACK;\n";
}

# --- Comparing ----------------------------------------------------------------------

sub new_counts
{
	return { map { $_ => 0 } qw(pairs differing skipped failing rows explained scans only queued eventual missing) };
}

sub counts_text { my ($counts) = @_; return join(', ', map { "$counts->{$_} $_" } sort keys %$counts); }

sub result
{
	my ($pair, $lines) = @_;
	my (@all, @rows, @first);
	foreach my $line (@$lines)
	{
		if ($line =~ /^\^ (\w{5})$/)
		{
			# What an error comes after may differ.
			@rows = @first = () if $1 ne '00000';
			next if $pair->{together} && $1 eq '00000';
			push @all, @first, ($pair->{order} eq 'rows' ? @rows : sort @rows), "^ $1";
			@rows = @first = ();
			next;
		}
		push @rows, $line;
		push @first, '1: ' . ($line =~ /^([^\t]*)/)[0] if $pair->{order} eq 'first';
	}
	return [ @all, @first, sort @rows ];
}

# Lines of the first list that the second one lacks.
sub lacking
{
	my ($these, $those) = @_;
	my %count;
	$count{$_}++ foreach @$these;
	$count{$_}-- foreach @$those;
	return map { ($_) x $count{$_} } grep { $count{$_} > 0 } sort keys %count;
}

sub shown
{
	my (@lines) = @_;
	return join('', map { '  ' . substr($_, 0, 300) . "\n" } @lines[ 0 .. ($#lines > 7 ? 7 : $#lines) ]);
}

sub report
{
	my ($counts, $pair, $settings, $what, $messages) = @_;
	return if $counts->{differing}++ >= 5;
	diag("--- enable_scan = force differs from off\n" . join('', map { "$_;\n" } @$settings, @{ $pair->{writes} // [] }, '-- the pair', @{ $pair->{statements} }) . $what . substr($messages, 0, 1500));
	return;
}

sub compare
{
	my ($counts, $pairs, $settings, $run) = @_;
	my ($stdout, $stderr) = map { slurp_file("$run->{path}.$_") } qw(out err);
	my ($printed, $last) = sections($stdout);
	my ($messages) = sections($stderr);
	my $said = sub { return join("\n", map { @{ $messages->{"$_[0] $_"} // [] } } qw(writes force off plan eventual)); };
	if ($last ne 'end')
	{
		my ($number) = $last =~ /^(\d+)/;
		report($counts, $pairs->[ $number // 0 ], $settings, "psql or the server stopped at $last\n", substr($stderr, -1500));
	}
	foreach my $number (0 .. $#$pairs)
	{
		my $pair = $pairs->[$number];
		my ($force, $off) = map { $printed->{"$number $_"} } qw(force off);
		next unless $force && $off && $printed->{ $number + 1 . ' writes' } || $last eq 'end';
		$counts->{pairs}++;
		my ($found, $expected) = map { result($pair, $_) } $force, $off;
		my @states = grep { /^\^ (?!00000)/ } @$force, @$off;
		diag($said->($number)) if $ENV{DEFERRED_ERRORS} && @states;
		# A row or lock was not to be had, here or by what the transaction did before.
		if (grep { /^\^ (40P01|40001|55P03|25P02)/ } @states) { $counts->{skipped}++; next; }
		$counts->{failing}++ if @states;
		$counts->{rows} += @$expected;
		my $plan = join("\n", @{ $printed->{"$number plan"} // [] });
		if ($plan ne '')
		{
			$counts->{explained}++;
			$counts->{scans}++ if $plan =~ /Custom Scan \(Index Table (?:Only )?Scan/;
			$counts->{only}++ if $plan =~ /Custom Scan \(Index Table Only Scan/;
			$counts->{queued}++ if $plan =~ /Queued Rows: [1-9]/;
		}
		if (join("\n", @$found) ne join("\n", @$expected))
		{
			report($counts, $pair, $settings, "off alone:\n" . shown(lacking($expected, $found)) . "force alone:\n" . shown(lacking($found, $expected)) . ("$plan\n"), $said->($number));
		}
		elsif (grep { /^\^ XX/ } @states) { report($counts, $pair, $settings, "internal error\n", $said->($number)); }
		elsif (my $eventual = $printed->{"$number eventual"})
		{
			my @rows = @{ result($pair, $eventual) };
			$counts->{eventual}++;
			$counts->{missing}++ if @rows < @$expected;
			if (my @wrong = lacking(\@rows, $expected)) { report($counts, $pair, $settings, "wrong rows under eventual:\n" . shown(@wrong), $said->($number)); }
		}
	}
	return;
}

# --- Running ------------------------------------------------------------------------

my $number_of_runs = 0;

sub start_reader
{
	my ($node, $number, $read_only, $share) = @_;
	my @settings = settings();
	my @pairs = map { random_pair($read_only) } 1 .. $number;
	my $text = "\\set VERBOSITY verbose\nSET client_min_messages = warning;\nSET statement_timeout = '60s';\n" . join('', map { "$_;\n" } @settings);
	$text .= pair_text($_, $pairs[$_], chance($share)) foreach 0 .. $#pairs;
	my $path = PostgreSQL::Test::Utils::tempdir() . '/pairs' . $number_of_runs++ . '.sql';
	append_to_file($path, "$text\\echo \@ end\n\\warn \@ end\n");
	my $run = { pairs => \@pairs, settings => \@settings, path => $path };
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=index_table';
	local $ENV{PGAPPNAME} = 'readers';
	$run->{psql} = IPC::Run::start([ 'psql', '-XAtq', '-F', "\t", '-d', $node->connstr('postgres'), '-f', $path ],
		'<', \'', '>', "$path.out", '2>', "$path.err", IPC::Run::timeout(300)); # not pipes: who waits for another would not read them
	return $run;
}

sub compare_pairs
{
	my ($node, $counts, %options) = @_;
	my $before = $counts->{differing};
	my $left = $options{number};
	my $readers = $options{readers} // 1;
	while ($left > 0)
	{
		my $each = $left >= 250 * $readers ? 250 : int(($left + $readers - 1) / $readers);
		my @runs = map { start_reader($node, $each, $options{read_only}, $options{explained} // 0.3) } 1 .. $readers;
		foreach my $run (@runs)
		{
			$run->{psql}->finish;
			compare($counts, $run->{pairs}, $run->{settings}, $run);
		}
		$left -= $each * $readers;
	}
	return $counts->{differing} - $before;
}

1;
