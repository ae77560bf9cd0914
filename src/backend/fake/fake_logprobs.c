/*
 * fake_logprobs.c
 *	  Made-up log-probabilities of the fake backend.
 *
 * Each token is the most likely one, with FAKE_LOGPROB; the next ones are the ids 1, 2, ... with -1, -2,
 * ...  Tested by tests/unit/backend/test_fake.c.
 */
#include "backend/fake/fake_logprobs.h"

#include "base/alloc.h"

/* Add one position: its own token, then n others. */
static void
add_position(Logprobs *l, int32_t own, const int32_t *others, int n)
{
	Logprob    *e = mem_alloc(((size_t) n + 1) * sizeof(Logprob));

	e[0] = (Logprob) {.id = own, .rank = 1, .value = (float) FAKE_LOGPROB};
	for (int i = 1; i <= n; i++)
		e[i] = (Logprob) {.id = others != NULL ? others[i - 1] : i, .rank = i + 1, .value = (float) -i};
	logprobs_add(l, e, n + 1);
	mem_free(e);
}

static int
more_than_own(int wanted)
{
	return wanted > 1 ? wanted - 1 : 0;
}

Logprobs *
fakeout_logprobs(const OutParams *out, const int32_t *ids, int n)
{
	Logprobs   *l;

	if (n == 0 || (out->logprobs == LOGPROBS_NONE && out->logprob_ids.len == 0))
		return NULL;
	l = logprobs_new();
	for (int i = 0; i < n; i++)
		if (out->logprob_ids.len > 0)
			add_position(l, ids[i], out->logprob_ids.data, (int) out->logprob_ids.len);
		else
			add_position(l, ids[i], NULL, more_than_own(out->logprobs));
	return l;
}

Logprobs *
fakeout_prompt(const OutParams *out, const IntVec *prompt)
{
	Logprobs   *l;

	if (out->prompt_logprobs == LOGPROBS_NONE)
		return NULL;
	l = logprobs_new();
	logprobs_add(l, NULL, 0);
	for (size_t i = 1; i < prompt->len; i++)
		add_position(l, prompt->data[i], NULL, more_than_own(out->prompt_logprobs));
	return l;
}
