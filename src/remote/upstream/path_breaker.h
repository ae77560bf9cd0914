/*
 * path_breaker.h
 *	  Breakers of a url's paths: what is asked there fails, while the url works.
 */
#ifndef VLLM_REMOTE_UPSTREAM_PATH_BREAKER_H
#define VLLM_REMOTE_UPSTREAM_PATH_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define PATHS_MOST		16

typedef struct PathState
{
	uint64_t	key;			/* paths_key() */
	int			run;			/* failures in a row; 0 = free */
	int64_t		until_us;		/* it isn't asked before */
	int64_t		open_us;		/* how long it was open last; 0 = closed */
	int64_t		used_us;
	char		error[200];		/* the last one */
} PathState;

typedef struct Paths
{
	PathState	v[PATHS_MOST];
} Paths;

/* Of a path, and how its answers are read: who lists choices and who generates ask the same one. */
uint64_t	paths_key(const char *path, int shape);
/* Not before (0 = now) */
int64_t		paths_open_us(const Paths *p, uint64_t key);
/*
 * A call has ended that began at begin_us; error: it failed, which was the path's fault; NULL: the path works
 */
void		paths_end(Paths *p, uint64_t key, const char *error, int64_t begin_us, int64_t now_us);
/* The last error of one that is open, NULL = it isn't. */
const char *paths_error(const Paths *p, uint64_t key, int64_t now_us);

#endif
