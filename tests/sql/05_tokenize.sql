-- Tokenizers (the fake engine's tokens are bytes).
SET client_min_messages = warning;
SELECT llm_tokenize('abc'), llm_count_tokens('abc'), llm_detokenize('{97,98,99}');
SELECT llm_tokenize(''), llm_count_tokens(''), llm_detokenize('{}') = '' AS empty;
SELECT llm_tokenize(NULL) IS NULL AS a, llm_count_tokens(NULL) IS NULL AS b, llm_detokenize(NULL) IS NULL AS c;
SELECT llm_detokenize(llm_tokenize('Grüße 世界')), llm_count_tokens('世界');
SELECT llm_tokenize('a', add_special_tokens => false), llm_tokenize('a', NULL), llm_tokenize('a', model => 'tickets-2m'),
       llm_count_tokens('ab', 'tickets-2m', false), llm_detokenize('{97}', skip_special_tokens => true);
SELECT fails($$SELECT llm_detokenize('{-1}')$$), fails($$SELECT llm_detokenize('{1,NULL}')$$),
       fails($$SELECT llm_detokenize('{{1,2},{3,4}}')$$);
SELECT fails($$SELECT llm_tokenize('a', model => 'nobody')$$);
SELECT count(*), sum(llm_count_tokens('x' || i)) FROM generate_series(1, 500) i;
SELECT array_length(llm_tokenize(repeat('x', 1000000)), 1), length(llm_detokenize(array_fill(120, '{1000000}')));
SELECT left_behind();
