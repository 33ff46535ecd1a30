# Global indexes over the base tables of a random schema, chosen by names: the same in every database
# of a name.
#
#   global_sql($salt)   SQL, to be run when the index tables are there
package RandomGlobals;

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(global_sql);

# With the keys of some of the index tables, where such keys can be, and by other methods.
sub global_sql
{
	my ($salt) = @_;
	my $sql = <<'SQL';
DO $global$
DECLARE t record; method text;
BEGIN
    FOR t IN SELECT base, key, predicate FROM index_table.index_tables WHERE hashtext(key) % 2 = 0 ORDER BY index_table::text LOOP
        BEGIN
            EXECUTE format('CREATE INDEX ON %s USING global (%s)', t.base, t.key) || coalesce(' WHERE ' || t.predicate, '');
        EXCEPTION WHEN others THEN
            RAISE NOTICE 'no global index on % (%): %', t.base, t.key, SQLERRM;
        END;
    END LOOP;
    -- and of other methods, over columns that they can have
    FOR t IN SELECT c.oid::regclass AS base, quote_ident(attname) AS name, typcategory AS category, abs(hashtext(relname || attname || 'SALT')) AS chosen
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type y ON y.oid = a.atttypid
              WHERE c.relkind = 'p' AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'big'
                AND EXISTS (SELECT FROM index_table.index_tables i WHERE i.base = c.oid) ORDER BY 1, a.attnum LOOP
        CONTINUE WHEN t.chosen % 3 = 0;
        method := CASE WHEN t.category = 'A' THEN 'gin' ELSE (ARRAY['hash', 'gist', 'spgist', 'gin', 'gist'])[1 + t.chosen / 3 % 5] END;
        BEGIN
            EXECUTE format('CREATE INDEX ON %s USING global (%s%s%s) WITH (method = %L)%s', t.base, t.name,
                           CASE WHEN method IN ('gin', 'gist') AND t.category = 'S' AND t.chosen / 15 % 5 > 0 THEN ' ' || method || '_trgm_ops' ELSE '' END,
                           CASE WHEN method = 'gist' AND t.chosen / 75 % 3 = 0 THEN ', b' ELSE '' END, method,
                           CASE WHEN t.chosen / 225 % 6 = 0 THEN format(' WHERE %s IS NOT NULL', t.name) ELSE '' END);
        EXCEPTION WHEN others THEN
            RAISE NOTICE 'no global index on % (%) by %: %', t.base, t.name, method, SQLERRM;
        END;
    END LOOP;
END $global$;
ANALYZE;
SQL
	$sql =~ s/SALT/$salt/g;
	return $sql;
}

1;
