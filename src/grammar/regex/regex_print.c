/*
 * regex_print.c
 *	  Print expressions, so that those of different universes can be compared.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "grammar/regex/regex_internal.h"

static int
by_text(const void *a, const void *b)
{
	const Buf  *x = a;
	const Buf  *y = b;
	int			c = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

	return c != 0 ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* Print the parts of an or or and, sorted by text: their order in the node is specific to this
 * universe. */
static bool
write_list(const Regex *re, const ReParts *x, size_t max, Buf *out)
{
	Buf		   *part = mem_zalloc((x->b + 1) * sizeof(Buf));
	size_t		sum = out->len;
	bool		ok = true;

	for (uint32_t i = 0; i < x->b && ok; i++)
	{
		ok = sum <= max && re_write(re, re->kids[x->a + i], max - sum, &part[i]);
		sum += part[i].len;
	}
	if (ok)
		qsort(part, x->b, sizeof(Buf), by_text);
	for (uint32_t i = 0; i < x->b; i++)
	{
		if (ok)
			buf_add(out, part[i].data, part[i].len);
		buf_free(&part[i]);
	}
	mem_free(part);
	return ok;
}

bool
re_write(const Regex *re, ReNode a, size_t max, Buf *out)
{
	for (;;)
	{
		const ReParts *x = &re->node[a];
		/* with the number of parts the text is unambiguous */
		uint32_t	head[4] = {x->kind, x->kind == K_OR || x->kind == K_AND ? x->b : 0, x->min, x->max};

		if (out->len > max)
			return false;
		buf_add(out, head, sizeof(head));
		switch (x->kind)
		{
			case K_NONE:
			case K_EMPTY:
				return true;
			case K_BYTES:
				buf_add(out, &re->set[x->a], sizeof(ReSet));
				return true;
			case K_RESIDUE:
				return true;
			case K_OR:
			case K_AND:
				return write_list(re, x, max, out) && out->len <= max;
			case K_CAT:
				if (!re_write(re, x->a, max, out))
					return false;
				a = x->b;
				break;
			default:
				a = x->a;
		}
	}
}
