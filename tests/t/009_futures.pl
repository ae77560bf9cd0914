# Futures: what is left by sessions that end, are killed or don't fetch; slots that are taken by the
# session's own replies; an engine that is lost in between.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = new_node('futures', "vllm.max_queued_requests = 8\nrestart_after_crash = on\n");
ok(until_ready($node), 'the engine becomes ready');
my $nothing = '0|0|0|0|0|0';

sub busy
{
	my ($n) = @_;
	return until_sql($node, "SELECT slots_total - slots_free = $n FROM llm_stat_engine");
}

# ---- the session ends with open futures ----
my $s = $node->background_psql('postgres');
$s->query_safe(q{SELECT count(llm_submit('@hang')) FROM generate_series(1, 4)});
ok(busy(4), 'four futures hold four slots');
$s->quit;
is(left_behind($node), $nothing, 'the end of the session frees them');

for my $signal ('TERM', 'KILL')
{
	my $b = bg($node, q{SELECT count(llm_submit('@hang')) FROM generate_series(1, 4)}, 'SELECT pg_sleep(50)');
	busy(4);
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM llm_requests LIMIT 1});
	kill $signal, $pid;
	finish($b);
	ok(until_ready($node), "SIG$signal: the engine serves");
	is(left_behind($node), $nothing, "SIG$signal: nothing is left behind");
}

# ---- more futures than slots ---- a session never waits for a slot that its own unread reply holds
is($node->safe_psql('postgres', q{
	SET vllm.queue_timeout = '20s';
	CREATE TABLE f AS SELECT i, llm_submit('n ' || i) AS id FROM generate_series(1, 8) i;
	SELECT llm_generate('between');
	SELECT string_agg(llm_result(id), ',' ORDER BY i) FROM f;
	DROP TABLE f}), "BETWEEN\nN 1,N 2,N 3,N 4,N 5,N 6,N 7,N 8", 'as many as there are slots');
is($node->safe_psql('postgres', q{
	SET vllm.queue_timeout = 0;
	SELECT count(llm_submit('n')) FROM generate_series(1, 3);
	SELECT pg_sleep(0.2);
	SELECT llm_generate('no queue')}), "3\n\nNO QUEUE", 'also if nobody may queue');
my $sql = q{
	DO $$
	DECLARE
		ids bigint[] := '{}';
		n int := 0;
	BEGIN
		FOR i IN 1 .. 200 LOOP
			ids := ids || llm_submit('n ' || i);
			IF cardinality(ids) = 8 THEN
				PERFORM llm_wait(ids);
				n := n + (SELECT count(llm_result(id)) FROM unnest(ids) id);
				ids := '{}';
			END IF;
		END LOOP;
		RAISE INFO 'fetched %', n;
	END $$};
my (undef, $err) = finish(bg($node, $sql));
like($err, qr/fetched 200/, '200 futures through 8 slots');
(undef, $err) = finish(bg($node, q{SELECT count(llm_submit('x')) FROM generate_series(1, 200)}));
like($err, qr/ERROR:  53400: too many open futures.*HINT:  .*llm_result.*llm_discard/s, 'not fetching any: 53400');
is(left_behind($node), $nothing, 'nothing is left behind');

# half of the slots belong to other sessions
$s = $node->background_psql('postgres');
$s->query_safe(q{SELECT count(llm_submit('@hang')) FROM generate_series(1, 4)});
my ($out, $fifth) = finish(bg($node, q{SET vllm.queue_timeout = '300ms'}, q{SELECT count(llm_submit('@hang')) FROM generate_series(1, 5)}));
like($fifth, qr/ERROR:  53300: .*DETAIL:  4 futures of this session are running/s, 'the fifth waits, then 53300');
is($node->safe_psql('postgres', q{SELECT llm_generate('goes on')}), 'GOES ON', 'others are served');
$s->quit;
is(left_behind($node), $nothing, 'nothing is left behind');

# a batch in a session whose unread replies hold all slots that others leave free
my $hang = $node->background_psql('postgres');
$hang->query_safe(q{SELECT count(llm_submit('@hang')) FROM generate_series(1, 4)});
is($node->safe_psql('postgres', q{
	SET vllm.queue_timeout = '20s';
	SELECT count(llm_submit('n')) FROM generate_series(1, 4);
	SELECT pg_sleep(0.2);
	SELECT count(*) FROM llm_generate_batch((SELECT array_agg('p' || i) FROM generate_series(1, 100) i));
	SELECT count(*) FROM llm_generate_query('SELECT ''p'' || i AS p FROM generate_series(1, 100) i', 'p')}),
	"4\n\n100\n100", 'llm_generate_batch and llm_generate_query in a session with unread futures');
$hang->quit;
is(left_behind($node), $nothing, 'nothing is left behind');
for my $call (q{llm_generate_batch(array_fill('@hang'::text, ARRAY[5]))}, q{llm_generate_query('SELECT ''@hang'' FROM generate_series(1, 5)', '?column?')})
{
	my $b = bg($node, "SELECT $call");
	until_sql($node, 'SELECT count(*) > 1 FROM llm_requests');
	kill 'TERM', $node->safe_psql('postgres', 'SELECT pid FROM llm_requests LIMIT 1');
	like((finish($b))[1], qr/57P01/, "terminated in $call");
	is(left_behind($node), $nothing, 'nothing is left behind');
}

# ---- interrupted waits ----
$s = $node->background_psql('postgres', on_error_stop => 0);
$s->query(q{SELECT llm_submit('@delay:1000 later') AS a \gset});
my $pid = $s->query('SELECT pg_backend_pid()');
my $cancel = bg($node, q{SELECT pg_sleep(0.3)}, "SELECT pg_cancel_backend($pid)");
$s->query('SELECT llm_wait(ARRAY[:a])');
finish($cancel);
is($s->query('SELECT state FROM llm_futures'), 'running', 'a cancelled llm_wait does not end the request');
is($s->query('SELECT llm_result(:a)'), '@DELAY:1000 LATER', 'which has its answer later');
$s->query(q{BEGIN});
$s->query(q{SELECT llm_submit('@hang') AS a, llm_submit('kept') AS b \gset});
$s->query(q{ROLLBACK});
is($s->query('SELECT count(*) FROM llm_futures'), '2', 'ROLLBACK keeps futures');
is($s->query('SELECT llm_result(:b), llm_discard(:a)'), 'KEPT|t', 'and they work');
is(left_behind($node), $nothing, 'nothing is left behind');

# ---- other sessions ----
$s->query(q{SELECT llm_submit('mine') AS a \gset});
my $id = $s->query('SELECT :a');
like((finish(bg($node, "SELECT llm_result($id)")))[1], qr/ERROR:  42704/, 'futures of others are unknown');
is($s->query('SELECT llm_result(:a)'), 'MINE', 'and stay theirs');

# ---- the engine is lost ----
$s->query(q{SELECT llm_submit('done before') AS a, llm_submit('@hang') AS b \gset});
$s->query('SELECT llm_wait(ARRAY[:a])');
my $old = engine_pid($node);
kill 9, $old;
ok(until_ready($node, $old), 'a new engine serves');
is($s->query('SELECT llm_wait(ARRAY[:a, :b])'), 't', 'all are finished');
is($s->query('SELECT llm_result(:a)'), 'DONE BEFORE', 'an answer that was read is kept');
$s->{stderr} = '';
$s->query('SELECT llm_result(:b)');
like($s->{stderr}, qr/the inference engine was lost/, 'the other one fails');
is($s->query(q{SELECT llm_result(llm_submit('anew'))}), 'ANEW', 'the session goes on');

# ---- memory of fetched results ----
my $many = q{DO $$BEGIN FOR i IN 1 .. 2000 LOOP PERFORM llm_result(llm_submit(repeat('x', 2000))); END LOOP; END $$};
$s->query($many);
my $rss = rss_kb($pid);
$s->query($many);
cmp_ok(rss_kb($pid) - $rss, '<', 2000, 'futures leave no memory behind');
is($s->query(q{SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'llm future'}), '0', 'and no memory context');
$s->quit;
is(left_behind($node), $nothing, 'nothing is left behind');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop('fast');
done_testing();
