/*
 * test_remote_reply.c
 *	  Endpoints' completions and chats as reply frames: texts, ends, usage, tool calls,
 *	  log-probabilities, streams.
 */
#include "tests/unit/remote/remote_reply_util.h"

#define USAGE "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}"
#define TAIL " prompt_tokens=5 completion_tokens=2;"

static void
test_completion(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	EXPECT(&s, "{\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\" a "
			   "b\",\"finish_reason\":\"stop\",\"logprobs\":null}]," USAGE "}",
		   "ACCEPTED prompt_tokens=5;DONE text=< a b> finish_reason=<stop>" TAIL);
	EXPECT(&s, "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\",\"stop_reason\":null}]}",
		   "ACCEPTED;DONE text=<> finish_reason=<length>;");
	EXPECT(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\",\"stop_reason\":\"###\"}]}",
		   "ACCEPTED;DONE text=<x> finish_reason=<stop> stop_reason=<###>;");
	EXPECT(&s, " {\"choices\" : [ {\"text\":\"x\",\"finish_reason\":\"stop\",\"stop_reason\":128009} ] }\n",
		   "ACCEPTED;DONE text=<x> finish_reason=<stop> stop_reason=<128009>;");
	/* the last of duplicate members counts */
	EXPECT(&s, "{\"choices\":[{\"text\":\"x\",\"text\":\"y\",\"finish_reason\":null,"
			   "\"finish_reason\":\"content_filter\"}]}",
		   "ACCEPTED;DONE text=<y> finish_reason=<content_filter>;");
	EXPECT(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,"
		   "\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":8},"
		   "\"completion_tokens_details\":{\"reasoning_tokens\":0}}}",
		   "ACCEPTED prompt_tokens=9;DONE text=<x> finish_reason=<stop> prompt_tokens=9 completion_tokens=1 "
		   "cached_tokens=8 reasoning_tokens=0;");
	/* all escapes, and a pair of surrogates */
	EXPECT(&s, "{\"choices\":[{\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20AC\\ud83d\\ude00\xc3\xa4\","
			   "\"finish_reason\":\"stop\"}]}",
		   "ACCEPTED;DONE text=<\"\\/\b\f\n\r\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4> "
		   "finish_reason=<stop>;");
	/* ids, if the endpoint reports them and they are wanted */
	s.request[0].want_ids = true;
	EXPECT(&s, "{\"choices\":[{\"text\":\"x\",\"token_ids\":[7,0,2147483647],\"finish_reason\":\"stop\"}]}",
		   "ACCEPTED;DONE text=<x> token_ids={7,0,2147483647} finish_reason=<stop> completion_tokens=3;");
	scene_free(&s);
}

static void
test_wrong(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	REFUSE(&s, "", ERR_PROTOCOL, "not JSON");
	REFUSE(&s, "<html>", ERR_PROTOCOL, "not JSON");
	REFUSE(&s, "null", ERR_PROTOCOL, "no object");
	REFUSE(&s, "[]", ERR_PROTOCOL, "no object");
	REFUSE(&s, "{}", ERR_PROTOCOL, "no choices");
	REFUSE(&s, "{\"choices\":[]}", ERR_PROTOCOL, "no choice 0");
	REFUSE(&s, "{\"choices\":{}}", ERR_PROTOCOL, "no choices");
	REFUSE(&s, "{\"choices\":[1]}", ERR_PROTOCOL, "no object");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\"}]}", ERR_PROTOCOL, "cut off");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":null}]}", ERR_PROTOCOL, "cut off");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"\"}]}", ERR_PROTOCOL, "cut off");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"abort\"}]}", ERR_PROTOCOL, "abort");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":1}]}", ERR_PROTOCOL, "finish_reason");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"a b\"}]}", ERR_PROTOCOL, "finish_reason");
	REFUSE(&s, "{\"choices\":[{\"text\":null,\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "text");
	REFUSE(&s, "{\"choices\":[{\"text\":[\"x\"],\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "text");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "text");
	REFUSE(&s, "{\"choices\":[{\"index\":1,\"text\":\"x\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "index");
	REFUSE(&s, "{\"choices\":[{\"index\":-1,\"text\":\"x\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "index");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"},{\"text\":\"y\","
			   "\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "more choices");
	/* texts that SQL can't have, and invalid ones */
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\\u0000b\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "SQL");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\\ud83d\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "SQL");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\\ud83dx\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "SQL");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\\ude00\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "SQL");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\\ud83d\\ud83d\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "SQL");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\xff\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "not JSON");
	REFUSE(&s, "{\"choices\":[{\"text\":\"\xed\xa0\x80\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "not JSON");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\nb\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "not JSON");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]} {}", ERR_PROTOCOL, "not JSON");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-1}}",
		   ERR_PROTOCOL, "usage");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}],"
			   "\"usage\":{\"prompt_tokens\":1.5}}", ERR_PROTOCOL, "usage");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}],"
			   "\"usage\":{\"completion_tokens\":99999999999}}", ERR_PROTOCOL, "usage");
	/* an error with status 200 */
	REFUSE(&s, "{\"error\":{\"message\":\"no room\",\"code\":429}}", ERR_UNAVAILABLE, "no room");
	REFUSE(&s, "{\"error\":{\"message\":\"bad sk-secret here\",\"code\":400}}", ERR_INVALID, "bad *** here");
	scene_free(&s);
}

static void
test_several(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	s.request[0].n = 3;
	EXPECT(&s, "{\"choices\":[{\"index\":2,\"text\":\"c\",\"finish_reason\":\"stop\"},{\"index\":0,"
		   "\"text\":\"a\",\"finish_reason\":\"length\"},{\"index\":1,\"text\":\"\","
		   "\"finish_reason\":\"stop\",\"stop_reason\":\"!\"}]," USAGE "}",
		   "ACCEPTED prompt_tokens=5;DONE index=0 text=<a> finish_reason=<length> index=1 text=<> "
		   "finish_reason=<stop> stop_reason=<!> index=2 text=<c> finish_reason=<stop>" TAIL);
	REFUSE(&s, "{\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"},{\"index\":1,"
			   "\"text\":\"b\",\"finish_reason\":\"stop\"}]}",
		   ERR_PROTOCOL, "no choice 2");
	REFUSE(&s, "{\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"},{\"index\":0,"
		   "\"text\":\"b\",\"finish_reason\":\"stop\"},{\"index\":1,\"text\":\"b\","
		   "\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "twice");
	/* one choice, but in a list */
	s.request[0].n = 1;
	s.request[0].want_answers = s.request[0].want_ids = true;
	EXPECT(&s, "{\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\",\"prompt_token_ids\":[1,"
			   "2],\"token_ids\":[3]}]}",
		   "ACCEPTED;DONE prompt_ids={1,2} index=0 text=<a> token_ids={3} finish_reason=<stop> "
		   "completion_tokens=1;");
	scene_free(&s);
}

static void
test_chat(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_CHAT);
	EXPECT(&s, "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},"
			   "\"finish_reason\":\"stop\"}]," USAGE "}",
		   "ACCEPTED prompt_tokens=5;DONE text=<hi> finish_reason=<stop>" TAIL);
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":\"hi\",\"reasoning_content\":\"hm\"},"
			   "\"finish_reason\":\"stop\"}]}",
		   "ACCEPTED;DONE text=<hi> reasoning=<hm> finish_reason=<stop>;");
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":null,\"reasoning\":\"hm\"},"
			   "\"finish_reason\":\"length\"}]}",
		   "ACCEPTED;DONE reasoning=<hm> finish_reason=<length>;");
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"thinking\","
		   "\"thinking\":[{\"type\":\"text\",\"text\":\"hm\"}]},{\"type\":\"text\",\"text\":\"a\"},"
		   "{\"type\":\"text\",\"text\":\"b\"}]},\"finish_reason\":\"stop\"}]}",
		   "ACCEPTED;DONE text=<ab> reasoning=<hm> finish_reason=<stop>;");
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
		   "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": "
		   "\\\"\\u00e4\\\"}\"}},{\"id\":\"\",\"function\":{\"name\":\"g\",\"arguments\":{\"b\":1}}}]},"
		   "\"finish_reason\":\"tool_calls\"}]}",
		   "ACCEPTED;DONE tool_calls=<[{\"id\": \"c1\", \"type\": \"function\", \"function\": {\"name\": "
		   "\"f\", \"arguments\": \"{\\\"a\\\": \\\"\xc3\xa4\\\"}\"}}, {\"id\": \"call_1\", \"type\": "
		   "\"function\", \"function\": {\"name\": \"g\", \"arguments\": \"{\\\"b\\\":1}\"}}]> "
		   "finish_reason=<tool_calls>;");
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":null,\"refusal\":\"I "
			   "won't\"},\"finish_reason\":\"stop\"}]}",
		   "ACCEPTED;DONE text=<I won't> finish_reason=<stop>;");
	REFUSE(&s, "{\"choices\":[{\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "message");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"content\":7},\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "content");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"image\"}]},"
			   "\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "no text");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"x\","
			   "\"function\":{\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}",
		   ERR_PROTOCOL, "name");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"tool_calls\":{}},\"finish_reason\":\"tool_calls\"}]}",
		   ERR_PROTOCOL, "tool_calls");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"x\",\"function\":{\"name\":\"f\","
			   "\"arguments\":\"\\u0000\"}}]},\"finish_reason\":\"stop\"}]}",
		   ERR_PROTOCOL, "SQL");
	scene_int(&s, 0, WTAG_INCLUDE_REASONING, 0);
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":\"hi\",\"reasoning_content\":\"hm\"},"
			   "\"finish_reason\":\"stop\"}]}",
		   "ACCEPTED;DONE text=<hi> finish_reason=<stop>;");
	scene_free(&s);
}

#define EV(json) "data: " json "\n\n"

static void
test_stream(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	s.call[0].stream = s.request[0].stream = true;
	EXPECT(&s, ": ping\n\n" EV("{\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":null}]}")
		   EV("{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":null}]}")
		   EV("{\"choices\":[{\"index\":0,\"text\":\"\\u00e4\",\"finish_reason\":\"length\"}]}")
		   EV("{\"choices\":[]," USAGE "}") "data: [DONE]\n\n",
		   "ACCEPTED;TEXT text=<a>;TEXT text=<\xc3\xa4>;DONE finish_reason=<length>" TAIL);
	/* the same for a client that doesn't want a stream */
	s.request[0].stream = false;
	EXPECT(&s, EV("{\"choices\":[{\"index\":0,\"text\":\"a\"}],"
				  USAGE "}") EV("{\"choices\":[{\"index\":0,\"text\":\"b\",\"finish_reason\":\"stop\"}]}")
		   "data: [DONE]\n\n", "ACCEPTED prompt_tokens=5;DONE text=<ab> finish_reason=<stop>" TAIL);
	s.request[0].stream = true;
	REFUSE(&s, EV("{\"choices\":[{\"text\":\"a\"}]}"), ERR_PROTOCOL, "cut off");
	REFUSE(&s, EV("{\"choices\":[{\"text\":\"a\"}]}") "data: [DONE]\n\n", ERR_PROTOCOL, "cut off");
	REFUSE(&s, "", ERR_PROTOCOL, "no choice");
	REFUSE(&s, "data: [DONE]\n\n", ERR_PROTOCOL, "no choice");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "no choice");
	REFUSE(&s, EV("{\"choices\":[{\"text\":\"a\"}]"), ERR_PROTOCOL, "not JSON");
	REFUSE(&s, EV("{\"choices\":[{\"text\":\"a\"}]}") EV("{\"error\":{\"message\":\"out of "
														 "blocks\",\"code\":500}}"), ERR_UNAVAILABLE,
														 "out of blocks");
	REFUSE(&s, EV("{\"choices\":[{\"text\":\"a\"}]}") EV("{\"error\":\"what\"}"), ERR_UNAVAILABLE, "what");
	REFUSE(&s, EV("{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}")
		   EV("{\"choices\":[{\"text\":\"b\"}]}"), ERR_PROTOCOL, "after its finish_reason");
	/* a stream may end without its [DONE] */
	EXPECT(&s, EV("{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}"),
		   "ACCEPTED;TEXT text=<a>;DONE finish_reason=<stop>;");
	s.request[0].n = 2;
	EXPECT(&s, EV("{\"choices\":[{\"index\":1,\"text\":\"x\"}]}") EV("{\"choices\":[{\"index\":0,"
																	 "\"text\":\"a\","
																	 "\"finish_reason\":\"stop\","
																	 "\"stop_reason\":7}]}")
		   EV("{\"choices\":[{\"index\":1,\"text\":\"\",\"finish_reason\":\"length\"}]}") "data: [DONE]\n\n",
		   "ACCEPTED;TEXT index=1 text=<x>;TEXT index=0 text=<a> finish_reason=<stop> stop_reason=<7>;TEXT "
		   "index=1 text=<> finish_reason=<length>;DONE;");
	REFUSE(&s,
		   EV("{\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}") "data: [DONE]\n\n",
		   ERR_PROTOCOL, "no choice 1");
	scene_free(&s);
}

static void
test_chat_stream(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_CHAT);
	s.call[0].stream = s.request[0].stream = true;
	EXPECT(&s, EV("{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}")
		   EV("{\"choices\":[{\"delta\":{\"reasoning_content\":\"h\"}}]}")
		   EV("{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}")
		   EV("{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}") "data: [DONE]\n\n",
		   "ACCEPTED;TEXT reasoning=<h>;TEXT text=<a>;DONE finish_reason=<stop>;");
	/* tool calls come in pieces, by index */
	EXPECT(&s, EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\","
				  "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}")
		   EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,"
			  "\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]}}]}")
		   EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c2\","
			  "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}},{\"index\":0,"
			  "\"function\":{\"arguments\":\":1}\"}}]}}]}")
		   EV("{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}") "data: [DONE]\n\n",
		   "ACCEPTED;TEXT tool_calls=<[{\"index\": 0, \"id\": \"c1\", \"type\": \"function\", \"function\": "
		   "{\"name\": \"f\", \"arguments\": \"\"}}]>;TEXT tool_calls=<[{\"index\": 0, \"function\": "
		   "{\"arguments\": \"{\\\"a\\\"\"}}]>;TEXT tool_calls=<[{\"index\": 0, \"function\": "
		   "{\"arguments\": \":1}\"}}, {\"index\": 1, \"id\": \"c2\", \"type\": \"function\", \"function\": "
		   "{\"name\": \"g\", \"arguments\": \"{}\"}}]>;DONE finish_reason=<tool_calls>;");
	REFUSE(&s, EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":2,"
				  "\"function\":{\"name\":\"f\"}}]}}]}"), ERR_PROTOCOL, "tool call");
	REFUSE(&s, EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,"
				  "\"function\":{\"name\":\"f\"}}]}}]}")
		   EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"g\"}}]}}]}"),
		   ERR_PROTOCOL, "second name");
	/* a prefix of the known id is a different id, too */
	REFUSE(&s, EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c12\","
				  "\"function\":{\"name\":\"f\"}}]}}]}")
		   EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\"}]}}]}"),
		   ERR_PROTOCOL, "second id");
	REFUSE(&s, EV("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\"}]},"
				  "\"finish_reason\":\"tool_calls\"}]}"), ERR_PROTOCOL, "name");
	scene_free(&s);
}

static void
test_logprobs(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	s.request[0].logprobs = 2;
	/* own token first, the others by value; the own one's rank is its place, if it is one of the two */
	EXPECT(&s, "{\"choices\":[{\"text\":\" a b\",\"finish_reason\":\"stop\",\"logprobs\":{\"text_offset\":[0,"
		   "2],\"tokens\":[\" a\",\" b\"],\"token_logprobs\":[-0.5,-3],\"top_logprobs\":[{\" a\":-0.5,\" "
		   "c\":-1.5},{\" b\":-3,\" d\":-1,\" e\":-0.5}]}}]}",
		   "ACCEPTED;DONE index=0 text=< a b> lp_counts={2,3} lp_ids={-1,-1,-1,-1,-1} "
		   "lp_values={-0.5,-1.5,-3,-0.5,-1} lp_ranks={1,2,-1,1,2} lp_lengths={2,2,2,2,2} lp_bytes=< a c b e "
		   "d> cum_logprob=-3.5 finish_reason=<stop> completion_tokens=2;");
	/* vLLM's ids, of its two kinds */
	EXPECT(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"token_ids\":[9],"
			   "\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1],\"top_logprobs\":[{\"a\":-1,"
			   "\"b\":-2}]}}]}",
		   "ACCEPTED;DONE index=0 text=<a> lp_counts={2} lp_ids={9,-1} lp_values={-1,-2} lp_ranks={1,2} "
		   "lp_lengths={1,1} lp_bytes=<ab> cum_logprob=-1 finish_reason=<stop> completion_tokens=1;");
	EXPECT(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\","
		   "\"logprobs\":{\"tokens\":[\"token_id:9\"],\"token_logprobs\":[-1],"
		   "\"top_logprobs\":[{\"token_id:8\":-0.5,\"token_id:9\":-1}]}}]}",
		   "ACCEPTED;DONE index=0 text=<a> lp_counts={2} lp_ids={9,8} lp_values={-1,-0.5} lp_ranks={2,1} "
		   "lp_lengths={0,0} lp_bytes=<> cum_logprob=-1 finish_reason=<stop> completion_tokens=1;");
	/* parts of characters have no text, and so no certain rank; nor has an incomplete list */
	EXPECT(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"logprobs\":{\"tokens\":[\"\","
		   "\"a\"],\"token_logprobs\":[-1,-1],\"top_logprobs\":[{\"\":-1,\"b\":-2},{\"a\":-1}]}}]}",
		   "ACCEPTED;DONE index=0 text=<a> lp_counts={2,1} lp_ids={-1,-1,-1} lp_values={-1,-2,-1} "
		   "lp_ranks={-1,-1,-1} lp_lengths={0,1,1} lp_bytes=<ba> cum_logprob=-2 finish_reason=<stop> "
		   "completion_tokens=2;");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL,
		   "no log-probabilities");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"logprobs\":{}}]}", ERR_PROTOCOL,
		   "logprobs");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"logprobs\":{\"tokens\":[\"a\"],"
			   "\"token_logprobs\":[]}}]}", ERR_PROTOCOL, "length");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"logprobs\":{\"tokens\":[\"a\"],"
			   "\"token_logprobs\":[-1,-2]}}]}", ERR_PROTOCOL, "length");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"logprobs\":{\"tokens\":[\"a\"],"
			   "\"token_logprobs\":[null]}}]}", ERR_PROTOCOL, "finite");
	REFUSE(&s, "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\",\"logprobs\":{\"tokens\":[\"a\"],"
			   "\"token_logprobs\":[-1e99]}}]}", ERR_PROTOCOL, "finite");
	/* an empty output has none */
	EXPECT(&s, "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\",\"logprobs\":null}]}",
		   "ACCEPTED;DONE index=0 text=<> cum_logprob=0 finish_reason=<stop>;");
	s.call[0].stream = s.request[0].stream = true;
	EXPECT(&s, EV("{\"choices\":[{\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1],"
				  "\"top_logprobs\":[{\"a\":-1}]}}]}")
		   EV("{\"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\",\"logprobs\":{\"tokens\":[\"b\"],"
			  "\"token_logprobs\":[-2],\"top_logprobs\":null}}]}") "data: [DONE]\n\n",
		   "ACCEPTED;TEXT index=0 text=<a> lp_counts={1} lp_ids={-1} lp_values={-1} lp_ranks={-1} "
		   "lp_lengths={1} lp_bytes=<a>;TEXT index=0 text=<b> lp_counts={1} lp_ids={-1} lp_values={-2} "
		   "lp_ranks={-1} lp_lengths={1} lp_bytes=<b> cum_logprob=-3 finish_reason=<stop>;DONE "
		   "completion_tokens=2;");
	scene_free(&s);
}

/* Log-probabilities of chats, and of prompts. */
static void
test_chat_logprobs(void)
{
	Scene		s;

	scene_init(&s, WK_GENERATE, RSHAPE_CHAT);
	s.request[0].logprobs = 1;
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":\"\xc3\xa4\"},\"finish_reason\":\"stop\","
		   "\"logprobs\":{\"content\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-1,\"bytes\":[195],"
		   "\"top_logprobs\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.25,\"bytes\":[196]}]},"
		   "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-2,\"bytes\":[164],"
		   "\"top_logprobs\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-2,\"bytes\":[164]}]}]}}]}",
		   "ACCEPTED;DONE index=0 text=<\xc3\xa4> lp_counts={2,1} lp_ids={-1,-1,-1} lp_values={-1,-0.25,-2} "
		   "lp_ranks={-1,1,1} lp_lengths={1,1,1} lp_bytes=<\xc3\xc4\xa4> cum_logprob=-3 finish_reason=<stop> "
		   "completion_tokens=2;");
	/* two tokens with the same text: the value shows which one it is */
	s.request[0].logprobs = 2;
	EXPECT(&s, "{\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\","
		   "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1,\"bytes\":null,"
		   "\"top_logprobs\":[{\"token\":\"a\",\"logprob\":-0.5},{\"token\":\"a\",\"logprob\":-1}]}]}}]}",
		   "ACCEPTED;DONE index=0 text=<a> lp_counts={2} lp_ids={-1,-1} lp_values={-1,-0.5} lp_ranks={2,1} "
		   "lp_lengths={1,1} lp_bytes=<aa> cum_logprob=-1 finish_reason=<stop> completion_tokens=1;");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\","
			   "\"logprobs\":{\"content\":[{\"token\":\"a\"}]}}]}", ERR_PROTOCOL, "finite");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\","
			   "\"logprobs\":{\"content\":[{\"logprob\":-1}]}}]}", ERR_PROTOCOL, "token");
	REFUSE(&s, "{\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\","
			   "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1,\"bytes\":[256]}]}}]}",
		   ERR_PROTOCOL, "bytes");
	scene_free(&s);

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	s.request[0].prompt_logprobs = 1;
	EXPECT(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\",\"prompt_logprobs\":[null,"
		   "{\"5\":{\"logprob\":-2.5,\"rank\":3,\"decoded_token\":\" "
		   "b\"},\"7\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\" c\"}}]}]}",
		   "ACCEPTED;DONE lp_counts={0,2} lp_ids={5,7} lp_values={-2.5,-0.5} lp_ranks={3,1} lp_lengths={2,2} "
		   "lp_bytes=< b c> index=0 text=<x> finish_reason=<stop>;");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]}", ERR_PROTOCOL, "of the prompt");
	REFUSE(&s, "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\","
			   "\"prompt_logprobs\":[{\"a\":{\"logprob\":-2.5}}]}]}", ERR_PROTOCOL, "prompt_logprobs");
	scene_free(&s);
}

/* A retry begins anew, unless frames have been emitted. */
static void
test_restart(void)
{
	static const char body[] = "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}";
	static const char event[] = EV("{\"choices\":[{\"text\":\"a\"}]}");
	Scene		s;
	DecodedReply *r;
	Err			e;
	int64_t		prompt,
				completion;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	scene_forget(&s);
	r = reply_new(s.requests, 1, &s.calls, &s.o, scene_emit, &s);
	CHECK(reply_data(r, 0, "{\"choi", 6, &e) && !reply_end(r, 0, &e), "half an answer");
	CHECK(s.frames == 0 && reply_held(r) > 0, "%d frames", s.frames);
	CHECK(reply_restart(r, 0), "nothing was told");
	CHECK(reply_data(r, 0, body, strlen(body), &e) && reply_end(r, 0, &e), "%s", e.msg);
	CHECK(strcmp(s.dump.data, "ACCEPTED;DONE text=<a> finish_reason=<stop>;") == 0, "%s", s.dump.data);
	reply_usage(r, &prompt, &completion);
	CHECK(prompt == 0 && completion == 0, "usage that wasn't told");
	reply_free(r);
	scene_forget(&s);
	s.call[0].stream = s.request[0].stream = true;
	r = reply_new(s.requests, 1, &s.calls, &s.o, scene_emit, &s);
	CHECK(reply_data(r, 0, event, 10, &e) && reply_restart(r, 0), "half an event");
	CHECK(reply_data(r, 0, event, strlen(event), &e) && !reply_restart(r, 0), "text has been told");
	CHECK(!reply_is_whole(r, 0), "not whole");
	CHECK(reply_data(r, 0, "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", 61, &e),
		  "%s", e.msg);
	CHECK(reply_is_whole(r, 0) && reply_end(r, 0, &e), "whole");
	reply_free(r);
	scene_free(&s);
}

/* Feed an event with a choice that has these fields and n letters. */
static void
held_event(DecodedReply *r, const char *fields, int n)
{
	Buf			b = {0};
	Err			e;

	buf_printf(&b, "data: {\"choices\":[{\"index\":0,%s", fields);
	for (int i = 0; i < n; i++)
		buf_addc(&b, 'x');
	buf_addstr(&b, "\"}]}\n\n");
	CHECK(reply_data(r, 0, b.data, b.len, &e), "%s", e.msg);
	buf_free(&b);
}

/* The bytes of ids, log-probabilities and tool calls count as held, too: replies have a common budget. */
static void
test_held(void)
{
	static const char ids[] = EV("{\"choices\":[{\"text\":\"a\",\"token_ids\":[1,2,3,4,5,6,7,8,9,10],"
								 "\"logprobs\":{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-1,-2]}}]}");
	Scene		s;
	DecodedReply *r;
	Buf			call = {0};
	Err			e;
	size_t		before;
	size_t		more;

	scene_init(&s, WK_GENERATE, RSHAPE_COMPLETION);
	scene_forget(&s);
	s.call[0].stream = true;
	s.request[0].want_ids = true;
	s.request[0].logprobs = 0;
	r = reply_new(s.requests, 1, &s.calls, &s.o, scene_emit, &s);
	before = reply_held(r);
	for (int i = 0; i < 1000; i++)
		CHECK(reply_data(r, 0, ids, strlen(ids), &e), "%s", e.msg);
	CHECK(reply_held(r) >= before + 1000 * (10 * 4 + 2 * 16), "%zu bytes", reply_held(r) - before);
	/* the end is held, too; it is shorter than the event before, so that the buffers of events don't grow */
	held_event(r, "\"text\":\"", 10000);
	more = reply_held(r);
	held_event(r, "\"text\":\"\",\"finish_reason\":\"stop\",\"stop_reason\":\"", 9000);
	CHECK(reply_held(r) >= more + 9000, "%zu bytes of the end", reply_held(r) - more);
	reply_free(r);
	scene_free(&s);

	scene_init(&s, WK_GENERATE, RSHAPE_CHAT);
	scene_forget(&s);
	s.call[0].stream = true;
	r = reply_new(s.requests, 1, &s.calls, &s.o, scene_emit, &s);
	for (int i = 0; i < 100; i++)
	{
		buf_reset(&call);
		buf_printf(&call, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"", i);
		for (int k = 0; k < 1000; k++)
			buf_addc(&call, 'x');
		buf_addstr(&call, "\",\"function\":{\"name\":\"f\"}}]}}]}\n\n");
		CHECK(reply_data(r, 0, call.data, call.len, &e), "%s", e.msg);
	}
	CHECK(reply_held(r) >= before + 100 * 1000, "%zu bytes", reply_held(r) - before);
	reply_free(r);
	buf_free(&call);
	scene_free(&s);
}

int
main(void)
{
	RUN(test_completion());
	RUN(test_wrong());
	RUN(test_several());
	RUN(test_chat());
	RUN(test_stream());
	RUN(test_chat_stream());
	RUN(test_logprobs());
	RUN(test_chat_logprobs());
	RUN(test_restart());
	RUN(test_held());
	return check_done("test_remote_reply");
}
