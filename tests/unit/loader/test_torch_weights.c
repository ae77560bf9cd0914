/*
 * test_torch_weights.c
 *	  Weights in PyTorch's files: the state dictionaries of tests/golden/torch_weights.txt, and some of
 *	  them cut and with bytes changed, which must give tensors within the file or an error.
 *
 * tests/golden/models_golden.c compares the values.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/load_util.h"

#include "base/alloc.h"
#include "loader/pickle.h"
#include "server/api/vector_encoding.h"

#define LINE_MAX_LEN	65536
#define FILE_NAME	"pytorch_model.bin"

/* Return "name TYPE 2,3;..." of all tensors, to be freed. */
static char *
listed(const Files *f)
{
	Buf			b = {0};

	for (size_t i = 0; i < files_count(f); i++)
	{
		const KTensor *t = files_tensor(f, i);
		uint32_t	sum = 0;

		buf_printf(&b, "%s%s %s ", i > 0 ? ";" : "", t->name, ktype_name(t->type));
		for (int d = 0; d < t->ndim; d++)
			buf_printf(&b, "%s%lld", d > 0 ? "," : "", (long long) t->shape[d]);
		/* read all bytes, so that sanitizers check them */
		for (size_t j = 0; j < t->nbytes; j++)
			sum += ((const uint8_t *) t->data)[j];
		(void) sum;
	}
	buf_addc(&b, '\0');
	return b.data;
}

static void
check_file(const char *name, const char *want, const Buf *file)
{
	Err			e = {0};
	Files	   *f;
	char	   *got = NULL;

	put_file(FILE_NAME, file->data, file->len);
	f = files_open(scratch, &e);
	if (f != NULL)
		got = listed(f);
	CHECK(f != NULL ? strcmp(got, want) == 0 : strstr(e.msg, want) != NULL, "%s: \"%s\" instead of \"%s\"",
		  name, f != NULL ? got : e.msg, want);
	CHECK(f != NULL || (strstr(e.msg, "/" FILE_NAME "\"") != NULL && e.hint[0] != '\0'),
		  "%s: no file or no hint in \"%s\", \"%s\"", name, e.msg, e.hint);
	mem_free(got);
	files_close(f);
}

static void
check_broken(Buf *file, size_t step)
{
	for (size_t i = 0; i < file->len; i += step)
		for (int how = 0; how < 2; how++)
		{
			char		was = file->data[i];
			Err			e = {0};
			Files	   *f;

			if (how > 0)
				file->data[i] = (char) (was ^ (i % 3 == 0 ? 0xff : 1));
			put_file(FILE_NAME, file->data, how == 0 ? i : file->len);
			file->data[i] = was;
			f = files_open(scratch, &e);
			if (f != NULL)
				mem_free(listed(f));
			else
				CHECK(e.msg[0] != '\0', "byte %zu: an error without words", i);
			files_close(f);
		}
}

/* Check the error for these bytes: its message, and a part of its detail and of its hint. */
static void
check_error(const char *bytes, size_t n, ErrClass cls, const char *msg, const char *detail, const char *hint)
{
	Err			e = {0};
	Files	   *f;
	char		want[256];

	put_file(FILE_NAME, bytes, n);
	snprintf(want, sizeof(want), msg, in_scratch(FILE_NAME));
	f = files_open(scratch, &e);
	CHECK(f == NULL && e.cls == cls && strcmp(e.msg, want) == 0 && strstr(e.detail, detail) != NULL &&
		  strstr(e.hint, hint) != NULL, "\"%s\" instead of \"%s\"; \"%s\"; \"%s\"", e.msg, want, e.detail,
		  e.hint);
	files_close(f);
}

/* Errors say what is wrong, where, and what to do. */
static void
check_errors(const Buf *plain)
{
	static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
	static const char old[] = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
	static const char none[] = "file \"%s\" can't be read: no archive";
	static const char name[] = "archive/data/1";
	char	   *at = memmem(plain->data, plain->len, "_rebuild_tensor_v2", 18);
	Buf			b = {0};

	check_error("", 0, ERR_BAD_FILE, none, "The file is empty", "download it again");
	check_error(lfs, sizeof(lfs) - 1, ERR_BAD_FILE, none, "pointer of Git LFS", "git lfs pull");
	check_error(old, sizeof(old) - 1, ERR_UNSUPPORTED, none, "before version 1.6", "save_pretrained");
	check_error(plain->data, plain->len / 2, ERR_BAD_FILE, none, "no directory at its end", "download");

	CHECK(at != NULL, "no call");
	buf_add(&b, plain->data, plain->len);
	if (at != NULL)
		b.data[at - plain->data + 17] = '9';
	check_error(b.data, b.len, ERR_UNSUPPORTED, "file \"%s\" can't be read: only dense tensors can be read, "
				"not what torch._utils._rebuild_tensor_v9 makes", "at tensor \"0.weight\"",
				"save_pretrained");
	memcpy(b.data, plain->data, plain->len);
	/* the name in the directory, which is the last one */
	for (size_t i = 0; i + sizeof(name) <= b.len; i++)
		if (memcmp(b.data + i, name, sizeof(name) - 1) == 0)
			at = b.data + i;
	at[sizeof(name) - 2] = '7';
	check_error(b.data, b.len, ERR_BAD_FILE, "file \"%s\" can't be read: its member \"data/1\" is missing",
				"holds tensor \"0.bias\"", "download");
	buf_free(&b);
}

/* Booleans, such as masks that old models keep among their weights, are bytes. */
static void
check_booleans(const char *want, Buf *file)
{
	char	   *type = memmem(file->data, file->len, "torch\nByteStorage", 17);

	CHECK(type != NULL, "no tensor of bytes");
	if (type == NULL)
		return;
	memcpy(type, "torch\nBoolStorage", 17);
	check_file("booleans", want, file);
}

/* An index that names shards. */
static void
check_index(const Buf *file)
{
	Err			e = {0};
	Files	   *f;

	unlink(in_scratch(FILE_NAME));
	put_file("x-00001-of-00001.bin", file->data, file->len);
	put_text("pytorch_model.bin.index.json", "{\"weight_map\":{\"0.weight\":\"x-00001-of-00001.bin\"}}");
	f = files_open(scratch, &e);
	CHECK(f != NULL && files_count(f) == 2 && files_find(f, "0.bias") != NULL, "an index: %s", e.msg);
	files_close(f);
	put_text("pytorch_model.bin.index.json", "{\"weight_map\":{\"0.other\":\"x-00001-of-00001.bin\"}}");
	CHECK(files_open(scratch, &e) == NULL && strstr(e.msg, "\"0.other\" is not in file") != NULL, "%s",
		  e.msg);
	put_text("pytorch_model.bin.index.json", "{\"weight_map\":{\"0.weight\":\"x.safetensors\"}}");
	CHECK(files_open(scratch, &e) == NULL && strstr(e.msg, "invalid file name") != NULL, "%s", e.msg);
}

/* Many names may lead to one object, so that a search in it must be short. */
static void
check_members(int before)
{
	Buf			b = {0};
	Err			e = {0};
	Pickle	   *k;

	buf_add(&b, "\x80\x02}(", 4);
	for (int i = 0; i < before; i++)
		buf_add(&b, "K\0N", 3);
	buf_add(&b, "\x8c\x04lastK\1u.", 10);
	k = pickle_read((StrView) {b.data, b.len}, true, &e);
	CHECK(k != NULL && (pickle_member(k, pickle_top(k), "last") != NULL) == (before < PICKLE_MAX_MEMBERS),
		  "a member after %d: %s", before, e.msg);
	pickle_free(k);
	buf_free(&b);
}

int
main(void)
{
	FILE	   *f = fopen("tests/golden/torch_weights.txt", "r");
	char	   *line = mem_alloc(LINE_MAX_LEN);
	Buf			plain = {0};
	int			n = 0;

	scratch_make();
	put_text("config.json", "{}");
	put_text("tokenizer.json", "{}");
	CHECK(f != NULL, "tests/golden/torch_weights.txt can't be read");
	while (f != NULL && fgets(line, LINE_MAX_LEN, f) != NULL)
	{
		char	   *want = strchr(line, '\t');
		char	   *data = want != NULL ? strchr(want + 1, '\t') : NULL;
		Buf			file = {0};

		if (data == NULL)
			continue;
		*want++ = *data++ = '\0';
		CHECK(base64_read(&file, data, strcspn(data, "\n")), "%s: no base64", line);
		RUN(check_file(line, want, &file));
		if (strcmp(line, "plain") == 0 || strcmp(line, "int4") == 0)
			RUN(check_broken(&file, 19));
		if (strcmp(line, "types") == 0)
			RUN(check_booleans(want, &file));
		if (strcmp(line, "plain") == 0)
			buf_add(&plain, file.data, file.len);
		buf_free(&file);
		n++;
	}
	CHECK(n >= 30, "%d files", n);
	if (f != NULL)
		fclose(f);
	mem_free(line);
	RUN(check_errors(&plain));
	RUN(check_index(&plain));
	RUN(check_members(PICKLE_MAX_MEMBERS - 1));
	RUN(check_members(PICKLE_MAX_MEMBERS));
	buf_free(&plain);
	scratch_remove();
	return check_done("torch_weights");
}
