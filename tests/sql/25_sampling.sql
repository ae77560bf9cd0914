-- Sampling: what changes logits, as arguments and in params; every bad value is refused.
SET client_min_messages = warning;
SELECT llm_generate('one two', presence_penalty => -2, frequency_penalty => 2, repetition_penalty => 1.5,
                    logit_bias => '{"65": 100, "66": -3.5}', bad_words => '{tea,"green tea"}', allowed_token_ids => '{1,2,3}',
                    truncate => 4096);
SELECT llm_generate('one two', params => '{"presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 1.5,
    "logit_bias": {"65": 100, "66": -3.5}, "bad_words": ["tea", "green tea"], "allowed_token_ids": [1, 2, 3],
    "truncate_prompt_tokens": -1, "truncation_side": "right", "spaces_between_special_tokens": false,
    "repetition_detection": {"max_pattern_size": 3, "min_pattern_size": 1, "min_count": 4},
    "extra_args": {"my": [1, 2, "x"]}, "max_tokens": 5}');
-- json null is not given, an empty object changes nothing
SELECT llm_generate('none', logit_bias => 'null', params => '{"repetition_detection": null, "logit_bias": {}, "vllm_xargs": {}}');
-- a session's defaults
SET vllm.default_params = '{"regex": "(("}';
SELECT fails($$SELECT llm_generate('x')$$);
SELECT llm_generate('an argument wins', regex => 'an argument wins');
RESET vllm.default_params;

SELECT o, fails(format('SELECT llm_generate(''x'', %s)', o)) FROM (VALUES
    ('presence_penalty => 2.1'), ('presence_penalty => ''NaN'''), ('frequency_penalty => -2.5'),
    ('repetition_penalty => 0'), ('repetition_penalty => -1'), ('repetition_penalty => ''Infinity'''),
    ('logit_bias => ''[1]'''), ('logit_bias => ''5'''), ('logit_bias => ''{"a": 1}'''), ('logit_bias => ''{"-1": 1}'''),
    ('logit_bias => ''{"1": "2"}'''), ('logit_bias => ''{"1": null}'''), ('logit_bias => ''{"1.0": 1}'''),
    ('bad_words => ''{""}'''), ('bad_words => ''{NULL}'''),
    ('allowed_token_ids => ''{-1}'''), ('allowed_token_ids => ''{NULL}'''),
    ('truncate => 0'), ('truncate => -2')) v (o);
SELECT p, fails(format('SELECT llm_generate(''x'', params => %L)', p)) FROM (VALUES
    ('{"presence_penalty": "1"}'), ('{"repetition_penalty": 1e400}'), ('{"logit_bias": "x"}'), ('{"logit_bias": {"7": true}}'),
    ('{"allowed_token_ids": {}}'), ('{"bad_words": [1]}'), ('{"truncation_side": "middle"}'), ('{"truncation_side": 1}'),
    ('{"repetition_detection": {"max_pattern": 1}}'), ('{"repetition_detection": {"max_pattern_size": -1}}'),
    ('{"repetition_detection": {"max_pattern_size": 1.5}}'), ('{"repetition_detection": [1]}'),
    ('{"extra_args": 5}'), ('{"extra_args": [1]}'), ('{"spaces_between_special_tokens": 1}')) v (p);
-- of a prompt that is too long, its end or its beginning is kept
SELECT (llm_generate_full('a b c d e f', truncate => 5)).usage;
SELECT (llm_generate_full('a b c d e f', truncate => 5)).text AS last, llm_generate('a b c d e f', truncate => 5, params => '{"truncation_side": "right"}') AS first,
       llm_generate('a b c d e f', truncate => -1) AS whole;
-- one for each row
SELECT llm_generate('row ' || i, logit_bias => format('{"%s": %s}', i, i)::json, presence_penalty => i / 10.0, truncate => 4 + i) FROM generate_series(0, 3) i;
SELECT x, fails(format('SELECT llm_generate(''row'', logit_bias => %L)', x)) FROM (VALUES ('{"1": 2}'), ('{"k": 2}')) v (x);
SELECT * FROM llm_generate_batch('{a,b}', repetition_penalty => 1.1, logit_bias => '{"1": 1}');
SELECT * FROM llm_generate_query('SELECT ''q'' AS p', 'p', bad_words => '{x}', max_tokens => 5);
SELECT llm_ask('hello', bad_words => '{x}', truncate => 12);
SELECT left_behind();
