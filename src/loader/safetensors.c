/*
 * safetensors.c
 *	  Weights of a Hugging Face directory: model.safetensors, or the shards that
 *	  model.safetensors.index.json names; without these PyTorch's files (torch_weights.c).
 *
 * A safetensors file:
 *
 *	  OFFSET	SIZE	CONTENTS
 *	  0			8		N, length of the header, little-endian, at most 100 MB
 *	  8			N		JSON: {"name": {"dtype", "shape", "data_offsets": [b, e]}, ...}
 *	  8 + N		rest	the tensors; offsets count from here
 *
 * As in the reference implementation, the tensors must cover the rest of the file without hole or
 * overlap, so a truncated file is found before anything of it is used.  "__metadata__" is ignored.
 *
 * Tested by tests/unit/loader/test_safetensors.c and tests/fuzz/fuzz_safetensors.c.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json/json.h"
#include "loader/model_files_internal.h"

#define ST_MAX_HEADER 100000000u
#define ST_MAX_INDEX (64u << 20)

/* a tensor's byte range, to find holes and overlaps */
typedef struct StRange
{
	uint64_t	begin;
	uint64_t	end;
	const char *name;
} StRange;

typedef struct StCopy
{
	void	   *dst;
	const void *src;
	size_t		n;
} StCopy;

static void
copy_bytes(void *arg)
{
	StCopy	   *c = arg;

	memcpy(c->dst, c->src, c->n);
}

/* Read a JSON number that is an integer in 0..2^53; return false for any other value. */
static bool
json_u53(const Json *v, uint64_t *out)
{
	if (!json_is_number(v) || !(v->num >= 0 && v->num <= 0x1p53) ||
		v->num != (double) (uint64_t) v->num)
		return false;
	*out = (uint64_t) v->num;
	return true;
}

static bool
st_shape(const Json *v, int *ndim, int64_t *shape)
{
	const Json *d;
	uint64_t	n;

	if (!json_is_array(v))
		return false;
	*ndim = 0;
	json_each(d, v)
	{
		if (*ndim == 4 || !json_u53(d, &n))
			return false;
		shape[(*ndim)++] = (int64_t) n;
	}
	if (*ndim == 0)
		shape[(*ndim)++] = 1;	/* a scalar */
	return true;
}

/* Add one entry of the header.  prefix comes before its name. */
static bool
st_tensor(Files *f, int map, const char *prefix, uint64_t data, const Json *entry, StRange *range, Err *e)
{
	const char *path = f->maps[map].path;
	const char *name = entry->key;
	const Json *v;
	const Json *dtype = NULL;
	const Json *shape = NULL;
	const Json *offsets = NULL;
	const Quant *q;
	int			ndim;
	int64_t		dims[4];
	char		full[2 * FILES_MAX_NAME + 1];

	if (!files_name_ok(name, strlen(name)))
		return err_set(e, ERR_BAD_FILE, "file \"%s\" has a tensor with an invalid name", path);
	/* elements of an array have no name */
	if (!json_is_object(entry))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has no data type", name, path);
	json_each(v, entry)
	{
		if (strcmp(v->key, "dtype") == 0)
			dtype = v;
		else if (strcmp(v->key, "shape") == 0)
			shape = v;
		else if (strcmp(v->key, "data_offsets") == 0)
			offsets = v;
	}
	if (!json_is_string(dtype))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has no data type", name, path);
	if (!st_shape(shape, &ndim, dims))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has an invalid shape", name, path);
	if (!json_is_array(offsets) || json_count(offsets) != 2 ||
		!json_u53(offsets->child, &range->begin) || !json_u53(offsets->child->next, &range->end) ||
		range->end < range->begin)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has invalid data offsets",
					   name, path);
	if ((q = quant_by_dtype(dtype->s)) == NULL)
	{
		bool		sane = files_name_ok(dtype->s, strlen(dtype->s));

		err_set(e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has data type \"%s\", which is not "
									"supported",
				name, path, sane ? dtype->s : "?");
		return err_hint(e, "Supported data types are %s.", quant_dtype_list());
	}
	range->name = name;
	snprintf(full, sizeof(full), "%s%s", prefix, name);
	return files_add(f, map, full, q, ndim, dims, data + range->begin, range->end - range->begin, e);
}

static int
range_cmp(const void *a, const void *b)
{
	const StRange *x = a;
	const StRange *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Check that the ranges cover 0..size without hole or overlap. */
static bool
st_cover(const char *path, StRange *r, size_t n, uint64_t size, Err *e)
{
	uint64_t	at = 0;

	if (n > 0)
		qsort(r, n, sizeof(StRange), range_cmp);
	for (size_t i = 0; i < n; i++)
	{
		if (r[i].begin < at)
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" overlaps tensor \"%s\"",
						   r[i].name, path, r[i - 1].name);
		if (r[i].begin > at)
			return err_set(e, ERR_BAD_FILE, "file \"%s\" has a gap before tensor \"%s\"",
						   path, r[i].name);
		at = r[i].end;
	}
	if (at != size)
	{
		err_set(e, ERR_BAD_FILE, "file \"%s\" has the wrong length", path);
		return err_detail(e, "Its tensors take %llu bytes, %llu bytes follow the header.",
						  (unsigned long long) at, (unsigned long long) size);
	}
	return true;
}

/* Parse the header's JSON and add the tensors. */
static bool
st_header(Files *f, int map, const char *prefix, const char *json, size_t len, Err *e)
{
	const FileMap *m = &f->maps[map];
	Json	   *root;
	const Json *entry;
	StRange    *ranges = NULL;
	size_t		n = 0;
	bool		ok = true;

	if (!files_json_ok(m->path, json, len, FILES_JSON_TENSORS, e))
		return false;
	root = json_parse(json, len);
	if (!json_is_object(root))
	{
		json_free(root);
		return err_set(e, ERR_BAD_FILE, "file \"%s\" has an invalid header: it is not a JSON object",
					   m->path);
	}
	json_each(entry, root)
		n++;
	ranges = mem_alloc(n * sizeof(StRange));
	n = 0;
	json_each(entry, root)
	{
		if (strcmp(entry->key, "__metadata__") == 0)
			continue;
		if (!(ok = st_tensor(f, map, prefix, 8 + len, entry, &ranges[n++], e)))
			break;
	}
	ALWAYS(m->len >= 8 && len <= m->len - 8);
	ok = ok && st_cover(m->path, ranges, n, m->len - 8 - len, e);
	mem_free(ranges);
	json_free(root);
	return ok;
}

/* Map one file and add its tensors. */
bool
safetensors_file(Files *f, const char *path, const char *prefix, Err *e)
{
	uint8_t		head[8];
	uint64_t	len = 0;
	char	   *json;
	int			map = files_map(f, path, e);
	const FileMap *m = &f->maps[map < 0 ? 0 : map];
	bool		ok;

	if (map < 0)
		return false;
	if (m->len < 8)
		return err_set(e, ERR_BAD_FILE, "file \"%s\" is not a safetensors file: it has %zu bytes",
					   path, m->len);
	if (!load_read_guard(f, copy_bytes, &(StCopy) {head, m->base, 8}, e))
		return false;
	for (int i = 7; i >= 0; i--)
		len = len << 8 | head[i];
	if (len > ST_MAX_HEADER || len > m->len - 8)
	{
		err_set(e, ERR_BAD_FILE, "file \"%s\" is truncated or not a safetensors file", path);
		return err_detail(e, "Its header would have %llu bytes, the file has %zu.",
						  (unsigned long long) len, m->len);
	}
	if ((json = mem_try_alloc((size_t) len + 1)) == NULL)
		return err_set(e, ERR_NOMEM, "out of memory reading file \"%s\"", path);
	ok = load_read_guard(f, copy_bytes, &(StCopy) {json, m->base + 8, (size_t) len}, e) &&
		st_header(f, map, prefix, json, (size_t) len, e);
	mem_free(json);
	return ok;
}

static int
entry_cmp(const void *a, const void *b)
{
	return strcmp((*(const Json *const *) a)->s, (*(const Json *const *) b)->s);
}

/* The files in which a directory may have its weights: one file, or shards that an index names. */
typedef struct StKind
{
	const char *single;
	const char *index;
	const char *ending;			/* ending of a shard's name */
	bool		(*file) (Files *f, const char *path, const char *prefix, Err *e);
} StKind;

static const StKind kinds[] = {
	{"model.safetensors", "model.safetensors.index.json", ".safetensors", safetensors_file},
	{"pytorch_model.bin", "pytorch_model.bin.index.json", ".bin", torchweights_file}
};

/* Return true if a shard's name is a plain name with that ending, so that it is in the same
 * directory. */
static bool
shard_name_ok(const StKind *kind, const char *s)
{
	size_t		n = strlen(s);
	size_t		ending = strlen(kind->ending);

	return files_name_ok(s, n) && strchr(s, '/') == NULL && s[0] != '.' &&
		n > ending && strcmp(s + n - ending, kind->ending) == 0;
}

/* Open the shards (entries sorted by file) and check that each tensor is in the shard that the index
 * says. */
static bool
st_shards(Files *f, const StKind *kind, const char *index, Json **entries, size_t n, Err *e)
{
	for (size_t i = 0; i < n; i++)
	{
		const char *shard = entries[i]->s;
		char	   *path;
		bool		ok;

		if (i > 0 && strcmp(shard, entries[i - 1]->s) == 0)
			continue;
		path = files_join(f->root, shard);
		ok = kind->file(f, path, "", e);
		mem_free(path);
		if (!ok)
			return e->cls == ERR_IO && e->detail[0] == '\0' ?
				err_detail(e, "The file is named by \"%s\".", index) : false;
	}
	if (!files_index(f, e))
		return false;
	for (size_t i = 0; i < n; i++)
	{
		const KTensor *t = files_find(f, entries[i]->key);
		const char *at = t != NULL ? strrchr(files_where(f, t), '/') : NULL;

		if (at == NULL || strcmp(at + 1, entries[i]->s) != 0)
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" is not in file \"%s/%s\" where \"%s\" puts it",
						   files_name_ok(entries[i]->key, strlen(entries[i]->key)) ?
						   entries[i]->key : "?", f->root, entries[i]->s, index);
	}
	return true;
}

static bool
st_index(Files *f, const StKind *kind, const char *path, const Buf *text, Err *e)
{
	Json	   *root = json_parse(text->data, text->len);
	Json	   *map = json_get(root, "weight_map");
	Json	   *v;
	Json		  **entries;
	size_t		n = 0;
	bool		ok = json_is_object(map);

	if (!ok)
		err_set(e, ERR_BAD_FILE, "file \"%s\" has no \"weight_map\"", path);
	entries = mem_alloc((ok ? (size_t) json_count(map) : 0) * sizeof(Json *));
	for (v = ok ? map->child : NULL; v != NULL && ok; v = v->next)
	{
		ok = json_is_string(v) && shard_name_ok(kind, v->s);
		if (ok)
			entries[n++] = v;
		else
			err_set(e, ERR_BAD_FILE, "file \"%s\" has an invalid file name in its \"weight_map\"", path);
	}
	ALWAYS(n <= (json_is_object(map) ? (size_t) json_count(map) : 0));
	if (n > 0)
		qsort(entries, n, sizeof(Json *), entry_cmp);
	ok = ok && st_shards(f, kind, path, entries, n, e);
	mem_free(entries);
	json_free(root);
	return ok;
}

/* Neither file exists: report which other files the directory has. */
static bool
st_none(const char *path, Err *e)
{
	DIR		   *d = opendir(path);
	struct dirent *de;
	bool		pickle = false;

	while (d != NULL && (de = readdir(d)) != NULL)
	{
		const char *dot = strrchr(de->d_name, '.');

		pickle |= dot != NULL && (strcmp(dot, ".bin") == 0 || strcmp(dot, ".pth") == 0 ||
								  strcmp(dot, ".pt") == 0);
	}
	if (d != NULL)
		closedir(d);
	if (pickle)
	{
		err_set(e, ERR_UNSUPPORTED, "model \"%s\" has its weights in PyTorch files, which are not supported",
				path);
		return err_hint(e, "Convert them to safetensors: "
						"AutoModelForCausalLM.from_pretrained(dir).save_pretrained(newdir).");
	}
	return err_set(e, ERR_BAD_FILE, "model \"%s\" has neither model.safetensors nor "
									"model.safetensors.index.json",
				   path);
}

bool
safetensors_there(const char *dir)
{
	static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
	bool		there = false;

	for (int i = 0; i < 2; i++)
	{
		char	   *path = files_join(dir, names[i]);

		there = there || files_exists(path);
		mem_free(path);
	}
	return there;
}

/* Open the weights of a folder if it has any of this kind, and set *found. */
static bool
st_open_kind(Files *f, const StKind *kind, bool *found, Err *e)
{
	char	   *single = files_join(f->root, kind->single);
	char	   *index = files_join(f->root, kind->index);
	Buf			text = {0};
	bool		ok = true;

	*found = true;
	if (files_exists(single))
		ok = kind->file(f, single, "", e);
	else if (files_exists(index))
		ok = files_slurp(index, ST_MAX_INDEX, &text, e) &&
			files_json_ok(index, text.data, text.len, FILES_JSON_TENSORS, e) &&
			st_index(f, kind, index, &text, e);
	else
		*found = false;
	buf_free(&text);
	mem_free(single);
	mem_free(index);
	return ok;
}

bool
safetensors_open(Files *f, Err *e)
{
	bool		found = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !found; i++)
		if (!st_open_kind(f, &kinds[i], &found, e))
			return false;
	return found || st_none(f->root, e);
}

bool
safetensors_add(Files *f, const char *dir, const char *prefix, Err *e)
{
	char	   *folder = files_join(f->path, dir);
	char	   *file = files_join(folder, "model.safetensors");
	bool		ok = files_exists(file) ? safetensors_file(f, file, prefix, e) : st_none(folder, e);

	mem_free(file);
	mem_free(folder);
	return ok;
}
