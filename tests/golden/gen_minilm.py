#!/usr/bin/env python3
"""Record what sentence-transformers computes for 200 texts with all-MiniLM-L6-v2, for minilm_golden.c.

    gen_minilm.py [DIR]             run in the repository's root; DIR: the model, default build/minilm

Needs sentence-transformers and torch; scripts/minilm installs the model.  Writes

    tests/golden/minilm_texts.txt   one text a line; the first 40 are PAIRS, one after the other
    tests/golden/minilm.bin         little-endian int32 n, width; float32 scale; int16 v[n][width]: the vectors
                                    times scale

It computes in float32, each text by itself, so that padding has no influence.  Rounding to 16 bits turns a
vector by less than 1e-4, which changes a cosine by 1e-9.
"""
import random
import struct
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

# how similar a human reader finds two texts, from 5 (same meaning) to 0 (nothing in common)
PAIRS = [
    (5.0, "A man is playing a guitar.", "A man plays the guitar."),
    (5.0, "How do I reset my password?", "What are the steps to reset a password?"),
    (4.8, "The parcel never arrived.", "My package was not delivered."),
    (4.6, "Children are playing in the park.", "Some kids are having fun at the park."),
    (4.4, "The company reported record profits this year.", "Profits of the firm reached an all-time high this year."),
    (4.2, "The recipe needs two eggs and a cup of flour.", "You need flour and eggs for this recipe."),
    (4.0, "It will rain tomorrow afternoon.", "Tomorrow's forecast says showers."),
    (3.8, "The doctor told him to stop smoking.", "His physician advised him to give up cigarettes."),
    (3.4, "A dog is running across the field.", "A dog is swimming in the lake."),
    (3.0, "The train to Paris leaves at nine.", "There is a bus to Paris in the evening."),
    (2.8, "She bought a new laptop for work.", "Her old computer is broken."),
    (2.4, "The cat sleeps on the sofa.", "A kitten climbs a tree."),
    (2.0, "Interest rates went up again.", "The bank offers a new kind of loan."),
    (1.6, "He is learning to cook.", "The restaurant opens at noon."),
    (1.2, "The football match ended in a draw.", "She won the chess tournament."),
    (1.0, "The museum is closed on Mondays.", "The library has a large collection of maps."),
    (0.6, "Water boils at a hundred degrees.", "The sea was cold in May."),
    (0.2, "The judge postponed the hearing.", "Tulips bloom in spring."),
    (0.0, "A database index speeds up queries.", "My grandmother knits woollen socks."),
    (0.0, "The volcano erupted last night.", "Please sign the form on page two."),
]

OTHERS = [
    "Hello", "?", "a", "2 + 2 = 4", "SELECT count(*) FROM orders WHERE total > 100;", "https://example.com/a/b?c=d&e=f",
    "e-mail: someone@example.org", "Ceci n'est pas une pipe.", "Der schnelle braune Fuchs springt über den faulen Hund.",
    "Быстрая коричневая лиса", "素早い茶色の狐", "빠른 갈색 여우", "سريع", "naïve café résumé", "NAÏVE CAFÉ RÉSUMÉ",
    "I ❤ databases 🐘", "tab\u00a0and\u2003spaces", "don't can't won't", "\"quoted\" and 'quoted'", "(1) first; (2) second",
    "UPPER lower MiXeD", "antidisestablishmentarianism", "x" * 300, "the " * 400, "1234567890 " * 60,
]

WHO = ["The teacher", "A customer", "Our neighbour", "The new engineer", "An old friend", "The committee", "Nobody",
       "The museum's director", "My sister", "Each of the students"]
DOES = ["complained about", "repaired", "wrote a letter on", "forgot", "paid for", "described in detail", "was surprised by",
        "refused to discuss", "took a photograph of", "compared prices of"]
WHAT = ["the broken heating", "a train journey to the coast", "the results of the election", "three bottles of olive oil",
        "a bug in the payment system", "the history of the town", "the last lecture on genetics", "an expensive camera",
        "the new parking rules", "a recipe for onion soup"]
MORE = ["", " yesterday", " without saying why", ", although it was raining", " for the second time this week",
        " because the invoice had been lost and nobody in the office could remember who had ordered it in the first place"]


def texts():
    rnd = random.Random(7)
    out = [t for _, a, b in PAIRS for t in (a, b)] + OTHERS
    while len(out) < 200:
        n = 1 if len(out) < 150 else rnd.randint(2, 40)
        t = " ".join(f"{rnd.choice(WHO)} {rnd.choice(DOES)} {rnd.choice(WHAT)}{rnd.choice(MORE)}." for _ in range(n))
        if t not in out:
            out.append(t)
    assert len(out) == 200 and not any("\n" in t for t in out)
    return out


def ranks(x):
    return np.argsort(np.argsort(x)).astype(float)


def main():
    model = SentenceTransformer(sys.argv[1] if len(sys.argv) > 1 else "build/minilm", device="cpu",
                                model_kwargs={"attn_implementation": "eager"})
    all_texts = texts()
    v = np.stack([model.encode(t, convert_to_numpy=True) for t in all_texts]).astype(np.float64)
    scale = np.float32(32767 / np.abs(v).max())
    q = np.round(v * scale).astype("<i2")
    with open("tests/golden/minilm_texts.txt", "w") as f:
        f.writelines(t + "\n" for t in all_texts)
    with open("tests/golden/minilm.bin", "wb") as f:
        f.write(struct.pack("<2if", *q.shape, scale) + q.tobytes())
    cos = [float(v[2 * i] @ v[2 * i + 1]) for i in range(len(PAIRS))]
    gold = [s for s, _, _ in PAIRS]
    print("cosines", [f"{c:.3f}" for c in cos])
    print("smallest gap", min(abs(a - b) for i, a in enumerate(cos) for b in cos[:i]))
    print("rank correlation with judgement", np.corrcoef(ranks(cos), ranks(gold))[0, 1])


if __name__ == "__main__":
    main()
