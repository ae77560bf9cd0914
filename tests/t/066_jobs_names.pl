# Jobs whose text has names: what they stand for when the worker runs it is what they stood for when the job was made.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = new_node('jobs_names', "autovacuum = off\n");
ok(until_ready($node), 'the engine becomes ready');
$node->safe_psql('postgres', q{
	CREATE ROLE mal; CREATE ROLE alice; CREATE ROLE lib;
	GRANT CREATE ON SCHEMA public TO mal, alice;
	GRANT CREATE ON DATABASE postgres TO mal;
	CREATE SCHEMA util;
	SET ROLE mal;
	CREATE SCHEMA mal;
	CREATE FUNCTION mal.evil() RETURNS text LANGUAGE plpgsql AS $$
	BEGIN IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE mal SUPERUSER; END IF; RETURN 'x'; END $$;
	CREATE FUNCTION mal.fires() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM mal.evil(); RETURN new; END $$});

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub mal_is_nobody { is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mal'}), 'f', "$_[0]: nothing of mal's has run as superuser") }
# A new row for each: the jobs fail, say why, and have computed nothing.
sub jobs_fail
{
	my ($what, %reason) = @_;
	sql("INSERT INTO $_ (id, x) VALUES (150, 'two')") for keys %reason;
	my $names = join ', ', map { "'$_'" } keys %reason;
	ok(until_sql($node, "SELECT bool_and(state = 'failed') FROM llm_jobs WHERE name IN ($names)"), "$what: failed")
		or diag(sql("SELECT name, state, last_error FROM llm_jobs WHERE name IN ($names)"));
	for my $name (sort keys %reason)
	{
		like(sql("SELECT last_error FROM llm_jobs WHERE name = '$name'"), $reason{$name}, "$what: $name says why");
		is(sql("SELECT count(*) FROM $name WHERE id = 150 AND y IS NOT NULL"), '0', "$what: $name has computed nothing");
	}
	mal_is_nobody($what);
}
sub uses { my ($name) = @_; return qr/^42P17: the input uses \Q$name\E, which it did not when the job was made/ }

# ---- what stands for a name of the input ----
sql(q{CREATE FUNCTION public.same(anyelement) RETURNS anyelement IMMUTABLE LANGUAGE sql AS 'SELECT $1';
	CREATE FUNCTION public.norm(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT trim(t)';
	CREATE FUNCTION public.agg(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT trim(t)';
	CREATE FUNCTION public.given(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT trim(t)';
	CREATE FUNCTION public.clean(t text, lang text DEFAULT 'en') RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT trim(t)';
	CREATE FUNCTION public.plus(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1 || $2';
	CREATE OPERATOR public.#|# (LEFTARG = text, RIGHTARG = text, FUNCTION = public.plus);
	CREATE DOMAIN public.label AS text; CREATE DOMAIN public.word AS text});
my %input = (t_same => 'public.same(x)', t_norm => 'public.norm(x)', t_agg => 'public.agg(x)', t_given => 'public.given(x)', t_clean => 'public.clean(x)',
	t_plus => 'x OPERATOR(public.#|#) x', t_label => 'x::public.label::text', t_word => q{array_to_string('{a}'::public.word[], x)});
sql(join '', map { "CREATE TABLE $_ (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('$_', input => \$\$$input{$_}\$\$, target_column => 'y', name => '$_'); INSERT INTO $_ VALUES (1, 'one');" } sort keys %input);
ok(until_sql($node, q{SELECT sum(done) = 8 FROM llm_jobs}), 'the jobs work');
is(sql(q{SELECT name, uses FROM vllm.job ORDER BY name}), join("\n",
	't_agg|{"function public.agg(pg_catalog.text) of a superuser"}', 't_clean|{"function public.clean(pg_catalog.text,pg_catalog.text) of a superuser"}',
	't_given|{"function public.given(pg_catalog.text) of a superuser"}', 't_label|{"type public.label of a superuser"}', 't_norm|{"function public.norm(pg_catalog.text) of a superuser"}',
	't_plus|{"operator public.#|#(pg_catalog.text,pg_catalog.text) of a superuser"}', 't_same|{"function public.same(pg_catalog.anyelement) of a superuser"}',
	't_word|{"type public.word[] of a superuser"}'), 'what the inputs use is kept');
sql(q{ALTER FUNCTION public.norm(text) SET SCHEMA util; ALTER FUNCTION public.agg(text) SET SCHEMA util; ALTER OPERATOR public.#|# (text, text) SET SCHEMA util;
	ALTER DOMAIN public.label SET SCHEMA util; ALTER DOMAIN public.word RENAME TO words; GRANT CREATE ON SCHEMA public TO lib; ALTER FUNCTION public.given(text) OWNER TO lib});
sql(q{SET ROLE mal;
	CREATE FUNCTION public.same(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION public.norm(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION public.clean(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION mal.step(s text, t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE AGGREGATE public.agg(text) (SFUNC = mal.step, STYPE = text);
	CREATE OPERATOR public.#|# (LEFTARG = text, RIGHTARG = text, FUNCTION = mal.step);
	CREATE DOMAIN public.label AS text CHECK (mal.evil() IS NOT NULL);
	CREATE DOMAIN public.word AS text CHECK (mal.evil() IS NOT NULL)});
jobs_fail('what the names stand for',
	t_same => uses('function public.same(pg_catalog.text) of mal'),
	t_norm => uses('function public.norm(pg_catalog.text) of mal'),
	t_agg => qr/^42803: column "src.tableoid" must appear in the GROUP BY clause/,
	t_given => uses('function public.given(pg_catalog.text) of lib'),
	t_clean => qr/^42725: function public.clean\(text\) is not unique/,
	t_plus => uses('operator public.#|#(pg_catalog.text,pg_catalog.text) of mal'),
	t_label => uses('type public.label of mal'),
	t_word => uses('type public.word[] of mal'));

# a literal without a type takes none from another function
sql(q{CREATE FUNCTION public.tell(VARIADIC "any") RETURNS text IMMUTABLE LANGUAGE internal AS 'text_concat';
	CREATE TABLE t_tell (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('t_tell', input => $$public.tell('{a}', x)$$, target_column => 'y', name => 't_tell');
	SET ROLE mal; CREATE DOMAIN mal.word AS text CHECK (mal.evil() IS NOT NULL);
	CREATE FUNCTION public.tell(mal.word[], text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT NULL::text';
	RESET ROLE; INSERT INTO t_tell VALUES (1, 'one')});
ok(until_sql($node, q{SELECT y = '{A}ONE' FROM t_tell}), 'a literal without a type is text');
mal_is_nobody('a literal');

# a column that is renamed: the input is read for that, too
sql('ALTER TABLE t_word RENAME COLUMN x TO z; ALTER TABLE t_same RENAME COLUMN x TO z');
mal_is_nobody('a column is renamed');
sql('ALTER TABLE t_word RENAME COLUMN z TO x; ALTER TABLE t_same RENAME COLUMN z TO x');

# ---- the owner of the job takes the new meaning, or another input ----
my ($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_resume_job('t_given')});
like($err, qr/NOTICE:  the input of job "t_given" uses function public\.given\(pg_catalog\.text\) of lib from now on/, 'resumed: with a notice');
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_given WHERE id = 150}), '... the job goes on');
sql(q{SELECT llm_alter_job('t_norm', input => 'util.norm(x)'); SELECT llm_resume_job('t_norm')});
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_norm WHERE id = 150}), 'altered and resumed: the job goes on');
# what is resumed after a pause takes nothing
sql(q{SELECT llm_pause_job('t_norm'); ALTER FUNCTION util.norm(text) OWNER TO lib; SELECT llm_resume_job('t_norm')});
sql(q{DELETE FROM t_norm WHERE id = 150});
jobs_fail('changed in a pause', t_norm => uses('function util.norm(pg_catalog.text) of lib'));
# of a job of 0.9 nothing is recorded: that is done when it runs
sql(q{UPDATE vllm.job SET uses = NULL, state = 'active' WHERE name = 't_norm'});
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_norm WHERE id = 150}), 'nothing recorded: the job goes on');
is(sql(q{SELECT uses FROM vllm.job WHERE name = 't_norm'}), '{"function util.norm(pg_catalog.text) of lib"}', '... and it is');

# who is the table's owner now agrees to the input as it is
sql(q{SET ROLE alice; CREATE FUNCTION public.hers(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT trim(t)';
	CREATE TABLE t_hers (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('t_hers', input => 'public.hers(x)', target_column => 'y', name => 't_hers');
	RESET ROLE; ALTER TABLE t_hers OWNER TO lib; INSERT INTO t_hers VALUES (1, 'one')});
($rc, $out, $err) = $node->psql('postgres', q{SET ROLE lib; SELECT llm_resume_job('t_hers')});
like($err, qr/NOTICE:  the input of job "t_hers" uses function public\.hers\(pg_catalog\.text\) of alice from now on/, 'resumed by a new owner: with a notice');
ok(until_sql($node, q{SELECT y = 'ONE' FROM t_hers}), '... the job goes on');

# ---- what the owners are called, and how names are printed ----
sql(q{CREATE ROLE boss SUPERUSER; CREATE FUNCTION public.low(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower(t)';
	CREATE TABLE t_low (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('t_low', input => 'public.low(x)', target_column => 'y', name => 't_low');
	SET ROLE alice; CREATE FUNCTION public.low2(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower(t)';
	CREATE TABLE t_low2 (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('t_low2', input => 'public.low2(x)', target_column => 'y', name => 't_low2')});
is(sql(q{SELECT uses FROM vllm.job WHERE name = 't_low2'}), q[{"function public.low2(pg_catalog.text) of the job's owner"}], "the job's owner has no name");
sql(q{ALTER FUNCTION public.low OWNER TO boss; ALTER ROLE alice RENAME TO alicia; ALTER DATABASE postgres SET quote_all_identifiers = on;
	INSERT INTO t_low VALUES (1, 'one'); INSERT INTO t_low2 VALUES (1, 'one')});
ok(until_sql($node, q{SELECT (SELECT y = 'ONE' FROM t_low) AND (SELECT y = 'ONE' FROM t_low2)}), 'another superuser, another name of a role: the jobs go on');
sql(q{ALTER ROLE alicia RENAME TO alice; CREATE TABLE t_quote (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('t_quote', input => 'public.low(x)', target_column => 'y', name => 't_quote'); INSERT INTO t_quote VALUES (1, 'one')});
is(sql(q{SELECT uses FROM vllm.job WHERE name = 't_quote'}), '{"function public.low(pg_catalog.text) of a superuser"}', 'quote_all_identifiers is another matter');
ok(until_sql($node, q{SELECT y = 'ONE' FROM t_quote}), '... the job works');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'vllm_pg job worker'; INSERT INTO t_quote VALUES (2, 'two')});
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_quote WHERE id = 2}), '... in a new worker, too');
sql('ALTER DATABASE postgres RESET quote_all_identifiers');

# ---- types of columns that others own ----
sql(q{CREATE TYPE public.mood AS ENUM ('one', 'two'); CREATE TYPE public.moods AS (m mood[]);
	CREATE TABLE t_mood (id int PRIMARY KEY, x text, m mood DEFAULT 'one', n mood[], c moods, y text); INSERT INTO t_mood VALUES (1, 'one');
	CREATE TABLE t_moodkey (id mood PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('t_mood', input => 'm', target_column => 'y', name => 't_mood')});
ok(until_sql($node, q{SELECT y = 'ONE' FROM t_mood WHERE id = 1}), "a type of a superuser's: the job works");
sql(q{ALTER TYPE mood OWNER TO mal; SET ROLE mal;
	CREATE FUNCTION public.mood_text(mood) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION public.text_mood(text) RETURNS mood IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM mal.evil(); RETURN 'one'; END $$;
	CREATE CAST (mood AS text) WITH FUNCTION mood_text(mood); CREATE CAST (text AS mood) WITH FUNCTION text_mood(text) AS ASSIGNMENT});
jobs_fail('a type of a column was given away', t_mood => qr/^42804: the job needs a column of type (public\.)?mood, which belongs to another role/);
sql(q{SELECT llm_drop_job('t_mood')});
for (['t_mood', 'm', 'y'], ['t_mood', q{'x' || m}, 'y'], ['t_mood', 'm::text', 'y'], ['t_mood', 'array_to_string(n, x)', 'y'], ['t_mood', '(c).m[1]', 'y'],
	['t_mood', 'x', 'm'], ['t_moodkey', 'x', 'y'])
{
	my ($table, $input, $target) = @$_;
	($rc, $out, $err) = $node->psql('postgres', "SELECT llm_create_completion_job('$table', input => \$\$$input\$\$, target_column => '$target', name => 'mood')");
	like($err, qr/ERROR:  the job needs a column of type .*, which belongs to another role/, "$table, $input, $target: refused");
}
mal_is_nobody('types of columns');
sql(q{SET ROLE mal; CREATE TABLE mal.own (id mood PRIMARY KEY, x text, m mood, y text); SELECT llm_create_completion_job('mal.own', input => 'm', target_column => 'y', name => 'malown');
	SELECT llm_drop_job('malown')});

# ---- what stands for the names of the tables, while rows are in flight ----
# What is done to the table, then by mal, while a row waits for its answer.
sub swapped
{
	my ($what, $table, $old, $by_owner, $by_mal) = @_;
	sql(qq{CREATE SCHEMA IF NOT EXISTS app; CREATE TABLE $table (id int PRIMARY KEY, x text, y text);
		SELECT llm_create_completion_job('$table', '{x}', 'y', name => 'swapped'); INSERT INTO $table VALUES (1, 'one \@delay:700')});
	ok(until_sql($node, q{SELECT in_flight > 0 FROM llm_jobs WHERE name = 'swapped'}), "$what: in flight");
	sql($by_owner);
	sql("SET ROLE mal; $by_mal");
	ok(until_sql($node, "SELECT y IS NOT NULL FROM $old"), "$what: the row has its value, under the table's new name");
	mal_is_nobody($what);
	sql(qq{SELECT llm_drop_job('swapped')});
}
swapped('a view takes the name', 'public.docs', 'public.docs_old', 'ALTER TABLE docs RENAME TO docs_old',
	q{CREATE VIEW docs AS SELECT 1 AS id, mal.evil() AS x, ''::text AS y; GRANT ALL ON docs TO PUBLIC;
	CREATE TRIGGER t INSTEAD OF UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION mal.fires()});
swapped('a table takes the name', 'public.docs2', 'public.docs2_old', 'ALTER TABLE docs2 RENAME TO docs2_old',
	q{CREATE TABLE docs2 AS SELECT 1 AS id, 'one @delay:700'::text AS x, ''::text AS y; GRANT ALL ON docs2 TO PUBLIC;
	CREATE TRIGGER t BEFORE UPDATE ON docs2 FOR EACH ROW EXECUTE FUNCTION mal.fires()});
sql(q{SET ROLE mal; CREATE SCHEMA eapp; CREATE VIEW eapp.docs AS SELECT 1 AS id, mal.evil() AS x, ''::text AS y;
	CREATE TRIGGER t INSTEAD OF UPDATE ON eapp.docs FOR EACH ROW EXECUTE FUNCTION mal.fires(); GRANT USAGE ON SCHEMA eapp TO PUBLIC; GRANT ALL ON eapp.docs TO PUBLIC});
swapped('a schema takes the name', 'app.docs', 'app_v1.docs', 'ALTER SCHEMA app RENAME TO app_v1', 'ALTER SCHEMA eapp RENAME TO app');
# a side table that is dropped is not made anew by somebody else
sql(q{CREATE TABLE doc3 (id int PRIMARY KEY, x text); SELECT llm_create_embedding_job('doc3', input => 'x', target_table => 'public.side', name => 't_side');
	INSERT INTO doc3 VALUES (1, 'one @delay:700')});
sql(q{DROP TABLE side; SET ROLE mal; CREATE TABLE public.side (id int, chunk_seq int, chunk text, embedding real[], tok_start int, tok_end int);
	CREATE TRIGGER t BEFORE INSERT ON side FOR EACH ROW EXECUTE FUNCTION mal.fires(); GRANT ALL ON side TO PUBLIC});
ok(until_sql($node, q{SELECT state = 'failed' FROM llm_jobs WHERE name = 't_side'}), 'a dropped side table: the job has failed');
like(sql(q{SELECT last_error FROM llm_jobs WHERE name = 't_side'}), qr/^42P01: a table of the job has been dropped/, '... and says why');
is(sql('SELECT count(*) FROM side'), '0', '... and has written nowhere');

# ---- partitions of others ----
sql(q{CREATE TABLE par (id int PRIMARY KEY, x text, y text) PARTITION BY RANGE (id);
	CREATE TABLE par1 PARTITION OF par FOR VALUES FROM (0) TO (100);
	CREATE TABLE par2 PARTITION OF par FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id);
	CREATE TABLE par3 PARTITION OF par2 FOR VALUES FROM (100) TO (200)});
sql('ALTER TABLE par3 OWNER TO mal');
($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_create_completion_job('par', '{x}', 'y', name => 'par')});
like($err, qr/ERROR:  partition "par3" has another owner than relation "par"/, "a job on others' partitions is refused");
sql(q{ALTER TABLE par3 OWNER TO postgres; SELECT llm_create_completion_job('par', '{x}', 'y', name => 'par'); INSERT INTO par VALUES (1, 'one')});
ok(until_sql($node, q{SELECT y = 'ONE' FROM par WHERE id = 1}), 'a job on partitions works');
sql(q{ALTER TABLE par3 OWNER TO mal; SET ROLE mal; CREATE TRIGGER t BEFORE UPDATE ON par3 FOR EACH ROW EXECUTE FUNCTION mal.fires()});
jobs_fail('a partition was given away', par => qr/^42501: partition "par3" of relation "par" has another owner than the job/);
sql(q{DROP TRIGGER t ON par3; ALTER TABLE par3 OWNER TO postgres; SELECT llm_resume_job('par')});
ok(until_sql($node, q{SELECT y = 'TWO' FROM par WHERE id = 150}), 'given back and resumed: the job goes on');

# ---- the right to the function ----
sql(q{SET ROLE alice; CREATE TABLE own (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('own', '{x}', 'y', name => 'own');
	INSERT INTO own VALUES (1, 'one')});
ok(until_sql($node, q{SELECT y = 'ONE' FROM own WHERE id = 1}), "a user's job works");
sql(q{DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = 'llm_generate' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$});
jobs_fail('the right to the function was revoked', own => qr/^42501: permission denied for function llm_generate/);
is(sql(q{SELECT y IS NULL FROM own WHERE id = 150}), 't', 'nothing was asked for');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
