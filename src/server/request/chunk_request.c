/*
 * chunk_request.c
 *	  WK_CHUNK: splits a text into chunks that fit into a model.
 *
 * chunk_text() does the splitting.  This file reads the options and determines the default size: what
 * the model's context holds without the tokens that the tokenizer adds around a text, but at most
 * DEFAULT_SIZE, since a passage of that length usually has one subject.
 *
 * Tested by tests/unit/text/test_chunk.c, tests/sql/20_chunk.sql.
 */
#include "server/request/chunk_request.h"

#include <limits.h>
#include <string.h>

#define DEFAULT_SIZE	400

static bool
bad(const char *param, const char *what, int64_t value, Err *e)
{
	err_set(e, ERR_INVALID, "%s %s", param, what);
	return err_detail(e, "parameter=%s, value=%lld", param, (long long) value);
}

bool
chunking_field(ChunkRequest *r, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_CHUNK_METHOD:
			if (chunk_method_by_name(f->s, f->n, &r->method))
				return true;
			err_set(e, ERR_INVALID, "method must be %s", CHUNK_METHODS);
			return err_detail(e, "parameter=method, value=%.*s", f->n > 100 ? 100 : (int) f->n, f->s);
		case WTAG_CHUNK_SIZE:
			if (f->i < 1 || f->i > INT_MAX)
				return bad("size", "must be at least 1", f->i, e);
			r->size = (int) f->i;
			return true;
		case WTAG_CHUNK_OVERLAP:
			if (f->i < 0 || f->i > INT_MAX)
				return bad("overlap", "must be at least 0", f->i, e);
			r->overlap = (int) f->i;
			return true;
		default:
			*known = false;
			return true;
	}
}

bool
chunking_check(const ChunkRequest *r, Err *e)
{
	if (r->method == CHUNK_NONE && r->size > 0)
		return bad("size", "can't be given with method none", r->size, e);
	if (r->method == CHUNK_NONE && r->overlap > 0)
		return bad("overlap", "can't be given with method none", r->overlap, e);
	if (r->size > 0 && r->overlap >= r->size)
		return bad("overlap", "must be less than size", r->overlap, e);
	return true;
}

typedef struct ChunkModel
{
	const Backend *be;
	const BackendModel *in;
} ChunkModel;

static bool
starts(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	const ChunkModel *m = ctx;

	return m->be->generator->token_starts(m->in, s, n, out, e);
}

/* Determine the default size. */
static bool
default_size(const Backend *be, const BackendModel *in, int *size, Err *e)
{
	ModelFacts	f;
	IntVec		around = {0};
	bool		ok = be->generator->encode(in, "", 0, TOK_ADD_SPECIAL, &around, e);
	int			room;

	be->loader->facts(in, &f);
	room = f.max_model_len - (int) around.len;
	*size = f.max_model_len <= 0 || room > DEFAULT_SIZE ? DEFAULT_SIZE : room > 1 ? room : 1;
	intvec_free(&around);
	return ok;
}

bool
chunking_run(const Backend *be, const BackendModel *in, const ChunkRequest *r, const char *s, size_t n,
			 IntVec *out, Err *e)
{
	ChunkModel	m = {be, in};
	ChunkEncoder enc = {starts, &m};
	int			size = r->size;

	if (size == 0 && r->method != CHUNK_NONE && !default_size(be, in, &size, e))
		return false;
	if (r->method != CHUNK_NONE && r->overlap >= size)
		return bad("overlap", "must be less than size", r->overlap, e);
	return chunk_text(&enc, r->method, size, r->overlap, s, n, out, e);
}
