-- One round of writes to customers :first to :last, who do not exist before or after.
\set what INSERT
\set command 'INSERT INTO customers SELECT * FROM demo.people(:first, :last)'
\ir timed.sql
\set what 'UPDATE of the key'
\set command 'UPDATE customers SET town = $$New $$ || town WHERE customer_id BETWEEN :first AND :last'
\ir timed.sql
\set what 'UPDATE of balance'
\set command 'UPDATE customers SET balance = balance + 10 WHERE customer_id BETWEEN :first AND :last'
\ir timed.sql
\set what DELETE
\set command 'DELETE FROM customers WHERE customer_id BETWEEN :first AND :last'
\ir timed.sql
