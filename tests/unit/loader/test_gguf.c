/*
 * test_gguf.c
 *	  GGUF files, good and bad: the container's limits, the translation to Hugging Face's names, the
 *	  vocabulary, and the errors with their messages.
 */
#include "loader/gguf.h"
#include "tests/unit/load_util.h"
#include "tokenizer/tokenizer.h"

/* ---- a small writer ---- */

static Buf	kvs,
			infos,
			data;
static uint64_t n_kvs,
			n_infos;
static const char *out_name = "m.gguf";

static void
add_u32(Buf *b, uint32_t v)
{
	buf_add(b, &v, 4);
}

static void
add_u64(Buf *b, uint64_t v)
{
	buf_add(b, &v, 8);
}

static void
add_str(Buf *b, const char *s)
{
	add_u64(b, strlen(s));
	buf_addstr(b, s);
}

static void
key(const char *name, GgufType type)
{
	add_str(&kvs, name);
	add_u32(&kvs, type);
	n_kvs++;
}

static void
key_u32(const char *name, uint32_t v)
{
	key(name, GGUF_U32);
	add_u32(&kvs, v);
}

static void
key_f32(const char *name, float v)
{
	key(name, GGUF_F32);
	buf_add(&kvs, &v, 4);
}

static void
key_str(const char *name, const char *s)
{
	key(name, GGUF_STRING);
	add_str(&kvs, s);
}

static void
key_strs(const char *name, const char *const *s, uint64_t n)
{
	key(name, GGUF_ARRAY);
	add_u32(&kvs, GGUF_STRING);
	add_u64(&kvs, n);
	for (uint64_t i = 0; i < n; i++)
		add_str(&kvs, s[i]);
}

/* Write an F32 tensor of zeros, dimensions innermost first. */
static void
tensor(const char *name, uint64_t ne0, uint64_t ne1, uint32_t type, uint64_t offset)
{
	add_str(&infos, name);
	add_u32(&infos, ne1 > 0 ? 2 : 1);
	add_u64(&infos, ne0);
	if (ne1 > 0)
		add_u64(&infos, ne1);
	add_u32(&infos, type);
	add_u64(&infos, offset);
	n_infos++;
}

static void
start(void)
{
	buf_reset(&kvs);
	buf_reset(&infos);
	buf_reset(&data);
	n_kvs = n_infos = 0;
}

static void
finish(uint32_t version, size_t data_len)
{
	Buf			b = {0};

	buf_addstr(&b, "GGUF");
	add_u32(&b, version);
	add_u64(&b, n_infos);
	add_u64(&b, n_kvs);
	buf_add(&b, kvs.data, kvs.len);
	buf_add(&b, infos.data, infos.len);
	while (b.len % 32 != 0)
		buf_addc(&b, 0);
	for (size_t i = 0; i < data_len; i++)
		buf_addc(&b, 0);
	put_file(out_name, b.data, b.len);
	buf_free(&b);
}

/* Write the keys that every case needs. */
static void
start_model(const char *arch)
{
	start();
	key_str("general.architecture", arch);
	key_u32("llama.embedding_length", 8);
	key_u32("llama.attention.head_count", 2);
	tensor("token_embd.weight", 8, 4, 0, 0);
}

static void
refused(const char *what, ErrClass cls, const char *msg)
{
	expect_refused(what, in_scratch("m.gguf"), cls, msg);
}

/* ---- the container ---- */

static void
test_container(void)
{
	start_model("llama");
	finish(1, 128);
	refused("version 1", ERR_UNSUPPORTED, "GGUF version 1");
	finish(4, 128);
	refused("version 4", ERR_UNSUPPORTED, "GGUF version 4");
	finish(0x03000000, 128);
	refused("big-endian", ERR_UNSUPPORTED, "big-endian");
	finish(3, 127);
	refused("truncated", ERR_BAD_FILE, "extends past the end");
	finish(2, 128);
	{
		Err			e = {0};
		Files	   *f = files_open(in_scratch("m.gguf"), &e);

		CHECK(f != NULL, "version 2: %s", e.msg);
		files_close(f);
	}
	n_kvs = UINT64_MAX;
	finish(3, 128);
	refused("too many keys", ERR_BAD_FILE, "invalid header");
	n_kvs = 3;
	n_infos = (uint64_t) 1 << 62;
	finish(3, 128);
	refused("too many tensors", ERR_BAD_FILE, "invalid header");
	n_infos = 2;
	finish(3, 128);
	refused("a tensor too many", ERR_BAD_FILE, "");
	n_infos = 1;
	n_kvs = 4;
	finish(3, 128);
	refused("a key too many", ERR_BAD_FILE, "");
	put_text("m.gguf", "GGUF");
	refused("magic only", ERR_BAD_FILE, "not a GGUF file");
	put_file("m.gguf", "GGUF\3\0\0\0", 8);
	refused("no counts", ERR_BAD_FILE, "truncated");
}

static void
test_keys(void)
{
	start_model("llama");
	key("bad", GGUF_N_TYPES);
	finish(3, 128);
	refused("unknown type", ERR_BAD_FILE, "metadata key 4 of 4");
	start_model("llama");
	key("long", GGUF_STRING);
	add_u64(&kvs, UINT64_MAX);
	finish(3, 128);
	refused("string of 2^64 bytes", ERR_BAD_FILE, "metadata key 4 of 4");
	start_model("llama");
	key("array", GGUF_ARRAY);
	add_u32(&kvs, GGUF_U64);
	add_u64(&kvs, (uint64_t) 1 << 61);
	finish(3, 128);
	refused("array that overflows", ERR_BAD_FILE, "metadata key 4 of 4");
	start_model("llama");
	key("deep", GGUF_ARRAY);
	for (int i = 0; i < 100; i++)
	{
		add_u32(&kvs, GGUF_ARRAY);
		add_u64(&kvs, 1);
	}
	finish(3, 4096);
	refused("nested arrays", ERR_BAD_FILE, "metadata key 4 of 4");
	start_model("llama");
	key_u32("llama.embedding_length", 9);
	finish(3, 128);
	refused("key twice", ERR_BAD_FILE, "metadata key twice");
	start_model("llama");
	key_u32("general.alignment", 24);
	finish(3, 128);
	refused("alignment 24", ERR_BAD_FILE, "general.alignment");
	start_model("llama");
	key_u32("general.alignment", 0);
	finish(3, 128);
	refused("alignment 0", ERR_BAD_FILE, "general.alignment");
	start_model("llama");
	key_f32("general.alignment", 64);
	finish(3, 128);
	refused("alignment 64.0", ERR_BAD_FILE, "general.alignment");
}

static void
test_tensors(void)
{
	static const struct
	{
		const char *what;
		const char *name;
		uint64_t	ne0;
		uint64_t	ne1;
		uint32_t	type;
		uint64_t	offset;
		ErrClass	cls;
		const char *msg;
	}			cases[] = {
		{"zero", "output_norm.weight", 0, 0, 0, 128, ERR_BAD_FILE, "tensor 2 of 2"},
		{"negative", "output_norm.weight", UINT64_MAX, 0, 0, 128, ERR_BAD_FILE, "tensor 2 of 2"},
		{"product overflows", "output_norm.weight", (uint64_t) 1 << 40, (uint64_t) 1 << 40, 0, 128,
		ERR_BAD_FILE, "tensor 2 of 2"},
		{"bytes overflow", "output_norm.weight", (uint64_t) 1 << 31, (uint64_t) 1 << 31, 0, 128,
		ERR_BAD_FILE, "invalid shape"},
		{"past the end", "output_norm.weight", 8, 0, 0, 256, ERR_BAD_FILE, "extends past the end"},
		{"offset overflows", "output_norm.weight", 8, 0, 0, UINT64_MAX - 31, ERR_BAD_FILE, ""},
		{"unaligned", "output_norm.weight", 8, 0, 0, 132, ERR_BAD_FILE, "not aligned"},
		{"overlap", "output_norm.weight", 8, 0, 0, 96, ERR_BAD_FILE, "overlaps tensor"},
		{"twice", "token_embd.weight", 8, 1, 0, 128, ERR_BAD_FILE, "twice"},
		{"IQ2_XXS", "output.weight", 256, 1, 16, 66, ERR_UNSUPPORTED, "GGUF type 16"},
		{"half a block", "output.weight", 8, 4, 8, 128, ERR_BAD_FILE, "invalid shape"},
		{"name with a blank", "a b", 8, 0, 0, 128, ERR_BAD_FILE, "invalid name"},
		{"no name", "", 8, 0, 0, 128, ERR_BAD_FILE, "invalid name"},
		{"bad factors", "rope_freqs.weight", 4, 0, 1, 128, ERR_BAD_FILE, "rope_freqs"},
		{"factors past the end", "rope_freqs.weight", 4, 0, 0, 1 << 20, ERR_BAD_FILE, "rope_freqs"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		start_model("llama");
		tensor(cases[i].name, cases[i].ne0, cases[i].ne1, cases[i].type, cases[i].offset);
		finish(3, 160);
		refused(cases[i].what, cases[i].cls, cases[i].msg);
	}
	start_model("llama");
	add_str(&infos, "output_norm.weight");
	add_u32(&infos, 5);
	for (int i = 0; i < 7; i++)
		add_u64(&infos, 1);
	n_infos++;
	finish(3, 160);
	refused("five dimensions", ERR_BAD_FILE, "tensor 2 of 2");
}

static void
test_models(void)
{
	start();
	tensor("token_embd.weight", 8, 4, 0, 0);
	finish(3, 128);
	refused("no architecture", ERR_BAD_FILE, "general.architecture");
	start_model("\x1b[2Jllama");
	finish(3, 128);
	refused("control characters", ERR_BAD_FILE, "general.architecture");
	start_model("llama");
	key("split.count", GGUF_U16);
	buf_add(&kvs, "\2", 2);
	finish(3, 128);
	refused("a part by another name", ERR_BAD_FILE, "doesn't end in \"-00001-of-00002.gguf\"");
	start_model("llama");
	key_str("llama.rope.scaling.type", "linear");
	tensor("rope_freqs.weight", 4, 0, 0, 128);
	finish(3, 160);
	refused("two scalings", ERR_UNSUPPORTED, "RoPE scaling type");
}

/* ---- split models ---- */

static void
key_u16(const char *name, uint16_t v)
{
	key(name, GGUF_U16);
	buf_add(&kvs, &v, 2);
}

/* Write the keys of part `no`, whose name is s-0000N-of-00003.gguf. */
static void
start_part(int no, int says_no, int says_count, int tensors)
{
	static char name[32];

	snprintf(name, sizeof(name), "s-%05d-of-00003.gguf", no + 1);
	out_name = name;
	start();
	key_u16("split.no", (uint16_t) says_no);
	key_u16("split.count", (uint16_t) says_count);
	key("split.tensors.count", GGUF_I32);
	add_u32(&kvs, (uint32_t) tensors);
	if (no > 0)
		return;
	key_str("general.architecture", "llama");
	key_u32("llama.embedding_length", 8);
	key_u32("llama.attention.head_count", 2);
}

/* Three parts with no, one and two tensors. */
static void
put_parts(void)
{
	scratch_clear();
	start_part(0, 0, 3, 3);
	finish(3, 0);
	start_part(1, 1, 3, 3);
	tensor("token_embd.weight", 8, 4, 0, 0);
	finish(3, 128);
	start_part(2, 2, 3, 3);
	tensor("blk.0.attn_q.bias", 8, 0, 0, 0);
	tensor("output_norm.weight", 8, 0, 0, 32);
	finish(3, 64);
	out_name = "m.gguf";
}

static void
test_split(void)
{
	const char *const paths[] = {"s-00001-of-00003.gguf", ""};
	char	   *other;

	put_parts();
	for (int i = 0; i < 2; i++)
	{
		Err			e = {0};
		Files	   *f = files_open(in_scratch(paths[i]), &e);
		char	   *id;

		CHECK(f != NULL && files_count(f) == 3, "\"%s\": %s", paths[i], e.msg);
		if (f == NULL)
			continue;
		CHECK(conf_int(files_conf(f), "vocab_size", 0) == 4 &&
			  conf_bool(files_conf(f), "attention_bias", false) &&
			  conf_bool(files_conf(f), "tie_word_embeddings", false), "facts of tensors in later parts");
		CHECK(strstr(files_where(f, files_find(f, "output_norm.weight")), "s-00003-of-00003.gguf") != NULL,
			  "output_norm is in %s", files_where(f, files_find(f, "output_norm.weight")));
		id = files_contents_id(f);
		for (int part = 1; part <= 3; part++)
		{
			char		name[32];

			snprintf(name, sizeof(name), "s-%05d-of-00003.gguf", part);
			CHECK(strstr(id, name) != NULL, "part %d is not in the identity: %s", part, id);
		}
		mem_free(id);
		files_close(f);
	}
	other = files_other_part(in_scratch("s-00001-of-00003.gguf"), 2);
	CHECK(other != NULL && strstr(other, "/s-00003-of-00003.gguf") != NULL, "another part is %s", other);
	mem_free(other);
	CHECK(files_other_part("s-00001-of-00003.gguf", 3) == NULL &&
		  files_other_part("s-00002-of-00003.gguf", 1) == NULL && files_other_part("m.gguf", 1) == NULL &&
		  files_other_part("", 1) == NULL && files_other_part("s-00001-of-99999.gguf", 1) == NULL,
		  "no other part");
}

/* Replace part 3 of 3 by one with wrong keys; must be refused. */
static void
bad_part(const char *what, int no, int count, ErrClass cls, const char *msg)
{
	put_parts();
	start_part(2, no, count, 3);
	tensor("blk.0.attn_q.bias", 8, 0, 0, 0);
	tensor("output_norm.weight", 8, 0, 0, 32);
	finish(3, 64);
	out_name = "m.gguf";
	expect_refused(what, in_scratch("s-00001-of-00003.gguf"), cls, msg);
}

static void
test_bad_split(void)
{
	const char *first = "s-00001-of-00003.gguf";
	Err			e = {0};

	put_parts();
	unlink(in_scratch("s-00002-of-00003.gguf"));
	expect_refused("a part is missing", in_scratch(first), ERR_IO, "s-00002-of-00003.gguf\": No such file");
	CHECK(files_open(in_scratch(first), &e) == NULL &&
		  strcmp(e.detail, "It is part 2 of 3 of the model.") == 0, "%s", e.detail);
	CHECK(symlink("s-00002-of-00003.gguf", in_scratch("s-00002-of-00003.gguf")) == 0, "symlink");
	expect_refused("a part is a loop of links", in_scratch(first), ERR_IO, "s-00002-of-00003.gguf");
	unlink(in_scratch("s-00002-of-00003.gguf"));
	put_file("s-00002-of-00003.gguf", "", 0);
	expect_refused("a part is empty", in_scratch(first), ERR_BAD_FILE,
				   "s-00002-of-00003.gguf\" is not a GGUF file");
	put_parts();
	CHECK(files_open(in_scratch("s-00003-of-00003.gguf"), &e) == NULL && e.cls == ERR_BAD_FILE &&
		  strstr(e.msg, "is part 3 of 3") != NULL && strstr(e.hint, "s-00001-of-00003.gguf") != NULL,
		  "%s (%s)", e.msg, e.hint);
	bad_part("another number", 1, 3, ERR_BAD_FILE, "is not part 3 of 3");
	bad_part("another count", 2, 4, ERR_BAD_FILE, "is not part 3 of 3");
	bad_part("no keys", 0, 0, ERR_BAD_FILE, "is not part 3 of 3");
	put_parts();
	start_part(1, 1, 3, 3);
	finish(3, 0);
	expect_refused("too few tensors", in_scratch(first), ERR_BAD_FILE,
				   "have 2 tensors, \"split.tensors.count\" is 3");
	start_part(1, 1, 3, 3);
	tensor("output_norm.weight", 8, 0, 0, 0);
	finish(3, 32);
	expect_refused("a tensor in two parts", in_scratch(first), ERR_BAD_FILE, "is in both file");
	put_parts();
	start_part(0, 0, 2000, 3);
	finish(3, 0);
	expect_refused("2,000 parts", in_scratch(first), ERR_BAD_FILE, "invalid \"split.count\"");
	start_part(0, 0, 4, 3);
	finish(3, 0);
	expect_refused("four parts", in_scratch(first), ERR_BAD_FILE, "doesn't end in \"-00001-of-00004.gguf\"");
	out_name = "m.gguf";
	put_parts();
	put_text("other.gguf", "x");
	expect_refused("two models in a directory", scratch, ERR_BAD_FILE, "more than one GGUF model");
	unlink(in_scratch("other.gguf"));
	put_text("mmproj-x.gguf", "x");
	put_text("caf\xc3\xa9.gguf", "x");
	{
		Files	   *f = files_open(scratch, &e);

		CHECK(f != NULL, "files beside the model: %s", e.msg);
		files_close(f);
	}
	put_text("model.safetensors", "x");
	expect_refused("safetensors win", scratch, ERR_IO, "config.json");
	scratch_clear();
}

static void
test_translation(void)
{
	Err			e = {0};
	Files	   *f;
	const Conf *c;
	const KTensor *q;
	size_t		n;

	start_model("llama");
	key_f32("llama.rope.freq_base", 5e5f);
	key_f32("llama.rope.scale_linear", 4.0f);
	key_u32("tokenizer.ggml.eos_token_id", 3);
	key_u32("tokenizer.ggml.eot_token_id", 2);
	key_f32("general.sampling.temp", 0.5f);
	tensor("blk.11.attn_q.weight", 8, 8, 0, 128);
	tensor("blk.11.attn_k.weight", 8, 4, 0, 384);
	tensor("blk.11.attn_v.weight", 8, 4, 0, 512);
	tensor("blk.0.attn_q.bias", 8, 0, 0, 640);
	finish(3, 672);
	f = files_open(in_scratch("m.gguf"), &e);
	CHECK(f != NULL, "%s", e.msg);
	if (f == NULL)
		return;
	c = files_conf(f);
	CHECK(strcmp(conf_str(c, "gguf.architecture", ""), "llama") == 0, "architecture");
	CHECK(conf_int(c, "hidden_size", 0) == 8 && conf_int(c, "num_attention_heads", 0) == 2, "sizes");
	CHECK(conf_int(c, "vocab_size", 0) == 4 && conf_bool(c, "tie_word_embeddings", false),
		  "from the tensors");
	CHECK(conf_bool(c, "attention_bias", false) && !conf_bool(c, "mlp_bias", true), "biases");
	CHECK(conf_num(c, "rope_theta", 0) == 5e5, "theta");
	CHECK(strcmp(conf_str(c, "rope_scaling.rope_type", ""), "linear") == 0 &&
		  conf_num(c, "rope_scaling.factor", 0) == 4, "old linear scaling");
	CHECK(conf_num(c, "generation.temperature", 0) == 0.5 && conf_bool(c, "generation.do_sample", false),
		  "sampling");
	conf_nums(c, "generation.eos_token_id", &n);
	CHECK(n == 2, "EOS and end of turn");
	q = files_find(f, "blk.11.attn_v.weight");
	CHECK(q != NULL && q->shape[0] == 4 && q->shape[1] == 8, "outermost dimension first");
	files_close(f);
}

static void
test_vocab(void)
{
	static const char *const tokens[] = {"<s>", "a", "b", "ab"};
	static const char *const merges[] = {"a b"};
	Err			e = {0};
	FilesTokenizer t;
	Files	   *f;

	start_model("llama");
	finish(3, 128);
	f = files_open(in_scratch("m.gguf"), &e);
	CHECK(f != NULL && !files_tokenizer(f, &t, &e) && strstr(e.msg, "no tokenizer") != NULL, "%s", e.msg);
	files_close(f);

	start_model("llama");
	key_str("tokenizer.ggml.model", "gpt2");
	key_str("tokenizer.ggml.pre", "llama-bpe");
	key_strs("tokenizer.ggml.tokens", tokens, 4);
	key_strs("tokenizer.ggml.merges", merges, 1);
	key_u32("tokenizer.ggml.bos_token_id", 0);
	key_u32("tokenizer.ggml.eos_token_id", 4);
	key("tokenizer.ggml.add_bos_token", GGUF_BOOL);
	buf_addc(&kvs, 1);
	key_str("tokenizer.chat_template", "{{ x }}");
	key_str("tokenizer.chat_template.rag", "{{ y }}");
	key_str("tokenizer.chat_template.", "nameless");
	key_str("tokenizer.chat_template.\x01", "no name");
	key_str("tokenizer.chat_templates", "another key");
	finish(3, 128);
	f = files_open(in_scratch("m.gguf"), &e);
	CHECK(f != NULL && files_tokenizer(f, &t, &e) && t.gguf != NULL, "%s", e.msg);
	if (f != NULL && t.gguf != NULL)
	{
		CHECK(t.gguf->n == 4 && strcmp(t.gguf->tokens[3], "ab") == 0 && t.gguf->token_len[3] == 2, "tokens");
		CHECK(t.gguf->n_merges == 1 && strcmp(t.gguf->merges[0], "a b") == 0, "merges");
		CHECK(strcmp(t.gguf->model, "gpt2") == 0 && strcmp(t.gguf->pre, "llama-bpe") == 0, "kind");
		CHECK(t.gguf->bos == 0 && t.gguf->eos == -1 && t.gguf->unk == -1,
			  "an id past the vocabulary is none");
		CHECK(t.gguf->add_bos == 1 && t.gguf->add_eos == -1, "flags");
		CHECK(t.n_templates == 2 && strcmp(template_text(&t, "default"), "{{ x }}") == 0 &&
			  strcmp(template_text(&t, "rag"), "{{ y }}") == 0 && template_text(&t, "tool_use") == NULL,
			  "templates");
	}
	files_close(f);

	start_model("llama");
	key_str("tokenizer.ggml.model", "llama");
	key_strs("tokenizer.ggml.tokens", tokens, 4);
	key("tokenizer.ggml.scores", GGUF_ARRAY);
	add_u32(&kvs, GGUF_F32);
	add_u64(&kvs, 3);
	for (int i = 0; i < 3; i++)
		add_u32(&kvs, 0);
	finish(3, 128);
	refused("three scores for four tokens", ERR_BAD_FILE, "tokenizer.ggml.scores");
	start_model("llama");
	key_str("tokenizer.ggml.model", "llama");
	key_u32("tokenizer.ggml.tokens", 4);
	finish(3, 128);
	refused("tokens is a number", ERR_BAD_FILE, "tokenizer.ggml.tokens");
}

/*
 * Prefixes of a real file, and the file with single bytes changed: refused or accepted, but never a
 * crash; the error names a Q8_0 scale of NaN.
 */
static void
test_damage(void)
{
	Buf			b = {0};
	size_t		meta = 0;
	size_t		accepted = 0;

	read_file(FIXTURES "qwen2_tied_q8_0_gguf.gguf", &b);
	for (size_t n = 0; n < b.len; n += n < 12000 ? 101 : 4999)
	{
		Err			e = {0};
		Files	   *f;

		put_file("m.gguf", b.data, n);
		f = files_open(in_scratch("m.gguf"), &e);
		accepted += f != NULL;
		files_close(f);
	}
	CHECK(accepted == 0, "%zu truncated files were accepted", accepted);
	for (; meta < 2000; meta += 7)
	{
		char		keep = b.data[meta];
		Err			e = {0};
		Files	   *f;

		b.data[meta] = (char) (keep ^ (1 << (meta % 8)));
		put_file("m.gguf", b.data, b.len);
		f = files_open(in_scratch("m.gguf"), &e);
		CHECK(f != NULL || e.msg[0] != '\0', "byte %zu: no message", meta);
		files_close(f);
		b.data[meta] = keep;
	}
	buf_free(&b);
}

static void
test_nan_scale(void)
{
	Buf			b = {0};
	Err			e = {0};
	Files	   *f = files_open(FIXTURES "qwen2_tied_q8_0_gguf.gguf", &e);
	size_t		bad = 0;
	const KTensor *t;

	CHECK(f != NULL, "%s", e.msg);
	if (f == NULL)
		return;
	for (size_t i = 0; (t = files_tensor(f, i)) != NULL; i++)
		CHECK(tensor_ok(f, t, &e), "%s", e.msg);
	t = files_find(f, "blk.1.ffn_down.weight");
	read_file(FIXTURES "qwen2_tied_q8_0_gguf.gguf", &b);
	for (size_t at = 0; t != NULL && bad == 0 && at + t->nbytes <= b.len; at += 32)
		if (memcmp(b.data + at, t->data, t->nbytes) == 0)
			bad = at;
	CHECK(bad > 0, "tensor not found in the file");
	files_close(f);
	b.data[bad + 5 * 34 + 1] = 0x7e;	/* block 5 */
	put_file("m.gguf", b.data, b.len);
	f = files_open(in_scratch("m.gguf"), &e);
	CHECK(f != NULL, "%s", e.msg);
	if (f != NULL)
		CHECK(!tensor_ok(f, files_find(f, "blk.1.ffn_down.weight"), &e) &&
			  e.cls == ERR_BAD_FILE && strstr(e.msg, "blk.1.ffn_down.weight") != NULL &&
			  strstr(e.msg, "m.gguf") != NULL && strstr(e.detail, "block 5") != NULL, "%s %s", e.msg,
			  e.detail);
	files_close(f);
	buf_free(&b);
}

int
main(void)
{
	scratch_make();
	RUN(test_container());
	RUN(test_keys());
	RUN(test_tensors());
	RUN(test_models());
	RUN(test_split());
	RUN(test_bad_split());
	RUN(test_translation());
	RUN(test_vocab());
	RUN(test_damage());
	RUN(test_nan_scale());
	scratch_remove();
	buf_free(&kvs);
	buf_free(&infos);
	buf_free(&data);
	return check_done("test_gguf");
}
