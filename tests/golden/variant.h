/*
 * variant.h
 *	  A fixture with a few other files: a scratch directory of links to those of another one, so that
 *	  no weights are kept twice.
 *
 *	{"base": "NAME",			build/fixtures/pool/NAME
 *	 "links": {"to": "from"},	what is there; without it all of the base's files, by their own names
 *	 "files": {"path": null,	... then this one isn't,
 *			   "path": {...},	... has this JSON value,
 *			   "path": {"tensors": {"name": {"shape": [...], "data": [...]}}}}}	or these tensors (F32)
 */
#ifndef VLLM_TESTS_VARIANT_H
#define VLLM_TESTS_VARIANT_H

#include <cjson/cJSON.h>
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/check.h"

#define VARIANT_PATH 600

static inline void
variant_join(char *out, const char *dir, const char *name, size_t n)
{
	int			len = snprintf(out, VARIANT_PATH, "%s%s%.*s", dir, dir[0] != '\0' ? "/" : "", (int) n, name);

	if (len >= VARIANT_PATH)
		abort();
}

/* dir/name, whose folder is made. */
static inline void
variant_at(char *out, const char *dir, const char *name)
{
	const char *slash = strchr(name, '/');

	if (slash != NULL)
	{
		variant_join(out, dir, name, (size_t) (slash - name));
		mkdir(out, 0700);
	}
	variant_join(out, dir, name, strlen(name));
}

static inline void
variant_link(const char *dir, const char *to, const char *base, const char *from)
{
	char		at[VARIANT_PATH];
	char		path[VARIANT_PATH];
	char	   *full;

	variant_join(path, base, from, strlen(from));
	full = realpath(path, NULL);
	variant_at(at, dir, to);
	CHECK(full != NULL && symlink(full, at) == 0, "link %s to %s", at, path);
	free(full);
}

/* All files of a folder of the base. */
static inline void
variant_link_all(const char *dir, const char *base, const char *folder)
{
	char		path[VARIANT_PATH];
	DIR		   *d;
	struct dirent *e;

	variant_join(path, base, folder, strlen(folder));
	d = opendir(path);
	while (d != NULL && (e = readdir(d)) != NULL)
	{
		char		name[VARIANT_PATH];

		variant_join(name, folder, e->d_name, strlen(e->d_name));
		if (e->d_name[0] == '.')
			continue;
		if (folder[0] == '\0' && e->d_type == DT_DIR)
			variant_link_all(dir, base, name);
		else
			variant_link(dir, name, base, name);
	}
	if (d != NULL)
		closedir(d);
}

static inline void
variant_write(const char *path, const void *data, size_t n)
{
	FILE	   *f = fopen(path, "wb");

	CHECK(f != NULL && fwrite(data, 1, n, f) == n, "file %s", path);
	if (f != NULL)
		fclose(f);
}

/* A file of safetensors. */
static inline void
variant_tensors(const char *path, const cJSON *tensors)
{
	cJSON	   *header = cJSON_CreateObject();
	Buf			data = {0};
	Buf			file = {0};
	const cJSON *t;
	const cJSON *x;
	char	   *text;
	uint64_t	n;

	cJSON_ArrayForEach(t, tensors)
	{
		cJSON	   *h = cJSON_AddObjectToObject(header, t->string);
		double		at[2] = {(double) data.len};

		cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(t, "data"))
		{
			float		v = (float) x->valuedouble;

			buf_add(&data, (const char *) &v, sizeof(v));
		}
		at[1] = (double) data.len;
		cJSON_AddStringToObject(h, "dtype", "F32");
		cJSON_AddItemToObject(h, "shape", cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(t, "shape"), true));
		cJSON_AddItemToObject(h, "data_offsets", cJSON_CreateDoubleArray(at, 2));
	}
	text = cJSON_PrintUnformatted(header);
	n = strlen(text);
	buf_add(&file, (const char *) &n, sizeof(n));
	buf_add(&file, text, n);
	buf_add(&file, data.data, data.len);
	variant_write(path, file.data, file.len);
	cJSON_free(text);
	cJSON_Delete(header);
	buf_free(&data);
	buf_free(&file);
}

/* dir: a template of mkdtemp(). */
static inline void
variant_make(char *dir, const char *fixtures, const cJSON *root)
{
	const cJSON *links = cJSON_GetObjectItemCaseSensitive(root, "links");
	const cJSON *x;
	char		base[VARIANT_PATH];
	char		at[VARIANT_PATH];

	CHECK(mkdtemp(dir) != NULL, "no scratch directory");
	snprintf(base, sizeof(base), "%s%s", fixtures, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "base")));
	if (links == NULL)
		variant_link_all(dir, base, "");
	cJSON_ArrayForEach(x, links)
	{
		variant_link(dir, x->string, base, x->valuestring);
	}
	cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(root, "files"))
	{
		const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(x, "tensors");
		char	   *text = cJSON_PrintUnformatted(x);

		variant_at(at, dir, x->string);
		unlink(at);
		if (tensors != NULL)
			variant_tensors(at, tensors);
		else if (!cJSON_IsNull(x))
			variant_write(at, text, strlen(text));
		cJSON_free(text);
	}
}

static inline void
variant_remove(const char *dir)
{
	DIR		   *d = opendir(dir);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
	{
		char		path[VARIANT_PATH];

		variant_join(path, dir, e->d_name, strlen(e->d_name));
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlink(path) != 0)
			variant_remove(path);
	}
	if (d != NULL)
		closedir(d);
	rmdir(dir);
}

#endif
