# The offload tier beyond the end of an engine: a restart of the server, another generation, a killed
# engine; resets, owners, an unusable directory.
use strict;
use warnings;
use Cwd qw(abs_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node;
my $dir;

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub metric
{
	return sql("SELECT coalesce(sum(value), 0)::bigint FROM llm_metrics() WHERE name = '$_[0]'");
}

sub files
{
	my @f = glob("$dir/*-*/*");
	return scalar grep { m{/[0-9a-f]{64}$} } @f;
}

# until a condition holds, at most 20 seconds
sub until_ok
{
	my $test = shift;
	for (1 .. 200)
	{
		return 1 if $test->();
		select undef, undef, undef, 0.1;
	}
	return 0;
}

# Return text number n, of about 500 tokens.
sub text { return join(' ', map { "customer $_[0] wrote line $_ about invoice " . ($_ * 37 % 101) } 1 .. 40); }

# Return the cached tokens of a prompt, and the output.
sub ask
{
	my ($i, $before) = @_;
	my $body = q({"prompt": ") . text($i) . q(", "max_tokens": 8, "temperature": 0, "ignore_eos": true});
	return split /\|/, sql(($before // '') . "SELECT r->'usage'->'prompt_tokens_details'->>'cached_tokens', r->'choices'->0->>'text'
		FROM v1_completions('$body') r"), 2;
}

$node = PostgreSQL::Test::Cluster->new('offload_restart');
$node->init;
$dir = abs_path($node->basedir) . '/offload';
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 40\nvllm.kv_cache_memory_bytes = '8MB'\nvllm.kv_offload_bytes = '32MB'
vllm.kv_offload_directory = '$dir'\nvllm.kv_offload_disk_bytes = '100MB'\n");
$node->start;
sql(q{CREATE EXTENSION vllm_pg});
sql(slurp_file('models/docs_sample.sql'));

my %answer;
for my $i (1 .. 6)
{
	my ($cached, $said) = ask($i);
	$answer{$i} = $said;
	ok($cached < 100, "text $i is new ($cached)");
}
is((stat $dir)[2] & 07777, 0700, 'the directory is nobody else\'s');
$node->restart;
ok(files() > 50, 'what has been computed is in files: ' . files());
my ($cached, $said) = ask(3);
ok($cached > 300, "... and found by the next engine: $cached tokens");
is($said, $answer{3}, '... which answers alike');
ok(metric('vllm:external_prefix_cache_hits_total') > 300, '... and counts it');
is(join(' ', grep { (ask($_))[1] ne $answer{$_} } 1 .. 6), '', 'so does it for all others');

# another generation waits for the directory until the previous one has ended
my $pid = engine_pid($node);
sql('SELECT llm_engine_upgrade()');
ok(until_ok(sub { engine_pid($node) != $pid }), 'another generation');
ok(until_ok(sub { !kill 0, $pid }), '... alone');
select undef, undef, undef, 1.5;
($cached, $said) = ask(5);
ok($cached > 300, "it finds what the one before has computed: $cached tokens");
is($said, $answer{5}, '... and answers alike');

# killed without a flush: the files that exist are valid
$pid = engine_pid($node);
kill 'KILL', $pid;
ok(until_ready($node, $pid), 'another engine');
is(join(' ', grep { (ask($_))[1] ne $answer{$_} } 1 .. 6), '', '... and the same answers');

# owners: another role finds nothing
sql(q{CREATE ROLE other LOGIN; SELECT llm_grant('tickets-2m', 'other')});
($cached, $said) = ask(3, 'SET ROLE other; ');
is("$cached $said", "0 $answer{3}", 'another role finds nothing');

sql('SELECT llm_reset_prefix_cache()');
ok(until_ok(sub { files() == 0 }), 'a reset removes the files');
($cached, $said) = ask(3);
is("$cached $said", "0 $answer{3}", '... and nothing is found');

# a directory that others may read is not used, and a warning is logged
$node->stop;
chmod 0755, $dir;
$node->start;
($cached, $said) = ask(3);
is("$cached $said", "0 $answer{3}", 'a directory that is open to others');
ok($node->log_contains(qr/the KV cache is not offloaded to files: directory ".*" is open to others/), '... is not used');
$node->stop('immediate');
chmod 0700, $dir;
$node->start;
($cached, $said) = ask(3);
is($said, $answer{3}, 'behind a crash');
$node->stop;
done_testing();
