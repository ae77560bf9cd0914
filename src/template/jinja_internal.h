/*
 * jinja_internal.h
 *	  Values, nodes and runs of the Jinja interpreter; included by src/template/jinja*.c and
 *	  chat_template.c only.
 *
 * Memory: everything belongs to an arena (a run's or a template's) and is freed with it.  Errors:
 * jin_fail() does not return; it jumps to the function that entered the interpreter (jin_guard()), which
 * is possible because no function owns anything outside of an arena.  Strings, lists and dicts never
 * change once another value can see them; namespaces do.
 */
#ifndef VLLM_TEMPLATE_JINJA_INTERNAL_H
#define VLLM_TEMPLATE_JINJA_INTERNAL_H

#include <setjmp.h>

#include "template/jinja.h"

typedef enum JType
{
	JT_UNDEFINED,
	JT_NONE,
	JT_BOOL,
	JT_INT,
	JT_FLOAT,
	JT_STR,
	JT_LIST,
	JT_TUPLE,
	JT_DICT,
	JT_RANGE,
	JT_NAMESPACE,
	JT_MACRO,
	JT_LOOP,
	JT_GLOBAL,					/* range, dict, ...: i = JGlobal */
	JT_METHOD,					/* bound: m */
	JT_VIEW,					/* dict.keys(), .values(), .items() */
	JT_ITER,					/* a generator or iterator: can be read once */
	JT_CYCLER,
	JT_JOINER
} JType;

typedef struct JStr
{
	const char *s;				/* UTF-8, valid; s[n] is not NUL */
	size_t		n;
	size_t		chars;			/* SIZE_MAX = not counted yet */
	const uint8_t *mask;		/* [n] marks, NULL: all bytes have the mark `input` */
	bool		input;
	bool		markup;			/* markupsafe's Markup: strings added to it are escaped */
} JStr;

typedef struct JVal JVal;
typedef struct JList JList;
typedef struct JDict JDict;
typedef struct JRange JRange;
typedef struct JUndef JUndef;
typedef struct JMacro JMacro;
typedef struct JLoop JLoop;
typedef struct JMethod JMethod;
typedef struct JView JView;
typedef struct JIter JIter;
typedef struct JCycle JCycle;
typedef struct JNode JNode;
typedef struct JScope JScope;
typedef struct JSlab JSlab;
typedef struct JToken JToken;

struct JVal
{
	JType		t;
	union
	{
		bool		b;
		int64_t		i;
		double		f;
		JStr	   *s;
		JList	   *l;			/* list, tuple */
		JDict	   *d;			/* dict; attributes of a namespace */
		JRange	   *r;
		JUndef	   *u;
		JMacro	   *macro;
		JLoop	   *loop;
		JMethod    *m;
		JView	   *view;
		JIter	   *it;
		JCycle	   *c;			/* cycler; joiner: items[0] is the separator */
	};
};

struct JList
{
	JVal	   *v;
	size_t		n;
	size_t		cap;
	bool		group;			/* tuple of groupby: has .grouper and .list */
};

typedef struct JPair
{
	JVal		k;
	JVal		v;
	uint64_t	hash;
} JPair;

struct JDict
{
	JPair	   *e;				/* in order of insertion */
	size_t		n;
	size_t		cap;
	uint32_t   *index;			/* open addressing, entry + 1; NULL while small */
	size_t		mask;
};

struct JRange
{
	int64_t		start;
	int64_t		stop;
	int64_t		step;
	int64_t		n;
};

struct JUndef
{
	const char *hint;			/* whole message, or NULL */
	JVal	   *obj;			/* NULL: a variable */
	JVal		name;
	bool		unsafe;			/* SecurityError instead of UndefinedError */
};

struct JMacro
{
	const JNode *node;			/* N_MACRO or N_CALL */
	JScope	   *scope;			/* where it was defined */
};

struct JMethod
{
	JVal		self;
	const char *name;
};

typedef enum JViewKind
{
	JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS
} JViewKind;

struct JView
{
	JDict	   *d;
	JViewKind	kind;
};

struct JCycle
{
	JVal	   *items;
	size_t		n;
	size_t		at;
};

/* An iteration: anything that can be iterated, and the current position. */
typedef struct JSeq
{
	JVal		v;
	size_t		i;				/* index of the element, or byte of a string */
} JSeq;

typedef enum JIterKind
{
	JI_SEQ,						/* iter(x) */
	JI_REVERSED,
	JI_MAP,						/* map, with fn */
	JI_SELECT,					/* select, reject, selectattr, rejectattr */
	JI_UNIQUE,
	JI_FOR_IF					/* for ... if */
} JIterKind;

typedef struct JArgs
{
	JVal	   *pos;
	size_t		n_pos;
	JStr	  **names;
	JVal	   *kw;
	size_t		n_kw;
} JArgs;

struct JIter
{
	JIterKind	kind;
	JSeq		seq;
	bool		started;		/* the iterator has been initialized */
	bool		empty;			/* the value was false: there are no items */
	bool		negate;			/* reject */
	bool		by_attr;
	JVal	   *path;			/* attribute path, NULL: the item itself */
	size_t		n_path;
	JVal		dflt;			/* map(default=): JT_UNDEFINED = none */
	const char *fn;				/* filter or test, NULL: truth */
	JArgs		args;
	JDict	   *seen;			/* unique */
	bool		fold;			/* unique: ignore case */
	const JNode *node;			/* for ... if: target and test */
	JScope	   *scope;
};

struct JLoop
{
	JSeq		seq;			/* the sequence that the loop iterates over */
	int64_t		index0;
	int64_t		length;			/* -1 = not known yet */
	JVal		prev;
	JVal		cur;
	JVal		next;
	bool		has_next;		/* next has been fetched */
	bool		at_end;			/* the iterator has no further value */
	int			depth0;
	const JNode *node;			/* for recursion */
	JScope	   *scope;
	bool		recursive;
	JList	   *changed;		/* arguments of the last changed() */
};

typedef struct JVar
{
	struct JVar *next;
	const JStr *name;
	JVal		v;
} JVar;

struct JScope
{
	JScope	   *up;
	JVar	   *vars;
};

typedef enum JNodeKind
{
	/* statements */
	N_DATA,						/* str */
	N_OUTPUT,					/* kids: expressions */
	N_IF,						/* a test, b body, c else (an N_BODY or a further N_IF) */
	N_FOR,						/* a target, b iterable, c body, d else, x test; flag: recursive */
	N_SET,						/* a target, b value */
	N_SETBLOCK,					/* a target, b filter chain or NULL, c body */
	N_MACRO,					/* str name; kids: N_PARAM; c body; flags MACRO_* */
	N_CALL,						/* call block: a N_CALLEXPR; kids: N_PARAM; c body */
	N_FILTERBLOCK,				/* b filter chain, c body */
	N_WITH,						/* kids: N_SET (targets and values), c body */
	N_BODY,						/* kids: statements */
	N_SCOPED,					/* c body in its own scope (block, generation) */
	N_BREAK,
	N_CONTINUE,
	N_REFUSED,					/* str: what; raises an error when it is reached */
	/* expressions */
	N_CONST,					/* val */
	N_NAME,						/* str */
	N_NSREF,					/* str name, val attribute: target only */
	N_TUPLE,					/* kids */
	N_LIST,						/* kids */
	N_DICT,						/* kids: key, value, key, ... */
	N_COND,						/* a test, b then, c else or NULL */
	N_OR, N_AND,				/* a, b */
	N_NOT,						/* a */
	N_COMPARE,					/* a; kids: N_OPERAND */
	N_OPERAND,					/* op, a */
	N_BIN,						/* op, a, b */
	N_CONCAT,					/* kids */
	N_NEG, N_POS,				/* a */
	N_ATTR,						/* a object, str */
	N_ITEM,						/* a object, b key */
	N_SLICE,					/* a, b, c, each may be NULL */
	N_CALLEXPR,					/* a callee; kids: arguments */
	N_FILTER,					/* a value or NULL (the block's), str; kids: arguments */
	N_TEST,						/* a value, str; kids: arguments */
	N_KEYWORD,					/* argument: str, a */
	N_STARARG,					/* argument: a */
	N_STARSTAR,					/* argument: a */
	N_PARAM						/* str, a default or NULL */
} JNodeKind;

typedef enum JOp
{
	OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW,
	OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOTIN
} JOp;

#define MACRO_CALLER	1		/* the body reads `caller` */
#define MACRO_KWARGS	2
#define MACRO_VARARGS	4

struct JNode
{
	JNodeKind	kind;
	JOp			op;
	int			line;
	int			flags;
	JNode	   *a;
	JNode	   *b;
	JNode	   *c;
	JNode	   *d;
	JNode	   *x;
	JNode	   *kids;			/* first */
	JNode	   *next;			/* sibling */
	JStr	   *str;
	JVal		val;
	JList	   *undef;			/* names undefined at the beginning of the scope that this node opens */
	JList	   *undef_else;		/* names undefined at the beginning of a loop's else */
};

struct JinTemplate
{
	JSlab	   *slabs;
	JNode	   *body;
	JinUses		uses;
	const char *source;
	size_t		source_len;
};

/* A growing string.  marks is NULL while all bytes have the mark `input`. */
typedef struct JBuild
{
	char	   *s;
	uint8_t    *marks;
	size_t		n;
	size_t		cap;
	bool		input;
} JBuild;

struct Jin
{
	JSlab	   *slabs;
	char	   *at;				/* free space in the newest slab */
	size_t		left;
	size_t		used;			/* bytes in all slabs */
	JinLimits	limits;
	int64_t		steps;			/* steps left */
	int			depth;
	int			nesting;		/* nesting of C functions that recurse over values and nodes */
	int			line;			/* line of the current node */
	jmp_buf		escape;
	bool		guarded;
	Err		   *err;
	const struct tm *now;
	struct tm	now_tm;
	JScope	   *globals;
	JDict	   *vars;
	JBuild	   *out;			/* current output */
	Err			lex_err;		/* raised when the parser reaches it */
	JToken	  **parsing;		/* the parser's current token, NULL = not parsing */
	int			loop_exit;		/* 0, or N_BREAK, N_CONTINUE while leaving a body */
	const JinTemplate *tpl;
};

#define JIN_MAX_NESTING	2000
#define JIN_PARSE_NESTING 400	/* lower while parsing: the parser's recursion takes more stack */

/* ---- jinja_value.c ---- */

/* The kinds of errors, named as in jinja2 and Python. */
typedef enum JErr
{
	JE_SYNTAX, JE_RUNTIME, JE_UNDEFINED, JE_SECURITY, JE_RAISED, JE_TYPE, JE_VALUE, JE_KEY, JE_INDEX,
	JE_ZERODIV, JE_OVERFLOW, JE_LIMIT, JE_REFUSED
} JErr;

void		jin_fail(Jin *j, JErr kind, const char *fmt,...) __attribute__((format(printf, 3, 4), noreturn));
void		jin_fail_undefined(Jin *j, JVal v) __attribute__((noreturn));
void	   *jin_alloc(Jin *j, size_t size);
void	   *jin_zalloc(Jin *j, size_t size);
/* Count n steps; fails when none are left. */
void		jin_step(Jin *j, size_t n);
/*
 * jin_scan() counts the steps of a loop over n bytes, which is slower than a copy; jin_look_up() those
 * of a loop that looks up the class of each character.
 */
void		jin_scan(Jin *j, size_t n);
void		jin_look_up(Jin *j, size_t n);
void		jin_enter(Jin *j);	/* one level of recursion; call jin_leave() afterwards */
void		jin_leave(Jin *j);
/* Run fn(j, arg); return false with *e set if it failed. */
bool		jin_guard(Jin *j, void (*fn) (Jin *j, void *arg), void *arg, Err *e);

JStr	   *jin_str(Jin *j, const char *s, size_t n, bool input);	/* copies */
JStr	   *jin_str_sub(Jin *j, const JStr *s, size_t from, size_t n);	/* a substring in bytes; shares
																		 * memory */
JStr	   *jin_str_join2(Jin *j, const JStr *a, const JStr *b);
JStr	   *jin_markup(Jin *j, const JStr *s, bool markup);	/* s with or without the flag */
size_t		jin_str_chars(const JStr *s);
/* byte offset of character i, clamped to the end */
size_t		jin_str_at(Jin *j, const JStr *s, size_t i);
bool		jin_str_eq(const JStr *a, const JStr *b);
bool		jin_str_is(const JStr *s, const char *c);
int			jin_str_cmp(const JStr *a, const JStr *b);
/* byte offset of needle in s at or after `from`, SIZE_MAX if none */
size_t		jin_str_find(Jin *j, const JStr *s, const JStr *needle, size_t from);

void		jin_build_room(Jin *j, JBuild *b, size_t n);
void		jin_build_add(Jin *j, JBuild *b, const char *s, size_t n, bool input);
void		jin_build_str(Jin *j, JBuild *b, const JStr *s);
void		jin_build_sub(Jin *j, JBuild *b, const JStr *s, size_t from, size_t n);
void		jin_build_c(Jin *j, JBuild *b, const char *s);	/* with the template's mark */
JStr	   *jin_build_done(Jin *j, JBuild *b);

JVal		jin_none(void);
JVal		jin_bool(bool b);
JVal		jin_int(int64_t i);
JVal		jin_float(double f);
JVal		jin_sval(JStr *s);
JVal		jin_cstr(Jin *j, const char *s);
JVal		jin_missing(Jin *j, const JStr *name);	/* an undefined variable */
JVal		jin_no_item(Jin *j, JVal obj, JVal name, bool unsafe);
JVal		jin_undef_hint(Jin *j, const char *hint);

JList	   *jin_list(Jin *j, size_t cap);
void		jin_list_add(Jin *j, JList *l, JVal v);
JVal		jin_lval(JList *l, JType t);
JVal		jin_pair(Jin *j, JVal a, JVal b);	/* a tuple */
JDict	   *jin_dict(Jin *j);
JPair	   *jin_dict_find(Jin *j, const JDict *d, JVal k);
void		jin_dict_put(Jin *j, JDict *d, JVal k, JVal v);
JVal	   *jin_dict_cget(Jin *j, const JDict *d, const char *k);	/* NULL if absent */
void		jin_dict_cput(Jin *j, JDict *d, const char *k, JVal v);

const char *jin_type(JVal v);	/* Python's name */
bool		jin_truth(Jin *j, JVal v);
bool		jin_equal(Jin *j, JVal a, JVal b);
bool		jin_less(Jin *j, JVal a, JVal b, JOp op);	/* any of OP_LT .. OP_GE */
void		jin_repr(Jin *j, JBuild *b, JVal v);
void		jin_print(Jin *j, JBuild *b, JVal v);	/* str(v) */
JStr	   *jin_to_str(Jin *j, JVal v);
/* for messages: repr(), truncated, in the arena */
const char *jin_repr_c(Jin *j, JVal v);

/* ---- jinja_iter.c ---- */
JSeq		jin_iter(Jin *j, JVal v);	/* fails if v can't be iterated */
bool		jin_can_iter(JVal v);
int64_t		jin_range_at(const JRange *r, int64_t i);
bool		jin_next(Jin *j, JSeq *s, JVal *out);
JList	   *jin_to_list(Jin *j, JVal v);
int64_t		jin_len(Jin *j, JVal v, bool fail);	/* -1 if it has none */

/* ---- jinja_ops.c ---- */
JVal		jin_binary(Jin *j, JOp op, JVal a, JVal b);
JVal		jin_negate(Jin *j, JVal v, bool minus);
bool		jin_contains(Jin *j, JVal seq, JVal v);
JVal		jin_get_item(Jin *j, JVal obj, JVal key);
JVal		jin_get_attr(Jin *j, JVal obj, const JStr *name);
JVal		jin_attr_only(Jin *j, JVal obj, const JStr *name);	/* without items */
JVal		jin_slice(Jin *j, JVal obj, JVal from, JVal to, JVal step);
JVal		jin_attribute_path(Jin *j, JVal obj, const JVal *path, size_t n, JVal dflt);
void		jin_parse_path(Jin *j, JVal attr, JVal **path, size_t *n);

/* ---- jinja_str.c, jinja_method.c ---- */
bool		jin_has_method(JVal self, const char *name, bool *refused);
JVal		jin_call_method(Jin *j, const JMethod *m, const JArgs *a);
JVal		jin_str_method(Jin *j, JStr *s, const char *name, const JArgs *a);
JStr	   *jin_escape(Jin *j, const JStr *s);	/* for HTML; markup stays unchanged */
JStr	   *jin_upper(Jin *j, const JStr *s);
JStr	   *jin_lower(Jin *j, const JStr *s);
JStr	   *jin_capitalize(Jin *j, const JStr *s);
JStr	   *jin_strip(Jin *j, JStr *s, const JStr *chars, int sides);	/* 1 left, 2 right */
JStr	   *jin_replace(Jin *j, JStr *s, const JStr *from, const JStr *to, int64_t count);
JStr	   *jin_pad(Jin *j, JStr *s, int64_t width, const JStr *fill, int where);	/* < ^ > */
JList	   *jin_splitlines(Jin *j, JStr *s, bool keep);
bool		jin_is_space(uint32_t cp);
bool		jin_is_case(Jin *j, const JStr *s, bool upper);

/* ---- jinja_format.c ---- */
void		jin_float_repr(Jin *j, char *to, size_t size, double f);
JStr	   *jin_percent(Jin *j, JStr *fmt, JVal args);
JStr	   *jin_format(Jin *j, JStr *fmt, const JArgs *a);
JStr	   *jin_format_map(Jin *j, JStr *fmt, JVal map);

/* ---- jinja_json.c ---- */
JVal		jin_json_read(Jin *j, const char *s, size_t n, bool input);
JStr	   *jin_json_write(Jin *j, JVal v, const JArgs *a);	/* the filter's arguments */

/* ---- jinja_call.c: arguments by position or name ---- */
/* names: NULL-terminated; out[i] stays unchanged if the argument is absent */
void		jin_args(Jin *j, const char *fn, const JArgs *a, const char *const *names, size_t required,
					 JVal *out);
int64_t		jin_arg_int(Jin *j, JVal v);
JStr	   *jin_arg_str(Jin *j, JVal v);

/* ---- jinja_filter.c, jinja_test.c ---- */
typedef JVal (*JFilterFn) (Jin *j, JVal v, const JArgs *a);
typedef bool (*JTestFn) (Jin *j, JVal v, const JArgs *a);
typedef struct JFilter
{
	const char *name;
	JFilterFn	fn;				/* NULL: refused */
} JFilter;
const JFilter *jin_filter(const JStr *name);
JTestFn		jin_test(const JStr *name);
JVal		jin_apply_filter(Jin *j, const JStr *name, JVal v, const JArgs *a);
bool		jin_apply_test(Jin *j, const JStr *name, JVal v, const JArgs *a);
/* sort(), dictsort(), groupby(), min(): stable, by keys */
void		jin_sort(Jin *j, JVal *v, JVal *keys, size_t n, bool reverse);
JVal		jin_fold(Jin *j, JVal v);	/* strings converted to ignore case */

/* ---- jinja_scope.c ---- */
void		jin_find_scopes(Jin *j, JNode *body);
void		jin_undefine(Jin *j, JScope *sc, const JList *names);

/* ---- jinja_lex.c ---- */
typedef enum JTok
{
	TK_EOF, TK_ERROR, TK_DATA, TK_VAR_BEGIN, TK_VAR_END, TK_BLOCK_BEGIN, TK_BLOCK_END,
	TK_NAME, TK_STR, TK_INT, TK_FLOAT,
	TK_ADD, TK_SUB, TK_DIV, TK_FLOORDIV, TK_MUL, TK_MOD, TK_POW, TK_TILDE,
	TK_LBRACKET, TK_RBRACKET, TK_LPAREN, TK_RPAREN, TK_LBRACE, TK_RBRACE,
	TK_EQ, TK_NE, TK_GT, TK_GE, TK_LT, TK_LE, TK_ASSIGN, TK_DOT, TK_COLON, TK_PIPE, TK_COMMA, TK_SEMICOLON
} JTok;
struct JToken
{
	JTok		t;
	int			line;
	JStr	   *s;				/* DATA, NAME, STR */
	int64_t		i;
	double		f;
};
/* The list ends with TK_EOF, or with TK_ERROR: then the error is in j->lex_err. */
JToken	   *jin_lex(Jin *j, const char *s, size_t n);
const char *jin_token_name(Jin *j, const JToken *t);
const char *jin_tok_name(JTok t);

/* ---- jinja_parse.c, jinja_expr.c, jinja_eval.c, jinja_call.c ---- */
typedef struct JParse
{
	Jin		   *j;
	JToken	   *t;				/* current */
	const JNode *inner;			/* innermost open statement, for messages */
	int			loops;			/* open for loops: break is allowed here */
	int			macro_names;	/* MACRO_* read in the macro being parsed */
} JParse;
JNode	   *jin_node(JParse *p, JNodeKind kind, int line);
void		jin_add_kid(JNode *n, JNode *kid);
bool		jin_at_name(const JParse *p, const char *name);
bool		jin_skip_name(JParse *p, const char *name);
bool		jin_skip(JParse *p, JTok t);
JToken	   *jin_expect(JParse *p, JTok t);
JNode	   *jin_expression(JParse *p, bool with_cond);
JNode	   *jin_tuple(JParse *p, bool simple, bool with_cond, bool parens, bool nsref);
JNode	   *jin_target(JParse *p, bool nsref);
JNode	   *jin_name_target(JParse *p);
JNode	   *jin_filters(JParse *p, JNode *value, bool inline_start);
JVal		jin_eval(Jin *j, const JNode *n, JScope *sc);
void		jin_exec(Jin *j, const JNode *n, JScope *sc);
JScope	   *jin_scope(Jin *j, JScope *up);
void		jin_assign(Jin *j, const JNode *target, JVal v, JScope *sc);
void		jin_let(Jin *j, JScope *sc, const JStr *name, JVal v);
JVal		jin_call(Jin *j, JVal fn, const JArgs *a);
JVal		jin_loop_attr(Jin *j, JLoop *l, const JStr *name);
JVal		jin_run_loop(Jin *j, const JNode *n, JSeq seq, int64_t len, JScope *sc, int depth0);
JVal		jin_global(Jin *j, const JStr *name, bool *found);

#endif
