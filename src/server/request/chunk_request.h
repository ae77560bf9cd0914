/*
 * chunk_request.h
 *	  WK_CHUNK: splits a text into chunks that fit into a model.
 */
#ifndef VLLM_SERVER_REQUEST_CHUNK_REQUEST_H
#define VLLM_SERVER_REQUEST_CHUNK_REQUEST_H

#include "backend/backend.h"
#include "text/chunker.h"
#include "ipc/wire.h"

typedef struct ChunkRequest
{
	ChunkMethod method;
	int			size;			/* 0 = not given */
	int			overlap;
} ChunkRequest;

/* Take a field; *known = false if it is not for a chunk request. */
bool		chunking_field(ChunkRequest *r, const WireField *f, bool *known, Err *e);

/* Check which options may be combined; this depends on no model. */
bool		chunking_check(const ChunkRequest *r, Err *e);

/* Append the chunks' spans (chunk_text()) to *out; any thread. */
bool		chunking_run(const Backend *be, const BackendModel *in, const ChunkRequest *r,
						 const char *s, size_t n, IntVec *out, Err *e);

#endif
