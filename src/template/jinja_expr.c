/*
 * jinja_expr.c
 *	  Parse expressions: recursive descent with jinja2's precedence.
 *
 * From loosest to tightest: if-else, or, and, not, comparisons (chained), + -, ~,
 * * / // %, **, unary + -, then postfix (. [] ()) and filters and tests.  A unary
 * operator takes a primary and its postfixes; filters then apply to the whole, as in
 * jinja2: -1|abs is (-1)|abs.
 */
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"

static JNode *parse_unary(JParse *p, bool with_filter);
static JNode *parse_primary(JParse *p, bool nsref);
static JNode *parse_postfix(JParse *p, JNode *n);

JNode *
jin_node(JParse *p, JNodeKind kind, int line)
{
	JNode	   *n = jin_zalloc(p->j, sizeof(JNode));

	n->kind = kind;
	n->line = line;
	return n;
}

void
jin_add_kid(JNode *n, JNode *kid)
{
	/* nodes with kids don't use x otherwise: here it is the last kid */
	ALWAYS((n->kids == NULL) == (n->x == NULL) && n->kind != N_FOR);
	ASSERT(kid->next == NULL && (n->x == NULL || n->x->next == NULL));
	if (n->kids == NULL)
		n->kids = kid;
	else
		n->x->next = kid;
	n->x = kid;
}

bool
jin_at_name(const JParse *p, const char *name)
{
	return p->t->t == TK_NAME && jin_str_is(p->t->s, name);
}

bool
jin_skip_name(JParse *p, const char *name)
{
	if (!jin_at_name(p, name))
		return false;
	p->t++;
	return true;
}

bool
jin_skip(JParse *p, JTok t)
{
	ALWAYS(t != TK_EOF && t != TK_ERROR);	/* the last token: none follows */
	if (p->t->t != t)
		return false;
	p->t++;
	return true;
}

JToken *
jin_expect(JParse *p, JTok t)
{
	ALWAYS(t != TK_EOF && t != TK_ERROR);
	if (p->t->t != t)
	{
		p->j->line = p->t->line;
		if (p->t->t == TK_EOF)
			jin_fail(p->j, JE_SYNTAX, "unexpected end of template, expected '%s'.", jin_tok_name(t));
		jin_fail(p->j, JE_SYNTAX, "expected token '%s', got %s", jin_tok_name(t), jin_token_name(p->j, p->t));
	}
	return p->t++;
}

static JNode *
binary(JParse *p, JNodeKind kind, JOp op, int line, JNode *a, JNode *b)
{
	JNode	   *n = jin_node(p, kind, line);

	n->op = op;
	n->a = a;
	n->b = b;
	return n;
}

static JNode *
const_node(JParse *p, int line, JVal v)
{
	JNode	   *n = jin_node(p, N_CONST, line);

	n->val = v;
	return n;
}

/* ---- arguments, filters, tests ---- */

static void __attribute__((noreturn))
bad_call(JParse *p, int line)
{
	p->j->line = line;
	jin_fail(p->j, JE_SYNTAX, "invalid syntax for function call expression");
}

/* Parse one argument.  *star ...: the kinds of the arguments before it. */
static JNode *
parse_arg(JParse *p, int line, bool *star, bool *starstar, bool *keyword)
{
	JNode	   *n;
	int			at = p->t->line;

	if (jin_skip(p, TK_MUL))
	{
		if (*star || *starstar)
			bad_call(p, line);
		*star = true;
		n = jin_node(p, N_STARARG, at);
	}
	else if (jin_skip(p, TK_POW))
	{
		if (*starstar)
			bad_call(p, line);
		*starstar = true;
		n = jin_node(p, N_STARSTAR, at);
	}
	else if (p->t->t == TK_NAME && p->t[1].t == TK_ASSIGN)
	{
		if (*starstar)
			bad_call(p, line);
		*keyword = true;
		n = jin_node(p, N_KEYWORD, at);
		n->str = p->t->s;
		p->t += 2;
	}
	else
	{
		if (*star || *starstar || *keyword)
			bad_call(p, line);
		return jin_expression(p, true);
	}
	n->a = jin_expression(p, true);
	return n;
}

/* Parse (arguments) as kids of n. */
static void
parse_args(JParse *p, JNode *n)
{
	int			line = p->t->line;
	bool		star = false;
	bool		starstar = false;
	bool		keyword = false;
	bool		comma = false;

	jin_expect(p, TK_LPAREN);
	while (p->t->t != TK_RPAREN)
	{
		if (comma)
		{
			jin_expect(p, TK_COMMA);
			if (p->t->t == TK_RPAREN)
				break;
		}
		jin_add_kid(n, parse_arg(p, line, &star, &starstar, &keyword));
		comma = true;
	}
	jin_expect(p, TK_RPAREN);
}

static JStr *
dotted_name(JParse *p)
{
	JStr	   *s = jin_expect(p, TK_NAME)->s;

	while (jin_skip(p, TK_DOT))
	{
		s = jin_str_join2(p->j, s, jin_str(p->j, ".", 1, false));
		s = jin_str_join2(p->j, s, jin_expect(p, TK_NAME)->s);
	}
	return s;
}

JNode *
jin_filters(JParse *p, JNode *value, bool inline_start)
{
	while (inline_start || p->t->t == TK_PIPE)
	{
		JNode	   *n;

		if (!inline_start)
			p->t++;
		inline_start = false;
		n = jin_node(p, N_FILTER, p->t->line);
		n->a = value;
		n->str = dotted_name(p);
		if (p->t->t == TK_LPAREN)
			parse_args(p, n);
		value = n;
	}
	return value;
}

static JNode *
parse_test(JParse *p, JNode *value)
{
	JNode	   *n = jin_node(p, N_TEST, p->t->line);
	JNode	   *not;
	bool		negated;

	p->t++;						/* is */
	negated = jin_skip_name(p, "not");
	n->a = value;
	n->str = dotted_name(p);
	if (p->t->t == TK_LPAREN)
		parse_args(p, n);
	else if ((p->t->t == TK_NAME && !jin_at_name(p, "else") && !jin_at_name(p, "or") &&
			  !jin_at_name(p, "and")) ||
			 p->t->t == TK_STR || p->t->t == TK_INT || p->t->t == TK_FLOAT || p->t->t == TK_LBRACKET ||
			 p->t->t == TK_LBRACE)
	{
		if (jin_at_name(p, "is"))
		{
			p->j->line = p->t->line;
			jin_fail(p->j, JE_SYNTAX, "You cannot chain multiple tests with is");
		}
		jin_add_kid(n, parse_postfix(p, parse_primary(p, false)));
	}
	if (!negated)
		return n;
	not = jin_node(p, N_NOT, n->line);
	not->a = n;
	return not;
}

/* ---- postfix ---- */

static JNode *
parse_subscribed(JParse *p)
{
	int			line = p->t->line;
	JNode	   *first = NULL;
	JNode	   *n;

	if (p->t->t != TK_COLON)
	{
		first = jin_expression(p, true);
		if (p->t->t != TK_COLON)
			return first;
	}
	p->t++;
	n = jin_node(p, N_SLICE, line);
	n->a = first;
	if (p->t->t != TK_COLON && p->t->t != TK_RBRACKET && p->t->t != TK_COMMA)
		n->b = jin_expression(p, true);
	if (jin_skip(p, TK_COLON) && p->t->t != TK_RBRACKET && p->t->t != TK_COMMA)
		n->c = jin_expression(p, true);
	return n;
}

static JNode *
parse_subscript(JParse *p, JNode *object)
{
	int			line = p->t->line;
	JNode	   *n;
	JNode	   *key = NULL;

	if (jin_skip(p, TK_DOT))
	{
		if (p->t->t == TK_NAME)
		{
			n = binary(p, N_ATTR, OP_ADD, line, object, NULL);
			n->str = p->t++->s;
			return n;
		}
		p->j->line = p->t->line;
		if (p->t->t != TK_INT)
			jin_fail(p->j, JE_SYNTAX, "expected name or number");
		key = const_node(p, p->t->line, jin_int(p->t->i));
		p->t++;
		return binary(p, N_ITEM, OP_ADD, line, object, key);
	}
	p->t++;						/* [ */
	n = jin_node(p, N_TUPLE, line);
	while (p->t->t != TK_RBRACKET)
	{
		if (key != NULL)
			jin_expect(p, TK_COMMA);
		key = parse_subscribed(p);
		jin_add_kid(n, key);
	}
	jin_expect(p, TK_RBRACKET);
	if (n->kids != NULL && n->kids->next == NULL)
		n = n->kids;
	return binary(p, N_ITEM, OP_ADD, line, object, n);
}

static JNode *
parse_call(JParse *p, JNode *callee)
{
	JNode	   *n = binary(p, N_CALLEXPR, OP_ADD, p->t->line, callee, NULL);

	parse_args(p, n);
	return n;
}

static JNode *
parse_postfix(JParse *p, JNode *n)
{
	for (;;)
	{
		if (p->t->t == TK_DOT || p->t->t == TK_LBRACKET)
			n = parse_subscript(p, n);
		else if (p->t->t == TK_LPAREN)
			n = parse_call(p, n);
		else
			return n;
		jin_step(p->j, 1);
	}
}

/* ---- primaries ---- */

static JNode *
parse_list(JParse *p)
{
	JNode	   *n = jin_node(p, N_LIST, p->t->line);

	p->t++;
	while (p->t->t != TK_RBRACKET)
	{
		if (n->kids != NULL)
			jin_expect(p, TK_COMMA);
		if (p->t->t == TK_RBRACKET)
			break;
		jin_add_kid(n, jin_expression(p, true));
	}
	jin_expect(p, TK_RBRACKET);
	return n;
}

static JNode *
parse_dict(JParse *p)
{
	JNode	   *n = jin_node(p, N_DICT, p->t->line);

	p->t++;
	while (p->t->t != TK_RBRACE)
	{
		if (n->kids != NULL)
			jin_expect(p, TK_COMMA);
		if (p->t->t == TK_RBRACE)
			break;
		jin_add_kid(n, jin_expression(p, true));
		jin_expect(p, TK_COLON);
		jin_add_kid(n, jin_expression(p, true));
	}
	jin_expect(p, TK_RBRACE);
	return n;
}

static JNode *
parse_name(JParse *p, bool nsref)
{
	JToken	   *t = p->t++;
	JNode	   *n;

	if (jin_str_is(t->s, "true") || jin_str_is(t->s, "True"))
		return const_node(p, t->line, jin_bool(true));
	if (jin_str_is(t->s, "false") || jin_str_is(t->s, "False"))
		return const_node(p, t->line, jin_bool(false));
	if (jin_str_is(t->s, "none") || jin_str_is(t->s, "None"))
		return const_node(p, t->line, jin_none());
	n = jin_node(p, N_NAME, t->line);
	n->str = t->s;
	if (nsref && jin_skip(p, TK_DOT))
	{
		n->kind = N_NSREF;
		n->val = jin_sval(jin_expect(p, TK_NAME)->s);
		return n;
	}
	if (jin_str_is(t->s, "caller"))
		p->macro_names |= MACRO_CALLER;
	else if (jin_str_is(t->s, "kwargs"))
		p->macro_names |= MACRO_KWARGS;
	else if (jin_str_is(t->s, "varargs"))
		p->macro_names |= MACRO_VARARGS;
	return n;
}

static JNode *
parse_primary(JParse *p, bool nsref)
{
	JToken	   *t = p->t;
	JNode	   *n;
	JStr	   *s;

	switch (t->t)
	{
		case TK_NAME:
			return parse_name(p, nsref);
		case TK_STR:
			s = t->s;
			for (p->t++; p->t->t == TK_STR; p->t++)
				s = jin_str_join2(p->j, s, p->t->s);
			return const_node(p, t->line, jin_sval(s));
		case TK_INT:
			p->t++;
			return const_node(p, t->line, jin_int(t->i));
		case TK_FLOAT:
			p->t++;
			return const_node(p, t->line, jin_float(t->f));
		case TK_LPAREN:
			p->t++;
			n = jin_tuple(p, false, true, true, false);
			jin_expect(p, TK_RPAREN);
			return n;
		case TK_LBRACKET:
			return parse_list(p);
		case TK_LBRACE:
			return parse_dict(p);
		default:
			p->j->line = t->line;
			jin_fail(p->j, JE_SYNTAX, "unexpected %s", jin_token_name(p->j, t));
	}
}

static bool
tuple_end(const JParse *p)
{
	return p->t->t == TK_VAR_END || p->t->t == TK_BLOCK_END || p->t->t == TK_RPAREN;
}

JNode *
jin_tuple(JParse *p, bool simple, bool with_cond, bool parens, bool nsref)
{
	JNode	   *n = jin_node(p, N_TUPLE, p->t->line);
	bool		is_tuple = false;

	for (;;)
	{
		if (n->kids != NULL)
			jin_expect(p, TK_COMMA);
		if (tuple_end(p))
			break;
		jin_add_kid(n, simple ? parse_primary(p, nsref) : jin_expression(p, with_cond));
		if (p->t->t != TK_COMMA)
			break;
		is_tuple = true;
		n->line = p->t->line;
	}
	if (!is_tuple && n->kids != NULL)
		return n->kids;
	if (!is_tuple && !parens)
	{
		p->j->line = p->t->line;
		jin_fail(p->j, JE_SYNTAX, "Expected an expression, got %s", jin_token_name(p->j, p->t));
	}
	return n;
}

/* ---- operators ---- */

static JNode *
parse_unary(JParse *p, bool with_filter)
{
	int			line = p->t->line;
	JNode	   *n;

	jin_enter(p->j);
	if (p->t->t == TK_SUB || p->t->t == TK_ADD)
	{
		n = jin_node(p, p->t->t == TK_SUB ? N_NEG : N_POS, line);
		p->t++;
		n->a = parse_unary(p, false);
	}
	else
		n = parse_primary(p, false);
	n = parse_postfix(p, n);
	while (with_filter)
	{
		if (p->t->t == TK_PIPE)
			n = jin_filters(p, n, false);
		else if (jin_at_name(p, "is"))
			n = parse_test(p, n);
		else if (p->t->t == TK_LPAREN)
			n = parse_call(p, n);
		else
			break;
	}
	jin_leave(p->j);
	return n;
}

static JNode *
parse_pow(JParse *p)
{
	int			line = p->t->line;
	JNode	   *n = parse_unary(p, true);

	while (jin_skip(p, TK_POW))
	{
		n = binary(p, N_BIN, OP_POW, line, n, parse_unary(p, true));
		line = p->t->line;
	}
	return n;
}

static JNode *
parse_product(JParse *p)
{
	int			line = p->t->line;
	JNode	   *n = parse_pow(p);

	for (;;)
	{
		JOp			op;

		if (p->t->t == TK_MUL)
			op = OP_MUL;
		else if (p->t->t == TK_DIV)
			op = OP_DIV;
		else if (p->t->t == TK_FLOORDIV)
			op = OP_FLOORDIV;
		else if (p->t->t == TK_MOD)
			op = OP_MOD;
		else
			return n;
		p->t++;
		n = binary(p, N_BIN, op, line, n, parse_pow(p));
		line = p->t->line;
	}
}

static JNode *
parse_concat(JParse *p)
{
	int			line = p->t->line;
	JNode	   *first = parse_product(p);
	JNode	   *n;

	if (p->t->t != TK_TILDE)
		return first;
	n = jin_node(p, N_CONCAT, line);
	jin_add_kid(n, first);
	while (jin_skip(p, TK_TILDE))
		jin_add_kid(n, parse_product(p));
	return n;
}

static JNode *
parse_sum(JParse *p)
{
	int			line = p->t->line;
	JNode	   *n = parse_concat(p);

	while (p->t->t == TK_ADD || p->t->t == TK_SUB)
	{
		JOp			op = p->t->t == TK_ADD ? OP_ADD : OP_SUB;

		p->t++;
		n = binary(p, N_BIN, op, line, n, parse_concat(p));
		line = p->t->line;
	}
	return n;
}

/* Consume a comparison operator; return false if there is none. */
static bool
comparison(JParse *p, JOp *op)
{
	static const struct
	{
		JTok		t;
		JOp			op;
	}			map[] = {{TK_EQ, OP_EQ}, {TK_NE, OP_NE}, {TK_LT, OP_LT}, {TK_LE, OP_LE}, {TK_GT, OP_GT},
						 {TK_GE, OP_GE}};

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (jin_skip(p, map[i].t))
		{
			*op = map[i].op;
			return true;
		}
	*op = OP_IN;
	if (jin_skip_name(p, "in"))
		return true;
	if (!jin_at_name(p, "not") || p->t[1].t != TK_NAME || !jin_str_is(p->t[1].s, "in"))
		return false;
	p->t += 2;
	*op = OP_NOTIN;
	return true;
}

static JNode *
parse_compare(JParse *p)
{
	JNode	   *first = parse_sum(p);
	JNode	   *n = NULL;
	int			line = p->t->line;
	JOp			op;

	while (comparison(p, &op))
	{
		JNode	   *operand = jin_node(p, N_OPERAND, line);

		operand->op = op;
		operand->a = parse_sum(p);
		if (n == NULL)
		{
			n = jin_node(p, N_COMPARE, line);
			n->a = first;
		}
		jin_add_kid(n, operand);
		line = p->t->line;
		n->line = line;
	}
	return n != NULL ? n : first;
}

static JNode *
parse_not(JParse *p)
{
	JNode	   *n;

	if (!jin_at_name(p, "not"))
		return parse_compare(p);
	jin_enter(p->j);
	n = jin_node(p, N_NOT, p->t->line);
	p->t++;
	n->a = parse_not(p);
	jin_leave(p->j);
	return n;
}

static JNode *
parse_and(JParse *p)
{
	int			line = p->t->line;
	JNode	   *n = parse_not(p);

	while (jin_skip_name(p, "and"))
	{
		n = binary(p, N_AND, OP_ADD, line, n, parse_not(p));
		line = p->t->line;
	}
	return n;
}

static JNode *
parse_or(JParse *p)
{
	int			line = p->t->line;
	JNode	   *n = parse_and(p);

	while (jin_skip_name(p, "or"))
	{
		n = binary(p, N_OR, OP_ADD, line, n, parse_and(p));
		line = p->t->line;
	}
	return n;
}

JNode *
jin_expression(JParse *p, bool with_cond)
{
	int			line = p->t->line;
	JNode	   *n;

	jin_enter(p->j);
	n = parse_or(p);
	while (with_cond && jin_skip_name(p, "if"))
	{
		JNode	   *cond = jin_node(p, N_COND, line);

		cond->b = n;
		cond->a = parse_or(p);
		if (jin_skip_name(p, "else"))
			cond->c = jin_expression(p, true);
		n = cond;
		line = p->t->line;
	}
	jin_leave(p->j);
	return n;
}

/* ---- targets of assignments ---- */

static void
check_target(JParse *p, const JNode *n)
{
	static const char *const names[] = {
		[N_CONST] = "const",[N_LIST] = "list",[N_DICT] = "dict"
	};

	if (n->kind == N_NAME || n->kind == N_NSREF)
		return;
	p->j->line = n->line;
	if (n->kind != N_TUPLE)
		jin_fail(p->j, JE_SYNTAX, "can't assign to '%s'",
				 n->kind == N_CONST || n->kind == N_LIST || n->kind == N_DICT ? names[n->kind] :
				 "expression");
	for (const JNode *k = n->kids; k != NULL; k = k->next)
		check_target(p, k);
}

JNode *
jin_target(JParse *p, bool nsref)
{
	JNode	   *n = jin_tuple(p, true, true, false, nsref);

	check_target(p, n);
	return n;
}

JNode *
jin_name_target(JParse *p)
{
	JToken	   *t = jin_expect(p, TK_NAME);
	JNode	   *n = jin_node(p, N_NAME, t->line);
	static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};

	n->str = t->s;
	p->j->line = t->line;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (jin_str_is(t->s, reserved[i]))
			jin_fail(p->j, JE_SYNTAX, "can't assign to 'name'");
	return n;
}
