# What PostgreSQL's catalogs say of the extension: every member of it, and how it is defined.
#
#   catalog_sql()                  a query of rows (object, definition), both text, that name no OIDs
#   extension_catalog($node, $db)  what it returns, as a hash of definitions by object
#   catalog_differences($got, $expected)   a line each: what one has alone, and what differs
#
# Two databases whose extension was created and updated have the same catalog if the update has left
# out nothing. Numbers of columns are part of it, which the library knows tables by.
package ExtensionCatalog;

use strict;
use warnings;

use Exporter 'import';
use Test::More;

our @EXPORT = qw(catalog_sql extension_catalog catalog_differences);

# What a privilege list means: NULL stands for the default of its kind.
sub acl
{
	my ($acl, $kind, $owner) = @_;
	return "(SELECT string_agg(a::text, ' ' ORDER BY a::text COLLATE \"C\") FROM unnest(coalesce($acl, acldefault('$kind', $owner))) a)";
}

# The same for that which pg_dump takes for the extension's own.
sub initial_acl
{
	my ($class, $oid, $kind, $owner) = @_;
	return acl("(SELECT i.initprivs FROM pg_init_privs i WHERE i.classoid = '$class'::regclass AND i.objoid = $oid AND i.objsubid = 0)", $kind, $owner);
}

sub catalog_sql
{
	my $function_acl = acl('p.proacl', 'f', 'p.proowner');
	my $function_initial = initial_acl('pg_proc', 'p.oid', 'f', 'p.proowner');
	my $table_acl = acl('c.relacl', 'r', 'c.relowner');
	my $table_initial = initial_acl('pg_class', 'c.oid', 'r', 'c.relowner');
	my $sequence_acl = acl('c.relacl', 's', 'c.relowner');
	my $type_acl = acl('t.typacl', 'T', 't.typowner');
	my $schema_acl = acl('n.nspacl', 'n', 'n.nspowner');
	my $schema_initial = initial_acl('pg_namespace', 'n.oid', 'n', 'n.nspowner');
	return qq{
WITH extension AS (SELECT * FROM pg_extension WHERE extname = 'index_table'),
member AS (
	SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS name
	  FROM pg_depend d, extension e
	 WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'),
relation AS (SELECT m.name, c.* FROM member m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid),
item(object, definition) AS (
	-- The extension itself; what is dumped.
	SELECT 'extension', concat_ws(', ', e.extnamespace::regnamespace, e.extrelocatable, e.extowner::regrole,
	       obj_description(e.oid, 'pg_extension')) FROM extension e
	UNION ALL SELECT 'version of the extension', e.extversion FROM extension e
	UNION ALL SELECT 'data dumped of ' || c.relation::regclass, '[' || c.condition || ']'
	  FROM extension e, unnest(e.extconfig, e.extcondition) AS c(relation, condition)
	UNION ALL SELECT 'schema index_table', concat_ws(E'\\n', n.nspowner::regrole, $schema_acl, $schema_initial, obj_description(n.oid, 'pg_namespace'))
	  FROM pg_namespace n WHERE n.nspname = 'index_table'
	-- Whatever else belongs to it, and what does not but is in its schema.
	UNION ALL SELECT m.name, 'member: ' || coalesce(obj_description(m.objid, m.classid::regclass::name), 'without comment') FROM member m
	UNION ALL SELECT 'no member: ' || pg_describe_object(o.class, o.oid, 0), ''
	  FROM (SELECT 'pg_proc'::regclass AS class, oid FROM pg_proc WHERE pronamespace = 'index_table'::regnamespace
	        UNION ALL SELECT 'pg_class', oid FROM pg_class WHERE relnamespace = 'index_table'::regnamespace AND relkind NOT IN ('i', 'I')) o
	 WHERE NOT EXISTS (SELECT FROM member m WHERE (m.classid, m.objid) = (o.class, o.oid))
	-- Functions: arguments, defaults, result, language, body, volatility, parallel safety, settings; rights.
	UNION ALL SELECT m.name || ': definition', pg_get_functiondef(p.oid) FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
	UNION ALL SELECT m.name || ': rights', concat_ws(E'\\n', p.proowner::regrole, $function_acl, 'initially ' || $function_initial)
	  FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
	-- Tables, views, sequences, and their columns.
	UNION ALL SELECT c.name || ': properties', concat_ws(', ', c.relkind, c.relpersistence, c.relowner::regrole, c.relam, c.reloptions::text,
	       c.relreplident, c.relrowsecurity, c.relforcerowsecurity, c.relrewrite = c.oid,
	       (SELECT t.relrewrite = t.oid FROM pg_class t WHERE t.oid = c.reltoastrelid)) FROM relation c
	UNION ALL SELECT c.name || ': rights', CASE c.relkind WHEN 'S' THEN $sequence_acl ELSE concat_ws(E'\\n', $table_acl, 'initially ' || $table_initial) END FROM relation c
	UNION ALL SELECT format('%s: column %s', c.name, a.attname), concat_ws(', ', 'number ' || a.attnum, format_type(a.atttypid, a.atttypmod),
	       a.attcollation::regcollation, a.attnotnull, a.attstorage, a.attcompression, a.attidentity, a.attgenerated, a.attacl::text, a.attstattarget,
	       pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum))
	  FROM relation c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
	UNION ALL SELECT c.name || ': query', pg_get_viewdef(c.oid) FROM relation c WHERE c.relkind IN ('v', 'm')
	UNION ALL SELECT c.name || ': sequence', concat_ws(', ', s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle)
	  FROM relation c JOIN pg_sequence s ON s.seqrelid = c.oid
	UNION ALL SELECT format('%s: constraint %s', c.name, k.conname), pg_get_constraintdef(k.oid) FROM relation c JOIN pg_constraint k ON k.conrelid = c.oid
	UNION ALL SELECT format('%s: index %s', c.name, i.indexrelid::regclass), pg_get_indexdef(i.indexrelid) FROM relation c JOIN pg_index i ON i.indrelid = c.oid
	UNION ALL SELECT format('%s: rule %s', c.name, r.rulename), r.ev_enabled::text || ': ' || pg_get_ruledef(r.oid)
	  FROM relation c JOIN pg_rewrite r ON r.ev_class = c.oid WHERE r.rulename <> '_RETURN'
	UNION ALL SELECT format('%s: trigger %s', c.name, t.tgname), t.tgenabled::text || ': ' || pg_get_triggerdef(t.oid)
	  FROM relation c JOIN pg_trigger t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal
	UNION ALL SELECT format('%s: policy %s', c.name, p.polname), pg_get_expr(p.polqual, p.polrelid) FROM relation c JOIN pg_policy p ON p.polrelid = c.oid
	-- Types, casts, operators, access methods and their classes, event triggers.
	UNION ALL SELECT m.name || ': definition', concat_ws(', ', t.typtype, t.typcategory, t.typlen, t.typbyval, t.typalign, t.typstorage, t.typinput, t.typoutput,
	       t.typreceive, t.typsend, t.typmodin, t.typanalyze, t.typowner::regrole, format_type(t.typbasetype, t.typtypmod), t.typdefault, $type_acl,
	       (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
	  FROM member m JOIN pg_type t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
	UNION ALL SELECT m.name || ': definition', concat_ws(', ', c.castfunc::regprocedure, c.castcontext, c.castmethod)
	  FROM member m JOIN pg_cast c ON m.classid = 'pg_cast'::regclass AND c.oid = m.objid
	UNION ALL SELECT m.name || ': definition', concat_ws(', ', o.oprcode::regprocedure, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprrest, o.oprjoin,
	       o.oprcanmerge, o.oprcanhash) FROM member m JOIN pg_operator o ON m.classid = 'pg_operator'::regclass AND o.oid = m.objid
	UNION ALL SELECT m.name || ': definition', concat_ws(', ', a.amtype, a.amhandler::regprocedure)
	  FROM member m JOIN pg_am a ON m.classid = 'pg_am'::regclass AND a.oid = m.objid
	UNION ALL SELECT m.name || ': definition', concat_ws(', ', c.opcintype::regtype, c.opckeytype::regtype, c.opcdefault, c.opcowner::regrole,
	       pg_describe_object('pg_opfamily'::regclass, c.opcfamily, 0))
	  FROM member m JOIN pg_opclass c ON m.classid = 'pg_opclass'::regclass AND c.oid = m.objid
	UNION ALL SELECT m.name || ': contents', coalesce((SELECT string_agg(concat_ws(' ', p.amproclefttype::regtype, p.amprocrighttype::regtype, p.amprocnum,
	         p.amproc::regprocedure), ', ' ORDER BY p.amprocnum, p.amproclefttype, p.amprocrighttype) FROM pg_amproc p WHERE p.amprocfamily = m.objid), '')
	       || coalesce((SELECT string_agg(concat_ws(' ', o.amopstrategy, o.amoppurpose, o.amopopr::regoperator), ', ' ORDER BY o.amopstrategy, o.amoplefttype, o.amoprighttype)
	                      FROM pg_amop o WHERE o.amopfamily = m.objid), '')
	  FROM member m WHERE m.classid = 'pg_opfamily'::regclass
	UNION ALL SELECT m.name || ': definition', concat_ws(', ', t.evtevent, t.evtenabled, t.evtfoid::regprocedure, t.evtowner::regrole, t.evttags::text)
	  FROM member m JOIN pg_event_trigger t ON m.classid = 'pg_event_trigger'::regclass AND t.oid = m.objid)
SELECT object, coalesce(definition, '') FROM item};
}

# Between records and fields, control characters that no definition has.
sub extension_catalog
{
	my ($node, $db, $before) = @_;
	my $sql = "SET search_path = pg_catalog; BEGIN; " . ($before // '') . ';' . catalog_sql() . '; ROLLBACK';
	my ($result, $stdout, $stderr) = $node->psql($db, $sql, extra_params => [ '-F', "\x1f", '-R', "\x1e" ], on_error_stop => 1);
	die "the catalog of $db cannot be read: $stderr" if $result;
	return { map { split(/\x1f/, $_, 2) } grep { length } split(/\x1e/, $stdout) };
}

sub catalog_differences
{
	my ($got, $expected) = @_;
	my $lines = '';
	foreach my $object (sort keys %{ { %$got, %$expected } })
	{
		if (!exists $got->{$object}) { $lines .= "missing: $object\n$expected->{$object}\n"; }
		elsif (!exists $expected->{$object}) { $lines .= "left over: $object\n"; }
		elsif ($got->{$object} ne $expected->{$object})
		{
			$lines .= "differs: $object\n--- is\n$got->{$object}\n--- should be\n$expected->{$object}\n";
		}
	}
	return $lines;
}

1;
