\pset title 'Creating over the filled table, and size'
SELECT step AS "key",
       demo.cell(max(value) FILTER (WHERE variant = 'native' AND what = 'create') / 1000, NULL, 1) AS "native, s",
       demo.cell(max(value) FILTER (WHERE variant = 'index table' AND what = 'create') / 1000,
                 max(value) FILTER (WHERE variant = 'native' AND what = 'create') / 1000, 1) AS "index table, s",
       demo.cell(max(value) FILTER (WHERE variant = 'native' AND what = 'size') / 1048576) AS "native, MB",
       demo.cell(max(value) FILTER (WHERE variant = 'index table' AND what = 'size') / 1048576,
                 max(value) FILTER (WHERE variant = 'native' AND what = 'size') / 1048576) AS "index table, MB"
  FROM (SELECT CASE WHEN step = 'strategies' THEN 'town, last_name' ELSE step END AS step,
               CASE WHEN variant = 'partial' THEN 'index table' ELSE variant END AS variant, what, value
          FROM demo.result WHERE step IN ('town', 'email', 'strategies')) r
 WHERE what IN ('create', 'size')
 GROUP BY step ORDER BY step = 'email', step;
