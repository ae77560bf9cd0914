# Several models share the step thread: what llm_stat_model reports, weights, the background.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VllmTest;

my $node = new_node('models_share', "vllm.engine_args = '--fake --set fake_step_ms=5 --set fake_batch=4'\nvllm.max_queued_requests = 64\nlog_min_messages = fatal\n");
ok(until_ready($node), 'the engine becomes ready');

sub sql { return $node->safe_psql('postgres', $_[0]); }

my ($out, $other_out, $err) = ('', '', '');

sub start_psql
{
	my ($db, $query, $to) = @_;
	return IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($db), '-c', $query ], '>', $to, '2>', \$err);
}

sql(q{
	CREATE TABLE docs AS SELECT i AS id, 'doc ' || i AS body FROM generate_series(1, 4000) i;
	SELECT llm_create_model('large', '/fake/large');
	SELECT llm_create_model('chat', '/fake/chat', options => '{"scheduling_weight": 400}');
	SELECT llm_load_model('large'), llm_load_model('chat');
});

# ---- the option ----

is(sql(q{SELECT string_agg(name || ' ' || scheduling_weight, ', ' ORDER BY name) FROM llm_stat_model WHERE name IN ('large', 'chat')}), 'chat 400, large 100', 'weights');
for my $bad ('0', '10001', '"much"', '1.5')
{
	my ($rc, $out, $err) = $node->psql('postgres', qq{SELECT llm_create_model('bad', '/fake/bad', options => '{"scheduling_weight": $bad}')});
	like($err, qr/"scheduling_weight" must be/, "scheduling_weight $bad is refused");
}

# ---- idle ----

is(sql(q{SELECT count(*) FROM llm_stat_model WHERE name IN ('large', 'chat') AND work IS NULL AND waits_for IS NULL AND wait_ms = 0 AND paused_ms = 0}), 2, 'nobody waits when nothing runs');

# ---- a large statement, and calls at the same time ----

my $statement = start_psql('postgres', "SELECT count(llm_generate(body || ' a b c', model => 'large')) FROM docs", \$out);
my %seen;

ok($node->poll_query_until('postgres', q{SELECT work = 'throughput' FROM llm_stat_model WHERE name = 'large'}), 'a statement over many rows is throughput work');
for (1 .. 15)
{
	is(sql(q{SELECT llm_generate('x', model => 'chat')}), 'X', 'an answer beside it') if $_ == 1;
	sql(q{SELECT llm_generate('x y', model => 'chat')});
	$seen{$_} = 1 for split /\n/, sql(q{SELECT name || ' ' || coalesce(work, '-') || ' ' || coalesce(waits_for, '-') FROM llm_stat_model WHERE name IN ('large', 'chat')});
}
ok($seen{'large throughput chat'}, 'the statement has waited for the calls') or diag(join("\n", sort keys %seen));
is(sql(q{SELECT wait_ms > 0 FROM llm_stat_model WHERE name = 'large'}), 't', '... for some time');
$statement->finish;
is($out, "4000\n", 'and ends well') or diag($err);

# ---- the background ----

$statement = start_psql('postgres', "SET vllm.background = on; SELECT count(llm_generate(body || ' a b c', model => 'large')) FROM docs", \$out);
ok($node->poll_query_until('postgres', q{SELECT work = 'background' FROM llm_stat_model WHERE name = 'large'}), 'a statement in the background is background work');
is(sql(q{SELECT count(llm_generate(body, model => 'chat')) FROM docs WHERE id <= 100}), 100, 'another model answers beside it');
$statement->finish;
is($out, "4000\n", 'and it ends well') or diag($err);

# ---- models of other databases have no names here ----

sql(q{CREATE DATABASE other});
$node->safe_psql('other', q{
	CREATE EXTENSION vllm_pg;
	CREATE TABLE docs AS SELECT i AS id, 'doc ' || i AS body FROM generate_series(1, 4000) i;
	SELECT llm_create_model('private', '/fake/private');
	SELECT llm_load_model('private');
});
$statement = start_psql('other', "SELECT count(llm_generate(body || ' a b c', model => 'private')) FROM docs", \$out);
my $mine = start_psql('postgres', "SELECT count(llm_generate(body || ' a b c', model => 'large')) FROM docs", \$other_out);
ok($node->poll_query_until('postgres', q{SELECT waits_for = '(another database)' FROM llm_stat_model WHERE name = 'large'}), 'a model of another database');
is(sql(q{SELECT count(*) FROM llm_stat_model WHERE waits_for = 'private' OR name = 'private'}), 0, '... has no name here');
$_->finish for $statement, $mine;
is("$out$other_out", "4000\n4000\n", 'both end well') or diag($err);

$node->stop('fast');
done_testing();
