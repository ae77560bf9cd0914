/*
 * test_gram_re.c
 *	  Regular expressions: random ones against the definition of what they match, patterns against PCRE,
 *	  spellings in JSON against json.c, limits.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "tests/unit/check.h"
#include "grammar/regex/regex_internal.h"
#include "tests/unit/lang_util.h"

/* ---- random expressions over "ab" and all texts up to a length ---- */

static ReNode
random_re(Regex *re, int depth, unsigned *seed, Lang *l)
{
	Lang		a = {{false}};
	Lang		b = {{false}};
	ReNode		x;
	ReNode		y;
	uint32_t	min;
	uint32_t	max;

	memset(l, 0, sizeof(*l));
	switch (depth == 0 ? rand_r(seed) % 2 : 2 + rand_r(seed) % 8)
	{
		case 0:
			l->has[1] = true;
			return re_bytes(re, "a", 1);
		case 1:
			l->has[2] = true;
			return re_bytes(re, "b", 1);
		case 2:
		case 3:
			x = random_re(re, depth - 1, seed, &a);
			y = random_re(re, depth - 1, seed, &b);
			*l = lang_cat(&a, &b);
			return re_cat(re, x, y);
		case 4:
		case 5:
			x = random_re(re, depth - 1, seed, &a);
			y = random_re(re, depth - 1, seed, &b);
			for (int i = 0; i < TEXTS; i++)
				l->has[i] = a.has[i] || b.has[i];
			return re_or(re, x, y);
		case 6:
			x = random_re(re, depth - 1, seed, &a);
			y = random_re(re, depth - 1, seed, &b);
			for (int i = 0; i < TEXTS; i++)
				l->has[i] = a.has[i] && b.has[i];
			return re_and(re, x, y);
		case 7:
			x = random_re(re, depth - 1, seed, &a);
			for (int i = 0; i < TEXTS; i++)
				l->has[i] = !a.has[i];
			return re_not(re, x);
		default:
			x = random_re(re, depth - 1, seed, &a);
			min = (uint32_t) rand_r(seed) % 4;
			max = rand_r(seed) % 3 == 0 ? RE_INF : min + (uint32_t) rand_r(seed) % 4;
			b.has[0] = true;
			for (uint32_t n = 0; n <= min + LONGEST + 1 && n <= max; n++)
			{
				for (int i = 0; n >= min && i < TEXTS; i++)
					l->has[i] = l->has[i] || b.has[i];
				b = lang_cat(&b, &a);
			}
			return re_repeat(re, x, min, max);
	}
}

static void
random_expressions(void)
{
	unsigned	seed = 3;

	for (int round = 0; round < 4000; round++)
	{
		Regex	   *re = re_new(0);
		Lang		l;
		ReNode		x = random_re(re, 1 + rand_r(&seed) % 4, &seed, &l);
		ReNode		cut = re_clamp(re, x, LONGEST);
		int			wrong = 0;
		bool		some = false;

		for (int i = 0; i < TEXTS; i++)
		{
			char		s[LONGEST + 1];

			text_of(i, s);
			some = some || l.has[i];
			wrong += re_match(re, x, s, strlen(s)) != l.has[i] || re_match(re, cut, s, strlen(s)) != l.has[i];
			if (l.has[i] && ((uint32_t) text_len(i) < re->node[x].min_len ||
							 (uint32_t) text_len(i) > re->node[x].max_len))
				wrong++;
		}
		CHECK(wrong == 0, "round %d: %d texts", round, wrong);
		CHECK(!some || re_live(re, x), "round %d: live", round);
		re_free(re);
	}
}

/* Expressions that can't match anything are detected. */
static void
liveness(void)
{
	Regex	   *re = re_new(0);
	ReNode		a = re_bytes(re, "a", 1);
	ReNode		b = re_bytes(re, "b", 1);
	ReNode		ab = re_or(re, a, b);
	ReNode		even = re_repeat(re, re_cat(re, ab, ab), 0, RE_INF);
	ReNode		odd = re_cat(re, ab, even);

	CHECK(re_and(re, re_repeat(re, re_any_char(re, RE_JSON), 2, 9), re_repeat(re, ab, 0, RE_INF)) ==
		  re_repeat(re, ab, 2, 9), "counted letters");
	CHECK(re_and(re, re_repeat(re, re_or(re, ab, re_cat(re, a, b)), 2, 9), re_repeat(re, ab, 0, RE_INF)) !=
		  re_repeat(re, ab, 2, 9), "no letters");
	CHECK(!re_live(re, re_and(re, even, odd)), "even and odd");
	CHECK(re_live(re, re_and(re, even, re_repeat(re, a, 3, RE_INF))), "even, 3 or more");
	CHECK(!re_live(re, re_and(re, re_repeat(re, a, 3, 5), re_repeat(re, ab, 0, 2))), "lengths");
	CHECK(!re_live(re, re_and(re, re_repeat(re, re_repeat(re, ab, 7, 7), 1, RE_INF),
							  re_repeat(re, re_repeat(re, a, 10, 10), 1, 6))),
		  "7s and up to 6 10s");
	CHECK(re_live(re, re_and(re, re_repeat(re, re_repeat(re, ab, 7, 7), 1, RE_INF),
							 re_repeat(re, re_repeat(re, a, 10, 10), 1, 7))),
		  "7s and up to 7 10s");
	re_free(re);
}

/* ---- patterns against PCRE ---- */

static const char *const patterns[] = {
	"abc", "a|b|", "^abc$", "^a", "b$", "(^a|b$)c?", "^(a|b)*$", "(^|x)a($|y)", "^$", "$^", "a{2,3}",
	"^a{2,}b{0,2}$", "[abc]x", "[^ab]", "[a-c-]+", "^[\\w-]+$", "\\d+\\.\\d", "\\s", "^\\S+$",
	"^(?:ab|a)(?:c|bc)$", "(?i)aBc", "x(?i:ab)c", "a.c", "^.{3}$", "^(a?){3}b$", "^(a*)*b$", "(a|b|ab)*c$",
	"^\\x41\\u0062?$", "[\\d_]x", "[^\\s\\d]b", "^(\\^|\\$)\\{", "a{,2}b{x}", "^[[:digit:]]+[[:^digit:]]$",
	"^\\p{Lu}\\pL*$", "\\P{L}\xC3\xA9", "^[\xC3\xA0-\xC3\xBF]+$", "^a$|^b$|c", "((^a)|b)+", "(?:^a$){2}",
	"(?:^a?$){2}", "(?:^[ab]$){2,}", "^(?:^(?:b|)$){2,}$", "(?:^a|b|c$){4}", "(?:^a|b|$){3}",
	"(?:^|a|b$){3}c", "(?:^(?:^a){0,2}$){2,}", "(?:(?:x|^[ya]$)(b|)){2,}", "(a$)?b*", "^(?:^a|b)c", "(^){2}a",
	"(?:a|^)b", "a*?b+?c??", "(?<n>a)b", "\xE4\xB8\xAD+", "^[^\xF0\x9F\x98\x80]$", "\\/x", "[]a]b",
	"^[.*+?]+$", "^\\d+$", "^\\w+$", "^\\s$", "^\\D$", "^\\W+$", "^\\S$", "^[\\d\\s]+$", "^[^\\d]$",
	"^[\\D]$", "^[^\\W]+$", "^[\\S]+$", "^[^\\s\\w]+$", "(?i)^\\w$", "^[[:alpha:][:space:]]$",
	"^[[:^alpha:]]$", "^[[:word:]]+$", "^\\p{Nd}$", "^(?i:[a-c\\d])$", "^(?:.{2}|.{4})$",
	"^(?:.{2,3}|.{5,})$", "^(?:.{2}|.{3})$"
};

static const char *const pieces[] = {"a", "b", "c", "x", "y", "A", "B", "1", "_", "-", ".", " ", "\n", "^",
									 "$", "{", "}", "]", ",", "/",
	"\xC3\xA9", "\xC3\x80", "\xD9\xA3", "\xC2\xA0", "\xE3\x80\x80", "k", "\xEF\xBC\x91", "\xE4\xB8\xAD",
	"\xF0\x9F\x98\x80", "ab", "abc", "aa"};

static void
random_text(char *s, unsigned *seed)
{
	s[0] = '\0';
	for (int n = rand_r(seed) % 7; n > 0; n--)
		strcat(s, pieces[(size_t) rand_r(seed) % (sizeof(pieces) / sizeof(pieces[0]))]);
}

static void
json_quote(const char *s, char *out, unsigned *seed)
{
	for (const unsigned char *p = (const unsigned char *) s; *p != '\0';)
	{
		uint32_t	cp = *p++;
		int			more = cp < 0xC0 ? 0 : cp < 0xE0 ? 1 : cp < 0xF0 ? 2 : 3;
		const unsigned char *from = p - 1;

		if (more > 0)
			cp &= 0x3Fu >> more;
		for (; more > 0; more--)
			cp = cp << 6 | (*p++ & 0x3F);
		if (rand_r(seed) % 3 == 0 || cp < 0x20 || cp == '"' || cp == '\\')
		{
			if (cp == '\n' && rand_r(seed) % 2)
				out += sprintf(out, "\\n");
			else if (cp == '/')
				out += sprintf(out, "\\/");
			else if (cp > 0xFFFF)
				out += sprintf(out, rand_r(seed) % 2 ? "\\u%04x\\u%04x" : "\\u%04X\\u%04X",
							   0xD800 + ((cp - 0x10000) >> 10), 0xDC00 + ((cp - 0x10000) & 0x3FF));
			else
				out += sprintf(out, rand_r(seed) % 2 ? "\\u%04x" : "\\u%04X", cp);
		}
		else
		{
			memcpy(out, from, (size_t) (p - from));
			out += p - from;
		}
	}
	*out = '\0';
}

static bool
pcre_match(pcre2_code *code, const char *s)
{
	pcre2_match_data *m = pcre2_match_data_create_from_pattern(code, NULL);
	bool		r = pcre2_match(code, (PCRE2_SPTR) s, strlen(s), 0, 0, m, NULL) >= 0;

	pcre2_match_data_free(m);
	return r;
}

static void
one_pattern(const char *pattern, bool unicode)
{
	unsigned	seed = 11;
	ReSyntax	syntax = {.mode = RE_RAW,.search = true,.rust = true,.unicode = unicode};
	ReSyntax	json = {.mode = RE_JSON,.search = true,.rust = true,.unicode = unicode};
	ReSyntax	whole = {.mode = RE_RAW,.rust = true,.unicode = unicode};
	uint32_t	options = PCRE2_UTF | (unicode ? PCRE2_UCP : 0) | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX;
	Regex	   *re = re_new(0);
	Err			e = {0};
	int			err;
	PCRE2_SIZE	at;
	char		full[300];
	ReNode		x;
	ReNode		y;
	ReNode		z;
	pcre2_code *code = pcre2_compile((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED, options, &err, &at, NULL);
	pcre2_code *all;

	snprintf(full, sizeof(full), "^(?:%s)$", pattern);
	all = pcre2_compile((PCRE2_SPTR) full, PCRE2_ZERO_TERMINATED, options, &err, &at, NULL);
	if (code == NULL || all == NULL)
	{
		CHECK(false, "PCRE does not know %s", pattern);
		re_free(re);
		return;
	}
	CHECK(re_parse(re, pattern, strlen(pattern), &syntax, &x, &e) &&
		  re_parse(re, pattern, strlen(pattern), &json, &y, &e) &&
		  re_parse(re, pattern, strlen(pattern), &whole, &z, &e), "%s: %s", pattern, e.msg);
	for (int i = 0; i < 400 && e.cls == ERR_NONE; i++)
	{
		char		s[64];
		char		q[400];
		bool		want;

		random_text(s, &seed);
		json_quote(s, q, &seed);
		want = pcre_match(code, s);
		CHECK(re_match(re, x, s, strlen(s)) == want, "%s in \"%s\": %d", pattern, s, want);
		CHECK(re_match(re, y, q, strlen(q)) == want, "%s in JSON \"%s\": %d", pattern, q, want);
		CHECK(re_match(re, z, s, strlen(s)) == pcre_match(all, s), "%s is \"%s\": %d", pattern, s, !want);
	}
	pcre2_code_free(code);
	pcre2_code_free(all);
	re_free(re);
}

/* Does the pattern match the single character cp, in UTF-8? */
static bool
matches(Regex *re, ReNode x, uint32_t cp)
{
	char		s[5] = {0};

	if (cp < 0x80)
		s[0] = (char) cp;
	else if (cp < 0x800)
		s[0] = (char) (0xC0 | cp >> 6), s[1] = (char) (0x80 | (cp & 63));
	else if (cp < 0x10000)
		s[0] = (char) (0xE0 | cp >> 12), s[1] = (char) (0x80 | (cp >> 6 & 63)),
			s[2] = (char) (0x80 | (cp & 63));
	else
		s[0] = (char) (0xF0 | cp >> 18), s[1] = (char) (0x80 | (cp >> 12 & 63)),
			s[2] = (char) (0x80 | (cp >> 6 & 63)), s[3] = (char) (0x80 | (cp & 63));
	return re_match(re, x, s, cp == 0 ? 1 : strlen(s));
}

/* The characters of each class: none beyond ASCII unless (?u) is set, and ECMA-262's white space. */
static void
classes(void)
{
	static const struct
	{
		const char *pattern;
		bool		ecma;
		const char *ascii;		/* exactly these ASCII characters; NULL: not checked */
		int			beyond;		/* number of others; -1: many */
	}			c[] = {
		{"\\d", false, "0123456789", 0}, {"\\d", true, "0123456789", 0}, {"(?i)\\d", false, "0123456789", 0},
		{"(?-u)\\d", false, "0123456789", 0},
		{"(?u)\\d", false, "0123456789", -1}, {"(?u:\\d)", false, "0123456789", -1},
		{"(?u:)\\d", false, "0123456789", 0}, {"(?u)(?a)\\d", false, "0123456789", 0},
		{"(?u)(?-u:\\d)", false, "0123456789", 0}, {"[\\d]", false, "0123456789", 0},
		{"[[:digit:]]", false, "0123456789", 0}, {"(?u)[[:digit:]]", false, "0123456789", 0},
		{"\\s", false, "\t\n\v\f\r ", 0}, {"\\s", true, "\t\n\v\f\r ", 19},
		{"(?u)\\s", false, "\t\n\v\f\r ", 19}, {"[[:space:]]", true, "\t\n\v\f\r ", 0},
		{"[^\\W\\d_]", false, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 0},
		{"[^\\W\\d_]", true, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 0},
		{"(?i)k", false, "Kk", 0}, {"(?i)[i-k]", false, "IJKijk", 0}, {"(?i)s", true, "Ss", 0},
		{"(?iu)s", false, "Ss", 0}, {"(?i)[[:upper:]]", false, NULL, 0},
		{"(?i)\\w", false, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz", 0},
		{"\\p{Nd}", false, "0123456789", -1}, {"\\D", false, NULL, -1}
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
	{
		ReSyntax	syntax = {.mode = RE_RAW,.rust = !c[i].ecma};
		Regex	   *re = re_new(0);
		Err			e = {0};
		ReNode		x;
		char		ascii[129];
		int			n = 0;
		int			beyond = 0;

		CHECK(re_parse(re, c[i].pattern, strlen(c[i].pattern), &syntax, &x, &e), "%s: %s", c[i].pattern,
			  e.msg);
		for (uint32_t cp = 1; cp <= 0x10FFFF && e.cls == ERR_NONE; cp++)
		{
			if ((cp >= 0xD800 && cp < 0xE000) || !matches(re, x, cp))
				continue;
			if (cp < 0x80)
				ascii[n++] = (char) cp;
			else
				beyond++;
		}
		ascii[n] = '\0';
		CHECK(c[i].ascii == NULL || strcmp(ascii, c[i].ascii) == 0, "%s has %s", c[i].pattern, ascii);
		CHECK(c[i].beyond < 0 ? beyond > 100 : beyond == c[i].beyond, "%s has %d characters beyond ASCII",
			  c[i].pattern, beyond);
		re_free(re);
	}
}

static void
refused(void)
{
	static const struct
	{
		const char *pattern;
		ErrClass	cls;
		const char *word;
	}			cases[] = {
		{"[a-z&&[^b]]", ERR_UNSUPPORTED, "set operation"},
		{"[a-z--[aeiou]]", ERR_UNSUPPORTED, "set operation"},
		{"[\\w--\\d]", ERR_UNSUPPORTED, "set operation"}, {"[a-c~~b]", ERR_UNSUPPORTED, "set operation"},
		{"(?=a)b", ERR_UNSUPPORTED, "look-ahead"}, {"(?!a)b", ERR_UNSUPPORTED, "look-ahead"},
		{"(?<=a)b", ERR_UNSUPPORTED, "look-behind"},
		{"(?<!a)b", ERR_UNSUPPORTED, "look-behind"}, {"(a)\\1", ERR_UNSUPPORTED, "back-reference"},
		{"\\bword", ERR_UNSUPPORTED, "word boundary"},
		{"a\\B", ERR_UNSUPPORTED, "word boundary"}, {"(?>a)", ERR_UNSUPPORTED, "atomic"},
		{"a++", ERR_UNSUPPORTED, "quantifier"},
		{"\\p{Script=Greek}", ERR_UNSUPPORTED, "Script=Greek"}, {"(?m)a", ERR_UNSUPPORTED, "(?m"},
		{"(a", ERR_INVALID, "without"}, {"a)", ERR_INVALID, "without"},
		{"[a", ERR_INVALID, "without"}, {"*a", ERR_INVALID, "repeat"}, {"a{3,2}", ERR_INVALID, "order"},
		{"[b-a]", ERR_INVALID, "order"}, {"\\", ERR_INVALID, "end"},
		{"a{2000000}", ERR_TOO_LONG, "count"}, {"(?<n", ERR_INVALID, "name"}, {"\\xg", ERR_INVALID, "escape"},
		{"\\y", ERR_INVALID, "escape"}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Regex	   *re = re_new(0);
		Err			e = {0};
		ReSyntax	syntax = {.search = true,.rust = true};
		ReNode		x;

		CHECK(!re_parse(re, cases[i].pattern, strlen(cases[i].pattern), &syntax, &x, &e) &&
			  e.cls == cases[i].cls && strstr(e.msg, cases[i].word) != NULL, "%s: %d %s", cases[i].pattern,
			  e.cls, e.msg);
		re_free(re);
	}
}

/* Patterns that make other engines hang or run out of memory. */
static void
bombs(void)
{
	static const char *const bomb[] = {"(a+)+$", "(a|a)*$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$",
									   "(x+x+)+y", "((a{0,1000}){0,1000}){0,1000}b",
		"(a?){1000}a{1000}", "(.*a){30}", ".*a.{40}", "([a-z]{1,1000}-?){1,1000}x",
		"(a{1,100}b{1,100}){1,100}c", "(a|b|ab|ba|aba){1,5000}z",
		"((((((((((a|b){9}){9}){9}){9}){9}){9}){9}){9}){9}){9}", "(\\w{1,500}\\s?){1,500}!"};
	char		text[3000];

	for (size_t i = 0; i < sizeof(bomb) / sizeof(bomb[0]); i++)
	{
		Regex	   *re = re_new(0);
		Err			e = {0};
		ReSyntax	syntax = {.search = i % 2 == 0,.rust = true,.unicode = true};
		ReNode		x;

		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = "aaab"[k % 4];
		if (re_parse(re, bomb[i], strlen(bomb[i]), &syntax, &x, &e))
			re_match(re, x, text, sizeof(text));
		CHECK(re_work(re) < 20000000, "%s: %llu steps", bomb[i], (unsigned long long) re_work(re));
		CHECK(re_memory(re) < (size_t) 200 << 20, "%s: %zu bytes", bomb[i], re_memory(re));
		if (getenv("GRAM_VERBOSE") != NULL)
			fprintf(stderr, "%-50s %8llu steps %8u nodes %s\n", bomb[i], (unsigned long long) re_work(re),
					re->n, re_check(re, &e) ? "" : e.msg);
		re_free(re);
	}
}

/* Many texts at once. */
static void
many_texts(void)
{
	enum
	{
		N = 3000
	};
	static char text[N][16];
	const char *s[N];
	size_t		len[N];
	Regex	   *re = re_new(0);
	ReNode		x;
	int			wrong = 0;

	for (int i = 0; i < N; i++)
	{
		len[i] = (size_t) sprintf(text[i], "%x\"%d", i * 7919, i % 10);
		s[i] = text[i];
	}
	x = re_texts(re, s, len, N, RE_RAW);
	for (int i = 0; i < N; i++)
		wrong += !re_match(re, x, s[i], len[i]) || re_match(re, x, s[i], len[i] - 1);
	CHECK(wrong == 0, "%d of %d", wrong, N);
	x = re_texts(re, s, len, N, RE_JSON);
	CHECK(re_match(re, x, "0\\u00220", 8) && re_match(re, x, "0\\\"\\u0030", 9) &&
		  !re_match(re, x, "0\"0", 3), "spelled in JSON");
	CHECK(re_check(re, &(Err) {0}), "room");
	re_free(re);
}

/* ---- multiples ---- */

static ReNode
parse(Regex *re, const char *s)
{
	ReSyntax	syntax = {.mode = RE_RAW};
	ReNode		r = RE_NONE;
	Err			e = {0};

	CHECK(re_parse(re, s, strlen(s), &syntax, &r, &e), "%s: %s", s, e.msg);
	return r;
}

/* Is there a text, of at most n more bytes, that matches and makes a multiple of m from the remainder r? */
static bool
completes(Regex *re, ReNode at, uint64_t r, uint32_t m, int n)
{
	if (re_nullable(re, at) && r % m == 0)
		return true;
	for (const char *c = "0123456789.-"; *c != '\0' && n > 0; c++)
	{
		ReNode		to = re_deriv(re, at, (uint8_t) *c);

		if (to != RE_NONE && completes(re, to, *c > '.' ? (r * 10 + (uint64_t) (*c - '0')) % m : r, m, n - 1))
			return true;
	}
	return false;
}

/* After each prefix of a number: can it be continued to a multiple? */
static void
multiples(void)
{
	static const char *const shape[] = {"[0-9]{1,4}", "[1-9][0-9]{0,3}|0", "[0-9]{2}(?:\\.[0-9]{2})?",
										"[0-9]+\\.[0-9]", "1[0-9]{2}|2[0-7][0-9]", "-?[0-9]{1,3}",
										"(?:[0-9]{1,2}|7)\\.?[0-9]{0,2}", "[05]{1,4}", "[0-9]{3} ?"};
	static const uint32_t factor[] = {2, 3, 7, 10, 13, 40, 97, 101, 250, 997, 1024, 5000, 9973};
	static const char *const begin[] = {"", "0", "1", "7", "-", "-3", "12", "25", "27", "28", "50", "55",
										"99", "7.", "12.", "3.0", "12.5", "00", "123", "999", "555", "10.25"};

	for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++)
		for (size_t k = 0; k < sizeof(factor) / sizeof(factor[0]); k++)
		{
			Regex	   *re = re_new(0);
			ReNode		plain = parse(re, shape[i]);
			ReNode		x = re_and(re, plain, re_residue(re, factor[k], 0));

			for (size_t b = 0; b < sizeof(begin) / sizeof(begin[0]); b++)
			{
				ReNode		at = x;
				ReNode		p = plain;
				uint64_t	r = 0;

				for (const char *c = begin[b]; *c != '\0'; c++)
				{
					at = re_deriv(re, at, (uint8_t) *c);
					p = re_deriv(re, p, (uint8_t) *c);
					r = *c > '.' ? r * 10 + (uint64_t) (*c - '0') : r;
				}
				CHECK(re_live(re, at) == completes(re, p, r, factor[k], 7),
					  "%s, multiples of %u behind \"%s\"", shape[i], factor[k], begin[b]);
			}
			re_free(re);
		}
}

int
main(void)
{
	RUN(random_expressions());
	RUN(liveness());
	RUN(multiples());
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
	{
		RUN(one_pattern(patterns[i], false));
		/* [[:alpha:]] is ASCII in our syntax, Unicode in the other */
		if (strstr(patterns[i], "[:") == NULL)
			RUN(one_pattern(patterns[i], true));
	}
	RUN(classes());
	RUN(refused());
	RUN(bombs());
	RUN(many_texts());
	return check_done("test_gram_re");
}
