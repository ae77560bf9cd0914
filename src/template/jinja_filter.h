/*
 * jinja_filter.h
 *	  Filters on text (jinja_filter_text.c, jinja_wrap.c) for the table in jinja_filter.c.
 */
#ifndef VLLM_TEMPLATE_JINJA_FILTER_H
#define VLLM_TEMPLATE_JINJA_FILTER_H

#include "template/jinja_internal.h"

JVal		jin_f_capitalize(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_center(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_escape(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_forceescape(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_format(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_indent(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_join(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_lower(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_replace(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_safe(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_string(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_title(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_trim(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_truncate(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_upper(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_urlencode(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_wordcount(Jin *j, JVal v, const JArgs *a);
JVal		jin_f_wordwrap(Jin *j, JVal v, const JArgs *a);

#endif
