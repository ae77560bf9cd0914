/*
 * test_packcache.c
 *	  Packed weights cached on disk, the memory of a load, huge pages.
 *
 * A random model of 54 MB is written to a scratch directory and loaded again and again; its logits must
 * always have the same bits.  A used cache entry is recognised by its inode, which a new one would not
 * have, and by the private memory of the process.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/checksum.h"
#include "runtime/engine_settings.h"
#include "backend/weight_source.h"
#include "model/weights/pack_cache.h"
#include "tests/unit/load_util.h"

#define HIDDEN 512
#define INTER 2048
#define LAYERS 6
#define HEADS 8
#define KV_HEADS 2
#define VOCAB 8192
#define MB 1048576

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNT_MEMORY false		/* sanitizers use memory of their own */
#else
#define COUNT_MEMORY true
#endif

static KPool *pool;
static char model_dir[300];
static char cache_dir[300];
static float logits[VOCAB];
static long peak_anon;
static long peak_file;
static char *meddle;			/* [MB]: overwritten during the next load */

static long
status_kb(const char *name)
{
	FILE	   *f = fopen("/proc/self/status", "r");
	char		line[256];
	long		kb = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			kb = atol(line + strlen(name) + 1);
	if (f != NULL)
		fclose(f);
	return kb;
}

/* Overwrite 1 MB in the middle of the model with zeros, after saving it in `saved`; or restore it. */
static void
exchange_weights(char *saved, bool back)
{
	static const char zeros[MB];
	char		path[400];
	struct stat st;
	int			fd;

	snprintf(path, sizeof(path), "%s/model.safetensors", model_dir);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st) != 0 || (!back && pread(fd, saved, MB, st.st_size / 2) != MB) ||
		pwrite(fd, back ? saved : zeros, MB, st.st_size / 2) != MB)
		abort();
	close(fd);
}

static bool
watch(void *ctx, double done)
{
	long		anon = status_kb("RssAnon");
	long		file = status_kb("RssFile");

	(void) ctx;
	(void) done;
	if (meddle != NULL)
		exchange_weights(meddle, false);
	meddle = NULL;
	peak_anon = anon > peak_anon ? anon : peak_anon;
	peak_file = file > peak_file ? file : peak_file;
	return true;
}

/* ---- the model ---- */

typedef struct Writer
{
	Buf			head;
	uint64_t	at;
} Writer;

static void
add(Writer *w, const char *name, int n, int k)
{
	uint64_t	bytes = (uint64_t) n * (uint64_t) (k > 0 ? k : 1) * 2;
	char		dims[32];

	snprintf(dims, sizeof(dims), k > 0 ? "%d, %d" : "%d", n, k);
	buf_printf(&w->head, "%s\"%s\": {\"dtype\": \"BF16\", \"shape\": [%s], \"data_offsets\": [%llu, %llu]}",
			   w->head.len > 1 ? ", " : "", name, dims, (unsigned long long) w->at,
			   (unsigned long long) (w->at + bytes));
	w->at += bytes;
}

static void
add_layer(Writer *w, int i)
{
	static const struct
	{
		const char *name;
		int			n;
		int			k;
	}			parts[] = {
		{"input_layernorm", HIDDEN, 0}, {"post_attention_layernorm", HIDDEN, 0},
		{"self_attn.q_proj", HIDDEN, HIDDEN}, {"self_attn.k_proj", HIDDEN / HEADS * KV_HEADS, HIDDEN},
		{"self_attn.v_proj", HIDDEN / HEADS * KV_HEADS, HIDDEN}, {"self_attn.o_proj", HIDDEN, HIDDEN},
		{"mlp.gate_proj", INTER, HIDDEN}, {"mlp.up_proj", INTER, HIDDEN}, {"mlp.down_proj", HIDDEN, INTER},
	};

	for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
	{
		char		name[100];

		snprintf(name, sizeof(name), "model.layers.%d.%s.weight", i, parts[p].name);
		add(w, name, parts[p].n, parts[p].k);
	}
}

/* Write small values of either sign, as bfloat16. */
static void
write_weights(int fd, uint64_t bytes, uint32_t seed)
{
	static uint16_t buf[65536];

	while (bytes > 0)
	{
		size_t		n = bytes < sizeof(buf) ? (size_t) bytes : sizeof(buf);

		for (size_t i = 0; i < n / 2; i++)
		{
			seed = seed * 1664525u + 1013904223u;
			buf[i] = (uint16_t) ((seed >> 31) << 15 | 0x3c00 | (seed >> 16 & 0x7f));
		}
		if (write(fd, buf, n) != (ssize_t) n)
			abort();
		bytes -= n;
	}
}

static void
write_model(uint32_t seed)
{
	static const char config[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 512, "
		"\"intermediate_size\": 2048, \"num_hidden_layers\": 6, \"num_attention_heads\": 8, "
		"\"num_key_value_heads\": 2, \"vocab_size\": 8192, \"max_position_embeddings\": 64, "
		"\"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}";
	Writer		w = {.at = 0};
	char		path[400];
	uint64_t	len;
	int			fd;

	buf_addc(&w.head, '{');
	add(&w, "model.embed_tokens.weight", VOCAB, HIDDEN);
	for (int i = 0; i < LAYERS; i++)
		add_layer(&w, i);
	add(&w, "model.norm.weight", HIDDEN, 0);
	buf_addc(&w.head, '}');
	snprintf(path, sizeof(path), "%s/config.json", model_dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, config, sizeof(config) - 1) < 0)
		abort();
	close(fd);
	snprintf(path, sizeof(path), "%s/model.safetensors", model_dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	len = w.head.len;
	if (fd < 0 || write(fd, &len, 8) != 8 || write(fd, w.head.data, w.head.len) < 0)
		abort();
	write_weights(fd, w.at, seed);
	close(fd);
	buf_free(&w.head);
}

/* Compute the logits of one token into `out`. */
static void
run(Model *m, float *out)
{
	static const int32_t token[1] = {3};
	static const int32_t pos[1] = {0};
	static const int32_t start[2] = {0, 1};
	static const int32_t table[1] = {0};
	const int32_t *tables[1] = {table};
	Batch		b = {.rows = {1, 1, start, pos, tables, NULL}, .tokens = token, .n_out = 1, .out_rows = pos};
	KvView		kv = {.type = KT_F32, .n_layers = LAYERS, .n_blocks = 1, .block_size = 16,
		.n_kv_heads = KV_HEADS, .head_dim = HIDDEN / HEADS};

	kv.base = mem_try_aligned(kv_layout(&kv));
	model_forward(m, &b, &kv, out);
	mem_free(kv.base);
}

/* Not NULL: the id of the files' contents, whatever they are. */
static const char *same_id;

/* Load with a cache (NULL: without), and compare the logits.  Returns false if the load failed. */
static bool
load(const char *what, const char *cache, const char *quant, bool compare)
{
	static float now[VOCAB];
	Err			e = {0};
	Files	   *f = files_open(model_dir, &e);
	Source		s = {.files = f, .progress = watch};
	ModelSource src = source_of(&s);
	char	   *id = f != NULL ? files_contents_id(f) : NULL;
	ModelOptions opt = {.kernels = kernels_select(NULL, NULL), .pool = pool, .max_rows = 4, .max_out = 1,
		.quant = quant != NULL ? quant_scheme(quant) : NULL, .cache_dir = cache, .cache_id = same_id != NULL ?
		same_id : id};
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &opt, &e) : NULL;

	CHECK(m != NULL, "%s: %s", what, e.msg);
	mem_free(id);
	files_close(f);
	if (m == NULL)
		return false;
	run(m, compare ? now : logits);
	watch(NULL, 1);
	CHECK(!compare || memcmp(now, logits, sizeof(now)) == 0, "%s: other logits", what);
	model_free(m);
	return true;
}

/* ---- the cache's directory ---- */

/* Return the number of files; *path: one of them, *inode: its inode. */
static int
entries(char *path, size_t size, ino_t *inode)
{
	DIR		   *d = opendir(cache_dir);
	struct dirent *de;
	struct stat st;
	int			n = 0;

	while (d != NULL && (de = readdir(d)) != NULL)
	{
		if (de->d_name[0] == '.')
			continue;
		snprintf(path, size, "%s/%s", cache_dir, de->d_name);
		if (lstat(path, &st) == 0)
			*inode = st.st_ino;
		n++;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

static void
clear_dir(const char *dir)
{
	DIR		   *d = opendir(dir);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL)
		if (de->d_name[0] != '.')
			unlinkat(dirfd(d), de->d_name, 0);
	if (d != NULL)
		closedir(d);
}

/* The only entry was damaged: the load makes a new one, which the next load uses. */
static void
renewed(const char *what, ino_t old, int keep_open)
{
	char		path[700];
	ino_t		inode = 0,
				again = 0;

	load(what, cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &inode) == 1 && inode != old, "%s: the entry was not replaced", what);
	load(what, cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &again) == 1 && again == inode, "%s: the new entry is not used", what);
	if (keep_open >= 0)
		close(keep_open);
}

/* Overwrite a byte of the entry; its inode stays in use, so that the next entry gets another. */
static void
test_damage(const char *what, off_t at, int whence)
{
	char		path[700];
	ino_t		inode = 0;
	unsigned char byte = 0;
	off_t		where;
	int			fd;

	entries(path, sizeof(path), &inode);
	fd = open(path, O_RDWR);
	where = lseek(fd, at, whence);
	if (fd < 0 || pread(fd, &byte, 1, where) != 1)
		abort();
	byte ^= 0x10;
	if (pwrite(fd, &byte, 1, where) != 1)
		abort();
	renewed(what, inode, fd);
}

static void
test_length(const char *what, off_t change)
{
	char		path[700];
	ino_t		inode = 0;
	struct stat st;
	int			fd;

	entries(path, sizeof(path), &inode);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st) != 0 || ftruncate(fd, st.st_size + change) != 0)
		abort();
	renewed(what, inode, fd);
}

static void
test_foreign(void)
{
	char		path[700],
				other[800];
	ino_t		inode = 0;
	int			fd;

	entries(path, sizeof(path), &inode);
	fd = open(path, O_RDONLY);
	chmod(path, 0666);
	renewed("writable for all", inode, fd);
	entries(path, sizeof(path), &inode);
	fd = open(path, O_RDONLY);
	snprintf(other, sizeof(other), "%s/elsewhere", model_dir);
	if (rename(path, other) != 0 || symlink(other, path) != 0)
		abort();
	entries(path, sizeof(path), &inode);
	renewed("symbolic link", inode, fd);
	unlink(other);
	if (unlink(path) != 0 || mkfifo(path, 0600) != 0)
		abort();
	entries(path, sizeof(path), &inode);
	renewed("fifo", inode, -1);
}

static void
test_hit(void)
{
	char		path[700];
	ino_t		first = 0,
				inode = 0;
	long		before = status_kb("RssAnon");

	load("first", cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &first) == 1 && strstr(path, ".tmp") == NULL, "one entry: %s", path);
	peak_anon = 0;
	load("second", cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &inode) == 1 && inode == first, "the entry is used");
	if (COUNT_MEMORY)
		CHECK(peak_anon - before < 16 * 1024, "a mapped model took %ld kB of private memory",
			  peak_anon - before);
	load("quantized", cache_dir, "q8_0", false);
	CHECK(entries(path, sizeof(path), &inode) == 2, "an entry for each quantization");
	load("quantized again", cache_dir, "q8_0", true);
	clear_dir(cache_dir);
	load("plain", NULL, NULL, false);
	load("one entry again", cache_dir, NULL, true);
}

/* Other contents with the same key, as on a file system without times: only packing detects it. */
static void
test_same_key(void)
{
	char		file[400],
				path[700];
	struct stat st;
	ino_t		old = 0,
				inode = 0;
	int			fd;
	Err			e = {0};
	Files	   *f = files_open(model_dir, &e);
	char	   *id = files_contents_id(f);

	files_close(f);
	snprintf(file, sizeof(file), "%s/model.safetensors", model_dir);
	if (stat(file, &st) != 0)
		abort();
	entries(path, sizeof(path), &old);
	fd = open(path, O_RDONLY);
	write_model(2);
	utimensat(AT_FDCWD, file, (struct timespec[2]) {st.st_mtim, st.st_mtim}, 0);
	load("other weights", NULL, NULL, false);
	same_id = id;
	load("same key", cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &inode) == 1 && inode != old, "an entry of other weights was used");
	same_id = NULL;
	mem_free(id);
	close(fd);
	old = inode;
	fd = open(path, O_RDONLY);
	utimensat(AT_FDCWD, file, NULL, 0);
	load("touched", cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &inode) == 1 && inode != old, "an entry of an older file was used");
	close(fd);
}

/* A model file that is still being copied, and gets the times of the original at the end, isn't cached. */
static void
test_changing_file(void)
{
	static char saved[MB];
	char		file[400],
				path[700];
	struct stat st;
	ino_t		inode = 0;

	snprintf(file, sizeof(file), "%s/model.safetensors", model_dir);
	if (stat(file, &st) != 0)
		abort();
	entries(path, sizeof(path), &inode);
	unlink(path);
	load("plain", NULL, NULL, false);
	meddle = saved;
	load("overwritten meanwhile", cache_dir, NULL, false);
	CHECK(entries(path, sizeof(path), &inode) == 0, "weights of a file that changed were kept");
	exchange_weights(saved, true);
	utimensat(AT_FDCWD, file, (struct timespec[2]) {st.st_mtim, st.st_mtim}, 0);
	load("plain again", NULL, NULL, false);
	load("as before", cache_dir, NULL, true);
}

/* A load works without a cache if the directory can't be used. */
static void
test_bad_directory(void)
{
	char		path[700],
				file[400];
	ino_t		inode = 0;

	snprintf(path, sizeof(path), "%s/missing", cache_dir);
	load("missing directory", path, NULL, true);
	snprintf(file, sizeof(file), "%s/config.json", model_dir);
	load("a file", file, NULL, true);
	load("nobody may write", "/proc", NULL, true);
	CHECK(entries(path, sizeof(path), &inode) == 1, "nothing else was written");
}

static void
test_two_engines(void)
{
	char		path[700];
	ino_t		inode = 0,
				again = 0;
	int			status;

	entries(path, sizeof(path), &inode);
	unlink(path);
	for (int i = 0; i < 2; i++)
		if (fork() == 0)
		{
			pool = kpool_new(1);
			load("a child", cache_dir, NULL, true);
			_exit(check_failed > 0);
		}
	while (wait(&status) > 0)
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child failed");
	CHECK(entries(path, sizeof(path), &inode) == 1, "%s", path);
	load("after both", cache_dir, NULL, true);
	CHECK(entries(path, sizeof(path), &again) == 1 && again == inode, "the entry of two writers is good");
}

static bool
die(void *ctx)
{
	(void) ctx;
	return raise(SIGKILL) == 0;
}

/* A writer that is killed leaves no file, if the file system supports unnamed files. */
static void
test_killed_writer(void)
{
	static char image[MB];
	char		before[700],
				after[700];
	ino_t		first = 0,
				inode = 0;
	int			n = entries(before, sizeof(before), &first);
	int			fd = open(cache_dir, O_TMPFILE | O_WRONLY, 0600);
	MArena		a = {.base = (void *) image, .size = MB, .used = MB};
	PackCache	pc;
	int			status;

	if (fd < 0)
	{
		check_skip(1, "no O_TMPFILE here");
		return;
	}
	close(fd);
	if (fork() == 0)
	{
		pool = kpool_new(1);
		packcache_init(&pc, cache_dir, "killed", "none", "", "key\n", MB);
		packcache_write(&pc, pool, &a, die, NULL);
		_exit(0);
	}
	wait(&status);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the writer was killed");
	CHECK(entries(after, sizeof(after), &inode) == n && inode == first, "it left \"%s\"", after);
}

/* Files that crashed writers have left are removed when they are old. */
static void
test_leftovers(void)
{
	char		path[700],
				tmp[800];
	ino_t		inode = 0;
	struct stat st;

	entries(path, sizeof(path), &inode);
	unlink(path);
	snprintf(tmp, sizeof(tmp), "%s.tmp.1.2", path);
	close(open(tmp, O_WRONLY | O_CREAT, 0600));
	load("young", cache_dir, NULL, true);
	CHECK(stat(tmp, &st) == 0, "a young file of a writer was removed");
	unlink(path);
	utimensat(AT_FDCWD, tmp, (struct timespec[2]) {{1, 0}, {1, 0}}, 0);
	load("old", cache_dir, NULL, true);
	CHECK(stat(tmp, &st) != 0, "an old file of a writer stays");
}

static void
test_memory(void)
{
	long		anon = status_kb("RssAnon"),
				file = status_kb("RssFile"),
				weights;
	struct stat st;
	char		path[400];

	snprintf(path, sizeof(path), "%s/model.safetensors", model_dir);
	if (stat(path, &st) != 0)
		abort();
	weights = (long) (st.st_size / 1024);
	peak_anon = peak_file = 0;
	load("plain", NULL, NULL, false);
	if (!COUNT_MEMORY)
		return;
	CHECK(peak_anon - anon < weights + 16 * 1024, "loading %ld kB took %ld kB of private memory", weights,
		  peak_anon - anon);
	CHECK(peak_file - file < weights / 2, "of a file of %ld kB, %ld kB were mapped at once", weights,
		  peak_file - file);
	peak_anon = 0;
	load("quantized", NULL, "int8", false);
	CHECK(peak_anon - anon < weights / 2 + 16 * 1024, "quantizing took %ld kB of private memory",
		  peak_anon - anon);
	load("plain", NULL, NULL, false);
}

static void
test_huge_pages(void)
{
	HugePages	huge;
	MArena		a;
	Err			e = {0};

	CHECK(huge_pages_by_name("try", &huge) && huge == HUGE_TRY, "try");
	CHECK(huge_pages_by_name("off", &huge) && huge == HUGE_OFF, "off");
	CHECK(huge_pages_by_name("on", &huge) && huge == HUGE_ON, "on");
	CHECK(!huge_pages_by_name("yes", &huge), "yes");
	for (int h = HUGE_TRY; h <= HUGE_OFF; h++)
	{
		CHECK(marena_reserve(&a, 3 * MB, (HugePages) h, "A test", &e) && (uintptr_t) a.base % (2 * MB) == 0,
			  "%s", e.msg);
		memset(marena_take(&a, 3 * MB), 1, 3 * MB);
		marena_free(&a);
	}
	/* more huge pages than any machine has reserved */
	CHECK(!marena_reserve(&a, (size_t) 1 << 45, HUGE_ON, "A test", &e) && e.cls == ERR_NOMEM &&
		  strstr(e.hint, "vm.nr_hugepages") != NULL && strstr(e.detail, "A test") != NULL, "%s / %s", e.msg,
		  e.hint);
}

static void
test_settings(void)
{
	SettingsBox box;
	Settings	s;
	Err			e = {0};

	settings_box_init(&box);
	settings_get(&box, &s);
	CHECK(strcmp(s.huge_pages, "try") == 0 && s.repack_cache[0] == '\0', "defaults");
	CHECK(settings_assign(&box, "huge_pages=on", &e) && settings_assign(&box, "repack_cache=/var/cache/x",
																		&e), "%s", e.msg);
	CHECK(!settings_assign(&box, "huge_pages=yes", &e) && strstr(e.msg, "try, off or on") != NULL, "%s",
		  e.msg);
	CHECK(!settings_assign(&box, "repack_cache=x", &e) && strstr(e.msg, "absolute path") != NULL, "%s",
		  e.msg);
	settings_get(&box, &s);
	CHECK(strcmp(s.huge_pages, "on") == 0 && strcmp(s.repack_cache, "/var/cache/x") == 0, "assigned");
}

static void
test_digest(void)
{
	unsigned char b[100] = {0};
	uint64_t	sum = digest(b, sizeof(b), 0);

	CHECK(digest(b, 99, 0) != sum && digest(b, sizeof(b), 1) != sum, "length and seed count");
	for (size_t i = 0; i < sizeof(b); i++)
	{
		b[i] = 1;
		CHECK(digest(b, sizeof(b), 0) != sum, "byte %zu", i);
		b[i] = 0;
	}
}

int
main(void)
{
	scratch_make();
	snprintf(model_dir, sizeof(model_dir), "%s", in_scratch("model"));
	snprintf(cache_dir, sizeof(cache_dir), "%s", in_scratch("cache"));
	if (mkdir(model_dir, 0700) != 0 || mkdir(cache_dir, 0700) != 0)
		return 1;
	write_model(1);
	pool = kpool_new(2);
	RUN(test_digest());
	RUN(test_huge_pages());
	RUN(test_settings());
	RUN(test_memory());
	RUN(test_hit());
	RUN(test_damage("magic", 0, SEEK_SET));
	RUN(test_damage("version", 8, SEEK_SET));
	RUN(test_damage("key", 80, SEEK_SET));
	RUN(test_damage("image", -20 * MB, SEEK_END));
	RUN(test_damage("last byte", -1, SEEK_END));
	RUN(test_length("truncated", -1));
	RUN(test_length("longer", 1));
	RUN(test_foreign());
	RUN(test_bad_directory());
	RUN(test_killed_writer());
	RUN(test_leftovers());
	RUN(test_same_key());
	RUN(test_changing_file());
	RUN(test_two_engines());
	kpool_free(pool);
	clear_dir(model_dir);
	clear_dir(cache_dir);
	rmdir(model_dir);
	rmdir(cache_dir);
	scratch_remove();
	return check_done("test_packcache");
}
