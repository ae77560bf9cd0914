/*
 * progress.h
 *	  How a pool reports its progress (view llm_progress).
 */
#ifndef VLLM_PG_BATCH_PROGRESS_H
#define VLLM_PG_BATCH_PROGRESS_H

#include "postgres.h"

#include "pg/batch/row_request.h"

/* Give the backend's entry to the pool, unless an outer pool has it. */
void		batch_progress_begin(const BatchPool *p);
/* Publish the pool's counters. */
void		batch_progress_update(const BatchPool *p);
void		batch_progress_row(const BatchPool *p, int64 rows);
/* Free the entry, if it is this pool's.  Never throws. */
void		batch_progress_end(const BatchPool *p);

/* vllm.progress_interval */
void		batch_progress_notice(const BatchPool *p, int64 rows);

#endif
