/*
 * reply.h
 *	  A reply frame's fields as SQL values.
 */
#ifndef VLLM_PG_CLIENT_REPLY_H
#define VLLM_PG_CLIENT_REPLY_H

#include "postgres.h"

#include "pg/client/client.h"

/*
 * The fields of WF_TEXT and WF_DONE frames.  Strings point into the frame, so they are valid until
 * the next vcall_next() or vcall_end().  Numbers: -1 = absent.
 */
typedef struct Reply
{
	/* set after reply_read(): the request's fields, for results that depend on them */
	const char *request;
	size_t		request_len;

	/*
	 * Where a result function may leave the error of an output that is not a valid value; its caller
	 * raises it when the row is due.  NULL: the function throws it.
	 */
	ErrorData **refused;

	const char *text;
	size_t		text_len;
	const char *reasoning;		/* NULL: none */
	size_t		reasoning_len;
	const char *tool_calls;		/* JSON array; NULL: none */
	size_t		tool_calls_len;
	WireField	ids;			/* .n = 0: none */
	WireField	spans;
	const char *finish_reason;	/* NULL: absent */
	size_t		finish_len;
	const char *stop_reason;
	size_t		stop_len;
	const char *arch,
			   *dtype;
	size_t		arch_len,
				dtype_len;
	const char *ignored;		/* from a check of a model; NULL: none */
	size_t		ignored_len;
	WireField	floats;			/* from a pooled request; .n = 0: none */
	int64		rows;			/* rows in floats, one after the other */
	WireField	offsets;		/* two per row, .n = 0: none */
	WireField	counts,			/* log-probabilities: the number of floats of each choice */
				greedy;
	int			n_labels;
	const char *fields;			/* the frame's fields, to read its lists */
	size_t		fields_len;
	int64		count;
	int64		max_model_len;
	int64		prompt_tokens,
				completion_tokens,
				cached_tokens,
				reasoning_tokens;
	int64		queue_us,
				prefill_us,
				ttft_us,
				decode_us,
				e2e_us,
				preemptions;
} Reply;

/* ERROR 58000 on a malformed frame. */
void		reply_read(Reply *r, const CallFrame *f);

text	   *reply_text(const Reply *r);
/* int4[] */
Datum		reply_ids(const Reply *r);
Datum		reply_offsets(const Reply *r);
/* Return the only number of the result. */
float		reply_float(const Reply *r);
/* float4[]; two_dims: one array row for each row, even if there is only one. */
Datum		reply_floats(const Reply *r, bool two_dims);
/* Return the number of columns of floats; ERROR 58000 if they don't divide into rows. */
int			reply_width(const Reply *r);
/*
 * Return the names of the columns, n_labels of them, as texts; their numbers if the model has no
 * names.
 */
Datum	   *reply_labels(const Reply *r);
/* text, or *isnull */
Datum		reply_finish_reason(const Reply *r, bool *isnull);
Datum		reply_stop_reason(const Reply *r, bool *isnull);
/* a composite llm_usage of the given row type */
Datum		reply_usage(const Reply *r, Oid usage_type);
/* json */
Datum		reply_timings(const Reply *r);

#endif
