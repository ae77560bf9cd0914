#!/usr/bin/env python3
"""What torch and transformers reach on the same GPU; bench/gpu compares with it.

    bench/gpu_torch.py [--smoke] gemm|hf...

gemm: BF16 products of the sizes that bench/gpu uses, in operations per second.  hf: a random model of Llama
3.1 8B's shape answers 256 prompts of 512 tokens with 128 each as one static batch, in tokens per second.
Prints lines of a name, a tab and a number, or `skipped`, a tab and the reason.  --smoke: tiny shapes, on
the CPU.
"""
import sys
import time

LAYER = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
ROWS = [1, 16, 64, 256, 1024, 2048, 8192]


def tell(name, value):
    print(f"{name}\t{value}", flush=True)


def timed(torch, cuda, f):
    """Return the seconds of one call: the median of 7 measurements, each of a millisecond or more."""
    def run(n):
        if cuda:
            torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(n):
            f()
        if cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - t) / n

    run(3)
    n = 1 + int(0.002 / max(run(3), 1e-6))
    return sorted(run(n) for _ in range(7))[3]


def gemm(torch, cuda, smoke):
    sizes = [(40, 72, 64)] if smoke else [(s, s, s) for s in (4096, 8192)] + [(m, n, k) for n, k in LAYER for m in ROWS]
    where = "cuda" if cuda else "cpu"
    for m, n, k in sizes:
        # use enough matrices that no L2 cache holds them all
        count = 1 if smoke else (512 << 20) // (2 * n * k) + 1
        x = torch.randn(m, k, device=where, dtype=torch.bfloat16)
        w = [torch.randn(n, k, device=where, dtype=torch.bfloat16) for _ in range(count)]
        turn = iter(range(1 << 60))
        t = timed(torch, cuda, lambda: torch.nn.functional.linear(x, w[next(turn) % count]))
        tell(f"gemm {m} {n} {k}", 2 * m * n * k / t)


def hf(torch, cuda, smoke):
    import transformers
    transformers.logging.set_verbosity_error()
    shape = dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                 vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0)
    rows, prompt, answer = 256, 512, 128
    if smoke:
        shape.update(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        rows, prompt, answer = 3, 5, 3
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if cuda else "cpu"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()
        ids = torch.randint(0, shape["vocab_size"], (rows, prompt))
    t = None
    with torch.inference_mode():
        for _ in range(2):
            if cuda:
                torch.cuda.synchronize()
            t = time.perf_counter()
            model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=answer, min_new_tokens=answer, do_sample=False, pad_token_id=0)
            if cuda:
                torch.cuda.synchronize()
            t = time.perf_counter() - t
    tell("hf", rows * answer / t)


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    smoke = "--smoke" in sys.argv
    if "--help" in sys.argv or not names or [n for n in names if n not in ("gemm", "hf")]:
        print(__doc__)
        sys.exit(0 if "--help" in sys.argv else 2)
    try:
        import torch
        cuda = not smoke and torch.cuda.is_available()
        if not smoke and not cuda:
            raise RuntimeError("torch finds no GPU")
    except Exception as e:
        tell("skipped", f"torch: {e}")
        return
    for name in names:
        try:
            {"gemm": gemm, "hf": hf}[name](torch, cuda, smoke)
        except Exception as e:  # no transformers, no memory: the other figures stand
            tell("skipped", f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")


main()
