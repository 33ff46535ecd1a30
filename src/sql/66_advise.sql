
-- Definitions as statements, advice ---------------------------------------------

CREATE FUNCTION index_table.ddl(index_table regclass) RETURNS text
    AS 'MODULE_PATHNAME', 'index_table_ddl'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.ddl(regclass) IS
    'the statement that makes an index table, or a global index, as it is now, with every name qualified. Locks it and its base table for a moment (ACCESS SHARE)';

CREATE FUNCTION index_table.statement_conditions(
    base regclass, statement text, path text,
    OUT command text, OUT equal text[], OUT equal_columns smallint[], OUT equal_types oid[],
    OUT ranged text[], OUT ranged_columns smallint[], OUT ranged_types oid[],
    OUT shown smallint[], OUT changed smallint[]
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_statement_conditions'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.statement_conditions(regclass, text, text) IS
    'internal: how a statement refers to a table, a row for each reference: keys that must equal something, or are compared with it, with the column and the type of each; columns that are read (0: the whole row), and set. Names are looked for along path. No row for what cannot be understood';

CREATE FUNCTION index_table.served_keys(
    base regclass,
    OUT index_table regclass, OUT keys text[], OUT is_unique boolean, OUT is_visible boolean, OUT is_partial boolean, OUT tree regclass
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_served_keys'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.served_keys(regclass) IS
    'internal: keys of the index tables and global indexes of a table, column by column; is_partial: a look-up by the key may need rows that are left out; tree: of a global index';

CREATE FUNCTION index_table.count_rows(base regclass) RETURNS float8
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT GREATEST((SELECT sum(c.reltuples) FROM pg_partition_tree(base) t JOIN pg_class c ON c.oid = t.relid
                      WHERE t.isleaf AND c.reltuples > 0),
                    (SELECT reltuples FROM pg_class WHERE oid = base AND relkind IN ('r', 'f', 'p')), 0)::float8
    $$;
COMMENT ON FUNCTION index_table.count_rows(regclass) IS 'internal: rows of a table as PostgreSQL''s statistics have them; 0: never analyzed';

CREATE FUNCTION index_table.column_statistics(
    base regclass,
    OUT attnum smallint, OUT name name, OUT null_fraction float8, OUT distinct_values float8, OUT width float8,
    OUT elements float8, OUT element_frequency float8, OUT common text[], OUT frequencies float8[]
) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT a.attnum, a.attname, s.null_frac,
           CASE WHEN s.n_distinct < 0 THEN -s.n_distinct * r.rows ELSE NULLIF(s.n_distinct, 0) END,
           s.avg_width, s.elem_count_histogram[cardinality(s.elem_count_histogram)],
           (SELECT avg(f) FROM unnest(s.most_common_elem_freqs[1:cardinality(s.most_common_elem_freqs) - 3]) f),
           s.most_common_vals::text::text[], s.most_common_freqs::float8[]
      FROM (SELECT index_table.count_rows(base) AS rows OFFSET 0) r, pg_class c
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
                     AND s.inherited = (c.relkind = 'p')
     WHERE c.oid = base
    $$;
COMMENT ON FUNCTION index_table.column_statistics(regclass) IS
    'internal: what pg_stats says of the columns of a table, those of partitions together; no rows before ANALYZE';

-- The sizes that PostgreSQL's own code gives rows and index entries; docs/internals/reading.md.
CREATE FUNCTION index_table.estimate_bytes(
    base regclass, key_columns smallint[], key_types oid[], identity smallint[], include smallint[], is_unique boolean, only_not_null boolean
) RETURNS bigint
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    #variable_conflict use_variable
    DECLARE
        entries float8 := index_table.count_rows(base);
        widths float8[] := '{}';
        alignments float8[] := '{}';
        nulls float8[] := '{}';
        in_index integer;
        i integer;
        column_number smallint;
        type_oid oid;
        column_nulls float8;
        element record;
        known jsonb := (SELECT jsonb_object_agg(s.attnum, to_jsonb(s)) FROM index_table.column_statistics(base) s);
        statistics record;
        storage record;
        size float8;
        is_exact boolean;
        tuple_bytes float8[] := '{}';
        pages float8;
        index_pages float8;
    BEGIN
        IF entries = 0 THEN
            RETURN NULL;
        END IF;
        FOR i IN 1 .. cardinality(key_columns) + 1 + cardinality(identity) + cardinality(include) LOOP
            column_nulls := 0;
            IF i = cardinality(key_columns) + 1 THEN -- partition_id
                widths := widths || 4::float8;
                alignments := alignments || 4::float8;
                nulls := nulls || 0::float8;
                CONTINUE;
            END IF;
            IF i <= cardinality(key_columns) THEN
                column_number := key_columns[i];
                type_oid := key_types[i];
            ELSE
                column_number := (identity || include)[i - cardinality(key_columns) - 1];
                type_oid := (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = base AND a.attnum = column_number);
            END IF;
            SELECT s.* INTO statistics FROM jsonb_to_record(known -> column_number::text) AS s(null_fraction float8, width float8, elements float8);
            -- An array that is a key has an entry for each element.
            SELECT t.typelem AS type INTO element FROM pg_type t
             WHERE t.oid = type_oid AND t.typcategory = 'A' AND t.typelem <> 0 AND i <= cardinality(key_columns);
            IF element.type IS NOT NULL THEN
                entries := entries * COALESCE(statistics.elements, 1);
                statistics.width := GREATEST(1, (statistics.width - 24) / GREATEST(1, COALESCE(statistics.elements, 1)) - 2);
                statistics.null_fraction := 0;
                type_oid := element.type;
            END IF;
            column_nulls := COALESCE(statistics.null_fraction, 0);
            IF i = 1 AND only_not_null THEN
                entries := entries * (1 - column_nulls);
                column_nulls := 0;
            END IF;
            SELECT t.typlen, CASE t.typalign WHEN 'd' THEN 8 WHEN 'i' THEN 4 WHEN 's' THEN 2 ELSE 1 END AS alignment
              INTO storage FROM pg_type t WHERE t.oid = type_oid;
            size := CASE WHEN storage.typlen > 0 THEN storage.typlen ELSE COALESCE(statistics.width, 32) END;
            widths := widths || size;
            alignments := alignments || CASE WHEN storage.typlen > 0 OR size > 126 THEN storage.alignment ELSE 1 END::float8;
            nulls := nulls || column_nulls;
        END LOOP;
        -- The row of the table (key, partition number, identity, copies), and that of the B-tree (key, identity,
        -- partition number).
        in_index := cardinality(key_columns) + 1 + cardinality(identity);
        FOR which IN 1 .. 2 LOOP
            size := CASE WHEN which = 1 THEN CASE WHEN cardinality(widths) > 8 THEN 32 ELSE 24 END ELSE 8 END;
            is_exact := true;
            FOREACH i IN ARRAY CASE WHEN which = 1 THEN ARRAY(SELECT generate_series(1, cardinality(widths)))
                                    ELSE ARRAY(SELECT g FROM generate_series(1, in_index) g ORDER BY g = cardinality(key_columns) + 1, g) END LOOP
                size := size + (1 - nulls[i]) * (widths[i] + CASE WHEN is_exact THEN ceil(size / alignments[i]) * alignments[i] - size
                                                                  ELSE (alignments[i] - 1) / 2 END);
                is_exact := is_exact AND nulls[i] = 0 AND alignments[i] > 1;
            END LOOP;
            size := CASE WHEN is_exact THEN ceil(size / 8) * 8 ELSE size + 3.5 END;
            tuple_bytes := tuple_bytes || size + 4;
        END LOOP;
        pages := ceil(entries / GREATEST(1, floor(8168 / tuple_bytes[1])));
        index_pages := ceil(entries / GREATEST(1, floor(7333 / tuple_bytes[2])));
        index_pages := 1 + index_pages + ceil(index_pages * tuple_bytes[2] / 5700);
        RETURN (pages + index_pages) * 8192 + CASE WHEN is_unique THEN 8192 ELSE 0 END;
    END $$;
COMMENT ON FUNCTION index_table.estimate_bytes(regclass, smallint[], oid[], smallint[], smallint[], boolean, boolean) IS
    'internal: what an index table would have of bytes, with its B-tree, once it is built; NULL where the table was never analyzed';

-- As make bench BENCH=advise measures it, between what two machines gave. The last three are how many
-- statements there are for a row: 0 is many rows a statement, 1 one row each. Natively a row that goes is left
-- to VACUUM; what is copied is written again whenever it changes.
CREATE FUNCTION index_table.estimate_write_cost(
    strategy text, inserted float8, key_changed float8, copies_changed float8, others_changed float8, deleted float8,
    inserting float8, updating float8, deleting float8
) RETURNS float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT round((CASE WHEN inserted + key_changed + copies_changed + others_changed + deleted = 0 THEN 1.25 + 1.65 * inserting
                       ELSE ((1.25 + 1.65 * inserting) * inserted + (3.7 + 6.7 * updating) * key_changed
                             + CASE WHEN strategy = 'normalized' THEN 0.22 + 2.45 * updating ELSE 3.2 + 6.6 * updating END * copies_changed
                             + CASE WHEN strategy = 'denormalized' THEN 3.2 + 7.1 * updating ELSE 0.22 + 2.4 * updating END * others_changed
                             + (1.55 + 4.2 * deleting) * deleted)
                            / (inserted + (1 + 1.25 * updating) * key_changed + (1 + 1.55 * updating) * copies_changed
                               + (1.3 + 2.15 * updating) * others_changed + (0.02 + 0.12 * deleting) * deleted) END)::numeric, 2)::float8
    $$;
COMMENT ON FUNCTION index_table.estimate_write_cost(text, float8, float8, float8, float8, float8, float8, float8, float8) IS
    'internal: what an index table adds to these numbers of writes, as a multiple of what an index on each partition adds';

-- What is asked for, a row for each set of keys that something is equal to: from statistics of
-- statements, else of conditions (pg_qualstats), else from the scans of the indexes there are.
CREATE FUNCTION index_table.asked_for(
    base regclass,
    OUT command text, OUT equal text[], OUT equal_columns smallint[], OUT equal_types oid[],
    OUT ranged text[], OUT ranged_columns smallint[], OUT ranged_types oid[],
    OUT shown smallint[], OUT changed smallint[], OUT calls bigint, OUT rows bigint, OUT source text
) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS $$
    #variable_conflict use_column
    DECLARE
        path text;
        place text;
        hidden bigint;
        found_any boolean := false;
    BEGIN
        -- Whoever ran a statement may have had another search_path: the table's schema, then the usual one.
        SELECT quote_ident(n.nspname) || COALESCE(', ' || NULLIF(s.reset_val, ''), '') INTO path
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_settings s
         WHERE c.oid = base AND s.name = 'search_path';
        SELECT quote_ident(n.nspname) INTO place FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'pg_stat_statements';
        IF place IS NOT NULL THEN
            BEGIN
                RETURN QUERY EXECUTE format($statements$
                    SELECT c.*, s.calls, s.rows, 'pg_stat_statements'
                      FROM (SELECT s.query, sum(s.calls)::bigint AS calls, sum(s.rows)::bigint AS rows FROM %s.pg_stat_statements s
                             WHERE s.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                               AND s.calls > 0 AND s.query <> '<insufficient privilege>'
                             GROUP BY s.query) s,
                           LATERAL index_table.statement_conditions($1, s.query, $2) c $statements$, place) USING base, path;
                found_any := FOUND;
                EXECUTE format($hidden$ SELECT count(*) FROM %s.pg_stat_statements s
                                         WHERE s.query = '<insufficient privilege>'
                                           AND s.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) $hidden$, place)
                   INTO hidden;
                IF hidden > 0 THEN
                    RAISE NOTICE '% statements of others are hidden from %', hidden, current_user
                        USING HINT = 'Members of pg_read_all_stats see them.';
                END IF;
            EXCEPTION WHEN object_not_in_prerequisite_state OR insufficient_privilege THEN
                RAISE NOTICE 'pg_stat_statements cannot be read: %', SQLERRM;
            END;
        END IF;
        IF found_any THEN
            RETURN;
        END IF;
        SELECT quote_ident(n.nspname) INTO place FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'pg_qualstats';
        IF place IS NOT NULL THEN
            BEGIN
                RETURN QUERY EXECUTE format($conditions$
                    SELECT 'select', q.equal, q.equal_columns, q.equal_types, '{}'::text[], '{}'::smallint[], '{}'::oid[],
                           '{}'::smallint[], '{}'::smallint[], max(q.calls)::bigint, NULL::bigint, 'pg_qualstats'
                      FROM (SELECT array_agg(quote_ident(a.attname) ORDER BY a.attname) AS equal,
                                   array_agg(a.attnum ORDER BY a.attname) AS equal_columns,
                                   array_agg(a.atttypid ORDER BY a.attname) AS equal_types,
                                   min(q.calls) AS calls, q.statement, q.relid
                              FROM (SELECT DISTINCT ON (s.statement, s.relid, s.attname) s.*
                                      FROM (SELECT COALESCE(s.qualid, s.qualnodeid)::text || ' ' || COALESCE(s.queryid, 0) AS statement,
                                                   s.lrelid AS relid, l.attname, sum(s.occurences) AS calls
                                              FROM %s.pg_qualstats s
                                              JOIN pg_partition_tree($1) t ON t.relid = s.lrelid
                                              JOIN pg_attribute l ON l.attrelid = s.lrelid AND l.attnum = s.lattnum
                                              JOIN pg_amop o ON o.amopopr = s.opno AND o.amopstrategy = 3
                                              JOIN pg_am m ON m.oid = o.amopmethod AND m.amname = 'btree'
                                             GROUP BY o.amopfamily, 1, 2, 3) s
                                     ORDER BY s.statement, s.relid, s.attname, s.calls DESC) q
                              JOIN pg_attribute a ON a.attrelid = $1 AND a.attname = q.attname AND a.attnum > 0
                             GROUP BY q.statement, q.relid) q
                     GROUP BY q.statement, q.equal, q.equal_columns, q.equal_types $conditions$, place) USING base;
                found_any := FOUND;
            EXCEPTION WHEN object_not_in_prerequisite_state OR insufficient_privilege OR undefined_column OR undefined_table THEN
                RAISE NOTICE 'pg_qualstats cannot be read: %', SQLERRM;
            END;
        END IF;
        IF found_any THEN
            RETURN;
        END IF;
        RETURN QUERY
            SELECT 'select', ARRAY(SELECT pg_get_indexdef(i.indexrelid, k, false) FROM generate_series(1, i.indnkeyatts) k),
                   ARRAY(SELECT i.indkey[k - 1] FROM generate_series(1, i.indnkeyatts) k),
                   ARRAY(SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = i.indexrelid AND a.attnum <= i.indnkeyatts ORDER BY a.attnum),
                   '{}'::text[], '{}'::smallint[], '{}'::oid[], '{}'::smallint[], '{}'::smallint[],
                   (SELECT max(pg_stat_get_numscans(t.relid)) FROM pg_partition_tree(i.indexrelid) t), NULL::bigint, 'pg_stat_all_indexes'
              FROM pg_index i
              JOIN pg_class c ON c.oid = i.indexrelid
              JOIN pg_am m ON m.oid = c.relam AND m.amname IN ('btree', 'hash')
             WHERE i.indrelid = base AND i.indpred IS NULL
               AND (SELECT max(pg_stat_get_numscans(t.relid)) FROM pg_partition_tree(i.indexrelid) t) > 0;
    END $$;
COMMENT ON FUNCTION index_table.asked_for(regclass) IS
    'internal: what statements ask a table for, and how often, from whatever keeps statistics of it';

CREATE FUNCTION index_table.advise(
    base regclass,
    OUT columns name[], OUT key text, OUT recommendation text, OUT statement text, OUT reason text,
    OUT calls bigint, OUT selectivity float8, OUT strategy text,
    OUT estimated_bytes bigint, OUT estimated_write_cost float8, OUT estimates jsonb
) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS $$
    #variable_conflict use_column
    DECLARE
        this CONSTANT regclass := base;
        target record;
        leaves bigint;
        total float8;
        writes record;
        changes float8; -- but for the rows that are there
        updates float8; -- statements of them, where that is known
        statements jsonb; -- how many there are for a row, by what they do, where that is known
        partition_key smallint[];
        is_hash boolean;
        row_identity smallint[];
        asked jsonb;
        statistics jsonb;     -- by number of the column
        keys jsonb := '{}';   -- column and type of a key, by its text
        chains jsonb[] := '{}'; -- sets of keys of which each begins with the next
        this_set record;
        serving record;
        is_new boolean;
        chain jsonb;
        key_texts text[];
        key_columns smallint[];
        key_types oid[];
        plain_columns smallint[];
        copies smallint[];
        included smallint[];
        unique_by text;
        first_column jsonb;
        rows_of_key float8;
        reads float8;
        key_share float8;
        copies_share float8;
        predicate text;
        is_unique boolean;
        maintenance text;
        reasons text[];
        kind text;
        unused record;
        kept oid[] := '{}';
    BEGIN
        SELECT c.relkind, c.relpersistence, c.relowner, c.relname, format('%I.%I', n.nspname, c.relname) AS name INTO target
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = this;
        IF target.name IS NULL THEN
            RAISE undefined_table USING MESSAGE = format('relation with OID %s does not exist', this::oid);
        ELSIF target.relkind NOT IN ('r', 'p', 'f') OR target.relpersistence = 't' OR this::oid < 16384
              OR EXISTS (SELECT FROM index_table.definition d WHERE d.index_table = this) THEN
            RAISE wrong_object_type USING MESSAGE = format('%I is not a table that can have index tables', target.relname);
        ELSIF NOT pg_has_role(target.relowner, 'USAGE') THEN
            RAISE insufficient_privilege USING MESSAGE = format('must be owner of table %s', target.relname);
        END IF;
        total := index_table.count_rows(this);
        SELECT count(*) INTO leaves FROM pg_partition_tree(this) t WHERE t.isleaf;
        SELECT COALESCE(sum(pg_stat_get_tuples_inserted(t.relid)), 0)::float8 AS inserted, COALESCE(sum(pg_stat_get_tuples_updated(t.relid)), 0)::float8 AS updated,
               COALESCE(sum(pg_stat_get_tuples_hot_updated(t.relid)), 0)::float8 AS hot, COALESCE(sum(pg_stat_get_tuples_deleted(t.relid)), 0)::float8 AS deleted
          INTO writes FROM pg_partition_tree(this) t WHERE t.isleaf;
        changes := GREATEST(0, writes.inserted - total) + writes.updated + writes.deleted;
        SELECT ARRAY(SELECT unnest(p.partattrs)), p.partstrat = 'h' INTO partition_key, is_hash
          FROM pg_partitioned_table p WHERE p.partrelid = this;
        -- The primary key, else any unique key without NULLs.
        SELECT k.conkey INTO row_identity
          FROM (SELECT c.contype = 'p' AS is_primary, c.conkey FROM pg_constraint c WHERE c.conrelid = this AND c.contype IN ('p', 'u') AND c.conindid <> 0) k
         WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = this AND a.attnum = ANY (k.conkey) AND NOT a.attnotnull)
         ORDER BY k.is_primary DESC, cardinality(k.conkey) LIMIT 1;
        statistics := (SELECT jsonb_object_agg(s.attnum, to_jsonb(s)) FROM index_table.column_statistics(this) s);

        -- Without statistics nothing can be judged.
        IF statistics IS NULL AND partition_key IS NOT NULL THEN
            columns := '{}';
            recommendation := 'analyze';
            statement := format('ANALYZE %s', target.name);
            reason := CASE WHEN row_security_active(this)
                THEN 'Statistics are hidden where row security is active, as for you: without them keys cannot be judged. Ask as a superuser, or a role with BYPASSRLS.'
                ELSE 'There are no statistics of the rows of all partitions together, which autovacuum does not gather: without them keys cannot be judged.' END;
            RETURN NEXT;
        END IF;

        -- What is asked for without the partition key.
        asked := (SELECT jsonb_agg(to_jsonb(a) || jsonb_build_object(
                             'plain', ARRAY(SELECT t.attnum FROM pg_attribute t WHERE t.attrelid = this AND t.attnum > 0 AND quote_ident(t.attname) = ANY (a.equal)),
                             'compared', ARRAY(SELECT t.attnum FROM pg_attribute t WHERE t.attrelid = this AND t.attnum > 0 AND quote_ident(t.attname) = ANY (a.equal || a.ranged))))
                    FROM index_table.asked_for(this) a);
        updates := (SELECT sum(a.calls) FROM jsonb_to_recordset(asked) AS a(command text, calls float8) WHERE a.command = 'update');
        statements := (SELECT jsonb_object_agg(a.command, LEAST(1, a.calls / NULLIF(a.rows, 0)))
                         FROM (SELECT a.command, sum(a.calls) AS calls, sum(a.rows) AS rows
                                 FROM jsonb_to_recordset(asked) AS a(command text, calls float8, rows float8) GROUP BY 1) a);
        FOR this_set IN
            WITH lookup AS (
                SELECT a.*, ARRAY(SELECT DISTINCT k FROM unnest(a.equal) k ORDER BY k) AS set
                  FROM jsonb_to_recordset(asked) AS a(command text, equal text[], equal_columns smallint[], equal_types oid[], ranged text[], ranged_columns smallint[],
                                                      ranged_types oid[], shown smallint[], calls bigint, source text, plain smallint[], compared smallint[])
                 WHERE a.equal <> '{}' AND a.calls > 0
                   AND CASE WHEN partition_key IS NULL THEN true
                            WHEN is_hash THEN NOT partition_key <@ a.plain
                            ELSE NOT partition_key[1] = ANY (a.compared) END)
            SELECT l.set, sum(l.calls)::bigint AS calls, min(l.source) AS source,
                   (SELECT jsonb_object_agg(k.key, jsonb_build_array(k.attnum, k.type))
                      FROM lookup o, LATERAL (SELECT * FROM unnest(o.equal, o.equal_columns, o.equal_types) UNION ALL
                                              SELECT * FROM unnest(o.ranged, o.ranged_columns, o.ranged_types)) AS k(key, attnum, type) WHERE o.set = l.set) AS keys,
                   ARRAY(SELECT DISTINCT s FROM lookup o, unnest(o.shown) s WHERE o.set = l.set ORDER BY s) AS shown,
                   (SELECT r FROM lookup o, unnest(o.ranged) r WHERE o.set = l.set
                     GROUP BY r HAVING sum(o.calls) * 2 >= sum(l.calls) ORDER BY sum(o.calls) DESC, r LIMIT 1) AS ranged
              FROM lookup l GROUP BY l.set ORDER BY cardinality(l.set) DESC, sum(l.calls) DESC, l.set
        LOOP
            keys := keys || this_set.keys;
            columns := ARRAY(SELECT DISTINCT a.attname FROM pg_attribute a, unnest(this_set.set) k
                              WHERE a.attrelid = this AND a.attnum = (keys -> k ->> 0)::integer ORDER BY a.attname);
            -- Served by one that begins with these keys, or whose keys are among them and find few rows.
            SELECT s.*, (SELECT COALESCE(sum(pg_stat_get_numscans(i.indexrelid)), 0) FROM pg_index i
                               WHERE i.indrelid IN (SELECT s.index_table::oid UNION SELECT t.relid FROM pg_partition_tree(s.index_table) t)
                                  OR i.indexrelid = s.tree) AS scans
              INTO serving FROM index_table.served_keys(this) s
             WHERE NOT s.is_partial AND s.keys[1:cardinality(this_set.set)] <@ this_set.set
               AND (cardinality(s.keys) >= cardinality(this_set.set) OR s.is_unique)
             ORDER BY s.is_visible DESC, s.index_table::text LIMIT 1;
            IF serving.index_table IS NOT NULL THEN
                key := array_to_string(serving.keys, ', ');
                calls := this_set.calls;
                recommendation := CASE WHEN serving.is_visible THEN 'keep' ELSE 'show' END;
                statement := CASE WHEN NOT serving.is_visible THEN format('SELECT index_table.set_visible(%L, true)', serving.index_table) END;
                reason := format('Calls without the partition key: %s. %s serves them%s.', calls, serving.index_table,
                                 CASE WHEN serving.is_visible THEN '' ELSE ', once it is visible' END)
                          || CASE WHEN serving.is_visible AND serving.scans = 0 THEN ' Nothing has read it yet: do sessions load the library?' ELSE '' END;
                kept := kept || serving.index_table::oid;
                RETURN NEXT;
                CONTINUE;
            END IF;
            is_new := true;
            FOR i IN 1 .. cardinality(chains) LOOP
                IF is_new AND this_set.set <@ ARRAY(SELECT jsonb_array_elements_text(chains[i] -> 'inner')) THEN
                    is_new := false;
                    chain := chains[i];
                    chains[i] := chain || jsonb_build_object(
                        'inner', this_set.set,
                        'tail', to_jsonb(ARRAY(SELECT k FROM jsonb_array_elements_text(chain -> 'inner') k WHERE k <> ALL (this_set.set))) || (chain -> 'tail'),
                        'calls', (chain ->> 'calls')::bigint + this_set.calls,
                        'shown', to_jsonb(ARRAY(SELECT jsonb_array_elements_text(chain -> 'shown')::smallint UNION SELECT unnest(this_set.shown))));
                END IF;
            END LOOP;
            IF is_new THEN
                chains := chains || jsonb_build_object('inner', this_set.set, 'tail', '[]'::jsonb, 'calls', this_set.calls, 'shown', this_set.shown,
                                                       'ranged', this_set.ranged, 'source', this_set.source);
            END IF;
        END LOOP;

        FOR chain IN SELECT c FROM unnest(chains) c ORDER BY (c ->> 'calls')::bigint DESC, c ->> 'inner' LOOP
            key_texts := ARRAY(SELECT k FROM jsonb_array_elements_text(chain -> 'inner') k
                                ORDER BY (statistics -> (keys -> k ->> 0) ->> 'distinct_values')::float8 DESC NULLS LAST, k)
                         || ARRAY(SELECT jsonb_array_elements_text(chain -> 'tail'));
            selectivity := (SELECT CASE WHEN count(*) = count(f) THEN exp(sum(ln(f))) END
                              FROM unnest(key_texts) k,
                                   LATERAL (SELECT statistics -> (keys -> k ->> 0) AS s) s,
                                   LATERAL (SELECT CASE WHEN t.typcategory = 'A' THEN (s ->> 'element_frequency')::float8
                                                        ELSE (1 - (s ->> 'null_fraction')::float8) / NULLIF((s ->> 'distinct_values')::float8, 0) END AS f
                                              FROM pg_type t WHERE t.oid = (keys -> k ->> 1)::oid) f
                             WHERE f.f > 0 OR f.f IS NULL);
            IF chain ->> 'ranged' IS NOT NULL AND chain ->> 'ranged' <> ALL (key_texts) THEN
                key_texts := key_texts || (chain ->> 'ranged');
            END IF;
            selectivity := CASE WHEN selectivity IS NOT NULL THEN GREATEST(selectivity, 1 / NULLIF(total, 0)) END;
            rows_of_key := selectivity * total;
            key_columns := ARRAY(SELECT (keys -> k ->> 0)::smallint FROM unnest(key_texts) WITH ORDINALITY u(k, i) ORDER BY i);
            key_types := ARRAY(SELECT (keys -> k ->> 1)::oid FROM unnest(key_texts) WITH ORDINALITY u(k, i) ORDER BY i);
            columns := ARRAY(SELECT a.attname FROM unnest(key_columns) WITH ORDINALITY u(n, i)
                               JOIN pg_attribute a ON a.attrelid = this AND a.attnum = n ORDER BY i);
            -- Those of which entries have the values of rows as they are.
            plain_columns := ARRAY(SELECT (keys -> k ->> 0)::smallint FROM unnest(key_texts) k
                                     JOIN pg_attribute a ON a.attrelid = this AND a.attnum = (keys -> k ->> 0)::smallint AND quote_ident(a.attname) = k
                                     JOIN pg_type t ON t.oid = a.atttypid AND t.typcategory <> 'A');
            key := array_to_string(key_texts, ', ');
            calls := chain ->> 'calls';
            reasons := ARRAY[format('Calls without the partition key: %s%s.', calls, CASE WHEN chain ->> 'source' = 'pg_stat_statements' THEN '' ELSE format(' (%s)', chain ->> 'source') END)];
            first_column := statistics -> key_columns[1]::text;

            -- Writes, by what they change of entries.
            copies := ARRAY(SELECT s::smallint FROM jsonb_array_elements_text(chain -> 'shown') s WHERE s::smallint <> ALL (key_columns || COALESCE(row_identity, '{}')));
            SELECT sum(a.calls) FILTER (WHERE a.changed && key_columns) / updates,
                   sum(a.calls) FILTER (WHERE a.changed && copies AND NOT a.changed && key_columns) / updates
              INTO key_share, copies_share
              FROM jsonb_to_recordset(asked) AS a(command text, changed smallint[], calls float8) WHERE a.command = 'update';
            key_share := COALESCE(key_share, CASE WHEN updates > 0 OR writes.updated = 0 THEN 0 ELSE 1 - writes.hot / writes.updated END);
            copies_share := COALESCE(copies_share, 0);
            reads := NULLIF(calls, 0);
            strategy := CASE WHEN copies = '{}' THEN 'normalized'
                             WHEN 0 <> ALL (copies) AND cardinality(copies) <= 4 AND copies_share * writes.updated <= 0.1 * reads THEN 'partial'
                             WHEN changes <= 0.01 * reads THEN 'denormalized'
                             ELSE 'normalized' END;
            included := ARRAY(SELECT c FROM unnest(copies) c WHERE c > 0);

            -- One that no rows share is worth being kept unique, unless it is so already.
            is_unique := cardinality(key_columns) = 1 AND key_texts[1] = quote_ident(columns[1])
                         AND (first_column ->> 'distinct_values')::float8 >= 0.9999 * total * (1 - (first_column ->> 'null_fraction')::float8) AND total > 0
                         AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = key_types[1] AND t.typcategory = 'A');
            unique_by := (SELECT c.conname FROM pg_constraint c WHERE c.conrelid = this AND c.contype IN ('p', 'u') AND c.conkey = key_columns LIMIT 1);
            predicate := CASE WHEN (first_column ->> 'null_fraction')::float8 >= 0.2 AND key_texts[1] = quote_ident(columns[1])
                              THEN key_texts[1] || ' IS NOT NULL' END;
            maintenance := CASE WHEN NOT is_unique AND changes > 100 * reads THEN 'deferred' ELSE 'immediate' END;
            IF row_identity IS NULL THEN
                recommendation := 'none';
                reasons := reasons || 'There is no primary key, and no other that is unique and never NULL, by which an entry could find its row.'::text;
            ELSIF leaves < 2 THEN
                recommendation := 'none';
                reasons := reasons || 'The table has no partitions: an index of its own serves that.'::text;
            ELSIF unique_by IS NOT NULL AND partition_key IS NULL THEN
                recommendation := 'none';
                reasons := reasons || format('Constraint %I serves that.', unique_by);
            ELSIF rows_of_key IS NULL THEN
                recommendation := 'analyze';
            ELSIF rows_of_key > 12 * leaves THEN
                recommendation := 'none';
                reasons := reasons || format('A key finds about %s rows in %s partitions: from twelve a partition on indexes of the partitions are as good.', round(rows_of_key), leaves);
            ELSE
                recommendation := 'create';
                reasons := reasons || format('A key finds about %s of %s rows, in %s partitions.', GREATEST(round(rows_of_key), 1), round(total), leaves);
            END IF;

            estimates := NULL;
            estimated_bytes := NULL;
            estimated_write_cost := NULL;
            IF row_identity IS NOT NULL AND total > 0 THEN
                estimates := (SELECT jsonb_object_agg(e.kind, jsonb_build_object(
                                  'bytes', index_table.estimate_bytes(this, key_columns, key_types, ARRAY(SELECT i FROM unnest(row_identity) WITH ORDINALITY u(i, n) WHERE i <> ALL (key_columns) ORDER BY n), e.copied, is_unique, predicate IS NOT NULL),
                                  'write_cost', index_table.estimate_write_cost(e.kind, writes.inserted, writes.updated * key_share, writes.updated * copies_share,
                                                                                writes.updated * GREATEST(0, 1 - key_share - copies_share), writes.deleted,
                                                                                COALESCE((statements ->> 'insert')::float8, 1), COALESCE((statements ->> 'update')::float8, 1),
                                                                                COALESCE((statements ->> 'delete')::float8, 1))))
                                FROM (VALUES ('normalized', '{}'::smallint[]), ('partial', CASE WHEN cardinality(included) BETWEEN 1 AND 4 THEN included END),
                                             ('denormalized', ARRAY(SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = this AND a.attnum > 0 AND NOT a.attisdropped
                                                                       AND a.attnum <> ALL (plain_columns || row_identity) ORDER BY a.attnum))) e(kind, copied)
                               WHERE e.copied IS NOT NULL);
            END IF;
            statement := NULL;
            kind := strategy;
            IF recommendation = 'create' THEN
                estimated_bytes := (estimates -> kind ->> 'bytes')::bigint;
                estimated_write_cost := (estimates -> kind ->> 'write_cost')::float8;
                statement := format('SELECT index_table.create(%L, %L', target.name, key)
                    || CASE WHEN kind <> 'normalized' THEN format(', strategy => %L', kind) ELSE '' END
                    || CASE WHEN kind = 'partial' THEN format(', include => %L', (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                                                                                   WHERE a.attrelid = this AND a.attnum = ANY (included))) ELSE '' END
                    || CASE WHEN is_unique THEN ', is_unique => true' ELSE '' END
                    || CASE WHEN predicate IS NOT NULL THEN format(', predicate => %L', predicate) ELSE '' END
                    || CASE WHEN NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = this AND c.contype = 'p')
                            THEN format(', identity => %L', (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY i) FROM unnest(row_identity) WITH ORDINALITY u(n, i)
                                                               JOIN pg_attribute a ON a.attrelid = this AND a.attnum = n)) ELSE '' END
                    || CASE WHEN maintenance = 'deferred' THEN ', maintenance => ''deferred''' ELSE '' END || ')';
                reasons := reasons || CASE kind WHEN 'partial' THEN ARRAY['The other columns that are shown are few and hardly change: with copies of them one look-up is enough.']
                                                WHEN 'denormalized' THEN ARRAY['Rows hardly change, and whole ones are shown: with copies one look-up is enough.'] ELSE '{}' END
                    || CASE WHEN is_unique THEN ARRAY['No two rows have had the same key: it can be kept unique, unless rows that were not looked at do.'] ELSE '{}' END
                    || CASE WHEN predicate IS NOT NULL THEN ARRAY[format('%s %% of the rows have none: they need no entries.', round(100 * (first_column ->> 'null_fraction')::numeric))] ELSE '{}' END
                    || CASE WHEN key_share * writes.updated > 0.5 * reads THEN ARRAY[format('Caution: the key is changed about %s times.', round(key_share * writes.updated))] ELSE '{}' END
                    || CASE WHEN maintenance = 'deferred' THEN ARRAY[format('There are %s times as many writes as look-ups: they leave the maintenance to workers.', round(changes / reads))] ELSE '{}' END;
                IF (first_column -> 'frequencies' ->> 0)::float8 >= 0.1 AND (first_column -> 'frequencies' ->> 0)::float8 * (first_column ->> 'distinct_values')::float8 > 10
                   AND key_texts[1] = quote_ident(columns[1]) THEN
                    reasons := reasons || format('%s is %L in %s %% of the rows: where nobody looks for that, predicate => %L leaves them out.', key_texts[1], first_column -> 'common' ->> 0,
                                                 round(100 * (first_column -> 'frequencies' ->> 0)::numeric), format('%s <> %L', key_texts[1], first_column -> 'common' ->> 0));
                END IF;
            ELSIF recommendation = 'analyze' THEN
                statement := format('ANALYZE %s', target.name);
                reasons := reasons || 'There are no statistics of it.'::text;
            END IF;
            strategy := CASE WHEN recommendation = 'create' THEN kind END;
            reason := array_to_string(reasons, ' ');
            RETURN NEXT;
        END LOOP;

        -- What nothing uses. Unique keys are of use without being read.
        FOR unused IN
            SELECT s.*, (SELECT COALESCE(sum(pg_stat_get_numscans(i.indexrelid)), 0) FROM pg_index i
                               WHERE i.indrelid IN (SELECT s.index_table::oid UNION SELECT t.relid FROM pg_partition_tree(s.index_table) t)
                                  OR i.indexrelid = s.tree) AS scans,
                   (SELECT d.stats_reset FROM pg_stat_database d WHERE d.datname = current_database()) AS since,
                   (SELECT array_agg(a.attname ORDER BY u.i) FROM unnest(s.keys) WITH ORDINALITY u(k, i)
                      JOIN pg_attribute a ON a.attrelid = this AND quote_ident(a.attname) = u.k AND a.attnum > 0) AS names
              FROM index_table.served_keys(this) s
             WHERE NOT s.is_unique AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.confrelid = s.index_table)
             ORDER BY s.index_table::text
        LOOP
            CONTINUE WHEN unused.scans > 0 OR unused.index_table = ANY (kept);
            columns := COALESCE(unused.names, '{}');
            key := array_to_string(unused.keys, ', ');
            recommendation := CASE WHEN unused.is_visible THEN 'hide' ELSE 'drop' END;
            statement := CASE WHEN unused.is_visible THEN format('SELECT index_table.set_visible(%L, false)', unused.index_table)
                              WHEN unused.tree IS NOT NULL THEN format('DROP INDEX %s', unused.index_table)
                              ELSE format('SELECT index_table.drop(%L)', unused.index_table) END;
            reason := format('Nothing has read %s%s%s.', unused.index_table, COALESCE(' since ' || unused.since::date, ''),
                             CASE WHEN unused.is_visible THEN ': while it is invisible nothing can, and if nobody complains it can be dropped' ELSE ', and it is invisible' END);
            calls := 0;
            selectivity := NULL;
            strategy := NULL;
            estimates := NULL;
            estimated_bytes := NULL;
            estimated_write_cost := NULL;
            RETURN NEXT;
        END LOOP;
    END $$;
COMMENT ON FUNCTION index_table.advise(regclass) IS
    'which index tables a table should have, and which nothing uses: a row for each set of columns that is asked for without the partition key, with the statement to run and the reason. From statistics of PostgreSQL, pg_stat_statements and pg_qualstats, as far as the caller sees them. Changes nothing. Owner only';

-- What statistics say against a key. Of small tables, and without statistics, nothing.
CREATE FUNCTION index_table.key_concerns(
    base regclass, key_columns smallint[], has_predicate boolean, is_deferred boolean, is_global boolean,
    OUT concern text, OUT hint text
) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    WITH size AS (SELECT index_table.count_rows(base) AS total),
    leaves AS (SELECT count(*) AS count, sum(pg_stat_get_tuples_updated(t.relid)) AS updated, sum(pg_stat_get_tuples_hot_updated(t.relid)) AS hot
                 FROM pg_partition_tree(base) t, size WHERE t.isleaf AND size.total >= 10000),
    column_of_key AS (SELECT s.*, k.i FROM size, unnest(key_columns) WITH ORDINALITY k(attnum, i), LATERAL index_table.column_statistics(base) s
                       WHERE size.total >= 10000 AND s.attnum = k.attnum AND k.attnum > 0),
    whole_key AS (SELECT size.total / GREATEST(1, exp(sum(ln(GREATEST(1, c.distinct_values))))) AS rows
                    FROM column_of_key c, size GROUP BY size.total HAVING count(c.distinct_values) = cardinality(key_columns))
    SELECT format('a key finds about %s of %s rows, in %s partitions', round(w.rows), round(size.total), leaves.count),
           'From twelve rows a partition on, indexes of the partitions are as good. index_table.advise() tells which keys are worth an index table.'
      FROM whole_key w, size, leaves WHERE w.rows > 12 * leaves.count AND w.rows > size.total / 100
    UNION ALL
    SELECT format('"%s" is %L in %s %% of the rows', c.name, c.common[1], round(100 * c.frequencies[1]::numeric)),
           format(CASE WHEN is_global THEN 'Where nobody looks for that, leave these rows out: WHERE (%s).' ELSE 'Where nobody looks for that, leave these rows out: predicate => %L.' END, format('%I <> %L', c.name, c.common[1]))
      FROM column_of_key c WHERE c.i = 1 AND NOT has_predicate AND c.frequencies[1] >= 0.1 AND c.frequencies[1] * c.distinct_values > 10
    UNION ALL
    SELECT format('"%s" is NULL in %s %% of the rows', c.name, round(100 * c.null_fraction::numeric)),
           format(CASE WHEN is_global THEN 'Where nobody looks for NULL, leave these rows out: WHERE (%s).' ELSE 'Where nobody looks for NULL, leave these rows out: predicate => %L.' END, format('%I IS NOT NULL', c.name))
      FROM column_of_key c WHERE c.i = 1 AND NOT has_predicate AND c.null_fraction >= 0.5
    UNION ALL
    SELECT format('rows have been updated %s times, and %s %% of that changed what indexes hold', leaves.updated, round(100 * (1 - leaves.hot / leaves.updated))),
           'Where the key is what changes, each of these writes to the index table: maintenance => ''deferred'' leaves that to workers.'
      FROM leaves, size WHERE NOT is_deferred AND NOT is_global AND leaves.updated > size.total AND leaves.hot * 2 < leaves.updated AND EXISTS (SELECT FROM column_of_key)
    $$;
COMMENT ON FUNCTION index_table.key_concerns(regclass, smallint[], boolean, boolean, boolean) IS
    'internal: what create() and CREATE INDEX ... USING global warn of: keys that find many rows, or have values that many rows share, and rows that are often updated';

CREATE FUNCTION index_table.explain(
    query text,
    OUT base_table regclass, OUT index regclass, OUT used boolean, OUT cost_taken float8, OUT cost_with_index float8, OUT reason text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_explain'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.explain(text) IS
    'which indexes over all partitions a query uses, and why not the others: a row for each index table, owner''s index on one and global index of each base table that the query names. The costs are those of the plan taken and of the best plan with the index, NULL where the index does not match. Plans one SELECT, INSERT, UPDATE, DELETE or MERGE and does not execute it; parameters ($1) have no values, as in a generic plan. Raises 42601 for none or several statements, 0A000 for others. Locks what EXPLAIN of the query locks. Needs the privileges that EXPLAIN of the query needs';
