#!/usr/bin/env python3
"""Record how jinja2 renders templates: the reference for src/text/jinja*.c.

    python3 tests/golden/jinja_golden.py cases      > tests/golden/jinja_cases.txt
    python3 tests/golden/jinja_golden.py chats      > tests/golden/jinja_chats.txt
    python3 tests/golden/jinja_golden.py shared DIR > tests/golden/jinja_shared.txt

Needs transformers and jinja2 3.1 (made with transformers 5.23, jinja2 3.1.6,
Python 3.11).  The environment is the one with which transformers compiles chat
templates; strftime_now is frozen.

cases: the templates of jinja_cases.py; their variables first:
    {"v": variables as JSON text}
    {"t": template, "o": output}
    {"t": template, "e": [line, class, message]}
chats: the conversations of jinja_chats.py and templates of jinja_families.py:
    {"c": name, "v": variables as JSON text}
    {"f": name, "t": template}
    {"f": template's name, "c": conversation, "n": bytes, "h": FNV-1a of the output}
    {"f": ..., "c": ..., "e": [line, class, message]}
shared: templates of real models in DIR, each with every conversation.  Their licenses do not let
us copy them, so there are only lines of the last two kinds, without messages.
"""
import datetime
import json
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import jinja2
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2026, 3, 7, 14, 5, 9)


def compiled(source):
    t = chat_template_utils._cached_compile_jinja_template.__wrapped__(source) \
        if hasattr(chat_template_utils._cached_compile_jinja_template, "__wrapped__") \
        else chat_template_utils._cached_compile_jinja_template(source)
    return t


def render(source, variables):
    """Return the output, or [line, class, message]."""
    try:
        t = compiled(source)
        return t.render(strftime_now=lambda f: NOW.strftime(f), **variables)
    except jinja2.TemplateSyntaxError as e:
        return [e.lineno, type(e).__name__, e.message]
    except Exception as e:
        line = 0
        for frame in traceback.extract_tb(e.__traceback__):
            if frame.filename == "<template>" or frame.filename == "<unknown>":
                line = frame.lineno
        if isinstance(e, SyntaxError):
            line = 0
        return [line, type(e).__name__, str(e)]


def fnv(data):
    h = 14695981039346656037
    for b in data:
        h = (h ^ b) * 1099511628211 % (1 << 64)
    return "%016x" % h


def emit(row, result):
    if isinstance(result, str):
        row["o"] = result
    else:
        row["e"] = result
    print(json.dumps(row, ensure_ascii=False))


def names():
    """Return all names that the environment knows."""
    env = compiled("").environment
    for kind, known in (("filter", env.filters), ("test", env.tests)):
        for name in sorted(known):
            yield "{{ '%s' is %s }}" % (name, kind)
    for name in sorted(env.globals):
        yield "{{ %s is defined }}{{ %s is callable }}" % (name, name)


def cases():
    import jinja_cases
    print(json.dumps({"v": json.dumps(jinja_cases.V, ensure_ascii=False)}, ensure_ascii=False))
    for source in jinja_cases.cases():
        emit({"t": source}, render(source, jinja_cases.V))
    for source in names():
        emit({"t": source}, render(source, jinja_cases.V))


def results(file, source, own):
    import jinja_chats
    for name, variables in jinja_chats.chats().items():
        result = render(source, variables)
        row = {"f": file, "c": name}
        if isinstance(result, str):
            data = result.encode()
            row["n"] = len(data)
            row["h"] = fnv(data)
        else:
            row["e"] = result if own else result[:2]
        print(json.dumps(row, ensure_ascii=False))


def chats():
    import jinja_chats
    import jinja_families
    for name, variables in jinja_chats.chats().items():
        print(json.dumps({"c": name, "v": json.dumps(variables, ensure_ascii=False)}, ensure_ascii=False))
    for name, source in jinja_families.FAMILIES.items():
        print(json.dumps({"f": name, "t": source}, ensure_ascii=False))
    for name, source in jinja_families.FAMILIES.items():
        results(name, source, True)


def shared(folder):
    for file in sorted(os.listdir(folder)):
        results(file, open(os.path.join(folder, file), encoding="utf-8", newline="").read(), False)


if __name__ == "__main__":
    if sys.argv[1:2] == ["cases"]:
        cases()
    elif sys.argv[1:2] == ["chats"]:
        chats()
    elif sys.argv[1:2] == ["shared"] and len(sys.argv) == 3:
        shared(sys.argv[2])
    else:
        sys.exit(__doc__)
