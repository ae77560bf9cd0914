-- Decisions by log-probability (the fake engine: each byte of words that the prompt has is likely, of others not).
SET client_min_messages = warning;
-- llm_format
SELECT llm_format('{0} is {1}, {0}', 'a', 5), llm_format('{{0}} and {{}}'), llm_format('', 1), llm_format('{1}', 1, 2, 3),
       llm_format('{0}|{1}|', NULL::text, DATE '2026-11-22'), llm_format('{0}{1}', VARIADIC ARRAY[1, NULL]), llm_format('{0}', true),
       llm_format(NULL, 1) IS NULL AS "null", llm_format('{10}', 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 'ten'), llm_format('é{0}é', 'ü');
SELECT llm_format('x', VARIADIC NULL::text[]);
SELECT fails($$SELECT llm_format('{2}', 1, 2)$$), fails($$SELECT llm_format('{0}')$$), fails($$SELECT llm_format('{x}', 1)$$),
       fails($$SELECT llm_format('{', 1)$$), fails($$SELECT llm_format('a } b', 1)$$), fails($$SELECT llm_format('{}', 1)$$),
       fails($$SELECT llm_format('{99999999999}', 1)$$), fails($$SELECT llm_format('{0', 1)$$);
-- llm_choose
SELECT llm_choose('red or green', '{blue,green,red}'), llm_choose('red or green', '{blue,green,red}', 'mean') AS first_of_equals, llm_choose('only blue', '{red,green,blue}'), llm_choose('x', '{one}'),
       llm_choose(NULL, '{a,b}') IS NULL AS a, llm_choose(NULL, NULL) IS NULL AS b;
SELECT * FROM llm_choice_probs('red or green', '{green,red,blue}');
SELECT label, logprob, round(prob::numeric, 6) AS prob FROM llm_choice_probs('red or green', '{green,red,blue}', normalization => 'mean');
SELECT label, logprob, round(prob::numeric, 6) AS prob FROM llm_choice_probs('red or green', '{green,red,blue}', 'bytes');
SELECT count(*), sum(prob)::numeric(9, 6) FROM llm_choice_probs('x', (SELECT array_agg('label' || i) FROM generate_series(1, 4096) i));
SELECT * FROM llm_choice_probs(NULL, '{a}');
SELECT llm_choose('the café', '{thé,café}');
-- what is asked: a plain prompt, or a user's turn
SELECT vllm.control('log-clear') IS NOT NULL AS cleared;
SELECT llm_choose('plain prompt ', '{a}'), llm_choose('a "user" says ', '{b}', chat => true), llm_choose('either ', '{c}', chat => NULL),
       llm_filter_prob('is it {red}?', 'a rose'), llm_filter_prob('q', 'i', template => '{1}: {0}?', chat => false);
SELECT regexp_replace(line, '^\S+ \S+ ', '') AS asked FROM regexp_split_to_table(vllm.control('log'), '\n') line WHERE line <> '';
-- refusals
SELECT fails($$SELECT llm_choose('x', NULL)$$), fails($$SELECT llm_choose('x', '{}')$$), fails($$SELECT llm_choose('x', '{a,NULL}')$$),
       fails($$SELECT llm_choose('x', '{a,""}')$$), fails($$SELECT llm_choose('x', '{a,b,a}')$$), fails($$SELECT llm_choose('x', '{{a},{b}}')$$),
       fails($$SELECT llm_choose('x', (SELECT array_agg('l' || i) FROM generate_series(1, 4097) i))$$),
       fails($$SELECT llm_choose('x', '{a}', 'best')$$), fails($$SELECT llm_choose('x', '{a}', timeout_ms => -1)$$),
       fails($$SELECT llm_choose('x', '{a}', model => 'nobody')$$), fails($$SELECT llm_choose(repeat('x', 20000000), '{a}')$$);
SELECT fails($$SELECT llm_filter(' ', 'b')$$), llm_filter(' ', 'b', template => 'Yes') AS by_template;
SELECT fails($$SELECT llm_filter('a', 'b', 1.5)$$), fails($$SELECT llm_filter('a', 'b', 'NaN')$$), fails($$SELECT llm_filter('a', 'b', template => '{2}')$$);
-- llm_filter
SELECT llm_filter('c', 'i', template => 'Yes'), llm_filter('c', 'i', template => 'No'), llm_filter('c', 'i', template => 'neither'),
       llm_filter('c', 'i', 0, template => 'No'), llm_filter('c', 'i', NULL, template => 'Yes'), llm_filter(NULL, 'i') IS NULL AS a, llm_filter('c', NULL) IS NULL AS b;
SELECT round(llm_filter_prob('c', 'i', template => 'Yes')::numeric, 6), round(llm_filter_prob('c', 'i', template => 'Yes', chat => false)::numeric, 6),
       round(llm_filter_prob('c', 'i', template => 'Yes and No')::numeric, 6);
-- llm_loglikelihood, llm_perplexity
SELECT * FROM llm_loglikelihood('red or', ' red');
SELECT * FROM llm_loglikelihood('red or', ' blue');
SELECT * FROM llm_loglikelihood(NULL, 'a');
SELECT * FROM unnest('{red,blue}'::text[]) c, LATERAL llm_loglikelihood('red or ', c);
SELECT round(llm_perplexity('abab')::numeric, 6), llm_perplexity(NULL) IS NULL AS a;
SELECT fails($$SELECT llm_perplexity('')$$), fails($$SELECT * FROM llm_loglikelihood('a', '')$$);
-- all are batched
CREATE TEMP TABLE n AS SELECT i, 'text ' || i AS t FROM generate_series(1, 20) i;
EXPLAIN (COSTS OFF) SELECT llm_choose(t, '{a,b}'), llm_perplexity(t) FROM n WHERE llm_filter('odd', t);
EXPLAIN (COSTS OFF) SELECT n.i, c.label, c.prob FROM n, LATERAL llm_choice_probs(n.t, '{a,b}') c;
EXPLAIN (COSTS OFF) SELECT n.i, l.logprob FROM n, LATERAL llm_loglikelihood(n.t, 'a') l;
SELECT n.i, c.label, round(c.prob::numeric, 4) AS prob FROM n, LATERAL llm_choice_probs(n.t, '{text,b}') c WHERE n.i < 3;
-- the planner learns how many rows pass
CREATE FUNCTION estimate(q text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || q INTO plan;
	RETURN (plan->0->'Plan'->>'Plan Rows')::int;
END $$;
ANALYZE n;
SELECT estimate($$SELECT * FROM n WHERE llm_filter('never said', t)$$) AS unknown;
SELECT count(*) FROM n, generate_series(1, 50) WHERE llm_filter('never said', t, template => 'No {1}');
SELECT estimate($$SELECT * FROM n WHERE llm_filter('never said', t)$$) AS few;
SELECT count(*) FROM n WHERE llm_filter('always', t, template => 'Yes {1}');
SELECT estimate($$SELECT * FROM n WHERE llm_filter('always', t)$$) AS many,
       estimate($$SELECT * FROM n WHERE llm_filter('always', t, model => 'tickets-2m')$$) AS same_model,
       estimate($$SELECT * FROM n WHERE llm_filter(t, t)$$) AS not_constant;
CREATE ROLE regress_vllm_other;
SET ROLE regress_vllm_other;
SELECT estimate($$SELECT * FROM generate_series(1, 20) t WHERE llm_filter('always', t::text)$$) AS somebody_else;
RESET ROLE;
DROP ROLE regress_vllm_other;
DROP FUNCTION estimate(text);
-- by their names the input may be first, and the call is the same
EXPLAIN (COSTS OFF) SELECT i FROM n WHERE llm_filter(input => t, instruction => 'odd');
SELECT bool_and(llm_filter(input => t, instruction => 'never said', template => 'No {1}') = llm_filter('never said', t, template => 'No {1}')) AS same,
       bool_and(llm_filter_prob(input => t, instruction => 'odd') = llm_filter_prob('odd', t)) AS same_prob FROM n;
SELECT llm_filter(instruction => 'odd', t) FROM n;
DROP TABLE n;
