# The oracle of global indexes, in plain SQL, amcheck and what VACUUM counts.
#
#   global_problems($node, $db)            what is wrong, of all global indexes of a database
#   check_global($node, $db, $label)       no test may end without it; exact => 0 leaves out what
#                                          needs VACUUM (on a standby, beside old snapshots)
#   prepare_global_checks($node, $db)      before the first of them on a standby
#   sweep_global($node, $db)               VACUUM of all tables with global indexes and of storages
#
# Tests that put servers under a load, which some of them kill:
#
#   new_loaded_node($name, $conf)          a server that autovacuum keeps busy, and may crash
#   attempt_sql(@conditions)               of attempt(command, undo), which passes over such errors
#   start_standby($node)                   of it
#   start_load($node, $clients, @scripts)  pgbench in the background; a script: [ weight, SQL ]
#   stop_load($load)                       its output is $load->{out}; the server is up, or coming up, and is rid of it
#
# A tree is right when amcheck finds no fault in it, and for every row of every partition its entry;
# when index_table.verify() finds none either; when no key of a unique one is there twice; and when,
# swept after VACUUM, it has as many entries as there are rows, so that there are no others. Of other
# methods than B-trees amcheck knows nothing, and GIN does not count rows: tests read by them.
package GlobalIndexes;

use strict;
use warnings;

use Exporter 'import';
use IndexTableTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

our @EXPORT = qw(global_problems check_global prepare_global_checks sweep_global has_amcheck new_loaded_node attempt_sql start_standby start_load stop_load);

my $functions = q{
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE SCHEMA IF NOT EXISTS global_check;
CREATE OR REPLACE VIEW global_check.roots AS
SELECT c.oid AS root, i.indrelid::regclass AS base, i.indisvalid AS is_valid,
       pg_get_expr(i.indpred, i.indrelid) AS predicate, i.indnkeyatts AS key_count,
       (SELECT array_agg(pg_get_indexdef(c.oid, k, true) ORDER BY k) FROM generate_series(1, i.indnkeyatts) k) AS keys,
       to_regclass('pg_toast.index_table_global_' || c.oid) AS storage,
       to_regclass('pg_toast.index_table_global_' || c.oid || '_tree') AS tree,
       (SELECT m.amname FROM pg_class t JOIN pg_am m ON m.oid = t.relam
         WHERE t.oid = to_regclass('pg_toast.index_table_global_' || c.oid || '_tree')) AS method
  FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_am a ON a.oid = c.relam
 WHERE a.amname = 'global' AND c.relkind = 'I' AND NOT c.relispartition;
CREATE OR REPLACE FUNCTION global_check.problems(exact boolean) RETURNS SETOF text LANGUAGE plpgsql
SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off AS $$
DECLARE
	r record;
	rows bigint;
	entries bigint;
	twice text;
	condition text;
BEGIN
	FOR r IN SELECT * FROM global_check.roots ORDER BY root LOOP
		IF r.tree IS NULL THEN
			RETURN NEXT format('%s has no tree', r.root::regclass);
			CONTINUE;
		END IF;
		BEGIN
			IF r.method <> 'btree' THEN
				NULL;
			ELSIF pg_is_in_recovery() THEN
				PERFORM bt_index_check(r.tree, true);
			ELSE
				PERFORM bt_index_parent_check(r.tree, true, true);
			END IF;
		EXCEPTION WHEN OTHERS THEN
			RETURN NEXT format('%s: %s: %s', r.root::regclass, SQLSTATE, SQLERRM);
		END;
		-- What is not scanned as a whole is read as VACUUM reads it, which a standby cannot.
		IF r.method IN ('btree', 'gist', 'spgist') OR NOT pg_is_in_recovery() THEN
			RETURN QUERY SELECT format('%s: %s entry of %s in %s, %s', r.root::regclass, v.problem, v.key, v.partition, v.identity)
			  FROM index_table.verify(r.root::regclass) v LIMIT 20;
		END IF;
		condition := coalesce(r.predicate, 'true');
		-- A standby cannot read unlogged partitions.
		IF (SELECT indisunique FROM pg_index WHERE indexrelid = r.tree) AND NOT (pg_is_in_recovery()
			AND EXISTS (SELECT FROM pg_partition_tree(r.base) JOIN pg_class c ON c.oid = relid WHERE relpersistence = 'u')) THEN
			EXECUTE format('SELECT row(%s)::text FROM %s WHERE (%s) AND (%s) GROUP BY %s HAVING count(*) > 1 LIMIT 1',
				array_to_string(r.keys, ', '), r.base, condition,
				(SELECT CASE WHEN i.indnullsnotdistinct THEN 'true' ELSE string_agg(format('%s IS NOT NULL', k), ' AND ') END
				   FROM unnest(r.keys) k, pg_index i WHERE i.indexrelid = r.tree GROUP BY i.indnullsnotdistinct),
				array_to_string(r.keys, ', ')) INTO twice;
			IF twice IS NOT NULL THEN
				RETURN NEXT format('%s: key %s is there twice', r.root::regclass, twice);
			END IF;
		END IF;
		IF exact AND r.method IN ('btree', 'gist', 'spgist', 'hash') THEN
			IF r.method = 'hash' THEN
				condition := format('(%s) AND %s IS NOT NULL', condition, r.keys[1]);
			END IF;
			EXECUTE format('SELECT count(*) FROM %s WHERE %s', r.base, condition) INTO rows;
			SELECT reltuples INTO entries FROM pg_class WHERE oid = r.tree;
			IF rows <> entries THEN
				RETURN NEXT format('%s: %s entries of %s rows', r.root::regclass, entries, rows);
			END IF;
		END IF;
	END LOOP;
	RETURN QUERY SELECT format('%s is nobody''s', c.oid::regclass) FROM pg_class c
	 WHERE c.relname ~ '^index_table_global_' AND c.relnamespace = 'pg_toast'::regnamespace
	   AND NOT EXISTS (SELECT FROM global_check.roots g WHERE c.oid IN (g.storage, g.tree));
END $$;
};

sub has_amcheck
{
	my ($node) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'") > 0;
}

sub prepare_global_checks
{
	my ($node, $db) = @_;
	$node->safe_psql($db, $functions);
	return;
}

# What VACUUM skips to save time would have entries.
sub sweep_global
{
	my ($node, $db) = @_;
	my @commands = split /\n/, $node->safe_psql($db, q{
SELECT DISTINCT 1, format('VACUUM (INDEX_CLEANUP on, TRUNCATE off) %s', base) FROM global_check.roots
UNION ALL SELECT 2, format('VACUUM %s', storage) FROM global_check.roots WHERE tree IS NOT NULL ORDER BY 1, 2});
	$node->safe_psql($db, s/^\d\|//r) foreach @commands;
	return;
}

sub global_problems
{
	my ($node, $db, %options) = @_;
	my $exact = $options{exact} // 1;
	if ($node->safe_psql($db, 'SELECT pg_is_in_recovery()') eq 'f')
	{
		prepare_global_checks($node, $db);
		sweep_global($node, $db) if $exact;
	}
	my ($result, $problems, $errors);
	# VACUUM leaves rows that have just been deleted where somebody's snapshot needs them, as that of
	# autovacuum's ANALYZE, or where somebody writes their page. Entries without rows stay, however often.
	foreach my $attempt (1 .. 10)
	{
		($result, $problems, $errors) =
		  $node->psql($db, 'SELECT * FROM global_check.problems(' . ($exact ? 'true' : 'false') . ')');
		last unless $exact && $result == 0 && $problems =~ /entries of/;
		sleep(0.3);
		sweep_global($node, $db);
	}
	return $result == 0 ? $problems : "$problems$errors";
}

sub check_global
{
	my ($node, $db, $label, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(global_problems($node, $db, %options), '', "$label: every row has its entries, every entry its row");
}

sub new_loaded_node
{
	my ($name, $conf) = @_;
	return new_node($name, allows_streaming => 1, conf => q{
session_preload_libraries = index_table
restart_after_crash = on
max_connections = 50
fsync = off
shared_buffers = 32MB
autovacuum = on
autovacuum_naptime = 1
autovacuum_vacuum_threshold = 10
autovacuum_vacuum_scale_factor = 0.02
autovacuum_vacuum_cost_delay = 0
} . $conf);
}

# There is a function churn(how_many).
sub attempt_sql
{
	my $conditions = join ' OR ', qw(lock_not_available division_by_zero deadlock_detected), @_;
	return qq{
CREATE FUNCTION attempt(command text, undo boolean) RETURNS void LANGUAGE plpgsql SET lock_timeout = '100ms' AS \$\$
BEGIN
	EXECUTE command;
	PERFORM churn(2);
	IF undo THEN RAISE division_by_zero; END IF;
EXCEPTION WHEN $conditions THEN NULL;
END \$\$;
};
}

sub start_standby
{
	my ($node) = @_;
	$node->backup('backup');
	my $standby = QuickNode->new('standby');
	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	$standby->start;
	return $standby;
}

sub start_load
{
	my ($node, $clients, @scripts) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my @files;
	foreach my $script (@scripts)
	{
		my ($weight, $sql) = @$script;
		my $file = "$directory/" . @files / 2;
		append_to_file($file, "$sql;\n");
		push @files, '-f', "$file\@$weight";
	}
	my %load = (out => '', node => $node);
	local $ENV{PGAPPNAME} = 'load';
	$load{run} = IPC::Run::start([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-T', 600, '--max-tries=100', @files, $node->connstr('postgres') ],
		'<', \'', '>&', \$load{out}, IPC::Run::timeout(700));
	return \%load;
}

# Clients end when the server is gone, or when a lock took too long. Their backends end what they are at.
sub stop_load
{
	my ($load) = @_;
	$load->{run}->signal('TERM'); # INT is ignored below a shell's &
	eval { $load->{run}->finish };
	wait_until_up($load->{node});
	$load->{node}->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'load'}) or die 'the load goes on';
	return;
}

1;
