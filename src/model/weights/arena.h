/*
 * arena.h
 *	  One large, zeroed, 2 MB aligned piece of memory, handed out once and freed as a whole: a model's
 *	  weights, its work space, its KV cache.
 */
#ifndef VLLM_MODEL_WEIGHTS_ARENA_H
#define VLLM_MODEL_WEIGHTS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* vllm.huge_pages */
typedef enum HugePages
{
	HUGE_TRY = 0,				/* request transparent huge pages, accept any */
	HUGE_OFF,					/* no transparent huge pages */
	HUGE_ON						/* reserved ones (hugetlbfs) or an error */
} HugePages;

/* Return false if the name is none of try, off, on. */
bool		huge_pages_by_name(const char *name, HugePages *out);

typedef struct MArena
{
	unsigned char *base;		/* NULL = nothing reserved */
	size_t		size;			/* bytes, a multiple of 2 MB */
	size_t		used;
	bool		of_file;		/* marena_map() */
	HugePages	huge;			/* as reserved */
	int			stored;			/* descriptor of the file with its content, + 1; 0 = the content is in
								 * memory */
	bool		forgotten;		/* the content is lost */
} MArena;

/*
 * Reserve address space for size bytes (0 is allowed); memory is allocated when it is touched, with
 * HUGE_ON at once.  what: "The weights of ...", for the detail of an ERR_NOMEM.
 */
bool		marena_reserve(MArena *a, size_t size, HugePages huge, const char *what, Err *e);
/* Map size bytes of a file read-only, from `at`, a multiple of the page size; the pages are shared with
 * other processes that map the file.  Return false with errno set on error. */
bool		marena_map(MArena *a, int fd, size_t at, size_t size);
/* Make a mapped arena writable; writes are private to this process.  Return false with errno set on
 * error. */
bool		marena_own(MArena *a);
/* Take the next piece, 64-byte aligned; the sum of all pieces may not exceed the reservation. */
void	   *marena_take(MArena *a, size_t size);
void		marena_free(MArena *a);

/*
 * Give the memory back but keep the addresses; nothing may touch them before marena_fetch() restores the
 * content.  marena_store() writes the content to a nameless file in dir; content mapped from a file is
 * just unmapped.  On an error (ERR_IO, ERR_NOMEM) nothing changes.
 */
bool		marena_store(MArena *a, const char *dir, Err *e);
bool		marena_fetch(MArena *a, Err *e);
/*
 * Give the memory back without keeping the content; nothing may touch it before marena_adopt(), which
 * takes over the memory of another arena with the same content; *from is then fit for marena_free()
 * only.  Only content mapped from a file stays in that file.  On an error (ERR_NOMEM, ERR_INTERNAL: the
 * arenas differ) both stay as they were.
 */
void		marena_forget(MArena *a);
bool		marena_adopt(MArena *a, MArena *from, Err *e);
/* Give the memory back and lose the content: it reads as zeros from now on. */
void		marena_drop(MArena *a);

/* Add to *total what a take of size bytes needs, to compute a reservation's size.  Return false on
 * overflow. */
bool		marena_add(size_t *total, size_t size);

#endif
