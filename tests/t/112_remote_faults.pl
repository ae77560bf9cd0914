# Replies that don't match the request, and rows that must be right in spite of faults:
# tests/remote/fake_endpoint.py replies to each prompt with its words in reverse, and obeys markers in the
# prompt.  No wrong row, no secret in an error, no hang, nothing charged twice.
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

my $secret = 's3cret-of-the-endpoint';
my $e = RemoteTest->new(secret => $secret);
my $other = RemoteTest->new(secret => $secret, name => 'other');
my $tls = RemoteTest::can_tls() ? RemoteTest->new(tls => 1) : undef;
my $node = new_node('faults', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1, localhost'\nvllm.max_queued_requests = 256\n");

sub model
{
	my ($name, $url, $options) = @_;
	$node->safe_psql('postgres', sprintf(q{SELECT llm_create_model('%s', provider => 'openai', url => '%s', options => '%s')}, $name, $url, $options));
	return;
}
model('m', $e->url, '{"dialect": "vllm", "max_retries": 3, "timeout": 5000}');
model('once', $e->url, '{"dialect": "vllm", "max_retries": 0, "timeout": 2000}');
model('two', $e->url, '{"dialect": "vllm", "urls": ["' . $other->url . '"], "max_retries": 4}');
$node->safe_psql('postgres', "SELECT llm_set_secret(m, '$secret') FROM unnest(ARRAY['m', 'once', 'two']) m");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub fails { my ($sql) = @_; return (finish(bg($node, $sql)))[1] }

# ---- without faults ----

is(sql(q{SELECT llm_generate('one two three', model => 'm', max_tokens => 9)}), 'three two one', 'a completion');
is(sql(q{SELECT llm_generate('one two three', model => 'm', max_tokens => 2)}), 'three two', 'max_tokens');
is(sql(q{SELECT llm_ask('one two', model => 'm')}), 'two one', 'a chat');
is(sql(q{SELECT count(*) FROM generate_series(1, 200) i WHERE llm_generate('row ' || i, model => 'm', max_tokens => 9) = i || ' row'}), 200, '200 rows, each with its own');
my ($sent) = $e->log('/v1/completions');
is($sent->{auth}, 'right', 'the secret was sent');
is_deeply([ @{ $sent->{headers} }{ 'content-type', 'accept' } ], [ 'application/json', 'application/json' ], 'as JSON');
cmp_ok($e->stats->{connections}, '<=', 70, 'connections were kept');

# ---- vectors: their order and number ----

my $v = q{SELECT md5(string_agg(llm_embed(t || '%s', model => 'm')::text, ',' ORDER BY i)) FROM (SELECT i, 'text ' || i AS t FROM generate_series(1, 40) i) s};
my $want = sql(sprintf $v, '');
is(sql(sprintf $v, ' [[shuffle]]'), $want, 'rows of a shuffled answer find their places');
is(sql(q{SELECT count(DISTINCT llm_embed('text ' || i, model => 'm')::text) FROM generate_series(1, 40) i}), 40, 'and are different');
# a breaker that faults have opened is closed again by a reply
sub recover
{
	return until_true(sub { (finish(bg($node, q{SELECT llm_generate('a b', model => 'once') FROM (SELECT llm_embed('a', model => 'once') AS e OFFSET 0) s WHERE e IS NOT NULL})))[0] eq 'b a' }, 10);
}
for my $fault (qw(wrong_count extra_count nan empty garbage html))
{
	like(fails("SELECT llm_embed('a [[$fault]]', model => 'once')"), qr/ERROR:  08P01/, "a vector: $fault");
	recover();
}
for my $fault (qw(wrong_count extra_count same_index nan))
{
	my $err = fails("SELECT llm_embed('text ' || i || ' [[$fault]]', model => 'once') FROM generate_series(1, 20) i");
	like($err, qr/ERROR:  08P01/, "20 vectors: $fault");
	recover();
}

# lengths can only be compared within one call: the rows wait until the model's only call has ended, so
# that they are sent together
model('single', $e->url, '{"dialect": "vllm", "max_retries": 0, "timeout": 30000, "max_concurrent_requests": 1}');
$node->safe_psql('postgres', "SELECT llm_set_secret('single', '$secret')");
my $held = bg($node, q{SELECT llm_generate('a b [[hold]]', model => 'single')});
ok($e->wait_for(sub { grep { ($_->{body}{prompt} // '') =~ /hold/ } @_ }), 'a call is held');
my $shorter = bg($node, q{SELECT llm_embed('text ' || i || ' [[wrong_dim]]', model => 'single') FROM generate_series(1, 20) i});
ok(until_sql($node, q{SELECT count(*) = 21 FROM llm_requests WHERE model = 'single'}), '... and 20 rows wait');
$e->release;
is(finish($held), 'b a', 'the call ends');
like((finish($shorter))[1], qr/ERROR:  08P01/, '20 vectors: wrong_dim');

# a row that breaks the endpoint down fails alone; if vectors differ in length, it is unknown which are
# wrong
for my $case ([ 'status 500' => '4|4' ], [ close => '4|4' ], [ garbage => '4|4' ], [ nan => '4|4' ], [ wrong_dim => undef ])
{
	my ($fault, $right) = @$case;
	my $some = qq{SELECT count(v), count(v) FILTER (WHERE v::text = llm_embed('text ' || i, model => 'm')::text) FROM (SELECT i, llm_embed('text ' || i ||
		CASE i WHEN 3 THEN ' [[$fault]]' ELSE '' END, model => 'm') AS v FROM generate_series(1, 5) i OFFSET 0) s};
	my $got = sql("SET vllm.on_error = 'null'; $some");

	# the rows of the same call have none; on a busy machine rows may have been sent alone, also this one:
	# then there is nothing to compare it with
	is($got, $right // ($got =~ /^([0-4])\|\1$/ ? $got : '5|4'), "4 of 5 vectors, or none that is wrong: $fault");
	recover();
}

# ---- texts ----

for my $t (
	[ garbage => qr/08P01/ ], [ html => qr/08P01/ ], [ empty => qr/08P01/ ], [ wrong_count => qr/08P01/ ], [ extra_count => qr/08P01/ ], [ null => qr/08P01/ ],
	[ bad_utf8 => qr/08P01/ ], [ 'deep 100000' => qr/08P01/ ], [ not_http => qr/08/ ], [ close => qr/08006/ ], [ reset => qr/08006/ ], [ cut_head => qr/08006/ ],
	[ cut_body => qr/08006/ ], [ 'status 500' => qr/57P03/ ], [ 'status 418' => qr/08P01|22023/ ], [ 'bomb 300' => qr/08P01/ ], [ 'redirect http://127.0.0.1:1/' => qr/42501/ ],
	[ 'slow 0.05' => qr/57014|08006|57P03/ ], [ hang => qr/57014|08006|57P03/ ])
{
	my ($fault, $class) = @$t;
	my $before = $e->log;
	my $t0 = time;
	my $err = fails("SELECT llm_generate('x y [[$fault]]', model => 'once', max_tokens => 5)");
	like($err, qr/ERROR:  $class/, "text: $fault");
	is($e->log - $before, 1, '... asked once');
	cmp_ok(time - $t0, '<', 8, '... in time');
	unlike($err, qr/\Q$secret/, '... without the secret');
	recover();
}
my $echoed = fails(q{SELECT llm_generate('x [[echo_secret]]', model => 'm')});
like($echoed, qr/ERROR:  28000/, 'an endpoint that tells the secret');
unlike($echoed, qr/\Q$secret/, '... is not quoted');

# ---- streams ----

sub streamed { my ($prompt, $more) = @_; return "SELECT string_agg(text, '') FROM llm_generate_stream('$prompt', model => 'once'" . ($more // '') . ') t' }
is(sql(streamed('a b c d')), 'd c b a', 'a stream');
for my $fault ('cut_stream 2', 'end_stream 2', 'garbage_stream 2', 'error_in_stream 2', 'stall 2')
{
	my $err = fails(streamed("a b c d [[$fault]]"));
	like($err, qr/ERROR:  (08|57|58)/, "a stream: $fault");
	recover();
}

# ---- retries: as often as configured, when configured, and the row is right ----

my $t0 = time;
my $n = $e->log;
is(sql(q{SELECT llm_generate('p q [[status 429 x2]] [[retry_after 1 x2]]', model => 'm')}), 'q p', '429 twice, then an answer');
is($e->log - $n, 3, '... three calls');
cmp_ok(time - $t0, '>=', 1.9, '... Retry-After was waited for');
# health checks of an open breaker don't count
for my $fault ('close', 'cut_body', 'status 500', 'garbage')
{
	$n = $e->log('/v1/completions');
	is(sql("SELECT llm_generate('r s [[$fault x1]]', model => 'm', temperature => 0)"), 's r', "$fault once, asked again because that is harmless");
	is($e->log('/v1/completions') - $n, 2, '... two calls');
	$n = $e->log('/v1/completions');
	isnt(fails("SELECT llm_generate('t u [[$fault x1]]', model => 'm', temperature => 0.7)"), '', "$fault with a temperature is an error");
	is($e->log('/v1/completions') - $n, 1, '... one call');
}

# ---- a thousand rows, a third of which meet a fault: right or NULL, never wrong ----

my @faults = ('close', 'reset', 'cut_body', 'status 500', 'status 503', 'status 429', 'garbage', 'empty', 'delay 0.05', 'close_idle', 'wrong_count');
my $list = join ',', map { "'[[$_ x1]]'" } @faults;
my $rows = q{SELECT count(*) FILTER (WHERE a = 'w' || i || ' row'), count(*) FILTER (WHERE a IS NULL), count(*) FROM (SELECT i, llm_generate('row w' || i || ' ' ||
	CASE WHEN i %% 3 = 0 THEN (ARRAY[%s])[i %% %d + 1] ELSE '' END, model => '%s', max_tokens => 8%s) AS a FROM generate_series(1, 1000) i) s};
$e->reset;
my ($right, $null, $all) = split /\|/, sql("SET vllm.on_error = 'null'; " . sprintf($rows, $list, scalar @faults, 'two', ', temperature => 0'));
is($right + $null, $all, "1,000 rows with faults: $right right, $null NULL, none wrong");
cmp_ok($right, '>=', 500, '... most of them right');
($right, $null, $all) = split /\|/, sql("SET vllm.on_error = 'null'; " . sprintf($rows, $list, scalar @faults, 'two', ', temperature => 0.5'));
is($right + $null, $all, "that must not be asked twice: $right right, $null NULL, none wrong");
# with a temperature, no prompt was read twice by an endpoint that could have charged it
my %seen;
for ($e->log('/v1/completions'), $other->log('/v1/completions'))
{
	next if ($_->{body}{temperature} // 1) != 0.5;
	next if exists $_->{faults}{status} && $_->{faults}{status} =~ /429|503/;
	$seen{ $_->{body}{prompt} }++;
}
is(scalar(grep { $_ > 1 } values %seen), 0, 'nothing that may be charged was asked twice (' . scalar(keys %seen) . ' prompts)');
cmp_ok($other->stats->{requests}, '>', 10, 'both urls were asked');

# ---- limits ----

model('narrow', $e->url, '{"dialect": "vllm", "max_concurrent_requests": 3}');
sql("SELECT llm_set_secret('narrow', '$secret')");
$e->reset;
is(sql(q{SELECT count(llm_generate('n ' || i || ' [[delay 0.02]]', model => 'narrow')) FROM generate_series(1, 60) i}), 60, 'three at a time');
is($e->stats->{most_at_once}, 3, '... and no more');

# ---- cancel ----

my @ms;
for my $i (1 .. 5)
{
	my $b = bg($node, "SELECT llm_generate('cancelled $i [[hang]]', model => 'm')");
	ok($e->wait_for(sub { grep { ($_->{body}{prompt} // '') =~ /cancelled $i / } @_ }), 'it hangs');
	my $at = time;
	sql('SELECT llm_cancel(id) FROM llm_requests');
	my ($gone) = $e->wait_for(sub { my ($r) = grep { ($_->{body}{prompt} // '') =~ /cancelled $i / && $_->{aborted} } @_; return $r });
	push @ms, 1000 * ($gone->{aborted} - $at);
	finish($b);
}
my ($best) = sort { $a <=> $b } @ms;
cmp_ok($best, '<', 100, sprintf 'a cancel closes the request within 100 ms (of psql\'s start: %s)', join ' ', map { int } @ms);

# ---- TLS ----

SKIP:
{
	skip 'needs openssl', 5 if !$tls;
	model('secure', $tls->url, '{"dialect": "vllm", "max_retries": 1, "ca_file": "' . $tls->ca_file . '"}');
	model('unknown', $tls->url, '{"dialect": "vllm", "max_retries": 1}');
	model('named', $tls->url =~ s/127\.0\.0\.1/localhost/r, '{"dialect": "vllm", "max_retries": 1, "ca_file": "/nonexistent/ca.crt"}');
	model('trusting', $tls->url, '{"dialect": "vllm", "ssl_verify": false}');
	is(sql(q{SELECT llm_generate('over tls', model => 'secure')}), 'tls over', 'TLS with a certificate that is known');
	is(sql(q{SELECT llm_generate('over tls', model => 'trusting')}), 'tls over', 'not looked at');
	my $n = $tls->log;
	like(fails(q{SELECT llm_generate('over tls', model => 'unknown')}), qr/ERROR:  08.*certificate.*HINT:.*ca_file/s, 'one that is not known');
	like(fails(q{SELECT llm_generate('over tls', model => 'named')}), qr/ERROR:  58030/, 'certificates that are not there');
	is($tls->log - $n, 0, '... nothing was sent');
	$tls->stop;
}

my $left;
until_true(sub { ($left = stat_engine($node, q{slots_total - slots_free || ' ' || zombies || ' ' || slot_waiters})) eq '0 0 0' }, 10);
is($left, '0 0 0', 'nothing is left behind');
$_->stop for $e, $other;
$node->stop('fast');
done_testing();
