-- Jobs that are altered, and jobs whose tables are.
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

-- the worker's time of day, so many hours from now
CREATE FUNCTION hours(n int) RETURNS text LANGUAGE sql AS $$
    SELECT to_char(clock_timestamp() AT TIME ZONE coalesce((SELECT setting FROM pg_file_settings WHERE lower(name) = 'timezone' AND applied), 'GMT')
        + n * interval '1 hour', 'HH24:MI') $$;

-- ---- llm_alter_job ----
CREATE TABLE texts (id int PRIMARY KEY, a text, b text, e real[]);
INSERT INTO texts SELECT i, 'one two three ' || i, 'b ' || i FROM generate_series(1, 20) i;
SELECT llm_create_embedding_job('texts', 'a', 'e', dimensions => 4, options => '{"long_input": "truncate"}', name => 'emb');
SELECT settled('emb');
SELECT llm_alter_job('emb', dimensions => 8, columns => '{a,b}');
SELECT settled('emb');
SELECT count(*) AS same FROM texts WHERE e = llm_embed(concat_ws(E'\n', a, b), dimensions => 8);
-- the new input's columns count
UPDATE texts SET b = 'new' WHERE id = 1;
SELECT settled('emb');
SELECT e = llm_embed(concat_ws(E'\n', a, b), dimensions => 8) AS same FROM texts WHERE id = 1;
-- null takes an option away; nothing is computed again if it is not wanted
SELECT llm_alter_job('emb', options => '{"dimensions": null, "long_input": null}', backfill => 'none');
SELECT settled('emb');
UPDATE texts SET b = 'newer' WHERE id = 1;
SELECT settled('emb');
SELECT cardinality(e), count(*) FROM texts GROUP BY 1 ORDER BY 1;
SELECT arguments FROM vllm.job;
-- how it is served
SELECT llm_alter_job('emb', priority => 5, batch_size => 3, schedule => '22:30-06:00', max_attempts => 2, enabled => false);
SELECT state, priority, batch_size, schedule, backfill FROM llm_jobs;
SELECT llm_alter_job('emb', batch_size => 0, schedule => '', enabled => true);
SELECT state, priority, batch_size, schedule FROM llm_jobs;
-- a schedule that is not now: rows wait
SELECT llm_alter_job('emb', schedule => hours(2) || '-' || hours(3));
UPDATE texts SET b = 'later' WHERE id = 2;
SELECT pg_sleep(0.5);
SELECT queued, state FROM llm_jobs;
SELECT llm_alter_job('emb', schedule => hours(-2) || '-' || hours(3));
SELECT settled('emb');
SELECT fails($$SELECT llm_alter_job('nope')$$);
SELECT fails($$SELECT llm_alter_job('emb', model => 'nope')$$);
SELECT fails($$SELECT llm_alter_job('emb', dimensions => 100000)$$);
SELECT fails($$SELECT llm_alter_job('emb', max_tokens => 5)$$);
SELECT fails($$SELECT llm_alter_job('emb', input => 'e::text')$$);
SELECT fails($$SELECT llm_alter_job('emb', chunking => 'tokens')$$);
SELECT fails($$SELECT llm_alter_job('emb', schedule => '22:00')$$);
SELECT fails($$SELECT llm_alter_job('emb', schedule => '25:00-03:00')$$);
SELECT fails($$SELECT llm_alter_job('emb', batch_size => -1)$$);
SELECT fails($$SELECT llm_alter_job('emb', backfill => 'some')$$);
SELECT fails($$SELECT llm_alter_job('emb', options => '{"nope": 1}')$$);
SELECT llm_create_embedding_job('texts', 'a', target_table => 'chunks', chunking => 'tokens', chunk_size => 2, name => 'side');
SELECT settled('side');
SELECT llm_alter_job('side', chunk_size => 3, overlap => 1);
SELECT settled('side');
SELECT count(*) AS differ FROM (SELECT t.id, c.* FROM texts t, llm_chunk_text(t.a, 'tokens', 3, 1) c EXCEPT SELECT id, chunk_seq, chunk, tok_start, tok_end FROM chunks) d;
SELECT llm_alter_job('side', chunking => 'none');
SELECT settled('side');
SELECT count(*), count(DISTINCT id) FROM chunks;

CREATE TABLE more (id int PRIMARY KEY, a text);
SELECT llm_create_embedding_job('more', 'a', target_table => 'more_chunks', name => 'more');
DROP TABLE more_chunks;
SELECT fails($$SELECT llm_alter_job('more', dimensions => 4)$$);
DROP TABLE more;

-- ---- names that change are followed ----
ALTER TABLE texts RENAME TO papers;
ALTER TABLE papers RENAME COLUMN a TO "a B";
ALTER TABLE papers RENAME COLUMN e TO embedding;
ALTER TABLE chunks RENAME TO pieces;
SELECT name, source, input, target FROM llm_jobs ORDER BY name;
UPDATE papers SET "a B" = 'renamed' WHERE id = 1;
SELECT settled('emb'), settled('side');
SELECT p.embedding = llm_embed(concat_ws(E'\n', "a B", b)) AS same, chunk FROM papers p JOIN pieces USING (id) WHERE id = 1;
ALTER TABLE papers RENAME COLUMN id TO no;
UPDATE papers SET "a B" = 'renamed again' WHERE no = 1;
SELECT settled('emb'), settled('side');
SELECT name, last_error FROM llm_jobs ORDER BY name;
ALTER TABLE pieces RENAME COLUMN id TO no;
SELECT llm_resume_job('side');
SELECT settled('side');
SELECT embedding = llm_embed(concat_ws(E'\n', "a B", b)) AS same FROM papers WHERE no = 1;
SELECT chunk FROM pieces WHERE no = 1;
SELECT llm_drop_job(name) FROM llm_jobs;
DROP TABLE papers, pieces;

-- the input is read as it was written, whatever the session that renames sees
CREATE TABLE shown (id int PRIMARY KEY, a text, b text, e real[], f real[]);
INSERT INTO shown VALUES (1, 'a', 'b');
CREATE FUNCTION concat(text, text, text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'another'$$;
SELECT llm_create_embedding_job('shown', template => '{a} and {b}', target_column => 'e', name => 'shown_1');
SELECT llm_create_embedding_job('shown', $$a || 'c:\temp'$$, 'f', name => 'shown_2');
SELECT settled('shown_1'), settled('shown_2');
SET standard_conforming_strings = off;
ALTER TABLE shown RENAME COLUMN a TO c;
RESET standard_conforming_strings;
SELECT input FROM llm_jobs ORDER BY name;
DROP FUNCTION concat(text, text, text);
DROP TABLE shown;

-- ---- a column's type is another ----
CREATE TABLE typed (id int PRIMARY KEY, a text, e real[]);
SELECT llm_create_embedding_job('typed', 'a', 'e', name => 'typed');
INSERT INTO typed VALUES (1, '1');
SELECT settled('typed');
ALTER TABLE typed ALTER COLUMN a TYPE bigint USING a::bigint;
UPDATE typed SET a = 123456789;
SELECT settled('typed');
SELECT e = llm_embed('123456789') AS same FROM typed;
DROP TABLE typed;

-- ---- partitions are altered with what they are part of ----
CREATE TABLE parts (id int PRIMARY KEY, a text, e real[]) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
SELECT llm_create_embedding_job('parts_1', 'a', 'e', name => 'part');
ALTER TABLE parts RENAME COLUMN a TO body;
ALTER TABLE parts RENAME COLUMN e TO embedding;
-- a job on a partition sees what is written to the partition itself
INSERT INTO parts_1 VALUES (1, 'text');
SELECT settled('part');
SELECT embedding = llm_embed(body) AS same FROM parts;
SELECT llm_drop_job('part');
-- triggers are made for new partitions alone: what a dump has of them comes later than other statements
SELECT llm_create_embedding_job('parts', 'body', 'embedding', name => 'parts', backfill => 'none');
DO $$BEGIN EXECUTE (SELECT format('DROP TRIGGER vllm_job_%s_insert ON parts_1', id) FROM vllm.job); END $$;
ALTER TABLE parts ALTER COLUMN body SET STATISTICS 10;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'parts_1'::regclass AND tgname LIKE 'vllm%insert';
DROP TABLE parts;

-- ---- partitions that go take their chunks along ----
CREATE TABLE parts (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (20) TO (30);
INSERT INTO parts SELECT i, 'text ' || i FROM generate_series(1, 29) i;
SELECT llm_create_embedding_job('parts', 'a', target_table => 'chunks', name => 'parts');
SELECT settled('parts');
SELECT count(*) FROM chunks;
DROP TABLE parts_1;
SELECT settled('parts');
SELECT min(id), count(*) FROM chunks;
ALTER TABLE parts DETACH PARTITION parts_2;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'parts_2'::regclass AND NOT tgisinternal;
SELECT settled('parts');
SELECT min(id), count(*) FROM chunks;
SELECT llm_drop_job('parts');
DROP TABLE parts, parts_2, chunks;

-- ---- a new owner ----
CREATE ROLE regress_jobs_a;
CREATE ROLE regress_jobs_b;
GRANT CREATE ON SCHEMA public TO regress_jobs_a, regress_jobs_b;
SET ROLE regress_jobs_a;
CREATE TABLE mine (id int PRIMARY KEY, a text, b text, who text);
CREATE FUNCTION who() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.who := current_user; RETURN new; END $$;
CREATE TRIGGER who BEFORE UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION who();
SELECT llm_create_completion_job('mine', '{a}', 'b', name => 'mine');
INSERT INTO mine VALUES (1, 'text');
SELECT settled('mine');
RESET ROLE;
REASSIGN OWNED BY regress_jobs_a TO regress_jobs_b;
DROP OWNED BY regress_jobs_a;
DROP ROLE regress_jobs_a;
SELECT owner, state, last_error FROM llm_jobs;
SET ROLE regress_jobs_b;
INSERT INTO mine VALUES (2, 'text');
SELECT llm_pause_job('mine'), llm_resume_job('mine');
SELECT settled('mine');
SELECT id, b, who FROM mine ORDER BY id;
RESET ROLE;
ALTER TABLE mine OWNER TO CURRENT_USER;
SELECT owner = current_user::regrole AS mine, state FROM llm_jobs;
SELECT llm_drop_job('mine');
DROP TABLE mine;
-- the code of an owner's types is his when somebody else makes or alters the job
CREATE TABLE users (who text);
GRANT INSERT ON users TO regress_jobs_b;
SET ROLE regress_jobs_b;
CREATE FUNCTION spy(real[]) RETURNS bool LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.users VALUES (current_user); RETURN true; END $$;
CREATE DOMAIN spied AS real[] CHECK (spy(VALUE));
CREATE TABLE his (id int PRIMARY KEY, a text, e spied);
RESET ROLE;
SELECT llm_create_embedding_job('his', 'a', 'e', name => 'his');
SELECT llm_alter_job('his', dimensions => 8);
SELECT DISTINCT who FROM users;
DROP TABLE users;
DROP OWNED BY regress_jobs_b;
DROP ROLE regress_jobs_b;
DROP FUNCTION settled(name), hours(int);
SELECT left_behind();
