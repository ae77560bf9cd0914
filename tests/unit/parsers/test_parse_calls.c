/*
 * test_parse_calls.c
 *	  src/parsers: random tool calls, written in each format.
 *
 * The parser must return exactly these calls: complete, cut at every byte, with text between their
 * elements, and in pieces of any size.  If a byte is damaged, no argument is lost; if some bytes are
 * missing, no call is.  What it has emitted of a call before its end is invalid JSON, and in formats of
 * JSON text it lags behind by no more than a few bytes.  Values in pieces (json_push.c) become the same
 * however they are cut.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "base/json/json_writer.h"
#include "tests/unit/check.h"
#include "parsers/json_push.h"
#include "parsers/parsers.h"
#include "text/unicode.h"

#define BAR		"\xEF\xBD\x9C"
#define LOW		"\xE2\x96\x81"
#define MOST	4				/* calls of an output */

static unsigned seed = 1;

static unsigned
below(unsigned n)
{
	return (unsigned) rand_r(&seed) % n;
}

/* ---- calls ---- */

typedef struct Call
{
	int			n;
	const char *keys[4];
	Buf			json[4];		/* values in the form that is emitted */
	Buf			raw[4];			/* contents of the strings */
	Buf			args;			/* all arguments, in the form that is emitted */
} Call;

static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
	"{\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"t\": {\"type\": \"string\"}, "
	"\"i\": {\"type\": \"integer\"}, \"o\": {\"type\": \"object\"}}}}}]";

/*
 * Text without the format's own tags, and without anything that is JSON or a Python literal:
 * test_parse.c has such cases.
 */
static void
random_text(Buf *out)
{
	static const char *const piece[] = {"a", " ", "b", "\xC3\xA9", "\xF0\x9F\x98\x80", "1", ",", ".", "=",
										"(", ")", "[", "]", "{", "}", "\"", "'", "\\", "\n", "<b>", "</b>",
										"<", ":", ";"};

	buf_addc(out, 'z');
	for (unsigned n = below(12); n > 0; n--)
		buf_addstr(out, piece[below(sizeof(piece) / sizeof(piece[0]))]);
	buf_addc(out, 'z');
}

static void
make_call(Call *c)
{
	static const char *const keys[] = {"s", "t", "i", "o"};
	static const char *const objects[] = {"{}", "{\"a\": [1, {\"b\": null}], \"c\": -1.5e3}",
										  "{\"q\": \"x\\\"}\"}"};

	memset(c, 0, sizeof(*c));
	for (int k = 0; k < 4; k++)
	{
		Buf		   *j = &c->json[c->n];

		if (below(3) == 0)
			continue;
		c->keys[c->n] = keys[k];
		if (k < 2)
		{
			random_text(&c->raw[c->n]);
			json_add_quoted(j, c->raw[c->n].data, c->raw[c->n].len);
		}
		else if (k == 2)
			buf_printf(j, "%d", (int) below(1000) - 500);
		else
			buf_addstr(j, objects[below(3)]);
		c->n++;
	}
	buf_addc(&c->args, '{');
	for (int i = 0; i < c->n; i++)
		buf_printf(&c->args, "%s\"%s\": %s", i > 0 ? ", " : "", c->keys[i], c->json[i].data);
	buf_addc(&c->args, '}');
}

static void
free_call(Call *c)
{
	for (int i = 0; i < 4; i++)
	{
		buf_free(&c->json[i]);
		buf_free(&c->raw[i]);
	}
	buf_free(&c->args);
}

/* ---- formats ---- */

typedef enum Kind
{
	OBJECTS,					/* open {"name", KEY} close, for each */
	ARRAY,						/* open [{"name", KEY}, ...] close */
	NAMED,						/* open f sep args close, for each */
	FUNCTION,					/* <function=f><parameter=k> */
	INVOKE,
	PAIRS,						/* <arg_key>, <arg_value> */
	PYTHON,
	GEMMA,
	HARMONY
} Kind;

typedef struct Format
{
	const char *parser;
	Kind		kind;
	const char *begin;			/* of the section */
	const char *end;
	const char *open;			/* of a call */
	const char *close;
	const char *sep;			/* NAMED: after the name; INVOKE: before "invoke"; else between calls */
	const char *key;			/* of the arguments */
	bool		single;			/* only one call */
	bool		needs_close;	/* a call is complete only with its close */
} Format;

static const Format formats[] = {
	{"deepseek_v3", NAMED, "<" BAR "tool" LOW "calls" LOW "begin" BAR ">", "<" BAR "tool" LOW "calls"
	 LOW "end" BAR ">", "<" BAR "tool" LOW "call" LOW "begin" BAR ">function<" BAR "tool" LOW "sep" BAR ">",
	"\n```<" BAR "tool" LOW "call" LOW "end" BAR ">", "\n```json\n", NULL, false, true},
	{"deepseek_v31", NAMED, "<" BAR "tool" LOW "calls" LOW "begin" BAR ">", "<" BAR "tool" LOW "calls"
	 LOW "end" BAR ">", "<" BAR "tool" LOW "call" LOW "begin" BAR ">",
	"<" BAR "tool" LOW "call" LOW "end" BAR ">", "<" BAR "tool" LOW "sep" BAR ">", NULL, false, true},
	{"deepseek_v32", INVOKE, "<" BAR "DSML" BAR "function_calls>", "</" BAR "DSML" BAR "function_calls>", "",
	 "", BAR "DSML" BAR, NULL, false, false},
	{"ernie45", OBJECTS, "", "", "<tool_call>", "</tool_call>", "\n", "arguments", false, true},
	{"functiongemma", GEMMA, "", "", "<start_function_call>call:", "<end_function_call>", "", NULL, false,
	 false},
	{"gigachat3", OBJECTS, "", "", "<|function_call|>", "</s>", "", "arguments", true, false},
	{"glm45", PAIRS, "", "", "<tool_call>", "</tool_call>", "\n", "\n", false, true},
	{"glm47", PAIRS, "", "", "<tool_call>", "</tool_call>", "", "", false, true},
	{"granite", ARRAY, "<|tool_call|>", "", "", "", NULL, "arguments", false, false},
	{"granite-20b-fc", OBJECTS, "", "", "<function_call>", "", "", "arguments", false, false},
	{"hermes", OBJECTS, "", "", "<tool_call>", "</tool_call>", "\n", "arguments", false, false},
	{"hunyuan_a13b", ARRAY, "<tool_calls>", "</tool_calls>", "", "", NULL, "arguments", false, false},
	{"internlm", OBJECTS, "", "", "<|action_start|><|plugin|>", "<|action_end|>", "", "parameters", false,
	 false},
	{"jamba", ARRAY, "<tool_calls>", "</tool_calls>", "", "", NULL, "arguments", false, false},
	{"kimi_k2", NAMED, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
	 "<|tool_call_begin|>functions.", "<|tool_call_end|>", ":0<|tool_call_argument_begin|>", NULL, false,
	 true},
	{"llama3_json", OBJECTS, "<|python_tag|>", "", "", "", "; ", "parameters", false, false},
	{"llama4_json", OBJECTS, "", "", "", "", "; ", "parameters", false, false},
	{"llama4_pythonic", PYTHON, "<|python_start|>[", "]<|python_end|>", "", "", ", ", NULL, false, false},
	{"longcat", OBJECTS, "", "", "<longcat_tool_call>", "</longcat_tool_call>", "", "arguments", false,
	 false},
	{"minimax", OBJECTS, "<tool_calls>\n", "</tool_calls>", "", "\n", "", "arguments", false, false},
	{"minimax_m2", INVOKE, "<minimax:tool_call>", "</minimax:tool_call>", "", "", "", NULL, false, false},
	{"mistral", ARRAY, "[TOOL_CALLS]", "", "", "", NULL, "arguments", false, false},
	{"mistral", NAMED, "", "", "[TOOL_CALLS]", "", "[ARGS]", NULL, false, false},
	{"olmo3", PYTHON, "<function_calls>", "</function_calls>", "", "", "\n", NULL, false, false},
	{"openai", HARMONY, "", "", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
	 "<|call|>", "<|start|>assistant", NULL, false, false},
	{"phi4_mini_json", ARRAY, "functools", "", "", "", NULL, "arguments", false, false},
	{"pythonic", PYTHON, "[", "]", "", "", ", ", NULL, false, false},
	{"qwen3_coder", FUNCTION, "", "", "<tool_call>\n", "\n</tool_call>", "\n", NULL, false, false},
	{"qwen3_xml", FUNCTION, "", "", "<tool_call>", "</tool_call>", "", NULL, false, false},
	{"seed_oss", FUNCTION, "", "", "<seed:tool_call>", "</seed:tool_call>", "\n", NULL, false, false},
	{"step3", INVOKE, "<" BAR "tool_calls_begin" BAR ">", "<" BAR "tool_calls_end" BAR ">", "<"
	 BAR "tool_call_begin" BAR ">function<" BAR "tool_sep" BAR ">", "<" BAR "tool_call_end" BAR ">",
	 "steptml:", NULL, false, false},
	{"xlam", ARRAY, "", "", "", "", NULL, "arguments", false, false},
	{"xlam", ARRAY, "```json\n", "\n```", "", "", NULL, "arguments", false, false},
};

typedef struct Output
{
	const Format *f;
	Buf			text;
	size_t		ends[MOST];		/* offset at which each call is complete */
	int			noise;			/* of 8 gaps between elements, this many have text */
} Output;

/* Write text between two elements. */
static void
gap(Output *o)
{
	static const char *const texts[] = {" ", "\n", ",", "\n\n", " and ", ".", "x", "; ", "<", ">", "</", "\"",
										"}"};

	if ((int) below(8) < o->noise)
		buf_addstr(&o->text, texts[below(sizeof(texts) / sizeof(texts[0]))]);
}

static void
add(Output *o, const char *s)
{
	buf_addstr(&o->text, s);
}

static void
write_object(Output *o, const Call *c)
{
	add(o, "{");
	gap(o);
	buf_printf(&o->text, "\"name\": \"f\"");
	gap(o);
	buf_printf(&o->text, ", \"%s\": %s", o->f->key, c->args.data);
	gap(o);
	add(o, "}");
}

static void
write_function(Output *o, const Call *c)
{
	add(o, "<function=f>");
	gap(o);
	for (int i = 0; i < c->n; i++)
	{
		buf_printf(&o->text, "<parameter=%s>\n%s\n</parameter>", c->keys[i],
				   c->raw[i].len > 0 ? c->raw[i].data : c->json[i].data);
		gap(o);
	}
	add(o, "</function>");
}

static void
write_invoke(Output *o, const Call *c)
{
	const char *p = o->f->sep;
	bool		attribute = strcmp(o->f->parser, "deepseek_v32") == 0;

	buf_printf(&o->text, "<%sinvoke name=\"f\">", p);
	gap(o);
	for (int i = 0; i < c->n; i++)
	{
		bool		string = c->raw[i].len > 0;

		buf_printf(&o->text, "<%sparameter name=\"%s\"%s>%s</%sparameter>", p, c->keys[i],
				   !attribute ? "" : string ? " string=\"true\"" : " string=\"false\"",
				   string ? c->raw[i].data : c->json[i].data, p);
		gap(o);
	}
	buf_printf(&o->text, "</%sinvoke>", p);
}

static void
write_pairs(Output *o, const Call *c)
{
	buf_printf(&o->text, "f%s", o->f->key);
	for (int i = 0; i < c->n; i++)
	{
		buf_printf(&o->text, "<arg_key>%s</arg_key>", c->keys[i]);
		gap(o);
		buf_printf(&o->text, "<arg_value>%s</arg_value>%s",
				   c->raw[i].len > 0 ? c->raw[i].data : c->json[i].data, o->f->key);
		gap(o);
	}
}

/* Write JSON's value in Python's syntax: of the values above only null differs. */
static void
write_python(Output *o, const Call *c)
{
	add(o, "f(");
	for (int i = 0; i < c->n; i++)
	{
		const char *null = strstr(c->json[i].data, "null");

		buf_printf(&o->text, "%s=", c->keys[i]);
		if (c->raw[i].len == 0 && null != NULL)
			buf_printf(&o->text, "%.*sNone%s", (int) (null - c->json[i].data), c->json[i].data, null + 4);
		else
			add(o, c->json[i].data);
		if (c->raw[i].len > 0)
			gap(o);				/* after a number it would belong to that */
		add(o, i + 1 < c->n ? ", " : "");
	}
	add(o, ")");
}

static void
write_gemma(Output *o, const Call *c)
{
	add(o, "f{");
	for (int i = 0; i < c->n; i++)
	{
		const char *e = c->raw[i].len > 0 ? "<escape>" : "";

		buf_printf(&o->text, "%s%s:%s%s%s", i > 0 ? "," : "", c->keys[i], e,
				   c->raw[i].len > 0 ? c->raw[i].data : c->json[i].data, e);
		if (c->raw[i].len > 0)
			gap(o);
	}
	add(o, "}");
}

static void
write_call(Output *o, const Call *c)
{
	switch (o->f->kind)
	{
		case OBJECTS:
		case ARRAY:
			write_object(o, c);
			break;
		case NAMED:
			buf_printf(&o->text, "f%s%s", o->f->sep, c->args.data);
			break;
		case FUNCTION:
			write_function(o, c);
			break;
		case INVOKE:
			write_invoke(o, c);
			break;
		case PAIRS:
			write_pairs(o, c);
			break;
		case PYTHON:
			write_python(o, c);
			break;
		case GEMMA:
			write_gemma(o, c);
			break;
		case HARMONY:
			add(o, c->args.data);
			break;
	}
}

static void
write_output(Output *o, const Call *c, int n)
{
	const Format *f = o->f;

	buf_reset(&o->text);
	add(o, f->begin);
	if (f->kind != PYTHON)
		gap(o);
	if (f->kind == ARRAY)
		add(o, "[");
	for (int i = 0; i < n; i++)
	{
		if (i > 0)
			add(o, f->kind == ARRAY ? ", " : f->kind == NAMED || f->kind == INVOKE ? "" : f->sep);
		add(o, f->open);
		if (f->kind != NAMED && f->kind != PAIRS && f->kind != GEMMA && f->kind != PYTHON)
			gap(o);				/* otherwise it would belong to the name */
		write_call(o, &c[i]);
		o->ends[i] = o->text.len;
		if (f->kind != PAIRS || c[i].n > 0)
			gap(o);
		add(o, f->close);
		if (f->needs_close)
			o->ends[i] = o->text.len;
		gap(o);
	}
	if (f->kind == ARRAY)
		add(o, "]");
	add(o, f->end);
}

/* ---- received events ---- */

typedef struct Received
{
	Buf			content;
	Buf			calls[MOST + 2];	/* arguments */
	int			n;				/* complete calls */
	bool		thought;
	bool		open;
	bool		bad;
	size_t		at_once;		/* maximal number of argument bytes that came with one piece */
} Received;

/* Parse a tree; NULL: invalid JSON.  After damage it need not be UTF-8. */
static Json *
tree_of(const Buf *b)
{
	Buf			text = {0};
	Json	   *j;

	uni_repair(b->data != NULL ? b->data : "", b->len, &text);
	j = json_parse(text.data, text.len);
	buf_free(&text);
	return j;
}

static bool
is_json(const Buf *b)
{
	Json	   *j = tree_of(b);

	json_free(j);
	return j != NULL;
}

static void
on_event(void *ctx, const ParseEvent *ev)
{
	Received   *h = ctx;
	Buf		   *b = &h->calls[h->n < MOST + 1 ? h->n : MOST + 1];

	switch (ev->kind)
	{
		case PARSE_CONTENT:
			buf_add(&h->content, ev->s, ev->n);
			break;
		case PARSE_REASONING:
			h->thought |= ev->n > 0;
			break;
		case PARSE_CALL:
			h->bad |= h->open || strcmp(ev->name, "f") != 0;
			h->open = true;
			break;
		case PARSE_ARGUMENTS:
			/* before this piece it was not valid JSON */
			h->bad |= !h->open || is_json(b);
			buf_add(b, ev->s, ev->n);
			buf_addc(b, '\0');
			b->len--;
			h->at_once = ev->n > h->at_once ? ev->n : h->at_once;
			break;
		case PARSE_CALL_END:
			h->bad |= !h->open || !is_json(b);
			h->open = false;
			h->n++;
			break;
		case PARSE_CALL_NONE:
			h->bad |= !h->open || is_json(b);
			h->open = false;
			buf_reset(b);
			break;
	}
}

static void
forget(Received *h)
{
	buf_free(&h->content);
	for (int i = 0; i < MOST + 2; i++)
		buf_free(&h->calls[i]);
	memset(h, 0, sizeof(*h));
}

/* Feed the first n bytes, in pieces of up to `most` bytes. */
static void
feed(const char *parser, const char *s, size_t n, unsigned most, Received *h)
{
	ToolParser *p = tool_parser_new(tool_format_find(parser, strlen(parser)), tools, sizeof(tools) - 1, 7,
									on_event, h);

	for (size_t at = 0; at < n;)
	{
		size_t		k = most == 0 ? n : 1 + below(most);

		k = k < n - at ? k : n - at;
		tool_parser_feed(p, s + at, k);
		at += k;
	}
	tool_parser_finish(p);
	tool_parser_free(p);
	h->bad |= h->open;
}

/* Are the received calls the first of these calls? */
static bool
are_first(const Received *h, const Call *c, int n)
{
	if (h->bad || h->n > n)
		return false;
	for (int i = 0; i < h->n; i++)
		if (h->calls[i].len != c[i].args.len || memcmp(h->calls[i].data, c[i].args.data, c[i].args.len) != 0)
			return false;
	return true;
}

static bool
same(const Received *a, const Received *b)
{
	bool		ok = a->n == b->n && a->bad == b->bad && a->content.len == b->content.len &&
		(a->content.len == 0 || memcmp(a->content.data, b->content.data, a->content.len) == 0);

	for (int i = 0; ok && i < a->n && i < MOST + 1; i++)
		ok = a->calls[i].len == b->calls[i].len && memcmp(a->calls[i].data, b->calls[i].data,
														  a->calls[i].len) == 0;
	return ok;
}

/* ---- invariants ---- */

static int	wrong;				/* errors of one format */

static void
expect(bool ok, const Output *o, size_t n, const char *what)
{
	if (!ok && wrong++ < 3)
		fprintf(stderr, "%s: %s: %.*s\n", o->f->parser, what, (int) n, o->text.data);
}

/* Complete, in pieces, and cut at every byte: complete calls are emitted, and no part of another one. */
static void
check_clean(Output *o, const Call *c, int n)
{
	Received	h = {0};

	o->noise = 0;
	write_output(o, c, n);
	for (unsigned most = 0; most < 10; most += 3)
	{
		feed(o->f->parser, o->text.data, o->text.len, most, &h);
		expect(are_first(&h, c, n) && h.n == n && h.content.len == 0, o, o->text.len, "whole");
		forget(&h);
	}
	for (size_t cut = 0; cut < o->text.len; cut++)
	{
		int			whole = 0;

		while (whole < n && o->ends[whole] <= cut)
			whole++;
		feed(o->f->parser, o->text.data, cut, 0, &h);
		expect(are_first(&h, c, n) && h.n >= whole, o, cut, "cut");
		forget(&h);
	}
}

/* With text between elements: a call is emitted completely, or not at all, however it is cut into pieces. */
static void
check_noise(Output *o, const Call *c, int n)
{
	Received	whole = {0};
	Received	pieces = {0};

	o->noise = 1 + (int) below(4);
	write_output(o, c, n);
	feed(o->f->parser, o->text.data, o->text.len, 0, &whole);
	feed(o->f->parser, o->text.data, o->text.len, 1 + below(8), &pieces);
	expect(same(&whole, &pieces), o, o->text.len, "pieces");
	for (int i = 0; i < whole.n && i <= MOST; i++)
	{
		bool		one = false;

		for (int k = 0; k < n; k++)
			one |= whole.calls[i].len == c[k].args.len && memcmp(whole.calls[i].data, c[k].args.data,
																 c[k].args.len) == 0;
		expect(one && !whole.bad, o, o->text.len, "a part of a call");
	}
	/* a call that is not emitted is in the content, at least from its name on */
	expect(whole.n == n || whole.content.len > 0, o, o->text.len, "nothing of it is left");
	forget(&whole);
	forget(&pieces);
}

/* Count the members of the object. */
static int
n_members(const Buf *json)
{
	Json	   *v = tree_of(json);
	int			n = json_count(v);

	json_free(v);
	return n;
}

/*
 * One byte is changed, lost, or added: a call has all its arguments, perhaps different ones, or it is
 * not emitted.
 */
static void
check_damage(Output *o, const Call *c, int n)
{
	static const char bytes[] = "x<>=\"'{}[](),: \n/";
	Output		d = {.f = o->f};
	Received	h = {0};

	for (int round = 0; round < 20; round++)
	{
		size_t		at;
		unsigned	how = below(3);

		o->noise = 0;
		write_output(o, c, n);
		at = below((unsigned) o->text.len);
		buf_reset(&d.text);
		buf_add(&d.text, o->text.data, at);
		if (how > 0)
			buf_addc(&d.text, bytes[below(sizeof(bytes) - 1)]);
		buf_add(&d.text, o->text.data + at + (how < 2), o->text.len - at - (how < 2));
		feed(o->f->parser, d.text.data, d.text.len, 0, &h);
		for (int i = 0; i < h.n && i <= MOST; i++)
		{
			bool		one = false;

			for (int k = 0; k < n; k++)
				one |= n_members(&h.calls[i]) == c[k].n;
			expect(one, &d, d.text.len, "an argument is lost");
		}
		forget(&h);
	}
	buf_free(&d.text);
}

/* If some bytes are missing, a call that is not emitted is in the content. */
static void
check_lost(Output *o, const Call *c, int n)
{
	Output		d = {.f = o->f};
	Received	h = {0};

	for (int i = 0; i < n; i++)
		if (c[i].n == 0)
			return;
	for (int round = 0; round < 20; round++)
	{
		size_t		at;
		size_t		k = 1 + below(6);

		o->noise = 0;
		write_output(o, c, n);
		at = below((unsigned) (o->text.len - k));
		buf_reset(&d.text);
		buf_add(&d.text, o->text.data, at);
		buf_add(&d.text, o->text.data + at + k, o->text.len - at - k);
		feed(o->f->parser, d.text.data, d.text.len, 0, &h);
		expect(h.n >= n || h.content.len > 0 || h.thought, &d, d.text.len, "a call is lost");
		forget(&h);
	}
	buf_free(&d.text);
}

static void
check_format(const Format *f)
{
	Output		o = {.f = f};
	Call		c[MOST];

	wrong = 0;
	for (int round = 0; round < 60; round++)
	{
		int			n = f->single ? 1 : 1 + (int) below(MOST - 1);

		for (int i = 0; i < n; i++)
			make_call(&c[i]);
		if (round < 12)
			check_clean(&o, c, n);
		for (int i = 0; i < 10; i++)
			check_noise(&o, c, n);
		check_damage(&o, c, n);
		check_lost(&o, c, n);
		for (int i = 0; i < n; i++)
			free_call(&c[i]);
	}
	buf_free(&o.text);
	CHECK(wrong == 0, "%s: %d wrong", f->parser, wrong);
}

/* ---- latency ---- */

/* Byte by byte: a long string is emitted as it comes, if the format allows that. */
static void
check_lag(void)
{
	Call		c = {.n = 1,.keys = {"s"}};

	buf_addc(&c.raw[0], 'z');
	while (c.raw[0].len < 4000)
		buf_addstr(&c.raw[0], "line \"quoted\" \xC3\xA9 and more");
	json_add_quoted(&c.json[0], c.raw[0].data, c.raw[0].len);
	buf_printf(&c.args, "{\"s\": %s}", c.json[0].data);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
	{
		const Format *f = &formats[i];
		Output		o = {.f = f};
		Received	h = {0};
		bool		waits = f->kind == PYTHON || f->kind == GEMMA;

		write_output(&o, &c, 1);
		feed(f->parser, o.text.data, o.text.len, 1, &h);
		CHECK(are_first(&h, &c, 1) && h.n == 1 && (waits ? h.at_once == c.args.len : h.at_once <= 16),
			  "%s: %zu bytes at once", f->parser, h.at_once);
		forget(&h);
		buf_free(&o.text);
	}
	free_call(&c);
}

/* ---- values ---- */

static void
random_json(Buf *b, int depth)
{
	static const char *const piece[] = {"\"", "\"a\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"",
										"\"\\ud83dx\"", "\"\\ud83d\\n\"", "\"\\ud83d\\ud83d\\ude00\"",
										"\"\\u0001\\/\\\"\"", "\"\\x\"", "1", "-0", "01",
		"1.", "1.5", "-1e5", "1e", "2E+07", "true", "false", "null", "tru", "nullx", "{", "}", "[", "]", ",",
		":", " ", "\n", "\"\t\""};
	unsigned	what = below(10);

	if (what < 6 || depth > 4)
		buf_addstr(b, piece[below(8) == 0 ? below(sizeof(piece) / sizeof(piece[0])) : 1 + below(22)]);
	else
	{
		bool		object = what % 2 != 0;

		buf_addc(b, object ? '{' : '[');
		for (unsigned i = 0, n = below(4); i < n; i++)
		{
			buf_printf(b, "%s%s", i > 0 ? "," : "", below(4) == 0 ? " " : "");
			if (object)
				buf_printf(b, "\"k%u\"%s:", i, below(4) == 0 ? "\n" : "");
			random_json(b, depth + 1);
		}
		if (below(20) > 0)
			buf_addc(b, object ? '}' : ']');
	}
}

static void
check_values(void)
{
	int			differ = 0;
	int			good = 0;

	for (int round = 0; round < 20000; round++)
	{
		Buf			text = {0};
		Buf			a = {0};
		Buf			b = {0};
		JPush		j = {.lax = below(2)};
		JPush		whole = j;
		JPushIs		is = JPUSH_MORE;
		Span		s;
		bool		ok;
		size_t		at = 0;

		random_json(&text, 0);
		s = (Span) {text.data, text.data + text.len};
		ok = jpush(&whole, &s, true, &a) == JPUSH_DONE;
		for (size_t to = 0; is == JPUSH_MORE && to <= text.len; at = is == JPUSH_MORE ? to : at)
		{
			bool		last;
			Span		t;

			to += 1 + below(3);
			last = to > text.len;
			to = last ? text.len : to;
			t = (Span) {text.data + at, text.data + to};
			is = jpush(&j, &t, last, &b);
			if (is == JPUSH_DONE)
				at = (size_t) (t.p - text.data);
			if (last)
				break;
		}
		good += ok;
		if (ok != (is == JPUSH_DONE) ||
			(ok && (a.len != b.len || memcmp(a.data, b.data, a.len) != 0 ||
					at != (size_t) (s.p - text.data))))
			if (differ++ < 5)
				fprintf(stderr, "value: %s: %d %s, %d %s\n", text.data, ok, a.data, is, b.data);
		buf_free(&text);
		buf_free(&a);
		buf_free(&b);
	}
	CHECK(differ == 0 && good > 5000, "%d values of 20000 differ, %d are good", differ, good);
}

int
main(void)
{
	RUN(check_values());
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		RUN(check_format(&formats[i]));
	RUN(check_lag());
	return check_done("test_parse_calls");
}
