/*
 * torch_zip.c
 *	  The archive that torch.save() writes: stored members of a ZIP file.
 *
 * The directory at the end names the members.  Files beyond 4 GB store its fields, and those of members,
 * as 64-bit numbers elsewhere (ZIP64).  Every offset and size is checked against the file.
 *
 * Tested by tests/unit/loader/test_torchfile.c and tests/fuzz/fuzz_torchfile.c.
 */
#include "loader/torch_zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define END_SIZE	22
#define END64_SIZE	56
#define LOCATOR_SIZE	20
#define ENTRY_SIZE	46
#define LOCAL_SIZE	30
#define MAX_DIR		(64u << 20)

static uint64_t
u64_at(const char *p)
{
	return torchzip_u32(p) | (uint64_t) torchzip_u32(p + 4) << 32;
}

/* Find the directory, from a copy of the file's end. */
static bool
find_directory(StrView zip, const char *tail, size_t n_tail, uint64_t *from, uint64_t *size)
{
	for (size_t at = n_tail >= END_SIZE ? n_tail - END_SIZE + 1 : 0; at-- > 0;)
	{
		const char *p = tail + at;
		uint64_t	where;
		char		end64[END64_SIZE];

		if (torchzip_u32(p) != 0x06054b50)
			continue;
		*size = torchzip_u32(p + 12);
		*from = torchzip_u32(p + 16);
		if ((*size != UINT32_MAX && *from != UINT32_MAX) || at < LOCATOR_SIZE ||
			torchzip_u32(p - LOCATOR_SIZE) != 0x07064b50)
			return true;
		where = u64_at(p - LOCATOR_SIZE + 8);
		if (zip.n < END64_SIZE || where > zip.n - END64_SIZE)
			return true;
		memcpy(end64, zip.s + where, sizeof(end64));
		*size = u64_at(end64 + 40);
		*from = u64_at(end64 + 48);
		return true;
	}
	return false;
}

/* Read the 64-bit sizes and offsets that an entry may have after its name. */
static void
wide_fields(const char *extra, size_t n, uint32_t whole, TorchMember *m)
{
	while (n >= 4 && torchzip_u16(extra) != 1)
	{
		size_t		skip = 4 + torchzip_u16(extra + 2);

		if (skip > n)
			return;
		extra += skip;
		n -= skip;
	}
	if (n < 4 || torchzip_u16(extra + 2) > n - 4)
		return;
	n = torchzip_u16(extra + 2);
	extra += 4;
	if (whole == UINT32_MAX && n >= 8)
	{
		extra += 8;
		n -= 8;
	}
	if (m->size == UINT32_MAX && n >= 8)
	{
		m->size = u64_at(extra);
		extra += 8;
		n -= 8;
	}
	if (m->local == UINT32_MAX && n >= 8)
		m->local = u64_at(extra);
}

static void
read_entries(TorchZip *z, size_t size)
{
	const char *p = z->dir;

	z->members = mem_alloc((size / ENTRY_SIZE + 1) * sizeof(TorchMember));
	while (size >= ENTRY_SIZE && torchzip_u32(p) == 0x02014b50)
	{
		size_t		n_name = torchzip_u16(p + 28);
		size_t		n_extra = torchzip_u16(p + 30);
		size_t		all = ENTRY_SIZE + n_name + n_extra + torchzip_u16(p + 32);
		const char *name = p + ENTRY_SIZE;
		const char *slash;
		TorchMember *m = &z->members[z->n];

		if (all > size)
			return;
		slash = memchr(name, '/', n_name);
		if (slash != NULL)
		{
			*m = (TorchMember) {.path = {slash, (size_t) (name + n_name - slash)},
								.size = torchzip_u32(p + 20),
								.local = torchzip_u32(p + 42), .stored = torchzip_u16(p + 10) == 0};
			wide_fields(name + n_name, n_extra, torchzip_u32(p + 24), m);
			z->n++;
		}
		p += all;
		size -= all;
	}
}

static int
compare(StrView a, StrView b)
{
	int			c = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);

	return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

static int
member_cmp(const void *a, const void *b)
{
	const TorchMember *x = a;
	const TorchMember *y = b;
	int			c = compare(x->path, y->path);

	/* if two members have the same name, the first in the directory counts */
	return c != 0 ? c : (x->path.s > y->path.s) - (x->path.s < y->path.s);
}

bool
torchzip_open(StrView bytes, TorchZip *out, Err *e)
{
	size_t		most = END_SIZE + 65535 + LOCATOR_SIZE;
	size_t		n_tail = bytes.n < most ? bytes.n : most;
	char	   *tail = mem_alloc(n_tail + 1);
	uint64_t	from;
	uint64_t	size;
	bool		found;

	*out = (TorchZip) {.bytes = bytes};
	if (n_tail > 0)
		memcpy(tail, bytes.s + bytes.n - n_tail, n_tail);
	found = find_directory(bytes, tail, n_tail, &from, &size);
	mem_free(tail);
	if (!found)
		return torchzip_bad(e, "no archive");
	if (from > bytes.n || size > bytes.n - from || size > MAX_DIR)
		return torchzip_bad(e, "the archive's directory lies outside of the file");
	if ((out->dir = mem_try_alloc((size_t) size + 1)) == NULL)
		return err_set(e, ERR_NOMEM, "out of memory for the directory of an archive");
	memcpy(out->dir, bytes.s + from, (size_t) size);
	read_entries(out, (size_t) size);
	qsort(out->members, out->n, sizeof(TorchMember), member_cmp);
	return true;
}

void
torchzip_close(TorchZip *z)
{
	mem_free(z->dir);
	mem_free(z->members);
	*z = (TorchZip) {0};
}

/* Return the member NAME KEY; NULL if there is none. */
static const TorchMember *
find_member(const TorchZip *z, const char *name, StrView key)
{
	char		path[256];
	size_t		len = strlen(name);
	size_t		lo = 0;
	size_t		hi = z->n;

	if (len + key.n > sizeof(path))
		return NULL;
	memcpy(path, name, len);
	if (key.n > 0)
		memcpy(path + len, key.s, key.n);
	while (lo < hi)
	{
		size_t		mid = lo + (hi - lo) / 2;

		if (compare(z->members[mid].path, (StrView) {path, len + key.n}) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < z->n && compare(z->members[lo].path, (StrView) {path, len + key.n}) == 0 ? &z->members[lo] :
		NULL;
}

/* Report what is wrong with a member. */
static bool
bad_member(const char *name, StrView key, const char *what, Err *e)
{
	char		text[160];
	size_t		n = key.n < 60 ? key.n : 60;

	/* a key is bytes of the file */
	snprintf(text, sizeof(text), "its member \"%s", name + 1);
	for (size_t i = 0, at = strlen(text); i < n; i++)
	{
		text[at++] = key.s[i] > ' ' && key.s[i] <= '~' ? key.s[i] : '?';
		text[at] = '\0';
	}
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "\" %s", what);
	return torchzip_bad(e, text);
}

bool
torchzip_find(const TorchZip *z, const char *name, StrView key, StrView *out, Err *e)
{
	char		local[LOCAL_SIZE];
	const TorchMember *m = find_member(z, name, key);
	uint64_t	skip;

	if (m == NULL)
		return bad_member(name, key, "is missing", e);
	if (!m->stored)
		return bad_member(name, key, "is compressed", e);
	if (z->bytes.n < LOCAL_SIZE || m->local > z->bytes.n - LOCAL_SIZE)
		return bad_member(name, key, "lies beyond the end of the file", e);
	memcpy(local, z->bytes.s + m->local, sizeof(local));
	skip = m->local + LOCAL_SIZE + torchzip_u16(local + 26) + torchzip_u16(local + 28);
	if (skip > z->bytes.n || m->size > z->bytes.n - skip)
		return bad_member(name, key, "lies beyond the end of the file", e);
	ALWAYS(skip + m->size <= z->bytes.n);
	*out = (StrView) {z->bytes.s + skip, (size_t) m->size};
	return true;
}
