-- JSON schemas as grammars, asked of without a model.
\set SHOW_CONTEXT never
SELECT llm_grammar_accepts('{"type": "integer", "minimum": 3}', '3') AS yes, llm_grammar_accepts('{"type": "integer", "minimum": 3}', '2') AS no;
SELECT instance, llm_grammar_accepts('{"properties": {"a": {"type": "string"}, "b": {"$ref": "#"}}, "required": ["a"]}', instance)
FROM (VALUES ('{"a": "x"}'), (' {"z" : [1, 2.5e3, null],"a":"\u00e9"} '), ('{"b": {"a": ""}, "a": "y"}'), ('{"b": {}, "a": "y"}'), ('{}'), ('[]'), ('{"a": "x"'), ('')) t(instance);
SELECT llm_grammar_accepts(NULL, '1') IS NULL AS n1, llm_grammar_accepts('{}', NULL) IS NULL AS n2;
\set VERBOSITY terse
SELECT llm_grammar_accepts('{"type": "array", "uniqueItems": true}', '[1]');
SELECT llm_grammar_accepts('{"type": "strange"}', '1');
SELECT llm_grammar_accepts('{"$ref": "#/definitions/x"}', '1');
SELECT llm_grammar_accepts('{"pattern": "(?=x)"}', '1');
DO $$
BEGIN
    PERFORM llm_grammar_accepts('{"type": "array", "uniqueItems": true}', '[1]');
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'refused';
END $$;
DO $$
BEGIN
    PERFORM llm_grammar_accepts('{"type": 1}', '[1]');
EXCEPTION WHEN invalid_parameter_value THEN
    RAISE NOTICE 'invalid';
END $$;
