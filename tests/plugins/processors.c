/*
 * processors.c
 *	  Example logits processors, for the tests: nothing of the project is needed but
 *	  vllm_logits_processor.h.
 *
 *	favor		{"favor": ID, "by": NUMBER}		adds NUMBER (1000) to the logit of ID
 *	no_twice	{"no_twice": 1}					no token directly behind itself; has state
 *	sharpen		{"sharpen": FACTOR}				behind the temperature, times FACTOR
 *	broken		{"broken": 1}					fails; 2: makes NaN; 3: forbids everything; 4: ends the
 *												engine; 5: makes an infinity
 */
#include "vllm_logits_processor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SLOTS	4096

/* The number of a key; 0: there is no such key, -1: it is none.  Good enough for an example. */
static int
number_of(const char *args, const char *key, double *out)
{
	char		quoted[64];
	const char *at;
	char	   *end;

	snprintf(quoted, sizeof(quoted), "\"%s\"", key);
	at = args != NULL ? strstr(args, quoted) : NULL;
	if (at == NULL)
		return 0;
	at += strlen(quoted);
	at += strspn(at, " \t:");
	*out = strtod(at, &end);
	return end > at && isfinite(*out) ? 1 : -1;
}

typedef struct Example
{
	const char *key;
	int			vocab_size;
	int			seated[MAX_SLOTS];	/* 1 = there is a request */
	double		value[MAX_SLOTS];	/* its number */
	double		by[MAX_SLOTS];
} Example;

static int
validate_key(const char *key, const char *args, char *message, size_t size)
{
	double		v;
	int			has = number_of(args, key, &v);

	if (has < 0)
		snprintf(message, size, "%s must be a number", key);
	return has;
}

static void *
make(const char *key, const VllmLogitsConfig *config, char *message, size_t size)
{
	Example    *x = calloc(1, sizeof(*x));

	if (x == NULL)
		snprintf(message, size, "out of memory");
	else
	{
		x->key = key;
		x->vocab_size = config->vocab_size;
	}
	return x;
}

static void
update_state(void *self, const VllmBatchUpdate *update)
{
	Example    *x = self;

	for (int32_t i = 0; i < update->n_removed; i++)
		x->seated[update->removed[i]] = 0;
	for (int32_t i = 0; i < update->n_added; i++)
	{
		const VllmLogitsRequest *r = &update->added[i];

		if (r->slot >= MAX_SLOTS)
			abort();
		x->seated[r->slot] = 1;
		x->by[r->slot] = 1000;
		number_of(r->extra_args, x->key, &x->value[r->slot]);
		number_of(r->extra_args, "by", &x->by[r->slot]);
	}
}

/* ---- favor ---- */

static int
favor_validate(const char *args, char *message, size_t size)
{
	double		id = 0;
	int			has = number_of(args, "favor", &id);

	if (has < 0 || (has > 0 && (id < 0 || id != floor(id))))
	{
		snprintf(message, size, "favor must be a token id");
		return -1;
	}
	return has;
}

static void *
favor_init(const VllmLogitsConfig *c, char *message, size_t size)
{
	return make("favor", c, message, size);
}

static int
favor_apply(void *self, const VllmLogitsRow *rows, int32_t n)
{
	Example    *x = self;

	for (int32_t i = 0; i < n; i++)
	{
		if (!x->seated[rows[i].slot] || x->value[rows[i].slot] >= x->vocab_size)
			return 1;
		rows[i].logits[(int) x->value[rows[i].slot]] += (float) x->by[rows[i].slot];
	}
	return 0;
}

/* ---- no_twice ---- */

static int
no_twice_validate(const char *args, char *message, size_t size)
{
	return validate_key("no_twice", args, message, size);
}

static void *
no_twice_init(const VllmLogitsConfig *c, char *message, size_t size)
{
	return make("no_twice", c, message, size);
}

static int
no_twice_apply(void *self, const VllmLogitsRow *rows, int32_t n)
{
	Example    *x = self;

	for (int32_t i = 0; i < n; i++)
	{
		if (!x->seated[rows[i].slot])
			return 1;
		if (rows[i].n_output > 0)
			rows[i].logits[rows[i].output[rows[i].n_output - 1]] = -INFINITY;
	}
	return 0;
}

/* ---- sharpen ---- */

static int
sharpen_validate(const char *args, char *message, size_t size)
{
	return validate_key("sharpen", args, message, size);
}

static void *
sharpen_init(const VllmLogitsConfig *c, char *message, size_t size)
{
	return make("sharpen", c, message, size);
}

static int
sharpen_apply(void *self, const VllmLogitsRow *rows, int32_t n)
{
	Example    *x = self;

	for (int32_t i = 0; i < n; i++)
		for (int id = 0; id < x->vocab_size; id++)
			rows[i].logits[id] *= (float) x->value[rows[i].slot];
	return 0;
}

static int
yes(void *self)
{
	(void) self;
	return 1;
}

/* ---- broken ---- */

static int
broken_validate(const char *args, char *message, size_t size)
{
	return validate_key("broken", args, message, size);
}

static void *
broken_init(const VllmLogitsConfig *c, char *message, size_t size)
{
	return make("broken", c, message, size);
}

static int
broken_apply(void *self, const VllmLogitsRow *rows, int32_t n)
{
	Example    *x = self;

	for (int32_t i = 0; i < n; i++)
		switch ((int) x->value[rows[i].slot])
		{
			case 1:
				return 1;
			case 2:
				rows[i].logits[7] = NAN;
				break;
			case 3:
				for (int id = 0; id < x->vocab_size; id++)
					rows[i].logits[id] = -INFINITY;
				break;
			case 4:
				abort();
			case 5:
				rows[i].logits[7] = INFINITY;
				break;
		}
	return 0;
}

/* ---- what the engine asks for ---- */

#define ENTRY(symbol, invariant) \
static const VllmLogitsProcessor symbol##_processor = { \
	VLLM_LOGITS_ABI, sizeof(VllmLogitsProcessor), #symbol, symbol##_validate, symbol##_init, update_state, \
	symbol##_apply, NULL, invariant, free \
}; \
const VllmLogitsProcessor *symbol(uint32_t abi_version); \
const VllmLogitsProcessor * \
symbol(uint32_t abi_version) \
{ \
	return abi_version == VLLM_LOGITS_ABI ? &symbol##_processor : NULL; \
}

ENTRY(favor, NULL)
ENTRY(no_twice, NULL)
ENTRY(sharpen, yes)
ENTRY(broken, NULL)

/* of another version */
const VllmLogitsProcessor *too_new(uint32_t abi_version);
const VllmLogitsProcessor *
too_new(uint32_t abi_version)
{
	(void) abi_version;
	return NULL;
}
