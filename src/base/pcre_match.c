/*
 * pcre_match.c
 *	  Regular expressions from model files, matched against names of tensors and modules.
 *
 * The expressions are Python's.  For names, which are ASCII without newlines, PCRE2 gives them the same
 * meaning.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c and test_lora_files.c.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pcre_match.h"

struct Pattern
{
	pcre2_code *re;
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

Pattern *
pattern_new(const char *text, bool anywhere)
{
	int			code;
	PCRE2_SIZE	at;
	Pattern    *p = mem_zalloc(sizeof(Pattern));

	p->re = pcre2_compile((PCRE2_SPTR) text, PCRE2_ZERO_TERMINATED, anywhere ? 0 : PCRE2_ANCHORED, &code, &at,
						  NULL);
	if (p->re != NULL)
	{
		p->data = pcre2_match_data_create(1, NULL);
		p->limits = pcre2_match_context_create(NULL);
	}
	if (p->data == NULL || p->limits == NULL)
	{
		pattern_free(p);
		return NULL;
	}
	pcre2_set_match_limit(p->limits, 1000000);
	pcre2_set_depth_limit(p->limits, 1000);
	pcre2_set_heap_limit(p->limits, 1024);
	return p;
}

PatternFit
pattern_fit(const Pattern *p, const char *name)
{
	int			rc = pcre2_match(p->re, (PCRE2_SPTR) name, strlen(name), 0, 0, p->data, p->limits);

	return rc >= 0 ? PATTERN_YES : rc == PCRE2_ERROR_NOMATCH ? PATTERN_NO : PATTERN_BAD;
}

void
pattern_free(Pattern *p)
{
	if (p == NULL)
		return;
	pcre2_match_context_free(p->limits);
	pcre2_match_data_free(p->data);
	pcre2_code_free(p->re);
	mem_free(p);
}
