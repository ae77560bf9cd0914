/*
 * fake_backend.c
 *	  A backend without a model: deterministic outputs, so that everything around the model can be tested
 *	  without one.  docs/internals/testing.md is its manual.
 *
 * The output of a request is its prompt's words in upper case, one token a word (with a grammar what
 * fake_grammar.c makes of it); markers in the prompt ("@error", "@delay:50", ...) ask for special
 * behaviour.  fake_pooling.c makes vectors, scores and labels; the markers work there, too.  Each step
 * takes fake_step_ms and finishes at most fake_batch requests.
 *
 * One mutex per instance guards its list of requests and its counters; the step thread calls sinks
 * without holding it.  The request log is the only file-scope variable (tests have one engine per
 * process).
 *
 * Tested by tests/unit/backend/test_fake.c.
 */
#include "backend/fake/fake_grammar.h"
#include "backend/fake/fake_logprobs.h"
#include "backend/fake/fake_pooling.h"
#include "core/trace.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "runtime/engine_settings.h"

#define BLOCK_TOKENS	16
#define KV_BYTES_PER_TOKEN 1024
#define FAKE_MAX_LEN	(1 << 25)
#define LOG_PROMPT		1024	/* bytes of a prompt in the log */
#define LOG_MAX			(16 << 20)

/* ---- requests ---- */

typedef struct FakeReq FakeReq;

/* The backend's interface passes it as a Req, and never accesses its contents. */
struct FakeReq
{
	ReqSpec		spec;
	FakeReq	   *next;
	char	   *prompt;			/* NUL-terminated text of the ids */
	int			n_prompt;		/* tokens of all sequences */
	Buf			answer;			/* whole text of the output */
	IntVec		cuts;			/* end offset of each token's text in answer */
	size_t		words;			/* bytes of answer before what a seed adds */
	size_t		sent;			/* tokens sent */
	int			n_ended;		/* answers that have ended */
	ReqFinish	finish;
	const char *stop_reason;
	int			blocks;
	int64_t		arrival_us;
	int64_t		scheduled_us;
	int64_t		first_us;
	int64_t		due_us;			/* when to continue; INT64_MAX = never */
	int64_t		slow_us;		/* delay between tokens */
	bool		cancelled;
	bool		started;		/* the step thread has started it */
	bool		counted;		/* it is counted as running */
};

struct BackendModel
{
	pthread_mutex_t lock;
	FakeReq	   *head;			/* in order of arrival */
	FakeReq	  **tail;
	CoreStats	st;
	int			max_len;
	bool		priorities;		/* requests may have priorities */
	unsigned	tasks;			/* supported tasks: bits 1 << PoolTask */
	int64_t		counter;		/* varies sampling without a seed */
	bool		suspended;
	bool		lame;			/* "@lame" gives an error */
	char		digest[MODEL_DIGEST];	/* digest of its path, and of a file's contents there */
	ChatModel  *chat;
};

typedef struct FakeLog
{
	pthread_mutex_t lock;
	Buf			text;
} FakeLog;

static FakeLog fake_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Return the text after "@name:", NULL if the marker is absent; *flag is set for "@name" alone. */
static const char *
marker(const char *prompt, const char *name, bool *flag)
{
	size_t		n = strlen(name);

	if (flag != NULL)
		*flag = false;
	for (const char *p = strchr(prompt, '@'); p != NULL; p = strchr(p + 1, '@'))
		if (strncmp(p + 1, name, n) == 0)
		{
			char		c = p[1 + n];

			if (c == ':')
				return p + n + 2;
			if (flag != NULL && !isalnum((unsigned char) c))
				*flag = true;
		}
	return NULL;
}

static bool
has_marker(const char *prompt, const char *name)
{
	bool		flag;

	return marker(prompt, name, &flag) != NULL || flag;
}

static int64_t
marker_num(const char *prompt, const char *name, int64_t dflt)
{
	const char *v = marker(prompt, name, NULL);

	return v != NULL ? strtoll(v, NULL, 10) : dflt;
}

/* ---- outputs ---- */

static void
end_token(FakeReq *r)
{
	intvec_push(&r->cuts, (int32_t) r->answer.len);
}

static void
words_of_prompt(FakeReq *r, int max_tokens)
{
	const char *p = r->prompt;
	int			n = 0;

	r->finish = FIN_STOP;
	if (r->spec.lora != NULL && max_tokens > 0)
	{
		buf_printf(&r->answer, "[%s]", r->spec.lora->label);
		end_token(r);
		n++;
	}
	for (;;)
	{
		while (isspace((unsigned char) *p))
			p++;
		if (*p == '\0')
			return;
		if (n == max_tokens)
		{
			r->finish = FIN_LENGTH;
			return;
		}
		if (n++ > 0)
			buf_addc(&r->answer, ' ');
		for (; *p != '\0' && !isspace((unsigned char) *p); p++)
			buf_addc(&r->answer, (char) toupper((unsigned char) *p));
		end_token(r);
	}
}

static void
numbered_words(FakeReq *r, int64_t n, int max_tokens)
{
	r->finish = FIN_STOP;
	if (n > max_tokens)
	{
		n = max_tokens;
		r->finish = FIN_LENGTH;
	}
	for (int64_t i = 1; i <= n; i++)
	{
		buf_printf(&r->answer, "%sw%lld", i > 1 ? " " : "", (long long) i);
		end_token(r);
	}
}

static void
big_answer(FakeReq *r, int64_t bytes)
{
	if (bytes < 0 || bytes > (INT64_C(1) << 30))
		bytes = 0;
	buf_reserve(&r->answer, (size_t) bytes);
	memset(r->answer.data, 'x', (size_t) bytes);
	r->answer.len = (size_t) bytes;
	r->answer.data[bytes] = '\0';
	r->finish = FIN_STOP;
	end_token(r);
}

/*
 * Make the output of the text between "@say:" and "@end": a token per word, each with the blanks that
 * follow it.
 */
static void
said(FakeReq *r, const char *text, int max_tokens)
{
	const char *end = strstr(text, "@end");

	if (end == NULL)
		end = text + strlen(text);
	r->finish = FIN_STOP;
	for (const char *p = text; p < end;)
	{
		const char *from = p;

		if (r->cuts.len == (size_t) max_tokens)
		{
			r->finish = FIN_LENGTH;
			return;
		}
		while (p < end && !isspace((unsigned char) *p))
			p++;
		while (p < end && isspace((unsigned char) *p))
			p++;
		buf_add(&r->answer, from, (size_t) (p - from));
		end_token(r);
	}
}

/* Cut the output at the earliest stop string. */
static void
apply_stop(FakeReq *r)
{
	const GenParams *p = &r->spec.params;
	const char *best = NULL;
	int			which = -1;
	size_t		len;

	for (int i = 0; i < p->n_stop && r->answer.len > 0; i++)
	{
		const char *at = memmem(r->answer.data, r->answer.len, p->stop[i], p->stop_len[i]);

		if (at != NULL && (best == NULL || at < best))
		{
			best = at;
			which = i;
		}
	}
	if (best == NULL)
		return;
	len = (size_t) (best - r->answer.data) + (p->include_stop ? p->stop_len[which] : 0);
	buf_cut(&r->answer, len);
	for (size_t i = 0; i < r->cuts.len; i++)
		if ((size_t) r->cuts.data[i] >= len)
		{
			r->cuts.data[i] = (int32_t) len;
			r->cuts.len = i + 1;
			break;
		}
	r->finish = FIN_STOP;
	r->stop_reason = p->stop[which];
}

static void
make_answer(BackendModel *in, FakeReq *r)
{
	const GenParams *p = &r->spec.params;
	const char *say;
	int64_t		n;

	if ((n = marker_num(r->prompt, "big", -1)) >= 0)
		big_answer(r, n);
	else if (r->spec.grammar != NULL)
	{
		fake_fitting(r->spec.grammar, r->prompt, p->max_tokens, &r->answer, &r->cuts, &r->finish);
		return;
	}
	else if ((n = marker_num(r->prompt, "tokens", -1)) >= 0)
		numbered_words(r, n, p->max_tokens);
	else if ((say = marker(r->prompt, "say", NULL)) != NULL)
		said(r, say, p->max_tokens);
	else
		words_of_prompt(r, p->max_tokens);
	r->words = r->answer.len;
	if (p->temperature > 0 && p->out.beam_width == 0)
	{
		if (p->has_seed)
			buf_printf(&r->answer, " #%lld", (long long) p->seed);
		else
			buf_printf(&r->answer, " #r%lld", (long long) ++in->counter);
	}
	if (has_marker(r->prompt, "nul"))
		buf_add(&r->answer, "\0", 1);
	if (has_marker(r->prompt, "badutf8"))
		buf_add(&r->answer, "\xff\xfe", 2);
	if (r->cuts.len > 0)
		r->cuts.data[r->cuts.len - 1] = (int32_t) r->answer.len;
	else if (r->answer.len > 0)
		end_token(r);
	apply_stop(r);
}

/* ---- events (step thread) ---- */

static void
emit(FakeReq *r, ReqEvent *ev)
{
	ev->prompt_tokens = r->n_prompt;
	ev->output_tokens = (int) r->sent * (r->n_ended > 1 ? r->n_ended : 1);
	ev->arrival_us = r->arrival_us;
	ev->scheduled_us = r->scheduled_us;
	r->spec.sink(r->spec.sink_ctx, (Req *) r, ev);
}

/* Return the number of answers that the request asks for. */
static int
n_answers(const FakeReq *r)
{
	const OutParams *out = &r->spec.params.out;

	return out->beam_width > 0 ? out->beam_width : out->n;
}

/* Make answer i from the first one: the same words, with another seed. */
static void
other_answer(BackendModel *in, const FakeReq *r, int i, Buf *text)
{
	const GenParams *p = &r->spec.params;
	size_t		words = r->words < r->answer.len ? r->words : r->answer.len;

	buf_add(text, r->answer.data, words);
	if (p->out.beam_width > 0)
		buf_printf(text, " beam %d", i);
	else if (p->has_seed)
		buf_printf(text, " #%lld", (long long) p->seed + i);
	else
		buf_printf(text, " #r%lld", (long long) ++in->counter);
}

/* Send the end of the first answer, then all other answers. */
static void
send_ends(BackendModel *in, FakeReq *r, ReqEvent *ev)
{
	ReqFinish	finish = ev->finish;
	int			n = n_answers(r);
	IntVec		ids = {0};
	Buf			text = {0};
	Logprobs   *lp = NULL;

	ev->is_beam = r->spec.params.out.beam_width > 0;
	for (int i = 0; i < n; i++)
	{
		ev->index = i;
		ev->finish = i + 1 < n ? FIN_NONE : finish;
		if (ev->is_beam)
		{
			ev->cum_logprob = -1 - i;
			ev->score = ev->cum_logprob / ((double) r->sent + r->n_prompt);
		}
		if (i == 1)
		{
			for (size_t k = 0; k < r->sent; k++)
				intvec_push(&ids, 256 + (int32_t) k);
			ev->ids = ids.data;
			ev->n_ids = (int) ids.len;
			ev->logprobs = lp = fakeout_logprobs(&r->spec.params.out, ids.data, ev->n_ids);
			ev->prompt_logprobs = NULL;
		}
		if (i > 0 && r->spec.params.detokenize)
		{
			buf_reset(&text);
			other_answer(in, r, i, &text);
			ev->text = text.data;
			ev->text_len = text.len;
		}
		r->n_ended = i + 1;
		emit(r, ev);
	}
	intvec_free(&ids);
	buf_free(&text);
	logprobs_free(lp);
}

static void
send_event(BackendModel *in, FakeReq *r, size_t upto, ReqFinish finish, const Err *err)
{
	size_t		from = r->sent > 0 ? (size_t) r->cuts.data[r->sent - 1] : 0;
	size_t		to = upto > 0 ? (size_t) r->cuts.data[upto - 1] : 0;
	IntVec		ids = {0};
	bool		first = r->sent == 0;
	Logprobs   *lp;
	Logprobs   *prompt_lp = NULL;
	ReqEvent	ev = {.finish = finish,.ended = finish,.err = err,.reasoning_tokens = -1};

	ALWAYS(upto >= r->sent && upto <= r->cuts.len);
	for (size_t i = r->sent; i < upto; i++)
		intvec_push(&ids, 256 + (int32_t) i);
	ev.ids = ids.data;
	ev.n_ids = (int) ids.len;
	if (r->spec.params.detokenize && to > from)
	{
		ev.text = r->answer.data + from;
		ev.text_len = to - from;
	}
	r->sent = upto;
	ev.stop_reason = r->stop_reason;
	ev.now_us = clock_us();
	if (upto > 0 && r->first_us == 0)
		r->first_us = ev.now_us;
	ev.first_token_us = r->first_us;
	ev.logprobs = lp = fakeout_logprobs(&r->spec.params.out, ids.data, ev.n_ids);
	if (first && upto > 0)
		ev.prompt_logprobs = prompt_lp = fakeout_prompt(&r->spec.params.out, &r->spec.prompt);
	ev.cum_logprob = lp != NULL ? FAKE_LOGPROB * (double) upto : 0;
	if (finish == FIN_STOP || finish == FIN_LENGTH)
		send_ends(in, r, &ev);
	else
		emit(r, &ev);
	logprobs_free(lp);
	logprobs_free(prompt_lp);
	intvec_free(&ids);
}

static void
send_pooled(FakeReq *r)
{
	FakePooled	p;
	ReqEvent	ev = {.finish = FIN_STOP,.ended = FIN_STOP,.now_us = clock_us(),.reasoning_tokens = -1};

	fakepool_answer(&r->spec.pool, &p);
	for (int i = 0; r->spec.lora != NULL && i < p.n_rows * p.width; i++)
		p.values[i] = -p.values[i];
	ev.values = p.values;
	ev.n_rows = p.n_rows;
	ev.width = p.width;
	ev.counts = p.counts;
	ev.greedy = p.greedy;
	emit(r, &ev);
	fakepool_free(&p);
}

static void
req_free(FakeReq *r)
{
	genparams_free(&r->spec.params);
	grammar_unref(r->spec.grammar);
	rbudget_free(r->spec.reasoning_budget);
	poolspec_free(&r->spec.pool);
	intvec_free(&r->spec.prompt);
	mem_free(r->spec.embeds);
	intvec_free(&r->cuts);
	buf_free(&r->answer);
	mem_free(r->prompt);
	mem_free(r);
}

/* Handle "@error" and "@error:SQLSTATE:text". */
static bool
fake_error(const BackendModel *in, const char *prompt, Err *e)
{
	bool		flag;
	const char *v = marker(prompt, "error", &flag);
	const char *text;

	if (in->lame && has_marker(prompt, "lame"))
	{
		err_set(e, ERR_LOST, "fake model failed");
		return true;
	}
	if (v == NULL)
		return flag ? (err_set(e, ERR_INVALID, "fake error"), true) : false;
	text = strchr(v, ':');
	for (int c = ERR_INVALID; c <= ERR_INTERNAL; c++)
		if (strncmp(v, err_sqlstate((ErrClass) c), 5) == 0 || c == ERR_INTERNAL)
		{
			err_set(e, (ErrClass) c, "%.400s", text != NULL ? text + 1 : "fake error");
			return true;
		}
	return false;
}

static bool
is_pooled(const FakeReq *r)
{
	return r->spec.pool.task != PT_NONE;
}

static char *
text_of_ids(const IntVec *ids)
{
	char	   *t = mem_alloc(ids->len + 1);

	for (size_t i = 0; i < ids->len; i++)
		t[i] = (char) ids->data[i];
	t[ids->len] = '\0';
	return t;
}

/* The step thread starts a request: makes its output and returns when it is due (0 = now). */
static int64_t
start(BackendModel *in, FakeReq *r)
{
	int64_t		delay;

	r->started = true;
	r->scheduled_us = clock_us();
	if (is_pooled(r))
		r->prompt = fakepool_text(&r->spec.pool);
	else
	{
		r->prompt = text_of_ids(&r->spec.prompt);
		r->slow_us = marker_num(r->prompt, "slow", 0) * 1000;
		make_answer(in, r);
	}
	send_event(in, r, 0, FIN_NONE, NULL);
	if (has_marker(r->prompt, "hang"))
		return INT64_MAX;
	delay = marker_num(r->prompt, "delay", 0) * 1000;
	return delay > 0 ? clock_us() + delay : 0;
}

/* Advance a due request; returns true when it has ended, else *due says when to continue. */
static bool
advance(BackendModel *in, FakeReq *r, bool cancelled, int64_t *due)
{
	Err			e;

	if (cancelled)
	{
		send_event(in, r, r->sent, FIN_ABORT, NULL);
		return true;
	}
	if (!r->started && (*due = start(in, r)) > 0)
		return false;
	if (has_marker(r->prompt, "crash"))
		abort();
	while (has_marker(r->prompt, "stall"))
		usleep(100000);
	if (has_marker(r->prompt, "close"))
	{
		e.cls = ERR_NONE;
		send_event(in, r, r->sent, FIN_ERROR, &e);
		return true;
	}
	if (fake_error(in, r->prompt, &e))
	{
		send_event(in, r, r->sent, FIN_ERROR, &e);
		return true;
	}
	if (is_pooled(r))
	{
		send_pooled(r);
		return true;
	}
	if (r->slow_us > 0 && r->sent + 1 < r->cuts.len && r->spec.params.out.beam_width == 0)
	{
		send_event(in, r, r->sent + 1, FIN_NONE, NULL);
		*due = clock_us() + r->slow_us;
		return false;
	}
	while (r->slow_us == 0 && r->sent + 1 < r->cuts.len && r->sent < 256 &&
		   r->spec.params.out.beam_width == 0)
		send_event(in, r, r->sent + 1, FIN_NONE, NULL);
	send_event(in, r, r->cuts.len, r->finish, NULL);
	return true;
}

/* ---- the backend's functions ---- */

static void
fake_facts(const BackendModel *in, ModelFacts *out)
{
	*out = (ModelFacts)
	{
		.arch = "fake",.dtype = "F32",.isa = "fake",.device = "cpu",.max_model_len = in->max_len,
			.weight_bytes = 1 << 20,.memory_bytes = in->st.kv_bytes,.n_params = 1 << 18,
			.cache = {.block_size = BLOCK_TOKENS,.dtype = "f16"}
	};
}

static BackendModel *
fake_load(const char *path, const ModelOpts *o, const Settings *s,
		  LoadProgress progress, void *ctx, Err *e)
{
	static const char source[] =
		"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
		"{{ 'assistant:' if add_generation_prompt }}";
	BackendModel *in;
	int64_t		ms = 0;
	int64_t		kv = settings_kv_bytes(o->kv_cache_memory_bytes, s);

	if (strncmp(path, "/fake/slow:", 11) == 0)
		ms = strtoll(path + 11, NULL, 10);
	for (int64_t done = 0; done < ms; done += 10)
	{
		if (!progress(ctx, (double) done / (double) ms))
		{
			err_set(e, ERR_CANCELLED, "loading was cancelled");
			return NULL;
		}
		usleep(10000);
	}
	if (strcmp(path, "/fake/fail") == 0)
	{
		err_set(e, ERR_BAD_FILE, "fake load failure");
		return NULL;
	}
	in = mem_zalloc(sizeof(BackendModel));
	in->chat = chat_new();
	if (strcmp(path, "/fake/mute") != 0)
		chat_template(in->chat, "default", source, sizeof(source) - 1);
	chat_special(in->chat, "bos_token", "<s>", 3);
	chat_special(in->chat, "eos_token", "</s>", 4);
	pthread_mutex_init(&in->lock, NULL);
	in->tail = &in->head;
	in->priorities = strcmp(s->scheduling_policy, "priority") == 0;
	in->max_len = o->max_model_len > 0 ? o->max_model_len : FAKE_MAX_LEN;
	in->tasks = strcmp(path, "/fake/embed") == 0 ? 1u << PT_EMBED | 1u << PT_TOKEN_EMBED : ~0u;
	in->lame = strncmp(path, "/fake/lame", 10) == 0;
	fakepool_digest(path, in->digest);
	in->st.kv_bytes = kv;
	in->st.kv_blocks_total = kv / (BLOCK_TOKENS * KV_BYTES_PER_TOKEN);
	return in;
}

static bool
fake_check(const char *path, const ModelOpts *o, const Settings *s, ModelFacts *out, Err *e)
{
	BackendModel in = {.max_len = o->max_model_len > 0 ? o->max_model_len : FAKE_MAX_LEN};

	in.st.kv_bytes = settings_kv_bytes(o->kv_cache_memory_bytes, s);
	if (strcmp(path, "/fake/bad") == 0)
		return err_set(e, ERR_BAD_FILE, "fake bad model files");
	fake_facts(&in, out);
	return true;
}

static bool
fake_inspect(const char *path, const ModelOpts *o, const Settings *s, Buf *json, Err *e)
{
	ModelFacts	facts;

	if (!fake_check(path, o, s, &facts, e))
		return false;
	buf_addstr(json, "{\"format\": \"fake\", \"supported\": true}");
	return true;
}

static void
fake_free(BackendModel *in)
{
	FakeReq	   *r = in->head;

	while (r != NULL)
	{
		FakeReq	   *next = r->next;

		send_event(in, r, r->sent, FIN_ABORT, NULL);
		req_free(r);
		r = next;
	}
	pthread_mutex_destroy(&in->lock);
	chat_free(in->chat);
	mem_free(in);
}

static bool
fake_encode(const BackendModel *in, const char *s, size_t n, unsigned flags, IntVec *out, Err *e)
{
	static const char slow[] = "@encode:";
	char		ms[8];
	int32_t    *ids = mem_try_alloc(n * sizeof(int32_t));

	(void) in;
	(void) flags;
	if (ids == NULL)
		return err_set(e, ERR_NOMEM, "out of memory");
	/* only at the beginning and with text after it: the text has no NUL at its end */
	if (n > sizeof(slow) + 16 && memcmp(s, slow, sizeof(slow) - 1) == 0)
	{
		snprintf(ms, sizeof(ms), "%.*s", (int) sizeof(ms) - 1, s + sizeof(slow) - 1);
		usleep((useconds_t) atoi(ms) * 1000);
	}
	for (size_t i = 0; i < n; i++)
		ids[i] = (unsigned char) s[i];
	intvec_free(out);
	*out = (IntVec)
	{
		.data = ids,.len = n,.cap = n
	};
	return true;
}

static bool
fake_encode_marked(const BackendModel *in, const char *s, const uint8_t *marks, size_t n, IntVec *out, Err *e)
{
	(void) marks;
	return fake_encode(in, s, n, 0, out, e);
}

static bool
fake_token_starts(const BackendModel *in, const char *s, size_t n, IntVec *out, Err *e)
{
	(void) in, (void) s, (void) e;
	for (size_t i = 0; i < n; i++)
		intvec_push(out, (int32_t) i);
	return true;
}

static const ChatModel *
fake_chat(const BackendModel *in)
{
	return in->chat;
}

/* ---- adapters: any directory is valid ---- */

static const char *
last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static bool
fake_lora_check(const char *path, LoraInfo *out, Err *e)
{
	const char *name = last_part(path);
	char		file[300];
	struct stat st;

	memset(out, 0, sizeof(*out));
	if (strncmp(path, "/fake/", 6) != 0 && access(path, R_OK) != 0)
		return err_set(e, ERR_IO, "could not open directory \"%.256s\"", path);
	if (strcmp(name, "fail") == 0)
		return err_set(e, ERR_BAD_FILE, "fake adapter failure");
	if (strncmp(name, "slow:", 5) == 0)
		usleep((useconds_t) atoi(name + 5) * 1000);
	out->rank = strncmp(name, "rank:", 5) == 0 ? atoi(name + 5) : 8;
	out->alpha = 16;
	snprintf(file, sizeof(file), "%.256s/adapter_model.safetensors", path);
	out->bytes = stat(file, &st) == 0 ? (int64_t) st.st_size : 4096 * (int64_t) out->rank;
	snprintf(out->modules, sizeof(out->modules), "q_proj,v_proj");
	return true;
}

static LoraAdapter *
fake_lora_load(const BackendModel *in, const char *path, const LoraLimits *limits, Err *e)
{
	LoraAdapter *a = mem_zalloc(sizeof(LoraAdapter));

	(void) in;
	snprintf(a->label, sizeof(a->label), "%s", last_part(path));
	if (fake_lora_check(path, &a->info, e) && a->info.rank <= limits->max_rank)
		return a;
	if (a->info.rank > limits->max_rank)
		err_set(e, ERR_TOO_LONG, "the adapter's rank %d is above max_lora_rank (%d)", a->info.rank,
				limits->max_rank);
	lora_free(a);
	return NULL;
}

/* Only tokens of bytes have a text; those of outputs have none of their own. */
static void
fake_piece(const BackendModel *in, int32_t id, Buf *out)
{
	(void) in;
	if (id >= 0 && id < 256)
		buf_addc(out, (char) id);
	else
		buf_printf(out, "w%d", id - 256);
}

static bool
fake_decode(const BackendModel *in, const int32_t *ids, size_t n, unsigned flags, Buf *out, Err *e)
{
	(void) in;
	(void) flags;
	for (size_t i = 0; i < n; i++)
	{
		if (ids[i] < 0 || ids[i] > 255)
			return err_set(e, ERR_INVALID, "token id %d is out of range", ids[i]);
		buf_addc(out, (char) ids[i]);
	}
	return true;
}

static bool
fake_prepare_grammar(BackendModel *in, Err *e)
{
	(void) in, (void) e;
	return true;
}

static bool
fake_normalize(const BackendModel *in, GenParams *p, uint64_t given, const IntVec *prompt, Err *e)
{
	int			room;

	if (prompt->len == 0)
	{
		err_set(e, ERR_INVALID, "prompt must not be empty");
		return err_detail(e, "parameter=prompt");
	}
	for (size_t i = 0; i < prompt->len; i++)
		if (prompt->data[i] < 0 || prompt->data[i] > 255)
		{
			err_set(e, ERR_INVALID, "token id %d is out of range", prompt->data[i]);
			return err_detail(e, "parameter=prompt");
		}
	if (prompt->len >= (size_t) in->max_len)
		return err_set(e, ERR_TOO_LONG,
					   "prompt of %zu tokens is longer than the maximum model length of %d",
					   prompt->len, in->max_len);
	room = in->max_len - (int) prompt->len;
	if (!(given & GP(MAX_TOKENS)) || p->max_tokens > room)
		p->max_tokens = room;
	if (!(given & GP(TEMPERATURE)))
		p->temperature = p->out.n > 1 ? 1 : 0;
	return priority_check(p->priority, in->priorities, e) &&
		outparams_check(&p->out, p->temperature, 256, LOGPROBS_MAX, e);
}

static bool
fake_pool(const BackendModel *in, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e)
{
	return fakepool_make(in->tasks, in->max_len, pr, out, extra, e);
}

static const char *const *
fake_labels(const BackendModel *in, PoolTask task)
{
	(void) in;
	return fakepool_labels(task);
}

/* Read the bytes that the rows represent; any other row is a question mark. */
static void
read_rows(ReqSpec *spec)
{
	for (size_t i = 0; i < spec->prompt.len; i++)
	{
		float		x = spec->embeds[i * FAKE_ROW_WIDTH];

		spec->prompt.data[i] = x >= 1 && x <= 255 ? (int32_t) x : '?';
	}
}

static void
fake_submit(BackendModel *in, ReqSpec *spec)
{
	FakeReq	   *r = mem_zalloc(sizeof(FakeReq));

	r->spec = *spec;
	memset(spec, 0, sizeof(*spec));
	if (r->spec.embeds != NULL)
		read_rows(&r->spec);
	r->arrival_us = clock_us();
	r->n_prompt = (int) r->spec.prompt.len;
	for (int i = 0; i < r->spec.pool.n_seqs; i++)
		r->n_prompt += (int) r->spec.pool.seqs[i].ids.len;
	r->blocks = (r->n_prompt + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
	pthread_mutex_lock(&in->lock);
	in->st.kv_blocks_used += r->blocks;
	in->st.requests++;
	in->st.waiting++;
	*in->tail = r;
	in->tail = &r->next;
	pthread_mutex_unlock(&in->lock);
}

static void
fake_cancel(BackendModel *in, uint64_t id)
{
	pthread_mutex_lock(&in->lock);
	for (FakeReq *r = in->head; r != NULL; r = r->next)
		if (r->spec.id == id)
		{
			r->cancelled = true;
			r->due_us = 0;
		}
	pthread_mutex_unlock(&in->lock);
}

static int64_t
fake_next_due(BackendModel *in, int lane)
{
	int64_t		due = INT64_MAX;

	(void) lane;
	pthread_mutex_lock(&in->lock);
	for (FakeReq *r = in->head; r != NULL; r = r->next)
		if (r->due_us < due && (!in->suspended || r->cancelled))
			due = r->due_us;
	pthread_mutex_unlock(&in->lock);
	return due;
}

/* Like work_class.c, but without sessions: more than LATENCY_REQUESTS requests count as one statement. */
static WorkClass
fake_work_class(BackendModel *in, int lane)
{
	WorkClass	class = WORK_NONE;
	int			n = 0;

	(void) lane;
	pthread_mutex_lock(&in->lock);
	for (const FakeReq *r = in->head; r != NULL; r = r->next)
	{
		n += !r->spec.by.background;
		if (class == WORK_NONE)
			class = WORK_BACKGROUND;
	}
	pthread_mutex_unlock(&in->lock);
	return n == 0 ? class : n <= LATENCY_REQUESTS ? WORK_LATENCY : WORK_THROUGHPUT;
}

/* Count the blocks that the request's tokens take; the caller holds the lock. */
static void
update_blocks(BackendModel *in, FakeReq *r)
{
	int			blocks = (int) (((size_t) r->n_prompt + r->sent + BLOCK_TOKENS - 1) / BLOCK_TOKENS);

	in->st.kv_blocks_used += blocks - r->blocks;
	r->blocks = blocks;
}

/* Remove r from the list and count how it ended; the caller holds the lock. */
static void
retire(BackendModel *in, FakeReq *r, bool cancelled)
{
	FakeReq	  **pp = &in->head;

	while (*pp != r)
		pp = &(*pp)->next;
	*pp = r->next;
	if (r->next == NULL)
		in->tail = pp;
	ASSERT(in->st.running > 0 && in->st.kv_blocks_used >= r->blocks);
	in->st.running--;
	in->st.kv_blocks_used -= r->blocks;
	in->st.prompt_tokens += r->n_prompt;
	in->st.output_tokens += (int64_t) r->sent;
	if (cancelled)
		in->st.cancelled++;
	else if (fake_error(in, r->prompt, &(Err){0}) || has_marker(r->prompt, "close"))
		in->st.failed++;
	else
		in->st.finished++;
}

static void
fake_step(BackendModel *in, int lane, const Settings *s)
{
	int64_t		start = clock_us();
	int			n = 0;
	int64_t		now;
	int64_t		rows;
	FakeReq	   *r;

	(void) lane;
	if (s->fake_step_ms > 0)
		usleep((useconds_t) s->fake_step_ms * 1000);
	now = clock_us();
	pthread_mutex_lock(&in->lock);
	in->st.steps++;
	rows = in->st.step_rows;
	r = in->head;
	while (r != NULL && n < s->fake_batch)
	{
		FakeReq	   *next;
		bool		over;
		bool		cancelled = r->cancelled;
		size_t		before = r->sent;
		int64_t		due = 0;

		if (r->due_us > now || (in->suspended && !r->cancelled))
		{
			r = r->next;
			continue;
		}
		if (!r->counted)
		{
			r->counted = true;
			in->st.waiting--;
			in->st.running++;
			in->st.step_rows += r->n_prompt;
		}
		pthread_mutex_unlock(&in->lock);
		over = advance(in, r, cancelled, &due);
		pthread_mutex_lock(&in->lock);
		n++;
		r->due_us = r->cancelled ? 0 : due;
		in->st.step_rows += (int64_t) (r->sent - before);
		update_blocks(in, r);
		next = r->next;
		if (over)
		{
			retire(in, r, cancelled);
			req_free(r);
		}
		r = next;
	}
	in->st.step_seqs += n;
	in->st.step_sizes[step_size((int) (in->st.step_rows - rows))]++;
	if (n > in->st.max_batch)
		in->st.max_batch = n;
	in->st.step_us += clock_us() - start;
	in->st.generate_us = in->st.step_us;
	if (n > 0 && trace_on())
		trace_step(&(TraceStep) {.core = in,
								 .at = {[TM_BEGIN] = start, [TM_PLAN] = now, [TM_END] = clock_us()},
								 .seqs = n,
			.rows = (int) (in->st.step_rows - rows), .sampled = n});
	pthread_mutex_unlock(&in->lock);
}

static void
set_suspended(BackendModel *in, bool suspended)
{
	pthread_mutex_lock(&in->lock);
	in->suspended = suspended;
	pthread_mutex_unlock(&in->lock);
}

static void
fake_suspend(BackendModel *in, bool free_kv)
{
	(void) free_kv;
	set_suspended(in, true);
}

static bool
fake_resume(BackendModel *in, Err *e)
{
	(void) e;
	set_suspended(in, false);
	return true;
}

static void
fake_stats(const BackendModel *in, CoreStats *out)
{
	pthread_mutex_lock((pthread_mutex_t *) &in->lock);
	*out = in->st;
	out->live = out->running + out->waiting;
	pthread_mutex_unlock((pthread_mutex_t *) &in->lock);
}

static bool
fake_check_state(const BackendModel *in, Err *e)
{
	int64_t		blocks = 0;
	int64_t		live = 0;
	bool		ok;

	pthread_mutex_lock((pthread_mutex_t *) &in->lock);
	for (const FakeReq *r = in->head; r != NULL; r = r->next)
	{
		blocks += r->blocks;
		live++;
	}
	ok = blocks == in->st.kv_blocks_used && live == in->st.running + in->st.waiting;
	if (!ok)
		err_set(e, ERR_INTERNAL, "fake: %lld requests hold %lld blocks, counters say %lld and %lld",
				(long long) live, (long long) blocks,
				(long long) (in->st.running + in->st.waiting), (long long) in->st.kv_blocks_used);
	pthread_mutex_unlock((pthread_mutex_t *) &in->lock);
	return ok;
}

/* ---- the request log ---- */

static void
log_text(Buf *b, const char *s, size_t n)
{
	size_t		len = n < LOG_PROMPT ? n : LOG_PROMPT;

	for (size_t i = 0; i < len; i++)
	{
		if (s[i] == '\n')
			buf_addstr(b, "\\n");
		else if (s[i] == '\\')
			buf_addstr(b, "\\\\");
		else
			buf_addc(b, s[i]);
	}
	if (len < n)
		buf_addstr(b, "...");
}

static void
fake_note(const ReqNote *n)
{
	pthread_mutex_lock(&fake_log.lock);
	if (fake_log.text.len < LOG_MAX)
	{
		Buf		   *b = &fake_log.text;

		buf_printf(b, "%u %u %s ", n->dboid, n->roleid, n->model);
		if (n->task != PT_NONE)
			buf_printf(b, "%s ", pool_task_name(n->task));
		else if (n->given & GP(MAX_TOKENS))
			buf_printf(b, "%d ", n->params->max_tokens);
		else
			buf_addstr(b, "- ");
		if (n->given & GP(TEMPERATURE))
			buf_printf(b, "%g ", n->params->temperature);
		else
			buf_addstr(b, "- ");
		log_text(b, n->prompt, n->prompt_len);
		for (int i = 0; i < n->n_more; i++)
		{
			buf_addstr(b, " | ");
			log_text(b, n->more[i].s, n->more[i].n);
		}
		buf_addc(b, '\n');
	}
	pthread_mutex_unlock(&fake_log.lock);
}

static bool
fake_control(const char *command, Buf *out)
{
	bool		known = true;

	pthread_mutex_lock(&fake_log.lock);
	if (strcmp(command, "log") == 0)
		buf_add(out, fake_log.text.data != NULL ? fake_log.text.data : "", fake_log.text.len);
	else if (strcmp(command, "log-clear") == 0)
		buf_free(&fake_log.text);
	else
		known = false;
	pthread_mutex_unlock(&fake_log.lock);
	return known;
}

static const ModelLoader loader = {
	.check = fake_check,
	.inspect = fake_inspect,
	.load = fake_load,
	.free = fake_free,
	.facts = fake_facts,
	.lora_check = fake_lora_check,
	.lora_load = fake_lora_load,
};

static const Generator generator = {
	.encode = fake_encode,
	.encode_marked = fake_encode_marked,
	.token_starts = fake_token_starts,
	.chat = fake_chat,
	.piece = fake_piece,
	.decode = fake_decode,
	.pool = fake_pool,
	.labels = fake_labels,
	.prepare_grammar = fake_prepare_grammar,
	.normalize = fake_normalize,
	.embed_width = fakepool_embed_width,
	.token_rows = fakepool_token_rows,
	.submit = fake_submit,
	.cancel = fake_cancel,
	.next_due = fake_next_due,
	.work_class = fake_work_class,
	.step = fake_step,
};

static bool
fake_get_digest(const BackendModel *in, char hex[MODEL_DIGEST], Err *e)
{
	(void) e;
	memcpy(hex, in->digest, MODEL_DIGEST);
	return true;
}

static const ModelControl control = {
	.get_digest = fake_get_digest,
	.stats = fake_stats,
	.check_state = fake_check_state,
	.suspend = fake_suspend,
	.resume = fake_resume,
};

static const BackendHooks hooks = {
	.note = fake_note,
	.control = fake_control,
};

const Backend backend_fake = {"fake", &loader, &generator, &control, &hooks};
