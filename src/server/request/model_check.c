/*
 * request_check.c
 *	  Requests about a model's files, which no model is loaded for; answers of facts.
 */
#include "engine/request.h"

#include <string.h>

#include "base/mem.h"
#include "engine/server.h"

static void
put_facts(WireOut *o, const ModelFacts *f)
{
	wire_put_str(o, WTAG_ARCH, f->arch, strlen(f->arch));
	wire_put_str(o, WTAG_DTYPE, f->dtype, strlen(f->dtype));
	wire_put_int(o, WTAG_MAX_MODEL_LEN, f->max_model_len);
	wire_put_int(o, WTAG_WEIGHT_BYTES, f->weight_bytes);
	wire_put_int(o, WTAG_N_PARAMS, f->n_params);
}

void
request_answer_facts(Conv *c, const ModelFacts *f)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	put_facts(&o, f);
	conv_end(c, WF_DONE, &b);
	buf_free(&b);
}

void
request_answer_text(Conv *c, const Buf *text)
{
	Buf			fields = {0};
	WireOut		out = chan_out(&fields);

	wire_put_str(&out, WTAG_TEXT, text->data, text->len);
	conv_end(c, WF_DONE, &fields);
	buf_free(&fields);
}

typedef struct CheckJob
{
	Job			j;
	Conv	   *c;
	const Backend *be;
	char	   *path;
	ModelOpts	opts;
	Settings	set;
	bool		inspect;		/* a description is wanted, in json */
	ModelFacts	facts;
	Buf			json;
	bool		ok;
	Err			e;
} CheckJob;

static void
check_run(Job *j)
{
	CheckJob   *k = (CheckJob *) j;

	if (k->inspect)
		k->ok = k->be->inspect(k->path, &k->opts, &k->set, &k->json, &k->e);
	else
		k->ok = k->be->check(k->path, &k->opts, &k->set, &k->facts, &k->e);
}

static void
check_done(Job *j)
{
	CheckJob   *k = (CheckJob *) j;

	k->c->job_busy = false;
	if (conv_is_active(k->c))
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
request_check(Conv *c)
{
	CheckJob   *k = mem_zalloc(sizeof(CheckJob));
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
	c->stage = CONV_BUSY;
	jobs_submit(c->srv->jobs, JQ_CHECK, &k->j);
}
