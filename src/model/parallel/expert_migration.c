/*
 * expert_migration.c
 *	  Move whole experts between ranks (expert_migration.h).
 *
 * A round begins when the step counter reaches it: the ranks compute the new placement of all layers at
 * once, then change layer by layer.  Experts of a layer that a rank needs and doesn't have are sent
 * through the ranks' communicator, one after the other, by the first rank that has the expert to all
 * others.  A rank stores what it receives beside its weights, and copies it over them when the layer is
 * complete.  At most `step_bytes` are sent after one step.
 *
 * The last `window` steps before a round count for it.  A step may count for several future rounds.  Each
 * round has its own sum; the first sum is the next round's.
 *
 * Tested by tests/unit/core/ranks/test_ranks.c and tests/t/105_eplb.pl.
 */
#include "model/parallel/expert_migration.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/machine/system_memory.h"
#include "model/parallel/expert_balance.h"
#include "model/weights/bound.h"
#include "model/weights/device_placement.h"
#include "model/parallel/shard.h"

#define PIECE		((size_t) 1 << 20)	/* bytes sent at once */
#define MOST_PARTS	(2 * (LINEAR_MAX + 1))

/* A round in progress. */
typedef struct Round
{
	bool		on;
	int			layer;			/* index among the layers with experts */
	bool		open;			/* the layer's data below is valid: */
	int			expert;			/* expert being sent */
	size_t		have;			/* bytes of the expert that have arrived */
	uint8_t    *brought;		/* new contents of own slots, one after the other; NULL: none changes */
	uint8_t    *scratch;		/* [PIECE] receives what other ranks need and this one doesn't */
} Round;

struct Balance
{
	EplbConf	conf;
	EplbShape	shape;
	KComm	   *comm;			/* communicator for buffers in the host's memory */
	int			each;			/* slots of a rank */
	int			first;			/* this rank's first slot */
	int		   *number;			/* [layers] index among those with experts; -1 = it has none */
	int		   *layer;			/* [shape.layers] the layer of each index */
	EplbMap		now;
	EplbMap		next;			/* target placement of the current round */
	Round		round;
	int64_t		steps;			/* steps that counted */
	int64_t		due;			/* a round begins at this count */
	int			n_sums;			/* rounds for which a step may count */
	int64_t    *step;			/* [layers][experts] rows of the current step */
	int64_t		rows;			/* rows since stat was updated */
	int64_t		busiest;
	int64_t    *sums;			/* [n_sums][layers][experts] */
	bool		of_file;		/* weights are mapped from a file: written pages become private memory of
								 * this rank */
	bool		error_logged;	/* an error has been logged */
	EplbStat	stat;
	EplbStat	logged;			/* stat at the last log line */
};

/* ---- creation ---- */

static EplbShape
shape_of(const Decoder *d, const EplbConf *c, int ranks)
{
	const MoeConf *m = &d->c.moe;
	EplbShape	s = {.logical = m->n_experts,.physical = m->n_experts + c->redundant,
					 .groups = m->n_groups > 1 ? m->n_groups : 1,
	.nodes = 1,.ranks = ranks};

	for (int i = 0; i < d->c.n_layers; i++)
		s.layers += d->layers[i].moe.up.n > 0;
	return s;
}

/* Return true if two Linears have the same bytes in the same parts. */
static bool
is_alike(const Linear *a, const Linear *b)
{
	bool		same = a->n_parts == b->n_parts && bound_merges(a) == bound_merges(b);

	for (int p = 0; p < a->n_parts && same; p++)
		same = a->as[p] == b->as[p] && (a->b[p] != NULL) == (b->b[p] != NULL);
	return same;
}

bool
balance_check(const Decoder *d, const EplbConf *c, int ranks, Err *e)
{
	EplbShape	s = shape_of(d, c, ranks);

	/* a stage may have no layer with experts */
	s.layers = 1;
	if (!eplb_check(&s, e))
		return false;
	if (s.physical > KROUTE_MAX_EXPERTS || s.physical / ranks > s.logical)
		return err_set(e, ERR_INVALID, "%d redundant ones of %d experts are too many for %d ranks",
					   c->redundant, s.logical, ranks);
	for (int i = 0; i < d->c.n_layers; i++)
		for (int x = 1; x < d->layers[i].moe.up.n; x++)
			if (!is_alike(&d->layers[i].moe.up.of[x], &d->layers[i].moe.up.of[0]) ||
				!is_alike(&d->layers[i].moe.down.of[x], &d->layers[i].moe.down.of[0]))
			{
				err_set(e, ERR_UNSUPPORTED, "experts of different types can't move between ranks");
				return err_hint(e, "Turn vllm.enable_eplb off.");
			}
	return true;
}

static EplbMap
map_new(const EplbShape *s)
{
	size_t		layers = (size_t) s->layers + 1;	/* + 1, as an allocation of 0 bytes isn't possible */

	return (EplbMap) {
		mem_zalloc(layers * (size_t) s->physical * sizeof(int32_t)),
		mem_zalloc(layers * (size_t) (s->logical * eplb_width(s)) * sizeof(int32_t)),
		mem_zalloc(layers * (size_t) s->logical * sizeof(int32_t))
	};
}

static void
map_free(EplbMap *m)
{
	mem_free(m->expert);
	mem_free(m->slots);
	mem_free(m->count);
}

static size_t
load_size(const Balance *b)
{
	return (size_t) b->shape.layers * (size_t) b->shape.logical;
}

/* Write a layer's table in the form that moe_slots reads. */
static void
write_table(Decoder *d, int layer)
{
	const Balance *b = d->ranks.balance;
	DecRanks   *r = &d->ranks;
	size_t		width = (size_t) eplb_width(&b->shape);
	int			number = b->number[layer];
	int32_t    *to = r->slots + (size_t) layer * r->slot_step;

	for (int x = 0; x < b->shape.logical && number >= 0; x++, to += r->slot_width)
	{
		size_t		at = (size_t) number * (size_t) b->shape.logical + (size_t) x;

		to[0] = b->now.count[at];
		memcpy(to + 1, b->now.slots + at * width, width * sizeof(int32_t));
	}
}

void
balance_begin(Decoder *d, const EplbConf *c, KComm *below)
{
	DecRanks   *r = &d->ranks;
	Balance    *b = r->balance = mem_zalloc(sizeof(Balance));

	b->conf = *c;
	b->shape = shape_of(d, c, below->size);
	b->comm = below;
	b->each = b->shape.physical / b->shape.ranks;
	b->first = below->rank * b->each;
	b->number = mem_alloc((size_t) d->c.n_layers * sizeof(int));
	b->layer = mem_alloc(((size_t) b->shape.layers + 1) * sizeof(int));
	for (int i = 0, n = 0; i < d->c.n_layers; i++)
	{
		b->number[i] = d->layers[i].moe.up.n > 0 ? n : -1;
		if (b->number[i] >= 0)
			b->layer[n++] = i;
	}
	b->now = map_new(&b->shape);
	b->next = map_new(&b->shape);
	/* the first round comes early */
	b->due = c->interval / 4 > 0 ? c->interval / 4 : 1;
	b->n_sums = (c->window + c->interval - 1) / c->interval;
	b->step = mem_zalloc((load_size(b) + 1) * sizeof(int64_t));
	b->sums = mem_zalloc(((size_t) b->n_sums * load_size(b) + 1) * sizeof(int64_t));
	eplb_first(&b->shape, &b->now);
	r->n_slots = b->shape.physical;
	r->slot_width = 1 + eplb_width(&b->shape);
	r->slot_step = (size_t) b->shape.logical * (size_t) r->slot_width;
	r->slot_ints = (size_t) d->c.n_layers * r->slot_step;
	r->slots = mem_zalloc(r->slot_ints * sizeof(int32_t));
	for (int i = 0; i < d->c.n_layers; i++)
		write_table(d, i);
}

static void
round_close(Round *r)
{
	mem_free(r->brought);
	mem_free(r->scratch);
	r->brought = r->scratch = NULL;
	r->open = false;
}

void
balance_end(Decoder *d)
{
	Balance    *b = d->ranks.balance;

	if (b == NULL)
		return;
	round_close(&b->round);
	map_free(&b->now);
	map_free(&b->next);
	mem_free(b->number);
	mem_free(b->layer);
	mem_free(b->step);
	mem_free(b->sums);
	mem_free(b);
	d->ranks.balance = NULL;
}

const EplbStat *
balance_stat(const Decoder *d)
{
	return d->ranks.balance != NULL ? &d->ranks.balance->stat : NULL;
}

/* ---- an expert's bytes ---- */

typedef struct ExpertMigrationPart
{
	uint8_t    *host;
	uint8_t    *dev;			/* where ops read it; the same address without a device */
	size_t		size;
} ExpertMigrationPart;

static size_t
add_part(ExpertMigrationPart *p, void *at, const void *host, size_t size)
{
	*p = (ExpertMigrationPart) {.host = (uint8_t *) (uintptr_t) host,.dev = at,.size = size};
	return 1;
}

/* List the parts of own slot `slot` of a layer; return their number. */
static size_t
parts_of(const Decoder *d, const Layer *l, int slot, ExpertMigrationPart *p)
{
	const Stack *stacks[] = {&l->moe.up, &l->moe.down};
	size_t		n = 0;

	for (int s = 0; s < 2; s++)
	{
		const Linear *of = &stacks[s]->of[slot];

		for (int i = 0; i < of->n_mats; i++)
			n += add_part(p + n, of->mat[i].data, dec_host_mat(d, &of->mat[i]).data, of->mat[i].nbytes);
		if (of->bias != NULL)
			n += add_part(p + n, of->bias, dec_host(d, of->bias), (size_t) of->n * sizeof(float));
	}
	return n;
}

static size_t
expert_bytes(const Decoder *d, const Layer *l)
{
	ExpertMigrationPart p[MOST_PARTS];
	size_t		n = parts_of(d, l, 0, p);
	size_t		bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += p[i].size;
	return bytes;
}

/* Return the address of byte `at` of a slot's expert, and how many bytes follow in one piece. */
static uint8_t *
byte_of(const Decoder *d, const Layer *l, int slot, size_t at, size_t *left)
{
	ExpertMigrationPart p[MOST_PARTS];
	size_t		n = parts_of(d, l, slot, p);
	size_t		i = 0;

	while (i + 1 < n && at >= p[i].size)
		at -= p[i++].size;
	*left = p[i].size - at;
	return p[i].host + at;
}

/* ---- a layer of a round ---- */

typedef struct ExpertMigrationMoving
{
	Decoder    *d;
	Balance    *b;
	const Layer *l;
	const int32_t *now;			/* [slots] of the layer */
	const int32_t *next;
	size_t		bytes;			/* bytes of an expert */
} ExpertMigrationMoving;

static ExpertMigrationMoving
moving(Decoder *d)
{
	Balance    *b = d->ranks.balance;
	size_t		at = (size_t) b->round.layer * (size_t) b->shape.physical;
	const Layer *l = &d->layers[b->layer[b->round.layer]];

	ASSERT(b->round.on && b->round.layer < b->shape.layers);
	return (ExpertMigrationMoving) {d, b, l, b->now.expert + at, b->next.expert + at, expert_bytes(d, l)};
}

/* Return the index of a rank's slot that has the expert; -1 = none. */
static int
held_by(const ExpertMigrationMoving *m, int rank, int expert)
{
	for (int i = 0; i < m->b->each; i++)
		if (m->now[rank * m->b->each + i] == expert)
			return i;
	return -1;
}

static int
first_holder(const ExpertMigrationMoving *m, int expert)
{
	int			r = 0;

	while (held_by(m, r, expert) < 0)
	{
		r++;
		ALWAYS(r < m->b->shape.ranks);	/* every expert has a slot */
	}
	return r;
}

/* Return true if some rank needs the expert and doesn't have it. */
static bool
must_go(const ExpertMigrationMoving *m, int expert)
{
	for (int s = 0; s < m->b->shape.physical; s++)
		if (m->next[s] == expert && m->now[s] != expert && held_by(m, s / m->b->each, expert) < 0)
			return true;
	return false;
}

/* Return the number of own slots before slot `to` that change. */
static size_t
changes_before(const ExpertMigrationMoving *m, int to)
{
	const Balance *b = m->b;
	size_t		n = 0;

	for (int i = 0; i < to; i++)
		n += m->next[b->first + i] != m->now[b->first + i];
	return n;
}

static int
next_to_get(const ExpertMigrationMoving *m, int expert, int from)
{
	const Balance *b = m->b;

	for (int i = from; i < b->each; i++)
		if (m->next[b->first + i] == expert && m->now[b->first + i] != expert)
			return i;
	return -1;
}

static uint8_t *
brought_for(const ExpertMigrationMoving *m, int slot)
{
	return m->b->round.brought + changes_before(m, slot) * m->bytes;
}

/* Send a piece of the current expert from its first holder to the ranks that need it; return its
 * bytes. */
static size_t
bring_piece(const ExpertMigrationMoving *m, int holder)
{
	Round	   *r = &m->b->round;
	int			mine = next_to_get(m, r->expert, 0);
	size_t		left;
	uint8_t    *at;
	int			held;

	ALWAYS(r->have < m->bytes && (mine < 0 || r->brought != NULL));
	/* pieces end where a part ends, which is the same on all ranks */
	(void) byte_of(m->d, m->l, 0, r->have, &left);
	left = left < PIECE ? left : PIECE;
	if (holder == m->b->comm->rank)
	{
		size_t		same;

		held = held_by(m, holder, r->expert);
		at = byte_of(m->d, m->l, held, r->have, &same);
	}
	else
		at = mine >= 0 ? brought_for(m, mine) + r->have : r->scratch;
	m->b->comm->ops->broadcast(m->b->comm, m->d->pool, at, left, holder);
	return left;
}

/* The expert is complete: copy it to all own slots that get it. */
static void
spread(const ExpertMigrationMoving *m)
{
	int			expert = m->b->round.expert;
	int			held = held_by(m, m->b->comm->rank, expert);
	int			first = next_to_get(m, expert, 0);

	for (int i = first; i >= 0; i = next_to_get(m, expert, i + 1))
	{
		if (held < 0 && i != first)
			memcpy(brought_for(m, i), brought_for(m, first), m->bytes);
		for (size_t at = 0, n; held >= 0 && at < m->bytes; at += n)
		{
			const uint8_t *from = byte_of(m->d, m->l, held, at, &n);

			memcpy(brought_for(m, i) + at, from, n);
		}
	}
}

/*
 * Return true if there is memory for this many slots' experts, and for pages that become private, on all
 * ranks together, since they share one machine.  Otherwise the kernel would kill some process later.
 */
static bool
has_room(const ExpertMigrationMoving *m, size_t slots)
{
	uint64_t	need = (uint64_t) slots * m->bytes * (m->b->of_file ? 2 : 1) + PIECE;

	return need <= sysmem_available("") / (uint64_t) m->b->shape.ranks;
}

/* Allocate memory for incoming experts; after a failure the round still owns what was allocated. */
static bool
take_room(const ExpertMigrationMoving *m, size_t slots)
{
	Round	   *r = &m->b->round;

	m->b->of_file = m->b->of_file || m->d->weights.of_file;
	if (!has_room(m, slots))
		return false;
	if (slots > 0)
		r->brought = mem_try_aligned(slots * m->bytes);
	r->scratch = mem_try_aligned(PIECE);
	return r->scratch != NULL && (slots == 0 || (r->brought != NULL && marena_own(&m->d->weights)));
}

/* Begin the next layer.  Return false if no layer is left, or a rank had no memory, or is gone. */
static bool
open_layer(const ExpertMigrationMoving *m)
{
	Balance    *b = m->b;
	Round	   *r = &b->round;
	float		failed = take_room(m, changes_before(m, b->each)) ? 0 : 1;

	b->comm->ops->sum(b->comm, m->d->pool, &failed, 1);
	r->open = true;
	r->expert = 0;
	r->have = 0;
	if (failed == 0)
		return true;
	b->stat.failed++;
	if (!b->error_logged && b->comm->rank == 0)
		log_line('W', "experts stay where they are: %d of %d ranks have no memory for those that move",
				 (int) failed, b->shape.ranks);
	b->error_logged = true;
	return false;
}

/* Everything has arrived: change the layer's weights and table. */
static bool
switch_layer(const ExpertMigrationMoving *m)
{
	Decoder    *d = m->d;
	Balance    *b = m->b;
	int			layer = b->layer[b->round.layer];
	size_t		number = (size_t) b->round.layer;
	size_t		experts = (size_t) b->shape.logical;
	size_t		slots = (size_t) b->shape.physical;
	size_t		width = (size_t) eplb_width(&b->shape);
	Err			e;

	/* all experts were sent to the ranks that need them */
	ASSERT(b->round.open && b->round.expert == b->shape.logical);
	for (int i = 0; i < b->each; i++)
	{
		const uint8_t *from = m->next[b->first + i] != m->now[b->first + i] ? brought_for(m, i) : NULL;
		ExpertMigrationPart p[MOST_PARTS];
		size_t		n = parts_of(d, m->l, i, p);

		for (size_t j = 0; j < n && from != NULL; from += p[j++].size)
		{
			memcpy(p[j].host, from, p[j].size);
			if (d->dev != NULL)
				d->dev->ops->put(d->dev->d, p[j].dev, from, p[j].size);
		}
	}
	for (size_t s = 0; s < slots; s++)
		b->stat.moved += m->next[s] != m->now[s];
	memcpy(b->now.expert + number * slots, b->next.expert + number * slots, slots * sizeof(int32_t));
	memcpy(b->now.slots + number * experts * width, b->next.slots + number * experts * width,
		   experts * width * sizeof(int32_t));
	memcpy(b->now.count + number * experts, b->next.count + number * experts, experts * sizeof(int32_t));
	write_table(d, layer);
	return split_upload_slots(d, (size_t) layer * d->ranks.slot_step, d->ranks.slot_step, &e);
}

/* Continue the current layer with at most *room bytes.  Return false if the round is over. */
static bool
move_layer(Decoder *d, size_t *room)
{
	ExpertMigrationMoving m = moving(d);
	Balance    *b = m.b;
	Round	   *r = &b->round;

	if (!r->open && !open_layer(&m))
		return false;
	for (; r->expert < b->shape.logical; r->expert++, r->have = 0)
	{
		while (must_go(&m, r->expert) && r->have < m.bytes)
		{
			size_t		n;

			if (*room == 0)
				return true;
			n = bring_piece(&m, first_holder(&m, r->expert));
			r->have += n;
			*room -= n < *room ? n : *room;
			if (d->b->wait != NULL)
				d->b->wait(d->b->wait_ctx);
		}
		spread(&m);
	}
	/* what was received while a rank was gone is undefined */
	if (b->comm->ops->failed(b->comm))
		return false;
	if (!switch_layer(&m))
	{
		d->lost = true;
		return false;
	}
	round_close(r);
	return ++r->layer < b->shape.layers;
}

/* ---- steps ---- */

static void
begin_round(Decoder *d)
{
	Balance    *b = d->ranks.balance;
	size_t		n = load_size(b);

	b->due = b->steps + b->conf.interval;
	if (!b->round.on)
	{
		eplb_rearrange(&b->shape, b->sums, &b->next);
		eplb_settle(&b->shape, &b->now, &b->next);
		b->round = (Round) {.on = b->shape.layers > 0};
		b->stat.rounds++;
	}
	/* the next round's sum becomes the first */
	memmove(b->sums, b->sums + n, (size_t) (b->n_sums - 1) * n * sizeof(int64_t));
	memset(b->sums + (size_t) (b->n_sums - 1) * n, 0, n * sizeof(int64_t));
}

void
balance_step_begin(Decoder *d)
{
	Balance    *b = d->ranks.balance;

	if (b == NULL)
		return;
	memset(b->step, 0, load_size(b) * sizeof(int64_t));
	b->rows = b->busiest = 0;
}

void
balance_count(Decoder *d, int layer, const int32_t *start)
{
	Balance    *b = d->ranks.balance;
	const int32_t *expert;
	int64_t    *to;
	int			number;
	int32_t		most = 0;

	if (b == NULL || (number = b->number[layer]) < 0)
		return;
	expert = b->now.expert + (size_t) number * (size_t) b->shape.physical;
	to = b->step + (size_t) number * (size_t) b->shape.logical;
	for (int s = 0; s < b->shape.physical; s++)
		to[expert[s]] += start[s + 1] - start[s];
	for (int r = 0; r < b->shape.ranks; r++)
	{
		int32_t		n = start[(r + 1) * b->each] - start[r * b->each];

		most = n > most ? n : most;
	}
	b->rows += start[b->shape.physical];
	b->busiest += (int64_t) most * b->shape.ranks;
}

static void
log_balance(Balance *b)
{
	int64_t		rows = b->stat.rows - b->logged.rows;
	int64_t		busiest = b->stat.busiest - b->logged.busiest;

	if (!b->conf.log || b->comm->rank > 0 || b->steps % b->conf.log_interval != 0)
		return;
	log_line('I', "experts on %d ranks: balancedness %.3f of %d steps, %lld copies moved so far",
			 b->shape.ranks, busiest > 0 ? (double) rows / (double) busiest : 1.0, b->conf.log_interval,
			 (long long) b->stat.moved);
	b->logged = b->stat;
}

void
balance_step_end(Decoder *d)
{
	Balance    *b = d->ranks.balance;
	size_t		room;

	if (b == NULL)
		return;
	b->steps++;
	b->stat.rows += b->rows;
	b->stat.busiest += b->busiest;
	room = b->conf.step_bytes > 0 ? b->conf.step_bytes : SIZE_MAX;
	for (int i = 0; i < b->n_sums; i++)
	{
		int64_t    *sum = b->sums + (size_t) i * load_size(b);
		bool		counts = b->due + (int64_t) i * b->conf.interval - b->steps < b->conf.window;

		for (size_t j = 0; counts && j < load_size(b); j++)
			sum[j] += b->step[j];
	}
	log_balance(b);
	if (b->steps >= b->due)
		begin_round(d);
	while (b->round.on && room > 0)
		if (!move_layer(d, &room))
		{
			round_close(&b->round);
			b->round.on = false;
		}
}

void
balance_stop(Decoder *d)
{
	Balance    *b = d->ranks.balance;

	if (b == NULL)
		return;
	round_close(&b->round);
	b->round.on = false;
}

bool
balance_home(Decoder *d, Err *e)
{
	Balance    *b = d->ranks.balance;

	if (b == NULL)
		return true;
	balance_stop(d);
	eplb_first(&b->shape, &b->now);
	for (int i = 0; i < d->c.n_layers; i++)
		write_table(d, i);
	return split_upload_slots(d, 0, d->ranks.slot_ints, e);
}
