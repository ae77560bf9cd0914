# Whichever process is killed: running calls get an error at once, the next call works, the database does
# not restart if it is the engine, and no engine outlives its server.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = new_node('killing', "restart_after_crash = on\n");
ok(until_ready($node), 'the engine becomes ready');
my $call = q{SELECT llm_generate('next call')};
my $up = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

sub works
{
	my ($what) = @_;
	my $out;
	until_true(sub { ($node->psql('postgres', $call, stdout => \$out))[0] == 0 }, 30);
	is($out, 'NEXT CALL', "$what: the next call works");
	is(left_behind($node), '0|0|0|0|0|0', "$what: nothing is left behind");
}

# kill -9 the engine during 8 calls
my $engine = engine_pid($node);
my @b = map { bg($node, q{SELECT llm_generate('@hang')}) } 1 .. 8;
ok(until_sql($node, 'SELECT running + waiting >= 8 FROM llm_stat_engine'), '8 calls are running');
my $t0 = time;
kill 9, $engine;
my ($good, $slowest) = (0, 0);
for my $b (@b)
{
	my ($out, $err) = finish($b);
	$good++ if $err =~ /ERROR:  58000/ && $err =~ /HINT:/;
	$slowest = time - $t0;
}
is($good, 8, 'kill -9 engine: every call gets 58000 with a hint');
cmp_ok($slowest, '<', 2, 'at once');
figure('kill -9 engine: last of 8 calls failed after %.0f ms', $slowest * 1000);
works('kill -9 engine');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');

# how long does a new engine take?  the backoff grows with each crash
for my $i (1 .. 3)
{
	$engine = engine_pid($node);
	$t0 = time;
	kill 9, $engine;
	until_ready($node, $engine);
	figure('respawn %d: ready %.0f ms after kill -9', $i, (time - $t0) * 1000);
}
like(slurp_file($node->logfile), qr/terminated by signal 9/, 'the log says how it ended');
like(stat_engine($node, 'restarts'), qr/^[4-9]$/, 'restarts are counted');

# pg_terminate_backend(supervisor): supervisor and engine come back
$engine = engine_pid($node);
my $sup = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'};
my $b = bg($node, q{SELECT llm_generate('@hang')});
until_sql($node, 'SELECT count(*) = 1 FROM llm_requests');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(($sup))");
like((finish($b))[1], qr/ERROR:  58000/, 'terminated supervisor: the running call fails');
ok(until_true(sub { !is_alive($engine) }, 2), 'the old engine is gone');
works('terminated supervisor');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');

# a backend is terminated during a call: its slot is freed
$b = bg($node, q{SELECT llm_generate('@hang')});
until_sql($node, 'SELECT running = 1 FROM llm_stat_engine');
my $pid = $node->safe_psql('postgres', 'SELECT pid FROM llm_requests');
kill 'TERM', $pid;
finish($b);
works('SIGTERM to a backend');

# the server crashes and recovers: kill -9 of a backend, then of the supervisor
$b = bg($node, q{SELECT llm_generate('@hang')});
until_sql($node, 'SELECT running = 1 FROM llm_stat_engine');
$engine = engine_pid($node);
kill 9, $node->safe_psql('postgres', 'SELECT pid FROM llm_requests');
finish($b);
ok(until_true(sub { !is_alive($engine) }, 5), 'kill -9 backend: the old engine is gone');
until_true(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 }, 30);
works('kill -9 backend');

$engine = engine_pid($node);
kill 9, $node->safe_psql('postgres', $sup);
ok(until_true(sub { !is_alive($engine) }, 5), 'kill -9 supervisor: the old engine is gone');
until_true(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 }, 30);
works('kill -9 supervisor');

# immediate restart during a generation
$b = bg($node, q{SELECT llm_generate('@hang')});
until_sql($node, 'SELECT running = 1 FROM llm_stat_engine');
$engine = engine_pid($node);
$node->stop('immediate');
finish($b);
ok(until_true(sub { !is_alive($engine) }, 2), 'immediate stop: the engine is gone');
$node->start;
works('immediate restart');

# kill -9 postmaster
$engine = engine_pid($node);
my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
$t0 = time;
kill 9, $postmaster;
ok(until_true(sub { !is_alive($engine) }, 5), 'kill -9 postmaster: the engine is gone');
figure('kill -9 postmaster: engine gone after %.0f ms', (time - $t0) * 1000);
cmp_ok(time - $t0, '<', 1, 'within 1 s');
# the server object still believes that it runs; wait until every child has exited
until_true(sub { !grep { is_alive($_) } split(' ', `pgrep -P $postmaster` // '') }, 10);
$node->{_pid} = undef;
until_true(sub { unlink($node->data_dir . '/postmaster.pid'); eval { $node->start(fail_ok => 1) } }, 30);
works('restart after kill -9 postmaster');
$node->stop('fast');
done_testing();
