#!/usr/bin/env python3
"""Writes sampling.json: rows of logits, parameters, and the sampler's results.

The pipeline is written here as docs/user/sampling.md describes it, on numpy arrays in float32: no
blocks, no hashes, no partial sorts.  A case holds the row, the request's tokens and
parameters, and the distribution from which a token is drawn ("p": id and probability), or the token
at temperature 0 ("top"), or "none": no token is allowed.

Cases in which rounding decides (a probability on the edge of min_p or top_p) are left out: they have
two right answers.  tests/unit/core/sample/test_logits.c reads the file.

	tests/golden/sampling.py >tests/golden/sampling.json
"""
import json
import sys

import numpy as np

F = np.float32
EDGE = 1e-4


class OnTheEdge(Exception):
    """Raised if rounding would decide."""


def allowed_ids(case, logits):
    """Stages 3 to 5: return which ids are allowed."""
    p = case["params"]
    may = np.ones(len(logits), bool)
    if "allowed_token_ids" in p:
        may[:] = False
        may[p["allowed_token_ids"]] = True
    for word in p.get("bad", []):
        head = word[:-1]
        if len(head) == 0 or case["output"][len(case["output"]) - len(head):] == head and len(case["output"]) >= len(head):
            may[word[-1]] = False
    if len(case["output"]) < p.get("min_tokens", 0):
        may[p["min_ids"]] = False
    return may


def penalties(case, logits):
    """Stage 6."""
    p = case["params"]
    count = np.zeros(len(logits), F)
    for t in case["output"]:
        if t < len(logits):
            count[t] += 1
    seen = count > 0
    for t in case["prompt"]:
        if t < len(logits):
            seen[t] = True
    r = F(p.get("repetition_penalty", 1))
    logits = np.where(seen, np.where(logits > 0, logits / r, logits * r), logits).astype(F)
    logits = logits - F(p.get("frequency_penalty", 0)) * count
    return (logits - F(p.get("presence_penalty", 0)) * (count > 0)).astype(F)


def softmax(z):
    e = np.exp(z - z.max(), dtype=F)
    return e / e.sum(dtype=F)


def filters(p, z):
    """Stages 9 and 10 on z; removed tokens become -inf."""
    n = len(z)
    probs = softmax(z)
    if p.get("min_p", 0) > 0:
        limit = F(p["min_p"]) * probs.max()
        if np.any(np.abs(probs[probs > 0] / limit - 1) < EDGE):
            raise OnTheEdge
        z = np.where(probs < limit, F(-np.inf), z)
    k = p.get("top_k", 0)
    if 0 < k < n:
        kth = np.sort(z)[n - k]
        near = np.abs(z[np.isfinite(z)] - kth)
        if np.any((near > 0) & (near < EDGE)):
            raise OnTheEdge
        z = np.where(z < kth, F(-np.inf), z)
    top_p = p.get("top_p", 1)
    if top_p < 1:
        # Sort ascending.  Of equal logits the lower id comes last, so it is kept.
        order = np.lexsort((-np.arange(n), z))
        cum = np.cumsum(softmax(z)[order].astype(np.float64))
        if np.any(np.abs(cum[:-1] - (1 - top_p)) < EDGE):
            raise OnTheEdge
        drop = cum <= 1 - top_p
        drop[-1] = False
        z = z.copy()
        z[order[drop]] = -np.inf
    return z


def expect(case):
    p = case["params"]
    logits = np.array(case["logits"], F)
    n_valid = case["n_valid"]
    logits = logits[:n_valid]
    mask = np.ones(n_valid, bool)
    if case["mask"] is not None:
        mask[:] = False
        mask[case["mask"]] = True
    may = mask & allowed_ids(case, logits)
    if not may.any() and case["mask"] is not None:
        may = mask              # the grammar wins
    if not may.any():
        return {"none": True}
    bias = np.zeros(n_valid, F)
    for i, v in p.get("logit_bias", {}).items():
        bias[int(i)] = np.clip(F(v), F(-100), F(100))
    logits = penalties(case, (logits + bias).astype(F))
    logits = np.where(may, logits, F(-np.inf)).astype(F)
    top = int(np.argmax(logits))
    ranked = np.sort(logits[np.isfinite(logits)])
    if len(ranked) > 1 and 0 < ranked[-1] - ranked[-2] < EDGE:
        raise OnTheEdge
    if p["temperature"] == 0:
        return {"top": top}
    z = filters(p, (logits / F(p["temperature"])).astype(F))
    probs = softmax(z)
    return {"top": top, "p": {str(i): float(probs[i]) for i in range(n_valid) if z[i] > -np.inf}}


def ids(rng, n, k):
    return [int(x) for x in rng.choice(n, size=min(k, n), replace=False)]


def make(rng, number):
    n = int(rng.choice([6, 31, 64, 65, 130]))
    n_valid = n if number % 3 else n - 2
    shape = number % 4
    logits = rng.normal(size=n) * 4 if shape < 2 else rng.integers(-6, 7, n) / 2 if shape == 2 else rng.normal(size=n) * 0.5
    few = max(2, n_valid // 3)
    prompt = [int(x) for x in rng.integers(0, few, rng.integers(1, 12))]
    output = [int(x) for x in rng.integers(0, few, rng.integers(0, 30))]
    p = {"temperature": float(rng.choice([0, 0.5, 1, 1, 2]))}

    def some(chance):
        return rng.random() < chance

    if some(0.5):
        p["repetition_penalty"] = float(rng.choice([0.5, 1.1, 1.3, 2]))
    if some(0.4):
        p["frequency_penalty"] = float(rng.choice([-2, -0.3, 0.2, 1.5]))
    if some(0.4):
        p["presence_penalty"] = float(rng.choice([-1, 0.4, 2]))
    if some(0.4):
        p["logit_bias"] = {str(i): float(v) for i, v in zip(ids(rng, n_valid, 4), rng.choice([-150, -100, -3, 1.5, 4, 130], 4))}
    if some(0.25):
        p["allowed_token_ids"] = ids(rng, n_valid, int(rng.integers(1, n_valid)))
    if some(0.4):
        bad = [[i] for i in ids(rng, n_valid, 2)]
        if len(output) >= 2:
            bad += [output[-2:] + ids(rng, n_valid, 1), output[-1:] + ids(rng, n_valid, 1), [output[-1] + 1] + ids(rng, n_valid, 1)]
        bad += [prompt[-1:] + output[:1] + ids(rng, n_valid, 1)]
        p["bad"] = bad
    if some(0.3):
        p["min_tokens"] = int(rng.choice([1, len(output), len(output) + 1, 50]))
        p["min_ids"] = ids(rng, n_valid, 3)
    if some(0.3):
        p["min_p"] = float(rng.choice([0.02, 0.2, 1]))
    if some(0.4):
        p["top_k"] = int(rng.choice([1, 2, 5, n_valid - 1, n_valid + 9]))
    if some(0.4):
        p["top_p"] = float(rng.choice([0.1, 0.5, 0.9, 0.99]))
    mask = ids(rng, n_valid, int(rng.integers(1, n_valid))) if some(0.35) else None
    if mask is not None and number % 5 == 0:
        p["min_tokens"], p["min_ids"] = 50, sorted(mask)
    if mask is not None and number % 7 == 0:
        p["allowed_token_ids"] = [i for i in range(n_valid) if i not in mask] or [0]
    return {"n_valid": n_valid, "logits": [float(F(round(x, 4))) for x in logits], "prompt": prompt, "output": output,
            "mask": mask, "params": p}


def main():
    rng = np.random.default_rng(20240608)
    cases = []
    number = 0
    while len(cases) < 240:
        case = make(rng, number)
        number += 1
        try:
            case["expect"] = expect(case)
        except OnTheEdge:
            continue
        if "p" in case["expect"]:
            case["expect"]["p"] = {k: float(f"{v:.7g}") for k, v in case["expect"]["p"].items()}
        case["logits"] = [float(f"{x:.6g}") for x in case["logits"]]
        cases.append(case)
    sys.stdout.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
