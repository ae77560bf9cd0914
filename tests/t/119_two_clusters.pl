# Two clusters: one with the engine and the HTTP server, one without an engine, with remote models at the
# first one.  The same functions, the same results; limits, errors and cancels are passed on; nothing is
# left in either.
use strict;
use warnings;
use Cwd qw(getcwd);
use FindBin;
use lib $FindBin::RealBin;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";
plan skip_all => 'vllm_pg_http was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $url = "http://127.0.0.1:$port/v1";
my $fixtures = getcwd() . '/fixtures/pool';
my $a = new_node('with', "vllm.engine_args = ''\nvllm.http_host = '127.0.0.1'\nvllm.http_port = $port\nvllm.http_max_connections = 40\nvllm.kv_cache_memory_bytes = '64MB'\n");
my $b = new_node('without', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1'\n");

$a->safe_psql('postgres', qq{
	CREATE ROLE vllm_http LOGIN NOINHERIT;
	CREATE ROLE app;
	GRANT app TO vllm_http;
	SELECT llm_create_model('caller', path, json_build_object('tool_call_parser', 'hermes', 'chat_template', \$\$
{%- if tools %}{{ tools|tojson }} {% endif %}{% for m in messages %}{{ m.role }}: {{ m.content or '' }}{% for c in m.tool_calls or [] %} {{ c.function|tojson }}{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}\$\$)) FROM llm_models WHERE name = 'tickets-2m';
	SELECT llm_create_model('vectors', '$fixtures/bert_embed'), llm_create_model('pairs', '$fixtures/bert_score');
	SELECT llm_grant(m, 'app') FROM unnest(ARRAY['caller', 'vectors', 'pairs']) m});
my $key = $a->safe_psql('postgres', q{SELECT llm_create_api_key('app', 'app')});
ok(until_true(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }), 'the HTTP server listens');

my $docs = slurp_file('models/docs_sample.sql');
$_->safe_psql('postgres', $docs . q{;
CREATE TYPE topic AS ENUM ('parcel', 'refund'); CREATE TYPE ticket AS (topic topic, urgent bool)}) for $a, $b;
$b->safe_psql('postgres', qq{
	SELECT llm_create_model(m, provider => 'openai', url => '$url', options => '{"dialect": "vllm", "max_retries": 0}') FROM unnest(ARRAY['caller', 'vectors', 'pairs']) m;
	SELECT llm_create_model('tickets', provider => 'openai', url => '$url', options => '{"dialect": "vllm", "model": "tickets-2m", "max_concurrent_requests": 16}'),
		llm_create_model('once', provider => 'openai', url => '$url', options => '{"dialect": "vllm", "model": "tickets-2m", "max_retries": 0}')});

# ---- authentication ----

my ($rc, $out, $err) = $b->psql('postgres', q{\set VERBOSITY verbose
	SELECT llm_generate('x', model => 'tickets')});
like($err, qr/28000.*HINT:.*llm_set_secret/s, 'without a key the endpoint refuses, and the hint says what to do');
$b->safe_psql('postgres', "SELECT llm_set_secret(m, '$key') FROM unnest(ARRAY['tickets', 'once', 'caller', 'vectors', 'pairs']) m");

# ---- the same results ----

# Run a query with the model's name in either cluster.
sub same
{
	my ($name, $sql, %rename) = @_;
	my $there = $sql;
	$there =~ s/\b$_\b/$rename{$_}/g for keys %rename;
	my $want = $a->safe_psql('postgres', $there);
	my ($rc, $got, $err) = $b->psql('postgres', $sql);
	is($got, $want, $name) or diag($err);
	isnt($want, '', "$name: something") ;
}
my %tickets = (tickets => 'tickets-2m');

same('64 rows of llm_generate', q{SELECT id, llm_generate(prompt, model => 'tickets', max_tokens => 20, temperature => 0) FROM docs ORDER BY id}, %tickets);
same('with a seed', q{SELECT id, llm_generate(prompt, model => 'tickets', max_tokens => 12, temperature => 0.9, top_p => 0.9, top_k => 40, seed => 7) FROM docs ORDER BY id LIMIT 16}, %tickets);
same('stop, penalties, min_tokens', q{SELECT llm_generate(prompt, model => 'tickets', max_tokens => 24, temperature => 0, stop => ARRAY['.'], repetition_penalty => 1.1, presence_penalty => 0.2,
	min_tokens => 3) FROM docs ORDER BY id LIMIT 8}, %tickets);
same('figures', q{SELECT (r).text, (r).finish_reason, ((r).usage).prompt_tokens, ((r).usage).completion_tokens FROM (SELECT llm_generate_full(prompt, model => 'tickets',
	max_tokens => 9, temperature => 0) r FROM docs ORDER BY id LIMIT 5) s}, %tickets);
same('a chat', q{SELECT llm_chat('[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is my parcel?"}]'::json, model => 'caller', max_tokens => 16, temperature => 0)});
same('llm_ask', q{SELECT llm_ask('Where is my parcel?', model => 'caller', max_tokens => 16, temperature => 0)});
same('JSON by a schema', q{SELECT llm_generate_json('Ticket: my parcel is late. JSON: ', schema => '{"type": "object", "properties": {"topic": {"enum": ["parcel", "refund"]}, "urgent": {"type": "boolean"}},
	"required": ["topic", "urgent"], "additionalProperties": false}', model => 'tickets', max_tokens => 40, temperature => 0)}, %tickets);
# none of them gives max_tokens, and no option gives the context length: the endpoint reports it
same('JSON without max_tokens', q{SELECT llm_generate_json('Ticket: my parcel is late. JSON: ', schema => '{"type": "object", "properties": {"topic": {"enum": ["parcel", "refund"]}, "urgent": {"type": "boolean"}},
	"required": ["topic", "urgent"], "additionalProperties": false}', model => 'tickets', temperature => 0)}, %tickets);
same('a row type without max_tokens', q{SELECT llm_generate_as('Ticket: my parcel is late. JSON: ', NULL::ticket, model => 'tickets', temperature => 0)}, %tickets);
same('a stream', q{SELECT string_agg(t.text, '') FROM llm_generate_stream('Hello, my parcel', model => 'tickets', max_tokens => 16, temperature => 0) t}, %tickets);
same('token counts', q{SELECT llm_count_tokens(prompt, model => 'tickets') FROM docs ORDER BY id}, %tickets);
same('token ids, there and back', q{SELECT llm_tokenize('my parcel is late', model => 'tickets'), llm_detokenize(llm_tokenize('my parcel is late', model => 'tickets'), model => 'tickets')}, %tickets);
same('embeddings', q{SELECT id, llm_embed(prompt, model => 'vectors') FROM docs ORDER BY id});
same('scores', q{SELECT id, llm_score('late parcel', prompt, model => 'pairs') FROM docs ORDER BY id LIMIT 12});

# ---- errors are those of the other cluster ----

($rc, $out, $err) = $b->psql('postgres', q{\set VERBOSITY verbose
	SELECT llm_generate('x', model => 'tickets', temperature => -1)});
like($err, qr/22023/, 'a bad parameter');
($rc, $out, $err) = $b->psql('postgres', q{\set VERBOSITY verbose
	SELECT llm_generate(repeat('word ', 100000), model => 'tickets')});
like($err, qr/54000|22023/, 'a prompt that is too long there');
$a->safe_psql('postgres', "SELECT llm_revoke('caller', 'app')");
($rc, $out, $err) = $b->psql('postgres', q{\set VERBOSITY verbose
	SELECT llm_ask('x', model => 'caller')});
like($err, qr/42501|42704/, 'a model that the key may not use');
unlike($err, qr/\Q$key\E/, 'no error tells the key');

# ---- many rows, a cancel, a crashed engine at the endpoint ----

is($b->safe_psql('postgres', q{SELECT count(DISTINCT answer), count(*) FROM (SELECT llm_generate(prompt, model => 'tickets', max_tokens => 20, temperature => 0) AS answer FROM docs, generate_series(1, 8)) s}),
	$a->safe_psql('postgres', q{SELECT count(DISTINCT answer), count(*) FROM (SELECT llm_generate(prompt, model => 'tickets-2m', max_tokens => 20, temperature => 0) AS answer FROM docs, generate_series(1, 8)) s}),
	'512 rows');
my $long = q{SELECT llm_generate(prompt, model => 'tickets', max_tokens => 200, ignore_eos => true) FROM docs, generate_series(1, 20)};
my $h = bg($b, "SET statement_timeout = '700ms'; $long");
($out, $err) = finish($h);
like($err, qr/57014/, 'statement_timeout ends a statement of 1,280 requests');
cmp_ok($h->{took}, '<', 10, 'soon');
is(left_behind($a), '0|0|0|0|0|0', 'and the requests there');
(my $once = $long) =~ s/'tickets'/'once'/;
$h = bg($b, $once);
ok(until_sql($b, q{SELECT count(*) > 4 FROM llm_requests}), 'requests are under way');
kill 9, engine_pid($a);
($out, $err) = finish($h);
like($err, qr/(57P03|08006|58000|08P01)/, 'the engine there is killed: an error, no wrong row') or diag($err);
ok(until_ready($a), 'it comes back');
my $any = q{SELECT llm_generate_as('Ticket: my parcel is late. JSON: ', NULL::ticket, model => 'MODEL', temperature => 0)};
is($b->safe_psql('postgres', $any =~ s/MODEL/once/r), $a->safe_psql('postgres', $any =~ s/MODEL/tickets-2m/r), 'without max_tokens of a model that is not loaded there yet');
same('and answers again', q{SELECT llm_generate('Hello', model => 'tickets', max_tokens => 5, temperature => 0)}, %tickets);

is(left_behind($a), '0|0|0|0|0|0', 'nothing is left in the cluster with the engine');
ok(until_sql($b, 'SELECT count(*) = 0 FROM llm_requests'), 'nor in the one without');
unlike(slurp_file($b->logfile), qr/\Q$key\E/, 'the log does not tell the key');
$_->stop('fast') for $a, $b;
done_testing();
