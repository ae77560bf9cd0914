/*
 * fingerprint.c
 *	  Fingerprints of a model's files: equal strings = the same files.
 *
 * A fingerprint has device, inode, size, mtime and ctime of each file; the files are not read.
 *
 * Tested by tests/unit/server/models/test_models_registry.c.
 */
#include "server/models/registry_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "core/spec/spec_config.h"
#include "loader/model_files.h"

static void
print_stat(Buf *b, const struct stat *st)
{
	buf_printf(b, "%ju:%ju:%jd:%jd.%09ld:%jd.%09ld;", (uintmax_t) st->st_dev, (uintmax_t) st->st_ino,
			   (intmax_t) st->st_size, (intmax_t) st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
			   (intmax_t) st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static int
visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static void
print_files(Buf *b, const char *path)
{
	size_t		before = b->len;
	struct stat st;
	struct dirent **names;
	int			n;

	if (stat(path, &st) != 0)
		buf_printf(b, "%s: errno %d", path, errno);
	else if (!S_ISDIR(st.st_mode))
	{
		char	   *part;

		print_stat(b, &st);
		for (int i = 1; (part = files_other_part(path, i)) != NULL; i++)
		{
			if (stat(part, &st) == 0)
				print_stat(b, &st);
			else
				buf_printf(b, "errno %d;", errno);
			mem_free(part);
		}
	}
	else if ((n = scandir(path, &names, visible, alphasort)) < 0)
		buf_printf(b, "%s: errno %d", path, errno);
	else
	{
		for (int i = 0; i < n; i++)
		{
			char		file[PATH_MAX];

			if (snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name) < (int) sizeof(file) &&
				stat(file, &st) == 0 && S_ISREG(st.st_mode))
				print_stat(b, &st);
			free(names[i]);
		}
		free(names);
	}
	if (b->len == before)
		buf_printf(b, "%s: empty", path);
}

bool
model_opts_draft_path(const ModelOpts *o, char *path)
{
	SpecConfig	spec;
	Err			e;

	if (!spec_config_parse(o->speculative_config, &spec, &e))
		return false;
	snprintf(path, SPEC_PATH, "%s", spec.model);
	return path[0] != '\0';
}

char *
files_fingerprint(const char *path, const ModelOpts *o)
{
	Buf			b = {0};
	char		draft[SPEC_PATH];

	print_files(&b, path);
	if (model_opts_draft_path(o, draft))
		print_files(&b, draft);
	return b.data;
}
