# An engine that has work but makes no step is killed after vllm.hang_timeout; one that crashes because of a
# request comes back.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $node = new_node('hang', "vllm.hang_timeout = '1s'\n");
ok(until_ready($node), 'the engine becomes ready');
my $up = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my $call = q{SELECT llm_generate('next call')};

# no progress
my $engine = engine_pid($node);
my $b = bg($node, q{SELECT llm_generate('@stall')});
my ($out, $err) = finish($b);
like($err, qr/ERROR:  58000/, 'the call fails');
like($err, qr/HINT:/, 'with a hint');
cmp_ok($b->{took}, '<', 8, 'soon after vllm.hang_timeout');
figure('stalled engine (vllm.hang_timeout = 1 s): error after %.1f s', $b->{took});
is($node->safe_psql('postgres', $call), 'NEXT CALL', 'the next call works');
isnt(engine_pid($node), $engine, 'by another engine');
like(slurp_file($node->logfile), qr/killing the inference engine/, 'the log says so');
like(stat_engine($node, 'last_error'), qr/made no step/, 'and so does llm_stat_engine, although the new one is ready');
is(stat_engine($node, q{last_error_at BETWEEN now() - interval '1 minute' AND now()}), 't', 'with the time');

# a request that takes long is not a hang: others are served meanwhile
$engine = engine_pid($node);
$b = bg($node, q{SELECT llm_generate('slow but sure @delay:3000')});
($out, $err) = finish($b);
like($out, qr/SLOW BUT SURE/, 'a slow request is answered');
is(engine_pid($node), $engine, 'by the same engine');

# stopped by a signal: the server thread stops, too
kill 'STOP', $engine;
$b = bg($node, $call);
($out, $err) = finish($b);
ok($out eq 'NEXT CALL' || $err =~ /58000/, 'SIGSTOP to the engine: the call ends');
ok(until_ready($node, $engine), 'and a new engine takes over');

# crashes because of a request, several times: every call gets its error, and the backoff doesn't block the
# next one for long
my $lost = 0;
for my $i (1 .. 4)
{
	($out, $err) = finish(bg($node, q{SELECT llm_generate('@crash')}));
	$lost++ if $err =~ /ERROR:  58000/ && $err =~ /HINT:/;
}
is($lost, 4, '@crash: each call gets 58000 and a hint');
is($node->safe_psql('postgres', $call), 'NEXT CALL', 'the next call works');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
