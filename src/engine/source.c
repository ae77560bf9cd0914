/*
 * source.c
 *	  src/load's files as the source of tensors that src/model asks for.
 *
 * Tested by tests/unit/test_offline.c and test_server_core.c.
 */
#include "engine/source.h"

static const KTensor *
source_find(void *ctx, const char *name)
{
	return files_find(((Source *) ctx)->files, name);
}

static const KTensor *
source_at(void *ctx, size_t i)
{
	return files_tensor(((Source *) ctx)->files, i);
}

static const char *
source_where(void *ctx, const KTensor *t)
{
	return files_where(((Source *) ctx)->files, t);
}

static bool
source_check(void *ctx, const KTensor *t, int64_t row0, int64_t row1, Err *e)
{
	return files_check_rows(((Source *) ctx)->files, t, row0, row1, e);
}

static void
source_drop(void *ctx, const KTensor *t)
{
	files_drop(((Source *) ctx)->files, t);
}

static bool
source_intact(void *ctx)
{
	Err			e;

	return files_unchanged(((Source *) ctx)->files, &e);
}

static bool
source_progress(void *ctx, double done)
{
	Source	   *s = ctx;

	return s->progress == NULL || s->progress(s->ctx, done);
}

ModelSource
source_of(Source *s)
{
	return (ModelSource) {
		.find = source_find, .at = source_at, .where = source_where, .check = source_check,
		.drop = source_drop, .intact = source_intact, .progress = source_progress, .ctx = s
	};
}

Tok *
source_tok(const Files *f, Err *e)
{
	FilesTokenizer ft;

	if (!files_tokenizer(f, &ft, e))
		return NULL;
	if (ft.gguf != NULL)
		return tok_from_gguf(ft.gguf, e);
	return tok_from_hf(ft.json, ft.json_len, ft.config, ft.config_len, e);
}

KType
source_kv_type(KType weights)
{
	return weights == KT_F32 || weights == KT_BF16 ? weights : KT_F16;
}
