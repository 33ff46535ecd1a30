# drain() clears a queue away while set_maintenance() waits for writers: whoever holds a part of the queue waits for no
# table. A deadlock would end one of the two.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('clearing', conf => "index_table.drain_naptime = 0\n");
my $db = 'postgres';
$node->safe_psql($db, q{
CREATE EXTENSION index_table;
CREATE EXTENSION dblink;
CREATE TABLE people (id text PRIMARY KEY, town text);
SELECT index_table.create('people', 'town', maintenance => 'deferred');
});
$node->safe_psql($db, oracle_sql(describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => ['id'], identity => 1)));
my $connection = $node->connstr($db) . ' options=-cclient_min_messages=warning';

# A writer has a part of the queue, for which a drain waits a tenth of a second: meanwhile, in one session, somebody
# begins to wait for the table, and the writer ends.
my ($met, $left) = (0, 0);
foreach my $round (1 .. 10)
{
	# As large as what is cleared away.
	$node->safe_psql($db, qq{INSERT INTO people SELECT 'row $round ' || (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 60) WHERE i > 0), 'Town' FROM generate_series(1, 1200) AS i});
	my ($code, $stdout, $stderr) = $node->psql($db, qq{
SELECT dblink_connect(name, \$\$$connection\$\$) FROM unnest(ARRAY['writer', 'drain', 'switch']) AS name;
SELECT dblink_exec('writer', 'BEGIN'), dblink_exec('writer', \$\$INSERT INTO people VALUES ('writer $round', 'Town')\$\$), dblink_send_query('drain', 'CALL index_table.drain()');
DO \$\$
DECLARE
    until timestamptz := clock_timestamp() + '60 s';
BEGIN
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock') AND clock_timestamp() < until LOOP END LOOP;
    PERFORM dblink_send_query('switch', 'SELECT index_table.set_maintenance(''people_by_town'', ''immediate'')::text');
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock') AND clock_timestamp() < until LOOP END LOOP;
    RAISE WARNING '%', (SELECT count(*) FROM pg_locks WHERE NOT granted);
    PERFORM dblink_exec('writer', 'COMMIT');
END \$\$;
SELECT * FROM dblink_get_result('switch') AS result (nothing text);
SELECT * FROM dblink_get_result('drain') AS result (nothing text);
});
	unlike($stderr, qr/ERROR/, "round $round: nobody fails") or last;
	$met++ if $stderr =~ /WARNING:  2/;
	is($node->safe_psql($db, q{SELECT maintenance FROM index_table.index_tables}), 'immediate', "round $round: switched");
	oracle_ok($node, $db, "round $round: in step");
	$node->safe_psql($db, q{SELECT index_table.set_maintenance('people_by_town', 'deferred')});
}
cmp_ok($met, '>', 0, 'both waited');
check_storage($node, $db, $db);
unlike(slurp_file($node->logfile), qr/PANIC|deadlock/, 'nothing broke');
done_testing();
