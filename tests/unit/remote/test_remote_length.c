/*
 * test_remote_length.c
 *	  Completions without max_tokens need the endpoint's context length (src/remote/context_length.c).
 *	  Everything but the network is the program's.
 */
#include <stdio.h>
#include <stdlib.h>

#define NET_REAL_BODIES
#include "base/json/json.h"
#include "tests/unit/remote/remote_net.h"

#define VLLM	"\"dialect\": \"vllm\""

static RSettings settings = {.allowed_hosts = "a.example",.max_connections = 1000};
static int	n_lists;			/* lists of models that were requested */
static int	n_tokens;			/* requests to tokenize */
static int	n_texts;
static int	reported = 1000;	/* length in the lists; 0 = not reported */
static int	reported_tokens;	/* length in replies with tokens */
static NetPlan next_list;		/* for one call */
static bool scripted;
static NetDo next_text;			/* for one call */
static int64_t requested[64];	/* max_tokens of each body; -1 = not given */

static NetPlan
plan(const HttpRequest *r)
{
	NetPlan		p = net_default();

	if (net_is_check(r->url))
	{
		n_lists++;
		if (scripted)
			p = next_list;
		scripted = false;
		return p;
	}
	if (strstr(r->url, "/tokenize") != NULL)
	{
		n_tokens++;
		return p;
	}
	p.what = next_text;
	next_text = NET_OK;
	return p;
}

static void
net_answer_text(const HttpCall *c, Buf *b)
{
	Json	   *q;
	const Json *most;

	if (net_is_check(c->url))
	{
		buf_addstr(b, "{\"object\": \"list\", \"data\": [{\"id\": \"other\", \"max_model_len\": 5}, {\"id\": "
					  "\"m\", \"max_model_len\": ");
		buf_printf(b, reported > 0 ? "%d}]}" : "null}]}", reported);
		return;
	}
	if (strstr(c->url, "/tokenize") != NULL)
	{
		CHECK(strcmp(c->body, "{\"model\":\"m\",\"prompt\":\"x\"}") == 0, "%s", c->body);
		buf_printf(b, reported_tokens > 0 ? "{\"count\": 1, \"max_model_len\": %d, \"tokens\": [1]}" :
				   "{\"count\": 1, \"tokens\": [1]}", reported_tokens);
		return;
	}
	q = json_parse(c->body, strlen(c->body));
	most = json_get(q, "max_tokens");
	requested[n_texts++ % 64] = most != NULL ? (int64_t) most->num : -1;
	buf_printf(b, "{\"id\": \"x\", \"object\": \"text_completion\", \"choices\": [{\"index\": 0, \"text\": "
			   "\"for %s\", \"finish_reason\": \"stop\"}], \"usage\": {\"prompt_tokens\": 5, "
			   "\"completion_tokens\": 2, \"total_tokens\": 7}}", json_get(q, "prompt")->s);
	json_free(q);
}

static Dispatcher *
start(void)
{
	n_lists = n_tokens = n_texts = 0;
	reported = 1000;
	reported_tokens = 0;
	scripted = false;
	next_text = NET_OK;
	return net_start(&settings, plan);
}

static void
list(NetDo what, int status)
{
	next_list = net_default();
	next_list.what = what;
	next_list.status = status;
	scripted = true;
}

static Client *
request(Dispatcher *l, const char *options)
{
	return net_req(l, &(Want) {.options = options,.endless = true});
}

static bool
refused(const Client *c)
{
	return c->finals == 1 && !c->done && strcmp(c->sqlstate, "22023") == 0 &&
		strstr(c->message, "max_tokens must be given") != NULL &&
		strstr(c->hint, "\"max_model_len\"") != NULL && c->calls == 0;
}

/* It is requested once, however many requests wait; a known length is used. */
static void
test_once(void)
{
	const char *options = "{" VLLM ", \"max_concurrent_requests\": 4}";
	Dispatcher *l = start();
	Client	   *c[10];
	char		want[64];

	for (int i = 0; i < 10; i++)
		c[i] = request(l, options);
	/* it needs no length */
	Client	   *d = net_req(l, &(Want) {.options = options});

	net_poll(l, &http);
	CHECK(n_lists == 1 && http.n == 2, "%d under way", http.n);
	net_run(l, &http, 1000000);
	CHECK(n_lists == 1 && n_texts == 11 && d->done && d->queue_us == 0, "%d, %d", n_lists, n_texts);
	for (int i = 0; i < 10; i++)
	{
		snprintf(want, sizeof(want), "for %s", c[i]->want);
		CHECK(c[i]->done && strcmp(c[i]->text, want) == 0 && c[i]->tries == 1 && c[i]->charged == 0,
			  "%d: %s %s", i, c[i]->text, c[i]->message);
		CHECK(c[i]->queue_us >= 10000 && c[i]->e2e_us >= 20000, "%d: waited %lld us", i,
			  (long long) c[i]->queue_us);
	}
	CHECK(requested[0] == 16 || requested[1] == 16, "its own");
	for (int i = 0; i < 10; i++)
		CHECK(i == 0 ? requested[0] == 16 || requested[0] == 1000 - 8 - 2 : requested[i] == 16 ||
			  requested[i] == 1000 - 8 - 2 || requested[i] == 1000 - 8 - 3, "%d: %lld", i,
			  (long long) requested[i]);
	c[0] = request(l, options);
	net_run(l, &http, 1000000);
	CHECK(c[0]->done && n_lists == 1, "it is known");
	/* kept for an hour */
	net_now += INT64_C(3600000000);
	c[0] = request(l, options);
	net_run(l, &http, 1000000);
	CHECK(c[0]->done && n_lists == 2, "%d", n_lists);
	/* and not longer than the model is known */
	rmodel_forget(l, 5, (StrView) {"m", 1}, 0);
	c[0] = request(l, options);
	net_run(l, &http, 1000000);
	CHECK(c[0]->done && n_lists == 3, "%d", n_lists);
	net_stop(l);
}

/* Requests that need no length. */
static void
test_unneeded(void)
{
	static const struct
	{
		const char *options;
		int64_t		most;
	}			cases[] = {
		{"{" VLLM ", \"max_model_len\": 500}", 500 - 8 - 2}, {"{\"dialect\": \"llama.cpp\"}", -1},
		{"{\"dialect\": \"llama-cpp-python\"}", 0}
	};
	Dispatcher *l = start();
	Client	   *c;

	for (int i = 0; i < 3; i++)
	{
		char		model[8];

		snprintf(model, sizeof(model), "m%d", i);
		c = net_req(l, &(Want) {.model = model,.options = cases[i].options,.endless = true});
		net_run(l, &http, 1000000);
		CHECK(c->done && n_lists == 0 && requested[i] == cases[i].most, "%d: %lld, %s", i,
			  (long long) requested[i], c->message);
	}
	/* a request to load the model has learned it as well */
	c = net_req(l, &(Want) {.kind = WK_MODEL_LOAD});
	net_run(l, &http, 1000000);
	CHECK(c->done && n_lists == 1, "%s", c->message);
	c = request(l, NULL);
	net_run(l, &http, 1000000);
	CHECK(c->done && n_lists == 1 && requested[3] == 1000 - 8 - 2, "%lld", (long long) requested[3]);
	net_stop(l);
}

/* The length isn't reported: the requests are refused, each time. */
static void
test_unreported(void)
{
	Dispatcher *l = start();
	Client	   *c[5];

	reported = 0;
	for (int i = 0; i < 5; i++)
		c[i] = request(l, NULL);
	net_run(l, &http, 1000000);
	for (int i = 0; i < 5; i++)
		CHECK(refused(c[i]) && strstr(c[i]->detail, "does not report") != NULL, "%s: %s", c[i]->message,
			  c[i]->detail);
	CHECK(n_lists == 1 && n_texts == 0, "%d", n_lists);
	/* no list, nor a valid one */
	list(NET_STATUS, 404);
	c[0] = request(l, NULL);
	net_run(l, &http, 1000000);
	CHECK(refused(c[0]) && n_lists == 2, "%s", c[0]->message);
	list(NET_NONSENSE, 200);
	c[0] = request(l, NULL);
	net_run(l, &http, 10000000);
	CHECK(refused(c[0]) && n_lists == 3, "%s", c[0]->message);
	/* a prompt that may be too long */
	reported = 10;
	c[0] = request(l, NULL);
	net_run(l, &http, 10000000);
	CHECK(refused(c[0]) && strstr(c[0]->detail, "the 10 tokens") != NULL && n_lists == 4, "%s", c[0]->detail);
	reported = 1000;
	rmodel_forget(l, 5, (StrView) {"m", 1}, 0);
	c[0] = request(l, NULL);
	net_run(l, &http, 10000000);
	CHECK(c[0]->done && n_lists == 5, "%s", c[0]->message);
	net_stop(l);
}

/* The list has no length: the second call. */
static void
test_tokens(void)
{
	Dispatcher *l = start();
	Client	   *c[5];

	reported = 0;
	reported_tokens = 700;
	for (int i = 0; i < 5; i++)
		c[i] = request(l, "{" VLLM "}");
	net_run(l, &http, 1000000);
	for (int i = 0; i < 5; i++)
		CHECK(c[i]->done && c[i]->tries == 1 && requested[i] == 700 - 8 - 2, "%lld: %s",
			  (long long) requested[i], c[i]->message);
	CHECK(n_lists == 1 && n_tokens == 1, "%d, %d", n_lists, n_tokens);
	rmodel_forget(l, 5, (StrView) {"m", 1}, 0);
	reported_tokens = 0;
	for (int i = 0; i < 5; i++)
		c[i] = request(l, "{" VLLM "}");
	net_run(l, &http, 1000000);
	for (int i = 0; i < 5; i++)
		CHECK(refused(c[i]), "%s", c[i]->message);
	CHECK(n_lists == 2 && n_tokens == 2 && n_texts == 5, "%d, %d", n_lists, n_tokens);
	net_stop(l);
}

/* Errors are those of any call, for all waiting requests. */
static void
test_failures(void)
{
	Dispatcher *l = start();
	Client	   *c[5];

	list(NET_NOT_SENT, 0);
	for (int i = 0; i < 3; i++)
		c[i] = request(l, NULL);
	net_run(l, &http, 10000000);
	for (int i = 0; i < 3; i++)
		CHECK(c[i]->done && c[i]->tries == 1, "tried again: %s", c[i]->message);
	CHECK(n_lists == 2, "%d", n_lists);
	net_stop(l);
	l = start();
	list(NET_NOT_SENT, 0);
	for (int i = 0; i < 3; i++)
		c[i] = request(l, "{\"max_retries\": 0}");
	net_run(l, &http, 10000000);
	for (int i = 0; i < 3; i++)
		CHECK(!c[i]->done && strcmp(c[i]->sqlstate, "08006") == 0 && c[i]->elsewhere == 1 &&
			  c[i]->charged == 0, "%d: %s", i, c[i]->message);
	CHECK(n_lists == 1, "%d", n_lists);
	list(NET_STATUS, 401);
	c[0] = request(l, "{\"max_retries\": 0}");
	net_run(l, &http, 10000000);
	CHECK(strcmp(c[0]->sqlstate, "28000") == 0, "%s", c[0]->message);
	/* after a failure there may be another endpoint */
	c[0] = request(l, "{\"max_retries\": 0}");
	net_run(l, &http, 10000000);
	CHECK(c[0]->done && n_lists == 3, "%s", c[0]->message);
	next_text = NET_CUT;
	c[0] = request(l, "{\"max_retries\": 0}");
	net_run(l, &http, 10000000);
	CHECK(!c[0]->done && c[0]->tries == 1 && n_lists == 3, "%s", c[0]->message);
	c[0] = request(l, "{\"max_retries\": 0}");
	net_run(l, &http, 10000000);
	CHECK(c[0]->done && n_lists == 4, "%d", n_lists);
	net_stop(l);
}

/* A waiting request may end by its deadline, or by a cancel. */
static void
test_leaving(void)
{
	Dispatcher *l = start();
	Client	   *c[4];

	list(NET_HANG, 0);
	c[0] = net_req(l, &(Want) {.endless = true,.deadline_us = net_now + 500000});
	c[1] = net_req(l, &(Want) {.endless = true,.deadline_us = net_now + 300000});
	c[2] = request(l, NULL);
	c[3] = request(l, NULL);
	net_run(l, &http, 400000);
	CHECK(c[1]->finals == 1 && strcmp(c[1]->sqlstate, "57014") == 0 && c[0]->finals == 0 && n_lists == 1,
		  "%s", c[1]->message);
	c[3]->cancelled = true;
	dispatcher_cancel(l, c[3]->request);
	net_run(l, &http, 1000000);
	CHECK(c[0]->finals == 1 && strcmp(c[0]->sqlstate, "57014") == 0 && c[0]->charged == 0, "%s, %lld",
		  c[0]->message, (long long) c[0]->charged);
	CHECK(c[2]->done && n_lists == 2 && n_texts == 1, "another asks: %s", c[2]->message);
	CHECK(dispatcher_live(l) == 0 && l->models->n_requests == 0 && l->models->sizer == NULL,
		  "nothing is left");
	/* the request that asks for the length */
	l->models->o->reported_len = 0;
	list(NET_HANG, 0);
	c[0] = request(l, NULL);
	c[1] = request(l, NULL);
	net_run(l, &http, 100000);
	c[0]->cancelled = true;
	dispatcher_cancel(l, c[0]->request);
	net_run(l, &http, 1000000);
	CHECK(c[1]->done && n_lists == 4, "%d", n_lists);
	/* all at once */
	l->models->o->reported_len = 0;
	list(NET_HANG, 0);
	for (int i = 0; i < 4; i++)
		c[i] = request(l, NULL);
	net_run(l, &http, 100000);
	for (int i = 0; i < 4; i++)
		c[i]->cancelled = true;
	net_stop(l);
}

int
main(void)
{
	RUN(test_once());
	RUN(test_unneeded());
	RUN(test_unreported());
	RUN(test_tokens());
	RUN(test_failures());
	RUN(test_leaving());
	return check_done("test_remote_length");
}
