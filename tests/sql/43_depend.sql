-- What uses a model keeps it from being dropped, or goes with it
\pset format unaligned
\set VERBOSITY default
CREATE ROLE regress_depend_owner;
CREATE ROLE regress_depend_other;
SELECT llm_create_model(m, '/fake/' || m) FROM unnest(ARRAY['dep', 'free']) m;
UPDATE vllm.model SET owner = 'regress_depend_owner' WHERE name = 'dep';
SELECT llm_grant('dep', 'regress_depend_other');
-- what nobody uses goes without more ado; what is named in itself, or by those who may not use it, is not used
SELECT llm_create_model('names', '/fake/names', options => '{"fallback": ["free", "gone"]}');
SELECT llm_drop_model('names');
SELECT llm_drop_model('free');
-- users of each kind, of the superuser and of another role
CREATE TABLE dep_docs (id int PRIMARY KEY, body text, answer text, v real[]);
INSERT INTO dep_docs VALUES (1, 'a');
SELECT llm_create_completion_job('dep_docs', 'Say {body}', 'answer', model => 'dep', backfill => 'none', name => 'dep_job');
CREATE TABLE dep_parts (id int, body text, v real[]) PARTITION BY RANGE (id);
CREATE TRIGGER fill BEFORE INSERT ON dep_parts FOR EACH ROW EXECUTE FUNCTION llm_embed_trigger('body', 'v', 'dep');
CREATE TABLE dep_part1 PARTITION OF dep_parts FOR VALUES FROM (1) TO (10);
CREATE TRIGGER none BEFORE INSERT ON dep_docs FOR EACH ROW EXECUTE FUNCTION llm_embed_trigger('body', 'v');
CREATE TRIGGER wrong BEFORE INSERT ON dep_docs FOR EACH ROW EXECUTE FUNCTION llm_generate_trigger('body', 'answer', 'dep');
CREATE SCHEMA regress_depend AUTHORIZATION regress_depend_other;
SET ROLE regress_depend_other;
CREATE TABLE regress_depend.theirs (id int PRIMARY KEY, body text, answer text);
SELECT llm_create_completion_job('regress_depend.theirs', 'Say {body}', 'answer', model => 'dep', backfill => 'none', name => 'their_job');
RESET ROLE;
SELECT llm_create_model('falls', '/fake/falls', options => '{"max_model_len": 64, "fallback": ["x\"y", "dep"], "dtype": "float32"}');
SELECT llm_create_model('passes', '/fake/passes', options => '{"cascade": {"to": "dep", "threshold": -1}, "fallb\u0061ck": "dep"}');
SELECT llm_create_model('alone', '/fake/alone', options => '{"fallback": "dep"}');
UPDATE vllm.model SET owner = 'regress_depend_other' WHERE name = 'alone';
-- one whose owner may not use it: any name may stand there
SELECT llm_create_model('nobody', '/fake/nobody', options => '{"fallback": "dep"}');
CREATE ROLE regress_depend_hostile;
UPDATE vllm.model SET owner = 'regress_depend_hostile' WHERE name = 'nobody';
SELECT llm_create_lora('dep_ad', 'dep', '/fake/adapters/dep');
SELECT llm_create_model('to_ad', '/fake/to_ad', options => '{"fallback": "dep_ad"}');
-- refused: to who sees all, and to the owner, who doesn't see other roles' jobs and options
SELECT llm_drop_model('dep');
SET ROLE regress_depend_owner;
SELECT llm_drop_model('dep', cascade => false);
SELECT llm_drop_model('dep', cascade => NULL);
RESET ROLE;
-- undone
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT llm_drop_model('dep', cascade => true);
SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('dep_docs'::regclass, 'dep_parts'::regclass, 'dep_part1'::regclass) AND NOT tgisinternal;
ROLLBACK;
SELECT name FROM llm_jobs WHERE name IN ('dep_job', 'their_job') ORDER BY 1;
-- by the owner, with all that uses it
SET ROLE regress_depend_owner;
SELECT llm_drop_model('dep', cascade => true);
RESET ROLE;
SELECT name FROM llm_jobs WHERE name IN ('dep_job', 'their_job');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid IN ('dep_docs'::regclass, 'dep_parts'::regclass, 'dep_part1'::regclass, 'regress_depend.theirs'::regclass)
    AND NOT tgisinternal ORDER BY 1, 2;
SELECT name, options FROM vllm.model WHERE name IN ('falls', 'passes', 'alone', 'nobody', 'to_ad') ORDER BY 1;
SELECT llm_generate('still there', model => 'falls');
-- an adapter's name counts as the job's model
SELECT llm_create_model('base2', '/fake/base2');
SELECT llm_create_lora('ad2', 'base2', '/fake/adapters/ad2');
SELECT llm_create_completion_job('dep_docs', 'Say {body}', 'answer', model => 'ad2', backfill => 'none', name => 'ad_job');
SELECT llm_drop_lora('ad2');
SELECT llm_drop_lora('ad2', cascade => NULL);
BEGIN;
SELECT llm_drop_lora('ad2', cascade => true);
SELECT name FROM llm_jobs WHERE name = 'ad_job';
ROLLBACK;
-- options of others, triggers, and who may not see a job
SELECT llm_create_model('to_ad2', '/fake/to_ad2', options => '{"fallback": ["ad2", "x"]}');
UPDATE vllm.lora SET owner = 'regress_depend_owner' WHERE name = 'ad2';
SET ROLE regress_depend_owner;
SELECT llm_drop_lora('ad2');
RESET ROLE;
SET ROLE regress_depend_other;
SELECT llm_drop_lora('ad2', cascade => true);
RESET ROLE;
SELECT llm_drop_model('to_ad2');
SELECT llm_drop_model('base2');
SELECT llm_drop_model('base2', cascade => true);
SET client_min_messages = warning;
SELECT llm_drop_model(m) FROM unnest(ARRAY['falls', 'passes', 'alone', 'nobody', 'to_ad']) m;
DROP TABLE dep_docs, dep_parts;
DROP SCHEMA regress_depend CASCADE;
DROP ROLE regress_depend_owner, regress_depend_other, regress_depend_hostile;
