# The random tests make the same statements of the same seed, whatever order perl gives to its hashes.
use strict;
use warnings;

use FindBin;
use Test::More;

my $lib = "$FindBin::RealBin/lib";
my $seeds = $ENV{SEEDS_COUNT} // 20;

# What is generated, as text. RandomQueries wants to know values, which it is told.
my %programs = (
	RandomStatements => q{
		my $schema = RandomTables::generate(citext => 1, icu => 1);
		$schema->{has_merge} = 1;
		$schema->{name} = 'schema';
		show($schema, RandomStatements::generate($schema, 60, '/nowhere'));
	},
	RandomQueries => q{
		my $schema = RandomQueries::generate(citext => 1, icu => 1, pg_trgm => 1, btree_gist => 1);
		my @types = ("int '1'\x02'2'", "text[] '{a,b}'", "text 'x'\x02'y'");
		my $learnt = '';
		foreach (split /\n/, RandomQueries::learn_sql($schema)) { $learnt .= "$1 $types[$2 % 3]\n" if /^SELECT '(\d+ (\d+)) /; }
		RandomQueries::learn($schema, $learnt);
		show($schema, map({ RandomQueries::query($schema) } 1 .. 60), RandomQueries::settings(150000));
	},
	RandomChanges => q{
		my $schema = RandomChanges::generate((150000, 150020, 180000)[ $seed % 3 ]);
		show($schema, map { RandomChanges::batch($schema, 15) } 1 .. 4);
	},
	RandomUpserts => q{
		my $schema = RandomUpserts::generate((150000, 170000, 180000)[ $seed % 3 ], $seed, $seed, icu => 1);
		show($schema, map { RandomUpserts::batch($schema, 12) } 1 .. 4);
	});

# The texts that one order of hashes makes, a digest a seed.
sub generated
{
	my ($module, $order) = @_;
	local $ENV{PERL_HASH_SEED} = $order;
	local $ENV{PERL_PERTURB_KEYS} = 2;
	my $program = qq{
		use strict; use warnings;
		my \$out; BEGIN { open \$out, '>&', \\*STDOUT } # which PostgreSQL's modules take to a log
		use Data::Dumper; use Digest::MD5 'md5_hex';
		use RandomTables; use $module;
		\$Data::Dumper::Sortkeys = 1;
		sub show { local \$Data::Dumper::Indent = 1; print \$out md5_hex(join("\\n", map { ref \$_ ? Dumper(\$_) : \$_ } \@_)), "\\n"; }
		foreach my \$seed (1 .. $seeds) { srand(\$seed); $programs{$module} }
		exit 0;};
	open my $output, '-|', $^X, (map { "-I$_" } $lib, @INC), '-e', $program or die $!;
	my @digests = <$output>;
	close $output or die "$module: it failed";
	return \@digests;
}

foreach my $module (sort keys %programs)
{
	my ($first, @others) = map { generated($module, $_) } 1 .. 4;
	is(scalar(@$first), $seeds, "$module: a text a seed");
	is_deeply($_, $first, "$module: the same of the same seed") foreach @others;
	my %different = map { $_ => 1 } @$first;
	is(scalar(keys %different), $seeds, "$module: another of another seed");
}

done_testing();
