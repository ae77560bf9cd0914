/*
 * grammar.c
 *	  The grammars of requests: compile them from specifications, share them, lock them.
 *
 * A Grammar grows with use: states, rows, masks.  Above a limit of memory it is rebuilt between two
 * steps: it is compiled again, and everything cached is dropped.  The matches notice the new epoch and
 * walk their bytes again, so the results don't change.  A text that alone needs more than the limit is
 * an error of its request.
 *
 * The grammar is also rebuilt after a limit has been exceeded (too many nodes, too many steps), so the
 * next request gets an intact grammar.
 */
#include "grammar/grammar.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/grammar_internal.h"
#include "grammar/schema/json_schema.h"
#include "grammar/matcher_internal.h"

#define MEMORY_LIMIT	((size_t) 192 << 20)
#define MAX_TEXT		((size_t) 4 << 20)	/* bytes of a specification */
#define MAX_CHOICES		100000

/* ---- specifications ---- */

static GramSpec *
spec_copy(const GramSpec *s)
{
	GramSpec   *r = mem_alloc(sizeof(GramSpec));
	char	  **choice = mem_alloc((s->n_choices + 1) * sizeof(char *));
	size_t	   *len = mem_alloc((s->n_choices + 1) * sizeof(size_t));

	*r = *s;
	r->text = mem_strndup(s->text != NULL ? s->text : "", s->len);
	for (size_t i = 0; i < s->n_choices; i++)
	{
		len[i] = s->choice_len[i];
		choice[i] = mem_strndup(s->choice[i], len[i]);
	}
	r->choice = (const char *const *) choice;
	r->choice_len = len;
	if (s->opt.whitespace_pattern != NULL)
		r->opt.whitespace_pattern = mem_strdup(s->opt.whitespace_pattern);
	return r;
}

static void
spec_free(void *arg)
{
	GramSpec   *s = arg;

	mem_free((void *) s->text);
	for (size_t i = 0; i < s->n_choices; i++)
		mem_free((void *) s->choice[i]);
	mem_free((void *) s->choice);
	mem_free((void *) s->choice_len);
	mem_free((void *) s->opt.whitespace_pattern);
	mem_free(s);
}

static bool
regex_build(Cfg *c, const GramSpec *s, CfgNode *out, Err *e)
{
	static const ReSyntax syntax = {.mode = RE_RAW,.rust = true};
	ReNode		re;

	if (memchr(s->text, '\0', s->len) != NULL)
		return err_set(e, ERR_INVALID, "regex must not contain a NUL byte");
	if (!re_parse(cfg_re(c), s->text, s->len, &syntax, &re, e))
		return false;
	*out = cfg_lexeme(c, re);
	return true;
}

static bool
choice_build(Cfg *c, const GramSpec *s, CfgNode *out, Err *e)
{
	if (s->n_choices == 0)
		return err_set(e, ERR_INVALID, "choice must not be empty");
	if (s->n_choices > MAX_CHOICES)
		return err_set(e, ERR_TOO_LONG, "choice has %zu entries, more than %d", s->n_choices, MAX_CHOICES);
	*out = cfg_lexeme(c, re_texts(cfg_re(c), s->choice, s->choice_len, s->n_choices, RE_RAW));
	return true;
}

/* Return true for EBNF.  Lark's notation has no ::= in any line. */
static bool
is_ebnf(const char *s, size_t n)
{
	return memmem(s, n, "::=", 3) != NULL;
}

static bool
blank(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strchr(" \t\r\n", s[i]) == NULL)
			return false;
	return true;
}

bool
spec_build(Cfg *c, const GramSpec *s, CfgNode *out, Err *e)
{
	if (s->len > MAX_TEXT)
		return err_set(e, ERR_TOO_LONG, "grammar has %zu bytes, more than %zu", s->len, MAX_TEXT);
	switch (s->kind)
	{
		case GRAM_JSON_SCHEMA:
			if (blank(s->text, s->len))
				return err_set(e, ERR_INVALID, "JSON schema must not be empty");
			return schema_build(c, s->text, s->len, &s->opt, out, e);
		case GRAM_JSON_OBJECT:
			return schema_any(c, true, &s->opt, out, e);
		case GRAM_REGEX:
			return regex_build(c, s, out, e);
		case GRAM_CHOICE:
			return choice_build(c, s, out, e);
		case GRAM_GRAMMAR:
			if (blank(s->text, s->len))
				return err_set(e, ERR_INVALID, "grammar must not be empty");
			return is_ebnf(s->text, s->len) ? ebnf_build(c, s->text, s->len, out, e) :
				lark_build(c, s->text, s->len, out, e);
		case GRAM_STRUCTURAL_TAG:
			return tags_build(c, s->text, s->len, &s->opt, out, e);
	}
	return err_set(e, ERR_INTERNAL, "unknown kind of grammar");
}

static bool
build_spec(Cfg *c, const void *arg, CfgNode *out, Err *e)
{
	const GramSpec *s = arg;

	/* PostgreSQL stores generated texts, which can't contain NUL */
	if (!s->opt.validate)
		re_without_nul(cfg_re(c));
	return spec_build(c, s, out, e);
}

/* ---- grammars ---- */

/* Compile the grammar; everything cached is dropped. */
static bool
compile(Grammar *g, Err *e)
{
	Cfg		   *c = cfg_new();
	CfgNode		root;

	for (GramMasks *m = g->masks; m != NULL; m = m->next)
		masks_forget(m);
	g->work += g->p != NULL ? parse_work(g->p) : 0;
	parse_free(g->p);
	g->p = NULL;
	g->epoch++;
	if (!g->build(c, g->arg, &root, e) ||
		!(g->read_only ? cfg_finish_any(c, root, &g->empty, e) : cfg_finish(c, root, e)) || g->empty)
	{
		cfg_free(c);
		return g->empty;
	}
	g->p = parse_new(c);
	if (g->read_only)
		lexer_read_only(parse_lexer(g->p));
	return parse_check(g->p, e);
}

static Grammar *
build(GramBuild how, void *arg, void (*free_arg) (void *), bool read_only, Err *e)
{
	Grammar    *g = mem_zalloc(sizeof(Grammar));

	g->build = how;
	g->arg = arg;
	g->read_only = read_only;
	g->free_arg = free_arg;
	g->limit = MEMORY_LIMIT;
	atomic_init(&g->refs, 1);
	pthread_mutex_init(&g->lock, NULL);
	if (compile(g, e))
		return g;
	grammar_unref(g);
	return NULL;
}

Grammar *
grammar_build(GramBuild how, void *arg, void (*free_arg) (void *), Err *e)
{
	return build(how, arg, free_arg, false, e);
}

Grammar *
grammar_new(const GramSpec *spec, Err *e)
{
	return build(build_spec, spec_copy(spec), spec_free, spec->opt.validate, e);
}

Grammar *
grammar_ref(Grammar *g)
{
	int			before = atomic_fetch_add(&g->refs, 1);

	ALWAYS(before > 0);
	return g;
}

void
grammar_unref(Grammar *g)
{
	int			before = g != NULL ? atomic_fetch_sub(&g->refs, 1) : 2;

	ALWAYS(before > 0);
	if (before > 1)
		return;
	while (g->masks != NULL)
	{
		GramMasks  *m = g->masks;

		g->masks = m->next;
		masks_free(m);
	}
	parse_free(g->p);
	if (g->free_arg != NULL)
		g->free_arg(g->arg);
	pthread_mutex_destroy(&g->lock);
	mem_free(g);
}

void
grammar_set_limit(Grammar *g, size_t bytes)
{
	g->limit = bytes > 0 ? bytes : MEMORY_LIMIT;
}

static size_t
memory(const Grammar *g)
{
	size_t		n = sizeof(Grammar) + (g->p != NULL ? parse_memory(g->p) : 0);

	for (const GramMasks *m = g->masks; m != NULL; m = m->next)
		n += masks_memory(m);
	return n;
}

size_t
grammar_memory(Grammar *g)
{
	size_t		n;

	pthread_mutex_lock(&g->lock);
	n = memory(g);
	pthread_mutex_unlock(&g->lock);
	return n;
}

uint64_t
grammar_work(Grammar *g)
{
	uint64_t	n;

	pthread_mutex_lock(&g->lock);
	n = g->work + (g->p != NULL ? parse_work(g->p) : 0);
	pthread_mutex_unlock(&g->lock);
	return n;
}

bool
grammar_begin(Grammar *g, Err *e)
{
	bool		over = g->p != NULL && memory(g) > g->limit;
	Err			ignored;

	if (g->empty)
		return err_set(e, ERR_INVALID, "grammar does not match any text");
	/* masks are cheap to make again, so drop them first */
	for (GramMasks *m = g->masks; over && m != NULL; m = m->next)
		masks_forget(m);
	if ((g->p == NULL || !parse_check(g->p, &ignored) || (over && memory(g) > g->limit / 2)) &&
		!compile(g, e))
		return false;
	parse_begin(g->p);
	return true;
}

bool
grammar_walk(Grammar *g, uint32_t *state, const char *s, size_t n, Err *e)
{
	uint32_t	at = *state;

	ASSERT(g->p != NULL && !g->empty);
	for (size_t i = 0; i < n && at != PARSE_DEAD; i++)
	{
		at = parse_step(g->p, at, (uint8_t) s[i]);
		if (i % 256 == 255)
		{
			if (memory(g) > 2 * g->limit)
				return err_set(e, ERR_TOO_LONG, "grammar needs more than %zu bytes of memory for this text",
							   2 * g->limit);
			if (!parse_check(g->p, e))
				return false;
			parse_begin(g->p);
		}
	}
	*state = at;
	return parse_check(g->p, e);
}

bool
grammar_accepts(Grammar *g, const char *s, size_t n, bool *yes, Err *e)
{
	uint32_t	state;
	bool		ok;

	*yes = false;
	if (g->empty)
		return true;
	pthread_mutex_lock(&g->lock);
	ok = grammar_begin(g, e);
	if (ok)
	{
		state = parse_start(g->p);
		ok = grammar_walk(g, &state, s, n, e);
		*yes = ok && parse_accepts(g->p, state);
	}
	pthread_mutex_unlock(&g->lock);
	return ok;
}
