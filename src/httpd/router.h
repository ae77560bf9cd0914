/*
 * router.h
 *	  The routes: which path is served how.
 */
#ifndef VLLM_HTTPD_ROUTER_H
#define VLLM_HTTPD_ROUTER_H

#include <stdbool.h>

#include "httpd/http_error.h"

typedef enum RouteKind
{
	R_HEALTH, R_VERSION, R_LOAD,	/* served by the program itself; no key is needed */
	R_METRICS,
	R_API,						/* llm_api(), llm_api_stream() */
	R_DEV,						/* dev_endpoints.c, if vllm.http_dev_mode is on */
	R_LORA						/* v1_load_lora_adapter(), v1_unload_lora_adapter(): /v1/NAME is v1_NAME() */
} RouteKind;

typedef struct HttpRoute
{
	const char *methods;		/* separated by spaces */
	const char *path;
	RouteKind	kind;
	bool		streams;		/* streams if the body asks for it */
	ErrorDialect dialect;
} HttpRoute;

/* Return NULL if the path is unknown. */
const HttpRoute *route_find(const char *path);
bool		route_allows(const HttpRoute *r, const char *method);
/* Return 0 .. route_count() - 1, for counters. */
int			route_number(const HttpRoute *r);
int			route_count(void);
const HttpRoute *route_at(int i);

#endif
