/*
 * model_check.c
 *	  Requests about a model's files, for which no model is loaded; and replies with the facts of a
 *	  model.
 */
#include "server/request/request.h"

#include <string.h>

#include "base/alloc.h"
#include "server/server.h"

static void
put_facts(WireOut *o, const ModelFacts *f)
{
	wire_put_str(o, WTAG_ARCH, f->arch, strlen(f->arch));
	wire_put_str(o, WTAG_DTYPE, f->dtype, strlen(f->dtype));
	wire_put_int(o, WTAG_MAX_MODEL_LEN, f->max_model_len);
	wire_put_int(o, WTAG_WEIGHT_BYTES, f->weight_bytes);
	wire_put_int(o, WTAG_N_PARAMS, f->n_params);
	if (f->ignored[0] != '\0')
		wire_put_str(o, WTAG_IGNORED, f->ignored, strlen(f->ignored));
}

void
request_answer_facts(ServerCall *c, const ModelFacts *f)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	put_facts(&o, f);
	scall_end(c, WF_DONE, &b);
	buf_free(&b);
}

void
request_answer_text(ServerCall *c, const Buf *text)
{
	Buf			fields = {0};
	WireOut		out = chan_out(&fields);

	wire_put_str(&out, WTAG_TEXT, text->data, text->len);
	scall_end(c, WF_DONE, &fields);
	buf_free(&fields);
}

typedef struct ModelCheckJob
{
	Job			j;
	ServerCall *c;
	const Backend *be;
	char	   *path;
	ModelOpts	opts;
	Settings	set;
	bool		inspect;		/* the caller wants a description, in json */
	ModelFacts	facts;
	Buf			json;
	bool		ok;
	Err			e;
} ModelCheckJob;

static void
check_run(Job *j)
{
	ModelCheckJob *k = (ModelCheckJob *) j;

	if (k->inspect)
		k->ok = k->be->loader->inspect(k->path, &k->opts, &k->set, &k->json, &k->e);
	else
		k->ok = k->be->loader->check(k->path, &k->opts, &k->set, &k->facts, &k->e);
}

static void
check_done(Job *j)
{
	ModelCheckJob *k = (ModelCheckJob *) j;

	k->c->job_busy = false;
	if (scall_is_active(k->c))
	{
		if (k->ok && k->inspect)
			request_answer_text(k->c, &k->json);
		else if (k->ok)
			request_answer_facts(k->c, &k->facts);
		else
			request_fail(k->c, &k->e);
	}
	buf_free(&k->json);
	mem_free(k->path);
	mem_free(k);
}

void
request_check(ServerCall *c)
{
	ModelCheckJob *k = mem_zalloc(sizeof(ModelCheckJob));
	ChatModel  *chat = NULL;
	Err			e;
	bool		ok = model_opts_parse(c->req->options, &k->opts, &e) &&
		chatmodel_of_options(c->req->options, &chat, &e) && (chat == NULL || chat_check(chat, &e));

	chat_free(chat);
	if (!ok)
	{
		mem_free(k);
		request_fail(c, &e);
		return;
	}
	k->j.run = check_run;
	k->j.done = check_done;
	k->c = c;
	k->be = c->srv->be;
	k->inspect = c->ch.kind == WK_MODEL_INSPECT;
	k->path = mem_strdup(c->req->path);
	settings_get(c->srv->box, &k->set);
	c->job_busy = true;
	c->stage = SCALL_BUSY;
	jobs_submit(c->srv->jobs, JQ_CHECK, &k->j);
}
