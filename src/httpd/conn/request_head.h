/*
 * request_head.h
 *	  A request's line and headers, and the chunks of its body.
 */
#ifndef VLLM_HTTPD_CONN_REQUEST_HEAD_H
#define VLLM_HTTPD_CONN_REQUEST_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX		(32 * 1024) /* bytes of a head */
#define HEAD_LINE_MAX	8192	/* of its first line */
#define HEAD_FIELDS		128

/* How far the bytes of a head have been looked at; zeroed before the first one. */
typedef struct HeadScan
{
	size_t		at;				/* looked at */
	size_t		begin;			/* of the request's line: behind an empty line that is let go */
	size_t		line;			/* where the current line begins */
} HeadScan;

typedef struct HeadField
{
	const char *name;
	const char *value;
} HeadField;

/* All texts stand in the bytes that were parsed. */
typedef struct HttpHead
{
	const char *method;
	char	   *path;			/* as it came */
	char	   *query;			/* behind the question mark, as it came; NULL: none */
	bool		http11;			/* else HTTP/1.0 */
	bool		close;			/* nothing comes behind this request */
	bool		expects;		/* "100-continue" before it sends its body */
	bool		chunked;
	bool		sized;			/* by Content-Length */
	uint64_t	length;
	int			n;
	HeadField	fields[HEAD_FIELDS];
} HttpHead;

/*
 * Look at bytes that have come: 0: more are needed; 1: a head ends before s[c->at]; else the status of what
 * is wrong.
 */
int			head_scan(const char *s, size_t n, HeadScan *c, const char **why);
/* Take a scanned head apart, in place: 0, or the status of what is wrong. */
int			head_parse(char *s, size_t n, HttpHead *h, const char **why);
/* A field's value, whatever the case of its name; NULL: there is none. */
const char *head_value(const HttpHead *h, const char *name);
/* Decode %XX of s in place, and + for a space if plus. */
void		head_decode(char *s, bool plus);

typedef enum ChunkState
{
	CHUNK_SIZE, CHUNK_EXTENSION, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
	CHUNK_LINE, CHUNK_TRAILER_NAME, CHUNK_TRAILER, CHUNK_TRAILER_LF, CHUNK_LAST_LF, CHUNK_END, CHUNK_BAD
} ChunkState;

/* A body in chunks; zeroed before its first byte. */
typedef struct Chunks
{
	ChunkState	state;
	uint64_t	left;			/* of a chunk's data */
	int			digits;
	size_t		extra;			/* bytes that are no data, in all */
} Chunks;

/*
 * Take bytes up to the end of the body, or of a piece of it (*data, *len), whichever comes first: how many.
 */
size_t		chunks_take(Chunks *c, const char *s, size_t n, const char **data, size_t *len);

#endif
