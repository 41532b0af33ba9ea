"""Input models of mapping nodes: one class for each tag; `nodes` is read by `spec.loop_tree`."""

from __future__ import annotations

from pydantic import StrictBool

from einmap.spec.schema.base import Expression, Input


class NodeInput(Input):
    """What all nodes share: `text` is a label for drawings."""

    text: str | None = None


class LoopInput(NodeInput):
    """What loops share. Values may differ by Einsum: `rank_variable: {EinsumA: m, EinsumB: p}`."""

    rank_variable: str | dict[str, str]
    tile_shape: Expression | dict[str, Expression] | None = None
    n_iterations: Expression | None = None


class TemporalInput(LoopInput):
    """`!Temporal`."""

    initial_tile_shape: Expression | dict[str, Expression] | None = None


class SpatialLoopInput(LoopInput):
    """`!Spatial`."""

    component: str
    name: str


class TollNodeInput(NodeInput):
    """`!Toll`."""

    tensors: list[str] | str
    component: str
    persistent: StrictBool = False


class StorageInput(TollNodeInput):
    """`!Storage`."""

    sliding_window: StrictBool | None = None


class ComputeNodeInput(NodeInput):
    """`!Compute`."""

    einsum: str
    component: str


class PartialComputeInput(NodeInput):
    """`!Compute` of a partly given mapping: what is not written is free."""

    einsum: str | None = None
    component: str | None = None


class AnyInput(NodeInput):
    """`!Any` of a partly given mapping: nodes may be inserted here."""


class SplitInput(NodeInput):
    """`!Sequential`, `!Split`, `!Nested`: only `nodes`."""


class MappingInput(Input):
    """The top-level key `mapping`, its nodes apart. `shared_inputs`: copies of graph inputs that the mapping has."""

    title: str | None = None
    shared_inputs: dict[str, str] = {}


NODES: dict[str, type[Input]] = {
    "Temporal": TemporalInput,
    "Spatial": SpatialLoopInput,
    "Storage": StorageInput,
    "Toll": TollNodeInput,
    "Compute": ComputeNodeInput,
    "Sequential": SplitInput,
    "Split": SplitInput,
    "Nested": SplitInput,
}
PARTIAL_NODES: dict[str, type[Input]] = {
    "Temporal": TemporalInput,
    "Spatial": SpatialLoopInput,
    "Storage": StorageInput,
    "Toll": TollNodeInput,
    "Any": AnyInput,
    "Compute": PartialComputeInput,
    "Sequential": SplitInput,
    "Split": SplitInput,
    "Nested": SplitInput,
}
"""The tags of a partly given mapping."""
IGNORED = ("Reservation", "TextBox")
"""Nodes that other tools write and that say nothing to the model."""
LATER = {"Pipeline": "branches that run at the same time", "Mapping": "a mapping inside a mapping"}
"""Known tags that are not supported yet."""
