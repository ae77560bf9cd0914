/*
 * utf8proc.h
 *	  What the engine uses of utf8proc, for machines where it isn't installed: ASCII is known, all else is
 *	  left as it is (tests/bare/text.c).
 */
#ifndef VLLM_TESTS_BARE_UTF8PROC_H
#define VLLM_TESTS_BARE_UTF8PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

typedef uint8_t utf8proc_uint8_t;
typedef int32_t utf8proc_int32_t;
typedef ssize_t utf8proc_ssize_t;
typedef bool utf8proc_bool;

typedef enum utf8proc_option_t
{
	UTF8PROC_STABLE = 1 << 1,
	UTF8PROC_COMPAT = 1 << 2,
	UTF8PROC_COMPOSE = 1 << 3,
	UTF8PROC_DECOMPOSE = 1 << 4,
	UTF8PROC_CASEFOLD = 1 << 10
} utf8proc_option_t;

typedef enum utf8proc_category_t
{
	UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
	UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC,
	UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO,
	UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
	UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO, UTF8PROC_CATEGORY_SM,
	UTF8PROC_CATEGORY_SC, UTF8PROC_CATEGORY_SK, UTF8PROC_CATEGORY_SO, UTF8PROC_CATEGORY_ZS,
	UTF8PROC_CATEGORY_ZL, UTF8PROC_CATEGORY_ZP, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF,
	UTF8PROC_CATEGORY_CS, UTF8PROC_CATEGORY_CO
} utf8proc_category_t;

typedef struct utf8proc_property_t
{
	int16_t		category;
	int16_t		combining_class;
	int16_t		rest[20];
} utf8proc_property_t;

utf8proc_int32_t utf8proc_tolower(utf8proc_int32_t cp);
utf8proc_int32_t utf8proc_toupper(utf8proc_int32_t cp);
utf8proc_int32_t utf8proc_totitle(utf8proc_int32_t cp);
utf8proc_category_t utf8proc_category(utf8proc_int32_t cp);
const utf8proc_property_t *utf8proc_get_property(utf8proc_int32_t cp);
utf8proc_bool utf8proc_grapheme_break_stateful(utf8proc_int32_t a, utf8proc_int32_t b,
											   utf8proc_int32_t *state);
utf8proc_ssize_t utf8proc_decompose_char(utf8proc_int32_t cp, utf8proc_int32_t *to, utf8proc_ssize_t n,
										 utf8proc_option_t o, int *last);
/* *to is malloc'd */
utf8proc_ssize_t utf8proc_map(const utf8proc_uint8_t *s, utf8proc_ssize_t n, utf8proc_uint8_t **to,
							  utf8proc_option_t o);
const char *utf8proc_errmsg(utf8proc_ssize_t code);

#endif
