/*
 * progress.h
 *	  What a pool tells of its progress (view llm_progress).
 */
#ifndef VLLM_PG_BATCH_PROGRESS_H
#define VLLM_PG_BATCH_PROGRESS_H

#include "postgres.h"

#include "pg/batch/row_request.h"

/* The backend's entry is the pool's from now on, unless an outer one has it. */
void		batch_progress_begin(const BatchPool *p);
/* Counters of the pool have changed. */
void		batch_progress_update(const BatchPool *p);
void		batch_progress_row(const BatchPool *p, int64 rows);
/* The entry is free again, if it is this pool's.  Never throws. */
void		batch_progress_end(const BatchPool *p);

/* vllm.progress_interval */
void		batch_progress_notice(const BatchPool *p, int64 rows);

#endif
