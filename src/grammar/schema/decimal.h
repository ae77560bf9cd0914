/*
 * decimal.h
 *	  Numbers of JSON as exact decimals.
 */
#ifndef VLLM_GRAMMAR_SCHEMA_DECIMAL_H
#define VLLM_GRAMMAR_SCHEMA_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The value is 0.d1 d2 .. dn * 10^exp with d1 and dn not '0'; zero has no digits, exp 0
 * and no sign.
 */
typedef struct Dec
{
	bool		neg;
	const char *d;				/* digits; of the text that it was made of, or static */
	int			n;
	long		exp;
} Dec;

/*
 * From a JSON number of at most DEC_MAX_TEXT bytes; buf keeps the digits.  False: longer,
 * or an exponent out of all bounds.
 */
#define DEC_MAX_TEXT 400
bool		dec_read(const char *s, size_t n, char buf[DEC_MAX_TEXT], Dec *to);
int			dec_cmp(const Dec *a, const Dec *b);
bool		dec_is_integer(const Dec *a);
/* Is a a multiple of b?  b > 0.  *known = false: the numbers are too far apart to tell. */
bool		dec_is_multiple(const Dec *a, const Dec *b, bool *known);

#endif
