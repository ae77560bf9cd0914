/*
 * route.h
 *	  Which request is whose.
 */
#ifndef VLLM_HTTP_ROUTE_H
#define VLLM_HTTP_ROUTE_H

#include <stdbool.h>

#include "http/answer.h"

typedef enum RouteKind
{
	R_HEALTH, R_VERSION, R_LOAD,	/* of the door; no key is asked for */
	R_METRICS,
	R_API,						/* llm_api(), llm_api_stream() */
	R_DEV,						/* dev.c, if vllm.http_dev_mode is on */
	R_LORA						/* v1_load_lora_adapter(), v1_unload_lora_adapter(): /v1/NAME is v1_NAME() */
} RouteKind;

typedef struct Route
{
	const char *methods;		/* separated by spaces */
	const char *path;
	RouteKind	kind;
	bool		streams;		/* if the body asks for it */
	Dialect		dialect;
} Route;

/* NULL: no such path. */
const Route *route_find(const char *path);
bool		route_allows(const Route *r, const char *method);
/* 0 .. route_count() - 1, for counters */
int			route_number(const Route *r);
int			route_count(void);
const Route *route_at(int i);

#endif
