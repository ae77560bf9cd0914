-- Jobs: columns and side tables that keep themselves up to date.
SET client_min_messages = warning;
-- what the job has to do is done: nothing is queued, in hand, or to be back-filled
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

-- ---- a column, by a template ----
CREATE TABLE docs (id int PRIMARY KEY, title text, body text, answer text, other int);
INSERT INTO docs (id, title, body) SELECT i, 'title ' || i, 'body ' || i FROM generate_series(1, 300) i;
SELECT llm_create_completion_job('docs', 'Say {title}: {{{body}}}', 'answer', max_tokens => 20, max_attempts => 2);
SELECT settled('docs_completion');
SELECT count(*), count(*) FILTER (WHERE answer = format('SAY TITLE %s: {BODY %1$s}', id)) AS right FROM docs;
SELECT kind, source, target, model, owner = current_user::regrole AS mine, state, queued, in_flight, failed, done, lag, rate > 0 AS rate, backfill, backfill_rows,
    last_error FROM llm_jobs;
-- only changes of an input column queue a row; what the job writes does not
CREATE FUNCTION queued() RETURNS TABLE (key text[]) LANGUAGE sql AS 'SELECT key FROM vllm.job_queue ORDER BY id';
SELECT llm_pause_job('docs_completion');
UPDATE docs SET other = 1, answer = 'by hand' WHERE id <= 100;
UPDATE docs SET title = title, body = 'body ' || id;
SELECT count(*) FROM queued();
UPDATE docs SET title = 'new' WHERE id IN (1, 2);
UPDATE docs SET title = 'newer' WHERE id = 1;
UPDATE docs SET body = NULL, title = NULL WHERE id = 3;
UPDATE docs SET id = 1004 WHERE id = 4;
DELETE FROM docs WHERE id = 5;
INSERT INTO docs (id, title) VALUES (1000, 'inserted');
COPY docs (id, title) FROM STDIN;
1001	copied
1002	\N
\.
SELECT * FROM queued();
SELECT state, queued FROM llm_jobs;
-- a row that waits since it failed is queued anew, once, when it changes
UPDATE vllm.job_queue SET attempts = 1, due = now() + '1 hour' WHERE key = '{2}';
UPDATE docs SET title = 'newest' WHERE id = 2;
UPDATE docs SET title = 'new' WHERE id = 2;
SELECT key, attempts, due IS NULL AS at_once FROM vllm.job_queue WHERE key = '{2}' ORDER BY id;
DELETE FROM vllm.job_queue WHERE attempts = 1;
SELECT llm_resume_job('docs_completion');
SELECT settled('docs_completion');
SELECT id, title, body, answer FROM docs WHERE id IN (1, 2, 3, 6) OR id >= 1000 ORDER BY id;

-- ---- rows that fail don't hold up the others; the input's fault is final at once ----
INSERT INTO docs (id, title) VALUES (2000, '@error:54000:too much'), (2001, 'fine'), (2002, '@error:XX000:now and then');
SELECT settled('docs_completion') IS NOT NULL AS waited;
SELECT key, attempts, sqlstate, message FROM llm_job_failures ORDER BY key;
SELECT id, answer FROM docs WHERE id >= 2000 ORDER BY id;
UPDATE docs SET title = 'mended' WHERE id = 2000;
SELECT settled('docs_completion');
SELECT id, answer FROM docs WHERE id = 2000;
SELECT key, attempts, sqlstate FROM llm_job_failures ORDER BY key;
SELECT llm_retry_job('docs_completion', '{nope}'), llm_retry_job('docs_completion', '{2002}'), (SELECT count(*) FROM llm_job_failures);
DELETE FROM docs WHERE id = 2002;
SELECT settled('docs_completion');
SELECT count(*) FROM llm_job_failures;
SELECT llm_drop_job('docs_completion');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass;

-- ---- a composite key, an expression, the writer's own settings ----
CREATE TABLE days (day date, place text, t timestamptz, note text, answer varchar(5), PRIMARY KEY (place, day));
INSERT INTO days VALUES ('2024-02-03', 'x "y", {z}', '2024-02-03 12:00+00', 'a', NULL), ('1999-12-31', '', 'infinity', 'b', NULL);
SELECT llm_create_completion_job('days', input => 'note || ''.'' --', target_column => 'answer', name => 'expr');
SELECT settled('expr');
SET datestyle = 'German';
SET timezone = 'Asia/Tokyo';
UPDATE days SET note = note || note;
RESET datestyle;
RESET timezone;
SELECT settled('expr');
SELECT day, place, note, answer FROM days ORDER BY 1;
-- an answer that the column can't take is final
UPDATE days SET note = 'much too long' WHERE day = '1999-12-31';
SELECT settled('expr');
SELECT key, sqlstate, message FROM llm_job_failures;
-- ---- jobs that can't be ----
SELECT fails($$SELECT llm_create_completion_job('days', input => 'note', target_column => 'answer', name => 'expr')$$);
SELECT fails($$SELECT llm_create_completion_job('days', input => 'answer || note', target_column => 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{answer}', 'note')$$);
SELECT fails($$SELECT llm_create_completion_job('days', input => 'note || random()', target_column => 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', input => 'note) FROM days WHERE (true', target_column => 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', input => '(SELECT max(note) FROM days d WHERE d.place = place)', target_column => 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', input => 'max(note)', target_column => 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', input => 'days::text', target_column => 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', 'no column', 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note', 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{none}', 'answer')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}', 'place')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}', 'none')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}', 'answer', model => 'nope')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}', 'answer', max_tokens => 0)$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}', 'answer', options => '{"tempo": 1}')$$);
SELECT fails($$SELECT llm_create_completion_job('days', '{note}', 'answer', backfill => 'some')$$);
CREATE TABLE no_key (a text, b text);
SELECT fails($$SELECT llm_create_completion_job('no_key', '{a}', 'b')$$);
CREATE TEMP TABLE temporary (id int PRIMARY KEY, a text, b text);
SELECT fails($$SELECT llm_create_completion_job('temporary', '{a}', 'b')$$);
CREATE TABLE parent (id int PRIMARY KEY, a text, b text);
CREATE TABLE child () INHERITS (parent);
SELECT fails($$SELECT llm_create_completion_job('parent', '{a}', 'b')$$);
SELECT fails($$SELECT llm_create_embedding_job('days', 'note', 't')$$);
SELECT fails($$SELECT llm_create_embedding_job('days', 'note', chunking => 'tokens', target_column => 't')$$);
SELECT fails($$SELECT llm_create_embedding_job('days', 'note', target_table => 'side', chunking => 'words')$$);
SELECT fails($$SELECT llm_create_embedding_job('days', 'note', target_table => 'side', chunk_size => 5)$$);
SELECT fails($$SELECT llm_pause_job('nope')$$);
SELECT llm_drop_job('expr');

-- ---- embeddings in a column: as llm_embed() itself says ----
CREATE TABLE texts (id bigint PRIMARY KEY, a text, b text, e real[]);
INSERT INTO texts VALUES (1, 'one', 'two', NULL), (2, 'three', NULL, NULL), (3, NULL, NULL, NULL), (4, 'kept', NULL, '{1}');
SELECT llm_create_embedding_job('texts', columns => '{a,b}', target_column => 'e', dimensions => 4, name => 'emb');
SELECT settled('emb');
SELECT id, e = llm_embed(nullif(concat_ws(E'\n', a, b), ''), dimensions => 4) AS same, cardinality(e) FROM texts ORDER BY id;
SELECT llm_backfill_job('emb');
SELECT settled('emb');
SELECT id, e = llm_embed(nullif(concat_ws(E'\n', a, b), ''), dimensions => 4) AS same FROM texts ORDER BY id;
-- ---- chunks in a side table ----
SELECT llm_create_embedding_job('texts', 'a', target_table => 'chunks', chunking => 'tokens', chunk_size => 3, overlap => 1, name => 'side');
UPDATE texts SET a = 'one two three four five six' WHERE id = 1;
SELECT settled('side');
\d chunks
SELECT id, chunk_seq, chunk, tok_start, tok_end, embedding = llm_embed(chunk) AS same FROM chunks ORDER BY id, chunk_seq;
SELECT count(*) AS differ FROM (SELECT t.id, c.* FROM texts t, llm_chunk_text(t.a, 'tokens', 3, 1) c EXCEPT SELECT id, chunk_seq, chunk, tok_start, tok_end FROM chunks) d;
UPDATE texts SET a = 'shorter' WHERE id = 1;
UPDATE texts SET a = NULL WHERE id = 2;
DELETE FROM texts WHERE id = 4;
SELECT settled('side');
SELECT id, chunk_seq, chunk FROM chunks ORDER BY id, chunk_seq;
TRUNCATE texts;
SELECT settled('side');
SELECT count(*) FROM chunks;

-- ---- partitions, also new ones, and rows that move ----
CREATE TABLE parts (id int, region text, a text, b text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu');
INSERT INTO parts VALUES (1, 'eu', 'first');
SELECT llm_create_completion_job('parts', '{a}', 'b', name => 'parts');
SELECT settled('parts');
CREATE TABLE parts_us PARTITION OF parts FOR VALUES IN ('us');
INSERT INTO parts VALUES (2, 'us', 'through the root');
INSERT INTO parts_us VALUES (3, 'us', 'directly');
UPDATE parts SET region = 'us', a = 'moved' WHERE id = 1;
SELECT settled('parts');
SELECT id, region, b FROM parts ORDER BY id;
SELECT tgrelid::regclass, regexp_replace(tgname, '\d+', 'N') FROM pg_trigger WHERE tgrelid IN (SELECT relid FROM pg_partition_tree('parts')) ORDER BY 1, 2;

-- ---- what goes, and what changes ----
DROP TABLE parts;
ALTER TABLE texts RENAME COLUMN a TO aa;
INSERT INTO texts (id, aa) VALUES (7, 'seven');
SELECT settled('emb'), settled('side');
SELECT name, state, queued, last_error FROM llm_jobs ORDER BY name;
ALTER TABLE texts RENAME COLUMN aa TO a;
SELECT llm_resume_job('emb'), llm_resume_job('side');
SELECT settled('emb'), settled('side');
DROP TABLE chunks;
UPDATE texts SET a = 'eight';
SELECT settled('side');
SELECT name, state, left(last_error, 5) FROM llm_jobs WHERE name = 'side';

-- ---- who may ----
CREATE ROLE regress_jobs_a;
CREATE ROLE regress_jobs_b;
GRANT CREATE ON SCHEMA public TO regress_jobs_a, regress_jobs_b;
SET ROLE regress_jobs_a;
SELECT fails($$SELECT llm_create_completion_job('texts', '{a}', 'b')$$);
CREATE TABLE mine (id int PRIMARY KEY, a text, b text);
-- work runs as the owner, never as the superuser; names are looked up in pg_catalog
CREATE FUNCTION who(t text) RETURNS text STABLE LANGUAGE plpgsql AS $$BEGIN RETURN current_user || ' ' || current_setting('search_path') || ' ' || t; END $$;
SELECT llm_create_completion_job('mine', input => 'who(a)', target_column => 'b', name => 'mine');
CREATE FUNCTION escape() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RESET ROLE; SET SESSION AUTHORIZATION DEFAULT; RETURN NEW; END $$;
INSERT INTO mine VALUES (1, 'text');
SELECT settled('mine');
SELECT * FROM mine;
CREATE TRIGGER escape BEFORE UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION escape();
INSERT INTO mine VALUES (2, 'text');
SELECT settled('mine');
SELECT state, left(last_error, 5) FROM llm_jobs;
SELECT fails('SELECT * FROM vllm.job') ~ '^42501' AS tables, fails('INSERT INTO vllm.job_queue VALUES (1)') ~ '^42501' AS queue;
SET ROLE regress_jobs_b;
SELECT name FROM llm_jobs;
SELECT fails($$SELECT llm_drop_job('mine')$$);
-- another's job hears nothing of a table that is not its source
CREATE TABLE intruder (id int PRIMARY KEY, a text, b text);
RESET ROLE;
CREATE TRIGGER t AFTER INSERT ON intruder REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION vllm.job_changed('mine');
INSERT INTO intruder VALUES (77, 'x');
SELECT count(*) FROM queued() WHERE key = '{77}';
DROP TABLE intruder;

-- a job runs as the owner of its source, whoever made it: code on the table runs as nobody else
SET ROLE regress_jobs_a;
CREATE TABLE theirs (id int PRIMARY KEY, a text, b text, who text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION who() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.who := current_user || CASE WHEN now() > new.at THEN ', later' ELSE '' END; RETURN new; END $$;
CREATE TRIGGER who BEFORE UPDATE ON theirs FOR EACH ROW EXECUTE FUNCTION who();
RESET ROLE;
SELECT llm_create_completion_job('theirs', template => '{a}', target_column => 'b', name => 'theirs');
INSERT INTO theirs VALUES (1, 'text');
SELECT settled('theirs');
SELECT b, who FROM theirs;
ALTER TABLE theirs OWNER TO regress_jobs_b;
INSERT INTO theirs VALUES (2, 'text');
SELECT settled('theirs');
SELECT state, last_error FROM llm_jobs WHERE name = 'theirs';
SELECT b, who FROM theirs WHERE id = 2;

-- ---- at once: row triggers ----
CREATE TABLE small (id int PRIMARY KEY, a text, b text, e real[]);
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON small FOR EACH ROW EXECUTE FUNCTION llm_generate_trigger('a', 'b', 'say {} twice');
CREATE TRIGGER e BEFORE INSERT OR UPDATE ON small FOR EACH ROW EXECUTE FUNCTION llm_embed_trigger('a', 'e');
INSERT INTO small VALUES (1, 'one'), (2, NULL);
SELECT id, b, e = llm_embed(a) AS same FROM small ORDER BY id;
UPDATE small SET b = 'by hand' WHERE id = 1;
SELECT b FROM small WHERE id = 1;
UPDATE small SET a = 'other' WHERE id = 1;
SELECT b FROM small WHERE id = 1;
CREATE TRIGGER wrong BEFORE INSERT ON small FOR EACH ROW EXECUTE FUNCTION llm_embed_trigger('a', 'nope');
SELECT fails('INSERT INTO small VALUES (3)');
SELECT fails('SELECT llm_embed_trigger()');

SELECT llm_drop_job(name) FROM llm_jobs;
DROP TABLE docs, days, no_key, parent, child, texts, small;
DROP OWNED BY regress_jobs_a, regress_jobs_b;
DROP ROLE regress_jobs_a, regress_jobs_b;
SELECT count(*) FROM vllm.job, vllm.job_queue, vllm.job_failure, vllm.job_stat;
DROP FUNCTION settled(name), queued();
SELECT left_behind();
