# Owners of jobs share the worker: many jobs, slow inputs, long queues or high priorities of one owner do
# not keep other owners' jobs waiting.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $node = new_node('jobs_share', "autovacuum = off\nvllm.max_prompt_bytes = '100kB'\n");
ok(until_ready($node), 'the engine becomes ready');
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{CREATE ROLE greedy; CREATE ROLE modest; GRANT CREATE ON SCHEMA public TO greedy, modest;
	SET ROLE greedy;
	CREATE FUNCTION public.slow(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN
		IF session_user <> current_user THEN PERFORM pg_sleep(0.7); END IF; RETURN t; END $$;
	RESET ROLE; SET ROLE modest;
	CREATE TABLE small (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('small', input => 'x', target_column => 'y', name => 'small')});

# Return the seconds until a row of modest's job has its value.
my $id = 0;
sub takes
{
	my $start = time;
	$id++;
	sql("INSERT INTO small VALUES ($id, 'one')");
	ok(until_sql($node, "SELECT y = 'ONE' FROM small WHERE id = $id"), 'a row has its value');
	return time - $start;
}
cmp_ok(takes(), '<', 10, 'alone');

# ---- a message that is too long, by its options and its text together ---- The length of options is
# limited like that of prompts, so that both together are never too long.
sql(q{SET SESSION AUTHORIZATION greedy; CREATE TABLE too_long (id int PRIMARY KEY, x text, y text)});
like(error_of($node, q{SET SESSION AUTHORIZATION greedy;
	SELECT llm_create_completion_job('too_long', '{x}', 'y', name => 'too_long', options => json_build_object('params', json_build_object('allowed_token_ids', array_fill(1, ARRAY[345000]))))}),
	qr/ERROR:  54000: params of \d+ bytes is too long/, 'a job whose options are longer than a prompt may be');
sql(q{SET SESSION AUTHORIZATION greedy;
	SELECT llm_create_completion_job('too_long', '{x}', 'y', name => 'too_long', options => json_build_object('params', json_build_object('allowed_token_ids', array_fill(1, ARRAY[34000]))));
	INSERT INTO too_long VALUES (1, repeat('x', 100000))});
ok(until_sql($node, q{SELECT y IS NOT NULL FROM too_long}), '... and one with the longest of both');
sql(q{SELECT llm_drop_job('too_long')});

# ---- inputs that take long, in the worker ----
sql(join '', 'SET SESSION AUTHORIZATION greedy;', map { "CREATE TABLE slow$_ (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('slow$_', input => 'public.slow(x)', target_column => 'y', name => 'slow$_');
	SELECT llm_alter_job('slow$_', priority => 1000000, batch_size => 1);
	INSERT INTO slow$_ SELECT i, 'x' FROM generate_series(1, 20) i;" } 1 .. 20);
ok(until_sql($node, q{SELECT count(*) > 0 FROM llm_jobs WHERE name ~ 'slow' AND in_flight > 0}), 'many slow jobs are being served');
cmp_ok(takes(), '<', 8, "another owner's row, by the side of 20 slow jobs");
cmp_ok(takes(), '<', 8, '... and the next one');
ok(until_sql($node, q{SELECT count(*) = 20 FROM llm_jobs WHERE name ~ 'slow' AND (in_flight > 0 OR done > 0)}), 'all of the slow ones have their turns');
sql(q{SELECT llm_drop_job(name) FROM llm_jobs WHERE name ~ 'slow'});

# ---- many idle jobs ----
sql(q{SET SESSION AUTHORIZATION greedy; DO $$ BEGIN FOR i IN 1 .. 1000 LOOP
	EXECUTE format('CREATE TABLE idle%s (id int PRIMARY KEY, x text, y text)', i);
	PERFORM llm_create_completion_job(format('idle%s', i)::regclass, input => 'x', target_column => 'y', name => format('idle%s', i)::name); END LOOP; END $$});
takes();
# the job of the other owner comes after them
sql(q{SELECT llm_drop_job('small'); SET ROLE modest; SELECT llm_create_completion_job('small', input => 'x', target_column => 'y', name => 'small')});
takes();
my @s = sort { $a <=> $b } map { takes() } 1 .. 5;
# checking each job again for a row would take many times as long
cmp_ok($s[2], '<', 4, "another owner's row, by the side of 1,000 idle jobs");
sql(q{SELECT llm_drop_job(name) FROM llm_jobs WHERE name ~ 'idle'});

# ---- a queue that fills the engine ----
sql(q{SET ROLE greedy; CREATE TABLE long (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('long', input => 'x', target_column => 'y', name => 'long');
	SELECT llm_alter_job('long', priority => 1000000, batch_size => 4096);
	INSERT INTO long SELECT i, i || ' @delay:1500' FROM generate_series(1, 3000) i});
ok(until_sql($node, q{SELECT done > 0 FROM llm_jobs WHERE name = 'long'}), 'a long queue is being served');
cmp_ok(takes(), '<', 8, "another owner's row, by the side of a long queue");
cmp_ok(sql(q{SELECT queued + in_flight FROM llm_jobs WHERE name = 'long'}), '>', 500, '... which is still long');
sql(q{SELECT llm_drop_job('long')});

# ---- rows that their owner has locked, when the worker must switch ----
sql(q{SET ROLE greedy; CREATE TABLE held (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('held', input => 'x', target_column => 'y', name => 'held'); INSERT INTO held VALUES (1, 'one @delay:30000')});
sql(q{INSERT INTO small VALUES (1000, 'two @delay:2000')});
ok(until_sql($node, q{SELECT count(*) = 2 FROM llm_jobs WHERE in_flight = 1}), 'rows of both are in flight');
my $holds = bg_as($node, 'postgres', 'BEGIN', 'SET ROLE greedy', q{SELECT llm_drop_job('held')}, 'SELECT pg_sleep(20)', 'ROLLBACK');
ok(until_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'}), 'one is dropping his job');
my $start = time;
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'});
ok(until_sql($node, q{SELECT y IS NOT NULL FROM small WHERE id = 1000}), "the other's row has its value");
cmp_ok(time - $start, '<', 15, '... by the next worker, while it lasts');
finish($holds);
sql(q{SELECT llm_drop_job('held')});

is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
