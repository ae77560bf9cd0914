-- Another model for a request whose model has failed: paths with /fake/lame fail at "@lame"
\pset format unaligned
SELECT llm_create_model('x', '/fake/x', options => '{"fallback": ["a", 5]}');
SELECT llm_create_model('x', '/fake/x', options => '{"fallback": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}');
SELECT llm_create_model('x', '/fake/x', options => '{"fallback": "x"}');
SELECT llm_create_model('x', '/fake/x', options => '{"fallback": ["a", "x"]}');
SELECT llm_create_model('x', provider => 'openai', url => 'http://127.0.0.1:8000/v1', options => '{"fallback": "x"}');
SELECT llm_create_model('good', '/fake/good', options => '{"prices": {"input": 1, "output": 1}}');
SELECT llm_create_model('lame', '/fake/lame', options => '{"fallback": "good", "prices": {"input": 1, "output": 1}, "result_cache": true}');
SELECT llm_create_model('chain', '/fake/lame2', options => '{"fallback": ["nobody", "lame"]}');
SELECT llm_create_model('ring', '/fake/lame3', options => '{"fallback": "ring2"}');
SELECT llm_create_model('ring2', '/fake/lame4', options => '{"fallback": "ring"}');
SELECT llm_cost_reset() >= 0 AS reset;
SELECT llm_generate('fine', model => 'lame'), llm_generate('@lame but answered', model => 'lame');
SELECT llm_generate('@lame and chained', model => 'chain');
SELECT llm_embed('@lame', model => 'lame') = llm_embed('@lame', model => 'good') AS same;
SELECT model, requests FROM llm_stat_cost ORDER BY 1;
-- all in the ring have failed
\set VERBOSITY default
SELECT llm_generate('@lame', model => 'ring');
-- or in a row whose last one has none to go to
SELECT llm_create_model('row', '/fake/lame5', options => '{"fallback": "last"}');
SELECT llm_create_model('last', '/fake/lame6');
SELECT llm_generate('@lame', model => 'row');
SELECT llm_generate('@lame', model => 'row') FROM generate_series(1, 3);
SELECT llm_drop_model(m) FROM unnest(ARRAY['row', 'last']) m;
-- with many rows: the same answers, in their order, with the batch node and without it
CREATE TABLE w AS SELECT i, CASE WHEN i % 3 = 0 THEN '@lame ' || i ELSE 'ok ' || i END AS p FROM generate_series(1, 300) i;
CREATE TABLE a AS SELECT i, llm_generate(p, model => 'chain') AS batch FROM w;
SET vllm.batch = off;
CREATE TABLE b AS SELECT i, llm_generate(p, model => 'chain') AS alone FROM w;
RESET vllm.batch;
SELECT count(*), count(*) FILTER (WHERE batch = alone) AS same, count(*) FILTER (WHERE batch = upper('@lame ' || i)) AS fallen FROM a JOIN b USING (i);
SELECT count(*) FROM w WHERE llm_generate(p, model => 'lame') LIKE '@LAME%';
SELECT count(*) FROM llm_generate_batch(ARRAY(SELECT p FROM w ORDER BY i), model => 'lame') WITH ORDINALITY g (t, i) JOIN w USING (i) WHERE t = upper(p);
SELECT count(*) FROM w WHERE i < 10 AND llm_embed(p, model => 'lame') IS NOT NULL;
-- (how many were in flight at once depends on when a failure is seen)
CREATE FUNCTION plan(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || q LOOP
		IF line ~ 'Requests:' THEN RETURN NEXT regexp_replace(line, 'Max In Flight: \d+', 'Max In Flight: N'); END IF;
	END LOOP;
END $$;
SELECT plan($$SELECT llm_generate(p, model => 'chain') FROM w WHERE i <= 6$$);
DROP FUNCTION plan;
-- what another model is not asked for: wrong options, token ids, its own errors; and a failed row is one
SELECT llm_generate('@error:22023:wrong', model => 'lame');
SELECT llm_generate('@error:0A000:never', model => 'lame');
SELECT llm_generate('@lame', model => 'lame', stop_token_ids => ARRAY[1]);
SELECT llm_generate('@lame @delay:1000', model => 'lame', timeout_ms => 50);
SELECT count(llm_generate(p, model => 'ring')) FROM w;
SET vllm.on_error = 'null';
SELECT count(llm_generate(p, model => 'ring')) FROM w;
RESET vllm.on_error;
-- a stream that has said nothing yet
SELECT string_agg(text, '') FROM llm_generate_stream('@lame stream', model => 'chain');
SELECT string_agg(text, '') FROM llm_generate_stream('@lame stream', model => 'ring');
-- a future whose model has failed: another one is asked when it is fetched
SELECT llm_submit('@lame future', model => 'chain') AS f, llm_submit_embed('@lame', model => 'lame') AS v, llm_submit('@lame future', model => 'ring') AS ring,
       llm_submit('@lame', model => 'lame', stop_token_ids => ARRAY[1]) AS ids, llm_submit('@error:22023:wrong', model => 'lame') AS wrong \gset
SELECT llm_wait(ARRAY[:f, :v, :ring, :ids, :wrong]);
SELECT llm_result(:f), llm_result_embedding(:v) = llm_embed('@lame', model => 'good') AS same;
SELECT llm_result(:ring);
SELECT llm_result(:ids);
SELECT llm_result(:wrong);
-- ... in the time that was left when it failed, as who had asked
SELECT llm_submit('@lame @delay:1000', model => 'lame', timeout_ms => 200) AS f, llm_submit('@lame in time', model => 'lame', timeout_ms => 1000) AS late \gset
SELECT llm_wait(ARRAY[:f, :late]), pg_sleep(1.1);
SELECT llm_result(:f);
SELECT llm_result(:late);
-- ... and again, if who fetches it gives up
SELECT llm_submit('@lame @delay:400', model => 'lame') AS f \gset
SELECT llm_wait(ARRAY[:f]);
SET statement_timeout = '100ms';
SELECT llm_result(:f);
RESET statement_timeout;
SELECT llm_result(:f);
-- bodies are as they are
SELECT llm_api('/v1/completions', '{"model": "lame", "prompt": "@lame body"}')->'choices'->0->>'text' AS t;
SELECT llm_api('/v1/completions', '{"model": "lame", "prompt": "@lame body"}', on_error => 'return')->'choices'->0->>'text' AS t;
-- an answer of another model is not kept as the model's own
SELECT llm_cache_clear('lame') >= 0 AS cleared;
SELECT count(llm_generate(p, model => 'lame', temperature => 0)) FROM w;
SELECT entries FROM llm_stat_cache WHERE model = 'lame';
-- privileges are looked at for each
CREATE ROLE regress_fallen;
SELECT llm_grant('lame', 'regress_fallen');
SET ROLE regress_fallen;
SELECT llm_generate('@lame', model => 'lame');
SELECT llm_submit('@lame', model => 'lame') AS f \gset
RESET ROLE;
SELECT llm_submit('@lame of another role', model => 'lame') AS g \gset
SELECT llm_result(:f);
SELECT llm_result(:g);
SELECT llm_grant('good', 'regress_fallen');
SET ROLE regress_fallen;
SELECT llm_generate('@lame', model => 'lame');
RESET ROLE;
-- a statement that is given up gives up what is on its way elsewhere, too
SELECT count(*) FROM (SELECT llm_generate(p, model => 'chain') FROM w LIMIT 7) s;
SET statement_timeout = '200ms';
SELECT count(llm_generate('@lame @delay:60000 ' || p, model => 'chain')) FROM w;
RESET statement_timeout;
DO $$
BEGIN
	FOR i IN 1..1000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM llm_requests WHERE model IN ('chain', 'lame', 'good'));
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT count(*) FROM llm_requests WHERE model IN ('chain', 'lame', 'good');
SELECT reserved FROM llm_stat_budget WHERE role = current_user;
SELECT llm_drop_model(m) FROM unnest(ARRAY['chain', 'lame', 'good']) m;
SELECT llm_drop_model('ring', cascade => true), llm_drop_model('ring2');
DROP TABLE w, a, b;
DROP ROLE regress_fallen;
