-- Labels and rewards.
SET client_min_messages = warning;
SELECT proname, provolatile, proparallel, proisstrict, prosupport <> 0 AS support
FROM pg_proc WHERE proname ~ '^llm_(class|token_class|reward)' ORDER BY 1;

-- ---- a text's ----
SELECT index, label, round(prob::numeric, 4) AS prob FROM llm_classify('I love this great thing');
SELECT * FROM llm_classify('I hate this', use_activation => false);
SELECT label FROM llm_classify('I hate this', top => 2);
SELECT label FROM llm_classify('I hate this', top => 99);
SELECT llm_class('I hate this'), llm_class('this'), llm_class('I love this'), llm_class('love', truncate => 2), llm_classify_probs('I love this', false);
SELECT round(sum(p)::numeric, 4) FROM unnest(llm_classify_probs('I love this')) p;
SELECT llm_class(NULL), llm_classify_probs(NULL, truncate => 0), (SELECT count(*) FROM llm_classify(NULL)) AS rows;
SELECT fails($$SELECT llm_class('')$$), fails($$SELECT * FROM llm_classify('')$$);
SELECT o, fails(format('SELECT * FROM llm_classify(''x'', %s)', o)) FROM unnest(ARRAY['top => 0', 'top => -1', 'truncate => 0', 'model => ''no such''', 'params => ''{"dimensions": 2}''',
    'params => ''{"top": 2}''', 'params => ''{"long_input": "chunk"}''']) o;
SELECT (llm_classify('good')).label LIMIT 1;

-- ---- tokens ----
\set text '\'In Zürich I met Washington Irving, on 12345678.\''
SELECT pos, token, start, stop, label, round(score::numeric, 4) AS score, token = substr(:text, start + 1, stop - start) AS cut FROM llm_token_classify(:text);
SELECT * FROM llm_token_classify(:text, 'simple');
SELECT token, label, score FROM llm_token_classify(:text, 'first');
SELECT token, label, score FROM llm_token_classify(:text, 'average');
SELECT token, label, score FROM llm_token_classify(:text, 'max');
SELECT count(*) FROM llm_token_classify(NULL, 'simple');
SELECT count(*) FROM llm_token_classify(NULL, 'no such');
SELECT count(*) FROM llm_token_classify('nothing to see');
SELECT count(*) FROM llm_token_classify('Nothing', NULL);
SELECT fails($$SELECT * FROM llm_token_classify('', 'none')$$), fails($$SELECT * FROM llm_token_classify('x', 'last')$$), fails($$SELECT * FROM llm_token_classify('x', 'none', 0)$$);
-- the strategies on made-up scores: B-PER, I-PER, O over "Jo anna met Ann-Marie"
CREATE FUNCTION tokens(strategy text, VARIADIC scores real[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s %s %s..%s %s %s', pos, token, start, stop, label, round(score::numeric, 3))
    FROM vllm.token_labels(ROW('{O,B-PER,I-PER}', ARRAY(SELECT scores[3 * i + 1:3 * i + 3] FROM generate_series(0, array_length(scores, 1) / 3 - 1) i),
                               '{0,0,0,2,2,6,7,10,11,14,14,15,15,20,0,0}')::vllm.token_scores, 'Joanna met Ann-Marie', strategy)
$$;
SELECT s, tokens(s, 1,0,0, 0,.9,.1, .6,.3,.1, 1,0,0, .1,.5,.4, .2,0,.8, .1,.1,.8, 1,0,0) FROM unnest('{none,simple,first,average,max}'::text[]) s;
SELECT s, tokens(s, 1,0,0, 0,.2,.3, 0,.1,.9, 0,0,1, 0,1,0, 0,1,0, 0,1,0, 1,0,0) FROM unnest('{simple,first,average,max}'::text[]) s;
SELECT fails($$SELECT vllm.token_labels(ROW('{O}', '{1,2}', '{0,1}')::vllm.token_scores, 'x', 'none')$$),
       fails($$SELECT vllm.token_labels(ROW('{O}', '{NULL}', '{0,1}')::vllm.token_scores, 'x', 'none')$$),
       fails($$SELECT vllm.token_labels(ROW(NULL, '{1}', '{0,1}')::vllm.token_scores, 'x', 'none')$$),
       fails($$SELECT vllm.token_labels(ROW('{}', '{}', '{0,1}')::vllm.token_scores, 'x', 'none')$$);
-- offsets beyond the text don't read beyond it
SELECT vllm.token_labels(ROW('{X}', '{1,1}', '{-5,-2,3,900}')::vllm.token_scores, 'Zürich', 'simple');
DROP FUNCTION tokens;

-- ---- rewards ----
SELECT llm_reward('good good bad'), llm_reward(NULL), array_length(llm_reward_tokens('good'), 1), llm_reward_tokens(NULL);
SELECT llm_reward_steps('good. good bad.', 46), llm_reward_steps('good. good bad.', 46, '{1,2}'), llm_reward_steps('good', 46) AS none, llm_reward_steps('good.', 46) AS one,
       llm_reward_steps(NULL, NULL), llm_reward_steps('good.', 46, '{7}') AS one_column;
SELECT fails($$SELECT llm_reward('')$$), fails($$SELECT llm_reward_steps('x', NULL)$$), fails($$SELECT llm_reward_steps('x', -1)$$), fails($$SELECT llm_reward('x', params => '{"instruction": "y"}')$$);

-- ---- in statements ----
CREATE TABLE said (id int PRIMARY KEY, body text);
INSERT INTO said VALUES (1, 'I love London'), (2, 'I hate Paris'), (3, NULL), (4, 'no capital here'), (5, 'I love London');
ANALYZE said;
EXPLAIN (COSTS OFF) SELECT id, c.label FROM said, llm_classify(body, top => 1) c;
SELECT id, c.label FROM said, llm_classify(body, top => 1) c;
SELECT id, c.label FROM said LEFT JOIN LATERAL llm_classify(body, top => 1) c ON true ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id, t.token FROM said, llm_token_classify(body, 'simple') t;
SELECT id, t.token FROM said, llm_token_classify(body, 'simple') t;
EXPLAIN (COSTS OFF) SELECT llm_class(body), count(*), avg(llm_reward(body)) FROM said WHERE llm_class(body) <> 'neutral' GROUP BY 1;
SELECT llm_class(body), count(*), avg(llm_reward(body)) FROM said WHERE llm_class(body) <> 'neutral' GROUP BY 1 ORDER BY 1;
SELECT vllm.control('log-clear');
SELECT id, llm_class(body) FROM said;
SELECT * FROM request_log() ORDER BY 1;
SELECT fails($$SELECT id, c.label FROM said, llm_classify(CASE id WHEN 4 THEN '' ELSE body END) c$$);
DROP TABLE said;
SELECT left_behind();

-- ---- the caller's own labels ----
SELECT llm_classify('good', '{bad,good}') AS literal, llm_classify('good', ARRAY['bad', 'good']) AS an_array, llm_classify('good', NULL) IS NULL AS no_labels, llm_classify(NULL, '{a,b}') IS NULL AS no_input,
       llm_classify('good', ARRAY['bad', 'good']::varchar[], instruction => 'What is the mood?') AS instructed, (SELECT count(*) FROM llm_classify('good', top => 2)) AS classifier,
       (SELECT count(*) FROM llm_classify('good', NULL::bool, 1)) AS named_type;
SELECT fails($$SELECT llm_classify('x', '{}')$$), fails($$SELECT llm_classify('x', '{a,NULL}')$$), fails($$SELECT llm_classify('x', '{a,b}', normalization => 'none')$$);
EXPLAIN (COSTS OFF) SELECT llm_classify(i::text, '{a,b}') FROM generate_series(1, 3) i;
PREPARE labels AS SELECT llm_classify($1, $2); EXECUTE labels('good', '{bad,good}'); DEALLOCATE labels;
