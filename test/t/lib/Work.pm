# One of everything the extension does, to be disturbed.
#
#   prepare_work($node)   tables, index tables of all kinds and global indexes, and the oracle's functions
#   work()                name => [ SQL, what undoes what came of it ]; NUMBER in them is another one
#                         each time
#   work_traces($node)    how many rows of catalogs, and of the extension's, there are: as many as
#                         before when all is undone
#   check_work($node)     drains, and checks that index tables and global indexes are in step, by the
#                         oracle and by queries
package Work;

use strict;
use warnings;

use Exporter 'import';
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(prepare_work work work_traces check_work);

sub prepare_work
{
	my ($node) = @_;
	my $tags = 'SELECT u.v, u.o FROM unnest(b.tags) WITH ORDINALITY u(v, o)';
	my $events = '"Odd.Names"."Events"';
	my @identity = ('id', 'day', 'kind');
	$node->safe_psql('postgres', varied_tables_sql() . q{
INSERT INTO customers SELECT i, 'mail' || i, 'Town ' || i % 20, ARRAY['t' || i % 4], '555-' || i, i % 3 = 0 FROM generate_series(1001, 6000) i;
CREATE INDEX by_any_town ON customers USING global (town);
CREATE INDEX by_any_mail ON customers USING global (email) WITH (unique);
CREATE INDEX by_any_tag ON customers USING global (tags) WITH (method = gin);
SELECT index_table.create('customers', 'active', name => 'customers_by_state', strategy => 'partial', include => 'town');
SELECT index_table.set_maintenance('customers_by_state', 'deferred');
CREATE TABLE other (LIKE customers);
INSERT INTO other SELECT * FROM customers WHERE false;
} . oracle_sql(
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_town', base => 'customers', key => ['lower(b.town)'], copies => [ 'id', 'phone' ], identity => 1),
	describe(name => 'customers_by_phone', base => 'customers', key => ['b.phone'], copies => [ 'id', 'email', 'town', 'tags', 'active' ], identity => 1),
	describe(name => 'customers_by_tag', base => 'customers', key => ['m.v'], elements => $tags, copies => ['id'], identity => 1),
	describe(name => 'customers_by_state', base => 'customers', key => ['b.active'], copies => [ 'id', 'town' ], identity => 1),
	describe(name => '"Odd.Names"."Events_by_Code"', base => $events, key => ['b."Code"'], predicate => "b.kind <> 'b'", copies => \@identity, identity => 3, is_unique => 1),
	describe(name => '"Odd.Names"."By ""Note"""', base => $events, key => ['upper(b.note)'], copies => [ @identity, '"Code"', 'note' ], identity => 3),
	describe(name => 'plain_by_v', base => 'plain', key => ['b.v'], copies => ['id'], identity => 1, is_unique => 1)));
	return;
}

sub work
{
	return (
		'create' => [ q{SELECT index_table.create('customers', 'town, id', name => 'new')}, 'DROP TABLE IF EXISTS new' ],
		'create, denormalized' => [ q{SELECT index_table.create('customers', 'town', name => 'new', strategy => 'denormalized', partitions => 3)}, 'DROP TABLE IF EXISTS new' ],
		'create, partial, unique' => [ q{SELECT index_table.create('customers', 'phone, id', name => 'new', strategy => 'partial', include => 'town', is_unique => true, predicate => 'active')}, 'DROP TABLE IF EXISTS new' ],
		'create, elements' => [ q{SELECT index_table.create('customers', 'unnest(tags)', name => 'new')}, 'DROP TABLE IF EXISTS new' ],
		'create_concurrently' => [ q{CALL index_table.create_concurrently('customers', 'town, id', name => 'new')}, 'DROP TABLE IF EXISTS new' ],
		'drop' => [ q{BEGIN; SELECT index_table.create('plain', 'id', name => 'new'); SELECT index_table.drop('new'); COMMIT}, 'DROP TABLE IF EXISTS new' ],
		'rebuild' => [ q{CALL index_table.rebuild('customers_by_phone')}, q{CALL index_table.rebuild('customers_by_phone')} ],
		'verify' => [q{SELECT count(*) FROM index_table.verify('customers_by_phone')}],
		'verify, global' => [q{SELECT count(*) FROM index_table.verify('by_any_tag')}],
		'repair' => [q{SELECT count(*) FROM index_table.repair('customers_by_tag')}],
		'repair, global' => [q{SELECT count(*) FROM index_table.repair('by_any_town')}],
		'vacuum' => [q{SELECT index_table.vacuum()}],
		'drain' => [q{UPDATE customers SET active = NOT active WHERE id % 9 = NUMBER % 9; CALL index_table.drain()}],
		'wait_caught_up' => [q{UPDATE customers SET active = NOT active WHERE id % 9 = NUMBER % 9; SELECT index_table.wait_caught_up('customers_by_state')}],
		'set_maintenance' => [ q{SELECT index_table.set_maintenance('customers_by_town', 'deferred'); UPDATE customers SET town = 'Town ' || NUMBER WHERE id % 50 = 1; SELECT index_table.set_maintenance('customers_by_town', 'immediate')},
			q{SELECT index_table.set_maintenance('customers_by_town', 'immediate')} ],
		'set_visible' => [ q{SELECT index_table.set_visible('customers_by_town', false), index_table.set_visible('by_any_town', false); SELECT index_table.set_visible('customers_by_town', true), index_table.set_visible('by_any_town', true)},
			q{SELECT index_table.set_visible('customers_by_town', true), index_table.set_visible('by_any_town', true)} ],
		'advise' => [q{SELECT count(*) FROM index_table.advise('customers')}],
		'CREATE INDEX' => [ 'CREATE INDEX new ON customers USING global (town, id)', 'DROP INDEX IF EXISTS new' ],
		'CREATE INDEX, gin' => [ 'CREATE INDEX new ON customers USING global (tags) WITH (method = gin)', 'DROP INDEX IF EXISTS new' ],
		'CREATE INDEX, workers' => [ 'SET min_parallel_table_scan_size = 0; CREATE INDEX new ON customers USING global (phone, id) WITH (unique)', 'DROP INDEX IF EXISTS new' ],
		'CREATE INDEX CONCURRENTLY' => [ 'CREATE INDEX CONCURRENTLY new ON customers USING global (town, id)', 'DROP INDEX IF EXISTS new' ],
		'REINDEX INDEX' => ['REINDEX INDEX by_any_town'],
		'REINDEX TABLE' => ['REINDEX TABLE customers_1'],
		'UPDATE of keys' => [q{UPDATE customers SET email = 'm' || id || '-' || NUMBER, phone = NUMBER::text WHERE id % 5 = NUMBER % 5 AND id < 300000}],
		'UPDATE by a key' => [q{SET index_table.enable_scan = force; UPDATE customers SET phone = 'NUMBER' WHERE lower(town) = 'town 3'}],
		'UPDATE to other partitions' => [q{UPDATE customers SET id = CASE WHEN id > 100000 THEN id - 100000 ELSE id + 100000 END WHERE town = 'Town 3' AND id < 300000}],
		'ON CONFLICT' => [ q{INSERT INTO customers SELECT 300000 + i, 'c' || i, 'Town 1', NULL, i::text, true FROM generate_series(1, 500) i UNION ALL SELECT 301000, 'first', 'Town 2', NULL::text[], NULL, true ON CONFLICT (email) DO UPDATE SET phone = 'NUMBER' || excluded.phone}, 'DELETE FROM customers WHERE id = 301000' ],
		'MERGE' => [q{MERGE INTO customers c USING generate_series(1, 400) i ON c.email = 'merged' || i WHEN MATCHED THEN UPDATE SET town = 'NUMBER' WHEN NOT MATCHED THEN INSERT VALUES (400000 + i, 'merged' || i, 'm')}],
		'DELETE' => [ q{DELETE FROM customers WHERE id BETWEEN 500000 AND 500400}, q{INSERT INTO customers SELECT i, 'd' || i, 'd', '{a,b}' FROM generate_series(500000, 500400) i ON CONFLICT DO NOTHING} ],
		'COPY' => [ q{COPY other TO '/dev/null'; BEGIN; INSERT INTO customers SELECT 700000 + i, 'copied' || i FROM generate_series(1, 1000) i; ROLLBACK} ],
		'SELECT' => [q{SET index_table.enable_scan = force; SELECT count(*) FROM customers c JOIN customers d ON d.email = c.email WHERE c.town < 'Town 3'; SELECT id FROM customers ORDER BY phone LIMIT 500; SELECT count(*) FROM customers WHERE tags @> '{t1}'}],
		'FOR UPDATE' => [q{SET index_table.enable_scan = force; SELECT id FROM customers WHERE lower(town) = 'town 5' FOR UPDATE}],
		'prepared' => [q{BEGIN; UPDATE customers SET phone = 'NUMBER' WHERE id % 20 = NUMBER % 20; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'}, q{DO $$ BEGIN IF EXISTS (SELECT FROM pg_prepared_xacts) THEN RAISE 'prepared'; END IF; END $$}],
		'VACUUM' => ['VACUUM customers'],
		'VACUUM FULL' => ['VACUUM FULL customers_0'],
		'CLUSTER' => ['CLUSTER customers_1 USING customers_1_pkey'],
		'TRUNCATE' => ['BEGIN; TRUNCATE customers_2; SELECT count(*) FROM customers; ROLLBACK'],
		'ATTACH, DETACH' => [ 'ALTER TABLE customers DETACH PARTITION customers_2; ALTER TABLE customers ATTACH PARTITION customers_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2)',
			q{SELECT NOT relispartition AS is_out FROM pg_class WHERE relname = 'customers_2' \gset
\if :is_out
ALTER TABLE customers ATTACH PARTITION customers_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
\endif
} ],
		'ALTER TYPE' => [ 'ALTER TABLE customers ALTER town TYPE varchar(50)', 'ALTER TABLE customers ALTER town TYPE text' ]);
}

sub work_traces
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_constraint),
		(SELECT count(*) FROM pg_attribute), (SELECT count(*) FROM pg_index WHERE NOT indisvalid), (SELECT count(*) FROM index_table.definition),
		(SELECT count(*) FROM index_table.partition), (SELECT count(*) FROM pg_prepared_xacts)});
}

sub check_work
{
	my ($node) = @_;
	$node->safe_psql('postgres', 'CALL index_table.drain()');
	oracle_ok($node, 'postgres', 'index tables are in step', 200);
	$node->safe_psql('postgres', 'DROP EXTENSION IF EXISTS amcheck CASCADE'); # of a check before
	check_storage($node, 'postgres');
	foreach my $query (q{SELECT id FROM customers WHERE town = 'Town 7'}, q{SELECT id FROM customers WHERE email LIKE 'm%' ORDER BY email}, q{SELECT id FROM customers WHERE tags @> '{t1}'}, q{SELECT id FROM customers WHERE active})
	{
		my @answers = map { $node->safe_psql('postgres', "SET index_table.enable_scan = $_; SELECT count(*), sum(id) FROM ($query) q") } qw(force off);
		is($answers[0], $answers[1], "the same with index tables and without: $query");
	}
	check_global($node, 'postgres', 'global indexes');
	return;
}

1;
