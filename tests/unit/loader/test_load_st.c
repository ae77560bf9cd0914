/*
 * test_load_st.c
 *	  The files of sentence-transformers: everything that is supported, and each error in them.
 */
#include "tests/unit/load_util.h"

#define MODULE(type, path) "{\"idx\": 0, \"name\": \"0\", \"path\": \"" \
	path "\", \"type\": \"sentence_transformers.models." type "\"}"

static void
put_dense(const char *name, const char *header, size_t data)
{
	uint8_t		file[1024] = {0};
	uint64_t	n = strlen(header);

	memcpy(file, &n, 8);
	memcpy(file + 8, header, n);
	put_file(name, file, 8 + (size_t) n + data);
}

static void
clear_folder(const char *name)
{
	char		path[400];

	snprintf(path, sizeof(path), "%s/config.json", in_scratch(name));
	unlink(path);
	snprintf(path, sizeof(path), "%s/model.safetensors", in_scratch(name));
	unlink(path);
	snprintf(path, sizeof(path), "%s/pytorch_model.bin", in_scratch(name));
	unlink(path);
	rmdir(in_scratch(name));
}

/* Write a model that loads, without any of these files. */
static void
base(void)
{
	clear_folder("1_Pooling");
	clear_folder("2_Dense");
	scratch_clear();
	put_text("config.json", "{\"architectures\": [\"LlamaModel\"]}");
	put_text("tokenizer.json", "{}");
	put_dense("model.safetensors", "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
			  8);
	mkdir(in_scratch("1_Pooling"), 0700);
	mkdir(in_scratch("2_Dense"), 0700);
}

static Files *
opens(const char *what)
{
	Err			e = {0};
	Files	   *f = files_open(scratch, &e);

	CHECK(f != NULL, "%s: %s", what, e.msg);
	return f;
}

static void
refused(const char *what, ErrClass cls, const char *msg)
{
	Err			e = {0};
	Files	   *f = files_open(scratch, &e);

	CHECK(f == NULL && e.cls == cls && strstr(e.msg, msg) != NULL, "%s: \"%s\" is expected, and is \"%s\"",
		  what, msg, f == NULL ? e.msg : "");
	files_close(f);
}

static void
test_all(void)
{
	Files	   *f;
	const Conf *c;
	const char *const *s;
	size_t		n;

	base();
	put_text("modules.json", "[" MODULE("Transformer", "") "," MODULE("Pooling", "1_Pooling") ","
			 MODULE("Dense", "2_Dense") ","
			 MODULE("Normalize", "3_Normalize") "]");
	put_text("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": "
			 "true, \"pooling_mode_max_tokens\": false, \"include_prompt\": false}");
	put_text("2_Dense/config.json", "{\"in_features\": 4, \"out_features\": 1, \"bias\": true, "
			 "\"activation_function\": \"torch.nn.modules.linear.Identity\"}");
	put_dense("2_Dense/model.safetensors",
			  "{\"linear.weight\": {\"dtype\": \"F32\", \"shape\": [1, 4], \"data_offsets\": [0, 16]}, "
			  "\"linear.bias\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [16, 20]}}", 20);
	put_text("sentence_bert_config.json", "{\"max_seq_length\": 77, \"do_lower_case\": true}");
	put_text("config_sentence_transformers.json",
			 "{\"prompts\": {\"query\": \"Q: \", \"doc\": \"\", \"bad\": 7}, \"default_prompt_name\": "
			 "\"query\", \"similarity_fn_name\": \"dot\"}");
	if ((f = opens("all files")) == NULL)
		return;
	c = files_conf(f);
	s = conf_strs(c, "st.pooling", &n);
	CHECK(n == 2 && strcmp(s[0], "pooling_mode_cls_token") == 0 &&
		  strcmp(s[1], "pooling_mode_mean_tokens") == 0, "%zu poolers", n);
	CHECK(!conf_bool(c, "st.include_prompt", true) && conf_bool(c, "st.normalize", false) &&
		  !conf_has(c, "st.by_token"), "switches");
	CHECK(conf_int(c, "st.max_seq_length", 0) == 77 && conf_bool(c, "st.do_lower_case", false),
		  "limits of texts");
	CHECK(conf_int(c, "st.dense.0.out_features", 0) == 1 &&
		  files_find(f, "st.dense.0.linear.weight") != NULL &&
		  files_find(f, "st.dense.0.linear.bias") != NULL, "a dense layer");
	s = conf_strs(c, "st.prompt_names", &n);
	CHECK(n == 2 && strcmp(s[0], "query") == 0 && strcmp(conf_str(c, "st.prompts.query", ""), "Q: ") == 0 &&
		  strcmp(conf_str(c, "st.default_prompt_name", ""), "query") == 0, "%zu prompts", n);
	files_close(f);
}

/* The format of the newest releases. */
static void
test_new_style(void)
{
	Files	   *f;
	const char *const *s;
	size_t		n = 0;

	base();
	put_text("modules.json", "[" MODULE("Transformer", "") "," MODULE("Pooling", "1_Pooling") "]");
	put_text("1_Pooling/config.json", "{\"embedding_dimension\": 4, \"pooling_mode\": [\"lasttoken\", "
									  "\"weightedmean\"]}");
	if ((f = opens("pooling_mode")) != NULL)
	{
		s = conf_strs(files_conf(f), "st.pooling", &n);
		CHECK(n == 2 && strcmp(s[0], "pooling_mode_lasttoken") == 0 &&
			  strcmp(s[1], "pooling_mode_weightedmean_tokens") == 0, "%zu poolers", n);
	}
	files_close(f);
	put_text("1_Pooling/config.json", "{}");
	if ((f = opens("no mode")) != NULL)
		CHECK(strcmp(conf_strs(files_conf(f), "st.pooling", &n)[0], "pooling_mode_mean_tokens") == 0,
			  "the mean by default");
	files_close(f);
	put_text("modules.json", "[" MODULE("Transformer", "") "]");
	if ((f = opens("no pooling")) != NULL)
		CHECK(conf_bool(files_conf(f), "st.by_token", false), "no pooling: tokens");
	files_close(f);
}

static void
test_bad(void)
{
	static const struct
	{
		const char *modules;
		const char *pooling;
		const char *dense;
		ErrClass	cls;
		const char *msg;
	}			cases[] = {
		{"{", NULL, NULL, ERR_BAD_FILE, "is not JSON"},
		{"{}", NULL, NULL, ERR_BAD_FILE, "is not an array of at most 16 modules"},
		{"[1]", NULL, NULL, ERR_BAD_FILE, "has a module without a valid \"type\" or \"path\""},
		{"[{\"type\": \"a.Pooling\", \"path\": \"../x\"}]", NULL, NULL, ERR_BAD_FILE, "without a valid"},
		{"[{\"type\": \"a.Pooling\", \"path\": \"/etc\"}]", NULL, NULL, ERR_BAD_FILE, "without a valid"},
		{"[{\"type\": \"a.Pooling\", \"path\": \"..\"}]", NULL, NULL, ERR_BAD_FILE, "without a valid"},
		{"[" MODULE("LSTM", "1_LSTM") "]", NULL, NULL, ERR_UNSUPPORTED, "module \"LSTM\""},
		{"[" MODULE("L\\nS", "1_LSTM") "]", NULL, NULL, ERR_UNSUPPORTED, "module \"L?S\""},
		{"[" MODULE("Pooling", "1_Pooling") "]", NULL, NULL, ERR_BAD_FILE,
		 "has no \"1_Pooling/config.json\""},
		{"[" MODULE("Pooling", "1_Pooling") "]", "[]", NULL, ERR_BAD_FILE,
		 "has no \"1_Pooling/config.json\""},
		{"[" MODULE("Dense", "2_Dense") "]", NULL, NULL, ERR_BAD_FILE,
		 "has no \"2_Dense/config.json\" with \"out_features\""},
		{"[" MODULE("Dense", "2_Dense") "]", NULL, "{\"out_features\": \"x\"}", ERR_BAD_FILE,
		 "with \"out_features\""},
		{"[" MODULE("Dense", "2_Dense") "]", NULL, "{\"out_features\": 2}", ERR_BAD_FILE,
		 "2_Dense\" has neither model.safetensors"},
		{"[" MODULE("Dense", "2_Dense") "]", NULL, "{\"out_features\": 2, \"use_residual\": true}",
		 ERR_UNSUPPORTED, "residual"},
		{"[" MODULE("Normalize", "1_N") "," MODULE("Dense", "2_Dense") "]", NULL, "{\"out_features\": 2}",
		 ERR_UNSUPPORTED,
		"after normalized"},
		{"[" MODULE("Dense", "2_Dense") "," MODULE("Pooling", "1_Pooling") "]", "{}", "{\"out_features\": 2}",
		 ERR_UNSUPPORTED,
		"before the pooling whose input is not"},
		{"[" MODULE("Pooling", "1_Pooling") "," MODULE("Dense", "2_Dense") "]", "{}",
			"{\"out_features\": 2, \"module_input_name\": \"token_embeddings\"}", ERR_UNSUPPORTED,
			"after the pooling whose input is not"},
		{"[" MODULE("Pooling", "1_Pooling") "," MODULE("Dense", "2_Dense") "]", "{}",
			"{\"out_features\": 2, \"module_input_name\": \"sentence_embedding\", \"module_output_name\": "
			"\"x\"}", ERR_UNSUPPORTED,
		"output has another name"},
		{"[" MODULE("LayerNorm", "2_Dense") "," MODULE("Pooling", "1_Pooling") "]", "{}", "{}",
		 ERR_UNSUPPORTED, "does not follow a pooling"},
		{"[" MODULE("Normalize", "2_N") "," MODULE("Pooling", "1_Pooling") "]", "{}", NULL, ERR_UNSUPPORTED,
		 "normalized before the pooling"},
		{"[" MODULE("Pooling", "1_Pooling") "," MODULE("Pooling", "1_Pooling") "]", "{}", NULL,
		 ERR_UNSUPPORTED, "a second pooling"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		base();
		put_text("modules.json", cases[i].modules);
		if (cases[i].pooling != NULL)
			put_text("1_Pooling/config.json", cases[i].pooling);
		if (cases[i].dense != NULL)
			put_text("2_Dense/config.json", cases[i].dense);
		refused(cases[i].modules, cases[i].cls, cases[i].msg);
	}
	base();
	put_text("modules.json", "[" MODULE("Dense", "2_Dense") "]");
	put_text("2_Dense/config.json", "{\"out_features\": 2}");
	put_text("2_Dense/pytorch_model.bin", "PK");
	refused("a pickled layer", ERR_UNSUPPORTED, "PyTorch files");
	base();
	put_text("sentence_bert_config.json", "x");
	refused("not JSON", ERR_BAD_FILE, "sentence_bert_config.json\" is not JSON");
}

int
main(void)
{
	scratch_make();
	RUN(test_all());
	RUN(test_new_style());
	RUN(test_bad());
	clear_folder("1_Pooling");
	clear_folder("2_Dense");
	scratch_remove();
	return check_done("test_load_st");
}
