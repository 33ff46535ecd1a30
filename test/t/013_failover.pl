# A streaming standby reads through index tables of every kind and global indexes while the primary is
# written, changes partitions, builds and prepares transactions; and is promoted when the primary dies at
# some moment. What it has then is exact, queries find the same with index tables and without, prepared
# transactions end either way, and it is the next primary.
#
#   FAILOVER_SEED     repeats a run (what runs side by side repeats only roughly)
#   FAILOVER_ROUNDS   (2)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use WorkLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $seed = $ENV{FAILOVER_SEED} // int(rand(1 << 30));
my $rounds = how_many('FAILOVER_ROUNDS', 2);
note("FAILOVER_SEED=$seed FAILOVER_ROUNDS=$rounds");
diag("FAILOVER_SEED=$seed") if $rounds > 3;
srand($seed);

my $primary = new_node('primary_0', allows_streaming => 1, conf => q{
shared_preload_libraries = index_table
fsync = off
shared_buffers = 32MB
deadlock_timeout = 50ms
max_worker_processes = 20
max_prepared_transactions = 100
index_table.drain_naptime = 1
index_table.vacuum_naptime = 2s
max_standby_streaming_delay = 300ms
hot_standby_feedback = off
log_min_messages = warning
log_line_prefix = '%m [%p] %e '
});
plan skip_all => 'no amcheck' unless has_amcheck($primary);
prepare_load($primary);
my $traces = traces($primary);

# Of one snapshot: with index tables, and without.
my $events = '"Odd.Names"."Events"';
my @questions = (
	'SELECT * FROM customers WHERE email LIKE \'mail1%\'', 'SELECT * FROM customers WHERE lower(town) = \'town 3\'', 'SELECT * FROM customers WHERE phone < \'3\'',
	'SELECT id FROM customers WHERE tags @> \'{t1}\'', 'SELECT id, town FROM customers WHERE active', 'SELECT * FROM customers WHERE town = \'Town 4\'',
	qq{SELECT * FROM $events WHERE "Code" LIKE 'Code2%' AND kind <> 'b'}, 'SELECT * FROM plain WHERE v < 12');

sub reader_script
{
	my $sql = "SET client_min_messages = error;\n";
	foreach (1 .. 400)
	{
		my $question = 'SELECT coalesce(md5(string_agg(q::text, \' \' ORDER BY q::text)), \'none\') AS md5 FROM (' . pick(@questions) . ') AS q';
		$sql .= "\\set is_done f\n\\set is_wrong f\n\\set a_md5 x\n\\set b_md5 x\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSET LOCAL index_table.enable_scan = force;\n$question \\gset a_\nSET LOCAL index_table.enable_scan = off;\n$question \\gset b_\n"
		  . "SELECT true AS is_done, :'a_md5' IS DISTINCT FROM :'b_md5' AS is_wrong \\gset\n\\if :is_wrong\n\\warn WRONG $question\n\\endif\nCOMMIT;\n\\if :is_done\n\\warn read\n\\endif\n";
	}
	return $sql;
}

my $stays = qr/^(?!.*(?:TACH|partition is|partition comes|TRUNCATE|ALTER TYPE))/;
my %count = (failovers => 0, answers => 0);
foreach my $round (1 .. $rounds)
{
	$primary->backup("backup_$round");
	my $standby = QuickNode->new("primary_$round");
	$standby->init_from_backup($primary, "backup_$round", has_streaming => 1);
	$standby->start;
	# Where partitions come and go, a snapshot's queries differ without index tables, too.
	my $moves_partitions = $round % 2 == 0;
	my @clients = ((map { start_client($primary, 'writer', writer_script()) } 1, 2), start_client($primary, 'operator_1', operator_script(1, $moves_partitions ? undef : $stays)), start_client($primary, 'preparer', preparer_script($round)));
	my @readers = map { start_client($standby, 'reader', reader_script()) } 1, 2;
	sleep(0.8 + rand(2.5));
	my $how = pick('immediate', 'immediate', 'fast', 'promoted beside it');
	my $label = "round $round, $how";
	$primary->stop($how) if $how !~ /beside/;
	my @wrong = map { stop_client($_) } @clients;
	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
	$count{failovers}++;
	foreach my $reader (@readers)
	{
		# Recovery cancels queries, or waits for them.
		push @wrong, stop_client($reader);
		my $said = slurp_file($reader->{errors});
		$count{answers} += () = $said =~ /^read$/mg;
		push @wrong, $said =~ /^(WRONG .*)$/mg unless $moves_partitions;
	}
	is(join("\n", @wrong), '', "$label: nothing unexpected, and the standby's answers are right");
	$primary->stop('immediate') if $how =~ /beside/;
	exact_ok($standby, $label);
	compare_ok($standby, $label);
	foreach my $name (split /\n/, $standby->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts ORDER BY 1'))
	{
		my $fate = pick('COMMIT', 'ROLLBACK');
		done_ok($standby, "$fate PREPARED '$name'", "$label: $fate PREPARED '$name'");
		$count{"$fate PREPARED after promotion"}++;
	}
	exact_ok($standby, "$label, nothing is prepared");
	settle_ok($standby, $label);
	oracle_ok($standby, 'postgres', "$label: in step", 500);
	compare_ok($standby, "$label, settled");
	check_storage($standby, 'postgres', $label);
	check_global($standby, 'postgres', $label, exact => $round % 2);
	is(difference($traces, traces($standby)), '', "$label: nothing is left over");
	foreach my $server ($primary, $standby)
	{
		is(log_problems($server), '', "$label: nothing in the log of " . $server->name);
	}
	$primary->clean_node;
	$primary = $standby;
	last unless Test::More->builder->is_passing;
}
diag(join(', ', map { "$count{$_} $_" } sort keys %count));
cmp_ok($count{answers}, '>', $rounds, 'standbys have answered');
$primary->stop;
done_testing();
