# The supervisor and its engine: start, views, log, settings, stop.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $node = new_node('lifecycle', "log_min_messages = debug1\n");
ok(until_ready($node), 'the engine becomes ready');
is($node->safe_psql('postgres', q{SELECT llm_generate('hello world')}), 'HELLO WORLD', 'a call is answered');

# seen from outside
my $pid = engine_pid($node);
my $sup = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'});
like($sup, qr/^\d+$/, 'one supervisor in pg_stat_activity');
is($node->safe_psql('postgres', "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $sup"), 'Extension', 'with a wait event');
my $b = bg($node, q{SELECT llm_generate('@hang')});
ok(until_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%@hang%' AND pid <> pg_backend_pid()}),
	'a waiting backend shows a wait event');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM llm_requests');
finish($b);

# the process: a session of its own, only the descriptors it needs, first for the OOM killer
my ($ppid, $pgrp, $sid) = slurp_file("/proc/$pid/stat") =~ /\) \S (\d+) (\d+) (\d+)/;
is($ppid, $sup, 'child of the supervisor');
is("$pgrp|$sid", "$pid|$pid", 'session and process group of its own');
my @open = grep { m{/(base|pg_wal|global)/} } map { readlink("/proc/$pid/fd/$_") // '' } 0 .. 300;
is(scalar @open, 0, 'no data file of the server is open in the engine');
is(readlink("/proc/$pid/fd/0"), '/dev/null', 'stdin is /dev/null');
cmp_ok(slurp_file("/proc/$pid/oom_score_adj"), '>=', 500, 'the OOM killer takes the engine first');
my $env = slurp_file("/proc/$pid/environ");
unlike($env, qr/PGDATA|PGPORT/, 'the environment of the server is not passed on');

# log lines carry levels
my $log = slurp_file($node->logfile);
my $version = $node->safe_psql('postgres', q{SELECT extversion FROM pg_extension WHERE extname = 'vllm_pg'});
like($log, qr/LOG:  .*engine \Q$version\E is ready/, 'log line of the start, with the version of the extension');

# SIGINT does not cost the engine
$node->safe_psql('postgres', "SELECT pg_cancel_backend($sup)");
is($node->safe_psql('postgres', q{SELECT llm_generate('still here')}), 'STILL HERE', 'pg_cancel_backend(supervisor) changes nothing');
is(engine_pid($node), $pid, 'same engine process');

# settings: niceness and memory limit from the next start, others at once
$node->append_conf('postgresql.conf', "vllm.engine_nice = 7\nvllm.engine_memory_limit = '4GB'\nvllm.max_num_seqs = 5\n");
$node->reload;
ok(until_true(sub { slurp_file($node->logfile) =~ /parameter "vllm.max_num_seqs" changed to "5"/ }), 'settings are reloaded');
is($node->safe_psql('postgres', q{SELECT llm_generate('x')}), 'X', 'and the engine goes on');
$node->safe_psql('postgres', 'SELECT llm_engine_restart()');
my $new = engine_pid($node);
isnt($new, $pid, 'llm_engine_restart() gives a new process');
ok(!is_alive($pid), 'the old one is gone');
my ($nice, $base) = map { (split ' ', (slurp_file("/proc/$_/stat") =~ s/.*\) //r))[16] } $new, $sup;
is($nice, $base > 7 ? $base : 7, 'vllm.engine_nice');
like(slurp_file("/proc/$new/limits"), qr/Max address space\s+4294967296/, 'vllm.engine_memory_limit');
is(stat_engine($node, 'restarts'), 1, 'restarts are counted');

# invalid values are refused
my ($rc, $out, $err) = $node->psql('postgres', q{SET vllm.queue_timeout = -1});
like($err, qr/outside the valid range/, 'range checks');
($rc, $out, $err) = $node->psql('postgres', q{SET vllm.no_such_setting = 1});
like($err, qr/invalid configuration parameter name|unrecognized configuration parameter/, 'the prefix is reserved');
($rc, $out, $err) = $node->psql('postgres', q{SET vllm.engine_path = '/bin/true'});
like($err, qr/cannot be changed now/, 'the engine program is not a matter of sessions');
for (['0-', 'does not begin with a CPU number'], ['3-1', 'Range 3-1 is empty'], ['0,8192', 'outside the valid range'], ['2,0-3', 'CPU 2 is listed twice'])
{
	($rc, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET vllm.cpu_affinity = '$_->[0]'");
	like($err, qr/invalid value for parameter "vllm.cpu_affinity".*DETAIL:.*$_->[1].*HINT:.*0-3,8/s, "a wrong list of CPUs: $_->[0]");
}
($rc, $out, $err) = $node->psql('postgres', q{SET vllm.num_threads = 1});
like($err, qr/invalid configuration parameter name|unrecognized configuration parameter/, 'the name of before 0.3');
is($node->safe_psql('postgres', q{CREATE ROLE plain; SET ROLE plain; SELECT count(*) FROM pg_settings WHERE name IN ('vllm.engine_path', 'vllm.engine_args')}),
	0, 'paths are shown to superusers only');

# a fast shutdown stops the engine
my $start = time;
$node->stop('fast');
figure('fast shutdown %.2f s', time - $start);
ok(!is_alive($new), 'no engine after shutdown');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'a clean log');
done_testing();
