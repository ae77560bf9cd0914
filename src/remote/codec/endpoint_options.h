/*
 * endpoint_options.h
 *	  The parsed options of a remote model (ipc/remote_options.def).
 */
#ifndef VLLM_REMOTE_CODEC_ENDPOINT_OPTIONS_H
#define VLLM_REMOTE_CODEC_ENDPOINT_OPTIONS_H

#include "base/err.h"
#include "remote/codec/request_fields.h"

struct Dialect;					/* remote/codec/dialect.h */

typedef struct RHeader
{
	char	   *name;
	char	   *value;
} RHeader;

typedef struct ROptions
{
	int			refs;
	uint64_t	hash;			/* RequestFields.model_hash */
	char	   *name;			/* the model's name in the database */
	char	   *model;			/* the model's name at the endpoint */
	char	  **urls;			/* base URLs, without trailing slash and query; n_urls >= 1 */
	char	  **queries;		/* for each url: "", or "?" and the query */
	int			n_urls;
	const struct Dialect *dialect;
	bool		prompt_as_chat;
	char	   *completions_path, *chat_path, *embeddings_path, *score_path, *rerank_path, *tokenize_path,
		*detokenize_path,
			   *models_path;	/* each begins with "/"; NULL: the dialect has none */
	int			max_concurrent_requests, max_batch_inputs, requests_per_minute, tokens_per_minute;
	int			timeout, connect_timeout, max_retries;
	int			health_check_interval;	/* s; 0 = check only urls that are down */
	RHeader    *headers;
	int			n_headers;
	char	   *auth_header;	/* NULL = Authorization: Bearer */
	bool		ssl_verify;
	char	   *ca_file;		/* NULL = the system's certificates */
	int			max_model_len;	/* 0 = unknown */
	int			reported_len;	/* context length that the endpoint reported (context_length.c); 0 = none */
	char	  **lora_modules;
	int			n_lora_modules;
} ROptions;

/*
 * Return the options of the request's model: parsed now, or the cached ones with the same hash.  The
 * caller gets a reference.
 */
ROptions   *roptions_get(const RequestFields *a, Err *e);
void		roptions_unref(ROptions *o);
/* Empty the cache, for tests that look for leaks.  Options that others have a reference to stay. */
void		roptions_forget(void);

#endif
