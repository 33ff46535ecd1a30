# Triggers on an index table have the rights of those on its base table when a subscription's worker applies changes: from
# 16 on of the table's owner, before that of the subscription's.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('server', allows_streaming => 'logical');
my $table = 'CREATE TABLE people (id int PRIMARY KEY, email text) PARTITION BY HASH (id);
	CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);';
$node->safe_psql('postgres', "$table
	CREATE DATABASE copy;");
$node->safe_psql('postgres', 'CREATE PUBLICATION people FOR TABLE people WITH (publish_via_partition_root = true);');
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('people', 'pgoutput')");
$node->safe_psql('copy', "CREATE ROLE keeper; $table
	CREATE EXTENSION index_table;
	ALTER TABLE people OWNER TO keeper; ALTER TABLE people_0 OWNER TO keeper; ALTER TABLE people_1 OWNER TO keeper;
	GRANT CREATE, USAGE ON SCHEMA public TO keeper;
	SELECT index_table.create('people', 'email', is_unique => true);
	CREATE TABLE fired (name text, role name);
	GRANT INSERT ON fired TO keeper;
	SET ROLE keeper;" . q{
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.fired VALUES (CASE WHEN TG_TABLE_NAME LIKE '%email' THEN 'index table' ELSE 'base table' END, current_user);
		RETURN NULL;
	END $$;
	CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON people FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON people_by_email FOR EACH ROW EXECUTE FUNCTION note();
	ALTER TABLE people ENABLE ALWAYS TRIGGER note;
	ALTER TABLE people_by_email ENABLE ALWAYS TRIGGER note;});
$node->safe_psql('copy', oracle_sql(describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1)));
my $connection = $node->connstr . ' dbname=postgres';
$node->safe_psql('copy', "CREATE SUBSCRIPTION people CONNECTION '$connection' PUBLICATION people WITH (create_slot = false, slot_name = people, copy_data = false)");

$node->safe_psql('postgres', q{
	INSERT INTO people SELECT i, 'mail ' || i FROM generate_series(1, 10) AS i;
	UPDATE people SET email = email || '!' WHERE id < 4;
	DELETE FROM people WHERE id > 8;});
$node->wait_for_catchup('people');
is($node->safe_psql('copy', 'SELECT count(*) FROM people'), '8', 'changes arrive');
is($node->safe_psql('copy', q{SELECT string_agg(DISTINCT role, ' ') FROM fired WHERE name = 'index table'}),
	$node->safe_psql('copy', q{SELECT string_agg(DISTINCT role, ' ') FROM fired WHERE name = 'base table'}),
	'triggers on both have the same rights');
oracle_ok($node, 'copy', 'applied');

$node->safe_psql('copy', 'ALTER SUBSCRIPTION people DISABLE; ALTER SUBSCRIPTION people SET (slot_name = NONE); DROP SUBSCRIPTION people;');
$node->stop;
done_testing();
