/*
 * decimal.h
 *	  JSON numbers as exact decimals.
 */
#ifndef VLLM_GRAMMAR_SCHEMA_DECIMAL_H
#define VLLM_GRAMMAR_SCHEMA_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* The value is 0.d1 d2 .. dn * 10^exp with d1 and dn not '0'; zero has no digits, exp 0 and no sign. */
typedef struct Dec
{
	bool		neg;
	const char *d;				/* digits; points into the source text's buffer or static */
	int			n;
	long		exp;
} Dec;

/*
 * Read a JSON number of at most DEC_MAX_TEXT bytes; buf keeps the digits.  Return false if it is longer,
 * or the exponent is out of range.
 */
#define DEC_MAX_TEXT 400
bool		dec_read(const char *s, size_t n, char buf[DEC_MAX_TEXT], Dec *to);
int			dec_cmp(const Dec *a, const Dec *b);
bool		dec_is_integer(const Dec *a);
/* Return true if a is a multiple of b; b > 0.  *known = false: the numbers are too far apart to
 * decide. */
bool		dec_is_multiple(const Dec *a, const Dec *b, bool *known);

#endif
