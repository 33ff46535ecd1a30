# pg_repack, which puts other files in the place of a partition's: index tables follow, beside writers;
# a global index says that it must be built anew, and is by REINDEX.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('repack', conf => "shared_preload_libraries = 'index_table'\n");
plan skip_all => 'pg_repack is not installed' unless has_extension($node, 'pg_repack');
my $program = $node->config_data('--bindir') . '/pg_repack';
plan skip_all => 'there is no program pg_repack' unless -x $program;
plan skip_all => 'no amcheck' unless has_amcheck($node);

$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE EXTENSION pg_repack;
CREATE TABLE people (id int PRIMARY KEY, email text, town text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'mail' || i, 'Town ' || i % 50 FROM generate_series(1, 5000) AS i;
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', strategy => 'denormalized');
SELECT index_table.create('people', 'town', name => 'people_later', maintenance => 'deferred');
DELETE FROM people WHERE id % 3 = 0;
} . oracle_sql(
	describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => [ 'id', 'email' ], identity => 1),
	describe(name => 'people_later', base => 'people', key => ['b.town'], copies => ['id'], identity => 1)));

sub repack
{
	my (@arguments) = @_;
	local $ENV{PATH} = $node->config_data('--bindir') . ":$ENV{PATH}";
	my ($out, $err) = ('', '');
	IPC::Run::run([ $program, '-h', $node->host, '-p', $node->port, '-d', 'postgres', @arguments ], '>', \$out, '2>', \$err, IPC::Run::timeout(120));
	return $err;
}

my $filenodes = q{SELECT string_agg(relfilenode::text, ' ' ORDER BY relname) FROM pg_class WHERE relname IN ('people_0', 'people_1')};
my $before = $node->safe_psql('postgres', $filenodes);
my $load = start_load($node, 2, [ 2, "\\set id random(1, 5000)\nUPDATE people SET town = 'Town ' || :id % 50 WHERE id = :id" ], [ 1, "\\set id random(1, 5000)\nSELECT * FROM people WHERE email = 'mail' || :id" ]);
unlike(repack('-t', "people_$_"), qr/ERROR/, "partition $_ is repacked") foreach 0, 1;
stop_load($load);
isnt($node->safe_psql('postgres', $filenodes), $before, 'it has another file');
$node->safe_psql('postgres', q{INSERT INTO people VALUES (6000, 'late', 'x'); UPDATE people SET email = 'new' WHERE id = 7; DELETE FROM people WHERE id = 8});
$node->safe_psql('postgres', 'CALL index_table.drain()');
oracle_ok($node, 'postgres', 'after pg_repack beside writers');
is($node->safe_psql('postgres', q{SET index_table.enable_scan = force; SELECT id FROM people WHERE email = 'new'}), 7, 'rows are found');
like(sqlstate($node, 'postgres', q{INSERT INTO people VALUES (6001, 'late')}), qr/^23505/, 'keys are unique');

$node->safe_psql('postgres', 'DROP TABLE people_by_town, people_later; CREATE INDEX people_global ON people USING global (town)');
repack('-t', 'people_0');
is($node->safe_psql('postgres', q{SELECT is_built FROM index_table.global_indexes WHERE index = 'people_global'::regclass}), 'f', 'a global index is not built any more');
my $state = sqlstate($node, 'postgres', q{SET index_table.enable_scan = force; SELECT count(*) FROM people WHERE town = 'Town 7' AND id > 0});
my $count = $node->safe_psql('postgres', q{SET index_table.enable_scan = off; SELECT count(*) FROM people WHERE town = 'Town 7' AND id > 0});
like($state, qr/^55000: global index "people_global" is not built/, 'a global index says that it must be built anew');
$node->safe_psql('postgres', 'REINDEX INDEX people_global');
is($node->safe_psql('postgres', q{SET index_table.enable_scan = force; SELECT count(*) FROM people WHERE town = 'Town 7' AND id > 0}), $count, 'REINDEX builds it');
check_global($node, 'postgres', 'after REINDEX', exact => 0);
done_testing();
