/*
 * model_files.h
 *	  Model files on disk: a safetensors directory or a GGUF file.
 *
 * A Files maps its files read-only and is otherwise pure data: configuration (Hugging Face key names,
 * see base/config_map.h), tensors by the file's own names, tokenizer source.  Everything in a file is
 * untrusted: the loader checks sizes for overflow and against the file's length before it uses them; an
 * error names the file and the tensor.  A file that is truncated or replaced while it is mapped must not
 * kill the engine (see load_read_guard()).
 */
#ifndef VLLM_LOADER_MODEL_FILES_H
#define VLLM_LOADER_MODEL_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config_map.h"
#include "base/err.h"
#include "blocks.h"

typedef struct Files Files;

/* Open a model.  path: a directory with config.json, a GGUF file (the first one of a split model), or a
 * directory with one GGUF model. */
Files	   *files_open(const char *path, Err *e);
void		files_close(Files *f);

/*
 * Return the path of file number i (from 1) of a split model, derived from the name of its first file.
 * The caller frees it.  Return NULL if path is not the first file of a split model or the model has
 * fewer files.  Does not check that the file exists.
 */
char	   *files_other_part(const char *path, int i);

const Conf *files_conf(const Files *f);
/*
 * Store the model options for rope scaling in the configuration under "override.", where they take
 * precedence over the files' own values. rope_scaling is the text of a JSON object or ""; rope_theta is
 * 0 if not set.
 */
bool		files_set_rope(Files *f, const char *rope_scaling, double rope_theta, Err *e);
/* Replace keys of config.json by those of a JSON object; "" replaces nothing. */
bool		files_override(Files *f, const char *json, Err *e);
/* Set the quantization method of the files from the model's option; "" = use what the files say. */
bool		files_set_quantization(Files *f, const char *method, Err *e);
/* Copy each key under a prefix of config.json to the same key without the prefix, unless that exists
 * already. */
void		files_lift(Files *f, const char *prefix);
void		files_set_nums(Files *f, const char *key, const double *v, size_t n);
const KTensor *files_find(const Files *f, const char *name);
size_t		files_count(const Files *f);
const KTensor *files_tensor(const Files *f, size_t i);

/* Return the path of the file that holds t (one of f's tensors), or of the model if t is NULL. */
const char *files_where(const Files *f, const KTensor *t);

/*
 * Check the contents of rows row0 .. row1-1 of a tensor as they are stored: NaN or Inf scales in
 * quantized blocks are ERR_BAD_FILE, naming file and tensor.  May be called in any thread.
 */
bool		files_check_rows(const Files *f, const KTensor *t, int64_t row0, int64_t row1, Err *e);

/* Drop the pages of t from this process, as t won't be read for now. */
void		files_drop(const Files *f, const KTensor *t);

/* Return a text that identifies these contents: path, size, mtime and ctime of each file and a digest of
 * the tensors' directory.  The caller frees it.  Used as a key of copies kept on disk. */
char	   *files_contents_id(const Files *f);

/*
 * Compute digests of the files' contents, independent of where the files are.  files_digest_texts()
 * covers configurations, tokenizer and prompts in the directory `path` (nothing if path is a file);
 * files_digest_weights() covers all weights and takes as long as reading them.
 */
bool		files_digest_texts(const char *path, uint8_t out[BLAKE2_BYTES], Err *e);
bool		files_digest_weights(const Files *f, uint8_t out[BLAKE2_BYTES], Err *e);

typedef enum FilesTokKind
{
	FILES_TOK_GGUF,				/* gguf */
	FILES_TOK_HF,				/* tokenizer.json */
	FILES_TOK_TEKKEN,			/* tekken.json */
	FILES_TOK_SPM,				/* tokenizer.model of SentencePiece */
	FILES_TOK_TIKTOKEN			/* lines "base64 rank" */
} FilesTokKind;

/* A chat template that the model's files contain. */
typedef struct FilesTemplate
{
	char	   *name;			/* "default", "tool_use", ... */
	char	   *text;
	size_t		len;
} FilesTemplate;

/* The tokenizer's source.  json/config point into memory owned by f; config may be NULL. */
typedef struct FilesTokenizer
{
	FilesTokKind kind;
	const char *json;			/* the file, NULL for GGUF */
	size_t		json_len;
	const char *config;			/* tokenizer_config.json, with special_tokens_map.json */
	size_t		config_len;
	/* src/tokenizer's struct, filled by src/loader (declared in tokenizer/tokenizer.h) */
	const struct TokGguf *gguf;
	const FilesTemplate *templates; /* [n_templates], ordered by their names */
	size_t		n_templates;
} FilesTokenizer;

bool		files_tokenizer(const Files *f, FilesTokenizer *out, Err *e);

/*
 * Run fn(arg) so that a file truncated or overwritten meanwhile makes the call return false with ERR_IO
 * instead of killing the engine.  fn always runs to its end: missing pages read as zeros, in every
 * thread that doesn't block SIGBUS.  So fn may allocate, use the thread pool and call files_check_rows()
 * and model_new().  If the call returns false, the caller must throw away what fn made.
 */
bool		load_read_guard(const Files *f, void (*fn) (void *arg), void *arg, Err *e);
/* Return true if the files are unchanged since they were opened.  load_read_guard() checks this after
 * fn. */
bool		files_unchanged(const Files *f, Err *e);

#endif
