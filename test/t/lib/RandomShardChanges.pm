# Random transactions over a table with partitions here and on three servers, each in two databases
# that hold the same: "through" uses index tables in queries, "native" does not. What a statement
# prints, what triggers see and what the tables hold afterwards is the same.
#
#   start_shards(%options)       the servers and both databases:
#       seed       NAME of NAME_SEED, which repeats a run, and NAME_COUNT, how many transactions (250)
#       here       numbers of the partitions, 0 to 7, that are here
#       servers    puts index tables of "through" on the shards
#       counted    shards have pg_stat_statements, if that is installed; returns whether they have
#   run_rounds()                 four rounds, and after each whether index tables are in step
#   value($sql)                  of "through", its index tables used
#   pick(@list)                  one of it
#   $coordinator, @shards, @sides   the nodes and the databases' names
package RandomShardChanges;

use strict;
use warnings;

use Exporter 'import';
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(start_shards run_rounds value pick $coordinator @shards @sides);

our ($coordinator, @shards);
our @sides = qw(through native);
my ($repeat, $total, $version, $directory);

# --- Tables -------------------------------------------------------------------------

# Some shards have their columns in another order.
my $columns = q{id int NOT NULL, region int NOT NULL, email text COLLATE "C", town varchar(20), num int, note text, tags text[], twice int GENERATED ALWAYS AS (num * 2) STORED};
my $reordered = q{tags text[], note text, gone int, twice int GENERATED ALWAYS AS (num * 2) STORED, num int, town varchar(20), email text COLLATE "C", region int NOT NULL, id int NOT NULL};

my @tables = (
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [qw(region id)], identity => 2, is_unique => 1),
	describe(name => 'people_by_town_num', base => 'people', key => [ 'b.town', 'b.num' ], copies => [qw(id region)], identity => 2),
	describe(name => 'people_by_num', base => 'people', key => ['b.num'], copies => [qw(id region town)], identity => 2),
	describe(name => 'people_by_tag', base => 'people', key => ['m.v'], elements => 'SELECT t.v, t.o FROM unnest(b.tags) WITH ORDINALITY t(v, o)', copies => [qw(id region)], identity => 2));

my $contents = q{
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

# The partitions, which differ in layout: SQL of the coordinator, after that of the shards has run.
sub people
{
	my (%here) = @_;
	my $sql = "CREATE TABLE people ($columns) PARTITION BY HASH (id);\n";
	foreach my $leaf (0 .. 7)
	{
		my $bound = "FOR VALUES WITH (MODULUS 8, REMAINDER $leaf)";
		if ($here{$leaf})
		{
			$sql .= "CREATE TABLE people_$leaf PARTITION OF people (PRIMARY KEY (id, region)) $bound;\n";
			next;
		}
		my $number = $leaf % 3;
		my $layout = $leaf % 3 == 2 ? $reordered =~ s/gone int, //r : $columns;
		$shards[$number]->safe_psql($_, "CREATE TABLE remote_$leaf ($layout, PRIMARY KEY (region, id))") foreach @sides;
		my $options = "SERVER shard$number OPTIONS (schema_name 'public', table_name 'remote_$leaf')";
		$sql .= $leaf % 3 == 1
		  ? "CREATE FOREIGN TABLE people_$leaf ($reordered) $options;\nALTER FOREIGN TABLE people_$leaf DROP COLUMN gone;\nALTER TABLE people ATTACH PARTITION people_$leaf $bound;\n"
		  : "CREATE FOREIGN TABLE people_$leaf PARTITION OF people $bound $options;\n";
	}
	return $sql;
}

sub start_shards
{
	my (%options) = @_;
	my $seed = $ENV{"$options{seed}_SEED"} // int(rand(2**31));
	$total = $ENV{"$options{seed}_COUNT"} // 250;
	srand($seed);
	$repeat = "$options{seed}_SEED=$seed $options{seed}_COUNT=$total";
	note $repeat;
	$directory = PostgreSQL::Test::Utils::tempdir();
	$coordinator = new_node('coordinator', conf => "session_preload_libraries = 'index_table'\njit = off\n");
	$version = $coordinator->safe_psql('postgres', 'SHOW server_version_num');
	my $counted = $options{counted} && has_extension($coordinator, 'pg_stat_statements');
	@shards = map { new_node("shard$_", conf => $counted ? "shared_preload_libraries = 'pg_stat_statements'\n" : '') } 0 .. 2;
	my $setup = "CREATE EXTENSION index_table;\nCREATE EXTENSION postgres_fdw;\n";
	foreach my $number (0 .. 2)
	{
		$setup .= server_sql("shard$number", $shards[$number], database => ":'DBNAME'", public => 1,
			options => "fetch_size '7', async_capable '" . ($number == 2 ? 'false' : 'true') . "'");
		$shards[$number]->safe_psql('postgres', "CREATE DATABASE $_") foreach @sides;
		$shards[$number]->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') if $counted;
	}
	$setup .= people(map { $_ => 1 } @{ $options{here} }) . $contents;
	foreach my $side (@sides)
	{
		$coordinator->safe_psql('postgres', "CREATE DATABASE $side");
		my $on_servers = $options{servers} && $side eq 'through';
		my $sql = $setup =~ s/ :on([34])/$on_servers ? ", partitions => $1, servers => 'shard0, shard1, shard2'" : ''/egr;
		$sql .= 'VACUUM ANALYZE people_by_email, people_by_town_num, people_by_num, people_by_tag;' unless $on_servers;
		$coordinator->safe_psql($side, "\\set clerk clerk_$side\n$sql");
		$coordinator->safe_psql($side, oracle_sql(@tables));
	}
	return $counted;
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

sub same
{
	my ($name, @steps) = @_;
	my ($run, $printed) = run_both($name, @steps);
	my @different = grep { $printed->{through}[$_] ne $printed->{native}[$_] } 0 .. $#steps;
	ok(!@different, "$name: all is as without index tables")
	  or diag(map { "$repeat, step $_: $steps[$_];\nthrough: $printed->{through}[$_]\nnative: $printed->{native}[$_]\n" } grep { defined } @different[ 0 .. 2 ]);
	diag(substr $run->{through}{stderr}, -2000) if @different;
	my %held = map { $_ => $coordinator->safe_psql($_, q{SET index_table.enable_scan = off; SELECT * FROM people ORDER BY id; SELECT line FROM log ORDER BY line COLLATE "C"}) } @sides;
	ok($held{through} eq $held{native}, "$name: tables and what triggers saw are the same") or BAIL_OUT("$repeat");
	return $printed;
}

sub run_rounds
{
	my %seen;
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
	return;
}

1;
