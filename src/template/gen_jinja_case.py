#!/usr/bin/env python3
# Writes jinja_case.h: characters whose upper or title case is more than one character.
import sys

def rows(f):
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000 and len(f(chr(c))) > 1:
            yield c, [ord(x) for x in f(chr(c))]

def table(name, f):
    print("static const JinCase %s[] = {" % name)
    line = "\t"
    for c, to in rows(f):
        item = "{0x%X, {%s}}, " % (c, ", ".join("0x%X" % x for x in to))
        if len(line) + len(item) > 110:
            print(line.rstrip())
            line = "\t"
        line += item
    print(line.rstrip(", "))
    print("};\n")

print("""/*
 * jinja_case.h
 *\t  Characters whose upper or title case is several characters (Unicode's
 *\t  SpecialCasing.txt, unconditional).  Written by gen_jinja_case.py.
 */
#ifndef VLLM_TEXT_JINJA_CASE_H
#define VLLM_TEXT_JINJA_CASE_H

#include <stdint.h>

typedef struct JinCase
{
\tuint32_t\tcp;
\tuint32_t\tto[3];\t\t\t/* 0 = none */
} JinCase;
""")
table("jin_case_upper", str.upper)
table("jin_case_title", str.title)
print("#endif")
