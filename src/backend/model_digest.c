/*
 * model_digest.c
 *	  The identity of a model, for callers that keep what it has computed.
 *
 * modeldigest_new() reads the small text files while the model is loaded, since the digest must be of
 * what was loaded.  Weights are read when a caller asks for the digest for the first time, which takes
 * as long as reading their files.  The files must then still be those that were loaded, by their times
 * and their tensors.
 *
 * Tested by tests/t/124_pinned.pl.
 */
#include "backend/model_digest.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"

struct ModelDigest
{
	pthread_mutex_t reading;	/* held by the one thread that reads the weights; others wait for it */
	pthread_mutex_t lock;		/* protects the fields below; never held for long */
	char	   *path;
	char	   *contents;		/* files_contents_id() at the time of the load */
	bool		texts_read;
	uint8_t		texts[BLAKE2_BYTES];
	Err			why;			/* if not texts_read: why */
	Buf			options;
	unsigned	adopted;		/* how many times the instance has got other weights */
	bool		known;
	char		hex[MODEL_DIGEST];
};

/* ---- options; an option that is not given adds nothing, so new options do not change old digests ---- */

static void
put_INT(Buf *b, const char *name, int v)
{
	if (v != 0)
		buf_printf(b, "%s=%d\n", name, v);
}

static void
put_SWITCH(Buf *b, const char *name, int v)
{
	put_INT(b, name, v);
}

static void
put_NUM(Buf *b, const char *name, double v)
{
	if (v != 0)
		buf_printf(b, "%s=%.17g\n", name, v);
}

static void
put_TEXT(Buf *b, const char *name, const char *v)
{
	if (v[0] != '\0')
		buf_printf(b, "%s=%zu:%s\n", name, strlen(v), v);
}

static void
add_options(const ModelOpts *o, Buf *b)
{
#define PUT_NO_KEY(type, name, member)
#define PUT_KEY(type, name, member)
#define PUT_VECTORS(type, name, member) put_##type(b, #name, o->member);
#define OPT(name, type, member, least, most, key, must) PUT_##key(type, name, member)
#include "runtime/model_options.def"
#undef OPT
#undef PUT_NO_KEY
#undef PUT_KEY
#undef PUT_VECTORS
}

/* ---- the digest ---- */

ModelDigest *
modeldigest_new(const Files *files, const char *path, const ModelOpts *o)
{
	ModelDigest *d = mem_zalloc(sizeof(ModelDigest));

	pthread_mutex_init(&d->reading, NULL);
	pthread_mutex_init(&d->lock, NULL);
	d->path = mem_strdup(path);
	d->contents = files_contents_id(files);
	d->texts_read = files_digest_texts(path, d->texts, &d->why);
	add_options(o, &d->options);
	return d;
}

void
modeldigest_free(ModelDigest *d)
{
	if (d == NULL)
		return;
	pthread_mutex_destroy(&d->reading);
	pthread_mutex_destroy(&d->lock);
	mem_free(d->path);
	mem_free(d->contents);
	buf_free(&d->options);
	mem_free(d);
}

void
modeldigest_adopt(ModelDigest *d, const ModelDigest *from)
{
	ASSERT(d != from);
	pthread_mutex_lock(&d->lock);
	mem_free(d->path);
	mem_free(d->contents);
	d->path = mem_strdup(from->path);
	d->contents = mem_strdup(from->contents);
	d->adopted++;
	d->known = false;
	pthread_mutex_unlock(&d->lock);
}

bool
modeldigest_known(ModelDigest *d)
{
	bool		known;

	pthread_mutex_lock(&d->lock);
	known = d->known;
	pthread_mutex_unlock(&d->lock);
	return known;
}

static void
to_hex(const uint8_t sum[BLAKE2_BYTES], char hex[MODEL_DIGEST])
{
	for (int i = 0; i < BLAKE2_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

void
modeldigest_of_text(const char *text, size_t n, char hex[MODEL_DIGEST])
{
	uint8_t		sum[BLAKE2_BYTES];
	Blake2		b;

	blake2_begin(&b, NULL, 0);
	blake2_add(&b, text, n);
	blake2_end(&b, sum);
	to_hex(sum, hex);
}

static bool
read_weights(const char *path, const char *contents, uint8_t sum[BLAKE2_BYTES], Err *e)
{
	Files	   *files = files_open(path, e);
	char	   *now = files != NULL ? files_contents_id(files) : NULL;
	bool		ok = false;

	if (now != NULL && strcmp(now, contents) != 0)
	{
		err_set(e, ERR_NOT_READY, "the files of the model have changed since it was loaded");
		err_hint(e, "llm_unload_model() lets the next call load them.");
	}
	else if (now != NULL)
		ok = files_digest_weights(files, sum, e);
	mem_free(now);
	files_close(files);
	return ok;
}

/* The caller holds d->reading. */
static bool
compute(ModelDigest *d, Err *e)
{
	uint8_t		weights[BLAKE2_BYTES];
	uint8_t		sum[BLAKE2_BYTES];
	char	   *path;
	char	   *contents;
	unsigned	adopted;
	bool		ok;
	Blake2		b;

	pthread_mutex_lock(&d->lock);
	path = mem_strdup(d->path);
	contents = mem_strdup(d->contents);
	adopted = d->adopted;
	pthread_mutex_unlock(&d->lock);
	ok = read_weights(path, contents, weights, e);
	mem_free(path);
	mem_free(contents);
	if (!ok)
		return false;
	blake2_begin(&b, NULL, 0);
	blake2_add(&b, d->texts, sizeof(d->texts));
	blake2_add(&b, weights, sizeof(weights));
	blake2_add(&b, d->options.data != NULL ? d->options.data : "", d->options.len);
	blake2_end(&b, sum);
	pthread_mutex_lock(&d->lock);
	if (d->adopted == adopted)
	{
		to_hex(sum, d->hex);
		d->known = true;
	}
	else
		ok = err_set(e, ERR_NOT_READY, "the model's weights have been replaced meanwhile");
	pthread_mutex_unlock(&d->lock);
	return ok;
}

bool
modeldigest_get(ModelDigest *d, char hex[MODEL_DIGEST], Err *e)
{
	bool		ok = true;

	if (!d->texts_read)
	{
		*e = d->why;
		return false;
	}
	if (!modeldigest_known(d))
	{
		pthread_mutex_lock(&d->reading);
		ok = modeldigest_known(d) || compute(d, e);
		pthread_mutex_unlock(&d->reading);
	}
	pthread_mutex_lock(&d->lock);
	memcpy(hex, d->hex, MODEL_DIGEST);
	pthread_mutex_unlock(&d->lock);
	return ok;
}
