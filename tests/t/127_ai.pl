# The extension vllm_pg_ai, which has AlloyDB's names: who may make it, what it refuses, DROP EXTENSION, dump and
# restore.  tests/sql/46_ai.sql has what its functions do, tests/t/030_upgrade.pl attacks.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = new_node('ai');

# Run SQL in a database; as: a role.  Returns output and errors.
sub sql
{
	my ($db, $sql, $as) = @_;
	my ($rc, $out, $err) = $node->psql($db, $sql, on_error_stop => 1, extra_params => [ '-U', $as // 'postgres' ]);
	return $out . $err;
}

sub database
{
	my ($db, $sql) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, $sql);
}

# ---- who may make it ----

$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN; CREATE ROLE maker LOGIN; CREATE ROLE squatter LOGIN');
database('made', q{CREATE SCHEMA "Odd %s %I name"; CREATE EXTENSION vllm_pg SCHEMA "Odd %s %I name"; GRANT CREATE ON DATABASE made TO maker, squatter});
like(sql('made', 'CREATE EXTENSION vllm_pg_ai', 'plain'), qr/permission denied to create extension "vllm_pg_ai"/, 'who may not create in the database may not make it');
is(sql('made', 'CREATE EXTENSION vllm_pg_ai', 'maker'), '', 'who may create there may, whatever the schema of vllm_pg is called');
is(sql('made', q{SELECT ai.generate('hello there'), ai.if('x') IS NOT NULL}, 'plain'), 'USER: HELLO THERE ASSISTANT:|t', 'every role may call its functions');
like(sql('made', q{CREATE FUNCTION ai.if(text, text) RETURNS bool LANGUAGE sql RETURN true}, $_), qr/permission denied for schema ai/, "$_ may add no function")
  for 'plain', 'maker';
like(sql('made', 'ALTER SCHEMA ai RENAME TO mine', 'maker'), qr/must be owner of schema ai/, '... nor move the schema');
like(sql('made', 'ALTER EXTENSION vllm_pg_ai SET SCHEMA public'), qr/does not support SET SCHEMA/, 'it stays where it is');

# ---- what it refuses ----

database('taken', 'CREATE EXTENSION vllm_pg; GRANT CREATE ON DATABASE taken TO maker, squatter');
is(sql('taken', q{CREATE SCHEMA ai; CREATE FUNCTION ai.if(text, varchar) RETURNS bool LANGUAGE sql RETURN true}, 'squatter'), '', 'a schema ai of another role');
like(sql('taken', 'CREATE EXTENSION vllm_pg_ai', $_), qr/ERROR:  schema "ai" already exists.*HINT:/s, "... is refused to $_") for 'postgres', 'maker', 'squatter';
is(sql('taken', q{SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'ai'}), 'squatter', '... and stays theirs');
database('inside', 'CREATE SCHEMA ai; CREATE EXTENSION vllm_pg SCHEMA ai');
like(sql('inside', 'CREATE EXTENSION vllm_pg_ai'), qr/schema "ai" already exists/, 'so is one that has vllm_pg');
is(sql('inside', 'ALTER SCHEMA ai RENAME TO llm; CREATE EXTENSION vllm_pg_ai; SELECT ai.generate($$a$$)'), 'USER: A ASSISTANT:', '... until it has another name');
database('old', q{CREATE EXTENSION vllm_pg VERSION '0.9'});
like(sql('old', 'CREATE EXTENSION vllm_pg_ai'), qr/vllm_pg_ai needs vllm_pg 0\.10.*HINT:  ALTER EXTENSION vllm_pg UPDATE;/s, 'an older vllm_pg is refused');
is(sql('old', 'ALTER EXTENSION vllm_pg UPDATE; CREATE EXTENSION vllm_pg_ai; SELECT ai.generate($$a$$)'), 'USER: A ASSISTANT:', '... until it is updated');
database('absent', '');
like(sql('absent', 'CREATE EXTENSION vllm_pg_ai'), qr/required extension "vllm_pg" is not installed/, 'it needs vllm_pg');
is(sql('absent', 'SET client_min_messages = warning; CREATE EXTENSION vllm_pg_ai CASCADE; SELECT ai.generate($$a$$)'), 'USER: A ASSISTANT:', '... which CASCADE makes');

# ---- dump and restore ----

$node->safe_psql('made', q{CREATE TABLE reviews (id int, review text); INSERT INTO reviews VALUES (1, 'good'), (2, 'bad');
	CREATE VIEW answers AS SELECT id, ai.generate('Say ' || review) AS a, ai.if(review) AS b, ai.analyze_sentiment(prompts => ARRAY[review]) AS c FROM reviews;
	REVOKE EXECUTE ON FUNCTION ai.summarize(text, varchar) FROM PUBLIC; GRANT EXECUTE ON FUNCTION ai.summarize(text, varchar) TO maker});
my $answers = $node->safe_psql('made', 'SELECT * FROM answers ORDER BY id');
like($answers, qr/^1\|USER: SAY GOOD ASSISTANT:\|/, 'a view of its functions');
my $dump = $node->basedir . '/made.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('made') ], 'pg_dump');
unlike(slurp_file($dump), qr/CREATE SCHEMA ai|CREATE FUNCTION/, 'the dump leaves the schema and the functions to the extension');
database('restored', '');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-1', '-f', $dump, '-o', '/dev/null', '-d', $node->connstr('restored') ], 'restore in one transaction');
is($node->safe_psql('restored', 'SELECT * FROM answers ORDER BY id'), $answers, 'the view gives the same there');
is($node->safe_psql('restored', q{SELECT has_function_privilege('plain', 'ai.summarize(text, varchar)', 'EXECUTE'), has_function_privilege('maker', 'ai.summarize(text, varchar)', 'EXECUTE')}),
	'f|t', 'grants travel');

# ---- dropping ----

like(sql('made', 'DROP EXTENSION vllm_pg'), qr/extension vllm_pg_ai depends on extension vllm_pg/, 'DROP EXTENSION vllm_pg names what depends on it');
like(sql('made', 'DROP SCHEMA ai CASCADE'), qr/cannot drop schema ai because extension vllm_pg_ai requires it/, 'the schema cannot go alone');
is(sql('made', 'SET client_min_messages = warning; DROP EXTENSION vllm_pg CASCADE'), '', 'CASCADE takes both');
is(sql('made', q{SELECT string_agg(extname, ','), to_regnamespace('ai') IS NULL, to_regclass('answers') IS NULL FROM pg_extension}), 'plpgsql|t|t', '... and the schema');
is(sql('restored', 'SET client_min_messages = warning; DROP VIEW answers; DROP EXTENSION vllm_pg_ai; SELECT to_regnamespace($$ai$$) IS NULL; CREATE EXTENSION vllm_pg_ai', 'postgres'), 't',
	'it can be dropped alone, and made again');

$node->stop;
done_testing();
