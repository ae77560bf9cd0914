# ALTER EXTENSION vllm_pg UPDATE from every older version gives what a fresh install
# gives: the same members, definitions, grants and configuration tables.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('upgrade');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.engine_args = '--fake'\n");
$node->start;

# One line per member object with everything that a user could notice.
my $shape = q{
WITH m AS (SELECT classid, objid FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
			AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vllm_pg'))
SELECT line FROM (
SELECT 'function ' || p.oid::regprocedure || ' ' || pg_get_function_arguments(p.oid) || ' -> ' || coalesce(pg_get_function_result(p.oid), '')
	|| format(' %s %s %s %s %s %s %s %s', p.provolatile, p.proparallel, p.procost, p.prorows, p.proisstrict, p.prosecdef, p.prosupport, p.prosrc)
	|| ' acl=' || coalesce((SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(p.proacl) a), '') AS line
	FROM m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
UNION ALL
SELECT 'relation ' || c.oid::regclass || ' ' || c.relkind::text || ' acl=' || coalesce((SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(c.relacl) a), '')
	|| ' config=' || (c.oid = ANY (SELECT unnest(extconfig) FROM pg_extension WHERE extname = 'vllm_pg'))::text
	|| ' (' || (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull::text || ' ' || coalesce(pg_get_expr(adbin, adrelid), ''), ', ' ORDER BY attnum)
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
	|| ') ' || coalesce(CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END, '')
	|| coalesce((SELECT string_agg(pg_get_constraintdef(oid), ';' ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid), '')
	FROM m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
UNION ALL
SELECT 'other ' || pg_describe_object(classid, objid, 0) FROM m WHERE classid NOT IN ('pg_proc'::regclass, 'pg_class'::regclass)
) l ORDER BY line COLLATE "C"};

$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION vllm_pg');
my $version = $node->safe_psql('fresh', q{SELECT extversion FROM pg_extension WHERE extname = 'vllm_pg'});
my $fresh = $node->safe_psql('fresh', $shape);
cmp_ok(scalar(split /\n/, $fresh), '>', 20, 'the fresh install has its members');
my $fresh_rows = $node->safe_psql('fresh', 'SELECT * FROM vllm.model ORDER BY 1');

# pg_available_extension_versions does not look where extension_destdir points to
my @older = split /\n/, $node->safe_psql('postgres', qq{SELECT source FROM pg_extension_update_paths('vllm_pg')
	WHERE target = '$version' ORDER BY 1});
cmp_ok(scalar @older, '>', 0, 'there are older versions');
for my $v (@older)
{
	(my $db = "from_$v") =~ s/\W/_/g;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION vllm_pg VERSION '$v'");
	# the library is newer than this catalog until somebody updates it
	is($node->safe_psql($db, q{SELECT llm_generate('old catalog'), (llm_generate_full('old catalog')).text,
		llm_count_tokens('old catalog') > 0, (SELECT state FROM llm_stat_engine), (SELECT count(*) FROM llm_models)}),
		'OLD CATALOG|OLD CATALOG|t|ready|1', "a catalog of $v works with this library");
	is($node->safe_psql($db, q{SELECT llm_create_model('old', '/fake/old', options => '{"result_cache": true}');
		SELECT llm_generate('a model', model => 'old', temperature => 0); SELECT llm_drop_model('old')}), "\nA MODEL\n", '... and its models come and go');
	# views and grants on functions that get new arguments
	$node->safe_psql($db, qq{CREATE ROLE ${db}_role;
		CREATE VIEW answers AS SELECT llm_generate('view of a ' || 'function', max_tokens => 50) AS a, llm_generate('b', 20) AS b,
			(llm_generate_full('c')).finish_reason AS c;
		REVOKE EXECUTE ON FUNCTION llm_generate FROM public; GRANT EXECUTE ON FUNCTION llm_generate TO ${db}_role});
	my $looks = q{SELECT 'llm_generate'::regproc::oid, proacl::text, pg_get_viewdef('answers') FROM pg_proc WHERE oid = 'llm_generate'::regproc};
	my $before = $node->safe_psql($db, $looks);
	my $session = $node->background_psql($db);
	is($session->query_safe('PREPARE old AS SELECT a, b, c FROM answers; EXECUTE old'), 'VIEW OF A FUNCTION|B|stop', "a view in $v");
	$node->safe_psql($db, 'ALTER EXTENSION vllm_pg UPDATE');
	is($session->query_safe('EXECUTE old'), 'VIEW OF A FUNCTION|B|stop', "update from $v: a prepared statement goes on");
	$session->quit;
	is($node->safe_psql($db, $looks), $before, "update from $v: the function, its grants and a view of it stay");
	is($node->safe_psql($db, q{SELECT * FROM answers}), 'VIEW OF A FUNCTION|B|stop', "update from $v: the view goes on");
	is($node->safe_psql($db, q{SELECT llm_generate('a b c', max_tokens => 1, presence_penalty => NULL, logit_bias => NULL)}), 'A',
		"update from $v: there are new arguments");
	is($node->safe_psql($db, q{SELECT llm_create_lora('red', 'tickets-2m', '/fake/adapters/red'); SELECT llm_generate('a b', lora => 'red'), llm_drop_lora('red')}),
		"\n[red] A B|", "update from $v: and adapters");
	$node->safe_psql($db, q{UPDATE pg_proc SET proacl = NULL WHERE oid = 'llm_generate'::regproc; DROP VIEW answers});
	is($node->safe_psql($db, $shape), $fresh, "update from $v equals a fresh install");
	is($node->safe_psql($db, 'SELECT * FROM vllm.model ORDER BY 1'), $fresh_rows, "update from $v: the same rows");
}

# dump and restore keeps the user's models
$node->safe_psql('fresh', q{SELECT llm_create_model('mine', '/fake/ready'); SELECT llm_grant('mine', 'public');
	SELECT llm_create_lora('tuned', 'mine', '/fake/adapters/tuned'), llm_create_lora('bundled_tuned', 'tickets-2m', '/fake/adapters/other'), llm_grant('tuned', 'public');
	CREATE ROLE owner; CREATE ROLE leaver; SELECT llm_create_api_key('kept', 'owner'), llm_create_api_key('lost', 'leaver'); DROP ROLE leaver});
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('fresh'), '-f', $dump ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
is($node->safe_psql('restored', 'SELECT * FROM vllm.model ORDER BY 1'),
	$node->safe_psql('fresh', 'SELECT * FROM vllm.model ORDER BY 1'), 'models travel with pg_dump');
is($node->safe_psql('restored', q{SELECT llm_generate('hello there', model => 'mine')}), 'HELLO THERE', 'and work there');
is($node->safe_psql('restored', 'SELECT * FROM vllm.lora ORDER BY 1'), $node->safe_psql('fresh', 'SELECT * FROM vllm.lora ORDER BY 1'), 'adapters travel, too');
is($node->safe_psql('restored', q{SELECT llm_generate('hello there', lora => 'tuned'), llm_generate('hello there', model => 'bundled_tuned')}),
	'[tuned] HELLO THERE|[other] HELLO THERE', 'and work there');
# a key whose role is gone would be dumped with a number, which another role may have there
is($node->safe_psql('fresh', 'SELECT string_agg(name, $$ $$ ORDER BY name) FROM vllm.api_key'), 'kept lost', 'there are two API keys');
is($node->safe_psql('restored', 'SELECT name, role, state FROM llm_api_keys'), 'kept|owner|active', 'that of a role that is there travels');
is($node->safe_psql('restored', 'SELECT count(*) FROM vllm.api_key'), '1', 'and no other');
$node->stop;
done_testing();
