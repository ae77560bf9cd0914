# The KV cache's offload tier: memory under pressure, files over restarts, damage, resets, limits.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd;
use Time::HiRes qw(sleep);
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('offload');
$node->init;
my $dir = Cwd::abs_path($node->basedir) . '/kv';
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '2MB'\nvllm.max_num_seqs = 8\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION vllm_pg;
	CREATE ROLE reader LOGIN;
	CREATE ROLE other LOGIN});

sub sql { return $node->safe_psql('postgres', shift, @_); }
sub error { return ($node->psql('postgres', shift))[2]; }

# Return cached tokens | text.
sub ask
{
	my ($prompt, %o) = @_;
	return split /\|/, sql("SELECT (r.usage).cached_tokens, text FROM llm_generate_full('$prompt', max_tokens => 12, temperature => 0, ignore_eos => true"
		. ($o{more} // '') . ') r', $o{as} ? (extra_params => [ '-U', $o{as} ]) : ());
}
sub metric { return sql("SELECT coalesce(sum(value), 0) FROM llm_metrics() WHERE name = '$_[0]'"); }
sub tokens { return sql("SELECT cardinality(llm_tokenize('$_[0]'))"); }

# Wait until all computed blocks have been written.
sub written
{
	my $last = -1;
	for (1 .. 300)
	{
		my $n = sql('SELECT coalesce(sum(offload_files), 0) FROM llm_memory');
		return $n if $n > 0 && $n == $last;
		$last = $n;
		sleep 0.3;
	}
	return 0;
}

sub set_and_restart
{
	sql("ALTER SYSTEM SET $_") for @_;
	$node->reload;
	sql('SELECT llm_engine_restart()');
	until_ready($node);
}

# ---- settings ----
is(sql('SHOW vllm.kv_offload_bytes') . sql('SHOW vllm.kv_offload_directory') . sql('SHOW vllm.kv_offload_disk_bytes'), '010GB', 'it is off');
like(error(q{ALTER SYSTEM SET vllm.kv_offload_directory = 'here'}), qr/invalid value for parameter "vllm.kv_offload_directory": "here".*must be an absolute path/s, 'a relative path is an error');
like(($node->psql('postgres', 'SHOW vllm.kv_offload_directory', extra_params => [ '-U', 'reader' ]))[2], qr/permission denied|must be superuser|pg_read_all_settings/, 'the directory is for superusers');

my $prompt = join(' ', map { "Ticket $_: the kettle of order 10$_ arrived broken, and I want my money back." } 1 .. 12);
my @others = map { my $k = $_; join(' ', map { "Case $k-$_: the invoice of order 20$_ is wrong, and nobody answers my letters." } 1 .. 14) } 1 .. 8;
my $n = tokens($prompt);
my $full = int(($n - 1) / 16) * 16;
my ($cached, $text) = ask($prompt);
my $first = $text;
is($cached, 0, "a prompt of $n tokens");
is((ask($prompt))[0], $n - 1, '... is found');
is(metric('vllm:external_prefix_cache_queries_total') . metric('vllm:kv_offload_store_bytes_total'), '00', 'nothing of that is the tier\'s');

# ---- memory ----
set_and_restart("vllm.kv_offload_bytes = '32MB'");
ask($prompt);
ask($_) for @others;
cmp_ok(sql("SELECT offload FROM llm_memory WHERE model = 'tickets-2m'"), '>', 100000, 'what is overwritten is in the store');
is(sql("SELECT total = weights + kv + state + work + offload + other AND offload_files = 0 FROM llm_memory WHERE model = 'tickets-2m'"), 't', '... and in the sum');
($cached, $text) = ask($prompt);
is($text, $first, 'the same answer');
cmp_ok($cached, '>=', $full, "$cached tokens are found");
cmp_ok(metric('vllm:external_prefix_cache_hits_total'), '>', 0, '... some of them by the tier');
cmp_ok(metric('vllm:external_prefix_cache_hits_total'), '<=', metric('vllm:external_prefix_cache_queries_total'), '... of those that were asked for');
cmp_ok(metric('vllm:kv_offload_load_bytes_total'), '>', 0, '... in bytes');
sql('SELECT llm_reset_prefix_cache()');
is((ask($prompt))[0], 0, 'a reset empties it');

# ---- files ----
set_and_restart("vllm.kv_offload_directory = '$dir'", "vllm.kv_offload_bytes = 0");
is((ask($prompt))[0], 0, 'memory does not outlive the engine');
cmp_ok(written(), '>', 0, 'idle, the engine writes what it has');
is((stat($dir))[2] & 0777, 0700, 'its directory is for nobody else');
my $killed = engine_pid($node);
kill 'KILL', $killed;
until_ready($node, $killed);
($cached, $text) = ask($prompt);
is($text, $first, 'the same answer of an engine behind one that was killed');
cmp_ok($cached, '>=', $full, "... which has computed nothing of it but the last block ($cached of $n)");
my $rows = sql("SELECT sum(value) FROM llm_metrics() WHERE name = 'vllm:external_prefix_cache_hits_total'");
cmp_ok($rows, '>=', $full, '... as the tier had it');

# at shutdown
($cached, my $text2) = ask($others[0]);
sql('SELECT llm_engine_restart()');
until_ready($node);
($cached, $text) = ask($others[0]);
is($text, $text2, 'the same answer behind a restart at once');
cmp_ok($cached, '>=', int((tokens($others[0]) - 1) / 16) * 16, '... without computing');
($cached, $text2) = ask($others[1]);
$node->restart;
until_ready($node);
($cached, $text) = ask($others[1]);
is($text, $text2, 'the same answer behind a restart of the server');
cmp_ok($cached, '>=', int((tokens($others[1]) - 1) / 16) * 16, '... without computing');

# other owners
is((ask($prompt, as => 'reader'))[0], 0, 'another role finds nothing');
is((ask($prompt, more => q{, params => '{"cache_salt": "x"}'}))[0], 0, 'nor another salt');
written();
sql('SELECT llm_engine_restart()');
until_ready($node);
# (first, while it is not known that computing so little may be faster)
cmp_ok((ask($prompt, as => 'reader'))[0], '>=', $full, 'who has asked finds it behind a restart');
is((ask($prompt, as => 'other'))[0], 0, '... and another role nothing');

# sleep and unload
($cached, $text) = ask($prompt);
sql("SELECT llm_sleep(1)");
sql("SELECT llm_wake_up()");
cmp_ok((ask($prompt))[0], '>=', $full, 'what was computed outlives a sleep');
sql("SELECT llm_unload_model('tickets-2m')");
($cached, $text) = ask($prompt);
cmp_ok($cached, '>=', $full, '... and that the model is unloaded');
is($text, $first, '... with the same answer');

# ---- damage ----
written();
$killed = engine_pid($node);
kill 'KILL', $killed;
until_ready($node, $killed);
my @files = split /\n/, `find $dir -type f -size +4k`;
cmp_ok(scalar(@files), '>', 5, 'there are files');
foreach my $f (@files)
{
	open(my $h, '+<', $f) or die "$f: $!";
	seek($h, -100, 2);
	print $h 'damage' x 5;
	close $h;
}
sql('SELECT llm_engine_restart()');
until_ready($node);
($cached, $text) = ask($prompt);
is($text, $first, 'files that are damaged are computed again');
is($cached, 0, '... and not used');

# ---- resets ----
written();
sql('SELECT llm_reset_prefix_cache()');
sleep 0.5;
sql('SELECT llm_engine_restart()');
until_ready($node);
is((ask($prompt))[0], 0, 'a reset is one of the files, too');

# other options of the model are another model
written();
my $path = sql("SELECT path FROM llm_models WHERE name = 'tickets-2m'");
sql("SELECT llm_create_model('int8', '$path', options => '{\"kv_cache_dtype\": \"int8\"}')");
is((ask($prompt, more => q{, model => 'int8'}))[0], 0, 'another type of the KV cache finds nothing');
is((ask($prompt, more => q{, model => 'int8'}))[0], $n - 1, '... but its own');
written();
my (undef, $int8) = ask($prompt, more => q{, model => 'int8'});
sql('SELECT llm_engine_restart()');
until_ready($node);
($cached, $text) = ask($prompt, more => q{, model => 'int8'});
is($text, $int8, 'INT8, behind a restart');
cmp_ok($cached, '>=', $full, '... comes back');

# ---- errors ----
set_and_restart("vllm.kv_offload_directory = '/proc/nowhere'");
($cached, $text) = ask($prompt);
is("$cached $text", "0 $first", 'a directory that can not be made');
like(slurp_file($node->logfile), qr/the KV cache is not offloaded to files: .*check vllm.kv_offload_directory/, '... is in the log');
set_and_restart("vllm.memory_limit = '40MB'", "vllm.kv_offload_bytes = '39MB'", "vllm.kv_offload_directory = ''");
like(error("\\set VERBOSITY verbose\nSELECT llm_generate('x')"), qr/53200: not enough memory for model.*offload tier 39 MB/s, 'the limit of memory counts the tier');

$node->stop;
done_testing();
