/*
 * test_remote_reply_more.c
 *	  Endpoints' vectors, scores, labels, tokens, choices, bodies, models and errors as reply frames.
 */
#include "base/json/json_scan.h"
#include "remote/codec/dialect.h"
#include "remote/codec/decode_internal.h"
#include "tests/unit/remote/remote_reply_util.h"

#define EV(json) "data: " json "\n\n"

static void
no_frame(void *ctx, int request, WireFrame kind, const Buf *fields, bool final)
{
	(void) ctx;
	(void) fields;
	CHECK(false, "frame %d for %d, %d", kind, request, final);
}

static void
test_embeddings(void)
{
	Scene		s;

	scene_init(&s, WK_POOL, RSHAPE_EMBEDDINGS);
	s.request[0].task = span_of("embed");
	EXPECT(&s, "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[ 0.5 "
			   ",-1e-2, 3,1E2]}],\"usage\":{\"prompt_tokens\":4,\"total_tokens\":4}}",
		   "ACCEPTED prompt_tokens=4;DONE floats={0.5,-0.01,3,100} rows=1 prompt_tokens=4;");
	/* 1, -2.5 as little-endian floats; JSON writers may escape slashes */
	EXPECT(&s, "{\"data\":[{\"embedding\":\"AACAPwAAIMA=\"}]}", "ACCEPTED;DONE floats={1,-2.5} rows=1;");
	EXPECT(&s, "{\"data\":[{\"embedding\":\"\\/\\/9\\/fw==\"}]}",
		   "ACCEPTED;DONE floats={3.40282e+38} rows=1;");
	REFUSE(&s, "{\"data\":[{\"embedding\":\"AACAPwAAIM\"}]}", ERR_PROTOCOL, "vector");
	REFUSE(&s, "{\"data\":[{\"embedding\":\"AACA!wAA\"}]}", ERR_PROTOCOL, "vector");
	REFUSE(&s, "{\"data\":[{\"embedding\":\"\"}]}", ERR_PROTOCOL, "without numbers");
	REFUSE(&s, "{\"data\":[{\"embedding\":\"AACAfw==\"}]}", ERR_PROTOCOL, "finite");	/* infinity */
	REFUSE(&s, "{\"data\":[{\"embedding\":[]}]}", ERR_PROTOCOL, "without numbers");
	REFUSE(&s, "{\"data\":[{\"embedding\":[1,null]}]}", ERR_PROTOCOL, "finite");
	REFUSE(&s, "{\"data\":[{\"embedding\":[1,\"2\"]}]}", ERR_PROTOCOL, "finite");
	REFUSE(&s, "{\"data\":[{\"embedding\":[1,1e39]}]}", ERR_PROTOCOL, "finite");
	REFUSE(&s, "{\"data\":[{\"embedding\":[1,NaN]}]}", ERR_PROTOCOL, "not JSON");
	REFUSE(&s, "{\"data\":[{\"embedding\":{}}]}", ERR_PROTOCOL, "vector");
	REFUSE(&s, "{\"data\":[{}]}", ERR_PROTOCOL, "vector");
	REFUSE(&s, "{\"data\":[{\"embedding\":[[1,2],[3,4]]}]}", ERR_PROTOCOL, "does not pool");
	EXPECT(&s, "{\"data\":[{\"embedding\":[[1,2]]}]}", "ACCEPTED;DONE floats={1,2} rows=1;");
	REFUSE(&s, "{\"data\":[]}", ERR_PROTOCOL, "0 results where 1");
	REFUSE(&s, "{\"error\":{\"message\":\"bad\",\"code\":400}}", ERR_INVALID, "bad");
	scene_int(&s, 0, WTAG_DIMENSIONS, 3);
	REFUSE(&s, "{\"data\":[{\"embedding\":[1,2]}]}", ERR_PROTOCOL, "3 were asked for");
	scene_free(&s);

	scene_init(&s, WK_POOL, RSHAPE_EMBEDDINGS);
	scene_many(&s, 3);
	s.request[1].prompt = span_of("a text that is three times as long");
	EXPECT(&s, "{\"data\":[{\"index\":2,\"embedding\":[5,6]},{\"index\":0,\"embedding\":[1,2]},{\"index\":1,"
			   "\"embedding\":[3,4]}],\"usage\":{\"prompt_tokens\":20}}",
		   "[0]ACCEPTED prompt_tokens=3;[0]DONE floats={1,2} rows=1 prompt_tokens=3;[1]ACCEPTED "
		   "prompt_tokens=13;[1]DONE floats={3,4} rows=1 prompt_tokens=13;[2]ACCEPTED "
		   "prompt_tokens=4;[2]DONE floats={5,6} rows=1 prompt_tokens=4;");
	REFUSE(&s, "{\"data\":[{\"index\":0,\"embedding\":[5,6]},{\"index\":0,\"embedding\":[1,2]},{\"index\":1,"
			   "\"embedding\":[3,4]}]}", ERR_PROTOCOL, "twice");
	REFUSE(&s, "{\"data\":[{\"index\":3,\"embedding\":[5,6]},{\"index\":0,\"embedding\":[1,2]},{\"index\":1,"
			   "\"embedding\":[3,4]}]}", ERR_PROTOCOL, "index");
	REFUSE(&s, "{\"data\":[{\"index\":0,\"embedding\":[5,6]},{\"index\":1,\"embedding\":[1,2]}]}",
		   ERR_PROTOCOL, "2 results where 3");
	REFUSE(&s, "{\"data\":[{\"embedding\":[1]},{\"embedding\":[1]},{\"embedding\":[1]},{\"embedding\":[1]}]}",
		   ERR_PROTOCOL, "more results");
	REFUSE(&s, "{\"data\":[{\"embedding\":[1,2]},{\"embedding\":[1]},{\"embedding\":[1,2]}]}", ERR_PROTOCOL,
		   "of 2 and of 1");
	/* visible only by comparing all rows */
	for (int unlike = 0; unlike < 2; unlike++)
	{
		const char *text = unlike ? "{\"data\":[{\"embedding\":[1,2]},{\"embedding\":[1,2]},"
									"{\"embedding\":[1]}]}" : "{\"data\":[{\"embedding\":[1,2]}]}";
		DecodedReply *r = reply_new(s.requests, s.n, &s.calls, &s.o, no_frame, NULL);
		Err			e = {0};

		CHECK(reply_data(r, 0, text, strlen(text), &e) && !reply_end(r, 0, &e) && reply_unlike(r) == unlike,
			  "%s", e.msg);
		reply_free(r);
	}
	scene_free(&s);
}

static void
test_scores(void)
{
	Scene		s;

	scene_init(&s, WK_POOL, RSHAPE_SCORE);
	scene_many(&s, 2);
	EXPECT(&s, "{\"data\":[{\"index\":1,\"object\":\"score\",\"score\":0.25},{\"index\":0,\"score\":-1}]}",
		   "[0]ACCEPTED;[0]DONE floats={-1} rows=1;[1]ACCEPTED;[1]DONE floats={0.25} rows=1;");
	s.call[0].shape = RSHAPE_RERANK;
	EXPECT(&s, "{\"results\":[{\"index\":1,\"relevance_score\":0.75,\"document\":{\"text\":\"x\"}},"
			   "{\"index\":0,\"relevance_score\":0.5}],\"usage\":{\"total_tokens\":10}}",
		   "[0]ACCEPTED prompt_tokens=5;[0]DONE floats={0.5} rows=1 prompt_tokens=5;[1]ACCEPTED "
		   "prompt_tokens=5;[1]DONE floats={0.75} rows=1 prompt_tokens=5;");
	EXPECT(&s, "[{\"index\":1,\"score\":0.75},{\"index\":0,\"score\":0.5}]",
		   "[0]ACCEPTED;[0]DONE floats={0.5} rows=1;[1]ACCEPTED;[1]DONE floats={0.75} rows=1;");
	REFUSE(&s, "{\"results\":[{\"index\":1,\"relevance_score\":0.75}]}", ERR_PROTOCOL, "1 results where 2");
	/* they are sorted by score, so rows without an index can't be assigned */
	REFUSE(&s, "{\"results\":[{\"relevance_score\":0.75},{\"relevance_score\":0.5}]}", ERR_PROTOCOL,
		   "without an index");
	REFUSE(&s, "[{\"score\":0.75},{\"index\":1,\"score\":0.5}]", ERR_PROTOCOL, "without an index");
	scene_many(&s, 1);
	EXPECT(&s, "{\"results\":[{\"relevance_score\":0.75}]}", "ACCEPTED;DONE floats={0.75} rows=1;");
	scene_many(&s, 2);
	REFUSE(&s, "{\"results\":[{\"index\":1,\"relevance_score\":\"0.75\"},{\"index\":0,"
			   "\"relevance_score\":0.5}]}", ERR_PROTOCOL, "score");
	scene_free(&s);

	scene_init(&s, WK_POOL, RSHAPE_CLASSIFY);
	EXPECT(&s, "{\"data\":[{\"index\":0,\"label\":\"good\",\"probs\":[0.25,0.75],\"num_classes\":2}]}",
		   "ACCEPTED;DONE floats={0.25,0.75} rows=1;");
	s.request[0].want_labels = true;
	EXPECT(&s, "{\"data\":[{\"index\":0,\"label\":\"good\",\"probs\":[0.25,0.75],\"num_classes\":2}]}",
		   "ACCEPTED;DONE label=<0> label=<good> floats={0.25,0.75} rows=1;");
	EXPECT(&s, "{\"data\":[{\"index\":0,\"label\":null,\"probs\":[0.25,0.75]}]}",
		   "ACCEPTED;DONE floats={0.25,0.75} rows=1;");
	scene_free(&s);

	scene_init(&s, WK_POOL, RSHAPE_POOLING);
	s.request[0].task = span_of("token_embed");
	EXPECT(&s, "{\"data\":[{\"index\":0,\"data\":[[1,2],[3,4],[5,6]]}]}",
		   "ACCEPTED;DONE floats={1,2,3,4,5,6} rows=3;");
	REFUSE(&s, "{\"data\":[{\"index\":0,\"data\":[[1,2],[3]]}]}", ERR_PROTOCOL, "different lengths");
	REFUSE(&s, "{\"data\":[{\"index\":0,\"data\":\"AACAPwAAIMA=\"}]}", ERR_PROTOCOL, "one text");
	scene_free(&s);
}

static void
test_tokens(void)
{
	Scene		s;

	scene_init(&s, WK_TOKENIZE, RSHAPE_TOKENIZE);
	EXPECT(&s, "{\"count\":3,\"max_model_len\":4096,\"tokens\":[1,15043,2],\"token_strs\":null}",
		   "DONE token_ids={1,15043,2} count=3 max_model_len=4096;");
	EXPECT(&s, "{\"tokens\":[]}", "DONE token_ids={} count=0;");
	EXPECT(&s, "{\"tokens\":[{\"id\":7,\"piece\":\"a\"}]}", "DONE token_ids={7} count=1;");
	REFUSE(&s, "{\"count\":2,\"tokens\":[1]}", ERR_PROTOCOL, "counts 2");
	REFUSE(&s, "{\"count\":2}", ERR_PROTOCOL, "no tokens");
	REFUSE(&s, "{\"tokens\":[-1]}", ERR_PROTOCOL, "id");
	REFUSE(&s, "{\"tokens\":[1.5]}", ERR_PROTOCOL, "id");
	REFUSE(&s, "{\"tokens\":[2147483648]}", ERR_PROTOCOL, "id");
	scene_int(&s, 0, WTAG_WANT_IDS, 0);
	s.o.max_model_len = 77;
	EXPECT(&s, "{\"count\":2}", "DONE count=2 max_model_len=77;");
	scene_free(&s);

	scene_init(&s, WK_DETOKENIZE, RSHAPE_DETOKENIZE);
	EXPECT(&s, "{\"prompt\":\" hi\"}", "DONE text=< hi>;");
	EXPECT(&s, "{\"content\":\"\"}", "DONE text=<>;");
	EXPECT(&s, "{\"text\":\"x\"}", "DONE text=<x>;");
	REFUSE(&s, "{\"text\":\"\\u0000\"}", ERR_PROTOCOL, "SQL");
	REFUSE(&s, "{}", ERR_PROTOCOL, "SQL");
	scene_free(&s);
}

#define LP(tokens, values, top, offsets, prompt, \
		   completion) "{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"," \
					   "\"logprobs\":{\"tokens\":" tokens \
	",\"token_logprobs\":" values ",\"top_logprobs\":" top ",\"text_offset\":" \
		offsets "}}],\"usage\":{\"prompt_tokens\":" prompt ",\"completion_tokens\":" completion "}}"

static void
choose_scene(Scene *s, StrView *choice)
{
	scene_init(s, WK_LOGPROBS, RSHAPE_LOGPROBS);
	s->request[0].prompt = span_of("Q: x\nA:");
	s->request[0].choices = choice;
	s->request[0].n_choices = 1;
}

static void
test_choose(void)
{
	static const Dialect vllm = {.caps = CAP_ECHO | CAP_ECHO_ONLY};
	static const Dialect python = {.caps = CAP_ECHO | CAP_LLAMA};
	StrView		choice = span_of(" no way");
	Scene		s;

	choose_scene(&s, &choice);
	/* a token after the prompt was generated */
	EXPECT(&s, LP("[\"Q\",\": x\",\"\\n\",\"A\",\":\",\" no\",\" way\",\" y\"]",
				  "[null,-1,-1,-1,-1,-0.5,-2,-3]",
				  "[null,{\"a\":-0.1},{},{},{},{\" no\":-0.5,\" x\":-1},{\" way\":-2,\" z\":-0.25},{}]",
				  "[0,1,4,5,6,7,10,14]", "7", "1"),
		   "ACCEPTED prompt_tokens=7;DONE counts={2} greedy={0} floats={-0.5,-2} rows=1 prompt_tokens=7 "
		   "completion_tokens=1;");
	/* no token was generated, though one is counted (vLLM); its offsets count the BOS */
	s.o.dialect = &vllm;
	EXPECT(&s, LP("[\"<s>\",\"Q: x\\nA:\",\" no\",\" way\"]", "[null,-1,-0.5,-2]",
				  "[null,{\"a\":-0.1},{\" no\":-0.5},{\" way\":-2,\" z\":-3}]", "[0,3,10,13]", "4", "1"),
		   "ACCEPTED prompt_tokens=4;DONE counts={2} greedy={1} floats={-0.5,-2} rows=1 prompt_tokens=4 "
		   "completion_tokens=1;");
	REFUSE(&s, LP("[\"<s>\",\"Q: x\\nA:\",\" no\",\" way\"]", "[null,-1,-0.5,-2]", "[null,{},{},{}]",
				  "[0,3,10,13]", "7", "1"), ERR_PROTOCOL, "are counted");
	/* the BOS is left out, a token was generated */
	s.o.dialect = &python;
	EXPECT(&s, LP("[\"Q: x\\nA:\",\" no\",\" way\",\"!\"]", "[null,-0.5,-2,-1]",
				  "[null,{\" no\":-0.5},{\" way\":-2},{\"!\":-1}]", "[0,7,10,14]", "4", "1"),
		   "ACCEPTED prompt_tokens=4;DONE counts={2} greedy={1} floats={-0.5,-2} rows=1 prompt_tokens=4 "
		   "completion_tokens=1;");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" no\",\" way\",\"!\"]", "[null,-0.5,-2,-1]", "[null,{},{},{}]",
				  "[0,7,10,14]", "3", "1"), ERR_UNSUPPORTED, "without BOS");
	/* no BOS: as many tokens, but all belong to the prompt, and the generated one isn't listed */
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" no\",\" w\",\"ay\"]", "[null,-0.5,-2,-1]", "[null,{},{},{}]",
				  "[0,7,10,12]", "4", "1"), ERR_UNSUPPORTED, "without BOS");
	s.o.dialect = NULL;
	/* a token that begins in the prompt belongs to the choice, too */
	EXPECT(&s, LP("[\"Q: x\\n\",\"A: no\",\" way\"]", "[null,-0.5,-2]",
				  "[null,{\"A: no\":-0.5},{\" way\":-2}]", "[0,5,10]", "3", "0"),
		   "ACCEPTED prompt_tokens=3;DONE counts={2} greedy={1} floats={-0.5,-2} rows=1 prompt_tokens=3 "
		   "completion_tokens=0;");
	/* texts without their spaces; a token of white space before the choice belongs to it */
	EXPECT(&s, LP("[\"Q: x\\nA:\",\"no\",\"way\"]", "[null,-0.5,-2]", "[null,{\"no\":-0.5},{\"way\":-2}]",
				  "[0,7,9]", "3", "0"),
		   "ACCEPTED prompt_tokens=3;DONE counts={2} greedy={1} floats={-0.5,-2} rows=1 prompt_tokens=3 "
		   "completion_tokens=0;");
	EXPECT(&s, LP("[\"Q: x\\nA:\",\"\xe2\x96\x81\",\"no\",\"way\"]", "[null,-1,-0.5,-2]",
				  "[null,{\"x\":-1},{\"no\":-0.5},{\"way\":-2}]", "[0,7,8,11]", "4", "0"),
		   "ACCEPTED prompt_tokens=4;DONE counts={3} greedy={1} floats={-1,-0.5,-2} rows=1 prompt_tokens=4 "
		   "completion_tokens=0;");
	scene_free(&s);
}

/* Characters split over several tokens. */
static void
test_choose_pieces(void)
{
	StrView		choice;
	Scene		s;

	choose_scene(&s, &choice);
	/* offsets decide, if they agree with the texts */
	choice = span_of(" \xf0\x9f\x98\x80");
	EXPECT(&s, LP("[\"Q: x\\nA:\",\" \",\"\",\"\",\"\",\"\"]", "[null,-1,-2,-3,-4,-5]",
				  "[null,{\" \":-1},{},{},{},{}]", "[0,7,8,8,8,8]", "6", "0"),
		   "ACCEPTED prompt_tokens=6;DONE counts={5} greedy={1} floats={-1,-2,-3,-4,-5} rows=1 "
		   "prompt_tokens=6 completion_tokens=0;");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" \",\"\",\"\",\"\",\"\"]", "[null,-1,-2,-3,-4,-5]",
				  "[null,{\" \":-1},{},{},{},{}]", "[0,8,9,9,9,9]", "6", "0"),
		   ERR_PROTOCOL, "not the text");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" \",\"\",\"\",\"\",\"\"]", "[null,-1,-2,-3,-4,-5]",
				  "[null,{\" \":-1},{},{},{},{}]", "[0,7,8,9,8,8]", "6", "0"),
		   ERR_PROTOCOL, "not the text");
	EXPECT(&s, LP("[\"Q: x\\nA:\",\" \xef\xbf\xbd\",\"\xef\xbf\xbd\",\"\xef\xbf\xbd\xef\xbf\xbd\"]",
				  "[null,-1,-2,-3]", "[null,{},{},{}]", "[0,7,9,10]", "4", "0"),
		   "ACCEPTED prompt_tokens=4;DONE counts={3} greedy={1} floats={-1,-2,-3} rows=1 prompt_tokens=4 "
		   "completion_tokens=0;");
	/* without a space between: vLLM omits the first parts' texts, llama-cpp-python all */
	choice = span_of("\xf0\x9f\x98\x80!");
	EXPECT(&s, LP("[\"Q: x\\nA:\",\"\",\"\",\"\xf0\x9f\x98\x80\",\"!\"]", "[null,-1,-2,-3,-4]",
				  "[null,{},{},{},{}]", "[3,10,10,10,11]", "5", "0"),
		   "ACCEPTED prompt_tokens=5;DONE counts={4} greedy={1} floats={-1,-2,-3,-4} rows=1 prompt_tokens=5 "
		   "completion_tokens=0;");
	EXPECT(&s, LP("[\"Q: x\\nA:\",\"\",\"\",\"\",\"!\"]", "[null,-1,-2,-3,-4]", "[null,{},{},{},{}]",
				  "[0,7,7,7,8]", "5", "0"),
		   "ACCEPTED prompt_tokens=5;DONE counts={4} greedy={1} floats={-1,-2,-3,-4} rows=1 prompt_tokens=5 "
		   "completion_tokens=0;");
	/* parts between two such characters are ambiguous */
	s.request[0].prompt = span_of("Q\xc3\xa4");
	EXPECT(&s, LP("[\"Q\",\"\",\"\",\"\",\"\xf0\x9f\x98\x80\",\"!\"]", "[null,-1,-2,-3,-4,-5]",
				  "[null,{},{},{},{},{}]", "[0,1,1,2,2,3]", "6", "0"),
		   "ACCEPTED prompt_tokens=6;DONE counts={3} greedy={1} floats={-3,-4,-5} rows=1 prompt_tokens=6 "
		   "completion_tokens=0;");
	REFUSE(&s, LP("[\"<s>\",\"Q\",\"\",\"\",\"\",\"\xf0\x9f\x98\x80\",\"!\"]", "[null,-1,-1,-2,-3,-4,-5]",
				  "[null,{},{},{},{},{},{}]", "[0,3,4,4,4,4,5]", "7", "0"),
		   ERR_PROTOCOL, "not the text");
	/* a part before the choice may be one, two or three bytes long: the choice's first token is ambiguous */
	REFUSE(&s, LP("[\"Q\",\"\xef\xbf\xbd\",\"\xef\xbf\xbd\",\"!\"]", "[null,-1,-2,-3]", "[null,{},{},{}]",
				  "[0,1,2,4]", "4", "0"), ERR_PROTOCOL, "not the text");
	s.request[0].prompt = span_of("Q: x\nA:");
	choice = span_of(" \xf0\x9f\x98\x80");
	/* generated text is not part of the prompt */
	EXPECT(&s, LP("[\"Q: x\\nA:\",\" \",\"\",\"!\"]", "[null,-1,-2,-3]", "[null,{\" \":-1},{},{}]",
				  "[0,7,8,9]", "3", "1"),
		   "ACCEPTED prompt_tokens=3;DONE counts={2} greedy={1} floats={-1,-2} rows=1 prompt_tokens=3 "
		   "completion_tokens=1;");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" \",\"\",\"!\"]", "[null,-1,-2,-3]", "[null,{\" \":-1},{},{}]",
				  "[0,7,8,8]", "3", "1"), ERR_PROTOCOL, "not the text");
	scene_free(&s);
}

/*
 * So many parts of characters that the possible ends are too many: an error, not the last of them.  The
 * last two parts are one character or two, so each end after them is one of two, three bytes apart.
 */
static void
test_choose_many_pieces(void)
{
	StrView		choice;
	Buf			text = {0};
	Buf			body = {0};
	Scene		s;

	choose_scene(&s, &choice);
	s.request[0].prompt = span_of("Q\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac");
	buf_addstr(&text, "\xc3\xa9\xc3\xa9");
	for (int i = 0; i < 32; i++)
		buf_addstr(&text, "\xe2\x82\xac");
	choice = span_of(text.data);
	buf_addstr(&body, "{\"choices\":[{\"text\":\"x\",\"prompt_logprobs\":[null,"
			   "{\"5\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\"Q\"}}");
	for (int i = 0; i < 53; i++)
		buf_printf(&body, ",{\"5\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\"%s\"}}",
				   i == 50 ? "\xe2\x82\xac" : "\xef\xbf\xbd");
	buf_addstr(&body, "]}]}");
	REFUSE(&s, body.data, ERR_PROTOCOL, "not the text");
	buf_free(&body);
	buf_free(&text);
	scene_free(&s);
}

/* Errors, vLLM's other format, and a text without choices. */
static void
test_choose_others(void)
{
	StrView		choice = span_of(" no way");
	Scene		s;

	choose_scene(&s, &choice);
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" yes\",\" way\"]", "[null,-0.5,-2]", "[null,{},{}]", "[0,7,10]", "3",
				  "0"), ERR_PROTOCOL, "not the text");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" no\",\" way\"]", "[null,-0.5,null]", "[null,{},{}]", "[0,7,10]", "3",
				  "0"), ERR_PROTOCOL, "no log-probability");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" no\",\" way\"]", "[null,-0.5]", "[null,{},{}]", "[0,7,10]", "3", "0"),
		   ERR_PROTOCOL, "length");
	REFUSE(&s, LP("[\"Q: x\\nA:\",\" no\",\" way\"]", "[null,-0.5,-1]", "[null,null,null]", "[0,7,10]", "3",
				  "0"), ERR_PROTOCOL, "top_logprobs");
	REFUSE(&s, LP("[\"Q: x\\nA: no way\"]", "[null]", "[null]", "[0]", "1", "0"), ERR_UNSUPPORTED,
		   "first token");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\",\"logprobs\":null}],\"usage\":{\"completion_tokens\":0}}",
		   ERR_PROTOCOL, "no log-probabilities");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\"}]}", ERR_PROTOCOL, "how many tokens");
	/* vLLM's other format */
	EXPECT(&s, "{\"choices\":[{\"text\":\"x\",\"prompt_logprobs\":[null,{\"5\":{\"logprob\":-0.5,\"rank\":1,"
		   "\"decoded_token\":\" no\"}},{\"6\":{\"logprob\":-2,\"rank\":3,\"decoded_token\":\" "
		   "way\"},\"9\":{\"logprob\":-0.1,\"rank\":1}}]}]}",
		   "ACCEPTED;DONE counts={2} greedy={0} floats={-0.5,-2} rows=1;");
	/* no choice: the text's own tokens from the second on */
	s.request[0].n_choices = 0;
	EXPECT(&s, LP("[\"Q: x\",\"\\nA:\",\"y\"]", "[null,-0.5,-2]", "[null,{\"x\":-0.5},{}]", "[0,4,7]", "2",
				  "1"),
		   "ACCEPTED prompt_tokens=2;DONE counts={1} greedy={1} floats={-0.5} rows=1 prompt_tokens=2 "
		   "completion_tokens=1;");
	REFUSE(&s, LP("[\"Q\",\"y\"]", "[null,-2]", "[null,{}]", "[0,1]", "1", "1"), ERR_INVALID, "one token");
	scene_free(&s);
}

/* Several choices have a call each, in any order. */
static void
test_choices(void)
{
	static const char *const bodies[2] = {
		LP("[\"p\",\" a\"]", "[null,-1]", "[null,{\" a\":-1}]", "[0,1]", "2", "0"),
		LP("[\"p\",\" b\",\" c\"]", "[null,-2,-3]", "[null,{\" x\":-1},{}]", "[0,1,3]", "3", "0")
	};
	StrView		choice[2] = {span_of(" a"), span_of(" b c")};
	Scene		s;
	DecodedReply *r;
	Err			e;

	scene_init(&s, WK_LOGPROBS, RSHAPE_LOGPROBS);
	s.request[0].prompt = span_of("p");
	s.request[0].choices = choice;
	s.request[0].n_choices = 2;
	s.call[1] = s.call[0];
	s.call[1].part = 1;
	s.calls.n = 2;
	scene_forget(&s);
	r = reply_new(s.requests, 1, &s.calls, &s.o, scene_emit, &s);
	CHECK(reply_data(r, 1, bodies[1], strlen(bodies[1]), &e) && reply_end(r, 1, &e), "%s", e.msg);
	CHECK(s.frames == 0, "%d frames", s.frames);
	CHECK(reply_data(r, 0, "{}", 2, &e) && !reply_end(r, 0, &e) && s.frames == 0, "garbage");
	CHECK(reply_restart(r, 0), "nothing was told");
	CHECK(reply_data(r, 0, bodies[0], strlen(bodies[0]), &e) && reply_end(r, 0, &e), "%s", e.msg);
	CHECK(strcmp(s.dump.data, "ACCEPTED prompt_tokens=5;DONE counts={1,2} greedy={1,0} floats={-1,-2,-3} "
							  "rows=2 prompt_tokens=5 completion_tokens=0;") == 0, "%s", s.dump.data);
	reply_free(r);
	scene_free(&s);
}

static void
test_api(void)
{
	Scene		s;

	scene_init(&s, WK_API, RSHAPE_API);
	EXPECT(&s, "{\"id\":\"x\",\"model\":\"there/big\",\"choices\":[{\"message\":{\"content\":\"\\u0000\"}}],"
			   "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}",
		   "DONE prompt_tokens=3 completion_tokens=1 "
		   "text=<{\"id\":\"x\",\"model\":\"big\",\"choices\":[{\"message\":{\"content\":\"\\u0000\"}}],"
		   "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}> api_status=200;");
	EXPECT(&s, "{\"type\":\"message\",\"model\":\"y\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1,"
			   "\"cache_read_input_tokens\":2}}",
		   "DONE prompt_tokens=3 completion_tokens=1 cached_tokens=2 "
		   "text=<{\"type\":\"message\",\"model\":\"big\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1,"
		   "\"cache_read_input_tokens\":2}}> api_status=200;");
	REFUSE(&s, "{\"error\":{\"message\":\"no\",\"code\":404}}", ERR_NOT_FOUND, "no");
	REFUSE(&s, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}",
		   ERR_UNAVAILABLE, "busy");
	REFUSE(&s, "[1]", ERR_PROTOCOL, "no object");
	s.call[0].stream = s.request[0].stream = true;
	EXPECT(&s, EV("{\"model\":\"y\",\"choices\":[{\"delta\":{}}]}")
		   EV("{\"choices\":[],\"usage\":{\"prompt_tokens\":3}}") "data: [DONE]\n\n",
		   "TEXT text=<{\"model\":\"big\",\"choices\":[{\"delta\":{}}]}>;DONE prompt_tokens=3 "
		   "api_status=200;");
	s.request[0].api_body = span_of(" {\"stream_options\": {\"include_usage\": true}}");
	EXPECT(&s, EV("{\"model\":\"y\",\"choices\":[{\"delta\":{}}]}")
		   EV("{\"choices\":[],\"usage\":{\"prompt_tokens\":3}}") "data: [DONE]\n\n",
		   "TEXT text=<{\"model\":\"big\",\"choices\":[{\"delta\":{}}]}>;TEXT "
		   "text=<{\"choices\":[],\"usage\":{\"prompt_tokens\":3}}>;DONE prompt_tokens=3 api_status=200;");
	EXPECT(&s, "event: message_start\n" EV("{\"type\":\"message_start\",\"message\":{\"model\":\"y\","
										   "\"usage\":{\"input_tokens\":3}}}")
		   "event: message_stop\n" EV("{\"type\":\"message_stop\"}"),
		   "TEXT text=<{\"type\":\"message_start\",\"message\":{\"model\":\"big\","
		   "\"usage\":{\"input_tokens\":3}}}>;TEXT text=<{\"type\":\"message_stop\"}>;DONE prompt_tokens=3 "
		   "api_status=200;");
	REFUSE(&s, EV("{\"choices\":[]}"), ERR_PROTOCOL, "cut off");
	REFUSE(&s, EV("{\"choices\":[]}") EV("{\"error\":{\"message\":\"no\",\"code\":\"429\"}}"),
		   ERR_UNAVAILABLE, "no");
	scene_free(&s);
}

static void
test_models(void)
{
	Scene		s;

	scene_init(&s, WK_MODEL_LOAD, RSHAPE_MODELS);
	EXPECT(&s, "{\"object\":\"list\",\"data\":[{\"id\":\"other\"},{\"id\":\"there\\/big\","
			   "\"max_model_len\":4096}]}", "DONE max_model_len=4096;");
	EXPECT(&s, "{\"models\":[],\"data\":[{\"id\":\"there/big\",\"meta\":{\"n_ctx_train\":128,"
			   "\"n_params\":1000,\"size\":2000}}]}",
		   "DONE max_model_len=128 weight_bytes=2000 n_params=1000;");
	s.o.max_model_len = 99;
	EXPECT(&s, "{\"data\":[{\"id\":\"there/big\",\"max_model_len\":4096}]}", "DONE max_model_len=99;");
	REFUSE(&s, "{\"data\":[{\"id\":\"other\"},{\"id\":\"an\\nother\"}]}", ERR_NOT_FOUND,
		   "It serves \"other\", \"an other\".");
	REFUSE(&s, "{\"data\":[]}", ERR_NOT_FOUND, "no model");
	REFUSE(&s, "{\"data\":[{}]}", ERR_PROTOCOL, "without an id");
	REFUSE(&s, "{}", ERR_PROTOCOL, "no list of models");
	s.request[0].lora = span_of("fine");
	REFUSE(&s, "{\"data\":[{\"id\":\"there/big\"}]}", ERR_NOT_FOUND, "fine");
	EXPECT(&s, "{\"data\":[{\"id\":\"fine\"}]}", "DONE max_model_len=99;");
	scene_free(&s);
}

static const struct
{
	int			status;
	const char *body;
	ErrClass	cls;
	const char *detail;		/* NULL: any */
}			error_cases[] = {
	{401, "{\"error\":{\"message\":\"bad key sk-secret\",\"code\":\"invalid_api_key\"}}", ERR_AUTH,
	 "Status 401: bad key *** (https://e/v1)"},
	{407, "", ERR_AUTH, "Status 407 of https://e/v1"},
	{403, "{\"detail\":\"no\"}", ERR_FORBIDDEN, "Status 403: no (https://e/v1)"},
	{404, "{\"object\":\"error\",\"message\":\"The model `x` does not exist.\",\"code\":404}",
	 ERR_NOT_FOUND, "Status 404: The model `x` does not exist. (https://e/v1)"},
	{400, "{\"error\":\"what\"}", ERR_INVALID, "Status 400: what (https://e/v1)"},
	{500, "{\"error\":{\"error\":{\"error\":{\"error\":{\"message\":\"deep\"}}}}}", ERR_UNAVAILABLE,
	 "Status 500: deep (https://e/v1)"},
	{500, "{\"error\":{\"error\":{\"error\":{\"error\":{\"error\":{\"message\":\"too deep\"}}}}}}",
	 ERR_UNAVAILABLE, "Status 500 of https://e/v1"},
	{400, "{\"error\":{\"message\":\"This model's maximum context length is 5 tokens\"}}", ERR_TOO_LONG,
	 NULL},
	{400, "{\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}", ERR_INVALID, NULL},
	{422, "{\"detail\":[{\"loc\":[\"body\",\"n\"],\"msg\":\"not a number\"},{\"msg\":\"b\"}]}",
	 ERR_INVALID,
	"Status 422: not a number at [\"body\",\"n\"]; b (https://e/v1)"},
	{413, "too\x01 big\xff", ERR_TOO_LONG, "Status 413: too  big? (https://e/v1)"},
	{408, "", ERR_UNAVAILABLE, NULL}, {425, "", ERR_UNAVAILABLE, NULL},
	{429, "slow down", ERR_UNAVAILABLE, "Status 429: slow down (https://e/v1)"},
	{500, "<html>sk-secret", ERR_UNAVAILABLE, "Status 500 of https://e/v1"},
	{503, "{\"error\":", ERR_UNAVAILABLE, "Status 503: {\"error\": (https://e/v1)"},
	{501, "", ERR_UNSUPPORTED, NULL},
	{400, "{\"error\":{\"message\":\"no images\",\"type\":\"NotImplementedError\",\"param\":null,"
		  "\"code\":400}}", ERR_UNSUPPORTED, "Status 400: no images (https://e/v1)"},
	{302, "", ERR_FORBIDDEN, NULL}, {204, "", ERR_PROTOCOL, NULL}, {418, "", ERR_PROTOCOL, NULL},
	{600, "", ERR_PROTOCOL, NULL}
};

static void
test_errors(void)
{
	ROptions	o = {.name = (char *) "big",.model = (char *) "there/big"};
	Buf			longest = {0};
	Err			e;

	for (size_t i = 0; i < sizeof(error_cases) / sizeof(error_cases[0]); i++)
	{
		memset(&e, 0, sizeof(e));
		reply_error(error_cases[i].status, error_cases[i].body, strlen(error_cases[i].body), &o,
					"https://e/v1", span_of("sk-secret"), &e);
		CHECK(e.cls == error_cases[i].cls, "%d: class %d: %s", error_cases[i].status, e.cls, e.msg);
		CHECK(error_cases[i].detail == NULL || strcmp(e.detail, error_cases[i].detail) == 0, "%d: %s",
			  error_cases[i].status, e.detail);
		CHECK(strstr(e.msg, "sk-secret") == NULL && strstr(e.detail, "sk-secret") == NULL &&
			  strstr(e.hint, "sk-secret") == NULL, "the secret");
		CHECK(strstr(e.msg, "\"big\"") != NULL, "%s", e.msg);
	}
	/*
	 * as JSON may write it, within JSON or not; also quoted by an endpoint that passes on another one's
	 * error
	 */
	for (int i = 0; i < 4; i++)
	{
		static const char *const bodies[] = {
			"data: {\"error\": \"key a/b+c\\d\"}", "data: {\"error\": \"key a\\/b\\u002Bc\\\\d\"}",
			"{\"error\": {\"message\": \"they say: {\\\"error\\\": \\\"key "
			"a\\\\/b\\\\u002bc\\\\\\\\d\\\"}\"}}", "a\\/b\\u002ac\\\\d a/b+c\\"
		};
		Err			e = {0};

		reply_error(500, bodies[i], strlen(bodies[i]), &o, NULL, span_of("a/b+c\\d"), &e);
		CHECK((strstr(e.detail, "***") != NULL) == (i < 3) &&
			  (strstr(e.detail, "key ***\"") != NULL) == (i < 3), "%d: %s", i, e.detail);
	}
	/* cut between characters, and never within the secret */
	for (int pad = 380; pad < 420; pad++)
	{
		size_t		n;

		buf_reset(&longest);
		for (int i = 0; i < pad; i++)
			buf_addc(&longest, 'x');
		buf_addstr(&longest,
				   "sk-secret\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac and "
				   "more than fits");
		reply_error(500, longest.data, longest.len, &o, NULL, span_of("sk-secret"), &e);
		n = strlen(e.detail);
		CHECK(strstr(e.detail, "sk-") == NULL && n > 3 && strcmp(e.detail + n - 3, "...") == 0, "%d: %s", pad,
			  e.detail + n - 20);
		CHECK(((unsigned char) e.detail[n - 4] & 0xC0) != 0xC0, "cut in a character");
	}
	reply_error(401, "", 0, &o, NULL, (StrView) {NULL, 0}, &e);
	CHECK(strstr(e.msg, "wants a secret") != NULL && strstr(e.hint, "llm_set_secret('big'") != NULL, "%s %s",
		  e.msg, e.hint);
	buf_free(&longest);
}

static void
test_error_bodies(void)
{
	Scene		s;
	Buf			b = {0};
	Err			e;
	WireIn		in;
	WireField	f;

	scene_init(&s, WK_API, RSHAPE_API);
	err_set(&e, ERR_AUTH, "no \"key\"");
	CHECK(!reply_error_as_body(&s.request[0], &e, &b) && b.len == 0, "nobody asked");
	scene_int(&s, 0, WTAG_API_AS_BODY, 1);
	CHECK(reply_error_as_body(&s.request[0], &e, &b), "asked for");
	in = (WireIn) {b.data, b.data + b.len};
	while (wire_next(&in, &f) > 0)
		dump_field(&s.dump, &f);
	CHECK(strcmp(s.dump.data, " text=<{\"error\":{\"message\":\"no "
							  "\\\"key\\\"\",\"type\":\"BadGatewayError\",\"param\":null,\"code\":502}}> "
							  "api_status=502") == 0, "%s", s.dump.data);
	buf_reset(&b);
	buf_reset(&s.dump);
	s.request[0].api_path = span_of("/v1/messages");
	err_set(&e, ERR_INVALID, "no");
	err_detail(&e, "Status 400: why.");
	CHECK(reply_error_as_body(&s.request[0], &e, &b), "asked for");
	in = (WireIn) {b.data, b.data + b.len};
	while (wire_next(&in, &f) > 0)
		dump_field(&s.dump, &f);
	CHECK(strcmp(s.dump.data, " text=<{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
							  "\"message\":\"no. Status 400: why.\"}}> api_status=400") == 0, "%s",
		  s.dump.data);
	buf_free(&b);
	scene_free(&s);
}

int
main(void)
{
	RUN(test_embeddings());
	RUN(test_scores());
	RUN(test_tokens());
	RUN(test_choose());
	RUN(test_choose_pieces());
	RUN(test_choose_many_pieces());
	RUN(test_choose_others());
	RUN(test_choices());
	RUN(test_api());
	RUN(test_models());
	RUN(test_errors());
	RUN(test_error_bodies());
	return check_done("test_remote_reply_more");
}
