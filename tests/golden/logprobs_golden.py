#!/usr/bin/env python3
"""Record the log-probabilities of texts in transformers, for logprobs_golden.c.

    logprobs_golden.py        run in the repository's root; writes logprobs_golden.txt

Needs torch, transformers and tokenizers.  The script cuts a prompt and its continuation into tokens by
the rule of lm-evaluation-harness, written out here: white space at the prompt's end goes
to the continuation, both are tokenized together, and the continuation's tokens are those after
as many tokens as the prompt alone has.  Texts in which a token reaches across the boundary
are left out, because the harness' figures for them are of other tokens.  Weights are float32, sums
float64.  A text without a continuation is for perplexity (transformers' loss).

Lines: MODEL HEX(prompt) HEX(continuation, or -) SUM TOKENS GREEDY; perplexity: MODEL HEX(text) - VALUE
TOKENS 0.
"""
import math

import fixtures
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

MODELS = ["llama_f32", "mistral_f32", "qwen2_f32", "llama3_f32", "gpt2_f16", "llama_bias_f16", "mamba_f16"]
PROMPTS = ["The answer is", "The answer is ", "Ticket: the parcel arrived broken.\nSubject:", "naïve café: ", "A\n\n",
           "  leading, and a much longer text that fills more than two blocks of the cache", ""]
CONTINUATIONS = [" yes", "no", "the", " it depends on the others", "é", "\n", "42", "a broken parcel and the other one in it"]
TEXTS = ["The quick brown fox jumps over the lazy dog.", "the the the the", "x y", "Ünïcödé 世界 text\nwith lines\n"]


def main():
    fixtures.unpack("models")
    with open("tests/golden/logprobs_golden.txt", "w") as out:
        for name in MODELS:
            path = "build/fixtures/models/" + name
            tok = Tokenizer.from_file(path + "/tokenizer.json")
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
            cfg = model.config
            prefix = cfg.bos_token_id if cfg.bos_token_id is not None else cfg.eos_token_id

            def encode(text):
                return tok.encode(text).ids

            def score(ids, first):
                with torch.no_grad():
                    logits = model(torch.tensor([ids[:-1]])).logits[0].double()
                logp = torch.log_softmax(logits, -1)
                rows = range(first - 1, len(ids) - 1)
                total = sum(float(logp[i, ids[i + 1]]) for i in rows)
                greedy = all(int(logits[i].argmax()) == ids[i + 1] for i in rows)
                return total, len(ids) - first, int(greedy)

            best = {}
            for prompt in PROMPTS:
                more = list(CONTINUATIONS)
                context = encode(prompt.rstrip()) or [prefix]
                with torch.no_grad():
                    more.append(tok.decode([int(model(torch.tensor([context])).logits[0, -1].argmax())]))
                for cont in dict.fromkeys(more):
                    n = len(prompt) - len(prompt.rstrip())
                    a, b = prompt[:len(prompt) - n], prompt[len(prompt) - n:] + cont
                    whole = encode(a + b)
                    context = encode(a)
                    if whole[:len(context)] != context or len(whole) == len(context):
                        continue
                    if not context:
                        context, whole = [prefix], [prefix] + whole
                    total, tokens, greedy = score(whole, len(context))
                    best[greedy] = best.get(greedy, 0) + 1
                    out.write(f"{name} {prompt.encode().hex() or '-'} {cont.encode().hex()} {total:.9g} {tokens} {greedy}\n")
            for text in TEXTS:
                ids = torch.tensor([encode(text)])
                with torch.no_grad():
                    loss = float(model(ids, labels=ids).loss)
                out.write(f"{name} {text.encode().hex()} - {math.exp(loss):.9g} {ids.shape[1] - 1} 0\n")
            print(name, best)


main()
