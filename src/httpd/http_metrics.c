/*
 * http_metrics.c
 *	  The program's own metrics in /metrics: responses by path, method and class of status.
 */
#include "httpd/http_metrics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "httpd/handler.h"

#define MAX_ROUTES	64
#define CLASSES		6			/* 1xx .. 5xx; 0 is not used */

static const char *const methods[] = {"GET", "POST", "HEAD", "OPTIONS", "other"};

#define METHODS		((int) (sizeof(methods) / sizeof(methods[0])))

/* the last row counts unknown paths */
static _Atomic uint64_t answers[MAX_ROUTES + 1][METHODS][CLASSES];

void
count_answer(const HttpRoute *route, const char *method, int status)
{
	int			row = route != NULL ? route_number(route) : MAX_ROUTES;
	int			m = 0;

	while (m < METHODS - 1 && strcmp(methods[m], method) != 0)
		m++;
	if (status >= 100 && status < 600 && row <= MAX_ROUTES)
		atomic_fetch_add(&answers[row][m][status / 100], 1);
}

void
count_text(Buf *b)
{
	buf_addstr(b, "# HELP http_requests_total HTTP requests by path, method and class of status.\n"
			   "# TYPE http_requests_total counter\n");
	for (int row = 0; row <= MAX_ROUTES; row++)
		for (int i = 0; i < METHODS * CLASSES; i++)
		{
			uint64_t	n = atomic_load(&answers[row][i / CLASSES][i % CLASSES]);

			if (n > 0)
				buf_printf(b, "http_requests_total{handler=\"%s\",method=\"%s\",status=\"%dxx\"} %" PRIu64
						   "\n", row < route_count() ? route_at(row)->path : "none", methods[i / CLASSES],
						   i % CLASSES, n);
		}
	buf_printf(b, "# HELP http_requests_in_progress HTTP requests of the API that are being answered.\n"
			   "# TYPE http_requests_in_progress gauge\nhttp_requests_in_progress %d\n", serve_load());
}
