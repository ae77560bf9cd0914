/*
 * error.c
 *	  Errors in the format of the REST interfaces: a status, a type, a body.
 *
 * The SQLSTATE decides, by src/ipc/error_status.def.  The detail may name a parameter
 * ("parameter=NAME").
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include "server/api/api_internal.h"

#include <string.h>

typedef struct ApiErrorKind
{
	const char *sqlstate;		/* or a prefix of it */
	int			status;
	const char *type;			/* OpenAI's */
	const char *anthropic;
} ApiErrorKind;

/* The first row that matches applies. */
static const ApiErrorKind kinds[] = {
#define ERROR_STATUS(sqlstate, status, openai, anthropic) {sqlstate, status, openai, anthropic},
#include "ipc/error_status.def"
#undef ERROR_STATUS
	{"", 500, "InternalServerError", "api_error"}
};

static const ApiErrorKind *
kind_of(const ApiError *e)
{
	const ApiErrorKind *k = kinds;

	while (strncmp(k->sqlstate, e->sqlstate.s != NULL ? e->sqlstate.s : "", strlen(k->sqlstate)) != 0)
		k++;
	return k;
}

int
api_error_status(const ApiError *e)
{
	return kind_of(e)->status;
}

/* Return NAME of "parameter=NAME" in the detail. */
static StrView
param_of(const ApiError *e)
{
	static const char key[] = "parameter=";
	const char *at = e->detail.n > 0 ? memmem(e->detail.s, e->detail.n, key, strlen(key)) : NULL;
	StrView		t = {0};

	if (at == NULL)
		return t;
	t.s = at + strlen(key);
	while (t.s + t.n < e->detail.s + e->detail.n && strchr(" ,;:\n", t.s[t.n]) == NULL)
		t.n++;
	return t;
}

/* Append a sentence to the message. */
static void
add_sentence(Buf *text, StrView t)
{
	buf_addstr(text, text->len > 0 && text->data[text->len - 1] == '.' ? " " : ". ");
	buf_add(text, t.s, t.n);
}

/*
 * Write the message with the hint; and with the detail, if the error is the caller's fault and the
 * detail is more than the parameter.
 */
static void
write_message(JsonOut *j, const ApiError *e)
{
	Buf			text = {0};

	buf_add(&text, e->message.s, e->message.n);
	if (e->detail.n > 0 && api_error_status(e) < 500 && param_of(e).s == NULL)
		add_sentence(&text, e->detail);
	if (e->hint.n > 0)
		add_sentence(&text, e->hint);
	json_key(j, "message");
	json_str(j, text.data != NULL ? text.data : "", text.len);
	buf_free(&text);
}

void
api_error_body(const ApiError *e, bool anthropic, Buf *out)
{
	const ApiErrorKind *k = kind_of(e);
	JsonOut		j = {.b = out};
	StrView		param = param_of(e);

	json_open(&j, '{');
	if (anthropic)
		json_key_cstr(&j, "type", "error");
	json_key(&j, "error");
	json_open(&j, '{');
	if (anthropic)
	{
		json_key_cstr(&j, "type", k->anthropic);
		write_message(&j, e);
	}
	else
	{
		write_message(&j, e);
		json_key_cstr(&j, "type", k->type);
		json_key(&j, "param");
		if (param.s != NULL)
			json_str(&j, param.s, param.n);
		else
			json_null(&j);
		json_key_int(&j, "code", k->status);
	}
	json_close(&j, '}');
	json_close(&j, '}');
}

static StrView
text_of(const char *s)
{
	return (StrView) {s, strlen(s)};
}

void
api_error_read(ApiError *out, const char *fields, size_t n)
{
	WireIn		in = {.p = fields,.end = fields + n};
	WireField	f;

	memset(out, 0, sizeof(*out));
	out->sqlstate = text_of("XX000");
	while (wire_next(&in, &f) > 0)
	{
		if (f.tag == WTAG_SQLSTATE && f.n == 5)
			out->sqlstate = (StrView) {f.s, f.n};
		else if (f.tag == WTAG_MESSAGE)
			out->message = (StrView) {f.s, f.n};
		else if (f.tag == WTAG_DETAIL)
			out->detail = (StrView) {f.s, f.n};
		else if (f.tag == WTAG_HINT)
			out->hint = (StrView) {f.s, f.n};
	}
}
