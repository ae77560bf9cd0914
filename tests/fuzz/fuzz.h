/*
 * fuzz.h
 *	  The harness of the fuzz programs.
 *
 * Each program defines three functions: how many seeds there are, the i-th of them, and a change of an
 * input that keeps its form.  From these the harness makes
 *
 *	- with -DFUZZ_LIBFUZZER, a libFuzzer target with a mutator of its own (scripts/fuzz.sh);
 *	- otherwise a program: NAME [ROUNDS [SEED]] runs changed seeds, and NAME --seeds DIR
 *	  writes the seeds as a corpus.
 */
#ifndef VLLM_TESTS_FUZZ_H
#define VLLM_TESTS_FUZZ_H

#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

size_t		fuzz_count(void);
void		fuzz_seed(size_t i, Buf *b);
void		fuzz_change(Buf *b, unsigned *seed);

/* An error must have a class and a message. */
static inline void
fuzz_failed(const Err *e)
{
	if (e->cls == ERR_NONE || e->msg[0] == '\0')
		abort();
}

static inline size_t
fuzz_below(unsigned *seed, size_t n)
{
	return n > 0 ? (size_t) rand_r(seed) % n : 0;
}

static inline Buf
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

/*
 * List the files of these patterns, once, in the order of their names; must run from the repository's
 * root.
 */
static inline const glob_t *
fuzz_files(const char *const *patterns)
{
	static glob_t files;

	if (files.gl_pathv == NULL)
	{
		for (int i = 0; patterns[i] != NULL; i++)
			glob(patterns[i], i > 0 ? GLOB_APPEND : 0, NULL, &files);
		if (files.gl_pathc == 0)
		{
			fprintf(stderr, "no fixtures: run from the repository's root\n");
			exit(2);
		}
	}
	return &files;
}

/* ---- changes ---- */

/* Replace bytes at .. at + n - 1 by s. */
static inline void
fuzz_replace(Buf *b, size_t at, size_t n, const char *s, size_t len)
{
	at = at < b->len ? at : b->len;
	n = n < b->len - at ? n : b->len - at;
	buf_reserve(b, len);
	memmove(b->data + at + len, b->data + at + n, b->len - at - n);
	memcpy(b->data + at, s, len);
	b->len += len - n;
}

/* Return the end of the JSON value that begins at `at`. */
static inline size_t
fuzz_json_end(const char *s, size_t n, size_t at)
{
	int			depth = 0;
	bool		quoted = false;

	for (; at < n; at++)
	{
		if (quoted)
		{
			if (s[at] == '\\')
				at++;
			else if (s[at] == '"')
			{
				quoted = false;
				if (depth == 0)
					return at + 1;
			}
		}
		else if (s[at] == '"')
			quoted = true;
		else if (s[at] == '[' || s[at] == '{')
			depth++;
		else if (s[at] == ']' || s[at] == '}')
		{
			if (depth == 0)
				return at;
			if (--depth == 0)
				return at + 1;
		}
		else if (s[at] == ',' && depth == 0)
			return at;
	}
	return n;
}

/* Find the first value after `at`; false if there is none. */
static inline bool
fuzz_json_value(const char *s, size_t n, size_t at, size_t *begin, size_t *end)
{
	while (at < n && s[at] != ':' && s[at] != '[' && s[at] != ',')
		at++;
	if (++at >= n)
		return false;
	while (at < n && s[at] == ' ')
		at++;
	*begin = at;
	*end = fuzz_json_end(s, n, at);
	return true;
}

/* Values that replace others in JSON. */
static const char *const fuzz_values[] = {
	"0", "1", "-1", "2", "3", "4", "5", "8", "16", "32", "64", "255", "256", "1000", "65536", "16777217",
	"2147483647", "2147483648", "4294967296", "9007199254740993", "18446744073709551616", "1e308", "-1e308",
	"1e400", "1e-320", "0.5", "0.25", "1.5", "-0.0", "NaN", "true", "false", "null", "\"\"", "\"x\"", "\"1\"",
	"[]", "{}", "[1]", "[0,1]", "[1,0,1]", "[1e308,-1,2.5]", "[[[[[[]]]]]]", "[null,\"a\",{}]",
	"[\"full_attention\",\"sliding_attention\"]", "{\"a\":{\"b\":[{}]}}", "{\"type\":\"Sequence\"}",
	"\"\\u0000\"", "\"\\ud800\"", "\"\\uFFFF\"", "\"F32\"", "\"F16\"", "\"BF16\"", "\"F8_E4M3\"",
	"\"F8_E5M2\"", "\"U8\"", "\"I8\"", "\"I32\"", "\"I64\"", "\"F8_E8M0\"", "\"BOOL\"", "\"yarn\"",
	"\"llama3\"", "\"longrope\"", "\"dynamic\"", "\"linear\"", "\"silu\"", "\"gelu\"", "\"relu2\"",
	"\"sigmoid\"", "\"softmax\"", "\"noaux_tc\"", "\"group_limited_greedy\"", "\"gptq\"", "\"awq\"",
	"\"fp8\"", "\"bitsandbytes\"", "\"compressed-tensors\"", "\"mxfp4\"", "\"<0x00>\"", "\"\xE2\x96\x81\"",
	"\" \"", "\"(?:a+)+$\"", "\"\\\\p{L}{1,3}\"", "\"[\"", "\"a b\"", "\"AAAA\""
};

/* A change that keeps JSON valid: values are removed, inserted, replaced or swapped. */
static inline void
fuzz_json(Buf *b, size_t span, unsigned *seed)
{
	size_t		begin;
	size_t		end;
	size_t		from;
	size_t		to;
	const char *s;
	Buf			copy = {0};

	if (b->len < 2 || !fuzz_json_value(b->data, b->len, fuzz_below(seed, span < b->len ? span : b->len),
									   &begin, &end))
		return;
	switch (rand_r(seed) % 6)
	{
		case 0:					/* replaced by another value of the text */
			if (!fuzz_json_value(b->data, b->len, fuzz_below(seed, b->len), &from, &to) || to - from > 4096)
				break;
			buf_add(&copy, b->data + from, to - from);
			fuzz_replace(b, begin, end - begin, copy.len > 0 ? copy.data : "", copy.len);
			break;
		case 1:					/* removed, with its comma */
			fuzz_replace(b, begin, end - begin + (end < b->len && b->data[end] == ','), "", 0);
			break;
		case 2:					/* duplicated */
			if (end - begin > 4096)
				break;
			buf_addc(&copy, ',');
			buf_add(&copy, b->data + begin, end - begin);
			fuzz_replace(b, end, 0, copy.data, copy.len);
			break;
		case 3:					/* a digit changed */
			if (end > begin)
				b->data[begin + fuzz_below(seed, end - begin)] = (char) ('0' + rand_r(seed) % 10);
			break;
		default:
			s = fuzz_values[fuzz_below(seed, sizeof(fuzz_values) / sizeof(fuzz_values[0]))];
			fuzz_replace(b, begin, end - begin, s, strlen(s));
	}
	buf_free(&copy);
}

/* Change random bytes within the first `span`. */
static inline void
fuzz_bytes(Buf *b, size_t span, unsigned *seed)
{
	static const uint64_t numbers[] = {0, 1, 2, 31, 32, 33, 255, 256, 65536, 0x7fffffff, 0x80000000,
		0xffffffff, (uint64_t) 1 << 32, (uint64_t) 1 << 61, INT64_MAX, (uint64_t) 1 << 63, UINT64_MAX};
	uint64_t	v = numbers[fuzz_below(seed, sizeof(numbers) / sizeof(numbers[0]))];
	size_t		at = fuzz_below(seed, span < b->len ? span : b->len);
	size_t		n = 1 + fuzz_below(seed, 16);

	if (b->len == 0)
		return;
	switch (rand_r(seed) % 6)
	{
		case 0:
			b->data[at] = (char) rand_r(seed);
			break;
		case 1:
			b->data[at] ^= (char) (1 << rand_r(seed) % 8);
			break;
		case 2:
			n = rand_r(seed) % 2 ? 8 : 4;
			fuzz_replace(b, at, n, (const char *) &v, n);
			break;
		case 3:
			fuzz_replace(b, at, n, "", 0);
			break;
		case 4:
			fuzz_replace(b, at, 0, (const char *) &v, 1 + fuzz_below(seed, 8));
			break;
		default:
			if (rand_r(seed) % 8 == 0)
				b->len = fuzz_below(seed, b->len);
	}
}

/* ---- the two kinds of program ---- */

/* libFuzzer has a main() of its own */
#ifdef FUZZ_LIBFUZZER

#define FUZZ_MAIN(name, rounds)

size_t		LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t		LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	Buf			b = {0};

	if (seed % 4 == 0)
		return LLVMFuzzerMutate(data, size, max);
	buf_add(&b, data, size);
	for (int times = 1 + rand_r(&seed) % 3; times > 0; times--)
		fuzz_change(&b, &seed);
	size = b.len < max ? b.len : max;
	if (size > 0)
		memcpy(data, b.data, size);
	buf_free(&b);
	return size;
}

#else

static void
fuzz_corpus(const char *dir)
{
	for (size_t i = 0; i < fuzz_count(); i++)
	{
		Buf			b = {0};
		Buf			path = {0};

		fuzz_seed(i, &b);
		buf_printf(&path, "%s/%04zu", dir, i);
		fuzz_write(path.data, b.data, b.len);
		buf_free(&b);
		buf_free(&path);
	}
}

static int
fuzz_main(const char *name, int argc, char **argv, long rounds)
{
	unsigned	seed = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 1;

	if (argc > 2 && strcmp(argv[1], "--seeds") == 0)
	{
		fuzz_corpus(argv[2]);
		return 0;
	}
	if (argc > 1)
		rounds = strtol(argv[1], NULL, 10);
	for (long i = 0; i < rounds; i++)
	{
		size_t		n = fuzz_count();
		Buf			b = {0};
		uint8_t    *exact;

		fuzz_seed((size_t) i % n, &b);
		/* first each seed unchanged */
		for (int times = (size_t) i < n ? 0 : 1 + rand_r(&seed) % 4; times > 0; times--)
			fuzz_change(&b, &seed);
		/* a copy of exactly the size, so that reading past the end is detected */
		exact = malloc(b.len > 0 ? b.len : 1);
		if (b.len > 0)
			memcpy(exact, b.data, b.len);
		LLVMFuzzerTestOneInput(exact, b.len);
		free(exact);
		buf_free(&b);
	}
	printf("%s: 1 passed, 0 failed, 0 skipped, %ld inputs\n", name, rounds);
	return 0;
}

#define FUZZ_MAIN(name, rounds) \
int \
main(int argc, char **argv) \
{ \
	return fuzz_main(name, argc, argv, rounds); \
}

#endif

#endif
