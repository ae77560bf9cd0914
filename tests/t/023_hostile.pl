# A hostile model file never crashes the engine: files with all kinds of errors are inspected, registered
# and loaded in a running server.  Each must be an error with an SQLSTATE, the engine must stay the same
# process, without growing, and serve its model.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use File::Path qw(remove_tree);
use IO::Socket::UNIX;
use FindBin;
use JSON::PP;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX qw(mkfifo);
use Test::More;
use VllmTest;

my $json = JSON::PP->new->canonical->allow_nonref;
my $fixtures = getcwd() . '/fixtures/models';
my $top = PostgreSQL::Test::Utils::tempdir_short();
my $n = 0;
my %made;    # name -> path, in the order of @names
my @names;

# A copy of a fixture's directory that the server's user can read.
sub model
{
	my ($name, $fixture) = @_;
	my $from = "$fixtures/" . ($fixture // 'llama_f32');
	my $dir = "$top/" . $n++;
	mkdir $dir or die;
	for my $f ('config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json')
	{
		my $file = -f "$from/$f" ? "$from/$f" : "$fixtures/llama_f32/$f";
		copy($file, "$dir/$f") or die "$file: $!";
	}
	$made{$name} = $dir;
	push @names, $name;
	return $dir;
}

sub spit
{
	my ($file, $bytes) = @_;
	open(my $f, '>:raw', $file) or die "$file: $!";
	print $f $bytes;
	close($f);
}

sub slurp_raw
{
	my ($file) = @_;
	open(my $f, '<:raw', $file) or die "$file: $!";
	local $/;
	return <$f>;
}

# Write config.json with changed values; with a text instead if the argument is no hash.
sub config
{
	my ($name, $with, $fixture) = @_;
	my $file = model("config: $name", $fixture) . '/config.json';
	if (ref $with)
	{
		my $c = $json->decode(slurp_raw($file));
		$c->{$_} = $with->{$_} for keys %$with;
		# numbers that a double can't hold as a Perl number are given as "#1e400"
		(my $text = $json->encode($c)) =~ s/"#([^"]*)"/$1/g;
		$with = $text;
	}
	spit($file, $with);
}

# Rewrite the weights: their header as a hash and their data go through a function.
sub weights
{
	my ($name, $change) = @_;
	my $file = model("weights: $name") . '/model.safetensors';
	my $all = slurp_raw($file);
	my $len = unpack('Q<', $all);
	my $h = $json->decode(substr($all, 8, $len));
	my ($text, $data) = $change->($h, substr($all, 8 + $len));
	$text = $json->encode($text // $h) if ref($text // $h);
	spit($file, pack('Q<', length $text) . $text . ($data // substr($all, 8 + $len)));
}

sub tokenizer
{
	my ($name, $change) = @_;
	my $file = model("tokenizer: $name") . '/tokenizer.json';
	my $t = $json->decode(slurp_raw($file));
	my $text = $change->($t);
	spit($file, ref $text ? $json->encode($text) : $text);
}

sub gguf
{
	my ($name, $change) = @_;
	my $file = "$top/" . $n++ . '.gguf';
	spit($file, $change->(slurp_raw("$fixtures/llama_tied_q8_0_gguf.gguf")));
	$made{"gguf: $name"} = $file;
	push @names, "gguf: $name";
}

# ---- config.json ----

my %configs = (
	'not JSON' => 'x', 'empty' => '', 'a list' => '[1]', 'NUL bytes' => "\0" x 1000,
	'100,000 nested lists' => '{"a":' . '[' x 100000 . ']' x 100000 . '}',
	'900 nested objects' => '{"a":' x 900 . '1' . '}' x 900,
	'a hundred thousand keys' => '{' . join(',', map { "\"k$_\":$_" } 1 .. 100000) . '}',
	'no architecture' => { architectures => [] }, 'architecture of another kind' => { architectures => { a => 1 } },
	'unknown architecture' => { architectures => [ "X\n\e[2J" x 100 ] }, 'hidden_size 1e308' => { hidden_size => '#1e308' },
	'hidden_size 1e400' => { hidden_size => '#1e400' },
	'hidden_size below zero' => { hidden_size => -64 }, 'hidden_size as text' => { hidden_size => '64' },
	'hidden_size as a list' => { hidden_size => [ 64, 64 ] }, 'no layers' => { num_hidden_layers => 0 },
	'2^31 layers' => { num_hidden_layers => 2**31 }, 'more layers than tensors' => { num_hidden_layers => 4096 },
	'2^53 tokens' => { vocab_size => 2**53 }, 'half a token' => { vocab_size => 0.5 },
	'no heads' => { num_attention_heads => 0 }, 'heads that do not divide' => { num_key_value_heads => 3 },
	'head_dim 2^30' => { head_dim => 2**30 }, 'an odd head_dim' => { head_dim => 7 },
	'eps of 1e308' => { rms_norm_eps => '#1e308' }, 'eps below zero' => { rms_norm_eps => -1 }, 'eps as text' => { rms_norm_eps => 'x' },
	'rope_theta below zero' => { rope_parameters => { rope_theta => -1, rope_type => 'default' } }, 'positions 1e300' => { max_position_embeddings => '#1e300' },
	'unknown activation' => { hidden_act => '%s%n' },
	'unknown rope' => { rope_parameters => { rope_type => 'x', factor => 2 } },
	'rope factor below zero' => { rope_parameters => { rope_type => 'linear', factor => -1 } },
	'rope without its factors' => { rope_parameters => { rope_type => 'longrope', short_factor => [], long_factor => [1] } },
	'yarn of 1e308' => { rope_parameters => { rope_type => 'yarn', factor => '#1e308', original_max_position_embeddings => 1e15 } },
	'unknown quantization' => { quantization_config => { quant_method => 'x' } }, 'quantization as text' => { quantization_config => 'gptq' },
	'quantization of 1e308 bits' => { quantization_config => { quant_method => 'gptq', bits => '#1e308', group_size => 32 } },
	'quantization in a list' => { quantization_config => { quant_method => 'gptq', bits => 4, group_size => 32, dynamic => [ {} ] } });
config($_, $configs{$_}) for sort keys %configs;
config('layer_types of another length', { layer_types => ['full_attention'], sliding_window => 8 }, 'olmo3_f16');
config('layer_types unknown', { layer_types => [ ('x') x 4 ], sliding_window => 8 }, 'olmo3_f16');
config('2^31 experts', { num_local_experts => 2**31 }, 'mixtral_f16');
config('4,096 experts', { num_local_experts => 4096 }, 'mixtral_f16');
config('1,000 experts in 4,000 layers', { num_local_experts => 1000, num_hidden_layers => 4000 }, 'mixtral_f16');
config('more experts for a token than there are', { num_experts_per_tok => 100 }, 'mixtral_f16');
config('groups of experts 1e308', { n_group => '#1e308' }, 'deepseek3_f16');
config('latent rank 2^31', { kv_lora_rank => 2**31 }, 'deepseek3_f16');
config('latent rank below zero', { kv_lora_rank => -1 }, 'deepseek3_f16');

# ---- weights ----

my $q = 'model.layers.0.self_attn.q_proj.weight';
weights('no header', sub { (' ', '') });
weights('100,000 nested lists', sub { '{"a":' . '[' x 100000 });
weights('a list for a tensor', sub { $_[0]{$q} = [ 1, 2 ]; return });
weights('a number for a tensor', sub { $_[0]{$q} = 7; return });
weights('overlapping tensors', sub { $_[0]{$q}{data_offsets} = [ map { $_ - 4 } @{ $_[0]{$q}{data_offsets} } ]; return });
weights('beyond the end', sub { $_[0]{$q}{data_offsets} = [ 2**52, 2**52 + 16 ]; return });
weights('offsets below zero', sub { $_[0]{$q}{data_offsets}[0] = -4; return });
weights('a dimension of 2^53', sub { $_[0]{$q}{shape} = [ 2**53, 2**53 ]; return });
weights('1,000 dimensions', sub { $_[0]{$q}{shape} = [ (1) x 1000 ]; return });
weights('a dimension of zero', sub { $_[0]{$q}{shape}[0] = 0; $_[0]{$q}{data_offsets}[1] = $_[0]{$q}{data_offsets}[0]; return });
weights('a dimension of one and a half', sub { $_[0]{$q}{shape}[0] = 1.5; return });
weights('an unknown type', sub { $_[0]{$q}{dtype} = 'F1'; return });
weights('a matrix of integers', sub { $_[0]{$q}{dtype} = 'I32'; return });
weights('a tensor too many', sub { $_[0]{x} = { dtype => 'F32', shape => [0], data_offsets => [ 0, 0 ] }; return });
weights('a tensor missing', sub { delete $_[0]{$q}; return });
weights('truncated data', sub { (undef, substr($_[1], 0, 1000)) });
spit(model('weights: a header of 2^63 bytes') . '/model.safetensors', pack('Q<', 2**63) . '{}');
spit(model('weights: a header longer than the file') . '/model.safetensors', pack('Q<', 90_000_000) . '{}');
# two bytes of text can become a node of 64 bytes: as a tree each of these would take a gigabyte
my @trees = ([ 'lists of numbers', '[0' . ',0' x 20_000_000 ], [ 'objects', '{"a":[{}' . ',{}' x 12_000_000 ], [ 'keys', '{"a":0' . ',"":0' x 8_000_000 ]);
for my $t (@trees)
{
	spit(model("weights: a header of $t->[0]") . '/model.safetensors', pack('Q<', length $t->[1]) . $t->[1]);
	spit(model("tokenizer: a file of $t->[0]") . '/tokenizer.json', $t->[1]);
	spit(model("config: a file of $t->[0]") . '/config.json', substr($t->[1], 0, 8_000_000));
	my $dir = model("index: a file of $t->[0]");
	unlink "$dir/model.safetensors";
	spit("$dir/model.safetensors.index.json", substr($t->[1], 0, 60_000_000));
}
undef @trees;
# more than any machine's memory, as a sparse file
{
	my $dir = model('weights: 4 TB of a hole');
	my $file = "$dir/model.safetensors";
	my $c = $json->decode(slurp_raw("$dir/config.json"));
	my ($vocab, $hidden) = (2**24, 2**16);
	my %w = ('model.embed_tokens.weight' => [ $vocab, $hidden ], 'lm_head.weight' => [ $vocab, $hidden ], 'model.norm.weight' => [$hidden]);
	my $p = 'model.layers.0.';
	$c->{$_->[0]} = $_->[1] for [ vocab_size => $vocab ], [ hidden_size => $hidden ], [ num_hidden_layers => 1 ], [ tie_word_embeddings => JSON::PP::false ],
	  [ num_attention_heads => 1 ], [ num_key_value_heads => 1 ], [ head_dim => 16 ], [ intermediate_size => 16 ];
	$w{ $p . $_->[0] } = $_->[1] for [ 'self_attn.q_proj.weight', [ 16, $hidden ] ], [ 'self_attn.k_proj.weight', [ 16, $hidden ] ], [ 'self_attn.v_proj.weight', [ 16, $hidden ] ],
	  [ 'self_attn.o_proj.weight', [ $hidden, 16 ] ], [ 'mlp.gate_proj.weight', [ 16, $hidden ] ], [ 'mlp.up_proj.weight', [ 16, $hidden ] ],
	  [ 'mlp.down_proj.weight', [ $hidden, 16 ] ], [ 'input_layernorm.weight', [$hidden] ], [ 'post_attention_layernorm.weight', [$hidden] ];
	my ($at, %h) = (0);
	for my $t (sort keys %w)
	{
		my $bytes = 2;
		$bytes *= $_ for @{ $w{$t} };
		$h{$t} = { dtype => 'F16', shape => $w{$t}, data_offsets => [ $at, $at + $bytes ] };
		$at += $bytes;
	}
	my $text = $json->encode(\%h);
	spit($file, pack('Q<', length $text) . $text);
	spit("$dir/config.json", $json->encode($c));
	# not every file system supports files of that size
	if (!truncate($file, 8 + length($text) + $at))
	{
		note("no file of 4 TB here: $!");
		truncate($file, 1 << 30) or die;
	}
}
spit(model('weights: seven bytes') . '/model.safetensors', 'x' x 7);
spit(model('weights: empty') . '/model.safetensors', '');
truncate(model('weights: 64 GB of a hole') . '/model.safetensors', 64 << 30) or die;
for my $i ([ 'a path above', { weight_map => { $q => '../../../../etc/passwd' } } ], [ 'itself', { weight_map => { $q => 'model.safetensors.index.json' } } ],
	[ 'no file', { weight_map => { $q => 'gone.safetensors' } } ], [ 'numbers', { weight_map => { $q => 1 } } ], [ 'a list', { weight_map => [1] } ])
{
	my $dir = model("index: $i->[0]");
	unlink "$dir/model.safetensors";
	spit("$dir/model.safetensors.index.json", $json->encode($i->[1]));
}

# a quantized matrix whose columns refer to missing groups, and one with a NaN scale
for my $bad ('g_idx out of range', 'a scale of NaN')
{
	weights("gptq: $bad", sub {
		my ($h, $data) = @_;
		my ($rows, $cols) = @{ (delete $h->{$q})->{shape} };
		my $base = length $data;
		my $groups = $cols / 32;
		my @parts = ([ 'qweight', 'I32', [ $cols / 8, $rows ], "\0" x ($cols * $rows / 2) ], [ 'qzeros', 'I32', [ $groups, $rows / 8 ], "\0" x ($groups * $rows / 2) ],
			[ 'scales', 'F16', [ $groups, $rows ], ($bad =~ /NaN/ ? "\x00\x7e" : "\x00\x3c") x ($groups * $rows) ],
			[ 'g_idx', 'I32', [$cols], pack('l<', $bad =~ /g_idx/ ? 2**31 - 1 : 0) x $cols ]);
		# replaces the matrix without a gap: the other tensors move
		my $out = '';
		for my $t (sort { $h->{$a}{data_offsets}[0] <=> $h->{$b}{data_offsets}[0] } grep { $_ ne '__metadata__' } keys %$h)
		{
			my ($b, $e) = @{ $h->{$t}{data_offsets} };
			$h->{$t}{data_offsets} = [ length($out), length($out) + $e - $b ];
			$out .= substr($data, $b, $e - $b);
		}
		for my $p (@parts)
		{
			$h->{ 'model.layers.0.self_attn.q_proj.' . $p->[0] } = { dtype => $p->[1], shape => $p->[2], data_offsets => [ length($out), length($out) + length($p->[3]) ] };
			$out .= $p->[3];
		}
		return ($h, $out);
	});
	my $file = "$made{$names[-1]}/config.json";
	my $c = $json->decode(slurp_raw($file));
	$c->{quantization_config} = { quant_method => 'gptq', bits => 4, group_size => 32, desc_act => JSON::PP::true, sym => JSON::PP::true };
	spit($file, $json->encode($c));
}

# ---- special files ----

my $dir = model('a FIFO for weights');
unlink "$dir/model.safetensors";
mkfifo("$dir/model.safetensors", 0600) or die;
$dir = model('a device for a configuration');
unlink "$dir/config.json";
symlink('/dev/zero', "$dir/config.json") or die;
$dir = model('a loop of links');
unlink "$dir/config.json";
symlink("$dir/config.json", "$dir/config.json") or die;
$dir = model('a directory for weights');
unlink "$dir/model.safetensors";
mkdir "$dir/model.safetensors" or die;
$dir = model('a FIFO for optional files');
mkfifo("$dir/generation_config.json", 0600) or die;
$dir = model('a device for a template');
symlink('/dev/zero', "$dir/chat_template.jinja") or die;
$dir = model('links to links');
unlink "$dir/model.safetensors";
symlink($_ < 60 ? 'l' . ($_ + 1) : 'config.json', $_ > 0 ? "$dir/l$_" : "$dir/model.safetensors") or die for 0 .. 60;
$dir = model('a socket for a configuration');
unlink "$dir/config.json";
IO::Socket::UNIX->new(Local => "$dir/config.json", Listen => 1) or die;
$made{'a path of 100,000 bytes'} = '/x' x 50000;
$made{'control characters'} = "$top/\e[2J\n%s%n";
push @names, 'a path of 100,000 bytes', 'control characters';
if ($> != 0)
{
	for my $f ('config.json', 'model.safetensors', 'tokenizer.json')
	{
		$dir = model("unreadable: $f");
		chmod 0, "$dir/$f" or die;
	}
	$dir = model('unreadable: the directory');
	chmod 0, $dir or die;
}
$dir = model('a directory for a tokenizer');
unlink "$dir/tokenizer.json";
mkdir "$dir/tokenizer.json" or die;
$made{nothing} = "$top/nothing";
push @names, 'nothing';

# ---- GGUF ----

gguf('empty', sub { '' });
gguf('another magic', sub { 'GGUX' . substr($_[0], 4) });
gguf("truncated at $_", sub { substr($_[0], 0, $_) }) for 4, 12, 24, 100, 1000, 5000, 20000;
gguf('2^60 tensors', sub { substr($_[0], 8, 8) = pack('Q<', 2**60); $_[0] });
gguf('2^60 keys', sub { substr($_[0], 16, 8) = pack('Q<', 2**60); $_[0] });
gguf('a key of 2^63 bytes', sub { substr($_[0], 24, 8) = pack('Q<', 2**63); $_[0] });
gguf('a million keys', sub { substr($_[0], 0, 16) . pack('Q<', 1e6) . (pack('Q<', 1) . 'a' . pack('L<', 7) . "\0") x 1e5 });
gguf('lists in lists', sub { substr($_[0], 0, 16) . pack('Q<', 1) . pack('Q<', 1) . 'a' . (pack('L<', 9) . pack('L<Q<', 9, 1)) x 10000 });
gguf('a list of 2^61 numbers', sub { substr($_[0], 0, 16) . pack('Q<', 1) . pack('Q<', 1) . 'a' . pack('L<L<Q<', 9, 10, 2**61) . "\0" x 100 });
gguf('a scale of NaN', sub { my $at = length($_[0]) - 34 * 40; substr($_[0], $at - $at % 34 + $_ * 2, 2) = "\x00\x7e" for 0 .. 500; $_[0] });
gguf('all ones', sub { substr($_[0], 0, 24) . "\xff" x 100000 });
gguf('version 1', sub { substr($_[0], 4, 4) = pack('L<', 1); $_[0] });
gguf('big-endian', sub { substr($_[0], 4, 4) = pack('L>', 3); $_[0] });

# ---- parts of a GGUF model ----

sub parts
{
	my ($name, $change) = @_;
	my $dir = "$top/" . $n++;
	my @files;
	mkdir $dir or die;
	for my $from (sort glob "$fixtures/phi3_f16_gguf_split/*.gguf")
	{
		push @files, "$dir/m" . substr($from, -20);
		copy($from, $files[-1]) or die "$from: $!";
	}
	# a key's value follows its name and type
	my $set = sub {
		my ($part, $key, $value) = @_;
		my $bytes = slurp_raw($files[$part]);
		substr($bytes, index($bytes, $key) + length($key) + 4, length $value) = $value;
		spit($files[$part], $bytes);
	};
	$made{"parts: $name"} = $change->($set, @files) // $files[0];
	push @names, "parts: $name";
}

parts('one is gone', sub { unlink $_[2]; return });
parts('one is a FIFO', sub { unlink $_[2]; mkfifo($_[2], 0600) or die; return });
parts('one is a directory', sub { unlink $_[2]; mkdir $_[2] or die; return });
parts('one is a loop of links', sub { unlink $_[2]; symlink($_[2], $_[2]) or die; return });
parts('all are the first', sub { for my $i (2, 3) { unlink $_[$i]; symlink($_[1], $_[$i]) or die } return });
parts('one is empty', sub { spit($_[2], ''); return });
parts('one is truncated', sub { truncate($_[3], (-s $_[3]) / 2) or die; return });
parts('another number', sub { $_[0]->(1, 'split.no', pack('S<', 2)); return });
parts('65,535 of them', sub { $_[0]->(0, 'split.count', pack('S<', 65535)); return });
parts('another count', sub { $_[0]->(2, 'split.count', pack('S<', 7)); return });
parts('another count of tensors', sub { $_[0]->(0, 'split.tensors.count', pack('l<', 1)); return });
parts('a count of tensors below zero', sub { $_[0]->(0, 'split.tensors.count', pack('l<', -1)); return });
parts('the second for the first', sub { $_[2] });
parts('two models in a directory', sub { my ($dir) = $_[1] =~ m{(.*)/}; copy($_[1], "$dir/other.gguf") or die; $dir });

# ---- tokenizers ----

tokenizer('not JSON', sub { 'x' });
tokenizer('50,000 nested lists', sub { '[' x 50000 });
tokenizer('a list for a vocabulary', sub { $_[0]{model}{vocab} = [ 1, 2 ]; $_[0] });
tokenizer('ids far away', sub { my $v = $_[0]{model}{vocab}; $v->{ (sort keys %$v)[0] } = 2**31; $_[0] });
tokenizer('an id twice', sub { my $v = $_[0]{model}{vocab}; my @k = sort keys %$v; $v->{ $k[0] } = $v->{ $k[1] }; $_[0] });
tokenizer('merges of unknown tokens', sub { $_[0]{model}{merges} = ['qqq zzz']; $_[0] });
tokenizer('merges of another kind', sub { $_[0]{model}{merges} = [ 1, {}, [ [] ] ]; $_[0] });
tokenizer('an unknown model', sub { $_[0]{model}{type} = 'X'; $_[0] });
tokenizer('broken precompiled rules', sub { $_[0]{normalizer} = { type => 'Precompiled', precompiled_charsmap => 'AAAA////' x 10 }; $_[0] });
tokenizer('rules that are no base 64', sub { $_[0]{normalizer} = { type => 'Precompiled', precompiled_charsmap => '????' }; $_[0] });
tokenizer('an expression without an end', sub { $_[0]{pre_tokenizer} = { type => 'Split', pattern => { Regex => '(' x 5000 }, behavior => 'Isolated', invert => JSON::PP::false }; $_[0] });
tokenizer('sequences of sequences', sub { my $s = { type => 'Lowercase' }; $s = { type => 'Sequence', normalizers => [$s] } for 1 .. 200; $_[0]{normalizer} = $s; $_[0] });
spit(model('tokenizer: a configuration that is no JSON') . '/tokenizer_config.json', '{');

# ---- all of them ----

my $node = PostgreSQL::Test::Cluster->new('hostile');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\nstatement_timeout = '60s'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

my $ask = q{SELECT llm_generate('Ticket: no light', temperature => 0, max_tokens => 12)};
my $answer = $node->safe_psql('postgres', $ask);
like($answer, qr/\S/, 'the bundled model answers');
my $pid = engine_pid($node);
my $rss = rss_kb($pid);
my $fds = fd_count($pid);
my $control_fds = $node->safe_psql('postgres', q{SELECT vllm.control('fds')});

for my $name (@names)
{
	my $path = $made{$name};
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT llm_inspect_model('$path')->>'supported'");
	my ($rc2, $out2, $err2) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT llm_create_model('bad', '$path');\nSELECT llm_load_model('bad');");
	# inspect doesn't read the weights, so it finds no error in them
	my $unread = $name =~ /scale of NaN|4 TB of a hole/;
	my $inspected = $out eq 'false' || $err =~ /ERROR:  (XX001|0A000|58030|22023)/ || $unread;
	my $refused = $err2 =~ /ERROR:  (XX001|0A000|58030|22023|53200|54000): (?!could not reach)/;

	ok($inspected && $refused, "$name is an error") or diag("inspected: $out $err\ncreated: $err2");
	$node->psql('postgres', q{SELECT llm_drop_model('bad')}) if $err2 !~ /llm_create_model/ && $node->safe_psql('postgres', q{SELECT count(*) FROM llm_models WHERE name = 'bad'}) ne '0';
	if (engine_pid($node) ne $pid)
	{
		fail("the engine lives after: $name");
		last;
	}
}

my $grown = (rss_kb($pid) - $rss) / 1024;
my ($peak) = slurp_raw("/proc/$pid/status") =~ /VmHWM:\s+(\d+)/;
figure('at most %d MB were resident', $peak / 1024);
cmp_ok($peak / 1024, '<', 800, 'and never took a gigabyte more');
cmp_ok($grown, '<', 150, 'the engine has not grown by 150 MB');
figure('%d hostile models, resident memory %+.0f MB', scalar @names, $grown);

# The cost of a chat template is bounded, also when it is used again.
my @bombs = ([ 'a loop', '{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}' ], [ 'a product', q({{ 'x' * 1000000000000 }}) ],
	[ 'a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}' ], [ 'doubling', q({% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}) ],
	[ 'half a tag', '{% if' ], [ 'brackets', '{{ ' . '(' x 100000 ]);
my @after;
for my $b (@bombs, @bombs, @bombs)
{
	my $path = model("template: $b->[0]");
	my $file = "$path/tokenizer_config.json";
	my $c = $json->decode(slurp_raw($file));
	$c->{chat_template} = $b->[1];
	spit($file, $json->encode($c));
	my ($rc, $out, $err) = $node->psql('postgres',
		qq{\\set VERBOSITY verbose\nSELECT llm_create_model('bad', '$path');\nSELECT llm_chat('[{"role": "user", "content": "hi"}]', model => 'bad', max_tokens => 1);});
	like($err, qr/ERROR:  (XX001|0A000|22023|54000)/, "a template with $b->[0] is an error");
	$node->psql('postgres', q{SELECT llm_drop_model('bad')});
	push @after, rss_kb($pid) if $b == $bombs[-1];
}
# freed memory stays with the allocator, for the next template of that size
$grown = ($after[2] - $after[1]) / 1024;
cmp_ok($grown, '<', 100, 'templates leave nothing behind');
figure('%d hostile templates, resident memory %+.0f MB, the third time %+.0f MB', scalar @bombs, ($after[0] - $rss) / 1024, $grown);

# Files that others change while they are read: whatever the result, the engine survives.
for my $kind ('model.safetensors', 'tokenizer.json', 'config.json', 'gguf')
{
	my $gguf = $kind eq 'gguf';
	my $path = $gguf ? "$top/changing.gguf" : model("changing $kind", 'llama_wide_f16');
	my $file = $gguf ? $path : "$path/$kind";
	copy("$fixtures/llama_wide_f16_f16_gguf.gguf", $path) if $gguf;
	my $bytes = slurp_raw($file);
	my $stop = "$top/stop";
	unlink $stop;
	my $child = fork() // die;
	if ($child == 0)
	{
		# in place: shorter, longer, other bytes, and restored
		open(my $f, '+<:raw', $file) or POSIX::_exit(1);
		for (my $i = 1; !-e $stop; $i++)
		{
			truncate($f, ($i * 7919) % length $bytes);
			sysseek($f, 0, 0);
			syswrite($f, $i % 3 ? $bytes : "\xff" x length $bytes);
			truncate($f, length $bytes);
			sysseek($f, 0, 0);
			syswrite($f, $bytes);
			select(undef, undef, undef, 0.001) if $i % 4 == 0;
		}
		POSIX::_exit(0);
	}
	my %seen;
	for (1 .. 25)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT llm_inspect_model('$path')->>'supported';\n"
			  . "SELECT llm_create_model('bad', '$path');\nSELECT llm_load_model('bad');\nSELECT llm_drop_model('bad')");
		$seen{$_}++ for $err =~ /ERROR:  (\w{5})/g;
		$seen{none}++ if $err !~ /ERROR/;
		$node->psql('postgres', q{SELECT llm_drop_model('bad')});
	}
	spit($stop, '');
	waitpid($child, 0);
	is($?, 0, "$kind was changed all the while");
	is(engine_pid($node), $pid, "the engine lives while others change $kind");
	is(join(' ', grep { !/^(none|XX001|0A000|58030|22023|55000|42704|42710)$/ } sort keys %seen), '', 'and its errors are those of a bad file');
	figure('%s changed in place: %s', $kind, join(', ', map { "$_ $seen{$_}" } sort keys %seen));
}

# Names in no encoding: a database that accepts any bytes.
$node->safe_psql('postgres', q{CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('bytes', 'CREATE EXTENSION vllm_pg');
my $odd = model('odd name');
rename($odd, "$top/\xff\xfe") or die;
for my $sql (q{SELECT llm_inspect_model(E'%s/\377\376')::text <> ''}, q{SELECT llm_create_model('odd', E'%s/\377\376')}, q{SELECT llm_inspect_model(E'%s/\377\376\001gone')},
	q{SELECT llm_create_model('odd2', E'%s/\300\200gone')}, q{SELECT llm_load_model('odd')}, q{SELECT llm_generate('Ticket', model => 'odd', max_tokens => 2)})
{
	my ($rc, $out, $err) = $node->psql('bytes', sprintf($sql, $top));
	ok($rc == 0 || $err =~ /ERROR/, "an answer or an error: $sql") or diag("$rc $out $err");
	diag("$sql: $err") if $err ne '' && $err !~ /could not open|gone/;
}

is(engine_pid($node), $pid, 'it is the same engine');
is($node->safe_psql('postgres', $ask), $answer, 'and its model answers as before');
is(fd_count($pid), $fds, 'no file is left open');
is($node->safe_psql('postgres', q{SELECT vllm.control('fds')}), $control_fds, 'as the engine itself counts');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
is($node->safe_psql('postgres', q{SELECT count(*) FROM llm_models WHERE name = 'bad'}), '0', 'no hostile model is registered');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop;
remove_tree($top);
done_testing();
