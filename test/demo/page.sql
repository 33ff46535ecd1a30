-- Keyset paging: a page costs the same wherever it is.
\echo 'Within a town, customers_by_town_last_name is in order of last name. page() reads it a'
\echo 'page at a time; the token it returns says where the next one starts:'
\echo
\set ECHO queries
SELECT (entity).last_name, (entity).first_name, (entity).customer_id, next
  FROM index_table.page(NULL::customers, 'customers_by_town_last_name', 3, NULL, 'Redmond');
\set ECHO none
SELECT next FROM index_table.page(NULL::customers, 'customers_by_town_last_name', 3, NULL, 'Redmond') LIMIT 1 \gset
\set ECHO queries
SELECT (entity).last_name, (entity).first_name, (entity).customer_id
  FROM index_table.page(NULL::customers, 'customers_by_town_last_name', 3, :'next', 'Redmond');
\set ECHO none
