# A real chat model, SmolLM2-135M-Instruct: tokens, greedy answers and typed results.
#
# The model isn't part of the repository; scripts/smollm2 installs it.  smollm2.txt has what transformers
# answers in float32 (tests/golden/gen_smollm2.py).  Rounding may change an answer where the two most probable
# tokens are nearly equal, and after that everything is another text.  So an answer must be the reference's up to
# its first difference, and there must be the reference's second token, whose logit is less by at most
# 0.01 without rounded activations, and 0.5 with activations of 8 bits.
#
# Nightly (TEST_EFFORT=3) runs all; other runs ask for four answers without rounded activations.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest qw(figure);

my $gguf = ($ENV{VLLM_PG_SMOLLM2} // '') . '/SmolLM2-135M-Instruct.Q4_1.gguf';
my $all = ($ENV{TEST_EFFORT} // 1) >= 3;
my %limits = (exact => 0.01, $all ? (rounded => 0.5) : ());
SKIP:
{
	skip 'SmolLM2-135M-Instruct is not installed (scripts/smollm2)', 1 + 2 * keys(%limits) + $all if !-r $gguf;

	my $node = PostgreSQL::Test::Cluster->new('smollm2');
	$node->init;
	$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
	$node->append_conf('postgresql.conf', "fsync = off\nvllm.kv_cache_memory_bytes = '128MB'\nvllm.default_params = '{\"temperature\": 0}'\n");
	$node->start;
	$node->safe_psql('postgres', "CREATE EXTENSION vllm_pg; SELECT llm_create_model('rounded', '$gguf');
		SELECT llm_create_model('exact', '$gguf', options => '{\"activation_scheme\": \"float\"}')");

	# four lines for each prompt
	my @lines = split /\n/, slurp_file('smollm2.txt');
	my @cases = map { [ @lines[ 4 * $_ .. 4 * $_ + 3 ] ] } 0 .. ($all ? @lines / 4 - 1 : 3);
	my $values = join(', ', map { "($_, \$j\$$cases[$_][0]\$j\$)" } 0 .. $#cases);
	$node->safe_psql('postgres', "CREATE TABLE chats (id int, chat json); INSERT INTO chats VALUES $values");
	is($node->safe_psql('postgres', q{SELECT array_to_string(llm_tokenize_chat(chat, model => 'exact'), ' ') FROM chats ORDER BY id}),
		join("\n", map { $_->[1] } @cases), 'the prompts have the tokens of SmolLM2\'s own tokenizer');

	for my $m (sort keys %limits)
	{
		my @got = split /\n/, $node->safe_psql('postgres', qq{
			SELECT array_to_string((llm_generate_full(llm_tokenize_chat(chat, model => 'exact'), max_tokens => 64, model => '$m')).token_ids, ' ')
			FROM chats ORDER BY id});
		my (@wrong, $equal, $worst);
		($equal, $worst) = (0, 0);
		for my $i (0 .. $#cases)
		{
			my @ours = split / /, $got[$i];
			my @best = split / /, $cases[$i][2];
			my @second = split / /, $cases[$i][3];
			my ($at) = grep { ($ours[$_] // -1) != $best[$_] } 0 .. $#best;
			$equal++ if !defined $at;
			next if !defined $at;
			my (undef, $token, $less) = split /:/, $second[$at];
			$worst = $less if $less > $worst;
			push @wrong, "chat $i, token $at: " . ($ours[$at] // 'none') . " in place of $best[$at], second $token, less by $less"
				if ($ours[$at] // -1) != $token || $less > $limits{$m};
		}
		is(scalar @got, scalar @cases, "$m: there are answers");
		is(join("\n", @wrong), '', "$m: the answers are the reference's up to rounding");
		figure('%s: %d of %d answers equal the reference, the others differ first where its tokens are at most %.4f apart', $m, $equal, scalar @cases, $worst);
	}

	# typed results: the cast fails if a text isn't one of the type
	if ($all)
	{
		is($node->safe_psql('postgres', q{
			CREATE TYPE mood AS ENUM ('calm', 'cross');
			CREATE DOMAIN short AS varchar(16) CHECK (length(VALUE) >= 1);
			CREATE TYPE mail AS (sender short, mood mood, amount numeric(6, 2), day date);
			SELECT count(m::text) FROM (SELECT llm_extract('Mail ' || g || ' of ' || (ARRAY['Anna', 'Peter', 'Maria', 'Tom', 'Kenji'])[g % 5 + 1]
				|| ', sent on 2025-03-' || lpad((g % 28 + 1)::text, 2, '0') || ': I paid ' || g * 3 || '.50 and ' ||
				(ARRAY['I am angry.', 'all is well.', 'nothing came.'])[g % 3 + 1], NULL::mail, model => 'rounded') AS m
			FROM generate_series(1, 50) g) s}), 50, '50 of 50 extracted rows are values of the type');
	}
	$node->stop;
}
done_testing();
