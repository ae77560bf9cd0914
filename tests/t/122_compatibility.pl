# The view llm_compatibility says which features go together: each pair is tried, on the bundled model, and
# a refused pair is refused with the error of an unsupported feature, or of an invalid value.
use strict;
use warnings;
use Cwd qw(abs_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('compatibility');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf',
	"vllm.kv_cache_memory_bytes = '8MB'\nvllm.cpu_threads = 2\nvllm.enable_prompt_embeds = on\nvllm.max_models = 128\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', $_[0]); }

my $adapter = abs_path($node->basedir) . '/adapter';
make_adapter($adapter);
my $path = sql(q{SELECT path FROM llm_models WHERE name = 'tickets-2m'});

# How a call uses a feature: an option of the model, a member of params, an argument, a setting of the
# server, or a function of its own.
my %how = (
	'prefix caching' => { option => '"enable_prefix_caching": true' },
	'chunked prefill' => { option => '"max_num_batched_tokens": 32' },
	'speculative decoding' => { option => '"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}' },
	'quantization on loading' => { option => '"quantization": "q8_0"' },
	'FP8 KV cache' => { option => '"kv_cache_dtype": "fp8"' },
	'LoRA' => { adapter => 1 },
	'structured output' => { param => '"regex": "[a-c]{2,4}"' },
	'logprobs' => { param => '"logprobs": 2' },
	'prompt logprobs' => { param => '"prompt_logprobs": 1' },
	'parallel sampling' => { param => '"n": 2, "temperature": 0.7, "seed": 1' },
	'beam search' => { call => 'SELECT count(*) FROM llm_beam_search(%s, 2, max_tokens => 4, model => %s, params => %s)' },
	'streaming' => { call => 'SELECT count(*) FROM llm_generate_stream(%s, max_tokens => 4, model => %s, params => %s)' },
	'prompt embeddings' => { call => 'SELECT llm_embeds_output(llm_token_embeddings(%1$s, model => %2$s), max_tokens => 4, model => %2$s, params => %3$s)' },
	'embeddings' => { call => 'SELECT llm_embed(%s, model => %s, params => %s)' },
	'KV cache offloading' => { setting => [ 'kv_offload_bytes', '4MB', 0 ] },
	'tensor parallelism' => { setting => [ 'tensor_parallel_size', 2, 1 ] },
	'pipeline parallelism' => { setting => [ 'pipeline_parallel_size', 2, 1 ] },
	'data parallelism' => { setting => [ 'data_parallel_size', 2, 1 ] },
);
my $prompt = q{repeat('Ticket: the kettle arrived broken. ', 6)};

my %model;		# of these options, of an adapter of it
sub model
{
	my ($options, $adapted) = @_;
	if (!exists $model{$options})
	{
		$model{$options} = 'm' . scalar(keys %model);
		sql(qq{SELECT llm_create_model('$model{$options}', '$path', options => '{$options}')});
		sql(qq{SELECT llm_create_lora('$model{$options}_a', '$model{$options}', '$adapter')});
	}
	return $model{$options} . ($adapted ? '_a' : '');
}

# Return the statement that uses both; undef: there is no such call.
sub statement
{
	my @two = map { $how{$_} } @_;
	my @calls = map { $_->{call} // () } @two;
	return undef if @calls == 2;
	my $call = $calls[0] // 'SELECT (llm_output(%s, max_tokens => 4, model => %s, params => %s)).finished';
	my $options = join(', ', map { $_->{option} // () } @two);
	my $params = join(', ', map { $_->{param} // () } @two);
	return sprintf($call, $prompt, "'" . model($options, scalar(grep { $_->{adapter} } @two)) . "'", "'{$params}'");
}

my @settings = grep { exists $how{$_}{setting} } sort keys %how;
my @others = grep { !exists $how{$_}{setting} } sort keys %how;

is(sql(q{SELECT string_agg(feature, ',' ORDER BY feature COLLATE "C") FROM (SELECT DISTINCT feature FROM llm_compatibility) f}), join(',', sort keys %how), 'the features');
is(sql(q{SELECT count(*) FROM llm_compatibility a WHERE NOT EXISTS (SELECT FROM llm_compatibility b WHERE (b.feature, b.other, b.supported) = (a.other, a.feature, a.supported))}),
	0, 'both ways');

sub try_two
{
	my ($a, $b) = @_;
	my $said = sql(qq{SELECT supported FROM llm_compatibility WHERE feature = '$a' AND other = '$b'});
	my $statement = statement($a, $b);
	my ($rc, $out, $err) = defined $statement ? $node->psql('postgres', "\\set VERBOSITY verbose\nSET client_min_messages = warning;\n$statement") : (3, '', 'ERROR:  0A000: there is no call');
	is($said, $err eq '' ? 't' : 'f', "$a, $b" . ($err eq '' ? '' : ": $err"));
	like($err, qr/ERROR:  (0A000|22023|42883):/, "$a, $b: refused") if $err ne '';
	return;
}
for my $i (0 .. $#others)
{
	try_two($others[$i], $_) for @others[ $i + 1 .. $#others ];
}
for my $i (0 .. $#settings)
{
	my ($name, $value, $off) = @{ $how{ $settings[$i] }{setting} };
	restart_with($node, $name => $value);
	try_two($settings[$i], $_) for @others;
	# each needs a restart
	for my $other (($ENV{TEST_EFFORT} // 1) >= 3 ? @settings[ $i + 1 .. $#settings ] : ())
	{
		my ($second, $two, $none) = @{ $how{$other}{setting} };
		restart_with($node, $second => $two);
		try_two($settings[$i], $other);
		$node->safe_psql('postgres', "ALTER SYSTEM SET vllm.$second = '$none'");
	}
	$node->safe_psql('postgres', "ALTER SYSTEM SET vllm.$name = '$off'");
}
done_testing();
