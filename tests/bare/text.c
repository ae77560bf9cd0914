/*
 * text.c
 *	  What the engine uses of utf8proc and PCRE2, for machines where they aren't installed: `make check-gpu`
 *	  computes with whole models, and needs nothing but a compiler.  Characters of ASCII, and expressions
 *	  that regcomp() takes: a tokenizer that needs more can't be loaded.
 */
#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "pcre2.h"
#include "utf8proc.h"

/* ---- utf8proc ---- */

utf8proc_int32_t
utf8proc_tolower(utf8proc_int32_t cp)
{
	return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

utf8proc_int32_t
utf8proc_toupper(utf8proc_int32_t cp)
{
	return cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
}

utf8proc_int32_t
utf8proc_totitle(utf8proc_int32_t cp)
{
	return utf8proc_toupper(cp);
}

utf8proc_category_t
utf8proc_category(utf8proc_int32_t cp)
{
	if (cp < 0 || cp > 126)
		return UTF8PROC_CATEGORY_LO;
	return islower(cp) ? UTF8PROC_CATEGORY_LL : isupper(cp) ? UTF8PROC_CATEGORY_LU :
		isdigit(cp) ? UTF8PROC_CATEGORY_ND : cp == ' ' ? UTF8PROC_CATEGORY_ZS :
			isprint(cp) ? UTF8PROC_CATEGORY_PO : UTF8PROC_CATEGORY_CC;
}

const utf8proc_property_t *
utf8proc_get_property(utf8proc_int32_t cp)
{
	static const utf8proc_property_t none;

	(void) cp;
	return &none;
}

utf8proc_bool
utf8proc_grapheme_break_stateful(utf8proc_int32_t a, utf8proc_int32_t b, utf8proc_int32_t *state)
{
	(void) a;
	(void) b;
	(void) state;
	return true;
}

utf8proc_ssize_t
utf8proc_map(const utf8proc_uint8_t *s, utf8proc_ssize_t n, utf8proc_uint8_t **to, utf8proc_option_t o)
{
	(void) o;
	*to = malloc((size_t) n + 1);
	if (*to == NULL)
		return -1;
	memcpy(*to, s, (size_t) n);
	(*to)[n] = '\0';
	return n;
}

const char *
utf8proc_errmsg(utf8proc_ssize_t code)
{
	(void) code;
	return "out of memory";
}

/* ---- PCRE2 ---- */

struct pcre2_code
{
	regex_t		re;
	uint32_t	options;
};

struct pcre2_match_data
{
	PCRE2_SIZE	at[2];
};

struct pcre2_compile_context
{
	int			nothing;
};

struct pcre2_match_context
{
	int			nothing;
};

pcre2_code *
pcre2_compile(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code, PCRE2_SIZE *at,
			  pcre2_compile_context *c)
{
	pcre2_code *p = calloc(1, sizeof(*p));
	char	   *text = n == PCRE2_ZERO_TERMINATED ? strdup((const char *) pattern) :
		strndup((const char *) pattern, n);

	(void) c;
	*at = 0;
	/* classes of Unicode and groups of Perl would be taken for something else */
	*code = p == NULL || text == NULL ? REG_ESPACE : strstr(text, "\\p") != NULL || strstr(text, "(?") != NULL
		? REG_BADPAT : regcomp(&p->re, text, REG_EXTENDED);
	free(text);
	if (*code != 0)
	{
		free(p);
		return NULL;
	}
	p->options = options;
	return p;
}

void
pcre2_code_free(pcre2_code *c)
{
	if (c != NULL)
		regfree(&c->re);
	free(c);
}

int
pcre2_match(const pcre2_code *c, PCRE2_SPTR s, PCRE2_SIZE n, PCRE2_SIZE from, uint32_t options,
			pcre2_match_data *d, pcre2_match_context *limits)
{
	regmatch_t	m = {.rm_so = (regoff_t) from, .rm_eo = (regoff_t) n};

	(void) limits;
	if (regexec(&c->re, (const char *) s, 1, &m, REG_STARTEND) != 0 ||
		(((options | c->options) & PCRE2_ANCHORED) != 0 && m.rm_so != (regoff_t) from))
		return PCRE2_ERROR_NOMATCH;
	d->at[0] = (PCRE2_SIZE) m.rm_so;
	d->at[1] = (PCRE2_SIZE) m.rm_eo;
	return 1;
}

pcre2_match_data *
pcre2_match_data_create(uint32_t pairs, void *general)
{
	(void) pairs;
	(void) general;
	return calloc(1, sizeof(pcre2_match_data));
}

void
pcre2_match_data_free(pcre2_match_data *d)
{
	free(d);
}

PCRE2_SIZE *
pcre2_get_ovector_pointer(pcre2_match_data *d)
{
	return d->at;
}

int
pcre2_get_error_message(int code, PCRE2_UCHAR *to, PCRE2_SIZE n)
{
	return snprintf((char *) to, n, "not among the expressions that are known here (%d)", code);
}

pcre2_compile_context *
pcre2_compile_context_create(void *general)
{
	(void) general;
	return calloc(1, sizeof(pcre2_compile_context));
}

void
pcre2_compile_context_free(pcre2_compile_context *c)
{
	free(c);
}

pcre2_match_context *
pcre2_match_context_create(void *general)
{
	(void) general;
	return calloc(1, sizeof(pcre2_match_context));
}

void
pcre2_match_context_free(pcre2_match_context *c)
{
	free(c);
}

/* there are no limits to set */
#define SETS(name, context) \
int \
name(context *c, uint32_t x) \
{ \
	(void) c; \
	(void) x; \
	return 0; \
}

SETS(pcre2_set_newline, pcre2_compile_context)
SETS(pcre2_set_parens_nest_limit, pcre2_compile_context)
SETS(pcre2_set_match_limit, pcre2_match_context)
SETS(pcre2_set_heap_limit, pcre2_match_context)
SETS(pcre2_set_depth_limit, pcre2_match_context)
