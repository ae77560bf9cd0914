/*
 * test_output.c
 *	  The effects of each new token: order of the stop rules, hidden and shown text, held-back text and
 *	  flush, min_tokens, characters split over tokens.
 *
 * A case is a list of output ids and the expected result.  In `ids` a letter stands for the byte token
 * of that letter; the words of core_util.h are H (" hello"), W (" world"), S ("stop"), P ("ping"); . is
 * EOS, , is id 290.
 *
 * In addition to these cases, 600 from a plain model of the rules (tests/golden/stopping.py).
 */
#include "base/json/json.h"
#include "core/core_internal.h"

#include <string.h>

#include "base/alloc.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

typedef struct Case
{
	const char *ids;
	const char *stop[3];
	int			max_tokens;
	int			min_tokens;
	int			max_model_len;
	bool		include_stop;
	bool		ignore_eos;
	bool		no_text;
	bool		extra_stop_id;	/* 290 is a stop id */
	int			repeat[3];		/* repetition_detection: longest, shortest, count */
	/* expected */
	int			n_ids;			/* tokens consumed until the finish */
	ReqFinish	finish;
	const char *reason;
	const char *text;
	const char *shown_before;	/* text emitted before the last token; NULL = any */
} Case;

static const Case cases[] = {
	/* length, and the context's length */
	{.ids = "HWHWH", .max_tokens = 3, .n_ids = 3, .finish = FIN_LENGTH, .text = " hello world hello"},
	{.ids = "HWHWH", .max_tokens = 9, .max_model_len = 6, .n_ids = 4, .finish = FIN_LENGTH,
	.text = " hello world hello world"},
	/* EOS: reason NULL, also as the last allowed token; its text is not shown */
	{.ids = "HW.HW", .max_tokens = 9, .n_ids = 3, .finish = FIN_STOP, .text = " hello world"},
	{.ids = "HW.", .max_tokens = 3, .n_ids = 3, .finish = FIN_STOP, .text = " hello world"},
	{.ids = "HW.HW", .max_tokens = 5, .ignore_eos = true, .n_ids = 5, .finish = FIN_LENGTH,
	.text = " hello world hello world"},
	{.ids = "HW.", .max_tokens = 9, .include_stop = true, .n_ids = 3, .finish = FIN_STOP,
	 .text = " hello world"},
	/* stop ids: the id is kept, its text hidden unless asked for */
	{.ids = "H,W", .max_tokens = 9, .extra_stop_id = true, .n_ids = 2, .finish = FIN_STOP, .reason = "290",
	.text = " hello"},
	{.ids = "H,W", .max_tokens = 9, .extra_stop_id = true, .include_stop = true, .n_ids = 2,
	 .finish = FIN_STOP,
	.reason = "290", .text = " hellow290"},
	{.ids = "H,", .max_tokens = 2, .extra_stop_id = true, .n_ids = 2, .finish = FIN_STOP, .reason = "290",
	.text = " hello"},
	{.ids = "H,W", .max_tokens = 3, .n_ids = 3, .finish = FIN_LENGTH, .text = " hellow290 world"},
	/* stop strings: over several tokens, in the middle of one, kept or cut */
	{.ids = "HSPW", .stop = {"stopping"}, .max_tokens = 9, .n_ids = 3, .finish = FIN_STOP,
	 .reason = "stopping",
	.text = " hello", .shown_before = " hello"},
	{.ids = "HSPW", .stop = {"stopping"}, .include_stop = true, .max_tokens = 9, .n_ids = 3,
	 .finish = FIN_STOP,
	.reason = "stopping", .text = " hellostopping"},
	{.ids = "HW", .stop = {"wor"}, .max_tokens = 9, .n_ids = 2, .finish = FIN_STOP, .reason = "wor",
	.text = " hello "},
	{.ids = "HW", .stop = {"wor"}, .include_stop = true, .max_tokens = 9, .n_ids = 2, .finish = FIN_STOP,
	.reason = "wor", .text = " hello wor"},
	{.ids = "HW", .stop = {"xyz", "lo w"}, .max_tokens = 9, .n_ids = 2, .finish = FIN_STOP, .reason = "lo w",
	.text = " hel", .shown_before = " hel"},
	/* held back, then it was no stop string: flushed */
	{.ids = "HSab", .stop = {"stopping"}, .max_tokens = 4, .n_ids = 4, .finish = FIN_LENGTH,
	 .text = " hellostopab"},
	{.ids = "HS", .stop = {"stopping"}, .max_tokens = 2, .n_ids = 2, .finish = FIN_LENGTH,
	 .text = " hellostop",
	.shown_before = " hello"},
	{.ids = "HS.", .stop = {"stopping"}, .max_tokens = 9, .n_ids = 3, .finish = FIN_STOP,
	 .text = " hellostop"},
	/* a stop string and the length on the same token: stop */
	{.ids = "HSP", .stop = {"stopping"}, .max_tokens = 3, .n_ids = 3, .finish = FIN_STOP,
	 .reason = "stopping",
	.text = " hello"},
	/* the text of a hidden stop token doesn't complete a stop string; if shown, it does */
	{.ids = "H,", .stop = {"w290"}, .max_tokens = 9, .extra_stop_id = true, .n_ids = 2, .finish = FIN_STOP,
	.reason = "290", .text = " hello"},
	{.ids = "H,", .stop = {"w290"}, .max_tokens = 9, .extra_stop_id = true, .include_stop = true, .n_ids = 2,
	.finish = FIN_STOP, .reason = "w290", .text = " hellow290"},
	/* min_tokens: neither ids nor strings count; early text is not searched later */
	{.ids = "H.H.W", .max_tokens = 9, .min_tokens = 3, .n_ids = 4, .finish = FIN_STOP,
	 .text = " hello hello"},
	{.ids = "SSSW", .stop = {"stop"}, .max_tokens = 9, .min_tokens = 2, .n_ids = 3, .finish = FIN_STOP,
	.reason = "stop", .text = "stopstop"},
	{.ids = "SPW", .stop = {"pping"}, .max_tokens = 3, .min_tokens = 1, .n_ids = 3, .finish = FIN_LENGTH,
	.text = "stopping world"},
	/*
	 * characters: three bytes of a euro sign, one by one; an incomplete one at the end, of which each
	 * byte becomes U+FFFD (as in Hugging Face)
	 */
	{.ids = "a\342\202\254b", .max_tokens = 5, .n_ids = 5, .finish = FIN_LENGTH, .text = "a\342\202\254b"},
	{.ids = "a\342\202\254", .max_tokens = 4, .n_ids = 4, .finish = FIN_LENGTH, .text = "a\342\202\254",
	.shown_before = "a"},
	{.ids = "a\342\202", .max_tokens = 3, .n_ids = 3, .finish = FIN_LENGTH,
	 .text = "a\357\277\275\357\277\275",
	.shown_before = "a"},
	{.ids = "a\342\202\254b", .stop = {"\342\202\254"}, .max_tokens = 9, .n_ids = 4, .finish = FIN_STOP,
	.reason = "\342\202\254", .text = "a"},
	/* repeated patterns: of one token, of two, too short, the shortest matching one is not the first seen */
	{.ids = "HWaaab", .repeat = {1, 1, 3}, .max_tokens = 9, .n_ids = 5, .finish = FIN_REPETITION,
	.reason = "repetition_detected", .text = " hello worldaaa"},
	{.ids = "xHWHWHWHW", .repeat = {4, 2, 3}, .max_tokens = 20, .n_ids = 7, .finish = FIN_REPETITION,
	.reason = "repetition_detected", .text = "x hello world hello world hello world"},
	{.ids = "xaaaaaa", .repeat = {4, 2, 2}, .max_tokens = 20, .n_ids = 5, .finish = FIN_REPETITION,
	.reason = "repetition_detected", .text = "xaaaa"},
	{.ids = "abcabc", .repeat = {2, 1, 2}, .max_tokens = 6, .n_ids = 6, .finish = FIN_LENGTH,
	 .text = "abcabc"},
	{.ids = "abcabcd", .repeat = {3, 1, 2}, .max_tokens = 9, .n_ids = 6, .finish = FIN_REPETITION,
	.reason = "repetition_detected", .text = "abcabc"},
	/*
	 * the prompt (it ends with q) is not considered; length and a stop string come first; not before
	 * min_tokens
	 */
	{.ids = "qHW", .repeat = {1, 1, 2}, .max_tokens = 3, .n_ids = 3, .finish = FIN_LENGTH,
	 .text = "q hello world"},
	{.ids = "aa", .repeat = {1, 1, 2}, .max_tokens = 2, .n_ids = 2, .finish = FIN_LENGTH, .text = "aa"},
	{.ids = "aaaa", .repeat = {1, 1, 2}, .max_tokens = 9, .min_tokens = 4, .n_ids = 4,
	 .finish = FIN_REPETITION,
	.reason = "repetition_detected", .text = "aaaa"},
	{.ids = "SS", .stop = {"top"}, .repeat = {1, 1, 2}, .max_tokens = 9, .n_ids = 1, .finish = FIN_STOP,
	 .reason = "top",
	.text = "s"},
	{.ids = "aa", .stop = {"aa"}, .repeat = {1, 1, 2}, .max_tokens = 9, .n_ids = 2, .finish = FIN_STOP,
	 .reason = "aa",
	.text = ""},
	/* no text wanted */
	{.ids = "HW.", .no_text = true, .max_tokens = 9, .n_ids = 3, .finish = FIN_STOP, .text = ""},
};

static int32_t
id_of(char c)
{
	switch (c)
	{
		case 'H':
			return TINY_WORD;
		case 'W':
			return TINY_WORD + 1;
		case 'S':
			return TINY_WORD + 2;
		case 'P':
			return TINY_WORD + 3;
		case '.':
			return TINY_EOS;
		case ',':
			return 290;
	}
	return TINY_BYTE(c);
}

/* the third prompt token keeps the first space of the output */
static Req *
new_req(const Case *k, const Tok *tok)
{
	Req		   *r = mem_zalloc(sizeof(*r));
	GenParams  *p = &r->in.params;

	genparams_init(p);
	p->max_tokens = k->max_tokens;
	p->min_tokens = k->min_tokens;
	p->include_stop = k->include_stop;
	p->ignore_eos = k->ignore_eos;
	p->detokenize = !k->no_text;
	p->repeat_max = k->repeat[0];
	p->repeat_min = k->repeat[1];
	p->repeat_count = k->repeat[2];
	p->stop = mem_zalloc(3 * sizeof(char *));
	p->stop_len = mem_zalloc(3 * sizeof(size_t));
	for (; p->n_stop < 3 && k->stop[p->n_stop] != NULL; p->n_stop++)
	{
		p->stop[p->n_stop] = mem_strdup(k->stop[p->n_stop]);
		p->stop_len[p->n_stop] = strlen(k->stop[p->n_stop]);
	}
	if (k->extra_stop_id)
	{
		p->stop_ids = mem_zalloc(sizeof(int32_t));
		p->stop_ids[p->n_stop_ids++] = 290;
	}
	intvec_push(&r->tokens, 1);
	intvec_push(&r->tokens, TINY_BYTE('q'));
	r->in.n_prompt = 2;
	out_begin(r, tok);
	return r;
}

static void
run_case(size_t i, const Case *k, const Tok *tok)
{
	Req		   *r = new_req(k, tok);
	OutResult	res = {.finish = FIN_NONE};
	Buf			text = {0};
	size_t		shown_before = 0;
	int			n = 0;

	buf_addstr(&text, "");
	for (; k->ids[n] != '\0' && res.finish == FIN_NONE; n++)
	{
		intvec_push(&r->tokens, id_of(k->ids[n]));
		res = out_ends(r, TINY_EOS, k->max_model_len > 0 ? k->max_model_len : 1000);
		out_text(r, r->tokens.data[r->tokens.len - 1], req_n_output(r), &res);
		shown_before = text.len;
		if (r->out.text.len > 0)
			buf_add(&text, r->out.text.data, r->out.text.len);
	}
	CHECK(n == k->n_ids && res.finish == k->finish, "case %zu: finish %d after %d", i, res.finish, n);
	CHECK(res.reason == NULL ? k->reason == NULL : k->reason != NULL && strcmp(res.reason, k->reason) == 0,
		  "case %zu: reason %s", i, res.reason != NULL ? res.reason : "NULL");
	CHECK(strcmp(text.data, k->text) == 0, "case %zu: \"%s\"", i, text.data);
	if (k->shown_before != NULL)
		CHECK(shown_before == strlen(k->shown_before) &&
			  memcmp(text.data, k->shown_before, shown_before) == 0,
			  "case %zu: %zu bytes shown before the last token", i, shown_before);
	buf_free(&text);
	out_end(r);
	genparams_free(&r->in.params);
	intvec_free(&r->tokens);
	mem_free(r);
}

static int
number(const Json *object, const char *name)
{
	return json_to_int(json_get(object, name));
}

static bool
is_true(const Json *object, const char *name)
{
	return json_is_true(json_get(object, name));
}

static void
run_golden(size_t i, const Json *c, const Tok *tok)
{
	const Json *expect = json_get(c, "expect");
	const char *finish = json_get(expect, "finish")->s;
	const char *reason = json_str_of(json_get(expect, "reason"));
	Case		k = {
		.ids = json_get(c, "ids")->s, .max_tokens = number(c, "max_tokens"),
		.min_tokens = number(c, "min_tokens"), .include_stop = is_true(c, "include_stop"),
		.ignore_eos = is_true(c, "ignore_eos"), .extra_stop_id = is_true(c, "extra_stop_id"),
		.n_ids = number(expect, "n_ids"), .text = json_get(expect, "text")->s, .reason = reason,
		.finish = strcmp(finish, "stop") == 0 ? FIN_STOP : strcmp(finish, "length") == 0 ? FIN_LENGTH :
		FIN_REPETITION
	};
	int			n = 0;

	for (const Json *s = json_get(c, "stop")->child; s != NULL; s = s->next)
		k.stop[n++] = s->s;
	n = 0;
	for (const Json *x = json_get(c, "repeat")->child; x != NULL; x = x->next)
		k.repeat[n++] = json_to_int(x);
	/* as core_normalize() does */
	if (k.repeat[0] > 0 && k.repeat[1] == 0)
		k.repeat[1] = 1;
	run_case(1000 + i, &k, tok);
}

static void
test_golden(const Tok *tok)
{
	FILE	   *f = fopen("tests/golden/stopping.json", "r");
	Buf			b = {0};
	char		chunk[8192];
	size_t		n;
	Json	   *all;

	while (f != NULL && (n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		buf_add(&b, chunk, n);
	if (f != NULL)
		fclose(f);
	all = b.data != NULL ? json_parse(b.data, strlen(b.data)) : NULL;
	CHECK(json_count(all) == 600, "no tests/golden/stopping.json");
	n = 0;
	for (const Json *c = all != NULL ? all->child : NULL; c != NULL; c = c->next)
		run_golden(n++, c, tok);
	json_free(all);
	buf_free(&b);
}

int
main(void)
{
	Tok		   *tok = tiny_tok();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(i, &cases[i], tok);
	RUN(test_golden(tok));
	tok_free(tok);
	return check_done("output");
}
