# index_table.on_lag = wait: statements that change a base table wait while its index table lags behind too far, before
# they change anything, and go on when others have drained its queue, or nobody does. To look at queues is no reading
# that SERIALIZABLE would know of.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node('lag');
my $db = 'postgres';
$node->safe_psql($db, q{
CREATE EXTENSION index_table;
CREATE TABLE people (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (1000);
CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (1000) TO (100000);
INSERT INTO people SELECT i, 'Town ' || i FROM generate_series(1, 100) AS i;
SELECT index_table.create('people', 'town', maintenance => 'deferred');
});
$node->safe_psql($db, oracle_sql(describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => ['id'], identity => 1)));

my $last = 1000;
# Queues so many changes, in packs of their own.
sub queue { foreach my $i (1 .. $_[0]) { $last++; $node->safe_psql($db, "INSERT INTO people VALUES ($last, 'Town $last')"); } return }
sub drain { $node->safe_psql($db, q{CALL index_table.drain('people_by_town')}); return }
sub pending { return $node->safe_psql($db, q{SELECT pending FROM index_table.queue}) }

my $wait = q{SET index_table.on_lag = wait; SET index_table.max_lag_changes = 1; SET client_min_messages = warning; SET application_name = 'writer';};
my $writer = q{pg_stat_activity WHERE application_name = 'writer' AND state = 'active' AND wait_event = 'Extension'};
sub writer_waits { return $node->poll_query_until($db, "SELECT count(*) = 1 FROM $writer") }
# It has not gone on. Between two waits it looks at queues.
my $writing = q{pg_stat_activity WHERE application_name = 'writer' AND state = 'active'};

# --- What is seen ---------------------------------------------------------------------------

my $old = $node->background_psql($db);
is($old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pending FROM index_table.queue'), '0', 'nothing is queued');
queue(2);
is($old->query_safe('SELECT pending FROM index_table.queue'), '0', 'a snapshot does not see what is queued later');
is($old->query_safe('SELECT pending FROM index_table.stat'), '0', 'in either view');
is(pending(), '2', 'others do');
my $waiting = start_session($node, $db, "SELECT index_table.wait_caught_up('people_by_town', '60 s');");
$node->poll_query_until($db, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%wait_caught_up%' AND wait_event = 'Extension'}) or die;
drain();
is(end_session($waiting), "t\n", 'wait_caught_up: drained');
# A transaction that began earlier commits later, with older changes.
my $early = $node->background_psql($db);
$early->query_safe(q{BEGIN; INSERT INTO people VALUES (501, 'early')});
is($node->safe_psql($db, q{SELECT index_table.wait_caught_up('people_by_town', '5 s')}), 't', 'what is not committed is not waited for');
queue(1);
$early->query_safe('COMMIT');
is($node->safe_psql($db, q{SELECT index_table.wait_caught_up('people_by_town', '0.2 s')}), 'f', 'once it is it is');
drain();
is($node->safe_psql($db, q{SELECT index_table.wait_caught_up('people_by_town', '0.2 s')}), 't', 'until it is drained');
# Its own changes nobody can drain.
$early->query_safe(q{BEGIN; INSERT INTO people VALUES (502, 'own')});
queue(1);
drain();
is($early->query_safe(q{SELECT index_table.wait_caught_up('people_by_town', '0.2 s')}), 't', 'its own changes are not waited for');
$early->query_safe('COMMIT');
drain();
# What is set aside meanwhile is not drained.
$node->safe_psql($db, q{INSERT INTO people SELECT 503, string_agg(md5(i::text), '') FROM generate_series(1, 125) AS i});
$waiting = start_session($node, $db, "SELECT index_table.wait_caught_up('people_by_town', '3 s');");
$node->poll_query_until($db, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%wait_caught_up%' AND wait_event = 'Extension'}) or die;
drain();
is(end_session($waiting), "f\n", 'wait_caught_up: set aside');
$node->safe_psql($db, q{DELETE FROM people WHERE id = 503; SELECT index_table.retry('people_by_town')});
drain();
is($old->query_safe('SELECT pending FROM index_table.queue'), '0', 'an old snapshot sees no more than it did');
$_->quit foreach $old, $early;

# --- Others drain -------------------------------------------------------------------------

my %statements = (
	'INSERT' => q{INSERT INTO people VALUES (1, 'new') ON CONFLICT (id) DO UPDATE SET town = 'new';},
	'UPDATE' => q{UPDATE people SET town = 'new' WHERE id = 2;},
	'UPDATE of a partition' => q{UPDATE people_1 SET town = 'new' WHERE id = 3;},
	'DELETE' => q{DELETE FROM people WHERE id = 4;},
	'COPY' => "COPY people FROM stdin;\n500\tnew\n\\.");
foreach my $name (sort keys %statements)
{
	queue(2);
	my $session = start_session($node, $db, "$wait\nBEGIN;\n$statements{$name}\nCOMMIT;\n\\echo done");
	ok(writer_waits(), "$name waits");
	sleep 0.3;
	is($node->safe_psql($db, "SELECT count(*) FROM $writing"), '1', "$name: and waits");
	is($node->safe_psql($db, "SELECT count(*) FROM $writing AND backend_xid IS NOT NULL"), '0', "$name: has changed nothing");
	is(pending(), '2', "$name: has queued nothing");
	drain();
	my $output = end_session($session);
	like($output, qr/^done$/m, "$name goes on when the queue is drained");
	unlike($output, qr/WARNING|ERROR/, "$name: without a warning");
	drain();
}

# One that is cancelled.
queue(2);
my $session = start_session($node, $db, "$wait SET statement_timeout = '500ms';\nINSERT INTO people VALUES (600, 'new');\n\\echo done");
like(end_session($session), qr/57014/, 'a statement that waits can be cancelled');
is($node->safe_psql($db, 'SELECT count(*) FROM people WHERE id = 600'), '0', 'and has done nothing');
drain();

# Limits that are kept.
$session = start_session($node, $db, "$wait INSERT INTO people VALUES (601, 'a'), (602, 'b');\nSET index_table.max_lag_changes = 1;\nINSERT INTO people VALUES (603, 'c');\n\\echo done");
ok(writer_waits(), 'what a transaction has committed counts');
drain();
unlike(end_session($session), qr/WARNING|ERROR/, 'and is drained like any');
drain();
queue(1);
like($node->safe_psql($db, "$wait UPDATE people SET town = 'c' WHERE id < 10; SELECT 'done'"), qr/^done/m, 'no more than the limit: nothing waits');
drain();
queue(1);
sleep 1.2;
$session = start_session($node, $db, "$wait SET index_table.max_lag_changes = 0; SET index_table.max_lag = 1; INSERT INTO people VALUES (604, 'a');\n\\echo done");
ok(writer_waits(), 'seconds');
drain();
unlike(end_session($session), qr/WARNING|ERROR/, 'until they are over');
drain();

# --- Nobody drains --------------------------------------------------------------------------

# The drain waits for a lock that the writer has.
queue(3);
my $start = time;
$session = start_session($node, $db, "$wait BEGIN; LOCK TABLE people IN SHARE MODE;\nINSERT INTO people VALUES (700, 'new');\n\\echo first\nINSERT INTO people VALUES (701, 'new');\n\\echo second\nCOMMIT;\n\\echo done");
ok(writer_waits(), 'a writer waits that has what the drain needs');
my $drain = start_session($node, $db, q{CALL index_table.drain('people_by_town');});
$node->poll_query_until($db, "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'people'::regclass AND NOT granted") or die;
my $output = end_session($session);
my $took = time - $start;
like($output, qr/done/, 'it goes on');
my @warnings = $output =~ /WARNING:  01000: (.*)/g;
is_deeply(\@warnings, ['index table "people_by_town" lags behind too far, and nothing of it has been drained for 10 s'], 'with a warning, one for a transaction');
cmp_ok($took, '>=', 10, 'after 10 seconds');
cmp_ok($took, '<', 19, 'and not after twice as many');
end_session($drain);
drain();
oracle_ok($node, $db, 'in step');

# As long as something is drained, slowly, it waits. Packs are taken away by hand, and their rows changed once more.
queue(7);
$start = time;
$session = start_session($node, $db, "$wait INSERT INTO people VALUES (710, 'new');\n\\echo done");
ok(writer_waits(), 'a writer waits');
foreach my $i (1 .. 4)
{
	sleep 4;
	is($node->safe_psql($db, "SELECT count(*) FROM $writing"), '1', "it waits while something is drained: $i");
	$node->safe_psql($db, q{
		SET session_replication_role = replica;
		DELETE FROM people_by_town_queue WHERE (tableoid, ctid) = (SELECT tableoid, ctid FROM people_by_town_queue LIMIT 1)});
}
is($node->safe_psql($db, "SELECT count(*) FROM $writing"), '1', 'and while there are too many');
drain();
$output = end_session($session);
like($output, qr/done/, 'it goes on when the rest is drained');
unlike($output, qr/WARNING|ERROR/, 'without a warning');
$node->safe_psql($db, "UPDATE people SET town = town || '!' WHERE id > $last - 7");
drain();

# --- SERIALIZABLE ------------------------------------------------------------------------------

# Each of two transactions would read what the other one writes.
foreach my $setting ('warn', 'wait')
{
	my $options = "-c index_table.on_lag=$setting -c index_table.max_lag_changes=1000 -c index_table.max_lag=1000";
	my @sessions;
	foreach my $id (800, 900)
	{
		local $ENV{PGOPTIONS} = $options;
		push @sessions, $node->background_psql($db, on_error_stop => 0);
	}
	$_->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1') foreach @sessions;
	foreach my $i (0, 1) { $sessions[$i]->query_safe('INSERT INTO people VALUES (' . (800 + 100 * $i + ($setting eq 'warn' ? 1 : 2)) . ", 'serializable')"); }
	foreach my $i (0, 1)
	{
		my ($out, $failed) = $sessions[$i]->query('COMMIT');
		$sessions[$i]->quit;
	}
}
is($node->safe_psql($db, q{SELECT count(*) FROM people WHERE town = 'serializable'}), '4', 'lags are looked at without being read');
drain();

is(pending(), '0', 'all is drained');
oracle_ok($node, $db, 'in step at the end');
check_storage($node, $db);
done_testing();
