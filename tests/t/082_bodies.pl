# API bodies whose client leaves, an engine that crashes meanwhile, and batch files.
use strict;
use warnings;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VllmTest;

my $node = new_node('bodies', "vllm.max_queued_requests = 16\nlog_min_messages = fatal\n");
ok(until_ready($node), 'the engine becomes ready');

# ---- calls that end early ----

my @ends = (
	q{SET statement_timeout = 20; SELECT v1_completions('{"prompt": ["@hang", "b", "@hang"], "n": 2, "temperature": 1}')},
	q{SET statement_timeout = 20; SELECT v1_chat_completions('{"messages": [{"role": "user", "content": "@hang"}]}')},
	q{SELECT v1_completions_stream('{"prompt": ["@tokens:1000 @slow:20", "@tokens:1000 @slow:20"], "max_tokens": 1000}') LIMIT 2},
	q{SELECT v1_embeddings('{"input": ["a", "@hang b"]}') FROM generate_series(1, 20) LIMIT 0},
	q{SET statement_timeout = 20; SELECT v1_embeddings('{"input": ["a", "@hang b"]}')},
	q{SET statement_timeout = 20; SELECT * FROM llm_run_batch($$SELECT i, '/v1/completions', json_build_object('prompt', '@hang ' || i) FROM generate_series(1, 50) i$$)},
	q{BEGIN; DECLARE c CURSOR FOR SELECT v1_messages_stream('{"max_tokens": 100, "messages": [{"role": "user", "content": "@tokens:100 @slow:50"}]}');
FETCH 2 FROM c; CLOSE c; COMMIT},
	q{SELECT v1_completions('{"prompt": ["@hang", "@error:22023:x"]}')},
);
for my $round (1 .. 3)
{
	$node->psql('postgres', $_, on_error_stop => 0) for @ends;
}
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
is($node->safe_psql('postgres', "SELECT vllm.control('integrity')"), 'ok', "the engine's books are in order");

# ---- the engine crashes ----

my $old = engine_pid($node);
my $bg = bg($node, q{SELECT llm_api('/v1/completions', '{"prompt": ["@hang", "@hang"]}', 'return')}, q{SELECT 'alive'});
ok(until_sql($node, 'SELECT running + waiting = 2 FROM llm_stat_engine'), 'two requests of a body are running');
kill 9, $old;
my ($said, $err) = finish($bg);
like($err, qr/58000/, 'the call fails');
like($said, qr/alive/, 'the session lives on');
ok(until_ready($node, $old), 'the engine is back');
is($node->safe_psql('postgres', q{SELECT v1_completions('{"prompt": "a b"}')->'choices'->0->>'text'}), 'A B', 'and answers');

# ---- a batch of a table that is interrupted ----

$node->safe_psql('postgres', q{CREATE TABLE requests AS SELECT i AS custom_id, '/v1/completions' AS url, json_build_object('prompt', CASE WHEN i = 25 THEN '@hang' ELSE 'hi ' || i END) AS body
	FROM generate_series(1, 40) i; CREATE TABLE answers (custom_id text PRIMARY KEY, status_code int, response json, error json)});
$node->psql('postgres', "SET statement_timeout = '3s'; CALL llm_run_batch_table('requests', 'answers', 10)");
is($node->safe_psql('postgres', 'SELECT count(*), max(custom_id::int) FROM answers'), '20|20', 'what was committed before the timeout is there');
$node->safe_psql('postgres', q{UPDATE requests SET body = '{"prompt": "at last"}' WHERE custom_id = 25; CREATE TABLE before AS SELECT custom_id, response->>'id' AS id FROM answers});
$node->safe_psql('postgres', "CALL llm_run_batch_table('requests', 'answers', 10)");
is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE status_code = 200), max(response->'choices'->0->>'text') FILTER (WHERE custom_id = '25') FROM answers}), '40|40|AT LAST', 'the rest follows');
is($node->safe_psql('postgres', q{SELECT count(*) FROM answers a JOIN before b USING (custom_id) WHERE a.response->>'id' = b.id}), '20', 'and nothing is asked twice');

# ---- batch files ----

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my ($in, $out) = ("$dir/in.jsonl", "$dir/out.jsonl");
my $fh;
open($fh, '>', $in) or die;
print $fh encode_json({ custom_id => "c$_", method => 'POST', url => '/v1/completions', body => { prompt => "say \"$_\"\n" } }), "\n" for 1 .. 200;
print $fh "\n   \nnot json\n[1]\n\\.\n{\"custom_id\": \"\xff\"}\n";
print $fh encode_json({ custom_id => 'g', method => 'GET', url => '/v1/completions', body => { prompt => 'x' } }), "\n";
print $fh encode_json({ custom_id => 'c7', method => 'POST', url => '/v1/completions', body => { prompt => 'x' } }), "\n";
print $fh encode_json({ custom_id => 's', method => 'POST', url => '/v1/completions', body => { prompt => 'x', stream => JSON::PP::true } }), "\n";
print $fh encode_json({ custom_id => 'u', method => 'POST', url => '/v1/none', body => {} }), "\n";
print $fh encode_json({ custom_id => 'e', method => 'POST', url => '/v1/embeddings', body => { input => 'x' } }), "\n";
close($fh);
is($node->safe_psql('postgres', "SELECT total, succeeded, failed FROM llm_run_batch_file('$in', '$out')"), '209|201|8', 'lines are counted');
open($fh, '<', $out) or die;
my @lines = map { decode_json($_) } <$fh>;
close($fh);
is(scalar(@lines), 209, 'an answer for each line');
is(join(',', map { $_->{custom_id} // '-' } @lines), join(',', (map { "c$_" } 1 .. 200), '-', '-', '-', '-', 'g', 'c7', 's', 'u', 'e'), 'in the order of the lines');
is($lines[41]{response}{body}{choices}[0]{text}, 'SAY "42"', 'with its text');
is($lines[41]{error}, undef, 'without an error');
is(join(',', map { $_->{response}{status_code} } @lines[199 .. 208]), '200,400,400,400,400,400,400,400,404,200', 'and its status');
is($lines[202]{error}{message}, 'the line is not a JSON object', 'a backslash and a dot are a line like others');
is($lines[204]{error}{message}, 'method must be POST, got "GET"', 'so is a method');
like($lines[205]{error}{message}, qr/"c7" is used more than once/, 'an id that was there before is refused');
isnt($lines[0]{id}, $lines[1]{id}, 'ids differ');
# files are in UTF-8, whatever the client's encoding
open($fh, '>', "$dir/one.jsonl") or die;
print $fh qq({"custom_id": "1", "url": "/v1/completions", "body": {"prompt": "\xc3\xa9 \xe2\x82\xac"}}\r\n);
close($fh);
is($node->safe_psql('postgres', "SET client_encoding = latin1; SELECT succeeded FROM llm_run_batch_file('$dir/one.jsonl', '$out.1')"), '1', 'a client of another encoding');
like(slurp_file("$out.1"), qr/"text":"\xc3\xa9 \xe2\x82\xac"/, 'has the same answer');
like(slurp_file("$out.1"), qr/"prompt_tokens":6/, 'to the same prompt');
my ($rc, $stdout, $stderr) = $node->psql('postgres', "CREATE ROLE plain; SET ROLE plain; SELECT llm_run_batch_file('$in', '$out.2')");
like($stderr, qr/pg_read_server_files/, 'files are for who may read them');
ok(!-e "$out.2", 'and nothing is written');
($rc, $stdout, $stderr) = $node->psql('postgres', "GRANT pg_read_server_files TO plain; SET ROLE plain; SELECT llm_run_batch_file('$in', '$out.2')");
like($stderr, qr/pg_write_server_files/, 'or write them');
# an output file that can't be written is an error before the work, not in the middle of it
open($fh, '>', "$dir/hang.jsonl") or die;
print $fh encode_json({ custom_id => 1, url => '/v1/completions', body => { prompt => '@hang' } }), "\n";
close($fh);
for (["SET ROLE plain;", "$out.2", qr/pg_write_server_files/], ['', 'here.jsonl', qr/must be absolute/], ['', "$dir/none/out", qr/No such file/], ['', $dir, qr/is a directory/])
{
	($rc, $stdout, $stderr) = $node->psql('postgres', "SET statement_timeout = '20s'; $_->[0] SELECT llm_run_batch_file('$dir/hang.jsonl', '$_->[1]')");
	like($stderr, $_->[2], "output $_->[1]");
}
($rc, $stdout, $stderr) = $node->psql('postgres', "SELECT llm_run_batch_file('$dir/none', '$out.2')");
like($stderr, qr/No such file/, 'a file that is not there is an error');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname LIKE 'vllm_batch%'"), '0', 'no table is left');

# ---- a line that can't be parsed does not end a file ----

$node->safe_psql('postgres', "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
$node->safe_psql('latin', 'CREATE EXTENSION vllm_pg');
my $fine = '{"custom_id": "%s", "url": "/v1/completions", "body": {"prompt": "%s"}}' . "\n";
my @odd = ('[' x 50000, '[' x 50000 . ']' x 50000, '{"a":' x 50000, '{"custom_id": "deep", "url": "/v1/completions", "body": {"prompt": ' . '[' x 3000 . ']' x 3000 . '}}');
my @foreign = ('{"custom_id": "raw", "url": "/v1/completions", "body": {"prompt": "' . "\xe2\x82\xac" . '"}}', '{"custom_id": "escaped", "url": "/v1/completions", "body": {"prompt": "\\u20ac"}}');
open($fh, '>', "$dir/odd.jsonl") or die;
printf $fh $fine, 1, "\xc3\xa9";
print $fh "$_\n" for @odd, @foreign;
printf $fh $fine, 2, 'b';
close($fh);
for (['postgres', '8|4|4', '200,400,400,400,400,200,200,200'], ['latin', '8|2|6', '200,400,400,400,400,400,400,200'])
{
	my ($db, $counts, $statuses) = @$_;
	is($node->safe_psql($db, "SELECT total, succeeded, failed FROM llm_run_batch_file('$dir/odd.jsonl', '$out.$db')"), $counts, "lines that are odd: $db");
	open($fh, '<', "$out.$db") or die;
	@lines = map { decode_json($_) } <$fh>;
	close($fh);
	is(join(',', map { $_->{response}{status_code} } @lines), $statuses, "each is answered in $db");
	is($lines[0]{response}{body}{choices}[0]{text}, "\x{e9}", 'so are those before');
	is($lines[1]{error}{message}, 'the line is not a JSON object', 'that it can not be read');
}

# ---- operators of other users ----

$node->safe_psql('postgres', 'CREATE DATABASE hostile');
my $caught = q{AS $$BEGIN RAISE 'caught by %', current_user; END$$ LANGUAGE plpgsql};
$node->safe_psql('hostile', qq{
	CREATE EXTENSION vllm_pg;
	CREATE FUNCTION trap(json, json) RETURNS json $caught;
	CREATE FUNCTION trap_text(json, json) RETURNS text $caught;
	CREATE FUNCTION trap(regrole, regrole) RETURNS bool $caught;
	CREATE FUNCTION trap(regrole, oid) RETURNS bool $caught;
	CREATE OPERATOR -> (FUNCTION = trap, LEFTARG = json, RIGHTARG = json);
	CREATE OPERATOR ->> (FUNCTION = trap_text, LEFTARG = json, RIGHTARG = json);
	CREATE OPERATOR = (FUNCTION = trap, LEFTARG = regrole, RIGHTARG = regrole);
	CREATE OPERATOR = (FUNCTION = trap, LEFTARG = regrole, RIGHTARG = oid)});
is($node->safe_psql('hostile', "SELECT succeeded, failed FROM llm_run_batch_file('$dir/one.jsonl', '$out.3')"), '1|0', 'a file is read with the system\'s operators');
is($node->safe_psql('hostile', q{SELECT custom_id, status_code, error::text <> '' FROM llm_run_batch($$VALUES ('a', '/v1/completions', '{"prompt": "x"}'::json), ('b', '/v1/none', '{}')$$)}),
	"a|200|\nb|404|t", 'so is a batch');
is($node->safe_psql('hostile', q{SELECT v1_responses('{"input": "one"}') OPERATOR(pg_catalog.->>) 'id'::text AS id \gset
	SELECT llm_api('/v1/responses/' || :'id') OPERATOR(pg_catalog.->>) 'status'::text,
		v1_responses(json_build_object('input', 'two', 'previous_response_id', :'id')) OPERATOR(pg_catalog.->>) 'status'::text}),
	'completed|completed', 'and what is kept');

$node->stop;
done_testing();
