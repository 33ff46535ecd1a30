-- Index tables change in the transaction that changes the base table.
SELECT 1 + :rows AS id \gset
\echo 'A new customer is found at once; after her address changes, only by the new one:'
\echo
\set ECHO queries
INSERT INTO customers VALUES (:id, 'Grace', 'Hopper', '1 Main Street', 'Redmond',
                              'grace@example.com', '+1 555 000-0001', current_date, 0);

SELECT customer_id, first_name, town
  FROM index_table.fetch(NULL::customers, 'customers_by_email', 'grace@example.com');

UPDATE customers SET email = 'hopper@example.com' WHERE email = 'grace@example.com';

SELECT 'old' AS address, count(*) FROM index_table.fetch(NULL::customers, 'customers_by_email', 'grace@example.com')
UNION ALL
SELECT 'new', count(*) FROM index_table.fetch(NULL::customers, 'customers_by_email', 'hopper@example.com');
\set ECHO none

\echo 'That UPDATE found its row as a query does. With all partitions to be asked, it would have taken longer:'
\echo
\set ECHO queries
EXPLAIN (COSTS OFF) UPDATE customers SET balance = balance + 1 WHERE email = 'hopper@example.com';
\timing on
UPDATE customers SET balance = balance + 1 WHERE email = 'hopper@example.com';
SET index_table.enable_scan = off;
UPDATE customers SET balance = balance - 1 WHERE email = 'hopper@example.com';
\timing off
RESET index_table.enable_scan;
\set ECHO none

\echo 'What is rolled back has not happened:'
\echo
\set ECHO queries
BEGIN;
UPDATE customers SET email = 'admiral@example.com' WHERE customer_id = :id;
SELECT count(*) AS found_inside FROM index_table.fetch(NULL::customers, 'customers_by_email', 'admiral@example.com');
ROLLBACK;
SELECT count(*) AS found_after FROM index_table.fetch(NULL::customers, 'customers_by_email', 'admiral@example.com');
\set ECHO none

\echo 'customers_by_email is unique, across all partitions. PostgreSQL alone could not promise it:'
\echo
\set ON_ERROR_STOP off
\set ECHO queries
INSERT INTO customers VALUES (:id + 1, 'Another', 'Hopper', '2 Main Street', 'Redmond',
                              'hopper@example.com', '+1 555 000-0002', current_date, 0);
\echo SQLSTATE :SQLSTATE
\set ECHO none
\set ON_ERROR_STOP on
\echo
SELECT :'SQLSTATE' <> '23505' AS accepted \gset
\if :accepted
DO $$ BEGIN RAISE 'the second customer with one e-mail was not refused with 23505'; END $$;
\endif

\echo 'Deleted customers are gone from every index table:'
\echo
\set ECHO queries
DELETE FROM customers WHERE customer_id = :id;

SELECT count(*) AS found FROM index_table.fetch(NULL::customers, 'customers_by_email', 'hopper@example.com');
\set ECHO none

\echo 'One last write that touches many entries stays in place for the comparison below:'
\echo
\set ECHO queries
WITH moved AS (
    UPDATE customers SET town = 'Redmond', email = 'new.' || email, phone = '+1 555 000-0000'
     WHERE customer_id % 200 = 7 RETURNING 1)
SELECT count(*) AS customers_moved FROM moved;

WITH gone AS (DELETE FROM customers WHERE customer_id % 500 = 11 RETURNING 1)
SELECT count(*) AS customers_deleted FROM gone;
\set ECHO none
