# Jobs and everything else: engines that end, prepared transactions, isolation levels, VACUUM, restarts,
# dumps, databases that are dropped, a server without preload.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = new_node('jobs', "max_prepared_transactions = 4\nautovacuum = off\n");
ok(until_ready($node), 'the engine becomes ready');
my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'};
my $idle = q{SELECT coalesce(bool_and(queued + in_flight = 0 AND backfill = 'done'), true) FROM llm_jobs};

sub settled
{
	my ($db) = @_;
	return $node->poll_query_until($db // 'postgres', $idle);
}

$node->safe_psql('postgres', q{
	CREATE TABLE docs (id int PRIMARY KEY, body text, answer text);
	INSERT INTO docs VALUES (1, 'one');
	SELECT llm_create_completion_job('docs', '{body}', 'answer', name => 'docs')});
ok(settled(), 'back-filled');
is($node->safe_psql('postgres', 'SELECT answer FROM docs'), 'ONE', 'an answer');

# while the engine works no transaction is open, and VACUUM removes dead rows
$node->safe_psql('postgres', q{INSERT INTO docs VALUES (2, '@delay:3000 slow')});
ok(until_sql($node, 'SELECT count(*) = 1 FROM llm_requests'), 'a request is running');
# (except short ones, in which the worker looks for more rows)
my $tx = 'SELECT backend_xid, backend_xmin, xact_start FROM pg_stat_activity WHERE pid = (' . $worker . ')';
ok(until_true(sub { $node->safe_psql('postgres', $tx) eq '||' }, 2), 'the worker has no transaction');
is($node->safe_psql('postgres', 'SELECT in_flight FROM llm_jobs'), '1', 'the row is in flight');
$node->safe_psql('postgres', q{UPDATE docs SET answer = 'x' WHERE id = 1; DELETE FROM docs WHERE id = 1});
my $vacuumed = '';
ok(until_true(sub {
	my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) docs');
	$vacuumed .= $err;
	return $err =~ /removed, 1 remain, 0 are dead but not yet removable/;
}, 2), 'VACUUM keeps nothing that is dead') or diag($vacuumed);
like($vacuumed, qr/[1-9]\d* removed, 1 remain/, '... and had something to remove');
# the row changes during the request: the result for the old text is not stored
$node->safe_psql('postgres', q{UPDATE docs SET body = 'quick' WHERE id = 2});
ok(settled(), 'settled');
is($node->safe_psql('postgres', 'SELECT answer FROM docs'), 'QUICK', 'the answer to the present text');

# a locked row is not waited for; others are processed
my $holder = $node->background_psql('postgres');
$holder->query_safe(q{BEGIN; UPDATE docs SET body = 'held' WHERE id = 2});
$node->safe_psql('postgres', q{INSERT INTO docs VALUES (3, 'beside')});
ok(until_sql($node, q{SELECT answer = 'BESIDE' FROM docs WHERE id = 3}), 'a row beside one that is locked');
$holder->query_safe('COMMIT');
$holder->quit;
ok(settled(), 'settled');
is($node->safe_psql('postgres', 'SELECT answer FROM docs WHERE id = 2'), 'HELD', 'the row that was held');

# the key's column is renamed after the worker has read the job and before it has the table's lock
$node->safe_psql('postgres', q{CREATE TABLE late (id int PRIMARY KEY, body text, answer text);
	SELECT llm_create_completion_job('late', input => 'body', target_column => 'answer', name => 'late'), llm_pause_job('late');
	INSERT INTO late VALUES (1, 'late')});
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE late IN ACCESS EXCLUSIVE MODE');
$node->safe_psql('postgres', q{SELECT llm_resume_job('late')});
ok(until_sql($node, q{SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE a.backend_type = 'vllm_pg job worker' AND NOT l.granted}), 'the worker waits for the table');
$holder->query_safe('ALTER TABLE late RENAME COLUMN id TO no; ALTER TABLE late RENAME COLUMN body TO text');
$holder->query_safe('COMMIT');
$holder->quit;
ok(until_sql($node, q{SELECT answer = 'LATE' FROM late}), 'the worker reads the job again')
	or diag($node->safe_psql('postgres', q{SELECT state, reason, last_error FROM llm_jobs WHERE name = 'late'}));
$node->safe_psql('postgres', q{SELECT llm_drop_job('late'); DROP TABLE late});
ok(settled(), 'settled');

# the engine stands still while the worker has texts split into chunks, until the worker is cancelled
$node->safe_psql('postgres', q{CREATE TABLE split (id int PRIMARY KEY, body text);
	SELECT llm_create_embedding_job('split', 'body', target_table => v || '_chunks', chunking => 'tokens', chunk_size => 20, name => v) FROM unnest('{many_rows,one_row}'::text[]) v;
	SELECT llm_alter_job('one_row', batch_size => 1), llm_pause_job('one_row'), llm_pause_job('many_rows');
	INSERT INTO split SELECT i, 'row ' || i FROM generate_series(1, 3) i});
my $log = -s $node->logfile;
$node->append_conf('postgresql.conf', 'vllm.job_transaction_time = 500ms');
$node->reload;
my $stopped = engine_pid($node);
kill 'STOP', $stopped;
$node->safe_psql('postgres', q{SELECT llm_resume_job('one_row'), llm_resume_job('many_rows')});
usleep(1_500_000);
kill 'CONT', $stopped;
for my $job ('many_rows', 'one_row')
{
	ok(until_sql($node, qq{SELECT string_agg(id::text, ',' ORDER BY id) = '1,2,3' FROM ${job}_chunks}), "$job: each row has its chunks")
		or diag($node->safe_psql('postgres', "SELECT id FROM ${job}_chunks; SELECT * FROM llm_job_failures"));
}
unlike(slurp_file($node->logfile, $log), qr/job worker.*terminated by signal/, 'the worker lives');
$node->append_conf('postgresql.conf', 'vllm.job_transaction_time = 5s');
$node->reload;
$node->safe_psql('postgres', q{SELECT llm_drop_job('many_rows'), llm_drop_job('one_row')});
ok(settled(), 'settled');

# writers at any isolation level, subtransactions, prepared transactions
$node->safe_psql('postgres', q{
	BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE docs SET body = 'serializable' WHERE id = 2; COMMIT;
	BEGIN; SAVEPOINT s; INSERT INTO docs VALUES (4, 'gone'); ROLLBACK TO s; INSERT INTO docs VALUES (5, 'stays'); COMMIT;
	BEGIN; INSERT INTO docs VALUES (6, 'prepared'); PREPARE TRANSACTION 'p'});
ok(settled(), 'settled');
is($node->safe_psql('postgres', q{SELECT string_agg(answer, ' ' ORDER BY id) FROM docs}), 'SERIALIZABLE BESIDE STAYS', 'what was committed');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
ok(until_sql($node, q{SELECT answer = 'PREPARED' FROM docs WHERE id = 6}), 'COMMIT PREPARED wakes the worker');

# notifications
my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN llm_job');
$node->safe_psql('postgres', q{UPDATE docs SET body = 'told' WHERE id = 6});
settled();
like($listener->query('SELECT 1'), qr/"llm_job" with payload .\{"job": "docs", "done": 1, "failed": 0\}/, 'a listener hears of it');
$listener->quit;

# an engine that crashes because of a row: the row is given up, the others are processed
$node->safe_psql('postgres', q{INSERT INTO docs SELECT i, 'row ' || i FROM generate_series(100, 160) i;
	INSERT INTO docs VALUES (200, '@crash'), (201, '@error:54000:too much')});
$node->safe_psql('postgres', q{SELECT llm_pause_job('docs')});
$node->safe_psql('postgres', q{UPDATE vllm.job SET max_attempts = 2});
my $engine = engine_pid($node);
$node->safe_psql('postgres', q{SELECT llm_resume_job('docs')});
ok(until_sql($node, q{SELECT count(*) = 61 FROM docs WHERE id BETWEEN 100 AND 160 AND answer = 'ROW ' || id}), 'rows beside one that crashes the engine');
ok(settled(), 'settled');
is($node->safe_psql('postgres', q{SELECT key, attempts, sqlstate FROM llm_job_failures ORDER BY key}), "{200}|2|58000\n{201}|1|54000", 'the rows that failed');
isnt(engine_pid($node), $engine, 'there was a crash');

# no engine: the queue grows, nothing is lost
$node->append_conf('postgresql.conf', "vllm.engine_path = '/nonexistent'");
$node->reload;
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = \'vllm_pg supervisor\'');
ok(until_sql($node, q{SELECT state = 'failed' FROM llm_stat_engine}), 'no engine');
$node->safe_psql('postgres', q{UPDATE docs SET body = 'later ' || id});
usleep(300_000);
is($node->safe_psql('postgres', q{SELECT state, queued + in_flight = (SELECT count(*) FROM docs) FROM llm_jobs}), 'active|t', 'the rows wait');
# the library is missing, too: triggers still record changes
$node->append_conf('postgresql.conf', "vllm.engine_path = ''\nshared_preload_libraries = ''");
$node->restart;
$node->safe_psql('postgres', q{INSERT INTO docs VALUES (300, 'without preload')});
is($node->safe_psql('postgres', q{SELECT count(*) FROM vllm.job_queue WHERE key = '{300}'}), '1', 'queued without preload');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'vllm_pg'");
$node->restart;
ok(settled(), 'worked off after the restart');
is($node->safe_psql('postgres', q{SELECT count(*) FROM docs WHERE answer IS DISTINCT FROM upper(body)}), '0', 'every row has its answer');

# dump and restore: the job, its triggers, its queue
$node->safe_psql('postgres', q{SELECT llm_pause_job('docs'); UPDATE docs SET body = 'dumped' WHERE id = 300;
	CREATE TABLE side (id int PRIMARY KEY, body text) PARTITION BY RANGE (id);
	CREATE TABLE side_part PARTITION OF side DEFAULT;
	INSERT INTO side VALUES (1, 'a b c');
	SELECT llm_create_embedding_job('side', 'body', target_table => 'chunks', chunking => 'tokens', chunk_size => 2, name => 'side')});
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM chunks');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
for my $sql ('SELECT * FROM vllm.job ORDER BY id', 'SELECT job, id, key FROM vllm.job_queue', 'SELECT job, key, sqlstate FROM vllm.job_failure ORDER BY 2',
	'SELECT tgrelid::regclass, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2')
{
	is($node->safe_psql('restored', $sql), $node->safe_psql('postgres', $sql), "restored: $sql");
}
$node->safe_psql('restored', q{SELECT llm_resume_job('docs'); UPDATE side SET body = 'other text' WHERE id = 1; INSERT INTO docs VALUES (400, 'after the restore')});
ok(settled('restored'), 'the jobs of the restored database run');
is($node->safe_psql('restored', q{SELECT count(*) FROM docs WHERE answer IS DISTINCT FROM upper(body)}), '0', 'every row has its answer');
is($node->safe_psql('restored', q{SELECT string_agg(chunk, '' ORDER BY chunk_seq) FROM chunks}), 'other text', 'and its chunks');

# a database with a busy worker can be dropped, and so can the extension
$node->safe_psql('restored', q{UPDATE docs SET body = '@delay:20000 ' || body});
ok(until_sql($node, q{SELECT count(*) > 0 FROM llm_requests}), 'the worker is busy');
# but only by users who may do it: statements that are refused don't terminate the worker
$node->safe_psql('postgres', 'CREATE ROLE plain; CREATE ROLE maker CREATEDB');
my $of_restored = q{SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker' AND datname = 'restored'};
my $pid = $node->safe_psql('postgres', $of_restored);
like($pid, qr/^\d+$/, 'the worker of a database');
for my $t ([ plain => 'DROP DATABASE restored', qr/must be owner/ ], [ plain => 'ALTER DATABASE restored RENAME TO mine', qr/must be owner/ ],
	[ plain => 'ALTER DATABASE restored SET TABLESPACE pg_default', qr/must be owner/ ], [ plain => 'CREATE DATABASE mine TEMPLATE restored', qr/permission denied/ ],
	[ maker => 'CREATE DATABASE mine TEMPLATE restored', qr/permission denied/ ], [ maker => 'DROP DATABASE IF EXISTS restored', qr/must be owner/ ])
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET ROLE $t->[0]; $t->[1]");
	like($err, $t->[2], "$t->[0]: $t->[1]");
}
usleep(500_000);
is($node->safe_psql('postgres', $of_restored), $pid, '... has stayed');
# after one that fails later, the worker comes back at once
my $failed_at = time;
like(($node->psql('postgres', 'BEGIN; DROP DATABASE restored'))[2], qr/cannot run inside a transaction block/, 'a DROP DATABASE that fails');
ok($node->poll_query_until('postgres', "SELECT coalesce(($of_restored), '$pid') <> '$pid'"), 'another worker comes');
cmp_ok(time - $failed_at, '<', 8, '... before those 10 s are over');
ok(until_sql($node, q{SELECT count(*) > 0 FROM llm_requests}), 'and is busy');
$node->safe_psql('postgres', 'DROP DATABASE restored');
ok(until_true(sub { left_behind($node) eq '0|0|0|0|0|0' }, 20), 'its requests are gone');
$node->safe_psql('postgres', q{SELECT llm_resume_job('docs'); UPDATE docs SET body = '@delay:20000 ' || body});
ok(until_sql($node, q{SELECT count(*) > 0 FROM llm_requests}), 'the worker is busy');
$node->safe_psql('postgres', 'SET client_min_messages = warning; DROP EXTENSION vllm_pg CASCADE');
is($node->safe_psql('postgres', q{UPDATE docs SET body = 'on its own'; SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal}), '0', 'no trigger is left');
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# jobs stop if there are to be no workers
$node->append_conf('postgresql.conf', 'vllm.job_workers = 0');
$node->reload;
$node->safe_psql('postgres', q{SELECT llm_create_completion_job('docs', '{body}', 'answer', name => 'again', backfill => 'all')});
ok(until_true(sub { $node->safe_psql('postgres', $worker) eq '' }, 20), 'no worker');
$node->append_conf('postgresql.conf', 'vllm.job_workers = 2');
$node->reload;
ok(settled(), 'and go on');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|vllm_pg job worker.*was terminated by signal/, 'no process has crashed');
$node->stop('fast');
done_testing();
