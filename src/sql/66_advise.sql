
-- Definitions as statements, advice ---------------------------------------------

CREATE FUNCTION index_table.ddl(index_table regclass) RETURNS text
    AS 'MODULE_PATHNAME', 'index_table_ddl'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.ddl(regclass) IS
    'the statement that makes an index table, or a global index, as it is now, with every name qualified. Locks it and its base table for a moment (ACCESS SHARE)';

CREATE FUNCTION index_table.statement_conditions(
    base regclass, statement text, path text,
    OUT command text, OUT equal text[], OUT equal_columns smallint[], OUT ranged text[], OUT ranged_columns smallint[],
    OUT shown smallint[], OUT changed smallint[]
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_statement_conditions'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.statement_conditions(regclass, text, text) IS
    'internal: how a statement refers to a table, a row for each reference: keys that must equal something, or are compared with it, with the column of each; columns that are read, and set. Names are looked for along path. No row for what cannot be understood';
