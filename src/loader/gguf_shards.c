/*
 * gguf_shards.c
 *	  The names of GGUF files: the parts of a split model, the model in a directory.
 *
 * Big models are split into PREFIX-00001-of-00003.gguf and so on.  Users name such a model by its first
 * part, which has all metadata.  The loader finds the others by their names; they have tensors only.
 *
 * Tested by tests/unit/loader/test_gguf.c.
 */
#include "loader/gguf.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "loader/model_files_internal.h"

#define SUFFIX 20				/* bytes of "-00001-of-00003.gguf" */
#define MAX_LISTED 8			/* names in an error's hint */

char *
gguf_part_path(const char *path, int no, int count, int other)
{
	size_t		n = strlen(path);
	char		suffix[64];
	char	   *out;

	snprintf(suffix, sizeof(suffix), "-%05d-of-%05d.gguf", no + 1, count);
	if (n < strlen(suffix) || strcmp(path + n - strlen(suffix), suffix) != 0)
		return NULL;
	out = mem_strdup(path);
	snprintf(out + n - strlen(suffix), strlen(suffix) + 1, "-%05d-of-%05d.gguf", other + 1, count);
	return out;
}

char *
files_other_part(const char *path, int i)
{
	size_t		n = strlen(path);
	int			count = n > SUFFIX ? atoi(path + n - 10) : 0;

	return i >= 1 && i < count && count <= FILES_MAX_MAPS ? gguf_part_path(path, 0, count, i) : NULL;
}

/* Return true if the name is that of a GGUF model or of its first part.  Image encoders (mmproj files)
 * that lie beside a model are no models. */
static bool
is_model(const char *name)
{
	size_t		n = strlen(name);
	const char *suffix = n > SUFFIX ? name + n - SUFFIX : "";

	if (!files_name_ok(name, n) || name[0] == '.' || n <= 5 || strcmp(name + n - 5, ".gguf") != 0 ||
		strncmp(name, "mmproj", 6) == 0)
		return false;
	return suffix[0] != '-' || strspn(suffix + 1, "0123456789") != 5 || strncmp(suffix + 6, "-of-", 4) != 0 ||
		strncmp(suffix + 1, "00001", 5) == 0;
}

static int
name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Return a directory's models, sorted by name, and set *n to their number, at most MAX_LISTED + 1.  The
 * caller frees the list and the names. */
static char **
list_models(const char *dir, size_t *n)
{
	DIR		   *d = opendir(dir);
	struct dirent *de;
	char	  **names = mem_alloc((MAX_LISTED + 1) * sizeof(char *));

	*n = 0;
	while (d != NULL && *n <= MAX_LISTED && (de = readdir(d)) != NULL)
		if (is_model(de->d_name))
			names[(*n)++] = mem_strdup(de->d_name);
	if (d != NULL)
		closedir(d);
	qsort(names, *n, sizeof(char *), name_cmp);
	return names;
}

bool
gguf_in_directory(const char *dir, char **path, Err *e)
{
	size_t		n;
	char	  **names = list_models(dir, &n);
	Buf			list = {0};

	*path = n == 1 ? files_join(dir, names[0]) : NULL;
	if (n > 1)
	{
		for (size_t i = 0; i < n && i < MAX_LISTED; i++)
			buf_printf(&list, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
		err_set(e, ERR_BAD_FILE, "directory \"%s\" has more than one GGUF model", dir);
		err_hint(e, "Give the path of one of them: %s%s.", list.data, n > MAX_LISTED ? ", ..." : "");
	}
	for (size_t i = 0; i < n; i++)
		mem_free(names[i]);
	mem_free(names);
	buf_free(&list);
	return n <= 1;
}
