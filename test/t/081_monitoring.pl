# contrib/monitoring: each query of the files for exporters runs, as a role without rights, yields the
# columns that its metrics name, and numbers for them; and the board asks for metrics that they yield.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = "$FindBin::RealBin/../../contrib/monitoring";

# The queries of a file by name, for both are written alike: "query: |" and deeper lines.
sub queries_of
{
	my ($text) = @_;
	my %queries;
	while ($text =~ /^(?:(\w+):|  - query_name: (\w+))\n( +)query: \|\n((?:\3 +.*\n)+)/mg) { $queries{ $1 // $2 } = $4; }
	return \%queries;
}

my $exporter = slurp_file("$directory/queries.yaml");
my $collector = slurp_file("$directory/sql_exporter.collector.yml");
my $queries = queries_of($exporter);
is(join(' ', sort keys %$queries), 'index_table index_table_database', 'queries are found');
is_deeply({ map { $_ => $queries->{$_} =~ s/\s+/ /gr } keys %$queries }, { map { $_->[0] => $_->[1] =~ s/\s+/ /gr } map { my $of = queries_of($collector); map { [ $_, $of->{$_} ] } keys %$of } 1 }, 'both files have the same');

my $node = new_node('monitoring', conf => "shared_preload_libraries = 'index_table'\n");
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE ROLE monitor LOGIN;
CREATE TABLE people (id int PRIMARY KEY, town text, name text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO people SELECT i, 'town ' || i % 10, 'name ' || i FROM generate_series(1, 100) AS i;
SELECT index_table.create('people', 'town', maintenance => 'deferred');
SELECT index_table.create('people', 'name');
CREATE INDEX people_global ON people USING global (name);
INSERT INTO people VALUES (1000, 'x', 'y');
-- As pg_upgrade leaves one.
CREATE TABLE upgraded (id int) PARTITION BY RANGE (id);
CREATE TABLE upgraded_1 PARTITION OF upgraded FOR VALUES FROM (0) TO (100);
ALTER EVENT TRIGGER index_table_ddl_end DISABLE;
CREATE INDEX upgraded_id ON upgraded USING global (id);
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
SELECT count(*) FROM index_table.verify('people_by_name')});

# Metrics by name, and the kinds of columns by query.
my %metrics;
foreach my $name (sort keys %$queries)
{
	my ($group) = $exporter =~ /^$name:\n(.*?)(?=^\w|\z)/ms;
	my %usage = $group =~ /^    - (\w+):\n        usage: "(\w+)"\n        description: "[^"]+"$/mg;
	my ($status, $out, $err) = $node->psql('postgres', $queries->{$name}, extra_params => [ '-U', 'monitor' ], on_error_stop => 0);
	is($status . $err, 0, "$name runs");
	# psql -A -t has no headers.
	my @columns = split /\|/, $node->safe_psql('postgres', "CREATE TEMP TABLE q AS $queries->{$name}; SELECT string_agg(attname, '|' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'q'::regclass AND attnum > 0");
	is($out, 'postgres|0|1|0', 'a global index that is not built is counted') if $name eq 'index_table_database';
	is(join(' ', sort @columns), join(' ', sort keys %usage), "$name: each column is a label or a metric");
	my @rows = map { [ split /\|/, $_, -1 ] } split /\n/, $out;
	is(scalar @rows, $name eq 'index_table' ? 4 : 1, "$name: a row for each");
	my @bad;
	foreach my $row (@rows)
	{
		foreach my $i (0 .. $#columns)
		{
			push @bad, "$columns[$i] = $row->[$i]" if $usage{ $columns[$i] } ne 'LABEL' && $row->[$i] !~ /^-?\d+(\.\d+)?$/;
		}
	}
	is("@bad", '', "$name: metrics are numbers");
	foreach my $column (grep { $usage{$_} ne 'LABEL' } keys %usage)
	{
		$metrics{"${name}_$column"} = 1;
		my $type = lc $usage{$column};
		like($collector, qr/^  - metric_name: ${name}_$column\n    type: $type\n.*\n.*\n    values: \[$column\]\n    query_ref: $name$/m, "sql_exporter has ${name}_$column");
		is($type, $column =~ /_total$/ ? 'counter' : 'gauge', "$column is named for what it is");
	}
}

# The board.
my $board = JSON::PP->new->decode(slurp_file("$directory/dashboard.json"));
my @expressions = map { $_->{expr} } map { @{ $_->{targets} } } @{ $board->{panels} };
cmp_ok(scalar @expressions, '>', 10, 'the board asks for something');
my %asked = map { $_ => 1 } map { /\b(index_table_\w+)/g } @expressions, map { $_->{query} } @{ $board->{templating}{list} };
is(join(' ', grep { !$metrics{$_} } sort keys %asked), '', 'for metrics that there are');
is(join(' ', grep { !$asked{$_} } sort keys %metrics), '', 'and for each of them');
my ($readme) = slurp_file("$directory/README.md");
is(join(' ', grep { !$metrics{$_} && $_ !~ /^index_table_stat/ } $readme =~ /\b(index_table_\w+)/g), '', 'so do the alerts');
is($node->safe_psql('postgres', q{SELECT count(*) FROM index_table.verify('people_by_name')}), 0, 'in step');
done_testing();
