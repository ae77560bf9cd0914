# Jobs whose text has names: when the worker runs it they must mean the same as when the job was made.
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
# Insert a row for each: the jobs must fail with a reason, and must not have computed anything.
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
sub uses { my ($name) = @_; return qr/^42P17: the input uses \Q$name\E, which it did not use when the job was created/ }

# ---- objects that replace a name of the input ----
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

# a literal without a type must not get one from another function
sql(q{CREATE FUNCTION public.tell(VARIADIC "any") RETURNS text IMMUTABLE LANGUAGE internal AS 'text_concat';
	CREATE TABLE t_tell (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('t_tell', input => $$public.tell('{a}', x)$$, target_column => 'y', name => 't_tell');
	SET ROLE mal; CREATE DOMAIN mal.word AS text CHECK (mal.evil() IS NOT NULL);
	CREATE FUNCTION public.tell(mal.word[], text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT NULL::text';
	RESET ROLE; INSERT INTO t_tell VALUES (1, 'one')});
ok(until_sql($node, q{SELECT y = '{A}ONE' FROM t_tell}), 'a literal without a type is text');
mal_is_nobody('a literal');

# nor within a row
sql(q{CREATE FUNCTION public.tell_row(VARIADIC "any") RETURNS text IMMUTABLE LANGUAGE internal AS 'text_concat';
	CREATE SEQUENCE public.ran; GRANT ALL ON SEQUENCE public.ran TO PUBLIC;
	CREATE TABLE t_row (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('t_row', input => $$public.tell_row(ROW('{a}', x), x)$$, target_column => 'y', name => 't_row');
	SET ROLE mal; CREATE FUNCTION mal.runs() RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM nextval('public.ran'), mal.evil(); RETURN true; END $$;
	CREATE DOMAIN mal.trap AS text CHECK (mal.runs());
	CREATE TYPE mal.traps AS (a mal.trap[], b text);
	CREATE FUNCTION public.tell_row(mal.traps, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT NULL::text';
	RESET ROLE; INSERT INTO t_row VALUES (1, 'one'); ALTER TABLE t_row RENAME COLUMN x TO z; ALTER TABLE t_row RENAME COLUMN z TO x});
jobs_fail('a row fits another function', t_row => qr/^(42P17: the input uses function public.tell_row\(mal.traps,pg_catalog.text\) of mal|42846: cannot cast type record to mal.traps)/);
is(sql('SELECT is_called FROM public.ran'), 'f', 'a literal in a row is text');

# a renamed column: the input is parsed to find that, too
sql('ALTER TABLE t_word RENAME COLUMN x TO z; ALTER TABLE t_same RENAME COLUMN x TO z');
mal_is_nobody('a column is renamed');
sql('ALTER TABLE t_word RENAME COLUMN z TO x; ALTER TABLE t_same RENAME COLUMN z TO x');

# ---- the owner of the job accepts the new meaning, or sets another input ----
my ($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_resume_job('t_given')});
like($err, qr/ERROR:  the job's input uses function public\.given\(text\), which belongs to another role/, "another role's function is not taken");
sql(q{DROP FUNCTION public.same(text); CREATE FUNCTION public.same(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1'});
($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_resume_job('t_same')});
like($err, qr/NOTICE:  the input of job "t_same" uses function public\.same\(pg_catalog\.text\) of a superuser from now on/, 'resumed: with a notice');
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_same WHERE id = 150}), '... the job goes on');
sql(q{SELECT llm_alter_job('t_norm', input => 'util.norm(x)'); SELECT llm_resume_job('t_norm')});
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_norm WHERE id = 150}), 'altered and resumed: the job goes on');
# resuming after a pause accepts nothing
sql(q{SELECT llm_pause_job('t_norm'); ALTER FUNCTION util.norm(text) OWNER TO lib; SELECT llm_resume_job('t_norm')});
sql(q{DELETE FROM t_norm WHERE id = 150});
jobs_fail('changed in a pause', t_norm => uses('function util.norm(pg_catalog.text) of lib'));
# for a job of 0.9 nothing is recorded, so it is recorded when it runs
sql(q{ALTER FUNCTION util.norm(text) OWNER TO postgres; UPDATE vllm.job SET uses = NULL, state = 'active' WHERE name = 't_norm'});
ok(until_sql($node, q{SELECT y = 'TWO' FROM t_norm WHERE id = 150}), 'nothing recorded: the job goes on');
is(sql(q{SELECT uses FROM vllm.job WHERE name = 't_norm'}), '{"function util.norm(pg_catalog.text) of a superuser"}', '... and it is');

# a new owner of the table accepts the input as it is
sql(q{SET ROLE alice; CREATE FUNCTION public.hers(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT trim(t)';
	CREATE TABLE t_hers (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('t_hers', input => 'public.hers(x)', target_column => 'y', name => 't_hers');
	RESET ROLE; ALTER TABLE t_hers OWNER TO lib; INSERT INTO t_hers VALUES (1, 'one')});
($rc, $out, $err) = $node->psql('postgres', q{SET ROLE lib; SELECT llm_resume_job('t_hers')});
like($err, qr/ERROR:  the job's input uses function public\.hers\(text\), which belongs to another role/, "resumed by a new owner: the former owner's function is not taken");
sql(q{ALTER FUNCTION public.hers(text) OWNER TO lib; SET ROLE lib; SELECT llm_resume_job('t_hers')});
ok(until_sql($node, q{SELECT y = 'ONE' FROM t_hers}), '... the job goes on');

# ---- names of owners, and printing of names ----
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
	CREATE FUNCTION public.mood_of(text) RETURNS mood IMMUTABLE LANGUAGE sql AS $$SELECT 'one'::public.mood$$;
	CREATE OPERATOR public.!!! (RIGHTARG = text, FUNCTION = public.mood_of); CREATE TABLE t_moodof (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('t_mood', input => 'm', target_column => 'y', name => 't_mood');
	SELECT llm_create_completion_job('t_moodof', input => 'public.mood_of(x)', target_column => 'y', name => 't_moodof')});
ok(until_sql($node, q{SELECT y = 'ONE' FROM t_mood WHERE id = 1}), "a type of a superuser's: the job works");
sql(q{ALTER TYPE mood OWNER TO mal; SET ROLE mal;
	CREATE FUNCTION public.mood_text(mood) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION public.text_mood(text) RETURNS mood IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM mal.evil(); RETURN 'one'; END $$;
	CREATE CAST (mood AS text) WITH FUNCTION mood_text(mood); CREATE CAST (text AS mood) WITH FUNCTION text_mood(text) AS ASSIGNMENT});
jobs_fail('a type of a column was given away', t_mood => qr/^42804: the job needs a column of type (public\.)?mood, which belongs to another role/,
	t_moodof => qr/^42804: the job's input has a value of type (public\.)?mood, which belongs to another role/);
sql(q{SELECT llm_drop_job('t_mood'); SELECT llm_drop_job('t_moodof')});
for ('public.mood_of(x)', 'public.mood_of(x)::text', 'ARRAY[public.mood_of(x)]::text', '(OPERATOR(public.!!!) x)::text')
{
	($rc, $out, $err) = $node->psql('postgres', "SELECT llm_create_completion_job('t_moodof', input => \$\$$_\$\$, target_column => 'y', name => 'mood')");
	like($err, qr/ERROR:  the job's input has a value of type .*, which belongs to another role/, "$_: refused");
}
for (['t_mood', 'm', 'y'], ['t_mood', q{'x' || m}, 'y'], ['t_mood', 'm::text', 'y'], ['t_mood', 'array_to_string(n, x)', 'y'], ['t_mood', '(c).m[1]', 'y'],
	['t_mood', 'x', 'm'], ['t_moodkey', 'x', 'y'])
{
	my ($table, $input, $target) = @$_;
	($rc, $out, $err) = $node->psql('postgres', "SELECT llm_create_completion_job('$table', input => \$\$$input\$\$, target_column => '$target', name => 'mood')");
	like($err, qr/ERROR:  the job needs a column of type .*, which belongs to another role/, "$table, $input, $target: refused");
}
# domains, whose checks run when a value is made; also below a domain, for a range's bounds, in columns that
# are only written with others
sql(q{GRANT USAGE ON SCHEMA mal TO PUBLIC; ALTER SEQUENCE public.ran RESTART; CREATE SCHEMA dom;
	SET ROLE mal; CREATE DOMAIN mal.t AS text CHECK (mal.runs()); CREATE DOMAIN mal.i AS int CHECK (mal.runs()); RESET ROLE;
	CREATE DOMAIN dom.i AS mal.i; CREATE TYPE dom.r AS RANGE (subtype = mal.i); CREATE TYPE dom.c AS (i mal.i);
	CREATE TABLE dom.source (id int PRIMARY KEY, x text, y text, t mal.t, r dom.r);
	CREATE TABLE dom.gen (id int PRIMARY KEY, x text, y text, g mal.t GENERATED ALWAYS AS (x) STORED)});
sql("CREATE TABLE dom.k$_->[0] (id $_->[1] PRIMARY KEY, x text, y text)") for [ 1, 'mal.i' ], [ 2, 'dom.i' ], [ 3, 'dom.r' ], [ 4, 'dom.c' ], [ 5, 'dom.i[]' ], [ 6, 'dom.r_multirange' ];
for (map({ [ "dom.k$_", 'x', 'y' ] } 1 .. 6), [ 'dom.source', 'x', 't' ], [ 'dom.source', 't', 'y' ], [ 'dom.source', 'r::text', 'y' ], [ 'dom.gen', 'x', 'y' ])
{
	my ($table, $input, $target) = @$_;
	($rc, $out, $err) = $node->psql('postgres', "SELECT llm_create_completion_job('$table', input => '$input', target_column => '$target', name => 'dom')");
	like($err, qr/ERROR:  the job needs a column of type .*, which belongs to another role/, "$table, $input, $target: refused");
}
my %side = (id => 'int', chunk_seq => 'int', chunk => 'text', embedding => 'real[]', tok_start => 'int', tok_end => 'int', more => 'text');
for my $column (qw(chunk_seq chunk tok_end more))
{
	my %is = (%side, $column => $side{$column} eq 'int' ? 'mal.i' : 'mal.t');
	($rc, $out, $err) = $node->psql('postgres', 'CREATE TABLE dom.side (' . join(', ', map { "$_ $is{$_}" } sort keys %is) . q{, PRIMARY KEY (id, chunk_seq));
		SELECT llm_create_embedding_job('dom.source', input => 'x', target_table => 'dom.side', name => 'dom')});
	like($err, qr/ERROR:  the job needs a column of type mal\..*, which belongs to another role/, "a side table's $column: refused");
	sql('DROP TABLE dom.side');
}
sql(q{CREATE DOMAIN dom.t AS text; CREATE TABLE dom.docs (id int PRIMARY KEY, x text); SELECT llm_create_embedding_job('dom.docs', input => 'x', target_table => 'dom.side', name => 'dom');
	ALTER TABLE dom.side ADD COLUMN more dom.t; INSERT INTO dom.docs VALUES (1, 'one')});
ok(until_sql($node, 'SELECT count(*) = 1 FROM dom.side'), "a domain of the owner's: the job works");
sql(q{ALTER DOMAIN dom.t OWNER TO mal; INSERT INTO dom.docs VALUES (2, 'two')});
ok(until_sql($node, q{SELECT last_error ~ '^42804: the job needs a column of type dom.t, ' FROM llm_jobs WHERE name = 'dom'}), 'given away: the job has failed')
	or diag(sql(q{SELECT last_error FROM llm_jobs WHERE name = 'dom'}));
sql(q{SELECT llm_drop_job('dom')});
is(sql('SELECT is_called FROM public.ran'), 'f', 'no check of mal has run');
mal_is_nobody('types of columns');
sql(q{SET ROLE mal; CREATE TABLE mal.own (id mood PRIMARY KEY, x text, m mood, y text); SELECT llm_create_completion_job('mal.own', input => 'm', target_column => 'y', name => 'malown');
	SELECT llm_drop_job('malown')});

# ---- which code runs ---- Names in an input are refused, whether or not there is code yet.
sql(q{CREATE SCHEMA own; GRANT USAGE, CREATE ON SCHEMA own TO mal; CREATE TYPE own.e AS ENUM ('one', 'two'); ALTER SEQUENCE public.ran RESTART;
	SET ROLE mal; CREATE TYPE mal.mood AS ENUM ('one', 'two'); CREATE TYPE mal.pair AS (m mal.mood, t text); CREATE COLLATION mal.c FROM "C";
	CREATE DOMAIN public.fw AS text CHECK (mal.runs()); CREATE TYPE public.fr AS RANGE (subtype = public.fw);
	CREATE VIEW mal.v AS SELECT mal.runs(); GRANT SELECT ON mal.v TO PUBLIC;
	CREATE FUNCTION mal.low(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION mal.low2(text) RETURNS text IMMUTABLE LANGUAGE plpgsql SET search_path = pg_catalog AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION mal.low3(text) RETURNS text IMMUTABLE LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN RETURN $1 || current_user; END $$;
	CREATE FUNCTION mal.paste(text, text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil(); END $$;
	CREATE FUNCTION mal.fine(text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN mal.evil() IS NOT NULL; END $$;
	CREATE FUNCTION mal.ejson(own.e) RETURNS json IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN to_json(mal.evil()); END $$;
	RESET ROLE;
	CREATE FUNCTION own.rec(text) RETURNS record IMMUTABLE LANGUAGE sql AS $$SELECT ROW('one'::mal.mood)$$;
	CREATE FUNCTION own.same(anyelement) RETURNS anyelement IMMUTABLE LANGUAGE sql AS $$SELECT $1$$;
	CREATE FUNCTION own.pair(text, OUT m mal.mood, OUT t text) IMMUTABLE LANGUAGE sql AS $$SELECT 'one'::mal.mood, $1$$;
	CREATE FUNCTION own.out(text, OUT a text, OUT b int) IMMUTABLE LANGUAGE sql AS $$SELECT $1, 1$$;
	CREATE OPERATOR own.## (LEFTARG = text, RIGHTARG = text, FUNCTION = mal.paste);
	CREATE TABLE own.source (id int PRIMARY KEY, x text, y text, c mal.trap[])});
my $type = qr/value of type .*, which belongs to another role/;
my $named = qr/is not supported in the input of a job/;
for (['x::mal.word', $type], [q{(x::mal.mood)::text}, $type], [q{row_to_json(ROW(x, 'one'::mal.mood))}, $type], ['ROW(x, x)::mal.pair::text', $type],
	[q{(ARRAY[x]::mal.word[])[1]}, $type], [q{public.fr('[a,b]')::text || x}, $type], [q{to_json(own.pair(x))}, $type],
	['to_json(own.rec(x))', qr/a record of function own\.rec\(text\), whose fields may be of any type/],
	['to_json(own.same(ROW(x)))', qr/a record of function own\.same\(anyelement\), whose fields may be of any type/],
	['mal.low(x)', qr/uses function mal\.low\(text\), which belongs to another role/], ['x OPERATOR(own.##) x', qr/uses function mal\.paste\(text,text\), which belongs to another role/],
	['x COLLATE mal.c', qr/uses collation mal\.c, which belongs to another role/], [q{x || 'mal.v'::regclass}, qr/uses view mal\.v, which belongs to another role/],
	[q{x || table_to_xml(('mal' || '.v')::regclass, true, true, '')::text}, $named], [q{x || schema_to_xml('mal', true, true, '')::text}, $named],
	[q{x || (domain_in('a', ('mal' || '.word')::regtype, -1) IS NULL)::text}, $named],
	[q{CASE WHEN c = '{a}' THEN x END}, qr/needs a column of type mal\.trap\[\], which belongs to another role/])
{
	my ($input, $reason) = @$_;
	($rc, $out, $err) = $node->psql('postgres', "SELECT llm_create_completion_job('own.source', input => \$\$$input\$\$, target_column => 'y', name => 'whose')");
	like($err, qr/ERROR:  .*$reason/, "$input: refused");
}
# triggers of foreign keys cast their columns
sql(q{CREATE TABLE own.moods (m mal.mood PRIMARY KEY); CREATE TABLE own.refers (id int PRIMARY KEY, x text, y text, m mal.mood REFERENCES own.moods)});
($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_create_completion_job('own.refers', input => 'x', target_column => 'y', name => 'whose')});
like($err, qr/ERROR:  the job needs a column of type mal\.mood, which belongs to another role/, "a foreign key's column: refused");
is(sql('SELECT is_called FROM public.ran'), 'f', '... before anything has run');
mal_is_nobody('what an input names');

# Code that the input does not show is stopped before it runs: checks and defaults, casts that to_json()
# finds, triggers, nested functions.
sql(q{CREATE DOMAIN own.d AS text CHECK (mal.fine(VALUE)); CREATE CAST (own.e AS json) WITH FUNCTION mal.ejson(own.e);
	CREATE FUNCTION own.def(t text, u text DEFAULT mal.low('')) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1 || $2';
	CREATE FUNCTION own.calls(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN mal.low(t); END';
	CREATE FUNCTION own.inlined(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT mal.low(t)';
	CREATE FUNCTION own.sets(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT mal.low2(t)';
	CREATE FUNCTION own.definer(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT mal.low3(t)';
	CREATE FUNCTION own.low(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower(t)';
	CREATE DOMAIN own.fine AS text CHECK (own.low(VALUE) <> 'no')});
my %runs = (w_check => 'x::own.d', w_json => q{to_json(CASE WHEN x = 'one' THEN 'one' ELSE 'two' END::own.e)}, w_default => 'own.def(x)', w_calls => 'own.calls(x)',
	w_inlined => 'own.inlined(x)', w_sets => 'own.sets(x)', w_trigger => 'x');
sql(join '', map { "CREATE TABLE $_ (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('$_', input => \$\$$runs{$_}\$\$, target_column => 'y', name => '$_');" } sort keys %runs);
sql(q{GRANT ALL ON w_trigger TO mal; SET ROLE mal; CREATE TRIGGER t BEFORE UPDATE ON w_trigger FOR EACH ROW EXECUTE FUNCTION mal.fires();
	RESET ROLE; REVOKE TRIGGER ON w_trigger FROM mal});
sub runs { my ($name) = @_; return qr/^42501: function \Q$name\E belongs to another role, and would run as the job's owner/ }
jobs_fail('what an input does not show', w_check => runs('mal.fine(pg_catalog.text)'), w_json => runs('mal.ejson(own.e)'), w_default => runs('mal.low(pg_catalog.text)'),
	w_calls => runs('mal.low(pg_catalog.text)'), w_inlined => runs('mal.low(pg_catalog.text)'), w_sets => runs('mal.low2(pg_catalog.text)'), w_trigger => runs('mal.fires()'));
# a trigger's condition may use only PostgreSQL's own functions, whoever wrote it
sql(q{CREATE TABLE w_when (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('w_when', input => 'x', target_column => 'y', name => 'w_when');
	GRANT ALL ON w_when TO mal; SET ROLE mal;
	CREATE TRIGGER t BEFORE UPDATE ON w_when FOR EACH ROW WHEN (nextval('public.ran') > 0) EXECUTE FUNCTION suppress_redundant_updates_trigger();
	RESET ROLE; REVOKE TRIGGER ON w_when FROM mal});
jobs_fail('a volatile condition', w_when => qr/^42501: the condition of trigger "t" on relation "w_when" is volatile/);
is(sql('SELECT is_called FROM public.ran'), 'f', '... and it has not run');
sql(q{DROP TRIGGER t ON w_when; CREATE TRIGGER t BEFORE UPDATE ON w_when FOR EACH ROW WHEN (old.* IS DISTINCT FROM new.* AND pg_trigger_depth() = 0)
	EXECUTE FUNCTION suppress_redundant_updates_trigger(); SELECT llm_resume_job('w_when')});
ok(until_sql($node, q{SELECT y = 'TWO' FROM w_when WHERE id = 150}), 'another condition: the job goes on');
# nor in a domain's check, in tables that code of the owner or a foreign key writes, as an aggregate's
# transition function, or cached in the transaction when another user ran
sql(q{SET ROLE mal; CREATE DOMAIN mal.runner AS text CHECK (nextval('public.ran') > 0); CREATE TYPE mal.runners AS (a mal.runner);
	CREATE FUNCTION own.mals(t text) RETURNS text LANGUAGE plpgsql AS $$BEGIN IF current_user <> 'mal' THEN PERFORM nextval('public.ran'); END IF; RETURN t; END $$;
	RESET ROLE; CREATE TABLE own.log (y text); CREATE FUNCTION own.logs() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO own.log VALUES (new.y); RETURN new; END $$;
	CREATE FUNCTION own.whole(anyelement) RETURNS text LANGUAGE sql AS 'SELECT $1::text';
	CREATE FUNCTION own.sums(t text) RETURNS text STABLE LANGUAGE plpgsql AS $$BEGIN RETURN own.whole(t)::text; END $$;
	CREATE FUNCTION own.uses_mals(t text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN own.mals(t); END $$;
	SET ROLE mal; CREATE FUNCTION own.first_mal(t text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN RETURN own.uses_mals(t); END $$;
	RESET ROLE; CREATE FUNCTION own.then_me(t text) RETURNS text STABLE LANGUAGE plpgsql AS $$BEGIN PERFORM own.first_mal(t); RETURN own.uses_mals(t); END $$});
# h_key is paused until mal's trigger exists: otherwise the job may clear y, and with it the key in own.follows, before
my %hidden = (h_domain => 'x', h_record => 'x', h_nested => 'x', h_key => 'x', h_step => 'own.sums(x)', h_twice => 'own.then_me(x)');
sql(join '', map { "CREATE TABLE $_ (id int PRIMARY KEY, x text, y text UNIQUE); SELECT llm_create_completion_job('$_', input => \$\$$hidden{$_}\$\$, target_column => 'y', name => '$_');" } sort keys %hidden);
sql(q{CREATE TRIGGER t AFTER UPDATE ON h_nested FOR EACH ROW EXECUTE FUNCTION own.logs();
	CREATE TABLE own.follows (y text REFERENCES h_key (y) ON UPDATE CASCADE); SELECT llm_pause_job('h_key'); BEGIN; INSERT INTO h_key VALUES (1, NULL, 'old'); INSERT INTO own.follows VALUES ('old'); COMMIT;
	GRANT TRIGGER ON h_domain, h_record, own.log, own.follows TO mal; SET ROLE mal;
	CREATE TRIGGER t BEFORE UPDATE ON h_domain FOR EACH ROW WHEN (new.x::mal.runner IS NOT NULL) EXECUTE FUNCTION suppress_redundant_updates_trigger();
	CREATE TRIGGER t BEFORE UPDATE ON h_record FOR EACH ROW WHEN (json_populate_record(NULL::mal.runners, '{"a": "x"}') IS NOT NULL) EXECUTE FUNCTION suppress_redundant_updates_trigger();
	CREATE TRIGGER t BEFORE INSERT ON own.log FOR EACH ROW WHEN (nextval('public.ran') > 0) EXECUTE FUNCTION suppress_redundant_updates_trigger();
	CREATE TRIGGER t BEFORE UPDATE ON own.follows FOR EACH ROW WHEN (nextval('public.ran') > 0) EXECUTE FUNCTION suppress_redundant_updates_trigger();
	CREATE AGGREGATE own.whole(text) (SFUNC = pg_catalog.ts_rewrite, STYPE = tsquery, INITCOND = 'a'); RESET ROLE;
	REVOKE TRIGGER ON h_domain, h_record, own.log, own.follows FROM mal; UPDATE h_key SET x = 'one';
	SELECT llm_resume_job('h_key')});
my $condition = qr/^42501: the condition of trigger "t" on relation/;
jobs_fail('what runs unseen', h_nested => qr/$condition "log" is volatile/, h_step => runs('own.whole(pg_catalog.text)'), h_twice => runs('own.mals(pg_catalog.text)'),
	h_domain => qr/^42804: the condition of trigger "t" has a value of type mal.runner,/, h_record => qr/^42804: the condition of trigger "t" has a value of type mal.runners,/);
ok(until_sql($node, q{SELECT state = 'failed' FROM llm_jobs WHERE name = 'h_key'}), "a foreign key's table: failed");
like(sql(q{SELECT last_error FROM llm_jobs WHERE name = 'h_key'}), qr/$condition "follows" is volatile/, '... says why');
is(sql('SELECT is_called FROM public.ran'), 'f', '... and nothing has');
# Names in the owner's code may be mal's: operators over PostgreSQL's own functions, views, policies, tables
# that it writes.
sql(q{CREATE SCHEMA low; GRANT ALL ON SCHEMA low TO mal; SET ROLE mal;
	CREATE OPERATOR low.%% (LEFTARG = regclass, RIGHTARG = bigint, FUNCTION = pg_catalog.setval);
	CREATE VIEW low.view AS SELECT nextval('public.ran') AS n;
	CREATE TABLE low.rows (n bigint); INSERT INTO low.rows VALUES (1); ALTER TABLE low.rows ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
	CREATE POLICY p ON low.rows USING (nextval('public.ran') > 0);
	CREATE TABLE low.filled (t text, n bigint DEFAULT nextval('public.ran'));
	CREATE DOMAIN low.checked AS text CHECK (nextval('public.ran') > 0);
	GRANT ALL ON low.view, low.rows, low.filled TO PUBLIC; RESET ROLE;
	CREATE ROLE plain; GRANT ALL ON SCHEMA public, low, own TO plain; GRANT ALL ON SEQUENCE public.ran TO plain;
	CREATE TABLE copied (t text); GRANT ALL ON copied TO mal; SET ROLE mal;
	CREATE TRIGGER t BEFORE INSERT ON copied FOR EACH ROW WHEN (nextval('public.ran') > 0) EXECUTE FUNCTION suppress_redundant_updates_trigger();
	CREATE TRIGGER u BEFORE TRUNCATE ON copied WHEN (nextval('public.ran') > 0) EXECUTE FUNCTION mal.fires();
	RESET ROLE; REVOKE ALL ON copied FROM mal});
my %body = (r_operator => q{PERFORM 'public.ran'::regclass OPERATOR(low.%%) 7::bigint},
	r_view => 'PERFORM n FROM low.view',
	r_policy => 'PERFORM n FROM low.rows',
	r_written => 'INSERT INTO low.filled VALUES (t)',
	r_domain => 'PERFORM t::low.checked',
	r_cursor => q{FOR r IN EXECUTE 'SELECT n FROM low.view' LOOP END LOOP},
	r_copy => q{COPY public.copied FROM PROGRAM 'echo a'},
	r_truncate => 'TRUNCATE public.copied',
	r_as => 'CREATE TABLE made AS SELECT t::low.checked AS c',
	r_columns => q{PERFORM c FROM json_to_record('{"c": "a"}') AS j (c low.checked)},
	r_call => q{CALL own.takes('public.ran'::regclass OPERATOR(low.%%) 7::bigint)},
	r_cascade => 'TRUNCATE own.referred CASCADE',
	r_variable => 'DECLARE v low.checked; BEGIN v := t; END',
	r_kept => 'PERFORM low.as_mal(); PERFORM own.sets_ran()');
# also in a plan that a session has cached from mal, and on tables that a TRUNCATE reaches by cascade
sql(q{CREATE PROCEDURE own.takes(bigint) LANGUAGE plpgsql AS 'BEGIN END';
	CREATE TABLE own.referred (id int PRIMARY KEY); GRANT REFERENCES ON own.referred TO mal;
	CREATE FUNCTION own.sets_ran() RETURNS void LANGUAGE plpgsql AS $$BEGIN
		PERFORM CASE WHEN current_user <> 'mal' THEN 'public.ran'::regclass OPERATOR(low.%%) 7::bigint END;
		END $$;
	SET ROLE mal; CREATE TABLE low.refers (id int REFERENCES own.referred);
	GRANT TRUNCATE ON low.refers TO PUBLIC;
	CREATE TRIGGER t BEFORE TRUNCATE ON low.refers WHEN (nextval('public.ran') > 0)
		EXECUTE FUNCTION mal.fires();
	CREATE FUNCTION low.as_mal() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
		'BEGIN PERFORM own.sets_ran(); END'});
sub calls_body
{
	my ($name) = @_;
	my $plain = $name eq 'r_policy'
	  ? join('', map { "ALTER $_ OWNER TO plain; " } "TABLE $name", "FUNCTION own.$name", "FUNCTION own.${name}_2") . 'SET ROLE plain; '
	  : '';
	return "CREATE FUNCTION own.$name(t text) RETURNS text STABLE LANGUAGE plpgsql AS
			\$\$BEGIN RETURN own.${name}_2(t); END \$\$;
		CREATE FUNCTION own.${name}_2(t text) RETURNS text LANGUAGE plpgsql AS
			\$\$DECLARE r record; BEGIN $body{$name}; RETURN t; END \$\$;
		CREATE TABLE $name (id int PRIMARY KEY, x text, y text); $plain
		SELECT llm_create_completion_job('$name', input => 'own.$name(x)', target_column => 'y', name => '$name'); RESET ROLE;";
}
sql(join '', map { calls_body($_) } sort keys %body);
sub other { my ($name) = @_; return qr/^42501: \Q$name\E belongs to another role, (and|whose expressions) would run as the job's owner/ }
jobs_fail('what the code of an owner names',
	r_operator => other('operator low.%%(regclass,bigint)'),
	r_view => other('view "view"'), r_cursor => other('view "view"'),
	r_policy => other('row security of table "rows"'), r_written => other('table "filled"'),
	r_domain => other('type low.checked'), r_as => other('type low.checked'),
	r_columns => other('type low.checked'), r_variable => other('type low.checked'),
	r_call => other('operator low.%%(regclass,bigint)'), r_kept => other('operator low.%%(regclass,bigint)'),
	r_cascade => other('table "refers"'),
	r_copy => qr/$condition "copied" is volatile/, r_truncate => qr/$condition "copied" is volatile/);
is(sql('SELECT is_called FROM public.ran'), 'f', '... and nothing of it has run');
# a role that may create triggers decides what a superuser's function does with their arguments
sql(q{CREATE TABLE g_later (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('g_later', input => 'x', target_column => 'y', name => 'g_later');
	CREATE TABLE g_first (id int PRIMARY KEY, x text, y text); CREATE TABLE g_plain (id int PRIMARY KEY, x text, y text);
	ALTER TABLE g_plain OWNER TO plain; GRANT TRIGGER ON g_first, g_plain TO PUBLIC; GRANT TRIGGER ON g_later TO mal});
jobs_fail('a superuser and TRIGGER', g_later => qr/^42501: role mal may make triggers on relation "g_later", which a job writes as a superuser/);
($rc, $out, $err) = $node->psql('postgres', q{SELECT llm_create_completion_job('g_first', input => 'x', target_column => 'y')});
like($err, qr/ERROR:  role PUBLIC may make triggers on relation "g_first".*HINT:  REVOKE TRIGGER ON public\.g_first FROM PUBLIC/s, '... when the job is made');
sql(q{REVOKE TRIGGER ON g_later FROM mal; SELECT llm_resume_job('g_later');
	SET ROLE plain; SELECT llm_create_completion_job('g_plain', input => 'x', target_column => 'y'); INSERT INTO g_plain VALUES (1, 'one')});
ok(until_sql($node, q{SELECT (SELECT y = 'TWO' FROM g_later WHERE id = 150) AND (SELECT y = 'ONE' FROM g_plain)}), '... and without it, or of another owner, the job works');
# nor by the parent table of a partition, nor by a foreign key, whose action is mal's but not the AFTER
# triggers that follow it
sql(q{CREATE FUNCTION own.says() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN EXECUTE TG_ARGV[0]; RETURN NULL; END $$;
	ALTER SEQUENCE public.ran RESTART; SET ROLE mal;
	CREATE TABLE mal.parent (id int PRIMARY KEY, x text, y text) PARTITION BY RANGE (id);
	CREATE TRIGGER t AFTER UPDATE ON mal.parent FOR EACH ROW
		EXECUTE FUNCTION own.says($$SELECT nextval('public.ran')$$);
	RESET ROLE; CREATE TABLE g_part PARTITION OF mal.parent FOR VALUES FROM (0) TO (200);
	CREATE TABLE g_key (id int PRIMARY KEY, x text, y text UNIQUE); GRANT REFERENCES ON g_key TO mal;
	SELECT llm_create_completion_job('g_key', input => 'x', target_column => 'y', name => 'g_key');
	SET ROLE mal; CREATE TABLE mal.follows (y text REFERENCES g_key (y) ON UPDATE CASCADE); RESET ROLE;
	BEGIN; INSERT INTO g_key VALUES (1, NULL, 'old'); INSERT INTO mal.follows VALUES ('old'); COMMIT;
	SET ROLE mal; CREATE TRIGGER t AFTER UPDATE ON mal.follows FOR EACH ROW
		EXECUTE FUNCTION own.says($$SELECT nextval('public.ran')$$);
	RESET ROLE; UPDATE g_key SET x = 'one'});
($rc, $out, $err) = $node->psql('postgres',
	q{SELECT llm_create_completion_job('g_part', input => 'x', target_column => 'y')});
like($err, qr/ERROR:  role mal may make triggers on relation "parent"/, 'TRIGGER on its parent');
# the row may also have been checked, and counted as done, before it had an input
ok(until_sql($node, 'SELECT ' . ($node->pg_version < 18 ? q{state = 'failed'} : 'done > 0') . q{ FROM llm_jobs WHERE name = 'g_key'}),
	"a foreign key's action on a table with an AFTER trigger");
like(sql(q{SELECT last_error FROM llm_jobs WHERE name = 'g_key'}),
	qr/^42501: role mal may make triggers on relation "follows"/, '... says why')
	if $node->pg_version < 18;
is(sql('SELECT is_called FROM public.ran'), 'f', '... and nothing of it has run') if $node->pg_version < 18;
# an operator does not hide a function that a condition must not call
sql(q{CREATE TABLE w_hidden (id int PRIMARY KEY, x text, y text);
	SELECT llm_create_completion_job('w_hidden', input => 'x', target_column => 'y', name => 'w_hidden');
	GRANT ALL ON w_hidden TO mal; SET ROLE mal; SET check_function_bodies = off;
	CREATE FUNCTION mal.makes() RETURNS text LANGUAGE sql AS $$SELECT ('{a}'::mal.runner[])[1]::text$$;
	CREATE OPERATOR mal.!~! (RIGHTARG = oid, FUNCTION = pg_catalog.fmgr_sql_validator);
	DO $$BEGIN EXECUTE format('CREATE TRIGGER t BEFORE UPDATE ON w_hidden FOR EACH ROW
		WHEN ((OPERATOR(mal.!~!) %s::oid) IS NOT NULL) EXECUTE FUNCTION suppress_redundant_updates_trigger()',
		'mal.makes'::regproc::oid); END $$;
	RESET ROLE; REVOKE ALL ON w_hidden FROM mal});
jobs_fail('an operator in a condition',
	w_hidden => qr/^42501: the condition of trigger "t" uses operator mal\.!~!\(NONE,oid\), which belongs to/);
is(sql('SELECT is_called FROM public.ran'), 'f', '... has called nothing');
# a function that reads tables, in a condition: with the rows that only the owner may see
sql(q{CREATE TABLE w_stable (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('w_stable', input => 'x', target_column => 'y', name => 'w_stable');
	CREATE TRIGGER t BEFORE UPDATE ON w_stable FOR EACH ROW WHEN (llm_count_tokens(new.y) > 0) EXECUTE FUNCTION suppress_redundant_updates_trigger()});
jobs_fail("an extension's function in a condition", w_stable => qr/^42501: the condition of trigger "t" calls a function that is not immutable/);
# everything works with objects of one's own
sql(q{CREATE TABLE w_own (id int PRIMARY KEY, x text, y text, e own.e DEFAULT 'one', d own.fine DEFAULT 'd', v real[] DEFAULT '{1,2}');
	SELECT llm_create_completion_job('w_own', input => $$concat_ws(' ', own.definer(x), e, d, v, own.low(x), x::own.fine, to_json(own.out(x)), to_jsonb(ROW(x, d)), GREATEST(x, 'b'))$$,
		target_column => 'y', name => 'w_own'); INSERT INTO w_own VALUES (1, 'one')});
ok(until_sql($node, q{SELECT y IS NOT NULL FROM w_own}), "types and functions of one's own, and a SECURITY DEFINER function of another");
is(sql('SELECT y FROM w_own'), 'ONEMAL ONE D {1,2} ONE ONE {"A":"ONE","B":1} {"F1": "ONE", "F2": "D"} ONE', '... give what they should');

# ---- objects that replace the tables, while rows are in flight ---- Run a statement on the table, then one
# of mal's, while a row waits for its result.
sub swapped
{
	my ($what, $table, $old, $by_owner, $by_mal) = @_;
	sql(qq{CREATE SCHEMA IF NOT EXISTS app; CREATE TABLE $table (id int PRIMARY KEY, x text, y text);
		SELECT llm_create_completion_job('$table', '{x}', 'y', name => 'swapped'); INSERT INTO $table VALUES (1, 'one \@delay:2500')});
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
	q{CREATE TABLE docs2 AS SELECT 1 AS id, 'one @delay:2500'::text AS x, ''::text AS y; GRANT ALL ON docs2 TO PUBLIC;
	CREATE TRIGGER t BEFORE UPDATE ON docs2 FOR EACH ROW EXECUTE FUNCTION mal.fires()});
sql(q{SET ROLE mal; CREATE SCHEMA eapp; CREATE VIEW eapp.docs AS SELECT 1 AS id, mal.evil() AS x, ''::text AS y;
	CREATE TRIGGER t INSTEAD OF UPDATE ON eapp.docs FOR EACH ROW EXECUTE FUNCTION mal.fires(); GRANT USAGE ON SCHEMA eapp TO PUBLIC; GRANT ALL ON eapp.docs TO PUBLIC});
swapped('a schema takes the name', 'app.docs', 'app_v1.docs', 'ALTER SCHEMA app RENAME TO app_v1', 'ALTER SCHEMA eapp RENAME TO app');
# a dropped side table must not be replaced by another user's
sql(q{CREATE TABLE doc3 (id int PRIMARY KEY, x text); SELECT llm_create_embedding_job('doc3', input => 'x', target_table => 'public.side', name => 't_side');
	INSERT INTO doc3 VALUES (1, 'one @delay:2500')});
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

# ---- EXECUTE on the function ----
sql(q{SET ROLE alice; CREATE TABLE own (id int PRIMARY KEY, x text, y text); SELECT llm_create_completion_job('own', '{x}', 'y', name => 'own');
	INSERT INTO own VALUES (1, 'one')});
ok(until_sql($node, q{SELECT y = 'ONE' FROM own WHERE id = 1}), "a user's job works");
sql(q{DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = 'llm_generate' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$});
jobs_fail('the right to the function was revoked', own => qr/^42501: permission denied for function llm_generate/);
is(sql(q{SELECT y IS NULL FROM own WHERE id = 150}), 't', 'nothing was asked for');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
