# UPDATE, DELETE and locking SELECTs by key over foreign partitions on three servers: random ones, each in two databases
# that hold the same, in one through index tables, in the other without; which shards are asked; and what becomes of rows
# that others change meanwhile.
#
#   SHARD_CHANGES_SEED    repeats a run
#   SHARD_CHANGES_COUNT   how many random transactions (250)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SHARD_CHANGES_SEED} // int(rand(2**31));
my $total = $ENV{SHARD_CHANGES_COUNT} // 250;
srand($seed);
note "SHARD_CHANGES_SEED=$seed SHARD_CHANGES_COUNT=$total";

my @sides = qw(through native);
my $coordinator = new_node('coordinator', conf => "session_preload_libraries = 'index_table'\njit = off\n");
my $version = $coordinator->safe_psql('postgres', 'SHOW server_version_num');
my $counts = has_extension($coordinator, 'pg_stat_statements');
my @shards = map { new_node("shard$_", conf => $counts ? "shared_preload_libraries = 'pg_stat_statements'\n" : '') } 0 .. 2;

# --- Tables -------------------------------------------------------------------------

# Eight partitions: two are here, six on shards, some with their columns in another order.
my $columns = q{id int NOT NULL, region int NOT NULL, email text COLLATE "C", town varchar(20), num int, note text, twice int GENERATED ALWAYS AS (num * 2) STORED};
my $reordered = q{note text, gone int, twice int GENERATED ALWAYS AS (num * 2) STORED, num int, town varchar(20), email text COLLATE "C", region int NOT NULL, id int NOT NULL};
my $user = getpwuid($>);
my $setup = "CREATE EXTENSION index_table;\nCREATE EXTENSION postgres_fdw;\n";
foreach my $number (0 .. 2)
{
	my ($host, $port) = ($shards[$number]->host, $shards[$number]->port);
	$setup .= "CREATE SERVER shard$number FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname :'DBNAME', fetch_size '7', async_capable '" . ($number == 2 ? 'false' : 'true') . "');\n"
	  . "CREATE USER MAPPING FOR PUBLIC SERVER shard$number OPTIONS (user '$user', password_required 'false');\n";
	$shards[$number]->safe_psql('postgres', "CREATE DATABASE $_") foreach @sides;
	$shards[$number]->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') if $counts;
}
$setup .= "CREATE TABLE people ($columns) PARTITION BY HASH (id);\n";
foreach my $leaf (0 .. 7)
{
	my $bound = "FOR VALUES WITH (MODULUS 8, REMAINDER $leaf)";
	if ($leaf % 4 == 3)
	{
		$setup .= "CREATE TABLE people_$leaf PARTITION OF people (PRIMARY KEY (id, region)) $bound;\n";
		next;
	}
	my $number = $leaf % 3;
	my $layout = $leaf % 3 == 2 ? $reordered =~ s/gone int, //r : $columns;
	$shards[$number]->safe_psql($_, "CREATE TABLE remote_$leaf ($layout, PRIMARY KEY (region, id))") foreach @sides;
	my $options = "SERVER shard$number OPTIONS (schema_name 'public', table_name 'remote_$leaf')";
	$setup .= $leaf % 3 == 1
	  ? "CREATE FOREIGN TABLE people_$leaf ($reordered) $options;\nALTER FOREIGN TABLE people_$leaf DROP COLUMN gone;\nALTER TABLE people ATTACH PARTITION people_$leaf $bound;\n"
	  : "CREATE FOREIGN TABLE people_$leaf PARTITION OF people $bound $options;\n";
}
$setup .= q{
INSERT INTO people (id, region, email, town, num, note)
SELECT i, i % 3, CASE WHEN i % 29 > 0 THEN 'mail' || i END, CASE WHEN i % 23 > 0 THEN 'Town ' || i % 60 END, i % 40, 'it''s "' || i FROM generate_series(1, 1500) AS i;
SELECT index_table.create('people', 'email', identity => 'region, id', is_unique => true);
SELECT index_table.create('people', 'town, num DESC', identity => 'id, region');
SELECT index_table.create('people', 'num', 'partial', include => 'town', identity => 'id, region');
CREATE TABLE orders (order_id int PRIMARY KEY, email text COLLATE "C", num int);
INSERT INTO orders SELECT i, 'mail' || i * 13 % 1600, i % 45 FROM generate_series(1, 60) AS i;
INSERT INTO orders SELECT i + 60, email, num FROM orders AS o(i, email, num) WHERE i % 2 = 0;
CREATE TABLE log (line text);
CREATE VIEW northern AS SELECT * FROM people WHERE region < 2 WITH CHECK OPTION;
CREATE FUNCTION here(v int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN v % 3 > 0; END';
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (format('%s %s %s %s', TG_OP, TG_WHEN, CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END));
    IF TG_WHEN = 'BEFORE' AND TG_OP = 'UPDATE' AND NEW.num % 11 = 0 THEN NEW.note := 'by trigger'; END IF;
    IF TG_WHEN = 'BEFORE' AND TG_OP = 'DELETE' AND OLD.num = 13 THEN RETURN NULL; END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE ROLE :"clerk";
GRANT SELECT, UPDATE, DELETE ON people TO :"clerk";
GRANT SELECT ON orders TO :"clerk";
GRANT INSERT, SELECT ON log TO :"clerk";
CREATE POLICY clerks ON people TO :"clerk" USING (num < 30) WITH CHECK (num < 35);
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
ANALYZE people, orders;
VACUUM ANALYZE people_by_email, people_by_town_num, people_by_num;
};
my @tables = (
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [qw(region id)], identity => 2, is_unique => 1),
	describe(name => 'people_by_town_num', base => 'people', key => [ 'b.town', 'b.num' ], copies => [qw(id region)], identity => 2),
	describe(name => 'people_by_num', base => 'people', key => ['b.num'], copies => [qw(id region town)], identity => 2));
foreach my $side (@sides)
{
	$coordinator->safe_psql('postgres', "CREATE DATABASE $side");
	$coordinator->safe_psql($side, "\\set clerk clerk_$side\n$setup");
	$coordinator->safe_psql($side, oracle_sql(@tables));
}

sub value { return $coordinator->safe_psql('through', "SET index_table.enable_scan = force; $_[0]"); }

# --- Which shards are asked ---------------------------------------------------------

# Statements that each shard has executed since it was asked last, transactions among them.
sub statements
{
	return map {
		my $n = $_->safe_psql('postgres', q{SELECT coalesce(sum(s.calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = 'through'});
		$_->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
		$n } @shards;
}

sub server_of
{
	my ($email) = @_;
	return $coordinator->safe_psql('through', "SELECT server FROM index_table.lookup('people_by_email', '$email')");
}

SKIP:
{
	skip 'pg_stat_statements is not installed', 1 unless $counts;
	my %by_server;
	foreach my $i (1 .. 60) { push @{ $by_server{ server_of("mail$i") } }, "mail$i" if $i % 29; }
	is(scalar(keys %by_server), 4, 'there are rows on every shard, and here');
	my %change = (
		'UPDATE' => "UPDATE people SET note = 'changed' WHERE email = '%s' RETURNING 1",
		'UPDATE of the key' => "UPDATE people SET email = email || '!' WHERE email = '%s' RETURNING 1",
		'DELETE' => "DELETE FROM people WHERE email = '%s' RETURNING 1",
		'FOR UPDATE' => "SELECT 1 FROM people WHERE email = '%s' FOR UPDATE",
		'FOR KEY SHARE' => "SELECT 1 FROM people WHERE email = '%s' FOR KEY SHARE");
	foreach my $kind (sort keys %change)
	{
		foreach my $server ('', 'shard0', 'shard1', 'shard2')
		{
			my $sql = sprintf $change{$kind}, $by_server{$server}[0];
			statements();
			is(value("BEGIN; $sql; ROLLBACK"), '1', "$kind of a row on '$server' finds it");
			my @asked = statements();
			my @expected = map { "shard$_" eq $server ? 1 : 0 } 0 .. 2;
			is_deeply([ map { $_ > 0 ? 1 : 0 } @asked ], \@expected, "$kind of a row on '$server' asks that shard alone: @asked");
		}
	}
	statements();
	is(value("UPDATE people SET num = num WHERE email = 'nobody' RETURNING 1"), '', 'no row is found');
	is_deeply([ statements() ], [ 0, 0, 0 ], 'and no shard asked');
	# The identities of all rows go with one statement: a transaction, a cursor, fetches of seven rows; then a statement a row.
	my $rows = @{ $by_server{shard1} };
	my $emails = join ', ', map { "'$_'" } @{ $by_server{shard1} };
	is(value("WITH u AS (UPDATE people SET num = num WHERE email IN ($emails) RETURNING 1) SELECT count(*) FROM u"), $rows, 'many rows of a shard');
	my $cursors = $shards[1]->safe_psql('postgres', q{SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE 'DECLARE c%'});
	cmp_ok($cursors, '<=', 3, 'a cursor for each of its partitions');
	is_deeply([ (statements())[ 0, 2 ] ], [ 0, 0 ], 'the others are not asked');
}

# --- Random transactions ------------------------------------------------------------

my $next = 2000;
sub pick { return $_[ int rand @_ ]; }
sub email { return "'mail" . (1 + int rand 1550) . "'"; }
sub town { return "'Town " . int(rand 64) . "'"; }

sub key
{
	my $kind = int rand 8;
	return 'p.email = ' . email() if $kind <= 1;
	return 'p.email IN (' . join(', ', map { email() } 1 .. 1 + int rand 12) . ')' if $kind <= 3;
	return 'p.town = ' . town() if $kind == 4;
	return 'p.town = ' . town() . ' AND p.num ' . pick('>', '<=') . ' ' . int(rand 40) if $kind == 5;
	return 'p.num = ' . int(rand 42) . ' AND p.town > ' . town() if $kind == 6;
	return '(p.email = ' . email() . ' OR p.town = ' . town() . ' OR p.email = ' . email() . ')';
}

sub filter
{
	return ' AND ' . pick('here(p.num)', "p.note LIKE '%1%'", 'p.region = ' . int(rand 3), 'p.num <> 17', 'p.id > 200', 'p.twice > 8', 'random() >= 0', 'p.num > (SELECT min(num) FROM orders)',
		'NOT EXISTS (SELECT FROM orders AS o WHERE o.email = p.email)', 'p.tableoid > 0');
}

sub assignments
{
	return pick('num = p.num + 1', "note = p.note || '.'", "town = 'Town ' || (p.num + 3) % 60", "town = NULL, num = 7", 'email = p.email || p.num', 'email = ' . email(), 'num = NULL', '(town, note) = (p.note::varchar(20), p.town)',
		'num = (SELECT count(*) FROM orders AS o WHERE o.email = p.email)', 'region = p.region', "note = 'x', num = p.twice");
}

sub returning
{
	return '' if rand() < 0.2;
	my @lists = ('p.*', 'p', 'p.id, p.email', 'p.tableoid::regclass, p.twice, upper(p.town)', 'p.id, (SELECT count(*) FROM orders AS o WHERE o.num = p.num)');
	push @lists, 'old.email, new.email, new.num', 'old, new' if $version >= 180000;
	return ' RETURNING ' . pick(@lists);
}

sub statement
{
	my $where = key() . join '', map { filter() } 1 .. int rand 3;
	my $kind = int rand 16;
	return "UPDATE people AS p SET " . assignments() . " WHERE $where" . returning() if $kind <= 5;
	return "DELETE FROM people AS p WHERE $where" . returning() if $kind <= 7;
	# Orders come twice: a row is changed once.
	return "UPDATE people AS p SET " . pick('num = p.num + 1', "note = 'ordered'") . " FROM orders AS o WHERE p.email = o.email AND o.order_id < " . (1 + int rand 90) . returning() if $kind == 8;
	return "DELETE FROM people AS p USING orders AS o WHERE p.email = o.email AND o.order_id < " . (1 + int rand 20) . returning() if $kind == 9;
	return "SELECT p.* FROM people AS p WHERE $where ORDER BY p.id FOR " . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') if $kind <= 11;
	return "SELECT p.id, p.note FROM people AS p WHERE p.town = " . town() . " ORDER BY p.town, p.num DESC, p.id LIMIT 3 FOR UPDATE" if $kind == 12;
	# Inserting what was deleted would natively be seen by scans of other shards that begin later.
	return "WITH gone AS (DELETE FROM people AS p WHERE $where RETURNING p.*) SELECT count(*), sum(num), max(email) FROM gone" if $kind == 13;
	return "UPDATE northern AS p SET " . pick('num = p.num + 1', "note = 'north'", 'region = p.region') . " WHERE $where" . returning() =~ s/p\.tableoid::regclass, //r if $kind == 14 && $where !~ /tableoid/;
	my $id = $next++;
	return "INSERT INTO people (id, region, email, town, num, note) VALUES ($id, " . int(rand 3) . ", 'mail" . (1 + int rand 1600) . "', " . town() . ", " . int(rand 40) . ", 'new') RETURNING id";
}

# A transaction, as statements and what goes around them.
sub transaction
{
	my @steps = map { statement() } 1 .. 1 + int rand 5;
	if (rand() < 0.3)
	{
		splice @steps, int(rand(@steps + 1)), 0, 'SAVEPOINT s';
		push @steps, 'ROLLBACK TO s', statement();
	}
	if (rand() < 0.2) { $_ = "PREPARE p AS $_;\nEXECUTE p;\nDEALLOCATE p" foreach grep { !/SAVEPOINT|ROLLBACK/ } @steps; }
	my $as_clerk = rand() < 0.15;
	unshift @steps, 'SET ROLE :"clerk"' if $as_clerk;
	unshift @steps, 'BEGIN' . pick('', '', '', ' ISOLATION LEVEL REPEATABLE READ');
	push @steps, pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK');
	push @steps, 'RESET ROLE' if $as_clerk;
	return @steps;
}

my $directory = PostgreSQL::Test::Utils::tempdir();

# Runs steps on both sides; returns for each what every step printed, rows sorted.
sub run_both
{
	my ($name, @steps) = @_;
	my $text = "\\set ON_ERROR_ROLLBACK on\nSET client_min_messages = warning;\nSET index_table.enable_scan = :scan;\n";
	$text .= "\\echo \@ $_\n$steps[$_];\n\\echo ^ :SQLSTATE :ROW_COUNT\n" foreach 0 .. $#steps;
	open my $file, '>', "$directory/$name.sql" or die $!;
	print $file $text;
	close $file;
	my $run = run_sides($coordinator, "$directory/$name.sql",
		map { $_ => { database => $_, settings => '-c session_preload_libraries=index_table', options => [ '-v', "clerk=clerk_$_", '-v', 'scan=' . ($_ eq 'through' ? 'force' : 'off') ] } } @sides);
	my %printed;
	foreach my $side (@sides)
	{
		my ($sections) = sections($run->{$side}{stdout});
		$printed{$side} = [ map { join "\n", sort @{ $sections->{$_} // ['nothing'] } } 0 .. $#steps ];
		# How a statement fails may come before or after some of its rows.
		s/.*^(\^ (?!00000)\S+) .*/$1/ms foreach @{ $printed{$side} };
	}
	return ($run, \%printed);
}

my $contents = q{SELECT * FROM people ORDER BY id; SELECT line FROM log ORDER BY line COLLATE "C"};
sub same
{
	my ($name, @steps) = @_;
	my ($run, $printed) = run_both($name, @steps);
	my @different = grep { $printed->{through}[$_] ne $printed->{native}[$_] } 0 .. $#steps;
	ok(!@different, "$name: all is as without index tables")
	  or diag(map { "SHARD_CHANGES_SEED=$seed, step $_: $steps[$_];\nthrough: $printed->{through}[$_]\nnative: $printed->{native}[$_]\n" } grep { defined } @different[ 0 .. 2 ]);
	diag(substr $run->{through}{stderr}, -2000) if @different;
	my %held = map { $_ => $coordinator->safe_psql($_, "SET index_table.enable_scan = off; $contents") } @sides;
	ok($held{through} eq $held{native}, "$name: tables and what triggers saw are the same") or BAIL_OUT("SHARD_CHANGES_SEED=$seed");
	return $printed;
}

my (%seen, $done);
foreach my $round (0 .. 3)
{
	if ($round == 2)
	{
		# Triggers of the owner fire on the coordinator, some of which keep a row from being changed.
		$coordinator->safe_psql($_, 'CREATE TRIGGER before BEFORE UPDATE OR DELETE ON people FOR EACH ROW EXECUTE FUNCTION note_change(); CREATE TRIGGER after AFTER UPDATE OR DELETE ON people FOR EACH ROW EXECUTE FUNCTION note_change()') foreach @sides;
	}
	my @steps = map { transaction() } 1 .. $total / 4;
	# Joins by looking keys up come to a row as often as it is asked for.
	unshift @steps, "SET enable_hashjoin = off", "SET enable_mergejoin = off", "SET enable_material = off" if $round % 2;
	my $printed = same("round $round", @steps);
	$seen{ /\^ (\S{5})(?: (\d+))?/ ? ($1 eq '00000' ? ($2 // 0) > 0 ? 'rows' : 'none' : $1) : 'other' }++ foreach @{ $printed->{through} };
	foreach my $side (@sides)
	{
		oracle_ok($coordinator, $side, "round $round: index tables of $side are in step", 0);
	}
}
note join ', ', map { "$_: $seen{$_}" } sort keys %seen;
cmp_ok($seen{rows} // 0, '>', $total / 2, 'most statements change rows');

# Both ways, which is to say that there was something to compare.
foreach my $sql (q{UPDATE people SET num = 1 WHERE email = 'mail7'}, q{DELETE FROM people WHERE town = 'Town 7'}, q{SELECT * FROM people WHERE email = 'mail7' FOR SHARE})
{
	like($coordinator->safe_psql('through', "SET index_table.enable_scan = force; EXPLAIN (VERBOSE, COSTS OFF) $sql"), qr/Row Switch.*Index Table Scan.*Remote SQL: SELECT .* FOR (?:UPDATE|SHARE)/s, $sql);
	unlike($coordinator->safe_psql('native', "SET index_table.enable_scan = off; EXPLAIN (COSTS OFF) $sql"), qr/Custom Scan/, "natively: $sql");
}

# --- Rows that others change --------------------------------------------------------

$coordinator->safe_psql($_, 'DROP TRIGGER before ON people; DROP TRIGGER after ON people') foreach @sides;
my ($leaf, $region, $id, $mail) = split /\|/, $coordinator->safe_psql('through',
	q{SELECT tableoid::regclass, region, id, email FROM people WHERE tableoid = 'people_1'::regclass AND email LIKE 'mail%' ORDER BY id LIMIT 1});
my $shard = $shards[1];
my $change = "SET index_table.enable_scan = force; UPDATE people SET note = 'mine' WHERE email = '$mail' RETURNING id";

# What was changed on the shard directly has another key than its entry: the row is not the one that is meant.
$shard->safe_psql('through', "UPDATE remote_1 SET email = 'another' WHERE id = $id");
is($coordinator->safe_psql('through', $change), '', 'a row that has lost the key is not changed');
is($coordinator->safe_psql('through', "SET index_table.enable_scan = force; SELECT id FROM people WHERE email = '$mail' FOR UPDATE"), '', 'nor locked for the query');
is($shard->safe_psql('through', "SELECT email, note = 'mine' FROM remote_1 WHERE id = $id"), 'another|f', 'it is what the shard says');
$shard->safe_psql('through', "UPDATE remote_1 SET email = '$mail' WHERE id = $id");

# Whoever comes second waits for the row on its shard, and is told that it was changed: by another client of the shard, and
# by another session here.
foreach my $statement ($change, "SET index_table.enable_scan = force; DELETE FROM people WHERE email = '$mail'", "SET index_table.enable_scan = force; SELECT 1 FROM people WHERE email = '$mail' FOR UPDATE")
{
	foreach my $other ([ $shard, "UPDATE remote_1 SET email = 'another' WHERE id = $id" ], [ $coordinator, "SET index_table.enable_scan = force; UPDATE people SET email = 'another' WHERE email = '$mail'" ])
	{
		my ($node, $sql) = @$other;
		my $first = $node->background_psql('through');
		$first->query_safe("BEGIN; $sql");
		my $second = start_session($coordinator, 'through', "$statement;\n\\q");
		$shard->poll_query_until('through', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = 'through' AND wait_event_type = 'Lock'}) or die 'nobody waits';
		$first->query_safe('COMMIT');
		$first->quit;
		like(end_session($second), qr/40001/, 'who waited is told that the row was changed');
		is($shard->safe_psql('through', "SELECT email FROM remote_1 WHERE id = $id"), 'another', 'and has not changed it');
		$node->safe_psql('through', $node == $shard ? "UPDATE remote_1 SET email = '$mail' WHERE id = $id" : "SET index_table.enable_scan = force; UPDATE people SET email = '$mail' WHERE email = 'another'");
	}
}

# A lock is held on the shard until the transaction ends, on that row alone.
my $holder = $coordinator->background_psql('through');
$holder->query_safe("SET index_table.enable_scan = force; BEGIN; SELECT 1 FROM people WHERE email = '$mail' FOR UPDATE");
like(sqlstate($shard, 'through', "SELECT 1 FROM remote_1 WHERE id = $id FOR UPDATE NOWAIT"), qr/^55P03/, 'the row is locked on its shard');
is($shard->safe_psql('through', 'SELECT count(*) > 10 FROM (SELECT FROM remote_1 FOR UPDATE SKIP LOCKED) AS r'), 't', 'others are not');
$holder->query_safe('COMMIT');
$holder->quit;
is($shard->safe_psql('through', "SELECT count(*) FROM (SELECT FROM remote_1 WHERE id = $id FOR UPDATE NOWAIT) AS r"), '1', 'the lock is gone with the transaction');

# A row is changed once, however often a join leads to it.
my $twice = "SET index_table.enable_scan = force; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
	SET enable_memoize = off; %s UPDATE people SET num = coalesce(people.num, 0) + 1 FROM (SELECT * FROM orders WHERE order_id > 1000 OFFSET 0) AS o WHERE people.email = o.email RETURNING people.num";
$coordinator->safe_psql('through', "INSERT INTO orders SELECT i + 1000, '$mail', 1 FROM generate_series(1, 3) AS i");
like($coordinator->safe_psql('through', sprintf $twice, 'EXPLAIN'), qr/Nested Loop.*Scan on orders.*Index Table Scan/s, 'a join that looks keys up');
my $before = $coordinator->safe_psql('through', "SELECT coalesce(num, 0) FROM people WHERE id = $id");
is($coordinator->safe_psql('through', sprintf $twice, ''), $before + 1, 'a row that is found three times is changed once');
is($shard->safe_psql('through', "SELECT num FROM remote_1 WHERE id = $id"), $before + 1, 'and so says its shard');

# A row does not leave its shard, whoever finds it.
like(sqlstate($coordinator, 'through', "SET index_table.enable_scan = force; UPDATE people SET id = id + 1 WHERE email = '$mail'"), qr/^23514/, 'a row stays in its foreign partition');
# What cannot be reached is not left out of a change.
$shard->stop;
like(sqlstate($coordinator, 'through', "SET index_table.unreachable_shards = skip; $change"), qr/^08001/, 'a row on a shard that is down is not passed over');
is($coordinator->safe_psql('through', "SET index_table.enable_scan = force; UPDATE people SET note = 'up' WHERE id IN (SELECT id FROM people_3) AND email = (SELECT min(email) FROM people_3) RETURNING note"), 'up', 'rows elsewhere are changed');
$shard->start;

foreach my $side (@sides)
{
	oracle_ok($coordinator, $side, "index tables of $side are in step", 0);
	check_storage($coordinator, $side, $side);
}
done_testing();
