-- What is wrong with a job is said when it is made; what becomes wrong later stops it.
SET client_min_messages = warning;
CREATE FUNCTION settled(job name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s record;
BEGIN
    FOR i IN 1 .. 1500 LOOP
        SELECT state, queued + in_flight AS open, failed, backfill INTO s FROM llm_jobs WHERE name = job;
        EXIT WHEN s.state <> 'active' OR (s.open = 0 AND s.backfill = 'done');
        PERFORM pg_sleep(0.02);
    END LOOP;
    RETURN format('%s, %s open, %s failed', s.state, s.open, s.failed);
END $$;

-- ---- constants mean in the worker what they mean to the job's maker ----
CREATE TABLE days (id int PRIMARY KEY, day date, t timestamptz, answer text);
INSERT INTO days VALUES (1, '2024-02-01', '2024-02-03 12:00+00');
SET datestyle = 'German, DMY';
SET timezone = 'Asia/Tokyo';
SET intervalstyle = 'sql_standard';
SET extra_float_digits = -10;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT llm_create_completion_job('days', input => $$CASE WHEN day < '03.02.2024' THEN 'before ' ELSE 'after ' END
    || CASE WHEN t = '03.02.2024 21:00:00' THEN 'noon ' ELSE 'other ' END || (day + '-1 2:03:04'::interval - day::timestamp = '-26:03:04'::interval)
    || ' ' || ('0.30000000000000004'::float8 + id = 1.3) || ' a\\b' $$, target_column => 'answer', name => 'constants');
RESET ALL;
SET client_min_messages = warning;
SELECT settled('constants');
SELECT answer FROM days;
SELECT input FROM llm_jobs;
SELECT llm_drop_job('constants');

-- ---- row-level security that hides rows from their owner ----
CREATE ROLE regress_jobs_a;
GRANT CREATE ON SCHEMA public TO regress_jobs_a;
SET ROLE regress_jobs_a;
CREATE TABLE hidden (id int PRIMARY KEY, a text, b text);
INSERT INTO hidden VALUES (1, 'one');
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
SELECT llm_create_completion_job('hidden', '{a}', 'b', name => 'hidden');
SELECT settled('hidden');
SELECT b FROM hidden;
ALTER TABLE hidden FORCE ROW LEVEL SECURITY;
SELECT fails($$SELECT llm_create_completion_job('hidden', '{b}', 'a')$$);
RESET ROLE;
UPDATE hidden SET a = 'two';
SELECT settled('hidden');
SELECT last_error FROM llm_jobs;
ALTER TABLE hidden NO FORCE ROW LEVEL SECURITY;
SELECT llm_resume_job('hidden');
SELECT settled('hidden');
SELECT b FROM hidden;
-- an error is forgotten when the job works again
SELECT last_error IS NULL AS forgotten FROM llm_jobs;
SELECT llm_drop_job('hidden');
SET ROLE regress_jobs_a;
ALTER TABLE hidden DISABLE ROW LEVEL SECURITY;
CREATE TABLE hidden_side (id int, chunk_seq int, chunk text, embedding real[], tok_start int, tok_end int);
ALTER TABLE hidden_side ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT fails($$SELECT llm_create_embedding_job('hidden', 'a', target_table => 'hidden_side')$$);
RESET ROLE;
DROP OWNED BY regress_jobs_a;
DROP ROLE regress_jobs_a;

-- ---- reading an input runs code of its types: as the job's owner, whoever looks at the job ----
CREATE ROLE regress_jobs_a;
GRANT CREATE ON SCHEMA public TO regress_jobs_a;
SET ROLE regress_jobs_a;
CREATE TABLE spied (step text, who text, path text);
CREATE FUNCTION spy(v int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.spied VALUES (coalesce(current_setting('test.step', true), ''), current_user, current_setting('search_path'));
    RETURN true;
END $$;
CREATE DOMAIN spy AS int CHECK (public.spy(VALUE));
CREATE TABLE own (id int PRIMARY KEY, a text, b text);
SET test.step = 'made by the owner';
SELECT llm_create_completion_job('own', input => $$a || ('{1}'::spy[])::text$$, target_column => 'b', name => 'own');
RESET ROLE;
SELECT settled('own');
SET test.step = 'renamed by a superuser';
ALTER TABLE own RENAME COLUMN a TO aa;
SET test.step = 'another name, too';
ALTER TABLE own RENAME COLUMN b TO bb;
SET test.step = 'looked at';
SELECT input, target FROM llm_jobs;
SET test.step = 'altered by a superuser';
SELECT llm_alter_job('own', input => $$aa || ('{2,3}'::public.spy[])::text$$);
SET test.step = 'altered otherwise';
SELECT llm_alter_job('own', max_attempts => 3);
SET test.step = 'dropped';
SELECT llm_drop_job('own');
SET test.step = 'made by a superuser';
SELECT llm_create_completion_job('own', input => $$aa || ('{4}'::public.spy[])::text$$, target_column => 'bb', name => 'own', backfill => 'none');
RESET test.step;
INSERT INTO own VALUES (1, 'x');
SELECT settled('own');
SELECT bb FROM own;
SELECT step, who, min(path) AS path FROM spied WHERE step <> '' GROUP BY 1, 2 ORDER BY step COLLATE "C", who;
SELECT DISTINCT who FROM spied;
-- nor does a trigger that it would leave for the end of the superuser's transaction
SET ROLE regress_jobs_a;
CREATE TABLE bait (id int);
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.spied VALUES ('late', current_user); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON bait DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
CREATE OR REPLACE FUNCTION spy(v int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('test.step', true) = 'late' THEN INSERT INTO public.bait VALUES (1); END IF;
    RETURN true;
END $$;
RESET ROLE;
SELECT llm_pause_job('own');
SET test.step = 'late';
ALTER TABLE own RENAME COLUMN aa TO a;
SELECT fails($$SELECT llm_alter_job('own', input => 'a || (''{6}''::public.spy[])::text')$$);
RESET test.step;
SELECT who FROM spied WHERE step = 'late';
SELECT input FROM llm_jobs;
SELECT llm_alter_job('own', input => $$a || ('{6}'::public.spy[])::text$$);
-- the owner of the table has changed, and nobody has said so: then it is the new owner's, who looks at it first
CREATE ROLE regress_jobs_b;
UPDATE vllm.job SET owner = 'regress_jobs_b', state = 'active';
TRUNCATE spied;
SELECT llm_alter_job('own', input => $$a || ('{5}'::public.spy[])::text$$);
SELECT owner, state, last_error FROM llm_jobs;
SELECT llm_drop_job('own');
DROP OWNED BY regress_jobs_a, regress_jobs_b;
DROP ROLE regress_jobs_a, regress_jobs_b;

-- ---- settings that don't suit the model, the target or one another ----
CREATE TABLE texts (id int PRIMARY KEY, a text, e real[], g text GENERATED ALWAYS AS (upper(a)) STORED);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', dimensions => 100000)$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', dimensions => 0)$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', prompt_name => 'nope')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', options => '{"normalise": true}')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', options => '{"dimensions": 4}')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', options => '{"input": "x"}')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', options => '{"long_input": "shorten"}')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', chunking => 'tokens', chunk_size => 0)$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', chunking => 'tokens', chunk_size => -1)$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', chunking => 'tokens', chunk_size => 5, overlap => 5)$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', chunking => 'tokens', overlap => -1)$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', chunking => 'tokens', overlap => 100000)$$);
SELECT fails($$SELECT llm_create_completion_job('texts', '{a}', 'a', input => 'b')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'id, a', 'e')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'ctid')$$);
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a || ''1''::money', 'e')$$);
SELECT to_regclass('side');

-- ---- one job a target ----
SELECT llm_create_embedding_job('texts', 'a', 'e', name => 'first');
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', 'e', name => 'second')$$);
SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', name => 'third');
SELECT fails($$SELECT llm_create_embedding_job('texts', 'a', target_table => 'side', name => 'fourth')$$);
CREATE TABLE parts (id int PRIMARY KEY, a text, b text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
SELECT llm_create_completion_job('parts_1', '{a}', 'b', name => 'leaf');
SELECT fails($$SELECT llm_create_completion_job('parts', '{a}', 'b', name => 'root')$$);

-- ---- keys whose text depends on settings ----
CREATE TABLE prices (m money PRIMARY KEY, a text, b text);
SELECT fails($$SELECT llm_create_completion_job('prices', '{a}', 'b')$$);
CREATE DOMAIN relation AS regclass;
CREATE TABLE relations (id int, r relation[], a text, b text, PRIMARY KEY (id, r));
SELECT fails($$SELECT llm_create_completion_job('relations', '{a}', 'b')$$);
CREATE TABLE oids (id int PRIMARY KEY, a text, b text);
SELECT llm_create_completion_job('oids', '{a}', 'b', name => 'oids');
SELECT settled('oids');
ALTER TABLE oids ALTER id TYPE regclass USING id::oid::regclass;
INSERT INTO oids VALUES ('pg_class', 'a');
SELECT settled('oids');
SELECT last_error FROM llm_jobs WHERE name = 'oids';

-- ---- triggers that compute at once ----
CREATE TABLE small (id int PRIMARY KEY, a text, b text, g text GENERATED ALWAYS AS (upper(a)) STORED);
CREATE TRIGGER t BEFORE INSERT ON small FOR EACH ROW EXECUTE FUNCTION llm_generate_trigger('a', 'g');
SELECT fails($$INSERT INTO small VALUES (1, 'a')$$);
DROP TRIGGER t ON small;
CREATE TRIGGER t BEFORE INSERT ON small FOR EACH ROW EXECUTE FUNCTION llm_embed_trigger('g', 'b');
SELECT fails($$INSERT INTO small VALUES (1, 'a')$$);

SELECT llm_drop_job(name) FROM llm_jobs;
DROP TABLE days, texts, side, parts, prices, relations, oids, small;
DROP DOMAIN relation;
DROP FUNCTION settled(name);
SELECT left_behind();
