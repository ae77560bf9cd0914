/*
 * test_unicode.c
 *	  Character classes of every code point and normalization, against Hugging Face's engines
 *	  (tests/golden/tokenizer_unicode.txt); UTF-8 repair.
 */
#include "tests/unit/check.h"
#include "tests/unit/tok_util.h"
#include "text/unicode.h"
#include "text/utf8.h"

static void
classes(const char *name, unsigned bit, size_t count, unsigned long hash)
{
	uint32_t	h = FNV_START;
	size_t		n = 0;

	for (uint32_t c = 0; c < 0x110000; c++)
		if ((c < 0xD800 || c > 0xDFFF) && (uni_class(c) & bit) != 0)
		{
			char		b[3] = {(char) (c >> 16), (char) (c >> 8), (char) c};

			h = fnv(h, b, 3);
			n++;
		}
	CHECK(n == count && h == hash, "class %s: %zu code points, expected %zu", name, n, count);
}

/* Normalize single code points; count changes, and hash the results. */
static void
forms(const char *name, UniForm form, size_t count, unsigned long hash)
{
	uint32_t	h = FNV_START;
	size_t		n = 0;
	Buf			out = {0};
	Err			e = {0};

	for (uint32_t c = 0; c < 0x110000; c++)
	{
		char		s[4];
		size_t		len;

		if (c >= 0xD800 && c <= 0xDFFF)
			continue;
		/* outside of this range the reference has the compatibility data of an older Unicode */
		if (form != UNI_NFC && c >= 0x3200 && (c < 0xF900 || c > 0xFFFF))
			continue;
		len = utf8_put(s, c);
		if (c > 0)
			buf_addc(&out, '\n');
		h = fnv(h, out.data, out.len);
		buf_reset(&out);
		CHECK(uni_normalize(s, len, form, &out, &e), "U+%04X: %s", (unsigned) c, e.msg);
		n += out.len != len || memcmp(out.data, s, len) != 0;
		h = fnv(h, out.data, out.len);
		buf_reset(&out);
	}
	CHECK(n == count && h == hash, "%s: %zu code points change, expected %zu", name, n, count);
	buf_free(&out);
}

static void
golden(void)
{
	static const struct
	{
		const char *name;
		unsigned	bit;
	}			cls[] = {
		{"L", UNI_L}, {"N", UNI_N}, {"M", UNI_M}, {"P", UNI_P}, {"S", UNI_S}, {"space", UNI_SPACE},
		{"word", UNI_WORD}
	};
	static const char *const form[] = {"NFC", "NFD", "NFKC", "NFKD"};
	Buf			file = {0};
	size_t		pos = 0;
	char	   *line;

	CHECK(read_file(GOLDEN "unicode.txt", &file), "no recorded data");
	while ((line = next_line(&file, &pos)) != NULL)
	{
		char		name[16];
		size_t		count;
		unsigned long hash;

		if (strncmp(line, "nfc ", 4) == 0)
		{
			Buf			in = {0};
			Buf			want = {0};
			Buf			got = {0};
			Err			e = {0};

			unhex(line + 4, &in);
			unhex(strchr(line + 4, ' ') + 1, &want);
			CHECK(uni_normalize(in.data, in.len, UNI_NFC, &got, &e), "%s", e.msg);
			CHECK(got.len == want.len && memcmp(got.data, want.data, got.len) == 0, "NFC of %s", line);
			buf_free(&in);
			buf_free(&want);
			buf_free(&got);
			continue;
		}
		CHECK(sscanf(line, "%15s %zu %lx", name, &count, &hash) == 3, "%s", line);
		for (size_t i = 0; i < sizeof(cls) / sizeof(cls[0]); i++)
			if (strcmp(name, cls[i].name) == 0)
				classes(name, cls[i].bit, count, hash);
		for (int i = 0; i < 4; i++)
			if (strcmp(name, form[i]) == 0)
				forms(name, (UniForm) i, count, hash);
	}
	buf_free(&file);
}

static void
repair(const char *in, const char *want)
{
	Buf			out = {0};

	uni_repair(in, strlen(in), &out);
	CHECK(strcmp(out.data, want) == 0, "repair gave \"%s\", expected \"%s\"", out.data, want);
	CHECK(uni_valid(out.data, out.len), "repaired text is not valid");
	CHECK(uni_valid(in, strlen(in)) == (strcmp(in, want) == 0), "validity of \"%s\"", in);
	buf_free(&out);
}

/* A run of marks for which utf8proc alone would take quadratic time. */
static void
long_run(void)
{
	Buf			in = {0};
	Buf			out = {0};
	Err			e = {0};
	size_t		n = 100000;

	buf_addc(&in, 'a');
	for (size_t i = 0; i < n; i++)
		buf_addstr(&in, i % 2 ? "\xCC\xA3" : "\xCC\x81");	/* U+0323 (220), U+0301 (230) */
	CHECK(uni_normalize(in.data, in.len, UNI_NFC, &out, &e), "%s", e.msg);
	/* the first dot below makes U+1EA1, then all dots, then all acutes */
	CHECK(out.len == 3 + 2 * (n - 1) && memcmp(out.data, "\xE1\xBA\xA1\xCC\xA3", 5) == 0 &&
		  memcmp(out.data + out.len - 2, "\xCC\x81", 2) == 0, "%zu bytes", out.len);
	buf_free(&in);
	buf_free(&out);
}

/* utf8proc takes U+11A7 for a final consonant, and then loses it. */
static void
hangul(void)
{
	static const struct
	{
		const char *in;
		UniForm		form;
		const char *want;
	}			c[] = {
		{"\xEA\xB0\x80\xE1\x86\xA7", UNI_NFC, "\xEA\xB0\x80\xE1\x86\xA7"},
		{"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA7\xE1\x86\xA7x", UNI_NFKC,
		 "\xEA\xB0\x80\xE1\x86\xA7\xE1\x86\xA7x"},
		{"\xEA\xB0\x80\xE1\x86\xA8\xE1\x86\xA7", UNI_NFC, "\xEA\xB0\x81\xE1\x86\xA7"},
		{"\xE1\x86\xA7\xCC\xA3\xEA\xB0\x80", UNI_NFD, "\xE1\x86\xA7\xCC\xA3\xE1\x84\x80\xE1\x85\xA1"},
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
	{
		Buf			out = {0};
		Err			e = {0};

		CHECK(uni_normalize(c[i].in, strlen(c[i].in), c[i].form, &out, &e), "%s", e.msg);
		CHECK(strcmp(out.data, c[i].want) == 0, "Hangul %zu gave \"%s\"", i, out.data);
		buf_free(&out);
	}
}

int
main(void)
{
	RUN(golden());
	RUN(hangul());
	RUN(repair("abc \xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x99\x82", "abc \xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x99\x82"));
	/* Unicode 3.9, table 3-8 and its neighbours */
	repair("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT
		   UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT "A");
	RUN(repair("\xED\xA0\x80\xED\xBF",
			   UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT));
	RUN(repair("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41",
			   UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT "A"));
	RUN(repair("\xF4\x90\x80\x80", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT));
	RUN(long_run());
	CHECK(strcmp(uni_category('A'), "Lu") == 0 && strcmp(uni_category(0x20AC), "Sc") == 0, "categories");
	CHECK(uni_class(0x110000) == 0 && uni_class(UINT32_MAX) == 0, "beyond Unicode");
	return check_done("unicode");
}
