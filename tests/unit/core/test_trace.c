/*
 * test_trace.c
 *	  Profiles: what is recorded, when, in how much memory; the JSON is read by another reader.
 */
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/check.h"
#include "core/trace.h"

static cJSON *
stop(void)
{
	Buf			b = {0};
	Err			e = {0};
	cJSON	   *j;

	TraceRecording *r = trace_stop(&e);

	CHECK(r != NULL, "stop: %s", e.msg);
	trace_write(r, &b);
	trace_free(r);
	j = cJSON_ParseWithLength(b.data, b.len);
	CHECK(j != NULL, "it is JSON");
	buf_free(&b);
	return j;
}

/* How many events have this name and phase? */
static int
count(const cJSON *j, const char *name, const char *ph)
{
	const cJSON *ev;
	int			n = 0;

	cJSON_ArrayForEach(ev, cJSON_GetObjectItem(j, "traceEvents"))
		n += strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(ev, "name")), name) == 0 &&
		strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(ev, "ph")), ph) == 0;
	return n;
}

static int
other(const cJSON *j, const char *key)
{
	return cJSON_GetObjectItem(cJSON_GetObjectItem(j, "otherData"), key)->valueint;
}

static void
step(int i)
{
	int			core[2];
	TraceStep	s = {.core = &core[i % 2],.at = {1000 * i + 1, 1000 * i + 100, 1000 * i + 800, 1000 * i + 850, 1000 * i + 900},.seqs = i,.rows = 2 * i};

	s.ops_ns[PROF_MATMUL] = 500000;
	trace_step(&s);
}

static void
request(uint64_t id)
{
	TraceRequest r = {.id = id,.arrival_us = 10,.scheduled_us = 20,.first_us = 40,.end_us = 90,.prompt_tokens = 7,.output_tokens = 3,
	.pid = 77,.finish = FIN_STOP,.model = "a \"model\"\n",.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};

	trace_request(&r);
}

/* Each part lies in its step, parts follow each other; each b has its e. */
static void
check_events(const cJSON *j)
{
	const cJSON *ev;
	double		begin = 0,
				end = 0,
				last = 0;
	int			open = 0;

	cJSON_ArrayForEach(ev, cJSON_GetObjectItem(j, "traceEvents"))
	{
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(ev, "name"));
		const char *ph = cJSON_GetStringValue(cJSON_GetObjectItem(ev, "ph"));
		double		ts = cJSON_GetObjectItem(ev, "ts")->valuedouble;
		double		dur = ph[0] == 'X' ? cJSON_GetObjectItem(ev, "dur")->valuedouble : 0;

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
	cJSON	   *j;
	const cJSON *ev;

	step(1);
	CHECK(!trace_on() && trace_stop(&e) == NULL && e.cls == ERR_NOT_READY, "nothing is recorded");
	CHECK(trace_start(0, 0, &e) && trace_on(), "begins");
	CHECK(!trace_start(0, 0, &e) && e.cls == ERR_NOT_READY, "one at a time");
	step(1);
	step(2);
	request(5);
	j = stop();
	CHECK(!trace_on(), "ends");
	CHECK(count(j, "step", "X") == 2 && count(j, "plan", "X") == 2 && count(j, "forward", "X") == 2 && count(j, "sample", "X") == 2 &&
		  count(j, "deliver", "X") == 2, "steps and their parts");
	CHECK(count(j, "request", "b") == 1 && count(j, "queue", "e") == 1 && count(j, "prefill", "b") == 1 && count(j, "decode", "e") == 1, "requests");
	CHECK(count(j, "thread_name", "M") == 2 && count(j, "process_name", "M") == 1, "two instances");
	check_events(j);
	cJSON_ArrayForEach(ev, cJSON_GetObjectItem(j, "traceEvents"))
	{
		const cJSON *args = cJSON_GetObjectItem(ev, "args");

		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(ev, "name")), "forward") == 0)
			CHECK(cJSON_GetObjectItem(args, "matmul_us")->valueint == 500, "time of operations");
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(ev, "name")), "request") == 0 && args != NULL)
			CHECK(strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(args, "model")), "a \"model\"\n") == 0 &&
				  cJSON_GetObjectItem(args, "pid")->valueint == 77 && cJSON_GetObjectItem(args, "traceparent") != NULL &&
				  cJSON_GetObjectItem(args, "lora") == NULL, "what it says of a request");
	}
	cJSON_Delete(j);
	/* afterwards nothing is recorded */
	step(1);
	request(1);
	CHECK(trace_stop(&e) == NULL, "over");
}

static void
test_limits(void)
{
	Err			e = {0};
	cJSON	   *j;

	/* the first ones left out, then so many */
	CHECK(trace_start(3, 4, &e), "start");
	request(1);
	for (int i = 0; i < 10; i++)
		step(i);
	CHECK(!trace_on(), "enough");
	request(2);
	j = stop();
	CHECK(other(j, "steps") == 4 && count(j, "step", "X") == 4 && other(j, "requests") == 0, "%d steps, %d requests", other(j, "steps"), other(j, "requests"));
	cJSON_Delete(j);
	/* the newest stay */
	CHECK(trace_start(0, 0, &e), "start");
	for (int i = 0; i < TRACE_STEPS + 100; i++)
		step(i);
	for (int i = 0; i < TRACE_REQUESTS + 7; i++)
		request((uint64_t) i + 1);
	j = stop();
	CHECK(count(j, "step", "X") == TRACE_STEPS && other(j, "steps_dropped") == 100, "steps");
	CHECK(count(j, "request", "b") == TRACE_REQUESTS && other(j, "requests_dropped") == 7, "requests");
	check_events(j);
	cJSON_Delete(j);
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
		cJSON_Delete(stop());
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

int
main(void)
{
	test_record();
	test_limits();
	test_threads();
	return check_done("test_trace");
}
