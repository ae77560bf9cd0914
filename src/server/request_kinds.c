/*
 * request_kinds.c
 *	  What the server does with each kind of request.
 */
#include "server/request_kinds.h"

#include "base/json/json_writer.h"
#include "server/api/api_call.h"
#include "server/models/lora_cache.h"
#include "server/models/registry.h"
#include "server/request/request.h"
#include "server/server.h"

static void
unload_model(ServerCall *c)
{
	models_unload(c->srv->models, c->req->dboid, c->req->model, c);
}

static void
forget_model(ServerCall *c)
{
	models_forget(c->srv->models, c->req->dboid, c->req->model, c->req->model_hash);
	scall_end(c, WF_DONE, NULL);
}

static void
unload_lora(ServerCall *c)
{
	loras_unload(models_loras(c->srv->models, c->req->dboid, c->req->model), c);
}

static void
list_loras(ServerCall *c)
{
	Buf			text = {0};
	JsonOut		j = {.b = &text};

	json_open(&j, '[');
	models_list_loras(c->srv->models, c->req->dboid, &j);
	json_close(&j, ']');
	request_answer_text(c, &text);
	buf_free(&text);
}

static void
run_command(ServerCall *c)
{
	server_control(c->srv, c, c->req->command);
}

/* chan_receive() refuses a kind that is not one of these. */
static const RequestKind kinds[WK_COUNT] = {
	[WK_GENERATE] = {.counted = true,.lora = true,.start = request_start_counted,.run = request_run_generate},
	[WK_POOL] = {.counted = true,.lora = true,.start = request_start_counted,.run = request_start_text},
	[WK_LOGPROBS] = {.counted = true,.lora = true,.start = request_start_counted,.run = request_start_text},
	[WK_TOKENIZE] = {.start = request_start_with_model,.run = request_start_text},
	[WK_DETOKENIZE] = {.start = request_start_with_model,.run = request_start_text},
	[WK_CHUNK] = {.start = request_start_with_model,.run = request_start_text},
	[WK_CHAT_RENDER] = {.start = request_start_render,.run = request_start_text},
	[WK_GRAMMAR] = {.start = request_start_text},
	[WK_PARSE] = {.start = request_start_text},
	[WK_API] = {.start = api_start,.cancel = api_cancel},
	[WK_MODEL_CHECK] = {.start = request_check},
	[WK_MODEL_INSPECT] = {.start = request_check},
	[WK_MODEL_LOAD] = {.start = request_start_with_model,.run = request_run_facts},
	[WK_MODEL_UNLOAD] = {.start = unload_model},
	[WK_MODEL_FORGET] = {.start = forget_model},
	[WK_LORA_CHECK] = {.start = loras_check},
	[WK_LORA_LOAD] = {.lora = true,.start = request_start_with_model,.run = loras_loaded},
	[WK_LORA_UNLOAD] = {.start = unload_lora},
	[WK_LORA_LIST] = {.start = list_loras},
	[WK_MODEL_DIGEST] = {.start = request_start_with_model,.run = request_start_text},
	[WK_CONTROL] = {.start = run_command},
};

const RequestKind *
request_kind(int kind)
{
	return &kinds[kind];
}
