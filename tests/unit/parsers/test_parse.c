/*
 * test_parse.c
 *	  src/parsers: the cases of tests/parse, each complete, byte by byte, and cut in two at every
 *	  position; long hostile texts; the state at the end of a prompt.
 *
 *		test_parse [DIRECTORY]		from the repository's root
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "tests/unit/check.h"
#include "parsers/json_push.h"
#include "parsers/parsers.h"

/* ---- the events of a parser, as one text ---- */

typedef struct Said
{
	Buf			content;
	Buf			reasoning;
	Buf			calls;			/* `name(arguments)#id ` for each call */
	int			open;			/* calls that began and did not end */
	int			next;			/* expected index */
	size_t		begun;			/* offset in calls at which the current call begins */
	bool		bad;
} Said;

static void
on_event(void *ctx, const ParseEvent *ev)
{
	Said	   *s = ctx;

	switch (ev->kind)
	{
		case PARSE_CONTENT:
			buf_add(&s->content, ev->s, ev->n);
			break;
		case PARSE_REASONING:
			buf_add(&s->reasoning, ev->s, ev->n);
			break;
		case PARSE_CALL:
			s->bad |= s->open++ != 0 || ev->index != s->next++ || ev->id[0] == '\0' || ev->name[0] == '\0';
			s->begun = s->calls.len;
			buf_printf(&s->calls, "#%s %s(", ev->id, ev->name);
			break;
		case PARSE_ARGUMENTS:
			s->bad |= s->open != 1 || ev->index != s->next - 1;
			buf_add(&s->calls, ev->s, ev->n);
			break;
		case PARSE_CALL_END:
			s->bad |= s->open-- != 1 || ev->index != s->next - 1;
			buf_addstr(&s->calls, ")\n");
			break;
		case PARSE_CALL_NONE:
			s->bad |= s->open-- != 1 || ev->index != s->next - 1;
			s->calls.len = s->begun;
			s->calls.data[s->calls.len] = '\0';
			break;
	}
	/* no empty events */
	s->bad |= (ev->kind == PARSE_CONTENT || ev->kind == PARSE_REASONING) && ev->n == 0;
}

static void
said_free(Said *s)
{
	buf_free(&s->content);
	buf_free(&s->reasoning);
	buf_free(&s->calls);
	memset(s, 0, sizeof(*s));
}

static bool
buf_same(const Buf *a, const Buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static bool
said_same(const Said *a, const Said *b)
{
	return buf_same(&a->content, &b->content) && buf_same(&a->reasoning, &b->reasoning) &&
		buf_same(&a->calls, &b->calls) && a->bad == b->bad;
}

/* ---- one run ---- */

typedef struct Case
{
	const char *parser;
	bool		reasoning;
	const char *text;
	size_t		n;
	char	   *tools;
	char	   *kwargs;
	ReasonAt	at;
} Case;

/* Feed the text in pieces of `first` bytes, and then of `step` (0: the rest). */
static void
run(const Case *c, size_t first, size_t step, Said *out)
{
	ReasonParser *r = NULL;
	ToolParser *t = NULL;
	size_t		at = 0;

	if (c->reasoning)
		r = reason_parser_new(reason_format_find(c->parser, strlen(c->parser)), c->kwargs,
							  c->kwargs != NULL ? strlen(c->kwargs) : 0, c->at, on_event, out);
	else
		t = tool_parser_new(tool_format_find(c->parser, strlen(c->parser)), c->tools,
							c->tools != NULL ? strlen(c->tools) : 0, 42, on_event, out);
	for (size_t n = first; at < c->n; n = step > 0 ? step : c->n - at)
	{
		n = n < c->n - at ? n : c->n - at;
		if (r != NULL)
			reason_parser_feed(r, c->text + at, n);
		else
			tool_parser_feed(t, c->text + at, n);
		at += n;
	}
	if (r != NULL)
		reason_parser_finish(r);
	else
		tool_parser_finish(t);
	reason_parser_free(r);
	tool_parser_free(t);
}

/* Every way to cut the text gives the same as the whole text. */
static void
check_cuts(const Case *c, const Said *whole, const char *name)
{
	int			wrong = 0;
	Said		s = {0};

	for (size_t cut = 0; cut <= c->n + 2; cut++)
	{
		/* after the last cut: pieces of one byte, and of three */
		if (cut <= c->n)
			run(c, cut, 0, &s);
		else
			run(c, 1, cut == c->n + 1 ? 1 : 3, &s);
		wrong += !said_same(&s, whole);
		said_free(&s);
	}
	CHECK(wrong == 0, "%s: %s: %d cuts change the result", c->parser, name, wrong);
}

/* ---- the files ---- */

static bool
is_text(const Buf *b, const Json *want)
{
	const char *s = json_str_of(want);

	return s != NULL ? b->len == strlen(s) && memcmp(b->data != NULL ? b->data : "", s, b->len) == 0 :
		b->len == 0;
}

/* Compare `name(arguments)` of each call, and its id if the case gives one. */
static bool
calls_are(const Said *s, const Json *calls)
{
	const char *p = s->calls.data != NULL ? s->calls.data : "";
	const Json *call;

	json_each(call, calls)
	{
		const char *id = json_str_of(json_get(call, "id"));
		const char *args = json_str_of(json_get(call, "arguments"));
		Buf			want = {0};
		bool		same;

		if (*p++ != '#' || (id != NULL && (strncmp(p, id, strlen(id)) != 0 || p[strlen(id)] != ' ')))
			return false;
		p = strchr(p, ' ');
		if (p == NULL)
			return false;
		buf_printf(&want, " %s(%s)\n", json_str_of(json_get(call, "name")), args);
		same = strncmp(p, want.data, want.len) == 0;
		p += want.len;
		buf_free(&want);
		if (!same)
			return false;
	}
	return *p == '\0';
}

static void
check_case(const char *parser, bool reasoning, const Json *file, const Json *j)
{
	const Json *kwargs = json_get(j, "kwargs");
	const char *at = json_str_of(json_get(j, "at"));
	const char *name = json_str_of(json_get(j, "name"));
	Case		c = {.parser = parser,.reasoning = reasoning,.text = json_str_of(json_get(j, "text"))};
	Said		s = {0};

	c.n = strlen(c.text);
	c.kwargs = kwargs != NULL ? json_print(kwargs) : NULL;
	c.at = at == NULL ? REASON_UNKNOWN : strcmp(at, "open") == 0 ? REASON_OPEN : REASON_CLOSED;
	if (json_get(j, "no_tools") == NULL && !reasoning)
		c.tools = json_print(json_get(file, "tools"));
	run(&c, c.n, 0, &s);
	CHECK(!s.bad && s.open == 0, "%s: %s: events out of order", parser, name);
	CHECK(is_text(&s.content, json_get(j, "content")), "%s: %s: content \"%s\"", parser, name,
		  s.content.data);
	if (reasoning || json_get(j, "reasoning") != NULL)
		CHECK(is_text(&s.reasoning, json_get(j, "reasoning")), "%s: %s: reasoning \"%s\"", parser, name,
			  s.reasoning.data);
	if (!reasoning)
		CHECK(calls_are(&s, json_get(j, "calls")), "%s: %s: calls %s", parser, name, s.calls.data);
	check_cuts(&c, &s, name);
	said_free(&s);
	free(c.kwargs);
	free(c.tools);
}

static Json *
read_json(const char *path)
{
	FILE	   *f = fopen(path, "rb");
	Buf			b = {0};
	char		block[4096];
	size_t		n;
	Json	   *root;

	while (f != NULL && (n = fread(block, 1, sizeof(block), f)) > 0)
		buf_add(&b, block, n);
	if (f != NULL)
		fclose(f);
	root = json_parse(b.data != NULL ? b.data : "", b.len);
	buf_free(&b);
	return root;
}

/* Returns how many parsers the files cover. */
static int
check_files(const char *dir)
{
	glob_t		g = {0};
	char		pattern[512];
	int			n = 0;

	snprintf(pattern, sizeof(pattern), "%s/*.json", dir);
	glob(pattern, 0, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc; i++)
	{
		Json	   *root = read_json(g.gl_pathv[i]);
		const char *kind = json_str_of(json_get(root, "kind"));
		const Json *p;
		const Json *c;

		CHECK(root != NULL && kind != NULL, "%s: no JSON", g.gl_pathv[i]);
		json_each(p, json_get(root, "parsers"))
		{
			n++;
			json_each(c, json_get(root, "cases"))
				check_case(json_str_of(p), strcmp(kind, "reasoning") == 0, root, c);
		}
		json_free(root);
	}
	globfree(&g);
	return n;
}

/* Each name of the list is a parser with test cases. */
static int
count_names(void (*names) (Buf *))
{
	Buf			b = {0};
	int			n = 1;

	names(&b);
	for (size_t i = 0; i < b.len; i++)
		n += b.data[i] == ',';
	buf_free(&b);
	return n;
}

/* ---- long texts that would make a careless parser quadratic ---- */

static void
repeat(Buf *b, const char *unit, size_t size)
{
	while (b->len < size)
		buf_addstr(b, unit);
}

/* Complete, and byte by byte; fuzz_parse generates more. */
static void
check_long(void)
{
	static const char *const units[] = {
		" ", "\n", "<", "[", "{", "((", "{\"a\":", "<tool_call>", "<tool_calls>[", "<function=f>",
		"<function=f><parameter=a>x", "<parameter=a>", "</function>", "<|tool_call_begin|>f:0", "</think>",
		"<think>", "```json\n[", "</answer>\n", "<|channel|>x<|message|>", "<think>\n</think>\n<answer>\n\n",
		"{\"name\": \"f\", \"arguments\": {}};", "[TOOL_CALLS]f{", "f(a='",
		"<invoke name=f><parameter name=a>1", "Here is my response:"
	};
	Buf			names = {0};
	Buf			reasons = {0};

	tool_format_names(&names);
	reason_format_names(&reasons);
	for (int kind = 0; kind < 2; kind++)
		for (char *save, *p = strtok_r(kind ? reasons.data : names.data, ", ", &save); p != NULL;
			 p = strtok_r(NULL, ", ", &save))
			for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++)
			{
				Buf			b = {0};
				Case		c = {.parser = p,.reasoning = kind};
				Said		whole = {0};
				Said		bytes = {0};

				/* a tag before it, so that more than the search for a tag is tested */
				if (u % 2 == 1 && kind)
					buf_addstr(&b, "<think>\nHere is my thought process:");
				repeat(&b, units[u], 1 << 14);
				c.text = b.data;
				c.n = b.len;
				run(&c, b.len, 0, &whole);
				run(&c, 1, 1, &bytes);
				CHECK(said_same(&whole, &bytes), "%s: %s, long: pieces change the result", p, units[u]);
				said_free(&whole);
				said_free(&bytes);
				buf_free(&b);
			}
	buf_free(&names);
	buf_free(&reasons);
}

/* ---- prompts ---- */

static ReasonAt
at(const char *parser, const char *prompt, bool goes_on)
{
	return reason_format_at(reason_format_find(parser, strlen(parser)), prompt, strlen(prompt), goes_on);
}

static void
check_prompts(void)
{
	CHECK(at("qwen3", "<|im_start|>assistant\n", false) == REASON_UNKNOWN, "no tag");
	CHECK(at("qwen3", "assistant\n<think>\n", false) == REASON_OPEN, "opened");
	CHECK(at("qwen3", "assistant\n<think>\n\n</think>\n\n", false) == REASON_CLOSED, "closed");
	CHECK(at("qwen3", "assistant <think>a</think>b\nuser: c\nassistant", false) == REASON_UNKNOWN,
		  "an older turn's");
	CHECK(at("qwen3", "user: what is <think>?\nassistant", false) == REASON_UNKNOWN, "a user's");
	CHECK(at("qwen3", "assistant\n<think>\nSo", true) == REASON_OPEN, "goes on within thoughts");
	CHECK(at("qwen3", "assistant\n<think>\nSo</think>Hel", true) == REASON_CLOSED, "goes on behind thoughts");
	CHECK(at("qwen3", "assistant\nHel", true) == REASON_UNKNOWN, "goes on without thoughts");
	CHECK(at("seed_oss", "<seed:think>", false) == REASON_OPEN, "other tags");
	CHECK(at("granite", "<think>", false) == REASON_UNKNOWN, "no tags at all");
}

int
main(int argc, char **argv)
{
	const char *dir = argc > 1 && strchr(argv[1], '/') != NULL && strstr(argv[1], "vllm_pg_engine") == NULL ?
		argv[1] : "tests/parse";
	int			n = check_files(dir);

	CHECK(n == count_names(tool_format_names) + count_names(reason_format_names), "%d parsers have cases", n);
	CHECK(tool_format_find("hermes ", 7) == NULL && reason_format_find("", 0) == NULL, "unknown names");
	RUN(check_prompts());
	RUN(check_long());
	return check_done("test_parse");
}
