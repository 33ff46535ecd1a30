\echo Use "ALTER EXTENSION index_table UPDATE TO '0.2.0'" to load this file. \quit

-- What 0.2.0 has and 0.1.0 had not, or had otherwise; `test/draft-update 0.1.0` drafts it, and
-- test/t/027_update.pl tells what is missing.

-- Logical replication ---------------------------------------------------------

SELECT index_table.keep_local();
