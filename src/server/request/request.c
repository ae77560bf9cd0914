/*
 * request.c
 *	  Requests: decode, check, wait for the model, tokenize, submit, reply.
 *
 * The arena is untrusted, so every range is checked again here, whatever the
 * backend has checked already; what depends on the model is normalize()'s.  Short
 * texts are tokenized at once, longer ones by a job on JQ_TEXT.
 *
 * Threads: everything is the server thread's but the jobs' run functions, which only see
 * the job and the instance that it has pinned.
 *
 * Tested by tests/unit/server/test_server.c.
 */
#include "server/request/request.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
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

/* Fields of a chat; *known = false if it is none. */
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

/* What is nobody else's: the prompt, and who asks whom for what; *known = false if it is none. */
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
		case WTAG_TRACESTATE:	/* the caller's log has it */
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
			r->stream = f->i != 0;
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
	const GenParams *p = &r->params;

	if (kind == WK_GENERATE || kind == WK_TOKENIZE)
	{
		bool		other = r->has_ids || (kind == WK_GENERATE && r->embeds.given);

		if (!r->has_prompt && !r->has_chat && !other)
			return err_set(e, ERR_INTERNAL, "request without a prompt");
		/* both: the prompt is what a model without a template gets */
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
		/* also where the tokenizer would add a BOS */
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

/* Calls that must be made constrain the answer as a schema does. */
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

	genparams_init(&r->params);
	r->add_special = true;
	r->pool.activation = r->pool.step_tag = -1;
	r->by.wait_ms = -1;
	r->lora_pin = -1;
	while ((got = wire_next(&in, &f)) > 0)
	{
		bool		known;

		/* params_field() checks the range of any option; most fields stop at the second */
		if (!params_field(&r->params, &r->given, &f, &known, e) ||
			(!known && !own_field(r, &f, &known, e)) ||
			(!known && !chat_field(r, &f, &known, e)) ||
			(!known && !caller_field(&r->by, &f, &known, e)) ||
			(!known && !replies_field(&r->params.out, &f, &known, e)) ||
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
		(r->params.out.beam_width > 0 && !request_beams_check(data, n, e)) ||
		(r->params.out.beam_width > 0 && r->structured.given &&
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
	genparams_free(&r->params);
	structured_free(&r->structured);
	rbudget_free(r->thoughts);
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

/* ---- endings ---- */

/* It has ended before the core had it. */
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

/* What the caller may not know of where files are. */
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
			step_poke(s->step);
		}
	}
	else if (scall_is_active(c))
		count_unserved(c, true);
}

/* ---- the way to the backend: server thread ---- */

/* Does max_tokens fit, where it must not be cut to what the context holds? */
static bool
fits_whole(const Backend *be, const BackendModel *in, const Request *r, const IntVec *ids, Err *e)
{
	ModelFacts	f;

	if (!r->whole_length || !(r->given & GP(MAX_TOKENS)))
		return true;
	be->loader->facts(in, &f);
	if (ids->len >= (size_t) f.max_model_len ||
		ids->len + (size_t) r->params.max_tokens <= (size_t) f.max_model_len)
		return true;			/* a prompt that is too long is normalize()'s */
	err_set(e, ERR_TOO_LONG, "this model's maximum context length is %d tokens, but the prompt has %zu and "
							 "max_tokens is %d",
			f.max_model_len, ids->len, r->params.max_tokens);
	return err_detail(e, "parameter=max_tokens");
}

/*
 * truncate_prompt_tokens, of tokens with those that the tokenizer adds, or of embeddings (else NULL); any
 * thread.
 */
static bool
truncate(const Request *r, const Backend *be, const BackendModel *in, IntVec *ids, float *embeds, Err *e)
{
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
		keep = f.max_model_len - ((r->given & GP(MAX_TOKENS)) ? r->params.max_tokens : 1);
	if (keep < 1)
	{
		err_set(e, ERR_INVALID, "max_tokens (%d) leaves no room for a prompt in the model's length of %d",
				r->params.max_tokens, f.max_model_len);
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

/* Takes over *ids, embeds and the reference to the grammar. */
static void
submit(ServerCall *c, IntVec *ids, float *embeds, Grammar *grammar)
{
	Server	   *s = c->srv;
	Request    *r = c->req;
	BackendModel *in = entry_inst(c->entry);
	ReqSpec		spec = {.session = r->session,.by = r->by,.deadline_us = c->ch.deadline_us,
						.timeout_ms = c->ch.timeout_ms,.owner = settings_owner(s->box, r->dboid, r->roleid),
						.role = r->roleid,.id = c->id,.stream = r->stream,
	.sink = request_sink,.sink_ctx = c,.lora = c->adapter};
	ChanLive	v = {WP_WAITING, (int) ids->len, -1, -1, -1, -1, -1};
	Buf			b = {0};
	WireOut		o = chan_out(&b);
	Err			e;

	/* its marks may be special tokens */
	if (c->answer != NULL && answer_wants_special(c->answer))
		r->params.skip_special = false;
	if (!asker_max_tokens(&r->by, &r->params, r->given, &e) ||
		!truncate(r, s->be, in, ids, embeds, &e) || !fits_whole(s->be, in, r, ids, &e) ||
		!s->be->generator->normalize(in, &r->params, r->given, ids, &e))
	{
		intvec_free(ids);
		mem_free(embeds);
		grammar_unref(grammar);
		request_fail(c, &e);
		return;
	}
	if (r->by.max_tokens > 0 && r->params.max_tokens > r->by.max_tokens)
		r->params.max_tokens = r->by.max_tokens;
	hist_submit(entry_counters(c->entry), &r->params);
	wire_put_int(&o, WTAG_PROMPT_TOKENS, (int64_t) ids->len);
	scall_frame(c, WF_ACCEPTED, &b, false);
	buf_free(&b);
	scall_live(c, &v);
	c->stream = r->stream;
	if (r->stream && r->stream_interval > 1)
		c->hold = stream_hold_new(r->stream_interval);
	c->want_ids = r->want_ids;
	if (r->want_answers || replies_wanted(&r->params.out))
		c->replies = replies_new(s->be, in, embeds == NULL ? ids : NULL, r->want_ids, c->answer);
	c->stage = SCALL_RUNNING;
	/* the message is not needed any more */
	mem_free(c->ch.in);
	c->ch.in = NULL;
	r->prompt = NULL;
	r->chat = (ChatRequest) {0};
	spec.prompt = *ids;
	spec.embeds = embeds;
	spec.params = r->params;
	spec.grammar = grammar;
	if (!r->structured.in_reasoning)
		spec.grammar_after = r->reasoning_end;
	spec.grammar_may_end = c->answer != NULL && answer_takes_calls(c->answer);
	spec.thoughts = r->thoughts;
	r->thoughts = NULL;
	genparams_init(&r->params);
	atomic_fetch_add(step_inflight(s->step), 1);
	atomic_store(&c->in_core, true);
	s->be->generator->submit(in, &spec);
	server_submitted(s);
}

/* Takes over *spec. */
static void
submit_pooled(ServerCall *c, PoolSpec *pool, const PoolExtra *extra)
{
	Server	   *s = c->srv;
	Request    *r = c->req;
	BackendModel *in = entry_inst(c->entry);
	const char *const *labels = r->pool.want_labels ? s->be->generator->labels(in, pool->task) : NULL;
	ReqSpec		spec = {.session = r->session,.by = r->by,.deadline_us = c->ch.deadline_us,
						.timeout_ms = c->ch.timeout_ms,.owner = settings_owner(s->box, r->dboid, r->roleid),
						.id = c->id,
	.sink = request_sink,.sink_ctx = c,.pool = *pool,.lora = c->adapter};
	WireOut		last = chan_out(&c->last);
	ChanLive	v = {WP_WAITING, 0, -1, -1, -1, -1, -1};
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	memset(pool, 0, sizeof(*pool));
	v.prompt_tokens = (int) spec.pool.prompt.len;
	for (int i = 0; i < spec.pool.n_seqs; i++)
		v.prompt_tokens += (int) spec.pool.seqs[i].ids.len;
	for (; labels != NULL && *labels != NULL; labels++)
		wire_put_str(&last, WTAG_LABEL, *labels, strlen(*labels));
	if (extra->ids.len > 0)
	{
		wire_put_ints(&last, WTAG_TOKEN_IDS, extra->ids.data, extra->ids.len);
		wire_put_ints(&last, WTAG_OFFSETS, extra->offsets.data, extra->offsets.len);
	}
	wire_put_int(&o, WTAG_PROMPT_TOKENS, v.prompt_tokens);
	scall_frame(c, WF_ACCEPTED, &b, false);
	buf_free(&b);
	scall_live(c, &v);
	c->stream = false;
	c->stage = SCALL_RUNNING;
	mem_free(c->ch.in);
	c->ch.in = NULL;
	r->prompt = NULL;
	r->chat = (ChatRequest) {0};
	spec.params.cache_salt = r->params.cache_salt;
	r->params.cache_salt = NULL;
	atomic_fetch_add(step_inflight(s->step), 1);
	atomic_store(&c->in_core, true);
	s->be->generator->submit(in, &spec);
	server_submitted(s);
}

typedef struct TextJob
{
	Job			j;
	ServerCall *c;
	ModelInstance *pin;
	const Backend *be;
	int			kind;
	unsigned	flags;
	const char *text;			/* in the conversation's message, which job_busy keeps */
	size_t		len;
	const ChatRequest *chat;	/* NULL: text */
	const ChatModel *own;		/* the entry's */
	IntVec		ids;
	int			max_model_len;	/* WK_TOKENIZE: the model's */
	size_t		n_whole;		/* WK_TOKENIZE: tokens before truncation */
	Buf			out;
	const PoolRequest *pr;		/* WK_POOL, WK_LOGPROBS */
	const ChunkRequest *chunk;	/* WK_CHUNK: ids are its spans */
	bool		accepted;		/* WK_GRAMMAR */
	bool		has_ids;		/* WK_GENERATE: ids are the prompt */
	const EmbedsRequest *embeds;	/* WK_GENERATE: a prompt; WK_TOKENIZE: wanted; NULL = neither */
	float	   *rows;			/* embeddings of the prompt, or the wanted ones */
	const GramSpec *structured; /* WK_GENERATE; NULL = anything will do */
	GrammarCache *grammars;
	Grammar    *grammar;		/* what it became */
	Answer	   *answer;			/* takes a chat's answer apart; NULL: nothing does */
	const char *after;			/* a grammar holds from behind this text on; NULL = from the start */
	ReasoningBudget *thoughts;		/* NULL: nobody asks how long they are */
	PoolRequest chat_pr;		/* pooled request whose text a template makes of messages */
	PoolSpec	pool;			/* what it became */
	PoolExtra	extra;
	bool		ok;
	Err			e;
} TextJob;

/* Messages to text, and that to ids if they are wanted; a prompt beside them, if there is no template. */
static void
chat_run(TextJob *t)
{
	BackendModel *in = t->pin != NULL ? loaded_inst(t->pin) : NULL;
	ChatRequest seen;
	Buf			marks = {0};

	if (t->kind == WK_GENERATE && t->text != NULL && !(t->own != NULL && chat_has_template(t->own)) &&
		t->chat->source.s == NULL && !chat_has_template(t->be->generator->chat(in)))
	{
		t->ok = t->be->generator->encode(in, t->text, t->len, t->flags, &t->ids, &t->e);
		return;
	}
	seen = *t->chat;
	if (parsing_hides_tools(&t->c->req->parse, t->c->req->options))
		seen.tools = (StrView) {0};
	t->ok = chat_render(t->own, in != NULL ? t->be->generator->chat(in) : NULL, &seen, &t->out, &marks,
						&t->e);
	if (t->ok && t->kind == WK_GENERATE && t->out.len == 0)
		t->ok = err_set(&t->e, ERR_INVALID, "the chat template makes an empty prompt of these messages");
	if (t->ok && t->kind != WK_CHAT_RENDER)
		t->ok = t->be->generator->encode_marked(in, t->out.data, (const uint8_t *) marks.data, t->out.len,
												&t->ids,
									 &t->e);
	if (t->ok && t->kind == WK_GENERATE)
		t->ok = parsing_of_chat(&t->c->req->parse, t->c->req->options, t->chat, t->out.data, t->out.len,
								t->c->req->stream, &t->answer, &t->e);
	if (t->answer != NULL && t->structured != NULL && !t->c->req->structured.in_reasoning)
		t->after = answer_until(t->answer);
	buf_free(&marks);
}

static bool
budget_refused(ErrClass cls, const char *what, const char *hint, Err *e)
{
	err_set(e, cls, "thinking_token_budget %s", what);
	err_detail(e, "parameter=thinking_token_budget");
	return err_hint(e, "%s", hint);
}

/*
 * The counter of reasoning tokens.  A chat's are what its parser says; another prompt's begin
 * with a tag, that stands in the prompt or comes later.  Under a grammar there are none.
 */
static void
thoughts_run(TextJob *t)
{
	const Request *r = t->c->req;
	bool		budget = r->parse.has_budget;
	const ReasonFormat *f = t->answer != NULL || budget ? parsing_reason(&r->parse, r->options) : NULL;
	const char *tag = f != NULL && reason_format_start(f) != NULL ? reason_format_end(f) : NULL;
	BackendModel *in = loaded_inst(t->pin);
	IntVec		start = {0};
	IntVec		end = {0};
	ReasonAt	at = t->answer != NULL ? answer_at(t->answer) : REASON_PLAIN;

	if (budget && f == NULL)
		t->ok = budget_refused(ERR_INVALID, "needs to know how the model thinks",
							   "Set the model's option \"reasoning_parser\", or vllm.reasoning_parser.",
							   &t->e);
	else if (budget && tag == NULL)
		t->ok = budget_refused(ERR_INVALID, "needs a reasoning parser with tags around the thoughts",
							   "The parsers granite, openai_gptoss, identity and minimax_m2_append_think "
							   "have none.", &t->e);
	else if (budget && t->structured != NULL && r->structured.in_reasoning)
		t->ok = budget_refused(ERR_INVALID, "can't be used with enable_in_reasoning",
							   "Thoughts that a grammar constrains end as it says.", &t->e);
	if (!t->ok || tag == NULL || (t->structured != NULL && t->after == NULL))
		return;
	t->ok = t->be->generator->encode(in, tag, strlen(tag), 0, &end, &t->e) &&
		(t->answer != NULL || t->be->generator->encode(in, reason_format_start(f),
													   strlen(reason_format_start(f)), 0,
											&start, &t->e));
	if (t->ok && t->answer == NULL && rbudget_open(t->ids.data, t->ids.len, &start, &end))
		at = REASON_OPEN;
	if (t->ok && end.len > 0)
		t->thoughts = rbudget_new(f, t->chat != NULL ? t->chat->kwargs.s : NULL,
								  t->chat != NULL ? t->chat->kwargs.n : 0, at,
								   budget ? r->parse.budget : THOUGHTS_NO_BUDGET, t->structured != NULL,
								   &end);
	intvec_free(&start);
	intvec_free(&end);
}

/* Choices that go on where a template ends; with a prompt, too, only if the model has a template. */
static void
choices_run(TextJob *t)
{
	BackendModel *in = loaded_inst(t->pin);
	const PoolRequest *pr = t->pr;
	Buf			marks = {0};

	t->ok = true;
	if (t->pr->text.s == NULL || (t->own != NULL && chat_has_template(t->own)) ||
		chat_has_template(t->be->generator->chat(in)))
	{
		t->ok = chat_render(t->own, t->be->generator->chat(in), t->chat, &t->out, &marks, &t->e);
		t->chat_pr = *t->pr;
		t->chat_pr.text = (StrView) {t->out.data, t->out.len};
		t->chat_pr.marks = (const uint8_t *) marks.data;
		pr = &t->chat_pr;
		if (t->ok && t->out.len == 0)
			t->ok = err_set(&t->e, ERR_INVALID, "the chat template makes an empty prompt of these messages");
	}
	t->ok = t->ok && t->be->generator->pool(in, pr, &t->pool, &t->extra, &t->e);
	buf_free(&marks);
}

/* Is the text an instance of the schema?  One grammar a call: it is thrown away. */
static bool
grammar_run(TextJob *t)
{
	GramSpec	spec = {.kind = GRAM_JSON_SCHEMA, .text = t->c->req->schema, .len = t->c->req->schema_len,
						.opt = {.validate = true}};
	Grammar    *g = grammar_new(&spec, &t->e);
	bool		ok = g != NULL && grammar_accepts(g, t->text, t->len, &t->accepted, &t->e);

	grammar_unref(g);
	return ok;
}

/* The answer's grammar, and a vocabulary for it. */
static void
structured_run(TextJob *t)
{
	if (!t->ok || t->structured == NULL)
		return;
	t->ok = t->be->generator->prepare_grammar(loaded_inst(t->pin), &t->e);
	if (!t->ok)
		return;
	t->grammar = grammar_cache_get(t->grammars, t->structured, &t->e);
	t->ok = t->grammar != NULL;
	if (!t->ok)
		structured_blame(&t->c->req->structured, &t->e);
}

static void
text_run(Job *j)
{
	TextJob    *t = (TextJob *) j;
	BackendModel *in = t->pin != NULL ? loaded_inst(t->pin) : NULL;

	/* nobody waits any more for what stood in the queue; others do, behind it */
	if (!scall_is_active(t->c))
		return;
	if (t->kind == WK_TOKENIZE)
	{
		ModelFacts	f;

		t->be->loader->facts(in, &f);
		t->max_model_len = f.max_model_len;
	}
	if (t->chat != NULL && t->pr != NULL)
		choices_run(t);
	else if (t->chat != NULL)
		chat_run(t);
	else if (t->pr != NULL)
		t->ok = t->be->generator->pool(in, t->pr, &t->pool, &t->extra, &t->e);
	else if (t->kind == WK_GRAMMAR)
		t->ok = grammar_run(t);
	else if (t->kind == WK_PARSE)
	{
		parsing_run(&t->c->req->parse, t->text, t->len, &t->c->req->chat, &t->out);
		t->ok = true;
	}
	else if (t->chunk != NULL)
		t->ok = chunking_run(t->be, in, t->chunk, t->text, t->len, &t->ids, &t->e);
	else if (t->kind == WK_DETOKENIZE)
		t->ok = t->be->generator->decode(in, t->ids.data, t->ids.len, t->flags, &t->out, &t->e);
	else if (t->kind == WK_GENERATE && t->embeds != NULL)
		t->ok = embeds_take(t->be, in, t->embeds, &t->ids, &t->rows, &t->e);
	else
		t->ok = t->has_ids || t->be->generator->encode(in, t->text, t->len, t->flags, &t->ids, &t->e);
	t->n_whole = t->ids.len;
	if (t->ok && t->kind == WK_TOKENIZE)
		t->ok = truncate(t->c->req, t->be, in, &t->ids, NULL, &t->e);
	if (t->ok && t->kind == WK_TOKENIZE && t->embeds != NULL)
	{
		buf_reset(&t->out);
		t->ok = embeds_of_tokens(t->be, in, &t->ids, &t->out, &t->e);
	}
	if (t->ok && t->kind == WK_GENERATE)
		thoughts_run(t);
	structured_run(t);
}

static void
text_answer(TextJob *t)
{
	ServerCall *c = t->c;
	Request    *r = c->req;
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	if (t->kind == WK_DETOKENIZE || t->kind == WK_CHAT_RENDER)
		wire_put_str(&o, WTAG_TEXT, t->out.len > 0 ? t->out.data : "", t->out.len);
	else if (t->kind == WK_CHUNK)
		wire_put_ints(&o, WTAG_SPANS, t->ids.data, t->ids.len);
	else if (t->kind == WK_GRAMMAR)
		wire_put_int(&o, WTAG_COUNT, t->accepted);
	else if (t->kind == WK_PARSE || t->embeds != NULL)
		buf_add(&b, t->out.data, t->out.len);
	else
	{
		if (!r->has_want_ids || r->want_ids)
			wire_put_ints(&o, WTAG_TOKEN_IDS, t->ids.data, t->ids.len);
		wire_put_int(&o, WTAG_COUNT, (int64_t) t->ids.len);
		if (r->truncate != 0)
			wire_put_int(&o, WTAG_PROMPT_TOKENS, (int64_t) t->n_whole);
		wire_put_int(&o, WTAG_MAX_MODEL_LEN, t->max_model_len);
	}
	scall_end(c, WF_DONE, &b);
	buf_free(&b);
}

/* What the text has become goes on its way; *t's memory is the caller's. */
static void
text_finish(TextJob *t)
{
	ServerCall *c = t->c;

	if (t->pin != NULL)
		loaded_unpin(t->pin);
	c->job_busy = false;
	if (scall_is_active(c))
	{
		if (!t->ok)
			request_fail(c, &t->e);
		else if (t->kind == WK_GENERATE)
		{
			c->answer = t->answer;
			t->answer = NULL;
			c->req->reasoning_end = t->after;
			c->req->thoughts = t->thoughts;
			t->thoughts = NULL;
			submit(c, &t->ids, t->rows, t->grammar);
			memset(&t->ids, 0, sizeof(t->ids));
			t->rows = NULL;
			t->grammar = NULL;
		}
		else if (t->pr != NULL)
			submit_pooled(c, &t->pool, &t->extra);
		else
			text_answer(t);
	}
	mem_free(t->rows);
	grammar_unref(t->grammar);
	answer_free(t->answer);
	rbudget_free(t->thoughts);
	poolspec_free(&t->pool);
	intvec_free(&t->extra.ids);
	intvec_free(&t->extra.offsets);
	intvec_free(&t->ids);
	buf_free(&t->out);
}

static void
text_done(Job *j)
{
	text_finish((TextJob *) j);
	mem_free(j);
}

/* The rest of a pooled request; returns the size of its texts beside the first. */
static size_t
pool_init(TextJob *t, Request *r)
{
	PoolRequest *p = &r->pool;
	size_t		size = p->pair.n;

	if (t->kind == WK_LOGPROBS)
		p->task = PT_LOGPROBS;
	p->text = (StrView) {r->prompt, r->prompt_len};
	p->add_special = r->add_special;
	p->want_offsets = r->want_ids;
	p->own_chat = t->own;
	for (size_t i = 0; r->has_ids && i < r->ids.n; i++)
		intvec_push(&p->ids, wire_int_at(&r->ids, i));
	for (int i = 0; i < p->n_choices; i++)
		size += p->choices[i].n;
	t->pr = p;
	return size + p->ids.len;
}

/* Fill in all but the result; returns the size of the input. */
static size_t
text_init(TextJob *t, ServerCall *c)
{
	Request    *r = c->req;
	size_t		size = r->prompt_len;

	t->j.run = text_run;
	t->j.done = text_done;
	t->c = c;
	t->be = c->srv->be;
	t->kind = c->ch.kind;
	t->pin = c->entry != NULL ? entry_pin(c->entry) : NULL;
	t->own = c->entry != NULL ? entry_chat(c->entry) : NULL;
	t->chat = r->has_chat ? &r->chat : NULL;
	t->text = r->prompt;
	t->len = r->prompt_len;
	t->chunk = c->ch.kind == WK_CHUNK ? &r->chunk : NULL;
	if (c->ch.kind == WK_DETOKENIZE)
	{
		size = r->ids.n;
		t->flags = r->params.skip_special ? TOK_SKIP_SPECIAL : 0;
		for (size_t i = 0; i < size; i++)
			intvec_push(&t->ids, wire_int_at(&r->ids, i));
	}
	else
		t->flags = r->add_special ? TOK_ADD_SPECIAL : 0;
	if (request_is_pooled(c->ch.kind))
		size += pool_init(t, r);
	if (r->embeds.given || r->embeds.want)
	{
		t->embeds = &r->embeds;
		size += r->embeds.rows.n;
	}
	if (c->ch.kind == WK_GENERATE || c->ch.kind == WK_TOKENIZE)
	{
		t->has_ids = r->has_ids;
		for (size_t i = 0; r->has_ids && i < r->ids.n; i++)
			intvec_push(&t->ids, wire_int_at(&r->ids, i));
	}
	if (c->ch.kind == WK_GENERATE)
	{
		t->structured = r->structured.given ? &r->structured.gram : NULL;
		t->grammars = c->srv->grammars;
	}
	c->job_busy = true;
	return size;
}

/* Which queue?  -1: it is done at once, for it takes no time. */
static int
text_queue(const TextJob *t, size_t size)
{
	if (t->kind == WK_GRAMMAR || (t->structured != NULL && !grammar_cache_has(t->grammars, t->structured)))
		return JQ_GRAMMAR;
	/* a template may take its time, and so may a model's first grammar */
	return size > INLINE_TEXT || t->chat != NULL || t->structured != NULL || t->embeds != NULL ? JQ_TEXT : -1;
}

/* Short texts are done at once, without memory for a job. */
void
request_start_text(ServerCall *c)
{
	TextJob		now = {0};
	TextJob    *job;
	int			queue = text_queue(&now, text_init(&now, c));

	if (queue < 0)
	{
		text_run(&now.j);
		text_finish(&now);
		return;
	}
	job = mem_alloc(sizeof(TextJob));
	*job = now;
	c->stage = SCALL_BUSY;
	jobs_submit(c->srv->jobs, (WorkerQueue) queue, &job->j);
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
	IntVec		ids = {0};

	if (!c->req->has_ids || c->req->structured.given || c->req->parse.has_budget)
	{
		request_start_text(c);
		return;
	}
	for (size_t i = 0; i < c->req->ids.n; i++)
		intvec_push(&ids, wire_int_at(&c->req->ids, i));
	submit(c, &ids, NULL, NULL);
}

/* ---- start ---- */

static void
note(const ServerCall *c)
{
	const Request *r = c->req;
	ReqNote		n = {
		.dboid = r->dboid,.roleid = r->roleid,.model = r->model,
		.params = &r->params,.given = r->given,
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
	Request    *r = c->req;
	Err			e;

	c->entry = models_entry(c->srv->models, r->dboid, r->model, r->path, r->options, &e);
	if (c->entry == NULL)
	{
		request_fail(c, &e);
		return;
	}
	entry_ref(c->entry);
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
	if (c->req != NULL && c->req->elsewhere && c->srv->be != &backend_fake)
	{
		err_set(&e, ERR_INTERNAL, "request of a remote model");
		request_fail(c, &e);
		return;
	}
	if (c->req == NULL)
	{
		request_fail(c, &e);
		return;
	}
	request_kind(c->ch.kind)->start(c);
}
