# What the other tests end with, check_storage(), sees damage: in B-trees, owners' included, and in tables.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('storage');
plan skip_all => 'amcheck is not installed' unless has_extension($node, 'amcheck');
$node->safe_psql('postgres', q{
	CREATE EXTENSION index_table;
	CREATE TABLE people (id int PRIMARY KEY, town text, note text) PARTITION BY HASH (id);
	CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 1, REMAINDER 0);
	INSERT INTO people SELECT i, 'Town ' || i % 10, 'note' FROM generate_series(1, 100) i;
	SELECT index_table.create('people', 'town', include => 'note', strategy => 'partial');
	SELECT index_table.create('people', 'note', partitions => 2);
	CREATE INDEX owners ON people_by_town (note);});
check_storage($node, 'postgres', 'at first');

# Has an index miss an entry.
sub damage_index
{
	my ($index) = @_;
	$node->safe_psql('postgres', "UPDATE pg_index SET indisready = false WHERE indexrelid = '$index'::regclass");
	$node->safe_psql('postgres', "INSERT INTO people SELECT max(id) + 1, 'Town 1', 'note' FROM people");
	$node->safe_psql('postgres', "UPDATE pg_index SET indisready = true WHERE indexrelid = '$index'::regclass");
	return;
}

my $partition_index = $node->safe_psql('postgres', q{
	SELECT i.indexrelid::regclass FROM pg_partition_tree('people_by_note') t, pg_index i
	 WHERE t.isleaf AND i.indrelid = t.relid AND EXISTS (SELECT FROM people_by_note n WHERE n.tableoid = t.relid)});
foreach my $index ('owners', $partition_index)
{
	damage_index($index);
	like(storage_problems($node, 'postgres'), qr/^t\n$index: XX\w+: heap tuple .* lacks matching index tuple within index "$index"$/, "$index: an entry is missing");
	$node->safe_psql('postgres', "REINDEX INDEX $index");
	check_storage($node, 'postgres', "$index: mended");
}

my $frozen = $node->safe_psql('postgres', q{SELECT relfrozenxid FROM pg_class WHERE relname = 'people_by_town'});
$node->safe_psql('postgres', q{UPDATE pg_class SET relfrozenxid = txid_current()::text::xid WHERE relname = 'people_by_town'});
like(storage_problems($node, 'postgres'), qr/^t\npeople_by_town: block 0, offset \d+: xmin \d+ precedes relation freeze threshold/, 'a tuple that is too old');
$node->safe_psql('postgres', qq{UPDATE pg_class SET relfrozenxid = '$frozen' WHERE relname = 'people_by_town'});
check_storage($node, 'postgres', 'at last');
is($node->safe_psql('postgres', q{
	SELECT ((SELECT count(*) FROM people_by_town) = (SELECT count(*) FROM people)) AND NOT EXISTS (
		(SELECT town, id, note FROM people EXCEPT ALL SELECT town, id, note FROM people_by_town)
		UNION ALL (SELECT town, id, note FROM people_by_town EXCEPT ALL SELECT town, id, note FROM people)
		UNION ALL (SELECT note, id, NULL FROM people EXCEPT ALL SELECT note, id, NULL FROM people_by_note)
		UNION ALL (SELECT note, id, NULL FROM people_by_note EXCEPT ALL SELECT note, id, NULL FROM people))}), 't', 'in step');

$node->stop;
done_testing();
