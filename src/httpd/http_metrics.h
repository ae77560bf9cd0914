/*
 * http_metrics.h
 *	  The program's own metrics in /metrics.
 */
#ifndef VLLM_HTTPD_HTTP_METRICS_H
#define VLLM_HTTPD_HTTP_METRICS_H

#include "base/buf.h"
#include "httpd/router.h"

/* Count a response that begins.  route NULL: unknown path. */
void		count_answer(const HttpRoute *route, const char *method, int status);
/* Write the counters as Prometheus text. */
void		count_text(Buf *b);

#endif
