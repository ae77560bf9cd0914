/*
 * sample_device.c
 *	  Rows that a device samples: the stages of sample.c as numbers and lists.
 *
 * Stages 0 to 5 forbid ids, whatever their logits.  This code computes one mask of the ids that they
 * leave, and decides whether the grammar wins if they would leave nothing.  Biases and penalties are
 * lists of the affected ids.  All input is in one buffer, for one copy: the rows' KSample, then their
 * arrays.
 *
 * Requests that need more are sampled on the host: those with logits processors, those with several
 * answers, whose first tokens come from one row, and those that want more log-probabilities than a
 * KSampled has.
 *
 * A core's buffer has a fixed size, so that no memory is allocated in a step.  Any row fits in it; if
 * not all rows of a step fit (many rows with grammars), the op is called several times.
 *
 * Owner: the step thread.  Tested by tests/unit/core/sample/test_sample_dev.c, and with the device's
 * sampler by tests/emu/test_sample.cu.
 */
#include "core/sample/sample_device.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static bool
wants_logprobs(const OutParams *o)
{
	return o->logprobs != LOGPROBS_NONE || o->logprob_ids.len > 0;
}

bool
smpdev_takes(const Req *r, bool return_processed)
{
	const OutParams *o = &r->in.params.out;

	if (r->in.params.plugins != 0 || r->group != NULL)
		return false;
	if (!wants_logprobs(o))
		return true;
	/* with a reasoning budget, another token may replace the sampled one */
	return !return_processed && r->reasoning_budget == NULL && o->logprob_ids.len == 0 && o->logprobs >= 0 &&
		o->logprobs <= KSAMPLE_TOP;
}

/* The input so far; words NULL: only count its size. */
typedef struct SampleDeviceStage
{
	uint32_t   *words;
	size_t		n;
} SampleDeviceStage;

static uint32_t
reserve(SampleDeviceStage *s, size_t n)
{
	uint32_t	at = (uint32_t) s->n;

	s->n += n;
	return at;
}

static bool
ends_too_soon(const SampleRow *row)
{
	return row->position < row->params->min_tokens && row->params->n_min_ids > 0;
}

/* Return true if stages 3 to 5 forbid ids. */
static bool
forbids(const SampleRow *row)
{
	return ends_too_soon(row) || (row->params->rules != NULL && logit_rules_forbid(row->params->rules));
}

/* Compute the mask of the ids that stages 0 to 5 leave; returns false if there are none. */
static bool
leave(const SampleRow *row, int n_valid, uint32_t *mask)
{
	const GenParams *p = row->params;
	const LogitRules *r = p->rules;
	int			n_words = (n_valid + 31) / 32;
	uint32_t	any = 0;

	for (int i = 0; i < n_words; i++)
	{
		mask[i] = row->mask != NULL ? row->mask[i] : UINT32_MAX;
		if (r != NULL && r->allowed_mask != NULL)
			mask[i] &= r->allowed_mask[i];
	}
	if (n_valid % 32 != 0)
		mask[n_words - 1] &= (UINT32_C(1) << n_valid % 32) - 1;
	if (r != NULL)
		logit_rules_ban_bits(r, row->tokens + row->n_prompt, row->n_tokens - row->n_prompt, mask, n_valid);
	if (ends_too_soon(row))
		for (int i = 0; i < p->n_min_ids; i++)
			if (p->min_ids[i] < n_valid)
				mask[p->min_ids[i] / 32] &= ~(UINT32_C(1) << p->min_ids[i] % 32);
	for (int i = 0; i < n_words; i++)
		any |= mask[i];
	return any != 0;
}

static void
stage_masks(SampleDeviceStage *s, const SampleRow *row, int n_valid, KSample *k)
{
	size_t		n = ((size_t) n_valid + 31) / 32;

	if (row->mask != NULL)
	{
		k->given_at = k->mask_at = reserve(s, n);
		if (s->words != NULL)
			memcpy(s->words + k->given_at, row->mask, n * sizeof(uint32_t));
	}
	if (forbids(row))
	{
		uint32_t	at = reserve(s, n);

		/* otherwise the grammar wins, if there is one */
		if (s->words != NULL && (leave(row, n_valid, s->words + at) || row->mask == NULL))
			k->mask_at = at;
	}
}

static void
stage_rules(SampleDeviceStage *s, const SampleRow *row, int n_valid, KSample *k)
{
	const LogitRules *r = row->params->rules;
	int32_t    *ids;

	k->n_bias = r->n_bias;
	k->bias_at = reserve(s, 2 * (size_t) r->n_bias);
	if (s->words != NULL && r->n_bias > 0)
	{
		memcpy(s->words + k->bias_at, r->bias_ids, (size_t) r->n_bias * sizeof(int32_t));
		memcpy(s->words + k->bias_at + r->n_bias, r->bias, (size_t) r->n_bias * sizeof(float));
	}
	logit_rules_factors(r, &k->presence, &k->frequency, &k->repetition);
	k->n_pen = logit_rules_counts(r, row->counts, row->tokens, row->n_prompt, row->n_tokens, n_valid, NULL,
								  NULL);
	k->pen_at = reserve(s, 2 * (size_t) k->n_pen);
	if (s->words == NULL || k->n_pen == 0)
		return;
	ids = (int32_t *) s->words + k->pen_at;
	logit_rules_counts(r, row->counts, row->tokens, row->n_prompt, row->n_tokens, n_valid, ids,
					   ids + k->n_pen);
}

static KSample
stage_row(SampleDeviceStage *s, const SmpDevRow *d, int n_valid)
{
	const GenParams *p = d->row->params;
	KSample		k = {
		.row = d->at, .pos = (uint32_t) d->row->position, .seed = d->row->seed, .top_p = p->top_p,
		.top_k = p->top_k, .inv_t = p->temperature > 0 ? (float) (1.0 / p->temperature) : 0,
		.min_p_log = smp_least_z(p), .n_logprobs = -1, .repetition = 1
	};

	if (d->out != NULL && d->out->logprobs >= 0)
	{
		k.n_logprobs = d->out->logprobs;
		k.as_logits = d->out->logits;
	}
	stage_masks(s, d->row, n_valid, &k);
	if (p->rules != NULL)
		stage_rules(s, d->row, n_valid, &k);
	return k;
}

size_t
smpdev_stage(const SmpDevRow *rows, int n, int n_valid, void *buffer)
{
	SampleDeviceStage s = {.words = buffer, .n = (size_t) n * (sizeof(KSample) / sizeof(uint32_t))};
	KSample    *to = buffer;

	_Static_assert(sizeof(KSample) % sizeof(uint64_t) == 0, "arrays lie behind them in words");
	for (int i = 0; i < n; i++)
	{
		KSample		k = stage_row(&s, &rows[i], n_valid);

		if (to != NULL)
			to[i] = k;
	}
	return s.n * sizeof(uint32_t);
}

/* ---- sampler of a core ---- */

struct DevSampler
{
	const Kernels *k;
	KPool	   *pool;
	SmpDevSizes o;
	HostDev		in;				/* written by smpdev_stage() */
	HostDev		out;			/* [o.rows] KSampled */
	SmpDevRow  *rows;			/* [o.rows] */
	int			n;				/* rows of the next run */
};

static int
lesser(int a, int b)
{
	return a < b ? a : b;
}

/* Return the most words of one row: two masks, biases and counts of different ids. */
static size_t
most_words(const SmpDevSizes *o)
{
	return sizeof(KSample) / sizeof(uint32_t) + 2 * (((size_t) o->n_valid + 31) / 32) +
		2 * (size_t) o->n_valid + 2 * (size_t) lesser(o->tokens, o->n_valid);
}

bool
smpdev_new(DevSampler **s, const Dev *dev, KPool *pool, const SmpDevSizes *o, Err *e)
{
	size_t		rows = (size_t) o->rows;
	DevSampler *d;

	*s = NULL;
	if (dev == NULL || dev->k->sample == NULL || o->width > KSAMPLE_MAX_WIDTH)
		return true;
	*s = d = mem_zalloc(sizeof(*d));
	d->k = dev->k;
	d->pool = pool;
	d->o = *o;
	d->rows = mem_alloc(rows * sizeof(SmpDevRow));
	return hostdev_new(&d->in, dev, most_words(o) + rows * (sizeof(KSample) / sizeof(float)),
					   "rows to sample", e) &&
		hostdev_new(&d->out, dev, rows * (sizeof(KSampled) / sizeof(float)), "tokens", e);
}

void
smpdev_free(DevSampler *s)
{
	if (s == NULL)
		return;
	hostdev_free(&s->in);
	hostdev_free(&s->out);
	mem_free(s->rows);
	mem_free(s);
}

void
smpdev_drop(DevSampler *s)
{
	if (s == NULL)
		return;
	hostdev_drop(&s->in);
	hostdev_drop(&s->out);
}

bool
smpdev_back(DevSampler *s, Err *e)
{
	return s == NULL || (hostdev_back(&s->in, e) && hostdev_back(&s->out, e));
}

const KSampled *
smpdev_add(DevSampler *s, const SampleRow *row, const OutParams *out, int at)
{
	ALWAYS(s->n < s->o.rows);
	s->rows[s->n] = (SmpDevRow) {.row = row, .out = out, .at = at};
	return (const KSampled *) (const void *) s->out.host + s->n++;
}

/* Return the number of rows from `from` on that fit in the buffer: at least one. */
static int
fit(const DevSampler *s, int from)
{
	size_t		left = s->in.n * sizeof(float);
	int			n = 0;

	for (int i = from; i < s->n; i++, n++)
	{
		size_t		size = smpdev_stage(&s->rows[i], 1, s->o.n_valid, NULL);

		if (size > left)
			break;
		left -= size;
	}
	return n;
}

void
smpdev_run(DevSampler *s, float *logits)
{
	for (int i = 0, n; i < s->n; i += n)
	{
		size_t		size;

		n = fit(s, i);
		/* most_words() ensures that one row fits */
		ALWAYS(n > 0);
		size = smpdev_stage(&s->rows[i], n, s->o.n_valid, s->in.host);
		hostdev_put(&s->in, 0, size / sizeof(float));
		s->k->sample(s->pool, s->in.dev, n, logits, s->o.width, s->o.n_valid,
					 (KSampled *) (void *) s->out.dev + i);
	}
	hostdev_get(&s->out, 0, (size_t) s->n * (sizeof(KSampled) / sizeof(float)));
	s->n = 0;
}
