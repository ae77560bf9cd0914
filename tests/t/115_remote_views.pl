# The catalog and views of remote models: the secret and the headers that are sent to an endpoint, metrics
# that come back, who may see them, forgotten models, hosts that are no longer allowed, jobs.
use strict;
use warnings;
use lib 't';
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";

# ---- an endpoint: `mode` determines its replies ----

my $dir = PostgreSQL::Test::Utils::tempdir();
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) or die "listen: $!";
my $port = $listen->sockport;
my $url = "http://127.0.0.1:$port/v1";

sub put_file { my ($name, $text) = @_; open my $f, '>', "$dir/$name.new" or die; print $f $text; close $f; rename "$dir/$name.new", "$dir/$name"; return; }
sub mode { put_file('mode', shift); return; }

sub answer_one
{
	my ($c) = @_;
	my $head = '';
	while (defined(my $line = <$c>)) { $head .= $line; last if $line eq "\r\n"; }
	return if $head eq '';
	my ($len) = $head =~ /^content-length: (\d+)/im;
	read $c, my $body, $len // 0;
	open my $log, '>>', "$dir/requests"; print $log "$head$body\n=====\n"; close $log;
	my $mode = slurp_file("$dir/mode");
	my ($status, $text) = ('200 OK', '');
	if ($mode eq 'ok' && $head =~ m{^GET /v1/models}) { $text = '{"object": "list", "data": [{"id": "there", "object": "model"}]}'; }
	elsif ($mode eq 'ok' || $mode eq 'stream')
	{
		$text = '{"id": "x", "object": "text_completion", "created": 1, "model": "there", "choices": [{"index": 0, "text": " fine", "finish_reason": "stop", "logprobs": null}],'
		  . ' "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}';
	}
	elsif ($mode eq '401') { ($status, $text) = ('401 Unauthorized', '{"error": {"message": "no such key: k3y-one", "type": "auth"}}'); }
	elsif ($mode eq '429') { ($status, $text) = ("429 Too Many Requests\r\nRetry-After: 30", '{"error": {"message": "slow down"}}'); }
	elsif ($mode eq '500') { ($status, $text) = ('500 Internal Server Error', '{"error": {"message": "broken"}}'); }
	print $c "HTTP/1.1 $status\r\nContent-Type: application/json\r\nContent-Length: " . length($text) . "\r\nConnection: close\r\n\r\n$text";
	return;
}

mode('ok');
my $server = fork;
if ($server == 0)
{
	$SIG{CHLD} = 'IGNORE';
	while (1)
	{
		my $c = $listen->accept or next;
		if (!fork) { answer_one($c); close $c; require POSIX; POSIX::_exit(0); }
		close $c;
	}
}
close $listen;
END { kill 'KILL', $server if $server; }

sub requests { my $all = -e "$dir/requests" ? slurp_file("$dir/requests") : ''; unlink "$dir/requests"; return $all; }

my $node = new_node('remote_views', "vllm.allowed_hosts = '127.0.0.1:$port'\nvllm.job_workers = 1\n");
sub sql { return $node->safe_psql('postgres', shift); }

sql(qq{CREATE ROLE owner LOGIN; CREATE ROLE other LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats;
	GRANT EXECUTE ON FUNCTION llm_create_model(text, text, vllm.json, text, text) TO owner});
is(finish(bg_as($node, 'owner', qq{SELECT llm_create_model('m', provider => 'openai', url => '$url/',
	options => '{"model": "there", "max_retries": 0, "headers": {"X-Team": "blue"}}')},
	q{SELECT llm_grant('m', 'other')})), "\n", 'a model');
ok(until_sql($node, q{SELECT state = 'ready' AND pid > 0 FROM llm_remote}), 'the program is there');
is(sql(q{SELECT state FROM llm_models WHERE name = 'm'}), 'untried', 'nobody has asked');

# ---- what is sent to the endpoint ----
sql(q{SELECT llm_load_model('m')});
like(requests(), qr{^GET /v1/models HTTP}m, 'llm_load_model asks what the endpoint serves');
sql(qq{SELECT llm_create_model('p', provider => 'openai', url => '$url', options => '{"model": "elsewhere"}')});
like(error_of($node, q{SELECT llm_load_model('p')}), qr/42704: .*elsewhere/, '... and whether it is the model');
sql(q{SELECT llm_drop_model('p')});
requests();
my $ask = q{SELECT llm_generate('How are you?', model => 'm', max_tokens => 3, temperature => 0)};
is(sql($ask), ' fine', 'an answer');
my $r = requests();
like($r, qr{^POST /v1/completions HTTP}m, '... from the path behind the base url');
like($r, qr/^X-Team: blue\r$/mi, '... with the headers of the options');
unlike($r, qr/^Authorization:/mi, '... and nothing that authorizes');
sql(q{SELECT llm_set_secret('m', 'k3y-one')});
sql($ask);
like(requests(), qr/^Authorization: Bearer k3y-one\r$/mi, 'the secret');
$node->safe_psql('postgres', qq{BEGIN; SELECT llm_set_secret('m', 'k3y-two'); $ask; ROLLBACK; $ask});
$r = requests();
like($r, qr/Bearer k3y-two.*Bearer k3y-one/s, 'another one, as long as its transaction lasts');
my ($out, $err) = finish(bg_as($node, 'other', $ask));
is($out, ' fine', 'who may use the model asks with its secret');
like(requests(), qr/Bearer k3y-one/, '... which goes along');
sql(qq{SELECT llm_create_model('n', provider => 'openai', url => '$url', options => '{"model": "there", "auth_header": "X-API-Key"}'), llm_set_secret('n', 'k3y-three')});
requests();
sql(q{SELECT llm_generate('x', model => 'n')});
$r = requests();
like($r, qr/^X-API-Key: k3y-three\r$/mi, 'in the header that the options name');
unlike($r, qr/Authorization|k3y-one/i, '... and no other one');
sql(q{SELECT llm_drop_secret('n')});
sql(q{SELECT llm_generate('x', model => 'n')});
unlike(requests(), qr/k3y/, '... until it is dropped');

# ---- metrics ----
ok(until_sql($node, q{SELECT calls >= 6 AND failures = 0 AND health = 'up' AND in_flight = 0 AND avg_latency_ms > 0 AND last_error IS NULL FROM llm_stat_remote WHERE model = 'm'}), 'calls are counted')
  or diag(sql('SELECT * FROM llm_stat_remote'));
is(sql(q{SELECT url FROM llm_stat_remote WHERE model = 'm'}), "$url/", '... of the url as it was given');
is(sql(q{SELECT state, requests, finished, failed, prompt_tokens, output_tokens FROM llm_stat_model WHERE name = 'n'}), 'ready|2|2|0|14|6', 'requests and tokens of a model');
is(sql(q{SELECT running, waiting, requests >= 7, requests = finished + failed, slots_used FROM llm_remote}), '0|0|t|t|0', '... and of all');
is(sql(q{SELECT name, value FROM llm_metrics() WHERE labels->>'model_name' = 'n' AND name IN ('vllm_pg:remote_calls_total', 'vllm_pg:remote_up') ORDER BY 1}),
	"vllm_pg:remote_calls_total|2\nvllm_pg:remote_up|1", '... among the metrics');
like(sql('SELECT llm_metrics_text()'), qr/^vllm_pg:remote_calls_total\{engine="0",model_name="n",endpoint="0",url="\Q$url\E"\} 2$/m, '... also as text');
like(sql('SELECT string_agg(t, E\'\n\') FROM llm_top() t'), qr/^n +ready /m, 'llm_top() has it');

# ---- who may see what ----
is(finish(bg_as($node, 'owner', 'SELECT model, url, calls > 0 FROM llm_stat_remote')), "m|$url/|t", 'its owner sees a url');
is(finish(bg_as($node, $_, 'SELECT count(*) FROM llm_stat_remote')), '0', "not $_") for 'other', 'watcher';
is(finish(bg_as($node, 'other', q{SELECT url IS NULL, options IS NULL FROM llm_models WHERE name = 'm'})), 't|t', '... in llm_models either');
is(finish(bg_as($node, 'watcher', q{SELECT count(*) FILTER (WHERE labels->>'url' = ''), count(*) FROM llm_metrics() WHERE name = 'vllm_pg:remote_calls_total'})), '2|2', '... nor in metrics');

# ---- failures ----
mode('401');
(undef, $err) = finish(bg_as($node, 'other', $ask));
like($err, qr/28000/, 'an endpoint that wants another secret');
unlike($err, qr/k3y/, '... which no error tells, although the endpoint did');
unlike($err, qr/127\.0\.0\.1/, '... nor the url, to who may not see it');
mode('429');
like(error_of($node, q{SELECT llm_generate('x', model => 'n', timeout_ms => 3000)}), qr/57P03|57014/, 'an endpoint that is overloaded');
ok(until_sql($node, q{SELECT throttled > 0 AND failures > 0 AND retry_at > now() AND last_error IS NOT NULL FROM llm_stat_remote WHERE model = 'n'}), 'is left alone for as long as it says')
  or diag(sql('SELECT * FROM llm_stat_remote'));
unlike(sql('SELECT * FROM llm_stat_remote'), qr/k3y/, 'no secret among the errors');
mode('ok');

# ---- forgotten models ----
sql(qq{BEGIN; SELECT llm_drop_model('n'); SELECT llm_create_model('n', provider => 'openai', url => '$url', options => '{"model": "there", "timeout": 5000}'); COMMIT});
is(sql(q{SELECT health, calls, retry_at IS NULL FROM llm_stat_remote WHERE model = 'n'}), 'unknown|0|t', 'another model of the name begins anew');
is(sql(q{SELECT llm_generate('x', model => 'n')}), ' fine', '... with its own limits');

my $o = q{'{"model": "there", "timeout": 6000}'};
sql(qq{BEGIN; SELECT llm_create_model('o', provider => 'openai', url => '$url', options => $o), llm_generate('x', model => 'o'); ROLLBACK;
	SELECT llm_create_model('o', provider => 'openai', url => '$url', options => $o)});
ok(until_sql($node, q{SELECT health = 'unknown' AND calls = 0 FROM llm_stat_remote WHERE model = 'o'}), '... one that was rolled back leaves nothing');
$node->safe_psql('postgres', 'CREATE DATABASE d');
my $make = qq{CREATE EXTENSION IF NOT EXISTS vllm_pg; SELECT llm_create_model('o', provider => 'openai', url => '$url', options => $o)};
$node->safe_psql('d', $_) for $make, q{SELECT llm_generate('x', model => 'o')};
is($node->safe_psql('d', 'SELECT calls FROM llm_stat_remote'), '1', 'another database counts by itself');
$node->safe_psql('d', 'DROP EXTENSION vllm_pg');
$node->safe_psql('d', $make);
ok(until_true(sub { $node->safe_psql('d', 'SELECT calls FROM llm_stat_remote') eq '0' }), '... and DROP EXTENSION forgets all of it');
is(sql(q{SELECT calls FROM llm_stat_remote WHERE model = 'n'}), '1', '... not of others');

# ---- adapters belong to the endpoint ----
sql(qq{SELECT llm_create_model('a', provider => 'openai', url => '$url', options => '{"model": "there", "lora_modules": ["french", "sql"]}')});
requests();
is(sql(q{SELECT llm_generate('x', model => 'a', lora => 'french')}), ' fine', 'an adapter');
like(requests(), qr/"model": ?"french"/, '... is a model at the endpoint');
like(error_of($node, q{SELECT llm_generate('x', model => 'a', lora => 'german')}), qr/42704: .*"german".*lora_modules/s, '... that the options must have');
is(sql(q{SET vllm.model = 'a'; SELECT llm_generate('x', lora => 'sql')}), ' fine', '... also of vllm.model');
like(requests(), qr/"model": ?"sql"/, '... by its name');

# ---- a url with a query ----
sql(qq{SELECT llm_create_model('q', provider => 'openai', url => '$url/?api-version=2024-10-21', options => '{"model": "there", "max_retries": 0}')});
requests();
is(sql(q{SELECT llm_generate('x', model => 'q')}), ' fine', 'a url with a query');
like(requests(), qr{^POST /v1/completions\?api-version=2024-10-21 HTTP/1\.1\r$}m, '... which is behind the path');
sql(q{SELECT llm_load_model('q')});
like(requests(), qr{^GET /v1/models\?api-version=2024-10-21 HTTP/1\.1\r$}m, '... whatever is asked');
ok(until_sql($node, q{SELECT calls = 2 AND health = 'up' AND url LIKE '%/v1/?api-version=2024-10-21' FROM llm_stat_remote WHERE model = 'q'}), '... and figures find it')
  or diag(sql('SELECT * FROM llm_stat_remote'));
mode('500');
$err = error_of($node, q{SELECT llm_generate('x', model => 'q')});
like($err, qr/57P03/, 'an error of it');
unlike($err, qr/2024/, '... does not tell the query');
mode('ok');

# ---- a database that has not been updated ----
$node->safe_psql('postgres', 'CREATE DATABASE old');
$node->safe_psql('old', qq{CREATE EXTENSION vllm_pg VERSION '0.9'; SELECT llm_create_model('m', provider => 'openai', url => '$url', options => '{"model": "there"}')});
is($node->safe_psql('old', $ask), ' fine', 'with the objects of 0.9 a remote model works, without a secret');
$node->safe_psql('old', q{ALTER EXTENSION vllm_pg UPDATE; SELECT llm_set_secret('m', 'k3y-old')});
requests();
is($node->safe_psql('old', $ask), ' fine', '... and after an update');
like(requests(), qr/Bearer k3y-old/, '... with one');

# ---- hosts ----
set_to($node, 'vllm.allowed_hosts', 'llm.example.com');
like(error_of($node, $ask), qr/42501/, 'a host that is not allowed any more');
set_to($node, 'vllm.allowed_hosts', "127.0.0.1:$port");
is(sql($ask), ' fine', '... and is again');

# ---- jobs ----
sql(q{CREATE TABLE doc (id int PRIMARY KEY, body text, answer text);
	INSERT INTO doc SELECT i, 'text ' || i FROM generate_series(1, 20) i});
sql(q{SELECT llm_create_completion_job('doc', '{body}', 'answer', model => 'm')});
ok(until_sql($node, q{SELECT count(*) = 20 FROM doc WHERE answer = ' fine'}), 'a job') or diag(sql('SELECT * FROM llm_jobs'));
like(requests(), qr/Bearer k3y-one/, '... with the secret');

# ---- the end of the program ----
kill 'KILL', sql('SELECT pid FROM llm_remote');
ok(until_sql($node, q{SELECT state = 'ready' AND restarts = 1 AND last_error IS NOT NULL FROM llm_remote}), 'it is started again');
is(sql($ask), ' fine', '... and asks');
is(sql(q{SELECT calls FROM llm_stat_remote WHERE model = 'm'}), '1', '... counting from the beginning');

unlike(slurp_file($node->logfile), qr/k3y-(one|two|three|old)/, 'no secret in the log');
$node->stop;
done_testing();
