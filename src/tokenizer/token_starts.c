/*
 * token_starts.c
 *	  Find the byte at which each token of a text begins.
 *
 * Tested by tests/unit/text/test_chunk.c.
 */
#include "tokenizer/tokenizer.h"
#include "text/utf8.h"

bool
tok_starts(const Tok *t, const char *s, size_t n, IntVec *out, Err *e)
{
	IntVec		ids = {0},
				offsets = {0};	/* from character, to character */
	size_t		pos = 0;
	int32_t		at = 0;			/* number of the character at pos */
	bool		ok = tok_offsets(t, s, n, &ids, &offsets, e);

	for (size_t i = 0; ok && i < offsets.len; i += 2)
	{
		while (at < offsets.data[i] && pos < n)
		{
			pos += utf8_len((unsigned char) s[pos]);
			at++;
		}
		intvec_push(out, (int32_t) pos);
	}
	intvec_free(&ids);
	intvec_free(&offsets);
	return ok;
}
