/*
 * golden.h
 *	  The reference of a model for a prompt (models_expected; written by gen_models.py and gen_archs.py).
 */
#ifndef VLLM_TESTS_GOLDEN_H
#define VLLM_TESTS_GOLDEN_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

#define EXPECTED "tests/golden/models_expected/"
#define MAX_TOKENS 384
#define MAX_ROWS 256			/* of a prompt */

typedef struct Golden
{
	int32_t		n_prompt;
	int32_t		n_pos;
	int32_t		vocab;
	int32_t		n_greedy;
	int32_t    *prompt;
	int32_t    *pos;
	int32_t    *greedy;
	float	   *logits;			/* [n_pos][vocab] */
} Golden;

static inline bool
read_ints(FILE *f, int32_t **out, int n)
{
	*out = mem_alloc((size_t) n * sizeof(int32_t));
	return fread(*out, sizeof(int32_t), (size_t) n, f) == (size_t) n;
}

static inline bool
golden_read(const char *name, const char *suffix, Golden *g)
{
	char		path[256];
	FILE	   *f;
	size_t		n;
	bool		ok;

	memset(g, 0, sizeof(*g));
	snprintf(path, sizeof(path), EXPECTED "%s%s.bin", name, suffix);
	if ((f = fopen(path, "rb")) == NULL)
		return false;
	ok = fread(g, sizeof(int32_t), 4, f) == 4 && g->n_prompt <= MAX_ROWS &&
		g->n_prompt + g->n_greedy <= MAX_TOKENS && read_ints(f, &g->prompt, g->n_prompt) &&
		read_ints(f, &g->pos, g->n_pos) && read_ints(f, &g->greedy, g->n_greedy);
	n = (size_t) g->n_pos * (size_t) g->vocab;
	g->logits = mem_alloc(n * sizeof(float));
	ok = ok && fread(g->logits, sizeof(float), n, f) == n;
	fclose(f);
	return ok;
}

static inline void
golden_free(Golden *g)
{
	mem_free(g->prompt);
	mem_free(g->pos);
	mem_free(g->greedy);
	mem_free(g->logits);
}

/*
 * Filter for scandir(): NAME.bin, but not NAME_int8.bin, NAME_bf16.bin, NAME_fp8.bin, NAME_dynamic.bin and
 * NAME_static.bin, which are other expectations of the same model.
 */
static inline int
golden_is_model(const struct dirent *d)
{
	static const char *const others[] = {"_int8", "_bf16", "_fp8", "_dynamic", "_static"};
	char		stem[300];
	size_t		n = strlen(d->d_name);

	if (n < 5 || strcmp(d->d_name + n - 4, ".bin") != 0)
		return 0;
	n -= 4;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
	{
		struct stat st;
		size_t		m = strlen(others[i]);

		if (n <= m || strncmp(d->d_name + n - m, others[i], m) != 0)
			continue;
		snprintf(stem, sizeof(stem), EXPECTED "%.*s.bin", (int) (n - m), d->d_name);
		if (stat(stem, &st) == 0)
			return 0;
	}
	return 1;
}

#endif
