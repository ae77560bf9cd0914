# The worker, the engine and backends are killed at random points while rows change: at the end every row
# has the embedding of its present text, computed not much more often than needed, and nothing is stuck.
# JOBS_ROWS=10000 is the longer mode.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $rows = $ENV{JOBS_ROWS} // 2000;
my $seed = $ENV{VLLM_SEED} // 20240229;
srand($seed);
my $node = new_node('jobs_kill', "restart_after_crash = on\nautovacuum = off\nvllm.engine_args = '--fake --set fake_step_ms=5 --set fake_batch=16'\n");
$node->safe_psql('postgres', qq{
	CREATE TABLE docs (id int PRIMARY KEY, body text, touched int, e real[]);
	INSERT INTO docs SELECT i, 'text ' || i FROM generate_series(1, $rows) i;
	SELECT llm_create_embedding_job('docs', 'body', target_column => 'e', name => 'docs');
	SELECT llm_create_embedding_job('docs', 'body', target_table => 'chunks', chunking => 'tokens', chunk_size => 20, name => 'chunks');
});

# Run a statement that may meet a crash: its own errors don't matter, the server is running afterwards.
sub try_sql
{
	my ($sql) = @_;
	my $out = '';
	# a psql that can't connect does not read its input, so writing to it fails
	eval { $node->psql('postgres', $sql, stdout => \$out, stderr => \my $err, on_error_stop => 0) };
	return $out;
}

sub server_back
{
	return until_true(sub { try_sql('SELECT 1') eq '1' }, 60);
}

# A writer: changes in transactions of some rows, single rows, deletes and inserts.
sub writer
{
	my ($round, $me) = @_;
	my @sql;
	for my $i (1 .. 12)
	{
		my $id = 1 + int(rand($rows));
		my $to = $id + int(rand($rows / 100));
		my $text = "round $round writer $me change $i";
		push @sql, rand() < 0.2 ? "DELETE FROM docs WHERE id BETWEEN $id AND $id + 2"
			: rand() < 0.2 ? "INSERT INTO docs VALUES ($id, '$text') ON CONFLICT (id) DO UPDATE SET body = excluded.body"
			: rand() < 0.2 ? "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE docs SET body = '$text ' || id WHERE id BETWEEN $id AND $to; SELECT pg_sleep(0.02); COMMIT"
			: rand() < 0.2 ? "UPDATE docs SET touched = $i"
			: rand() < 0.2 ? "BEGIN; UPDATE docs SET body = '$text' WHERE id BETWEEN $id AND $to; ROLLBACK"
			: "UPDATE docs SET body = '$text ' || id WHERE id BETWEEN $id AND $to";
		push @sql, 'SELECT pg_sleep(0.01)';
	}
	return bg($node, @sql);
}

# A backend within a transaction that has changed rows.
sub in_transaction
{
	my ($writers) = @_;
	my $pid;
	push @$writers, bg($node, "BEGIN; UPDATE docs SET body = 'never' WHERE id <= 20; SELECT pg_sleep(30); COMMIT");
	until_true(sub { ($pid = try_sql(q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%never%'})) =~ /^\d+$/ }, 10);
	return $pid;
}

my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'};
my $longest = 0;
my %killed = (worker => 0, engine => 0, backend => 0);
my @plan = ('engine', 'worker', 'engine', 'backend', 'none', 'engine', 'worker', 'none');
my $per_round = 0;
for my $round (0 .. $#plan)
{
	my @w = map { writer($round, $_) } 1 .. 2;
	usleep(50_000 + int(rand(200_000)));
	for (1 .. 3)
	{
		my $age = try_sql(q{SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
			WHERE backend_type = 'vllm_pg job worker' AND backend_xmin IS NOT NULL});
		$longest = $age if $age =~ /^[\d.]+$/ && $age > $longest;
		usleep(20_000);
	}
	my $what = $plan[$round];
	my $pid = $what eq 'engine' ? try_sql('SELECT pid FROM llm_stat_engine')
		: $what eq 'worker' ? try_sql($worker)
		: $what eq 'backend' ? in_transaction(\@w)
		: '';
	if ($pid =~ /^\d+$/)
	{
		kill 9, $pid;
		$killed{$what}++;
	}
	finish($_) for @w;
	ok(server_back(), "round $round ($what): the server is there");
}
cmp_ok($killed{engine}, '>=', 2, 'the engine was killed');
cmp_ok($killed{worker}, '>=', 1, 'the worker was killed');
cmp_ok($killed{backend}, '>=', 1, 'a backend was killed');

# a job during which the worker was killed twice is failed
ok(until_true(sub { try_sql(q{SELECT llm_resume_job(name) FROM llm_jobs WHERE state = 'failed'; SELECT bool_and(queued + in_flight = 0 AND backfill = 'done') FROM llm_jobs}) =~ /t$/ }, 240), 'the queue becomes empty')
	or diag(try_sql('SELECT * FROM llm_jobs; SELECT * FROM vllm.job_queue LIMIT 10'));
is(try_sql('SELECT count(*) FROM llm_job_failures'), '0', 'no row was given up')
	or diag(try_sql('SELECT * FROM llm_job_failures LIMIT 10'));
is(try_sql('SELECT count(*) FROM docs WHERE e IS DISTINCT FROM llm_embed(body)'), '0', 'every row has the embedding of its text');
is(try_sql(q{SELECT count(*) FROM (SELECT id, chunk_seq, chunk, tok_start, tok_end FROM chunks EXCEPT SELECT d.id, c.* FROM docs d, llm_chunk_text(d.body, 'tokens', 20) c) x}),
	'0', 'every chunk is one of a row');
is(try_sql(q{SELECT count(*) FROM (SELECT d.id, c.* FROM docs d, llm_chunk_text(d.body, 'tokens', 20) c EXCEPT SELECT id, chunk_seq, chunk, tok_start, tok_end FROM chunks) x}),
	'0', 'every row has its chunks');
is(try_sql('SELECT count(*) FROM chunks WHERE embedding IS DISTINCT FROM llm_embed(chunk)'), '0', 'every chunk has its embedding');
# the rows, and at most all changes that the writers can have made
my $changes = $rows + @plan * 2 * 12 * ($rows / 100);
my $claimed = try_sql(q{SELECT max(claimed) FROM vllm.job_stat});
figure('%d rows, killed: engine %d, worker %d, backend %d; rows taken %d of at most %d changes', $rows, @killed{qw(engine worker backend)}, $claimed, $changes);
cmp_ok($claimed, '<=', 3 * $changes, 'computed at most a few times more than needed');
cmp_ok($longest, '<', 6, 'no transaction of the worker held up VACUUM');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
