/*
 * capture_sizes.c
 *	  Sizes of recorded decode steps (capture_sizes.h).
 *
 * Tested by tests/unit/model/test_stepgraph.c.
 */
#include "runtime/capture_sizes.h"

/* Insert a size in order into sizes[n] unless it is already there or too large; returns the new number. */
static int
add(int *sizes, int n, int size, int most)
{
	int			at = n;

	if (size > most || n == GRAPH_SIZES)
		return n;
	while (at > 0 && sizes[at - 1] > size)
		at--;
	if (at > 0 && sizes[at - 1] == size)
		return n;
	for (int i = n; i > at; i--)
		sizes[i] = sizes[i - 1];
	sizes[at] = size;
	return n + 1;
}

int
graph_sizes(const int *requested, int n, int most, int out[GRAPH_SIZES])
{
	int			have = 0;

	for (int i = 0; i < n; i++)
		have = add(out, have, requested[i], most);
	for (int size = 1; n == 0 && size <= 512;
		 size += size < 2 ? 1 : size < 4 ? 2 : size < 8 ? 4 : size < 256 ? 8 : 16)
		have = add(out, have, size, most);
	return have;
}
