/*
 * test_choices.c
 *	  A prompt and its continuations as tokens: where the boundary is, tokens that cross it, white space,
 *	  added tokens, and errors.  What lm-evaluation-harness makes of the same texts:
 *	  tests/golden/logprobs_golden.c.
 */
#include <limits.h>

#include "base/alloc.h"
#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "backend/pooling/loglikelihood_inputs.h"
#include "tests/unit/tok_util.h"

#define MAX_LEN 64

static StrView
text(const char *s)
{
	return (StrView) {s, strlen(s)};
}

/* n = 0: no continuations */
static bool
make(const Tok *t, const char *prompt, const char *const *choices, int n, PoolSpec *out, Err *e)
{
	StrView		c[8];
	PoolRequest pr = {.task = PT_LOGPROBS, .text = text(prompt), .choices = c, .n_choices = n,
					  .add_special = true};

	for (int i = 0; i < n; i++)
		c[i] = text(choices[i]);
	*out = (PoolSpec) {.task = PT_LOGPROBS};
	return choices_make(t, tok_vocab_size(t), MAX_LEN, &pr, out, e);
}

/* Load a fixture, with this tokenizer_config.json. */
static Tok *
load(const char *name, const char *config)
{
	char		path[256];
	Buf			b = {0};
	Err			e = {0};
	Tok		   *t = NULL;

	snprintf(path, sizeof(path), FIXTURES "%s.json", name);
	if (read_file(path, &b))
		t = tok_from_hf(b.data, b.len, config, strlen(config), &e);
	CHECK(t != NULL, "%s: %s", path, e.msg);
	buf_free(&b);
	return t;
}

/*
 * Encode with the tokens that the tokenizer adds at the beginning, and without the EOS that it may add
 * at the end.
 */
static IntVec
encode(const Tok *t, const char *s, unsigned flags)
{
	IntVec		v = {0};
	Err			e = {0};

	CHECK(tok_encode(t, s, strlen(s), flags, &v, &e), "%s", e.msg);
	if (v.len > 0 && v.data[v.len - 1] == tok_eos(t))
		v.len--;
	return v;
}

/* Check that prompt and each choice give the tokens of the whole text, cut at token `at`. */
static void
check_choices(const Tok *t, const char *prompt, const char *const *choices, int n, int at)
{
	PoolSpec	spec;
	Err			e = {0};
	bool		ok = make(t, prompt, choices, n, &spec, &e);

	CHECK(ok && spec.n_seqs == n && spec.join == (n > 1 ? PJ_CHOICES : PJ_ONE), "\"%s\": %s", prompt, e.msg);
	for (int i = 0; ok && i < n; i++)
	{
		char		whole[500];
		IntVec		want,
					got = {0};

		snprintf(whole, sizeof(whole), "%s%s", prompt, choices[i]);
		want = encode(t, whole, TOK_ADD_SPECIAL);
		intvec_add(&got, spec.prompt.data, spec.prompt.len);
		intvec_add(&got, spec.seqs[i].ids.data, spec.seqs[i].ids.len);
		CHECK(same_ids(&want, &got), "\"%s\": %zu tokens, not %zu", whole, got.len, want.len);
		CHECK((int) spec.prompt.len + spec.seqs[i].scored_at == at,
			  "\"%s\": scored from token %zu + %d on, not %d", whole, spec.prompt.len, spec.seqs[i].scored_at,
			  at);
		intvec_free(&want);
		intvec_free(&got);
	}
	poolspec_free(&spec);
}

#define CHOICES(t, prompt, at, ...) \
	do { \
		static const char *const list_[] = {__VA_ARGS__}; \
		check_choices(t, prompt, list_, (int) (sizeof(list_) / sizeof(list_[0])), at); \
	} while (0)

static int
n_tokens(const Tok *t, const char *s)
{
	IntVec		v = encode(t, s, TOK_ADD_SPECIAL);
	int			n = (int) v.len;

	intvec_free(&v);
	return n;
}

static void
check_refused(const Tok *t, const char *prompt, const char *const *choices, int n, ErrClass cls,
			  const char *msg)
{
	PoolSpec	spec;
	Err			e = {0};

	CHECK(!make(t, prompt, choices, n, &spec, &e) && e.cls == cls && strstr(e.msg, msg) != NULL, "\"%s\": %s",
		  prompt, e.msg);
	poolspec_free(&spec);
}

/* Byte-level BPE without a BOS of its own. */
static void
test_bpe(void)
{
	static const char *const empty[] = {"a", ""},
				*const one[] = {"b"};
	Tok		   *t = load("gpt2", "{\"bos_token\": \"<|end|>\", \"eos_token\": \"<|end|>\"}");
	int			n = n_tokens(t, "The answer is");
	char		longer[400];

	CHOICES(t, "The answer is", n, " yes", " no", " it depends");
	CHOICES(t, "The answer is", n, " yes");
	/* a space at the prompt's end begins the first token of the continuation */
	CHOICES(t, "The answer is ", n, "yes", "no", "it depends");
	CHOICES(t, "The answer is\n", n, "yes", "no");
	/* only white space before the choice: a first token is added */
	{
		static const char *const words[] = {"the", "of"};
		PoolSpec	spec;
		Err			e = {0};

		CHECK(make(t, " ", words, 2, &spec, &e) && spec.prompt.len == 1 &&
			  tok_is_special(t, spec.prompt.data[0]), "%s", e.msg);
		poolspec_free(&spec);
		CHECK(make(t, "", words, 1, &spec, &e) && spec.seqs[0].scored_at == 1 &&
			  tok_is_special(t, spec.seqs[0].ids.data[0]), "%s", e.msg);
		poolspec_free(&spec);
	}
	check_refused(t, "x", empty, 2, ERR_INVALID, "must not be empty");
	memset(longer, 'a', sizeof(longer));
	for (int i = 0; i < 399; i += 2)
		longer[i] = ' ';
	longer[399] = '\0';
	check_refused(t, longer, one, 1, ERR_TOO_LONG, "does not fit the maximum model length of 64");
	check_refused(t, longer, NULL, 0, ERR_TOO_LONG, "does not fit the maximum model length of 64");
	check_refused(t, "", NULL, 0, ERR_INVALID, "input must not be empty");
	check_refused(t, "a", NULL, 0, ERR_INVALID, "input has one token");
	tok_free(t);
}

/* If one continuation's token begins in the prompt, all are scored from there. */
static void
test_across(void)
{
	Tok		   *t = load("gpt2", "{\"bos_token\": \"<|end|>\", \"eos_token\": \"<|end|>\"}");
	IntVec		ab = encode(t, "x th", 0),
				abc = encode(t, "x the", 0);
	int			same = 0;

	while ((size_t) same < ab.len && ab.data[same] == abc.data[same])
		same++;
	CHECK(same < (int) ab.len, "\"the\" is no token of its own");
	CHOICES(t, "x th", same, "e", "q");
	CHOICES(t, "x th", same, "e");
	CHOICES(t, "x th", (int) ab.len, "q", "z");
	intvec_free(&ab);
	intvec_free(&abc);
	tok_free(t);
}

/* SentencePiece: a BOS at the beginning, a space before the first word. */
static void
test_bos(void)
{
	Tok		   *t = load("llama2", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
	PoolSpec	spec;
	Err			e = {0};
	int			n = n_tokens(t, "The answer is");

	CHOICES(t, "The answer is", n, " yes", " no");
	CHOICES(t, "The answer is ", n, "yes", "no");
	CHOICES(t, "", 1, "yes", "no");
	CHECK(make(t, "a", NULL, 0, &spec, &e) && spec.seqs[0].scored_at == 1 &&
		  (int) spec.seqs[0].ids.len == n_tokens(t, "a") && spec.seqs[0].ids.data[0] == tok_bos(t),
		  "BOS is the first token: %s", e.msg);
	poolspec_free(&spec);
	tok_free(t);
}

/* Text of a template: marks allow special tokens in parts of it only, and no tokens are added. */
static void
test_marks(void)
{
	Tok		   *t = load("llama2", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
	const char *rendered = "<s>[INST]<s>[/INST]\n";
	uint8_t		marks[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};	/* the user's <s> */
	StrView		choices[] = {text("<s>"), text("Yes")};
	PoolRequest pr = {.task = PT_LOGPROBS, .text = text(rendered), .marks = marks, .choices = choices,
					  .n_choices = 2,
		.add_special = true};
	PoolSpec	spec = {.task = PT_LOGPROBS};
	Err			e = {0};
	IntVec		yes = encode(t, "a\nYes", 0),
				before = encode(t, "a\n", 0);
	int			bos = 0;

	CHECK(choices_make(t, tok_vocab_size(t), MAX_LEN, &pr, &spec, &e), "%s", e.msg);
	for (size_t i = 0; i < spec.prompt.len; i++)
		bos += spec.prompt.data[i] == tok_bos(t);
	for (int c = 0; c < 2; c++)
		for (size_t i = 0; i < spec.seqs[c].ids.len; i++)
			bos += spec.seqs[c].ids.data[i] == tok_bos(t);
	CHECK(bos == 1 && spec.prompt.data[0] == tok_bos(t) && spec.seqs[0].ids.len > 1, "%d times BOS", bos);
	/* the template's own newline does not belong to the choice */
	CHECK(spec.seqs[1].ids.len == yes.len - before.len, "%zu tokens of \"Yes\"", spec.seqs[1].ids.len);
	intvec_free(&yes);
	intvec_free(&before);
	poolspec_free(&spec);
	tok_free(t);
}

static void
test_ids(void)
{
	Tok		   *t = load("gpt2", "{\"bos_token\": \"<|end|>\", \"eos_token\": \"<|end|>\"}");
	PoolRequest pr = {.task = PT_LOGPROBS, .add_special = true};
	PoolSpec	spec = {.task = PT_LOGPROBS};
	Err			e = {0};

	for (int i = 0; i < 5; i++)
		intvec_push(&pr.ids, i + 5);
	CHECK(choices_make(t, tok_vocab_size(t), MAX_LEN, &pr, &spec, &e) && spec.seqs[0].ids.len == 5 &&
		  spec.seqs[0].scored_at == 1, "%s", e.msg);
	poolspec_free(&spec);
	pr.ids.data[2] = tok_vocab_size(t);
	CHECK(!choices_make(t, tok_vocab_size(t), MAX_LEN, &pr, &spec, &e) &&
		  strstr(e.msg, "is not in the vocabulary") != NULL, "%s", e.msg);
	poolspec_free(&spec);
	intvec_free(&pr.ids);
	tok_free(t);
}

int
main(void)
{
	RUN(test_bpe());
	RUN(test_across());
	RUN(test_bos());
	RUN(test_marks());
	RUN(test_ids());
	return check_done("choices");
}
