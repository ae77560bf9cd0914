-- llm_help(): every example is executed
\pset format unaligned
SELECT topic, string_agg(name, ' ' ORDER BY n) FROM llm_help() WITH ORDINALITY h (topic, name, description, example, n) GROUP BY topic ORDER BY min(n);
SELECT name, description FROM llm_help('classify');
SELECT name FROM llm_help() WHERE description IS NULL OR example IS NULL;
SELECT count(*) FROM llm_help(NULL) WHERE example !~ ';$';
SELECT llm_help('serch');
SELECT llm_help('');
CREATE TABLE docs (id int PRIMARY KEY, body text, summary text, embedding real[]);
INSERT INTO docs (id, body) VALUES (1, 'My parcel never arrived.'), (2, 'I was charged twice.');
SELECT llm_create_model('help_embed', '/fake/embed');
SET vllm.embedding_model = 'help_embed';
SET vllm.rerank_model = 'help_embed';
-- those that need what is not there fail for that reason, all others do not
\set VERBOSITY terse
DO $$
DECLARE
    h record;
BEGIN
    FOR h IN SELECT * FROM llm_help() LOOP
        BEGIN
            EXECUTE h.example;
            IF h.example ~ '/adapters/' THEN
                RAISE INFO '% works without a file', h.name;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            RAISE INFO '%: % %', h.name, SQLSTATE, SQLERRM;
        END;
    END LOOP;
END $$;
DROP TABLE docs;
SELECT llm_drop_model('help_embed');
