"""Profiles for LLMServingSim: read as its simulator reads them, they take what `einmap tokens` says of a step."""

import csv
import io
import itertools
import math

import pytest
from tests.frontends.huggingface.configs import PUBLISHED
from tests.serving.test_tokens import MACHINE, TINY

import einmap
from einmap import SpecError, from_huggingface
from einmap.distribute.operators import Exchange, operator_seconds
from einmap.facade import cluster_in
from einmap.frontends.huggingface.read import described
from einmap.serving.layer_times import TimesOnArchitecture, kernel_of, name_of
from einmap.serving.llmservingsim import doubled, llmservingsim_files
from einmap.serving.on_architecture import Mapped
from einmap.serving.tokens import TokenRequest, token_costs

MIXED = {**TINY, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN = {**TINY, "model_type": "qwen3", "head_dim": 16}


def table(text, *keys):
    """Microseconds by keys, numbers where they are."""
    rows = csv.DictReader(io.StringIO(text))
    return {tuple(int(r[k]) if r[k].isdecimal() else r[k] for k in keys): float(r["time_us"]) for r in rows}


def interpolated(found, *at):
    """Linear between the grid's points along each number, as `_axis_bracket` of the simulator's trace generator is."""
    for place, value in enumerate(at):
        if isinstance(value, int):
            axis = sorted({key[place] for key in found})
            if value not in axis:
                low, high = max(a for a in axis if a < value), min(a for a in axis if a > value)
                share = (value - low) / (high - low)
                ends = [interpolated(found, *at[:place], end, *at[place + 1 :]) for end in (low, high)]
                return ends[0] + share * (ends[1] - ends[0])
    return found[at]


def step_of(files, layers, sequences, context, devices=1, chosen=0, number=0):
    """Seconds of a step that decodes, walked as the simulator's sequence of layers is."""
    dense = table(files[f"tp{devices}/dense.csv"], "layer", "tokens")
    heads = table(files[f"tp{devices}/per_sequence.csv"], "layer", "sequences")
    axes = "prefill_chunk", "kv_prefill", "n_decode", "kv_decode"
    attention = table(files[f"tp{devices}/attention.csv"], *axes)
    names = [name for name, _ in dense if name not in ("embedding", "final_layernorm")]
    layer = sum(interpolated(dense, name, sequences) for name in {*names}) + interpolated(dense, "layernorm", sequences)
    layer += interpolated(attention, 0, 0, sequences, context)
    if chosen:
        experts = table(files[f"tp{devices}/moe.csv"], "tokens", "activated_experts")
        layer += interpolated(experts, sequences, min(number, sequences * chosen))
    ends = sum(interpolated(dense, name, sequences) for name in ("embedding", "final_layernorm"))
    ends += sum(interpolated(heads, name, sequences) for name in ("lm_head", "sampler"))
    return (layers * layer + ends) * 1e-6


@pytest.mark.parametrize(("config", "chosen"), [(TINY, 0), (QWEN, 0), (MIXED, 2)])
def test_a_step_that_the_simulator_adds_up_takes_what_tokens_take(config, chosen):
    request = TokenRequest((8,), (128,), first=False)
    files = llmservingsim_files(config, MACHINE, request)
    point = token_costs(config, MACHINE, request).points[0]
    assert step_of(files, 3, 8, 128, chosen=chosen, number=8) == pytest.approx(point.seconds, rel=1e-5)
    between = token_costs(config, MACHINE, TokenRequest((5,), (100,), first=False)).points[0]
    if not chosen:
        assert step_of(files, 3, 5, 100) == pytest.approx(between.seconds, rel=0.01)


def test_on_several_devices_sums_of_layers_are_left_to_the_simulator():
    request = TokenRequest((8,), (128,), 2, {"tensor": 2}, first=False)
    files = llmservingsim_files(TINY, MACHINE, request)
    assert set(files) == {"meta.yaml", "tp2/dense.csv", "tp2/per_sequence.csv", "tp2/attention.csv"}
    point = token_costs(TINY, MACHINE, request).points[0]
    reduced = operator_seconds(cluster_in(MACHINE), Exchange(8 * 64 * 2, 2))
    assert step_of(files, 3, 8, 128, 2) + 3 * 2 * reduced == pytest.approx(point.seconds, rel=1e-5)


def test_a_chunk_of_a_prompt_beside_sequences_takes_the_time_of_both():
    files = llmservingsim_files(TINY, MACHINE, TokenRequest((8,), (128,)))
    axes = "prefill_chunk", "kv_prefill", "n_decode", "kv_decode"
    times = table(files["tp1/attention.csv"], *axes)
    assert times[32, 64, 4, 128] == pytest.approx(times[32, 64, 0, 0] + times[0, 0, 4, 128], rel=1e-5)
    # 32 new positions and 64 cached ones of 2 heads, queries and results of 4 heads, 16 values of 2 bytes; a launch
    assert times[32, 64, 0, 0] == pytest.approx((2 * 16 * 2 * (2 * 96 + 4 * 32)) * 1e-3 + 1, rel=1e-5)
    # nothing beside one thing or the other; every other pair is there
    chunks, kept, number, cached = ({key[i] for key in times} for i in range(4))
    assert (0, 0, 0, 0) not in times
    assert len(times) == (1 + (len(chunks) - 1) * len(kept)) * (1 + (len(number) - 1) * (len(cached) - 1)) - 1


MACHINES = ["simple", pytest.param("tpu_v4i", marks=[pytest.mark.slow, pytest.mark.mapper])]
"""Architectures to map on: a search takes longer where there is an array."""


@pytest.mark.parametrize("name", MACHINES)
def test_on_an_architecture_kernels_are_mapped_and_add_up_to_the_layer(name):
    arch = einmap.load(name)
    request = TokenRequest((4,), (16,), first=False, fuse=False, widths={"activation_bits": 8, "cache_bits": 8})
    point = token_costs(QWEN, arch, request).points[0]
    made, widths = described(QWEN, activation_bits=8, cache_bits=8)
    times = TimesOnArchitecture(made, widths, Mapped(arch, "latency", 60.0, fuse=False))
    rows, heads, attention = times.of_rows(4), times.of_sequences(4), times.of_attention(4, 1, 16)
    ends = rows.pop("embedding") + rows.pop("final_layernorm") + heads["lm_head"]
    layer = math.fsum(rows.values()) + rows["layernorm"] + attention
    assert set(rows) == {
        "layernorm", "qkv_proj", "qk_norm", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"
    }  # fmt: skip
    assert point.seconds == pytest.approx(3 * layer + ends, rel=1e-6)


@pytest.mark.parametrize("name", MACHINES)
def test_experts_of_an_architecture_add_up_to_the_layer_where_as_many_are_busy_as_a_step_needs(name):
    arch = einmap.load(name)
    widths = {"activation_bits": 8, "cache_bits": 8}
    point = token_costs(MIXED, arch, TokenRequest((2,), (16,), first=False, fuse=False, widths=widths)).points[0]
    made, bits = described(MIXED, **widths)
    times = TimesOnArchitecture(made, bits, Mapped(arch, "latency", 60.0, fuse=False))
    rows = times.of_rows(2)
    outside = math.fsum(rows[name] for name in rows if name not in ("embedding", "final_layernorm")) + rows["layernorm"]
    layer = outside + times.of_attention(2, 1, 16) + times.of_experts(2, 4)
    assert point.parts[1].seconds == pytest.approx(layer, rel=0.01)


def test_each_einsum_of_a_decoder_of_equal_layers_is_in_a_kernel():
    names = {
        name_of(entry)
        for config, context in itertools.product(
            ("Llama-3.1-8B", "Qwen2.5-7B", "Qwen3-8B", "Mistral-7B-v0.1", "Mixtral-8x7B", "Qwen1.5-MoE-A2.7B"), (0, 9)
        )
        for part in from_huggingface(PUBLISHED[config][0], tokens=4, context=context).parts
        for entry in part.einsums
    }
    assert {kernel_of(name) for name in names} > {"attention", "moe", "lm_head"}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("gemma-2-9b", "kinds"),
        ("DeepSeek-V3", "kinds"),
        ("mamba2-130m", "without attention by heads"),
        ("bert-base-uncased", "encoder"),
    ],
)
def test_a_model_that_the_simulator_has_no_names_for_is_refused(name, what):
    with pytest.raises(SpecError, match=what):
        llmservingsim_files(PUBLISHED[name][0], MACHINE)


def test_grids_end_at_what_is_asked_for():
    assert doubled(1, 1) == [1]
    assert doubled(1, 8) == [1, 2, 4, 8]
    assert doubled(16, 100, 4) == [16, 64, 100]
