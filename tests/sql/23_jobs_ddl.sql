-- What others' statements meet of jobs, and what jobs meet of others' statements.
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
CREATE ROLE regress_jobs_a;
CREATE ROLE regress_jobs_b;
CREATE ROLE regress_jobs_write IN ROLE pg_write_all_data;
GRANT CREATE ON SCHEMA public TO regress_jobs_a, regress_jobs_b;
CREATE TABLE users (who text);
GRANT SELECT, INSERT ON users TO PUBLIC;

-- ---- a new owner: what the former one has left runs as nobody else until he agrees ----
SET ROLE regress_jobs_a;
CREATE FUNCTION spy(text) RETURNS bool LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.users VALUES (current_user); RETURN true; END $$;
CREATE DOMAIN spied AS text CHECK (spy(VALUE));
CREATE FUNCTION first(spied[]) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT $1[1]::text$$;
CREATE TABLE left_over (id int PRIMARY KEY, a text, b text);
SELECT llm_create_completion_job('left_over', input => $$a || first('{k}')$$, target_column => 'b', name => 'left', backfill => 'none');
SELECT count(*) > 0 AS spied, min(who), max(who) FROM users;
RESET ROLE;
TRUNCATE users;
ALTER TABLE left_over RENAME COLUMN a TO a1;
SELECT count(*) > 0 AS spied, min(who), max(who) FROM users;
TRUNCATE users;
REASSIGN OWNED BY regress_jobs_a TO CURRENT_USER;
GRANT CREATE ON SCHEMA public TO regress_jobs_a;
SELECT owner = current_user::regrole AS mine, state, input, last_error FROM llm_jobs;
SELECT owner FROM vllm.job;
ALTER TABLE left_over RENAME COLUMN a1 TO a2;
ALTER TABLE left_over RENAME COLUMN b TO b2;
ALTER TABLE left_over RENAME COLUMN id TO no;
SELECT llm_alter_job('left', max_attempts => 3, priority => 2, enabled => false);
SELECT llm_retry_job('left'), llm_backfill_job('left', 'all');
ALTER TABLE left_over RENAME COLUMN a2 TO a3;
INSERT INTO left_over VALUES (1, 'text');
SELECT owner, key_columns, target_column, input, max_attempts, state FROM vllm.job;
SELECT who FROM users WHERE who <> 'regress_jobs_a';
-- the former owner has no say any more, and sees nothing
SET ROLE regress_jobs_a;
SELECT fails(format('SELECT %s', f)) FROM (VALUES ($$llm_resume_job('left')$$), ($$llm_alter_job('left', enabled => true)$$), ($$llm_pause_job('left')$$),
    ($$llm_drop_job('left')$$), ($$llm_retry_job('left')$$), ($$llm_backfill_job('left')$$)) v (f);
SELECT name FROM llm_jobs;
RESET ROLE;
-- it goes on when the new one agrees: with an input of his, or with what is there
SELECT llm_alter_job('left', input => 'a3', backfill => 'none', enabled => true);
SELECT owner = current_user::regrole AS mine, input, state FROM vllm.job;
SELECT settled('left');
SELECT no, b2 FROM left_over;
SELECT who FROM users WHERE who <> 'regress_jobs_a';
ALTER TABLE left_over OWNER TO regress_jobs_b;
SELECT owner, state FROM llm_jobs;
SET ROLE regress_jobs_b;
SELECT llm_resume_job('left');
UPDATE left_over SET a3 = 'more';
SELECT settled('left');
SELECT no, b2 FROM left_over;
RESET ROLE;
-- nobody has told of the new owner, as after pg_restore --no-owner: the worker stops
SELECT llm_pause_job('left');
TRUNCATE users;
UPDATE vllm.job SET owner = 'regress_jobs_a', input = $$(src.a3 || public.first('{k}'::public.spied[]))$$;
ALTER TABLE left_over RENAME COLUMN a3 TO a4;
SELECT input FROM vllm.job;
UPDATE left_over SET a4 = 'most';
UPDATE vllm.job SET state = 'active', owner = 'regress_jobs_a';
SELECT settled('left');
SELECT owner, state, last_error FROM llm_jobs;
SELECT who FROM users;
SELECT llm_drop_job('left');
DROP TABLE left_over, users;
DROP FUNCTION spy(text) CASCADE;

-- ---- sequences that somebody has set to what he likes ----
SET ROLE regress_jobs_a;
CREATE TABLE numbers (id int PRIMARY KEY, a text, b text, c text, d text);
SELECT llm_create_completion_job('numbers', '{a}', 'b', name => 'numbers', backfill => 'none');
SELECT llm_pause_job('numbers');
RESET ROLE;
CREATE TABLE was AS SELECT (SELECT last_value FROM vllm.job_id_seq) AS job, (SELECT last_value FROM vllm.job_queue_id_seq) AS queue;
SET ROLE regress_jobs_write;
SELECT setval('vllm.job_queue_id_seq', 35184372088831) > 0 AS set;
INSERT INTO numbers SELECT i FROM generate_series(1, 30) i;
SELECT setval('vllm.job_queue_id_seq', 1, false);
INSERT INTO numbers SELECT i FROM generate_series(31, 60) i;
SELECT setval('vllm.job_queue_id_seq', 1, false);
SELECT fails($$SELECT setval('vllm.job_queue_id_seq', 9223372036854775807)$$);
RESET ROLE;
SELECT count(*), count(DISTINCT id) AS ids, min(id) > 0 AS positive FROM vllm.job_queue;
SELECT setval('vllm.job_id_seq', 1, false) FROM (SELECT setval('vllm.job_id_seq', 2147483647)) s;
SET ROLE regress_jobs_a;
SELECT llm_create_completion_job('numbers', '{a}', 'c', name => 'again', backfill => 'none');
RESET ROLE;
UPDATE vllm.job SET id = 1 WHERE name = 'again' AND NOT EXISTS (SELECT 1 FROM vllm.job WHERE id = 1);
SELECT setval('vllm.job_id_seq', 2147483647);
SET ROLE regress_jobs_a;
SELECT llm_create_completion_job('numbers', '{a}', 'd', name => 'taken', backfill => 'none');
SELECT llm_drop_job(name) FROM llm_jobs;
DROP TABLE numbers;
RESET ROLE;
SELECT setval('vllm.job_id_seq', job) = job AS job, setval('vllm.job_queue_id_seq', queue) = queue AS queue FROM was;
DROP TABLE was;

-- ---- sweeps: of partitions that are gone, one at a time ----
SET ROLE regress_jobs_b;
CREATE TABLE parts (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE parts_2a PARTITION OF parts_2 FOR VALUES FROM (10) TO (15);
CREATE TABLE parts_2b PARTITION OF parts_2 FOR VALUES FROM (15) TO (20);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (20) TO (30);
SELECT llm_create_embedding_job('parts', 'a', target_table => 'chunks', name => 'parts');
INSERT INTO parts SELECT i, 'text ' || i FROM generate_series(1, 29) i;
SELECT settled('parts');
SELECT llm_pause_job('parts');
-- a trigger of its name on a table of somebody else
SET ROLE regress_jobs_a;
CREATE TABLE junk (id int);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END $$;
RESET ROLE;
SELECT format('vllm_job_%s_delete', id) AS trigger FROM vllm.job \gset
SET ROLE regress_jobs_a;
CREATE TRIGGER :"trigger" AFTER DELETE ON junk FOR EACH ROW EXECUTE FUNCTION nothing();
DROP TRIGGER :"trigger" ON junk;
CREATE TRIGGER :"trigger" AFTER DELETE ON junk FOR EACH ROW EXECUTE FUNCTION nothing();
ALTER TABLE junk ADD a int;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'junk'::regclass;
DROP TABLE junk;
RESET ROLE;
SELECT count(*) FROM vllm.job_queue;
SET ROLE regress_jobs_b;
ALTER TABLE parts DETACH PARTITION parts_2;
SELECT tgrelid::regclass AS rel, tgname FROM pg_trigger WHERE tgrelid IN ('parts_2'::regclass, 'parts_2a'::regclass, 'parts_2b'::regclass) AND NOT tgisinternal;
ALTER TABLE parts DETACH PARTITION parts_3 CONCURRENTLY;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'parts_3'::regclass AND NOT tgisinternal;
TRUNCATE parts;
DROP TABLE parts_1;
RESET ROLE;
SELECT count(*), count(key) AS keys FROM vllm.job_queue;
SET ROLE regress_jobs_b;
SELECT llm_resume_job('parts');
SELECT settled('parts');
SELECT count(*) FROM chunks;
-- what comes with a partition that is attached has the triggers, too; of a dropped subpartition chunks go as well
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
SELECT tgrelid::regclass AS rel, count(*) FROM pg_trigger WHERE tgrelid IN ('parts_2'::regclass, 'parts_2a'::regclass, 'parts_2b'::regclass) AND NOT tgisinternal GROUP BY 1 ORDER BY 1;
INSERT INTO parts_2a VALUES (11, 'direct') ON CONFLICT (id) DO UPDATE SET a = excluded.a;
INSERT INTO parts_2b VALUES (16, 'direct') ON CONFLICT (id) DO UPDATE SET a = excluded.a;
SELECT settled('parts');
SELECT id FROM chunks ORDER BY id;
DROP TABLE parts_2a;
SELECT settled('parts');
SELECT id FROM chunks ORDER BY id;
BEGIN;
CREATE TABLE parts_4 PARTITION OF parts FOR VALUES FROM (40) TO (50);
INSERT INTO parts_4 VALUES (41, 'x');
ALTER TABLE parts DETACH PARTITION parts_4;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'parts_4'::regclass AND NOT tgisinternal;
DROP TABLE parts_4;
COMMIT;
SELECT settled('parts');
RESET ROLE;

CREATE SCHEMA with_part CREATE TABLE parts_5 PARTITION OF public.parts FOR VALUES FROM (50) TO (60);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'with_part.parts_5'::regclass AND NOT tgisinternal;
DROP SCHEMA with_part CASCADE;

-- ---- many jobs of one role, and a statement of another ----
CREATE TABLE jobs AS SELECT * FROM vllm.job, generate_series(1000001, 1020000) i;
UPDATE jobs SET id = i, name = 'many' || i, source = i, target_table = NULL, state = 'failed';
ALTER TABLE jobs DROP i;
INSERT INTO vllm.job TABLE jobs;
SET ROLE regress_jobs_a;
SET statement_timeout = '1s';
CREATE TABLE other (id int PRIMARY KEY, a text);
ALTER TABLE other RENAME a TO b;
ALTER TABLE other ADD a text;
CREATE TABLE other_parts (id int) PARTITION BY RANGE (id);
CREATE TABLE other_parts_1 PARTITION OF other_parts FOR VALUES FROM (0) TO (10);
DROP TABLE other, other_parts;
RESET statement_timeout;
RESET ROLE;
DELETE FROM vllm.job WHERE id > 1000000;
DROP TABLE jobs;
SELECT llm_drop_job('parts');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgfoid = 'vllm.job_changed'::regproc;
DROP OWNED BY regress_jobs_a, regress_jobs_b;
DROP ROLE regress_jobs_a, regress_jobs_b, regress_jobs_write;
DROP FUNCTION settled(name);
SELECT left_behind();
