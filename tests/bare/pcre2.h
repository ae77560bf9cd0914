/*
 * pcre2.h
 *	  What the engine uses of PCRE2, for machines where it isn't installed: regcomp()'s expressions, which
 *	  most patterns of checkpoints are and those of tokenizers aren't (tests/bare/text.c).
 */
#ifndef VLLM_TESTS_BARE_PCRE2_H
#define VLLM_TESTS_BARE_PCRE2_H

#include <stddef.h>
#include <stdint.h>

#define PCRE2_SIZE		size_t
#define PCRE2_UCHAR		uint8_t
#define PCRE2_SPTR		const uint8_t *
#define PCRE2_ZERO_TERMINATED (~(size_t) 0)

#define PCRE2_ANCHORED	0x80000000u
#define PCRE2_NO_UTF_CHECK 0x40000000u
#define PCRE2_UTF		0x00080000u
#define PCRE2_UCP		0x00020000u
#define PCRE2_NEVER_BACKSLASH_C 0x00100000u
#define PCRE2_NO_START_OPTIMIZE 0x00010000u
#define PCRE2_NEWLINE_LF 2
#define PCRE2_ERROR_NOMATCH (-1)
#define PCRE2_ERROR_MATCHLIMIT (-47)

/* functions have the names of the library's for 8 bits */
#define pcre2_compile pcre2_compile_8
#define pcre2_code_free pcre2_code_free_8
#define pcre2_match pcre2_match_8
#define pcre2_match_data_create pcre2_match_data_create_8
#define pcre2_match_data_free pcre2_match_data_free_8
#define pcre2_get_ovector_pointer pcre2_get_ovector_pointer_8
#define pcre2_get_error_message pcre2_get_error_message_8
#define pcre2_compile_context_create pcre2_compile_context_create_8
#define pcre2_compile_context_free pcre2_compile_context_free_8
#define pcre2_match_context_create pcre2_match_context_create_8
#define pcre2_match_context_free pcre2_match_context_free_8
#define pcre2_set_newline pcre2_set_newline_8
#define pcre2_set_parens_nest_limit pcre2_set_parens_nest_limit_8
#define pcre2_set_match_limit pcre2_set_match_limit_8
#define pcre2_set_heap_limit pcre2_set_heap_limit_8
#define pcre2_set_depth_limit pcre2_set_depth_limit_8

typedef struct pcre2_code pcre2_code;
typedef struct pcre2_match_data pcre2_match_data;
typedef struct pcre2_compile_context pcre2_compile_context;
typedef struct pcre2_match_context pcre2_match_context;

pcre2_code *pcre2_compile(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code, PCRE2_SIZE *at,
						  pcre2_compile_context *c);
void		pcre2_code_free(pcre2_code *c);
int			pcre2_match(const pcre2_code *c, PCRE2_SPTR s, PCRE2_SIZE n, PCRE2_SIZE from, uint32_t options,
						pcre2_match_data *d, pcre2_match_context *limits);
pcre2_match_data *pcre2_match_data_create(uint32_t pairs, void *general);
void		pcre2_match_data_free(pcre2_match_data *d);
PCRE2_SIZE *pcre2_get_ovector_pointer(pcre2_match_data *d);
int			pcre2_get_error_message(int code, PCRE2_UCHAR *to, PCRE2_SIZE n);
pcre2_compile_context *pcre2_compile_context_create(void *general);
void		pcre2_compile_context_free(pcre2_compile_context *c);
pcre2_match_context *pcre2_match_context_create(void *general);
void		pcre2_match_context_free(pcre2_match_context *c);
int			pcre2_set_newline(pcre2_compile_context *c, uint32_t x);
int			pcre2_set_parens_nest_limit(pcre2_compile_context *c, uint32_t x);
int			pcre2_set_match_limit(pcre2_match_context *c, uint32_t x);
int			pcre2_set_heap_limit(pcre2_match_context *c, uint32_t x);
int			pcre2_set_depth_limit(pcre2_match_context *c, uint32_t x);

#endif
