#!/usr/bin/env python3
"""Writes stopping.json: answers token by token, and where and how they end.

The rules are written here as docs/user/sampling.md describes them ("Stop conditions"), over whole texts: no
buffers, no automaton; no text is held back.  A token is a letter: H, W, S and P are words, . is EOS, the
comma is id 290, all others stand for themselves (tests/unit/core/output/test_output.c, which reads the file).

	tests/golden/stopping.py >tests/golden/stopping.json
"""
import json
import random
import sys

TEXT = {"H": " hello", "W": " world", "S": "stop", "P": "ping", ",": "w290", ".": ""}
STOPS = ["stop", "stopping", "pp", "lo w", "wor", "ab", "ba", "aa", "a", "p", "w290", "90", "ld s", "o", "hello world", "top", "gs", "b", "29", "\u00e9"]


def repeats(case, tokens):
    longest, shortest, count = case["repeat"]
    for size in range(max(shortest, 1), longest + 1):
        n = size * count
        if len(tokens) >= n and tokens[-n:] == tokens[-size:] * count:
            return True
    return False


def token_ends(case, tokens):
    """Return (finish, reason) if the token alone ends the answer."""
    last, n = tokens[-1], len(tokens)
    if n >= case["min_tokens"]:
        if last == "." and not case["ignore_eos"]:
            return "stop", None
        if last == "," and case["extra_stop_id"]:
            return "stop", "290"
    if n >= case["max_tokens"]:
        return "length", None
    if case["repeat"][0] > 0 and n >= case["min_tokens"] and repeats(case, tokens):
        return "repetition", "repetition_detected"
    return None, None


def first_match(case, text, start):
    """Return the match that is complete first; of several that end at one place, the first of the list."""
    found = []
    for order, stop in enumerate(case["stop"]):
        at = text.find(stop, start)
        if at >= 0:
            found.append((at + len(stop), order, at, stop))
    return min(found, default=None)


def expect(case):
    text, start = "", 0
    for n in range(1, len(case["ids"]) + 1):
        tokens = list(case["ids"][:n])
        finish, reason = token_ends(case, tokens)
        if finish != "stop" or case["include_stop"]:
            text += TEXT.get(tokens[-1], tokens[-1])
        if n <= case["min_tokens"]:
            start = len(text)
        else:
            match = first_match(case, text, start)
            if match:
                end, _, at, stop = match
                return {"n_ids": n, "finish": "stop", "reason": stop, "text": text[:end if case["include_stop"] else at]}
        if finish:
            return {"n_ids": n, "finish": finish, "reason": reason, "text": text}
    raise AssertionError("it does not end")


def make(rng):
    n = rng.randint(1, 12)
    most = rng.choice([0, 0, 1, 2, 3, 4])
    case = {"ids": "".join(rng.choice("HWSPSPabab.,") for _ in range(n)), "stop": rng.sample(STOPS, rng.choice([0, 1, 2, 3])),
            "max_tokens": rng.randint(1, n), "include_stop": rng.random() < 0.4, "ignore_eos": rng.random() < 0.4,
            "extra_stop_id": rng.random() < 0.5, "repeat": [most, rng.randint(0, most), rng.randint(2, 3)] if most else [0, 0, 0]}
    case["min_tokens"] = rng.choice([0, 0, 1, rng.randint(0, case["max_tokens"])])
    return case


def main():
    rng = random.Random(20240609)
    cases = [make(rng) for _ in range(600)]
    for case in cases:
        case["expect"] = expect(case)
    sys.stdout.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
