-- The demo's base table.

CREATE EXTENSION index_table;

CREATE TABLE customers (
    customer_id bigint        PRIMARY KEY,
    first_name  text          NOT NULL,
    last_name   text          NOT NULL,
    street      text          NOT NULL,
    town        text          NOT NULL,
    email       text          NOT NULL,
    phone       text          NOT NULL,
    joined      date          NOT NULL,
    balance     numeric(12,2) NOT NULL
) PARTITION BY HASH (customer_id);

SELECT format('CREATE TABLE customers_%s PARTITION OF customers FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
              to_char(i, 'FM00'), :partitions, i)
  FROM generate_series(0, :partitions - 1) i \gexec
