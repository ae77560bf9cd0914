# thinking_token_budget, with a real model whose tokenizer has no tags: they are several tokens of text.
# The reasoning up to the budget is the same as without one; then the end tag comes, and after it text that
# matches the schema.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('thoughts');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '64MB'\nvllm.reasoning_parser = 'deepseek_r1'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }

my $chat = q{'[{"role": "user", "content": "Hm"}]', chat_template => 'Hm <think>', seed => i, temperature => 1, max_tokens => 40};

sql(qq{CREATE TABLE a AS SELECT i, llm_chat($chat) AS free, llm_chat($chat, thinking_token_budget => i - 1) AS a,
	llm_chat($chat, thinking_token_budget => 1000) AS long FROM generate_series(1, 20) i});
is(sql(q{SELECT count(*) FROM a WHERE (a -> 'usage' -> 'completion_tokens_details' ->> 'reasoning_tokens')::int > i - 1}), '0', 'none thinks longer');
cmp_ok(sql(q{SELECT count(*) FROM a WHERE (a -> 'usage' -> 'completion_tokens_details' ->> 'reasoning_tokens')::int = i - 1}), '>', 15, 'most think as long as they may');
is(sql(q{SELECT count(*) FROM a WHERE NOT starts_with(free ->> 'reasoning', coalesce(a ->> 'reasoning', ''))}), '0', 'they think what they would think');
is(sql(q{SELECT count(*) FROM a WHERE a ->> 'content' IS NULL}), '0', 'and answer');
is(sql(q{SELECT count(*) FROM a WHERE free ->> 'content' <> long ->> 'content' OR free ->> 'reasoning' <> long ->> 'reasoning'}), '0', 'a budget that is not used up changes nothing');
# everything but the usage, which depends on the cache
sql(q{CREATE FUNCTION answer(a json) RETURNS text LANGUAGE sql AS $$ SELECT format('%L %L %L', a ->> 'content', a ->> 'reasoning', a ->> 'finish_reason') $$});
is(sql(qq{SELECT count(*) FROM a WHERE answer(a) <> (SELECT answer(llm_chat($chat, thinking_token_budget => i - 1)))}), '0', 'the same one by one');
is(sql(qq{SET vllm.batch = off; SELECT count(*) FROM a WHERE answer(a) <> answer(llm_chat($chat, thinking_token_budget => i - 1))}), '0', 'and without batches');
is(sql(qq{SELECT count(*) FROM generate_series(1, 5) i WHERE (SELECT string_agg(text, '' ORDER BY seq) FROM llm_chat_stream($chat, thinking_token_budget => 3)) IS DISTINCT FROM
	llm_chat($chat, thinking_token_budget => 3) ->> 'content'}), '0', 'streams');
is(sql(qq{SELECT count(*) FROM generate_series(1, 10) i, llm_chat($chat, thinking_token_budget => 4, json_schema => '{"type": "integer", "minimum": 0, "maximum": 999}') c
	WHERE NOT (c ->> 'content')::int BETWEEN 0 AND 999}), '0', 'a schema holds behind the thoughts');
is(sql(qq{SELECT count(*) FROM generate_series(1, 3) i, llm_chat($chat, include_reasoning => false, json_schema => '{"type": "boolean"}') c
	WHERE c ->> 'content' NOT IN ('true', 'false')}), '0', 'without thoughts it holds at once');

# other functions: tags in the prompt count
is(sql(q{SELECT llm_generate('I <think>hm', params => '{"thinking_token_budget": 0}', max_tokens => 30, temperature => 0) ~ '^</think>'}), 't', 'llm_generate: an open tag');
is(sql(q{SELECT llm_generate('I <think>hm</think>', params => '{"thinking_token_budget": 0}', max_tokens => 30, temperature => 0) ~ '</think>'}), 'f', 'llm_generate: none that is open');
is(sql(q{SELECT bool_and(text ~ '^</think>') FROM llm_completions('I <think>hm', n => 3, seed => 1, max_tokens => 30, temperature => 1, params => '{"thinking_token_budget": 0}')}), 't', 'llm_completions');
is(sql(q{SELECT count(DISTINCT text) FROM llm_completions('I <think>hm', n => 3, seed => 1, max_tokens => 30, temperature => 1, params => '{"thinking_token_budget": 0}')}), '3', 'which differ behind it');
is(sql(q{SELECT (llm_generate_full('I <think>hm', params => '{"thinking_token_budget": 2}', max_tokens => 30)).usage.reasoning_tokens}), '2', 'llm_usage');
is(sql(q{SELECT v1_completions('{"prompt": "I <think>hm", "thinking_token_budget": 0, "max_tokens": 30}') -> 'choices' -> 0 ->> 'text' ~ '^</think>'}), 't', 'v1_completions');

# bodies
sql(q{SELECT llm_create_model('thinker', path, '{"chat_template": "Hm <think>{# #}"}') FROM llm_models LIMIT 1});
my $messages = q{"model": "thinker", "messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 30};
my $free = sql(qq{SELECT v1_chat_completions('{$messages}') -> 'choices' -> 0 -> 'message' ->> 'reasoning'});
is(sql(qq{SELECT v1_chat_completions('{$messages, "thinking_token_budget": 3}') -> 'choices' -> 0 -> 'message' ->> 'reasoning' = substr('$free', 1, length(v1_chat_completions('{$messages, "thinking_token_budget": 3}') -> 'choices' -> 0 -> 'message' ->> 'reasoning'))
	AND length(v1_chat_completions('{$messages, "thinking_token_budget": 3}') -> 'choices' -> 0 -> 'message' ->> 'content') > 0}), 't', 'v1_chat_completions');
is(sql(qq{SELECT v1_messages('{$messages, "thinking": {"type": "enabled", "budget_tokens": 3}}') -> 'content' -> 0 ->> 'thinking'}),
	sql(qq{SELECT v1_chat_completions('{$messages, "thinking_token_budget": 3}') -> 'choices' -> 0 -> 'message' ->> 'reasoning'}), 'v1_messages');
cmp_ok(sql(q{SELECT v1_responses('{"model": "thinker", "input": "x", "temperature": 0, "max_output_tokens": 30, "thinking_token_budget": 3, "store": false}') -> 'usage' -> 'output_tokens_details' ->> 'reasoning_tokens'}), '<=', 3, 'v1_responses');
my ($rc, $out, $err) = $node->psql('postgres', qq{SELECT v1_messages('{$messages, "thinking": {"type": "enabled", "budget_tokens": -1}}')});
like($err, qr/thinking.budget_tokens must be an integer that is not negative/, 'a budget that is none');

# cancelling while the tag is written leaves nothing
$node->psql('postgres', qq{SET statement_timeout = 5; SELECT llm_chat($chat, thinking_token_budget => 30, ignore_eos => true) FROM generate_series(1, 200) i});
is(sql(q{SELECT llm_chat_text('[{"role": "user", "content": "x"}]', model => 'thinker', thinking_token_budget => 0, max_tokens => 5) IS NOT NULL}), 't', 'the engine goes on');

$node->stop;
done_testing();
