"""Texts that are longer than a window, or than the model was trained for."""


def long(model_type, prompt, **config):
    return dict(config=dict(model_type=model_type, hidden_size=32, intermediate_size=48, **config), prompt=prompt,
                positions=[0, 6, 39, prompt // 2, prompt - 1])


ARCHS = {
    # some KV blocks lie entirely before the window, others contain its edge
    "mistral_long_f16": long("mistral", 220, head_dim=8, max_position_embeddings=512, sliding_window=70,
                             rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    # three of four layers have a window; the fourth has no positions
    "cohere2_long_f16": long("cohere2", 200, num_hidden_layers=4, sliding_window=45, logit_scale=0.8, max_position_embeddings=512),
    # transformers chooses the factors for long texts
    "phi3_long_f16": long("phi3", 150, max_position_embeddings=256, original_max_position_embeddings=128,
                          rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 1.0,
                                           "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 4.0, 6.0]}),
    # Transformers computes theta for a text of exactly this length, so no token may be added.
    "rope_dynamic_full_f16": dict(long("llama", 128, head_dim=16, max_position_embeddings=64,
                                       rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}), greedy=0),
}
