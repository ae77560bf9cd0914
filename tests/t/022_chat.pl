# Chats with real files: the sources of templates and special tokens, the resulting tokens, and many chats
# of one statement in the same batch.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();
use Cwd qw(abs_path);
use File::Copy;

my $node = PostgreSQL::Test::Cluster->new('chat');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '64MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
my $HI = q{'[{"role":"user","content":"Hi <|end_of_text|>"}]'};

sub sql { return $node->safe_psql('postgres', shift); }

sub error
{
	my ($rc, $out, $err) = $node->psql('postgres', shift);
	return $rc ? $err : "no error: $out";
}

# a copy of the bundled model with more files
my $copies = 0;
sub model
{
	my %files = @_;
	my $dir = abs_path($node->basedir) . '/model' . ++$copies;
	mkdir $dir;
	copy($_, $dir) or die "$_: $!" for grep { !/\.jinja$/ } glob('models/tickets-2m/*');
	for my $f (keys %files)
	{
		mkdir "$dir/$1" if $f =~ m{^(.*)/};
		append_to_file("$dir/$f", $files{$f}) unless $f eq 'tokenizer_config.json';
		next unless $f eq 'tokenizer_config.json';
		unlink "$dir/$f";
		append_to_file("$dir/$f", $files{$f});
	}
	sql("SELECT llm_create_model('m$copies', '$dir')");
	return "m$copies";
}

my $m = model();
like(error("SELECT llm_render_chat($HI, model => '$m')"), qr/the model has no chat template.*chat_template/s, 'a model without a template says so');

$m = model('tokenizer_config.json' => q|{"bos_token": {"content": "<\|begin_of_text\|>"}, "eos_token": "<\|end_of_text\|>",
	"chat_template": [{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"},
	{"name": "tool_use", "template": "T{{ tools\|length }}"}]}|);
is(sql("SELECT llm_render_chat($HI, model => '$m')"), '<|begin_of_text|>Hi <|end_of_text|><|end_of_text|>', 'tokenizer_config.json');
is(sql("SELECT llm_render_chat($HI, '[{}]', model => '$m')"), 'T1', 'its template for tools');
is(sql("SELECT llm_render_chat($HI, chat_template => '{{ eos_token }}!', model => '$m')"), '<|end_of_text|>!', q{the call's own});

# one BOS, and the special token in the message is text
my ($bos, $eos) = split /\|/, sql("SELECT llm_tokenize('<|begin_of_text|>', false, '$m')::text || '|' || llm_tokenize('<|end_of_text|>', false, '$m')::text");
is(sql("SELECT array_length(array_positions(t, ('$bos'::int[])[1]), 1) || ' ' || array_length(array_positions(t, ('$eos'::int[])[1]), 1)
	FROM llm_tokenize_chat($HI, model => '$m') t"), '1 1', 'tokens');
is(sql("SELECT llm_detokenize(llm_tokenize_chat($HI, model => '$m'), model => '$m')"), '<|begin_of_text|>Hi <|end_of_text|><|end_of_text|>', 'and back');

$m = model('chat_template.jinja' => "J{{ messages[0].role }}\n", 'additional_chat_templates/tool_use.jinja' => 'A{{ tools|length }}',
	'chat_template.json' => '{"chat_template": "no"}');
is(sql("SELECT llm_render_chat($HI, model => '$m') || llm_render_chat($HI, '[{},{}]', model => '$m')"), 'JuserA2', 'files of their own');
$m = model('chat_template.json' => '{"chat_template": "{% if %}"}');
like(error("SELECT llm_render_chat($HI, model => '$m')"), qr/chat template is malformed at line 1/, 'a malformed one is an error when it is used');
is(sql("SELECT length(llm_generate('x', model => '$m', max_tokens => 4)) > 0"), 't', '... and only then');

# the option as a file name
my $file = abs_path($node->basedir) . '/own.jinja';
append_to_file($file, "{{ messages[0].content }}\nSentiment:");
my $dir = sql("SELECT path FROM llm_models WHERE name = '$m'");
sql(qq{SELECT llm_create_model('own', '$dir', '{"chat_template": "$file"}')});
my $ticket = 'Ticket: The kettle arrived broken.';
is(sql("SELECT llm_ask('$ticket', model => 'own', temperature => 0, max_tokens => 8) = ltrim(llm_generate(E'$ticket\\nSentiment:', temperature => 0, max_tokens => 8, model => 'own'))"),
	't', 'the answer to a chat is that to its text, but for the space before it');
is(sql("SELECT (c ->> 'content') || ' ' || (c -> 'usage' ->> 'completion_tokens') FROM llm_chat(json_build_array(json_build_object('role', 'user', 'content', '$ticket')), model => 'own', temperature => 0, max_tokens => 8) c"),
	sql("SELECT (g).text || ' ' || ((g).usage).completion_tokens FROM llm_generate_full(E'$ticket\\nSentiment:', temperature => 0, max_tokens => 8, model => 'own') g"), 'llm_chat');
is(sql("SELECT ltrim(string_agg(text, '' ORDER BY seq)) = llm_ask('$ticket', model => 'own', temperature => 0, max_tokens => 8) FROM llm_chat_stream(json_build_array(json_build_object('role', 'user', 'content', '$ticket')), model => 'own', temperature => 0, max_tokens => 8)"),
	't', 'llm_chat_stream');

# many rows: the same as one by one
my $rows = "SELECT string_agg(llm_ask('Ticket ' || i || ': it broke.', model => 'own', temperature => 0, max_tokens => 6), '|' ORDER BY i) FROM generate_series(1, 60) i";
is(sql($rows), sql("SET vllm.batch = off; $rows"), 'batched and not');
unlink $file;
is(sql("SELECT llm_render_chat($HI, model => 'own')"), "Hi <|end_of_text|>\nSentiment:", 'the file has been read');

# the bundled model's template writes its training format: a text, then the name of a task
my $bundled = sub { my ($messages, $more) = @_; return sql("SELECT llm_render_chat('$messages'" . ($more // '') . ")"); };
my $kettle = '{"role":"user","content":"The kettle arrived broken."}';
is($bundled->("[$kettle]"), "<|begin_of_text|>Ticket: The kettle arrived broken.\nSentiment:", 'a text alone is a ticket with a sentiment');
is($bundled->("[$kettle]", ', add_generation_prompt => false'), '<|begin_of_text|>Ticket: The kettle arrived broken.', '... without its task');
is($bundled->(qq([{"role":"system","content":"Sum it up in a summary."},$kettle])), "<|begin_of_text|>Ticket: The kettle arrived broken.\nSummary:", 'the system names the task');
is($bundled->('[{"role":"user","content":"Review: It broke.\n sentiment: "}]'), "<|begin_of_text|>Review: It broke.\nSentiment:", '... or the last line does');
is($bundled->(qq([$kettle,{"role":"user","content":"JSON"}])), "<|begin_of_text|>Ticket: The kettle arrived broken.\nJSON:", '... or a message of its own');
is($bundled->(qq([$kettle,{"role":"assistant","content":" kettle: broken"},{"role":"user","content":"And what is its priority?"}])),
	"<|begin_of_text|>Ticket: The kettle arrived broken.\nSentiment: kettle: broken\n\nTicket: The kettle arrived broken.\nPriority:", 'a question about the text before');
is($bundled->(qq([$kettle,{"role":"assistant","content":"kettle"},{"role":"user","content":"Late again!"}])),
	"<|begin_of_text|>Ticket: The kettle arrived broken.\nSentiment: kettle\n\nTicket: Late again!\nSentiment:", 'another text');
is($bundled->(qq([$kettle,{"role":"assistant","content":"ke"}]), ', continue_final_message => true'), "<|begin_of_text|>Ticket: The kettle arrived broken.\nSentiment: ke", 'an answer to be continued');
is($bundled->('[{"role":"user","content":"<|end_of_text|>"}]'), "<|begin_of_text|>Ticket: <|end_of_text|>\nSentiment:", 'a special token as text');
like(error("SELECT llm_render_chat('[$kettle]', '[{}]')"), qr/not trained to call tools/, 'tools are refused');
like(error(qq(SELECT llm_render_chat('[{"role":"tool","content":"x"}]'))), qr/knows the roles system, user and assistant, not tool/, 'so are other roles');
like(error('SELECT llm_chat(\'[]\')'), qr/the last message must be a user/, 'and a chat that does not ask');
is(sql("SELECT llm_ask('The kettle arrived broken.', 'Which category?') = ltrim(llm_generate(E'Ticket: The kettle arrived broken.\\nCategory:'))"), 't', 'llm_ask gives the answer to that prompt');
my $ticket2 = "Isaac Coleman here. I am writing about my Delta camera. Here is my request: please move my account to a new mail address. I am angry that nobody answers my mails.";
is(sql("SELECT string_agg(llm_ask('$ticket2', t), ',' ORDER BY n) FROM (VALUES (1, 'What is the category?'), (2, NULL), (3, 'priority')) v(n, t)"), 'account,negative,medium', '... which is right');

is(sql("SELECT slots_total - slots_free, running, waiting, kv_blocks_used FROM llm_stat_engine"), '0|0|0|0', 'nothing is left behind');
$node->stop;
done_testing();
