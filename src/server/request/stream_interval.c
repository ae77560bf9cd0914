/*
 * stream_interval.c
 *	  Streams that send several tokens in one frame (stream_interval).
 *
 * Events of one choice are merged until they have as many tokens as the request wants at once, so the
 * code that makes frames gets fewer, larger events.  One thread at a time: the one that calls the
 * request's sink.
 *
 * Tested by tests/unit/server/test_server_core.c.
 */
#include "server/request/stream_interval.h"

#include <string.h>

#include "base/alloc.h"

typedef struct StreamIntervalHeld
{
	bool		sent;			/* its first text has been sent */
	bool		given;			/* the held output has been sent, and is dropped at the next event */
	IntVec		ids;
	Buf			text;
	Logprobs   *lp;				/* NULL: not wanted */
} StreamIntervalHeld;

struct StreamHold
{
	int			interval;
	StreamIntervalHeld *a;				/* one per choice */
	int			n;
};

StreamHold *
stream_hold_new(int interval)
{
	StreamHold *h = mem_zalloc(sizeof(*h));

	h->interval = interval;
	return h;
}

static void
clear(StreamIntervalHeld *a)
{
	intvec_free(&a->ids);
	buf_free(&a->text);
	logprobs_free(a->lp);
	a->lp = NULL;
	a->given = false;
}

void
stream_hold_free(StreamHold *h)
{
	if (h == NULL)
		return;
	for (int i = 0; i < h->n; i++)
		clear(&h->a[i]);
	mem_free(h->a);
	mem_free(h);
}

static StreamIntervalHeld *
answer(StreamHold *h, int i)
{
	if (i >= h->n)
	{
		h->a = mem_realloc(h->a, (size_t) (i + 1) * sizeof(StreamIntervalHeld));
		memset(h->a + h->n, 0, (size_t) (i + 1 - h->n) * sizeof(StreamIntervalHeld));
		h->n = i + 1;
	}
	return &h->a[i];
}

bool
stream_hold_event(StreamHold *h, ReqEvent *ev)
{
	StreamIntervalHeld *a = answer(h, ev->index);

	if (a->given)
		clear(a);
	intvec_add(&a->ids, ev->ids, (size_t) ev->n_ids);
	buf_add(&a->text, ev->text, ev->text_len);
	if (ev->logprobs != NULL && a->lp == NULL)
		a->lp = logprobs_new();
	if (ev->logprobs != NULL)
		logprobs_append(a->lp, ev->logprobs);
	if (a->sent && a->ids.len < (size_t) h->interval && ev->ended == FIN_NONE && ev->finish == FIN_NONE)
		return false;
	a->sent = a->sent || a->text.len > 0;
	a->given = true;
	ev->ids = a->ids.data;
	ev->n_ids = (int) a->ids.len;
	ev->text = a->text.data != NULL ? a->text.data : "";
	ev->text_len = a->text.len;
	ev->logprobs = a->lp;
	return true;
}
