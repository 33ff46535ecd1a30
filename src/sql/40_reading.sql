
-- Reading by hand -----------------------------------------------------------
-- Each exists with and without key values: without, every entry qualifies.

CREATE FUNCTION index_table.lookup(
    index_table regclass, VARIADIC key "any",
    OUT partition regclass, OUT server name, OUT identity jsonb, OUT included jsonb
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_lookup'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.lookup(regclass, "any") IS
    'entries whose key starts with the given values (NULL finds NULL), in key order. Needs SELECT on the columns shown; row security of the base table applies';

CREATE FUNCTION index_table.lookup(
    index_table regclass,
    OUT partition regclass, OUT server name, OUT identity jsonb, OUT included jsonb
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_lookup'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.lookup(regclass) IS 'all entries of an index table, in key order';

CREATE FUNCTION index_table.fetch(rowtype anyelement, index_table regclass, VARIADIC key "any")
    RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'index_table_fetch'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.fetch(anyelement, regclass, "any") IS
    'rows of the base table whose key starts with the given values, in key order; rowtype is NULL::<base table>. Needs SELECT on the base table; its row security applies';

CREATE FUNCTION index_table.fetch(rowtype anyelement, index_table regclass)
    RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'index_table_fetch'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.fetch(anyelement, regclass) IS
    'rows of the base table that have entries, in key order';

CREATE FUNCTION index_table.page(
    rowtype anyelement, index_table regclass, page_size integer, continuation text, VARIADIC key "any",
    OUT entity anyelement, OUT next text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_page'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.page(anyelement, regclass, integer, text, "any") IS
    'one page of fetch: at most page_size rows after continuation (NULL: from the start). next, the same in every row, continues after this page; NULL when it was the last';

CREATE FUNCTION index_table.page(
    rowtype anyelement, index_table regclass, page_size integer, continuation text,
    OUT entity anyelement, OUT next text
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_page'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.page(anyelement, regclass, integer, text) IS
    'one page of fetch over the whole index table';
