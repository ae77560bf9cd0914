/*
 * jinja_parse.c
 *	  Parse statements, and find out facts about a parsed template.
 *
 * Statements that a chat template can't need (include, import, extends, autoescape) are parsed and
 * refused when they are reached.  An unknown filter or test is an error of the template, except inside
 * of an if: then it is an error when it is reached, as in jinja2.
 *
 * Tested by tests/golden/jinja_golden.c, tests/fuzz/fuzz_jinja.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/utf8.h"

#define MAX_SOURCE	((size_t) 4 << 20)

static JNode *parse_until(JParse *p, const char *a, const char *b, const char *c);

static void __attribute__((noreturn))
fail_at(JParse *p, int line, const char *what)
{
	p->j->line = line;
	jin_fail(p->j, JE_SYNTAX, "%s", what);
}

/* Parse "%}", then statements up to one of the tags, whose name is the current token afterwards. */
static JNode *
parse_body(JParse *p, const char *a, const char *b, const char *c)
{
	JNode	   *body;

	jin_skip(p, TK_COLON);
	jin_expect(p, TK_BLOCK_END);
	body = parse_until(p, a, b, c);
	if (p->t->t == TK_EOF)
	{
		p->j->line = p->t->line;
		if (b == NULL)
			jin_fail(p->j, JE_SYNTAX, "Unexpected end of template. Jinja was looking for the following tags: "
									  "'%s'.", a);
		if (c == NULL)
			jin_fail(p->j, JE_SYNTAX, "Unexpected end of template. Jinja was looking for the following tags: "
									  "'%s' or '%s'.", a, b);
		jin_fail(p->j, JE_SYNTAX,
				 "Unexpected end of template. Jinja was looking for the following tags: '%s' or '%s' or "
				 "'%s'.", a, b, c);
	}
	return body;
}

/* Like parse_body(), and consume the tag. */
static JNode *
parse_whole_body(JParse *p, const char *end)
{
	JNode	   *body = parse_body(p, end, NULL, NULL);

	p->t++;
	return body;
}

static JNode *
parse_if(JParse *p)
{
	JNode	   *first = jin_node(p, N_IF, p->t->line);
	JNode	   *n = first;

	for (;;)
	{
		p->t++;
		n->a = jin_tuple(p, false, false, false, false);
		n->b = parse_body(p, "elif", "else", "endif");
		if (jin_at_name(p, "elif"))
		{
			n->c = jin_node(p, N_IF, p->t->line);
			n = n->c;
			continue;
		}
		if (jin_skip_name(p, "else"))
			n->c = parse_whole_body(p, "endif");
		else
			p->t++;
		return first;
	}
}

static JNode *
parse_for(JParse *p)
{
	JNode	   *n = jin_node(p, N_FOR, p->t->line);

	p->t++;
	n->a = jin_target(p, false);
	if (!jin_skip_name(p, "in"))
	{
		p->j->line = p->t->line;
		jin_fail(p->j, JE_SYNTAX, "expected token 'in', got %s", jin_token_name(p->j, p->t));
	}
	n->b = jin_tuple(p, false, false, false, false);
	if (jin_skip_name(p, "if"))
		n->x = jin_expression(p, true);
	n->flags = jin_skip_name(p, "recursive");
	p->loops++;
	n->c = parse_body(p, "endfor", "else", NULL);
	p->loops--;
	if (jin_skip_name(p, "else"))
		n->d = parse_whole_body(p, "endfor");
	else
		p->t++;
	return n;
}

static JNode *
parse_set(JParse *p)
{
	JNode	   *n = jin_node(p, N_SET, p->t->line);

	p->t++;
	n->a = jin_target(p, true);
	if (jin_skip(p, TK_ASSIGN))
	{
		n->b = jin_tuple(p, false, true, false, false);
		return n;
	}
	n->kind = N_SETBLOCK;
	n->b = jin_filters(p, NULL, false);
	n->c = parse_whole_body(p, "endset");
	return n;
}

static void
parse_signature(JParse *p, JNode *n)
{
	bool		defaults = false;

	jin_expect(p, TK_LPAREN);
	while (p->t->t != TK_RPAREN)
	{
		JNode	   *param;

		if (n->kids != NULL)
			jin_expect(p, TK_COMMA);
		param = jin_name_target(p);
		param->kind = N_PARAM;
		if (jin_skip(p, TK_ASSIGN))
		{
			param->a = jin_expression(p, true);
			defaults = true;
		}
		else if (defaults)
			fail_at(p, p->t->line, "non-default argument follows default argument");
		jin_add_kid(n, param);
	}
	jin_expect(p, TK_RPAREN);
}

/* Parse the body of a macro or call block; note whether it reads caller, kwargs, varargs. */
static void
parse_macro_body(JParse *p, JNode *n, const char *end)
{
	int			loops = p->loops;
	int			outer = p->macro_names;

	p->loops = 0;
	p->macro_names = 0;
	n->c = parse_whole_body(p, end);
	n->flags = p->macro_names;
	for (const JNode *param = n->kids; param != NULL; param = param->next)
	{
		if (jin_str_is(param->str, "caller") && param->a == NULL && (n->flags & MACRO_CALLER) != 0)
			fail_at(p, n->line, "When defining macros or call blocks the special \"caller\" argument must be "
					"omitted or be given a default.");
		if (jin_str_is(param->str, "kwargs"))
			n->flags &= ~MACRO_KWARGS;
		if (jin_str_is(param->str, "varargs"))
			n->flags &= ~MACRO_VARARGS;
	}
	p->macro_names |= outer;
	p->loops = loops;
}

static JNode *
parse_macro(JParse *p)
{
	JNode	   *n = jin_node(p, N_MACRO, p->t->line);

	p->t++;
	n->str = jin_name_target(p)->str;
	parse_signature(p, n);
	parse_macro_body(p, n, "endmacro");
	return n;
}

static JNode *
parse_call_block(JParse *p)
{
	JNode	   *n = jin_node(p, N_CALL, p->t->line);

	p->t++;
	if (p->t->t == TK_LPAREN)
		parse_signature(p, n);
	n->a = jin_expression(p, true);
	if (n->a->kind != N_CALLEXPR)
		fail_at(p, n->line, "expected call");
	parse_macro_body(p, n, "endcall");
	return n;
}

static JNode *
parse_with(JParse *p)
{
	JNode	   *n = jin_node(p, N_WITH, p->t->line);

	p->t++;
	while (p->t->t != TK_BLOCK_END)
	{
		JNode	   *set = jin_node(p, N_SET, p->t->line);

		if (n->kids != NULL)
			jin_expect(p, TK_COMMA);
		set->a = jin_target(p, false);
		jin_expect(p, TK_ASSIGN);
		set->b = jin_expression(p, true);
		jin_add_kid(n, set);
	}
	n->c = parse_whole_body(p, "endwith");
	return n;
}

static JNode *
parse_print(JParse *p)
{
	JNode	   *n = jin_node(p, N_OUTPUT, p->t->line);

	p->t++;
	while (p->t->t != TK_BLOCK_END)
	{
		if (n->kids != NULL)
			jin_expect(p, TK_COMMA);
		jin_add_kid(n, jin_expression(p, true));
	}
	return n;
}

static JNode *
parse_block(JParse *p)
{
	JNode	   *n = jin_node(p, N_SCOPED, p->t->line);
	JStr	   *name;

	p->t++;
	name = jin_expect(p, TK_NAME)->s;
	jin_skip_name(p, "scoped");
	if (jin_at_name(p, "required"))
		fail_at(p, p->t->line, "a required block can't be rendered by itself");
	n->c = parse_whole_body(p, "endblock");
	if (p->t->t == TK_NAME && jin_str_eq(p->t->s, name))
		p->t++;
	return n;
}

/* Parse statements that need other templates: skip everything up to "%}". */
static JNode *
parse_refused(JParse *p)
{
	JNode	   *n = jin_node(p, N_REFUSED, p->t->line);

	n->str = p->t->s;
	while (p->t->t != TK_BLOCK_END && p->t->t != TK_EOF && p->t->t != TK_ERROR)
		p->t++;
	return n;
}

static JNode *
parse_exit(JParse *p)
{
	JNode	   *n = jin_node(p, jin_at_name(p, "break") ? N_BREAK : N_CONTINUE, p->t->line);

	if (p->loops == 0)
		fail_at(p, p->t->line, jin_at_name(p, "break") ? "'break' outside loop" :
				"'continue' not properly in loop");
	p->t++;
	return n;
}

static JNode *
parse_filter_block(JParse *p)
{
	JNode	   *n = jin_node(p, N_FILTERBLOCK, p->t->line);

	p->t++;
	n->b = jin_filters(p, NULL, true);
	n->c = parse_whole_body(p, "endfilter");
	return n;
}

/* Parse Hugging Face's tag around the assistant's text; it has no effect here. */
static JNode *
parse_generation(JParse *p)
{
	JNode	   *n = jin_node(p, N_SCOPED, p->t->line);
	int			loops = p->loops;

	p->t++;
	p->loops = 0;				/* it is a call block, so no loop is open */
	n->c = parse_whole_body(p, "endgeneration");
	p->loops = loops;
	return n;
}

static JNode *
parse_autoescape(JParse *p)
{
	JNode	   *n = jin_node(p, N_SCOPED, p->t->line);
	JStr	   *tag = p->t->s;
	JNode	   *how;

	p->t++;
	how = jin_expression(p, true);
	n->c = parse_whole_body(p, "endautoescape");
	if (how->kind == N_CONST && how->val.t == JT_BOOL && !how->val.b)
		return n;
	n->kind = N_REFUSED;
	n->str = tag;
	return n;
}

static const struct
{
	const char *tag;
	JNode	   *(*parse) (JParse *p);
}			statements[] = {
	{"if", parse_if}, {"for", parse_for}, {"set", parse_set}, {"macro", parse_macro},
	{"call", parse_call_block},
	{"with", parse_with}, {"print", parse_print}, {"block", parse_block}, {"filter", parse_filter_block},
	{"break", parse_exit}, {"continue", parse_exit}, {"generation", parse_generation},
	{"autoescape", parse_autoescape}, {"include", parse_refused}, {"import", parse_refused},
	{"from", parse_refused}, {"extends", parse_refused}
};

static JNode *
parse_statement(JParse *p)
{
	JNode	   *n = NULL;

	if (p->t->t != TK_NAME)
		fail_at(p, p->t->line, "tag name expected");
	jin_enter(p->j);
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]) && n == NULL; i++)
		if (jin_at_name(p, statements[i].tag))
			n = statements[i].parse(p);
	if (n == NULL)
	{
		p->j->line = p->t->line;
		jin_fail(p->j, JE_SYNTAX, "Encountered unknown tag %s.", jin_token_name(p->j, p->t));
	}
	jin_leave(p->j);
	return n;
}

/* Parse statements up to a tag of one of these names (which becomes current), or the end. */
static JNode *
parse_until(JParse *p, const char *a, const char *b, const char *c)
{
	JNode	   *body = jin_node(p, N_BODY, p->t->line);
	JNode	   *n;

	for (;;)
	{
		JToken	   *t = p->t;

		switch (t->t)
		{
			case TK_EOF:
				return body;
			case TK_ERROR:
				jin_fail(p->j, JE_SYNTAX, "malformed");	/* reported as the lexer's error instead */
			case TK_DATA:
				p->t++;
				n = jin_node(p, N_DATA, t->line);
				n->str = t->s;
				break;
			case TK_VAR_BEGIN:
				p->t++;
				n = jin_node(p, N_OUTPUT, t->line);
				jin_add_kid(n, jin_tuple(p, false, true, false, false));
				jin_expect(p, TK_VAR_END);
				break;
			default:
				ASSERT(t->t == TK_BLOCK_BEGIN);
				p->t++;
				if (a != NULL && (jin_at_name(p, a) || (b != NULL && jin_at_name(p, b)) ||
								  (c != NULL && jin_at_name(p, c))))
					return body;
				n = parse_statement(p);
				jin_expect(p, TK_BLOCK_END);
		}
		jin_add_kid(body, n);
	}
}

static JNode *
jin_parse(Jin *j, const char *s, size_t n)
{
	JParse		p = {.j = j};

	JNode	   *body;

	p.t = jin_lex(j, s, n);
	ASSERT(j->parsing == NULL);
	j->line = 0;
	j->parsing = &p.t;
	body = parse_until(&p, NULL, NULL, NULL);
	ASSERT(p.t->t == TK_EOF && p.loops == 0);
	j->parsing = NULL;
	return body;
}

/* ---- what a template does ---- */

/* Names that, as far as assignments show, refer to */
typedef struct JinjaParseNames
{
	Jin		   *j;
	JList	   *chats;			/* the messages */
	JList	   *messages;		/* one message */
	JList	   *contents;		/* a message's content */
	JinUses		uses;
} JinjaParseNames;

static bool
named(const JinjaParseNames *w, const JList *l, const JNode *n)
{
	jin_step(w->j, l->n / 8);
	for (size_t i = 0; n->kind == N_NAME && i < l->n; i++)
		if (jin_str_eq(l->v[i].s, n->str))
			return true;
	return false;
}

/* See through filters, slices, conditions and defaults. */
static bool
is_kind(const JList *l, const JNode *n, bool (*more) (const JinjaParseNames *w, const JNode *n),
		const JinjaParseNames *w)
{
	bool		is = false;

	if (n == NULL)
		return false;
	if (named(w, l, n) || (more != NULL && more(w, n)))
		return true;
	/* a chain of operators is as deep as it is long: the parser reads it in a loop */
	jin_enter(w->j);
	if (n->kind == N_FILTER || (n->kind == N_ITEM && n->b->kind == N_SLICE))
		is = is_kind(l, n->a, more, w);
	else if (n->kind == N_COND)
		is = is_kind(l, n->b, more, w) || is_kind(l, n->c, more, w);
	else if (n->kind == N_OR)
		is = is_kind(l, n->a, more, w) || is_kind(l, n->b, more, w);
	jin_leave(w->j);
	return is;
}

/* Return true for messages[0], or a name of a message. */
static bool
is_message(const JinjaParseNames *w, const JNode *n)
{
	return named(w, w->messages, n) ||
		(n->kind == N_ITEM && n->b->kind != N_SLICE && is_kind(w->chats, n->a, NULL, w) &&
		 !(n->b->kind == N_CONST && n->b->val.t == JT_STR));
}

/* Return true for message.content, message['content'], message.get('content'). */
static bool
is_content(const JinjaParseNames *w, const JNode *n)
{
	if (n->kind == N_ATTR)
		return jin_str_is(n->str, "content") && is_message(w, n->a);
	if (n->kind == N_ITEM)
		return n->b->kind == N_CONST && n->b->val.t == JT_STR && jin_str_is(n->b->val.s, "content") &&
			is_message(w, n->a);
	if (n->kind == N_CALLEXPR && n->a->kind == N_ATTR && jin_str_is(n->a->str, "get") && n->kids != NULL)
		return n->kids->kind == N_CONST && n->kids->val.t == JT_STR &&
			jin_str_is(n->kids->val.s, "content") && is_message(w, n->a->a);
	return false;
}

static void
note_assignment(Jin *j, JinjaParseNames *w, const JNode *target, const JNode *value)
{
	if (target->kind != N_NAME)
		return;
	if (is_kind(w->chats, value, NULL, w))
		jin_list_add(j, w->chats, jin_sval(target->str));
	else if (is_kind(w->contents, value, is_content, w))
		jin_list_add(j, w->contents, jin_sval(target->str));
	else if (is_message(w, value))
		jin_list_add(j, w->messages, jin_sval(target->str));
}

static void
note_uses(Jin *j, JinjaParseNames *w, const JNode *n)
{
	if (n->kind == N_SET)
		note_assignment(j, w, n->a, n->b);
	else if (n->kind == N_FOR)
	{
		if (n->a->kind == N_NAME && is_kind(w->chats, n->b, NULL, w))
			jin_list_add(j, w->messages, jin_sval(n->a->str));
		if (is_kind(w->contents, n->b, is_content, w))
			w->uses.content_parts = true;
	}
	else if (n->kind == N_TEST && jin_str_is(n->str, "string"))
		w->uses.string_test = true;
	else if (n->kind == N_PARAM && jin_str_is(n->str, "content"))
		jin_list_add(j, w->contents, jin_sval(n->str));
}

/* Find filters and tests that don't exist, and call note_uses(). */
static void
check(Jin *j, JinjaParseNames *w, const JNode *n, bool soft)
{
	for (; n != NULL; n = n->next)
	{
		bool		inner = soft;
		const JFilter *f;

		jin_enter(j);
		note_uses(j, w, n);
		if (n->kind == N_IF || n->kind == N_COND)
			inner = true;
		else if (n->kind == N_FOR || n->kind == N_MACRO || n->kind == N_CALL || n->kind == N_SETBLOCK ||
				 n->kind == N_FILTERBLOCK || n->kind == N_WITH || n->kind == N_SCOPED)
			inner = false;
		j->line = n->line;
		if (n->kind == N_FILTER && !soft)
		{
			f = jin_filter(n->str);
			if (f == NULL)
				jin_fail(j, JE_SYNTAX, "No filter named %s.", jin_repr_c(j, jin_sval(n->str)));
			if (f->fn == NULL)
				jin_fail(j, JE_REFUSED, "filter %s is not supported", jin_repr_c(j, jin_sval(n->str)));
		}
		if (n->kind == N_TEST && !soft && jin_test(n->str) == NULL)
			jin_fail(j, JE_SYNTAX, "No test named %s.", jin_repr_c(j, jin_sval(n->str)));
		check(j, w, n->a, inner);
		check(j, w, n->b, inner);
		if (n->kids == NULL)
			check(j, w, n->x, inner);
		check(j, w, n->kids, inner);
		check(j, w, n->c, inner);
		check(j, w, n->d, inner);
		jin_leave(j);
	}
}

static void
jin_check(Jin *j, JinTemplate *t)
{
	JinjaParseNames w = {.j = j,.chats = jin_list(j, 4),.messages = jin_list(j, 4),
						 .contents = jin_list(j, 4)};
	int			nesting = j->nesting;

	jin_list_add(j, w.chats, jin_cstr(j, "messages"));
	check(j, &w, t->body, false);
	ASSERT(j->nesting == nesting);
	t->uses = w.uses;
}

typedef struct Compile
{
	const char *source;
	size_t		n;
	JinTemplate *t;
} Compile;

/* Refuse other bytes than UTF-8, which a model's files may have: all code after this relies on it. */
static void
check_bytes(Jin *j, const char *s, size_t n)
{
	size_t		len;

	j->line = 1;
	for (size_t i = 0; i < n; i += len)
	{
		if (utf8_scan(s + i, n - i, &len) != UTF8_OK)
			jin_fail(j, JE_SYNTAX, "invalid UTF-8");
		j->line += s[i] == '\n';
	}
	j->line = 0;
}

static void
compile(Jin *j, void *arg)
{
	Compile    *c = arg;
	JinTemplate *t = jin_zalloc(j, sizeof(JinTemplate));
	char	   *copy;

	j->nesting = JIN_MAX_NESTING - JIN_PARSE_NESTING;
	if (c->n > MAX_SOURCE)
		jin_fail(j, JE_LIMIT, "a chat template of %zu bytes is too long", c->n);
	check_bytes(j, c->source, c->n);
	copy = jin_alloc(j, c->n);
	if (c->n > 0)
		memcpy(copy, c->source, c->n);
	t->source = copy;
	t->source_len = c->n;
	t->body = jin_parse(j, copy, c->n);
	jin_check(j, t);
	j->line = 0;
	jin_find_scopes(j, t->body);
	c->t = t;
}

JinTemplate *
jin_compile(const char *source, size_t n, Err *e)
{
	Jin		   *j = jin_new(NULL);
	Compile		c = {.source = source,.n = n};

	if (jin_guard(j, compile, &c, e))
	{
		c.t->slabs = j->slabs;
		j->slabs = NULL;
	}
	else
		c.t = NULL;
	jin_end(j);
	return c.t;
}

JinUses
jin_uses(const JinTemplate *t)
{
	return t->uses;
}

bool
jin_source_has(const JinTemplate *t, const char *s)
{
	return memmem(t->source, t->source_len, s, strlen(s)) != NULL;
}
