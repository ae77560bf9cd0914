/*
 * torch_pickle.c
 *	  One tensor, as torch.save() writes it.
 *
 * Such a file is a ZIP archive of stored members: NAME/data.pkl, a pickle that describes the tensor, and
 * NAME/data/KEY, its storage.  The pickle is a program for a stack machine that may call anything; here
 * it may do what torch.save() of a tensor does, and no more:
 *
 *	names		are kept as words; the only calls known are those that make a tensor of a storage
 *				and an empty dictionary
 *	values		numbers, words, tuples; as many as fit into small fixed arrays
 *
 * The bytes come from anywhere: every offset, size and stride is checked against what there is.
 *
 * Tested by tests/unit/loader/test_torchfile.c with what tests/golden/torch_tensors.py has written.
 */
#include "base/str_view.h"
#include "loader/torch_pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "blocks.h"

#define MAX_STACK	64
#define MAX_MEMO	64
#define MAX_ITEMS	512			/* of all tuples */

typedef enum ValueKind
{
	V_OTHER, V_MARK, V_INT, V_WORD, V_NAME, V_TUPLE, V_STORAGE, V_TENSOR
} ValueKind;

typedef struct Value
{
	ValueKind	kind;
	int64_t		i;				/* V_INT; V_STORAGE: elements */
	StrView		word;			/* V_WORD; V_NAME: "module\nname"; V_STORAGE: its key */
	int			from;			/* V_TUPLE: among the items */
	int			n;
	KType		type;			/* V_STORAGE */
} Value;

typedef struct Pickle
{
	const char *p;
	const char *end;
	Value		stack[MAX_STACK];
	int			n_stack;
	Value		memo[MAX_MEMO];
	int			n_memo;
	Value		items[MAX_ITEMS];
	int			n_items;
	/* the tensor */
	Value		storage;
	int64_t		offset;
	int			n_dims;
	int64_t		dim[TORCH_MAX_DIMS];
	int64_t		stride[TORCH_MAX_DIMS];
} Pickle;

static bool
bad(Err *e, const char *what)
{
	err_set(e, ERR_BAD_FILE, "not a tensor of torch.save(): %s", what);
	return false;
}

static uint32_t
u16_at(const char *p)
{
	return (uint32_t) (unsigned char) p[0] | (uint32_t) (unsigned char) p[1] << 8;
}

static uint32_t
u32_at(const char *p)
{
	return u16_at(p) | u16_at(p + 2) << 16;
}

static bool
span_is(StrView x, const char *s)
{
	return x.n == strlen(s) && memcmp(x.s, s, x.n) == 0;
}

/* ---- the archive ---- */

#define END_SIZE	22
#define ENTRY_SIZE	46
#define LOCAL_SIZE	30

/* The directory: *dir, of *count entries. */
static bool
find_directory(StrView zip, StrView *dir, uint32_t *count, Err *e)
{
	size_t		least = zip.n > END_SIZE + 65535 ? zip.n - END_SIZE - 65535 : 0;

	for (size_t at = zip.n >= END_SIZE ? zip.n - END_SIZE + 1 : 0; at-- > least;)
	{
		const char *p = zip.s + at;
		uint32_t	size;
		uint32_t	from;

		if (u32_at(p) != 0x06054b50)
			continue;
		*count = u16_at(p + 10);
		size = u32_at(p + 12);
		from = u32_at(p + 16);
		if (from > at || size > at - from)
			return bad(e, "the archive's directory is broken");
		*dir = (StrView) {zip.s + from, size};
		return true;
	}
	return bad(e, "no archive");
}

/* Is a path the first folder's, name and key? */
static bool
is_member(StrView path, const char *name, StrView key)
{
	size_t		len = strlen(name);
	const char *tail = memchr(path.s, '/', path.n);

	return tail != NULL && (size_t) (path.s + path.n - tail) == len + key.n && memcmp(tail, name, len) == 0 &&
		memcmp(tail + len, key.s, key.n) == 0;
}

/* The first member of that name. */
static bool
find_member(StrView zip, const char *name, StrView key, StrView *out, Err *e)
{
	uint32_t	count;
	StrView		dir;

	if (!find_directory(zip, &dir, &count, e))
		return false;
	for (; count > 0 && dir.n >= ENTRY_SIZE; count--)
	{
		size_t		n_name = u16_at(dir.s + 28);
		size_t		size = ENTRY_SIZE + n_name + u16_at(dir.s + 30) + u16_at(dir.s + 32);
		const char *found = dir.s + ENTRY_SIZE;
		uint32_t	stored = u32_at(dir.s + 20);
		uint32_t	at = u32_at(dir.s + 42);
		size_t		skip;

		if (size > dir.n)
			break;
		if (is_member((StrView) {found, n_name}, name, key))
		{
			if (u16_at(dir.s + 10) != 0)
				return bad(e, "the archive is compressed");
			if (zip.n < LOCAL_SIZE || at > zip.n - LOCAL_SIZE)
				break;
			skip = (size_t) at + LOCAL_SIZE + u16_at(zip.s + at + 26) + u16_at(zip.s + at + 28);
			if (skip > zip.n || stored > zip.n - skip)
				break;
			*out = (StrView) {zip.s + skip, stored};
			return true;
		}
		dir.s += size;
		dir.n -= size;
	}
	return bad(e, "a member of the archive is missing or broken");
}

/* ---- the pickle ---- */

static bool
take(Pickle *k, size_t n, const char **at, Err *e)
{
	if ((size_t) (k->end - k->p) < n)
		return bad(e, "the pickle ends too early");
	*at = k->p;
	k->p += n;
	return true;
}

static bool
push(Pickle *k, Value v, Err *e)
{
	if (k->n_stack == MAX_STACK)
		return bad(e, "the pickle is too large");
	k->stack[k->n_stack++] = v;
	return true;
}

static bool
pop(Pickle *k, Value *v, Err *e)
{
	if (k->n_stack == 0)
		return bad(e, "the pickle is broken");
	*v = k->stack[--k->n_stack];
	return true;
}

/* The last n of the stack become one value; n < 0: those down to the mark. */
static bool
push_tuple(Pickle *k, int n, Err *e)
{
	bool		marked = n < 0;
	Value		v = {.kind = V_TUPLE, .from = k->n_items};

	for (n = marked ? 0 : n; marked && n < k->n_stack && k->stack[k->n_stack - 1 - n].kind != V_MARK;)
		n++;
	if (n + marked > k->n_stack)
		return bad(e, "the pickle is broken");
	if (n > MAX_ITEMS - k->n_items)
		return bad(e, "the pickle is too large");
	v.n = n;
	for (int i = 0; i < n; i++)
		k->items[k->n_items++] = k->stack[k->n_stack - n + i];
	k->n_stack -= n + marked;
	return push(k, v, e);
}

static bool
push_int(Pickle *k, int size, Err *e)
{
	Value		v = {.kind = V_INT};
	const char *at;

	if (!take(k, (size_t) size, &at, e))
		return false;
	for (int i = 0; i < size; i++)
		v.i |= (int64_t) ((uint64_t) (unsigned char) at[i] << 8 * i);
	if (size == 4)
		v.i = (int32_t) v.i;
	return push(k, v, e);
}

/* An integer of at most 8 bytes, two's complement */
static bool
push_long(Pickle *k, Err *e)
{
	const char *at;
	int			size;
	Value	   *v;

	if (!take(k, 1, &at, e))
		return false;
	size = (unsigned char) *at;
	if (size > 8)
		return bad(e, "a number is too large");
	if (!push_int(k, size, e))
		return false;
	v = &k->stack[k->n_stack - 1];
	if (size > 0 && size < 8 && (v->i >> (8 * size - 1) & 1) != 0)
		v->i -= (int64_t) 1 << 8 * size;
	return true;
}

static bool
push_word(Pickle *k, size_t n, Err *e)
{
	Value		v = {.kind = V_WORD, .word.n = n};

	return take(k, n, &v.word.s, e) && push(k, v, e);
}

/* Two lines: a module, and a name in it */
static bool
push_name(Pickle *k, Err *e)
{
	Value		v = {.kind = V_NAME, .word.s = k->p};
	const char *line = memchr(k->p, '\n', (size_t) (k->end - k->p));
	const char *end = line != NULL ? memchr(line + 1, '\n', (size_t) (k->end - line - 1)) : NULL;

	if (end == NULL)
		return bad(e, "the pickle ends too early");
	v.word.n = (size_t) (end - k->p);
	k->p = end + 1;
	return push(k, v, e);
}

static bool
remember(Pickle *k, uint32_t at, Err *e)
{
	if (at >= MAX_MEMO || k->n_stack == 0)
		return bad(e, "the pickle is too large");
	for (; k->n_memo <= (int) at; k->n_memo++)
		k->memo[k->n_memo] = (Value) {.kind = V_OTHER};
	k->memo[at] = k->stack[k->n_stack - 1];
	return true;
}

static bool
recall(Pickle *k, uint32_t at, Err *e)
{
	if (at >= (uint32_t) k->n_memo)
		return bad(e, "the pickle is broken");
	return push(k, k->memo[at], e);
}

/* ("storage", torch.FloatStorage, "0", "cpu", 6) */
static bool
make_storage(Pickle *k, Err *e)
{
	static const struct
	{
		const char *name;
		KType		type;
	}			types[] = {{"torch\nFloatStorage", KT_F32}, {"torch\nHalfStorage", KT_F16},
						   {"torch\nBFloat16Storage", KT_BF16}};
	Value		t;
	const Value *x;

	if (!pop(k, &t, e))
		return false;
	x = &k->items[t.from];
	if (t.kind != V_TUPLE || t.n != 5 || x[0].kind != V_WORD || !span_is(x[0].word, "storage") ||
		x[1].kind != V_NAME || x[2].kind != V_WORD || x[4].kind != V_INT || x[4].i < 0)
		return bad(e, "a storage is described in another way");
	for (int i = 0; i < 3; i++)
		if (span_is(x[1].word, types[i].name))
			return push(k, (Value) {.kind = V_STORAGE, .type = types[i].type, .i = x[4].i, .word = x[2].word},
						e);
	return err_set(e, ERR_UNSUPPORTED, "the tensor must be of float32, float16 or bfloat16");
}

/* (storage, offset, sizes, strides, requires_grad, hooks) */
static bool
make_tensor(Pickle *k, const Value *t, Err *e)
{
	const Value *x = &k->items[t->from];

	if (t->kind != V_TUPLE || t->n < 4 || x[0].kind != V_STORAGE || x[1].kind != V_INT ||
		x[2].kind != V_TUPLE || x[3].kind != V_TUPLE || x[2].n != x[3].n || x[2].n > TORCH_MAX_DIMS)
		return bad(e, "a tensor is described in another way");
	k->storage = x[0];
	k->offset = x[1].i;
	k->n_dims = x[2].n;
	for (int i = 0; i < k->n_dims; i++)
	{
		const Value *size = &k->items[x[2].from + i];
		const Value *stride = &k->items[x[3].from + i];

		if (size->kind != V_INT || stride->kind != V_INT)
			return bad(e, "a tensor is described in another way");
		k->dim[i] = size->i;
		k->stride[i] = stride->i;
	}
	return push(k, (Value) {.kind = V_TENSOR}, e);
}

static bool
refuse_call(StrView name, Err *e)
{
	const char *line = memchr(name.s, '\n', name.n);
	int			module = line - name.s < 60 ? (int) (line - name.s) : 60;
	size_t		rest = (size_t) (name.s + name.n - line - 1);

	return err_set(e, ERR_UNSUPPORTED, "only dense tensors can be read, not what %.*s.%.*s makes", module,
				   name.s, rest < 60 ? (int) rest : 60, line + 1);
}

static bool
call(Pickle *k, Err *e)
{
	Value		args,
				f;

	if (!pop(k, &args, e) || !pop(k, &f, e))
		return false;
	if (f.kind == V_NAME && span_is(f.word, "torch._utils\n_rebuild_tensor_v2"))
		return make_tensor(k, &args, e);
	if (f.kind == V_NAME && span_is(f.word, "collections\nOrderedDict") && args.kind == V_TUPLE &&
		args.n == 0)
		return push(k, (Value) {.kind = V_OTHER}, e);
	return f.kind == V_NAME ? refuse_call(f.word, e) : bad(e, "the pickle is broken");
}

/* One instruction but the last. */
static bool
instruction(Pickle *k, char op, Err *e)
{
	const char *at;

	switch (op)
	{
		case '\x80':			/* protocol */
			return take(k, 1, &at, e);
		case '\x95':			/* frame */
			return take(k, 8, &at, e);
		case 'c':
			return push_name(k, e);
		case '(':
			return push(k, (Value) {.kind = V_MARK}, e);
		case ')':
			return push_tuple(k, 0, e);
		case 't':
			return push_tuple(k, -1, e);
		case '\x85':
		case '\x86':
		case '\x87':
			return push_tuple(k, op - '\x84', e);
		case 'K':
			return push_int(k, 1, e);
		case 'M':
			return push_int(k, 2, e);
		case 'J':
			return push_int(k, 4, e);
		case '\x8a':
			return push_long(k, e);
		case 'X':
			return take(k, 4, &at, e) && push_word(k, u32_at(at), e);
		case '\x8c':
			return take(k, 1, &at, e) && push_word(k, (unsigned char) *at, e);
		case 'q':
			return take(k, 1, &at, e) && remember(k, (unsigned char) *at, e);
		case 'r':
			return take(k, 4, &at, e) && remember(k, u32_at(at), e);
		case '\x94':
			return remember(k, (uint32_t) k->n_memo, e);
		case 'h':
			return take(k, 1, &at, e) && recall(k, (unsigned char) *at, e);
		case 'j':
			return take(k, 4, &at, e) && recall(k, u32_at(at), e);
		case 'N':
		case '\x88':
		case '\x89':
			return push(k, (Value) {.kind = V_OTHER}, e);
		case 'Q':
			return make_storage(k, e);
		case 'R':
			return call(k, e);
		default:
			return err_set(e, ERR_UNSUPPORTED, "only a tensor can be read, and nothing that holds one");
	}
}

static bool
run_pickle(Pickle *k, Err *e)
{
	const char *op;

	while (take(k, 1, &op, e))
	{
		if (*op == '.')
			return (k->n_stack == 1 && k->stack[0].kind == V_TENSOR) ||
				err_set(e, ERR_UNSUPPORTED, "only a tensor can be read, and nothing that holds one");
		if (!instruction(k, *op, e))
			return false;
	}
	return false;
}

/* ---- the tensor ---- */

/* Its size, in *out; every element lies in a storage of n_stored elements. */
static bool
measure(const Pickle *k, size_t n_stored, TorchTensor *out, Err *e)
{
	size_t		last = 0;

	out->n_dims = k->n_dims;
	out->n = 1;
	if (k->offset < 0)
		return bad(e, "the tensor lies outside of its storage");
	for (int i = 0; i < k->n_dims; i++)
	{
		if (k->dim[i] < 0 || k->stride[i] < 0)
			return bad(e, "the tensor's shape is broken");
		out->dim[i] = (size_t) k->dim[i];
		if (!mem_mul(out->n, out->dim[i], &out->n))
			return bad(e, "the tensor's shape is broken");
	}
	for (int i = 0; i < k->n_dims && out->n > 0; i++)
	{
		size_t		span;

		if (!mem_mul(out->dim[i] - 1, (size_t) k->stride[i], &span) || span > n_stored ||
			(last += span) > n_stored)
			return bad(e, "the tensor lies outside of its storage");
	}
	/* a stride of 0 would make much of little */
	if (out->n > n_stored ||
		(out->n > 0 && ((size_t) k->offset >= n_stored || last >= n_stored - (size_t) k->offset)))
		return bad(e, "the tensor lies outside of its storage");
	return true;
}

static float
element(const char *p, KType type)
{
	uint32_t	bits = type == KT_F32 ? u32_at(p) : type == KT_BF16 ? u16_at(p) << 16 : 0;
	float		x;

	if (type == KT_F16)
		return kf16_to_f32((uint16_t) u16_at(p));
	memcpy(&x, &bits, sizeof(x));
	return x;
}

static void
copy_elements(const Pickle *k, const char *from, size_t size, TorchTensor *out)
{
	size_t		at[TORCH_MAX_DIMS] = {0};
	size_t		pos = (size_t) k->offset;

	for (size_t i = 0; i < out->n; i++)
	{
		out->data[i] = element(from + pos * size, k->storage.type);
		for (int d = out->n_dims - 1; d >= 0; d--)
		{
			pos += (size_t) k->stride[d];
			if (++at[d] < out->dim[d])
				break;
			pos -= at[d] * (size_t) k->stride[d];
			at[d] = 0;
		}
	}
}

bool
torch_tensor_read(const char *s, size_t n, TorchTensor *out, Err *e)
{
	StrView		zip = {s, n};
	StrView		none = {"", 0};
	StrView		pkl,
				order,
				data;
	Pickle	   *k = mem_zalloc(sizeof(Pickle));
	Err			ignored;
	size_t		size;
	bool		ok;

	memset(out, 0, sizeof(*out));
	ok = find_member(zip, "/data.pkl", none, &pkl, e);
	if (ok && find_member(zip, "/byteorder", none, &order, &ignored) && !span_is(order, "little"))
		ok = err_set(e, ERR_UNSUPPORTED, "the tensor must be little-endian");
	if (ok)
	{
		k->p = pkl.s;
		k->end = pkl.s + pkl.n;
		ok = run_pickle(k, e) && find_member(zip, "/data/", k->storage.word, &data, e);
	}
	size = k->storage.type == KT_F32 ? 4 : 2;
	if (ok && (uint64_t) k->storage.i > data.n / size)
		ok = bad(e, "a storage is shorter than it says");
	ok = ok && measure(k, (size_t) k->storage.i, out, e);
	if (ok && (out->data = mem_try_alloc((out->n + 1) * sizeof(float))) == NULL)
		ok = err_set(e, ERR_NOMEM, "out of memory for a tensor of %zu numbers", out->n);
	if (ok)
		copy_elements(k, data.s, size, out);
	mem_free(k);
	return ok;
}
