# Statements with many requests in flight that end early, in all possible ways, again and again: no slot,
# request or block may be left, and the next statement works.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $times = 200;
my $node = new_node('batch_cancel', "vllm.engine_args = '--fake --set fake_step_ms=2'\nvllm.max_queued_requests = 64\nlog_min_messages = fatal\njit = off\n");
ok(until_ready($node), 'the engine becomes ready');
my $engine = engine_pid($node);

$node->safe_psql('postgres', q{
	CREATE TABLE docs (id int PRIMARY KEY, body text);
	INSERT INTO docs SELECT i, 'doc ' || i FROM generate_series(1, 40) i;
	ANALYZE docs;
	CREATE TABLE answers (id int, a text);

	-- run query n times; how often did it end in sqlstate?
	CREATE FUNCTION ends(n int, sqlstate_wanted text, query text) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		good int := 0;
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				EXECUTE query;
			EXCEPTION WHEN query_canceled OR OTHERS THEN
				IF SQLSTATE = sqlstate_wanted THEN good := good + 1; END IF;
			END;
		END LOOP;
		RETURN good;
	END $$;

	-- n cursors, of which a few rows are read
	CREATE FUNCTION closes(n int, query text) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		c refcursor;
		r record;
		good int := 0;
	BEGIN
		FOR i IN 1 .. n LOOP
			OPEN c FOR EXECUTE query;
			FETCH c INTO r;
			FETCH c INTO r;
			CLOSE c;
			good := good + 1;
		END LOOP;
		RETURN good;
	END $$;

	CREATE FUNCTION leaves_loop(n int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		r record;
		good int := 0;
	BEGIN
		FOR i IN 1 .. n LOOP
			-- PL/pgSQL reads ten rows at first
			FOR r IN SELECT id, llm_generate(CASE WHEN id > 10 THEN '@hang' ELSE body END) AS a FROM docs LOOP
				EXIT WHEN r.id = 2;
			END LOOP;
			good := good + (r.a = 'DOC 2')::int;
		END LOOP;
		RETURN good;
	END $$;
});

sub check
{
	my ($what) = @_;
	is(left_behind($node), '0|0|0|0|0|0', "$what: nothing is left");
	is($node->safe_psql('postgres', 'SELECT count(llm_generate(body)) FROM docs'), '40', "$what: the next statement works");
}

# ---- within a transaction that continues ----

my %ends = (
	'an error of the engine in row 5' => [ '53200', q{SELECT llm_generate(CASE id WHEN 5 THEN '@error:53200:five' WHEN 6 THEN '@hang' ELSE body END) FROM docs} ],
	'a call that runs out of time' => [ '57014', q{SELECT llm_generate(CASE WHEN id > 3 THEN '@hang' ELSE body END, timeout_ms => 2) FROM docs} ],
	'an error of the list in row 5' => [ '22012', q{SELECT 10 / (id - 5), llm_generate(CASE WHEN id > 5 THEN '@hang' ELSE body END) FROM docs} ],
	'an error of an argument' => [ '22012', q{SELECT llm_generate('@delay:50 ' || 10 / (id - 20)) FROM docs} ],
	'an error above a filter' => [ '22012', q{SELECT 1 / (id - 3) FROM docs WHERE llm_generate(CASE WHEN id > 9 THEN '@hang' ELSE body END) LIKE 'DOC%'} ],
	'an error in an aggregate' => [ '22023', q{SELECT string_agg(llm_generate(CASE WHEN id = 30 THEN '@error' ELSE body END), ',') FROM docs} ],
	'an error of a nested call' => [ '22023', q{SELECT llm_generate(llm_generate(CASE WHEN id = 9 THEN '@error' ELSE body END) || ' @delay:20') FROM docs} ],
	'a violated constraint' => [ '23505', q{UPDATE docs SET id = length(llm_generate('@delay:3 x' || id / 2))} ],
	'a LIMIT that is reached' => [ 'P0001', q{DO $$ BEGIN PERFORM id FROM docs WHERE llm_generate(CASE WHEN id > 7 THEN '@hang' ELSE body END) LIKE '%2' LIMIT 1; RAISE 'done'; END $$} ],
	'an EXISTS that is true' => [ 'P0001', q{DO $$ BEGIN PERFORM EXISTS (SELECT 1 FROM docs WHERE llm_generate(CASE WHEN id > 3 THEN '@hang' ELSE body END) LIKE '%1'); RAISE 'done'; END $$} ],
	'a SELECT INTO that takes one row' => [ 'P0001', q{DO $$ DECLARE t text; BEGIN SELECT llm_generate(CASE WHEN id > 1 THEN '@hang' ELSE body END) INTO t FROM docs; RAISE 'done'; END $$} ]);

for my $what (sort keys %ends)
{
	my ($state, $query) = @{ $ends{$what} };
	is($node->safe_psql('postgres', "SELECT ends($times, '$state', \$q\$$query\$q\$)"), $times, "$what: $times times $state");
	check($what);
}
is($node->safe_psql('postgres', "SELECT closes($times, \$q\$SELECT llm_generate(CASE WHEN id > 2 THEN '\@hang' ELSE body END) FROM docs\$q\$)"), $times, 'closed cursors');
check('closed cursors');
is($node->safe_psql('postgres', "SELECT leaves_loop($times)"), $times, 'a loop that is left');
check('a loop that is left');

# ---- psql scripts: savepoints, portals, the end of a transaction, statement_timeout ----

my $hangs = q{SELECT id, llm_generate(CASE WHEN id > 2 THEN '@hang' ELSE body END) FROM docs};
my %scripts = (
	'ROLLBACK TO' => qq{BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR $hangs; FETCH 2 FROM c; ROLLBACK TO s; SELECT 1; COMMIT;},
	'ROLLBACK' => qq{BEGIN; DECLARE c CURSOR FOR $hangs; FETCH 1 FROM c; ROLLBACK; SELECT 1;},
	'COMMIT' => qq{BEGIN; DECLARE c CURSOR FOR $hangs; FETCH 2 FROM c; COMMIT; SELECT 1;},
	'CLOSE ALL' => qq{BEGIN; DECLARE c CURSOR FOR $hangs; DECLARE d CURSOR FOR $hangs; FETCH 2 FROM c; FETCH 1 FROM d; FETCH 1 FROM d; CLOSE ALL; SELECT 1; COMMIT;},
	'statement_timeout' => qq{SET statement_timeout = 8; $hangs; RESET statement_timeout; SELECT 1;},
	'statement_timeout in INSERT' => qq{SET statement_timeout = 8; INSERT INTO answers $hangs; RESET statement_timeout; SELECT 1;});
for my $what (sort keys %scripts)
{
	my ($rc, $out, $err) = $node->psql('postgres', "$scripts{$what}\n" x $times, on_error_stop => 0);
	my $ones = () = $out =~ /^1$/mg;
	my $timeouts = () = $err =~ /statement timeout/g;
	is($ones, $times, "$what: $times times");
	is($timeouts, $times, "$what: $times timeouts") if $what =~ /timeout/;
	check($what);
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM answers'), '0', 'a cancelled INSERT leaves no row');

# ---- backends that are cancelled, terminated, or whose client is gone ----

my @latency;
my %seen;
for my $i (1 .. 36)
{
	my $b = bg($node, $i % 2 ? $hangs : q{UPDATE docs SET body = llm_generate(CASE WHEN id > 4 THEN '@hang' ELSE body END)});
	my ($pid, $n) = (0, 0);
	until_true(sub { ($pid, $n) = split /\|/, $node->safe_psql('postgres', 'SELECT max(pid), count(*) FROM llm_requests'); $n > 1 });
	$seen{flight} = $n if $n > ($seen{flight} // 0);
	my $sent = time;
	if ($i % 3 == 2)
	{
		$b->{h}->kill_kill;
		kill 'INT', $pid;
		$seen{gone}++ if until_true(sub { !is_alive($pid) }, 10);
		next;
	}
	kill $i % 3 ? 'INT' : 'TERM', $pid;
	my ($out, $err) = finish($b);
	push @latency, time - $sent;
	$seen{ $err =~ /57014/ ? 'cancelled' : $err =~ /57P01/ ? 'terminated' : 'other' }++;
}
is_deeply([ @seen{qw(cancelled terminated gone)} ], [ 12, 12, 12 ], 'cancelled, terminated, gone');
cmp_ok($seen{flight}, '>=', 8, 'many requests were in flight');
@latency = sort { $a <=> $b } @latency;
figure('%d requests in flight, cancelled in %.1f ms (median), %.1f ms (worst)', $seen{flight}, $latency[@latency / 2] * 1000, $latency[-1] * 1000);
cmp_ok($latency[-1], '<', 2, 'a cancelled statement ends at once');
check('cancelled backends');

# ---- one request is cancelled by another session ----

my $b = bg($node, q{SELECT llm_generate(CASE id WHEN 3 THEN '@hang' ELSE body END) FROM docs});
ok(until_sql($node, 'SELECT count(*) = 1 FROM llm_requests'), 'one request is left of the statement');
$node->safe_psql('postgres', 'SELECT llm_cancel(id) FROM llm_requests');
like((finish($b))[1], qr/llm_cancel/, 'llm_cancel() ends the statement');
check('llm_cancel');

is(engine_pid($node), $engine, 'the same engine all the time');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');

# ---- how far a statement that needs few rows reads ahead ----

# 1 row, then 3, 5, 7 as rows are returned: results that come quickly must not count before that
for my $query (
	q{SELECT id, llm_generate(body) FROM docs OFFSET 0},
	q{SELECT id, l.* FROM docs, llm_choice_probs(body, ARRAY['doc', 'b']) l},
	q{SELECT id FROM docs WHERE llm_generate(body) <> ''})
{
	my $most = 0;

	for (1 .. 50)
	{
		my $n = $node->safe_psql('postgres', qq{
			SELECT vllm.control('log-clear') \\gset
			BEGIN;
			DECLARE c CURSOR FOR $query;
			FETCH 3 FROM c \\g /dev/null
			SELECT count(*) FROM regexp_split_to_table(vllm.control('log'), '\n') line WHERE line <> '';
			COMMIT;
		});
		$most = $n if $n > $most;
	}
	cmp_ok($most, '<=', 7, "requests for 3 rows: $query");
}

# ---- the engine crashes during a statement ----

for my $i (1 .. 3)
{
	my $old = engine_pid($node);
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_generate(CASE id WHEN 20 THEN '@crash' ELSE body || ' @delay:30' END) FROM docs}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/ERROR: +(57P0\d|58|XX|08)/, 'the statement fails');
	ok(until_ready($node, $old), 'a new engine');
	check("engine crash $i");
}

# in a transaction that continues, and with a cursor
my $old = engine_pid($node);
is($node->safe_psql('postgres', q{
	BEGIN;
	DECLARE c CURSOR FOR SELECT llm_generate(CASE id WHEN 5 THEN '@crash' ELSE body END) FROM docs;
	FETCH 1 FROM c;
	SAVEPOINT s;
	\set ON_ERROR_STOP 0
	FETCH ALL FROM c;
	\set ON_ERROR_STOP 1
	ROLLBACK TO s;
	SELECT 'goes on';
	COMMIT;
}), "DOC 1\ngoes on", 'the transaction goes on');
ok(until_ready($node, $old), 'a new engine');
check('engine crash under a cursor');

$node->stop('fast');
done_testing();
