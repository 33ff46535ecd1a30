# Shards that are not captured: a coordinator and shards die at any step of a commit and of the sweep that mends what
# was left. After the next drain everything is in step, no intent is left, and nothing is found twice. And the worker
# sweeps by itself after a crash. INTENTS_SEED and INTENTS_ROUNDS repeat and lengthen a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use CommitCrashes;
use IndexTableTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{INTENTS_SEED} // int(rand(2**31));
my $rounds = how_many('INTENTS_ROUNDS', 13);
srand($seed);
note "INTENTS_SEED=$seed INTENTS_ROUNDS=$rounds";

start_servers();
crash_at_every_step($rounds);

# --- A dump ---------------------------------------------------------------------------

# What is left when the dump is made has the copy do without the index table, until it has been looked at. Which rows
# it is about is not in the dump, which everybody may make who owns the tables.
leave_behind();
my $dump = "$PostgreSQL::Test::Utils::tmp_check/coordinator.dump";
$coordinator->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $coordinator->connstr('postgres') ], 'dumped');
$coordinator->safe_psql('postgres', 'CREATE DATABASE copy');
$coordinator->command_ok([ 'pg_restore', '-e', '-d', $coordinator->connstr('copy'), $dump ], 'restored');
my ($definitions) = run_command([ 'pg_restore', '-f', '-', $dump ]);
unlike($definitions, qr/COPY index_table\.(?:intent|undrained)/, 'no keys in what is dumped of the extension');
is($coordinator->safe_psql('copy', 'SELECT bool_or(is_complete) FROM index_table.index_tables'), 'f', 'the copy is not believed');
$coordinator->safe_psql('copy', 'CALL index_table.drain()');
is($coordinator->safe_psql('copy', 'SELECT bool_and(is_complete) FROM index_table.index_tables'), 't', 'drained, it is');
oracle_ok($coordinator, 'copy', 'the copy is mended', 0);
$coordinator->safe_psql('postgres', 'DROP DATABASE copy');
drained_ok('the original');

# --- Partitions that go ---------------------------------------------------------------

leave_behind();
$coordinator->safe_psql('postgres', 'DROP FOREIGN TABLE people_1');
isnt(unlocked(), '0', 'intents of a table that is gone');
drained_ok('after DROP');
$coordinator->safe_psql('postgres', q{CREATE FOREIGN TABLE people_1 PARTITION OF people FOR VALUES IN (1) SERVER shard1 OPTIONS (schema_name 'public', table_name 'people')});
in_step('after its return');

# --- The worker -----------------------------------------------------------------------

crash_beside_worker();
check_storage($coordinator, 'postgres');

done_testing();
