-- The base table of the tour over shards.

CREATE EXTENSION index_table;
CREATE EXTENSION postgres_fdw;

CREATE TABLE customers (:columns) PARTITION BY HASH (customer_id);
