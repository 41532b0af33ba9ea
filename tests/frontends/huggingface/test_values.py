"""Small models of every architecture: the imported step, evaluated, beside a forward pass of the whole sequence."""

import numpy as np
import pytest
from tests.frontends.huggingface.forward import RECURRENT, Forward, heat

from einmap import from_huggingface
from einmap.einsum.numeric import run
from einmap.frontends.huggingface.einsums import WEIGHTS

PLAIN = {
    "hidden_size": 12, "intermediate_size": 10, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "num_hidden_layers": 2, "vocab_size": 9,
}  # fmt: skip
MOE = {**PLAIN, "moe_intermediate_size": 5, "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": True}
DEEPSEEK = {
    "hidden_size": 12, "intermediate_size": 10, "num_attention_heads": 3, "num_key_value_heads": 3,
    "num_hidden_layers": 2, "vocab_size": 9, "kv_lora_rank": 5, "qk_nope_head_dim": 4, "qk_rope_head_dim": 6,
    "v_head_dim": 7, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 3, "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}  # fmt: skip
MAMBA = {
    "hidden_size": 6, "num_heads": 4, "head_dim": 3, "expand": 2, "n_groups": 2, "state_size": 5, "conv_kernel": 4,
    "chunk_size": 4, "num_hidden_layers": 2, "vocab_size": 9, "tie_word_embeddings": True,
}  # fmt: skip
MAMBA_1 = {
    "hidden_size": 6, "intermediate_size": 8, "state_size": 5, "conv_kernel": 4, "time_step_rank": 3,
    "num_hidden_layers": 2, "vocab_size": 9, "tie_word_embeddings": True,
}  # fmt: skip
SCALES = {
    "embedding_multiplier": 3.0, "logits_scaling": 4.0, "residual_multiplier": 0.3, "attention_multiplier": 0.2,
    "tie_word_embeddings": True,
}  # fmt: skip
SMALL = {
    "llama": {**PLAIN, "model_type": "llama"},
    "mistral": {**PLAIN, "model_type": "mistral", "sliding_window": 5},
    "qwen2": {**PLAIN, "model_type": "qwen2", "tie_word_embeddings": True, "use_sliding_window": True,
              "sliding_window": 4, "max_window_layers": 1},
    "qwen3": {**PLAIN, "model_type": "qwen3"},
    "gemma": {**PLAIN, "model_type": "gemma", "num_key_value_heads": 1},
    "gemma2": {**PLAIN, "model_type": "gemma2", "sliding_window": 5, "attn_logit_softcapping": 0.5,
               "final_logit_softcapping": 0.7, "query_pre_attn_scalar": 9},
    "gemma3": {**PLAIN, "model_type": "gemma3_text", "sliding_window": 6, "sliding_window_pattern": 2,
               "query_pre_attn_scalar": 8},
    "phi3": {**PLAIN, "model_type": "phi3", "sliding_window": 7},
    "mixtral": {**PLAIN, "model_type": "mixtral", "num_local_experts": 3, "num_experts_per_tok": 2},
    "qwen2_moe": {**MOE, "model_type": "qwen2_moe", "norm_topk_prob": False, "shared_expert_intermediate_size": 7},
    "qwen3_moe": {**MOE, "model_type": "qwen3_moe", "decoder_sparse_step": 2},
    "deepseek_v2": {**DEEPSEEK, "model_type": "deepseek_v2", "routed_scaling_factor": 1.5},
    "deepseek_v3": {**DEEPSEEK, "model_type": "deepseek_v3", "q_lora_rank": 8, "routed_scaling_factor": 2.5},
    "deepseek_v32": {**DEEPSEEK, "model_type": "deepseek_v32", "q_lora_rank": 8, "index_n_heads": 2,
                     "index_head_dim": 6, "index_topk": 2},
    "qwen3_next": {**MOE, "model_type": "qwen3_next", "full_attention_interval": 2, "linear_conv_kernel_dim": 3,
                   "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 3,
                   "linear_value_head_dim": 5, "shared_expert_intermediate_size": 7},
    "mamba2": {**MAMBA, "model_type": "mamba2"},
    "olmo2": {**PLAIN, "model_type": "olmo2"},
    "granite": {**PLAIN, **SCALES, "model_type": "granite"},
    "granitemoe": {**PLAIN, **SCALES, "model_type": "granitemoe", "num_local_experts": 3, "num_experts_per_tok": 2},
    "phi": {**PLAIN, "model_type": "phi", "hidden_act": "gelu"},
    "nemotron": {**PLAIN, "model_type": "nemotron", "hidden_act": "relu2"},
    "gpt_oss": {**PLAIN, "model_type": "gpt_oss", "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 4,
                "swiglu_limit": 0.4},
    "llama4": {**PLAIN, "model_type": "llama4_text", "num_local_experts": 3, "num_experts_per_tok": 1,
               "no_rope_layer_interval": 2, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 7,
               "attention_chunk_size": 2, "floor_scale": 2, "attn_scale": 0.3},
    "mamba": {**MAMBA_1, "model_type": "mamba"},
    "falcon_mamba": {**MAMBA_1, "model_type": "falcon_mamba"},
}  # fmt: skip
STEPS = {"token": (1, 5), "first": (1, 0), "chunk": (3, 4), "prompt": (7, 0)}


def weights_of(model, rng):
    """Random weights by name."""
    found = {}
    for part in model.parts:
        for name, (tensor, role) in part.inputs.items():
            if role in WEIGHTS:
                found[name] = rng.normal(0, 0.5, [part.sizes[v.upper()] for v in tensor.variables])
    return found


def turns(context, tokens, half):
    """Matrices that turn pairs of features by their positions: [m, q, r, i], from feature q to r."""
    angle = np.arange(context, context + tokens)[:, None] * 10000.0 ** (-np.arange(half) / half)
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1, 3)


def given(name, tensor, shape, judge, context, tokens, ids):
    """The value of an input that is not a weight."""
    base = name.rpartition("_")[0]
    if base == "Ids":
        return ids[:, context:]
    if base == "Kinds":
        return np.zeros(shape)
    if base == "Heat":
        return heat(judge.c, np.arange(context, context + tokens))
    if base in ("Turns", "Index_turns"):
        return turns(context, tokens, shape[-1])
    if base == "Picked":
        return judge.index[int(name.rpartition("_")[2])][1][:, context : context + tokens, : shape[-1]]
    if base == "State":
        return judge.cache[name][:, context - 1] if context else np.zeros(shape)
    if base == "Earlier":
        return np.tril(np.ones(shape), -1)
    whole = judge.cache[name][:, :context]
    if base in ("K_cache", "IK_cache") and len(shape) > whole.ndim:  # two halves of features
        whole = whole.reshape(*whole.shape[:-1], 2, -1)
    if judge.kind in RECURRENT:
        rows = np.concatenate([np.zeros((shape[0], shape[1], *shape[2:])), whole], 1)
        return rows[:, rows.shape[1] - shape[1] :]
    return whole[:, context - shape[1] :]


def inputs_of(model, judge, weights, context, tokens, ids):
    """All inputs of the workload."""
    found = dict(weights)
    for part in model.parts:
        end = part.name.replace("layer", "")
        if f"Busy{end}" in part.inputs or f"Sample{end}" in part.inputs:
            found |= routed_inputs(part, end, judge.routed[int(end[1:])][:, context:])
        for name, (tensor, _) in part.inputs.items():
            if name not in found:
                shape = [part.sizes[v.upper()] for v in tensor.variables]
                found[name] = given(name, tensor, shape, judge, context, tokens, ids)
    return found


def routed_inputs(part, end, chosen):
    """Tables of one mixture of experts, by the chosen experts of each token `[b, m, k]`."""
    a, c = (part.sizes[v.upper()] for v in part.inputs[f"Sample{end}"][0].variables)
    experts = range(int(part.inputs[f"WEU{end}"][0].variables[0][1:]))
    busy = sorted({int(e) for e in chosen.flat}) if f"Busy{end}" in part.inputs else list(experts)
    busy += [e for e in experts if e not in busy][: a - len(busy)]
    sample, token = -np.ones((a, c)), -np.ones((a, c))
    row, place, choice = np.zeros(chosen.shape), np.zeros(chosen.shape), np.zeros((a, c))
    taken = dict.fromkeys(busy, 0)
    for (b, m, k), e in np.ndenumerate(chosen):
        at, p = busy.index(e), taken[e]
        if p >= c:
            raise OverflowError(e)
        sample[at, p], token[at, p], choice[at, p] = b, m, k
        row[b, m, k], place[b, m, k] = at, p
        taken[e] += 1
    found = {f"Sample{end}": sample, f"Token{end}": token, f"Row{end}": row, f"Place{end}": place}
    found[f"Chosen{end}"] = chosen
    if f"Choice{end}" in part.inputs:
        found[f"Choice{end}"] = choice
    if f"Busy{end}" in part.inputs:
        found[f"Busy{end}"] = np.array(busy)
    return found


def even(config, model, weights, ids, context):
    """Whether the random routing of these weights fits the even spread of the import."""
    judge = Forward(config, weights, ids)
    judge.run()
    try:
        for part in model.parts:
            end = part.name.replace("layer", "")
            if f"Sample{end}" in part.inputs:
                routed_inputs(part, end, judge.routed[int(end[1:])][:, context:])
    except OverflowError:
        return False
    return True


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", SMALL)
def test_a_step_gives_the_logits_of_the_whole_sequence(kind, step):
    config, (tokens, context) = SMALL[kind], STEPS[step]
    if kind in RECURRENT:
        tokens, context = {"chunk": (3, 0), "prompt": (8, 0)}.get(step, (tokens, context))
    if kind == "llama4":  # in chunks of 2 positions
        tokens, context = {"chunk": (1, 5), "prompt": (3, 0)}.get(step, (tokens, context))
    if kind == "deepseek_v32" and step == "chunk":  # all of 2 positions are chosen
        tokens, context = 1, 1
    # few tokens, which random routers spread evenly soon
    routed = "num_experts_per_tok" in config
    batch = 1 if routed else 2
    tokens = min(tokens, 2 if kind == "gpt_oss" else 3) if routed else tokens
    model = from_huggingface(config, batch=batch, tokens=tokens, context=context, unrolled=True)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        weights, ids = weights_of(model, rng), rng.integers(0, 9, (batch, context + tokens))
        if even(config, model, weights, ids, context):
            break
    else:
        raise AssertionError("no weights spread the tokens evenly")
    judge = Forward(config, weights, ids)
    logits = judge.run()
    found = run(model.spec.workload, inputs_of(model, judge, weights, context, tokens, ids))
    np.testing.assert_allclose(found["Logits_H"][:, -1], logits[:, -1], rtol=1e-10, atol=1e-10)
    for n, (scores, _) in judge.index.items():
        parts = [found[name] for name in (f"I_cached_{n}", f"I_{n}") if name in found]
        rows, seen = scores[:, context:], np.tril(np.ones((context + tokens,) * 2))[context:]
        np.testing.assert_allclose(np.concatenate(parts, -1) * seen, rows * seen, rtol=1e-10, atol=1e-10)
    for name, rows in judge.cache.items():
        base, _, layer = name.rpartition("_")
        new = found[f"{base.removesuffix('_cache')}_new_{layer}"]
        expected = rows[:, -1] if base == "State" else rows[:, -new.shape[1] :]
        np.testing.assert_allclose(new.reshape(expected.shape), expected, rtol=1e-10, atol=1e-10)


def test_an_encoder_gives_the_pooled_first_position_of_a_whole_forward_pass():
    config = {
        "model_type": "bert", "hidden_size": 8, "intermediate_size": 6, "num_attention_heads": 2,
        "num_hidden_layers": 2, "vocab_size": 9, "max_position_embeddings": 7, "type_vocab_size": 2,
        "hidden_act": "gelu",
    }  # fmt: skip
    model = from_huggingface(config, batch=2, tokens=5, unrolled=True)
    rng = np.random.default_rng(0)
    weights, ids = weights_of(model, rng), rng.integers(0, 9, (2, 5))
    judge = Forward(config, weights, ids)
    inputs = inputs_of(model, judge, weights, 0, 5, ids)
    inputs["Position_E"] = inputs["Position_E"][:5]
    found = run(model.spec.workload, inputs)
    np.testing.assert_allclose(found["Pooled_H"][:, 0], judge.run(), rtol=1e-10, atol=1e-10)
