/*
 * httpd_settings.c
 *	  The HTTP server's settings.
 */
#include "httpd/httpd_settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

HttpConf	http_conf = {
	.server_host = "", .server_port = 5432, .database = "postgres", .role = "vllm_http",
	.anonymous_role = "", .max_connections = 16, .queue_timeout_ms = 30000,
	.host = "localhost", .port = 8000, .max_body = 16 << 20, .body_memory = 256 << 20, .idle_timeout_s = 60,
	.header_timeout_s = 10, .body_timeout_s = 60, .max_clients = 1024, .reserved_clients = 256,
	.clients_per_address = 128, .wrong_keys = 20, .wrong_key_window_s = 60,
	.allowed_origins = "", .ssl_cert_file = "", .ssl_key_file = "", .seccomp = "on"
};

static bool
set_int(int *to, const char *value)
{
	char	   *end;
	long		n = strtol(value, &end, 10);

	if (end == value || *end != '\0' || n < 0 || n > INT_MAX)
		return false;
	*to = (int) n;
	return true;
}

static bool
set_number(const char *name, const char *value)
{
	static const struct
	{
		const char *name;
		int		   *var;
	}			ints[] = {
		{"server_port", &http_conf.server_port},
		{"port", &http_conf.port},
		{"max_connections", &http_conf.max_connections},
		{"queue_timeout_ms", &http_conf.queue_timeout_ms},
		{"idle_timeout_s", &http_conf.idle_timeout_s},
		{"header_timeout_s", &http_conf.header_timeout_s},
		{"body_timeout_s", &http_conf.body_timeout_s},
		{"max_clients", &http_conf.max_clients},
		{"reserved_clients", &http_conf.reserved_clients},
		{"clients_per_address", &http_conf.clients_per_address},
		{"wrong_keys", &http_conf.wrong_keys},
		{"wrong_key_window_s", &http_conf.wrong_key_window_s},
		{"dev_mode", &http_conf.dev_mode},
	};
	static const struct
	{
		const char *name;
		size_t	   *var;
	}			kbs[] = {
		{"max_body_kb", &http_conf.max_body},
		{"body_memory_kb", &http_conf.body_memory},
	};
	int			kb;

	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
		if (strcmp(ints[i].name, name) == 0)
			return set_int(ints[i].var, value);
	for (size_t i = 0; i < sizeof(kbs) / sizeof(kbs[0]); i++)
		if (strcmp(kbs[i].name, name) == 0 && set_int(&kb, value))
		{
			*kbs[i].var = (size_t) kb * 1024;
			return true;
		}
	return false;
}

bool
conf_set(char *assignment)
{
	static const struct
	{
		const char *name;
		const char **var;
	}			strings[] = {
		{"server_host", &http_conf.server_host},
		{"database", &http_conf.database},
		{"role", &http_conf.role},
		{"anonymous_role", &http_conf.anonymous_role},
		{"host", &http_conf.host},
		{"allowed_origins", &http_conf.allowed_origins},
		{"ssl_cert_file", &http_conf.ssl_cert_file},
		{"ssl_key_file", &http_conf.ssl_key_file},
		{"seccomp", &http_conf.seccomp},
	};
	char	   *value = strchr(assignment, '=');

	if (value == NULL)
		return false;
	*value++ = '\0';
	if (strcmp(assignment, "stamp") == 0)
		return true;			/* only tells the supervisor that a file has changed */
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		if (strcmp(strings[i].name, assignment) == 0)
		{
			*strings[i].var = value;
			return true;
		}
	return set_number(assignment, value);
}

bool
conf_origin_allowed(const char *origin)
{
	const char *p = http_conf.allowed_origins;
	size_t		n = strlen(origin);

	while (*p != '\0')
	{
		size_t		len;

		p += strspn(p, ", ");
		len = strcspn(p, ", ");
		if ((len == 1 && *p == '*') || (len == n && memcmp(p, origin, n) == 0))
			return true;
		p += len;
	}
	return false;
}
