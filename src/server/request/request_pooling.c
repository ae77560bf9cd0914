/*
 * request_pooling.c
 *	  Pooling requests from the fields of a message.
 *
 * The values are checked here; whether the model has the task is checked when it is loaded.
 *
 * Tested by tests/unit/server/test_server.c.
 */
#include "server/request/request_pooling.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "server/request/request_params.h"

static bool
long_by_name(LongInput *to, const WireField *f, Err *e)
{
	static const char *const names[] = {[LONG_ERROR] = "error", [LONG_TRUNCATE] = "truncate",
										[LONG_CHUNK] = "chunk"};

	for (int i = 0; i < 3; i++)
		if (f->n == strlen(names[i]) && memcmp(f->s, names[i], f->n) == 0)
		{
			*to = (LongInput) i;
			return true;
		}
	return params_bad(e, "long_input", "must be error, truncate or chunk");
}

static bool
add_choice(PoolRequest *p, const WireField *f, Err *e)
{
	if (p->n_choices == POOL_MAX_CHOICES)
		return params_bad(e, "choice", "may be given at most 4096 times");
	p->choices = mem_realloc(p->choices, (size_t) (p->n_choices + 1) * sizeof(StrView));
	p->choices[p->n_choices++] = (StrView) {f->s, f->n};
	return true;
}

bool
pool_field(PoolRequest *p, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_TASK:
			p->task = pool_task_by_name(f->s, f->n);
			return (p->task != PT_NONE && p->task != PT_LOGPROBS) ||
				params_bad(e, "task", "must be embed, token_embed, classify, token_classify, score or "
									  "reward");
		case WTAG_PAIR:
			p->pair = (StrView) {f->s, f->n};
			return true;
		case WTAG_DIMENSIONS:
			p->dimensions = (int) f->i;
			return true;
		case WTAG_USE_ACTIVATION:
			p->activation = f->i != 0;
			return true;
		case WTAG_INSTRUCTION:
			p->instruction = (StrView) {f->s, f->n};
			return true;
		case WTAG_PROMPT_NAME:
			p->prompt_name = (StrView) {f->s, f->n};
			return true;
		case WTAG_LONG_INPUT:
			return long_by_name(&p->long_input, f, e);
		case WTAG_TRUNCATE_TOKENS:
			p->truncate = (int) f->i;
			return p->truncate != 0 || params_bad(e, "truncate", "must be -1 or at least 1");
		case WTAG_STEP_TAG_ID:
			p->step_tag = (int) f->i;
			return true;
		case WTAG_RETURNED_TOKEN_IDS:
			for (size_t i = 0; i < f->n; i++)
				intvec_push(&p->columns, wire_int_at(f, i));
			return true;
		case WTAG_CHOICE:
			return add_choice(p, f, e);
		case WTAG_NOTE:
			return true;		/* for the caller itself */
		case WTAG_WANT_LABELS:
			p->want_labels = f->i != 0;
			return true;
		case WTAG_ALIKE:
			p->alike = f->i != 0;
			return true;
		case WTAG_MODEL_DIGEST:
			p->digest = (StrView) {f->s, f->n};
			return true;
		case WTAG_DEFAULT_MODEL:
			p->default_model = f->i != 0;
			return true;
		default:
			*known = false;
			return true;
	}
}

bool
pool_needs_files(const PoolRequest *p, const Backend *be, const BackendModel *in)
{
	return p->digest.n > 0 && be->control->is_digest_known != NULL && !be->control->is_digest_known(in);
}

bool
pool_check_digest(const PoolRequest *p, const Backend *be, const BackendModel *in, Err *e)
{
	char		hex[MODEL_DIGEST];

	if (p->digest.n == 0)
		return true;
	if (!be->control->get_digest(in, hex, e))
		return false;
	if (p->digest.n == strlen(hex) && memcmp(p->digest.s, hex, p->digest.n) == 0)
		return true;
	err_set(e, ERR_NOT_READY, "the model differs from the pinned one");
	err_detail(e, "The pinned digest is %.*s, the model's digest is %s.",
			   (int) (p->digest.n < MODEL_DIGEST ? p->digest.n : MODEL_DIGEST), p->digest.s, hex);
	return err_hint(e, "Give the model its former files and options, or pin the new digest and rebuild what "
					"holds the vectors: the generated column, or the index.");
}
