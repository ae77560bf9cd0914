/*
 * httpd_settings.h
 *	  The HTTP server's settings, from its command line (src/pg/supervisor/http_process.c); constant
 *	  after start.
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
	const char *anonymous_role; /* for requests without a key; "" = such requests are refused */
	int			max_connections;
	int			queue_timeout_ms;
	/* the HTTP side */
	const char *host;
	int			port;
	size_t		max_body;		/* bytes */
	size_t		body_memory;	/* bytes of all bodies together, small ones excepted */
	int			idle_timeout_s;
	int			header_timeout_s;
	int			body_timeout_s;
	int			max_clients;
	int			reserved_clients;	/* of max_clients, reserved for clients with keys */
	int			clients_per_address;	/* without keys; 0 = no limit */
	int			wrong_keys;		/* wrong keys of one address within the window; 0 = no limit */
	int			wrong_key_window_s;
	int			dev_mode;		/* 0, 1: serve the paths that control the engine (dev_endpoints.c) */
	const char *allowed_origins;	/* separated by commas; "*" = any; "" = none */
	const char *ssl_cert_file;	/* "" = no TLS */
	const char *ssl_key_file;
	const char *seccomp;		/* on, off, require */
} HttpConf;

extern HttpConf http_conf;

/*
 * Parse one "name=value" of the command line.  The string must stay valid.  Returns false if the name is
 * unknown or the value is out of range.
 */
bool		conf_set(char *assignment);
/* May a page of this origin use the server? */
bool		conf_origin_allowed(const char *origin);

#endif
