# The engine is not trusted: one that overwrites the whole arena, geometry, slots, rings and statistics,
# causes errors of its own calls only.
#
# SEED=n makes other noise; FULL=1 runs longer.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $seed = $ENV{SEED} // 7;
my $rounds = $ENV{FULL} ? 20 : 3;
my $node = new_node('mad', "vllm.max_queued_requests = 32\nvllm.hang_timeout = '1s'\nvllm.engine_timeout = '5s'\n");
ok(until_ready($node), 'the engine becomes ready');
my $up = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my $supervisor = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'});
my $program = abs_path($node->basedir) . '/mad_engine.pl';
copy(dirname(abs_path(__FILE__)) . '/mad_engine.pl', $program) or die $!;
chmod 0755, $program;

# Restart with this engine; returns the error, if any.
sub engine
{
	my ($path, $args) = @_;
	$node->append_conf('postgresql.conf', "vllm.engine_path = '$path'\n");
	$node->reload;
	return ($node->psql('postgres', 'SELECT llm_engine_restart()'))[2];
}

# the script can't take arguments (the real arguments come first), so a shell script adds them
sub mad
{
	my ($n) = @_;
	open(my $f, '>', "$program.sh") or die $!;
	print $f "#!/bin/sh\nexec /usr/bin/perl $program $n 1.5\n";
	close $f;
	chmod 0755, "$program.sh";
	return "$program.sh";
}

# A session that makes all kinds of calls, over and over, and continues after errors.
my @statements = (
	q{SELECT length(llm_generate('some words, and more of them'))},
	q{SELECT count(*) FROM llm_models}, q{SELECT count(*) FROM llm_stat_model},
	q{SELECT sum(ttft_ms) FROM llm_requests}, q{SELECT state, isa, avg_batch FROM llm_stat_engine},
	q{SELECT count(*) FROM llm_generate_stream('a stream of words')},
	q{SELECT llm_count_tokens('count these')},
	q{SELECT count(llm_cancel(id)) FROM llm_requests},
	q{SELECT (llm_generate_full(repeat('long ', 20000))).finish_reason});

my ($errors, $answers) = (0, 0);
for my $round (1 .. $rounds)
{
	my $n = $seed * 1000 + $round;
	my $t0 = time;
	engine(mad($n));
	my @b = map { bg($node, q{SET statement_timeout = '300ms'}, (@statements) x 3) } 1 .. 4;
	my $slowest = 0;
	for my $b (@b)
	{
		my ($out, $err) = finish($b);
		$slowest = $b->{took} if $b->{took} > $slowest;
		$errors += () = $err =~ /ERROR: /g;
		$answers += () = $out =~ /\n/g;
		unlike($err, qr/server closed the connection|FATAL|PANIC/, "seed $n: the session lives");
	}
	cmp_ok($slowest, '<', 40, 'every statement ends');
	is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');
}
figure('%d statements with an error, %d with an answer', $errors, $answers);
cmp_ok($errors, '>', 4 * $rounds, 'calls of a mad engine are errors');

my $log = slurp_file($node->logfile);
unlike($log, qr/server process \(PID \d+\) was terminated|background worker "vllm_pg supervisor" \(PID \d+\) (?:was terminated|exited)|reinitializing/, 'nothing of the database crashed');
like($log, qr/the arena can't be cut/, 'the size of the arena is sealed');
unlike($log, qr/the arena could be cut/, 'always');
is($node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'}), $supervisor, 'the supervisor is the same');

# ---- the real engine again ----
is(engine(''), '', 'the real engine is started on request');
is($node->safe_psql('postgres', q{SELECT llm_generate('sane again')}), 'SANE AGAIN', 'and answers');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
my @b = map { bg($node, q{SELECT count(*) FROM generate_series(1, 20) i WHERE llm_generate('word ' || i) = 'WORD ' || i}) } 1 .. 8;
is(join(' ', map { scalar finish($_) } @b), join(' ', (20) x 8), 'all slots work');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'integrity');
is(left_behind($node), '0|0|0|0|0|0', 'and all are free');
$node->stop('fast');
done_testing();
