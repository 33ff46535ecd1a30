# Index tables that are maintained deferred, under steady load: the queue keeps its size, also while
# somebody holds an old snapshot, which sees what it saw; what comes is drained within moments. And a
# change that cannot be drained: it is set aside, and keeps nothing else waiting.
#
#   LOAD_SEED       repeats a run (what runs side by side repeats only roughly)
#   LOAD_SECONDS    of steady load (20); half as much with an old snapshot
#   LOAD_RATE       transactions a second (300)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use DeferredReads;
use DeferredTables;
use IndexTableTest;
use List::Util qw(max min);
use Time::HiRes qw(sleep time);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{LOAD_SEED} // int(rand(2**31));
my $seconds = how_many('LOAD_SECONDS', 10);
my $rate = $ENV{LOAD_RATE} // 100;
srand($seed);
note("LOAD_SEED=$seed LOAD_SECONDS=$seconds");

my $node = new_node('load', conf => q{
shared_preload_libraries = 'index_table'
fsync = off
shared_buffers = 64MB
deadlock_timeout = 50ms
max_locks_per_transaction = 256
autovacuum = on
autovacuum_naptime = 1
index_table.drain_naptime = 1
});
set_up($node);

# A table with wide identities: few changes fill a queue.
$node->safe_psql('postgres', q{
CREATE FUNCTION wide(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$SELECT string_agg(encode(sha256((i * 100 + j)::text::bytea), 'base64'), '') FROM generate_series(1, 45) AS j$$;
CREATE TABLE wide (id text PRIMARY KEY, n int, k int) PARTITION BY HASH (id);
CREATE TABLE wide_0 PARTITION OF wide FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE wide_1 PARTITION OF wide FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO wide SELECT wide(i), i, i % 100 FROM generate_series(1, 3000) AS i;
SELECT index_table.create('wide', 'k', maintenance => 'deferred');});
$node->safe_psql('postgres', 'VACUUM ANALYZE wide');

sub mb { return sprintf('%.1f', $_[0] / 1024 / 1024); }

# The sizes of all queues, every half second, in bytes.
sub sample
{
	my ($for) = @_;
	my @samples;
	my $end = time() + $for;
	while (time() < $end)
	{
		push @samples, [ map { queue_bytes($node, $_) } index_table_names() ];
		sleep(0.5);
	}
	return @samples;
}

sub sums { return map { my $sum = 0; $sum += $_ foreach @$_; $sum } @_; }

sub caught_up_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', "SELECT bool_and(index_table.wait_caught_up(index_table, '100 s')) FROM index_table.index_tables"), 't', "$label: caught up");
}

sub writers_stopped_ok
{
	my ($label, $writers, $least) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($complaint, $done) = stop_clients($node, $writers, $least);
	is($complaint, '', "$label: no client failed");
	return cmp_ok($done, '>=', $least, "$label: $done transactions");
}

# --- Steady load --------------------------------------------------------------------------

my $counts = new_counts();
my $writers = start_writers($node, rate => $rate, seed => $seed % 1000000);
my @samples = sums(sample($seconds));
diag('The queues, in MB: ' . join(' ', map { mb($_) } @samples)) if $seconds > 20;
note('The queues, in MB: ' . join(' ', map { mb($_) } @samples));
is(compare_pairs($node, $counts, number => 100), 0, 'steady load: the same rows through index tables and without');
writers_stopped_ok('steady load', $writers, $seconds);
# What is drained is emptied beyond 64 pages a part.
my @later = @samples[ @samples / 2 .. $#samples ];
my @warm = @samples[ @samples / 4 .. @samples / 2 ];
cmp_ok(max(@later), '<=', max(1.5 * max(@warm), 2 * 64 * 8192 * (() = index_table_names()) + 8 * 1024 * 1024), 'steady load: the queues do not grow');
caught_up_ok('steady load');
queued_ok($node, 'steady load');
oracle_ok($node, 'postgres', 'steady load: in step', 0);

# --- The same with an old snapshot ----------------------------------------------------------

# It sees what was queued when it was taken, too: nothing drains at that moment.
$node->safe_psql('postgres', q{ALTER SYSTEM SET index_table.drain_naptime = 0});
$node->reload;
sleep(0.5);
$node->safe_psql('postgres', q{
	UPDATE accounts SET email = email(id + 1) WHERE id % 3 = 0;
	DELETE FROM events WHERE id % 5 = 0;
	UPDATE wide SET k = k + 1 WHERE n % 4 = 0;
	INSERT INTO wide SELECT wide(i), i, i % 100 FROM generate_series(3001, 3100) AS i;});
my $questions = join('', map { "$_;\n" }
	  q{SELECT count(*), sum(id::bigint) FROM accounts WHERE lower(email) = ANY (ARRAY(SELECT lower(email(i)) FROM generate_series(1, 600) AS i))},
	q{SELECT count(*), sum(id::bigint) FROM accounts WHERE lower(email) IS NULL},
	q{SELECT count(*), sum(id::bigint) FROM events WHERE code LIKE 'code%'},
	q{SELECT score FROM accounts ORDER BY score LIMIT 3},
	q{SELECT count(*), sum(n) FROM wide WHERE k BETWEEN 10 AND 12});
my $both = join('', map { "SET index_table.enable_scan = $_;\n$questions" } qw(force off));
my $old = start_session($node, 'postgres', "LOAD 'index_table';\nBEGIN ISOLATION LEVEL REPEATABLE READ;\n$both\\echo taken\n");
$old->{run}->pump until $old->{output} =~ /taken/;
my $first = $old->{output} =~ s/taken\n//r;
is($first =~ s/^(.*)\1\z/same/sr, 'same', 'an old snapshot: the same rows through index tables and without') or note $first;
$node->safe_psql('postgres', q{ALTER SYSTEM RESET index_table.drain_naptime});
$node->reload;

# All of a table changes: 28 times 6 MB are queued, which nobody but the snapshot needs soon.
$writers = start_writers($node, rate => $rate, seed => $seed % 1000000 + 1, keeps => 1); # a TRUNCATE would wait for it
my ($largest, $changes, $end) = (0, 0, time() + $seconds / 2);
while ($changes < 28 || time() < $end)
{
	$node->safe_psql('postgres', "UPDATE wide SET k = (k + $changes) % 100 + 1");
	$changes++;
	$largest = max($largest, queue_bytes($node, 'wide_by_k'));
	$node->safe_psql('postgres', "SELECT index_table.wait_caught_up('wide_by_k', '100 s')");
	$largest = max($largest, queue_bytes($node, 'wide_by_k'));
	sleep(0.1); # so that what is drained can be cleared away
	if ($changes == 10)
	{
		$old->{output} = '';
		$old->{input} .= "$both\\echo asked\n";
		$old->{run}->pump until $old->{output} =~ /asked/;
		is($old->{output} =~ s/asked\n//r, $first, 'an old snapshot sees what it saw, under way');
	}
}
my ($queue) = $node->safe_psql('postgres', q{SELECT pg_column_size(id) FROM wide LIMIT 1});
my $queued = $changes * 3100 * $queue;
note(sprintf('%d changes of all rows queued %s MB in all; the queue had %s MB at most', $changes, mb($queued), mb($largest)));
cmp_ok($queued, '>', 150 * 1024 * 1024, 'with an old snapshot: much was queued');
# A part is emptied at 32 MB, when writers have left it; meanwhile both take what comes.
cmp_ok($largest, '<', 110 * 1024 * 1024, 'with an old snapshot: the queue is bounded');
my @bounded = sums(sample(2));
note('The other queues, in MB: ' . join(' ', map { mb($_) } @bounded));
is(compare_pairs($node, $counts, number => 100), 0, 'with an old snapshot: others see the same rows through index tables and without');
writers_stopped_ok('with an old snapshot', $writers, 10);
$old->{output} = '';
$old->{input} .= "${both}COMMIT;\n\\q\n";
is(end_session($old), $first, 'an old snapshot sees what it saw');
caught_up_ok('the snapshot is gone');
# Parts that a snapshot has kept are emptied with the next drains.
foreach my $i (1 .. 20)
{
	$node->safe_psql('postgres', "UPDATE wide SET k = k + 1 WHERE n <= 20; UPDATE accounts SET score = score(id + $i), email = email(id + $i), town = town(id), tags = tags(id + $i) WHERE id < 20; UPDATE events SET code = code(id + 1), amount = amount(id), kind = kind(id + $i) WHERE id < 20");
	last if max(map { queue_bytes($node, $_) } 'wide_by_k', index_table_names()) < 4 * 1024 * 1024;
	sleep(0.5);
}
note('The queues afterwards, in MB: ' . join(', ', map { "$_ " . mb(queue_bytes($node, $_)) } 'wide_by_k', index_table_names()));
cmp_ok(queue_bytes($node, 'wide_by_k'), '<', 4 * 1024 * 1024, 'the snapshot is gone: the queue is small');
caught_up_ok('afterwards');
queued_ok($node, 'afterwards');
oracle_ok($node, 'postgres', 'afterwards: in step', 0);
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM (
		(SELECT k, p.partition_id, id FROM wide b JOIN index_table.partition p ON p.relation = b.tableoid EXCEPT ALL SELECT k, partition_id, id FROM wide_by_k)
		UNION ALL
		(SELECT k, partition_id, id FROM wide_by_k EXCEPT ALL SELECT k, p.partition_id, id FROM wide b JOIN index_table.partition p ON p.relation = b.tableoid)) d}),
	0, 'wide: in step');

# --- Poison -----------------------------------------------------------------------------------

# Keys longer than a B-tree takes. Immediately, the writer would get the error.
$node->safe_psql('postgres', q{
CREATE FUNCTION long_text(seed int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$SELECT left(string_agg(encode(sha256((seed * 1000 + j)::text::bytea), 'base64'), ''), 4000) FROM generate_series(1, 100) AS j$$;
CREATE TABLE papers (id int PRIMARY KEY, title text, author text) PARTITION BY HASH (id);
CREATE TABLE papers_0 PARTITION OF papers FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE papers_1 PARTITION OF papers FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE papers_2 PARTITION OF papers FOR VALUES WITH (MODULUS 3, REMAINDER 2);
} . join('', map { "SELECT index_table.create('papers', '$_', maintenance => 'deferred');\n" } qw(title author)));

sub queue_of
{
	my ($column) = @_;
	return $node->safe_psql('postgres', "SELECT $column FROM index_table.queue WHERE index_table = 'papers_by_title'::regclass");
}

sub papers_ok
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $sql = join('', map { "$_;\n" } 'SELECT id FROM papers WHERE title = long_text(1)', 'SELECT id FROM papers WHERE title IN (long_text(2), $$Title 3$$, $$Title 4$$, $$Short$$) ORDER BY id',
		q{SELECT id FROM papers WHERE title >= 'Title 1' AND title < 'Title 2' ORDER BY id}, 'SELECT id, md5(title) FROM papers ORDER BY title LIMIT 4', 'SELECT count(*), min(id), max(id) FROM papers WHERE title > $$$$');
	my ($through, $native) = map { $node->safe_psql('postgres', "LOAD 'index_table'; SET index_table.enable_scan = $_; $sql") } qw(force off);
	return is($through, $native, "$label: the same rows through index tables and without");
}

$node->safe_psql('postgres', q{
	INSERT INTO papers SELECT i, CASE i WHEN 7 THEN long_text(1) ELSE 'Title ' || i END, 'Author ' || i FROM generate_series(1, 1000) AS i;
	INSERT INTO papers VALUES (2000, 'Title 2000', 'Author');
	UPDATE papers SET title = long_text(2) WHERE id = 8;
	UPDATE papers SET title = 'Title x' WHERE id = 9;});
# Where a worker drained the first of these before the others came, there are older entries of rows 7 and 8.
ok($node->poll_query_until('postgres', q{SELECT count(*) = 999 AND bool_or(id = 9 AND title = 'Title x') FROM papers_by_title WHERE id NOT IN (7, 8)}), 'poison: what else was queued is drained');
is($node->safe_psql('postgres', q{SELECT index_table.wait_caught_up('papers_by_author', '100 s')}), 't', 'poison: another index table is drained');
is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE id IN (7, 8)) FROM papers_by_author}), '1001|2', 'poison: another index table takes it');
papers_ok('poison');
ok($node->poll_query_until('postgres', q{SELECT refused = 2 AND pending <= 2 FROM index_table.queue WHERE index_table = 'papers_by_title'::regclass}), 'poison: set aside') or note queue_of('queue');
like(queue_of('error'), qr/index row (?:size|requires) \d+/, 'poison: with its error');
cmp_ok(queue_of('tries'), '>', 0, 'poison: with the number of tries');
is($node->safe_psql('postgres', q{SELECT bool_and(retry_at > now() - interval '1 minute' AND tries > 0) FROM papers_by_title_queue WHERE error IS NOT NULL}), 't', 'poison: to be tried again');
is($node->safe_psql('postgres', q{SELECT string_agg(v::text, ', ') FROM index_table.verify('papers_by_title') v}), '', 'poison: verify() knows that it is queued');
# Further changes are drained at once, those of the same rows too.
$node->safe_psql('postgres', q{INSERT INTO papers VALUES (3000, 'Later', 'Author'); UPDATE papers SET author = 'Other' WHERE id IN (7, 8)});
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM papers_by_title WHERE title = 'Later'}), 'poison: later changes are drained');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM papers_by_author WHERE author = 'Other'}), 'poison: elsewhere, changes of the same rows are');
papers_ok('poison, later');
my $tries = queue_of('tries');
# None may be there for the moment that the worker tries them itself.
ok($node->poll_query_until('postgres', q{SELECT index_table.retry('papers_by_title') > 0}), 'poison: tried again when asked');
$node->safe_psql('postgres', 'CALL index_table.drain()');
ok($node->poll_query_until('postgres', qq{SELECT tries > $tries AND refused = 2 FROM index_table.queue WHERE index_table = 'papers_by_title'::regclass}), 'poison: refused again') or note queue_of('queue');
papers_ok('poison, tried again');

# A row that is gone, and one with a shorter key.
$node->safe_psql('postgres', q{DELETE FROM papers WHERE id = 7});
papers_ok('one is deleted');
$node->safe_psql('postgres', q{UPDATE papers SET title = 'Short' WHERE id = 8});
papers_ok('one is shortened');
$node->safe_psql('postgres', q{SELECT index_table.retry('papers_by_title')});
ok($node->poll_query_until('postgres', q{SELECT coalesce(sum(pending + refused), 0) = 0 FROM index_table.queue WHERE index_table = 'papers_by_title'::regclass}), 'nothing is set aside any more') or note queue_of('queue');
is($node->safe_psql('postgres', 'SELECT count(*) FROM papers_by_title_queue'), 0, 'the queue is empty');
papers_ok('cured');
is($node->safe_psql('postgres', qq{
	SELECT count(*) FROM (
		(SELECT $_, p.partition_id, id FROM papers b JOIN index_table.partition p ON p.relation = b.tableoid EXCEPT ALL SELECT $_, partition_id, id FROM papers_by_$_)
		UNION ALL
		(SELECT $_, partition_id, id FROM papers_by_$_ EXCEPT ALL SELECT $_, p.partition_id, id FROM papers b JOIN index_table.partition p ON p.relation = b.tableoid)) d}),
	0, "papers by $_: in step") foreach qw(title author);
note(counts_text($counts));
check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
