/*
 * test_remote_path.c
 *	  The whole path of requests: messages, bodies, dispatcher, responses, frames; everything but the
 *	  network is the program's.
 */
#include <stdio.h>
#include <stdlib.h>

#define NET_REAL_BODIES
#include "base/json/json.h"
#include "tests/unit/remote/remote_net.h"

static RSettings settings = {.allowed_hosts = "*.example",.max_connections = 1000};
static int	status = 200;		/* for the next call only */
static NetDo what;				/* for the next call only */
static const char *bad_input;	/* an input that the endpoint refuses */
static int	bad_rows;			/* rows that are missing in a response */

static NetPlan
plan(const HttpRequest *r)
{
	NetPlan		p = net_default();

	p.what = status != 200 ? NET_STATUS : what;
	p.status = status;
	if (bad_input != NULL && r->body != NULL && strstr(r->body, bad_input) != NULL)
	{
		p.what = NET_STATUS;
		p.status = 400;
	}
	status = 200;
	what = NET_OK;
	return p;
}

/* Return the number in the text, which is also its embedding. */
static int
number_of(const char *text)
{
	while (*text != '\0' && (*text < '0' || *text > '9'))
		text++;
	return atoi(text);
}

static void
answer_embeddings(const Json *q, Buf *b)
{
	const Json *input = json_get(q, "input");
	int			n = json_is_array(input) ? json_count(input) : 1;

	buf_addstr(b, "{\"object\": \"list\", \"data\": [");
	/* in any order: "index" counts */
	for (int i = n - 1; i >= bad_rows; i--)
	{
		const Json *text = json_is_array(input) ? json_item(input, i) : input;

		buf_printf(b, "%s{\"object\": \"embedding\", \"index\": %d, \"embedding\": [%d, 0.5]}",
				   i < n - 1 ? ", " : "", i, number_of(text->s));
	}
	buf_printf(b, "], \"usage\": {\"prompt_tokens\": %d, \"total_tokens\": %d}}", 4 * n, 4 * n);
}

static void
net_answer_text(const HttpCall *c, Buf *b)
{
	Json	   *q = json_parse(c->body, strlen(c->body));

	if (strstr(c->url, "/models") != NULL)
		buf_addstr(b, "{\"object\": \"list\", \"data\": [{\"id\": \"m\", \"object\": \"model\"}]}");
	else if (strstr(c->url, "/embeddings") != NULL)
		answer_embeddings(q, b);
	else if (c->stream)
		for (int i = 0; i < 5; i++)
			buf_addstr(b, i < 3 ? "data: {\"id\": \"x\", \"object\": \"text_completion\", \"choices\": "
								  "[{\"index\": 0, \"text\": \"ab\", \"finish_reason\": null}]}\n\n" :
					   i == 3 ? "data: {\"id\": \"x\", \"object\": \"text_completion\", \"choices\": "
								"[{\"index\": 0, \"text\": \"\", \"finish_reason\": \"length\"}]}\n\n" :
					   "data: [DONE]\n\n");
	else
		buf_printf(b, "{\"id\": \"x\", \"object\": \"text_completion\", \"choices\": [{\"index\": 0, "
				   "\"text\": \"for %s\", \"finish_reason\": \"stop\"}], \"usage\": {\"prompt_tokens\": 5, "
				   "\"completion_tokens\": 2, \"total_tokens\": 7}}", json_get(q, "prompt")->s);
	json_free(q);
}

static Dispatcher *
start(void)
{
	return net_start(&settings, plan);
}

static void
test_generate(void)
{
	Dispatcher *l = start();
	Client	   *c = net_req(l, &(Want) {0});
	char		want[64];

	net_run(l, &http, 1000000);
	snprintf(want, sizeof(want), "for %s", c->want);
	CHECK(c->done && strcmp(c->text, want) == 0 && strcmp(c->reason, "stop") == 0 && c->prompt_tokens == 5,
		  "%s %s", c->text, c->message);
	CHECK(c->accepted == 1 && c->tries == 1 && c->e2e_us == 10000, "%lld", (long long) c->e2e_us);
	CHECK(strcmp(http.url, "https://a.example/v1/completions") == 0 && !http.get, "%s", http.url);
	c = net_req(l, &(Want) {.stream = true});
	net_run(l, &http, 1000000);
	CHECK(c->done && c->texts >= 3 && strcmp(c->reason, "length") == 0, "%d %s %s", c->texts, c->reason,
		  c->message);
	/* a call that was cut is retried, if a retry is harmless */
	what = NET_CUT_BODY;
	c = net_req(l, &(Want) {.seed = true});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 2 && c->charged == 1 && c->accepted == 1, "%s", c->message);
	what = NET_CUT_BODY;
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(!c->done && c->tries == 1 && c->charged == 1 && strcmp(c->sqlstate, "08006") == 0, "%s",
		  c->message);
	what = NET_EMPTY;
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(!c->done && strcmp(c->sqlstate, "08P01") == 0 && c->tries == 1, "%s", c->message);
	net_stop(l);
}

static void
test_errors(void)
{
	static const struct
	{
		int			status;
		const char *sqlstate;
	}			cases[] = {{401, "28000"}, {403, "42501"}, {404, "42704"}, {400, "22023"}, {413, "54000"},
						   {302, "42501"}, {501, "0A000"}};
	Dispatcher *l = start();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Client	   *c;

		status = cases[i].status;
		c = net_req(l, &(Want) {.secret = "hunter2hunter2"});
		net_run(l, &http, 10000000);
		CHECK(!c->done && strcmp(c->sqlstate, cases[i].sqlstate) == 0 && c->tries == 1, "%d: %s %s",
			  cases[i].status, c->sqlstate, c->message);
		CHECK(strstr(c->message, "hunter2") == NULL && strstr(c->detail, "hunter2") == NULL &&
			  strstr(c->hint, "hunter2") == NULL, "%s", c->message);
	}
	net_stop(l);
}

static void
test_embeddings(void)
{
	Dispatcher *l = start();
	Want		w = {.kind = WK_POOL,.task = "embed"};
	Client	   *c[100];

	for (int i = 0; i < 100; i++)
		c[i] = net_req(l, &w);
	net_run(l, &http, 1000000);
	CHECK(http.made == 2, "100 in two calls: %d", http.made);
	for (int i = 0; i < 100; i++)
		CHECK(c[i]->done && c[i]->n_floats == 2 && c[i]->floats[0] == (float) c[i]->id &&
			  c[i]->prompt_tokens > 0, "its own row: %g %s", (double) c[i]->floats[0], c[i]->message);
	/* an input that is refused */
	for (int i = 0; i < 20; i++)
	{
		w.prompt = i == 13 ? "evil" : "";
		c[i] = net_req(l, &w);
	}
	bad_input = "evil";
	net_run(l, &http, 1000000);
	for (int i = 0; i < 20; i++)
		CHECK(i == 13 ? strcmp(c[i]->sqlstate, "22023") == 0 : c[i]->done &&
			  c[i]->floats[0] == (float) c[i]->id, "%d: %s", i, c[i]->message);
	bad_input = NULL;
	w.prompt = NULL;
	/* a row is missing: no request gets another one's */
	bad_rows = 1;
	for (int i = 0; i < 5; i++)
		c[i] = net_req(l, &w);
	net_run(l, &http, 100000000);
	for (int i = 0; i < 5; i++)
		CHECK(!c[i]->done && (strcmp(c[i]->sqlstate, "08P01") == 0 || strcmp(c[i]->sqlstate, "57P03") == 0) &&
			  c[i]->tries >= 1 && c[i]->tries <= 4 && c[i]->charged == c[i]->tries, "%s, %lld tries",
			  c[i]->message, (long long) c[i]->tries);
	bad_rows = 0;
	net_stop(l);
}

static void
test_models(void)
{
	Dispatcher *l = start();
	Client	   *c = net_req(l, &(Want) {.kind = WK_MODEL_CHECK});

	net_run(l, &http, 1000000);
	CHECK(c->done && http.get && strcmp(http.url, "https://a.example/v1/models") == 0, "%s %s", http.url,
		  c->message);
	c = net_req(l, &(Want) {.kind = WK_MODEL_LOAD});
	net_run(l, &http, 1000000);
	CHECK(c->done, "%s", c->message);
	c = net_req(l, &(Want) {.kind = WK_MODEL_CHECK,.model = "other"});
	net_run(l, &http, 1000000);
	CHECK(c->finals == 1, "%s", c->message);
	c = net_req(l, &(Want) {.kind = WK_MODEL_FORGET});
	CHECK(c->finals == 1 && c->done && c->request == NULL, "%s", c->message);
	c = net_req(l, &(Want) {.kind = WK_GRAMMAR});
	net_run(l, &http, 1000000);
	CHECK(c->finals == 1 && !c->done, "no endpoint does that");
	net_stop(l);
}

/* Some paths are outside of the url's /v1, if it has one: a host may have that name, too. */
static void
test_beside(void)
{
	static const char *const urls[][2] = {
		{"https://a.example/v1", "https://a.example/b.example/x"},
		{"https://a.example", "https://a.example/b.example/x"},
		{"https://a.example/x/v1/", "https://a.example/x/b.example/x"},
		{"https://v1", "https://v1/b.example/x"}, {"https://v1/v1", "https://v1/b.example/x"}
	};
	RSettings	both = settings;
	Dispatcher *l = start();

	both.allowed_hosts = "a.example v1";
	dispatcher_settings(l, &both);
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
	{
		net_req(l, &(Want) {.url = urls[i][0],.kind = WK_TOKENIZE,
							.options = "{\"dialect\": \"vllm\", \"tokenize_path\": \"/b.example/x\"}"});
		net_run(l, &http, 1000000);
		CHECK(strcmp(http.url, urls[i][1]) == 0, "%s", http.url);
	}
	net_stop(l);
}

int
main(void)
{
	RUN(test_generate());
	RUN(test_errors());
	RUN(test_embeddings());
	RUN(test_models());
	RUN(test_beside());
	return check_done("test_remote_path");
}
