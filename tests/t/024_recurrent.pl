# Models with recurrent state, through SQL: a hybrid, whose requests have a slot of state and KV blocks, and
# one with nothing but state.
#
# With very little KV memory many sessions compete: requests wait for slots, are preempted when blocks run
# out, so that their state is computed anew, and some are cancelled.  Every output must equal the one that
# the same prompt gets alone, and nothing may be left.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('recurrent');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nfsync = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
$node->safe_psql('postgres', q{
	CREATE TABLE prompts AS SELECT id, left(repeat(md5(id::text) || ' ', 5), 20 + 9 * id) AS prompt FROM generate_series(1, 14) id});

# bytes for both: a few slots, and blocks for fewer requests than that
my %memory = (granite4_f16 => 65536, jamba_f16 => 163840, falcon_h1_f16 => 163840, mamba_f16 => 65536);

for my $fixture (sort keys %memory)
{
	# where the server's user can read it
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	copy(getcwd() . "/fixtures/models/$fixture/$_", "$dir/$_") or die "$_: $!"
	  for ('config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json');
	my $hybrid = $fixture !~ /^mamba/;
	$node->safe_psql('postgres', "SELECT llm_create_model('m', '$dir',
		options => '{\"kv_cache_memory_bytes\": $memory{$fixture}, \"kv_cache_dtype\": \"float32\"}')");
	my $call = "llm_generate(prompt, model => 'm', max_tokens => 60, temperature => 0, ignore_eos => true)";
	$node->safe_psql('postgres', "SET vllm.batch = off; CREATE TABLE alone AS SELECT id, prompt, $call AS answer FROM prompts");
	my $stat = q{SELECT preemptions FROM llm_stat_model WHERE name = 'm'};
	is($node->safe_psql('postgres', $stat), 0, "$fixture: alone, nobody is preempted");

	# all prompts differ
	my $endless = "SELECT $call FROM (SELECT prompt || g AS prompt FROM prompts, generate_series(1, 99) g ORDER BY g, id) s";
	my @h = map { bg($node, "SELECT count(*) FILTER (WHERE $call IS DISTINCT FROM answer) FROM (SELECT * FROM alone ORDER BY md5(id || '$_')) s") } 1 .. 8;
	# cancelled in their prompt, in a queue or during their output
	my @c = map { bg($node, "SET statement_timeout = " . 15 * $_, $endless) } 1 .. 8;
	finish($_) for @c;
	is(join(' ', map { my ($out, $err) = finish($_); $out . $err } @h), join(' ', (0) x 8),
		"$fixture: every answer equals the one given alone");
	is(scalar(grep { $_->{err} =~ /57014/ } @c), 8, "$fixture: the others were cancelled");
	if ($hybrid)
	{
		cmp_ok($node->safe_psql('postgres', $stat), '>', 0, "$fixture: some were preempted");
	}
	else
	{
		is($node->safe_psql('postgres', $stat), 0, "$fixture: without KV nobody is ever preempted");
	}
	is(left_behind($node), '0|0|0|0|0|0', "$fixture: nothing is left");
	is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', "$fixture: the engine finds its books in order");
	is($node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE $call IS DISTINCT FROM answer) FROM alone"), 0,
		"$fixture: and goes on as before");
	$node->safe_psql('postgres', $_) for (q{SELECT llm_drop_model('m')}, 'DROP TABLE alone');
}
like(slurp_file($node->logfile),
	qr/requests run at once instead of \d+: their state takes \d+ bytes each/, 'the log says how many run at once');
$node->stop;
done_testing();
