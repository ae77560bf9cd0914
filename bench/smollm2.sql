-- What SmolLM2-135M-Instruct (scripts/smollm2) loses by rounded activations, and how many draft tokens are right.
-- In the repository's root; the file with texts is made by tests/golden/gen_smollm2.py --texts:
--
--	psql -X -v gguf=PATH/SmolLM2-135M-Instruct.Q4_1.gguf -f bench/smollm2.sql
--
-- Needs a superuser, the texts in build/smollm2.texts, and no models of the names exact, plain, ngram, suffix.
\set ON_ERROR_STOP 1
\set QUIET 1
SET client_min_messages = warning;
SET vllm.default_params = '{"temperature": 0}';
\o /dev/null
SELECT llm_create_model('exact', :'gguf', options => '{"activation_scheme": "float"}'),
	llm_create_model('plain', :'gguf'),
	llm_create_model('ngram', :'gguf', options => '{"speculative_config": {"method": "ngram",
		"num_speculative_tokens": 8, "prompt_lookup_min": 2, "prompt_lookup_max": 5}}'),
	llm_create_model('suffix', :'gguf', options => '{"speculative_config": {"method": "suffix"}}');
SELECT llm_load_model(m) FROM unnest('{exact,plain,ngram,suffix}'::text[]) m;
\o

-- the documentation's paragraphs; gen_smollm2.py --perplexity prints the reference's nats
CREATE TEMP TABLE texts (body text);
\copy texts FROM 'build/smollm2.texts'
SELECT m AS model, count(*) AS texts, sum(k) AS tokens, round((sum(k * ln(p)) / sum(k))::numeric, 5) AS nats_a_token
FROM (SELECT m, cardinality(llm_tokenize(body, false, m)) - 1 AS k, llm_perplexity(body, model => m) AS p
	  FROM texts, unnest('{exact,plain}'::text[]) m) s
GROUP BY m ORDER BY m;

-- one answer at a time: the chats of tests/golden/smollm2.txt, and 20 texts to correct, whose words recur
CREATE TEMP TABLE asked (n serial, work text, system text, prompt text);
\copy asked (prompt) FROM PROGRAM 'sed -n "1~4s/.*\"content\": \"\\(.*\\)\"}\\]$/\\1/p" tests/golden/smollm2.txt'
UPDATE asked SET work = 'chat', system = 'You are a helpful assistant.';
INSERT INTO asked (work, system, prompt)
SELECT 'correct', 'Correct the spelling of the text. Answer with the corrected text alone.',
	format('The parcel number %s was sent on monday from the warehouse in %s. It arived two days later and the box were open. '
		   'The customer %s has called us and want her money back.', g, (ARRAY['Vienna', 'London', 'Madrid'])[g % 3 + 1],
		   (ARRAY['Anna', 'Tom'])[g % 2 + 1])
FROM generate_series(1, 20) g;
CREATE TEMP TABLE done (work text, model text, tokens bigint, drafted bigint, accepted bigint, answers text);
SET vllm.batch = off;
SELECT format($f$
	INSERT INTO done SELECT %1$L, %2$L, sum(((r).usage).completion_tokens), 0, 0, md5(string_agg((r).text, '|' ORDER BY n))
	FROM (SELECT n, llm_generate_full(llm_render_chat(json_build_array(json_build_object('role', 'system', 'content', system),
			json_build_object('role', 'user', 'content', prompt)), model => %2$L), model => %2$L, max_tokens => 64) r
		  FROM asked WHERE work = %1$L OFFSET 0) s;
	UPDATE done d SET (drafted, accepted) = (SELECT draft_tokens - coalesce(sum(o.drafted), 0), accepted_tokens - coalesce(sum(o.accepted), 0)
		FROM llm_stat_model m LEFT JOIN done o ON o.model = m.name AND o.work <> %1$L WHERE m.name = %2$L
		GROUP BY draft_tokens, accepted_tokens)
	WHERE d.work = %1$L AND d.model = %2$L$f$, w, m)
FROM unnest('{chat,correct}'::text[]) w, unnest('{plain,ngram,suffix}'::text[]) m
\gexec
SELECT work, model, tokens, drafted, accepted, round(100.0 * accepted / nullif(drafted, 0)) AS percent,
	round(100.0 * accepted / tokens) AS percent_of_tokens, answers = min(answers) OVER (PARTITION BY work) AS same_answers
FROM done ORDER BY work, model = 'suffix', model;
\o /dev/null
SELECT llm_drop_model(m) FROM unnest('{exact,plain,ngram,suffix}'::text[]) m;
