/*
 * format.c
 *	  llm_format(template text, VARIADIC "any"): {0}, {1}, ... become the arguments.
 *
 * Prompts are made from columns.  PostgreSQL's format() would do, but prompts are full of % and use
 * an argument more than once.  {{ and }} stand for braces.  A NULL argument becomes the empty string,
 * as with %s of format().  A placeholder without an argument is an error; an argument without a
 * placeholder is not.
 *
 * The function is STABLE, since the text form of a value may depend on settings (dates).
 *
 * Tests: tests/sql/18_choose.sql.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "pg/call/loglikelihood.h"

PG_FUNCTION_INFO_V1(llm_format);

static ErrorData *
bad_template(char *message, const char *hint)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_INVALID_PARAMETER_VALUE;
	e->message = message;
	e->hint = hint ? pstrdup(hint) : NULL;
	e->assoc_context = CurrentMemoryContext;
	return e;
}

/*
 * Parse a placeholder; s is after the brace.  Return its number, -1 if it is none; *len: its bytes,
 * including the closing brace.
 */
static int
placeholder(const char *s, size_t n, size_t *len)
{
	int			number = 0;
	size_t		i = 0;

	while (i < n && i < 6 && s[i] >= '0' && s[i] <= '9')
		number = number * 10 + (s[i++] - '0');
	if (i == 0 || i == n || s[i] != '}')
		return -1;
	*len = i + 1;
	return number;
}

ErrorData *
format_template(StringInfo out, const char *template, size_t n, text *const *args, int n_args)
{
	for (size_t i = 0; i < n;)
	{
		char		c = template[i++];
		size_t		len;
		int			number;

		if (c != '{' && c != '}')
		{
			appendStringInfoChar(out, c);
			continue;
		}
		if (i < n && template[i] == c)
		{
			appendStringInfoChar(out, c);
			i++;
			continue;
		}
		number = c == '{' ? placeholder(template + i, n - i, &len) : -1;
		if (number < 0)
			return bad_template(psprintf("template has a \"%c\" that belongs to no placeholder", c),
								"Placeholders are {0}, {1}, ...; write {{ and }} for braces.");
		if (number >= n_args)
			return bad_template(psprintf(ngettext("template has the placeholder {%d}, but there is %d "
												  "argument",
													"template has the placeholder {%d}, but there are %d "
													"arguments", n_args), number, n_args),
								"The first argument is {0}.");
		if (args[number] != NULL)
			appendBinaryStringInfo(out, VARDATA_ANY(args[number]), VARSIZE_ANY_EXHDR(args[number]));
		i += len;
	}
	return NULL;
}

/* The output function of an argument; kept between calls. */
typedef struct Printer
{
	Oid			type;
	FmgrInfo	out;
} Printer;

static text *
print(FunctionCallInfo fcinfo, int i, int n, Oid type, Datum value)
{
	Printer    *p = fcinfo->flinfo->fn_extra;

	if (type == TEXTOID || type == VARCHAROID)
		return DatumGetTextPP(value);
	if (p == NULL)
		p = fcinfo->flinfo->fn_extra = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(Printer) * n);
	if (p[i].type != type)
	{
		Oid			func;
		bool		varlena;

		getTypeOutputInfo(type, &func, &varlena);
		fmgr_info_cxt(func, &p[i].out, fcinfo->flinfo->fn_mcxt);
		p[i].type = type;
	}
	return cstring_to_text(OutputFunctionCall(&p[i].out, value));
}

/* Return the texts of a VARIADIC array's elements, which share one printer. */
static text **
array_args(FunctionCallInfo fcinfo, int *n)
{
	ArrayType  *a = PG_GETARG_ARRAYTYPE_P(1);
	Oid			type = ARR_ELEMTYPE(a);
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	text	  **args;

	get_typlenbyvalalign(type, &len, &byval, &align);
	deconstruct_array(a, type, len, byval, align, &values, &nulls, n);
	args = palloc(sizeof(text *) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		args[i] = nulls[i] ? NULL : print(fcinfo, 0, 1, type, values[i]);
	return args;
}

Datum
llm_format(PG_FUNCTION_ARGS)
{
	int			n = PG_NARGS() - 1;
	StringInfoData out;
	text	   *template;
	text	  **args;
	ErrorData  *bad;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	template = PG_GETARG_TEXT_PP(0);
	if (n == 1 && get_fn_expr_variadic(fcinfo->flinfo))
	{
		n = 0;
		args = PG_ARGISNULL(1) ? NULL : array_args(fcinfo, &n);
	}
	else
	{
		args = palloc(sizeof(text *) * Max(n, 1));
		for (int i = 0; i < n; i++)
		{
			Oid			type = get_fn_expr_argtype(fcinfo->flinfo, i + 1);

			if (!OidIsValid(type))
				elog(ERROR, "could not determine the type of argument %d", i + 1);
			args[i] = PG_ARGISNULL(i + 1) ? NULL : print(fcinfo, i, n, type, PG_GETARG_DATUM(i + 1));
		}
	}
	initStringInfo(&out);
	bad = format_template(&out, VARDATA_ANY(template), VARSIZE_ANY_EXHDR(template), args, n);
	if (bad != NULL)
		ThrowErrorData(bad);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
