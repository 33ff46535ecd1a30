# pgBackRest: a full and an incremental backup beside a load, restored as a whole, over what is left of a damaged
# directory (--delta), and to a named moment. Index tables and global indexes are those of their base tables.
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

my ($program) = grep { -x } map { "$_/pgbackrest" } split(/:/, $ENV{PATH}), '/usr/bin';
plan skip_all => 'pgBackRest is not installed' unless $program;

my $directory = PostgreSQL::Test::Utils::tempdir();
mkdir "$directory/$_" or die $! foreach qw(repository log lock spool);
my $stanza = "$program --config=$directory/pgbackrest.conf --stanza=main";

# With checksums pgBackRest looks at every page that it reads.
my $node = new_node('source', extra => [ '--encoding=UTF8', '--locale=C', '--data-checksums' ], allows_streaming => 1,
	conf => "archive_mode = on\narchive_command = '$stanza archive-push %p'\nshared_preload_libraries = index_table\nindex_table.drain_naptime = 1\nmax_worker_processes = 20\nfsync = off\n");
plan skip_all => 'no amcheck' unless has_amcheck($node);

sub write_conf
{
	my ($data) = @_;
	unlink "$directory/pgbackrest.conf";
	append_to_file("$directory/pgbackrest.conf", join("\n", '[global]', "repo1-path=$directory/repository", 'repo1-retention-full=2', "log-path=$directory/log", "lock-path=$directory/lock",
			"spool-path=$directory/spool", 'start-fast=y', 'compress-level=1', 'log-level-console=info', 'log-level-file=off', '[main]', "pg1-path=$data", 'pg1-port=' . $node->port,
			'pg1-socket-path=' . $node->host, 'pg1-user=' . ($ENV{PGUSER} // getpwuid($>)), ''));
	return;
}

# Runs it; it must succeed, and warn of nothing. Returns what it says.
sub backrest_ok
{
	my ($label, @arguments) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $output = '';
	my $is_ok = IPC::Run::run([ split(/ /, $stanza), @arguments ], '<', \'', '>&', \$output, IPC::Run::timeout(300));
	ok($is_ok, $label) or diag($output);
	# Restoring over what is there says that it does; a backup that has no other to build on says that, too.
	unlike($output, qr/WARN: (?!no prior backup|.*unable to open log|.*--delta)|ERROR|checksum error/, "$label: without complaints") or diag($output);
	return $output;
}

sub marked { return (shift)->safe_psql('postgres', q{SELECT string_agg(name, ' ' ORDER BY name) FROM marks}) }

prepare_work($node);
$node->safe_psql('postgres', 'CREATE TABLE marks (name text)');
write_conf($node->data_dir);
my $known = '';
IPC::Run::run([ split(/ /, $stanza), 'stanza-create' ], '<', \'', '>&', \$known, IPC::Run::timeout(300));
plan skip_all => 'this pgBackRest does not know this PostgreSQL' if $known =~ /VersionNotSupportedError/;
backrest_ok('stanza', 'stanza-create');
backrest_ok('check', 'check');

# --- Backups beside a load ----------------------------------------------------------------

my $id = "\\set id random(1, 6000)\n\\set n random(0, 999)\n";
my $load = start_load($node, 2,
	[ 4, "${id}UPDATE customers SET town = 'Town ' || :n % 30, phone = :n::text, active = :n % 2 = 0 WHERE id = :id" ],
	[ 2, "${id}BEGIN;\nDELETE FROM customers WHERE id = :id;\nINSERT INTO customers VALUES (:id, 'mail' || :id, 'Town ' || :n, ARRAY['t' || :n % 9], :n::text, true) ON CONFLICT DO NOTHING;\nCOMMIT" ],
	[ 1, "${id}INSERT INTO customers VALUES (:id, 'mail' || :id) ON CONFLICT (email) DO UPDATE SET phone = 'again' || :n" ]);
backrest_ok('full backup', '--type=full', 'backup');
$node->safe_psql('postgres', q{INSERT INTO marks VALUES ('after full')});
beside_writers_ok($node, $_) foreach q{SELECT index_table.create('customers', 'phone, id', name => 'late')}, 'CREATE INDEX late_global ON customers USING global (phone, id)',
  'VACUUM customers', q{CALL index_table.rebuild('customers_by_town')};
backrest_ok('incremental backup', '--type=incr', 'backup');
$node->safe_psql('postgres', q{INSERT INTO marks VALUES ('before the moment')});
beside_writers_ok($node, $_) foreach 'DROP TABLE late', 'VACUUM FULL customers_1';
sleep(0.5);
$node->safe_psql('postgres', q{SELECT pg_create_restore_point('moment')});
$node->safe_psql('postgres', q{INSERT INTO marks VALUES ('after the moment')});
beside_writers_ok($node, $_) foreach 'REINDEX INDEX by_any_town', 'TRUNCATE customers_2';
sleep(0.5);
stop_load($load);
unlike($load->{out}, qr/ERROR|abort/, 'the load has run');
check_work($node);
my $all = marked($node);
$node->stop; # which archives the rest
like(backrest_ok('info', 'info'), qr/incr backup/, 'there are two backups');

# --- Restores -----------------------------------------------------------------------------

my $restored = QuickNode->new('restored');
mkdir $restored->basedir;
mkdir $restored->data_dir or die $!;
chmod 0700, $restored->data_dir;

# Starts what has been restored; it must be right, and go on being it. Stops it.
sub restored_ok
{
	my ($label, $marks) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$restored->append_conf('postgresql.conf', "\nport = " . $restored->port . "\narchive_mode = off\nautovacuum = off\n");
	$restored->start;
	$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'it goes on recovering';
	note($label);
	is(marked($restored), $marks, "$label: the rows of that moment");
	check_work($restored);
	$restored->safe_psql('postgres', q{UPDATE customers SET town = 'after', active = NOT active WHERE id % 10 = 3; INSERT INTO customers VALUES (900000, 'after it')});
	like(sqlstate($restored, 'postgres', q{INSERT INTO customers VALUES (900001, 'after it')}), qr/^23505/, "$label: keys are unique");
	$restored->safe_psql('postgres', 'CALL index_table.drain()');
	oracle_ok($restored, 'postgres', "$label: index tables after changes");
	check_global($restored, 'postgres', "$label: global indexes after changes");
	return;
}

write_conf($restored->data_dir);
backrest_ok('restore', 'restore');
restored_ok('restored', $all);

# Files of an index table and of a global index are lost, those of another are damaged: only these are fetched.
my @lost = split(/\n/, $restored->safe_psql('postgres', q{SELECT pg_relation_filepath('customers_by_town'), pg_relation_filepath('customers_by_email')
	UNION ALL SELECT pg_relation_filepath(c.oid), pg_relation_filepath('customers_0') FROM pg_class c WHERE c.relname = 'index_table_global_' || 'by_any_mail'::regclass::oid || '_tree'}));
is(scalar(@lost), 2, 'files of index tables, of a global index and of a partition');
$restored->stop;
foreach my $pair (@lost)
{
	my ($lost, $damaged) = map { $restored->data_dir . "/$_" } split(/\|/, $pair);
	unlink $lost or die "$lost: $!";
	open(my $file, '+<', $damaged) or die "$damaged: $!";
	print $file 'damaged' x 1000;
	close($file);
}
backrest_ok('restore, delta', '--delta', 'restore');
restored_ok('restored over what was left', $all);
$restored->stop;

backrest_ok('restore to a moment', '--delta', '--type=name', '--target=moment', '--target-action=promote', 'restore');
restored_ok('restored to a moment', 'after full before the moment');
is($restored->safe_psql('postgres', q{SELECT to_regclass('late') IS NULL, to_regclass('late_global') IS NOT NULL}), 't|t', 'and its tables');
$restored->stop;
done_testing();
