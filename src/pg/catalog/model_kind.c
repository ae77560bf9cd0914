/*
 * model_kind.c
 *	  The purpose of a model, which the engine finds out from its files.
 *
 * The engine itself refuses requests that don't fit.  This check is for definitions that are stored
 * now and send requests later: jobs.
 *
 * Tests: tests/t/051_embed_models.pl.
 */
#include "postgres.h"

#include "pg/catalog/model_kind.h"
#include "pg/client/client.h"
#include "pg/client/reply.h"
#include "pg/util/encoding.h"
#include "pg/util/json_tree.h"

#define INSPECT_MS	10000

static bool
is_member(const JsonNode *object, const char *key, const char *value)
{
	const JsonNode *n = json_tree_get(object, key);

	return n != NULL && n->text != NULL && strcmp(n->text, value) == 0;
}

bool
model_only_generates(const ModelRow *m)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	frame = {.kind = WF_DONE,.final = true};
	ClientCall *call;
	Reply		reply;
	JsonNode   *said = NULL;

	if (catalog_is_remote(m) || !vclient_is_ready(false))
		return false;
	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	if (vcall_simple_noerror(WK_MODEL_INSPECT, &body, m->name, INSPECT_MS, CurrentMemoryContext, &frame,
							 &call) == NULL)
	{
		reply_read(&reply, &frame);
		said = json_tree(reply_text(&reply));
	}
	vcall_end(call);
	return said != NULL && said->kind == JSON_OBJECT && is_member(said, "generates", "true") &&
		is_member(said, "made_to_embed", "false");
}
