# Upserts by the key of a unique index table over local and foreign partitions: clients that count under few keys, while rows
# are deleted. The race for a key is decided by its entry: no key is there twice, no count is lost. What others have changed on
# a shard since this transaction's snapshot there is a serialization failure at every level, and tried again.
#
#   UPSERT_SECONDS   of each round (4)
#   UPSERT_CLIENTS   (8)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = how_many('UPSERT_SECONDS', 4);
my $clients = $ENV{UPSERT_CLIENTS} // 8;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('upsert_shards', conf => "session_preload_libraries = index_table\nfsync = off\ndeadlock_timeout = 50ms\n");

$node->safe_psql('postgres', 'CREATE DATABASE shard');
$node->safe_psql('shard', q{
CREATE TABLE counters_1 (id bigint PRIMARY KEY, email text, n bigint NOT NULL);
CREATE TABLE counters_2 (n bigint NOT NULL, email text, id bigint PRIMARY KEY);
});
$node->safe_psql('postgres', "CREATE EXTENSION index_table; CREATE EXTENSION postgres_fdw;\n" . server_sql('shard', $node, database => 'shard') . q{
CREATE TABLE counters (id bigint NOT NULL, email text, n bigint NOT NULL) PARTITION BY HASH (id);
CREATE TABLE counters_0 PARTITION OF counters (PRIMARY KEY (id)) FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE FOREIGN TABLE counters_1 PARTITION OF counters FOR VALUES WITH (MODULUS 3, REMAINDER 1) SERVER shard;
CREATE FOREIGN TABLE counters_2 (n bigint NOT NULL, gone int, email text, id bigint NOT NULL) SERVER shard;
ALTER FOREIGN TABLE counters_2 DROP COLUMN gone;
ALTER TABLE counters ATTACH PARTITION counters_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE SEQUENCE ids;
CREATE TABLE calls (n bigint);
CREATE TABLE deleted (n bigint);
SELECT index_table.create('counters', 'email', is_unique => true, identity => 'id');
});
my @tables = (describe(name => 'counters_by_email', base => 'counters', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1));
$node->safe_psql('postgres', oracle_sql(@tables));

# Every script writes down in its own transaction what it has counted, or taken away.
my %scripts = (
	count => q{
\set i random(1, 20)
BEGIN;
INSERT INTO counters VALUES (nextval('ids'), 'user' || :i, 1) ON CONFLICT (email) DO UPDATE SET n = counters.n + 1;
INSERT INTO calls VALUES (1);
COMMIT;
},
	several => q{
\set i random(1, 15)
WITH i AS (INSERT INTO counters AS c SELECT nextval('ids'), 'user' || :i + s, 1 FROM generate_series(0, 4) s ON CONFLICT (email) DO UPDATE SET n = c.n + 1 RETURNING 1)
INSERT INTO calls SELECT 1 FROM i;
},
	nothing => q{
\set i random(1, 20)
WITH i AS (INSERT INTO counters VALUES (nextval('ids'), 'user' || :i, 1) ON CONFLICT (email) DO NOTHING RETURNING n)
INSERT INTO calls SELECT n FROM i;
},
	delete => q{
\set i random(1, 20)
WITH d AS (DELETE FROM counters WHERE email = 'user' || :i RETURNING n)
INSERT INTO deleted SELECT n FROM d;
});
append_to_file("$directory/$_.sql", $scripts{$_}) for sort keys %scripts;

foreach my $level ('read\\ committed', 'repeatable\\ read')
{
	$node->safe_psql('postgres', 'DELETE FROM counters; TRUNCATE calls, deleted');
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$level";
	my ($out, $err) = run_command([ 'pgbench', '-n', '--max-tries=1000', '-c', $clients, '-j', '2', '-T', $seconds,
		(map { ('-f', "$directory/$_") } 'count.sql@8', 'several.sql@2', 'nothing.sql@2', 'delete.sql@2'), $node->connstr('postgres') ]);
	my ($count) = $out =~ /transactions actually processed: (\d+)/;
	cmp_ok($count // 0, '>', $seconds, "$level: transactions");
	is($err =~ /((?:ERROR|error|abort)[^\n]*)/ ? $1 : '', '', "$level: no client failed");
	is($node->safe_psql('postgres', 'SELECT coalesce(sum(n), 0) FROM (SELECT n FROM counters UNION ALL SELECT n FROM deleted) c'),
		$node->safe_psql('postgres', 'SELECT count(*) FROM calls'), "$level: every call has counted, once");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM counters GROUP BY email HAVING count(*) > 1) t'), 0, "$level: no key is there twice");
	isnt($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM counters_1) + (SELECT count(*) FROM counters_2)'), 0, "$level: rows are on the shard");
	oracle_ok($node, 'postgres', "$level: in step");
}

check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
