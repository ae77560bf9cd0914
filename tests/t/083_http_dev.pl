# Control of the engine by HTTP: off by default, for roles with EXECUTE, with parameters in the query.
use strict;
use warnings;
use HTTP::Tiny;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $base = "http://127.0.0.1:$port";
my $node = new_node('http_dev', "vllm.engine_args = '--fake --set fake_step_ms=2'\nvllm.http_host = '127.0.0.1'\n");

SKIP:
{
	skip 'vllm_pg_http was not built here', 30 if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";
	my $sql = sub { return $node->safe_psql('postgres', shift) };
	$sql->(q{CREATE ROLE vllm_http LOGIN NOINHERIT; CREATE ROLE boss; CREATE ROLE poor; GRANT boss, poor TO vllm_http;
		GRANT EXECUTE ON FUNCTION llm_sleep, llm_wake_up, llm_pause, llm_resume TO boss});
	$sql->(q{SELECT llm_create_model('second', '/fake/second')});
	my %key = map { $_ => $sql->("SELECT llm_create_api_key('$_', '$_')") } qw(boss poor);
	$node->append_conf('postgresql.conf', "vllm.http_port = $port\n");
	$node->reload;
	my $http = HTTP::Tiny->new(timeout => 60);
	ok(until_true(sub { $http->get("$base/health")->{status} == 200 }), 'there is a door');

	# status and body
	my $ask = sub {
		my ($method, $path, $who, %more) = @_;
		my $r = $http->request($method, "$base$path", { headers => { $who ? (Authorization => "Bearer $key{$who}") : (), %more } });
		return "$r->{status} $r->{content}";
	};
	like($ask->('POST', "/$_", 'boss'), qr/^404 .*while vllm.http_dev_mode is off/, "/$_: off by default") for 'sleep', 'wake_up', 'pause', 'resume';
	like($ask->('GET', "/$_", 'boss'), qr/^404 /, "/$_: off by default") for 'is_sleeping', 'is_paused';
	$node->append_conf('postgresql.conf', "vllm.http_dev_mode = on\n");
	$node->reload;
	ok(until_true(sub { $ask->('GET', '/is_sleeping', 'boss') =~ /^200/ }), 'on');

	like($ask->('POST', '/sleep'), qr/^401 /, 'not without a key');
	like($ask->('POST', '/sleep', 'poor'), qr/^403 .*permission denied for function llm_sleep/, 'nor without the privilege');
	is($ask->('GET', '/is_sleeping', 'poor'), '200 {"is_sleeping" : false}', 'everybody may ask');
	like($ask->('GET', '/sleep', 'boss'), qr/^405 /, 'GET changes nothing');
	like($ask->('POST', '/sleep', 'boss', Origin => 'http://evil.example'), qr/^403 /, 'nor does a page of another origin');
	is($ask->('POST', '/sleep', 'boss'), '200 ', '/sleep');
	is($ask->('GET', '/is_sleeping', 'boss') . $ask->('GET', '/is_paused', 'boss'), '200 {"is_sleeping" : true}200 {"is_paused" : true}', '... and it sleeps');
	like(($node->psql('postgres', "SELECT llm_generate('x')"))[2], qr/is asleep/, '... also for SQL');
	is($ask->('POST', '/wake_up?tags=weights', 'boss') . $ask->('GET', '/is_sleeping', 'boss'), '200 200 {"is_sleeping" : true}', 'a part wakes');
	is($ask->('POST', '/wake_up?tags=weights&tags=kv_cache', 'boss') . $ask->('GET', '/is_sleeping', 'boss'), '200 200 {"is_sleeping" : false}', 'all of it');
	is($ask->('POST', '/sleep?level=2&mode=keep&model=second', 'boss') . $ask->('GET', '/is_sleeping?model=second', 'boss'), '200 200 {"is_sleeping" : true}', 'one model');
	is($sql->("SELECT llm_generate('x')"), 'X', '... of two');
	is($ask->('POST', '/wake_up', 'boss'), '200 ', '/wake_up');
	is($ask->('POST', '/pause?mode=keep&clear_cache=true', 'boss') . $ask->('GET', '/is_paused', 'boss'), '200 {"status":"paused"}200 {"is_paused" : true}', '/pause');
	is($ask->('POST', '/resume', 'boss') . $ask->('GET', '/is_paused', 'boss'), '200 {"status":"resumed"}200 {"is_paused" : false}', '/resume');
	is($ask->('POST', '/wake_up', 'boss', 'Content-Type' => 'application/json'), '200 ', 'with a type');
	like($ask->(@$_, 'boss'), qr/^400 \{"error":.*BadRequestError/, "$_->[1]: 400")
		for [ 'POST', '/sleep?level=3' ], [ 'POST', '/sleep?level=x' ], [ 'POST', '/sleep?level=' ], [ 'POST', '/sleep?mode=maybe' ], [ 'POST', '/sleep?lvel=2' ], [ 'POST', '/wake_up?tags=all' ], [ 'POST', '/pause?clear_cache=perhaps' ],
		[ 'GET', '/is_sleeping?x' ];
	like($ask->('POST', "/sleep?model=nobody", 'boss'), qr/^404 /, 'no such model');
	is($ask->('GET', '/is_sleeping', 'boss'), '200 {"is_sleeping" : false}', 'none of it did anything');
	my $r = $http->post("$base/sleep", { content => 'level=2', headers => { Authorization => "Bearer $key{boss}", 'Content-Type' => 'application/x-www-form-urlencoded' } });
	is($r->{status}, 415, 'a form is refused');
	for my $body ('{"level": 2}', '{}')
	{
		$r = $http->post("$base/wake_up", { content => $body, headers => { Authorization => "Bearer $key{boss}", 'Content-Type' => 'application/json' } });
		is($r->{status}, $body eq '{}' ? 200 : 400, "a body, $body");
	}
	like($http->get("$base/metrics", { headers => { Authorization => "Bearer $key{boss}" } })->{content}, qr/http_requests_total\{handler="\/sleep",method="POST",status="2xx"\} 2/, 'counted');
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
}
$node->stop;
done_testing();
