#!/usr/bin/env python3
"""Read packaging/Dockerfile as a builder of images does, and check what can be checked without one.

	dockerfile.py FILE				prints each offence
	dockerfile.py --runs FILE		the commands of the last stage's RUN lines, one a line, without options
	dockerfile.py --value WORD FILE	the last stage's last USER, STOPSIGNAL, or its ENV or HEALTHCHECK for a shell
"""
import json
import os
import re
import shlex
import sys

WORDS = set("ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR".split())
SECRET = re.compile(r"(password|secret|token|api_?key)\w*\s*[= ]\s*['\"]?[^\s$'\"/]", re.I)


def instructions(text):
    """Return (line, word, rest) of each instruction; comments are left out, continued lines are joined."""
    out, parts, begun = [], [], 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        begun = begun if parts else number
        parts.append(line.rstrip().removesuffix("\\").strip())
        if not line.rstrip().endswith("\\"):
            word, _, rest = " ".join(parts).partition(" ")
            out.append((begun, word, rest.strip()))
            parts = []
    return out


def stages(all_of):
    """Return the instructions of each stage, and the stages' names."""
    found, names = [], []
    for i in all_of:
        if i[1] == "FROM":
            found.append([])
            name = re.search(r" AS (\S+)$", i[2], re.I)
            names.append(name.group(1) if name else str(len(found) - 1))
        if found:
            found[-1].append(i)
    return found, names


def command(rest):
    """Return a RUN's command without options such as --mount."""
    return re.sub(r"^(--\S+\s+)+", "", rest)


def offences(all_of):
    found, names = stages(all_of)
    for line, word, rest in all_of:
        if word not in WORDS:
            yield line, f"unknown instruction {word}"
        if word in ("CMD", "ENTRYPOINT") or word == "HEALTHCHECK" and "CMD" in rest:
            try:
                assert all(isinstance(x, str) for x in json.loads(rest.partition("CMD")[2] if word == "HEALTHCHECK" else rest))
            except (ValueError, AssertionError):
                yield line, f"{word} is no list of words, so a shell would get the signals"
        if word == "FROM" and (":" not in rest.split()[0] or rest.split()[0].endswith(":latest")) and rest.split()[0] not in names:
            yield line, "FROM names no version"
        if word == "ADD":
            yield line, "ADD unpacks and downloads: COPY"
        if word in ("ENV", "ARG", "RUN", "LABEL") and SECRET.search(rest):
            yield line, "a secret"
        for source in re.findall(r"--?from=([\w.:-]+)|,from=([\w.:-]+)", rest):
            if (source[0] or source[1]) not in names:
                yield line, f"no stage {source[0] or source[1]}"
        if word == "COPY" and "--from" not in rest:
            for path in re.sub(r"^(--\S+\s+)+", "", rest).split()[:-1]:
                if not os.path.exists(path):
                    yield line, f"COPY of {path}, which is not there"
        if word == "RUN" and "apt-get install" in rest:
            for part, why in (("apt-get update", "of lists that may be old"), ("--no-install-recommends", "of more than is needed"),
                              ("rm -rf /var/lib/apt/lists", "keeps apt's lists in the image")):
                if part not in rest:
                    yield line, f"apt-get install {why}: {part}"
            if re.search(r"apt-get install(?! -y)", rest):
                yield line, "apt-get install asks: -y"
        if word == "RUN" and re.search(r"\b(sudo|curl|wget)\b|chmod\s+(-R\s+)?0?777", rest):
            yield line, "sudo, a download or rights for all"
    last = {word: rest for _, word, rest in found[-1]} if found else {}
    for word in ("USER", "HEALTHCHECK", "ENTRYPOINT"):
        if word not in last:
            yield 0, f"the last stage has no {word}"
    if last.get("USER", "root").split(":")[0] in ("root", "0"):
        yield 0, "the container runs as root"


def value(stage, word):
    rest = [r for _, w, r in stage if w == word][-1]
    if word == "HEALTHCHECK":
        return shlex.join(json.loads(rest.partition("CMD")[2]))
    return rest


def main():
    args = sys.argv[1:]
    if not args or args[0] == "--help":
        sys.exit(__doc__)
    with open(args[-1], encoding="utf-8") as h:
        all_of = instructions(h.read())
    last = stages(all_of)[0][-1]
    if args[0] == "--runs":
        print("\n".join(command(rest) for _, word, rest in last if word == "RUN"))
    elif args[0] == "--value":
        print(value(last, args[1]))
    else:
        for line, what in offences(all_of):
            print(f"{args[-1]}:{line}: {what}")


main()
