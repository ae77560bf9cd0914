/*
 * fuzz_file.h
 *	  What the loader's fuzz programs share: fixtures as seeds, a mutator for
 *	  binary headers and JSON, the loop around LLVMFuzzerTestOneInput.
 */
#ifndef VLLM_TESTS_FUZZ_FILE_H
#define VLLM_TESTS_FUZZ_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "load/load.h"
#include "model/model.h"
#include "text/tokenizer.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline const KTensor *
fuzz_find(void *ctx, const char *name)
{
	return files_find(ctx, name);
}

static inline const KTensor *
fuzz_at(void *ctx, size_t i)
{
	return files_tensor(ctx, i);
}

/* What a load would touch: every byte of every tensor, the tokenizer, the model's
 * checks.  A failure must come with an error. */
static inline void
fuzz_use(Files *f, const Err *open_error)
{
	Err			e = {0};
	FilesTokenizer tok;
	ModelInfo	info;
	ModelSource src = {.find = fuzz_find, .at = fuzz_at, .ctx = f};
	unsigned	sum = 0;
	const KTensor *t;

	if (f == NULL)
	{
		if (open_error->cls == ERR_NONE || open_error->msg[0] == '\0')
			abort();
		return;
	}
	for (size_t i = 0; (t = files_tensor(f, i)) != NULL; i++)
	{
		for (size_t j = 0; j < t->nbytes; j++)
			sum += ((const uint8_t *) t->data)[j];
		files_check_tensor(f, t, &e);
		if (files_find(f, t->name) != t)
			abort();
	}
	if (sum == 1)				/* keeps the loop */
		putchar('.');
	files_tokenizer(f, &tok, &e);
	if (tok.gguf != NULL)
	{
		static const char text[] = "Hello 123's <s>\n\xE4\xBD\xA0\xFF e\xCC\x81\xEF\xAC\x81";
		IntVec		ids = {0};
		Buf			out = {0};
		Tok		   *t = tok_from_gguf(tok.gguf, &e);

		for (size_t i = 0; i < tok.gguf->n; i++)
			if (strlen(tok.gguf->tokens[i]) > tok.gguf->token_len[i])
				abort();
		if (t == NULL && e.msg[0] == '\0')
			abort();
		if (t != NULL && tok_encode(t, text, sizeof(text) - 1, TOK_ADD_SPECIAL, &ids, &e))
			tok_decode(t, ids.data, ids.len, 0, &out);
		intvec_free(&ids);
		buf_free(&out);
		tok_free(t);
	}
	e = (Err) {0};
	if (!model_check(files_conf(f), &src, NULL, NULL, &info, &e) && e.msg[0] == '\0')
		abort();
	files_close(f);
}

static inline void
fuzz_write(const char *path, const void *data, size_t size)
{
	FILE	   *f = fopen(path, "wb");

	if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
	{
		perror(path);
		exit(2);
	}
}

#ifndef FUZZ_LIBFUZZER

static Buf
fuzz_read(const char *path)
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

static void
fuzz_insert(Buf *b, size_t at, const char *s)
{
	size_t		n = strlen(s);

	buf_reserve(b, n);
	memmove(b->data + at + n, b->data + at, b->len - at);
	memcpy(b->data + at, s, n);
	b->len += n;
}

/* One to four changes, mostly within the first `head` bytes. */
static void
fuzz_mutate(Buf *b, size_t head, unsigned *seed)
{
	static const uint64_t numbers[] = {0, 1, 2, 31, 32, 33, 255, 256, 65536, 0x7fffffff, 0x80000000,
		0xffffffff, (uint64_t) 1 << 32, (uint64_t) 1 << 61, INT64_MAX, (uint64_t) 1 << 63, UINT64_MAX};
	static const char *const bits[] = {"\"", "{", "}", "[", "]", ",", ":", "null", "true", "-1", "1e300",
		"0", "9007199254740993", "\\u0000", "\"F32\"", "\"a\":{}", "0.5", "[[[["};

	for (int times = 1 + rand_r(seed) % 4; times > 0 && b->len > 32; times--)
	{
		size_t		span = rand_r(seed) % 8 == 0 || b->len < head ? b->len : head;
		size_t		at = (size_t) rand_r(seed) % (span - 8);
		size_t		n = 1 + (size_t) rand_r(seed) % 16;
		uint64_t	v = numbers[(size_t) rand_r(seed) % (sizeof(numbers) / sizeof(numbers[0]))];

		if (n > b->len - at)
			n = b->len - at;
		switch (rand_r(seed) % 6)
		{
			case 0:
				b->data[at] = (char) rand_r(seed);
				break;
			case 1:
				b->data[at] ^= (char) (1 << rand_r(seed) % 8);
				break;
			case 2:
				memcpy(b->data + at, &v, rand_r(seed) % 2 ? 8 : 4);
				break;
			case 3:
				memmove(b->data + at, b->data + at + n, b->len - at - n);
				b->len -= n;
				break;
			case 4:
				fuzz_insert(b, at, bits[(size_t) rand_r(seed) % (sizeof(bits) / sizeof(bits[0]))]);
				break;
			default:
				if (rand_r(seed) % 8 == 0)
					b->len = (size_t) rand_r(seed) % b->len;
		}
	}
}

/* main(): NAME [ROUNDS [SEED]] */
static inline int
fuzz_main(const char *name, int argc, char **argv, const char *const *seeds, int n_seeds, size_t head)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 2000;
	unsigned	seed = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 1;

	for (int s = 0; s < n_seeds; s++)
	{
		Buf			original = fuzz_read(seeds[s]);

		LLVMFuzzerTestOneInput((const uint8_t *) original.data, original.len);
		for (int i = 0; i < rounds / n_seeds; i++)
		{
			Buf			b = {0};
			uint8_t    *exact;

			buf_add(&b, original.data, original.len);
			fuzz_mutate(&b, head, &seed);
			/* a copy of just the size, so that reading past the end shows */
			exact = malloc(b.len ? b.len : 1);
			memcpy(exact, b.data, b.len);
			LLVMFuzzerTestOneInput(exact, b.len);
			free(exact);
			buf_free(&b);
		}
		buf_free(&original);
	}
	printf("%s: %d passed, 0 failed, 0 skipped\n", name, rounds / n_seeds * n_seeds + n_seeds);
	return 0;
}

#endif

#endif
