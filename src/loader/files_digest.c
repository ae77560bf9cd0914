/*
 * files_digest.c
 *	  Digests of a model's files: of its texts, and of its weights.
 *
 * Texts are the configurations, tokenizers and prompts beside the weights, in the model's folder and the
 * folders of its modules; weights are the mapped files as they are.  A digest contains no absolute path,
 * no time and no owner, so a copy elsewhere has the same digest.  What goes into a digest must not
 * change, because users store digests.
 *
 * Tested by tests/unit/loader/test_load_files.c.
 */
#include "loader/model_files_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_TEXTS 4096

typedef struct TextNames
{
	char	  **v;				/* paths relative to the model's folder */
	int			n;
} TextNames;

static bool
has_end(const char *name, const char *end)
{
	size_t		n = strlen(name);
	size_t		m = strlen(end);

	return n > m && strcmp(name + n - m, end) == 0;
}

/* Return true for a text file that counts.  generation_config.json doesn't: no vector depends on how
 * text is generated. */
static bool
is_text(const char *name)
{
	static const char *const ends[] = {".json", ".txt", ".model", ".tiktoken", ".jinja"};

	if (strcmp(name, "generation_config.json") == 0)
		return false;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (has_end(name, ends[i]))
			return true;
	return false;
}

/* Collect the names of the text files of a folder.  inner: a folder within root, or "" = root itself,
 * whose sub-folders are collected, too. */
static bool
collect(const char *root, const char *inner, TextNames *names, Err *e)
{
	char	   *dir = files_join(root, inner);
	DIR		   *d = opendir(dir);
	struct dirent *entry;
	bool		ok = d != NULL || err_set(e, ERR_IO, "could not open directory \"%s\": %m", dir);

	while (ok && (entry = readdir(d)) != NULL)
	{
		char	   *name = inner[0] != '\0' ? files_join(inner, entry->d_name) : mem_strdup(entry->d_name);
		char	   *path = files_join(root, name);
		struct stat st;
		bool		there = entry->d_name[0] != '.' && stat(path, &st) == 0;

		if (there && S_ISDIR(st.st_mode) && inner[0] == '\0')
			ok = collect(root, name, names, e);
		else if (there && S_ISREG(st.st_mode) && is_text(entry->d_name))
		{
			if (names->n == MAX_TEXTS)
				ok = err_set(e, ERR_BAD_FILE, "model \"%s\" has more than %d texts", root, MAX_TEXTS);
			else
			{
				names->v[names->n++] = name;
				name = NULL;
			}
		}
		mem_free(name);
		mem_free(path);
	}
	if (d != NULL)
		closedir(d);
	mem_free(dir);
	return ok;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Add one part with its name and its length, so that one part can't look like two. */
static void
add_part(Blake2 *b, const char *name, const void *data, size_t n)
{
	char		head[32];

	snprintf(head, sizeof(head), " %zu\n", n);
	blake2_add(b, name, strlen(name));
	blake2_add(b, head, strlen(head));
	blake2_add(b, data, n);
}

bool
files_digest_texts(const char *path, uint8_t out[BLAKE2_BYTES], Err *e)
{
	TextNames	names = {.v = mem_zalloc(MAX_TEXTS * sizeof(char *))};
	struct stat st;
	Blake2		b;
	bool		ok = true;

	blake2_begin(&b, NULL, 0);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		ok = collect(path, "", &names, e);
	qsort(names.v, (size_t) names.n, sizeof(char *), compare_names);
	for (int i = 0; i < names.n; i++)
	{
		char	   *file = files_join(path, names.v[i]);
		Buf			text = {0};

		ok = ok && files_slurp(file, FILES_MAX_TOKENIZER, &text, e);
		if (ok)
			add_part(&b, names.v[i], text.data != NULL ? text.data : "", text.len);
		buf_free(&text);
		mem_free(file);
		mem_free(names.v[i]);
	}
	mem_free(names.v);
	blake2_end(&b, out);
	return ok;
}

/* ---- weights ---- */

typedef struct WeightSum
{
	const Files *f;
	int		   *order;			/* [n_maps] */
	Blake2		b;
} WeightSum;

/* Return a mapping's name within the model's folder, or "" for the files of a GGUF model, which users
 * name. */
static const char *
name_of(const Files *f, int map)
{
	size_t		n = strlen(f->path);
	const char *path = f->maps[map].path;

	if (f->gguf != NULL || strncmp(path, f->path, n) != 0)
		return "";
	return path + n + strspn(path + n, "/");
}

/* Sort mappings by name, so that the order of opening doesn't count.  Insertion sort: they are few and
 * mostly in order. */
static void
sort_maps(const Files *f, int *order)
{
	for (int i = 0; i < f->n_maps; i++)
	{
		int			at = i;

		for (; at > 0 && strcmp(name_of(f, order[at - 1]), name_of(f, i)) > 0; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

static void
sum_weights(void *arg)
{
	WeightSum  *s = arg;

	for (int i = 0; i < s->f->n_maps; i++)
	{
		const FileMap *m = &s->f->maps[s->order[i]];

		ASSERT(m->base != NULL || m->len == 0);
		add_part(&s->b, name_of(s->f, s->order[i]), m->base, m->len);
	}
}

bool
files_digest_weights(const Files *f, uint8_t out[BLAKE2_BYTES], Err *e)
{
	WeightSum	s = {.f = f,.order = mem_zalloc((size_t) (f->n_maps + 1) * sizeof(int))};
	bool		ok;

	sort_maps(f, s.order);
	blake2_begin(&s.b, NULL, 0);
	ok = load_read_guard(f, sum_weights, &s, e);
	blake2_end(&s.b, out);
	mem_free(s.order);
	return ok;
}
