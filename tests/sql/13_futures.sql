-- Futures: requests that outlive their statement.
SET client_min_messages = warning;
-- the arguments are those of llm_generate
SELECT p.parallel, p.args = g.args AS same_arguments
FROM (SELECT proparallel AS parallel, proargtypes[0] AS prompt, pg_get_function_arguments(oid) AS args FROM pg_proc WHERE proname = 'llm_submit') p
JOIN (SELECT proargtypes[0] AS prompt, pg_get_function_arguments(oid) AS args FROM pg_proc WHERE proname = 'llm_generate') g USING (prompt);
SELECT llm_submit('one two three', max_tokens => 2) AS a \gset
SELECT llm_submit('@delay:100 late', timeout_ms => 60000) AS b \gset
SELECT llm_submit_chat('[{"role": "user", "content": "a chat"}]', max_tokens => 50, chat_template => '{{ messages[0].content }} it is') AS chat \gset
SELECT llm_result(:chat);
SELECT llm_poll(:b) AS polled_b, count(*) AS listed FROM llm_futures;
SELECT llm_result(:a), llm_result(:b);
-- a result is fetched once
\set VERBOSITY terse
SELECT replace(fails('SELECT llm_result(' || :a || ')'), 'future ' || :'a', 'future N');
SELECT fails('SELECT llm_poll(0)') ~ '^42704' AS poll, fails('SELECT llm_wait(''{0}'')') ~ '^42704' AS wait, llm_discard(0);
-- NULL is no request
SELECT llm_submit(NULL), llm_submit(NULL, temperature => 77), llm_poll(NULL), llm_result(NULL), llm_discard(NULL), llm_wait(NULL);
SELECT llm_wait('{}'), llm_wait('{NULL}'), llm_wait('{NULL}', 0);
SELECT fails('SELECT llm_wait(''{}'', -1)');

-- it is the request that llm_requests shows
SELECT llm_submit('@hang') AS h \gset
SELECT id = :h AS same_id, kind, pid = pg_backend_pid() AS mine FROM llm_requests;
SELECT id = :h AS same_id, state, model, submitted BETWEEN now() - interval '1 minute' AND clock_timestamp() AS submitted FROM llm_futures;
SELECT llm_wait(ARRAY[:h, NULL], 50), llm_wait(ARRAY[:h], 0), llm_poll(:h);
SELECT llm_cancel(:h);
SELECT llm_wait(ARRAY[:h]), llm_poll(:h);
SELECT id = :h AS same_id, state FROM llm_futures;
SELECT llm_result(:h);
SELECT fails('SELECT llm_result(' || :h || ')') ~ '^42704 ' AS forgotten;
SELECT left_behind();

-- an interrupted wait leaves the request alone
SELECT llm_submit('@delay:400 in the end') AS h \gset
SET statement_timeout = '100ms';
SELECT llm_wait(ARRAY[:h]);
SELECT llm_result(:h);
RESET statement_timeout;
SELECT llm_result(:h);

-- timeout_ms counts from the submit, and also when nobody looks
SELECT llm_submit('@hang', timeout_ms => 50) AS h, llm_submit('@hang', timeout_ms => 50) AS i \gset
SELECT llm_wait(ARRAY[:h]);
SELECT fails('SELECT llm_result(' || :h || ')');
SELECT pg_sleep(0.2);
SELECT llm_poll(:i);
SELECT llm_result(:i);
SELECT left_behind();

-- errors: of the options at once, of the request when it is fetched
SELECT fails('SELECT llm_submit(''x'', temperature => 3)');
SELECT fails('SELECT llm_submit(''x'', model => ''nope'')');
SELECT fails($$SELECT llm_submit(repeat('x', 17000000))$$);
SELECT llm_submit('@error:54000:too much') AS h \gset
SELECT llm_wait(ARRAY[:h]);
SELECT llm_result(:h);
SELECT fails('SELECT llm_result(' || :h || ')') ~ '^42704 ' AS forgotten;
SELECT count(*) FROM llm_futures;

-- transactions don't matter
BEGIN;
SELECT llm_submit('before the savepoint') AS a \gset
SAVEPOINT s;
SELECT llm_submit('in the savepoint') AS b \gset
ROLLBACK TO s;
SELECT llm_result(:b);
SELECT 1 / 0;
ROLLBACK;
SELECT llm_result(:a);
DO $$
DECLARE
    f bigint;
BEGIN
    BEGIN
        f := llm_submit('from a block that failed');
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        RAISE WARNING '%', llm_result(f);
    END;
END $$;

-- discard
SELECT llm_submit('@hang') AS h, llm_submit('finished') AS i \gset
SELECT llm_wait(ARRAY[:i]);
SELECT llm_discard(:h), llm_discard(:h), llm_discard(:i);
SELECT left_behind();
SELECT count(llm_submit('@hang')) FROM generate_series(1, 5);
DISCARD PLANS;
SELECT count(*) FROM llm_futures;
SET client_min_messages = warning;
DISCARD ALL;
SELECT count(*) FROM llm_futures;
SELECT left_behind();

-- many, and in any order; slots are free as soon as the session has looked
SELECT array_agg(llm_submit('row ' || i)) AS ids FROM generate_series(1, 200) i \gset
SELECT llm_wait(:'ids');
SELECT state, count(*) FROM llm_futures GROUP BY state;
SELECT left_behind();
SELECT count(*), min(r), max(r) FROM (SELECT llm_result(id) AS r FROM unnest(:'ids'::bigint[]) id ORDER BY id DESC) s;

-- in a row trigger, the answers of a statement together
CREATE TABLE notes (id int, body text, f bigint, summary text);
CREATE FUNCTION notes_submit() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.f := llm_submit(NEW.body); RETURN NEW; END $$;
CREATE TRIGGER submit BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION notes_submit();
INSERT INTO notes SELECT i, '@delay:100 note ' || i FROM generate_series(1, 5) i;
UPDATE notes SET summary = llm_result(f), f = NULL;
SELECT id, f, summary FROM notes ORDER BY id;
DROP TABLE notes;
DROP FUNCTION notes_submit();

-- one NOTICE about a load, whoever waits for it
SELECT llm_create_model('slow13', '/fake/slow:400');
SELECT array_agg(llm_submit('n ' || i, model => 'slow13')) AS ids FROM generate_series(1, 3) i \gset
SET client_min_messages = notice;
SELECT llm_wait(:'ids');
SET client_min_messages = warning;
SELECT llm_result(id) FROM unnest(:'ids'::bigint[]) id;
SELECT llm_drop_model('slow13');

-- EXECUTE and the model's USAGE are checked at the submit
CREATE ROLE regress_vllm_future;
SELECT llm_create_model('fm', '/fake/fm');
SET ROLE regress_vllm_future;
SELECT llm_submit('x', model => 'fm');
SELECT llm_result(llm_submit('allowed'));
RESET ROLE;
SELECT llm_grant('fm', 'regress_vllm_future');
SET ROLE regress_vllm_future;
SELECT llm_submit('granted', model => 'fm') AS h \gset
RESET ROLE;
SELECT llm_revoke('fm', 'regress_vllm_future');
SELECT llm_result(:h);
SELECT llm_drop_model('fm');

-- a future is the role's that has submitted it: its members may use it, for others it does not exist
CREATE ROLE regress_vllm_member;
GRANT regress_vllm_future TO regress_vllm_member;
SELECT llm_submit('of a superuser') AS su \gset
SET ROLE regress_vllm_future;
SELECT llm_submit('of the role') AS h, llm_submit('of the role, too') AS h2, llm_submit_embed('of the role') AS e \gset
SELECT string_agg(fails(format(q, :su)), E'\n' ORDER BY q) ~ '^(42704 future \d+ does not exist in this session [^\n]*\n?){4}$' AS unknown
FROM (VALUES ('SELECT llm_result(%s)'), ('SELECT llm_result_embedding(%s)'), ('SELECT llm_poll(%s)'), ('SELECT llm_wait(''{%s}'', 0)')) AS v (q);
SELECT llm_discard(:su), count(*) AS listed FROM llm_futures;
SET ROLE regress_vllm_member;
SELECT count(*) AS listed FROM llm_futures;
SELECT llm_wait(ARRAY[:h, :h2, :e]::bigint[]), llm_result(:h), llm_discard(:e);
RESET ROLE;
SELECT llm_result(:h2), llm_result(:su);
-- in a SECURITY DEFINER function that is its owner
CREATE FUNCTION begin_secret() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$SELECT llm_submit('of the definer')$$;
CREATE FUNCTION end_secret(id bigint) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT llm_result(id)$$;
SET ROLE regress_vllm_member;
SELECT begin_secret() AS h \gset
SELECT fails('SELECT llm_poll(' || :h || ')') ~ '^42704 ' AS unknown;
SELECT end_secret(:h);
RESET ROLE;
DROP FUNCTION begin_secret, end_secret;
DROP ROLE regress_vllm_member;
DROP ROLE regress_vllm_future;
SELECT left_behind();
