/*
 * torch_weights.c
 *	  Weights of a Hugging Face directory in PyTorch's files: pytorch_model.bin, or the shards that
 *	  pytorch_model.bin.index.json names.
 *
 * A file is an archive (torch_zip.h) of a pickled state dictionary, which the loader reads without
 * executing it (pickle.h), and of storages, which stay in place: tensors point into the mapped file.
 * For a tensor subclass of TorchAO the loader adds its inner tensors, under the names that TorchAO gives
 * them in safetensors files: "m.up_proj.weight" becomes "m.up_proj._weight_qdata",
 * "m.up_proj._weight_scale" and so on.
 *
 * The archive's directory and the pickle are copied before they are parsed, so that no other process can
 * change them meanwhile.
 *
 * Tested by tests/unit/loader/test_torch_weights.c and tests/fuzz/fuzz_torchfile.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "loader/model_files_internal.h"
#include "loader/pickle.h"
#include "loader/torch_zip.h"

#define MAX_PICKLE (32u << 20)
#define MAX_NAME (2 * FILES_MAX_NAME + 1)
#define MAX_DIMS 4

typedef struct Weights
{
	Files	   *f;
	int			map;
	const char *prefix;			/* comes before all names */
	TorchZip	zip;
	Pickle	   *k;
	bool		ok;
	bool		found;			/* the file is an archive */
	Err			err;
} Weights;

static bool
no_weights(const Weights *w, const char *why, Err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "file \"%s\" has %s, which is not supported", w->f->maps[w->map].path,
				   why);
}

/* Report what is wrong with a tensor. */
static bool
bad_tensor(const Weights *w, const char *name, ErrClass cls, const char *what, Err *e)
{
	return err_set(e, cls, "tensor \"%.*s\" in file \"%s\" %s", FILES_MAX_NAME, name,
				   w->f->maps[w->map].path, what);
}

/* ---- tensors ---- */

/* Return true if the tensor is row-major without a gap. */
static bool
is_dense(const PickleTensor *t)
{
	int64_t		stride = 1;

	for (int i = t->n_dims - 1; i >= 0; i--)
	{
		if (t->dim[i] != 1 && t->stride[i] != stride)
			return false;
		if (__builtin_mul_overflow(stride, t->dim[i] > 0 ? t->dim[i] : 1, &stride))
			return false;
	}
	return true;
}

static bool
add_tensor(Weights *w, const char *name, const PickleTensor *t, Err *e)
{
	const FileMap *m = &w->f->maps[w->map];
	const Quant *q = quant_get(t->type);
	int64_t		n = 1;
	StrView		data;
	size_t		len = strlen(w->prefix);
	char		full[2 * MAX_NAME];
	int64_t		shape[MAX_DIMS] = {1};

	if (!files_name_ok(name, strlen(name)) || len + strlen(name) >= MAX_NAME)
		return err_set(e, ERR_BAD_FILE, "file \"%s\" has a tensor with an invalid name", m->path);
	if (t->n_dims > MAX_DIMS || !is_dense(t))
		return bad_tensor(w, name, ERR_UNSUPPORTED, "is not stored row by row", e);
	for (int i = 0; i < t->n_dims; i++)
		if (t->dim[i] < 0 || __builtin_mul_overflow(n, t->dim[i], &n))
			return bad_tensor(w, name, ERR_BAD_FILE, "has an invalid shape", e);
	if (!torchzip_find(&w->zip, "/data/", t->key, &data, e))
		return err_detail(e, "The member holds tensor \"%s\".", name);
	ALWAYS(q->block == 1);
	if ((uint64_t) t->stored > data.n / (size_t) q->bytes || t->offset < 0 || t->offset > t->stored ||
		n > t->stored - t->offset)
		return bad_tensor(w, name, ERR_BAD_FILE, "lies outside of its storage", e);
	snprintf(full, sizeof(full), "%s%s", w->prefix, name);
	memcpy(shape, t->dim, (size_t) t->n_dims * sizeof(int64_t));
	return files_add(w->f, w->map, full, q, t->n_dims > 0 ? t->n_dims : 1, shape,
					 (uint64_t) (data.s - (const char *) m->base) + (uint64_t) t->offset * (size_t) q->bytes,
					 (uint64_t) n * (size_t) q->bytes, e);
}

/* ---- TorchAO ---- */

/* Add the inner tensor `name` of the subclass "MODULE.weight". */
static bool
add_part(Weights *w, const char *name, const char *part, const PickleValue *v, Err *e)
{
	const char *dot = strrchr(name, '.');
	int			module = dot != NULL ? (int) (dot + 1 - name) : 0;
	char		own[MAX_NAME + 64];

	if (v == NULL || v->kind != PICKLE_TENSOR)
		return true;
	snprintf(own, sizeof(own), "%.*s_%s_%s", module, name, name + module, part);
	return add_tensor(w, own, pickle_tensor(w->k, v), e);
}

/* Add an object of the second version: all tensors among its members, by their names. */
static bool
add_subclass(Weights *w, const char *name, const PickleValue *v, Err *e)
{
	const PickleBox *members = pickle_box(w->k, v);
	const PickleNode *n = pickle_node(w->k, members->first);

	if (members->n > 2 * PICKLE_MAX_MEMBERS)
		return bad_tensor(w, name, ERR_BAD_FILE, "has too many members", e);
	while (n != NULL)
	{
		const PickleNode *value = pickle_node(w->k, n->next);
		char		part[64];

		if (n->v.kind != PICKLE_WORD || n->v.word.n >= sizeof(part))
			return bad_tensor(w, name, ERR_BAD_FILE, "has a member with an invalid name", e);
		snprintf(part, sizeof(part), "%.*s", (int) n->v.word.n, n->v.word.s);
		if (!add_part(w, name, part, &value->v, e))
			return false;
		n = pickle_node(w->k, value->next);
	}
	return true;
}

/* Add an AffineQuantizedTensor, of the first version: codes with a scale and integer zero points in
 * rows. */
static bool
add_affine(Weights *w, const char *name, const PickleValue *v, Err *e)
{
	const PickleValue *impl = pickle_member(w->k, v, "tensor_impl");
	const PickleValue *domain = pickle_member(w->k, v, "zero_point_domain");
	const char *codes = "int_data";

	if (impl == NULL)
		impl = pickle_member(w->k, v, "layout_tensor");
	if (impl != NULL && pickle_is_torchao(impl, "Float8AQTTensorImpl"))
		codes = "float8_data";
	else if (impl == NULL || !pickle_is_torchao(impl, "PlainAQTTensorImpl"))
		return bad_tensor(w, name, ERR_UNSUPPORTED, "is in a layout of TorchAO for one kind of hardware", e);
	/* domain 2: the zero points are floats, which needs another formula */
	if (domain != NULL && domain->kind == PICKLE_INT && domain->i == 2)
		return bad_tensor(w, name, ERR_UNSUPPORTED, "has zero points that are floats", e);
	return add_part(w, name, "qdata", pickle_member(w->k, impl, codes), e) &&
		add_part(w, name, "scale", pickle_member(w->k, impl, "scale"), e) &&
		add_part(w, name, "zero_point", pickle_member(w->k, impl, "zero_point"), e);
}

static bool
add_object(Weights *w, const char *name, const PickleValue *v, Err *e)
{
	static const char *const known[] = {"Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor"};

	/* a weight whose layer also quantizes its activations */
	if (pickle_is_torchao(v, "LinearActivationQuantizedTensor") &&
		pickle_member(w->k, v, "original_weight_tensor") != NULL)
		v = pickle_member(w->k, v, "original_weight_tensor");
	if (pickle_is_torchao(v, "AffineQuantizedTensor"))
		return add_affine(w, name, v, e);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (pickle_is_torchao(v, known[i]) && v->i >= 0)
			return add_subclass(w, name, v, e);
	bad_tensor(w, name, ERR_UNSUPPORTED, "is of a class that is not supported", e);
	if (v->kind == PICKLE_OBJECT)
	{
		const char *line = memchr(v->word.s, '\n', v->word.n);
		int			n = (int) (line != NULL ? v->word.s + v->word.n - line - 1 : 0);

		return err_detail(e, "The class is %.*s of TorchAO.", n < 60 ? n : 60, n > 0 ? line + 1 : "");
	}
	return err_detail(e, v->kind == PICKLE_DICT ? "It is a dictionary, as in a checkpoint of a training." :
					  "It is not a tensor.");
}

/* ---- the file ---- */

static bool
add_all(Weights *w, Err *e)
{
	const PickleValue *top = pickle_top(w->k);
	const PickleNode *n;

	if (top->kind != PICKLE_DICT)
		return no_weights(w, "no state dictionary", e);
	n = pickle_node(w->k, pickle_box(w->k, top)->first);
	while (n != NULL)
	{
		const PickleNode *value = pickle_node(w->k, n->next);
		char		name[FILES_MAX_NAME + 1];
		bool		ok;

		if (n->v.kind != PICKLE_WORD || n->v.word.n >= sizeof(name) ||
			memchr(n->v.word.s, 0, n->v.word.n) != NULL)
			return err_set(e, ERR_BAD_FILE, "file \"%s\" has a tensor with an invalid name",
						   w->f->maps[w->map].path);
		snprintf(name, sizeof(name), "%.*s", (int) n->v.word.n, n->v.word.s);
		if (value->v.kind == PICKLE_TENSOR)
			ok = add_tensor(w, name, pickle_tensor(w->k, &value->v), e);
		else
			ok = add_object(w, name, &value->v, e);
		if (!ok)
			return false;
		n = pickle_node(w->k, value->next);
	}
	return true;
}

/* Read the weights.  Runs to its end even if the file is damaged meanwhile: see load_read_guard(). */
static void
read_weights(void *arg)
{
	Weights    *w = arg;
	Err		   *e = &w->err;
	const FileMap *m = &w->f->maps[w->map];
	StrView		none = {"", 0};
	StrView		pkl,
				order;
	char	   *copy = NULL;
	char		little[6] = "";
	Err			ignored;

	w->found = torchzip_open((StrView) {m->base != NULL ? (const char *) m->base : "", m->len}, &w->zip, e);
	w->ok = w->found && torchzip_find(&w->zip, "/data.pkl", none, &pkl, e);
	if (w->ok && torchzip_find(&w->zip, "/byteorder", none, &order, &ignored))
	{
		memcpy(little, order.s, order.n < 6 ? order.n : 6);
		w->ok = (order.n == 6 && memcmp(little, "little", 6) == 0) || no_weights(w, "another byte order", e);
	}
	if (w->ok && pkl.n > MAX_PICKLE)
		w->ok = torchzip_bad(e, "the pickle is too large");
	if (w->ok)
	{
		copy = mem_alloc(pkl.n + 1);
		memcpy(copy, pkl.s, pkl.n);
		w->ok = (w->k = pickle_read((StrView) {copy, pkl.n}, true, e)) != NULL && add_all(w, e);
	}
	pickle_free(w->k);
	mem_free(copy);
	torchzip_close(&w->zip);
}

/* Begin of a file of torch.save() before version 1.6: a number in a pickle of its own. */
static const char old_magic[] = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/* What a file is instead of an archive, if it is one of the usual mistakes; runs as read_weights() does. */
static void
tell_kind(void *arg)
{
	Weights    *w = arg;
	const FileMap *m = &w->f->maps[w->map];
	const void *s = m->base;
	static const char lfs[] = "version https://git-lfs";

	w->ok = true;
	if (m->len == 0)
		err_detail(&w->err, "The file is empty.");
	else if (m->len >= sizeof(lfs) - 1 && memcmp(s, lfs, sizeof(lfs) - 1) == 0)
	{
		err_detail(&w->err, "The file is a pointer of Git LFS, without the weights.");
		err_hint(&w->err, "Fetch the weights with \"git lfs pull\".");
	}
	else if (m->len >= sizeof(old_magic) - 1 && memcmp(s, old_magic, sizeof(old_magic) - 1) == 0)
	{
		w->err.cls = ERR_UNSUPPORTED;
		err_detail(&w->err, "PyTorch before version 1.6 wrote the file.");
	}
	else if (m->len >= 4 && memcmp(s, "PK\3\4", 4) == 0)
		err_detail(&w->err, "The file begins as an archive, but has no directory at its end.");
}

/* Complete an error: it names the file, and has a hint. */
static void
tell_file(Weights *w, const char *path)
{
	Err		   *e = &w->err;
	Err			was = *e;

	if (strstr(was.msg, path) == NULL)
	{
		err_set(e, was.cls, "file \"%s\" can't be read: %s", path, was.msg);
		if (was.detail[0] != '\0')
			err_detail(e, "%s", was.detail);
		if (was.hint[0] != '\0')
			err_hint(e, "%s", was.hint);
	}
	if (e->hint[0] == '\0' && e->cls == ERR_BAD_FILE)
		err_hint(e, "The file is damaged or incomplete: copy or download it again.");
	else if (e->hint[0] == '\0' && e->cls == ERR_UNSUPPORTED)
		err_hint(e, "Convert the model once, in Python: "
				 "AutoModelForCausalLM.from_pretrained(dir).save_pretrained(newdir)");
}

bool
torchweights_file(Files *f, const char *path, const char *prefix, Err *e)
{
	Weights		w = {.f = f, .map = files_map(f, path, e), .prefix = prefix};

	if (w.map < 0 || !load_read_guard(f, read_weights, &w, e))
		return false;
	if (w.ok)
		return true;
	if (!w.found && !load_read_guard(f, tell_kind, &w, e))
		return false;
	tell_file(&w, path);
	*e = w.err;
	return false;
}
