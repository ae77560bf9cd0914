/*
 * endpoint_options.h
 *	  The options of a remote model (ipc/remote_options.def), as the program reads them.
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
	char	   *name;			/* the model's here */
	char	   *model;			/* the model's name at the endpoint */
	char	  **urls;			/* base URLs, without a trailing slash and a query; n_urls >= 1 */
	char	  **queries;		/* of each: "", or "?" and the query */
	int			n_urls;
	const struct Dialect *dialect;
	bool		prompt_as_chat;
	char	   *completions_path, *chat_path, *embeddings_path, *score_path, *rerank_path, *tokenize_path,
		*detokenize_path,
			   *models_path;	/* each begins with "/"; NULL: the dialect has none */
	int			max_concurrent_requests, max_batch_inputs, requests_per_minute, tokens_per_minute;
	int			timeout, connect_timeout, max_retries;
	int			health_check_interval;	/* s; 0 = only those that are down */
	RHeader    *headers;
	int			n_headers;
	char	   *auth_header;	/* NULL = Authorization: Bearer */
	bool		ssl_verify;
	char	   *ca_file;		/* NULL = the system's */
	int			max_model_len;	/* 0 = not known */
	int			told_len;		/* length that the endpoint reported (context_length.c); 0 = none */
	char	  **lora_modules;
	int			n_lora_modules;
} ROptions;

/*
 * Those of the request's model: made anew, or the ones that are remembered of the same hash.  With a
 * reference for the caller.
 */
ROptions   *roptions_get(const RequestFields *a, Err *e);
void		roptions_unref(ROptions *o);
/* Drops what is remembered, for tests that look for leaks; what others have a reference to stays. */
void		roptions_forget(void);

#endif
