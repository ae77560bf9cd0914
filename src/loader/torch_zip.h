/*
 * torch_zip.h
 *	  The archive that torch.save() writes: stored members of a ZIP file.
 */
#ifndef VLLM_LOADER_TORCH_ZIP_H
#define VLLM_LOADER_TORCH_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str_view.h"

typedef struct TorchMember
{
	StrView		path;			/* after the first folder, with its slash */
	uint64_t	local;			/* offset of the member's local header */
	uint64_t	size;
	bool		stored;			/* not compressed */
} TorchMember;

/*
 * An open archive.  Its directory is a copy: a file that changes meanwhile can make the directory
 * outdated, but can't replace it by an unchecked one.
 */
typedef struct TorchZip
{
	StrView		bytes;			/* the file */
	char	   *dir;
	TorchMember *members;		/* sorted by path */
	size_t		n;
} TorchZip;

bool		torchzip_open(StrView bytes, TorchZip *out, Err *e);
void		torchzip_close(TorchZip *z);
/* Find the member NAME KEY of the first folder. */
bool		torchzip_find(const TorchZip *z, const char *name, StrView key, StrView *out, Err *e);

/* Read numbers of both formats (ZIP and pickle), least byte first. */
static inline uint32_t
torchzip_u16(const char *p)
{
	return (uint32_t) (unsigned char) p[0] | (uint32_t) (unsigned char) p[1] << 8;
}

static inline uint32_t
torchzip_u32(const char *p)
{
	return torchzip_u16(p) | torchzip_u16(p + 2) << 16;
}

/* Report what is wrong with an archive or its pickle; the caller says whose.  Inline, so that compilers see
 * that it always returns false. */
static inline bool
torchzip_bad(Err *e, const char *what)
{
	err_set(e, ERR_BAD_FILE, "%s", what);
	return false;
}

#endif
