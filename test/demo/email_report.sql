\pset title 'One customer by e-mail: milliseconds (median of 500)'
SELECT variant AS " ",
       demo.faster(a.value, CASE WHEN variant <> 'native' THEN na END) AS "planned each time",
       demo.faster(b.value, CASE WHEN variant <> 'native' THEN nb END) AS "prepared"
  FROM demo.result a
  JOIN demo.result b USING (step, variant),
       (SELECT value AS na FROM demo.result
         WHERE (step, variant, what) = ('email', 'native', 'planned each time')) x,
       (SELECT value AS nb FROM demo.result
         WHERE (step, variant, what) = ('email', 'native', 'prepared')) y
 WHERE step = 'email' AND a.what = 'planned each time' AND b.what = 'prepared'
 ORDER BY variant <> 'native', variant;
