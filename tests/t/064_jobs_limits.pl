# The resources of a job: memory, plans of its statements without statistics, and time, also if code of the
# owner catches the cancel.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VllmTest;

my $node = new_node('jobs_limits', "autovacuum = off\nvllm.job_memory = '2MB'\n");
ok(until_ready($node), 'the engine becomes ready');
my $idle = q{SELECT coalesce(bool_and(state <> 'active' OR (queued + in_flight = 0 AND backfill = 'done')), true) FROM llm_jobs};

# the maximal private memory of the worker, in MB, until the jobs have settled
sub peak
{
	my $peak = 0;
	for (1 .. 6000)
	{
		my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'});
		for (1 .. 20)
		{
			my $status = $pid && -r "/proc/$pid/status" ? slurp_file("/proc/$pid/status") : '';
			$peak = $1 / 1024 if $status =~ /RssAnon:\s+(\d+) kB/ && $1 / 1024 > $peak;
			usleep(2000);
		}
		return $peak if $node->safe_psql('postgres', $idle) eq 't';
	}
	return -1;
}

# inputs of 2 MB: one at a time, whether or not the model accepts them
$node->safe_psql('postgres', q{CREATE TABLE big (id int PRIMARY KEY, body text, e real[]);
	INSERT INTO big SELECT i, repeat('x', 2000000) FROM generate_series(1, 60) i;
	INSERT INTO big SELECT i, 'small ' || i FROM generate_series(61, 500) i;
	SELECT llm_create_embedding_job('big', 'body', target_column => 'e', name => 'big')});
my $mb = peak();
figure('%.0f MB at most with inputs of 2 MB', $mb);
cmp_ok($mb, '>', 0, 'the memory was seen');
cmp_ok($mb, '<', 60, 'memory is bounded by bytes');
is($node->safe_psql('postgres', q{SELECT count(*) FROM big WHERE length(body) < 100 AND e IS DISTINCT FROM llm_embed(body)}), '0', 'small rows beside big ones');
is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE e IS NOT NULL) + (SELECT count(*) FROM llm_job_failures) FROM big WHERE id <= 60}), '60',
	'each big row is answered or refused');
$node->safe_psql('postgres', q{SELECT llm_drop_job('big')});

# chunks of long texts
$node->safe_psql('postgres', q{DELETE FROM big WHERE id <= 60; UPDATE big SET body = repeat('word and word ', 15000) WHERE id <= 90;
	SELECT llm_create_embedding_job('big', 'body', target_table => 'chunks', chunking => 'tokens', chunk_size => 2000, name => 'chunks')});
cmp_ok(peak(), '<', 60, 'so are chunks');
is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT id) FROM chunks WHERE embedding IS NOT DISTINCT FROM llm_embed(chunk)}),
	$node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT id) FROM big, llm_chunk_text(body, 'tokens', 2000)}), 'all of them are there');
$node->safe_psql('postgres', q{SELECT llm_drop_job('chunks')});

# errors of any length, one for each row
$node->safe_psql('postgres', q{CREATE TABLE loud (id int PRIMARY KEY, body text, b text);
	CREATE FUNCTION shouts(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN RAISE EXCEPTION USING errcode = '22000', message = repeat('é', 3000000), detail = repeat('d', 3000000); END $$;
	INSERT INTO loud SELECT i, 'text' FROM generate_series(1, 60) i;
	SELECT llm_create_completion_job('loud', input => 'shouts(body)', target_column => 'b', name => 'loud')});
$mb = peak();
figure('%.0f MB at most with errors of 9 MB', $mb);
cmp_ok($mb, '<', 100, 'so are errors');
is($node->safe_psql('postgres', q{SELECT count(*), min(length(message)), max(length(message)) FROM llm_job_failures WHERE name = 'loud'}), '60|1024|1024', 'their beginnings are kept');
$node->safe_psql('postgres', q{SELECT llm_drop_job('loud')});

# texts of jobs, which the worker keeps all in memory
my $long = q{input => format('body || %L', repeat('x', 1100000))};
like(error_of($node, "SELECT llm_create_completion_job('loud', $long, target_column => 'b')"), qr/54000: +input and options of job "\w+" are too long/, 'a long input');
$node->safe_psql('postgres', q{SELECT llm_create_completion_job('loud', '{body}', target_column => 'b', name => 'quiet', backfill => 'none')});
like(error_of($node, "SELECT llm_alter_job('quiet', $long)"), qr/54000: /, '... is not taken later either');
$node->safe_psql('postgres', q{SELECT llm_drop_job('quiet')});
# for any number of jobs
$node->safe_psql('postgres', q{
	CREATE ROLE wordy LOGIN;
	CREATE ROLE heir;
	SELECT llm_grant(name, 'public') FROM llm_models;
	CREATE TABLE wide (id int PRIMARY KEY, body text);
	ALTER TABLE wide OWNER TO wordy});
$node->safe_psql('postgres', "ALTER TABLE wide ADD COLUMN c$_ text") for 1 .. 18;
sub wordy
{
	my ($i) = @_;
	return sprintf q{SELECT llm_create_completion_job('wide', input => format('body || %%L', repeat('x', 1000000)), target_column => 'c%d', name => 'wide%d', backfill => 'none')}, $i, $i;
}
my $open = bg_as($node, 'wordy', 'BEGIN', wordy(1), 'SELECT pg_sleep(1)', 'COMMIT');
$node->safe_psql('postgres', wordy($_), extra_params => [ '-U', 'wordy' ]) for 2 .. 15;
finish($open);
my @two = map { bg_as($node, 'wordy', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1', 'SELECT pg_sleep(0.5)', wordy($_), 'SELECT pg_sleep(0.5)', 'COMMIT') } 16, 17;
my $refused = qr/54000: +inputs and options of the jobs of role "wordy" are too long/;
is(scalar(grep { (finish($_))[1] =~ $refused } @two), 1, 'the seventeenth long one of an owner is refused, of two at once, too');
is($node->safe_psql('postgres', q{SELECT count(*) FROM llm_jobs WHERE name LIKE 'wide%'}), 16, '... and sixteen are not');
$node->safe_psql('postgres', q{ALTER TABLE wide OWNER TO heir; SELECT llm_resume_job(name) FROM llm_jobs WHERE name LIKE 'wide%'});
$node->safe_psql('postgres', q{
	CREATE TABLE wider (id int PRIMARY KEY, body text, c text);
	ALTER TABLE wider OWNER TO wordy});
$node->safe_psql('postgres', wordy(18) =~ s/'wide'/'wider'/r =~ s/'c18'/'c'/r, extra_params => [ '-U', 'wordy' ]);
$node->safe_psql('postgres', 'ALTER TABLE wider OWNER TO heir');
like(error_of($node, q{SELECT llm_resume_job('wide18')}), qr/54000: .*"heir"/, '... as is one that comes to an owner');
like(error_of($node, q{SELECT llm_alter_job('wide18', enabled => true)}), qr/54000: .*"heir"/, '... by llm_alter_job(), too');
$node->safe_psql('postgres', q{SELECT llm_drop_job(name) FROM llm_jobs WHERE name LIKE 'wide%'});

# no statistics: the queue is read by its index all the same
$node->safe_psql('postgres', q{CREATE TABLE many (id int PRIMARY KEY, body text, e real[]);
	SELECT llm_create_embedding_job('many', 'body', target_column => 'e', name => 'many', backfill => 'none');
	SELECT llm_pause_job('many');
	INSERT INTO many SELECT i, 'text ' || i FROM generate_series(1, 5000) i;
	SELECT pg_stat_reset()});
$node->safe_psql('postgres', q{SELECT llm_resume_job('many')});
# the view counts the queue, so the worker's own counter is used
ok(until_sql($node, q{SELECT sum(done) = 5000 FROM vllm.job_stat}), 'all rows are done');
# the worker reports its statistics at most once a second
usleep(1_100_000);
$node->safe_psql('postgres', q{INSERT INTO many VALUES (0, 'the last')});
until_sql($node, q{SELECT sum(done) = 5001 FROM vllm.job_stat});
my $read = q{SELECT (SELECT seq_tup_read FROM pg_stat_all_tables WHERE relid = 'REL'::regclass) + (SELECT sum(idx_tup_read) FROM pg_stat_all_indexes WHERE relid = 'REL'::regclass)};
for my $rel ('vllm.job_queue', 'many')
{
	(my $sql = $read) =~ s/REL/$rel/g;
	my $n = $node->safe_psql('postgres', $sql);
	figure('%s: %d rows read for 5000 jobs', $rel, $n);
	cmp_ok($n, '<', 20 * 5000, "$rel is read by its index");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM many WHERE e IS NULL'), '0', 'all have an embedding');
$node->safe_psql('postgres', q{SELECT llm_drop_job('many')});

# code that catches the cancel, once or always
$node->append_conf('postgresql.conf', 'vllm.job_transaction_time = 500ms');
$node->reload;
$node->safe_psql('postgres', q{
	CREATE FUNCTION once(t text) RETURNS text STABLE LANGUAGE plpgsql AS $$BEGIN
		IF t = 'slow' THEN
			BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
			PERFORM pg_sleep(60);
		END IF;
		RETURN t;
	END $$;
	CREATE FUNCTION forever(t text) RETURNS text STABLE LANGUAGE plpgsql AS $$BEGIN
		WHILE t = 'slow' LOOP
			BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
		END LOOP;
		RETURN t;
	END $$;
	CREATE TABLE a (id int PRIMARY KEY, body text, b text);
	CREATE TABLE b (id int PRIMARY KEY, body text, b text);
	CREATE TABLE c (id int PRIMARY KEY, body text, b text);
	SELECT llm_create_completion_job('a', input => 'public.once(body)', target_column => 'b', name => 'once', max_attempts => 2);
	SELECT llm_create_completion_job('b', input => 'public.forever(body)', target_column => 'b', name => 'forever');
	SELECT llm_create_completion_job('c', '{body}', target_column => 'b', name => 'beside');
	INSERT INTO a VALUES (1, 'slow'), (2, 'quick');
	INSERT INTO b VALUES (1, 'slow'), (2, 'quick')});
ok(until_sql($node, q{SELECT count(*) = 1 FROM llm_job_failures WHERE name = 'once' AND key = '{1}' AND sqlstate = '57014'}), 'a row whose code catches the cancel once');
ok(until_sql($node, q{SELECT b = 'QUICK' FROM a WHERE id = 2}), 'the row beside it');
ok(until_sql($node, q{SELECT state = 'failed' FROM llm_jobs WHERE name = 'forever'}), 'a job whose code catches it for ever stops');
like($node->safe_psql('postgres', q{SELECT last_error FROM llm_jobs WHERE name = 'forever'}), qr/^57014: .*went on/, 'and says so');
$node->safe_psql('postgres', q{INSERT INTO c VALUES (1, 'beside')});
ok(until_sql($node, q{SELECT b = 'BESIDE' FROM c}), 'another job goes on');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
