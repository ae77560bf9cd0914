/*
 * pickle.c
 *	  Read the contents of a pickle of torch.save() without executing any of it.
 *
 * A pickle is a program for a stack machine that may call anything.  This reader keeps names as words.
 * The only calls it understands are those with which torch.save() makes tensors, state dictionaries and
 * TorchAO's quantized tensors; it refuses all others by name:
 *
 *		_rebuild_tensor_v2, v3		a tensor of a storage
 *		_rebuild_parameter			the tensor itself
 *		OrderedDict					an empty dictionary
 *		_rebuild_from_type_v2		an object: a class of TorchAO and its members
 *		torch.device, _get_layout	nothing: where a tensor was
 *		TorchAO's enumerations		their number
 *		TorchAO's settings			an object without members
 *
 * The bytes are untrusted: the stack, the memo and the number of items are bounded.
 *
 * Tested by tests/unit/loader/test_torchfile.c with what tests/golden/torch_tensors.py has written, and
 * tests/fuzz/fuzz_torchfile.c.
 */
#include "loader/pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "loader/torch_zip.h"

#define MOST_OF_TENSOR	1024
#define MOST_OF_WEIGHTS	2000000

struct Pickle
{
	const char *p;
	const char *end;
	bool		weights;
	size_t		most;			/* limit of the elements of each of these */
	PickleValue *stack;
	size_t		n_stack;
	PickleValue *memo;
	size_t		n_memo;
	PickleNode *nodes;
	size_t		n_nodes;
	PickleBox  *boxes;
	size_t		n_boxes;
	PickleTensor *tensors;
	size_t		n_tensors;
};

/* Return true if a word or a name equals s. */
static bool
is_word(const PickleValue *v, PickleKind kind, const char *s)
{
	return v->kind == kind && v->word.n == strlen(s) && memcmp(v->word.s, s, v->word.n) == 0;
}

/* Return a list of n elements with room for one more. */
static void *
room(void *list, size_t n, size_t size)
{
	return (n & (n - 1)) == 0 ? mem_realloc(list, (n > 0 ? 2 * n : 1) * size) : list;
}

/* Make room for one more element of a list; false if the limit is reached or memory is exhausted. */
#define GROW(k, list, n, e) \
	((k)->n < (k)->most ? ((k)->list = room((k)->list, (k)->n, sizeof(*(k)->list))) != NULL : \
	 torchzip_bad(e, "the pickle is too large"))

static bool
take(Pickle *k, size_t n, const char **at, Err *e)
{
	if ((size_t) (k->end - k->p) < n)
		return torchzip_bad(e, "the pickle ends too early");
	*at = k->p;
	k->p += n;
	return true;
}

static bool
push(Pickle *k, PickleValue v, Err *e)
{
	if (!GROW(k, stack, n_stack, e))
		return false;
	k->stack[k->n_stack++] = v;
	return true;
}

static bool
pop(Pickle *k, PickleValue *v, Err *e)
{
	if (k->n_stack == 0)
		return torchzip_bad(e, "the pickle is broken");
	*v = k->stack[--k->n_stack];
	return true;
}

/* ---- items ---- */

static bool
new_box(Pickle *k, PickleKind kind, PickleValue *out, Err *e)
{
	if (!GROW(k, boxes, n_boxes, e))
		return false;
	k->boxes[k->n_boxes] = (PickleBox) {-1, -1, 0};
	*out = (PickleValue) {.kind = kind, .i = (int64_t) k->n_boxes++};
	return true;
}

static bool
append(Pickle *k, int64_t box, const PickleValue *v, Err *e)
{
	PickleBox  *b = &k->boxes[box];
	int32_t		at = (int32_t) k->n_nodes;

	if (!GROW(k, nodes, n_nodes, e))
		return false;
	k->nodes[k->n_nodes++] = (PickleNode) {*v, -1};
	if (b->last >= 0)
		k->nodes[b->last].next = at;
	else
		b->first = at;
	b->last = at;
	b->n++;
	return true;
}

/* Count the last n items of the stack, or for n < 0 those above the mark, which the caller pops with them. */
static bool
count_items(Pickle *k, int n, size_t *count, Err *e)
{
	bool		marked = n < 0;

	*count = marked ? 0 : (size_t) n;
	while (marked && *count < k->n_stack && k->stack[k->n_stack - 1 - *count].kind != PICKLE_MARK)
		++*count;
	return *count + marked <= k->n_stack || torchzip_bad(e, "the pickle is broken");
}

/* Replace these items by a tuple; its nodes are consecutive. */
static bool
push_tuple(Pickle *k, int n, Err *e)
{
	PickleValue v;
	size_t		count;

	if (!count_items(k, n, &count, e) || !new_box(k, PICKLE_TUPLE, &v, e))
		return false;
	for (size_t i = 0; i < count; i++)
		if (!append(k, v.i, &k->stack[k->n_stack - count + i], e))
			return false;
	k->n_stack -= count + (n < 0);
	return push(k, v, e);
}

/* Append these items to the list or dictionary below them. */
static bool
extend(Pickle *k, int n, PickleKind kind, Err *e)
{
	size_t		count;
	size_t		below;

	if (!count_items(k, n, &count, e))
		return false;
	below = count + (n < 0);
	if (below >= k->n_stack || k->stack[k->n_stack - 1 - below].kind != kind ||
		(kind == PICKLE_DICT && count % 2 != 0))
		return torchzip_bad(e, "the pickle is broken");
	for (size_t i = 0; i < count; i++)
		if (!append(k, k->stack[k->n_stack - 1 - below].i, &k->stack[k->n_stack - count + i], e))
			return false;
	k->n_stack -= below;
	return true;
}

static bool
push_box(Pickle *k, PickleKind kind, Err *e)
{
	PickleValue v;

	return new_box(k, kind, &v, e) && push(k, v, e);
}

/* Return item i of a tuple, or a value of another kind if there is none. */
static PickleValue
item(const Pickle *k, const PickleValue *v, int i)
{
	const PickleBox *b = v->kind == PICKLE_TUPLE ? &k->boxes[v->i] : NULL;

	return b != NULL && i < b->n ? k->nodes[b->first + i].v : (PickleValue) {.kind = PICKLE_OTHER};
}

static int
items(const Pickle *k, const PickleValue *v)
{
	return v->kind == PICKLE_TUPLE ? k->boxes[v->i].n : -1;
}

/* ---- numbers, words, the memo ---- */

static bool
push_int(Pickle *k, int size, Err *e)
{
	PickleValue v = {.kind = PICKLE_INT};
	const char *at;

	if (!take(k, (size_t) size, &at, e))
		return false;
	for (int i = 0; i < size; i++)
		v.i |= (int64_t) ((uint64_t) (unsigned char) at[i] << 8 * i);
	if (size == 4)
		v.i = (int32_t) v.i;
	return push(k, v, e);
}

/* an integer of at most 8 bytes, two's complement */
static bool
push_long(Pickle *k, Err *e)
{
	const char *at;
	int			size;
	PickleValue *v;

	if (!take(k, 1, &at, e))
		return false;
	size = (unsigned char) *at;
	if (size > 8)
		return torchzip_bad(e, "a number is too large");
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
	PickleValue v = {.kind = PICKLE_WORD, .word.n = n};

	return take(k, n, &v.word.s, e) && push(k, v, e);
}

/* two lines: a module, and a name in it */
static bool
push_name(Pickle *k, Err *e)
{
	PickleValue v = {.kind = PICKLE_NAME, .word.s = k->p};
	const char *line = memchr(k->p, '\n', (size_t) (k->end - k->p));
	const char *end = line != NULL ? memchr(line + 1, '\n', (size_t) (k->end - line - 1)) : NULL;

	if (end == NULL)
		return torchzip_bad(e, "the pickle ends too early");
	v.word.n = (size_t) (end - k->p);
	k->p = end + 1;
	return push(k, v, e);
}

static bool
remember(Pickle *k, uint32_t at, Err *e)
{
	if (at >= k->most || k->n_stack == 0)
		return torchzip_bad(e, "the pickle is too large");
	while (k->n_memo <= at)
	{
		if (!GROW(k, memo, n_memo, e))
			return false;
		k->memo[k->n_memo++] = (PickleValue) {.kind = PICKLE_OTHER};
	}
	k->memo[at] = k->stack[k->n_stack - 1];
	return true;
}

static bool
recall(Pickle *k, uint32_t at, Err *e)
{
	if (at >= k->n_memo)
		return torchzip_bad(e, "the pickle is broken");
	return push(k, k->memo[at], e);
}

/* ---- tensors ---- */

/* Make a storage of ("storage", torch.FloatStorage, "0", "cpu", 6). */
static bool
make_storage(Pickle *k, Err *e)
{
	static const struct
	{
		const char *name;
		KType		type;
	}			types[] = {
		{"torch\nFloatStorage", KT_F32}, {"torch\nHalfStorage", KT_F16}, {"torch\nBFloat16Storage", KT_BF16},
		/* for weights only */
		{"torch\nCharStorage", KT_I8}, {"torch\nByteStorage", KT_U8}, {"torch\nBoolStorage", KT_U8},
		{"torch\nShortStorage", KT_I16}, {"torch\nIntStorage", KT_I32}, {"torch\nLongStorage", KT_I64},
		{"torch.storage\nUntypedStorage", KT_COUNT}
	};
	size_t		n = k->weights ? sizeof(types) / sizeof(types[0]) : 3;
	PickleValue t;
	PickleValue x[5];

	if (!pop(k, &t, e))
		return false;
	for (int i = 0; i < 5; i++)
		x[i] = item(k, &t, i);
	if (items(k, &t) != 5 || !is_word(&x[0], PICKLE_WORD, "storage") || x[1].kind != PICKLE_NAME ||
		x[2].kind != PICKLE_WORD || x[4].kind != PICKLE_INT || x[4].i < 0)
		return torchzip_bad(e, "a storage has an unsupported description");
	for (size_t i = 0; i < n; i++)
		if (is_word(&x[1], PICKLE_NAME, types[i].name))
			return push(k, (PickleValue) {.kind = PICKLE_STORAGE, .type = types[i].type, .i = x[4].i,
										  .word = x[2].word}, e);
	return err_set(e, ERR_UNSUPPORTED, k->weights ? "a tensor has a type that is not supported" :
				   "the tensor must be of float32, float16 or bfloat16");
}

/* Return the type of a tensor whose storage is untyped bytes; the last argument says it. */
static KType
type_of(const PickleValue *name)
{
	static const struct
	{
		const char *name;
		KType		type;
	}			types[] = {{"torch\nfloat8_e4m3fn", KT_F8_E4M3}, {"torch\nfloat8_e5m2", KT_F8_E5M2},
						   {"torch\nfloat8_e8m0fnu", KT_F8_E8M0}};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (is_word(name, PICKLE_NAME, types[i].name))
			return types[i].type;
	return KT_COUNT;
}

/* Make a tensor of (storage, offset, sizes, strides, requires_grad, hooks), and with `bytes` the
 * type. */
static bool
make_tensor(Pickle *k, const PickleValue *t, bool bytes, Err *e)
{
	PickleValue x[4];
	PickleValue last = item(k, t, 6);
	PickleTensor r = {0};

	for (int i = 0; i < 4; i++)
		x[i] = item(k, t, i);
	if (x[0].kind != PICKLE_STORAGE || x[1].kind != PICKLE_INT || items(k, &x[2]) < 0 ||
		items(k, &x[2]) != items(k, &x[3]) || items(k, &x[2]) > PICKLE_MAX_DIMS)
		return torchzip_bad(e, "a tensor has an unsupported description");
	r = (PickleTensor) {.type = bytes ? type_of(&last) : x[0].type, .key = x[0].word, .stored = x[0].i,
						.offset = x[1].i, .n_dims = items(k, &x[2])};
	/* an untyped storage may only have types of one byte, so that its count of bytes is its count of
	 * elements */
	if ((x[0].type == KT_COUNT) != bytes || r.type == KT_COUNT)
		return err_set(e, ERR_UNSUPPORTED, "a tensor has a type that is not supported");
	for (int i = 0; i < r.n_dims; i++)
	{
		PickleValue size = item(k, &x[2], i);
		PickleValue stride = item(k, &x[3], i);

		if (size.kind != PICKLE_INT || stride.kind != PICKLE_INT)
			return torchzip_bad(e, "a tensor has an unsupported description");
		r.dim[i] = size.i;
		r.stride[i] = stride.i;
	}
	if (!GROW(k, tensors, n_tensors, e))
		return false;
	k->tensors[k->n_tensors] = r;
	return push(k, (PickleValue) {.kind = PICKLE_TENSOR, .i = (int64_t) k->n_tensors++}, e);
}

/* ---- calls ---- */

static bool
starts(StrView s, const char *with)
{
	return s.n >= strlen(with) && memcmp(s.s, with, strlen(with)) == 0;
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

/* Make an object of (_rebuild_wrapper_subclass, class, its arguments, members). */
static bool
make_object(Pickle *k, const PickleValue *args, Err *e)
{
	PickleValue how = item(k, args, 0);
	PickleValue type = item(k, args, 1);
	PickleValue members = item(k, args, 3);

	if (!is_word(&how, PICKLE_NAME, "torch._utils\n_rebuild_wrapper_subclass") ||
		type.kind != PICKLE_NAME || members.kind != PICKLE_DICT)
		return torchzip_bad(e, "a tensor has an unsupported description");
	if (!starts(type.word, "torchao."))
		return refuse_call(type.word, e);
	return push(k, (PickleValue) {.kind = PICKLE_OBJECT, .i = members.i, .word = type.word}, e);
}

static bool
call_of_weights(Pickle *k, const PickleValue *f, const PickleValue *args, Err *e)
{
	PickleValue first = item(k, args, 0);

	if (is_word(f, PICKLE_NAME, "torch._utils\n_rebuild_tensor_v3"))
		return make_tensor(k, args, true, e);
	if (is_word(f, PICKLE_NAME, "torch._utils\n_rebuild_parameter") && first.kind == PICKLE_TENSOR)
		return push(k, first, e);
	if (is_word(f, PICKLE_NAME, "torch._tensor\n_rebuild_from_type_v2"))
		return make_object(k, args, e);
	if (is_word(f, PICKLE_NAME, "torch\ndevice") ||
		is_word(f, PICKLE_NAME, "torch.serialization\n_get_layout"))
		return push(k, (PickleValue) {.kind = PICKLE_OTHER}, e);
	if (starts(f->word, "torchao.") && items(k, args) == 1 &&
		(first.kind == PICKLE_INT || first.kind == PICKLE_WORD))
		return push(k, first, e);
	return refuse_call(f->word, e);
}

/* Pop the name of a function and its arguments. */
static bool
pop_call(Pickle *k, PickleValue *f, PickleValue *args, Err *e)
{
	return pop(k, args, e) && pop(k, f, e) &&
		(f->kind == PICKLE_NAME || torchzip_bad(e, "the pickle is broken"));
}

static bool
call(Pickle *k, Err *e)
{
	PickleValue args;
	PickleValue f;

	if (!pop_call(k, &f, &args, e))
		return false;
	if (is_word(&f, PICKLE_NAME, "torch._utils\n_rebuild_tensor_v2"))
		return make_tensor(k, &args, false, e);
	if (is_word(&f, PICKLE_NAME, "collections\nOrderedDict") && items(k, &args) == 0)
		return push_box(k, PICKLE_DICT, e);
	return k->weights ? call_of_weights(k, &f, &args, e) : refuse_call(f.word, e);
}

/* Make a setting of TorchAO, such as a layout.  Only its class counts, not its members. */
static bool
make_setting(Pickle *k, Err *e)
{
	PickleValue args;
	PickleValue f;

	if (!pop_call(k, &f, &args, e))
		return false;
	if (!k->weights || !starts(f.word, "torchao."))
		return refuse_call(f.word, e);
	return push(k, (PickleValue) {.kind = PICKLE_OBJECT, .i = -1, .word = f.word}, e);
}

/* Drop the state of an object: the versions of modules of a state dictionary, or the members of a
 * setting. */
static bool
drop_state(Pickle *k, Err *e)
{
	PickleValue state;

	if (!pop(k, &state, e))
		return false;
	if (k->n_stack > 0 && k->weights &&
		(k->stack[k->n_stack - 1].kind == PICKLE_DICT ||
		 (k->stack[k->n_stack - 1].kind == PICKLE_OBJECT && k->stack[k->n_stack - 1].i < 0)))
		return true;
	return torchzip_bad(e, "the pickle is broken");
}

/* ---- instructions ---- */

static bool
unknown(Err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "only a tensor can be read, not an object that holds one");
}

/* Run an instruction that makes no value of its own. */
static bool
other_instruction(Pickle *k, char op, Err *e)
{
	const char *at;

	switch (op)
	{
		case '\x80':			/* protocol */
			return take(k, 1, &at, e);
		case '\x95':			/* frame */
			return take(k, 8, &at, e);
		case 'q':
			return take(k, 1, &at, e) && remember(k, (unsigned char) *at, e);
		case 'r':
			return take(k, 4, &at, e) && remember(k, torchzip_u32(at), e);
		case '\x94':
			return remember(k, (uint32_t) k->n_memo, e);
		case 'h':
			return take(k, 1, &at, e) && recall(k, (unsigned char) *at, e);
		case 'j':
			return take(k, 4, &at, e) && recall(k, torchzip_u32(at), e);
		case 'a':
			return extend(k, 1, PICKLE_LIST, e);
		case 'e':
			return extend(k, -1, PICKLE_LIST, e);
		case 's':
			return extend(k, 2, PICKLE_DICT, e);
		case 'u':
			return extend(k, -1, PICKLE_DICT, e);
		case 'b':
			return drop_state(k, e);
		default:
			return unknown(e);
	}
}

/* Run one instruction other than STOP. */
static bool
instruction(Pickle *k, char op, Err *e)
{
	const char *at;

	switch (op)
	{
		case 'c':
			return push_name(k, e);
		case '(':
			return push(k, (PickleValue) {.kind = PICKLE_MARK}, e);
		case ')':
			return push_tuple(k, 0, e);
		case 't':
			return push_tuple(k, -1, e);
		case '\x85':
		case '\x86':
		case '\x87':
			return push_tuple(k, op - '\x84', e);
		case '}':
			return push_box(k, PICKLE_DICT, e);
		case ']':
			return push_box(k, PICKLE_LIST, e);
		case 'K':
			return push_int(k, 1, e);
		case 'M':
			return push_int(k, 2, e);
		case 'J':
			return push_int(k, 4, e);
		case '\x8a':
			return push_long(k, e);
		case 'X':
			return take(k, 4, &at, e) && push_word(k, torchzip_u32(at), e);
		case '\x8c':
			return take(k, 1, &at, e) && push_word(k, (unsigned char) *at, e);
		case 'G':				/* a float */
			return take(k, 8, &at, e) && push(k, (PickleValue) {.kind = PICKLE_OTHER}, e);
		case 'N':
		case '\x88':
		case '\x89':
			return push(k, (PickleValue) {.kind = PICKLE_OTHER}, e);
		case 'Q':
			return make_storage(k, e);
		case 'R':
			return call(k, e);
		case '\x81':
			return make_setting(k, e);
		default:
			return other_instruction(k, op, e);
	}
}

static bool
run(Pickle *k, Err *e)
{
	const char *op;

	while (take(k, 1, &op, e))
	{
		if (*op == '.')
			return k->n_stack == 1 || unknown(e);
		if (!instruction(k, *op, e))
			return false;
	}
	return false;
}

/*
 * Name the tensor whose description is wrong: the last key of the outermost dictionary.  Its keys and
 * values follow the first mark; the value of the last one is not complete.
 */
static void
tell_tensor(const Pickle *k, Err *e)
{
	size_t		at = 0;

	while (at < k->n_stack && k->stack[at].kind != PICKLE_MARK)
		at++;
	at++;
	while (at + 2 < k->n_stack && k->stack[at + 1].kind != PICKLE_NAME &&
		   k->stack[at + 1].kind != PICKLE_MARK)
		at += 2;
	if (at >= k->n_stack || k->stack[at].kind != PICKLE_WORD || k->stack[at].word.n > 200)
		return;
	for (size_t i = 0; i < k->stack[at].word.n; i++)
		if (k->stack[at].word.s[i] < ' ' || k->stack[at].word.s[i] > '~')
			return;
	err_detail(e, "The reader was at tensor \"%.*s\".", (int) k->stack[at].word.n, k->stack[at].word.s);
}

Pickle *
pickle_read(StrView text, bool weights, Err *e)
{
	Pickle	   *k = mem_zalloc(sizeof(Pickle));

	k->p = text.s;
	k->end = text.s + text.n;
	k->weights = weights;
	k->most = weights ? MOST_OF_WEIGHTS : MOST_OF_TENSOR;
	if (run(k, e))
		return k;
	if (weights)
		tell_tensor(k, e);
	pickle_free(k);
	return NULL;
}

void
pickle_free(Pickle *k)
{
	if (k == NULL)
		return;
	mem_free(k->stack);
	mem_free(k->memo);
	mem_free(k->nodes);
	mem_free(k->boxes);
	mem_free(k->tensors);
	mem_free(k);
}

/* ---- the result ---- */

const PickleValue *
pickle_top(const Pickle *k)
{
	return &k->stack[0];
}

const PickleBox *
pickle_box(const Pickle *k, const PickleValue *v)
{
	ALWAYS((size_t) v->i < k->n_boxes);
	return &k->boxes[v->i];
}

const PickleNode *
pickle_node(const Pickle *k, int32_t i)
{
	return i >= 0 ? &k->nodes[i] : NULL;
}

const PickleTensor *
pickle_tensor(const Pickle *k, const PickleValue *v)
{
	ALWAYS(v->kind == PICKLE_TENSOR && (size_t) v->i < k->n_tensors);
	return &k->tensors[v->i];
}

const PickleValue *
pickle_member(const Pickle *k, const PickleValue *v, const char *key)
{
	const PickleNode *n = (v->kind == PICKLE_OBJECT && v->i >= 0) || v->kind == PICKLE_DICT ?
		pickle_node(k, pickle_box(k, v)->first) : NULL;

	for (int i = 0; n != NULL && i < PICKLE_MAX_MEMBERS; i++, n = pickle_node(k, k->nodes[n->next].next))
		if (is_word(&n->v, PICKLE_WORD, key))
			return &k->nodes[n->next].v;
	return NULL;
}

bool
pickle_is_torchao(const PickleValue *v, const char *class_name)
{
	size_t		n = strlen(class_name);

	return v->kind == PICKLE_OBJECT && starts(v->word, "torchao.") && v->word.n > n &&
		v->word.s[v->word.n - n - 1] == '\n' && memcmp(v->word.s + v->word.n - n, class_name, n) == 0;
}
