# Requests on their way to endpoints: coalescing, limits of models' options, endpoints and roles, several
# urls, and fairness.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use RemoteTest;
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";
plan skip_all => 'no python3' if !RemoteTest::available();

my $e = RemoteTest->new;
my $other = RemoteTest->new(name => 'other');
my $node = new_node('rlimits', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1'\nvllm.max_queued_requests = 256\n");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub model
{
	my ($name, $options, $url) = @_;
	return sql(sprintf(q{SELECT llm_create_model('%s', provider => 'openai', url => '%s', options => '{"dialect": "vllm", %s}')}, $name, $url // $e->url, $options));
}
model('m', '"max_retries": 3');
model('eight', '"max_batch_inputs": 8');
model('two_at_once', '"max_concurrent_requests": 2');
model('slowly', '"requests_per_minute": 30');
model('both', '"urls": ["' . $other->url . '"]');
model('dead', '"urls": ["' . $other->url . '"], "connect_timeout": 500', 'http://127.0.0.1:1/v1');
model('gone', '"max_retries": 0', 'http://127.0.0.1:1/v1');
sql(q{CREATE ROLE app LOGIN; CREATE ROLE rest LOGIN; SELECT llm_grant('m', 'public')});
sql("SELECT llm_generate('warm', model => 'm', max_tokens => 1)");

# ---- coalescing ----

my $embed = q{SELECT count(DISTINCT llm_embed('text ' || i, model => '%s')::text) FROM generate_series(1, %d) i};
$_->reset for $e, $other;
is(sql(sprintf($embed, 'm', 500)), 500, '500 vectors');
my @calls = $e->log('/v1/embeddings');
my @sizes = map { ref $_->{body}{input} eq 'ARRAY' ? scalar @{ $_->{body}{input} } : 1 } @calls;
cmp_ok(@calls, '<=', 40, '... in ' . @calls . ' calls');
is(eval { my $s = 0; $s += $_ for @sizes; $s }, 500, '... each text once');
is(scalar(grep { $_ > 64 } @sizes), 0, '... at most 64 in one');
$e->reset;
is(sql(sprintf($embed, 'eight', 100)), 100, '100 vectors of a model with max_batch_inputs 8');
is(scalar(grep { ref $_->{body}{input} eq 'ARRAY' && @{ $_->{body}{input} } > 8 } $e->log('/v1/embeddings')), 0, '... at most 8 in one');

# a bad row fails alone, if the others succeed
$e->reset;
like(error_of($node, q{SELECT llm_embed('text ' || i || CASE i WHEN 17 THEN ' [[status 400]]' ELSE '' END, model => 'm') FROM generate_series(1, 40) i}), qr/ERROR:  22023/,
	'a bad row among others');
is(sql(q{SET vllm.on_error = 'null'; SELECT count(v), count(*) FROM (SELECT llm_embed('text ' || i || CASE i WHEN 17 THEN ' [[status 413]]' ELSE '' END, model => 'm') v FROM generate_series(1, 40) i) s}),
	'39|40', '... fails alone');

# ---- concurrent calls, and calls in a minute ----

my $rows = q{SELECT count(*) FROM generate_series(1, %d) i WHERE llm_generate('row ' || i || ' [[delay 0.02]]', model => '%s', max_tokens => 9) IS NOT NULL};
$e->reset;
is(sql(sprintf($rows, 40, 'two_at_once')), 40, '40 rows');
is($e->stats->{most_at_once}, 2, '... two at once');
$e->reset;
is(sql(sprintf($rows, 200, 'm')), 200, '200 rows');
cmp_ok($e->stats->{most_at_once}, '>', 30, '... many at once');
cmp_ok($e->stats->{most_at_once}, '<=', 64, '... 64 at most');
my $t0 = time;
is(sql(sprintf($rows, 5, 'slowly')), 5, '30 a minute: 3 at once, then one in 2.2 s');
cmp_ok(time - $t0, '>', 4.3, '... ' . (time - $t0) . ' s');
cmp_ok(time - $t0, '<', 9, '...');

# limits that the endpoint reports apply to all
$e->reset;
$e->fault(name => 'status', arg => 429);
$e->control({ faults => [ { name => 'status', arg => 429 }, { name => 'retry_after', arg => 1 } ] });
is(sql(sprintf($rows, 30, 'm')), 30, '30 rows, some of them refused at first');

# ---- urls ----

$_->reset for $e, $other;
is(sql(sprintf($rows, 200, 'both')), 200, '200 rows at two urls');
my ($here, $there) = map { scalar($_->log('/v1/completions')) } $e, $other;
is($here + $there, 200, '... each asked for once');
ok($here > 60 && $there > 60, "... by turns: $here, $there");
$_->reset for $e, $other;
is(sql(sprintf($rows, 100, 'dead')), 100, '100 rows, one of the urls is not there');
is(scalar($other->log('/v1/completions')), 100, '... all at the other');
is(sql(q{SELECT url LIKE '%:1/v1', health IN ('down', 'trying'), failures = calls, failures > 4, retries, in_flight, last_error <> '' FROM llm_stat_remote WHERE model = 'dead' AND failures > 0}),
	't|t|t|t|0|0|t', '... which is seen');

# no server: an error at once, and once the breaker is open without a call
my $gone = q{SELECT llm_generate('x', model => 'gone')};
for (1 .. 5)
{
	like(error_of($node, $gone), qr/ERROR:  08006/, 'nobody listens');
}
$t0 = time;
my $late = bg($node, "SET statement_timeout = '300ms'", $gone);
like((finish($late))[1], qr/ERROR:  57P03|ERROR:  57014/, 'the breaker is open');
cmp_ok(time - $t0, '<', 3, '... which takes no time');

# ---- limits of roles ----

sql('ALTER ROLE app SET vllm.role_max_requests = 3');
$e->reset;
my @b = map { bg_as($node, 'app', sprintf($rows, 20, 'm')) } 1 .. 3;
my $rest = bg_as($node, 'rest', sprintf($rows, 20, 'm'));
is(finish($rest), 20, 'a role without limits');
is(join(',', map { scalar finish($_) } @b), '20,20,20', '... passes one that has some');
cmp_ok($rest->{took}, '<', $b[0]{took}, "... and is faster: $rest->{took}, $b[0]{took}");
$e->reset;
@b = map { bg_as($node, 'app', sprintf($rows, 20, 'm')) } 1 .. 3;
finish($_) for @b;
is($e->stats->{most_at_once}, 3, 'three at once over all sessions of the role');
# with short requests there may be fewer for a moment, between one's end and the next
(my $long = $rows) =~ s/delay 0\.02/delay 2/;
my $hold = bg_as($node, 'app', sprintf($long, 6, 'm'));
$e->wait_for(sub { @_ > 62 });
like((finish(bg_as($node, 'app', 'SET vllm.role_limit_timeout = 0', sprintf($rows, 1, 'm'))))[1], qr/ERROR:  53400.*role has its limit of 3 LLM requests in flight/s,
	'who does not want to wait');
is(finish($hold), 6, '... keeps nobody from it');
sql('ALTER ROLE app RESET vllm.role_max_requests; ALTER ROLE app SET vllm.role_tokens_per_minute = 20');
like((finish(bg_as($node, 'app', 'SET vllm.role_limit_timeout = 100', sprintf($rows, 20, 'm'))))[1], qr/ERROR:  53400.*20 LLM tokens per minute/s, 'tokens per minute');
sql('ALTER ROLE app RESET vllm.role_tokens_per_minute; ALTER ROLE app SET vllm.role_max_tokens = 5');
like((finish(bg_as($node, 'app', q{SELECT llm_generate('x', model => 'm', max_tokens => 6)})))[1], qr/ERROR:  22023.*at most 5 for this role/s, 'max_tokens');
is(finish(bg_as($node, 'app', q{SELECT llm_generate('a b c', model => 'm', max_tokens => 5)})), 'c b a', '... within the limit');

until_true(sub { stat_engine($node, q{slots_total - slots_free || ' ' || zombies}) eq '0 0' }, 10);
is(stat_engine($node, q{slots_total - slots_free || ' ' || zombies}), '0 0', 'nothing is left');
done_testing();
