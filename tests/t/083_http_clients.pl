# The Python packages `openai` and `anthropic` against the HTTP server and the bundled model
# (tests/clients/http_clients.py has the cases).
use strict;
use warnings;
use IO::Socket::INET;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my ($script) = grep { -f } ('clients/http_clients.py', $ENV{TESTDATADIR} ? "$ENV{TESTDATADIR}/../work/clients/http_clients.py" : (), 'tests/clients/http_clients.py');
plan skip_all => 'vllm_pg_http was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";
$ENV{PYTHONPATH} = $ENV{VLLM_PG_CLIENTS} // '';
plan skip_all => 'no packages openai and anthropic here' if system('python3 -c "import openai, anthropic" >/dev/null 2>&1') != 0;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $node = new_node('http_clients', "vllm.engine_args = ''\nvllm.http_host = '127.0.0.1'\n");
$node->safe_psql('postgres', q{
	CREATE ROLE vllm_http LOGIN NOINHERIT;
	CREATE ROLE app;
	GRANT app TO vllm_http;
	SELECT llm_create_model('private', path) FROM llm_models WHERE name = 'tickets-2m';
	-- the bundled model's own template refuses tools
	SELECT llm_create_model('caller', path, json_build_object('tool_call_parser', 'hermes', 'chat_template', $$
{%- if tools %}{{ tools|tojson }} {% endif %}{% for m in messages %}{{ m.role }}: {{ m.content or '' }}{% for c in m.tool_calls or [] %} {{ c.function|tojson }}{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}$$)) FROM llm_models WHERE name = 'tickets-2m';
	SELECT llm_create_model('thinker', path, '{"reasoning_parser": "deepseek_r1"}') FROM llm_models WHERE name = 'tickets-2m';
	SELECT llm_grant('caller', 'app'), llm_grant('thinker', 'app')});
my $key = $node->safe_psql('postgres', q{SELECT llm_create_api_key('app', 'app')});
$node->append_conf('postgresql.conf', "vllm.http_port = $port\n");
$node->reload;
ok(until_true(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }), 'the server listens');

my ($out, $err) = ('', '');
IPC::Run::run([ 'python3', $script, "http://127.0.0.1:$port", $key, 'private', 'caller', 'thinker' ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout(300));
is($err, '', 'no complaints');
for (split /\n/, $out)
{
	my ($ok, $name) = /^(not ok|ok) (\w+)/ or next;
	ok($ok eq 'ok', $name) or diag($_);
}
cmp_ok(scalar(() = $out =~ /^ok /mg), '>=', 29, 'all cases ran');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
$node->stop('fast');
done_testing();
