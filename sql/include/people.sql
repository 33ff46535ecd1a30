-- For several tests. Two levels of partitions, of which one has its columns in another order.
CREATE TABLE people (
    id int, region text, town text, name text, phone text, age int, label text GENERATED ALWAYS AS (town || '/' || name) STORED,
    PRIMARY KEY (id, region)
) PARTITION BY LIST (region);
CREATE TABLE people_north PARTITION OF people FOR VALUES IN ('north') PARTITION BY HASH (id);
CREATE TABLE people_north_0 PARTITION OF people_north FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_north_1 (age int, gone int, phone text, label text GENERATED ALWAYS AS (town || '/' || name) STORED, name text, town text, region text NOT NULL, id int NOT NULL);
ALTER TABLE people_north_1 DROP COLUMN gone;
ALTER TABLE people_north ATTACH PARTITION people_north_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE people_south PARTITION OF people FOR VALUES IN ('south');
CREATE TABLE people_rest PARTITION OF people DEFAULT;
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'name DESC, town', 'partial', include => 'phone');
SELECT index_table.create('people', 'label', 'denormalized', partitions => 2);
SELECT index_table.create('people', 'phone', is_unique => true);
SELECT index_table.create('people', 'lower(town)', 'partial', include => 'age', predicate => 'age > 30', name => 'elders');
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, region', 'people b', 'true'),
    ('people_by_name_town', 'name, town, partition_id, id, region, phone', 'people b', 'true'),
    ('people_by_label', 'label, partition_id, id, region, town, name, phone, age', 'people b', 'true'),
    ('people_by_phone', 'phone, partition_id, id, region', 'people b', 'true'),
    ('elders', 'lower(town), partition_id, id, region, age', 'people b', 'age > 30');
