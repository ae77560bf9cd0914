# Devices other than the CPUs, as their library reports them: llm_devices, the values of vllm.device, and
# the part of the server's environment that an engine gets.  The devices are those of
# tests/plugins/devices.c; no GPU is needed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $libs = $ENV{VLLM_PG_DEVICES} // '';
plan skip_all => 'no example libraries of devices were built (VLLM_PG_DEVICES)' if !-r "$libs/devices.so";
$ENV{CUDA_DEVICE_ORDER} = 'PCI_BUS_ID';
$ENV{NCCL_DEBUG} = 'WARN';
$ENV{NCCL_ALGO} = 'Ring';
$ENV{CUDA_CACHE_PATH} = '/nowhere';
delete $ENV{CUDA_VISIBLE_DEVICES};

my $node = PostgreSQL::Test::Cluster->new('device');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\nvllm.device = 'cuda'\nvllm.device_library = '/nonexistent/library.so'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return error_of($node, shift); }
sub set { return set_to($node, @_); }

my $call = q{SELECT length(llm_generate('Ticket: the printer', max_tokens => 4, ignore_eos => true)) > 0};
my $load = q{SELECT llm_load_model('tickets-2m')};

# ---- without the library ----

like(error($call), qr/ERROR:  0A000: .*device "cuda" needs the library vllm_pg_cuda\.so, which is not installed.*HINT:  .*make cuda.*vllm\.device/s,
	'a device without its library');
ok($node->log_contains(qr/device "cuda" needs the library .*\(setting vllm\.device\)/), '... of which the log told when the engine started');
is(sql('SELECT device, kind, cpus > 0, compute_capability, multiprocessors, driver, uuid, usable, rank, note FROM llm_devices'), '0|cpu|t|||||t|0|',
	'only CPUs are there');
for my $value ('tpu', 'cuda:', 'cuda:x', 'cuda:100', 'cuda:1000', 'cuda:-1', 'CUDA', 'cuda:0,', 'cuda:0,cpu', 'cuda,cuda:1')
{
	like(error("ALTER SYSTEM SET vllm.device = '$value'"), qr/22023: invalid value for parameter "vllm.device".*auto, cpu, cuda or cuda:N/s, "\"$value\" is no device");
}
like(error("ALTER SYSTEM SET vllm.cuda_visible_devices = '0 1'"), qr/22023: .*without spaces/s, 'a list with spaces');
like(error("ALTER SYSTEM SET vllm.device_library = 'lib.so'"), qr/22023: .*absolute path/s, 'a path that depends on where one is');
like(error("ALTER SYSTEM SET vllm.cuda_kernels = 'tcgen05'"), qr/22023: .*auto, mma, wgmma/s, 'kernels that there are not');
is(sql(q{CREATE ROLE plain; SET ROLE plain; SELECT count(*) FROM pg_settings WHERE name = 'vllm.device_library'}), 0, '... is shown to superusers only');
set('vllm.device', 'auto');
is(sql($call), 't', 'auto: the CPUs');
ok($node->log_contains(qr/the model is computed on the CPUs: the library vllm_pg_cuda\.so is not installed/), '... and the log tells why');

# ---- with it ----

sql(q{SELECT llm_unload_model('tickets-2m')});
set('vllm.device_library', "$libs/devices_other.so");
set('vllm.device', 'cuda');
like(error($load), qr/0A000: .*which is of another version than the engine/, 'a library of another version');
set('vllm.device_library', "$libs/../t/VllmTest.pm");
like(error($load), qr/0A000: .*which can't be loaded.*DETAIL:  See the server log/s, 'no library at all');
set('vllm.device_library', "$libs/devices.so");
like(error($load), qr/0A000: .*could not open device "cuda:0" \(NVIDIA H200\): it is only told of/s, 'a device that the driver knows, and that can\'t be opened');
ok(until_sql($node, 'SELECT count(*) = 4 FROM llm_devices'), 'all of them are shown, in an engine that runs');
is(sql(q{SELECT device, kind, name, isa, cpus, threads, memory_total, memory_available, engine_bytes, compute_capability, multiprocessors, driver, uuid, usable, rank, note
	FROM llm_devices WHERE kind <> 'cpu'}), join("\n",
	'0|cuda|NVIDIA H200||||150754820096|150000000000|0|9.0|132|580.65|GPU-00000000-0000-0000-0000-000000000001|t||',
	'1|cuda|Tesla T4||||15828320256||0|7.5|40|580.65|GPU-00000000-0000-0000-0000-000000000002|t||',
	'2|cuda|Tesla P100||||17066885120||0|6.0|56|580.65||f||compute capability 6.0 is below 7.5'), 'with what the driver knows');
ok($node->log_contains(qr/device cuda:2: Tesla P100, compute capability 6\.0, 16276 MB, can't be used: compute capability/), '... and in the log');
set('vllm.device', 'cuda:2');
like(error($load), qr/0A000: .*device "cuda:2" \(Tesla P100\) can't be used: compute capability 6\.0 is below 7\.5/, 'one that is too old');
set('vllm.device', 'cuda:3');
like(error($load), qr/22023: .*unknown device "cuda:3".*DETAIL:  There are the devices cpu, cuda:0 \(NVIDIA H200\), cuda:1 \(Tesla T4\), cuda:2 \(Tesla P100\)\./s,
	'one that is not there');
set('vllm.device', 'cpu');
is(sql($call), 't', 'back to the CPUs: the failure is forgotten');

# ---- devices that every machine has: the CPUs, strict about a device's rules; moat: the host can't access
# its memory ----

my $work = q{SELECT md5(string_agg(x, '|' ORDER BY i, x)) FROM (
	SELECT i, llm_generate('Ticket ' || i || ': the printer', max_tokens => 12, ignore_eos => true, temperature => i % 2, seed => i) x FROM generate_series(1, 24) i
	UNION ALL SELECT 100 + i, llm_completions('Ticket ' || i || ': no mail', n => 3, max_tokens => 5, temperature => 1, seed => i, logprobs => 3)::text FROM generate_series(1, 4) i
	UNION ALL SELECT 200 + i, (llm_output('Ticket ' || i || ': too slow', max_tokens => 3, temperature => 0, prompt_logprobs => 2)).prompt_logprobs::text FROM generate_series(1, 4) i
	UNION ALL SELECT 300 + i, llm_choose('Ticket ' || i || ': the screen is', ARRAY[' black', ' slow', ' gone'])::text FROM generate_series(1, 4) i) s};
my $on_cpus = sql($work);

set('vllm.kv_offload_bytes', '16MB');
for my $device ('host', 'moat')
{
	set('vllm.device', $device);
	sql(q{SELECT llm_unload_model('tickets-2m')});
	is(sql($work), $on_cpus, "on $device: the same to the bit");
	ok($node->log_contains(qr/the model is computed on device "$device"/), '... on which it is indeed');
	is(sql(q{SELECT llm_sleep(1); SELECT llm_wake_up()}) . sql($work), "\n$on_cpus", 'its memory was given back and taken again');
	is(sql(q{SELECT llm_sleep(2); SELECT llm_wake_up()}) . sql($work), "\n$on_cpus", '... with the weights, too');
	is(sql(q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
}
set('vllm.device', 'cpu');
sql(q{SELECT llm_unload_model('tickets-2m')});
is(sql($work), $on_cpus, 'and back');

# ---- the engine's environment, and its limit ----

sub environment { return join ' ', sort split /\0/, slurp_file('/proc/' . engine_pid($node) . '/environ'); }

is(environment(), 'CUDA_DEVICE_ORDER=PCI_BUS_ID LC_ALL=C NCCL_ALGO=Ring NCCL_DEBUG=WARN PATH=/usr/bin:/bin', 'the engine gets what is for CUDA and NCCL');
set('vllm.cuda_visible_devices', '2,1');
set('vllm.engine_memory_limit', '64GB');
set('vllm.device', 'cuda:0');
sql('SELECT llm_engine_restart()');
like(environment(), qr/^CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,1 /, 'vllm.cuda_visible_devices');
is(sql(q{SELECT string_agg(name, ', ' ORDER BY device) FROM llm_devices WHERE kind = 'cuda'}), 'Tesla P100, Tesla T4', '... and what it says');
like(slurp_file('/proc/' . engine_pid($node) . '/limits'), qr/Max address space\s+unlimited/, 'no limit of address space for CUDA');
ok($node->log_contains(qr/WARNING:  setting vllm\.engine_memory_limit is ignored: vllm\.device is "cuda:0"/), '... and a warning');
set('vllm.device', 'cuda');
like(error($load), qr/could not open device "cuda:1" \(Tesla T4\)/, 'the first that can be used');
set('vllm.device', 'auto');
is(sql($call), 't', 'auto: with a device on which it can\'t be loaded, a model is the CPUs\'');
ok($node->log_contains(qr/WARNING:  .*the model is computed on the CPUs, not on device "cuda:1" \(Tesla T4\): could not open device/), '... and the log tells why');
set('vllm.cuda_visible_devices', '9');
set('vllm.device', 'cuda:0');
sql('SELECT llm_engine_restart()');
like(error($load), qr/0A000: .*device "cuda:0" can't be used: there is no CUDA device: none is visible\n.*HINT:  .*vllm\.cuda_visible_devices/s, 'no device at all');
set('vllm.device', 'cpu');
sql('SELECT llm_engine_restart()');
is(sql('SELECT count(*) FROM llm_devices'), 1, 'with cpu nobody looks for others');
like(slurp_file('/proc/' . engine_pid($node) . '/limits'), qr/Max address space\s+68719476736/, '... and the limit holds');
is(sql($call), 't', '... and calls are answered');

$node->stop;
done_testing();
