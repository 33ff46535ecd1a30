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
use RandomShardChanges;
use Test::More;

my $counts = start_shards(seed => 'SHARD_CHANGES', here => [ 3, 7 ], counted => 1);

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

run_rounds();

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
my $elsewhere = $coordinator->safe_psql('through', "SELECT min(i) FROM generate_series(900000, 900100) AS i WHERE NOT satisfies_hash_partition('people'::regclass, 8, 1, i)");
like(sqlstate($coordinator, 'through', "SET index_table.enable_scan = force; UPDATE people SET id = $elsewhere WHERE email = '$mail'"), qr/^23514/, 'a row stays in its foreign partition');
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
