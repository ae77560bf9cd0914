# Costs, budgets, NULLs for errors, fallbacks, cascades and cached results of remote models:
# tests/remote/fake_endpoint.py replies with the words in reverse and reports their number; the fake engine
# replies in capitals.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use RemoteTest;
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";
plan skip_all => 'needs python3' if !RemoteTest::available();

my $e = RemoteTest->new;
my $node = new_node('moneyremote', "vllm.allowed_hosts = '127.0.0.1'\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub fails { my ($sql) = @_; return (finish(bg($node, $sql)))[1] }

sub model
{
	my ($name, $url, $options) = @_;
	sql(sprintf q{SELECT llm_create_model('%s', provider => 'openai', url => '%s', options => '%s')}, $name, $url, $options);
	return;
}
my $prices = '"prices": {"input": 2, "cached_input": 0.5, "output": 10}';
model('paid', $e->url, qq({"dialect": "vllm", "max_retries": 3, "timeout": 5000, $prices}));
model('spare', $e->url, qq({"dialect": "vllm", "max_retries": 0, "timeout": 1500, $prices, "fallback": "here"}));
model('dead', 'http://127.0.0.1:1/v1', '{"dialect": "vllm", "max_retries": 0, "fallback": ["deader", "here"]}');
model('deader', 'http://127.0.0.1:1/v1', '{"dialect": "vllm", "max_retries": 0}');
model('kept', $e->url, qq({"dialect": "vllm", "result_cache": true, $prices}));
sql(q{SELECT llm_create_model('here', '/fake/here', options => '{"prices": {"input": 0.1, "output": 0.1}}')});
sql(q{SELECT llm_create_model('lame', '/fake/lame', options => '{"fallback": "paid"}')});
my $exact = q{SELECT bool_and(cost = CASE WHEN model = 'here' THEN (prompt_tokens + output_tokens) * 0.1 ELSE (prompt_tokens - cached_tokens) * 2 + cached_tokens * 0.5 + output_tokens * 10 END / 1000000)
	FROM llm_stat_cost WHERE charged_tries = 0};
my $nothing = q{SELECT coalesce(bool_and(reserved = 0), true) FROM llm_stat_budget};

# ---- accounts equal what the endpoint has reported ----
sql('CREATE TABLE told (p bigint, c bigint, o bigint)');
sql(q{INSERT INTO told SELECT ((s.r).usage).prompt_tokens, coalesce(((s.r).usage).cached_tokens, 0), ((s.r).usage).completion_tokens
	FROM (SELECT llm_generate_full('row ' || i || ' of many', model => 'paid', max_tokens => 1 + i % 4) AS r FROM generate_series(1, 200) i OFFSET 0) s});
is(sql(q{SELECT requests || ' ' || (cost = (SELECT sum((p - c) * 2 + c * 0.5 + o * 10) / 1000000 FROM told)) FROM llm_stat_cost WHERE model = 'paid'}), '200 true', 'what 200 answers cost');
is(sql($exact), 't', 'accounts are exact');
sql(q{SELECT llm_generate('one two three four five six seven eight [[no_usage]]', model => 'paid', max_tokens => 9)});
is(sql(q{SELECT cost > (SELECT sum((p - c) * 2 + c * 0.5 + o * 10) / 1000000 FROM told) FROM llm_stat_cost WHERE model = 'paid'}), 't', 'an answer without usage costs something');
is(sql($exact), 't', 'accounts are exact');
# retries that can't be charged cost nothing, those that may be charged do
sql('SELECT llm_cost_reset()');
is(sql(q{SELECT llm_generate('a b [[status 429 x1]]', model => 'paid', max_tokens => 9)}) ne '', 1, 'a retry');
is(sql(q{SELECT charged_tries FROM llm_stat_cost WHERE model = 'paid'}), 0, '... that is free');
is(sql(q{SELECT llm_generate('a b [[close x1]]', model => 'paid', max_tokens => 9, temperature => 0)}) ne '', 1, 'a retry of what was cut off');
is(sql(q{SELECT charged_tries FROM llm_stat_cost WHERE model = 'paid'}), 1, '... may have been charged');
is(sql(q{SELECT cost > ((prompt_tokens - cached_tokens) * 2 + cached_tokens * 0.5 + output_tokens * 10) / 1000000 FROM llm_stat_cost WHERE model = 'paid'}), 't', '... and is in the account');
like(fails(q{SELECT llm_generate('a b [[close]]', model => 'paid', max_tokens => 9, temperature => 1)}), qr/ERROR:  08006/, 'what is not repeated');
is(sql(q{SELECT charged_tries FROM llm_stat_cost WHERE model = 'paid'}), 2, '... may have been charged, too');
ok(until_sql($node, q{SELECT llm_generate('up again', model => 'paid') IS NOT NULL}), 'the endpoint is asked again');

# ---- NULL for errors ----
my ($out, $err) = finish(bg($node, q{SET vllm.on_error = 'null'},
		q{SELECT count(*), count(a), count(*) FILTER (WHERE a = i || ' row' OR i % 10 = 0) FROM (SELECT i, llm_generate('row ' || i || CASE WHEN i % 10 = 0 THEN ' [[garbage]]' ELSE '' END,
			model => 'paid', max_tokens => 9) AS a FROM generate_series(1, 100) i) s}));
is($out, '100|90|100', 'ten rows are NULL, the others right');
like($err, qr/WARNING:  08P01: 10 of 100 LLM requests have failed and are NULL/, '... with a warning');
like(fails(q{SET vllm.on_error = 'null'; SET vllm.max_error_ratio = 0.05; SELECT count(llm_generate('row ' || i || CASE WHEN i % 5 = 0 THEN ' [[garbage]]' ELSE '' END, model => 'paid')) FROM generate_series(1, 100) i}),
	qr/ERROR:  08P01: too many LLM requests have failed/, 'too many');
like(fails(q{SET vllm.on_error = 'null'; SELECT llm_generate('a [[status 401]]', model => 'paid')}), qr/ERROR:  28000/, 'what the endpoint refuses stays an error');
ok(until_sql($node, q{SELECT llm_generate('up again', model => 'paid') IS NOT NULL}), 'the endpoint is asked again');

# ---- fallbacks ----
is(sql(q{SELECT llm_generate('one two', model => 'dead')}), 'ONE TWO', 'an endpoint that is not there');
is(sql(q{SELECT count(*) FROM generate_series(1, 100) i WHERE llm_generate('row ' || i, model => 'dead') = 'ROW ' || i}), 100, '... for many rows');
is(sql(q{SELECT llm_result(llm_submit('a future', model => 'dead'))}), 'A FUTURE', '... for a future');
is(sql(q{SELECT llm_generate('@lame two', model => 'lame', max_tokens => 9)}), 'two @lame', 'an engine that fails: the endpoint answers');
for my $fault ('status 500', 'garbage', 'close', 'status 404')
{
	is(sql("SELECT llm_generate('x [[$fault]]', model => 'spare')"), uc("x [[$fault]]"), "$fault: the engine answers");
}
like(fails(q{SELECT llm_generate('x [[status 400]]', model => 'spare')}), qr/ERROR:  22023/, 'a request that is wrong is wrong everywhere');
my $t0 = time;
like(fails(q{SELECT llm_generate('x [[hang]]', model => 'spare', timeout_ms => 400)}), qr/ERROR:  57014/, "nor is one past its time another model's");
cmp_ok(time - $t0, '<', 3, '... in time');
is(sql($nothing), 't', 'nothing is set aside');

# ---- cascades: by the mean of the tokens with log-probabilities, however many were generated ----
my $mean = sql(q{SELECT cumulative_logprob / cardinality(logprobs) FROM llm_completions('some more words', model => 'paid', logprobs => 0, max_tokens => 9)});
model('doubts', $e->url, sprintf('{"dialect": "vllm", "cascade": {"to": "here", "threshold": %.3f}}', $mean + 0.1));
model('is_sure', $e->url, sprintf('{"dialect": "vllm", "cascade": {"to": "here", "threshold": %.3f}}', $mean - 0.1));
for my $mark ('', ' [[hidden 50]]', ' [[no_usage]]')
{
	is(sql("SELECT llm_generate('some more words$mark', model => 'doubts', max_tokens => 9)"), uc("some more words$mark"), "an endpoint that isn't sure$mark");
	is(sql("SELECT llm_generate('some more words$mark', model => 'is_sure', max_tokens => 9)"), 'words more some', "... and one that is$mark");
}

# ---- cached results ----
my $ask = q{SELECT md5(string_agg(llm_generate('row ' || i, model => 'kept', temperature => 0, max_tokens => 9), ',' ORDER BY i)) FROM generate_series(1, 50) i};
my $first = sql($ask);
my $asked = $e->log;
is(sql($ask), $first, 'the same again');
is($e->log, $asked, '... without asking');
sql('SELECT llm_drop_model(\'kept\')');
model('kept', $e->url, qq({"dialect": "vllm", "result_cache": true, "model": "another", $prices}));
sql($ask);
is($e->log - $asked, 50, 'a model that was made anew is asked');

is(sql(q{SELECT count(llm_result(llm_submit('row ' || i, model => 'kept', temperature => 0, max_tokens => 9))) FROM generate_series(41, 52) i}), 12, 'futures');
is($e->log - $asked, 52, '... ask for what is not known');

# ---- jobs use cached results, and store theirs ----
my $done = q{SELECT coalesce(bool_and(queued + in_flight = 0 AND backfill = 'done'), true) FROM llm_jobs};
sub rows_asked { return scalar grep { ref $_->{body} && ($_->{body}{prompt} // '') =~ /^row \d+$/ } $e->log }
my ($rows, $misses) = (rows_asked(), sql(q{SELECT misses FROM llm_stat_cache WHERE model = 'kept'}));
sql(q{
	CREATE TABLE texts (id int PRIMARY KEY, body text, a text);
	INSERT INTO texts SELECT i, 'row ' || i FROM generate_series(1, 80) i;
	SELECT llm_create_completion_job('texts', '{body}', 'a', name => 'texts', model => 'kept', max_tokens => 9, options => '{"temperature": 0}')});
ok(until_sql($node, $done), 'a job ends');
is(sql(q{SELECT count(*) FROM texts WHERE a = id || ' row'}), 80, '... with the right answers');
is(rows_asked() - $rows, 28, '... of which it has asked for those that were not known');
is(sql(q{SELECT misses FROM llm_stat_cache WHERE model = 'kept'}) - $misses, 28 + 1, '... as the counters say, with the text that the job was tried with');
$asked = $e->log;
is(sql(q{SELECT count(*) FROM generate_series(51, 80) i WHERE llm_generate('row ' || i, model => 'kept', temperature => 0, max_tokens => 9) = i || ' row'}), 30, 'calls find what the job has kept');
is($e->log, $asked, '... without asking');

# not even a worker that has just had a result uses it for a model whose cache was cleared
$rows = rows_asked();
sql(q{SELECT llm_cache_clear('kept'); UPDATE texts SET a = NULL; SELECT llm_backfill_job('texts')});
ok(until_sql($node, $done), 'a job goes over its rows again');
is(sql(q{SELECT count(*) FROM texts WHERE a = id || ' row'}), 80, '... with the right answers');
is(rows_asked() - $rows, 80, '... and asks for all of them');

# ---- budgets ----
sql('SELECT llm_cost_reset()');
sql(q{SELECT llm_generate('what prompts are like', model => 'paid', max_tokens => 2)});
like(fails(q{SET vllm.max_cost = 0.003; SET vllm.batch_window = 8; SELECT count(llm_generate('row ' || i, model => 'paid', max_tokens => 10)) FROM generate_series(1, 1000) i WHERE i % 1 = 0}),
	qr/ERROR:  53400: the cost limit of the statement is reached/, 'a budget ends a statement that was expected to be smaller');
ok(until_sql($node, 'SELECT count(*) = 0 FROM llm_requests'), 'nothing is under way');
is(sql(q{SELECT cost BETWEEN 0.0025 AND 0.0031 FROM llm_stat_cost WHERE model = 'paid'}), 't', '... when it is used up');
is(sql($nothing), 't', 'nothing is set aside');
# a cached result needs no budget, and no endpoint
$asked = $e->log;
sql(q{
	ALTER ROLE CURRENT_USER SET vllm.role_max_cost = 0.0000001;
	UPDATE texts SET a = NULL;
	SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker';
	SELECT llm_backfill_job('texts')});
ok(until_sql($node, $done), 'a job whose owner has spent what he may');
is(sql(q{SELECT count(*) FROM texts WHERE a = id || ' row'}), 80, '... finds what is known');
sql('ALTER ROLE CURRENT_USER RESET vllm.role_max_cost');
is($e->log, $asked, '... without a request');
like(sql(q{EXPLAIN SELECT llm_generate('row ' || i, model => 'paid', max_tokens => 10) FROM generate_series(1, 1000) i}), qr/LLM Estimate: 1000 calls, \d+ prompt tokens, \d+ output tokens, cost 0\.\d+/, 'an estimate');
# the request was cancelled, but the endpoint was working: its prompt is charged; not those of requests that
# waited
model('single', $e->url, qq({"dialect": "vllm", "max_concurrent_requests": 1, "max_retries": 0, $prices}));
sql('SELECT llm_cost_reset()');
like(fails(q{SET statement_timeout = 500; SELECT llm_generate('row ' || i || ' [[delay 30]]', model => 'single', max_tokens => 9) FROM generate_series(1, 3) i}), qr/ERROR:  57014/, 'a cancelled statement');
is(sql(q{SELECT requests || ' ' || charged_tries || ' ' || (cost > 0 AND cost < 0.0001) FROM llm_stat_cost WHERE model = 'single'}), '3 1 true', '... may cost its prompt');
is(sql($nothing), 't', 'nothing is set aside');
sql('SELECT llm_cost_reset()');
fails(q{SET statement_timeout = 500; SELECT text FROM llm_generate_stream('a b c d e f [[stall 3]]', model => 'single', max_tokens => 9)});
is(sql(q{SELECT requests || ' ' || charged_tries || ' ' || (cost > output_tokens * 10 / 1000000.0) FROM llm_stat_cost WHERE model = 'single'}), '1 1 true', 'a stream that nobody reads to its end: its prompt, too');

# each choice is a call with the whole prompt
sql('SELECT llm_cost_reset()');
my $choose = q{SELECT count(llm_choose('row ' || i || ' has some words more', '{one,two,three,four,five,six,seven,eight,nine,ten}', model => 'paid')) FROM generate_series(1, 20) i};
like(sql("EXPLAIN $choose"), qr/LLM Estimate: 20 calls, (\d{4}) prompt tokens/, 'an estimate of choices');
like(fails("SET vllm.max_cost = 0.001; $choose"), qr/ERROR:  53400: statement is estimated to exceed "vllm.max_cost" \(0.001\)/, 'one that is expected to be too large does not begin');
like(fails("SET vllm.max_cost = 0.001; SET vllm.batch_window = 20; $choose WHERE i % 1 = 0"), qr/ERROR:  53400: the cost limit of the statement is reached/, 'a budget holds for choices');
is(sql(q{SELECT coalesce(sum(cost), 0) <= 0.001 FROM llm_stat_cost WHERE model = 'paid'}), 't', '... and is not overshot');

# ---- the model is not available: another one is used at once, for a call and for a future ----
$node->append_conf('postgresql.conf', "vllm.engine = off\n");
$node->restart;
ok(until_sql($node, q{SELECT state = 'ready' FROM llm_remote}), 'without an engine');
is(sql(qq{SELECT llm_$_}), 'two one', "the endpoint answers: $_") for q{generate('one two', model => 'lame')}, q{result(llm_submit('one two', model => 'lame'))};

$node->stop;
done_testing();
