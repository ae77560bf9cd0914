/*
 * futures.h
 *	  Requests that outlive their statement (futures.c).
 */
#ifndef VLLM_PG_CALL_FUTURES_H
#define VLLM_PG_CALL_FUTURES_H

/* _PG_init: DISCARD ALL drops the session's futures; a claim that waits reads them */
void		vllm_future_init(void);
/* Gives up all futures of the session. */
void		vllm_future_discard_all(void);

#endif
