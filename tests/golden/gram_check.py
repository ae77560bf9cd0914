#!/usr/bin/env python3
"""Compare texts that test_gram_walk has drawn with other implementations.

    gram_check.py [SEED ...]        run in the repository's root, after `make tests`

Needs the packages jsonschema (with its formats), regex and lark.  Instances must be valid for jsonschema;
texts of expressions must match with regex (its \\w is Unicode's; re's does not include marks); lark must
parse texts of Lark grammars and, after a translation, those of EBNF.  Prints each text that fails, and
counts; fails if there is any.
"""
import decimal
import json
import re
import subprocess
import sys

import jsonschema
import regex
from lark import Lark

PROGRAM = "build/engine/tests/unit/grammar/test_gram_walk"


def check_json(schema, text, memo):
    if schema not in memo:
        # Decimal, because doubles would round: 1226.679 is a multiple of 0.9973
        s = json.loads(schema, parse_float=decimal.Decimal)
        cls = jsonschema.validators.validator_for(s, default=jsonschema.Draft202012Validator)
        memo[schema] = cls(s, format_checker=cls.FORMAT_CHECKER)
    error = jsonschema.exceptions.best_match(memo[schema].iter_errors(json.loads(text, parse_float=decimal.Decimal)))
    if error is not None:
        raise ValueError(error.message[:200])


def lark_of(spec):
    """Translate EBNF to lark: every name is a rule, all characters come from terminals."""
    if "::=" not in spec:
        return spec
    lines = []
    for line in re.split(r"\n(?=[a-z0-9-]+ *::=)", spec):
        name, body = line.split("::=", 1)
        body = re.sub(r'("(?:[^"\\]|\\.)*")|(\[(?:[^\]\\]|\\.)*\])(\{\d+(?:,\d*)?\}|[*+?])?|\{(\d+)(?:,(\d*))?\}',
                      lambda m: m[1] if m[1] and m[1] != '""' else "" if m[1] else
                      f"/{m[2]}{m[3] or ''}/" if m[2] and not re.match(r"[*?]|\{0", m[3] or "x") else
                      f"(/{m[2]}{'+' if m[3] == '*' else '' if m[3] == '?' else m[3].replace('{0', '{1')}/)?" if m[2] else
                      f"~{m[4]}..{m[5]}", body)
        lines.append(f"{name.strip().replace('-', '_')}: {body.strip()}")
    return re.sub(r"^root:", "start:", "\n".join(lines), flags=re.M).replace("root", "start")


def check_grammar(spec, text, memo):
    if spec not in memo:
        memo[spec] = Lark(lark_of(spec), parser="earley", lexer="dynamic_complete")
    memo[spec].parse(text)


def check_regex(spec, text):
    if not regex.fullmatch(spec, text):
        raise ValueError("no match")


def main():
    memo = {}
    asked, wrong = 0, 0
    for seed in sys.argv[1:] or ["1"]:
        out = subprocess.run([PROGRAM, "-d", seed], stdout=subprocess.PIPE, check=True, text=True).stdout
        for line in out.split("\n")[:-1]:
            o = json.loads(line)
            asked += 1
            try:
                if o["kind"] == "json":
                    check_json(o["spec"], o["text"], memo)
                elif o["kind"] == "regex":
                    check_regex(o["spec"], o["text"])
                elif o["kind"] == "grammar" and len(o["text"]) < 200:
                    check_grammar(o["spec"], o["text"], memo)
            except Exception as e:
                wrong += 1
                print(f"{o['kind']} {o['spec'][:300]!r}\n\t{o['text'][:300]!r}\n\t{str(e).splitlines()[0][:300]}")
    print(f"{asked} texts, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
