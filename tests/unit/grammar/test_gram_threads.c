/*
 * test_gram_threads.c
 *	  Several threads with one grammar and one vocabulary, while the grammar is reset again and again;
 *	  and several grammars that share what they cache in a vocabulary.
 */
#include <pthread.h>
#include <string.h>

#include "tests/unit/check.h"
#include "grammar/grammar_internal.h"

typedef struct Shared
{
	Grammar    *g;				/* NULL: each thread makes its own */
	GramVocab  *v;
	int			wrong;
} Shared;

static const char spec[] = "root ::= v\nv ::= \"{\" (p (\",\" p)*)? \"}\" | \"[\" (v (\",\" v)*)? \"]\" | s "
						   "| [0-9]+\np ::= s \":\" v\ns ::= \"\\\"\" [a-z]* \"\\\"\"";

static Grammar *
make(void)
{
	GramSpec	s = {.kind = GRAM_GRAMMAR,.text = spec,.len = sizeof(spec) - 1};
	Err			e = {0};

	return grammar_new(&s, &e);
}

static void *
one_thread(void *arg)
{
	static const char text[] = "{\"a\":[1,2,{\"b\":\"xyz\"}],\"c\":3}";
	Shared	   *s = arg;
	uint32_t	words[8];
	Err			e = {0};
	bool		ok;

	for (int round = 0; round < 20; round++)
	{
		Grammar    *g = s->g != NULL ? grammar_ref(s->g) : make();
		GramMatch  *m = gram_match_new(g, s->v);

		grammar_unref(g);
		for (size_t i = 0; i + 1 < sizeof(text); i++)
		{
			gram_match_mask(m, words, &e);
			if (!(words[(uint8_t) text[i] / 32] >> (text[i] % 32) & 1))
				__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
			gram_match_token(m, text[i], &ok, &e);
		}
		if (!gram_match_finished(m))
			__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
		gram_match_free(m);
	}
	return NULL;
}

static void
threads(bool one_grammar)
{
	GramToken	token[256];
	char		byte[256];
	pthread_t	t[4];
	Shared		s = {.g = one_grammar ? make() : NULL};

	for (int i = 0; i < 256; i++)
	{
		byte[i] = (char) i;
		token[i] = (GramToken) {&byte[i], 1, false};
	}
	s.v = gram_vocab_new(token, 256, NULL, 0);
	if (one_grammar)
		grammar_set_limit(s.g, grammar_memory(s.g) + 30000);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, one_thread, &s);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(s.wrong == 0, "%d", s.wrong);
	grammar_unref(s.g);
	gram_vocab_unref(s.v);
}

int
main(void)
{
	RUN(threads(true));
	RUN(threads(false));
	return check_done("test_gram_threads");
}
