/*
 * test_load_files.c
 *	  Properties of both kinds of files: paths that are not a model, the id of the contents, and files
 *	  that change while they are read.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/load_util.h"

static void
copy_model(const char *from)
{
	static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors"};
	Buf			b = {0};

	for (int i = 0; i < 3; i++)
	{
		char		path[300];

		snprintf(path, sizeof(path), "%s/%s", from, names[i]);
		read_file(path, &b);
		put_file(names[i], b.data, b.len);
	}
	buf_free(&b);
}

static void
test_paths(void)
{
	expect_refused("nothing", in_scratch("no-such"), ERR_IO, "No such file");
	expect_refused("empty path", "", ERR_IO, "No such file");
	expect_refused("device", "/dev/null", ERR_BAD_FILE, "not a regular file");
	expect_refused("empty directory", scratch, ERR_IO, "config.json");
	CHECK(mkfifo(in_scratch("pipe.gguf"), 0600) == 0, "mkfifo");
	expect_refused("FIFO", in_scratch("pipe.gguf"), ERR_BAD_FILE, "not a regular file");
	unlink(in_scratch("pipe.gguf"));
	put_text("notes.txt", "hello, this is not a model");
	expect_refused("text", in_scratch("notes.txt"), ERR_BAD_FILE, "not a GGUF file");
	put_text("config.json", "{}");
	expect_refused("no weights", scratch, ERR_BAD_FILE, "neither model.safetensors nor");
	put_text("x.gguf", "GGUF");
	{
		Err			e = {0};

		CHECK(files_open(scratch, &e) == NULL && strstr(e.hint, "GGUF") != NULL, "hint: %s", e.hint);
	}
	unlink(in_scratch("x.gguf"));
	put_text("pytorch_model.bin", "PK");
	expect_refused("pickle", scratch, ERR_BAD_FILE, "no archive");
	unlink(in_scratch("pytorch_model.bin"));
	put_text("consolidated.00.pth", "PK");
	expect_refused("pth", scratch, ERR_UNSUPPORTED, "PyTorch files");
	scratch_clear();
}

/* Return files_contents_id() of the scratch model; to be freed. */
static char *
contents(void)
{
	Err			e = {0};
	Files	   *f = files_open(scratch, &e);
	char	   *id = f != NULL ? files_contents_id(f) : NULL;

	CHECK(id != NULL, "%s", e.msg);
	files_close(f);
	return id != NULL ? id : mem_strdup("");
}

static void
test_contents_id(void)
{
	struct stat st;
	char	   *id,
			   *again;
	char		byte;
	int			fd;

	copy_model(FIXTURES "llama_f32");
	id = contents();
	again = contents();
	CHECK(strcmp(id, again) == 0, "the same files");
	mem_free(again);

	/* rewritten in place, and the time reset */
	fd = open(in_scratch("model.safetensors"), O_RDWR);
	usleep(20000);				/* time stamps follow the kernel's ticks */
	if (fd < 0 || fstat(fd, &st) != 0 || pread(fd, &byte, 1, st.st_size - 1) != 1)
		abort();
	byte ^= 1;
	if (pwrite(fd, &byte, 1, st.st_size - 1) != 1 ||
		futimens(fd, (struct timespec[2]) {st.st_atim, st.st_mtim}) != 0)
		abort();
	close(fd);
	again = contents();
	CHECK(strcmp(id, again) != 0, "rewritten with its old size and time: %s", again);
	mem_free(id);

	/* the same codes with another meaning */
	put_text("quantize_config.json", "{\"bits\":4,\"checkpoint_format\":\"gptq\"}");
	id = contents();
	CHECK(strcmp(id, again) != 0, "quantized: %s", id);
	mem_free(again);
	put_text("quantize_config.json", "{\"bits\":4,\"checkpoint_format\":\"gptq_v2\"}");
	again = contents();
	CHECK(strcmp(id, again) != 0, "quantized in another way: %s", again);
	mem_free(again);
	mem_free(id);
	files_close(NULL);
	scratch_clear();
}

/* ---- digests ---- */

static char *
hex_of(const uint8_t sum[BLAKE2_BYTES])
{
	static char hex[2][2 * BLAKE2_BYTES + 1];
	static int	n = 0;

	n = !n;
	for (int i = 0; i < BLAKE2_BYTES; i++)
		snprintf(hex[n] + 2 * i, 3, "%02x", sum[i]);
	return hex[n];
}

static char *
texts_digest(void)
{
	Err			e = {0};
	uint8_t		sum[BLAKE2_BYTES];

	CHECK(files_digest_texts(scratch, sum, &e), "%s", e.msg);
	return hex_of(sum);
}

static char *
weights_digest(const char *path)
{
	Err			e = {0};
	uint8_t		sum[BLAKE2_BYTES] = {0};
	Files	   *f = files_open(path, &e);

	CHECK(f != NULL && files_digest_weights(f, sum, &e), "%s", e.msg);
	files_close(f);
	return hex_of(sum);
}

static void
test_digest_of_texts(void)
{
	/*
	 * digest of "name length\n" and the content of each file, in the order of names.  Users store
	 * results that depend on it, so it must not change.  Python: hashlib.blake2b(b'config.json
	 * 2\n{}in/prompts.json 3\n[1]vocab.txt 0\n', digest_size=32)
	 */
	static const char kept[] = "f789c30f2c89837a320a43a53e52f5545f66fef4cc5796dc2765dc3aa51dd517";
	char		inner[300];
	Err			e = {0};
	uint8_t		sum[BLAKE2_BYTES];

	snprintf(inner, sizeof(inner), "%s", in_scratch("in"));
	CHECK(mkdir(inner, 0700) == 0, "mkdir");
	put_text("vocab.txt", "");
	put_text("in/prompts.json", "[1]");
	put_text("config.json", "{}");
	CHECK(strcmp(texts_digest(), kept) == 0, "%s", texts_digest());
	put_text("generation_config.json", "{}");
	put_text("README.md", "about it");
	put_text("model.safetensors", "weights");
	put_text(".hidden.json", "{}");
	CHECK(strcmp(texts_digest(), kept) == 0, "what does not count: %s", texts_digest());
	unlink(in_scratch(".hidden.json"));
	put_text("config.json", "{ }");
	CHECK(strcmp(texts_digest(), kept) != 0, "another text");
	put_text("config.json", "{}");
	put_text("added.json", "");
	CHECK(strcmp(texts_digest(), kept) != 0, "one more");
	unlink(in_scratch("added.json"));
	/* special files are skipped, and so is a folder within a folder */
	CHECK(mkfifo(in_scratch("pipe.json"), 0600) == 0 && mkdir(in_scratch("in/deep"), 0700) == 0, "mkfifo");
	put_text("in/deep/config.json", "{}");
	CHECK(strcmp(texts_digest(), kept) == 0, "what is no text: %s", texts_digest());
	unlink(in_scratch("pipe.json"));
	unlink(in_scratch("in/deep/config.json"));
	rmdir(in_scratch("in/deep"));
	/* a file that can't be read */
	CHECK(symlink("prompts.json", in_scratch("in/again.json")) == 0, "symlink");
	CHECK(strcmp(texts_digest(), kept) != 0, "a link counts as what it leads to");
	unlink(in_scratch("in/again.json"));
	unlink(in_scratch("in/prompts.json"));
	rmdir(inner);
	scratch_clear();
	CHECK(files_digest_texts(in_scratch("no-such.gguf"), sum, &e), "of a file there are none: %s", e.msg);
}

static void
test_digest_of_weights(void)
{
	char		before[2 * BLAKE2_BYTES + 1];
	Buf			b = {0};

	copy_model(FIXTURES "llama_f32");
	snprintf(before, sizeof(before), "%s", weights_digest(scratch));
	CHECK(strcmp(before, weights_digest(FIXTURES "llama_f32")) == 0, "the same elsewhere");
	put_text("config.json.orig", "");
	CHECK(strcmp(before, weights_digest(scratch)) == 0, "what is no weight");
	unlink(in_scratch("config.json.orig"));
	read_file(in_scratch("model.safetensors"), &b);
	b.data[b.len - 1] ^= 1;
	put_file("model.safetensors", b.data, b.len);
	CHECK(strcmp(before, weights_digest(scratch)) != 0, "one bit");
	buf_free(&b);
	scratch_clear();
}

/* ---- files that shrink while they are mapped ---- */

typedef struct Sum
{
	const Files *f;
	uint64_t	sum[2];
} Sum;

static uint64_t
sum_half(const Files *f, size_t half)
{
	uint64_t	sum = 0;

	for (size_t i = 0; i < files_count(f); i++)
	{
		const KTensor *t = files_tensor(f, i);

		for (size_t j = half; j < t->nbytes; j += 2)
			sum += ((const uint8_t *) t->data)[j];
	}
	return sum;
}

static void *
sum_thread(void *arg)
{
	Sum		   *s = arg;

	s->sum[1] = sum_half(s->f, 1);
	return NULL;
}

/* Allocates memory and uses another thread, as packing a model does. */
static void
sum_all(void *arg)
{
	Sum		   *s = arg;
	void	   *p = mem_alloc(100000);
	pthread_t	t;

	if (pthread_create(&t, NULL, sum_thread, s) == 0)
	{
		s->sum[0] = sum_half(s->f, 0);
		pthread_join(t, NULL);
	}
	mem_free(p);
}

static void
test_guard(void)
{
	Err			e = {0};
	Sum			s = {0};
	sigset_t	bus;
	Files	   *f;

	copy_model(FIXTURES "llama_f32");
	s.f = f = files_open(scratch, &e);
	CHECK(f != NULL, "%s", e.msg);
	if (f == NULL)
		return;
	CHECK(load_read_guard(f, sum_all, &s, &e), "untouched: %s", e.msg);
	CHECK(s.sum[0] + s.sum[1] > 0, "it was read");
	CHECK(truncate(in_scratch("model.safetensors"), 5000) == 0, "truncate");
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &bus, NULL);
	CHECK(!load_read_guard(f, sum_all, &s, &e) && e.cls == ERR_IO &&
		  strstr(e.msg, "model.safetensors") != NULL && strstr(e.msg, "truncated") != NULL,
		  "truncated: %s", e.msg);
	pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
	CHECK(!load_read_guard(f, sum_all, &s, &e), "damaged for good");
	files_close(f);
	expect_refused("truncated", scratch, ERR_BAD_FILE, "extends past the end");

	/* changes that cause no SIGBUS: less than a page missing, bytes overwritten in place */
	copy_model(FIXTURES "llama_f32");
	s.f = f = files_open(scratch, &e);
	if (f != NULL)
	{
		struct stat st;

		stat(in_scratch("model.safetensors"), &st);
		CHECK(truncate(in_scratch("model.safetensors"), st.st_size - 1) == 0, "truncate");
		CHECK(!load_read_guard(f, sum_all, &s, &e) && strstr(e.msg, "changed") != NULL, "one byte less: %s",
			  e.msg);
		CHECK(truncate(in_scratch("model.safetensors"), 0) == 0, "truncate");
		CHECK(!load_read_guard(f, sum_all, &s, &e), "empty: %s", e.msg);
	}
	files_close(f);
	scratch_clear();
}

static void
fault_elsewhere(void *arg)
{
	raise(*(int *) arg);
}

/* A SIGBUS outside of the guarded files kills the process as it would without a guard. */
static void
test_foreign_sigbus(void)
{
	Err			e = {0};
	Files	   *f = files_open(FIXTURES "llama_f32", &e);
	int			sig = SIGBUS;
	int			status = 0;
	pid_t		pid;

	CHECK(f != NULL, "%s", e.msg);
	if (f == NULL)
		return;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
	{
		signal(SIGBUS, SIG_DFL);
		/* raised twice: the first one restores the default action */
		load_read_guard(f, fault_elsewhere, &sig, &e);
		raise(SIGBUS);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "status %x", status);
	files_close(f);
}

/* Guards may nest and be used in several threads. */
static void *
guard_thread(void *arg)
{
	Err			e = {0};
	Sum			s = {.f = arg};
	bool		ok = true;

	for (int i = 0; i < 20; i++)
		ok = ok && load_read_guard(arg, sum_all, &s, &e);
	return ok ? arg : NULL;
}

static void
test_threads(void)
{
	Err			e = {0};
	Files	   *f = files_open(FIXTURES "llama_f32", &e);
	pthread_t	t[3];
	void	   *r;

	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], NULL, guard_thread, f) == 0, "thread");
	for (int i = 0; i < 3; i++)
	{
		pthread_join(t[i], &r);
		CHECK(r == f, "thread %d", i);
	}
	files_close(f);
}

int
main(void)
{
	scratch_make();
	RUN(test_paths());
	RUN(test_contents_id());
	RUN(test_digest_of_texts());
	RUN(test_digest_of_weights());
	RUN(test_guard());
	RUN(test_foreign_sigbus());
	RUN(test_threads());
	scratch_remove();
	return check_done("test_load_files");
}
