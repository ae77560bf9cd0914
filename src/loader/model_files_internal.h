/*
 * model_files_internal.h
 *	  Private to src/loader: the struct of model_files.h and the functions with which the readers of
 *	  the two file kinds fill it.
 *
 * Life cycle: files_open() maps files (files_map), a reader adds tensors (files_add) and fills conf and
 * the tokenizer source, files_index() sorts the tensors by name.  From then on a Files is immutable
 * except for `damaged`, which only the SIGBUS handler sets, and only from -1 to the number of a mapping.
 */
#ifndef VLLM_LOADER_MODEL_FILES_INTERNAL_H
#define VLLM_LOADER_MODEL_FILES_INTERNAL_H

#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "loader/model_files.h"
#include "quant/quant.h"
#include "tokenizer/tokenizer.h"

#define FILES_MAX_MAPS 1024		/* shards of one model */
#define FILES_MAX_TENSORS 1000000
#define FILES_MAX_NAME 255		/* bytes of a tensor's name */
#define FILES_MAX_CONFIG (8u << 20) /* bytes of config.json, generation_config.json ... */
#define FILES_MAX_TOKENIZER (256u << 20)	/* bytes of tokenizer.json */
#define FILES_MAX_TEMPLATES 32	/* chat templates of one model */

/* Limits on the number of values in JSON files; each value takes up to 112 bytes while it is parsed. */
#define FILES_JSON_CONFIG (1u << 18)
#define FILES_JSON_TOK_CONFIG (1u << 20)	/* seven per added token */
#define FILES_JSON_TENSORS 2000000	/* nine per tensor of a header, one in an index */
#define FILES_JSON_TOKENIZER 5000000	/* one per token, and one or three per merge */

typedef struct FileMap
{
	char	   *path;
	int			fd;				/* kept to notice a change, see load_read_guard() */
	const uint8_t *base;
	size_t		len;
	struct timespec mtime;
	struct timespec ctime;
} FileMap;

typedef struct FileTensor
{
	KTensor		t;				/* first: files_find() returns its address */
	int			map;			/* index of the mapping that holds it */
} FileTensor;

struct Files
{
	char	   *path;			/* as given to files_open() */
	/* the directory with config.json: path, or a folder in it that modules.json names */
	char	   *root;
	Conf	   *conf;
	FileMap    *maps;			/* [FILES_MAX_MAPS], so that it never moves */
	int			n_maps;
	FileTensor *tensors;		/* sorted by name after files_index() */
	size_t		n_tensors;
	size_t		cap_tensors;
	_Atomic int damaged;		/* mapping that a SIGBUS hit, -1 = none */

	Buf			tok_json;		/* tokenizer.json */
	Buf			tok_config;		/* tokenizer_config.json */
	FilesTemplate *templates;	/* [FILES_MAX_TEMPLATES], or NULL */
	size_t		n_templates;
	FilesTokKind tok_kind;		/* of tok_json */

	TokGguf    *gguf;			/* vocabulary of a GGUF file, else NULL */
	char	   *gguf_text;		/* its strings */
};

/* model_files.c */
/* Open one safetensors file, without a configuration. */
Files	   *files_open_one(const char *path, const char *file, Err *e);
int			files_map(Files *f, const char *path, Err *e);	/* index, -1 = error */
bool		files_exists(const char *path);
/* Append a whole small file to *out. */
bool		files_slurp(const char *path, size_t limit, Buf *out, Err *e);
/* Return true if JSON may be parsed: it has at most `max` values, and not too many for its length. */
bool		files_json_ok(const char *path, const char *json, size_t len, size_t max, Err *e);
/* Add a tensor; offset is relative to the mapping.  Checks name, shape and range. */
bool		files_add(Files *f, int map, const char *name, const Quant *q, int ndim,
					  const int64_t *shape, uint64_t offset, uint64_t nbytes, Err *e);
bool		files_index(Files *f, Err *e);
bool		files_name_ok(const char *name, size_t len);
/* Add a chat template; s is copied.  The name must be printable ASCII.  Ignored if a template of that
 * name exists already, or after FILES_MAX_TEMPLATES templates. */
void		files_add_template(Files *f, const char *name, size_t name_len, const char *s, size_t n);
/* Return directory/name; the caller frees it. */
char	   *files_join(const char *dir, const char *name);

/* safetensors.c: all of a directory's weights */
bool		safetensors_there(const char *dir);
bool		safetensors_open(Files *f, Err *e);

/* safetensors.c: the weights of one file; names follow `prefix` */
bool		safetensors_file(Files *f, const char *path, const char *prefix, Err *e);
/* safetensors.c: the weights of a module's folder; names follow `prefix` */
bool		safetensors_add(Files *f, const char *dir, const char *prefix, Err *e);

/* torch_weights.c: the weights of one file of PyTorch's */
bool		torchweights_file(Files *f, const char *path, const char *prefix, Err *e);

/* sentence_transformers_config.c: read the files of sentence-transformers beside the model */
bool		stconfig_read(Files *f, Err *e);
/*
 * sentence_transformers_config.c: find the folder of the Transformer module and set f->root to it,
 * before anything else is read
 */
bool		stconfig_root(Files *f, Err *e);

/* hf_config.c: config.json, generation_config.json, tokenizer files, chat template */
bool		hfconfig_read(Files *f, Err *e);

/* gguf_model.c: a file, or all parts of a split model by the path of the first */
bool		gguf_open(Files *f, const char *path, Err *e);

#endif
