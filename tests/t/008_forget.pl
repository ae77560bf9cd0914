# Dropped models are forgotten by the engine: exactly these, and not before a slot is free.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = new_node('forget', "vllm.max_queued_requests = 2\n");
ok(until_ready($node), 'the engine becomes ready');
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub state_of { return sql("SELECT state FROM llm_models WHERE name = '$_[0]'"); }

sub busy
{
	my ($n) = @_;
	return until_sql($node, "SELECT count(*) = $n FROM llm_requests");
}

# ---- a running call, while the name means another model in another transaction ----
sql(q{SELECT llm_create_model('live', '/fake/live'), llm_load_model('live')});
for my $end ('ROLLBACK', 'ROLLBACK TO a; COMMIT')
{
	my $b = bg($node, q{SELECT llm_generate('runs @delay:1000', model => 'live')});
	busy(1);
	sql("BEGIN; SAVEPOINT a; SELECT llm_drop_model('live'), llm_create_model('live', '/fake/other'); $end");
	my ($out, $err) = finish($b);
	is("$out$err", 'RUNS @DELAY:1000', "drop, create, $end: the call goes on");
}
my $b = bg($node, q{SELECT llm_generate('runs @delay:1000', model => 'live')});
busy(1);
sql(q{BEGIN; SELECT llm_drop_model('live'), llm_create_model('live', '/fake/live'); COMMIT});
my ($out, $err) = finish($b);
is("$out$err", 'RUNS @DELAY:1000', 'drop, create the same, COMMIT: the call goes on');
is(state_of('live'), 'ready', 'and the model stays loaded');

# ---- no slot is free at commit, and the session ends ----
sub holders
{
	my @h = map { bg($node, "SELECT llm_generate('holder \@delay:$_[0]')") } 1 .. 2;
	busy(2);
	return @h;
}
my $claims = stat_engine($node, 'claims');
my @h = holders(1500);
sql(q{SELECT llm_drop_model('live')});
is(stat_engine($node, 'claims') - $claims, 2, 'nothing can be posted');
finish($_) for @h;
ok(until_sql($node, "SELECT claims = $claims + 3 AND zombies = 0 FROM llm_stat_engine"), 'it is posted when a slot is free');
sql(q{SELECT llm_create_model('live', '/fake/live')});
is(state_of('live'), 'unloaded', 'the engine has forgotten it');

# ---- more models than the supervisor's list holds ----
sql(q{SELECT llm_create_model('m' || i, '/fake/m' || i) FROM generate_series(1, 70) i});
$claims = stat_engine($node, 'claims');
@h = holders(2000);
$b = bg($node, q{SELECT llm_drop_model('m' || i) FROM generate_series(1, 70) i}, 'SELECT pg_sleep(3)', 'SELECT 1');
finish($_) for @h;
ok(until_sql($node, "SELECT claims = $claims + 72 AND zombies = 0 FROM llm_stat_engine"), 'all are posted, the rest by their own session');
finish($b);

# ---- the engine ends before: the next one has nothing to forget ----
sql(q{SELECT llm_load_model('live')});
@h = holders(20000);
sql(q{SELECT llm_drop_model('live')});
$claims = stat_engine($node, 'claims');
my $pid = engine_pid($node);
kill 9, $pid;
like((finish($_))[1], qr/58000/, 'engine killed: a running call fails') for @h;
ok(until_ready($node, $pid), 'the next one is there');
is(sql(q{SELECT llm_generate('works')}), 'WORKS', 'and works');
is(stat_engine($node, 'claims') - $claims, 1, 'nothing was posted to it');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
