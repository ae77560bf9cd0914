# Each request is counted once, and ends once, in each of the engine's metrics, the model's and the role's,
# however it ends: refused, timed out, cancelled, abandoned by its session.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use JSON::PP ();
use Exposition;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('accounting');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 30\nvllm.kv_cache_memory_bytes = '16MB'\ncompute_query_id = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
sub sql { return $node->safe_psql('postgres', shift); }
sql("SELECT llm_load_model('tickets-2m')");

# All counts of requests.
sub figures
{
	my $m = read_exposition(sql('SELECT llm_metrics_text()') . "\n");
	my %f = (
		(map { ("end_$_" => sample($m, 'vllm:request_success_total', model_name => 'tickets-2m', finished_reason => $_)) } qw(stop length repetition abort error)),
		come => sample($m, 'vllm_pg:requests_total', model_name => 'tickets-2m'),
		longest => sample($m, 'vllm:request_max_num_generation_tokens_sum', model_name => 'tickets-2m'),
		engine => sql('SELECT requests || \' \' || finished || \' \' || failed || \' \' || cancelled FROM llm_stat_engine'),
		role => sql(q{SELECT concat_ws(' ', sum(requests), sum(errors), sum(cancelled)) FROM llm_stat_role}) || '0 0 0',
		tokens => sql('SELECT coalesce(sum(output_tokens), 0) FROM llm_stat_role'));
	$f{ended} = $f{end_stop} + $f{end_length} + $f{end_repetition} + $f{end_abort} + $f{end_error};
	return \%f;
}

sub less { my ($a, $b) = map { [ split / / ] } @_; return join(' ', map { $a->[$_] - $b->[$_] } 0 .. $#$a); }

# Return what a statement adds: requests of the engine (arrived, finished, failed, cancelled), of the model
# (arrived, ended, of these aborted and failed), of the role (requests, errors, cancelled).
sub adds
{
	my ($statement, $engine, $model, $role, $what) = @_;
	my $before = figures();
	my $after;
	$node->psql('postgres', $statement, on_error_stop => 0);
	my $is;
	until_true(sub {
			$after = figures();
			$is = join(' / ', less($after->{engine}, $before->{engine}),
				join(' ', map { $after->{$_} - $before->{$_} } qw(come ended end_abort end_error)), less($after->{role}, $before->{role}));
			return $is eq "$engine / $model / $role"; });
	is($is, "$engine / $model / $role", $what);
	return ($before, $after);
}

adds("SELECT llm_generate('one', max_tokens => 3, ignore_eos => true)", '1 1 0 0', '1 1 0 0', '1 0 0', 'an answer');
adds("SELECT llm_generate(repeat('word ', 5000), max_tokens => 2)", '1 0 1 0', '1 1 0 1', '1 1 0', 'a prompt that is too long');
adds("SELECT llm_generate('')", '1 0 1 0', '0 0 0 0', '1 1 0', 'a prompt that no model sees');
adds(q{SELECT llm_api('/v1/completions', '{"model": "tickets-2m", "prompt": "x", "max_tokens": -5}')}, '1 0 1 0', '0 0 0 0', '1 1 0', 'a body that no model sees');
adds(q{SELECT llm_api('/v1/completions', '{"model": "tickets-2m", "prompt": "x", "n": 2, "temperature": 0}')}, '1 0 1 0', '1 1 0 1', '1 1 0', 'a body that a model refuses');

for (['{"model": "tickets-2m", "prompt": "x", "max_tokens": -5}', '1 0 1 0', '0 0 0 0', '1 1 0'], ['{"model": "tickets-2m", "prompt": "x", "n": 2, "temperature": 0}', '1 0 1 0', '1 1 0 1', '1 1 0'],
	['{"model": "nobody", "prompt": "x"}', '0 0 0 0', '0 0 0 0', '0 0 0'], ['{"model": "tickets-2m", "prompt": ["x", "y"], "max_tokens": 2, "ignore_eos": true}', '2 2 0 0', '2 2 0 0', '1 0 0'])
{
	adds("SELECT llm_api('/v1/completions', '$_->[0]', on_error => 'return')", @$_[1 .. 3], "told by a body: $_->[0]");
}
adds("SELECT llm_api('/v1/models')", '0 0 0 0', '0 0 0 0', '0 0 0', 'what no model answers is no request');

# timed out, whichever side notices it first, with its tokens
my $tokens = 0;
for (1 .. 4)
{
	my ($before, $after) = adds("SELECT llm_generate('long', max_tokens => 2000, ignore_eos => true, timeout_ms => 100)", '1 0 0 1', '1 1 1 0', '1 0 1', "past its time is cancelled ($_)");
	$tokens++ if $after->{tokens} > $before->{tokens};
}
is($tokens, 4, '... with the tokens that it got');
adds("SET statement_timeout = 100; SELECT llm_generate('long', max_tokens => 2000, ignore_eos => true)", '1 0 0 1', '1 1 1 0', '1 0 1', 'so is that of a statement');
adds("BEGIN; DECLARE c CURSOR FOR SELECT llm_generate_stream('long', max_tokens => 1500, ignore_eos => true); FETCH 2 FROM c; CLOSE c", '1 0 0 1', '1 1 1 0', '1 0 1', 'a cursor that is closed');

# requests that a session abandons when the engine has them
adds("DO \$\$ BEGIN PERFORM llm_submit('long', max_tokens => 1500, ignore_eos => true); WHILE (SELECT count(*) = 0 FROM llm_requests WHERE output_tokens > 0) LOOP PERFORM pg_sleep(0.01); END LOOP; END \$\$", '1 0 0 1', '1 1 1 0', '1 0 1', 'a future that nobody fetches');

# the engine is lost: so are its metrics, but not those of the role
{
	my ($before, $victim) = (figures(), bg($node, "SELECT llm_generate('long', max_tokens => 2000, ignore_eos => true) FROM generate_series(1, 3)"));
	until_sql($node, 'SELECT count(*) = 3 FROM llm_requests WHERE output_tokens > 5');
	kill 'KILL', sql('SELECT pid FROM llm_stat_engine');
	finish($victim);
	my $after = figures();
	is(less($after->{role}, $before->{role}), '3 3 0', 'requests of an engine that is killed have failed');
	cmp_ok($after->{tokens} - $before->{tokens}, '>', 15, '... with the tokens that they got');
	sql("SELECT llm_load_model('tickets-2m')");
}

# a beam search: the longest of its outputs counts, not all
my ($before, $after) = adds("SELECT count(*) FROM llm_beam_search('beam it', beam_width => 3, max_tokens => 4, ignore_eos => true)", '1 1 0 0', '1 1 0 0', '1 0 0', 'a search');
is($after->{longest} - $before->{longest}, 4, '... of answers of four tokens');

# a request belongs to the session's statement, however deep it is called: with EXECUTE, to the prepared one
sql(q{CREATE FUNCTION loops(n int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE r record; c int := 0;
	BEGIN
		FOR r IN SELECT llm_generate('l' || g, max_tokens => 1) FROM generate_series(1, n) g LOOP c := c + 1; END LOOP;
		RETURN c;
	END $$});
sql('SELECT llm_stat_reset()');
$node->psql('postgres', 'PREPARE p(text) AS SELECT loops($1::int); EXECUTE p(3); EXECUTE p(2); EXECUTE p(\'none\'); SELECT loops(1)', on_error_stop => 0);
sql('SELECT loops(1)');
is(sql("SELECT string_agg(calls || ' ' || requests, ', ' ORDER BY requests) FROM llm_stat_query"), '2 2, 2 5', 'a prepared statement is one query, and what follows its error another');
sql('PREPARE p(text) AS SELECT loops($1::int); EXECUTE p(1)');
is(sql("SELECT string_agg(calls || ' ' || requests, ', ' ORDER BY requests) FROM llm_stat_query"), '2 2, 3 6', '... in each session');

# an existing file is not touched if there is no profile
my $file = sql('SHOW data_directory') . '/there.json';
append_to_file($file, 'already');
is($node->psql('postgres', "SELECT llm_stop_profile('$file')"), 3, 'no profile');
is(slurp_file($file), 'already', '... and what the file had is there');
sql("SELECT llm_start_profile()");
sql("SELECT llm_stop_profile('$file')");
like(slurp_file($file), qr/^\{"displayTimeUnit".*\}\s*$/s, '... until there is one');

# lives of blocks: all of them, in a small cache
sql(q{ALTER SYSTEM SET vllm.kv_cache_metrics_sample = 1});
$node->reload;
sql(q{SELECT llm_create_model('small', (SELECT path FROM llm_models WHERE name = 'tickets-2m'), options => '{"kv_cache_memory_bytes": 1048576, "max_model_len": 128, "max_num_seqs": 4}')});
my $common = 'the same words at the beginning of all prompts of this test, ' x 3;
sql("SELECT llm_generate('$common $_', model => 'small', max_tokens => 2, ignore_eos => true)") for 1 .. 3;
sub life { my $m = read_exposition(sql('SELECT llm_metrics_text()') . "\n"); return map { sample($m, "vllm:kv_block_$_", model_name => 'small') } @_; }
is(join(' ', life(qw(lifetime_seconds_count idle_before_evict_seconds_count reuse_gap_seconds_count))), '0 0 0', 'nothing has been evicted');
sql("SELECT llm_generate(repeat(g || ' ', 40), model => 'small', max_tokens => 2, ignore_eos => true) FROM generate_series(1, 30) g");
my ($ended, $idle, $gaps, $lived, $unused) = life(qw(lifetime_seconds_count idle_before_evict_seconds_count reuse_gap_seconds_count lifetime_seconds_sum idle_before_evict_seconds_sum));
cmp_ok($ended, '>', 20, "$ended blocks have been evicted");
is($idle, $ended, '... each of which was found or begun once');
cmp_ok($gaps, '>=', 2, "... and some found again and again ($gaps times)");
cmp_ok($lived, '>', $unused, '... so they have lived longer than nobody wanted them');
sql("SELECT llm_unload_model('small')");
is((life('lifetime_seconds_count'))[0], $ended, 'a model that is unloaded keeps them');

# drafts, of each request, by role and model: as many as in the metrics
sql(q{SELECT llm_create_model('guesses', (SELECT path FROM llm_models WHERE name = 'tickets-2m'),
	options => '{"speculative_config": {"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_min": 1, "prompt_lookup_max": 4}}')});
sql('SELECT llm_stat_reset()');
sql(q{SELECT llm_generate(repeat('the same again and ', 20), model => 'guesses', max_tokens => 60, temperature => 0, ignore_eos => true)});
sql(q{SELECT llm_completions(repeat('the same again and ', 20), model => 'guesses', n => 2, max_tokens => 60, temperature => 0.01, seed => 1, ignore_eos => true)});
sub guesses { my $m = read_exposition(sql('SELECT llm_metrics_text()') . "\n"); return join(' ', map { sample($m, "vllm:spec_decode_num_${_}_tokens_total", model_name => 'guesses') } qw(draft accepted)); }
sub counted { return sql("SELECT sum(draft_tokens) || ' ' || sum(accepted_tokens) FROM $_[0]"); }
like(guesses(), qr/^[1-9]\d* [1-9]\d*$/, 'drafts ' . guesses());
is(counted('llm_stat_role'), guesses(), '... of a role');
is(counted('llm_stat_query'), guesses(), '... of queries');
is(counted("llm_stat_model WHERE name = 'guesses'"), guesses(), '... of a model');
sql(q{SELECT llm_api('/v1/completions', json_build_object('model', 'guesses', 'prompt', json_build_array(repeat('the same again and ', 20), repeat('once more and ', 20)), 'max_tokens', 60, 'temperature', 0, 'ignore_eos', true))});
is(counted('llm_stat_role'), guesses(), '... of a body of two prompts');

# the view of models: how requests have ended, and how long they took
is(sql(q{SELECT requests || ' ' || finished || ' ' || failed || ' ' || cancelled FROM llm_stat_model WHERE name = 'guesses'}), '4 4 0 0', 'requests of a model');
is(sql(q{SELECT bool_and(requests = finished + failed + cancelled) FROM llm_stat_model}), 't', '... of all: each has ended');
is(sql(q{SELECT mean_queue_ms < mean_ttft_ms AND mean_ttft_ms < mean_e2e_ms AND mean_tpot_ms * 59 < mean_e2e_ms * 1.1 FROM llm_stat_model WHERE name = 'guesses'}), 't', 'means of times');

# estimates of operations and bytes, computed from the model's config.json
{
	my $conf = JSON::PP->new->decode(slurp_file(sql(q{SELECT path || '/config.json' FROM llm_models WHERE name = 'tickets-2m'})));
	my ($h, $inter, $layers, $heads, $kv, $dim, $vocab) = map { $conf->{$_} } qw(hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim vocab_size);
	my $estimates = sub { my $m = read_exposition(sql('SELECT llm_metrics_text()') . "\n"); return join(' ', map { sample($m, "vllm:estimated_${_}_per_gpu_total", model_name => 'tickets-2m') } qw(flops read_bytes write_bytes)); };
	my $layer = $h * ($heads + 2 * $kv) * $dim + $heads * $dim * $h + 3 * $h * $inter;
	my ($p, $n) = (sql("SELECT cardinality(llm_tokenize('a prompt that nobody has asked for'))"), 9);
	my $was = $estimates->();
	sql('SELECT llm_reset_prefix_cache()');
	sql("SELECT llm_generate('a prompt that nobody has asked for', max_tokens => $n, ignore_eos => true)");
	my $pairs = 0;
	$pairs += $_ for 1 .. $p + $n - 1;
	my $seen = 0;
	$seen += $_ for $p .. $p + $n - 1;
	my $token = 2 * $kv * $dim * 2;
	is(less($estimates->(), $was), join(' ', 2 * (($p + $n - 1) * $layer * $layers + $n * $vocab * $h) + 4 * $heads * $dim * $pairs * $layers,
			$n * 2 * ($layer * $layers + $vocab * $h) + $seen * $layers * $token, ($p + $n - 1) * $layers * $token), 'operations and bytes of a request');
}

is(sql('SELECT slots_total - slots_free FROM llm_stat_engine'), 0, 'all slots are free');
$node->stop;
done_testing();
