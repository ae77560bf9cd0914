/*
 * test_safetensors.c
 *	  safetensors files and directories, good and bad: each error of a header, an index or a shard has
 *	  its own message.
 */
#include "tests/unit/load_util.h"

#define T(name, dtype, shape, b, e) \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #b "," #e "]}"

/* Write name into scratch: 8 bytes length, header, data_len zero bytes. */
static void
put_st(const char *name, uint64_t stated_len, const char *header, size_t data_len)
{
	Buf			b = {0};

	for (int i = 0; i < 8; i++)
		buf_addc(&b, (char) (stated_len >> (8 * i)));
	buf_addstr(&b, header);
	for (size_t i = 0; i < data_len; i++)
		buf_addc(&b, (char) i);
	put_file(name, b.data, b.len);
	buf_free(&b);
}

typedef struct Case
{
	const char *header;
	size_t		data_len;
	ErrClass	cls;
	const char *msg;
} Case;

static const Case headers[] = {
	{"", 0, ERR_BAD_FILE, "not a JSON object"},
	{"[]", 0, ERR_BAD_FILE, "not a JSON object"},
	{"{\"a\":", 0, ERR_BAD_FILE, "not a JSON object"},
	{"{\"a\":1}", 0, ERR_BAD_FILE, "tensor \"a\" in file"},
	{"{\"a\":[1]}", 0, ERR_BAD_FILE, "has no data type"},
	{"{\"a\":[[\"dtype\"],{}]}", 0, ERR_BAD_FILE, "has no data type"},
	{"{\"a\":{}}", 0, ERR_BAD_FILE, "has no data type"},
	{"{\"a\":{\"dtype\":3}}", 0, ERR_BAD_FILE, "has no data type"},
	{"{\"a\":{\"dtype\":\"F32\"}}", 0, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "3", 0, 12) "}", 12, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[-1]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[1.5]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[\"1\"]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[1e300]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[1,1,1,1,1]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[4294967296,4294967296]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[9007199254740992,9007199254740992,9007199254740992,1024]", 0, 0) "}",
	0, ERR_BAD_FILE, "invalid shape"},
	{"{" T("a", "F32", "[2]", 0, 4) "}", 4, ERR_BAD_FILE, "has 4 bytes, its shape needs 8"},
	{"{" T("a", "F32", "[1]", 4, 0) "}", 4, ERR_BAD_FILE, "invalid data offsets"},
	{"{" T("a", "F32", "[1]", -4, 0) "}", 4, ERR_BAD_FILE, "invalid data offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, ERR_BAD_FILE,
	 "invalid data offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, ERR_BAD_FILE,
	 "invalid data offsets"},
	{"{" T("a", "F32", "[1]", 0, 1e30) "}", 4, ERR_BAD_FILE, "invalid data offsets"},
	{"{" T("a", "F32", "[2]", 0, 8) "}", 4, ERR_BAD_FILE, "extends past the end"},
	{"{" T("a", "F32", "[2]", 9007199254740000, 9007199254740008) "}", 8, ERR_BAD_FILE,
	 "extends past the end"},
	{"{" T("a", "F32", "[1]", 0, 4) "}", 8, ERR_BAD_FILE, "wrong length"},
	{"{}", 8, ERR_BAD_FILE, "wrong length"},
	{"{" T("a", "F32", "[1]", 4, 8) "}", 8, ERR_BAD_FILE, "a gap before tensor \"a\""},
	{"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[1]", 4, 8) "}", 8, ERR_BAD_FILE, "overlaps tensor"},
	{"{" T("a", "F32", "[1]", 0, 4) "," T("a", "F32", "[1]", 4, 8) "}", 8, ERR_BAD_FILE,
	 "tensor \"a\" twice"},
	{"{" T("a", "U64", "[1]", 0, 8) "}", 8, ERR_UNSUPPORTED, "data type \"U64\""},
	{"{" T("a", "F4", "[16]", 0, 8) "}", 8, ERR_UNSUPPORTED, "data type \"F4\""},
	{"{" T("a", "Q8_0", "[32]", 0, 34) "}", 34, ERR_UNSUPPORTED, "data type \"Q8_0\""},
	{"{" T("a", "\x1b[2J", "[1]", 0, 4) "}", 4, ERR_BAD_FILE, ""},
	{"{" T("", "F32", "[1]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid name"},
	{"{" T("a\\nb", "F32", "[1]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid name"},
	{"{" T("caf\xc3\xa9", "F32", "[1]", 0, 4) "}", 4, ERR_BAD_FILE, "invalid name"},
};

static void
test_headers(void)
{
	put_text("config.json", "{}");
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
	{
		const Case *c = &headers[i];

		put_st("model.safetensors", strlen(c->header), c->header, c->data_len);
		/* some parsers reject control characters as JSON, others as a bad type */
		if (c->msg[0] == '\0')
		{
			Err			e = {0};
			Files	   *f = files_open(scratch, &e);

			CHECK(f == NULL && strchr(e.msg, 0x1b) == NULL, "escape sequence in \"%s\"", e.msg);
			files_close(f);
		}
		else
			expect_refused(c->header, scratch, c->cls, c->msg);
	}
}

static void
test_lengths(void)
{
	const char *h = "{" T("a", "F32", "[1]", 0, 4) "}";

	put_file("model.safetensors", "", 0);
	expect_refused("empty", scratch, ERR_BAD_FILE, "it has 0 bytes");
	put_file("model.safetensors", "1234567", 7);
	expect_refused("7 bytes", scratch, ERR_BAD_FILE, "it has 7 bytes");
	put_st("model.safetensors", strlen(h) + 5, h, 4);
	expect_refused("header past the end", scratch, ERR_BAD_FILE, "truncated");
	put_st("model.safetensors", UINT64_MAX, h, 4);
	expect_refused("huge header", scratch, ERR_BAD_FILE, "truncated");
	put_st("model.safetensors", UINT64_MAX - 7, h, 4);
	expect_refused("header that wraps", scratch, ERR_BAD_FILE, "truncated");
	put_st("model.safetensors", strlen(h) - 1, h, 4);
	expect_refused("header too short", scratch, ERR_BAD_FILE, "not a JSON object");
}

static void
test_good(void)
{
	static const char h[] = "{\"__metadata__\":{\"format\":\"pt\"},"
		T("z", "BF16", "[2,3]", 8, 20) "," T("a", "F32", "[]", 0, 4) ","
		T("m", "F16", "[9007199254740992,9007199254740992,0]", 4, 4) ","
		T("n", "F16", "[1]", 4, 6) "," T("mask", "BOOL", "[1,2]", 6, 8) "}   ";
	Err			e = {0};
	Files	   *f;
	const KTensor *t;

	put_st("model.safetensors", strlen(h), h, 20);
	f = files_open(scratch, &e);
	CHECK(f != NULL, "%s", e.msg);
	if (f == NULL)
		return;
	CHECK(files_count(f) == 5, "%zu tensors", files_count(f));
	CHECK((t = files_find(f, "a")) != NULL && t->ndim == 1 && t->shape[0] == 1 && t->nbytes == 4, "scalar");
	CHECK((t = files_find(f, "z")) != NULL && t->type == KT_BF16 && t->ndim == 2 && t->shape[0] == 2 &&
		  t->shape[1] == 3 && *(const uint8_t *) t->data == 8, "matrix");
	CHECK((t = files_find(f, "mask")) != NULL && t->type == KT_U8 && t->nbytes == 2, "booleans");
	CHECK((t = files_find(f, "m")) != NULL && t->nbytes == 0, "empty");
	CHECK(files_find(f, "b") == NULL && files_find(f, "") == NULL && files_find(f, "zz") == NULL, "absent");
	CHECK(strstr(files_where(f, t), "model.safetensors") != NULL, "where");
	CHECK(strcmp(files_where(f, NULL), scratch) == 0, "model's path");
	CHECK(files_tensor(f, 5) == NULL && files_tensor(f, 0) != NULL, "iteration ends");
	CHECK(tensor_ok(f, t, &e), "contents");
	files_close(f);
}

/* Every prefix of a real file is refused, and so is the file with an additional byte. */
static void
test_truncations(void)
{
	Buf			b = {0};
	size_t		opened = 0;
	size_t		tried = 0;

	read_file(FIXTURES "llama_f32/model.safetensors", &b);
	for (size_t n = 0; n <= b.len + 1; n += n < 3000 ? 37 : 4999)
	{
		Err			e = {0};
		Files	   *f;

		if (n == b.len)
			continue;
		put_file("model.safetensors", b.data, n);
		f = files_open(scratch, &e);
		opened += f != NULL;
		tried++;
		files_close(f);
	}
	CHECK(opened == 0, "%zu of %zu truncated files were accepted", opened, tried);
	buf_addc(&b, 'x');
	put_file("model.safetensors", b.data, b.len);
	expect_refused("a byte more", scratch, ERR_BAD_FILE, "wrong length");
	put_file("model.safetensors", b.data, b.len - 2);
	expect_refused("a byte less", scratch, ERR_BAD_FILE, "extends past the end");
	buf_free(&b);
	unlink(in_scratch("model.safetensors"));
}

static void
index_case(const char *what, const char *json, ErrClass cls, const char *msg)
{
	put_text("model.safetensors.index.json", json);
	expect_refused(what, scratch, cls, msg);
}

static void
test_shards(void)
{
	static const char h[] = "{" T("a", "F32", "[1]", 0, 4) "}";
	static const char h2[] = "{" T("b", "F32", "[1]", 0, 4) "}";
	Err			e = {0};
	Files	   *f;

	put_st("m-1.safetensors", strlen(h), h, 4);
	put_st("m-2.safetensors", strlen(h2), h2, 4);
	put_text("model.safetensors.index.json",
			 "{\"metadata\":{},\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
	f = files_open(scratch, &e);
	CHECK(f != NULL && files_count(f) == 2, "two shards: %s", e.msg);
	if (f != NULL)
		CHECK(strstr(files_where(f, files_find(f, "b")), "m-2.safetensors") != NULL, "where b is");
	files_close(f);

	index_case("no map", "{}", ERR_BAD_FILE, "has no \"weight_map\"");
	index_case("no JSON", "{\"weight_map\":{", ERR_BAD_FILE, "has no \"weight_map\"");
	index_case("map is a list", "{\"weight_map\":[]}", ERR_BAD_FILE, "has no \"weight_map\"");
	index_case("not a name", "{\"weight_map\":{\"a\":1}}", ERR_BAD_FILE, "invalid file name");
	index_case("another directory", "{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}", ERR_BAD_FILE,
			   "invalid file name");
	index_case("absolute", "{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}", ERR_BAD_FILE,
			   "invalid file name");
	index_case("hidden", "{\"weight_map\":{\"a\":\".safetensors\"}}", ERR_BAD_FILE, "invalid file name");
	index_case("itself", "{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", ERR_BAD_FILE,
			   "invalid file name");
	index_case("pickle", "{\"weight_map\":{\"a\":\"pytorch_model.bin\"}}", ERR_BAD_FILE, "invalid file name");
	index_case("missing shard", "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-3.safetensors\"}}",
			   ERR_IO, "m-3.safetensors");
	index_case("tensor elsewhere", "{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-1.safetensors\"}}",
			   ERR_BAD_FILE, "is not in file");
	index_case("tensor nowhere", "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}",
			   ERR_BAD_FILE, "tensor \"c\" is not in file");
	put_st("m-2.safetensors", strlen(h), h, 4);
	index_case("same tensor twice", "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}",
			   ERR_BAD_FILE, "is in both file");
	CHECK(symlink("m-cycle.safetensors", in_scratch("m-cycle.safetensors")) == 0, "symlink");
	index_case("cyclic link", "{\"weight_map\":{\"a\":\"m-cycle.safetensors\"}}", ERR_IO,
			   "m-cycle.safetensors");
	/* model.safetensors is preferred to an index, as in transformers */
	put_st("model.safetensors", strlen(h), h, 4);
	f = files_open(scratch, &e);
	CHECK(f != NULL && files_count(f) == 1, "single file beside an index");
	files_close(f);
}

static void
test_nesting(void)
{
	Buf			b = {0};

	scratch_clear();
	put_text("config.json", "{}");
	for (int i = 0; i < 100000; i++)
		buf_addc(&b, '[');
	put_st("model.safetensors", b.len, b.data, 0);
	expect_refused("deep nesting", scratch, ERR_BAD_FILE, "not a JSON object");
	buf_free(&b);
}

/* A header with as many tensors as large models have, and one whose tree would take 120 MB. */
static void
test_many(void)
{
	Buf			b = {0};
	Err			e = {0};
	Files	   *f;

	for (int i = 0; i < 100000; i++)
		buf_printf(&b, "%c\"t%d\":{\"dtype\":\"F32\",\"shape\":[1,0],\"data_offsets\":[0,0]}",
				   i > 0 ? ',' : '{', i);
	buf_addc(&b, '}');
	put_st("model.safetensors", b.len, b.data, 0);
	f = files_open(scratch, &e);
	CHECK(f != NULL && files_count(f) == 100000, "100,000 tensors: %s", e.msg);
	files_close(f);
	buf_reset(&b);
	buf_addstr(&b, "{\"a\":[0");
	for (int i = 0; i < 1500000; i++)
		buf_addstr(&b, ",0");
	put_st("model.safetensors", b.len, b.data, 0);
	expect_refused("1,500,000 values in 3 MB", scratch, ERR_BAD_FILE, "too many JSON values");
	unlink(in_scratch("model.safetensors"));
	put_text("model.safetensors.index.json", b.data);
	expect_refused("an index of as many", scratch, ERR_BAD_FILE, "too many JSON values");
	buf_free(&b);
}

int
main(void)
{
	scratch_make();
	RUN(test_headers());
	RUN(test_lengths());
	RUN(test_good());
	RUN(test_truncations());
	RUN(test_shards());
	RUN(test_nesting());
	RUN(test_many());
	scratch_remove();
	return check_done("test_safetensors");
}
