/*
 * arena.h
 *	  One big, zeroed, 2 MB aligned piece of memory that is handed out once and
 *	  freed as a whole: a model's weights, its work space, its KV.
 */
#ifndef VLLM_MODEL_WEIGHTS_ARENA_H
#define VLLM_MODEL_WEIGHTS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* vllm.huge_pages */
typedef enum HugePages
{
	HUGE_TRY = 0,				/* ask for transparent ones, take what comes */
	HUGE_OFF,					/* keep transparent ones away */
	HUGE_ON						/* reserved ones (hugetlbfs) or an error */
} HugePages;

/* false when the name is none of try, off, on */
bool		huge_pages_by_name(const char *name, HugePages *out);

typedef struct MArena
{
	unsigned char *base;		/* NULL = nothing reserved */
	size_t		size;			/* bytes, a multiple of 2 MB */
	size_t		used;
	bool		of_file;		/* marena_map() */
	HugePages	huge;			/* as it was reserved */
	int			stored;			/* the file that has its content, + 1; 0 = it is in memory */
	bool		forgotten;		/* nothing has its content */
} MArena;

/*
 * Address space for size bytes (0 is fine), memory only where it gets touched;
 * with HUGE_ON all of it at once.  what: "The weights of ...", for the detail of an
 * ERR_NOMEM.
 */
bool		marena_reserve(MArena *a, size_t size, HugePages huge, const char *what, Err *e);
/* Read-only: size bytes of a file from `at`, a multiple of the page size, on; shared
 * with all who map it.  false with errno set. */
bool		marena_map(MArena *a, int fd, size_t at, size_t size);
/* From now on it may be written to: what is written is this one's alone.  false with errno set. */
bool		marena_own(MArena *a);
/* 64-byte aligned; the sum of all takes may not exceed the reservation */
void	   *marena_take(MArena *a, size_t size);
void		marena_free(MArena *a);

/*
 * Give the memory back, not the addresses: nothing may touch it before marena_fetch(), which brings the
 * content back.  It goes to a nameless file in dir; what was mapped from a file is just let go.  An
 * error (ERR_IO, ERR_NOMEM) leaves everything as it was.
 */
bool		marena_store(MArena *a, const char *dir, Err *e);
bool		marena_fetch(MArena *a, Err *e);
/*
 * Give the memory back without keeping the content: nothing may touch it before marena_adopt(), which takes
 * over that of another one with the same content; *from is empty then.  Only what was mapped from a file
 * stays there.  An error (ERR_NOMEM, ERR_INTERNAL: they are not alike) leaves both as they were.
 */
void		marena_forget(MArena *a);
bool		marena_adopt(MArena *a, MArena *from, Err *e);
/* Give the memory back and forget the content: it is zeros from now on. */
void		marena_drop(MArena *a);

/* What a take of size bytes uses up: add these to get the reservation's size.
 * false on overflow. */
bool		marena_add(size_t *total, size_t size);

#endif
