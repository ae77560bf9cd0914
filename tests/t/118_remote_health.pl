# Health checks: one of two urls goes down and comes back, and no request fails because of it; idle urls are
# checked, or left alone.
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

my $secret = 's3cret-of-two';
my $first = RemoteTest->new(secret => $secret, name => 'a');
my $second = RemoteTest->new(secret => $secret, name => 'b');
my $port = $first->port;
my $node = new_node('health', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1'\n");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub model
{
	my ($name, $options) = @_;
	sql(sprintf(q{SELECT llm_create_model('%s', provider => 'openai', url => '%s', options => '{"urls": ["%s"], "dialect": "vllm"%s}')}, $name, $first->url, $second->url, $options));
	sql("SELECT llm_set_secret('$name', '$secret')");
	return;
}

# Return for the first url: health, calls, failures, retries.
sub figures { my ($name) = @_; return sql("SELECT health, calls, failures, retries FROM llm_stat_remote WHERE model = '$name' AND url LIKE '%:$port/%'") }
sub checks { return scalar $_[0]->log('/v1/models') }

# Run rows, each of which must be right; returns how many are not.
my $rows = 0;
sub wrong
{
	my ($n, $name) = @_;
	$rows += $n;
	return sql("SELECT count(*) FILTER (WHERE llm_generate('row ' || i, model => '$name', max_tokens => 9) IS DISTINCT FROM i || ' row') FROM generate_series($rows, $rows + $n - 1) i");
}

model('two', ', "max_retries": 0');
model('idle', ', "max_retries": 0, "health_check_interval": 1');

# ---- a url that goes down ----

is(wrong(100, 'two'), 0, 'both answer');
cmp_ok(scalar($_->log('/v1/completions')), '>', 10, '... each some') for $first, $second;
is(checks($first) + checks($second), 0, 'nobody asks how they are');
$first->stop;
for (1 .. 200)
{
	last if figures('two') =~ /^down/;
	finish(bg($node, q{SELECT llm_generate('x y ' || i, model => 'two') FROM generate_series(1, 20) i}));
}
like(figures('two'), qr/^down/, 'one is known to be down');
my $was = figures('two');
my $end = time + 4;
my $failed = 0;
$failed += wrong(20, 'two') while time < $end;
is($failed, 0, "no request fails then, without a single retry ($rows rows)");
is(figures('two'), $was, '... nor is one sent there');
my $error = sql("SELECT last_error FROM llm_stat_remote WHERE model = 'two' AND url LIKE '%:$port/%'");
like($error, qr/^health check: /, 'health checks are');
unlike($error, qr/\Q$secret/, '... without telling the secret');

# ---- and comes back ----

$first = RemoteTest->new(secret => $secret, name => 'a', port => $port);
my $t0 = time;
$failed = 0;
until (figures('two') =~ /^up/ || time > $t0 + 30)
{
	$failed += wrong(4, 'two');
	sleep 0.05;
}
is($failed, 0, 'no request fails while it comes back');
cmp_ok(time - $t0, '<', 12, 'it is up again within seconds');
wrong(40, 'two');
cmp_ok(scalar($first->log('/v1/completions')), '>', 5, '... and gets requests');
my ($check) = $first->log('/v1/models');
is($check->{auth}, 'right', 'the check had the secret');
is($check->{method}, 'GET', '... and was a GET');
is((map { $_->{path} } $first->log)[0], '/v1/models', '... before any request');
is(checks($second), 0, 'the other one was not asked');
is((split /\|/, figures('two'))[2], (split /\|/, $was)[2], 'no further failure is counted');

# ---- a single url: new requests wait for the check ----

sql(sprintf(q{SELECT llm_create_model('one', provider => 'openai', url => '%s', options => '{"max_retries": 0}')}, $first->url));
sql("SELECT llm_set_secret('one', '$secret')");
$first->fault(name => 'close', times => 5, path => '/v1/completions');
finish(bg($node, q{SELECT llm_generate('x', model => 'one')})) for 1 .. 5;
like(figures('one'), qr/^down/, 'down by its answers');
is(wrong(1, 'one'), 0, 'who waits a second is served');
is(figures('one'), 'up|6|5|0', '... and nothing else was counted');

# ---- idle urls ----

is(wrong(40, 'idle'), 0, 'a model with health_check_interval');
$first->stop;
ok(until_true(sub { figures('idle') =~ /^down/ }, 10), 'is known to be down without a request');
is((split /\|/, figures('idle'))[2], 0, '... which would count');
is(wrong(100, 'idle'), 0, '... and none fails');
my $n = checks($second);
ok(until_true(sub { checks($second) > $n + 1 }, 10), 'the other one is asked again and again');
sql("SELECT llm_drop_model('idle')");
sleep 0.5;
$n = checks($second);
sleep 2.5;
is(checks($second), $n, 'but not when the model is gone');

$node->stop;
done_testing();
