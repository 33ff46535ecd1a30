# Clients behind a pooler that divides transactions (pgbouncer): few server connections for many clients, statements
# prepared through it, index tables that come and go meanwhile, settings that others leave, transactions that are
# broken off or prepared. Every answer is right, and every entry.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use Work;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';
plan skip_all => 'pgbouncer is not installed' unless $pgbouncer;
plan skip_all => 'pgbouncer does not run as root' unless $>;
my ($major, $minor) = `$pgbouncer --version` =~ /PgBouncer (\d+)\.(\d+)/ or die 'which pgbouncer is this?';
# Since then it knows of statements that are prepared by the protocol.
my $knows_prepared = $major > 1 || $minor >= 21;

my $node = new_node('pooled', conf => "session_preload_libraries = index_table\nindex_table.drain_naptime = 0\nmax_connections = 50\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
prepare_work($node);
$node->safe_psql('postgres', 'CREATE ROLE tenant LOGIN SUPERUSER; CREATE ROLE nobody; CREATE SCHEMA evil; CREATE TABLE evil.customers (id int, email text, town text)');

my $directory = PostgreSQL::Test::Utils::tempdir_short();
my $port = $node->port + 1;
append_to_file("$directory/users", qq{"tenant" ""\n});
append_to_file("$directory/pgbouncer.ini", sprintf(q{
[databases]
postgres = host=%s port=%d dbname=postgres pool_size=2
one = host=%s port=%d dbname=postgres pool_size=1
[pgbouncer]
listen_addr =
listen_port = %d
unix_socket_dir = %s
auth_type = trust
auth_file = %s/users
pool_mode = transaction
query_wait_timeout = 120
%s
}, $node->host, $node->port, $node->host, $node->port, $port, $directory, $directory, $knows_prepared ? 'max_prepared_statements = 50' : ''));
my $pooler = IPC::Run::start([ $pgbouncer, '-q', "$directory/pgbouncer.ini" ], '<', \'', '>&', "$directory/log");
foreach (1 .. 100) { last if -e "$directory/.s.PGSQL.$port"; sleep 0.1 }
END { my $status = $?; if ($pooler) { $pooler->signal('TERM'); eval { $pooler->finish } } $? = $status }

sub pooled { my ($db) = @_; return "host=$directory port=$port dbname=$db user=tenant" }

# Each statement a transaction of its own, or what one -c has.
sub ask
{
	my ($db, @sql) = @_;
	IPC::Run::run([ 'psql', '-XAtq', '-d', pooled($db), map { ('-c', $_) } @sql ], '<', \'', '>', \my $output, '2>', \my $errors, IPC::Run::timeout(120));
	chomp $output;
	return $errors eq '' ? $output : "$output$errors";
}

# --- Many clients, prepared statements, and DDL ------------------------------------------

my $directory_of_scripts = PostgreSQL::Test::Utils::tempdir();
my $id = "\\set id random(1, 6000)\n\\set n random(0, 999)\n";
my @scripts = (
	[ 4, "${id}SELECT id FROM customers WHERE email = 'mail' || :id" ],
	[ 2, "${id}SELECT count(*) FROM customers WHERE lower(town) = 'town ' || :n % 20" ],
	[ 3, "${id}UPDATE customers SET town = 'Town ' || :n % 30, phone = :n::text, active = :n % 2 = 0 WHERE id = :id" ],
	[ 2, "${id}UPDATE customers SET phone = 'by key' || :n WHERE email = 'mail' || :id" ],
	[ 2, "\\set id random(1, 3000)\n\\set n random(0, 999)\nBEGIN;\nDELETE FROM customers WHERE id = :id;\nSAVEPOINT s;\nINSERT INTO customers VALUES (:id, 'mail' || :id, 'Town ' || :n, ARRAY['t' || :n % 9], :n::text, true) ON CONFLICT DO NOTHING;\nROLLBACK TO s;\nINSERT INTO customers VALUES (:id, 'mail' || :id, 'Town ' || :n) ON CONFLICT DO NOTHING;\nCOMMIT" ],
	[ 2, "\\set id random(3001, 6000)\n\\set n random(0, 999)\nINSERT INTO customers VALUES (:id, 'mail' || :id) ON CONFLICT (email) DO UPDATE SET phone = 'again' || :n" ],
	[ 1, "${id}BEGIN;\nSET LOCAL index_table.enable_scan = force;\nSELECT id FROM customers WHERE phone = :n::text FOR UPDATE;\nROLLBACK" ]);
my @files;
foreach my $script (@scripts)
{
	my $file = "$directory_of_scripts/" . @files / 2;
	append_to_file($file, "$script->[1];\n");
	push @files, '-f', "$file\@$script->[0]";
}
foreach my $mode ('simple', 'extended', $knows_prepared ? 'prepared' : ())
{
	my $output = '';
	# A thread for each: pgbench waits for PREPARE with all clients of the thread, one of which may have the session that it waits for.
	my $load = IPC::Run::start([ 'pgbench', '-n', '-M', $mode, '-c', 8, '-j', 8, '-T', 600, '--max-tries=100', @files, pooled('postgres') ], '<', \'', '>&', \$output, IPC::Run::timeout(700));
	my $sessions = q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'tenant'};
	$node->poll_query_until('postgres', $sessions, '2') or die 'no two sessions';
	foreach my $sql (q{SELECT index_table.create('customers', 'phone, id', name => 'new')}, q{CREATE INDEX new_global ON customers USING global (phone)}, q{CALL index_table.rebuild('customers_by_town')},
		q{SELECT index_table.set_maintenance('customers_by_phone', 'deferred')}, q{CALL index_table.drain()}, q{SELECT index_table.set_maintenance('customers_by_phone', 'immediate')},
		'REINDEX INDEX by_any_mail', 'VACUUM FULL customers_1', 'DROP INDEX new_global', 'DROP TABLE new', 'ALTER TABLE customers ADD extra int', 'ALTER TABLE customers DROP extra')
	{
		beside_writers_ok($node, $sql, "$mode: $sql");
	}
	is($node->safe_psql('postgres', $sessions), 2, "$mode: two sessions of the server for eight clients");
	sleep(1);
	$load->signal('TERM');
	eval { $load->finish };
	unlike($output, qr/ERROR|abort|FATAL/, "$mode: no client fails") or diag($output);
	check_work($node);
}

# By SQL, in one transaction.
is(ask('one', q{BEGIN; PREPARE p(text) AS SELECT count(*) FROM customers WHERE email = $1; EXECUTE p('mail900000'); EXECUTE p('mail900000'); EXECUTE p('mail900000'); EXECUTE p('mail900000'); EXECUTE p('mail900000'); EXECUTE p('mail900000'); DEALLOCATE p; COMMIT}),
	"0\n0\n0\n0\n0\n0", 'PREPARE');

# --- What others leave behind ---------------------------------------------------------------

my @queries = (q{SELECT id, town FROM customers WHERE email = 'mail77'}, q{SELECT count(*), sum(id) FROM customers WHERE lower(town) = 'town 7'}, q{SELECT count(*) FROM customers WHERE tags @> '{t1}'}, q{SELECT count(*) FROM customers WHERE phone > '5' AND active});
my @right = map { $node->safe_psql('postgres', "SET index_table.enable_scan = off; $_") } @queries;
my @left = ('SET index_table.enable_scan = force', 'SET index_table.enable_scan = off', q{SET index_table.on_lag = 'warn'}, 'SET index_table.max_lag_changes = 1', 'SET index_table.drain_batch = 1',
	'SET plan_cache_mode = force_generic_plan', 'SET enable_indexscan = off', 'SET default_transaction_isolation = serializable', 'SET constraint_exclusion = on',
	'SET enable_partition_pruning = off', q{SET datestyle = 'German'}, q{SET timezone = 'Asia/Kolkata'}, 'SET extra_float_digits = -15', 'SET array_nulls = off',
	'SET standard_conforming_strings = off', 'SET work_mem = 64', 'SET jit = on', 'SET session_replication_role = origin', q{SET application_name = 'somebody'},
	'CREATE TEMP TABLE customers_by_email (email text)', 'CREATE DOMAIN pg_temp.text AS varchar(1)', 'SET index_table.read_consistency = eventual');
foreach my $i (0 .. $#left, 'all')
{
	my @settings = $i eq 'all' ? @left : $left[$i];
	ask('one', @settings);
	my @got = map { ask('one', $_) } @queries;
	is_deeply(\@got, \@right, "left behind: @settings");
	is(ask('one', q{UPDATE public.customers SET town = town, phone = '9' || phone WHERE id BETWEEN 100 AND 120; UPDATE public.customers SET phone = substr(phone, 2) WHERE id BETWEEN 100 AND 120}), '', "writes: @settings");
	ask('one', 'DISCARD ALL');
}
# Names mean what they mean to whoever asks: by schema, a definition does not depend on it.
ask('one', 'SET search_path = evil, public');
# Since 18 servers report it, and a pooler may give each client his own back.
my $path = ask('one', 'SHOW search_path');
is(ask('one', q{SELECT count(*) FROM customers}), $path =~ /evil/ ? 0 : 6000, "another table of that name (search_path: $path)");
is(ask('one', q{UPDATE public.customers SET town = 'Town 3' WHERE email = 'mail78'; SELECT id FROM public.customers WHERE email = 'mail78' AND lower(town) = 'town 3'}), 78, 'a search_path that was left');
ask('one', 'SET ROLE nobody');
like(ask('one', q{SELECT id FROM public.customers WHERE email = 'mail78'}), qr/permission denied for table customers/, 'a role that was left');
like(ask('one', q{SELECT * FROM index_table.lookup('public.customers_by_email', 'mail78')}), qr/permission denied/, 'which reads nothing by hand');
ask('one', 'DISCARD ALL');
check_work($node);

# --- Transactions that are broken off, and prepared ------------------------------------------

foreach my $end ('psql', 'backend')
{
	my $session = IPC::Run::start([ 'psql', '-XAtq', '-d', pooled('one') ], '<', \(my $input = ''), '>&', \(my $output = ''), IPC::Run::timeout(120));
	$input .= "BEGIN; UPDATE customers SET email = 'broken' || id, town = 'broken' WHERE id BETWEEN 200 AND 260; SELECT 'done';\n";
	$session->pump until $output =~ /done|ERROR/;
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'tenant' AND state = 'idle in transaction'}) if $end eq 'backend';
	$session->kill_kill;
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'tenant' AND state LIKE 'idle in transaction%'});
	is(ask('one', q{SELECT count(*) FROM customers WHERE town = 'broken'; SELECT id FROM customers WHERE email = 'mail222'}), "0\n222", "$end dies in mid-transaction: nothing is left");
}
ask('one', q{BEGIN; UPDATE customers SET email = 'prepared' || id, phone = 'prepared' WHERE id BETWEEN 300 AND 330; PREPARE TRANSACTION 'p'});
is(ask('one', q{SELECT count(*) FROM customers WHERE phone = 'prepared'}), 0, 'a prepared transaction');
is(ask('postgres', q{COMMIT PREPARED 'p'}), '', 'is committed by another session');
is(ask('one', q{SELECT count(*) FROM customers WHERE phone = 'prepared'; SELECT id FROM customers WHERE email = 'prepared303'}), "31\n303", 'and seen');
check_work($node);
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'nothing crashed');
$node->stop;
done_testing();
