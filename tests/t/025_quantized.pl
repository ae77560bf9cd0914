# Quantized models of every method, through SQL: the types that llm_inspect_model and llm_models report, and
# that the models generate.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $fixtures = getcwd() . '/fixtures/models';
my $top = PostgreSQL::Test::Utils::tempdir_short();

# A copy that the server's user can read.
sub model
{
	my ($name) = @_;
	return copied("$fixtures/$name.gguf", "$top/$name.gguf") if -f "$fixtures/$name.gguf";
	mkdir "$top/$name" or die;
	copied($_, "$top/$name/" . (split /\//)[-1]) for glob("$fixtures/$name/*");
	return "$top/$name";
}

sub copied
{
	my ($from, $to) = @_;
	copy($from, $to) or die "$from: $!";
	return $to;
}

my $node = PostgreSQL::Test::Cluster->new('quantized');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '4MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

my @models = (
	[ 'quant_gptq', 'Q8_0', 'gptq' ], [ 'quant_gptq_3bit', 'Q4_0', 'gptq' ], [ 'quant_marlin', 'Q4_0', 'gptq' ],
	[ 'quant_awq', 'Q4_1', 'awq' ], [ 'quant_ct_w4a16', 'Q4_0', 'compressed-tensors' ],
	[ 'quant_ct_w8a8', 'INT8', 'compressed-tensors' ], [ 'quant_fp8', 'BF16', 'fp8' ], [ 'quant_nf4', 'NF4', 'bitsandbytes' ],
	[ 'gpt_oss_mxfp4', 'MXFP4', 'mxfp4' ], [ 'quant_nvfp4', 'NVFP4', 'modelopt' ], [ 'quant_quark', 'MXFP4', 'quark' ],
	[ 'quant_torchao', 'Q8_0', 'torchao' ], [ 'quant_hqq', 'Q4_1', 'hqq' ], [ 'quant_nvfp4_gguf', 'NVFP4', undef ],
	[ 'tool_autoround_mxfp4', 'MXFP4', 'auto-round' ], [ 'tool_autoround_fp8', 'FP8', 'auto-round' ],
	[ 'tool_modelopt_int8', 'INT8', 'modelopt' ], [ 'tool_modelopt_w8a16', 'Q8_0', 'modelopt' ],
);
my %path = map { $_->[0] => model($_->[0]) } @models;

# AutoRound has the formats of other methods, and names them
$path{autoround} = "$top/autoround";
mkdir $path{autoround} or die;
copied($_, "$path{autoround}/" . (split /\//)[-1]) for glob("$fixtures/quant_awq/*");
PostgreSQL::Test::Utils::append_to_file("$path{autoround}/quant_config.json.new",
	'{"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": false, "packing_format": "auto_round:auto_awq", "autoround_version": "0.5", "iters": 200, "provider": null, "low_gpu_mem_usage": true}');
rename "$path{autoround}/quant_config.json.new", "$path{autoround}/quant_config.json" or die;
push @models, [ 'autoround', 'Q4_1', 'auto-round' ];

my (undef, undef, $told) = $node->psql('postgres', "SELECT llm_create_model('told', '$path{autoround}')");
like($told, qr/NOTICE:  keys of "quantization_config" that only describe the quantization tool are ignored: autoround_version, iters, low_gpu_mem_usage\n?$/,
	'keys that say nothing of the weights are told');
(undef, undef, $told) = $node->psql('postgres', "SELECT llm_drop_model('told'), llm_create_model('told', '$path{quant_gptq}'), llm_drop_model('told')");
is($told, '', 'no keys, no notice');

for (@models)
{
	my ($name, $dtype, $method) = @$_;
	my $says = defined $method ? "$dtype ($method)" : $dtype;
	is($node->safe_psql('postgres', "SELECT j ->> 'supported', j ->> 'dtype', j ->> 'quantization' FROM llm_inspect_model('$path{$name}') j"),
		"true|$dtype|" . ($method // ''), "$name: llm_inspect_model");
	$node->safe_psql('postgres', "SELECT llm_create_model('$name', '$path{$name}', options => '{\"max_model_len\": 64}')");
	is($node->safe_psql('postgres', "SELECT length(llm_generate('Hello', model => '$name', max_tokens => 8, temperature => 0, ignore_eos => true)) > 0"),
		't', "$name: answers");
	is($node->safe_psql('postgres', "SELECT dtype, error FROM llm_models WHERE name = '$name'"), "$says|", "$name: llm_models");
	is($node->safe_psql('postgres', "SELECT count(*) > 0 FROM llm_quantization_support WHERE method = '" . ($method // 'gguf') . "' AND '$dtype' = ANY (cpu)"),
		't', "$name: llm_quantization_support");
	$node->safe_psql('postgres', "SELECT llm_drop_model('$name')");
}

# FP8 with a scale for each block, of which the first becomes the matrix's: it stays FP8, as BF16 it takes
# twice the memory
my $fp8 = "$top/fp8";
mkdir $fp8 or die;
for my $file (glob "$fixtures/quant_fp8/*")
{
	my $text = slurp_file($file);
	$text =~ s/"weight_block_size":\s*\[[^]]*\],?\s*// if $file =~ /\/config.json$/;
	if ($file =~ /safetensors$/)
	{
		my $n = unpack('Q<', $text);
		my $head = substr($text, 8, $n);
		# without gaps: the other scales become another, unused tensor
		$head =~ s/"([^"]*)\.weight_scale_inv":\{"dtype":"F32","shape":\[[^]]*\],"data_offsets":\[(\d+),(\d+)\]/
			sprintf('"%s.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]},"%s.input_scale":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]',
				$1, $2, $2 + 4, $1, ($3 - $2) \/ 4 - 1, $2 + 4, $3)/ge;
		$text = pack('Q<', length($head)) . $head . substr($text, 8 + $n);
	}
	PostgreSQL::Test::Utils::append_to_file("$fp8/" . ($file =~ s/.*\///r), $text);
}
my %bytes;
for (['fp8', '', 'FP8 (fp8)'], ['q8', ', "quantization": "q8_0"', 'Q8_0 (fp8)'], ['bf16', ', "dtype": "bfloat16"', 'BF16 (fp8)'])
{
	my ($name, $option, $says) = @$_;
	$node->safe_psql('postgres', "SELECT llm_create_model('$name', '$fp8', options => '{\"max_model_len\": 64$option}')");
	is($node->safe_psql('postgres', "SELECT length(llm_generate('Hello', model => '$name', max_tokens => 8, temperature => 0, ignore_eos => true)) > 0"),
		't', "FP8 as $name: answers");
	(my $dtype, $bytes{$name}) = split /\|/, $node->safe_psql('postgres', "SELECT dtype, weight_bytes FROM llm_models WHERE name = '$name'");
	is($dtype, $says, "FP8 as $name: llm_models");
}
diag("weights of FP8 $bytes{fp8}, of BF16 $bytes{bf16}");
ok($bytes{fp8} < $bytes{bf16} * 0.75, 'weights of FP8 take less memory');
my ($rc8, $out8, $err8) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT llm_create_model('no', '$fp8', options => '{\"fp8_activations\": true}')");
like($err8, qr/0A000: option "fp8_activations" is for GPUs, and this model is computed on the CPUs/, 'activations of FP8 are refused on CPUs');

# how activations are rounded
sub float_x
{
	my ($path, $more) = @_;
	my (undef, undef, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT llm_create_model('x', '$path', options => '{\"max_model_len\": 64, \"activation_scheme\": " . ($more // '"float"') . "}')");
	return $err;
}
$path{llama} = model('llama_f32');
$path{tied} = model('llama_tied_bf16');
$path{static} = model('quant_ct_static');
for (['quant_ct_w4a16', 'Q4_0 x float (compressed-tensors)'], ['quant_awq', 'Q4_1 x float (awq)'], ['quant_gptq_3bit', 'Q4_0 x float (gptq)'],
	['tied', 'Q4_0 x float', '"float", "quantization": "q4_0"'], ['quant_ct_w8a8', 'INT8 x float (compressed-tensors)'],
	['quant_ct_w8a8', 'INT8 x dynamic INT8 (compressed-tensors)', '"dynamic"'], ['static', 'INT8 x static INT8 (compressed-tensors)', '"static"'])
{
	my ($name, $says, $more) = @$_;
	is(float_x($path{$name}, $more), '', "$name with float activations");
	is($node->safe_psql('postgres', "SELECT length(llm_generate('Hello', model => 'x', max_tokens => 8, temperature => 0, ignore_eos => true)) > 0"), 't', '... answers');
	is($node->safe_psql('postgres', "SELECT dtype, error FROM llm_models WHERE name = 'x'"), "$says|", '... and says so');
	$node->safe_psql('postgres', "SELECT llm_drop_model('x')");
}
# beside the same files without the option: an instance each
is(float_x($path{quant_ct_w4a16}), '', 'two entries of the same files');
$node->safe_psql('postgres', "SELECT llm_create_model('y', '$path{quant_ct_w4a16}', options => '{\"max_model_len\": 64, \"activation_scheme\": \"auto\"}')");
$node->safe_psql('postgres', "SELECT llm_generate('Hello', model => m, max_tokens => 8) FROM unnest('{x,y}'::text[]) m");
is($node->safe_psql('postgres', "SELECT string_agg(dtype, ', ' ORDER BY name) FROM llm_models WHERE name IN ('x', 'y')"),
	'Q4_0 x float (compressed-tensors), Q4_0 (compressed-tensors)', '... are two instances');
$node->safe_psql('postgres', "SELECT llm_drop_model('x'), llm_drop_model('y')");
like(float_x($path{quant_awq}, '"int8"'), qr/22023: model option "activation_scheme" must be auto, float, dynamic or static/, 'an unknown scheme');
like(float_x($path{quant_nf4}), qr/0A000: option "activation_scheme" can be "float" for weights of Q4_0, Q4_1 and INT8, and most of this model's are NF4.*HINT: /s,
	'weights of another type are refused');
like(float_x($path{quant_awq}, '"dynamic"'), qr/0A000: option "activation_scheme" can be "dynamic" for weights of INT8, and most of this model's are Q4_1.*HINT: /s, '... also for one scale a token');
like(float_x($path{quant_ct_w8a8}, '"static"'), qr/0A000: option "activation_scheme" can be "static" only if the files have a static scale.*HINT:  Use "dynamic"/s, 'files without static scales');
like(float_x($path{llama}), qr/0A000: .* most of this model's are F32/, '... floats');
like($node->safe_psql('postgres', "SELECT llm_inspect_model('$path{quant_nf4}')"), qr/"supported": ?true/, '... and load without the option');

# an unknown method
my $bad = model('quant_gptq_head');
PostgreSQL::Test::Utils::append_to_file("$bad/config.json.new",
	slurp_file("$bad/config.json") =~ s/"quant_method": "gptq"/"quant_method": "aqlm"/r);
rename "$bad/config.json.new", "$bad/config.json" or die;
my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT llm_create_model('bad', '$bad')");
like($err, qr/0A000: quantization method "aqlm" is not supported.*Supported methods are: gptq, awq, .*hqq/s, 'an unknown method is an error with a list');

# the option may name the method, as in vLLM
sub named
{
	my ($name, $option) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT llm_create_model('n', '$path{$name}', options => '{\"max_model_len\": 64, \"quantization\": \"$option\"}')");
	return $err;
}
is(named('quant_awq', 'awq_marlin'), '', 'a method of the files, by the name that vLLM has for it');
is($node->safe_psql('postgres', "SELECT length(llm_generate('Hello', model => 'n', max_tokens => 8, ignore_eos => true)) > 0"), 't', '... answers');
$node->safe_psql('postgres', "SELECT llm_drop_model('n')");
like(named('quant_awq', 'gptq'), qr/22023: model ".*" is quantized by awq, but its option "quantization" is gptq/, 'another method');
like(named('quant_awq', 'int8'), qr/22023: model ".*" is quantized already/, 'a quantization on loading');
like(named('quant_nvfp4_gguf', 'fp8'), qr/22023: model ".*" is quantized by GGUF/, 'another method than GGUF');
like(named('llama', 'bitsandbytes'), qr/0A000: model ".*" is not quantized, and can't be quantized on loading by bitsandbytes.*HINT: .* 4 bits is int4/s,
	'a model that is not quantized');
like(named('llama', 'x'), qr/22023: model option "quantization" must be int8, .*HINT: .*gptq, awq/s, 'no method at all');

$node->stop;
done_testing();
