# Ranks that communicate by NCCL: on devices that are compiled for the CPU (kernels/emu), with a library
# that copies their data through shared memory.  The bits of one process; ranks that crash or hang; devices
# and libraries that can't be used, and what is used instead.
use strict;
use warnings;
use Cwd qw(getcwd);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VllmTest;

my $libs = ($ENV{VLLM_PG_DEVICES} // '') . '/emu';
plan skip_all => 'no emulated library of CUDA devices was built' if !-r "$libs/vllm_pg_cuda.so" || !-r "$libs/libnccl_emu.so";
my $fixtures = getcwd() . '/fixtures';
my $nccl = "$libs/libnccl_emu.so";
my $node = PostgreSQL::Test::Cluster->new('nccl');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nfsync = off\nvllm.device = 'cuda'\nvllm.device_library = '$libs/vllm_pg_cuda.so'\nvllm.cuda_visible_devices = '0,1,2,3'\n"
	. "vllm.nccl_path = '$nccl'\nvllm.max_num_batched_tokens = 32\nvllm.max_num_seqs = 8\nvllm.cpu_threads = 2\nvllm.kv_cache_memory_bytes = '4MB'\nvllm.hang_timeout = '10s'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return error_of($node, shift); }
sub again { return restart_with($node, @_); }
sub ranks { return engine_ranks($node); }

# log lines from here on
my $mark;
sub mark { return $mark = -s $node->logfile; }
sub logged { my $what = shift; return until_true(sub { slurp_file($node->logfile, $mark) =~ $what }, 5); }

sql("SELECT llm_create_model('experts', '$fixtures/models/qwen3_moe_f16')");

# One prompt that takes several steps, and several at once.
sub asked { return qq{SELECT string_agg(o::text, '|') FROM (SELECT (llm_output(repeat('a b c ', i * 7), model => '$_[0]', max_tokens => 5, ignore_eos => true, temperature => 1, seed => i, logprobs => 2)).completions::text o FROM generate_series(1, 3) i ORDER BY i) s}; }
my @questions = (q{SELECT llm_generate('Ticket: order 17, the kettle arrived broken.' || E'\nJSON:', temperature => 0, max_tokens => 6)}, asked('tickets-2m'), asked('experts'));
sub answers { return map { sql($_) } @questions; }

sub same
{
	my ($what, @alone) = @_;
	my @now = answers();
	return is(join("\n", @now), join("\n", @alone), "the bits of one process: $what");
}
my @alone = answers();

# ---- by NCCL ----

for my $shape ([ 2, 1 ], [ 1, 2 ], [ 2, 2 ])
{
	my ($tp, $pp) = @$shape;
	mark();
	again(tensor_parallel_size => $tp, pipeline_parallel_size => $pp);
	same("$tp x $pp ranks", @alone);
	ok(logged(qr/ranks exchange by NCCL 2\.28\.9/), '... by NCCL indeed');
}
again(tensor_parallel_size => 2, pipeline_parallel_size => 1);
is(sql($questions[0]), $alone[0], 'two ranks');
is(sql(q{SELECT string_agg(rank || ' ' || note, ', ' ORDER BY device) FROM llm_devices WHERE kind = 'cuda' AND rank IS NOT NULL}),
	'0 ranks exchange by NCCL 2.28.9, 1 ranks exchange by NCCL 2.28.9', 'llm_devices tells of it');
sql(q{SELECT llm_unload_model('tickets-2m')});
is(sql($questions[0]), $alone[0], '... unloaded and loaded again');
sql(q{SELECT llm_sleep(1, mode => 'keep', model => 'tickets-2m'); SELECT llm_wake_up(model => 'tickets-2m')});
is(sql($questions[0]), $alone[0], '... asleep and awake');
again(enable_expert_parallel => 'on');
is(sql($questions[2]), $alone[2], 'whole experts');
# partial sums are added in the order of ranks: the library's own sums would differ
again(enable_expert_parallel => 'off', tensor_parallel_mode => 'rows');
my $sums = sql($questions[1]);
again(nccl_path => 'off');
is(sql($questions[1]), $sums, 'partial sums have the same bits by NCCL and by way of the host');
again(tensor_parallel_mode => 'columns', nccl_path => $nccl);

# ---- a rank is killed ----

my $engine;
my $many = q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 300, ignore_eos => true)) FROM generate_series(1, 30) i};
is(sql($questions[0]), $alone[0], 'all is well');
for my $victim (1, 0)
{
	$engine = engine_pid($node);
	my $b = bg($node, $many);
	usleep(700000);
	mark();
	kill 'KILL', $victim == 1 ? (ranks())[0] : $engine;
	my ($out, $err) = finish($b);
	like($err, qr/ERROR:  58000.*HINT:/s, "kill -9 of rank $victim: the running call ends with a hint");
	ok(until_ready($node, $engine), '... the whole group starts again');
	ok(!is_alive($engine), '... all of it');
	is(sql($questions[0]), $alone[0], '... and answers alike');
	ok(logged(qr/ranks exchange by NCCL/), '... by NCCL again');
}
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# its part of a collective never comes, though the engine's own step counts as progress
set_to($node, 'vllm.hang_timeout', '3s');
$engine = engine_pid($node);
my ($rank) = ranks();
my $b = bg($node, $many);
usleep(700000);
mark();
kill 'STOP', $rank;
my ($out, $err) = finish($b);
like($err, qr/ERROR:  58000.*HINT:/s, 'SIGSTOP of a rank in a step: the call ends');
ok(logged(qr/has ended or does not respond/), '... as the log tells');
ok(until_ready($node, $engine), '... and a new group takes over');
ok(until_true(sub { !is_alive($rank) }, 10), '... without it');
is(sql($questions[0]), $alone[0], '... and answers alike');
set_to($node, 'vllm.hang_timeout', '10s');

# ---- where it can't be used ----

mark();
again(device => 'cuda:0,cuda:0');
is(sql($questions[0]), $alone[0], 'ranks that share a device');
ok(logged(qr/ranks exchange by way of the host: ranks share a device/), '... exchange by way of the host');
ok(until_sql($node, q{SELECT note = 'ranks exchange by way of the host: ranks share a device' FROM llm_devices WHERE kind = 'cuda' AND rank = 0}), '... as llm_devices tells');
mark();
again(device => 'cuda', nccl_path => 'off');
is(sql($questions[0]), $alone[0], 'without NCCL');
ok(logged(qr/ranks exchange by way of the host: vllm\.nccl_path is off/), '... by way of the host');

# if this machine has a real library, it can't open communicators for such devices
mark();
again(nccl_path => '');
is(sql($questions[0]), $alone[0], 'with what the loader finds');
ok(logged(qr/ranks exchange by way of the host: NCCL c/), '... by way of the host');

mark();
again(nccl_path => '/nowhere/libnccl.so.2');
$engine = engine_pid($node);
like(error($questions[0]), qr/ERROR:  0A000: .*the NCCL library that vllm\.nccl_path names: NCCL can't be used.*DETAIL:  See the server log.*HINT:  Install NCCL 2\.18 or later/s, 'a library that is missing');
ok(logged(qr{NCCL can't be used: /nowhere/libnccl\.so\.2}), '... of which the log has the name');
is(engine_pid($node), $engine, '... costs nothing but the load');
like(error(q{ALTER SYSTEM SET vllm.nccl_path = 'libnccl.so'}), qr{ERROR:  22023: .*must be "off" or an absolute path}s, 'no path');

# errors in the library
sql("ALTER SYSTEM SET vllm.nccl_path = '$nccl'");
for my $fault ([ 'version', qr/NCCL can't be used: .* is of version 21703, and 21800 or later is needed/ ], [ 'init:0', qr/NCCL could not be opened: unhandled system error/ ],
	[ 'init:1', qr/NCCL could not be opened: unhandled system error/ ])
{
	local $ENV{NCCL_FAKE} = $fault->[0];
	$node->restart;
	until_ready($node);
	$engine = engine_pid($node);
	mark();
	like(error($questions[0]), qr/ERROR:  0A000: .*vllm\.nccl_path names: NCCL c.*HINT:/s, "$fault->[0]: an error");
	ok(logged($fault->[1]), '... that the log tells of');
	is(engine_pid($node), $engine, '... and all ranks live');
	sql(q{ALTER SYSTEM SET vllm.nccl_path = 'off'});
	$node->reload;
	ok(until_true(sub { error($questions[0]) !~ /ERROR/ }, 10), '... without it all is well');
	is(sql($questions[0]), $alone[0], '... with the same bits');
	sql("ALTER SYSTEM SET vllm.nccl_path = '$nccl'");
}
{
	local $ENV{NCCL_FAKE} = 'call:1:100';
	$node->restart;
	until_ready($node);
	$engine = engine_pid($node);
	mark();
	like(error($many), qr/ERROR:  58000: .*HINT:/s, 'an error of NCCL in a step: the call fails');
	ok(until_ready($node, $engine), '... and the group starts again');
	ok(logged(qr/the device is lost: .*NCCL: remote process exited/), '... as the log tells');
}
$node->restart;
until_ready($node);
is(sql($questions[0]), $alone[0], 'all is well');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
