/*
 * variant.h
 *	  A fixture with a few changed files: a scratch directory of links to those of another fixture, so
 *	  that weights are not stored twice.
 *
 *	{"base": "NAME",			build/fixtures/pool/NAME
 *	 "links": {"to": "from"},	links to make; without it all of the base's files, by their own names
 *	 "files": {"path": null,	this file is removed,
 *			   "path": {...},	has this JSON value,
 *			   "path": {"tensors": {"name": {"shape": [...], "data": [...]}}}}}	or these tensors (F32)
 */
#ifndef VLLM_TESTS_VARIANT_H
#define VLLM_TESTS_VARIANT_H

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "tests/unit/check.h"

#define VARIANT_PATH 600

static inline void
variant_join(char *out, const char *dir, const char *name, size_t n)
{
	int			len = snprintf(out, VARIANT_PATH, "%s%s%.*s", dir, dir[0] != '\0' ? "/" : "", (int) n, name);

	if (len >= VARIANT_PATH)
		abort();
}

/* Return dir/name, and create its folder. */
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

/* Link all files of a folder of the base. */
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

/* Write a safetensors file. */
static inline void
variant_tensors(const char *path, const Json *tensors)
{
	Json	   *header = json_new(JSON_IS_OBJECT);
	Buf			data = {0};
	Buf			file = {0};
	const Json *t;
	const Json *x;
	char	   *text;
	uint64_t	n;

	json_each(t, tensors)
	{
		Json	   *h = json_add(header, t->key, JSON_IS_OBJECT);
		double		from = (double) data.len;
		Json	   *at;

		json_each(x, json_get(t, "data"))
		{
			float		v = (float) x->num;

			buf_add(&data, (const char *) &v, sizeof(v));
		}
		json_add_str(h, "dtype", "F32");
		json_add_copy(h, "shape", json_get(t, "shape"));
		at = json_add(h, "data_offsets", JSON_IS_ARRAY);
		json_add_num(at, NULL, from);
		json_add_num(at, NULL, (double) data.len);
	}
	text = json_print(header);
	n = strlen(text);
	buf_add(&file, (const char *) &n, sizeof(n));
	buf_add(&file, text, n);
	buf_add(&file, data.data, data.len);
	variant_write(path, file.data, file.len);
	mem_free(text);
	json_free(header);
	buf_free(&data);
	buf_free(&file);
}

/* dir: a template of mkdtemp(). */
static inline void
variant_make(char *dir, const char *fixtures, const Json *root)
{
	const Json *links = json_get(root, "links");
	const Json *x;
	char		base[VARIANT_PATH];
	char		at[VARIANT_PATH];

	CHECK(mkdtemp(dir) != NULL, "no scratch directory");
	snprintf(base, sizeof(base), "%s%s", fixtures, json_str_of(json_get(root, "base")));
	if (links == NULL)
		variant_link_all(dir, base, "");
	json_each(x, links)
	{
		variant_link(dir, x->key, base, x->s);
	}
	json_each(x, json_get(root, "files"))
	{
		const Json *tensors = json_get(x, "tensors");
		char	   *text = json_print(x);

		variant_at(at, dir, x->key);
		unlink(at);
		if (tensors != NULL)
			variant_tensors(at, tensors);
		else if (!json_is_null(x))
			variant_write(at, text, strlen(text));
		mem_free(text);
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
