/*
 * tool.c
 *	  Tool parsers: find the first mark in a text that comes in pieces, ids, and the table of formats
 *	  (parsers.h).
 *
 * The parser keeps the whole output.  The text before the first mark is emitted as content as soon as it
 * can't be part of a mark; from there on the format's ops read calls (tool_run.c).  Each byte is
 * examined once, except for the few of a held back beginning of a mark.
 *
 * Tested by tests/unit/parsers/test_parse.c with the cases of tests/parse/, and test_parse_calls.c.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "parsers/harmony.h"
#include "parsers/tool/tool_internal.h"

#define THINK		"<think>"
#define THINK_END	"</think>"

#define TOOL_PARSER(name, symbol) extern const ToolFormat tool_##symbol;
#include "parsers/tool/tools.def"
#undef TOOL_PARSER

typedef struct ToolRow
{
	const char *name;
	const ToolFormat *format;
} ToolRow;

static const ToolRow rows[] = {
#define TOOL_PARSER(name, symbol) {name, &tool_##symbol},
#include "parsers/tool/tools.def"
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

/* ---- the parser ---- */

/* The request's tools, shared by the parsers of all its choices. */
typedef struct ToolSet
{
	atomic_int	refs;
	Json	   *tree;
} ToolSet;

typedef enum ToolWhere
{
	BEFORE,						/* content, up to the first mark */
	CALLS,						/* the run reads them */
	PLAIN,						/* an apparent call was none: content to the end */
	DROPPED,					/* after the calls: text is dropped */
	TAIL						/* after the calls; content without white space at both ends */
} ToolWhere;

struct ToolParser
{
	const ToolFormat *f;
	ToolSet    *tools;			/* NULL: the request has none */
	ParseSink	sink;
	void	   *ctx;
	ToolWhere	where;
	Buf			text;			/* the whole output */
	size_t		shown;			/* bytes that have been emitted or dropped */
	size_t		scan;			/* no mark begins before this */
	size_t		solid;			/* end of the last byte before `scan` that is not white space */
	size_t		lead_from;		/* where a leading mark may be */
	bool		lead;			/* only white space since lead_from */
	bool		in_think;
	ToolRun		run;
	Harmony    *harmony;		/* NULL: a format with marks */
};

static const char *const braces[TOOL_SIGNS] = {"{", "}"};

static ToolParser *
new_parser(const ToolFormat *f, const ToolFormat *ids, ToolSet *tools, uint64_t key, ParseSink sink,
		   void *ctx)
{
	ToolParser *p = mem_zalloc(sizeof(*p));

	p->f = f;
	p->tools = tools;
	p->sink = sink;
	p->ctx = ctx;
	p->lead = f->lead[0] != NULL;
	p->run = (ToolRun) {.ops = f->ops,.tools = tools != NULL ? tools->tree : NULL,.text = &p->text,
						.sum = key};
	p->run.signs = f->signs[0] != NULL ? f->signs : braces;
	p->run.out = (CallOut) {.sink = sink,.ctx = ctx,.ids = ids};
	if (f->harmony)
		p->harmony = harmony_new(sink, ctx, key);
	return p;
}

ToolParser *
tool_parser_new(const ToolFormat *f, const char *tools, size_t n_tools, uint64_t key, ParseSink sink,
				void *ctx)
{
	ToolSet    *set = NULL;

	if (tools != NULL)
	{
		set = mem_zalloc(sizeof(*set));
		atomic_init(&set->refs, 1);
		set->tree = json_parse(tools, n_tools);
	}
	return new_parser(f, f, set, key, sink, ctx);
}

/* [{"name": ..., "parameters": {...}}, ...] */
static const ToolOp required_ops[] = {
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_PARAMETERS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 1},
	{OP_LIT,.lit = "]"},
	{.kind = OP_STOP}
};

static const ToolFormat required = {.lead = {"["},.ops = required_ops};

ToolParser *
tool_parser_required(const ToolFormat *ids, uint64_t key, ParseSink sink, void *ctx)
{
	return new_parser(&required, ids, NULL, key, sink, ctx);
}

ToolParser *
tool_parser_fork(const ToolParser *p, uint64_t key, ParseSink sink, void *ctx)
{
	if (p->tools != NULL)
		atomic_fetch_add(&p->tools->refs, 1);
	return new_parser(p->f, p->run.out.ids, p->tools, key, sink, ctx);
}

void
tool_parser_free(ToolParser *p)
{
	if (p == NULL)
		return;
	ASSERT(p->tools == NULL || atomic_load(&p->tools->refs) > 0);
	if (p->tools != NULL && atomic_fetch_sub(&p->tools->refs, 1) == 1)
	{
		json_free(p->tools->tree);
		mem_free(p->tools);
	}
	harmony_free(p->harmony);
	tool_run_free(&p->run);
	buf_free(&p->text);
	mem_free(p);
}

static void
show(ToolParser *p, size_t to)
{
	ALWAYS(to <= p->text.len && p->shown <= p->text.len);
	if (to > p->shown)
		p->sink(p->ctx, &(ParseEvent) {.kind = PARSE_CONTENT,.s = p->text.data + p->shown,
									   .n = to - p->shown});
	p->shown = to > p->shown ? to : p->shown;
}

/* ---- the first mark ---- */

static Match
match_any(const ToolParser *p, size_t at, const char *const *lits)
{
	Match		best = NO;

	for (; *lits != NULL && best != YES; lits++)
	{
		Match		m = tool_run_is(&p->run, at, *lits);

		best = m > best ? m : best;
	}
	return best;
}

/* Match the mark of reasoning, if the format skips reasoning: PERHAPS = it may begin here. */
static Match
match_think(ToolParser *p, size_t at)
{
	Match		m;

	if (!p->f->skip_think && !p->f->lead_after_think)
		return NO;
	if (p->f->skip_think && (m = tool_run_is(&p->run, at, THINK)) != NO)
	{
		p->in_think |= m == YES;
		return m;
	}
	m = tool_run_is(&p->run, at, THINK_END);
	if (m == YES)
	{
		p->in_think = false;
		p->lead = p->f->lead_after_think;
		p->lead_from = at + strlen(THINK_END);
	}
	return m;
}

/* Advance by one byte, which begins no mark. */
static void
pass_byte(ToolParser *p, bool leads)
{
	ALWAYS(p->scan < p->text.len);
	if (!span_is_space(p->text.data[p->scan++]))
	{
		p->solid = p->scan;
		p->lead = p->lead && !leads;
	}
}

/* Search the first mark; if found, it is at `scan`. */
static bool
scan(ToolParser *p)
{
	while (p->scan < p->text.len)
	{
		Match		m = match_think(p, p->scan);
		bool		leads = p->lead && p->scan >= p->lead_from;

		if (m == PERHAPS)
			return false;
		if (m == NO && !p->in_think)
		{
			m = match_any(p, p->scan, p->f->marks);
			if (m != YES && leads)
			{
				Match		l = match_any(p, p->scan, p->f->lead);

				m = l > m ? l : m;
			}
			if (m != NO)
				return m == YES;
		}
		pass_byte(p, leads);
	}
	return false;
}

/* Return how much of the scanned text is content.  White space before a leading mark belongs to the
 * mark. */
static size_t
before(const ToolParser *p)
{
	size_t		to = p->lead && p->lead_from < p->scan ? p->lead_from : p->scan;

	if (p->f->trim && to > p->solid)
		to = p->solid;
	return to > p->shown ? to : p->shown;
}

static void
search(ToolParser *p)
{
	bool		found = scan(p);

	if (p->run.last && !found)
	{
		show(p, p->text.len);
		p->where = DROPPED;
		return;
	}
	show(p, before(p));
	if (!found)
		return;
	p->where = CALLS;
	p->run.op = p->run.sub = 0;
	p->run.unit = p->scan;
	p->run.in_unit = true;
	tool_run_at(&p->run, p->scan);
}

/* ---- calls ---- */

/* The text from run.unit on is no call. */
static void
no_call(ToolParser *p)
{
	ToolRun    *r = &p->run;

	if (p->f->again && r->out.index == 0)
	{
		p->where = BEFORE;
		pass_byte(p, p->lead && p->scan >= p->lead_from);
		return;
	}
	if (r->out.n > 0)
		p->shown = r->in_unit ? r->unit : r->pos;
	p->where = PLAIN;
}

static bool
calls(ToolParser *p)
{
	switch (tool_run(&p->run))
	{
		case STEP_BAD:
			no_call(p);
			return true;
		case STEP_END:
			p->where = p->run.out.n > 0 || p->run.bare ? DROPPED : PLAIN;
			return true;
		case STEP_TAIL:
			p->where = TAIL;
			p->shown = p->solid = p->scan = p->run.pos;
			return true;
		default:
			return false;
	}
}

/* Hold white space back until text follows. */
static void
tail(ToolParser *p)
{
	for (; p->scan < p->text.len; p->scan++)
		if (!span_is_space(p->text.data[p->scan]))
			p->solid = p->scan + 1;
	while (p->run.sub == 0 && p->shown < p->solid && span_is_space(p->text.data[p->shown]))
		p->shown++;
	p->run.sub |= p->shown < p->solid;
	show(p, p->solid);
}

static void
go_on(ToolParser *p)
{
	if (p->text.len == 0)
		return;
	if (p->where == BEFORE)
		search(p);
	while (p->where == CALLS && calls(p))
		if (p->where == BEFORE)
			search(p);
	if (p->where == PLAIN)
		show(p, p->text.len);
	else if (p->where == TAIL)
		tail(p);
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
	go_on(p);
}

void
tool_parser_finish(ToolParser *p)
{
	if (p->harmony != NULL)
	{
		harmony_finish(p->harmony);
		return;
	}
	p->run.last = true;
	go_on(p);
}

bool
tool_parser_is_open(const ToolParser *p)
{
	if (p->harmony != NULL)
		return harmony_is_open(p->harmony);
	return p->run.out.n > 0 && (p->where == PLAIN || (p->where == TAIL && p->run.sub != 0) || p->run.in_mark);
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
