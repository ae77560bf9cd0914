/*
 * cfg_object_members.c
 *	  Entries in any order or in a given order, each at most once.
 *
 * A state is the set of members that have occurred, the number of entries and, in ordered sets, the
 * first member that may still come.  What makes no difference is not stored, so that there are few
 * states: a count beyond its bounds, and in ordered sets all members except those in dependencies.
 *
 * The members that must still come are the closure of the required members and those that have occurred
 * under the dependencies.  An entry may come if afterwards all these members still can.
 */
#include "grammar/cfg/cfg_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

#define MAX_STEPS	((uint64_t) 20000000)

typedef struct ObjectMembersSpec
{
	CfgMembers	m;
	uint32_t	words;			/* of a set of members */
	uint64_t   *alive;			/* members that can match */
	uint64_t   *required;
	uint64_t   *depends;		/* members in dependencies */
	bool		rest_alive;
	uint32_t	max;			/* most entries: one if no separator can match */
} ObjectMembersSpec;

typedef struct ObjectMembersState
{
	uint32_t	spec;
	uint32_t	count;			/* number of entries, clipped */
	uint32_t	from;			/* ordered: the first member that may come */
	uint32_t	bits;			/* index of the set of members that have occurred */
} ObjectMembersState;

struct Members
{
	ObjectMembersSpec *spec;
	uint32_t	n_specs,
				cap_specs;
	ObjectMembersState *state;
	uint32_t	n,
				cap;
	uint64_t   *bits;
	uint32_t	n_bits,
				cap_bits;
	uint32_t   *hash;
	uint32_t	hash_cap;
	uint64_t   *work[3];		/* scratch sets of members */
	uint32_t	cap_work;
	uint64_t	steps,			/* words and dependencies examined in this unit of work */
				steps_before;
	bool		full;
};

static void
count_steps(Members *m, uint64_t n)
{
	m->steps += n;
	if (m->steps > MAX_STEPS)
		m->full = true;
}

void
members_begin(Members *m)
{
	m->steps_before += m->steps;
	m->steps = 0;
}

uint64_t
members_work(const Members *m)
{
	return m->steps_before + m->steps;
}

bool
members_full(const Members *m)
{
	return m->full;
}

Members *
members_new(void)
{
	Members    *m = mem_zalloc(sizeof(Members));

	m->hash_cap = 64;
	m->hash = mem_alloc(m->hash_cap * sizeof(uint32_t));
	memset(m->hash, 0xff, m->hash_cap * sizeof(uint32_t));
	return m;
}

void
members_free(Members *m)
{
	for (uint32_t i = 0; i < m->n_specs; i++)
	{
		mem_free((void *) m->spec[i].m.member);
		mem_free((void *) m->spec[i].m.dep);
		mem_free(m->spec[i].alive);
	}
	for (int i = 0; i < 3; i++)
		mem_free(m->work[i]);
	mem_free(m->spec);
	mem_free(m->state);
	mem_free(m->bits);
	mem_free(m->hash);
	mem_free(m);
}

size_t
members_memory(const Members *m)
{
	return sizeof(Members) + m->cap_specs * sizeof(ObjectMembersSpec) + m->cap * sizeof(ObjectMembersState) +
		m->cap_bits * sizeof(uint64_t) + m->hash_cap * sizeof(uint32_t);
}

static bool
has(const uint64_t *set, uint32_t i)
{
	return set[i / 64] >> (i % 64) & 1;
}

static void
put(uint64_t *set, uint32_t i)
{
	set[i / 64] |= (uint64_t) 1 << (i % 64);
}

/* Return the members from `from` on, in word i of a set. */
static uint64_t
from_on(uint32_t from, uint32_t i)
{
	if (from >= 64 * (i + 1))
		return 0;
	return from <= 64 * i ? UINT64_MAX : UINT64_MAX << (from % 64);
}

/* ---- states ---- */

static uint32_t
hash_state(const Members *m, const ObjectMembersState *s)
{
	const uint64_t *b = m->bits + s->bits;
	uint64_t	h = s->spec * 0x9E3779B97F4A7C15u + s->count;

	h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u + s->from;
	for (uint32_t i = 0; i < m->spec[s->spec].words; i++)
		h = ((h ^ h >> 32) + b[i]) * 0x9E3779B97F4A7C15u;
	return (uint32_t) (h ^ h >> 32);
}

static void
rehash(Members *m)
{
	m->hash_cap *= 2;
	m->hash = mem_realloc(m->hash, m->hash_cap * sizeof(uint32_t));
	memset(m->hash, 0xff, m->hash_cap * sizeof(uint32_t));
	for (uint32_t i = 0; i < m->n; i++)
	{
		uint32_t	h = hash_state(m, &m->state[i]) & (m->hash_cap - 1);

		while (m->hash[h] != UINT32_MAX)
			h = (h + 1) & (m->hash_cap - 1);
		m->hash[h] = i;
	}
}

/* Make room for one more set after the existing ones. */
static uint64_t *
bits_room(Members *m, uint32_t words)
{
	if (m->cap_bits - m->n_bits < words)
	{
		while (m->cap_bits - m->n_bits < words)
			m->cap_bits = m->cap_bits > 0 ? m->cap_bits * 2 : 256;
		m->bits = mem_realloc(m->bits, m->cap_bits * sizeof(uint64_t));
	}
	return m->bits + m->n_bits;
}

/* Return the state with these parts; the caller has put its set after the existing ones. */
static uint32_t
intern(Members *m, ObjectMembersState s)
{
	uint32_t	words = m->spec[s.spec].words;
	uint32_t	h;

	ALWAYS(s.spec < m->n_specs && words <= m->cap_bits - m->n_bits);
	if ((m->n + 1) * 2 > m->hash_cap)
		rehash(m);
	s.bits = m->n_bits;
	h = hash_state(m, &s) & (m->hash_cap - 1);
	for (; m->hash[h] != UINT32_MAX; h = (h + 1) & (m->hash_cap - 1))
	{
		const ObjectMembersState *o = &m->state[m->hash[h]];

		if (o->spec == s.spec && o->count == s.count && o->from == s.from &&
			memcmp(m->bits + o->bits, m->bits + s.bits, words * sizeof(uint64_t)) == 0)
			return m->hash[h];
	}
	if (m->n == m->cap)
	{
		m->cap = m->cap > 0 ? m->cap * 2 : 64;
		m->state = mem_realloc(m->state, m->cap * sizeof(ObjectMembersState));
	}
	m->n_bits += words;
	m->hash[h] = m->n;
	m->state[m->n] = s;
	return m->n++;
}

uint32_t
members_add(Members *m, const CfgMembers *spec)
{
	uint32_t	words = ((uint32_t) spec->n + 63) / 64 + 1;
	CfgMember  *member = mem_alloc((spec->n + 1) * sizeof(CfgMember));
	CfgDep	   *dep = mem_alloc((spec->n_deps + 1) * sizeof(CfgDep));
	ObjectMembersSpec *s;

	if (m->n_specs == m->cap_specs)
	{
		m->cap_specs = m->cap_specs > 0 ? m->cap_specs * 2 : 16;
		m->spec = mem_realloc(m->spec, m->cap_specs * sizeof(ObjectMembersSpec));
	}
	s = &m->spec[m->n_specs];
	if (spec->n > 0)
		memcpy(member, spec->member, spec->n * sizeof(CfgMember));
	if (spec->n_deps > 0)
		memcpy(dep, spec->dep, spec->n_deps * sizeof(CfgDep));
	*s = (ObjectMembersSpec) {.m = *spec,.words = words};
	s->m.member = member;
	s->m.dep = dep;
	/* a bound that can't be reached doesn't matter */
	if (spec->rest == CFG_NONE && spec->max >= spec->n)
		s->m.max = CFG_INF;
	s->alive = mem_zalloc(3 * words * sizeof(uint64_t));
	s->required = s->alive + words;
	s->depends = s->required + words;
	for (uint32_t i = 0; i < spec->n; i++)
		if (spec->member[i].required)
			put(s->required, i);
	for (size_t i = 0; i < spec->n_deps; i++)
	{
		ALWAYS(spec->dep[i].from < spec->n && (spec->dep[i].to == CFG_NEVER || spec->dep[i].to < spec->n));
		put(s->depends, spec->dep[i].from);
		if (spec->dep[i].to != CFG_NEVER)
			put(s->depends, spec->dep[i].to);
	}
	for (int i = 0; i < 3 && words > m->cap_work; i++)
		m->work[i] = mem_realloc(m->work[i], words * sizeof(uint64_t));
	m->cap_work = words > m->cap_work ? words : m->cap_work;
	memset(bits_room(m, words), 0, words * sizeof(uint64_t));
	return intern(m, (ObjectMembersState) {m->n_specs++, 0, 0, 0});
}

const CfgMembers *
members_spec(const Members *m, uint32_t state)
{
	return &m->spec[m->state[state].spec].m;
}

bool
members_started(const Members *m, uint32_t state)
{
	return m->state[state].count > 0;
}

static void
set_alive(ObjectMembersSpec *s, MembersAlive alive, const void *arg)
{
	for (uint32_t i = 0; i < s->m.n; i++)
		if (alive(arg, s->m.member[i].node))
			put(s->alive, i);
	s->rest_alive = alive(arg, s->m.rest);
	s->max = s->m.max > 1 && !alive(arg, s->m.sep) ? 1 : s->m.max;
}

bool
members_finish(Members *m, MembersAlive alive, MembersAlive empty, const void *arg)
{
	bool		ok = true;

	for (uint32_t i = 0; i < m->n_specs; i++)
	{
		const CfgMembers *p = &m->spec[i].m;

		set_alive(&m->spec[i], alive, arg);
		for (uint32_t k = 0; k < p->n; k++)
			ok = ok && !empty(arg, p->member[k].node);
		ok = ok && !empty(arg, p->rest);
	}
	return ok;
}

/* ---- what may come ---- */

/* Add the members that those of the set depend on; return false if one of them can't occur. */
static bool
close_set(Members *m, const ObjectMembersSpec *s, uint64_t *set)
{
	bool		more = s->m.n_deps > 0;

	while (more && !m->full)
	{
		more = false;
		count_steps(m, s->m.n_deps);
		for (size_t i = 0; i < s->m.n_deps; i++)
		{
			const CfgDep *d = &s->m.dep[i];

			if (!has(set, d->from))
				continue;
			if (d->to == CFG_NEVER)
				return false;
			if (!has(set, d->to))
			{
				put(set, d->to);
				more = true;
			}
		}
	}
	return true;
}

/*
 * Compute the parts after entry i (CFG_INF: unchanged): count and from, and in work[0] the members that
 * have occurred.
 */
static ObjectMembersState
parts_after(Members *m, uint32_t state, uint32_t i)
{
	ObjectMembersState s = m->state[state];
	const ObjectMembersSpec *p = &m->spec[s.spec];
	uint32_t	n = (uint32_t) p->m.n;
	uint32_t	clip = p->m.min > 1 ? p->m.min : 1;

	ALWAYS(state < m->n && p->words <= m->cap_work && (i == CFG_INF || i <= n));
	memcpy(m->work[0], m->bits + s.bits, p->words * sizeof(uint64_t));
	if (i == CFG_INF)
		return s;
	s.count++;
	if (p->max == CFG_INF && s.count > clip)
		s.count = clip;
	if (p->m.ordered)
		s.from = i < n ? i + 1 : n;
	if (i < n && (!p->m.ordered || has(p->depends, i)))
		put(m->work[0], i);
	return s;
}

/* Return true if member i can still come in a state with these parts. */
static bool
available(const ObjectMembersSpec *p, const ObjectMembersState *s, const uint64_t *been, uint32_t i)
{
	return has(p->alive, i) && !has(been, i) && (!p->m.ordered || i >= s->from);
}

/* Return the members of word i that can still come. */
static uint64_t
available_word(const ObjectMembersSpec *p, const ObjectMembersState *s, const uint64_t *been, uint32_t i)
{
	return p->alive[i] & ~been[i] & (p->m.ordered ? from_on(s->from, i) : UINT64_MAX);
}

/*
 * Return how many members must come if i comes, including itself and its dependencies; 0 = it can't
 * come.  work[1] has the members that must come anyway; work[2] gets the additional ones.
 */
static uint32_t
required_with(Members *m, const ObjectMembersSpec *p, const ObjectMembersState *s, uint32_t i)
{
	uint32_t	n = 0;

	memset(m->work[2], 0, p->words * sizeof(uint64_t));
	put(m->work[2], i);
	if (!close_set(m, p, m->work[2]))
		return 0;
	count_steps(m, p->words);
	for (uint32_t k = 0; k < p->words; k++)
	{
		uint64_t	besides = m->work[2][k] & ~m->work[1][k];

		if ((besides & ~available_word(p, s, m->work[0], k)) != 0)
			return 0;
		n += (uint32_t) __builtin_popcountll(besides);
	}
	return n;
}

/* Return the member in dependencies that needs the fewest others; *least = how many, 0: there is
 * none. */
static uint32_t
lightest(Members *m, const ObjectMembersSpec *p, const ObjectMembersState *s, uint32_t *least)
{
	uint32_t	best = 0;

	*least = 0;
	for (uint32_t k = 0; k < p->words; k++)
		for (uint64_t w = available_word(p, s, m->work[0], k) & ~m->work[1][k] & p->depends[k];
			 w != 0 && *least != 1 && !m->full; w &= w - 1)
		{
			uint32_t	i = 64 * k + (uint32_t) __builtin_ctzll(w);
			uint32_t	n = required_with(m, p, s, i);

			if (n > 0 && (*least == 0 || n < *least))
			{
				*least = n;
				best = i;
			}
		}
	return best;
}

/*
 * Return true if at least `min` entries are possible when `count` members must come (work[1]).  Takes
 * members without dependencies first, then members with the fewest dependencies, so that the upper
 * bound holds.
 */
static bool
can_fill(Members *m, const ObjectMembersSpec *p, const ObjectMembersState *s, uint32_t count)
{
	uint32_t	alone = 0;

	if (p->max < p->m.min)
		return false;
	if (count >= p->m.min || p->rest_alive)
		return true;
	for (uint32_t k = 0; k < p->words; k++)
		alone += (uint32_t) __builtin_popcountll(available_word(p, s, m->work[0],
																k) & ~m->work[1][k] & ~p->depends[k]);
	if (alone >= p->m.min - count)
		return true;
	count += alone;
	while (count < p->m.min)
	{
		uint32_t	least;
		uint32_t	best = lightest(m, p, s, &least);

		if (least == 0 || m->full || (p->max != CFG_INF && least > p->max - count))
			return false;
		required_with(m, p, s, best);
		for (uint32_t i = 0; i < p->words; i++)
			m->work[1][i] |= m->work[2][i];
		count += least;
	}
	return true;
}

/*
 * For a state with these parts (work[0]) set *missing to the number of members that must still come.
 * Return false if no end can be reached.
 */
static bool
viable(Members *m, const ObjectMembersState *s, uint32_t *missing)
{
	const ObjectMembersSpec *p = &m->spec[s->spec];
	uint64_t   *need = m->work[1];

	*missing = 0;
	count_steps(m, p->words);
	for (uint32_t i = 0; i < p->words; i++)
		need[i] = p->required[i] | m->work[0][i];
	if (!close_set(m, p, need))
		return false;
	for (uint32_t i = 0; i < p->words; i++)
	{
		uint64_t	passed = p->m.ordered ? ~from_on(s->from, i) : 0;
		/* ordered sets remember only members in dependencies: the others before `from` have occurred if
		 * they had to */
		uint64_t	must = need[i] & ~m->work[0][i] & (~passed | p->depends[i]);

		if ((must & (passed | ~p->alive[i])) != 0)
			return false;
		*missing += (uint32_t) __builtin_popcountll(must);
	}
	if (p->max != CFG_INF && (s->count > p->max || *missing > p->max - s->count))
		return false;
	return can_fill(m, p, s, s->count + *missing);
}

bool
members_may(Members *m, uint32_t state, uint32_t i)
{
	ObjectMembersState s = m->state[state];
	const ObjectMembersSpec *p = &m->spec[s.spec];
	uint32_t	missing;

	if (i == p->m.n ? !p->rest_alive : !available(p, &s, m->bits + s.bits, i))
		return false;
	/* in order, no required member may be skipped */
	for (uint32_t k = 0; p->m.ordered && k < p->words; k++)
		if ((p->required[k] & from_on(s.from, k) & ~from_on(i, k)) != 0)
			return false;
	s = parts_after(m, state, i);
	return viable(m, &s, &missing);
}

bool
members_may_end(Members *m, uint32_t state, uint32_t i)
{
	ObjectMembersState s = parts_after(m, state, i);
	uint32_t	missing;

	return viable(m, &s, &missing) && missing == 0 && s.count >= m->spec[s.spec].m.min;
}

uint32_t
members_next(Members *m, uint32_t state, uint32_t i)
{
	ObjectMembersState s = parts_after(m, state, i);
	uint32_t	words = m->spec[s.spec].words;

	memcpy(bits_room(m, words), m->work[0], words * sizeof(uint64_t));
	return intern(m, s);
}

bool
members_alive(Members *m, uint32_t state, MembersAlive alive, const void *arg)
{
	ObjectMembersState s = parts_after(m, state, CFG_INF);
	uint32_t	missing;

	set_alive(&m->spec[s.spec], alive, arg);
	return viable(m, &s, &missing);
}
