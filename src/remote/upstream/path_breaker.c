/*
 * path_breaker.c
 *	  Circuit breakers of a url's paths.
 *
 * A 500, or a response that can't be decoded, may be about the kind of request only: an endpoint without
 * embeddings, or a server that doesn't know `echo`.  Such requests must not stop all others.  So these
 * failures count by path, and LB_RUN of them in a row stop that path alone: for a second, then 2, 4,
 * ... 30, until a call succeeds.  Calls that were running when the path was stopped only count if they
 * succeed.
 *
 * There is room for PATHS_MOST paths that have failed; the one that failed longest ago is forgotten.
 *
 * Tested by tests/unit/remote/upstream/test_remote_path_breaker.c.
 */
#include "remote/upstream/path_breaker.h"

#include <stdio.h>
#include <string.h>

#include "remote/upstream/load_balancer.h"

/* FNV-1a */
uint64_t
paths_key(const char *path, int shape)
{
	uint64_t	h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t) shape;

	h *= UINT64_C(0x100000001b3);
	for (const char *s = path; *s != '\0'; s++)
		h = (h ^ (unsigned char) *s) * UINT64_C(0x100000001b3);
	return h;
}

static const PathState *
find(const Paths *p, uint64_t key)
{
	for (int i = 0; i < PATHS_MOST; i++)
		if (p->v[i].run > 0 && p->v[i].key == key)
			return &p->v[i];
	return NULL;
}

int64_t
paths_open_us(const Paths *p, uint64_t key)
{
	const PathState *s = find(p, key);

	return s != NULL ? s->until_us : 0;
}

const char *
paths_error(const Paths *p, uint64_t key, int64_t now_us)
{
	const PathState *s = find(p, key);

	return s != NULL && s->until_us > now_us ? s->error : NULL;
}

/* Return an unused entry, or else the entry that failed longest ago. */
static PathState *
enter(Paths *p, uint64_t key)
{
	PathState  *to = &p->v[0];

	for (int i = 0; i < PATHS_MOST && to->run > 0; i++)
		if (p->v[i].run == 0 || p->v[i].used_us < to->used_us)
			to = &p->v[i];
	*to = (PathState) {.key = key};
	return to;
}

void
paths_end(Paths *p, uint64_t key, const char *error, int64_t begin_us, int64_t now_us)
{
	PathState  *s = (PathState *) find(p, key);

	if (error == NULL)
	{
		if (s != NULL)
			s->run = 0;
		return;
	}
	if (s == NULL)
		s = enter(p, key);
	s->used_us = now_us;
	snprintf(s->error, sizeof(s->error), "%s", error);
	if (begin_us < s->until_us)
		return;
	s->run++;
	if (s->run < LB_RUN)
		return;
	s->open_us = s->open_us == 0 ? LB_OPEN_US : s->open_us * 2;
	if (s->open_us > LB_OPEN_MAX_US)
		s->open_us = LB_OPEN_MAX_US;
	s->until_us = now_us + s->open_us;
}
