/*
 * fuzz_jinja.c
 *	  jin_compile() on arbitrary templates, and jin_render() if they compile.
 *
 * The input is a template, a NUL, and the JSON of its variable `messages`.  A program that mutates the
 * golden templates with a seed:
 *		fuzz_jinja [ROUNDS [SEED]], or --seeds DIR to write them as a corpus
 * or a libFuzzer target (clang -fsanitize=fuzzer -DFUZZ_LIBFUZZER).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "tests/unit/jinja_vars.h"
#include "text/unicode.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const JinLimits limits = {.steps = 200000,.memory = 16 << 20,.output = 1 << 20,.depth = 50};
	const char *source = (const char *) data;
	const uint8_t *nul = memchr(data, 0, size);
	size_t		len = nul != NULL ? (size_t) (nul - data) : size;
	const char *json = nul != NULL ? (const char *) nul + 1 : "[]";
	size_t		n = nul != NULL ? size - len - 1 : 2;
	Buf			clean = {0};
	Buf			out = {0};
	Buf			marks = {0};
	Err			e = {0};
	JinTemplate *t;
	Jin		   *j;

	/* other bytes are refused before anything else happens */
	uni_repair(source, len, &clean);
	t = jin_compile(clean.data != NULL ? clean.data : "", clean.len, &e);
	if (t == NULL && (e.cls == ERR_NONE || e.msg[0] == '\0'))
		abort();
	j = jin_new(&limits);
	if (t != NULL)
	{
		if (!set_json(j, "messages", json, n, true, &e))
			set_json(j, "messages", "[{\"role\": \"user\", \"content\": \"hi\"}]", 35, true, &e);
		set_json(j, "d", "{\"b\": 2, \"a\": [1, 2.5, null, \"x\"]}", 34, false, &e);
		set_str(j, "bos_token", "<s>", 3, false, &e);
		e = (Err) {0};
		if (jin_render(j, t, &out, &marks, &e))
		{
			if (out.len != marks.len || (out.len > 0 && !uni_valid(out.data, out.len)))
				abort();
		}
		else if (e.cls == ERR_NONE || e.msg[0] == '\0')
			abort();
	}
	jin_end(j);
	jin_free(t);
	buf_free(&clean);
	buf_free(&out);
	buf_free(&marks);
	return 0;
}

#ifndef FUZZ_LIBFUZZER

typedef struct Seeds
{
	char	  **v;
	size_t		n;
} Seeds;

/* Read the templates of a file made by jinja_golden.py. */
static void
load(const char *path, Seeds *s)
{
	FILE	   *f = fopen(path, "rb");
	char	   *line = NULL;
	size_t		cap = 0;

	if (f == NULL)
		return;
	while (getline(&line, &cap, f) > 0)
	{
		Json	   *row = json_parse(line, strlen(line));
		const Json *t = json_get(row, "t");

		if (t != NULL)
		{
			s->v = realloc(s->v, (s->n + 1) * sizeof(char *));
			s->v[s->n++] = strdup(t->s);
		}
		json_free(row);
	}
	free(line);
	fclose(f);
}

static void
insert(Buf *b, size_t at, const char *s, size_t n)
{
	buf_reserve(b, n);
	memmove(b->data + at + n, b->data + at, b->len - at);
	memcpy(b->data + at, s, n);
	b->len += n;
}

/* Make a few changes: bytes, pieces of the language, pieces of another template. */
static void
mutate(Buf *b, const Seeds *seeds, unsigned *seed)
{
	static const char *const bits[] = {"{{", "}}", "{%", "%}", "{#", "#}", "-", "+", "(", ")", "[", "]", "{",
									   "}", "|", ".", ",", ":",
		"'", "\"", "\\", "=", "==", "~", "**", "//", "%", "<", "1", "-1", "0", "99999999999", "1e308",
		"9223372036854775807", "none", "true", "x", "d", "d.a", "messages", "messages[0]", "loop",
		"loop.last", "loop.length", "loop(d.a)", "not ", " in ", " is ", " if ", " else ", "range(9)",
		"namespace(a=1)", "ns.a", "*[1]", "**d", "caller()", "varargs", "kwargs", "\n", "\r", "\xC3\x9F",
		"\xF0\x9F\x98\x80", "|map('upper')", "|select('odd')", "|list", "|join", "|sort", "|unique",
		"|tojson(indent=2)", "|round(2)", "|int", "|batch(2)", "|groupby('a')", "|first", "|reverse",
		"|string", "|format(1)", ".format(1, a=2)", "%(1, 2)", "[::-1]", "[1:]", ".split()", ".items()",
		".upper()", "*1000000", "{% for i in d.a %}", "{% endfor %}", "{% if x %}", "{% endif %}",
		"{% macro f(a, b=1) %}", "{% endmacro %}", "{{ f(1) }}", "{% set x %}", "{% endset %}",
		"{% call f(1) %}", "{% endcall %}", "{% break %}", "{% raw %}", "{% endraw %}", " recursive "};

	for (int times = 1 + rand_r(seed) % 5; times > 0; times--)
	{
		size_t		at = b->len > 0 ? (size_t) rand_r(seed) % b->len : 0;
		size_t		n = 1 + (size_t) rand_r(seed) % 12;
		const char *s;

		if (n > b->len - at)
			n = b->len - at;
		switch (rand_r(seed) % 5)
		{
			case 0:
				if (b->len > 0)
					b->data[at] = (char) rand_r(seed);
				break;
			case 1:
				memmove(b->data + at, b->data + at + n, b->len - at - n);
				b->len -= n;
				break;
			case 2:
				s = seeds->v[(size_t) rand_r(seed) % seeds->n];
				n = strlen(s) > 0 ? (size_t) rand_r(seed) % strlen(s) : 0;
				insert(b, at, s + n, strlen(s) - n < 40 ? strlen(s) - n : 40);
				break;
			default:
				s = bits[(size_t) rand_r(seed) % (sizeof(bits) / sizeof(bits[0]))];
				insert(b, at, s, strlen(s));
		}
	}
}

static void
save(const char *dir, long i, const Buf *b)
{
	char		path[512];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%04ld", dir, i);
	if ((f = fopen(path, "wb")) == NULL || fwrite(b->data, 1, b->len, f) != b->len || fclose(f) != 0)
	{
		perror(path);
		exit(2);
	}
}

int
main(int argc, char **argv)
{
	static const char json[] = "\0[{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", "
							   "\"content\": [{\"type\": \"text\", \"text\": \"b\"}]}]";
	const char *corpus = argc > 2 && strcmp(argv[1], "--seeds") == 0 ? argv[2] : NULL;
	long		rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 40000;
	unsigned	seed = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 1;
	Seeds		seeds = {0};

	load("tests/golden/jinja_cases.txt", &seeds);
	load("tests/golden/jinja_chats.txt", &seeds);
	if (seeds.n == 0)
	{
		fprintf(stderr, "skipped 1: no golden templates, run from the repository root\n");
		printf("fuzz_jinja: 0 passed, 0 failed, 1 skipped\n");
		return 0;
	}
	if (corpus != NULL)
		rounds = (long) seeds.n;
	for (long i = 0; i < rounds; i++)
	{
		const char *s = seeds.v[(size_t) i % seeds.n];
		Buf			b = {0};
		uint8_t    *exact;

		buf_add(&b, s, strlen(s));
		if ((size_t) i >= seeds.n)	/* first each template unchanged */
			mutate(&b, &seeds, &seed);
		buf_add(&b, json, sizeof(json) - 1);
		if (corpus != NULL)
		{
			save(corpus, i, &b);
			buf_free(&b);
			continue;
		}
		/* a copy of exactly the size, so that reading past the end is detected */
		exact = malloc(b.len);
		memcpy(exact, b.data, b.len);
		LLVMFuzzerTestOneInput(exact, b.len);
		free(exact);
		buf_free(&b);
	}
	for (size_t i = 0; i < seeds.n; i++)
		free(seeds.v[i]);
	free(seeds.v);
	if (corpus == NULL)
		printf("fuzz_jinja: 1 passed, 0 failed, 0 skipped, %ld inputs\n", rounds);
	return 0;
}

#endif
