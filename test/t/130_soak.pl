# A mixed load for SOAK_MINUTES (1), with DDL, workers, a standby and a shard at once: memory of backends
# and workers, dead entries, queues and the standby's lag stay flat, and all is right at the end.
# make soak MINUTES=30.
#
#   SOAK_CLIENTS=4
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $minutes = $ENV{SOAK_MINUTES} || 1;
my $clients = $ENV{SOAK_CLIENTS} || 4;
my $node = new_loaded_node('soak', "shared_preload_libraries = index_table\nindex_table.drain_naptime = 1\nindex_table.vacuum_naptime = 10s\nmax_worker_processes = 20\nhot_standby_feedback = on\nlog_min_messages = warning\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
my ($port, $host) = ($node->port, $node->host);

# Eight partitions here, of which one comes and goes; two on a server beside.
my $count = 20000;
$node->safe_psql('postgres', 'CREATE DATABASE shard');
$node->safe_psql('shard', q{CREATE EXTENSION index_table; CREATE TABLE orders_1 (id int PRIMARY KEY, town text, code text); SELECT index_table.capture('orders_1')});
my $partitions = join("\n", map { "CREATE TABLE people_$_ PARTITION OF people FOR VALUES WITH (MODULUS 8, REMAINDER $_);" } 0 .. 7);
$node->safe_psql('postgres', qq{
CREATE EXTENSION index_table;
CREATE EXTENSION postgres_fdw;
CREATE SERVER shard FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'shard');
CREATE USER MAPPING FOR CURRENT_USER SERVER shard;
CREATE TABLE people (id int PRIMARY KEY, email text, town text, tags text[], score int) PARTITION BY HASH (id);
$partitions
INSERT INTO people SELECT i, 'mail' || i, 'Town ' || i % 100, ARRAY['t' || i % 10, 't' || i % 13], i % 1000 FROM generate_series(1, $count) AS i;
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', strategy => 'partial', include => 'score');
SELECT index_table.create('people', 'unnest(tags)', name => 'people_by_tag');
SELECT index_table.create('people', 'score', name => 'people_later', maintenance => 'deferred');
SELECT index_table.create('people', 'score', strategy => 'denormalized', name => 'people_whole', predicate => 'score < 100');
CREATE INDEX people_global ON people USING global (town, score);
CREATE INDEX people_once ON people USING global (email) WITH (unique);
CREATE INDEX people_gin ON people USING global (tags) WITH (method = gin);
CREATE TABLE orders (id int, town text, code text) PARTITION BY HASH (id);
CREATE TABLE orders_0 PARTITION OF orders (PRIMARY KEY (id)) FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE FOREIGN TABLE orders_1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER shard;
INSERT INTO orders SELECT i, 'Town ' || i % 50, 'code' || i FROM generate_series(1, 2000) AS i;
SELECT index_table.create('orders', 'town', identity => 'id');
SELECT index_table.create('orders', 'code', identity => 'id', is_unique => true);
CREATE TABLE log (id int, at int) PARTITION BY RANGE (id);
CREATE TABLE log_0 PARTITION OF log FOR VALUES FROM (0) TO (1000);
CREATE INDEX log_global ON log USING global (at);
SELECT index_table.create('log', 'at', identity => 'id');
} . oracle_sql(
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'score' ], identity => 1),
	describe(name => 'people_by_tag', base => 'people', key => ['m.v'], elements => 'SELECT v, o FROM unnest(b.tags) WITH ORDINALITY AS t (v, o)', copies => ['id'], identity => 1),
	describe(name => 'people_later', base => 'people', key => ['b.score'], copies => ['id'], identity => 1),
	describe(name => 'people_whole', base => 'people', key => ['b.score'], predicate => 'b.score < 100', copies => [ 'id', 'email', 'town', 'tags' ], identity => 1),
	describe(name => 'log_by_at', base => 'log', key => ['b.at'], copies => ['id'], identity => 1)));

my $standby = start_standby($node);

my $id = "\\set id random(1, $count)\n\\set other random(1, $count)\n\\set n random(0, 999)\n";
my @scripts = (
	[ 6, "${id}SELECT * FROM people WHERE email = 'mail' || :id" ],
	[ 2, "${id}SELECT count(*), sum(score) FROM people WHERE town = 'Town ' || :n % 100 AND score < 500" ],
	[ 2, "${id}SELECT id FROM people WHERE tags @> ARRAY['t' || :n % 10] LIMIT 20" ],
	[ 1, "${id}SELECT score, count(*) FROM people WHERE score BETWEEN :n AND :n + 3 GROUP BY score ORDER BY score DESC" ],
	[ 6, "${id}UPDATE people SET score = :n, town = 'Town ' || :n % 100 WHERE id = :id" ],
	[ 2, "${id}UPDATE people SET tags = ARRAY['t' || :n % 10, 't' || :n % 17] WHERE email = 'mail' || :id" ],
	[ 2, "${id}BEGIN;\nDELETE FROM people WHERE id = :id;\nINSERT INTO people VALUES (:id, 'mail' || :id, 'Town ' || :n % 100, ARRAY['t1'], :n) ON CONFLICT DO NOTHING;\nCOMMIT" ],
	[ 2, "${id}INSERT INTO people VALUES (:id, 'mail' || :id, 'x', NULL, :n) ON CONFLICT (email) DO UPDATE SET score = excluded.score" ],
	[ 1, "${id}BEGIN;\nSAVEPOINT s;\nUPDATE people SET email = 'other' || :id WHERE id = :id;\nROLLBACK TO s;\nUPDATE people SET score = :n WHERE id = :other;\nCOMMIT" ],
	[ 2, "${id}UPDATE orders SET town = 'Town ' || :n % 50 WHERE id = :id % 2000 + 1" ],
	[ 1, "${id}SELECT * FROM orders WHERE code = 'code' || :id % 2000" ],
	[ 1, "${id}INSERT INTO log SELECT i, :n FROM generate_series(0, 20) AS i" ]);
my $directory = PostgreSQL::Test::Utils::tempdir();
my @files;
foreach my $script (@scripts)
{
	my $file = "$directory/script" . @files;
	append_to_file($file, "$script->[1];\n");
	push @files, '-f', "$file\@$script->[0]";
}
my ($seconds, $unanswered) = ($minutes * 60, 0);
my $load = { out => '' };
{
	local $ENV{PGOPTIONS} = "-c index_table.enable_scan=on";
	local $ENV{PGAPPNAME} = 'soak';
	# Deadlocks are tried again, since 15.
	$load->{run} = IPC::Run::start([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-T', $seconds, ($node->pg_version >= 15 ? '--max-tries=1000' : ()), @files, $node->connstr('postgres') ], '<', \'', '>&', \$load->{out}, IPC::Run::timeout($seconds + 300));
}

# One after the other; what a lock is refused to is tried again later.
my @ddl = (
	'BEGIN; ALTER TABLE people DETACH PARTITION people_7; ALTER TABLE people ATTACH PARTITION people_7 FOR VALUES WITH (MODULUS 8, REMAINDER 7); COMMIT',
	q{CALL index_table.create_concurrently('people', 'town, id', name => 'people_new'); DROP TABLE people_new},
	'CREATE INDEX CONCURRENTLY people_new ON people USING global (score, id); DROP INDEX people_new',
	'VACUUM people', 'VACUUM FULL people_3', 'REINDEX INDEX people_global', 'ANALYZE people', 'CLUSTER people_2 USING people_2_pkey',
	'CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (1000) TO (2000); INSERT INTO log SELECT i, i % 9 FROM generate_series(1000, 1200) AS i; TRUNCATE log_0; DROP TABLE log_1',
	q{SELECT index_table.vacuum()}, q{SELECT count(*) FROM index_table.verify('people_by_email')}, q{SELECT index_table.repair('people_by_tag')}, q{SELECT count(*) FROM index_table.verify('people_once')},
	q{BEGIN; ALTER TABLE people ADD COLUMN extra int DEFAULT 1; ROLLBACK}, q{CALL index_table.rebuild('people_by_town')}, 'CALL index_table.drain()');

# What grows is seen in these. Memory that a process has for itself, in kB, by kind of process.
sub private_memory
{
	my %memory;
	foreach my $line (split /\n/, $node->safe_psql('postgres', q{SELECT pid || ' ' || CASE WHEN application_name = 'soak' THEN 'client' ELSE replace(backend_type, ' ', '_') END FROM pg_stat_activity WHERE application_name = 'soak' OR backend_type LIKE 'index_table%'}))
	{
		my ($pid, $kind) = split / /, $line;
		open(my $file, '<', "/proc/$pid/smaps_rollup") or next;
		my $text = join '', <$file>;
		$memory{$kind} = $1 if $text =~ /^Private_Dirty:\s+(\d+)/m && $1 > ($memory{$kind} // 0);
	}
	return \%memory;
}
my (@samples, %done, %refused);
my $start = time;
my $step = 0;
while (time - $start < $seconds - 1)
{
	my $command = $ddl[ $step++ % @ddl ];
	my ($status, $out, $error) = $node->psql('postgres', "SET lock_timeout = '2s'; \n" . join(";\n", split /; /, $command) . ";\n", on_error_stop => 0);
	if ($error =~ /(?:ERROR|FATAL):/) { $refused{$command}++ } else { $done{$command}++ }
	# What an interrupted build has left.
	$node->psql('postgres', "SET lock_timeout = '10s';\nDROP TABLE IF EXISTS people_new;\nDROP INDEX IF EXISTS people_new;\nDROP TABLE IF EXISTS log_1;", on_error_stop => 0);
	my ($size, $queued, $lag) = split /\|/, $node->safe_psql('postgres', q{SELECT (SELECT sum(pg_total_relation_size(index_table)) FROM index_table.index_tables) + (SELECT sum(bytes) FROM index_table.global_indexes), (SELECT pending FROM index_table.queue_lag('people_later')), (SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) FROM pg_stat_replication)});
	push @samples, { at => time - $start, size => $size, queued => $queued, lag => $lag, memory => private_memory() };
	my ($read, $answer, $problem) = $standby->psql('postgres', q{SET index_table.enable_scan = force; SELECT count(*) FROM people WHERE email = 'mail7'});
	$unanswered++ if $problem !~ /conflict with recovery|^$/ || ($answer // '') !~ /^[01]?$/;
	sleep 0.5;
}
eval { $load->{run}->finish };
my ($transactions) = $load->{out} =~ /transactions actually processed: (\d+)/;
note($load->{out});
cmp_ok($transactions // 0, '>', 20 * $seconds, 'the load went on to the end');
is($unanswered, 0, 'the standby answered');
note(join("\n", map { sprintf('%4d done, %4d refused a lock: %s', $done{$_} // 0, $refused{$_} // 0, $_) } @ddl));
is(join("\n", grep { !$done{$_} } @ddl), '', 'each command was carried out') if $minutes > 2;

# The first fifth fills caches. Of what is left the second half may not have more than the first.
my @settled = grep { $_->{at} > $seconds / 5 } @samples;
my ($middle, $last) = (int(@settled / 2), $#settled);
sub highest { my ($what, @some) = @_; my $most = 0; foreach (@some) { my $value = $what->($_) // 0; $most = $value if $value > $most } return $most }
my %series = (
	'bytes of index tables and global indexes' => [ sub { $_[0]{size} }, 1.3, 4_000_000 ],
	'queued changes' => [ sub { $_[0]{queued} }, 2, 20_000 ],
	'bytes that the standby is behind' => [ sub { $_[0]{lag} }, 2, 64_000_000 ]);
# A kind of process that was seen in one half alone cannot be compared.
sub kinds { my (@some) = @_; return map { $_ => 1 } map { keys %{ $_->{memory} } } @some }
my %early = kinds(@settled[ 0 .. $middle - 1 ]);
my %late = kinds(@settled[ $middle .. $last ]);
foreach my $kind (grep { $late{$_} } keys %early)
{
	$series{"kB of memory of a $kind"} = [ sub { $_[0]{memory}{$kind} }, 1.2, 4096 ];
}
foreach my $name (sort keys %series)
{
	my ($what, $times, $more) = @{ $series{$name} };
	my ($first, $second) = (highest($what, @settled[ 0 .. $middle - 1 ]), highest($what, @settled[ $middle .. $last ]));
	note("$name: $first at most in the first half, $second in the second");
	cmp_ok($second, '<=', $first * $times + $more, "$name: flat");
}
diag("$minutes minutes, $transactions transactions, $step commands beside them, " . @samples . ' samples');

# All that is queued is drained, and all is right.
$node->safe_psql('postgres', 'CALL index_table.drain()');
oracle_ok($node, 'postgres', 'index tables');
$node->safe_psql('postgres', 'VACUUM people; VACUUM log');
check_global($node, 'postgres', 'global indexes', exact => 0);
is($node->safe_psql('postgres', q{SELECT count(*) FROM ((SELECT b.town, p.partition_id, b.id FROM orders AS b JOIN index_table.partition AS p ON p.relation = b.tableoid EXCEPT ALL SELECT * FROM orders_by_town) UNION ALL (SELECT * FROM orders_by_town EXCEPT ALL SELECT b.town, p.partition_id, b.id FROM orders AS b JOIN index_table.partition AS p ON p.relation = b.tableoid)) AS d}), 0, 'entries of shards');
$node->wait_for_catchup($standby);
foreach my $query (q{SELECT count(*), sum(id) FROM people WHERE town = 'Town 7'}, q{SELECT count(*), sum(id) FROM people WHERE tags @> '{t3}'}, q{SELECT count(*) FROM people WHERE email > 'mail5'})
{
	my @answers = map { my $server = $_; map { $server->safe_psql('postgres', "SET index_table.enable_scan = $_; $query") } qw(force off) } $node, $standby;
	is("@answers", join(' ', ($answers[0]) x 4), "the same with index tables and without, here and on the standby: $query");
}
is(log_problems($node), '', 'nothing leaks, nothing crashes');
done_testing();
