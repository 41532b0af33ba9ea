"""Input models of mapping nodes: one class for each tag; `nodes` is read by `spec.loop_tree`."""

from __future__ import annotations

from pydantic import StrictBool

from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented
from einmap.spec.schema.sparsity import FormatInput


class NodeInput(Input):
    """Fields of all nodes."""

    text: str | None = documented(
        "A label. It is not a part of the mapping; `einmap dump` keeps it.", "one row at a time"
    )


class LoopInput(NodeInput):
    """Fields of all loops. Values may differ by Einsum: `rank_variable: {EinsumA: m, EinsumB: p}`."""

    rank_variable: str | dict[str, str] = documented(
        "The rank variable that the loop cuts; above a split perhaps another one for each Einsum.",
        *("m", {"T": "h", "Z": "p"}),
        default=...,
    )
    tile_shape: Expression | dict[str, Expression] | None = documented(
        "How many values of the rank variable one iteration has. The loop runs extent / `tile_shape` times, rounded "
        "up, and the last tile may be shorter; the extent is what the next outer loop over the variable leaves, or "
        "its bound. The innermost loop over every variable has 1. An integer, such as `4 * 8`.",
        *(16, {"T": 2, "Z": 2}),
        unit="values of the rank variable",
        without="open in a partly given mapping, else an error",
    )
    n_iterations: Expression | None = documented(
        "Refused: the number of iterations follows from `tile_shape`.", refused=True
    )


class TemporalInput(LoopInput):
    """`!Temporal`: iterations one after another."""

    initial_tile_shape: Expression | dict[str, Expression] | None = documented(
        "How many values the first iteration has, where that is another number: a whole window, say, of which later "
        "iterations need the new part only.",
        *(4, {"T": 4, "Z": 2}),
        unit="values of the rank variable",
        without="as `tile_shape`",
    )


class SpatialLoopInput(LoopInput):
    """`!Spatial`: iterations side by side, each on a copy that a fanout makes."""

    component: str = documented("The node of the architecture whose fanout is used.", "Array", default=...)
    name: str = documented("The dimension of that fanout.", "X", default=...)


class TollNodeInput(NodeInput):
    """`!Toll`: tensors pass a toll of the architecture here."""

    tensors: list[str] | str = documented(
        "Names of tensors, or a single name. Several tensors are as many nodes in a row; what an Einsum below does "
        "not use is not there for it.",
        *(["A", "B"], "A"),
        default=...,
    )
    component: str = documented(
        "The memory that holds them, or the toll that they pass, in the architecture.", "GlobalBuffer", default=...
    )
    persistent: StrictBool = documented(
        "Whether the tiles stay in the memory at all times, once for each of `n_instances`, and not only while what "
        "is below runs. Not for tolls.",
        True,
        default=False,
    )


class StorageInput(TollNodeInput):
    """`!Storage`: from here down, a memory holds the tile of each tensor that the loops above leave."""

    sliding_window: StrictBool | None = documented(
        "Whether the node is a line buffer: where tiles in a row overlap, only what is new is brought in.",
        True,
        without="as `model.sliding_window`",
    )


class ComputeNodeInput(NodeInput):
    """`!Compute`: runs one Einsum; every branch of the tree ends in one."""

    einsum: str = documented("The Einsum that runs here; each is in the tree once.", "Z", default=...)
    component: str = documented("The compute of the architecture that runs it.", "MAC", default=...)


class PartialComputeInput(NodeInput):
    """`!Compute` of a partly given mapping: what is not written is free."""

    einsum: str | None = documented(
        "The Einsum that runs here.", "Z", without="the only Einsum, or the one whose mapping is given"
    )
    component: str | None = documented(
        "The compute of the architecture that runs it.", "MAC", without="any, as it is best"
    )


class AnyInput(NodeInput):
    """`!Any` of a partly given mapping: nodes may be inserted here."""

    temporal: StrictBool = documented(
        "Whether temporal loops may come in, too: with `false` storage nodes, tolls and lanes alone, so that the "
        "order of the given loops is the whole order.",
        False,
        default=True,
    )


class SplitInput(NodeInput):
    """`!Sequential` (or `!Split`): branches one after another, each a `!Nested` list of nodes, one below the other."""


class PipelineInput(SplitInput):
    """`!Pipeline`: branches at the same time, each a stage on hardware of its own, a `!Nested` list of nodes.

    Each works on the tile that the one before has done.
    """

    component: str | None = documented(
        "The node of the architecture that has the fanout `name`.",
        "Array",
        without="every stage has compute units of its own",
    )
    name: str | None = documented(
        "The dimension along which the stages stand side by side: each takes as many lanes as its spatial loops over "
        "it need.",
        "X",
        without="every stage has compute units of its own",
    )


class MappingInput(Input):
    """The top-level key `mapping`: a LoopTree, from the outermost node in."""

    title: str | None = documented("A label. It is not a part of the mapping.", "output stationary")
    shared_inputs: dict[str, str] = documented(
        "Inputs of which the mapping holds a copy that several Einsums read, with the name of each copy. `einmap map` "
        "writes it where that is best.",
        {"I": "I_shared"},
        default={},
    )
    layouts: dict[str, dict[str, list[str] | dict[str, Expression]]] = documented(
        "Layouts that the mapping is made for, by memory and tensor, where the architecture leaves them open: an "
        "order of ranks, or a block. `einmap map` writes it; it becomes `chosen` of the memory's `layout`.",
        {"DRAM": {"A": ["M", "K"]}},
        default={},
    )
    formats: dict[str, dict[str, FormatInput]] = documented(
        "Formats that the mapping is made for, by memory and tensor, where `sparsity.formats` has lists of them. "
        "`einmap map` writes it; it becomes `sparsity.chosen`.",
        {"DRAM": {"A": "csr"}},
        kind="dictionary of dictionaries of names, or of lists of levels",
        default={},
    )
    rewrites: list[str] = documented(
        "Changes of the cascade that the mapping is made for, done when it is loaded with the workload as it was. "
        "`einmap map --rewrites` writes them.",
        ["online_softmax P=512"],
        default=[],
    )


NODES: dict[str, type[Input]] = {
    "Temporal": TemporalInput,
    "Spatial": SpatialLoopInput,
    "Storage": StorageInput,
    "Toll": TollNodeInput,
    "Compute": ComputeNodeInput,
    "Sequential": SplitInput,
    "Split": SplitInput,
    "Pipeline": PipelineInput,
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
    "Pipeline": PipelineInput,
    "Nested": SplitInput,
}
"""The tags of a partly given mapping."""
IGNORED = ("Reservation", "TextBox")
"""Nodes that other tools write and that say nothing to the model."""
LATER = {"Mapping": "a mapping inside a mapping"}
"""Known tags that are not supported yet."""
