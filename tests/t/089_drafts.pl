# Drafters with weights, through SQL: each method's outputs equal those without it, its memory is counted,
# and files that don't fit are refused.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $fixtures = getcwd() . '/fixtures/drafts';
my $top = PostgreSQL::Test::Utils::tempdir_short();

# A copy that the server's user can read.
sub model
{
	my ($name, $as) = @_;
	my $to = "$top/" . ($as // $name);
	mkdir $to or die "$to: $!";
	copy($_, "$to/" . (split /\//)[-1]) or die "$_: $!" for glob("$fixtures/$name/*");
	return $to;
}

my $node = PostgreSQL::Test::Cluster->new('drafts');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '4MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub fails
{
	my ($sql, $what, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, $what, $name);
	return;
}

my %path = map { $_ => model($_) } qw(target target_mtp medusa mlp eagle-llama eagle3 eagle3_speculators);
sql("SELECT llm_create_model('plain', '$path{target}'), llm_create_model('plain_mtp', '$path{target_mtp}')");

# 50 prompts, some alike, greedy and sampled.
sub answers
{
	my ($model) = @_;
	return sql(qq{SELECT md5(string_agg(a, '|' ORDER BY i)) FROM (SELECT i, llm_generate(left('The ticket ' || i / 5 || ' is about ' || md5(i::text), 10 + i), model => '$model',
		max_tokens => 5 + i % 20, temperature => i % 3 * 0.6, seed => i) AS a FROM generate_series(1, 50) i) x});
}

my %want = (target => answers('plain'), target_mtp => answers('plain_mtp'));
my @methods = (
	[ 'draft_model', 'target', qq{"model": "$path{target}", "num_speculative_tokens": 4} ],
	[ 'draft_model', 'target', qq{"method": "draft_model", "model": "$path{target_mtp}", "num_speculative_tokens": 2, "quantization": "q8_0"} ],
	[ 'medusa', 'target', qq{"model": "$path{medusa}"} ],
	[ 'mlp_speculator', 'target', qq{"model": "$path{mlp}", "num_speculative_tokens": 2} ],
	[ 'eagle', 'target', qq{"model": "$path{'eagle-llama'}", "num_speculative_tokens": 3} ],
	[ 'eagle3', 'target', qq{"model": "$path{eagle3}", "num_speculative_tokens": 3} ],
	[ 'eagle3', 'target', qq{"model": "$path{eagle3_speculators}", "num_speculative_tokens": 3} ],
	[ 'mtp', 'target_mtp', qq{"method": "mtp"} ],
);
my $n = 0;
for (@methods)
{
	my ($method, $target, $config) = @$_;
	my $name = 'm' . $n++;
	my $options = qq{{"speculative_config": {$config}}};

	is(sql("SELECT j ->> 'supported', j #>> '{drafts,method}', (j #>> '{drafts,weight_bytes}')::bigint > 0 FROM llm_inspect_model('$path{$target}', '$options') j"),
		"true|$method|t", "$method: llm_inspect_model");
	sql("SELECT llm_create_model('$name', '$path{$target}', '$options')");
	is(answers($name), $want{$target}, "$method: the same answers");
	my $plain = $target eq 'target' ? 'plain' : 'plain_mtp';
	is(sql("SELECT m.weight_bytes > p.weight_bytes FROM llm_models m, llm_models p WHERE m.name = '$name' AND p.name = '$plain'"), 't', "$method: its weights count");
}

# a model that drafts for itself is always right
my $figures = q{SELECT sum(value) FROM llm_metrics() WHERE name = 'vllm:spec_decode_num_%s_total' AND labels ->> 'model_name' = 'm0'};
my ($draft, $accepted) = map { sql(sprintf($figures, $_)) } qw(draft_tokens accepted_tokens);
cmp_ok($draft, '>', 0, 'there were drafts');
cmp_ok($accepted, '>', 0.8 * $draft, "most were right ($accepted of $draft)");

# a drafter's files that are removed and come back, or change
my $own = model('target', 'own');
sql(qq{SELECT llm_create_model('away', '$path{target}', '{"speculative_config": {"model": "$own", "num_speculative_tokens": 2}}')});
rename $own, "$own.not" or die;
fails(q{SELECT llm_generate('x', model => 'away', max_tokens => 2)}, qr/could not open model "\Q$own\E"/, 'the files of the drafter are away') for 1 .. 2;
rename "$own.not", $own or die;
is(sql(q{SELECT llm_generate('x', model => 'away', max_tokens => 2, temperature => 0) = llm_generate('x', model => 'plain', max_tokens => 2, temperature => 0)}), 't',
	'... and are there again');
sql(q{SELECT llm_drop_model('away')});

# for all models: those that can't use it run without, and log that
$node->append_conf('postgresql.conf', qq{vllm.speculative_config = '{"method": "mtp"}'\n});
$node->reload;
sql("SELECT llm_unload_model('plain'), llm_unload_model('plain_mtp')");
is(answers('plain'), $want{target}, 'the setting is not for this model');
is(answers('plain_mtp'), $want{target_mtp}, 'the setting is for this one');
like(slurp_file($node->logfile), qr/no speculative decoding with this model: the model's files have no layer that drafts tokens/, 'the log says so');
cmp_ok(sql(sprintf($figures =~ s/m0/plain_mtp/r, 'draft_tokens')), '>', 0, 'drafts by the setting');
cmp_ok(sql("SELECT memory_bytes FROM llm_models WHERE name = 'plain_mtp'"), '>', sql("SELECT weight_bytes FROM llm_models WHERE name = 'plain_mtp'"), 'and K and V');

# and those whose files turn out to be unusable only when they are read
my $wrong = model('eagle3', 'wrong');
open(my $fh, '+<:raw', "$wrong/model.safetensors") or die;
read($fh, my $size, 8) == 8 or die;
read($fh, my $head, unpack('Q<', $size)) or die;
$head =~ /"d2t":\{[^}]*"data_offsets":\[(\d+)/ or die;
seek($fh, 8 + length($head) + $1, 0) or die;
print $fh pack('q<', 1 << 20);
close($fh) or die;
$node->append_conf('postgresql.conf', qq{vllm.speculative_config = '{"model": "$wrong", "num_speculative_tokens": 2}'\n});
$node->reload;
sql("SELECT llm_unload_model('plain')");
is(answers('plain'), $want{target}, 'files that are wrong are left out');
like(slurp_file($node->logfile), qr/no speculative decoding with this model: tensor "d2t" .* has a token that the model doesn't have/, 'the log says so, too');

# ---- errors ----

sub refused
{
	my ($target, $config, $what, $name) = @_;
	fails(qq{SELECT llm_create_model('no', '$path{$target}', '{"speculative_config": $config}')}, $what, $name);
	return;
}

refused('target', '{"method": "mtp"}', qr/22023.*have no layer that drafts tokens/, 'no MTP layer');
refused('target', qq{{"model": "$top/nothing", "num_speculative_tokens": 2}}, qr/58030.*could not open/, 'no such files');
refused('target', qq{{"model": "$path{medusa}", "num_speculative_tokens": 9}}, qr/22023.*must be at most 4 with these files, got 9/, 'more than heads');
refused('target', qq{{"model": "$path{target}"}}, qr/22023.*"num_speculative_tokens" must be given/, 'nobody says how many');
refused('target', qq{{"method": "eagle", "model": "$path{medusa}", "num_speculative_tokens": 2}}, qr/XX001/, 'not the method of the files');
refused('target', qq{{"method": "medusa", "model": "medusa"}}, qr/22023.*absolute path/, 'a relative path');
refused('target', qq{{"method": "ngram", "num_speculative_tokens": 2, "model": "$path{medusa}"}}, qr/22023.*does not apply to the method "ngram"/, 'no weights');
my $other = getcwd() . '/models/tickets-2m';
refused('target', qq{{"model": "$other", "num_speculative_tokens": 2}}, qr/(22023.*a different vocabulary|58030)/, 'another vocabulary');

my $cut = model('medusa', 'cut');
truncate "$cut/model.safetensors", 500 or die;
refused('target', qq{{"method": "medusa", "model": "$cut"}}, qr/XX001/, 'a truncated file');

# a role that may not name a file of the server may not name the drafter's, either
sql('CREATE ROLE visitor LOGIN; GRANT EXECUTE ON FUNCTION llm_create_model, llm_inspect_model TO visitor; GRANT USAGE ON SCHEMA public TO visitor');
fails(qq{SET ROLE visitor; SELECT llm_create_model('no', '$path{target}', '{"speculative_config": {"model": "$path{medusa}"}}')}, qr/42501/, 'llm_create_model');
fails(qq{SET ROLE visitor; SELECT llm_inspect_model('$path{target}', '{"speculative_config": {"model": "$path{medusa}"}}')}, qr/42501/, 'llm_inspect_model');

$node->stop;
done_testing();
