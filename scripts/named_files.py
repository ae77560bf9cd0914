#!/usr/bin/env python3
"""Files that comments and docs name and that are not in the repository.

	named_files.py		prints each, with its place
"""
import os
import re
import sys

from tree import comments, files as tree_files, read

CODE = (".c", ".h", ".def", ".cu", ".cuh")
# a path or a base name with one of our endings, not a pattern, a URL or a part of another name
NAME = re.compile(r"(?<![\w/.*~$<>{}%:-])((?:[\w-]+/)*[\w-]+\.(?:c|h|def|cu|cuh|pl|pm|mk|md))(?![\w(*.{])")
# of others: PostgreSQL, the C library, CUDA, checkpoints, vLLM; and made by the build
OTHERS = set("""my.c b.c libpq.h README.md config.h stdio.h math.h postgres.h pg_config.h curl.h cublasLt.h nccl.h cuda.h LICENSE.md""".split())


def names(text, is_code):
    """(place, name) of each file that a text, or the comments of code, name."""
    for start, part in comments(text) if is_code else [(0, text)]:
        for m in NAME.finditer(part):
            yield start + m.start(), m.group(1)


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    files = tree_files()
    base = {os.path.basename(f) for f in files}
    tails = {"/".join(f.split("/")[i:]) for f in files for i in range(f.count("/") + 1)}
    for f in files:
        code = f.endswith(CODE)
        if not code and not (f.endswith(".md") and f.startswith(("docs/", "README", "CONTRIBUTING"))):
            continue
        text = read(f)
        for at, name in names(text, code):
            if "NAME" in name or name in OTHERS or name in (tails if "/" in name else base) or os.path.basename(name) in OTHERS:
                continue
            print(f"{f}:{text.count(chr(10), 0, at) + 1}: {name}")


main()
