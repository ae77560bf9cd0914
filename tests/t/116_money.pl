# Accounts, budgets, cached results and fallbacks, with several sessions, kills and restarts, with the fake
# engine.  An account is compared with the cost of its tokens, and with the usage that each session got.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = new_node('money', "vllm.engine_timeout = '20s'\n");
sub sql { return $node->safe_psql('postgres', shift); }

sql(q{
	SELECT llm_create_model('paid', '/fake/paid', options => '{"prices": {"input": 1.25, "cached_input": 0.3, "output": 7.000001}}');
	SELECT llm_create_model('kept', '/fake/kept', options => '{"result_cache": {"shared": true}}');
	SELECT llm_create_model('lame', '/fake/lame', options => '{"fallback": "paid", "prices": {"input": 3}}');
	CREATE ROLE app LOGIN;
	CREATE ROLE other LOGIN;
	CREATE TABLE texts AS SELECT i, 'text ' || repeat('word ', i % 9) || i AS p FROM generate_series(1, 300) i;
	CREATE TABLE told (p bigint, c bigint, o bigint);
	GRANT ALL ON texts, told TO app, other});
sql("SELECT llm_grant('$_', 'app'), llm_grant('$_', 'other')") for qw(paid kept lame);

# cost equals the cost of the account's tokens, nothing is reserved, and budgets are the sums of accounts
my $exact = q{
	SELECT bool_and(cost = CASE model WHEN 'paid' THEN ((prompt_tokens - cached_tokens) * 1.25 + cached_tokens * 0.3 + output_tokens * 7.000001) / 1000000
		ELSE prompt_tokens * 3 / 1000000.0 END) FROM llm_stat_cost};
my $settled = q{
	SELECT bool_and(b.reserved = 0 AND b.total = c.cost) FROM llm_stat_budget b
	JOIN (SELECT userid, sum(cost) AS cost FROM llm_stat_cost GROUP BY userid) c USING (userid)};

sub balanced
{
	my ($what) = @_;
	ok(until_sql($node, "SELECT count(*) = 0 FROM llm_requests"), "$what: nothing is under way");
	is(sql($exact), 't', "$what: accounts are exact");
	is(sql($settled), 't', "$what: nothing is set aside, and purses are the sums");
}

# ---- accounts equal the usage that sessions got ----
my $usage = q{INSERT INTO told SELECT ((s.r).usage).prompt_tokens, ((s.r).usage).cached_tokens, ((s.r).usage).completion_tokens
	FROM texts, LATERAL (SELECT llm_generate_full(p, model => 'paid', max_tokens => 1 + i % 6) AS r OFFSET 0) s};
my @sessions = map { bg_as($node, $_, $usage) } qw(app app other other);
is((finish($_))[1], '', 'a session is answered') for @sessions;
is(sql(q{SELECT (SELECT count(*) FROM told) = 1200 AND
	(SELECT sum(cost) FROM llm_stat_cost) = (SELECT sum((p - c) * 1.25 + c * 0.3 + o * 7.000001) / 1000000 FROM told)}), 't',
	'accounts are what 1,200 answers have told');
is(sql(q{SELECT string_agg(role || ' ' || requests, ',' ORDER BY role) FROM llm_stat_cost}), 'app 600,other 600', '... of each role');
balanced('answers');

# ---- however requests end ----
for my $end (
	[ 'errors', q{SELECT llm_generate(CASE WHEN i = 150 THEN '@error:58000:gone' ELSE p END, model => 'paid') FROM texts} ],
	[ 'a timeout', q{SET statement_timeout = '150ms'; SELECT llm_generate('@delay:' || i % 7 * 100 || ' ' || p, model => 'paid') FROM texts} ],
	[ 'its own timeouts', q{SET vllm.on_error = 'null'; SELECT count(llm_generate('@delay:' || i % 2 * 3000 || ' ' || p, model => 'paid', timeout_ms => 100)) FROM texts WHERE i < 20} ],
	[ 'LIMIT', q{SELECT llm_generate(p, model => 'paid') FROM texts LIMIT 5} ],
	[ 'a fallback', q{SELECT count(llm_generate(CASE WHEN i % 3 = 0 THEN '@lame ' ELSE '' END || p, model => 'lame')) FROM texts} ],
	[ 'a savepoint', q{BEGIN; SAVEPOINT a; DECLARE c CURSOR FOR SELECT llm_generate('@delay:500 ' || p, model => 'paid') FROM texts; FETCH 1 FROM c; ROLLBACK TO a; COMMIT} ],
	[ 'futures', q{SELECT llm_submit(p, model => 'paid') FROM texts WHERE i < 5; SELECT llm_submit('@delay:5000', model => 'paid')} ])
{
	finish(bg_as($node, 'app', $end->[1]));
	balanced($end->[0]);
}
# terminated backends, and an engine that is killed
for my $kill ('terminate', 'engine')
{
	my $b = bg_as($node, 'app', q{SELECT count(llm_generate('@delay:' || i % 5 * 400 || ' ' || p, model => 'paid')) FROM texts});
	ok(until_sql($node, 'SELECT count(*) > 5 FROM llm_requests'), 'requests are under way');
	is(sql(q{SELECT reserved > 0 FROM llm_stat_budget WHERE role = 'app'}), 'f', '... nothing is set aside where there is no budget');
	my $old = engine_pid($node);
	$kill eq 'terminate' ? sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'}) : kill('KILL', $old);
	finish($b);
	ok(until_ready($node, 0), 'the engine serves');
	balanced("after $kill");
}

# ---- a budget of several sessions ----
sql('SELECT llm_cost_reset()');
sql('ALTER ROLE app SET vllm.role_max_cost = 0.004');
# the ratio of a prompt's bytes to tokens is known after the first request
finish(bg_as($node, 'app', q{SELECT llm_generate(p, model => 'paid', max_tokens => 2) FROM texts WHERE i < 4}));
@sessions = map { bg_as($node, 'app', q{SELECT count(llm_generate(p, model => 'paid', max_tokens => 4)) FROM texts}) } 1 .. 4;
for my $s (@sessions)
{
	my ($out, $err) = finish($s);
	like($err, qr/53400: the cost limit of role "app" is reached.*DETAIL:.*spent.*reserved.*vllm\.role_max_cost is 0\.004 a month/s, 'a session is stopped');
}
my $spent = sql(q{SELECT month FROM llm_stat_budget WHERE role = 'app'});
cmp_ok($spent, '<=', 0.004, 'the budget is not overshot');
cmp_ok($spent, '>=', 0.0035, '... and is used');
balanced('budget');
like(error_of($node, q{SET SESSION AUTHORIZATION app; SET vllm.role_max_cost = 5}), qr/42501/, 'the role does not raise it');
is(finish(bg_as($node, 'other', q{SELECT count(llm_generate(p, model => 'paid', max_tokens => 4)) FROM texts WHERE i < 30})), 29, 'others have their own');
# with a budget, the reservation is returned however a request ends
sql('ALTER ROLE app SET vllm.role_max_cost = 100');
{
	my $b = bg_as($node, 'app', q{SELECT count(llm_generate('@delay:3000 ' || p, model => 'paid')) FROM texts});
	ok(until_sql($node, q{SELECT reserved > 0 FROM llm_stat_budget WHERE role = 'app'}), 'something is set aside');
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'});
	finish($b);
	balanced('terminated under a budget');
	$b = bg_as($node, 'app', q{SET statement_timeout = '300ms'}, q{SELECT count(llm_generate('@delay:3000 ' || p, model => 'paid')) FROM texts});
	finish($b);
	balanced('cancelled under a budget');
}
sql('ALTER ROLE app RESET vllm.role_max_cost');

# ---- cached results: sessions at once, and without an engine ----
my $ask = q{SELECT md5(string_agg(llm_generate(p, model => 'kept', temperature => 0), ',' ORDER BY i)) FROM texts};
@sessions = map { bg_as($node, $_, $ask) } qw(app other app other);
my %answers = map { my ($out, $err) = finish($_); is($err, '', 'a session keeps answers'); ($out => 1) } @sessions;
is(scalar(keys %answers), 1, 'all have the same answers');
my $before = sql(q{SELECT hits || ' ' || misses FROM llm_stat_cache WHERE model = 'kept'});
ok(exists $answers{ sql($ask) }, 'later ones as well');
my ($hits, $misses) = split / /, $before;
is(sql(q{SELECT hits || ' ' || misses FROM llm_stat_cache WHERE model = 'kept'}), ($hits + 300) . " $misses", '... without a call');
# two that prune and clear at once
@sessions = map { bg($node, 'SELECT llm_cache_prune()', q{SELECT llm_cache_clear('kept')}, 'SELECT llm_cache_prune()') } 1 .. 3;
is((finish($_))[1], '', 'clearing at once') for @sessions;
is(sql(q{SELECT entries FROM llm_stat_cache WHERE model = 'kept'}), 0, 'nothing is left');
ok(exists $answers{ sql($ask) }, 'and is kept anew');

# ---- jobs: accounts and budgets of their owners, fallbacks and cascades outside of transactions ----
sql('SELECT llm_cost_reset()');
sql(q{
	SELECT llm_create_model('unsure', '/fake/unsure', options => '{"cascade": {"to": "paid", "threshold": -1e-9}, "result_cache": true}');
	CREATE TABLE docs (id int PRIMARY KEY, body text, a text);
	INSERT INTO docs SELECT i, CASE WHEN i % 3 = 0 THEN '@lame ' ELSE '' END || i FROM generate_series(1, 60) i;
	CREATE TABLE notes (id int PRIMARY KEY, body text, b text);
	INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 60) i;
	SELECT llm_create_completion_job('docs', '{body}', 'a', name => 'a', model => 'lame');
	SELECT llm_create_completion_job('notes', '{body}', 'b', name => 'b', model => 'unsure')});
my $done = q{SELECT coalesce(bool_and(queued + in_flight = 0 AND backfill = 'done'), true) FROM llm_jobs};
ok(until_sql($node, $done), 'jobs end');
is(sql('SELECT count(*) FROM docs JOIN notes USING (id) WHERE a = upper(docs.body) AND b = upper(notes.body)'), 60, 'all rows are answered, some by another model');
is(sql(q{SELECT requests FROM llm_stat_cost WHERE model = 'paid' AND role = current_user}), 81, '... that the owner pays, with one that was asked when the job was made');
balanced('jobs');
sql(q{
	CREATE TABLE app_docs (id int PRIMARY KEY, body text, a text);
	ALTER TABLE app_docs OWNER TO app;
	INSERT INTO app_docs SELECT i, 'text ' || i FROM generate_series(1, 100) i;
	ALTER ROLE app SET vllm.role_max_cost = 0.001});
finish(bg_as($node, 'app', q{SELECT llm_create_completion_job('app_docs', '{body}', 'a', name => 'app', model => 'paid', max_tokens => 4)}));
ok(until_sql($node, q{SELECT total > 0.0008 FROM llm_stat_budget WHERE role = 'app'}), 'a job spends its budget');
sql(q{INSERT INTO docs SELECT i, 'more ' || i FROM generate_series(100, 120) i});
ok(until_sql($node, q{SELECT count(*) = 21 FROM docs WHERE id >= 100 AND a = upper(body)}), "... and doesn't keep others' from going on");
cmp_ok(sql(q{SELECT total FROM llm_stat_budget WHERE role = 'app'}), '<=', 0.00105, '... nor spends more');
is(sql('SELECT count(*) BETWEEN 1 AND 99 FROM app_docs WHERE a IS NULL'), 't', '... but waits');
sql(q{SELECT llm_drop_job(name) FROM llm_jobs});
# a fallback that the budget does not allow: slow results of others are not requested again and again
my $paid = q{SELECT requests FROM llm_stat_cost WHERE model = 'paid' AND role = current_user};
sql(q{
	TRUNCATE app_docs, docs;
	INSERT INTO app_docs SELECT i, '@lame ' || i FROM generate_series(1, 5) i;
	ALTER ROLE app SET vllm.role_max_cost = 0.000001;
	SELECT llm_create_model('free', '/fake/lame2', options => '{"fallback": "paid"}'), llm_grant('free', 'app')});
is((finish(bg_as($node, 'app', q{SELECT llm_create_completion_job('app_docs', '{body}', 'a', name => 'app', model => 'free')})))[1], '', 'a job whose fallback costs too much');
sql(q{SELECT llm_create_completion_job('docs', '{body}', 'a', name => 'a', model => 'paid')});
my $asked = sql($paid);
for my $i (1 .. 4)
{
	sql("INSERT INTO docs VALUES ($i, '\@delay:700 $i')");
	ok(until_true(sub { sql("SELECT a IS NOT NULL FROM docs WHERE id = $i") eq 't' }, 15), "a fallback without a budget doesn't keep others from going on");
}
is(sql($paid) - $asked, 4, '... nor costs them more');
is(sql(q{SELECT count(*) FROM app_docs WHERE a IS NULL}), 5, '... and waits');
sql(q{SELECT llm_drop_job(name) FROM llm_jobs});
sql('ALTER ROLE app RESET vllm.role_max_cost');
balanced('a job with a budget');
# in a session, too, it is refused while others are in flight, and then tried once more
for (1 .. 3)
{
	like(error_of($node, q{SET vllm.max_cost = 0.002; SELECT llm_generate(CASE WHEN i < 20 OR i % 3 = 0 THEN '@lame ' || repeat('long ', 60) ELSE '@delay:' || i * 7 % 400 || ' ' END || i, model => 'free') FROM texts}),
		qr/^.*53400: the cost limit of the statement is reached/, 'a statement whose fallbacks cost too much');
}
balanced('fallbacks that are refused');

# ---- jobs: cached results, of rows in many chunks ----
my $cache = q{SELECT entries || ' ' || misses FROM llm_stat_cache WHERE model = 'kept'};
my ($entries) = split / /, sql($cache);
my $right = q{SELECT count(*) > 2 * (SELECT count(*) FROM pages) AND bool_and(chunk IS NOT DISTINCT FROM want AND embedding IS NOT DISTINCT FROM llm_embed(want, model => 'kept')) FROM page_chunks
	FULL JOIN (SELECT id, seq AS chunk_seq, c.chunk AS want FROM pages, llm_chunk_text(body, method => 'sentences', size => 4, overlap => 0, model => 'kept') c) w USING (id, chunk_seq)};
my $distinct = q{SELECT count(DISTINCT chunk) FROM page_chunks};
sql(q{
	CREATE TABLE pages (id int PRIMARY KEY, body text);
	INSERT INTO pages SELECT i, 'The same beginning. Page number ' || i || '. The same end.' FROM generate_series(1, 150) i;
	SELECT llm_create_embedding_job('pages', 'body', target_table => 'page_chunks', chunking => 'sentences', chunk_size => 4, overlap => 0, name => 'pages', model => 'kept')});
ok(until_sql($node, $done), 'a job of chunks ends');
is((split / /, sql($cache))[0] - $entries, sql($distinct) + 1, 'each chunk is kept once, and what the job was tried with');
is(sql($right), 't', '... and the right one');
$before = sql($cache);
sql(q{
	DELETE FROM page_chunks;
	SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker';
	SELECT llm_backfill_job('pages')});
ok(until_sql($node, $done), 'all rows again');
is(sql($cache), $before, '... whose answers are known');
is(sql($right), 't', '... have the same chunks');
sql(q{INSERT INTO pages SELECT i, 'The same beginning. Page number ' || i || '. The same end.' FROM generate_series(151, 200) i});
ok(until_sql($node, $done), 'rows of which a part is known');
is((split / /, sql($cache))[0] - $entries, sql($distinct) + 1, '... whose rest is kept');
is(sql($right), 't', '... are right');
# rows that are requested again, except for their cached chunks
sql(q{INSERT INTO pages SELECT i, 'The same beginning. Page number ' || i || CASE WHEN i % 2 = 0 THEN ' @delay:300' ELSE '' END || '. The same end.' FROM generate_series(201, 220) i});
my $killed = engine_pid($node);
kill 'KILL', $killed;
ok(until_ready($node, $killed), 'an engine that is killed beneath a job');
ok(until_sql($node, $done), '... which ends');
is(sql($right), 't', '... whose rows are right');
# an error of the cache's table does not fail the rows: here when it is pruned
sql(q{
	SELECT llm_create_model('small', '/fake/small', options => '{"result_cache": {"max_bytes": 20000}}');
	CREATE TABLE lines (id int PRIMARY KEY, body text, e real[]);
	INSERT INTO lines SELECT i, 'line ' || i FROM generate_series(1, 50) i;
	ALTER INDEX vllm.result_cache_age RENAME TO elsewhere;
	SELECT llm_create_embedding_job('lines', 'body', target_column => 'e', name => 'lines', model => 'small')});
ok(until_sql($node, $done), 'a job');
sql('ALTER INDEX vllm.elsewhere RENAME TO result_cache_age');
is(sql(q{SELECT entries FROM llm_stat_cache WHERE model = 'small'}), 1, '... of whose answers none is kept but what it was tried with');
is(sql(q{SELECT count(*) FROM lines WHERE e = llm_embed(body, model => 'small')}), 50, '... and whose rows are right');
sql(q{SELECT llm_drop_job(name) FROM llm_jobs});

# ---- restarts ----
my $all = q{SELECT md5(string_agg(c::text, '' ORDER BY userid, model)) FROM llm_stat_cost c};
my $accounts = sql($all);
my $budgets = sql('SELECT md5(string_agg(b::text, \'\' ORDER BY userid)) FROM llm_stat_budget b');
$node->restart;
is(sql($all), $accounts, 'accounts are kept over a restart');
is(sql('SELECT md5(string_agg(b::text, \'\' ORDER BY userid)) FROM llm_stat_budget b'), $budgets, '... and purses');
sql(q{SELECT count(llm_generate(p, model => 'paid')) FROM texts WHERE i < 50});
$accounts = sql($all);
my $file = $node->data_dir . '/pg_stat/vllm_pg.cost';
my $at = time;
ok(until_true(sub { -e $file && (stat($file))[9] >= int($at) }, 25), 'the supervisor writes them');
$node->stop('immediate');
$node->start;
is(sql($all), $accounts, 'accounts are kept over a crash');
balanced('after a crash');

# ---- the maximal number of roles ----
$node->append_conf('postgresql.conf', "vllm.stat_max = 100\n");
$node->restart;
my $ask_paid = q{SELECT llm_generate('x', model => 'paid', max_tokens => 1)};
sql("CREATE ROLE r$_ LOGIN; SELECT llm_grant('paid', 'r$_')") for 1 .. 101;
$node->safe_psql('postgres', $ask_paid, extra_params => [ '-U', "r$_" ]) for 1 .. 100;
is(sql('SELECT count(*) FROM llm_stat_budget'), 100, 'the purses are all taken');
sql('ALTER ROLE r101 SET vllm.role_max_cost = 1000');
like((finish(bg_as($node, 'r101', $ask_paid)))[1], qr/no account is free for the budget of role "r101"/, 'a role with a budget says so');
sql("SELECT llm_revoke('paid', 'r1'); DROP ROLE r1");
is((finish(bg_as($node, 'r101', $ask_paid)))[1], '', 'that of a dropped role goes');
sql('CREATE ROLE r102 LOGIN; ALTER ROLE r102 SET vllm.role_max_cost = 1000');
sql("SELECT llm_grant('paid', 'r102'), llm_cost_reset('r2'::regrole)");
is((finish(bg_as($node, 'r102', $ask_paid)))[1], '', '... and one that is reset');
is(sql(q{SELECT count(*) FROM llm_stat_budget WHERE role IN ('r101', 'r102')}), 2, '... for those that come later');

$node->append_conf('postgresql.conf', "vllm.engine = off\n");
$node->restart;
ok(exists $answers{ sql($ask) }, 'kept answers need no engine');
like(error_of($node, q{SELECT llm_generate('never asked', model => 'kept', temperature => 0)}), qr/55000/, '... and what is not kept does');

$node->stop;
done_testing();
