/*
 * pooling.c
 *	  From a pooled request's texts to the sequences that the core computes.
 *
 * Any thread: a PoolModel is immutable.  Tested by tests/unit/test_pooling.c.
 */
#include "engine/pooling.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "engine/choices.h"

struct PoolModel
{
	const ModelInfo *info;
	const Tok  *tok;
	int			max_len;
};

PoolModel *
poolmodel_new(const ModelInfo *info, const Tok *tok, int max_model_len, const Conf *conf, Err *e)
{
	PoolModel  *m = mem_zalloc(sizeof(*m));

	(void) conf;
	(void) e;
	m->info = info;
	m->tok = tok;
	m->max_len = max_model_len;
	return m;
}

void
poolmodel_free(PoolModel *m)
{
	mem_free(m);
}

const char *const *
pooling_labels(const PoolModel *m, PoolTask task)
{
	(void) m;
	(void) task;
	return NULL;
}

static bool
has_task(const PoolModel *m, PoolTask t)
{
	return (m->info->tasks & 1u << t) != 0;
}

static bool
no_task(const PoolModel *m, PoolTask t, Err *e)
{
	char		all[200] = "";

	for (int i = PT_NONE + 1; i < PT_COUNT; i++)
		if (has_task(m, (PoolTask) i))
		{
			strncat(all, all[0] != '\0' ? ", " : "", sizeof(all) - strlen(all) - 1);
			strncat(all, pool_task_name((PoolTask) i), sizeof(all) - strlen(all) - 1);
		}
	err_set(e, ERR_UNSUPPORTED, "the model does not support the task \"%s\"", pool_task_name(t));
	return err_hint(e, "It supports: %s.", all);
}

static PoolSeq *
add_seq(PoolSpec *out)
{
	PoolSeq    *s;

	out->seqs = mem_realloc(out->seqs, (size_t) (out->n_seqs + 1) * sizeof(PoolSeq));
	s = &out->seqs[out->n_seqs++];
	*s = (PoolSeq) {.type1_at = INT_MAX};
	return s;
}

static bool
fits(const PoolModel *m, const PoolSeq *s, Err *e)
{
	if (s->ids.len == 0)
	{
		err_set(e, ERR_INVALID, "input has no tokens");
		return err_detail(e, "parameter=input");
	}
	if (s->ids.len <= (size_t) m->max_len)
		return true;
	err_set(e, ERR_TOO_LONG, "input of %zu tokens does not fit the maximum model length of %d", s->ids.len, m->max_len);
	return err_hint(e, "Shorten it, or ask for long_input \"truncate\" or \"chunk\".");
}

/* A text and perhaps a second one, in one sequence. */
static bool
encode(const PoolModel *m, const PoolRequest *pr, PoolText a, PoolText b, PoolSpec *out, Err *e)
{
	PoolSeq    *s = add_seq(out);
	IntVec		types = {0};
	bool		ok = tok_encode_pair(m->tok, a.s, a.n, b.s, b.n, pr->add_special ? TOK_ADD_SPECIAL : 0, &s->ids, &types, e);

	for (size_t i = 0; ok && i < types.len && s->type1_at == INT_MAX; i++)
		if (types.data[i] != 0)
			s->type1_at = (int) i;
	intvec_free(&types);
	return ok && fits(m, s, e);
}

bool
pooling_make(const PoolModel *m, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e)
{
	(void) extra;
	*out = (PoolSpec) {.task = pr->task, .dimensions = pr->dimensions, .activation = pr->activation, .step_tag = -1};
	if (pr->task == PT_SCORE && !has_task(m, PT_SCORE) && has_task(m, PT_EMBED))
	{
		out->task = PT_EMBED;
		out->join = PJ_COSINE;
		return encode(m, pr, pr->text, (PoolText) {0}, out, e) && encode(m, pr, pr->pair, (PoolText) {0}, out, e);
	}
	if (!has_task(m, pr->task))
		return no_task(m, pr->task, e);
	if (pr->task == PT_LOGPROBS)
		return choices_make(m->tok, m->info->vocab_size, m->max_len, pr, out, e);
	return encode(m, pr, pr->text, pr->pair, out, e);
}
