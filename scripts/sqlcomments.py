#!/usr/bin/env python3
"""COMMENT ON statements of the SQL scripts, and the page of docs that is made from them.

	sqlcomments.py			prints comments of upgrade scripts that the full script lacks, and whether the page is outdated
	sqlcomments.py --write	writes the page

The comments are in sql/vllm_pg--VERSION.sql.  The newest upgrade script repeats them;
tests/sql/40_comments.sql looks for objects without a comment.
"""
import glob
import os
import re
import sys

from tree import TOP, read

PAGE = "docs/user/sql-objects.md"
COMMENT = re.compile(r"^COMMENT ON ([A-Z ]+?)\s+([a-z@][^']*?)\s+IS\s+'((?:[^']|'')*)';", re.M)
HEAD = """# SQL objects

Every function, view, view column, type and table that `CREATE EXTENSION vllm_pg` makes, with its
comment, which psql shows with `\\df+` and `\\d+`. `scripts/sqlcomments.py --write` makes this page from
the SQL script. [sql.md](sql.md) has arguments, options, errors and examples.
"""


def comments_of(path):
    found = COMMENT.findall(read(path))
    return [(kind, " ".join(name.split()), text.replace("''", "'")) for kind, name, text in found]


def table(head, rows):
    return f"| {head} | |\n|---|---|\n" + "".join(f"| `{name}` | {text} |\n" for name, text in rows)


def page(comments):
    def of(kinds, start="@extschema@."):
        return [(name[len(start):] if start != "vllm." else name, text) for kind, name, text in comments
                if kind in kinds and name.startswith(start)]

    def columns(name):
        return [(c[len(name) + 1:], text) for c, text in of(["COLUMN"]) if c.startswith(name + ".")]

    functions = sorted(of(["FUNCTION", "AGGREGATE", "PROCEDURE"]))
    bare = [name.split("(")[0] for name, _ in functions]
    functions = [(name.replace("@extschema@.", "") if bare.count(b) > 1 else b + "()", text)
                 for b, (name, text) in zip(bare, functions)]
    out = [HEAD, "\n## Functions\n\n", table("function", functions)]
    for title, kind, parts in (("Views", "VIEW", "column"), ("Types", "TYPE", "attribute")):
        out.append(f"\n## {title}\n")
        for name, text in sorted(of([kind])):
            out += [f"\n### {name}\n\n{text}\n\n", table(parts, columns(name))]
    out += ["\n## Tables of the schema vllm\n\n", table("table", sorted(of(["TABLE"], "vllm.")))]
    return "".join(out)


def main():
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    version = re.search(r"default_version = '(.*)'", read("vllm_pg.control")).group(1)
    full = comments_of(f"sql/vllm_pg--{version}.sql")
    text = page(full)
    if sys.argv[1:]:
        with open(os.path.join(TOP, PAGE), "w", encoding="utf-8") as h:
            h.write(text)
        return
    for upgrade in sorted(glob.glob(os.path.join(TOP, f"sql/vllm_pg--*--{version}.sql"))):
        for kind, name, comment in comments_of(upgrade):
            if (kind, name, comment) not in full:
                print(f"{os.path.basename(upgrade)}: {kind.lower()} {name}: the full script has another comment")
    if not os.path.exists(os.path.join(TOP, PAGE)) or read(PAGE) != text:
        print(f"{PAGE} is not what the script says: scripts/sqlcomments.py --write")


main()
