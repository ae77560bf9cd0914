# Secrets of remote models are not written to the server's log, shown in a view, or dumped, whatever the
# server logs; and only strings of statements that name llm_set_secret(), and words among its arguments, are
# hidden.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $S = 'k3y-zq7';    # each secret begins so; nothing else has it
# not every server has it
chomp(my $libdir = `pg_config --pkglibdir`);
my $explains = -f "$libdir/auto_explain.so";
my $counts = -f "$libdir/pg_stat_statements.so";
my $node = new_node('secrets', ($explains ? q{
session_preload_libraries = 'auto_explain'
auto_explain.log_min_duration = 0
auto_explain.log_nested_statements = on
auto_explain.log_verbose = on
} : '') . ($counts ? q{
shared_preload_libraries = 'pg_stat_statements, vllm_pg'
pg_stat_statements.track = all
} : '') . q{
vllm.allowed_hosts = '127.0.0.1:8000'
log_statement = 'all'
log_min_duration_statement = 0
log_duration = on
log_parameter_max_length_on_error = -1
log_min_messages = debug1
log_min_error_statement = debug1
debug_print_parse = off
});

sub sql { return $node->safe_psql('postgres', shift); }
sub logged { return slurp_file($node->logfile); }

# Return what the log gets while statements run in one session; they may fail.
sub log_of
{
	my (@sql) = @_;
	my $at = -s $node->logfile;
	my @out = finish(bg($node, @sql));
	$node->safe_psql('postgres', 'SELECT 1');
	return (substr(logged(), $at), @out);
}

sql(q{SELECT llm_create_model('big', provider => 'openai', url => 'http://127.0.0.1:8000/v1');
	CREATE ROLE owner LOGIN; CREATE ROLE other LOGIN; CREATE ROLE reader LOGIN IN ROLE pg_read_all_data, pg_write_all_data, pg_monitor;
	GRANT EXECUTE ON FUNCTION llm_create_model(text, text, vllm.json, text, text) TO owner});

# ---- every way to send a statement, with an error ----
my @ways = (
	[ 'plain', "SELECT llm_set_secret('big', '$S-1')" ],
	[ 'named arguments, upper case, a schema', "SELECT Public.LLM_SET_SECRET ( secret => '$S-2', model => 'big')" ],
	[ 'quoted name, comments', "SELECT /* a */ \"llm_set_secret\" /* ( */ ('big', -- $S-3a\n '$S-3')" ],
	[ 'escapes and dollars', "SELECT llm_set_secret('big', E'$S-4\\x41'), llm_set_secret(\$\$big\$\$, \$a\$$S-4\$a\$), llm_set_secret('big', '$S-4' || '$S-4')" ],
	[ 'quotes within', "SELECT llm_set_secret('big', '$S-5''(''$S-5'), 1" ],
	[ 'nested calls', "SELECT llm_set_secret(lower('big'), concat('$S-6', ')', '$S-6'))" ],
	[ 'DO', "DO \$\$ BEGIN PERFORM llm_set_secret('big', '$S-7'); END \$\$" ],
	[ 'DO that fails', "DO \$\$ BEGIN PERFORM llm_set_secret('big', '$S-8' || 1/0); END \$\$" ],
	[ 'dynamic', "DO \$\$ BEGIN EXECUTE 'SELECT llm_set_secret(''big'', ''$S-9'')'; END \$\$" ],
	[ 'dynamic that fails', "DO \$\$ BEGIN EXECUTE 'SELECT llm_set_secret(''none'', ''$S-10'')'; END \$\$" ],
	[ 'unknown model', "SELECT llm_set_secret('none', '$S-11')" ],
	[ 'arguments swapped', "SELECT llm_set_secret('$S-12', 'big')" ],
	[ 'no quotes', "SELECT llm_set_secret('big', k3y\$zq7)", 'k3y\$zq7' ],
	[ 'double quotes', "SELECT llm_set_secret('big', \"$S-13\")" ],
	[ 'a cast that fails', "SELECT llm_set_secret('big', '$S-14'::int::text)" ],
	[ 'an argument too many', "SELECT llm_set_secret('big', '$S-15', 1)" ],
	[ 'not ended', "SELECT llm_set_secret('big', '$S-16" ],
	[ 'not closed', "SELECT llm_set_secret('big', '$S-17'" ],
	[ 'EXECUTE', 'PREPARE p (text, text) AS SELECT llm_set_secret($1, $2)', "EXECUTE p ('big', '$S-18')", "EXECUTE P('none', '$S-19')",
		"EXPLAIN (COSTS OFF) EXECUTE p('big', '$S-20')" ],
	[ 'EXPLAIN', "EXPLAIN VERBOSE SELECT llm_set_secret('big', '$S-21')" ],
	[ 'several statements', "SELECT 1; SELECT llm_set_secret('big', '$S-22'); SELECT 1/0" ],
	[ 'a notice', "DO \$\$ BEGIN PERFORM llm_set_secret('big', '$S-23'); RAISE WARNING 'done'; END \$\$" ],
	[ 'a function of a user\'s', "CREATE FUNCTION setit() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN PERFORM llm_set_secret('big', '$S-24'); PERFORM 1/0; END \$\$",
		'SELECT setit()' ],
	[ 'an SQL function', "CREATE FUNCTION setsql() RETURNS void LANGUAGE sql AS \$\$ SELECT llm_set_secret('none', '$S-25') \$\$", 'SELECT setsql()' ],
	[ 'VALUES', "SELECT llm_set_secret('big', v) FROM (VALUES ('$S-v1')) s(v)" ],
	[ 'VALUES that fail', "SELECT llm_set_secret('big', v), 1 / 0 FROM (VALUES ('$S-v2'), (\$\$$S-v3\$\$), (E'\\'$S-v4'), (U&'$S-v5')) s(v) WHERE v <> '$S-v6'" ],
	[ 'a CTE', "WITH k AS (SELECT '$S-v7'::text AS v) SELECT llm_set_secret('none', v) FROM k" ],
	[ 'a CTE\'s error', "WITH k AS (SELECT '$S-v8'::int::text AS v) SELECT llm_set_secret('none', v) FROM k" ],
	[ 'escapes in the name', "SELECT U&\"llm_set_s\\0065cret\"('big', '$S-v9'), 'llm_set_secret'" ],
	[ 'long escapes, capitals', "SELECT U&\"LLM_set_s\\+000065cret\"('big', '$S-v10'), 'llm_set_secret'", "SELECT U&\"llm_set_s\\+000065cret\"('big', '$S-v11')" ],
	[ 'an escape of its own', "SELECT U&\"llm_set_s!0065cret\" UESCAPE '!' ('big', '$S-v12')" ],
	[ 'escapes within a string', "DO \$\$ BEGIN EXECUTE E'SELECT llm_set_s\\x65cret(''big'', ''$S-v13'')'; EXECUTE E'SELECT llm_set_\\163ecret(''big'', ''$S-v14'')';
		EXECUTE E'SELECT \\u006clm_set_secret(''big'', ''$S-v15'')'; END \$\$" ],
	[ 'a variable of DO', "DO \$\$ DECLARE k text := '$S-v16'; l text := \$a\$$S-v17\$a\$; BEGIN PERFORM llm_set_secret('big', k || l); END \$\$" ],
	[ 'a table of DO', "DO \$\$ BEGIN CREATE TEMP TABLE k AS SELECT '$S-v18'::text AS v; PERFORM llm_set_secret('none', v) FROM k; END \$\$" ],
	[ 'VALUES in a function', "CREATE FUNCTION setv() RETURNS bigint LANGUAGE plpgsql AS \$\$ BEGIN
		RETURN count(llm_set_secret('big', v)) / 0 FROM (VALUES ('$S-v19'), ('$S-v20')) s(v) WHERE v > '$S-v19'; END \$\$", 'SELECT setv()' ],
	[ 'a body in quotes', "CREATE FUNCTION setq() RETURNS void LANGUAGE sql AS 'SELECT llm_set_secret(''big'', v) FROM (VALUES (''$S-v21'')) s(v)'" ],
	[ 'a body in another language', "CREATE FUNCTION setp() RETURNS void LANGUAGE plnone AS \$\$ # it's\n \"llm_set_secret\"; k = \"$S-v22\"; l = '$S-v23'; \$\$" ],
	[ 'a function of statements', "CREATE FUNCTION seta() RETURNS bigint BEGIN ATOMIC SELECT count(llm_set_secret('big', v)) FROM (VALUES ('$S-v26'), ('$S-v27')) s(v) WHERE v <> 'x'; END",
		'SELECT seta() -- llm_set_secret', 'DROP FUNCTION seta()' ],
	[ 'backslashes in strings', "SET standard_conforming_strings = off", "SELECT llm_set_secret('big', v) FROM (VALUES ('x\\'$S-v28')) s(v)" ],
	[ 'a prepared statement with VALUES', "PREPARE v (text) AS SELECT U&\"llm_set_s\\0065cret\"('big', v) FROM (VALUES (\$1), ('$S-v24')) s(v), (SELECT 'llm_set_secret') n",
		"EXECUTE v('$S-v25')" ],
	[ 'a prepared statement whose name is quoted', 'PREPARE "p ""q" (text) AS SELECT llm_set_secret(\'big\', $1)', "EXECUTE \"p \"\"q\"('$S-v29')", "EXECUTE U&\"p\\0020\"\"q\"('$S-v30')" ],
	[ '... or cut within a character', "PREPARE \"@{[ 'é' x 40 ]}\" (text) AS SELECT llm_set_secret('big', \$1)", "EXECUTE \"@{[ 'é' x 40 ]}\"('$S-v35')" ],
	[ 'a canceled statement', "SET statement_timeout = 50", "SELECT llm_set_secret('big', '$S-26'), pg_sleep(5)" ]);
for my $w (@ways)
{
	my ($what, @sql) = @$w;
	my $s = quotemeta $S;
	pop @sql and $s = quotemeta('k3y$zq7') if $sql[-1] eq 'k3y\$zq7';
	my ($log) = log_of(@sql);
	unlike($log, qr/$s/, "$what: not in the log");
	# its name is logged as it was written, which may be with an escape of the user's choice
	like($log, qr/llm_set_s(!0065|e)cret/i, '... but the call is');
}

# ---- bind parameters, by the protocol ----
for my $m ('big', 'none')
{
	my $at = -s $node->logfile;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/bind-$m.sql";
	append_to_file($file, "SELECT llm_set_secret(:m, :s);\n");
	$node->command_checks_all([ 'pgbench', '-n', '-t', '1', '-M', 'prepared', '-D', "m=$m", '-D', "s=$S-bind", '-f', $file, 'postgres' ],
		$m eq 'big' ? 0 : 2, [qr/number of transactions/], [$m eq 'big' ? qr/^$/ : qr/does not exist/], "a bind parameter, model $m");
	my $log = substr(logged(), $at);
	unlike($log, qr/\Q$S\E/, '... not in the log');
	like($log, qr/llm_set_secret\(\$1, \$2\)/, '... but the statement');
}

# ---- in a user's function: once llm_set_secret() has run ----
$node->safe_psql('postgres', q{CREATE FUNCTION wrap(k text, divisor int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM llm_set_secret('big', k); RETURN 1 / divisor; END $$});
for my $divisor (1, 0)
{
	my ($log) = log_of("SET log_statement = 'none'", "SELECT wrap('$S-w1', $divisor)", "SELECT 'seen-w'");
	unlike($log, qr/\Q$S\E/, "a function of the user's, divisor $divisor: not in the log");
	like($log, qr/SELECT wrap\('\*\*\*', $divisor\)/, '... but the statement');
	like($log, qr/SELECT 'seen-w'/, '... and the next one as it is');
}

# ---- random statements: arguments of a call are not shown ----
srand(20261123);
my @around = ('1', 'a.b', q{'it''s'}, q{"a ""b"}, '/* x /* y */ */', "-- z\n", '$$d$$', '$t$ (e $$ f $t$', q{E'g\\'h'}, '(2)', '$3', 'execute x', ')', '"llm_set_secret"', "'llm_set_secret('");
my @inside = (q{''}, q{'('}, q{')'}, 'f(1)', '/* ) */', "-- )\n", '$$)$$', '||', '+ (1)', '"("', '::text', "E'\\''", 'x => ');
my $text = '';
for my $i (1 .. 300)
{
	my @t = map { $around[ rand @around ] } 1 .. rand 5;
	my $k = "$S-r$i";
	my @k = ("'$k'", "\$\$$k\$\$", "\$q\$$k\$q\$", "E'\\\\$k'", "'x''$k'", "\"$k\"", "k3y\$zq7\$r$i", "/* $k */");
	my @c = map { rand() < 0.5 ? $inside[ rand @inside ] : $k[ rand @k ] } 1 .. 1 + rand 5;
	my $name = ('llm_set_secret', 'LLM_SET_SECRET ', 'public."llm_set_secret"', "llm_set_secret/* ( */\n")[ rand 4 ];
	$text .= join(' ', 'SELECT', @t, ",$name(", @c, ')') . "\n;\n";
}
my $random = PostgreSQL::Test::Utils::tempdir() . '/random.sql';
append_to_file($random, $text);
my $from = -s $node->logfile;
$node->psql('postgres', undef, extra_params => [ '-f', $random ], on_error_stop => 0);
my $random_log = substr(logged(), $from);
cmp_ok(scalar(() = $random_log =~ /LLM_SET_SECRET/gi), '>=', 300, 'random statements');
unlike($random_log, qr/k3y.zq7/, '... none shows what it gives');

# ---- nothing else is hidden ----
my ($log) = log_of("SELECT 'seen-1' AS a, llm_set_secret('big', '$S-30') /* seen-2 */, 'seen-3'");
like($log, qr/SELECT '\*\*\*' AS a, llm_set_secret\('\*\*\*', '\*\*\*'\) \/\* seen-2 \*\/, '\*\*\*'/, 'the rest of the statement is logged');
($log) = log_of("DO \$\$ BEGIN PERFORM seen_1(), llm_set_secret('big', '$S-30'), 'x'; /* seen_2 */ END \$\$");
like($log, qr/DO \$\$ BEGIN PERFORM seen_1\(\), llm_set_secret\('\*\*\*', '\*\*\*'\), '\*\*\*'; \/\* seen_2 \*\/ END \$\$/, '... and that of a body');
for my $evasion ("CREATE TABLE seen_4 () /* llm_set_secret(", "/* llm_set_secret( */ CREATE TABLE seen_4 (a int) /* ) */", "-- llm_set_secret(\nCREATE TABLE seen_4 (b int)",
	"SELECT 'llm_set_secret(', seen_4(), ')'", 'SELECT $$llm_set_secret($$, seen_4()', "SELECT llm_set_secret; CREATE TABLE seen_4 ()",
	"SELECT \"llm_set_secret(\", seen_4()", "/* llm_set_s\\0065cret */ SELECT 'seen_4'", "DO \$\$ BEGIN /* llm_set_secret() */ PERFORM 'seen_4'; END \$\$")
{
	($log) = log_of($evasion);
	like($log, qr/(statement|STATEMENT): .*seen_4/s, "logged: $evasion");
}
($log) = log_of("PREPARE q AS SELECT 'x'::text || \$1", "EXECUTE q('seen-5')");
like($log, qr/EXECUTE q\('seen-5'\)/, 'other prepared statements are');
my (undef, $out, $err) = log_of("SELECT llm_set_secret('none', '$S-31')");
like($err, qr/42704: the model that llm_set_secret\(\) names does not exist/, 'the client is told what is wrong');

# ---- views: a session's own statement, and everything that the extension shows ----
sql("SELECT llm_set_secret('big', '$S-40')");
my $b = bg($node, "SELECT llm_set_secret('big', '$S-42'), pg_sleep(2)");
until_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'SELECT llm_set_secret(***)'});
my ($left, $right) = split /-/, $S;
is(sql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '$left.$right' AND pid <> pg_backend_pid()"), '0', 'a statement that has come so far is shown without it');
finish($b);
for my $early ("SELECT llm_set_secret('big', '$S-43') FRM early", "CALL early(llm_set_secret('big', '$S-44'))", "EXPLAIN SELECT llm_set_secret('big', '$S-45') AS early",
	"PREPARE early AS SELECT llm_set_secret('big', '$S-46')")
{
	$b = bg($node, $early, '\! sleep 2');
	ok(until_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'idle' AND query ~ 'early'}), "it gives nothing: $early");
	is(sql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '$left.$right' AND pid <> pg_backend_pid()"), '0', '... and is shown without its strings, too');
	finish($b);
}
SKIP:
{
	skip 'no pg_stat_statements in this installation', 3 if !$counts;
	sql('CREATE EXTENSION pg_stat_statements; CREATE PROCEDURE takes(anyelement) LANGUAGE sql AS $$SELECT 1$$');
	for my $utility ("EXPLAIN ANALYZE SELECT llm_set_secret('big', '$S-51')", "CREATE TABLE given AS SELECT 1 AS a FROM llm_set_secret('big', '$S-52')",
		"COPY (SELECT 1 FROM llm_set_secret('big', '$S-53')) TO STDOUT", "BEGIN; DECLARE c CURSOR FOR SELECT 1 FROM llm_set_secret('big', '$S-54'); FETCH c; COMMIT",
		"CALL takes(coalesce(llm_set_secret('big', '$S-55')::text, ''))", "CREATE FUNCTION given() RETURNS void LANGUAGE sql AS \$\$ SELECT llm_set_secret('big', '$S-56') \$\$",
		"PREPARE q(text) AS SELECT 1 FROM llm_set_secret('big', \$1); EXPLAIN EXECUTE q('$S-57'); CREATE TABLE given_2 AS EXECUTE q('$S-58')",
		"SELECT llm_set_secret('big', '$S-59')", "DO \$\$ BEGIN /* llm_set_secret() */ PERFORM 1; END \$\$")
	{
		my ($o, $e) = finish(bg($node, $utility));
		is($e, '', $utility);
	}
	# the purpose of the table is unknown
	is(finish(bg_as($node, 'reader', "SELECT query FROM pg_stat_statements WHERE query ~ '$left.$right' AND query !~ '^CREATE TEMP TABLE k '")), '',
		'pg_stat_statements has none of them, nor of those before');
	is(sql(q{SELECT count(*) > 0 FROM pg_stat_statements WHERE query = 'SELECT llm_set_secret($1, $2)'}), 't', '... but the statement whose constants it replaces');
	is(sql(q{SELECT count(*) FROM pg_stat_statements WHERE query ~ '^DO .* PERFORM 1'}), '1', '... and one that has the name in a comment');
	sql('DROP FUNCTION given(); DROP TABLE given, given_2; DROP PROCEDURE takes; DROP EXTENSION pg_stat_statements');
}
for my $role (undef, 'owner', 'other', 'reader')
{
	for my $view (split /\n/, sql(q{SELECT c.oid::regclass FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass
		WHERE c.relkind = 'v' ORDER BY 1}))
	{
		my ($o, $e) = finish($role ? bg_as($node, $role, "SELECT * FROM $view") : bg($node, "SELECT * FROM $view"));
		unlike($o . $e, qr/\Q$S\E/, "$view, as " . ($role // 'superuser'));
	}
}
finish(bg_as($node, 'owner', "SELECT llm_create_model('mine', provider => 'openai', url => 'http://127.0.0.1:8000/v1')", "SELECT llm_set_secret('mine', '$S-50')"));
is(finish(bg_as($node, 'owner', q{SELECT has_secret FROM llm_models WHERE name = 'mine'})), 't', 'the owner sees that there is one');
for my $role ('owner', 'other')
{
	my ($o, $e) = finish(bg_as($node, $role, 'SELECT * FROM vllm.secret'));
	like($e, qr/42501: permission denied for table secret/, "$role can't read the table");
}

is(finish(bg_as($node, 'reader', 'SELECT count(*) FROM vllm.secret', q{WITH u AS (UPDATE vllm.secret SET secret = 'x' RETURNING 1) SELECT count(*) FROM u})), "0\n0",
	'who may read and write all tables finds nothing');
like(finish(bg_as($node, 'reader', q{INSERT INTO vllm.secret VALUES ('m', 'x')}))  . (finish(bg_as($node, 'reader', q{INSERT INTO vllm.secret VALUES ('m', 'x')})))[1],
	qr/42501/, '... and leaves nothing there');

# ---- dumps ----
sql('DROP FUNCTION setit(), setsql(), setv(), setq()');
for my $role ('', 'reader', 'owner')
{
	for my $args ([], ['--inserts'], [ '-t', 'vllm.secret' ], [ '-a', '-t', 'vllm.secret' ], [ '-n', 'vllm' ], ['--data-only'], ['-Fc'])
	{
		my ($o, $e) = run_command([ 'pg_dump', @$args, '-d', $node->connstr('postgres') . ($role ? " user=$role" : '') ]);
		unlike($o . $e, qr/\Q$S\E/, "pg_dump @$args, as " . ($role || 'superuser'));
	}
}
my ($dump) = run_command([ 'pg_dump', '-d', $node->connstr('postgres') ]);
like($dump, qr/^big\t.*127\.0\.0\.1:8000/m, 'the model itself is dumped');

# a restored database needs its secrets again
$node->safe_psql('postgres', 'CREATE DATABASE copy');
my $dump_file = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump_file ], 'a dump');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', $dump_file ], '... restores');
is($node->safe_psql('copy', q{SELECT name, url, has_secret, owner FROM llm_models WHERE provider = 'openai' AND name = 'mine'}), 'mine|http://127.0.0.1:8000/v1|f|owner',
	'... the models, without secrets');

# ---- texts that are meant to keep the log hook busy: it can't be cancelled, so it must be fast; in any
# database ----
$node->append_conf('postgresql.conf', "log_min_duration_statement = -1\nlog_duration = off\nlog_min_messages = warning\n");
$node->reload;
my @busy = (
	[ 'backslashes', '\\' x 16_000_000, '' ],
	[ 'backslashes behind the name', 'llm_set_secret(' . '\\' x 900_000, '' ],
	[ 'names in open comments', 'llm_set_secret /* ' x 50_000, '' ],
	[ 'dollar quotes', join(' ', map { "\$a$_\$" } 1 .. 100_000), '$busy$' ]);
for my $w (@busy)
{
	my ($what, $hostile, $quote) = @$w;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/busy.sql';
	$quote ||= "'";
	open my $f, '>', $file or die $!;
	print $f "SET statement_timeout = '15s';\nSELECT length($quote$hostile$quote) > 0;\nDO \$do\$ BEGIN RAISE WARNING '%', $quote$hostile$quote; END \$do\$;\n";
	close $f;
	my $begin = time;
	my ($o) = run_command([ 'psql', '-XAtq', '-d', $node->connstr('template1'), '-f', $file ]);
	is($o, 't', "a statement with $what");
	cmp_ok(time - $begin, '<', 15, '... is logged in time');
	unlink $file;
}

unlike(logged(), qr/\Q$S\E-\d/, 'nothing is in the whole log');
$node->stop;
done_testing();
