# ALTER EXTENSION vllm_pg UPDATE from the previous version gives the same as a fresh install: the same
# members, bodies, comments, grants, row-level security and configuration tables.  Neither runs code that
# others have put into the extension's schema before, nor does such code run when a superuser uses the
# extension.  Roles that may read or write all tables, or own the database, can read nothing in the
# extension's tables.
#
# tests/upgrade has the scripts of older versions, which make install leaves out (scripts/check.sh adds
# them).
use strict;
use warnings;
use Cwd qw(abs_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('upgrade');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.engine_args = '--fake'\nvllm.allowed_hosts = '127.0.0.1'\n");
$node->start;

# One line per member object with every visible property.
my $shape = q{
WITH x AS (SELECT oid, extconfig, extcondition FROM pg_extension WHERE extname = 'vllm_pg'),
	m AS (SELECT classid, objid FROM pg_depend, x WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND refobjid = x.oid)
SELECT line || ' comment=' || coalesce(obj_description(l.objid, l.class), '') FROM (
SELECT p.oid AS objid, 'pg_proc' AS class, 'function ' || p.oid::regprocedure || ' ' || pg_get_function_arguments(p.oid) || ' -> ' || coalesce(pg_get_function_result(p.oid), '')
	|| format(' %s %s %s %s %s %s %s %s %s', p.provolatile, p.proparallel, p.procost, p.prorows, p.proisstrict, p.prosecdef, p.prosupport, p.prosrc, p.proconfig)
	|| coalesce(CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END, '')
	|| coalesce((SELECT row(a.*)::text FROM pg_aggregate a WHERE a.aggfnoid = p.oid), '')
	|| ' owner=' || p.proowner::regrole || ' acl=' || coalesce((SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(p.proacl) a), '') AS line
	FROM m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
UNION ALL
SELECT c.oid, 'pg_class', 'relation ' || c.oid::regclass || ' ' || c.relkind::text || ' owner=' || c.relowner::regrole || ' acl=' || coalesce((SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(c.relacl) a), '')
	|| ' config=' || coalesce((SELECT e.cond FROM x, unnest(x.extconfig, x.extcondition) e(relid, cond) WHERE e.relid = c.oid), '-')
	|| ' rls=' || c.relrowsecurity || c.relforcerowsecurity || ' options=' || coalesce(c.reloptions::text, '')
	|| coalesce((SELECT string_agg(format('%s %s %s %s %s', polname, polcmd, polroles, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)), ';' ORDER BY polname)
		FROM pg_policy WHERE polrelid = c.oid), '')
	|| ' (' || (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull::text || ' ' || coalesce(pg_get_expr(adbin, adrelid), '')
			|| coalesce(attacl::text, '') || coalesce(col_description(c.oid, attnum), ''), ', ' ORDER BY attnum)
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
	|| ') ' || coalesce(CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END, '')
	|| coalesce((SELECT string_agg(pg_get_constraintdef(oid), ';' ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid), '')
	|| coalesce((SELECT string_agg(pg_get_indexdef(indexrelid), ';' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid), '')
	|| coalesce((SELECT string_agg(pg_get_triggerdef(oid), ';' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid), '')
	|| coalesce((SELECT row(seqtypid, seqstart, seqincrement, seqmin, seqmax, seqcycle)::text FROM pg_sequence WHERE seqrelid = c.oid), '')
	FROM m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
UNION ALL
SELECT m.objid, m.classid::regclass::text, 'other ' || pg_describe_object(classid, objid, 0)
	|| coalesce((SELECT nspacl::text FROM pg_namespace n WHERE m.classid = 'pg_namespace'::regclass AND n.oid = m.objid), '')
	|| coalesce((SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || coalesce(col_description(t.typrelid, attnum), ''), ', '
			ORDER BY attnum) FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
		WHERE m.classid = 'pg_type'::regclass AND t.oid = m.objid AND t.typtype = 'c'), '')
	|| coalesce((SELECT row(evtevent, evtfoid::regprocedure, evtenabled, evttags)::text FROM pg_event_trigger v WHERE m.classid = 'pg_event_trigger'::regclass AND v.oid = m.objid), '')
	FROM m WHERE classid NOT IN ('pg_proc'::regclass, 'pg_class'::regclass)
) l ORDER BY line COLLATE "C"};

$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION vllm_pg');
my $version = $node->safe_psql('fresh', q{SELECT extversion FROM pg_extension WHERE extname = 'vllm_pg'});
my $fresh = $node->safe_psql('fresh', $shape);
cmp_ok(scalar(split /\n/, $fresh), '>', 20, 'the fresh install has its members');
my $fresh_rows = $node->safe_psql('fresh', 'SELECT * FROM vllm.model ORDER BY 1');

for my $v ('0.9')
{
	(my $db = "from_$v") =~ s/\W/_/g;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION vllm_pg VERSION '$v'");
	# the library is newer than this catalog until the extension is updated
	is($node->safe_psql($db, q{SELECT llm_generate('old catalog'), (llm_generate_full('old catalog')).text,
		llm_count_tokens('old catalog') > 0, (SELECT state FROM llm_stat_engine), (SELECT count(*) FROM llm_models)}),
		'OLD CATALOG|OLD CATALOG|t|ready|1', "a catalog of $v works with this library");
	is($node->safe_psql($db, q{SELECT llm_create_model('old', '/fake/old', options => '{"result_cache": true}');
		SELECT llm_generate('a model', model => 'old', temperature => 0); SELECT llm_drop_model('old')}), "\nA MODEL\n", '... and its models come and go');
	is($node->safe_psql($db, q{CREATE TABLE vecs (id int, v real[], c bit(2)); INSERT INTO vecs VALUES (1, '{1,0}', b'10'), (2, '{0,1}', b'01');
		SELECT string_agg(id::text, ',') FROM llm_nearest('{1,0.1}'::real[], 'vecs', 'v', 2) n JOIN vecs p ON p.ctid = n.row_id;
		SELECT id FROM llm_nearest_rows(NULL::vecs, '{0,1}'::real[], 'v', 1, codes => 'c'); DROP TABLE vecs}), "1,2\n2", '... and the nearest vectors are found');
	$node->safe_psql($db, q{CREATE FUNCTION low(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT pg_catalog.lower(t)';
		CREATE TABLE docs (id int PRIMARY KEY, a text, b text); INSERT INTO docs VALUES (1, 'One');
		SELECT llm_create_completion_job('docs', input => 'public.low(a)', target_column => 'b', name => 'old')});
	ok($node->poll_query_until($db, "SELECT b = 'ONE' FROM docs WHERE id = 1"), '... and its jobs run');
	# views and grants on functions that get new arguments
	$node->safe_psql($db, qq{CREATE ROLE ${db}_role;
		CREATE VIEW answers AS SELECT llm_generate('view of a ' || 'function', max_tokens => 50) AS a, llm_generate('b', 20) AS b,
			(llm_generate_full('c')).finish_reason AS c;
		REVOKE EXECUTE ON FUNCTION llm_generate FROM public; GRANT EXECUTE ON FUNCTION llm_generate TO ${db}_role;
		REVOKE EXECUTE ON FUNCTION llm_cosine_distance, llm_similarity(real[], real[]), llm_nearest(real[], regclass, name, int, text, text, name, int) FROM public;
		GRANT EXECUTE ON FUNCTION llm_cosine_distance TO ${db}_role WITH GRANT OPTION;
		CREATE VIEW distances AS SELECT llm_cosine_distance(ARRAY[1, 2], '{2,1}') AS a, llm_cosine_distance('{1,2}', '{2,1}'::real[]) AS b, llm_similarity('{1}'::real[], '{1}'::real[]) AS c});
	# a function that gets new columns
	$node->safe_psql($db, q{DO $$ BEGIN IF to_regproc('llm_chat_stream') IS NOT NULL THEN
		CREATE VIEW streamed AS SELECT * FROM llm_chat_stream('[{"role": "user", "content": "view of a stream"}]', max_tokens => 50);
		END IF; END $$});
	# a job that 0.9 had given to a new owner without asking
	$node->safe_psql($db, q{INSERT INTO vllm.job VALUES (99, 'left', 'completion', current_user::regrole, 1, '{id}', '{a}', 'src.a', 'b', NULL, 'm', 'llm_generate', '', 'none', NULL, NULL,
		5, 0, NULL, NULL, 'failed', 'the source has a new owner, as whom the job will run: look at its input, then call llm_resume_job()', now())});
	my $looks = q{SELECT oid, proacl::text, pg_get_viewdef('answers') FROM pg_proc WHERE proname = 'llm_generate' AND proargtypes[0] = 'text'::regtype};
	my $before = $node->safe_psql($db, $looks);
	my $session = $node->background_psql($db);
	is($session->query_safe('PREPARE old AS SELECT a, b, c FROM answers; EXECUTE old'), 'VIEW OF A FUNCTION|B|stop', "a view in $v");
	$node->safe_psql($db, 'ALTER EXTENSION vllm_pg UPDATE');
	is($session->query_safe('EXECUTE old'), 'VIEW OF A FUNCTION|B|stop', "update from $v: a prepared statement goes on");
	$session->quit;
	$node->safe_psql($db, q{INSERT INTO docs VALUES (2, 'Two')});
	ok($node->poll_query_until($db, "SELECT b = 'TWO' FROM docs WHERE id = 2"), "update from $v: its job runs");
	is($node->safe_psql($db, q{SELECT uses FROM vllm.job WHERE name = 'old'}), '{"function public.low(pg_catalog.text) of a superuser"}', "update from $v: what its input uses is recorded");
	$node->safe_psql($db, q{SELECT llm_drop_job('old'); DROP TABLE docs; DROP FUNCTION low});
	is($node->safe_psql($db, $looks), $before, "update from $v: the function, its grants and a view of it stay");
	is($node->safe_psql($db, qq{SELECT count(*), count(DISTINCT proacl::text), bool_and(has_function_privilege('${db}_role', oid, 'EXECUTE')) FROM pg_proc WHERE proname = 'llm_generate'}), '2|1|t',
		"update from $v: the function of token ids has the same grants");
	my $rights = q{SELECT proname, count(*), count(DISTINCT proacl::text), bool_or(has_function_privilege('pg_monitor', oid, 'EXECUTE')), min(proacl::text) LIKE '%role=X*/%' FROM pg_proc
		WHERE proname IN ('llm_cosine_distance', 'llm_similarity', 'llm_nearest') AND proargtypes[0] <> 'text'::regtype GROUP BY 1 ORDER BY 1};
	is($node->safe_psql($db, $rights), "llm_cosine_distance|2|1|f|t\nllm_nearest|2|1|f|f\nllm_similarity|2|1|f|f", "update from $v: so have those of other vectors");
	$node->safe_psql('postgres', "CREATE DATABASE again_$db");
	$node->command_ok([ 'pg_dump', '-d', $node->connstr($db), '-f', $node->basedir . "/$db.sql" ], "update from $v: pg_dump");
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr("again_$db"), '-f', $node->basedir . "/$db.sql" ], '... and restore');
	is($node->safe_psql("again_$db", $rights), $node->safe_psql($db, $rights), '... keep these rights');
	is($node->safe_psql("again_$db", 'SELECT * FROM distances'), $node->safe_psql($db, 'SELECT * FROM distances'), '... and views');
	is($node->safe_psql($db, q{SELECT * FROM answers}), 'VIEW OF A FUNCTION|B|stop', "update from $v: the view goes on");
	is($node->safe_psql($db, q{SELECT string_agg(text, '' ORDER BY seq) || max(finish_reason) FROM streamed; DROP VIEW streamed}), 'USER: VIEW OF A STREAM ASSISTANT:stop',
		"update from $v: so does one of a function that has new columns") if $v >= 0.4;
	is($node->safe_psql($db, q{SELECT llm_generate('a b c', max_tokens => 1, presence_penalty => NULL, logit_bias => NULL)}), 'A',
		"update from $v: there are new arguments");
	is($node->safe_psql($db, q{SELECT llm_create_lora('red', 'tickets-2m', '/fake/adapters/red'); SELECT llm_generate('a b', lora => 'red'), llm_drop_lora('red')}),
		"\n[red] A B|", "update from $v: and adapters");
	$node->safe_psql($db, q{UPDATE pg_proc SET proacl = NULL WHERE proname IN ('llm_generate', 'llm_cosine_distance', 'llm_similarity', 'llm_nearest'); DROP VIEW answers, distances});
	is($node->safe_psql($db, $shape), $fresh, "update from $v equals a fresh install");
	is($node->safe_psql($db, 'SELECT * FROM vllm.model ORDER BY 1'), $fresh_rows, "update from $v: the same rows");
	is($node->safe_psql($db, 'SELECT owner FROM vllm.job'), '-', "update from $v: the new owner of a job's table has not agreed to it");
	$node->safe_psql($db, 'DELETE FROM vllm.job');
}

# dump and restore keeps the user's models
$node->safe_psql('fresh', q{SELECT llm_create_model('mine', '/fake/ready'); SELECT llm_grant('mine', 'public');
	SELECT llm_create_lora('tuned', 'mine', '/fake/adapters/tuned'), llm_create_lora('bundled_tuned', 'tickets-2m', '/fake/adapters/other'), llm_grant('tuned', 'public');
	CREATE ROLE owner; CREATE ROLE leaver; SELECT llm_create_api_key('kept', 'owner'), llm_create_api_key('lost', 'leaver');
	GRANT pg_read_server_files TO leaver; GRANT CREATE ON SCHEMA public TO leaver; CREATE ROLE "-"; CREATE ROLE "Odd, name"; SET ROLE leaver;
	SELECT llm_create_model('left', '/fake/ready'), llm_create_lora('left_tuned', 'left', '/fake/adapters/left'), llm_grant('left', 'owner');
	CREATE TABLE left_docs (id int PRIMARY KEY, body text, v real[]); SELECT llm_create_embedding_job('left_docs', 'body', 'v', name => 'left_job'); RESET ROLE;
	ALTER TABLE left_docs OWNER TO owner;
	SELECT llm_grant('mine', 'leaver'), llm_grant('mine', '-'), llm_grant('mine', 'Odd, name'), llm_grant('tuned', 'leaver'), llm_create_model('closed', '/fake/ready'), llm_grant('closed', 'leaver');
	DROP OWNED BY leaver; DROP ROLE leaver});
my $leaver = $node->safe_psql('fresh', q{SELECT owner::oid FROM vllm.model WHERE name = 'left'});
$node->safe_psql('fresh', "UPDATE vllm.job SET owner = $leaver");    # the event triggers were off
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('fresh'), '-f', $dump ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
my $models = q{SELECT name, path, options, provider, url, CASE owner::oid WHEN 1 THEN %s ELSE owner::oid END AS owner, array_remove(grantees::oid[], %s) AS grantees FROM vllm.%s ORDER BY 1};
is($node->safe_psql('restored', sprintf($models, $leaver, 2, 'model')), $node->safe_psql('fresh', sprintf($models, $leaver, $leaver, 'model')), 'models travel with pg_dump');
is($node->safe_psql('restored', q{SELECT llm_generate('hello there', model => 'mine')}), 'HELLO THERE', 'and work there');
$models =~ s/path, options, provider, url/model, path, created/;
is($node->safe_psql('restored', sprintf($models, $leaver, 2, 'lora')), $node->safe_psql('fresh', sprintf($models, $leaver, $leaver, 'lora')), 'adapters travel, too');
is($node->safe_psql('restored', q{SELECT llm_generate('hello there', lora => 'tuned'), llm_generate('hello there', model => 'bundled_tuned')}),
	'[tuned] HELLO THERE|[other] HELLO THERE', 'and work there');
# the number of a dropped role may be another role's there: the model has no owner, and the grant is void
my $numbers = q{SELECT name, owner, grantees FROM vllm.model WHERE name IN ('left', 'closed') UNION ALL SELECT name, owner, grantees FROM vllm.lora WHERE name = 'left_tuned'
	UNION ALL SELECT name, owner, NULL FROM vllm.job ORDER BY 1};
is($node->safe_psql('fresh', $numbers), "closed|postgres|{$leaver}\nleft|$leaver|{owner}\nleft_job|$leaver|\nleft_tuned|$leaver|{}", 'rows have the numbers of roles that are gone');
is($node->safe_psql('restored', $numbers), "closed|postgres|{}\nleft|1|{owner}\nleft_job|-|\nleft_tuned|1|{}",
	'restored ones have not; a job is nobody\'s, and rests');
unlike(slurp_file($dump), qr/\b$leaver\b/, 'nor has the dump');
is($node->safe_psql('restored', q{SELECT has_grant FROM (SELECT grantees::text AS has_grant FROM vllm.model WHERE name = 'mine') m}), '{-,"\"-\"","\"Odd, name\""}', 'odd names are kept apart from PUBLIC');
is($node->safe_psql('restored', q{SET ROLE owner; SELECT llm_generate('hello there', model => 'left')}), 'HELLO THERE', 'grants to others hold');
$node->command_like([ 'pg_dump', '--inserts', '-d', $node->connstr('fresh') ], qr/INSERT INTO vllm.model VALUES \('left', '\/fake\/ready', NULL, 'local', NULL, '1', '\{owner\}', false\)/, 'a dump of INSERTs has no number either');
# a key of a dropped role would be dumped with a number, which another role may have there
is($node->safe_psql('fresh', 'SELECT string_agg(name, $$ $$ ORDER BY name) FROM vllm.api_key'), 'kept lost', 'there are two API keys');
is($node->safe_psql('restored', 'SELECT name, role, state FROM llm_api_keys'), 'kept|owner|active', 'that of a role that is there travels');
is($node->safe_psql('restored', 'SELECT count(*) FROM vllm.api_key'), '1', 'and no other');

# ---- access to the catalog tables ----

my $tables = q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_depend JOIN pg_class c ON c.oid = objid WHERE classid = 'pg_class'::regclass
	AND deptype = 'e' AND refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vllm_pg') AND relkind IN ('r', 'p', 'm')};
$node->safe_psql('postgres', q{CREATE ROLE writer LOGIN; GRANT pg_write_all_data TO writer; CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader;
	CREATE ROLE dbowner LOGIN; CREATE ROLE tabowner LOGIN; CREATE DATABASE shared OWNER dbowner});
$node->safe_psql('shared', q{CREATE EXTENSION vllm_pg; GRANT CREATE ON SCHEMA public TO tabowner;
	SELECT llm_create_model('mine', '/fake/ready', options => '{"result_cache": true}'), llm_create_lora('tuned', 'mine', '/fake/adapters/tuned'), llm_create_api_key('key', 'postgres'),
		llm_create_model('far', provider => 'openai', url => 'http://127.0.0.1:1/v1');
	SELECT llm_set_secret('far', 's3cret'), llm_grant('far', 'public');
	SELECT llm_generate('kept', model => 'mine', temperature => 0), v1_responses('{"model": "tickets-2m", "input": "mine"}');
	ALTER SYSTEM SET vllm.job_workers = 0});
$node->reload;
$node->safe_psql('shared', q{CREATE TABLE docs (id int PRIMARY KEY, body text, v real[]); ALTER TABLE docs OWNER TO tabowner; SET ROLE tabowner;
	SELECT llm_create_embedding_job('docs', 'body', 'v'); INSERT INTO docs VALUES (1, 'one'), (2, 'two'); RESET ROLE;
	INSERT INTO vllm.job_failure SELECT id, 1, '{1}', 1, 'XX000', 'a message', now() FROM vllm.job});
is($node->safe_psql('shared', $tables), 'api_key job job_failure job_queue job_stat lora model response result_cache secret', 'tables of the extension');
is($node->safe_psql('shared', q{SELECT count(*) FROM pg_depend JOIN pg_class c ON c.oid = objid WHERE classid = 'pg_class'::regclass
	AND deptype = 'e' AND refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vllm_pg') AND relkind = 'r' AND NOT relrowsecurity}),
	'0', '... all have row-level security');
my $try = q{
CREATE FUNCTION pg_temp.tried(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE query;
	GET DIAGNOSTICS n = ROW_COUNT;
	RAISE EXCEPTION USING ERRCODE = 'YY000', MESSAGE = n;		-- undone
EXCEPTION WHEN insufficient_privilege THEN
	RETURN 0;
WHEN sqlstate 'YY000' THEN
	RETURN SQLERRM;
WHEN others THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
};
# one row of each, as text, to be inserted again
my %row = map { my ($t, $r) = split /\t/, $_, 2; ($t => $r) } split /\n/, $node->safe_psql('shared',
	join(' UNION ALL ', map { "(SELECT '$_' || E'\\t' || quote_literal(x::text) FROM vllm.$_ x LIMIT 1)" } split / /, $node->safe_psql('shared', $tables)));
is(scalar(keys %row), 10, '... and rows');
my $rows = join(' UNION ALL ', map { "SELECT '$_', md5(string_agg(x::text, ' ' ORDER BY x::text)) FROM vllm.$_ x" } sort keys %row);
my $before = $node->safe_psql('shared', $rows);
for my $role (qw(writer reader dbowner tabowner))
{
	my @sql;
	for my $t (sort keys %row)
	{
		push @sql, "SELECT 'SELECT $t', pg_temp.tried('SELECT FROM vllm.$t')", "SELECT 'INSERT $t', pg_temp.tried(\$q\$INSERT INTO vllm.$t SELECT ($row{$t}::vllm.$t).*\$q\$)",
			"SELECT 'DELETE $t', pg_temp.tried('DELETE FROM vllm.$t')", "SELECT 'TRUNCATE $t', pg_temp.tried('TRUNCATE vllm.$t')",
			"SELECT 'trigger $t', pg_temp.tried('CREATE TRIGGER x BEFORE UPDATE ON vllm.$t EXECUTE FUNCTION vllm.job_wake()')",
			"SELECT 'policy $t', pg_temp.tried('CREATE POLICY x ON vllm.$t')", "SELECT 'rls $t', pg_temp.tried('ALTER TABLE vllm.$t DISABLE ROW LEVEL SECURITY')",
			"SELECT 'statistics $t', count(*) FROM pg_stats WHERE schemaname = 'vllm' AND tablename = '$t'";
		my $column = $node->safe_psql('shared', "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = 'vllm.$t'::regclass AND attnum = 1");
		push @sql, "SELECT 'UPDATE $t', pg_temp.tried('UPDATE vllm.$t SET $column = $column')";
	}
	push @sql, q{SELECT 'CREATE', pg_temp.tried('CREATE TABLE vllm.x ()')}, q{SELECT 'views', (SELECT count(*) FROM llm_api_keys) + (SELECT count(*) FROM llm_job_failures)} if $role ne 'tabowner';
	my ($rc, $out, $err) = $node->psql('shared', $try . join(';', @sql), connstr => $node->connstr('shared') . " user=$role");
	is(join(' ', grep { !/\|0$/ } split /\n/, $out) . $err, '', "$role finds nothing in any table of the extension, and changes nothing");
	is($node->safe_psql('shared', $rows), $before, '... and so it is');
}
# allowed uses still work: the owner's view of the job, and functions of others
is($node->safe_psql('shared', q{SELECT name, state FROM llm_jobs}, connstr => $node->connstr('shared') . ' user=tabowner'), 'docs_embedding|active', 'the owner of a job sees it');
is($node->safe_psql('shared', q{SELECT llm_generate('a b'); SELECT (v1_responses('{"model": "tickets-2m", "input": "c"}') ->> 'object'), count(*) FROM vllm.response;
	SELECT count(*) FROM llm_models WHERE name = 'far'; SELECT llm_pause_job('docs_embedding'); SELECT llm_resume_job('docs_embedding');
	SELECT llm_alter_job('docs_embedding', priority => 3); INSERT INTO docs VALUES (3, 'three'); ALTER TABLE docs RENAME COLUMN body TO text},
	connstr => $node->connstr('shared') . ' user=tabowner'), "A B\nresponse|0\n1\n\n\n", 'functions and triggers work for who may not read the tables');
is($node->safe_psql('shared', q{SELECT count(*) FROM vllm.job_queue}), '3', '... which have what they wrote');
is($node->safe_psql('shared', q{SELECT priority, input FROM llm_jobs}), '3|src.text', '... and changed');
# settings of the database are set by its owner, and apply to the worker's session, too
$node->safe_psql('shared', q{ALTER DATABASE shared SET role = dbowner; ALTER DATABASE shared SET search_path = nowhere; ALTER DATABASE shared SET row_security = off;
	ALTER DATABASE shared SET transform_null_equals = on; ALTER DATABASE shared SET standard_conforming_strings = off}, connstr => $node->connstr('shared') . ' user=dbowner');
$node->safe_psql('shared', 'SET ROLE NONE; GRANT SELECT ON public.docs TO dbowner');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET vllm.job_workers');
$node->reload;
ok($node->poll_query_until('shared', 'SELECT count(*) = 3 FROM public.docs WHERE v IS NOT NULL'), "the worker does the rest, whatever the database's owner sets");

# ---- which code runs ----
#
# mallory may create objects in the extension's schema and makes everything that could match its names
# there: operators of all pairs of types, functions with pg_catalog's names, overloads of ours, types,
# domains and casts.  Each logs a line if a superuser runs it, makes mallory a superuser and fails.

my $hostile = q{
CREATE FUNCTION public.trap(what pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AND current_setting('application_name') <> 'checked' THEN
		RAISE LOG 'HOSTILE %', what;
		ALTER ROLE mallory SUPERUSER;
	END IF;
	RETURN true;
END $$;
DO LANGUAGE plpgsql $$
DECLARE
	types text[] := '{int2,int4,int8,oid,text,name,varchar,"\"char\"",bool,float4,float8,numeric,json,jsonb,timestamptz,interval,bytea,regclass,regproc,regtype,regrole,regnamespace,text[],name[],oid[],float4[]}';
	l text; r text; o text; f text; n int := 0;
BEGIN
	FOREACH l IN ARRAY types LOOP
		FOREACH r IN ARRAY types LOOP
			n := n + 1;
			FOREACH f IN ARRAY '{bool,text,float8}'::text[] LOOP
				EXECUTE pg_catalog.format('CREATE FUNCTION public.op_%s_%s(pg_catalog.%s, pg_catalog.%s) RETURNS pg_catalog.%s LANGUAGE plpgsql AS %L', f, n, l, r, f,
					pg_catalog.format('BEGIN PERFORM public.trap(%L); RETURN NULL; END', 'operator of ' || l || ', ' || r));
			END LOOP;
			FOREACH o IN ARRAY '{=,<>,<,>,<=,>=,~,~~,!~}'::text[] LOOP
				EXECUTE pg_catalog.format('CREATE OPERATOR public.%s (LEFTARG = pg_catalog.%s, RIGHTARG = pg_catalog.%s, FUNCTION = public.op_bool_%s)', o, l, r, n);
			END LOOP;
			FOREACH o IN ARRAY '{+,-,*,/,||,->,->>,#}'::text[] LOOP
				f := CASE WHEN o IN ('+', '-', '*', '/') THEN 'float8' ELSE 'text' END;
				EXECUTE pg_catalog.format('CREATE OPERATOR public.%s (LEFTARG = pg_catalog.%s, RIGHTARG = pg_catalog.%s, FUNCTION = public.op_%s_%s)', o, l, r, f, n);
			END LOOP;
		END LOOP;
		EXECUTE pg_catalog.format('CREATE FUNCTION public.neg(pg_catalog.%s) RETURNS pg_catalog.%1$s LANGUAGE plpgsql AS %L', l, 'BEGIN PERFORM public.trap(''minus''); RETURN $1; END');
		EXECUTE pg_catalog.format('CREATE OPERATOR public.- (RIGHTARG = pg_catalog.%s, FUNCTION = public.neg)', l);
	END LOOP;
	-- functions of the system: exactly, and of all types
	FOR l, f IN SELECT DISTINCT proname, pg_get_function_identity_arguments(oid) FROM pg_proc
		WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY ('{format,quote_ident,unnest,count,min,max,sum,exp,now,length,clock_timestamp,coalesce,substr,replace,concat,
			json_agg,json_build_object,json_object_agg,json_typeof,json_array_elements,pg_has_role,array_upper,array_length,string_agg,split_part,cardinality,nextval,row_number,concat_ws,
			json_each_text,to_json,gen_random_uuid,pg_partition_tree,bit_count,strpos,pg_extension_config_dump,generate_series,int4,int8,text,name}')
		AND NOT ('"any"'::regtype = ANY (proargtypes) OR 'internal'::regtype = ANY (proargtypes) OR 'anyelement'::regtype = ANY (proargtypes)) AND pg_get_function_identity_arguments(oid) !~ 'ORDER BY|any|OUT'
	LOOP
		EXECUTE pg_catalog.format('CREATE FUNCTION public.%I(%s) RETURNS pg_catalog.text LANGUAGE plpgsql AS %L', l, f, pg_catalog.format('BEGIN PERFORM public.trap(%L); RETURN NULL; END', l));
	END LOOP;
	FOREACH l IN ARRAY '{format,count,min,max,sum,json_agg,json_build_object,coalesce,quote_ident,exp,concat,length,json_typeof}'::text[] LOOP
		FOREACH r IN ARRAY types LOOP
			EXECUTE pg_catalog.format('CREATE OR REPLACE FUNCTION public.%I(pg_catalog.%s) RETURNS pg_catalog.text LANGUAGE plpgsql AS %L', l, r, pg_catalog.format('BEGIN PERFORM public.trap(%L); RETURN NULL; END', l || ' ' || r));
			EXECUTE pg_catalog.format('CREATE OR REPLACE FUNCTION public.%I(pg_catalog.text, pg_catalog.%s) RETURNS pg_catalog.text LANGUAGE plpgsql AS %L', l, r, pg_catalog.format('BEGIN PERFORM public.trap(%L); RETURN NULL; END', l || ' text, ' || r));
		END LOOP;
	END LOOP;
	-- overloads of ours
	FOREACH f IN ARRAY ARRAY['llm_embed(input text)', 'llm_embed(input text, model text)', 'llm_embed(input text, prompt_name text, instruction text, model text)',
		'llm_embed(input text, prompt_name text, instruction text, model text, lora text)', 'llm_generate(prompt text)', 'llm_generate(prompt text, model text)',
		'llm_generate(prompt text, max_tokens int, model text)', 'llm_generate(prompt text, max_tokens text, model text)',
		'llm_ask(prompt text)', 'llm_ask(prompt text, model text)', 'llm_ask(prompt text, max_tokens int, temperature float8, regex text, model text)', 'llm_filter(instruction text, input text)',
		'llm_filter(instruction text, input text, threshold float8, model text, template text)', 'llm_choose(prompt text, labels text[])',
		'llm_reduce(inputs text[], instruction text, split bool, model text)', 'llm_rerank(query text, documents text[], top_n int)',
		'llm_api(path text, body text, on_error text)', 'llm_api(path text, body json)', 'llm_api_stream(path text, body text, on_error text)', 'llm_run_batch(query text)',
		'llm_run_batch(query text, "window" text)', 'llm_score(query text, document text)', 'llm_chunk_text(input text, method text, model text)', 'llm_chunk_text(input text, method text, size int, model text)',
		'llm_l2_distance(a text, b real[])', 'llm_cosine_distance(a real[], b text)', 'llm_output(prompt text)', 'llm_nearest(real[], text, text, int, text, text, text, int)']
	LOOP
		EXECUTE pg_catalog.format('CREATE FUNCTION public.%s RETURNS pg_catalog.text LANGUAGE plpgsql AS %L', f, pg_catalog.format('BEGIN PERFORM public.trap(%L); RETURN NULL; END', f));
	END LOOP;
END $$;
CREATE TYPE public.pair AS (a pg_catalog.int4);
CREATE FUNCTION public.to_pair(pg_catalog.text) RETURNS public.pair LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('cast'); RETURN NULL; END$$;
CREATE FUNCTION public.to_text(public.pair) RETURNS pg_catalog.text LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('cast'); RETURN NULL; END$$;
CREATE CAST (pg_catalog.text AS public.pair) WITH FUNCTION public.to_pair(pg_catalog.text) AS IMPLICIT;
CREATE CAST (public.pair AS pg_catalog.text) WITH FUNCTION public.to_text(public.pair) AS IMPLICIT;
CREATE DOMAIN public.text AS pg_catalog.text CHECK (public.trap('domain text'));
CREATE DOMAIN public.name AS pg_catalog.name CHECK (public.trap('domain name'));
CREATE DOMAIN public.json AS pg_catalog.json CHECK (public.trap('domain json'));
CREATE DOMAIN public.bool AS pg_catalog.bool CHECK (public.trap('domain bool'));
CREATE DOMAIN public.int4 AS pg_catalog.int4 CHECK (public.trap('domain int4'));
CREATE DOMAIN public.int8 AS pg_catalog.int8 CHECK (public.trap('domain int8'));
CREATE DOMAIN public.oid AS pg_catalog.oid CHECK (public.trap('domain oid'));
CREATE DOMAIN public.float8 AS pg_catalog.float8 CHECK (public.trap('domain float8'));
CREATE DOMAIN public.float4 AS pg_catalog.float4 CHECK (public.trap('domain float4'));
CREATE DOMAIN public.timestamptz AS pg_catalog.timestamptz CHECK (public.trap('domain timestamptz'));
CREATE DOMAIN public.regclass AS pg_catalog.regclass CHECK (public.trap('domain regclass'));
CREATE DOMAIN public.regrole AS pg_catalog.regrole CHECK (public.trap('domain regrole'));
CREATE TABLE public.pg_proc (oid pg_catalog.oid);
CREATE TABLE public.pg_extension (oid pg_catalog.oid);
CREATE DOMAIN public.embedding AS pg_catalog.float4[];
CREATE FUNCTION public.llm_cosine_distance(public.embedding, pg_catalog.float4[]) RETURNS pg_catalog.float8 LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('distance'); RETURN 0; END$$;
CREATE TABLE public.vectors (id pg_catalog.int4 PRIMARY KEY, v public.embedding, r pg_catalog.float4[], body pg_catalog.text);
INSERT INTO public.vectors VALUES (1, '{1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}', '{1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}', 'body'), (2, NULL, NULL, 'more');
GRANT ALL ON public.vectors TO PUBLIC;
CREATE FUNCTION public.llm_nearest_rows(rows public.vectors, query pg_catalog.float4[], "column" pg_catalog.name, k pg_catalog.int4, metric pg_catalog.text, filter pg_catalog.text,
	codes pg_catalog.name, oversample pg_catalog.int4) RETURNS SETOF public.vectors LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('rows'); END$$;
};

sub log_since { return slurp_file($node->logfile, shift) }
sub hostile_lines { my %seen = map { $_ => 1 } log_since(shift) =~ /HOSTILE ([^\n]*)/g; return join ', ', sort keys %seen }
sub as_mallory
{
	my ($db, $sql) = @_;
	my ($rc, $out, $err) = $node->psql($db, $sql, on_error_stop => 1, connstr => $node->connstr($db) . ' user=mallory');
	is($err, '', "mallory prepares $db");
}
sub is_superuser { return $node->safe_psql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}) }

# Calls of a superuser, which qualify all names and have mallory's schema first: everything that runs SQL of
# its own.
my $calls = q{
SET search_path = public, pg_catalog;
TABLE pg_catalog.pg_class LIMIT 0;
} . join("\n", map { "TABLE public.$_;" } qw(llm_models llm_stat_model llm_memory llm_loras llm_futures llm_progress llm_jobs llm_job_failures llm_api_keys llm_pinned_prefixes llm_requests
	llm_stat_engine llm_devices llm_stat_query llm_stat_role llm_stat_remote llm_remote llm_stat_cost llm_stat_budget llm_stat_cache)) . q{
SELECT public.llm_create_api_key('k'::pg_catalog.text); SELECT public.llm_revoke_api_key('k'::pg_catalog.text); SELECT vllm.http_login('\x00'::pg_catalog.bytea);
SELECT public.v1_models(); SELECT public.v1_responses('{"model": "tickets-2m", "input": "a"}'::pg_catalog.json); SELECT public.v1_responses_get('resp_x'::pg_catalog.text);
SELECT vllm.store_response('{"previous_response_id": "1", "input": "a"}'::pg_catalog.json, '{"id": "2", "output": []}'::pg_catalog.json);
SELECT * FROM vllm.response;
SELECT public.v1_responses('{"model": "tickets-2m", "input": "a", "previous_response_id": "2"}'::pg_catalog.json);
SELECT vllm.batch_refusal('x'::pg_catalog.text, NULL::pg_catalog.text, '{}'::pg_catalog.json, 2::pg_catalog.int8, NULL::pg_catalog.text);
SELECT vllm.api_status('{"error": {"code": "404", "type": "x"}}'::pg_catalog.json), vllm.api_status('{"error": {"type": "api_error"}}'::pg_catalog.json);
SELECT public.llm_embed_bytes('x'::pg_catalog.text);
SELECT * FROM public.llm_rerank('q'::pg_catalog.text, ARRAY['a', 'b']::pg_catalog.text[]);
SELECT * FROM public.llm_chat_batch(ARRAY['[{"role": "user", "content": "a"}]']::pg_catalog.json[]);
SELECT * FROM public.llm_completions('x'::pg_catalog.text, n => 2, logprobs => 1);
SELECT * FROM public.llm_beam_search('x'::pg_catalog.text, 2); SELECT * FROM public.llm_beam_search_batch(ARRAY['x']::pg_catalog.text[], 2);
SELECT * FROM public.llm_choice_probs('x'::pg_catalog.text, ARRAY['a', 'b']::pg_catalog.text[]);
SELECT * FROM public.llm_loglikelihood('x'::pg_catalog.text, 'y'::pg_catalog.text);
SELECT public.llm_similarity(ARRAY[1, 0]::pg_catalog.float4[], ARRAY[1, 1]::pg_catalog.float4[]);
SELECT public.llm_reduce(ARRAY['a', 'b']::pg_catalog.text[], 'i'::pg_catalog.text);
SELECT distance FROM public.llm_nearest('x'::pg_catalog.text, 'public.vectors'::pg_catalog.regclass, 'v'::pg_catalog.name, metric => 'ip'::pg_catalog.text);
SELECT distance FROM public.llm_nearest(ARRAY[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]::pg_catalog.float4[], 'public.vectors'::pg_catalog.regclass, 'v'::pg_catalog.name);
SELECT id FROM public.llm_nearest_rows(NULL::public.vectors, 'x'::pg_catalog.text, 'r'::pg_catalog.name);
SELECT * FROM public.llm_run_batch('SELECT 1::pg_catalog.text, ''/v1/completions''::pg_catalog.text, ''{"prompt": "x"}''::pg_catalog.json'::pg_catalog.text, 1::pg_catalog.int4);
CREATE TABLE public.batch_in (custom_id pg_catalog.text, url pg_catalog.text, body pg_catalog.json); CREATE TABLE public.batch_out (custom_id pg_catalog.text, status_code pg_catalog.int4, response pg_catalog.json, error pg_catalog.json);
INSERT INTO public.batch_in VALUES ('1', '/v1/completions', '{"prompt": "x"}');
SELECT * FROM public.llm_run_batch('public.batch_in'::pg_catalog.regclass);
CALL public.llm_run_batch_table('public.batch_in'::pg_catalog.regclass, 'public.batch_out'::pg_catalog.regclass);
SELECT status_code FROM public.batch_out;
COPY (SELECT '{"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}') TO '%DIR%/in.jsonl';
SELECT * FROM public.llm_run_batch_file('%DIR%/in.jsonl'::pg_catalog.text, '%DIR%/out.jsonl'::pg_catalog.text);
CREATE TABLE public.kept (id pg_catalog.int4 PRIMARY KEY, a pg_catalog.text, g pg_catalog.text, v pg_catalog.float4[]);
CREATE TRIGGER g BEFORE INSERT OR UPDATE ON public.kept FOR EACH ROW EXECUTE FUNCTION public.llm_generate_trigger('a', 'g', 'say {}');
CREATE TRIGGER v BEFORE INSERT OR UPDATE ON public.kept FOR EACH ROW EXECUTE FUNCTION public.llm_embed_trigger('a', 'v');
INSERT INTO public.kept VALUES (1, 'a'); UPDATE public.kept SET a = 'b';
SELECT g, v IS NOT NULL FROM public.kept;
CREATE TABLE public.jobbed (id pg_catalog.int4 PRIMARY KEY, a pg_catalog.text, b pg_catalog.text, g pg_catalog.text, v pg_catalog.float4[]);
INSERT INTO public.jobbed VALUES (1, 'a', 'b');
SELECT public.llm_create_embedding_job('public.jobbed'::pg_catalog.regclass, target_column => 'v'::pg_catalog.name, columns => '{a,b}'::pg_catalog.name[], options => '{"truncate": "100"}'::pg_catalog.json);
SELECT public.llm_create_embedding_job('public.jobbed'::pg_catalog.regclass, target_table => 'jobbed_side'::pg_catalog.text, template => 'x {a}'::pg_catalog.text, chunking => 'tokens'::pg_catalog.text, name => 'side'::pg_catalog.name);
SELECT public.llm_create_completion_job('public.jobbed'::pg_catalog.regclass, '{a}'::pg_catalog.text, 'g'::pg_catalog.name, 5::pg_catalog.int4, name => 'gen'::pg_catalog.name);
INSERT INTO public.jobbed VALUES (2, 'c', 'd'); UPDATE public.jobbed SET a = 'e' WHERE id OPERATOR(pg_catalog.=) 1;
SELECT public.llm_alter_job('gen'::pg_catalog.name, template => 'y {a}'::pg_catalog.text, max_tokens => 6); SELECT public.llm_retry_job('gen'::pg_catalog.name); SELECT public.llm_backfill_job('gen'::pg_catalog.name);
ALTER TABLE public.jobbed RENAME COLUMN b TO bb; DELETE FROM public.jobbed WHERE id OPERATOR(pg_catalog.=) 1;
SELECT count FROM (SELECT pg_catalog.count(*) FROM public.llm_top()) x (count);
SELECT pg_catalog.length(public.llm_metrics_text()) OPERATOR(pg_catalog.>) 0; SELECT * FROM public.llm_metrics() LIMIT 1;
SELECT public.llm_type_schema('public.pair'::pg_catalog.regtype); SELECT public.llm_generate_json('x'::pg_catalog.text, '{"type": "integer"}'::pg_catalog.json);
CREATE FUNCTION public.up(word pg_catalog.text) RETURNS pg_catalog.text LANGUAGE sql STABLE RETURN pg_catalog.upper(word);
SELECT public.llm_tool('public.up(pg_catalog.text)'::pg_catalog.regprocedure);
SELECT public.llm_call_tool('{"function": {"name": "up", "arguments": "{\\"word\\": \\"a\\"}"}}'::pg_catalog.json, ARRAY['public.up(pg_catalog.text)'::pg_catalog.regprocedure]);
SELECT ai.if('x'), ai.rank('x'), ai.generate('x'), ai.summarize('x'), ai.analyze_sentiment('x'), ai.agg_summarize('x');
SELECT ai.if(prompts => '{x}'), ai.rank(prompts => '{x}'), ai.generate(prompts => '{x}'), ai.summarize(prompts => '{x}'), ai.analyze_sentiment(prompts => '{x}');
SELECT * FROM ai.rank('tickets-2m', 'q', '{a,b}'::pg_catalog.text[]);
BEGIN; DECLARE c CURSOR FOR VALUES ('a'::pg_catalog.text); SELECT ai.if('x', 'c'::pg_catalog.refcursor) AS answers \gset
FETCH ALL FROM :"answers"; COMMIT;
SELECT public.llm_agg(a, 'sum up'::pg_catalog.text) FROM public.jobbed; SELECT public.llm_cache_prune(), public.llm_cache_clear();
};
# objects that bodies and views refer to: only the system's and the extension's own
my $foreign = q{WITH m AS (SELECT classid, objid FROM pg_catalog.pg_depend WHERE refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND deptype = 'e'
		AND refobjid IN (SELECT oid FROM pg_catalog.pg_extension WHERE extname IN ('vllm_pg', 'vllm_pg_ai'))),
	parts AS (SELECT * FROM m UNION ALL SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, r.oid FROM m JOIN pg_catalog.pg_rewrite r ON m.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND r.ev_class = m.objid
		UNION ALL SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass, r.oid FROM m JOIN pg_catalog.pg_attrdef r ON m.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND r.adrelid = m.objid
		UNION ALL SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass, r.oid FROM m JOIN pg_catalog.pg_policy r ON m.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND r.polrelid = m.objid)
	SELECT coalesce(pg_catalog.string_agg(pg_catalog.pg_describe_object(d.classid, d.objid, 0) || ' needs ' || pg_catalog.pg_describe_object(d.refclassid, d.refobjid, 0), ', '), '')
	FROM pg_catalog.pg_depend d JOIN parts p ON p.classid = d.classid AND p.objid = d.objid
	WHERE d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_type'::pg_catalog.regclass, 'pg_catalog.pg_cast'::pg_catalog.regclass)
	AND d.refobjid >= 16384 AND (d.refclassid, d.refobjid) NOT IN (SELECT classid, objid FROM m)
	AND NOT (d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND EXISTS (SELECT 1 FROM pg_catalog.pg_type t JOIN m ON m.objid IN (t.typelem, t.typrelid) WHERE t.oid = d.refobjid))};
my $tmp = abs_path(PostgreSQL::Test::Utils::tempdir);
chmod 0777, $tmp;
$calls =~ s/%DIR%/$tmp/g;

$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN');
for my $db (qw(install update))
{
	$node->safe_psql('postgres', "CREATE DATABASE mallory_$db");
	$node->safe_psql("mallory_$db", 'GRANT CREATE ON SCHEMA public TO mallory');
	$node->safe_psql("mallory_$db", q{CREATE EXTENSION vllm_pg VERSION '0.9'}) if $db eq 'update';
	as_mallory("mallory_$db", $hostile);
	my $at = -s $node->logfile;
	$node->safe_psql("mallory_$db", ($db eq 'update' ? 'ALTER EXTENSION vllm_pg UPDATE' : 'CREATE EXTENSION vllm_pg') . '; CREATE EXTENSION vllm_pg_ai');
	is(hostile_lines($at) . is_superuser(), 'f', "$db: nothing of mallory's runs");
	is($node->safe_psql("mallory_$db", "SET search_path = pg_catalog; $foreign"), '', "$db: ... nor stays in bodies, views, defaults and policies");
	my ($rc, $out, $err) = $node->psql("mallory_$db", $calls, on_error_stop => 0, timeout => 120);
	is(hostile_lines($at) . is_superuser(), 'f', "$db: ... nor runs when a superuser uses what is there") or diag($err);
	unlike($err, qr/hostile|operator does not|function .* does not|not unique|42883|42725/, "$db: ... and calls find ours") or diag($err);
	ok($node->poll_query_until("mallory_$db", q{SELECT pg_catalog.count(*) OPERATOR(pg_catalog.=) 1 FROM public.jobbed WHERE g IS NOT NULL AND v IS NOT NULL AND id OPERATOR(pg_catalog.=) 2
		AND EXISTS (SELECT 1 FROM public.jobbed_side s WHERE s.id OPERATOR(pg_catalog.=) 2)}), "$db: jobs run, too");
	is(hostile_lines($at) . is_superuser(), 'f', "$db: ... without mallory's functions");
}

# an existing schema vllm is not used
$node->safe_psql('postgres', 'CREATE DATABASE taken; GRANT CREATE ON DATABASE taken TO mallory');
as_mallory('taken', q{CREATE SCHEMA vllm; CREATE TABLE vllm.model (name name); CREATE FUNCTION vllm.check_preload() RETURNS void LANGUAGE sql AS 'SELECT 1'});
like(($node->psql('taken', 'CREATE EXTENSION vllm_pg'))[2], qr/schema "vllm" already exists/, 'a schema vllm of somebody else is refused');

$node->stop;
done_testing();
