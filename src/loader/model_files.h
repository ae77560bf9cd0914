/*
 * model_files.h
 *	  Model files on disk: a safetensors directory or a GGUF file.
 *
 * A Files maps its files read-only and is otherwise pure data: configuration
 * (Hugging Face key names, see base/config_map.h), tensors by the file's own names,
 * tokenizer source.
 * Everything in a file is untrusted: sizes are checked for overflow and against
 * the file's length before use; an error names the file and the tensor.  A file
 * that is truncated or replaced while it is mapped must not kill the engine
 * (see load_read_guard()).
 */
#ifndef VLLM_LOADER_MODEL_FILES_H
#define VLLM_LOADER_MODEL_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config_map.h"
#include "base/err.h"
#include "blocks.h"

typedef struct Files Files;

/* path: a directory with config.json, a GGUF file (of a split model the first), or a directory
 * with one GGUF model */
Files	   *files_open(const char *path, Err *e);
void		files_close(Files *f);

/*
 * The path of another file of a split model, number i from 1 on, by the name of its first;
 * to be freed, NULL: there is none.  That it exists isn't said.
 */
char	   *files_other_part(const char *path, int i);

const Conf *files_conf(const Files *f);
/*
 * Let a model's options stand in the configuration, under "override.", before what the
 * files say: rope_scaling, the text of a JSON object, or "", and rope_theta, or 0.
 */
bool		files_set_rope(Files *f, const char *rope_scaling, double rope_theta, Err *e);
/* Let the keys of a JSON object, or "", replace those of config.json. */
bool		files_override(Files *f, const char *json, Err *e);
/* Let a model's option name the method by which the files are quantized; "" = they say it. */
bool		files_set_quantization(Files *f, const char *method, Err *e);
/* Let what stands under a prefix of config.json stand without it, too, unless it does already. */
void		files_lift(Files *f, const char *prefix);
void		files_set_nums(Files *f, const char *key, const double *v, size_t n);
const KTensor *files_find(const Files *f, const char *name);
size_t		files_count(const Files *f);
const KTensor *files_tensor(const Files *f, size_t i);

/* Path of the file that holds t (one of f's), or of the model when t is NULL. */
const char *files_where(const Files *f, const KTensor *t);

/*
 * Contents checks of rows row0 .. row1-1 of a tensor, as they are stored: NaN or Inf
 * scales in quantized blocks (ERR_BAD_FILE naming file and tensor).  Any thread.
 */
bool		files_check_rows(const Files *f, const KTensor *t, int64_t row0, int64_t row1, Err *e);

/* t won't be read for now: its pages need not stay in this process. */
void		files_drop(const Files *f, const KTensor *t);

/* Text that says which contents these are: path, size, mtime and ctime of each file
 * and a digest of the tensors' directory, to be freed.  For what is kept on disk. */
char	   *files_contents_id(const Files *f);

/*
 * What is in the files, wherever they lie: of configurations, tokenizer and prompts in the directory `path`
 * (of a file: nothing), and of all weights, which takes as long as reading them.
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

/* A chat template that came along. */
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
 * Run fn(arg) so that a file truncated or overwritten underneath us makes the
 * call return false with ERR_IO instead of killing the engine.  fn always runs to
 * its end: missing pages read as zeros, in every thread that doesn't block SIGBUS,
 * so it may allocate, use the thread pool and call files_check_rows() and
 * model_new(); what it made must be thrown away when false comes back.
 */
bool		load_read_guard(const Files *f, void (*fn) (void *arg), void *arg, Err *e);
/* Are the files what they were when they were opened?  What the guard asks in the end. */
bool		files_unchanged(const Files *f, Err *e);

#endif
