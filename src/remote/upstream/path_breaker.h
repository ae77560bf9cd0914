/*
 * path_breaker.h
 *	  Circuit breakers of a url's paths: calls of one path fail although the url works.
 */
#ifndef VLLM_REMOTE_UPSTREAM_PATH_BREAKER_H
#define VLLM_REMOTE_UPSTREAM_PATH_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define PATHS_MOST		16

typedef struct PathState
{
	uint64_t	key;			/* paths_key() */
	int			run;			/* failures in a row; 0 = entry is unused */
	int64_t		until_us;		/* no call before */
	int64_t		open_us;		/* its last time open; 0 = closed */
	int64_t		used_us;
	char		error[200];		/* last error */
} PathState;

typedef struct Paths
{
	PathState	v[PATHS_MOST];
} Paths;

/*
 * Return the key of a path together with the shape of its responses: listing choices and generating use
 * the same path, but fail separately.
 */
uint64_t	paths_key(const char *path, int shape);
/* Return the time before which the path gets no call; 0 = now. */
int64_t		paths_open_us(const Paths *p, uint64_t key);
/*
 * A call that began at begin_us has ended.  error: how it failed by the path's fault; NULL: the path
 * works.
 */
void		paths_end(Paths *p, uint64_t key, const char *error, int64_t begin_us, int64_t now_us);
/* Return the path's last error while it is open, else NULL. */
const char *paths_error(const Paths *p, uint64_t key, int64_t now_us);

#endif
