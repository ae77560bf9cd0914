# Speculation from texts with the bundled model: outputs are the same with and without, whatever the
# parameters; its metrics, the setting and the model option, and errors.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('speculation');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }

sub fails
{
	my ($sql, $what, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, $what, $name);
	return;
}

my $path = '(SELECT path FROM llm_models WHERE name = \'tickets-2m\')';
my %config = (
	ngram => '{"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_min": 1, "prompt_lookup_max": 4}',
	suffix => '{"method": "suffix", "suffix_decoding_max_spec_factor": 2}');
sql(qq{SELECT llm_create_model('$_', $path, options => '{"speculative_config": $config{$_}}')}) for keys %config;

# ---- the same outputs ----

# 50 prompts, many alike; and parameters that look at the tokens so far
my $prompt = q{'Ticket: I ordered the Volt scale ' || i / 4 || ' on 2026-06-0' || i % 9 || ', order number #2223' || i % 10 || '. It is broken. Regards, Marco Koch' || E'\nJSON:'};
my %asked = (
	'greedy' => 'temperature => 0',
	'drawn' => 'temperature => 0.7, seed => i',
	'penalties' => 'temperature => 0.5, seed => i, repetition_penalty => 1.2, frequency_penalty => 0.3, bad_words => ARRAY[\'Volt\']',
	'stop' => 'temperature => 0, stop => ARRAY[\'order\', \'ale"\'], min_tokens => 3',
	'length' => 'temperature => 0, max_tokens => 3 + i % 12, ignore_eos => true',
	'grammar' => q{temperature => 0.4, seed => i, max_tokens => 60, json_schema => '{"type": "object", "properties": {"customer": {"type": "string", "maxLength": 20}, "order": {"type": "string", "pattern": "^#[0-9]{5}$"}}, "required": ["customer", "order"]}'},
	'choice' => q{temperature => 1, seed => i, choice => ARRAY['positive', 'positively', 'negative']},
);

sub answers
{
	my ($model, $asked) = @_;
	return sql(qq{SELECT md5(string_agg((r).text || (r).finish_reason || coalesce((r).stop_reason, '-') || ((r).usage).completion_tokens, '|' ORDER BY i)) FROM
		(SELECT i, llm_generate_full($prompt, model => '$model', $asked{$asked}) AS r FROM generate_series(1, 50) i OFFSET 0) x});
}
for my $asked (sort keys %asked)
{
	my $want = answers('tickets-2m', $asked);
	is(answers($_, $asked), $want, "$asked: $_") for sort keys %config;
}

my $logprobs = q{SELECT llm_output_json(llm_output(E'Ticket: The Volt scale is broken. The Volt scale is broken.\nJSON:', model => '%s', temperature => 0.8, seed => 3, n => 3, logprobs => 2, prompt_logprobs => 1))::jsonb - 'model' - 'id' - 'created' - 'metrics'};
my $want = sql(sprintf($logprobs, 'tickets-2m'));
is(sql(sprintf($logprobs, $_)), $want, "log-probabilities of several answers: $_") for sort keys %config;

# ---- metrics ----

sub figure
{
	my ($model, $name) = @_;
	return sql("SELECT coalesce(sum(value), 0)::int FROM llm_metrics() WHERE name = 'vllm:spec_decode_$name' AND labels ->> 'model_name' = '$model'");
}

is(figure('tickets-2m', 'num_draft_tokens_total'), 0, 'no drafts without speculation');
for (sort keys %config)
{
	# how many drafts are worth their rows depends on the time of steps: on a busy machine there may be none
	# for a while
	for my $try (1 .. 20) { last if figure($_, 'num_accepted_tokens_total') > 0; answers($_, 'greedy') }
	my ($drafts, $tokens, $accepted) = (figure($_, 'num_drafts_total'), figure($_, 'num_draft_tokens_total'), figure($_, 'num_accepted_tokens_total'));
	ok($drafts > 0 && $tokens >= $drafts && $accepted > 0 && $accepted <= $tokens, "$_: $drafts drafts of $tokens tokens, $accepted were right");
	is(figure($_, 'num_accepted_tokens_per_pos_total'), $accepted, "$_: those by position add up");
}
like(sql('SELECT llm_metrics_text()'), qr/^vllm:spec_decode_num_accepted_tokens_per_pos_total\{.*model_name="suffix".*position="0".*\} \d+$/m, 'as text');

# ---- the setting ----

$node->append_conf('postgresql.conf', qq{vllm.speculative_config = '{"method": "suffix"}'});
$node->reload;
sql(qq{SELECT llm_create_model('by_setting', $path, options => '{"max_model_len": 1000}')});
sql(qq{SELECT llm_create_model('not', $path, options => '{"speculative_config": false}')});
is(answers($_, 'greedy'), answers('tickets-2m', 'greedy'), "the setting: $_") for qw(by_setting not);
cmp_ok(figure('by_setting', 'num_drafts_total'), '>', 0, 'the setting holds for models loaded from now on');
is(figure('not', 'num_drafts_total'), 0, '... but for those that say no');
fails(q{ALTER SYSTEM SET vllm.speculative_config = 'suffix'}, qr/22023.*invalid value.*must be a JSON object/s, 'no object');
fails(q{ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix", "speed": 3}'}, qr/22023.*Key "speed" is not known/s, 'a key that nobody knows');
fails(q{ALTER SYSTEM SET vllm.speculative_config = '{"method": "warp", "num_speculative_tokens": 3}'}, qr/22023.*Key "method" must be ngram, suffix,.* or mtp, got "warp"/s, 'a method that nobody knows');
# a file with such a value is read without it
$node->append_conf('postgresql.conf', q{vllm.speculative_config = '{"method": "warp", "num_speculative_tokens": 3}'});
$node->reload;
ok(VllmTest::until_sql($node, q{SELECT count(*) = 1 FROM pg_file_settings WHERE name = 'vllm.speculative_config' AND error IS NOT NULL}), '... or in a file');
is(sql('SHOW vllm.speculative_config'), '{"method": "suffix"}', '... in which case the value before holds');
# only the load of a model finds out which files there are
$node->append_conf('postgresql.conf', q{vllm.speculative_config = '{"model": "/nowhere/at/all", "num_speculative_tokens": 3}'});
$node->reload;
ok(VllmTest::until_sql($node, q{SELECT setting ~ 'nowhere' FROM pg_settings WHERE name = 'vllm.speculative_config'}), 'a draft model that is not there is taken');
sql(q{SELECT llm_unload_model('by_setting')});
is(answers('by_setting', 'greedy'), answers('tickets-2m', 'greedy'), '... and the model is loaded without it');
like(slurp_file($node->logfile), qr{no speculative decoding with this model: .*/nowhere/at/all}, '... as the log says');

# the postmaster, which has no encoding, checks the setting when it rereads its files
sql(q{ALTER SYSTEM SET vllm.speculative_config = '{"model": "/caf\u00e9"}'});
$node->reload;
ok(VllmTest::until_sql($node, q{SELECT setting ~ 'caf' FROM pg_settings WHERE name = 'vllm.speculative_config'}), 'a text beyond ASCII is taken');
is(sql('SELECT 1'), 1, '... and the server is there');
sql('ALTER SYSTEM RESET vllm.speculative_config');
$node->reload;

# ---- errors ----

for (
	[ '{"method": "ngram"}', 'key "num_speculative_tokens" must be given' ],
	[ '{"method": "ngram", "num_speculative_tokens": 0}', 'key "num_speculative_tokens" must be an integer between 1 and 32, got 0' ],
	[ '{"method": "magic"}', 'key "method" must be ngram' ],
	[ '{}', 'must have a "method" (ngram' ],
	[ '{"model": 5}', 'key "model" must be an absolute path, got 5' ],
	[ '{"method": "suffix", "prompt_lookup_max": 3}', 'key "prompt_lookup_max" does not apply to the method "suffix"' ],
	[ '{"method": "suffix", "speed": 3}', 'unknown speculative_config key "speed"' ],
	[ '3', 'must be a JSON object, or false, got 3' ])
{
	my ($config, $what) = @$_;
	fails(qq{SELECT llm_create_model('no', $path, options => '{"speculative_config": $config}')}, qr/22023.*\Q$what\E/s, $what);
}

my $top = PostgreSQL::Test::Utils::tempdir_short();
mkdir "$top/state" or die;
copy($_, "$top/state/" . (split /\//)[-1]) or die "$_: $!" for glob(getcwd() . '/fixtures/models/falcon_mamba_f16/*');
fails(qq{SELECT llm_create_model('no', '$top/state', options => '{"speculative_config": {"method": "suffix"}}')},
	qr/0A000.*speculative_config is not supported with this model.*recurrent state/s, 'recurrent state');
$node->append_conf('postgresql.conf', qq{vllm.speculative_config = '{"method": "suffix"}'});
$node->reload;
sql(qq{SELECT llm_create_model('state', '$top/state'), llm_load_model('state')});
is(sql(q{SELECT length(llm_generate('abc', model => 'state', max_tokens => 3)) >= 0}), 't', '... which the setting passes over');

$node->stop;
done_testing();
