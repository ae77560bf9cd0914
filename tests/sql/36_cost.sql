-- Prices of models, accounts and budgets
\pset format unaligned
-- what a price may be
SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": {"input": -1}}');
SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": {"inputs": 1}}');
SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": {"input": 0.0000001}}');
SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": {"output": "1"}}');
SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": 7}');
SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": {"input": 2.5, "output": 10}}');
SELECT llm_create_model('cheap', '/fake/cheap', options => '{"prices": {"input": 0.150001, "cached_input": 0.075, "output": 0.6}}');
SELECT llm_create_model('free', '/fake/free');
-- JSON has other ways to write a key
SELECT llm_create_model('escaped', '/fake/paid', options => '{"pr\u0069ces": {"input": 1}}');
SELECT llm_generate('a b c', model => 'escaped') IS NOT NULL AS asked;
SELECT cost > 0 AS paid FROM llm_stat_cost WHERE model = 'escaped';
SELECT llm_drop_model('escaped');
SELECT llm_cost_reset() >= 0 AS reset;
-- one request, by the token
SELECT llm_cost_reset();
SELECT (r.usage).prompt_tokens AS p, (r.usage).completion_tokens AS c FROM llm_generate_full('one two three', model => 'paid') r;
SELECT role, database, model, requests, prompt_tokens, cached_tokens, output_tokens, charged_tries, cost,
       cost = (prompt_tokens * 2.5 + output_tokens * 10) / 1000000 AS exact FROM llm_stat_cost;
SELECT role, day = total AND month = total AS same, total, reserved FROM llm_stat_budget;
SELECT llm_generate('nothing to pay', model => 'free');
SELECT count(*) FROM llm_stat_cost;
-- all kinds of calls and ends: what an account has is what its tokens cost
CREATE TABLE calls AS SELECT i, 'text ' || repeat('word ', i % 7) || i AS p FROM generate_series(1, 100) i;
SELECT count(llm_generate(p, model => 'cheap', max_tokens => 5)) FROM calls;
SET vllm.batch = off;
SELECT count(llm_generate(p, model => 'cheap', max_tokens => 5)) FROM calls WHERE i <= 10;
RESET vllm.batch;
SELECT count(llm_embed(p, model => 'cheap')) FROM calls;
SELECT count(llm_generate(CASE WHEN i = 50 THEN '@error:58000:gone' ELSE p END, model => 'cheap')) FROM calls;
SELECT count(*) FROM (SELECT llm_generate(p, model => 'cheap') FROM calls LIMIT 3) s;
SET statement_timeout = '100ms';
SELECT llm_generate('@delay:60000 ' || p, model => 'cheap') FROM calls;
RESET statement_timeout;
SELECT llm_generate('@delay:60000', model => 'cheap', timeout_ms => 50);
SELECT count(*) FROM llm_generate_batch(ARRAY(SELECT p FROM calls), model => 'cheap');
SELECT count(*) > 1 AS streamed FROM llm_generate_stream('a b c d e', model => 'cheap');
SELECT model, cost = (prompt_tokens - cached_tokens) * 0.150001 / 1000000 + cached_tokens * 0.075 / 1000000 + output_tokens * 0.6 / 1000000 AS exact,
       requests > 300 AS many FROM llm_stat_cost WHERE model = 'cheap';
SELECT total = (SELECT sum(cost) FROM llm_stat_cost) AS sum, reserved FROM llm_stat_budget;
-- EXPLAIN ANALYZE tells of a statement's
SET vllm.batch_window = 1;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT llm_generate('a b c', model => 'paid', max_tokens => 2) FROM generate_series(1, 4) i;
RESET vllm.batch_window;
-- and EXPLAIN of what it expects, by the planner's rows and widths and what answers have been
CREATE FUNCTION estimates(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
        IF line ~ 'LLM Estimate' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
END $$;
ANALYZE calls;
SELECT estimates($$SELECT llm_generate(p, model => 'paid', max_tokens => 2) FROM calls$$);
SELECT estimates($$SELECT llm_generate('Say it again: ' || p, model => 'free', max_tokens => 7) FROM calls$$);
SELECT estimates($$SELECT llm_generate(p, model => 'free', max_tokens => i) FROM calls$$);
SELECT estimates($$SELECT llm_generate(p, model => 'nobody') FROM calls$$);
-- limits of what is expected: no call is made, and EXPLAIN is not refused
SELECT sum(requests) AS before FROM llm_stat_model \gset
SET vllm.max_rows = 99;
SELECT count(llm_generate(p, model => 'free')) FROM calls;
SELECT count(llm_generate(p, model => 'free', max_tokens => i)) FROM calls;
SELECT estimates($$SELECT llm_generate(p, model => 'paid', max_tokens => 2) FROM calls$$);
EXPLAIN (ANALYZE, COSTS OFF) SELECT llm_generate(p, model => 'free') FROM calls;
SET vllm.batch = off;
SELECT count(llm_generate(p, model => 'free')) FROM calls;
RESET vllm.batch;
SELECT (SELECT count(llm_generate(c.p || d.p, model => 'free')) FROM calls d WHERE d.i < c.i) FROM calls c;
SELECT count(*) FROM calls c FULL JOIN calls d ON c.i = d.i AND llm_filter('ok', d.p, model => 'free');
SELECT sum(requests) = :before AS none_asked FROM llm_stat_model;
SELECT count(*) FROM (SELECT llm_generate(p, model => 'free') FROM calls LIMIT 99) s;
SELECT count(*) FROM (SELECT llm_generate(p, model => 'free') FROM calls LIMIT 100) s;
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate(p, model => 'free') FROM calls;
FETCH 2 FROM c;
FETCH ALL FROM c;
ROLLBACK;
SELECT count(*) FROM calls, llm_completions(p, model => 'free') c;
SELECT count(a) FROM (SELECT llm_agg(p, 'Join:') AS a FROM calls GROUP BY i) g;
SELECT llm_rerank_agg('q', i, p) IS NULL AS no_ranks FROM calls;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT llm_rerank_agg('q', i, p) IS NULL AS no_ranks FROM calls;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
-- what a function does is not seen from outside; a query in it is a statement
CREATE FUNCTION pg_temp.ask(p text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN llm_generate(p, model => 'free'); END $$;
SELECT count(pg_temp.ask(p)) FROM calls;
DO $$ BEGIN PERFORM llm_generate(p, model => 'free') FROM calls; END $$;
SET vllm.max_rows = 100;
SELECT count(llm_generate(p, model => 'free')) FROM calls;
RESET vllm.max_rows;
SET vllm.max_tokens_per_statement = 300;
SELECT count(llm_generate(p, model => 'free', max_tokens => 1)) FROM calls;
SELECT count(llm_generate(p, model => 'free', max_tokens => 1)) FROM calls WHERE i <= 10;
-- calls outside of batch nodes have the same tokens: of a column by its table's statistics, with a volatile input, in joins
SET vllm.batch = off;
SELECT count(llm_generate(p, model => 'free', max_tokens => 1)) FROM calls;
SELECT count(llm_generate(p, model => 'free', max_tokens => 1)) FROM calls WHERE i <= 10;
SELECT count(*) FROM calls c LEFT JOIN calls d ON c.i = d.i AND llm_filter('ok', d.p, model => 'free');
RESET vllm.batch;
SELECT count(llm_generate(p || random(), model => 'free', max_tokens => 1)) FROM calls;
SELECT count(*) FROM calls c FULL JOIN calls d ON c.i = d.i AND llm_filter('ok', d.p, model => 'free');
-- with options of each row only their number is known
SELECT count(llm_generate(p || random(), model => 'free', max_tokens => 1 + i % 2)) FROM calls;
RESET vllm.max_tokens_per_statement;
SET vllm.max_cost = 0.001;
SELECT count(llm_generate(p || repeat(random()::text, 9), model => 'paid', max_tokens => 200)) FROM calls;
SELECT count(llm_generate(p, model => 'paid', max_tokens => 200)) FROM calls;
SELECT count(llm_generate(p, model => 'free')) FROM calls;
RESET vllm.max_cost;
-- who may: a superuser, for others, too
CREATE ROLE regress_limited;
ALTER ROLE regress_limited SET vllm.max_rows = 5;
SET ROLE regress_limited;
SET vllm.max_rows = 0;
RESET ROLE;
ALTER ROLE regress_limited RESET ALL;
DROP ROLE regress_limited;
SELECT estimates($$SELECT llm_embed(p, model => 'paid'), llm_generate(p, model => 'free') FROM calls WHERE i <= 10$$);
-- of a filter, and of what it leaves over; of a join's; of as many as a Limit wants, and of one that waits for a filter
SELECT estimates($$SELECT 1 FROM calls WHERE llm_generate(p, model => 'free', max_tokens => 4000) = 'yes'$$);
SELECT estimates($$SELECT llm_embed(p, model => 'paid') FROM calls WHERE llm_generate(p, model => 'free', max_tokens => 4000) = 'yes'$$);
SELECT estimates($$SELECT 1 FROM calls a, calls b WHERE llm_generate(a.p || b.p, model => 'free', max_tokens => 4000) = 'yes'$$);
SELECT estimates($$SELECT llm_generate(p, model => 'free', max_tokens => 4000) FROM calls LIMIT 3 OFFSET 1$$);
SELECT estimates($$SELECT 1 FROM calls WHERE llm_generate(p, model => 'free', max_tokens => 4000) = 'yes' LIMIT 3$$);
DROP FUNCTION estimates;
-- a statement's budget: no request begins that could be too much
SELECT llm_cost_reset() > 0 AS reset;
SET vllm.max_cost = 0.0001;
SELECT llm_generate('one two three', model => 'paid', max_tokens => 5);
SELECT llm_generate('one two three', model => 'paid', max_tokens => 50);
SELECT llm_generate('one two three', model => 'free', max_tokens => 50);
SELECT llm_cost_reset() > 0 AS reset;
SET vllm.batch_window = 4;
SET vllm.max_cost = 0.001;
\set VERBOSITY terse
-- (which the planner takes for few rows)
SELECT count(llm_generate(p, model => 'paid', max_tokens => 3)) FROM calls WHERE i % 1 = 0;
SELECT requests BETWEEN 5 AND 20 AS some, cost <= 0.001 AS kept FROM llm_stat_cost;
SET vllm.batch = off;
SELECT llm_cost_reset() > 0 AS reset;
SELECT count(llm_generate(p, model => 'paid', max_tokens => 3)) FROM calls WHERE i % 1 = 0;
SELECT requests BETWEEN 5 AND 20 AS some, cost <= 0.001 AS kept FROM llm_stat_cost;
RESET vllm.batch;
SET vllm.max_cost = 1;
SELECT count(llm_generate(p, model => 'paid', max_tokens => 3)) FROM calls;
-- a window that would be too much at once waits for its own requests
SELECT llm_cost_reset() > 0 AS reset;
SET vllm.max_cost = 0.02;
SELECT count(llm_generate(p, model => 'paid', max_tokens => 100)) FROM calls;
RESET vllm.max_cost;
RESET vllm.batch_window;
SELECT cost <= 0.02 AS kept FROM llm_stat_cost;
-- and a role's, which only superusers give
\set VERBOSITY default
CREATE ROLE regress_spender LOGIN;
SELECT llm_grant('paid', 'regress_spender');
SET ROLE regress_spender;
SET vllm.role_max_cost = 5;
SELECT llm_cost_reset();
SELECT count(*) FROM llm_stat_cost;
RESET ROLE;
SELECT llm_cost_reset() > 0 AS reset;
SET vllm.role_max_cost = 0.001;
SET vllm.role_cost_window = 'none';
-- also with NULL for errors: a budget is no request's error
SET vllm.on_error = 'null';
SET vllm.batch_window = 4;
\set VERBOSITY terse
SELECT count(llm_generate(p, model => 'paid', max_tokens => 3)) FROM calls;
RESET vllm.batch_window;
RESET vllm.on_error;
SELECT cost <= 0.001 AS kept FROM llm_stat_cost;
SELECT reserved, total <= 0.001 AS kept FROM llm_stat_budget;
SELECT llm_generate('one two three', model => 'paid', max_tokens => 50);
SET vllm.role_cost_window = 'week';
RESET vllm.role_max_cost;
RESET vllm.role_cost_window;
-- a body says itself how much may come back: answers, prompts, tokens of each
SET vllm.max_cost = 0.014;
SELECT llm_api('/v1/completions', '{"model": "paid", "prompt": ["a", "b", "c"], "n": 5, "max_tokens": 100}');
SELECT llm_api('/v1/chat/completions', '{"model": "paid", "messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 1500}');
SELECT llm_api('/v1/completions', '{"model": "paid", "prompt": [1, 2, 3], "max_tokens": 1300}')->'usage'->>'prompt_tokens' AS one_prompt;
-- vectors have no tokens
SET vllm.max_cost = 0.001;
SELECT llm_api('/v1/embeddings', '{"model": "paid", "input": "a"}')->'usage'->>'prompt_tokens' AS tokens;
RESET vllm.max_cost;
SELECT llm_drop_model('paid');
SELECT llm_drop_model('cheap');
SELECT llm_drop_model('free');
DROP TABLE calls;
DROP ROLE regress_spender;
SELECT llm_cost_reset() > 0 AS reset;
