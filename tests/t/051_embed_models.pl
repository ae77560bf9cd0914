# Vectors, scores and labels of the real engine, through SQL.
#
# - Every case of golden/pool_expected (results of transformers and sentence-transformers for tiny
#   models): the SQL functions return the same numbers, labels and errors.
# - A statement over many rows gives, bit for bit, the same as each row alone, while other
#   sessions request vectors and outputs.
# - The bundled model, which generates, embeds, too.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use FindBin;
use JSON::PP;
use List::Util qw(max);
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $json = JSON::PP->new->canonical->utf8;
my $fixtures = getcwd() . '/fixtures/pool';
my $expected = getcwd() . '/pool_expected';
my $top = PostgreSQL::Test::Utils::tempdir_short();

# A model's file or directory that the server's user can read.
sub model_copy
{
	my ($from, $to) = @_;
	if (-f $from)
	{
		copy($from, $to) or die "$from: $!";
		return $to;
	}
	mkdir $to or die "$to: $!";
	model_copy($_, $to . substr($_, rindex($_, '/'))) for glob "$from/*";
	return $to;
}

my %call = (
	embed => 'llm_embed(%s%s)', token_embed => 'llm_embed_multi(%s%s)', classify => 'llm_classify_probs(%s%s)',
	token_classify => q{llm_encode(%s, 'token_classify'%s)}, reward => q{llm_encode(%s, 'reward'%s)}, score => 'ARRAY[llm_score(%s%s)]');
my %option = (step_tag => 'step_tag_id', columns => 'returned_token_ids', map { ($_ => $_) } qw(use_activation prompt_name instruction dimensions long_input truncate));

sub literal { my ($s) = @_; utf8::encode($s); return "\$t\$$s\$t\$" }

# Return the call of a case as an expression.
sub call
{
	my ($c, $model) = @_;
	my %params = map { ($option{$_} => $c->{$_}) } grep { exists $c->{$_} } keys %option;
	my $texts = join ', ', map { literal($_) } $c->{text}, exists $c->{pair} ? $c->{pair} : ();
	return sprintf $call{ $c->{task} }, $texts, ", model => '$model', params => '" . ($json->encode(\%params) =~ s/'/''/gr) . "'";
}

my $node = PostgreSQL::Test::Cluster->new('embed_models');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\nvllm.kv_cache_dtype = 'float32'\nstatement_timeout = '60s'\nfsync = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
ok(until_ready($node), 'the engine becomes ready');

# returns a query's value, or its error, so that a model's cases need only one connection
$node->safe_psql('postgres', q{
	CREATE FUNCTION attempt(query text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		value text;
	BEGIN
		EXECUTE query INTO value;
		RETURN value;
	EXCEPTION WHEN OTHERS THEN
		RETURN 'ERROR ' || SQLERRM;
	END $$});

# Return what is wrong with a case's result; '' = nothing.
sub judge
{
	my ($c, $got, $label) = @_;
	if (exists $c->{error})
	{
		# some arguments are refused by SQL before the engine sees them
		return $got =~ /^ERROR / && (index($got, $c->{error}) >= 0 || $got =~ /does not apply to the task|is for embeddings/) ? '' : $got;
	}
	my @got = split / /, $got;
	my @want = map { @$_ } @{ $c->{values} };
	return $got if $got =~ /^ERROR /;
	return @got . ' numbers for ' . @want if @got != @want;
	my $off = max(map { abs($got[$_] - $want[$_]) / max(1, abs $want[$_]) } 0 .. $#want);
	return "off by $off" if !($off <= 1e-3);
	return '' if $c->{task} ne 'classify' || !$c->{labels};
	my ($best) = sort { $want[$b] <=> $want[$a] } 0 .. $#want;
	return $label eq $c->{labels}[$best] ? '' : "label $label";
}

my ($cases, $refused) = (0, 0);
# models init_* are about weight formats, which golden/pool_golden tests
for my $file (grep { !m{/init_} } glob "$expected/*.json")
{
	my ($name) = $file =~ m{([^/]+)\.json$};
	my $e = $json->decode(slurp_file($file));
	my $dir = model_copy("$fixtures/$name", "$top/$name");
	my $options = $e->{options} ? ", options => '" . $json->encode($e->{options}) . "'" : '';
	my @todo = grep { $_->{text} ne '' && $call{ $_->{task} } && ($_->{task} eq 'score') == (exists $_->{pair}) } @{ $e->{cases} };
	my $sql = join ";\n", "SELECT llm_create_model('$name', '$dir'$options)", map
	{
		(sprintf(q{SELECT attempt($attempt$SELECT array_to_string(%s, ' ')$attempt$)}, call($_, $name)),
			$_->{task} eq 'classify' ? sprintf(q{SELECT attempt($attempt$SELECT llm_class(%s, model => '%s')$attempt$)}, literal($_->{text}), $name) : 'SELECT NULL')
	} @todo;
	my (undef, @out) = split /\n/, $node->safe_psql('postgres', $sql), -1;
	my @bad;
	for my $c (@todo)
	{
		my ($got, $label) = (shift @out, shift @out // '');
		my $why = judge($c, $got, $label);
		exists $c->{error} ? $refused++ : $cases++;
		push @bad, call($c, $name) . ": $why" if $why ne '';
	}
	ok(!@bad, "$name says what its reference says") or diag(join "\n", @bad);
}
figure('%d cases, %d refusals', $cases, $refused);
cmp_ok($cases, '>', 100, 'there are cases');

# ---- separate prompts for queries and documents ----

is($node->safe_psql('postgres', q{
	SELECT abs(llm_score(a, b, model => m) - llm_similarity(llm_embed(a, prompt_name => 'query', model => m), llm_embed(b, prompt_name => 'document', model => m))) < 1e-5,
		abs(llm_score(a, b, model => m) - (SELECT relevance_score FROM llm_rerank(a, ARRAY[b], model => m))) < 1e-5,
		abs(llm_score(a, b, model => m, params => '{"prompt_name": ""}') - llm_similarity(llm_embed(a, model => m), llm_embed(b, model => m))) < 1e-5,
		abs(llm_score(a, a, model => m) - 1) > 1e-3, abs(llm_similarity(a, a, model => m) - 1) < 1e-5
	FROM (VALUES ('a fox', 'the quick brown fox', 'qwen3_embedding')) v (a, b, m)}), 't|t|t|t|t', 'scores by vectors');

is($node->safe_psql('postgres', q{SELECT count(*) FROM (VALUES ('qwen3_embedding'), ('bert_score')) v (m),
	LATERAL attempt(format($$SELECT llm_score('a', 'b', truncate => 1000000, model => %L)$$, m)) e WHERE e ~ 'ERROR .* is larger than the maximum model length'}), '2',
	'a length beyond the model\'s is refused, by vectors, too');

# ---- a text of very many chunks ----

like($node->safe_psql('postgres', q{SELECT attempt($$SELECT llm_embed(repeat('the fox ', 20000), model => 'bert_embed', long_input => 'chunk', truncate => 3)$$)}),
	qr/^ERROR .* more than 16384 pieces of 1$/, 'pieces of a text are limited');

# ---- many rows, other sessions at the same time ----

$node->safe_psql('postgres', q{
	CREATE TABLE texts AS SELECT i AS id, CASE WHEN i % 9 > 0 THEN left(repeat(md5(i::text) || ' the fox and the dog. ', i % 5 + 1), 20 + i % 60) END AS body FROM generate_series(1, 400) i;
	CREATE TABLE alone (id int, e real[], s real, c text, t text);
	SET vllm.batch = off;
	INSERT INTO alone SELECT id, llm_embed(body, model => 'bert_embed'), llm_score('a fox', body, model => 'bert_score'), llm_class(body, model => 'bert_classify'),
		(SELECT string_agg(t::text, ' ') FROM llm_token_classify(body, 'simple', model => 'bert_ner') t) FROM texts;
});
is($node->safe_psql('postgres', 'SELECT count(e), count(DISTINCT e) > 100, count(DISTINCT s) > 100, count(c) FROM alone'), '356|t|t|356', 'each row alone');
my $others = q{SELECT count(*) FROM (SELECT llm_embed(body || g, model => 'modernbert_embed'), llm_generate(body, max_tokens => 5) FROM texts, generate_series(1, 2) g) s};
my @bg = map { bg($node, $others) } 1 .. 3;
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM (SELECT id, llm_embed(body, model => 'bert_embed') AS e, llm_score('a fox', body, model => 'bert_score') AS s, llm_class(body, model => 'bert_classify') AS c FROM texts) x
	JOIN alone a USING (id) WHERE x.e IS DISTINCT FROM a.e OR x.s IS DISTINCT FROM a.s OR x.c IS DISTINCT FROM a.c}), '0', 'the same bits in a statement over all rows');
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM (SELECT x.id, string_agg(t::text, ' ') AS t FROM texts x LEFT JOIN LATERAL llm_token_classify(x.body, 'simple', model => 'bert_ner') t ON true GROUP BY x.id) x
	JOIN alone a USING (id) WHERE x.t IS DISTINCT FROM a.t}), '0', 'and the same labels of tokens');
is(join(' ', map { scalar finish($_) } @bg), '800 800 800', 'the other sessions get theirs');

# ---- the bundled model ----

is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE abs(1 - l) < 1e-3), min(n) = max(n) FROM (SELECT array_length(e, 1) AS n, (SELECT sum(x * x) FROM unnest(e) x) AS l
	FROM (SELECT llm_embed(body, model => 'tickets-2m') AS e FROM texts WHERE body IS NOT NULL LIMIT 20) s) s}), '20|t', 'a model that generates embeds');

# ---- the default model if none is named ----

sub fails { return ($node->psql('postgres', $_[0]))[2] =~ s/\n.*HINT:/ HINT:/sr }

$node->safe_psql('postgres', 'CREATE TABLE vectors (id int PRIMARY KEY, body text, e real[])');
my $generates = 'ERROR: +the default model generates text and was not made to';
my $embed = qr/$generates embed texts HINT:.*vllm\.embedding_model/;
for my $call (q{llm_embed('a')}, q{llm_embed_multi('a')}, q{llm_similarity('a', 'b')}, q{llm_encode('a', 'embed')}, q{llm_embed_bytes('a')}, q{llm_embed_batch('{a,b}')},
	q{v1_embeddings('{"input": "a"}')}, q{v1_pooling('{"input": "a", "task": "token_embed"}')}, q{llm_result_embedding(llm_submit_embed('a'))},
	q{llm_create_embedding_job('vectors', 'body', 'e')})
{
	like(fails("SELECT $call"), $embed, "$call by a model that generates");
}
my $rank = qr/$generates score the relevance of a text HINT:.*vllm\.rerank_model/;
for my $call (q{llm_score('a', 'b')}, q{llm_score_batch('a', '{b,c}')}, q{llm_rerank('a', '{b,c}')}, q{llm_rerank_agg('a', id, body) FROM texts},
	q{v1_score('{"text_1": "a", "text_2": "b"}')}, q{v1_rerank('{"query": "a", "documents": ["b"]}')})
{
	like(fails("SELECT $call"), $rank, "$call by a model that generates");
}
is( $node->safe_psql('postgres', q{
	SELECT llm_similarity('a', 'b', model => 'tickets-2m') > -2, llm_score('a', 'b', model => 'tickets-2m') > -2;
	SET vllm.embedding_model = 'bert_embed'; SET vllm.rerank_model = 'bert_score';
	SELECT llm_embed('a') = llm_embed('a', model => 'bert_embed'), llm_similarity('a', 'b') = llm_similarity('a', 'b', model => 'bert_embed'),
		llm_score('a', 'b') = llm_score('a', 'b', model => 'bert_score'), llm_generate('a', 1) = llm_generate('a', 1, model => 'tickets-2m'),
		(SELECT relevance_score FROM llm_rerank('a', '{b}')) = llm_score('a', 'b', model => 'bert_score'), v1_embeddings('{"input": "a"}')->>'model',
		v1_score('{"text_1": "a", "text_2": "b"}')->>'model', v1_rerank('{"query": "a", "documents": ["b"]}')->>'model';
	SET vllm.embedding_model = 'tickets-2m'; SET vllm.rerank_model = 'tickets-2m';
	SELECT array_length(llm_embed('a'), 1) > 0, llm_score('a', 'b') > -2;
	RESET vllm.embedding_model; RESET vllm.rerank_model; SET vllm.model = 'bert_embed';
	SELECT array_length(llm_embed('a'), 1) > 0, llm_score('a', 'b') > -2;
	SET vllm.model = '';
	SET vllm.embedding_model = 'bert_embed';
	SELECT array_length(llm_embed('a'), 1) > 0}), "t|t\nt|t|t|t|t|bert_embed|bert_score|bert_score\nt|t\nt|t\nt", 'who is asked');
like(fails(q{SET vllm.model = ''; SELECT llm_embed('a')}), qr/no model was given HINT:.*vllm\.embedding_model/, 'none is named');
like(fails(q{SET vllm.rerank_model = 'no such'; SELECT llm_score('a', 'b')}), qr/model "no such" does not exist/, 'a name that is nobody\'s');

like(($node->psql('postgres', q{SELECT llm_class('x')}))[2], qr/does not support the task "classify"/, 'and has no labels');

is($node->safe_psql('postgres', 'SELECT slots_total - slots_free, running, waiting, kv_blocks_used FROM llm_stat_engine'), '0|0|0|0', 'nothing is left');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop('fast');
done_testing();
