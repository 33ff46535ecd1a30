# Clients that increment, move and lock few rows, found by their e-mail address, while partitions come
# and go: no increment is lost or made twice.
#
#   HOT_SECONDS         of each isolation level (8)
#   HOT_CLIENTS         (8)
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = how_many('HOT_SECONDS', 8);
my $clients = $ENV{HOT_CLIENTS} // 8;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('hot', conf => "session_preload_libraries = index_table\nindex_table.enable_scan = force\nfsync = off\ndeadlock_timeout = 50ms\n");

# Partitions of two layouts; those from 1000 on come and go.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE counters (id int PRIMARY KEY, email text, n bigint NOT NULL DEFAULT 0, town text) PARTITION BY RANGE (id);
CREATE TABLE counters_0 PARTITION OF counters FOR VALUES FROM (0) TO (100);
CREATE TABLE counters_1 (town text, gone int, n bigint NOT NULL DEFAULT 0, email text, id int NOT NULL);
ALTER TABLE counters_1 DROP COLUMN gone;
ALTER TABLE counters ATTACH PARTITION counters_1 FOR VALUES FROM (100) TO (200);
CREATE TABLE counters_2 PARTITION OF counters FOR VALUES FROM (200) TO (300) PARTITION BY HASH (id);
CREATE TABLE counters_2_0 PARTITION OF counters_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE counters_2_1 PARTITION OF counters_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE counters_9 (LIKE counters INCLUDING ALL);
CREATE TABLE done (email text, n bigint);
CREATE TABLE trouble (what text);
INSERT INTO counters SELECT 30 * (i / 3) + i, 'user' || i, 0, 'Town ' || i % 3 FROM generate_series(0, 29) i WHERE i % 3 = 0;
SELECT index_table.create('counters', 'email', is_unique => true);
SELECT index_table.create('counters', 'town', strategy => 'denormalized');
});
my @tables = (
	describe(name => 'counters_by_email', base => 'counters', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'counters_by_town', base => 'counters', key => ['b.town'], copies => [ 'id', 'email', 'n' ], identity => 1));
$node->safe_psql('postgres', oracle_sql(@tables));
my $emails = $node->safe_psql('postgres', 'SELECT count(*) FROM counters');

# Every script writes down in its own transaction what it has added.
my %scripts = (
	increment => q{
\set i 3 * random(0, 9)
WITH u AS (UPDATE counters SET n = n + 1 WHERE email = 'user' || :i RETURNING email)
INSERT INTO done SELECT email, 1 FROM u;
},
	lock => q{
\set i 3 * random(0, 9)
BEGIN;
SELECT id AS id FROM counters WHERE email = 'user' || :i FOR UPDATE \gset
UPDATE counters SET n = n + 2 WHERE id = :id;
INSERT INTO done VALUES ('user' || :i, 2);
COMMIT;
},
	move => q{
\set i 3 * random(0, 9)
\set place 30 * random(0, 9) + :i
WITH u AS (UPDATE counters SET n = n + 1, id = :place WHERE email = 'user' || :i RETURNING email)
INSERT INTO done SELECT email, 1 FROM u;
},
	merge => q{
\set i 3 * random(0, 9)
BEGIN;
MERGE INTO counters USING (VALUES ('user' || :i)) AS s (email) ON counters.email = s.email WHEN MATCHED THEN UPDATE SET n = n + 3;
INSERT INTO done VALUES ('user' || :i, 3);
COMMIT;
},
	several => q{
\set i random(0, 2)
WITH u AS (UPDATE counters SET n = n + 1, town = 'Town ' || (:i + 1) % 3 WHERE town = 'Town ' || :i RETURNING email)
INSERT INTO done SELECT email, 1 FROM u;
});
my @files;
foreach my $name (sort keys %scripts)
{
	append_to_file("$directory/$name.sql", $scripts{$name});
	push @files, '-f', "$directory/$name.sql" . ($name eq 'increment' ? '@6' : $name eq 'lock' ? '@3' : '');
}

# Partitions beside the hot rows: attached with rows, truncated, detached.
append_to_file("$directory/ddl.sql", q{
BEGIN;
SET LOCAL lock_timeout = '2s';
TRUNCATE counters_9;
INSERT INTO counters_9 VALUES (1000, 'cold ' || :client_id, 1, 'Town 9');
ALTER TABLE counters ATTACH PARTITION counters_9 FOR VALUES FROM (1000) TO (2000);
COMMIT;
UPDATE counters SET n = n + 1 WHERE town = 'Town 9';
TRUNCATE counters_9;
ALTER TABLE counters DETACH PARTITION counters_9;
\sleep 20 ms
});

# What may fail under each level, to be tried again by pgbench: deadlocks, serialization. A row that has moved to another
# partition is a serialization failure in READ COMMITTED too, as without index tables.
foreach my $level ('read committed', 'repeatable read', 'serializable')
{
	my @common = ('-n', '--max-tries=1000');
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . $level =~ s/ /\\ /r;
	my $ddl = IPC::Run::start([ 'pgbench', @common, '-c', '1', '-T', $seconds, '-f', "$directory/ddl.sql", $node->connstr('postgres') ], '>', "$directory/ddl.out", '2>', "$directory/ddl.err"); # not pipes, which nobody reads meanwhile
	my ($out, $err) = run_command([ 'pgbench', @common, '-c', $clients, '-j', '2', '-T', $seconds, @files, $node->connstr('postgres') ]);
	$ddl->finish;
	my ($count) = $out =~ /transactions actually processed: (\d+)/;
	cmp_ok($count // 0, '>', $seconds, "$level: transactions");
	note $err if $err =~ /ERROR|abort/;
	is($err =~ /((?:ERROR|error|abort)[^\n]*)/ ? $1 : '', '', "$level: no client failed");
	note substr(slurp_file("$directory/ddl.err"), 0, 2000);
	cmp_ok(slurp_file("$directory/ddl.out") =~ /transactions actually processed: (\d+)/ ? $1 : 0, '>', 0, "$level: partitions came and went");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM counters WHERE id < 1000'), $emails, "$level: no row is lost");
	is( $node->safe_psql('postgres', q{
		SELECT email, n, added FROM (SELECT email, n FROM counters WHERE id < 1000) c
		  FULL JOIN (SELECT email, sum(n) AS added FROM done GROUP BY email) d USING (email) WHERE n IS DISTINCT FROM COALESCE(added, 0)}),
		'', "$level: every increment is there, once");
	$node->safe_psql('postgres', 'ALTER TABLE counters DETACH PARTITION counters_9') if $node->safe_psql('postgres', "SELECT relispartition FROM pg_class WHERE relname = 'counters_9'") eq 't';
	oracle_ok($node, 'postgres', "$level: in step");
}
like($node->safe_psql('postgres', "EXPLAIN UPDATE counters SET n = n + 1 WHERE email = 'user3'"), qr/Index Table Row Switch/, 'the rows were found through the index table');
check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
