# The real remote program and an endpoint that behaves, or doesn't: replies, faults and their cost, cancels,
# hosts that are no longer allowed, and leaks of 10,000 requests.
use strict;
use warnings;
use FindBin;
use HTTP::Tiny;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use Endpoint;
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";

my $node = new_node('endpoint', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1'\nvllm.max_queued_requests = 256\nvllm.hang_timeout = '1s'\n");
my $ep = Endpoint->new($node->basedir . '/endpoint.log');

# a model for each behaviour; each path has its own health
my @paths = qw(ok lapsed hang begin late cut slam cutstream garbage nothing binary e500 e400 e401 e429 once429 once503 away loris flood missing);
$node->safe_psql('postgres', join(';', map {
	sprintf(q{SELECT llm_create_model('%s', provider => 'openai', url => '%s', options => '{"max_retries": 2, "timeout": %d}')}, $_, $ep->url($_), $_ eq 'loris' ? 700 : 20000)
} @paths));

sub ask { my ($model, $prompt, $more) = @_; return "SELECT llm_generate('$prompt', model => '$model'" . ($more // '') . ')'; }

sub remote_pid
{
	my @pids = slurp_file($node->logfile) =~ /the remote program is ready, pid (\d+)/g;
	return $pids[-1] // 0;
}

sub nothing_left
{
	my ($what) = @_;
	my $got;
	until_true(sub { ($got = stat_engine($node, q{slots_total - slots_free || ' ' || zombies || ' ' || slot_waiters})) eq '0 0 0' }, 10);
	return is($got, '0 0 0', "$what: nothing is left behind");
}

# ---- replies ----

is($node->safe_psql('postgres', ask('ok', 'far away')), 'FAR AWAY', 'an answer');
is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT a) FROM (SELECT llm_generate('row ' || i, model => 'late') AS a FROM generate_series(1, 500) i) s WHERE a LIKE 'ROW %'}),
	'500|500', 'many rows');
my $opened = () = $ep->events('open');
cmp_ok($opened, '<', 140, "over $opened connections");
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT i, llm_generate('number ' || i, model => 'ok') AS a FROM generate_series(1, 500) i) s WHERE a = 'NUMBER ' || i}), 500, 'each row has its own');
is($node->safe_psql('postgres', q{SELECT string_agg(text, '|') FROM llm_generate_stream('one two three', model => 'ok') WHERE text <> ''}), 'ONE |TWO |THREE', 'a stream');

# ---- faults: the error, and the number of calls ----

# without temperature 0 or a seed a retry may be charged twice
my $free = ', temperature => 0';
for my $t (
	[ 'e400', '', qr/ERROR:  22023.*not like this/s, 1, 'a bad request' ],
	[ 'e401', '', qr/ERROR:  28000.*llm_set_secret/s, 1, 'a refused key' ],
	[ 'missing', '', qr/ERROR:  42704/, 1, 'no such path' ],
	[ 'away', '', qr/ERROR:  42501.*redirect/s, 1, 'a redirection is not followed' ],
	[ 'e500', '', qr/ERROR:  57P03/, 1, '500 is not asked again' ],
	[ 'e500', $free, qr/ERROR:  57P03/, 3, '... unless that costs nothing' ],
	[ 'e429', '', qr/ERROR:  (57P03|53)/, 3, '429 is' ],
	[ 'cut', '', qr/ERROR:  08/, 1, 'an answer that breaks off is not asked for again' ],
	[ 'cut', $free, qr/ERROR:  08/, 3, '... unless that costs nothing' ],
	[ 'slam', '', qr/ERROR:  08/, 1, 'a connection that is closed behind the request' ],
	[ 'slam', $free, qr/ERROR:  08/, 3, '... that may be asked again' ],
	[ 'garbage', '', qr/ERROR:  08P01/, 1, 'no JSON' ],
	[ 'nothing', '', qr/ERROR:  08P01/, 1, 'too few answers' ],
	[ 'binary', '', qr/ERROR:  08/, 1, 'no HTTP' ],
	[ 'loris', '', qr/ERROR:  (57014|57P03|08)/, 1, 'an answer that takes for ever' ])
{
	my ($model, $more, $error, $asked, $what) = @$t;
	my $before = $ep->requests($model);
	my $b = bg($node, ask($model, 'x', $more));
	my ($out, $err) = finish($b);
	like($err, $error, "$what: the error");
	is($ep->requests($model) - $before, $asked, "... and $asked calls");
	cmp_ok($b->{took}, '<', 10, '... in time');
}
for my $model ('once429', 'once503')
{
	is($node->safe_psql('postgres', ask($model, 'again')), 'AGAIN', "$model: the second call has an answer");
	is($ep->requests($model), 2, '... of two');
}
# delivered rows stay, and nothing is requested again
my ($out, $err) = finish(bg($node, q{BEGIN}, q{DECLARE c CURSOR FOR SELECT (llm_generate_stream('x', model => 'cutstream', temperature => 0)).text}, 'FETCH 1 FROM c', 'FETCH 1 FROM c'));
is($out, 'half ', 'a stream that breaks off: what has come');
like($err, qr/ERROR:  08/, '... and an error');
is($ep->requests('cutstream'), 1, '... not another beginning');
nothing_left('faults');

# ---- cancels: the endpoint's connection is closed at once ----

# $start: a running request of that model; $stop, which gets its id and pid, ends it (without it $start ends
# by itself, and returns when); returns the ms until the endpoint notices
my $other = $node->background_psql('postgres');

sub closed_after
{
	my ($model, $start, $stop) = @_;
	my $before = $ep->requests($model);
	my $closed = () = $ep->events('closed', $model);
	my $b = bg($node, @$start);
	until_true(sub { $ep->requests($model) > $before }) or return 'not asked';
	my @request = split /\|/, $other->query_safe('SELECT id, pid FROM llm_requests');
	my $t0 = time;
	$stop->(@request) if $stop;
	until_true(sub { $closed < (my @e = $ep->events('closed', $model)) }, 5) or return 'not closed';
	my ($out) = finish($b);
	($t0) = $out =~ /^at (\S+)$/m if !$stop;
	my @events = $ep->events('closed', $model);
	return 1000 * ($events[-1][0] - $t0);
}
my %ways = (
	'llm_cancel()' => [ 'hang', [ ask('hang', 'x') ], sub { $other->query_safe("SELECT llm_cancel($_[0])") } ],
	'pg_cancel_backend()' => [ 'hang', [ ask('hang', 'x') ], sub { kill 'INT', $_[1] } ],
	'pg_terminate_backend()' => [ 'hang', [ ask('hang', 'x') ], sub { kill 'TERM', $_[1] } ],
	'ROLLBACK in a stream' => [ 'begin', [ 'BEGIN', q{DECLARE c CURSOR FOR SELECT llm_generate_stream('x', model => 'begin')}, 'FETCH 2 FROM c', 'SELECT pg_sleep(0.3)',
			q{SELECT 'at ' || extract(epoch FROM clock_timestamp())}, 'ROLLBACK' ] ]);
for my $way (sort keys %ways)
{
	my @ms = map { closed_after(@{ $ways{$way} }) } 1 .. 5;
	ok(!(grep { !/^[\d.]+$/ } @ms), "$way closes the endpoint's connection (@ms)");
	# the fastest of five: a busy machine delays some of them, a wait in the program would delay all
	my ($best) = sort { $a <=> $b } map { /^[\d.]+$/ ? $_ : 1e9 } @ms;
	cmp_ok($best, '<', 100, '... at once');
	figure('%s: the endpoint sees it after %.1f ms at best of 5', $way, $best);
}
$other->quit;
my $b = bg($node, q{SET statement_timeout = '500ms'}, q{SELECT llm_generate('x' || i, model => 'hang') FROM generate_series(1, 40) i});
like((finish($b))[1], qr/57014/, 'statement_timeout');
my $still = sub { my %open; $_->[2] eq 'request' ? $open{ $_->[1] } = 1 : delete $open{ $_->[1] } for grep { $_->[3] eq 'hang' } $ep->events; return scalar keys %open };
ok(until_true(sub { $still->() == 0 }, 2), 'of 40 requests: all are closed');
($out, $err) = finish(bg($node, q{SELECT llm_generate('x', model => 'hang', timeout_ms => 300)}));
like($err, qr/57014/, 'timeout_ms');
ok(until_true(sub { $still->() == 0 }, 2), '... closes it');
($out, $err) = finish(bg($node, q{SET statement_timeout = '1s'}, q{SELECT llm_generate('x', model => 'flood', max_tokens => 100000000)}));
like($err, qr/ERROR/, 'an endpoint that sends without end is stopped');
cmp_ok(rss_kb(remote_pid()), '<', 300_000, '... and does not fill the memory');
nothing_left('cancels');

# ---- kill -9, and settings ----

my $old = remote_pid();
$b = bg($node, ask('hang', 'x'));
until_true(sub { $still->() == 1 });
kill 9, $old;
like((finish($b))[1], qr/ERROR:  58000: lost connection to the remote program/, 'kill -9 of the program');
ok(until_true(sub { $still->() == 0 }, 2), '... closes its connections');
is($node->safe_psql('postgres', ask('ok', 'next')), 'NEXT', 'the next call works');
isnt(remote_pid(), $old, '... by another program');

# it has a heartbeat while it waits, and is killed when the heartbeat stops
$old = remote_pid();
$b = bg($node, ask('hang', 'x'));
usleep(7_000_000);
is(remote_pid(), $old, 'a request that waits for long is no hang');
kill 'STOP', $old;
like((finish($b))[1], qr/ERROR:  58000/, 'a program that stands still is killed');
is($node->safe_psql('postgres', ask('ok', 'moves')), 'MOVES', '... and another one goes on');

$old = remote_pid();
$b = bg($node, ask('begin', 'x'));
set_to($node, 'vllm.allowed_hosts', 'llm.example.com');
($out, $err) = finish(bg($node, ask('ok', 'x')));
like($err, qr/ERROR:  42501.*vllm\.allowed_hosts/s, 'a host that is not allowed any more');
set_to($node, 'vllm.allowed_hosts', 'http://127.0.0.1');
is($node->safe_psql('postgres', ask('ok', 'allowed')), 'ALLOWED', 'allowed again');
is(remote_pid(), $old, 'by the same program');
$node->safe_psql('postgres', 'SELECT llm_cancel(id) FROM llm_requests');
finish($b);

# ---- jobs: calls that may have been charged are not repeated again and again ----

my $cut = $ep->requests('cut');
$node->safe_psql('postgres', q{
	SELECT llm_create_model('nobody', provider => 'openai', url => 'http://127.0.0.1:1/v1', options => '{"max_retries": 0}');
	CREATE TABLE paid (id int PRIMARY KEY, body text, answer text);
	CREATE TABLE gone (LIKE paid INCLUDING ALL);
	CREATE TABLE bad_key (LIKE paid INCLUDING ALL);
	CREATE TABLE fine (LIKE paid INCLUDING ALL);
	INSERT INTO paid SELECT i, 'p' FROM generate_series(1, 3) i;
	INSERT INTO gone SELECT i, 'g' FROM generate_series(1, 100) i;
	INSERT INTO bad_key VALUES (1, 'b');
	INSERT INTO fine SELECT i, 'f' FROM generate_series(1, 300) i;
	SELECT llm_create_completion_job(t, '{body}', 'answer', name => t::text::name, model => m, max_attempts => n)
		FROM (VALUES ('gone'::regclass, 'nobody', 2), ('paid', 'cut', 2), ('bad_key', 'lapsed', 9), ('fine', 'ok', 2)) v (t, m, n)});
ok(until_sql($node, q{SELECT count(*) = 300 FROM fine WHERE answer = 'F'}), 'a job whose endpoint answers');
ok(until_sql($node, q{SELECT count(*) = 3 FROM llm_job_failures WHERE name = 'paid' AND attempts = 2 AND sqlstate LIKE '08%'}), 'one whose endpoint breaks off gives its rows up');
is($ep->requests('cut') - $cut, 7, '... after max_attempts calls each, and one when the job was made');
ok(until_sql($node, q{SELECT state = 'failed' FROM llm_jobs WHERE name = 'bad_key'}), 'one whose secret is refused fails');
is($node->safe_psql('postgres', q{SELECT queued + in_flight, (SELECT count(*) FROM llm_job_failures WHERE name = 'gone') FROM llm_jobs WHERE name = 'gone'}), '100|0',
	'one whose endpoint is not there waits for it');
$node->safe_psql('postgres', q{INSERT INTO fine SELECT i, 'again' FROM generate_series(301, 400) i});
ok(until_sql($node, q{SELECT count(*) = 100 FROM fine WHERE answer = 'AGAIN'}), '... and keeps nobody waiting');
$node->safe_psql('postgres', q{SELECT llm_drop_job(n) FROM unnest(ARRAY['paid', 'gone', 'bad_key', 'fine']) n});
nothing_left('jobs');

# ---- the HTTP server with endpoints, without an engine ----

SKIP:
{
	skip 'vllm_pg_http was not built here', 5 if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $http = HTTP::Tiny->new(timeout => 20);
	my $base = "http://127.0.0.1:$port";
	$node->safe_psql('postgres', q{CREATE ROLE vllm_http LOGIN NOINHERIT; CREATE ROLE web; GRANT web TO vllm_http; SELECT llm_grant('ok', 'web'), llm_grant('e400', 'web')});
	$node->append_conf('postgresql.conf', "vllm.http_host = '127.0.0.1'\nvllm.http_anonymous_role = 'web'\nvllm.http_port = $port\n");
	$node->reload;
	ok(until_true(sub { $http->get("$base/health")->{status} == 200 }, 20), 'without an engine the HTTP server is well when the remote program is');
	my $post = sub { return $http->post("$base/v1/completions", { headers => { 'Content-Type' => 'application/json' }, content => $_[0] }) };
	my $r = $post->('{"model": "ok", "prompt": "through the door"}');
	is($r->{status}, 200, 'a body that goes on to the endpoint');
	like($r->{content}, qr/THROUGH THE DOOR/, '... and its answer comes back') or diag($r->{content});
	$r = $post->('{"model": "e400", "prompt": "x"}');
	is($r->{status}, 400, 'its refusal, too') or diag($r->{content});
	like($r->{content}, qr/not like this/, '... with its words') or diag($r->{content});
}

# ---- 10,000 requests, some of which fail or are cancelled ----

my $mix = q{DO $$ BEGIN FOR i IN 1..60 LOOP
	BEGIN PERFORM llm_generate('f' || i, model => (ARRAY['e500', 'cut', 'slam', 'garbage', 'e400', 'nothing'])[i % 6 + 1]); EXCEPTION WHEN OTHERS THEN NULL; END;
END LOOP; END $$};
my $lots = q{SELECT count(*) FROM (SELECT llm_generate('r' || i, model => 'ok') AS a FROM generate_series(1, %d) i) s WHERE a LIKE 'R%%'};
my $give_up = q{SELECT llm_generate('g' || i, model => CASE i %% 4 WHEN 0 THEN 'late' ELSE 'ok' END) FROM generate_series(1, 200) i LIMIT %d};
$node->safe_psql('postgres', $mix);
is($node->safe_psql('postgres', sprintf($lots, 1000)), 1000, 'warm');
nothing_left('warm');
my $program = remote_pid();
my ($fds, $rss) = (fd_count($program), rss_kb($program));
my $t0 = time;
for my $i (1 .. 4)
{
	my @b = map { bg($node, $_) } sprintf($lots, 1200), sprintf($lots, 1200), $mix, sprintf($give_up, 20), "SET statement_timeout = '60ms'; " . sprintf($lots, 1000);
	is(scalar(finish($b[0])) . scalar(finish($b[1])), '12001200', "round $i");
	finish($_) for @b[ 2 .. 4 ];
}
nothing_left('10,000 requests');
figure('%d requests in %.1f s; %d kB, grown by %d kB', scalar(my @all = $ep->events('request')), time - $t0, rss_kb($program), rss_kb($program) - $rss);
cmp_ok(fd_count($program), '<=', $fds + 70, 'no descriptors are left but of connections that are kept');
cmp_ok(rss_kb($program) - $rss, '<', 20_000, 'nor memory');
is(remote_pid(), $program, 'it is the same program');
is($node->safe_psql('postgres', ask('ok', 'last')), 'LAST', 'and works');
set_to($node, 'vllm.remote_path', '/nonexistent/remote');
ok(until_true(sub { !is_alive($program) }, 5), 'told to end it does');
$ep->stop;
$node->stop('fast');

# ---- a database that is its own endpoint: requests that wait for requests leave slots for these ----

SKIP:
{
	skip 'vllm_pg_http was not built here', 4 if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	$node = new_node('self', "vllm.max_queued_requests = 8\nvllm.allowed_hosts = '127.0.0.1'\nvllm.http_host = '127.0.0.1'\nvllm.http_anonymous_role = 'web'\n"
		. "vllm.http_max_connections = 16\nvllm.http_port = $port\n");
	$node->safe_psql('postgres', qq{CREATE ROLE vllm_http LOGIN NOINHERIT; CREATE ROLE web; GRANT web TO vllm_http;
		SELECT llm_create_model('self', provider => 'openai', url => 'http://127.0.0.1:$port/v1', options => '{"model": "tickets-2m", "dialect": "vllm"}')});
	ok(until_ready($node), 'an engine, its HTTP server and the remote program');
	ok(until_true(sub { HTTP::Tiny->new->get("http://127.0.0.1:$port/health")->{status} == 200 }, 20), 'are there');
	my @b = map { bg($node, q{SELECT count(*) FROM (SELECT llm_generate('to myself ' || i, model => 'self') AS a FROM generate_series(1, 100) i) s WHERE a LIKE 'TO MYSELF%'}) } 1 .. 4;
	push @b, bg($node, q{SELECT count(*) FROM (SELECT llm_generate('at once ' || i) AS a FROM generate_series(1, 300) i) s WHERE a LIKE 'AT ONCE%'});
	is(join(' ', map { scalar finish($_) } @b), '100 100 100 100 300', 'four statements ask the engine by way of the HTTP server, one does so itself, with 8 slots');
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
	$node->stop('fast');
}
done_testing();
