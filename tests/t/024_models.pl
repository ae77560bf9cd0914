# Tiny models of several kinds in the real engine, through SQL:
#
# - a mixture of experts and one with latent attention, with a KV cache so small that
#   requests are preempted: many sessions and a statement of many rows get the tokens that
#   each prompt gets alone;
# - option rope_scaling: texts longer than the model's positions get transformers' tokens
#   (fixtures/rope_option.json);
# - a split GGUF model: the tokens of the whole file.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use File::Path qw(remove_tree);
use FindBin;
use JSON::PP;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $json = JSON::PP->new->canonical;
my $fixtures = getcwd() . '/fixtures';
my $top = PostgreSQL::Test::Utils::tempdir_short();

# A fixture's directory that the server's user can read.
sub model_copy
{
	my ($fixture) = @_;
	my $dir = "$top/$fixture";
	mkdir $dir or die;
	for my $f (glob "$fixtures/models/$fixture/*")
	{
		copy($f, $dir) or die "$f: $!";
	}
	return $dir;
}

my $node = PostgreSQL::Test::Cluster->new('models');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nfsync = off\nstatement_timeout = '180s'\nvllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION vllm_pg;
	CREATE TABLE texts AS SELECT id, (SELECT string_agg(chr(97 + (id * 7 + g * (id + 3)) % 26), ' ') FROM generate_series(1, 4 + id % 9) g) AS prompt
	FROM generate_series(1, 24) id});

# ---- preemption ----

my $ask = q{(llm_generate_full(prompt, model => '%s', temperature => 0, max_tokens => 80, ignore_eos => true)).token_ids};

for my $m ([ 'experts', 'qwen3_moe_f16' ], [ 'latent', 'deepseek3_f16' ])
{
	my ($name, $fixture) = @$m;
	my $dir = model_copy($fixture);
	my $call = sprintf($ask, $name);
	my $counters = "SELECT preemptions FROM llm_stat_model WHERE name = '$name'";

	$node->safe_psql('postgres', qq{
		SELECT llm_create_model('$name', '$dir', options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 128}');
		SELECT llm_load_model('$name')});
	# one after the other: without the batch node each call waits for the previous one
	$node->safe_psql('postgres', qq{
		SET vllm.batch = off;
		CREATE TABLE alone_$name AS SELECT id, prompt, $call AS ids FROM texts});
	is($node->safe_psql('postgres', $counters), '0', "$name: alone nothing is preempted");
	is($node->safe_psql('postgres', "SELECT count(DISTINCT ids) > 12 AND min(cardinality(ids)) = 80 FROM alone_$name"), 't', "$name: different answers of 80 tokens");
	my $bad = "SELECT count(*) FROM (SELECT ids, $call AS got FROM alone_$name, generate_series(1, %d) g ORDER BY md5(id::text || g || '%d')) s WHERE got IS DISTINCT FROM ids";
	my ($wrong, $n) = (0, 0);
	# how many requests meet in the engine depends on the machine: repeat if none was preempted
	for my $round (1 .. 8)
	{
		my @h = map { bg($node, sprintf($bad, 1, $_)) } 1 .. 12;
		push @h, bg($node, sprintf($bad, 8, 99));
		for my $h (@h)
		{
			my ($out, $err) = finish($h);
			$wrong++ unless $out eq '0';
			diag($err) if $err ne '';
		}
		$n = $node->safe_psql('postgres', $counters);
		last if $n > 0;
	}
	is($wrong, 0, "$name: 12 sessions and a statement of 192 rows get the tokens that each prompt got alone");
	cmp_ok($n, '>', 0, "$name: requests were preempted");
	figure('%s: %d preemptions', $name, $n);
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT ids, $call AS got FROM alone_$name) s WHERE got IS DISTINCT FROM ids"), '0', "$name: and afterwards");
	is(left_behind($node), '0|0|0|0|0|0', "$name: nothing is left");
	$node->safe_psql('postgres', qq{SELECT llm_drop_model('$name')});
}

# ---- option rope_scaling ----

my $ref = $json->decode(slurp_file("$fixtures/rope_option.json"));
my $dir = model_copy($ref->{model});
my $config = $json->decode(slurp_file("$dir/config.json"));
$config->{max_position_embeddings} = $ref->{max_position_embeddings};
$config->{rope_parameters} = { rope_type => 'default', rope_theta => $ref->{rope_theta} };
open(my $f, '>', "$dir/config.json") or die;
print $f $json->encode($config);
close($f);
$node->safe_psql('postgres', qq{SELECT llm_create_model('short', '$dir')});
for my $r (@{ $ref->{rows} })
{
	my $name = $r->{name};
	my $options = $json->encode({ rope_scaling => $r->{rope_scaling}, max_model_len => 128 });
	my $ids = '{' . join(',', @{ $r->{token_ids} }) . '}';
	my $call = qq{llm_generate_full('$r->{prompt}', model => '%s', temperature => 0, max_tokens => 40, ignore_eos => true)};

	$node->safe_psql('postgres', qq{SELECT llm_create_model('$name', '$dir', options => '$options')});
	my ($rc, $out, $err) = $node->psql('postgres', sprintf("\\set VERBOSITY verbose\nSELECT $call", 'short'));
	like($err, qr/ERROR:  54000/, "$name: a text of $r->{prompt_tokens} tokens is too long without the option");
	is($node->safe_psql('postgres', sprintf("SELECT (r.usage).prompt_tokens, r.token_ids FROM $call r", $name)), "$r->{prompt_tokens}|$ids",
		"$name: with it it gets transformers' tokens");
	($rc, $out, $err) = $node->psql('postgres', sprintf(qq{\\set VERBOSITY verbose\nSELECT llm_create_model('longer', '$dir', options => '%s')},
			$json->encode({ rope_scaling => $r->{rope_scaling}, max_model_len => 129 })));
	like($err, qr/ERROR:  22023: .*max_model_len/, "$name: more than the scaling gives is an error");
}

# ---- a split GGUF model ----

copy("$fixtures/models/phi3_f16_f16_gguf.gguf", "$top/whole.gguf") or die;
my $parts = model_copy('phi3_f16_gguf_split');
my @files = sort glob "$parts/*.gguf";
is(scalar @files, 3, 'three parts');
my $weights = q{SELECT llm_inspect_model('%s')::jsonb #> '{weights}'};
my $whole = $node->safe_psql('postgres', sprintf($weights, "$top/whole.gguf"));
is($node->safe_psql('postgres', sprintf($weights, $_)), $whole, "llm_inspect_model shows the tensors of all parts by $_") for $files[0], $parts;
rename($files[1], "$files[1].away") or die;
$node->safe_psql('postgres', qq{SELECT llm_create_model('whole', '$top/whole.gguf')});
my ($rc, $out, $err) = $node->psql('postgres', qq{\\set VERBOSITY verbose\nSELECT llm_create_model('parts', '$files[0]')});
like($err, qr/ERROR:  58030: could not open file "\Q$files[1]\E": No such file.*DETAIL:  It is part 2 of 3 of the model/s, 'a missing part is named');
rename("$files[1].away", $files[1]) or die;
($rc, $out, $err) = $node->psql('postgres', qq{\\set VERBOSITY verbose\nSELECT llm_create_model('parts', '$files[2]')});
like($err, qr/ERROR:  XX001: .*is part 3 of 3.*HINT:  Give the path of the first part, "\Q$files[0]\E"/s, 'another part than the first is refused');
$node->safe_psql('postgres', qq{SELECT llm_create_model('parts', '$files[0]'); SELECT llm_create_model('directory', '$parts')});
my $all = join(' UNION ALL ', map { "SELECT id, " . sprintf($ask, $_) . " AS ids FROM texts WHERE id <= 4" } 'whole', 'parts', 'directory');
is($node->safe_psql('postgres', "SELECT count(*), count(DISTINCT (id, ids)) FROM ($all) s"), '12|4', 'the parts give the tokens of the whole');

is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop;
remove_tree($top);
done_testing();
