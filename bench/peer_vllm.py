"""vLLM's side of bench/peers; runs in vLLM's own virtual environment.

    peer_vllm.py MODEL THREADS SEQS BLOCK_SIZE DTYPE

Reads jobs from stdin, a line of JSON each: {"prompts": [[ids]], "tokens": N}; writes a line
"BENCH {json}" at the start and for each job: seconds, and the generated tokens.
"""
import json
import sys
import time


def say(**values):
    print("BENCH " + json.dumps(values), flush=True)


def main():
    import torch
    import vllm
    from vllm import LLM, SamplingParams

    model, threads, seqs, block, dtype = sys.argv[1:]
    options = {"block_size": int(block), "enable_prefix_caching": True} if block != "0" else {"enable_prefix_caching": False}
    llm = LLM(model=model, dtype=dtype, max_num_seqs=int(seqs), max_model_len=1024, max_num_batched_tokens=2048, **options)
    say(ready=True, version=vllm.__version__, torch=torch.__version__, dtype=dtype, threads=int(threads))
    for line in sys.stdin:
        job = json.loads(line)
        params = SamplingParams(max_tokens=job["tokens"], min_tokens=job["tokens"], ignore_eos=True, temperature=0)
        start = time.perf_counter()
        out = llm.generate([{"prompt_token_ids": ids} for ids in job["prompts"]], params, use_tqdm=False)
        seconds = time.perf_counter() - start
        say(seconds=seconds, tokens=[len(o.outputs[0].token_ids) for o in out], first=list(out[0].outputs[0].token_ids[:16]))


if __name__ == "__main__":
    main()
