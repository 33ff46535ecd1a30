-- Invented people: the same at every run, each a function of the customer's number.

CREATE FUNCTION demo.u(i bigint, salt int) RETURNS float8 -- in [0, 1)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashint8extended(i, salt) & 4294967295)::float8 / 4294967296.0
$$;

CREATE TABLE demo.first_name AS
SELECT n - 1 AS n, name FROM unnest(string_to_array(
    'Ada Alan Alice Amir Ana Andrew Anna Arthur Barbara Ben Carla Carlos Chen Clara Daniel Dora '
    'Edgar Elena Emma Erik Eva Felix Fiona Frank Gina Grace Greta Hans Helen Henry Ida Igor Ines Iris '
    'Ivan Jack Jane Jin Joan John Jonas Julia Karen Karl Kate Kim Lara Lee Leo Lina Lisa Lucas Lucy '
    'Maria Mark Marta Max Mei Mia Mona Nadia Nils Nina Noah Nora Olga Oscar Otto Paul Pia Ravi Rosa '
    'Ruth Sam Sara Sofia Tara Theo Tom Vera', ' ')) WITH ORDINALITY AS t (name, n);

CREATE TABLE demo.last_name AS
SELECT row_number() OVER (ORDER BY demo.u(p * 100 + s, 1)) - 1 AS n, prefix || suffix AS name
  FROM unnest(string_to_array('Ander Berg Black Carl Dahl East Fair Gold Hall Har Jack John Lind '
                              'Mar Nor Old Peter Ros Sand West', ' ')) WITH ORDINALITY AS a (prefix, p),
       unnest(string_to_array('berg by dale feld ford ley man mont rup sen son well', ' '))
           WITH ORDINALITY AS b (suffix, s);

CREATE TABLE demo.town AS
SELECT row_number() OVER (ORDER BY demo.u(p * 100 + s, 2)) - 1 AS n, prefix || suffix AS name
  FROM unnest(string_to_array('Ash Beck Bright Clear Crow Deer East Fair Glen Gray Green High Kings '
                              'Lake Maple Mill New North Oak Red River Spring Stone West', ' '))
           WITH ORDINALITY AS a (prefix, p),
       unnest(string_to_array('bridge brook burg bury field ford gate ham haven hill land mond mouth '
                              'pool port side stead ton view ville', ' ')) WITH ORDINALITY AS b (suffix, s);

-- Customers number first to last. A few towns are large, most are small; likewise names.
CREATE FUNCTION demo.people(first bigint, last bigint) RETURNS SETOF customers
LANGUAGE sql STABLE AS $$
    SELECT i, f.name, l.name,
           1 + floor(199 * demo.u(i, 14))::int || ' ' || (ARRAY['Main', 'High', 'Church', 'Park', 'Mill'])
                                                        [1 + floor(5 * demo.u(i, 15))::int] || ' Street',
           t.name,
           lower(f.name || '.' || l.name) || i || '@example.' || (ARRAY['com', 'net', 'org'])[1 + i % 3],
           '+1 555 ' || to_char(floor(1e7 * demo.u(i, 16)), 'FM000-0000'),
           date '2010-01-01' + floor(5500 * demo.u(i, 17))::int,
           round((2000 * demo.u(i, 18))::numeric, 2)
      FROM generate_series(first, last) i
      JOIN demo.first_name f ON f.n = floor(80 * demo.u(i, 11))::int
      JOIN demo.last_name l ON l.n = floor(240 * power(demo.u(i, 12), 1.5))::int
      JOIN demo.town t ON t.n = floor(480 * power(demo.u(i, 13), 2))::int
$$;
