/*
 * fuzz_grammar.c
 *	  grammar_new() on arbitrary specifications, and on arbitrary texts if it compiles.
 *
 * The input is a letter for the kind (r regex, g EBNF or Lark, t structural tag, s JSON schema, v the
 * same to validate), the specification, a NUL, and a text.  The text is matched in pieces; before each
 * the mask must agree with trying the tokens.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "grammar/grammar.h"

#define TOKENS	300
#define WORDS	((TOKENS + 31) / 32)

/* All bytes, and a few longer tokens. */
static GramVocab *
vocabulary(void)
{
	static const char *const longer[] = {"ab", "abc", "aaaaaaaa", "\":", "\",\"", "{\"", "\"}", "true", "12",
										 "00", "\\u", "\\u00", "\xC3\xA9", "\xF0\x9F\x98", "  ", ", ", "]]",
										 "<f>", "</f>", "a b", "1.5e", "null", "\n\n",
										 "abcabcabcabcabcabcabcabcabc"};
	static char bytes[256];
	static GramToken token[TOKENS];
	static GramVocab *v;
	int32_t		end = 299;

	if (v != NULL)
		return v;
	for (int i = 0; i < 256; i++)
	{
		bytes[i] = (char) i;
		token[i] = (GramToken) {&bytes[i], 1, false};
	}
	for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++)
		token[256 + i] = (GramToken) {longer[i], strlen(longer[i]), false};
	v = gram_vocab_new(token, TOKENS, &end, 1);
	return v;
}

/* Compare some bits of the mask with trying the tokens. */
static bool
check_mask(GramMatch *m, uint8_t salt)
{
	uint32_t	words[WORDS];
	Err			e = {0};
	Buf			forced = {0};

	if (!gram_match_mask(m, words, &e))
	{
		fuzz_failed(&e);
		return false;
	}
	for (int i = salt % 7; i < TOKENS; i += 7)
	{
		bool		yes;

		if (!gram_match_token(m, i, &yes, &e))
		{
			fuzz_failed(&e);
			return false;
		}
		if (yes != (words[i / 32] >> (i % 32) & 1))
			abort();
		if (yes)
			gram_match_rollback(m, 1);
	}
	if (!gram_match_forced(m, 20, &forced, &e))
		fuzz_failed(&e);
	buf_free(&forced);
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char kinds[] = "rgtsv";
	static const GramKind kind[] = {GRAM_REGEX, GRAM_GRAMMAR, GRAM_STRUCTURAL_TAG, GRAM_JSON_SCHEMA,
									GRAM_JSON_SCHEMA};
	const char *k = size > 0 && data[0] != 0 ? strchr(kinds, data[0]) : NULL;
	const uint8_t *nul = k != NULL ? memchr(data, 0, size) : NULL;
	GramSpec	s = {0};
	const char *text = "";
	size_t		n = 0;
	GramMatch  *m;
	Grammar    *g;
	Err			e = {0};
	bool		ok = true;

	if (k == NULL)
		return 0;
	s.kind = kind[k - kinds];
	s.opt.validate = *k == 'v';
	s.text = (const char *) data + 1;
	s.len = nul != NULL ? (size_t) (nul - data) - 1 : size - 1;
	if (nul != NULL)
	{
		text = (const char *) nul + 1;
		n = size - s.len - 2;
	}
	g = grammar_new(&s, &e);
	if (g == NULL)
	{
		fuzz_failed(&e);
		return 0;
	}
	m = gram_match_new(g, vocabulary());
	for (size_t at = 0; at < n && at < 64 && ok; at++)
		if (!check_mask(m, (uint8_t) text[at]) || !gram_match_bytes(m, text + at, 1, &ok, &e))
			break;
	gram_match_rollback(m, 3);
	check_mask(m, 0);
	gram_match_free(m);
	if (!grammar_accepts(g, text, n, &ok, &e))
		fuzz_failed(&e);
	grammar_unref(g);
	return 0;
}

static const char *const seeds[][2] = {
	{"r[a-z]+\\d{2,5}(x|y)?", "abc123x"}, {"r^(a|b)*abb$", "ababb"}, {"r\\w+@\\w+\\.[a-z]{2,}", "a@b.cd"},
	{"r(?i)true|false|\\p{Lu}.", "TRUE"}, {"r[^\"\\\\]*(\\\\.)*", "ab\\n"},
	{"r.*a.{10}", "xxaxxxxxxxxxx"}, {"r(a{1,30}){2,9}b", "aaaab"},
	{"r\xC3\xA9|[\xC3\xA0-\xC3\xBF]+|\\u00e9", "\xC3\xA9"}, {"r$^|(^a$)+", "a"},
	{"groot ::= \"a\" root | b{2,3}\nb ::= [0-9] # x", "aa12"},
	{"groot ::= e\ne ::= e \"+\" e | [0-9]+ | \"(\" e \")\"", "1+(2+3)"},
	{"groot ::= x* \"q\"?\nx ::= y | \"\"\ny ::= \"a\" x \"b\"", "aabbq"},
	{"groot ::= v\nv ::= \"{\" (s \":\" v (\",\" s \":\" v)*)? \"}\" | s | \"[\" v* \"]\"\ns ::= \"\\\"\" "
	 "[^\"]* \"\\\"\"", "{\"a\":[\"b\"]}"},
	{"gstart: A (\",\" A)* -> x\nA.2: /[a-c]+/i\n%ignore \" \"", "a, B"},
	{"g?start: sum\nsum: NUM | sum (\"+\"|\"-\") NUM~1..2\n%import common.NUMBER -> NUM\n%import "
	 "common.WS\n%ignore WS", "1 + 2.5"},
	{"t{\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"<f\"],\"tags\":[{\"begin\":\"<f>\","
	 "\"content\":{\"type\":\"regex\",\"pattern\":\"a+\"},\"end\":\"</f>\"}]}}", "x<f>aa</f>"},
	{"t{\"format\":{\"type\":\"sequence\",\"elements\":[{\"type\":\"const_string\",\"value\":\"a\"},"
	 "{\"type\":\"any_text\"}]}}", "abc"},
	{"s{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"enum\":[1,\"x\"]}},"
	 "\"required\":[\"a\"]}", "{\"a\":12,\"b\":\"x\"}"},
	{"s{\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"},\"maxItems\":3}},"
	 "\"$ref\":\"#/$defs/t\"}", "[[],[[]]]"},
	{"v{\"type\":\"string\",\"pattern\":\"^a.*z$\",\"minLength\":3}", "\"abcz\""},
	{"v{\"anyOf\":[{\"type\":\"number\",\"minimum\":1.5},{\"not\":{\"type\":\"object\"}}]}", "17"}
};

size_t
fuzz_count(void)
{
	return sizeof(seeds) / sizeof(seeds[0]);
}

void
fuzz_seed(size_t i, Buf *b)
{
	buf_addstr(b, seeds[i][0]);
	buf_addc(b, '\0');
	buf_addstr(b, seeds[i][1]);
}

/* Insert pieces of the notations at random positions. */
void
fuzz_change(Buf *b, unsigned *seed)
{
	static const char *const piece[] = {"*", "+", "?", "{2,5}", "{1,1000}", "|", "(", ")", "[", "]", "[^a]",
										".", "^", "$", "\\d", "\\w", "\\p{L}", "(?i:", "(?=", "\\1", "a", "b",
										"::=", "root", "\n", "\"x\"", "\"\"", "%ignore \" \"\n", "start: ",
										": ",
		"A", "~2..3", "#", "/a+/", "x ::= x x | \"a\"\n", "start", "\\u00e9", "\xC3\xA9", "-", ",",
		"\"type\":\"array\",", "{}", "true", "\"$ref\":\"#\",", "\"not\":{},", "\"items\":",
		"\"minItems\":2,", "\"pattern\":\"a*\","};

	if (rand_r(seed) % 3 > 0)
	{
		const char *s = piece[fuzz_below(seed, sizeof(piece) / sizeof(piece[0]))];

		fuzz_replace(b, 1 + fuzz_below(seed, b->len), rand_r(seed) % 3 == 0 ? fuzz_below(seed, 4) : 0, s,
					 strlen(s));
	}
	else if (rand_r(seed) % 2 && b->len > 0 && (b->data[0] == 't' || b->data[0] == 's' || b->data[0] == 'v'))
		fuzz_json(b, b->len, seed);
	else
		fuzz_bytes(b, b->len, seed);
}

FUZZ_MAIN("fuzz_grammar", 4000)
