/*
 * futures.h
 *	  Requests that outlive their statement (futures.c).
 */
#ifndef VLLM_PG_CALL_FUTURES_H
#define VLLM_PG_CALL_FUTURES_H

/*
 * _PG_init: install hooks, so that DISCARD ALL drops the session's futures and a claim that waits for
 * a slot reads their replies
 */
void		vllm_future_init(void);
/* Drop all futures of the session. */
void		vllm_future_discard_all(void);

#endif
