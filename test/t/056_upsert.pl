# Upserts by the key of a unique index table: clients that count under few keys, while rows are
# deleted and move to other partitions. No count is lost or made twice, no key is there twice, and
# nothing fails that would not fail on a table that is not partitioned.
#
#   UPSERT_SECONDS         of each round (4)
#   UPSERT_CLIENTS         (8)
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
my $node = new_node('upsert', conf => "session_preload_libraries = index_table\nfsync = off\ndeadlock_timeout = 50ms\n");

# The functions are those of the README.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE TABLE counters (id bigint PRIMARY KEY, email text, n bigint NOT NULL) PARTITION BY HASH (id);
CREATE TABLE counters_0 PARTITION OF counters FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE counters_1 (n bigint NOT NULL, gone int, email text, id bigint NOT NULL);
ALTER TABLE counters_1 DROP COLUMN gone;
ALTER TABLE counters ATTACH PARTITION counters_1 FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE counters_2 PARTITION OF counters FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE counters_3 PARTITION OF counters FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE SEQUENCE ids;
CREATE TABLE calls (n bigint);
CREATE TABLE deleted (n bigint);
SELECT index_table.create('counters', 'email', is_unique => true);
CREATE FUNCTION count_one(wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        UPDATE counters SET n = n + 1 WHERE email = wanted;
        EXIT WHEN FOUND;
        INSERT INTO counters VALUES (nextval('ids'), wanted, 1) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
END $$;
CREATE FUNCTION count_one_catching(wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        UPDATE counters SET n = n + 1 WHERE email = wanted;
        EXIT WHEN FOUND;
        BEGIN
            INSERT INTO counters VALUES (nextval('ids'), wanted, 1);
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            NULL; -- somebody was quicker: there is a row to update now
        END;
    END LOOP;
END $$;
});
my @tables = (describe(name => 'counters_by_email', base => 'counters', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1));
$node->safe_psql('postgres', oracle_sql(@tables));

# Every script writes down in its own transaction what it has counted, or taken away.
my %scripts = (
	count => q{
\set i random(1, 10)
BEGIN;
SELECT count_one('user' || :i);
INSERT INTO calls VALUES (1);
COMMIT;
},
	catch => q{
\set i random(1, 10)
BEGIN;
SELECT count_one_catching('user' || :i);
INSERT INTO calls VALUES (1);
COMMIT;
},
	several => q{
\set i random(1, 6)
WITH i AS (INSERT INTO counters SELECT nextval('ids'), 'user' || :i + s, 1 FROM generate_series(0, 4) s ON CONFLICT DO NOTHING RETURNING n)
INSERT INTO calls SELECT n FROM i;
},
	delete => q{
\set i random(1, 10)
WITH d AS (DELETE FROM counters WHERE email = 'user' || :i RETURNING n)
INSERT INTO deleted SELECT n FROM d;
},
	move => q{
\set i random(1, 10)
UPDATE counters SET id = nextval('ids') WHERE email = 'user' || :i;
});
append_to_file("$directory/$_.sql", $scripts{$_}) for sort keys %scripts;

# What fails: under READ COMMITTED nothing, as long as no row moves; a row that has moved to another partition is a
# serialization failure at every level, as without index tables, and tried again by pgbench.
sub run_clients
{
	my ($title, $level, $tries, $options, @scripts) = @_;
	$node->safe_psql('postgres', 'TRUNCATE counters, calls, deleted');
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$level $options";
	my ($out, $err) = run_command([ 'pgbench', '-n', "--max-tries=$tries", '-c', $clients, '-j', '2', '-T', $seconds,
		(map { ('-f', "$directory/$_") } @scripts), $node->connstr('postgres') ]);
	my ($count) = $out =~ /transactions actually processed: (\d+)/;
	cmp_ok($count // 0, '>', $seconds, "$title: transactions");
	is($err =~ /((?:ERROR|error|abort)[^\n]*)/ ? $1 : '', '', "$title: no client failed");
	my ($failed) = $out =~ /number of failed transactions: (\d+)/;
	# Those that the end of the time meets are not tried again.
	cmp_ok($failed // 0, '<=', $tries == 1 ? 0 : $clients, "$title: no transaction failed");
	is($node->safe_psql('postgres', 'SELECT coalesce(sum(n), 0) FROM (SELECT n FROM counters UNION ALL SELECT n FROM deleted) c'),
		$node->safe_psql('postgres', 'SELECT count(*) FROM calls'), "$title: every call has counted, once");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM counters GROUP BY email HAVING count(*) > 1) t'), 0, "$title: no key is there twice");
	oracle_ok($node, 'postgres', "$title: in step");
}

my $committed = 'read\\ committed';
my $repeatable = 'repeatable\\ read';
my $unloaded = '-c session_preload_libraries=';
run_clients('counting', $committed, 1, '', 'count.sql@8', 'delete.sql@2');
run_clients('catching, without the library', $committed, 1, $unloaded, 'catch.sql@8', 'delete.sql@2');
run_clients('all at once', $committed, 1000, '', 'count.sql@6', 'catch.sql@3', 'several.sql@2', 'delete.sql@2', 'move.sql@2');
run_clients('repeatable read', $repeatable, 1000, '', 'count.sql@8', 'several.sql@1', 'delete.sql@2', 'move.sql@2');
run_clients('serializable', 'serializable', 1000, '', 'count.sql@8', 'several.sql@1', 'delete.sql@2', 'move.sql@2');

check_storage($node, 'postgres');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
