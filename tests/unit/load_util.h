/*
 * load_util.h
 *	  Helpers for tests of the loader: a scratch directory, files of given bytes, and checks of errors.
 */
#ifndef VLLM_TESTS_LOAD_UTIL_H
#define VLLM_TESTS_LOAD_UTIL_H

#include <dirent.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "loader/model_files.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/models/"

static char scratch[] = "/tmp/vllm_test_load_XXXXXX";

static inline void
scratch_make(void)
{
	if (mkdtemp(scratch) == NULL)
	{
		perror(scratch);
		exit(1);
	}
}

/* Do all rows of a tensor pass the checks of their content? */
static inline bool
tensor_ok(const Files *f, const KTensor *t, Err *e)
{
	int64_t		rows = t->nbytes > 0 ? t->shape[0] : 0;

	for (int i = 1; i < t->ndim - 1; i++)
		rows *= t->shape[i];
	return files_check_rows(f, t, 0, rows, e);
}

/* Return the text of the chat template of that name; NULL if the files have none. */
static inline const char *
template_text(const FilesTokenizer *t, const char *name)
{
	for (size_t i = 0; i < t->n_templates; i++)
		if (strcmp(t->templates[i].name, name) == 0)
			return t->templates[i].text;
	return NULL;
}

/* Remove the files in the scratch directory. */
static inline void
scratch_clear(void)
{
	DIR		   *d = opendir(scratch);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL)
		if (de->d_name[0] != '.')
			unlinkat(dirfd(d), de->d_name, 0);
	if (d != NULL)
		closedir(d);
}

static inline void
scratch_remove(void)
{
	scratch_clear();
	rmdir(scratch);
}

/* Return the path of a file in the scratch directory; valid until the fourth call from now. */
static inline const char *
in_scratch(const char *name)
{
	static char paths[4][300];
	static int	next;
	char	   *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", scratch, name);
	return p;
}

static inline void
put_file(const char *name, const void *data, size_t len)
{
	FILE	   *f = fopen(in_scratch(name), "wb");

	if (f == NULL || fwrite(data, 1, len, f) != len || fclose(f) != 0)
	{
		perror(name);
		exit(1);
	}
}

static inline void
put_text(const char *name, const char *text)
{
	put_file(name, text, strlen(text));
}

static inline void
read_file(const char *path, Buf *out)
{
	FILE	   *f = fopen(path, "rb");
	char		part[4096];
	size_t		n;

	buf_reset(out);
	if (f == NULL)
	{
		perror(path);
		exit(1);
	}
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(out, part, n);
	fclose(f);
}

/* files_open(path) must fail with this class and a message that contains in_msg. */
static inline void
expect_refused(const char *what, const char *path, ErrClass cls, const char *in_msg)
{
	Err			e = {0};
	Files	   *f = files_open(path, &e);

	CHECK(f == NULL && e.cls == cls && strstr(e.msg, in_msg) != NULL,
		  "%s: expected %s \"%s\", got %s \"%s\"", what, err_sqlstate(cls), in_msg,
		  f != NULL ? "success" : err_sqlstate(e.cls), e.msg);
	files_close(f);
}

#endif
