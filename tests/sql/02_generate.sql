-- llm_generate: one answer a row.
SET client_min_messages = warning;
SELECT llm_generate('hello world');
SELECT llm_generate('one two three four', max_tokens => 2);
SELECT id, llm_generate('row ' || id) FROM generate_series(1, 5) id;

-- a NULL prompt makes NULL, without a call and whatever the options say
SELECT vllm.control('log-clear');
SELECT llm_generate(NULL) IS NULL AS is_null, llm_generate(NULL, max_tokens => -1) IS NULL AS also,
       llm_generate(NULL, model => 'no such model') IS NULL AS and_also;
SELECT count(*) FROM request_log();
SELECT id, llm_generate(p) FROM (VALUES (1, 'a'), (2, NULL), (3, 'c')) v (id, p);
-- NULL options are options not given
SELECT llm_generate('hello', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- an empty prompt is an error
SELECT fails($$SELECT llm_generate('')$$);

-- errors of the engine keep their SQLSTATE; the session goes on
SELECT fails($$SELECT llm_generate('@error')$$);
SELECT fails($$SELECT llm_generate('@error:54000:too_long')$$);
SELECT llm_generate('still here');

-- long prompts and long answers pass through rings that are shorter
SELECT length(llm_generate('@big:3000000')) AS answer;
SELECT length(llm_generate(repeat('wort ', 300000), max_tokens => 1000000)) AS answer;
SELECT md5(llm_generate(repeat('abcdefghij', 100000))) = md5(repeat('ABCDEFGHIJ', 100000)) AS same;
SET vllm.default_max_tokens = 0;
SELECT length(llm_generate('@tokens:1000')) > 1000 AS rest_of_context;
RESET vllm.default_max_tokens;
-- 256 tokens unless said otherwise
SELECT array_length(string_to_array(llm_generate('@tokens:1000'), ' '), 1) AS words;

-- expressions around and inside
SELECT upper(llm_generate(lower('ABC'))) || '!' AS nested, llm_generate(llm_generate('twice')) AS twice;
SELECT count(*) FROM generate_series(1, 20) i WHERE llm_generate('x' || i) LIKE '%1%';
SELECT CASE WHEN i = 2 THEN llm_generate('two') END FROM generate_series(1, 3) i;
SELECT llm_generate('p' || i) AS g, count(*) FROM generate_series(1, 4) i GROUP BY 1 ORDER BY 1;
-- toasted prompts
CREATE TEMP TABLE toasted (p text);
ALTER TABLE toasted ALTER p SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT repeat('lorem ipsum ', 5000);
SELECT length(llm_generate(p, max_tokens => 100000)) FROM toasted;

-- the result of everything: text, ids, reasons, usage, timings
SELECT text, token_ids, finish_reason, stop_reason, usage FROM llm_generate_full('one two three');
SELECT text, finish_reason, stop_reason FROM llm_generate_full('one two three', max_tokens => 2);
SELECT text, finish_reason, stop_reason FROM llm_generate_full('one two three', stop => '{WO}');
SELECT (r.usage).prompt_tokens, (r.usage).completion_tokens, (r.usage).total_tokens
FROM llm_generate_full('abc def') r;
SELECT k, (timings ->> k)::float8 >= 0 AS ok
FROM llm_generate_full('one two three') r, json_object_keys(r.timings) k;
SELECT llm_generate_full(NULL) IS NULL AS is_null;
SELECT r.id, (r.f).text, (r.f).finish_reason
FROM (SELECT id, llm_generate_full('q ' || id) AS f FROM generate_series(1, 3) id) r;
SELECT pg_typeof(llm_generate_full('x'));
SELECT left_behind();
