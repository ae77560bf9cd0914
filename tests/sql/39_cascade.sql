-- A model that is asked first, and another one where it isn't sure
\pset format unaligned
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": "big"}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"to": "big"}}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"to": "big", "threshold": 0.5}}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"to": "big", "accept": 0.5}}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"to": "big", "accept": 0.2, "reject": 0.5}}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"to": "big", "threshold": -1, "sure": true}}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"threshold": -1}}');
SELECT llm_create_model('c', '/fake/c', options => '{"cascade": {"to": "c", "threshold": -1}}');
SELECT llm_create_model('big', '/fake/big', options => '{"prices": {"input": 1, "output": 1}}');
SELECT llm_create_model('plain', '/fake/small');
SELECT llm_create_model('small', '/fake/small', options => '{"cascade": {"to": "big", "threshold": -0.2}, "prices": {"input": 1, "output": 1}}');
SELECT llm_create_model('never', '/fake/small', options => '{"cascade": {"to": "big", "threshold": -1e6}}');
SELECT llm_create_model('always', '/fake/small', options => '{"cascade": {"to": "big", "threshold": -1e-9}}');
SELECT llm_create_model('filter', '/fake/small', options => '{"cascade": {"to": "big", "accept": 0.9, "reject": 0.1}}');
SELECT llm_create_model('lost', '/fake/small', options => '{"cascade": {"to": "nobody", "threshold": -1e-9}}');
SELECT llm_create_model('round', '/fake/small', options => '{"cascade": {"to": "round2", "threshold": -1e-9}}');
SELECT llm_create_model('round2', '/fake/small', options => '{"cascade": {"to": "round", "threshold": -1e-9}}');
CREATE TABLE t AS SELECT i, CASE WHEN i % 3 = 0 THEN 'text number ' ELSE 'a red thing ' END || i AS p, ARRAY['red', 'green', 'blue'] AS labels FROM generate_series(1, 200) i;
-- what each says alone
CREATE TABLE alone AS SELECT i, (SELECT max(c.prob) FROM llm_choice_probs(p, labels, model => 'plain') c) AS sure,
	llm_choose(p, labels, model => 'plain') AS small, llm_choose(p, labels, model => 'big') AS big,
	llm_filter_prob('is it so?', p, model => 'plain') AS yes, llm_filter('is it so?', p, model => 'big') AS bigs_yes FROM t;
SELECT llm_cost_reset() >= 0 AS reset;
-- choices: the big one's where the small one's share is below e^-0.2
CREATE TABLE c AS SELECT i, llm_choose(p, labels, model => 'small') AS answer FROM t;
SELECT count(*) FILTER (WHERE answer <> CASE WHEN ln(sure) < -0.2 THEN big ELSE small END) AS wrong, count(*) FILTER (WHERE ln(sure) < -0.2) BETWEEN 1 AND 199 AS some_went
FROM c JOIN alone USING (i);
SELECT model, requests = CASE model WHEN 'small' THEN 200 ELSE (SELECT count(*) FROM alone WHERE ln(sure) < -0.2) END AS paid FROM llm_stat_cost ORDER BY 1;
SET vllm.batch = off;
SELECT count(*) FROM t JOIN c USING (i) WHERE answer <> llm_choose(p, labels, model => 'small');
RESET vllm.batch;
-- filters: between reject and accept
SELECT count(*) FILTER (WHERE f <> CASE WHEN yes >= 0.9 THEN true WHEN yes <= 0.1 THEN false ELSE bigs_yes END) AS wrong,
	count(*) FILTER (WHERE yes BETWEEN 0.11 AND 0.89) > 0 AS some_went
FROM (SELECT i, llm_filter('is it so?', p, model => 'filter') AS f FROM t) s JOIN alone USING (i);
-- ... and so with answers that are kept, whoever has asked before: for the probability (each row's is near 0.47), or with another threshold
SELECT llm_create_model('kept', '/fake/small', options => '{"cascade": {"to": "big", "accept": 0.9, "reject": 0.1}, "result_cache": true}');
SELECT llm_create_model('kept2', '/fake/small', options => '{"cascade": {"to": "big", "accept": 0.4, "reject": 0.1}, "result_cache": true}');
CREATE FUNCTION asks_big(model text, threshold float8) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM llm_cost_reset();
	PERFORM count(llm_filter('is it so?', p, threshold, model => asks_big.model)) FROM t;
	RETURN coalesce((SELECT requests FROM llm_stat_cost c WHERE c.model = 'big'), 0);
END $$;
SELECT count(llm_filter_prob('is it so?', p, model => 'kept')) FROM t;
SELECT asks_big('kept', 0.5);
SELECT asks_big('kept2', 0.3), asks_big('kept2', 0.6), asks_big('kept2', 0.3);
-- what is rejected is not asked of the big one, unless the threshold is below the probability: then it is no "no"
SELECT llm_create_model('rejects', '/fake/small', options => '{"cascade": {"to": "big", "accept": 0.9, "reject": 0.6}}');
SELECT asks_big('rejects', 0.6), asks_big('rejects', 0.3);
SELECT model, hits FROM llm_stat_cache ORDER BY 1;
DROP FUNCTION asks_big;
SELECT llm_drop_model('kept'), llm_drop_model('kept2'), llm_drop_model('rejects');
-- answers: by the mean of their tokens
SELECT count(*) FILTER (WHERE n = a) AS never, count(*) FILTER (WHERE y = b) AS always FROM (SELECT llm_generate(p, model => 'never', max_tokens => 4) AS n,
	llm_generate(p, model => 'plain', max_tokens => 4) AS a, llm_generate(p, model => 'always', max_tokens => 4) AS y, llm_generate(p, model => 'big', max_tokens => 4) AS b FROM t WHERE i <= 50) s;
SET vllm.batch_window = 1;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT llm_generate(p, model => 'always', max_tokens => 4) FROM t WHERE i <= 6;
RESET vllm.batch_window;
-- ... of which the plan tells all tokens: those of answers that were thrown away, too
CREATE FUNCTION plan_tokens(model text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	told text[] := '{}';
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT llm_generate(p, model => %L, max_tokens => 4) FROM t WHERE i <= 6', model) LOOP
		told := told || (SELECT array_agg(m[1]::int) FROM regexp_matches(line, 'Tokens: (\d+)', 'g') m)::text[];
	END LOOP;
	RETURN array_to_string(told, ' ');
END $$;
SELECT plan_tokens('plain') AS one, plan_tokens('big') AS other, plan_tokens('always') AS both;
DROP FUNCTION plan_tokens;
-- a model that is asked must be there, and isn't asked twice
\set VERBOSITY default
SELECT llm_generate('x', model => 'lost');
SELECT llm_generate('x', model => 'round');
SELECT count(llm_generate(p, model => 'lost')) FROM t;
\set VERBOSITY terse
-- streams and several answers are the first model's
SELECT string_agg(s.text, '') = (SELECT string_agg(s.text, '') FROM llm_generate_stream('x', model => 'plain', max_tokens => 4) s) AS same FROM llm_generate_stream('x', model => 'lost', max_tokens => 4) s;
-- so are futures, and what another model would have decided is not kept for calls, which ask that one
SELECT llm_create_model('keep_none', '/fake/small', options => '{"cascade": {"to": "big", "threshold": -1e-9}, "result_cache": true}');
SELECT llm_create_model('keep_all', '/fake/small', options => '{"cascade": {"to": "big", "threshold": -1e6}, "result_cache": true}');
SELECT array_agg(llm_submit('future', model => m, max_tokens => 4, temperature => 0)) AS ids FROM unnest(ARRAY['keep_none', 'keep_all']) m \gset
SELECT count(*) FROM unnest(:'ids'::bigint[]) id WHERE llm_result(id) = llm_generate('future', model => 'plain', max_tokens => 4, temperature => 0);
SELECT model, entries FROM llm_stat_cache WHERE model LIKE 'keep\_%' ORDER BY 1;
SELECT llm_generate('future', model => 'keep_none', max_tokens => 4, temperature => 0) = llm_generate('future', model => 'big', max_tokens => 4, temperature => 0) AS same;
SELECT count(llm_drop_model(m)) FROM unnest(ARRAY['keep_none', 'keep_all']) m;
-- token ids mean nothing to another model
SELECT llm_generate('x', model => 'lost', max_tokens => 4, stop_token_ids => ARRAY[1]) IS NOT NULL AS stays;
-- the fit: against a plain reading of what is promised
SELECT llm_fit_cascade(NULL, NULL);
SELECT llm_fit_cascade('{-1}', '{t,f}');
SELECT llm_fit_cascade('{1}', '{t}');
SELECT llm_fit_cascade('{-1}', '{t}', accuracy => 1);
SELECT llm_fit_cascade('{-1}', '{t}');
SELECT * FROM llm_fit_filter('{0.5}', '{t}');
-- all agree: everything stays, once there are enough (0.95^59 < 0.05)
SELECT llm_fit_cascade(array_agg(-0.001 * i), array_agg(true)) FROM generate_series(1, 58) i;
SELECT llm_fit_cascade(array_agg(-0.001 * i), array_agg(true)) AS lowest FROM generate_series(1, 59) i;
-- far fewer are right than wanted, of very many: no threshold, not all of them
SELECT llm_fit_cascade(array_agg(-1e-9), array_agg(i % 2 = 0)) AS none FROM generate_series(1, 1000) i;
SELECT llm_fit_cascade(array_agg(-1e-9), array_agg(i % 4 > 0), accuracy => 0.9) AS none FROM generate_series(1, 100000) i;
-- a share that no sample shows
SELECT llm_fit_cascade('{-1}', '{t}', accuracy => 1 - 1e-12) AS none;
SELECT llm_fit_cascade(array_agg(-1e-9), array_agg(true), accuracy => 1 - 1e-12) AS none FROM generate_series(1, 1000) i;
-- who is quite sure, and wrong as often as right: nothing is accepted or rejected, all is asked
SELECT f.* FROM (SELECT array_agg(1::float8) AS prob, array_agg(i % 2 = 0) AS truth FROM generate_series(1, 1000) i) s, llm_fit_filter(prob, truth, recall => 0.999) f;
SELECT f.* FROM (SELECT array_agg(0::float8) AS prob, array_agg(i % 2 = 0) AS truth FROM generate_series(1, 1000) i) s, llm_fit_filter(prob, truth) f;
-- who is less than 0.7 sure is never right: the threshold is not below that, and not far above
SELECT round(exp(llm_fit_cascade(array_agg(ln(i / 2000.0)), array_agg(i >= 1400)))::numeric, 3) AS threshold FROM generate_series(1, 1999) i;
-- 300 samples of a model that is right with the probability that it says: at threshold t the share is (1 + t) / 2, so 0.9 is met from t = 0.8 on
SELECT setseed(0.42);
SELECT count(*) FILTER (WHERE t < ln(0.8)) <= 22 AS missed_seldom, count(t) > 150 AS useful FROM (
	SELECT s, llm_fit_cascade(array_agg(ln(x)), array_agg(y), accuracy => 0.9) AS t FROM (SELECT s, x, random() < x AS y FROM (SELECT s, 1 - random() AS x
		FROM generate_series(1, 300) s, generate_series(1, 1000)) a) b GROUP BY s) c;
-- ... of one that is nearly always right from 0.5 on, and else by chance: 0.9 is met from t = 0.4 on
SELECT count(*) FILTER (WHERE t < ln(0.4)) <= 22 AS missed_seldom, count(*) FILTER (WHERE t <= ln(0.5)) > 255 AS useful FROM (
	SELECT s, llm_fit_cascade(array_agg(ln(x)), array_agg(y), accuracy => 0.9) AS t FROM (SELECT s, x, random() < CASE WHEN x > 0.5 THEN 0.98 ELSE 0.5 END AS y FROM (SELECT s, 1 - random() AS x
		FROM generate_series(1, 300) s, generate_series(1, 1000)) a) b GROUP BY s) c;
SELECT count(*) FILTER (WHERE (1 + accept) / 2 < 0.9 OR 1 - reject ^ 2 < 0.95) <= 22 AS missed_seldom, avg(asked) < 0.8 AS useful FROM (
	SELECT (llm_fit_filter(array_agg(x), array_agg(y), "precision" => 0.9, recall => 0.95)).* FROM (SELECT s, x, random() < x AS y FROM (SELECT s, 1 - random() AS x
		FROM generate_series(1, 300) s, generate_series(1, 1000)) a) b GROUP BY s) c;
DROP TABLE t, alone, c;
SET client_min_messages = warning;
SELECT count(llm_drop_model(m, cascade => true)) FROM unnest(ARRAY['big', 'plain', 'small', 'never', 'always', 'filter', 'lost', 'round', 'round2']) m;
RESET client_min_messages;
