/*
 * golden_core.h
 *	  A core with a small model of the fixtures, for tests that use it alone.
 */
#ifndef VLLM_TESTS_GOLDEN_CORE_H
#define VLLM_TESTS_GOLDEN_CORE_H

#include <stdio.h>

#include "backend/weight_source.h"
#include "core/core.h"

#include "../unit/check.h"

/* Returns NULL if it can't be made, which counts as a failed check.  rows: in a step; seqs: at once. */
static inline Core *
golden_core(const char *name, KPool *pool, int rows, int seqs)
{
	char		path[200];
	Err			e = {0};
	ModelOptions mo = {.kernels = kernels_select("auto", &(const char *) {NULL}), .pool = pool,
					   .max_rows = rows, .max_out = seqs};
	CoreOptions co = {.kernels = mo.kernels, .pool = pool, .max_num_seqs = seqs,
		.max_num_batched_tokens = rows, .block_size = 16, .kv_blocks = 60, .kv_type = KT_F32};
	Files	   *f;
	Source		source;
	ModelSource src = source_of(&source);
	Model	   *m;
	Tok		   *t;
	Core	   *c = NULL;

	snprintf(path, sizeof(path), "build/fixtures/models/%s", name);
	f = files_open(path, &e);
	source = (Source) {.files = f};
	m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	t = m != NULL ? source_tok(f, &e) : NULL;
	if (t != NULL)
		c = core_new(m, t, files_conf(f), &co, &e);
	CHECK(c != NULL, "%s: %s", name, e.msg);
	source_done(&source);
	if (f != NULL)
		files_close(f);
	return c;
}

#endif
