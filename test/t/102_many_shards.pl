# 64 shards of 16 partitions each, 1,024 in all: a query by key opens what it needs and no more, a session keeps as many
# connections as it may, and goes on when it runs out of descriptors.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($shards, $parts) = (64, 16);
my $total = $shards * $parts;

# --- Servers --------------------------------------------------------------------------

# All shards are databases of one server.
my $server = new_node('shards', conf => "max_connections = 400\nfsync = off\n");
my $coordinator = new_node('coordinator', conf => "max_locks_per_transaction = 256\nsession_preload_libraries = index_table\n");
$server->safe_psql('postgres', 'CREATE DATABASE shard_0');
$server->safe_psql('shard_0', join ';', map { "CREATE TABLE people_$_ (id int PRIMARY KEY, email text, town text)" } 0 .. $parts - 1);
$server->safe_psql('postgres', "CREATE DATABASE shard_$_ TEMPLATE shard_0") foreach 1 .. $shards - 1;
my ($host, $port) = ($server->host, $server->port);
$coordinator->safe_psql('postgres', qq{
CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;
SELECT format('CREATE SERVER shard_%s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L, batch_size %L); CREATE USER MAPPING FOR CURRENT_USER SERVER shard_%s',
	i, '$host', '$port', 'shard_' || i, 100, i) FROM generate_series(0, $shards - 1) AS i \\gexec
CREATE TABLE people (id int NOT NULL, email text, town text) PARTITION BY HASH (id);
SELECT format('CREATE FOREIGN TABLE people_%s PARTITION OF people FOR VALUES WITH (MODULUS $total, REMAINDER %s) SERVER shard_%s OPTIONS (table_name %L)',
	i, i, i % $shards, 'people_' || i / $shards) FROM generate_series(0, $total - 1) AS i \\gexec
INSERT INTO people SELECT i, 'mail ' || i, 'Town ' || i % 9 FROM generate_series(1, 3000) AS i;
SELECT index_table.create('people', 'email', is_unique => true, identity => 'id');
ANALYZE people_by_email;});
$coordinator->safe_psql('postgres', oracle_sql(describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1)));

# Connections that have been closed end a moment later.
$server->safe_psql('postgres', q{
CREATE FUNCTION connections(expected int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE number int;
BEGIN
	FOR i IN 1 .. 200 LOOP
		PERFORM pg_stat_clear_snapshot();
		SELECT count(*) INTO number FROM pg_stat_activity WHERE datname LIKE 'shard\_%';
		EXIT WHEN number = expected;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RETURN 'open: ' || number;
END $$;});

# What a session of the coordinator prints; "\@5" says how many connections the shards have, after waiting for 5.
sub in_session
{
	my ($sql) = @_;
	$sql =~ s/\\\@(\d+)/\n\\! psql -XAtq -h $host -p $port -d postgres -c "SELECT connections($1)"\n/g;
	my (undef, $stdout, $stderr) = $coordinator->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);
	return join "\n", grep { $_ ne '' } $stdout, $stderr;
}

# --- Reading ---------------------------------------------------------------------------

my $one = "SELECT id, town FROM people WHERE email = 'mail 77';";
is(in_session("$one \\\@1"), "77|Town 5\nopen: 1", 'one key, one shard, one connection');
is(in_session("SET index_table.shard_access = fdw; $one \\\@1"), "77|Town 5\nopen: 1", 'through the wrapper, too');
is(in_session("$one $one $one \\\@1"), "77|Town 5\n77|Town 5\n77|Town 5\nopen: 1", 'it is used again');
my $locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation::regclass::text LIKE 'people%';";
is(in_session("BEGIN; $one $locks COMMIT;"), "77|Town 5\n4", 'locks: the table, the index table and its index, the partition');
is(in_session("BEGIN; EXPLAIN (COSTS OFF) $one $locks COMMIT;") =~ /\n(\d+)$/ && $1, '3', 'planning locks no partition');

# A row of each shard. Says nothing, or which is not found.
my $each = $coordinator->safe_psql('postgres', qq{
SET index_table.enable_scan = off;
SELECT format('SELECT id AS found FROM people WHERE email = %L AND town IS NOT NULL \\gset', min(email))
  FROM people GROUP BY substr(tableoid::regclass::text, 8)::int % $shards}) . "\n";
my $list = "SELECT count(*), sum(id) FROM people WHERE email IN (" . join(', ', map { "'mail $_'" } 1 .. 600) . ") AND town IS NOT NULL;";
foreach my $kept (0, 1, 5, $shards)
{
	my $set = "SET index_table.shard_connections = $kept;";
	is(in_session("$set $each \\\@$kept"), "open: $kept", "kept, of those of single keys: $kept");
	is(in_session("$set $list \\\@$kept $list \\\@$kept"), "600|180300\nopen: $kept\n600|180300\nopen: $kept", "of those of one statement: $kept");
}
is(in_session("$each SET index_table.shard_connections = 3; $one \\\@3 BEGIN; $list \\\@64 COMMIT; \\\@3"), "77|Town 5\nopen: 3\n600|180300\nopen: 64\nopen: 3", 'within a transaction those that it uses');

# Savepoints, errors and cancels leave nothing open that is not kept.
is(in_session("SET index_table.shard_connections = 2; BEGIN; SAVEPOINT a; $list ROLLBACK TO a; $list COMMIT; \\\@2"), "600|180300\n600|180300\nopen: 2", 'after a savepoint');
like(in_session("SET index_table.shard_connections = 2; SELECT 1 / (id - 77) FROM people WHERE email IN ('mail 76', 'mail 77', 'mail 78', 'mail 79') AND town IS NOT NULL;\n \\\@2"), qr/^open: [012]\n.*22012/s, 'after an error');

# --- Writing ---------------------------------------------------------------------------

is(in_session("INSERT INTO people VALUES (5000, 'new', 'New'); \\\@1"), 'open: 1', 'a row is written to one shard');
is(in_session("UPDATE people SET town = 'Newer' WHERE id = 5000; DELETE FROM people WHERE id = 77; \\\@2"), 'open: 2', 'two are changed');
like(in_session("INSERT INTO people VALUES (5001, 'new', 'Twice');"), qr/23505/, 'the key is unique over all');

# --- Out of descriptors ------------------------------------------------------------------

# A third of these may be connections.
$coordinator->append_conf('postgresql.conf', "max_files_per_process = 130\n");
$coordinator->restart;
my $output = in_session("SET index_table.shard_connections = 100; $each \\\@30");
like($output, qr/^open: \d+$/, 'one after the other: unused ones make room');
cmp_ok($output =~ /open: (\d+)$/ ? $1 : 999, '<', 50, 'not all are open');
like(in_session("$list SELECT 'alive';"), qr/alive.*08001.*too many open files/s, 'all at once: a clear error');
$coordinator->append_conf('postgresql.conf', "max_files_per_process = 1000\n");
$coordinator->restart;

oracle_ok($coordinator, 'postgres', 'in step', 0);
is(in_session("SET index_table.enable_scan = off; SELECT count(*), sum(id) FROM people WHERE email > ''; SET index_table.enable_scan = force; SELECT count(*), sum(id) FROM (SELECT * FROM people WHERE email > '' AND town IS NOT NULL ORDER BY email OFFSET 0) p;") =~ /^(.*)\n\1$/, 1, 'the same with and without');
check_storage($coordinator, 'postgres');
$_->stop foreach $coordinator, $server;
done_testing();
