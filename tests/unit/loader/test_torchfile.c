/*
 * test_torchfile.c
 *	  Tensors written by torch.save(): those of tests/golden/torch_tensors.txt, and each of them cut and
 *	  with each byte changed, which must give a tensor or an error.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check.h"

#include "base/alloc.h"
#include "server/api/vector_encoding.h"
#include "loader/torch_pickle.h"

#define LINE_MAX_LEN	65536

/* Does the tensor print as "2,3:0,1,2,..."? */
static bool
is_tensor(const TorchTensor *t, const char *want)
{
	const char *p = want;
	char	   *end;

	for (int i = 0; i < t->n_dims; i++, p = end + (*end == ','))
		if (strtoul(p, &end, 10) != t->dim[i])
			return false;
	if (*p++ != ':')
		return false;
	for (size_t i = 0; i < t->n; i++, p = end + (*end == ','))
	{
		float		x = strtof(p, &end);

		if (end == p || (x != t->data[i] && !(isnan(x) && isnan(t->data[i]))))
			return false;
	}
	return *p == '\0';
}

static void
check_file(const char *name, const char *want, const Buf *file)
{
	TorchTensor t;
	Err			e = {0};
	bool		ok = torch_tensor_read(file->data, file->len, &t, &e);

	if (strchr(want, ':') != NULL)
		CHECK(ok && is_tensor(&t, want), "%s: %s", name, ok ? "other numbers" : e.msg);
	else
		CHECK(!ok && strstr(e.msg, want) != NULL, "%s: \"%s\"", name, ok ? "a tensor" : e.msg);
	if (ok)
		mem_free(t.data);
}

/* Damage the file in all ways, in a buffer of its own, so that sanitizers find reads beyond its end. */
static void
check_broken(const Buf *file, size_t step)
{
	for (size_t i = 0; i < file->len; i += step)
		for (int how = 0; how < 3; how++)
		{
			size_t		n = how == 0 ? i : file->len;
			char	   *s = mem_alloc(n + (n == 0));
			TorchTensor t;
			Err			e = {0};

			memcpy(s, file->data, n);
			if (how > 0)
				s[i] = (char) (how == 1 ? s[i] ^ 0xFF : s[i] + 1);
			if (torch_tensor_read(s, n, &t, &e))
				mem_free(t.data);
			else
				CHECK(e.msg[0] != '\0' && t.data == NULL, "byte %zu: an error without words", i);
			mem_free(s);
		}
}

static void
check_base64(void)
{
	static const struct
	{
		const char *s;
		const char *want;		/* NULL: none */
	}			cases[] = {
		{"", ""}, {"YQ==", "a"}, {"YWI=", "ab"}, {"YWJj", "abc"}, {"YWJjZA==", "abcd"},
		{"+/+/", "\373\377\277"},
		{"YQ=", NULL}, {"YQ", NULL}, {"YR==", NULL}, {"YWJ=", NULL}, {"Y===", NULL}, {"====", NULL},
		{"YQ==YQ==", NULL},
		{"YW Jj", NULL}, {"YWJj\n", NULL}, {"Y-_j", NULL}, {"=WJj", NULL}, {"YW=j", NULL}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Buf			b = {0};
		bool		ok = base64_read(&b, cases[i].s, strlen(cases[i].s));

		CHECK(ok == (cases[i].want != NULL) &&
			  (!ok || (b.len == strlen(cases[i].want) &&
					   (b.len == 0 || memcmp(b.data, cases[i].want, b.len) == 0))),
			  "base64 \"%s\"", cases[i].s);
		buf_free(&b);
	}
}

int
main(void)
{
	FILE	   *f = fopen("tests/golden/torch_tensors.txt", "r");
	char	   *line = mem_alloc(LINE_MAX_LEN);
	int			n = 0;

	CHECK(f != NULL, "tests/golden/torch_tensors.txt can't be read");
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
		RUN(check_broken(&file, file.len > 4000 ? 7 : 1));
		buf_free(&file);
		n++;
	}
	CHECK(n >= 30, "%d files", n);
	if (f != NULL)
		fclose(f);
	mem_free(line);
	RUN(check_base64());
	return check_done("torchfile");
}
