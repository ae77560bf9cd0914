/*
 * offline.h
 *	  vllm_pg_engine --offline: the core on its own, without PostgreSQL.
 */
#ifndef VLLM_BACKEND_OFFLINE_H
#define VLLM_BACKEND_OFFLINE_H

/* Return the exit status: 0, or 1 if a prompt failed or nothing could run. */
int			offline_main(int argc, char **argv);

#endif
