# Embeddings pinned to a model's digest, with the real engine: what the digest is computed from, a model
# whose files change in place, and how pg_dump handles generated columns and expressions of indexes.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('pinned');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;

sub q1 { return $node->safe_psql('postgres', shift); }
sub error_of
{
	my ($sql, $db) = @_;
	return ($node->psql($db // 'postgres', $sql))[2];
}
sub put
{
	my ($name, $text) = @_;
	open(my $f, '>', $name) or die "$name: $!";
	print $f $text;
	close $f;
}

my $tmp = abs_path(PostgreSQL::Test::Utils::tempdir);
my %dir = map { $_ => "$tmp/$_" } qw(a b);
for my $d (values %dir)
{
	mkdir $d or die "$d: $!";
	copy($_, $d) or die "$_: $!" for glob('models/tickets-2m/*');
}
q1('CREATE EXTENSION vllm_pg');
q1("SELECT llm_create_model('a', '$dir{a}'), llm_create_model('b', '$dir{b}')");

# what it is computed from
my $digest = q1("SELECT llm_model_digest('a')");
like($digest, qr/^[0-9a-f]{64}$/, 'a digest');
is(q1("SELECT llm_model_digest('b'), llm_model_digest('tickets-2m')"), "$digest|$digest", 'that of the same files elsewhere');
q1(qq{SELECT llm_create_model('half', '$dir{a}', options => '{"dtype": "bfloat16"}'), llm_create_model('heavy', '$dir{a}', options => '{"scheduling_weight": 200, "max_num_seqs": 3}')});
isnt(q1("SELECT llm_model_digest('half')"), $digest, 'an option by which vectors differ counts');
is(q1("SELECT llm_model_digest('heavy')"), $digest, 'others do not');
q1("SELECT llm_drop_model('half'), llm_drop_model('heavy'), llm_unload_model('b')");
put("$dir{b}/README.md", 'about it');
put("$dir{b}/generation_config.json", '{"temperature": 0.5}');
is(q1("SELECT llm_model_digest('b')"), $digest, 'nor does what vectors do not depend on');
mkdir "$dir{b}/1_Other" or die;
put("$dir{b}/1_Other/config.json", '{}');
q1("SELECT llm_unload_model('b')");
isnt(q1("SELECT llm_model_digest('b')"), $digest, 'a text in a folder counts');
unlink("$dir{b}/1_Other/config.json");
q1("SELECT llm_unload_model('b')");
is(q1("SELECT llm_model_digest('b')"), $digest, '... and is gone');

# columns and indexes
is(q1("SELECT llm_embed_pinned('a text', '$digest', 'a') = llm_embed('a text', model => 'b')"), 't', 'an embedding');
q1(qq{CREATE TABLE docs (id int PRIMARY KEY, body text, v real[] GENERATED ALWAYS AS (llm_embed_pinned(body, '$digest', 'a')) STORED);
	INSERT INTO docs SELECT i, 'word ' || i FROM generate_series(1, 20) i;
	CREATE TABLE notes (id int PRIMARY KEY, body text); INSERT INTO notes SELECT id, body FROM docs;
	CREATE INDEX notes_v ON notes ((llm_embed_pinned(body, '$digest', 'a')))});
is(q1("SELECT count(*) FROM docs WHERE v = llm_embed(body, model => 'a')"), '20', 'a generated column');
my $search = "SET enable_seqscan = off; SELECT id FROM notes WHERE llm_embed_pinned(body, '$digest', 'a') = llm_embed_pinned('word 7', '$digest', 'a')";
like(q1("SET enable_seqscan = off; EXPLAIN " . ($search =~ s/.*; //r)), qr/notes_v/, 'an index');
is(q1($search), '7', '... finds');
q1('VACUUM ANALYZE notes; VACUUM ANALYZE docs; REINDEX INDEX notes_v');
is(q1($search), '7', '... also when it is made anew');
# the same after a restart, and after unloading
$node->restart;
is(q1("INSERT INTO docs VALUES (21, 'word 21') RETURNING v = llm_embed(body, model => 'a')"), 't', 'it is the same model after a restart');

# dump and restore: indexes are made after all rows, generated columns with their rows
my $file = "$tmp/dump";
$node->command_ok([ 'pg_dump', '-Fc', '-d', $node->connstr('postgres'), '-f', $file ], 'pg_dump');
q1('CREATE DATABASE plain');
q1('CREATE DATABASE parts');
$node->command_fails_like([ 'pg_restore', '-d', $node->connstr('plain'), $file ], qr/model "a" does not exist/, 'rows of a generated column before the model are refused');
is($node->safe_psql('plain', 'SELECT count(*) FROM docs'), '0', '... and not there');
is($node->safe_psql('plain', $search), '7', 'an index is there');
for my $part ([ '--section=pre-data' ], [ '--section=data', '-n', 'vllm' ], [ '--section=data', '-N', 'vllm' ], [ '--section=post-data' ])
{
	$node->command_ok([ 'pg_restore', '--exit-on-error', @$part, '-d', $node->connstr('parts'), $file ], "restore @$part");
}
is($node->safe_psql('parts', "SELECT count(*) FROM docs WHERE v = llm_embed(body, model => 'a')"), '21', 'models first, then all rows are there');
is($node->safe_psql('parts', $search), '7', '... and the index');

# the model's files were replaced
my $config = slurp_file("$dir{a}/tokenizer_config.json");
put("$dir{a}/tokenizer_config.json", "$config\n");
is(q1("INSERT INTO docs VALUES (22, 'word 22') RETURNING v IS NOT NULL"), 't', 'what is loaded is still the model');
q1("SELECT llm_unload_model('a')");
my $err = error_of("\\set VERBOSITY verbose\nINSERT INTO docs VALUES (23, 'word 23')");
like($err, qr/ERROR:  55000: the model differs from the pinned one/, 'another tokenizer is refused');
like($err, qr/DETAIL:  The pinned digest is $digest, the model's digest is [0-9a-f]{64}\./, '... with both digests');
like($err, qr/HINT:  .*rebuild/, '... and what to do');
unlike($err, qr/\Q$dir{a}\E/, '... without its path');
like(error_of("UPDATE notes SET body = 'x' WHERE id = 3"), qr/differs from the pinned one/, '... of an index, too');
like(error_of('REINDEX INDEX notes_v'), qr/differs from the pinned one/, '... and when it is made anew');
is(q1('SELECT count(*) FROM docs'), '22', 'what is stored can be read');
put("$dir{a}/tokenizer_config.json", $config);
q1("SELECT llm_unload_model('a')");
q1("INSERT INTO docs VALUES (23, 'word 23')");

# other weights, by one bit
q1("SELECT llm_unload_model('a'), llm_embed('x', model => 'a')");
my $weights = slurp_file("$dir{a}/model.safetensors");
my $other = $weights;
substr($other, -5, 1) ^= chr(1);
put("$dir{a}/model.new", $other);
rename("$dir{a}/model.new", "$dir{a}/model.safetensors") or die;
like(error_of("INSERT INTO docs VALUES (24, 'word 24')"), qr/the files of the model have changed since it was loaded/, 'files that nobody has read are not taken for those that are loaded');
q1("SELECT llm_unload_model('a')");
like(error_of("INSERT INTO docs VALUES (24, 'word 24')"), qr/differs from the pinned one/, 'other weights are refused');
my $new = q1("SELECT llm_model_digest('a')");
isnt($new, $digest, 'they have a digest of their own');
q1(qq{ALTER TABLE docs DROP v; ALTER TABLE docs ADD v real[] GENERATED ALWAYS AS (llm_embed_pinned(body, '$new', 'a')) STORED});
is(q1("SELECT count(*) FROM docs WHERE v = llm_embed(body, model => 'a')"), '23', 'the column is made anew with the new one');
# llm_update_weights() makes another model, too
q1("SELECT llm_update_weights('a', '$dir{b}')");
is(q1("SELECT llm_model_digest('a')"), $digest, 'weights that are exchanged in place have the digest of where they are from');
like(error_of("INSERT INTO docs VALUES (24, 'word 24')"), qr/differs from the pinned one/, '... and are refused');
# a model that has slept is the same
q1("SELECT llm_sleep(2, model => 'b'); SELECT llm_wake_up(model => 'b')");
is(q1("SELECT llm_model_digest('b')"), $digest, 'one that has slept without its weights is the same');

# two at once, of a model whose files have not been read
q1("SELECT llm_unload_model('b')");
my @h = map { $node->background_psql('postgres') } 1 .. 3;
$_->query_until(qr//, "SELECT 'got ' || llm_model_digest('b'), llm_embed_pinned('x', '$digest', 'b') IS NOT NULL;\n") for @h;
for my $h (@h)
{
	is($h->query_safe('SELECT 1'), "got $digest|t\n1", 'several at once') or last;
	$h->quit;
}
$node->stop;
done_testing();
