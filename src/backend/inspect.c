/*
 * inspect.c
 *	  llm_inspect_model: describe model files as JSON, and whether they would load, without loading them.
 *
 * The facts of the files come first, so that the result has them also for an unsupported model; then
 * "unsupported" is the error with which a load would fail.  Only files that can't be read as a model at
 * all are an error of the call.
 *
 * Tested by tests/unit/backend/test_inspect.c and tests/sql/06_models.sql.
 */
#include "backend/inspect.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "backend/chat_template_source.h"
#include "backend/pooling/pooling_model.h"
#include "text/unicode.h"

/* Add an integer of the configuration, or null if it has none. */
static void
put_conf(Json *o, const char *key, const Conf *c, const char *conf_key)
{
	size_t		n;
	const double *v = conf_nums(c, conf_key, &n);

	if (v != NULL && n == 1)
		json_add_num(o, key, v[0]);
	else
		json_add(o, key, JSON_IS_NULL);
}

/* Return the type of rotary scaling; its key has changed over time. */
static const char *
rope_type(const Conf *c)
{
	static const char *const keys[] = {
		"rope_parameters.full_attention.rope_type", "rope_parameters.rope_type", "rope_scaling.rope_type",
		"rope_scaling.type"
	};
	const char *s = NULL;

	for (size_t i = 0; s == NULL && i < sizeof(keys) / sizeof(keys[0]); i++)
		s = conf_str(c, keys[i], NULL);
	return s;
}

/* Add what the configuration says about the model. */
static void
put_config(Json *o, const Conf *c)
{
	const char *gguf = conf_str(c, "gguf.architecture", NULL);

	json_add_str(o, "format", gguf != NULL ? "gguf" : "safetensors");
	json_add_str(o, "architecture", gguf != NULL ? gguf : conf_str(c, "architectures", NULL));
	json_add_str(o, "model_type", gguf != NULL ? NULL : conf_str(c, "model_type", NULL));
	json_add_str(o, "quantization", conf_str(c, "quantization_config.quant_method", NULL));
	put_conf(o, "hidden_size", c, "hidden_size");
	put_conf(o, "num_hidden_layers", c, "num_hidden_layers");
	put_conf(o, "num_attention_heads", c, "num_attention_heads");
	put_conf(o, "num_key_value_heads", c, "num_key_value_heads");
	put_conf(o, "vocab_size", c, "vocab_size");
	put_conf(o, "max_position_embeddings", c, "max_position_embeddings");
	json_add_str(o, "rope_scaling", rope_type(c));
}

/* Add the number of tensors and bytes of each type, and their totals. */
static void
put_weights(Json *o, const Files *f)
{
	uint64_t	count[KT_END] = {0};
	uint64_t	bytes[KT_END] = {0};
	double		total = 0;
	Json	   *types = json_add(o, "weights", JSON_IS_ARRAY);

	for (size_t i = 0; i < files_count(f); i++)
	{
		const KTensor *t = files_tensor(f, i);

		ALWAYS((size_t) t->type < KT_END);
		count[t->type]++;
		bytes[t->type] += t->nbytes;
		total += (double) t->nbytes;
	}
	for (int t = 0; t < KT_END; t++)
	{
		Json	   *row;

		if (count[t] == 0)
			continue;
		row = json_add(types, NULL, JSON_IS_OBJECT);
		json_add_str(row, "dtype", ktype_name((KType) t));
		json_add_num(row, "tensors", (double) count[t]);
		json_add_num(row, "bytes", (double) bytes[t]);
	}
	json_add_num(o, "file_bytes", total);
}

/* Add an error: message, and detail and hint if it has them. */
static void
put_error(Json *o, const char *key, const Err *e)
{
	Json	   *x = json_add(o, key, JSON_IS_OBJECT);

	json_add_str(x, "sqlstate", err_sqlstate(e->cls));
	json_add_str(x, "message", e->msg);
	if (e->detail[0] != '\0')
		json_add_str(x, "detail", e->detail);
	if (e->hint[0] != '\0')
		json_add_str(x, "hint", e->hint);
}

/* Return the type of a tokenizer.json's model, which the caller must free; NULL if unknown. */
static char *
hf_kind(const FilesTokenizer *ft)
{
	Json	   *root = json_parse(ft->json, ft->json_len);
	const char *s = json_str_of(json_get(json_get(root, "model"), "type"));
	char	   *kind = s != NULL ? mem_strdup(s) : NULL;

	json_free(root);
	return kind;
}

/* Report a chat template that chats could not use. */
static void
put_template_error(Json *o, const Files *f)
{
	Err			e = {0};
	ChatModel  *c = chatmodel_of_files(f);

	if (!chat_check(c, &e))
		put_error(o, "chat_template_unsupported", &e);
	chat_free(c);
}

static Tok *
put_tokenizer(Json *o, const Files *f)
{
	FilesTokenizer ft;
	Err			e = {0};
	Json	   *x = json_add(o, "tokenizer", JSON_IS_OBJECT);
	Tok		   *tok = source_tok(f, &e);

	if (tok == NULL)
		put_error(x, "unsupported", &e);
	if (files_tokenizer(f, &ft, &e))
	{
		char	   *kind = ft.kind == FILES_TOK_GGUF ? mem_strdup(ft.gguf->model) :
			ft.kind == FILES_TOK_HF ? hf_kind(&ft) :
			mem_strdup(ft.kind == FILES_TOK_SPM ? "SentencePiece" : ft.kind == FILES_TOK_TEKKEN
					   ? "Tekken" : "tiktoken");

		json_add_str(x, "kind", kind);
		mem_free(kind);
		json_add_bool(o, "chat_template", ft.n_templates > 0);
		if (ft.n_templates > 1)
		{
			Json	   *names = json_add(o, "chat_templates", JSON_IS_ARRAY);

			for (size_t i = 0; i < ft.n_templates; i++)
				json_add_str(names, NULL, ft.templates[i].name);
		}
	}
	if (tok != NULL)
	{
		json_add_num(x, "vocab_size", tok_vocab_size(tok));
		json_add_num(x, "bos_token_id", tok_bos(tok));
		json_add_num(x, "eos_token_id", tok_eos(tok));
	}
	return tok;
}

/* Add sizes that the configuration may have under other names, or may leave out. */
static void
put_sizes(Json *o, const ModelInfo *mi)
{
	const struct
	{
		const char *key;
		int			value;
	}			sizes[] = {
		{"hidden_size", mi->hidden_size}, {"num_hidden_layers", mi->n_layers},
		{"num_attention_heads", mi->n_heads},
		{"num_key_value_heads", mi->n_kv_heads}, {"vocab_size", mi->vocab_size},
		{"max_position_embeddings", mi->max_model_len}
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].value > 0 && json_is_null(json_get(o, sizes[i].key)))
			json_set_num(json_get(o, sizes[i].key), sizes[i].value);
}

/* Add how a task pools vectors, in sentence-transformers' words; "all tokens" if each token has a vector. */
static void
put_pooling(Json *o, const ModelInfo *mi, PoolTask t)
{
	static const char *const names[] = {
#define POOLER(name, key, rows, how, by) key,
#include "model/layers/poolers.def"
#undef POOLER
	};
	static const char prefix[] = "pooling_mode_";
	const PoolPlan *p = &mi->pools[t];
	Json	   *x = json_add(o, pool_task_name(t), JSON_IS_OBJECT);
	Json	   *list = json_add(x, "pooling", JSON_IS_ARRAY);
	static const char *const acts[] = {[PA_NONE] = "none", [PA_SOFTMAX] = "softmax", [PA_SIGMOID] = "sigmoid",
									   [PA_LENGTH1] = "normalize"};

	for (int i = 0; i < p->n; i++)
		json_add_str(list, NULL, names[p->kinds[i]] + sizeof(prefix) - 1);
	json_add_num(x, "width", p->width);
	json_add_str(x, "activation", acts[mi->acts[t]]);
}

/* Return s if it is valid UTF-8, which JSON requires; else "?". */
static const char *
text_of(const char *s)
{
	return uni_valid(s, strlen(s)) ? s : "?";
}

/* Add the tasks that the model supports, and their options. */
static void
put_tasks(Json *o, const ModelInfo *mi, const Conf *c)
{
	Json	   *tasks = json_add(o, "tasks", JSON_IS_OBJECT);
	Json	   *prompts;
	Err			e = {0};
	PoolModel  *m = poolmodel_new(mi, NULL, mi->max_model_len, c, NULL, &e);

	json_add_bool(o, "generates", mi->generates);
	json_add_bool(o, "made_to_embed", mi->made_to_embed);
	for (int t = PT_NONE + 1; t < PT_COUNT; t++)
		if (t != PT_LOGPROBS && (mi->tasks & 1u << t))
			put_pooling(tasks, mi, (PoolTask) t);
	if (m == NULL)
		return;
	if (m->labels != NULL)
	{
		Json	   *labels = json_add(o, "labels", JSON_IS_ARRAY);

		for (int i = 0; m->labels[i] != NULL; i++)
			json_add_str(labels, NULL, text_of(m->labels[i]));
	}
	if (m->n_prompts > 0)
	{
		prompts = json_add(o, "prompts", JSON_IS_OBJECT);
		for (int i = 0; i < m->n_prompts; i++)
			if (uni_valid(m->prompts[i].name, strlen(m->prompts[i].name)))
				json_add_str(prompts, m->prompts[i].name, text_of(m->prompts[i].text));
		if (m->default_prompt >= 0)
			json_add_str(o, "default_prompt_name", text_of(m->prompts[m->default_prompt].name));
	}
	if (conf_has(c, "st.max_seq_length"))
		json_add_num(o, "max_seq_length", m->max_len);
	if (m->cut > 0)
		json_add_num(o, "truncate_dim", m->cut);
	if (m->matryoshka)
	{
		Json	   *widths = json_add(o, "matryoshka_dimensions", JSON_IS_ARRAY);

		for (int i = 0; i < m->n_widths; i++)
			json_add_num(widths, NULL, m->widths[i]);
	}
	poolmodel_free(m);
}

/* Add what a load would give: sizes, and the memory that the model would take. */
static void
put_loaded(Json *o, const ModelInfo *mi, const CoreOptions *co, const DraftFiles *df)
{
	Json	   *m;
	KvView		kv = {.type = co->kv_type,.n_layers = mi->n_kv_layers,.n_blocks = 1,
					  .block_size = co->block_size,
		.n_kv_heads = mi->n_kv_heads,.head_dim = mi->head_dim,.v_dim = mi->v_dim};
	size_t		block = mi->n_kv_layers > 0 ? kv_layout(&kv) : 0;
	uint64_t	weights = mi->weight_bytes;

	if (df->method != NULL)
	{
		Json	   *d = json_add(o, "drafts", JSON_IS_OBJECT);

		json_add_str(d, "method", df->method);
		json_add_num(d, "num_speculative_tokens", co->spec.n_drafts);
		json_add_num(d, "parameters", (double) df->info.model.n_params);
		json_add_num(d, "weight_bytes", (double) df->info.model.weight_bytes);
		block += drafter_block_bytes(&df->info, co->kv_type, co->block_size);
		weights += df->info.model.weight_bytes;
	}
	put_sizes(o, mi);
	json_add_str(o, "arch", mi->arch);
	json_add_str(o, "dtype", ktype_name(mi->dtype));
	json_add_num(o, "parameters", (double) mi->n_params);
	json_add_num(o, "max_model_len", co->max_model_len);
	m = json_add(o, "memory", JSON_IS_OBJECT);
	json_add_num(m, "weight_bytes", (double) weights);
	json_add_num(m, "kv_bytes_per_token", (double) block / co->block_size);
	if (mi->state_bytes > 0)
	{
		json_add_num(m, "state_bytes_per_request", (double) mi->state_bytes);
		json_add_num(m, "requests", co->max_num_seqs);
	}
	json_add_num(m, "kv_cache_bytes", (double) co->kv_bytes);
}

bool
inspect_model(const char *path, const ModelOpts *opts, const Settings *s, const Kernels *k,
			  const DeviceChoice *where, InspectPlan plan, Buf *json, Err *e)
{
	Files	   *f = files_open(path, e);
	Source		src = {.files = f};
	ModelSource ms = source_of(&src);
	Err			why = {0};
	CoreOptions co;
	ModelInfo	mi;
	Json	   *o;
	char	   *text;
	bool		only;
	bool		ok;
	PlanFor		plan_for = {.src = &src, .kernels = k, .where = where};
	DraftFiles	df = {0};
	Tok		   *tok;

	if (f == NULL)
		return false;
	o = json_new(JSON_IS_OBJECT);
	json_add_str(o, "path", path);
	put_config(o, files_conf(f));
	put_weights(o, f);
	plan_for.tok = tok = put_tokenizer(o, f);
	put_template_error(o, f);
	only = source_tokenizer_only(f);
	ok = source_options(f, opts, &why) &&
		(only || (model_check(files_conf(f), &ms, model_opts_scheme(opts), k, &mi, &why) &&
				  plan(&mi, &plan_for, opts, s, &co, &df, &why)));
	json_add_bool(o, "supported", ok && json_get(json_get(o, "tokenizer"), "unsupported") == NULL);
	json_add_bool(o, "tokenizer_only", only);
	if (only)
		;						/* nothing else to say */
	else if (ok)
	{
		put_loaded(o, &mi, &co, &df);
		put_tasks(o, &mi, files_conf(f));
	}
	else
		put_error(o, "unsupported", &why);
	text = json_print(o);
	buf_addstr(json, text);
	mem_free(text);
	json_free(o);
	draftfiles_close(&df);
	source_done(&src);
	tok_free(tok);
	files_close(f);
	return true;
}
