# Models that sleep, with the bundled one: memory is really freed, outputs are the same afterwards, and
# cancels or kills meanwhile leave nothing.
use strict;
use warnings;
use lib 't';
use File::Spec;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('sleep');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '48MB'\nstatement_timeout = '60s'\nvllm.huge_pages = 'off'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg; CREATE ROLE reader LOGIN');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return ($node->psql('postgres', "\\set VERBOSITY verbose\n" . shift))[2]; }
sub rss { return rss_kb(engine_pid($node)); }

my $prompt = q{E'Ticket: The kettle arrived broken and I want my money back.\nSummary:'};
my $ask = "SELECT llm_generate($prompt, max_tokens => 30, temperature => 0, ignore_eos => true)";
my $answer = sql($ask);
sub cached { return sql("SELECT (r.usage).cached_tokens FROM llm_generate_full($prompt, max_tokens => 30, temperature => 0, ignore_eos => true) r"); }
cmp_ok(cached(), '>', 5, 'the prompt is cached');

# memory: the KV cache is filled, then freed
my ($kv, $total) = split /\|/, sql("SELECT kv_bytes, kv_blocks_total FROM vllm.model_list() WHERE kv_bytes IS NOT NULL");
my $fill = q{repeat(md5(i::text) || ' ', 12)};
my $blocks = sql("SELECT min(llm_count_tokens($fill)) / 16 FROM generate_series(1, 20) i");
sql("SELECT count(llm_generate($fill, max_tokens => 1)) FROM generate_series(1, 3 * $total / (2 * $blocks)) i");
note("$total blocks, $blocks a prompt");
my $full = rss();
sql('SELECT llm_sleep(1)');
my $slept = rss();
my $again;
sql('SELECT llm_wake_up()');
is(sql($ask), $answer, 'the same answer after level 1');
is(sql("SELECT llm_is_sleeping() OR llm_is_paused()"), 'f', 'awake');
figure('KV cache %d kB, engine RSS %d kB when it is full, %d kB asleep', $kv / 1024, $full, $slept);
cmp_ok($full - $slept, '>=', 0.9 * $kv / 1024, 'at least 90 % of the KV cache is given back');
for my $level (0 .. 2)
{
	sql("SELECT llm_sleep($level, 'wait')");
	is(sql('SELECT llm_is_sleeping(), llm_is_paused(), state FROM llm_models'), 't|t|' . ($level ? 'asleep' : 'paused'), "level $level");
	like(sql('SELECT llm_metrics_text()'), $level == 2 ? qr/sleep_state="discard_all"\} 1/ : $level ? qr/sleep_state="weights_offloaded"\} 1/ : qr/sleep_state="awake"\} 0/, '... in the metrics');
	is(sql("SELECT sum(memory_bytes) < 20e6, (SELECT weights + kv + state FROM llm_memory WHERE model = 'tickets-2m') FROM llm_models"), $level == 1 ? 't|0' : '|', '... and takes little') if $level;
	like(error($ask), qr/55000.*model "tickets-2m" is asleep.*llm_wake_up/s, '... and a call fails') if $level;
	is(sql("SELECT llm_count_tokens('Hello there') > 0"), 't', '... but the tokenizer is there') if $level < 2;
	my $b = bg($node, "SET vllm.sleep_requests = 'wait'", $ask);
	my $c = bg($node, "SET vllm.sleep_requests = 'wait'", "SET statement_timeout = '300ms'", $ask);
	ok(until_sql($node, "SELECT count(*) FROM llm_requests WHERE state = 'asleep'", '2'), '... or waits');
	like((finish($c))[1], qr/57014/, '... and can be cancelled');
	sql('SELECT llm_wake_up()');
	is(scalar finish($b), $answer, '... until it is awake, with the same answer');
	is(sql('SELECT llm_is_sleeping()'), 'f', 'awake');
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
	sql('SELECT llm_sleep(1); SELECT llm_wake_up()') if $level == 0;
	is(cached(), 0, 'the prefix cache is empty') if $level == 0;
}
is(sql("SELECT llm_sleep(1); SELECT llm_wake_up('{weights}'); SELECT llm_is_sleeping(); SELECT llm_wake_up('{kv_cache}'); SELECT llm_is_sleeping()"), "\n\nt\n\nf", 'tags');

is(sql("SELECT llm_sleep(1); SELECT llm_wake_up('{}'); SELECT llm_is_sleeping()"), "\n\nf", 'no tags are all');

# modes, in a statement of many rows
my $many = "SELECT md5(string_agg(llm_generate($prompt || i, max_tokens => 60, temperature => 0, ignore_eos => true), '|' ORDER BY i)) FROM generate_series(1, 200) i";
my $md5 = sql($many);
# Start a statement whose first step takes a while.
sub slow
{
	sql("SELECT vllm.control('sleep-step 600')");
	return bg($node, @_);
}
sub busy { return until_sql($node, "SELECT count(*) > 3 FROM llm_requests WHERE kind = 'generate' AND state IN ('waiting', 'running')"); }
for my $level (0 .. 2)
{
	my $b = slow("SET vllm.sleep_requests = 'wait'", $many);
	ok(busy(), 'busy');
	sql("SELECT llm_sleep($level, 'keep')");
	my $steps = stat_engine($node, 'steps');
	usleep(200000);
	is(stat_engine($node, 'steps'), $steps, "level $level, keep: no step is made");
	is(stat_engine($node, 'kv_blocks_used'), 0, '... and no block is in use') if $level;
	sql('SELECT llm_wake_up()');
	is(scalar finish($b), $md5, '... and all goes on, with the same answers');
	$b = slow($many);
	ok(busy(), 'busy');
	sql("SELECT llm_sleep($level, 'abort')");
	like((finish($b))[1], qr/55000.*(put to sleep|was paused)/s, "level $level, abort: it fails");
	sql('SELECT llm_wake_up()');
	$b = slow("SET vllm.sleep_requests = 'wait'", $many);
	ok(busy(), 'busy');
	my $s = bg($node, "SELECT llm_sleep($level, 'wait')");
	is(scalar finish($s), '', "level $level, wait: asleep");
	is(stat_engine($node, 'running'), 0, '... nobody runs');
	sql('SELECT llm_wake_up()');
	is(scalar finish($b), $md5, '... and the rest comes later');
}
is(sql("SELECT llm_pause('keep'); SELECT llm_is_paused(), llm_is_sleeping(); SELECT llm_resume(); SELECT llm_is_paused()"), "\nt|t\n\nf", 'pause and resume');

# a sleep that waits for requests is cancelled: it has no effect
{
	my $b = slow($many);
	ok(busy(), 'busy');
	my $s = bg($node, "SET statement_timeout = '20ms'", "SELECT llm_sleep(1, 'wait')");
	finish($s);
	sql('SELECT llm_wake_up()');
	finish($b);
	is(sql('SELECT llm_is_sleeping()'), 'f', 'awake');
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
}

# level 2, then other files: the new model's outputs
{
	my $path = File::Spec->rel2abs($node->basedir . '/model');
	system('cp', '-r', sql('SELECT path FROM llm_models'), $path) == 0 or die;
	sql("SELECT llm_create_model('mine', '$path')");
	my $mine = "SELECT llm_generate($prompt, model => 'mine', max_tokens => 30, temperature => 0, ignore_eos => true)";
	is(sql($mine), $answer, 'a copy of the model');
	sql("SELECT llm_sleep(2, model => 'mine')");
	is(sql($ask), $answer, 'the other one is awake');
	is(sql("SELECT llm_is_sleeping('mine'), llm_is_sleeping('tickets-2m')"), 't|f', 'one of two sleeps');
	my ($file) = glob("$path/*.safetensors");
	open(my $f, '+<:raw', $file) or die "$file: $!";
	read($f, my $head, 8);
	my $n = unpack('Q<', $head);
	my $size = -s $file;
	# flip the signs of all weights in the middle of the file
	seek($f, 8 + $n + int(($size - 8 - $n) / 2), 0);
	read($f, my $data, 200000);
	$data ^= "\x00\x80" x 100000;
	seek($f, 8 + $n + int(($size - 8 - $n) / 2), 0);
	print $f $data;
	close($f);
	sql("SELECT llm_wake_up(model => 'mine')");
	isnt(sql($mine), $answer, 'other weights, other answer');
	is(sql($ask), $answer, '... of that model only');
	# missing files: a role that may wake a model need not know its path
	my $long = sql($mine);
	sql("GRANT EXECUTE ON FUNCTION llm_wake_up TO reader; SELECT vllm.control('sleep-step 2000')");
	my $kept = bg($node, $mine);
	until_sql($node, "SELECT count(*) FROM llm_requests WHERE model = 'mine' AND state IN ('waiting', 'running')", '1');
	sql("SELECT llm_sleep(2, 'keep', 'mine')");
	rename($path, "$path.away") or die "$path: $!";
	for my $call ('llm_wake_up()', "llm_wake_up(model => 'mine')")
	{
		like(error("SELECT $call"), qr/ERROR: .*\Q$path\E/s, "$call: files that are gone");
		my $error = error("SET ROLE reader; SELECT $call");
		like($error, qr/ERROR: .*mine/s, '... an error for whoever may');
		unlike($error, qr/\Q$path\E/, '... without the path');
	}
	rename("$path.away", $path) or die "$path: $!";
	sql("SELECT llm_wake_up(model => 'mine'); REVOKE EXECUTE ON FUNCTION llm_wake_up FROM reader");
	is(scalar finish($kept), $long, '... there again');
	sql("SELECT llm_drop_model('mine')");
}

# new weights: of changed files, of other files, of files that don't fit; with calls in flight
{
	my $dir = File::Spec->rel2abs($node->basedir);
	sub flip
	{
		my ($file, $off) = @_;
		open(my $f, '+<:raw', $file) or die "$file: $!";
		read($f, my $head, 8);
		my $n = unpack('Q<', $head);
		seek($f, 8 + $n + $off, 0);
		read($f, my $data, 200000);
		$data ^= "\x00\x80" x 100000;
		seek($f, 8 + $n + $off, 0);
		print $f $data;
		close($f);
	}
	for my $name ('w1', 'w2')
	{
		system('cp', '-r', sql("SELECT path FROM llm_models WHERE name = 'tickets-2m'"), "$dir/$name") == 0 or die;
	}
	flip("$dir/w2/model.safetensors", 1200000);
	sql("SELECT llm_create_model('w', '$dir/w1'); SELECT llm_create_model('other', '$dir/w2')");
	my $w = "SELECT llm_generate($prompt, model => 'w', max_tokens => 30, temperature => 0, ignore_eos => true)";
	my $other = sql("SELECT llm_generate($prompt, model => 'other', max_tokens => 30, temperature => 0, ignore_eos => true)");
	isnt($other, $answer, 'two sets of weights');
	is(sql($w), $answer, 'the first');
	for my $mode ('wait', 'keep')
	{
		my ($path, $was, $is) = $mode eq 'wait' ? ('w2', $answer, $other) : ('w1', $other, $answer);
		my @calls = map { bg($node, ("SELECT md5(x) FROM ($w) s(x)") x 40) } 1 .. 4;
		my %md5 = map { $_ => sql("SELECT md5(\$q\$$_\$q\$)") } $was, $is;
		sql("SELECT llm_update_weights('w', '$dir/$path', '$mode')");
		is(sql($w), $is, "$mode: the other weights' answer");
		my ($err, $wrong, $back) = ('', 0, 0);
		for (@calls)
		{
			my ($out, $e) = finish($_);
			my $new = 0;
			$err .= $e;
			for my $line (split /\n/, $out)
			{
				$wrong++ if $line ne $md5{$was} && $line ne $md5{$is};
				$back++ if $new && $line eq $md5{$was};
				$new ||= $line eq $md5{$is};
			}
		}
		is("$err|$wrong|$back", '|0|0', '... no call fails, none mixes them, none goes back');
		is(sql("SELECT path LIKE '%/$path' FROM llm_models WHERE name = 'w'"), 't', '... and the catalog knows');
	}
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
	# one statement that keeps running: keep leaves it with the old weights
	my $c = slow("SELECT DISTINCT llm_generate($prompt, model => 'w', max_tokens => 30, temperature => 0, ignore_eos => true) FROM generate_series(1, 3)");
	until_sql($node, "SELECT count(*) > 0 FROM llm_requests WHERE model = 'w' AND state IN ('waiting', 'running')");
	sql("SELECT llm_update_weights('w', '$dir/w2', 'keep')");
	is(sql($w), $other, 'keep: new calls get the new weights');
	is(scalar finish($c), $answer, '... who runs the old ones');
	sql("SELECT vllm.control('sleep-step 2500')");
	$c = bg($node, $w);
	until_sql($node, "SELECT count(*) > 0 FROM llm_requests WHERE model = 'w' AND state IN ('waiting', 'running')");
	sql("SELECT llm_update_weights('w', '$dir/w1', 'abort')");
	like((finish($c))[1], qr/55000.*was given new weights/s, 'abort: who runs fails');
	is(sql($w), $answer, '... and others get the new weights');
	# pause, new weights, resume: requests from before keep the old ones
	for my $mode ('keep', 'wait')
	{
		$c = slow($w);
		until_sql($node, "SELECT count(*) > 0 FROM llm_requests WHERE model = 'w' AND state IN ('waiting', 'running')");
		sql("SELECT llm_pause('keep', 'w'); SELECT llm_update_weights('w', '$dir/w2', '$mode'); SELECT llm_resume('w')");
		is(scalar finish($c), $answer, "paused, $mode: who was there keeps the old weights");
		is(sql($w), $other, '... others get the new ones');
		sql("SELECT llm_update_weights('w', '$dir/w1')");
	}
	# in a transaction
	is(sql("BEGIN; SELECT llm_update_weights('w', '$dir/w2'); $w; ROLLBACK; $w"), "\n$other\n$answer", 'rolled back');
	is(sql("SELECT path LIKE '%/w1' FROM llm_models WHERE name = 'w'"), 't', '... in the catalog, too');
	# the same files, changed
	flip("$dir/w1/model.safetensors", 1200000);
	is(sql($w), $answer, 'files change, the weights in service do not');
	sql("SELECT llm_update_weights('w')");
	is(sql($w), $other, '... until they are read again');
	# errors: the old weights stay
	like(error("SELECT llm_update_weights('w', '/nowhere')"), qr/58030|XX001/, 'no such files');
	is(sql($w), $other, '... the old weights stay');
	system('cp', '-r', "$dir/w1", "$dir/w3") == 0 or die;
	my $conf = slurp_file("$dir/w3/config.json");
	$conf =~ s/"num_attention_heads": 4/"num_attention_heads": 8/;
	$conf =~ s/"num_key_value_heads": 2/"num_key_value_heads": 4/;
	$conf =~ s/"head_dim": 64/"head_dim": 32/;
	open(my $f, '>', "$dir/w3/config.json") or die;
	print $f $conf;
	close($f);
	like(error("SELECT llm_update_weights('w', '$dir/w3')"), qr/22023.*do not have the shape of the old ones.*8 heads of 32.*4 heads of 64/s, 'another shape');
	is(sql($w), $other, '... the old weights stay');
	like(error("SELECT llm_update_weights('w', mode => 'now')"), qr/22023.*mode must be/s, 'mode');
	like(error("SELECT llm_update_weights('tickets-2m', '$dir/w1')"), qr/2BP01/, 'the bundled one stays where it is');
	like(error("SET ROLE reader; SELECT llm_update_weights('w')"), qr/42501/, 'who may');
	# not loaded: only the path changes
	sql("SELECT llm_unload_model('w'); SELECT llm_update_weights('w', '$dir/w2')");
	is(sql($w), $other, 'an unloaded model has its files at the next call');
	sql("SELECT llm_drop_model('w'); SELECT llm_drop_model('other')");
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
}

# three models, memory for two
{
	sql("SELECT llm_create_model('m$_', (SELECT path FROM llm_models WHERE name = 'tickets-2m'), options => '{\"kv_cache_memory_bytes\": 2000000$_}')") for 1 .. 3;
	sql("SELECT llm_create_model('huge', (SELECT path FROM llm_models WHERE name = 'tickets-2m'), options => '{\"kv_cache_memory_bytes\": 900000000}')");
	sub ask { return sql("SELECT llm_generate($prompt, model => '$_[0]', max_tokens => 30, temperature => 0, ignore_eos => true)"); }
	sub there { return sql("SELECT string_agg(name, ' ' ORDER BY name) FROM llm_models WHERE state = 'ready'"); }
	sql("SELECT llm_unload_model('tickets-2m')");
	sql("ALTER SYSTEM SET vllm.memory_limit = '95MB'; ALTER SYSTEM SET vllm.memory_timeout = '400ms'");
	$node->reload;
	sleep 1;
	do { is(ask($_), $answer, "$_"); usleep(300000) } for 'm1', 'm2', 'm1', 'm3';
	is(there(), 'm1 m3', 'the one that was used longest ago had to go');
	is(sql("SELECT count(*) FROM llm_models WHERE state = 'ready' AND memory_bytes BETWEEN 25000000 + weight_bytes AND 45000000 + weight_bytes AND last_used > now() - interval '1 min' AND expires IS NULL"),
		'2', 'sizes and times');
	like(error("SELECT llm_load_model('huge')"), qr/53200.*not enough memory for model "huge".*It needs \d+ MB; of 95 MB \(vllm.memory_limit\)/s, 'too large');
	is(there(), 'm1 m3', '... nobody had to go for it');
	sql("SELECT llm_sleep(1, model => 'm1')");
	is(ask('m2'), $answer, 'who sleeps takes no room');
	usleep(300000);
	is(there(), 'm2 m3', '... nobody had to go');
	sql("SELECT llm_wake_up(model => 'm1')");
	is(ask('m1'), $answer, 'it takes its room back');
	is(there(), 'm1 m2', '... from the one that was used longest ago');
	sql("SELECT llm_drop_model(n) FROM unnest(ARRAY['m1', 'm2', 'm3', 'huge']) n");
	sql('ALTER SYSTEM RESET vllm.memory_limit; ALTER SYSTEM RESET vllm.memory_timeout');
	$node->reload;
	is(sql($ask), $answer, 'no limit');
}

# privileges
like(error("SET ROLE reader; SELECT llm_$_"), qr/42501|permission denied/, "llm_$_")
	for ('sleep()', 'wake_up()', 'pause()', 'resume()');
is(sql('SET ROLE reader; SELECT llm_is_sleeping(), llm_is_paused()'), 'f|f', 'everybody may ask');
like(error('SELECT llm_sleep(3)'), qr/22023.*level must be 0, 1 or 2, got 3/s, 'level 3');
like(error("SELECT llm_sleep(1, 'maybe')"), qr/22023.*mode must be abort, wait or keep, got "maybe"/s, 'mode');
like(error("SELECT llm_wake_up('{kv}')"), qr/22023.*unknown tag "kv"/s, 'tag');
like(error("SELECT llm_sleep(model => 'nobody')"), qr/42704/, 'model');

# no space for the saved weights: an error, and the model stays awake
{
	sql("ALTER SYSTEM SET vllm.repack_cache = '/nowhere/at/all'");
	$node->reload;
	sleep 1;
	like(error('SELECT llm_sleep(1)'), qr/58030.*could not put weights into a file.*nowhere/s, 'no directory');
	is(sql('SELECT llm_is_sleeping()'), 'f', 'still awake');
	is(sql($ask), $answer, '... and answers');
	sql('ALTER SYSTEM RESET vllm.repack_cache');
	$node->reload;
	sleep 1;
}

# the engine is killed in its sleep, and while it falls asleep
for my $how ('asleep', 'falling')
{
	my $pid = engine_pid($node);
	my $b;
	if ($how eq 'asleep') { sql('SELECT llm_sleep(1)'); }
	else { $b = bg($node, 'SELECT llm_sleep(1) FROM generate_series(1, 50)'); usleep(50000); }
	my $w = bg($node, "SET vllm.sleep_requests = 'wait'", $ask);
	usleep(100000);
	kill 'KILL', $pid;
	my ($out, $err) = finish($w);
	ok($out eq $answer || $err =~ /55000|58000|57P03/, "killed $how: who waits gets an answer or an error");
	finish($b) if $b;
	until_ready($node, $pid);
	sql('SELECT llm_wake_up()') if $how eq 'falling';
	is(sql($ask), $answer, '... the next engine is awake');
}

# many sleeps and wakes of many sessions, and calls that wait
{
	my $fds = fd_count(engine_pid($node));
	my @b = map { bg($node, "SET vllm.sleep_requests = 'wait'", "SELECT DISTINCT llm_generate($prompt, max_tokens => 30, temperature => 0, ignore_eos => true) FROM generate_series(1, 40)") } 1 .. 6;
	my @s = map { my $l = $_ - 1; bg($node, "SELECT llm_sleep($l, '" . ($_ == 2 ? 'wait' : 'keep') . "'), llm_wake_up() FROM generate_series(1, 8)") } 1 .. 3;
	finish($_) for @s;
	sql('SELECT llm_wake_up()');
	is(scalar finish($_), $answer, 'an answer in the storm') for @b;
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
	ok(until_true(sub { fd_count(engine_pid($node)) <= $fds }, 5), 'no descriptor is left');
}
# the memory of the offload tier is freed, too; with files its blocks are found again
for my $files (0, 1)
{
	my $dir = File::Spec->rel2abs($node->basedir . '/tier');
	sql("ALTER SYSTEM SET vllm.kv_offload_bytes = '64MB'; ALTER SYSTEM SET vllm.kv_cache_memory_bytes = '8MB'");
	sql("ALTER SYSTEM SET vllm.kv_offload_directory = '$dir'") if $files;
	$node->reload;
	my $pid = engine_pid($node);
	sql('SELECT llm_engine_restart()');
	until_ready($node, $pid);
	for my $level (1, 2)
	{
		sql(q{SELECT count(llm_generate(repeat(md5(i::text) || ' ', 12), max_tokens => 1)) FROM generate_series(1, 160) i});
		my $long = "SELECT (r.usage).cached_tokens FROM llm_generate_full(repeat(md5('160') || ' ', 12), max_tokens => 1) r";
		my $before = rss();
		sql("SELECT llm_sleep($level)");
		my $slept = rss();
		figure('with a tier of 64 MB%s, level %d: engine RSS %d kB, asleep %d kB', $files ? ' and files' : '', $level, $before, $slept);
		cmp_ok($slept, '<', 32000, "the offload tier's memory is given back");
		sql('SELECT llm_wake_up()');
		cmp_ok(sql($long), $files ? '>' : '==', 0, $files ? '... and its files are not' : '... with all that was in it');
		is(sql($ask), $answer, '... the same answer');
	}
}
$node->stop;
done_testing();
