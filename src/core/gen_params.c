/*
 * gen_params.c
 *	  Sampling parameters: defaults, the model's defaults, checks.
 *
 * core_normalize() runs once per request, before it is queued, on any thread: it only reads what never
 * changes after the core is made.  Order (docs/user/sampling.md): values that the caller did not give
 * come from generation_config, else from the built-in defaults; special values are rewritten; ranges are
 * checked; greedy sampling resets the filters; EOS and stop ids are added; values are checked against
 * the vocabulary; the prompt is checked; max_tokens is cut to what the context holds.
 *
 * Every error names the parameter, in the message and as "parameter=..." in the detail, and the value.
 * Tested by tests/unit/core/sample/test_params.c.
 */
#include "core/core_internal.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "core/sample/param_range.h"
#include "ipc/field_range.h"

#define COLDEST 0.01			/* a temperature between 0 and this one is raised to it */

/* ---- members that are numbers, by the rows of request_fields.def ---- */

typedef struct NumberRow
{
	WireTag		tag;
	enum
	{
		NUMBER_INT, NUMBER_NUM, NUMBER_BOOL, NUMBER_OTHER
	}			type;
	enum
	{
		IN_CODE, IN_PARAMS, OF_MODEL, IN_OUT, IN_RULES
	}			where;			/* OF_MODEL: also in GenParams, with a default of the model */
	size_t		off;
	double		dflt;			/* NONE = no default */
} NumberRow;

#define NONE NAN

#define NUMBER_BIG NUMBER_OTHER
#define NUMBER_STR NUMBER_OTHER
#define NUMBER_STRS NUMBER_OTHER
#define NUMBER_IDS NUMBER_OTHER
#define NUMBER_JSON NUMBER_OTHER
#define WHERE_PARAM(member) IN_PARAMS, offsetof(GenParams, member)
#define WHERE_MODEL_PARAM(member) OF_MODEL, offsetof(GenParams, member)
#define WHERE_OUT(member) IN_OUT, offsetof(GenParams, out) + offsetof(OutParams, member)
#define WHERE_RULE(member) IN_RULES, offsetof(LogitRules, member)
#define WHERE_MODEL_RULE(member) WHERE_RULE(member)
#define WHERE_CODE IN_CODE, 0

static const NumberRow rows[GP_BITS] = {
#define FIELD(tag, number, name, type, least, most, rule, body, endpoint, dflt, reader) \
	[GP_BIT_##tag] = {WTAG_##tag, NUMBER_##type, WHERE_##reader, dflt},
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
};

static double
number_get(const NumberRow *r, const GenParams *p)
{
	const char *at = (r->where == IN_RULES ? (const char *) p->rules : (const char *) p) + r->off;

	ASSERT(r->where != IN_CODE && (r->where != IN_RULES || p->rules != NULL));
	if (r->type == NUMBER_INT)
		return *(const int *) at;
	return r->type == NUMBER_NUM ? *(const double *) at : *(const bool *) at;
}

static void
number_set(const NumberRow *r, GenParams *p, double v)
{
	char	   *at = (r->where == IN_RULES ? (char *) genparams_rules(p) : (char *) p) + r->off;

	if (r->type == NUMBER_INT)
		*(int *) at = (int) v;
	else if (r->type == NUMBER_NUM)
		*(double *) at = v;
	else
		*(bool *) at = v != 0;
}

bool
genparams_number(GenParams *p, uint64_t *given, int tag, double v)
{
	for (int i = 0; i < GP_BITS; i++)
		if ((int) rows[i].tag == tag)
		{
			*given |= UINT64_C(1) << i;
			if (rows[i].where != IN_CODE)
				number_set(&rows[i], p, v);
			return rows[i].where != IN_CODE;
		}
	return false;
}

/* ---- the model's defaults ---- */

static void
add_id(IntVec *v, int64_t id, int n_valid)
{
	if (id < 0 || id >= n_valid)
		return;
	for (size_t i = 0; i < v->len; i++)
		if (v->data[i] == id)
			return;
	intvec_push(v, (int32_t) id);
}

static void
add_conf_ids(IntVec *v, const Conf *conf, const char *key, int n_valid)
{
	size_t		n;
	const double *ids = conf_nums(conf, key, &n);

	for (size_t i = 0; i < n; i++)
		if (ids[i] >= 0 && ids[i] < n_valid)
			add_id(v, (int64_t) ids[i], n_valid);
}

/* Return a number of generation_config, or dflt if it is absent or out of the parameter's range. */
static double
conf_default(const Conf *conf, const char *name, int tag, double dflt)
{
	char		key[64];
	double		v;
	Err			e;

	snprintf(key, sizeof(key), "generation.%s", name);
	v = conf_num(conf, key, dflt);
	if (v == dflt || param_in_range(tag, v, &e))
		return v;
	log_line('W', "ignoring %s: %s", key, e.msg);
	return dflt;
}

void
gendefaults_init(GenDefaults *d, const Conf *conf, const Tok *tok, int vocab_size)
{
	memset(d, 0, sizeof(*d));
	genparams_init(&d->params);
	for (int i = 0; i < GP_BITS; i++)
		if (rows[i].where == OF_MODEL)
			number_set(&rows[i], &d->params, conf_default(conf, field_range(rows[i].tag)->name, rows[i].tag,
														  number_get(&rows[i], &d->params)));
	d->repetition_penalty = conf_default(conf, "repetition_penalty", WTAG_REPETITION_PENALTY, 1);
	d->max_new_tokens = (int) conf_default(conf, "max_new_tokens", WTAG_MAX_TOKENS, 0);
	d->n_valid = tok_vocab_size(tok) < vocab_size ? tok_vocab_size(tok) : vocab_size;

	/* the first of these sources that names an id gives the primary EOS, as in vLLM */
	add_id(&d->eos_all, tok_eos(tok), d->n_valid);
	add_conf_ids(&d->eos_all, conf, "generation.eos_token_id", d->n_valid);
	add_conf_ids(&d->eos_all, conf, "eos_token_id", d->n_valid);
	d->eos = d->eos_all.len > 0 ? d->eos_all.data[0] : -1;
}

void
gendefaults_free(GenDefaults *d)
{
	intvec_free(&d->eos_all);
}

/* ---- GenParams ---- */

void
genparams_init(GenParams *p)
{
	memset(p, 0, sizeof(*p));
	for (int i = 0; i < GP_BITS; i++)
		if (rows[i].where != IN_CODE && rows[i].where != IN_RULES && !isnan(rows[i].dflt))
			number_set(&rows[i], p, rows[i].dflt);
	p->max_tokens = 16;
	p->out.logprobs = p->out.prompt_logprobs = LOGPROBS_NONE;
	p->out.length_penalty = 1;
}

LogitRules *
genparams_rules(GenParams *p)
{
	if (p->rules == NULL)
		p->rules = logit_rules_new();
	return p->rules;
}

const char *
finish_name(ReqFinish f)
{
	switch (f)
	{
		case FIN_STOP:
			return "stop";
		case FIN_LENGTH:
			return "length";
		case FIN_REPETITION:
			return "repetition";
		default:
			return NULL;
	}
}

bool
finish_cancelled(ReqFinish f, const Err *err)
{
	return f == FIN_ABORT || (f == FIN_ERROR && err != NULL && err->cls == ERR_CANCELLED);
}

void
genparams_free(GenParams *p)
{
	for (int i = 0; i < p->n_stop; i++)
		mem_free(p->stop[i]);
	mem_free(p->stop);
	mem_free(p->stop_len);
	mem_free(p->stop_ids);
	mem_free(p->min_ids);
	intvec_free(&p->out.logprob_ids);
	logit_rules_free(p->rules);
	mem_free(p->extra_args);
	mem_free(p->cache_salt);
	memset(p, 0, sizeof(*p));
}

/* ---- normalisation ---- */

static bool
bad_param(Err *e, const char *name)
{
	return err_detail(e, "parameter=%s", name);
}

static void
fill_defaults(GenParams *p, uint64_t given, const GenDefaults *d)
{
	for (int i = 0; i < GP_BITS; i++)
		if (rows[i].where == OF_MODEL && !(given & UINT64_C(1) << i))
			number_set(&rows[i], p, number_get(&rows[i], &d->params));
	if (!(given & GP(MAX_TOKENS)))
		p->max_tokens = INT_MAX;	/* as much as the context holds */

	if (!(given & GP(REPETITION_PENALTY)) && d->repetition_penalty != 1)
		genparams_rules(p)->repetition_penalty = d->repetition_penalty;

	if (p->temperature > 0 && p->temperature < COLDEST)
		p->temperature = COLDEST;
	if (p->has_seed && p->seed == -1)
		p->has_seed = false;
	if (p->top_k == -1)
		p->top_k = 0;
}

static bool
check_ranges(const GenParams *p, uint64_t given, Err *e)
{
	for (int i = 0; i < GP_BITS; i++)
		if ((rows[i].where == IN_PARAMS || rows[i].where == OF_MODEL) &&
			!param_in_range(rows[i].tag, number_get(&rows[i], p), e))
			return false;
	if ((given & GP(MAX_TOKENS)) && p->min_tokens > p->max_tokens)
	{
		err_set(e, ERR_INVALID, "min_tokens must be at most max_tokens (%d), got %d",
				p->max_tokens, p->min_tokens);
		return bad_param(e, "min_tokens");
	}
	return true;
}

static bool
check_repeats(GenParams *p, Err *e)
{
	if (p->repeat_max < 0 || p->repeat_min < 0 || p->repeat_min > p->repeat_max)
	{
		err_set(e, ERR_INVALID, "repetition_detection needs 0 <= min_pattern_size <= max_pattern_size, got "
								"%d and %d",
				p->repeat_min, p->repeat_max);
		return bad_param(e, "repetition_detection");
	}
	if (p->repeat_max > 0 && p->repeat_count < 2)
	{
		err_set(e, ERR_INVALID, "repetition_detection needs a min_count of at least 2, got %d",
				p->repeat_count);
		return bad_param(e, "repetition_detection");
	}
	if (p->repeat_max > 0 && p->repeat_min == 0)
		p->repeat_min = 1;
	return true;
}

static bool
check_stops(const GenParams *p, int n_valid, Err *e)
{
	for (int i = 0; i < p->n_stop; i++)
	{
		if (p->stop_len[i] > 0)
			continue;
		err_set(e, ERR_INVALID, "stop cannot contain an empty string");
		return bad_param(e, "stop");
	}
	if (p->n_stop > 0 && !p->detokenize)
	{
		err_set(e, ERR_INVALID, "stop strings are only supported when detokenize is true");
		return bad_param(e, "stop");
	}
	for (int i = 0; i < p->n_stop_ids; i++)
	{
		if (p->stop_ids[i] >= 0 && p->stop_ids[i] < n_valid)
			continue;
		err_set(e, ERR_INVALID, "stop_token_ids must be between 0 and %d, got %d",
				n_valid - 1, p->stop_ids[i]);
		return bad_param(e, "stop_token_ids");
	}
	return true;
}

/* Move a vector's memory to a plain array. */
static void
take_ids(IntVec *v, int32_t **ids, int *n)
{
	mem_free(*ids);
	*ids = v->data;
	*n = (int) v->len;
	memset(v, 0, sizeof(*v));
}

/* Remove duplicates from the user's stop ids, and append the model's EOS ids. */
static void
join_stop_ids(GenParams *p, const GenDefaults *d)
{
	IntVec		stop = {0};
	IntVec		min = {0};

	for (int i = 0; i < p->n_stop_ids; i++)
		add_id(&stop, p->stop_ids[i], d->n_valid);
	if (p->min_tokens > 0)
	{
		intvec_add(&min, stop.data, stop.len);
		for (size_t i = 0; i < d->eos_all.len; i++)
			add_id(&min, d->eos_all.data[i], d->n_valid);
	}
	/* not the primary EOS, whose stop reason is NULL */
	for (size_t i = 1; i < d->eos_all.len && !p->ignore_eos; i++)
		add_id(&stop, d->eos_all.data[i], d->n_valid);
	take_ids(&stop, &p->stop_ids, &p->n_stop_ids);
	take_ids(&min, &p->min_ids, &p->n_min_ids);
}

static bool
check_prompt(const Core *c, const IntVec *prompt, Err *e)
{
	int			n_vocab = core_info(c)->vocab_size;
	int			max_len = core_max_model_len(c);

	if (prompt->len == 0)
	{
		err_set(e, ERR_INVALID, "prompt is empty");
		return bad_param(e, "prompt");
	}
	if (prompt->len > (size_t) max_len)
		return err_set(e, ERR_TOO_LONG,
					   "prompt of %zu tokens is longer than the maximum model length of %d",
					   prompt->len, max_len);
	if (prompt->len == (size_t) max_len)
		return err_set(e, ERR_TOO_LONG,
					   "prompt of %zu tokens plus at least 1 output token is longer than the maximum model "
					   "length of %d", prompt->len, max_len);
	for (size_t i = 0; i < prompt->len; i++)
	{
		if (prompt->data[i] >= 0 && prompt->data[i] < n_vocab)
			continue;
		err_set(e, ERR_INVALID, "prompt token ids must be between 0 and %d, got %d",
				n_vocab - 1, prompt->data[i]);
		return bad_param(e, "prompt");
	}
	return true;
}

/* Cut max_tokens to the context and, unless the caller gave it, to the block pool. */
static bool
fit_max_tokens(const Core *c, GenParams *p, uint64_t given, int n_prompt, Err *e)
{
	const Sched *s = core_sched(c);
	int			room = core_max_model_len(c) - n_prompt;
	int			cap = core_defaults(c)->max_new_tokens;

	if (p->max_tokens > room)
		p->max_tokens = room;
	if (cap > 0 && p->max_tokens > cap)
		p->max_tokens = cap;
	if (!(given & GP(MAX_TOKENS)))
		while (p->max_tokens > 1 && !sched_fits(s, (int64_t) n_prompt + p->max_tokens))
			p->max_tokens--;
	if (p->min_tokens > p->max_tokens)
		p->min_tokens = p->max_tokens;
	return sched_must_fit(s, n_prompt, p->max_tokens, e);
}

bool
priority_check(int priority, bool priorities, Err *e)
{
	if (priority == 0 || priorities)
		return true;
	err_set(e, ERR_INVALID, "priority must be 0 while requests are served in turn, got %d", priority);
	bad_param(e, "priority");
	return err_hint(e, "Set vllm.scheduling_policy to priority, and load the model anew: "
					   "llm_unload_model().");
}

#define MAX_COPIED	(INT64_C(1) << 27)	/* limit of prompt tokens that are copied for all answers together */

/*
 * Check the limits of collected log-probabilities (of a prompt, and of one token of each answer) and of
 * copies of a prompt.
 */
static bool
check_entries(const Core *c, const OutParams *out, int64_t n_prompt, Err *e)
{
	LogprobWant prompt = {.top = out->prompt_logprobs};
	LogprobWant answers = {.top = out->logprobs,.ids = out->logprob_ids.data,
						   .n_ids = (int) out->logprob_ids.len};
	int			n_valid = core_defaults(c)->n_valid;
	int64_t		most = core_max_entries(c);

	if (out->n * n_prompt > MAX_COPIED)
	{
		err_set(e, ERR_TOO_LONG, "%d answers to a prompt of %lld tokens are too many", out->n,
				(long long) n_prompt);
		return bad_param(e, "n");
	}
	if (out->prompt_logprobs != LOGPROBS_NONE && n_prompt * logprobs_most(&prompt, n_valid) > most)
	{
		err_set(e, ERR_TOO_LONG, "prompt_logprobs of %lld tokens, %d each, are more than the maximum of %lld",
				(long long) n_prompt, logprobs_most(&prompt, n_valid), (long long) most);
		return bad_param(e, "prompt_logprobs");
	}
	if (out->logprobs != LOGPROBS_NONE && (int64_t) out->n * logprobs_most(&answers, n_valid) > most)
	{
		err_set(e, ERR_TOO_LONG, "logprobs of %d answers, %d for each token, are more than the maximum of "
								 "%lld", out->n,
				logprobs_most(&answers, n_valid), (long long) most);
		return bad_param(e, "logprobs");
	}
	return true;
}

bool
core_normalize(const Core *c, GenParams *p, uint64_t given, const IntVec *prompt, Err *e)
{
	const GenDefaults *d = core_defaults(c);

	if (!core_info(c)->generates)
	{
		err_set(e, ERR_UNSUPPORTED, "the model does not generate text");
		return err_hint(e, "It is for functions such as llm_embed, llm_score or llm_classify.");
	}
	fill_defaults(p, given, d);
	if (!check_ranges(p, given, e) || !check_stops(p, d->n_valid, e) || !check_repeats(p, e) ||
		(p->rules != NULL && !logit_rules_check(p->rules, core_tok(c), d->n_valid, e)) ||
		!plugins_check(core_plugins(c), p->extra_args, &p->plugins, e) ||
		!priority_check(p->priority, core_priorities(c), e) ||
		!outparams_check(&p->out, p->temperature, d->n_valid, core_max_logprobs(c), e))
		return false;
	/* logits processors do not support hypotheses */
	if (p->out.beam_width > 0 && p->plugins != 0)
	{
		err_set(e, ERR_UNSUPPORTED, "a beam search does not take logits processors");
		return err_hint(e, "A logits processor that vllm.logits_processors names applies to all requests. "
						   "Use n to sample several answers.");
	}
	if (p->temperature == 0)
	{
		p->top_p = 1;
		p->top_k = 0;
		p->min_p = 0;
	}
	if (p->top_k >= d->n_valid)
		p->top_k = 0;
	join_stop_ids(p, d);
	return check_prompt(c, prompt, e) && check_entries(c, &p->out, (int64_t) prompt->len, e) &&
		fit_max_tokens(c, p, given, (int) prompt->len, e);
}
