# Adapters of the bundled model, made of random numbers: errors, columns that choose the adapter, a lost
# engine, files that change.
use strict;
use warnings;
use Cwd qw(abs_path getcwd);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node;

sub sql { return $node->safe_psql('postgres', $_[0]); }

# the error of a statement: SQLSTATE and message
sub error
{
	my (undef, undef, $err) = $node->psql('postgres', $_[0], extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $err =~ /ERROR:  (\w{5}): (.*)/ ? "$1 $2" : $err;
}

sub tensor_file
{
	my ($file, $tensors) = @_;
	my ($head, $data, $at) = ('', '', 0);
	for my $name (sort keys %$tensors)
	{
		my ($shape, $values) = @{ $tensors->{$name} };
		my $end = $at + 4 * @$values;
		$head .= ($head eq '' ? '{' : ',') . qq{"$name":{"dtype":"F32","shape":[$shape->[0],$shape->[1]],"data_offsets":[$at,$end]}};
		$data .= pack('f<*', @$values);
		$at = $end;
	}
	$head .= '}';
	$head .= ' ' x (-length($head) % 8);
	open(my $h, '>:raw', $file) or die "$file: $!";
	print $h pack('Q<', length $head) . $head . $data;
	close $h;
}

# Make an adapter of the bundled model: rank, lora_alpha, and the size of its effect (0: none).
my %shapes = ('self_attn.q_proj' => [ 256, 256 ], 'self_attn.k_proj' => [ 128, 256 ], 'self_attn.v_proj' => [ 128, 256 ], 'self_attn.o_proj' => [ 256, 256 ],
	'mlp.gate_proj' => [ 512, 256 ], 'mlp.down_proj' => [ 256, 512 ]);
sub random_adapter
{
	my ($path, $rank, $alpha, $much, $more) = @_;
	my %t;
	srand($rank * 1000 + $alpha);
	for my $layer (0 .. 3)
	{
		for my $m (sort keys %shapes)
		{
			my ($out, $in) = @{ $shapes{$m} };
			my $p = "base_model.model.model.layers.$layer.$m";
			$t{"$p.lora_A.weight"} = [ [ $rank, $in ], [ map { (rand() - 0.5) / 4 } 1 .. $rank * $in ] ];
			$t{"$p.lora_B.weight"} = [ [ $out, $rank ], [ map { $much * (rand() - 0.5) } 1 .. $out * $rank ] ];
		}
	}
	mkdir $path or die "$path: $!";
	tensor_file("$path/adapter_model.safetensors", \%t);
	append_to_file("$path/adapter_config.json", qq({"peft_type": "LORA", "r": $rank, "lora_alpha": $alpha, "bias": "none", "task_type": "CAUSAL_LM",
		"base_model_name_or_path": "tickets-2m", "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]$more}));
}

$node = PostgreSQL::Test::Cluster->new('lora_model');
$node->init;
my $dir = abs_path($node->basedir) . '/adapters';
mkdir $dir;
random_adapter("$dir/a", 8, 16, 0.5, '');
random_adapter("$dir/b", 16, 16, 0.5, '');
random_adapter("$dir/c", 4, 8, 0.5, ', "use_rslora": true');
random_adapter("$dir/nothing", 8, 8, 0, '');
random_adapter("$dir/dora", 8, 8, 0.1, ', "use_dora": true');
random_adapter("$dir/large", 72, 8, 0.1, '');
mkdir "$dir/broken";
append_to_file("$dir/broken/adapter_config.json", '{"peft_type": "LORA", "r": ');
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '32MB'\nvllm.lora_dir = '$dir'\n");
$node->start;
sql(q{CREATE EXTENSION vllm_pg});
sql(slurp_file('models/docs_sample.sql'));
like(error(q{SELECT llm_generate('x', lora => 'dora')}), qr/^0A000 .*DoRA/i, 'DoRA is refused');
like(error(q{SELECT llm_generate('x', lora => 'large')}), qr/^54000 .*72.*max_lora_rank/, 'so is a rank that is too large');
like(error(q{SELECT llm_generate('x', lora => 'broken')}), qr/^(XX001|22023) /, 'and a configuration that is none');
is(error(q{SELECT llm_generate('x', lora => 'nobody')}), q{42704 adapter "nobody" does not exist}, 'and what is not there');
sql(qq{SELECT llm_create_lora(n, 'tickets-2m', '$dir/' || n) FROM unnest('{a,b,c,nothing}'::text[]) n});
is(sql(q{SELECT string_agg(name || rank || ' ' || alpha || ' ' || rslora || ' ' || cardinality(modules), ', ' ORDER BY name)
	FROM llm_loras, LATERAL (SELECT llm_load_lora(name)) l}), '', 'nothing is known before they are loaded');
is(sql(q{SELECT string_agg(name || ' ' || rank || ' ' || alpha || ' ' || rslora || ' ' || cardinality(modules), ', ' ORDER BY name) FROM llm_loras}),
	'a 8 16 false 6, b 16 16 false 6, c 4 8 true 6, nothing 8 8 false 6', 'then they are');
my $ask = q{llm_generate(prompt, max_tokens => 24, temperature => 0, ignore_eos => true};
sql("CREATE TABLE alone AS SELECT id, prompt, $ask) AS base, $ask, lora => 'nothing') AS nothing, $ask, lora => 'a') AS a, $ask, lora => 'b') AS b, $ask, lora => 'c') AS c FROM docs");
is(sql('SELECT count(*) FROM alone WHERE base <> nothing'), '0', 'an adapter of zeros changes nothing');
is(sql('SELECT count(*) FILTER (WHERE a <> base AND b <> base AND c <> base) > 40, count(*) FILTER (WHERE a = b OR b = c OR a = c) < 5 FROM alone'), 't|t',
	'others do, each in its way');
my $chosen = "SELECT count(*) FROM (SELECT g, id, l, (CASE l WHEN 'a' THEN a WHEN 'b' THEN b WHEN 'c' THEN c ELSE base END) AS want, $ask, lora => l) AS got
	FROM (SELECT g, alone.*, (ARRAY['a', NULL, 'b', 'c'])[(id + g) % 4 + 1] AS l FROM alone, generate_series(1, 4) g) s) s WHERE got <> want";
is(sql($chosen), '0', 'rows that choose get what each choice gives alone');
is(sql("SET vllm.batch_dedup = off; SET vllm.batch_window = 7; $chosen"), '0', '... in smaller batches, too');
my @h = map { bg($node, $chosen) } 1 .. 4;
is(join(',', map { scalar finish($_) } @h), '0,0,0,0', '... and in four sessions');
my $pid = engine_pid($node);
@h = map { bg($node, $chosen) } 1 .. 2;
until_sql($node, 'SELECT running > 0 FROM llm_stat_engine');
kill 'KILL', $pid;
finish($_) for @h;
ok(until_ready($node, $pid), 'another engine');
is(sql($chosen), '0', '... and the same answers');
is(sql(q{SELECT count(*) FROM llm_loras WHERE state = 'ready' AND requests > 0}), '3', 'llm_loras tells who was asked');

# a model with one place for adapters, those of the directory: rows wait for it, the outputs are the same
symlink "$dir/$_", "$dir/other_$_" for qw(a b c);
sql(q{SELECT llm_create_model('narrow', (SELECT path FROM llm_models), options => '{"max_loras": 1, "max_cpu_loras": 1}')});
(my $narrow = $chosen) =~ s/lora => l/model => 'narrow', lora => 'other_' || l/;
is(sql($narrow), '0', 'one place for three adapters');
@h = map { bg($node, $narrow) } 1 .. 3;
is(join(',', map { scalar finish($_) } @h), '0,0,0', '... in three sessions');
is(sql(q{SELECT count(*) FROM llm_loras WHERE parent = 'narrow'}), '1', '... of which one is left in memory');
like(error(q{SELECT llm_generate('x', model => 'narrow', lora => 'a')}), qr/^22023 adapter "a" does not belong to model "narrow"/, 'a row belongs to its model');

# a role that may not see file paths does not get them from errors either
sql(qq{CREATE ROLE stranger; SELECT llm_create_lora('flawed', 'tickets-2m', '$dir/large'), llm_grant('flawed', 'stranger'), llm_grant('tickets-2m', 'stranger')});
my $flawed = q{SELECT llm_generate('x', lora => 'flawed')};
is(error($flawed), qq{54000 adapter "$dir/large" has rank 72, which is above max_lora_rank (64)}, 'an error has the path');
is(error("SET ROLE stranger; $flawed"), q{54000 adapter "flawed" has rank 72, which is above max_lora_rank (64)}, '... the name for those who may not see that');
is(error(q{SET ROLE stranger; SELECT v1_completions('{"model": "flawed", "prompt": "x"}')}), q{54000 adapter "flawed" has rank 72, which is above max_lora_rank (64)},
	'... in bodies, too');
sql(q{SELECT llm_drop_lora('flawed')});

# other functions with adapters
is(sql(q{SELECT (r).lora, cardinality((r).completions), ((r).completions)[1].logprobs IS NOT NULL FROM (SELECT llm_output('Ticket: x', n => 2, logprobs => 1, temperature => 1, seed => 1, lora => 'a') AS r) s}),
	'a|2|t', 'several answers with log-probabilities');
is(sql(q{SELECT count(*) FROM llm_beam_search('Ticket: x', 3, 5, lora => 'b')}), '3', 'a beam search');
is(sql(q{SELECT l.a <> l.b AND l.a <> l.c FROM (SELECT llm_perplexity('Ticket: My parcel never arrived.') AS a, llm_perplexity('Ticket: My parcel never arrived.', lora => 'a') AS b,
	llm_perplexity('Ticket: My parcel never arrived.', lora => 'b') AS c) l}), 't', 'log-probabilities of a text');
is(sql(q{SELECT llm_generate_as('Ticket: x', NULL::bool, lora => 'c') IS NOT NULL}), 't', 'an answer of a type');

# files that change are another adapter
rename "$dir/a", "$dir/old";
rename "$dir/b", "$dir/a";
rename "$dir/old", "$dir/b";
is(sql("SELECT count(*) FROM alone WHERE $ask, lora => 'a') <> b OR $ask, lora => 'b') <> a"), '0', 'files that change places are met by the next call');

# adapters made by the Python package peft (golden/gen_lora.py): for float and quantized models
my $fixtures = getcwd() . '/fixtures';
for my $case ([ 'llama_f32', 'llama_all', 'llama_rslora', 'llama_ends' ], [ 'quant_gptq', 'quant_gptq' ], [ 'quant_awq', 'quant_awq' ], [ 'gemma3_bf16', 'gemma3_all' ])
{
	my ($model, @adapters) = @$case;
	sql("SELECT llm_create_model('m_$model', '$fixtures/models/$model')");
	sql("SELECT llm_create_lora('$_', 'm_$model', '$fixtures/lora/$_')") for @adapters;
	my $call = "llm_generate('Hello ' || i, max_tokens => 12, temperature => 0, ignore_eos => true, model => 'm_$model'";
	my $alone = join(' ', map { "WHEN '$_' THEN $call, lora => '$_')" } @adapters);
	is(sql("SET vllm.batch = off; CREATE TABLE p AS SELECT i, l, CASE l $alone ELSE $call) END AS want FROM generate_series(1, 6) i, unnest('{NULL," . join(',', @adapters) . "}'::text[]) l;
		SELECT count(DISTINCT want) > 6 FROM p"), 't', "$model: each alone");
	is(sql("SELECT count(*) FROM (SELECT want, $call, lora => l) AS got FROM p ORDER BY i, l) s WHERE got <> want"), '0', '... and rows that choose');
	sql('DROP TABLE p');
}
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop;
done_testing();
