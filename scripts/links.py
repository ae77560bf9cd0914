#!/usr/bin/env python3
"""Relative links of Markdown files that lead nowhere, and pages that the index lacks.

	links.py	prints each link whose file or heading is missing, each page of docs/ that
			docs/README.md does not name, and folders of docs/ with more than 30 files
"""
import collections
import os
import re
import sys

from tree import TOP, files, read

FOLDER_FILES = 30
LINK = re.compile(r"(?<!`)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def slug(heading):
    """Return the anchor that GitHub gives a heading: words in lower case, spaces as hyphens, without other
    characters."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(text):
    """Return the text without code blocks."""
    return re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", "", m.group(0)), text, flags=re.M | re.S)


def anchors(path, known):
    if path not in known:
        seen = {}
        for heading in re.findall(r"^#{1,6} +(.*?)#* *$", prose(read(path)), re.M):
            s = slug(heading)
            seen[s] = seen.get(s, -1) + 1
            known.setdefault(path, set()).add(f"{s}-{seen[s]}" if seen[s] else s)
    return known.get(path, set())


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    known = {}
    for f in files("*.md"):
        text = prose(read(f))
        for m in LINK.finditer(text):
            target = m.group(1)
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(f), path)) if path else f
            place = f"{f}:{text.count(chr(10), 0, m.start()) + 1}: {target}"
            if not os.path.exists(os.path.join(TOP, full)):
                print(f"{place}: no such file")
            elif anchor and full.endswith(".md") and anchor not in anchors(full, known):
                print(f"{place}: no such heading")
    index, folders = read("docs/README.md"), collections.Counter()
    for f in files("docs/*"):
        folders[os.path.dirname(f)] += 1
        if f.endswith(".md") and f != "docs/README.md" and f"]({f[len('docs/'):]})" not in index:
            print(f"{f} is not in docs/README.md")
    for folder, n in folders.items():
        if n > FOLDER_FILES:
            print(f"{folder} has {n} files, at most {FOLDER_FILES}")


main()
