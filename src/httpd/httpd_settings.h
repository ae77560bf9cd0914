/*
 * httpd_settings.h
 *	  The HTTP server's settings, from its command line (src/pg/supervisor/http_process.c); constant after
 *	  start.
 */
#ifndef VLLM_HTTPD_HTTPD_SETTINGS_H
#define VLLM_HTTPD_HTTPD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct HttpConf
{
	/* the PostgreSQL server: directory of its socket, or a host */
	const char *server_host;
	int			server_port;
	const char *database;
	const char *role;
	const char *anonymous_role; /* of requests without a key; "" = refused */
	int			max_connections;
	int			queue_timeout_ms;
	/* the HTTP side */
	const char *host;
	int			port;
	size_t		max_body;		/* bytes */
	size_t		body_memory;	/* bytes, of all bodies but small ones */
	int			idle_timeout_s;
	int			header_timeout_s;
	int			body_timeout_s;
	int			max_clients;
	int			reserved_clients;	/* of these kept for those with keys */
	int			clients_per_address;	/* without keys; 0 = no limit */
	int			wrong_keys;		/* of an address within the window; 0 = no limit */
	int			wrong_key_window_s;
	int			dev_mode;		/* 0, 1: paths that control the engine (dev_endpoints.c) */
	const char *allowed_origins;	/* commas; "*" = any; "" = none */
	const char *ssl_cert_file;	/* "" = no TLS */
	const char *ssl_key_file;
	const char *seccomp;		/* on, off, require */
} HttpConf;

extern HttpConf http_conf;

/* One "name=value" of the command line, which must stay; false: unknown or out of range. */
bool		conf_set(char *assignment);
/* May a page of this origin use the server? */
bool		conf_origin_allowed(const char *origin);

#endif
