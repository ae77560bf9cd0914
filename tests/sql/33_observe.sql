-- llm_requests, llm_stat_query, llm_stat_role, trace contexts.
SELECT llm_stat_reset() >= 0 AS reset;
SET compute_query_id = on;

-- each request counts under its role, database, query, model
SELECT llm_generate('one two three');
SELECT llm_generate('one two three') FROM generate_series(1, 3) g WHERE g > 0;
SELECT llm_embed('a vector') IS NOT NULL AS embedded;
SELECT fails($$SELECT llm_generate('@error')$$);
SELECT fails($$SELECT llm_generate('@hang', timeout_ms => 50)$$);
SELECT calls, requests, errors, cancelled, prompt_tokens, output_tokens, queryid IS NOT NULL AS query, model, lora
FROM llm_stat_query WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = current_user)
    AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY requests, errors, cancelled, prompt_tokens, output_tokens;
SELECT role = current_user AS me, database = current_database() AS here, calls, requests, errors, cancelled, prompt_tokens, output_tokens,
    total_time > 0 AND min_time <= mean_time AND mean_time <= max_time AND max_time <= total_time AND abs(mean_time * requests - total_time) < 1e-6 * total_time AS times,
    queue_time + prefill_time + decode_time <= total_time + 0.001 AS parts, stats_since <= last_used AS used
FROM llm_stat_role;
-- two runs of one statement are two calls of one query
PREPARE twice(text) AS SELECT llm_generate($1);
EXECUTE twice('a');
EXECUTE twice('b c');
SELECT calls, requests, output_tokens FROM llm_stat_query WHERE output_tokens = 3 AND calls = 2;
DEALLOCATE twice;

-- without identifiers of queries all of a role's are one
SET compute_query_id = off;
SELECT llm_generate('x');
SELECT llm_generate('y') AS other;
SELECT queryid, calls, requests FROM llm_stat_query WHERE queryid IS NULL;
SET compute_query_id = on;

-- who sees what
CREATE ROLE regress_vllm_sees;
SET ROLE regress_vllm_sees;
SELECT count(*) FROM llm_stat_query;
SELECT llm_generate('mine');
SELECT requests, output_tokens FROM llm_stat_query;
SELECT role, requests FROM llm_stat_role;
SELECT fails('SELECT llm_stat_reset()');
RESET ROLE;
SELECT count(*) > 3 AS all_of_them FROM llm_stat_query;
GRANT pg_read_all_stats TO regress_vllm_sees;
SET ROLE regress_vllm_sees;
SELECT count(*) > 3 AS all_of_them FROM llm_stat_query;
RESET ROLE;
SELECT llm_stat_reset('regress_vllm_sees'::regrole) AS entries;
SELECT count(*) FROM llm_stat_role WHERE role = 'regress_vllm_sees';
DROP OWNED BY regress_vllm_sees;
DROP ROLE regress_vllm_sees;
SET vllm.stat_track = off;
SELECT llm_stat_reset() > 0 AS reset;
SELECT llm_generate('nobody counts');
SELECT count(*) FROM llm_stat_query;
RESET vllm.stat_track;

-- trace contexts: the setting, the option; what is none is refused
SET vllm.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
SET vllm.tracestate = 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE';
SELECT llm_generate('traced');
SELECT llm_generate('traced', params => '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00", "tracestate": "a=b"}');
SELECT llm_embed('traced', params => '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00"}') IS NOT NULL AS embedded;
SELECT fails($$SELECT llm_generate('x', params => '{"traceparent": "00-0-0-01"}')$$);
SELECT fails($$SELECT llm_generate('x', params => '{"tracestate": "=1"}')$$);
SELECT fails($$SELECT llm_embed('x', params => '{"traceparent": "nonsense"}')$$);
SELECT fails($$SELECT llm_generate('x', params => '{"traceparent": 1}')$$);
SELECT fails($$SET vllm.traceparent = '00-00000000000000000000000000000000-00f067aa0ba902b7-01'$$);
SELECT fails($$SET vllm.tracestate = 'no'$$);
-- llm_requests shows it
SELECT llm_submit('@hang', params => '{"priority": 7}') IS NOT NULL AS submitted;
SELECT kind, model, lora, priority, traceparent FROM llm_requests WHERE pid = pg_backend_pid();
RESET vllm.traceparent;
RESET vllm.tracestate;
SELECT llm_cancel(id) FROM llm_requests WHERE pid = pg_backend_pid();
RESET compute_query_id;

-- devices; the dashboard: lines of at most 78 columns, which a terminal of 80 shows
SELECT device, kind, isa, cpus >= usable_cpus AND usable_cpus > 0 AS cpus, threads > 0 AS threads, memory_total > memory_available AS memory, engine_bytes > 0 AS used,
       compute_capability, multiprocessors, driver, uuid, usable, rank, note FROM llm_devices;
SELECT regexp_replace(regexp_replace(replace(regexp_replace(line, '[0-9.]+', 'N', 'g'), 'Nk', 'N'), ' +', ' ', 'g'), '[MG]B', 'MB', 'g') AS line FROM llm_top() line WHERE line ~ '^(vllm_pg|Calls|Requests|Tokens|KV|Prefixes|Memory|MODEL)';
SELECT llm_submit('@hang', params => '{"model": "tickets-2m"}') IS NOT NULL AS submitted;
SELECT count(*) FILTER (WHERE line ~ '^\d+ .* tickets-2m .*\d\d:\d\d:\d\d +\d+ +\d+$') > 0 AS requests, max(length(line)) <= 78 AS fits FROM llm_top() line;
SELECT count(*) FILTER (WHERE line ~ '^REQUEST') AS requests FROM llm_top(0) line;
SELECT count(llm_cancel(id)) > 0 AS cancelled FROM llm_requests WHERE pid = pg_backend_pid();
-- a wide name, and rates since the session's last call
SELECT llm_create_model(repeat('模', 15) || E'\n', '/fake/wide');
SELECT llm_generate('a b c d e', model => repeat('模', 15) || E'\n');
SELECT regexp_replace(line, ' +\S+ +\S+ +(\S+) +(\S+)$', ' \1 \2') AS line, length(line) + 10 AS columns FROM llm_top() line WHERE line ~ '模';
SELECT line ~ ' 0 +0 +0.0% +1$' AS nothing_since FROM llm_top() line WHERE line ~ '模';
SELECT llm_drop_model(repeat('模', 15) || E'\n');

-- a profile: steps and requests as a Chrome trace
SELECT fails('SELECT llm_stop_profile()');
SELECT llm_start_profile();
SELECT fails('SELECT llm_start_profile()');
SELECT llm_generate('one two three', params => '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}');
CREATE TEMP TABLE profile AS SELECT llm_stop_profile()::jsonb AS p;
SELECT e->>'name' AS name, e->>'ph' AS ph, count(*) > 0 AS there FROM profile, jsonb_array_elements(p->'traceEvents') e GROUP BY e->>'name', e->>'ph' ORDER BY (e->>'name') COLLATE "C", (e->>'ph') COLLATE "C";
SELECT (e->'args') - 'pid'::text AS request, (e->'args'->>'pid')::int = pg_backend_pid() AS mine FROM profile, jsonb_array_elements(p->'traceEvents') e WHERE e->>'name' = 'request' AND e->>'ph' = 'b';
SELECT fails('SELECT llm_stop_profile()');
SELECT fails('SELECT llm_start_profile(-1)');
SELECT fails($$SELECT llm_stop_profile('relative/path')$$);
CREATE ROLE regress_vllm_profile;
SET ROLE regress_vllm_profile;
SELECT fails('SELECT llm_start_profile()');
RESET ROLE;
GRANT EXECUTE ON FUNCTION llm_start_profile(int, int), llm_stop_profile(text) TO regress_vllm_profile;
SET ROLE regress_vllm_profile;
SELECT llm_start_profile(delay_steps => 2, max_steps => 1);
SELECT fails($$SELECT llm_stop_profile('/tmp/profile.json')$$);
SELECT llm_stop_profile()->'otherData'->'steps' AS steps;
RESET ROLE;
DROP OWNED BY regress_vllm_profile;
DROP ROLE regress_vllm_profile;
DROP TABLE profile;
