-- What may not call anything that was planted: run by whoever may write and read definitions.planted.
\set ECHO none
\o /dev/null
SET index_table.enable_scan = force;
INSERT INTO planted VALUES (1, ARRAY['a', 'b'], 'Kaa', 'j', 5, ROW('x', 1), 1005, 'z'), (103, ARRAY['c'], 'Kbb', 'jj', 6, ROW('y', 2), 1006, 'z')
    ON CONFLICT (id) DO NOTHING;
UPDATE planted SET tags = tags || '{u}', k = k || '!', n = n + 1, p = ROW('z', 3), d = d + 1, z = 'zz' WHERE id IN (1, 103);
UPDATE planted SET id = id + 101 WHERE id = 1;
SELECT * FROM by_first;
SELECT * FROM by_short;
SELECT * FROM by_d;
SELECT * FROM planted WHERE z = 'zz' ORDER BY id;
SELECT i.index_table, r.* FROM index_table.index_tables i, LATERAL index_table.lookup(i.index_table) r WHERE i.base = 'planted'::regclass AND i.is_complete;
SELECT * FROM index_table.lookup('planted_by_d', 5);
SELECT * FROM index_table.lookup('planted_by_first', 'a');
SELECT * FROM index_table.fetch(NULL::planted, 'planted_by_short', 'kaa');
SELECT * FROM index_table.page(NULL::planted, 'planted_by_d', 2, NULL);
SELECT * FROM index_table.page(NULL::planted, 'planted_by_d', 2, (SELECT max(next) FROM index_table.page(NULL::planted, 'planted_by_d', 2, NULL)));
SELECT * FROM index_table.page(NULL::planted, 'planted_by_number', 2, NULL);
DELETE FROM planted WHERE id IN (1, 102, 103);
RESET index_table.enable_scan;
\o
\set ECHO all
