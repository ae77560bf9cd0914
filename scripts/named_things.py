#!/usr/bin/env python3
"""Files, functions and constants that comments and docs name although they do not exist.

	named_things.py		prints each, with its place
"""
import os
import re
import sys

from tree import code_of, comments, files as tree_files, read

CODE = (".c", ".h", ".def", ".cu", ".cuh")
SOURCES = CODE + (".py", ".pl", ".pm", ".sh", ".sql", ".mk", ".l", "Makefile", "client/vllm_pg_pull")
# a path or a base name with one of our file endings; no pattern, no URL, no part of another name
NAME = re.compile(r"(?<![\w/.*~$<>{}%:-])((?:[\w-]+/)*[\w-]+\.(?:c|h|def|cu|cuh|pl|pm|mk|md|sh|py|sql))(?![\w(*{]|\.\w)")
FUNCTION = re.compile(r"(?<![\w.@{$%-])([A-Za-z_]\w*)\(\)")
CONSTANT = re.compile(r"(?<![\w.-])((?:[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]))(?![\w*])")
SQL_COMMENT = re.compile(r"'(?:[^']|'')*'|/\*.*?\*/|--[^\n]*", re.S)
# files of others (PostgreSQL, the C library, CUDA, checkpoints, vLLM), and files that the build makes
OTHERS = set("""env.sh my.c b.c libpq.h README.md config.h stdio.h math.h postgres.h pg_config.h curl.h cublasLt.h nccl.h cuda.h LICENSE.md""".split())
# the last three stand for any name of their kind
OTHER_FUNCTIONS = set("""ExecInitFunc ExecutorRun JSON_VALUE __activemask close_range get_pattern_key landlock_create_ruleset lo_export
    materialize_finished_plan ncclCommAbort pq_getmsgstring pq_sendstring
    option_NAME v1_NAME test_x""".split())
OTHER_CONSTANTS = set("""AVX512_BF16 CURLE_HTTP2 CURLE_SEND_FAIL_REWIND HTTPS_PROXY JSON_VALUE MAP_HUGE_2MB MAX_BACKENDS NO_PROXY PRIO_USER REFUSED_STREAM
    VLLM_SERVER_DEV_MODE WJB_BEGIN_OBJECT WJB_VALUE""".split())


def sql_comments(text):
    return ((m.start(), m.group(0)) for m in SQL_COMMENT.finditer(text) if not m.group(0).startswith("'"))


def prose(file, text):
    """Return (start, text) of each comment of code or SQL, or of a whole page; nothing of other files."""
    if file.endswith(CODE):
        return comments(text)
    if file.endswith(".sql") and file.startswith("sql/"):
        return sql_comments(text)
    if file.endswith(".md") and file.startswith(("docs/", "README", "CONTRIBUTING")):
        return [(0, text)]
    return []


def known_words(files):
    """Return all words of code outside of comments, and the names of tags."""
    known = set()
    for f in files:
        if f.endswith(SOURCES):
            text = code_of(read(f)) if f.endswith(CODE) else read(f)
            known.update(re.findall(r"\w+", text))
            if f in ("src/ipc/fields.def", "src/ipc/request_fields.def", "src/ipc/pooling_fields.def"):
                known.update("WTAG_" + tag for tag in re.findall(r"^(?:X|FIELD|POOL_FIELD)\((\w+),", text, re.M))
    return known


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    files = tree_files()
    base = {os.path.basename(f) for f in files}
    tails = {"/".join(f.split("/")[i:]) for f in files for i in range(f.count("/") + 1)}
    words = known_words(files) | OTHER_FUNCTIONS | OTHER_CONSTANTS

    def exists(name):
        return "NAME" in name or name in OTHERS or name in (tails if "/" in name else base) or os.path.basename(name) in OTHERS

    for f in files:
        if not f.endswith(CODE + (".sql", ".md")) or "_tables" in f:
            continue
        text = read(f)
        for start, part in prose(f, text):
            found = [(m.start(), m.group(1)) for m in NAME.finditer(part) if not exists(m.group(1))]
            found += [(m.start(), m.group(0)) for m in FUNCTION.finditer(part) if m.group(1) not in words]
            found += [(m.start(), m.group(1)) for m in CONSTANT.finditer(part) if m.group(1) not in words]
            for at, name in sorted(found):
                print(f"{f}:{text.count(chr(10), 0, start + at) + 1}: {name}")


main()
