/*
 * test_gram_bombs.c
 *	  Specifications that are meant to take much time or memory: each ends in an error of its request, or
 *	  works within the limits.
 *
 * The limits count nodes, bytes and steps of each mask and each piece of text (grammar_work()), and
 * times follow from them.  Time is only measured for what is not counted, with so much tolerance that a
 * slow machine or a sanitizer passes.
 */
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "tests/unit/check.h"
#include "grammar/grammar_internal.h"
#include "grammar/regex/regex_internal.h"

/* The limits of docs/internals/grammar.md, and what one operation may take before the next check. */
#define NODES		(400000 + 500000)
#define BYTES		((size_t) 450 << 20)
#define STEPS		(5000000 + 8000000 + 20000000 + 2000000)

/* CPU seconds for all operations on a specification; most take milliseconds */
#define SECONDS		10

#define TOKENS		4000
#define PIECE		7			/* bytes of text between masks */

static GramVocab *vocab;

/* Pieces of all kinds of texts below. */
static void
vocab_make(void)
{
	static const char *const words[] = {"\"", "\":", "\",\"", "{\"", "[[", "]]", "}}", "},{", "true", "null",
										"-1", "0.5", "e9", "p1", "a1", "\\u00", "\xC3\xA9", "\xE4\xB8\xAD"};
	static GramToken token[TOKENS];
	static char text[TOKENS][24];
	unsigned	seed = 1;

	for (int i = 0; i < TOKENS; i++)
	{
		size_t		len = 1 + (size_t) rand_r(&seed) % (i % 3 == 0 ? 20 : 6);

		if (i < 256)
		{
			text[i][0] = (char) i;
			token[i] = (GramToken) {text[i], 1, false};
			continue;
		}
		while (strlen(text[i]) + 8 < len)
			strcat(text[i], words[rand_r(&seed) % (sizeof(words) / sizeof(words[0]))]);
		for (size_t k = strlen(text[i]); k < len; k++)
			text[i][k] = "aabbx-y 0123"[rand_r(&seed) % 12];
		token[i] = (GramToken) {text[i], strlen(text[i]), false};
	}
	vocab = gram_vocab_new(token, TOKENS, NULL, 0);
}

/* Check nodes and bytes of a compiled specification, also if it fails. */
static void
built(const GramSpec *s, const char *name)
{
	Cfg		   *c = cfg_new();
	CfgNode		root;
	Err			e = {0};

	if (spec_build(c, s, &root, &e))
		cfg_finish(c, root, &e);
	CHECK(cfg_re(c)->n + cfg_size(c) <= NODES, "%s: %u and %u nodes", name, cfg_re(c)->n,
		  cfg_size(c));
	CHECK(re_memory(cfg_re(c)) <= BYTES, "%s: %zu bytes", name, re_memory(cfg_re(c)));
	if (getenv("GRAM_VERBOSE") != NULL)
		fprintf(stderr, "%-50.50s %7u nodes, %7zu KB ", name, cfg_re(c)->n + cfg_size(c),
				re_memory(cfg_re(c)) / 1024);
	cfg_free(c);
}

static bool
is_limit(const Err *e)
{
	return e->cls == ERR_TOO_LONG || e->cls == ERR_UNSUPPORTED || e->cls == ERR_INVALID;
}

/* Compute masks and accept pieces of a text; returns the steps of the longest operation. */
static uint64_t
walk(Grammar *g, const char *name, const char *text)
{
	GramMatch  *m = gram_match_new(g, vocab);
	uint32_t   *words = mem_alloc(gram_vocab_words(vocab) * sizeof(uint32_t));
	size_t		n = strlen(text);
	uint64_t	worst = 0;
	bool		ok = true;
	Buf			forced = {0};

	for (size_t at = 0; at < n && ok; at += PIECE)
	{
		uint64_t	before = grammar_work(g);
		Err			e = {0};

		if (!gram_match_mask(m, words, &e))
		{
			CHECK(is_limit(&e), "%s: %s", name, e.msg);
			ok = false;
		}
		worst = grammar_work(g) - before > worst ? grammar_work(g) - before : worst;
		CHECK(grammar_memory(g) <= BYTES, "%s: %zu bytes", name, grammar_memory(g));
		before = grammar_work(g);
		if (ok && !(gram_match_forced(m, 20, &forced, &e) &&
					gram_match_bytes(m, text + at, n - at < PIECE ? n - at : PIECE, &ok, &e)))
		{
			CHECK(is_limit(&e), "%s: %s", name, e.msg);
			ok = false;
		}
		worst = grammar_work(g) - before > worst ? grammar_work(g) - before : worst;
	}
	buf_free(&forced);
	mem_free(words);
	gram_match_free(m);
	return worst;
}

static void
bomb(const GramSpec *s, const char *name, const char *text)
{
	Err			e = {0};
	Grammar    *g;
	uint64_t	worst = 0;
	bool		yes;
	clock_t		start = clock();
	clock_t		before;

	if (!s->opt.validate)
		built(s, name);
	before = clock();
	g = grammar_new(s, &e);
	before = clock() - before;
	CHECK(g != NULL || is_limit(&e), "%s: %d %s", name, e.cls, e.msg);
	if (g != NULL)
	{
		worst = walk(g, name, text);
		CHECK(worst <= STEPS, "%s: %llu steps", name, (unsigned long long) worst);
		/* after a limit the grammar can be used again */
		CHECK(grammar_accepts(g, text, strlen(text), &yes, &e) || is_limit(&e), "%s: %s", name, e.msg);
	}
	CHECK(clock() - start < (clock_t) SECONDS * CLOCKS_PER_SEC, "%s: %.1f s", name,
		  (double) (clock() - start) / CLOCKS_PER_SEC);
	if (getenv("GRAM_VERBOSE") != NULL)
		fprintf(stderr, "%6.1f ms, %8llu steps, %6zu KB %.80s\n", (double) before * 1000 / CLOCKS_PER_SEC,
				(unsigned long long) worst, g != NULL ? grammar_memory(g) / 1024 : 0, e.msg);
	grammar_unref(g);
}

static void
bomb_text(GramKind kind, const char *spec, size_t n, const char *name, const char *text)
{
	GramSpec	s = {.kind = kind,.text = spec,.len = n,.opt = {.strict = true}};

	bomb(&s, name, text);
	if (kind == GRAM_JSON_SCHEMA)
	{
		s.opt = (GramOptions) {.validate = true};
		bomb(&s, name, text);
	}
}

/* ---- expressions and grammars ---- */

static const char *const regexes[] = {
	/* nested quantifiers */
	"(a+)+b", "(a|aa)+c", "((a*)*)*b", "(a|a)*b", "(a|b|ab)*c", "(.*)*x", "([a-b]+)*c", "(a?b?a?b?)*c",
	/* counts */
	".*a.{40}", "(.*a.*){20}", "([ab]{1,1000}-?){1,1000}x", "(a?){1000}a{1000}", "(\\w{1,500}\\s?){1,500}!",
	"((a{1,100}){1,100}){1,100}b", "(a|b|ab|ba|aba){1,5000}z", "(a.*){1,60}b(.a){3,90}", "a{1000000}",
	"(a{1000}){1000}b", "((((a{9}){9}){9}){9}){9}", "(a{0,1000}b{0,1000}){0,1000}c",
	/* classes of Unicode */
	"[\\w\\d\\s\\p{L}\\p{N}]{1,300}\\p{Lu}", "(\\p{L}+\\p{N}*\\p{P}?){1,200}", "[^\\p{L}]*[\\p{L}--]+x",
	"(\\w|\\d|_|a)*\\W", "(a|ab|abc|abcd|abcde)*(e|de|cde|bcde|abcde)*x", "(x+x+)+y",
	"^(([a-z])+.)+[A-Z]([a-z])+$", "(.{1,9}a){1,9}(.{1,9}b){1,9}c"
};

static const char *const grammars[] = {
	"root ::= root root | \"a\" | \"\"", "root ::= root root root | \"a\" | \"b\" | root \"b\" root",
	"root ::= a a a a a a\na ::= b b b b b b\nb ::= c c c c c c\nc ::= d{0,900}\nd ::= \"a\"? \"b\"?",
	"root ::= x*\nx ::= y*\ny ::= z*\nz ::= x | \"a\" | \"b\"",
	"root ::= (\"a\" root \"b\"){0,5} | (\"a\" root){0,1000} | \"\"",
	"root ::= \"a\" root \"b\" | \"b\" root \"a\" | root root | [ab]{1,40}",
	"root ::= a | b\na ::= b | \"a\"\nb ::= a | \"b\" b", "root ::= (((root? \"a\")? \"b\")? root)? \"b\"",
	"start: (\"a\" start \"b\")~0..1000 | \"b\"", "start: x~1000\nx: y~1000\ny: \"a\"?"
};

static void
expressions(void)
{
	static char input[150];

	for (size_t i = 0; i + 1 < sizeof(input); i++)
		input[i] = "aab"[i % 3];
	for (size_t i = 0; i < sizeof(regexes) / sizeof(regexes[0]); i++)
		bomb_text(GRAM_REGEX, regexes[i], strlen(regexes[i]), regexes[i], input);
	for (size_t i = 0; i < sizeof(grammars) / sizeof(grammars[0]); i++)
		bomb_text(GRAM_GRAMMAR, grammars[i], strlen(grammars[i]), grammars[i], input);
}

/* Repeat n times with the output of printf for the number. */
#define MANY(n, ...) \
	for (int i = 0; i < (n); i++) \
		buf_printf(&b, __VA_ARGS__)

static void
end(GramKind kind, const char *name, Buf *b, const char *text)
{
	bomb_text(kind, b->data, b->len, name, text);
	buf_reset(b);
}

static void
long_grammars(void)
{
	static const char text[] = "aabaabaabaab";
	Buf			b = {0};

	MANY(100000, "%s", i >= 0 ? "(" : "");
	end(GRAM_REGEX, "100,000 groups", &b, text);
	buf_addstr(&b, "root ::= ");
	MANY(100000, "%s", i >= 0 ? "(" : "");
	end(GRAM_GRAMMAR, "100,000 groups in EBNF", &b, text);
	buf_addstr(&b, "root ::= r0\n");
	MANY(40, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
	buf_addstr(&b, "r40 ::= \"a\" | \"b\"?\n");
	end(GRAM_GRAMMAR, "rules that double", &b, text);
	buf_addstr(&b, "root ::= r0\n");
	MANY(20000, "r%d ::= \"%d\" r%d | \"b\"\n", i, i, i + 1);
	buf_addstr(&b, "r20000 ::= \"a\"\n");
	end(GRAM_GRAMMAR, "20,000 rules", &b, text);
	buf_addstr(&b, "start: \"a\"");
	MANY(50000, "%s", i >= 0 ? " | \"a\" start \"b\"" : "");
	end(GRAM_GRAMMAR, "50,000 alternatives", &b, text);
	buf_addstr(&b, "start: A0\n");
	MANY(30, "A%d: A%d A%d\n", i, i + 1, i + 1);
	buf_addstr(&b, "A30: \"a\"\n");
	end(GRAM_GRAMMAR, "terminals that double", &b, text);
	buf_addstr(&b, "a");
	MANY(60000, "|a%db*", i * 7919);
	end(GRAM_REGEX, "60,000 alternatives", &b, text);
	MANY(500, "(a%d?b|", i);
	MANY(500, "c)%s", i >= 0 ? "{0,9}" : "");
	end(GRAM_REGEX, "500 groups with counts", &b, text);
	buf_addstr(&b, "{\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"<\"],\"tags\":[{\"begin\":\"<\","
				   "\"content\":{\"type\":\"any_text\"},\"end\":\">\"}");
	MANY(3000, ",{\"begin\":\"<%d\",\"content\":{\"type\":\"regex\",\"pattern\":\"(a|aa)+\"},"
			   "\"end\":\"</%d>\"}", i, i);
	buf_addstr(&b, "]}}");
	end(GRAM_STRUCTURAL_TAG, "3,000 tags", &b, "text <17aaaa</17> text");
	MANY(3000, "%s", i >= 0 ? "{\"type\":\"sequence\",\"elements\":[" : "");
	end(GRAM_STRUCTURAL_TAG, "nested tags", &b, text);
	buf_free(&b);
}

/* Grammars that take much time or memory, though they have few nodes. */
static void
wide_grammars(void)
{
	static const char text[] = "aabaabaabaab";
	char		marks[300] = {0};
	Buf			b = {0};

	buf_addstr(&b, "root ::= r0\n");
	memset(marks, '?', sizeof(marks) - 1);
	MANY(250, "r%d ::= r%d%s\n", i, i + 1, marks);
	buf_addstr(&b, "r250 ::= \"a\"");
	end(GRAM_GRAMMAR, "deep rules within one another", &b, text);
	buf_addstr(&b, "root ::= \"b\"");
	MANY(130000, "|r%d", i);
	MANY(130000, "\nr%d ::= \"a\" root", i);
	end(GRAM_GRAMMAR, "130,000 alternatives that come back", &b, text);
	buf_free(&b);
}

/* Printing an expression is bounded, however many parts it has. */
static void
written(void)
{
	enum
	{
		PARTS = 20000, LETTERS = 900
	};
	Regex	   *re = re_new(0);
	ReNode	   *part = mem_alloc(PARTS * sizeof(ReNode));
	char		letters[LETTERS];
	struct rusage before,
				after;
	Buf			out = {0};
	ReNode		x,
				all;

	for (int i = 0; i < LETTERS; i++)
		letters[i] = (char) ('a' + i % 26);
	x = re_bytes(re, letters, LETTERS);
	for (int i = 0; i < PARTS; i++)
	{
		char		number[16];

		snprintf(number, sizeof(number), "%d", i);
		part[i] = re_cat(re, re_repeat(re, re_bytes(re, "a", 1), 0, RE_INF),
						 re_cat(re, re_bytes(re, number, strlen(number)), x));
	}
	all = re_or_list(re, part, PARTS);
	CHECK(re_check(re, &(Err) {0}), "%d parts", PARTS);
	getrusage(RUSAGE_SELF, &before);
	CHECK(!re_write(re, all, 64 << 10, &out), "%zu bytes", out.len);
	getrusage(RUSAGE_SELF, &after);
	CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10, "%ld KB", after.ru_maxrss - before.ru_maxrss);
	buf_free(&out);
	mem_free(part);
	re_free(re);
}

static void
wide_tags(void)
{
	static const char text[] = "text <17aaaa</17> text";
	Buf			b = {0};

	buf_addstr(&b, "{\"triggers\":[\"<\"");
	MANY(4000, ",\"<%.*s\"", i % 4, "aaaa");
	buf_addstr(&b, "],\"structures\":[{\"begin\":\"<aaaa\",\"schema\":{},\"end\":\">\"}");
	MANY(4000, ",{\"begin\":\"<aaaa%d\",\"schema\":{},\"end\":\">\"}", i);
	buf_addstr(&b, "]}");
	end(GRAM_STRUCTURAL_TAG, "4,000 triggers and as many tags", &b, text);
	buf_addstr(&b, "{\"triggers\":[\"<\"");
	MANY(300, ",\"<%.*s\"", i % 4, "aaaa");
	buf_addstr(&b, "],\"structures\":[{\"begin\":\"<aaaa\",\"schema\":{},\"end\":\">\"}");
	MANY(300, ",{\"begin\":\"<aaaa%d\",\"schema\":{\"properties\":{\"a%d\":{\"minimum\":%d}}},\"end\":\">\"}",
		 i, i, i);
	buf_addstr(&b, "]}");
	end(GRAM_STRUCTURAL_TAG, "300 triggers of each of 300 tags", &b, text);
	buf_addstr(&b, "{\"triggers\":[\"<\"");
	MANY(90000, ",\"<%d\"", i);
	buf_addstr(&b, "],\"structures\":[{\"begin\":\"<17\",\"schema\":{},\"end\":[\">\"");
	MANY(90000, ",\"%d>\"", i);
	buf_addstr(&b, "]}]}");
	end(GRAM_STRUCTURAL_TAG, "90,000 triggers and ends", &b, text);
	for (int k = 0; k < 2; k++)
	{
		buf_printf(&b, "{\"format\":{\"type\":\"%s\",\"elements\":[{\"type\":\"const_string\","
					   "\"value\":\"text\"}", k == 0 ? "sequence" : "or");
		MANY(80000, ",{\"type\":\"const_string\",\"value\":\"%d\"}", k == 0 ? i % 10 : i);
		buf_addstr(&b, "]}}");
		end(GRAM_STRUCTURAL_TAG, k == 0 ? "80,000 elements" : "80,000 alternatives of a tag", &b, text);
	}
	buf_addstr(&b, "{\"format\":{\"type\":\"tags_with_separator\",\"separator\":\",\","
				   "\"tags\":[{\"begin\":\"<\",\"content\":{\"type\":\"any_text\"},\"end\":\">\"}");
	MANY(20000, ",{\"begin\":\"<%d\",\"content\":{\"type\":\"any_text\"},\"end\":\">\"}", i);
	buf_addstr(&b, "]}}");
	end(GRAM_STRUCTURAL_TAG, "20,000 tags with separators", &b, text);
	buf_free(&b);
}

/* ---- schemas ---- */

static void
schemas(void)
{
	static const char text[] = "{\"p1\":[1,{\"a1\":\"abab\"}],\"aab\":null}";
	static const char string[] = "\"aabaabaabaabaabaab\"";
	Buf			b = {0};

	buf_addstr(&b, "{\"$defs\":{");
	MANY(5000, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1);
	buf_addstr(&b, "\"d5000\":{}},\"$ref\":\"#/$defs/d0\"}");
	end(GRAM_JSON_SCHEMA, "a chain of references", &b, text);
	buf_addstr(&b, "{\"$defs\":{");
	MANY(40, "\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},", i, i + 1, i + 1);
	buf_addstr(&b, "\"d40\":{}},\"$ref\":\"#/$defs/d0\"}");
	end(GRAM_JSON_SCHEMA, "references that double", &b, text);
	buf_addstr(&b, "{\"$defs\":{");
	MANY(40, "\"d%d\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/d%d\"},\"b\":{\"$ref\":\"#/$defs/d%d\"}}},",
		 i, i + 1, i + 1);
	buf_addstr(&b, "\"d40\":{}},\"$ref\":\"#/$defs/d0\"}");
	end(GRAM_JSON_SCHEMA, "members that double", &b, text);
	buf_addstr(&b, "{\"$defs\":{");
	MANY(20, "\"d%d\":{\"anyOf\":[{\"items\":{\"$ref\":\"#/$defs/d%d\"}},"
			 "{\"not\":{\"$ref\":\"#/$defs/d%d\"}}]},", i, (i + 1) % 20, (i + 7) % 20);
	buf_addstr(&b, "\"x\":{}},\"$ref\":\"#/$defs/d0\"}");
	end(GRAM_JSON_SCHEMA, "references in a circle of not", &b, text);
	buf_addstr(&b, "{\"enum\":[0");
	MANY(50000, ",\"value %d\"", i * 7919);
	buf_addstr(&b, "]}");
	end(GRAM_JSON_SCHEMA, "an enum of 50,000", &b, string);
	buf_addstr(&b, "{\"not\":{\"enum\":[0");
	MANY(20000, ",\"aab%d\"", i * 7919);
	buf_addstr(&b, "]}}");
	end(GRAM_JSON_SCHEMA, "none of 20,000", &b, string);
	buf_addstr(&b, "{\"allOf\":[{}");
	MANY(24, ",{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i, i);
	buf_addstr(&b, "]}");
	end(GRAM_JSON_SCHEMA, "allOf of anyOf", &b, text);
	buf_addstr(&b, "{\"allOf\":[{}");
	MANY(30, ",{\"pattern\":\"a.{%d}b|b.*%d\"}", i, i);
	buf_addstr(&b, "],\"type\":\"string\"}");
	end(GRAM_JSON_SCHEMA, "allOf of patterns", &b, string);
	buf_addstr(&b, "{\"allOf\":[{}");
	MANY(12, ",{\"type\":\"string\",\"pattern\":\"^(.{%d})*$\"}",
		 (int[]) {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}[i]);
	buf_addstr(&b, "],\"minLength\":1}");
	end(GRAM_JSON_SCHEMA, "lengths that are multiples", &b, string);
	buf_addstr(&b, "{\"oneOf\":[{}");
	MANY(60, ",{\"properties\":{\"a%d\":{\"minimum\":%d},\"b%d\":{\"type\":\"string\"}}}", i, i, i % 7);
	buf_addstr(&b, "]}");
	end(GRAM_JSON_SCHEMA, "oneOf that overlaps", &b, text);
	buf_addstr(&b, "{\"oneOf\":[false");
	MANY(12, ",{\"type\":\"string\",\"pattern\":\"x%dy|aab\"}", i);
	buf_addstr(&b, "]}");
	end(GRAM_JSON_SCHEMA, "oneOf of patterns", &b, string);
	buf_free(&b);
}

static void
schemas_members(void)
{
	static const char text[] = "{\"p1\":[1,{\"a1\":\"abab\"}],\"aab\":null}";
	static const char string[] = "\"aabaabaabaabaabaab\"";
	Buf			b = {0};

	buf_addstr(&b, "{\"properties\":{\"p\":{}");
	MANY(100000, ",\"p%d\":{\"type\":\"integer\"}", i);
	buf_addstr(&b, "}}");
	end(GRAM_JSON_SCHEMA, "100,000 members", &b, text);
	buf_addstr(&b, "{\"properties\":{\"p\":{}");
	MANY(5000, ",\"p%d\":{\"type\":\"integer\"}", i);
	buf_addstr(&b, "},\"minProperties\":2000,\"additionalProperties\":false}");
	end(GRAM_JSON_SCHEMA, "2,000 of 5,000 members", &b, "{\"p1\":1,\"p7\":2}");
	buf_addstr(&b, "{\"dependentRequired\":{\"x\":[]");
	MANY(1000, ",\"p%d\":[\"p%d\",\"p%d\"]", i, (i * 7 + 1) % 1000, (i * 3 + 5) % 1000);
	buf_addstr(&b, "}}");
	end(GRAM_JSON_SCHEMA, "members that ask for others", &b, text);
	buf_addstr(&b, "{\"maxItems\":1000000000,\"minItems\":999999999,\"items\":{\"maxLength\":1000000000,"
				   "\"minLength\":900000000}}");
	end(GRAM_JSON_SCHEMA, "counts", &b, "[\"aab\"]");
	buf_addstr(&b, "{\"type\":\"string\",\"pattern\":\"^((a|b){1,1000},?){1,1000}$\",\"minLength\":500000}");
	end(GRAM_JSON_SCHEMA, "a pattern of counts, and a length", &b, string);
	MANY(150, "%s", i >= 0 ? "{\"anyOf\":[{\"type\":\"null\"}," : "");
	buf_addstr(&b, "{}");
	MANY(150, "%s", i >= 0 ? "]}" : "");
	end(GRAM_JSON_SCHEMA, "nested anyOf", &b, text);
	MANY(100000, "%s", i >= 0 ? "{\"items\":" : "");
	end(GRAM_JSON_SCHEMA, "100,000 levels", &b, text);
	MANY(60, "%s", i >= 0 ? "{\"not\":{\"items\":" : "");
	buf_addstr(&b, "{\"type\":\"null\"}");
	MANY(60, "%s", i >= 0 ? "}}" : "");
	end(GRAM_JSON_SCHEMA, "nested not", &b, "[[[[1]]]]");
	buf_addstr(&b, "{\"patternProperties\":{\"x\":{}");
	MANY(40, ",\"a%d.*b\":{\"type\":\"integer\"}", i);
	buf_addstr(&b, "}}");
	end(GRAM_JSON_SCHEMA, "40 patterns of names", &b, text);
	buf_addstr(&b, "{\"patternProperties\":{\"x\":{}");
	MANY(11, ",\"%c.{%d}b\":{\"minimum\":%d}", 'a' + i, i, i);
	buf_addstr(&b, "}}");
	end(GRAM_JSON_SCHEMA, "patterns of names that overlap", &b, text);
	buf_addstr(&b, "{\"propertyNames\":{\"allOf\":[{}");
	MANY(20, ",{\"pattern\":\"[%c-z]{%d}\"}", 'a' + i % 20, i);
	buf_addstr(&b, "]},\"minProperties\":20}");
	end(GRAM_JSON_SCHEMA, "names that meet", &b, text);
	buf_addstr(&b, "{\"type\":\"integer\",\"allOf\":[{}");
	MANY(12, ",{\"multipleOf\":%d}", (int[]) {7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47}[i]);
	buf_addstr(&b, "],\"minimum\":1}");
	end(GRAM_JSON_SCHEMA, "multiples of many", &b, "1234567");
	buf_addstr(&b, "{\"type\":\"array\",\"contains\":{\"pattern\":\"a.*b\"},\"minContains\":60,"
				   "\"items\":{\"pattern\":\"(a|aa)+\"}}");
	end(GRAM_JSON_SCHEMA, "contains", &b, "[\"aab\",\"aab\"]");
	buf_addstr(&b, "{\"if\":{\"properties\":{\"p1\":{}}}");
	MANY(200, ",\"then\":{\"if\":{\"required\":[\"a%d\"]}", i);
	buf_addstr(&b, ",\"else\":{}");
	MANY(201, "%s", i >= 0 ? "}" : "");
	end(GRAM_JSON_SCHEMA, "nested if", &b, text);
	buf_free(&b);
}

static void
wide_schemas(void)
{
	Buf			b = {0};

	buf_addstr(&b, "{\"$id\":\"x://");
	MANY(1500000, "%s", i >= 0 ? "a" : "");
	buf_addstr(&b, "/x\",\"properties\":{\"p\":{}");
	MANY(15000, ",\"p%d\":{\"$ref\":\"x\",\"title\":\"%d\"}", i, i);
	buf_addstr(&b, "}}");
	end(GRAM_JSON_SCHEMA, "references at a long address", &b, "{}");
	for (int k = 0; k < 2; k++)
	{
		buf_addstr(&b, k == 0 ? "{\"enum\":[[{\"a\":1" : "},{\"a\":1");
		MANY(100000, ",\"p%d\":0", k == 0 ? i : 99999 - i);
	}
	buf_addstr(&b, "}]]}");
	end(GRAM_JSON_SCHEMA, "equal objects in another order", &b, "[]");
	buf_free(&b);
}

int
main(void)
{
	vocab_make();
	RUN(expressions());
	RUN(long_grammars());
	RUN(wide_grammars());
	RUN(written());
	RUN(wide_tags());
	RUN(schemas());
	RUN(schemas_members());
	RUN(wide_schemas());
	gram_vocab_unref(vocab);
	return check_done("test_gram_bombs");
}
