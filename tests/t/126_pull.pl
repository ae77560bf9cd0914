# vllm_pg_pull against a local server that speaks the hub's API (tests/pull/test_pull.py has the cases), and
# what it prints, given to psql: the model answers.
use strict;
use warnings;
use Cwd qw(abs_path);
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $program = abs_path('client/vllm_pg_pull');
my ($out, $err) = ('', '');
IPC::Run::run([ 'python3', 'pull/test_pull.py', $program ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout(250));
is($err, '', 'no complaints');
my $cases = 0;
for (split /\n/, $out)
{
	my ($ok, $name) = /^(not ok|ok) (\w+)/ or next;
	$cases++;
	ok($ok eq 'ok', $name) or diag($_);
}
cmp_ok($cases, '>=', 40, 'all cases') or diag($out);
my ($installed) = grep { -x } map { "$ENV{VLLM_PG_LIBDIR}/$_/bin/vllm_pg_pull" } '..', '../..', '../../..' if defined $ENV{VLLM_PG_LIBDIR};
ok(defined $installed && slurp_file($installed) eq slurp_file($program), 'make install installs it beside PostgreSQL\'s programs');

# the bundled model's files and a split GGUF model come from the hub; a server creates them by the printed
# statements
my $node = PostgreSQL::Test::Cluster->new('pull');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '8MB'\nvllm.cpu_threads = 2\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
my $dir = abs_path($node->basedir) . '/models';
my ($stdin, $url) = ('', '');
my $hub = IPC::Run::start([ 'python3', 'pull/hub.py', 'org/Tickets=models/tickets-2m', 'org/Parts-GGUF=fixtures/models/phi3_f16_gguf_split' ],
	'<', \$stdin, '>', \$url, '2>', \$err, IPC::Run::timeout(60));
$hub->pump until $url =~ /\n/;
chomp($ENV{HF_ENDPOINT} = $url);
for my $model ('hf:org/Tickets', 'org/Parts-GGUF')
{
	my ($sql, $said) = ('', '');
	ok(IPC::Run::run([ $program, $model, '--dir', $dir, '--keep-free', '0' ], '<', '/dev/null', '>', \$sql, '2>', \$said), "$model is downloaded") or diag($said);
	$node->safe_psql('postgres', $sql);
}
is($node->safe_psql('postgres', "SELECT count(*) FROM llm_models WHERE path LIKE '$dir/%'"), 2, 'psql takes the statements');
like(
	$node->safe_psql('postgres', qq{
	SELECT m ->> 'supported', m ->> 'dtype', (m -> 'memory' ->> 'weight_bytes')::bigint > 0, (m -> 'memory' ->> 'kv_bytes_per_token')::bigint > 0,
		pg_size_pretty((m -> 'memory' ->> 'kv_cache_bytes')::bigint) FROM llm_inspect_model('$dir/Tickets', '{"quantization": "q8_0"}') m}),
	qr/^true\|Q8_0\|t\|t\|\d+ kB\z/,
	'llm_inspect_model has the memory that docs/howto/get-a-model.md asks for');
is($node->safe_psql('postgres', q{SELECT llm_generate('Ticket: it works', model => 'tickets') = llm_generate('Ticket: it works')}), 't', 'the model answers as the bundled one');
$hub->kill_kill;

my (undef, undef, $error) = $node->psql('postgres', q{SELECT llm_create_model('qwen', 'Qwen/Qwen3-4B')});
like($error, qr{HINT:  Run "vllm_pg_pull hf:Qwen/Qwen3-4B" on the database server}, 'a name in place of a path');
$node->stop('fast');
done_testing();
