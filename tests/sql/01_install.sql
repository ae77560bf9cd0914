-- The extension installs into an empty database and brings its bundled model.
-- nothing of the script is taken from the schema that it installs into
CREATE FUNCTION quote_ident(name) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'not the one of pg_catalog'; END $$;
CREATE EXTENSION vllm_pg;
DROP FUNCTION quote_ident(name);
SELECT extversion, extrelocatable FROM pg_extension WHERE extname = 'vllm_pg';
SELECT llm_version() ~ ('^vllm_pg ' || extversion || ' \(wire \d+, engine \w+\)$') AS version FROM pg_extension WHERE extname = 'vllm_pg';

-- members, as a user sees them (unaligned: a long name moves no other line)
\pset format unaligned
SELECT oid::regprocedure::text AS function,
       provolatile, proparallel, prosupport::text AS support, proisstrict AS strict
FROM pg_proc JOIN pg_depend d ON d.objid = pg_proc.oid AND d.classid = 'pg_proc'::regclass
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vllm_pg')
ORDER BY oid::regprocedure::text COLLATE "C";
\pset format aligned
SELECT name, path LIKE '/%/vllm_pg/models/tickets-2m' AS path, state, grants FROM llm_models;

-- what the rest of the suite uses: SQLSTATE, message, detail and hint of a failure
CREATE FUNCTION fails(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    d text; h text;
BEGIN
    EXECUTE query;
    RETURN 'no error';
EXCEPTION WHEN query_canceled OR OTHERS THEN
    GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ' ' || SQLERRM || coalesce(' | ' || nullif(d, ''), '') || coalesce(' | ' || nullif(h, ''), '');
END $$;

-- the request log without oids, one row a request
CREATE FUNCTION request_log() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(line, '^\d+ \d+ ', '') FROM regexp_split_to_table(vllm.control('log'), '\n') line WHERE line <> ''
$$;

-- wait until nothing of ours is left in the engine: slots, requests, blocks
CREATE FUNCTION left_behind() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s record;
BEGIN
    FOR i IN 1 .. 500 LOOP
        SELECT slots_total - slots_free AS slots, zombies, running, waiting, kv_blocks_used INTO s FROM llm_stat_engine;
        EXIT WHEN s.slots = 0 AND s.zombies = 0 AND s.running = 0 AND s.waiting = 0 AND s.kv_blocks_used = 0;
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN CASE WHEN s.slots = 0 AND s.zombies = 0 AND s.running = 0 AND s.waiting = 0 AND s.kv_blocks_used = 0
        THEN 'nothing' ELSE s::text END || ', ' || vllm.control('integrity');
END $$;
SELECT left_behind();
