/*
 * test_assert.c
 *	  ASSERT and ALWAYS: their effect when a condition holds, when it doesn't, and in a release build;
 *	  and the legal transitions between the states of a server call.
 */
#include "tests/unit/check_abort.h"

#include "ipc/call_state.h"

static int	looked;

static bool
look(bool r)
{
	looked++;
	return r;
}

static void
test_failures(void)
{
	int			n = 3;

	CHECK_ABORTS(ALWAYS(n == 4), "tests/unit/base/test_assert.c");
	CHECK_ABORTS(ALWAYS(n == 4), "n == 4");
	CHECK_ABORTS(ASSERT(n > 3 || n < 0), "n > 3 || n < 0");
	ALWAYS(n == 3);
	ASSERT(look(true));
	CHECK(looked == 1, "computed %d times", looked);
	CHECK_ABORTS(ASSERT(look(false)), "look(false)");
	CHECK(looked == 1, "the child's memory is its own");
}

#undef VLLM_BASE_ASSERT_H
#undef VLLM_ASSERT
#undef ASSERT
#undef ALWAYS
#undef ASSERT_HOLDS
#define VLLM_ASSERT 0
#define assert_failed assert_failed_in_release
#include "base/assert.h"

static void
test_release(void)
{
	looked = 0;
	ASSERT(look(false));
	CHECK(looked == 0, "a release computes no ASSERT's condition");
	ALWAYS(look(true));
	CHECK(looked == 1, "but ALWAYS's, once");
	CHECK_ABORTS(ALWAYS(look(false)), "look(false)");
}

static void
test_states(void)
{
	/* rows: from NONE, CLAIMED, SENDING, RUNNING, FINAL, CLOSED; columns: to the same */
	static const char *const legal[WC_N_STATES] = {
		".x....", "..x..x", "...xxx", "....xx", ".....x", ".x...."
	};

	for (int from = 0; from < WC_N_STATES; from++)
		for (int to = 0; to < WC_N_STATES; to++)
			CHECK(wire_call_may_follow((WireCallState) from, (WireCallState) to) == (legal[from][to] == 'x'),
				  "from %d to %d", from, to);
	CHECK(!wire_call_may_follow(WC_N_STATES, WC_CLOSED) && !wire_call_may_follow(WC_CLOSED, WC_N_STATES),
		  "no state");
}

int
main(void)
{
	test_failures();
	test_release();
	test_states();
	return check_done("assert");
}
