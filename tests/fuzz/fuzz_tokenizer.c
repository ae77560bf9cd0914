/*
 * fuzz_tokenizer.c
 *	  Tokenizer files of all kinds with arbitrary contents, and tok_encode(),
 *	  tok_encode_pair(), tok_decode() and Detok with whatever loads.
 *
 * The input is a tokenizer.json, a NUL, and a text; or a byte for the kind of the file
 * (below '{'), a byte for the length of the text, the text, and the file.  GGUF
 * vocabularies: fuzz_gguf.c.  A program that mutates the test's tokenizers with a seed:
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

enum
{
	KIND_SPM,
	KIND_TEKKEN,
	KIND_TIKTOKEN,
	N_KINDS
};

static Tok *
load_kind(int kind, const char *file, size_t n, Err *e)
{
	static const char qwen[] = "{\"tokenizer_class\":\"QWenTokenizer\"}";

	switch (kind)
	{
		case KIND_SPM:
			return tok_from_spm(file, n, NULL, 0, e);
		case KIND_TEKKEN:
			return tok_from_tekken(file, n, e);
		default:
			return tok_from_tiktoken(file, n, qwen, sizeof(qwen) - 1, e);
	}
}

static void
use(const Tok *t, const char *text, size_t n)
{
	IntVec		ids = {0};
	IntVec		types = {0};
	Buf			out = {0};
	Buf			parts = {0};
	Err			e = {0};
	Detok	   *d;

	if (tok_encode(t, text, n, TOK_ADD_SPECIAL, &ids, &e))
	{
		for (size_t i = 0; i < ids.len; i++)
			if (ids.data[i] < 0 || ids.data[i] >= tok_vocab_size(t))
				abort();
		tok_decode(t, ids.data, ids.len, TOK_SKIP_SPECIAL, &out);
		if (out.len > 0 && !uni_valid(out.data, out.len))
			abort();
		d = detok_new(t, NULL, 0, true);
		for (size_t i = 0; i < ids.len; i++)
			detok_push(d, ids.data[i], &parts);
		detok_finish(d, &parts);
		detok_free(d);
		if (parts.len != out.len || (out.len > 0 && memcmp(parts.data, out.data, out.len) != 0))
			abort();
	}
	else if (e.msg[0] == '\0')
		abort();
	intvec_reset(&ids);
	/* text that is not trusted never becomes a special token */
	if (tok_encode(t, text, n, TOK_NO_PARSE_SPECIAL, &ids, &e))
		tok_decode(t, ids.data, ids.len, 0, &out);
	intvec_reset(&ids);
	if (tok_encode_pair(t, text, n / 2, text + n / 2, n - n / 2, TOK_ADD_SPECIAL, &ids, &types, &e) &&
		ids.len != types.len)
		abort();
	intvec_free(&ids);
	intvec_free(&types);
	buf_free(&out);
	buf_free(&parts);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *file = (const char *) data;
	const char *text;
	size_t		len;
	size_t		n;
	Err			e = {0};
	Tok		   *t;

	if (size > 2 && data[0] < N_KINDS)
	{
		text = file + 2;
		n = data[1] < size - 2 ? data[1] : size - 2;
		t = load_kind(data[0], text + n, size - 2 - n, &e);
	}
	else
	{
		const uint8_t *nul = memchr(data, 0, size);

		len = nul != NULL ? (size_t) (nul - data) : size;
		text = nul != NULL ? (const char *) nul + 1 : file;
		n = nul != NULL ? size - len - 1 : size;
		t = tok_from_hf(file, len, NULL, 0, &e);
	}
	if (t == NULL)
	{
		if (e.cls == ERR_NONE || e.msg[0] == '\0')
			abort();
		return 0;
	}
	use(t, text, n < 4096 ? n : 4096);
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

/* Kind by the file's name; -1: tokenizer.json. */
static int
kind_of(const char *path)
{
	static const char *const ends[] = {".model", ".tekken", ".tiktoken"};

	for (int i = 0; i < N_KINDS; i++)
		if (strlen(path) > strlen(ends[i]) && strcmp(path + strlen(path) - strlen(ends[i]), ends[i]) == 0)
			return i;
	return -1;
}

int
main(int argc, char **argv)
{
	static const char text[] = "\0Hello <|im_start|> wort [MASK]  x 123's\n\n\xE4\xBD\xA0\xFF caf\xC3\xA9 e\xCC\x81\xEF\xAC\x81";
	long		rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 4000;
	unsigned	seed = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 1;
	glob_t		files;

	if (glob("tests/fixtures/tokenizers/*.[jmt][sioe][okd]*", 0, NULL, &files) != 0)
	{
		fprintf(stderr, "skipped 1: no fixtures, run from the repository root\n");
		printf("fuzz_tokenizer: 0 passed, 0 failed, 1 skipped\n");
		return 0;
	}
	for (long i = 0; i < rounds; i++)
	{
		const char *path = files.gl_pathv[(size_t) i % files.gl_pathc];
		int			kind = kind_of(path);
		Buf			b = load(path);
		Buf			in = {0};
		uint8_t    *exact;

		if ((size_t) i >= files.gl_pathc)	/* first each file as it is */
			mutate(&b, &seed);
		if (kind >= 0)
		{
			buf_addc(&in, (char) kind);
			buf_addc(&in, (char) (sizeof(text) - 2));
			buf_add(&in, text + 1, sizeof(text) - 2);
		}
		buf_add(&in, b.data, b.len);
		if (kind < 0)
			buf_add(&in, text, sizeof(text) - 1);
		/* a copy of just the size, so that reading past the end shows */
		exact = malloc(in.len);
		memcpy(exact, in.data, in.len);
		LLVMFuzzerTestOneInput(exact, in.len);
		free(exact);
		buf_free(&in);
		buf_free(&b);
	}
	printf("fuzz_tokenizer: %ld passed, 0 failed, 0 skipped\n", rounds);
	globfree(&files);
	return 0;
}

#endif
