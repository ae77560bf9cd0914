# Structured output in the real engine, through SQL: six random models of five vocabularies at temperature
# 1.5 with 50 schemas, 20 regular expressions and 10 grammars, 2,400 outputs, 960 of them without forced
# text.  All of them match unless they were cut: checked by llm_grammar_accepts, which compiles schemas for
# validation, by the cast to json, and by PostgreSQL's own regular expressions.  And: streams, forced text
# on and off, several choices, hostile specifications, and cancels while a grammar is compiled.
#
# With VLLM_STRUCTURED_OUT=FILE the outputs are written there, for tests/golden/structured_check.py, which
# checks them with Python's jsonschema, re and lark.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use FindBin;
use JSON::PP;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $json = JSON::PP->new->canonical->allow_nonref;
my $fixtures = getcwd() . '/fixtures';
my $top = PostgreSQL::Test::Utils::tempdir_short();

my @schemas = (
	'{"type":"null"}', '{"type":"boolean"}', '{"type":"integer"}', '{"type":"number"}', '{"type":"string"}', '{"type":"string","maxLength":5}',
	'{"type":"string","minLength":3,"maxLength":6}', '{"type":"string","pattern":"^[a-f]+[0-9]?$","maxLength":12}', '{"type":"string","format":"date"}',
	'{"type":"string","format":"uuid"}', '{"type":"string","format":"ipv4"}', '{"type":"string","format":"date-time"}',
	'{"type":"integer","minimum":10,"maximum":99}', '{"type":"integer","exclusiveMinimum":-3,"exclusiveMaximum":3}', '{"type":"number","minimum":0,"maximum":1}',
	'{"type":"integer","multipleOf":5,"minimum":0,"maximum":100}', '{"enum":["red","green","blue"]}', '{"enum":[1,"two",null,[3],{"four":4}]}',
	'{"const":{"a":[1,2,{"b":"c"}]}}', '{"type":["string","integer"],"maxLength":4}', '{"type":"array","items":{"type":"boolean"},"maxItems":4}',
	'{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":2,"maxItems":5}',
	'{"type":"array","prefixItems":[{"type":"integer","maximum":99,"minimum":0},{"enum":["x","y"]}],"items":false,"minItems":2}',
	'{"type":"array","items":{"type":"array","items":{"enum":[0,1]},"minItems":2,"maxItems":2},"minItems":1,"maxItems":3}',
	'{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}', '{"type":"object","properties":{"a":{"type":"boolean"}}}',
	'{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"null"}},"required":["b"],"additionalProperties":false}',
	'{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"]}',
	'{"type":"object","properties":{"first_name":{"const":"Ada"},"last_name":{"const":"Lovelace"},"born":{"type":"integer","minimum":1800,"maximum":1899}},"required":["first_name","last_name","born"]}',
	'{"type":"object","additionalProperties":{"type":"integer","minimum":0,"maximum":9},"maxProperties":2}',
	'{"type":"object","properties":{"k":{"enum":["circle","square"]}},"required":["k"],"additionalProperties":{"type":"boolean"},"maxProperties":3}',
	'{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","maxLength":3},"maxItems":3}},"required":["tags"]}',
	'{"type":"object","properties":{"o":{"type":"object","properties":{"p":{"type":"object","properties":{"q":{"type":"boolean"}},"required":["q"]}},"required":["p"]}},"required":["o"]}',
	'{"anyOf":[{"type":"boolean"},{"type":"null"},{"type":"string","maxLength":3}]}', '{"anyOf":[{"type":"object","properties":{"x":{"const":1}},"required":["x"]},{"type":"array","maxItems":1,"items":{"const":2}}]}',
	'{"oneOf":[{"type":"string","maxLength":4},{"type":"integer","minimum":0,"maximum":9}]}', '{"allOf":[{"type":"integer"},{"minimum":5},{"maximum":500}]}',
	'{"allOf":[{"type":"string","maxLength":6},{"pattern":"^[a-z]+$"}]}', '{"not":{"type":["object","array","string"]},"type":["boolean","null","integer"]}',
	'{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer","minimum":0,"maximum":9},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/n"}',
	'{"definitions":{"c":{"enum":["r","g","b"]}},"type":"array","items":{"$ref":"#/definitions/c"},"minItems":1,"maxItems":4}',
	'{"type":"object","properties":{"q":{"type":"string","pattern":"^(yes|no)$"},"w":{"type":"string","pattern":"^\\\\d{3}-\\\\d{2}$"}},"required":["q","w"]}',
	'{"type":"object","properties":{"p":{"type":"number","minimum":-1,"maximum":1},"n":{"type":["null","boolean"]}},"required":["p","n"]}',
	'{"type":"object","properties":{"\\u00e9t\\u00e9":{"type":"boolean"},"a b":{"const":"\\"\\\\"}},"required":["\\u00e9t\\u00e9","a b"]}',
	'{"type":"array","items":{"anyOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"boolean"}},"required":["t","v"]},{"type":"object","properties":{"t":{"const":"b"},"w":{"type":"null"}},"required":["t","w"]}]},"minItems":1,"maxItems":2}',
	'{"type":"object","properties":{"date":{"type":"string","format":"date"},"time":{"type":"string","format":"time"}},"required":["date"]}',
	'{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"dependentRequired":{"a":["b"]}}',
	'{"type":"object","patternProperties":{"^x_[a-z]{1,3}$":{"type":"boolean"}},"additionalProperties":false,"minProperties":1,"maxProperties":2}',
	'{"type":"array","contains":{"const":7},"items":{"type":"integer","minimum":0,"maximum":9},"minItems":1,"maxItems":4}', 'true');
# those with the same meaning in PostgreSQL and in Python, whose \d and \w are Unicode's
my @regexes = ('[a-z]{3,10}', '[0-9]{4}-[0-9]{2}-[0-9]{2}', '(yes|no|maybe)', '[A-Z][a-z]*( [A-Z][a-z]*){0,2}', '(0|[1-9][0-9]{0,3})(\.[0-9]{1,2})?', '#[0-9a-f]{6}',
	'(a|b)*abb', '([0-9]{1,3}\.){3}[0-9]{1,3}', '[^x]{1,12}', '(ab){2,5}c?', '[a-z0-9_]{1,8}@[a-z]{1,8}\.(com|org)', '[+-]?[0-9]+', '(foo|bar|baz){1,3}', 'x{0,20}y', '"[^"]{0,10}"',
	'\([0-9]{3}\) [0-9]{3}-[0-9]{4}', '[aeiou]+[^aeiou ]{1,3}', '(red|green|blue)(,(red|green|blue)){0,3}', '[01]{8}', 'v[0-9]+\.[0-9]+\.[0-9]+(-rc[0-9])?');
# a grammar, and a regular expression for the same language
my @grammars = (
	[ 'root ::= "a" "b"*', 'ab*' ], [ 'root ::= ("x" | "y"){2,4}', '(x|y){2,4}' ], [ 'root ::= num ("+" num){0,3}' . "\n" . 'num ::= [0-9]{1,3}', '[0-9]{1,3}([+][0-9]{1,3}){0,3}' ],
	[ 'root ::= greet " " name "!"' . "\n" . 'greet ::= "hello" | "bye"' . "\n" . 'name ::= [A-Z] [a-z]{1,6}', '(hello|bye) [A-Z][a-z]{1,6}!' ],
	[ 'root ::= "SELECT " col (", " col)* " FROM t"' . "\n" . 'col ::= "a" | "b" | "c"', 'SELECT [abc](, [abc])* FROM t' ],
	[ 'root ::= [^0-9]{1,8} "7"', '[^0-9]{1,8}7' ], [ 'start: "do" (" " WORD)+' . "\n" . 'WORD: /[a-z]{1,5}/', 'do( [a-z]{1,5})+' ],
	[ 'start: item ("," item)~0..3' . "\n" . 'item: "k" DIGIT' . "\n" . 'DIGIT: "0".."9"', 'k[0-9](,k[0-9]){0,3}' ],
	[ 'root ::= "(" root ")" | "x"', '[(]*x[)]*' ], [ 'root ::= "" | "[" root "]" root', '[\[\]]*' ]);

# A fixture's directory that the server's user can read.
sub model_copy
{
	my ($fixture) = @_;
	my $dir = "$top/$fixture";
	mkdir $dir or die;
	for my $f (glob "$fixtures/models/$fixture/*")
	{
		copy($f, $dir) or die "$f: $!";
	}
	return $dir;
}

# A model with another tokenizer: llama_f32 with 1,024 rows instead of each matrix with a row for each
# token: its own rows repeated, rotated by one element each time.
sub model_with_tokenizer
{
	my ($name, $eos) = @_;
	my $dir = "$top/$name";
	mkdir $dir or die;
	my $old = slurp_file("$fixtures/models/llama_f32/model.safetensors");
	my $n = unpack('Q<', $old);
	my $header = $json->decode(substr($old, 8, $n));
	my ($data, %new) = ('');
	for my $t (sort grep { $_ ne '__metadata__' } keys %$header)
	{
		my $h = $header->{$t};
		my ($from, $to) = @{ $h->{data_offsets} };
		my $bytes = substr($old, 8 + $n + $from, $to - $from);
		if ($h->{shape}[0] == 288)
		{
			my $width = length($bytes) / 288;
			$bytes = join '', map {
				my $row = substr($bytes, $width * ($_ % 288), $width);
				my $turn = 4 * int($_ / 288);
				substr($row, $turn) . substr($row, 0, $turn);
			} 0 .. 1023;
			$h->{shape}[0] = 1024;
		}
		$new{$t} = { dtype => $h->{dtype}, shape => $h->{shape}, data_offsets => [ length($data), length($data) + length($bytes) ] };
		$data .= $bytes;
	}
	my $head = $json->encode(\%new);
	my $config = $json->decode(slurp_file("$fixtures/models/llama_f32/config.json"));
	$config->{vocab_size} = 1024;
	$config->{eos_token_id} = $eos;
	my %files = ('model.safetensors' => pack('Q<', length($head)) . $head . $data, 'config.json' => $json->encode($config),
		'tokenizer.json' => slurp_file("$fixtures/tokenizers/$name.json"));
	for my $f (keys %files)
	{
		open my $fh, '>:raw', "$dir/$f" or die "$dir/$f: $!";
		print $fh $files{$f};
		close $fh;
	}
	return $dir;
}

my $node = PostgreSQL::Test::Cluster->new('structured');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nfsync = off\nstatement_timeout = '180s'\nvllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg; CREATE TABLE spec (id serial, kind text, spec text, same text)');

sub quote { my ($s) = @_; $s =~ s/'/''/g; return "'$s'"; }
$node->safe_psql('postgres', 'INSERT INTO spec (kind, spec, same) VALUES ' . join(', ',
	(map { "('schema', " . quote($_) . ', NULL)' } @schemas), (map { "('regex', " . quote($_) . ', ' . quote($_) . ')' } @regexes),
	(map { "('grammar', " . quote($_->[0]) . ', ' . quote($_->[1]) . ')' } @grammars)));
is($node->safe_psql('postgres', 'SELECT string_agg(kind || n, \' \' ORDER BY kind) FROM (SELECT kind, count(*) n FROM spec GROUP BY 1) s'), 'grammar10 regex20 schema50', 'what is asked for');

# ---- 2,400 outputs ----

my %models = (qwen2 => 'qwen2_bf16', llama => 'llama_f32');
my %dirs = map { ($_ => model_copy($models{$_})) } keys %models;
# bytes; SentencePiece's BPE and Unigram, which begin with a space and spell the rest in bytes; tokens of
# several words
my %end = (gpt2 => 0, llama2 => 2, unibytes => 2, superbpe => 0);
$dirs{$_} = model_with_tokenizer($_, $end{$_}) for keys %end;
$node->safe_psql('postgres', 'CREATE TABLE answer (model text, spec_id int, seed int, r llm_result)');
for my $m (sort keys %dirs)
{
	$node->safe_psql('postgres', qq{SELECT llm_create_model('$m', '$dirs{$m}');
		SELECT llm_create_model('${m}_plain', '$dirs{$m}', options => '{"jump_forward": false}')});
	for ([ $m, '1, 3' ], [ "${m}_plain", '4, 5' ])
	{
		my ($name, $seeds) = @$_;
		my $call = "llm_generate_full('a b', model => '$name', temperature => 1.5, max_tokens => 100, seed => s";
		$node->safe_psql('postgres', qq{
			INSERT INTO answer SELECT '$name', id, s, $call, json_schema => spec::json) FROM spec, generate_series($seeds) s WHERE kind = 'schema';
			INSERT INTO answer SELECT '$name', id, s, $call, regex => spec) FROM spec, generate_series($seeds) s WHERE kind = 'regex';
			INSERT INTO answer SELECT '$name', id, s, $call, grammar => spec) FROM spec, generate_series($seeds) s WHERE kind = 'grammar';
		});
	}
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM answer'), 2400, 'answers');
$node->safe_psql('postgres', q{
	CREATE FUNCTION is_json(t text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM t::json; RETURN true; EXCEPTION WHEN OTHERS THEN RETURN false; END $$;
	CREATE FUNCTION balanced(t text, o text, c text) RETURNS bool LANGUAGE sql AS $$ SELECT length(replace(t, o, '')) = length(replace(t, c, '')) $$;
	CREATE VIEW checked AS SELECT kind, spec, model, seed, (r).text, (r).finish_reason,
		CASE kind WHEN 'schema' THEN llm_grammar_accepts(spec::json, (r).text) AND is_json((r).text)
			ELSE (r).text ~ ('^(?:' || same || ')$') AND (spec NOT LIKE '%root ")"%' OR balanced((r).text, '(', ')')) AND (spec NOT LIKE '%root "]"%' OR balanced((r).text, '[', ']')) END AS fits
	FROM answer JOIN spec ON spec.id = spec_id});
my $wrong = $node->safe_psql('postgres', q{SELECT model, kind, spec, seed, text FROM checked WHERE finish_reason = 'stop' AND fits IS NOT TRUE LIMIT 10});
is($wrong, '', 'all answers that were not cut fit');
is($node->safe_psql('postgres', q{SELECT count(*) FROM checked WHERE finish_reason NOT IN ('stop', 'length')}), 0, 'all ended as stop or length');
my $cut = $node->safe_psql('postgres', q{SELECT count(*) FROM checked WHERE finish_reason = 'length'});
my $all = $node->safe_psql('postgres', 'SELECT count(*) FROM answer');
diag("figure: $cut of $all answers were cut");
cmp_ok($cut, '<', $all / 2, 'most are not cut');
cmp_ok($node->safe_psql('postgres', 'SELECT count(DISTINCT (spec_id, (r).text)) FROM answer'), '>', $all / 4, 'they differ');
if ($ENV{VLLM_STRUCTURED_OUT})
{
	my $rows = $node->safe_psql('postgres', q{SELECT json_build_object('kind', kind, 'spec', spec, 'text', text, 'finish', finish_reason) FROM checked});
	open my $fh, '>', $ENV{VLLM_STRUCTURED_OUT} or die $!;
	print $fh "$rows\n";
	close $fh;
}

# ---- one by one, streamed, several at once: the same ----

for my $m (sort keys %models)
{
	is($node->safe_psql('postgres', qq{SELECT count(*) FROM (SELECT * FROM answer JOIN spec ON id = spec_id WHERE kind = 'schema' AND model = '$m' AND seed = 1) a,
		LATERAL (SELECT string_agg(text, '') AS text FROM llm_generate_stream('a b', model => '$m', temperature => 1.5, max_tokens => 100, seed => 1, json_schema => spec::json)) s
		WHERE s.text IS DISTINCT FROM (r).text}), 0, "$m: streams say the same");
	is($node->safe_psql('postgres', qq{SELECT count(*) FROM (SELECT spec FROM spec WHERE kind = 'regex') s,
		LATERAL llm_completions('a b', n => 3, model => '$m', temperature => 1.5, max_tokens => 100, seed => 1, regex => spec) c
		WHERE c.text IS DISTINCT FROM (SELECT (r).text FROM answer JOIN spec ON id = spec_id WHERE spec.spec = s.spec AND model = '$m' AND seed = 1 + c.index)}), 0, "$m: several answers are those of their seeds");
}

# ---- forced text ----

my $steps = sub {
	my ($m) = @_;
	my $before = $node->safe_psql('postgres', 'SELECT steps FROM llm_stat_engine');
	my $text = $node->safe_psql('postgres', qq{SELECT llm_generate('a b', model => '$m', temperature => 1.5, seed => 3, max_tokens => 100, json_schema =>
		'{"type":"object","properties":{"a_long_name_of_a_member":{"type":"boolean"},"and_another_one_behind_it":{"const":"the only value there is"}},"required":["a_long_name_of_a_member","and_another_one_behind_it"]}',
		params => '{"structured_outputs":{"disable_any_whitespace":true}}')});
	my $after = $node->safe_psql('postgres', 'SELECT steps FROM llm_stat_engine');
	return ($text, $after - $before);
};
for my $m (sort keys %models)
{
	my ($with, $few) = $steps->($m);
	my ($without, $many) = $steps->("${m}_plain");
	is(keys %{ $json->decode($with) }, 2, "$m: an answer with forced text");
	is(keys %{ $json->decode($without) }, 2, "$m: and without");
	cmp_ok($few, '<', $many / 2, "$m: it takes few steps ($few instead of $many)");
}

# ---- hostile specifications, and cancels ----

my @hostile = (
	[ 'regex', '((((a{1000}){1000}){1000}){1000})*' ], [ 'regex', '(a*)*(b*)*(c|d)*(a|aa|aaa)*' x 200 ], [ 'regex', '(x+x+)+y' ], [ 'regex', '(' x 5000 . 'a' . ')' x 5000 ],
	[ 'regex', '\p{L}{1,1000}\p{N}{1,1000}(\w|\d){1,1000}' ], [ 'grammar', 'root ::= root root root | "a" | ""' ], [ 'grammar', 'root ::= root' ],
	[ 'grammar', join("\n", 'root ::= a0', map { "a$_ ::= a" . ($_ + 1) . ' a' . ($_ + 1) } 0 .. 60) . "\na61 ::= \"x\"" ],
	[ 'json_schema', '{"$defs":{' . join(',', map { "\"d$_\":{\"anyOf\":[{\"\$ref\":\"#/\$defs/d" . ($_ + 1) . "\"},{\"type\":\"array\",\"items\":{\"\$ref\":\"#/\$defs/d" . ($_ + 1) . "\"}}]}" } 0 .. 40) . ',"d41":{"type":"null"}},"$ref":"#/$defs/d0"}' ],
	[ 'json_schema', '{"properties":' x 3000 . '{}' . '}' x 3000 ], [ 'json_schema', '{"allOf":[' . join(',', map { "{\"anyOf\":[{\"required\":[\"a$_\"]},{\"required\":[\"b$_\"]}]}" } 1 .. 40) . ']}' ],
	[ 'json_schema', '{"enum":[' . join(',', map { "\"v$_\"" } 1 .. 90000) . ']}' ]);
my $pid = engine_pid($node);
for my $h (@hostile)
{
	my ($kind, $text) = @$h;
	my $sql = "SELECT length(llm_generate('a b', model => 'qwen2', max_tokens => 8, $kind => " . quote($text) . '))';
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => [ '-q' ]);
	like($rc == 0 ? '' : $err, qr/^$|ERROR:  (54000|22023|0A000)/, "$kind of " . length($text) . ' bytes: an answer or an error of its own');
}
for my $i (1 .. 6)
{
	my $regex = "(a|b$i)*" . 'c{1,900}(d|e)*\p{L}{1,99}' x (20 * $i);
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET statement_timeout = '${i}ms'; SELECT length(llm_generate('a b', model => 'qwen2', max_tokens => 50, regex => " . quote($regex) . '))');
	like($rc == 0 ? '' : $err, qr/^$|ERROR:  57014/, "cancelled, or done, after $i ms");
}
is(engine_pid($node), $pid, 'the engine has lived through it');
ok(until_sql($node, 'SELECT slots_total = slots_free AND running = 0 AND waiting = 0 AND kv_blocks_used = 0 FROM llm_stat_engine'), 'nothing is left behind');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');

$node->stop;
done_testing();
