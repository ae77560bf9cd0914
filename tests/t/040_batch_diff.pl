# Every line of tests/batch/statements.sql with vllm.batch off and on: the same output, the same errors, the
# same requests (or the relation that the line names), nothing left in the engine.  VLLM_LINES='12-20,35'
# runs some lines only.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;
use BatchTest;

my %modes = (
	off => 'SET vllm.batch = off;',
	on => 'SET vllm.batch = on; SET vllm.batch_dedup = off;',
	dedup => q{SET vllm.batch = on; SET vllm.batch_dedup = on; SET vllm.default_params = '{"temperature": 0}';},
	window1 => q{SET vllm.batch = on; SET vllm.batch_window = 1; SET vllm.default_params = '{"temperature": 0}';},
	window3 => 'SET vllm.batch = on; SET vllm.batch_window = 3; SET vllm.batch_dedup = off;',
	strict => 'SET vllm.batch = on; SET vllm.batch_strict = on;',
	plan => 'SET vllm.batch = on; SET auto_explain.log_min_duration = 0; SET auto_explain.log_level = warning;'
	  . ' SET auto_explain.log_nested_statements = on; SET auto_explain.log_timing = off; SET auto_explain.log_triggers = off;');

my $dir = batch_dir();
my @lines = read_lines("$dir/statements.sql");
cmp_ok(scalar @lines, '>=', 150, 'statements') if !$ENV{VLLM_LINES};

my $node = new_node('batch_diff', "autovacuum = off\njit = off\nmax_worker_processes = 16\nmax_parallel_workers = 8\nmax_parallel_workers_per_gather = 2\nlog_min_messages = error\nstatement_timeout = '30s'\n");
ok(until_ready($node), 'the engine becomes ready');
batch_setup($node);
# the planner's cost of a call depends on the engine's speed: get past the first measurement
$node->safe_psql('postgres', q{SELECT count(llm_generate('@tokens:200')) FROM generate_series(1, 20)});
my $has_explain = $node->psql('postgres', q{LOAD 'auto_explain'}) == 0;

# To make the schema takes longer than most lines.  So lines that write are committed with vllm.batch off and
# on; the other modes roll them back, and sequences, which aren't rolled back, begin anew.
my $begin = "SELECT setval('w.s', 1, false), setval('w.log_at_seq', 1, false) \\gset\n\\set ON_ERROR_ROLLBACK on\nBEGIN;";
my %got;
for my $mode (qw(off on dedup window1 window3 strict), $has_explain ? 'plan' : ())
{
	my $t0 = time;
	$got{$mode} = run_lines($node, \@lines, "SET search_path = w, public;\n" . ($mode eq 'plan' ? "LOAD 'auto_explain';\n" : '') . $modes{$mode}, "\\i $dir/setup.sql",
		$mode =~ /^(off|on)$/ ? '' : $begin);
	note(sprintf '%s: %.1f s', $mode, time - $t0);
}

for my $l (@lines)
{
	my $off = $got{off}{ $l->{at} };
	my $why = '';

	for my $mode (qw(on dedup window1 window3 strict))
	{
		my $on = $got{$mode}{ $l->{at} };
		my $w = '';

		if (!$l->{differs} && ($mode eq 'strict' || !$l->{early}))
		{
			$w .= "  output:\n$on->{out}$on->{err}" if $on->{out} ne $off->{out} || $on->{err} ne $off->{err};
			$w .= log_relation($l->{log}, $off->{log}, $on->{log}, $mode eq 'on' || $mode eq 'window3' ? '' : $l->{sql} =~ /seed =>/ ? 'all' : 'greedy');
		}
		$w .= "  left behind: $on->{left}\n" if $on->{left} ne '0';
		$why .= "$mode:\n$w" if $w ne '';
	}
	$why .= "off:\n  lost\n" if $off->{lost} || $off->{left} ne '0';
	$why .= "off:\n  output:\n$off->{out}$off->{err}  log:\n" . join('', map { "    $_\n" } @{ $off->{log} }) if $why ne '';
	ok($why eq '', "$l->{at}: $l->{sql}") or diag("line $l->{at} of statements.sql: $l->{sql}\n$why");
}

# vllm.batch_strict has an effect
my @early = grep { $_->{early} } @lines;
ok(grep({ my $at = $_->{at}; grep { $got{$_}{$at}{out} . $got{$_}{$at}{err} ne $got{off}{$at}{out} . $got{off}{$at}{err} } qw(on window1 window3) } @early),
	'without it an error surfaces earlier') if @early;

# The lines would prove little if nothing were batched.
SKIP:
{
	skip 'no auto_explain in this installation', scalar @lines if !$has_explain;
	for my $l (@lines)
	{
		my $plan = $got{plan}{ $l->{at} };
		my $off = $got{off}{ $l->{at} };
		# auto_explain logs nothing for a statement that fails
		my $batched = $l->{inline} || $plan->{err} =~ /LLM Batch/ || $off->{err} =~ /^ERROR/m || ($l->{early} && $plan->{err} =~ /^ERROR/m) || $off->{out} =~ /^ROLLBACK$/m;

		ok($batched && ($l->{early} || $l->{differs} || $plan->{out} eq $off->{out}), "plan of $l->{at}")
		  or diag("line $l->{at} of statements.sql: $l->{sql}\n" . ($batched ? "  with auto_explain:\n$plan->{out}$plan->{err}" : "  is not batched\n"));
	}
}

# and equal requests of a statement are made once, if they are sure to get equal outputs
for my $t (
	[ 8, q{SELECT llm_generate(body, temperature => 0) FROM docs} ],
	[ 8, q{SELECT llm_generate(body, temperature => 1, seed => 3) FROM docs} ],
	[ 10, q{SELECT llm_generate(body, temperature => 1) FROM docs} ],
	[ 10, q{SELECT llm_generate(body) FROM docs} ],
	[ 8, q{SELECT llm_generate(body, temperature => 0), llm_generate(body, temperature => 0) FROM docs} ],
	[ 8, q{SELECT id, a FROM docs, LATERAL (SELECT llm_generate(docs.body, temperature => 0) AS a) l} ],
	[ 8, q{SELECT id FROM docs WHERE llm_generate(body, temperature => 0) LIKE '%YES' UNION ALL SELECT id FROM docs WHERE llm_generate(body, temperature => 0) LIKE '%TEXT'} ],
	[ 10, q{SET vllm.batch_dedup = off; SELECT llm_generate(body, temperature => 0) FROM docs} ],
	[ 8, q{SELECT llm_embed(body) FROM docs} ],
	[ 8, q{SELECT llm_class(body) FROM docs WHERE llm_class(body) <> ''} ],
	[ 1, q{SELECT llm_embed('constant') FROM docs} ],
	[ 1, q{SET vllm.batch = off; SELECT llm_embed('constant') FROM docs} ])
{
	$node->safe_psql('postgres', q{SELECT vllm.control('log-clear')});
	$node->safe_psql('postgres', "SET search_path = w, public; $t->[1]");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM request_log()'), $t->[0], "requests of $t->[1]");
}

is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
is(stat_engine($node, 'restarts'), '0', 'the engine never ended') if !grep { $_->{lost} } map { values %$_ } values %got;
$node->stop('fast');
done_testing();

sub read_lines
{
	my ($file) = @_;
	my (@l, %only);
	my $at = 0;

	for my $r (split /,/, $ENV{VLLM_LINES} // '')
	{
		my ($from, $to) = split /-/, $r;
		$only{$_} = 1 for $from .. $to // $from;
	}
	for my $text (split /\n/, slurp_file($file))
	{
		$at++;
		next if $text =~ /^\s*(--|$)/ || (%only && !$only{$at});
		my %l = (at => $at, log => 'same');
		if ($text =~ s/\s+--\s+((?:log: \w+|inline|early|differs)(?:,\s*(?:log: \w+|inline|early|differs))*)\s*$//)
		{
			for my $tag (split /,\s*/, $1)
			{
				if ($tag =~ /^log: (\w+)/) { $l{log} = $1 }
				else { $l{$tag} = 1 }
			}
		}
		$l{sql} = $text;
		$l{writes} = $text =~ /\b(INSERT|UPDATE|DELETE|MERGE|CREATE|DROP|ALTER|REFRESH|INTO (?!t\b|STRICT)\w+|CALL|nextval|noisy)\b/;
		$l{commits} = $text =~ /\b(BEGIN;|COMMIT|ROLLBACK|CALL)/;
		push @l, \%l;
	}
	return @l;
}
