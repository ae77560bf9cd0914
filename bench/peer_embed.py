"""The peers' side of bench/embed; runs in their own virtual environment (bench/peers-setup embed).

    peer_embed.py ENGINE MODEL THREADS WORK

ENGINE: st-float32, st-bfloat16 (sentence-transformers), ort-float32, ort-int8 (onnxruntime on a graph that
this script exports; int8 by onnxruntime's dynamic quantization).  Reads jobs from stdin, a line of JSON
each: {"texts": [...]}; writes a line "BENCH {json}" at the start and for each job: seconds, and the vectors
of the first texts.  All engines sort by length, pad to the longest text of a batch of 32, and tokenize
within the measured time.
"""
import json
import os
import sys
import time

BATCH, SHOWN = 32, 64


def say(**values):
    print("BENCH " + json.dumps(values), flush=True)


def sentence_transformer(model, dtype):
    import sentence_transformers
    import torch

    st = sentence_transformers.SentenceTransformer(model, device="cpu", model_kwargs={"dtype": getattr(torch, dtype)})
    say(ready=True, version=f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}")
    return lambda texts: st.encode(texts, batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False).astype("float32")


def export(model, work, int8):
    """Export the encoder as an ONNX graph; its output is the last hidden state."""
    import torch
    import transformers

    plain = os.path.join(work, "float32.onnx")
    if not os.path.exists(plain):
        os.makedirs(work, exist_ok=True)
        bert = transformers.AutoModel.from_pretrained(model, attn_implementation="eager").eval()

        class Hidden(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.bert = bert

            def forward(self, ids, mask, types):
                return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

        ids = torch.ones(2, 8, dtype=torch.long)
        axes = {0: "batch", 1: "length"}
        torch.onnx.export(Hidden(), (ids, ids, torch.zeros_like(ids)), plain + ".part", input_names=["input_ids", "attention_mask", "token_type_ids"],
                          output_names=["hidden"], dynamic_axes={n: axes for n in ("input_ids", "attention_mask", "token_type_ids", "hidden")},
                          opset_version=17, dynamo=False)
        os.rename(plain + ".part", plain)
    if not int8:
        return plain
    quantized = os.path.join(work, "int8.onnx")
    if not os.path.exists(quantized):
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, quantized + ".part", weight_type=QuantType.QInt8, per_channel=True)
        os.rename(quantized + ".part", quantized)
    return quantized


def onnx(model, threads, work, int8):
    import numpy as np
    import onnxruntime as ort
    import tokenizers

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(export(model, work, int8), options, providers=["CPUExecutionProvider"])
    tok = tokenizers.Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
    limit = json.load(open(os.path.join(model, "sentence_bert_config.json")))["max_seq_length"]
    tok.enable_truncation(limit)
    tok.enable_padding()
    say(ready=True, version=f"onnxruntime {ort.__version__}")

    def encode(texts):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        out = None
        for at in range(0, len(order), BATCH):
            some = order[at:at + BATCH]
            enc = tok.encode_batch([texts[i] for i in some])
            ids = np.array([e.ids for e in enc], dtype=np.int64)
            mask = np.array([e.attention_mask for e in enc], dtype=np.int64)
            hidden = session.run(["hidden"], {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})[0]
            m = mask[:, :, None].astype("float32")
            v = (hidden * m).sum(1) / m.sum(1)
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            if out is None:
                out = np.empty((len(texts), v.shape[1]), dtype="float32")
            out[some] = v
        return out

    return encode


def main():
    engine, model, threads, work = sys.argv[1:]
    os.environ["OMP_NUM_THREADS"] = threads
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["RAYON_NUM_THREADS"] = threads
    kind, dtype = engine.split("-")
    if kind == "st":
        import torch

        torch.set_num_threads(int(threads))
        encode = sentence_transformer(model, dtype)
    else:
        encode = onnx(model, int(threads), work, dtype == "int8")
    for line in sys.stdin:
        texts = json.loads(line)["texts"]
        start = time.perf_counter()
        out = encode(texts)
        seconds = time.perf_counter() - start
        say(seconds=seconds, vectors=[[round(float(x), 7) for x in v] for v in out[:SHOWN]])


if __name__ == "__main__":
    main()
