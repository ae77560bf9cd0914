/*
 * tokenize.c
 *	  Encoding speed of one thread, for bench/tokenize.
 *
 *	 tokenize TOKENIZER TEXTS SECONDS
 *
 * TEXTS: documents, each ended by a NUL.  Prints bytes a second and, so that the other library's result
 * can be compared, the number of ids and their FNV-1a hash.
 */
#include <time.h>

#include "../tests/unit/gguf_vocab.h"
#include "../tests/unit/tok_util.h"

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static Tok *
load(const char *path, Err *e)
{
	size_t		n = strlen(path);
	Buf			b = {0};
	Tok		   *t = NULL;
	GgufVocab	g;

	if (n > 5 && strcmp(path + n - 5, ".gguf") == 0)
	{
		if (gguf_vocab_read(path, &g))
		{
			t = tok_from_gguf(&g.v, e);
			gguf_vocab_free(&g);
		}
	}
	else if (read_file(path, &b))
		t = tok_from_hf(b.data, b.len, NULL, 0, e);
	buf_free(&b);
	return t;
}

/* Encode all documents once; *ids is reset for each and gets its ids. */
static uint32_t
pass(const Tok *t, const Buf *texts, IntVec *ids, size_t *count)
{
	uint32_t	h = FNV_START;
	Err			e = {0};

	*count = 0;
	for (size_t i = 0; i < texts->len;)
	{
		size_t		n = strlen(texts->data + i);

		intvec_reset(ids);
		if (!tok_encode(t, texts->data + i, n, TOK_ADD_SPECIAL, ids, &e))
		{
			fprintf(stderr, "tokenize: %s\n", e.msg);
			exit(1);
		}
		*count += ids->len;
		if (ids->len > 0)
			h = (h ^ (uint32_t) ids->data[ids->len / 2]) * 0x01000193u;
		i += n + 1;
	}
	return h;
}

int
main(int argc, char **argv)
{
	Buf			texts = {0};
	Err			e = {0};
	IntVec		ids = {0};
	size_t		count;
	double		seconds = argc > 3 ? atof(argv[3]) : 0;
	double		best = 0;
	double		start;
	uint32_t	h;
	Tok		   *t;

	if (argc != 4 || seconds <= 0)
	{
		fprintf(stderr, "usage: tokenize TOKENIZER TEXTS SECONDS\n");
		return 2;
	}
	t = load(argv[1], &e);
	if (t == NULL || !read_file(argv[2], &texts))
	{
		fprintf(stderr, "tokenize: %s: %s\n", argv[1], e.msg);
		return 1;
	}
	h = pass(t, &texts, &ids, &count);
	start = now();
	do
	{
		double		a = now();
		double		rate;

		pass(t, &texts, &ids, &count);
		rate = (double) texts.len / (now() - a);
		best = rate > best ? rate : best;
	} while (now() - start < seconds);
	printf("{\"bytes_s\": %.0f, \"ids\": %zu, \"hash\": %u}\n", best, count, h);
	intvec_free(&ids);
	buf_free(&texts);
	tok_free(t);
	return 0;
}
