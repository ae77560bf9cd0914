-- llm_engine_restart: a new engine process, the same session.
SET client_min_messages = warning;
SELECT pid, epoch FROM llm_stat_engine \gset old_
SELECT llm_engine_restart();
SELECT state, pid <> :old_pid AS new_process, epoch > :old_epoch AS new_epoch FROM llm_stat_engine;
SELECT llm_generate('as before');
-- a call that is running meanwhile fails with a hint, and the session goes on
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:50 @slow:100');
FETCH 1 FROM c;
SELECT llm_engine_restart();
SELECT fails('FETCH ALL FROM c');
ROLLBACK;
SELECT llm_generate('after a lost call');
-- the state of models is the new engine's
SELECT name, state FROM llm_models;
SELECT fails($$SELECT vllm.control('no-such-command')$$), fails($$SELECT vllm.control(NULL)$$);
SELECT vllm.control('fds')::int < 64 AS fds, vllm.control('rss') <> '' AS rss;
SELECT left_behind();
