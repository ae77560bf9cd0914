-- Functions that PostgreSQL calls by itself: what anybody can do with them is an error, never more.
SET client_min_messages = warning;
CREATE ROLE regress_internal_a;
CREATE ROLE regress_internal_b;
GRANT CREATE ON SCHEMA public TO regress_internal_a, regress_internal_b;

-- ---- trigger functions: of the extension's own nobody makes triggers ----
SELECT p.oid::regprocedure AS internal FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension x ON x.oid = d.refobjid AND x.extname = 'vllm_pg'
WHERE p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype) AND NOT has_function_privilege('regress_internal_a', p.oid, 'EXECUTE')
ORDER BY 1::text COLLATE "C";
SET ROLE regress_internal_a;
CREATE TABLE t (id int PRIMARY KEY, a text, b text);
CREATE TABLE parts (id int, a text, b text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO t VALUES (1, 'one');
SELECT fails($$CREATE TRIGGER x AFTER UPDATE ON t REFERENCING NEW TABLE AS y FOR EACH STATEMENT EXECUTE FUNCTION vllm.job_changed('hostile')$$);
SELECT fails($$CREATE TRIGGER x AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION vllm.job_wake()$$);
-- jobs are made all the same, of partitioned tables, too; partitions that come get their triggers
SELECT llm_create_completion_job('t', '{a}', 'b', name => 'hostile', backfill => 'none');
SELECT llm_create_completion_job('parts', '{a}', 'b', name => 'parts', backfill => 'none');
-- (their worker would hold locks while triggers are made here)
SELECT llm_pause_job(name) FROM llm_jobs;
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
RESET ROLE;
SELECT tgrelid::regclass, regexp_replace(tgname::text, '\d+', 'N') AS name, pg_get_triggerdef(oid) ~ '(NEW|OLD) TABLE' AS tables, tgisinternal
FROM pg_trigger WHERE tgfoid = 'vllm.job_changed'::regproc ORDER BY tgrelid::regclass::text COLLATE "C", 2;

-- ---- triggers that were made before, or by a superuser ----
GRANT EXECUTE ON FUNCTION vllm.job_changed(), vllm.job_wake() TO regress_internal_a, regress_internal_b;
SET ROLE regress_internal_a;
CREATE FUNCTION shape(shape text, statement text, ontable text DEFAULT 't', args text DEFAULT '''hostile''', f text DEFAULT 'vllm.job_changed')
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER x %s EXECUTE FUNCTION %s(%s)', replace(shape, 'ON t', 'ON ' || ontable), f, args);
    EXECUTE statement;
    EXECUTE format('DROP TRIGGER x ON %s', ontable);
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT s, u, shape(s, u) FROM (VALUES
    ('AFTER UPDATE ON t REFERENCING NEW TABLE AS y FOR EACH STATEMENT', 'UPDATE t SET a = ''two'''),
    ('AFTER UPDATE ON t REFERENCING OLD TABLE AS y FOR EACH STATEMENT', 'UPDATE t SET a = ''two'''),
    ('AFTER UPDATE ON t FOR EACH STATEMENT', 'UPDATE t SET a = ''two'''),
    ('AFTER UPDATE OF a ON t FOR EACH STATEMENT', 'UPDATE t SET a = ''two'''),
    ('AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON t FOR EACH STATEMENT', 'INSERT INTO t VALUES (2)'),
    ('AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON t FOR EACH STATEMENT', 'DELETE FROM t'),
    ('AFTER INSERT ON t FOR EACH STATEMENT', 'INSERT INTO t VALUES (3) ON CONFLICT (id) DO UPDATE SET a = ''x'''),
    ('AFTER DELETE ON t FOR EACH STATEMENT', 'DELETE FROM t'),
    ('BEFORE UPDATE ON t FOR EACH STATEMENT', 'UPDATE t SET a = ''two'''),
    ('BEFORE TRUNCATE ON t FOR EACH STATEMENT', 'TRUNCATE t'),
    ('BEFORE UPDATE ON t FOR EACH ROW', 'UPDATE t SET a = ''two'''),
    ('AFTER INSERT ON t FOR EACH ROW', 'INSERT INTO t VALUES (4)'),
    ('AFTER INSERT ON t REFERENCING NEW TABLE AS y FOR EACH ROW', 'INSERT INTO t VALUES (5)'),
    ('AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON t FOR EACH STATEMENT', 'TRUNCATE t')) v (s, u);
INSERT INTO t VALUES (1, 'one');
SELECT shape('AFTER UPDATE ON t REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT', 'UPDATE t SET a = ''two''', args => args) FROM (VALUES
    ('''hostile'''), (''), ('''hostile'', ''parts'''), ('''parts'''), ('''no such job'''), ('''' || repeat('x', 100) || '''')) v (args);
SELECT shape('INSTEAD OF INSERT ON t FOR EACH ROW', 'INSERT INTO v VALUES (6)', 'v');
SELECT shape('AFTER INSERT ON t FOR EACH STATEMENT', 'INSERT INTO v VALUES (6)', 'v');
SELECT shape('AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', 'INSERT INTO parts VALUES (6)', 'parts', '''parts''');
SELECT shape('AFTER INSERT ON t FOR EACH STATEMENT', 'INSERT INTO parts VALUES (7)', 'parts', '''parts''');
SELECT shape('AFTER INSERT ON t FOR EACH ROW', 'INSERT INTO parts VALUES (8)', 'parts', '''parts''');
SELECT shape('AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', 'INSERT INTO parts_1 VALUES (9)', 'parts_1', '''parts''');
CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vllm.job_changed('hostile');
INSERT INTO t VALUES (7);
DROP TRIGGER x ON t;
SELECT shape('AFTER UPDATE ON t FOR EACH STATEMENT', 'UPDATE t SET a = ''two''', args => '', f => 'vllm.job_wake');
SELECT shape('BEFORE UPDATE ON t FOR EACH ROW', 'UPDATE t SET a = ''two''', args => '', f => 'vllm.job_wake');
SELECT fails('SELECT vllm.job_changed()'), fails('SELECT vllm.job_wake()');
-- a table of somebody else, a child, a partition that is none any more: no job of theirs
RESET ROLE;
DELETE FROM vllm.job_queue;
SET ROLE regress_internal_b;
CREATE TABLE other (id int PRIMARY KEY, a text, b text);
SELECT shape('AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', 'INSERT INTO other VALUES (8)', 'other');
SET ROLE regress_internal_a;
CREATE TABLE child () INHERITS (t);
SELECT shape('AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', 'INSERT INTO child VALUES (8)', 'child');
ALTER TABLE parts DETACH PARTITION parts_1;
SELECT shape('AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', 'INSERT INTO parts_1 VALUES (1)', 'parts_1', '''parts''');
RESET ROLE;
SELECT count(*) FROM vllm.job_queue;
SELECT DISTINCT tgrelid::regclass::text COLLATE "C" AS has_triggers FROM pg_trigger WHERE tgfoid = 'vllm.job_changed'::regproc ORDER BY 1;
REVOKE EXECUTE ON FUNCTION vllm.job_changed(), vllm.job_wake() FROM regress_internal_a, regress_internal_b;
SELECT state, last_error FROM llm_jobs ORDER BY name;

-- ---- an OID that names nothing, NULL, what is no table: errors with a proper SQLSTATE, or nothing ----
CREATE INDEX t_a ON t (a);
CREATE TYPE composite AS (a int);
SELECT f, fails('SELECT ' || f) FROM (SELECT replace(f, '%', o) FROM (VALUES
    ('llm_create_embedding_job(%::regclass, ''a'', ''b'')'), ('llm_create_completion_job(%::regclass, ''{a}'', ''b'')'),
    ('* FROM llm_nearest(''{1,2}''::real[], %::regclass, ''b'')')) f (f),
    (VALUES ('1::oid'), ('0::oid'), ('NULL'), ('''t_a'''), ('''composite'''), ('''v''')) o (o)) v (f);
SELECT f, fails('SELECT ' || f) FROM (SELECT replace(f, '%', o) FROM (VALUES
    ('llm_type_schema(%::regtype)'), ('llm_tool(%::regprocedure)'), ('llm_call_tool(''{"name": "f", "arguments": {}}'', ARRAY[%]::regprocedure[])')) f (f),
    (VALUES ('1::oid'), ('0::oid'), ('NULL')) o (o)) v (f);
CALL llm_run_batch_table(1::oid::regclass, 't');
CALL llm_run_batch_table('t', 1::oid::regclass);
CALL llm_run_batch_table(NULL, 't');
CALL llm_run_batch_table('t', NULL);
SELECT f, fails('SELECT ' || f) FROM (VALUES
    ('llm_alter_job(NULL)'), ('llm_drop_job(NULL)'), ('llm_pause_job(NULL)'), ('llm_resume_job(NULL)'), ('llm_retry_job(NULL)'), ('llm_backfill_job(NULL)')) v (f);

-- ---- an event trigger of a superuser's that trusts the search path meets nobody's tables with more rights than theirs ----
CREATE TABLE ddl_log (tag text);
GRANT INSERT ON ddl_log TO PUBLIC;
CREATE FUNCTION log_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO ddl_log VALUES (tg_tag); END $$;
CREATE EVENT TRIGGER regress_log_ddl ON ddl_command_end EXECUTE FUNCTION log_ddl();
SET ROLE regress_internal_a;
CREATE TABLE ran (tag text, who text);
CREATE FUNCTION ran() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.ran VALUES (new.tag, current_user); RETURN new; END $$;
CREATE TEMP TABLE ddl_log (tag text);
CREATE TRIGGER ran BEFORE INSERT ON ddl_log FOR EACH ROW EXECUTE FUNCTION ran();
TRUNCATE ran;
CREATE TABLE s (id int, a text, b text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
SELECT llm_create_completion_job('s', '{a}', 'b', name => 's', backfill => 'none');
CREATE TABLE s_1 PARTITION OF s FOR VALUES FROM (0) TO (10);
ALTER TABLE s DETACH PARTITION s_1;
SELECT llm_drop_job('s');
SELECT who, array_agg(DISTINCT tag ORDER BY tag) FROM ran GROUP BY who ORDER BY who;
RESET ROLE;
DROP EVENT TRIGGER regress_log_ddl;
DROP FUNCTION log_ddl();
DROP TABLE public.ddl_log;

-- ---- those that are for everybody ----
SET ROLE regress_internal_a;
SELECT llm_drop_job(name) FROM llm_jobs;
SELECT count(*) FROM pg_trigger WHERE tgfoid = 'vllm.job_changed'::regproc;
SELECT s, u, f, shape(s, u, args => args, f => f) FROM (VALUES
    ('AFTER INSERT ON t FOR EACH ROW', 'INSERT INTO t VALUES (20)', '''a'', ''b''', 'llm_generate_trigger'),
    ('BEFORE INSERT ON t FOR EACH STATEMENT', 'INSERT INTO t VALUES (21)', '''a'', ''b''', 'llm_generate_trigger'),
    ('BEFORE DELETE ON t FOR EACH ROW', 'DELETE FROM t', '''a'', ''b''', 'llm_embed_trigger'),
    ('BEFORE TRUNCATE ON t FOR EACH STATEMENT', 'TRUNCATE t', '''a'', ''b''', 'llm_embed_trigger'),
    ('AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', 'INSERT INTO t VALUES (22)', '''a'', ''b''', 'llm_generate_trigger'),
    ('BEFORE INSERT ON t FOR EACH ROW', 'INSERT INTO t VALUES (23)', '', 'llm_generate_trigger'),
    ('BEFORE INSERT ON t FOR EACH ROW', 'INSERT INTO t VALUES (24)', '''a'', ''b'', ''c'', ''d''', 'llm_generate_trigger'),
    ('BEFORE INSERT ON t FOR EACH ROW', 'INSERT INTO t VALUES (25)', '''a'', ''ctid''', 'llm_generate_trigger'),
    ('BEFORE INSERT ON t FOR EACH ROW', 'INSERT INTO t VALUES (26, ''x'')', '''a'', ''b''', 'llm_generate_trigger')) v (s, u, args, f);
SELECT shape('INSTEAD OF INSERT ON t FOR EACH ROW', 'INSERT INTO v VALUES (27)', 'v', '''a'', ''b''', 'llm_generate_trigger');
SELECT fails('SELECT llm_generate_trigger()'), fails('SELECT llm_embed_trigger()');
RESET ROLE;
DROP OWNED BY regress_internal_a, regress_internal_b;
DROP ROLE regress_internal_a, regress_internal_b;
