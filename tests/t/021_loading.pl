# Ways of loading weights, through SQL: the cache of packed weights and huge pages.
#
# Whatever the way, the outputs are the same; a failure is a line in the log or an error of the load, and
# never of the server.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('loading');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
$node->safe_psql('postgres', q{
	SELECT llm_create_model('q', (SELECT path FROM llm_models WHERE name = current_setting('vllm.model')), options => '{"quantization": "q8_0"}')});

my $ask = q{SELECT llm_generate('Ticket: no light', temperature => 0, max_tokens => 24), llm_generate('Ticket: no light', model => 'q', temperature => 0, max_tokens => 24)};
my $answers = $node->safe_psql('postgres', $ask);
like($answers, qr/\S.*\|.*\S/s, 'both models answer');

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $at;

# the setting itself
my ($rc, $out, $err) = $node->psql('postgres', q{ALTER SYSTEM SET vllm.repack_cache = 'here'});
like($err, qr/invalid value for parameter "vllm.repack_cache": "here".*must be an absolute path/s, 'a relative path is an error');
my $long = '/' . 'x' x 995;
($rc, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET vllm.repack_cache = '$long'");
like($err, qr/invalid value for parameter "vllm.repack_cache".*too long \(maximum is 995 bytes\)/s, 'so is one that no line to the engine holds');
($rc, $out, $err) = $node->psql('postgres', q{ALTER SYSTEM SET vllm.huge_pages = 'maybe'});
like($err, qr/invalid value for parameter "vllm.huge_pages": "maybe".*must be one of: try, off, on/s, 'an unknown word is an error');
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
($rc, $out, $err) = $node->psql('postgres', 'SHOW vllm.repack_cache', extra_params => [ '-U', 'nobody' ]);
like($err, qr/must be superuser|must have privileges|permission denied to examine/, 'and nobody else sees where the cache is');

# the first load writes, the second maps
set('vllm.repack_cache', $dir);
is($node->safe_psql('postgres', $ask), $answers, 'the load that writes the cache: the same answers');
my @entries = glob("$dir/*.packed");
is(scalar(@entries), 2, 'an entry for each model');
is((stat($entries[0]))[2] & 07077, 0, 'that nobody else may read');
restart();
is($node->safe_psql('postgres', $ask), $answers, 'mapped weights: the same answers');
logged(qr/packed weights are mapped from/, 2, 'both were mapped');

# a damaged entry is packed anew and replaced
open(my $fh, '+<', $entries[0]) or die;
seek($fh, -100, 2);
print $fh 'x' x 50;
close($fh);
restart();
is($node->safe_psql('postgres', $ask), $answers, 'a damaged entry: the same answers');
logged(qr/are not used: the file is damaged/, 1, 'and a line in the log');
restart();
is($node->safe_psql('postgres', $ask), $answers, 'the entry was replaced');
logged(qr/packed weights are mapped from/, 2, 'and is used again');

# a missing directory
set('vllm.repack_cache', "$dir/missing");
is($node->safe_psql('postgres', $ask), $answers, 'no such directory: the same answers');
logged(qr/\Q$dir\E\/missing.*No such file or directory/, 2, 'and a warning for each load');

# huge pages
set('vllm.repack_cache', '');
set('vllm.huge_pages', 'off');
is($node->safe_psql('postgres', $ask), $answers, 'without huge pages: the same answers');
SKIP:
{
	my ($free) = slurp_file('/proc/meminfo') =~ /HugePages_Free:\s+(\d+)/;

	skip 'this machine has reserved huge pages', 2 if $free;
	set('vllm.huge_pages', 'on');
	($rc, $out, $err) = $node->psql('postgres', $ask, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/53200.*huge pages/s, 'reserved pages that are not there are an error of the load');
	set('vllm.huge_pages', 'try');
	is($node->safe_psql('postgres', $ask), $answers, 'and the engine goes on');
}
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop;
done_testing();

sub restart
{
	$at = -s $node->logfile;
	$node->safe_psql('postgres', 'SELECT llm_engine_restart()');
}

sub set
{
	my ($name, $value) = @_;

	$at = -s $node->logfile;
	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	$node->reload;
	$node->wait_for_log(qr/parameter "\Q$name\E" changed to "\Q$value\E"/, $at);
	restart();
}

sub logged
{
	my ($re, $expected, $what) = @_;
	my $n = 0;

	# the supervisor logs a line of the engine when it has read it, which may be after the reply
	for (1 .. 100)
	{
		my @hits = slurp_file($node->logfile, $at) =~ /$re/g;

		$n = scalar(@hits);
		last if $n >= $expected;
		usleep(100_000);
	}
	is($n, $expected, $what);
}
