# No engine, the wrong one, a broken one; a library that was not preloaded.
use strict;
use warnings;
use Cwd qw(abs_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $node = new_node('missing', "vllm.engine_timeout = '2s'\nvllm.engine_path = '/nonexistent/engine'\n");
my $call = q{SELECT llm_generate('x')};
my $dir = abs_path($node->basedir);

# Use another program as the engine.
sub engine
{
	my ($path) = @_;
	$node->append_conf('postgresql.conf', "vllm.engine_path = '$path'\n");
	$node->reload;
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT llm_engine_restart()');
	return $err;
}

sub script
{
	my ($name, $text) = @_;
	my $path = "$dir/$name";
	open(my $f, '>', $path) or die $!;
	print $f "#!/bin/sh\n$text\n";
	close $f;
	chmod 0755, $path;
	return $path;
}

# ---- missing ----
ok(until_sql($node, q{SELECT state = 'failed' FROM llm_stat_engine}), 'no program: state failed');
my $b = bg($node, $call);
my ($out, $err) = finish($b);
like($err, qr/ERROR:  57P03/, 'a call gets 57P03');
like($err, qr/DETAIL:  .*\/nonexistent\/engine.*No such file/, 'the reason as detail');
like($err, qr/HINT:  .*server log/, 'and a hint');
cmp_ok($b->{took}, '<', 1.9, 'without waiting for vllm.engine_timeout');
like(stat_engine($node, 'last_error'), qr/No such file/, 'llm_stat_engine has the reason');
like(slurp_file($node->logfile), qr/could not start the inference engine/, 'the server log too');
is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the database does not mind');
is($node->safe_psql('postgres', 'SELECT count(*) FROM llm_models'), 1, 'the catalog can be read');

# ---- present, but unusable ----
like(engine("$dir"), qr/Permission denied|not available/, 'a directory');
like(engine(script('speaks9', 'echo "hello 999 $$" >&3; exec sleep 60')), qr/wire version 999/, 'another wire version');
is(stat_engine($node, 'state'), 'failed', 'is not tried again and again');
like(engine(script('exits2', 'echo "E: bad argument" >&2; exit 2')), qr/bad argument/, 'exit status 2, with its last words');
is(stat_engine($node, 'state'), 'failed', 'is a failure for good');
like(engine(script('noformat', '') =~ s/noformat$/nofile/r), qr/No such file/, 'a file that has gone');
open(my $f, '>', "$dir/garbage") or die $!;
print $f "\x7fELF not really";
close $f;
chmod 0755, "$dir/garbage";
like(engine("$dir/garbage"), qr/could not be executed|Exec format error/, 'not a program');

# it always crashes: the supervisor keeps trying, at growing intervals
like(engine(script('dies', 'echo "P: out of luck" >&2; exit 1')), qr/57P03|not available/, 'an engine that always dies');
like(stat_engine($node, 'state'), qr/backoff|starting/, 'is started again');
like(stat_engine($node, 'last_error'), qr/status 1.*out of luck/, 'its last words are kept');
my $n = stat_engine($node, 'epoch');
cmp_ok($n, '<', 40, 'not in a tight loop');

# it never reports ready: a call waits for vllm.engine_timeout
engine(script('mute', 'exec sleep 60'));
$b = bg($node, $call);
($out, $err) = finish($b);
like($err, qr/57P03/, 'an engine that says nothing: 57P03');
cmp_ok($b->{took}, '>=', 1.9, 'after vllm.engine_timeout');
$b = bg($node, q{SELECT llm_generate('x', timeout_ms => 200)});
($out, $err) = finish($b);
like($err, qr/57014|due to timeout/, 'timeout_ms covers the wait for the engine');
cmp_ok($b->{took}, '<', 1.5, 'and is not put off by vllm.engine_timeout');

# garbage on the control socket, and a flood on stderr
engine(script('nonsense', 'i=0; while [ $i -lt 3000 ]; do echo "E: line $i" >&2; echo "what $i" >&3; i=$((i + 1)); done; head -c 100000 /dev/urandom >&3; exec sleep 60'));
is($node->safe_psql('postgres', 'SELECT 1'), 1, 'nonsense does no harm');
ok(until_true(sub { (() = slurp_file($node->logfile) =~ /inference engine: line/g) > 10 }, 10), 'its log lines are passed on');
cmp_ok((() = slurp_file($node->logfile) =~ /inference engine: line/g), '<', 1500, 'a flood is not');

# ---- the right one again ----
is(engine(''), '', 'the real engine is started on request');
is($node->safe_psql('postgres', $call), 'X', 'and answers');

# the error names a setting that the engine refuses
$node->append_conf('postgresql.conf', "vllm.engine_args = '--fake --no-such-option'\n");
$node->reload;
($n, $out, $err) = $node->psql('postgres', 'SELECT llm_engine_restart()');
like($err, qr/argument/, 'a bad argument: the engine says so in the error');

# too little address space for the arena: the error names the setting
$node->append_conf('postgresql.conf', "vllm.engine_args = '--fake'\nvllm.engine_memory_limit = '1MB'\n");
$node->reload;
($n, $out, $err) = $node->psql('postgres', 'SELECT llm_engine_restart()');
like($err, qr/vllm\.engine_memory_limit is 1 MB, but the arena alone takes \d+ MB/, 'a memory limit below the arena');
my ($mb) = $err =~ /alone takes (\d+) MB/;
$node->append_conf('postgresql.conf', "vllm.engine_memory_limit = '${mb}MB'\n");
$node->reload;
ok(until_sql($node, qq{SELECT last_error LIKE '%engine_memory_limit is $mb MB.' FROM llm_stat_engine}), 'or just above it');
$node->append_conf('postgresql.conf', "vllm.engine_memory_limit = 0\n");

# ---- a library that is not preloaded ----
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nvllm.engine_args = '--fake'\n");
$node->restart;
($out, $err) = finish(bg($node, $call));
like($err, qr/ERROR:  55000/, 'not preloaded: 55000');
like($err, qr/HINT:  .*shared_preload_libraries/, 'with the line to add');
for my $sql (q{SELECT llm_count_tokens('x')}, q{SELECT llm_engine_restart()}, q{SELECT llm_load_model('tickets-2m')},
	q{SELECT * FROM llm_generate_stream('x')}, q{SELECT llm_generate_full('x', temperature => 0)})
{
	($out, $err) = finish(bg($node, $sql));
	like($err, qr/ERROR:  55000/, "the same for $sql");
}
($out, $err) = finish(bg($node, 'SELECT count(*) FROM llm_requests', 'SELECT count(*) FROM llm_models', 'SELECT count(*) FROM llm_stat_engine', 'SELECT llm_version()'));
is($err, '', 'views can be read');
($out, $err) = finish(bg($node, 'DROP EXTENSION vllm_pg', 'CREATE EXTENSION vllm_pg'));
like($err, qr/ERROR:  55000.*HINT:  .*shared_preload_libraries/s, 'CREATE EXTENSION says it, too');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'vllm_pg'\n");
$node->restart;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
ok(until_ready($node), 'preloaded again');
is($node->safe_psql('postgres', $call), 'X', 'and everything works');
$node->stop('fast');
done_testing();
