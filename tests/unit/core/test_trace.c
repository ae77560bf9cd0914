/*
 * test_trace.c
 *	  Profiles: what is recorded, when, in how much memory; another JSON reader reads the result.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "tests/unit/check.h"
#include "core/trace.h"

static Json *
stop(void)
{
	Buf			b = {0};
	Err			e = {0};
	Json	   *j;

	TraceRecording *r = trace_stop(&e);

	CHECK(r != NULL, "stop: %s", e.msg);
	trace_write(r, &b);
	trace_free(r);
	j = json_parse(b.data, b.len);
	CHECK(j != NULL, "it is JSON");
	buf_free(&b);
	return j;
}

/* Count the events with this name and phase. */
static int
count(const Json *j, const char *name, const char *ph)
{
	const Json *ev;
	int			n = 0;

	json_each(ev, json_get(j, "traceEvents"))
		n += strcmp(json_str_of(json_get(ev, "name")), name) == 0 &&
		strcmp(json_str_of(json_get(ev, "ph")), ph) == 0;
	return n;
}

static int
other(const Json *j, const char *key)
{
	return json_to_int(json_get(json_get(j, "otherData"), key));
}

static void
step(int i)
{
	int			core[2];
	TraceStep	s = {.core = &core[i % 2],.at = {1000 * i + 1, 1000 * i + 100, 1000 * i + 800, 1000 * i + 850,
												 1000 * i + 900},.seqs = i,.rows = 2 * i};

	s.ops_ns[PROF_MATMUL] = 500000;
	trace_step(&s);
}

static void
request(uint64_t id)
{
	TraceRequest r = {.id = id,.arrival_us = 10,.scheduled_us = 20,.first_us = 40,.end_us = 90,
					  .prompt_tokens = 7,.output_tokens = 3,
	.pid = 77,.finish = FIN_STOP,.model = "a \"model\"\n",
	.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};

	trace_request(&r);
}

/* Each part lies within its step, parts don't overlap; each b has its e. */
static void
check_events(const Json *j)
{
	const Json *ev;
	double		begin = 0,
				end = 0,
				last = 0;
	int			open = 0;

	json_each(ev, json_get(j, "traceEvents"))
	{
		const char *name = json_str_of(json_get(ev, "name"));
		const char *ph = json_str_of(json_get(ev, "ph"));
		double		ts = json_get(ev, "ts")->num;
		double		dur = ph[0] == 'X' ? json_get(ev, "dur")->num : 0;

		open += (ph[0] == 'b') - (ph[0] == 'e');
		if (strcmp(name, "step") == 0)
		{
			begin = last = ts;
			end = ts + dur;
		}
		else if (ph[0] == 'X')
		{
			CHECK(ts == last && ts >= begin && ts + dur <= end, "%s lies in its step", name);
			last = ts + dur;
		}
	}
	CHECK(open == 0, "%d spans are open", open);
}

static void
test_record(void)
{
	Err			e = {0};
	Json	   *j;
	const Json *ev;

	step(1);
	CHECK(!trace_on() && trace_stop(&e) == NULL && e.cls == ERR_NOT_READY, "nothing is recorded");
	CHECK(trace_start(0, 0, &e) && trace_on(), "begins");
	CHECK(!trace_start(0, 0, &e) && e.cls == ERR_NOT_READY, "one at a time");
	step(1);
	step(2);
	request(5);
	j = stop();
	CHECK(!trace_on(), "ends");
	CHECK(count(j, "step", "X") == 2 && count(j, "plan", "X") == 2 && count(j, "forward", "X") == 2 &&
		  count(j, "sample", "X") == 2 && count(j, "deliver", "X") == 2, "steps and their parts");
	CHECK(count(j, "request", "b") == 1 && count(j, "queue", "e") == 1 && count(j, "prefill", "b") == 1 &&
		  count(j, "decode", "e") == 1, "requests");
	CHECK(count(j, "thread_name", "M") == 2 && count(j, "process_name", "M") == 1, "two instances");
	check_events(j);
	json_each(ev, json_get(j, "traceEvents"))
	{
		const Json *args = json_get(ev, "args");

		if (strcmp(json_str_of(json_get(ev, "name")), "forward") == 0)
			CHECK(json_to_int(json_get(args, "matmul_us")) == 500, "time of operations");
		if (strcmp(json_str_of(json_get(ev, "name")), "request") == 0 && args != NULL)
			CHECK(strcmp(json_str_of(json_get(args, "model")), "a \"model\"\n") == 0 &&
				  json_to_int(json_get(args, "pid")) == 77 && json_get(args, "traceparent") != NULL &&
				  json_get(args, "lora") == NULL, "what it says of a request");
	}
	json_free(j);
	/* afterwards nothing is recorded */
	step(1);
	request(1);
	CHECK(trace_stop(&e) == NULL, "over");
}

static void
test_limits(void)
{
	Err			e = {0};
	Json	   *j;

	/* skip the first steps, then record this many */
	CHECK(trace_start(3, 4, &e), "start");
	request(1);
	for (int i = 0; i < 10; i++)
		step(i);
	CHECK(!trace_on(), "enough");
	request(2);
	j = stop();
	CHECK(other(j, "steps") == 4 && count(j, "step", "X") == 4 && other(j, "requests") == 0,
		  "%d steps, %d requests", other(j, "steps"), other(j, "requests"));
	json_free(j);
	/* the newest steps are kept */
	CHECK(trace_start(0, 0, &e), "start");
	for (int i = 0; i < TRACE_STEPS + 100; i++)
		step(i);
	for (int i = 0; i < TRACE_REQUESTS + 7; i++)
		request((uint64_t) i + 1);
	j = stop();
	CHECK(count(j, "step", "X") == TRACE_STEPS && other(j, "steps_dropped") == 100, "steps");
	CHECK(count(j, "request", "b") == TRACE_REQUESTS && other(j, "requests_dropped") == 7, "requests");
	check_events(j);
	json_free(j);
}

static void *
hammer(void *arg)
{
	for (int i = 0; i < 20000; i++)
	{
		if (!trace_on())
			continue;
		step(i);
		request(*(uint64_t *) arg);
	}
	return NULL;
}

static void
test_threads(void)
{
	pthread_t	t[4];
	uint64_t	ids[4] = {1, 2, 3, 4};
	Err			e = {0};

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, hammer, &ids[i]);
	for (int i = 0; i < 20; i++)
	{
		CHECK(trace_start(0, 0, &e), "start %d", i);
		json_free(stop());
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

int
main(void)
{
	RUN(test_record());
	RUN(test_limits());
	RUN(test_threads());
	return check_done("test_trace");
}
