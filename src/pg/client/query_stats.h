/*
 * query_stats.h
 *	  Statistics of requests by query and by role, in shared memory.
 */
#ifndef VLLM_PG_CLIENT_QUERY_STATS_H
#define VLLM_PG_CLIENT_QUERY_STATS_H

#include "pg/client/request_tracking.h"

/* settings */
extern int	vllm_stat_max;		/* entries */
extern bool vllm_stat_track;
extern bool vllm_stat_save;

Size		request_stat_shared_size(void);
void		request_stat_shared_init(void);

/* Count a request that has ended.  Never throws; allocates only for REQUEST_DONE and REQUEST_FAILED. */
void		request_stat_count(const RequestTracking *n, RequestEnd end, const char *model,
							   const RequestFigures *r);

#endif
