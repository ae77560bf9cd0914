# Only data that a user may see reaches the engine, batched or not: the request log proves it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;
use BatchTest;

my $node = new_node('batch_security', "jit = off\nlog_min_messages = fatal\n");
ok(until_ready($node), 'the engine becomes ready');
batch_setup($node);
$node->safe_psql('postgres', q{
	CREATE ROLE reader;
	CREATE ROLE author;
	CREATE TABLE letters (id int PRIMARY KEY, addressee name, body text, hidden text);
	INSERT INTO letters SELECT i, CASE WHEN i % 3 = 0 THEN 'reader' ELSE 'somebody' END, CASE WHEN i % 3 = 0 THEN 'mine ' ELSE 'secret ' END || i, 'hidden ' || i FROM generate_series(1, 30) i;
	ANALYZE letters;
	GRANT SELECT (id, addressee, body), UPDATE (body), DELETE ON letters TO reader;

	-- a function that tells what it is shown; cheap, so that the planner likes it first
	CREATE TABLE seen (t text);
	GRANT INSERT ON seen TO PUBLIC;
	CREATE FUNCTION leak(t text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$BEGIN INSERT INTO seen VALUES (t); RETURN true; END $$;
	CREATE FUNCTION dear(a name) RETURNS bool LANGUAGE plpgsql STABLE COST 10000000 AS $$BEGIN RETURN a = current_user; END $$;
	CREATE FUNCTION asks(p text) RETURNS bool LANGUAGE sql AS $$SELECT llm_generate('policy ' || p) LIKE '%0'$$;

	CREATE VIEW mine WITH (security_barrier) AS SELECT id, body FROM letters WHERE addressee = 'reader';
	CREATE VIEW mine_asked WITH (security_barrier) AS SELECT id, body FROM letters WHERE addressee = 'reader' AND llm_generate('view ' || body) LIKE '%3';
	CREATE VIEW answers AS SELECT id, llm_generate(body) AS a FROM letters WHERE addressee = 'reader';
	GRANT SELECT ON mine, mine_asked, answers TO reader;
	CREATE FUNCTION ask_all() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$SELECT count(llm_generate(body)) FROM letters$$;
	CREATE FUNCTION ask_one(t text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT llm_generate(t)$$;

	CREATE FUNCTION fails(query text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE query;
		RETURN 'no error';
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE || ' ' || SQLERRM;
	END $$;
	GRANT SELECT ON vllm.model TO PUBLIC;
});

# Run as reader with batching off and on: the same output, the same requests; returns both.
sub both
{
	my ($sql, $more) = @_;
	my %r;
	for my $mode (qw(off on))
	{
		$node->safe_psql('postgres', q{TRUNCATE seen; SELECT vllm.control('log-clear')});
		my ($rc, $out, $err) = $node->psql('postgres', "SET vllm.batch = $mode; SET vllm.batch_dedup = off; SET SESSION AUTHORIZATION reader; BEGIN; $sql; ROLLBACK;",
			on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
		$r{$mode} = { out => $out, err => $err, log => [ split /\n/, $node->safe_psql('postgres', 'SELECT * FROM request_log()') ] };
	}
	is("$r{on}{out}$r{on}{err}", "$r{off}{out}$r{off}{err}", "same result: $sql");
	is(log_relation($more // 'same', $r{off}{log}, $r{on}{log}), '', "same requests: $sql");
	return ($r{on}{out} . $r{on}{err}, @{ $r{on}{log} });
}

# The requests of the engine must not match.
sub not_shown
{
	my ($pattern, $what, @log) = @_;
	my @bad = grep { /$pattern/ } @log;
	ok(@log > 0 && !@bad, "$what: " . scalar(@log) . ' requests, none that must not be') or diag(join "\n", @bad[ 0 .. (@bad < 5 ? $#bad : 4) ]);
}

sub batched
{
	my ($sql) = @_;
	like($node->safe_psql('postgres', "SET SESSION AUTHORIZATION reader; EXPLAIN (COSTS OFF) $sql"), qr/LLM Batch/, "is batched: $sql");
}

# ---- row-level security ----

$node->safe_psql('postgres', 'ALTER TABLE letters ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON letters USING (addressee = current_user)');
for my $q (
	q{SELECT id, llm_generate(body) FROM letters},
	q{SELECT id FROM letters WHERE llm_generate(body) LIKE '%3'},
	q{SELECT id, llm_generate('list ' || body) FROM letters WHERE llm_generate(body) LIKE '%3'},
	q{SELECT string_agg(llm_generate(body), ',' ORDER BY id) FROM letters},
	q{SELECT id, lag(llm_generate(body)) OVER (ORDER BY id) FROM letters},
	q{SELECT id, a FROM letters, LATERAL (SELECT llm_generate(letters.body) AS a) l},
	q{SELECT x.id, llm_generate(x.body || y.body) FROM letters x JOIN letters y ON x.id = y.id + 3},
	q{SELECT x.id FROM letters x JOIN letters y ON llm_generate(x.body || y.body) LIKE '%9' AND x.id = y.id + 3},
	q{UPDATE letters SET body = llm_generate(body) RETURNING body},
	q{UPDATE letters SET body = 'x' WHERE llm_generate(body) LIKE '%3' RETURNING id},
	q{DELETE FROM letters WHERE llm_generate(body) LIKE '%3' RETURNING id})
{
	my ($out, @log) = both($q, $q =~ /lag/ ? 'more' : 'same');
	not_shown(qr/secret/i, 'a policy', @log);
	batched($q);
}
my ($out, @log) = both(q{SELECT id FROM letters WHERE leak(body) AND llm_generate(body) LIKE '%3'});
not_shown(qr/secret/i, 'a leaking function', @log);
($out, @log) = both(q{SELECT id FROM letters WHERE leak(body) AND llm_generate(body) LIKE '%3' AND leak(llm_generate('then ' || body)); SELECT count(*), count(*) FILTER (WHERE t ~* 'secret') FROM seen});
not_shown(qr/secret/i, 'a leaking function behind a call', @log);

# a policy that costs more than the call
$node->safe_psql('postgres', 'DROP POLICY own ON letters; CREATE POLICY own ON letters USING (dear(addressee)); GRANT SELECT, INSERT ON seen TO reader');
for my $q (
	q{SELECT id, llm_generate(body) FROM letters WHERE llm_generate(body) LIKE '%3'},
	q{SELECT id FROM letters WHERE leak(body) AND llm_generate(body) LIKE '%3'; SELECT count(*), count(*) FILTER (WHERE t ~* 'secret') FROM seen},
	q{UPDATE letters SET body = llm_generate('set ' || body) WHERE llm_generate(body) LIKE '%3' RETURNING body})
{
	($out, @log) = both($q);
	not_shown(qr/secret/i, 'a dear policy', @log);
	like($out, qr/^10\|0$/m, 'leak() saw the ten rows of the policy') if $q =~ /seen/;
}

# a policy that calls the model itself, before the user's condition
$node->safe_psql('postgres', 'DROP POLICY own ON letters; CREATE POLICY own ON letters USING (asks(body))');
($out, @log) = both(q{SELECT id, llm_generate('user ' || body) FROM letters WHERE leak(body) AND llm_generate('qual ' || body) IS NOT NULL ORDER BY id; SELECT string_agg(t, ',' ORDER BY t) FROM seen});
is(scalar(grep { /policy/ } @log), 30, 'the policy asks for each row');
is(scalar(grep { /(user|qual) / } @log), 6, 'the user for those that pass');
is(scalar(grep { /(user|qual) / && !/0$/ } @log), 0, 'and for no other');
like($out, qr/^(secret|mine) [123]0,(secret|mine) [123]0,(secret|mine) [123]0$/m, 'leak() saw only rows that passed');
$node->safe_psql('postgres', 'DROP POLICY own ON letters; CREATE POLICY own ON letters USING (addressee = current_user)');

# inserted and updated rows are checked after the call
$node->safe_psql('postgres', 'GRANT INSERT ON letters TO reader');
($out, @log) = both(q{INSERT INTO letters (id, addressee, body) SELECT 100 + id, 'somebody', llm_generate(body) FROM letters}, 'more');
like($out, qr/42501/, 'WITH CHECK refuses');
not_shown(qr/secret/i, 'WITH CHECK', @log);

# ---- views ----

$node->safe_psql('postgres', 'ALTER TABLE letters DISABLE ROW LEVEL SECURITY');
for my $q (
	q{SELECT id, llm_generate(body) FROM mine WHERE llm_generate('qual ' || body) LIKE '%3'},
	q{SELECT id FROM mine WHERE leak(body) AND llm_generate(body) LIKE '%3'; SELECT count(*), count(*) FILTER (WHERE t ~* 'secret') FROM seen},
	q{SELECT id, llm_generate(body) FROM mine ORDER BY id LIMIT 3},
	q{SELECT m.id, llm_generate(m.body || n.body) FROM mine m JOIN mine n USING (id)})
{
	($out, @log) = both($q);
	not_shown(qr/secret/i, 'a barrier view', @log);
}
($out, @log) = both(q{SELECT id, llm_generate('user ' || body) FROM mine_asked WHERE leak(body); SELECT string_agg(t, ',' ORDER BY t) FROM seen});
not_shown(qr/secret/i, 'a barrier view that asks', @log);
like($out, qr/^mine 3$/m, 'leak() saw only what the view showed');
($out, @log) = both('SELECT * FROM answers');
not_shown(qr/secret/i, 'a view of answers', @log);

# ---- columns ----

for my $q (q{SELECT llm_generate(hidden) FROM letters}, q{SELECT id FROM letters WHERE llm_generate(hidden) LIKE '%1'}, q{SELECT llm_generate(letters::text) FROM letters},
	q{UPDATE letters SET hidden = llm_generate(body)}, q{SELECT l.a FROM letters, LATERAL (SELECT llm_generate(letters.hidden) AS a) l})
{
	($out, @log) = both($q);
	like($out, qr/42501/, "column privileges refuse: $q");
	is(scalar(@log), 0, 'and nothing is asked');
}

# ---- security definers, EXECUTE, models ----

($out, @log) = both('SELECT ask_all()');
is($out =~ /^30$/m, 1, 'a definer sees all');
is(scalar(@log), 30, 'and asks for all');
($out, @log) = both(q{SELECT id, ask_one(body) FROM letters WHERE id < 4 ORDER BY id});

$node->safe_psql('postgres', q{
	DO $$ DECLARE f regprocedure; BEGIN
		FOR f IN SELECT oid FROM pg_proc WHERE proname = 'llm_generate' LOOP EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC'; END LOOP;
	END $$});
for my $q (
	q{SELECT llm_generate(body) FROM letters}, q{SELECT id FROM letters WHERE llm_generate(body) LIKE '%1'}, q{SELECT count(llm_generate(body)) FROM letters},
	q{SELECT id FROM letters WHERE id < 0 AND llm_generate(body) LIKE '%1'}, q{SELECT CASE WHEN id < 0 THEN llm_generate(body) END FROM letters},
	q{SELECT id, unnest(ARRAY[llm_generate(body)]) FROM letters}, q{SELECT l.a FROM letters, LATERAL (SELECT llm_generate(letters.body) AS a) l}, q{SELECT * FROM answers},
	q{UPDATE letters SET body = llm_generate(body)})
{
	($out, @log) = both($q);
	like($out, qr/42501/, "EXECUTE is needed: $q");
	is(scalar(@log), 0, 'and nothing is asked');
}
($out, @log) = both('SELECT ask_all()');
is(scalar(@log), 30, "a definer's right counts");
# a cached plan notices
for my $mode (qw(off on))
{
	my ($rc, $o, $e) = $node->psql('postgres', qq{
		SET vllm.batch = $mode; SET plan_cache_mode = force_generic_plan;
		PREPARE p AS SELECT count(llm_generate(body)) FROM letters;
		EXECUTE p;
		SET ROLE reader;
		EXECUTE p;
		RESET ROLE;
		EXECUTE p;}, on_error_stop => 0);
	is($o, "30\n30", "$mode: the role counts at execution");
	like($e, qr/permission denied for function llm_generate/, "$mode: and is named");
}
$node->safe_psql('postgres', q{
	DO $$ DECLARE f regprocedure; BEGIN
		FOR f IN SELECT oid FROM pg_proc WHERE proname = 'llm_generate' LOOP EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO PUBLIC'; END LOOP;
	END $$});

# the model
$node->safe_psql('postgres', q{SELECT llm_revoke('tickets-2m', 'public')});
for my $q (q{SELECT llm_generate(body) FROM letters}, q{SELECT id FROM letters WHERE llm_generate(body) LIKE '%1'}, q{SELECT string_agg(llm_generate(body), '') FROM letters}, q{SELECT * FROM answers})
{
	($out, @log) = both($q);
	like($out, qr/42501/, "the model is needed: $q");
	is(scalar(@log), 0, 'and nothing is asked');
}
($out, @log) = both('SELECT ask_all()');
is(scalar(@log), 30, "a definer's model counts");
$node->safe_psql('postgres', q{SELECT llm_grant('tickets-2m', 'public')});
($out, @log) = both(q{SELECT llm_generate(body) FROM letters WHERE id < 3});
is(scalar(@log), 2, 'granted again');

is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
$node->stop('fast');
done_testing();
