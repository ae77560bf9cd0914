/*
 * fake_grammar.c
 *	  Outputs of the fake backend that match a grammar: the prompt itself, if it matches, else the text
 *	  that the grammar forces; if the grammar leaves a choice, the byte that ends the output soonest.
 *
 * Tokens are bytes, and forced text is one token.  Tested by tests/unit/backend/test_fake.c.
 */
#include "backend/fake/fake_grammar.h"

#include <string.h>

#define MOST_TOKENS		4096	/* this choice of bytes never ends with some grammars */

static GramVocab *
byte_vocab(void)
{
	char		bytes[256];
	GramToken	tokens[256];

	for (int i = 0; i < 256; i++)
	{
		bytes[i] = (char) i;
		tokens[i] = (GramToken) {&bytes[i], 1, false};
	}
	return gram_vocab_new(tokens, 256, NULL, 0);
}

/* Return the byte to continue with; -1 = none. */
static int
choose(const uint32_t mask[8])
{
	static const char soon[] = "\"}])>,:01aftn ";

	for (int i = 0; soon[i] != '\0'; i++)
		if (mask[soon[i] / 32] >> (soon[i] % 32) & 1)
			return soon[i];
	for (int i = 0; i < 256; i++)
		if (mask[i / 32] >> (i % 32) & 1)
			return i;
	return -1;
}

/* Add one token; returns false if there is none. */
static bool
go_on(GramMatch *m, Buf *answer)
{
	size_t		from = answer->len;
	uint32_t	mask[8];
	bool		ok;
	int			b;
	Err			e;

	if (!gram_match_forced(m, 64, answer, &e))
		return false;
	if (answer->len == from)
	{
		if (!gram_match_mask(m, mask, &e) || (b = choose(mask)) < 0)
			return false;
		buf_addc(answer, (char) b);
	}
	return gram_match_bytes(m, answer->data + from, answer->len - from, &ok, &e) && ok;
}

void
fake_fitting(Grammar *g, const char *prompt, int max_tokens, Buf *answer, IntVec *cuts, ReqFinish *finish)
{
	GramVocab  *v;
	GramMatch  *m;
	bool		yes;
	Err			e;

	*finish = FIN_STOP;
	if (grammar_accepts(g, prompt, strlen(prompt), &yes, &e) && yes)
	{
		buf_addstr(answer, prompt);
		intvec_push(cuts, (int32_t) answer->len);
		return;
	}
	if (max_tokens > MOST_TOKENS)
		max_tokens = MOST_TOKENS;
	v = byte_vocab();
	m = gram_match_new(g, v);
	while (!gram_match_accepting(m) && *finish == FIN_STOP)
		if (cuts->len < (size_t) max_tokens && go_on(m, answer))
			intvec_push(cuts, (int32_t) answer->len);
		else
			*finish = FIN_LENGTH;
	gram_match_free(m);
	gram_vocab_unref(v);
}
