/*
 * request_fields.c
 *	  Decodes a request's message for the encoders of bodies.
 *
 * The arena is untrusted: lengths, ranges and characters are checked here, whatever the backend has
 * checked already.  Texts that become part of a url or of a header line (urls, the secret) are refused
 * if they have control characters.  Of a field that may be given once, the last one counts, as in the
 * engine.  Spans point into the message, which the RequestFields owns.
 *
 * Tested by tests/unit/remote/codec/test_remote_options.c.
 */
#include "remote/codec/request_fields.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "ipc/field_range.h"

#define MAX_URLS		64
#define MAX_URL			2048	/* bytes */
#define MAX_SECRET		8192	/* bytes */
#define MAX_OPTIONS		65536	/* bytes */
#define MAX_CHOICES		4096
#define MAX_PATH		512		/* bytes */

static bool
bad(const WireField *f, const char *what, Err *e)
{
	err_set(e, ERR_INVALID, "%s %s", wire_tag_name(f->tag), what);
	return err_detail(e, "parameter=%s", wire_tag_name(f->tag));
}

/* Take a text of at most max bytes without NUL. */
static bool
take_text(StrView *to, const WireField *f, size_t max, Err *e)
{
	if (f->n > max || memchr(f->s, '\0', f->n) != NULL)
		return bad(f, "is too long", e);
	*to = (StrView) {f->s, f->n};
	return true;
}

/* Like take_text(), but refuse bytes that could end a header line or a URL. */
static bool
take_visible(StrView *to, const WireField *f, size_t max, Err *e)
{
	for (size_t i = 0; i < f->n; i++)
		if ((unsigned char) f->s[i] < 0x20 || f->s[i] == 0x7F)
			return bad(f, "must not have control characters", e);
	return take_text(to, f, max, e);
}

/* Check a number against the range in the fields' table. */
static bool
in_range(const WireField *f, Err *e)
{
	const FieldRange *r = field_range(f->tag);
	char		text[FIELD_RANGE_TEXT];

	if (r == NULL || field_range_read(r, f, text, sizeof(text)))
		return true;
	err_set(e, ERR_INVALID, "%s", text);
	return err_detail(e, "parameter=%s", r->name);
}

/* Append to a list, whose capacity doubles. */
static bool
add_span(StrView **list, int *n, int max, const WireField *f, Err *e)
{
	if (*n == max)
		return bad(f, "is given too often", e);
	if ((*n & (*n - 1)) == 0)
		*list = mem_realloc(*list, (size_t) (*n == 0 ? 1 : *n * 2) * sizeof(StrView));
	(*list)[(*n)++] = (StrView) {f->s, f->n};
	return true;
}

static bool
add_url(RequestFields *a, const WireField *f, Err *e)
{
	StrView		url;

	if (f->n == 0)
		return true;			/* a field for no endpoint: it only says whose message this is */
	return take_visible(&url, f, MAX_URL, e) && add_span(&a->urls, &a->n_urls, MAX_URLS, f, e);
}

/* Decode fields of the model, its location, and the caller. */
static bool
identity_field(RequestFields *a, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_DATABASE:
			a->dboid = (uint32_t) f->i;
			return true;
		case WTAG_LOGIN:
			a->login = (uint32_t) f->i;
			return true;
		case WTAG_ROLE:
			if (a->login == 0)
				a->login = (uint32_t) f->i;
			return true;
		case WTAG_MODEL:
			return take_text(&a->model, f, WIRE_NAME_LEN - 1, e);
		case WTAG_MODEL_OPTIONS:
			return take_text(&a->options, f, MAX_OPTIONS, e);
		case WTAG_URL:
			return add_url(a, f, e);
		case WTAG_SECRET:
			return take_visible(&a->secret, f, MAX_SECRET, e);
		case WTAG_LORA:
			return take_text(&a->lora, f, WIRE_NAME_LEN - 1, e);
		case WTAG_PRIORITY:
			a->priority = (int) f->i;
			return true;
		case WTAG_BACKGROUND:
			a->background = f->i != 0;
			return true;
		case WTAG_FALLBACK:
			a->fallback = true;
			return true;
		default:
			*known = false;
			return true;
	}
}

/* Decode the inputs. */
static bool
input_field(RequestFields *a, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_PROMPT:
			a->prompt = (StrView) {f->s, f->n};
			return true;
		case WTAG_PROMPT_IDS:
			a->prompt_ids = (StrView) {f->s, f->n};
			return true;
		case WTAG_PROMPT_EMBEDS:
			a->embeds = true;
			return true;
		case WTAG_MESSAGES:
			a->messages = (StrView) {f->s, f->n};
			return true;
		case WTAG_TOOLS:
			a->tools = (StrView) {f->s, f->n};
			return true;
		case WTAG_TASK:
			return take_visible(&a->task, f, 32, e);
		case WTAG_PAIR:
			a->pair = (StrView) {f->s, f->n};
			return true;
		case WTAG_CHOICE:
			return add_span(&a->choices, &a->n_choices, MAX_CHOICES, f, e);
		case WTAG_API_PATH:
			return take_visible(&a->api_path, f, MAX_PATH, e);
		case WTAG_API_BODY:
			a->api_body = (StrView) {f->s, f->n};
			return true;
		case WTAG_COMMAND:
			return take_visible(&a->command, f, 1024, e);
		default:
			*known = false;
			return true;
	}
}

/* Decode fields that the shape of the reply depends on. */
static void
shape_field(RequestFields *a, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_STREAM:
			a->stream = f->i != 0;
			break;
		case WTAG_WANT_IDS:
			a->want_ids = f->i != 0;
			break;
		case WTAG_WANT_LABELS:
			a->want_labels = f->i != 0;
			break;
		case WTAG_WANT_ANSWERS:
			a->want_answers = f->i != 0;
			break;
		case WTAG_N:
			a->n = (int) f->i;
			break;
		case WTAG_LOGPROBS:
			a->logprobs = (int) f->i;
			break;
		case WTAG_PROMPT_LOGPROBS:
			a->prompt_logprobs = (int) f->i;
			break;
		case WTAG_MAX_TOKENS:
			a->max_tokens = (int) f->i;
			break;
		case WTAG_TEMPERATURE:
			a->temperature = f->num;
			break;
		case WTAG_SEED:
			a->has_seed = f->i != -1;
			break;
		default:
			break;				/* left to encode.c */
	}
}

/* ---- the whole message ---- */

/* Is it a kind that no endpoint serves? */
static bool
is_inner(WireKind kind)
{
	return kind == WK_CONTROL || kind == WK_MODEL_FORGET || kind == WK_MODEL_UNLOAD;
}

static bool
check_whole(const RequestFields *a, Err *e)
{
	bool		text = a->prompt.s != NULL || a->messages.s != NULL;

	if (is_inner(a->kind))
		return a->kind != WK_CONTROL || a->command.n > 0 ||
			err_set(e, ERR_INTERNAL, "control request without a command");
	if (a->model.n == 0)
		return err_set(e, ERR_INTERNAL, "request without a model");
	if (a->n_urls == 0)
		return err_set(e, ERR_INTERNAL, "request without a url");
	if ((a->kind == WK_GENERATE || a->kind == WK_TOKENIZE || a->kind == WK_LOGPROBS) && !text &&
		a->prompt_ids.s == NULL && !a->embeds)
		return err_set(e, ERR_INTERNAL, "request without a prompt");
	if (a->kind == WK_GENERATE && a->prompt.s != NULL && a->prompt.n == 0)
	{
		err_set(e, ERR_INVALID, "prompt must not be empty");
		return err_detail(e, "parameter=prompt");
	}
	if (text && a->prompt_ids.s != NULL)
		return err_set(e, ERR_INVALID, "prompt and prompt_token_ids exclude each other");
	if (a->kind == WK_POOL && (a->task.s == NULL || a->prompt.s == NULL))
		return err_set(e, ERR_INTERNAL, "pooling request without a task or a text");
	if (a->kind == WK_DETOKENIZE && a->prompt_ids.s == NULL)
		return err_set(e, ERR_INTERNAL, "detokenize request without token ids");
	if (a->kind == WK_API && (a->api_path.n == 0 || a->api_body.s == NULL))
		return err_set(e, ERR_INTERNAL, "API request without a path or a body");
	return true;
}

/* Does the path of an API request only compute something? */
static bool
path_is_idempotent(StrView path)
{
	static const char *const names[] = {"/embeddings", "/score", "/rerank", "/classify", "/pooling",
										"/tokenize", "/detokenize"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		size_t		n = strlen(names[i]);

		if (path.n >= n && memcmp(path.s + path.n - n, names[i], n) == 0)
			return true;
	}
	return false;
}

static bool
is_idempotent(const RequestFields *a)
{
	if (a->kind == WK_GENERATE)
		return a->has_seed || a->temperature == 0;
	return a->kind != WK_API || path_is_idempotent(a->api_path);
}

/* Return the hash as the catalog computes it: of the path (here the url) and the options. */
static uint64_t
hash_of(const RequestFields *a)
{
	char	   *url = mem_strndup(a->urls[0].s, a->urls[0].n);
	char	   *options = mem_strndup(a->options.n > 0 ? a->options.s : "", a->options.n);
	uint64_t	h = wire_model_hash(url, options);

	mem_free(url);
	mem_free(options);
	return h;
}

bool
request_fields_read(RequestFields *a, WireKind kind, char *fields, size_t len, Err *e)
{
	WireIn		in = {.p = fields,.end = fields + len};
	WireField	f;
	int			got;
	bool		ok = true;
	bool		vocabulary = false;

	memset(a, 0, sizeof(*a));
	a->kind = kind;
	a->fields = fields;
	a->len = len;
	a->n = 1;
	a->logprobs = a->prompt_logprobs = -2;
	a->max_tokens = -1;
	a->temperature = NAN;
	while (ok && (got = wire_next(&in, &f)) != 0)
	{
		bool		known = false;

		ok = got > 0 || err_set(e, ERR_INTERNAL, "malformed request message");
		ok = ok && in_range(&f, e) && identity_field(a, &f, &known, e) &&
			(known || input_field(a, &f, &known, e));
		if (ok && !known)
			shape_field(a, &f);
		vocabulary = vocabulary || (got > 0 && wire_tag_of_vocabulary(f.tag));
	}
	if (!ok || !check_whole(a, e))
	{
		request_fields_free(a);
		return false;
	}
	if (a->n_urls > 0)
		a->model_hash = hash_of(a);
	a->idempotent = is_idempotent(a);
	/* the caller applies the same rule (src/pg/call/fallback.c) */
	a->fallback = a->fallback && !vocabulary;
	return true;
}

void
request_fields_free(RequestFields *a)
{
	/* the message has the only copy */
	if (a->secret.n > 0)
	{
		ALWAYS(a->secret.s >= a->fields && a->secret.n <= (size_t) (a->fields + a->len - a->secret.s));
		explicit_bzero((char *) a->secret.s, a->secret.n);
	}
	mem_free(a->urls);
	mem_free(a->choices);
	mem_free(a->fields);
	memset(a, 0, sizeof(*a));
}
