/*
 * expert_balance.c
 *	  Compute copies of busy experts, and a slot for each expert and copy.
 *
 * Three steps for each layer.  First, the router's groups of experts are distributed to the nodes,
 * heaviest first, so that a token whose experts are in few groups stays on few nodes.  Second, within a
 * node the surplus slots go one by one to the expert with the most load per copy.  Third, the node's
 * copies are distributed to its ranks.  In both distributions the heaviest item goes to the lightest
 * pack that has room.  If the groups can't be divided among the nodes, all experts are one group and all
 * ranks one node.
 *
 * Loads are compared as doubles.  They are counts far below 2^53, so sums are exact; quotients are
 * rounded the same way everywhere.
 */
#include "model/parallel/expert_balance.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

/* Working data of one layer.  A node's experts are numbered from 0 in the order in which it got its
 * groups. */
typedef struct ExpertBalanceLayer
{
	const EplbShape *s;
	int			groups;
	int			nodes;
	double	   *group_load;		/* [groups] */
	double	   *load;			/* [logical], of a node's experts, node by node */
	int		   *node_of;		/* [groups] */
	int		   *place_of;		/* [groups]: index among its node's groups */
	int		   *expert;			/* [logical]: the expert of that number */
	int		   *copies;			/* [logical] */
	int		   *held;			/* [physical]: the node's expert in each slot, in the order in which slots
								 * are filled */
	int		   *copy;			/* [physical]: which copy of it */
	double	   *share;			/* [physical]: load of a copy */
	int		   *rank_of;		/* [physical] */
	int		   *slot_of;		/* [physical]: index among its rank's slots */
	int		   *order;			/* [physical], scratch of deal() */
	double	   *full;			/* [physical], scratch of deal() */
	int		   *taken;			/* [physical], scratch of deal() */
} ExpertBalanceLayer;

bool
eplb_check(const EplbShape *s, Err *e)
{
	if (s->ranks < 1 || s->nodes < 1 || s->groups < 1 || s->logical < 1 || s->layers < 1)
		return err_set(e, ERR_INVALID, "experts of %d layers can't be placed: %d experts in %d groups, %d "
									   "ranks of %d nodes",
					   s->layers, s->logical, s->groups, s->ranks, s->nodes);
	if (s->physical < s->logical)
		return err_set(e, ERR_INVALID, "%d places are too few for %d experts", s->physical, s->logical);
	if (s->physical % s->ranks != 0)
	{
		err_set(e, ERR_INVALID, "%d experts and %d redundant ones can't be divided among %d ranks",
				s->logical, s->physical - s->logical, s->ranks);
		return err_hint(e, "The next valid number of redundant experts is %d.",
						s->physical - s->logical + s->ranks - s->physical % s->ranks);
	}
	if (s->ranks % s->nodes != 0)
		return err_set(e, ERR_INVALID, "%d ranks can't be divided among %d nodes", s->ranks, s->nodes);
	if (s->logical % s->groups != 0)
		return err_set(e, ERR_INVALID, "%d experts can't be divided into %d groups", s->logical, s->groups);
	return true;
}

int
eplb_width(const EplbShape *s)
{
	return s->physical - s->logical + 1;
}

/* Sort item[n] by falling weight, stable.  There are few items, so insertion sort is enough. */
static void
sort_down(const double *weight, int n, int *item)
{
	for (int i = 0; i < n; i++)
	{
		int			at = i;

		for (; at > 0 && weight[item[at - 1]] < weight[i]; at--)
			item[at] = item[at - 1];
		item[at] = i;
	}
}

/* Distribute n items to m packs of n / m each: the heaviest goes to the lightest pack with room, the
 * first of these. */
static void
deal(ExpertBalanceLayer *l, const double *weight, int n, int m, int *pack, int *place)
{
	int			room = n / m;

	ASSERT(n % m == 0);
	if (room == 1)
	{
		for (int i = 0; i < n; i++)
		{
			pack[i] = i;
			place[i] = 0;
		}
		return;
	}
	sort_down(weight, n, l->order);
	for (int p = 0; p < m; p++)
	{
		l->full[p] = 0;
		l->taken[p] = 0;
	}
	for (int i = 0; i < n; i++)
	{
		int			item = l->order[i];
		int			best = -1;

		for (int p = 0; p < m; p++)
			if (l->taken[p] < room && (best < 0 || l->full[p] < l->full[best]))
				best = p;
		ALWAYS(best >= 0);
		pack[item] = best;
		place[item] = l->taken[best]++;
		l->full[best] += weight[item];
	}
}

/* Assign each group to a node, and list the experts node by node in expert[] and load[]. */
static void
deal_groups(ExpertBalanceLayer *l, const int64_t *load)
{
	int			size = l->s->logical / l->groups;
	int			per_node = l->groups / l->nodes;

	for (int g = 0; g < l->groups; g++)
	{
		l->group_load[g] = 0;
		for (int i = 0; i < size; i++)
			l->group_load[g] += (double) load[g * size + i];
	}
	deal(l, l->group_load, l->groups, l->nodes, l->node_of, l->place_of);
	for (int g = 0; g < l->groups; g++)
		for (int i = 0; i < size; i++)
		{
			int			at = (l->node_of[g] * per_node + l->place_of[g]) * size + i;

			l->expert[at] = g * size + i;
			l->load[at] = (double) load[g * size + i];
		}
}

/* Fill the slots of one node, whose experts begin at `from`: each expert once, then copies of the
 * busiest. */
static void
replicate(ExpertBalanceLayer *l, int from, int n, int slots, int *held, int *copy)
{
	for (int i = 0; i < slots; i++)
	{
		int			best = i;

		if (i >= n)
		{
			best = 0;
			for (int x = 1; x < n; x++)
				if (l->load[from + x] / l->copies[from + x] > l->load[from + best] / l->copies[from + best])
					best = x;
		}
		held[i] = best;
		copy[i] = i < n ? 0 : l->copies[from + best];
		l->copies[from + best] = copy[i] + 1;
	}
}

/* Write the slots of node `node` to the map of this layer. */
static void
fill_node(ExpertBalanceLayer *l, int node, int32_t *expert, int32_t *slots, int32_t *count)
{
	int			n = l->s->logical / l->nodes;
	int			physical = l->s->physical / l->nodes;
	int			ranks = l->s->ranks / l->nodes;
	int			from = node * n;

	replicate(l, from, n, physical, l->held, l->copy);
	for (int i = 0; i < physical; i++)
		l->share[i] = l->load[from + l->held[i]] / l->copies[from + l->held[i]];
	deal(l, l->share, physical, ranks, l->rank_of, l->slot_of);
	for (int i = 0; i < physical; i++)
	{
		int			slot = node * physical + l->rank_of[i] * (physical / ranks) + l->slot_of[i];
		int			which = l->expert[from + l->held[i]];

		expert[slot] = which;
		slots[which * eplb_width(l->s) + l->copy[i]] = slot;
	}
	for (int x = 0; x < n; x++)
		count[l->expert[from + x]] = l->copies[from + x];
}

static void *
piece(char **at, size_t size)
{
	char	   *p = *at;

	*at += (size + 7) / 8 * 8;
	return p;
}

/* Allocate the arrays of l as one block, which is returned. */
static void *
layer_new(ExpertBalanceLayer *l, const EplbShape *s)
{
	size_t		log = (size_t) s->logical;
	size_t		phy = (size_t) s->physical;
	bool		by_node = s->groups % s->nodes == 0 && s->physical % s->nodes == 0;
	char	   *all = mem_zalloc(16 * (phy + 1) * sizeof(double));
	char	   *at = all;

	*l = (ExpertBalanceLayer) {.s = s,.groups = by_node ? s->groups : 1,.nodes = by_node ? s->nodes : 1};
	l->group_load = piece(&at, log * sizeof(double));
	l->load = piece(&at, log * sizeof(double));
	l->share = piece(&at, phy * sizeof(double));
	l->full = piece(&at, phy * sizeof(double));
	l->node_of = piece(&at, log * sizeof(int));
	l->place_of = piece(&at, log * sizeof(int));
	l->expert = piece(&at, log * sizeof(int));
	l->copies = piece(&at, log * sizeof(int));
	l->held = piece(&at, phy * sizeof(int));
	l->copy = piece(&at, phy * sizeof(int));
	l->rank_of = piece(&at, phy * sizeof(int));
	l->slot_of = piece(&at, phy * sizeof(int));
	l->order = piece(&at, phy * sizeof(int));
	l->taken = piece(&at, phy * sizeof(int));
	ALWAYS((size_t) (at - all) <= 16 * (phy + 1) * sizeof(double));
	return all;
}

void
eplb_rearrange(const EplbShape *s, const int64_t *load, EplbMap *out)
{
	size_t		width = (size_t) eplb_width(s);
	ExpertBalanceLayer l;
	void	   *space = layer_new(&l, s);

	for (size_t i = 0; i < (size_t) s->layers * (size_t) s->logical * width; i++)
		out->slots[i] = -1;
	for (int i = 0; i < s->layers; i++)
	{
		size_t		at = (size_t) i * (size_t) s->logical;

		memset(l.copies, 0, (size_t) s->logical * sizeof(int));
		deal_groups(&l, load + at);
		for (int node = 0; node < l.nodes; node++)
			fill_node(&l, node, out->expert + (size_t) i * (size_t) s->physical, out->slots + at * width,
					  out->count + at);
	}
	mem_free(space);
}

/* List the slots of each expert of a layer. */
static void
list_slots(const EplbShape *s, const int32_t *expert, int32_t *slots, int32_t *count)
{
	int			width = eplb_width(s);

	for (int i = 0; i < s->logical * width; i++)
		slots[i] = -1;
	memset(count, 0, (size_t) s->logical * sizeof(int32_t));
	for (int i = 0; i < s->physical; i++)
		slots[expert[i] * width + count[expert[i]]++] = i;
}

void
eplb_first(const EplbShape *s, EplbMap *out)
{
	for (int l = 0; l < s->layers; l++)
	{
		int32_t    *expert = out->expert + (size_t) l * (size_t) s->physical;

		for (int i = 0; i < s->physical; i++)
			expert[i] = i % s->logical;
		list_slots(s, expert, out->slots + (size_t) l * (size_t) (s->logical * eplb_width(s)),
				   out->count + (size_t) l * (size_t) s->logical);
	}
}

void
eplb_settle(const EplbShape *s, const EplbMap *now, EplbMap *next)
{
	int			each = s->physical / s->ranks;

	for (int at = 0; at < s->layers * s->physical; at += each)
	{
		const int32_t *is = now->expert + at;
		int32_t    *to = next->expert + at;

		/* an expert that now is in another slot is exchanged with that slot's new one; then check the
		 * slot again */
		for (int i = 0; i < each; i++)
			for (int j = 0; j < each; j++)
				if (to[i] != is[i] && to[i] == is[j] && to[j] != is[j])
				{
					to[i] = to[j];
					to[j] = is[j];
					j = -1;
				}
	}
	for (int l = 0; l < s->layers; l++)
		list_slots(s, next->expert + (size_t) l * (size_t) s->physical,
				   next->slots + (size_t) l * (size_t) (s->logical * eplb_width(s)),
				   next->count + (size_t) l * (size_t) s->logical);
}
