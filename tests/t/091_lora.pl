# Adapters: the directory, unloading and dropping while in use, other sessions, a lost engine, jobs,
# batches, HTTP, with the fake engine, whose outputs begin with [NAME].
use strict;
use warnings;
use Cwd qw(abs_path);
use HTTP::Tiny;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $node = new_node('lora', "vllm.http_host = '127.0.0.1'\nmax_prepared_transactions = 2\n");
my $base = abs_path($node->basedir);
my $dir = "$base/adapters";
ok(until_ready($node), 'the engine becomes ready');

sub sql { return $node->safe_psql('postgres', $_[0]); }

# the error of a statement: SQLSTATE and message
sub error
{
	my (undef, undef, $err) = $node->psql('postgres', $_[0], extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $err =~ /ERROR:  (\w{5}): (.*)/ ? "$1 $2" : $err;
}

# Make an adapter's directory, as far as the fake engine needs it.
sub make_adapter
{
	my ($name) = @_;
	mkdir "$dir/$name" or die "$name: $!";
	append_to_file("$dir/$name/adapter_config.json", '{}');
}

sub loads
{
	my ($name) = @_;
	my @found = slurp_file($node->logfile) =~ m{adapter loaded from "[^"]*/\Q$name\E"}g;
	return scalar @found;
}

sql(q{CREATE ROLE reader; CREATE ROLE other;
	SELECT llm_create_model('base', '/fake/base'), llm_grant('base', 'reader');
	ALTER SYSTEM SET vllm.model = 'base'; SELECT pg_reload_conf()});
until_sql($node, q{SELECT current_setting('vllm.model') = 'base'});

# ---- a directory of adapters ----
like(error(q{SET ROLE reader; SET vllm.lora_dir = '/tmp'}), qr/^42501/, 'the directory is named by superusers');
like(error(q{SET vllm.lora_dir = 'adapters'}), qr/^22023/, 'it is absolute');
sql("ALTER SYSTEM SET vllm.lora_dir = '$dir'; SELECT pg_reload_conf()");
until_sql($node, "SELECT current_setting('vllm.lora_dir') = '$dir'");
is(error(q{SELECT llm_generate('x', model => 'sql_adapter')}),
	q{58P01 could not look for adapter "sql_adapter" in the directory of vllm.lora_dir: No such file or directory}, 'the directory is missing');
append_to_file($dir, 'a file');
like(error(q{SELECT llm_generate('x', lora => 'sql_adapter')}), qr/^58P01 .*Not a directory/, 'it is a file');
unlink $dir;
mkdir $dir;
is(error(q{SELECT llm_generate('x', lora => 'sql_adapter')}), q{42704 adapter "sql_adapter" does not exist}, 'the adapter is missing');
is(error(q{SELECT llm_generate('x', model => 'sql_adapter')}), q{42704 model "sql_adapter" does not exist}, '... named as a model');
make_adapter($_) for qw(sql_adapter .hidden fail rank:65 base);
mkdir "$dir/empty";
mkdir "$base/evil";
append_to_file("$base/evil/adapter_config.json", '{}');
is(error(q{SELECT llm_generate('x', lora => 'empty')}), q{42704 adapter "empty" does not exist}, 'a directory without adapter_config.json is none');
is(error(q{SELECT llm_generate('x', lora => 'fail')}), 'XX001 fake adapter failure', 'a broken one');
like(error(q{SELECT llm_generate('x', lora => 'rank:65')}), qr/^54000 .*rank 65 is above max_lora_rank \(64\)/, 'one of too large a rank');
for my $evil ('../evil', '..', '.', '.hidden', '', '/etc', 'sql_adapter/', 'sql_adapter/../../evil', "$base/evil", 'x' x 64)
{
	is(error(qq{SELECT llm_generate('x', lora => '$evil')}), qq{42704 adapter "$evil" does not exist}, "no adapter: '$evil'");
	like(error(qq{SELECT llm_generate('x', model => '$evil')}), qr/^(42704 model|22023 no model)/, "no model: '$evil'");
}
is(sql(q{SELECT llm_generate('x', model => 'sql_adapter'), llm_generate('x', lora => 'sql_adapter'), llm_generate('x')}),
	'[sql_adapter] X|[sql_adapter] X|X', 'an adapter of the directory');
is(sql(q{SELECT llm_generate('x', model => 'base')}), 'X', 'a model comes before what has its name there');
is(loads('sql_adapter'), 1, 'it is read once');
is(sql(q{SET ROLE reader; SELECT llm_generate('x', lora => 'sql_adapter')}), '[sql_adapter] X', 'who may use the model may use it');
is(sql(q{SET ROLE reader; SELECT name, parent, root IS NULL, source, state, owner IS NULL FROM llm_loras}), 'sql_adapter|base|t|directory|ready|t', 'llm_loras has it');
is(sql(q{SELECT root FROM llm_loras}), "$dir/sql_adapter", '... and where it is');
like(error(q{SET ROLE other; SELECT llm_generate('x', lora => 'sql_adapter')}), qr/^42501 permission denied for model/, 'who may not may not');
like(error(q{SET ROLE reader; SELECT llm_unload_lora('sql_adapter')}), qr/^42501 must be owner of model/, 'unloading is for the owner of the model');
is(error($_), '42809 adapter "sql_adapter" is in the directory of vllm.lora_dir and not registered in the database', $_)
	for q{SELECT llm_drop_lora('sql_adapter')}, q{SELECT llm_grant('sql_adapter', 'other')}, q{SELECT llm_alter_lora('sql_adapter', new_name => 'x')};
sql(q{SELECT llm_unload_lora('sql_adapter')});
is(sql(q{SELECT count(*) FROM llm_loras}), '0', 'it is unloaded');
is(sql(q{SELECT llm_generate('x', lora => 'sql_adapter')}), '[sql_adapter] X', '... and loaded again');
is(loads('sql_adapter'), 2, 'which takes reading it again');
is(sql(q{SELECT llm_generate('x', model => 'tickets-2m', lora => 'sql_adapter'); SELECT parent FROM llm_loras ORDER BY 1}),
	"[sql_adapter] X\nbase\ntickets-2m", 'a call may name another model for it');
is(sql(q{SELECT llm_create_lora('sql_adapter', 'base', '/fake/adapters/mine'); SELECT llm_generate('x', lora => 'sql_adapter'); SELECT llm_drop_lora('sql_adapter')}),
	"\n[mine] X\n", 'a row comes before the directory');
sql(q{ALTER SYSTEM RESET vllm.lora_dir; SELECT pg_reload_conf()});
until_sql($node, q{SELECT current_setting('vllm.lora_dir') = ''});
is(error(q{SELECT llm_generate('x', lora => 'sql_adapter')}), q{42704 adapter "sql_adapter" does not exist}, 'without the setting there is none');

# a directory whose name is not valid UTF-8
sql(q{CREATE DATABASE bytes ENCODING sql_ascii TEMPLATE template0 LOCALE 'C'});
is($node->safe_psql('bytes', qq{SET client_min_messages = error; CREATE EXTENSION vllm_pg; SELECT llm_create_model('base', '/fake/base');
	SELECT llm_create_lora('bytes', 'base', E'/fake/b\\xe9'), llm_load_lora('bytes'); SELECT name || state || (root = E'/fake/b\\xe9') FROM llm_loras;
	SELECT json_array_length(v1_models()->'data')}), "\n|\nbytesreadytrue\n3", 'a path of any bytes');
sql(q{DROP DATABASE bytes});

# ---- in use ----
sql(q{SELECT llm_create_lora('red', 'base', '/fake/adapters/red'), llm_create_lora('blue', 'base', '/fake/adapters/blue')});
sub in_use
{
	my ($what, $statement, $state) = @_;
	my $b = bg($node, q{SELECT llm_generate('runs @delay:800', lora => 'red')});
	until_sql($node, q{SELECT running = 1 FROM llm_loras WHERE name = 'red'});
	sql($statement);
	my $then = sql(q{SELECT string_agg(state, ' ') FROM llm_loras WHERE name = 'red'});
	my ($out, $err) = finish($b);
	is("$out$err", '[red] RUNS @DELAY:800', "$what: the call goes on");
	is($then, $state, '... and the adapter is gone for others');
}
in_use('unload', q{SELECT llm_unload_lora('red')}, 'unloaded');
in_use('drop', q{SELECT llm_drop_lora('red')}, '');
is(error(q{SELECT llm_generate('x', lora => 'red')}), q{42704 adapter "red" does not exist}, 'a dropped one is no more');
ok(until_sql($node, q{SELECT count(*) = 0 FROM llm_loras WHERE name = 'red'}), '... in the engine neither');
sql(q{SELECT llm_create_lora('red', 'base', '/fake/adapters/red')});
in_use('another path', q{SELECT llm_alter_lora('red', path => '/fake/adapters/crimson')}, 'unloaded');
is(sql(q{SELECT llm_generate('x', lora => 'red')}), '[crimson] X', 'the next call has the other');
sql(q{SELECT llm_alter_lora('red', path => '/fake/adapters/red')});

# a rollback does not affect the engine
sql(q{SELECT llm_load_lora('red'); BEGIN; SELECT llm_drop_lora('red'); ROLLBACK;
	BEGIN; SAVEPOINT s; SELECT llm_drop_lora('red'); ROLLBACK TO s; COMMIT});
is(sql(q{SELECT state FROM llm_loras WHERE name = 'red'}), 'ready', 'a drop that rolls back unloads nothing');
sql(q{BEGIN; SAVEPOINT s; SELECT llm_drop_lora('red'); RELEASE s; COMMIT});
ok(until_sql($node, q{SELECT count(*) = 0 FROM llm_loras WHERE name = 'red'}), 'one of a savepoint that is released does');
sql(q{BEGIN; SELECT llm_create_lora('red', 'base', '/fake/adapters/red'); PREPARE TRANSACTION 'later'});
is(error(q{SELECT llm_generate('x', lora => 'red')}), q{42704 adapter "red" does not exist}, 'a prepared transaction has not happened');
is(sql(q{COMMIT PREPARED 'later'; SELECT llm_generate('x', lora => 'red')}), '[red] X', '... until it is committed');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- other sessions ----
my $a = $node->background_psql('postgres', on_error_stop => 0);
$a->query_safe(q{BEGIN; SELECT llm_create_lora('new', 'base', '/fake/adapters/new')});
is(error(q{SELECT llm_generate('x', lora => 'new')}), q{42704 adapter "new" does not exist}, 'one that is not committed is not there');
my $b = bg($node, q{SELECT llm_create_lora('new', 'base', '/fake/adapters/new')});
my $c = bg($node, q{SELECT llm_create_model('new', '/fake/new')});
my $d = bg($node, q{SELECT llm_drop_model('base')});
ok(until_sql($node, q{SELECT count(*) = 3 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}), 'the same name, and dropping the model, wait');
$a->query_safe(q{COMMIT});
like((finish($b))[1], qr/42710: adapter "new" already exists/, 'an adapter of this name is refused then');
like((finish($c))[1], qr/42710: adapter "new" already exists/, '... and a model');
like((finish($d))[1], qr/2BP01: cannot drop model "base" because other objects depend on it/, '... and dropping its model');

# a cursor is open; rows that it has not sent yet use the state at that time
sql(q{CREATE TABLE many AS SELECT i, CASE i % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'blue' END AS l FROM generate_series(1, 300) i;
	GRANT SELECT ON many TO reader; SELECT llm_grant('red', 'reader'), llm_grant('blue', 'reader')});
$a->query_safe(q{SET ROLE reader; SET vllm.batch_window = 4; BEGIN; DECLARE c CURSOR FOR SELECT llm_generate('row ' || i, lora => l) FROM many ORDER BY i});
is($a->query_safe('FETCH 3 FROM c'), "[blue] ROW 1\nROW 2\n[red] ROW 3", 'a cursor');
sql(q{SELECT llm_revoke('blue', 'reader')});
usleep(150000);
$a->query('FETCH ALL FROM c');
like($a->{stderr}, qr/permission denied for adapter "blue"/, 'what is revoked is refused in its rows to come');
$a->query('ROLLBACK');
$a->{stderr} = '';
$a->query_safe(q{RESET ROLE; PREPARE p(text) AS SELECT llm_generate('x', lora => $1)});
is($a->query_safe("EXECUTE p('red')") . $a->query_safe('EXECUTE p(NULL)') . $a->query_safe("EXECUTE p('blue')"), '[red] XX[blue] X', 'a prepared statement');
sql(q{SELECT llm_alter_lora('red', new_name => 'ruby')});
is($a->query_safe("EXECUTE p('ruby')"), '[red] X', '... meets the new name at once');
is(sql(q{SELECT string_agg(name || ' ' || source, ', ' ORDER BY name) FROM llm_loras WHERE name IN ('red', 'ruby')}), 'ruby catalog', '... and nobody sees the old one');
sql(q{SELECT llm_alter_lora('ruby', new_name => 'red')});
$a->quit;

# a function with its owner's rights, and an owner that was dropped
sql(q{CREATE FUNCTION ask_blue(t text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT llm_generate(t, lora => 'blue')$$});
is(sql(q{SET ROLE reader; SELECT ask_blue('x')}), '[blue] X', 'SECURITY DEFINER');
sql(q{CREATE ROLE leaver IN ROLE pg_read_server_files; SELECT llm_grant('base', 'leaver'); SET ROLE leaver; SELECT llm_create_lora('left', 'base', '/fake/adapters/left')});
sql(q{DROP ROLE leaver});
like(sql(q{SELECT owner FROM llm_loras WHERE name = 'left'}), qr/^\d+$/, 'an owner that is gone is a number');
is(sql(q{SELECT llm_generate('x', lora => 'left'); SELECT llm_drop_lora('left')}), "[left] X\n", '... and superusers go on');

# ---- a column chooses the adapter; the same after the engine is killed ----
my $rows = q{SELECT string_agg(a, ',' ORDER BY i) FROM (SELECT i, llm_generate('row ' || i, lora => l) AS a FROM many) s};
my $want = join(',', map { ($_ % 3 == 0 ? '[red] ' : $_ % 3 == 1 ? '[blue] ' : '') . "ROW $_" } 1 .. 300);
is(sql($rows), $want, '300 rows, three choices');
is(sql("SET vllm.batch = off; $rows"), $want, '... one by one');
my $pid = engine_pid($node);
$b = bg($node, q{SELECT llm_generate('runs @hang', lora => 'red')});
until_sql($node, q{SELECT running = 1 FROM llm_loras WHERE name = 'red'});
kill 'KILL', $pid;
like((finish($b))[1], qr/58000/, 'the engine is killed: the call fails');
ok(until_ready($node, $pid), 'another engine');
is(sql(q{SELECT count(*) FROM llm_loras WHERE state <> 'unloaded'}), '0', '... has no adapters');
is(sql($rows), $want, '... and gives the same answers');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- jobs, lines of a batch ----
sql(q{CREATE TABLE notes (id int PRIMARY KEY, body text, e real[], a text, b text); INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 5) i;
	SELECT llm_create_embedding_job('notes', 'body', 'e', model => 'red');
	SELECT llm_create_completion_job('notes', '{body}', 'a', options => '{"lora": "blue"}');
	SELECT llm_create_completion_job('notes', '{body}', 'b', model => 'red', name => 'to_b')});
ok(until_sql($node, q{SELECT count(*) = 5 FROM notes WHERE e = llm_embed(body, lora => 'red') AND e <> llm_embed(body) AND a = '[blue] ' || upper(body) AND b = '[red] ' || upper(body)}),
	'jobs work with adapters');
is(sql(q{SELECT model FROM llm_jobs WHERE name = 'to_b'}), 'red', 'and say so');
sql(q{SELECT llm_drop_job(name) FROM llm_jobs});
is(sql(q{SELECT response->'choices'->0->>'text', response->>'model' FROM llm_run_batch($$SELECT 'a' AS custom_id, '/v1/completions' AS url,
	'{"model": "red", "prompt": "a b"}'::json AS body$$)}), '[red] A B|red', 'a line of a batch names an adapter');

# ---- HTTP ----
sql(q{CREATE ROLE vllm_http LOGIN NOINHERIT; CREATE ROLE web; GRANT web, reader TO vllm_http; SELECT llm_grant('base', 'web')});
my $key = sql(q{SELECT llm_create_api_key('k', 'web')});
my $file_key = sql(q{CREATE ROLE loader IN ROLE pg_read_server_files; GRANT loader TO vllm_http; SELECT llm_grant('base', 'loader') IS NULL} . '; ' . q{SELECT llm_create_api_key('f', 'loader')});
$file_key =~ s/.*\n//s;
sql("ALTER SYSTEM SET vllm.http_port = $port; SELECT pg_reload_conf()");
my $http = HTTP::Tiny->new(timeout => 20);
SKIP:
{
	skip 'no HTTP server', 1 unless until_true(sub { $http->get("http://127.0.0.1:$port/health")->{status} == 200 }, 10);
	my $post = sub {
		my ($path, $body, $k) = @_;
		my $r = $http->post("http://127.0.0.1:$port$path", { headers => { authorization => "Bearer $k", 'content-type' => 'application/json' }, content => $body });
		return "$r->{status} $r->{content}";
	};
	my $load = '{"lora_name": "served", "lora_path": "/fake/adapters/served"}';
	like($post->('/v1/load_lora_adapter', $load, $file_key), qr/^403 .*requests may not load or unload adapters/, 'HTTP: off by default');
	sql(q{ALTER SYSTEM SET vllm.allow_runtime_lora = on; SELECT pg_reload_conf()});
	until_sql($node, q{SELECT current_setting('vllm.allow_runtime_lora') = 'on'});
	ok(until_true(sub { $post->('/v1/load_lora_adapter', '{}', $file_key) =~ /^400 / }, 5), 'HTTP: both must be given');
	like($post->('/v1/load_lora_adapter', $load, $key), qr/^403 .*permission denied to create an adapter/, 'HTTP: files are for those who may');
	is($post->('/v1/load_lora_adapter', $load, $file_key), q{200 Success: LoRA adapter 'served' added successfully.}, 'HTTP: added');
	like($post->('/v1/load_lora_adapter', $load, $file_key), qr/^400 .*has already been loaded\. If you want to load the adapter in place, set 'load_inplace' to True\."/, 'HTTP: once');
	like($post->('/v1/completions', '{"model": "served", "prompt": "a b"}', $file_key), qr/^200 .*"model":\s*"served".*\[served\] A B/, 'HTTP: used');
	like($post->('/v1/completions', '{"model": "served", "prompt": "a b"}', $key), qr/^403 .*permission denied for adapter/, 'HTTP: by those who may');
	my $list = $http->get("http://127.0.0.1:$port/v1/models", { headers => { authorization => "Bearer $file_key" } })->{content};
	like($list, qr/"id":\s*"served".*?"root":\s*"\/fake\/adapters\/served".*?"parent":\s*"base"/, 'HTTP: listed');
	is($post->('/v1/unload_lora_adapter', '{"lora_name": "served"}', $file_key), q{200 Success: LoRA adapter 'served' removed successfully.}, 'HTTP: removed');
	like($post->('/v1/unload_lora_adapter', '{"lora_name": "served"}', $file_key), qr/^404 .*The lora adapter 'served' cannot be found/, 'HTTP: gone');
	like($post->('/v1/completions', '{"model": "served", "prompt": "a b"}', $file_key), qr/^404 /, 'HTTP: really');
}
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop;
done_testing();
