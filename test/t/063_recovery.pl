# Recovery to a moment in the middle of a load: index tables and global indexes are those of that moment.
#
#   RECOVERY_SEED, RECOVERY_MOMENTS (2)
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
use Time::HiRes 'sleep';

my $seed = $ENV{RECOVERY_SEED} // int(rand(1 << 30));
my $moments = how_many('RECOVERY_MOMENTS', 2);
note("RECOVERY_SEED=$seed");
srand($seed);

my $node = new_node('source', has_archiving => 1, allows_streaming => 1, conf => "shared_preload_libraries = index_table\nindex_table.drain_naptime = 1\nmax_worker_processes = 20\nfsync = off\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);
prepare_work($node);
$node->backup('backup');

my $id = "\\set id random(1, 6000)\n\\set n random(0, 999)\n";
my $load = start_load($node, 3,
	[ 4, "${id}UPDATE customers SET town = 'Town ' || :n % 30, phone = :n::text, active = :n % 2 = 0 WHERE id = :id" ],
	[ 2, "${id}BEGIN;\nDELETE FROM customers WHERE id = :id;\nINSERT INTO customers VALUES (:id, 'mail' || :id, 'Town ' || :n, ARRAY['t' || :n % 9], :n::text, true) ON CONFLICT DO NOTHING;\nCOMMIT" ],
	[ 1, "${id}BEGIN;\nUPDATE customers SET id = id + 100000 WHERE id = :id;\nUPDATE customers SET id = id - 100000 WHERE id = :id + 100000;\nROLLBACK" ],
	[ 1, "${id}INSERT INTO customers VALUES (:id, 'mail' || :id) ON CONFLICT (email) DO UPDATE SET phone = 'again' || :n" ]);
my @targets;
my @between = (
	q{CREATE INDEX late ON customers USING global (phone, id)}, q{VACUUM customers}, q{SELECT index_table.create('customers', 'phone, id', name => 'new')}, q{VACUUM FULL customers_1},
	q{TRUNCATE plain}, q{CALL index_table.rebuild('customers_by_town')}, q{REINDEX INDEX by_any_town}, q{DROP TABLE new}, q{SELECT index_table.vacuum()});
foreach my $i (0 .. 3 * $moments - 1)
{
	sleep(0.2 + rand(0.6));
	# In the middle of what is being done, too.
	push @targets, $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->psql('postgres', "SET lock_timeout = '5s'; " . $between[ $i % @between ]);
}
stop_load($load);
my $last = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$node->poll_query_until('postgres', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die 'WAL is not archived';

foreach my $number (1 .. $moments)
{
	my $target = splice(@targets, int(rand(@targets)), 1);
	my $restored = QuickNode->new("restored_$number");
	$restored->init_from_backup($node, 'backup', has_restoring => 1);
	# Which is no standby: it stops there and goes on from there, beside what others have archived since.
	$restored->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_timeline = current\nrecovery_target_lsn = '$target'\nrecovery_target_action = promote\nautovacuum = off\n");
	$restored->start;
	$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'it goes on recovering';
	note("to $target");
	check_work($restored);
	$restored->safe_psql('postgres', q{UPDATE customers SET town = 'after', active = NOT active WHERE id % 10 = 3; INSERT INTO customers VALUES (900000, 'after it')});
	is(substr(($restored->psql('postgres', q{\set VERBOSITY sqlstate
INSERT INTO customers VALUES (900001, 'after it')}))[2] =~ s/.*ERROR:\s+//r, 0, 5), '23505', 'keys are unique');
	$restored->safe_psql('postgres', 'CALL index_table.drain()');
	oracle_ok($restored, 'postgres', 'index tables after changes');
	check_global($restored, 'postgres', 'global indexes after changes');
	$restored->stop;
}
diag("recovered to $moments moments");
$node->stop;
done_testing();
