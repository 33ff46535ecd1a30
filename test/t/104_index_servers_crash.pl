# Index tables on servers, of a table with partitions here and on shards: a coordinator and shards die at any step of a
# commit and of the sweep that mends what was left. After the next drain everything is in step, no intent is left, and
# nothing is found twice. INDEX_SERVERS_SEED and INDEX_SERVERS_ROUNDS repeat and lengthen a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use CommitCrashes;
use IndexTableTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{INDEX_SERVERS_SEED} // int(rand(2**31));
my $rounds = how_many('INDEX_SERVERS_ROUNDS', 13);
srand($seed);
note "INDEX_SERVERS_SEED=$seed INDEX_SERVERS_ROUNDS=$rounds";

start_servers(servers => 1);
crash_at_every_step($rounds);

crash_beside_worker();
check_storage($coordinator, 'postgres');

done_testing();
