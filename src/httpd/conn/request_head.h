/*
 * request_head.h
 *	  Parser of a request's line and headers ("head"), and of the chunks of its body.
 */
#ifndef VLLM_HTTPD_CONN_REQUEST_HEAD_H
#define VLLM_HTTPD_CONN_REQUEST_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX		(32 * 1024) /* bytes of a head */
#define HEAD_LINE_MAX	8192	/* bytes of its first line */
#define HEAD_FIELDS		128

/* How far the bytes of a head have been scanned; zeroed before the first byte. */
typedef struct HeadScan
{
	size_t		at;				/* bytes scanned */
	size_t		begin;			/* start of the request line, after an empty line that is ignored */
	size_t		line;			/* start of the current line */
} HeadScan;

typedef struct HeadField
{
	const char *name;
	const char *value;
} HeadField;

/* All texts point into the parsed bytes. */
typedef struct HttpHead
{
	const char *method;
	char	   *path;			/* not decoded */
	char	   *query;			/* after the question mark, not decoded; NULL: none */
	bool		http11;			/* else HTTP/1.0 */
	bool		close;			/* the client sends no further request */
	bool		expects;		/* waits for "100-continue" before it sends the body */
	bool		chunked;
	bool		sized;			/* has a Content-Length */
	uint64_t	length;
	int			n;
	HeadField	fields[HEAD_FIELDS];
} HttpHead;

/*
 * Scan the bytes received so far.  Returns 0 if more are needed, 1 if a head ends before s[c->at], else
 * the HTTP status of the error.
 */
int			head_scan(const char *s, size_t n, HeadScan *c, const char **why);
/* Parse a scanned head in place.  Returns 0, or the HTTP status of the error. */
int			head_parse(char *s, size_t n, HttpHead *h, const char **why);
/* Return the value of a field, whose name is compared without regard to case; NULL: none. */
const char *head_value(const HttpHead *h, const char *name);
/* Decode %XX in s in place, and + to a space if plus. */
void		head_decode(char *s, bool plus);

typedef enum ChunkState
{
	CHUNK_SIZE, CHUNK_EXTENSION, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
	CHUNK_LINE, CHUNK_TRAILER_NAME, CHUNK_TRAILER, CHUNK_TRAILER_LF, CHUNK_LAST_LF, CHUNK_END, CHUNK_BAD
} ChunkState;

/* State of a chunked body; zeroed before its first byte. */
typedef struct Chunks
{
	ChunkState	state;
	uint64_t	left;			/* bytes of the chunk's data */
	int			digits;
	size_t		extra;			/* bytes that are not data, in the whole body */
} Chunks;

/*
 * Parse bytes up to the end of the body, or up to the end of a piece of its data (*data, *len),
 * whichever comes first.  Returns their number.
 */
size_t		chunks_take(Chunks *c, const char *s, size_t n, const char **data, size_t *len);

#endif
