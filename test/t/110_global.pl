# Random statements for a partitioned table with global indexes, and the same ones for a table in one
# piece with PostgreSQL's own unique indexes: each succeeds on both or fails on both, with the same
# SQLSTATE, and leaves the same rows. What DDL does to partitions the other table gets as DML.
#
#   GLOBAL_SEED         repeats a run
#   GLOBAL_STATEMENTS   (750)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use IPC::Open2;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Storable 'dclone';
use Test::More;

my $seed = $ENV{GLOBAL_SEED} // int(rand(2**31));
my $total = how_many('GLOBAL_STATEMENTS', 750);
note("GLOBAL_SEED=$seed");
diag("GLOBAL_SEED=$seed") if $total > 1500;

my $node = new_node('global', conf => "session_preload_libraries = index_table\nfsync = off\nmax_locks_per_transaction = 512\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
my $spaces = PostgreSQL::Test::Utils::tempdir_short();
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$spaces'");
my $has_merge = $node->safe_psql('postgres', 'SHOW server_version_num') >= 150005;

# --- Both sides -----------------------------------------------------------------------

# Partitions have a hundred ids each; 2 has partitions of its own, 1 and those of 3 another layout.
# 6 and 7 come and go.
my $width = 100;
my @ranges = 0 .. 7;
my $columns = 'id int NOT NULL, u int, c varchar(20), d int, n numeric';
sub bounds { my ($i) = @_; return 'FOR VALUES FROM (' . $i * $width . ') TO (' . ($i + 1) * $width . ')'; }

my %indexes = (
	by_u => [ '(u)', 'unique' ],
	by_c => [ '(lower(c) DESC, d)', 'unique', 'WHERE d > 3' ],
	by_cd => [ '(c, d DESC NULLS LAST) INCLUDE (n)', '' ],
	by_n => [ '(n) INCLUDE (id)', '', 'WHERE d < 5' ],
	by_d => [ '(d)', 'vacuum = eager' ],
	by_nd => [ '(n, id)', 'unique, deduplicate_items = off, fillfactor = 50' ],
	by_gin => [ '((ARRAY[d, (u % 10)::int]))', 'method = gin, gin_pending_list_limit = 64' ],
	by_gist => [ '((point((u % 30)::float8, d::float8)))', 'method = gist' ],
	by_spgist => [ '(c)', 'method = spgist, vacuum = eager' ],
	by_hash => [ '(c)', 'method = hash', 'WHERE d > 2' ]);
# Amcheck does not know these: what they find, and what the partitions have.
my @probes = ('ARRAY[d, (u % 10)::int] @> ARRAY[3]', 'ARRAY[d, (u % 10)::int] && ARRAY[7, 8]', "point((u % 30)::float8, d::float8) <@ box '((2,1),(9,5))'",
	"point((u % 30)::float8, d::float8) ~= point(3, 4)", "c ^@ 'a'", "c = 'b7'", "c = 'm3' AND d > 2", "c IN ('C1', 'C2', 'x3', 'm11') AND d > 2", 'c IS NULL AND d < 3');

sub global_index_sql
{
	my ($name) = @_;
	my ($key, $with, $where) = @{ $indexes{$name} };
	return "CREATE INDEX $name ON t USING global $key" . ($with ? " WITH ($with)" : '') . ' ' . ($where // '');
}
sub native_index_sql
{
	my ($name) = @_;
	my ($key, $with, $where) = @{ $indexes{$name} };
	return $with =~ /unique/ ? "CREATE UNIQUE INDEX $name ON t $key " . ($where // '') : 'SELECT';
}

$node->safe_psql('postgres', "
CREATE EXTENSION index_table;
CREATE SCHEMA ours; CREATE SCHEMA theirs;
SET search_path = ours;
CREATE TABLE t ($columns) PARTITION BY RANGE (id);
CREATE TABLE t_0 PARTITION OF t " . bounds(0) . ";
CREATE TABLE t_1 (n numeric, gone text, d int, c varchar(20), u int, gone2 int, id int NOT NULL);
ALTER TABLE t_1 DROP COLUMN gone, DROP COLUMN gone2;
ALTER TABLE t ATTACH PARTITION t_1 " . bounds(1) . ";
CREATE TABLE t_2 PARTITION OF t " . bounds(2) . " PARTITION BY HASH (id);
CREATE TABLE t_2_0 PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t_2_1 PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE t_3 (gone int, u int, id int NOT NULL, c varchar(20), d int, n numeric) PARTITION BY LIST (d);
ALTER TABLE t_3 DROP COLUMN gone;
CREATE TABLE t_3_0 (d int, gone int, n numeric, id int NOT NULL, u int, c varchar(20));
ALTER TABLE t_3_0 DROP COLUMN gone;
ALTER TABLE t_3 ATTACH PARTITION t_3_0 FOR VALUES IN (0, 1, 2, 3, 4);
CREATE TABLE t_3_1 PARTITION OF t_3 DEFAULT;
ALTER TABLE t ATTACH PARTITION t_3 " . bounds(3) . ";
CREATE TABLE t_4 PARTITION OF t " . bounds(4) . " WITH (fillfactor = 40);
CREATE UNLOGGED TABLE t_5 PARTITION OF t " . bounds(5) . ";
CREATE TABLE t_6 PARTITION OF t " . bounds(6) . ";
CREATE TABLE side (LIKE t);
SET search_path = theirs;
CREATE TABLE t ($columns);
CREATE TABLE side (part int, LIKE t);");
foreach my $name (sort keys %indexes)
{
	$node->safe_psql('postgres', 'SET search_path = ours; ' . global_index_sql($name) . '; SET search_path = theirs; ' . native_index_sql($name));
}
$node->safe_psql('postgres', "CREATE INDEX ON theirs.t (id); CREATE INDEX ON ours.t (id)");

sub connect_side
{
	my ($schema) = @_;
	my %side = (schema => $schema);
	open2($side{from}, $side{to}, 'exec psql -XqAt -d "' . $node->connstr('postgres') . '" 2>&1');
	run_on(\%side, "SET search_path = $schema; SET client_min_messages = error; SET deadlock_timeout = '100ms'; SET plan_cache_mode = force_custom_plan");
	return \%side;
}

# SQLSTATE and output.
sub run_on
{
	my ($side, $sql) = @_;
	print { $side->{to} } "$sql;\n\\echo __ :ERROR :LAST_ERROR_SQLSTATE\n" or die 'psql is gone';
	my $text = '';
	local $SIG{ALRM} = sub { die "no answer: $sql" };
	alarm($PostgreSQL::Test::Utils::timeout_default);
	while (1)
	{
		my $line = readline($side->{from}) // die "the server is gone: $text\n$sql";
		return $1 eq 'true' ? ($2, $text) : ('', $text) if $line =~ /^__ (\w+) (\w+)/;
		$text .= $line;
	}
}

my $ours = connect_side('ours');
my $theirs = connect_side('theirs');

# What the test knows of partitions: attached, detached (with rows in a table of its name), or none.
# Those that are made anew have no partitions.
my %model = (parts => { (map { $_ => 'attached' } 0 .. 6), 7 => 'none' }, columns => [], whole => {}, indexes => { map { $_ => 1 } sort keys %indexes });
my @saved; # models of transaction and savepoints
my $in_transaction = 0;
my %counts;
my @log;

sub chance { return rand() < $_[0]; }
sub pick { return $_[ int(rand(@_)) ]; }
sub in_state { my (@states) = @_; return grep { my $part = $_; grep { $model{parts}{$part} eq $_ } @states } @ranges; }

# --- Statements -------------------------------------------------------------------------

sub id { return pick(in_state('attached')) * $width + int(rand($width)); }
sub u { return chance(0.1) ? 'NULL' : int(rand(700)); }
sub c { return chance(0.1) ? 'NULL' : "'" . pick(qw(a b C c D x)) . int(rand(60)) . "'"; }
sub d { return chance(0.05) ? 'NULL' : int(rand(9)); }
sub n { return chance(0.05) ? 'NULL' : pick(int(rand(50)), int(rand(50)) . '.5', int(rand(50)) . '.50'); }
sub values_row { return '(' . join(', ', id(), u(), c(), d(), n()) . ')'; }
sub one_row { return '(SELECT id, u FROM t ORDER BY abs(id - ' . id() . '), u, c, d, n LIMIT 1)'; }

sub set_clause
{
	return pick(
		'u = ' . u(), 'c = ' . c(), 'd = ' . d(), 'n = ' . n(), 'c = ' . c() . ', d = ' . d(),
		'id = ' . id(), 'id = ' . id() . ', u = ' . u(), 'd = ' . d() . ', id = ' . id(), 'c = upper(c)', 'n = n');
}

# ALTER TYPE makes indexes anew. Parts that partitions have kept of an index that was dropped while they were detached go first:
# their names may be given to parts of another, which then fails (42P07), natively as well.
sub alter_type
{
	my ($alter) = @_;
	my $left = (run_on($ours, q{SELECT 'DROP INDEX ' || string_agg(relname, ', ') || '; ' FROM pg_class
		WHERE relkind = 'i' AND NOT relispartition AND relname ~ '^t_.*idx' AND relnamespace = 'ours'::regnamespace HAVING count(*) > 0}))[1];
	return [ $left . $alter, $alter ];
}

# Tables that have been detached stay as they are: columns are changed where there are none.
# A statement is [ours, theirs, what becomes of the model if it succeeds]; theirs is the same where it
# is left out. Rows that change many keys at once would fail in another order: those change one row.
my %makers = (
	insert => [ 30, sub { return [ 'INSERT INTO t VALUES ' . join(', ', map { values_row() } 1 .. pick(1, 1, 1, 2, 5)) ]; } ],
	select => [ 3, sub { my $base = id(); return [ "INSERT INTO t SELECT $base - $base % $width + i, i + " . int(rand(600)) . ", 'm' || i, i % 9, i FROM generate_series(0, 20) i" ]; } ],
	copy => [ 3, sub { my @rows = map { join("\t", map { s/^'|'$//gr =~ s/NULL/\\N/r } id(), u(), c(), d(), n()) } 1 .. pick(1, 4);
		my $path = "$spaces/rows";
		open my $out, '>', $path or die $!;
		print $out "$_\n" foreach @rows;
		close $out;
		return [ "COPY t (id, u, c, d, n) FROM '$path'" ]; } ],
	update => [ 20, sub { return [ 'UPDATE t SET ' . set_clause() . ' WHERE (id, coalesce(u, -1)) IN (SELECT id, coalesce(u, -1) FROM t WHERE u = ' . int(rand(700)) . ')' ]; } ],
	touch => [ 8, sub { return [ 'UPDATE t SET n = n WHERE id BETWEEN ' . id() . ' AND ' . id() ]; } ],
	clear => [ 4, sub { return [ 'UPDATE t SET u = NULL, d = NULL, n = NULL WHERE id % 11 = ' . int(rand(11)) ]; } ],
	delete => [ 12, sub { return [ 'DELETE FROM t WHERE u = ' . int(rand(700)) . ' OR id = ' . id() ]; } ],
	delete_many => [ 3, sub { return [ 'DELETE FROM t WHERE id % 7 = ' . int(rand(7)) ]; } ],
	replace => [ 3, sub { my $u = int(rand(700)); return [ "DELETE FROM t WHERE u = $u; INSERT INTO t VALUES (" . join(', ', id(), $u, c(), d(), n()) . ')' ]; } ],
	merge => [ $has_merge ? 6 : 0, sub { my $u = int(rand(700)); return [ "MERGE INTO t USING (VALUES ($u)) s(u) ON t.u = s.u WHEN MATCHED AND d < 3 THEN DELETE WHEN MATCHED THEN UPDATE SET "
		  . pick('n = ' . n(), 'u = ' . u(), 'c = ' . c()) . ' WHEN NOT MATCHED THEN INSERT VALUES ' . values_row() ]; } ],
	truncate => [ 2, sub { my ($name, $where) = a_part('attached') or return; return [ "TRUNCATE $name", "DELETE FROM t WHERE $where" ]; } ],
	truncate_all => [ 0.3, sub { return [ 'TRUNCATE t' ]; } ],
	detach => [ 2, sub { my $part = pick(in_state('attached')) // return; return if in_state('attached') < 4;
		# The constraint that this leaves is wrong for partitions of another layout.
		my $concurrently = $part != 3 && !$in_transaction && chance(0.4) ? ' CONCURRENTLY' : '';
		return [ "ALTER TABLE t DETACH PARTITION t_$part$concurrently", leave_sql($part, 1), sub { $model{parts}{$part} = 'detached' } ]; } ],
	attach => [ 4, sub { my $part = pick(in_state('detached')) // return;
		return [ "ALTER TABLE t ATTACH PARTITION t_$part " . bounds($part), come_sql($part), sub { $model{parts}{$part} = 'attached' } ]; } ],
	detached_dml => [ 2, sub { my $part = pick(grep { $_ != 3 } in_state('detached')) // return;
		my $id = $part * $width + int(rand($width)); my ($u, $d) = (u(), d());
		return pick([ "INSERT INTO t_$part (id, u, c, d, n) VALUES ($id, $u, NULL, $d, NULL)", "INSERT INTO side (part, id, u, c, d, n) VALUES ($part, $id, $u, NULL, $d, NULL)" ],
			[ "DELETE FROM t_$part WHERE id < $id", "DELETE FROM side WHERE part = $part AND id < $id" ],
			[ "UPDATE t_$part SET u = NULL WHERE id > $id", "UPDATE side SET u = NULL WHERE part = $part AND id > $id" ],
			[ "TRUNCATE t_$part", "DELETE FROM side WHERE part = $part" ],
			$in_transaction ? () : [ "VACUUM t_$part", 'SELECT' ]); } ],
	create => [ 3, sub { my $part = pick(in_state('none')) // return;
		return [ "CREATE " . pick('', '', 'UNLOGGED ') . "TABLE t_$part PARTITION OF t " . bounds($part), 'SELECT', sub { $model{parts}{$part} = 'attached'; $model{whole}{$part} = 1 } ]; } ],
	drop => [ 1, sub { my $part = pick(in_state('attached', 'detached')) // return; return if in_state('attached') < 4;
		return [ "DROP TABLE t_$part", leave_sql($part, 0), sub { $model{parts}{$part} = 'none' } ]; } ],
	reindex_child => [ 2, sub { my ($name) = a_leaf(); return [ "REINDEX TABLE $name", 'SELECT' ]; } ],
	reindex_root => [ 1.5, sub { my $index = pick(sort keys %{ $model{indexes} }) // return; return [ "REINDEX INDEX $index", 'SELECT' ]; } ],
	cluster => [ 1, sub { my $part = pick(grep { /^[01456]$/ } in_state('attached')) // return; return [ "CLUSTER t_$part USING t_${part}_id_idx", 'SELECT' ]; } ],
	# In a transaction that rolls back, indexes of any kind would keep entries of rows that the old file has never had.
	tablespace => [ 1, sub { return if $in_transaction; my ($name) = a_leaf(); return [ "ALTER TABLE $name SET TABLESPACE " . pick('space', 'pg_default'), 'SELECT' ]; } ],
	persistence => [ 0.7, sub { my $part = pick(grep { /^[01456]$/ } in_state('attached')) // return; return [ "ALTER TABLE t_$part SET " . pick('LOGGED', 'UNLOGGED'), 'SELECT' ]; } ],
	type => [ 0.7, sub { return if in_state('detached'); return alter_type('ALTER TABLE t ALTER c TYPE ' . pick('varchar(20)', 'varchar(30)', 'text', 'varchar(40)')); } ],
	numeric => [ 0.5, sub { return if in_state('detached'); return alter_type('ALTER TABLE t ALTER u TYPE ' . pick(qw(int bigint))); } ],
	add_column => [ 0.5, sub { return if in_state('detached'); my $name = 'x' . int(rand(1e6)); return [ "ALTER TABLE t ADD COLUMN $name int DEFAULT " . pick(7, 'random() * 0'), undef, sub { push @{ $model{columns} }, $name } ]; } ],
	drop_column => [ 0.5, sub { return if in_state('detached'); my $name = pick(@{ $model{columns} }) // return; return [ "ALTER TABLE t DROP COLUMN $name", undef, sub { $model{columns} = [ grep { $_ ne $name } @{ $model{columns} } ] } ]; } ],
	drop_index => [ 0.7, sub { my $name = pick(sort keys %{ $model{indexes} }) // return; return [ "DROP INDEX $name", 'DROP INDEX IF EXISTS ' . $name, sub { delete $model{indexes}{$name} } ]; } ],
	create_index => [ 3, sub { my $name = pick(grep { !$model{indexes}{$_} } sort keys %indexes) // return; return [ global_index_sql($name), native_index_sql($name), sub { $model{indexes}{$name} = 1 } ]; } ],
	vacuum => [ 8, sub { return if $in_transaction; my ($name) = chance(0.5) ? 't' : a_leaf(); return [ 'VACUUM' . pick('', ' (INDEX_CLEANUP on)', ' (INDEX_CLEANUP on)', ' (FREEZE)') . " $name", 'SELECT' ]; } ],
	vacuum_full => [ 1, sub { return if $in_transaction; my ($name) = a_leaf(); return [ "VACUUM FULL $name", 'SELECT' ]; } ],
	sweep => [ 3, sub { return if $in_transaction; my $name = pick(sort keys %{ $model{indexes} }) // return;
		return [ "SELECT 'VACUUM pg_toast.index_table_global_' || '$name'::regclass::oid \\gexec\nSELECT", 'SELECT' ]; } ],
	begin => [ 8, sub { return if $in_transaction; return [ 'BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'), undef, sub { $in_transaction = 1; push @saved, [ '', dclone(\%model) ] } ]; } ],
	savepoint => [ 4, sub { return unless $in_transaction; my $name = 's' . @saved; return [ "SAVEPOINT $name", undef, sub { push @saved, [ $name, dclone(\%model) ] } ]; } ],
	rollback_to => [ 3, sub { return unless @saved > 1; my $i = 1 + int(rand(@saved - 1));
		return [ "ROLLBACK TO $saved[$i][0]", undef, sub { $#saved = $i; %model = %{ dclone($saved[$i][1]) } } ]; } ],
	release => [ 2, sub { return unless @saved > 1; my $i = 1 + int(rand(@saved - 1)); return [ "RELEASE $saved[$i][0]", undef, sub { $#saved = $i - 1 } ]; } ],
	end => [ 6, sub { return unless $in_transaction; return pick(make_commit(), make_commit(), make_rollback(), make_prepare()); } ]);

sub make_commit { return [ 'COMMIT', undef, sub { $in_transaction = 0; @saved = () } ]; }
sub make_rollback { return [ 'ROLLBACK', undef, sub { $in_transaction = 0; %model = %{ $saved[0][1] }; @saved = () } ]; }
sub make_prepare
{
	my $way = pick('COMMIT', 'ROLLBACK');
	return [ "PREPARE TRANSACTION 'ours';\n$way PREPARED 'ours'", "PREPARE TRANSACTION 'theirs';\n$way PREPARED 'theirs'",
		sub { $in_transaction = 0; %model = %{ $saved[0][1] } if $way eq 'ROLLBACK'; @saved = () } ];
}

# A partition's name, and where its rows are.
sub a_part
{
	my $part = pick(in_state(@_)) // return;
	my $range = "id BETWEEN $part * $width AND $part * $width + $width - 1";
	return ('t_3_0', "$range AND d BETWEEN 0 AND 4") if $part == 3 && !$model{whole}{3} && chance(0.5);
	return ("t_$part", $range);
}
sub a_leaf
{
	my $part = pick(in_state('attached'));
	return ($part == 2 || $part == 3) && !$model{whole}{$part} ? "t_${part}_" . pick(0, 1) : "t_$part";
}
sub leave_sql
{
	my ($part, $keep) = @_;
	my $list = join(', ', qw(id u c d n));
	my $where = "id BETWEEN $part * $width AND $part * $width + $width - 1";
	my $delete = "DELETE FROM t WHERE $where";
	return $model{parts}{$part} eq 'detached' ? "DELETE FROM side WHERE part = $part" : $delete unless $keep;
	return "INSERT INTO side (part, $list) SELECT $part, $list FROM t WHERE $where; $delete";
}
sub come_sql
{
	my ($part) = @_;
	my $list = join(', ', qw(id u c d n));
	return "WITH gone AS (DELETE FROM side WHERE part = $part RETURNING *) INSERT INTO t ($list) SELECT $list FROM gone";
}

sub make_statement
{
	while (1)
	{
		my $sum = 0;
		$sum += $makers{$_}[0] foreach keys %makers;
		my $drawn = rand($sum);
		foreach my $kind (sort keys %makers)
		{
			$drawn -= $makers{$kind}[0];
			next if $drawn >= 0;
			my $statement = $makers{$kind}[1]->() or last;
			return ($kind, @$statement);
		}
	}
}

sub probe_problems
{
	my @answers = map { $node->safe_psql('postgres', "SET search_path = ours; SET index_table.enable_scan = $_;\n"
		. join("\n", map { "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM t WHERE $_;" } @probes)) } 'force', 'off';
	return $answers[0] eq $answers[1] ? '' : "found:\n$answers[0]\nthere:\n$answers[1]";
}

# --- The test -----------------------------------------------------------------------------

my $shown = 'SELECT md5(coalesce(string_agg(r, E\'\n\' ORDER BY r), \'\')), count(*) FROM (SELECT concat_ws(\'|\', id, coalesce(u::text, \'-\'), coalesce(c, \'-\'), d::int, n, %s) FROM t) AS r(r)';

srand($seed); # what comes before may draw, too
# The same on both; a failure in a transaction is undone by psql's own savepoint.
run_on($_, "\\set ON_ERROR_ROLLBACK on\nSELECT") foreach $ours, $theirs;
my $failures = 0;
sub fault
{
	my ($message) = @_;
	$failures++;
	diag("GLOBAL_SEED=$seed, statement " . @log . ": $message");
	my $saved = ($ENV{TESTDIR} // '.') . '/global_statements.sql';
	if (open my $out, '>', $saved)
	{
		print $out "$_\n" foreach @log;
		close $out;
		diag("all statements are in $saved");
	}
	diag(join("\n", 'the last statements:', @log[ (@log > 25 ? -25 : -@log) .. -1 ]));
	return;
}

while (@log < $total && !$failures)
{
	my ($kind, $our_sql, $their_sql, $effect) = @log == $total - 1 && $in_transaction ? ('end', @{ make_commit() }) : make_statement();
	$their_sql //= $our_sql;
	my ($our_state, $our_text) = run_on($ours, $our_sql);
	my ($their_state, $their_text) = run_on($theirs, $their_sql);
	push @log, "$our_sql; -- $our_state";
	$counts{$kind}{ $our_state eq '' ? 'ok' : $our_state }++;
	if ($our_state ne $their_state)
	{
		fault("ours $our_state $our_text\ntheirs $their_state $their_text\n$their_sql");
		last;
	}
	if ($our_state !~ /^(?:|23505|55006|22003|23514)$/) { fault("$our_state $our_text"); last; }
	$effect->() if $effect && $our_state eq '';
	my $columns = join(', ', sort(@{ $model{columns} }), "''");
	my ($our_rows) = (run_on($ours, sprintf($shown, $columns)))[1];
	my ($their_rows) = (run_on($theirs, sprintf($shown, $columns)))[1];
	if ($our_rows ne $their_rows) { fault("rows differ: $our_rows$their_rows"); last; }
	if (!$in_transaction && chance(@log > $total * 0.9 ? 0.1 : 0.06))
	{
		my $exact = chance(0.4);
		my $problems = global_problems($node, 'postgres', exact => $exact) . probe_problems();
		fault("problems: $problems") if $problems ne '';
	}
}
run_on($_, 'COMMIT') foreach $ours, $theirs;
ok(!$failures, "$total statements do what they do to a table in one piece");
note(join(', ', map { my $kind = $_; "$kind: " . join(' ', map { "$_ $counts{$kind}{$_}" } sort keys %{ $counts{$kind} }) } sort keys %counts));
is(join(' ', grep { $makers{$_}[0] > 0 && !$counts{$_}{ok} } sort keys %makers), '', 'statements of all kinds have succeeded') if $total >= 5000;
check_global($node, 'postgres', 'at the end');
is(probe_problems(), '', 'every row is found');
print { $_->{to} } "\\q\n" foreach $ours, $theirs;

$node->stop;
done_testing();
