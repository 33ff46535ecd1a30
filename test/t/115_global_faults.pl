# Global indexes where something gives way: files that cannot grow, little memory, no more
# addresses, prepared transactions over a restart, snapshots and locks that others hold, logical replication into them,
# unlogged partitions on a standby, entries that are removed under its queries, and a standby that
# reads under load and is promoted in the middle of it.
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

my $node = new_node('faults', allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--locale=C', '--wal-segsize=1' ],
	conf => "session_preload_libraries = index_table\nmax_prepared_transactions = 10\nfsync = off\nmax_standby_streaming_delay = 0\nhot_standby_feedback = off\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);

sub table_sql
{
	my ($name, $partitions) = @_;
	return "CREATE TABLE $name (id int, k int, v text) PARTITION BY HASH (id);"
	  . join('', map { "CREATE TABLE ${name}_$_ PARTITION OF $name FOR VALUES WITH (MODULUS $partitions, REMAINDER $_);" } 0 .. $partitions - 1);
}
$node->safe_psql('postgres', 'CREATE EXTENSION index_table');
my $problems = sub { my ($on, $index) = @_; return $on->safe_psql('postgres', "SELECT * FROM index_table.verify('$index') LIMIT 10"); };

# --- Files that cannot grow ---------------------------------------------------------------

SKIP:
{
	my $pid = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my $limit = sub { my ($size) = @_; return system("prlimit --pid $pid --fsize=$size: >/dev/null 2>&1") == 0; };
	skip 'no prlimit', 1 unless $limit->('unlimited');
	$node->safe_psql('postgres', table_sql('f', 8) . "CREATE INDEX f_k ON f USING global (k) WITH (unique); CREATE INDEX f_v ON f USING global (v, id);
INSERT INTO f SELECT i, i, repeat('v', 40) || i FROM generate_series(1, 2000) i;");
	# New sessions inherit it. A file of a partition stays smaller than that of the tree.
	$limit->(3 * 1024 * 1024) or die 'prlimit';
	my ($code, $inserted) = ('', 0);
	for (my $i = 2000; $i < 100_000 && $code eq ''; $i += 2000)
	{
		$code = sqlstate($node, 'postgres', "INSERT INTO f SELECT i, i, repeat('v', 40) || i FROM generate_series($i + 1, $i + 2000) i");
		$inserted++ if $code eq '';
	}
	like($code, qr/could not (extend|write)/, 'an INSERT fails where a file cannot grow');
	cmp_ok($inserted, '>', 2, 'others before it have not');
	is($problems->($node, $_), '', "$_: what it has left behind leads nowhere") foreach 'f_k', 'f_v';
	# Anew, the trees are smaller.
	$limit->(1200 * 1024) or die 'prlimit';
	like(sqlstate($node, 'postgres', $_), qr/could not (extend|write)/, "fails: $_") foreach 'CREATE INDEX f_again ON f USING global (v, k)', 'REINDEX INDEX f_v';
	$limit->(3 * 1024 * 1024) or die 'prlimit';
	is(sqlstate($node, 'postgres', $_), '', "succeeds: $_") foreach 'DELETE FROM f WHERE id % 3 = 0', 'VACUUM f', "SELECT index_table.vacuum('f_v')", 'VACUUM f';
	is($problems->($node, $_), '', "$_: in order still") foreach 'f_k', 'f_v';
	$limit->('unlimited');
	check_global($node, 'postgres', 'after files that could not grow');
	is(sqlstate($node, 'postgres', "INSERT INTO f SELECT i, i, repeat('v', 40) || i FROM generate_series(100001, 110000) i; REINDEX INDEX f_v"), '', 'they can again');
	check_global($node, 'postgres', 'with files that have grown');
	$node->safe_psql('postgres', 'DROP TABLE f');
}

# --- Little memory ---------------------------------------------------------------------------

# A page of generations stands for about 55 blocks: so many that a sweep has to read the tree more than once.
$node->safe_psql('postgres', table_sql('s', 12) . "INSERT INTO s SELECT i, i, repeat('v', 1800) FROM generate_series(1, 45000) i;
CREATE INDEX s_k ON s USING global (k); DELETE FROM s WHERE id % 2 = 0;");
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) s');
$node->safe_psql('postgres', "INSERT INTO s SELECT i, i, repeat('w', 1800) FROM generate_series(1, 45000) i WHERE i % 2 = 0");
my $pages = $node->safe_psql('postgres', "SELECT sum(pg_relation_size(relid) / 8192) FROM pg_partition_tree('s_k') WHERE isleaf");
cmp_ok($pages, '>', 160, 'generations are more than maintenance_work_mem');
is($node->safe_psql('postgres', "SET maintenance_work_mem = '1MB'; SELECT index_table.vacuum('s_k')"), 22500, 'a sweep in several rounds removes what is stale');
is($node->safe_psql('postgres', "SET maintenance_work_mem = '1MB'; SELECT count(*) FROM index_table.verify('s_k'); SELECT entries FROM index_table.global_indexes WHERE index = 's_k'::regclass"), "0\n45000", 'and nothing else');
check_global($node, 'postgres', 'after a sweep with little memory');
$node->safe_psql('postgres', 'DROP TABLE s');

# --- An address space that is full --------------------------------------------------------------

SKIP:
{
	skip 'pages have checksums', 1 if $node->safe_psql('postgres', 'SHOW data_checksums') eq 'on';
	$node->safe_psql('postgres', 'CREATE TABLE m (id int, k int, v int[]) PARTITION BY LIST (id);'
		  . join('', map { "CREATE TABLE m_$_ PARTITION OF m FOR VALUES IN ($_);" } 1 .. 3) . q{
CREATE INDEX m_k ON m USING global (k);
CREATE INDEX m_v ON m USING global (v) WITH (method = gin);
INSERT INTO m SELECT 1 + i % 2, i, ARRAY[i, 0] FROM generate_series(1, 100) i;
});
	my @files = split /\n/, $node->safe_psql('postgres', "SELECT pg_relation_filepath(storage) FROM index_table.global_indexes WHERE base = 'm'::regclass");
	is(scalar @files, 2, 'two extent maps');
	# What is left is given away: the map's head has how many extents were given, and how many there can be.
	$node->stop;
	foreach my $file (@files)
	{
		open my $map, '+<:raw', $node->data_dir . "/$file" or die $!;
		seek $map, 32, 0;
		read $map, my $used, 4;
		is(unpack('L', $used), 3, 'three partitions have an extent each');
		seek $map, 40, 0;
		print $map $used;
		close $map;
	}
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE m_4 PARTITION OF m FOR VALUES IN (4)');
	my $full = qr/^54000.*more blocks than a global index can address/;
	like(sqlstate($node, 'postgres', 'INSERT INTO m VALUES (4, 1, ARRAY[3])'), $full, 'a partition finds no addresses');
	is(sqlstate($node, 'postgres', 'INSERT INTO m VALUES (1, 1, ARRAY[1])'), '', 'others go on with theirs');
	$node->safe_psql('postgres', 'TRUNCATE m_1');
	like(sqlstate($node, 'postgres', 'INSERT INTO m VALUES (4, 1, ARRAY[3])'), $full, 'nor those of rows whose entries are there still');
	$node->safe_psql('postgres', "SELECT index_table.vacuum('m_k')");
	like(sqlstate($node, 'postgres', 'INSERT INTO m VALUES (4, 1, ARRAY[3])'), $full, 'one index has some again');
	$node->safe_psql('postgres', "SELECT index_table.vacuum('m_v')");
	is(sqlstate($node, 'postgres', 'INSERT INTO m VALUES (4, 1, ARRAY[3])'), '', 'both have');
	like(sqlstate($node, 'postgres', $_), $full, "full again: $_") foreach 'INSERT INTO m VALUES (1, 1, ARRAY[3])', 'COPY m FROM STDIN;' . "\n1\t1\t{1}\n\\.\n";
	is($node->safe_psql('postgres', 'SELECT id, count(*) FROM m GROUP BY 1 ORDER BY 1'), "2|50\n4|1", 'what failed has left nothing');
	check_global($node, 'postgres', 'after addresses were short');
	$node->safe_psql('postgres', 'DROP TABLE m');
}

# --- COPY, savepoints, prepared transactions ---------------------------------------------------

$node->safe_psql('postgres', table_sql('t', 3) . "CREATE INDEX t_k ON t USING global (k) WITH (unique); CREATE INDEX t_v ON t USING global (v) INCLUDE (k);
INSERT INTO t SELECT i, i, 'v' || i % 10 FROM generate_series(1, 500) i");
like(sqlstate($node, 'postgres', "COPY t FROM STDIN;\n" . join('', map { "$_\t$_\tcopied\n" } 501 .. 1500) . "1501\t77\tcopied\n1502\t1502\tcopied\n\\.\n"), qr/^23505.*t_k/, 'COPY stops at a duplicate');
is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v = 'copied'"), 0, 'and leaves nothing');
$node->safe_psql('postgres', "COPY t FROM STDIN;\n" . join('', map { "$_\t$_\tcopied\n" } 501 .. 1500) . "\\.\n");
$node->safe_psql('postgres', q{
BEGIN;
INSERT INTO t VALUES (2001, 2001, 'kept');
SAVEPOINT a;
DELETE FROM t WHERE k = 2001;
INSERT INTO t VALUES (2002, 2001, 'gone');
SAVEPOINT b;
UPDATE t SET k = 2003 WHERE k = 2001;
ROLLBACK TO a;
INSERT INTO t VALUES (2004, 2003, 'kept');
RELEASE a;
COMMIT;
BEGIN;
INSERT INTO t VALUES (3001, 3001, 'prepared'), (3002, 3002, 'prepared');
DELETE FROM t WHERE k = 10;
UPDATE t SET k = 3011 WHERE k = 11;
PREPARE TRANSACTION 'committed';
BEGIN;
INSERT INTO t VALUES (3003, 3003, 'dropped');
UPDATE t SET k = 3012 WHERE k = 12;
DELETE FROM t WHERE k = 13;
PREPARE TRANSACTION 'rolled back';
});
is($node->safe_psql('postgres', "SELECT id, k FROM t WHERE k IN (2001, 2003) ORDER BY 1"), "2001|2001\n2004|2003", 'savepoints');
# Whoever wants what they have waits.
like(sqlstate($node, 'postgres', "SET lock_timeout = '50ms'; INSERT INTO t VALUES (1, $_, 'waits')"), qr/^55P03/, "waits for key $_ of a prepared transaction") foreach 3001, 10, 3003, 12;
is($problems->($node, 't_k'), '', 'beside prepared transactions');
$node->safe_psql('postgres', 'VACUUM t');
$node->restart;
$node->safe_psql('postgres', 'VACUUM t');
like(sqlstate($node, 'postgres', "SET lock_timeout = '50ms'; INSERT INTO t VALUES (1, $_, 'waits')"), qr/^55P03/, "waits for key $_ after a restart") foreach 3002, 13;
$node->safe_psql('postgres', "COMMIT PREPARED 'committed'; ROLLBACK PREPARED 'rolled back'");
is($node->safe_psql('postgres', 'SELECT k, v FROM t WHERE k IN (10, 11, 12, 13, 3001, 3002, 3003, 3011, 3012) ORDER BY 1'),
	"12|v2\n13|v3\n3001|prepared\n3002|prepared\n3011|v1", 'prepared transactions have ended as they were told');
like(sqlstate($node, 'postgres', "INSERT INTO t VALUES (1, 3001, 'again')"), qr/^23505/, 'their keys are taken');
is(sqlstate($node, 'postgres', "INSERT INTO t VALUES (1, 3003, 'free'), (2, 10, 'free')"), '', 'or free');
check_global($node, 'postgres', 'after prepared transactions');

# --- Snapshots and locks of others ----------------------------------------------------------------

my $forced = 'SET index_table.enable_scan = force;';
is($node->safe_psql('postgres', "$forced BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT k FROM t WHERE k BETWEEN 100 AND 109 ORDER BY k; FETCH 2 FROM c; COMMIT;
DELETE FROM t WHERE k BETWEEN 100 AND 104; FETCH ALL FROM c;"), join("\n", 100 .. 109), 'a cursor WITH HOLD keeps what it has found');
my $locked = $node->background_psql('postgres');
$locked->query_safe("$forced BEGIN; SELECT k FROM t WHERE k IN (200, 202) FOR UPDATE");
is($node->safe_psql('postgres', "$forced SELECT k FROM t WHERE k BETWEEN 200 AND 204 ORDER BY k FOR UPDATE SKIP LOCKED"), "201\n203\n204", 'SKIP LOCKED');
like(sqlstate($node, 'postgres', "$forced SELECT k FROM t WHERE k = 202 FOR UPDATE NOWAIT"), qr/^55P03/, 'NOWAIT');
$locked->query_safe('COMMIT');
# Two transactions look for a key that is not there, each under SERIALIZABLE, and make it: in no order do both see what they saw.
foreach my $way ('force', 'off')
{
	my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1, 2;
	foreach my $i (0, 1)
	{
		$sessions[$i]->query("SET index_table.enable_scan = $way; BEGIN ISOLATION LEVEL SERIALIZABLE;");
		is($sessions[$i]->query("SELECT count(*) FROM t WHERE v = 'skewed $way'"), 0, 'neither sees a row');
	}
	$sessions[$_]->query("INSERT INTO t VALUES ($_, 9000 + $_, 'skewed $way')") foreach 0, 1;
	$sessions[$_]->query('COMMIT') foreach 0, 1;
	$_->quit foreach @sessions;
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v = 'skewed $way'"), 1, "enable_scan = $way: one of them is refused");
	$node->safe_psql('postgres', "DELETE FROM t WHERE v = 'skewed $way'");
}
$locked->quit;
check_global($node, 'postgres', 'after locks and snapshots');

# --- Logical replication ------------------------------------------------------------------------

my $subscriber = new_node('subscriber', conf => "wal_retrieve_retry_interval = 200ms\n");
$node->safe_psql('postgres', table_sql('leaves', 2) . table_sql('roots', 2) . "
ALTER TABLE leaves ADD PRIMARY KEY (id); ALTER TABLE roots ADD PRIMARY KEY (id);
INSERT INTO leaves SELECT i, i, 'v' || i % 10 FROM generate_series(1, 300) i; INSERT INTO roots SELECT * FROM leaves;
CREATE PUBLICATION leaves FOR TABLE leaves; CREATE PUBLICATION roots FOR TABLE roots WITH (publish_via_partition_root)");
$subscriber->safe_psql('postgres', 'CREATE EXTENSION index_table;' . table_sql('leaves', 2) . table_sql('roots', 5) . "
ALTER TABLE leaves ADD PRIMARY KEY (id); ALTER TABLE roots ADD PRIMARY KEY (id);
CREATE INDEX leaves_k ON leaves USING global (k) WITH (unique); CREATE INDEX roots_k ON roots USING global (k) WITH (unique); CREATE INDEX roots_v ON roots USING global (v);");
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION $_ CONNECTION '" . $node->connstr . " dbname=postgres' PUBLICATION $_") foreach 'leaves', 'roots';
$subscriber->wait_for_subscription_sync($node, $_) foreach 'leaves', 'roots';
sub arrived
{
	my ($label) = @_;
	$node->wait_for_catchup($_) foreach 'leaves', 'roots';
	foreach my $table ('leaves', 'roots')
	{
		is($subscriber->safe_psql('postgres', "SELECT count(*), sum(k), md5(string_agg(t::text, ' ' ORDER BY id)) FROM $table t"),
			$node->safe_psql('postgres', "SELECT count(*), sum(k), md5(string_agg(t::text, ' ' ORDER BY id)) FROM $table t"), "$label: $table has arrived");
	}
	check_global($subscriber, 'postgres', $label, exact => 0);
	return;
}
arrived('initial copy');
$node->safe_psql('postgres', "UPDATE $_ SET k = k + 1000 WHERE id % 3 = 0; DELETE FROM $_ WHERE id % 7 = 0; INSERT INTO $_ SELECT i, i, 'w' FROM generate_series(400, 500) i; UPDATE $_ SET id = id + 10000 WHERE id < 20") foreach 'leaves', 'roots';
arrived('changes');
$node->safe_psql('postgres', "TRUNCATE leaves, roots; INSERT INTO leaves SELECT i, i, 'after' FROM generate_series(1, 50) i; INSERT INTO roots SELECT * FROM leaves");
arrived('TRUNCATE');
# A key that a row here has already.
$subscriber->safe_psql('postgres', "INSERT INTO $_ VALUES (70000, 70000, 'local')") foreach 'leaves', 'roots';
my $offset = -s $subscriber->logfile;
$node->safe_psql('postgres', "INSERT INTO $_ VALUES (1001, 70000, 'theirs')") foreach 'leaves', 'roots';
$subscriber->wait_for_log(qr/duplicate key value violates unique constraint "leaves_k"/, $offset);
$subscriber->wait_for_log(qr/duplicate key value violates unique constraint "roots_k"/, $offset);
$subscriber->safe_psql('postgres', "DELETE FROM $_ WHERE id = 70000") foreach 'leaves', 'roots';
arrived('a conflict, and its end');
check_global($subscriber, 'postgres', 'subscriber');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION leaves; DROP SUBSCRIPTION roots');
$subscriber->stop;

# --- What a standby has not, and what is removed under its queries ----------------------------------

$node->safe_psql('postgres', q{
CREATE TABLE u (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE u_1 PARTITION OF u FOR VALUES FROM (0) TO (100);
CREATE UNLOGGED TABLE u_2 PARTITION OF u FOR VALUES FROM (100) TO (200);
CREATE TABLE p (id int, k int, place point) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (100) TO (200);
CREATE INDEX u_k ON u USING global (k);
CREATE INDEX p_k ON p USING global (k);
CREATE INDEX p_place ON p USING global (place) WITH (method = gist);
INSERT INTO u SELECT i, i % 50 FROM generate_series(0, 199) i;
INSERT INTO p SELECT i % 2 * 100 + i / 2, i, point(i, i) FROM generate_series(0, 99) i;
CREATE FUNCTION pauses(k int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF k = 0 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
	RETURN true;
END $$;
});
$node->backup('backup_p');
my $reader = QuickNode->new('reader');
$reader->init_from_backup($node, 'backup_p', has_streaming => 1);
$reader->start;
$node->wait_for_catchup($reader, 'replay', $node->lsn('insert'));
foreach my $way ('force', 'on', 'off')
{
	my $set = "SET index_table.enable_scan = $way;";
	like(sqlstate($reader, 'postgres', "$set SELECT count(*) FROM u WHERE k = $_"), qr/^0A000.*cannot access temporary or unlogged relations during recovery/, "$way: an unlogged partition cannot be read") foreach '7', '1000';
	is($reader->safe_psql('postgres', "$set SELECT count(*) FROM u WHERE k = 7 AND id < 100"), 2, "$way: a query that leaves it out can");
	is($reader->safe_psql('postgres', "$set SELECT count(*) FROM p WHERE k = 7"), 1, "$way: other tables can be read");
}
is($problems->($reader, 'u_k'), '', 'verify() passes over it');
# The rows of p_2 get other addresses, and their former entries are swept, while a query has yet to come to them.
foreach my $query ('SELECT count(*) FROM p WHERE k >= 0 AND pauses(k)', q{SELECT count(*) FROM (SELECT FROM p WHERE pauses(k) ORDER BY place <-> point '(0,0)' LIMIT 1000) AS s})
{
	my $holder = $reader->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my ($in, $out, $err) = ('', '', '');
	my $asking = IPC::Run::start([ 'psql', '-XAt', '-v', 'VERBOSITY=verbose', '-d', $reader->connstr('postgres'), '-c', 'SET index_table.enable_scan = force; SET enable_seqscan = off; SET enable_sort = off', '-c', $query ],
		'<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(300));
	$reader->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'nobody waits';
	$node->safe_psql('postgres', 'VACUUM FULL p_2');
	is($node->safe_psql('postgres', 'SELECT index_table.vacuum(i) FROM unnest(\'{p_k, p_place}\'::regclass[]) i'), "50\n50", 'the sweep removes them');
	$node->wait_for_catchup($reader, 'replay', $node->lsn('insert'));
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	$holder->quit;
	$asking->finish;
	like($out . $err, qr/40001.*conflict with recovery/s, "a query that they were removed under is cancelled: $query");
	is($reader->safe_psql('postgres', "SET index_table.enable_scan = force; SELECT count(*) FROM p WHERE k >= 0"), 100, 'later ones find all rows');
}
$reader->stop;
$node->safe_psql('postgres', 'DROP TABLE u, p');

# --- A standby under load, promoted in the middle ----------------------------------------------------

$node->safe_psql('postgres', table_sql('l', 3) . q{
CREATE INDEX l_k ON l USING global (k) WITH (unique);
CREATE INDEX l_v ON l USING global (v) INCLUDE (k);
CREATE FUNCTION churn(how_many int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. how_many LOOP
		DELETE FROM l WHERE k = (random() * 300)::int;
		INSERT INTO l SELECT random() * 1000, random() * 300, 'v' || (random() * 5)::int ON CONFLICT DO NOTHING;
		UPDATE l SET v = 'v' || (random() * 5)::int, id = random() * 1000 WHERE k = (random() * 300)::int;
	END LOOP;
EXCEPTION WHEN serialization_failure OR deadlock_detected THEN NULL;
END $$;
-- Under one snapshot: the same by both ways.
CREATE FUNCTION differing() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	natively text;
	through text;
BEGIN
	FOREACH query IN ARRAY ARRAY['v = ''v1''', 'k < 100', 'k = 7', 'v IN (''v2'', ''v3'') AND k > 50', 'v > '''''] LOOP
		query := 'SELECT count(*) || md5(string_agg(l::text, '' '' ORDER BY l::text)) FROM l WHERE ' || query;
		PERFORM set_config('index_table.enable_scan', 'off', true);
		EXECUTE query INTO natively;
		PERFORM set_config('index_table.enable_scan', 'force', true);
		EXECUTE query INTO through;
		IF natively IS DISTINCT FROM through THEN RETURN NEXT query || ': ' || natively || ', ' || through; END IF;
	END LOOP;
END $$;
SELECT churn(500);
});
prepare_global_checks($node, 'postgres');
$node->backup('backup');
my $standby = QuickNode->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $storage = $node->safe_psql('postgres', "SELECT storage FROM index_table.global_indexes WHERE index = 'l_v'::regclass");
append_to_file("$directory/churn", "SELECT churn(5);\n");
append_to_file("$directory/vacuum", "VACUUM (INDEX_CLEANUP on, TRUNCATE off) l;\nVACUUM $storage;\n\\sleep 20 ms\n");
my $out = '';
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 3, '-T', 600, '-f', "$directory/churn\@20", '-f', "$directory/vacuum\@1", $node->connstr('postgres') ],
	'<', \'', '>&', \$out, IPC::Run::timeout(700));
my ($compared, $cancelled, $wrong) = (0, 0, '');
while ($compared < 30 && $cancelled < 3000)
{
	my ($result, $stdout, $stderr) = $standby->psql('postgres', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM differing(); COMMIT; SELECT * FROM index_table.verify(\'l_k\');');
	$wrong .= $problems->($node, 'l_v');
	if ($stderr =~ /conflict with recovery/) { $cancelled++; next; }
	$compared++;
	$wrong .= $stdout . $stderr;
}
is($wrong, '', 'the standby finds what it finds natively, under load; verify() finds nothing on either server');
is($compared, 30, 'and does so often enough');
note("$cancelled times cancelled by recovery");
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT * FROM differing()'), '', 'promoted in the middle: the same');
$standby->safe_psql('postgres', 'SELECT churn(300)');
check_global($standby, 'postgres', 'promoted, and changed');
$load->signal('TERM');
eval { $load->finish };
# What runs still would keep VACUUM from removing rows.
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'") or die 'the load goes on';
check_global($node, 'postgres', 'the former primary');
$standby->stop;
$node->stop;

# --- A partition locked by who has no transaction id ---------------------------------------

# Where WAL is minimal, LOCK TABLE takes none: there is nothing that a unique check could wait for, and it looks again.
my $minimal = new_node('minimal', conf => "wal_level = minimal\nmax_wal_senders = 0\n");
$minimal->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE m (id int, k int) PARTITION BY LIST (id);
CREATE TABLE m_0 PARTITION OF m FOR VALUES IN (0);
CREATE TABLE m_1 PARTITION OF m FOR VALUES IN (1);
CREATE INDEX m_by_k ON m USING global (k) WITH (unique);
INSERT INTO m VALUES (0, 1), (0, 2);});
my $locker = hold_lock($minimal, 'BEGIN; LOCK TABLE m_0 IN ACCESS EXCLUSIVE MODE;',
	"SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 'm_0'::regclass AND l.mode = 'AccessExclusiveLock' AND l.granted AND a.backend_xid IS NULL");
like(sqlstate($minimal, 'postgres', "SET lock_timeout = '200ms'; INSERT INTO m VALUES (1, 1)"), qr/^55P03: could not look for a duplicate key/, 'lock_timeout');
like(sqlstate($minimal, 'postgres', "SET statement_timeout = '200ms'; INSERT INTO m VALUES (1, 1)"), qr/^(55P03|57014)/, 'statement_timeout');
my $waits = start_session($minimal, 'postgres', "SET application_name = 'waits'; INSERT INTO m VALUES (1, 1);\n\\q");
my $is_at_it = "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'waits' AND state = 'active' AND query LIKE 'INSERT%' AND clock_timestamp() > query_start + interval '%s'";
$minimal->poll_query_until('postgres', sprintf($is_at_it, '2s')) or die 'it does not wait';
is(sqlstate($minimal, 'postgres', 'INSERT INTO m VALUES (1, 3)'), '', 'others may use the page meanwhile');
release_lock($locker);
like(end_session($waits), qr/23505/, 'then it sees the key');
$locker = hold_lock($minimal, 'BEGIN; LOCK TABLE m_0 IN ACCESS EXCLUSIVE MODE;', "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'm_0'::regclass AND mode = 'AccessExclusiveLock' AND granted");
$waits = start_session($minimal, 'postgres', "SET application_name = 'waits'; INSERT INTO m VALUES (1, 2);\n\\q");
$minimal->poll_query_until('postgres', sprintf($is_at_it, '10ms')) or die 'it does not wait';
my $begin = time;
$minimal->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waits'");
like(end_session($waits), qr/55P03|57014/, 'it can be cancelled');
cmp_ok(time - $begin, '<', 45, 'long before it gives up by itself');
release_lock($locker);
is($minimal->safe_psql('postgres', 'SELECT id, k FROM m ORDER BY k'), "0|1\n0|2\n1|3", 'nothing else has come');
check_global($minimal, 'postgres', 'after partitions that were locked');
$minimal->stop;
done_testing();
