/*
 * jinja_vars.h
 *	  Variables and the time for a template, as tests give them.  The engine makes its own
 *	  (template/chat_template.c).
 */
#ifndef VLLM_TESTS_JINJA_VARS_H
#define VLLM_TESTS_JINJA_VARS_H

#include "template/jinja.h"
#include "template/jinja_internal.h"

typedef struct SetVar
{
	const char *name;
	const char *s;
	size_t		n;
	bool		input;
	bool		is_json;
} SetVar;

static inline void
set_var(Jin *j, void *arg)
{
	SetVar	   *s = (SetVar *) arg;
	JVal		v;

	j->line = 0;
	if (s->is_json)
		v = jin_json_read(j, s->s, s->n, s->input);
	else
		v = jin_sval(jin_str(j, s->s, s->n, s->input));
	if (j->vars == NULL)
		j->vars = jin_dict(j);
	jin_dict_cput(j, j->vars, s->name, v);
}

/*
 * Set a variable; the name is copied, and a second value replaces the first.  False with *e set:
 * malformed JSON, too large.
 */
static inline bool
set_json(Jin *j, const char *name, const char *json, size_t n, bool input, Err *e)
{
	SetVar		s = {.name = name,.s = json,.n = n,.input = input,.is_json = true};

	return jin_guard(j, set_var, &s, e);
}

static inline bool
set_str(Jin *j, const char *name, const char *str, size_t n, bool input, Err *e)
{
	SetVar		s = {.name = name,.s = str,.n = n,.input = input};

	return jin_guard(j, set_var, &s, e);
}

/* Set the time that strftime_now() uses. */
static inline void
set_now(Jin *j, const struct tm *now)
{
	j->now_tm = *now;
	j->now = &j->now_tm;
}

#endif
