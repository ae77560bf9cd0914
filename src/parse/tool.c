/*
 * tool.c
 *	  Tool parsers: finding the first mark in a text that comes in pieces, ids, and the
 *	  table of formats (parse.h).
 *
 * The output is kept whole.  Its front, up to the first mark, is passed on as content as
 * soon as it can't be part of a mark; the rest waits for tool_parser_finish().  Each byte
 * is looked at once, but for the few that a held back beginning of a mark has.
 *
 * Tested by tests/unit/test_parse.c with the cases of tests/parse/.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/digest.h"
#include "base/mem.h"
#include "parse/harmony.h"
#include "parse/tool_int.h"

#define MAX_NAME	512
#define THINK		"<think>"
#define THINK_END	"</think>"

#define TOOL_PARSER(name, symbol) extern const ToolFormat tool_##symbol;
#include "parse/tools.def"
#undef TOOL_PARSER

typedef struct Row
{
	const char *name;
	const ToolFormat *format;
} Row;

static const Row rows[] = {
#define TOOL_PARSER(name, symbol) {name, &tool_##symbol},
#include "parse/tools.def"
#undef TOOL_PARSER
};

const ToolFormat *
tool_format_find(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
			return rows[i].format;
	return NULL;
}

void
tool_format_names(Buf *out)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		buf_printf(out, "%s%s", i > 0 ? ", " : "", rows[i].name);
}

bool
tool_format_special(const ToolFormat *f)
{
	return f->special;
}

bool
tool_format_reasons(const ToolFormat *f)
{
	return f->harmony;
}

/* ---- what formats fill ---- */

ToolCall *
tool_add(ToolOut *out)
{
	ToolCall   *c;

	/* room doubles: 1, 2, 4, ... */
	if ((out->n & (out->n - 1)) == 0)
		out->calls = mem_realloc(out->calls, (size_t) (out->n > 0 ? 2 * out->n : 1) * sizeof(ToolCall));
	c = &out->calls[out->n++];
	memset(c, 0, sizeof(*c));
	return c;
}

ToolCall *
tool_named(ToolOut *out, Span name)
{
	size_t		n = (size_t) (name.end - name.p);
	ToolCall   *c;

	if (n == 0 || n > MAX_NAME || memchr(name.p, '\0', n) != NULL)
		return NULL;
	c = tool_add(out);
	buf_add(&c->name, name.p, n);
	return c;
}

void
tool_keep(ToolOut *out, int n)
{
	while (out->n > n)
	{
		ToolCall   *c = &out->calls[--out->n];

		buf_free(&c->name);
		buf_free(&c->args);
		buf_free(&c->id);
	}
}

static void
out_free(ToolOut *out)
{
	tool_keep(out, 0);
	mem_free(out->calls);
	buf_free(&out->tail);
}

/* ---- the parser ---- */

/* The request's tools, of the parsers of all its answers. */
typedef struct ToolSet
{
	atomic_int	refs;
	cJSON	   *tree;
} ToolSet;

struct ToolParser
{
	const ToolFormat *f;
	ToolSet    *tools;			/* NULL: none are given */
	uint64_t	key;
	ParseSink	sink;
	void	   *ctx;
	Buf			text;			/* the whole output */
	size_t		shown;			/* so much of it was passed on */
	size_t		scan;			/* no mark begins before this */
	size_t		solid;			/* behind the last byte before `scan` that is not white space */
	size_t		lead_from;		/* where a leading mark may stand */
	bool		lead;			/* none but white space since then */
	bool		in_think;
	bool		found;			/* a mark, at `scan` */
	Harmony    *harmony;		/* NULL: marks decide */
};

static ToolParser *
new_parser(const ToolFormat *f, ToolSet *tools, uint64_t key, ParseSink sink, void *ctx)
{
	ToolParser *p = mem_zalloc(sizeof(*p));

	p->f = f;
	p->tools = tools;
	p->key = key;
	p->sink = sink;
	p->ctx = ctx;
	p->lead = f->lead[0] != NULL;
	if (f->harmony)
		p->harmony = harmony_new(sink, ctx, key);
	return p;
}

ToolParser *
tool_parser_new(const ToolFormat *f, const char *tools, size_t n_tools, uint64_t key, ParseSink sink, void *ctx)
{
	ToolSet    *set = NULL;

	if (tools != NULL)
	{
		set = mem_zalloc(sizeof(*set));
		atomic_init(&set->refs, 1);
		set->tree = cJSON_ParseWithLength(tools, n_tools);
	}
	return new_parser(f, set, key, sink, ctx);
}

ToolParser *
tool_parser_fork(const ToolParser *p, uint64_t key, ParseSink sink, void *ctx)
{
	if (p->tools != NULL)
		atomic_fetch_add(&p->tools->refs, 1);
	return new_parser(p->f, p->tools, key, sink, ctx);
}

void
tool_parser_free(ToolParser *p)
{
	if (p == NULL)
		return;
	if (p->tools != NULL && atomic_fetch_sub(&p->tools->refs, 1) == 1)
	{
		cJSON_Delete(p->tools->tree);
		mem_free(p->tools);
	}
	harmony_free(p->harmony);
	buf_free(&p->text);
	mem_free(p);
}

static void
show(ToolParser *p, size_t to)
{
	if (to > p->shown)
		p->sink(p->ctx, &(ParseEvent) {.kind = PARSE_CONTENT,.s = p->text.data + p->shown,.n = to - p->shown});
	p->shown = to > p->shown ? to : p->shown;
}

typedef enum Match
{
	NO, PERHAPS, YES
} Match;

/* Does the text from `at` begin with lit?  Perhaps: it ends too soon to say. */
static Match
match(const ToolParser *p, size_t at, const char *lit)
{
	size_t		have = p->text.len - at;
	size_t		n = strlen(lit);

	if (memcmp(p->text.data + at, lit, have < n ? have : n) != 0)
		return NO;
	return have < n ? PERHAPS : YES;
}

static Match
match_any(const ToolParser *p, size_t at, const char *const *lits)
{
	Match		best = NO;

	for (; *lits != NULL && best != YES; lits++)
	{
		Match		m = match(p, at, *lits);

		best = m > best ? m : best;
	}
	return best;
}

/* Thoughts, where the format minds them: PERHAPS = their mark may begin here. */
static Match
match_think(ToolParser *p, size_t at)
{
	Match		m;

	if (!p->f->skip_think && !p->f->lead_after_think)
		return NO;
	if (p->f->skip_think && (m = match(p, at, THINK)) != NO)
	{
		p->in_think |= m == YES;
		return m;
	}
	m = match(p, at, THINK_END);
	if (m == YES)
	{
		p->in_think = false;
		p->lead = p->f->lead_after_think;
		p->lead_from = at + strlen(THINK_END);
	}
	return m;
}

/* Go on looking for the first mark. */
static void
scan(ToolParser *p)
{
	while (p->scan < p->text.len)
	{
		Match		m = match_think(p, p->scan);
		bool		leads = p->lead && p->scan >= p->lead_from;

		if (m == PERHAPS)
			return;
		if (m == NO && !p->in_think)
		{
			m = match_any(p, p->scan, p->f->marks);
			if (m != YES && leads)
			{
				Match		l = match_any(p, p->scan, p->f->lead);

				m = l > m ? l : m;
			}
			if (m == YES)
				p->found = true;
			if (m != NO)
				return;
		}
		if (!span_is_space(p->text.data[p->scan++]))
		{
			p->solid = p->scan;
			p->lead = p->lead && !leads;
		}
	}
}

/* How much of what was scanned is content?  White space before a leading mark belongs to it. */
static size_t
before(const ToolParser *p)
{
	size_t		to = p->lead && p->lead_from < p->scan ? p->lead_from : p->scan;

	if (p->f->trim && to > p->solid)
		to = p->solid;
	return to > p->shown ? to : p->shown;
}

void
tool_parser_feed(ToolParser *p, const char *s, size_t n)
{
	if (p->harmony != NULL)
	{
		harmony_feed(p->harmony, s, n);
		return;
	}
	buf_add(&p->text, s, n);
	if (p->found)
		return;
	scan(p);
	if (!p->f->all)
		show(p, before(p));
}

/* ---- ids ---- */

void
tool_format_id(const ToolFormat *f, uint64_t sum, const char *name, int index, Buf *out)
{
	static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint64_t	h = digest(&index, sizeof(index), sum);

	if (f != NULL && f->named_ids)
		buf_printf(out, "functions.%s:%d", name, index);
	else if (f != NULL && f->short_ids)
		for (int i = 0; i < 9; i++, h /= 62)
			buf_addc(out, letters[h % 62]);
	else
		buf_printf(out, "chatcmpl-tool-%016llx%016llx", (unsigned long long) h,
				   (unsigned long long) digest(&h, sizeof(h), sum));
}

static void
send_call(ToolParser *p, const ToolCall *c, uint64_t sum, int index)
{
	Buf			made = {0};
	ParseEvent	ev = {.index = index,.name = c->name.data};

	if (c->id.len == 0)
		tool_format_id(p->f, sum, c->name.data, index, &made);
	ev.id = c->id.len > 0 ? c->id.data : made.data;
	ev.kind = PARSE_CALL;
	p->sink(p->ctx, &ev);
	ev.kind = PARSE_ARGUMENTS;
	ev.s = c->args.data != NULL ? c->args.data : "";
	ev.n = c->args.len;
	p->sink(p->ctx, &ev);
	ev.kind = PARSE_CALL_END;
	ev.n = 0;
	p->sink(p->ctx, &ev);
	buf_free(&made);
}

void
tool_parser_finish(ToolParser *p)
{
	ToolOut		out = {.tools = p->tools != NULL ? p->tools->tree : NULL};
	Span		s = {p->text.data, p->text.data + p->text.len};
	uint64_t	sum = digest(p->text.data, p->text.len, p->key);
	bool		ok = false;

	if (p->harmony != NULL)
	{
		harmony_finish(p->harmony);
		return;
	}
	if (p->text.len > 0 && (p->found || p->f->all))
	{
		size_t		at = p->found ? p->scan : 0;

		out.content_end = p->found ? before(p) : p->text.len;
		ok = p->f->parse(s, s.p + at, &out) && (out.n > 0 || out.bare);
	}
	show(p, ok ? out.content_end : p->text.len);
	if (ok && out.tail.len > 0)
		p->sink(p->ctx, &(ParseEvent) {.kind = PARSE_CONTENT,.s = out.tail.data,.n = out.tail.len});
	for (int i = 0; ok && i < out.n; i++)
		send_call(p, &out.calls[i], sum, i);
	out_free(&out);
}
