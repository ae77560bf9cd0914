/*
 * gram.c
 *	  Time of masks, for bench/gram.
 *
 *	 gram [-s SCHEMAS.jsonl] [-n COUNT] [-v] VOCABULARY ...
 *
 * The tokens are those of all vocabularies (tokenizer.json or GGUF), without duplicates.  For each
 * grammar a matching text is walked twice, taking the longest token at each step: cold, with a grammar
 * just compiled, and warm, the same text again.  SCHEMAS: lines {"schema", "tests": [{"valid",
 * "data"}]}, of which the first valid instance is walked (in schema order); -n: at most COUNT schemas.
 * -v: a line for each.  All times are of one thread, in microseconds.
 */
#include <getopt.h>

#include "base/json/json.h"
#include "../tests/unit/gguf_vocab.h"
#include "../tests/unit/tok_util.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "grammar/grammar.h"

typedef struct Times
{
	double	   *us;
	size_t		n,
				cap;
} Times;

typedef struct Vocab
{
	GramToken  *token;
	size_t		n;
	GramVocab  *v;
	uint32_t   *slot;			/* hash of bytes to id + 1 */
	size_t		cap;
} Vocab;

static bool verbose;

static void
add_time(Times *t, int64_t ns)
{
	if (t->n == t->cap)
	{
		t->cap = t->cap > 0 ? t->cap * 2 : 1024;
		t->us = realloc(t->us, t->cap * sizeof(double));
	}
	t->us[t->n++] = (double) ns / 1000;
}

static int
by_value(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static double
quantile(Times *t, double q)
{
	if (t->n == 0)
		return 0;
	qsort(t->us, t->n, sizeof(double), by_value);
	return t->us[(size_t) (q * (double) (t->n - 1))];
}

static void
print_times(const char *what, Times *t)
{
	double		sum = 0;

	for (size_t i = 0; i < t->n; i++)
		sum += t->us[i];
	printf("%-8s n %zu  mean %.1f  p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f us\n", what, t->n,
		   sum / (double) (t->n > 0 ? t->n : 1), quantile(t, 0.5), quantile(t, 0.9), quantile(t, 0.99),
		   quantile(t, 0.999), quantile(t, 1));
}

/* ---- vocabulary ---- */

static uint32_t *
slot_of(Vocab *v, const char *s, size_t n)
{
	uint64_t	h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t) s[i]) * 1099511628211u;
	for (h &= v->cap - 1; v->slot[h] != 0; h = (h + 1) & (v->cap - 1))
		if (v->token[v->slot[h] - 1].len == n && memcmp(v->token[v->slot[h] - 1].bytes, s, n) == 0)
			break;
	return &v->slot[h];
}

static bool
add_vocabulary(Vocab *v, const char *path)
{
	size_t		len = strlen(path);
	Err			e = {0};
	Tok		   *t = NULL;
	GgufVocab	g;
	Buf			b = {0};

	if (len > 5 && strcmp(path + len - 5, ".gguf") == 0)
	{
		if (gguf_vocab_read(path, &g))
		{
			t = tok_from_gguf(&g.v, &e);
			gguf_vocab_free(&g);
		}
	}
	else if (read_file(path, &b))
		t = tok_from_hf(b.data, b.len, NULL, 0, &e);
	if (t == NULL)
	{
		fprintf(stderr, "gram: %s: %s\n", path, e.msg);
		return false;
	}
	for (int32_t i = 0; i < tok_vocab_size(t); i++)
	{
		size_t		n;
		const char *s = tok_piece(t, i, &n);
		uint32_t   *slot;

		if (tok_is_special(t, i) || s == NULL || n == 0 || *(slot = slot_of(v, s, n)) != 0 ||
			v->n + 2 > v->cap / 2)
			continue;
		v->token[v->n] = (GramToken) {mem_strndup(s, n), n, false};
		*slot = (uint32_t) ++v->n;
	}
	buf_free(&b);
	tok_free(t);
	return true;
}

/* ---- texts ---- */

/* Return the longest allowed token that continues the text; -1 = none. */
static int32_t
next_token(Vocab *v, const char *s, size_t n, const uint32_t *words)
{
	for (size_t len = n < 64 ? n : 64; len > 0; len--)
	{
		uint32_t	id = *slot_of(v, s, len);

		if (id > 0 && (words[(id - 1) / 32] >> ((id - 1) % 32) & 1))
			return (int32_t) id - 1;
	}
	return -1;
}

/* Walk a text; returns false if it doesn't match. */
static bool
walk(Grammar *g, Vocab *v, const char *text, Times *times, uint32_t *words, double *worst)
{
	GramMatch  *m = gram_match_new(g, v->v);
	size_t		n = strlen(text);
	Err			e = {0};
	bool		ok = true;

	*worst = 0;
	for (size_t at = 0; ok && at <= n;)
	{
		int64_t		start = clock_ns();
		int32_t		id;

		ok = gram_match_mask(m, words, &e);
		add_time(times, clock_ns() - start);
		*worst = times->us[times->n - 1] > *worst ? times->us[times->n - 1] : *worst;
		if (at == n)
		{
			ok = ok && gram_match_accepting(m);
			break;
		}
		id = ok ? next_token(v, text + at, n - at, words) : -1;
		if (id < 0)
		{
			ok = false;
			break;
		}
		gram_match_token(m, id, &ok, &e);
		at += v->token[id].len;
	}
	gram_match_free(m);
	return ok;
}

typedef struct Result
{
	Times		compile;
	Times		compile_large;	/* of specifications of 10 KB and more */
	Times		cold;
	Times		warm;
	size_t		refused,
				misfits;
	size_t		memory;
} Result;

static void
measure(const GramSpec *s, const char *text, const char *name, Vocab *v, Result *r, uint32_t *words)
{
	int64_t		start = clock_ns();
	Err			e = {0};
	Grammar    *g = grammar_new(s, &e);
	size_t		n_cold = r->cold.n;
	size_t		n_warm = r->warm.n;
	double		cold;
	double		warm;

	if (g == NULL)
	{
		r->refused++;
		if (verbose)
			printf("%-40.40s refused: %s\n", name, e.msg);
		return;
	}
	add_time(&r->compile, clock_ns() - start);
	if (s->len >= 10000)
		add_time(&r->compile_large, (int64_t) (r->compile.us[r->compile.n - 1] * 1000));
	if (!walk(g, v, text, &r->cold, words, &cold))
	{
		r->misfits++;
		r->cold.n = n_cold;
		if (verbose)
			printf("%-40.40s does not fit\n", name);
	}
	else
	{
		walk(g, v, text, &r->warm, words, &warm);
		if (verbose)
			printf("%-40.40s %5zu tokens, compile %8.0f, cold %8.1f max %8.0f, warm max %6.1f us, %zu KB\n",
				   name, r->warm.n - n_warm, r->compile.us[r->compile.n - 1],
				   r->cold.us[n_cold + (r->cold.n - n_cold) / 2], cold, warm, grammar_memory(g) / 1024);
		r->memory = grammar_memory(g) > r->memory ? grammar_memory(g) : r->memory;
	}
	grammar_unref(g);
}

static const char json_grammar[] =
"root ::= ws value ws\n"
"value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
"object ::= \"{\" ws (pair (ws \",\" ws pair)*)? ws \"}\"\n"
"pair ::= string ws \":\" ws value\n"
"array ::= \"[\" ws (value (ws \",\" ws value)*)? ws \"]\"\n"
"string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\"\n"
"number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\n"
"ws ::= [ \\t\\n]{0,20}\n";

static const char calc_grammar[] =
"start: expr\n?expr: expr (\"+\" | \"-\") term | term\n?term: term (\"*\" | \"/\") factor | factor\n"
"?factor: NUMBER | NAME | \"-\" factor | \"(\" expr \")\"\nNAME: /[a-z_][a-z0-9_]*/\n%import "
"common.NUMBER\n%import common.WS_INLINE\n%ignore WS_INLINE\n";

static const char tags_spec[] =
"{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"<tool\"], \"tags\": [{\"begin\": "
"\"<tool=add>\", \"content\": {\"type\": \"regex\", \"pattern\": \"\\\\{\\\"a\\\": [0-9]{1,9}, \\\"b\\\": "
"[0-9]{1,9}\\\\}\"}, \"end\": \"</tool>\"}]}}";

static const struct
{
	const char *name;
	GramKind	kind;
	const char *spec;
	const char *text;
}			cases[] = {
	{"JSON in EBNF", GRAM_GRAMMAR, json_grammar,
	"{\"name\": \"Ada Lovelace\", \"born\": 1815, \"tags\": [\"mathematics\", \"computing\", \"na\xC3\xAFve "
	"\\u00e9\"],\n \"nested\": {\"a\": [1, 2.5, -3e10, true, null], \"b\": {}}}"},
	{"expressions in Lark", GRAM_GRAMMAR, calc_grammar,
	 "(alpha + 3.25) * -beta_2 / (17 - gamma * (x + y)) + 100000"},
	{"structural tags", GRAM_STRUCTURAL_TAG, tags_spec,
	 "Let me compute this. <tool=add>{\"a\": 12, \"b\": 345}</tool> The sum is 357, I think."},
	{"email", GRAM_REGEX, "[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}",
	 "first.last+tag@mail.example.org"},
	{"date and time", GRAM_REGEX, "\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d+)?(Z|[+-]\\d{2}:\\d{2})",
	 "2024-02-29T23:59:59.125+01:00"},
	{"at most 200 characters", GRAM_REGEX, ".{1,200}",
	 "The quick brown fox jumps over the lazy dog and keeps running through the long sentences of this "
	 "benchmark until it is tired."},
	{"words", GRAM_REGEX, "(\\w+[ ,.])*",
	 "Every word is followed by one character which is a space or a comma or a dot."},
	{"no digits", GRAM_REGEX, "[^0-9]*",
	 "Some free text without any of them, but with punctuation: (a) first, (b) second; and so on."}
};

static void
schemas(const char *path, size_t count, Vocab *v, Result *r, uint32_t *words)
{
	Buf			b = {0};
	size_t		pos = 0;
	char	   *line;

	if (!read_file(path, &b))
	{
		fprintf(stderr, "gram: can't read %s\n", path);
		exit(1);
	}
	for (size_t i = 0; i < count && (line = next_line(&b, &pos)) != NULL; i++)
	{
		Json	   *row = json_parse(line, strlen(line));
		const Json *test;
		const Json *name = json_get(row, "name");
		char	   *schema = json_print(json_get(row, "schema"));

		json_each(test, json_get(row, "tests"))
			if (json_is_true(json_get(test, "valid")))
			{
				GramSpec	s = {.kind = GRAM_JSON_SCHEMA,.text = schema,.len = strlen(schema)};
				char	   *text = json_print(json_get(test, "data"));

				measure(&s, text, json_is_string(name) ? name->s : "?", v, r, words);
				mem_free(text);
				break;
			}
		mem_free(schema);
		json_free(row);
	}
	buf_free(&b);
}

static void
print_result(const char *what, Result *r)
{
	printf("%s: %zu grammars, %zu refused, %zu texts that don't fit, largest %zu KB\n", what,
		   r->compile.n + r->refused, r->refused, r->misfits, r->memory / 1024);
	print_times("compile", &r->compile);
	if (r->compile_large.n > 0)
		print_times("10 KB +", &r->compile_large);
	print_times("cold", &r->cold);
	print_times("warm", &r->warm);
}

int
main(int argc, char **argv)
{
	static const char usage[] = "usage: gram [-s SCHEMAS.jsonl] [-n COUNT] [-v] VOCABULARY ...\n";
	Vocab		v = {.cap = 1 << 20};
	const char *path = NULL;
	size_t		count = SIZE_MAX;
	Result		r = {0};
	Result		rs = {0};
	uint32_t   *words;
	int32_t		end;
	int64_t		start;
	int			o;

	while ((o = getopt(argc, argv, "s:n:v")) != -1)
		switch (o)
		{
			case 's':
				path = optarg;
				break;
			case 'n':
				count = strtoul(optarg, NULL, 10);
				break;
			case 'v':
				verbose = true;
				break;
			default:
				fputs(usage, stderr);
				return 2;
		}
	if (optind == argc)
	{
		fputs(usage, stderr);
		return 2;
	}
	v.token = calloc(v.cap, sizeof(GramToken));
	v.slot = calloc(v.cap, sizeof(uint32_t));
	for (int i = optind; i < argc; i++)
		if (!add_vocabulary(&v, argv[i]))
			return 1;
	end = (int32_t) v.n++;
	start = clock_ns();
	v.v = gram_vocab_new(v.token, v.n, &end, 1);
	printf("%zu tokens, tries made in %.0f ms\n", v.n, (double) (clock_ns() - start) / 1e6);
	words = calloc(gram_vocab_words(v.v) + 1, sizeof(uint32_t));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		GramSpec	s = {.kind = cases[i].kind,.text = cases[i].spec,.len = strlen(cases[i].spec)};

		measure(&s, cases[i].text, cases[i].name, &v, &r, words);
	}
	print_result("grammars", &r);
	if (path != NULL)
	{
		schemas(path, count, &v, &rs, words);
		print_result("schemas", &rs);
	}
	for (size_t i = 0; i + 1 < v.n; i++)
		mem_free((void *) v.token[i].bytes);
	gram_vocab_unref(v.v);
	free(v.token);
	free(v.slot);
	free(words);
	return 0;
}
