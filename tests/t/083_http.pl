# The HTTP server: authentication, errors, streams, clients that leave, limits; what happens when the
# engine, the HTTP server or its port is gone.
use strict;
use warnings;
use Cwd qw(abs_path);
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP qw(encode_json);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $base = "http://127.0.0.1:$port";
my $node = new_node('http', "vllm.engine_args = '--fake --set fake_step_ms=2'\nvllm.http_host = '127.0.0.1'\nvllm.http_database = 'door'\n");
my $log_at = 0;

# Return the server's log lines since the last call.
sub new_log
{
	my $log = slurp_file($node->logfile, $log_at);
	$log_at += length $log;
	return $log;
}

# Wait until the log has a line since the last call of new_log().
sub until_log
{
	my ($what) = @_;
	return until_true(sub { slurp_file($node->logfile, $log_at) =~ $what });
}

sub all_doors
{
	my $sup = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'});
	my @found;

	for my $f (glob '/proc/[0-9]*/stat')
	{
		open(my $h, '<', $f) or next;
		my $line = <$h> // next;
		push @found, $1 if $line =~ /^(\d+) \(vllm_pg_http\) [^Z] $sup /;
	}
	return @found;
}

sub door_pid
{
	return (all_doors())[0] // 0;
}

# Return what is wrong with a text of the exposition format 0.0.4; '' = nothing.
sub bad_metrics
{
	my ($text) = @_;
	my (%type, %seen, %bucket);

	return 'no line end' if $text !~ /\n\z/;
	for my $line (split /\n/, $text)
	{
		next if $line =~ /^# HELP [a-zA-Z_:][a-zA-Z0-9_:]* \S/;
		if ($line =~ /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)$/)
		{
			return "twice: $line" if $type{$1}++;
			$type{$1} = $2;
			next;
		}
		my ($name, $labels, $value) = $line =~ /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\[\\"n])*",?)*)\})? (\d+(?:\.\d+)?(?:e[-+]?\d+)?)$/
		  or return "no sample: $line";
		$labels //= '';
		return "twice: $line" if $seen{"$name $labels"}++;
		(my $family = $name) =~ s/_(bucket|sum|count)$// if !$type{$name};
		$family //= $name;
		return "no type: $line" if !$type{$family};
		return "a counter must end in _total: $line" if $type{$family} eq 'counter' && $family !~ /_total$/;
		if ($type{$family} eq 'histogram' && $name =~ /_bucket$/)
		{
			(my $of = $labels) =~ s/,le="([^"]*)"$// or return "no bound: $line";
			return "a bucket has less than the one before: $line" if $value < ($bucket{"$family $of"} // 0);
			$bucket{"$family $of"} = $value;
		}
		return "not the last bucket: $line" if $name =~ /_count$/ && $bucket{"$family $labels"} != $value;
	}
	return keys %type > 20 ? '' : 'too few';
}

SKIP:
{
	my $program = "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";

	if (!-x $program)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET vllm.http_port = $port");
		like($err, qr/invalid value for parameter "vllm.http_port".*DETAIL:.*HINT:.*GnuTLS/s, 'the setting is refused with a hint');
		skip 'vllm_pg_http was not built here', 60;
	}

	# ---- a database whose llm_api() does what its body says ----

	$node->safe_psql('postgres', q{
		CREATE DATABASE door;
		CREATE ROLE vllm_http LOGIN NOINHERIT;
		ALTER ROLE vllm_http SET log_parameter_max_length = 0;
		CREATE ROLE app; CREATE ROLE poor; CREATE ROLE stranger;
		GRANT app, poor TO vllm_http});
	$node->safe_psql('door', q{
		CREATE EXTENSION vllm_pg;
		CREATE TABLE once (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
		CREATE TABLE left_over (a text);
		GRANT INSERT ON once, left_over TO app;
		CREATE OR REPLACE FUNCTION llm_api(path text, body vllm.json DEFAULT '{}', on_error text DEFAULT 'raise') RETURNS json LANGUAGE plpgsql AS $$
		BEGIN
			IF body->>'sqlstate' IS NOT NULL THEN
				RAISE EXCEPTION 'as asked' USING ERRCODE = body->>'sqlstate', DETAIL = 'a detail';
			ELSIF body->>'once' IS NOT NULL THEN
				INSERT INTO public.once VALUES (1), (1);
			ELSIF body->>'left' IS NOT NULL THEN
				INSERT INTO public.left_over VALUES (body->>'left');
				RETURN (body->>'before' || repeat('x', (body->>'size')::int) || (body->>'behind'))::json;
			ELSIF body->>'error' IS NOT NULL THEN
				RETURN json_build_object('error', json_build_object('message', 'no such thing', 'type', 'NotFoundError', 'param', 'model', 'code', (body->>'error')::int));
			END IF;
			RETURN json_build_object('path', path, 'role', current_user, 'session', session_user, 'on_error', on_error,
				'text', public.llm_generate(body->>'prompt', model => body->>'model'), 'length', length(body->>'long'));
		END $$;
		CREATE OR REPLACE FUNCTION llm_api_stream(path text, body vllm.json DEFAULT '{}', on_error text DEFAULT 'raise') RETURNS SETOF json LANGUAGE sql AS $$
			SELECT json '{"id": 1}' WHERE body->>'late' IS NOT NULL UNION ALL
			SELECT public.llm_api(path, body) WHERE body->>'left' IS NOT NULL UNION ALL
			SELECT json_build_object('type', 'delta', 'role', current_user, 'chunk', public.llm_generate_stream(body->>'prompt', model => body->>'model'),
				'once', CASE WHEN body->>'once' IS NOT NULL THEN public.llm_api(path, body) END, 'broken', CASE WHEN body->>'broken' IS NOT NULL THEN 1 / (random() * 0)::int END)
		$$});
	my %key = map { $_ => $node->safe_psql('door', "SELECT llm_create_api_key('$_', '$_')") } qw(app poor stranger);
	$node->append_conf('postgresql.conf', "vllm.http_port = $port\nvllm.http_max_body = 64kB\nvllm.http_max_connections = 4\nvllm.http_queue_timeout = 500ms\n");
	$node->reload;
	my $http = HTTP::Tiny->new(timeout => 60);
	ok(until_true(sub { $http->get("$base/health")->{status} == 200 }), 'a reload starts the server');
	new_log();

	# POST a body (text) with a role's key: status, content, headers.
	my $post = sub {
		my ($path, $body, $who, %more) = @_;
		my $r = $http->post("$base$path", { content => $body, headers => { 'Content-Type' => 'application/json',
				$who ? (Authorization => "Bearer " . ($key{$who} // $who)) : (), %more } });
		return wantarray ? ($r->{status}, $r->{content}, $r->{headers}) : "$r->{status} $r->{content}";
	};
	my $say = sub { my ($path, $prompt, $who) = @_; return scalar $post->($path, qq({"prompt": "$prompt"}), $who) };

	is((stat('/proc/' . door_pid() . '/environ'))[4], 0, 'nobody may look into its memory');

	# ---- responses ----

	my ($status, $content, $headers) = $post->('/v1/completions', '{"prompt": "hello door"}', 'app');
	is($status, 200, 'a request is answered');
	is($headers->{'content-type'}, 'application/json', 'as JSON');
	unlike(slurp_file($node->logfile), qr/hello door/i, 'its body is not logged by a server that logs everything else');
	like($content, qr/"path" : "\/v1\/completions".*"role" : "app".*"session" : "vllm_http".*"on_error" : "return".*"HELLO DOOR"/s,
		"by llm_api() under the key's role");
	like($http->get("$base/version")->{content}, qr/^\{"version":"\d+\.\d+"\}$/, '/version');
	is($http->get("$base/ping")->{status}, 200, '/ping');
	is($http->post("$base/v1/completions", { content => '{"prompt": "x"}',
		headers => { 'x-api-key' => $key{app}, 'Content-Type' => 'application/json; charset=utf-8' } })->{status}, 200, 'x-api-key');

	# ---- the trace context of a request ----

	$node->safe_psql('door', q{
		CREATE TABLE traces (parent text, state text);
		GRANT INSERT ON traces TO app;
		CREATE FUNCTION note_trace() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			NEW.parent := current_setting('vllm.traceparent'); NEW.state := current_setting('vllm.tracestate'); RETURN NEW; END $$;
		CREATE TRIGGER note BEFORE INSERT ON traces FOR EACH ROW EXECUTE FUNCTION note_trace();
		ALTER FUNCTION vllm.http_api(text, json) RENAME TO plain_api;
		CREATE FUNCTION vllm.http_api(path text, request json) RETURNS json LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO public.traces DEFAULT VALUES; RETURN vllm.plain_api(path, request); END $$});
	my $context = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
	for ([$context, "rojo=1,b=it's\\"], [$context, '=bad'], ['00-bad', 'rojo=1'], [undef, 'rojo=1'], [$context, undef])
	{
		my ($parent, $state) = @$_;
		my ($code, $said) = $post->('/v1/completions', '{"prompt": "traced"}', 'app', (defined $parent ? (traceparent => $parent) : ()), (defined $state ? (tracestate => $state) : ()));
		diag($said) if $code != 200;
	}
	is($node->safe_psql('door', "SELECT string_agg(parent || '|' || state, ' ') FROM traces"), "$context|rojo=1,b=it's\\ $context| | | $context|",
		'headers of a trace are taken over, and what is none is not');
	$node->safe_psql('door', 'DROP FUNCTION vllm.http_api(text, json); ALTER FUNCTION vllm.plain_api(text, json) RENAME TO http_api; DROP TABLE traces; DROP FUNCTION note_trace()');

	# ---- authentication ----

	for (['', 'no API key was given'], ['sk-wrong', 'is not valid'], [substr($key{app}, 0, -1), 'is not valid'], ["$key{app}0", 'is not valid'], ['EMPTY', 'is not valid'])
	{
		like($say->('/v1/completions', 'x', $_->[0]), qr/^401 \{"error":\{"message":"[^"]*$_->[1].*"type":"AuthenticationError","param":null,"code":401\}\}$/,
			"key '" . substr($_->[0], 0, 8) . "': 401");
	}
	is(($post->('/v1/completions', '{}', ''))[2]{'www-authenticate'}, 'Bearer', 'and says how');
	like($say->('/v1/messages', 'x', 'sk-wrong'), qr/^401 \{"type":"error","error":\{"type":"authentication_error","message":"[^"]*"\}\}$/, "in Anthropic's shape on its path");
	is($http->get("$base/v1/models")->{status}, 401, 'lists need a key');
	is($http->get("$base/metrics")->{status}, 401, 'metrics, too');
	$node->safe_psql('door', q{SELECT llm_create_model('secret', '/fake/secret')});
	like(scalar $post->('/v1/completions', '{"prompt": "x", "model": "secret"}', 'poor'), qr/^403 .*permission denied for model \\"secret\\".*PermissionDeniedError/, 'a model that is not granted: 403');
	$node->safe_psql('door', q{SELECT llm_grant('secret', 'poor')});
	like(scalar $post->('/v1/completions', '{"prompt": "x", "model": "secret"}', 'poor'), qr/^200 /, 'granted: 200');
	like($say->('/v1/completions', 'x', 'stranger'), qr/^403 .*can't become the role/, "a key of a role that the server's is no member of: 403");
	ok(until_log(qr/role "vllm_http" can't become role "stranger"/), 'and a line in the log');
	$node->safe_psql('postgres', 'GRANT stranger TO vllm_http');
	like($say->('/v1/completions', 'x', 'stranger'), qr/^200 /, 'granted: 200');
	$node->safe_psql('door', q{SELECT llm_revoke_api_key('stranger')});
	like($say->('/v1/completions', 'x', 'stranger'), qr/^401 /, 'revoked: 401 at once');
	my ($rc, $out, $err) = $node->psql('door', 'SELECT * FROM vllm.api_key', extra_params => [ '-U', 'vllm_http' ]);
	like($err, qr/permission denied for table api_key/, "the server's role can't read the keys");
	is($node->safe_psql('door', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'vllm_http' AND state LIKE 'idle in%'}), 0, 'no transaction stays open');

	# ---- errors ----

	like($say->('/v1/nothing', 'x', 'app'), qr/^404 \{"error":.*"NotFoundError"/, 'no such path');
	my $r = $http->get("$base/v1/completions", { headers => { Authorization => "Bearer $key{app}" } });
	is("$r->{status} $r->{headers}{allow}", '405 POST', '405 names the methods');
	is($http->request('DELETE', "$base/v1/models")->{status}, 405, 'DELETE');
	is($http->post("$base/v1/completions", { content => '{}', headers => { Authorization => "Bearer $key{app}", 'Content-Type' => 'text/plain' } })->{status}, 415, 'another type');
	like(scalar $post->('/v1/completions', '', 'app'), qr/^400 .*body is empty/, 'an empty body');
	for ('{"prompt": "geheim"', '{"prompt": geheim}', 'geheim', '[1,]', "{\"a\": \"\xff\"}", '{"a": "geheim' . "\n" . '"}', '[' x 600 . ']' x 600, "{}\0")
	{
		like(scalar $post->('/v1/completions', $_, 'app'), qr/^400 .*"BadRequestError"/, 'no JSON: ' . substr(s/[^ -~]/?/gr, 0, 20));
	}
	like(scalar $post->('/v1/completions', '{"long": "' . 'x' x 65000 . '"}', 'app'), qr/^200 .*65000/, 'a body within the limit');
	like(scalar $post->('/v1/completions', '{"long": "' . 'x' x 66000 . '"}', 'app'), qr/^413 .*larger than vllm.http_max_body/, 'a body beyond it');
	my $left = 20;
	$r = $http->post("$base/v1/completions", { content => sub { $left-- > 0 ? 'x' x 5000 : '' },
			headers => { Authorization => "Bearer $key{app}", 'Content-Type' => 'application/json' } });
	is($r->{status}, 413, '413 without a length');
	for ([ '22023', 400 ], [ '54000', 400 ], [ '42704', 404 ], [ '42501', 403 ], [ '0A000', 400 ], [ '40001', 503 ], [ '53400', 429 ], [ '23514', 400 ], [ '53300', 503 ], [ '55000', 503 ], [ '57014', 408 ], [ '58000', 503 ], [ 'XX000', 500 ])
	{
		my ($s, $c) = $post->('/v1/completions', qq({"sqlstate": "$_->[0]"}), 'app');
		is($s, $_->[1], "SQLSTATE $_->[0]");
		is($c =~ /a detail/ ? 1 : 0, $_->[1] < 500 ? 1 : 0, 'detail of what is the client\'s doing');
	}
	like(scalar $post->('/v1/completions', '{"error": 404}', 'app'), qr/^404 .*no such thing/, "an error body has its code's status");
	for my $more ('', ', "left": "x", "size": 1, "before": "{\\"error\\": {\\"message\\": \\"", "behind": "\\", \\"code\\": 408}}", "stream": true')
	{
		my ($s, undef, $h) = $post->('/v1/completions', qq({"error": 408$more}), 'app');
		is("$s " . ($h->{'x-should-retry'} // ''), '408 false', 'of a cancelled request, too, which would end so again' . ($more ? ', instead of a stream' : ''));
	}
	# an error is detected however long it is, and is rolled back
	for my $size (10, 65_000, 70_000, 3_000_000)
	{
		for ([ '/v1/completions', '{"error": {"message": "', '", "type": "NotFoundError", "param": null, "code": 404}}' ], [ '/v1/messages', '{"type": "error", "error": {"type": "not_found_error", "message": "', '"}}' ])
		{
			my ($path, $before, $behind) = @$_;
			my $ask = sub { encode_json({ left => 'x', size => $size, before => $before, behind => $behind, prompt => 'x', @_ }) };
			is(($post->($path, $ask->(), 'app'))[0], 404, "an error of $size bytes");
			is(($post->($path, $ask->(stream => \1), 'app'))[0], 404, '... instead of a stream');
			like(scalar $post->($path, $ask->(stream => \1, late => 1), 'app'), qr/^200 .*"id": 1.*data: \{[^\n]*"error".*xxx/s, '... in the middle of one');
		}
	}
	like(scalar $post->('/v1/responses', encode_json({ left => 'x', size => 3, before => '{"error": {"message": "', behind => '", "type": "NotFoundError", "param": null, "code": 404}}', prompt => 'x',
			stream => \1, late => 1 }), 'app'), qr/^200 data: \{"id": 1\}\n\nevent: error\ndata: \{"type":"error","code":"NotFoundError","message":"xxx","param":null,"sequence_number":1\}\n\n/,
		"an error in a response's stream is an event of OpenAI's form");
	is($node->safe_psql('door', 'SELECT count(*) FROM left_over'), 0, 'and nothing of it is committed');
	like((($post->('/v1/completions', '{"left": "stays", "size": 70000, "before": "{\\"id\\": \\"", "behind": "\\"}"}', 'app'))[0]), qr/200/, 'an answer of this length');
	is($node->safe_psql('door', 'DELETE FROM left_over RETURNING a'), 'stays', '... is');

	unlike(slurp_file($node->logfile), qr/geheim|$key{app}|\Q$key{poor}\E/, 'no body that is refused and no key in the log');

	my $raw = sub {
		my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) or die;
		print $s $_[0];
		local $/;
		return <$s>;
	};
	my $two = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $key{app}\r\nContent-Type: application/json\r\nContent-Length: 15\r\n";
	like($raw->("${two}Content-Length: 15\r\n\r\n{\"prompt\": \"x\"}"), qr/^HTTP\S+ 400 .*more than one length/s, 'two lengths of a body');
	like($raw->("${two}Transfer-Encoding: chunked\r\n\r\nf\r\n{\"prompt\": \"x\"}\r\n0\r\n\r\n"), qr/^HTTP\S+ 400 .*more than one length/s, 'a length and chunks');
	like($raw->("GET /version HTTP/1.1\r\n\r\n"), qr/^HTTP\S+ 400 /, 'HTTP/1.1 without a host');

	# ---- paths that the HTTP server answers itself accept no upload ----

	like($raw->("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"), qr/^HTTP\S+ 200 /, 'a body that nobody needs');
	like($raw->("POST /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 70000\r\n\r\n"), qr/^HTTP\S+ 413 .*larger than vllm.http_max_body/s, 'one beyond the limit: 413 before it comes');
	{
		local $SIG{PIPE} = 'IGNORE';
		my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) or die;
		my $sent = 0;
		print $s "POST /ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
		$sent++ while $sent < 2000 && syswrite($s, "2710\r\n" . 'x' x 10000 . "\r\n");
		cmp_ok($sent, '<', 2000, 'one that does not end is cut off');
	}
	my @uploads = map {
		my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) or die;
		print $s "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 60001\r\n\r\nx";
		$s
	} 1 .. 100;
	usleep(300_000);
	my $empty = rss_kb(door_pid());
	print {$_} 'x' x 59999 for @uploads;
	usleep(700_000);
	my $more = rss_kb(door_pid()) - $empty;
	cmp_ok($more, '<', 3500, '6 MB sent without a key are kept nowhere');
	is(scalar(grep { print {$_} 'x'; (<$_> // '') =~ / 200 / } @uploads), 100, 'and those who sent them are answered');
	close $_ for @uploads;
	figure('100 uploads of 60 kB without a key: RSS + %d kB', $more);

	# ---- browsers ----

	is(($post->('/v1/completions', '{"prompt": "x"}', 'app', Origin => 'http://evil.example'))[0], 403, 'pages of other origins may not');
	$node->append_conf('postgresql.conf', "vllm.http_allowed_origins = 'http://good.example, http://other.example'\n");
	my $old = door_pid();
	$node->reload;
	ok(until_true(sub { my @p = all_doors(); @p == 1 && $p[0] != $old && $http->get("$base/health")->{status} == 200 }), 'a changed setting: another process');
	is(($post->('/v1/completions', '{"prompt": "x"}', 'app', Origin => 'http://good.example'))[2]{'access-control-allow-origin'}, 'http://good.example', 'those that are allowed may');
	is(($post->('/v1/completions', '{"prompt": "x"}', 'app', Origin => 'http://evil.example'))[0], 403, 'others may not');
	$r = $http->request('OPTIONS', "$base/v1/completions", { headers => { Origin => 'http://other.example', 'Access-Control-Request-Method' => 'POST', 'Access-Control-Request-Headers' => 'authorization,x-stainless-os' } });
	is("$r->{status} $r->{headers}{'access-control-allow-headers'}", '204 authorization,x-stainless-os', 'and ask first, with whatever headers');

	# ---- streams ----

	# A connection of our own, to get the response's pieces with their times.
	my $open = sub {
		my ($path, $body) = @_;
		my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) or die;
		print $s "POST $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer $key{app}\r\nContent-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
		return $s;
	};
	($status, $content, $headers) = $post->('/v1/chat/completions', '{"prompt": "one two three", "stream": true}', 'app');
	like($headers->{'content-type'}, qr{^text/event-stream}, 'a stream');
	like($content, qr/^data: \{[^\n]*"role" : "app"[^\n]*ONE[^\n]*\}\n\ndata: [^\n]*TWO.*\n\ndata: \[DONE\]\n\n$/s, 'of events, ended by [DONE]');
	($status, $content) = $post->('/v1/messages', '{"prompt": "one", "stream": true}', 'app');
	like($content, qr/^event: delta\ndata: \{[^\n]*ONE.*\}\n\n$/s, "Anthropic's have names and no [DONE]");
	unlike($content, qr/DONE/, '...');
	is(($post->('/v1/chat/completions', '{"prompt": "x", "stream": true, "model": "none"}', 'app'))[0], 404, 'an error before the first event is an answer');
	($status, $content) = $post->('/v1/chat/completions', '{"prompt": "@error", "stream": true}', 'app');
	cmp_ok($status, '>=', 400, 'likewise');
	is($post->('/v1/completions', '{"prompt": "x", "n": {"stream": true}}', 'app') =~ /^200 \{"path"/ ? 1 : 0, 1, 'a nested "stream" is none');
	like(scalar $post->('/v1/completions', '{"once": true, "prompt": "x"}', 'app'), qr/^500 .*could not commit/, 'what can not be committed is an error');
	like(scalar $post->('/v1/completions', '{"once": true, "prompt": "x", "stream": true}', 'app'), qr/^200 .*"X".*\n\ndata: \{"error":.*could not commit.*\n\ndata: \[DONE\]/s, 'in a stream an event');
	like($say->('/v1/completions', 'x', 'app'), qr/^200 /, 'and no harm');
	my $s = $open->('/v1/completions', '{"stream": true, "prompt": "@slow:150 a b c d e"}');
	my @times;
	while (my $line = <$s>) { push @times, time if $line =~ /^data/; last if $line =~ /DONE/ }
	cmp_ok($times[-1] - $times[0], '>', 0.3, 'events come as they are made');

	# ---- clients that leave ----

	for ([ 'a stream', '{"stream": true, "prompt": "@slow:50 ' . 'w ' x 400 . '"}' ], [ 'an answer', '{"prompt": "@hang"}' ], [ 'a stream without an event yet', '{"stream": true, "prompt": "@hang"}' ])
	{
		$s = $open->('/v1/completions', $_->[1]);
		ok(until_sql($node, q{SELECT count(*) = 1 FROM llm_requests WHERE state = 'running' OR state = 'waiting'}), "$_->[0] is on its way");
		<$s> if $_->[0] eq 'a stream';
		close $s;
		ok(until_sql($node, 'SELECT count(*) = 0 FROM llm_requests'), '... and is cancelled when its client leaves');
	}
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
	like($say->('/v1/completions', 'still', 'app'), qr/STILL/, 'connections can be used again');

	# ---- more requests than connections ----

	my @hanging = map { $open->('/v1/completions', '{"prompt": "@hang"}') } 1 .. 3;
	ok(until_sql($node, 'SELECT count(*) = 3 FROM llm_requests'), 'all connections are in use');
	($status, $content, $headers) = $post->('/v1/completions', '{"prompt": "x"}', 'app');
	is("$status $headers->{'retry-after'}", '503 1', 'one more waits, then is refused');
	is($http->get("$base/health")->{status}, 200, 'health is told all the same');
	is(($post->('/v1/completions', '{}', 'sk-wrong'))[0], 401, 'keys are looked at all the same');
	$s = $open->('/v1/completions', '{"prompt": "my turn"}');
	usleep(100_000);
	close shift @hanging;
	my $answer = '';
	while (my $line = <$s>) { $answer .= $line; last if $line =~ /MY TURN/ }
	like($answer, qr/ 200 OK.*MY TURN/s, 'who waits gets the first that is free');
	is($node->safe_psql('postgres', q{SELECT count(*) <= 4 FROM pg_stat_activity WHERE usename = 'vllm_http'}), 't', 'no more connections than are allowed');
	close $_ for @hanging;
	ok(until_sql($node, 'SELECT count(*) = 0 FROM llm_requests'), 'they end');

	# ---- metrics ----

	$node->safe_psql('door', q{SELECT llm_create_model('same', path) FROM llm_models WHERE name = 'tickets-2m'; SELECT llm_generate('x', model => 'same')});
	my @streams = map { $open->('/v1/completions', '{"stream": true, "prompt": "@slow:50 ' . 'w ' x 400 . '"}') } 1 .. 2;
	scalar <$_> for @streams;
	ok(until_true(sub { $http->get("$base/load")->{content} eq '{"server_load":2}' }, 10), '/load counts requests');
	like($http->get("$base/metrics", { headers => { Authorization => "Bearer $key{app}" } })->{content}, qr/^http_requests_in_progress 2$/m, 'likewise /metrics');
	my $text = sub { $http->get("$base/metrics", { headers => { Authorization => "Bearer $key{app}" } })->{content} };
	my $running = 0;
	$running += $_ for $text->() =~ /^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\d+)$/mg;
	is($running, 2, 'each request once, whatever models share an instance');
	my $generated = sub { ($text->() =~ /^vllm:generation_tokens_total\{[^}]*model_name="tickets-2m"\} (\d+)$/m)[0] };
	my $tokens = $generated->();
	ok(until_true(sub { $generated->() > $tokens + 5 }, 10), 'tokens are counted as they come');
	close $_ for @streams;
	ok(until_true(sub { $http->get("$base/load")->{content} eq '{"server_load":0}' }), 'until they end');

	$node->safe_psql('door', q{SELECT llm_create_model(E'a "quoted" \\\\ name', '/fake/quoted'); SELECT llm_generate('x', model => E'a "quoted" \\\\ name')});
	my $metrics = $text->();
	like($metrics, qr/^http_requests_total\{handler="\/health",method="GET",status="2xx"\} \d+$/m, 'answers are counted');
	is(bad_metrics($metrics), '', 'metrics are as Prometheus has them');
	like($metrics, qr/^vllm:request_success_total\{engine="0",model_name="a \\"quoted\\" \\\\ name",finished_reason="stop"\} 1$/m, 'names are escaped');
	is(($metrics =~ /^vllm:iteration_tokens_total_count\{engine="0",model_name="a [^}]*\} (\d+)$/m)[0], 1, 'steps are counted by their tokens');

	# ---- fewer connections than allowed ----

	$node->safe_psql('postgres', q{ALTER ROLE vllm_http CONNECTION LIMIT 2; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vllm_http'});
	ok(until_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'vllm_http'}), 'the server has room for two connections');
	my @many = map { $open->('/v1/completions', '{"prompt": "@delay:10 x"}') } 1 .. 3;
	is(join(' ', map { (<$_> =~ / (\d+) /)[0] } @many), '200 200 200', 'who gets none waits for one of those that there are');
	$node->safe_psql('postgres', 'ALTER ROLE vllm_http CONNECTION LIMIT -1');

	# ---- keys that can not be looked up ----

	my $lock = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('door'), '-c', 'BEGIN; LOCK TABLE vllm.api_key; SELECT pg_sleep(60)' ], '<', '/dev/null', '>', '/dev/null', '2>', '/dev/null');
	ok(until_sql($node, q{SELECT count(*) = 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation IS NOT NULL}), 'the table of keys is locked');
	like($say->('/v1/completions', 'x', 'app'), qr/^503 .*could not look up the API key/, 'a key that can not be looked up: 503, soon');
	is($http->get("$base/health")->{status}, 200, 'health goes on');
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
	$lock->finish;

	# ---- cost and leaks of many requests ----

	# Send the same request n times on one connection; returns microseconds for each.
	my $many_times = sub {
		my ($n, $body) = @_;
		my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) or die;
		my $request = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $key{app}\r\nContent-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
		my $start = time;
		for (1 .. $n)
		{
			my ($length, $status) = (0);
			print $c $request;
			while (my $line = <$c>)
			{
				$status //= $line;
				$length = $1 if $line =~ /^Content-Length: (\d+)/i;
				last if $line eq "\r\n";
			}
			read($c, my $content, $length) == $length or die "request $_ was not answered: " . ($status // 'closed');
		}
		return (time - $start) * 1e6 / $n;
	};
	my $leave = sub {
		my $c = $open->('/v1/completions', '{"stream": true, "prompt": "@slow:20 ' . 'w ' x 100 . '"}');
		scalar <$c>;
		close $c;
	};
	$many_times->(300, $_) for '{}', '{"stream": true', '{"error": 404}';
	$leave->() for 1 .. 20;
	ok(until_true(sub { $http->get("$base/load")->{content} eq '{"server_load":0}' }), 'nothing is in hand');
	my $door = door_pid();
	my $rss = rss_kb($door);
	my $http_us = $many_times->(3000, '{}');
	$many_times->(500, $_) for '{"stream": true', '{"error": 404}', '{"long": "' . 'x' x 30000 . '"}';
	$leave->() for 1 .. 100;
	ok(until_true(sub { $http->get("$base/load")->{content} eq '{"server_load":0}' }), 'nothing is in hand');
	cmp_ok(rss_kb($door) - $rss, '<', 3000, '4,600 requests later it is not larger');
	# its descriptors can't be listed, but the size of their table shows how many it had at once
	slurp_file("/proc/$door/status") =~ /^FDSize:\s+(\d+)/m;
	cmp_ok($1, '<=', 256, 'and has no more open');
	my $sql_us = $node->safe_psql('door', q{
		DO $$ DECLARE start timestamptz := clock_timestamp(); BEGIN
			FOR i IN 1 .. 3000 LOOP PERFORM public.llm_api('/v1/completions', '{}'); END LOOP;
			PERFORM set_config('x.us', (extract(epoch FROM clock_timestamp() - start) * 1e6 / 3000)::int::text, false);
		END $$; SELECT current_setting('x.us')});
	figure('a request that asks the engine nothing: %.0f us by HTTP, %.0f us in a loop of SQL; RSS + %d kB over 4,600', $http_us, $sql_us, rss_kb($door) - $rss);
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');

	# ---- the engine crashes ----

	$s = $open->('/v1/completions', '{"prompt": "@hang"}');
	ok(until_sql($node, 'SELECT count(*) = 1 FROM llm_requests'), 'a request is running');
	my $engine = engine_pid($node);
	kill 'KILL', $engine;
	like(scalar <$s>, qr/ 503 /, 'it ends with 503');
	close $s;
	ok(until_ready($node, $engine), 'another engine');
	like($say->('/v1/completions', 'again', 'app'), qr/^200 .*AGAIN/s, 'answers');
	is($http->get("$base/health")->{status}, 200, 'health');

	# ---- the HTTP server crashes ----

	my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
	$s = $open->('/v1/completions', '{"prompt": "@hang"}');
	ok(until_sql($node, 'SELECT count(*) = 1 FROM llm_requests'), 'a request is running');
	$old = door_pid();
	kill 'KILL', $old;
	ok(until_true(sub { my @p = all_doors(); @p == 1 && $p[0] != $old && $http->get("$base/health")->{status} == 200 }), 'killed: another one comes');
	ok(until_sql($node, 'SELECT count(*) = 0 FROM llm_requests'), 'the request ends');
	is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the database goes on');
	like($say->('/v1/completions', 'back', 'app'), qr/BACK/, 'requests, too');
	ok(until_log(qr/HTTP server was terminated by signal 9/), 'and the log says so');

	# ---- terminated database connections ----

	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vllm_http'});
	ok(until_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'vllm_http'}), 'its sessions are terminated');
	like($say->('/v1/completions', 'new', 'app'), qr/^200 /, 'new ones are made');
	$node->safe_psql('postgres', q{ALTER ROLE vllm_http NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vllm_http'});
	ok(until_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'vllm_http'}), 'and can not come back');
	like($say->('/v1/completions', 'new', 'app'), qr/^503 .*the database is not available/, 'requests are told');
	is($http->get("$base/health")->{status}, 503, 'health tells');
	ok(until_log(qr/could not connect to database "door" as role "vllm_http".*not permitted to log in/), 'the reason is in the log');
	$node->safe_psql('postgres', 'ALTER ROLE vllm_http LOGIN');
	like($say->('/v1/completions', 'new', 'app'), qr/^200 /, 'until they can');

	# ---- the anonymous role ----

	$node->append_conf('postgresql.conf', "vllm.http_anonymous_role = 'poor'\n");
	$node->reload;
	ok(until_true(sub { $say->('/v1/completions', 'anybody', '') =~ /^200 .*"role" : "poor"/s }), 'a role for those without a key');
	like($say->('/v1/completions', 'anybody', 'EMPTY'), qr/"role" : "poor"/, 'EMPTY is what clients say who have none');
	like($say->('/v1/completions', 'x', 'sk-wrong'), qr/^401/, 'a wrong key stays wrong');

	# ---- a slow client ----

	$node->append_conf('postgresql.conf', "vllm.http_idle_timeout = 1\nvllm.http_header_timeout = 1\n");
	$old = door_pid();
	$node->reload;
	ok(until_true(sub { my @p = all_doors(); @p == 1 && $p[0] != $old && $http->get("$base/health")->{status} == 200 }), 'restarted');
	$s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die;
	print $s "POST /v1/completions HTTP/1.1\r\nHost:";
	like(scalar <$s>, qr{ 408 }, 'who does not say what he wants is told so, and left');
	close $s;
	$s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die;
	print $s "GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " . 'x' x 40000 . "\r\n\r\n";
	like(scalar <$s> // 'HTTP/1.1 431', qr/ 431 /, 'headers have a limit');
	close $s;

	# the client's pause counts, not the model's
	for (0, 1)
	{
		$s = $open->('/v1/completions', sprintf('{"stream": %s, "prompt": "@slow:1500 @delay:1500 a b"}', $_ ? 'true' : 'false'));
		my $all = do { local $/; <$s> };
		like($all, qr/ 200 OK.*"[^"]*A".*"[^"]*B".*\[DONE\]/s, 'a stream may pause for longer than that') if $_;
		like($all, qr/ 200 OK.*" : "[^"]*A B"/s, 'an answer may take longer') if !$_;
		close $s;
	}

	# ---- a reload while requests are running ----

	my $hangs = $open->('/v1/completions', '{"prompt": "@hang"}');
	$s = $open->('/v1/completions', '{"stream": true, "prompt": "@slow:100 ' . 'w ' x 40 . '"}');
	scalar <$s>;
	$old = door_pid();
	$node->append_conf('postgresql.conf', "vllm.http_idle_timeout = 50\n");
	my $since = time;
	$node->reload;
	ok(until_true(sub { my ($p) = grep { $_ != $old } all_doors(); $p && $http->get("$base/health")->{status} == 200 }), 'a reload: another server');
	ok(is_alive($old), 'while the old one has requests in hand');
	like($say->('/v1/completions', 'no pause', 'app'), qr/^200 .*NO PAUSE/s, 'who comes is answered');
	my $all = do { local $/; <$s> };
	is(scalar(() = $all =~ /"W"|" W"/g), 40, 'a stream goes on');
	like($all, qr/\[DONE\]/, 'to its end');
	like(do { local $/; <$hangs> }, qr/^HTTP\S+ 503 .*the HTTP server is ending/s, 'what takes too long is told so');
	cmp_ok(time - $since, '<', 25, 'after a while');
	ok(until_true(sub { !is_alive($old) }), 'then the old one is gone');

	# ---- the extension moves to another schema ----

	$node->safe_psql('door', 'DROP EXTENSION vllm_pg CASCADE; CREATE SCHEMA other; GRANT USAGE ON SCHEMA other TO PUBLIC; CREATE EXTENSION vllm_pg SCHEMA other; ALTER DATABASE door SET search_path = public, other');
	$key{app} = $node->safe_psql('door', q{SELECT llm_create_api_key('app', 'app')});
	like($say->('/v1/completions', 'moved', 'app'), qr/^(200|503) /, 'the extension is in another schema');
	like($say->('/v1/completions', 'moved', 'app'), qr/^200 .*MOVED/, 'it is found');
	my $version = $node->safe_psql('door', 'SELECT extversion FROM pg_extension WHERE extname = $$vllm_pg$$');
	$node->safe_psql('door', 'UPDATE pg_extension SET extversion = $$9.9$$ WHERE extname = $$vllm_pg$$');
	is($http->get("$base/version")->{content}, '{"version":"9.9"}', 'and another version told');
	$node->safe_psql('door', 'UPDATE pg_extension SET extversion = $$' . $version . '$$ WHERE extname = $$vllm_pg$$');

	# ---- another schema replaces the extension's while connections are open ----

	$node->safe_psql('door', q{ALTER SCHEMA other RENAME TO ext; CREATE SCHEMA other; GRANT USAGE ON SCHEMA other TO PUBLIC;
		CREATE FUNCTION other.llm_api(path text, body vllm.json, on_error text) RETURNS json LANGUAGE plpgsql AS $$BEGIN RETURN '{"trap": true}'; END$$;
		CREATE FUNCTION other.llm_api_stream(path text, body vllm.json, on_error text) RETURNS SETOF json LANGUAGE plpgsql AS $$BEGIN RETURN NEXT '{"trap": true}'; END$$;
		CREATE FUNCTION other.llm_metrics_text() RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN 'trap'; END$$});
	like($say->('/v1/completions', 'not trapped', 'app'), qr/^200 .*NOT TRAPPED/, 'the functions called are the extension\'s');
	unlike(join('', $post->('/v1/completions', '{"prompt": "a stream", "stream": true}', 'app')), qr/trap/, '... for a stream');
	unlike($http->get("$base/metrics", { headers => { Authorization => "Bearer $key{app}" } })->{content}, qr/^trap/, '... for metrics');
	$node->safe_psql('door', 'DROP SCHEMA other CASCADE; ALTER SCHEMA ext RENAME TO other');

	# ---- an orderly end ----

	$s = $open->('/v1/completions', '{"prompt": "@delay:700 last words"}');
	ok(until_sql($node, 'SELECT count(*) = 1 FROM llm_requests'), 'a request is running');
	$node->append_conf('postgresql.conf', "vllm.http_port = 0\n");
	$node->reload;
	$answer = '';
	while (my $line = <$s>) { $answer .= $line; last if $line =~ /LAST WORDS/ }
	like($answer, qr/ 200 OK.*LAST WORDS/s, 'what is in hand is answered when the server ends');
	close $s;
	ok(until_true(sub { !door_pid() }), 'then it is gone');
	ok(!IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port), 'and its port free');

	# ---- a port in use, an invalid certificate ----

	my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die;
	new_log();
	$node->append_conf('postgresql.conf', "vllm.http_port = $port\n");
	$node->reload;
	ok(until_log(qr/HTTP server: could not listen on port $port: Address already in use/), 'a port in use is logged');
	ok(until_log(qr/HTTP server exited with status 2/), 'it ends');
	usleep(1_000_000);
	is(() = new_log() =~ /could not listen/g, 1, 'and is not tried again and again');
	is($node->safe_psql('door', q{SELECT llm_generate('fine')}), 'FINE', 'everything else goes on');
	close $taken;
	$node->reload;
	ok(until_true(sub { $http->get("$base/health")->{status} == 200 }), 'a reload tries again');
	my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());
	append_to_file("$dir/bad.pem", "no certificate\n");
	$node->append_conf('postgresql.conf', "vllm.http_ssl_cert_file = '$dir/bad.pem'\nvllm.http_ssl_key_file = '$dir/bad.pem'\n");
	$node->reload;
	ok(until_log(qr/certificate or its key can't be used/), 'a bad certificate is logged');

	# ---- TLS ----

	SKIP:
	{
		skip 'no openssl program to make a certificate', 2
			if system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null >&2") != 0;
		$node->append_conf('postgresql.conf', "vllm.http_ssl_cert_file = '$dir/cert.pem'\nvllm.http_ssl_key_file = '$dir/key.pem'\n");
		$node->reload;
		my $tls = sub {
			my ($in, $got) = ("GET /version HTTP/1.0\r\n\r\n", '');
			IPC::Run::run([ 'openssl', 's_client', '-quiet', '-connect', "127.0.0.1:$port" ], '<', \$in, '>', \$got, '2>', '/dev/null');
			return $got;
		};
		ok(until_true(sub { $tls->() =~ /"version"/ }), 'TLS');
		isnt($http->get("$base/version")->{status}, 200, 'and nothing but TLS');
	}
}
$node->stop('fast');
is(scalar(grep { (eval { slurp_file($_) } // '') =~ /vllm_pg_http\0.*\0port[=\0]$port\0/s } glob '/proc/[0-9]*/cmdline'), 0, 'no server is left');
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by signal (11|6)/, 'a clean log');
done_testing();
