/*
 * test_model.c
 *	  What model_new() and model_check() refuse: configurations that are absurd or unknown, tensors that
 *	  are missing, misshapen or unused; and other effects of a load: progress, cancellation, limits,
 *	  mixed types.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/decoder.h"
#include "tests/unit/check.h"
#include "tests/unit/model/tiny_conf.h"

/* A model in memory: its tensors are all zeros, with shapes from the configuration. */
#define MAX_TENSORS 64

typedef struct Fake
{
	KTensor		t[MAX_TENSORS];
	char		names[MAX_TENSORS][80];
	int			n;
	int			calls;			/* calls of progress() */
	int			stop_at;		/* cancel at this call, 0 = never */
	double		last;
} Fake;

static char zeros[1 << 16];

static const KTensor *
fake_find(void *ctx, const char *name)
{
	Fake	   *f = ctx;

	for (int i = 0; i < f->n; i++)
		if (strcmp(f->names[i], name) == 0)
			return &f->t[i];
	return NULL;
}

static const KTensor *
fake_at(void *ctx, size_t i)
{
	Fake	   *f = ctx;

	return i < (size_t) f->n ? &f->t[i] : NULL;
}

static const char *
fake_where(void *ctx, const KTensor *t)
{
	(void) ctx;
	return t != NULL ? "dir/model.safetensors" : "dir";
}

static bool
fake_progress(void *ctx, double done)
{
	Fake	   *f = ctx;

	CHECK(done >= f->last && done <= 1.0, "progress goes from %g to %g", f->last, done);
	f->last = done;
	return ++f->calls != f->stop_at;
}

static void
add(Fake *f, const char *name, int64_t n, int64_t k)
{
	KTensor    *t = &f->t[f->n];

	snprintf(f->names[f->n], sizeof(f->names[0]), "%s", name);
	*t = (KTensor) {.name = f->names[f->n], .type = KT_F32, .ndim = k > 0 ? 2 : 1, .shape = {n, k},
		.data = zeros, .nbytes = (size_t) (n * (k > 0 ? k : 1)) * 4};
	f->n++;
}

static KTensor *
get(Fake *f, const char *name)
{
	return (KTensor *) fake_find(f, name);
}

/* Make a model: hidden 8, 2 heads of 4, 1 kv head, inter 12, vocab 10, 2 layers, untied. */
static void
make(Fake *f)
{
	static const struct
	{
		const char *name;
		int			n;
		int			k;
	}			parts[] = {
		{"self_attn.q_proj.weight", 8, 8}, {"self_attn.k_proj.weight", 4, 8},
		{"self_attn.v_proj.weight", 4, 8}, {"self_attn.o_proj.weight", 8, 8},
		{"mlp.gate_proj.weight", 12, 8}, {"mlp.up_proj.weight", 12, 8},
		{"mlp.down_proj.weight", 8, 12}, {"input_layernorm.weight", 8, 0},
		{"post_attention_layernorm.weight", 8, 0},
	};

	memset(f, 0, sizeof(*f));
	add(f, "model.embed_tokens.weight", 10, 8);
	add(f, "lm_head.weight", 10, 8);
	add(f, "model.norm.weight", 8, 0);
	for (int l = 0; l < 2; l++)
		for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
		{
			char		name[80];

			snprintf(name, sizeof(name), "model.layers.%d.%s", l, parts[p].name);
			add(f, name, parts[p].n, parts[p].k);
		}
}

static Conf *
make_conf(void)
{
	Conf	   *c = tiny_conf();

	conf_set_str(c, "architectures", "LlamaForCausalLM");
	return c;
}

static bool
check(const Conf *c, Fake *f, ModelInfo *info, Err *e)
{
	ModelSource src = {.find = fake_find, .at = fake_at, .where = fake_where, .ctx = f};

	memset(e, 0, sizeof(*e));
	return model_check(c, &src, NULL, NULL, info, e);
}

static void
refused(const char *what, const Conf *c, Fake *f, ErrClass cls, const char *msg)
{
	ModelInfo	info;
	Err			e;
	bool		ok = check(c, f, &info, &e);

	CHECK(!ok && e.cls == cls && strstr(e.msg, msg) != NULL, "%s: expected %s \"%s\", got %s \"%s\"",
		  what, err_sqlstate(cls), msg, ok ? "success" : err_sqlstate(e.cls), e.msg);
}

static void
test_good(void)
{
	Conf	   *c = make_conf();
	Fake		f;
	ModelInfo	info;
	Err			e;

	make(&f);
	CHECK(check(c, &f, &info, &e), "%s", e.msg);
	CHECK(strcmp(info.arch, "llama") == 0 && info.vocab_size == 10 && info.max_model_len == 64 &&
		  info.hidden_size == 8 && info.n_layers == 2 && info.n_heads == 2 && info.n_kv_heads == 1 &&
		  info.head_dim == 4 && info.dtype == KT_F32, "facts");
	CHECK(info.n_params == 80 + 80 + 8 + 2 * (64 + 32 + 32 + 64 + 96 + 96 + 96 + 16), "%llu parameters",
		  (unsigned long long) info.n_params);
	conf_set_bool(c, "tie_word_embeddings", true);
	CHECK(check(c, &f, &info, &e), "a tied model may store the head too: %s", e.msg);
	add(&f, "model.layers.0.self_attn.rotary_emb.inv_freq", 2, 0);
	add(&f, "model.layers.0.self_attn.rotary_emb.cos_cached", 2, 0);
	add(&f, "model.layers.1.self_attn.rotary_emb.sin_cached", 2, 0);
	CHECK(check(c, &f, &info, &e), "old rotary tables are ignored: %s", e.msg);
	conf_free(c);
}

typedef struct BadInt
{
	const char *key;
	double		v;
	ErrClass	cls;
	const char *msg;
} BadInt;

static void
test_bad_numbers(void)
{
	static const BadInt bad[] = {
		{"num_attention_heads", 0, ERR_BAD_FILE, "\"num_attention_heads\" = 0"},
		{"num_attention_heads", -2, ERR_BAD_FILE, "\"num_attention_heads\" = -2"},
		{"num_attention_heads", 3, ERR_BAD_FILE, "not a multiple of its 3 attention heads"},
		{"num_attention_heads", 1e9, ERR_BAD_FILE, "\"num_attention_heads\" = 1e+09"},
		{"num_key_value_heads", 0, ERR_BAD_FILE, "\"num_key_value_heads\" = 0"},
		{"num_key_value_heads", 3, ERR_BAD_FILE, "not a multiple of its 3 key-value heads"},
		{"hidden_size", 0, ERR_BAD_FILE, "\"hidden_size\" = 0"},
		{"hidden_size", 7, ERR_BAD_FILE, "not a multiple of its 2 attention heads"},
		{"hidden_size", 8.5, ERR_BAD_FILE, "\"hidden_size\" = 8.5"},
		{"hidden_size", 1e18, ERR_BAD_FILE, "\"hidden_size\""},
		{"hidden_size", NAN, ERR_BAD_FILE, "\"hidden_size\""},
		{"intermediate_size", 0, ERR_BAD_FILE, "\"intermediate_size\" = 0"},
		{"num_hidden_layers", 0, ERR_BAD_FILE, "\"num_hidden_layers\" = 0"},
		{"num_hidden_layers", 1e6, ERR_BAD_FILE, "\"num_hidden_layers\""},
		{"num_hidden_layers", 3, ERR_BAD_FILE, "model.layers.2."},
		{"vocab_size", -1, ERR_BAD_FILE, "\"vocab_size\" = -1"},
		{"vocab_size", 11, ERR_BAD_FILE, "has shape [10, 8], expected [11, 8]"},
		{"max_position_embeddings", 0, ERR_BAD_FILE, "\"max_position_embeddings\" = 0"},
		{"head_dim", 3, ERR_BAD_FILE, "invalid head dimension: 3"},
		{"head_dim", 0, ERR_BAD_FILE, "\"head_dim\" = 0"},
		{"head_dim", 6, ERR_BAD_FILE, "has shape [8, 8], expected [12, 8]"},
		{"rotary_dim", 3, ERR_BAD_FILE, "\"rotary_dim\" = 3"},
		{"rotary_dim", 6, ERR_BAD_FILE, "\"rotary_dim\" = 6"},
		{"partial_rotary_factor", 0.1, ERR_BAD_FILE, "\"partial_rotary_factor\" = 0.1"},
		{"partial_rotary_factor", 2, ERR_BAD_FILE, "\"partial_rotary_factor\" = 2"},
		{"rms_norm_eps", -1, ERR_BAD_FILE, "\"rms_norm_eps\" = -1"},
		{"rms_norm_eps", NAN, ERR_BAD_FILE, "\"rms_norm_eps\""},
		{"rope_theta", 0, ERR_BAD_FILE, "\"rope_theta\""},
	};
	Fake		f;

	make(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		Conf	   *c = make_conf();

		conf_set_num(c, bad[i].key, bad[i].v);
		refused(bad[i].key, c, &f, bad[i].cls, bad[i].msg);
		conf_free(c);
	}
}

static void
test_bad_strings(void)
{
	static const char *const bad[][3] = {
		{"architectures", "T5Model", "architecture \"T5Model\" is not supported"},
		{"architectures", "BertLMHeadModel", "this architecture is supported as an encoder only"},
		{"architectures", "Llama", "architecture \"Llama\" is not supported"},
		{"architectures", "", "architecture \"\" is not supported"},
		{"architectures", "LlamaForCausalLM MistralForCausalLM", "is not supported"},
		{"gguf.architecture", "gemma7", "architecture \"gemma7\" is not supported"},
		{"hidden_act", "gelu7", "activation function \"gelu7\" is not supported"},
		{"quantization_config", "{}", "quantized checkpoints are not supported here"},
		{"rope_scaling.rope_type", "mrope", "RoPE scaling type \"mrope\" is not supported"},
	};
	Fake		f;
	Conf	   *c;

	make(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		c = make_conf();
		conf_set_str(c, bad[i][0], bad[i][1]);
		refused(bad[i][1], c, &f, ERR_UNSUPPORTED, bad[i][2]);
		conf_free(c);
	}
	c = make_conf();
	conf_set_str(c, "hidden_size", "8");
	refused("a number as string", c, &f, ERR_BAD_FILE, "invalid \"hidden_size\"");
	conf_free(c);
	c = conf_new();
	refused("nothing", c, &f, ERR_BAD_FILE, "no \"architectures\"");
	conf_set_str(c, "architectures", "LlamaForCausalLM");
	refused("no sizes", c, &f, ERR_BAD_FILE, "no \"hidden_size\"");
	conf_free(c);
}

/* A key of the wrong type is an error; its default is never used. */
/* Values that encoders refuse: a number or a string for each class. */
static void
test_encoders(void)
{
	static const struct
	{
		const char *class_name;
		const char *key;
		const char *s;			/* NULL: */
		double		v;
		ErrClass	cls;
		const char *msg;
	}			bad[] = {
		{"BertModel", "num_key_value_heads", NULL, 1, ERR_UNSUPPORTED, "1 key-value heads of 2"},
		{"BertModel", "position_embedding_type", "relative_key", 0, ERR_UNSUPPORTED,
		 "\"relative_key\" is not supported"},
		{"BertModel", "type_vocab_size", NULL, -1, ERR_BAD_FILE, "\"type_vocab_size\" = -1"},
		{"BertModel", "hidden_act", "swiglu", 0, ERR_UNSUPPORTED, "activation function \"swiglu\""},
		{"BertForMaskedLM", "vocab_size", NULL, 10, ERR_BAD_FILE,
		 "\"bert.embeddings.word_embeddings.weight\" is missing"},
		{"RobertaModel", "pad_token_id", NULL, 99999, ERR_BAD_FILE, "leaves no positions"},
		{"MPNetModel", "relative_attention_num_buckets", NULL, 16, ERR_BAD_FILE,
		 "\"relative_attention_num_buckets\" = 16"},
		{"ElectraModel", "embedding_size", NULL, 16, ERR_UNSUPPORTED, "\"embedding_size\" = 16 above"},
		{"ModernBertModel", "local_attention", NULL, 1, ERR_BAD_FILE, "\"local_attention\" = 1"},
		{"ModernBertModel", "layer_types", "full_attention", 0, ERR_BAD_FILE, "\"layer_types\""},
		{"NomicBertModel", "rotary_emb_fraction", NULL, 0.5, ERR_UNSUPPORTED,
		 "\"rotary_emb_fraction\" = 0.5"},
		{"NomicBertModel", "moe_every_n_layers", NULL, 2, ERR_UNSUPPORTED, "experts with a gate"},
		{"NewModel", "layer_norm_type", "rms_norm", 0, ERR_UNSUPPORTED, "\"rms_norm\" is not supported"},
		{"JinaBertModel", "position_embedding_type", "absolute", 0, ERR_UNSUPPORTED,
		 "\"absolute\" is not supported"},
		{"JinaBertModel", "feed_forward_type", "relu", 0, ERR_UNSUPPORTED, "\"relu\" is not supported"},
	};
	Fake		f;

	make(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		Conf	   *c = make_conf();

		conf_set_str(c, "architectures", bad[i].class_name);
		conf_set_num(c, "num_key_value_heads", 2);
		if (bad[i].s != NULL)
			conf_set_str(c, bad[i].key, bad[i].s);
		else
			conf_set_num(c, bad[i].key, bad[i].v);
		refused(bad[i].class_name, c, &f, bad[i].cls, bad[i].msg);
		conf_free(c);
	}
}

static void
test_kinds(void)
{
	static const char *const text[] = {"tie_word_embeddings", "attention_bias", "mlp_bias", "rope_theta"};
	Fake		f;
	Conf	   *c;

	make(&f);
	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
	{
		char		msg[80];

		c = make_conf();
		conf_set_str(c, text[i], "yes");
		snprintf(msg, sizeof(msg), "invalid \"%s\"", text[i]);
		refused(text[i], c, &f, ERR_BAD_FILE, msg);
		conf_free(c);
	}
	c = make_conf();
	conf_set_num(c, "hidden_act", 1);
	refused("hidden_act", c, &f, ERR_BAD_FILE, "invalid \"hidden_act\"");
	conf_free(c);
	c = make_conf();
	conf_set_num(c, "attention_bias", 2);
	refused("a number as switch", c, &f, ERR_BAD_FILE, "invalid \"attention_bias\"");
	conf_free(c);
	c = make_conf();
	conf_set_num(c, "attention_bias", 1);
	refused("a switch that is 1", c, &f, ERR_BAD_FILE, "bias\" is missing");
	conf_free(c);
}

static void
test_tensors(void)
{
	Conf	   *c = make_conf();
	Fake		f;

	make(&f);
	for (int i = 0; i < f.n; i++)
	{
		char		keep = f.names[i][0];
		char		want[160];

		f.names[i][0] = 'X';
		snprintf(want, sizeof(want), "tensor \"%c%s\" is missing in model \"dir\"", keep, f.names[i] + 1);
		refused("missing", c, &f, ERR_BAD_FILE, want);
		f.names[i][0] = keep;
		f.t[i].shape[0]++;
		refused("a row more", c, &f, ERR_BAD_FILE, "in file \"dir/model.safetensors\" has shape [");
		f.t[i].shape[0]--;
		f.t[i].ndim++;
		refused("a dimension more", c, &f, ERR_BAD_FILE, "has shape [");
		f.t[i].ndim--;
	}
	get(&f, "model.layers.1.self_attn.k_proj.weight")->shape[0] = 8;
	refused("the issue's wording", c, &f, ERR_BAD_FILE,
			"tensor \"model.layers.1.self_attn.k_proj.weight\" in file \"dir/model.safetensors\" "
			"has shape [8, 8], expected [4, 8]");
	make(&f);
	get(&f, "model.norm.weight")->type = KT_Q8_0;
	refused("a quantized norm", c, &f, ERR_UNSUPPORTED, "has type Q8_0, expected");
	make(&f);
	add(&f, "model.layers.0.self_attn.q_norm.weight", 4, 0);
	refused("a tensor too many", c, &f, ERR_UNSUPPORTED, "has no place in architecture \"llama\"");
	make(&f);
	add(&f, "model.layers.0.self_attn.q_proj.bias", 8, 0);
	refused("a bias that the configuration denies", c, &f, ERR_UNSUPPORTED, "q_proj.bias");
	conf_set_bool(c, "attention_bias", true);
	refused("only one bias", c, &f, ERR_BAD_FILE, "k_proj.bias\" is missing");
	make(&f);
	conf_set_str(c, "architectures", "Qwen2ForCausalLM");
	refused("Qwen2 without biases", c, &f, ERR_BAD_FILE, "q_proj.bias\" is missing");
	conf_free(c);
}

/* Quantization on loading, and the errors of llm_create_model. */
static void
test_quantization(void)
{
	Conf	   *c = make_conf();
	Fake		f;
	ModelInfo	info;
	Err			e = {0};
	ModelSource src = {.find = fake_find, .where = fake_where, .ctx = &f};

	make(&f);
	CHECK(model_check(c, &src, quant_scheme("int8"), NULL, &info, &e) && info.dtype == KT_INT8,
		  "to be INT8: %s", e.msg);
	CHECK(model_check(c, &src, quant_scheme("q4_k"), NULL, &info, &e) && info.dtype == KT_F32,
		  "rows of 8 stay: %s", e.msg);
	get(&f, "model.layers.1.mlp.up_proj.weight")->type = KT_Q8_0;
	CHECK(!model_check(c, &src, quant_scheme("int8"), NULL, &info, &e) && e.cls == ERR_INVALID &&
		  strstr(e.msg, "is quantized already and can't be quantized as int8") != NULL &&
		  strstr(e.detail, "up_proj.weight\" has type Q8_0") != NULL, "quantizing twice: %s", e.msg);
	conf_free(c);
}

static size_t
few_mat_bytes(KType type, int n, int k)
{
	return type == KT_Q4_K ? 0 : (size_t) n * (size_t) k;
}

/* llm_create_model refuses types that the kernels don't support. */
static void
test_kernel_types(void)
{
	Conf	   *c = make_conf();
	Kernels		few = {.name = "few", .mat_bytes = few_mat_bytes};
	Fake		f;
	ModelInfo	info;
	Err			e = {0};
	ModelSource src = {.find = fake_find, .where = fake_where, .ctx = &f};

	make(&f);
	CHECK(model_check(c, &src, NULL, &few, &info, &e), "%s", e.msg);
	get(&f, "model.layers.1.mlp.up_proj.weight")->type = KT_Q4_K;
	CHECK(!model_check(c, &src, NULL, &few, &info, &e) && e.cls == ERR_UNSUPPORTED &&
		  strstr(e.msg, "up_proj.weight\" in file") != NULL &&
		  strstr(e.msg, "has type Q4_K, which the \"few\" kernels don't support with 8 columns") != NULL,
		  "%s", e.msg);
	conf_free(c);
}

static void
test_windows(void)
{
	static const char *const types[] = {"full_attention", "chunked_attention"};
	Conf	   *c = make_conf();
	Fake		f;
	ModelInfo	info;
	Err			e;

	make(&f);
	conf_set_str(c, "architectures", "MistralForCausalLM");
	conf_set_num(c, "sliding_window", 0);
	refused("window 0", c, &f, ERR_BAD_FILE, "\"sliding_window\" = 0");
	conf_set_num(c, "sliding_window", 16);
	CHECK(check(c, &f, &info, &e) && strcmp(info.arch, "mistral") == 0, "%s", e.msg);
	conf_set_str(c, "architectures", "Qwen2ForCausalLM");
	conf_set_bool(c, "use_sliding_window", true);
	conf_set_strs(c, "layer_types", types, 2);
	refused("layer type", c, &f, ERR_UNSUPPORTED, "layer type \"chunked_attention\"");
	conf_set_strs(c, "layer_types", types, 1);
	refused("too few layer types", c, &f, ERR_BAD_FILE, "1 \"layer_types\", expected 2");
	conf_free(c);
	c = make_conf();
	conf_set_str(c, "architectures", "Cohere2ForCausalLM");
	conf_set_nums(c, "sliding_window_pattern", (const double[]) {1, 0, 1}, 3);
	refused("too many flags", c, &f, ERR_BAD_FILE, "3 flags of \"sliding_window_pattern\", expected 2");
	conf_free(c);
}

/* Values that single architectures refuse: unsupported switches, absurd values. */
static void
test_switches(void)
{
	static const struct
	{
		const char *class;
		const char *key;
		double		v;			/* a switch, if it is 1 */
		ErrClass	cls;
		const char *msg;
	}			cases[] = {
		{"GemmaForCausalLM", "use_bidirectional_attention", 1, ERR_UNSUPPORTED,
		 "\"use_bidirectional_attention\""},
		{"Gemma2ForCausalLM", "query_pre_attn_scalar", 0, ERR_BAD_FILE, "\"query_pre_attn_scalar\" = 0"},
		{"Gemma2ForCausalLM", "attn_logit_softcapping", -2, ERR_BAD_FILE, "\"attn_logit_softcapping\" = -2"},
		{"Gemma2ForCausalLM", "use_bidirectional_attention", 1, ERR_UNSUPPORTED,
		 "\"use_bidirectional_attention\""},
		{"Gemma3ForCausalLM", "attn_logit_softcapping", 50, ERR_UNSUPPORTED,
		 "\"attn_logit_softcapping\" of Gemma 3"},
		{"Gemma3ForCausalLM", "sliding_window", 0, ERR_BAD_FILE, "\"sliding_window\" = 0"},
		{"Phi3ForCausalLM", "sliding_window", -1, ERR_BAD_FILE, "\"sliding_window\" = -1"},
		{"SmolLM3ForCausalLM", "no_rope_layers", 3, ERR_BAD_FILE, "1 \"no_rope_layers\", expected 2"},
		{"SmolLM3ForCausalLM", "no_rope_layer_interval", 0, ERR_BAD_FILE, "\"no_rope_layer_interval\" = 0"},
		{"OlmoForCausalLM", "clip_qkv", -8, ERR_BAD_FILE, "\"clip_qkv\" = -8"},
		{"GraniteForCausalLM", "logits_scaling", 0, ERR_BAD_FILE, "\"logits_scaling\" = 0"},
		{"MiniCPMForCausalLM", "dim_model_base", 0, ERR_BAD_FILE, "\"dim_model_base\" = 0"},
		{"GlmForCausalLM", "partial_rotary_factor", 1.5, ERR_BAD_FILE, "\"partial_rotary_factor\" = 1.5"},
		{"CohereForCausalLM", "logit_scale", 0, ERR_BAD_FILE, "\"logit_scale\" = 0"},
		{"ExaoneForCausalLM", "num_layers", 0, ERR_BAD_FILE, "\"num_layers\" = 0"},
	};
	Fake		f;

	make(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Conf	   *c = make_conf();

		conf_set_str(c, "architectures", cases[i].class);
		if (cases[i].v == 1)
			conf_set_bool(c, cases[i].key, true);
		else
			conf_set_num(c, cases[i].key, cases[i].v);
		refused(cases[i].class, c, &f, cases[i].cls, cases[i].msg);
		conf_free(c);
	}
}

/* How RoPE scaling changes the context length; the options take precedence. */
static void
test_context_length(void)
{
	static const struct
	{
		const char *type;
		const char *key;
		double		v;
		int			len;
	}			cases[] = {
		{"linear", "factor", 2.5, 160}, {"dynamic", "factor", 4, 256}, {"dynamic", "alpha", 4, 64},
		{"yarn", "factor", 4, 64}, {"default", "factor", 4, 64}, {"llama3", "factor", 4, 64},
	};
	Fake		f;
	ModelInfo	info;
	Err			e;

	make(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int option = 0; option < 2; option++)
		{
			Conf	   *c = make_conf();
			const char *prefix = option ? "override.rope_scaling." : "rope_scaling.";
			char		key[80];

			if (option)
				conf_set_str(c, "rope_scaling.rope_type", "no_such_type");
			snprintf(key, sizeof(key), "%srope_type", prefix);
			conf_set_str(c, key, cases[i].type);
			snprintf(key, sizeof(key), "%s%s", prefix, cases[i].key);
			conf_set_num(c, key, cases[i].v);
			snprintf(key, sizeof(key), "%soriginal_max_position_embeddings", prefix);
			conf_set_num(c, key, 16);
			snprintf(key, sizeof(key), "%slow_freq_factor", prefix);
			conf_set_num(c, key, 1);
			snprintf(key, sizeof(key), "%shigh_freq_factor", prefix);
			conf_set_num(c, key, 4);
			CHECK(check(c, &f, &info, &e) && info.max_model_len == cases[i].len,
				  "%s%s: %s, %d positions, expected %d", prefix, cases[i].type, e.msg, info.max_model_len,
				  cases[i].len);
			conf_free(c);
		}
}

/*
 * A quantized module of a model's text part: found under the longer name, and only if there is no
 * ordinary weight.
 */
static KTensor quantized;
static int	n_calls;

static bool
fake_quantized(void *ctx, const char *module, int64_t n, int64_t k, const KTensor **out, Err *e)
{
	static const KTensor *parts[2];
	static const KReader reader = {.parts = parts};

	(void) e;
	n_calls++;
	*out = NULL;
	if (strcmp(module, "language_model.model.layers.1.mlp.up_proj") == 0)
	{
		parts[0] = fake_find(ctx, "language_model.model.layers.1.mlp.up_proj.weight");
		quantized = (KTensor) {.name = "up_proj", .type = KT_BF16, .ndim = 2, .shape = {n, k},
							   .reader = &reader};
		*out = &quantized;
	}
	return true;
}

static void
test_text_part(void)
{
	Conf	   *c = make_conf();
	Fake		f;
	ModelInfo	info;
	Err			e = {0};
	ModelSource src = {.find = fake_find, .at = fake_at, .where = fake_where, .quantized = fake_quantized,
					   .ctx = &f};

	make(&f);
	for (int i = 0; i < f.n; i++)
	{
		char		name[80];

		snprintf(name, sizeof(name), "%s", f.names[i]);
		snprintf(f.names[i], sizeof(f.names[i]), "language_model.%.60s", name);
	}
	add(&f, "vision_tower.blocks.0.weight", 4, 4);
	add(&f, "model.multi_modal_projector.weight", 4, 4);
	refused("without a text part", c, &f, ERR_BAD_FILE, "\"model.embed_tokens.weight\" is missing");
	conf_set_str(c, "text_config.model_type", "llama");
	CHECK(check(c, &f, &info, &e), "%s", e.msg);
	strcpy(f.names[get(&f, "language_model.model.layers.1.mlp.up_proj.weight") - f.t], "vision_tower.x");
	refused("a weight is missing", c, &f, ERR_BAD_FILE, "\"model.layers.1.mlp.up_proj.weight\" is missing");
	CHECK(model_check(c, &src, NULL, NULL, &info, &e), "%s", e.msg);
	/* 2 x 7 matrices, the embedding, the head, each under at most four names */
	CHECK(n_calls > 16 && n_calls <= 64, "asked for %d modules", n_calls);
	/* codes that are called "weight" */
	strcpy(f.names[get(&f, "vision_tower.x") - f.t], "language_model.model.layers.1.mlp.up_proj.weight");
	get(&f, "language_model.model.layers.1.mlp.up_proj.weight")->type = KT_I8;
	CHECK(model_check(c, &src, NULL, NULL, &info, &e), "%s", e.msg);
	conf_free(c);
}

/* ---- loading ---- */

static Model *
load(const Conf *c, Fake *f, KPool *pool, int max_len, Err *e)
{
	ModelSource src = {.find = fake_find, .progress = fake_progress, .where = fake_where, .ctx = f};
	ModelOptions opt = {.kernels = kernels_select("ref", NULL), .pool = pool, .max_rows = 4, .max_out = 2,
		.max_model_len = max_len};

	memset(e, 0, sizeof(*e));
	f->calls = 0;
	f->last = 0;
	return model_new(c, &src, &opt, e);
}

static void
test_load(void)
{
	KPool	   *pool = kpool_new(2);
	Conf	   *c = make_conf();
	Fake		f;
	Model	   *m;
	Err			e;

	make(&f);
	m = load(c, &f, pool, 0, &e);
	CHECK(m != NULL && f.last == 1.0 && f.calls == 10, "%s, %d calls to %g", e.msg, f.calls, f.last);
	CHECK(m != NULL && model_info(m)->weight_bytes >= 4 * model_info(m)->n_params, "packed size");
	model_free(m);
	for (int i = 1; i <= 10; i++)
	{
		f.stop_at = i;
		m = load(c, &f, pool, 0, &e);
		CHECK(m == NULL && e.cls == ERR_CANCELLED && f.calls == i, "cancel at call %d: %s", i, e.msg);
		model_free(m);
	}
	f.stop_at = 0;
	m = load(c, &f, pool, 32, &e);
	CHECK(m != NULL && model_info(m)->max_model_len == 32, "%s", e.msg);
	model_free(m);
	CHECK(load(c, &f, pool, 65, &e) == NULL && e.cls == ERR_INVALID, "too long: %s", e.msg);
	CHECK(load(c, &f, pool, -1, &e) == NULL && e.cls == ERR_INVALID, "negative: %s", e.msg);
	model_free(NULL);
	conf_free(c);
	kpool_free(pool);
}

/* Return a logit of one token with q, k and v of other types (not merged into one matrix). */
static float
first_logit(const Conf *c, Fake *f, KPool *pool, float *all)
{
	static const int32_t token[1] = {3};
	static const int32_t pos[1] = {0};
	static const int32_t start[2] = {0, 1};
	static const int32_t table[1] = {0};
	const int32_t *tables[1] = {table};
	const int32_t out[1] = {0};
	Batch		b = {.rows = {1, 1, start, pos, tables, NULL}, .tokens = token, .n_out = 1, .out_rows = out};
	KvView		kv = {.type = KT_F32, .n_layers = 2, .n_blocks = 1, .block_size = 64, .n_kv_heads = 1,
		.head_dim = 4};
	Err			e;
	Model	   *m = load(c, f, pool, 0, &e);

	CHECK(m != NULL, "%s", e.msg);
	if (m == NULL)
		return NAN;
	kv.base = mem_try_aligned(kv_layout(&kv));
	model_forward(m, &b, &kv, all);
	mem_free(kv.base);
	model_free(m);
	return all[0];
}

static void
test_mixed_types(void)
{
	static float weights[12 * 12];
	static uint16_t halves[12 * 12];
	KPool	   *pool = kpool_new(1);
	Conf	   *c = make_conf();
	Fake		f;
	float		same[10];
	float		mixed[10];

	for (int i = 0; i < 144; i++)
	{
		halves[i] = kf32_to_bf16(sinf((float) i) / 2);
		weights[i] = kbf16_to_f32(halves[i]);
	}
	make(&f);
	for (int i = 0; i < f.n; i++)
		f.t[i].data = weights;
	first_logit(c, &f, pool, same);
	for (int l = 0; l < 2; l++)
	{
		char		name[80];
		KTensor    *t;

		snprintf(name, sizeof(name), "model.layers.%d.self_attn.k_proj.weight", l);
		t = get(&f, name);
		t->type = KT_BF16;
		t->data = halves;
		t->nbytes /= 2;
	}
	first_logit(c, &f, pool, mixed);
	CHECK(same[0] != 0 && memcmp(same, mixed, sizeof(same)) == 0, "%g and %g", (double) same[0],
		  (double) mixed[0]);
	conf_free(c);
	kpool_free(pool);
}

/* the op table, which counts the head's rows: it is the only matrix with VOCAB columns */
#define VOCAB 10

static int	head_rows;

static void
counting_mm(KPool *pool, const KMat *w, const KOp *x, int rows, int ldx, float *y, int ldy,
			const float *bias, void *ws)
{
	if (w->n == VOCAB)
		head_rows += rows;
	kernels_select("ref", NULL)->mm(pool, w, x, rows, ldx, y, ldy, bias, ws);
}

/* The head multiplies only the rows whose logits are wanted; and they are the right ones. */
static void
test_head_rows(void)
{
	static const int32_t tokens[4] = {3, 1, 4, 1};
	static const int32_t pos[4] = {0, 1, 2, 3};
	static const int32_t start[2] = {0, 4};
	static const int32_t table[1] = {0};
	static const int32_t every[4] = {0, 1, 2, 3};
	static const int32_t some[2] = {1, 3};
	static float weights[12 * 12];
	const int32_t *tables[1] = {table};
	Batch		b = {.rows = {4, 1, start, pos, tables, NULL}, .tokens = tokens};
	KvView		kv = {.type = KT_F32, .n_layers = 2, .n_blocks = 1, .block_size = 64, .n_kv_heads = 1,
		.head_dim = 4};
	Kernels		kernels = *kernels_select("ref", NULL);
	KPool	   *pool = kpool_new(1);
	ModelOptions opt = {.kernels = &kernels, .pool = pool, .max_rows = 4, .max_out = 4};
	Conf	   *c = make_conf();
	float		all[4 * VOCAB];
	float		out[2 * VOCAB];
	Fake		f;
	ModelSource src = {.find = fake_find, .where = fake_where, .ctx = &f};
	Model	   *m;
	Err			e = {0};

	kernels.mm = counting_mm;
	make(&f);
	for (int i = 0; i < 144; i++)
		weights[i] = sinf((float) i) / 2;
	for (int i = 0; i < f.n; i++)
		f.t[i].data = weights;
	m = model_new(c, &src, &opt, &e);
	CHECK(m != NULL, "%s", e.msg);
	kv.base = mem_try_aligned(kv_layout(&kv));
	b.n_out = 4;
	b.out_rows = every;
	model_forward(m, &b, &kv, all);
	CHECK(head_rows == 4, "%d rows of the head for 4 wanted", head_rows);
	head_rows = 0;
	b.n_out = 2;
	b.out_rows = some;
	model_forward(m, &b, &kv, out);
	CHECK(head_rows == 2, "%d rows of the head for 2 wanted of 4", head_rows);
	CHECK(memcmp(out, all + VOCAB, sizeof(out) / 2) == 0 &&
		  memcmp(out + VOCAB, all + 3 * VOCAB, sizeof(out) / 2) == 0, "the rows that were wanted");
	head_rows = 0;
	b.n_out = 0;
	model_forward(m, &b, &kv, out);
	CHECK(head_rows == 0, "%d rows of the head for none wanted", head_rows);
	mem_free(kv.base);
	model_free(m);
	conf_free(c);
	kpool_free(pool);
}

/* A key of a mixture's configuration: a number, or a string. */
typedef struct BadMoe
{
	const char *arch;
	const char *key;
	double		num;
	const char *str;
	ErrClass	cls;
	const char *msg;
} BadMoe;

/* Values that mixtures of experts and latent attention refuse. */
static void
test_mixtures(void)
{
	static const BadMoe bad[] = {
		{"LlamaForCausalLM", "num_local_experts", 4, NULL, ERR_UNSUPPORTED,
		 "mixtures of experts are not supported"},
		{"MixtralForCausalLM", "n_routed_experts", 0, NULL, ERR_BAD_FILE, "\"n_routed_experts\" = 0"},
		{"MixtralForCausalLM", "n_routed_experts", 1e6, NULL, ERR_BAD_FILE, "\"n_routed_experts\" = 1e+06"},
		{"MixtralForCausalLM", "num_experts_per_tok", 9, NULL, ERR_BAD_FILE, "\"num_experts_per_tok\" = 9"},
		{"MixtralForCausalLM", "num_experts_per_tok", 2, NULL, ERR_BAD_FILE,
		 "block_sparse_moe.gate.weight\" is missing"},
		{"Qwen2MoeForCausalLM", "decoder_sparse_step", 0, NULL, ERR_BAD_FILE, "\"decoder_sparse_step\" = 0"},
		{"Qwen2MoeForCausalLM", "qkv_bias", 0, NULL, ERR_BAD_FILE, "no \"shared_expert_intermediate_size\""},
		{"Qwen3MoeForCausalLM", "moe_intermediate_size", -1, NULL, ERR_BAD_FILE,
		 "\"moe_intermediate_size\" = -1"},
		{"DeepseekV2ForCausalLM", "topk_method", 0, "random", ERR_UNSUPPORTED,
		 "\"topk_method\" = \"random\""},
		{"DeepseekV2ForCausalLM", "scoring_func", 0, "sigmoid", ERR_UNSUPPORTED,
		 "\"scoring_func\" = \"sigmoid\""},
		{"DeepseekV2ForCausalLM", "moe_layer_freq", 2, NULL, ERR_UNSUPPORTED, "\"moe_layer_freq\" = 2"},
		{"DeepseekV2ForCausalLM", "kv_lora_rank", 0, NULL, ERR_BAD_FILE, "\"kv_lora_rank\" = 0"},
		{"DeepseekV2ForCausalLM", "kv_lora_rank", 1023, NULL, ERR_UNSUPPORTED,
		 "latent attention with 1023 and 2 dimensions"},
		{"DeepseekV3ForCausalLM", "scoring_func", 0, "softmax", ERR_UNSUPPORTED,
		 "\"scoring_func\" = \"softmax\""},
		{"DeepseekV3ForCausalLM", "n_group", 3, NULL, ERR_BAD_FILE,
		 "8 experts, which is not a multiple of its 3 groups"},
		{"DeepseekV3ForCausalLM", "topk_group", 2, NULL, ERR_BAD_FILE, "\"topk_group\" = 2"},
		{"DeepseekV3ForCausalLM", "n_group", 8, NULL, ERR_BAD_FILE, "has shape [8, 8], expected [12, 8]"},
		{"DeepseekV3ForCausalLM", "qk_rope_head_dim", 3, NULL, ERR_UNSUPPORTED,
		 "latent attention with 4 and 3 dimensions"},
		{"GptOssForCausalLM", "swiglu_limit", 5, NULL, ERR_UNSUPPORTED, "\"swiglu_limit\" = 5"},
		{"GptOssForCausalLM", "swiglu_alpha", 1, NULL, ERR_UNSUPPORTED, "\"swiglu_alpha\" = 1"},
		{"OlmoeForCausalLM", "clip_qkv", 8, NULL, ERR_UNSUPPORTED, "\"clip_qkv\" = 8"},
	};
	Fake		f;

	make(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		Conf	   *c = make_conf();

		if (strcmp(bad[i].arch, "LlamaForCausalLM") != 0)
			conf_set_int(c, "n_routed_experts", 8);
		conf_set_int(c, "num_experts_per_tok", 2);
		conf_set_int(c, "kv_lora_rank", 4);
		conf_set_int(c, "qk_nope_head_dim", 4);
		conf_set_int(c, "qk_rope_head_dim", 2);
		conf_set_str(c, "architectures", bad[i].arch);
		if (strncmp(bad[i].arch, "Deepseek", 8) == 0)
		{
			conf_set_int(c, "v_head_dim", 4);
			conf_set_null(c, "q_lora_rank");
		}
		if (bad[i].str != NULL)
			conf_set_str(c, bad[i].key, bad[i].str);
		else
			conf_set_num(c, bad[i].key, bad[i].num);
		refused(bad[i].arch, c, &f, bad[i].cls, bad[i].msg);
		conf_free(c);
	}
}

/* Values that architectures with blocks of their own refuse, and hybrids; with one layer. */
static void
test_specials(void)
{
	static const BadMoe bad[] = {
		{"GraniteMoeHybridForCausalLM", "layer_types", 0, "sliding_attention", ERR_UNSUPPORTED,
		 "layer type \"sliding_attention\""},
		{"GraniteMoeHybridForCausalLM", "mamba_n_heads", 3, NULL, ERR_BAD_FILE,
		 "3 heads in 1 groups for 16 channels"},
		{"GraniteMoeHybridForCausalLM", "mamba_d_head", 3, NULL, ERR_BAD_FILE,
		 "\"mamba_d_head\" = 3, expected 4"},
		{"GraniteMoeHybridForCausalLM", "mamba_d_conv", 17, NULL, ERR_BAD_FILE, "\"mamba_d_conv\" = 17"},
		{"GraniteMoeHybridForCausalLM", "hidden_act", 0, "gelu", ERR_UNSUPPORTED,
		 "another activation than \"silu\""},
		{"GraniteMoeHybridForCausalLM", "shared_intermediate_size", 0, NULL, ERR_BAD_FILE,
		 "\"shared_intermediate_size\" = 0"},
		{"JambaForCausalLM", "attn_layer_offset", 8, NULL, ERR_BAD_FILE, "\"attn_layer_offset\" = 8"},
		{"JambaForCausalLM", "expert_layer_period", 0, NULL, ERR_BAD_FILE, "\"expert_layer_period\" = 0"},
		{"JambaForCausalLM", "mamba_dt_rank", 0, NULL, ERR_BAD_FILE, "\"mamba_dt_rank\" = 0"},
		{"FalconH1ForCausalLM", "ssm_multipliers", 2, NULL, ERR_BAD_FILE, "invalid \"ssm_multipliers\""},
		{"FalconH1ForCausalLM", "key_multiplier", 1e30, NULL, ERR_BAD_FILE, "\"key_multiplier\" = 1e+30"},
		{"FalconH1ForCausalLM", "attention_in_multiplier", 0.5, NULL, ERR_UNSUPPORTED,
		 "\"attention_bias\" with \"attention_in_multiplier\" = 0.5"},
		{"FalconH1ForCausalLM", "ssm_in_multiplier", 0.5, NULL, ERR_UNSUPPORTED,
		 "\"mamba_proj_bias\" with \"ssm_in_multiplier\" = 0.5"},
		{"FalconH1ForCausalLM", "lm_head_multiplier", 0, NULL, ERR_BAD_FILE, "\"lm_head_multiplier\" = 0"},
		{"Lfm2ForCausalLM", "layer_types", 0, "mamba", ERR_UNSUPPORTED, "layer type \"mamba\""},
		{"Lfm2ForCausalLM", "conv_L_cache", 17, NULL, ERR_BAD_FILE, "\"conv_L_cache\" = 17"},
		{"Lfm2ForCausalLM", "block_ffn_dim_multiplier", 0.01, NULL, ERR_BAD_FILE,
		 "invalid \"block_ffn_dim_multiplier\""},
		{"Lfm2MoeForCausalLM", "num_dense_layers", -1, NULL, ERR_BAD_FILE, "\"num_dense_layers\" = -1"},
		{"Llama4ForCausalLM", "layer_types", 0, "sliding_attention", ERR_UNSUPPORTED,
		 "layer type \"sliding_attention\""},
		{"Llama4ForCausalLM", "attention_chunk_size", 0, NULL, ERR_BAD_FILE, "\"attention_chunk_size\" = 0"},
		{"Llama4ForCausalLM", "floor_scale", 0, NULL, ERR_BAD_FILE, "\"floor_scale\" = 0"},
		{"ApertusForCausalLM", "hidden_act", 0, "gelu_10", ERR_UNSUPPORTED, "\"gelu_10\""},
		{"ApertusForCausalLM", "eos_token_id", 2, NULL, ERR_BAD_FILE, "no \"rope_scaling\""},
		{"Ministral3ForCausalLM", "rope_scaling.llama_4_scaling_beta", 0.1, NULL, ERR_BAD_FILE,
		 "no \"rope_scaling.original_max_position_embeddings\""},
		{"PersimmonForCausalLM", "partial_rotary_factor", 2, NULL, ERR_BAD_FILE,
		 "\"partial_rotary_factor\" = 2"},
		{"MambaForCausalLM", "hidden_act", 0, "gelu", ERR_UNSUPPORTED, "another activation than \"silu\""},
		{"Mamba2ForCausalLM", "time_step_limit", 1, NULL, ERR_BAD_FILE, "invalid \"time_step_limit\""},
		{"MPTForCausalLM", "attn_config.attn_type", 0, "multiquery_attention", ERR_UNSUPPORTED,
		 "\"attn_type\" of the mpt architecture"},
		{"Ernie4_5_MoeForCausalLM", "use_bias", 1, NULL, ERR_UNSUPPORTED, "\"use_bias\" is not supported"},
		{"BloomForCausalLM", "apply_residual_connection_post_layernorm", 1, NULL, ERR_UNSUPPORTED,
		 "apply_residual_connection_post_layernorm"},
		{"GPT2LMHeadModel", "add_cross_attention", 1, NULL, ERR_UNSUPPORTED,
		 "cross-attention is not supported"},
	};
	Fake		f;

	make(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		Conf	   *c = make_conf();

		conf_set_int(c, "num_hidden_layers", 1);
		conf_set_int(c, "num_experts", 2);
		conf_set_int(c, "moe_num_experts", 2);
		conf_set_int(c, "moe_k", 1);
		conf_set_int(c, "num_experts_per_tok", 1);
		conf_set_int(c, "mamba_n_heads", 4);
		conf_set_int(c, "mamba_d_state", 4);
		conf_set_int(c, "head_dim", 4);
		conf_set_bool(c, "attention_bias", true);
		conf_set_bool(c, "mamba_proj_bias", true);
		conf_set_str(c, "architectures", bad[i].arch);
		if (bad[i].str != NULL)
			conf_set_strs(c, bad[i].key, &bad[i].str, 1);
		else if (bad[i].num == 1)
			conf_set_bool(c, bad[i].key, true);
		else
			conf_set_num(c, bad[i].key, bad[i].num);
		if (bad[i].str != NULL && strcmp(bad[i].key, "layer_types") != 0)
			conf_set_str(c, bad[i].key, bad[i].str);
		refused(bad[i].arch, c, &f, bad[i].cls, bad[i].msg);
		conf_free(c);
	}
}

#define VOCAB_BAICHUAN2 125696

/*
 * Baichuan 2, detected by its vocabulary: a logit is the product with a normalized row of the head.  The
 * layer adds nothing.
 */
static void
test_head_norm(void)
{
	static const int32_t token = 77777;
	static const int32_t start[2] = {0, 1};
	static const int32_t zero = 0;
	const int32_t *tables[1] = {&zero};
	Batch		b = {.rows = {1, 1, start, &zero, tables, NULL}, .tokens = &token, .n_out = 1,
					 .out_rows = &zero};
	KvView		kv = {.type = KT_F32, .n_layers = 1, .n_blocks = 1, .block_size = 64, .n_kv_heads = 2,
					  .head_dim = 4};
	KPool	   *pool = kpool_new(2);
	ModelOptions opt = {.kernels = kernels_select("auto", NULL), .pool = pool, .max_rows = 1, .max_out = 1};
	size_t		n = (size_t) VOCAB_BAICHUAN2 * 8;
	float	   *rows = mem_alloc(n * sizeof(float));
	float	   *logits = mem_alloc(VOCAB_BAICHUAN2 * sizeof(float));
	static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	Conf	   *c = make_conf();
	Fake		f = {0};
	ModelSource src = {.find = fake_find, .at = fake_at, .where = fake_where, .ctx = &f};
	Model	   *m;
	Err			e = {0};
	double		square = 0;
	double		worst = 0;

	conf_set_str(c, "architectures", "BaichuanForCausalLM");
	conf_set_int(c, "num_hidden_layers", 1);
	conf_set_int(c, "num_key_value_heads", 2);
	conf_set_int(c, "vocab_size", VOCAB_BAICHUAN2);
	for (size_t i = 0; i < n; i++)
		rows[i] = sinf((float) i) * (float) (1 + i / 8 % 5);
	add(&f, "model.embed_tokens.weight", VOCAB_BAICHUAN2, 8);
	add(&f, "lm_head.weight", VOCAB_BAICHUAN2, 8);
	f.t[0].data = f.t[1].data = rows;
	for (int i = 0; i < 3; i++)
	{
		static const char *const norms[3] = {
			"model.norm.weight", "model.layers.0.input_layernorm.weight",
			"model.layers.0.post_attention_layernorm.weight"
		};

		add(&f, norms[i], 8, 0);
		f.t[f.n - 1].data = ones;
	}
	add(&f, "model.layers.0.self_attn.W_pack.weight", 24, 8);
	add(&f, "model.layers.0.self_attn.o_proj.weight", 8, 8);
	add(&f, "model.layers.0.mlp.gate_proj.weight", 12, 8);
	add(&f, "model.layers.0.mlp.up_proj.weight", 12, 8);
	add(&f, "model.layers.0.mlp.down_proj.weight", 8, 12);
	m = model_new(c, &src, &opt, &e);
	CHECK(m != NULL, "%s", e.msg);
	kv.base = mem_try_aligned(kv_layout(&kv));
	if (m != NULL)
		model_forward(m, &b, &kv, logits);
	for (int k = 0; k < 8; k++)
		square += (double) rows[token * 8 + k] * (double) rows[token * 8 + k];
	for (int i = 0; m != NULL && i < VOCAB_BAICHUAN2; i++)
	{
		double		dot = 0;
		double		len = 0;

		for (int k = 0; k < 8; k++)
		{
			dot += (double) rows[token * 8 + k] * (double) rows[i * 8 + k];
			len += (double) rows[i * 8 + k] * (double) rows[i * 8 + k];
		}
		worst = fmax(worst, fabs(dot / sqrt(len) / sqrt(square / 8 + 1e-6) - (double) logits[i]));
	}
	CHECK(worst < 1e-5, "a head of rows of length 1: error %g", worst);
	mem_free(kv.base);
	mem_free(rows);
	mem_free(logits);
	model_free(m);
	conf_free(c);
	kpool_free(pool);
}

/* hidden 8, 1 layer of Mixtral with 3 experts of 4. */
static void
test_expert_tensors(void)
{
	Conf	   *c = make_conf();
	Fake		f;
	ModelInfo	info;
	Err			e;

	make(&f);
	/* without the second layer and the first one's MLP */
	for (int i = 0, n = f.n, to = f.n = 0; i < n; i++)
	{
		KTensor		t = f.t[i];

		if (strstr(f.names[i], "layers.1.") != NULL || strstr(f.names[i], ".mlp.") != NULL)
			continue;
		memmove(f.names[to], f.names[i], sizeof(f.names[0]));
		f.t[to] = t;
		f.t[to].name = f.names[to];
		f.n = ++to;
	}
	conf_set_str(c, "architectures", "MixtralForCausalLM");
	conf_set_int(c, "num_hidden_layers", 1);
	conf_set_int(c, "num_local_experts", 3);
	conf_set_int(c, "num_experts_per_tok", 2);
	conf_set_int(c, "intermediate_size", 4);
	add(&f, "model.layers.0.block_sparse_moe.gate.weight", 3, 8);
	for (int i = 0; i < 3; i++)
		for (int j = 1; j <= 3; j++)
		{
			char		name[80];

			snprintf(name, sizeof(name), "model.layers.0.block_sparse_moe.experts.%d.w%d.weight", i, j);
			add(&f, name, j == 2 ? 8 : 4, j == 2 ? 4 : 8);
		}
	CHECK(check(c, &f, &info, &e) && strcmp(info.arch, "mixtral") == 0, "a mixture: %s", e.msg);
	get(&f, "model.layers.0.block_sparse_moe.experts.1.w3.weight")->type = KT_BF16;
	CHECK(check(c, &f, &info, &e), "experts of two types: %s", e.msg);
	get(&f, "model.layers.0.block_sparse_moe.experts.1.w3.weight")->type = KT_F32;
	get(&f, "model.layers.0.block_sparse_moe.experts.2.w2.weight")->shape[1] = 5;
	refused("a wider expert", c, &f, ERR_BAD_FILE, "has shape [8, 5], expected [8, 4]");
	get(&f, "model.layers.0.block_sparse_moe.experts.2.w2.weight")->shape[1] = 4;
	add(&f, "model.layers.0.block_sparse_moe.experts.3.w1.weight", 4, 8);
	refused("one more expert", c, &f, ERR_UNSUPPORTED, "has no place in architecture \"mixtral\"");
	conf_free(c);
}

/*
 * A latent-attention model of one layer, whose heads' matrices have a type that can't be split: the
 * rotated part becomes halves.
 */
static void
test_latent_quantized(void)
{
	enum { HEADS = 2, PLAIN = 4, ROPE = 2, V = 3, LATENT = 32, ROWS = HEADS * (PLAIN + V) };
	static const Arch arch = {"deepseek2", "DeepseekV2ForCausalLM", "deepseek2", deepseek2_conf,
							  deepseek_bind, deepseek_forward};
	static KBlockQ8_0 blocks[ROWS];
	static const struct
	{
		const char *name;
		int			n;
		int			k;
	}			parts[] = {
		{"model.embed_tokens.weight", 10, 8}, {"lm_head.weight", 10, 8}, {"model.norm.weight", 8, 0},
		{"model.layers.0.input_layernorm.weight", 8, 0}, {"model.layers.0.post_attention_layernorm.weight", 8,
														  0},
		{"model.layers.0.self_attn.q_proj.weight", HEADS * (PLAIN + ROPE), 8},
		{"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", LATENT + ROPE, 8},
		{"model.layers.0.self_attn.kv_a_layernorm.weight", LATENT, 0},
		{"model.layers.0.self_attn.kv_b_proj.weight", ROWS, LATENT},
		{"model.layers.0.self_attn.o_proj.weight", 8, HEADS * V},
		{"model.layers.0.mlp.gate_proj.weight", 12, 8},
		{"model.layers.0.mlp.up_proj.weight", 12, 8}, {"model.layers.0.mlp.down_proj.weight", 8, 12},
	};
	Fake		f = {0};
	ModelSource src = {.find = fake_find,.at = fake_at,.where = fake_where,.ctx = &f};
	Conf	   *c = make_conf();
	Decoder		d = {0};
	ModelInfo	info = {0};
	Err			e = {0};
	KTensor    *t;
	int			wrong = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		add(&f, parts[i].name, parts[i].n, parts[i].k);
	for (int i = 0; i < ROWS; i++)
	{
		blocks[i].d = kf32_to_f16(0.01f * (float) (i + 1));
		for (int j = 0; j < LATENT; j++)
			blocks[i].qs[j] = (int8_t) ((i * 37 + j * 11) % 255 - 127);
	}
	t = get(&f, "model.layers.0.self_attn.kv_b_proj.weight");
	t->type = KT_Q8_0;
	t->data = blocks;
	t->nbytes = sizeof(blocks);
	conf_set_int(c, "num_hidden_layers", 1);
	conf_set_int(c, "kv_lora_rank", LATENT);
	conf_set_null(c, "q_lora_rank");
	conf_set_int(c, "qk_nope_head_dim", PLAIN);
	conf_set_int(c, "qk_rope_head_dim", ROPE);
	conf_set_int(c, "v_head_dim", V);
	conf_set_int(c, "n_routed_experts", 2);
	conf_set_int(c, "num_experts_per_tok", 1);
	conf_set_int(c, "first_k_dense_replace", 1);
	CHECK(deepseek2_conf(c, &d.c, &e) && dec_bind(&d, &arch, c, &src, NULL, &info, &e), "%s", e.msg);
	for (int h = 0; h < HEADS && e.msg[0] == '\0'; h++)
	{
		const KTensor *k = d.layers[0].mla.k.of[h].w[0];
		uint16_t	rows[LATENT][PLAIN];

		CHECK(k->type == KT_F16 && k->shape[0] == LATENT && k->shape[1] == PLAIN, "head %d: %s", h,
			  ktype_name(k->type));
		k->reader->rows(k->reader, 0, 1, 5, rows[0]);
		k->reader->rows(k->reader, 5, 1, LATENT - 5, rows[5]);
		for (int i = 0; i < LATENT; i++)
			for (int j = 0; j < PLAIN; j++)
			{
				const KBlockQ8_0 *from = &blocks[h * (PLAIN + V) + j];

				wrong += rows[i][j] != kf32_to_f16(kf16_to_f32(from->d) * (float) from->qs[i]);
			}
	}
	CHECK(wrong == 0, "%d weights are wrong", wrong);
	dec_unbind(&d);
	for (size_t i = 0; i < d.n_stacks; i++)
		stack_free(d.stacks[i]);
	mem_free(d.stacks);
	dec_lora_free(&d);
	mem_free(d.layers);
	dec_conf_free(&d.c);
	conf_free(c);
}

int
main(void)
{
	RUN(test_good());
	RUN(test_bad_numbers());
	RUN(test_bad_strings());
	RUN(test_encoders());
	RUN(test_kinds());
	RUN(test_tensors());
	RUN(test_quantization());
	RUN(test_kernel_types());
	RUN(test_windows());
	RUN(test_switches());
	RUN(test_text_part());
	RUN(test_context_length());
	RUN(test_load());
	RUN(test_mixed_types());
	RUN(test_head_rows());
	RUN(test_mixtures());
	RUN(test_expert_tensors());
	RUN(test_specials());
	RUN(test_head_norm());
	RUN(test_latent_quantized());
	return check_done("test_model");
}
