-- Distances of real[] and exact search over them.
SET client_min_messages = warning;
SELECT llm_cosine_distance('{1,2,3}', '{2,4,6}') AS same, llm_cosine_distance('{1,0}', '{0,1}') AS right_angle,
       llm_cosine_distance('{1,2}', '{-1,-2}') AS opposite, llm_cosine_distance('{0,0}', '{1,2}') AS no_direction;
SELECT llm_l2_distance('{0,0}', '{3,4}'), llm_inner_product('{1,2,3}', '{4,5,6}'), llm_binary_quantize('{-1,0,0.5,2}');
SELECT llm_cosine_distance(NULL, '{1}') IS NULL AS a, llm_l2_distance('{1}', NULL) IS NULL AS b, llm_binary_quantize(NULL) IS NULL AS c;
SELECT fails(format('SELECT %s', call)) FROM (VALUES
    ($$llm_cosine_distance('{1,2}', '{1}')$$), ($$llm_l2_distance('{}', '{}')$$), ($$llm_inner_product('{1,NULL}', '{1,2}')$$),
    ($$llm_inner_product('{{1,2}}', '{{1,2}}')$$), ($$llm_binary_quantize('{}')$$)) c (call);

-- against sums in double precision, of every length around the width of a register
CREATE FUNCTION numbers(n int, seed int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(((hashint4(i * 7919 + seed) & 1048575) / 524288.0 - 1)::real ORDER BY i) FROM generate_series(1, n) i
$$;
SELECT count(*), count(*) FILTER (WHERE abs(ip - llm_inner_product(a, b)) > 1e-5) AS ip,
       count(*) FILTER (WHERE abs(sqrt(d2) - llm_l2_distance(a, b)) > 1e-5) AS l2,
       count(*) FILTER (WHERE abs(1 - ip / sqrt(aa * bb) - llm_cosine_distance(a, b)) > 1e-6) AS cosine
FROM (SELECT numbers(n, 1) AS a, numbers(n, 2) AS b FROM generate_series(1, 100) n) v,
     LATERAL (SELECT sum(x::float8 * y) AS ip, sum((x::float8 - y) ^ 2) AS d2, sum(x::float8 ^ 2) AS aa, sum(y::float8 ^ 2) AS bb
              FROM unnest(a, b) u (x, y)) s;

-- what floats can't square, and what has no direction
SELECT llm_cosine_distance('{1e20,1e20}', '{3e38,3e38}') AS large, round(llm_cosine_distance('{1e-30,0}', '{1e-30,1e-30}')::numeric, 6) AS small,
       llm_l2_distance('{3e30,0}', '{0,4e30}') / 5e30 BETWEEN 0.999999 AND 1.000001 AS far, llm_inner_product('{1e30}', '{1e30}') > 9e59 AS product,
       llm_cosine_distance('{Infinity,1}', '{1,1}') AS infinite, llm_cosine_distance('{NaN,1}', '{1,1}') AS nan, llm_l2_distance('{Infinity}', '{1}');

-- search: plain rows, TOASTed ones (1,000 dimensions), NULLs, ties
CREATE TABLE points (dropped int, id int PRIMARY KEY, kind text, v real[]);
ALTER TABLE points DROP COLUMN dropped;
INSERT INTO points SELECT i, CASE WHEN i % 3 = 0 THEN 'three' ELSE 'other' END, CASE WHEN i % 50 <> 0 THEN numbers(20, i) END
FROM generate_series(1, 500) i;
CREATE TABLE long_points AS SELECT i AS id, numbers(1000, i) AS v FROM generate_series(1, 200) i;
ANALYZE points;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 'long_points'::regclass;

CREATE FUNCTION differs(metric text, k int, filter text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format($q$
        SELECT count(*) FROM
            (SELECT p.id, row_number() OVER (ORDER BY n.distance, n.row_id) AS r, n.distance
             FROM llm_nearest(numbers(20, -1), 'points', 'v', %1$s, %2$L, %3$L) n JOIN points p ON p.ctid = n.row_id) a
            FULL JOIN
            (SELECT id, row_number() OVER (ORDER BY d, ctid) AS r, d FROM
                (SELECT id, ctid, CASE %2$L WHEN 'cosine' THEN 1 - ip / sqrt(aa * bb) WHEN 'l2' THEN sqrt(d2) ELSE -ip END AS d
                 FROM points, LATERAL (SELECT sum(x::float8 * y) AS ip, sum((x::float8 - y) ^ 2) AS d2,
                                              sum(x::float8 ^ 2) AS aa, sum(y::float8 ^ 2) AS bb
                                       FROM unnest(v, numbers(20, -1)) u (x, y)) s
                 WHERE v IS NOT NULL AND (%4$s
)) x ORDER BY 2 LIMIT %1$s) b
            ON a.id = b.id AND a.r = b.r AND abs(a.distance - b.d) < 1e-5
        WHERE a.id IS NULL OR b.id IS NULL$q$, k, metric, filter, coalesce(filter, 'true'), k) INTO n;
    RETURN n;
END $$;
SELECT metric, k, coalesce(filter, '') AS filter, differs(metric, k, filter)
FROM (VALUES ('cosine'), ('l2'), ('ip')) m (metric), (VALUES (1), (10), (1000)) k (k),
     (VALUES (NULL), ('kind = ''three'' -- a comment')) f (filter);
SELECT count(*), count(DISTINCT row_id) FROM llm_nearest(numbers(20, -1), 'points', 'v', 1000);
SELECT source_table, distance < 1e-6 AS itself, p.id FROM llm_nearest(numbers(1000, 77), 'long_points', 'v', 1) n JOIN long_points p ON p.ctid = n.row_id;
SELECT id, kind FROM llm_nearest_rows(NULL::points, numbers(20, 42), 'v', 3);
SELECT array_agg(id) = (SELECT array_agg(p.id ORDER BY n.distance, n.row_id) FROM llm_nearest(numbers(20, 42), 'points', 'v', 20, 'l2') n
                        JOIN points p ON p.ctid = n.row_id) AS same
FROM llm_nearest_rows(NULL::points, numbers(20, 42), 'v', 20, metric => 'l2');
-- equal distances: in the order of ctid
CREATE TABLE equals AS SELECT i AS id, '{1,1}'::real[] AS v FROM generate_series(1, 300) i;
SELECT array_agg(id) FROM llm_nearest_rows(NULL::equals, '{1,1}'::real[], 'v', 7);
SELECT count(*) FROM llm_nearest(NULL, 'points', 'v');
SELECT count(*) FROM llm_nearest('{1}'::real[], 'points', 'v', filter => 'false');

-- columns that are called what our query calls its parts
CREATE TABLE names (s int, d int, r int, t text, best int, v real[], c bit(2));
INSERT INTO names SELECT i, -i, i, 'row ' || i, i, ARRAY[1, i], b'11' FROM generate_series(1, 3) i;
SELECT * FROM llm_nearest('{1,2}'::real[], 'names', 'v', 2, filter => 's < 3 AND t <> ''row 9''');
SELECT * FROM llm_nearest_rows(NULL::names, '{1,2}'::real[], 'v', 2);
SELECT * FROM llm_nearest_rows(NULL::names, '{1,2}'::real[], 'v', 2, codes => 'c');
DROP TABLE names;

-- codes: the candidates by their bits, the distance exact
ALTER TABLE points ADD code bit(20) GENERATED ALWAYS AS (llm_binary_quantize(v)) STORED;
ALTER TABLE long_points ADD code bit(1000) GENERATED ALWAYS AS (llm_binary_quantize(v)) STORED;
-- all rows are candidates: the same as without
SELECT count(*) FROM
    (SELECT distance, row_id FROM llm_nearest(numbers(20, 5), 'points', 'v', 10)
     EXCEPT SELECT distance, row_id FROM llm_nearest(numbers(20, 5), 'points', 'v', 10, codes => 'code', oversample => 1000)) d;
-- recall at ten times as many candidates, over 20 queries of random vectors (the hardest ones)
SELECT count(*) AS wanted, round(count(*) FILTER (WHERE found) / count(*)::numeric, 2) AS recall FROM
    (SELECT q, e.row_id, e.row_id = ANY (ARRAY(SELECT a.row_id FROM llm_nearest(numbers(1000, -q), 'long_points', 'v', 5, codes => 'code', oversample => 10) a)) AS found
     FROM generate_series(1, 20) q, LATERAL llm_nearest(numbers(1000, -q), 'long_points', 'v', 5) e) r;

-- partitions: rows are told apart by their table
CREATE TABLE parts (id int, v real[]) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (10);
CREATE TABLE parts_2 (v real[], id int);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
INSERT INTO parts SELECT i, ARRAY[i, 1] FROM generate_series(1, 19) i;
SELECT source_table, row_id, round(distance::numeric, 4) FROM llm_nearest('{9.5, 1}'::real[], 'parts', 'v', 4, 'l2');
SELECT * FROM llm_nearest_rows(NULL::parts, '{9.5, 1}'::real[], 'v', 4, 'l2');

-- a statement's snapshot; privileges and row security are the caller's
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM llm_nearest('{1,1}'::real[], 'equals', 'v', 1000);
DELETE FROM equals WHERE id > 10;
SELECT count(*) FROM llm_nearest('{1,1}'::real[], 'equals', 'v', 1000);
ROLLBACK;
ALTER TABLE equals ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON equals USING (id <= 4);
CREATE ROLE nearest_user;
SET ROLE nearest_user;
SELECT fails($$SELECT * FROM llm_nearest('{1,1}'::real[], 'equals', 'v')$$);
RESET ROLE;
GRANT SELECT ON equals TO nearest_user;
SET ROLE nearest_user;
SELECT count(*) FROM llm_nearest('{1,1}'::real[], 'equals', 'v', 1000);
SELECT array_agg(id) FROM llm_nearest_rows(NULL::equals, '{1,1}'::real[], 'v', 1000, filter => 'id <> 2');
RESET ROLE;

-- a text as the query is embedded, once
CREATE TABLE notes (id int, gone int, body text, v real[]);
INSERT INTO notes SELECT i, 0, b FROM unnest(ARRAY['the cat sat on the mat', 'a dog barked', 'the kettle arrived broken', 'my parcel never arrived', 'cats and dogs']) WITH ORDINALITY n (b, i);
ALTER TABLE notes DROP COLUMN gone;
UPDATE notes SET v = llm_embed(body);
SELECT vllm.control('log-clear');
SELECT d.id, d.body FROM llm_nearest('the parcel arrived', 'notes', 'v', 2) n JOIN notes d ON d.ctid = n.row_id ORDER BY n.distance;
SELECT id, body FROM llm_nearest_rows(NULL::notes, 'the cat sat', 'v', k => 2, filter => 'id < 5');
SELECT * FROM request_log();
SELECT array_agg(id) FROM llm_nearest_rows(NULL::notes, 'parcel arrived', 'v', 2, instruction => 'the ');
SELECT count(*) FROM llm_nearest(NULL::text, 'notes', 'v');
SELECT fails($$SELECT * FROM llm_nearest('x', 'notes', 'v', model => 'nobody')$$);
DROP TABLE notes;

-- parallel workers find the same
SELECT array_agg(row_id ORDER BY distance, row_id) AS alone FROM llm_nearest(numbers(20, 9), 'points', 'v', 50) \gset
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT array_agg(row_id ORDER BY distance, row_id) = :'alone' AS same FROM llm_nearest(numbers(20, 9), 'points', 'v', 50);
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;

-- refused
CREATE VIEW points_view AS SELECT * FROM points;
CREATE TABLE mixed AS SELECT * FROM (VALUES ('{1,2}'::real[]), ('{1,2,3}')) m (v);
SELECT fails(format('SELECT * FROM %s', call)) FROM (VALUES
    ($$llm_nearest('{1}'::real[], 'points', 'v')$$), ($$llm_nearest('{1,2}'::real[], 'mixed', 'v')$$), ($$llm_nearest('{}'::real[], 'points', 'v')$$), ($$llm_nearest('{1,NULL}'::real[], 'points', 'v')$$),
    ($$llm_nearest('{1}'::real[], 'points', 'w')$$), ($$llm_nearest('{1}'::real[], 'points', 'kind')$$), ($$llm_nearest('{1}'::real[], 'points_view', 'v')$$),
    ($$llm_nearest('{1}'::real[], 0, 'v')$$), ($$llm_nearest('{1}'::real[], NULL, 'v')$$), ($$llm_nearest('{1}'::real[], 'points', NULL)$$),
    ($$llm_nearest('{1}'::real[], 'points', 'v', 0)$$), ($$llm_nearest('{1}'::real[], 'points', 'v', 1, 'euclid')$$),
    ($$llm_nearest('{1}'::real[], 'points', 'v', codes => 'v')$$), ($$llm_nearest('{1}'::real[], 'points', 'v', codes => 'code', oversample => 0)$$),
    ($$llm_nearest('{1}'::real[], 'points', 'v', codes => 'code')$$),
    ($$llm_nearest('{1}'::real[], 'points', 'v', filter => 'true); DROP TABLE points; SELECT (1')$$),
    ($$llm_nearest('{1}'::real[], 'points', 'v', filter => '')$$),
    ($$llm_nearest('{1}'::real[], 'points', 'v', filter => 'id = 1 LIMIT 3')$$), ($$llm_nearest('{1}'::real[], 'points', 'v', filter => 'id')$$),
    ($$llm_nearest_rows(1, '{1}'::real[], 'v')$$)) c (call);
-- the place of a mistake is shown in the filter
\set VERBOSITY default
SELECT * FROM llm_nearest('{1}'::real[], 'points', 'v', filter => 'id = 1 AND) OR (true');
\set VERBOSITY terse
DROP TABLE points, long_points, equals, parts, mixed CASCADE;
DROP FUNCTION differs(text, int, text);
DROP FUNCTION numbers(int, int);
DROP ROLE nearest_user;
