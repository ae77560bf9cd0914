/*
 * test_grammar.c
 *	  Specifications: regexes, choices, EBNF, Lark, structural tags, and errors.
 */
#include <string.h>

#include "tests/unit/check.h"
#include "grammar/grammar_internal.h"

/* ---- texts that match and texts that don't ---- */

typedef struct Case
{
	GramKind	kind;
	const char *spec;
	const char *yes[8];
	const char *no[8];
} Case;

static const Case cases[] = {
	{GRAM_REGEX, "[a-z]+\\d?", {"a", "abc", "abc1"}, {"", "1", "abc12", "xabc "}},
	{GRAM_REGEX, "^yes$|no", {"yes", "no"}, {"yesno", "", "n"}},
	{GRAM_REGEX, "\\w\\d", {"a1", "_9"}, {"-1", "aa", "\xC3\xA9\x31", "a\xD9\xA3", "a\xEF\xBC\x91"}},
	{GRAM_REGEX, "(?u)\\w\\d", {"a1", "\xC3\xA9\xD9\xA3"}, {"-1", "aa"}},
	{GRAM_REGEX, "(?u:\\d)\\d", {"11", "\xD9\xA3\x31"}, {"\xD9\xA3\xD9\xA3"}},
	/* EBNF */
	{GRAM_GRAMMAR, "root ::= \"a\" | b\nb ::= [0-9]{2,3} # digits\n", {"a", "12", "123"},
	 {"1", "1234", "a1", ""}},
	{GRAM_GRAMMAR, "root::=x\nx::=\"(\"x\")\"|", {"", "()", "((()))"}, {"(", "())"}},
	{GRAM_GRAMMAR, "root ::= 'it''s' | \"\\\"\\x41\\u00e9\\n\\\\\"", {"its", "\"A\xC3\xA9\n\\"},
	 {"it''s", "A"}},
	{GRAM_GRAMMAR, "root ::= (\n  \"a\"\n  | \"b\" )+ c-1\n\n# comment\nc-1 ::=\n  [^ab\\n] | [\\]\\-x]",
	 {"ac", "bbx", "ab]", "a\xF0\x9F\x98\x80"}, {"c", "a", "a\n"}},
	{GRAM_GRAMMAR, "root ::= e\ne ::= e \"+\" t | t\nt ::= t \"*\" f | f\nf ::= \"(\" e \")\" | [0-9]+",
	 {"1", "1+2*3", "(1+2)*(3)"}, {"1+", "+1", "(1", "1+2)"}},
	{GRAM_GRAMMAR, "root ::= a{2} b{,2} c{1,}\na ::= \"a\" b\nb ::= \"b\"?\nc ::= \"c\" | \"(\" c \")\"",
	 {"aac", "ababbbc", "aa(c)cc"}, {"ac", "aa", "ababbbbbc"}},
	{GRAM_GRAMMAR, "root ::= /[a-f]{2}(\\/x)?/ .", {"abz", "ab/x\n", "ab/"}, {"ab", "gh1"}},
	{GRAM_GRAMMAR, "root ::= [\\d] /\\w(?u)\\w/", {"1a\xC3\xA9", "1ab"}, {"\xD9\xA3\x61\x61", "1\xC3\xA9z"}},
	{GRAM_GRAMMAR, "root ::= dead | \"x\"\ndead ::= \"a\" dead", {"x"}, {"a", "ax"}},
	/* Lark */
	{GRAM_GRAMMAR, "start: \"a\" B+ -> alias\nB: /b|c/", {"ab", "abcb"}, {"a", "b"}},
	{GRAM_GRAMMAR, "first: NAME (\",\" NAME)*\nNAME: LETTER (LETTER | DIGIT)*\n%import "
				   "common.LETTER\n%import common.DIGIT\n%ignore \" \"", {"a1,b", " a , b2 "},
				   {"1a", "a,", "a b", "a 1"}},
	{GRAM_GRAMMAR, "?start: sum\n?sum: product | sum \"+\" product // left\n  | sum \"-\" product\n?product: "
		"atom | product \"*\" atom\n!atom.2: NUMBER | \"-\" atom\n  | \"(\" sum \")\"\n%import common "
		"(NUMBER, WS)\n%ignore WS\n", {"1", "1 + 2.5e3*-3", "( 1 - 2 )\n"}, {"1 +", "()", "1 2"}},
	{GRAM_GRAMMAR, "start: /\\d/ B\nB: /\\d/u | /\\w/i", {"1\xD9\xA3", "1x"}, {"\xD9\xA3\x31", "1\xC3\xA9"}},
	{GRAM_GRAMMAR, "start: [\"x\"] \"a\"~2..3 \"b\"~2 \"q\"i\nUNUSED: \"u\"", {"aabbq", "xaaabbQ"},
	 {"abbq", "aabq", "xxaabbq"}},
	{GRAM_GRAMMAR, "start: \"a\"..\"e\" X\nX.-1: /[xy]+/i | \"-\"..\"/\"", {"ax", "eXy", "b."}, {"fx", "a"}},
	{GRAM_GRAMMAR, "start: (a | \"(\"\n  start\n  \")\")\na: \"a\"\n  | \"b\"\n%import common.ESCAPED_STRING "
				   "-> S\nunused: S", {"a", "((b))"}, {"()", "(a"}},
	/* structural tags */
	{GRAM_STRUCTURAL_TAG, "{\"type\": \"structural_tag\", \"format\": {\"type\": \"sequence\", \"elements\": "
		"[{\"type\": \"const_string\", \"value\": \"x\"}, {\"type\": \"or\", \"elements\": [{\"type\": "
		"\"regex\", \"pattern\": \"[0-9]+\"}, {\"type\": \"grammar\", \"grammar\": \"root ::= [a-c] "
		"root?\"}]}]}}", {"x12", "xabc"}, {"x", "12", "x1a"}},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tag\", \"begin\": \"<think>\", \"content\": {\"type\": "
						  "\"any_text\"}, \"end\": \"</think>\"}}",
		{"<think></think>", "<think>a < b </thin </think>"},
		{"<think>", "<think></think>x", "<think></think></think>"}},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"<f=\"], \"tags\": "
						  "[{\"begin\": \"<f=a>\", \"content\": {\"type\": \"regex\", \"pattern\": "
		"\"\\\\d\"}, \"end\": \"</f>\"}, {\"begin\": \"<f=b>\", \"content\": {\"type\": \"regex\", "
		"\"pattern\": \"x*\"}, \"end\": [\"</f>\", \"/\"]}]}}",
		{"", "text", "a<f=a>1</f>b<f=b>xx/ <", "<<f=b></f>"}, {"<f=", "a <f=c>", "<f=a>x</f>", "<f=a>1"}},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"<\"], "
						  "\"at_least_one\": true, \"stop_after_first\": true, \"tags\": [{\"begin\": "
		"\"<a>\", \"content\": {\"type\": \"const_string\", \"value\": \"1\"}, \"end\": \"</a>\"}]}}",
		{"<a>1</a>"}, {"", "hm", "<a>1</a>x", "hm <a>1</a>"}},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tags_with_separator\", \"separator\": \", \", \"tags\": "
						  "[{\"begin\": \"(\", \"content\": {\"type\": \"regex\", \"pattern\": \"a\"}, "
						  "\"end\": \")\"}]}}",
		{"", "(a)", "(a), (a)"}, {"(a),", "(a)(a)"}},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"json_schema\", \"json_schema\": {\"type\": \"integer\", "
						  "\"minimum\": 9007199254740993, \"maximum\": 9007199254740994}}}",
		{"9007199254740993", "9007199254740994"}, {"9007199254740992", "9007199254740995"}}
};

static bool
accepts(Grammar *g, const char *s)
{
	Err			e = {0};
	bool		yes = false;

	CHECK(grammar_accepts(g, s, strlen(s), &yes, &e), "%s", e.msg);
	return yes;
}

static Grammar *
make(GramKind kind, const char *text, size_t n, Err *e)
{
	GramSpec	s = {.kind = kind,.text = text,.len = n};

	*e = (Err) {0};
	return grammar_new(&s, e);
}

static void
texts(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const Case *c = &cases[i];
		Err			e;
		Grammar    *g = make(c->kind, c->spec, strlen(c->spec), &e);

		CHECK(g != NULL, "%s: %s", c->spec, e.msg);
		for (int k = 0; g != NULL && k < 8; k++)
		{
			CHECK(c->yes[k] == NULL || accepts(g, c->yes[k]), "%s: \"%s\"", c->spec, c->yes[k]);
			CHECK(c->no[k] == NULL || !accepts(g, c->no[k]), "%s: not \"%s\"", c->spec, c->no[k]);
		}
		grammar_unref(g);
	}
}

static void
choices(void)
{
	static const char *const text[] = {"red", "green", "", "re", "\xC3\xA9\"\\"};
	static const size_t len[] = {3, 5, 0, 2, 4};
	GramSpec	s = {.kind = GRAM_CHOICE,.choice = text,.choice_len = len,.n_choices = 5};
	Err			e = {0};
	Grammar    *g = grammar_new(&s, &e);

	CHECK(g != NULL, "%s", e.msg);
	for (int i = 0; i < 5; i++)
		CHECK(accepts(g, text[i]), "%s", text[i]);
	CHECK(!accepts(g, "r") && !accepts(g, "redgreen") && !accepts(g, "\xC3\xA9"), "others");
	grammar_unref(g);
	s.n_choices = 0;
	CHECK(grammar_new(&s, &e) == NULL && e.cls == ERR_INVALID, "no choice");
}

/* ---- errors that name the feature ---- */

static const struct
{
	GramKind	kind;
	const char *spec;
	ErrClass	cls;
	const char *word;
}			refusals[] = {
	{GRAM_REGEX, "a(?=b)", ERR_UNSUPPORTED, "look-ahead"}, {GRAM_REGEX, "(", ERR_INVALID, "without"},
	{GRAM_REGEX, "[^\\s\\S]", ERR_INVALID, "any text"},
	{GRAM_GRAMMAR, " \n", ERR_INVALID, "empty"}, {GRAM_GRAMMAR, "a ::= \"x\"", ERR_INVALID, "root"},
	{GRAM_GRAMMAR, "root ::= b", ERR_INVALID, "\"b\""},
	{GRAM_GRAMMAR, "root ::= \"a\"\nroot ::= \"b\"", ERR_INVALID, "twice"},
	{GRAM_GRAMMAR, "root ::= \"a", ERR_INVALID, "line 1"}, {GRAM_GRAMMAR, "root ::=\n(\"a\"", ERR_INVALID,
															"line 2"},
	{GRAM_GRAMMAR, "root ::= \"a\")", ERR_INVALID, "without"},
	{GRAM_GRAMMAR, "root ::= [a", ERR_INVALID, "["}, {GRAM_GRAMMAR, "root ::= \"a\"{3,1}", ERR_INVALID,
													  "count"},
	{GRAM_GRAMMAR, "root ::= \"a\"{9999999}", ERR_TOO_LONG, "count"},
	{GRAM_GRAMMAR, "root ::= \"\\xZZ\"", ERR_INVALID, "escape"},
	{GRAM_GRAMMAR, "root ::= \"\\ud800\"", ERR_INVALID, "character"},
	{GRAM_GRAMMAR, "root ::= \"a\" root", ERR_INVALID, "any text"},
	{GRAM_GRAMMAR, "root ::= <tok>", ERR_UNSUPPORTED, "tokens"},
	{GRAM_GRAMMAR, "root ::= (=\"a\")", ERR_UNSUPPORTED, "look-ahead"},
	{GRAM_GRAMMAR, "start: b", ERR_INVALID, "\"b\""}, {GRAM_GRAMMAR, "start: \"a\" ; x", ERR_INVALID,
													   "unexpected"},
													   {GRAM_GRAMMAR, "%import python.X\nstart: X",
														ERR_UNSUPPORTED, "%import"},
	{GRAM_GRAMMAR, "%import common.NOPE\nstart: NOPE", ERR_UNSUPPORTED, "NOPE"},
	{GRAM_GRAMMAR, "%declare X\nstart: X", ERR_UNSUPPORTED, "%declare is"},
	{GRAM_GRAMMAR, "%llguidance {}\nstart: \"a\"", ERR_UNSUPPORTED, "%llguidance is"},
	{GRAM_GRAMMAR, "start{x}: x", ERR_UNSUPPORTED, "templates"},
	{GRAM_GRAMMAR, "start: /a(?!b)/", ERR_UNSUPPORTED, "look-ahead"},
	{GRAM_GRAMMAR, "start: /a/x", ERR_UNSUPPORTED, "flag x"},
	{GRAM_GRAMMAR, "start: \"a\"~3..2", ERR_INVALID, "order"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"any_text\", \"max_tokens\": 3}}", ERR_UNSUPPORTED,
	 "max_tokens"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"any_text\", \"excludes\": [\"x\", \"\"]}}",
	 ERR_INVALID, "excludes must"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tags_with_separator\", \"tags\": [], \"separator\": "
						  "\",\"}}", ERR_INVALID, "needs tags"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tags_with_separator\", \"tags\": [{\"type\": "
						  "\"or\", \"begin\": \"(\", \"content\": {\"type\": \"any_text\"}, \"end\": "
						  "\")\"}], \"separator\": \",\"}}",
		ERR_INVALID, "type must"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"<\"], "
						  "\"at_least_one\": 1, \"tags\": [{\"begin\": \"<\", \"content\": {\"type\": "
						  "\"any_text\"}, \"end\": \">\"}]}}",
		ERR_INVALID, "at_least_one"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"any_text\"}, \"triggers\": [\"<\"]}",
	 ERR_UNSUPPORTED, "triggers"},
	{GRAM_STRUCTURAL_TAG, "[]", ERR_INVALID, "object"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"nope\"}}", ERR_UNSUPPORTED, "nope"},
	{GRAM_STRUCTURAL_TAG, "{\"triggers\": [\"<\"], \"structures\": [{\"begin\": \"x\", \"schema\": {}, "
						  "\"end\": \"\"}]}", ERR_INVALID, "triggers"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tag\", \"begin\": \"<\", \"content\": {\"type\": "
						  "\"any_text\"}, \"end\": \"\\u0000\"}}", ERR_INVALID, "end must not"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tag\", \"begin\": \"<\", \"content\": {\"type\": "
						  "\"any_text\"}, \"end\": [\">\", \"a\\u0000\"]}}", ERR_INVALID, "end must not"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tag\", \"begin\": \"<\\u0000\", \"content\": "
						  "{\"type\": \"any_text\"}, \"end\": \">\"}}", ERR_INVALID, "begin must not"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"or\", \"elements\": [{\"type\": \"any_text\"}, "
						  "{\"type\": \"const_string\", \"value\": \"\\u0000\"}]}}", ERR_INVALID,
						  "value must not"},
	{GRAM_STRUCTURAL_TAG, "{\"triggers\": [\"<\", \"\\u0000\"], \"structures\": [{\"begin\": \"<\", "
						  "\"schema\": {}, \"end\": \"\"}]}", ERR_INVALID, "trigger must not"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tags_with_separator\", \"separator\": \"\\u0000\", "
						  "\"tags\": [{\"begin\": \"<\", \"content\": {\"type\": \"any_text\"}, \"end\": "
						  "\">\"}]}}",
		ERR_INVALID, "separator must not"}
};

static void
refused(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
	{
		Err			e;
		Grammar    *g = make(refusals[i].kind, refusals[i].spec, strlen(refusals[i].spec), &e);

		CHECK(g == NULL && e.cls == refusals[i].cls && strstr(e.msg, refusals[i].word) != NULL,
			  "%s: %d \"%s\"", refusals[i].spec, e.cls, e.msg);
		grammar_unref(g);
	}
	CHECK(make(GRAM_REGEX, "a\0b", 3, &(Err) {0}) == NULL, "NUL");
}

int
main(void)
{
	RUN(texts());
	RUN(choices());
	RUN(refused());
	return check_done("test_grammar");
}
