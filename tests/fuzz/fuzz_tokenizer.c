/*
 * fuzz_tokenizer.c
 *	  Tokenizers of any kind of file, and short texts through those that load.
 *
 * The input is the kind (one byte), the file, four bytes "\xFF\xFE\xFD\xFC", and a text.
 */
#include "fuzz.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"
#include "text/unicode.h"

enum
{
	KIND_HF, KIND_SPM, KIND_TEKKEN, KIND_TIKTOKEN, KINDS
};

static const char *const patterns[] = {
	"tests/fixtures/tokenizers/*.json", "tests/fixtures/tokenizers/*.model",
	"tests/fixtures/tokenizers/*.tekken",
	"tests/fixtures/tokenizers/*.tiktoken", NULL
};
static const char *const endings[KINDS] = {".json", ".model", ".tekken", ".tiktoken"};
static const char config[] = "{\"tokenizer_class\":\"QWenTokenizer\",\"bos_token\":\"<s>\","
							 "\"eos_token\":{\"content\":\"</s>\"}}";
static const char end_mark[] = "\xFF\xFE\xFD\xFC";

static Tok *
load(int kind, const char *s, size_t n, Err *e)
{
	switch (kind)
	{
		case KIND_SPM:
			return tok_from_spm(s, n, config, sizeof(config) - 1, e);
		case KIND_TEKKEN:
			return tok_from_tekken(s, n, e);
		case KIND_TIKTOKEN:
			return tok_from_tiktoken(s, n, config, sizeof(config) - 1, e);
		default:
			return tok_from_hf(s, n, config, sizeof(config) - 1, e);
	}
}

/* Decoding token by token equals decoding at once. */
static void
stream(const Tok *t, const IntVec *ids, const Buf *whole)
{
	Detok	   *d = detok_new(t, NULL, 0, true);
	Buf			parts = {0};

	for (size_t i = 0; i < ids->len; i++)
		detok_push(d, ids->data[i], &parts);
	detok_finish(d, &parts);
	detok_free(d);
	if (parts.len != whole->len || (parts.len > 0 && memcmp(parts.data, whole->data, parts.len) != 0))
		abort();
	buf_free(&parts);
}

/* Every token has an offset in the text, and they are the same tokens. */
static void
offsets(const Tok *t, const char *text, size_t n)
{
	IntVec		ids = {0};
	IntVec		same = {0};
	IntVec		at = {0};
	Err			e = {0};

	if (tok_offsets(t, text, n, &ids, &at, &e) && tok_encode(t, text, n, 0, &same, &e))
	{
		if (ids.len != same.len || at.len != 2 * ids.len ||
			(ids.len > 0 && memcmp(ids.data, same.data, ids.len * sizeof(int32_t)) != 0))
			abort();
		for (size_t i = 0; i < at.len; i += 2)
			if (at.data[i] < 0 || at.data[i] > at.data[i + 1] || (size_t) at.data[i + 1] > 3 * n)
				abort();
	}
	intvec_free(&ids);
	intvec_free(&same);
	intvec_free(&at);
}

static void
use(const Tok *t, const char *text, size_t n)
{
	IntVec		ids = {0};
	IntVec		half = {0};
	IntVec		both = {0};
	IntVec		types = {0};
	Buf			out = {0};
	Err			e = {0};

	for (unsigned flags = 0; flags < 4; flags++)
	{
		intvec_reset(&ids);
		if (!tok_encode(t, text, n, flags, &ids, &e))
		{
			fuzz_failed(&e);
			continue;
		}
		for (size_t i = 0; i < ids.len; i++)
			if (ids.data[i] < 0 || ids.data[i] >= tok_vocab_size(t))
				abort();
		out.len = 0;
		tok_decode(t, ids.data, ids.len, flags & 1, &out);
		if (out.len > 0 && !uni_valid(out.data, out.len))
			abort();
		if (flags & 1)
			stream(t, &ids, &out);
	}
	intvec_reset(&ids);
	if (tok_encode(t, text, n, 0, &ids, &e) && tok_encode(t, text, n / 2, 0, &half, &e))
	{
		tok_wrap(t, &ids, &half, true, &both, &types);
		if (both.len != types.len || both.len < ids.len + half.len)
			abort();
	}
	intvec_free(&half);
	intvec_free(&both);
	offsets(t, text, n);
	/* any ids, also those that no text gives */
	for (int32_t id = -1; id <= tok_vocab_size(t) && id < 1000; id++)
	{
		size_t		len;

		(void) tok_piece(t, id, &len);
		intvec_reset(&ids);
		for (int i = 0; i < 3; i++)
			intvec_push(&ids, (id + i) % (tok_vocab_size(t) > 0 ? tok_vocab_size(t) : 1));
		out.len = 0;
		tok_decode(t, ids.data, ids.len, 0, &out);
	}
	intvec_free(&ids);
	intvec_free(&types);
	buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char plain[] = "Hello <s> wort [MASK]  x 123's\n\n\xE4\xBD\xA0\xFF caf\xC3\xA9";
	const uint8_t *end;
	const char *text = plain;
	size_t		n = sizeof(plain) - 1;
	char	   *file;
	size_t		len;
	Err			e = {0};
	Tok		   *t;

	if (size < 1)
		return 0;
	end = memmem(data + 1, size - 1, end_mark, 4);
	len = end != NULL ? (size_t) (end - data) - 1 : size - 1;
	if (end != NULL)
	{
		text = (const char *) end + 4;
		n = size - len - 5 < 4096 ? size - len - 5 : 4096;
	}
	/* a copy of exactly the size, so that reading past the end is detected */
	file = malloc(len > 0 ? len : 1);
	memcpy(file, data + 1, len);
	if ((t = load(data[0] % KINDS, file, len, &e)) == NULL)
		fuzz_failed(&e);
	else
		use(t, text, n);
	tok_free(t);
	free(file);
	return 0;
}

size_t
fuzz_count(void)
{
	return fuzz_files(patterns)->gl_pathc;
}

void
fuzz_seed(size_t i, Buf *b)
{
	static const char text[] = "Hello <|im_start|> wort [MASK]  x 123's\n\n\xE4\xBD\xA0\xFF caf\xC3\xA9 "
							   "e\xCC\x81\xEF\xAC\x81";
	const char *path = fuzz_files(patterns)->gl_pathv[i];
	Buf			file = fuzz_read(path);
	int			kind = KIND_HF;

	for (int k = 0; k < KINDS; k++)
		if (strlen(path) > strlen(endings[k]) && strcmp(path + strlen(path) - strlen(endings[k]),
														endings[k]) == 0)
			kind = k;
	buf_addc(b, (char) kind);
	buf_add(b, file.data, file.len);
	buf_add(b, end_mark, 4);
	buf_add(b, text, sizeof(text) - 1);
	buf_free(&file);
}

/* The vocabulary shouldn't get all the changes: half of them are at the beginning or the end. */
void
fuzz_change(Buf *b, unsigned *seed)
{
	size_t		span = rand_r(seed) % 2 ? b->len : 3000;

	if (b->len < 8)
		return;
	if (rand_r(seed) % 4 == 0)
	{
		/* the end, where the model's options and the text are */
		Buf			tail = {0};
		size_t		from = b->len > 400 ? b->len - 400 : 1;

		buf_add(&tail, b->data + from, b->len - from);
		b->len = from;
		if (rand_r(seed) % 2)
			fuzz_json(&tail, tail.len, seed);
		else
			fuzz_bytes(&tail, tail.len, seed);
		if (tail.len > 0)
			buf_add(b, tail.data, tail.len);
		buf_free(&tail);
	}
	else if (b->data[0] % KINDS == KIND_SPM || b->data[0] % KINDS == KIND_TIKTOKEN || rand_r(seed) % 4 == 0)
		fuzz_bytes(b, span, seed);
	else
		fuzz_json(b, span, seed);
}

FUZZ_MAIN("fuzz_tokenizer", 3000)
