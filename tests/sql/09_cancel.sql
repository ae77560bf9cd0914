-- Every way to leave a call frees what it held.
SET client_min_messages = warning;
\set VERBOSITY terse
SET statement_timeout = '200ms';
SELECT llm_generate('@hang');
SELECT id, llm_generate('@hang') FROM generate_series(1, 3) id;
SELECT llm_generate_stream('@hang');
SELECT llm_generate_full('@delay:20000');
RESET statement_timeout;
SELECT left_behind();

-- timeout_ms
SELECT llm_generate('@hang', timeout_ms => 100);
SELECT llm_generate('@hang', params => '{"timeout_ms": 100}');
SELECT fails($$SELECT llm_generate('@hang', timeout_ms => 50)$$);
SELECT llm_generate('in time', timeout_ms => 60000);
SELECT left_behind();

-- exception blocks and savepoints
DO $$
BEGIN
    SET LOCAL statement_timeout = 0;
    FOR i IN 1 .. 5 LOOP
        BEGIN
            PERFORM llm_generate('@hang', timeout_ms => 20);
        EXCEPTION WHEN query_canceled THEN
            NULL;
        END;
        BEGIN
            PERFORM llm_generate('x' || 1 / (i - i));
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
        PERFORM llm_generate('goes on');
    END LOOP;
END $$;
SELECT left_behind();
BEGIN;
SAVEPOINT s;
DECLARE c1 CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:200');
DECLARE c2 CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:200');
FETCH 1 FROM c1;
FETCH 1 FROM c2;
SELECT count(*) FROM llm_requests;
ROLLBACK TO s;
SELECT left_behind();
DECLARE c3 CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:200');
FETCH 1 FROM c3;
SELECT llm_generate('@error');
ROLLBACK;
SELECT left_behind();
-- an error in another expression of the row
SELECT llm_generate('a b'), 1 / (id - 3) FROM generate_series(1, 5) id;
SELECT left_behind();

-- llm_cancel
SELECT llm_cancel(0), llm_cancel(-1), llm_cancel(9223372036854775807), llm_cancel(NULL);
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:100');
FETCH 1 FROM c;
SELECT llm_cancel(id) FROM llm_requests;
FETCH ALL FROM c;
ROLLBACK;
SELECT left_behind();

-- a cursor WITH HOLD is run to its end at commit, a closed one is not
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT (llm_generate_stream('a b c')).text;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT left_behind();
