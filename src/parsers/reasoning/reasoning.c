/*
 * reasoning.c
 *	  Reasoning parsers: one state machine for all formats with tags (reasoning_internal.h), and the
 *	  few other formats.
 *
 * Text is held back only while it may still become a tag.  In two cases more is held back: outputs of
 * Qwen3 with reasoning turned off, if the prompt doesn't show that, and the text after a tag of tool
 * calls in the reasoning of Qwen3 and Kimi.
 *
 * Tested by tests/unit/parsers/test_parse.c with the cases of tests/parse/.
 */

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "parsers/harmony.h"
#include "parsers/reasoning/reasoning_internal.h"
#include "parsers/text_span.h"

#define SLICE	4096			/* bytes */

#define REASONING_PARSER(name, symbol) extern const ReasonFormat reason_##symbol;
#include "parsers/reasoning/reasoning.def"
#undef REASONING_PARSER

typedef struct ReasoningRow
{
	const char *name;
	const ReasonFormat *format;
} ReasoningRow;

static const ReasoningRow rows[] = {
#define REASONING_PARSER(name, symbol) {name, &reason_##symbol},
#include "parsers/reasoning/reasoning.def"
#undef REASONING_PARSER
};

const ReasonFormat *
reason_format_find(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
			return rows[i].format;
	return NULL;
}

void
reason_format_names(Buf *out)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		buf_printf(out, "%s%s", i > 0 ? ", " : "", rows[i].name);
}

bool
reason_format_special(const ReasonFormat *f)
{
	return f->special;
}

const char *
reason_format_start(const ReasonFormat *f)
{
	return f->start;
}

const char *
reason_format_end(const ReasonFormat *f)
{
	return f->end;
}

/* Return the last lit in s, NULL if there is none. */
static const char *
last(Span s, const char *lit)
{
	const char *found = NULL;
	const char *at;

	while ((at = span_find(&s, lit)) != NULL)
	{
		found = at;
		s.p = at + 1;
	}
	return found;
}

static bool
ends_with(Span s, const char *lit)
{
	size_t		n = strlen(lit);

	return (size_t) (s.end - s.p) >= n && memcmp(s.end - n, lit, n) == 0;
}

ReasonAt
reason_format_at(const ReasonFormat *f, const char *prompt, size_t n, bool goes_on)
{
	Span		s = {prompt, prompt + n};
	const char *start;
	const char *end;

	if (f->start == NULL || f->end == NULL)
		return REASON_UNKNOWN;
	while (s.end > s.p && span_is_space(s.end[-1]))
		s.end--;
	if (ends_with(s, f->end))
		return REASON_CLOSED;
	if (ends_with(s, f->start))
		return REASON_OPEN;
	if (!goes_on)
		return REASON_UNKNOWN;	/* tags of older turns, or text that looks like tags */
	start = last(s, f->start);
	end = last(s, f->end);
	if (start == NULL && end == NULL)
		return REASON_UNKNOWN;
	return start == NULL || (end != NULL && end > start) ? REASON_CLOSED : REASON_OPEN;
}

/* ---- the parser ---- */

typedef enum ReasoningState
{
	FRONT,						/* white space and perhaps a start tag */
	SEEK,						/* content, up to a start tag anywhere */
	LINE,						/* after the start tag: a newline that belongs to it */
	THOUGHT,
	ASIDE,						/* after a tag of `also_ends`, unless an end tag follows: everything is
								 * held back */
	AFTER,						/* after the end tag: blank lines, perhaps a tag that opens content */
	OPENED,						/* after that tag: blank lines */
	CONTENT,
	CLOSED,						/* after a tag that closes content, if only white space follows */
	HOLD						/* undecided: everything is held back until an end tag, or the end */
} ReasoningState;

struct ReasonParser
{
	const ReasonFormat *f;
	ParseSink	sink;
	void	   *ctx;
	ReasoningState state;
	ReasoningState otherwise;		/* state after FRONT without a start tag */
	Buf			text;			/* text that has not been emitted yet */
	size_t		scan;			/* no mark begins before this */
	bool		begun;			/* append: the tag has been emitted */
	bool		tag_only;		/* f->also_ends doesn't end the reasoning */
	Harmony    *harmony;
};

static void
send(ReasonParser *p, ParseKind kind, const char *s, size_t n)
{
	if (n > 0)
		p->sink(p->ctx, &(ParseEvent) {.kind = kind,.s = s,.n = n});
}

/* Emit n bytes of the text's front as kind, and drop `drop` more. */
static void
pass(ReasonParser *p, ParseKind kind, size_t n, size_t drop)
{
	ALWAYS(n <= p->text.len && drop <= p->text.len - n);
	send(p, kind, p->text.data, n);
	buf_consume(&p->text, n + drop);
	p->scan = 0;
}

/* Drop Harmony's calls, as this sink passes on only reasoning and content. */
static void
harmony_sink(void *ctx, const ParseEvent *ev)
{
	ReasonParser *p = ctx;

	if (ev->kind == PARSE_CONTENT || ev->kind == PARSE_REASONING)
		p->sink(p->ctx, ev);
}

/* Return whether the model reasons: as kwargs say, else as the format does by default. */
static bool
thinks(const ReasonFormat *f, const char *kwargs, size_t n)
{
	Json	   *root = kwargs != NULL ? json_parse(kwargs, n) : NULL;
	const Json *a = json_get(root, "thinking");
	const Json *b = json_get(root, "enable_thinking");
	bool		yes = true;

	if (f->off)
		yes = json_is_true(a) || json_is_true(b);
	else if (f->switched)
		yes = !json_is_false(a) && !json_is_false(b);
	json_free(root);
	return yes;
}

const char *
reason_format_until(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at)
{
	if (f->harmony)
		return "<|channel|>final" MARK_GAP "<|message|>";	/* as in "final <|constrain|>json<|message|>" */
	if (f->end == NULL || at == REASON_CLOSED || !thinks(f, kwargs, n_kwargs))
		return NULL;
	return at == REASON_OPEN || !(f->needs_start || f->anywhere) ? f->end : NULL;
}

ReasonParser *
reason_parser_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at, ParseSink sink,
				  void *ctx)
{
	ReasonParser *p = mem_zalloc(sizeof(*p));
	bool		on = thinks(f, kwargs, n_kwargs);

	p->f = f;
	p->sink = sink;
	p->ctx = ctx;
	p->otherwise = f->needs_start && at != REASON_OPEN ? CONTENT : THOUGHT;
	if (f->harmony)
		p->harmony = harmony_new(harmony_sink, p, 0);
	if (f->identity || f->append || (!on && !f->hold_off))
		p->state = CONTENT;
	else if (f->phrases)
		p->state = HOLD;
	else if (at == REASON_PLAIN)
		p->state = SEEK;
	else if (at == REASON_CLOSED)
		p->otherwise = CONTENT;
	else if (!on && at == REASON_UNKNOWN)
		p->otherwise = HOLD;
	else if (f->anywhere && at == REASON_UNKNOWN)
		p->state = SEEK;
	return p;
}

ReasonParser *
reason_parser_fork(const ReasonParser *p, ParseSink sink, void *ctx)
{
	ReasonParser *r = mem_alloc(sizeof(*r));

	/* all choices begin with the same state, before any text */
	ASSERT(p->text.len == 0 && !p->begun);
	*r = *p;
	r->sink = sink;
	r->ctx = ctx;
	r->text = (Buf) {0};
	r->scan = 0;
	r->harmony = p->harmony != NULL ? harmony_new(harmony_sink, r, 0) : NULL;
	return r;
}

void
reason_parser_tag_only(ReasonParser *p)
{
	p->tag_only = true;
}

void
reason_parser_free(ReasonParser *p)
{
	if (p == NULL)
		return;
	harmony_free(p->harmony);
	buf_free(&p->text);
	mem_free(p);
}

/*
 * Search for the first of up to four texts from p->scan on.  Return true with *at, *which.  Otherwise
 * return false; *at and p->scan are where one may begin, which is the text's end if none may.
 */
static bool
look(ReasonParser *p, const char *const *lits, int n_lits, size_t *at, int *which)
{
	for (*at = p->scan; *at < p->text.len; (*at)++)
		for (*which = 0; *which < n_lits; (*which)++)
		{
			size_t		have = p->text.len - *at;
			size_t		n = strlen(lits[*which]);

			if (lits[*which][0] != p->text.data[*at] ||
				memcmp(p->text.data + *at, lits[*which], have < n ? have : n) != 0)
				continue;
			p->scan = *at;
			return have >= n;
		}
	p->scan = *at;
	return false;
}

/* Return whether the text at `at` begins with lit; -1: it is too short to decide. */
static int
begins(const ReasonParser *p, size_t at, const char *lit)
{
	size_t		have = p->text.len - at;
	size_t		n = strlen(lit);

	if (memcmp(p->text.data + at, lit, have < n ? have : n) != 0)
		return 0;
	return have < n ? -1 : 1;
}

static size_t
skip_space(ReasonParser *p)
{
	while (p->scan < p->text.len && span_is_space(p->text.data[p->scan]))
		p->scan++;
	return p->scan;
}

/* Each step of the machine returns true if it advanced, false if it needs more text. */

static bool
front(ReasonParser *p)
{
	size_t		at = skip_space(p);
	int			b = begins(p, at, p->f->start);

	if (b < 0)
		return false;
	if (b == 0)
	{
		p->state = p->otherwise;
		p->scan = 0;
		return true;
	}
	pass(p, PARSE_REASONING, 0, at + strlen(p->f->start));
	p->state = p->f->lines ? LINE : THOUGHT;
	return true;
}

static bool
line(ReasonParser *p)
{
	pass(p, PARSE_REASONING, 0, p->text.data[0] == '\n');
	p->state = THOUGHT;
	return true;
}

static bool
seek(ReasonParser *p)
{
	size_t		at;
	int			which;

	if (!look(p, &p->f->start, 1, &at, &which))
	{
		pass(p, PARSE_CONTENT, at, 0);
		return false;
	}
	pass(p, PARSE_CONTENT, at, strlen(p->f->start));
	p->state = THOUGHT;
	return true;
}

/* Granite's phrases. */
static const char *const thoughts_of[] = {"Here is my thought process:", "Here's my thought process:"};
static const char *const answers_of[] = {"Here is my response:", "Here's my response:"};

static bool
thought(ReasonParser *p)
{
	char		line[32] = "\n";
	const char *lits[3] = {p->f->end};
	int			n = 1;
	size_t		at;
	int			which;

	if (p->f->phrases)
	{
		lits[0] = answers_of[0];
		lits[n++] = answers_of[1];
	}
	else if (p->f->also_ends != NULL && !p->tag_only)
		lits[n++] = p->f->also_ends;
	else if (p->f->lines)
	{
		ALWAYS(strlen(p->f->end) < sizeof(line) - 1);
		lits[n++] = strcat(line, p->f->end);
	}
	if (!look(p, lits, n, &at, &which))
	{
		pass(p, PARSE_REASONING, at, 0);
		return false;
	}
	pass(p, PARSE_REASONING, at, lits[which] == p->f->also_ends ? 0 : strlen(lits[which]));
	p->state = lits[which] == p->f->also_ends ? ASIDE : p->f->open != NULL ? AFTER : CONTENT;
	return true;
}

/* The model may only think of a call, which must not be made: if an end tag follows, the text was
 * reasoning. */
static bool
aside(ReasonParser *p)
{
	size_t		at;
	int			which;

	if (!look(p, &p->f->end, 1, &at, &which))
		return false;
	pass(p, PARSE_REASONING, at, strlen(p->f->end));
	p->state = p->f->open != NULL ? AFTER : CONTENT;
	return true;
}

static bool
after(ReasonParser *p)
{
	size_t		at = skip_space(p);
	int			b = begins(p, at, p->f->open);

	if (b < 0)
		return false;
	pass(p, PARSE_CONTENT, 0, at + (b > 0 ? strlen(p->f->open) : 0));
	p->state = b > 0 ? OPENED : CONTENT;
	return true;
}

static bool
opened(ReasonParser *p)
{
	size_t		n = 0;

	while (n < p->text.len && p->text.data[n] == '\n')
		n++;
	pass(p, PARSE_CONTENT, 0, n);
	if (p->text.len > 0)
		p->state = CONTENT;
	return p->text.len > 0;
}

/* Emit content, up to a tag that may close it. */
static bool
content(ReasonParser *p)
{
	char		line[32] = "\n";
	const char *lits[2] = {p->f->close, line};
	size_t		at = p->text.len;
	int			which;

	if (p->f->close != NULL)
	{
		ALWAYS(strlen(p->f->close) < sizeof(line) - 1);
		strcat(line, p->f->close);
		if (look(p, lits, 2, &at, &which))
		{
			pass(p, PARSE_CONTENT, at, 0);
			p->scan = strlen(lits[which]);
			p->state = CLOSED;
			return true;
		}
	}
	pass(p, PARSE_CONTENT, at, 0);
	return false;
}

static bool
closed(ReasonParser *p)
{
	size_t		at = skip_space(p);

	if (at == p->text.len)
		return false;
	/* text follows: it was no end of the content */
	pass(p, PARSE_CONTENT, at, 0);
	p->state = CONTENT;
	return true;
}

/* Granite: a phrase begins the reasoning, otherwise all is content. */
static bool
phrases(ReasonParser *p)
{
	size_t		at = skip_space(p);
	int			b[2];

	for (int i = 0; i < 2; i++)
		b[i] = begins(p, at, thoughts_of[i]);
	if (b[0] < 1 && b[1] < 1 && (b[0] < 0 || b[1] < 0))
		return false;
	p->state = b[0] > 0 || b[1] > 0 ? THOUGHT : CONTENT;
	pass(p, PARSE_REASONING, 0, p->state == THOUGHT ? at + strlen(thoughts_of[b[0] > 0 ? 0 : 1]) : 0);
	return true;
}

/* If an end tag follows, the held text is reasoning. */
static bool
hold(ReasonParser *p)
{
	size_t		at;
	int			which;

	if (p->f->phrases)
		return phrases(p);
	if (!look(p, &p->f->end, 1, &at, &which))
		return false;
	pass(p, PARSE_REASONING, at, strlen(p->f->end));
	p->state = CONTENT;
	return true;
}

static bool
step(ReasonParser *p)
{
	switch (p->state)
	{
		case FRONT:
			return front(p);
		case SEEK:
			return seek(p);
		case LINE:
			return line(p);
		case THOUGHT:
			return thought(p);
		case ASIDE:
			return aside(p);
		case AFTER:
			return after(p);
		case OPENED:
			return opened(p);
		case CONTENT:
			return content(p);
		case CLOSED:
			return closed(p);
		case HOLD:
			return hold(p);
	}
	return false;
}

void
reason_parser_feed(ReasonParser *p, const char *s, size_t n)
{
	if (n == 0)
		return;
	if (p->harmony != NULL)
	{
		harmony_feed(p->harmony, s, n);
		return;
	}
	if (p->f->append && !p->begun)
		send(p, PARSE_CONTENT, p->f->start, strlen(p->f->start));
	p->begun = true;
	/* in slices, so that little has to be moved after each */
	while (n > 0)
	{
		size_t		k = n < SLICE ? n : SLICE;

		buf_add(&p->text, s, k);
		s += k;
		n -= k;
		while (p->text.len > 0 && step(p))
			;
	}
}

ReasonStage
reason_parser_stage(const ReasonParser *p)
{
	switch (p->state)
	{
		case FRONT:
		case SEEK:
		case HOLD:
			return REASON_BEFORE;
		case LINE:
		case THOUGHT:
			return REASON_WITHIN;
		default:
			return REASON_AFTER;
	}
}

/* Emit what is still held back, as no more text follows. */
void
reason_parser_finish(ReasonParser *p)
{
	ReasoningState s = p->state == FRONT ? p->otherwise : p->state;
	size_t		drop = 0;

	if (p->harmony != NULL)
	{
		harmony_finish(p->harmony);
		return;
	}
	if (p->state == CLOSED || p->text.len == 0)
		return;
	if (p->state == AFTER)
		drop = skip_space(p);
	pass(p, s == THOUGHT ? PARSE_REASONING : PARSE_CONTENT, 0, drop);
	pass(p, s == THOUGHT ? PARSE_REASONING : PARSE_CONTENT, p->text.len, 0);
}
