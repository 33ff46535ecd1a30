# The examples of README.md and docs/: each document's, in order, in one session of psql, in a database
# of their own. What a document shows of their output is what psql prints, and the index tables that
# they leave are exact. DOCUMENTS names those to run beside README.md; all are run without it.
# CONTRIBUTING.md says, under Tests, how a document writes examples.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use Documents qw(user_documents read_document);
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tree = "$FindBin::RealBin/../..";

# The index tables that the examples leave, for the oracle. One that is not here fails the test.
my @of_readme = (
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['customer_id'], identity => 1, is_unique => 1),
	describe(name => 'customers_by_town_last_name', base => 'customers', key => [ 'b.town', 'b.last_name' ],
		copies => [ 'customer_id', 'first_name', 'phone' ], identity => 1));
my @of_patterns = (
	describe(name => 'employees_by_email', base => 'employees', key => ['b.email'], copies => [ 'department', 'employee_id' ], identity => 2, is_unique => 1),
	describe(name => 'employees_by_last_name', base => 'employees', key => ['b.last_name'], copies => [ 'department', 'employee_id' ], identity => 2),
	describe(name => 'employees_by_phone', base => 'employees', key => ['b.phone'],
		copies => [ 'department', 'employee_id', 'last_name', 'email' ], identity => 2),
	describe(name => 'reviews_by_employee_id_year', base => 'reviews', key => [ 'b.employee_id', 'b.year' ], copies => [ 'review_id', 'rating' ], identity => 1),
	describe(name => 'projects_of_member', base => 'projects', key => ['m.v'],
		elements => 'SELECT u.v, u.o FROM unnest(b.members) WITH ORDINALITY u(v, o)', copies => ['project_id'], identity => 1),
	describe(name => 'products_by_maker_title', base => 'products', key => [ 'b.maker', 'b.title' ],
		copies => [ 'product_id', 'price', 'note' ], identity => 1),
	describe(name => 'events_by_at_event_id', base => 'events', key => [ 'b.at', 'b.event_id' ], copies => ['device'], identity => 1),
	describe(name => 'persons_by_email', base => 'things', key => [q{b.body ->> 'email'}], predicate => q{b.kind = 'person'},
		copies => [ 'tenant', 'thing_id' ], identity => 2, is_unique => 1),
	describe(name => 'orders_by_number', base => 'things', key => [q{(b.body ->> 'number')::int}], predicate => q{b.kind = 'order'},
		copies => [ 'tenant', 'thing_id' ], identity => 2, is_unique => 1));
my %index_tables = (
	'README.md' => [@of_readme],
	'docs/patterns.md' => [@of_patterns],
	'docs/patterns_writing.md' => [
		@of_patterns,
		describe(name => 'logins_by_account', base => 'logins', key => ['b.account'], copies => [ 'login_id', 'day' ], identity => 2),
		describe(name => 'orders_by_order_number', base => 'orders', key => ['b.order_number'], copies => ['customer'], identity => 1, is_unique => 1),
		describe(name => 'orders_tail', base => 'orders', key => [ 'b.order_number % 4', 'b.at' ],
			copies => [ 'customer', 'order_number' ], identity => 2)
	],
	'docs/reference.md' => [
		@of_readme,
		describe(name => 'customers_backwards', base => 'customers', key => ['lower(b.last_name)'], copies => ['customer_id'], identity => 1)
	],
	'docs/queries.md' => [
		@of_readme,
		describe(name => 'places_by_kind', base => 'places', key => ['b.kind'], copies => [ 'id', 'place' ], identity => 1),
		describe(name => 'customers_by_last_name', base => 'customers', key => ['b.last_name'],
			copies => [ 'customer_id', 'tags', 'member' ], identity => 1)
	],
	'docs/constraints.md' => [
		@of_readme,
		describe(name => 'seats_by_seat', base => 'seats', key => ['b.seat'], copies => [ 'hall', 'guest' ], identity => 2, is_unique => 1),
		describe(name => 'doors_by_number', base => 'doors', key => ['b.number'], copies => ['id'], identity => 1, is_unique => 1),
		describe(name => 'bookings_by_room_during', base => 'bookings', key => [ 'b.room', 'b.during' ], copies => [ 'id', 'day' ], identity => 2)
	],
	'docs/shards.md' => [
		describe(name => 'accounts_by_email', base => 'accounts', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1)
	],
	'docs/outbox.md' => [
		describe(name => 'people_by_email', base => 'people', key => ['b.email'], copies => ['id'], identity => 1, is_unique => 1),
		describe(name => 'people_by_town', base => 'people', key => ['b.town'], copies => ['id'], identity => 1)
	],
	'docs/deferred.md' => [
		describe(name => 'events_by_device', base => 'events', key => ['b.device'], copies => [ 'id', 'day' ], identity => 2),
		describe(name => 'archive_by_device', base => 'archive', key => ['b.device'], copies => [ 'id', 'day' ], identity => 2)
	],
	'docs/operations.md' => [@of_readme]);

my $node = new_node('documents', conf => "client_min_messages = notice\n");

# --- Scripts ------------------------------------------------------------------------

# What psql is to run of a document, and the blocks of which it is to show the output, by line.
# A database is the one to come back to; of another document only its SQL is run, and nothing compared.
sub script_of
{
	my ($document, $database, $other) = @_;
	my ($script, %shown, $block) = ('');
	foreach my $part (read_document("$tree/$document"))
	{
		if ($part->{kind} eq 'setup')
		{
			$script .= "\\echo @@ $document:$part->{line}\n\\set ON_ERROR_STOP on\n"
			  . ($part->{of} ? (script_of($part->{of}, $database, 1))[0] : "$part->{text}\n");
		}
		elsif ($part->{kind} eq 'code' && $part->{language} eq 'text')
		{
			# It belongs to the block right before it.
			my $error = problem_of_output($part, $block);
			fail("$document, line $part->{line}: $error") if $error;
			$shown{ $block->{line} } = $part->{text} unless $error || $other;
		}
		elsif ($part->{kind} eq 'code' && !$part->{skipped} && $part->{language} =~ /^(sql|sh)$/)
		{
			next if $1 eq 'sh' && ($document eq 'README.md' || $other);
			$script .= "\\echo @@ $document:$part->{line}\n\\set ON_ERROR_STOP @{[ expects_error($document, $part) ? 'off' : 'on' ]}\n" . command_of($part, $database);
		}
		# Python and Ruby are run by 052_clients.pl.
		elsif ($part->{kind} eq 'code' && !$part->{skipped} && $part->{language} !~ /^(ini|python|ruby)$/)
		{
			fail("$document, line $part->{line}: examples are sql, sh, ini, python, ruby or text, not '$part->{language}'");
		}
		$block = $part->{kind} eq 'code' && $part->{language} ne 'text' ? $part : undef;
	}
	return ($script, \%shown);
}

sub problem_of_output
{
	my ($output, $block) = @_;
	return $block && !$block->{skipped} && $block->{language} =~ /^(sql|sh)$/ ? '' : 'output of nothing that is run';
}

# Whether a document shows that the block fails.
sub expects_error
{
	my ($document, $block) = @_;
	my @parts = read_document("$tree/$document");
	my ($i) = grep { $parts[$_]{line} == $block->{line} } 0 .. $#parts;
	my $next = $parts[ $i + 1 ];
	return $next && $next->{kind} eq 'code' && $next->{language} eq 'text' && $next->{text} =~ /^ERROR:/m;
}

my $commands = 0;

sub command_of
{
	my ($block, $database) = @_;
	if ($block->{language} eq 'sh')
	{
		my $file = "$PostgreSQL::Test::Utils::tmp_check/command_" . ++$commands . '.sh';
		append_to_file($file, $block->{text});
		return "\\! cd $PostgreSQL::Test::Utils::tmp_check && bash -e $file </dev/null 2>&1 || echo '@@ failed'\n";
	}
	return $block->{text} unless $block->{databases};
	return join('', map { "\\c $_\n$block->{text}" } @{ $block->{databases} }) . "\\c $database\n";
}

# --- Running ------------------------------------------------------------------------

# Runs it, and returns the exit code, the output by document:line of the block, with white space at
# the ends of lines removed, and the last of these.
sub run_script
{
	my ($database, $script) = @_;
	my ($file, $output) = ("$PostgreSQL::Test::Utils::tmp_check/$database.sql", '');
	append_to_file($file, $script);
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => $database, PGOPTIONS => '');
	my $run = IPC::Run::start([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1' ], '<', $file, '>&', \$output, IPC::Run::timeout(300));
	$run->finish;
	my (%printed, $at);
	foreach my $line (split /\n/, $output)
	{
		if ($line =~ /^@@ (.*)/) { $printed{ $at = $1 } = ''; next; }
		$printed{$at} .= $line =~ s/\s+$//r . "\n" if defined $at;
	}
	return ($run->result(0), \%printed, $at);
}

# README.md and all others, or those that DOCUMENTS names.
my @documents = grep { my $document = $_; !$ENV{DOCUMENTS} || grep { $document eq $_ } 'README.md', split ' ', $ENV{DOCUMENTS} } user_documents($tree);
foreach my $document (@documents)
{
	my $database = $document =~ s{^.*/|\.md$}{}gr =~ tr/A-Z/a-z/r;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	my ($script, $shown) = script_of($document, $database);
	my ($status, $printed, $last) = run_script($database, $script);
	is($status, 0, "$document: the examples run") or diag("$last: $printed->{$last}");
	ok(!exists $printed->{failed}, "$document: so do the commands");
	foreach my $line (sort { $a <=> $b } keys %$shown)
	{
		is(($printed->{"$document:$line"} // "nothing\n") =~ s/\n+$//r, $shown->{$line} =~ s/[ \t]+$//mgr =~ s/\n+$//r, "$document, line $line: prints what is shown");
	}

	# Exact, every one.
	next unless $node->safe_psql($database, "SELECT count(*) FROM pg_extension WHERE extname = 'index_table'");
	my @tables = @{ $index_tables{$document} // [] };
	is($node->safe_psql($database, 'SELECT index_table FROM index_table.definition ORDER BY index_table::text COLLATE "C"'),
		join("\n", sort map { $_->{name} } @tables), "$document: the oracle knows the index tables");
	$node->safe_psql($database, oracle_sql(@tables));
	oracle_ok($node, $database, "$document: index tables are exact");
}

# --- Reference ----------------------------------------------------------------------

# It names every function that is not internal, with its arguments, every view with its columns, every
# table and every setting.
my ($reference) = slurp_file("$tree/docs/reference.md");
my @names = split /\n/, $node->safe_psql('readme', q{
	LOAD 'index_table';
	SELECT unnest(p.proname || p.proargnames::name[]) FROM pg_proc p
	 WHERE p.pronamespace = 'index_table'::regnamespace AND p.prorettype::regtype::text !~ 'trigger$'
	   AND obj_description(p.oid, 'pg_proc') NOT LIKE 'internal:%'
	UNION SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'index_table'::regnamespace AND c.relkind IN ('r', 'v')
	UNION SELECT a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
	       WHERE c.relnamespace = 'index_table'::regnamespace AND c.relkind = 'v'
	UNION SELECT name FROM pg_settings WHERE name LIKE 'index\_table.%' ORDER BY 1});
cmp_ok(scalar @names, '>', 50, 'names are found');
is(join(', ', grep { $reference !~ /(?<![\w.])(?:index_table\.)?\Q$_\E\b/ } @names), '', 'docs/reference.md names everything');

# --- Settings -----------------------------------------------------------------------

# Configuration that a document shows is one that the server takes.
my $settings = join '', map { $_->{text} } grep { $_->{kind} eq 'code' && $_->{language} eq 'ini' && !$_->{skipped} }
  map { read_document("$tree/$_") } user_documents($tree);
$node->append_conf('postgresql.conf', $settings);
$node->restart;
is($node->safe_psql('postgres', "SELECT name, setting, error FROM pg_file_settings WHERE error IS NOT NULL"), '', 'the server takes the settings shown');

done_testing();
