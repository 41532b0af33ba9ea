"""The two presets of counting rules, as data that one engine reads.

`exact` counts what a machine does that executes the LoopTree as written: each visit of a storage node
fills its tile, the subtree uses it, an output tile is written back, the space is freed. `accelforge`
reproduces how AccelForge 1.0.467 counts dataflow. Each field is one place where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from einmap.errors import SpecError, did_you_mean


@dataclass(frozen=True, slots=True)
class Semantics:
    """One set of counting rules.

    `lowering`: a tile's space is reserved below the following relevant loops, not at its node.
    `lifetimes`: which loops keep a buffer alive while other Einsums run: those above the common split in
    the tree, or those that shared tensors stand under.
    `buffer_above_split`: a storage node above a split is one buffer, or one for each Einsum below.
    `lane_first_touch`: lanes of a spatial reduction: one starts from the parent's values, or every lane.
    `initial_exchange`: the first exchange of an output tile is free when both sides skip it, or each
    side decides for itself.
    `partial_first_touch`: first touches under partially relevant loops are the distinct elements, or
    those of one position of these loops.
    `network_traffic`: networks carry everything that is exchanged, or what each lane needs within the loops above its
    own once in one direction, and of several networks on the way only the outermost one.
    `sliding_window`: whether storage nodes may keep what the visit before held (the option of that name).
    `partial_sums`: whether they may have a width of their own (`partial_bits_per_value`).
    `min_usage`: the best reachable usage is judged over the whole space, or for each template.
    """

    name: str
    lowering: bool
    lifetimes: Literal["tree", "shared tensors"]
    buffer_above_split: Literal["one", "each Einsum"]
    lane_first_touch: Literal["one lane", "every lane"]
    initial_exchange: Literal["both sides", "each side"]
    partial_first_touch: Literal["distinct elements", "one position"]
    min_usage: Literal["whole space", "template"]
    network_traffic: Literal["all", "one delivery"] = "all"
    sliding_window: bool = True
    partial_sums: bool = True


EXACT = Semantics(
    name="exact",
    lowering=False,
    lifetimes="tree",
    buffer_above_split="one",
    lane_first_touch="one lane",
    initial_exchange="both sides",
    partial_first_touch="distinct elements",
    min_usage="whole space",
)
ACCELFORGE = Semantics(
    name="accelforge",
    lowering=True,
    lifetimes="shared tensors",
    buffer_above_split="each Einsum",
    lane_first_touch="every lane",
    initial_exchange="each side",
    partial_first_touch="one position",
    min_usage="template",
    network_traffic="one delivery",
    sliding_window=False,
    partial_sums=False,
)
PRESETS = {preset.name: preset for preset in (EXACT, ACCELFORGE)}


def semantics_named(name: str | Semantics) -> Semantics:
    """The preset of that name; a Semantics value passes through. Raises SpecError."""
    if isinstance(name, Semantics):
        return name
    if name not in PRESETS:
        raise SpecError(f"unknown semantics {name!r}", hint=did_you_mean(name, PRESETS, listing="presets"))
    return PRESETS[name]
