-- Every object of the extension has a comment, and so has every column of its views and public types.
CREATE VIEW members AS SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = 'vllm_pg';
CREATE VIEW members_with_columns AS SELECT c.oid, a.attnum, a.attname FROM members d
LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid AND t.typnamespace <> 'vllm'::regnamespace
JOIN pg_class c ON c.oid = CASE d.classid WHEN 'pg_class'::regclass THEN d.objid ELSE t.typrelid END
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('v', 'c');
SELECT pg_describe_object(classid, objid, 0) AS without_comment FROM members
WHERE obj_description(objid, classid::regclass::name) IS NULL ORDER BY 1;
SELECT oid::regclass AS relation, attname AS column_without_comment FROM members_with_columns
WHERE col_description(oid, attnum) IS NULL ORDER BY 1, attnum;
-- a comment is one short sentence in one line
SELECT description FROM (SELECT obj_description(objid, classid::regclass::name) AS description FROM members
    UNION ALL SELECT col_description(oid, attnum) FROM members_with_columns) c
WHERE description !~ '\.$' OR length(description) > 100 OR strpos(description, E'\n') > 0 ORDER BY 1;
SELECT (SELECT count(*) FROM members) > 250 AS objects, (SELECT count(*) FROM members_with_columns) > 300 AS columns;
DROP VIEW members_with_columns, members;
