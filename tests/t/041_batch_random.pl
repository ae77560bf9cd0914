# Random queries with vllm.batch off and on: the same rows in the same order, the same requests (if LIMIT,
# EXISTS or a join that ends early makes them differ: none missing), nothing left in the engine.
#
# VLLM_SEED=n chooses the sequence, BATCH_RANDOM_N=n its length (2,000), VLLM_ONLY=k runs only query k.  A
# failure prints everything that is needed to repeat it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;
use BatchTest;

my $seed = $ENV{VLLM_SEED} // 20240229;
my $n = $ENV{BATCH_RANDOM_N} // 2000;
my $chunk = 500;

srand($seed);
note("VLLM_SEED=$seed BATCH_RANDOM_N=$n");

# ---- random choices ----

sub one_of { return $_[ int rand @_ ] }
sub chance { return rand() < $_[0] }

# ---- a query under construction ----

# its contents, for the relation of the logs; names
our ($more, $copies, $calls, $names);

# Columns that an expression may use: [ name, type ], type t (text), i (int) or b (bool).
sub column
{
	my ($cols, $type) = @_;
	my @fit = grep { $_->[1] eq $type } @$cols;
	return @fit ? one_of(@fit)->[0] : undef;
}

sub call
{
	my ($cols, $depth) = @_;
	my $prompt = "'p' || " . text_expr($cols, $depth - 1);

	$calls++;
	if (chance(0.12))
	{
		# STABLE: the planner copies them when it pulls a sub-select up, and into join keys
		$copies = 1;
		return one_of("llm_class($prompt)", "(llm_embed($prompt, 2, false))[1]::text", "round(llm_similarity($prompt, 'p x')::numeric, 3)::text",
			"llm_class($prompt)", "(SELECT c.label FROM llm_classify($prompt, top => 1) c)", "(llm_embed('p x', 1, false))[1]::text");
	}
	return "llm_generate($prompt)" if chance(0.7);
	return "llm_generate($prompt, max_tokens => " . one_of(1, 2, 3) . ')' if chance(0.4);
	return "llm_generate($prompt, temperature => 0)" if chance(0.3);
	return "(llm_generate_full($prompt)).text" if chance(0.4);
	return "llm_generate($prompt, max_tokens => 1 + abs(" . int_expr($cols, 0) . ') % 3)' if chance(0.5);
	return "llm_count_tokens($prompt)::text" if chance(0.3);
	return "llm_generate(CASE WHEN " . bool_expr($cols, $depth - 1) . " THEN $prompt END)";
}

sub text_leaf
{
	my ($cols) = @_;
	my $c = column($cols, 't');
	return $c if defined $c && chance(0.75);
	my $i = column($cols, 'i');
	return "$i\::text" if defined $i && chance(0.6);
	return one_of("text 'x'", "text 'y z'", "text ' w'", 'NULL::text');
}

sub text_expr
{
	my ($cols, $depth) = @_;
	return text_leaf($cols) if $depth <= 0 || chance(0.15);
	my $d = $depth - 1;
	my $k = int rand 20;

	return call($cols, $depth) if $k < 8;
	return '(' . text_expr($cols, $d) . ' || ' . text_expr($cols, $d) . ')' if $k == 8;
	return 'CASE WHEN ' . bool_expr($cols, $d) . ' THEN ' . text_expr($cols, $d) . (chance(0.3) ? ' WHEN ' . bool_expr($cols, $d) . ' THEN ' . text_expr($cols, $d) : '')
	  . (chance(0.7) ? ' ELSE ' . text_expr($cols, $d) : '') . ' END' if $k == 9 || $k == 10;
	return 'CASE ' . text_expr($cols, $d) . ' WHEN ' . text_expr($cols, 0) . ' THEN ' . text_expr($cols, $d) . ' ELSE ' . text_expr($cols, $d) . ' END' if $k == 11;
	return 'COALESCE(' . join(', ', map { text_expr($cols, $d) } 1 .. 2 + int rand 2) . ')' if $k == 12 || $k == 13;
	return 'NULLIF(' . text_expr($cols, $d) . ', ' . text_expr($cols, $d) . ')' if $k == 14;
	return one_of('GREATEST', 'LEAST', 'concat') . '(' . text_expr($cols, $d) . ', ' . text_expr($cols, $d) . ')' if $k == 15;
	return one_of('upper', 'lower', 'reverse') . '(' . text_expr($cols, $d) . ')' if $k == 16;
	return '(ARRAY[' . text_expr($cols, $d) . ', ' . text_expr($cols, $d) . '])[1 + abs(' . int_expr($cols, 0) . ') % 2]' if $k == 17;
	return '(' . bool_expr($cols, $d) . ')::text' if $k == 18;
	return scalar_select($cols, $d);
}

sub int_expr
{
	my ($cols, $depth) = @_;
	my $c = column($cols, 'i');
	my $leaf = defined $c ? "COALESCE($c, 0)" : int rand 5;
	return $leaf if $depth <= 0 || chance(0.4);
	return 'COALESCE(length(' . text_expr($cols, $depth - 1) . '), 0)' if chance(0.6);
	return "($leaf + " . int_expr($cols, $depth - 1) . ')';
}

sub bool_expr
{
	my ($cols, $depth) = @_;
	my $c = column($cols, 'b');
	return $c if defined $c && ($depth <= 0 || chance(0.15));
	return int_expr($cols, 0) . one_of(' < ', ' > ', ' = ', ' <> ') . int rand 8 if $depth <= 0 || chance(0.15);
	my $d = $depth - 1;
	my $k = int rand 12;

	return text_expr($cols, $d) . one_of(q{ LIKE '%1%'}, q{ LIKE '%X%'}, q{ LIKE 'P%'}, q{ NOT LIKE '%Y'}) if $k < 3;
	return '(' . join(one_of(' AND ', ' OR '), map { bool_expr($cols, $d) } 1 .. 2 + int rand 2) . ')' if $k < 6;
	return '(NOT ' . bool_expr($cols, $d) . ')' if $k == 6;
	return '(' . text_expr($cols, $d) . one_of(' = ', ' < ', ' > ', ' <> ', ' IS DISTINCT FROM ') . text_expr($cols, $d) . ')' if $k == 7 || $k == 8;
	return '(' . text_expr($cols, $d) . one_of(' IS NULL', ' IS NOT NULL', q{ IN ('PX', 'PY Z', 'P1')}) . ')' if $k == 9;
	return '(' . bool_expr($cols, $d) . one_of(' IS TRUE', ' IS NOT TRUE', ' IS UNKNOWN') . ')' if $k == 10;
	return sub_select($cols, $d);
}

sub scalar_select
{
	my ($cols, $depth) = @_;
	my ($sql, $inner) = table();
	my $c = column($cols, 'i');
	my $where = defined $c && chance(0.7) ? ' WHERE ' . column($inner, 'i') . " = $c" : '';
	return '(SELECT ' . one_of('max', 'min') . '(' . text_expr($inner, $depth) . ") FROM $sql$where)";
}

sub sub_select
{
	my ($cols, $depth) = @_;
	my ($sql, $inner) = table();
	my $c = column($cols, 'i');
	$more = 1;
	return one_of('EXISTS', 'NOT EXISTS') . " (SELECT 1 FROM $sql WHERE " . (defined $c ? column($inner, 'i') . " = $c AND " : '') . bool_expr($inner, $depth) . ')' if chance(0.6);
	return '(' . text_expr($cols, $depth) . one_of(' IN ', ' NOT IN ') . '(SELECT ' . text_expr($inner, $depth) . " FROM $sql))";
}

# ---- FROM ----

sub table
{
	my $a = 'a' . $names++;
	my $t = one_of(qw(t1 t1 t2 t2 t3 t4 tp));
	return ("$t $a", [ [ "$a.id", 'i' ], [ "$a.i", 'i' ], [ "$a.t", 't' ], [ "$a.u", 't' ], [ "$a.b", 'b' ] ]);
}

sub where
{
	my ($from, $cols, $depth) = @_;
	my $w = bool_expr($cols, $depth);

	# a join that ends early has read ahead on the side with the call
	$more = 1 if $w =~ /llm_/ && $from =~ /\bJOIN\b|, q q1/;
	return " WHERE $w";
}

sub derived
{
	my ($depth) = @_;
	my $a = 's' . $names++;
	my ($sql, $inner) = from($depth - 1);
	my $before = $calls;
	my @list = (column($inner, 'i') . ' AS id', text_expr($inner, 2) . ' AS t', text_expr($inner, 1) . ' AS u', bool_expr($inner, 1) . ' AS b');
	my $s = 'SELECT ' . (chance(0.1) ? 'DISTINCT ' : '') . join(', ', @list) . " FROM $sql";

	$s .= where($sql, $inner, 2) if chance(0.5);
	if (chance(0.15))
	{
		my ($sql2, $inner2) = table();
		$s .= one_of(' UNION ALL ', ' UNION ALL ', ' UNION ') . 'SELECT ' . column($inner2, 'i') . ', ' . text_expr($inner2, 1) . ', ' . text_expr($inner2, 0) . ', ' . bool_expr($inner2, 0) . " FROM $sql2";
	}
	elsif (chance(0.2))
	{
		$s .= ' ORDER BY 1, 2, 3, 4 LIMIT ' . (1 + int rand 6);
		$more = 1;
	}
	elsif (chance(0.3))
	{
		$s .= ' OFFSET 0';
	}
	return ("($s) $a", [ [ "$a.id", 'i' ], [ "$a.t", 't' ], [ "$a.u", 't' ], [ "$a.b", 'b' ] ]);
}

sub from
{
	my ($depth) = @_;
	my $before = $calls;
	my ($sql, $cols) = $depth > 0 && chance(0.35) ? derived($depth) : table();

	for (my $j = 0; $j < 2 && chance(0.35); $j++)
	{
		my $kind = one_of(qw(JOIN JOIN LEFT RIGHT FULL CROSS LATERAL LATERAL));

		# an empty or exhausted side ends a join early
		$more = 1 if $calls > $before;
		if ($kind eq 'LATERAL')
		{
			my $a = 'l' . $names++;
			my $x = chance(0.3) ? call($cols, 2) : undef;
			$sql .= chance(0.7) ? ' CROSS JOIN LATERAL ' : ' LEFT JOIN LATERAL ';
			my $left = $sql =~ / LEFT JOIN LATERAL $/;
			$sql .= defined $x && $x =~ /^llm_generate/ ? "$x $a (t)" : '(SELECT ' . text_expr($cols, 3) . ' AS t' . (chance(0.3) ? ' WHERE ' . bool_expr($cols, 1) : '') . ") $a";
			$sql .= ' ON true' if $left;
			push @$cols, [ "$a.t", 't' ];
			next;
		}
		my ($s2, $c2) = $depth > 0 && chance(0.3) ? derived($depth) : table();
		$more = 1 if $calls > $before;
		if ($kind eq 'CROSS')
		{
			$sql .= " CROSS JOIN $s2";
		}
		else
		{
			my $on = column($cols, 'i') . ' = ' . column($c2, 'i');
			$on = column($cols, 't') . ' = ' . column($c2, 't') if chance(0.2);
			$on .= ' AND ' . bool_expr([ @$cols, @$c2 ], 2) if $kind ne 'FULL' && chance(0.5);
			$sql .= ' ' . ($kind eq 'JOIN' ? '' : "$kind ") . "JOIN $s2 ON $on";
			$more = 1 if $calls > $before;
		}
		push @$cols, @$c2;
	}
	return ($sql, $cols);
}

# ---- the whole query ----

sub query
{
	my ($sql, $cols) = from(2);
	my $with = '';
	my $s;

	if (chance(0.12))
	{
		my ($csql, $ccols) = from(1);
		$with = 'WITH q AS ' . one_of('', 'MATERIALIZED ', 'NOT MATERIALIZED ') . '(SELECT ' . column($ccols, 'i') . ' AS id, ' . text_expr($ccols, 2) . ' AS t, ' . bool_expr($ccols, 1) . " AS b FROM $csql) ";
		$sql .= ", q q1" . (chance(0.4) ? ' JOIN q q2 ON q1.id = q2.id' : '');
		push @$cols, [ 'q1.id', 'i' ], [ 'q1.t', 't' ], [ 'q1.b', 'b' ];
		$more = 1;
	}
	my $where = chance(0.6) ? where($sql, $cols, 3) : '';
	my $shape = int rand 10;
	if ($shape < 5)
	{
		my @list = map { chance(0.75) ? text_expr($cols, 3) : chance(0.5) ? int_expr($cols, 2) : bool_expr($cols, 2) } 1 .. 1 + int rand 3;
		$s = 'SELECT ' . (chance(0.1) ? 'DISTINCT ' : '') . join(', ', @list) . " FROM $sql$where";
		$s .= ' ORDER BY ' . join(', ', map { one_of($_, "$_ DESC", "$_ NULLS FIRST") } 1 .. @list) if chance(0.4);
		if (chance(0.25))
		{
			$s .= ' LIMIT ' . int(rand 9) . (chance(0.3) ? ' OFFSET ' . int(rand 4) : '');
			$more = 1;
		}
	}
	elsif ($shape < 8)
	{
		my @aggs = map
		{
			my $f = chance(0.35) ? ' FILTER (WHERE ' . bool_expr($cols, 2) . ')' : '';
			one_of(
				sub { 'string_agg(' . text_expr($cols, 3) . ", ',')" },
				sub { 'string_agg(' . text_expr($cols, 2) . ", ',' ORDER BY " . text_expr($cols, 2) . ', ' . column($cols, 'i') . ')' },
				sub { 'count(' . (chance(0.3) ? 'DISTINCT ' : '') . text_expr($cols, 3) . ')' },
				sub { one_of('max', 'min') . '(' . text_expr($cols, 3) . ')' },
				sub { 'sum(' . int_expr($cols, 2) . ')' })->() . $f
		} 1 .. 1 + int rand 2;
		if (chance(0.6))
		{
			my $key = text_expr($cols, 2);
			my $group = chance(0.15) ? 'ROLLUP (1)' : '1';
			$group = '1' if $key =~ /^(text '|NULL)[^|]*$/;
			$s = "SELECT $key AS k, " . join(', ', @aggs) . " FROM $sql$where GROUP BY $group";
			$s =~ s/GROUP BY ROLLUP \(1\)/GROUP BY ROLLUP (($key))/;
			$s = "SELECT * FROM ($s) g ORDER BY " . join(', ', 1 .. @aggs + 1) if chance(0.4);
			$s .= ' HAVING count(*) > 1' if $s =~ /GROUP BY 1$/ && chance(0.3);
		}
		else
		{
			$s = 'SELECT ' . join(', ', @aggs) . " FROM $sql$where";
			$s .= q{ HAVING llm_generate('h' || count(*)) <> 'H3'} if chance(0.2);
		}
	}
	elsif ($shape == 8)
	{
		my $over = '(' . (chance(0.4) ? 'PARTITION BY ' . text_expr($cols, 1) . ' ' : '') . 'ORDER BY ' . column($cols, 'i') . ', ' . text_expr($cols, 2) . ')';
		my $f = one_of(
			sub { 'lag(' . text_expr($cols, 3) . ')' }, sub { 'first_value(' . text_expr($cols, 2) . ')' },
			sub { 'string_agg(' . text_expr($cols, 2) . ", '/')" }, sub { 'rank()' }, sub { 'count(' . text_expr($cols, 2) . ') FILTER (WHERE ' . bool_expr($cols, 2) . ')' })->();
		# lag does not use the last row, but the batch node computes it
		$more = 1 if $f =~ m{^lag};
		$s = 'SELECT ' . column($cols, 'i') . ", $f OVER $over, " . text_expr($cols, 1) . " FROM $sql$where";
	}
	else
	{
		my ($sql2, $cols2) = from(1);
		$s = 'SELECT ' . text_expr($cols, 3) . " FROM $sql$where " . one_of('UNION ALL', 'UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT') . ' SELECT ' . text_expr($cols2, 2) . " FROM $sql2";
		$s .= ' ORDER BY 1' if chance(0.4);
		$s = 'SELECT unnest(ARRAY[' . text_expr($cols, 2) . ', ' . text_expr($cols, 1) . "]) FROM $sql$where" if chance(0.3);
	}
	return $with . $s;
}

# A query, how it is sent, and the settings of both runs.
sub make
{
	my $q;
	do { ($more, $copies, $calls, $names) = (0, 0, 0, 0); $q = query() } while $calls == 0 || length($q) > 3000;
	my %q = (text => $q, more => $more, copies => $copies);
	my @both;
	for my $s (qw(hashjoin mergejoin nestloop hashagg sort material memoize seqscan))
	{
		push @both, "SET enable_$s = off;" if chance(0.12);
	}
	push @both, q{SET vllm.default_params = '{"temperature": 0}';} if chance(0.5);
	# PostgreSQL's Memoize saves calls of a lateral sub-select, and the batch node replaces it
	if ($q =~ /LATERAL/ && !grep { /memoize/ } @both)
	{
		if (chance(0.5)) { push @both, 'SET enable_memoize = off;' }
		else { $q{more} = 1 }
	}
	push @both, "SET work_mem = '64kB';" if chance(0.2);
	my $on = '';
	$on .= 'SET vllm.batch_window = ' . one_of(1, 2, 7) . ';' if chance(0.5);
	$q{dedup} = chance(0.25) ? 'greedy' : '';
	$on .= 'SET vllm.batch_dedup = ' . ($q{dedup} ? 'on;' : 'off;');
	$on .= 'SET vllm.batch_strict = on;' if chance(0.12);
	if (chance(0.12))
	{
		push @both, 'SET plan_cache_mode = ' . one_of('force_generic_plan;', 'force_custom_plan;');
		$q{send} = "PREPARE q AS $q; EXECUTE q; EXECUTE q";
	}
	elsif (chance(0.12))
	{
		$q{send} = "BEGIN; DECLARE c NO SCROLL CURSOR FOR $q; FETCH " . (1 + int rand 4) . ' FROM c; FETCH 2 FROM c; FETCH ALL FROM c; COMMIT';
	}
	elsif (chance(0.08))
	{
		$q{send} = "CREATE TEMP TABLE made AS SELECT * FROM ($q) made (c1); SELECT * FROM made";
		$q{send} = "COPY ($q) TO STDOUT";
	}
	$q{send} //= $q;
	$q{off} = "SET vllm.batch = off; @both";
	$q{on} = "SET vllm.batch = on; $on @both";
	return \%q;
}

# ---- the test ----

my $node = new_node('batch_random', "autovacuum = off\njit = off\nlog_min_messages = error\nstatement_timeout = '30s'\nmax_parallel_workers_per_gather = 0\n");
ok(until_ready($node), 'the engine becomes ready');
batch_setup($node);
$node->safe_psql('postgres', q{
	CREATE SCHEMA w;
	GRANT ALL ON SCHEMA w TO PUBLIC;
	SET search_path = w;
	CREATE TABLE t1 (id int PRIMARY KEY, i int, t text, u text, b bool);
	INSERT INTO t1 SELECT g, nullif(g % 5, 4), CASE WHEN g % 4 <> 0 THEN (ARRAY['x', 'one two', 'y'])[g % 3 + 1] END, 'u' || g % 6, CASE WHEN g % 3 < 2 THEN g % 2 = 0 END FROM generate_series(1, 14) g;
	CREATE TABLE t2 (LIKE t1 INCLUDING ALL);
	INSERT INTO t2 SELECT g * 2, g % 4, CASE WHEN g % 5 <> 0 THEN (ARRAY['x', 'three', 'P1', 'y z'])[g % 4 + 1] END, CASE WHEN g % 2 = 0 THEN 'even' END, g % 3 = 0 FROM generate_series(1, 9) g;
	CREATE TABLE t3 (LIKE t1 INCLUDING ALL);
	INSERT INTO t3 VALUES (1, 1, 'x', NULL, true), (2, NULL, NULL, 'only', NULL), (3, 3, 'x', 'x', false);
	CREATE TABLE t4 (LIKE t1 INCLUDING ALL);
	CREATE TABLE tp (id int, i int, t text, u text, b bool) PARTITION BY RANGE (id);
	CREATE TABLE tp1 PARTITION OF tp FOR VALUES FROM (0) TO (4);
	CREATE TABLE tp2 PARTITION OF tp FOR VALUES FROM (4) TO (100);
	INSERT INTO tp SELECT * FROM t1 WHERE id < 8;
	CREATE INDEX ON t1 (i);
	CREATE INDEX ON t2 (t);
	ANALYZE t1, t2, t3, t4, tp;
});
# the planner's cost of a call depends on the engine's speed: get past the first measurement
$node->safe_psql('postgres', q{SELECT count(llm_generate('@tokens:200')) FROM generate_series(1, 20)});

my @queries = map { make() } 1 .. $n;
my $t0 = time;
my ($wrong, $errors, $equal, $drifts) = (0, 0, 0, 0);

for (my $from = 0; $from < $n; $from += $chunk)
{
	my $to = $from + $chunk < $n ? $from + $chunk : $n;
	my @todo = grep { !defined $ENV{VLLM_ONLY} || $_ == $ENV{VLLM_ONLY} } $from .. $to - 1;
	my $bad = 0;

	# The cost of a call follows the engine's speed, so a plan may change between the two runs of a query:
	# such a pair is repeated.
	for (my $try = 1; @todo; $try++)
	{
		my @lines = map { my $k = $_; map { { at => 2 * $k + ($_ eq 'on'), sql => with_plan($queries[$k], $_) } } qw(off on) } @todo;
		my $got = run_lines($node, \@lines, 'SET search_path = w, public;', '');
		my @again;

		for my $k (@todo)
		{
			my ($off, $on) = ($got->{ 2 * $k }, $got->{ 2 * $k + 1 });
			if (take_plan($off) ne take_plan($on) && $try < 5) { push @again, $k }
			else { $bad += compare($k, $off, $on, $wrong + $bad < 5) }
		}
		$drifts += @again;
		@todo = @again;
	}
	$wrong += $bad;
	ok($bad == 0, "queries $from to " . ($to - 1) . " of VLLM_SEED=$seed") or diag("$bad differ");
}
figure('%d random queries, %d with an error in both, %d with exactly the same requests, %d plans changed in between, %.0f s', $n, $errors, $equal, $drifts, time - $t0);
cmp_ok($errors, '<', $n / 20 + 1, 'few queries fail');
is($wrong, 0, "all $n are the same");
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop('fast');
done_testing();

# Append to the statement the plan that it has without batching.
sub with_plan
{
	my ($q, $mode) = @_;
	return "$q->{off}; EXPLAIN (COSTS OFF) $q->{text}; SELECT 'end of plan'; $q->{$mode} $q->{send}";
}

sub take_plan
{
	my ($r) = @_;
	return "" if $r->{lost};
	$r->{out} =~ s/^SET\n//mg;
	return $r->{out} =~ s/^(.*?)^end of plan\n//ms ? $1 : die "no plan: $r->{out}$r->{err}";
}

# Return 1 if off and on differ, and print the details if $tell.
sub compare
{
	my ($k, $off, $on, $tell) = @_;
	my $q = $queries[$k];
	my $relation = $q->{copies} ? 'any' : $q->{more} || $off->{err} ne '' ? 'more' : 'same';

	$errors++ if $off->{err} ne '';
	# the branches of an Append share one node, with its sub-plans
	$relation = 'any' if $q->{text} =~ / IN \(SELECT/ && $q->{text} =~ /\btp\b|UNION ALL/;
	$equal++ if $relation eq 'same';
	my $why = log_relation($relation, $off->{log}, $on->{log}, $q->{dedup});
	$why .= "  left behind: $off->{left} $on->{left}\n" if "$off->{left}$on->{left}" ne '00';
	$why .= "  off:\n" . cut($off->{out} . $off->{err}) . "  on:\n" . cut($on->{out} . $on->{err}) if $off->{out} ne $on->{out} || $off->{err} ne $on->{err};
	return 0 if $why eq '';
	diag("query $k of VLLM_SEED=$seed (alone: VLLM_ONLY=$k)\n$q->{on}\n$q->{send};\n$why") if $tell;
	return 1;
}

sub cut
{
	my ($s) = @_;
	return length($s) > 1500 ? substr($s, 0, 1500) . "...\n" : $s;
}
