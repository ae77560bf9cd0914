/*
 * test_beam.c
 *	  Beam search with a fake model whose logits are a hash of the tokens so far: against a plain search
 *	  that computes every hypothesis anew, in pools that preempt, with other requests; width 1 against
 *	  temperature 0; cancels in every state, errors.
 */
#include "tests/unit/core/answers_util.h"
#include "core/core_internal.h"

#define MAX_WIDTH 16

static KPool *pool;
static bool overlap;
static bool recurrent;

static Core *
new_core(int seqs, int rows, int blocks)
{
	CoreOptions opt = {
		.max_num_seqs = seqs, .max_num_batched_tokens = rows, .block_size = 16, .kv_blocks = blocks,
		.kv_type = KT_F32, .pool = pool, .overlap = overlap
	};
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c;

	fake.no_state = !recurrent;
	c = core_new(fake_model(512), tiny_tok(), conf, &opt, &e);
	conf_free(conf);
	CHECK(c != NULL, "%s", e.msg);
	return c;
}

static GenParams
beams(int width, int max_tokens, double penalty, bool ignore_eos)
{
	GenParams	p;

	genparams_init(&p);
	p.max_tokens = max_tokens;
	p.ignore_eos = ignore_eos;
	p.out.beam_width = width;
	p.out.length_penalty = penalty;
	return p;
}

/* ---- a plain search ---- */

typedef struct Hyp
{
	int32_t		ids[64];
	int			n;
	double		cum;
	double		score;
	ReqFinish	finish;
} Hyp;

typedef struct Plain
{
	Hyp			live[MAX_WIDTH];
	int			n_live;
	Hyp			done[4096];
	int			n_done;
} Plain;

static void
plain_done(Plain *s, Hyp h, int n_prompt, double penalty, ReqFinish finish)
{
	h.finish = finish;
	h.score = h.cum / pow((double) n_prompt + h.n, penalty);
	s->done[s->n_done++] = h;
}

/* Stable insertion sort. */
static void
plain_sort(Hyp *h, int n, bool by_score)
{
	for (int i = 1; i < n; i++)
	{
		Hyp			x = h[i];
		int			at = i;

		for (; at > 0 && (by_score ? h[at - 1].score < x.score : h[at - 1].cum < x.cum); at--)
			h[at] = h[at - 1];
		h[at] = x;
	}
}

static void
plain_search(Plain *s, const IntVec *prompt, const GenParams *p)
{
	static Hyp	next[MAX_WIDTH * 2 * MAX_WIDTH];
	int			width = p->out.beam_width;

	memset(s, 0, sizeof(*s));
	s->n_live = 1;
	for (int step = 0; step < p->max_tokens && s->n_live > 0; step++)
	{
		int			n = 0;

		for (int b = 0; b < s->n_live; b++)
		{
			IntVec		all = copy_of(prompt);
			float		x[FAKE_VOCAB];
			double		lp[FAKE_VOCAB];

			intvec_add(&all, s->live[b].ids, (size_t) s->live[b].n);
			textbook(all.data, (int) all.len, x, lp);
			intvec_free(&all);
			for (int k = 0; k < 2 * width; k++)
			{
				int			best = -1;
				Hyp			h = s->live[b];

				for (int i = 0; i < TINY_VOCAB; i++)
					if (x[i] > -INFINITY && (best < 0 || x[i] > x[best]))
						best = i;
				x[best] = -INFINITY;
				h.cum += (double) (float) lp[best];
				if (best == TINY_EOS && !p->ignore_eos)
				{
					plain_done(s, h, (int) prompt->len, p->out.length_penalty, FIN_STOP);
					continue;
				}
				h.ids[h.n++] = best;
				next[n++] = h;
			}
		}
		plain_sort(next, n, false);
		s->n_live = n < width ? n : width;
		memcpy(s->live, next, (size_t) s->n_live * sizeof(Hyp));
	}
	for (int b = 0; b < s->n_live; b++)
		plain_done(s, s->live[b], (int) prompt->len, p->out.length_penalty, FIN_LENGTH);
	plain_sort(s->done, s->n_done, true);
}

/* ---- the engine's against it ---- */

static void
compare(const Answers *got, const Plain *want, int width, const char *what)
{
	int			n = want->n_done < width ? want->n_done : width;
	int			bad = 0;

	CHECK(got->finish == FIN_STOP && got->n == n && got->late == 0, "%s: finish %d, %d answers, not %d, %s",
		  what, got->finish, got->n, n, got->err.msg);
	for (int i = 0; i < n && i < got->n; i++)
	{
		const Answer *a = &got->a[i];
		const Hyp  *h = &want->done[i];

		/* an empty output has no data to compare */
		bad += (int) a->ids.len != h->n ||
			(h->n > 0 && memcmp(a->ids.data, h->ids, a->ids.len * sizeof(int32_t)) != 0) ||
			fabs(a->cum - h->cum) > 1e-4 || fabs(a->score - h->score) > 1e-4 || a->ended != h->finish;
	}
	CHECK(bad == 0, "%s: %d answers differ", what, bad);
}

static void
test_one(Core *c, int width, int n_prompt, int max_tokens, double penalty, bool ignore_eos, const char *where)
{
	static Plain want;
	IntVec		prompt = random_prompt((uint32_t) (width * 100 + n_prompt), n_prompt);
	GenParams	p = beams(width, max_tokens, penalty, ignore_eos);
	Answers		got = {0};
	char		what[120];

	snprintf(what, sizeof(what), "%s: width %d, prompt %d, %d tokens, penalty %g", where, width, n_prompt,
			 max_tokens, penalty);
	plain_search(&want, &prompt, &p);
	answers_submit(c, 1, copy_of(&prompt), p, &got);
	answers_run(c, what);
	compare(&got, &want, width, what);
	CHECK(got.prompt_tokens == n_prompt && fake.bad_slots == 0, "%s: %d prompt tokens, %d slots", what,
		  got.prompt_tokens, fake.bad_slots);
	intvec_free(&prompt);
	answers_free(&got);
}

static void
test_parity(int seqs, int rows, int blocks, const char *where)
{
	static const double penalties[] = {1, 0, 2, -0.5};
	Core	   *c = new_core(seqs, rows, blocks);

	for (int i = 0; i < 4; i++)
	{
		/* the EOS is rarely or often among the most likely tokens */
		fake.bias_id = TINY_EOS;
		fake.bias = (float) (i % 3) * 3;
		test_one(c, 1, 5, 10, penalties[i], i == 1, where);
		test_one(c, 2, 16, 12, penalties[i], false, where);
		test_one(c, 4, 30, 20, penalties[i], i == 2, where);
		test_one(c, 8, 33, 9, penalties[i], false, where);
		test_one(c, 3, 1, 1, penalties[i], false, where);
		fake.bias = 0;
	}
	core_free(c);
}

/* Width 1 gives the same as temperature 0. */
static void
test_width1(void)
{
	Core	   *c = new_core(4, 64, 50);
	Answers		beam = {0};
	Answers		greedy = {0};
	GenParams	p;

	genparams_init(&p);
	p.temperature = 0;
	p.max_tokens = 25;
	p.ignore_eos = true;
	answers_submit(c, 1, random_prompt(3, 20), beams(1, 25, 1, true), &beam);
	answers_submit(c, 2, random_prompt(3, 20), p, &greedy);
	answers_run(c, "width 1");
	CHECK(beam.n == 1 && beam.a[0].ids.len == 25 && memcmp(beam.a[0].ids.data, greedy.a[0].ids.data,
														   25 * sizeof(int32_t)) == 0,
		  "%d answers", beam.n);
	CHECK(beam.a[0].text.len == greedy.a[0].text.len && memcmp(beam.a[0].text.data, greedy.a[0].text.data,
															   beam.a[0].text.len) == 0,
		  "texts differ");
	answers_free(&beam);
	answers_free(&greedy);
	core_free(c);
}

/* With other requests that come and go; all outputs equal those of a run alone. */
static void
test_crowd(void)
{
	static Plain want[3];
	Core	   *c = new_core(6, 32, 30);
	Answers		got[3] = {0};
	Answers		other[5] = {0};
	IntVec		prompts[3];

	for (int i = 0; i < 3; i++)
	{
		GenParams	p = beams(3 + i, 12, 1, false);

		prompts[i] = random_prompt((uint32_t) i + 70, 17 + 9 * i);
		plain_search(&want[i], &prompts[i], &p);
		answers_submit(c, (uint64_t) i + 1, prompts[i], p, &got[i]);
	}
	for (int i = 0; i < 5; i++)
	{
		GenParams	p;

		genparams_init(&p);
		p.max_tokens = 8 * i + 3;
		p.out.n = 1 + i;
		core_step(c);
		answers_submit(c, (uint64_t) i + 10, random_prompt((uint32_t) i, 20), p, &other[i]);
	}
	answers_run(c, "crowd");
	for (int i = 0; i < 3; i++)
	{
		compare(&got[i], &want[i], 3 + i, "crowd");
		answers_free(&got[i]);
	}
	for (int i = 0; i < 5; i++)
	{
		CHECK(other[i].finish != FIN_NONE && other[i].finish <= FIN_LENGTH, "request %d: finish %d", i,
			  other[i].finish);
		answers_free(&other[i]);
	}
	core_free(c);
}

static void
test_cancel(int after)
{
	Core	   *c = new_core(3, 16, 14);
	Answers		s = {0};
	Err			e = {0};

	answers_submit(c, 1, random_prompt(4, 30), beams(5, 30, 1, true), &s);
	for (int i = 0; i < after; i++)
		core_step(c);
	core_cancel(c, 1);
	core_step(c);
	CHECK(core_check(c, &e), "after %d steps: %s", after, e.msg);
	answers_run(c, "cancel");
	CHECK(s.finish == FIN_ABORT && s.late == 0, "after %d steps: %d", after, s.finish);
	answers_free(&s);
	core_free(c);
}

/*
 * Searches that take all seats, or nearly all blocks, for hundreds of steps: a new request gets its turn
 * after a bounded number of their rows, and they end nevertheless.
 */
static void
test_newcomer(int searches, int seqs, int blocks, bool background)
{
	Core	   *c = new_core(seqs, 64, blocks);
	Answers		s[4] = {0};
	int			steps = 0;

	for (int i = 0; i < searches; i++)
	{
		ReqSpec		spec = {.id = (uint64_t) i + 1, .session = (uint64_t) i,
							.prompt = random_prompt((uint32_t) i, 20), .sink = answers_sink,
							.sink_ctx = &s[i]};

		spec.by.background = background;
		spec.params = beams(4, 300, 1, true);
		atomic_fetch_add(&answers_open, 1);
		core_submit(c, &spec);
	}
	for (int i = 0; i < 30; i++)
		core_step(c);
	for (uint64_t id = 10; id < 13; id++)
	{
		ReqSpec		spec = {.id = id, .session = 9, .prompt = random_prompt(9, 40), .sink = answers_sink,
							.sink_ctx = &s[3]};

		genparams_init(&spec.params);
		spec.params.max_tokens = 5;
		atomic_fetch_add(&answers_open, 1);
		core_submit(c, &spec);
		for (; s[3].finish == FIN_NONE && steps < 3000; steps++)
			core_step(c);
		answers_free(&s[3]);
	}
	CHECK(steps < (recurrent ? 300 : 100), "%d searches, %d seats, %d blocks: three that come take %d steps",
		  searches, seqs, blocks, steps);
	CHECK(s[0].finish == FIN_NONE, "the search is over");
	answers_run(c, "newcomer");
	for (int i = 0; i < searches; i++)
	{
		CHECK(s[i].finish == FIN_STOP && s[i].n == 4, "search %d: %d", i, s[i].finish);
		answers_free(&s[i]);
	}
	core_free(c);
}

static void
test_nan(void)
{
	Core	   *c = new_core(4, 64, 50);
	IntVec		bad = random_prompt(1, 20);
	Answers		s = {0};

	bad.data[10] = FAKE_NAN;
	answers_submit(c, 1, bad, beams(3, 10, 1, false), &s);
	answers_run(c, "nan");
	CHECK(s.finish == FIN_ERROR && strstr(s.err.msg, "non-finite") != NULL, "finish %d, %s", s.finish,
		  s.err.msg);
	answers_free(&s);
	core_free(c);
}

/* Free the core with hypotheses in every state. */
static void
test_free(int after)
{
	Core	   *c = new_core(3, 16, 14);
	Answers		s[2] = {0};

	for (int i = 0; i < 2; i++)
		answers_submit(c, (uint64_t) i + 1, random_prompt((uint32_t) i, 20), beams(4, 30, 1, true), &s[i]);
	for (int i = 0; i < after; i++)
		core_step(c);
	core_free(c);
	for (int i = 0; i < 2; i++)
	{
		CHECK(s[i].finish == FIN_ABORT && s[i].late == 0, "request %d: finish %d", i, s[i].finish);
		answers_free(&s[i]);
	}
}

int
main(void)
{
	pool = kpool_new(2);
	for (int i = 0; i < 4; i++)
	{
		overlap = i % 2 == 1;
		recurrent = i >= 2;
		for (int k = 0; k < 6 && !overlap; k++)
			RUN(test_newcomer(1 + k / 2, 4, 400, k % 2 == 1));
		RUN(test_parity(8, 64, 100, "all at once"));
		RUN(test_parity(3, 16, 100, "three at once"));
		RUN(test_parity(8, 64, 8, "few blocks"));
		RUN(test_width1());
		RUN(test_crowd());
		for (int after = 0; after < 40; after++)
			RUN(test_cancel(after));
		RUN(test_nan());
		RUN(test_free(3));
		RUN(test_free(9));
	}
	kpool_free(pool);
	return check_done("beam");
}
