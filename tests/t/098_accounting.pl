# Each request is counted once, and ends once, wherever one looks: in the engine's figures, the model's, the role's.
# Whatever becomes of it: refused, past its time, cancelled, left behind by its session.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Exposition;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('accounting');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 30\nvllm.kv_cache_memory_bytes = '16MB'\ncompute_query_id = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
sub sql { return $node->safe_psql('postgres', shift); }
sql("SELECT llm_load_model('tickets-2m')");

# what is told of requests, by all who tell it
sub figures
{
	my $m = read_exposition(sql('SELECT llm_metrics_text()') . "\n");
	my %f = (
		(map { ("end_$_" => sample($m, 'vllm:request_success_total', model_name => 'tickets-2m', finished_reason => $_)) } qw(stop length repetition abort error)),
		come => sample($m, 'vllm_pg:requests_total', model_name => 'tickets-2m'),
		longest => sample($m, 'vllm:request_max_num_generation_tokens_sum', model_name => 'tickets-2m'),
		engine => sql('SELECT requests || \' \' || finished || \' \' || failed || \' \' || cancelled FROM llm_stat_engine'),
		role => sql(q{SELECT concat_ws(' ', sum(requests), sum(errors), sum(cancelled)) FROM llm_stat_role}) || '0 0 0',
		tokens => sql('SELECT coalesce(sum(output_tokens), 0) FROM llm_stat_role'));
	$f{ended} = $f{end_stop} + $f{end_length} + $f{end_repetition} + $f{end_abort} + $f{end_error};
	return \%f;
}

sub less { my ($a, $b) = map { [ split / / ] } @_; return join(' ', map { $a->[$_] - $b->[$_] } 0 .. $#$a); }

# what a statement adds: requests of the engine (come, finished, failed, cancelled), of the model (come, ended, of these aborted and failed),
# of the role (requests, errors, cancelled)
sub adds
{
	my ($statement, $engine, $model, $role, $what) = @_;
	my $before = figures();
	my $after;
	$node->psql('postgres', $statement, on_error_stop => 0);
	my $is;
	until_true(sub {
			$after = figures();
			$is = join(' / ', less($after->{engine}, $before->{engine}),
				join(' ', map { $after->{$_} - $before->{$_} } qw(come ended end_abort end_error)), less($after->{role}, $before->{role}));
			return $is eq "$engine / $model / $role"; });
	is($is, "$engine / $model / $role", $what);
	return ($before, $after);
}

adds("SELECT llm_generate('one', max_tokens => 3, ignore_eos => true)", '1 1 0 0', '1 1 0 0', '1 0 0', 'an answer');
adds("SELECT llm_generate(repeat('word ', 5000), max_tokens => 2)", '1 0 1 0', '1 1 0 1', '1 1 0', 'a prompt that is too long');
adds("SELECT llm_generate('')", '1 0 1 0', '0 0 0 0', '1 1 0', 'a prompt that no model sees');
adds(q{SELECT llm_api('/v1/completions', '{"model": "tickets-2m", "prompt": "x", "max_tokens": -5}')}, '1 0 1 0', '0 0 0 0', '1 1 0', 'a body that no model sees');
adds(q{SELECT llm_api('/v1/completions', '{"model": "tickets-2m", "prompt": "x", "n": 2, "temperature": 0}')}, '1 0 1 0', '1 1 0 1', '1 1 0', 'a body that a model refuses');

# past its time, whoever notices it first, with its tokens
my $tokens = 0;
for (1 .. 6)
{
	my ($before, $after) = adds("SELECT llm_generate('long', max_tokens => 1500, ignore_eos => true, timeout_ms => 40)", '1 0 0 1', '1 1 1 0', '1 0 1', "past its time is cancelled ($_)");
	$tokens++ if $after->{tokens} > $before->{tokens};
}
is($tokens, 6, '... with the tokens that it got');
adds("SET statement_timeout = 60; SELECT llm_generate('long', max_tokens => 1500, ignore_eos => true)", '1 0 0 1', '1 1 1 0', '1 0 1', 'so is that of a statement');
adds("BEGIN; DECLARE c CURSOR FOR SELECT llm_generate_stream('long', max_tokens => 1500, ignore_eos => true); FETCH 2 FROM c; CLOSE c", '1 0 0 1', '1 1 1 0', '1 0 1', 'a cursor that is closed');

# what a session leaves behind
adds("SELECT llm_submit('long', max_tokens => 1500, ignore_eos => true)", '1 0 0 1', '1 1 1 0', '1 0 1', 'a future that nobody fetches');

# a search for the best answers: the longest of them, not all
my ($before, $after) = adds("SELECT count(*) FROM llm_beam_search('beam it', beam_width => 3, max_tokens => 4, ignore_eos => true)", '1 1 0 0', '1 1 0 0', '1 0 0', 'a search');
is($after->{longest} - $before->{longest}, 4, '... of answers of four tokens');

# a request belongs to the session's statement, however deep it is sent: EXECUTE's is the one that was prepared
sql(q{CREATE FUNCTION loops(n int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE r record; c int := 0;
	BEGIN
		FOR r IN SELECT llm_generate('l' || g, max_tokens => 1) FROM generate_series(1, n) g LOOP c := c + 1; END LOOP;
		RETURN c;
	END $$});
sql('SELECT llm_stat_reset()');
$node->psql('postgres', 'PREPARE p(text) AS SELECT loops($1::int); EXECUTE p(3); EXECUTE p(2); EXECUTE p(\'none\'); SELECT loops(1)', on_error_stop => 0);
sql('SELECT loops(1)');
is(sql("SELECT string_agg(calls || ' ' || requests, ', ' ORDER BY requests) FROM llm_stat_query"), '2 2, 2 5', 'a prepared statement is one query, and what follows its error another');
sql('PREPARE p(text) AS SELECT loops($1::int); EXECUTE p(1)');
is(sql("SELECT string_agg(calls || ' ' || requests, ', ' ORDER BY requests) FROM llm_stat_query"), '2 2, 3 6', '... in each session');

# a profile's file is left alone if there is no profile
my $file = sql('SHOW data_directory') . '/there.json';
append_to_file($file, 'already');
is($node->psql('postgres', "SELECT llm_stop_profile('$file')"), 3, 'no profile');
is(slurp_file($file), 'already', '... and what the file had is there');
sql("SELECT llm_start_profile()");
sql("SELECT llm_stop_profile('$file')");
like(slurp_file($file), qr/^\{"displayTimeUnit".*\}\s*$/s, '... until there is one');

is(sql('SELECT slots_total - slots_free FROM llm_stat_engine'), 0, 'all slots are free');
$node->stop;
done_testing();
