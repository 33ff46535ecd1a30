# Index tables on servers, of a table with partitions here and on shards: random changes and queries by key, each in two
# databases that hold the same, in one with index tables on three servers, in the other with all of them here and not used
# by queries. Afterwards everything is in step, and verify() finds nothing.
#
#   INDEX_SERVERS_SEED    repeats a run
#   INDEX_SERVERS_COUNT   how many random transactions (250)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{INDEX_SERVERS_SEED} // int(rand(2**31));
my $total = $ENV{INDEX_SERVERS_COUNT} // 250;
srand($seed);
note "INDEX_SERVERS_SEED=$seed INDEX_SERVERS_COUNT=$total";

my @sides = qw(through native);
my $coordinator = new_node('coordinator', conf => "session_preload_libraries = 'index_table'\njit = off\n");
my $version = $coordinator->safe_psql('postgres', 'SHOW server_version_num');
my @shards = map { new_node("shard$_") } 0 .. 2;

# --- Tables -------------------------------------------------------------------------

# Eight partitions: four are here, four on shards, some with their columns in another order.
my $columns = q{id int NOT NULL, region int NOT NULL, email text COLLATE "C", town varchar(20), num int, note text, tags text[], twice int GENERATED ALWAYS AS (num * 2) STORED};
my $reordered = q{tags text[], note text, gone int, twice int GENERATED ALWAYS AS (num * 2) STORED, num int, town varchar(20), email text COLLATE "C", region int NOT NULL, id int NOT NULL};
my $user = getpwuid($>);
my $setup = "CREATE EXTENSION index_table;\nCREATE EXTENSION postgres_fdw;\n";
foreach my $number (0 .. 2)
{
	my ($host, $port) = ($shards[$number]->host, $shards[$number]->port);
	$setup .= "CREATE SERVER shard$number FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname :'DBNAME', fetch_size '7', async_capable '" . ($number == 2 ? 'false' : 'true') . "');\n"
	  . "CREATE USER MAPPING FOR PUBLIC SERVER shard$number OPTIONS (user '$user', password_required 'false');\n";
	$shards[$number]->safe_psql('postgres', "CREATE DATABASE $_") foreach @sides;
}
$setup .= "CREATE TABLE people ($columns) PARTITION BY HASH (id);\n";
foreach my $leaf (0 .. 7)
{
	my $bound = "FOR VALUES WITH (MODULUS 8, REMAINDER $leaf)";
	if ($leaf % 2)
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
INSERT INTO people (id, region, email, town, num, note, tags)
SELECT i, i % 3, CASE WHEN i % 29 > 0 THEN 'mail' || i END, CASE WHEN i % 23 > 0 THEN 'Town ' || i % 60 END, i % 40, 'it''s "' || i, CASE WHEN i % 5 > 0 THEN ARRAY['t' || i % 9, 't' || i % 13, NULL] END FROM generate_series(1, 1500) AS i;
SELECT index_table.create('people', 'email', identity => 'region, id', is_unique => true :on4);
SELECT index_table.create('people', 'town, num DESC', identity => 'id, region' :on3);
SELECT index_table.create('people', 'num', 'partial', include => 'town', identity => 'id, region');
SELECT index_table.create('people', 'unnest(tags)', identity => 'id, region', name => 'people_by_tag' :on3);
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
};
my @tables = (
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [qw(region id)], identity => 2, is_unique => 1),
	describe(name => 'people_by_town_num', base => 'people', key => [ 'b.town', 'b.num' ], copies => [qw(id region)], identity => 2),
	describe(name => 'people_by_num', base => 'people', key => ['b.num'], copies => [qw(id region town)], identity => 2),
	describe(name => 'people_by_tag', base => 'people', key => ['m.v'], elements => 'SELECT t.v, t.o FROM unnest(b.tags) WITH ORDINALITY t(v, o)', copies => [qw(id region)], identity => 2));
foreach my $side (@sides)
{
	$coordinator->safe_psql('postgres', "CREATE DATABASE $side");
	my @on = map { $side eq 'through' ? ", partitions => $_, servers => 'shard0, shard1, shard2'" : '' } 3 .. 4;
	$coordinator->safe_psql($side, "\\set clerk clerk_$side\n" . $setup =~ s/ :on([34])/$on[$1 - 3]/gr);
	$coordinator->safe_psql($side, oracle_sql(@tables));
}

sub value { return $coordinator->safe_psql('through', "SET index_table.enable_scan = force; $_[0]"); }

# --- Random transactions ------------------------------------------------------------

my $next = 2000;
sub pick { return $_[ int rand @_ ]; }
sub email { return "'mail" . (1 + int rand 1550) . "'"; }
sub town { return "'Town " . int(rand 64) . "'"; }

sub key
{
	my $kind = int rand 10;
	return "p.tags \@> ARRAY['t" . int(rand 14) . "']" if $kind >= 8;
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
	return pick('num = p.num + 1', "note = p.note || '.'", "town = 'Town ' || (p.num + 3) % 60", "town = NULL, num = 7", "tags = p.tags || 'tx'::text", "tags = ARRAY['t' || p.num % 14]", 'email = p.email || p.num', 'email = ' . email(), 'num = NULL', '(town, note) = (p.note::varchar(20), p.town)',
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
	my $kind = int rand 22;
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
	return "SELECT p.*, p.tableoid::regclass FROM people AS p WHERE $where" if $kind >= 16 && $kind <= 18;
	return "SELECT o.order_id, p.* FROM orders AS o " . pick('', 'LEFT ') . "JOIN people AS p ON p." . pick('email = o.email', 'num = o.num AND p.town = ' . town()) . ' WHERE o.order_id < ' . (1 + int rand 90) if $kind == 19;
	# All is read before the first row is inserted, which scans of other shards would natively see.
	return "INSERT INTO people (id, region, email, town, num, note, tags) SELECT id + 100000 * " . $next++ . ", region, email || '$next', town, num, 'copied', tags FROM people AS p WHERE $where ORDER BY p.id" if $kind == 20;
	my $id = $next++;
	return "INSERT INTO people (id, region, email, town, num, note, tags) VALUES ($id, " . int(rand 3) . ", 'mail" . (1 + int rand 1600) . "', " . town() . ", " . int(rand 40) . ", 'new', '{t1,t2}') RETURNING id";
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
	  or diag(map { "INDEX_SERVERS_SEED=$seed, step $_: $steps[$_];\nthrough: $printed->{through}[$_]\nnative: $printed->{native}[$_]\n" } grep { defined } @different[ 0 .. 2 ]);
	diag(substr $run->{through}{stderr}, -2000) if @different;
	my %held = map { $_ => $coordinator->safe_psql($_, "SET index_table.enable_scan = off; $contents") } @sides;
	ok($held{through} eq $held{native}, "$name: tables and what triggers saw are the same") or BAIL_OUT("INDEX_SERVERS_SEED=$seed");
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
		is($coordinator->safe_psql($side, q{SELECT t, v.* FROM unnest('{people_by_email,people_by_town_num,people_by_num,people_by_tag}'::regclass[]) AS t, index_table.verify(t) AS v}), '', "round $round: index tables of $side verified");
	}
}
note join ', ', map { "$_: $seen{$_}" } sort keys %seen;
cmp_ok($seen{rows} // 0, '>', $total / 2, 'most statements change rows');

# There was something to compare.
foreach my $sql (q{UPDATE people SET num = 1 WHERE email = 'mail7'}, q{DELETE FROM people WHERE town = 'Town 7'}, q{SELECT * FROM people WHERE tags @> ARRAY['t3']}, q{SELECT * FROM people WHERE email IN ('mail7', 'mail8')})
{
	like($coordinator->safe_psql('through', "SET index_table.enable_scan = force; EXPLAIN (COSTS OFF) $sql"), qr/Index Table Scan.*Index Table: people_by_(?:email|town_num|tag)/s, $sql);
}

# --- What a transaction has changed itself ------------------------------------------

# Old entries are committed, new ones are not: a row is found once all the same, by plain keys and by expressions.
$coordinator->safe_psql('through', q{SELECT index_table.create('people', 'lower(note)', identity => 'region, id', partitions => 2, servers => 'shard0, shard2', name => 'people_by_note')});
foreach my $case (
	[ q{email = email || '?'}, q{email IN ('mail11', 'mail11?')} ],
	[ q{num = num + 1000}, q{town IN (SELECT town FROM people WHERE id = 11) AND num IN (SELECT num FROM people WHERE id = 11) OR email = 'mail11'} ],
	[ q{note = 'B'}, q{lower(note) IN ('a', 'b')} ],
	[ q{note = 'B', tags = '{t1}'}, q{tags @> '{t1}' AND id = 11} ])
{
	my ($set, $where) = @$case;
	my $sql = "BEGIN; UPDATE people SET email = 'mail11', note = 'A', tags = '{t1,t2}', num = 1, town = 'Town 1' WHERE id = 11; COMMIT; BEGIN; UPDATE people SET $set WHERE id = 11; SELECT id, email FROM people WHERE $where; ROLLBACK;";
	$coordinator->safe_psql('through', "DELETE FROM people WHERE email = 'mail11' AND id <> 11");
	is($coordinator->safe_psql('through', "SET index_table.enable_scan = force; $sql"), $coordinator->safe_psql('through', "SET index_table.enable_scan = off; $sql"), "after SET $set: WHERE $where");
}
# What others have committed since this transaction has first used a server is seen, too.
{
	my $session = $coordinator->background_psql('through');
	$session->query_safe("SET index_table.enable_scan = force; BEGIN; UPDATE people SET note = 'mine' WHERE email = 'mail12'");
	$coordinator->safe_psql('through', q{INSERT INTO people (id, region, email) SELECT -i, 1, 'others' || i FROM generate_series(1, 20) AS i});
	# postgres_fdw shows those on shards as they were when the transaction first used the shard.
	my @here = split /\n/, $coordinator->safe_psql('through', q{SELECT id FROM people WHERE id BETWEEN -20 AND -1 AND tableoid::regclass::text ~ '[1357]$'});
	my %found = map { $_ => 1 } split /\n/, $session->query_safe(q{SELECT id FROM people WHERE email IN (} . join(', ', map { "'others$_'" } 1 .. 20) . ')');
	cmp_ok(scalar(@here), '>', 2, 'rows that others have committed meanwhile, some of them here');
	is_deeply([ grep { !$found{$_} } @here ], [], 'are found');
	$session->query_safe('COMMIT');
	$session->quit;
}
# Whoever has waited for a row whose entry was changed since he first used its server is told to try again.
{
	my ($one, $other) = split /\n/, $coordinator->safe_psql('through', q{SELECT id FROM people WHERE id > 0 AND tableoid::regclass::text ~ '[1357]$' ORDER BY id LIMIT 2});
	my $others = join '; ', map { "UPDATE people SET email = 'touched$_' WHERE id = -$_" } 1 .. 12;
	my $first = $coordinator->background_psql('through');
	$first->query_safe("BEGIN; UPDATE people SET email = 'first' WHERE id = $one");
	my $second = start_session($coordinator, 'through', "BEGIN; $others; UPDATE people SET email = 'second' WHERE id = $one;\n\\q");
	$coordinator->poll_query_until('through', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = 'through' AND wait_event_type = 'Lock'}) or die 'nobody waits';
	$first->query_safe('COMMIT');
	$first->quit;
	like(end_session($second), qr/40001/, 'who has waited for a row is told to try again');
	is($coordinator->safe_psql('through', "SET index_table.enable_scan = force; SELECT id FROM people WHERE email IN ('first', 'second')"), $one, 'the first change stands');
	$coordinator->safe_psql('through', "UPDATE people SET email = 'again' WHERE id = $one");
	oracle_ok($coordinator, 'through', 'after both', 0);
}
# Keys that cannot be asked for here.
is(sqlstate($coordinator, 'through', q{INSERT INTO people (id, region, email) VALUES (-100, 1, 'others1') ON CONFLICT (email) DO NOTHING}) =~ s/:.*//sr, '42P10', 'ON CONFLICT (key on servers)');
is(sqlstate($coordinator, 'through', q{INSERT INTO people (id, region, email) VALUES (-100, 1, 'others1') ON CONFLICT DO NOTHING}) =~ s/:.*//sr, '0A000', 'ON CONFLICT without a target');
like(sqlstate($coordinator, 'through', q{INSERT INTO people (id, region, email) VALUES (-100, 1, 'others1')}), qr/^23505: .*"people_by_email_key"/, 'a key that repeats');
# Under a snapshot of the transaction's index tables on servers are not used.
unlike($coordinator->safe_psql('through', q{SET index_table.enable_scan = force; BEGIN ISOLATION LEVEL REPEATABLE READ; EXPLAIN SELECT * FROM people WHERE email = 'others1'}), qr/Index Servers/, 'REPEATABLE READ');

# Nothing is left of transactions that have ended.
$coordinator->safe_psql($_, 'CALL index_table.drain()') foreach @sides;
is($coordinator->safe_psql($_, 'SELECT count(*) FROM index_table.intent'), '0', "$_: no intents") foreach @sides;
check_storage($coordinator, $_, $_) foreach @sides;

done_testing();
