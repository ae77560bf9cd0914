/*
 * test_gram_mask.c
 *	  Masks against trying every token, rollback and forks against new matches, forced bytes against the
 *	  mask, a grammar that is reset, special and end tokens.
 */
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"
#include "grammar/grammar_internal.h"
#include "grammar/schema/json_schema.h"

#define VOCAB	400
#define END		1

typedef struct Vocab
{
	char		bytes[VOCAB][24];
	GramToken	token[VOCAB];
	GramVocab  *v;
} Vocab;

/*
 * Make a vocabulary: pieces of the text, bytes, equal ones, parts of characters; 0 is special, 1 the
 * end, 2 empty.
 */
static void
vocab_make(Vocab *v, const char *alphabet, unsigned *seed)
{
	static const char *const extra[] = {"\xC3", "\xA9", "\xC3\xA9", "\xF0\x9F", "\x98\x80", "\xE4\xB8",
										"\xAD", "\"", "\":", ",\"", "{\"", "\"}", "\\", "\\u", "00", "1",
										"12", "}", "[", "]", " ", "  ", "\n"};
	size_t		n = strlen(alphabet);
	int32_t		end[1] = {END};

	memset(v, 0, sizeof(*v));
	for (int i = 0; i < VOCAB; i++)
	{
		size_t		len = i == 2 ? 0 : 1 + (size_t) rand_r(seed) % (i % 5 == 0 ? 14 : 4);

		if (i >= 3 && i < 3 + (int) (sizeof(extra) / sizeof(extra[0])))
			strcpy(v->bytes[i], extra[i - 3]);
		else if (i >= 30 && i < 30 + (int) n)
			v->bytes[i][0] = alphabet[i - 30];
		else if (i >= VOCAB - 20)	/* a duplicate */
			strcpy(v->bytes[i], v->bytes[rand_r(seed) % (VOCAB - 20)]);
		else
			for (size_t k = 0; k < len; k++)
				v->bytes[i][k] = alphabet[(size_t) rand_r(seed) % n];
		v->token[i] = (GramToken) {v->bytes[i], strlen(v->bytes[i]), i == 0};
	}
	strcpy(v->bytes[0], "a");
	v->token[0].len = 1;
	v->v = gram_vocab_new(v->token, VOCAB, end, 1);
}

static bool
bit(const uint32_t *words, int i)
{
	return words[i / 32] >> (i % 32) & 1;
}

/* The mask equals the result of a new match for each token; returns how many are allowed. */
static int
check_mask(GramMatch *m, const Vocab *v, const char *what)
{
	uint32_t	words[(VOCAB + 31) / 32];
	Err			e = {0};
	int			n = 0;
	int			wrong = 0;

	CHECK(gram_match_mask(m, words, &e), "%s: %s", what, e.msg);
	for (int i = 0; i < VOCAB; i++)
	{
		GramMatch  *one = gram_match_fork(m);
		bool		ok = false;
		bool		want;

		if (i == END)
			want = gram_match_accepting(m) && gram_match_steps(m) < 10000;
		else if (i == 0 || v->token[i].len == 0)
			want = false;
		else
		{
			want = gram_match_bytes(one, v->bytes[i], v->token[i].len, &ok, &e) && ok;
		}
		if (bit(words, i) != want)
		{
			wrong++;
			fprintf(stderr, "%s: token %d \"%s\": %d\n", what, i, v->bytes[i], want);
		}
		gram_match_free(one);
		n += want;
	}
	for (size_t i = VOCAB; i < 32 * gram_vocab_words(v->v); i++)
		wrong += words[i / 32] >> (i % 32) & 1;
	CHECK(wrong == 0, "%s: %d bits", what, wrong);
	return n;
}

/* The forced text is the text that all allowed tokens have in common. */
static void
check_forced(GramMatch *m, const Vocab *v, const char *what)
{
	Buf			forced = {0};
	Err			e = {0};
	bool		ok;

	CHECK(gram_match_forced(m, 40, &forced, &e), "%s: %s", what, e.msg);
	if (forced.len > 0)
	{
		uint32_t	words[(VOCAB + 31) / 32];
		int			wrong = 0;

		CHECK(!gram_match_accepting(m), "%s: forced at an end", what);
		gram_match_mask(m, words, &e);
		for (int i = 0; i < VOCAB; i++)
		{
			size_t		n = v->token[i].len < forced.len ? v->token[i].len : forced.len;

			wrong += bit(words, i) && memcmp(v->bytes[i], forced.data, n) != 0;
		}
		CHECK(wrong == 0, "%s: %d tokens differ from \"%s\"", what, wrong, forced.data);
		CHECK(gram_match_bytes(m, forced.data, forced.len, &ok, &e) && ok, "%s: \"%s\"", what, forced.data);
		gram_match_rollback(m, 1);
	}
	buf_free(&forced);
}

/* A random walk by tokens with checks at each step; rolls back now and then. */
static void
walk(Grammar *g, const Vocab *v, const char *what, unsigned *seed)
{
	GramMatch  *m = gram_match_new(g, v->v);
	int32_t		taken[100];
	size_t		n = 0;
	Err			e = {0};
	bool		ok;

	while (n < 25)
	{
		uint32_t	words[(VOCAB + 31) / 32];
		int			allowed = check_mask(m, v, what);
		int			k;
		int32_t		id = 0;

		CHECK(allowed > 0 || gram_match_steps(m) > 0, "%s: a dead end", what);
		if (n % 4 == 0)
			check_forced(m, v, what);
		if (allowed == 0)
			break;
		gram_match_mask(m, words, &e);
		for (k = rand_r(seed) % allowed; k >= 0; id++)
			k -= bit(words, id);
		id--;
		CHECK(gram_match_token(m, id, &ok, &e) && ok, "%s: token %d", what, id);
		taken[n++] = id;
		if (id == END)
			break;
		if (rand_r(seed) % 4 == 0)
		{
			size_t		back = (size_t) rand_r(seed) % (n + 1);
			GramMatch  *again = gram_match_new(g, v->v);
			GramMatch  *fork = gram_match_fork(m);
			uint32_t	w2[(VOCAB + 31) / 32];
			uint32_t	w3[(VOCAB + 31) / 32];

			gram_match_rollback(fork, back);
			for (size_t i = 0; i < n - back; i++)
				CHECK(gram_match_token(again, taken[i], &ok, &e) && ok, "%s: again", what);
			gram_match_mask(fork, words, &e);
			gram_match_mask(again, w2, &e);
			CHECK(memcmp(words, w2, sizeof(words)) == 0, "%s: %zu of %zu back", what, back, n);
			for (size_t i = n - back; i < n; i++)
				CHECK(gram_match_token(fork, taken[i], &ok, &e) && ok, "%s: forth", what);
			gram_match_mask(fork, w2, &e);
			gram_match_mask(m, w3, &e);
			CHECK(memcmp(w3, w2, sizeof(words)) == 0, "%s: forth again", what);
			gram_match_free(again);
			gram_match_free(fork);
		}
	}
	gram_match_free(m);
}

static Grammar *
make(GramKind kind, const char *text)
{
	GramSpec	s = {.kind = kind,.text = text,.len = strlen(text)};
	Err			e = {0};
	Grammar    *g = grammar_new(&s, &e);

	CHECK(g != NULL, "%s: %s", text, e.msg);
	return g;
}

static const struct
{
	GramKind	kind;
	const char *text;
}			specs[] = {
	{GRAM_REGEX, "(a|ab|abc)*c"}, {GRAM_REGEX, "a{2,5}b{3}(c|ab){0,2}"}, {GRAM_REGEX, "[^a]*"},
	{GRAM_REGEX, "(\xC3\xA9|\xF0\x9F\x98\x80|\xE4\xB8\xAD)+"},
	{GRAM_REGEX, "[a-c]{0,9}x?"}, {GRAM_REGEX, ".{1,30}"}, {GRAM_REGEX, "(abcabc){1,4}"},
	{GRAM_REGEX, "a*b*c*"}, {GRAM_REGEX, "abcabcabc|abcabcabd"},
	{GRAM_GRAMMAR, "root ::= a b | c\na ::= \"a\" a | \"\"\nb ::= b \"b\" | \"b\"\nc ::= \"c\" root \"a\""},
	{GRAM_GRAMMAR, "root ::= \"(\" root \")\" root | \"a\"? | [bc]+ "},
	{GRAM_GRAMMAR, "root ::= e\ne ::= e \"a\" e | \"b\" | \"c\" e \"c\""},
	{GRAM_GRAMMAR, "root ::= x{2,4} | x \"c\"{3,} root?\nx ::= \"a\" | \"ab\" | x2\nx2 ::= \"b\" x \"b\""},
	{GRAM_GRAMMAR, "root ::= obj\nobj ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= str \":\" val\nstr ::= "
				   "\"\\\"\" [^\"]* \"\\\"\"\nval ::= str | [0-9]+ | obj | \"[\" (val (\",\" val)*)? \"]\""},
	{GRAM_GRAMMAR, "start: (A | B)* \"c\"\nA: \"a\"\nB: /b+/\n%ignore \" \""},
	{GRAM_GRAMMAR, "start: x | y\nx: \"a\" x \"b\" | \"ab\"\ny: \"a\" y \"c\" | \"ac\""},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"ab\"], \"tags\": "
						  "[{\"begin\": \"abc\", \"content\": {\"type\": \"regex\", \"pattern\": "
						  "\"[ab]{2}\"}, \"end\": \"c\"}]}}"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tag\", \"begin\": \"a\", \"content\": {\"type\": "
						  "\"any_text\"}, \"end\": [\"cc\", \"bab\"]}}"}
};

static void
texts(void)
{
	unsigned	seed = 9;
	static Vocab v[3];

	for (int k = 0; k < 3; k++)
		vocab_make(&v[k], k == 0 ? "abc" : k == 1 ? "abc\"{}:,[]()1" : "aabbc x", &seed);
	for (size_t i = 0; i < 2 * sizeof(specs) / sizeof(specs[0]); i++)
	{
		/* all of them twice: the second time the vocabulary has everything cached */
		size_t		k = i % (sizeof(specs) / sizeof(specs[0]));
		Grammar    *g = make(specs[k].kind, specs[k].text);

		for (int j = 0; j < 3 && g != NULL; j++)
			for (int r = 0; r < 2; r++)
				walk(g, &v[j], specs[k].text, &seed);
		grammar_unref(g);
	}
	for (int k = 0; k < 3; k++)
		gram_vocab_unref(v[k].v);
}

/* Tokens of complete, broken and cut characters: complete ones are handled as a group, whatever they are. */
static void
characters(void)
{
	static const char *const piece[] = {"a", "z", "x", "\"", " ", "7", "\xC3\xA9", "\xC3", "\xA9",
										"\xE4\xB8\xAD", "\xE4\xB8", "\xF0\x9F\x98\x80", "\xF0\x9F",
										"\x98\x80", "\xE0\xA4\xB9", "\xED\xA0\x80", "\xC0\x80",
		"\xF4\x90\x80\x80", "\xFF", "\xE0\x80\x80", "\\", "\n"};
	static const struct
	{
		GramKind	kind;
		const char *text;
	}			spec[] = {{GRAM_REGEX, ".*"}, {GRAM_REGEX, "[^\"]*\"x"}, {GRAM_REGEX, "\\w*( \\w+)*"},
						  {GRAM_REGEX, "\"([^\"\\\\\n]|\\\\.)*\"a?"}, {GRAM_REGEX, "[^\xC3\xA9]*"},
						  {GRAM_REGEX, "[\xE4\xB8\x80-\xE4\xBF\xBF]*z"},
	{GRAM_REGEX, "[^\xF0\x9F\x98\x80-\xF0\x9F\x98\x8F]{0,9}"}, {GRAM_JSON_SCHEMA, "{\"type\":\"string\"}"},
	{GRAM_GRAMMAR, "root ::= [^a]* \"a\" | (\"x\" .)*"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tag\", \"begin\": \"a\", \"content\": {\"type\": "
						  "\"any_text\"}, \"end\": \"\xC3\xA9\"}}"}};
	unsigned	seed = 5;
	static Vocab v;
	int32_t		end[1] = {END};

	for (int i = 3; i < VOCAB; i++)
	{
		int			n = i < 3 + (int) (sizeof(piece) / sizeof(piece[0])) ? 1 : 1 + rand_r(&seed) % 5;

		for (; n > 0; n--)
			strcat(v.bytes[i],
				   piece[i < 3 + (int) (sizeof(piece) / sizeof(piece[0])) ? i -
						 3 : rand_r(&seed) % (int) (sizeof(piece) / sizeof(piece[0]))]);
		v.token[i] = (GramToken) {v.bytes[i], strlen(v.bytes[i]), false};
	}
	v.token[0] = (GramToken) {"a", 1, true};
	v.token[1] = v.token[2] = (GramToken) {"", 0, false};
	v.v = gram_vocab_new(v.token, VOCAB, end, 1);
	for (size_t i = 0; i < sizeof(spec) / sizeof(spec[0]); i++)
	{
		Grammar    *g = make(spec[i].kind, spec[i].text);

		for (int r = 0; r < 6; r++)
			walk(g, &v, spec[i].text, &seed);
		grammar_unref(g);
	}
	gram_vocab_unref(v.v);
}

/* ---- random grammars ---- */

static CfgNode
random_node(Cfg *c, int depth, unsigned *seed)
{
	static const char *const lit[] = {"a", "b", "c", "ab", "abc", "ca", "bb", "cab"};
	Regex	   *re = cfg_re(c);
	ReNode		x = RE_NONE;
	const char *s = lit[rand_r(seed) % 8];
	CfgNode		a;
	uint32_t	min = (uint32_t) rand_r(seed) % 3;

	if (depth == 0)
	{
		if (rand_r(seed) % 4 == 0)
			return cfg_ref(c, (CfgRule) rand_r(seed) % 3);
		for (int n = 1 + rand_r(seed) % 2; n > 0; n--, s = lit[rand_r(seed) % 8])
			x = re_or(re, x, re_bytes(re, s, strlen(s)));
		if (rand_r(seed) % 3 == 0)
			x = re_repeat(re, x, min, rand_r(seed) % 2 ? RE_INF : min + 2);
		if (rand_r(seed) % 6 == 0)
			x = re_and(re, x, re_not(re, re_cat(re, RE_ALL, re_cat(re, re_bytes(re, "bc", 2), RE_ALL))));
		return cfg_lexeme(c, x);
	}
	a = random_node(c, depth - 1, seed);
	switch (rand_r(seed) % 4)
	{
		case 0:
			return cfg_alt(c, a, random_node(c, depth - 1, seed));
		case 1:
			return cfg_repeat(c, a, min, rand_r(seed) % 2 ? CFG_INF : min + 1);
		default:
			return cfg_seq(c, a, random_node(c, depth - 1, seed));
	}
}

static bool
random_build(Cfg *c, const void *arg, CfgNode *out, Err *e)
{
	unsigned	seed = *(const unsigned *) arg;

	(void) e;
	for (int i = 0; i < 3; i++)
		cfg_rule_new(c);
	for (CfgRule i = 0; i < 3; i++)
		cfg_rule_define(c, i, random_node(c, 1 + rand_r(&seed) % 3, &seed));
	*out = cfg_ref(c, 0);
	return true;
}

/* One vocabulary for all: grammars share what they cache in it. */
static void
random_grammars(void)
{
	unsigned	seed = 21;
	int			made = 0;
	Vocab		v;

	vocab_make(&v, "abc", &seed);

	for (unsigned round = 0; round < 120; round++)
	{
		Err			e = {0};
		Grammar    *g = grammar_build(random_build, &round, NULL, &e);
		char		what[32];

		if (g == NULL)
		{
			CHECK(e.cls == ERR_INVALID, "round %u: %s", round, e.msg);
			continue;
		}
		made++;
		snprintf(what, sizeof(what), "round %u", round);
		walk(g, &v, what, &seed);
		grammar_unref(g);
	}
	gram_vocab_unref(v.v);
	CHECK(made > 60, "%d", made);
}

/* With very little memory the grammar is reset all the time, without an effect on the results. */
static void
small_memory(void)
{
	unsigned	seed = 4;
	Grammar    *g = make(GRAM_GRAMMAR, specs[13].text);
	Vocab		v;
	size_t		before;

	vocab_make(&v, "abc\"{}:,[]1", &seed);
	before = grammar_memory(g);
	grammar_set_limit(g, before + 20000);
	for (int i = 0; i < 10; i++)
		walk(g, &v, "small memory", &seed);
	CHECK(grammar_memory(g) < 4 * before + 200000, "%zu bytes, %zu at first", grammar_memory(g), before);
	gram_vocab_unref(v.v);
	grammar_unref(g);
}

static void
ends(void)
{
	unsigned	seed = 2;
	Grammar    *g = make(GRAM_REGEX, "ab?");
	Vocab		v;
	GramMatch  *m;
	uint32_t	words[(VOCAB + 31) / 32];
	bool		ok;
	Err			e = {0};

	vocab_make(&v, "ab", &seed);
	m = gram_match_new(g, v.v);
	CHECK(!gram_match_accepting(m) && !gram_match_finished(m), "at first");
	CHECK(gram_match_token(m, END, &ok, &e) && !ok, "no end yet");
	CHECK(gram_match_token(m, 0, &ok, &e) && !ok, "special tokens are no text");
	CHECK(gram_match_token(m, 2, &ok, &e) && !ok, "nor are empty ones");
	CHECK(gram_match_token(m, -1, &ok, &e) && !ok && gram_match_token(m, VOCAB, &ok, &e) && !ok,
		  "no such token");
	CHECK(gram_match_bytes(m, "a", 1, &ok, &e) && ok && gram_match_accepting(m) && !gram_match_finished(m),
		  "a");
	CHECK(gram_match_token(m, END, &ok, &e) && ok && gram_match_steps(m) == 2, "the end is allowed");
	gram_match_rollback(m, 1);
	CHECK(gram_match_bytes(m, "b", 1, &ok, &e) && ok && gram_match_accepting(m) && gram_match_finished(m),
		  "ab");
	gram_match_mask(m, words, &e);
	for (int i = 0; i < VOCAB; i++)
		CHECK(bit(words, i) == (i == END), "token %d", i);
	CHECK(gram_match_token(m, END, &ok, &e) && ok && gram_match_finished(m), "the end");
	gram_match_mask(m, words, &e);
	for (int i = 0; i < VOCAB; i++)
		CHECK(!bit(words, i), "token %d behind the end", i);
	CHECK(gram_match_bytes(m, "b", 1, &ok, &e) && !ok, "nothing behind the end");
	gram_match_rollback(m, 2);
	CHECK(gram_match_bytes(m, "b", 1, &ok, &e) && ok, "back before it");
	gram_match_rollback(m, 100);
	CHECK(gram_match_steps(m) == 0 && !gram_match_accepting(m), "back to the beginning");
	gram_match_free(m);
	gram_vocab_unref(v.v);
	grammar_unref(g);
}

/* Forced text: up to the first choice, and not beyond an end. */
static void
forced(void)
{
	static const struct
	{
		const char *pattern;
		const char *forced;
	}			cases[] = {{"abc[xy]", "abc"}, {"(abc)?", ""}, {"abcde|abxy", "ab"}, {"a{7}", "aaaaaaa"},
						   {"\xC3\xA9z|\xC3\xA9y", "\xC3\xA9"},
	{"\xC3\xA9|\xC3\xAA", "\xC3"}, {"[ab]c", ""}};
	GramToken	token = {"a", 1, false};
	GramVocab  *v = gram_vocab_new(&token, 1, NULL, 0);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Grammar    *g = make(GRAM_REGEX, cases[i].pattern);
		GramMatch  *m = gram_match_new(g, v);
		Buf			b = {0};
		Err			e = {0};

		buf_addstr(&b, "");
		CHECK(gram_match_forced(m, 100, &b, &e) && strcmp(b.data, cases[i].forced) == 0, "%s: \"%s\"",
			  cases[i].pattern, b.data);
		buf_reset(&b);
		CHECK(gram_match_forced(m, 1, &b, &e) && b.len <= 1, "%s: at most 1", cases[i].pattern);
		buf_free(&b);
		gram_match_free(m);
		grammar_unref(g);
	}
	gram_vocab_unref(v);
}

int
main(void)
{
	RUN(texts());
	RUN(characters());
	RUN(random_grammars());
	RUN(small_memory());
	RUN(ends());
	RUN(forced());
	return check_done("test_gram_mask");
}
