# Objects of others that have the names of pgvector's and of ours, or their own casts: none of their code
# runs with the rights of a user who calls the extension's functions, installs or updates it.  pgvector need
# not be installed: an extension without files replaces it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = new_node('foreign');
$node->safe_psql('postgres', 'CREATE ROLE mal LOGIN');

# Run SQL in a database; as: a role.  Returns output, then errors.
sub sql
{
	my ($db, $sql, $as) = @_;
	my ($rc, $out, $err) = $node->psql($db, $sql, on_error_stop => 0, extra_params => [ '-U', $as // 'postgres' ]);
	return wantarray ? ($out, $err) : $out;
}

# Has mal still no more rights?  If it has, take them away again.
sub harmless
{
	my ($what) = @_;
	is(sql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mal'; ALTER ROLE mal NOSUPERUSER}), 'f', "$what: no rights were won");
}

# A database of mal's with an extension "vector" in public, whose types are base types with pgvector's
# operators.
sub make_database
{
	my ($db) = @_;
	sql('postgres', "CREATE DATABASE $db OWNER mal");
	$node->safe_psql($db, q{CREATE EXTENSION vllm_pg; SET allow_system_table_mods = on;
		INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) VALUES (16000, 'vector', 10, 'public'::regnamespace, true, '0.8');
		DO $do$ DECLARE t name; lib text := (SELECT probin FROM pg_proc WHERE oid = 'llm_version'::regproc); BEGIN
		FOREACH t IN ARRAY '{vector,halfvec}'::name[] LOOP
			EXECUTE replace($$CREATE TYPE public.#;
			CREATE FUNCTION public.#_in(cstring, oid, int) RETURNS public.# LANGUAGE internal IMMUTABLE STRICT AS 'array_in';
			CREATE FUNCTION public.#_out(public.#) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'array_out';
			CREATE TYPE public.# (INPUT = public.#_in, OUTPUT = public.#_out, ELEMENT = float4, SUBSCRIPT = raw_array_subscript_handler, ALIGNMENT = int4, STORAGE = extended);
			CREATE FUNCTION public.array_to_#(real[], int, bool) RETURNS public.# LANGUAGE internal IMMUTABLE STRICT AS 'varchar';
			CREATE CAST (real[] AS public.#) WITH FUNCTION public.array_to_#(real[], int, bool) AS ASSIGNMENT;
			CREATE FUNCTION public.cosine_distance(public.#, public.#) RETURNS float8 LANGUAGE c IMMUTABLE STRICT AS '$$ || lib || $$', 'llm_cosine_distance';
			CREATE OPERATOR public.<=> (LEFTARG = public.#, RIGHTARG = public.#, FUNCTION = public.cosine_distance);
			ALTER EXTENSION vector ADD TYPE public.#; ALTER EXTENSION vector ADD FUNCTION public.#_in(cstring, oid, int); ALTER EXTENSION vector ADD FUNCTION public.#_out(public.#);
			ALTER EXTENSION vector ADD FUNCTION public.array_to_#(real[], int, bool); ALTER EXTENSION vector ADD CAST (real[] AS public.#);
			ALTER EXTENSION vector ADD FUNCTION public.cosine_distance(public.#, public.#); ALTER EXTENSION vector ADD OPERATOR public.<=> (public.#, public.#)$$, '#', t);
		END LOOP; END $do$});
}

# The function that every trap calls.
my $boom = q{CREATE FUNCTION s.boom(w text) RETURNS void LANGUAGE plpgsql AS $$BEGIN
	IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user) THEN EXECUTE 'ALTER ROLE mal SUPERUSER'; END IF; END$$;};

# ---- names of schemas that could break out of a format string ----

my $trap = q{ALTER SCHEMA public RENAME TO ".f()returns int return 1;call y.p();create function"; CREATE SCHEMA x; CREATE SCHEMA y;
	CREATE PROCEDURE y.p() LANGUAGE plpgsql AS 'BEGIN DROP FUNCTION x.f(); ALTER ROLE mal SUPERUSER; END';};
my $helpers = q{SELECT string_agg(p.oid::regprocedure::text, ' ' ORDER BY proname) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass WHERE extname = 'vllm_pg_vector'};
my $both = '"x%Iy".llm_embed_halfvec(text,integer,boolean,text,text,integer,text,text,json,integer,text,text) "x%Iy".llm_embed_vector(text,integer,boolean,text,text,integer,text,text,json,integer,text,text)';
make_database('made');
my ($out, $err) = sql('made', $trap . 'CREATE SCHEMA "x%Iy"; CREATE EXTENSION vllm_pg_vector SCHEMA "x%Iy"', 'mal');
is($err, '', 'the extension is made in a schema with a % in its name');
harmless('CREATE EXTENSION vllm_pg_vector');
is(sql('made', $helpers), $both, 'its functions are there');
make_database('updated');
($out, $err) = sql('updated', q{CREATE SCHEMA s1; SET search_path = s1, public; CREATE EXTENSION vllm_pg_vector SCHEMA s1 VERSION '0.5'; RESET search_path;
	CREATE SCHEMA views; CREATE VIEW views.helped AS SELECT s1.llm_embed_vector(t, 4) AS v FROM (VALUES ('a text')) a (t);
	ALTER SCHEMA s1 RENAME TO "x%Iy";} . $trap . 'ALTER EXTENSION vllm_pg_vector UPDATE', 'mal');
is($err, '', 'and updated there');
harmless('ALTER EXTENSION vllm_pg_vector UPDATE');
is(sql('updated', $helpers), $both, 'its functions are there');
is(sql('updated', q{SELECT pg_get_viewdef('views.helped') ~ 'llm_embed_vector'}), 't', '... and views of them');
my $defs = q{SELECT string_agg(regexp_replace(pg_get_functiondef(p.oid), 'CREATE OR REPLACE FUNCTION [^(]*', ''), ' ' ORDER BY proname) FROM pg_proc p WHERE proname IN ('llm_embed_vector', 'llm_embed_halfvec')};
is(sql('updated', $defs), sql('made', $defs), '... as a fresh install makes them');

# ---- types, casts and operators with pgvector's names ----

make_database('near');
sql('near', 'CREATE SCHEMA s AUTHORIZATION mal');
is(sql('near', $boom . q{
	CREATE TYPE s.vector AS (x real[]);
	CREATE FUNCTION s.tov(real[]) RETURNS s.vector LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM s.boom('cast'); RETURN row($1)::s.vector; END$$;
	CREATE CAST (real[] AS s.vector) WITH FUNCTION s.tov(real[]);
	CREATE FUNCTION s.dist(s.vector, s.vector) RETURNS float8 LANGUAGE plpgsql AS $$BEGIN PERFORM s.boom('operator'); RETURN 0; END$$;
	CREATE OPERATOR s.<=> (LEFTARG = s.vector, RIGHTARG = s.vector, FUNCTION = s.dist);
	CREATE TABLE s.docs (id int PRIMARY KEY, v s.vector); INSERT INTO s.docs VALUES (1, row('{1,2}')::s.vector)}, 'mal'), '', 'mal has a type called vector');
for my $call (q{llm_nearest('{1,2}'::real[], 's.docs'::regclass, 'v')}, q{llm_nearest_rows(NULL::s.docs, '{1,2}'::real[], 'v')})
{
	($out, $err) = sql('near', "\\set VERBOSITY verbose\nSELECT * FROM $call");
	like($err, qr/42804: column "v" is of type s.vector, not real\[\]/, 'which is not pgvector\'s');
	harmless($call);
}
# the extension's owner may make it a member
sql('near', q{SET allow_system_table_mods = on; UPDATE pg_extension SET extowner = 'mal'::regrole WHERE extname = 'vector'});
is((sql('near', 'ALTER EXTENSION vector ADD TYPE s.vector; ALTER EXTENSION vector ADD FUNCTION s.tov(real[]); ALTER EXTENSION vector ADD FUNCTION s.dist(s.vector, s.vector)', 'mal'))[1],
	'', 'mal owns the extension');
($out, $err) = sql('near', q{SELECT * FROM llm_nearest('{1,2}'::real[], 's.docs'::regclass, 'v')});
like($err, qr/column "v" is of type s.vector, not real\[\]/, 'still not');
harmless('a member of the extension');
# pgvector's own
$node->safe_psql('near', q{CREATE DOMAIN s.d AS public.halfvec;
	CREATE TABLE own (id int, v public.vector, h s.d); INSERT INTO own SELECT i, x::public.vector, x::public.halfvec FROM (VALUES (1, '{1,0}'::real[]), (2, '{0,1}'), (3, '{1,1}')) AS a (i, x)});
is(sql('near', q{SELECT string_agg(id || ':' || round(distance::numeric, 2), ' ' ORDER BY distance) FROM llm_nearest('{1,0}'::real[], 'own', 'v', 2) n JOIN own ON own.ctid = n.row_id}),
	'1:0.00 3:0.29', 'a column of pgvector\'s type is searched');
is(sql('near', q{SELECT string_agg(id::text, ' ') FROM llm_nearest_rows(NULL::own, '{0,1}'::real[], 'h', 2)}), '2 3', 'and one of a domain over it');
($out, $err) = sql('near', q{SELECT * FROM llm_nearest('{1,0}'::real[], 'own', 'v', metric => 'l2')});
like($err, qr/extension "vector" of this database has no operator <-> for type public.vector/, 'an operator that is missing is not looked for elsewhere');

# ---- a schema that replaces the extension's ----

sql('postgres', 'CREATE DATABASE moved OWNER mal');
$node->safe_psql('moved', q{CREATE EXTENSION vllm_pg; CREATE TABLE t (id int, v real[]); INSERT INTO t VALUES (1, llm_embed('one')), (2, llm_embed('two'))});
is((sql('moved', q{ALTER SCHEMA public RENAME TO ext; CREATE SCHEMA public; CREATE SCHEMA s;} . $boom . q{
	CREATE FUNCTION public.llm_embed(text, int, bool, text, text, int, text, text, vllm.json, int, text) RETURNS real[] LANGUAGE plpgsql AS $$BEGIN PERFORM s.boom('embed'); RETURN NULL; END$$;
	ALTER DATABASE moved SET search_path = ext, public}, 'mal'))[1], '', 'mal has moved the extension');
is(sql('moved', q{SELECT id FROM llm_nearest_rows(NULL::ext.t, 'two'::text, 'v'::name, k => 1)}), '2', 'llm_nearest_rows() of a text finds what it needs');
is(sql('moved', q{SELECT count(*) FROM llm_nearest('two'::text, 'ext.t', 'v'::name, k => 1)}), '1', 'as does llm_nearest()');
harmless('a schema that takes the extension\'s place');

# ---- a schema vllm with tables of our names, without the extension ----

my $columns = $node->safe_psql('postgres', q{SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute
	WHERE attrelid = 'vllm.job'::regclass AND attnum > 0 AND NOT attisdropped});
sql('postgres', 'CREATE DATABASE faked OWNER mal');
is((sql('faked', "CREATE SCHEMA s; CREATE SCHEMA vllm; CREATE TABLE vllm.job ($columns, PRIMARY KEY (id), UNIQUE (name));" . $boom . q{
	CREATE FUNCTION s.ok(v text) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM s.boom('domain'); RETURN true; END$$;
	CREATE DOMAIN s.d AS text CHECK (s.ok(VALUE));
	CREATE TABLE s.t (id int PRIMARY KEY, a text, v real[]);
	CREATE TABLE vllm.job_stat (job int);
	CREATE TABLE vllm.job_queue (job int, id bigint, worker int, lease_until timestamptz);
	INSERT INTO vllm.job (id, name, kind, owner, source, key_columns, input_columns, input, target_column, model, function, arguments, chunking, max_attempts, priority, state, created)
	VALUES (1, 'j', 'embedding', 'postgres', 's.t', '{id}', '{a}', 'src.a || ''x''::s.d', 'v', '', 'llm_embed', '', 'none', 1, 0, 'active', now());
	CREATE FUNCTION s.fired() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM s.boom('trigger'); RETURN NULL; END$$;
	CREATE TRIGGER t AFTER UPDATE ON vllm.job_queue FOR EACH STATEMENT EXECUTE FUNCTION s.fired()}, 'mal'))[1], '', 'mal has a schema vllm');
is(sql('faked', 'ALTER TABLE s.t RENAME a TO b; SELECT input_columns FROM vllm.job', 'mal'), '{a}', 'a rename does not take them for ours');
sql('postgres', "DROP DATABASE $_") for 'made', 'updated', 'near', 'moved';
$node->restart;
ok(until_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'faked' AND backend_type = 'vllm_pg job worker' AND state = 'idle'}), 'a job worker looks at the database');
until_true(sub { sql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mal'}) eq 't' }, 1);
harmless('a job worker');

# ---- casts of others' types ----

sql('postgres', q{CREATE DATABASE casts});
$node->safe_psql('casts', 'CREATE EXTENSION vllm_pg; CREATE SCHEMA s AUTHORIZATION mal; CREATE ROLE reader; GRANT reader TO postgres');
is((sql('casts', $boom . q{
	CREATE TYPE s.pair AS (a int);
	CREATE TYPE s.mood AS ENUM ('sad', 'glad');
	CREATE FUNCTION s.pair_text(s.pair) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM s.boom('pair'); RETURN 'cast'; END$$;
	CREATE CAST (s.pair AS text) WITH FUNCTION s.pair_text(s.pair) AS IMPLICIT;
	CREATE FUNCTION s.mood_json(s.mood) RETURNS json LANGUAGE plpgsql AS $$BEGIN PERFORM s.boom('mood'); RETURN '"cast"'; END$$;
	CREATE CAST (s.mood AS json) WITH FUNCTION s.mood_json(s.mood);
	CREATE DOMAIN s.moods AS s.mood[];
	CREATE TYPE s.both AS (m s.mood, list s.mood[], n int);
	CREATE TABLE s.q (custom_id s.pair, url text, body json); INSERT INTO s.q VALUES (row(1), '/v1/completions', '{"model":"tickets-2m","prompt":"x"}');
	CREATE TABLE s.docs (id int PRIMARY KEY, body text, gone int, m s.mood, l s.moods, b s.both, bs s.both[], p s.pair, nothing s.mood);
	ALTER TABLE s.docs DROP gone;
	INSERT INTO s.docs VALUES (1, 'one', 'glad', '{sad,NULL,glad}', '(sad,"{glad}",7)', '{"(glad,,8)"}', '(5)');
	GRANT USAGE ON SCHEMA s TO PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA s TO PUBLIC}, 'mal'))[1], '', 'mal has casts');
($out, $err) = sql('casts', q{SELECT count(*) FROM llm_generate_query('SELECT custom_id FROM s.q', 'custom_id')});
like($err, qr/column "custom_id" is of type s.pair, which belongs to another role.*HINT:  If you trust that role, cast it in the query: custom_id::text/s, 'a prompt is not cast');
($out, $err) = sql('casts', q{SELECT * FROM llm_run_batch('s.q'::regclass)});
like($err, qr/column "custom_id" is of type s.pair, which belongs to another role/, 'nor an id');
($out, $err) = sql('casts', q{SELECT * FROM llm_run_batch('SELECT ''1'', url, m FROM s.q, s.docs')});
like($err, qr/column "m" is of type s.mood, which belongs to another role/, 'nor a body');
sql('casts', q{CREATE TABLE answers (custom_id s.pair, status_code int, response json, error json); CREATE TABLE asked (custom_id text, url text, body json);
	INSERT INTO asked VALUES ('1', '/v1/completions', '{"model":"tickets-2m","prompt":"x"}')});
($out, $err) = sql('casts', q{CALL llm_run_batch_table('asked', 'answers')});
like($err, qr/column "custom_id" is of type s.pair, which belongs to another role/, 'nor one of answers');
sql('casts', q{ALTER TABLE asked DROP url; CREATE FUNCTION url(asked) RETURNS text LANGUAGE sql AS 'SELECT s.boom($$url$$)::text'; ALTER FUNCTION url(asked) OWNER TO mal;
	ALTER TABLE answers ALTER custom_id TYPE text USING NULL});
($out, $err) = sql('casts', q{CALL llm_run_batch_table('asked', 'answers')});
like($err, qr/column "url" of relation "asked" does not exist/, 'nor is a function taken for a column');
my $row = '{"id":1,"body":"one","m":"glad","l":["sad",null,"glad"],"b":{"m":"sad","list":["glad"],"n":7},"bs":[{"m":"glad","list":null,"n":8}],"p":{"a":5},"nothing":null}';
is(sql('casts', q{SELECT "row" FROM llm_generate_query('TABLE s.docs', 'body')}), $row, 'a row as json, without casts');
is(sql('casts', q{SELECT "row" FROM llm_generate_query('SELECT body, (m, 1) AS r, ARRAY[(l, b)] AS rs FROM s.docs', 'body')}),
	'{"body":"one","r":{"f1":"glad","f2":1},"rs":[{"f1":["sad",null,"glad"],"f2":{"m":"sad","list":["glad"],"n":7}}]}', 'also within records');
sql('casts', 'CREATE FUNCTION docs() RETURNS SETOF s.docs LANGUAGE sql AS $$TABLE s.docs$$; CREATE FUNCTION moods() RETURNS s.moods LANGUAGE sql AS $$SELECT l FROM s.docs$$');
my %rows = (docs => "[$row]", moods => '["sad",null,"glad"]');
is(sql('casts', qq{SELECT llm_call_tool('{"id": "c", "function": {"name": "$_", "arguments": "{}"}}', '{$_()}') ->> 'content'}), $rows{$_}, "what a tool returns: $_") for sort keys %rows;
harmless('casts');
like(sql('casts', q{SELECT "row" FROM llm_generate_query('SELECT body, m, l FROM s.docs', 'body')}, 'mal'), qr/"m":"cast","l":\["cast",null,"cast"\]/, 'the owner\'s casts work for the owner');
is(sql('casts', q{SELECT count(*) FROM llm_run_batch('s.q'::regclass)}, 'mal'), '1', '... in a batch, too');

# ---- a session's futures, and code of others that runs in it ----

is((sql('casts', q{CREATE TABLE s.loot (what text);
	CREATE FUNCTION s.grab(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN s.grab2(t); END$$;
	CREATE FUNCTION s.grab2(t text) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; BEGIN
		FOR r IN SELECT f.id, public.llm_result(f.id) a FROM public.llm_futures f LOOP INSERT INTO s.loot VALUES (session_user || ' ' || r.a); END LOOP;
		IF t = 'x2' AND current_setting('mal.id', true) <> '' THEN
			INSERT INTO s.loot VALUES (public.llm_discard(current_setting('mal.id')::bigint)::text);
			BEGIN PERFORM public.llm_poll(current_setting('mal.id')::bigint); EXCEPTION WHEN undefined_object THEN INSERT INTO s.loot VALUES (SQLSTATE); END;
		END IF;
		RETURN t; END$$;
	CREATE TABLE s.bait (id int, t text); CREATE INDEX ON s.bait (s.grab(t)); INSERT INTO s.bait SELECT i, 'x' || i FROM generate_series(1, 3) i}, 'mal'))[1], '', 'mal has a table');
is(sql('casts', q{SELECT llm_submit('top secret') AS id, set_config('mal.id', 'none', false) IS NULL
\gset
SELECT set_config('mal.id', :'id', false) IS NULL; SELECT pg_sleep(0.3); TRUNCATE s.loot; ANALYZE s.bait; SELECT llm_result(:id)}), "f\n\nTOP SECRET", 'a superuser\'s future is there after ANALYZE');
is(sql('casts', 'SELECT DISTINCT what FROM s.loot ORDER BY 1'), "42704\nfalse", 'the table\'s owner has not seen it');

$node->stop('fast');
done_testing();
