/*
 * count.h
 *	  The door's own figures in /metrics.
 */
#ifndef VLLM_HTTP_COUNT_H
#define VLLM_HTTP_COUNT_H

#include "base/buf.h"
#include "http/route.h"

/* an answer begins; route NULL: no such path */
void		count_answer(const Route *route, const char *method, int status);
/* Prometheus text */
void		count_text(Buf *b);

#endif
