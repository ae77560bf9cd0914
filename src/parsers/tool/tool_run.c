/*
 * tool_run.c
 *	  Read a format's calls from a growing text, by its list of ops (tool_internal.h).
 *
 * An op that needs more text remembers its state, and is called again when there is more: no byte is
 * examined twice, except for the few of a held back beginning of a mark.  What is certain of a call is
 * emitted at once.
 *
 * Tested by tests/unit/parsers/test_parse.c and test_parse_calls.c.
 */
#include "base/assert.h"
#include "parsers/tool/tool_internal.h"

#include "base/checksum.h"
#include "base/alloc.h"

void
tool_run_free(ToolRun *r)
{
	callout_free(&r->out);
	buf_free(&r->key);
	keyset_free(&r->keys);
	keyset_free(&r->inner);
}

uint64_t
tool_run_sum(ToolRun *r)
{
	if (r->unit > r->summed)
		r->sum = digest(r->text->data + r->summed, r->unit - r->summed, r->sum);
	r->summed = r->unit > r->summed ? r->unit : r->summed;
	return r->sum;
}

void
tool_run_at(ToolRun *r, size_t pos)
{
	r->pos = r->scan = pos;
}

static ToolStep
go(ToolRun *r, int op)
{
	r->op = op;
	r->sub = 0;
	r->scan = r->pos;
	r->line = false;
	return STEP_ON;
}

ToolStep
tool_run_next(ToolRun *r)
{
	return go(r, r->op + 1);
}

static void
begin_unit(ToolRun *r, size_t at)
{
	if (!r->in_unit)
		r->unit = at;
	r->in_unit = true;
}

/* ---- texts ---- */

Match
tool_run_is(const ToolRun *r, size_t at, const char *lit)
{
	size_t		have = r->text->len - at;
	size_t		n = strlen(lit);

	ALWAYS(at <= r->text->len);
	if (have >= n)
		return memcmp(r->text->data + at, lit, n) == 0 ? YES : NO;
	return r->last || memcmp(r->text->data + at, lit, have) != 0 ? NO : PERHAPS;
}

Match
tool_run_here(ToolRun *r, const char *lit)
{
	while (r->pos < r->text->len && span_is_space(r->text->data[r->pos]))
		r->pos++;
	return tool_run_is(r, r->pos, lit);
}

Match
tool_run_find(ToolRun *r, const char *const *lits, int n, int *which)
{
	for (; r->scan < r->text->len; r->scan++)
	{
		Match		best = NO;
		char		c = r->text->data[r->scan];

		for (int i = 0; i < n && best != YES; i++)
		{
			Match		m = lits[i] != NULL && lits[i][0] == c ? tool_run_is(r, r->scan, lits[i]) : NO;

			best = m > best ? m : best;
			*which = i;
		}
		if (best != NO)
			return best;
	}
	return r->last ? NO : PERHAPS;
}

/* Return true if the rest of the text from `at` on is a beginning of lit, i.e. the text was truncated
 * there. */
static bool
cut_in(const ToolRun *r, size_t at, const char *lit)
{
	size_t		have = r->text->len - at;

	return r->last && have < strlen(lit) && memcmp(r->text->data + at, lit, have) == 0;
}

/* Return true if c is in the text skipped from `from` on. */
static bool
passed(const ToolRun *r, size_t from, char c)
{
	return r->scan > from && memchr(r->text->data + from, c, r->scan - from) != NULL;
}

bool
tool_run_has(Span s, const char *bytes)
{
	for (; *bytes != '\0'; bytes++)
		if (s.p < s.end && memchr(s.p, *bytes, (size_t) (s.end - s.p)) != NULL)
			return true;
	return false;
}

ToolStep
tool_run_after(ToolRun *r, const char *const *lits, int n, const char *first, const char *signs)
{
	for (; r->scan < r->text->len; r->scan++)
	{
		char		c = r->text->data[r->scan];
		Span		one = tool_run_span(r, r->scan, r->scan + 1);
		Match		best = NO;

		for (int i = 0; i < n && best != YES; i++)
		{
			Match		m = lits[i] != NULL && lits[i][0] == c ? tool_run_is(r, r->scan, lits[i]) : NO;

			/* the text may be truncated within the mark */
			m = m == NO && lits[i] != NULL && cut_in(r, r->scan, lits[i]) ? YES : m;
			best = m > best ? m : best;
		}
		if (best == PERHAPS)
			return STEP_MORE;
		if (best == YES || (r->line && c == '\n'))
			return tool_run_next(r);
		if (!r->line && (span_is_space(c) || c == ',' || c == ';'))
			continue;
		if (tool_run_has(one, signs) || (!r->line && tool_run_has(one, first)))
			return STEP_BAD;
		r->line = true;
	}
	return r->last ? tool_run_next(r) : STEP_MORE;
}

/* ---- keys, to detect duplicates ---- */

bool
tool_keys_add(KeySet *k, Span key)
{
	return keyset_add(k, digest(key.p, (size_t) (key.end - key.p), 0));
}

bool
tool_keys_unique(KeySet *k, Span json)
{
	JPush		j = {.depth = -1,.keys = k};	/* the depth of the arguments, around values of the
												 * maximum depth */
	Buf			form = {0};
	bool		unique;

	keyset_reset(k);
	unique = jpush(&j, &json, true, &form) == JPUSH_DONE;
	buf_free(&form);
	return unique;
}

/* ---- ops ---- */

/* Return true if the end of the skipped text is a beginning of lit. */
static bool
ends_within(const ToolRun *r, const char *lit)
{
	for (size_t n = 1; lit != NULL && n < strlen(lit) && n <= r->text->len - r->pos; n++)
		if (cut_in(r, r->text->len - n, lit))
			return true;
	return false;
}

static ToolStep
op_seek(ToolRun *r, const ToolOp *op)
{
	const char *lits[2 + TOOL_SIGNS] = {op->lit, op->lit2, r->signs[0], r->signs[1]};
	size_t		from = r->scan;
	int			which;
	Match		m = tool_run_find(r, lits, 2 + TOOL_SIGNS, &which);

	/* a call whose mark is damaged */
	if (m == YES && which >= 2)
		return STEP_BAD;
	if (((op->flags & OP_NO_BRACE) && passed(r, from, '{')) ||
		((op->flags & OP_NO_TAG) && passed(r, from, '<')))
		return STEP_BAD;
	if (m == NO)
		r->in_mark = ends_within(r, op->lit) || ends_within(r, op->lit2);
	if (m != YES)
		return m == NO ? STEP_END : STEP_MORE;
	begin_unit(r, r->scan);
	r->pos = r->scan + (op->flags & OP_PEEK ? 0 : strlen(lits[which]));
	return go(r, which == 1 ? op->to : r->op + 1);
}

static ToolStep
op_lit(ToolRun *r, const ToolOp *op)
{
	Match		m = tool_run_here(r, op->lit);

	if (m == PERHAPS)
		return STEP_MORE;
	if (m == YES && !(op->flags & OP_PEEK))
		r->pos += strlen(op->lit);
	if (op->kind == OP_IF)
		return go(r, m == YES ? op->to : r->op + 1);
	if (m == NO && (op->kind == OP_LIT || (op->kind == OP_LIT_END && !cut_in(r, r->pos, op->lit))))
		return STEP_BAD;
	return tool_run_next(r);
}

/* Split functions.NAME:INDEX, or NAME:INDEX. */
static bool
split_id(Span id, Span *name)
{
	const char *colon = id.end;

	while (colon > id.p && colon[-1] >= '0' && colon[-1] <= '9')
		colon--;
	if (colon == id.end || colon == id.p || *--colon != ':')
		return false;
	*name = (Span) {id.p, colon};
	span_take(name, "functions.");
	return name->p < name->end;
}

/* Set a tool's name, which must not contain characters of the surrounding text. */
static bool
take_name(ToolRun *r, Span name)
{
	for (const char *p = name.p; p < name.end; p++)
		if ((unsigned char) *p <= ' ' || strchr("\"'`()[]{}<>,;", *p) != NULL)
			return false;
	return callout_named(&r->out, name);
}

static bool
take_id(ToolRun *r, Span id)
{
	size_t		n = (size_t) (id.end - id.p);
	Span		name;

	if (n > MAX_NAME || memchr(id.p, '\0', n) != NULL || !split_id(id, &name) || !take_name(r, name))
		return false;
	buf_add(&r->out.id, id.p, n);
	return true;
}

/* Read NAME, NAME[ARGS] or NAME[CALL_ID]ID[ARGS], as Mistral's models write it. */
static Span
without_marks(ToolRun *r, Span s)
{
	static const char args[] = "[ARGS]";
	static const char id[] = "[CALL_ID]";
	size_t		n = sizeof(args) - 1;
	const char *at;

	if ((size_t) (s.end - s.p) > n && memcmp(s.end - n, args, n) == 0)
		s.end -= n;
	at = span_find(&s, id);
	if (at == NULL)
		return span_trim(s);
	at += sizeof(id) - 1;
	if (s.end - at <= MAX_NAME && memchr(at, '\0', (size_t) (s.end - at)) == NULL)
		buf_add(&r->out.id, at, (size_t) (s.end - at));
	return span_trim((Span) {s.p, at - (sizeof(id) - 1)});
}

static ToolStep
op_name(ToolRun *r, const ToolOp *op)
{
	const char *lits[] = {op->lit, op->lit2};
	size_t		from = r->scan;
	int			which;
	Match		m = tool_run_find(r, lits, 2, &which);
	Span		name = tool_run_span(r, r->pos, r->scan);

	if (passed(r, from, '<') || m == NO)
		return STEP_BAD;
	if (m != YES)
		return STEP_MORE;
	name = span_trim(name);
	if (op->flags & OP_ARGS_MARK)
		name = without_marks(r, name);
	if (op->kind == OP_NAME && !take_name(r, tool_unquoted(name)))
		return STEP_BAD;
	if (op->kind == OP_ID && !take_id(r, name))
		return STEP_BAD;
	r->pos = r->scan + (op->flags & OP_PEEK ? 0 : strlen(lits[which]));
	return tool_run_next(r);
}

/* A remainder with a brace, or one that continues with a member, belongs to the object. */
static ToolStep
op_after(ToolRun *r, const ToolOp *op)
{
	const char *lits[] = {op->lit, op->lit2};

	return tool_run_after(r, lits, 2, "\"]", "{}");
}

enum
{
	AT_COMMA, AT_CALL, IN_NAME, AT_PAREN
};

static bool
of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
		c == '.' || (c & 0x80) != 0;
}

/* Handle a byte that is no white space, after a call of an array. */
static ToolStep
element_byte(ToolRun *r, char c, unsigned flags)
{
	bool		name = (flags & PY_CALL) && of_name(c);

	if (r->sub == AT_COMMA && c == ',')
		r->sub = AT_CALL;
	else if (r->sub == AT_COMMA && !name)
		return strchr("\"}:)=", c) != NULL && c != '\0' ? STEP_BAD : tool_run_next(r);
	else if (r->sub <= IN_NAME && name)
		r->sub = IN_NAME;
	else if (r->sub == AT_CALL)
		return c == ']' || c == (flags & PY_CALL ? '<' : '{') ? tool_run_next(r) : STEP_BAD;
	else
		return c == '(' ? tool_run_next(r) : STEP_BAD;
	r->scan++;
	return STEP_MORE;
}

/* If neither the array's end nor another call follows an element, the element's end is damaged. */
static ToolStep
op_element(ToolRun *r, const ToolOp *op)
{
	ToolStep	s = STEP_MORE;

	for (; s == STEP_MORE && r->scan < r->text->len;)
	{
		char		c = r->text->data[r->scan];

		if (!span_is_space(c))
			s = element_byte(r, c, op->flags);
		else
		{
			r->sub = r->sub == IN_NAME ? AT_PAREN : r->sub;
			r->scan++;
		}
	}
	return s == STEP_MORE && r->last ? tool_run_next(r) : s;
}

static ToolStep
op_done(ToolRun *r)
{
	callout_end(&r->out, tool_run_sum(r));
	r->in_unit = false;
	return tool_run_next(r);
}

static ToolStep
op_bare(ToolRun *r)
{
	while (r->pos < r->text->len && span_is_space(r->text->data[r->pos]))
		r->pos++;
	if (r->pos < r->text->len)
		return STEP_BAD;
	r->bare = r->last;
	return r->last ? STEP_END : STEP_MORE;
}

static ToolStep
step(ToolRun *r, const ToolOp *op)
{
	switch (op->kind)
	{
		case OP_SEEK:
			return op_seek(r, op);
		case OP_LIT:
		case OP_LIT_END:
		case OP_OPT:
		case OP_IF:
			return op_lit(r, op);
		case OP_GOTO:
			return go(r, op->to);
		case OP_SKIP:
		case OP_NAME:
		case OP_ID:
			return op_name(r, op);
		case OP_OBJECT:
			return tool_op_object(r, op->flags);
		case OP_ARGS:
			return tool_op_args(r);
		case OP_TAGS:
			return tool_op_tags(r, op->tags);
		case OP_PYTHON:
			return tool_op_python(r, op->flags);
		case OP_GEMMA:
			return tool_op_gemma(r);
		case OP_AFTER:
			return op_after(r, op);
		case OP_ELEMENT:
			return op_element(r, op);
		case OP_DONE:
			return op_done(r);
		case OP_BARE:
			return op_bare(r);
		case OP_STOP:
			return STEP_END;
		case OP_TAIL:
			return STEP_TAIL;
	}
	return STEP_BAD;
}

ToolStep
tool_run(ToolRun *r)
{
	ToolStep	s;

	do
		s = step(r, &r->ops[r->op]);
	while (s == STEP_ON);
	if (s == STEP_BAD)
		callout_drop(&r->out);
	return s;
}
