/*
 * test_work_class.c
 *	  The classes of requests: sessions with few and with many requests, streams, the background.
 */
#include "core/core_state.h"

#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"

static Core core;
static int64_t now_us = 1000;

static Req *
enter(uint64_t role, uint64_t session, bool background, bool watched)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in.by.role = role;
	r->in.by.background = background;
	r->in.session = session;
	r->in.stream = watched;
	r->in.arrival_us = now_us;
	workcounts_enter(core.work, r);
	return r;
}

static void
leave(Req *r)
{
	workcounts_leave(core.work, r);
	mem_free(r);
}

static void
test_sessions(void)
{
	Req		   *many[20];
	Req		   *other;
	Req		   *stream;

	core.work = workcounts_new();
	CHECK(core_work_class(&core) == WORK_NONE, "%d", core_work_class(&core));
	for (int i = 0; i < 20; i++)
	{
		many[i] = enter(1, 7, false, false);
		CHECK(many[i]->in.work == (i < 8 ? WORK_LATENCY : WORK_THROUGHPUT), "request %d: %d", i,
			  many[i]->in.work);
	}
	other = enter(2, 7, false, false);
	CHECK(other->in.work == WORK_LATENCY, "a session of another role: %d", other->in.work);
	stream = enter(1, 7, false, true);
	CHECK(stream->in.work == WORK_LATENCY, "a stream: %d", stream->in.work);
	CHECK(!workcounts_demote(other, now_us), "a session with few");
	CHECK(!workcounts_demote(stream, now_us), "a stream");
	for (int i = 0; i < 8; i += 2)
		CHECK(workcounts_demote(many[i], now_us) && many[i]->in.work == WORK_THROUGHPUT &&
			  !workcounts_demote(many[i], now_us), "request %d, found out: %d", i, many[i]->in.work);
	CHECK(!workcounts_demote(many[1], now_us + 1000001) && many[1]->in.work == WORK_LATENCY,
		  "long ago: %d", many[1]->in.work);
	leave(other);
	leave(stream);
	for (int i = 0; i < 8; i++)
		leave(many[i]);
	CHECK(core_work_class(&core) == WORK_THROUGHPUT, "the rest: %d", core_work_class(&core));
	other = enter(1, 7, false, false);
	CHECK(other->in.work == WORK_THROUGHPUT, "there are 12 still: %d", other->in.work);
	leave(other);
	for (int i = 8; i < 16; i++)
		leave(many[i]);
	other = enter(1, 7, false, false);
	CHECK(other->in.work == WORK_THROUGHPUT, "a moment ago there were many: %d", other->in.work);
	leave(other);
	now_us += 1000001;
	other = enter(1, 7, false, false);
	CHECK(other->in.work == WORK_LATENCY, "there are 4 still: %d", other->in.work);
	leave(other);
	for (int i = 16; i < 20; i++)
		leave(many[i]);
	CHECK(core_work_class(&core) == WORK_NONE, "%d", core_work_class(&core));
	workcounts_free(core.work);
}

/* The table of sessions is bounded by those that have requests, or had many a moment ago. */
static void
test_many_sessions(void)
{
	core.work = workcounts_new();
	for (int i = 0; i < 100000; i++)
		leave(enter(1, (uint64_t) i, false, false));
	CHECK(workcounts_sessions(core.work) <= 128, "%zu sessions are known", workcounts_sessions(core.work));
	workcounts_free(core.work);
}

static void
test_background(void)
{
	Req		   *a;
	Req		   *b;

	core.work = workcounts_new();
	a = enter(1, 1, true, true);
	CHECK(a->in.work == WORK_BACKGROUND && core_work_class(&core) == WORK_BACKGROUND, "%d", a->in.work);
	b = enter(1, 2, false, false);
	CHECK(core_work_class(&core) == WORK_LATENCY, "%d", core_work_class(&core));
	leave(b);
	CHECK(core_work_class(&core) == WORK_BACKGROUND, "%d", core_work_class(&core));
	leave(a);
	workcounts_free(core.work);
}

int
main(void)
{
	RUN(test_sessions());
	RUN(test_many_sessions());
	RUN(test_background());
	return check_done("test_work_class");
}
