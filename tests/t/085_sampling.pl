# Sampling parameters with the bundled model, and logits processors: their effect on outputs, alone and in a
# batch.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('sampling');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return ($node->psql('postgres', shift))[2]; }

my $prompt = q{E'Ticket: The kettle arrived broken and I want my money back.\nSummary:'};
my $greedy = sql("SELECT llm_generate($prompt, max_tokens => 24, temperature => 0)");
isnt($greedy, '', 'there is an answer to change');

# logit_bias, allowed_token_ids
is(sql(qq{SELECT DISTINCT unnest(token_ids) FROM llm_generate_full($prompt, max_tokens => 6, temperature => 0, logit_bias => '{"65": 100}')}),
	'65', 'logit_bias of 100 makes the token');
is( sql(qq{SELECT bool_and(t IN (40, 41, 42)), count(DISTINCT t) > 1 FROM generate_series(1, 8) s,
	LATERAL (SELECT unnest((llm_generate_full($prompt, max_tokens => 8, temperature => 2, seed => s, allowed_token_ids => '{40,41,42}')).token_ids) t) x}),
	't|t', 'only the allowed ids come, EOS among the others');
is( sql(qq{SELECT finish_reason, stop_reason, cardinality(token_ids) FROM llm_generate_full($prompt, max_tokens => 30, temperature => 0, logit_bias => '{"65": 100}',
	params => '{"repetition_detection": {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 5}}')}),
	'repetition|repetition_detected|5', 'a repeated token ends the answer');

# bad_words: with and without a space before it
my ($word) = $greedy =~ /(\w{3,})/;
unlike(sql("SELECT llm_generate($prompt, max_tokens => 24, temperature => 0, bad_words => '{$word}')"), qr/\b$word\b/, "\"$word\" is banned");
like($greedy, qr/\b$word\b/, '... and was there');

# penalties
my $n = 'cardinality(token_ids), (SELECT count(DISTINCT t) FROM unnest(token_ids) t)';
is(sql(qq{SELECT $n FROM llm_generate_full($prompt, max_tokens => 30, temperature => 0, ignore_eos => true, repetition_penalty => 1e6)}),
	'30|30', 'a heavy repetition_penalty: no token twice');
is( sql(qq{SELECT bool_and(t <> ALL (llm_tokenize($prompt))) FROM unnest((llm_generate_full($prompt, max_tokens => 30, temperature => 0, ignore_eos => true,
	repetition_penalty => 1e6)).token_ids) t}), 't', '... nor one of the prompt');
my $plain = sql(qq{SELECT count(DISTINCT t) FROM unnest((llm_generate_full('a a a a', max_tokens => 60, temperature => 0, ignore_eos => true)).token_ids) t});
my $varied = sql(qq{SELECT count(DISTINCT t) FROM unnest((llm_generate_full('a a a a', max_tokens => 60, temperature => 0, ignore_eos => true,
	presence_penalty => 2, frequency_penalty => 2)).token_ids) t});
cmp_ok($varied, '>', $plain, "frequency and presence: $varied different tokens instead of $plain");

# the same outputs whatever else runs: batched, row by row, preempted
my $all = qq{SELECT md5(string_agg(x, '|' ORDER BY i)) FROM (SELECT i, llm_generate($prompt || i, max_tokens => 30, temperature => 1, seed => i,
	repetition_penalty => 1 + (i % 3) / 4.0, frequency_penalty => (i % 5 - 2) / 2.0, logit_bias => format('{"%s": 2}', i % 50)::json,
	bad_words => CASE WHEN i % 2 = 0 THEN ARRAY['the', 'a'] END, min_tokens => i % 4, stop => '{.}') x FROM generate_series(1, 48) i) s};
my $want = sql("SET vllm.batch = off; $all");
is(sql($all), $want, 'batched and row by row: the same');
my @bg = map { bg($node, $all) } 1 .. 3;
is(scalar(finish($_)), $want, 'beside others: the same') for @bg;

# many choices and one request: it doesn't wait for all of them, and the state is consistent meanwhile
my $many = bg($node, q{SELECT count(*) FROM llm_completions('Ticket:', n => 1500, temperature => 1.5, max_tokens => 60, ignore_eos => true)});
ok(until_sql($node, q{SELECT waiting > 100 FROM llm_stat_engine}), 'many answers wait');
is(sql(qq{SELECT llm_generate($prompt, max_tokens => 24, temperature => 0)}), $greedy, 'another session gets its answer');
cmp_ok(sql(q{SELECT waiting FROM llm_stat_engine}), '>', 50, '... long before they are through');
is(sql(q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
is(scalar(finish($many)), '1500', 'all of them');

# many log-probabilities take the memory of their values, and little more
is( sql(q{SELECT sum(cardinality(logprobs)) > 200000 FROM llm_completions('Ticket:', n => 64, temperature => 1, seed => 1, max_tokens => 200, ignore_eos => true, logprobs => 20);
	SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\\s+(\\d+)'))[1]::int < 400000}), "t\nt", 'memory of log-probabilities');

# truncation
is( sql(qq{SELECT (usage).prompt_tokens FROM llm_generate_full(repeat('word ', 200), max_tokens => 3, truncate => 7)}), '7', 'truncate to 7 tokens');
is( sql(qq{SELECT llm_generate('the kettle arrived broken', max_tokens => 8, temperature => 0, truncate => 3) =
	llm_generate('an article that I bought: the kettle arrived broken', max_tokens => 8, temperature => 0, truncate => 3)}), 't', 'the last tokens are kept');
is( sql(qq{SELECT llm_generate('one two three four', max_tokens => 8, temperature => 0, truncate => 3, params => '{"truncation_side": "right"}') =
	llm_generate('one two three five six', max_tokens => 8, temperature => 0, params => '{"truncation_side": "right", "truncate_prompt_tokens": 3}')}),
	't', 'or the first');
my $max = sql(q{SELECT (llm_inspect_model(path)->>'max_model_len')::int FROM llm_models WHERE name = 'tickets-2m'}) || 0;
like(error("SELECT llm_generate(repeat('word ', 20000), max_tokens => 10)"), qr/longer than the maximum model length/, 'too long a prompt');
is(sql(qq{SELECT (usage).completion_tokens <= 10 FROM llm_generate_full(repeat('word ', 20000), max_tokens => 10, ignore_eos => true, truncate => -1)}),
	't', 'truncate -1 leaves room for the answer');
is(sql(qq{SELECT (usage).completion_tokens FROM llm_generate_full(repeat('word ', 20000), max_tokens => 10, ignore_eos => true, truncate => -1)}),
	'10', '... for all of it');

# checks that depend on the model
like(error(q{SELECT llm_generate('x', logit_bias => '{"99999999": 1}')}), qr/logit_bias names token 99999999, but the model's tokens are 0 to \d+/, 'an id out of the vocabulary');
like(error(q{SELECT llm_generate('x', allowed_token_ids => '{99999999}')}), qr/allowed_token_ids must be between 0 and/, 'likewise');
like(error(q{SELECT llm_generate('x', allowed_token_ids => '{}')}), qr/allowed_token_ids must not be empty/, 'nothing allowed');
like(error(q{SELECT llm_generate('x', bad_words => '{" "}')}), qr/white space alone/, 'a word of white space');
like(error(q{SELECT llm_generate('x', allowed_token_ids => '{2}', min_tokens => 2, stop_token_ids => '{2}', max_tokens => 5)}),
	qr/leave no token to choose from/, 'parameters that leave nothing');
is(sql(q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');

# what the log-probabilities are computed from
for my $mode (qw(processed_logprobs processed_logits raw_logits raw_logprobs))
{
	sql("ALTER SYSTEM SET vllm.logprobs_mode = '$mode'");
	sql('SELECT pg_reload_conf()');
	sql(q{SELECT llm_unload_model('tickets-2m')});
	my $got = sql(qq{SELECT count(*) FILTER (WHERE logprob > '-infinity'), round(sum(exp(logprob))::numeric, 3), min(logprob) >= 0 FROM
		(SELECT (unnest(logprobs)).* FROM llm_completions($prompt, n => 2, max_tokens => 1, temperature => 0.7, seed => 1, top_k => 2, logprobs => 4)) l WHERE logprob > -700});
	like($got, $mode eq 'processed_logprobs' ? qr/^4\|2.000\|f/ : $mode eq 'processed_logits' ? qr/^4\|\d+/ : $mode eq 'raw_logits' ? qr/^(8|9|10)\|\d+/ : qr/^(8|9|10)\|[01]\.\d+\|f/,
		"vllm.logprobs_mode = $mode");
}
like(error("ALTER SYSTEM SET vllm.logprobs_mode = 'cooked'"), qr/invalid value/, 'no such mode');

# ---- logits processors ----
like(error(q{SELECT llm_generate('x', params => '{"extra_args": {"favor": 65}}')}), qr/no logits processor takes these extra_args/,
	'extra_args without a processor');
SKIP:
{
	my $lib = $ENV{VLLM_PG_PROCESSORS} // '';
	skip 'no example processors were built (VLLM_PG_PROCESSORS)', 27 if !-r $lib;
	$node->append_conf('postgresql.conf', "vllm.logits_processors = '$lib:favor, $lib:no_twice,$lib:sharpen , $lib:broken'\n");
	$node->restart;
	sub with { return qq{llm_generate_full($prompt, max_tokens => 6, ignore_eos => true, } . shift . ')'; }
	is(sql(q{SELECT array_agg(DISTINCT t) FROM (SELECT unnest(token_ids) t FROM } . with(q{params => '{"extra_args": {"favor": 65}}'}) . ') s'), '{65}',
		'a processor by extra_args');
	is(sql(q{SELECT (SELECT count(*) FROM (SELECT t, lag(t) OVER (ORDER BY n) AS before FROM unnest(token_ids) WITH ORDINALITY u (t, n)) s WHERE t = before), token_ids[1] FROM }
		. with(q{params => '{"extra_args": {"favor": 65, "no_twice": 1}}'})), '0|65', 'two of them');
	is(sql('SELECT token_ids FROM ' . with(q{temperature => 1.5, seed => 3, params => '{"vllm_xargs": {"sharpen": 1e5}}'})),
		sql('SELECT token_ids FROM ' . with('temperature => 0')), 'one behind the temperature');
	is(sql("SELECT llm_generate($prompt, max_tokens => 24, temperature => 0)"), $greedy, 'who asks for none gets what was before');
	is(sql($all), $want, '... in company, too');
	my $mixed = qq{SELECT md5(string_agg(x, '|' ORDER BY i)) FROM (SELECT i, llm_generate($prompt || i, max_tokens => 20, temperature => 1, seed => i,
		repetition_penalty => 1.2, params => CASE i % 4 WHEN 0 THEN '{}' WHEN 1 THEN '{"extra_args": {"no_twice": 1}}' WHEN 2 THEN '{"extra_args": {"sharpen": 1.5}}'
			ELSE '{"extra_args": {"favor": 70, "by": 3, "no_twice": 1}}' END::json) x FROM generate_series(1, 40) i) s};
	my $alone = sql("SET vllm.batch = off; $mixed");
	is(sql($mixed), $alone, 'batched and row by row: the same');
	my @b = map { bg($node, $_ == 2 ? $all : $mixed) } 1 .. 3;
	is(scalar(finish($b[$_])), $_ == 1 ? $want : $alone, 'beside others: the same') for 0 .. 2;
	like(error(q{SELECT llm_generate('x', params => '{"extra_args": {"favor": "me"}}')}), qr/extra_args: favor must be a token id/, 'a processor refuses arguments');
	like(error('\set VERBOSITY verbose' . "\n" . q{SELECT llm_generate('x', params => '{"extra_args": {"favor": "me"}}')}), qr/22023.*logits processor=favor/s,
		'... as a bad parameter, and is named');
	like(error(q{SELECT llm_generate('x', params => '{"extra_args": {"other": 1}}')}), qr/no logits processor takes these/, 'arguments for nobody');
	like(error(q{SELECT llm_generate('x', params => '{"extra_args": {"broken": 1}}')}), qr/logits processor "broken" failed/, 'a processor fails');
	for ([1, '58000', 'logits processor "broken" failed'], [2, '58000', 'logits processors made logits that are not numbers'],
		[3, '22023', 'leave no token to choose from'], [5, '58000', 'logits processors made logits that are not numbers'])
	{
		my ($how, $state, $message) = @$_;

		for my $t (0, 1)
		{
			like(error('\set VERBOSITY verbose' . "\n" . qq[SELECT llm_generate('x', temperature => $t, params => '{"extra_args": {"broken": $how}}')]), qr/$state: .*$message/,
				"... $how at temperature $t: $state");
		}
	}
	is(sql('SELECT count(*) FROM generate_series(1, 5) i, LATERAL (SELECT llm_generate(i::text, max_tokens => 3)) s'), '5', '... and others go on');
	like(error(q{SELECT llm_generate('x', params => '{"extra_args": {"broken": 4}}')}), qr/engine/, 'a processor ends the engine');
	ok(until_sql($node, q{SELECT state = 'ready' FROM llm_stat_engine}), '... which starts again; the database goes on');
	is(sql("SELECT llm_generate($prompt, max_tokens => 24, temperature => 0)"), $greedy, '... and answers');
	$node->append_conf('postgresql.conf', "vllm.logits_processors = '$lib:nobody'\n");
	$node->restart;
	like(error(q{SELECT llm_generate('x')}), qr/ engine /, 'a processor that is not there: the engine does not start');
	ok($node->log_contains(qr/has no symbol "nobody"/), '... and the log says why');
}

$node->stop;
done_testing();
