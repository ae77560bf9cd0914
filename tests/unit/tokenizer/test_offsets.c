/*
 * test_offsets.c
 *	  Offsets of tokens in their text, compared with Hugging Face's library
 *	  (tests/golden/offsets_golden.py), for every tokenizer.json of the fixtures.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "loader/model_files.h"
#include "tokenizer/tokenizer.h"
#include "tests/unit/check.h"

static Tok *
open_tok(const char *name)
{
	char		path[300];
	Buf			text = {0};
	char		piece[65536];
	size_t		n;
	Err			e = {0};
	Tok		   *t;
	FILE	   *f;

	snprintf(path, sizeof(path), "tests/fixtures/tokenizers/%s.json", name);
	if ((f = fopen(path, "rb")) == NULL)
		return NULL;
	while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
		buf_add(&text, piece, n);
	fclose(f);
	t = tok_from_hf(text.data, text.len, NULL, 0, &e);
	CHECK(t != NULL, "%s: %s", name, e.msg);
	buf_free(&text);
	return t;
}

static void
from_hex(const char *hex, size_t n, Buf *out)
{
	unsigned	c;

	for (size_t i = 0; i + 1 < n && sscanf(hex + i, "%2x", &c) == 1; i += 2)
		buf_addc(out, (char) c);
}

/* Check one line: a text, and its tokens with their offsets. */
static void
check_line(const char *name, const Tok *t, const char *line)
{
	const char *p = strchr(line, ' ');
	size_t		hex = p != NULL ? (size_t) (p - line) : strcspn(line, "\n");
	Buf			text = {0};
	IntVec		ids = {0};
	IntVec		offsets = {0};
	Err			e = {0};
	int			id,
				from,
				to;
	int			used;
	size_t		i = 0;
	bool		same = true;

	buf_reserve(&text, 1);
	text.data[0] = '\0';
	from_hex(line, hex, &text);
	CHECK(tok_offsets(t, text.data, text.len, &ids, &offsets, &e), "%s: %s", name, e.msg);
	while (p != NULL && sscanf(p, " %d:%d-%d%n", &id, &from, &to, &used) == 3)
	{
		if (same && (i >= ids.len || ids.data[i] != id || offsets.data[2 * i] != from ||
					 offsets.data[2 * i + 1] != to))
		{
			same = false;
			CHECK(false, "%s: \"%s\": token %zu is %d at %d-%d, expected %d at %d-%d", name, text.data, i,
				  i < ids.len ? ids.data[i] : -1, i < ids.len ? offsets.data[2 * i] : -1,
				  i < ids.len ? offsets.data[2 * i + 1] : -1, id, from, to);
		}
		p += used;
		i++;
	}
	CHECK(!same || (i == ids.len && offsets.len == 2 * i),
		  "%s: \"%s\": %zu tokens, %zu offsets, expected %zu", name, text.data, ids.len, offsets.len, i);
	buf_free(&text);
	intvec_free(&ids);
	intvec_free(&offsets);
}

int
main(void)
{
	FILE	   *f = fopen("tests/golden/offsets.txt", "r");
	static char line[1 << 16];
	char		name[64] = "";
	Tok		   *t = NULL;

	CHECK(f != NULL, "no expectations");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		if (line[0] == '=')
		{
			tok_free(t);
			sscanf(line, "= %63s", name);
			t = open_tok(name);
		}
		else if (t != NULL)
			RUN(check_line(name, t, line));
	}
	if (f != NULL)
		fclose(f);
	tok_free(t);
	return check_done("test_offsets");
}
