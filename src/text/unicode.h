/*
 * unicode.h
 *	  Character properties, UTF-8 repair, and normalization forms.
 */
#ifndef VLLM_TEXT_UNICODE_H
#define VLLM_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* classes as in Hugging Face's regex engine; may be or-ed */
#define UNI_L		0x01		/* \p{L} */
#define UNI_N		0x02		/* \p{N} */
#define UNI_M		0x04		/* \p{M} */
#define UNI_P		0x08		/* \p{P} */
#define UNI_S		0x10		/* \p{S} */
#define UNI_SPACE	0x20		/* \s: White_Space */
#define UNI_WORD	0x40		/* \w */
#define UNI_LU		0x80		/* \p{Lu}, \p{Lt} */
#define UNI_LL		0x100		/* \p{Ll} */

/* Return the classes of cp as a bit mask; 0 if it is no code point. */
unsigned	uni_class_any(uint32_t cp);

/* The same, without a call for ASCII letters and the space, which are most of most texts. */
static inline unsigned
uni_class(uint32_t cp)
{
	if ((cp | 32) - 'a' < 26)
		return UNI_L | UNI_WORD | (cp & 32 ? UNI_LL : UNI_LU);
	return cp == ' ' ? UNI_SPACE : uni_class_any(cp);
}

/* Return its general category as two characters, e.g.  "Lu". */
const char *uni_category(uint32_t cp);

/*
 * Properties as in the normalizers and pre-tokenizers of Hugging Face; their data is older or newer than
 * that of the regex engine (unicode_hf.c).
 */
bool		uni_hf_punct(uint32_t cp);	/* ASCII punctuation and symbols, P */
bool		uni_hf_number(uint32_t cp);
bool		uni_hf_mark(uint32_t cp);	/* M */
bool		uni_hf_nonspacing(uint32_t cp); /* Mn */
bool		uni_hf_other(uint32_t cp);	/* Cc, Cf, Co */
unsigned	uni_hf_script(uint32_t cp); /* a number for each script; 0 = any script */
/* Lower case of one character; U+0130 is left unchanged, as its lower case has two characters. */
uint32_t	uni_lower(uint32_t cp);

/* Return true if s[0..n) is valid UTF-8. */
bool		uni_valid(const char *s, size_t n);
/* Append s to *out with each maximal ill-formed subpart replaced by U+FFFD. */
void		uni_repair(const char *s, size_t n, Buf *out);

typedef enum UniForm
{
	UNI_NFC,
	UNI_NFD,
	UNI_NFKC,
	UNI_NFKD
} UniForm;

/* Append the normalization form of s (valid UTF-8) to *out. */
bool		uni_normalize(const char *s, size_t n, UniForm form, Buf *out, Err *e);

#endif
