/*
 * portable.c
 *	  The implementation for every CPU: the templates over simd_portable.h.
 */
#include "cpu/simd_portable.h"

#define QTILE "cpu/portable_q.h"
#define KNAME portable
#include "cpu/tmpl/tmpl_all.h"
