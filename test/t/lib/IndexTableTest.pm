# What the TAP tests share: servers, and the oracle.
#
# The oracle recomputes index tables from their base tables in SQL that the test writes itself, and
# compares images of whole entries, so that 1.0 is not 1.00. It is a schema "oracle" in the database
# under test, for describe()d index tables:
#
#   oracle.check_all(label)   raises OR001 when an index table is not what it should be, OR005 when
#                             it is unique and its base table has a key twice
#   oracle.problems(name)     how many groups (key, partition, identity) of entries are wrong
#   oracle.broken_unique()    a unique index table whose base table has a key twice, or null
#   oracle.verify_all(label)  raises OR002 when index_table.verify() reports anything
#   oracle.read_all(label, page_size)  raises OR004 when lookup(), fetch() or page() return anything else
package IndexTableTest;

use strict;
use warnings;

use Exporter 'import';
use Fcntl qw(:flock);
use File::Basename qw(basename);
use File::Copy qw(copy);
use FindBin;
use Time::HiRes 'sleep';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QuickNode;
use Test::More;

our @EXPORT = qw(how_many new_node describe oracle_sql oracle_ok check_storage storage_problems log_problems await_reinitialization has_extension sqlstate beside_writers_ok quote_literal start_session end_session
	start_command end_command server_sql varied_tables_sql place_released sections run_sides
	gate_sql hold_lock release_lock shut_gate lock_table kill_backend wait_until_up);

# How much of something a test does: as many as the environment variable $name says, else the $default, times
# TEST_LENGTH where that is given. One at least.
sub how_many
{
	my ($name, $default) = @_;
	return $ENV{$name} if ($ENV{$name} // '') ne '';
	my $number = int($default * ($ENV{TEST_LENGTH} || 1) + 0.5);
	return $number || 1;
}

# A running server; options are those of PostgreSQL::Test::Cluster::init, and conf => more settings,
# install_path => of another server, no_data_checksums => not even where they are the default.
sub new_node
{
	my ($name, %options) = @_;
	my $conf = delete $options{conf} // '';
	my $path = delete $options{install_path};
	# Checkpoints of a busy machine must not remove what a standby has not asked for yet.
	$conf = "wal_keep_size = 1GB\n$conf" if $options{allows_streaming};
	my $node = QuickNode->new($name, $path ? (install_path => $path) : ());
	my @extra = ('--encoding=UTF8', '--locale=C');
	push @extra, '--no-data-checksums' if delete $options{no_data_checksums} && $node->pg_version >= 18;
	$node->init(extra => \@extra, %options);
	$node->append_conf(
		'postgresql.conf', qq(
log_statement = none
log_min_error_statement = panic
log_min_messages = error
autovacuum = off
client_min_messages = warning
max_prepared_transactions = 10
index_table.verify_interval = 0
$conf));
	$node->start;
	return $node;
}

# Puts the scripts of released versions beside the installed one's; their versions. While one test uses
# them, another that is done leaves them there.
my (%released, $use_of_scripts);
sub place_released
{
	my ($node) = @_;
	my $scripts = $node->config_data('--sharedir') . '/extension';
	open $use_of_scripts, '<', "$scripts/index_table.control" or die "$scripts/index_table.control: $!";
	flock $use_of_scripts, LOCK_SH or die "flock: $!";
	my $control = join '', <$use_of_scripts>;
	foreach my $script (glob "$FindBin::RealBin/../released/*.sql")
	{
		my $name = basename($script);
		my ($version) = $name =~ /^index_table--(.+)\.sql$/ or die $name;
		next if $control =~ /^default_version = '\Q$version\E'$/m;    # the release was prepared and not begun anew
		$released{$version} = "$scripts/$name";
		copy($script, "$scripts/$name.$$") && rename("$scripts/$name.$$", "$scripts/$name") or die "$scripts/$name: $!";
	}
	return sort keys %released;
}

END { unlink values %released if %released && flock $use_of_scripts, LOCK_EX | LOCK_NB; }

# Tables and index tables of all kinds, to be carried over. Attribute numbers change with a dump: there
# are dropped columns, and partitions that were attached with columns in another order.
sub varied_tables_sql
{
	return q{
CREATE EXTENSION index_table;
CREATE TABLE customers (gone int, id int, email text, gone2 text, town text, tags text[], phone text, active boolean)
	PARTITION BY HASH (id);
ALTER TABLE customers DROP COLUMN gone;
CREATE TABLE customers_0 PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER 0);
ALTER TABLE customers DROP COLUMN gone2;
CREATE TABLE customers_1 PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE customers_2 (active boolean, phone text, other int, tags text[], town text, email text, id int NOT NULL);
ALTER TABLE customers_2 DROP COLUMN other;
ALTER TABLE customers ATTACH PARTITION customers_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
ALTER TABLE customers ADD PRIMARY KEY (id);
INSERT INTO customers
SELECT i, 'mail' || i, 'Town ' || i % 20, ARRAY['t' || i % 4, 't' || i % 6, NULL], '555-' || i, i % 3 = 0
  FROM generate_series(1, 1000) i;

CREATE SCHEMA "Odd.Names";
CREATE FUNCTION "Odd.Names"."Shout It"(text) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT upper($1)';
CREATE TABLE "Odd.Names"."Events" (id int, day int, kind text, "Code" text, note text, PRIMARY KEY (id, day, kind))
	PARTITION BY RANGE (day);
CREATE TABLE "Odd.Names".low PARTITION OF "Odd.Names"."Events" FOR VALUES FROM (0) TO (100) PARTITION BY LIST (kind);
CREATE TABLE "Odd.Names".low_a PARTITION OF "Odd.Names".low FOR VALUES IN ('a');
CREATE TABLE "Odd.Names".low_other PARTITION OF "Odd.Names".low DEFAULT;
CREATE TABLE "Odd.Names"."High" PARTITION OF "Odd.Names"."Events" FOR VALUES FROM (100) TO (200);
INSERT INTO "Odd.Names"."Events"
SELECT i, i % 200, chr(97 + i % 3), 'Code' || i, 'note ' || i % 5 FROM generate_series(1, 600) i;

CREATE TABLE plain (gone int, id int PRIMARY KEY, v numeric);
ALTER TABLE plain DROP COLUMN gone;
INSERT INTO plain SELECT i, i / 4.0 FROM generate_series(1, 100) i;

SELECT index_table.create('customers', 'email', is_unique => true);
SELECT index_table.create('customers', 'lower(town) DESC', strategy => 'partial', include => 'phone', name => 'customers_by_town');
SELECT index_table.create('customers', 'phone', strategy => 'denormalized', partitions => 2);
SELECT index_table.create('customers', 'unnest(tags)', name => 'customers_by_tag');
SELECT index_table.create('"Odd.Names"."Events"', '"Code"', is_unique => true, predicate => $$kind <> 'b'$$);
SELECT index_table.create('"Odd.Names"."Events"', '"Odd.Names"."Shout It"(note)', strategy => 'denormalized', name => '"Odd.Names"."By ""Note"""');
SELECT index_table.create('plain', 'v', is_unique => true, nulls_distinct => false, initially_deferred => true);
};
}

# --- Stopping others where a test wants them, and killing them there ------------------------------

# Commits of changes of a table wait where somebody holds the advisory lock 1.
sub gate_sql
{
	my ($table) = @_;
	return qq{
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER gate AFTER INSERT OR UPDATE OR DELETE ON $table DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION gate();};
}

# A session that holds a lock, or waits, once the query says so.
sub hold_lock
{
	my ($node, $sql, $query, $database) = @_;
	$database //= 'postgres';
	my $session = start_session($node, $database, $sql);
	$node->poll_query_until($database, $query) or die "no lock: $sql";
	return $session;
}

# Ends it, if the server has not.
sub release_lock
{
	my ($session) = @_;
	$session->{input} .= "\\q\n";
	eval { end_session($session) };
	return;
}

# Holds an advisory lock, that of gates unless another one is named.
sub shut_gate
{
	my ($node, $number) = @_;
	$number //= 1;
	return hold_lock($node, "SELECT pg_advisory_lock($number);",
		"SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND objid = $number");
}

sub lock_table
{
	my ($node, $table) = @_;
	return hold_lock($node, "BEGIN; LOCK TABLE $table IN SHARE MODE;",
		"SELECT count(*) = 1 FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'ShareLock' AND granted");
}

# kill -9 of the one client backend that a condition on pg_stat_activity is true of. Others that it is true of, as
# those of clients that have just gone, or of a worker's visit, end by themselves: that is waited for.
sub kill_backend
{
	my ($node, $condition) = @_;
	my $pid = '';
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $condition AND pid <> pg_backend_pid() AND backend_type = 'client backend'");
		last if $pid !~ /\n/;
		sleep(0.1);
	}
	my $log = -s $node->logfile;
	$pid =~ /^\d+$/ && kill 'KILL', $pid or die "not one backend where $condition: $pid";
	await_reinitialization($node, $log);
	return;
}

# Waits, a minute at most, until a server whose backend was killed has noticed: before that it seems
# to be up. The log is looked at from a byte on.
sub await_reinitialization
{
	my ($node, $log) = @_;
	foreach (1 .. 600)
	{
		last if slurp_file($node->logfile, $log) =~ /reinitializing/;
		sleep(0.1);
	}
	return;
}

# A postmaster needs a moment to see that it must begin again. Nothing is written to a psql that is
# sent away, which fails at random.
sub wait_until_up
{
	my (@nodes) = @_;
	foreach my $node (@nodes)
	{
		my $is_up;
		foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			my ($output, $errors) = ('', '');
			$is_up = IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT true' ], '<', \'', '>', \$output, '2>', \$errors);
			last if $is_up;
			sleep(0.1);
		}
		die 'a server is gone' unless $is_up;
	}
	return;
}

# What psql printed, divided at lines "@ name", by name; and the name of the last section.
sub sections
{
	my ($output) = @_;
	my (%sections, $current);
	foreach my $line (split /\n/, $output)
	{
		if ($line =~ /^@ (.*)$/) { $current = $1; $sections{$current} //= []; next; }
		push @{ $sections{$current} }, $line if defined $current;
	}
	return (\%sections, $current // 'the beginning');
}

# SQL of a foreign server, and of the user mapping of whoever runs it: database => another than postgres
# (a psql variable as :'NAME'), options => more of the server's, public => whoever comes is the superuser there.
sub server_sql
{
	my ($name, $node, %options) = @_;
	my $database = $options{database} // 'postgres';
	$database = "'$database'" unless $database =~ /^:/;
	my ($host, $port, $user) = ($node->host, $node->port, $ENV{PGUSER} // getpwuid($>));
	my $more = $options{options} ? ", $options{options}" : '';
	my $mapping = $options{public} ? "FOR PUBLIC SERVER $name OPTIONS (user '$user', password_required 'false')" : "FOR CURRENT_USER SERVER $name";
	return "CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname $database$more);\nCREATE USER MAPPING $mapping;\n";
}

sub has_extension
{
	my ($node, $name) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_available_extensions WHERE name = '$name'") > 0;
}

sub quote_literal
{
	my ($value) = @_;
	$value =~ s/'/''/g;
	return "'$value'";
}

# Describes an index table for the oracle, as a hash of
#   name, base   as SQL writes them
#   key          expressions over the base table "b"; m.v for the values of a key of many values
#   elements     for such a key: SQL of rows (v, o), the elements and their order; NULL counts
#   predicate    optional, over "b"
#   copies       base columns after partition_id, in order: identity, then included ones
#   identity     how many of the copies are identity
#   is_unique    optional
sub describe
{
	my (%table) = @_;
	my $distinct =
	  $table{elements}
	  ? " CROSS JOIN LATERAL (SELECT DISTINCT ON (u.v) u.v FROM ($table{elements}) u ORDER BY u.v, u.o) m"
	  : '';
	my @copies = map { "b.$_" } @{ $table{copies} };
	my $where = $table{predicate} ? " WHERE $table{predicate}" : '';
	my @key = @{ $table{key} };
	my $source =
	    " FROM $table{base} b LEFT JOIN index_table.partition p ON p.relation = b.tableoid"
	  . "$distinct$where";
	my $live = "i.partition_id IN (SELECT partition_id FROM index_table.partition)";
	my $number = @key + 1 + ($table{identity} // 0);

	$table{live} = $live;
	$table{expected} = 'SELECT ROW(' . join(', ', @key, 'p.partition_id', @copies) . ')::text AS image, 1 AS n' . $source;
	$table{stored} = "SELECT (i.*)::text AS image, -1 AS n FROM $table{name} i WHERE $live";
	my @group = (@key, 'p.partition_id', @copies[ 0 .. ($table{identity} // 0) - 1 ]);
	my $names = join(', ', map { "g$_" } 1 .. $number);
	$table{expected_groups} =
	    'SELECT ROW(' . join(', ', @key, 'p.partition_id', @copies) . ')::text AS image, 1 AS n, '
	  . join(', ', map { "$group[$_ - 1] AS g$_" } 1 .. $number)
	  . $source;
	$table{stored_groups} =
	  "SELECT i.image, i.n, $names FROM (SELECT (i.*)::text AS image, -1 AS n, i.* FROM $table{name} i WHERE $live) i(image, n, $names)";
	$table{rows} = "SELECT (b.*)::text AS image, 1 AS n FROM $table{base} b$distinct$where";
	$table{twice} =
	    "SELECT 1$source"
	  . ($where ? ' AND ' : ' WHERE ')
	  . join(' AND ', map { "($_) IS NOT NULL" } @key)
	  . ' GROUP BY '
	  . join(', ', map { "($_)" } @key)
	  . ' HAVING count(*) > 1'
	  if $table{is_unique};
	return \%table;
}

# Creates the schema oracle for index tables that are describe()d; they need not exist yet.
sub oracle_sql
{
	my (@tables) = @_;
	my ($checks, $problems, $unique, $verify, $read) = ('', '', '', '', '');
	foreach my $table (@tables)
	{
		my $name = quote_literal($table->{name});
		my $number = @{ $table->{key} } + 1 + ($table->{identity} // 0);
		my $groups = join(', ', map { "g$_" } 1 .. $number);
		my $once = $table->{is_unique} ? qq{
		IF EXISTS ($table->{twice}) THEN
			RAISE EXCEPTION USING ERRCODE = 'OR005', MESSAGE = format('%s: %s: a key is there twice', label, $name);
		END IF;} : '';
		# EXCEPT ALL both ways, in one pass.
		$checks .= qq{
	IF to_regclass($name) IS NOT NULL THEN
		SELECT string_agg(CASE WHEN u.n > 0 THEN 'missing ' ELSE 'extra ' END
		                  || regexp_replace(u.image, '\\w{40,}', '[long]', 'g'), ', ') INTO difference
		  FROM (SELECT e.image, sum(e.n) AS n FROM ($table->{expected} UNION ALL $table->{stored}) e
		         GROUP BY e.image HAVING sum(e.n) <> 0 LIMIT 8) u;
		IF difference IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'OR001',
				MESSAGE = format('%s: %s: %s', label, $name, left(difference, 800));
		END IF;$once
	END IF;};
		$problems .= qq{
	IF name = $name THEN
		RETURN (SELECT count(*) FROM (
			SELECT FROM (SELECT $groups, image, sum(n) AS n
			               FROM ($table->{expected_groups} UNION ALL $table->{stored_groups}) e
			              GROUP BY $groups, image) i
			 GROUP BY $groups HAVING bool_or(n <> 0)) g);
	END IF;};
		$unique .= qq{
	IF EXISTS ($table->{twice}) THEN RETURN $name; END IF;} if $table->{is_unique};
		$verify .= qq{
	IF to_regclass($name) IS NOT NULL THEN
		SELECT string_agg(v::text, ', ') INTO difference FROM index_table.verify($name) v;
		IF difference IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'OR002',
				MESSAGE = format('%s: verify reports of %s: %s', label, $name, left(difference, 800));
		END IF;
	END IF;};
	}
	foreach my $table (@tables)
	{
		my $name = quote_literal($table->{name});
		my $fetch = "index_table.fetch(NULL::$table->{base}, $name)";
		$read .= qq{
	IF to_regclass($name) IS NOT NULL THEN
		SELECT string_agg(CASE WHEN u.n > 0 THEN 'missing ' ELSE 'extra ' END || u.image, ', ') INTO difference
		  FROM (SELECT e.image, sum(e.n) AS n
		          FROM ($table->{rows} UNION ALL SELECT (f.*)::text, -1 FROM $fetch f) e
		         GROUP BY e.image HAVING sum(e.n) <> 0 LIMIT 8) u;
		IF difference IS NULL THEN
			SELECT coalesce(array_agg((f.*)::text), '{}') INTO fetched FROM $fetch f;
			token := NULL;
			paged := '{}';
			LOOP
				SELECT coalesce(array_agg((p.entity)::text), '{}'), max(next) INTO page, token
				  FROM index_table.page(NULL::$table->{base}, $name, page_size, token) p;
				paged := paged || page;
				EXIT WHEN token IS NULL;
			END LOOP;
			-- Rows that are equal in the order of the index table, but not the same, may come either way.
			IF (SELECT array_agg(r ORDER BY r) FROM unnest(paged) r) IS DISTINCT FROM (SELECT array_agg(r ORDER BY r) FROM unnest(fetched) r) THEN
				difference := format('%s rows in pages of %s, %s rows fetched',
				                     cardinality(paged), page_size, cardinality(fetched));
			END IF;
		END IF;
		IF difference IS NULL THEN
			SELECT format('%s entries of %s looked up', found, stored) INTO difference
			  FROM (SELECT count(*) AS stored FROM ($table->{stored}) s) s,
			       (SELECT count(*) AS found
			          FROM (SELECT DISTINCT i.k FROM $table->{name} i(k) WHERE $table->{live}) d,
			               LATERAL index_table.lookup($name, d.k)) f
			 WHERE found <> stored;
		END IF;
		IF difference IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'OR004',
				MESSAGE = format('%s: reading %s: %s', label, $name, left(difference, 800));
		END IF;
	END IF;};
	}
	my $check_function = sub {
		my ($header, $body) = @_;
		return qq{
CREATE FUNCTION oracle.$header LANGUAGE plpgsql SET index_table.enable_scan = off AS \$oracle\$
#variable_conflict use_column
DECLARE difference text; token text; page text[]; paged text[]; fetched text[];
BEGIN$body
END \$oracle\$;
};
	};
	return 'CREATE SCHEMA oracle;'
	  . $check_function->('check_all(label text) RETURNS void', $checks)
	  . $check_function->('problems(name text) RETURNS bigint', "$problems\n	RAISE 'no index table %', name;")
	  . $check_function->('broken_unique() RETURNS text', "$unique\n	RETURN NULL;")
	  . $check_function->('read_all(label text, page_size int) RETURNS void', $read)
	  . $check_function->('verify_all(label text) RETURNS void', $verify);
}

# The oracle as a test. Reading page by page takes long over large tables: 0 leaves reading out.
sub oracle_ok
{
	my ($node, $db, $label, $page_size) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $sql = "SELECT oracle.check_all('base and index tables'); SELECT oracle.verify_all('verify');";
	$page_size //= 50;
	$sql .= "SELECT oracle.read_all('reading', $page_size)" if $page_size;
	my ($result, $stdout, $stderr) = $node->psql($db, $sql);
	return is($stderr, '', $label);
}

# What amcheck finds in the tables that hold entries and in their B-trees, those of owners included.
my $storage_sql = q{
CREATE SCHEMA storage_check;
CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA storage_check; -- which may be in public already
CREATE FUNCTION storage_check.problems() RETURNS SETOF text LANGUAGE plpgsql SET search_path = storage_check, public AS $$
DECLARE
	heap regclass;
	btree regclass;
	message text;
BEGIN
	-- The tree of a table that has no partitions, and is none, has no node.
	FOR heap IN SELECT c.oid FROM pg_class c, index_table.definition d
	             WHERE c.relkind = 'r' AND (c.oid = d.index_table OR c.oid IN (SELECT t.relid FROM pg_partition_tree(d.index_table) t)) LOOP
		RETURN QUERY SELECT format('%s: block %s, offset %s: %s', heap, v.blkno, v.offnum, v.msg)
		               FROM verify_heapam(heap, check_toast => true) v;
		FOR btree IN SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		              WHERE i.indrelid = heap AND i.indisvalid AND a.amname = 'btree' LOOP
			BEGIN
				PERFORM bt_index_check(btree, heapallindexed => true);
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
				RETURN NEXT format('%s: %s: %s', btree, SQLSTATE, message);
			END;
		END LOOP;
	END LOOP;
END $$;
};

# What it finds, a line each, after "t": there are index tables.
sub storage_problems
{
	my ($node, $db) = @_;
	my ($result, $stdout, $stderr) = $node->psql($db,
		"SET client_min_messages = warning; $storage_sql SELECT count(*) > 0 FROM index_table.definition; SELECT left(p, 400) FROM storage_check.problems() p LIMIT 20; DROP SCHEMA storage_check CASCADE;");
	return $stdout . $stderr;
}

# As a test, at the end of whatever changes index tables at random or has servers crash: every index
# table of a database is sound, and its B-trees have every entry. Skipped where there is no amcheck.
sub check_storage
{
	my ($node, $db, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$label = join(': ', grep { defined } $label, 'storage of index tables is sound');
  SKIP:
	{
		skip 'amcheck is not installed', 1 unless has_extension($node, 'amcheck');
		return is(storage_problems($node, $db), 't', $label);
	}
	return;
}

# What no server's log may have, whatever was done: resources that a transaction left behind when it was committed
# (before PostgreSQL 17 they leak, since then they were not closed), panics, assertions, crashes. Wanted are WARNINGs
# in the log, and with a log_line_prefix that has "] %e " internal errors are found, too, but for those of two who
# change one row of a catalog. from => byte of the log; killed => 1: the test kills processes itself.
sub log_problems
{
	my ($node, %options) = @_;
	my $signal = $options{killed} ? '(?!9\b)' : '';
	my @lines = slurp_file($node->logfile, $options{from} // 0) =~
	  /^(.*(?:\] XX\w{3} |\bleak|was not closed|still referenced|still active|seem to remain|refcount|AtEOX|own a lock|PANIC|TRAP|terminated by signal $signal).*)$/mg;
	return join("\n", grep { !/tuple concurrently (?:updated|deleted)/ } @lines);
}

# The SQLSTATE and message with which SQL fails, or an empty string.
sub sqlstate
{
	my ($node, $db, $sql) = @_;
	my ($result, $stdout, $stderr) = $node->psql($db, "\\set VERBOSITY verbose\n$sql");
	return $stderr =~ /ERROR:\s+(\w{5}: [^\n]*)/ ? $1 : $stderr;
}

# A command beside writers succeeds. REINDEX locks partition after partition, as an upsert does: either may be the victim of a
# deadlock, and then the command is tried again.
sub beside_writers_ok
{
	my ($node, $sql, $label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $state = '';
	foreach (1 .. 20)
	{
		$state = sqlstate($node, 'postgres', $sql);
		last unless $state =~ /^40P01/;
	}
	return is($state, '', $label // $sql);
}

# Runs a script with psql for several sides at once, each { database, options => of psql, settings => PGOPTIONS }. Returns
# what each printed: { stdout, stderr }. A server that has crashed is up again then.
sub run_sides
{
	my ($node, $path, %sides) = @_;
	my %run;
	foreach my $side (sort keys %sides)
	{
		local $ENV{PGOPTIONS} = $sides{$side}{settings};
		my $run = $run{$side} = { stdout => '', stderr => '' };
		$run->{psql} = IPC::Run::start([ 'psql', '-XAtq', @{ $sides{$side}{options} }, '-d', $node->connstr($sides{$side}{database}), '-f', $path ],
			'<', \'', '>', \$run->{stdout}, '2>', \$run->{stderr}, IPC::Run::timeout(900));
	}
	$_->{psql}->finish foreach values %run;
	if (grep { $_->{stderr} =~ /server closed the connection|connection to server was lost/ } values %run)
	{
		sleep(1);
		wait_until_up($node);
	}
	return \%run;
}

# Starts a session that executes SQL, and goes on.
sub start_session
{
	my ($node, $db, $sql) = @_;
	my $session = { input => "\\set VERBOSITY verbose\n$sql\n", output => '' };
	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($db) ],
		'<', \$session->{input}, '>&', \$session->{output}, IPC::Run::timeout(900));
	$session->{run}->pump while length $session->{input};
	return $session;
}

# Starts a session that executes SQL in one message, in one transaction unless it has others.
sub start_command
{
	my ($node, $sql) = @_;
	my $session = { output => '', errors => '' };
	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', $sql ],
		'<', \'', '>', \$session->{output}, '2>', \$session->{errors}, IPC::Run::timeout(700));
	return $session;
}

# Waits for its end and returns what it complained of.
sub end_command
{
	my ($session) = @_;
	$session->{run}->finish;
	return $session->{errors};
}

# Waits for its end and returns its output, with the errors.
sub end_session
{
	my ($session) = @_;
	$session->{run}->finish;
	return $session->{output};
}

1;
