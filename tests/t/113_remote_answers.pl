# What an endpoint returns besides texts: log-probabilities, ranks, token ids, several choices, tool calls,
# labels, bodies.  The same functions on a local model and on the same model at a second cluster's HTTP
# server: the same results.
use strict;
use warnings;
use Cwd qw(getcwd);
use FindBin;
use lib $FindBin::RealBin;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";
plan skip_all => 'vllm_pg_http was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $url = "http://127.0.0.1:$port/v1";
my $fixtures = getcwd() . '/fixtures/pool';
my $a = new_node('with', "vllm.engine_args = ''\nvllm.http_host = '127.0.0.1'\nvllm.http_port = $port\nvllm.kv_cache_memory_bytes = '64MB'\n");
my $b = new_node('without', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1'\n");
my @models = ('talker', 'vectors', 'pairs', 'classes');

$a->safe_psql('postgres', qq{
	CREATE ROLE vllm_http LOGIN NOINHERIT;
	CREATE ROLE app;
	GRANT app TO vllm_http;
	SELECT llm_create_model('talker', path, json_build_object('tool_call_parser', 'hermes', 'chat_template', \$\$
{%- if tools %}{{ tools|tojson }} {% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %} {{ c.function|tojson }}{% endfor %}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}\$\$)) FROM llm_models WHERE name = 'tickets-2m';
	SELECT llm_create_model('vectors', '$fixtures/bert_embed'), llm_create_model('pairs', '$fixtures/bert_score'), llm_create_model('classes', '$fixtures/bert_classify');
	SELECT llm_grant(m, 'app') FROM unnest('{@{[join ',', @models]}}'::text[]) m});
my $key = $a->safe_psql('postgres', q{SELECT llm_create_api_key('app', 'app')});
ok(until_true(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }), 'the HTTP server listens');
my $docs = slurp_file('models/docs_sample.sql');
$_->safe_psql('postgres', $docs) for $a, $b;
$b->safe_psql('postgres', qq{
	SELECT llm_create_model(m, provider => 'openai', url => '$url', options => '{"dialect": "vllm", "max_retries": 0}'), llm_set_secret(m, '$key')
	FROM unnest('{@{[join ',', @models]}}'::text[]) m});

# Run the same query in both.
sub same
{
	my ($name, $sql) = @_;
	my ($there, $want, $why) = $a->psql('postgres', $sql);
	my ($here, $got, $err) = $b->psql('postgres', $sql);
	is($got, $want, $name) or diag($err);
	isnt($want, '', "$name: something") or diag($why);
}

# ---- outputs ----

my $greedy = "model => 'talker', temperature => 0";
same('ids of an answer', qq{SELECT (r).text, (r).token_ids, (r).finish_reason FROM (SELECT llm_generate_full(prompt, $greedy, max_tokens => 9) r FROM docs ORDER BY id LIMIT 4) s});
same('why it stopped', qq{SELECT (r).text, (r).finish_reason, (r).stop_reason FROM (SELECT llm_generate_full(prompt, $greedy, max_tokens => 60, stop => '{.}') r FROM docs ORDER BY id LIMIT 8) s});
same('several answers', qq{SELECT c.index, c.text, c.token_ids, c.finish_reason, c.stop_reason FROM docs,
	unnest((llm_output(prompt, model => 'talker', temperature => 0.8, seed => 5, n => 3, max_tokens => 8)).completions) c WHERE id < 4 ORDER BY id, c.index});
same('its prompt', qq{SELECT (o).prompt, (o).prompt_token_ids, ((o).usage).prompt_tokens, ((o).usage).completion_tokens FROM (SELECT llm_output(prompt, $greedy, max_tokens => 2) o FROM docs ORDER BY id LIMIT 3) s});

# tokens with the same text are one member of an object: their ranks are unknown; and so are ids except the
# output's own
my $entries = qq{SELECT p.pos, p.token, p.bytes, round(p.logprob::numeric, 3), p.chosen, FILTER FROM docs,
	unnest((llm_output(prompt, $greedy, logprobs => 3, max_tokens => 6)).completions) c, unnest(c.logprobs) p WHERE id < 4 ORDER BY id, p.pos, p.logprob DESC, p.token};
(my $own = $entries) =~ s/FILTER/CASE WHEN p.chosen THEN p.token_id END, CASE WHEN p.chosen THEN p.rank END/;
same('log-probabilities of tokens and of the likeliest', $own);
same('their sum', qq{SELECT round(c.cumulative_logprob::numeric, 3) FROM docs, unnest((llm_output(prompt, $greedy, logprobs => 0, max_tokens => 6)).completions) c WHERE id < 6 ORDER BY id});
is($b->safe_psql('postgres', qq{SELECT bool_and(p.token_id IS NULL), count(p.rank) > 0 FROM docs, unnest((llm_output(prompt, $greedy, logprobs => 3, max_tokens => 6)).completions) c,
	unnest(c.logprobs) p WHERE id < 4 AND NOT p.chosen}), 't|t', 'ids that an endpoint does not tell are NULL');
same('log-probabilities of a prompt', qq{SELECT p.pos, p.token_id, p.token, p.rank, round(p.logprob::numeric, 3), p.chosen FROM docs,
	unnest((llm_output(prompt, $greedy, prompt_logprobs => 2, max_tokens => 1)).prompt_logprobs) p WHERE id < 4 ORDER BY id, p.pos, p.chosen DESC, p.rank});

# ---- choices ----

same('choices', q{SELECT llm_choose('Ticket: ' || prompt || E'\nTopic: ', '{delivery,payment,other}', model => 'talker') FROM docs ORDER BY id LIMIT 12});
same('how likely each is', q{SELECT label, round(prob::numeric, 4), round(logprob::numeric, 3) FROM docs,
	llm_choice_probs('Ticket: ' || prompt || E'\nTopic: ', '{delivery,payment at the door,other,größer 😀}', model => 'talker') WHERE id < 5 ORDER BY id, label});
same('a continuation', q{SELECT round(logprob::numeric, 3), tokens, is_greedy FROM docs, llm_loglikelihood(prompt, ' parcel is late', model => 'talker') WHERE id < 6 ORDER BY id});
same('a greedy one', qq{SELECT round(l.logprob::numeric, 3), l.tokens, l.is_greedy FROM docs, LATERAL llm_generate(prompt, $greedy, max_tokens => 4) g, LATERAL llm_loglikelihood(prompt, g, model => 'talker') l
	WHERE id < 6 AND g <> '' ORDER BY id});
same('perplexity', q{SELECT round(llm_perplexity(prompt, model => 'talker')::numeric, 2) FROM docs ORDER BY id LIMIT 8});
same('a filter', q{SELECT round(llm_filter_prob('It is a complaint.', prompt, model => 'talker', chat => false)::numeric, 4) FROM docs ORDER BY id LIMIT 8});

same('choices of a chat', q{SELECT llm_choose('Ticket: ' || prompt || E'\nTopic?', '{delivery,payment,other}', model => 'talker', chat => true) FROM docs ORDER BY id LIMIT 6});
same('how likely', q{SELECT label, round(prob::numeric, 4), round(logprob::numeric, 3) FROM docs,
	llm_choice_probs('Ticket: ' || prompt || E'\nTopic?', '{delivery,payment at the door}', model => 'talker', chat => true) WHERE id < 5 ORDER BY id, label});

# ---- chats ----

my $tools = q{'[{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {"id": {"type": "integer"}, "how": {"enum": ["fast", "slow"]}},
	"required": ["id", "how"], "additionalProperties": false}}}]'};
# an id depends on the whole prompt and on the function
same('a tool call', qq{SELECT c->'finish_reason', c->'content', c->'tool_calls'->0->'type', c->'tool_calls'->0->'function' FROM (SELECT llm_chat('[{"role": "user", "content": "Find 7."}]'::json,
	$greedy, max_tokens => 60, tools => $tools, tool_choice => '"required"') c) s});
same('in pieces', qq{SELECT string_agg(t.text, '' ORDER BY seq), max(finish_reason) FROM llm_chat_stream('[{"role": "user", "content": "Hello."}]'::json, $greedy, max_tokens => 20) t});
same('messages with parts', qq{SELECT llm_chat('[{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]'::json, $greedy, max_tokens => 8)});

# ---- vectors ----

same('a vector', q{SELECT llm_embed(prompt, model => 'vectors') FROM docs ORDER BY id LIMIT 40});
same('scores', q{SELECT llm_score('late parcel', prompt, model => 'pairs') FROM docs ORDER BY id LIMIT 20});
# an endpoint returns only the best label
same('probabilities', q{SELECT llm_classify_probs(prompt, model => 'classes')::numeric(6, 4)[] FROM docs ORDER BY id LIMIT 20});
same('labels', q{SELECT c.index, c.label, round(c.prob::numeric, 4) FROM docs, llm_classify(prompt, top => 1, model => 'classes') c ORDER BY id LIMIT 20});
same('the best label', q{SELECT llm_class(prompt, model => 'classes') FROM docs ORDER BY id LIMIT 20});

same('the best documents', q{SELECT r.index, r.document, round(r.relevance_score::numeric, 5) FROM llm_rerank('late parcel', (SELECT array_agg(prompt ORDER BY id) FROM docs WHERE id < 20), top_n => 5,
	model => 'pairs') r});
same('a vector of each token', q{SELECT llm_embed_multi(prompt, model => 'vectors') FROM docs ORDER BY id LIMIT 4});
same('a vector by its task', q{SELECT llm_encode(prompt, 'embed', model => 'vectors'), llm_encode(prompt, 'classify', model => 'classes') FROM docs ORDER BY id LIMIT 4});

# ---- what an endpoint doesn't support ----

for (['llm_beams', q{llm_beams('x', beam_width => 2, max_tokens => 4, model => 'talker')}], ['llm_token_classify', q{t FROM llm_token_classify('x', model => 'classes') t}],
	['llm_pin_prefix', q{llm_pin_prefix('x', model => 'talker')}])
{
	my ($rc, $out, $err) = $b->psql('postgres', "\\set VERBOSITY verbose\nSELECT $$_[1]");
	like($err, qr/ERROR:  0A000/, "$$_[0]: a clear no");
}

# ---- bodies ----

my $no_ids = q{(SELECT json_object_agg(k, v ORDER BY k) FROM json_each(r) x(k, v) WHERE k NOT IN ('id', 'created'))};
same('a chat as a body', qq{SELECT $no_ids FROM v1_chat_completions('{"model": "talker", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 8, "temperature": 0, "logprobs": true, "top_logprobs": 2}') r});
same('a completion as a body', qq{SELECT $no_ids FROM v1_completions('{"model": "talker", "prompt": "Hello", "max_tokens": 8, "temperature": 0}') r});
same('vectors as a body', qq{SELECT $no_ids FROM v1_embeddings('{"model": "vectors", "input": ["a", "b"]}') r});
same('a stream of bodies', q{SELECT string_agg(t::json->'choices'->0->'delta'->>'content', ''), count(*), max(t::json->>'model') FROM llm_api_stream('/v1/chat/completions',
	'{"model": "talker", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 12, "temperature": 0, "stream": true}'::json) t});
same('a message', qq{SELECT $no_ids FROM v1_messages('{"model": "talker", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 8, "temperature": 0}') r});
same('its stream', q{SELECT string_agg(t->'delta'->>'text', ''), string_agg(DISTINCT t->>'type', ' ' ORDER BY t->>'type') FROM v1_messages_stream('{"model": "talker",
	"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 8, "temperature": 0, "stream": true}') t});
same('an error as a body', q{SELECT r->'error'->>'code', r->'error'->>'type' FROM llm_api('/v1/chat/completions',
	'{"model": "talker", "messages": [{"role": "user", "content": "Hello."}], "temperature": -1}'::json, on_error => 'return') r});

$_->stop('fast') for $a, $b;
done_testing();
