/*
 * guc_http.c
 *	  The settings of the HTTP server, vllm.http_*.
 *
 * All of them can be changed by a reload of the configuration: the supervisor then restarts the HTTP
 * server (src/pg/supervisor/http_process.c).  docs/user/http-server.md lists them; a lint rule
 * compares.
 */
#include "postgres.h"

#include <limits.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "pg/supervisor/http_process.h"
#include "pg/vllm_pg.h"

int			vllm_http_port;
char	   *vllm_http_role = "";
static char *http_host;
static char *http_database;
static char *http_anonymous_role;
static int	http_max_connections;
static int	http_queue_timeout;		/* ms */
static int	http_max_body;			/* kB */
static int	http_body_memory;		/* kB */
static int	http_idle_timeout;		/* s */
static int	http_header_timeout;	/* s */
static int	http_body_timeout;		/* s */
static int	http_max_clients;
static int	http_reserved_clients;
static int	http_clients_per_address;
static int	http_wrong_keys;
static int	http_wrong_key_window;	/* s */
static bool http_dev_mode;
static char *http_allowed_origins;
static char *http_ssl_cert_file;
static char *http_ssl_key_file;

static bool check_http_port(int *newval, void **extra, GucSource source);
static bool check_line(char **newval, void **extra, GucSource source);

typedef struct HttpInt
{
	const char *name;
	const char *http_name;			/* the HTTP server's name of the setting */
	int		   *var;
	int			boot, min, max;
	int			flags;
	const char *desc;
} HttpInt;

static const HttpInt ints[] = {
	{"vllm.http_port", "port", &vllm_http_port, 0, 0, 65535, 0,
	"Sets the TCP port of the HTTP server; 0 means that there is none."},
	{"vllm.http_max_connections", "max_connections", &http_max_connections, 16, 1, 1000, 0,
	"Sets the maximum number of database connections of the HTTP server, that is of requests answered at the "
	"same time."},
	{"vllm.http_queue_timeout", "queue_timeout_ms", &http_queue_timeout, 30000, 0, INT_MAX, GUC_UNIT_MS,
	"Sets how long an HTTP request waits for a database connection before it is refused."},
	{"vllm.http_max_body", "max_body_kb", &http_max_body, 16 * 1024, 1, 256 * 1024, GUC_UNIT_KB,
	"Sets the maximum size of an HTTP request's body."},
	{"vllm.http_body_memory", "body_memory_kb", &http_body_memory, 256 * 1024, 1024, INT_MAX, GUC_UNIT_KB,
	"Sets how much memory the bodies of HTTP requests may take together."},
	{"vllm.http_idle_timeout", "idle_timeout_s", &http_idle_timeout, 60, 1, 24 * 3600, GUC_UNIT_S,
	"Sets how long an HTTP client may be silent before its connection is closed."},
	{"vllm.http_header_timeout", "header_timeout_s", &http_header_timeout, 10, 1, 3600, GUC_UNIT_S,
	"Sets how long an HTTP request's line and headers may take to come, in all."},
	{"vllm.http_body_timeout", "body_timeout_s", &http_body_timeout, 60, 1, 24 * 3600, GUC_UNIT_S,
	"Sets how long an HTTP request's body may take to come, in all."},
	{"vllm.http_max_clients", "max_clients", &http_max_clients, 1024, 16, 16384, 0,
	"Sets the maximum number of connections of HTTP clients."},
	{"vllm.http_reserved_clients", "reserved_clients", &http_reserved_clients, 256, 0, 16384, 0,
	"Sets how many of the connections of HTTP clients are kept for requests with an API key."},
	{"vllm.http_clients_per_address", "clients_per_address", &http_clients_per_address, 128, 0, 16384, 0,
	"Sets the maximum number of connections of an HTTP client's address without an API key; 0 means no "
	"limit."},
	{"vllm.http_wrong_keys", "wrong_keys", &http_wrong_keys, 20, 0, 1000000, 0,
	"Sets after how many wrong API keys an HTTP client's address is refused for a while; 0 means never."},
	{"vllm.http_wrong_key_window", "wrong_key_window_s", &http_wrong_key_window, 60, 1, 24 * 3600, GUC_UNIT_S,
	"Sets for how long wrong API keys of an HTTP client's address are counted."},
};

typedef struct HttpString
{
	const char *name;
	const char *http_name;
	char	  **var;
	const char *boot;
	int			flags;
	const char *desc;
} HttpString;

static const HttpString strings[] = {
	{"vllm.http_host", "host", &http_host, "localhost", 0,
	"Sets the host name or IP address on which the HTTP server listens; * means all."},
	{"vllm.http_database", "database", &http_database, "postgres", 0,
	"Sets the database that answers HTTP requests."},
	{"vllm.http_role", "role", &vllm_http_role, "vllm_http", 0,
	"Sets the role as which the HTTP server connects; it becomes the role of a request's API key."},
	{"vllm.http_anonymous_role", "anonymous_role", &http_anonymous_role, "", 0,
	"Sets the role of HTTP requests without an API key; empty means that they are refused."},
	{"vllm.http_allowed_origins", "allowed_origins", &http_allowed_origins, "", 0,
	"Lists the origins of web pages that may use the HTTP server, separated by commas; * means any."},
	{"vllm.http_ssl_cert_file", "ssl_cert_file", &http_ssl_cert_file, "", GUC_SUPERUSER_ONLY,
	"Sets the path of the HTTP server's certificate; empty means no TLS."},
	{"vllm.http_ssl_key_file", "ssl_key_file", &http_ssl_key_file, "", GUC_SUPERUSER_ONLY,
	"Sets the path of the HTTP server's private key."},
};

/* The program is built only if its libraries are available. */
static bool
check_http_port(int *newval, void **extra, GucSource source)
{
	if (*newval == 0 || access(http_process_path(), X_OK) == 0)
		return true;
	GUC_check_errdetail("There is no program \"%s\": it was not built, or its package is not installed.",
						http_process_path());
	GUC_check_errhint("Install the package postgresql-" PG_MAJORVERSION "-vllm-pg-http; or install the "
					  "headers of libpq and GnuTLS, and build vllm_pg again.");
	return false;
}

/* The value is sent as a line: no control characters. */
static bool
check_line(char **newval, void **extra, GucSource source)
{
	for (const char *s = *newval; *s != '\0'; s++)
		if ((unsigned char) *s < ' ')
		{
			GUC_check_errdetail("The value must not contain control characters.");
			return false;
		}
	return true;
}

void
vllm_guc_http_init(void)
{
	for (int i = 0; i < lengthof(ints); i++)
	{
		const HttpInt *r = &ints[i];

		DefineCustomIntVariable(r->name, r->desc, NULL, r->var, r->boot, r->min, r->max, PGC_SIGHUP, r->flags,
								r->var == &vllm_http_port ? check_http_port : NULL, NULL, NULL);
	}
	DefineCustomBoolVariable("vllm.http_dev_mode",
							 "Lets the HTTP server control the engine: /sleep, /wake_up, /pause and similar "
							 "paths.", NULL, &http_dev_mode, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	for (int i = 0; i < lengthof(strings); i++)
	{
		const HttpString *r = &strings[i];

		DefineCustomStringVariable(r->name, r->desc, NULL, r->var, r->boot, PGC_SIGHUP, r->flags,
								   check_line, NULL, NULL);
	}
}

char *
vllm_guc_http_config(void)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < lengthof(ints); i++)
		appendStringInfo(&s, "%s=%d\n", ints[i].http_name, *ints[i].var);
	appendStringInfo(&s, "dev_mode=%d\nseccomp=%s\n", http_dev_mode, vllm_seccomp);
	for (int i = 0; i < lengthof(strings); i++)
		appendStringInfo(&s, "%s=%s\n", strings[i].http_name, *strings[i].var);
	return s.data;
}

const char *const *
vllm_guc_http_files(void)
{
	static const char *files[3];

	files[0] = http_ssl_cert_file;
	files[1] = http_ssl_key_file;
	return files;
}
