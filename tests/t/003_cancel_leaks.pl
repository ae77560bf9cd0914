# A thousand calls that end early, in all possible ways: nothing may be left, and the processes must not
# grow.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = new_node('cancels', "vllm.max_queued_requests = 16\nlog_min_messages = fatal\n");
ok(until_ready($node), 'the engine becomes ready');
my $engine = engine_pid($node);
my $sup = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'});

# Make a call that ends with an error n times; each error must be the expected one.
$node->safe_psql('postgres', q{
	CREATE FUNCTION cancels(n int, call text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		good int := 0;
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				EXECUTE call;
			EXCEPTION
				WHEN query_canceled OR division_by_zero THEN good := good + 1;
			END;
		END LOOP;
		RETURN good;
	END $$;
});

sub round
{
	my ($n) = @_;
	my $sum = 0;

	# timeout of the call, within subtransactions; an error in the next expression; while streaming
	$sum += $node->safe_psql('postgres', "SELECT cancels($n, \$\$SELECT llm_generate('\@hang', timeout_ms => 1)\$\$)");
	$sum += $node->safe_psql('postgres', "SELECT cancels($n, \$\$SELECT llm_generate('a'), 1 / 0\$\$)");
	$sum += $node->safe_psql('postgres', "SELECT cancels($n, \$\$SELECT llm_generate_stream('\@tokens:10 \@slow:100', timeout_ms => 5)\$\$)");
	# statement_timeout, and a prompt that has not been sent completely
	for my $i (1 .. $n / 10)
	{
		my ($rc, $out, $err) = $node->psql('postgres', q{SET statement_timeout = 10; SELECT llm_generate('@hang ' || repeat('x', 300000))}, on_error_stop => 0);
		$sum++ if $err =~ /statement timeout/;
	}
	return $sum;
}

# psql scripts in which a cursor or a savepoint ends the call
sub transactions
{
	my ($n) = @_;
	my $one = q{
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:50');
FETCH 1 FROM c;
ROLLBACK TO s;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:50');
FETCH 1 FROM c;
CLOSE c;
COMMIT;
};
	$node->safe_psql('postgres', $one x $n);
	return 2 * $n;
}

round(100);
transactions(5);
is(left_behind($node), '0|0|0|0|0|0', 'warm');
my @before = (fd_count($engine), fd_count($sup), rss_kb($engine));

my $t0 = time;
my $sum = round(300);
is($sum, 3 * 300 + 30, 'every call ended as it should');
$sum += transactions(40);

# backends: cancelled, terminated, and psql killed
my @latency;
for my $i (1 .. 30)
{
	my $b = bg($node, q{SELECT llm_generate('@hang')});
	my $pid;
	until_true(sub { $pid = $node->safe_psql('postgres', 'SELECT pid FROM llm_requests') });
	my $sent = time;
	if ($i % 3 == 0)
	{
		kill 'INT', $pid;
		my ($out, $err) = finish($b);
		push @latency, time - $sent;
		$sum++ if $err =~ /57014/;
	}
	elsif ($i % 3 == 1)
	{
		kill 'TERM', $pid;
		my ($out, $err) = finish($b);
		$sum++ if $err =~ /57P01/;
	}
	else
	{
		# the client is gone: the backend notices when it writes, or by this check
		$b->{h}->kill_kill;
		kill 'INT', $pid;
		$sum++ if until_true(sub { !is_alive($pid) }, 10);
	}
}
cmp_ok($sum, '>=', 1000, 'a thousand calls ended early');
figure('%d cancelled calls in %.1f s', $sum, time - $t0);
@latency = sort { $a <=> $b } @latency;
figure('cancel latency: median %.1f ms, worst %.1f ms (signal to error at the client)', $latency[@latency / 2] * 1000, $latency[-1] * 1000);
cmp_ok($latency[-1], '<', 1, 'a cancelled call ends at once');

is(left_behind($node), '0|0|0|0|0|0', 'no slot, request, block or waiter is left');
is(stat_engine($node, 'slots_total, slots_free'), '16|16', 'all slots are free');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
is(engine_pid($node), $engine, 'the same engine all the time');
is(fd_count($engine), $before[0], 'descriptors of the engine');
is(fd_count($sup), $before[1], 'descriptors of the supervisor');
my $grown = rss_kb($engine) - $before[2];
figure('engine RSS %d kB, grown by %d kB', rss_kb($engine), $grown);
cmp_ok($grown, '<', 4096, 'the engine has not grown');
is($node->safe_psql('postgres', q{SELECT llm_generate('goes on')}), 'GOES ON', 'and goes on');
$node->stop('fast');
done_testing();
