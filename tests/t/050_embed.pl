# Statements over many vectors: memory, cancelling, a lost engine.
#
# A hundred thousand rows in one UPDATE take no more memory than twenty thousand.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $nothing = '0|0|0|0|0|0';
# few shared buffers, because they count as memory of each backend that has touched them
my $node = new_node('embed', "shared_buffers = '4MB'\nlog_min_messages = fatal\nautovacuum = off\nmax_wal_size = '4GB'\n");
ok(until_ready($node), 'the engine becomes ready');
$node->safe_psql('postgres', q{
	CREATE TABLE docs (id int, body text, e real[], label text);
	INSERT INTO docs SELECT i, 'text ' || i FROM generate_series(1, 100000) i;
});

# ---- memory ----

my $s = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $s->query('SELECT pg_backend_pid()');
# results that wait for an earlier row's may take work_mem, and their calls a multiple of it: more of them
# do on a busy machine
$s->query("SET work_mem = '256kB'");
# private memory only: the busier the machine, the more ring pages the backend touches
sub peak
{
	my $status = slurp_file("/proc/$pid/status");
	my ($kb) = $status =~ /VmHWM:\s+(\d+)/;
	my ($shared) = $status =~ /RssShmem:\s+(\d+)/;
	return $kb - $shared;
}
my @peak;
for my $n (20000, 100000)
{
	$s->query("UPDATE docs SET e = llm_embed(body) WHERE id <= $n");
	push @peak, peak();
	is($s->query("SELECT count(e) FROM docs WHERE id <= $n"), $n, "$n rows are embedded");
}
figure('backend\'s peak %d kB with 20,000 rows, %d kB with 100,000', @peak);
cmp_ok($peak[1] - $peak[0], '<', 4096, 'five times the rows take no more memory');
$s->query('SELECT sum(length(e::text)), count(c.label) FROM (SELECT id, body, llm_embed_multi(body) AS e FROM docs WHERE id <= 5000) d, llm_classify(d.body, top => 1) c');
my $before = peak();
$s->query('SELECT sum(length(e::text)), count(c.label) FROM (SELECT id, body, llm_embed_multi(body) AS e FROM docs WHERE id <= 25000) d, llm_classify(d.body, top => 1) c');
cmp_ok(peak() - $before, '<', 4096, 'nor do vectors of tokens and sets of labels');
$s->query(q{SELECT llm_rerank_agg('text 7', id, body, 5) FROM docs WHERE id <= 5000});
$before = peak();
is($s->query(q{SELECT (llm_rerank_agg('text 7', id, body, 5))[1].relevance_score > 0.999 FROM docs WHERE id <= 25000}), 't', 'a rerank of many rows');
cmp_ok(peak() - $before, '<', 4096, 'nor does the aggregate');
is(left_behind($node), $nothing, 'nothing is left');

# ---- cancelled ----

my $stuck = q{CASE id WHEN 500 THEN '@hang' ELSE body END};
for my $q ("UPDATE docs SET e = llm_embed($stuck)", "SELECT llm_rerank_agg('q', id, $stuck) FROM docs", "SELECT llm_score_batch('q', array_agg($stuck)) FROM docs",
	"SELECT count(*) FROM llm_embed_batch((SELECT array_agg($stuck) FROM docs))", "SELECT count(*) FROM docs, llm_token_classify($stuck)", "SELECT count(*) FROM llm_rerank('q', (SELECT array_agg($stuck) FROM docs))")
{
	$s->{stderr} = '';
	$s->query("SET statement_timeout = '500ms'; $q");
	like($s->{stderr}, qr/canceling statement due to statement timeout/, "cancelled: $q");
	is(left_behind($node), $nothing, 'and nothing is left');
}
$s->query('RESET statement_timeout');

# ---- the engine is lost ----

for my $q (q{SELECT llm_embed(CASE id WHEN 50 THEN '@crash' ELSE body END) FROM docs WHERE id < 100}, q{SELECT llm_rerank_agg('q', id, CASE id WHEN 50 THEN '@crash' ELSE body END) FROM docs WHERE id < 100},
	q{SELECT llm_score_batch('q', ARRAY['a', '@crash', 'b'])})
{
	my $old = engine_pid($node);
	$s->{stderr} = '';
	$s->query($q);
	like($s->{stderr}, qr/the inference engine was lost/, "lost: $q");
	ok(until_ready($node, $old), 'a new engine serves');
	is($s->query(q{SELECT array_length(llm_embed('anew'), 1)}), '16', 'the session goes on');
}
is(left_behind($node), $nothing, 'nothing is left');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$s->quit;
$node->stop('fast');
done_testing();
