/*
 * logprobs_golden.c
 *	  Log-probabilities of continuations, and perplexities of texts, against transformers with
 *	  lm-evaluation-harness' rule for tokens (logprobs_golden.py).
 *
 * Texts take the whole path: loglikelihood_inputs.c, the core, a model.  All continuations of a prompt
 * are one request, which shares the prompt, and each is also a request of its own: the same bits.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/pooling/loglikelihood_inputs.h"

#include "golden_core.h"

#define LINES	"tests/golden/logprobs_golden.txt"
#define MAX_CHOICES 16

/* allowed difference of a sum, per token */
#define CLOSE	2e-4

typedef struct Line
{
	char		model[64];
	char		prompt[400];
	size_t		prompt_len;
	char		more[400];		/* "" = none: a perplexity */
	size_t		more_len;
	double		value;
	int			tokens;
	int			greedy;
} Line;

typedef struct Got
{
	ReqFinish	finish;
	Err			err;
	float		values[2000];
	int			counts[MAX_CHOICES];
	int			greedy[MAX_CHOICES];
	int			n;
} Got;

static KPool *pool;

static size_t
unhex(const char *s, char *out)
{
	size_t		n = 0;
	unsigned	c;

	for (; s[0] != '\0' && s[0] != '-' && sscanf(s, "%2x", &c) == 1; s += 2)
		out[n++] = (char) c;
	out[n] = '\0';
	return n;
}

static bool
read_line(FILE *f, Line *l)
{
	char		prompt[900],
				more[900];

	if (fscanf(f, "%63s %899s %899s %lf %d %d", l->model, prompt, more, &l->value, &l->tokens,
			   &l->greedy) != 6)
		return false;
	l->prompt_len = unhex(prompt, l->prompt);
	l->more_len = unhex(more, l->more);
	return true;
}

static void
take(void *ctx, Req *r, const ReqEvent *ev)
{
	Got		   *g = ctx;
	int			n = 0;

	(void) r;
	g->finish = ev->finish;
	if (ev->err != NULL)
		g->err = *ev->err;
	for (int i = 0; i < ev->n_rows; i++)
	{
		g->counts[i] = ev->counts[i];
		g->greedy[i] = ev->greedy[i];
		n += ev->counts[i];
	}
	g->n = ev->n_rows;
	memcpy(g->values, ev->values, (size_t) n * sizeof(float));
}

/* lines[0..n): of one prompt; n_choices = 0: its perplexity. */
static void
ask(Core *c, const Line *lines, int n_choices, Got *g)
{
	StrView		choices[MAX_CHOICES];
	PoolRequest pr = {.task = PT_LOGPROBS, .text = {lines[0].prompt, lines[0].prompt_len}, .choices = choices,
		.n_choices = n_choices, .add_special = true};
	ReqSpec		spec = {.id = 1, .sink = take, .sink_ctx = g, .pool = {.task = PT_LOGPROBS}};

	*g = (Got) {0};
	for (int i = 0; i < n_choices; i++)
		choices[i] = (StrView) {lines[i].more, lines[i].more_len};
	if (!choices_make(core_tok(c), core_info(c)->vocab_size, core_max_model_len(c), &pr, &spec.pool, &g->err))
	{
		poolspec_free(&spec.pool);
		return;
	}
	core_submit(c, &spec);
	while (core_has_work(c))
		core_step(c);
}

static void
check_perplexity(Core *c, const Line *l)
{
	Got			g;
	double		sum = 0;

	ask(c, l, 0, &g);
	CHECK(g.finish == FIN_STOP && g.counts[0] == l->tokens, "%s, \"%s\": %d tokens, not %d: %s", l->model,
		  l->prompt, g.counts[0], l->tokens, g.err.msg);
	for (int i = 0; i < g.counts[0]; i++)
		sum += g.values[i];
	CHECK(fabs(exp(-sum / l->tokens) / l->value - 1) < 2 * CLOSE, "%s, \"%s\": perplexity %.7g, not %.7g",
		  l->model, l->prompt, exp(-sum / l->tokens), l->value);
}

static void
check_prompt(Core *c, const Line *lines, int n)
{
	Got			all,
				one;
	int			at = 0;

	ask(c, lines, n, &all);
	CHECK(all.finish == FIN_STOP && all.n == n, "%s, \"%s\": %s", lines->model, lines->prompt, all.err.msg);
	for (int i = 0; i < all.n; i++)
	{
		const Line *l = &lines[i];
		double		sum = 0;

		ask(c, l, 1, &one);
		for (int k = 0; k < one.counts[0]; k++)
			sum += one.values[k];
		CHECK(one.counts[0] == l->tokens && one.greedy[0] == l->greedy,
			  "%s, \"%s\" + \"%s\": %d tokens, greedy %d, not %d, %d", l->model, l->prompt, l->more,
			  one.counts[0], one.greedy[0], l->tokens, l->greedy);
		CHECK(fabs(sum - l->value) < CLOSE * l->tokens, "%s, \"%s\" + \"%s\": %.7g, not %.7g", l->model,
			  l->prompt, l->more, sum, l->value);
		CHECK(all.counts[i] == one.counts[0] && all.greedy[i] == one.greedy[0] &&
			  memcmp(all.values + at, one.values, (size_t) one.counts[0] * sizeof(float)) == 0,
			  "%s, \"%s\" + \"%s\": beside others it differs", l->model, l->prompt, l->more);
		at += all.counts[i];
	}
}

int
main(void)
{
	static Line lines[MAX_CHOICES];
	Line		next;
	Core	   *c = NULL;
	FILE	   *f = fopen(LINES, "r");
	char		model[64] = "";
	int			n = 0;
	bool		more;

	pool = kpool_new(2);
	CHECK(f != NULL, LINES " is missing");
	for (more = f != NULL && read_line(f, &next); more || n > 0; more = more && read_line(f, &next))
	{
		/* the lines of a prompt are adjacent */
		if (n > 0 && (!more || strcmp(next.model, lines[0].model) != 0 || next.more_len == 0 ||
					  next.prompt_len != lines[0].prompt_len ||
					  memcmp(next.prompt, lines[0].prompt, next.prompt_len) != 0))
		{
			RUN(check_prompt(c, lines, n));
			n = 0;
		}
		if (!more)
			break;
		if (strcmp(next.model, model) != 0)
		{
			core_free(c);
			c = golden_core(next.model, pool, 256, 16);
			strcpy(model, next.model);
		}
		if (c == NULL)
			break;
		if (next.more_len == 0)
			RUN(check_perplexity(c, &next));
		else
			lines[n++] = next;
	}
	core_free(c);
	kpool_free(pool);
	if (f != NULL)
		fclose(f);
	return check_done("logprobs_golden");
}
