\pset title 'Index tables by (town, last_name). In brackets: against native'
WITH line (n, what, unit, title) AS (VALUES
         (1, 'create',               1000.0,    'create, s'),
         (2, 'size',                 1048576.0, 'size, MB'),
         (3, 'INSERT',               1.0,       :'writes' || ' INSERT, ms'),
         (4, 'UPDATE of the key',    1.0,       :'writes' || ' UPDATE of town, ms'),
         (5, 'UPDATE of balance',    1.0,       :'writes' || ' UPDATE of balance, ms'),
         (6, 'DELETE',               1.0,       :'writes' || ' DELETE, ms')),
     wide AS (
         SELECT n, title, unit,
                max(value) FILTER (WHERE variant = 'none') / unit AS none,
                max(value) FILTER (WHERE variant = 'native') / unit AS native,
                max(value) FILTER (WHERE variant = 'normalized') / unit AS normalized,
                max(value) FILTER (WHERE variant = 'partial') / unit AS partial,
                max(value) FILTER (WHERE variant = 'denormalized') / unit AS denormalized
           FROM line JOIN demo.result USING (what)
          WHERE step = 'strategies' GROUP BY n, title, unit)
SELECT title AS " ",
       demo.cell(none, NULL, d) AS "no index",
       demo.cell(native, NULL, d) AS "native",
       demo.cell(normalized, native, d) AS "normalized",
       demo.cell(partial, native, d) AS "partial",
       demo.cell(denormalized, native, d) AS "denormalized"
  FROM wide, LATERAL (SELECT CASE WHEN unit = 1000 THEN 1 ELSE 0 END AS d) x
 ORDER BY n;

\pset title 'Customers by town and last name: milliseconds (median of 300, planned each time)'
SELECT substr(what, 10) AS " ",
       demo.faster(max(value) FILTER (WHERE variant = 'native'), NULL) AS native,
       demo.faster(max(value) FILTER (WHERE variant = 'normalized'), max(value) FILTER (WHERE variant = 'native')) AS normalized,
       demo.faster(max(value) FILTER (WHERE variant = 'partial'), max(value) FILTER (WHERE variant = 'native')) AS partial,
       demo.faster(max(value) FILTER (WHERE variant = 'denormalized'), max(value) FILTER (WHERE variant = 'native')) AS denormalized
  FROM demo.result
 WHERE step = 'strategies' AND what LIKE 'look-up%'
 GROUP BY what ORDER BY what DESC;
