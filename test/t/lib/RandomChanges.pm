# Random UPDATEs, DELETEs, MERGEs and locking SELECTs over a random schema, whose results do not
# depend on the plan: a target row meets one source row at most, what is limited is ordered, triggers
# look at their own row alone.
#
#   my $schema = RandomChanges::generate($version);
#   $schema->{setup}      SQL for psql; index tables that :both sides have, or one where :through
#   $schema->{tables}     index tables, see IndexTableTest::describe()
#   $schema->{prepare}    SQL for each session
#   my @steps = RandomChanges::batch($schema);
#
# A step is a hash of
#   sql        a statement, or several of psql, without the last semicolon
#   kind       update, delete, merge, lock, cte, other, control
#   explain    what EXPLAIN is to be asked about, if it can
#   frame      optional: the step is not compared by itself
package RandomChanges;

use strict;
use warnings;

use IndexTableTest qw(describe quote_literal);
use RandomTables qw(chance pick some);

my $next = 1000; # numbers that are not in use

sub number { my ($below) = @_; return int(rand($below)); }
sub k_value { return number(25); }
sub u_value { return 1 + number(250); }
sub a_value { return "'a" . number(30) . "'"; }
sub list_of { my ($count, $value) = @_; return join(', ', map { $value->() } 1 .. $count); }

# --- The schema ---------------------------------------------------------------------

my %types = (
	id => 'int NOT NULL',
	p => "text NOT NULL DEFAULT 'n'",
	r => 'int NOT NULL DEFAULT 0',
	k => 'int',
	u => 'int',
	a => "text DEFAULT 'def'",
	b => 'int',
	c => 'numeric',
	d => 'int[]',
	n => 'int NOT NULL DEFAULT 0',
	ref => 'int',
	gen => "text GENERATED ALWAYS AS (coalesce(a, '') || '/' || coalesce(b, 0)::text) STORED");

# A partition, as it comes or attached with a shape of its own. Returns SQL.
sub leaf
{
	my ($schema, $parent, $name, $bound) = @_;
	push @{ $schema->{leaves} }, $name;
	return "CREATE TABLE $name PARTITION OF $parent $bound;\n" if chance(0.35);
	my @columns = map { "$_ $types{$_}" } some(99, @{ $schema->{columns} });
	splice(@columns, number(scalar @columns), 0, 'junk int DEFAULT 7');
	return
	    "CREATE TABLE $name (" . join(', ', @columns) . ", CONSTRAINT t_n CHECK (n >= 0));\n"
	  . "ALTER TABLE $name DROP COLUMN junk;\n"
	  . "ALTER TABLE $parent ATTACH PARTITION $name $bound;\n";
}

sub base_table
{
	my ($schema) = @_;
	my $kind = $schema->{kind};
	my %by = (hash => 'HASH (id)', list => 'LIST (p)', default => 'LIST (p)', range => 'RANGE (r)', sub => 'LIST (p)');
	my @pk = @{ $schema->{pk} };
	my @columns = map { "$_ $types{$_}" } @{ $schema->{columns} };
	splice(@columns, number(scalar @columns), 0, 'junk int') if chance(0.5);
	my $sql =
	    'CREATE TABLE t (' . join(', ', @columns) . ", CONSTRAINT t_pkey PRIMARY KEY (" . join(', ', @pk)
	  . "), CONSTRAINT t_n CHECK (n >= 0)) PARTITION BY $by{$kind};\nALTER TABLE t DROP COLUMN IF EXISTS junk;\n";
	if ($kind eq 'hash')
	{
		my $count = 3 + number(9);
		$sql .= leaf($schema, 't', "t_$_", "FOR VALUES WITH (MODULUS $count, REMAINDER $_)") foreach 0 .. $count - 1;
		$schema->{spare} = [ 't_0', "FOR VALUES WITH (MODULUS $count, REMAINDER 0)" ];
	}
	elsif ($kind eq 'range')
	{
		$sql .= leaf($schema, 't', "t_$_", "FOR VALUES FROM ($_) TO ($_ + 4)") foreach map { $_ * 4 } 0 .. 9;
		$schema->{spare} = [ 't_8', 'FOR VALUES FROM (8) TO (12)' ];
	}
	else
	{
		foreach my $p (qw(n s e w))
		{
			if ($kind eq 'sub' && $p ne 'w')
			{
				$sql .= "CREATE TABLE t_$p PARTITION OF t FOR VALUES IN ('$p') PARTITION BY " . ($p eq 'n' ? "RANGE (r);\n" : "HASH (id);\n");
				foreach my $i (0 .. 2)
				{
					my ($from, $to) = ($i * 15, ($i + 1) * 15);
					$sql .= leaf($schema, "t_$p", "t_${p}_$i", $p eq 'n' ? "FOR VALUES FROM ($from) TO ($to)" : "FOR VALUES WITH (MODULUS 3, REMAINDER $i)");
				}
				next;
			}
			$sql .= leaf($schema, 't', "t_$p", "FOR VALUES IN ('$p')");
		}
		$sql .= leaf($schema, 't', 't_rest', 'DEFAULT') if $kind eq 'default';
		$schema->{spare} = [ 't_w', "FOR VALUES IN ('w')" ];
	}
	return $sql;
}

# --- Index tables

# name => text of the key, the oracle's expressions, plain columns; and predicate, elements.
my %keys = (
	u => [ 'u', ['b.u'], ['u'] ],
	k => [ 'k', ['b.k'], ['k'] ],
	kb => [ 'k, b DESC', [ 'b.k', 'b.b' ], [ 'k', 'b' ] ],
	la => [ 'lower(a)', ['lower(b.a)'], [] ],
	a => [ 'a', ['b.a'], ['a'] ],
	d => [ 'unnest(d)', ['m.v'], [], undef, 'SELECT v, o FROM unnest(b.d) WITH ORDINALITY AS x(v, o)' ],
	c => [ 'c', ['b.c'], ['c'], [ 'b > 0', 'b.b > 0' ] ],
	ref => [ 'ref', ['b.ref'], ['ref'] ],
	gen => [ 'gen', ['b.gen'], ['gen'] ]);

sub index_table
{
	my ($schema, $key) = @_;
	my ($text, $expressions, $plain, $predicate, $elements) = @{ $keys{$key} };
	my %plain = map { $_ => 1 } @$plain;
	my @identity = grep { !$plain{$_} } @{ $schema->{pk} };
	my %stored = map { $_ => 1 } @$plain, @{ $schema->{pk} };
	my $strategy = pick(qw(normalized normalized partial denormalized));
	my (@include, @copied);
	if ($strategy eq 'partial')
	{
		@include = some(3, grep { !$plain{$_} } @{ $schema->{columns} });
		@copied = grep { !$stored{$_} } @include;
	}
	@copied = grep { !$stored{$_} } @{ $schema->{columns} } if $strategy eq 'denormalized';
	my $unique = $key eq 'u' ? 1 : 0;
	my $table = describe(
		name => "t_i_$key",
		base => 't',
		key => $expressions,
		elements => $elements,
		predicate => $predicate ? $predicate->[1] : undef,
		copies => [ @identity, @copied ],
		identity => scalar(@identity),
		is_unique => $unique);
	$table->{create} =
	    "SELECT index_table.create('t', '$text', name => 't_i_$key', strategy => '$strategy'"
	  . (@include ? ', include => ' . quote_literal(join(', ', @include)) : '')
	  . ($predicate ? ", predicate => '$predicate->[0]'" : '')
	  . ($unique ? ', is_unique => true' : '')
	  . (chance(0.2) ? ', partitions => 3' : '') . ')';
	# A unique key has to be there on both sides.
	$table->{create} = "\\if :through\n$table->{create};\n\\endif\n" unless $unique || chance(0.4);
	$table->{create} .= ";\n" unless $table->{create} =~ /endif/;
	return $table;
}

# --- Triggers, functions, views

my $functions = q{
CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(line) VALUES (format('%s %s %s %s %s old %s new %s', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME, OLD::text, NEW::text));
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION change_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		RETURN CASE WHEN OLD.b % 11 = 5 THEN NULL ELSE OLD END;
	END IF;
	IF NEW.b % 7 = 3 THEN NEW.a := left(NEW.a, 6) || '!'; NEW.c := NEW.c + 1; NEW.k := (NEW.k + 1) % 25; END IF;
	IF NEW.b % 17 = 8 THEN RAISE EXCEPTION 'a row with b = % is not wanted', NEW.b; END IF;
	RETURN CASE WHEN NEW.b % 11 = 5 THEN NULL ELSE NEW END;
END $$;
CREATE FUNCTION log_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(line) SELECT format('%s %s %s rows %s: old %s', TG_NAME, TG_OP, TG_TABLE_NAME, count(*), string_agg(o::text, ' ' ORDER BY o::text)) FROM old_rows o;
	RETURN NULL;
END $$;
CREATE FUNCTION log_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(line) SELECT format('%s %s %s rows %s: new %s', TG_NAME, TG_OP, TG_TABLE_NAME, count(*), string_agg(x::text, ' ' ORDER BY x::text)) FROM new_rows x;
	RETURN NULL;
END $$;
CREATE FUNCTION log_both() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(line) SELECT format('%s %s %s: %s => %s', TG_NAME, TG_OP, TG_TABLE_NAME,
		(SELECT string_agg(o::text, ' ' ORDER BY o::text) FROM old_rows o), (SELECT string_agg(x::text, ' ' ORDER BY x::text) FROM new_rows x));
	RETURN NULL;
END $$;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		DELETE FROM t WHERE u = OLD.u AND k = OLD.k;
		RETURN OLD;
	END IF;
	UPDATE t SET b = NEW.b, a = NEW.a, k = NEW.k WHERE u = OLD.u;
	RETURN NEW;
END $$;

CREATE FUNCTION change_loop(key int, step int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE row record; changed int; total int := 0;
BEGIN
	FOR row IN SELECT u, k, b FROM t WHERE k = key ORDER BY id LOOP
		BEGIN
			UPDATE t SET b = b + step, k = (k + step) % 25 WHERE u = row.u;
			GET DIAGNOSTICS changed = ROW_COUNT;
			total := total + changed;
			IF row.b % 3 = 0 THEN RAISE EXCEPTION 'undone: %', row.u; END IF;
			DELETE FROM t WHERE u = row.u + 1 AND n = 0;
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO log(line) VALUES (SQLSTATE || ' ' || SQLERRM);
		END;
	END LOOP;
	RETURN total;
END $$;
CREATE FUNCTION lock_loop(key int) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE row record;
BEGIN
	FOR row IN SELECT * FROM t WHERE k = key ORDER BY id FOR NO KEY UPDATE LOOP
		UPDATE t SET n = row.n + 1 WHERE u = row.u RETURNING n INTO row.n;
		RETURN NEXT row.n;
	END LOOP;
END $$;
CREATE FUNCTION current_loop(key int, remove boolean) RETURNS int LANGUAGE plpgsql AS $$
DECLARE own CURSOR FOR SELECT * FROM t WHERE k = key FOR UPDATE; total int := 0;
BEGIN
	FOR row IN own LOOP
		IF remove THEN DELETE FROM t WHERE CURRENT OF own;
		ELSE UPDATE t SET b = b + 1, k = (k + 3) % 25 WHERE CURRENT OF own;
		END IF;
		IF FOUND THEN total := total + 1; END IF;
	END LOOP;
	RETURN total;
END $$;
CREATE FUNCTION sql_update(key int, step int) RETURNS SETOF t LANGUAGE sql AS 'UPDATE t SET b = b + step WHERE k = key RETURNING *';
CREATE FUNCTION sql_delete(key int) RETURNS bigint LANGUAGE sql AS 'WITH x AS (DELETE FROM t WHERE u = key RETURNING *) SELECT count(*) FROM x';
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE changed int;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS changed = ROW_COUNT;
	RETURN changed;
EXCEPTION WHEN OTHERS THEN
	-- Which of several errors comes first is open.
	RETURN CASE WHEN SQLSTATE LIKE 'XX%' THEN SQLERRM ELSE 'failed' END;
END $$;
};

# What a step has changed: the log, and what the tables hold, whole or as a hash.
my @names = qw(t s w w_log par child q);
$functions .= q{CREATE FUNCTION changes(whole boolean) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET index_table.enable_scan = off AS $$
BEGIN
	RETURN QUERY WITH x AS (DELETE FROM log RETURNING line) SELECT 'log ' || line FROM x ORDER BY 1;
	IF whole THEN
		RETURN QUERY }
  . join(' UNION ALL ', map { "SELECT '$_ ' || x.tableoid::regclass || x::text FROM $_ x" } @names) . q{ ORDER BY 1;
	ELSE
		RETURN QUERY }
  . join(' UNION ALL ', map { "SELECT '$_ ' || count(*) || ' ' || md5(string_agg(x.line, ' ' ORDER BY x.line)) FROM (SELECT y.tableoid::regclass || y::text FROM $_ y) x(line)" } @names) . q{;
	END IF;
END $$;
};

sub triggers
{
	my ($schema) = @_;
	my @triggers;
	my $row = 'FOR EACH ROW EXECUTE FUNCTION log_row()';
	my $statement = 'FOR EACH STATEMENT EXECUTE FUNCTION log_row()';
	my $old = 'REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION log_old()';
	my $new = 'REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION log_new()';
	my @of = ('b', 'k', 'a, c', 'p, r', 'u', 'd', $schema->{has}{gen} ? 'gen' : ());
	push @triggers, "change BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change_row()" if chance(0.35);
	push @triggers, "change_delete BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION change_row()" if chance(0.35);
	push @triggers, "all_before BEFORE INSERT OR UPDATE OR DELETE ON t $row" if chance(0.35);
	push @triggers, "all_after AFTER INSERT OR UPDATE OR DELETE ON t $row" if chance(0.6);
	push @triggers, "differ AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_row()" if chance(0.4);
	push @triggers, "at_b AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.b < NEW.b AND NEW.tableoid = OLD.tableoid) EXECUTE FUNCTION log_row()" if chance(0.4);
	foreach my $when (qw(BEFORE AFTER))
	{
		push @triggers, "of_${when}_$_ $when UPDATE OF $of[$_] ON t $row" foreach grep { chance(0.25) } 0 .. $#of;
		push @triggers, "statement_${when} $when INSERT OR UPDATE OR DELETE ON t $statement" if chance(0.6);
		push @triggers, "statement_of_$when $when UPDATE OF " . pick(@of) . " ON t $statement" if chance(0.4);
	}
	push @triggers, "old_u AFTER UPDATE ON t $old" if chance(0.4);
	push @triggers, "old_d AFTER DELETE ON t $old" if chance(0.4);
	push @triggers, "new_u AFTER UPDATE ON t $new" if chance(0.4);
	push @triggers, "new_and_old AFTER UPDATE ON t REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION log_both()" if chance(0.4);
	$schema->{new_table} = grep { /NEW TABLE/ } @triggers;
	push @triggers, "new_i AFTER INSERT ON t $new" if chance(0.4);
	foreach my $leaf (some(3, @{ $schema->{leaves} }))
	{
		push @triggers, "leaf_of_$_ " . pick('BEFORE', 'AFTER') . " UPDATE OF $of[$_] ON $leaf $row" foreach grep { chance(0.4) } 0 .. $#of;
		push @triggers, "leaf BEFORE UPDATE OR DELETE ON $leaf $row" if chance(0.3);
	}
	foreach my $table (qw(s w par child q))
	{
		push @triggers, "${table}_row AFTER INSERT OR UPDATE OR DELETE ON $table $row" if chance(0.4);
		push @triggers, "${table}_of BEFORE UPDATE OF v ON $table $row" if chance(0.3);
		push @triggers, "${table}_statement AFTER UPDATE OR DELETE ON $table $statement" if chance(0.3);
	}
	push @triggers, "last AFTER UPDATE ON t $row";
	$schema->{triggers} = [ map { /^(\w+) .* ON t / ? $1 : () } @triggers ];
	my $sql = join('', map { "CREATE TRIGGER $_;\n" } @triggers);
	$sql .= "CREATE CONSTRAINT TRIGGER checked AFTER UPDATE OR DELETE ON t DEFERRABLE INITIALLY " . pick('DEFERRED', 'IMMEDIATE') . " $row;\n" if chance(0.4);
	return $sql;
}

sub generate
{
	my ($version) = @_;
	my $kind = pick(qw(hash list default range sub));
	my %pk = (hash => ['id'], list => [ 'id', 'p' ], default => [ 'id', 'p' ], range => [ 'id', 'r' ], sub => [ 'id', 'p', 'r' ]);
	my @columns = some(99, grep { $_ ne 'gen' || chance(0.6) } sort keys %types);
	my $schema = { version => $version, kind => $kind, pk => [ some(9, @{ $pk{$kind} }) ], columns => \@columns, leaves => [], has => { map { $_ => 1 } @columns } };
	my @pk = @{ $schema->{pk} };

	my $sql = "SET client_min_messages = error;\nCREATE EXTENSION index_table;\nCREATE TABLE log (line text);\n";
	$sql .= base_table($schema);
	my $par_parted = chance(0.5);
	$sql .= "CREATE TABLE par (id int PRIMARY KEY, k int, v text)" . ($par_parted ? " PARTITION BY HASH (id);\n" : ";\n");
	$sql .= "CREATE TABLE s (id int PRIMARY KEY, k int, u int, v int, a text) PARTITION BY HASH (id);\n";
	$sql .= "CREATE TABLE w (id int, p text, k int, v int, PRIMARY KEY (p, id)) PARTITION BY LIST (p);\nCREATE TABLE w_log (line text);\n";
	$sql .= "CREATE TABLE q (id int PRIMARY KEY, k int, v int);\n";
	foreach my $i (0 .. 4)
	{
		$sql .= "CREATE TABLE par_$i PARTITION OF par FOR VALUES WITH (MODULUS 5, REMAINDER $i);\n" if $par_parted;
		$sql .= "CREATE TABLE w_$i PARTITION OF w FOR VALUES IN ('$i');\n";
		if (chance(0.5)) { $sql .= "CREATE TABLE s_$i PARTITION OF s FOR VALUES WITH (MODULUS 5, REMAINDER $i);\n"; }
		else
		{
			$sql .= "CREATE TABLE s_$i (a text, junk int, v int, u int, id int NOT NULL, k int);\nALTER TABLE s_$i DROP COLUMN junk;\n"
			  . "ALTER TABLE s ATTACH PARTITION s_$i FOR VALUES WITH (MODULUS 5, REMAINDER $i);\n";
		}
	}
	my $children = 'NO ACTION';
	$children = pick('CASCADE', 'CASCADE', 'SET NULL') if chance(0.8);
	my $updates = pick('CASCADE', 'CASCADE', 'NO ACTION');
	$sql .= 'CREATE TABLE child (' . join(', ', 'number int PRIMARY KEY', (map { "t_$_ " . ($types{$_} =~ /^(\w+)/)[0] } @pk), 'v text') . ");\n";

	my @index = ('u', 'k', some(5, grep { $_ ne 'gen' || $schema->{has}{gen} } qw(kb la a d c ref gen)));
	$schema->{keys} = { map { $_ => 1 } @index };
	my @tables = map { index_table($schema, $_) } @index;
	my @early = grep { chance(0.5) } @tables;
	my %early = map { $_->{name} => 1 } @early;
	$sql .= $_->{create} foreach @early;
	$sql .= refill();
	$sql .= $_->{create} foreach grep { !$early{ $_->{name} } } @tables;
	foreach my $other ([ 's', 'k', ['b.k'] ], [ 's', 'u', ['b.u'] ], [ 's', 'a', ['b.a'] ], [ 'w', 'k', ['b.k'] ], $par_parted ? [ 'par', 'k', ['b.k'] ] : ())
	{
		my ($base, $key, $expressions) = @$other;
		my @identity = $base eq 'w' ? qw(p id) : ('id');
		my $create = "SELECT index_table.create('$base', '$key', name => '${base}_i_$key');\n";
		$create = "\\if :through\n$create\\endif\n" if chance(0.5);
		$sql .= $create;
		push @tables, describe(name => "${base}_i_$key", base => $base, key => $expressions, copies => \@identity, identity => scalar(@identity));
	}
	$schema->{tables} = \@tables;
	$schema->{indexes} = [ grep { $_->{create} && !$_->{is_unique} } @tables ];

	my $deferrable = chance(0.3) ? ' DEFERRABLE INITIALLY DEFERRED' : '';
	$sql .= "ALTER TABLE t ADD CONSTRAINT t_ref FOREIGN KEY (ref) REFERENCES par ON DELETE " . pick('CASCADE', 'SET NULL', 'NO ACTION') . " ON UPDATE " . pick('CASCADE', 'SET NULL') . "$deferrable;\n" if chance(0.8);
	my $count = $children eq 'NO ACTION' ? 40 : 5;
	$schema->{refill} = refill() . "INSERT INTO child SELECT id, " . join(', ', @pk) . ", 'v' || id FROM t WHERE id % $count = 0 ON CONFLICT DO NOTHING;\n";
	$sql .= "ALTER TABLE child ADD CONSTRAINT child_t FOREIGN KEY (" . join(', ', map { "t_$_" } @pk) . ") REFERENCES t (" . join(', ', @pk) . ") ON DELETE $children ON UPDATE $updates;\n" if chance(0.8);
	$sql .= $functions . $schema->{refill};
	$sql .= "CREATE INDEX ON t (k);\n" if chance(0.3);
	$sql .= triggers($schema);
	$sql .= "CREATE RULE w_update AS ON UPDATE TO w DO ALSO INSERT INTO w_log VALUES (format('update %s %s %s', NEW.id, OLD.v, NEW.v));\n";
	$sql .= "CREATE RULE w_delete AS ON DELETE TO w DO ALSO INSERT INTO w_log VALUES (format('delete %s', OLD.id));\n";
	$sql .= "CREATE RULE w_touch AS ON UPDATE TO w WHERE NEW.v % 5 = 2 DO ALSO UPDATE s SET v = v + 1 WHERE u = NEW.k;\n" if chance(0.5);
	my $columns = join(', ', @columns);
	$sql .= "CREATE VIEW v_simple AS SELECT $columns FROM t WHERE b > 0;\n";
	$sql .= "CREATE VIEW v_check AS SELECT $columns FROM v_simple WHERE k < 20 WITH " . pick('CASCADED', 'LOCAL') . " CHECK OPTION;\n";
	$sql .= "CREATE VIEW v_barrier WITH (security_barrier) AS SELECT $columns FROM t WHERE n < 4" . pick('', ' WITH CHECK OPTION') . ";\n";
	$sql .= "CREATE VIEW v_instead AS SELECT t.*, s.v FROM t LEFT JOIN s ON s.u = t.k;\nCREATE TRIGGER instead INSTEAD OF UPDATE OR DELETE ON v_instead FOR EACH ROW EXECUTE FUNCTION instead();\n";
	$sql .= "ALTER TABLE t ENABLE ROW LEVEL SECURITY;\n"
	  . "CREATE POLICY p_select ON t FOR SELECT USING (b IS NULL OR b % 5 <> 4);\n"
	  . "CREATE POLICY p_insert ON t FOR INSERT WITH CHECK (n < 20);\n"
	  . "CREATE POLICY p_update ON t FOR UPDATE USING (b % 4 <> 3) WITH CHECK (k < 23 OR k IS NULL);\n"
	  . "CREATE POLICY p_delete ON t FOR DELETE USING (k <> 3);\n";
	$sql .= "GRANT ALL ON t, s, w, w_log, par, child, q, log, v_simple, v_check, v_barrier, v_instead TO changes_reader;\n"
	  . "GRANT SELECT (id, u, k, b), UPDATE (b, n) ON t TO changes_columns;\nGRANT ALL ON q, s, log TO changes_columns;\n";
	$sql .= "VACUUM ANALYZE;\n";
	$schema->{setup} = $sql;
	$schema->{prepare} = prepared($schema);
	return $schema;
}

# Rows where there are too few.
sub refill
{
	$next += 1000;
	return qq{
INSERT INTO par SELECT i, i % 10, 'v' || i FROM generate_series(1, 40) i ON CONFLICT DO NOTHING;
INSERT INTO s SELECT i, i % 8, i, i % 13, 'a' || i % 30 FROM generate_series(0, 60) i WHERE NOT EXISTS (SELECT FROM s WHERE u = i) ON CONFLICT DO NOTHING;
INSERT INTO w SELECT i, i % 5, i % 10, i FROM generate_series(1, 60) i WHERE NOT EXISTS (SELECT FROM w WHERE id = i);
INSERT INTO q SELECT i, i % 8, i % 11 FROM generate_series(1, 80) i ON CONFLICT DO NOTHING;
INSERT INTO t (id, p, r, k, u, a, b, c, d, n, ref)
	SELECT $next + i, (ARRAY['n', 's', 'e', 'w'])[i % 4 + 1], i % 40, nullif(i % 25, 24), u, 'a' || i % 30, i % 13 - 2, i % 7 * 0.5, ARRAY[i % 10, i % 11], i % 5, nullif(i % 41, 0)
	  FROM (SELECT u, row_number() OVER (ORDER BY u) AS i FROM generate_series(1, 250) u WHERE NOT EXISTS (SELECT FROM t WHERE t.u = u.u)) f(u, i)
	 WHERE i <= 230 - (SELECT count(*) FROM t);
};
}

# --- Conditions ---------------------------------------------------------------------

# A condition on the rows of t under an alias that an index table may serve.
sub key_condition
{
	my ($schema, $t, $depth) = @_;
	my $key = pick('u', 'u', 'u', 'k', 'k', sort keys %{ $schema->{keys} });
	my ($k, $u, $a) = (k_value(), u_value(), a_value());
	return pick("$t.u = $u", "$t.u = $u", "$t.u IN (" . list_of(3, \&u_value) . ')', "$t.u = ANY ('{" . list_of(4, \&u_value) . "}')", "$t.u BETWEEN $u AND $u + 3", "$t.u > 245", "$t.u = $u + 1 - 1", "($t.u <= 3 OR $t.u = $u)") if $key eq 'u';
	return pick("$t.k = $k", "$t.k = $k", "$t.k IN ($k, " . k_value() . ')', "$t.k IS NULL", "$t.k = $k AND $t.b > 3", "$t.k BETWEEN $k AND $k + 1", "$t.k = (SELECT max(x.k) FROM s x WHERE x.u = $k)") if $key eq 'k';
	return pick("$t.k = $k AND $t.b = " . number(10), "($t.k, $t.b) = ($k, " . number(10) . ')', "($t.k, $t.b) IN (($k, 1), (" . k_value() . ', 2))') if $key eq 'kb';
	return "lower($t.a) = $a" if $key eq 'la';
	return pick("$t.a = $a", "$t.a LIKE 'a1" . number(10) . "%'", "$t.a IN ($a, 'def')") if $key eq 'a';
	return pick(number(11) . " = ANY ($t.d)", "$t.d \@> ARRAY[" . number(11) . ']') . " AND $t.id % 3 = 1" if $key eq 'd';
	return "$t.c = " . number(7) / 2 . " AND $t.b > " . number(3) if $key eq 'c';
	return "$t.ref = " . (1 + number(40)) if $key eq 'ref';
	return "$t.gen = '" . 'a' . number(30) . '/' . number(10) . "'";
}

sub condition
{
	my ($schema, $t) = @_;
	my $k = number(8);
	my $what = rand();
	my $sql = key_condition($schema, $t);
	$sql = "($sql OR " . key_condition($schema, $t) . ')' if $what < 0.08;
	$sql = pick(
		"$t.u IN (SELECT x.id FROM q x WHERE x.k = $k)",
		"$t.u = (SELECT max(x.id) FROM q x WHERE x.k = $k)",
		"EXISTS (SELECT FROM q x WHERE x.id = $t.u AND x.k = $k)",
		"$t.k = ANY (ARRAY(SELECT x.u FROM s x WHERE x.k = $k AND x.u < 25))",
		"$t.u IN (SELECT x.u + 1 FROM t x WHERE x.k = " . k_value() . ')',
		"$t.u = ANY (ARRAY(SELECT x.u FROM t x WHERE x.k = " . k_value() . " ORDER BY x.id LIMIT 2 FOR UPDATE))",
		"$t.u = (SELECT x.u FROM t x WHERE x.k = " . k_value() . " ORDER BY x.id LIMIT 1)",
		"$t.k = " . k_value() . " AND NOT EXISTS (SELECT FROM t x WHERE x.u = $t.u + 1 AND x.k > 20)") if $what > 0.85;
	return $sql if chance(0.6);
	return "$sql AND " . pick("$t.b % 3 = 1", "$t.id % 2 = 0", "$t.n < 3", "$t.a <> 'a7'", "coalesce($t.c, 0) < 2", "$t.b < (SELECT max(x.v) FROM q x)", "EXISTS (SELECT FROM s x WHERE x.u = $t.k)");
}

# --- Sources --------------------------------------------------------------------------

# What a target is joined with: SQL of FROM, the join condition, an integer and a text column.
sub source
{
	my ($schema, $t) = @_;
	my $k = number(8);
	return @{ pick(
		[ 's', "$t.k = s.u", 's.v', 's.a' ],
		[ 's', "$t.k = s.u AND s.k = $k", 's.v', 's.a' ],
		[ 's', "$t.u = s.id + 20 AND s.k = $k", 's.v', 's.a' ],
		[ 's', "$t.u = s.id AND s.a = " . a_value(), 's.v', 's.a' ],
		[ 'q', "$t.u = q.id AND q.k = $k", 'q.v', 'q.v::text' ],
		[ 'q', "$t.ref = q.id", 'q.v', 'q.v::text' ],
		[ 'tmp', "$t.u = tmp.id AND tmp.v < 4", 'tmp.v', 'tmp.a' ],
		[ '(VALUES (1, 5), (7, 6), (' . (8 + number(9)) . ', NULL), (' . (17 + number(7)) . ', 9)) AS l(k, v)', "$t.k = l.k", 'l.v', "'l' || l.v" ],
		[ "(SELECT x.k, max(x.b) AS v, max(x.a) AS a FROM t x WHERE x.u < 100 GROUP BY x.k) AS g", "$t.k = g.k", 'g.v', 'g.a' ],
		[ 't AS self', "$t.b + 20 = self.u", 'self.b', 'self.a' ],
		[ 't AS self', "$t.u = self.u + 1 AND self.k = " . k_value(), 'self.b', 'self.a' ],
		[ 's LEFT JOIN q ON q.id = s.v', "$t.k = s.u", 'q.v', 's.a' ],
		[ 's LEFT JOIN t AS self ON self.u = s.id', "$t.k = s.u AND s.k = $k", 'self.b', 'self.a' ],
		[ 'q LEFT JOIN LATERAL (SELECT x.* FROM t x WHERE x.k = q.v ORDER BY x.id LIMIT 1) AS self ON true', "$t.u = q.id AND q.k = $k", 'self.b', 'self.a' ],
		[ "s, LATERAL (SELECT count(*)::int AS v FROM t x WHERE x.k = s.v) AS n", "$t.u = s.id AND s.k = $k", 'n.v', 's.a' ],
		[ 'par', "$t.ref = par.id AND par.k = $k", 'par.k', 'par.v' ],
		[ 'tmp FULL JOIN q ON q.id = tmp.id', "$t.u = q.id AND q.k = $k", 'tmp.v', 'tmp.a' ])
	};
}

# --- SET and RETURNING ------------------------------------------------------------------

# Assignments to 1 to 3 columns; $v and $text are a source's columns.
sub assignments
{
	my ($schema, $t, $v, $text, $merge) = @_;
	my ($k, $u, $a) = (k_value(), u_value(), a_value());
	my %set = (
		b => ["b = $t.b + 1", "b = $t.b + 1", "b = $t.b - 1", 'b = ' . number(12), $v ? ("b = $v") x 3 : ()],
		k => ["k = ($t.k + 1) % 25", "k = $k", 'k = NULL', $v ? "k = $v" : ()],
		a => ["a = left($t.a || 'x', 8)", "a = $a", 'a = DEFAULT', "a = upper($t.a)", $text ? "a = left($text, 9)" : ()],
		c => ["c = $t.c + 0.5", 'c = ' . number(7) / 2, 'c = NULL'],
		d => ["d = $t.d || " . number(11), "d = ARRAY[" . number(11) . ']', "d[1] = " . number(11), "d = array_remove($t.d, 3)"],
		n => ["n = $t.n + 1", 'n = DEFAULT', "n = $t.n - 1", chance(0.3) ? 'n = NULL' : ()],
		ref => ['ref = ' . (1 + number(40)), 'ref = NULL', chance(0.3) ? 'ref = 999' : ()],
		u => ["u = $t.u + 250", "u = - $t.u", 'u = NULL', chance(0.3) ? "u = $u" : ()],
		p => ['p = ' . pick("'n'", "'s'", "'e'", "'w'", chance(0.2) ? "'zz'" : ())],
		r => ["r = ($t.r + 10) % 40", 'r = ' . number(40), chance(0.1) ? 'r = 99' : ()],
		id => ["id = $t.id + " . (++$next) . '000']);
	my @subqueries = (
		"(a, b) = (SELECT x.a, x.v FROM s x WHERE x.u = $t.k)",
		"b = (SELECT count(*) FROM t x WHERE x.k = $t.k)",
		"(k, b) = ($t.b, $t.k)",
		"(a, c) = ROW (DEFAULT, 1)",
		$schema->{has}{gen} ? ('gen = DEFAULT', chance(0.1) ? "gen = 'x'" : ()) : ());
	return pick(@subqueries) if chance(0.12);
	# What moves rows is rarer.
	my @columns = ('b', 'b', 'k', 'a', 'c', 'd', 'n', 'ref', 'u', chance(0.4) ? ('p', 'r') : (), chance(0.1) ? 'id' : ());
	my %chosen = map { $_ => 1 } some(1 + number(3), @columns);
	return join(', ', map { pick(@{ $set{$_} }) } sort keys %chosen);
}

sub returning
{
	my ($schema, $t, $v, $of_view, $operation) = @_;
	return '' if chance(0.35);
	my @system = ("$t.tableoid::regclass", "$t.ctid IS NOT NULL AS has_ctid", "(SELECT x.id = $t.id FROM t x WHERE x.ctid = $t.ctid AND x.tableoid = $t.tableoid) AS same", "$t.*", chance(0.2) ? "$t.xmin IS NOT NULL AS has_xmin" : ());
	my @list = some(1 + number(4),
		"$t.id", "$t.b", "$t.a, $t.k", "$t AS whole", "$t.b + 1 AS more", "($t).c", "$t.u",
		"(SELECT count(*) FROM s x WHERE x.u = $t.k) AS others", "(SELECT max(x.b) FROM t x WHERE x.u = $t.u + 1) AS neighbour",
		"coalesce($t.d, '{}') AS d",
		$schema->{has}{gen} ? "$t.gen" : (),
		$of_view ? () : @system,
		$v ? ($v, "$v + $t.b AS sum") : (),
		$schema->{version} >= 180000 && $operation ne 'lock' ? ('old.b AS old_b', 'new.b AS new_b', 'old.*', 'old.tableoid::regclass AS place') : ());
	return ' RETURNING *' if chance(0.2);
	return ' RETURNING ' . join(', ', @list);
}

# --- Statements -------------------------------------------------------------------------

# The target: SQL and alias.
sub target
{
	my ($schema) = @_;
	my $t = pick('t', 't', 'y');
	my $view = chance(0.15) ? pick(qw(v_simple v_check v_barrier)) : 't';
	return ($view eq $t ? $t : "$view AS $t", $t, $view ne 't');
}

sub update
{
	my ($schema, $more) = @_;
	my ($target, $t, $of_view) = target($schema);
	my ($from, $join, $v, $text) = chance(0.4) ? source($schema, $t) : ();
	my @where = ($join ? $join : (), !$join || chance(0.5) ? condition($schema, $t) : (), $more ? "$t.$more" : ());
	return "UPDATE $target SET " . assignments($schema, $t, $v, $text) . ($from ? " FROM $from" : '') . ' WHERE ' . join(' AND ', @where) . returning($schema, $t, $v, $of_view, 'update');
}

sub delete_some
{
	my ($schema, $more) = @_;
	my ($target, $t, $of_view) = target($schema);
	my ($using, $join, $v) = chance(0.4) ? source($schema, $t) : ();
	my @where = ($join ? $join : (), !$join || chance(0.7) ? condition($schema, $t) : (), "$t.b < " . (4 + number(7)), $more ? "$t.$more" : ());
	return "DELETE FROM $target" . ($using ? " USING $using" : '') . ' WHERE ' . join(' AND ', @where) . returning($schema, $t, $v, $of_view, 'delete');
}

# Whether PostgreSQL itself gets NEW TABLE of an UPDATE wrong where the same MERGE has inserted a row
# before: it shows that one, or crashes. Right since 15.20; wrong in 17.11 and 18.6.
sub confuses_new_table
{
	my ($schema) = @_;
	return $schema->{version} < 150020 || $schema->{version} >= 160000;
}

sub merge
{
	my ($schema) = @_;
	my ($target, $t, $of_view) = target($schema);
	($target, $t, $of_view) = ('t', 't', 0) if $schema->{version} < 170000 && $of_view;
	my ($from, $join, $v, $text);
	if (chance(0.6))
	{
		my @rows = map { my $u = chance(0.7) ? u_value() : ++$next; "($u, " . number(12) . ", 'm$u')" } 1 .. 1 + number(4);
		$from = '(SELECT DISTINCT ON (u) * FROM (VALUES ' . join(', ', @rows) . ') AS f(u, v, a) ORDER BY u, v) AS m';
		($join, $v, $text) = ("$t.u = m.u", 'm.v', 'm.a');
	}
	else
	{
		do { ($from, $join, $v, $text) = source($schema, $t); } while ($from =~ /FULL/);
	}
	# A join is one table in parentheses here.
	$from =~ s/^s, /s CROSS JOIN /;
	$from = "($from)" if $from =~ / JOIN / && $from !~ /^\(/;
	my $extra = $join =~ /m\.u/ ? '' : ' AND ' . condition_without_subquery($schema, $t);
	my @actions;
	foreach (1 .. 1 + number(3))
	{
		my $if = chance(0.6) ? ' AND ' . pick("$t.b > " . number(8), "$v < 6", "$t.n % 2 = 0", "$t.k IS NOT NULL", "$v <> $t.b", "EXISTS (SELECT FROM s x WHERE x.u = $t.k)") : '';
		push @actions, "WHEN MATCHED$if THEN " . pick('UPDATE SET ' . assignments($schema, $t, $v, $text), 'UPDATE SET ' . assignments($schema, $t, $v, $text), 'DELETE', 'DO NOTHING');
		# PostgreSQL itself takes the columns of one for those of another, and may crash.
		my $assigns = qr/\(a, b\) = \(SELECT/;
		$actions[-1] = "WHEN MATCHED$if THEN DO NOTHING" if (grep { $_ =~ $assigns } @actions) > 1 && $actions[-1] =~ $assigns;
		last unless $if;
	}
	if (chance(0.55))
	{
		my $id = ++$next . '000';
		my $if = chance(0.5) ? " AND $v > " . number(9) : '';
		# Several rows that are inserted must have keys of their own.
		my $insert = $join =~ /m\.u/ && !($schema->{new_table} && confuses_new_table($schema)) ? "INSERT (id, p, r, k, u, b, a) VALUES ($id + m.u, " . pick("'n'", "'s'", "'e'", chance(0.1) ? "'zz'" : ()) . ', ' . number(40) . ", $v, m.u, 1, $text)" : 'DO NOTHING';
		push @actions, "WHEN NOT MATCHED$if THEN $insert";
	}
	push @actions, 'WHEN NOT MATCHED BY SOURCE AND ' . condition_without_subquery($schema, $t) . ' THEN ' . pick('DELETE', "UPDATE SET b = $t.b + 1") if $schema->{version} >= 170000 && chance(0.1);
	my $returning = $schema->{version} >= 170000 ? returning($schema, $t, $v, $of_view, 'merge') : '';
	$returning =~ s/RETURNING/RETURNING merge_action(),/;
	return "MERGE INTO $target USING $from ON $join$extra " . join(' ', @actions) . $returning;
}

sub condition_without_subquery
{
	my ($schema, $t) = @_;
	my $sql;
	do { $sql = key_condition($schema, $t); } while $sql =~ /SELECT/;
	return "($sql)";
}

sub strength { return pick('FOR UPDATE', 'FOR UPDATE', 'FOR NO KEY UPDATE', 'FOR SHARE', 'FOR KEY SHARE'); }

sub lock_rows
{
	my ($schema, $wait) = @_;
	my $strength = strength();
	$wait //= pick('', '', ' SKIP LOCKED', ' NOWAIT');
	my $where = condition($schema, 't');
	my $view = pick(qw(v_simple v_check v_barrier));
	my ($from, $join, $v);
	do { ($from, $join, $v) = source($schema, 't'); } while $from =~ /FULL|GROUP BY|VALUES|count|LATERAL/;
	my $of = pick('', ' OF t');
	$of = ' OF t' if $from =~ /LEFT/;
	$of = " OF t $strength OF " . ($from =~ /AS (self)/)[0] if $from =~ /^t AS self/ && chance(0.3);
	$of = " OF t FOR SHARE OF s" if $from eq 's' && chance(0.3);
	my $limit = pick('', '', ' LIMIT ' . (1 + number(3)), ' LIMIT 2 OFFSET 1');
	return pick(
		"SELECT t.* FROM t WHERE $where $strength$wait",
		"SELECT t.id, t.b, t.tableoid::regclass, t.ctid IS NOT NULL FROM t WHERE $where ORDER BY t.id$limit $strength OF t$wait",
		"SELECT t, t.u FROM t WHERE $where ORDER BY t.u, t.id$limit $strength$wait",
		"SELECT t.id, $v FROM t, $from WHERE $join AND $where ORDER BY 1, 2$limit $strength$of$wait",
		"SELECT t.id, $v FROM t JOIN $from ON $join WHERE $where ORDER BY 1, 2 $strength$of$wait",
		"SELECT s.id, t.b FROM s LEFT JOIN t ON t.u = s.id WHERE s.k = " . number(8) . " ORDER BY 1 $strength OF s$wait",
		"SELECT t.id, s.v FROM t LEFT JOIN s ON s.u = t.k WHERE $where $strength OF t$wait",
		"SELECT t.* FROM $view AS t WHERE $where $strength$wait",
		"SELECT l.id, l.b FROM (SELECT * FROM t WHERE $where ORDER BY t.id$limit $strength$wait) AS l WHERE l.b % 2 = 0",
		"WITH l AS (SELECT * FROM t WHERE $where $strength$wait) SELECT count(*), min(l.b), max(l.a) FROM l",
		"SELECT q.id, (SELECT l.b FROM (SELECT t.b FROM t WHERE t.u = q.id $strength) AS l) FROM q WHERE q.k = " . number(8),
		"SELECT q.id, l.b FROM q LEFT JOIN LATERAL (SELECT t.b FROM t WHERE t.u = q.id $strength$wait) AS l ON true WHERE q.k = " . number(8),
		"SELECT t.id FROM t WHERE $where AND t.u IN (SELECT x.u FROM t x WHERE x.k = " . k_value() . ") $strength$wait",
		"SELECT x.id, t.id FROM t JOIN t x ON x.u = t.u + 1 WHERE $where ORDER BY 1, 2 $strength$wait");
}

sub cte
{
	my ($schema) = @_;
	my $k = number(8);
	my $even = update($schema, 'id % 2 = 0');
	$even =~ s/ RETURNING.*?$//s;
	my $odd = delete_some($schema, 'id % 2 = 1');
	$odd =~ s/ RETURNING.*?$//s;
	my ($t) = $even =~ /^UPDATE \S+(?: AS (\w+))?/;
	my ($o) = $odd =~ /^DELETE FROM \S+(?: AS (\w+))?/;
	$_ //= 't' foreach $t, $o;
	my $where = condition($schema, 't');
	my $columns = join(', ', grep { $_ ne 'gen' && $_ ne 'id' } @{ $schema->{columns} });
	my $new = ++$next . '000';
	return pick(
		"WITH x AS ($even RETURNING $t.*), y AS ($odd RETURNING $o.*) SELECT 'x' AS what, count(*), min(b), max(a) FROM x UNION ALL SELECT 'y', count(*), min(b), max(a) FROM y",
		"WITH x AS ($even RETURNING $t.*), y AS ($odd RETURNING $o.*), z AS (UPDATE s SET v = v + 1 WHERE u IN (SELECT k FROM x) RETURNING *) SELECT x.id, z.v FROM x LEFT JOIN z ON z.u = x.k",
		"WITH x AS ($even RETURNING $t.*), y AS ($odd RETURNING $o.*) INSERT INTO w_log SELECT x.id || ' ' || count(y.id) FROM x LEFT JOIN y ON y.k = x.k GROUP BY x.id",
		"WITH x AS ($even RETURNING $t.u, $t.b) UPDATE q SET v = x.b FROM x WHERE q.id = x.u RETURNING q.*",
		"WITH x AS ($even RETURNING $t.u, $t.b) $odd AND $o.n < (SELECT count(*) FROM x) + 2 RETURNING $o.id",
		"WITH x AS (DELETE FROM t WHERE $where RETURNING $columns) INSERT INTO t (id, $columns) SELECT $new + row_number() OVER (ORDER BY x::text), $columns FROM x" . pick('', ' RETURNING *'),
		"WITH x AS (SELECT u, n FROM t WHERE $where ORDER BY id LIMIT 2 FOR UPDATE) UPDATE t SET n = x.n + 2 FROM x WHERE t.u = x.u RETURNING t.n",
		"WITH x AS (UPDATE t SET b = b + 1 WHERE $where RETURNING *) SELECT count(*), sum(b), min(k), array_agg(DISTINCT p ORDER BY p) FROM x",
		"WITH x AS MATERIALIZED (SELECT u FROM t WHERE $where) UPDATE t SET b = b + 1 WHERE u IN (SELECT u + 1 FROM x) RETURNING id, b",
		"WITH x AS ($even) DELETE FROM q WHERE id IN (SELECT u FROM t WHERE $where)",
		"WITH x AS ($even RETURNING $t.*) SELECT t.id, t.b, x.b AS new_b FROM t JOIN x ON x.u = t.u WHERE t.k = " . k_value(),
		"WITH RECURSIVE x AS (SELECT u, 1 AS n FROM t WHERE u = " . u_value() . " UNION ALL SELECT t.u, x.n + 1 FROM x JOIN t ON t.u = x.u + 1 WHERE x.n < 4) UPDATE t SET c = x.n FROM x WHERE x.u = t.u RETURNING t.u, t.c",
		"WITH x AS ($odd RETURNING $o.k), y AS (SELECT DISTINCT k FROM x) UPDATE s SET v = s.v + 1 FROM y WHERE s.u = y.k RETURNING s.id");
}

# Statements whose target is another table, or none.
sub other
{
	my ($schema) = @_;
	my $k = number(8);
	my $where = condition($schema, 't');
	my ($u, $key) = (u_value(), k_value());
	return pick(
		"UPDATE q SET v = t.b FROM t WHERE t.u = q.id AND q.k = $k RETURNING q.*, t.id, t.tableoid::regclass",
		"UPDATE q SET v = q.v + 1 FROM t WHERE t.u = q.id AND $where RETURNING q.id, t",
		"UPDATE q SET v = (SELECT max(t.b) FROM t WHERE t.k = q.v) WHERE q.k = $k RETURNING *",
		"DELETE FROM q USING t WHERE t.u = q.id AND t.b > 3 AND q.k = $k RETURNING q.id, t.b",
		"UPDATE s SET v = t.n FROM t WHERE t.u = s.id AND s.k = $k RETURNING s.*, t.b",
		"UPDATE s SET v = s.v + 1, a = left(s.a || 'x', 5) WHERE s.a = " . a_value() . " RETURNING s, s.tableoid::regclass",
		"UPDATE s SET id = s.id + 61 WHERE s.k = $k AND NOT EXISTS (SELECT FROM s x WHERE x.id >= 61)",
		"DELETE FROM s USING t WHERE t.k = s.u AND t.u = $u RETURNING s.*, t.*",
		"UPDATE w SET v = v + 1 WHERE k = " . number(10) . pick('', ' AND v % 2 = 0'),
		"UPDATE w SET p = '" . number(5) . "', v = v + 3 WHERE k = " . number(10),
		"DELETE FROM w WHERE k = " . number(10) . " AND v > " . number(50),
		"UPDATE w SET v = s.v FROM s WHERE s.u = w.id AND w.k = " . number(10),
		"DELETE FROM par WHERE k = " . number(10) . ' AND id > ' . number(40),
		"UPDATE par SET id = id + 1000 WHERE k = " . number(10) . ' AND id < ' . number(40),
		"UPDATE par SET v = v || 'x' WHERE k = " . number(10) . ' RETURNING *',
		"DELETE FROM par USING t WHERE t.ref = par.id AND t.u = $u RETURNING par.id, t.id",
		"UPDATE child SET v = t.a FROM t WHERE t.id = child.t_id AND $where RETURNING child.number, t.b",
		"DELETE FROM child WHERE t_id IN (SELECT t.id FROM t WHERE $where)",
		"UPDATE v_instead SET b = b + 1 WHERE u = $u RETURNING id, b, v",
		"UPDATE v_instead SET k = (k + 1) % 25, b = v WHERE k = $key",
		"DELETE FROM v_instead WHERE u = $u",
		"COPY (UPDATE t SET b = b + 1 WHERE u = $u RETURNING id, b) TO STDOUT",
		"INSERT INTO w_log SELECT t.id || t.a FROM t WHERE $where");
}

sub function
{
	my ($schema) = @_;
	my ($k, $u, $step) = (k_value(), u_value(), 1 + number(3));
	return pick(
		"SELECT change_loop($k, $step)",
		"SELECT lock_loop($k)",
		"SELECT current_loop($k, " . pick('false', 'false', 'true') . ')',
		"SELECT * FROM sql_update($k, $step)",
		"SELECT sql_delete($u)",
		'SELECT try(' . quote_literal(update($schema)) . '), try(' . quote_literal(delete_some($schema)) . ')',
		'SELECT try(' . quote_literal(merge($schema)) . ')',
		"DO \$\$ BEGIN UPDATE t SET b = b + $step WHERE k = $k; IF FOUND THEN DELETE FROM t WHERE u = $u; END IF; PERFORM FROM t WHERE k = $k FOR UPDATE; END \$\$");
}

sub control
{
	my ($schema) = @_;
	my $new = ++$next . '000';
	my $row = "($new, 's', " . number(40) . ', ' . k_value() . ', ' . pick('NULL', u_value()) . ", 1, 'new')";
	my $pk = join(', ', @{ $schema->{pk} });
	return pick(
		"INSERT INTO t (id, p, r, k, u, b, a) VALUES $row RETURNING *",
		"INSERT INTO t (id, p, r, k, u, b, a) SELECT id, p, r, k, u, 1, 'x' FROM t WHERE " . condition($schema, 't') . " ON CONFLICT ($pk) DO UPDATE SET b = t.b + 1, a = EXCLUDED.a WHERE t.k < 22 RETURNING t.id, t.b",
		"INSERT INTO t (id, p, r, k, u, b, a) SELECT id, p, r, k, u, 1, 'x' FROM t WHERE u = " . u_value() . " ON CONFLICT DO NOTHING",
		"UPDATE t SET b = b + 1 WHERE id % 50 = " . number(50) . " RETURNING id",
		"DELETE FROM t WHERE p = 'n' AND r = " . number(40) . " AND id % 4 = 1 RETURNING id");
}

# --- Prepared statements -----------------------------------------------------------------

my %arguments = (
	p_update => sub { k_value() . ', ' . number(9) },
	p_move => sub { u_value() . ', ' . pick("'n'", "'s'", "'e'") },
	p_delete => sub { u_value() },
	p_any => sub { "'{" . list_of(3, \&u_value) . "}'" },
	p_join => sub { number(8) },
	p_lock => sub { k_value() },
	p_cte => sub { k_value() . ', ' . k_value() },
	p_merge => sub { u_value() . ', ' . number(9) },
	p_range => sub { my $u = u_value(); "$u, " . ($u + 2) },
	p_none => sub { '' });

sub prepared
{
	my ($schema) = @_;
	return "CREATE TEMP TABLE tmp AS SELECT i AS id, i % 7 AS v, 'tmp' || i AS a FROM generate_series(1, 60, 2) i;\nGRANT SELECT ON tmp TO PUBLIC;\n"
	  . join('', map { "PREPARE $_;\n" }
		'p_update(int, int) AS UPDATE t SET b = $2, k = (k + 1) % 25 WHERE k = $1 RETURNING id, b, k',
		'p_move(int, text) AS UPDATE t SET p = $2, r = (r + 7) % 40 WHERE u = $1 RETURNING *',
		'p_delete(int) AS DELETE FROM t WHERE u = $1 AND b < 8 RETURNING *',
		'p_any(int[]) AS UPDATE t SET n = n + 1, a = a || n WHERE u = ANY ($1) RETURNING t',
		'p_join(int) AS UPDATE t SET a = s.a, b = s.v FROM s WHERE t.k = s.u AND s.k = $1 RETURNING t.id, s.id',
		'p_lock(int) AS SELECT * FROM t WHERE k = $1 ORDER BY id FOR UPDATE',
		'p_cte(int, int) AS WITH x AS (UPDATE t SET b = b + 1 WHERE k = $1 AND id % 2 = 0 RETURNING u), y AS (DELETE FROM t WHERE k = $2 AND id % 2 = 1 AND b < 2 RETURNING u) SELECT count(*), min(u) FROM (TABLE x UNION ALL TABLE y) z',
		'p_merge(int, int) AS MERGE INTO t USING (VALUES ($1, $2)) AS m(u, v) ON t.u = m.u WHEN MATCHED AND m.v > 6 THEN DELETE WHEN MATCHED THEN UPDATE SET b = m.v WHEN NOT MATCHED THEN DO NOTHING',
		'p_range(int, int) AS DELETE FROM t WHERE u BETWEEN $1 AND $2 AND n = 0 RETURNING tableoid::regclass, u',
		'p_none AS UPDATE t SET c = c + 1 WHERE k = 7 RETURNING c');
}

# --- Steps ------------------------------------------------------------------------------

sub step
{
	my ($kind, $sql, $explain) = @_;
	return { kind => $kind, sql => $sql, explain => $explain };
}

sub explainable { my ($kind, $sql) = @_; return step($kind, $sql, $sql =~ /^COPY/ ? undef : $sql); }

sub statement
{
	my ($schema) = @_;
	my $what = rand();
	return explainable('update', update($schema)) if $what < 0.26;
	return explainable('delete', delete_some($schema)) if $what < 0.38;
	return explainable('merge', merge($schema)) if $what < 0.52;
	return explainable('lock', lock_rows($schema)) if $what < 0.64;
	return explainable('cte', cte($schema)) if $what < 0.74;
	return explainable('other', other($schema)) if $what < 0.82;
	return step('function', function($schema)) if $what < 0.87;
	return explainable('control', control($schema)) if $what < 0.91;
	return analyzed($schema) if $what < 0.93;
	my $name = pick(sort keys %arguments);
	my $values = $arguments{$name}->();
	my $execute = "EXECUTE $name" . ($values eq '' ? '' : "($values)");
	return step('prepared', $execute, $execute);
}

# What EXPLAIN ANALYZE prints is another thing on each side.
sub analyzed
{
	my ($schema) = @_;
	my $sql = pick(update($schema), delete_some($schema), merge($schema), cte($schema));
	return step('analyzed', "\\o /dev/null\nEXPLAIN (ANALYZE, " . pick('VERBOSE, ', 'FORMAT JSON, ', '') . "COSTS OFF, TIMING OFF, SUMMARY OFF) $sql;\n\\o\nSELECT 'analyzed'", $sql);
}

sub frame { return map { { kind => 'frame', sql => $_, frame => 1 } } @_; }

# Changes of the schema, with statements in between, that leave it as it was.
sub ddl
{
	my ($schema) = @_;
	my @between = map { statement($schema) } 1 .. 2 + number(3);
	my $key = condition($schema, 't');
	my ($leaf, $bound) = @{ $schema->{spare} };
	my $any = pick(@{ $schema->{leaves} });
	my $index = pick(@{ $schema->{indexes} });
	my $trigger = pick(@{ $schema->{triggers} });
	return @{ pick(
		[
			frame('ALTER TABLE t ADD COLUMN z int DEFAULT 5'), @between,
			explainable('update', "UPDATE t SET z = b, b = z WHERE $key RETURNING *"), statement($schema), explainable('lock', "SELECT * FROM t WHERE $key FOR UPDATE"),
			frame('ALTER TABLE t DROP COLUMN z'), statement($schema)
		],
		[ frame("ALTER TABLE t DETACH PARTITION $leaf"), @between, frame("ALTER TABLE t ATTACH PARTITION $leaf $bound"), statement($schema) ],
		[ frame("TRUNCATE $any CASCADE"), @between ],
		[ frame("DO 'BEGIN PERFORM index_table.drop(oid) FROM pg_class WHERE relname = \$\$$index->{name}\$\$; END'"), @between, frame($index->{create} =~ s/;\n\z//r), statement($schema), statement($schema) ],
		[ frame("CREATE INDEX more ON $any (k, b)"), @between, frame('DROP INDEX more'), statement($schema) ],
		[ frame('ANALYZE t'), @between ],
		[ frame("ALTER TABLE t DISABLE TRIGGER $trigger"), @between, frame("ALTER TABLE t ENABLE TRIGGER $trigger"), statement($schema) ],
		[ frame("CREATE TRIGGER more BEFORE UPDATE OF a ON $any FOR EACH ROW EXECUTE FUNCTION log_row()"), @between, frame("DROP TRIGGER more ON $any") ],
		$schema->{kind} =~ /list|sub/ ? [ frame("CREATE TABLE t_more PARTITION OF t FOR VALUES IN ('zz')"), @between, frame("UPDATE t SET p = 'zz' WHERE $key"), statement($schema), frame('DROP TABLE t_more') ] : ())
	};
}

# Locks that another transaction holds, and who meets them.
sub locked
{
	my ($schema) = @_;
	my $holder;
	do { $holder = pick(update($schema), delete_some($schema), lock_rows($schema, ''), lock_rows($schema, '')); } while $holder =~ /\btmp\b/;
	my @probes = map {
		my $strength = $_;
		(
			explainable('lock', "SELECT id, u, b FROM t WHERE " . condition_without_subquery($schema, 't') . " ORDER BY id $strength SKIP LOCKED"),
			step('lock', "SELECT id FROM t ORDER BY id $strength SKIP LOCKED"))
	} some(2, 'FOR UPDATE', 'FOR NO KEY UPDATE', 'FOR SHARE', 'FOR KEY SHARE');
	return (
		frame('BEGIN'), step('held', $holder, $holder), frame("PREPARE TRANSACTION :'held'"),
		@probes,
		explainable('lock', "SELECT id FROM t WHERE u = " . u_value() . ' FOR UPDATE NOWAIT'),
		explainable('cte', "WITH x AS (SELECT u FROM t WHERE k = " . k_value() . " ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) SELECT t.id FROM x JOIN t USING (u) FOR UPDATE OF t SKIP LOCKED"),
		frame(pick('ROLLBACK', 'COMMIT') . " PREPARED :'held'"),
		frame('SELECT changes(false)')); # what deferred triggers have logged: the next to be prepared would hold it
}

sub settings
{
	my ($schema) = @_;
	my @settings = map { "SET $_ = off" } grep { chance(0.12) } qw(enable_hashjoin enable_mergejoin enable_nestloop enable_material enable_sort enable_partition_pruning enable_bitmapscan enable_seqscan);
	push @settings, 'SET plan_cache_mode = ' . pick('force_generic_plan', 'force_custom_plan', 'auto');
	push @settings, 'SET ' . ($schema->{version} >= 160000 ? 'debug_parallel_query' : 'force_parallel_mode') . ' = on' if chance(0.05);
	push @settings, 'SET work_mem = 64' if chance(0.1);
	push @settings, 'SET constraint_exclusion = on' if chance(0.1);
	return @settings;
}

# Statements that belong together: in a transaction or each in its own, under some role.
sub batch
{
	my ($schema, $size) = @_;
	my $role = pick(('') x 14, ('changes_reader') x 4, 'changes_columns');
	my $transaction = chance(0.5);
	my @steps = frame('RESET ROLE', 'RESET ALL', 'SET index_table.enable_scan = :' . (chance(0.85) ? 'force' : 'on'), 'SET statement_timeout = 20000', settings($schema));
	push @steps, frame("SET ROLE $role") if $role;
	push @steps, frame('BEGIN' . pick('', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE')) if $transaction;
	my @savepoints;
	my $count = 0;
	while ($count < $size)
	{
		my @more = statement($schema);
		if (!$role && chance(0.05)) { @more = ddl($schema); }
		elsif (!$role && !$transaction && chance(0.04)) { @more = locked($schema); }
		elsif ($transaction && chance(0.08))
		{
			push @savepoints, 's' . @savepoints;
			@more = frame("SAVEPOINT $savepoints[-1]");
		}
		elsif (@savepoints && chance(0.15))
		{
			my $which = number(scalar @savepoints);
			@savepoints = @savepoints[ 0 .. $which ];
			@more = frame("ROLLBACK TO $savepoints[$which]");
		}
		elsif ($transaction && chance(0.03))
		{
			@more = (
				frame('DECLARE own CURSOR FOR SELECT * FROM t WHERE u = ' . u_value() . pick('', ' FOR UPDATE'), 'FETCH own'),
				explainable('control', pick('UPDATE t SET b = b + 1, k = 4 WHERE CURRENT OF own RETURNING *', 'DELETE FROM t WHERE CURRENT OF own RETURNING id')),
				frame('CLOSE own'));
		}
		$count += grep { !$_->{frame} } @more;
		push @steps, @more;
	}
	push @steps, frame(pick('COMMIT', 'ROLLBACK', 'ROLLBACK')) if $transaction;
	push @steps, frame('VACUUM t') if chance(0.05);
	# Pending events of triggers may have kept it.
	push @steps, frame('RESET ROLE', 'ALTER TABLE t DROP COLUMN IF EXISTS z') if grep { $_->{sql} =~ /ADD COLUMN z/ } @steps;
	push @steps, frame('RESET ROLE', 'RESET index_table.enable_scan');
	(my $refill = $schema->{refill}) =~ s/SELECT (\d+) \+ i/'SELECT ' . ($next += 1000) . ' + i'/e;
	push @steps, { kind => 'control', sql => $refill =~ s/;\s*\z//r };
	return @steps;
}

1;
