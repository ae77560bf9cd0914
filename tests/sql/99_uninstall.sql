-- Nothing is left of the extension.
SET client_min_messages = warning;
DROP FUNCTION fails(text), request_log(), left_behind();
DROP EXTENSION vllm_pg;
SELECT count(*) FROM pg_proc WHERE proname LIKE 'llm\_%';
