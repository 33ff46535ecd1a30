# What PostgreSQL 19 brings that goes past queries and triggers: REPACK, also CONCURRENTLY, foreign keys
# that look in indexes directly, ON CONFLICT DO SELECT, aggregation before joins.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('new_in_19', conf => "shared_preload_libraries = 'index_table'\nwal_level = replica\nmax_wal_senders = 5\n");
plan skip_all => 'PostgreSQL is older than 19' if $node->safe_psql('postgres', 'SHOW server_version_num') < 190000;

sub tables
{
	my ($base) = @_;
	return (
		describe(name => "${base}_by_email", base => $base, key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
		describe(name => "${base}_by_town", base => $base, key => ['b.town'], copies => [ 'id', 'email', 'phone', 'tags' ], identity => 1),
		describe(name => "${base}_by_tag", base => $base, key => ['m.v'], elements => 'SELECT v, o FROM unnest(b.tags) WITH ORDINALITY AS t (v, o)', copies => ['id'], identity => 1),
		describe(name => "${base}_later", base => $base, key => ['b.town'], copies => ['id'], identity => 1),
		describe(name => "${base}_in_two", base => $base, key => ['b.phone'], copies => ['id'], identity => 1));
}

sub make_tables
{
	my ($base) = @_;
	return qq{
CREATE TABLE $base (id int PRIMARY KEY, email text, town text, phone text, tags text[]) PARTITION BY RANGE (id);
CREATE TABLE ${base}_low PARTITION OF $base FOR VALUES FROM (0) TO (1000);
CREATE TABLE ${base}_high PARTITION OF $base FOR VALUES FROM (1000) TO (2000);
INSERT INTO $base SELECT i, 'mail' || i, 'Town ' || i % 50, 'p' || i, ARRAY['t' || i % 5, 't' || i % 3] FROM generate_series(0, 1999) AS i;
SELECT index_table.create('$base', 'email', is_unique => true);
SELECT index_table.create('$base', 'town', strategy => 'denormalized');
SELECT index_table.create('$base', 'unnest(tags)', name => '${base}_by_tag');
SELECT index_table.create('$base', 'town', name => '${base}_later', maintenance => 'deferred');
SELECT index_table.create('$base', 'phone', name => '${base}_in_two', partitions => 2);
};
}

$node->safe_psql('postgres', 'CREATE EXTENSION index_table;' . make_tables('people') . make_tables('readers') . q{
CREATE INDEX readers_global ON readers USING global (phone) WITH (unique);
CREATE INDEX readers_towns ON readers USING global (town);
} . oracle_sql(tables('people'), tables('readers')));

# Every row is found by its keys, and every key is taken.
sub holds
{
	my ($label) = @_;
	foreach my $base ('people', 'readers')
	{
		my $found = qq{SELECT count(*), sum(n) FROM (SELECT (SELECT count(*) FROM $base WHERE email = 'mail' || i) + (SELECT count(*) FROM $base WHERE town = 'Town ' || i AND id > 0) + (SELECT count(*) FROM $base WHERE phone = 'p' || i) AS n FROM generate_series(0, 2100, 35) AS i)};
		is($node->safe_psql('postgres', "SET index_table.enable_scan = force; $found"),
			$node->safe_psql('postgres', "SET index_table.enable_scan = off; $found"), "$label: rows of $base are found");
		like(sqlstate($node, 'postgres', "INSERT INTO $base SELECT 999 + 1000 * (id / 1000), email FROM $base WHERE id IN (5, 1005) AND email IS NOT NULL"), qr/^23505.*"(${base}_by_email_key|${base}_\w+_pkey)"/, "$label: keys of $base are unique");
	}
	like(sqlstate($node, 'postgres', "DELETE FROM readers WHERE id = 1999; INSERT INTO readers (id, phone) VALUES (1999, 'p1005')"), qr/^23505.*"readers_global/, "$label: and those of a global index");
	$node->safe_psql('postgres', q{INSERT INTO readers (id, email, phone) VALUES (1999, 'mail1999', 'p1999') ON CONFLICT (id) DO NOTHING});
	$node->safe_psql('postgres', 'CALL index_table.drain()');
	oracle_ok($node, 'postgres', $label);
	check_global($node, 'postgres', $label, exact => 0);
}

sub file_of
{
	my ($relation) = @_;
	return $node->safe_psql('postgres', "SELECT pg_relation_filenode('$relation')");
}

# --- REPACK ------------------------------------------------------------------------------------------

my $changes = q{DELETE FROM BASE WHERE id % 10 = 3; INSERT INTO BASE SELECT i, 'mail' || i, 'Town ' || i % 50, 'p' || i, '{x}' FROM generate_series(3, 1999, 10) AS i;
	UPDATE BASE SET town = 'Town 7', phone = 'p' || id WHERE id % 100 = 8; UPDATE BASE SET email = 'mail' || id WHERE id % 7 = 1};
foreach my $command ('REPACK people_low', 'REPACK people_high USING INDEX people_high_pkey', 'REPACK people', 'REPACK readers_low', 'REPACK (ANALYZE) readers_high USING INDEX readers_high_pkey', 'REPACK readers',
	'VACUUM FULL readers_low', 'REPACK people_by_email', 'REPACK people_by_town', 'REPACK people_in_two', 'REPACK people_in_two_p1', 'REPACK people_by_tag', 'REPACK')
{
	(my $changed = $changes) =~ s/BASE/people/g;
	$node->safe_psql('postgres', $changed);
	($changed = $changes) =~ s/BASE/readers/g;
	$node->safe_psql('postgres', $changed);
	is(sqlstate($node, 'postgres', $command), '', $command);
	holds($command);
}

# Beside writers, who are at work until it has ended.
my @writers = map { [ 1, "\\set id random(0, 1998)\n$_" ] } ( # 1999 and what ends in 999 are for holds()
	q{UPDATE people SET town = 'Town ' || (:id % 13), tags = ARRAY['t' || (:id % 9)] WHERE id = :id},
	q{DELETE FROM people WHERE id = :id AND id % 1000 <> 999 AND id % 1000 <> 5; INSERT INTO people VALUES (:id, 'mail' || :id, 'Town 1', 'p' || :id, '{x,y}') ON CONFLICT (id) DO NOTHING},
	q{UPDATE readers SET town = 'Town ' || (:id % 13), phone = 'p' || id WHERE id = :id},
	q{DELETE FROM readers WHERE id = :id AND id % 1000 <> 999 AND id % 1000 <> 5; INSERT INTO readers VALUES (:id, 'mail' || :id, 'Town 1', 'p' || :id, '{x,y}') ON CONFLICT (id) DO NOTHING});
sub repack_beside_writers
{
	my ($relation, $error) = @_;
	my $before = file_of($relation);
	my $load = start_load($node, 2, @writers);
	my $committed = $node->safe_psql('postgres', q{SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'});
	$node->poll_query_until('postgres', qq{SELECT xact_commit > $committed FROM pg_stat_database WHERE datname = 'postgres'}) or die 'no load';
	my $state = sqlstate($node, 'postgres', "REPACK (CONCURRENTLY) $relation");
	stop_load($load);
	unlike($load->{out}, qr/ERROR|PANIC/, "writers beside REPACK (CONCURRENTLY) $relation");
	if ($error)
	{
		like($state, $error, "REPACK (CONCURRENTLY) $relation is refused");
		is(file_of($relation), $before, 'and has left the file');
	}
	else
	{
		is($state, '', "REPACK (CONCURRENTLY) $relation");
		isnt(file_of($relation), $before, 'there is another file');
	}
	holds("REPACK (CONCURRENTLY) $relation");
}
repack_beside_writers($_) foreach ('people_low', 'people_high', 'people_low');
repack_beside_writers('people_by_email', qr/^55000/); # an index table has no key of its own
repack_beside_writers('people_by_town', qr/^55000/);
repack_beside_writers('readers_low', qr/^0A000: cannot repack "readers_low" concurrently/);
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, 'no slot is left');

# --- ON CONFLICT DO SELECT -----------------------------------------------------------------------------

foreach my $key ('(email)', 'ON CONSTRAINT readers_by_email_key', '(phone)')
{
	like(sqlstate($node, 'postgres', "INSERT INTO readers (id, email, phone) VALUES (999, 'mail5', 'p5') ON CONFLICT $key DO SELECT RETURNING id"), qr/^0A000: ON CONFLICT DO SELECT/, "DO SELECT by $key is refused");
	like(sqlstate($node, 'postgres', "INSERT INTO readers (id, email, phone) VALUES (999, 'mail5', 'p5') ON CONFLICT $key DO SELECT FOR UPDATE WHERE readers.id > 0 RETURNING id"), qr/^0A000: ON CONFLICT DO SELECT/, "DO SELECT FOR UPDATE by $key is refused");
}
is($node->safe_psql('postgres', q{INSERT INTO people_low VALUES (5, 'mail6', 'x') ON CONFLICT (id) DO SELECT RETURNING email}), 'mail5', 'by an index of PostgreSQL it is not');
is($node->safe_psql('postgres', q{INSERT INTO people VALUES (5, 'mail6', 'x') ON CONFLICT (id) DO SELECT FOR UPDATE RETURNING email}), 'mail5', 'nor through the partitioned table');
like(sqlstate($node, 'postgres', q{DELETE FROM people WHERE id = 7; INSERT INTO people VALUES (7, 'mail5') ON CONFLICT (id) DO SELECT RETURNING id}), qr/^23505/, 'and other keys are kept');
$node->safe_psql('postgres', q{INSERT INTO people VALUES (7, 'mail7') ON CONFLICT (id) DO SELECT RETURNING id});
holds('ON CONFLICT DO SELECT');

# --- Foreign keys that look in the index directly -------------------------------------------------------

# Each twice: once more with a partitioned index table, where PostgreSQL asks by a query.
foreach my $parts (1, 2)
{
	my $by_mail = describe(name => 'staff_by_mail', base => 'staff', key => ['b.mail'], copies => ['id'], identity => 1, is_unique => 1);
	$node->safe_psql('postgres', q{DROP TABLE IF EXISTS letters, staff CASCADE; DROP SCHEMA oracle CASCADE;
CREATE TABLE staff (id int PRIMARY KEY, mail text, boss text) PARTITION BY HASH (id);
CREATE TABLE staff_0 PARTITION OF staff FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE staff_1 PARTITION OF staff FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT index_table.create('staff', 'mail', is_unique => true, name => 'staff_by_mail', partitions => } . $parts . q{);
ALTER TABLE staff ADD FOREIGN KEY (boss) REFERENCES staff_by_mail (mail);
CREATE TABLE letters (i int, mail text REFERENCES staff_by_mail (mail) ON UPDATE CASCADE) PARTITION BY LIST (i);
CREATE TABLE letters_1 PARTITION OF letters FOR VALUES IN (1);
CREATE TABLE letters_other PARTITION OF letters DEFAULT;} . oracle_sql($by_mail));
	my $step = sub {
		my ($label, $sql, $error) = @_;
		like(sqlstate($node, 'postgres', $sql), $error ? qr/^$error/ : qr/^$/, "$label, $parts partitions");
		oracle_ok($node, 'postgres', $label);
	};
	$step->('a key and who refers to it, in one statement', q{WITH new AS (INSERT INTO staff SELECT i, 'm' || i FROM generate_series(1, 200) AS i RETURNING mail) INSERT INTO letters SELECT i % 2, mail FROM new, generate_series(1, 2) AS i});
	$step->('into a partition', q{WITH new AS (INSERT INTO staff VALUES (300, 'm300') RETURNING mail) INSERT INTO letters_1 SELECT 1, mail FROM new});
	$step->('a row that refers to one before it', q{INSERT INTO staff SELECT i, 'm' || i, 'm' || i - 1 FROM generate_series(301, 400) AS i});
	$step->('a key that is not there', q{WITH new AS (INSERT INTO staff VALUES (500, 'm500') RETURNING mail) INSERT INTO letters SELECT 1, mail || 'x' FROM new}, 23503);
	$step->('a row that refers to none', q{INSERT INTO staff VALUES (501, 'm501', 'm502')}, 23503);
	$step->('a key that goes in the statement', q{WITH gone AS (DELETE FROM staff WHERE id = 400 RETURNING mail) INSERT INTO letters SELECT 1, mail FROM gone}, 23503);
	$step->('a key that is changed in the statement', q{WITH new AS (UPDATE staff SET mail = 'new' WHERE id = 400 RETURNING mail) INSERT INTO letters SELECT 1, mail FROM new});
	$step->('keys that change places', q{WITH new AS (UPDATE staff SET mail = CASE id WHEN 1 THEN 'm2' ELSE 'm1' END WHERE id IN (1, 2) RETURNING mail) INSERT INTO letters SELECT 1, mail FROM new});
	$step->('what an action changes', q{UPDATE staff SET mail = 'changed' || id WHERE id BETWEEN 1 AND 50});
	$step->('in two statements of a transaction', q{BEGIN; INSERT INTO staff VALUES (600, 'm600'); INSERT INTO letters VALUES (1, 'm600'); COMMIT});
	$step->('in a function', q{DO $$ BEGIN INSERT INTO staff VALUES (601, 'm601'); BEGIN INSERT INTO letters VALUES (1, 'm601'); EXCEPTION WHEN division_by_zero THEN END; END $$});
	is($node->safe_psql('postgres', q{SELECT count(*) FROM letters AS l WHERE NOT EXISTS (SELECT FROM staff AS s WHERE s.mail = l.mail)}), 0, "no letter without a reader, $parts partitions");
}

# --- Aggregates before joins ---------------------------------------------------------------------------

$node->safe_psql('postgres', 'ANALYZE');
foreach my $query (
	q{SELECT p.town, sum(r.id), count(*) FROM people p JOIN readers r ON r.town = p.town AND r.email LIKE 'mail1%' WHERE p.email IN ('mail5', 'mail77', 'mail1005') GROUP BY p.town},
	q{SELECT r.id, sum(p.id), min(p.email) FROM readers r JOIN people p ON p.town = r.town WHERE r.phone IN ('p1', 'p2', 'p1444') GROUP BY r.id})
{
	my @settings = ('index_table.enable_scan = off', 'index_table.enable_scan = force', 'index_table.enable_scan = force; SET enable_eager_aggregate = off');
	my @rows = map { $node->safe_psql('postgres', "SET min_eager_agg_group_size = 0; SET $_; SELECT * FROM ($query) ORDER BY 1") } @settings;
	isnt($rows[0], '', 'rows');
	is($rows[1], $rows[0], 'aggregated before a join');
	is($rows[2], $rows[0], 'and after it');
}

done_testing();
