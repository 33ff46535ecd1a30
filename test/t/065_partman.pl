# Time partitions that pg_partman creates, fills, detaches and drops.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('partman');
if (!has_extension($node, 'pg_partman'))
{
	$node->stop;
	plan skip_all => 'pg_partman is not installed';
}

$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE SCHEMA partman;
CREATE EXTENSION pg_partman SCHEMA partman;
CREATE TABLE events (id bigint, at timestamptz NOT NULL, kind text, email text, tags text[], PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE INDEX ON events (at);
SELECT index_table.create('events', 'kind');
SELECT index_table.create('events', 'email', strategy => 'denormalized', partitions => 2);
SELECT index_table.create('events', 'id', is_unique => true);
SELECT index_table.create('events', 'unnest(tags)', strategy => 'partial', include => 'email', name => 'events_by_tag', predicate => 'kind <> ''k3''');
});
my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
$node->safe_psql('postgres', oracle_sql(
	describe(name => 'events_by_kind', base => 'events', key => ['b.kind'], copies => [ 'id', 'at' ], identity => 2),
	describe(name => 'events_by_email', base => 'events', key => ['b.email'], copies => [ 'id', 'at', 'kind', 'tags' ], identity => 2),
	describe(name => 'events_by_id', base => 'events', key => ['b.id'], copies => ['at'], identity => 1, is_unique => 1),
	describe(name => 'events_by_tag', base => 'events', key => ['m.v'], elements => $tags, predicate => q{b.kind <> 'k3'},
		copies => [ 'id', 'at', 'email' ], identity => 2)));

# Runs SQL; everything must be in step afterwards.
sub followed_ok
{
	my ($label, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sqlstate($node, 'postgres', $sql), '', $label);
	oracle_ok($node, 'postgres', "$label: in step", 500);
	is($node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_partition_tree('events') t FULL JOIN index_table.partition p ON p.relation = t.relid
		 WHERE coalesce(t.isleaf, true) AND (t.relid IS NULL OR p.relation IS NULL)}), 0, "$label: leaves have numbers");
	return;
}

sub partitions
{
	return $node->safe_psql('postgres', q{SELECT count(*) FROM pg_partition_tree('events') WHERE isleaf});
}

my $native = $node->safe_psql('postgres', q{SELECT CASE WHEN extversion LIKE '4.%' THEN ', p_type => ''native''' END FROM pg_extension WHERE extname = 'pg_partman'});
my $insert = q{INSERT INTO events SELECT i, now() - (i % 7) * interval '1 day', 'k' || i % 5, 'mail' || i, ARRAY['t' || i % 4, 't' || i % 6]
	FROM generate_series};
followed_ok('create_parent', qq{
	SELECT partman.create_parent(p_parent_table => 'public.events', p_control => 'at', p_interval => '1 day', p_premake => 2,
		p_start_partition => (now() - interval '6 days')::text $native);
	UPDATE partman.part_config SET infinite_time_partitions = true;
	$insert(1, 700) i});
my $created = partitions();
cmp_ok($created, '>=', 9, 'a partition for each day');

followed_ok('partitions to come', q{
	UPDATE partman.part_config SET premake = 5;
	SELECT partman.run_maintenance()});
cmp_ok(partitions(), '>', $created, 'there are more');

# Rows of the default partition move into one of their own.
my $before = partitions();
followed_ok('rows out of range', q{INSERT INTO events SELECT i, now() + interval '20 days', 'k' || i % 5, 'mail' || i, '{t1}' FROM generate_series(1001, 1050) i});
followed_ok('partition_data_time', q{SELECT partman.partition_data_time('public.events', p_batch_count => 10)});
is(partitions(), $before + 1, 'there is another');
is($node->safe_psql('postgres', q{SELECT count(*) FROM events_default}), 0, 'the default partition is empty');

# Retention: partitions are detached and kept, or dropped.
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM events');
followed_ok('retention that keeps tables', q{
	UPDATE partman.part_config SET retention = '4 days', retention_keep_table = true;
	SELECT partman.run_maintenance()});
is($node->safe_psql('postgres', q{SELECT min(at) > now() - interval '5 days' FROM events}), 't', 'old ones are gone');
my $less = $node->safe_psql('postgres', 'SELECT count(*) FROM events');
cmp_ok($less, '<', $rows, 'with fewer rows');
followed_ok('retention', q{
	UPDATE partman.part_config SET retention = '2 days', retention_keep_table = false;
	SELECT partman.run_maintenance()});
is($node->safe_psql('postgres', q{SELECT min(at) > now() - interval '3 days' FROM events}), 't', 'more are gone');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM events'), '<', $less, 'with fewer rows again');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.retired_partition'), '>', 0, 'numbers are out of use');

# A key of rows that are gone is free, another is not.
like(sqlstate($node, 'postgres', "INSERT INTO events VALUES (1001, now(), 'k', 'again', '{}')"), qr/^23505: .*"events_by_id_key"/, 'a key that is taken');
followed_ok('keys that are free again', q{INSERT INTO events SELECT i, now(), 'k' || i % 5, 'again' || i, '{t1,t2}' FROM generate_series(6, 700, 7) i});
followed_ok('changes', q{
	UPDATE events SET kind = 'changed', at = at + interval '1 day' WHERE id % 3 = 0 AND id < 1000;
	DELETE FROM events WHERE id % 5 = 1});
followed_ok('the procedure', 'CALL partman.run_maintenance_proc()');
is($node->safe_psql('postgres', 'SELECT sum(index_table.vacuum(index_table)) > 0 FROM index_table.definition'), 't', 'vacuum');
oracle_ok($node, 'postgres', 'vacuum: in step', 500);
check_storage($node, 'postgres');
is($node->safe_psql('postgres', 'SELECT count(*) FROM index_table.retired_partition'), 0, 'no number is left');

# Queries find the same with index tables and without.
my $query = q{SELECT count(*), sum(id) FROM events WHERE kind = 'k2' UNION ALL SELECT count(*), sum(id) FROM events WHERE email LIKE 'again1%'};
is($node->safe_psql('postgres', "LOAD 'index_table'; SET index_table.enable_scan = force; $query"),
	$node->safe_psql('postgres', "LOAD 'index_table'; SET index_table.enable_scan = off; $query"), 'queries');

$node->stop;
done_testing();
