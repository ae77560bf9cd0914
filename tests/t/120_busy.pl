# Texts and statements that are meant to keep a backend busy: whatever the arguments of a function,
# statement_timeout ends it.  Each function gets some of the texts; with BUSY_ALL=1 all, and BUSY_MB gives
# their length.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('busy');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "fsync = off\nvllm.kv_cache_memory_bytes = '16MB'\nvllm.max_prompt_bytes = '32MB'\nvllm.allowed_hosts = 'llm.example.com'\nlog_min_error_statement = panic\n");
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION vllm_pg; SELECT llm_generate('warm', max_tokens => 1);
	CREATE TABLE t (x text);
	CREATE TYPE point_of AS (x int, y text)});

# %s is a text of this many MB
my %text = (
	letters => q{repeat('a', %d)}, backslashes => q{repeat('\\', %d)}, quotes => q{repeat('"', %d)}, brackets => q(repeat('[', %d)), braces => q(repeat('{"a":', %d / 5)),
	lines => q{repeat(E'\n', %d)}, headings => q{repeat(E'# a\n', %d / 4)}, fences => q{repeat('```', %d / 3)}, spaces => q{repeat(' ', %d)}, marks => q{repeat(U&'a\0301', %d / 3)},
	tags => q{repeat('<tool_call>', %d / 11)}, thoughts => q{repeat('<think>', %d / 7)}, percent => q{repeat('{}', %d / 2)}, dots => q{repeat('a. ', %d / 3)},
	numbers => q{repeat('1,', %d / 2)}, escapes => q{repeat('\\u0041', %d / 6)}, ideographs => q{repeat(U&'\4e2d', %d / 3)});
my @calls = (
	(map { [ "llm_chunk_text, $_", "SELECT count(*) FROM llm_chunk_text(%s, '$_', size => 100, overlap => 90)" ] } qw(tokens sentences markdown recursive)),
	[ 'llm_tokenize', 'SELECT cardinality(llm_tokenize(%s))' ],
	[ 'llm_count_tokens', 'SELECT llm_count_tokens(%s)' ],
	[ 'llm_format', 'SELECT length(llm_format(%s, 1, 2, 3))' ],
	[ 'llm_parse_tool_calls', q{SELECT length(llm_parse_tool_calls(%s, parser => 'hermes')::text)} ],
	[ 'llm_parse_tool_calls, json', q{SELECT length(llm_parse_tool_calls(%s, parser => 'llama3_json')::text)} ],
	[ 'llm_parse_reasoning', q{SELECT length(llm_parse_reasoning(%s, parser => 'deepseek_r1')::text)} ],
	[ 'llm_grammar_accepts', q{SELECT llm_grammar_accepts('{"pattern": "^(a|b|\\\\w)*$"}', to_json(%s)::text)} ],
	[ 'regex', q{SELECT llm_generate('x', regex => %s, max_tokens => 1)} ],
	[ 'grammar', q{SELECT llm_generate('x', grammar => %s, max_tokens => 1)} ],
	[ 'params', q{SELECT llm_generate('x', params => %s::json)} ],
	[ 'json_schema', q{SELECT llm_generate('x', json_schema => to_json(%s))} ],
	[ 'stop', q{SELECT llm_generate('x', max_tokens => 1, stop => ARRAY[%s])} ],
	[ 'llm_generate', q{SELECT llm_generate(%s, max_tokens => 1)} ],
	[ 'messages', q{SELECT llm_chat(json_build_array(json_build_object('role', 'user', 'content', %s)), max_tokens => 1)} ],
	[ 'messages as they are', q{SELECT llm_chat(%s::json, max_tokens => 1)} ],
	[ 'llm_render_chat', q{SELECT length(llm_render_chat(json_build_array(json_build_object('role', 'user', 'content', %s))))} ],
	[ 'a template', q{SELECT length(llm_render_chat('[{"role": "user", "content": "x"}]', chat_template => %s))} ],
	[ 'a type', q{SELECT llm_extract(%s, NULL::point_of)} ],
	[ 'llm_reduce', q{SELECT llm_reduce(ARRAY[%s, 'b'], 'Sum up', max_tokens => 1)} ],
	[ 'llm_api', q{SELECT llm_api('/v1/completions', %s::json)} ],
	[ 'llm_api, prompt', q{SELECT length(llm_api('/v1/completions', json_build_object('prompt', %s, 'max_tokens', 1))::text)} ],
	[ 'llm_similarity', q{SELECT llm_similarity(%s, 'x')} ],
	[ 'llm_choose', q{SELECT llm_choose('x', ARRAY[%s, 'b'])} ],
	[ 'llm_run_batch', q{SELECT count(*) FROM llm_run_batch(%s)} ],
	[ 'vectors', q{SELECT llm_cosine_distance(string_to_array(%s, ',')::real[], '{1}')} ],
	[ 'the batch node', q{SELECT llm_generate(x || %s, max_tokens => 1) FROM t, generate_series(1, 3)} ],
	[ 'model options', q{SELECT llm_create_model('busy', options => to_json(%s))} ],
	[ 'default_params', q{SELECT set_config('vllm.default_params', %s, false)} ],
	[ 'a tool', q{SELECT llm_chat('[{"role": "user", "content": "x"}]', tools => to_json(%s), max_tokens => 1)} ]);
my $mb = $ENV{BUSY_MB} // 1;

# valid JSON of n members
my %json = (
	array => q{(SELECT json_agg(i) FROM generate_series(1, %d) i)}, object => q{(SELECT json_object_agg('k' || i, i) FROM generate_series(1, %d) i)},
	repeated => q{(SELECT json_object_agg('k', i) FROM generate_series(1, %d) i)}, texts => q{(SELECT json_agg(repeat('\', 20)) FROM generate_series(1, %d) i)},
	messages => q{(SELECT json_agg(json_build_object('role', 'user', 'content', 'x')) FROM generate_series(1, %d) i)},
	calls => q{(SELECT json_agg(json_build_object('role', 'assistant', 'tool_calls', json_build_array(json_build_object('type', 'function', 'id', i::text, 'function', json_build_object('name', 'f' || i, 'arguments', '{}'))))) FROM generate_series(1, %d / 4) i)},
	parts => q{(SELECT json_build_array(json_build_object('role', 'user', 'content', json_agg(json_build_object('type', 'text', 'text', 'x')))) FROM generate_series(1, %d) i)},
	tools => q{(SELECT json_agg(json_build_object('type', 'function', 'function', json_build_object('name', 'f' || i, 'parameters', json_build_object('type', 'object')))) FROM generate_series(1, %d / 4) i)},
	schema => q{(SELECT json_build_object('type', 'object', 'properties', json_object_agg('k' || i, json_build_object('type', 'string'))) FROM generate_series(1, %d / 4) i)},
	enum => q{(SELECT json_build_object('enum', json_agg('k' || i)) FROM generate_series(1, %d) i)},
	refs => q{(SELECT json_build_object('$ref', '#/$defs/k1', '$defs', json_object_agg('k' || i, json_build_object('$ref', '#/$defs/k' || i + 1))) FROM generate_series(1, %d / 8) i)},
	biases => q{(SELECT json_build_object('logit_bias', json_object_agg(i, 1)) FROM generate_series(1, %d) i)},
	words => q{(SELECT json_build_object('bad_words', json_agg('k' || i)) FROM generate_series(1, %d) i)},
	choices => q{(SELECT json_build_object('structured_outputs', json_build_object('choice', json_agg('k' || i))) FROM generate_series(1, %d) i)});
my @of_json = (
	[ 'params', q{SELECT llm_generate('x', params => %s, max_tokens => 1)} ], [ 'json_schema', q{SELECT llm_generate('x', json_schema => %s, max_tokens => 1)} ],
	[ 'messages', q{SELECT llm_chat(%s, max_tokens => 1)} ], [ 'llm_render_chat', q{SELECT length(llm_render_chat(%s))} ],
	[ 'tools', q{SELECT llm_chat('[{"role": "user", "content": "x"}]', tools => %s, max_tokens => 1)} ], [ 'llm_api', q{SELECT length(llm_api('/v1/chat/completions', %s)::text)} ],
	[ 'llm_grammar_accepts', q{SELECT llm_grammar_accepts(%s, '1')} ], [ 'an instance', q{SELECT llm_grammar_accepts('{"type": ["array", "object"]}', %s::text)} ],
	[ 'default_params', q{SELECT set_config('vllm.default_params', %s::text, false)} ], [ 'tools of a parser', q{SELECT llm_parse_tool_calls('<tool_call>{"name": "f1"}</tool_call>', 'hermes', %s)} ],
	[ 'kwargs', q{SELECT length(llm_render_chat('[{"role": "user", "content": "x"}]', chat_template_kwargs => %s))} ], [ 'model options', q{SELECT llm_create_model('busy', '/nowhere', options => %s)} ]);
# many of something in one statement
my $n = $mb * 2000;
my @one = (
	[ 'calls', 'SELECT ' . join(', ', map { "llm_count_tokens('x$_')" } 1 .. 1600) ],
	[ 'calls of the batch node', 'SELECT ' . join(', ', map { "llm_generate('x$_' || x, max_tokens => 1)" } 1 .. 1600) . ' FROM t' ],
	[ 'calls in a WHERE', 'SELECT count(*) FROM t WHERE ' . join(' OR ', map { "llm_filter(x || '$_', 'good')" } 1 .. $n) ],
	[ 'calls in a WHERE, AND', 'SELECT count(*) FROM t WHERE ' . join(' AND ', map { "llm_filter(x || '$_', 'good')" } 1 .. $n) ],
	[ 'branches of CASE', 'SELECT CASE ' . join(' ', map { "WHEN llm_filter(x || '$_', 'good') THEN llm_generate('x', max_tokens => 1)" } 1 .. $n) . ' END FROM t' ],
	[ 'operands of COALESCE', 'SELECT coalesce(' . join(', ', map { "llm_generate(x || '$_', max_tokens => 1)" } 1 .. $n) . ') FROM t' ],
	[ 'CASEs in one another', 'SELECT ' . ("CASE WHEN llm_filter(x, 'good') THEN 'a' ELSE " x ($n / 10)) . "'b'" . (' END' x ($n / 10)) . ' FROM t' ],
	[ 'an expression', 'SELECT llm_generate(' . join(' || ', map { "x" } 1 .. $n) . ', max_tokens => 1) FROM t' ],
	[ 'rows', q{SELECT count(llm_generate(v, max_tokens => 1)) FROM (VALUES } . join(', ', map { "('x$_')" } 1 .. $n) . ') s(v)' ],
	[ 'columns', 'CREATE TYPE wide AS (' . join(', ', map { "c$_ int" } 1 .. 1600) . "); SELECT llm_extract('x', NULL::wide, max_tokens => 1)" ],
	[ 'a pattern', "CREATE DOMAIN busy AS text CHECK (VALUE ~ '" . ('(a|b)*' x $n) . "'); SELECT llm_generate_as('x', NULL::busy, max_tokens => 1)" ],
	[ 'LIKE', "CREATE DOMAIN busy AS text CHECK (VALUE LIKE '" . ('%_a' x $n) . "'); SELECT llm_generate_as('x', NULL::busy, max_tokens => 1)" ],
	[ 'labels', "CREATE TYPE busy AS ENUM (" . join(', ', map { "'l$_'" } 1 .. $n) . "); SELECT llm_generate_as('x', NULL::busy, max_tokens => 1)" ],
	[ 'members of one name', 'CREATE TYPE busy AS (' . join(', ', map { "c$_ int" } 1 .. 1600) . ");
		SELECT vllm.from_json((SELECT '{' || string_agg('\"c' || least(i, 1600) || '\":1', ',' ORDER BY i) || '}' FROM generate_series(1, 300000) i)::json, NULL::busy)" ],
	[ 'lines of a comment', 'SET statement_timeout = 0; CREATE OR REPLACE FUNCTION busy(' . join(', ', map { "c$_ int" } 1 .. 100) . ") RETURNS int LANGUAGE sql AS 'SELECT 1';
		DO \$\$ BEGIN EXECUTE format('COMMENT ON FUNCTION busy IS %L', repeat(E'\\n', 40000000)); END \$\$;
		SET statement_timeout = '500ms'; SELECT llm_tool('busy'::regproc)" ],
	[ 'options of a remote model', q{SELECT llm_create_model('busy', provider => 'openai', url => 'https://llm.example.com/v1',
		options => (SELECT json_object_agg('k' || i, 1) FROM generate_series(1, 100000) i))} ],
	[ 'headers of a remote model', q{SELECT llm_create_model('busy', provider => 'openai', url => 'https://llm.example.com/v1',
		options => json_build_object('headers', (SELECT json_object_agg('k' || i, '') FROM generate_series(1, 100000) i)))} ]);
sub seconds
{
	my ($sql) = @_;
	my $begin = time;
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '500ms'; $sql");
	return (time - $begin, $err || $out);
}
for my $o (@one)
{
	my ($took, $said) = seconds($o->[1]);
	cmp_ok($took, '<', 5, sprintf('many %s: %.2f s (%s)', $o->[0], $took, substr($said =~ s/\n.*//sr, 0, 120)));
	$node->psql('postgres', 'DROP TYPE IF EXISTS busy; DROP FUNCTION IF EXISTS busy');
}
my $turn = 0;
for my $c ((map { [ @$_, \%text ] } @calls), (map { [ @$_, \%json ] } @of_json))
{
	my ($name, $sql, $texts) = @$c;
	my $worst = 0;
	my $with = '';
	my $i = $turn++;
	for my $t (sort keys %$texts)
	{
		next if $i++ % 6 && !$ENV{BUSY_ALL};
		my $arg = sprintf($texts->{$t}, $texts == \%json ? $mb * 50_000 : $mb * 1024 * 1024);
		(my $stmt = $sql) =~ s/%s/$arg/g;
		my $begin = time;
		my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '500ms'; $stmt");
		my $took = time - $begin;
		($worst, $with) = ($took, "$t: " . substr(($err || $out) =~ s/\n.*//sr, 0, 120)) if $took > $worst;
		note(sprintf('%s of %s: %.2f s; %s', $name, $t, $took, substr($err =~ s/\n.*//sr, 0, 100))) if $took > 1;
	}
	cmp_ok($worst, '<', 5, sprintf('%s ends in time: %.2f s (%s)', $name, $worst, $with));
}
# while a JSON text is parsed: the text after it would cause another error
$node->safe_psql('postgres', q{CREATE UNLOGGED TABLE long AS SELECT ('[' || repeat('1,', 4000000) || '1]')::json AS j});
for my $call (q{llm_call_tool(j, '{}')}, q{llm_chat_run(j, '{}')})
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '100ms'; SELECT $call FROM long");
	like($err, qr/canceling statement due to statement timeout/, "$call is cancelled while it reads");
}
is($node->safe_psql('postgres', q{SELECT llm_generate('x', max_tokens => 1) IS NOT NULL}), 't', 'the engine is there');
$node->stop;
done_testing();
