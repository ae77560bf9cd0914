-- llm_generate_stream: rows as tokens arrive.
SET client_min_messages = warning;
SELECT llm_generate_stream('one two three');
SELECT (s).seq, (s).text, (s).token_ids, (s).finish_reason FROM (SELECT llm_generate_stream('a b c d', max_tokens => 2) AS s) q;
SELECT string_agg(text, '' ORDER BY seq) AS text, max(finish_reason) AS finish_reason
FROM llm_generate_stream('one two three', stop => '{THREE}');
SELECT count(*) FROM llm_generate_stream(NULL);
SELECT id, string_agg(text, '' ORDER BY seq) FROM generate_series(1, 3) id, llm_generate_stream('row ' || id) GROUP BY id ORDER BY id;
SELECT fails($$SELECT llm_generate_stream('@error')$$), fails($$SELECT llm_generate_stream('x', top_k => -7)$$);

-- the concatenation is what llm_generate says
SELECT string_agg(text, '' ORDER BY seq) = llm_generate('@tokens:200') AS same FROM llm_generate_stream('@tokens:200');
SELECT sum(length(text)) FROM llm_generate_stream('@big:1000000');

-- a cursor gets a row when there is one: the first of 50 arrives long before the last
BEGIN;
DECLARE c CURSOR FOR SELECT (s).seq, (s).text FROM (SELECT llm_generate_stream('@tokens:50 @slow:100') AS s) q;
SELECT clock_timestamp() AS started \gset
FETCH 1 FROM c;
FETCH 2 FROM c;
SELECT clock_timestamp() - :'started' < '3 seconds' AS before_the_end;
SELECT count(*) AS live, max(state) AS state FROM llm_requests;
CLOSE c;
SELECT left_behind();
COMMIT;
-- LIMIT ends a stream early; so do an error and a rollback
SELECT (llm_generate_stream('@tokens:50 @slow:100')).text LIMIT 2;
SELECT left_behind();
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:100');
FETCH 1 FROM c;
SELECT 1 / 0;
ROLLBACK;
SELECT left_behind();
-- several at once in one query
SELECT (llm_generate_stream('a b')).text, (llm_generate_stream('c d e')).seq;
SELECT left_behind();
