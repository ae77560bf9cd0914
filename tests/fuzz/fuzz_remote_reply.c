/*
 * fuzz_remote_reply.c
 *	  An endpoint's responses: edits of valid ones, of each shape, complete and streamed.  They are
 *	  refused, or they become frames that a backend can read; and the same frames, or the same error, in
 *	  whatever pieces they come.
 *
 * The first byte selects the request (`scenes`), the others are the response.
 */
#include "fuzz.h"

#include <math.h>

#include "tests/unit/remote/remote_reply_util.h"

#define EV(json) "data: " json "\n\n"
#define USAGE "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2," \
			  "\"prompt_tokens_details\":{\"cached_tokens\":1}}"

typedef struct SceneKind
{
	WireKind	kind;
	RShape		shape;
	bool		stream;
	int			n;				/* requests, or choices of one */
	int			logprobs;		/* -2: none */
	const char *answer;
} SceneKind;

static const SceneKind scenes[] = {
	{WK_GENERATE, RSHAPE_COMPLETION, false, 1, -2,
	 "{\"choices\":[{\"index\":0,\"text\":\"a\\u00e4\\ud83d\\ude00\",\"finish_reason\":\"stop\","
	 "\"stop_reason\":7}]," USAGE "}"},
	{WK_GENERATE, RSHAPE_COMPLETION, false, 2, 1,
	 "{\"choices\":[{\"index\":1,\"text\":\"a\",\"finish_reason\":\"stop\",\"token_ids\":[4],"
	"\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1],\"top_logprobs\":[{\"a\":-1,\"b\":-0.5}]},"
	"\"prompt_logprobs\":[null,{\"5\":{\"logprob\":-2,\"rank\":2,\"decoded_token\":\"x\"}}]},{\"index\":0,"
	"\"text\":\"\",\"finish_reason\":\"length\",\"logprobs\":null}]," USAGE "}"},
	{WK_GENERATE, RSHAPE_COMPLETION, true, 2, 1,
	 EV("{\"choices\":[{\"index\":1,\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1],"
		"\"top_logprobs\":[{\"a\":-1}]}}]}")
	EV("{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}") EV(
		"{\"choices\":[{\"index\":1,\"text\":\"\",\"finish_reason\":\"stop\"}]}") EV("{\"choices\":[],"
			USAGE "}") "data: [DONE]\n\n"},
	{WK_GENERATE, RSHAPE_CHAT, false, 1, 1,
	 "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}],"
	"\"reasoning_content\":\"h\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\","
	"\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\",\"logprobs\":{\"content\":[{\"token\":\"a\","
	"\"logprob\":-1,\"bytes\":[97],\"top_logprobs\":[{\"token\":\"b\",\"logprob\":-0.5,\"bytes\":[98]}]}]}}],"
	USAGE "}"},
	{WK_GENERATE, RSHAPE_CHAT, true, 1, -2,
	 EV("{\"choices\":[{\"delta\":{\"content\":\"a\",\"reasoning\":\"h\"}}]}") EV(
	"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
	"\"arguments\":\"{\"}}]}}]}") EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,"
									 "\"function\":{\"arguments\":\"}\"}}]},"
									 "\"finish_reason\":\"tool_calls\"}]}") "data: [DONE]\n\n"},
	{WK_POOL, RSHAPE_EMBEDDINGS, false, 3, -2,
	 "{\"data\":[{\"index\":2,\"embedding\":[1,-2.5e-3]},{\"index\":0,\"embedding\":\"AACAPwAAIMA=\"},"
	 "{\"index\":1,\"embedding\":[3,4]}]," USAGE "}"},
	{WK_POOL, RSHAPE_POOLING, false, 1, -2, "{\"data\":[{\"index\":0,\"data\":[[1,2],[3,4]]}]," USAGE "}"},
	{WK_POOL, RSHAPE_SCORE, false, 2, -2,
	 "{\"data\":[{\"index\":1,\"score\":0.25},{\"index\":0,\"score\":-1}]," USAGE "}"},
	{WK_POOL, RSHAPE_RERANK, false, 2, -2,
	 "{\"results\":[{\"index\":1,\"relevance_score\":0.25},{\"index\":0,\"relevance_score\":-1}],"
	 "\"usage\":{\"total_tokens\":7}}"},
	{WK_POOL, RSHAPE_CLASSIFY, false, 1, -2,
	 "{\"data\":[{\"index\":0,\"label\":\"good\",\"probs\":[0.25,0.75],\"num_classes\":2}]}"},
	{WK_TOKENIZE, RSHAPE_TOKENIZE, false, 1, -2,
	 "{\"count\":3,\"max_model_len\":4096,\"tokens\":[1,{\"id\":2},3]}"},
	{WK_DETOKENIZE, RSHAPE_DETOKENIZE, false, 1, -2, "{\"prompt\":\" hi\"}"},
	{WK_LOGPROBS, RSHAPE_LOGPROBS, false, 1, -2,
	 "{\"choices\":[{\"text\":\"\",\"logprobs\":{\"tokens\":[\"some\",\" text\",\" "
	"no\",\"!\"],\"token_logprobs\":[null,-1,-2,-3],\"top_logprobs\":[null,{\"a\":-0.5},{\" "
	"no\":-2},{}],\"text_offset\":[0,4,9,12]}}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}"},
	{WK_LOGPROBS, RSHAPE_LOGPROBS, false, 1, -2,
	 "{\"choices\":[{\"prompt_logprobs\":[null,{\"5\":{\"logprob\":-2,\"rank\":2,\"decoded_token\":\" "
	 "no\"}}]}]}"},
	{WK_MODEL_LOAD, RSHAPE_MODELS, false, 1, -2,
	 "{\"data\":[{\"id\":\"other\"},{\"id\":\"there/big\",\"max_model_len\":4096,"
	 "\"meta\":{\"n_params\":5}}]}"},
	{WK_API, RSHAPE_API, false, 1, -2, "{\"model\":\"x\",\"choices\":[{\"a\":1}]," USAGE "}"},
	{WK_API, RSHAPE_API, true, 1, -2, EV("{\"type\":\"message_start\",\"message\":{\"model\":\"y\","
										 "\"usage\":{\"input_tokens\":3}}}") EV(
											 "{\"type\":\"message_stop\"}") "data: [DONE]\n\n"},
};

#define N_SCENES (sizeof(scenes) / sizeof(scenes[0]))

static void
make(Scene *s, const SceneKind *k)
{
	static StrView choice[1];

	scene_init(s, k->kind, k->shape);
	scene_forget(s);
	s->call[0].stream = s->request[0].stream = k->stream;
	s->request[0].logprobs = s->request[0].prompt_logprobs = k->logprobs;
	s->request[0].want_labels = s->request[0].want_ids = true;
	if (k->shape == RSHAPE_LOGPROBS)
	{
		choice[0] = span_of(" no");
		s->request[0].choices = choice;
		s->request[0].n_choices = 1;
	}
	if (k->kind == WK_POOL)
		scene_many(s, k->n);
	else
		s->request[0].n = k->n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Scene		s;
	Err			e;
	Err			other;
	Buf			first = {0};
	bool		ok;
	size_t		n = size > 0 ? size - 1 : 0;
	const char *text = (const char *) data + (size > 0);

	if (size == 0)
		return 0;
	make(&s, &scenes[data[0] % N_SCENES]);
	ok = scene_feed(&s, text, n, 0, 0, &e);
	if (!ok)
		fuzz_failed(&e);
	for (int i = 0; i < s.n; i++)
		CHECK(s.finals[i] == ok, "ask %d has %d final frames", i, s.finals[i]);
	buf_add(&first, s.dump.data, s.dump.len);
	for (size_t piece = 1; piece < 8; piece += 3)
	{
		scene_forget(&s);
		CHECK(scene_feed(&s, text, n, piece, 0, &other) == ok, "pieces of %zu: %s%s", piece, e.msg,
			  other.msg);
		CHECK(first.len == s.dump.len && memcmp(first.data, s.dump.data, first.len) == 0,
			  "pieces of %zu:\n%s\n%s", piece, first.data, s.dump.data);
		CHECK(ok || strcmp(e.msg, other.msg) == 0, "pieces of %zu: %s, %s", piece, e.msg, other.msg);
	}
	/* the error must be fit for a client, whatever the endpoint has sent */
	reply_error(400 + data[0], text, n, &s.o, "https://e/v1", span_of("sk-secret"), &other);
	fuzz_failed(&other);
	CHECK(strstr(other.detail, "sk-secret") == NULL, "%s", other.detail);
	for (const char *p = other.detail; *p != '\0'; p++)
		CHECK((unsigned char) *p >= ' ', "control character %d", *p);
	if (check_failed > 0)
		abort();
	buf_free(&first);
	scene_free(&s);
	return 0;
}

size_t
fuzz_count(void)
{
	return N_SCENES;
}

void
fuzz_seed(size_t i, Buf *b)
{
	buf_addc(b, (char) i);
	buf_addstr(b, scenes[i].answer);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	Buf			rest = {0};
	char		first = b->len > 0 ? b->data[0] : 0;

	buf_add(&rest, b->data + (b->len > 0), b->len - (b->len > 0));
	if (rand_r(seed) % 3 == 0)
		fuzz_bytes(&rest, rest.len, seed);
	else
		fuzz_json(&rest, rest.len, seed);
	if (rand_r(seed) % 64 == 0)
		first = (char) rand_r(seed);
	buf_reset(b);
	buf_addc(b, first);
	if (rest.len > 0)
		buf_add(b, rest.data, rest.len);
	buf_free(&rest);
}

#ifndef FUZZ_LIBFUZZER
int
main(int argc, char **argv)
{
	(void) check_done;
	return fuzz_main("fuzz_remote_reply", argc, argv, 40000);
}
#endif
