"""Check the answers of tests/t/080_structured.pl with Python's jsonschema, re and lark.

    VLLM_STRUCTURED_OUT=FILE prove tests/t/080_structured.pl; python3 structured_check.py FILE

Every answer that was not cut must be a valid instance of its schema, a full match of its regular
expression, or a text of its grammar.  Needs jsonschema (with formats: jsonschema[format]), and lark.
"""
import json
import re
import sys

import jsonschema
import lark

from gram_check import check_grammar

parsers = {}


def fits(kind, spec, text):
    if kind == "grammar":
        try:
            check_grammar(spec, text, parsers)
        except lark.exceptions.LarkError:
            return False
        return True
    if kind == "regex":
        return re.fullmatch(spec, text) is not None
    schema = json.loads(spec)
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return cls(schema, format_checker=cls.FORMAT_CHECKER).is_valid(json.loads(text))


def main():
    counts = {}
    wrong = 0
    for line in open(sys.argv[1], encoding="utf-8"):
        a = json.loads(line)
        key = (a["kind"], a["finish"])
        counts[key] = counts.get(key, 0) + 1
        if a["finish"] != "stop":
            continue
        try:
            ok = fits(a["kind"], a["spec"], a["text"])
        except ValueError:
            ok = False
        if not ok:
            wrong += 1
            print("WRONG", a["kind"], a["spec"], repr(a["text"]))
    print(counts, wrong, "wrong")
    sys.exit(wrong > 0)


main()
