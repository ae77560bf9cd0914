/*
 * drafts_crowd.h
 *	  A mixed crowd of requests with drafters that have weights, and without: real models, tiny and
 *	  random.
 *
 * An includer sets pool, cwd, and on: the device that computes, with a pool of it.
 */
#ifndef VLLM_TESTS_UNIT_CORE_SPEC_DRAFTS_CROWD_H
#define VLLM_TESTS_UNIT_CORE_SPEC_DRAFTS_CROWD_H

#include <unistd.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "backend/drafter_loader.h"
#include "core/core_state.h"
#include "core/spec/spec.h"

#define DRAFTS	"build/fixtures/drafts/"
#define N_REQS	50
#define MOST	2				/* choices of one prompt */

typedef struct Seen
{
	Rec			rec;
	IntVec		ids[MOST];
} Seen;

static KPool *pool;
static const Dev *on;			/* NULL: the CPUs */
static int	n_reqs = N_REQS;
static char cwd[512];

static void
see(void *ctx, Req *r, const ReqEvent *ev)
{
	Seen	   *s = ctx;

	rec_sink(&s->rec, r, ev);
	intvec_add(&s->ids[ev->index], ev->ids, (size_t) ev->n_ids);
}

static uint64_t
mix(uint64_t a, uint64_t b)
{
	a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
	return a ^ a >> 29;
}

typedef struct Case
{
	const char *name;
	int			seqs;
	int			rows;
	int			blocks;
	int			chunk;
	bool		prefix;
	bool		cancels;
	bool		rests;
	bool		plain;			/* all requests have the same length, and no rules */
} Case;

/* Draft always, whether it pays or not. */
static const ProposerType *
always(const ProposerType *t)
{
	static ProposerType copy;

	copy = *t;
	copy.flags = (t->flags & ~SPEC_COSTLY) | SPEC_ALL;
	return &copy;
}

/* Make the target, and the drafter of the config unless that is "". */
static Core *
make(const char *target, const char *config, const Case *k)
{
	const Kernels *kernels = on != NULL ? on->k : kernels_select("auto", NULL);
	CoreOptions o = {
		.kernels = kernels, .pool = pool, .dev = on, .max_num_seqs = k->seqs,
		.max_num_batched_tokens = k->rows, .block_size = 16, .kv_blocks = k->blocks, .kv_type = KT_F32,
		.max_model_len = 160, .max_chunk = k->chunk, .prefix_caching = k->prefix
	};
	ModelOptions mo = {.kernels = kernels, .pool = pool, .dev = on, .max_rows = k->rows,
					   .max_model_len = 160};
	char		path[600];
	char		text[1400];
	Err			e = {0};
	Files	   *f;
	Source		source;
	ModelSource src;
	Model	   *m;
	Tok		   *tok;
	DraftFiles	df;
	Core	   *c = NULL;

	snprintf(path, sizeof(path), DRAFTS "%s", target);
	snprintf(text, sizeof(text), config, cwd);
	f = files_open(path, &e);
	CHECK(f != NULL && spec_config_parse(text, &o.spec, &e), "%s: %s", config, e.msg);
	source = (Source) {.files = f};
	src = source_of(&source);
	tok = source_tok(f, &e);
	mo.max_out = 1;
	m = model_new(files_conf(f), &src, &mo, &e);
	if (!draftfiles_open(&df, &o.spec, &source, model_info(m), tok, kernels, &e))
	{
		CHECK(false, "%s: %s (%s)", config, e.msg, e.detail);
		exit(1);
	}
	model_free(m);
	mo.max_out = core_max_logits(&o);
	m = model_new(files_conf(f), &src, &mo, &e);
	if (!draftfiles_load(&df, &o.spec, &mo, m, &o.drafter, &e))
		CHECK(false, "%s: %s", config, e.msg);
	if (o.spec.type != NULL)
		o.spec.type = always(o.spec.type);
	c = core_new(m, tok, files_conf(f), &o, &e);
	CHECK(c != NULL, "%s: %s", config, e.msg);
	draftfiles_close(&df);
	source_done(&source);
	files_close(f);
	return c;
}

/* Submit request i; the requests differ in all parameters. */
static void
issue(Core *c, int i, Seen *s, const Case *k)
{
	GenParams	p;
	ReqSpec		spec = {.id = (uint64_t) i + 1, .session = (uint64_t) i % 5, .sink = see, .sink_ctx = s,
						.stream = i % 3 == 0};
	uint64_t	given = GP(TEMPERATURE) | GP(MAX_TOKENS) | GP(TOP_K) | GP(TOP_P);
	Err			e;
	int			n = 3 + i * 13 % 60;

	genparams_init(&p);
	p.max_tokens = k->plain ? 30 : 1 + i * 7 % 50;
	p.temperature = i % 3 > 0 ? 0.5 + i % 5 * 0.3 : 0;
	p.has_seed = true;
	p.seed = 100 + i;
	p.ignore_eos = k->plain || i % 7 != 3;
	p.detokenize = false;
	if (i % 4 == 1)
		p.top_k = 20;
	if (i % 4 == 2)
		p.top_p = 0.8;
	if (!k->plain && i % 5 == 2)
		genparams_rules(&p)->repetition_penalty = 1.2;
	if (!k->plain && i % 8 == 7 && p.temperature > 0)
		p.out.n = MOST;
	if (!k->plain && i % 9 == 5)
		p.out.prompt_logprobs = 1;
	for (int j = 0; j < n; j++)
		intvec_push(&spec.prompt, 3 + (int32_t) (mix((uint64_t) (j < 40 ? i / 4 : i), (uint64_t) j) >> 33) %
					280);
	if (!core_normalize(c, &p, given, &spec.prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	/*
	 * all have the same class, whenever they come, so that the order of admissions doesn't depend on the
	 * time
	 */
	spec.stream = true;
	core_submit(c, &spec);
}

/* The drafter's weights can't be saved, and the target's saved weights can't be read any more. */
static bool
store_nothing(Drafter *d, const char *dir, Err *e)
{
	(void) d;
	(void) dir;
	for (int fd = 3; fd < 1000; fd++)
	{
		char		link[64];
		char		to[300];
		ssize_t		n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		if (strncmp(to, "/tmp/", 5) == 0 && strstr(to, "(deleted)") != NULL)
			CHECK(ftruncate(fd, 0) == 0, "%s", to);
	}
	return err_set(e, ERR_IO, "no room");
}

/* Sleep for a moment: blocks and weights are freed, with or without a file. */
static void
rest(Core *c, const char *target, const char *config, const Case *k, int how)
{
	Drafter    *d = c->opt.drafter;
	CoreStats	awake;
	CoreStats	asleep;
	Err			e = {0};
	bool		lost = false;

	core_stats(c, &awake);
	core_suspend(c, true);
	core_stats(c, &asleep);
	CHECK(awake.mem_other - asleep.mem_other == core_rows_memory(core_info(c), &c->opt) +
		  (d != NULL ? (int64_t) spec_memory(c->spec) : 0), "%s: asleep it has %lld bytes less", config,
		  (long long) (awake.mem_other - asleep.mem_other));
	if (how == 0 || d == NULL)
	{
		CHECK(core_save_weights(c, "/tmp", &lost, &e), "%s", e.msg);
		CHECK(core_check(c, &e), "%s", e.msg);
		CHECK(core_restore_weights(c, &e), "%s", e.msg);
	}
	else
	{
		Core	   *again = make(target, config, k);

		if (how == 1)
			core_drop_weights(c);
		else
		{
			bool		(*store) (Drafter *d, const char *dir, Err *e) = d->store;

			d->store = store_nothing;
			CHECK(!core_save_weights(c, "/tmp", &lost, &e) && lost && strcmp(e.msg, "no room") == 0,
				  "lost: %s", e.msg);
			d->store = store;
		}
		CHECK(core_check(c, &e), "%s", e.msg);
		CHECK(core_swap_weights(c, again, &e), "%s", e.msg);
		core_free(again);
	}
	core_resume(c, &(Err) {0});
}

static Seen *
run(const char *target, const char *config, const Case *k, CoreStats *st)
{
	Seen	   *s = mem_zalloc(N_REQS * sizeof(Seen));
	Core	   *c = make(target, config, k);
	uint64_t	rng = 5;
	int			next = 0;
	Err			e = {0};

	while (c != NULL && (next < n_reqs || core_has_work(c)))
	{
		rng = mix(rng, 3);
		for (uint64_t n = rng >> 40 & 3; n > 0 && next < n_reqs; n--, next++)
			issue(c, next, &s[next], k);
		if (k->rests && (rng >> 45 & 15) == 0)
			rest(c, target, config, k, (int) (rng >> 33 & 3) % 3);
		if (k->cancels && next > 0 && (rng >> 50 & 7) == 0)
			core_cancel(c, (rng >> 30) % (uint64_t) next + 1);
		core_step(c);
		if (!core_check(c, &e))
		{
			CHECK(false, "%s", e.msg);
			break;
		}
	}
	core_stats(c, st);
	core_free(c);
	return s;
}

static void
seen_free(Seen *s)
{
	for (int i = 0; i < N_REQS; i++)
	{
		rec_free(&s[i].rec);
		for (int k = 0; k < MOST; k++)
			intvec_free(&s[i].ids[k]);
	}
	mem_free(s);
}

static void
compare(const char *label, const Seen *want, const Seen *got)
{
	int			bad = 0;

	for (int i = 0; i < N_REQS; i++)
		for (int k = 0; k < MOST; k++)
		{
			const IntVec *a = &want[i].ids[k];
			const IntVec *b = &got[i].ids[k];
			bool		cut = want[i].rec.finish == FIN_ABORT || got[i].rec.finish == FIN_ABORT;
			size_t		n = a->len < b->len ? a->len : b->len;

			bad += (!cut && (a->len != b->len || want[i].rec.finish != got[i].rec.finish)) ||
				(n > 0 && memcmp(a->data, b->data, n * sizeof(int32_t)) != 0);
		}
	CHECK(bad == 0, "%s: %d answers differ", label, bad);
}

static const struct
{
	const char *target;
	const char *config;			/* %s = working directory */
	bool		itself;
}			methods[] = {
	{"target", "{\"method\": \"draft_model\", \"model\": \"%s/"
	 DRAFTS "target\", \"num_speculative_tokens\": 4}", true},
	{"target", "{\"model\": \"%s/" DRAFTS "target_mtp\", \"num_speculative_tokens\": 3, \"quantization\": "
										  "\"q8_0\"}", false},
	{"target", "{\"model\": \"%s/" DRAFTS "medusa_small\", \"draft_tensor_parallel_size\": 1}", false},
	{"target", "{\"method\": \"mlp_speculator\", \"model\": \"%s/" DRAFTS "mlp_tied\"}", false},
	{"target", "{\"model\": \"%s/" DRAFTS "eagle-llama\", \"num_speculative_tokens\": 5}", false},
	{"target", "{\"method\": \"eagle3\", \"model\": \"%s/" DRAFTS "eagle3\", \"num_speculative_tokens\": 3}",
	 false},
	{"target", "{\"model\": \"%s/" DRAFTS "eagle3_own\", \"num_speculative_tokens\": 2}", false},
	{"target_mtp", "{\"method\": \"mtp\"}", false},
	{"target_mimo", "{\"method\": \"mimo_mtp\"}", false},
	{"target_mtp", "{\"method\": \"glm4_moe_mtp\", \"num_speculative_tokens\": 3}", false}
};

#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

#endif
