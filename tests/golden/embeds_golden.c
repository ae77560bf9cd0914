/*
 * embeds_golden.c
 *	  Prompts of embeddings that are not those of tokens, on small models against transformers
 *	  (embeds_golden.py), through the core.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#include "golden_core.h"

#define LINES	"tests/golden/embeds_golden.txt"
#define MAX_LINE (1 << 20)

static KPool *pool;

static void
take(void *ctx, Req *r, const ReqEvent *ev)
{
	(void) r;
	intvec_add(ctx, ev->ids, (size_t) ev->n_ids);
}

/* Compute the output's ids for n rows.  Takes ownership of the rows. */
static void
ask(Core *c, const char *name, float *rows, int n, int n_output, IntVec *ids)
{
	ReqSpec		spec = {.id = 1, .sink = take, .sink_ctx = ids, .embeds = rows};
	Err			e = {0};

	for (int i = 0; i < n; i++)
		intvec_push(&spec.prompt, 0);
	genparams_init(&spec.params);
	spec.params.temperature = 0;
	spec.params.max_tokens = n_output;
	spec.params.ignore_eos = true;
	CHECK(core_normalize(c, &spec.params, ~0u, &spec.prompt, &e), "%s: %s", name, e.msg);
	core_submit(c, &spec);
	while (core_has_work(c))
		core_step(c);
}

static void
run_line(char *line)
{
	char	   *name = strtok(line, " ");
	int			n = atoi(strtok(NULL, " "));
	int			width = atoi(strtok(NULL, " "));
	float	   *rows = mem_alloc((size_t) n * (size_t) width * sizeof(float));
	Core	   *c = golden_core(name, pool, 32, 8);
	IntVec		ids = {0};
	int			n_output;

	for (int i = 0; i < n * width; i++)
		rows[i] = strtof(strtok(NULL, " "), NULL);
	n_output = atoi(strtok(NULL, " "));
	if (c == NULL)
	{
		mem_free(rows);
		return;
	}
	CHECK(core_info(c)->embed_width == width, "%s: rows of %d", name, core_info(c)->embed_width);
	ask(c, name, rows, n, n_output, &ids);
	CHECK((int) ids.len == n_output, "%s: %zu tokens", name, ids.len);
	for (int i = 0; i < (int) ids.len; i++)
	{
		int			want = atoi(strtok(NULL, " "));

		CHECK(ids.data[i] == want, "%s, token %d: %d instead of %d", name, i, ids.data[i], want);
	}
	intvec_free(&ids);
	core_free(c);
}

int
main(void)
{
	FILE	   *f = fopen(LINES, "r");
	char	   *line = mem_alloc(MAX_LINE);
	int			n = 0;

	pool = kpool_new(2);
	while (f != NULL && fgets(line, MAX_LINE, f) != NULL)
		if (line[0] != '#')
		{
			run_line(line);
			n++;
		}
	CHECK(n >= 8, "%d models in " LINES, n);
	if (f != NULL)
		fclose(f);
	mem_free(line);
	kpool_free(pool);
	return check_done("embeds_golden");
}
