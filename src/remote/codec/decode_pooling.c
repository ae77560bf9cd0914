/*
 * decode_pooling.c
 *	  Vectors, scores and labels, a row for each request (decode.h).
 *
 * "index" gives a row's place; without it the order of the rows does (except for rerankers, whose rows
 * come by score).  Each place must occur once.  Vectors are numbers or base64 of little-endian floats;
 * all vectors of a response have the same dimension, and each number is finite.  Tokens are counted for
 * the whole call: each request gets a share proportional to the length of its input, so that the shares
 * add up.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply_more.c.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/codec/decode_internal.h"

#define MAX_LABEL	1024		/* bytes */

/* ---- rows ---- */

/*
 * Store the n elements of the list in the order of their index.  by_rank: elements without an index are
 * an error, because the list is sorted by score.
 */
static bool
read_rows(const DecodedReply *r, StrView list, int n, bool by_rank, StrView *rows, Err *e)
{
	static const char *const names[] = {"index"};
	JsonMembers m;
	StrView		row;
	StrView		index;
	int			got = 0;

	ALWAYS(n > 0);
	memset(rows, 0, (size_t) n * sizeof(StrView));
	if (json_kind(list) != '[' || !json_elements(&m, list.s, list.n))
		return reply_bad(r, e, "has no list of results");
	for (; json_element(&m, &row) > 0; got++)
	{
		int64_t		at = got;

		if (!json_fields(row, names, 1, &index))
			return reply_bad(r, e, "has a result that is no object");
		if (got == n)
			return reply_bad(r, e, "has more results than the %d that were asked for", n);
		if (index.s == NULL && by_rank && n > 1)
			return reply_bad(r, e, "has a result without an index");
		if (index.s != NULL && !json_whole(index, 0, n - 1, &at))
			return reply_bad(r, e, "has a result whose index is none of %d", n);
		if (rows[at].s != NULL)
			return reply_bad(r, e, "has result %d twice", (int) at);
		rows[at] = row;
	}
	return got == n || reply_bad(r, e, "has %d results where %d were asked for", got, n);
}

static bool
read_root(const DecodedReply *r, RPart *p, StrView v, StrView *list, Err *e)
{
	static const char *const names[] = {"error", "usage", "data", "results", "meta"};
	static const char *const tokens[] = {"tokens"};
	StrView		f[5];
	StrView		t[1];

	/* some rerankers respond with the bare list */
	*list = v;
	if (json_kind(v) == '[')
		return true;
	if (!json_fields(v, names, 5, f))
		return reply_bad(r, e, "is no object");
	if (f[0].s != NULL)
		return reply_refused(r, f[0], e);
	*list = f[2].s != NULL ? f[2] : f[3];
	if (json_fields(f[4], tokens, 1, t) && !reply_read_usage(t[0], &p->usage, e))
		return false;
	return reply_read_usage(f[1], &p->usage, e);
}

/* ---- vectors ---- */

static int
digit64(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' &&
		c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decode little-endian floats in base64. */
static bool
read_base64(StrView v, Buf *out)
{
	const char *s = v.s + 1;
	size_t		n = v.n - 2;
	uint32_t	bits = 0;
	int			have = 0;
	size_t		from = out->len;
	signed char digits[256];

	for (int c = 0; c < 256; c++)
		digits[c] = (signed char) digit64((char) c);
	while (n > 0 && s[n - 1] == '=' && n > v.n - 4)
		n--;
	buf_reserve(out, n);
	for (size_t i = 0; i < n; i++)
	{
		int			d = digits[(unsigned char) s[i]];

		/* JSON writers may escape slashes */
		if (d < 0 && s[i] == '\\' && i + 1 < n && s[i + 1] == '/')
			d = digits[(unsigned char) s[++i]];
		if (d < 0)
			return false;
		bits = bits << 6 | (uint32_t) d;
		have += 6;
		if (have >= 8)
		{
			have -= 8;
			ALWAYS(out->len < from + n);
			out->data[out->len++] = (char) (bits >> have & 0xFF);
		}
	}
	if ((out->len - from) % 4 != 0)
		return false;
	for (size_t i = from; i < out->len; i += 4)
	{
		const unsigned char *b = (const unsigned char *) out->data + i;
		uint32_t	u = (uint32_t) b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 |
			(uint32_t) b[3] << 24;
		float		x;

		memcpy(&x, &u, 4);
		if (!isfinite(x))
			return false;
		memcpy(out->data + i, &x, 4);
	}
	return true;
}

/* Read a vector, or rows of vectors, into out.  *rows: their number; *width: the dimension. */
static bool
read_vectors(const DecodedReply *r, StrView v, Buf *out, int64_t *rows, size_t *width, Err *e)
{
	JsonMembers m;
	StrView		row;
	bool		ok = true;
	size_t		from = out->len;

	*rows = 1;
	if (json_kind(v) == '"')
		ok = read_base64(v, out);
	else if (json_kind(v) == '[' && json_elements(&m, v.s, v.n) && json_element(&m, &row) > 0 &&
			 json_kind(row) == '[')
	{
		int64_t		n = 0;

		*width = 0;
		do
		{
			size_t		before = out->len;

			ok = json_floats(row, out);
			if (ok && n > 0 && (out->len - before) / sizeof(float) != *width)
				return reply_bad(r, e, "has rows of different lengths");
			*width = (out->len - before) / sizeof(float);
			n++;
		} while (ok && json_element(&m, &row) > 0);
		*rows = n;
	}
	else
		ok = json_floats(v, out);
	if (!ok)
		return reply_bad(r, e, "has a vector that is no list of finite numbers");
	if (*rows == 1)
		*width = (out->len - from) / sizeof(float);
	return *width > 0 || reply_bad(r, e, "has a vector without numbers");
}

/* ---- frames ---- */

static void
done(DecodedReply *r, const RPart *p, int i, const Buf *floats, int64_t rows, const char *const *labels,
	 int n_labels)
{
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	RUsage		u = {reply_share(r, p, i, p->usage.prompt), -1, reply_share(r, p, i, p->usage.cached), -1};

	for (int k = 0; k < n_labels; k++)
		wire_put_str(&o, WTAG_LABEL, labels[k], strlen(labels[k]));
	wire_put_floats(&o, WTAG_FLOATS, (const float *) floats->data, floats->len / sizeof(float));
	wire_put_int(&o, WTAG_ROWS, rows);
	reply_put_usage(&o, &u);
	reply_accepted(r, p->request + i, u.prompt);
	reply_done(r, p->request + i, &b);
	buf_free(&b);
}

/* A row of the response, checked and kept until all rows are. */
typedef struct DecodePoolingRow
{
	Buf			floats;
	int64_t		rows;
	char	   *label;			/* NULL: none */
} DecodePoolingRow;

typedef bool (*ReadRow) (const DecodedReply *r, const RequestFields *a, StrView v, DecodePoolingRow *row,
						 size_t *width, Err *e);

/*
 * Emit a row with the labels of its columns: only the label of the greatest value is known, the others
 * get their numbers.
 */
static void
done_labelled(DecodedReply *r, const RPart *p, int i, const DecodePoolingRow *row)
{
	int			n = (int) (row->floats.len / sizeof(float));
	const float *v = (const float *) row->floats.data;
	char	  **labels = mem_zalloc((size_t) n * sizeof(char *));
	int			best = 0;

	ALWAYS(n > 0);
	for (int k = 1; k < n; k++)
		if (v[k] > v[best])
			best = k;
	for (int k = 0; k < n; k++)
	{
		char		number[16];

		snprintf(number, sizeof(number), "%d", k);
		labels[k] = mem_strdup(k == best ? row->label : number);
	}
	done(r, p, i, &row->floats, row->rows, (const char *const *) labels, n);
	for (int k = 0; k < n; k++)
		mem_free(labels[k]);
	mem_free(labels);
}

/* Read all rows of a part before the first is emitted. */
static bool
finish_rows(DecodedReply *r, RPart *p, StrView v, ReadRow read, bool one_width, Err *e)
{
	int			n = p->call->n_requests;
	StrView    *spans = mem_zalloc((size_t) n * sizeof(StrView));
	DecodePoolingRow *rows = mem_zalloc((size_t) n * sizeof(DecodePoolingRow));
	StrView		list;
	size_t		first = 0;
	bool		ok = read_root(r, p, v, &list, e) && read_rows(r, list, n, p->call->shape == RSHAPE_RERANK,
															   spans, e);

	for (int i = 0; ok && i < n; i++)
	{
		size_t		width = 0;

		rows[i].rows = 1;
		ok = read(r, r->requests[p->request + i], spans[i], &rows[i], &width, e);
		if (ok && one_width && i > 0 && width != first)
		{
			r->unlike = true;
			ok = reply_bad(r, e, "has vectors of %zu and of %zu numbers", first, width);
		}
		if (i == 0)
			first = width;
	}
	for (int i = 0; ok && i < n; i++)
		if (rows[i].label != NULL && r->requests[p->request + i]->want_labels)
			done_labelled(r, p, i, &rows[i]);
		else
			done(r, p, i, &rows[i].floats, rows[i].rows, NULL, 0);
	for (int i = 0; i < n; i++)
	{
		buf_free(&rows[i].floats);
		mem_free(rows[i].label);
	}
	mem_free(rows);
	mem_free(spans);
	return ok;
}

/* ---- shapes ---- */

static bool
has_dimensions(const DecodedReply *r, const RequestFields *a, size_t width, Err *e)
{
	int64_t		want = reply_request_int(a, WTAG_DIMENSIONS, -1);

	return want < 0 || (size_t) want == width ||
		reply_bad(r, e, "has vectors of %zu numbers where %lld were asked for", width, (long long) want);
}

static bool
embedding_row(const DecodedReply *r, const RequestFields *a, StrView v, DecodePoolingRow *row,
			  size_t *width, Err *e)
{
	static const char *const names[] = {"embedding"};
	StrView		f;

	json_fields(v, names, 1, &f);
	if (!read_vectors(r, f, &row->floats, &row->rows, width, e))
		return false;
	if (row->rows != 1)
		return reply_bad(r, e, "has %lld vectors for one text: the model there does not pool",
						 (long long) row->rows);
	return has_dimensions(r, a, *width, e);
}

static bool
pooling_row(const DecodedReply *r, const RequestFields *a, StrView v, DecodePoolingRow *row, size_t *width,
			Err *e)
{
	static const char *const names[] = {"data"};
	bool		by_token = a->task.n > 6 && (memcmp(a->task.s, "token_", 6) == 0);
	StrView		f;

	json_fields(v, names, 1, &f);
	if (by_token && json_kind(f) == '"')
		return reply_bad(r, e, "has tokens' vectors in one text");
	if (!read_vectors(r, f, &row->floats, &row->rows, width, e))
		return false;
	return has_dimensions(r, a, *width, e);
}

static bool
score_row(const DecodedReply *r, const RequestFields *a, StrView v, DecodePoolingRow *row, size_t *width,
		  Err *e)
{
	static const char *const names[] = {"score", "relevance_score"};
	StrView		f[2];
	double		x;
	float		y;

	(void) a;
	json_fields(v, names, 2, f);
	if (!json_num(f[0].s != NULL ? f[0] : f[1], &x) || !isfinite((float) x))
		return reply_bad(r, e, "has a score that is no finite number");
	y = (float) x;
	buf_add(&row->floats, &y, sizeof(y));
	*width = 1;
	return true;
}

static bool
class_row(const DecodedReply *r, const RequestFields *a, StrView v, DecodePoolingRow *row, size_t *width,
		  Err *e)
{
	static const char *const names[] = {"probs", "label"};
	StrView		f[2];
	Buf			label = {0};

	(void) a;
	json_fields(v, names, 2, f);
	if (!read_vectors(r, f[0], &row->floats, &row->rows, width, e))
		return false;
	if (row->rows != 1)
		return reply_bad(r, e, "has more than one row for a text");
	if (json_kind(f[1]) == '"' && json_text(f[1], &label) && label.len <= MAX_LABEL && label.len > 0)
		row->label = mem_strndup(label.data, label.len);
	buf_free(&label);
	return true;
}

/*
 * The body is read when it is complete, and its frames are emitted at once, because there is only one
 * call.
 */
static bool
embeddings_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	return finish_rows(r, p, v, embedding_row, true, e);
}

static bool
scores_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	return finish_rows(r, p, v, score_row, true, e);
}

static bool
classes_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	return finish_rows(r, p, v, class_row, true, e);
}

static bool
pooling_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	return finish_rows(r, p, v, pooling_row, false, e);
}

const ReplyShape reply_embeddings = {.whole = embeddings_whole};
const ReplyShape reply_scores = {.whole = scores_whole};
const ReplyShape reply_classes = {.whole = classes_whole};
const ReplyShape reply_pooling = {.whole = pooling_whole};
