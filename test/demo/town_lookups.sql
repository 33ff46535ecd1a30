-- Look-ups by town and last name through :variant; about eight customers each.
SELECT array_agg((t.name, l.name)::demo.key) AS keys
  FROM generate_series(1, 300) i
  JOIN demo.town t ON t.n = floor(480 * demo.u(i, 22))::int
  JOIN demo.last_name l ON l.n = floor(240 * demo.u(i, 23))::int \gset
SELECT demo.time_lookups('strategies', :'variant', 'look-up: whole rows', :'whole', :'keys');
SELECT demo.time_lookups('strategies', :'variant', 'look-up: name, phone', :'part', :'keys');
