# What the engine reports about itself: metrics of a workload of known lengths, statistics by query and
# role, the log of slow requests, profiles, the dashboard.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use JSON::PP ();
use Exposition;
use VllmTest;
use Time::HiRes qw(usleep);

# ---- metrics: the bundled model, every counter exact ----

my $node = PostgreSQL::Test::Cluster->new('observe');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 30\nvllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
sub sql { return $node->safe_psql('postgres', shift); }
sub metrics { return read_exposition(sql('SELECT llm_metrics_text()') . "\n"); }

is(eval { metrics(); 'ok' } // $@, 'ok', 'an engine without a model has metrics in order');
sql("SELECT llm_load_model('tickets-2m')");
my $m = eval { metrics() };
is($@, '', 'a model that has done nothing: metrics in order');
is(sample($m, 'vllm:num_requests_running', model_name => 'tickets-2m'), 0, 'a gauge of it');
is(sample($m, 'vllm:e2e_request_latency_seconds_count', model_name => 'tickets-2m'), 0, 'a histogram of it');

# prompt, output tokens, choices
my @work = (['Ticket: the kettle is broken.', 5, 1], ['Where is my parcel? It should have come on Monday.', 1, 1], ['I want my money back', 8, 1],
	['Thanks for the quick help, all is well now!', 3, 2], ['Ticket: the kettle is broken.', 4, 1]);
my ($prompts, $outputs, $asked, $answers, $intervals, $rows, $cached, $tpot) = (0) x 8;
for (@work)
{
	my ($prompt, $max, $n) = @$_;
	my ($p, $o, $c) = split /\|/, sql($n == 1
		? "SELECT (usage).prompt_tokens, (usage).completion_tokens, (usage).cached_tokens FROM llm_generate_full('$prompt', max_tokens => $max, ignore_eos => true)"
		: "SELECT (usage).prompt_tokens, (usage).completion_tokens, (usage).cached_tokens FROM llm_output('$prompt', max_tokens => $max, ignore_eos => true, n => $n, temperature => 1, seed => 7)");
	is("$p $o", sql("SELECT cardinality(llm_tokenize('$prompt'))") . ' ' . $max * $n, "'$prompt' has known lengths");
	$prompts += $p;
	$outputs += $o;
	$cached += $c;
	$asked += $max;
	$answers += $n;
	$intervals += $max - 1;
	$rows += $p - $c + $n * ($max - 1);
	$tpot += $o > 1;
}
cmp_ok($cached, '>', 0, "the same prompt again is found ($cached tokens)");
$m = metrics();
my %is = (
	'vllm:prompt_tokens_total' => $prompts, 'vllm:generation_tokens_total' => $outputs, 'vllm:prompt_tokens_cached_total' => $cached,
	'vllm:prefix_cache_queries_total' => $prompts, 'vllm:prefix_cache_hits_total' => $cached, 'vllm:num_preemptions_total' => 0, 'vllm:corrupted_requests_total' => 0,
	'vllm_pg:requests_total' => scalar @work, 'vllm:num_requests_running' => 0, 'vllm:num_requests_waiting' => 0,
	'vllm:request_prompt_tokens_sum' => $prompts, 'vllm:request_generation_tokens_sum' => $outputs, 'vllm:request_prefill_kv_computed_tokens_sum' => $prompts - $cached,
	'vllm:request_max_num_generation_tokens_sum' => $asked, 'vllm:request_params_max_tokens_sum' => $asked, 'vllm:request_params_n_sum' => $answers,
	'vllm:inter_token_latency_seconds_count' => $intervals, 'vllm:iteration_tokens_total_sum' => $rows,
	'vllm:request_time_per_output_token_seconds_count' => $tpot,
	map { ("vllm:${_}_count" => scalar @work) } qw(time_to_first_token_seconds e2e_request_latency_seconds request_queue_time_seconds request_prefill_time_seconds
	  request_decode_time_seconds request_inference_time_seconds request_prompt_tokens request_generation_tokens request_max_num_generation_tokens request_params_n
	  request_params_max_tokens request_prefill_kv_computed_tokens));
is(sample($m, $_, model_name => 'tickets-2m'), $is{$_}, "$_ = $is{$_}") for sort keys %is;
is(sample($m, 'vllm:request_success_total', model_name => 'tickets-2m', finished_reason => 'length'), scalar @work, 'how they ended');
is(sample($m, 'vllm:request_success_total', model_name => 'tickets-2m', finished_reason => $_), 0, "none $_") for qw(stop abort error repetition);
is(sample($m, 'vllm:prompt_tokens_by_source_total', source => 'local_cache_hit'), $cached, 'where prompts came from');
my %sum = map { ($_ => sample($m, "vllm:${_}_seconds_sum", model_name => 'tickets-2m')) } qw(e2e_request_latency request_queue_time request_inference_time request_prefill_time request_decode_time time_to_first_token);
cmp_ok(abs($sum{request_queue_time} + $sum{request_inference_time} - $sum{e2e_request_latency}), '<', 1e-4, 'queue and inference add up to the whole');
cmp_ok(abs($sum{request_prefill_time} + $sum{request_decode_time} - $sum{request_inference_time}), '<', 1e-4, 'so do prefill and decode to inference');
cmp_ok(abs($sum{request_queue_time} + $sum{request_prefill_time} - $sum{time_to_first_token}), "<", 1e-3, '... and queue and prefill to the first token');
is(sample($m, 'vllm:kv_cache_usage_perc', model_name => 'tickets-2m'), 0, 'no block is in use when nothing runs');
my ($info) = @{ $m->{'vllm:cache_config_info'}{samples} };
cmp_ok($info->{labels}{num_gpu_blocks}, '>', 10, 'blocks of the KV cache');
is("$info->{value} $info->{labels}{block_size} $info->{labels}{enable_prefix_caching}", '1 16 True', 'the KV cache');

# ---- a profile ----

my $trace_id = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
my $plain = sql("SELECT llm_generate('What is the time?', max_tokens => 12, temperature => 0, ignore_eos => true)");
my $steps_before = sample(metrics(), 'vllm_pg:steps_total');
sql('SELECT llm_start_profile()');
is(sql("SET vllm.traceparent = '$trace_id'; SELECT llm_generate('What is the time?', max_tokens => 12, temperature => 0, ignore_eos => true)"), $plain, 'the same answer while a profile is recorded');
my $file = sql('SHOW data_directory') . '/profile.json';
is(sql("SELECT llm_stop_profile('$file') IS NULL"), 't', 'the profile goes into a file');
my $profile = eval { JSON::PP->new->decode(slurp_file($file)) };
is($@, '', '... as JSON');
my @steps = grep { $_->{name} eq 'step' } @{ $profile->{traceEvents} };
is(@steps, sample(metrics(), 'vllm_pg:steps_total') - $steps_before, 'each step is there');
my $sum = 0;
$sum += $_->{args}{rows} for @steps;
my ($request) = grep { $_->{name} eq 'request' && $_->{ph} eq 'b' } @{ $profile->{traceEvents} };
is($sum, $request->{args}{prompt_tokens} - $request->{args}{cached_tokens} + 11, 'steps have the rows of the prompt and of the answer');
is("$request->{args}{model} $request->{args}{output_tokens} $request->{args}{finish} $request->{args}{traceparent}", "tickets-2m 12 length $trace_id", 'what it says of the request');
# parts follow their step
my (@parts, $bad);
for my $e (@{ $profile->{traceEvents} }, { name => 'step', ph => 'X' })
{
	next if $e->{ph} ne 'X';
	if ($e->{name} ne 'step') { push @parts, $e; next }
	my ($forward) = grep { $_->{name} eq 'forward' } @parts;
	my $ops = 0;
	$ops += $_ for values %{ $forward->{args} // {} };
	$bad //= join(' ', map { $_->{name} } @parts) . ", $ops us" if @parts && (join(' ', map { $_->{name} } @parts) ne 'plan forward sample deliver' || $ops == 0 || $ops > $forward->{dur} + 1000);
	@parts = ();
}
is($bad, undef, 'each step has its parts, and its forward pass its operations');
my %phase = map { my $e = $_; ($e->{name} => [ map { $_->{ts} } sort { $a->{ts} <=> $b->{ts} } grep { $_->{name} eq $e->{name} && ($_->{ph} eq 'b' || $_->{ph} eq 'e') } @{ $profile->{traceEvents} } ]) } grep { $_->{ph} eq 'b' } @{ $profile->{traceEvents} };
is(join(' ', map { scalar @{ $phase{$_} } } qw(request queue prefill decode)), '2 2 2 2', 'the request and its phases');
ok($phase{request}[0] == $phase{queue}[0] && $phase{queue}[1] == $phase{prefill}[0] && $phase{prefill}[1] == $phase{decode}[0] && $phase{decode}[1] == $phase{request}[1], '... one behind the other');
sql("SELECT llm_start_profile(delay_steps => 3, max_steps => 5)");
sql("SELECT llm_generate('What is the time?', max_tokens => 12, ignore_eos => true)");
is(sql("SELECT llm_stop_profile()->'otherData'->>'steps'"), 5, 'some steps are left out, and so many recorded');
is($node->psql('postgres', "SELECT llm_stop_profile('$file')"), 3, 'nothing is recorded any more');

# ---- the dashboard for Grafana: every name and label in it exists ----

# a model that speculates: metrics count the positions at which a draft was right
sql(q{SELECT llm_create_model('guesses', (SELECT path FROM llm_models WHERE name = 'tickets-2m'),
	options => '{"speculative_config": {"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_min": 1, "prompt_lookup_max": 4}}')});
sql(q{SELECT llm_generate(repeat('the same again and ', 20), model => 'guesses', max_tokens => 60, temperature => 0, ignore_eos => true)});
my $dashboard = JSON::PP->new->decode(slurp_file((grep { -f } map { "$_/grafana.json" } @INC, 'docs')[0]));
$m = metrics();
my %known = map { $_ => 1 } family_names($m);
my %labels = (le => 1, map { %{ $_->{labels} } } map { @{ $_->{samples} // [] } } values %$m);
my (@unknown, %used, %ids);
for my $panel (@{ $dashboard->{panels} })
{
	push @unknown, "panel $panel->{id}" if $ids{ $panel->{id} }++ || $panel->{gridPos}{x} + $panel->{gridPos}{w} > 24;
	for my $target (@{ $panel->{targets} // [] })
	{
		push @unknown, "no metric in $target->{expr}" if $target->{expr} !~ /vllm/;
		for ($target->{expr} =~ /\b(vllm(?:_pg)?:\w+)/g) { $used{$_}++; push @unknown, $_ if !$known{$_} }
		my $by = join(',', $target->{expr} =~ /(?:by|ignoring) \(([^)]*)\)/g, $target->{expr} =~ /\{(\w+)=~/g, ($target->{legendFormat} // '') =~ /\{\{(\w+)\}\}/g);
		push @unknown, grep { !exists $labels{$_} } $by =~ /(\w+)/g;
		push @unknown, "parentheses of $target->{expr}" if ($target->{expr} =~ tr/(//) != ($target->{expr} =~ tr/)//) || ($target->{expr} =~ tr/{//) != ($target->{expr} =~ tr/}//);
	}
}
is(join(' ', @unknown), '', 'the dashboard asks for metrics and labels that the engine has');
cmp_ok(scalar keys %used, '>', 25, scalar(keys %used) . ' of them');

# an unusual name, and counters that remain without their model
sql(q{SELECT llm_create_model(E'an "odd"\\\\ \n name', (SELECT path FROM llm_models LIMIT 1), options => '{"max_num_seqs": 3}')});
sql(q{SELECT llm_generate('x', model => E'an "odd"\\\\ \n name', max_tokens => 2, ignore_eos => true)});
$m = metrics();
my $odd = "an \"odd\"\\ \n name";
is(sample($m, 'vllm:generation_tokens_total', model_name => $odd), 2, 'a name with quotes, a backslash and a line end comes back as it was');
sql("SELECT llm_unload_model('tickets-2m')");
$m = metrics();
cmp_ok(sample($m, 'vllm:iteration_tokens_total_sum', model_name => 'tickets-2m'), '>', $rows, 'a model that is unloaded keeps its counters');
cmp_ok(sample($m, 'vllm:prefix_cache_hits_total', model_name => 'tickets-2m'), '>', $cached, '... all of them');
$rows = sample($m, 'vllm:iteration_tokens_total_sum', model_name => 'tickets-2m');
sql("SELECT llm_generate('Again.', max_tokens => 3, ignore_eos => true)");
cmp_ok(sample(metrics(), 'vllm:iteration_tokens_total_sum', model_name => 'tickets-2m'), '>', $rows, '... and goes on from there');
$node->stop;

# ---- statistics, with pg_stat_statements; the fake engine ----

$node = new_node('stats', "compute_query_id = auto\nrestart_after_crash = on\nvllm.stat_max = 100\nlog_min_error_statement = error\nlog_statement = none\nlog_min_duration_statement = -1\n");
my $has = sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'");
$node->append_conf('postgresql.conf', $has ? "shared_preload_libraries = 'pg_stat_statements, vllm_pg'" : 'compute_query_id = on');
$node->restart;
until_ready($node);
SKIP:
{
	sql('CREATE EXTENSION pg_stat_statements; SELECT pg_stat_statements_reset()') if $has;
	sql("SELECT llm_generate('one two') FROM generate_series(1, 4)");
	sql("PREPARE p(text) AS SELECT llm_generate(\$1 || ' more'); EXECUTE p('a'); EXECUTE p('b')");
	sql("CREATE FUNCTION f(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN llm_generate(\$1); END'");
	sql("SELECT f('in a function')");
	skip 'pg_stat_statements is not installed', 3 if !$has;
	is(sql(q{SELECT q.query, s.calls = q.calls, s.requests, s.output_tokens FROM llm_stat_query s JOIN pg_stat_statements q USING (userid, dbid, queryid) WHERE q.toplevel ORDER BY s.requests, s.output_tokens}),
		"SELECT f(\$1)|t|1|3\nPREPARE p(text) AS SELECT llm_generate(\$1 || \$2)|t|2|4\nSELECT llm_generate(\$1) FROM generate_series(\$2, \$3)|t|4|8",
		'queries join with pg_stat_statements, with as many calls')
	  or diag(sql('SELECT queryid, query, calls FROM pg_stat_statements'));
	is(sql('SELECT requests, output_tokens, role FROM llm_stat_role'), '7|15|' . sql('SELECT current_user'), "a role's");
	is(sql('SELECT count(*) FROM llm_stat_query WHERE queryid IS NULL'), 0, 'all have identifiers');
}

# they survive a restart, but not a crash
my $before = sql('SELECT requests, errors, output_tokens, total_time, calls FROM llm_stat_role');
$node->restart;
until_ready($node);
is(sql('SELECT requests, errors, output_tokens, total_time, calls FROM llm_stat_role'), $before, 'statistics survive a restart');
my $victim = bg($node, 'SELECT pg_sleep(60)');
my $asleep = "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()";
until_sql($node, "SELECT count(*) = 1 $asleep");
kill 'KILL', sql("SELECT pid $asleep");
finish($victim);
usleep(300_000);
until_ready($node);
is(sql('SELECT count(*) FROM llm_stat_role'), 0, '... and are forgotten by a crash');
sql('ALTER SYSTEM SET vllm.stat_save = off');
$node->reload;
sql("SELECT llm_generate('x')");
$node->restart;
until_ready($node);
is(sql('SELECT count(*) FROM llm_stat_role'), 0, '... and if nobody wants to keep them');

sql('SELECT llm_stat_reset()');

# more queries than the table holds: the oldest are dropped, the role stays, and nothing breaks
sql(join(';', map { "SELECT llm_generate('q') AS q$_, " . join(',', (1) x $_) } 1 .. 130));
my ($entries, $requests) = split /\|/, sql('SELECT (SELECT count(*) FROM llm_stat_query), (SELECT requests FROM llm_stat_role)');
cmp_ok($entries, '<=', 99, "not more than vllm.stat_max entries ($entries)");
cmp_ok($entries, '>=', 80, '... and most of the room is used');
is($requests, 130, "the role's have not lost any");

# ---- the log of slow requests ----

my $trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
my $at = -s $node->logfile;
sub log_since { return slurp_file($node->logfile, $at); }
sql("SELECT llm_generate('secret quick')");
sql("SET vllm.log_min_duration = 0; SET vllm.traceparent = '$trace'; SET vllm.tracestate = 'a=b'; SELECT llm_generate('secret words go here')");
my $log = log_since();
like($log, qr/LOG:  LLM request \d+ \(generate\) of model "tickets-2m" took [\d.]+ ms, queue [\d.]+ ms, prefill [\d.]+ ms, decode [\d.]+ ms, tokens prompt \d+ cached 0 output 4, finish stop, role "\w+", database "postgres", query id -?\d+, traceparent $trace, tracestate a=b$/m,
	'a request that took long is a line of the log');
unlike($log, qr/secret/i, '... without its prompt, answer and statement');
is(() = $log =~ /LLM request/g, 1, '... and one that did not is none');
$at = -s $node->logfile;
sql(q{SET vllm.log_min_duration = 0; SELECT v1_completions('{"model": "tickets-2m", "prompt": ["secret a", "secret b c"], "max_tokens": 5}')});
like(log_since(), qr/LOG:  LLM request \d+ \(api\) of model "tickets-2m" took [\d.]+ ms, queue [\d.]+ ms, prefill [\d.]+ ms, decode [\d.]+ ms, tokens prompt 18 cached 0 output 5, finish stop,/, 'a body of two prompts');
$at = -s $node->logfile;
$node->psql('postgres', "SET vllm.log_min_duration = 0; SELECT llm_generate('\@error secret')");
like(log_since(), qr/LOG:  LLM request \d+ \(generate\) of model "tickets-2m" took .* finish error, /, 'one that failed');
$at = -s $node->logfile;
$node->psql('postgres', "SET vllm.log_min_duration = '20ms'; SET statement_timeout = 60; SELECT llm_generate('\@hang')");
$node->psql('postgres', "SET vllm.log_min_duration = '20ms'; SELECT llm_generate('\@hang', timeout_ms => 40)");
$node->psql('postgres', "SET vllm.log_min_duration = '10s'; SELECT llm_generate('\@hang', timeout_ms => 40)");
is(() = log_since() =~ /LOG:  LLM request \d+ .* finish abort, /g, 2, 'those that were cancelled, or took too long');
is($node->psql('postgres', 'SET ROLE pg_monitor; SET vllm.log_min_duration = 0'), 3, 'who logs is a matter of privilege');

# ---- the line of throughput ----

$at = -s $node->logfile;
sql("ALTER SYSTEM SET vllm.log_stats_interval = 1");
$node->reload;
ok(until_true(sub { sql("SELECT llm_generate('a b c d')"); select(undef, undef, undef, 0.1);
		return log_since() =~ /LOG:  engine: prompt throughput [1-9][\d.]* tokens\/s, generation throughput [1-9][\d.]* tokens\/s, running \d+, waiting 0, KV cache usage [\d.]+%, prefix cache hit rate 0\.0%/ }),
	'a line of throughput');
sleep 4;
$at = -s $node->logfile;
sleep 3;
unlike(log_since(), qr/throughput/, '... while the engine works');
sql("ALTER SYSTEM RESET vllm.log_stats_interval");
$node->reload;

# ---- llm_top: rates between two calls, and without an engine ----

my $top = sql(q{SELECT count(*) > 5 FROM llm_top(); SELECT llm_generate('one two three four five six'); SELECT pg_sleep(0.2); SELECT line FROM llm_top() line WHERE line ~ '^(Tokens|tickets)'});
like($top, qr/^Tokens\/s  prompts (?!0,)[\d.]+, answers (?!0,)[\d.]+, steps\/s (?!0 )[\d.]+  \(last 0\.[2-9] s\)$/m, 'what came since the last look');
like($top, qr/^tickets-2m +ready +0 +0 +(?!0 )[\d.]+ +(?!0 )[\d.]+ +0\.0% +\d+$/m, '... of each model');
sql("ALTER SYSTEM SET vllm.engine_path = '/nonexistent/engine'");
$node->reload;
kill 'KILL', engine_pid($node);
ok(until_true(sub { sql('SELECT string_agg(line, chr(10)) FROM llm_top() line') =~ /engine (failed|backoff).*Last error, 00:00:\d\d ago:\n  ./s }), 'without an engine it says why');
is(sql('SELECT max(length(line)) <= 78 FROM llm_top() line'), 't', '... in lines of 78 columns');
is(sql('SELECT count(*) FROM llm_devices'), 0, 'there is no device then');
is(eval { metrics()->{'vllm_pg:engine_ready'}{samples}[0]{value} }, 0, 'and metrics are in order');
sql('ALTER SYSTEM RESET vllm.engine_path');
$node->reload;
sql('SELECT llm_engine_restart()');

# nothing is left
is(sql('SELECT slots_total - slots_free FROM llm_stat_engine'), 0, 'all slots are free');
$node->stop;
done_testing();
