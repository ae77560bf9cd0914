# Jobs of malicious or careless owners: workers that crash, and the state that a worker keeps from one job
# to the next.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = new_node('jobs_hostile', "restart_after_crash = on\nautovacuum = off\n");
ok(until_ready($node), 'the engine becomes ready');
$node->safe_psql('postgres', q{
	CREATE ROLE mallory; CREATE ROLE alice;
	GRANT CREATE ON SCHEMA public TO mallory, alice;
	SET ROLE alice;
	CREATE TABLE good (id int PRIMARY KEY, a text, b text);
	SELECT llm_create_completion_job('good', '{a}', 'b', name => 'good');
	SET ROLE mallory;
	CREATE FUNCTION waits(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN IF t ~ 'crash' THEN PERFORM pg_sleep(3); END IF; RETURN t; END $$;
	CREATE TABLE bad (id int PRIMARY KEY, a text, b text);
	SELECT llm_create_completion_job('bad', input => 'waits(a)', target_column => 'b', name => 'bad', backfill => 'none')});

# ---- no code of an owner is active when another owner's runs, nor while the worker is idle ----
$node->safe_psql('postgres', q{
	SET ROLE mallory;
	CREATE SEQUENCE counter;
	GRANT USAGE ON SEQUENCE counter TO alice;
	CREATE FUNCTION spoil(t text) RETURNS text LANGUAGE plpgsql AS $f$
	DECLARE s text; refused int := 0; futures int := (SELECT count(*) FROM public.llm_futures);
	BEGIN
		PERFORM public.llm_submit('a secret');
		PERFORM pg_advisory_lock(4711), pg_advisory_lock_shared(4712), nextval('public.counter');
		FOREACH s IN ARRAY ARRAY['SET work_mem = ''77kB''', 'SET spy.secret = ''hidden''', 'CREATE TEMP TABLE spy (a int)', 'LISTEN spy', 'PREPARE spy AS SELECT 1',
			'DECLARE spy CURSOR WITH HOLD FOR SELECT 1', 'SET ROLE mallory', 'SET SESSION AUTHORIZATION DEFAULT', 'DISCARD ALL'] LOOP
			BEGIN EXECUTE s; EXCEPTION WHEN OTHERS THEN refused := refused + 1; END;
		END LOOP;
		IF t = 'error' THEN RAISE 'on purpose'; END IF;
		RETURN t || ' ' || pg_backend_pid() || ' ' || refused || ' ' || futures;
	END $f$;
	CREATE FUNCTION masked(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $f$BEGIN RETURN public.spoil(t); END $f$;
	CREATE TABLE spoiled (id int PRIMARY KEY, a text, b text);
	SELECT llm_create_completion_job('spoiled', input => 'masked(a)', target_column => 'b', name => 'spoiled', max_attempts => 1);
	SET ROLE alice;
	CREATE FUNCTION looks(t text) RETURNS text STABLE LANGUAGE plpgsql AS $f$
	DECLARE last text;
	BEGIN
		BEGIN last := lastval(); EXCEPTION WHEN object_not_in_prerequisite_state THEN last := 'none'; END;
		RETURN concat_ws(' ', t, pg_backend_pid(), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), current_setting('work_mem'),
			coalesce(nullif(current_setting('spy.secret', true), ''), 'unset'), pg_my_temp_schema(), (SELECT count(*) FROM pg_prepared_statements),
			(SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors WHERE is_holdable), (SELECT count(*) FROM public.llm_futures), last, current_user);
	END $f$;
	CREATE TABLE looks (id int PRIMARY KEY, a text, b text);
	SELECT llm_create_completion_job('looks', input => 'looks(a)', target_column => 'b', name => 'looks')});
for my $what ('spoil', 'spoil', 'error')
{
	$node->safe_psql('postgres', qq{INSERT INTO spoiled VALUES (1, '$what')});
	ok(until_sql($node, q{SELECT count(*) = 1 FROM spoiled LEFT JOIN llm_job_failures ON name = 'spoiled' WHERE b IS NOT NULL OR message IS NOT NULL}), "$what: the code has run");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0', "$what: no lock is left");
	$node->safe_psql('postgres', q{INSERT INTO looks VALUES (1, 'seen')});
	ok(until_sql($node, q{SELECT b IS NOT NULL FROM looks}), "$what: the other owner's code has run");
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'});
	is($node->safe_psql('postgres', 'SELECT b FROM looks'), "SEEN $pid 0 4MB UNSET 0 0 0 0 0 NONE ALICE", "$what: it sees nothing of it");
	like($node->safe_psql('postgres', 'SELECT b FROM spoiled'), qr/^SPOIL $pid 7 0$/, 'in the same session; what PostgreSQL refuses itself; futures go with the transaction') if $what eq 'spoil';
	$node->safe_psql('postgres', 'DELETE FROM spoiled; DELETE FROM looks');
	ok(until_sql($node, 'SELECT bool_and(queued + in_flight = 0) FROM llm_jobs'), 'settled');
}
$node->safe_psql('postgres', q{SELECT llm_drop_job('spoiled'), llm_drop_job('looks')});

# ---- a trigger that an owner made when everybody was allowed to: the worker's own writes fire it ----
my $worker = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'});
$node->safe_psql('postgres', q{
	CREATE TRIGGER rogue AFTER UPDATE ON good REFERENCING NEW TABLE AS y FOR EACH STATEMENT EXECUTE FUNCTION vllm.job_changed('good');
	INSERT INTO good VALUES (7, 'seven')});
ok(until_sql($node, q{SELECT last_error ~ '^39P01: trigger "rogue" of relation "good" has no OLD TABLE' FROM llm_jobs WHERE name = 'good'}), 'an error');
is($node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'}), $worker, 'and no crash');
$node->safe_psql('postgres', 'DROP TRIGGER rogue ON good');
ok(until_sql($node, q{SELECT b = 'SEVEN' FROM good WHERE id = 7}), 'without it the job works');

# Run a statement that may meet a crash; the server is running afterwards.
sub try_sql
{
	my ($sql) = @_;
	my $out = '';
	eval { $node->psql('postgres', $sql, stdout => \$out, stderr => \my $err, on_error_stop => 0) };
	return $out;
}

# The worker while it runs the job's code.
sub worker_in_job
{
	my $pid;
	until_true(sub { ($pid = try_sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker' AND wait_event = 'PgSleep'})) =~ /^\d+$/ }, 30);
	return $pid;
}

sub crash
{
	my ($pid) = @_;
	my $start = try_sql('SELECT min(backend_start) FROM pg_stat_activity WHERE backend_type = $$checkpointer$$');
	kill 'SEGV', $pid;
	return until_true(sub { try_sql('SELECT min(backend_start) > $$' . $start . '$$ FROM pg_stat_activity WHERE backend_type = $$checkpointer$$') eq 't' }, 60);
}
my $state = q{SELECT string_agg(name || ' ' || state, ', ' ORDER BY name) FROM llm_jobs};

# ---- in a database that isn't UTF-8, names of adapters and models are converted outside of transactions
# ----
$node->safe_psql('postgres', q{CREATE DATABASE latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('latin1', q{SET client_encoding = 'UTF8';
	CREATE EXTENSION vllm_pg;
	SELECT llm_create_model('modèle', '/fake/m'), llm_create_lora('été', 'modèle', '/fake/adapters/red'),
		llm_create_model('unsure', '/fake/c', options => '{"cascade": {"to": "modèle", "threshold": -1e-9}}');
	CREATE TABLE adapted (id int PRIMARY KEY, a text, b text);
	CREATE TABLE passed_on (id int PRIMARY KEY, a text, b text);
	SELECT llm_create_completion_job('adapted', '{a}', 'b', model => 'modèle', options => '{"lora": "été"}'),
		llm_create_completion_job('passed_on', '{a}', 'b', model => 'unsure');
	INSERT INTO adapted VALUES (1, 'one');
	INSERT INTO passed_on VALUES (1, 'one')});
for my $table ('adapted', 'passed_on')
{
	ok(until_true(sub { my ($ret, $out) = $node->psql('latin1', "SELECT b LIKE '%ONE' FROM $table"); return defined $out && $out eq 't' }, 30), "$table: a job's names");
}
unlike(slurp_file($node->logfile), qr/terminated by signal 11/, '... without a crash');
# bytes that can't be sent as text are an error of their row
$node->safe_psql('postgres', q{CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('bytes', q{CREATE EXTENSION vllm_pg;
	CREATE TABLE odd (id int PRIMARY KEY, a text, b text);
	CREATE TABLE plain (id int PRIMARY KEY, a text, b text);
	SELECT llm_create_completion_job('odd', '{a}', 'b'), llm_create_completion_job('plain', '{a}', 'b');
	INSERT INTO odd VALUES (1, E'\xff'), (2, 'two');
	INSERT INTO plain VALUES (1, 'one')});
for my $row ('odd WHERE id = 2', 'plain WHERE id = 1')
{
	ok(until_true(sub { $node->safe_psql('bytes', "SELECT b = upper(a) FROM $row") eq 't' }, 30), "beside bytes that are no text: $row");
}
is($node->safe_psql('bytes', 'SELECT source, key, sqlstate FROM llm_job_failures'), 'odd|{1}|22021', 'they fail');

# ---- a job during which the worker crashes twice is stopped ---- crashes of others don't count
$node->safe_psql('postgres', q{INSERT INTO bad VALUES (1, 'crash')});
for (1 .. 3)
{
	my $victim = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $victim->query('SELECT pg_backend_pid()');
	worker_in_job();
	ok(crash($pid), 'a backend has crashed while the worker was in the job');
	eval { $victim->{run}->finish };
}
is(try_sql($state), 'bad active, good active', 'that is no fault of the job');
like(worker_in_job(), qr/^\d+$/, 'which goes on');
my $log = -s $node->logfile;
ok(crash(worker_in_job()), 'the worker has crashed');
is(try_sql($state), 'bad active, good active', 'once may be chance');
ok(crash(worker_in_job()), 'the worker has crashed again');
ok(until_true(sub { try_sql($state) eq 'bad failed, good active' }, 30), 'the job is set aside') or diag(try_sql($state));
like(try_sql(q{SELECT last_error FROM llm_jobs WHERE name = 'bad'}), qr/^57P02: the worker has crashed 2 times while it processed the job/, '... and says why');
like(slurp_file($node->logfile, $log), qr/LLM job "bad" has failed\n.*DETAIL:  57P02: the worker has crashed 2 times/, '... as does the log');
$node->safe_psql('postgres', q{INSERT INTO good VALUES (1, 'one')});
ok(until_sql($node, q{SELECT b = 'ONE' FROM good WHERE id = 1}), 'other jobs go on');
is(try_sql($state), 'bad failed, good active', 'that is all');
# it can be resumed, and may crash twice again
$node->safe_psql('postgres', q{SELECT llm_resume_job('bad')});
ok(crash(worker_in_job()), 'the worker has crashed');
like(worker_in_job(), qr/^\d+$/, 'the job was resumed: once may be chance');
$node->safe_psql('postgres', q{UPDATE bad SET a = 'calm'});
ok(until_sql($node, q{SELECT b = 'CALM' FROM bad}), 'it works again');
is(try_sql($state), 'bad active, good active', 'and is not set aside');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
