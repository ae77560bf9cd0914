/*
 * weight_source.c
 *	  Files on disk (src/loader) as the source of tensors that src/model asks for.
 *
 * Tested by tests/unit/backend/test_offline.c and test_server_core.c.
 */
#include "backend/weight_source.h"

#include "backend/pooling/pooling_inputs.h"
#include "quant/ckpt/ckpt.h"

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

/* Reading a module's scales is part of the guarded read: see load_read_guard(). */
typedef struct Matrix
{
	Source	   *s;
	const char *module;
	int64_t		n;
	int64_t		k;
	const KTensor *out;
	bool		ok;
	Err			err;
} Matrix;

static void
find_matrix(void *arg)
{
	Matrix	   *m = arg;

	m->ok = ckpt_matrix(m->s->ckpt, m->module, m->n, m->k, &m->out, &m->err);
}

static bool
source_quantized(void *ctx, const char *module, int64_t n, int64_t k, const KTensor **out, Err *e)
{
	Source	   *s = ctx;
	Matrix		m = {.s = s, .module = module, .n = n, .k = k};
	CkptFiles	files = {.find = source_find, .where = source_where, .ctx = ctx};

	*out = NULL;
	if (s->ckpt == NULL && !ckpt_open(files_conf(s->files), &files, &s->ckpt, e))
		return false;
	if (s->ckpt == NULL)
		return true;
	if (!load_read_guard(s->files, find_matrix, &m, e))
		return false;
	*out = m.out;
	if (!m.ok)
		*e = m.err;
	return m.ok;
}

ModelSource
source_of(Source *s)
{
	return (ModelSource) {
		.find = source_find, .quantized = source_quantized, .at = source_at, .where = source_where,
		.check = source_check, .drop = source_drop, .intact = source_intact, .progress = source_progress,
		.ctx = s
	};
}

void
source_done(Source *s)
{
	ckpt_close(s->ckpt);
	s->ckpt = NULL;
}

bool
source_options(Files *f, const ModelOpts *o, Err *e)
{
	return files_set_rope(f, o->rope_scaling, o->rope_theta, e) && pooling_prepare(f, o->hf_overrides, e) &&
		files_set_quantization(f, model_opts_method(o), e);
}

static Tok *
read_tok(const Files *f, Err *e)
{
	FilesTokenizer ft;

	if (!files_tokenizer(f, &ft, e))
		return NULL;
	switch (ft.kind)
	{
		case FILES_TOK_GGUF:
			return tok_from_gguf(ft.gguf, e);
		case FILES_TOK_TEKKEN:
			return tok_from_tekken(ft.json, ft.json_len, e);
		case FILES_TOK_SPM:
			return tok_from_spm(ft.json, ft.json_len, ft.config, ft.config_len, e);
		case FILES_TOK_TIKTOKEN:
			return tok_from_tiktoken(ft.json, ft.json_len, ft.config, ft.config_len, e);
		case FILES_TOK_HF:
			break;
	}
	return tok_from_hf(ft.json, ft.json_len, ft.config, ft.config_len, e);
}

Tok *
source_tok(const Files *f, Err *e)
{
	Tok		   *t = read_tok(f, e);

	if (t == NULL || !conf_bool(files_conf(f), "st.do_lower_case", false) || tok_lower(t, e))
		return t;
	tok_free(t);
	return NULL;
}

bool
source_tokenizer_only(const Files *f)
{
	return files_count(f) == 0 && conf_has(files_conf(f), "gguf.architecture");
}
