-- llm_models, llm_requests, llm_stat_engine, llm_stat_model.
SET client_min_messages = warning;
SELECT state, pid > 0 AS pid, epoch > 0 AS epoch, restarts >= 0 AS restarts, started < now() AS started,
       slots_total > 0 AS slots, slots_free = slots_total AS all_free, zombies, slot_waiters,
       isa IS NOT NULL AS isa, threads > 0 AS threads, engine_rss > 0 AS rss
FROM llm_stat_engine;
SELECT steps, requests, finished, failed, prompt_tokens, output_tokens FROM llm_stat_engine \gset before_
SELECT count(llm_generate('a b c')) FROM generate_series(1, 10);
SELECT fails($$SELECT llm_generate('@error')$$);
SELECT steps > :before_steps AS steps, requests - :before_requests AS requests, finished - :before_finished AS finished,
       failed - :before_failed AS failed, output_tokens - :before_output_tokens AS output_tokens,
       avg_batch > 0 AS avg_batch, max_batch >= avg_batch AS max_batch, avg_rows > 0 AS avg_rows,
       step_ms >= 0 AS step_ms, running, waiting, kv_blocks_total > 0 AS kv_total, kv_blocks_used
FROM llm_stat_engine;
SELECT name, state, requests > 0 AS requests, output_tokens > 0 AS output_tokens, running, waiting, kv_blocks_used,
       weight_bytes > 0 AS weights FROM llm_stat_model;

-- a request in flight
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:30 @slow:200');
FETCH 2 FROM c;
SELECT id > 0 AS id, pid = pg_backend_pid() AS pid, database = current_database() AS database, role = current_user AS role,
       model, kind, state, arrival <= clock_timestamp() AS arrival, age > '0' AS age, prompt_tokens, output_tokens > 0 AS output,
       preemptions, ttft_ms > 0 AS ttft FROM llm_requests;
SELECT running, waiting, kv_blocks_used > 0 AS kv FROM llm_stat_engine;
SELECT running, kv_blocks_used > 0 AS kv FROM llm_models WHERE name = 'tickets-2m';
COMMIT;
SELECT left_behind();
SELECT count(*) FROM llm_requests;
-- where a model is computed, while it is loaded
SELECT llm_create_model('where08', '/fake/where08');
SELECT name, state, device FROM llm_models WHERE name IN ('tickets-2m', 'where08') ORDER BY 1;
SELECT llm_drop_model('where08');
-- views are plain: they join, sort and describe
SELECT m.name, s.state FROM llm_models m JOIN llm_stat_model s USING (name) ORDER BY 1;
\d llm_models
\d llm_requests
\d llm_stat_model
