"""Decoders that embed, score and classify."""
import gen_pool as gp

QUERY = "Instruct: find what answers\nQuery:"
TEXTS = ["The quick brown fox jumps over the lazy dog.", "Ünïcödé, 数字 и прочее", "a",
         "what comes after the first window of this rather long text, which goes on and on and on?"]


def embeds(*texts, **more):
    return [dict(task="embed", text=t, **more) for t in texts or TEXTS]


POOLS = {
    "qwen3_embedding": dict(
        config=dict(model_type="qwen3", head_dim=16, tie_word_embeddings=True), post=gp.append_eos,
        # as it is published: a class with a head, tensors without
        config_json=lambda c: c.update(architectures=["Qwen3ForCausalLM"]),
        st=dict(pooling="lasttoken", normalize=True, config=dict(prompts={"query": QUERY, "document": ""}, default_prompt_name=None)),
        tasks="embed, token_embed", quantized=0.998,
        cases=embeds() + [
            dict(task="token_embed", text=TEXTS[1])]),
}
