"""How Megatron-Bridge's recipes run models with experts: facts of its repository, none of which is fitted.

Read off `scripts/performance/configs` of NVIDIA-NeMo/Megatron-Bridge (Apache-2.0) at v0.3.0 (26.02), v0.3.1, v0.4.0
(26.04), v0.4.1, v0.5.0 (26.06) and v0.5.1, pretraining in BF16 and MXFP8 (H100: FP8): `moe_flex_dispatcher_backend`,
`moe_a2a_overlap`, `cuda_graph_impl` and `cuda_graph_scope` of the variant with the same shape of parallelism.
Gradients are summed in 16 bits in all of them (`grad_reduce_in_fp32 = False`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """`once`: a position is sent once to each device that has some of its experts (HybridEP, DeepEP), not once for each
    expert; `overlap`: what is sent to experts and back is hidden behind computing; `graphs`: kernels of attention are
    started by graphs, not one by one by a host.
    """

    once: bool
    overlap: bool
    graphs: bool


RECIPES = {
    ("DeepSeekV3", "DGX-GB300"): "26.02 once, 26.06 once overlap graphs",
    ("DeepSeekV3", "DGX-GB200"): "26.02 once graphs, 26.06 once overlap graphs",
    ("DeepSeekV3", "DGX-B300"): "26.02 once, 26.06 once graphs, 26.06.01 once overlap graphs",
    ("DeepSeekV3", "DGX-B200"): "26.02 once",
    ("DeepSeekV3", "DGX-B200", 32): "26.02 once overlap graphs",
    ("GPT OSS 120B", "DGX-GB300"): "26.02 graphs, 26.06 once overlap graphs",
    ("GPT OSS 120B", "DGX-GB200"): "26.02, 26.04 once overlap, 26.06 once overlap graphs",
    ("GPT OSS 120B", "DGX-B300"): "26.02 graphs, 26.04 once graphs",
    ("GPT OSS 120B", "DGX-B200"): "26.02, 26.04 once, 26.06",
    ("GPT OSS 120B", "DGX-H100"): "26.02",
    ("Qwen3_30B_a3B", "DGX-GB300"): "26.02 once, 26.06 once overlap graphs",
    ("Qwen3_30B_a3B", "DGX-GB200"): "26.02 once, 26.06 once overlap graphs",
    ("Qwen3_30B_a3B", "DGX-B300"): "26.02 once, 26.06 once overlap graphs",
    ("Qwen3_30B_a3B", "DGX-B200"): "26.02, 26.02.01 once graphs, 26.06.01 once overlap graphs",
    ("Qwen3_30B_a3B", "DGX-H100"): "26.02.01 once",
    ("Qwen3_30B_a3B", "DGX-H100", 8): "26.02 once overlap",
    ("Qwen3_235B_a22B", "DGX-GB300"): "26.02 once graphs, 26.06 once overlap graphs",
    ("Qwen3_235B_a22B", "DGX-GB200"): "26.02 once graphs, 26.06 once overlap graphs",
    ("Qwen3_235B_a22B", "DGX-B300"): "26.02 overlap, 26.02.01 once, 26.04, 26.06 once, 26.06.01 once overlap graphs",
    ("Qwen3_235B_a22B", "DGX-B200"): "26.02, 26.02.01 once, 26.04, 26.06.01 once overlap graphs",
    ("Qwen3_235B_a22B", "DGX-H100"): "26.02 overlap",
    ("Kimi_K2", "DGX-GB300"): "26.02 once",
    ("Kimi_K2", "DGX-GB200"): "26.02 once",
    ("Kimi_K2", "DGX-B300"): "26.02",
    ("Kimi_K2", "DGX-B200"): "26.02",
    ("Kimi_K2", "DGX-H100"): "26.02",
}
"""From which release on; with a number of expert parallel devices where a variant with so many differs: that of
DeepSeek V3 on B200 with 32 is in the repository from v0.5.0 on, that of Qwen3 30B on H100 with 8 in v0.3.0 alone.
"""


def recipe_of(model: str, system: str, release: str, expert_parallel: int) -> Recipe:
    """The recipe of a model with experts."""
    listed = RECIPES.get((model, system, expert_parallel)) or RECIPES[model, system]
    said = [words.split() for words in listed.split(",")]
    words = next(words for words in reversed(said) if words[0] <= release or words is said[0])
    return Recipe("once" in words, "overlap" in words, "graphs" in words)


def places_reached(places: int, top: int) -> float:
    """How many of so many places have some of the `top` experts of a position, on average, where all are alike."""
    return places * (1 - (1 - 1 / places) ** top)
