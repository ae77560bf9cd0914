/*
 * request.c
 *	  Requests: decode, check, wait for the model, tokenize, submit, reply.
 *
 * The arena is untrusted, so every range is checked again here, whatever the backend has checked
 * already; normalize() checks what depends on the model.  Short texts are tokenized at once, longer ones
 * by a job on JQ_TEXT.
 *
 * Threads: everything runs on the server thread but the jobs' run functions.  These only access the
 * request and the instance that it has pinned; no other thread accesses the request meanwhile
 * (job_busy).
 *
 * Tested by tests/unit/server/test_server.c.
 */
#include "server/request/request.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "server/request_histograms.h"
#include "server/request/choice_replies.h"
#include "server/request/request_params.h"
#include "server/request/request_pooling.h"
#include "server/request_kinds.h"
#include "server/server.h"
#include "core/spec/spec_config.h"
#include "server/request/stream_interval.h"
#include "grammar/grammar.h"

#define INLINE_TEXT		4096	/* bytes or ids handled on the server thread */

/* ---- decoding ---- */

static bool
copy_name(char *to, size_t size, const WireField *f, Err *e)
{
	if (f->n >= size || memchr(f->s, '\0', f->n) != NULL)
		return err_set(e, ERR_INVALID, "%s is too long", wire_tag_name(f->tag));
	memcpy(to, f->s, f->n);
	to[f->n] = '\0';
	return true;
}

static bool
copy_text(char **to, const WireField *f, Err *e)
{
	if (f->n > 65536 || memchr(f->s, '\0', f->n) != NULL)
		return err_set(e, ERR_INVALID, "%s is too long", wire_tag_name(f->tag));
	mem_free(*to);
	*to = f->n > 0 ? mem_strndup(f->s, f->n) : NULL;
	return true;
}

static bool
copy_format(ChatFormat *to, const WireField *f, Err *e)
{
	char		name[32];

	return (f->n < sizeof(name) && copy_name(name, sizeof(name), f, e) && chat_format_by_name(name, to)) ||
		params_bad(e, "content_format", "must be auto, string or openai");
}

/* Take a field of a chat; *known = false if it is none. */
static bool
chat_field(Request *r, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_MESSAGES:
			r->has_chat = true;
			r->chat.messages = (StrView) {f->s, f->n};
			return true;
		case WTAG_TOOLS:
			r->chat.tools = (StrView) {f->s, f->n};
			return true;
		case WTAG_DOCUMENTS:
			r->chat.documents = (StrView) {f->s, f->n};
			return true;
		case WTAG_CHAT_KWARGS:
			r->chat.kwargs = (StrView) {f->s, f->n};
			return true;
		case WTAG_REASONING_EFFORT:
			r->chat.effort = (StrView) {f->s, f->n};
			return true;
		case WTAG_CONTENT_FORMAT:
			return copy_format(&r->chat.format, f, e);
		case WTAG_CHAT_TEMPLATE:
			r->chat.source = (StrView) {f->s, f->n};
			return true;
		case WTAG_GENERATION_PROMPT:
			r->chat.add_generation_prompt = f->i != 0;
			return true;
		case WTAG_CONTINUE_FINAL:
			r->chat.continue_final_message = f->i != 0;
			return true;
		default:
			*known = false;
			return true;
	}
}

/*
 * Take a field that no other module reads: the prompt, the caller, the model; *known = false if it is
 * none.
 */
static bool
own_field(Request *r, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_DATABASE:
			r->dboid = (uint32_t) f->i;
			return true;
		case WTAG_ROLE:
			r->roleid = (uint32_t) f->i;
			return true;
		case WTAG_SESSION:
			r->session = (uint64_t) f->i;
			return true;
		case WTAG_REQUEST_ID:
		case WTAG_TRACESTATE:	/* for the caller's log */
			return true;
		case WTAG_TRACEPARENT:
			if (!traceparent_ok(f->s, f->n))
				return err_set(e, ERR_INTERNAL, "malformed traceparent");
			memcpy(r->traceparent, f->s, TRACEPARENT_LEN);
			return true;
		case WTAG_MODEL:
			return copy_name(r->model, sizeof(r->model), f, e);
		case WTAG_MODEL_PATH:
			return copy_text(&r->path, f, e);
		case WTAG_URL:
			r->elsewhere = true;
			return r->path != NULL || copy_text(&r->path, f, e);
		case WTAG_SECRET:
			r->elsewhere = true;
			return true;
		case WTAG_MODEL_OPTIONS:
			return copy_text(&r->options, f, e);
		case WTAG_MODEL_HASH:
			r->model_hash = (uint64_t) f->i;
			return true;
		case WTAG_LORA:
			return copy_name(r->lora, sizeof(r->lora), f, e);
		case WTAG_LORA_PATH:
			return copy_text(&r->lora_path, f, e);
		case WTAG_LORA_PIN:
			r->lora_pin = f->i != 0;
			return true;
		case WTAG_SECRET_PATHS:
			r->secret_paths = (unsigned) f->i;
			return true;
		case WTAG_SLEEP_WAIT:
			r->sleep_wait = f->i != 0;
			return true;
		case WTAG_COMMAND:
			return copy_name(r->command, sizeof(r->command), f, e);
		case WTAG_SCHEMA:
			r->schema = f->s;
			r->schema_len = f->n;
			return true;
		case WTAG_PROMPT:
			r->has_prompt = true;
			r->prompt = f->s;
			r->prompt_len = f->n;
			return true;
		case WTAG_PROMPT_IDS:
			r->has_ids = true;
			r->ids = *f;
			return true;
		case WTAG_STREAM:
			r->spec.stream = f->i != 0;
			return true;
		case WTAG_STREAM_INTERVAL:
			r->stream_interval = (int) f->i;
			return true;
		case WTAG_WANT_IDS:
			r->want_ids = f->i != 0;
			r->has_want_ids = true;
			return true;
		case WTAG_WANT_ANSWERS:
			r->want_answers = f->i != 0;
			return true;
		case WTAG_ADD_SPECIAL:
			r->add_special = f->i != 0;
			return true;
		case WTAG_WHOLE_LENGTH:
			r->whole_length = f->i != 0;
			return true;
		case WTAG_TRUNCATE_PROMPT_TOKENS:
			r->truncate = (int) f->i;
			return r->truncate != 0 || params_bad(e, "truncate_prompt_tokens", "must be -1 or at least 1");
		case WTAG_TRUNCATION_SIDE:
			r->truncate_right = f->n == 5 && memcmp(f->s, "right", 5) == 0;
			return r->truncate_right || (f->n == 4 && memcmp(f->s, "left", 4) == 0) ||
				params_bad(e, "truncation_side", "must be left or right");
		default:
			*known = wire_tag_of_caller(f->tag);
			return true;
	}
}

static bool
check_whole(int kind, Request *r, Err *e)
{
	const GenParams *p = &r->spec.params;

	if (kind == WK_GENERATE || kind == WK_TOKENIZE)
	{
		bool		other = r->has_ids || (kind == WK_GENERATE && r->embeds.given);

		if (!r->has_prompt && !r->has_chat && !other)
			return err_set(e, ERR_INTERNAL, "request without a prompt");
		/* with both, a model without a template gets the prompt */
		if (r->has_chat && (r->has_ids || (r->has_prompt && kind != WK_GENERATE)))
			return err_set(e, ERR_INTERNAL, "request with a prompt and messages");
		if (r->has_prompt && r->has_ids)
			return err_set(e, ERR_INVALID, "prompt and prompt_token_ids exclude each other");
		if (r->embeds.given && (r->has_prompt || r->has_ids || r->has_chat))
			return err_set(e, ERR_INVALID, "prompt_embeds and another prompt exclude each other");
		if (r->embeds.given && p->out.prompt_logprobs != LOGPROBS_NONE)
		{
			err_set(e, ERR_UNSUPPORTED, "prompt_embeds have no tokens, and so no prompt_logprobs");
			return err_detail(e, "parameter=prompt_logprobs");
		}
		/* an error even if the tokenizer would add a BOS */
		if (kind == WK_GENERATE && r->has_prompt && r->prompt_len == 0)
			return params_bad(e, "prompt", "must not be empty");
	}
	if ((r->embeds.given && kind != WK_GENERATE) || (r->embeds.want && kind != WK_TOKENIZE))
		return err_set(e, ERR_INTERNAL, "embeddings in a request that takes none");
	if (kind == WK_POOL && r->pool.task == PT_NONE)
		return err_set(e, ERR_INTERNAL, "pooling request without a task");
	if (kind == WK_LOGPROBS && r->has_chat ? r->has_ids : request_is_pooled(kind) &&
		r->has_prompt == r->has_ids)
		return err_set(e, ERR_INTERNAL, "pooling request without a text, or with two");
	if (kind == WK_CHAT_RENDER && (!r->has_chat || (r->model[0] == '\0' && r->chat.source.s == NULL)))
		return err_set(e, ERR_INTERNAL, "chat without messages or a template");
	if (kind == WK_CHUNK && !r->has_prompt)
		return err_set(e, ERR_INTERNAL, "chunk request without a text");
	if (kind == WK_CHUNK && !chunking_check(&r->chunk, e))
		return false;
	if (kind == WK_GENERATE && !r->has_chat && r->parse.has_choice)
		return params_bad(e, "tool_choice", "is for chats") ||
			err_hint(e, "llm_chat() and the other functions of chats take it, with tools.");
	if (kind == WK_PARSE && (!r->has_prompt || (r->parse.tools == NULL) == (r->parse.reason == NULL)))
		return err_set(e, ERR_INTERNAL, "parse request without a text or a parser");
	if (kind == WK_GRAMMAR && (!r->has_prompt || r->schema == NULL))
		return err_set(e, ERR_INTERNAL, "grammar request without a schema or a text");
	if (kind == WK_API && (r->api.path.s == NULL || (r->api.body.s == NULL && r->api.sqlstate.s == NULL)))
		return err_set(e, ERR_INTERNAL, "API request without a path or a body");
	if (kind == WK_DETOKENIZE && !r->has_ids)
		return err_set(e, ERR_INTERNAL, "detokenize request without token ids");
	if (kind == WK_CONTROL && r->command[0] == '\0')
		return err_set(e, ERR_INTERNAL, "control request without a command");
	if ((kind == WK_MODEL_CHECK || kind == WK_MODEL_INSPECT) && r->path == NULL)
		return err_set(e, ERR_INTERNAL, "model check without a path");
	if ((kind == WK_GENERATE || request_is_pooled(kind) || kind == WK_TOKENIZE || kind == WK_DETOKENIZE ||
		 kind == WK_CHUNK || kind == WK_MODEL_LOAD || kind == WK_MODEL_UNLOAD || kind == WK_LORA_LOAD ||
		 kind == WK_LORA_UNLOAD) && r->model[0] == '\0')
		return err_set(e, ERR_INTERNAL, "request without a model");
	if ((kind == WK_LORA_CHECK || kind == WK_LORA_LOAD || kind == WK_LORA_UNLOAD) && r->lora_path == NULL)
		return err_set(e, ERR_INTERNAL, "adapter request without a path");
	if (r->lora_path != NULL && r->lora_path[0] != '/')
		return err_set(e, ERR_INVALID, "the path of adapter \"%s\" must be absolute, got \"%.256s\"", r->lora,
					   r->lora_path);
	if ((r->given & GP(MAX_TOKENS)) && p->min_tokens > p->max_tokens)
		return params_bad(e, "min_tokens", "must not be greater than max_tokens");
	if (p->n_stop > 0 && !p->detokenize)
		return params_bad(e, "stop", "needs detokenize");
	return true;
}

/* Tool calls that the model must make constrain the output like a schema. */
static bool
check_calls(Request *r, Err *e)
{
	if (!parsing_check(&r->parse, &r->chat.tools, e))
		return false;
	if (r->parse.schema.len == 0)
		return true;
	if (r->structured.schema.s != NULL)
		return params_bad(e, "tool_choice", "can't require a tool's call and json_schema at once");
	r->structured.schema = (StrView) {r->parse.schema.data, r->parse.schema.len};
	r->structured.schema_name = "tool_choice";
	return true;
}

Request *
request_parse(int kind, const char *data, size_t n, Err *e)
{
	Request    *r = mem_zalloc(sizeof(Request));
	WireIn		in = {.p = data,.end = data + n};
	WireField	f;
	int			got;

	genparams_init(&r->spec.params);
	r->add_special = true;
	r->pool.activation = r->pool.step_tag = -1;
	r->spec.by.wait_ms = -1;
	r->lora_pin = -1;
	while ((got = wire_next(&in, &f)) > 0)
	{
		bool		known;

		/*
		 * params_field() checks the range of any option; most fields are known to the first or the
		 * second function
		 */
		if (!params_field(&r->spec.params, &r->given, &f, &known, e) ||
			(!known && !own_field(r, &f, &known, e)) ||
			(!known && !chat_field(r, &f, &known, e)) ||
			(!known && !caller_field(&r->spec.by, &f, &known, e)) ||
			(!known && !replies_field(&r->spec.params.out, &f, &known, e)) ||
			(!known && !embeds_field(&r->embeds, &f, &known, e)) ||
			(!known && !pool_field(&r->pool, &f, &known, e)) ||
			(!known && !chunking_field(&r->chunk, &f, &known, e)) ||
			(!known && !parsing_field(&r->parse, &f, &known, e)) ||
			(!known && !api_field(&r->api, &f, &known, e)) ||
			(!known && !structured_field(&r->structured, &f, &known, e)) ||
			(!known && !err_set(e, ERR_INTERNAL, "unexpected field \"%s\" in a request",
								wire_tag_name(f.tag))))
		{
			request_free(r);
			return NULL;
		}
	}
	if (got < 0)
		err_set(e, ERR_INTERNAL, "malformed request message");
	if (got < 0 || !check_whole(kind, r, e) || !check_calls(r, e) || !structured_check(&r->structured, e) ||
		(r->spec.params.out.beam_width > 0 && !request_beams_check(data, n, e)) ||
		(r->spec.params.out.beam_width > 0 && r->structured.given &&
		 !request_beams_refuse(r->structured.param, e)))
	{
		request_free(r);
		return NULL;
	}
	r->parse.constrained = r->structured.given;
	r->parse.at_once = r->structured.given && r->parse.drop_reasoning;
	return r;
}

void
request_free(Request *r)
{
	if (r == NULL)
		return;
	genparams_free(&r->spec.params);
	intvec_free(&r->spec.prompt);
	mem_free(r->spec.embeds);
	grammar_unref(r->spec.grammar);
	rbudget_free(r->spec.reasoning_budget);
	poolspec_free(&r->spec.pool);
	buf_free(&r->made.text);
	intvec_free(&r->made.extra.ids);
	intvec_free(&r->made.extra.offsets);
	structured_free(&r->structured);
	buf_free(&r->parse.schema);
	mem_free(r->pool.choices);
	intvec_free(&r->pool.ids);
	intvec_free(&r->pool.columns);
	api_request_free(&r->api);
	mem_free(r->path);
	mem_free(r->options);
	mem_free(r->lora_path);
	mem_free(r);
}

/* ---- ends of requests ---- */

/* Count a request that has ended before the core had it. */
static void
count_unserved(const ServerCall *c, bool cancelled)
{
	if (!request_kind(c->ch.kind)->counted)
		return;
	if (c->entry != NULL)
		hist_unserved(entry_counters(c->entry), cancelled);
	stats_early(c->srv->stats, cancelled);
	stats_publish(c->srv->stats);
}

/* Replace file paths in the error that the caller may not see. */
static void
hide_paths(const ServerCall *c, Err *e)
{
	const Request *r = c->req;
	char		draft[SPEC_PATH];

	if ((r->secret_paths & WIRE_SECRET_LORA) != 0 && r->lora_path != NULL)
		err_replace(e, r->lora_path, r->lora);
	if ((r->secret_paths & WIRE_SECRET_MODEL) == 0 || r->path == NULL)
		return;
	err_replace(e, r->path, r->model);
	if (c->entry != NULL && model_opts_draft_path(entry_opts(c->entry), draft))
		err_replace(e, draft, "speculative_config");
}

void
request_fail(ServerCall *c, const Err *e)
{
	Err			hidden;

	if (c->req != NULL && c->req->secret_paths != 0)
	{
		hidden = *e;
		hide_paths(c, &hidden);
		e = &hidden;
	}
	if (!scall_is_active(c))
		return;
	if (c->stage != SCALL_RUNNING)
		count_unserved(c, e->cls == ERR_CANCELLED);
	scall_end_error(c, e);
	if (c->stage == SCALL_RUNNING)
		request_cancel(c);
}

void
request_cancel(ServerCall *c)
{
	Server	   *s = c->srv;

	if (request_kind(c->ch.kind)->cancel != NULL)
		request_kind(c->ch.kind)->cancel(c);
	else if (c->stage == SCALL_RUNNING)
	{
		BackendModel *in = c->on != NULL ? loaded_inst(c->on) : entry_inst(c->entry);

		if (in != NULL && atomic_load_explicit(&c->in_core, memory_order_acquire))
		{
			s->be->generator->cancel(in, c->id);
			step_wake(s->step);
		}
	}
	else if (scall_is_active(c))
		count_unserved(c, true);
}

/* ---- submission to the backend: server thread ---- */

/* Does max_tokens fit into the context, if it must not be lowered? */
static bool
fits_whole(const Backend *be, const BackendModel *in, const Request *r, Err *e)
{
	const IntVec *ids = &r->spec.prompt;
	ModelFacts	f;

	if (!r->whole_length || !(r->given & GP(MAX_TOKENS)))
		return true;
	be->loader->facts(in, &f);
	if (ids->len >= (size_t) f.max_model_len ||
		ids->len + (size_t) r->spec.params.max_tokens <= (size_t) f.max_model_len)
		return true;			/* normalize() reports a prompt that is too long */
	err_set(e, ERR_TOO_LONG, "this model's maximum context length is %d tokens, but the prompt has %zu and "
							 "max_tokens is %d",
			f.max_model_len, ids->len, r->spec.params.max_tokens);
	return err_detail(e, "parameter=max_tokens");
}

/*
 * Apply truncate_prompt_tokens to the tokens, including those that the tokenizer adds, or to embeddings;
 * any thread.
 */
static bool
truncate(Request *r, const Backend *be, const BackendModel *in, Err *e)
{
	IntVec	   *ids = &r->spec.prompt;
	float	   *embeds = r->spec.embeds;
	size_t		width = embeds != NULL ? (size_t) be->generator->embed_width(in) : 0;
	ModelFacts	f;
	int			keep = r->truncate;

	if (keep == 0)
		return true;
	be->loader->facts(in, &f);
	if (keep > f.max_model_len)
	{
		err_set(e, ERR_INVALID, "truncate_prompt_tokens must be at most the model's length of %d, got %d",
				f.max_model_len, keep);
		return err_detail(e, "parameter=truncate_prompt_tokens");
	}
	if (keep < 0)
		keep = f.max_model_len - ((r->given & GP(MAX_TOKENS)) ? r->spec.params.max_tokens : 1);
	if (keep < 1)
	{
		err_set(e, ERR_INVALID, "max_tokens (%d) leaves no room for a prompt in the model's length of %d",
				r->spec.params.max_tokens, f.max_model_len);
		return err_detail(e, "parameter=max_tokens");
	}
	if (ids->len > (size_t) keep)
	{
		size_t		drop = r->truncate_right ? 0 : ids->len - (size_t) keep;

		memmove(ids->data, ids->data + drop, (size_t) keep * sizeof(int32_t));
		if (embeds != NULL)
			memmove(embeds, embeds + drop * width, (size_t) keep * width * sizeof(float));
		ids->len = (size_t) keep;
	}
	return true;
}

/*
 * Submit the request to the core, which owns it from here on.  The client is told first that it is
 * accepted.  Its message, and the text that a template has made of it, are not needed any more.
 */
static void
submit(ServerCall *c, BackendModel *in, int prompt_tokens)
{
	Server	   *s = c->srv;
	Request    *r = c->req;
	ReqSpec    *q = &r->spec;
	ChanLive	v = {WP_WAITING, prompt_tokens, -1, -1, -1, -1, -1};
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	wire_put_int(&o, WTAG_PROMPT_TOKENS, prompt_tokens);
	scall_frame(c, WF_ACCEPTED, &b, false);
	buf_free(&b);
	scall_live(c, &v);
	mem_free(c->ch.in);
	c->ch.in = NULL;
	r->prompt = NULL;
	r->chat = (ChatRequest) {0};
	buf_free(&r->made.text);
	q->session = r->session;
	q->deadline_us = c->ch.deadline_us;
	q->timeout_ms = c->ch.timeout_ms;
	q->owner = settings_owner(s->box, r->dboid, r->roleid);
	q->role = r->roleid;
	q->id = c->id;
	q->sink = request_sink;
	q->sink_ctx = c;
	q->lora = c->adapter;
	c->stream = q->stream;
	c->stage = SCALL_RUNNING;
	atomic_fetch_add(step_inflight(s->step), 1);
	atomic_store(&c->in_core, true);
	s->be->generator->submit(in, q);
	server_submitted(s);
}

static void
submit_generate(ServerCall *c)
{
	Server	   *s = c->srv;
	Request    *r = c->req;
	ReqSpec    *q = &r->spec;
	GenParams  *p = &q->params;
	BackendModel *in = entry_inst(c->entry);
	Err			e;

	/* its tags may be special tokens */
	if (c->answer != NULL && answer_wants_special(c->answer))
		p->skip_special = false;
	if (!caller_max_tokens(&q->by, p, r->given, &e) ||
		!truncate(r, s->be, in, &e) || !fits_whole(s->be, in, r, &e) ||
		!s->be->generator->normalize(in, p, r->given, &q->prompt, &e))
	{
		request_fail(c, &e);
		return;
	}
	if (q->by.max_tokens > 0 && p->max_tokens > q->by.max_tokens)
		p->max_tokens = q->by.max_tokens;
	hist_submit(entry_counters(c->entry), p);
	if (q->stream && r->stream_interval > 1)
		c->hold = stream_hold_new(r->stream_interval);
	c->want_ids = r->want_ids;
	if (r->want_answers || replies_wanted(&p->out))
		c->replies = replies_new(s->be, in, q->embeds == NULL ? &q->prompt : NULL, r->want_ids, c->answer);
	q->grammar_may_end = c->answer != NULL && answer_takes_calls(c->answer);
	submit(c, in, (int) q->prompt.len);
}

static void
submit_pooled(ServerCall *c)
{
	Request    *r = c->req;
	ReqSpec    *q = &r->spec;
	BackendModel *in = entry_inst(c->entry);
	const char *const *labels = r->pool.want_labels ? c->srv->be->generator->labels(in, q->pool.task) : NULL;
	GenParams	params = {.cache_salt = q->params.cache_salt};
	WireOut		last = chan_out(&c->last);
	int			prompt_tokens = (int) q->pool.prompt.len;

	for (int i = 0; i < q->pool.n_seqs; i++)
		prompt_tokens += (int) q->pool.seqs[i].ids.len;
	for (; labels != NULL && *labels != NULL; labels++)
		wire_put_str(&last, WTAG_LABEL, *labels, strlen(*labels));
	if (r->made.extra.ids.len > 0)
	{
		wire_put_ints(&last, WTAG_TOKEN_IDS, r->made.extra.ids.data, r->made.extra.ids.len);
		wire_put_ints(&last, WTAG_OFFSETS, r->made.extra.offsets.data, r->made.extra.offsets.len);
	}
	/* the other parameters are about generation */
	q->params.cache_salt = NULL;
	genparams_free(&q->params);
	q->params = params;
	q->stream = false;
	submit(c, in, prompt_tokens);
}

/* ---- processing of texts: the server thread, or a job ---- */

/* Return the grammar that the output must match; NULL: none. */
static const GramSpec *
wanted_grammar(const Request *r)
{
	return r->call->ch.kind == WK_GENERATE && r->structured.given ? &r->structured.gram : NULL;
}

static BackendModel *
pinned(const Request *r)
{
	return r->pin != NULL ? loaded_inst(r->pin) : NULL;
}

static bool
encode_prompt(Request *r, Err *e)
{
	return r->call->srv->be->generator->encode(pinned(r), r->prompt, r->prompt_len,
											   r->add_special ? TOK_ADD_SPECIAL : 0, &r->spec.prompt, e);
}

/*
 * Render the messages, and tokenize the text if ids are wanted.  If there is no template, use the prompt
 * that comes with them.
 */
static bool
chat_run(Request *r, Err *e)
{
	ServerCall *c = r->call;
	const Generator *gen = c->srv->be->generator;
	BackendModel *in = pinned(r);
	int			kind = c->ch.kind;
	Buf		   *text = &r->made.text;
	ChatRequest seen = r->chat;
	Buf			marks = {0};
	bool		ok;

	if (kind == WK_GENERATE && r->prompt != NULL && !(r->own != NULL && chat_has_template(r->own)) &&
		r->chat.source.s == NULL && !chat_has_template(gen->chat(in)))
		return encode_prompt(r, e);
	if (parsing_hides_tools(&r->parse, r->options))
		seen.tools = (StrView) {0};
	ok = chat_render(r->own, in != NULL ? gen->chat(in) : NULL, &seen, text, &marks, e);
	if (ok && kind == WK_GENERATE)
		ok = chat_not_empty(text, e);
	if (ok && kind != WK_CHAT_RENDER)
		ok = gen->encode_marked(in, text->data, (const uint8_t *) marks.data, text->len, &r->spec.prompt, e);
	if (ok && kind == WK_GENERATE)
		ok = parsing_of_chat(&r->parse, r->options, &r->chat, text->data, text->len, r->spec.stream,
							 &c->answer, e);
	if (c->answer != NULL && wanted_grammar(r) != NULL && !r->structured.in_reasoning)
		r->spec.grammar_after = answer_until(c->answer);
	buf_free(&marks);
	return ok;
}

static bool
budget_refused(ErrClass cls, const char *what, const char *hint, Err *e)
{
	err_set(e, cls, "thinking_token_budget %s", what);
	err_detail(e, "parameter=thinking_token_budget");
	return err_hint(e, "%s", hint);
}

/*
 * Make the counter of reasoning tokens.  For a chat, its parser says how reasoning begins and ends; for
 * another prompt it begins with a tag, in the prompt or in the output.  Under a grammar there is none.
 */
static bool
reasoning_budget_run(Request *r, Err *e)
{
	const Generator *gen = r->call->srv->be->generator;
	const Answer *answer = r->call->answer;
	const GramSpec *grammar = wanted_grammar(r);
	BackendModel *in = pinned(r);
	bool		budget = r->parse.has_budget;
	const ReasonFormat *f = answer != NULL || budget ? parsing_reason(&r->parse, r->options) : NULL;
	StrView		kwargs = r->has_chat ? r->chat.kwargs : (StrView) {0};
	const char *start_tag = f != NULL ? reason_format_start(f) : NULL;
	const char *tag = start_tag != NULL ? reason_format_end(f) : NULL;
	IntVec		start = {0};
	IntVec		end = {0};
	ReasonAt	at = answer != NULL ? answer_at(answer) : REASON_PLAIN;
	bool		ok;

	if (budget && f == NULL)
		return budget_refused(ERR_INVALID, "needs to know how the model thinks",
							  "Set the model's option \"reasoning_parser\", or vllm.reasoning_parser.", e);
	if (budget && tag == NULL)
		return budget_refused(ERR_INVALID, "needs a reasoning parser with tags around the thoughts",
							  "The parsers granite, openai_gptoss, identity and minimax_m2_append_think "
							  "have none.", e);
	if (budget && grammar != NULL && r->structured.in_reasoning)
		return budget_refused(ERR_INVALID, "can't be used with enable_in_reasoning",
							  "A grammar that constrains the reasoning also decides where it ends.", e);
	if (tag == NULL || (grammar != NULL && r->spec.grammar_after == NULL))
		return true;
	ok = gen->encode(in, tag, strlen(tag), 0, &end, e) &&
		(answer != NULL || gen->encode(in, start_tag, strlen(start_tag), 0, &start, e));
	if (ok && answer == NULL && rbudget_open(r->spec.prompt.data, r->spec.prompt.len, &start, &end))
		at = REASON_OPEN;
	if (ok && end.len > 0)
		r->spec.reasoning_budget = rbudget_new(f, kwargs.s, kwargs.n, at,
									   budget ? r->parse.budget : THOUGHTS_NO_BUDGET, grammar != NULL, &end);
	intvec_free(&start);
	intvec_free(&end);
	return ok;
}

/* Make the sequences of a pooling request's texts. */
static bool
pool_run(Request *r, Err *e)
{
	const Backend *be = r->call->srv->be;

	return pool_check_digest(&r->pool, be, pinned(r), e) &&
		be->generator->pool(pinned(r), &r->pool, &r->spec.pool, &r->made.extra, e);
}

/*
 * Tokenize choices that continue a chat after its template; if there is a prompt, too, only if the model
 * has a template.
 */
static bool
choices_run(Request *r, Err *e)
{
	const ChatModel *files = r->call->srv->be->generator->chat(pinned(r));
	Buf		   *text = &r->made.text;
	Buf			marks = {0};
	bool		ok;

	if (r->pool.text.s != NULL && !(r->own != NULL && chat_has_template(r->own)) && !chat_has_template(files))
		return pool_run(r, e);
	ok = chat_render(r->own, files, &r->chat, text, &marks, e);
	ok = ok && chat_not_empty(text, e);
	r->pool.text = (StrView) {text->data, text->len};
	r->pool.marks = (const uint8_t *) marks.data;
	ok = ok && pool_run(r, e);
	r->pool.marks = NULL;
	buf_free(&marks);
	return ok;
}

/* Is the text an instance of the schema?  The grammar is compiled for this call only. */
static bool
grammar_run(Request *r, Err *e)
{
	GramSpec	spec = {.kind = GRAM_JSON_SCHEMA, .text = r->schema, .len = r->schema_len,
						.opt = {.validate = true}};
	Grammar    *g = grammar_new(&spec, e);
	bool		ok = g != NULL && grammar_accepts(g, r->prompt, r->prompt_len, &r->made.accepted, e);

	grammar_unref(g);
	return ok;
}

/* Compile the grammar of the output, and its vocabulary. */
static bool
structured_run(Request *r, Err *e)
{
	Server	   *s = r->call->srv;

	if (wanted_grammar(r) == NULL)
		return true;
	if (!s->be->generator->prepare_grammar(pinned(r), e))
		return false;
	r->spec.grammar = grammar_cache_get(s->grammars, wanted_grammar(r), e);
	if (r->spec.grammar == NULL)
		structured_blame(&r->structured, e);
	return r->spec.grammar != NULL;
}

/* Make the prompt of a generate request, and the constraints of its output. */
static bool
generate_run(Request *r, Err *e)
{
	IntVec	   *ids = &r->spec.prompt;
	bool		ok;

	if (r->has_chat)
		ok = chat_run(r, e);
	else if (r->embeds.given)
		ok = embeds_take(r->call->srv->be, pinned(r), &r->embeds, ids, &r->spec.embeds, e);
	else
		ok = r->has_ids || encode_prompt(r, e);
	return ok && reasoning_budget_run(r, e) && structured_run(r, e);
}

/* Make tokens, or their embedding rows. */
static bool
tokenize_run(Request *r, Err *e)
{
	const Backend *be = r->call->srv->be;
	BackendModel *in = pinned(r);
	IntVec	   *ids = &r->spec.prompt;
	ModelFacts	f;

	be->loader->facts(in, &f);
	r->made.max_model_len = f.max_model_len;
	if (!(r->has_chat ? chat_run(r, e) : r->has_ids || encode_prompt(r, e)))
		return false;
	r->made.n_whole = ids->len;
	if (!truncate(r, be, in, e))
		return false;
	buf_reset(&r->made.text);
	return !r->embeds.want || embeds_of_tokens(be, in, ids, &r->made.text, e);
}

static bool
digest_run(Request *r, Err *e)
{
	char		hex[MODEL_DIGEST];

	if (!r->call->srv->be->control->get_digest(pinned(r), hex, e))
		return false;
	buf_addstr(&r->made.text, hex);
	return true;
}

static void
text_run(Job *j)
{
	Request    *r = (Request *) j;
	ServerCall *c = r->call;
	const Backend *be = c->srv->be;
	TextResult *t = &r->made;

	/* the client has cancelled while the job was queued; the jobs after it must not wait for it */
	if (!scall_is_active(c))
		return;
	switch (c->ch.kind)
	{
		case WK_GENERATE:
			t->ok = generate_run(r, &t->why);
			break;
		case WK_POOL:
		case WK_LOGPROBS:
			t->ok = r->has_chat ? choices_run(r, &t->why) : pool_run(r, &t->why);
			break;
		case WK_TOKENIZE:
			t->ok = tokenize_run(r, &t->why);
			break;
		case WK_CHAT_RENDER:
			t->ok = chat_run(r, &t->why);
			break;
		case WK_DETOKENIZE:
			t->ok = be->generator->decode(pinned(r), r->spec.prompt.data, r->spec.prompt.len,
										  r->spec.params.skip_special ? TOK_SKIP_SPECIAL : 0, &t->text,
										  &t->why);
			break;
		case WK_CHUNK:
			t->ok = chunking_run(be, pinned(r), &r->chunk, r->prompt, r->prompt_len, &r->spec.prompt,
								 &t->why);
			break;
		case WK_GRAMMAR:
			t->ok = grammar_run(r, &t->why);
			break;
		case WK_MODEL_DIGEST:
			t->ok = digest_run(r, &t->why);
			break;
		case WK_PARSE:
			parsing_run(&r->parse, r->prompt, r->prompt_len, &r->chat, &t->text);
			t->ok = true;
			break;
		default:
			ASSERT(false);
	}
}

static void
text_answer(ServerCall *c)
{
	const Request *r = c->req;
	const TextResult *t = &r->made;
	const IntVec *ids = &r->spec.prompt;
	int			kind = c->ch.kind;
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	if (kind == WK_DETOKENIZE || kind == WK_CHAT_RENDER || kind == WK_MODEL_DIGEST)
		wire_put_str(&o, WTAG_TEXT, t->text.len > 0 ? t->text.data : "", t->text.len);
	else if (kind == WK_CHUNK)
		wire_put_ints(&o, WTAG_SPANS, ids->data, ids->len);
	else if (kind == WK_GRAMMAR)
		wire_put_int(&o, WTAG_COUNT, t->accepted);
	else if (kind == WK_PARSE || r->embeds.want)
		buf_add(&b, t->text.data, t->text.len);
	else
	{
		if (!r->has_want_ids || r->want_ids)
			wire_put_ints(&o, WTAG_TOKEN_IDS, ids->data, ids->len);
		wire_put_int(&o, WTAG_COUNT, (int64_t) ids->len);
		if (r->truncate != 0)
			wire_put_int(&o, WTAG_PROMPT_TOKENS, (int64_t) t->n_whole);
		wire_put_int(&o, WTAG_MAX_MODEL_LEN, t->max_model_len);
	}
	scall_end(c, WF_DONE, &b);
	buf_free(&b);
}

/* The text was processed: continue the request. */
static void
text_done(Job *j)
{
	Request    *r = (Request *) j;
	ServerCall *c = r->call;

	if (r->pin != NULL)
		loaded_unpin(r->pin);
	r->pin = NULL;
	c->job_busy = false;
	if (!scall_is_active(c))
		return;
	if (!r->made.ok)
		request_fail(c, &r->made.why);
	else if (c->ch.kind == WK_GENERATE)
		submit_generate(c);
	else if (request_is_pooled(c->ch.kind))
		submit_pooled(c);
	else
		text_answer(c);
}

/* Fill in a pooling request; returns the size of its texts other than the first. */
static size_t
pool_init(Request *r)
{
	PoolRequest *p = &r->pool;
	size_t		size = p->pair.n;

	if (r->call->ch.kind == WK_LOGPROBS)
		p->task = PT_LOGPROBS;
	p->text = (StrView) {r->prompt, r->prompt_len};
	p->add_special = r->add_special;
	p->want_offsets = r->want_ids;
	p->own_chat = r->own;
	for (size_t i = 0; r->has_ids && i < r->ids.n; i++)
		intvec_push(&p->ids, wire_int_at(&r->ids, i));
	for (int i = 0; i < p->n_choices; i++)
		size += p->choices[i].n;
	return size + p->ids.len;
}

/* Take the token ids of a message. */
static void
take_ids(Request *r)
{
	for (size_t i = 0; r->has_ids && i < r->ids.n; i++)
		intvec_push(&r->spec.prompt, wire_int_at(&r->ids, i));
}

/* Fill in all but the result; returns the size of the input. */
static size_t
text_init(Request *r)
{
	ServerCall *c = r->call;
	int			kind = c->ch.kind;
	size_t		size = kind == WK_DETOKENIZE ? r->ids.n : r->prompt_len;

	r->job = (Job) {.run = text_run, .done = text_done};
	r->pin = c->entry != NULL ? entry_pin(c->entry) : NULL;
	r->own = c->entry != NULL ? entry_chat(c->entry) : NULL;
	if (request_is_pooled(kind))
		size += pool_init(r);
	else if (kind == WK_GENERATE || kind == WK_TOKENIZE || kind == WK_DETOKENIZE)
		take_ids(r);
	c->job_busy = true;
	return size + r->embeds.rows.n;
}

/* Choose the queue; -1: do it at once, since it takes no time. */
static int
text_queue(const Request *r, size_t size)
{
	const GramSpec *g = wanted_grammar(r);

	/* slow work waits with the grammars, so that texts don't wait for it */
	if (r->call->ch.kind == WK_GRAMMAR || r->call->ch.kind == WK_MODEL_DIGEST ||
		(request_is_pooled(r->call->ch.kind) && pool_needs_files(&r->pool, r->call->srv->be, pinned(r))) ||
		(g != NULL && !grammar_cache_has(r->call->srv->grammars, g)))
		return JQ_GRAMMAR;
	/* a template may be slow, and so may a model's first grammar */
	return size > INLINE_TEXT || r->has_chat || g != NULL || r->embeds.given || r->embeds.want ? JQ_TEXT : -1;
}

void
request_start_text(ServerCall *c)
{
	Request    *r = c->req;
	int			queue = text_queue(r, text_init(r));

	if (queue < 0)
	{
		text_run(&r->job);
		text_done(&r->job);
		return;
	}
	c->stage = SCALL_BUSY;
	jobs_submit(c->srv->jobs, (WorkerQueue) queue, &r->job);
}

void
request_run_facts(ServerCall *c)
{
	ModelFacts	f;

	entry_facts(c->entry, &f);
	request_answer_facts(c, &f);
}

void
request_run_generate(ServerCall *c)
{
	if (!c->req->has_ids || c->req->structured.given || c->req->parse.has_budget)
	{
		request_start_text(c);
		return;
	}
	take_ids(c->req);
	submit_generate(c);
}

/* ---- beginning ---- */

static void
note(const ServerCall *c)
{
	const Request *r = c->req;
	ReqNote		n = {
		.dboid = r->dboid,.roleid = r->roleid,.model = r->model,
		.params = &r->spec.params,.given = r->given,
		.prompt = r->has_prompt ? r->prompt : r->has_chat ? r->chat.messages.s : "",
		.prompt_len = r->has_prompt ? r->prompt_len : r->has_chat ? r->chat.messages.n : 0,
		.task = c->ch.kind == WK_LOGPROBS ? PT_LOGPROBS : r->pool.task,
		.more = r->pool.pair.s != NULL ? &r->pool.pair : r->pool.choices,
		.n_more = r->pool.pair.s != NULL ? 1 : r->pool.n_choices
	};

	if (c->srv->be->hooks != NULL)
		c->srv->be->hooks->note(&n);
}

void
request_start_with_model(ServerCall *c)
{
	if (!place_take(c))
		return;
	if (request_kind(c->ch.kind)->counted)
		atomic_fetch_add(&entry_counters(c->entry)->requests, 1);
	entry_go(c);
}

void
request_start_counted(ServerCall *c)
{
	note(c);
	request_start_with_model(c);
}

void
request_start_render(ServerCall *c)
{
	if (c->req->model[0] == '\0')
		request_start_text(c);
	else
		request_start_with_model(c);
}

void
request_start(ServerCall *c)
{
	Err			e;

	c->req = request_parse(c->ch.kind, c->ch.in, c->ch.in_len, &e);
	if (c->req == NULL)
	{
		request_fail(c, &e);
		return;
	}
	c->req->call = c;
	if (c->req->elsewhere && c->srv->be != &backend_fake)
	{
		err_set(&e, ERR_INTERNAL, "request of a remote model");
		request_fail(c, &e);
		return;
	}
	request_kind(c->ch.kind)->start(c);
}
