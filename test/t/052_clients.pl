# Libraries that people write to databases with: SQLAlchemy, Django's ORM, ActiveRecord. The programs of test/clients/ do
# what such programs do - upserts by a unique key, get-or-create in threads that race, bulk operations, savepoints,
# server-side cursors - once in a database whose tables PostgreSQL keeps unique by itself, to see that what they expect is
# right, and once with index tables. Each checks its results itself and prints a line a check. A library that is not
# installed is left out.
use strict;
use warnings;

use File::Basename;
use File::Path 'make_path';
use FindBin;
use lib "$FindBin::RealBin/lib";
use Documents qw(read_document);
use IndexTableTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tree = "$FindBin::RealBin/../..";

# --- Clients --------------------------------------------------------------------------

# The first program of a name, where PATH leads or in /usr/bin, that runs some code.
sub interpreter
{
	my ($name, @code) = @_;
	foreach my $path (grep { -x } map { "$_/$name" } split(/:/, $ENV{PATH}), '/usr/bin')
	{
		my ($out, $err);
		return $path if eval { IPC::Run::run([ $path, @code ], '<', \'', '>', \$out, '2>', \$err) };
	}
	return;
}

my @clients = (
	{ name => 'SQLAlchemy', program => 'with_sqlalchemy.py', interpreter => interpreter('python3', '-c', 'import sqlalchemy, psycopg2') },
	{ name => 'Django', program => 'with_django.py', interpreter => interpreter('python3', '-c', 'import django, psycopg2') },
	{ name => 'ActiveRecord', program => 'with_activerecord.rb', interpreter => interpreter('ruby', '-e', 'require "active_record"; require "pg"') });
plan skip_all => 'neither SQLAlchemy nor Django nor ActiveRecord is installed' unless grep { $_->{interpreter} } @clients;

# --- Servers --------------------------------------------------------------------------

my $columns = q{customer_id bigint DEFAULT nextval('ids') PRIMARY KEY, email text NOT NULL, name text, n int NOT NULL DEFAULT 0,
	created_at timestamptz, updated_at timestamptz};
my $node = new_node('clients', conf => "session_preload_libraries = index_table\nfsync = off\n");
$node->safe_psql('postgres', 'CREATE DATABASE native');
$node->safe_psql('native', qq{
CREATE SEQUENCE ids;
CREATE TABLE customers ($columns);
ALTER TABLE customers ADD CONSTRAINT customers_by_email_key UNIQUE (email);
CREATE TABLE handles (handle_id bigint DEFAULT nextval('ids') PRIMARY KEY, handle text NOT NULL, deleted_at timestamptz);
CREATE UNIQUE INDEX handles_by_handle_key ON handles (lower(handle)) WHERE deleted_at IS NULL;
});
$node->safe_psql('postgres', qq{
CREATE EXTENSION index_table;
CREATE SEQUENCE ids;
CREATE TABLE customers ($columns) PARTITION BY HASH (customer_id);
CREATE TABLE customers_0 PARTITION OF customers FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE customers_1 (n int NOT NULL DEFAULT 0, updated_at timestamptz, gone int, email text NOT NULL, created_at timestamptz,
	name text, customer_id bigint NOT NULL DEFAULT nextval('ids'));
ALTER TABLE customers_1 DROP COLUMN gone;
ALTER TABLE customers ATTACH PARTITION customers_1 FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE customers_2 PARTITION OF customers FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE customers_3 PARTITION OF customers FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE TABLE handles (handle_id bigint DEFAULT nextval('ids') PRIMARY KEY, handle text NOT NULL, deleted_at timestamptz)
	PARTITION BY HASH (handle_id);
CREATE TABLE handles_0 PARTITION OF handles FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE handles_1 PARTITION OF handles FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT index_table.create('customers', 'email', is_unique => true);
SELECT index_table.create('handles', 'lower(handle)', is_unique => true, predicate => 'deleted_at IS NULL', name => 'handles_by_handle');
});
$node->safe_psql('postgres', oracle_sql(
	describe(name => 'customers_by_email', base => 'customers', key => ['b.email'], copies => ['customer_id'], identity => 1, is_unique => 1),
	describe(name => 'handles_by_handle', base => 'handles', key => ['lower(b.handle)'], predicate => 'b.deleted_at IS NULL',
		copies => ['handle_id'], identity => 1, is_unique => 1),
	# Those that migrations make.
	describe(name => 'invoices_by_number', base => 'invoices', key => ['b.number'], copies => ['invoice_id'], identity => 1, is_unique => 1),
	describe(name => 'invoices_by_customer', base => 'invoices', key => ['b.customer'], copies => ['invoice_id'], identity => 1)));

# The files that docs/clients.md shows: Rails' initializer, models and migrations. A block's first line is its path.
my $files = PostgreSQL::Test::Utils::tempdir();
foreach my $block (grep { $_->{kind} eq 'code' && $_->{language} =~ /^(python|ruby)$/ } read_document("$tree/docs/clients.md"))
{
	my ($path) = $block->{text} =~ m{^# ((?:\w+/)+\w+\.(?:py|rb))\n} or die "docs/clients.md, line $block->{line}: no path";
	make_path("$files/" . dirname($path));
	append_to_file("$files/$path", $block->{text});
}

# --- Checks ---------------------------------------------------------------------------

# Runs a client's program in a database; every line that it prints is a test.
sub run_client
{
	my ($client, $database) = @_;
	my ($out, $err) = ('', '');
	my $label = $client->{name} . ($database eq 'native' ? ', natively' : '');
	local @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE PYTHONDONTWRITEBYTECODE)} =
	  ($node->host, $node->port, scalar(getpwuid($>)), $database, 1);
	delete local $ENV{PGOPTIONS};
	my $ended = IPC::Run::run([ $client->{interpreter}, "$tree/test/clients/$client->{program}", $files ],
		'<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(300));
	my $checks = 0;
	foreach my $line (split /\n/, $out)
	{
		if ($line =~ /^ok (.*)/) { pass("$label: $1"); $checks++; }
		elsif ($line =~ /^not ok (.*?): (line.*)/) { fail("$label: $1"); diag($2); $checks++; }
		elsif ($line =~ /^skip (.*?): (is of .*)/) { SKIP: { skip("$label: $1: $2", 1); } }
		else { note($line); }
	}
	cmp_ok($checks, '>', 10, "$label: checks");
	ok($ended, "$label: the program ended well") or diag($err);
	return;
}

foreach my $client (@clients)
{
  SKIP:
	{
		skip "$client->{name} is not installed", 1 unless $client->{interpreter};
		run_client($client, $_) foreach 'native', 'postgres';
		oracle_ok($node, 'postgres', "$client->{name}: in step");
		next unless $node->safe_psql('postgres', "SELECT to_regclass('invoices') IS NOT NULL") eq 't';
		is($node->safe_psql('postgres', 'SELECT index_table FROM index_table.index_tables WHERE is_complete ORDER BY index_table::text'),
			"customers_by_email\nhandles_by_handle\ninvoices_by_customer\ninvoices_by_number", "$client->{name}: migrated");
		$node->safe_psql('postgres', 'DROP TABLE invoices');
	}
}

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by/, 'nothing broke');
done_testing();
