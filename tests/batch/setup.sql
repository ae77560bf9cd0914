-- What the lines of statements.sql find: schema w, made anew after every line that writes.
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS w CASCADE;
CREATE SCHEMA w;
GRANT USAGE ON SCHEMA w TO PUBLIC;
SET search_path = w, public;
BEGIN;

-- texts with NULLs and duplicates
CREATE TABLE docs (id int PRIMARY KEY, body text, flag bool, n int, grp text, answer text);
INSERT INTO docs (id, body, flag, n, grp) VALUES
    (1, 'first text', true, 10, 'a'),
    (2, 'second text', false, 20, 'b'),
    (3, NULL, true, 30, 'a'),
    (4, 'fourth yes', NULL, NULL, 'c'),
    (5, 'first text', false, 50, NULL),
    (6, 'sixth yes', true, 60, 'b'),
    (7, 'seventh text', false, 70, 'a'),
    (8, 'eighth yes', NULL, 80, 'c'),
    (9, 'second text', true, NULL, 'b'),
    (10, NULL, NULL, NULL, NULL),
    (11, 'eleventh yes', true, 110, 'a'),
    (12, 'twelfth text', false, 120, 'c');
CREATE TABLE tags (tag_id int PRIMARY KEY, doc_id int, tag text);
INSERT INTO tags VALUES (1, 1, 'red'), (2, 1, 'blue'), (3, 2, 'red'), (4, 4, NULL), (5, 6, 'green'), (6, 99, 'nobody'),
    (7, NULL, 'loose'), (8, 7, 'red'), (9, 9, 'blue');
CREATE TABLE many (id int PRIMARY KEY, body text, k int);
INSERT INTO many SELECT i, CASE WHEN i % 10 <> 0 THEN 'row ' || i % 40 || CASE WHEN i % 3 = 0 THEN ' yes' ELSE ' no' END END, i % 7 FROM generate_series(1, 200) i;
CREATE INDEX many_k ON many (k, id);
CREATE TABLE nothing (id int, body text);
-- row 5 fails in the engine, row 7 is refused before it (an empty prompt), a model is missing
CREATE TABLE bad (id int PRIMARY KEY, body text, n int, m text);
INSERT INTO bad SELECT i, CASE i WHEN 5 THEN '@error:53200:row five' WHEN 7 THEN '' ELSE 'fine ' || i END, i, CASE WHEN i < 5 THEN 'tickets-2m' ELSE 'no such' END FROM generate_series(1, 8) i;

-- adapters of the model; row 25 names none that there is
SELECT llm_create_lora('red', 'tickets-2m', '/fake/adapters/red', replace => true), llm_create_lora('blue', 'tickets-2m', '/fake/adapters/blue', replace => true);
CREATE TABLE tuned (id int PRIMARY KEY, body text, l text);
INSERT INTO tuned SELECT i, 'tuned ' || i % 7, CASE WHEN i = 25 THEN 'no such' ELSE (ARRAY['red', 'blue', NULL])[i % 3 + 1] END FROM generate_series(1, 30) i;

-- partitions, inheritance
CREATE TABLE parts (id int, region text, body text, answer text) PARTITION BY LIST (region);
CREATE TABLE parts_n PARTITION OF parts FOR VALUES IN ('north');
CREATE TABLE parts_s PARTITION OF parts FOR VALUES IN ('south');
CREATE TABLE parts_x PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT i, (ARRAY['north', 'south', 'east'])[i % 3 + 1], 'part ' || i FROM generate_series(1, 15) i;
CREATE TABLE base (id int, body text);
CREATE TABLE derived (extra text) INHERITS (base);
INSERT INTO base VALUES (1, 'in the base');
INSERT INTO derived VALUES (2, 'in the child', 'x'), (3, NULL, 'y');

-- wide values, arrays, types
CREATE TABLE wide (id int PRIMARY KEY, body text, big text);
ALTER TABLE wide ALTER big SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, 'wide ' || i, repeat(i::text || ' ', 20000) FROM generate_series(1, 6) i;
CREATE DOMAIN loud AS text CHECK (VALUE = upper(VALUE));
CREATE TYPE pair AS (question text, reply text);
CREATE TABLE kinds (id int PRIMARY KEY, words text[], doc jsonb, p pair, v varchar(10), c char(6), d date, num numeric(6, 2));
INSERT INTO kinds VALUES
    (1, '{one,two}', '{"q": "is it", "n": 1}', ROW('why', NULL), 'vary', 'fixed', '2024-02-29', 1.50),
    (2, '{}', '{"q": null}', NULL, NULL, 'pad', NULL, NULL),
    (3, '{three,NULL,four}', NULL, ROW(NULL, 'no'), 'last', NULL, '1999-12-31', -7);

-- keys, constraints, triggers
CREATE TABLE parents (id int PRIMARY KEY, name text);
CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE, name text);
INSERT INTO parents VALUES (1, 'adam'), (2, 'eve'), (3, 'nobody');
INSERT INTO children VALUES (1, 1, 'cain'), (2, 2, 'abel'), (3, 2, NULL);
CREATE TABLE inbox (id int PRIMARY KEY, body text UNIQUE, answer text DEFAULT 'none', twice text GENERATED ALWAYS AS (body || body) STORED);
INSERT INTO inbox (id, body) VALUES (1, 'old one'), (2, 'old two');
CREATE TABLE checked (t text CHECK (llm_generate(t) LIKE 'GOOD%'));
CREATE TABLE defaulted (id int, t text DEFAULT llm_generate('the default'));
CREATE TABLE log (at serial, line text);
CREATE SEQUENCE s;

CREATE FUNCTION answer_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log (line) SELECT 'answered ' || llm_generate(body) FROM fresh ORDER BY id;
    RETURN NULL;
END $$;
CREATE TABLE by_statement (id int, body text);
CREATE TRIGGER ins AFTER INSERT ON by_statement REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION answer_all();
CREATE TRIGGER upd AFTER UPDATE ON by_statement REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION answer_all();
CREATE FUNCTION answer_one() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.body := llm_generate(NEW.body);
    RETURN NEW;
END $$;
CREATE TABLE by_row (id int, body text);
CREATE TRIGGER ins BEFORE INSERT OR UPDATE ON by_row FOR EACH ROW EXECUTE FUNCTION answer_one();

-- functions
CREATE FUNCTION ask(t text) RETURNS text LANGUAGE sql AS $$SELECT llm_generate('ask ' || t) || '!'$$;
CREATE FUNCTION ask_strict(t text) RETURNS text LANGUAGE sql STRICT AS $$SELECT llm_generate('strict ' || t)$$;
CREATE FUNCTION ask_definer(t text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT llm_generate('definer ' || t)$$;
CREATE FUNCTION ask_docs(lowest int) RETURNS TABLE (id int, a text) LANGUAGE sql AS $$SELECT id, llm_generate(body) FROM w.docs WHERE id >= lowest ORDER BY id$$;
CREATE FUNCTION ask_pl(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE a text;
BEGIN
    a := llm_generate('pl ' || t);
    RETURN a || '.';
END $$;
CREATE FUNCTION ask_nested(lowest int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT string_agg(llm_generate(body), '/' ORDER BY id) FROM w.docs WHERE id > lowest);
END $$;
CREATE FUNCTION loop_docs(highest int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    FOR r IN SELECT id, llm_generate(body) AS a FROM w.docs ORDER BY id LOOP
        EXIT WHEN r.id > highest;
        RETURN NEXT r.id || ': ' || coalesce(r.a, '-');
    END LOOP;
END $$;
CREATE FUNCTION query_docs() RETURNS SETOF text LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT llm_generate(body) FROM w.docs ORDER BY id; END $$;
CREATE FUNCTION noisy(t text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$BEGIN INSERT INTO w.log (line) VALUES (t); RETURN t; END $$;
CREATE FUNCTION good(a text) RETURNS bool LANGUAGE sql AS $$SELECT a LIKE '%YES'$$;
CREATE FUNCTION variadic_join(VARIADIC t text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT array_to_string(t, '+')$$;
CREATE AGGREGATE cat (text) (SFUNC = textcat, STYPE = text, INITCOND = '');
CREATE OPERATOR ~~> (FUNCTION = textcat, LEFTARG = text, RIGHTARG = text);

-- views, policies
CREATE VIEW asked AS SELECT id, llm_generate(body) AS a, body FROM docs;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, body FROM docs WHERE flag;
CREATE TABLE secrets (id int PRIMARY KEY, owner name, body text);
INSERT INTO secrets VALUES (1, 'batch_reader', 'mine one'), (2, 'somebody', 'not mine'), (3, 'batch_reader', 'mine yes'), (4, 'somebody', 'hidden yes');
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secrets USING (owner = current_user);
GRANT SELECT ON ALL TABLES IN SCHEMA w TO batch_reader;
GRANT INSERT, UPDATE, DELETE ON secrets, log TO batch_reader;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA w TO batch_reader;
COMMIT;
ANALYZE docs, tags, many, parts, wide, kinds, bad;
