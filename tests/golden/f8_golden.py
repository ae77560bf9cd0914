#!/usr/bin/env python3
"""Record what FP8 codes mean in the Python package torch: writes f8_golden.txt for tests/kernels/test_f8.c.

A line `T decode` with the bits of each code's float, all NaNs written as one; then, for each thousand of
10^5 floats, `T SUM`: FNV-1a of their codes.  The test has the same generator of floats: half of them have
any exponent that matters, half lie exactly between two codes or next to such a value.  Finite values beyond
the largest code become that code; torch leaves this to its caller.
"""
import numpy as np
import torch

N = 100_000
TYPES = [("e4m3", torch.float8_e4m3fn, 20, 448.0), ("e5m2", torch.float8_e5m2, 21, 57344.0)]


def floats(drop):
    x = 2463534242
    out = np.empty(N, np.uint32)
    for i in range(N):
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        u = (x & 0x807FFFFF) | (100 + (x >> 8) % 48) << 23
        if i % 2:
            u = (u >> drop << drop | 1 << (drop - 1)) + (i // 2 % 3 - 1)
        out[i] = u
    return out.view(np.float32)


def fnv(codes):
    h = 0xCBF29CE484222325
    for c in codes:
        h = (h ^ int(c)) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


for name, dtype, drop, most in TYPES:
    every = torch.arange(256, dtype=torch.uint8).view(dtype).float().numpy()
    bits = [0x7FC00000 if np.isnan(f) else int(f.view(np.uint32)) for f in every]
    print(name, "decode", *(f"{b:08x}" for b in bits))
    x = torch.from_numpy(floats(drop).copy()).clamp(-most, most)
    codes = x.to(dtype).view(torch.uint8).numpy()
    for i in range(0, N, 1000):
        print(name, f"{fnv(codes[i:i + 1000]):016x}")
