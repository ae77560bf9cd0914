/*
 * score_rerank.c
 *	  /score, /rerank: pairs of texts.
 *
 * Texts are strings, or objects {"text": ...} as Cohere's and Jina's bodies have them.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "server/api/api_internal.h"

/* A text or several, given under one of several names. */
typedef struct ScoreRerankTexts
{
	const char *name;
	const Json *v;				/* NULL = not given */
	int			n;
} ScoreRerankTexts;

static const char *
text_of(const Json *v)
{
	const Json *text = json_is_object(v) ? json_get(v, "text") : v;

	return json_is_string(text) ? text->s : NULL;
}

static bool
take_texts(ApiCall *a, const char *const *names, ScoreRerankTexts *t, Err *e)
{
	memset(t, 0, sizeof(*t));
	t->name = names[0];
	for (; *names != NULL; names++)
	{
		const ApiMember *m = apibody_get(&a->body, *names);

		if (m == NULL)
			continue;
		if (t->v != NULL)
			return api_bad(e, *names, "is given a second time, under another name");
		t->name = *names;
		t->v = m->v;
	}
	if (t->v == NULL || (json_is_array(t->v) && t->v->child == NULL))
		return api_bad(e, t->name, "must be given, with at least one text");
	t->n = json_is_array(t->v) ? json_count(t->v) : 1;
	for (const Json *v = json_is_array(t->v) ? t->v->child : t->v; v != NULL;
		 v = json_is_array(t->v) ? v->next : NULL)
		if (text_of(v) == NULL)
			return api_bad(e, t->name, "must have texts only: strings, or objects with a \"text\"");
	if (t->n > API_MAX_ITEMS)
		return api_bad(e, t->name, "has more than 4096 texts");
	return true;
}

static void
add_pair(ApiCall *a, const Buf *fields, const char *query, const char *document, int index)
{
	ApiItem    *it = api_item(a, WK_POOL, 0, index);
	WireOut		o = api_out(it);

	buf_add(&it->in, fields->data, fields->len);
	wire_put_str(&o, WTAG_PROMPT, query, strlen(query));
	wire_put_str(&o, WTAG_PAIR, document, strlen(document));
}

static bool
common_fields(ApiCall *a, Buf *fields, Err *e)
{
	WireOut		o = chan_out(fields);
	const char *instruction = NULL;

	if (!apibody_str(&a->body, "instruction", &instruction, e) || !api_pool_fields(a, &o, e))
		return false;
	wire_put_str(&o, WTAG_TASK, "score", strlen("score"));
	if (instruction != NULL)
		wire_put_str(&o, WTAG_INSTRUCTION, instruction, strlen(instruction));
	return true;
}

/* Pair the texts 1:1, 1:N or N:N. */
static bool
add_pairs(ApiCall *a, const Buf *fields, const ScoreRerankTexts *x, const ScoreRerankTexts *y, Err *e)
{
	const Json *p = json_is_array(x->v) ? x->v->child : x->v;
	const Json *q = json_is_array(y->v) ? y->v->child : y->v;

	if (!api_room(a, (size_t) y->n, fields->len + (x->n == 1 ? strlen(text_of(p)) : 0), e))
		return false;
	for (int i = 0; i < y->n; i++)
	{
		add_pair(a, fields, text_of(p), text_of(q), i);
		if (x->n > 1)
			p = p->next;
		if (y->n > 1)
			q = q->next;
	}
	return true;
}

static bool
score_make(ApiCall *a, Err *e)
{
	static const char *const first[] = {"text_1", "queries", "data_1", NULL};
	static const char *const second[] = {"text_2", "documents", "items", "data_2", NULL};
	static const char *const refused[] = {"chat_template", NULL};
	ScoreRerankTexts x,
				y;
	Buf			fields = {0};
	bool		ok;

	if (!take_texts(a, first, &x, e) || !take_texts(a, second, &y, e) ||
		!apibody_refuse(&a->body, refused, e))
		return false;
	if (x.n != 1 && x.n != y.n)
		return api_bad(e, x.name, "and the other texts must be 1:1, 1:N or N:N");
	ok = common_fields(a, &fields, e) && add_pairs(a, &fields, &x, &y, e);
	buf_free(&fields);
	return ok;
}

static float
score_of(const ApiItem *it)
{
	ApiReply	r;
	float		v = 0;

	apireply_read(&r, it->reply.data, it->reply.len);
	if (r.floats.n == 1)
		wire_floats(&r.floats, &v);
	return v;
}

static bool
score_finish(ApiCall *a, JsonOut *j, Err *e)
{
	ApiUsage	u = api_usage(a, 0);

	(void) e;
	json_open(j, '{');
	api_write_head(a, j, "list");
	json_key(j, "data");
	json_open(j, '[');
	for (int i = 0; i < a->n_items; i++)
	{
		json_open(j, '{');
		json_key_int(j, "index", i);
		json_key_cstr(j, "object", "score");
		json_key(j, "score");
		json_float(j, score_of(&a->items[i]));
		json_close(j, '}');
	}
	json_close(j, ']');
	json_key(j, "usage");
	u.completion = 0;
	api_write_usage(j, &u);
	json_close(j, '}');
	return true;
}

const ApiEndpoint api_score = {.prefix = "score-",.make = score_make,.finish = score_finish};

/* ---- rerank ---- */

static bool
rerank_make(ApiCall *a, Err *e)
{
	static const char *const names[] = {"documents", NULL};
	static const char *const ignored[] = {"return_documents", "max_chunks_per_doc", NULL};
	static const char *const refused[] = {"chat_template", NULL};
	const ApiMember *query = apibody_get(&a->body, "query");
	ScoreRerankTexts q = {"query", NULL, 1};
	ScoreRerankTexts documents;
	int64_t		top = 0;
	Buf			fields = {0};
	bool		ok;

	apibody_ignore(&a->body, ignored);
	if (query == NULL || text_of(query->v) == NULL)
		return api_bad(e, "query", "must be given, as a string");
	q.v = query->v;
	if (!take_texts(a, names, &documents, e) || !apibody_refuse(&a->body, refused, e) ||
		!apibody_int(&a->body, "top_n", 0, INT_MAX, &top, e))
		return false;
	ok = common_fields(a, &fields, e) && add_pairs(a, &fields, &q, &documents, e);
	buf_free(&fields);
	return ok;
}

typedef struct ScoreRerankRanked
{
	int			index;
	float		score;
	const char *text;
} ScoreRerankRanked;

/* Order by score, the best first; equal ones keep their order. */
static int
compare_ranked(const void *x, const void *y)
{
	const ScoreRerankRanked *a = x;
	const ScoreRerankRanked *b = y;

	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return a->index - b->index;
}

static bool
rerank_finish(ApiCall *a, JsonOut *j, Err *e)
{
	ApiUsage	u = api_usage(a, 0);
	const Json *documents = apibody_get(&a->body, "documents")->v;
	const Json *v = json_is_array(documents) ? documents->child : documents;
	ScoreRerankRanked *ranked = mem_alloc((size_t) a->n_items * sizeof(ScoreRerankRanked));
	int64_t		top = 0;

	if (!apibody_int(&a->body, "top_n", 0, INT_MAX, &top, e) || top == 0 || top > a->n_items)
		top = a->n_items;
	for (int i = 0; i < a->n_items; i++, v = v->next)
	{
		ALWAYS(v != NULL && a->items[i].index == i);	/* an item for each document, in their order */
		ranked[i] = (ScoreRerankRanked) {i, score_of(&a->items[i]), text_of(v)};
	}
	qsort(ranked, (size_t) a->n_items, sizeof(ScoreRerankRanked), compare_ranked);
	json_open(j, '{');
	json_key_cstr(j, "id", a->id);
	json_key_cstr(j, "model", a->model);
	json_key(j, "usage");
	json_open(j, '{');
	json_key_int(j, "prompt_tokens", u.prompt);
	json_key_int(j, "total_tokens", u.prompt);
	json_close(j, '}');
	json_key(j, "results");
	json_open(j, '[');
	for (int i = 0; i < (int) top; i++)
	{
		json_open(j, '{');
		json_key_int(j, "index", ranked[i].index);
		json_key(j, "document");
		json_open(j, '{');
		json_key_cstr(j, "text", ranked[i].text);
		json_key_null(j, "multi_modal");
		json_close(j, '}');
		json_key(j, "relevance_score");
		json_float(j, ranked[i].score);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
	mem_free(ranked);
	return true;
}

const ApiEndpoint api_rerank = {.prefix = "rerank-",.make = rerank_make,.finish = rerank_finish};
