/*
 * drafter_loader.c
 *	  From speculative_config's "model" to a Drafter.
 *
 * A drafter's directory has config.json and weights in the layout that the method's authors or vLLM
 * publish.  Only a draft model has a tokenizer, whose tokens must be the target's.  MTP weights are in
 * the model's own files.
 *
 * Tested by tests/unit/core/spec/test_spec_draft.c.
 */
#include "backend/drafter_loader.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "core/spec/spec.h"
#include "quant/quantize.h"

static const QuantScheme *
scheme_of(const SpecConfig *spec)
{
	return spec->quantization[0] != '\0' ? quant_scheme(spec->quantization) : NULL;
}

/* Check that the draft model has the same tokens as the target. */
static bool
same_tokens(const Files *f, const Tok *tok, const char *path, Err *e)
{
	Tok		   *own = source_tok(f, e);
	int32_t		n = tok_vocab_size(tok);
	bool		ok = own != NULL;

	ASSERT(f != NULL);			/* only drafts of MTP are in the model's own files */
	if (ok && tok_vocab_size(own) != n)
	{
		ok = err_set(e, ERR_INVALID, "the draft model in \"%s\" has a different vocabulary than the "
									 "model", path);
		err_detail(e, "It has %d tokens, the model has %d.", tok_vocab_size(own), n);
	}
	for (int32_t i = 0; ok && i < n; i++)
	{
		size_t		n_a;
		size_t		n_b;
		const char *a = tok_piece(tok, i, &n_a);
		const char *b = tok_piece(own, i, &n_b);

		if (n_a == n_b && memcmp(a, b, n_a) == 0)
			continue;
		ok = err_set(e, ERR_INVALID, "the draft model in \"%s\" has a different vocabulary than the "
									 "model", path);
		err_detail(e, "Token %d differs.", i);
	}
	tok_free(own);
	return ok;
}

/* Set the number of drafts: as requested, or else as the files say. */
static bool
number_of_drafts(const DraftInfo *info, SpecConfig *spec, Err *e)
{
	if (spec->n_drafts == 0)
		spec->n_drafts = info->usual;
	if (spec->n_drafts == 0)
		return err_set(e, ERR_INVALID, "speculative_config key \"num_speculative_tokens\" must be given with "
									   "the method \"%s\"", info->method);
	if (info->most > 0 && spec->n_drafts > info->most)
		return err_set(e, ERR_INVALID, "speculative_config key \"num_speculative_tokens\" must be at most %d "
									   "with these files, got %d",
					   info->most, spec->n_drafts);
	return true;
}

static bool
open_files(DraftFiles *df, const SpecConfig *spec, Source *src, Err *e)
{
	df->from = src;
	if (spec->model[0] == '\0')
		return true;
	if ((df->files = files_open(spec->model, e)) == NULL)
		return false;
	/* some files nest the layer's configuration one level down */
	files_lift(df->files, "transformer_layer_config.");
	files_lift(df->files, "model.");
	df->src = (Source) {.files = df->files, .progress = src->progress, .ctx = src->ctx};
	df->from = &df->src;
	return true;
}

static bool
open_checked(DraftFiles *df, SpecConfig *spec, Source *src, const ModelInfo *target, const Tok *tok,
			 const Kernels *k, Err *e)
{
	ModelSource ms;
	const Conf *conf;

	if (!open_files(df, spec, src, e))
		return false;
	conf = files_conf(df->from->files);
	ms = source_of(df->from);
	df->method = spec->type != NULL ? spec->type->name : draft_infer_method(conf, spec->model);
	if (!draft_check(df->method, conf, &ms, scheme_of(spec), k, target, &df->info, e) ||
		!number_of_drafts(&df->info, spec, e))
		return false;
	if (df->info.kind == DRAFT_MODEL && tok != NULL && !same_tokens(df->files, tok, spec->model, e))
		return false;
	spec->type = proposer_find(df->method);
	return true;
}

bool
draftfiles_open(DraftFiles *df, SpecConfig *spec, Source *src, const ModelInfo *target, const Tok *tok,
				const Kernels *k, Err *e)
{
	memset(df, 0, sizeof(*df));
	/* speculation is off, or the method has no weights */
	if (spec->type != NULL ? (spec->type->flags & SPEC_WEIGHTS) == 0 : spec->model[0] == '\0')
		return true;
	if (open_checked(df, spec, src, target, tok, k, e))
		return true;
	draftfiles_close(df);
	return false;
}

void
draftfiles_close(DraftFiles *df)
{
	if (df->files != NULL)
	{
		source_done(&df->src);
		files_close(df->files);
	}
	memset(df, 0, sizeof(*df));
}

/* ---- weights ---- */

typedef struct Loaded
{
	Drafter		d;				/* must be the first member */
	Draft	   *draft;
} Loaded;

static void
heads(Drafter *d, const float *hidden, const int32_t *tokens, int n, int k, int32_t *out)
{
	draft_heads(((Loaded *) d)->draft, hidden, tokens, n, k, out);
}

static void
forward(Drafter *d, const Batch *b, const KvView *kv, float *logits, float *fed)
{
	draft_forward(((Loaded *) d)->draft, b, kv, logits, fed);
}

static void
free_loaded(Drafter *d)
{
	draft_free(((Loaded *) d)->draft);
	mem_free(d);
}

static bool
store(Drafter *d, const char *dir, Err *e)
{
	return draft_store(((Loaded *) d)->draft, dir, e);
}

static bool
fetch(Drafter *d, Err *e)
{
	return draft_fetch(((Loaded *) d)->draft, e);
}

static void
forget(Drafter *d)
{
	draft_forget(((Loaded *) d)->draft);
}

static bool
adopt(Drafter *d, Drafter *from, Err *e)
{
	return draft_adopt(((Loaded *) d)->draft, ((Loaded *) from)->draft, e);
}

/* draft_new() reads every weight: if a file is truncated meanwhile, that is an error, not a SIGBUS. */
typedef struct NewDraft
{
	const DraftFiles *df;
	const ModelSource *src;
	const ModelOptions *opt;
	Model	   *target;
	Draft	   *draft;
	Err			err;
} NewDraft;

static void
new_draft(void *arg)
{
	NewDraft   *n = arg;

	n->draft = draft_new(n->df->method, files_conf(n->df->from->files), n->src, n->opt, n->target, &n->err);
}

bool
draftfiles_load(DraftFiles *df, const SpecConfig *spec, const ModelOptions *opt, Model *target, Drafter **out,
				Err *e)
{
	ModelOptions mo = *opt;
	ModelSource ms;
	NewDraft	n = {.df = df, .src = &ms, .opt = &mo, .target = target};
	Loaded	   *l;
	bool		guarded;

	*out = NULL;
	if (df->method == NULL)
		return true;
	ms = source_of(df->from);
	mo.quant = scheme_of(spec);
	mo.cache_dir = NULL;
	guarded = load_read_guard(df->from->files, new_draft, &n, e);
	if (!guarded || n.draft == NULL)
	{
		if (guarded)
			*e = n.err;
		draft_free(n.draft);
		return false;
	}
	l = mem_zalloc(sizeof(*l));
	l->draft = n.draft;
	l->d = (Drafter) {
		.info = *draft_info(n.draft), .fed_width = draft_fed_width(n.draft), .heads = heads,
			.forward = forward, .free = free_loaded,
		.store = store, .fetch = fetch, .forget = forget, .adopt = adopt
	};
	*out = &l->d;
	return true;
}
