# index_table.advise(): from the texts that pg_stat_statements keeps, or the conditions of pg_qualstats, to statements that
# can be run; who sees what; estimates of sizes beside the sizes that index tables turn out to have. Whether queries may
# use an index table survives a dump.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $db = 'postgres';

# Installed extensions are told by a server that runs.
my $probe = new_node('probe');
my ($has_statements, $has_conditions) = map { has_extension($probe, $_) } 'pg_stat_statements', 'pg_qualstats';
$probe->stop;

my $tables = q{
CREATE EXTENSION index_table;
CREATE TABLE people (id int PRIMARY KEY, email text, town text, born date, tags text[], phone text, height float8, "The ""Name" text, flag boolean) PARTITION BY HASH (id);
SELECT format('CREATE TABLE people_%s PARTITION OF people FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i) FROM generate_series(0, 7) AS i \gexec
INSERT INTO people SELECT i, 'person' || i || '@example.com', 'Town ' || i % 2000, date '1950-01-01' + i % 20000, ARRAY['tag' || i % 5000, 'own' || i],
                          CASE WHEN i % 3 = 0 THEN '555-' || i END, i / 7.0, 'Name ' || i % 10000, i % 2 = 0 FROM generate_series(1, 40000) AS i;
ANALYZE people;
};

# --- Statements ------------------------------------------------------------------------------

SKIP:
{
	skip 'pg_stat_statements is not installed', 1 unless $has_statements;
	my $node = new_node('statements', conf => "shared_preload_libraries = 'pg_stat_statements, index_table'\n");
	$node->safe_psql($db, "$tables CREATE EXTENSION pg_stat_statements; CREATE ROLE keeper LOGIN; CREATE ROLE other LOGIN;
		GRANT CREATE ON SCHEMA public TO keeper; GRANT ALL ON people TO other; ALTER TABLE people OWNER TO keeper;
		" . join('', map { "ALTER TABLE people_$_ OWNER TO keeper;" } 0 .. 7) . "
		CREATE VIEW addresses AS SELECT email AS address, phone FROM people; GRANT SELECT ON addresses TO other;
		SELECT pg_stat_statements_reset();");
	my $run = sub { my ($user, $times, $sql) = @_; $node->safe_psql($db, join(";\n", ($sql) x $times), extra_params => [ '-U', $user ]); return };
	$run->('keeper', 5, q{SELECT phone FROM people WHERE email = 'person7@example.com'});
	$run->('keeper', 3, q{SELECT * FROM people WHERE town = 'Town 5' AND "The ""Name" = 'Name 5'});
	$run->('keeper', 2, q{SELECT 1 FROM people WHERE "The ""Name" = 'Name 6' AND born > date '1960-01-01'});
	$run->('keeper', 2, q{SELECT * FROM people WHERE id = 7 AND town = 'x'});
	$run->('keeper', 1, q{SELECT count(*) FROM people WHERE flag});
	$run->('keeper', 4, q{UPDATE people SET flag = false WHERE phone = '555-3'});
	$run->('keeper', 1, q{SELECT lower(email) FROM people WHERE flag = true});
	$run->('keeper', 1, q{PREPARE q (text) AS SELECT id FROM people WHERE tags @> ARRAY[$1]; EXECUTE q ('own7')});
	$run->('other', 6, q{SELECT phone FROM addresses WHERE address = 'person8@example.com'});
	$run->('other', 1, q{SELECT height FROM people WHERE height = 1.5});

	my $advice = q{SELECT key, recommendation, calls, strategy, statement FROM index_table.advise('people') ORDER BY calls DESC, key};
	is($node->safe_psql($db, $advice), <<'END' =~ s/\n$//r, 'what everybody has asked for');
email|create|11|partial|SELECT index_table.create('public.people', 'email', strategy => 'partial', include => 'phone', is_unique => true)
"The ""Name", town|create|5|normalized|SELECT index_table.create('public.people', '"The ""Name", town')
phone|create|4|normalized|SELECT index_table.create('public.people', 'phone', is_unique => true, predicate => 'phone IS NOT NULL')
flag|none|1||
height|create|1|normalized|SELECT index_table.create('public.people', 'height', is_unique => true)
tags|create|1|normalized|SELECT index_table.create('public.people', 'tags')
END
	is($node->safe_psql($db, $advice, extra_params => [ '-U', 'keeper' ]) =~ /^email\|create\|5\|.*^phone/ms, 1, 'the owner sees its own statements');
	# The share of the rows that a key finds: of all keys, on average. Of arrays statistics know common elements alone.
	my %shares = map { split /\|/ } split /\n/, $node->safe_psql($db, q{SELECT key, selectivity FROM index_table.advise('people') WHERE key !~ ','});
	is(join(' ', sort keys %shares), 'email flag height phone tags', 'it says the selectivity of each');
	foreach my $key (grep { $_ ne 'tags' } sort keys %shares)
	{
		my $share = $node->safe_psql($db, "SELECT count($key)::float8 / count(DISTINCT $key) / count(*) FROM people");
		cmp_ok(abs($shares{$key} / $share - 1), '<', 0.25, sprintf('%s: estimated selectivity %.6f, counted %.6f', $key, $shares{$key}, $share));
	}
	my ($status, $out, $err) = $node->psql($db, "SET client_min_messages = notice; $advice", extra_params => [ '-U', 'keeper' ]);
	like($err, qr/statements of others are hidden from keeper.*pg_read_all_stats/s, 'and is told of others');
	unlike($out, qr/height/, 'not what they ask for');
	($status, $out, $err) = $node->psql($db, $advice, extra_params => [ '-U', 'other' ]);
	like($err, qr/must be owner of table people/, 'others are told nothing');
	$node->safe_psql($db, 'GRANT pg_read_all_stats TO keeper');
	like($node->safe_psql($db, $advice, extra_params => [ '-U', 'keeper' ]), qr/^email\|create\|11\|.*^height/ms, 'with pg_read_all_stats it sees all');
	# What a server keeps of other databases is none of this one's.
	$node->safe_psql($db, 'CREATE DATABASE elsewhere');
	$node->safe_psql('elsewhere', q{CREATE TABLE people (id int, town text); SELECT * FROM people WHERE town = 'x'});
	unlike($node->safe_psql($db, $advice), qr/^town\|/m, 'statements of another database are left out');

	# What it says is run, and then it is served.
	$node->safe_psql($db, q{SELECT statement FROM index_table.advise('people') WHERE recommendation = 'create' \gexec}, extra_params => [ '-U', 'keeper' ]);
	is($node->safe_psql($db, q{SELECT string_agg(DISTINCT recommendation, ' ') FROM index_table.advise('people') WHERE calls > 1}), 'keep', 'it is served then');
	like($node->safe_psql($db, q{EXPLAIN SELECT phone FROM people WHERE email = 'person7@example.com'}), qr/Index Table: people_by_email/, 'and used');

	# Visibility and statements of index tables survive a dump.
	$node->safe_psql($db, q{SELECT index_table.set_visible('people_by_email', false); CREATE INDEX people_global ON people USING global (town); SELECT index_table.set_visible('people_global', false);});
	my $definitions = q{SELECT index_table::text, is_visible, index_table.ddl(index_table) FROM index_table.index_tables UNION ALL SELECT index::text, is_visible, index_table.ddl(index) FROM index_table.global_indexes ORDER BY 3};
	my $before = $node->safe_psql($db, $definitions);
	like($before, qr/people_global\|f\|.*people_by_email\|f\|/s, 'two are invisible');
	my $dump = $node->basedir . '/dump.sql';
	$node->safe_psql($db, 'CREATE DATABASE copy');
	$node->command_ok([ 'pg_dump', '--no-sync', '-f', $dump, '-d', $node->connstr($db) ], 'dump');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('copy') ], 'restore');
	is($node->safe_psql('copy', $definitions) =~ s/^people_by_email(?=\|f)/people_by_email/r, $before, 'the copy is as visible, and made by the same statements');
	unlike($node->safe_psql('copy', q{EXPLAIN SELECT phone FROM people WHERE email = 'person7@example.com'}), qr/Index Table/, 'queries of the copy do without');

	foreach my $copy ($db, 'copy')
	{
		$node->safe_psql($copy, oracle_sql(
			describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => [ 'id', 'phone' ], identity => 1, is_unique => 1),
			describe(name => 'people_by_height', base => 'people', key => ['b.height'], copies => ['id'], identity => 1, is_unique => 1)));
		oracle_ok($node, $copy, "index tables are right in $copy", 0);
	}

	# What writes cost depends on how many rows a statement has: those of statistics count, not the first load.
	my $costs = q{SELECT string_agg(DISTINCT estimated_write_cost::text, ' ') FROM index_table.advise('written')};
	$node->safe_psql($db, q{CREATE TABLE written (id int PRIMARY KEY, email text) PARTITION BY HASH (id);
		CREATE TABLE written_0 PARTITION OF written FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE written_1 PARTITION OF written FOR VALUES WITH (MODULUS 2, REMAINDER 1);
		INSERT INTO written SELECT id, email FROM people WHERE id <= 10000; ANALYZE written;});
	foreach my $case ([ '2.9', '' ], [ '1.25', 'INSERT INTO written SELECT id, email FROM people WHERE id BETWEEN 10001 AND 11000' ],
		[ '2.9', join ';', map { "INSERT INTO written VALUES ($_, 'x')" } 20001 .. 20020 ], [ '2.08', q{INSERT INTO written VALUES (20031, 'y'), (20032, 'z')} ])
	{
		my ($cost, $statements) = @$case;
		$node->safe_psql($db, "SELECT pg_stat_statements_reset(); $statements; SELECT * FROM written WHERE email = 'x'");
		is($node->safe_psql($db, $costs), $cost, 'costs of writes: ' . ($statements eq '' ? 'nothing is known of statements' : substr $statements, 0, 60));
	}
	$node->stop;
}

# --- Conditions ------------------------------------------------------------------------------

SKIP:
{
	skip 'pg_qualstats is not installed', 1 unless $has_conditions;
	my $node = new_node('conditions', conf => "shared_preload_libraries = 'pg_qualstats'\npg_qualstats.sample_rate = 1\n");
	$node->safe_psql($db, "$tables CREATE EXTENSION pg_qualstats; SELECT pg_qualstats_reset();");
	$node->safe_psql($db, join(';', (q{SELECT phone FROM people WHERE email = 'person7@example.com'}) x 3, q{SELECT * FROM people WHERE town = 'Town 5' AND "The ""Name" = 'Name 5'}));
	$node->safe_psql($db, q{SELECT * FROM people WHERE id = 7 AND phone = 'x'});
	is($node->safe_psql($db, q{SELECT key, recommendation, statement FROM index_table.advise('people') ORDER BY key}), <<'END' =~ s/\n$//r, 'what conditions tell');
"The ""Name", town|create|SELECT index_table.create('public.people', '"The ""Name", town')
email|create|SELECT index_table.create('public.people', 'email', is_unique => true)
END
	$node->stop;
}

# --- Sizes -----------------------------------------------------------------------------------

my $node = new_node('sizes');
$node->safe_psql($db, $tables);
my @keys = (
	[ 'email', '{2}', '{text}', 1 ], [ 'email', '{2}', '{text}', 0 ], [ 'town', '{3}', '{text}', 0 ], [ 'born', '{4}', '{date}', 0 ], [ 'height', '{7}', '{float8}', 1 ],
	[ 'phone', '{6}', '{text}', 0 ], [ 'tags', '{5}', '{text[]}', 0 ], [ 'lower(email)', '{2}', '{text}', 0 ], [ 'flag, born, town', '{9,4,3}', '{bool,date,text}', 0 ]);
my @worst = (0, '');
note(sprintf('%-20s %-6s %-14s %12s %12s %8s', 'key', 'unique', 'strategy', 'estimated', 'bytes', 'error'));
foreach my $key (@keys)
{
	my ($text, $columns, $types, $unique) = @$key;
	foreach my $strategy ('normalized', 'partial', 'denormalized')
	{
		my $name = $node->safe_psql($db, sprintf(q{SELECT index_table.create('people', '%s', strategy => '%s', is_unique => %s %s)},
				$text, $strategy, $unique ? 'true' : 'false', $strategy eq 'partial' ? q{, include => '"The ""Name"'} : ''));
		my $copied = $node->safe_psql($db, qq{SELECT COALESCE(array_agg(a.attnum), '{}') FROM pg_attribute AS a, index_table.describe('$name') AS d
			WHERE a.attrelid = 'people'::regclass AND a.attname = ANY (d.include)});
		my ($estimate, $bytes) = split /\|/, $node->safe_psql($db, qq{SELECT index_table.estimate_bytes('people', '$columns', '$types'::regtype[]::oid[], '{1}', '$copied', ${unique}::boolean, false),
			pg_total_relation_size('$name')});
		my $error = ($estimate - $bytes) / $bytes;
		note(sprintf('%-20s %-6s %-14s %12d %12d %6.1f %%', $text, $unique ? 'yes' : 'no', $strategy, $estimate, $bytes, 100 * $error));
		@worst = (abs $error, "$text, $strategy") if abs $error > $worst[0];
		$node->safe_psql($db, qq{SELECT index_table.drop('$name')});
	}
}
cmp_ok($worst[0], '<', 0.25, sprintf('estimated sizes are right within 25 %% (the worst: %s, %.1f %%)', $worst[1], 100 * $worst[0]));
$node->safe_psql($db, q{SELECT index_table.create('people', 'town')});
$node->safe_psql($db, oracle_sql(describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => ['id'], identity => 1)));
oracle_ok($node, $db, 'the index table is right', 0);
$node->stop;

done_testing();
