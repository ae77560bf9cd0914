# Forced tool calls, with a real model that was not trained on tools: whatever it samples, the output is
# calls of the given tools, with arguments that match their schemas.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('tools');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '64MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }

sql(q{CREATE TABLE tool AS SELECT '[{"type": "function", "function": {"name": "order", "parameters": {"type": "object", "properties":
	{"number": {"type": "integer", "minimum": 1, "maximum": 99}, "state": {"$ref": "#/$defs/state"}}, "required": ["number", "state"], "additionalProperties": false,
	"$defs": {"state": {"enum": ["sent", "lost"]}}}}}, {"type": "function", "function": {"name": "stop"}}]'::json AS tools});
sql(q{CREATE TABLE answer AS SELECT i, llm_chat('[{"role": "user", "content": "My order 57 is lost."}]', tools => tools,
	tool_choice => CASE WHEN i % 2 = 0 THEN '"required"' ELSE '{"type": "function", "function": {"name": "order"}}' END::json, parallel_tool_calls => false,
	chat_template => '{{ messages[0].content }}', temperature => 1.5, seed => i, max_tokens => 120) AS a
	FROM tool, generate_series(1, 40) i});
is(sql(q{SELECT count(*) FROM answer WHERE a ->> 'finish_reason' NOT IN ('stop', 'tool_calls', 'length')}), '0', 'finish reasons');
cmp_ok(sql(q{SELECT count(*) FROM answer WHERE a ->> 'finish_reason' <> 'length'}), '>', 20, 'most end in time');
is(sql(q{SELECT count(*) FROM answer WHERE a ->> 'finish_reason' <> 'length' AND (json_array_length(a -> 'tool_calls') <> 1 OR a ->> 'content' IS NOT NULL
	OR a -> 'tool_calls' -> 0 -> 'function' ->> 'name' NOT IN ('order', 'stop'))}), '0', 'one call each, and nothing else');
is(sql(q{SELECT count(*) FROM answer, tool WHERE a ->> 'finish_reason' <> 'length' AND a -> 'tool_calls' -> 0 -> 'function' ->> 'name' = 'order'
	AND NOT llm_grammar_accepts(tools -> 0 -> 'function' -> 'parameters', a -> 'tool_calls' -> 0 -> 'function' ->> 'arguments')}), '0', 'arguments fit their schema');
is(sql(q{SELECT count(*) FROM answer WHERE i % 2 = 1 AND a ->> 'finish_reason' <> 'length' AND (a ->> 'finish_reason' <> 'stop' OR a -> 'tool_calls' -> 0 -> 'function' ->> 'name' <> 'order')}),
	'0', 'a named tool, which ends with stop');
is(sql(q{SELECT count(*) FROM answer WHERE i % 2 = 0 AND a ->> 'finish_reason' = 'stop'}), '0', 'required: tool_calls');
is(sql(q{SELECT count(*) FROM answer b, tool WHERE i IN (2, 3) AND a ->> 'finish_reason' <> 'length' AND
	(a -> 'tool_calls')::text <> (llm_chat('[{"role": "user", "content": "My order 57 is lost."}]', tools => tools,
	tool_choice => CASE WHEN i % 2 = 0 THEN '"required"' ELSE '{"type": "function", "function": {"name": "order"}}' END::json, parallel_tool_calls => false,
	chat_template => '{{ messages[0].content }}', temperature => 1.5, seed => i, max_tokens => 120) -> 'tool_calls')::text}), '0', 'the same again, ids too');

# a stream's pieces add up to the result of llm_chat, and no part of an incomplete call is JSON
sql(q{CREATE TABLE piece AS SELECT i, s.* FROM tool, generate_series(1, 8) i, LATERAL llm_chat_stream('[{"role": "user", "content": "My order 57 is lost."}]', tools => tools,
	tool_choice => CASE WHEN i % 2 = 0 THEN '"required"' ELSE '{"type": "function", "function": {"name": "order"}}' END::json, parallel_tool_calls => false,
	chat_template => '{{ messages[0].content }}', temperature => 1.5, seed => i, max_tokens => 120) s});
is(sql(q{SELECT count(*) FROM answer a JOIN (SELECT i, max(finish_reason) AS reason, nullif(string_agg(text, '' ORDER BY seq), '') AS content FROM piece GROUP BY i) p USING (i)
	LEFT JOIN (SELECT i, min(c ->> 'id') AS id, min(c -> 'function' ->> 'name') AS name, string_agg(c -> 'function' ->> 'arguments', '' ORDER BY seq) AS arguments
		FROM piece, json_array_elements(tool_calls) c GROUP BY i) c USING (i), LATERAL (SELECT a -> 'tool_calls' -> 0 AS call) t
	WHERE reason IS DISTINCT FROM a ->> 'finish_reason' OR content IS DISTINCT FROM a ->> 'content'
	OR CASE WHEN call IS NULL THEN length(replace(arguments, '{', '')) = length(replace(arguments, '}', '')) ELSE ROW(id, name, arguments) IS DISTINCT FROM ROW(call ->> 'id', call -> 'function' ->> 'name', call -> 'function' ->> 'arguments') END}),
	'0', 'pieces are the whole');
cmp_ok(sql(q{SELECT max(n) FROM (SELECT count(*) AS n FROM piece WHERE tool_calls IS NOT NULL GROUP BY i) s}), '>', 10, 'arguments come in pieces');

# the same in API bodies: chats, /v1/responses and Anthropic's messages make the same calls as llm_chat
sql(q{SELECT llm_create_model('caller', path, '{"chat_template": "{{ messages[0].content }}"}') FROM llm_models WHERE name = 'tickets-2m'});
sql(q{CREATE TABLE body AS SELECT i, llm_chat(m, tools => tools, tool_choice => '"required"', parallel_tool_calls => false, temperature => 1.5, seed => i, max_tokens => 400, model => 'caller') AS a,
	v1_chat_completions(json_build_object('model', 'caller', 'messages', m, 'tools', tools, 'tool_choice', 'required', 'parallel_tool_calls', false, 'temperature', 1.5, 'seed', i, 'max_tokens', 400))
		-> 'choices' -> 0 AS chat,
	v1_responses(json_build_object('model', 'caller', 'input', m, 'tools', flat, 'tool_choice', 'required', 'parallel_tool_calls', false, 'temperature', 1.5, 'seed', i,
		'max_output_tokens', 400, 'store', false)) AS response,
	v1_messages(json_build_object('model', 'caller', 'messages', m, 'tools', anthropic, 'tool_choice', '{"type": "any", "disable_parallel_tool_use": true}'::json, 'temperature', 1.5, 'seed', i,
		'max_tokens', 400)) AS message
	FROM tool, generate_series(1, 20) i, LATERAL (SELECT '[{"role": "user", "content": "My order 57 is lost."}]'::json AS m,
		(SELECT json_agg(json_build_object('type', 'function', 'name', t -> 'function' -> 'name', 'parameters', t -> 'function' -> 'parameters')) FROM json_array_elements(tools) t) AS flat,
		(SELECT json_agg(json_build_object('name', t -> 'function' -> 'name', 'input_schema', t -> 'function' -> 'parameters')) FROM json_array_elements(tools) t) AS anthropic) s});
is(sql(q{SELECT count(*) > 4 FROM body WHERE a ->> 'finish_reason' = 'tool_calls'}), 't', 'most end in time');
is(sql(q{SELECT count(*) FROM body WHERE (chat -> 'message' -> 'tool_calls')::text IS DISTINCT FROM (a -> 'tool_calls')::text OR chat ->> 'finish_reason' <> a ->> 'finish_reason'}), '0', 'chats');
is(sql(q{SELECT count(*) FROM body WHERE a ->> 'finish_reason' = 'tool_calls' AND (response ->> 'status' <> 'completed' OR json_array_length(response -> 'output') <> 1 OR
	response -> 'output' -> 0 ->> 'arguments' <> a -> 'tool_calls' -> 0 -> 'function' ->> 'arguments')}), '0', 'Responses');
is(sql(q{SELECT count(*) FROM body WHERE a ->> 'finish_reason' = 'tool_calls' AND (message ->> 'stop_reason' <> 'tool_use' OR json_array_length(message -> 'content') <> 1 OR
	message -> 'content' -> 0 ->> 'input' <> a -> 'tool_calls' -> 0 -> 'function' ->> 'arguments')}), '0', 'messages');

# SQL functions as tools: the call is made, its result is used, the second output is free
sql(q{CREATE TYPE state AS ENUM ('sent', 'lost');
	CREATE DOMAIN number AS int CHECK (VALUE BETWEEN 1 AND 99);
	CREATE FUNCTION order_state(number number, state state, since date, urgent bool DEFAULT false) RETURNS TABLE (number int, state state, since date, urgent bool)
		LANGUAGE sql STABLE AS 'SELECT $1, $2, $3, $4'});
sql(q{CREATE TABLE run AS SELECT i, llm_chat_run('[{"role": "user", "content": "My order 57 is lost."}]', ARRAY['order_state(number, state, date, bool)']::regprocedure[], tool_choice => '"required"',
	parallel_tool_calls => false, chat_template => '{{ messages[0].content }}{% if messages[1] %} {{ messages[-1].content }}{% endif %}', temperature => 1.5, seed => i, max_tokens => 400) AS r
	FROM generate_series(1, 20) i});
cmp_ok(sql(q{SELECT count(*) FROM run WHERE r ->> 'rounds' = '2'}), '>=', 10, 'a call, and an answer');
is(sql(q{SELECT count(*) FROM run WHERE r ->> 'rounds' NOT IN ('1', '2')}), '0', 'nobody is made to call twice');
is(sql(q{SELECT i, m FROM run, LATERAL (SELECT r -> 'messages' -> 2 ->> 'content' AS m) s WHERE r ->> 'rounds' = '2'
	AND (m::json ->> 'error' IS NOT NULL OR m::json -> 0 ->> 'number' IS NULL OR m::json -> 0 ->> 'since' IS NULL)}), '', 'every call fits the signature');

# reasoning first: the schema applies after the end tag, here if the prompt has it, and if it never comes
is(sql(q{SET vllm.reasoning_parser = 'deepseek_r1';
	SELECT llm_grammar_accepts('{"type": "integer"}', llm_chat('[{"role": "user", "content": "Hm"}]', chat_template => 'Hm <think></think>', json_schema => '{"type": "integer"}', temperature => 1.5, seed => 1) ->> 'content')}),
	't', 'a prompt that has closed the thoughts');
is(sql(q{SET vllm.reasoning_parser = 'deepseek_r1';
	SELECT a ->> 'content' IS NULL AND length(a ->> 'reasoning') > 0 FROM llm_chat('[{"role": "user", "content": "Hm"}]', chat_template => 'Hm <think>', json_schema => '{"type": "integer"}', temperature => 1.5, seed => 1, max_tokens => 20) a}),
	't', 'a prompt that has opened them');

$node->stop;
done_testing();
