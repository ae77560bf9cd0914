# A GGUF file without tensors is a model that only has a tokenizer, whatever its architecture: functions
# that need no weights work with it, through SQL.
use strict;
use warnings;
use Cwd qw(getcwd);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('tokenizer');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

# where the server's user can read it
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $file = "$dir/bert.gguf";
open(my $in, '<:raw', getcwd() . '/fixtures/tokenizers/bert.gguf') or die "no fixture: $!";
open(my $out, '>:raw', $file) or die;
print $out do { local $/; <$in> };
close($out);

$node->safe_psql('postgres', "SELECT llm_create_model('tok', '$file')");
my $ids = $node->safe_psql('postgres', q{SELECT llm_tokenize('The QUERY, please!', model => 'tok')});
like($ids, qr/^\{2,\d+(,\d+)+,3\}$/, 'tokenized, with [CLS] and [SEP]');
is($node->safe_psql('postgres', q{SELECT array_length(llm_tokenize('The QUERY, please!', model => 'tok'), 1) = llm_count_tokens('The QUERY, please!', 'tok')}),
	't', 'llm_count_tokens agrees');
is($node->safe_psql('postgres', "SELECT llm_detokenize('$ids', model => 'tok', skip_special_tokens => true)"), 'the query, please!',
	'and back');
is($node->safe_psql('postgres', q{SELECT llm_tokenize('', model => 'tok', add_special_tokens => false)}), '{}', 'nothing is no token');
is($node->safe_psql('postgres', q{SELECT state, arch, weight_bytes, parameters, kv_blocks_total FROM llm_models WHERE name = 'tok'}),
	'ready|tokenizer only|0|0|0', 'llm_models says so');

for my $sql (q{SELECT llm_generate('x', model => 'tok')}, q{SELECT llm_generate('x' || i, model => 'tok') FROM generate_series(1, 3) i})
{
	my ($rc, $o, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, qr/0A000: the model has a tokenizer, but no weights to generate with.*HINT:  .*llm_tokenize/s, 'generating is an error with a hint');
}
my ($rc, $o, $err) = $node->psql('postgres', q{SELECT llm_detokenize('{999999}', model => 'tok')});
like($err, qr/token id 999999 is out of range/, 'an id beyond the vocabulary');

$node->safe_psql('postgres', q{SELECT llm_unload_model('tok')});
is($node->safe_psql('postgres', q{SELECT llm_count_tokens('please', 'tok') > 2}), 't', 'it loads again');
is($node->safe_psql('postgres', q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
is($node->safe_psql('postgres', q{SELECT slots_total - slots_free, running, waiting FROM llm_stat_engine}), '0|0|0', 'nothing is left');
$node->safe_psql('postgres', q{SELECT llm_drop_model('tok')});
$node->stop;
done_testing();
