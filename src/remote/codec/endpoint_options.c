/*
 * endpoint_options.c
 *	  Parses the options of a remote model.
 *
 * remote_options.def has a row for every option.  The row gives its type and range; read_*() below check
 * the form of texts.  The arena is untrusted, so what becomes part of a request's headers (paths, header
 * names and values) is checked for characters that could end a line.
 *
 * Parsed options are cached, because the same model is used again and again.  The key is the hash of the
 * first url and the options, and both are compared as a whole, so that neither a collision nor another
 * model with the same hash gets another model's urls or headers.  One thread.
 *
 * Tested by tests/unit/remote/codec/test_remote_options.c.
 */
#include "remote/codec/endpoint_options.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json/json_scan.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/json/json.h"
#include "remote/codec/dialect.h"
#include "ipc/host_allowlist.h"

static ROptions *roptions_ref(ROptions *o);

#define MAX_VALUES		10000	/* JSON values in the options */
#define MAX_HEADERS		64
#define MAX_HEADER		4096	/* bytes of a header's value */
#define MAX_REMEMBERED	256

typedef enum OptionType
{
	TYPE_BOOL, TYPE_INT, TYPE_TEXT, TYPE_OBJECT, TYPE_TEXTS, TYPE_CALLER
} OptionType;

typedef enum OptionId
{
#define REMOTE_OPTION(name, type, low, high, dflt) OPTION_##name,
#include "ipc/remote_options.def"
#undef REMOTE_OPTION
	N_OPTIONS
} OptionId;

static const struct
{
	const char *name;
	OptionType	type;
	long long	low,
				high,
				dflt;
}			defs[N_OPTIONS] = {
#define REMOTE_OPTION(name, type, low, high, dflt) {#name, TYPE_##type, low, high, dflt},
#include "ipc/remote_options.def"
#undef REMOTE_OPTION
};

/* A cached ROptions with the texts that it was made from, to be compared with a request's. */
typedef struct EndpointOptionsParsed
{
	ROptions	o;				/* first member, so that an ROptions * is an EndpointOptionsParsed * */
	char	   *text;			/* the options as the message has them */
	uint64_t	used;			/* larger = used more recently */
} EndpointOptionsParsed;

/* ---- errors ---- */

/* value: the option's value for the message; NULL: none */
static bool
bad(const ROptions *o, int i, const char *rule, const Json *value, Err *e)
{
	char	   *text = value != NULL ? json_print(value) : NULL;

	if (text != NULL && strlen(text) > 100)
		text[100] = '\0';
	err_set(e, ERR_INVALID, "option \"%s\" of model \"%s\" %s", defs[i].name, o->name, rule);
	if (text != NULL)
		err_detail(e, "option=%s, value=%s", defs[i].name, text);
	mem_free(text);
	return false;
}

static bool
unknown(const ROptions *o, const char *key, Err *e)
{
	Buf			names = {0};

	for (int i = 0; i < N_OPTIONS; i++)
		buf_printf(&names, "%s%s", i > 0 ? ", " : "", defs[i].name);
	err_set(e, ERR_INVALID, "unrecognized option \"%.64s\" of model \"%s\"", key, o->name);
	err_hint(e, "Known options: %s.", names.data);
	buf_free(&names);
	return false;
}

/* ---- forms of texts ---- */

static bool
is_visible(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char) *s < 0x20 || *s == 0x7F)
			return false;
	return true;
}

/* Is it a token of RFC 9110? */
static bool
is_header_name(const char *s)
{
	if (*s == '\0' || strlen(s) > 64)
		return false;
	for (; *s != '\0'; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
			  strchr("!#$%&'*+-.^_`|~", *s) != NULL))
			return false;
	return true;
}

/* Does the header belong to the connection, or to the body of our call? */
static bool
is_ours(const char *header)
{
	static const char *const names[] = {
		"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection",
		"keep-alive", "expect", "upgrade", "te", "trailer", "accept", "accept-encoding",
		"proxy-authorization", "proxy-connection"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		const char *a = names[i];
		const char *b = header;

		while (*a != '\0' && *a == (*b >= 'A' && *b <= 'Z' ? *b + 32 : *b))
			a++, b++;
		if (*a == '\0' && *b == '\0')
			return true;
	}
	return false;
}

/* Is it a path: one "/", then characters of urls, no query? */
static bool
is_path(const char *s)
{
	if (s[0] != '/' || s[1] == '/')
		return false;
	for (; *s != '\0'; s++)
		if ((unsigned char) *s <= 0x20 || (unsigned char) *s >= 0x7F || strchr("?#\\\"<>", *s) != NULL)
			return false;
	return true;
}

/* ---- one option ---- */

static int *
int_of(ROptions *o, int i)
{
	switch (i)
	{
		case OPTION_max_concurrent_requests:
			return &o->max_concurrent_requests;
		case OPTION_max_batch_inputs:
			return &o->max_batch_inputs;
		case OPTION_requests_per_minute:
			return &o->requests_per_minute;
		case OPTION_tokens_per_minute:
			return &o->tokens_per_minute;
		case OPTION_timeout:
			return &o->timeout;
		case OPTION_connect_timeout:
			return &o->connect_timeout;
		case OPTION_health_check_interval:
			return &o->health_check_interval;
		case OPTION_max_retries:
			return &o->max_retries;
		default:
			ALWAYS(i == OPTION_max_model_len);
			return &o->max_model_len;
	}
}

static char **
path_of(ROptions *o, int i)
{
	switch (i)
	{
		case OPTION_completions_path:
			return &o->completions_path;
		case OPTION_chat_path:
			return &o->chat_path;
		case OPTION_embeddings_path:
			return &o->embeddings_path;
		case OPTION_score_path:
			return &o->score_path;
		case OPTION_rerank_path:
			return &o->rerank_path;
		case OPTION_tokenize_path:
			return &o->tokenize_path;
		case OPTION_detokenize_path:
			return &o->detokenize_path;
		case OPTION_models_path:
			return &o->models_path;
		default:
			return NULL;
	}
}

static bool
read_int(ROptions *o, int i, const Json *v, Err *e)
{
	char		rule[120];

	snprintf(rule, sizeof(rule), "must be an integer between %lld and %lld", defs[i].low, defs[i].high);
	if (!json_is_number(v) || v->num != floor(v->num) || v->num < (double) defs[i].low ||
		v->num > (double) defs[i].high)
		return bad(o, i, rule, v, e);
	*int_of(o, i) = (int) v->num;
	return true;
}

static bool
read_dialect(ROptions *o, const Json *v, Err *e)
{
	Buf			names = {0};

	o->dialect = dialect_find(v->s);
	if (o->dialect != NULL)
		return true;
	bad(o, OPTION_dialect, "is not known", v, e);
	dialect_names(&names);
	err_hint(e, "Known dialects: %s.", names.data);
	buf_free(&names);
	return false;
}

static void
own(char **to, const char *s)
{
	mem_free(*to);
	*to = mem_strdup(s);
}

static bool
read_text(ROptions *o, int i, const Json *v, Err *e)
{
	const char *s = json_str_of(v);
	char	  **path = path_of(o, i);
	char		rule[80];

	snprintf(rule, sizeof(rule), "must be a text of 1 to %lld bytes", defs[i].high);
	if (s == NULL || s[0] == '\0' || strlen(s) > (size_t) defs[i].high)
		return bad(o, i, rule, v, e);
	if (!is_visible(s))
		return bad(o, i, "must not have control characters", v, e);
	if (path != NULL)
	{
		if (!is_path(s))
			return bad(o, i, "must be a path that begins with \"/\", without a query", v, e);
		own(path, s);
		return true;
	}
	switch (i)
	{
		case OPTION_model:
			own(&o->model, s);
			return true;
		case OPTION_dialect:
			return read_dialect(o, v, e);
		case OPTION_prompt_as:
			o->prompt_as_chat = strcmp(s, "chat") == 0;
			return o->prompt_as_chat || strcmp(s, "completions") == 0 ||
				bad(o, i, "must be \"completions\" or \"chat\"", v, e);
		case OPTION_auth_header:
			own(&o->auth_header, s);
			return (is_header_name(s) && !is_ours(s)) || bad(o, i, "must be the name of a header", v, e);
		default:
			ALWAYS(i == OPTION_ca_file);
			own(&o->ca_file, s);
			return s[0] == '/' || bad(o, i, "must be an absolute path", v, e);
	}
}

static bool
read_headers(ROptions *o, int i, const Json *v, Err *e)
{
	if (!json_is_object(v))
		return bad(o, i, "must be an object of texts", v, e);
	for (const Json *h = v->child; h != NULL; h = h->next)
	{
		/* the value may be a secret, so it is not in the error */
		if (o->n_headers == MAX_HEADERS)
			return bad(o, i, "has too many members", NULL, e);
		if (!is_header_name(h->key) || is_ours(h->key))
		{
			bad(o, i, "has a member that is not the name of a header, or of one that can't be set", NULL, e);
			return err_detail(e, "option=headers, name=%.64s", h->key);
		}
		if (!json_is_string(h) || strlen(h->s) > MAX_HEADER || !is_visible(h->s))
		{
			bad(o, i, "must be an object of texts of at most 4096 bytes without control characters", NULL, e);
			return err_detail(e, "option=headers, name=%.64s", h->key);
		}
		o->headers = mem_realloc(o->headers, (size_t) (o->n_headers + 1) * sizeof(RHeader));
		o->headers[o->n_headers++] = (RHeader) {mem_strdup(h->key), mem_strdup(h->s)};
	}
	return true;
}

/*
 * Add a text to a list option.  The texts of `url` are only checked: the message has the urls, in the
 * option's order, beginning with the first one.
 */
static bool
add_text(ROptions *o, int i, const Json *whole, const Json *v, Err *e)
{
	const char *s = json_str_of(v);
	char		rule[80];

	snprintf(rule, sizeof(rule), "must be a text, or an array of texts, of 1 to %lld bytes", defs[i].high);
	if (s == NULL || s[0] == '\0' || strlen(s) > (size_t) defs[i].high || !is_visible(s))
		return bad(o, i, rule, whole, e);
	if (i == OPTION_lora_modules)
	{
		o->lora_modules = mem_realloc(o->lora_modules, (size_t) (o->n_lora_modules + 1) * sizeof(char *));
		o->lora_modules[o->n_lora_modules++] = mem_strdup(s);
	}
	return true;
}

static bool
read_texts(ROptions *o, int i, const Json *v, Err *e)
{
	if (!json_is_array(v))
		return add_text(o, i, v, v, e);
	for (const Json *x = v->child; x != NULL; x = x->next)
		if (!add_text(o, i, v, x, e))
			return false;
	return true;
}

static bool
read_option(ROptions *o, const Json *v, Err *e)
{
	int			i = 0;

	while (i < N_OPTIONS && strcmp(defs[i].name, v->key) != 0)
		i++;
	if (i == N_OPTIONS)
		return unknown(o, v->key, e);
	if (json_is_null(v))
		return true;
	switch (defs[i].type)
	{
		case TYPE_INT:
			return read_int(o, i, v, e);
		case TYPE_BOOL:
			o->ssl_verify = json_is_true(v);
			return json_is_bool(v) || bad(o, i, "must be true or false", v, e);
		case TYPE_TEXT:
			return read_text(o, i, v, e);
		case TYPE_OBJECT:
			return read_headers(o, i, v, e);
		case TYPE_TEXTS:
			return read_texts(o, i, v, e);
		case TYPE_CALLER:
			return true;
	}
	return true;
}

/* ---- all options ---- */

static bool
read_options(ROptions *o, const char *text, Err *e)
{
	Json	   *root;
	bool		ok;

	if (text[0] == '\0')
		return true;
	if (json_values(text, strlen(text), MAX_VALUES) > MAX_VALUES)
		return err_set(e, ERR_INVALID, "the options of model \"%s\" are too many", o->name);
	/* options are kept as NUL-terminated texts */
	if (json_has_nul(text, strlen(text)))
		return err_set(e, ERR_INVALID, "the options of model \"%s\" must not have null characters", o->name);
	root = json_parse(text, strlen(text));
	ok = json_is_object(root) ||
		err_set(e, ERR_INVALID, "the options of model \"%s\" must be a JSON object", o->name);
	for (const Json *v = ok ? root->child : NULL; v != NULL && ok; v = v->next)
		ok = read_option(o, v, e);
	json_free(root);
	return ok;
}

static void
set_urls(ROptions *o, const RequestFields *a)
{
	o->urls = mem_zalloc((size_t) a->n_urls * sizeof(char *));
	o->queries = mem_zalloc((size_t) a->n_urls * sizeof(char *));
	for (int i = 0; i < a->n_urls; i++)
	{
		StrView		url = a->urls[i];
		size_t		query;

		o->urls[i] = mem_strndup(url.s, hosts_base(url.s, url.n, &query));
		o->queries[i] = mem_strndup(url.s + query, url.n - query);
		o->n_urls++;
	}
}

/* Paths that the options don't give are the dialect's. */
static void
set_paths(ROptions *o)
{
	const Dialect *d = o->dialect;
	struct
	{
		char	  **to;
		const char *path;
	}			paths[] = {
		{&o->completions_path, d->completions}, {&o->chat_path, d->chat},
		{&o->embeddings_path, d->embeddings}, {&o->score_path, d->score},
		{&o->rerank_path, d->rerank}, {&o->tokenize_path, d->tokenize}, {&o->detokenize_path, d->detokenize},
		{&o->models_path, d->models}
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (*paths[i].to == NULL && paths[i].path != NULL)
			*paths[i].to = mem_strdup(paths[i].path);
}

static void
parsed_free(EndpointOptionsParsed *m)
{
	ROptions   *o = &m->o;
	char	  **paths[] = {&o->name, &o->model, &o->completions_path, &o->chat_path, &o->embeddings_path,
						   &o->score_path, &o->rerank_path,
	&o->tokenize_path, &o->detokenize_path, &o->models_path, &o->auth_header, &o->ca_file};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		mem_free(*paths[i]);
	for (int i = 0; i < o->n_urls; i++)
	{
		mem_free(o->urls[i]);
		mem_free(o->queries[i]);
	}
	mem_free(o->urls);
	mem_free(o->queries);
	for (int i = 0; i < o->n_headers; i++)
	{
		mem_free(o->headers[i].name);
		mem_free(o->headers[i].value);
	}
	mem_free(o->headers);
	for (int i = 0; i < o->n_lora_modules; i++)
		mem_free(o->lora_modules[i]);
	mem_free(o->lora_modules);
	mem_free(m->text);
	mem_free(m);
}

static EndpointOptionsParsed *
make(const RequestFields *a, Err *e)
{
	EndpointOptionsParsed *m = mem_zalloc(sizeof(EndpointOptionsParsed));
	ROptions   *o = &m->o;

	o->refs = 1;
	o->hash = a->model_hash;
	o->name = mem_strndup(a->model.s, a->model.n);
	m->text = mem_strndup(a->options.n > 0 ? a->options.s : "", a->options.n);
	for (int i = 0; i < N_OPTIONS; i++)
		if (defs[i].type == TYPE_INT)
			*int_of(o, i) = (int) defs[i].dflt;
	o->ssl_verify = true;
	o->dialect = dialect_find(NULL);
	set_urls(o, a);
	if (!read_options(o, m->text, e))
	{
		parsed_free(m);
		return NULL;
	}
	if (o->model == NULL)
		o->model = mem_strdup(o->name);
	set_paths(o);
	return m;
}

/* ---- cache ---- */

static EndpointOptionsParsed *cached[MAX_REMEMBERED];
static int	n_remembered;
static uint64_t uses;

static bool
is_text(const char *s, StrView t)
{
	return strlen(s) == t.n && (t.n == 0 || memcmp(s, t.s, t.n) == 0);
}

static bool
is_of(const EndpointOptionsParsed *m, const RequestFields *a)
{
	if (m->o.hash != a->model_hash || m->o.n_urls != a->n_urls || !is_text(m->o.name, a->model) ||
		!is_text(m->text, a->options))
		return false;
	for (int i = 0; i < a->n_urls; i++)
	{
		StrView		url = a->urls[i];
		size_t		query;
		size_t		base = hosts_base(url.s, url.n, &query);

		if (!is_text(m->o.urls[i], (StrView) {url.s, base}) ||
			!is_text(m->o.queries[i], (StrView) {url.s + query, url.n - query}))
			return false;
	}
	return true;
}

ROptions *
roptions_get(const RequestFields *a, Err *e)
{
	EndpointOptionsParsed *m;
	int			at = 0;

	for (int i = 0; i < n_remembered; i++)
	{
		if (is_of(cached[i], a))
		{
			cached[i]->used = ++uses;
			return roptions_ref(&cached[i]->o);
		}
		if (cached[i]->used < cached[at]->used)
			at = i;
	}
	m = make(a, e);
	if (m == NULL)
		return NULL;
	if (n_remembered < MAX_REMEMBERED)
		at = n_remembered++;
	else
		roptions_unref(&cached[at]->o);
	cached[at] = m;
	m->used = ++uses;
	return roptions_ref(&m->o);
}

static ROptions *
roptions_ref(ROptions *o)
{
	ALWAYS(o->refs > 0);
	o->refs++;
	return o;
}

void
roptions_unref(ROptions *o)
{
	ALWAYS(o == NULL || o->refs > 0);
	if (o != NULL && --o->refs == 0)
		parsed_free((EndpointOptionsParsed *) o);
}

void
roptions_forget(void)
{
	while (n_remembered > 0)
		roptions_unref(&cached[--n_remembered]->o);
}
