/*
 * remote_model_options.c
 *	  The options of a remote model: which ones exist and which values fit
 *	  (ipc/remote_options.def, endpoint_dialects.def), checked when the model is created.
 *
 * No endpoint is asked, since a transaction's outcome must not depend on another machine.  The remote
 * program reads the same text later, with another parser.  So everything that two parsers could read
 * differently is refused: a key that occurs twice, null, a number that is not a plain integer.
 *
 * A role can't make the remote program do what the role may not do itself: ca_file names a file of
 * the server, and ssl_verify = false lets a man in the middle read the prompts of all users of the
 * model.
 *
 * Tests: tests/sql/33_remote_models.sql.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_authid.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "pg/catalog/caller_options.h"
#include "pg/catalog/remote_model_options.h"
#include "pg/util/option_hint.h"
#include "pg/vllm_pg.h"
#include "ipc/host_allowlist.h"

#define MAX_HEADERS		32
#define MAX_HEADER_NAME	64
#define MAX_HEADER_VALUE 4096

typedef enum RemoteType
{
	REMOTE_BOOL, REMOTE_INT, REMOTE_TEXT, REMOTE_OBJECT, REMOTE_TEXTS, REMOTE_CALLER
} RemoteType;

typedef struct RemoteOption
{
	const char *name;
	RemoteType	type;
	int64		low;
	int64		high;
} RemoteOption;

static const RemoteOption remote_options[] = {
#define REMOTE_OPTION(name, type, low, high, otherwise) {#name, REMOTE_##type, low, high},
#include "ipc/remote_options.def"
#undef REMOTE_OPTION
};

/* ---- texts of options ---- */

const JsonNode *
model_options_tree(const char *options)
{
	JsonNode   *root;

	if (options == NULL)
		return NULL;
	root = json_tree(cstring_to_text(options));
	if (root->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("options must be a json object")));
	return root;
}

List *
model_options_texts(const JsonNode *root, const char *option)
{
	const JsonNode *n = root ? json_tree_get(root, option) : NULL;
	List	   *texts = NIL;

	if (n != NULL && n->kind == JSON_STRING)
		texts = lappend(texts, n->text);
	else if (n != NULL && n->kind == JSON_ARRAY)
		for (const JsonNode *e = n->first; e != NULL; e = e->next)
			if (e->kind == JSON_STRING)
				texts = lappend(texts, e->text);
	return texts;
}

/* ---- refusals ---- */

pg_noreturn static void refuse(const char *option, const char *why);

static void
refuse(const char *option, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("option \"%s\" %s", option, why)));
	pg_unreachable();
}

static void
want_kind(const JsonNode *n, JsonKind kind, const char *option)
{
	if (n->kind != kind)
		refuse(option, psprintf("must be %s, got %s", json_kind_name(kind), json_kind_name(n->kind)));
}

/* ERROR if a member occurs twice.  The caller has made sure that there are few different names. */
static void
check_once(const JsonNode *object, const char *option, bool any_case)
{
	for (const JsonNode *a = object->first; a != NULL; a = a->next)
	{
		CHECK_FOR_INTERRUPTS();
		for (const JsonNode *b = a->next; b != NULL; b = b->next)
			if (any_case ? pg_strcasecmp(a->key, b->key) == 0 : strcmp(a->key, b->key) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 option == NULL ? errmsg("option \"%s\" occurs twice", b->key) :
						 errmsg("member \"%s\" of option \"%s\" occurs twice", b->key, option)));
	}
}

/* Raise the error for an unknown option, with the known ones and the most similar one. */
static void
unknown_option(const char *name)
{
	OptionHint	hint;

	option_hint_begin(&hint, name);
	for (int i = 0; i < lengthof(remote_options); i++)
		option_hint_add(&hint, remote_options[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown option \"%s\" of a remote model", name),
			 option_hint_report(&hint, "options")));
}

/* ---- urls ---- */

void
remote_url_check(const char *url, const char *option)
{
	HostUrl		u;
	char		why[256];
	char		entry[300];

	/* the error does not show the url, which may have a password in it */
	if (!hosts_url(url, &u, why, sizeof(why)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 option == NULL ? errmsg("invalid url: %s", why) :
				 errmsg("invalid url in option \"%s\": %s", option, why),
					 errhint("Give the base URL of an OpenAI-compatible interface, as in "
							 "\"https://llm.example.com/v1\".")));
	if (hosts_allowed(vllm_allowed_hosts, &u))
		return;
	hosts_entry(&u, entry, sizeof(entry));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("host \"%s\" is not allowed", u.host),
			 errdetail("Remote models may use only hosts that the setting vllm.allowed_hosts lists."),
			 errhint("Add \"%s\" to vllm.allowed_hosts in postgresql.conf and reload the configuration.",
					 entry)));
}

/* ---- values ---- */

static void
check_int(const RemoteOption *o, const JsonNode *n)
{
	char	   *end;
	int64		value;

	want_kind(n, JSON_NUMBER, o->name);
	errno = 0;
	value = strtoll(n->text, &end, 10);
	if (*end != '\0')
		refuse(o->name, psprintf("must be an integer, got %s", n->text));
	if (errno != 0 || value < o->low || value > o->high)
		refuse(o->name, psprintf("must be between " INT64_FORMAT " and " INT64_FORMAT ", got %s", o->low,
								 o->high, n->text));
}

static bool
is_printable(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s < ' ' || *s > '~')
			return false;
	return true;
}

static void
check_length(const RemoteOption *o, const JsonNode *n)
{
	if (n->text[0] == '\0')
		refuse(o->name, "must not be empty");
	if (strlen(n->text) > o->high)
		refuse(o->name, psprintf("is too long: it may have at most " INT64_FORMAT " bytes", o->high));
	for (const unsigned char *s = (const unsigned char *) n->text; *s != '\0'; s++)
		if (*s < ' ' || *s == 0x7f)
			refuse(o->name, "must not have control characters");
}

static void
check_one_of(const char *option, const char *value, const char *const *words, int n)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < n; i++)
	{
		if (strcmp(value, words[i]) == 0)
			return;
		appendStringInfo(&list, "%s%s", i == 0 ? "" : i < n - 1 ? ", " : " or ", words[i]);
	}
	refuse(option, psprintf("must be %s, got \"%s\"", list.data, value));
}

static bool
ends_with(const char *s, const char *end)
{
	size_t		n = strlen(s);
	size_t		m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* ---- headers ---- */

/* RFC 9110: tchar */
static bool
is_token(const char *s)
{
	return s[0] != '\0' && strlen(s) <= MAX_HEADER_NAME &&
		strspn(s, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") ==
		strlen(s);
}

/*
 * Return true for headers that the program writes itself, or that would change the meaning of a
 * request.
 */
static bool
is_reserved(const char *name)
{
	static const char *const reserved[] = {
		"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
		"Expect", "Host", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"
	};

	for (int i = 0; i < lengthof(reserved); i++)
		if (pg_strcasecmp(name, reserved[i]) == 0)
			return true;
	return pg_strncasecmp(name, "Proxy-", strlen("Proxy-")) == 0;
}

static void
check_header_name(const char *option, const char *name)
{
	if (!is_token(name))
		refuse(option, psprintf("has a header whose name is not valid: letters, digits and hyphens, at most "
								"%d", MAX_HEADER_NAME));
	if (is_reserved(name))
		refuse(option, psprintf("must not have header \"%s\"", name));
}

static void
check_headers(const char *option, const JsonNode *n)
{
	want_kind(n, JSON_OBJECT, option);
	if (n->n > MAX_HEADERS)
		refuse(option, psprintf("has too many headers: at most %d", MAX_HEADERS));
	check_once(n, option, true);
	for (const JsonNode *h = n->first; h != NULL; h = h->next)
	{
		check_header_name(option, h->key);
		if (pg_strcasecmp(h->key, "Authorization") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"%s\" must not have header \"Authorization\"", option),
					 errhint("Store the credentials with llm_set_secret(), where nobody can read them.")));
		if (h->kind != JSON_STRING)
			refuse(option, psprintf("has a header \"%s\" whose value is %s, not a string", h->key,
									json_kind_name(h->kind)));
		/* a line end would start another header */
		if (!is_printable(h->text) || strlen(h->text) > MAX_HEADER_VALUE)
			refuse(option, psprintf("has a header \"%s\" whose value is not valid: at most %d printable "
									"ASCII characters", h->key, MAX_HEADER_VALUE));
	}
}

/* ---- further checks of certain options ---- */

static void
check_ssl_verify(const char *option, const JsonNode *n)
{
	if (strcmp(n->text, "false") == 0 && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\" to false", option),
				 errdetail("Without it, anyone on the network path to the endpoint can read and change "
						   "requests and responses."),
				 errhint("Only superusers may do this. Option \"ca_file\" names the certificates of a "
						 "private authority.")));
}

static void
check_ca_file(const char *option, const JsonNode *n)
{
	if (!superuser() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\"", option),
				 errhint("Only roles with privileges of pg_read_server_files may name files of the "
						 "server.")));
	if (!is_absolute_path(n->text))
		refuse(option, "must be an absolute path");
}

static void
check_special(const RemoteOption *o, const JsonNode *n)
{
	static const char *const dialects[] = {
#define DIALECT(name, ...) name,
#include "ipc/endpoint_dialects.def"
#undef DIALECT
	};
	static const char *const prompts[] = {"completions", "chat"};

	if (strcmp(o->name, "dialect") == 0)
		check_one_of(o->name, n->text, dialects, lengthof(dialects));
	else if (strcmp(o->name, "prompt_as") == 0)
		check_one_of(o->name, n->text, prompts, lengthof(prompts));
	else if (strcmp(o->name, "ssl_verify") == 0)
		check_ssl_verify(o->name, n);
	else if (strcmp(o->name, "ca_file") == 0)
		check_ca_file(o->name, n);
	else if (strcmp(o->name, "auth_header") == 0)
		check_header_name(o->name, n->text);
	else if (strcmp(o->name, "urls") == 0)
		remote_url_check(n->text, o->name);
	else if (ends_with(o->name, "_path") && (n->text[0] != '/' || !is_printable(n->text) ||
											 strpbrk(n->text, " ?#\\") != NULL))
		refuse(o->name, "must be a path that begins with \"/\", without a query");
}

static void
check_texts(const RemoteOption *o, const JsonNode *n)
{
	if (n->kind == JSON_STRING)
	{
		check_length(o, n);
		check_special(o, n);
		return;
	}
	if (n->kind != JSON_ARRAY)
		refuse(o->name, psprintf("must be a string or an array of them, got %s", json_kind_name(n->kind)));
	for (const JsonNode *e = n->first; e != NULL; e = e->next)
	{
		if (e->kind != JSON_STRING)
			refuse(o->name, psprintf("must be a string or an array of them, got %s in the array",
									 json_kind_name(e->kind)));
		check_length(o, e);
		check_special(o, e);
	}
}

/* ---- all options ---- */

static const RemoteOption *
find_option(const char *name)
{
	for (int i = 0; i < lengthof(remote_options); i++)
		if (strcmp(remote_options[i].name, name) == 0)
			return &remote_options[i];
	unknown_option(name);
	return NULL;
}

static void
check_option(const RemoteOption *o, const JsonNode *n)
{
	switch (o->type)
	{
		case REMOTE_BOOL:
			want_kind(n, JSON_BOOL, o->name);
			check_special(o, n);
			break;
		case REMOTE_INT:
			check_int(o, n);
			break;
		case REMOTE_TEXT:
			want_kind(n, JSON_STRING, o->name);
			check_length(o, n);
			check_special(o, n);
			break;
		case REMOTE_OBJECT:
			check_headers(o->name, n);
			break;
		case REMOTE_TEXTS:
			check_texts(o, n);
			break;
		case REMOTE_CALLER:
			break;
	}
}

void
remote_options_check(const char *options, const char *model)
{
	const JsonNode *root = model_options_tree(options);

	if (root == NULL)
		return;
	for (const JsonNode *n = root->first; n != NULL; n = n->next)
		(void) find_option(n->key);
	check_once(root, NULL, false);
	for (const JsonNode *n = root->first; n != NULL; n = n->next)
		check_option(find_option(n->key), n);
	caller_options_check(root, model);
}
