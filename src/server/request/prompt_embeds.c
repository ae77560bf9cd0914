/*
 * prompt_embeds.c
 *	  Prompts that are embeddings: rows that replace the rows of tokens in the model's embedding matrix.
 *
 * A row is the checkpoint's row of a token, without the model's factors and positions, so that the rows
 * of a text's tokens give the same results as the text, bit for bit.  The core sees a prompt with as
 * many placeholders.  KV blocks of such a prompt belong to its request alone, and must never be found by
 * the token ids of another prompt.
 *
 * The rows are untrusted: the width and every number are checked here, once, before a model gets them.
 *
 * Tested by tests/unit/core/test_embeds.c, test_server_core.c and tests/sql/32_embeds.sql.
 */
#include "server/request/prompt_embeds.h"

#include <limits.h>
#include <math.h>

#include "base/alloc.h"
#include "server/server_call.h"
#include "server/request/request_params.h"

#define MAX_REPLY	(256 << 20)	/* bytes of rows in a reply */

bool
embeds_field(EmbedsRequest *r, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_PROMPT_EMBEDS:
			r->given = true;
			r->rows = *f;
			return true;
		case WTAG_EMBEDS_WIDTH:
			return params_int(f, 1, INT_MAX, &r->width, e);
		case WTAG_WANT_EMBEDS:
			r->want = f->i != 0;
			return true;
		default:
			*known = false;
			return true;
	}
}

static bool
no_rows(Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "the model does not generate text");
	return err_hint(e, "It has no embeddings of prompts.");
}

/* Do the rows have the model's width?  Without a given width: is it a whole number of rows? */
static bool
check_width(const EmbedsRequest *r, size_t width, Err *e)
{
	if (r->rows.n == 0)
		return params_bad(e, "prompt_embeds", "must not be empty");
	if (r->width > 0 ? (size_t) r->width == width && r->rows.n % width == 0 : r->rows.n % width == 0)
		return true;
	if (r->width > 0)
		err_set(e, ERR_INVALID, "prompt_embeds must have rows of %zu numbers, as the model's embedding has, "
								"not of %d", width, r->width);
	else
		err_set(e, ERR_INVALID, "prompt_embeds must have rows of %zu numbers, as the model's embedding has, "
								"but %zu is no multiple of that",
				width, r->rows.n);
	return err_detail(e, "parameter=prompt_embeds");
}

bool
embeds_take(const Backend *be, const BackendModel *in, const EmbedsRequest *r, IntVec *ids, float **out,
			Err *e)
{
	size_t		width = (size_t) be->generator->embed_width(in);
	float	   *rows;

	if (width == 0)
		return no_rows(e);
	if (!check_width(r, width, e))
		return false;
	rows = mem_try_alloc(r->rows.n * sizeof(float));
	if (rows == NULL)
		return err_set(e, ERR_NOMEM, "out of memory for %zu numbers of prompt_embeds", r->rows.n);
	wire_floats(&r->rows, rows);
	for (size_t i = 0; i < r->rows.n; i++)
		if (!isfinite(rows[i]))
		{
			err_set(e, ERR_INVALID, "prompt_embeds must be finite numbers, got %g in row %zu, column %zu",
					(double) rows[i], i / width + 1, i % width + 1);
			mem_free(rows);
			return err_detail(e, "parameter=prompt_embeds");
		}
	for (size_t i = 0; i < r->rows.n / width; i++)
		intvec_push(ids, 0);
	*out = rows;
	return true;
}

bool
embeds_of_tokens(const Backend *be, const BackendModel *in, const IntVec *ids, Buf *fields, Err *e)
{
	size_t		width = (size_t) be->generator->embed_width(in);
	WireOut		o = chan_out(fields);
	float	   *rows;
	size_t		found;

	if (width == 0)
		return no_rows(e);
	if (ids->len > MAX_REPLY / sizeof(float) / width)
		return err_set(e, ERR_TOO_LONG, "%zu rows of %zu numbers are more than the maximum of %d MB",
					   ids->len, width, MAX_REPLY >> 20);
	rows = mem_try_alloc((ids->len * width + 1) * sizeof(float));
	if (rows == NULL)
		return err_set(e, ERR_NOMEM, "out of memory for %zu rows of %zu numbers", ids->len, width);
	found = be->generator->token_rows(in, ids->data, ids->len, rows);
	if (found < ids->len)
	{
		mem_free(rows);
		return err_set(e, ERR_INVALID, "token id %d has no row in the model's embedding", ids->data[found]);
	}
	wire_put_floats(&o, WTAG_FLOATS, rows, ids->len * width);
	wire_put_int(&o, WTAG_ROWS, (int64_t) ids->len);
	mem_free(rows);
	return true;
}
