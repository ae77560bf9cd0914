/*
 * request_beams.c
 *	  Checks that a beam search supports the fields of its request.
 *
 * A beam search uses the model's own log-probabilities and ends only with the EOS.  An option that would
 * change these, or end a choice in another way, is refused by name, unless its value has no effect.
 */
#include "server/request/request.h"

#include <string.h>

#include "ipc/beam_fields.h"
#include "ipc/field_range.h"

/* Does the option have no effect with this value? */
static bool
says_nothing(const WireField *f)
{
	const FieldRange *r = field_range(f->tag);
	double		v = f->type == WT_NUM ? f->num : (double) f->i;

	if (r != NULL && v == r->dflt)
		return true;
	switch (f->tag)
	{
		case WTAG_TEMPERATURE:	/* vLLM's default for beam searches */
			return v == 0;
		case WTAG_TOP_K:
			return v == -1;
		case WTAG_PIN:
			return v == 0;
		case WTAG_LOGIT_BIAS:
		case WTAG_EXTRA_ARGS:
			return f->n == 2 && memcmp(f->s, "{}", 2) == 0;
		default:
			return false;
	}
}

bool
request_beams_refuse(const char *name, Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "a beam search does not take %s", name);
	err_detail(e, "parameter=%s", name);
	return err_hint(e, "It searches for the answers that are most likely for the model alone. Omit the "
					   "option, or sample answers with n.");
}

bool
request_beams_check(const char *data, size_t n, Err *e)
{
	WireIn		in = {.p = data,.end = data + n};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (!beams_take(f.tag) && !says_nothing(&f))
			return request_beams_refuse(f.tag == WTAG_STRUCT_CHOICE ? "choice" : wire_tag_name(f.tag), e);
	return true;
}
