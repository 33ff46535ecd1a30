
-- Global indexes ------------------------------------------------------------
-- CREATE INDEX … USING global; the tree of each stands on a relation of the second access method.

CREATE FUNCTION index_table.global_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME', 'index_table_global_handler'
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.global_handler(internal) IS 'internal: handler of access method global';

CREATE ACCESS METHOD global TYPE INDEX HANDLER index_table.global_handler;
COMMENT ON ACCESS METHOD global IS 'one B-tree over all partitions of a table';

CREATE FUNCTION index_table.global_storage_handler(internal) RETURNS table_am_handler
    AS 'MODULE_PATHNAME', 'index_table_storage_handler'
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.global_storage_handler(internal) IS
    'internal: handler of access method index_table_storage';

CREATE ACCESS METHOD index_table_storage TYPE TABLE HANDLER index_table.global_storage_handler;
COMMENT ON ACCESS METHOD index_table_storage IS
    'internal: what the B-tree of a global index takes for its table';

-- A mirror of every operator class of PostgreSQL's own, beside it. Those for B-trees have the same
-- names: names are found as they are for B-trees, and dumps write them alike. Those of other methods
-- say which. A function of the class tells a mirror from others. Classes of other schemas get theirs
-- when a global index needs it.
DO $$
DECLARE
    class record;
BEGIN
    FOR class IN
        SELECT CASE WHEN m.amname = 'btree' OR starts_with(c.opcname, m.amname || '_') THEN c.opcname
                    ELSE m.amname || '_' || c.opcname END AS name,
               c.opcdefault AND m.amname = 'btree' AS is_default, c.opcintype,
               of.in_mirror, p.amproc, parameters.amproc AS parameters
          FROM pg_catalog.pg_opclass AS c
          JOIN pg_catalog.pg_am AS m ON m.oid = c.opcmethod
          JOIN (VALUES ('btree', 1, 1, 5), ('gin', 2, 8, 7), ('gist', 1, 9, 10),
                       ('spgist', 1, 10, 7), ('hash', 1, 11, 3))
               AS of (method, number, in_mirror, parameters) ON of.method = m.amname
          JOIN pg_catalog.pg_amproc AS p
            ON p.amprocfamily = c.opcfamily AND p.amproclefttype = c.opcintype
           AND p.amprocrighttype = c.opcintype AND p.amprocnum = of.number
          LEFT JOIN pg_catalog.pg_amproc AS parameters
            ON parameters.amprocfamily = c.opcfamily AND parameters.amproclefttype = c.opcintype
           AND parameters.amprocrighttype = c.opcintype AND parameters.amprocnum = of.parameters
         WHERE c.opcnamespace = 'pg_catalog'::pg_catalog.regnamespace
         ORDER BY c.oid
    LOOP
        EXECUTE pg_catalog.format(
            'CREATE OPERATOR CLASS pg_catalog.%I %s FOR TYPE %s USING global AS FUNCTION %s %s %s',
            class.name, CASE WHEN class.is_default THEN 'DEFAULT' END,
            pg_catalog.format_type(class.opcintype, NULL), class.in_mirror,
            class.amproc::pg_catalog.regprocedure,
            ', FUNCTION 7 ' || class.parameters::pg_catalog.regprocedure::text);
    END LOOP;
END $$;
