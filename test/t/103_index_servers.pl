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
use RandomShardChanges;
use Test::More;

start_shards(seed => 'INDEX_SERVERS', here => [ 1, 3, 5, 7 ], servers => 1);
run_rounds();

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
