/*
 * fake_ckpt.h
 *	  A quantized checkpoint of one matrix, made in memory.
 */
#ifndef VLLM_TESTS_FAKE_CKPT_H
#define VLLM_TESTS_FAKE_CKPT_H

#include <string.h>

#include "base/alloc.h"
#include "quant/ckpt/ckpt.h"
#include "tests/unit/check.h"

#define N 8
#define K 64
#define MAX 12

typedef struct Fake
{
	KTensor		t[MAX];
	char		names[MAX][64];
	uint8_t    *data[MAX];
	int			n;
} Fake;

static inline const KTensor *
fake_find(void *ctx, const char *name)
{
	Fake	   *f = ctx;

	for (int i = 0; i < f->n; i++)
		if (strcmp(f->names[i], name) == 0)
			return &f->t[i];
	return NULL;
}

static inline const char *
fake_where(void *ctx, const KTensor *t)
{
	(void) ctx;
	return t != NULL ? "dir/model.safetensors" : "dir";
}

static inline size_t
type_bytes(KType t)
{
	return t == KT_F32 || t == KT_I32 ? 4 : t == KT_I64 ? 8 : t == KT_F16 || t == KT_BF16 || t == KT_I16 ? 2 :
		1;
}

/* Add a tensor of zeros, or of this byte. */
static inline void *
add(Fake *f, const char *name, KType type, int ndim, int64_t d0, int64_t d1, int byte)
{
	int			i = f->n++;
	size_t		bytes = (size_t) (d0 * (ndim > 1 ? d1 : 1)) * type_bytes(type);

	snprintf(f->names[i], sizeof(f->names[i]), "%s", name);
	f->data[i] = mem_alloc(bytes);
	memset(f->data[i], byte, bytes);
	f->t[i] = (KTensor) {.name = f->names[i], .type = type, .ndim = ndim, .shape = {d0, d1},
						 .data = f->data[i], .nbytes = bytes};
	return f->data[i];
}

static inline KTensor *
get(Fake *f, const char *name)
{
	return (KTensor *) fake_find(f, name);
}

static inline void
clear(Fake *f)
{
	for (int i = 0; i < f->n; i++)
		mem_free(f->data[i]);
	f->n = 0;
}

/* Make GPTQ with groups of 32, symmetric, zero points 7 for 8. */
static inline void
make_gptq(Fake *f)
{
	clear(f);
	add(f, "m.qweight", KT_I32, 2, K / 8, N, 0x5a);
	add(f, "m.qzeros", KT_I32, 2, K / 32, N / 8, 0x77);
	add(f, "m.scales", KT_F16, 2, K / 32, N, 0x20);
	memset(add(f, "m.g_idx", KT_I32, 1, K, 0, 0), 0, K * 4);
	for (int i = 0; i < K; i++)
		((int32_t *) f->data[3])[i] = i / 32;
}

/* Open and bind module "m"; returns whether that worked. */
static inline bool
try(Fake *f, const char *json, const KTensor **t, Ckpt **c, Err *e)
{
	Conf	   *conf = conf_new();
	CkptFiles	files = {fake_find, fake_where, f};
	bool		ok;

	*e = (Err) {0};
	*t = NULL;
	conf_set_str(conf, "quantization_config", json);
	ok = ckpt_open(conf, &files, c, e) && ckpt_matrix(*c, "m", N, K, t, e);
	conf_free(conf);
	return ok;
}

static inline void
good(const char *what, Fake *f, const char *json, KType type)
{
	const KTensor *t;
	Ckpt	   *c;
	Err			e;
	bool		ok = try(f, json, &t, &c, &e);
	KType		got = t != NULL ? t->type : KT_COUNT;

	CHECK(ok && got == type, "%s: %s instead of %s: %s", what, ktype_name(got), ktype_name(type), e.msg);
	ckpt_close(c);
}

static inline void
refused(const char *what, Fake *f, const char *json, ErrClass cls, const char *msg)
{
	const KTensor *t;
	Ckpt	   *c;
	Err			e;
	bool		ok = try(f, json, &t, &c, &e);

	CHECK(!ok && e.cls == cls && strstr(e.msg, msg) != NULL, "%s: expected %s \"%s\", got %s \"%s\"", what,
		  err_sqlstate(cls), msg, ok ? "success" : err_sqlstate(e.cls), e.msg);
	ckpt_close(c);
}

/* Return the type that is offered in addition to Q8_0; got: its rows as floats. */
static inline KType
offer_of(Fake *f, const char *json, float *got)
{
	const KTensor *t;
	const KTensor *o;
	KType		type = KT_COUNT;
	uint8_t    *row;
	Ckpt	   *c;
	Err			e;

	CHECK(try(f, json, &t, &c, &e) && (t->type == KT_Q8_0 || t->type == KT_BF16), "%s: %s", json, e.msg);
	o = t != NULL ? t->reader->offer : NULL;
	if (o != NULL)
	{
		type = o->type;
		CHECK(o->nbytes == ktype_row_bytes(type, K) * N && o->nbytes * 10 <= t->nbytes * 6, "%s: %zu bytes",
			  ktype_name(type), o->nbytes);
		row = mem_alloc(ktype_row_bytes(type, K));
		for (int i = 0; i < N; i++)
		{
			o->reader->rows(o->reader, i, 1, 1, row);
			kblock_to_float(type, row, K, got + (size_t) i * K);
		}
		mem_free(row);
	}
	ckpt_close(c);
	return type;
}

#endif
