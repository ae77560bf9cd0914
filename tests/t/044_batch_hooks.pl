# Other extensions' hooks, loaded before and after vllm_pg: an auditing module (tests/hooks),
# pg_stat_statements, auto_explain.  Results, counts and plans are right.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $audit = $ENV{VLLM_PG_HOOKS} // '';
my $libdir = qx(pg_config --pkglibdir);
chomp $libdir;

my @queries = (
	q{SELECT id, llm_generate(body) FROM docs},
	q{SELECT id, llm_generate('list ' || body) FROM docs WHERE llm_generate(body) LIKE '%3'},
	q{SELECT id, llm_generate(llm_generate(body)) FROM docs ORDER BY id LIMIT 5},
	q{SELECT id FROM docs WHERE llm_generate(body) LIKE '%3' LIMIT 2},
	q{SELECT string_agg(llm_generate(body), ',' ORDER BY id) FILTER (WHERE id > 3) FROM docs},
	q{SELECT id, CASE WHEN id % 2 = 0 THEN llm_generate(body) END FROM docs},
	q{SELECT id, lag(llm_generate(body)) OVER (ORDER BY id) FROM docs},
	q{SELECT id, unnest(string_to_array(llm_generate(body), ' ')) FROM docs},
	q{SELECT id, a FROM docs, LATERAL (SELECT llm_generate(docs.body) AS a) l},
	q{SELECT x.id, llm_generate(x.body || y.body) FROM docs x JOIN docs y ON x.id = y.id + 1},
	q{SELECT * FROM (VALUES (1, llm_generate('v one')), (2, llm_generate('v two'))) v},
	q{SELECT id, llm_generate(body) FROM parts ORDER BY id},
	q{SELECT id, (llm_generate_full(body)).text FROM docs},
	q{WITH u AS (UPDATE docs SET answer = llm_generate(body) RETURNING id, answer) SELECT * FROM u ORDER BY id},
	q{INSERT INTO answers SELECT id, llm_generate(body) FROM docs},
	q{UPDATE docs SET answer = llm_generate(body) WHERE llm_generate(body) LIKE '%3'},
	q{DELETE FROM answers WHERE llm_generate(a) LIKE '%3'},
	q{MERGE INTO answers USING (SELECT id, llm_generate(body) AS a FROM docs) d ON answers.id = d.id WHEN MATCHED THEN UPDATE SET a = d.a},
	q{SELECT nested(2)},
	q{SELECT id FROM docs WHERE id = 1});

for my $order ('before', 'behind')
{
	my @others = (($audit ne '' ? $audit : ()), grep { -e "$libdir/$_.so" } qw(pg_stat_statements auto_explain));
	my @preload = $order eq 'before' ? (@others, 'vllm_pg') : ('vllm_pg', @others);
	my %has = map { /([a-z_]+)(\.so)?$/ ? ($1 => 1) : () } @others;
	my $conf = "jit = off\nautovacuum = off\nmax_parallel_workers_per_gather = 0\nlog_min_messages = log\ncompute_query_id = on\nshared_preload_libraries = '" . join(', ', @preload) . "'\n";
	$conf .= "auto_explain.log_min_duration = 0\nauto_explain.log_analyze = on\nauto_explain.log_nested_statements = on\n" if $has{auto_explain};
	$conf .= "pg_stat_statements.track = all\n" if $has{pg_stat_statements};
	my $node = new_node("hooks_$order", $conf);

	ok(until_ready($node), "$order: the engine becomes ready");
	$node->safe_psql('postgres', q{
		CREATE TABLE docs (id int PRIMARY KEY, body text, answer text);
		INSERT INTO docs SELECT i, 'doc ' || i FROM generate_series(1, 30) i;
		CREATE TABLE answers (id int, a text);
		CREATE TABLE parts (id int, body text) PARTITION BY RANGE (id);
		CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
		CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (10) TO (100);
		INSERT INTO parts SELECT id, body FROM docs;
		ANALYZE docs, parts;
		CREATE FUNCTION nested(n int) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			t text := '';
		BEGIN
			FOR i IN 1 .. n LOOP
				t := t || (SELECT string_agg(llm_generate(body || i), ',' ORDER BY id) FROM docs);
			END LOOP;
			RETURN t;
		END $$;
	});
	SKIP:
	{
		skip "no audit module was built (VLLM_PG_HOOKS)", 5 * @queries - 1 if !$has{hooks_audit};
		$node->safe_psql('postgres', "CREATE FUNCTION audit_counts() RETURNS text LANGUAGE C AS '$audit'; CREATE FUNCTION audit_reset() RETURNS void LANGUAGE C AS '$audit'");
		for my $q (@queries)
		{
			my (%out, %counts);
			for my $mode (qw(off on))
			{
				my $s = $node->safe_psql('postgres', "SET vllm.batch = $mode; BEGIN; SELECT audit_reset() IS NULL; $q; SELECT audit_counts(); ROLLBACK;");
				($out{$mode}, $counts{$mode}) = $s =~ /^(.*?)\n?(plans=.*)$/s or die $s;
			}
			is($out{on}, $out{off}, "$order: result of $q");
			my ($llm) = $q =~ /(llm_)|nested/ ? 1 : 0;
			my ($custom) = $counts{on} =~ /custom=(\d+)/;
			ok($llm ? $custom > 0 : $custom == 0, "$order: seen as a custom scan: $q") or diag($counts{on});
			like($counts{off}, qr/executes=[1-9]/, "$order: the object access hook was called: $q") if $llm;
			ok($counts{on} =~ /executes=[1-9]/ || !$llm, "$order: and when it is batched");
			# everything else is the same
			s/ executes=\d+//, s/ custom=\d+// for @counts{qw(on off)};
			is($counts{on}, $counts{off}, "$order: plans, starts, ends and rows of $q");
		}
	}
	SKIP:
	{
		skip 'no pg_stat_statements in this installation', 3 if !$has{pg_stat_statements};
		my $stat = q{SELECT query, calls, rows, toplevel FROM pg_stat_statements WHERE query ~ 'llm_|docs|nested' AND query !~ 'pg_stat|log-clear' ORDER BY query COLLATE "C", toplevel};
		$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
		my %stat;
		for my $mode (qw(off on))
		{
			$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
			for my $q (@queries)
			{
				$node->safe_psql('postgres', "SET vllm.batch = $mode; BEGIN; $q; ROLLBACK;");
				$node->safe_psql('postgres', "SET vllm.batch = $mode; SET plan_cache_mode = force_generic_plan; PREPARE p AS $q; BEGIN; EXECUTE p; EXECUTE p; ROLLBACK;");
			}
			$stat{$mode} = $node->safe_psql('postgres', $stat);
		}
		is($stat{on}, $stat{off}, "$order: pg_stat_statements counts the same calls and rows");
		# once directly, twice prepared
		like($stat{on}, qr/^(PREPARE p AS )?SELECT id, llm_generate\(body\) FROM docs;?\|3\|90\|t$/m, "$order: calls and rows");
		like($stat{on}, qr/SELECT string_agg\(llm_generate\(body \|\| i\).*\|6\|6\|f$/m, "$order: calls and rows of nested statements");
	}
	SKIP:
	{
		skip 'no auto_explain in this installation', 4 if !$has{auto_explain};
		my $from = -s $node->logfile;
		$node->safe_psql('postgres', q{SET vllm.batch_dedup = on; SELECT id, llm_generate(body, temperature => 0) AS marked FROM (SELECT id, left(body, 5) AS body FROM docs) d WHERE id <= 20});
		my $log = slurp_file($node->logfile, $from);
		like($log, qr/LLM Batch\).*actual time/, "$order: auto_explain shows the node with its times");
		like($log, qr/Requests: 9 +Deduplicated: 11/, "$order: and its requests");
		like($log, qr/LLM Calls: llm_generate/, "$order: and its calls");
		$from = -s $node->logfile;
		$node->safe_psql('postgres', q{SELECT nested(1)});
		like(slurp_file($node->logfile, $from), qr/Query Text: [^\n]*SELECT string_agg.*?LLM Batch/s, "$order: also in nested statements");
	}
	# EXPLAIN itself
	my $plan = $node->safe_psql('postgres', q{EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id, llm_generate(body) FROM docs WHERE id <= 20});
	like($plan, qr/^Custom Scan \(LLM Batch\) \(actual rows=20(\.00)? loops=1\)\n +LLM Calls: llm_generate\(body\)\n.*Requests: 20 /s, "$order: EXPLAIN ANALYZE") or diag($plan);
	$node->safe_psql('postgres', q{SELECT vllm.control('log-clear')});
	like($node->safe_psql('postgres', q{EXPLAIN (VERBOSE, FORMAT json) SELECT id, llm_generate(body) FROM docs}), qr/"Custom Plan Provider": "LLM Batch"/, "$order: EXPLAIN in JSON");
	is($node->safe_psql('postgres', q{SELECT vllm.control('log')}), '', "$order: it asks nothing");
	# an error passes through all of them
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_generate(CASE id WHEN 7 THEN '@error' ELSE body END) FROM docs; SELECT count(llm_generate(body)) FROM docs}, on_error_stop => 0);
	like($err, qr/fake error/, "$order: an error passes");
	is($out, '30', "$order: the next statement works");
	is(left_behind($node), '0|0|0|0|0|0', "$order: nothing is left");
	is(stat_engine($node, 'restarts'), '0', "$order: no restart");
	$node->stop('fast');
}
done_testing();
