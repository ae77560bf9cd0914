/*
 * outputs_golden.c
 *	  Log-probabilities of tokens, and beam searches, on small models against transformers
 *	  (outputs_golden.py), through the core.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#include "golden_core.h"

#define LINES	"tests/golden/outputs_golden.txt"
#define MAX_RESULTS 8

/* allowed difference of a log-probability */
#define CLOSE	2e-4

typedef struct Got
{
	ReqFinish	finish;
	Err			err;
	int			n;				/* choices */
	IntVec		ids[MAX_RESULTS];
	ReqFinish	ended[MAX_RESULTS];
	double		score[MAX_RESULTS];
	double		cum[MAX_RESULTS];
	Logprobs   *lp;				/* of the prompt, then of the output */
} Got;

static KPool *pool;
static char model_name[64];
static Core *core;

static void
take(void *ctx, Req *r, const ReqEvent *ev)
{
	Got		   *g = ctx;
	int			i = ev->index < MAX_RESULTS ? ev->index : 0;

	(void) r;
	g->finish = ev->finish;
	if (ev->err != NULL)
		g->err = *ev->err;
	g->n = ev->index + 1;
	intvec_add(&g->ids[i], ev->ids, (size_t) ev->n_ids);
	g->ended[i] = ev->ended;
	g->score[i] = ev->score;
	g->cum[i] = ev->cum_logprob;
	if (ev->prompt_logprobs != NULL)
		logprobs_append(g->lp, ev->prompt_logprobs);
	if (ev->logprobs != NULL)
		logprobs_append(g->lp, ev->logprobs);
}

/* Takes ownership of the params. */
static void
ask(const IntVec *prompt, GenParams p, Got *g)
{
	ReqSpec		spec = {.id = 1, .sink = take, .sink_ctx = g};
	Err			e = {0};

	*g = (Got) {.lp = logprobs_new()};
	if (!core_normalize(core, &p, GP(TEMPERATURE) | GP(MAX_TOKENS), prompt, &e))
	{
		CHECK(false, "%s: %s", model_name, e.msg);
		return;
	}
	intvec_add(&spec.prompt, prompt->data, prompt->len);
	spec.params = p;
	core_submit(core, &spec);
	while (core_has_work(core))
		core_step(core);
	CHECK(g->finish == FIN_STOP || g->finish == FIN_LENGTH, "%s: %s", model_name, g->err.msg);
}

static void
got_free(Got *g)
{
	for (int i = 0; i < MAX_RESULTS; i++)
		intvec_free(&g->ids[i]);
	logprobs_free(g->lp);
}

static bool
read_ids(FILE *f, IntVec *v)
{
	int			n;
	int			id;

	v->len = 0;
	if (fscanf(f, "%d", &n) != 1)
		return false;
	while (n-- > 0 && fscanf(f, "%d", &id) == 1)
		intvec_push(v, id);
	return n < 0;
}

static bool
same(const IntVec *a, const IntVec *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len * sizeof(int32_t)) == 0;
}

/* Compare one "P" line with a position's entries. */
static int
check_position(FILE *f, const Logprob *e, int count)
{
	int			rank,
				k,
				bad;
	double		value;

	if (fscanf(f, " P %d %lf %d", &rank, &value, &k) != 3)
		return 1;
	bad = e[0].rank != rank || fabs(value - (double) e[0].value) > CLOSE || count != (rank <= k ? k : k + 1);
	for (int i = 1, at = 1; i <= k; i++)
	{
		int			id;

		if (fscanf(f, "%d %lf", &id, &value) != 2)
			return bad + 1;
		/* if they are equal up to rounding, two may be swapped */
		if (i == rank)
			bad += id != e[0].id;
		else
			bad += fabs(value - (double) e[at++].value) > CLOSE;
	}
	return bad;
}

static void
check_greedy(FILE *f)
{
	GenParams	p;
	IntVec		prompt = {0};
	IntVec		answer = {0};
	Got			g;
	int			bad = 0;
	size_t		at = 0;
	bool		ok = read_ids(f, &prompt) && read_ids(f, &answer);

	genparams_init(&p);
	p.temperature = 0;
	p.ignore_eos = true;
	p.max_tokens = (int) answer.len;
	p.out.logprobs = p.out.prompt_logprobs = 5;
	ask(&prompt, p, &g);
	CHECK(ok && same(&g.ids[0], &answer), "%s: the answer differs", model_name);
	CHECK(g.lp->counts.len == prompt.len + answer.len, "%s: %zu positions", model_name, g.lp->counts.len);
	for (size_t i = 1; i < g.lp->counts.len; i++)
	{
		bad += check_position(f, g.lp->e + at, g.lp->counts.data[i]);
		at += (size_t) g.lp->counts.data[i];
	}
	CHECK(bad == 0, "%s, prompt of %zu: %d entries differ", model_name, prompt.len, bad);
	got_free(&g);
	intvec_free(&prompt);
	intvec_free(&answer);
}

static void
check_beams(FILE *f)
{
	GenParams	p;
	IntVec		prompt = {0};
	IntVec		ids = {0};
	Got			g;
	int			ignore = 0,
				n = 0,
				bad = 0;
	bool		ok;

	genparams_init(&p);
	ok = fscanf(f, "%d %lf %d", &p.out.beam_width, &p.out.length_penalty, &ignore) == 3 &&
		read_ids(f, &prompt) && fscanf(f, "%d %d", &p.max_tokens, &n) == 2;
	p.ignore_eos = ignore != 0;
	ask(&prompt, p, &g);
	CHECK(ok && g.n == n, "%s: %d answers, not %d", model_name, g.n, n);
	for (int i = 0; i < n; i++)
	{
		double		score,
					cum;
		int			stopped;

		ok = fscanf(f, " R %lf %lf %d", &score, &cum, &stopped) == 3 && read_ids(f, &ids);
		bad += !ok || !same(&g.ids[i], &ids) || fabs(score - g.score[i]) > CLOSE ||
			fabs(cum - g.cum[i]) > 5 * CLOSE || (g.ended[i] == FIN_STOP) != (stopped != 0);
	}
	CHECK(bad == 0, "%s, prompt of %zu, width %d: %d of %d answers differ", model_name, prompt.len,
		  p.out.beam_width, bad, n);
	got_free(&g);
	intvec_free(&prompt);
	intvec_free(&ids);
}

int
main(void)
{
	FILE	   *f = fopen(LINES, "r");
	char		kind[8],
				name[64];

	CHECK(f != NULL, LINES);
	if (f == NULL)
		return check_done("outputs_golden");
	pool = kpool_new(2);
	while (fscanf(f, "%7s %63s", kind, name) == 2)
	{
		if (strcmp(name, model_name) != 0)
		{
			core_free(core);
			core = golden_core(name, pool, 32, 8);
			snprintf(model_name, sizeof(model_name), "%s", name);
			if (core == NULL)
				break;
		}
		if (kind[0] == 'G')
			RUN(check_greedy(f));
		else
			RUN(check_beams(f));
	}
	CHECK(feof(f), "the file is not read to its end");
	fclose(f);
	core_free(core);
	kpool_free(pool);
	return check_done("outputs_golden");
}
