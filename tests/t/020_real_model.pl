# The real engine with the bundled model: many sessions at once.
#
# 16 sessions and one session with 1,000 rows run at the same time.  Every output must equal the one that
# the same prompt gets alone (promise 3, through SQL), the engine must have batched across sessions, and
# nothing may be left.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('real');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '64MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

my $docs = slurp_file('models/docs_sample.sql');
$node->safe_psql('postgres', $docs);
is($node->safe_psql('postgres', 'SELECT count(*) FROM docs'), 64, 'sample table');

# each prompt alone: the reference (64 tokens each, so that sessions overlap)
$node->safe_psql('postgres', q{
	CREATE TABLE alone AS SELECT id, prompt, llm_generate(prompt, max_tokens => 64, ignore_eos => true) AS answer FROM docs;
});
is($node->safe_psql('postgres', 'SELECT count(*) FROM alone WHERE answer IS NULL OR answer = $$$$'), 0, 'every prompt has an answer');

my $stat = 'SELECT steps, avg_batch * steps FROM llm_stat_engine';
my ($steps0, $seqs0) = split /\|/, $node->safe_psql('postgres', $stat);

# 16 sessions, each over all prompts in a different order, and one with 1,000 rows
my @h;
my $start = time;
for my $i (1 .. 16)
{
	push @h, run_bg("SELECT count(*) FILTER (WHERE llm_generate(prompt, max_tokens => 64, ignore_eos => true) IS DISTINCT FROM answer) FROM (SELECT * FROM alone ORDER BY md5(id::text || '$i')) s");
}
push @h, run_bg("SELECT count(*) FILTER (WHERE llm_generate(prompt, max_tokens => 64, ignore_eos => true) IS DISTINCT FROM answer) FROM (SELECT alone.* FROM alone, generate_series(1, 16) g ORDER BY g, id LIMIT 1000) s");
my $bad = 0;
my ($steps1, $seqs1);
for my $i (0 .. $#h)
{
	my $h = $h[$i];

	# the batch while all were running: the long one continues alone for a while
	($steps1, $seqs1) = split /\|/, $node->safe_psql('postgres', $stat) if $i == 16;
	$h->{h}->finish;
	$bad++ unless ${ $h->{out} } eq "0\n";
	diag(${ $h->{err} }) if ${ $h->{err} } ne '';
}
is($bad, 0, '16 sessions and one with 1,000 rows: every answer equals the one given alone');
my $batch = ($seqs1 - $seqs0) / (($steps1 - $steps0) || 1);
diag(sprintf("figure: average batch %.1f over %d steps, %.1f s", $batch, $steps1 - $steps0, time - $start));
cmp_ok($batch, '>', 8, 'the engine batched more than 8 sequences on average');

is($node->safe_psql('postgres', 'SELECT slots_total - slots_free, running, waiting, kv_blocks_used FROM llm_stat_engine'),
	'0|0|0|0', 'no slot, request or block is left');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');

# the same model quantized on loading, loaded in addition
$node->safe_psql('postgres', q{
	SELECT llm_create_model('small', (SELECT path FROM llm_models), options => '{"quantization": "q8_0"}')});
is($node->safe_psql('postgres', q{SELECT llm_generate(min(prompt), model => 'small', max_tokens => 8) <> '' FROM docs}), 't',
	'a model quantized on loading answers');
is($node->safe_psql('postgres', q{SELECT string_agg(dtype, ' ' ORDER BY name = 'small') FROM llm_models}), 'BF16 Q8_0',
	'and its type is shown');
$node->safe_psql('postgres', q{SELECT llm_drop_model('small')});
my ($ret, $out, $err) = $node->psql('postgres',
	q{SELECT llm_create_model('small', (SELECT path FROM llm_models), options => '{"quantization": "q9"}')});
like($err, qr/model option "quantization" must be int8, int4.*, got "q9"/, 'an unknown scheme is an error');

# the same model with an INT8 KV cache: more tokens in the same memory
$node->safe_psql('postgres', q{
	SELECT llm_create_model('small', (SELECT path FROM llm_models), options => '{"kv_cache_dtype": "int8"}')});
is($node->safe_psql('postgres', q{SELECT llm_generate(min(prompt), model => 'small', max_tokens => 8) <> '' FROM docs}), 't',
	'a model with an INT8 KV cache answers');
is($node->safe_psql('postgres', q{
	SELECT round(max(kv_blocks_total) FILTER (WHERE name = 'small') / max(kv_blocks_total) FILTER (WHERE name <> 'small')::numeric, 1)
	FROM llm_stat_model}), '1.9',
	'its blocks are smaller');
$node->safe_psql('postgres', q{SELECT llm_drop_model('small')});
($ret, $out, $err) = $node->psql('postgres', q{ALTER SYSTEM SET vllm.kv_cache_dtype = 'int4'});
like($err, qr/invalid value for parameter "vllm.kv_cache_dtype": "int4".*must be one of: auto, float32, float16, bfloat16, int8, fp8, fp8_e4m3, fp8_e5m2/s,
	'an unknown type of KV cache is an error');

# kill -9 during a generation: the calls fail with a hint, the next one works
my $pid = $node->safe_psql('postgres', 'SELECT pid FROM llm_stat_engine');
my $up = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
# so much work that even a fast machine is busy when the signal comes
@h = map { run_bg("SELECT count(llm_generate('Ticket: it is broken ' || g, max_tokens => 900, ignore_eos => true)) FROM generate_series(1, 200) g") } 1 .. 4;
# one call alone may run four requests
$node->poll_query_until('postgres', 'SELECT count(DISTINCT pid) = 4 FROM llm_requests');
kill 9, $pid;
my $lost = 0;
for my $h (@h)
{
	$h->{h}->finish;
	$lost++ if ${ $h->{err} } =~ /ERROR/ && ${ $h->{err} } =~ /HINT/;
}
is($lost, 4, 'kill -9 of the engine: every running call gets an error with a hint');
is($node->safe_psql('postgres', q{SELECT llm_generate(prompt, max_tokens => 64, ignore_eos => true) = answer FROM alone WHERE id = (SELECT min(id) FROM alone)}),
	't', 'the next call works');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');
# CPUs that don't exist: the engine serves, the load fails; then pinned threads give the same outputs
my $free = $node->safe_psql('postgres', q{SELECT llm_generate('pinned?', temperature => 0, max_tokens => 20)});
$node->safe_psql('postgres', q{ALTER SYSTEM SET vllm.cpu_affinity = '1023'});
my $at = -s $node->logfile;
$node->reload;
$node->wait_for_log(qr/parameter "vllm.cpu_affinity" changed to "1023"/, $at);
$node->safe_psql('postgres', 'SELECT llm_engine_restart()');
my ($rc9, $out9, $err9) = $node->psql('postgres', q{SELECT llm_generate('pinned?', temperature => 0, max_tokens => 20)});
like($err9, qr/CPU 1023 of cpu_affinity is not available.*DETAIL:.*may run on CPUs \d.*HINT:.*vllm.cpu_affinity/s, 'a CPU that is not there is an error of the load');
# a failed load is tried again automatically when a setting has changed
$node->safe_psql('postgres', q{ALTER SYSTEM SET vllm.cpu_affinity = 'auto'});
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT llm_generate('pinned?', temperature => 0, max_tokens => 20)}, $free),
	'the same answer from pinned threads, once the setting is right');
$node->stop;
done_testing();

sub run_bg
{
	my ($sql) = @_;
	my ($in, $out, $err) = ('', '', '');
	my $h = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $sql ], '<', \$in, '>', \$out, '2>', \$err);
	return { h => $h, out => \$out, err => \$err };
}
