# Outputs of SQL types: two models with random weights and vocabularies of their own write 44 values of each
# of 62 types at temperature 1.5.
#
# - every complete output (finish_reason stop) can be cast, in the real engine;
# - PostgreSQL's json_populate_record casts it, too, to the same value;
# - llm_generate_as and llm_extract in one statement, with outputs that are cut off as NULL.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $top = PostgreSQL::Test::Utils::tempdir_short();
my %dirs = (random => 'qwen3_f16', other => 'llama3_f32');
for my $name (keys %dirs)
{
	mkdir "$top/$name" or die;
	for my $f (glob getcwd() . "/fixtures/models/$dirs{$name}/*")
	{
		copy($f, "$top/$name") or die "$f: $!";
	}
}

my $node = PostgreSQL::Test::Cluster->new('types');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "fsync = off\nstatement_timeout = '180s'\nvllm.kv_cache_memory_bytes = '64MB'\n");
$node->start;
# settings that affect input and output functions must not matter
$node->safe_psql('postgres', qq{
	ALTER DATABASE postgres SET datestyle = 'SQL, DMY';
	ALTER DATABASE postgres SET intervalstyle = 'sql_standard';
	ALTER DATABASE postgres SET bytea_output = 'escape';
	ALTER DATABASE postgres SET timezone = 'Asia/Kathmandu';
	ALTER DATABASE postgres SET extra_float_digits = 0});
$node->safe_psql('postgres', qq{
	CREATE EXTENSION vllm_pg;
	SELECT llm_create_model('random', '$top/random'), llm_create_model('other', '$top/other');
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'very "happy"');
	CREATE DOMAIN pos AS int CHECK (VALUE > 0 AND VALUE < 100);
	CREATE DOMAIN tenths AS numeric(5, 1) CHECK (VALUE >= 0.25 AND VALUE < 100);
	CREATE DOMAIN below AS real CHECK (VALUE < 0.1 AND VALUE > -0.1);
	CREATE DOMAIN level AS int CHECK (VALUE IN (1, 2, 40));
	CREATE DOMAIN either AS bigint CHECK (VALUE < 0 OR VALUE BETWEEN 10 AND 20);
	CREATE DOMAIN code AS text CHECK (VALUE ~ '^[A-Z]{2}\\d{1,3}\$');
	CREATE DOMAIN seven AS code CHECK (VALUE LIKE '%7_' AND VALUE <> 'AB70');
	CREATE DOMAIN words AS varchar(12) CHECK (VALUE SIMILAR TO '(ab|cd)+[[:digit:][:space:]_.-]*');
	CREATE DOMAIN few AS pos[] CHECK (cardinality(VALUE) BETWEEN 1 AND 3);
	CREATE DOMAIN calm AS mood CHECK (VALUE <> 'sad');
	CREATE TYPE flat AS (a smallint, b varchar(5), c date, d code);
	CREATE TYPE deep AS (f flat, l few, m mood, w words);
	CREATE TABLE item (name varchar(8) NOT NULL, price numeric(6, 2), twice numeric GENERATED ALWAYS AS (price * 2) STORED, bits bit(5));
	CREATE DOMAIN or_null AS int CHECK (VALUE IS NULL OR VALUE BETWEEN 3 AND 40);
	CREATE DOMAIN born AS date CHECK (VALUE > '1899-12-31' AND VALUE <= '2026-11-20');
	CREATE DOMAIN flag AS char(1) CHECK (VALUE IN ('Y', 'N'));
	CREATE DOMAIN country AS char(2) CHECK (VALUE ~ '^[A-Z]{2}\$');
	CREATE DOMAIN row_ AS flat;
	CREATE DOMAIN codes AS code[] CHECK (array_length(VALUE, 1) <= 2);
	CREATE DOMAIN small AS numeric(3, 5);
	CREATE DOMAIN hundreds AS numeric(4, -2) CHECK (VALUE > -350);
	CREATE TYPE had AS (a int, gone text, b uuid);
	ALTER TYPE had DROP ATTRIBUTE gone;
	ALTER TYPE had ADD ATTRIBUTE c mood;
	ALTER TYPE mood ADD VALUE 'glad' BEFORE 'ok';
	ALTER TYPE mood RENAME VALUE 'sad' TO 'sorry';
	CREATE TYPE cut AS (a char(3), b varbit(4), c time(0), d timestamp(2), e interval day to second(1), f varchar(3)[]);
	CREATE TABLE types AS SELECT * FROM unnest(ARRAY['bool', 'smallint', 'int', 'bigint', 'oid', 'real', 'double precision', 'numeric',
		'text', 'name', '"char"', 'date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval', 'uuid', 'bytea', 'inet', 'cidr', 'macaddr',
		'macaddr8', 'bit varying', 'pg_lsn', 'json', 'jsonb', 'int[]', 'date[]', 'mood', 'mood[]', 'pos', 'tenths', 'below', 'level', 'either', 'code', 'seven',
		'words', 'few', 'calm', 'int4range', 'daterange', 'numrange', 'tstzrange', 'flat', 'deep', 'item', 'or_null',
		'row_', 'row_[]', 'codes', 'small', 'hundreds', 'had', 'cut', 'int8range', 'tsrange', 'born', 'born[]', 'flag', 'country']) typ;
	CREATE FUNCTION error_of(typ text, instance text) RETURNS text LANGUAGE plpgsql AS \$\$
	BEGIN
		EXECUTE format('SELECT vllm.from_json(\$1, NULL::%s)', typ) USING instance::json;
		RETURN NULL;
	EXCEPTION WHEN OTHERS THEN
		RETURN sqlstate || ' ' || sqlerrm;
	END \$\$;
	-- the value that PostgreSQL itself makes of it, beside ours
	CREATE FUNCTION differs(typ text, instance text) RETURNS text LANGUAGE plpgsql AS \$\$
	DECLARE ours text; theirs text;
	BEGIN
		EXECUTE format('SELECT vllm.from_json(\$1, NULL::%s)::text', typ) INTO ours USING instance::json;
		EXECUTE format('CREATE TYPE pg_temp.wrapped AS (v %s)', typ);
		EXECUTE 'SELECT (json_populate_record(NULL::pg_temp.wrapped, json_build_object(''v'', \$1))).v::text' INTO theirs USING instance::json;
		DROP TYPE pg_temp.wrapped;
		RETURN CASE WHEN ours IS DISTINCT FROM theirs THEN format('%s, not %s', ours, theirs) END;
	END \$\$});

my $types = $node->safe_psql('postgres', 'SELECT count(*) FROM types');
cmp_ok($types, '>=', 62, "$types types");

# ---- complete outputs, whatever the model writes ----

$node->safe_psql('postgres', q{
	CREATE TABLE answers AS SELECT typ, i, (r).text, (r).finish_reason
	FROM (SELECT typ, i, llm_generate_full('Write: ' || typ, max_tokens => 96, temperature => 1.5, seed => i, json_schema => llm_type_schema(typ::regtype),
		model => CASE WHEN i % 2 = 0 THEN 'random' ELSE 'other' END) r FROM types, generate_series(1, 44) i) s});
is($node->safe_psql('postgres', q{SELECT typ, i, text, error_of(typ, text) FROM answers WHERE finish_reason = 'stop' AND error_of(typ, text) IS NOT NULL}),
	'', 'every whole answer is a value');
is($node->safe_psql('postgres', q{SELECT typ, i, text FROM answers WHERE finish_reason = 'stop' AND NOT llm_grammar_accepts(llm_type_schema(typ::regtype), text)}),
	'', '... and an instance of its schema');
is($node->safe_psql('postgres', q{SELECT typ, i, text, differs(typ, text) FROM answers WHERE finish_reason = 'stop' AND typ NOT LIKE '%range' AND text <> 'null'
	AND i % 3 = 0 AND differs(typ, text) IS NOT NULL}), '', '... and PostgreSQL makes the same value of it');
my $whole = $node->safe_psql('postgres', q{SELECT count(*) FROM answers WHERE finish_reason = 'stop'});
my $all = $node->safe_psql('postgres', q{SELECT count(*) FROM answers});
cmp_ok($all, '>=', 2000, "$all answers");
cmp_ok($whole, '>=', $all / 2, "$whole of $all answers are whole");
is($node->safe_psql('postgres', q{SELECT count(*) FROM answers WHERE finish_reason NOT IN ('stop', 'length')}), '0', 'the others are cut off');
is($node->safe_psql('postgres', q{SELECT string_agg(typ, ' ') FROM (SELECT typ FROM types EXCEPT SELECT typ FROM answers WHERE finish_reason = 'stop') s}),
	'', 'every type has a whole answer');

# ---- values, many rows in one statement ----

$node->safe_psql('postgres', q{
	CREATE TABLE values_ AS SELECT i,
		llm_generate_as('n' || i, NULL::flat, max_tokens => 120, temperature => 1.5, seed => i, on_error => 'null', model => 'random') AS f,
		llm_generate_as('m' || i, NULL::mood, max_tokens => 40, temperature => 1.5, seed => i, model => 'random') AS m,
		llm_extract('text ' || i, NULL::level, max_tokens => 40, temperature => 1.5, seed => i, model => 'random') AS l
	FROM generate_series(1, 40) i});
is($node->safe_psql('postgres', q{SELECT count(m), count(*) FILTER (WHERE l IS NULL OR l IN (1, 2, 40)) FROM values_}), '40|40', 'values of an enum and of a domain');
is($node->safe_psql('postgres', q{SELECT count(*) FROM values_ WHERE (f).b IS NOT NULL AND length((f).b) > 5}), '0', 'values of a row type');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM values_ WHERE f IS DISTINCT FROM NULL}), '>', 0, '... some whole');
# the batch node and the function itself do the same
is($node->safe_psql('postgres', q{
	SET vllm.batch = off;
	SELECT count(*) FROM values_ WHERE llm_generate_as('m' || i, NULL::mood, max_tokens => 40, temperature => 1.5, seed => i, model => 'random') <> m}),
	'0', 'one by one the values are the same');

my ($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_generate_as('x', NULL::uuid, max_tokens => 2, temperature => 0, model => 'random')});
like($err, qr/JSON answer is cut off after 2 tokens/, 'a cut answer is an error');
like($err, qr/Raise max_tokens/, '... with a hint');

# ---- a database whose encoding lacks some characters ----

for my $e ([ 'LATIN1', 't|f|f' ], [ 'EUC_JP', 'f|f|f' ])
{
	my ($encoding, $want) = @$e;
	my $db = lc $encoding;

	$node->safe_psql('postgres', "CREATE DATABASE $db ENCODING '$encoding' LOCALE 'C' TEMPLATE template0");
	$node->safe_psql($db, 'CREATE EXTENSION vllm_pg');
	is($node->safe_psql($db, q{SELECT llm_grammar_accepts(llm_type_schema('text'), '"\u00e9"'), llm_grammar_accepts(llm_type_schema('text'), '"\u20ac"'),
		llm_grammar_accepts(llm_type_schema('text'), '"\u0000"')}), $want, "$encoding: characters of a text");
	is($node->safe_psql($db, qq{SELECT count(*), min(bad) FROM (SELECT j, (SELECT 1 WHERE vllm.from_json(j::json, NULL::jsonb) IS NULL) AS bad
		FROM generate_series(1, 255) c, LATERAL (SELECT format('["\\u%s"]', lpad(to_hex(c), 4, '0')) AS j) t
		WHERE llm_grammar_accepts(llm_type_schema('jsonb'), j)) s}), ($encoding eq 'LATIN1' ? 255 : 127) . '|', '... and all that are accepted are stored');
}

$node->stop;
done_testing();
