-- Look-ups by e-mail, :what being native or index table.
SELECT array_agg((email, NULL)::demo.key) AS keys
  FROM (SELECT email FROM generate_series(1, 500) i
          JOIN customers c ON c.customer_id = 1 + floor(:rows * demo.u(i, 21))::bigint) s \gset
SELECT demo.time_lookups('email', :'variant', 'planned each time', :'query', :'keys', false);
SELECT demo.time_lookups('email', :'variant', 'prepared', :'query', :'keys', true);
