#!/usr/bin/env python3
"""Make texts for quantize_golden.c: held-out tickets and reviews of the bundled model's domain, with answers.

    quantize_texts.py               run in the repository's root

Writes tests/golden/quantize_texts.txt, one text a line; a line break within a text is written \\n.
"""
import sys

sys.path.insert(0, "models")
import corpus

SEED = 11


def main():
    items = corpus.evaluation(24, SEED) + corpus.evaluation(8, SEED, reviews=True)
    with open("tests/golden/quantize_texts.txt", "w", encoding="utf-8") as f:
        for text, task in items:
            whole = text.prompt(task) + " " + text.answers[task]
            assert "\\" not in whole
            f.write(whole.replace("\n", "\\n") + "\n")


if __name__ == "__main__":
    main()
