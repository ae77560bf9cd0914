#!/usr/bin/env python3
"""Record tokens' log-probabilities in transformers, and the results of a plain beam search, for
outputs_golden.c.

    outputs_golden.py        run in the repository's root; writes outputs_golden.txt

Needs torch and transformers.  Weights are float32, log-softmax is float64.  The beam search is vLLM's rule
written out: of each hypothesis take the 2 * width most likely tokens; an EOS completes it; the best `width`
of the others continue; score = sum / (prompt and answer without EOS) ** length_penalty.  Cases in which
rounding could decide (two candidates closer than GAP) are left out, and counted.

Lines:
  G MODEL N ids... M ids...         temperature 0: prompt and answer; then for each position from the second on:
  P RANK VALUE K (ID VALUE)...      its own token's rank and value, the K most likely tokens
  B MODEL WIDTH PENALTY IGNORE N ids... TOKENS RESULTS      a beam search, then its results:
  R SCORE SUM STOPPED N ids...
"""
import fixtures
import torch
from transformers import AutoModelForCausalLM

MODELS = ["llama_f32", "qwen2_f32", "gpt2_f16", "mamba_f16"]
TOP = 5
GAP = 2e-4


def logprobs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)


def top(row, k):
    v, i = row.topk(k + 1)
    gaps = v[:-1] - v[1:]
    return i[:k].tolist(), v[:k].tolist(), float(gaps.min())


def greedy(out, name, model, prompt, n):
    ids = list(prompt)
    gap = 1.0
    for _ in range(n):
        best, _, g = top(logprobs(model, ids)[-1], 1)
        gap = min(gap, g)
        ids.append(best[0])
    if gap < GAP:
        return False
    lp = logprobs(model, ids)
    out.write(f"G {name} {len(prompt)} {' '.join(map(str, prompt))} {n} {' '.join(map(str, ids[len(prompt):]))}\n")
    for p in range(len(ids) - 1):
        i, v, _ = top(lp[p], TOP)
        own = lp[p, ids[p + 1]]
        rank = int((lp[p] >= own).sum())
        out.write(f"P {rank} {float(own):.7f} {TOP} {' '.join(f'{a} {b:.7f}' for a, b in zip(i, v))}\n")
    return True


def beams(out, name, model, prompt, width, penalty, ignore, steps):
    eos = model.config.eos_token_id
    live, done, gap = [([], 0.0)], [], 1.0

    def score(ids, cum):
        return cum / (len(prompt) + len(ids)) ** penalty

    for _ in range(steps):
        cands = []
        for ids, cum in live:
            i, v, g = top(logprobs(model, list(prompt) + ids)[-1], 2 * width)
            gap = min(gap, g)
            for a, b in zip(i, v):
                if a == eos and not ignore:
                    done.append((score(ids, cum + b), cum + b, 1, ids))
                else:
                    cands.append((ids + [a], cum + b))
        cands.sort(key=lambda c: -c[1])
        if len(cands) > width:
            gap = min(gap, cands[width - 1][1] - cands[width][1])
        live = cands[:width]
    done += [(score(ids, cum), cum, 0, ids) for ids, cum in live]
    done.sort(key=lambda d: -d[0])
    for a, b in zip(done[:width], done[1:width + 1]):
        gap = min(gap, a[0] - b[0])
    if gap < GAP / 4:
        return False
    done = done[:width]
    out.write(f"B {name} {width} {penalty} {int(ignore)} {len(prompt)} {' '.join(map(str, prompt))} {steps} {len(done)}\n")
    for s, cum, stopped, ids in done:
        out.write(f"R {s:.7f} {cum:.7f} {stopped} {len(ids)} {' '.join(map(str, ids))}\n")
    return True


def main():
    fixtures.unpack("models")
    kept, dropped = 0, 0
    with open("tests/golden/outputs_golden.txt", "w") as out:
        for name in MODELS:
            model = AutoModelForCausalLM.from_pretrained("build/fixtures/models/" + name, dtype=torch.float32).eval()
            vocab = model.config.vocab_size
            g = torch.Generator().manual_seed(5)
            for n in (3, 17, 40):
                prompt = torch.randint(3, vocab - 20, (n,), generator=g).tolist()
                cases = [greedy(out, name, model, prompt, 9)]
                for width, penalty, ignore in ((1, 1.0, True), (2, 1.0, False), (3, 0.0, False), (4, 2.0, True)):
                    cases.append(beams(out, name, model, prompt, width, penalty, ignore, 7))
                kept += sum(cases)
                dropped += len(cases) - sum(cases)
    print(kept, "cases,", dropped, "left out")


main()
