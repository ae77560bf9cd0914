/*
 * decode_error.c
 *	  Turns an endpoint's error response into the error that the user sees (decode.h).
 *
 *	{"error": {"message": ..., "code": ...}}	OpenAI, vLLM, llama.cpp, Anthropic
 *	{"error": "..."}, {"message": "..."}		others
 *	{"detail": "..."}, {"detail": [{"msg": ..., "loc": [...]}, ...]}	FastAPI
 *
 * Or text of any kind; an HTML page is dropped.  The endpoint's text is untrusted: the secret is masked
 * in all of it before it is cut, also where the secret has JSON's escapes; control characters become
 * spaces, and invalid UTF-8 becomes a question mark.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply_more.c.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_reader.h"
#include "base/json/json_writer.h"
#include "remote/codec/decode_internal.h"

#define MAX_READ	65536		/* bytes of an error body that are read */
#define MAX_MSG		400			/* bytes of its message in the detail */
#define MASK		"***"
#define MAX_ESCAPE	16			/* backslashes before one character */
/* depth of errors within errors, since each level reads the inner one again */
#define MAX_NESTED	4

/* ---- the endpoint's text ---- */

/* Return the bytes of the character whose first byte is c; 0 = invalid. */
static size_t
char_bytes(unsigned char c)
{
	return c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 :
		0;
}

void
reply_clean(Buf *out, const char *s, size_t n, size_t max)
{
	size_t		clean = 0;

	for (size_t i = 0; i < n;)
	{
		unsigned char c = (unsigned char) s[i];
		size_t		len = char_bytes(c);
		bool		bad = len == 0 || len > n - i;

		for (size_t k = 1; !bad && k < len; k++)
			bad = ((unsigned char) s[i + k] & 0xC0) != 0x80;
		bad = bad || (c == 0xE0 && (unsigned char) s[i + 1] < 0xA0) ||
			(c == 0xED && (unsigned char) s[i + 1] > 0x9F) ||
			(c == 0xF0 && (unsigned char) s[i + 1] < 0x90) || (c == 0xF4 && (unsigned char) s[i + 1] > 0x8F);
		len = bad ? 1 : len;
		if (clean + len > max)
		{
			buf_addstr(out, "...");
			return;
		}
		if (bad)
			buf_addc(out, '?');
		else if (c < ' ' || c == 0x7F || (c == 0xC2 && (unsigned char) s[i + 1] < 0xA0))
			buf_addc(out, ' ');
		else
			buf_add(out, s + i, len);
		clean += len;
		i += len;
	}
}

/*
 * Return the number of bytes at s that spell the secret, plainly or with JSON's escapes, even escaped
 * several times.  0: the secret is not there.
 */
static size_t
secret_at(const char *s, size_t n, StrView secret)
{
	size_t		at = 0;

	for (size_t k = 0; k < secret.n; k++)
	{
		size_t		from = at;

		while (at < n && at - from < MAX_ESCAPE && s[at] == '\\')
			at++;
		if (secret.s[k] == '\\' && at > from)
			while (k + 1 < secret.n && secret.s[k + 1] == '\\')
				k++;
		else if (at < n && s[at] == secret.s[k])
			at++;
		else if (at > from && at < n && s[at] == 'u' &&
				 json_hex4(s + at + 1, s + n) == (unsigned char) secret.s[k])
			at += 5;
		else
			return 0;
	}
	return at;
}

/* Append s with MASK instead of each occurrence of the secret.  Text beyond what the detail shows is cut. */
static void
add_masked(Buf *out, const char *s, size_t n, StrView secret)
{
	while (n > 0 && out->len < MAX_MSG + 8)
	{
		size_t		len = secret_at(s, n, secret);

		if (len > 0)
			buf_addstr(out, MASK);
		else
			buf_addc(out, *s);
		len = len > 0 ? len : 1;
		s += len;
		n -= len;
	}
}

/* Append FastAPI's list of validation errors. */
static void
add_list(StrView v, Buf *out)
{
	static const char *const names[] = {"msg", "loc"};
	JsonMembers m;
	StrView		item;
	StrView		f[2];

	if (!json_elements(&m, v.s, v.n))
		return;
	while (json_element(&m, &item) > 0)
	{
		json_fields(item, names, 2, f);
		if (out->len > 0)
			buf_addstr(out, "; ");
		(void) json_text(f[0], out);
		if (f[1].s != NULL)
		{
			buf_addstr(out, " at ");
			buf_add(out, f[1].s, f[1].n);
		}
	}
}

/*
 * Append the message of v, an error object or the body that contains one, at nesting `depth`.  A code
 * that is an HTTP status goes to *status.
 */
static void
add_message(StrView v, int depth, Buf *out, int *status)
{
	static const char *const names[] = {"error", "message", "detail", "code", "error_description", "msg",
										"type"};
	StrView		f[7];
	int64_t		code;

	if (json_kind(v) == '"')
	{
		(void) json_text(v, out);
		return;
	}
	if (!json_fields(v, names, 7, f))
		return;
	if (json_is(f[6], "NotImplementedError"))
		*status = 501;			/* whatever the code: a server that wants no retries sends 400 */
	else if (json_whole(f[3], 100, 599, &code))
		*status = (int) code;
	else if (json_kind(f[3]) == '"' && f[3].n == 5 && atoi(f[3].s + 1) >= 100 && atoi(f[3].s + 1) <= 599)
		*status = atoi(f[3].s + 1);
	if (json_kind(f[0]) == '{' && f[1].s == NULL)
	{
		if (depth < MAX_NESTED)
			add_message(f[0], depth + 1, out, status);
	}
	else if (json_kind(f[2]) == '[')
		add_list(f[2], out);
	else
		(void) json_text(f[1].s != NULL ? f[1] : f[2].s != NULL ? f[2] : f[4].s != NULL ? f[4] :
						 f[5].s != NULL ? f[5] : f[0], out);
	/* use the code if there is no text */
	if (out->len == 0)
		(void) json_text(f[3], out);
}

static bool
says(const Buf *text, const char *words)
{
	return text->len > 0 && strcasestr(text->data, words) != NULL;
}

/* Does the endpoint's message say that the prompt is too long? */
static bool
says_too_long(const Buf *text)
{
	return says(text, "context length") || says(text, "context_length") || says(text, "context window") ||
		says(text, "context size") || says(text, "maximum model length") || says(text, "max_model_len") ||
		says(text, "too long") || says(text, "too many tokens") || says(text, "exceed_context");
}

/* ---- classification ---- */

static void
set_by_status(int status, const Buf *said, const ROptions *o, StrView secret, Err *e)
{
	const char *name = o->name;

	if (status == 401 || status == 407)
	{
		err_set(e, ERR_AUTH, secret.n > 0 ? "the endpoint of model \"%.64s\" refused the secret" :
				"the endpoint of model \"%.64s\" wants a secret", name);
		err_hint(e, "llm_set_secret('%.64s', ...) sets it.", name);
	}
	else if (status == 403)
		err_set(e, ERR_FORBIDDEN, "the endpoint of model \"%.64s\" forbids the request", name);
	else if (status == 404)
	{
		err_set(e, ERR_NOT_FOUND, "the endpoint of model \"%.64s\" has no such path or model", name);
		err_hint(e, "The url must end before the path of a function (usually in /v1), and option \"model\" "
					"must be the model's name at the endpoint, now \"%.200s\".", o->model);
	}
	else if (status == 413 || ((status == 400 || status == 422) && says_too_long(said)))
		err_set(e, ERR_TOO_LONG, "the request is too long for the endpoint of model \"%.64s\"", name);
	else if (status == 400 || status == 422)
		err_set(e, ERR_INVALID, "the endpoint of model \"%.64s\" refused the request", name);
	else if (status == 501)
		err_set(e, ERR_UNSUPPORTED, "the endpoint of model \"%.64s\" does not support the request", name);
	else if (status == 408 || status == 425 || status == 429)
		err_set(e, ERR_UNAVAILABLE, "the endpoint of model \"%.64s\" takes no request now", name);
	else if (status >= 500 && status <= 599)
		err_set(e, ERR_UNAVAILABLE, "the endpoint of model \"%.64s\" failed", name);
	else if (status >= 300 && status <= 399)
	{
		err_set(e, ERR_FORBIDDEN, "the endpoint of model \"%.64s\" redirects", name);
		err_hint(e, "Redirects are not followed: the model's url must be the one that answers.");
	}
	else
		err_set(e, ERR_PROTOCOL, "the endpoint of model \"%.64s\" answered with status %d", name, status);
}

/*
 * said: the endpoint's message, unchanged; status: shown to the user; means: decides the error class, if
 * the body is more precise than the status.
 */
static void
make_error(int status, int means, const Buf *said, const ROptions *o, const char *url, StrView secret,
		   Err *e)
{
	Buf			masked = {0};
	Buf			clean = {0};
	Buf			where = {0};

	add_masked(&masked, said->data != NULL ? said->data : "", said->len, secret);
	reply_clean(&clean, masked.data != NULL ? masked.data : "", masked.len, MAX_MSG);
	if (url != NULL)
	{
		buf_reset(&masked);
		add_masked(&masked, url, strlen(url), secret);
		reply_clean(&where, masked.data != NULL ? masked.data : "", masked.len, clean.len > 0 ? 80 : MAX_MSG);
	}
	set_by_status(means, said, o, secret, e);
	/* the message comes before the url, because the url may be hidden from some callers */
	if (clean.len > 0 && where.len > 0)
		err_detail(e, "Status %d: %s (%s)", status, clean.data, where.data);
	else if (clean.len > 0 || where.len > 0)
		err_detail(e, "Status %d%s%s", status, clean.len > 0 ? ": " : " of ",
				   clean.len > 0 ? clean.data : where.data);
	else
		err_detail(e, "Status %d, without a message.", status);
	buf_free(&masked);
	buf_free(&clean);
	buf_free(&where);
}

void
reply_error(int status, const char *body, size_t n, const ROptions *o, const char *url, StrView secret,
			Err *e)
{
	Buf			said = {0};
	int			code = 0;
	Err			why;

	while (n > 0 && isspace((unsigned char) *body))
		body++, n--;
	while (n > 0 && isspace((unsigned char) body[n - 1]))
		n--;
	if (n > 0 && n <= MAX_READ && (*body == '{' || *body == '[') && reply_check(body, n, &why))
		add_message((StrView) {body, n}, 0, &said, &code);
	else if (n > 0 && *body != '<')
		buf_add(&said, body, n < MAX_READ ? n : MAX_READ);
	make_error(status, status == 400 && code == 501 ? 501 : status, &said, o, url, secret, e);
	buf_free(&said);
}

bool
reply_refused(const DecodedReply *r, StrView error, Err *e)
{
	Buf			said = {0};
	int			status = 500;

	add_message(error, 0, &said, &status);
	make_error(status, status, &said, r->o, NULL, r->n > 0 ? r->requests[0]->secret : (StrView) {NULL, 0}, e);
	buf_free(&said);
	return false;
}

/* ---- errors as bodies ---- */

typedef struct EndpointErrorKind
{
	const char *sqlstate;		/* or a prefix of it */
	int			status;
	const char *type;			/* OpenAI's */
	const char *anthropic;
} EndpointErrorKind;

/*
 * The first row that matches applies.  An error between this database and its endpoint is not the
 * caller's fault, so it becomes a bad gateway.
 */
static const EndpointErrorKind kinds[] = {
	{"08", 502, "BadGatewayError", "api_error"},
	{"28", 502, "BadGatewayError", "api_error"},
	{"42501", 502, "BadGatewayError", "api_error"},
	{"58000", 503, "ServiceUnavailableError", "api_error"},
#define ERROR_STATUS(sqlstate, status, openai, anthropic) {sqlstate, status, openai, anthropic},
#include "ipc/error_status.def"
#undef ERROR_STATUS
	{"", 500, "InternalServerError", "api_error"}
};

bool
reply_error_as_body(const RequestFields *a, const Err *e, Buf *fields)
{
	static const char anthropic_path[] = "/v1/messages";
	bool		anthropic = a->api_path.n == strlen(anthropic_path) &&
		memcmp(a->api_path.s, anthropic_path, a->api_path.n) == 0;
	const EndpointErrorKind *k = kinds;
	Buf			text = {0};
	Buf			body = {0};
	JsonOut		j = {.b = &body};
	WireOut		o = reply_out(fields);

	if (a->kind != WK_API || reply_request_int(a, WTAG_API_AS_BODY, 0) == 0)
		return false;
	while (strncmp(k->sqlstate, err_sqlstate(e->cls), strlen(k->sqlstate)) != 0)
		k++;
	buf_addstr(&text, e->msg);
	if (e->detail[0] != '\0' && k->status < 500)
		buf_printf(&text, ". %s", e->detail);
	json_open(&j, '{');
	if (anthropic)
		json_key_cstr(&j, "type", "error");
	json_key(&j, "error");
	json_open(&j, '{');
	if (anthropic)
		json_key_cstr(&j, "type", k->anthropic);
	json_key(&j, "message");
	json_str(&j, text.data, text.len);
	if (!anthropic)
	{
		json_key_cstr(&j, "type", k->type);
		json_key_null(&j, "param");
		json_key_int(&j, "code", k->status);
	}
	json_close(&j, '}');
	json_close(&j, '}');
	wire_put_str(&o, WTAG_TEXT, body.data, body.len);
	wire_put_int(&o, WTAG_API_STATUS, k->status);
	buf_free(&text);
	buf_free(&body);
	return true;
}
