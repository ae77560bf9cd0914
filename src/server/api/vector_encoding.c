/*
 * vector_encoding.c
 *	  Encodings of vectors as bytes (vector_encoding.h).
 *
 * All types but float32 are a sign, some exponent bits and some mantissa bits, so one rounding serves
 * all of them.  fp8_e4m3 has no infinity (its largest number is 448); larger numbers become NaN, as in
 * PyTorch's float8_e4m3fn.
 *
 * Tested by tests/unit/server/api/test_api.c.
 */
#include "server/api/vector_encoding.h"

#include <math.h>
#include <string.h>

typedef struct Format
{
	const char *name;
	int			exp_bits, man_bits;
	bool		no_infinity;
} Format;

static const Format formats[] = {
	[VT_FLOAT32] = {"float32", 8, 23, false},
	[VT_FLOAT16] = {"float16", 5, 10, false},
	[VT_BFLOAT16] = {"bfloat16", 8, 7, false},
	[VT_FP8_E4M3] = {"fp8_e4m3", 4, 3, true},
	[VT_FP8_E5M2] = {"fp8_e5m2", 5, 2, false},
};

bool
vector_type_by_name(const char *name, VectorType *out)
{
	for (int i = 0; i <= VT_FP8_E5M2; i++)
		if (strcmp(formats[i].name, name) == 0)
		{
			*out = (VectorType) i;
			return true;
		}
	return false;
}

uint32_t
vector_bits(VectorType t, float f)
{
	const Format *k = &formats[t];
	int			bias = (1 << (k->exp_bits - 1)) - 1;
	uint32_t	exp_all = (1u << k->exp_bits) - 1;
	uint32_t	one = 1u << k->man_bits;
	uint32_t	sign = (uint32_t) (signbit(f) != 0) << (k->exp_bits + k->man_bits);
	uint32_t	nan = exp_all << k->man_bits | (k->no_infinity ? one - 1 : one >> 1);
	uint32_t	most = k->no_infinity ? nan - 1 : (exp_all << k->man_bits) - 1;
	int			e;
	double		m;
	uint32_t	bits;

	if (t == VT_FLOAT32)
	{
		memcpy(&bits, &f, sizeof(bits));
		return bits;
	}
	if (isnan(f))
		return sign | nan;
	if (isinf(f))
		return sign | (k->no_infinity ? nan : exp_all << k->man_bits);
	if (f == 0)
		return sign;
	m = frexp(fabs((double) f), &e);	/* f = m * 2^e, m in [0.5, 1) */
	e = e - 1 + bias;			/* exponent field of 1.xxx */
	if (e < 1)
	{
		/* below the normal numbers: in units of 2^(1 - bias - man_bits) */
		bits = (uint32_t) nearbyint(ldexp(m, e + k->man_bits));
	}
	else
		bits = ((uint32_t) (e - 1) << k->man_bits) + (uint32_t) nearbyint(ldexp(m, k->man_bits + 1));
	if (bits > most)
		bits = k->no_infinity ? nan : exp_all << k->man_bits;
	return sign | bits;
}

void
vector_bytes(VectorType t, bool big_endian, const float *v, size_t n, Buf *out)
{
	int			size = (1 + formats[t].exp_bits + formats[t].man_bits) / 8;

	buf_reserve(out, n * (size_t) size);
	for (size_t i = 0; i < n; i++)
	{
		uint32_t	bits = vector_bits(t, v[i]);

		for (int b = 0; b < size; b++)
			buf_addc(out, (char) (bits >> 8 * (big_endian ? size - 1 - b : b)));
	}
}

void
base64_add(Buf *out, const void *data, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = data;

	for (size_t i = 0; i < n; i += 3)
	{
		uint32_t	w = (uint32_t) p[i] << 16 | (i + 1 < n ? (uint32_t) p[i + 1] << 8 : 0) |
			(i + 2 < n ? p[i + 2] : 0);
		char		c[4] = {digits[w >> 18], digits[w >> 12 & 63], '=', '='};

		if (i + 1 < n)
			c[2] = digits[w >> 6 & 63];
		if (i + 2 < n)
			c[3] = digits[w & 63];
		buf_add(out, c, sizeof(c));
	}
}

/* Return 0 .. 63; -1: not a digit. */
static int
base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool
base64_read(Buf *out, const char *s, size_t n)
{
	if (n % 4 != 0)
		return false;
	buf_reserve(out, n / 4 * 3);
	for (size_t i = 0; i < n; i += 4)
	{
		int			pad = i + 4 < n ? 0 : (s[i + 3] == '=') + (s[i + 3] == '=' && s[i + 2] == '=');
		uint32_t	w = 0;
		char		bytes[3];

		for (int k = 0; k < 4; k++)
		{
			int			digit = k < 4 - pad ? base64_digit(s[i + (size_t) k]) : 0;

			if (digit < 0)
				return false;
			w = w << 6 | (uint32_t) digit;
		}
		if (pad > 0 && (w & (pad == 1 ? 0xFF : 0xFFFF)) != 0)
			return false;
		bytes[0] = (char) (w >> 16);
		bytes[1] = (char) (w >> 8);
		bytes[2] = (char) w;
		buf_add(out, bytes, (size_t) (3 - pad));
	}
	return true;
}
