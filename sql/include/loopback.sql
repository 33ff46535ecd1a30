-- Reaches this database through postgres_fdw, as a shard of itself: the extension in the schema "extensions", the server
-- regress_shard, and a user mapping. \i this file.
\set ECHO none
CREATE SCHEMA extensions;
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA extensions;
DO $$
BEGIN
    EXECUTE format('CREATE SERVER regress_shard FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_shard;
\set ECHO all
