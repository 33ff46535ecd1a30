# Single-user mode fires no event triggers: commands that index tables and global indexes have to follow are
# refused there, rows are written and read as ever, and without the library everything goes.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('single', conf => "shared_preload_libraries = 'index_table'\n");
my $table = q{
CREATE TABLE people (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES FROM (0) TO (100);
CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (100) TO (200);
INSERT INTO people SELECT i, 'town ' || i FROM generate_series(0, 190, 10) AS i;
};
$node->safe_psql('postgres', 'CREATE DATABASE bare');
$node->safe_psql('bare', $table);
$node->safe_psql('postgres', "CREATE EXTENSION index_table; $table" . q{
SELECT index_table.create('people', 'town', is_unique => true);
CREATE INDEX people_town ON people USING global (town) WITH (unique);
CREATE VIEW differing AS
    (SELECT town, id FROM people EXCEPT ALL SELECT town, id FROM people_by_town) UNION ALL (SELECT town, id FROM people_by_town EXCEPT ALL SELECT town, id FROM people)});
$node->stop;

# What comes of commands, a line each.
sub single
{
	my ($database, $commands, @options) = @_;
	my $output;
	IPC::Run::run([ $node->installed_command('postgres'), '--single', '-D', $node->data_dir, @options, $database ], '<', \"$commands\n", '>&', \$output);
	return join "\n", grep { /ERROR|HINT|town = / } map { s/^.*?\b(?=ERROR|HINT)//r } split /\n/, $output;
}
my $refused = 'in single-user mode in a database with the extension index_table';
my $hint = 'HINT:  Start the server. If that is impossible, take index_table out of shared_preload_libraries, and REINDEX or repair() afterwards.';
foreach my $command (
	'CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (200) TO (300)', 'ALTER TABLE people ADD COLUMN note text',
	'DROP TABLE people_1', 'DROP INDEX people_town', 'CREATE INDEX people_again ON people USING global (town)', 'ALTER INDEX people_town RENAME TO other',
	'DROP SCHEMA public CASCADE', 'DROP OWNED BY CURRENT_USER')
{
	my ($tag) = $command =~ /^(\w+ \w+)/;
	is(single('postgres', $command), "ERROR:  cannot execute $tag $refused\n$hint", $tag);
}
is(single('postgres', join "\n", q{INSERT INTO people VALUES (5, 'new'), (105, 'newer')}, q{UPDATE people SET town = 'moved' WHERE town = 'town 10'}, 'VACUUM', 'REINDEX TABLE people_0',
	q{GRANT SELECT ON people TO PUBLIC}, q{COMMENT ON TABLE people IS 'people'}, q{SELECT town FROM people WHERE town = 'moved'}), qq{\t 1: town = "moved"\t(typeid = 25, len = -1, typmod = -1, byval = f)}, 'rows are written and read');
is(single('bare', "ALTER TABLE people ADD COLUMN note text\nDROP TABLE people_1"), '', 'a database without the extension');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM differing'), '0', 'in step');
is($node->safe_psql('postgres', q{SELECT count(*) FROM index_table.verify('people_town')}), '0', 'the global index, too');
is($node->safe_psql('postgres', q{SET index_table.enable_scan = force; SELECT id FROM people WHERE town IN ('new', 'newer', 'moved') ORDER BY 1}), "5\n10\n105", 'what was written is found');
$node->stop;
is(single('postgres', 'ALTER TABLE people ALTER id SET STATISTICS 10', '-c', 'shared_preload_libraries='), '', 'without the library');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM differing'), '0', 'still in step');
done_testing();
