# Code that a table's owner has put into keys, predicates, policies, triggers, domains, casts and
# operators runs as nobody else when a superuser, or the worker, keeps his index tables: what is
# PostgreSQL's own rule for VACUUM, ANALYZE, REINDEX and CREATE INDEX.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('code', conf => "shared_preload_libraries = 'index_table'\nlog_min_messages = log\nindex_table.vacuum_naptime = 1s\n");

# Whoever runs it is in the server's log; and in it is what he could do.
$node->safe_psql('postgres', q{
CREATE EXTENSION index_table;
CREATE ROLE mallory LOGIN;
GRANT ALL ON SCHEMA public TO mallory;
CREATE SCHEMA hers AUTHORIZATION mallory;
SET ROLE mallory;
CREATE FUNCTION hers.ran(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper) THEN
		RAISE LOG 'RAN % AS % OF %', what, current_user, session_user;
	ELSE
		RAISE LOG 'ran % as %', what, current_user;
	END IF;
	BEGIN SET ROLE postgres; RAISE LOG 'BECAME postgres in %', what; EXCEPTION WHEN others THEN NULL; END;
END $$;
CREATE FUNCTION hers.key(text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('key'); RETURN lower($1); END $$;
CREATE FUNCTION hers.wanted(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('predicate'); RETURN $1 > 0; END $$;
CREATE FUNCTION hers.elements(text) RETURNS SETOF text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('elements'); RETURN NEXT $1; RETURN NEXT 'all'; END $$;
CREATE FUNCTION hers.visible(int) RETURNS boolean STABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('policy'); RETURN true; END $$;
CREATE FUNCTION hers.checked(text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('domain'); RETURN true; END $$;
CREATE FUNCTION hers.compared(anyenum, anyenum) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('comparison'); RETURN enum_cmp($1, $2); END $$;
CREATE FUNCTION hers.fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('trigger'); RETURN COALESCE(NEW, OLD); END $$;
CREATE DOMAIN hers.checked_text AS text CHECK (hers.checked(VALUE));
CREATE TYPE hers.colour AS ENUM ('red', 'green');
CREATE OPERATOR CLASS hers.colours FOR TYPE hers.colour USING btree AS
	OPERATOR 1 pg_catalog.<(anyenum, anyenum), OPERATOR 2 pg_catalog.<=(anyenum, anyenum), OPERATOR 3 pg_catalog.=(anyenum, anyenum),
	OPERATOR 4 pg_catalog.>=(anyenum, anyenum), OPERATOR 5 pg_catalog.>(anyenum, anyenum), FUNCTION 1 hers.compared(anyenum, anyenum);
} =~ s/CREATE OPERATOR CLASS/RESET ROLE;\nCREATE OPERATOR CLASS/r . q{;
ALTER OPERATOR CLASS hers.colours USING btree OWNER TO mallory;
SET ROLE mallory;
CREATE TABLE t (id int PRIMARY KEY, name hers.checked_text, number int, colour hers.colour) PARTITION BY HASH (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE t_3 (id int NOT NULL, name hers.checked_text, number int, colour hers.colour);
INSERT INTO t SELECT i, 'Name' || i, i, CASE i % 2 WHEN 0 THEN 'red' ELSE 'green' END::hers.colour FROM generate_series(1, 40) AS i WHERE satisfies_hash_partition('t'::regclass, 4, 0, i) OR satisfies_hash_partition('t'::regclass, 4, 1, i) OR satisfies_hash_partition('t'::regclass, 4, 2, i);
INSERT INTO t_3 SELECT i, 'Name' || i, i, 'red'::hers.colour FROM generate_series(41, 80) AS i WHERE satisfies_hash_partition('t'::regclass, 4, 3, i);
ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY hers ON t USING (hers.visible(id));
});

my $entries = sub { my ($name, $key, $where, $from) = @_; return qq{SELECT count(*) FROM ((SELECT $key, p.partition_id, b.id FROM t AS b JOIN index_table.partition AS p ON p.relation = b.tableoid $from WHERE $where EXCEPT ALL SELECT * FROM $name) UNION ALL (SELECT * FROM $name EXCEPT ALL SELECT $key, p.partition_id, b.id FROM t AS b JOIN index_table.partition AS p ON p.relation = b.tableoid $from WHERE $where)) AS x} };
my $differences = join(';', $entries->('t_by_key', 'lower(name)', 'number > 0', ''), $entries->('t_later', 'lower(name)', 'true', ''), $entries->('t_elements', 'm.v', 'true', "CROSS JOIN LATERAL (VALUES (b.name::text), ('all')) AS m (v)"));

my $position = 0;
my %ran;

# as_another($what, $sql): executes it as the superuser; her code ran as herself, if it ran
sub as_another
{
	my ($what, $sql, %options) = @_;
	$position = -s $node->logfile;
	my ($status, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0);
	is($options{fails} ? '' : $err, '', "$what: done");
	hers_alone($what);
}

sub hers_alone
{
	my ($what) = @_;
	my $log = slurp_file($node->logfile, $position);
	my %others = map { $_ => 1 } $log =~ /((?:RAN|BECAME) .*)/g;
	is(join("\n", sort keys %others), '', "$what: nothing of hers as another");
	$ran{$1}++ while $log =~ /ran (\w+) as mallory/g;
	my @someone = grep { $_ ne 'mallory' } $log =~ /ran \w+ as (\w+)/g;
	is("@someone", '', "$what: nor as anybody");
}

as_another('create', q{
SELECT index_table.create('t', 'hers.key(name)', predicate => 'hers.wanted(number)', is_unique => true, name => 't_by_key');
SELECT index_table.create('t', 'hers.key(name)', maintenance => 'deferred', name => 't_later');
SELECT index_table.create('t', 'hers.elements(name)', name => 't_elements');
CREATE INDEX t_global ON t USING global (hers.key(name)) WHERE hers.wanted(number);
CALL index_table.create_concurrently('t', 'hers.key(name)', 'denormalized', name => 't_online', predicate => 'hers.wanted(number)');
CALL index_table.create_index_concurrently('CREATE INDEX t_global_online ON t USING global (hers.key(name))')});
as_another('rebuild', "CALL index_table.rebuild('t_online')");
$node->safe_psql('postgres', q{CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION hers.fired();
CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION hers.fired();
CREATE TRIGGER c BEFORE TRUNCATE ON t EXECUTE FUNCTION hers.fired()});
# Triggers on what is kept for her, which she owns.
foreach my $table (qw(t_by_key t_later t_elements t_online))
{
	my ($status, $out, $err) = $node->psql('postgres', "SET ROLE mallory; CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE ON $table FOR EACH ROW EXECUTE FUNCTION hers.fired(); CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON $table EXECUTE FUNCTION hers.fired()");
	note("triggers on $table: $err");
}
my ($queue) = $node->safe_psql('postgres', q{SELECT oid::regclass FROM pg_class WHERE relname ~ '^t_later_queue' AND relkind IN ('r', 'p') ORDER BY oid LIMIT 1});
$node->psql('postgres', "SET ROLE mallory; CREATE TRIGGER z BEFORE DELETE ON $queue FOR EACH ROW EXECUTE FUNCTION hers.fired()");

# Changes of hers.
$node->safe_psql('postgres', q{SET ROLE mallory; UPDATE t SET name = 'NEW' || id WHERE id % 3 = 0; DELETE FROM t WHERE id = 5; INSERT INTO t VALUES (1000, 'Late', 4, 'red')});

as_another('drain', 'CALL index_table.drain()');
as_another('drain of one', "CALL index_table.drain('t_later')");
as_another('verify', join(';', map { "SELECT * FROM index_table.verify('$_')" } qw(t_by_key t_later t_elements t_online t_global t_global_online)));
# Damage, to be mended.
as_another('repair', q{SET session_replication_role = replica; DELETE FROM t_by_key WHERE id < 10; INSERT INTO t_elements SELECT 'wrong', partition_id, id FROM t_elements WHERE id = 20; DELETE FROM t_later; DELETE FROM t_online;
RESET session_replication_role;
SELECT index_table.repair('t_by_key'), index_table.repair('t_elements'), index_table.repair('t_later'), index_table.repair('t_online'), index_table.repair('t_global')});
as_another('ATTACH PARTITION', 'ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES WITH (MODULUS 4, REMAINDER 3)');
as_another('DETACH PARTITION', 'ALTER TABLE t DETACH PARTITION t_3');
as_another('ATTACH PARTITION again', 'ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES WITH (MODULUS 4, REMAINDER 3)');
as_another('vacuum', 'SELECT index_table.vacuum(); VACUUM t; VACUUM FULL t_0; VACUUM t_by_key');
as_another('ANALYZE', 'ANALYZE t, t_by_key, t_later');
as_another('REINDEX', 'REINDEX TABLE t_0; REINDEX INDEX t_global; REINDEX TABLE t_by_key');
as_another('CLUSTER', 'CLUSTER t_0 USING t_0_pkey');
as_another('set_maintenance', "SELECT index_table.set_maintenance('t_later', 'immediate'); SELECT index_table.set_maintenance('t_later', 'deferred')");
as_another('set_visible', join(';', map { "SELECT index_table.set_visible('$_', false); SELECT index_table.set_visible('$_', true)" } qw(t_by_key t_global)));
as_another('advice, and statements', q{SELECT * FROM index_table.advise('t'); SELECT index_table.ddl(index_table) FROM index_table.index_tables; SELECT index_table.ddl('t_global');
	SELECT * FROM index_table.statement_conditions('t', 'SELECT id FROM t WHERE name = $1 AND number = $2', 'public')});
as_another('a column that is added', 'ALTER TABLE t ADD COLUMN extra int DEFAULT 3');
as_another('a column that is dropped', 'ALTER TABLE t DROP COLUMN extra');
as_another('a renamed column', 'ALTER TABLE t RENAME COLUMN number TO numbers; ALTER TABLE t RENAME COLUMN numbers TO number');
as_another('reading what there is', "SELECT * FROM index_table.index_tables; SELECT * FROM index_table.queue; SELECT * FROM index_table.global_indexes; SELECT * FROM index_table.partitions; SELECT * FROM index_table.progress; SELECT * FROM index_table.queue_lag('t_later')");
# Values that another passes, or that come back in a token, are read as a query reads literals: her casts are not asked, and
# her domains check as herself.
$node->safe_psql('postgres', q{
SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION hers.cast(text) RETURNS hers.colour IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('cast'); RETURN (enum_range(NULL::hers.colour))[2]; END $$;
CREATE FUNCTION hers.cast(int) RETURNS hers.colour IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('cast'); RETURN (enum_range(NULL::hers.colour))[2]; END $$;
CREATE CAST (text AS hers.colour) WITH FUNCTION hers.cast(text) AS IMPLICIT;
CREATE CAST (int AS hers.colour) WITH FUNCTION hers.cast(int) AS ASSIGNMENT;
CREATE FUNCTION hers.part(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM hers.ran('partition'); RETURN $1; END $$;
CREATE TYPE hers.pair AS (name hers.checked_text, number int);
CREATE TABLE r (id int PRIMARY KEY, name hers.checked_text, pair hers.pair, colour hers.colour, names hers.checked_text[]);
INSERT INTO r SELECT i, 'Name' || i, ROW(('Name' || i)::hers.checked_text, i)::hers.pair, 'red', ARRAY['Name' || i] FROM generate_series(1, 9) AS i;
SELECT index_table.create('r', 'name'), index_table.create('r', 'pair'), index_table.create('r', 'colour'), index_table.create('r', 'names, name', name => 'r_by_names');
CREATE TABLE routed (id int, name hers.checked_text) PARTITION BY HASH (hers.part(id));
CREATE TABLE routed_0 PARTITION OF routed FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE listed (colour hers.colour) PARTITION BY LIST (colour);
CREATE TABLE listed_red PARTITION OF listed FOR VALUES IN ('red')});
as_another('values that are read', q{
SELECT index_table.lookup('r_by_name', 'Name1'), index_table.lookup('r_by_pair', '(Name1,1)'), index_table.lookup('r_by_colour', 'red');
SELECT index_table.fetch(NULL::r, 'r_by_name', 'Name1'), index_table.fetch(NULL::r, 'r_by_pair', '(Name1,1)'), index_table.fetch(NULL::r, 'r_by_colour', 'red');
SELECT index_table.shards('r_by_name', 'Name1'), index_table.shard_of('routed', 1), index_table.shard_of('listed', 'red')});
as_another('values of other types that are read', q{
SELECT index_table.lookup('r_by_pair', '(Name1,1)'::varchar), index_table.lookup('r_by_pair', '(Name1,1)'::name), index_table.fetch(NULL::r, 'r_by_pair', '(Name1,1)'::varchar);
SELECT index_table.lookup('r_by_names', ARRAY['Name1'], 'Name1'), index_table.lookup('r_by_names', '{Name1}'::varchar)});
as_another("a page after another by $_", "SELECT index_table.page(NULL::r, 'r_by_$_', 2, (SELECT max(next) FROM index_table.page(NULL::r, 'r_by_$_', 2, NULL)))") foreach 'name', 'pair', 'colour';
is($node->safe_psql('postgres', "SELECT string_agg((r.r).id::text, ' ') FROM index_table.page(NULL::r, 'r_by_pair', 2, (SELECT max(next) FROM index_table.page(NULL::r, 'r_by_pair', 2, NULL))) AS r (r, next)"), '3 4', 'a page goes on');
is($node->safe_psql('postgres', "SELECT count(*) FROM index_table.lookup('r_by_colour', 'red')"), '9', 'text is no argument of a cast');
like(sqlstate($node, 'postgres', "SELECT index_table.lookup('r_by_colour', 1)"), qr/^42846/, 'a cast that is not implicit is not taken');
is($ran{cast} // 0, 0, 'casts have not run');
ok($ran{partition}, 'an expression that routes has');

as_another('TRUNCATE of a partition', 'BEGIN; DROP TRIGGER c ON t; TRUNCATE t_0; ROLLBACK');
as_another('a new owner, and back', 'ALTER TABLE t OWNER TO postgres; ALTER TABLE t OWNER TO mallory; ' . join(';', map { "ALTER TABLE t_$_ OWNER TO mallory" } 0 .. 3));
as_another('a dump', 'SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class >= 16384');

# The worker drains and sweeps.
$position = -s $node->logfile;
$node->safe_psql('postgres', q{UPDATE t SET name = 'Changed' || id WHERE id % 4 = 0; TRUNCATE t_1}, extra_params => [ '-U', 'mallory' ]);
$node->poll_query_until('postgres', q{SELECT pending = 0 FROM index_table.queue_lag('t_later')}) or die 'the worker does not drain';
hers_alone('the worker');

# The server is started anew with what is queued.
$position = -s $node->logfile;
$node->safe_psql('postgres', q{UPDATE t SET name = 'Again' || id WHERE id % 5 = 0}, extra_params => [ '-U', 'mallory' ]);
$node->restart;
$node->poll_query_until('postgres', q{SELECT pending = 0 FROM index_table.queue_lag('t_later')}) or die 'the worker does not drain';
hers_alone('the worker after a restart');

# It verifies, and repairs what is damaged.
$position = -s $node->logfile;
$node->safe_psql('postgres', q{SET session_replication_role = replica; DELETE FROM t_by_key WHERE id IN (SELECT id FROM t_by_key ORDER BY id LIMIT 3); DELETE FROM t_later WHERE id IN (SELECT id FROM t_later ORDER BY id LIMIT 3); DELETE FROM t_elements WHERE id IN (SELECT id FROM t_elements ORDER BY id LIMIT 3)});
$node->safe_psql('postgres', "ALTER SYSTEM SET index_table.$_") foreach 'verify_repair = on', 'verify_share = 100', 'verify_interval = 1';
$node->reload;
$node->poll_query_until('postgres', q{SELECT bool_and(last_verify IS NOT NULL) AND count(last_repair) >= 3 FROM index_table.stat}) or die 'the worker does not verify and repair';
$node->safe_psql('postgres', 'ALTER SYSTEM SET index_table.verify_interval = 0');
$node->reload;
hers_alone('the worker that verifies and repairs');

is_deeply([ grep { !$ran{$_} } qw(key predicate elements) ], [], 'all of it was run: ' . join(', ', map { "$_ $ran{$_} times" } sort keys %ran));
$node->safe_psql('postgres', 'CALL index_table.drain(); SELECT index_table.vacuum()');
is($node->safe_psql('postgres', $differences), "0\n0\n0", 'the index tables are right');
is($node->safe_psql('postgres', join(' UNION ALL ', map { "SELECT count(*) FROM index_table.verify('$_')" } qw(t_by_key t_later t_elements t_online t_global))), "0\n0\n0\n0\n0", 'and verify says so');
as_another('drop', "SELECT index_table.drop('t_by_key'), index_table.drop('t_later'), index_table.drop('t_elements'), index_table.drop('t_online'); DROP TABLE t");
done_testing();
