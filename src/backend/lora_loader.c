/*
 * lora_loader.c
 *	  Load adapters from files.
 *
 * Tested by tests/unit/backend/test_lora_files.c.
 */
#include "backend/lora_loader.h"

#include <stdio.h>
#include <string.h>

#include "base/blake2.h"
#include "base/alloc.h"
#include "loader/peft_adapter.h"

typedef struct Load
{
	const Model *m;
	const Adapter *files;
	const char *path;
	KType		as;
	LoraInfo	info;
	LoraAdapter *a;
	Err			err;
} Load;

static LoraInfo
info_of(const Adapter *a)
{
	LoraInfo	info = {.rank = a->rank, .alpha = a->alpha, .rslora = a->rslora};

	for (int i = 0; i < a->n; i++)
		if (a->modules[i].base == NULL)
			info.bytes += (int64_t) (a->modules[i].a->nbytes + a->modules[i].b->nbytes);
	snprintf(info.base, sizeof(info.base), "%s", a->base);
	snprintf(info.modules, sizeof(info.modules), "%s", a->names);
	return info;
}

bool
lora_files_check(const char *path, LoraInfo *out, Err *e)
{
	Adapter    *a = adapter_open(path, e);

	if (a == NULL)
		return false;
	*out = info_of(a);
	adapter_close(a);
	return true;
}

static void
load(void *arg)
{
	Load	   *l = arg;
	LoraModule *modules = mem_alloc((size_t) l->files->n * sizeof(LoraModule));

	for (int i = 0; i < l->files->n; i++)
	{
		const AdapterModule *m = &l->files->modules[i];

		modules[i] = (LoraModule) {.name = m->name, .embedding = m->embedding, .scale = m->scale, .a = m->a,
								   .b = m->b,
		.base = m->base};
	}
	l->a = model_lora(l->m, modules, l->files->n, &l->info, l->as, l->path, &l->err);
	mem_free(modules);
}

static KType
type_by_name(const char *dtype)
{
	return strcmp(dtype, "float16") == 0 ? KT_F16 : strcmp(dtype, "bfloat16") == 0 ? KT_BF16 :
		strcmp(dtype, "float32") == 0 ? KT_F32 : KT_COUNT;
}

static void
content_of(const Load *l, unsigned char *out)
{
	char	   *id = files_contents_id(l->files->files);
	int32_t		as = (int32_t) l->as;
	Blake2		b;

	blake2_begin(&b, NULL, 0);
	blake2_add(&b, id, strlen(id) + 1);
	blake2_add(&b, &as, sizeof(as));
	for (int i = 0; i < l->files->n; i++)
		blake2_add(&b, &l->files->modules[i].scale, sizeof(l->files->modules[i].scale));
	blake2_end(&b, out);
	mem_free(id);
}

LoraAdapter *
lora_files_load(const Model *m, const char *path, int max_rank, const char *dtype, Err *e)
{
	Adapter    *files = adapter_open(path, e);
	const char *slash = strrchr(path, '/');
	Load		l = {.m = m, .files = files, .path = path, .as = type_by_name(dtype)};
	bool		guarded;

	if (files == NULL)
		return NULL;
	if (files->rank > max_rank)
	{
		err_set(e, ERR_TOO_LONG, "adapter \"%s\" has rank %d, which is above max_lora_rank (%d)", path,
				files->rank, max_rank);
		err_hint(e, "Raise the model option max_lora_rank, or the setting vllm.max_lora_rank.");
		adapter_close(files);
		return NULL;
	}
	l.info = info_of(files);
	guarded = load_read_guard(files->files, load, &l, e);
	if (l.a != NULL)
		content_of(&l, l.a->content);
	adapter_close(files);
	if (guarded && l.a == NULL)
		*e = l.err;
	if (!guarded)
	{
		lora_free(l.a);
		return NULL;
	}
	if (l.a != NULL)
		snprintf(l.a->label, sizeof(l.a->label), "%s", slash != NULL ? slash + 1 : path);
	return l.a;
}
