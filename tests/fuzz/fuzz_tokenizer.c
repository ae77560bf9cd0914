/*
 * fuzz_tokenizer.c
 *	  tok_from_hf() on arbitrary files, and tok_encode()/tok_decode() with
 *	  whatever loads.
 *
 * The input is a tokenizer.json, a NUL, and a text.  A program that mutates the
 * test's tokenizers with a seed:
 *		fuzz_tokenizer [ROUNDS [SEED]]
 * or a libFuzzer target (clang -fsanitize=fuzzer -DFUZZ_LIBFUZZER).
 */
#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/detok.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *json = (const char *) data;
	const uint8_t *nul = memchr(data, 0, size);
	size_t		len = nul != NULL ? (size_t) (nul - data) : size;
	const char *text = nul != NULL ? (const char *) nul + 1 : json;
	size_t		n = nul != NULL ? size - len - 1 : size;
	Err			e = {0};
	IntVec		ids = {0};
	Buf			out = {0};
	Tok		   *t = tok_from_hf(json, len, NULL, 0, &e);

	if (n > 4096)
		n = 4096;
	if (t == NULL)
	{
		if (e.cls == ERR_NONE || e.msg[0] == '\0')
			abort();
		return 0;
	}
	if (tok_encode(t, text, n, TOK_ADD_SPECIAL, &ids, &e))
	{
		for (size_t i = 0; i < ids.len; i++)
			if (ids.data[i] < 0 || ids.data[i] >= tok_vocab_size(t))
				abort();
		tok_decode(t, ids.data, ids.len, TOK_SKIP_SPECIAL, &out);
		if (out.len > 0 && !uni_valid(out.data, out.len))
			abort();
	}
	intvec_reset(&ids);
	/* text that is not trusted never becomes a special token */
	if (tok_encode(t, text, n, TOK_NO_PARSE_SPECIAL, &ids, &e))
		tok_decode(t, ids.data, ids.len, 0, &out);
	intvec_free(&ids);
	buf_free(&out);
	tok_free(t);
	return 0;
}

#ifndef FUZZ_LIBFUZZER

static Buf
load(const char *path)
{
	FILE	   *f = fopen(path, "rb");
	Buf			b = {0};
	char		block[4096];
	size_t		n;

	if (f == NULL)
	{
		perror(path);
		exit(2);
	}
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		buf_add(&b, block, n);
	fclose(f);
	return b;
}

/* Change a few bytes: overwrite, cut, repeat, or put in what JSON is made of. */
static void
mutate(Buf *b, unsigned *seed)
{
	static const char *const bits[] = {"\"", "{", "}", "[", "]", ",", ":", "null", "true", "-1", "1e9", "0", "\\u0000",
	"\\ud800", "99999", "\xE2\x96\x81", " ", "\"a b\"", "<0x00>", "\"type\":\"Sequence\","};
	int			times = 1 + rand_r(seed) % 4;

	while (times-- > 0 && b->len > 16)
	{
		/* the big vocabulary shouldn't get all the mutations: half go to the ends */
		size_t		span = rand_r(seed) % 2 ? b->len : (b->len < 3000 ? b->len : 3000);
		size_t		at = (size_t) rand_r(seed) % span;
		size_t		n = 1 + (size_t) rand_r(seed) % 12;

		if (rand_r(seed) % 4 == 0)
			at = b->len - 1 - at;
		if (n > b->len - at)
			n = b->len - at;
		switch (rand_r(seed) % 4)
		{
			case 0:
				b->data[at] = (char) rand_r(seed);
				break;
			case 1:
				memmove(b->data + at, b->data + at + n, b->len - at - n);
				b->len -= n;
				break;
			case 2:
				{
					const char *s = bits[(size_t) rand_r(seed) % (sizeof(bits) / sizeof(bits[0]))];

					n = strlen(s);
					buf_reserve(b, n);
					memmove(b->data + at + n, b->data + at, b->len - at);
					memcpy(b->data + at, s, n);
					b->len += n;
					break;
				}
			default:
				memmove(b->data + at, b->data + (size_t) rand_r(seed) % (b->len - n + 1), n);
				break;
		}
	}
}

int
main(int argc, char **argv)
{
	static const char text[] = "\0Hello <|im_start|> wort [MASK]  x 123's\n\n\xE4\xBD\xA0\xFF caf\xC3\xA9";
	long		rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 4000;
	unsigned	seed = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 1;
	glob_t		files;

	if (glob("tests/fixtures/tokenizers/*.json", 0, NULL, &files) != 0)
	{
		fprintf(stderr, "skipped 1: no fixtures, run from the repository root\n");
		printf("fuzz_tokenizer: 0 passed, 0 failed, 1 skipped\n");
		return 0;
	}
	for (long i = 0; i < rounds; i++)
	{
		Buf			b = load(files.gl_pathv[(size_t) i % files.gl_pathc]);

		if ((size_t) i >= files.gl_pathc)	/* first each file as it is */
			mutate(&b, &seed);
		buf_add(&b, text, sizeof(text) - 1);
		LLVMFuzzerTestOneInput((const uint8_t *) b.data, b.len);
		buf_free(&b);
	}
	globfree(&files);
	printf("fuzz_tokenizer: %ld passed, 0 failed, 0 skipped\n", rounds);
	return 0;
}

#endif
