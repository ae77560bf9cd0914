/*
 * test_spec_propose.c
 *	  The proposers without weights against plain searches: n-grams (the specification's vectors, and a
 *	  search over all positions), suffixes (counting positions), which owners share outputs, and what is
 *	  dropped.  And the object speculative_config.
 */
#include <string.h>

#include "tests/unit/check.h"
#include "base/alloc.h"
#include "core/spec/spec.h"

#define MAX_LEN	4096

typedef struct Proposing
{
	const ProposerType *type;
	SpecConfig	conf;
	SpecEnv		env;
	void	   *p;
} Proposing;

static uint64_t seed = 1;

static int
below(int n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int) ((seed >> 33) % (uint64_t) n);
}

static void
proposing_open(Proposing *a, const char *config)
{
	Err			e = {0};

	memset(a, 0, sizeof(*a));
	if (!spec_config_parse(config, &a->conf, &e))
	{
		fprintf(stderr, "%s: %s\n", config, e.msg);
		exit(2);
	}
	a->type = a->conf.type;
	a->env = (SpecEnv) {.conf = &a->conf, .max_seqs = 8, .max_rows = 64, .max_model_len = MAX_LEN,
						.n_valid = 300};
	if (!a->type->open(&a->env, &a->p, &e))
		exit(2);
}

static void
proposing_close(Proposing *a)
{
	a->type->close(a->p);
}

/* Return a request of n tokens, of which the first n_prompt are its prompt. */
static Req *
req_of(const int32_t *ids, int n, int n_prompt)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	intvec_add(&r->tokens, ids, (size_t) n);
	r->in.n_prompt = n_prompt;
	r->spec = mem_zalloc(sizeof(*r->spec));
	return r;
}

static void
req_end(Proposing *a, Req *r)
{
	a->type->forget(a->p, r);
	CHECK(r->spec->own == NULL, "something is left");
	intvec_free(&r->spec->drafts);
	mem_free(r->spec);
	intvec_free(&r->tokens);
	mem_free(r->in.params.cache_salt);
	mem_free(r);
}

static const IntVec *
drafts_of(Proposing *a, Req *r, int most)
{
	DraftRequest request = {r, most};

	intvec_reset(&r->spec->drafts);
	a->type->propose(a->p, &request, 1);
	CHECK((int) r->spec->drafts.len <= most, "%zu drafts, at most %d are wanted", r->spec->drafts.len, most);
	return &r->spec->drafts;
}

static void
expect(const char *label, const IntVec *got, const int32_t *want, int n)
{
	CHECK((int) got->len == n && (n == 0 || memcmp(got->data, want, (size_t) n * sizeof(int32_t)) == 0),
		  "%s: %zu drafts, %d ...", label, got->len, got->len > 0 ? got->data[0] : -1);
}

/* ---- n-grams ---- */

static void
golden(const char *config, const int32_t *ids, int n, int k, const int32_t *want, int n_want)
{
	Proposing	a;
	Req		   *r = req_of(ids, n, n);

	proposing_open(&a, config);
	expect(config, drafts_of(&a, r, k), want, n_want);
	req_end(&a, r);
	proposing_close(&a);
}

#define IDS(...) (const int32_t[]) {__VA_ARGS__}, (int) (sizeof((int32_t[]) {__VA_ARGS__}) / sizeof(int32_t))

static void
test_golden(void)
{
	const char *two_three = "{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"prompt_lookup_min\":2,"
							"\"prompt_lookup_max\":3}";
	const char *one_two = "{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"prompt_lookup_min\":1,"
						  "\"prompt_lookup_max\":2}";
	const char *one_three = "{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"prompt_lookup_min\":1,"
							"\"prompt_lookup_max\":3}";

	golden(two_three, IDS(1, 2, 3, 4, 2, 3), 4, IDS(4, 2, 3));
	golden(one_two, IDS(1, 2, 9, 1, 2, 8, 1, 2), 4, IDS(9, 1, 2, 8));
	golden(one_two, IDS(5, 6, 7), 4, NULL, 0);
	golden(one_three, IDS(5, 5, 5), 4, IDS(5));
	golden(one_three, IDS(5), 4, NULL, 0);
	golden(two_three, IDS(1, 2, 3, 4, 3), 4, NULL, 0);
}

/* The rule, by a search over all positions. */
static int
plain_ngram(const int32_t *ids, int len, int min, int max, int k, int32_t *out)
{
	for (int n = max; n >= min; n--)
		for (int at = 0; at + n < len; at++)
			if (len >= n && memcmp(ids + at, ids + len - n, (size_t) n * sizeof(int32_t)) == 0)
			{
				int			m = len - at - n < k ? len - at - n : k;

				memcpy(out, ids + at + n, (size_t) m * sizeof(int32_t));
				return m;
			}
	return 0;
}

static void
test_ngram(void)
{
	for (int round = 0; round < 300; round++)
	{
		int			min = 1 + below(4);
		int			max = min + below(5);
		int			vocab = 1 + below(round % 3 == 0 ? 200 : 5);
		int			n = 1 + below(60);
		int32_t		ids[2000];
		int32_t		want[SPEC_MAX_DRAFTS];
		char		config[160];
		Proposing	a;
		Req		   *r;

		snprintf(config, sizeof(config),
				 "{\"method\":\"ngram\",\"num_speculative_tokens\":8,\"prompt_lookup_min\":%d,"
				 "\"prompt_lookup_max\":%d}", min, max);
		proposing_open(&a, config);
		for (int i = 0; i < n; i++)
			ids[i] = below(vocab);
		r = req_of(ids, n, n);
		for (int step = 0; step < 60 && n < 1900; step++)
		{
			int			k = 1 + below(8);
			int			more = 1 + below(round % 10 == 0 ? 100 : 4);

			expect(config, drafts_of(&a, r, k), want, plain_ngram(ids, n, min, max, k, want));
			for (int i = 0; i < more && n < 2000; i++)
			{
				ids[n] = below(vocab);
				intvec_push(&r->tokens, ids[n++]);
			}
		}
		req_end(&a, r);
		proposing_close(&a);
	}
}

/* ---- suffixes ---- */

#define SUFFIX	"{\"method\":\"suffix\",\"suffix_decoding_max_tree_depth\":%d," \
				"\"suffix_decoding_max_spec_factor\":%g," \
	"suffix_decoding_min_token_prob\":%g,\"suffix_decoding_max_cached_requests\":%d}"

/* One of the texts in which suffixes are counted. */
typedef struct Text
{
	const int32_t *ids;
	int			n;
} Text;

/* Return the best score of any node: the rule, by counting. */
static double
plain_score(const Text *texts, int n_texts, const int32_t *last, int n_last, const SpecConfig *c, int most)
{
	double		best = 0;

	for (int d = 1; d < c->depth && d <= n_last; d++)
	{
		int			room = (int) (c->max_factor * d < most ? c->max_factor * d : most);
		const int32_t *at[600];
		int			left[600];
		int			n = 0;
		double		prob = 1;
		double		score = 0;

		room = c->depth - d < room ? c->depth - d : room;
		for (int t = 0; t < n_texts; t++)
			for (int i = d; i < texts[t].n; i++)
				if (memcmp(texts[t].ids + i - d, last - d, (size_t) d * sizeof(int32_t)) == 0)
				{
					at[n] = texts[t].ids + i;
					left[n++] = texts[t].n - i;
				}
		for (int k = 0; k < room && n > 0; k++)
		{
			int			top = 0;
			int			m = 0;
			int32_t		id = 0;

			for (int i = 0; i < n; i++)
			{
				int			same = 0;

				for (int j = 0; j < n; j++)
					same += *at[j] == *at[i];
				if (same > top)
				{
					top = same;
					id = *at[i];
				}
			}
			prob *= (double) top / n;
			if (prob < c->min_prob)
				break;
			score += prob;
			for (int i = 0; i < n; i++)
				if (*at[i] == id && left[i] > 1)
				{
					at[m] = at[i] + 1;
					left[m++] = left[i] - 1;
				}
			n = m;
		}
		best = score > best ? score : best;
	}
	return best;
}

/* Has this sequence of drafts followed the last tokens anywhere? */
static bool
is_path(const Text *texts, int n_texts, const int32_t *last, int n_last, const int32_t *drafts, int n)
{
	for (int t = 0; t < n_texts && n > 0; t++)
		for (int i = 1; i + n <= texts[t].n; i++)
			if (n_last > 0 && texts[t].ids[i - 1] == last[-1] &&
				memcmp(texts[t].ids + i, drafts, (size_t) n * sizeof(int32_t)) == 0)
				return true;
	return n == 0;
}

static void
test_suffix_own(void)
{
	for (int round = 0; round < 400; round++)
	{
		double		factor = round % 3 == 0 ? 1 : 0.5 + below(4);
		int32_t		ids[40];
		int			n = 2 + below(30);	/* at most as many positions as the proposer looks at */
		char		config[300];
		Text		text = {ids, n};
		Proposing	a;
		Req		   *r;
		const IntVec *d;

		snprintf(config, sizeof(config),
				 "{\"method\":\"suffix\",\"suffix_decoding_max_tree_depth\":%d,"
				 "\"suffix_decoding_max_spec_factor\":%g,\"suffix_decoding_min_token_prob\":%g,"
				 "\"suffix_decoding_max_cached_requests\":0}", 4 + below(21), factor, below(5) / 10.0);
		proposing_open(&a, config);
		for (int i = 0; i < n; i++)
			ids[i] = below(1 + round % 4);
		r = req_of(ids, n, n);
		d = drafts_of(&a, r, 8);
		CHECK(is_path(&text, 1, ids + n, n, d->data, (int) d->len), "%s: no path of the text", config);
		CHECK((d->len > 0) == (plain_score(&text, 1, ids + n, n, &a.conf, 8) > 0), "%s: %zu drafts, score %g",
			  config, d->len, plain_score(&text, 1, ids + n, n, &a.conf, 8));
		/* the proposed path is no worse than any node; if all positions agree, the length shows it */
		if (round % 4 == 0)
			CHECK((double) d->len >= plain_score(&text, 1, ids + n, n, &a.conf, 8) - 1e-9,
				  "%s: %zu drafts instead of %g", config, d->len,
				  plain_score(&text, 1, ids + n, n, &a.conf, 8));
		req_end(&a, r);
		proposing_close(&a);
	}
}

/* Add an output to a prompt of one token, as if the request ended. */
static void
answer(Proposing *a, uint64_t owner, const char *salt, const int32_t *ids, int n)
{
	Req		   *r = req_of(ids, n, 1);

	r->in.owner = owner;
	if (salt != NULL)
		r->in.params.cache_salt = mem_strdup(salt);
	drafts_of(a, r, 4);
	req_end(a, r);
}

static int
draft(Proposing *a, uint64_t owner, const char *salt, const int32_t *ids, int n, int most, int32_t *out)
{
	Req		   *r = req_of(ids, n, n);
	const IntVec *d;
	int			k;

	r->in.owner = owner;
	if (salt != NULL)
		r->in.params.cache_salt = mem_strdup(salt);
	d = drafts_of(a, r, most);
	k = (int) d->len;
	if (k > 0)
		memcpy(out, d->data, (size_t) k * sizeof(int32_t));
	/* only prompt: it must not be recorded */
	req_end(a, r);
	return k;
}

static void
test_suffix_answers(void)
{
	Proposing	a;
	int32_t		ids[400];
	int32_t		got[SPEC_MAX_DRAFTS];
	int			n;

	proposing_open(&a, "{\"method\":\"suffix\",\"num_speculative_tokens\":32,"
					   "\"suffix_decoding_max_cached_requests\":3}");
	for (int i = 0; i < 400; i++)
		ids[i] = 100 + i;
	answer(&a, 7, NULL, ids, 200);
	/* 12 equal tokens, 12 drafts: the best of 24; across the borders of chunks */
	for (int at = 13; at < 180; at += 7)
	{
		n = draft(&a, 7, NULL, ids, at, 32, got);
		CHECK(n == 12 && memcmp(got, ids + at, 12 * sizeof(int32_t)) == 0, "at %d: %d drafts", at, n);
	}
	n = draft(&a, 7, NULL, ids, 3, 32, got);
	CHECK(n == 3 && got[0] == ids[3], "3 same: %d drafts", n);
	n = draft(&a, 7, NULL, ids, 1, 32, got);
	CHECK(n == 1 && got[0] == ids[1], "behind the prompt: %d drafts", n);
	/* owners and salts are separate */
	CHECK(draft(&a, 8, NULL, ids, 50, 32, got) == 0, "another owner sees them");
	CHECK(draft(&a, 7, "x", ids, 50, 32, got) == 0, "another salt sees them");
	answer(&a, 7, "x", ids, 60);
	CHECK(draft(&a, 7, "x", ids, 40, 32, got) == 12 && draft(&a, 7, "y", ids, 40, 32, got) == 0, "salts");
	/* the more frequent one wins: 2 to 1 */
	for (int i = 0; i < 2; i++)
	{
		int32_t		other[] = {100, 101, 102, 55, 56, 57};

		answer(&a, 7, NULL, other, 6);
	}
	n = draft(&a, 7, NULL, ids, 3, 1, got);
	CHECK(n == 1 && got[0] == 55, "%d drafts, %d", n, n > 0 ? got[0] : -1);
	/* three requests later the first one is dropped */
	CHECK(draft(&a, 7, NULL, ids, 100, 32, got) == 0, "the oldest is still there");
	proposing_close(&a);

	proposing_open(&a, "{\"method\":\"suffix\",\"suffix_decoding_max_cached_requests\":0}");
	answer(&a, 7, NULL, ids, 200);
	CHECK(draft(&a, 7, NULL, ids, 50, 32, got) == 0, "nothing is remembered");
	proposing_close(&a);
}

/* While an output grows, other requests can use its beginning; and the ring wraps around. */
static void
test_suffix_ring(void)
{
	Proposing	a;
	int32_t		ids[3000];
	int32_t		got[SPEC_MAX_DRAFTS];
	Req		   *r;

	proposing_open(&a, "{\"method\":\"suffix\",\"num_speculative_tokens\":8}");
	for (int i = 0; i < 3000; i++)
		ids[i] = i * 7 % 5000 + 1;
	r = req_of(ids, 100, 1);
	drafts_of(&a, r, 4);
	CHECK(draft(&a, 0, NULL, ids, 50, 8, got) == 8 && got[0] == ids[50], "an answer in flight");
	r->tokens.len = 97;			/* all of it is recorded */
	req_end(&a, r);
	for (int round = 0; round < 120; round++)
	{
		for (int i = 0; i < 3000; i++)
			ids[i] = (i * 7 + round) % 5000 + 1;
		answer(&a, 0, NULL, ids, 3000);
		CHECK(draft(&a, 0, NULL, ids, 1500, 8, got) == 8 && memcmp(got, ids + 1500, 8 * sizeof(int32_t)) == 0,
			  "round %d", round);
	}
	proposing_close(&a);
}

/* ---- the object ---- */

static void
refused(const char *text, const char *why)
{
	SpecConfig	c;
	Err			e = {0};

	CHECK(!spec_config_parse(text, &c, &e) && c.type == NULL && strstr(e.msg, why) != NULL, "%s: %s", text,
		  e.msg);
}

static void
test_config(void)
{
	SpecConfig	c;
	Err			e = {0};

	CHECK(spec_config_parse("", &c, &e) && c.type == NULL, "empty");
	CHECK(spec_config_parse("null", &c, &e) && c.type == NULL, "null");
	CHECK(spec_config_parse("{\"method\":\"ngram\",\"num_speculative_tokens\":3}", &c, &e) &&
		  c.n_drafts == 3 && c.lookup_max == 5 && c.lookup_min == 5 && c.max_batch == 0, "%s", e.msg);
	CHECK(spec_config_parse("{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"prompt_lookup_max\":4,"
							"\"disable_by_batch_size\":8}", &c, &e) &&
		  c.lookup_max == 4 && c.lookup_min == 4 && c.max_batch == 8, "%s", e.msg);
	CHECK(spec_config_parse("{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"prompt_lookup_min\":2}", &c,
							&e) && c.lookup_max == 2 &&
		  c.lookup_min == 2, "%s", e.msg);
	CHECK(spec_config_parse("{\"method\":\"suffix\"}", &c, &e) && c.n_drafts == 24 && c.depth == 24 &&
		  c.max_cached == 10000 && c.max_factor == 1 && c.min_prob == 0.1, "%s", e.msg);
	refused("[]", "must be a JSON object");
	refused("{", "must be a JSON object");
	refused("{}", "must have a \"method\"");
	refused("{\"method\":\"magic\"}", "key \"method\" must be");
	refused("{\"method\":7}", "key \"method\" must be");
	refused("{\"method\":\"ngram\"}", "\"num_speculative_tokens\" must be given");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":0}",
			"\"num_speculative_tokens\" must be an integer between 1 and 32, got 0");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":2.5}", "\"num_speculative_tokens\"");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":\"5\"}", "\"num_speculative_tokens\"");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":33}", "\"num_speculative_tokens\"");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"prompt_lookup_min\":5,"
			"\"prompt_lookup_max\":2}", "\"prompt_lookup_min\" must be at most");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"disable_by_batch_size\":1}",
			"\"disable_by_batch_size\"");
	refused("{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"suffix_decoding_max_tree_depth\":4}",
			"does not apply to the method \"ngram\"");
	refused("{\"method\":\"suffix\",\"prompt_lookup_max\":4}", "does not apply to the method \"suffix\"");
	refused("{\"method\":\"suffix\",\"suffix_decoding_min_token_prob\":1.5}",
			"\"suffix_decoding_min_token_prob\" must be a number between 0 and 1");
	refused("{\"method\":\"suffix\",\"speed\":4}", "unknown speculative_config key \"speed\"");
}

/* The server checks the setting by the column "needs" of spec.def. */
static void
check_needs(const char *method, const char *needs)
{
	SpecConfig	c;
	Err			e = {0};
	char		text[200];
	bool		model = strcmp(needs, "MODEL") == 0;

	snprintf(text, sizeof(text), "{\"method\":\"%s\"%s%s}", method,
			 strcmp(needs, "TOKENS") == 0 ? ",\"num_speculative_tokens\":3" : "",
			 model ? ",\"model\":\"/x\"" : "");
	CHECK(spec_config_parse(text, &c, &e), "%s: %s", text, e.msg);
	CHECK(((c.type->flags & SPEC_WEIGHTS) != 0) == (model || strcmp(needs, "OWN") == 0), "%s", text);
	snprintf(text, sizeof(text), "{\"method\":\"%s\"}", method);
	CHECK(spec_config_parse(text, &c, &e) == (strcmp(needs, "NOTHING") == 0 || strcmp(needs, "OWN") == 0),
		  "%s", text);
}

static void
test_needs(void)
{
#define PROPOSER(symbol, needs) check_needs(#symbol, #needs);
#define PROPOSER_ALIAS(name, symbol) check_needs(#name, "OWN");
#include "core/spec/spec.def"
#undef PROPOSER
#undef PROPOSER_ALIAS
}

int
main(void)
{
	RUN(test_golden());
	RUN(test_ngram());
	RUN(test_suffix_own());
	RUN(test_suffix_answers());
	RUN(test_suffix_ring());
	RUN(test_config());
	RUN(test_needs());
	return check_done("spec_propose");
}
