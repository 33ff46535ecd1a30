WITH recomputed AS (
         :recomputed),
     stored AS (
         SELECT :columns FROM :index_table
          WHERE partition_id IN (SELECT partition_id FROM index_table.partition))
INSERT INTO demo.verdict
SELECT :'index_table',
       (SELECT count(*) FROM stored),
       (SELECT count(*) FROM (TABLE recomputed EXCEPT ALL TABLE stored) d),
       (SELECT count(*) FROM (TABLE stored EXCEPT ALL TABLE recomputed) d),
       (SELECT count(*) FROM index_table.verify(:'index_table'));
