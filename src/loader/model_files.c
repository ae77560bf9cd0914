/*
 * model_files.c
 *	  Open a model by its kind, and what both kinds share: mappings, the sorted tensor directory, the
 *	  text that identifies the contents on disk.
 *
 * A path is a directory in the Hugging Face layout, a GGUF file or a directory with one GGUF model; the
 * loader decides by what exists, not by the path's name.  Files are opened non-blocking and must be
 * regular, so that a FIFO or a device can't hang the engine.  files_add() checks every size that a file
 * states against the mapping, so that all readers can trust a KTensor.
 *
 * Tested by tests/unit/loader/test_load_files.c, test_safetensors.c, test_gguf.c and
 * the fuzz targets.
 */
#include "loader/model_files_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/json/json_scan.h"
#include "base/alloc.h"
#include "loader/gguf.h"

char *
files_join(const char *dir, const char *name)
{
	Buf			b = {0};

	buf_addstr(&b, dir);
	if (b.len > 0 && b.data[b.len - 1] != '/')
		buf_addc(&b, '/');
	buf_addstr(&b, name);
	return b.data;
}

/* Return true if a name is printable ASCII; names become part of error messages. */
bool
files_name_ok(const char *name, size_t len)
{
	if (len == 0 || len > FILES_MAX_NAME)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] <= 0x20 || name[i] >= 0x7f)
			return false;
	return true;
}

static int
open_regular(const char *path, struct stat *st, Err *e)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, st) != 0)
	{
		err_set(e, ERR_IO, "could not open file \"%s\": %m", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (!S_ISREG(st->st_mode))
	{
		err_set(e, ERR_BAD_FILE, "\"%s\" is not a regular file", path);
		close(fd);
		return -1;
	}
	return fd;
}

int
files_map(Files *f, const char *path, Err *e)
{
	struct stat st;
	int			fd;
	void	   *base = NULL;
	FileMap    *m;

	if (f->n_maps == FILES_MAX_MAPS)
	{
		err_set(e, ERR_BAD_FILE, "model \"%s\" has more than %d files", f->path, FILES_MAX_MAPS);
		return -1;
	}
	if ((fd = open_regular(path, &st, e)) < 0)
		return -1;
	if (st.st_size > 0)
	{
		base = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (base == MAP_FAILED)
		{
			err_set(e, ERR_IO, "could not map file \"%s\": %m", path);
			close(fd);
			return -1;
		}
	}
	m = &f->maps[f->n_maps];
	m->path = mem_strdup(path);
	m->fd = fd;
	m->base = base;
	m->len = (size_t) st.st_size;
	m->mtime = st.st_mtim;
	m->ctime = st.st_ctim;
	return f->n_maps++;
}

/* Return true if a path exists.  A path that stat can't examine counts as existing: opening it gives the
 * error. */
bool
files_exists(const char *path)
{
	return access(path, F_OK) == 0 || errno != ENOENT;
}

bool
files_slurp(const char *path, size_t limit, Buf *out, Err *e)
{
	struct stat st;
	int			fd;

	if ((fd = open_regular(path, &st, e)) < 0)
		return false;
	if ((uint64_t) st.st_size > limit)
	{
		close(fd);
		return err_set(e, ERR_BAD_FILE, "file \"%s\" is too large: %lld bytes, the limit is %zu",
					   path, (long long) st.st_size, limit);
	}
	for (;;)
	{
		ssize_t		n;

		buf_reserve(out, 65536);
		n = read(fd, out->data + out->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || out->len + (size_t) n > limit)
		{
			err_set(e, ERR_IO, "could not read file \"%s\": %m", path);
			close(fd);
			return false;
		}
		out->len += (size_t) n;
		out->data[out->len] = '\0';
		if (n == 0)
			break;
	}
	close(fd);
	return true;
}

/* Values of real files take more than four bytes each, so the limit also depends on the length. */
bool
files_json_ok(const char *path, const char *json, size_t len, size_t max, Err *e)
{
	size_t		dense = FILES_JSON_CONFIG + len / 4;
	size_t		limit = max < dense ? max : dense;

	if (json_values(json, len, limit) <= limit)
		return true;
	return err_set(e, ERR_BAD_FILE, "file \"%s\" has too many JSON values: the limit for its %zu bytes is "
									"%zu",
				   path, len, limit);
}

/* Compute the bytes of a tensor from its shape.  Return false on overflow or if a row is no whole number
 * of blocks. */
static bool
tensor_bytes(const Quant *q, int ndim, const int64_t *shape, uint64_t *out)
{
	uint64_t	n;

	if (shape[ndim - 1] % q->block != 0)
		return false;
	n = (uint64_t) (shape[ndim - 1] / q->block) * (uint64_t) q->bytes;
	for (int i = 0; i < ndim; i++)
		if (shape[i] > INT64_MAX / 64)
			return false;
	for (int i = 0; i < ndim - 1; i++)
		if (__builtin_mul_overflow(n, (uint64_t) shape[i], &n))
			return false;
	*out = n;
	return true;
}

bool
files_add(Files *f, int map, const char *name, const Quant *q, int ndim,
		  const int64_t *shape, uint64_t offset, uint64_t nbytes, Err *e)
{
	const FileMap *m = &f->maps[map];
	uint64_t	want;
	FileTensor *t;

	for (int i = 0; i < ndim; i++)
		if (shape[i] < 0)
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a negative dimension",
						   name, m->path);
	if (!tensor_bytes(q, ndim, shape, &want))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has an invalid shape",
					   name, m->path);
	if (want != nbytes)
		return err_set(e, ERR_BAD_FILE,
					   "tensor \"%s\" in file \"%s\" has %llu bytes, its shape needs %llu",
					   name, m->path, (unsigned long long) nbytes, (unsigned long long) want);
	if (offset > m->len || nbytes > m->len - offset)
	{
		err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" extends past the end of the file",
				name, m->path);
		return err_detail(e, "It ends at byte %llu, the file has %zu bytes.",
						  (unsigned long long) (offset + nbytes), m->len);
	}
	if (f->n_tensors == FILES_MAX_TENSORS)
		return err_set(e, ERR_BAD_FILE, "model \"%s\" has more than %d tensors",
					   f->path, FILES_MAX_TENSORS);
	if (f->n_tensors == f->cap_tensors)
	{
		f->cap_tensors = f->cap_tensors ? f->cap_tensors * 2 : 256;
		f->tensors = mem_realloc(f->tensors, f->cap_tensors * sizeof(FileTensor));
	}
	t = &f->tensors[f->n_tensors++];
	memset(t, 0, sizeof(*t));
	t->map = map;
	t->t.name = mem_strdup(name);
	t->t.type = q->type;
	t->t.ndim = ndim;
	memcpy(t->t.shape, shape, (size_t) ndim * sizeof(int64_t));
	t->t.data = m->base + offset;
	t->t.nbytes = nbytes;
	return true;
}

static int
tensor_cmp(const void *a, const void *b)
{
	return strcmp(((const FileTensor *) a)->t.name, ((const FileTensor *) b)->t.name);
}

bool
files_index(Files *f, Err *e)
{
	if (f->n_tensors > 0)
		qsort(f->tensors, f->n_tensors, sizeof(FileTensor), tensor_cmp);
	for (size_t i = 1; i < f->n_tensors; i++)
	{
		const FileTensor *a = &f->tensors[i - 1];
		const FileTensor *b = &f->tensors[i];

		if (strcmp(a->t.name, b->t.name) != 0)
			continue;
		if (a->map == b->map)
			return err_set(e, ERR_BAD_FILE, "file \"%s\" has tensor \"%s\" twice",
						   f->maps[a->map].path, a->t.name);
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" is in both file \"%s\" and file \"%s\"",
					   a->t.name, f->maps[a->map].path, f->maps[b->map].path);
	}
	return true;
}

static bool
open_directory(Files *f, Err *e)
{
	char	   *gguf = NULL;
	bool		ok = stconfig_root(f, e) &&
		(safetensors_there(f->root) || gguf_in_directory(f->root, &gguf, e));

	if (ok)
		ok = gguf != NULL ? gguf_open(f, gguf, e) : hfconfig_read(f, e) && safetensors_open(f, e) &&
			stconfig_read(f, e);
	mem_free(gguf);
	return ok;
}

static Files *
files_new(const char *path)
{
	Files	   *f = mem_zalloc(sizeof(Files));

	f->path = mem_strdup(path);
	f->root = mem_strdup(path);
	f->maps = mem_zalloc(FILES_MAX_MAPS * sizeof(FileMap));
	f->conf = conf_new();
	atomic_store(&f->damaged, -1);
	return f;
}

Files *
files_open_one(const char *path, const char *file, Err *e)
{
	Files	   *f = files_new(path);

	if (safetensors_file(f, file, "", e) && files_index(f, e))
		return f;
	files_close(f);
	return NULL;
}

Files *
files_open(const char *path, Err *e)
{
	struct stat st;
	Files	   *f;
	bool		ok;

	if (stat(path, &st) != 0)
	{
		err_set(e, ERR_IO, "could not open model \"%s\": %m", path);
		return NULL;
	}
	f = files_new(path);
	ok = (S_ISDIR(st.st_mode) ? open_directory(f, e) : gguf_open(f, path, e)) && files_index(f, e);
	if (!ok)
	{
		files_close(f);
		return NULL;
	}
	return f;
}

void
files_close(Files *f)
{
	if (f == NULL)
		return;
	for (size_t i = 0; i < f->n_tensors; i++)
		mem_free((char *) f->tensors[i].t.name);
	mem_free(f->tensors);
	for (int i = 0; i < f->n_maps; i++)
	{
		if (f->maps[i].base != NULL)
			munmap((void *) f->maps[i].base, f->maps[i].len);
		close(f->maps[i].fd);
		mem_free(f->maps[i].path);
	}
	mem_free(f->maps);
	if (f->gguf != NULL)
	{
		mem_free((void *) f->gguf->tokens);
		mem_free((void *) f->gguf->token_len);
		mem_free((void *) f->gguf->scores);
		mem_free((void *) f->gguf->types);
		mem_free((void *) f->gguf->merges);
		mem_free(f->gguf);
	}
	mem_free(f->gguf_text);
	buf_free(&f->tok_json);
	buf_free(&f->tok_config);
	for (size_t i = 0; i < f->n_templates; i++)
	{
		mem_free(f->templates[i].name);
		mem_free(f->templates[i].text);
	}
	mem_free(f->templates);
	conf_free(f->conf);
	mem_free(f->path);
	mem_free(f->root);
	mem_free(f);
}

const Conf *
files_conf(const Files *f)
{
	return f->conf;
}

const KTensor *
files_find(const Files *f, const char *name)
{
	size_t		lo = 0;
	size_t		hi = f->n_tensors;

	while (lo < hi)
	{
		size_t		mid = lo + (hi - lo) / 2;
		int			c = strcmp(name, f->tensors[mid].t.name);

		if (c == 0)
			return &f->tensors[mid].t;
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

size_t
files_count(const Files *f)
{
	return f->n_tensors;
}

const KTensor *
files_tensor(const Files *f, size_t i)
{
	return i < f->n_tensors ? &f->tensors[i].t : NULL;
}

const char *
files_where(const Files *f, const KTensor *t)
{
	return t != NULL ? f->maps[((const FileTensor *) t)->map].path : f->path;
}

/* Return the number of rows of all matrices of a tensor, or of a vector's elements.  An empty tensor has
 * no rows; its other dimensions may be of any size. */
static int64_t
tensor_rows(const KTensor *t)
{
	int64_t		rows = t->nbytes > 0 ? t->shape[0] : 0;

	for (int i = 1; i < t->ndim - 1; i++)
		rows *= t->shape[i];
	return rows;
}

bool
files_check_rows(const Files *f, const KTensor *t, int64_t row0, int64_t row1, Err *e)
{
	const Quant *q = quant_get(t->type);
	int64_t		rows = tensor_rows(t);
	int64_t		blocks = rows > 0 ? (int64_t) (t->nbytes / (size_t) q->bytes) / rows : 0;
	int64_t		first = row0 * blocks;
	int64_t		bad = quant_check(q, (const uint8_t *) t->data + first * q->bytes,
								  (row1 - row0) * blocks * q->block);

	if (bad < 0)
		return true;
	err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a scale that is not finite",
			t->name, files_where(f, t));
	return err_detail(e, "The scale of block %lld is NaN or infinite.", (long long) (first + bad));
}

/* Drop whole pages of a private file mapping; the kernel reads them again on the next access. */
void
files_drop(const Files *f, const KTensor *t)
{
	const FileMap *m = &f->maps[((const FileTensor *) t)->map];
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	begin = (uintptr_t) t->data & ~(page - 1);
	uintptr_t	end = (uintptr_t) t->data + t->nbytes;

	/* files_add() has seen that the tensor lies in its mapping */
	ALWAYS(m->base == NULL || t->nbytes == 0 ||
		   ((const uint8_t *) t->data >= m->base &&
			t->nbytes <= m->len - (size_t) ((const uint8_t *) t->data - m->base)));
	if (m->base != NULL && end > begin)
		madvise((void *) begin, end - begin, MADV_DONTNEED);
}

/*
 * A program that writes to a file in place can set its mtime back, but not its ctime.  That is also why
 * the inode isn't part of the text: another file at this path has another ctime, and file systems
 * without inodes of their own (FAT, some in user space) number files anew with each mount.
 */
char *
files_contents_id(const Files *f)
{
	Buf			b = {0};
	uint64_t	sum = 0;
	const char *quantization;

	for (int i = 0; i < f->n_maps; i++)
		buf_printf(&b, "file %s %zu %lld.%09ld %lld.%09ld\n", f->maps[i].path, f->maps[i].len,
				   (long long) f->maps[i].mtime.tv_sec, (long) f->maps[i].mtime.tv_nsec,
				   (long long) f->maps[i].ctime.tv_sec, (long) f->maps[i].ctime.tv_nsec);
	for (size_t i = 0; i < f->n_tensors; i++)
	{
		const FileTensor *t = &f->tensors[i];
		uint64_t	at = (uint64_t) ((const uint8_t *) t->t.data - f->maps[t->map].base);

		sum = digest(t->t.name, strlen(t->t.name), sum);
		sum = digest(t->t.shape, sizeof(t->t.shape), sum ^ (uint64_t) t->t.type ^ (uint64_t) t->map << 32);
		sum = digest(&at, sizeof(at), sum ^ (t->t.row_perm != NULL));
	}
	if (conf_str(f->conf, "quantization_config", NULL) != NULL)
	{
		const char *text = conf_str(f->conf, "quantization_config", NULL);

		sum = digest(text, strlen(text), sum);	/* it says what the tensors mean */
	}
	buf_printf(&b, "tensors %zu %016llx\n", f->n_tensors, (unsigned long long) sum);
	/* decides which values a quantized checkpoint's codes mean */
	quantization = conf_str(f->conf, "quantization_config", NULL);
	if (quantization != NULL)
		buf_printf(&b, "quantization %016llx\n",
				   (unsigned long long) digest(quantization, strlen(quantization), 0));
	return b.data;
}

void
files_add_template(Files *f, const char *name, size_t name_len, const char *s, size_t n)
{
	char	   *key;
	size_t		i = 0;

	for (; i < name_len && name[i] > ' ' && name[i] <= '~'; i++)
		;
	if (i < name_len || i == 0 || i > FILES_MAX_NAME)
		return;
	key = mem_strndup(name, name_len);
	i = 0;

	if (f->templates == NULL)
		f->templates = mem_zalloc(FILES_MAX_TEMPLATES * sizeof(FilesTemplate));
	while (i < f->n_templates && strcmp(f->templates[i].name, key) < 0)
		i++;
	if (f->n_templates == FILES_MAX_TEMPLATES ||
		(i < f->n_templates && strcmp(f->templates[i].name, key) == 0))
	{
		mem_free(key);
		return;
	}
	ALWAYS(f->n_templates < FILES_MAX_TEMPLATES && i <= f->n_templates);
	memmove(&f->templates[i + 1], &f->templates[i], (f->n_templates - i) * sizeof(FilesTemplate));
	f->templates[i] = (FilesTemplate) {key, mem_strndup(s, n), n};
	f->n_templates++;
}

bool
files_tokenizer(const Files *f, FilesTokenizer *out, Err *e)
{
	memset(out, 0, sizeof(*out));
	out->templates = f->templates;
	out->n_templates = f->n_templates;
	if (f->gguf != NULL)
	{
		out->gguf = f->gguf;
		return true;
	}
	if (f->tok_json.data != NULL)
	{
		out->kind = f->tok_kind;
		out->json = f->tok_json.data;
		out->json_len = f->tok_json.len;
		out->config = f->tok_config.data;
		out->config_len = f->tok_config.len;
		return true;
	}
	return err_set(e, ERR_BAD_FILE, "model \"%s\" has no tokenizer", f->path);
}
