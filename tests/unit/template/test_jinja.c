/*
 * test_jinja.c
 *	  What jinja_golden.c can't compare with jinja2: marks of the origin of bytes, limits, hostile
 *	  templates, errors of variables.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"
#include "tests/unit/jinja_vars.h"
#include "text/unicode.h"

/* Render with input in brackets: "ab[cd]e". */
static const char *
marked(const char *source, const char *json)
{
	static Buf	shown;
	Buf			out = {0};
	Buf			marks = {0};
	Err			e = {0};
	JinTemplate *t = jin_compile(source, strlen(source), &e);
	Jin		   *j = jin_new(NULL);
	bool		in = false;

	buf_reset(&shown);
	if (t == NULL || !set_json(j, "m", json, strlen(json), true, &e) ||
		!jin_render(j, t, &out, &marks, &e))
		buf_printf(&shown, "error: %s", e.msg);
	else if (marks.len != out.len)
		buf_addstr(&shown, "error: marks of another length");
	else
		for (size_t i = 0; i <= out.len; i++)
		{
			bool		now = i < out.len && marks.data[i] != 0;

			if (now != in)
				buf_addc(&shown, now ? '[' : ']');
			in = now;
			if (i < out.len)
				buf_addc(&shown, out.data[i]);
		}
	buf_free(&out);
	buf_free(&marks);
	jin_end(j);
	jin_free(t);
	return shown.data != NULL ? shown.data : "";
}

static void
test_marks(void)
{
	static const char *const cases[][3] = {
		{"a{{ m }}b", "\"x\"", "a[x]b"},
		{"{{ 'a' + m + 'b' }}", "\"x\"", "a[x]b"},
		{"{{ 'a' ~ m ~ m }}", "\"x\"", "a[xx]"},
		{"{{ ('a' ~ m ~ 'b')[::-1] }}", "\"xy\"", "b[yx]a"},
		{"{{ ('ab' ~ m)[1:3] }}", "\"xy\"", "b[x]"},
		{"{{ (' ' ~ m ~ ' ')|trim }}|", "\" x \"", "[x]|"},
		{"{{ ('a' ~ m)|upper }}", "\"\xC3\xA9\xC3\x9F\"", "A[\xC3\x89SS]"},
		{"{{ m|replace('x', 'T') }}", "\"axa\"", "[a]T[a]"},
		{"{{ 'a-a'|replace('-', m) }}", "\"x\"", "a[x]a"},
		{"{{ ['a', m]|join(',') }}", "\"x\"", "a,[x]"},
		{"{{ m|join('-') }}", "[\"x\", 1, \"y\"]", "[x]-1-[y]"},
		{"{{ (m ~ ',b').split(',')|join }}", "\"x\"", "[x]b"},
		{"{{ m|tojson }}", "{\"k\": \"v\\n\"}", "{\"[k]\": \"[v\\n]\"}"},
		{"{{ m }}", "[\"it's\"]", "[\"[it's]\"]"},
		{"{{ [m] }}", "\"x\"", "['[x]']"},
		{"{{ '%s|%5s|%d' % (m, m, 5) }}", "\"x\"", "[x]|    [x]|5"},
		{"{{ '{}{:>3}'.format(m, m) }}", "\"x\"", "[x]  [x]"},
		{"{{ m.format('t') }}", "\"a{}b\"", "[a]t[b]"},
		{"{{ m|indent(2) }}", "\"a\\nb\"", "[a]\n  [b]"},
		{"{% set x %}a{{ m }}{% endset %}{{ x }}", "\"x\"", "a[x]"},
		{"{% macro f(q) %}<{{ q }}>{% endmacro %}{{ f(m) }}", "\"x\"", "<[x]>"},
		{"{% for c in m %}{{ c }}.{% endfor %}", "\"xy\"", "[x].[y]."},
		{"{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", "{\"a\": \"x\"}", "[a]=[x];"},
		{"{{ m ~ 1.5 ~ true }}", "\"x\"", "[x]1.5True"},
		{"{{ m }}", "12", "12"},
		{"{{ m|length }}{{ m == 'x' }}{{ m in ['x'] }}", "\"x\"", "1TrueTrue"},
		{"{{ {'x': 'template'}[m] }}", "\"x\"", "template"},
		{"{{ m * 2 }}", "\"x\"", "[xx]"},
		{"{{ m|e }}", "\"<\"", "[&lt;]"},
		{"{{ m|title }}{{ m|capitalize }}{{ m.swapcase() }}", "\"ab\"", "[AbAbAB]"},
		{"{{ m.zfill(3) }}{{ m.center(3, '*') }}", "\"1\"", "00[1]*[1]*"},
		{"{{ m|default('d') }}{{ m.q|default('d') }}", "{}", "{}d"},
		{"{{ m|list|last }}{{ m|first }}", "\"xy\"", "[yx]"},
		{"{{ m|urlencode }}", "\"a b\"", "[a%20b]"},
		{"{{ strftime_now('<' ~ m) }}{{ strftime_now('<') }}", "\">\"", "[<>]<"},
		{"{{ m|truncate(5, true, '...', 0) }}", "\"abcdefgh\"", "[ab]..."},
		{"{% set ns = namespace(s='') %}{% for x in m %}{% set ns.s = ns.s ~ '/' ~ x %}{% endfor %}{{ ns.s "
		 "}}", "[\"a\", \"b\"]", "/[a]/[b]"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const char *got = marked(cases[i][0], cases[i][1]);

		CHECK(strcmp(got, cases[i][2]) == 0, "%s with %s: %s instead of %s", cases[i][0], cases[i][1], got,
			  cases[i][2]);
	}
}

/* Compile and render with these limits; returns the error. */
static Err
failure(const char *source, const JinLimits *limits)
{
	Err			e = {0};
	JinTemplate *t = jin_compile(source, strlen(source), &e);
	Jin		   *j = jin_new(limits);
	Buf			out = {0};

	if (t != NULL)
		jin_render(j, t, &out, NULL, &e);
	buf_free(&out);
	jin_end(j);
	jin_free(t);
	return e;
}

static void
test_limits(void)
{
	static const char *const hostile[] = {
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% "
		"endfor %}", "{% set ns = namespace(l=[1, 2]) %}{% for i in range(1000) %}{% set ns.l = ns.l + ns.l "
					 "%}{% endfor %}",
		"{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ "
		"ns.l }}", "{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% set ns.l = [ns.l, ns.l] "
				   "%}{% endfor %}{{ ns.l == ns.l }}",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
		"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{{ 'x' * 1000000000 }}", "{{ [0] * 1000000000 }}", "{{ '%1000000d' % 1 }}",
		"{{ '{:1000000000}'.format(1) }}", "{{ 'a'.center(10000000000) }}", "{{ '' | indent(100000000000) }}",
		"{{ 'a'.replace('', 'b' * 10000) * 100000 }}", "{{ ('a' * 10000).replace('a', 'b' * 10000) }}",
		"{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
		"{{ ('a' * 1000000).split('') | length }}{{ ('a ' * 20000000).split() | length }}",
		"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "{{ 'x'.ljust(1000000000000) }}",
		"{{ 'a\t'.expandtabs(100000) }}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.find('b') }}{% endfor %}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.upper()|length }}{% endfor %}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s[1:]|length }}{% endfor %}",
		"{{ range(100000)|map('string')|map('center', 10000)|join|length }}",
	};

	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++)
	{
		Err			e = failure(hostile[i], NULL);

		CHECK(e.cls == ERR_TOO_LONG || (e.cls == ERR_INVALID && strstr(hostile[i], "split('')") != NULL),
			  "%s: %s", hostile[i], e.msg);
	}
	CHECK(failure("{% for i in range(100) %}{% endfor %}", &(JinLimits) {.steps = 50}).cls == ERR_TOO_LONG,
		  "steps");
	CHECK(failure("{{ 'x' * 100 }}", &(JinLimits) {.output = 50}).cls == ERR_TOO_LONG, "output");
	CHECK(failure("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(9) }}",
				  &(JinLimits) {.depth = 9}).cls == ERR_TOO_LONG, "depth");
	CHECK(failure("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(140) }}",
				  NULL).cls == ERR_NONE, "deep enough");
}

/* Operations that scan a long text count for its length, also if their result is small. */
static void
test_scans(void)
{
	static const char *const bodies[] = {
		"spaces.strip()", "spaces.lstrip()", "spaces.rstrip()", "spaces.split()", "spaces.rsplit()",
		"text.strip(text)", "text.isalpha()", "text.islower()", "text is lower", "text.isascii()",
		"text.isidentifier()", "text.istitle()", "text.split()", "text.splitlines()", "text|wordcount",
		"text|escape", "text|upper", "text|title", "text|urlencode", "text|tojson", "[text]|string",
		"text.expandtabs()", "text.startswith(text)", "text in text", "text.count('a')",
		"wide.startswith('x')", "wide.find('b')", "wide.index('\xC3\xA9', 9999)", "wide|truncate(99000)",
		"'%.99000s' % wide", "'{:.99000}'.format(wide)", "text.rfind('b' + text[1:60000])",
		"text.rpartition('b' + text[1:60000])", "text.rsplit('b' + text[1:60000])",
	};
	static const char begin[] = "{% set text = ('a' * 100) * 1000 %}{% set spaces = (' ' * 100) * 1000 %}"
		"{% set wide = 'a' + ('\xC3\xA9' * 100) * 1000 %}{% for i in range(1000) %}{% set x = ";
	char		source[512];

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
	{
		Err			e;

		snprintf(source, sizeof(source), "%s%s %%}{%% endfor %%}", begin, bodies[i]);
		e = failure(source, &(JinLimits) {.steps = 1000000});
		CHECK(e.cls == ERR_TOO_LONG && strstr(e.msg, "steps") != NULL, "%s: %s", bodies[i], e.msg);
	}
}

/* Numbers whose text takes long to make, and names that are searched one by one, are limited, too. */
static void
test_slow_steps(void)
{
	static const char *const bodies[] = {
		"(i / 7)|round(300)", "(i / 7)|string", "(i / 7)|tojson", "'%.200f' % (i / 7)", "strftime_now('%c')",
	};
	char		source[200];
	Buf			names = {0};
	Err			e = {0};
	JinTemplate *t;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
	{
		snprintf(source, sizeof(source), "{%% for i in range(10000) %%}{%% set x = %s %%}{%% endfor %%}",
				 bodies[i]);
		e = failure(source, &(JinLimits) {.steps = 1000000});
		CHECK(e.cls == ERR_TOO_LONG && strstr(e.msg, "steps") != NULL, "%s: %s", bodies[i], e.msg);
	}
	for (int i = 0; i < 20000; i++)
	{
		snprintf(source, sizeof(source), "{%% set a%d = messages %%}{%% set b = q %%}", i);
		buf_addstr(&names, source);
	}
	t = jin_compile(names.data, names.len, &e);
	CHECK(t == NULL && e.cls == ERR_TOO_LONG, "20,000 names: %s", e.msg);
	jin_free(t);
	buf_reset(&names);
	for (int i = 0; i < 10000; i++)
	{
		snprintf(source, sizeof(source), "{%% set a%d = 1 %%}", i);
		buf_addstr(&names, source);
	}
	e = failure(names.data, NULL);
	CHECK(e.cls == ERR_TOO_LONG, "10,000 variables: %s", e.msg);
	buf_free(&names);
}

static void
test_deep_source(void)
{
	static const char *const pairs[][3] = {
		{"{{ ", "(", ")"}, {"{{ ", "[", "]"}, {"{{ ", "not ", ""}, {"{{ ", "-", ""},
		{"", "{% if 1 %}", "{% endif %}"},
		{"", "{% for i in [1] %}", "{% endfor %}"}, {"{{ ", "{1: ", "}"}, {"{{ ", "1 if ", ""},
		{"{{ 1", "|abs", ""}, {"{{ 1", " + 1", ""},
		{"{{ x", ".y", ""}, {"{{ x", "[1]", ""}, {"", "{% filter trim %}", "{% endfilter %}"},
		{"", "{% macro a() %}", "{% endmacro %}"},
		{"{% set x = ", "a or ", ""}, {"{% set x = ", "1 if ", ""}, {"{% set x = a", "|abs", ""},
		{"{% set x = a", "[1:]", ""},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
	{
		Buf			b = {0};
		Err			e = {0};
		JinTemplate *t;
		/* as many as the memory of a template allows, for those that the parser doesn't refuse */
		int			times = pairs[i][0][0] != '\0' && pairs[i][0][1] == '%' ? 300000 : 100000;

		buf_addstr(&b, pairs[i][0]);
		for (int k = 0; k < times; k++)
			buf_addstr(&b, pairs[i][1]);
		buf_addstr(&b, pairs[i][0][0] != '\0' && b.data[b.len - 1] == ' ' ? "1" : "");
		for (int k = 0; k < times; k++)
			buf_addstr(&b, pairs[i][2]);
		buf_addstr(&b, pairs[i][0][0] == '\0' ? "" : pairs[i][0][1] == '{' ? " }}" : " %}");
		t = jin_compile(b.data, b.len, &e);
		CHECK(t == NULL && e.cls == ERR_TOO_LONG, "%d times %s: %s", times, pairs[i][1], e.msg);
		jin_free(t);
		buf_free(&b);
	}
}

/* A string with an invalid escape, wherever the parser meets it. */
static void
test_bad_escapes(void)
{
	static const char *const sources[] = {
		"{{ '\\u0' }}", "{{ 'a' '\\u0' }}", "{{ \"a\"\"\\u0print\" }}", "{{ x['\\u0'] }}",
		"{{ {'\\u0': 1} }}", "{% set x = 'a' '\\N{DASH}' %}"
	};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
	{
		Err			e = {0};
		JinTemplate *t = jin_compile(sources[i], strlen(sources[i]), &e);

		CHECK(t == NULL && (e.cls == ERR_INVALID || e.cls == ERR_UNSUPPORTED), "%s: %s", sources[i], e.msg);
		jin_free(t);
	}
}

/* Files may have any bytes: what is no UTF-8 is refused, with its line. */
static void
test_other_bytes(void)
{
	static const char *const sources[] = {
		"a\n{{ \xC3", "a\n{{ '\xE2\x82", "a\n\x80", "a\n{% if \xF0\x9F\x98", "a\n{{ \xE2\x82 }}",
		"a\n{# \xFF #}", "a\n{{ 'x' if '\xC0\x80' }}", "a\n\xED\xA0\x80"
	};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
	{
		Err			e = {0};
		JinTemplate *t = jin_compile(sources[i], strlen(sources[i]), &e);

		CHECK(t == NULL && e.cls == ERR_INVALID && strstr(e.msg, "line 2: invalid UTF-8") != NULL,
			  "%zu: %s", i, e.msg);
		jin_free(t);
	}
}

/* Numbers at the ends of 64 bits: the right one, or an error that says that it doesn't fit. */
static void
test_ends(void)
{
#define MIN "(-9223372036854775807 - 1)"
#define MAX "9223372036854775807"
#define FITS_NOT "error: chat template failed at line 1: an integer does not fit into 64 bits"
	static const char *const cases[][2] = {
		{MIN " // 3", "-3074457345618258603"}, {MIN " % 3", "1"}, {MAX " // -3", "-3074457345618258603"},
		{MAX " % -3", "-2"}, {"-7 // 2", "-4"}, {"7 // -2", "-4"}, {"-6 // 2", "-3"}, {MIN " // 1", MIN},
		{MAX "|round(-1)", FITS_NOT}, {MIN "|round(-1)", FITS_NOT},
		{MIN "|round(-18)", "-9000000000000000000"},
		{MAX "|round(-18)", "9000000000000000000"}, {MAX "|round(-19)", FITS_NOT},
		{MIN "|round(-19)", FITS_NOT},
		{"5000000000000000000|round(-19)", "0"}, {"1|round(-19)", "0"}, {MAX "|round(-20)", "0"},
		{"1|round(" MIN ")", "0"}, {"1.5|round(" MIN ")", "0.0"}, {"1.5|round(" MAX ")", "1.5"},
		{"true|round(-1)", "0"}, {"(15)|round(-1)", "20"}, {"(-15)|round(-1)", "-20"}, {"25|round(-1)", "20"},
		{"(-25)|round(-1)", "-20"},
		{"'x'.center(" MIN ")", "x"}, {"'x'|center(" MIN ")", "x"}, {"'x'.zfill(" MIN ")", "x"},
		{"range(0, " MAX ", " MAX ")[1:]|list", "[]"}, {"range(1, " MAX ", " MAX " - 1)[0:]|list", "[1]"},
		{"range(0, " MAX ", " MAX " // 2)[::3]|list", "[0]"},
		{"range(0, " MAX ", " MAX " // 2)[::-1]|list", "[9223372036854775806, 4611686018427387903, 0]"},
		{"range(0, " MAX ", " MAX " // 2)[::-4]|list", "[9223372036854775806]"},
		{"range(5, " MAX ", " MAX " - 1)[:]|list", "[5]"}, {"range(3)[::-1]", "range(2, -1, -1)"},
		{"range(10)[1:8:3]", "range(1, 8, 3)"},
		{"'{:_b}'.format(255)", "1111_1111"}, {"'{:,}'.format(1234567)", "1,234,567"},
		{"'{:_x}'.format(" MAX ")", "7fff_ffff_ffff_ffff"},
		{"'{:,}'.format(" MIN ")", "-9,223,372,036,854,775,808"},
		{"'{:_b}'.format(" MAX ")|length", "78"}, {"'{:,.200f}'.format(1e308)|length", "612"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char		source[200];
		const char *want = strcmp(cases[i][1], MIN) == 0 ? "-9223372036854775808" : cases[i][1];
		const char *got;

		snprintf(source, sizeof(source), "{{ %s }}", cases[i][0]);
		got = marked(source, "1");
		CHECK(strcmp(got, want) == 0, "%s: %s instead of %s", source, got, want);
	}
}

/* An error quotes values that it cuts, and characters: it is UTF-8 all the same. */
static void
test_error_text(void)
{
	static const char *const sources[] = {
		"{{ m.x.y }}", "{{ [][m].y }}", "{{ {}[m].y }}", "{{ ' '[m].y }}", "{{ 'a' is filter(m) }}",
		"{{ 1|map(m)|list }}", "{{ [1]|map(m)|list }}", "{{ '%\u00e9' % 1 }}", "{{ '%\u20ac' % 1 }}",
		"{{ '{:\u20ac}'.format(1) }}", "{{ '{!\u20ac}'.format(1) }}",
		"{{ '{a}'.format_map(m) }}",
		"{{ dict(**{m: 1}).y.z }}", "{{ range(**{m: 1}) }}", "{{ 'x'|default(**{m: 1}) }}",
		"{{ raise_exception(m) }}", "{{ m|int(m)|abs }}"
	};
	Buf			json = {0};

	/* the cut falls into a character for one of these lengths, whatever comes before it */
	for (size_t lead = 0; lead < 3; lead++)
	{
		buf_reset(&json);
		buf_printf(&json, "\"%.*s", (int) lead, "aaa");
		for (int i = 0; i < 400; i++)
			buf_addstr(&json, "\xE2\x82\xAC");
		buf_addc(&json, '"');
		for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		{
			const char *got = marked(sources[i], json.data);

			CHECK(strncmp(got, "error: ", 7) == 0 && uni_valid(got, strlen(got)), "%s: %s", sources[i], got);
		}
	}
	buf_reset(&json);
	buf_addstr(&json, "{% macro f(");
	for (int i = 0; i < 100; i++)
		buf_addstr(&json, "\xC3\xA9");
	buf_addstr(&json, ") %}{{ ");
	for (int i = 0; i < 100; i++)
		buf_addstr(&json, "\xC3\xA9");
	buf_addstr(&json, ".x }}{% endmacro %}{{ f() }}");
	CHECK(uni_valid(marked(json.data, "1"), strlen(marked(json.data, "1"))), "%s", marked(json.data, "1"));
	buf_free(&json);
}

static void
test_variables(void)
{
	static const char *const bad[] = {
		"", "{", "[1,", "[1 2]", "{\"a\"}", "{\"a\":1,}", "\"a", "\"\\q\"", "\"\\u12\"", "01x", "+1", "1.2.3",
		"nul", "[1]x", "99999999999999999999", "\"\n\""
	};
	static const char odd[] = "[1, 1.0, -0, \"\\ud83d\\ude00\\ud800x\\u0000\", \"\xFF\"]";
	Err			e = {0};
	Buf			out = {0};
	Buf			deep = {0};
	Jin		   *j = jin_new(NULL);
	JinTemplate *t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!set_json(j, "v", bad[i], strlen(bad[i]), true, &e) && e.cls == ERR_INVALID, "%s is taken",
			  bad[i]);
	for (int i = 0; i < 100000; i++)
		buf_addc(&deep, '[');
	CHECK(!set_json(j, "v", deep.data, deep.len, true, &e) && e.cls == ERR_TOO_LONG, "deep JSON: %s",
		  e.msg);
	CHECK(set_json(j, "v", odd, strlen(odd), true, &e), "%s", e.msg);
	CHECK(set_str(j, "v", "first", 5, true, &e) && set_str(j, "v", "a\0b", 3, true, &e), "%s", e.msg);
	CHECK(set_json(j, "b", "true", 4, true, &e) && set_json(j, "n", "null", 4, true, &e), "%s",
		  e.msg);
	t = jin_compile("{{ v }}{{ b }}{{ n }}{{ v|length }}", 35, &e);
	CHECK(t != NULL && jin_render(j, t, &out, NULL, &e) && out.len == 12 &&
		  memcmp(out.data, "a\0bTrueNone3", 12) == 0, "NUL in a string: %.*s", (int) out.len, out.data);
	jin_free(t);
	jin_end(j);
	buf_free(&out);
	buf_free(&deep);
}

static void
test_uses(void)
{
	static const struct
	{
		const char *source;
		bool		parts;
		bool		string;
	}			cases[] = {
		{"{% for m in messages %}{{ m.content }}{% endfor %}", false, false},
		{"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", true, false},
		{"{% for m in messages %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}", true,
		 false},
		{"{% for m in messages[1:] %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in "
		 "m.content %}{% endfor %}{% endif %}{% endfor %}", true, true},
		{"{% set l = messages[1:] %}{% for m in l %}{% set c = m['content'] %}{% for p in c %}{% endfor %}{% "
		 "endfor %}", true, false},
		{"{% for m in messages|list %}{% for p in m.content|selectattr('text') %}{% endfor %}{% endfor %}",
		 true, false},
		{"{% macro r(content) %}{% for p in content %}{% endfor %}{% endmacro %}", true, false},
		{"{% set m = messages[0] %}{% for p in m.content %}{% endfor %}", true, false},
		{"{% for m in messages %}{% for t in m.tool_calls %}{{ t }}{% endfor %}{% endfor %}", false, false},
		{"{% for m in messages %}{% for l in m.content.split() %}{% endfor %}{% endfor %}", false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Err			e = {0};
		JinTemplate *t = jin_compile(cases[i].source, strlen(cases[i].source), &e);
		JinUses		u = {0};

		CHECK(t != NULL, "%s: %s", cases[i].source, e.msg);
		if (t != NULL)
			u = jin_uses(t);
		CHECK(u.content_parts == cases[i].parts && u.string_test == cases[i].string, "%s", cases[i].source);
		jin_free(t);
	}
}

int
main(void)
{
	RUN(test_marks());
	RUN(test_limits());
	RUN(test_scans());
	RUN(test_slow_steps());
	RUN(test_deep_source());
	RUN(test_bad_escapes());
	RUN(test_other_bytes());
	RUN(test_ends());
	RUN(test_error_text());
	RUN(test_variables());
	RUN(test_uses());
	return check_done("test_jinja");
}
