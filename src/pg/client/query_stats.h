/*
 * request_stat.h
 *	  Statistics of requests by query and by role, in shared memory.
 */
#ifndef VLLM_PG_REQUEST_STAT_H
#define VLLM_PG_REQUEST_STAT_H

#include "pg/request_note.h"

/* settings */
extern int	vllm_stat_max;		/* entries */
extern bool vllm_stat_track;
extern bool vllm_stat_save;

Size		request_stat_shared_size(void);
void		request_stat_shared_init(void);

/* A request has ended.  Throws nothing; allocates nothing unless it is REQUEST_DONE or REQUEST_FAILED. */
void		request_stat_count(const RequestNote *n, RequestEnd end, const char *model, const RequestFigures *r);

#endif
