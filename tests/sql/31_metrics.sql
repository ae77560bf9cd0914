-- llm_metrics_text(): Prometheus text, vLLM's names, figures that add up.
SELECT vllm.control('reset-stats');
CREATE FUNCTION metrics() RETURNS TABLE (name text, labels text, value float8) LANGUAGE sql AS $$
    SELECT m[1], coalesce(m[2], ''), m[3]::float8
    FROM regexp_split_to_table(llm_metrics_text(), '\n') line, regexp_match(line, '^([a-z_:0-9]+)(?:\{(.*)\})? (\S+)$') m WHERE line !~ '^#' AND line <> '' $$;
-- one value of the bundled model
CREATE FUNCTION metric(metric text, what text DEFAULT '') RETURNS float8 LANGUAGE sql AS $$
    SELECT value FROM metrics() WHERE name = metric AND labels LIKE '%model_name="tickets-2m"%' AND labels LIKE '%' || what || '%' $$;

-- the format: every line is a comment or a sample; each metric has its HELP and TYPE before its samples
SELECT line FROM regexp_split_to_table(llm_metrics_text(), '\n') line
WHERE line !~ '^# (HELP|TYPE) [a-z_:0-9]+ .+$' AND line !~ '^[a-z_:0-9]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)+\})? [-+0-9.e]+$' AND line <> '';
SELECT count(*) FROM metrics() m WHERE NOT EXISTS (SELECT FROM regexp_matches(llm_metrics_text(), '^# TYPE ([a-z_:0-9]+) ', 'gn') t
    WHERE m.name IN (t[1], t[1] || '_bucket', t[1] || '_sum', t[1] || '_count'));
\pset format unaligned
\pset tuples_only on
SELECT t[1] AS metric, t[2] AS type FROM regexp_matches(llm_metrics_text(), '^# TYPE ([a-z_:0-9]+) (\w+)$', 'gn') t;
\pset tuples_only off
\pset format aligned
SELECT count(*) - count(DISTINCT (name, labels)) AS twice FROM metrics();

-- llm_metrics() has the same
SELECT llm_generate('loads');
CREATE FUNCTION label_text(labels jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(key || '=' || to_json(value), ',' ORDER BY key), '') FROM jsonb_each_text(labels) $$;
CREATE FUNCTION sorted(labels text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(l[1], ',' ORDER BY l[1]), '') FROM regexp_matches(labels, '[a-z_]+="(?:[^"\\]|\\.)*"', 'g') l $$;
WITH a AS (SELECT * FROM llm_metrics()), b AS (SELECT * FROM metrics()),
rows AS (SELECT name, label_text(labels) AS labels, value FROM a WHERE kind <> 'histogram'
    UNION ALL SELECT name || '_sum', label_text(labels), sum FROM a WHERE kind = 'histogram'
    UNION ALL SELECT name || '_count', label_text(labels), count FROM a WHERE kind = 'histogram'
    UNION ALL SELECT name || '_bucket', label_text(labels || jsonb_build_object('le', b.key)), b.value::float8
        FROM a, jsonb_each_text(buckets) b WHERE kind = 'histogram')
SELECT (SELECT count(*) FROM rows) = (SELECT count(*) FROM b) AND count(*) > 100 AS all_there,
    count(*) FILTER (WHERE r.value IS DISTINCT FROM b.value AND r.name !~ 'resident') AS different, count(*) FILTER (WHERE r.name IS NULL OR b.name IS NULL) AS missing
FROM rows r FULL JOIN b ON r.name = b.name AND r.labels = sorted(b.labels);
SELECT name, kind, value FROM llm_metrics() WHERE labels = '{}' AND name ~ 'engine_ready';
SELECT labels->>'cache_dtype' AS dtype, labels->>'block_size' AS block_size, labels->>'enable_prefix_caching' AS caching
FROM llm_metrics() WHERE name = 'vllm:cache_config_info' AND labels->>'model_name' = 'tickets-2m';

-- requests are counted: the fake engine makes a token of each word
CREATE TEMP TABLE before AS SELECT * FROM metrics();
SELECT llm_generate('one two three'), llm_generate('four'), llm_generate('a b c d', max_tokens => 2);
SELECT llm_embed('a vector') IS NOT NULL AS embedded;
SELECT m.name, substring(m.labels FROM 'finished_reason="(\w+)"') AS why, m.value - coalesce(b.value, 0) AS more
FROM metrics() m LEFT JOIN before b USING (name, labels)
WHERE m.labels LIKE '%"tickets-2m"%' AND m.name ~ '(_total|_count|tokens_sum)$' AND m.name !~ 'iteration_tokens' AND m.value <> coalesce(b.value, 0) ORDER BY 1, 2;

-- histograms: buckets add up to the count, the last one has all, and none is below the one before
SELECT count(*) > 10 AS histograms, bool_and(steps_up) AS steps_up, bool_and(last = metric(replace(name, '_bucket', '_count'))) AS whole
FROM (SELECT name, bool_and(value >= coalesce(previous, 0)) AS steps_up, max(value) FILTER (WHERE le = 'Infinity') AS last
    FROM (SELECT name, le, value, lag(value) OVER (PARTITION BY name ORDER BY le) AS previous
        FROM (SELECT name, value, replace(substring(labels FROM 'le="([^"]*)"'), '+Inf', 'Infinity')::float8 AS le
            FROM metrics() WHERE name LIKE '%_bucket' AND labels LIKE '%"tickets-2m"%') b) l
    GROUP BY name) h;
-- times add up as well
SELECT metric('vllm:e2e_request_latency_seconds_sum') >= metric('vllm:request_queue_time_seconds_sum') AS waits,
    abs(metric('vllm:request_queue_time_seconds_sum') + metric('vllm:request_inference_time_seconds_sum')
        - metric('vllm:e2e_request_latency_seconds_sum')) < 1e-5 AS parts,
    (SELECT sum(m.value - coalesce(b.value, 0)) FILTER (WHERE name ~ 'first') <= sum(m.value - coalesce(b.value, 0)) FILTER (WHERE name ~ 'e2e')
        FROM metrics() m LEFT JOIN before b USING (name, labels) WHERE name ~ '(first_token|e2e).*_sum') AS first;

-- a request that fails, one that is cancelled
SELECT fails($$SELECT llm_generate('@error')$$);
SELECT fails($$SELECT llm_generate('@hang', timeout_ms => 50)$$);
SELECT metric('vllm:request_success_total', '"error"') - coalesce((SELECT value FROM before WHERE name = 'vllm:request_success_total' AND labels LIKE '%"tickets-2m"%"error"%'), 0) AS errors;

-- names are escaped; anybody may look
SELECT llm_create_model(E'odd"na\\me', '/fake/odd');
SELECT llm_generate('x', model => E'odd"na\\me');
SELECT count(*) FROM metrics() WHERE labels LIKE '%model_name="odd\\"na\\\\me"%' AND name = 'vllm_pg:requests_total' AND value = 1;
SELECT llm_drop_model(E'odd"na\\me');
CREATE ROLE regress_vllm_looks;
GRANT EXECUTE ON FUNCTION metrics() TO PUBLIC;
SET ROLE regress_vllm_looks;
SELECT value FROM metrics() WHERE name = 'vllm_pg:engine_ready';
RESET ROLE;
DROP ROLE regress_vllm_looks;
DROP FUNCTION metric, metrics, label_text, sorted;
DROP TABLE before;
