# Clients that fight for the keys of a global index: what 055_unique.pl does, which see.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster; # what they do before a program runs is not done later
use PostgreSQL::Test::Utils;
use Test::More;

our $is_global = 1;
do "$FindBin::RealBin/055_unique.pl" or die $@ || $!;
