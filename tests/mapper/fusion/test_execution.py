"""Fused mappings of the shipped cascades run on real data: outputs as NumPy's, counts as the model's.

Buffers are small, so that the best mappings keep tiles inside and not whole tensors.
"""

import pytest
from tests.execute.agreement import differences

import einmap
from einmap.model.fusion import fusion_of

ATTENTION = {"N_TOKENS": 4, "D_HEAD": 2, "HEADS": 2}
WHOLE = ATTENTION | {"N_TOKENS": 2, "D_IN": 2, "D_MODEL": 2, "SOFTMAX": "safe"}
ONE_HEAD = {"N_TOKENS": 4, "D_HEAD": 2, "D_IN": 2, "D_MODEL": 2}
FEED_FORWARD = {"N_TOKENS": 8, "D_MODEL": 4, "D_FF": 8}
MOBILENET = {"C": 4, "M": 4, "P": 4, "Q": 4}
GPT = {"N_TOKENS": 4, "D_MODEL": 4, "HEADS": 2, "D_HEAD": 2, "D_FF": 8}

LONG = ("attention, one head",)
"""Takes many seconds to find."""
BOTH = ("exact", "accelforge")
EXACT = ("exact",)
"""Where the best mapping of the other preset fits under its own rules alone, or takes long to find."""
CASES = {
    "core of attention": ("simple", "attention_core", ATTENTION, {"GlobalBuffer": 200}, BOTH),
    "attention, one head": ("simple", "attention_single_head", ONE_HEAD, {"GlobalBuffer": 120}, EXACT),
    "feed-forward": ("simple", "feed_forward", FEED_FORWARD, {"GlobalBuffer": 300}, BOTH),
    "feed-forward, gated": ("simple", "feed_forward", FEED_FORWARD | {"GATED": 1}, {"GlobalBuffer": 300}, EXACT),
    "feed-forward on an array": ("nvdla", "feed_forward", FEED_FORWARD, {"ConvBuffer": 400}, BOTH),
    "MobileNet": ("simple", "mobilenet_pair", MOBILENET, {"GlobalBuffer": 500}, EXACT),
    "MobileNet, three levels": ("edge", "mobilenet_pair", MOBILENET, {"SRAM": 600}, EXACT),
}
"""Architecture, workload, sizes, bits of memories, presets: something is fused tile by tile."""

WITH_ROOM = {
    "attention, all heads": ("simple", "attention", WHOLE),
    "attention on an array": ("nvdla", "attention_core", ATTENTION),
    "feed-forward on a TPU": ("tpu_v4i", "feed_forward", FEED_FORWARD),
    "feed-forward on Eyeriss": ("eyeriss", "feed_forward", FEED_FORWARD),
    "feed-forward on Simba": ("simba", "feed_forward", FEED_FORWARD),
    "a layer of GPT-3": ("simple", "gpt3_6.7b", GPT),
}
"""The same with the buffers as they are: whole tensors stay inside."""


def spec_of(arch, workload, define, sizes=None):
    spec = einmap.load(arch, workload, define=define)
    for i, node in enumerate(spec.get("arch.nodes")):
        if sizes and node.get("name") in sizes:
            spec = spec.set(f"arch.nodes[{i}].size", sizes[node["name"]])
    return spec


def cases():
    for name, case in CASES.items():
        for rules in case[-1]:
            is_slow = name in LONG or (rules == "accelforge" and name != "core of attention")
            yield pytest.param(name, rules, marks=(pytest.mark.slow, pytest.mark.fusion) if is_slow else ())


@pytest.mark.parametrize(("case", "semantics"), list(cases()))
def test_tiles_of_intermediates_stay_inside_and_everything_agrees(case, semantics):
    spec = spec_of(*CASES[case][:-1])
    result = einmap.map_workload(spec, semantics=semantics)
    assert result.optimal
    fusion = fusion_of(result.mapping, result.spec)
    assert any(kept.loops for kept in fusion.fused)
    assert fusion.nests
    assert list(differences(result.spec.with_mapping(result.mapping))) == []


@pytest.mark.parametrize("case", WITH_ROOM)
def test_whole_tensors_that_stay_inside_agree_too(case):
    spec = spec_of(*WITH_ROOM[case])
    result = einmap.map_workload(spec)
    assert result.optimal
    assert fusion_of(result.mapping, result.spec).fused
    assert list(differences(result.spec.with_mapping(result.mapping))) == []
