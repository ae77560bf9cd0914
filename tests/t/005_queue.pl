# More calls than slots, and messages longer than their rings.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

# ---- one slot: the queue is served in order ----
my $node = new_node('queue', "vllm.max_queued_requests = 1\n");
ok(until_ready($node), 'the engine becomes ready');
is(stat_engine($node, 'slots_total'), 1, 'one slot');

sub queued
{
	my ($n) = @_;
	return until_sql($node, "SELECT slot_waiters = $n FROM llm_stat_engine");
}

sub holder
{
	my ($ms) = @_;
	my $b = bg($node, "SELECT llm_generate('holder \@delay:$ms')");
	until_sql($node, 'SELECT count(*) = 1 FROM llm_requests');
	return $b;
}

my $h = holder(1500);
my @b;
for my $i (1 .. 6)
{
	push @b, bg($node, "SELECT extract(epoch FROM clock_timestamp()) FROM (SELECT llm_generate('w$i \@delay:50') OFFSET 0) s(g) WHERE g IS NOT NULL");
	queued($i);
}
is(finish($h), 'HOLDER @DELAY:1500', 'the holder of the slot gets its answer');
my @at = map { scalar finish($_) } @b;
is_deeply(\@at, [ sort { $a <=> $b } @at ], 'waiting calls are served in the order of their arrival');

# full for longer than vllm.queue_timeout
$h = holder(1500);
my $b = bg($node, q{SET vllm.queue_timeout = '300ms'}, q{SELECT llm_generate('x')});
my ($out, $err) = finish($b);
like($err, qr/ERROR:  53300/, 'queue full: 53300');
like($err, qr/HINT:  .*vllm\.max_queued_requests/, 'with a hint');
cmp_ok($b->{took}, '>=', 0.3, 'not before vllm.queue_timeout');
cmp_ok($b->{took}, '<', 1.4, 'and not much later');
is(stat_engine($node, 'queue_timeouts'), 1, 'counted');

# a call that leaves the queue, by a cancel or because its backend ends, doesn't keep others from the slot
@b = ();
for my $i (1 .. 4)
{
	push @b, bg($node, "SELECT llm_generate('q$i')");
	queued($i);
}
my @pid = map { $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT llm_generate(''q$_'')'") } 1 .. 2;
kill 'INT', $pid[0];
kill 'TERM', $pid[1];
like((finish($b[0]))[1], qr/57014/, 'a queued call can be cancelled');
like((finish($b[1]))[1], qr/57P01/, 'and its backend terminated');
finish($h);
is(finish($b[2]), 'Q3', 'the ones behind it get the slot');
is(finish($b[3]), 'Q4', 'one after the other');

# the engine crashes while calls are queued: they lose nothing, and wait for the next engine
$h = holder(20000);
@b = ();
for my $i (1 .. 3)
{
	push @b, bg($node, "SELECT llm_generate('after $i')");
	queued($i);
}
kill 9, engine_pid($node);
like((finish($h))[1], qr/58000/, 'engine killed: the running call fails');
is(join(',', map { scalar finish($_) } @b), 'AFTER 1,AFTER 2,AFTER 3', 'queued calls are answered by the next engine');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');

# ---- messages of any length; small rings ----
$node = new_node('lengths', "vllm.ring_size = '4kB'\nvllm.max_prompt_bytes = '16MB'\n");
ok(until_ready($node), 'the engine becomes ready');
my $t0 = time;
is($node->safe_psql('postgres', q{
	WITH p AS (SELECT repeat('abcdefg ', 2 * 1024 * 1024 - 2) || 'end' AS p)
	SELECT length(p), upper(p) = llm_generate(p, max_tokens => 4000000) FROM p}), '16777203|t', 'a prompt of 16 MB comes back');
figure('16 MB prompt and 16 MB answer through rings of 4 kB: %.2f s', time - $t0);
($out, $err) = finish(bg($node, q{SELECT llm_generate(repeat('x', 16 * 1024 * 1024 + 1))}));
like($err, qr/ERROR:  54000/, 'a longer one is refused');
($out, $err) = finish(bg($node, q{SELECT llm_count_tokens(repeat('x', 16 * 1024 * 1024 + 1))}));
like($err, qr/ERROR:  54000: input of 16777217 bytes/, 'by the tokenizers too');
is($node->safe_psql('postgres', q{SELECT llm_count_tokens(repeat('x', 16 * 1024 * 1024))}), 16777216, 'one of 16 MB is not');
is($node->safe_psql('postgres', q{SELECT length(llm_generate('@big:5000000', max_tokens => 10000000))}), 5000000, 'an answer longer than its ring');

# several at once
@b = map { bg($node, "SELECT length(llm_generate(repeat('$_ ', 500000), max_tokens => 1000000))") } 1 .. 4;
is(join(',', map { scalar finish($_) } @b), '999999,999999,999999,999999', 'four long ones at once');

# a slow reader delays no other call, and gets everything
$node->safe_psql('postgres', 'CREATE TABLE whole AS SELECT llm_generate($$@tokens:20000$$, max_tokens => 20000) AS t');
$b = bg($node, 'BEGIN', q{DECLARE c CURSOR FOR SELECT (llm_generate_stream('@tokens:20000', max_tokens => 20000)).text},
	'FETCH 1 FROM c', 'SELECT pg_sleep(1)', 'COMMIT');
until_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(1)'});
$t0 = time;
is($node->safe_psql('postgres', q{SELECT llm_generate('meanwhile')}), 'MEANWHILE', 'others are served meanwhile');
cmp_ok(time - $t0, '<', 0.9, 'at once');
finish($b);
is($node->safe_psql('postgres', q{
	SELECT string_agg(text, '' ORDER BY n) = (SELECT t FROM whole)
	FROM (SELECT (s).text, row_number() OVER () AS n FROM (SELECT llm_generate_stream('@tokens:20000', max_tokens => 20000) AS s, pg_sleep(0) OFFSET 0) x) y}),
	't', 'a stream is the whole answer');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# round trips
$node->safe_psql('postgres', q{SELECT count(llm_generate('x')) FROM generate_series(1, 200)});
$t0 = time;
$node->safe_psql('postgres', q{SELECT count(llm_generate('x')) FROM generate_series(1, 2000)});
figure('round trip of a call, engine without work: %.0f us', (time - $t0) * 1e6 / 2000);
$node->stop('fast');
done_testing();
